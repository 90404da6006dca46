"""What a cleaning of many requests asks of the queue: as many statements and rows as there are requests, not more."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_locks import Client, LockServer
from hive_queue_behaviour import IMITATION, Hive
from located import at
from sqlalchemy import Connection, event, insert, update
from unit.ports.test_catalog import Metastore as Tables
from unit.ports.test_catalog import storage, table

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import all_committed
from acidlib.execute.services import Services
from acidlib.model.requests import ActivityMark, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.results import CleaningResult
from acidlib.model.tables import Partition, TableRef
from acidlib.places.selection import CleanerOptions, Selection
from acidlib.ports.cleaning import Cleaning
from acidlib.ports.directories import DirectoryCleaning
from acidlib.ports.hive3 import Hive3Tables
from acidlib.ports.hive3_cleaning import Hive3Cleaning
from acidlib.queue.sql import SqlQueue
from acidlib.runs.clean import run_cleaner

REQUESTS = 200
OPTIONS = CleanerOptions(retention_seconds=0, dry_run=True)
METASTORE = "thrift://h:9083"


@dataclass
class Asked:
    """How much was asked of a database."""

    statements: int = 0
    rows: int = 0


def counted(queue: SqlQueue) -> Asked:
    """What a queue in SQLite asks of its database from now on; it does not wait for the disk."""
    asked = Asked()

    class Cursor(sqlite3.Cursor):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            asked.statements += 1
            return super().execute(*arguments)

        def fetchall(self) -> list[Any]:
            rows = super().fetchall()
            asked.rows += len(rows)
            return rows

        def fetchone(self) -> Any:
            row = super().fetchone()
            asked.rows += row is not None
            return row

    class Counting(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

    @event.listens_for(queue._database._engine, "do_connect")
    def connect(dialect: object, record: object, arguments: Any, parameters: dict[str, Any]) -> sqlite3.Connection:
        made = sqlite3.connect(*arguments, **parameters, factory=Counting)
        made.execute("pragma synchronous = off")
        return made

    queue._database._engine.dispose()  # a connection that is kept for a second would not be counted
    return asked


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """Partitions of db.t: a base, and a delta that it covers."""
    found = [tmp_path / f"t/p={number}" for number in range(REQUESTS)]
    for place, name in itertools.product(found, ("base_0000002", "delta_0000001_0000001_0000")):
        (place / name).mkdir(parents=True)
        (place / name / "bucket_00000").write_bytes(b"x")
    return found


def compacted(queue: SqlQueue, places: list[Path], **facts: Any) -> Asked:
    """Each place was compacted, and its request awaits the cleaner; what is asked from then on."""
    asked = counted(queue)
    requests = [
        CompactionRequest(
            id=number,
            ref=TableRef("d", "t", place.name),
            type=CompactionType.MAJOR,
            state=State.READY_FOR_CLEANING,
            highest_write_id=2,
            facts=RequestFacts(
                location=at(place),
                write_ids=all_committed("d.t", 2),
                generation=Generation.HIVE3,
                outputs=("base_0000002",),
                published_ms=1,
                evidence={"base_0000002": ActivityMark(txn=1, lock=0, ms=1)},
                table_id=f"1 {place}",
                **facts,
            ),
        )
        for number, place in enumerate(places, start=1)
    ]
    queued = queue._tables.queue

    def write(connection: Connection) -> None:
        connection.execute(insert(queued.table), [queued.values(one) for one in requests])

    queue._database.write("seed", write)
    asked.statements = asked.rows = 0
    return asked


class Metastore(Client):
    """Of Hive 3.1, with the tables of another fake, and one transaction, which has ended."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(LockServer(txns={1: "committed"}))
        self._tables = tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def show_compactions(self) -> tuple[()]:
        return ()


def metastore(services: Services, queue: SqlQueue, places: list[Path]) -> Hive3Tables:
    parts = {f"p={n}": Partition(values=(str(n),), storage=storage(place)) for n, place in enumerate(places)}
    hms: Any = Metastore(Tables(table(places[0].parent, partitioned=True), parts, Generation.HIVE3))
    beats: Any = SimpleNamespace(timeout_seconds=300)
    return Hive3Tables(services, queue, hms, beats, name=METASTORE)


