"""Snapshots on real metastores: locked while they are open, safe from every cleaner, and over when their reader is."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pytest
from bench.read_while_compacted import course
from judges.tables import Transaction
from long_runs import amount
from pyspark.sql import DataFrame, SparkSession
from servers.metastore import Metastore

import acidlib
from acidlib.acid.names import Generation
from acidlib.metastore.transactions import LockType, TxnType
from acidlib.ports.hive4 import Hive4Hold
from acidlib.runs import snapshot as snapshots
from acidlib.spark import holds
from integration.conftest import SHORT
from integration.harness import Jobs, session_of_a_program
from integration.hive4_jobs import Service, wait_for
from integration.hive4_model import ABORTED, ACID_ROW, Lake, Made, rows

pytestmark = pytest.mark.live

CYCLES = 4
"""Seconds in which such a cleaner looks several times."""
PATIENCE = 200.0
"""Seconds in which it cleans on a busy machine: Hive 3.1 looks for dead locks and transactions every three minutes."""
GENERATIONS = pytest.mark.parametrize("generation", list(Generation), ids=str)


@pytest.fixture
def metastore(generation: Generation, request: pytest.FixtureRequest) -> Metastore:
    """A metastore that does nothing by itself."""
    quiet: Metastore = request.getfixturevalue(f"hive{generation.value}_metastore")
    return quiet


@pytest.fixture
def lake(metastore: Metastore) -> Iterator[Lake]:
    with Lake(metastore, database="snapshots") as made:
        yield made


@pytest.fixture
def service(jobs: Jobs, metastore: Metastore) -> Service:
    return Service(jobs=jobs, uri=metastore.uri)


def table(lake: Lake, made: Made) -> acidlib.Table:
    return acidlib.connect(lake.metastore.uri).table(made.full)


def rows_of(snapshot: acidlib.Snapshot) -> list[ACID_ROW]:
    """The rows of a snapshot with row ids, as the independent reader has them."""
    found = snapshot.to_arrow().to_pylist()
    return sorted((*row["row__id"].values(), (row["id"], row["v"])) for row in found)


def locks(lake: Lake, made: Made) -> list[tuple[LockType, str | None]]:
    held = lake.hms.show_locks(made.database, made.name)
    return sorted((lock.type, plain_name(lock.partition)) for lock in held if lock.agent.startswith("read by acidlib"))


def plain_name(partition: str | None) -> str | None:
    """Hive 3.1 keeps the partitions of locks in lower case, Hive 4 escapes them once more."""
    return partition and unquote(unquote(partition)).lower()


def open_readers(lake: Lake) -> set[int]:
    """Transactions that are open."""
    return {txn.id for txn in lake.hms.open_txns_info() if txn.state == "open"}


@GENERATIONS
@pytest.mark.parametrize("partitions", [(), ("a", "b:c", "d")], ids=["plain", "partitions"])
def test_it_is_locked_while_it_is_open(lake: Lake, partitions: tuple[str, ...]) -> None:
    made = lake.table("locked", ABORTED, partitions=partitions)
    wanted = {"where": "p <> 'a'"} if partitions else {}
    before = open_readers(lake)
    with table(lake, made).snapshot(columns=["id", "v"], row_ids=True, **wanted) as snapshot:
        names = [place.name for place in made.places if place.name != "p=a"]
        assert locks(lake, made) == [(LockType.SHARED_READ, plain_name(name)) for name in names]
        (txn,) = open_readers(lake) - before
        assert snapshot.lock_note.startswith(f"transaction {txn} holds ")
        assert rows_of(snapshot) == sorted(
            row for place in made.places if place.name in names for row in place.expected
        )
    assert (locks(lake, made), open_readers(lake)) == ([], before)


@GENERATIONS
def test_what_is_refused_leaves_nothing_locked(lake: Lake) -> None:
    made = lake.table("refused", partitions=("a",))
    before, reading = open_readers(lake), table(lake, made)
    with pytest.raises(acidlib.UsageError, match="it has the columns id, v, p"):
        reading.snapshot(columns=["nix"])
    with pytest.raises(acidlib.UsageError):
        reading.snapshot(where="id =")
    with pytest.raises(acidlib.MissingError, match="none matches p=z"):
        reading.snapshot(partitions="p=z")
    with pytest.raises(acidlib.MissingError, match=r"^Cannot read snapshots\.no: the metastore .* has no such table"):
        acidlib.connect(lake.metastore.uri).table("snapshots.no").snapshot()
    (made.place.location / "delta_0000009_0000009").symlink_to(made.place.location)
    with pytest.raises(acidlib.RefusedError, match="symbolic link"):
        reading.snapshot()
    assert (locks(lake, made), open_readers(lake)) == ([], before)


@GENERATIONS
def test_a_snapshot_stays_what_it_was(lake: Lake) -> None:
    """Later writes, and those of transactions that were open, are no part of it."""
    made = lake.table("still")
    txn, _ = lake.write(made)
    with table(lake, made).snapshot(columns=["id", "v"], row_ids=True) as snapshot:
        lake.hms.commit_txn(txn, TxnType.DEFAULT)
        lake.add(made, [Transaction(inserts=rows(500, 3))], first_id=5)
        assert rows_of(snapshot) == made.expected


@GENERATIONS
@pytest.mark.parametrize("partitions", [(), ("a", "b")], ids=["plain", "partitions"])
def test_our_cleaner_keeps_what_it_reads(lake: Lake, service: Service, partitions: tuple[str, ...]) -> None:
    made = lake.table("kept", ABORTED, partitions=partitions)
    inputs = [place.directories() for place in made.places]
    with table(lake, made).snapshot(columns=["id", "v"], row_ids=True) as snapshot:
        assert service.compact(made).states == ["ready for cleaning"] * len(made.places)
        cleaned = service.clean("--table", made.full)
        assert [entry["removed"] for entry in cleaned] == [[]] * len(made.places)
        assert all("is open since before" in entry["reason"] for entry in cleaned), cleaned
        assert [
            sorted(set(place.directories()) & set(old)) for place, old in zip(made.places, inputs, strict=True)
        ] == inputs
        assert rows_of(snapshot) == made.expected
    service.clean("--table", made.full)
    assert [len(place.directories()) for place in made.places] == [1] * len(made.places)
    with table(lake, made).snapshot(columns=["id", "v"], row_ids=True) as again:
        assert rows_of(again) == made.expected
    lake.check(made)


def test_a_publication_by_two_renames_waits_for_it(hive3_metastore: Metastore, jobs: Jobs, tmp_path: Path) -> None:
    """Hive 3.1 sees each rename, so that a listing between the two would be wrong."""
    with Lake(hive3_metastore, database="snapshots") as lake:
        service, made = Service(jobs=jobs, uri=hive3_metastore.uri), lake.table("renamed")
        minor = ("minor_compact", "--table", made.full, "--minor-as-major-bytes", "0", "--lock-timeout", "1s")
        with table(lake, made).snapshot(columns=["id", "v"], row_ids=True) as snapshot:
            (entry,) = service(*minor).compactions
            assert entry["state"] == "conflict"
            assert "SHARED_READ by" in entry["reason"]
            assert rows_of(snapshot) == made.expected
        (entry,) = service.good(*minor).compactions
        assert (entry["state"], entry["publication"]) == ("ready for cleaning", "two renames")
        with table(lake, made).snapshot(columns=["id", "v"], row_ids=True) as again:
            assert rows_of(again) == made.expected


@GENERATIONS
def test_a_lock_that_is_lost_is_a_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake.table("lost")
    beats = snapshots.heartbeater

    def often(*arguments: object) -> object:
        found = beats(*arguments)  # type: ignore[arg-type]
        found._interval = found._retry = 0.1
        return found

    monkeypatch.setattr(snapshots, "heartbeater", often)
    before = open_readers(lake)
    with table(lake, made).snapshot() as snapshot:
        (txn,) = open_readers(lake) - before
        lake.hms.abort_txn(txn, TxnType.READ_ONLY)

        def is_noticed() -> bool:
            try:
                snapshot.assert_held()
            except acidlib.ConflictError:
                return True
            return False

        wait_for(is_noticed)
        with pytest.raises(acidlib.ConflictError, match=r"^Cannot read snapshots\.lost: its snapshot is lost, and a "):
            snapshot.to_arrow()


def test_readers_beside_transactions_compactions_and_cleanings(
    hive4_metastore: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few seconds of what `bench.read_while_compacted` does for longer, on both generations."""
    monkeypatch.delenv("ACIDLIB_QUEUE_URL", raising=False)
    steps = ("right reads", "published results", "removed directories", "committed")
    with Lake(hive4_metastore, database="snapshots") as lake:
        run = course(lake, f"sqlite:///{tmp_path}/queue.db")
        run.run(amount(12, long=120), readers=2, enough=lambda: all(run.counts[step] > 2 for step in steps))
    assert run.problems == []
    assert run.counts["wrong reads"] == 0
    assert all(run.counts[step] > 2 for step in steps), run.counts


