"""Snapshots by the verbs of a program: of directories and warehouses, with rows by Arrow, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import acidlib
from integration.harness import fixture


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    fixture("hive3/a_crud", tmp_path / "sales.db" / "orders")
    fixture("hive3/b_part", tmp_path / "sales.db" / "visits")
    (tmp_path / "sales.db" / "flat").mkdir()
    (tmp_path / "sales.db" / "flat" / "000000_0").write_bytes(b"x")
    return tmp_path


def orders(warehouse: Path, **options: Any) -> acidlib.Table:
    return acidlib.directory(warehouse / "sales.db" / "orders", **{"all_committed": True} | options)


def test_rows_of_a_directory(warehouse: Path) -> None:
    rows = orders(warehouse).to_arrow(columns=["ID", "value"], where="id >= 4")
    assert rows.schema.names == ["id", "value"]
    assert sorted(rows["id"].to_pylist()) == [4, 5]
    ids = orders(warehouse).to_arrow(columns=[], row_ids=True)
    assert ids.schema.names == ["row__id"]
    assert ids.num_rows == 4


def test_rows_of_a_table_of_a_warehouse(warehouse: Path) -> None:
    visits = acidlib.warehouse(warehouse, all_committed=True).table("Sales.Visits")
    with visits.snapshot(partitions="dt=*", columns=["dt"]) as snapshot:
        assert isinstance(snapshot, acidlib.Snapshot)
        assert "nothing keeps a cleaner away" in snapshot.lock_note
        assert snapshot.to_arrow().num_rows == 35
        names = sorted(set(snapshot.to_arrow()["dt"].to_pylist()))
    assert visits.to_arrow(partitions=f"dt={names[0]}").num_rows < 35


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"columns": ["nix"]}, acidlib.UsageError, "Cannot read the column nix of sales.orders: it has the columns"),
        ({"columns": "id"}, acidlib.UsageError, "give a list of names"),
        ({"where": "id ="}, acidlib.UsageError, "id ="),
        ({"partitions": "ds=1"}, acidlib.UsageError, "'ds' of 'ds=1' is no partition key (none)"),
    ],
)
def test_what_cannot_be_read(
    warehouse: Path, options: dict[str, Any], kind: type[acidlib.AcidError], message: str
) -> None:
    with pytest.raises(acidlib.AcidError) as refused:
        orders(warehouse).to_arrow(**options)
    assert type(refused.value) is kind
    assert message in str(refused.value)


def test_what_is_no_table(warehouse: Path) -> None:
    lake = acidlib.warehouse(warehouse, all_committed=True)
    with pytest.raises(acidlib.MissingError, match=r"^Cannot read sales\.no: no ACID table in .* has such a name$"):
        lake.table("sales.no").to_arrow()
    with pytest.raises(acidlib.MissingError, match=r"has such a name; did you mean sales\.orders\?$"):
        lake.table("sales.order").to_arrow()
    with pytest.raises(acidlib.RefusedError, match=r"^Cannot read sales\.flat: it holds original files only"):
        lake.table("sales.flat").to_arrow()
    with pytest.raises(acidlib.UsageError, match="what is committed cannot be known from files"):
        orders(warehouse, all_committed=False).to_arrow()
    with pytest.raises(acidlib.UsageError, match="metastore"):
        acidlib.connect("none").table("sales.orders").to_arrow()
