"""What a compactor leaves alone and what an initiator decides: the cases of Hive's TestInitiator, by generation."""

from __future__ import annotations

from typing import Any

import pytest

from acidlib.acid.names import Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import all_committed
from acidlib.config.settings import Layer, default_settings
from acidlib.model.requests import CompactionType
from acidlib.model.tables import ORC_INPUT_FORMAT, MetastoreTable, Partition, Storage, TableColumn, TableRef
from acidlib.planning.initiate import (
    DELTA_NUM_KEY,
    DELTA_PCT_KEY,
    ORC_SERDE,
    Decision,
    Threshold,
    cleaning_forbidden_reason,
    decide,
    not_compactable_reason,
)
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
FULL = {"transactional": "true", "transactional_properties": "default"}
INSERT_ONLY = {"transactional": "TRUE", "transactional_properties": "insert_only"}
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PENDING = {"hive.repl.first.inc.pending": "true"}


def storage(**changes: Any) -> Storage:
    columns = (TableColumn(name="id", type="int"),)
    values: dict[str, Any] = {"input_format": ORC_INPUT_FORMAT, "serde": ORC_SERDE}
    return Storage(location="/t", columns=columns, **{**values, **changes})


def table(properties: dict[str, str] | None = None, kind: str = "MANAGED_TABLE", **changes: Any) -> MetastoreTable:
    return MetastoreTable(
        ref=TableRef("d", "t"), kind=kind, owner="o", created=1, storage=storage(**changes),
        properties=FULL if properties is None else properties,
    )  # fmt: skip


NO_TABLE = "Only transactional tables can be compacted, d.t is not suitable for compaction!"
SORTED = "Attempt to compact sorted table d.t, which is not yet supported!"
NO_ORC = f"Cannot compact d.t: its rows are read by {PARQUET} and {ORC_SERDE}, and only ORC can be full ACID"
OFF = "Insert only compaction is disabled. Set hive.compactor.compact.insert.only=true to enable it."


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize(
    ("found", "more", "reason"),
    [
        (table(), {}, None),
        (table(kind="MATERIALIZED_VIEW"), {}, None),  # it has rows of its own
        (table({}, kind="MATERIALIZED_VIEW"), {}, NO_TABLE),
        (table(kind="VIRTUAL_VIEW"), {}, "Cannot compact d.t: it is a view"),
        (table(kind="EXTERNAL_TABLE"), {}, "Cannot compact d.t: it is an external table"),
        (table({**FULL, "EXTERNAL": "TRUE"}), {}, "Cannot compact d.t: it is an external table"),
        (table({}), {}, NO_TABLE),
        (table({"transactional": "false"}), {}, NO_TABLE),
        (table(sort_columns=("id",)), {}, SORTED),
        (table(input_format=PARQUET), {}, NO_ORC),
        # what the metastore does not tell is not taken for ORC
        (table(input_format=None), {}, NO_ORC.replace(PARQUET, "None")),
        (table(serde=None), {}, NO_ORC.replace(PARQUET, ORC_INPUT_FORMAT).replace(ORC_SERDE, "None")),
        # insert-only tables of any format, unless switched off
        (table(INSERT_ONLY, input_format=PARQUET, serde="any"), {}, None),
        (table(INSERT_ONLY, input_format=PARQUET, serde="any"), {"insert_only_enabled": False}, OFF),
        (table(INSERT_ONLY, sort_columns=("id",)), {}, SORTED),
        (table(), {"insert_only_enabled": False}, None),
        # a partition decides how its rows are stored
        (table(), {"partition": Partition(values=("1",), storage=storage(sort_columns=("id",)))}, SORTED),
        (table(sort_columns=("id",)), {"partition": Partition(values=("1",), storage=storage())}, None),
        (table(), {"partition": Partition(values=("1",), storage=storage(input_format=PARQUET))}, NO_ORC),
    ],
)
def test_which_tables_are_never_compacted(
    found: MetastoreTable, more: dict[str, Any], reason: str | None, generation: Generation, automatic: bool
) -> None:
    assert not_compactable_reason(found, {}, names=generation, automatic=automatic, **more) == reason


PENDING_IN = "the first incremental replication into the {} is pending (hive.repl.first.inc.pending=true)"
ON_TABLE = "NO_AUTO_COMPACTION is set on the table"