# --- through Spark ----------------------------------------------------------------------------------------------------


@pytest.fixture
def session() -> Iterator[SparkSession]:
    """A session of a program, which stops it itself."""
    with session_of_a_program({}) as made:
        yield made


@pytest.mark.spark
@pytest.mark.parametrize("generation", [Generation.HIVE4], ids=str)
def test_a_dataframe_is_locked_while_spark_can_read_it(lake: Lake, session: SparkSession) -> None:
    made = lake.table("spark")
    expected = sorted(row for *_, row in made.expected)
    before, one_lock = open_readers(lake), [(LockType.SHARED_READ, None)]
    ways: list[Callable[[], DataFrame]] = [lambda: table(lake, made).read(session)]
    if hasattr(session, "dataSource"):  # from PySpark 4 on
        acidlib.register(session)
        format_of = session.read.format("hive_acid").option("metastore", lake.metastore.uri)
        ways.append(lambda: format_of.load(made.full))

    def is_released() -> bool:
        collect_garbage(session)
        return (locks(lake, made), open_readers(lake)) == ([], before)

    for read in ways:
        dataframe = read()
        assert locks(lake, made) == one_lock
        derived = dataframe.where("id > 0")
        assert sorted(map(tuple, derived.collect())) == expected
        del dataframe
        collect_garbage(session)
        assert locks(lake, made) == one_lock
        del derived
        wait_for(is_released)
    kept = [read() for read in ways]
    assert locks(lake, made) == one_lock * len(kept)
    session.stop()
    wait_for(lambda: (locks(lake, made), open_readers(lake)) == ([], before), 30)  # a load() alone is held for longer


