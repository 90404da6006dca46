"""Statistics after a compaction: when they are written, that no change of others is lost, and nothing fails by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from located import at
from sqlalchemy import create_engine, text

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.config.settings import Layer
from acidlib.errors import AcidError, ConflictError, RetryError
from acidlib.execute.services import Services
from acidlib.metastore.catalog import CHANGED, NotComparedError, WholeTable
from acidlib.model.results import Statistics
from acidlib.model.tables import MANAGED_TABLE, Database, MetastoreTable, Partition, Storage, TableRef
from acidlib.places.place import Place, TableFacts
from acidlib.ports.statistics import GATHER, StatisticsUpdater
from acidlib.queue.metastore_database import MetastoreDatabase, Owner
from acidlib.report.progress import TerminalProgress

BASE = "base_0000003"
NOW = 2_000_000_000
OLD = str(NOW - 1000)
RIGHT = {"numFiles": "1", "totalSize": "5", "numRows": "7"}
NAMES = tuple(RIGHT)


@dataclass
class FakeMetastore:
    """One table of Hive, which compares the time of its last change before it changes it."""

    properties: dict[str, str]
    generation: Generation = Generation.HIVE4
    catalog: str = "hive"
    write_id: int = 3
    created: int = 1
    skewed: bool = False
    now: float = NOW
    asked: list[str] = field(default_factory=list)
    error: AcidError | None = None
    between: list[Callable[[FakeMetastore], None]] = field(default_factory=list)
    """What others do between each read and what follows it."""
    ids: ValidWriteIdList = field(default_factory=lambda: ValidWriteIdList(table="db.t", high_water_mark=3))

    @property
    def calls(self) -> Generation:
        return self.generation

    names = reader = calls

    def open_txns(self) -> ValidTxnList:
        return ALL_COMMITTED

    def valid_write_ids(self, tables: list[TableRef], txns: object) -> Mapping[TableRef, ValidWriteIdList]:
        self.asked.append("write ids")
        return dict.fromkeys(tables, self.ids)

    def whole_table(self, ref: TableRef) -> WholeTable:
        self.asked.append("read")
        skewed = SimpleNamespace(skewedColNames=["a"] if self.skewed else [])
        row = SimpleNamespace(sd=SimpleNamespace(skewedInfo=skewed, storedAsSubDirectories=None))
        found = WholeTable(table=table(self.properties, self.created), write_id=self.write_id, row=row)
        if self.between:
            self.between.pop(0)(self)
        return found

    def change_properties(self, found: WholeTable, changes: Mapping[str, str], ids: ValidWriteIdList) -> None:
        self.asked.append("change")
        assert ids is self.ids
        if self.error is not None:
            raise self.error
        if self.properties[CHANGED] != found.table.properties[CHANGED]:
            raise ConflictError("Cannot change properties of db.t: The table has been modified.")
        assert changes[CHANGED] != self.properties[CHANGED]
        self.properties = {**found.table.properties, **changes}

    def alter(self, **properties: str) -> None:
        """As Hive does: the time of the last change is that of now."""
        self.properties = {**self.properties, **properties, CHANGED: str(int(self.now))}


def table(properties: Mapping[str, str], created: int = 1) -> MetastoreTable:
    storage = Storage(location="file:/t", columns=())
    return MetastoreTable(
        ref=TableRef("db", "t"), kind=MANAGED_TABLE, owner=None, created=created, storage=storage, properties=properties
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "t" / BASE).mkdir(parents=True)
    (tmp_path / "t" / BASE / "bucket_00000").write_bytes(b"bytes")
    facts = TableFacts(table=table({CHANGED: OLD}), database=Database(name="db"))
    return Place(ref=TableRef("db", "t"), location=at(tmp_path / "t"), facts=facts)


def updated(
    services: Services, metastore: FakeMetastore, place: Place, database: MetastoreDatabase | None = None
) -> Statistics | None:
    """With a clock that goes on by what is waited."""

    def pause(seconds: float) -> None:
        metastore.asked.append("wait")
        metastore.now += seconds

    going = replace(services, clock=lambda: metastore.now, pause=pause)
    hms: Any = metastore
    updater = StatisticsUpdater(going, hms, database)
    return updater.update(place, known_since=metastore.now, results=(BASE,), rows=7)


def names_written(found: Statistics | None) -> tuple[str, ...]:
    assert found is not None
    assert found.reason is None
    return found.written


def not_updated(found: Statistics | None) -> str:
    assert found is not None
    assert not found.written
    assert found.reason is not None
    assert found.reason.startswith("Cannot update statistics of db.t")
    return found.reason


@pytest.mark.parametrize(
    ("before", "written", "after", "asked"),
    [
        ({"numFiles": "9", "mine": "x"}, NAMES, {**RIGHT, "mine": "x", CHANGED: str(NOW)}, ["change"]),
        (RIGHT, (), {**RIGHT, CHANGED: OLD}, []),
    ],
    ids=["wrong", "right"],
)
def test_a_table_that_was_left_alone_for_a_while_is_changed_at_once(
    services: Services,
    place: Place,
    before: dict[str, str],
    written: tuple[str, ...],
    after: dict[str, str],
    asked: list[str],
) -> None:
    metastore = FakeMetastore({CHANGED: OLD, **before})
    assert updated(services, metastore, place) == Statistics(written=written, files=1, bytes=5, rows=7)
    assert (metastore.properties, metastore.asked) == (after, ["write ids", "read", *asked])


@pytest.mark.parametrize(
    ("stamp", "seconds", "first_calls"),
    [
        # the table was altered in this second already: what is altered after it was read has the same time
        (str(NOW), 0.0, ["write ids", "read", "wait"]),
        (str(NOW), 0.9, ["write ids", "read", "wait"]),
        (OLD, 0.0, ["write ids", "read", "change", "write ids", "read", "wait"]),
    ],
)
def test_a_change_of_another_is_not_lost(
    services: Services, place: Place, stamp: str, seconds: float, first_calls: list[str]
) -> None:
    metastore = FakeMetastore({CHANGED: stamp, "mine": "x"}, now=NOW + seconds)
    metastore.between = [lambda ms: ms.alter(other="1")]
    assert names_written(updated(services, metastore, place))
    assert metastore.properties.items() >= {**RIGHT, "mine": "x", "other": "1"}.items()
    assert metastore.asked[: len(first_calls)] == first_calls
    assert metastore.now < NOW + 4


def test_a_table_that_changes_all_the_time_is_left_alone(services: Services, place: Place) -> None:
    metastore = FakeMetastore({CHANGED: str(NOW)})

    def alter(ms: FakeMetastore) -> None:
        ms.now += 1
        ms.alter()
        ms.between.append(alter)

    metastore.between = [alter]
    assert "changes every second" in not_updated(updated(services, metastore, place))
    assert "numFiles" not in metastore.properties
    assert metastore.asked.count("wait") == 4


def test_statistics_of_a_transaction_under_way_are_left_alone(services: Services, place: Place) -> None:
    """Else the metastore would take back what that transaction claims of them."""
    metastore = FakeMetastore({CHANGED: OLD}, write_id=4)
    assert "write id 4" in not_updated(updated(services, metastore, place))
    aborted = replace(metastore.ids, high_water_mark=4, aborted_ids=(4,))
    assert names_written(updated(services, replace(metastore, ids=aborted, asked=[]), place))


def test_a_database_that_cannot_compare_is_asked_once_a_run(
    services: Services, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    metastore = FakeMetastore({CHANGED: OLD}, error=NotComparedError("Cannot change properties of db.t: no CLOBs"))
    hms: Any = metastore
    updater = StatisticsUpdater(replace(services, progress=TerminalProgress()), hms, None)
    reasons = []
    for name in ("t", "u"):
        of_name = replace(place, ref=TableRef("db", name))
        found = updater.update(of_name, known_since=NOW, results=(BASE,), rows=7)
        reasons.append(found.reason if found is not None and found.reason is not None else "")
    assert reasons[0].startswith("Cannot change properties of db.t: no CLOBs. Name the metastore's database")
    assert "Cannot update statistics of db.u: the metastore's database cannot compare, as db.t showed" in reasons[1]
    assert metastore.asked.count("change") == 1
    assert capsys.readouterr().err.count("the database of this metastore cannot compare") == 1


def test_another_error_of_the_metastore_is_no_conflict(services: Services, place: Place) -> None:
    metastore = FakeMetastore({CHANGED: OLD}, error=RetryError("Cannot change properties of db.t: it is away"))
    found = updated(services, metastore, place)
    assert found is not None
    assert found.reason == "Cannot change properties of db.t: it is away"
    assert metastore.asked.count("change") == 1


def fail(metastore: FakeMetastore) -> None:
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("metastore", "reason"),
    [
        (FakeMetastore({CHANGED: OLD}, created=2), "was dropped meanwhile"),
        (FakeMetastore({CHANGED: OLD}, skewed=True), "is skewed"),
        (FakeMetastore({"mine": "x"}), f"has no {CHANGED}"),
        (FakeMetastore({CHANGED: OLD}, generation=Generation.HIVE3), "no call of Hive 3.1"),
        (FakeMetastore({CHANGED: OLD}, between=[fail]), "unexpected ZeroDivisionError: by nothing"),
    ],
)
def test_what_cannot_be_written_safely_is_told(
    services: Services, place: Place, metastore: FakeMetastore, reason: str
) -> None:
    before = dict(metastore.properties)
    assert reason in not_updated(updated(services, metastore, place))
    assert metastore.properties == before


def test_a_place_that_cannot_be_listed_fails_nothing(services: Services, place: Place) -> None:
    found = updated(services, FakeMetastore({CHANGED: OLD}), replace(place, location=at("/nowhere")))
    assert found is not None
    assert found.reason is not None


def test_nothing_is_asked_where_it_is_not_wanted(services: Services, place: Place) -> None:
    off = replace(services, settings=services.settings.with_layer(Layer.COMMAND_LINE, {GATHER: "false"})[0])
    metastore = FakeMetastore({CHANGED: OLD})
    assert updated(off, metastore, place) is None
    assert updated(services, metastore, replace(place, facts=None)) is None
    assert metastore.asked == []


SCHEMA = """
create table "DBS" ("DB_ID" bigint, "NAME" text, "CTLG_NAME" text)
create table "TBLS" ("TBL_ID" bigint, "DB_ID" bigint, "TBL_NAME" text, "CREATE_TIME" int)
create table "PARTITIONS" ("PART_ID" bigint, "TBL_ID" bigint, "PART_NAME" text, "CREATE_TIME" int)
create table "TABLE_PARAMS" ("TBL_ID" bigint, "PARAM_KEY" text, "PARAM_VALUE" text)
create table "PARTITION_PARAMS" ("PART_ID" bigint, "PARAM_KEY" text, "PARAM_VALUE" text)
create unique index a on "TABLE_PARAMS" ("TBL_ID", "PARAM_KEY")
create unique index b on "PARTITION_PARAMS" ("PART_ID", "PARAM_KEY")
insert into "DBS" values (1, 'db', 'hive'), (2, 'db', 'spark')
insert into "TBLS" values (5, 1, 't', 1), (6, 2, 't', 1)
insert into "PARTITIONS" values (7, 5, 'p=1', 1), (8, 6, 'p=1', 1)
insert into "TABLE_PARAMS" values (5, 'numFiles', '9'), (6, 'numFiles', '9')
insert into "PARTITION_PARAMS" values (7, 'numFiles', '9'), (8, 'numFiles', '9')
"""
OTHERS_WRITE = {
    "a value": 'update "TABLE_PARAMS" set "PARAM_VALUE" = \'x\' || "PARAM_VALUE"',
    "a row": "insert into \"TABLE_PARAMS\" values (5, 'totalSize', '1')",
}


class Shared(MetastoreDatabase):
    """Another writes as soon as something was read."""

    def __init__(self, url: str, *, then: str = "", times: int = 0) -> None:
        super().__init__(url)
        self._then = then
        self._times = times

    def parameters(self, owner: Owner) -> dict[str, str] | None:
        found = super().parameters(owner)
        if self._times:
            self._times -= 1
            with create_engine(self.shown).begin() as connection:
                connection.execute(text(self._then))
        return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of tables as a metastore has them."""
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with create_engine(url).begin() as connection:
        for line in SCHEMA.strip().splitlines():
            connection.execute(text(line))
    return url