@pytest.mark.parametrize(
    ("generations", "database", "own", "reason"),
    [
        ([HIVE3, HIVE4], PENDING, {}, PENDING_IN.format("database")),
        ([HIVE3, HIVE4], {}, PENDING, PENDING_IN.format("table")),
        ([HIVE3, HIVE4], {}, {"no_auto_compaction": "TRUE"}, ON_TABLE),
        ([HIVE3, HIVE4], {}, {"NO_AUTO_COMPACTION": "true"}, ON_TABLE),
        # in Hive 4 a database decides for its tables
        ([HIVE4], {"NO_AUTO_COMPACTION": "true"}, {}, "NO_AUTO_COMPACTION is set on the database"),
        ([HIVE4], {"no_auto_compaction": "false"}, {"NO_AUTO_COMPACTION": "true"}, None),
        ([HIVE3], {"NO_AUTO_COMPACTION": "true"}, {}, None),
        ([HIVE3], {"no_auto_compaction": "false"}, {"NO_AUTO_COMPACTION": "true"}, ON_TABLE),
    ],
)
def test_which_tables_are_compacted_only_when_a_person_asks(
    generations: list[Generation], database: dict[str, str], own: dict[str, str], reason: str | None
) -> None:
    found = table({**FULL, **own})
    for generation in generations:
        assert not_compactable_reason(found, database, names=generation, automatic=True) == reason
        assert not_compactable_reason(found, database, names=generation, automatic=False) is None


@pytest.mark.parametrize("flag", ["no_cleanup", "NO_CLEANUP"])
def test_cleaning_may_be_forbidden_on_the_table_and_on_the_partition(flag: str) -> None:
    own = Partition(values=("1",), storage=storage(), properties={flag: "True"})
    assert cleaning_forbidden_reason(table({flag: "true"})) == "NO_CLEANUP is set on the table"
    assert cleaning_forbidden_reason(table({flag: "true"}), own) == "NO_CLEANUP is set on the table"
    assert cleaning_forbidden_reason(table(), own) == "NO_CLEANUP is set on the partition"
    assert cleaning_forbidden_reason(table({flag: "false"}), Partition(values=("1",), storage=storage())) is None
    # the lower-case name decides where both are there
    assert cleaning_forbidden_reason(table({"no_cleanup": "false", "NO_CLEANUP": "true"})) is None


BOTH = pytest.mark.parametrize("generation", [HIVE3, HIVE4])
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


def decision(sizes: dict[str, int], generation: Generation = HIVE3, **options: object) -> Decision:
    """For directories (one file of that many bytes each) or files, all committed."""
    there = listing(*sizes, sizes=sizes)
    state = acid_state(there, all_committed("t", 1000).for_compactor(), names=generation)
    arguments = {"thresholds": default_settings().thresholds(), "properties": {}, **options}
    return decide(state, there, names=generation, **arguments)


def singles(first: int, last: int, size: int) -> dict[str, int]:
    return {f"delta_{wid}_{wid}": size for wid in range(first, last + 1)}


ELEVEN_WIDE = {f"delta_{200 + 11 * n + 1 - 11}_{200 + 11 * n}": 11 for n in range(1, 12)}

OF_ONE = {f"delta_201_201_{statement:04d}": 1 for statement in range(11)}

# Hive's tests write rows of equal size: a row counts as one byte here
CASES = {
    "compactTableHighDeltaPct": ({"base_20": 20, "delta_21_22": 2, "delta_23_24": 2}, MAJOR),
    "noCompactTableDeltaPctNotHighEnough": ({"base_50": 50, "delta_21_22": 2, "delta_23_24": 2}, None),
    "compactTableTooManyDeltas": ({"base_200": 200, **singles(201, 211, 1)}, MINOR),
    "noCompactTableNotEnoughDeltas": ({"base_200": 200, "delta_201_205": 5, "delta_206_211": 6}, None),
    "chooseMajorOverMinorWhenBothValid": ({"base_200": 200, **ELEVEN_WIDE}, MAJOR),
    "enoughDeltasNoBase": ({"delta_1_201": 200, **singles(202, 211, 1)}, MAJOR),
    # comparisons are strict and in single precision: in double precision the last ratio is above a tenth
    "ratio at the limit": ({"base_20": 100, "delta_21_22": 10}, None),
    "ratio above the limit": ({"base_20": 100, "delta_21_22": 11}, MAJOR),
    "number at the limit": ({"base_200": 1000, **singles(201, 210, 1)}, None),
    "ratio above the limit in double precision": ({"base_20": 1_000_000_000, "delta_21_22": 100_000_002}, None),
    "few deltas without a base": (singles(1, 5, 100), None),
    "many empty deltas without a base": (singles(1, 11, 0), MINOR),
    "many deltas on an empty base": ({"base_200": 0, **singles(201, 211, 1)}, MAJOR),
    "originals are a base": ({"000000_0": 100, "sub/000001_0": 100, "delta_1_1": 30}, MAJOR),
    "an obsolete base is left": ({"base_5": 10, "base_6": 10}, MAJOR),
    "an obsolete base is left, and a delta": ({"base_5": 10, "base_6": 10, "delta_7_7": 1}, None),
    "deltas of one write id": ({"base_200": 1000, **OF_ONE}, None),
    "deltas of one write id and of another": ({"base_200": 1000, **OF_ONE, "delta_202_202_0000": 1}, MINOR),
}