def collect_garbage(session: SparkSession) -> None:
    """Have both languages collect garbage, and release what nothing can read any more."""
    gc.collect()
    session.sparkContext._jvm.System.gc()
    holds.OF_THIS_PROCESS.look()


# --- metastores that clean by themselves ------------------------------------------------------------------------------


@pytest.fixture
def cleaning(generation: Generation, request: pytest.FixtureRequest) -> Metastore:
    busy: Metastore = request.getfixturevalue(f"hasty_hive{generation.value}")
    return busy


def at_hives_queue(jobs: Jobs, metastore: Metastore) -> Service:
    """Our jobs, whose requests Hive's own cleaner sees."""
    named = jobs if metastore.generation is Generation.HIVE4 else Jobs(queue_url=metastore.database_url)
    return Service(jobs=named, uri=metastore.uri)


def is_cleaned(made: Made) -> bool:
    return all(len(place.directories()) == 1 for place in made.places)


@GENERATIONS
def test_hives_cleaner_keeps_what_it_reads(cleaning: Metastore, jobs: Jobs) -> None:
    with Lake(cleaning, database="snapshots") as lake, ExitStack() as reading:
        service = at_hives_queue(jobs, cleaning)
        alone = lake.table("alone")
        service.compact(alone)
        wait_for(lambda: is_cleaned(alone), PATIENCE)  # it cleans where nothing is read
        tables = [lake.table("plain", ABORTED), lake.table("parted", ABORTED, partitions=("a", "b"))]
        places = [place for made in tables for place in made.places]
        inputs = [place.directories() for place in places]
        opened = [
            reading.enter_context(table(lake, made).snapshot(columns=["id", "v"], row_ids=True)) for made in tables
        ]
        for made in tables:
            service.compact(made)
        time.sleep(CYCLES)
        kept = [sorted({*place.directories()}.intersection(old)) for place, old in zip(places, inputs, strict=True)]
        assert kept == inputs
        assert [rows_of(snapshot) for snapshot in opened] == [made.expected for made in tables]
        reading.close()
        for made in tables:
            wait_for(partial(is_cleaned, made), PATIENCE)
            assert lake.seen(made) == made.expected


