"""What is read of a table: columns, conditions and partitions, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from acidlib.acid.names import Generation
from acidlib.errors import AcidError, MissingError, RefusedError, UsageError
from acidlib.model.tables import MetastoreTable, PartitionName, Storage, TableColumn, TableRef
from acidlib.scan.splits import Scan
from acidlib.scan.wanted import Wanted, may_match, scan_of, unreadable_reason, wanted_partitions

ROW = "struct<id:int,Name:char(3),`odd name`:string,u:uniontype<int,string>>"
KEYS = (TableColumn(name="ds", type="date"), TableColumn(name="n", type="int"))
NAMES = ["ds=2026-01-01/n=1", "ds=2026-01-02/n=2", "ds=__HIVE_DEFAULT_PARTITION__/n=30"]


def scan(row: str = ROW, **wanted: Any) -> Scan:
    return scan_of("db.t", row, KEYS, Wanted(**wanted))


def test_all_columns_come_before_the_partition_keys() -> None:
    every = scan("struct<id:int,name:string>")
    assert every.columns == ("id", "name", "ds", "n")
    assert every.schema.types == [pa.int32(), pa.string(), pa.date32(), pa.int32()]
    assert every.predicate is None


def test_columns_are_chosen_without_case_and_in_order() -> None:
    chosen = scan(columns=("N", "odd name", "NAME", "id"), row_ids=True)
    assert chosen.schema.names == ["row__id", "n", "odd name", "name", "id"]
    assert chosen.schema.field("row__id").type == pa.struct(
        [("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())]
    )
    assert scan(columns=()).schema.names == []


@pytest.mark.parametrize(
    ("wanted", "kind", "message"),
    [
        (
            {"columns": ("id", "Amount")},
            UsageError,
            "Cannot read the column Amount of db.t: it has the columns id, name, odd name, u, ds, n",
        ),
        ({"columns": ("id", "ID")}, UsageError, "Cannot read the column id of db.t twice"),
        ({}, RefusedError, "Cannot read the column u of db.t: Spark has no such type"),
        ({"columns": ("id",), "where": "amount > 1"}, UsageError, "amount"),
        ({"columns": ("id",), "where": "id >"}, UsageError, "id >"),
        ({"columns": ("id",), "where": "lower(name) = 'a'"}, UsageError, "lower"),
    ],
)
def test_wrong_columns_and_conditions(wanted: dict[str, Any], kind: type[AcidError], message: str) -> None:
    with pytest.raises(kind) as refused:
        scan(**wanted)
    assert type(refused.value) is kind
    assert message in str(refused.value)


def test_row_ids_of_an_insert_only_table_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"^Cannot read row ids of db\.t: it is insert-only"):
        scan_of("db.t", "struct<id:int>", (), Wanted(row_ids=True), insert_only=True)


def test_the_caller_that_tests_a_condition_gets_its_columns() -> None:
    row = "struct<id:int,amount:int,note:string,am:int>"
    tested = scan(row, columns=("note",), where="AMOUNT + 1 > 3 or `id` = 1", exact=False)
    assert tested.columns == ("note", "id", "amount")
    assert scan(row, columns=("note",), where="amount > 3", exact=True).columns == ("note",)


def test_a_condition_that_is_tested_again_may_be_understood_in_part() -> None:
    partly = scan(columns=("id",), where="id > 1 and lower(name) = 'a'", exact=False)
    assert partly.predicate is not None
    assert (partly.exact, partly.predicate.columns) == (False, frozenset({"id"}))
    assert scan(columns=("id",), where="lower(name) = 'a'", exact=False).predicate is None
    assert scan(columns=("id",), where="   ").predicate is None


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ("ds = '2026-01-02'", [1]),
        ("ds > date '2026-01-01' and id = 4", [1]),
        ("n < 10", [0, 1]),
        ("n >= 10 or n = 1", [0, 2]),
        ("ds is null", [2]),
        ("id = 4", [0, 1, 2]),
        ("id = 4 and n = 99", []),
    ],
)
def test_partitions_are_left_out_by_their_keys(where: str, read: list[int]) -> None:
    conditioned = scan(columns=("id",), where=where)
    assert [number for number, name in enumerate(NAMES) if may_match(conditioned, name, Generation.HIVE4)] == read


def test_a_table_without_partitions_is_always_read() -> None:
    assert may_match(scan_of("db.t", "struct<id:int>", (), Wanted(where="id = 1")), None, Generation.HIVE4)


def test_partitions_are_chosen_by_patterns() -> None:
    assert wanted_partitions("db.t", KEYS, NAMES, Wanted()) == NAMES
    assert wanted_partitions("db.t", KEYS, NAMES, Wanted(partitions=("DS=2026-*",))) == NAMES[:2]
    assert wanted_partitions("db.t", (), [], Wanted()) == []
    with pytest.raises(MissingError, match=r"^Cannot find partitions of db\.t: none matches ds=2027-\*$"):
        wanted_partitions("db.t", KEYS, NAMES, Wanted(partitions=("ds=2027-*",)))
    with pytest.raises(RefusedError, match=r"^Cannot read db\.t: 'x' of 'x=1' is no partition key \(ds, n\)$"):
        wanted_partitions("db.t", KEYS, NAMES, Wanted(partitions=("x=1",)))
    with pytest.raises(RefusedError, match=r"'ds' of 'ds=1' is no partition key \(none\)$"):
        wanted_partitions("db.t", (), [], Wanted(partitions=("ds=1",)))
    with pytest.raises(UsageError, match="is not of the form key=glob"):
        wanted_partitions("db.t", KEYS, NAMES, Wanted(partitions=("ds",)))


@pytest.mark.parametrize(
    ("kind", "properties", "reason"),
    [
        ("MANAGED_TABLE", {"transactional": "true"}, None),
        ("MATERIALIZED_VIEW", {"transactional": "TRUE"}, None),
        ("VIRTUAL_VIEW", {"transactional": "true"}, "it is a view"),
        ("EXTERNAL_TABLE", {}, "it is an external table"),
        ("MANAGED_TABLE", {"transactional": "true", "EXTERNAL": "TRUE"}, "it is an external table"),
        ("MANAGED_TABLE", {}, "it is not transactional"),
    ],
)
def test_tables_that_are_not_read(kind: str, properties: dict[str, str], reason: str | None) -> None:
    storage = Storage(location="/t", columns=())
    table = MetastoreTable(
        ref=TableRef("db", "t"), kind=kind, owner=None, created=1, storage=storage, properties=properties
    )
    answer = unreadable_reason(table)
    assert answer is None if reason is None else (answer or "").startswith(f"Cannot read db.t: {reason}")


@pytest.mark.parametrize(
    ("kind", "text", "where", "is_read"),
    [
        ("int", "7", "k < 10", True),
        ("int", "007", "k = 7", None),
        ("int", "007", "k in (8, 9)", False),
        ("int", "007", "k > 6", True),
        ("int", "x", "k is null", None),
        ("int", "x", "k > 6", False),
        ("int", "x", "not (k > 6)", False),
        ("tinyint", "128", "k = -128", None),
        ("tinyint", "128", "k < 0", True),
        ("date", "2026-1-2", "k = '2026-01-02'", None),
        ("date", "2026-1-2", "k <> '2026-01-02'", None),
        ("date", "2026-1-2", "k > '2026-01-01' and id = 1", True),
        ("date", "2026-1-2", "k is null", False),
        ("timestamp", "2026-01-02", "k is not null", True),
        ("char(3)", "a", "k = 'a'", None),
        ("char(3)", "abc", "k = 'abc'", True),
        ("varchar(3)", "abcd", "k = 'abc'", None),
        ("varchar(3)", "abcd", "k like 'ab%'", True),
        ("float", "1d", "k = 1", True),
        ("decimal(5,2)", "1.255", "k = 1.26", True),
        ("boolean", "off", "not k", True),
        ("timestamp with local time zone", "2026-01-02 00:00:00Z", "k is null", False),
    ],
)
def test_keys_that_hive_compares_as_texts_or_as_values(kind: str, text: str, where: str, is_read: bool | None) -> None:
    """None: refused, for the two differ."""
    key = TableColumn(name="k", type=kind)
    name = PartitionName(pairs=(("k", text),)).path
    conditioned = scan_of("db.t", "struct<id:int>", (key,), Wanted(where=where))
    if is_read is None:
        with pytest.raises(
            RefusedError, match=f"Cannot read partition {name} of db.t by .*: Hive compares the text of a key"
        ):
            may_match(conditioned, name, Generation.HIVE4)
    else:
        assert may_match(conditioned, name, Generation.HIVE4) is is_read
    may_match(scan_of("db.t", "struct<id:int>", (key,), Wanted(where=where, exact=False)), name, Generation.HIVE4)


def test_keys_without_a_certain_value_are_refused_with_their_partition() -> None:
    key = TableColumn(name="k", type="timestamp with local time zone")
    conditioned = scan_of("db.t", "struct<id:int>", (key,), Wanted(where="k is null"))
    with pytest.raises(RefusedError) as refused:
        may_match(conditioned, "k=2026-01-02", Generation.HIVE4)
    assert str(refused.value) == (
        "Cannot read partition k=2026-01-02 of db.t: of k, a TIMESTAMP WITH LOCAL TIME ZONE, '2026-01-02' has no time "
        "zone, and Hive reads it in that of the session"
    )


@pytest.mark.parametrize(
    ("kind", "where", "is_alike"),
    [
        ("string", "k = 'a'", True),
        ("string", "k in ('a', 'b') or id = 1", True),
        ("string", "k like 'a%' and id = 1", True),
        ("string", "k <> 'a'", False),
        ("string", "k <> 'a' or id = 1", False),
        ("string", "not (id = 1 and k <> 'a')", True),
        ("string", "not (id = 1 and k = 'a')", False),
        ("string", "k > 'A'", False),
        ("string", "k is null", False),
        ("varchar(3)", "k = '__H'", False),
        ("char(3)", "k < 'A'", True),
        ("boolean", "k", False),
        ("boolean", "not k", True),
        ("binary", "k is null", False),
        ("int", "k is null", True),
        ("int", "k <> 1", True),
        ("date", "not (k = '2026-01-01')", True),
    ],
)
def test_rows_without_a_value_of_a_key_that_hive_takes_for_a_text(kind: str, where: str, is_alike: bool) -> None:
    key = TableColumn(name="k", type=kind)
    name = "k=__HIVE_DEFAULT_PARTITION__"
    conditioned = scan_of("db.t", "struct<id:int>", (key,), Wanted(where=where))
    if is_alike:
        may_match(conditioned, name, Generation.HIVE4)
    else:
        with pytest.raises(
            RefusedError, match=f"Cannot read partition {name} of db.t by .*: Hive compares the text of a key"
        ):
            may_match(conditioned, name, Generation.HIVE4)
    may_match(scan_of("db.t", "struct<id:int>", (key,), Wanted(where=where, exact=False)), name, Generation.HIVE4)
