"""Times our job against Hive 4.0.1's own workers on many small partitions, from requests to "ready for cleaning".

    PYTHONPATH=tests .venv/bin/python -m bench.partitions_against_hive DIRECTORY [--partitions 1000] [--threads 2]

Starts the servers itself, in DIRECTORY. Two tables have so many partitions, as those of bench.many_places; all wait in
a pool that nobody serves, until one statement hands them to Hive's workers (MapReduce, as many threads as our run has
cores), or to one `spark-submit` of ours. Hive's workers are warm; ours includes Spark's start, and places a second are
those from the first that is ready to the last. CPU is that of HiveServer2 or of our run, and that of the metastore with
PostgreSQL, which is told alone, too. The calls that a place costs are counted in runs without Spark. What Hive reads of
both results is compared, where both had as many places.

On a machine with more cores put `taskset -c 0,1` before it.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psycopg
from integration.harness import Jobs
from integration.hive4_model import Lake, Made, local
from integration.hive4_proxy import Proxy
from integration.metastore_writes import NewTable
from servers.fleet import Servers
from servers.sql import Session

from acidlib.acid.names import Generation
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from bench.against_hive import POOL
from bench.many_places import COLUMNS, ROOT, USUAL, Shape, fill_places, job
from bench.processes import below, cpu_seconds

DATABASE = "partitions"
PARKED = "nobodys"
BATCH = 500
WARM, FEW, MORE = 8, 3, 20
_FIELDS = tuple((name, kind) for name, kind in re.findall(r"(\w+):(\w+)", COLUMNS))
_CHECK = "select count(*), sum(id), sum(hash(name, amount)) from {}"
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Seconds until all was ready for cleaning; of CPU, of the compactor, and of the metastore and its database.

    rate  places a second, from the first that was ready for cleaning to the last
    """

    seconds: float
    rate: float
    own_cpu: float
    metastore_cpu: float

    @property
    def cpu(self) -> float:
        return self.own_cpu + self.metastore_cpu


class Bench:
    """Both compactors on one metastore."""

    def __init__(
        self, lake: Lake, hive: Session, database: psycopg.Connection[Any], servers: Sequence[int | None], home: Path
    ) -> None:
        """``servers`` are HiveServer2 with Hive's own workers, the metastore, and PostgreSQL; its database is open."""
        self._lake = lake
        self._hive = hive
        self._database = database
        self._hiveserver, *self._metastore = servers
        self._home = home

    def table(self, name: str, count: int) -> Made:
        """A table of so many partitions with committed write ids, of each of which a request is parked."""
        location = make_partitions(self._lake, name, count)
        made = Made(database=DATABASE, name=name, location=location, places=())
        for number in range(count):
            self._lake.request(made, partition=f"p={number}", pool=PARKED)
        return made

    def hive(self, made: Made, count: int) -> Drained:
        """By Hive's own workers."""
        before, began = self._cpu(self._hiveserver), time.perf_counter()
        self._hand_over(POOL)
        while (states := self._states(made)).keys() & {"i", "w"}:
            time.sleep(_LOOK_SECONDS)
        seconds = time.perf_counter() - began
        if states != {"r": count}:
            raise SystemExit(f"Hive did not compact {made.full}: {states}")
        own, other = (now - then for now, then in zip(self._cpu(self._hiveserver), before, strict=True))
        return Drained(seconds=seconds, rate=self._rate(made, count), own_cpu=own, metastore_cpu=other)

    def ours(self, made: Made, count: int, cores: int) -> Drained:
        """By one run over the queue."""
        self._hand_over(None)
        _, before = self._cpu(None)
        ran = job(ROOT, cores, self._home, "major_compact", "--metastore-uri", self._lake.metastore.uri)
        _require_done([entry["state"] for entry in ran.entries], count)
        _, other = self._cpu(None)
        return Drained(seconds=ran.seconds, rate=self._rate(made, count), own_cpu=ran.cpu, metastore_cpu=other - before)

    def calls(self, count: int) -> int:
        """What a run asks the metastore that has one connection to it."""
        self._hand_over(None)
        jobs = Jobs(queue_url=f"sqlite:///{self._home}.db")
        with Proxy(self._lake.metastore) as proxy:
            _require_done(jobs.good("major_compact", "--metastore-uri", proxy.uri).states, count)
            return sum(proxy.calls.values())

    def rows(self, made: Made) -> str:
        """What Hive reads now, in three numbers."""
        return str(self._hive.run(_CHECK.format(made.full)))

    def _states(self, made: Made) -> dict[str, int]:
        asked = 'select "CQ_STATE", count(*) from "COMPACTION_QUEUE" where "CQ_TABLE" = %s group by "CQ_STATE"'
        return dict(self._database.execute(asked, [made.name]).fetchall())

    def _rate(self, made: Made, count: int) -> float:
        asked = 'select min("CQ_COMMIT_TIME"), max("CQ_COMMIT_TIME") from "COMPACTION_QUEUE" where "CQ_TABLE" = %s'
        ((first, last),) = self._database.execute(asked, [made.name]).fetchall()
        return 1000 * (count - 1) / max(1, last - first)

    def _cpu(self, compactor: int | None) -> tuple[float, float]:
        """Of a compactor so far, and of the metastore with its database."""
        return _cpu(compactor), _cpu(*self._metastore)

    def _hand_over(self, pool: str | None) -> None:
        self._lake.sql('update "COMPACTION_QUEUE" set "CQ_POOL_NAME" = %s where "CQ_POOL_NAME" = %s', pool, PARKED)