@pytest.fixture(params=["our own", "the metastore's"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlQueue]:
    url = f"sqlite:///{tmp_path}/queue.db"
    if request.param != "our own":
        Hive(url).run(*IMITATION)
    with SqlQueue(url) as opened:
        yield opened


def standalone(services: Services, queue: SqlQueue, options: CleanerOptions = OPTIONS) -> DirectoryCleaning:
    return DirectoryCleaning(services, queue, options)


def cleaned(cleaning: Cleaning) -> list[CleaningResult]:
    results: list[CleaningResult] = []
    run_cleaner(cleaning, results.append)
    return sorted(results, key=lambda one: one.id or 0)  # told as they end


@pytest.mark.parametrize("queue", ["our own"], indirect=True)
def test_without_a_metastore_each_request_asks_of_its_own_place(
    services: Services, queue: SqlQueue, places: list[Path]
) -> None:
    asked = compacted(queue, places)
    judge(cleaned(standalone(services, queue)), asked)
    asked.statements = 0
    results = cleaned(standalone(services, queue, replace(OPTIONS, dry_run=False)))
    assert {result.state.value for result in results} == {"succeeded"}
    assert asked.statements < 15 * REQUESTS


@pytest.mark.parametrize("queue", ["our own"], indirect=True)
def test_what_is_wrong_with_one_of_several_harms_no_other(
    services: Services, queue: SqlQueue, places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is not understood, a request that another run ends meanwhile, and a place that is gone."""
    some = places[:6]
    compacted(queue, some)
    options = replace(OPTIONS, dry_run=False)
    cleaning = standalone(services, queue, options)
    ready = cleaning.ready()
    monkeypatch.setattr(cleaning, "ready", lambda: ready)
    monkeypatch.setattr(cleaning, "known_places", list)
    queued = queue._tables.queue
    with queue._database._engine.begin() as connection:
        connection.execute(update(queued.table).where(queued.column("ID") == 2).values(CQ_TBLPROPERTIES="damaged"))
    queue.end(4, State.SUCCEEDED, 1)
    shutil.rmtree(some[4])
    assert [result.state.value for result in sorted(cleaned(cleaning), key=lambda result: result.id or 0)] == [
        "succeeded", "failed", "succeeded", "conflict", "succeeded", "succeeded",
    ]  # fmt: skip
    assert [len(list(place.iterdir())) for place in some if place.exists()] == [1, 2, 1, 1, 1]


def test_with_a_metastore_each_request_asks_of_its_own_place(
    services: Services, queue: SqlQueue, places: list[Path]
) -> None:
    own = {"metastore": METASTORE} if queue.schema_version is None else {}
    asked = compacted(queue, places, **own)
    judge(cleaned(Hive3Cleaning(metastore(services, queue, places), OPTIONS)), asked)


@pytest.mark.parametrize("obsolete", [True, False], ids=["something goes", "nothing is left to go"])
@pytest.mark.parametrize("queue", ["our own"], indirect=True)
def test_a_place_that_was_moved_since_they_were_asked_for_together_is_left_alone(
    services: Services, queue: SqlQueue, places: list[Path], tmp_path: Path, obsolete: bool
) -> None:
    some = places[:3]
    compacted(queue, some, metastore=METASTORE)
    of = metastore(services, queue, some)
    hms: Any = of.hms
    tables, asked = hms._tables, []
    original = tables.partitions

    def partitions(table: object, names: Sequence[str]) -> Mapping[str, Partition]:
        asked.append(list(names))
        if len(asked) > 1:
            tables.parts["p=1"] = Partition(values=("1",), storage=storage(tmp_path / "elsewhere"))
        return original(table, names)

    tables.partitions = partitions
    if not obsolete:
        for place in some:
            shutil.rmtree(place / "delta_0000001_0000001_0000")
    options = replace(OPTIONS, dry_run=False)
    results = cleaned(Hive3Cleaning(of, options))
    assert [result.state.value for result in results] == ["succeeded", "conflict", "succeeded"]
    assert "was moved meanwhile" in results[1].reason
    assert [len(list(place.iterdir())) for place in some] == [1, 2 if obsolete else 1, 1]
    assert sorted(asked[0]) == ["p=0", "p=1", "p=2"]
    assert sorted(asked[1:]) == [["p=0"], ["p=1"], ["p=2"]]


@pytest.mark.parametrize("queue", ["our own"], indirect=True)
@pytest.mark.parametrize("state", [State.INITIATED, State.WORKING])
def test_a_place_at_which_hives_own_compactor_is_stays_as_it_is(
    services: Services, queue: SqlQueue, places: list[Path], state: State
) -> None:
    some = places[:3]
    compacted(queue, some, metastore=METASTORE)
    of = metastore(services, queue, some)
    hives = CompactionRequest(id=9, ref=TableRef("d", "t", "p=1"), type=CompactionType.MINOR, state=state)
    hms: Any = of.hms
    hms.show_compactions = lambda: (hives,)
    results = cleaned(Hive3Cleaning(of, replace(OPTIONS, dry_run=False)))
    assert [result.state.value for result in results] == ["succeeded", "conflict", "succeeded"]
    assert results[1].reason == f"Cannot clean d.t.p=1: request 9 for it is {state.label}"
    assert [len(list(place.iterdir())) for place in some] == [1, 2, 1]


def judge(results: list[CleaningResult], asked: Asked, *, statements: float = 6) -> None:
    """Each may be cleaned, for few statements and rows each; reading all rows for each would be REQUESTS times more."""
    assert [[one.path for one in result.removed] for result in results] == [["delta_0000001_0000001_0000"]] * REQUESTS
    assert asked.statements < statements * REQUESTS, asked
    assert REQUESTS < asked.rows < 6 * REQUESTS, asked


def test_a_table_that_was_not_asked_for_need_not_have_the_partition_keys_that_are_named() -> None:
    options = CleanerOptions(selection=Selection(tables=("db.a",), partitions=("ds=1",)))
    places = [TableRef("db", "a", "ds=1"), TableRef("db", "a", "ds=2"), TableRef("db", "a"), TableRef("db", "b", "k=1")]
    assert [options.selection.wants(place) for place in places] == [True, False, False, False]
