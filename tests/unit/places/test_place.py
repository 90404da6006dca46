"""Targets, and the requests that carry all a later worker needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from located import at

from acidlib.acid.listing import ListedFile, Listing
from acidlib.acid.names import Generation, Names
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.config.settings import Layer, default_settings
from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionRequest, CompactionType, split_properties
from acidlib.model.tables import Database, MetastoreTable, Storage, TableRef
from acidlib.model.units import ColumnMatching
from acidlib.places.place import Interpretation, Place, TableFacts, request_of, requested_place
from acidlib.planning.stated_write_ids import StatedWriteIds

MAJOR = CompactionType.MAJOR
ALL = Interpretation(write_ids=StatedWriteIds(everything=True))
LIST = ValidWriteIdList.parse("default.t:9:7:7,8:4")


def listing(*directories: str) -> Listing:
    files = tuple(ListedFile(path=f"{name}/bucket_00000", length=1, modified=0.0) for name in directories)
    return Listing(location=at("/w/t"), files=files)


def place(interpretation: Interpretation = ALL, partition: str | None = None) -> Place:
    return Place(ref=TableRef("default", "t", partition), location=at("/w/t"), interpretation=interpretation)


def test_a_name_has_the_parts_there_are() -> None:
    assert str(place().ref) == "default.t"
    assert str(place(partition="ds=2026-01-01/h=1").ref) == "default.t.ds=2026-01-01/h=1"


def test_the_generation_is_the_stated_one_or_told_by_the_directory() -> None:
    assert place().names(listing("base_5_v9")) is Generation.HIVE4
    assert place().names(listing("base_5")) is Generation.HIVE3
    stated = replace(ALL, names=Names(Generation.HIVE3))
    assert place(stated).names(listing("base_5_v9")) is Generation.HIVE3


def test_without_a_statement_no_write_id_is_committed() -> None:
    with pytest.raises(RefusedError, match=r"Cannot work on default\.t"):
        place(Interpretation()).write_ids(listing("delta_1_1"))


@pytest.mark.parametrize(
    "interpretation",
    [
        ALL,
        Interpretation(write_ids=StatedWriteIds(single=LIST)),
        Interpretation(
            write_ids=StatedWriteIds(by_table={"default.t": LIST}),
            names=Names(Generation.HIVE4),
            table_kind="full",
            visibility_txn=42,
        ),
    ],
)
@pytest.mark.parametrize("partition", [None, "ds=a%2Fb"])
def test_a_request_is_understood_later_as_it_was_when_it_was_made(
    interpretation: Interpretation, partition: str | None
) -> None:
    before = listing("delta_0000001_0000003", "delta_0000004_0000004")
    made = place(interpretation, partition)
    request = request_of(made.listed(before), MAJOR, initiator="host-manual")
    assert (request.ref, request.type) == (("default", "t", partition), MAJOR)
    assert request.initiator_id == "host-manual"
    later = requested_place(request, None)
    # a delta and a base of Hive 4 that came since are not taken for committed, nor do they change the generation
    now = listing("delta_0000001_0000003", "delta_0000004_0000004", "base_0000099_v0000007")
    assert later.write_ids(now) == made.write_ids(before)
    assert later.hive(now) == made.hive(before)
    assert (str(later.ref), later.location) == (str(made.ref), made.location)
    assert later.interpretation.table_kind == interpretation.table_kind
    assert later.interpretation.visibility_txn == interpretation.visibility_txn


def test_a_target_as_listed_is_fixed() -> None:
    fixed = place().listed(listing("delta_0000004_0000004")).place
    assert fixed.write_ids(listing("delta_0000009_0000009")).high_water_mark == 4
    assert fixed.names(listing("base_5_v9")) is Generation.HIVE3


@pytest.mark.parametrize("missing", ["location", "write_ids"])
def test_a_request_of_others_that_does_not_say_enough_is_refused(missing: str) -> None:
    request = request_of(place().listed(listing("delta_1_1")), MAJOR, initiator="x")
    poor = replace(request, id=7, facts=replace(request.facts, **{missing: None}))
    with pytest.raises(
        RefusedError, match=r"Cannot compact default\.t: request 7 does not state .*; name the place by --loc"
    ):
        requested_place(poor, None)


@pytest.mark.parametrize(
    ("key", "value"), [("acidlib.hive.version", "four"), ("acidlib.hive.version", "5"), ("acidlib.visibility.txn", "x")]
)
def test_a_request_that_is_not_understood_is_refused(key: str, value: str) -> None:
    facts, _ = split_properties({"location": "/t", "acidlib.write.ids": "d.t:3:9223372036854775807::", key: value})
    request = CompactionRequest(id=7, ref=TableRef("d", "t"), type=CompactionType.MAJOR, facts=facts)
    with pytest.raises(
        RefusedError, match=f"request 7 is not understood, as one of a newer version may be: its {key} is '{value}': "
    ):
        requested_place(request, None)


# --- how readers find columns -----------------------------------------------------------------------------------------

POSITIONAL, CASE = "orc.force.positional.evolution", "orc.schema.evolution.case.sensitive"


def matching(generation: int, of_table: dict[str, str], of_site: dict[str, str]) -> ColumnMatching:
    table = MetastoreTable(
        ref=TableRef("default", "t"),
        kind="MANAGED_TABLE",
        owner=None,
        created=1,
        storage=Storage(location="/w/t", columns=()),
        properties=of_table,
    )
    # what a database has of these names never counts
    database = Database(name="default", properties={POSITIONAL: str(generation == 3), CASE: "false"})
    settings, _ = default_settings().with_layer(Layer.HIVE_SITE, of_site)
    stated = replace(place(), facts=TableFacts(table=table, database=database))
    return stated.matching(settings, Generation(generation))


@pytest.mark.parametrize(
    ("generation", "of_table", "of_site", "expected"),
    [
        (3, None, None, False),
        (3, "true", None, True),
        (3, "TRUE", None, True),
        (3, "yes", None, False),
        (3, "true", "false", False),
        (3, "false", "true", True),
        (4, None, None, True),
        (4, "false", None, True),
        (4, "true", "false", False),
        (4, "false", "true", True),
    ],
)
def test_positions_count_as_readers_are_told(
    generation: int, of_table: str | None, of_site: str | None, expected: bool
) -> None:
    found = matching(generation, *({} if text is None else {POSITIONAL: text} for text in (of_table, of_site)))
    assert found == ColumnMatching(by_position=expected, case_sensitive=True)


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize(
    ("of_table", "of_site", "expected"),
    [(None, None, True), ("false", None, False), ("false", "true", True), ("true", "false", False)],
)
def test_case_counts_as_readers_are_told(
    generation: int, of_table: str | None, of_site: str | None, expected: bool
) -> None:
    found = matching(generation, *({} if text is None else {CASE: text} for text in (of_table, of_site)))
    assert found == ColumnMatching(by_position=generation == 4, case_sensitive=expected)


def test_keys_of_readers_are_no_settings_of_tables() -> None:
    given = {POSITIONAL: "false", f"compactor.{CASE}": "false"}
    assert default_settings().with_layer(Layer.TABLE, given) == (default_settings(), ())