def make_partitions(lake: Lake, name: str, count: int, shape: Shape = USUAL) -> Path:
    """Make a table of so many partitions, whose write ids are committed, in the lake's database; return where it is."""
    new = NewTable(columns=_FIELDS, partition_keys=(("p", "int"),))
    ref = TableRef(lake.database, name)
    lake.writes.table(ref.database, name, new)
    found = lake.hms.table(ref)
    assert found is not None
    location = local(found.storage.location)
    parts = [(f"parts/{number // BATCH}", number % BATCH) for number in range(count)]
    fill_places([location / folder / str(place) for folder, place in parts], shape)
    for first in range(0, count, BATCH):
        values = [[str(number)] for number in range(first, min(first + BATCH, count))]
        under = f"{found.storage.location}/parts/{first // BATCH}"
        lake.writes.partitions(ref.database, name, values, location=under, new=new)
    for _ in range(shape.last_write_id):
        txn = lake.open("writer")
        lake.hms.allocate_write_id(txn, ref)
        lake.hms.commit_txn(txn, TxnType.DEFAULT)
    return location


def _cpu(*servers: int | None) -> float:
    return cpu_seconds(pid for server in servers if server is not None for pid in below(server))


def _require_done(states: list[str], count: int) -> None:
    if states != ["ready for cleaning"] * count:
        raise SystemExit(f"we did not compact all of {count} places: {states}")


def measure(bench: Bench, *, partitions: int, hive_partitions: int, threads: int) -> None:
    """Prints a table."""
    bench.hive(bench.table("warm", WARM), WARM)
    began = time.perf_counter()
    theirs = bench.table("theirs", hive_partitions)
    print(f"{hive_partitions} partitions and requests made in {time.perf_counter() - began:.1f} s", flush=True)
    hive = bench.hive(theirs, hive_partitions)
    calls = []
    for name, count in (("few", FEW), ("more", FEW + MORE)):
        bench.table(name, count)
        calls.append(bench.calls(count))
    own = bench.table("own", partitions)
    ours = bench.ours(own, partitions, threads)
    print(
        f"{'':29}{'seconds':>8}{'a second':>10}{'CPU ms a place':>16}{'the metastore':>15}{'hive / this':>13}{'CPU':>6}"
    )
    done = {f"Hive, {threads} threads": (hive, hive_partitions), "ours, Spark's start included": (ours, partitions)}
    for title, (one, count) in done.items():
        cpu, metastore = (1000 * seconds / count for seconds in (one.cpu, one.metastore_cpu))
        times = hive.seconds / hive_partitions / (one.seconds / count)
        times_cpu = hive.cpu / hive_partitions / (one.cpu / count)
        print(f"{title:29}{one.seconds:8.1f}{one.rate:10.2f}{cpu:16.0f}{metastore:15.0f}{times:13.1f}{times_cpu:6.1f}")
    print(f"from the first place that is ready to the last: {ours.rate / hive.rate:.1f} times as many a second")
    print(f"{(calls[1] - calls[0]) / MORE:.1f} calls of the metastore a place")
    if hive_partitions == partitions and bench.rows(theirs) != bench.rows(own):
        raise SystemExit(f"Hive reads different rows: {bench.rows(theirs)} of its own, {bench.rows(own)} of ours")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--partitions", default=1000, show_default=True)
@click.option("--hive-partitions", type=int, help="Of Hive's half, which is slow; else as many. Figures are by place.")
@click.option("--threads", default=2, show_default=True, help="Of Hive's workers, and cores of our run.")
def main(directory: Path, partitions: int, hive_partitions: int | None, threads: int) -> None:
    """Measure in DIRECTORY."""
    directory.mkdir(parents=True, exist_ok=True)
    sleep = dict.fromkeys(("hive.compactor.worker.sleep.time", "hive.compactor.worker.max.sleep.time"), "500ms")
    with tempfile.TemporaryDirectory(dir=directory) as name:
        place = Path(name)
        fleet = Servers(lambda kind: Path(tempfile.mkdtemp(prefix=kind, dir=place)))
        try:
            metastore = fleet.metastore(Generation.HIVE4)
            server = fleet.hiveserver(
                metastore, worker_threads=threads, query_based=False, properties={POOL: str(threads), **sleep}
            )
            url = metastore.database_url.replace("postgresql+psycopg://", "postgresql://")
            with (
                psycopg.connect(url, autocommit=True) as database,
                server.hive.session() as session,
                Lake(metastore, database=DATABASE) as lake,
            ):
                pids = (server.pid, metastore.pid, fleet.postgres().pid)
                bench = Bench(lake, session, database, pids, place / "home")
                measure(bench, partitions=partitions, hive_partitions=hive_partitions or partitions, threads=threads)
        finally:
            fleet.close()


if __name__ == "__main__":
    main()
