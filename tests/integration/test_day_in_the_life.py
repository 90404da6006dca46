"""Writers, readers and our four jobs at work on tables of a real Hive 4 in all stores, all at once.

Now and then somebody aborts a writer's transaction. The day is over when everything has happened; the environment
variable ACIDLIB_DAY_SECONDS makes it longer.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from long_runs import amount
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from store_tables import StoreTables

from acidlib.errors import ConflictError
from acidlib.location import LOCAL, S3, Location, parse_location
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import ConnectionOptions
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import State
from acidlib.model.tables import TableRef
from integration.children import Child
from integration.day_crew import DATABASES, KINDS, PARTITIONS, PATIENCE_SECONDS, TABLES, Crew, Day, soon
from integration.harness import Jobs
from integration.hive4_jobs import Service
from integration.old_reader import OldReader

SECONDS = float(os.environ.get("ACIDLIB_DAY_SECONDS", "0"))
JOBS = (
    ("initiator", "--set", "hive.compactor.delta.num.threshold=1", "--set", "hive.compactor.delta.pct.threshold=3"),
    ("minor_compact",),
    ("major_compact",),
    ("cleaner", "--retention", "0s"),
)
COMPACTED = (State.READY_FOR_CLEANING, State.SUCCEEDED)
PAUSE_SECONDS = amount(4.0, long=2.0)
JOBS_SECONDS = 10.0
CHANGES_PER_ABORT = 6


def abort(day: Day, metastore: Metastore) -> None:
    """Aborts a writer's transaction now and then, one that has a write id already."""
    url = metastore.database_url.replace("postgresql+psycopg://", "postgresql://")
    find = """select "TXN_ID" from "TXNS" join "TXN_TO_WRITE_ID" on "T2W_TXNID" = "TXN_ID"
              where "TXN_STATE" = 'o' and "TXN_TYPE" = 0 and "T2W_TABLE" = 'life' order by 1 desc limit 1"""
    done = 0
    with psycopg.connect(url, autocommit=True) as database, connection(metastore) as hms:
        while not day.ended.wait(0.1):
            if day.changes < done + CHANGES_PER_ABORT:
                continue
            for (txn,) in database.execute(find):
                day.ended.wait(random.Random(txn).random())
                try:
                    hms.abort_txn(txn, TxnType.DEFAULT)
                except ConflictError:
                    continue  # it has ended meanwhile
                day.counts["aborts"] += 1
                done = day.changes


@contextmanager
def connection(metastore: Metastore) -> Iterator[Hms]:
    """To the metastore."""
    with connect_hms((metastore.uri,), ConnectionOptions(), user="day", host="testhost") as hms:
        yield hms


def loop(service: Service, job: tuple[str, ...], stop: Path, record: Path) -> None:
    """One of our jobs as cron runs it, in a process of its own."""
    with record.open("w") as out:
        while not stop.exists():
            ran = service(*job)
            entries = ran.document.get("compactions" if "compact" in job[0] else "cleanings", [])
            located = [(entry["state"], parse_location(entry["location"])) for entry in entries if entry["location"]]
            ends = [(state, str(location.kind)) for state, location in located]
            out.write(json.dumps({"status": ran.status, "ends": ends, "err": ran.err, "out": ran.out}) + "\n")
            out.flush()
            time.sleep(PAUSE_SECONDS)


# --- the day ----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.slow
def test_a_day_in_the_life(
    jobs: Jobs,
    hive4_metastore: Metastore,
    hiveserver: HiveServer,
    stores: StoreTables,
    tmp_path: Path,
) -> None:
    service = Service(jobs=jobs, uri=hive4_metastore.uri)
    statements = []
    for (kind, database), table in zip(DATABASES.items(), TABLES, strict=True):
        where = f" managedlocation '{stores.new_directory(kind)}/{database}.db'" if kind != LOCAL else ""
        statements += [
            f"create database {database}{where}",
            f"create table {table} (id int, v string, n int) partitioned by (p int) stored as orc "
            "tblproperties ('transactional'='true')",
            f"alter table {table} add {' '.join(f'partition (p={p})' for p in range(PARTITIONS))}",
        ]
    hiveserver.hive.run(*statements)
    day, stop = Day(), tmp_path / "stop"
    records = {job[0]: tmp_path / job[0] for job in JOBS}
    # before there are threads, as these are forked
    children = [
        Child(lambda job=job: loop(service, job, stop, records[job[0]]), tmp_path / f"{job[0]}.ended")  # type: ignore[misc]
        for job in JOBS
    ]
    with connection(hive4_metastore) as hms, ExitStack() as stack:
        places = find_places(hms)
        try:
            crew = Crew(day, hiveserver.hive, stack)
            old_reader = lambda: OldReader(hms, stores, places, tmp_path / "old reader")  # noqa: E731
            live(day, hive4_metastore, crew, hms, old_reader, service)
        finally:
            stop.touch()
            for child in children:
                child.wait()
        check_jobs({job: [json.loads(line) for line in path.read_text().splitlines()] for job, path in records.items()})
        finish(service, hms, stores, list(places))
        crew.read()
    print(dict(day.counts))  # shown with a failure, or by -s


