"""How long the plan of a read of many small partitions takes, against the initiator's scan of the same ones.

    PYTHONPATH=tests .venv/bin/python -m bench.many_snapshots DIRECTORY [--metastore 3] [--places 10000] [--repeat 3]

Both are done in this process, in turns, so that neither has a start of Spark or Python in it: the initiator decides of
each place whether a compaction is due (a dry run), the snapshot lists each and makes its splits. The last plan reads
one partition of all, by a condition. CPU is that of all threads of this process.

With --metastore a metastore of that Hive is started in DIRECTORY, and both ask it for the partitions and write ids; the
snapshot has its locks as well. CPU of the metastore with its database is shown beside. Without it both go by the
directories, and the snapshot is opened once with the table's columns stated, too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from integration.hive4_model import Lake
from servers.fleet import Servers

import acidlib
from acidlib.acid.names import Generation
from bench.many_places import COLUMNS, SMALL, USUAL, Shape, make_places
from bench.partitions_against_hive import make_partitions
from bench.processes import below, cpu_seconds


@dataclass(frozen=True, slots=True)
class Bench:
    """What is planned, by several ways to open the same table, and the processes of the metastore with its database."""

    lake: acidlib.Lake
    tables: dict[str, acidlib.Table]
    places: int
    servers: tuple[int, ...] = ()

    def run(self, repeat: int) -> None:
        """Plan so many times, in turns."""
        one = f"p = '{self.places // 2}'"
        for _ in range(repeat):
            self.timed("initiator", self.decisions)
            for name, table in self.tables.items():
                self.timed(name, partial(self.planned, table))
            self.timed("snapshot, one of all", partial(self.planned, table, one))

    def timed(self, name: str, work: Callable[[], int]) -> None:
        """Print the places that the work returns, and its seconds."""
        wall, cpu, other = time.monotonic(), time.process_time(), self.of_servers()
        places = work()
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        servers = f", of the metastore {self.of_servers() - other:.2f} s" if self.servers else ""
        print(f"{name}: {places} places, {wall:.2f} s, CPU {cpu:.2f} s{servers}", flush=True)

    def of_servers(self) -> float:
        """Seconds of CPU of the metastore with its database so far."""
        return cpu_seconds(pid for server in self.servers for pid in below(server))

    def decisions(self) -> int:
        """The initiator's decisions."""
        return len(self.lake.initiate(dry_run=True, progress=False).entries)

    def planned(self, table: acidlib.Table, where: str | None = None) -> int:
        """The places of a snapshot."""
        with table.snapshot(where=where) as snapshot:
            if not snapshot.splits:
                raise SystemExit("nothing is to be read")
            return snapshot.places


def by_directory(directory: Path, places: int, shape: Shape) -> Bench:
    """A table of so many partitions that no metastore knows."""
    location = make_places(directory / "many", places, shape)
    columns = COLUMNS.removeprefix("struct<").removesuffix(">").replace(":", " ")
    queue = f"sqlite:///{directory}/queue.db"
    plain = acidlib.directory(location, all_committed=True, queue=queue)
    stated = acidlib.directory(location, all_committed=True, columns=columns, table_kind="full", hive_version=3)
    lake = acidlib.warehouse(location.parents[1], all_committed=True, queue=queue)
    return Bench(lake, {"snapshot": plain, "snapshot, columns stated": stated}, places)


def by_metastore(directory: Path, generation: Generation, places: int, shape: Shape, repeat: int) -> None:
    """Measure a table of so many partitions of a metastore."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        place = Path(name)
        fleet = Servers(lambda kind: Path(tempfile.mkdtemp(prefix=kind, dir=place)))
        try:
            metastore = fleet.metastore(generation)
            lake = Lake(metastore, database="planned")  # ends with its metastore: it would drop each partition
            began = time.monotonic()
            make_partitions(lake, "t", places, shape)
            print(f"{places} partitions made in {time.monotonic() - began:.0f} s", flush=True)
            queue = None if generation is Generation.HIVE4 else f"sqlite:///{place}/queue.db"
            acid = acidlib.connect(metastore.uri, queue=queue)
            pids = tuple(pid for pid in (metastore.pid, fleet.postgres().pid) if pid is not None)
            Bench(acid, {"snapshot": acid.table("planned.t")}, places, pids).run(repeat)
        finally:
            fleet.close()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--metastore", type=click.Choice(["3", "4"]), help="Of this generation of Hive; none without it.")
@click.option("--places", default=10_000, show_default=True)
@click.option("--repeat", default=3, show_default=True)
@click.option("--small", is_flag=True, help="Three directories a place instead of seven.")
def main(directory: Path, metastore: str | None, places: int, repeat: int, small: bool) -> None:
    """Make the places in DIRECTORY, and plan."""
    directory.mkdir(parents=True, exist_ok=True)
    shape = SMALL if small else USUAL
    if metastore is None:
        by_directory(directory, places, shape).run(repeat)
    else:
        by_metastore(directory, Generation(int(metastore)), places, shape, repeat)


if __name__ == "__main__":
    main()
