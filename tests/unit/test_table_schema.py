"""Which columns a result has by the metastore: the partition's or the table's."""

from __future__ import annotations

import pytest

from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.tables import Partition, Storage, Table, TableColumn
from acidlib.orc.hive_types import parse_row_type
from acidlib.planning.table_schema import row_type

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


def storage(*columns: tuple[str, str]) -> Storage:
    return Storage(location="/t", columns=tuple(TableColumn(name=name, type=kind) for name, kind in columns))


def table(*columns: tuple[str, str]) -> Table:
    return Table(
        database="d", name="t", kind="MANAGED_TABLE", owner=None, created=1, storage=storage(*columns),
        partition_keys=(TableColumn(name="ds", type="string"),),
    )  # fmt: skip


def partition(*columns: tuple[str, str]) -> Partition:
    return Partition(values=("2026-01-01", "x"), storage=storage(*columns))


WIDE = table(("id", "bigint"), ("s", "string"), ("late", "array<int>"))
OLD = partition(("id", "int"), ("s", "string"))


def test_hive_3_goes_by_the_partition_and_hive_4_by_the_table() -> None:
    assert row_type(WIDE, OLD, HIVE3) == "struct<id:int,s:string>"
    assert row_type(WIDE, OLD, HIVE4) == "struct<id:bigint,s:string,late:array<int>>"


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
def test_a_table_without_partitions_has_its_own(generation: Generation) -> None:
    assert row_type(WIDE, None, generation) == "struct<id:bigint,s:string,late:array<int>>"


def test_odd_names_come_back_as_they_are() -> None:
    names = ("id", "a b", "a,b:c", "x<y>", "`", "a``b", "é", "$", " lead", "a-b", "(", ";")
    text = row_type(table(*((name, "map<int,string>") for name in names)), None, HIVE4)
    assert parse_row_type(text, where="t").field_names == names


def test_no_columns_is_no_answer() -> None:
    with pytest.raises(RefusedError, match=r"^Cannot compact d\.t: because the metastore tells no columns of it$"):
        row_type(table(), OLD, HIVE4)
    with pytest.raises(RefusedError, match=r"d\.t: because .* no columns of partition 2026-01-01, x$"):
        row_type(WIDE, partition(), HIVE3)
