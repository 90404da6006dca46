"""What a compactor leaves alone and what an initiator decides: the cases of Hive's TestInitiator, by generation."""

from __future__ import annotations

from typing import Any

import pytest

from acidlib.config.settings import Layer, default_settings
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionType
from acidlib.model.snapshots import all_committed
from acidlib.model.tables import ORC_INPUT_FORMAT, Partition, Storage, Table, TableColumn, TableRef
from acidlib.planning.initiate import (
    DELTA_NUM_KEY,
    DELTA_PCT_KEY,
    ORC_SERDE,
    Decision,
    Threshold,
    cleaning_forbidden,
    decide,
    why_not,
)
from acidlib.planning.state import acid_state
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


def table(properties: dict[str, str] | None = None, kind: str = "MANAGED_TABLE", **changes: Any) -> Table:
    return Table(
        ref=TableRef("d", "t"), kind=kind, owner="o", created=1, storage=storage(**changes),
        properties=FULL if properties is None else properties,
    )  # fmt: skip


def asked(found: Table, **more: Any) -> str | None:
    return why_not(found, {}, **{"generation": HIVE4, "automatic": False, **more})


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize("kind", ["MANAGED_TABLE", "MATERIALIZED_VIEW"])
def test_an_ordinary_table_is_compacted(kind: str, generation: Generation, automatic: bool) -> None:
    """A materialized view has rows of its own."""
    assert why_not(table(kind=kind), {}, generation=generation, automatic=automatic) is None


@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (table(kind="VIRTUAL_VIEW"), "Cannot compact d.t: because it is a view"),
        (
            table({}, kind="MATERIALIZED_VIEW"),
            "Only transactional tables can be compacted, d.t is not suitable for compaction!",
        ),
        (table(kind="EXTERNAL_TABLE"), "Cannot compact d.t: because it is an external table"),
        (table({**FULL, "EXTERNAL": "TRUE"}), "Cannot compact d.t: because it is an external table"),
        (table({}), "Only transactional tables can be compacted, d.t is not suitable for compaction!"),
        (
            table({"transactional": "false"}),
            "Only transactional tables can be compacted, d.t is not suitable for compaction!",
        ),
        (table(sort_columns=("id",)), "Attempt to compact sorted table d.t, which is not yet supported!"),
        (
            table(input_format=PARQUET),
            f"Cannot compact d.t: because its rows are read by {PARQUET} and {ORC_SERDE}, "
            "and only ORC can be full ACID",
        ),
    ],
)
def test_these_are_never_compacted(found: Table, reason: str, automatic: bool) -> None:
    assert asked(found, automatic=automatic) == reason


@pytest.mark.parametrize("missing", ["input_format", "serde"])
def test_what_the_metastore_does_not_tell_is_not_taken_for_orc(missing: str) -> None:
    assert "only ORC can be full ACID" in (asked(table(**{missing: None})) or "")


def test_insert_only_tables_of_any_format_unless_switched_off() -> None:
    found = table(INSERT_ONLY, input_format=PARQUET, serde="any")
    assert asked(found) is None
    assert asked(found, insert_only_enabled=False) == (
        "Insert only compaction is disabled. Set hive.compactor.compact.insert.only=true to enable it."
    )
    assert asked(table(), insert_only_enabled=False) is None
    ordered = table(INSERT_ONLY, sort_columns=("id",))
    assert "sorted table" in (asked(ordered) or "")


def test_a_partition_decides_how_its_rows_are_stored() -> None:
    ordered = Partition(values=("1",), storage=storage(sort_columns=("id",)))
    plain = Partition(values=("1",), storage=storage())
    foreign = Partition(values=("1",), storage=storage(input_format=PARQUET))
    assert "sorted table d.t" in (asked(table(), partition=ordered) or "")
    assert asked(table(sort_columns=("id",)), partition=plain) is None
    assert PARQUET in (asked(table(), partition=foreign) or "")


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize(
    ("database", "own", "reason"),
    [
        (PENDING, {}, "the first incremental replication into the database is pending"),
        ({}, PENDING, "the first incremental replication into the table is pending"),
        ({}, {"no_auto_compaction": "TRUE"}, "NO_AUTO_COMPACTION is set on the table"),
        ({}, {"NO_AUTO_COMPACTION": "true"}, "NO_AUTO_COMPACTION is set on the table"),
    ],
)
def test_some_are_compacted_only_when_somebody_asks(
    database: dict[str, str], own: dict[str, str], reason: str, generation: Generation
) -> None:
    found = table({**FULL, **own})
    said = why_not(found, database, generation=generation, automatic=True)
    assert said is not None
    assert said.startswith(reason)
    assert why_not(found, database, generation=generation, automatic=False) is None


def test_in_hive_4_a_database_decides_for_its_tables() -> None:
    off, on = {"NO_AUTO_COMPACTION": "true"}, {"no_auto_compaction": "false"}
    for generation, database, own, expected in (
        (HIVE4, off, {}, "NO_AUTO_COMPACTION is set on the database"),
        (HIVE4, on, off, None),
        (HIVE3, off, {}, None),
        (HIVE3, on, off, "NO_AUTO_COMPACTION is set on the table"),
    ):
        assert why_not(table({**FULL, **own}), database, generation=generation, automatic=True) == expected


