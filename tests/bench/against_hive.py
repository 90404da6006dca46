"""Times our jobs against Hive 4.0.1's own compactor on copies of the same tables, in turns, in one run.

    PYTHONPATH=tests taskset -c 0 .venv/bin/python -m bench.against_hive DIRECTORY [--rounds 5] [--query-based]

Starts the servers itself. DIRECTORY/big as bench.make_table makes it is compacted by major, DIRECTORY/small (fifty
deltas of 1,000 rows) by minor; both are made when they are not there. Hive's time is from the moment its worker takes
the request to "ready for cleaning"; ours is that of the whole job in a warm process, questions to the metastore
included. Both are warm: the first two rounds do not count. What Hive reads of the first results is compared.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import psycopg
from integration.harness import Jobs
from integration.hive4_jobs import Service
from integration.hive4_model import Lake, Made, local
from servers.fleet import Servers
from servers.metastore import Metastore
from servers.sql import Session

from acidlib.acid.names import Generation
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from bench.make_table import COLUMNS, make, write_file

POOL = "hive.compactor.worker.hive.threads"
SERVER = {POOL: "1", "hive.compactor.worker.sleep.time": "100ms", "hive.compactor.worker.max.sleep.time": "100ms"}
WARM_ROUNDS = 2
SMALL_DELTAS, SMALL_ROWS = 50, 1000
DATABASE = "against"
_CHECK = "select count(*), sum(id), sum(hash(customer, amount, ratio, flag, day, ts, status, city, code, note, items))"
_TYPES = dict(column.split(":", 1) for column in COLUMNS.replace("12,2", "12;2").split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table and how it is compacted."""

    kind: str
    files: Path
    write_ids: int


def make_small(directory: Path) -> None:
    """Deltas of some inserts each."""
    for number in range(SMALL_DELTAS):
        name = f"delta_{number + 1:07d}_{number + 1:07d}_0000"
        write_file(directory / name / "bucket_00000", number + 1, SMALL_ROWS, number * SMALL_ROWS)


class Bench:
    """Both compactors on one metastore."""

    def __init__(self, lake: Lake, session: Session, service: Service) -> None:
        self._lake = lake
        self._hive = session
        self._service = service

    def table(self, name: str, case: Case) -> Made:
        """A copy of a case's files as a table, with committed write ids."""
        columns = ", ".join(f"`{key}` {kind.replace(';', ',')}" for key, kind in _TYPES.items())
        full = f"{DATABASE}.{name}"
        self._hive.run(f"create table {full} ({columns}) stored as orc tblproperties ('transactional'='true')")
        found = self._lake.hms.table(TableRef(DATABASE, name))
        assert found is not None
        location = local(found.storage.location)
        shutil.copytree(case.files, location, dirs_exist_ok=True)
        for _ in range(case.write_ids):
            txn = self._lake.open("writer")
            self._lake.hms.allocate_write_id(txn, TableRef(DATABASE, name))
            self._lake.hms.commit_txn(txn, TxnType.DEFAULT)
        return Made(database=DATABASE, name=name, location=location, places=())

    def hive(self, made: Made, kind: str) -> float:
        """Seconds of Hive's own worker."""
        number = self._lake.request(made, kind, pool=POOL)
        url = self._lake.metastore.database_url.replace("postgresql+psycopg://", "postgresql://")
        asked = 'select "CQ_STATE", "CQ_START" from "COMPACTION_QUEUE" where "CQ_ID" = %s'
        with psycopg.connect(url, autocommit=True) as connection:
            while (row := connection.execute(asked, [number]).fetchone()) is not None and row[0] in "iw":
                time.sleep(0.02)
            ended = time.time()
        if row is None or row[0] != "r":
            raise SystemExit(f"Hive did not compact {made.full}: {[it.error_message for it in self._lake.of(made)]}")
        return ended - row[1] / 1000

    def ours(self, made: Made, kind: str) -> float:
        """Seconds of our job."""
        self._lake.request(made, kind)
        start = time.perf_counter()
        ran = self._service.good(f"{kind}_compact")
        seconds = time.perf_counter() - start
        if ran.states != ["ready for cleaning"]:
            raise SystemExit(f"we did not compact {made.full}: {ran.out}")
        return seconds

    def rows(self, made: Made) -> str:
        """What Hive reads now, in three numbers."""
        return str(self._hive.run(f"{_CHECK} from {made.full}"))


def result_bytes(before: set[str], made: Made) -> int:
    """Of the bucket files of the directories that a compaction added."""
    added = [path for path in made.location.iterdir() if path.name not in before and path.name[0] not in "_."]
    return sum(file.stat().st_size for path in added for file in path.glob("bucket_*"))


def measure(bench: Bench, case: Case, rounds: int) -> None:
    """Prints medians and their ratio."""
    works: dict[str, Callable[[Made, str], float]] = {"hive": bench.hive, "ours": bench.ours}
    times: dict[str, list[float]] = {name: [] for name in works}
    sizes: dict[str, int] = {}
    rows: set[str] = set()
    before = {path.name for path in case.files.iterdir()}
    for number in range(WARM_ROUNDS + rounds):
        for name, work in works.items():
            made = bench.table(f"{case.kind}_{name}_{number}", case)
            seconds = work(made, case.kind)
            if number >= WARM_ROUNDS:
                times[name].append(seconds)
            sizes[name] = result_bytes(before, made)
            if number == 0:
                rows.add(bench.rows(made))
            shutil.rmtree(made.location)
    if len(rows) != 1:
        raise SystemExit(f"Hive reads different rows: {rows}")
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, found in times.items():
        print(
            f"{case.kind} {name}: {medians[name]:7.3f} s ({min(found):.3f} to {max(found):.3f}), {sizes[name]} bytes",
            flush=True,
        )
    print(f"{case.kind} hive / ours: {medians['hive'] / medians['ours']:.1f}", flush=True)


@contextmanager
def servers(place: Path, *, query_based: bool) -> Iterator[tuple[Metastore, Session]]:
    """A metastore, and HiveServer2 with one thread of Hive's compactor, which works for its own pool only."""
    fleet = Servers(lambda name: Path(tempfile.mkdtemp(prefix=name, dir=place)))
    try:
        metastore = fleet.metastore(Generation.HIVE4)
        server = fleet.hiveserver(metastore, worker_threads=1, query_based=query_based, properties=SERVER)
        with server.hive.session() as session:
            yield metastore, session
    finally:
        fleet.close()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rounds", default=5, show_default=True)
@click.option("--query-based", is_flag=True, help="Hive compacts by queries on Tez instead of by MapReduce.")
def main(directory: Path, rounds: int, query_based: bool) -> None:
    """Measure the tables in DIRECTORY."""
    big, small = directory / "big", directory / "small"
    if not big.exists():
        make(big)
    if not small.exists():
        make_small(small)
    with (
        tempfile.TemporaryDirectory(dir=directory) as name,
        servers(Path(name), query_based=query_based) as (metastore, session),
        Lake(metastore, database=DATABASE) as lake,
    ):
        jobs = Jobs(queue_url=f"sqlite:///{name}/queue.db")
        bench = Bench(lake, session, Service(jobs=jobs, uri=metastore.uri))
        measure(bench, Case(kind="minor", files=small, write_ids=SMALL_DELTAS), rounds)
        measure(bench, Case(kind="major", files=big, write_ids=len(list(big.iterdir()))), rounds)


if __name__ == "__main__":
    main()