@BOTH
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_decided(case: tuple[dict[str, int], CompactionType | None], generation: Generation) -> None:
    sizes, kind = case
    assert decision(sizes, generation).kind is kind


def test_figures_and_reason() -> None:
    found = decision({"base_20": 20, "delta_21_22": 2, "delta_23_24": 2})
    assert (found.base_bytes, found.delta_bytes, found.delta_count) == (20, 4, 2)
    assert found.ratio == pytest.approx(0.2, rel=1e-6)
    assert found.threshold == Threshold(key=DELTA_PCT_KEY, value=0.1, source="default")
    assert found.reason == "the deltas hold 4 bytes, 20.00% of the base's 20 bytes, more than 10.00%"
    assert decision({"base_200": 1000, **OF_ONE}).reason == (
        "11 delta directories are more than 10, but all are of write id 201"
    )
    assert decision({"base_5": 10, "base_6": 10}).reason == "an obsolete base is left to be cleaned"
    assert decision({"000000_0": 100, "sub/000001_0": 100, "delta_1_1": 30}, HIVE4).base_bytes == 200


@BOTH
def test_nothing_is_decided_where_it_is_switched_off(generation: Generation) -> None:
    sizes, off = {"base_20": 20, "delta_21_22": 20}, {"NO_AUTO_COMPACTION": "TRUE"}
    found = decision(sizes, generation, properties=off, aborted_txn_count=5000)
    assert (found.kind, found.reason) == (None, "NO_AUTO_COMPACTION is set on the table")
    assert decision(sizes, generation, properties={"no_auto_compaction": "false"}).kind is MAJOR
    by_database = decision(sizes, generation, database_properties=off)
    assert by_database.kind is (MAJOR if generation is HIVE3 else None)


def test_thresholds_of_a_table_with_their_source() -> None:
    sizes = {"base_200": 1000, **singles(201, 205, 1)}
    settings, _ = default_settings().with_layer(Layer.TABLE, {f"compactorthreshold.{DELTA_NUM_KEY}": "4"})
    found = decision(sizes, thresholds=settings.thresholds())
    assert (found.kind, found.threshold) == (MINOR, Threshold(key=DELTA_NUM_KEY, value=4, source="table property"))
    assert decision(sizes).kind is None


def test_which_files_count() -> None:
    sizes = {
        "base_5/bucket_00000": 1000,
        "base_5/_metadata_acid": 500,
        "base_5/deeper/bucket_00000": 500,
        "delta_6_9/bucket_00000": 10,
        "delta_6_9/bucket_00000_flush_length": 8,
        "delta_6_9/000000_0": 1,
        "delete_delta_6_9/bucket_00000": 2,
    }
    three, four = decision(sizes, HIVE3), decision(sizes, HIVE4)
    assert (three.base_bytes, three.delta_bytes, three.delta_count) == (1000, 21, 2)
    assert (four.base_bytes, four.delta_bytes) == (1000, 13)


def test_insert_only() -> None:
    sizes = {"base_200": 1000, **singles(201, 211, 1)}
    assert decision(sizes, HIVE3, insert_only=True).kind is MAJOR
    assert decision(sizes, HIVE4, insert_only=True).kind is MINOR


def test_aborted_transactions() -> None:
    sizes = {"base_200": 1000}
    assert decision(sizes, aborted_txn_count=1000).kind is None
    found = decision(sizes, aborted_txn_count=1001)
    assert (found.kind, found.reason) == (MAJOR, "1,001 aborted transactions are more than 1000")