def find_places(hms: Hms) -> dict[Location, TableRef]:
    """Where all partitions lie."""
    found = {}
    for kind, database in DATABASES.items():
        table = hms.table(TableRef(database, "life"))
        assert table is not None
        for partition in hms.partitions(table, hms.partition_names(TableRef(database, "life"))).values():
            place = parse_location(partition.storage.location)
            assert place.kind == kind
            found[place] = TableRef(database, "life")
    return found


def live(
    day: Day, metastore: Metastore, crew: Crew, hms: Hms, old_reader: Callable[[], OldReader], service: Service
) -> None:
    """Everybody at work."""
    with ThreadPoolExecutor(1) as beside:
        aborting = beside.submit(abort, day, metastore)
        try:
            crew.begin()
            crew.step("update", "merge", "delete")
            crew.go_on(SECONDS * 0.3, lambda: True)
            reader = old_reader()
            try:
                while_it_reads(crew, hms, reader, service)
                shown = service.good("show_compactions", "--blockers").document["blockers"]
                names = [entry["name"] for entry in shown if entry["id"] == reader.txn]
                assert all(any(name.startswith(table) for name in names) for table in TABLES), shown
                cleaned = requests(hms, State.SUCCEEDED)
            finally:
                reader.end()
            crew.step("delete", "merge", "update")
            crew.go_on(SECONDS * 0.3, lambda: all(day.counts[name] for name in (*KINDS, "aborted")))
            assert soon(lambda: everywhere(requests(hms, State.SUCCEEDED) - cleaned), PATIENCE_SECONDS)
        finally:
            day.ended.set()
        aborting.result()


def while_it_reads(crew: Crew, hms: Hms, reader: OldReader, service: Service) -> None:
    """In every store a compaction replaces what it reads, and a cleaner comes; then that is still there."""
    compacted = requests(hms, *COMPACTED)

    def replaced() -> bool:
        reader.beat()
        return everywhere(requests(hms, *COMPACTED) - compacted) and {
            place.kind for place in reader.compacted_since()
        } == set(DATABASES)

    crew.step("insert")
    crew.go_on(SECONDS * 0.4, lambda: soon(replaced, JOBS_SECONDS))
    service(*JOBS[-1])  # beside the one that comes again and again
    reader.check()


Request = tuple[int, str]


def requests(hms: Hms, *states: State) -> set[Request]:
    """Those of the day, by number and database."""
    return {
        (row.id, row.ref.database)
        for row in hms.show_compactions()
        if row.ref.database in DATABASES.values() and row.state in states
    }


def everywhere(found: set[Request]) -> bool:
    """Whether there is one for every store."""
    return {database for _, database in found} == set(DATABASES.values())


def met_another(states: list[str]) -> bool:
    return "conflict" in states and "failed" not in states


def check_jobs(records: dict[str, list[dict[str, Any]]]) -> None:
    """No run of our jobs went wrong, and together they got something done in every store."""
    for job, runs in records.items():
        assert runs, job
        # of two jobs that meet at one place the second leaves it for later
        wrong = [
            run
            for run in runs
            if "Traceback" in run["err"] or (run["status"] and not met_another([state for state, _ in run["ends"]]))
        ]
        assert not wrong, (job, wrong[0])
    done = Counter((state, kind) for runs in records.values() for run in runs for state, kind in run["ends"])
    for kind in map(str, DATABASES):
        assert done["ready for cleaning", kind], done
        assert done["succeeded", kind], done


def finish(service: Service, hms: Hms, stores: StoreTables, places: list[Location]) -> None:
    """When all is quiet, everything can be compacted and cleaned."""
    for job in ("minor_compact", "major_compact"):
        service.good(job)
    service.clean()
    service.good("major_compact", *itertools.chain(*(("--table", table) for table in TABLES)))
    for _ in range(5):
        if requests(hms, State.READY_FOR_CLEANING):
            service.clean()
    every = requests(hms, *State)
    assert every == requests(hms, State.SUCCEEDED, State.REFUSED), every
    for place in places:
        names = stores.names(place)
        (left,) = [name for name in names if name[0] not in "_."]
        assert left.startswith("base_")
        # in a bucket what says that nobody claims a place stays
        assert [name for name in names if name[0] == "_"] == (["_acidlib_claim"] if place.kind == S3 else [])
