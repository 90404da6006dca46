"""What a metastore's places are taken for: who may be cleaned, and locations that lead elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from located import at

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidTxnList, ValidWriteIdList, all_committed
from acidlib.arguments import said
from acidlib.config.settings import default_settings
from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import ORC_INPUT_FORMAT, Database, MetastoreTable, Partition, Storage, TableColumn, TableRef
from acidlib.places.place import Place
from acidlib.places.removals import NotOursError
from acidlib.places.selection import CleanerOptions, Selection
from acidlib.planning.initiate import ORC_SERDE
from acidlib.ports.catalog import Catalog, require_no_cleaner_of_another_catalog
from acidlib.ports.hive3_cleaning import Hive3Cleaning
from acidlib.stores.stores import Stores

FULL = {"transactional": "true", "transactional_properties": "default"}
KEY = (TableColumn(name="p", type="string"),)


def storage(location: str | Path) -> Storage:
    return Storage(
        location=str(location),
        columns=(TableColumn(name="id", type="int"),),
        input_format=ORC_INPUT_FORMAT,
        serde=ORC_SERDE,
    )


@dataclass
class Metastore:
    """One table `d.t`, of Hive 3.1 or 4, with partitions or without; what `Hms` answers about it."""

    table_of: MetastoreTable | None
    parts: dict[str, Partition] = field(default_factory=dict)
    generation: Generation = Generation.HIVE4
    catalog: str = "hive"

    @property
    def calls(self) -> Generation:
        return self.generation

    names = reader = calls

    def of_other_catalogs(self, database: str, names: Sequence[str]) -> dict[str, str]:
        return {}

    def table(self, ref: TableRef) -> MetastoreTable | None:
        return self.table_of if ref.whole_table == TableRef("d", "t") else None

    def database(self, name: str) -> Database:
        return Database(name=name)

    def database_names(self) -> list[str]:
        return ["d"]

    def table_names(self, database: str) -> list[str]:
        return ["t"] if self.table_of is not None and database == "d" else []

    def tables(self, database: str, names: Sequence[str]) -> list[MetastoreTable]:
        return [self.table_of for name in names if name == "t" and self.table_of is not None]

    def partition_names(self, ref: TableRef) -> list[str]:
        return list(self.parts)

    def partitions(self, table: MetastoreTable, names: Sequence[str]) -> Mapping[str, Partition]:
        return {name: self.parts[name] for name in names if name in self.parts}

    def open_txns(self) -> ValidTxnList:
        return ValidTxnList.parse("9:9223372036854775807::")

    def valid_write_ids(self, tables: Any, txns: ValidTxnList) -> dict[TableRef, ValidWriteIdList]:
        return {table: all_committed(str(table), 5) for table in tables}


def table(location: str | Path, *, partitioned: bool = False, **changes: Any) -> MetastoreTable:
    values: dict[str, Any] = {"kind": "MANAGED_TABLE", "properties": FULL, **changes}
    keys = KEY if partitioned else ()
    return MetastoreTable(
        ref=TableRef("d", "t"), owner="o", created=1, storage=storage(location), partition_keys=keys, **values
    )


def request(partition: str | None = None, name: str = "t") -> CompactionRequest:
    return CompactionRequest(id=7, ref=TableRef("d", name, partition), type=CompactionType.MAJOR)


def catalog(hms: Metastore) -> Catalog:
    services: Any = SimpleNamespace(settings=default_settings(), stores=Stores())
    given: Any = hms
    return Catalog(services, given)


def cleaning_place(catalog: Catalog, request: CompactionRequest) -> Place | None:
    """What a cleaner takes for the place of a request that is still in the queue as it was."""
    cleaning = cleaning_at(catalog, request)
    cleaning._places.expect([request])
    return cleaning.place(request)[1]


def cleaning_at(catalog: Catalog, row: CompactionRequest | None = None) -> Hive3Cleaning:
    """The cleaning of a metastore in whose queue one row awaits cleaning."""
    queue = SimpleNamespace(
        show=list, find=lambda _: None if row is None else replace(row, state=State.READY_FOR_CLEANING)
    )
    backend: Any = SimpleNamespace(services=SimpleNamespace(settings=default_settings()), catalog=catalog, queue=queue)
    return Hive3Cleaning(backend, CleanerOptions())


def part(location: str | Path, **properties: str) -> Partition:
    return Partition(values=("1",), storage=storage(location), properties=properties)


@pytest.mark.parametrize(
    ("named", "told", "taken"),
    [
        (("d.x",), "Cannot find d.x: no table of the metastore has such a name", 0),
        (("d.t", "x.y", "z.*"), "Cannot find x.y, z.*: no table of the metastore has such a name", 1),
        (("d.t",), "Cannot find partitions of d.t: none matches p=9", 0),
    ],
)
@pytest.mark.parametrize("automatic", [False, True])
def test_what_is_named_has_to_exist_unless_that_may_be(
    tmp_path: Path, named: tuple[str, ...], told: str, taken: int, automatic: bool
) -> None:
    hms = Metastore(table(tmp_path, partitioned=True), {"p=1": part(tmp_path / "p=1")})
    partitions = ("p=9",) if "p=9" in told else ()
    with pytest.raises(MissingError) as caught:
        catalog(hms).select(Selection(tables=named, partitions=partitions), automatic=automatic)
    assert str(caught.value) == told
    may_be = Selection(tables=named, partitions=partitions, if_exists=True)
    selected = catalog(hms).select(may_be, automatic=automatic)
    assert tuple(map(said, selected.notes)) == (f"{told}; nothing is done there, as --if-exists says",)
    assert len(selected.places) == taken


@pytest.mark.parametrize("automatic", [False, True])
def test_a_table_that_is_named_has_to_be_acid(tmp_path: Path, automatic: bool) -> None:
    """One that a glob matches is passed over; that a name may not exist is no word for what does."""
    hms = Metastore(table(tmp_path, kind="EXTERNAL_TABLE"))
    for may_be in (False, True):
        with pytest.raises(RefusedError, match=r"Cannot compact d\.t: it is an external table") as caught:
            catalog(hms).select(Selection(tables=("D.T",), if_exists=may_be), automatic=automatic)
        assert not isinstance(caught.value, MissingError)
        with pytest.raises(RefusedError, match="external"):
            catalog(hms).require_named(Selection(tables=("d.t",), if_exists=may_be), ())
    selected = catalog(hms).select(Selection(tables=("d.*",)), automatic=automatic)
    assert (selected.places, len(selected.passed_over) + len(selected.notes)) == ((), 1)


def test_what_only_the_queue_knows_was_dropped_and_is_no_typo(tmp_path: Path) -> None:
    hms = Metastore(table(tmp_path, partitioned=True), {"p=1": part(tmp_path / "p=1")})
    named = Selection(tables=("d.t", "d.gone"))
    with pytest.raises(MissingError, match=r"Cannot find d\.gone: "):
        catalog(hms).require_named(named, ())
    assert catalog(hms).require_named(named, {TableRef("d", "gone")}) == []
    nowhere = Selection(tables=("d.t",), partitions=("p=9",))
    with pytest.raises(MissingError, match=r"Cannot find partitions of d\.t: none matches p=9"):
        catalog(hms).require_named(nowhere, ())
    assert catalog(hms).require_named(nowhere, {TableRef("d", "t", "p=9")}) == []
    assert catalog(hms).require_named(Selection(tables=("d.t",), partitions=("p=1",)), ()) == []


def test_what_was_dropped_is_gone(tmp_path: Path) -> None:
    hms = Metastore(table(tmp_path, partitioned=True), {"p=1": part(tmp_path / "p=1")})
    assert cleaning_place(catalog(hms), request("p=2")) is None
    assert cleaning_place(catalog(hms), request(name="u")) is None
    there = cleaning_place(catalog(hms), request("p=1"))
    assert there is not None
    assert there.location == at(tmp_path / "p=1")


class Failing(Metastore):
    """Does not answer when it is asked for several tables."""

    def tables(self, database: str, names: Sequence[str]) -> list[MetastoreTable]:
        raise RetryError("Cannot read them: one is damaged")


def test_what_cannot_be_asked_for_together_is_asked_for_alone(tmp_path: Path) -> None:
    assert cleaning_place(catalog(Failing(table(tmp_path))), request()) is not None


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({}, None, ""),
        ({"created": 2}, ConflictError, "Cannot clean d.t: it was dropped and made again meanwhile"),
        ({"properties": FULL | {"no_cleanup": "true"}}, NotOursError, "NO_CLEANUP is set on the table"),
        (None, ConflictError, "Cannot clean d.t: it was changed meanwhile: Unable to find table d.t"),
    ],
    ids=lambda one: str(one),
)
def test_before_anything_goes_the_table_is_asked_for_again(
    tmp_path: Path, changes: dict[str, Any] | None, error: type[AcidError] | None, told: str
) -> None:
    hms = Metastore(table(tmp_path))
    cleaning = cleaning_at(catalog(hms))
    _, place = cleaning.place(request())
    assert place is not None
    hms.table_of = None if changes is None else replace(table(tmp_path), **changes)
    with nullcontext() if error is None else pytest.raises(error, match=told):
        cleaning.require_unmoved(request(), place)


def place(hms: Metastore, partition: str | None = None) -> str:
    return str(catalog(hms).place(request(partition)).location)


@pytest.mark.parametrize("location", ["/", "file:/", "file:///", "file:////", "/..", "/usr/.."])
def test_the_whole_file_system_is_no_table(location: str) -> None:
    with pytest.raises(RefusedError, match="the whole file system"):
        place(Metastore(table(location)))


@pytest.mark.parametrize(("location", "reason"), [("", "it has no location"), ("/", "its location is the whole")])
def test_the_partition_of_an_unusable_location_is_named(location: str, reason: str, tmp_path: Path) -> None:
    hms = Metastore(table(tmp_path, partitioned=True), {"p=1": part(location)})
    with pytest.raises(RefusedError, match=f"Cannot compact d.t.p=1: {reason}"):
        place(hms, "p=1")


def test_a_link_in_place_of_a_partition_is_refused(tmp_path: Path) -> None:
    real, other = tmp_path / "t", tmp_path / "u"
    (other / "p=1").mkdir(parents=True)
    real.mkdir()
    (real / "p=1").symlink_to(other / "p=1")
    (real / "p=2").mkdir()
    parts = {"p=1": part(f"file:{real}/p=1"), "p=2": part(real / "p=2"), "p=3": part(f"file://{real}//p=1/")}
    hms = Metastore(table(f"file://{real}/", partitioned=True), parts)
    for name in ("p=1", "p=3"):
        location = catalog(hms).place(request(name)).location
        with pytest.raises(RefusedError, match=f"Cannot list {real}/p=1: it is, or passes through, a symbolic link"):
            Stores().fs(location).list_directory(str(location))
    assert place(hms, "p=2") == str(real / "p=2")


def test_a_link_above_the_table_is_the_warehouses_own(tmp_path: Path) -> None:
    (tmp_path / "disk/t/p=1").mkdir(parents=True)
    (tmp_path / "warehouse").symlink_to(tmp_path / "disk")
    hms = Metastore(table(tmp_path / "warehouse/t", partitioned=True), {"p=1": part(tmp_path / "warehouse/t/p=1")})
    assert place(hms, "p=1") == str(tmp_path / "disk/t/p=1")


def test_a_partition_that_is_said_to_lie_elsewhere_lies_there(tmp_path: Path) -> None:
    parts = {"p=1": part(tmp_path / "elsewhere"), "p=2": part(f"{tmp_path}/t/../u"), "p=3": part(tmp_path / "t2")}
    (tmp_path / "t").mkdir()
    hms = Metastore(table(tmp_path / "t", partitioned=True), parts)
    assert [place(hms, name) for name in parts] == [f"{tmp_path}/{name}" for name in ("elsewhere", "u", "t2")]
    on_s3 = Metastore(table("s3://bucket/t", partitioned=True), parts)
    assert place(on_s3, "p=1") == f"{tmp_path}/elsewhere"


@pytest.mark.parametrize("generation", list(Generation), ids=str)
def test_a_cleaner_that_takes_the_tables_for_dropped_must_be_off(generation: Generation) -> None:
    switch = f"metastore.compactor.{'cleaner' if generation is Generation.HIVE4 else 'initiator'}.on"

    def check(catalog: str, settings: dict[str, str]) -> None:
        hms: Any = SimpleNamespace(
            calls=generation, catalog=catalog, config_value=settings.get, other_catalogs=lambda: ("another",)
        )
        require_no_cleaner_of_another_catalog(hms)

    check("hive", {switch: "true"})
    check("spark", {switch: "true", "metastore.catalog.default": "Spark"})
    check("spark", {switch: "false"})
    for settings in ({switch: "true"}, {}, {switch: "true", "metastore.catalog.default": "other"}):
        with pytest.raises(RefusedError, match=rf"tables of the catalog spark: the metastore's {switch} is not"):
            check("spark", settings)


@dataclass
class TwoTables(Metastore):
    """A table `d.t` and one `d.other` beside it, whose owner means no harm."""

    def table_names(self, database: str) -> list[str]:
        return ["other", "t"]

    def tables(self, database: str, names: Sequence[str]) -> list[MetastoreTable]:
        assert self.table_of is not None
        other = replace(self.table_of, ref=TableRef("d", "other"), properties=FULL, partition_keys=())
        return [{"t": self.table_of, "other": other}[name] for name in names]

    def partitions(self, table: MetastoreTable, names: Sequence[str]) -> Mapping[str, Partition]:
        raise CorruptError("Cannot read the answer: it has a partition that was not requested")


def test_a_lake_lists_transactional_tables(tmp_path: Path) -> None:
    hms = TwoTables(replace(table(tmp_path), properties={}))
    assert catalog(hms).names(Selection()) == [TableRef("d", "other")]
    assert catalog(hms).names(Selection(tables=("d.o*",))) == [TableRef("d", "other")]
    with pytest.raises(MissingError, match=r"^Cannot find d.none: no table of the metastore has such a name$"):
        catalog(hms).names(Selection(tables=("d.none",)))


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        (("D.Othr",), "; did you mean d.other?"),
        (("dd.other",), ""),  # no database is like it
        (("d.othr*",), ""),
        (("d.othr", "d.t", "d.none", "d.oter"), "; did you mean d.other, d.other?"),
    ],
)
def test_a_misspelt_table_is_answered_with_the_one_that_is_meant(
    tmp_path: Path, named: tuple[str, ...], meant: str
) -> None:
    with pytest.raises(MissingError) as caught:
        catalog(TwoTables(table(tmp_path))).names(Selection(tables=named))
    assert str(caught.value).partition("has such a name")[2] == meant


@pytest.mark.parametrize("automatic", [False, True])
def test_what_cannot_be_used_of_one_table_ends_no_others_work(tmp_path: Path, automatic: bool) -> None:
    threshold = "compactorthreshold.hive.compactor.delta.num.threshold"
    hms = TwoTables(table(tmp_path, properties=FULL | {threshold: "-1"}))
    selected = catalog(hms).select(Selection(), automatic=automatic)
    assert {str(place.ref) for place in selected.places} == {"d.other", "d.t"}
    said = "Cannot use hive.compactor.delta.num.threshold=-1 from table property: it is less than 0"
    assert f"table d.t: {said}" in selected.notes
    hms = TwoTables(table(tmp_path, partitioned=True), {"p=1": part(tmp_path / "p=1")})
    selected = catalog(hms).select(Selection(), automatic=automatic)
    assert [str(place.ref) for place in selected.places] == ["d.other"]
    (passed_over,) = selected.passed_over
    assert passed_over.reason.startswith("Cannot read the answer")
    (found,) = catalog(hms).places([request("p=1")])
    assert isinstance(found, CorruptError)


def test_warnings_about_a_table_are_a_few(tmp_path: Path) -> None:
    many = {f"compactor.hive.compactor.x{number}": "1" for number in range(25)}
    notes = (
        catalog(Metastore(table(tmp_path, properties=FULL | many)))
        .select(Selection(tables=("d.t",)), automatic=False)
        .notes
    )
    assert len(notes) == 21
    assert notes[-1] == "table d.t: 5 more properties are not known or without effect"