def rows_of(url: str, name: str) -> set[tuple[Any, ...]]:
    with create_engine(url).connect() as connection:
        return {tuple(row) for row in connection.execute(text(f'select * from "{name}"'))}  # noqa: S608 - a name of this test


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize("partition", [None, "p=1"])
def test_single_rows_are_changed_in_the_database(
    services: Services, place: Place, url: str, generation: Generation, partition: str | None
) -> None:
    assert place.facts is not None
    part = None if partition is None else Partition(values=("1",), storage=place.facts.table.storage, created=1)
    part_of_it = replace(place, ref=place.ref._replace(partition=partition), facts=replace(place.facts, partition=part))
    metastore = FakeMetastore({}, generation=generation)
    found = updated(services, metastore, part_of_it, MetastoreDatabase(url))
    assert found == Statistics(written=NAMES, files=1, bytes=5, rows=7)
    assert metastore.asked == ["write ids"]
    name, number, other = ("TABLE_PARAMS", 5, 6) if partition is None else ("PARTITION_PARAMS", 7, 8)
    assert rows_of(url, name) == {(number, *pair) for pair in RIGHT.items()} | {(other, "numFiles", "9")}


@pytest.mark.parametrize("what", OTHERS_WRITE)
def test_what_another_writes_meanwhile_is_looked_at_again(
    services: Services, place: Place, url: str, what: str
) -> None:
    assert names_written(updated(services, FakeMetastore({}), place, Shared(url, then=OTHERS_WRITE[what], times=1)))
    assert {row for row in rows_of(url, "TABLE_PARAMS") if row[0] == 5} == {(5, *pair) for pair in RIGHT.items()}