def test_hive_4_keeps_what_a_reader_reads_that_came_last_before_a_commit(
    hasty_hive4: Metastore, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The highest transaction that exists when a compaction commits does not hold Hive's cleaner back."""
    with Lake(hasty_hive4, database="snapshots") as lake:
        made = lake.table("late")
        inputs = made.place.directories()
        opened: list[acidlib.Snapshot] = []
        published = Hive4Hold.published

        def read_first(hold: Hive4Hold, directories: tuple[str, ...]) -> None:
            opened.append(table(lake, made).snapshot(columns=["id", "v"], row_ids=True))
            published(hold, directories)

        monkeypatch.setattr(Hive4Hold, "published", read_first)
        at_hives_queue(jobs, hasty_hive4).compact(made)
        (snapshot,) = opened
        time.sleep(CYCLES)
        assert sorted(set(made.place.directories()) & set(inputs)) == inputs
        assert rows_of(snapshot) == made.expected
        snapshot.close()
        wait_for(lambda: is_cleaned(made), PATIENCE)


_READER = """
import sys, time
import acidlib
snapshot = acidlib.connect(sys.argv[1]).table(sys.argv[2]).snapshot()
print("open", flush=True)
time.sleep(float(sys.argv[3]))
"""


def reader(lake: Lake, made: Made, seconds: float) -> subprocess.Popen[str]:
    """A process that has opened a snapshot, and ends after a while without closing it."""
    command = [sys.executable, "-c", _READER, lake.metastore.uri, made.full, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_the_lock_of_a_killed_reader_times_out(hasty_hive3: Metastore, hasty_hive4: Metastore) -> None:
    with ExitStack() as stack:
        lakes = [stack.enter_context(Lake(cleaning, database="snapshots")) for cleaning in (hasty_hive3, hasty_hive4)]
        tables = [lake.table("killed") for lake in lakes]

        def held() -> list[list[tuple[LockType, str | None]]]:
            return [locks(lake, made) for lake, made in zip(lakes, tables, strict=True)]

        both = [[(LockType.SHARED_READ, None)]] * 2
        readers = [reader(lake, made, 1000) for lake, made in zip(lakes, tables, strict=True)]
        try:
            time.sleep(SHORT + 2)
            assert held() == both  # their heartbeats keep them
        finally:
            for process in readers:
                process.kill()
                process.communicate()
        assert held() == both
        wait_for(lambda: held() == [[], []])


@pytest.mark.parametrize("generation", [Generation.HIVE4], ids=str)
def test_a_reader_that_ends_without_closing_leaves_nothing(lake: Lake) -> None:
    made = lake.table("ended")
    before = open_readers(lake)
    with reader(lake, made, 0) as process:
        assert process.wait(60) == 0
    assert (locks(lake, made), open_readers(lake)) == ([], before)
