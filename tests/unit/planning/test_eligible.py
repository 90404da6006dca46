"""What a compactor leaves alone, with its reasons."""

from __future__ import annotations

from typing import Any

import pytest

from acidlib.model.names import Generation
from acidlib.model.tables import ORC_INPUT_FORMAT, Partition, Storage, Table, TableColumn, TableRef
from acidlib.planning.initiate import ORC_SERDE, cleaning_forbidden, why_not

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