def test_nothing_is_written_over_what_another_writes_each_time(services: Services, place: Place, url: str) -> None:
    found = updated(services, FakeMetastore({}), place, Shared(url, then=OTHERS_WRITE["a value"], times=4))
    assert found is not None
    assert found.reason == "Cannot change statistics of db.t: another writer has changed numFiles meanwhile"
    assert rows_of(url, "TABLE_PARAMS") == {(5, "numFiles", "xxxx9"), (6, "numFiles", "xxxx9")}


def test_a_right_that_is_missing_is_asked_for_once(services: Services, place: Place, url: str, tmp_path: Path) -> None:
    with create_engine(url).begin() as connection:
        connection.execute(
            text('create trigger no before update on "TABLE_PARAMS" begin select raise(abort, "no"); end')
        )
    metastore = FakeMetastore({})
    found = updated(services, metastore, place, MetastoreDatabase(url))
    assert found is not None
    assert found.reason is not None
    assert found.reason.startswith("Cannot change statistics in the queue")
    assert metastore.asked == ["write ids"]


def test_a_table_of_the_name_that_is_another_is_not_touched(services: Services, place: Place, url: str) -> None:
    assert place.facts is not None
    anew = replace(place, facts=replace(place.facts, table=table({CHANGED: OLD}, created=2)))
    assert "has no such place" in not_updated(updated(services, FakeMetastore({}), anew, MetastoreDatabase(url)))
    assert rows_of(url, "TABLE_PARAMS") == {(5, "numFiles", "9"), (6, "numFiles", "9")}


def test_a_database_of_no_metastore_is_as_good_as_none(services: Services, place: Place) -> None:
    metastore = FakeMetastore({CHANGED: OLD})
    assert updated(services, metastore, place, MetastoreDatabase("sqlite://")) is not None
    assert metastore.properties["numFiles"] == "1"