@pytest.mark.parametrize("flag", ["no_cleanup", "NO_CLEANUP"])
def test_cleaning_may_be_forbidden_on_the_table_and_on_the_partition(flag: str) -> None:
    own = Partition(values=("1",), storage=storage(), properties={flag: "True"})
    assert cleaning_forbidden(table({flag: "true"})) == "NO_CLEANUP is set on the table"
    assert cleaning_forbidden(table({flag: "true"}), own) == "NO_CLEANUP is set on the table"
    assert cleaning_forbidden(table(), own) == "NO_CLEANUP is set on the partition"
    assert cleaning_forbidden(table({flag: "false"}), Partition(values=("1",), storage=storage())) is None
    # the lower-case name decides where both are there
    assert cleaning_forbidden(table({"no_cleanup": "false", "NO_CLEANUP": "true"})) is None


HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
BOTH = pytest.mark.parametrize("generation", [HIVE3, HIVE4])
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


def decision(sizes: dict[str, int], generation: Generation = HIVE3, **options: object) -> Decision:
    """For directories (one file of that many bytes each) or files, all committed."""
    there = listing(*sizes, sizes=sizes)
    state = acid_state(there, all_committed("t", 1000).for_compactor(), generation=generation)
    arguments = {"thresholds": default_settings().thresholds(), "properties": {}, **options}
    return decide(state, there, generation=generation, **arguments)


def singles(first: int, last: int, size: int) -> dict[str, int]:
    return {f"delta_{wid}_{wid}": size for wid in range(first, last + 1)}


ELEVEN_WIDE = {f"delta_{200 + 11 * n + 1 - 11}_{200 + 11 * n}": 11 for n in range(1, 12)}

# Hive's tests write rows of equal size: a row counts as one byte here
CASES = {
    "compactTableHighDeltaPct": ({"base_20": 20, "delta_21_22": 2, "delta_23_24": 2}, MAJOR),
    "noCompactTableDeltaPctNotHighEnough": ({"base_50": 50, "delta_21_22": 2, "delta_23_24": 2}, None),
    "compactTableTooManyDeltas": ({"base_200": 200, **singles(201, 211, 1)}, MINOR),
    "noCompactTableNotEnoughDeltas": ({"base_200": 200, "delta_201_205": 5, "delta_206_211": 6}, None),
    "chooseMajorOverMinorWhenBothValid": ({"base_200": 200, **ELEVEN_WIDE}, MAJOR),
    "enoughDeltasNoBase": ({"delta_1_201": 200, **singles(202, 211, 1)}, MAJOR),
}


@BOTH
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases_of_hive(case: tuple[dict[str, int], CompactionType | None], generation: Generation) -> None:
    sizes, kind = case
    assert decision(sizes, generation).kind is kind


def test_figures_and_reason() -> None:
    found = decision({"base_20": 20, "delta_21_22": 2, "delta_23_24": 2})
    assert (found.base_bytes, found.delta_bytes, found.delta_count) == (20, 4, 2)
    assert found.ratio == pytest.approx(0.2, rel=1e-6)
    assert found.threshold == Threshold(key=DELTA_PCT_KEY, value=0.1, source="default")
    assert found.reason == "the deltas hold 4 bytes, 20.00% of the base's 20 bytes, more than 10.00%"


def test_both_comparisons_are_strict_and_in_single_precision() -> None:
    assert decision({"base_20": 100, "delta_21_22": 10}).kind is None
    assert decision({"base_20": 100, "delta_21_22": 11}).kind is MAJOR
    assert decision({"base_200": 1000, **singles(201, 210, 1)}).kind is None
    # in double precision this ratio is above a tenth, Java's float rounds it to the very threshold
    assert decision({"base_20": 1_000_000_000, "delta_21_22": 100_000_002}).kind is None


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


def test_without_base_bytes() -> None:
    assert decision(singles(1, 5, 100)).kind is None
    assert decision(singles(1, 11, 0)).kind is MINOR
    assert decision({"base_200": 0, **singles(201, 211, 1)}).kind is MAJOR


def test_originals() -> None:
    sizes = {"000000_0": 100, "sub/000001_0": 100, "delta_1_1": 30}
    for generation in (HIVE3, HIVE4):
        found = decision(sizes, generation)
        assert (found.base_bytes, found.kind) == (200, MAJOR)


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


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
def test_an_obsolete_base_alone_is_asked_for(generation: Generation) -> None:
    sizes = {"base_5": 10, "base_6": 10}
    assert decision(sizes, generation).kind is MAJOR
    assert decision(sizes, generation).reason == "an obsolete base is left to be cleaned"
    assert decision({**sizes, "delta_7_7": 1}, generation).kind is None


def test_insert_only() -> None:
    sizes = {"base_200": 1000, **singles(201, 211, 1)}
    assert decision(sizes, HIVE3, insert_only=True).kind is MAJOR
    assert decision(sizes, HIVE4, insert_only=True).kind is MINOR


@BOTH
def test_deltas_of_one_write_id_are_no_reason_for_a_minor(generation: Generation) -> None:
    sizes = {"base_200": 1000, **{f"delta_201_201_{statement:04d}": 1 for statement in range(11)}}
    found = decision(sizes, generation)
    assert found.kind is None
    assert found.reason == "11 delta directories are more than 10, but all are of write id 201"
    assert decision({**sizes, "delta_202_202_0000": 1}, generation).kind is MINOR


def test_aborted_transactions() -> None:
    sizes = {"base_200": 1000}
    assert decision(sizes, aborted_txn_count=1000).kind is None
    found = decision(sizes, aborted_txn_count=1001)
    assert (found.kind, found.reason) == (MAJOR, "1001 aborted transactions are more than 1000")
