"""The columns that a result has, as the metastore has them: the table's."""

from __future__ import annotations

import pytest

from acidlib.errors import RefusedError
from acidlib.model.tables import Storage, Table, TableColumn, TableRef, row_type
from acidlib.orc.schema import parse_row_type


def storage(*columns: tuple[str, str]) -> Storage:
    return Storage(location="/t", columns=tuple(TableColumn(name=name, type=kind) for name, kind in columns))


def table(*columns: tuple[str, str]) -> Table:
    return Table(
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
    with pytest.raises(RefusedError, match=r"^Cannot compact d\.t: because the metastore tells no columns of it$"):
        row_type(table())
