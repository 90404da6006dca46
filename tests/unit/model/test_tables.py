"""The columns of a table as the metastore has them; names of partitions, their escaping and their patterns."""

from __future__ import annotations

import pytest

from acidlib.errors import CorruptError, RefusedError, UsageError
from acidlib.model.tables import (
    DEFAULT_PARTITION,
    MetastoreTable,
    PartitionName,
    Storage,
    TableColumn,
    TableRef,
    escape_path_name,
    is_partition_directory,
    matches,
    row_type,
    unescape_path_name,
)
from acidlib.orc.schema import parse_row_type


def storage(*columns: tuple[str, str]) -> Storage:
    return Storage(location="/t", columns=tuple(TableColumn(name=name, type=kind) for name, kind in columns))


def table(*columns: tuple[str, str]) -> MetastoreTable:
    return MetastoreTable(
        ref=TableRef("d", "t"), kind="MANAGED_TABLE", owner=None, created=1, storage=storage(*columns),
        partition_keys=(TableColumn(name="ds", type="string"),),
    )  # fmt: skip


WIDE = table(("id", "bigint"), ("s", "string"), ("late", "array<int>"))


def test_the_columns_are_the_tables_in_order() -> None:
    assert row_type(WIDE) == "struct<id:bigint,s:string,late:array<int>>"


def test_odd_names_come_back_as_they_are() -> None:
    names = ("id", "a b", "a,b:c", "x<y>", "`", "a``b", "é", "$", " lead", "a-b", "(", ";")
    text = row_type(table(*((name, "map<int,string>") for name in names)))
    assert parse_row_type(text, where="t").field_names == names


def test_no_columns_is_no_answer() -> None:
    with pytest.raises(RefusedError, match=r"^Cannot read d\.t: the metastore tells no columns of it$"):
        row_type(table())


def test_exactly_hives_characters_are_escaped() -> None:
    escaped = {chr(code) for code in range(0x180) if escape_path_name(chr(code)) != chr(code)}
    assert escaped == {chr(code) for code in range(0x20)} | set("\x7f\"#%'*/:=?\\{[]^")
    assert escape_path_name("a/b:c\n") == "a%2Fb%3Ac%0A"


@pytest.mark.parametrize("value", ["y y", "a+b,c;d&e<f>g|h}i~j`k!l$m@n(o)", "Zürich", "日本", "\U0001f600"])
def test_what_stays(value: str) -> None:
    assert escape_path_name(value) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("%", "%"), ("%2", "%2"), ("%2f", "/"), ("%zz", "%zz"), ("%%41", "%A"), ("%252F", "%2F"), ("100%", "100%")],
)
def test_unescape(text: str, value: str) -> None:
    assert unescape_path_name(text) == value


def test_null_and_empty() -> None:
    assert escape_path_name(None) == escape_path_name("") == DEFAULT_PARTITION
    assert PartitionName.parse("a=/b=x").path == "a=__HIVE_DEFAULT_PARTITION__/b=x"


def test_round_trip() -> None:
    name = PartitionName.parse("ds=2024-01-01%2F02/h=__HIVE_DEFAULT_PARTITION__")
    assert name.pairs == (("ds", "2024-01-01/02"), ("h", DEFAULT_PARTITION))
    assert name.path == "ds=2024-01-01%2F02/h=__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize("text", ["", "ds", "=x", "ds=1//h=2", "ds=1/"])
def test_wrong_names(text: str) -> None:
    with pytest.raises(CorruptError, match="key=value"):
        PartitionName.parse(text)


def test_partition_directories() -> None:
    assert is_partition_directory("p=")
    assert not is_partition_directory("=x")
    assert not is_partition_directory("delta_1_1")


NAME = PartitionName.parse("ds=2026-01-15/region=a%2Fb,c")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], True),
        (["ds=2026-01-*"], True),
        (["ds=2026-02-*"], False),
        (["ds=2026-02-*", "ds=2026-01-1?"], True),
        (["DS=2026-01-15"], True),
        (["region=a/b,c"], True),
        (["region=A*"], False),
        (["ds=2026*,region=a/b,c"], True),
        (["ds=2026*/region=a/*"], True),
        (["ds=2026*/region=x"], False),
        (["ds=2026-0[12]-*"], True),
    ],
)
def test_patterns(patterns: list[str], expected: bool) -> None:
    assert matches(NAME, patterns) is expected


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["hour=3"], "'hour' is no partition key"),
        (["ds=*", "hour=3"], "'hour' is no partition key"),
        (["ds=x,hour=3"], "'hour' is no partition key"),
        (["2026"], "not of the form key=glob"),
        ([""], "not of the form key=glob"),
    ],
)
def test_wrong_patterns_are_refused_even_if_another_matches(patterns: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        matches(NAME, patterns)
