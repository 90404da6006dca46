"""What the second reader counts of files of insert-only tables."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from located import at

from acidlib.model.units import DataFile, JoinWay
from acidlib.stores.renaming.local import LocalDataFiles
from acidlib.verify.tally import PlainView, Tally, tally_of_plain

MAP = pa.map_(pa.string(), pa.int32())


def tally(root: Path, way: JoinWay, *contents: bytes) -> Tally:
    """Of files of these bytes."""
    files = []
    for number, data in enumerate(contents):
        path = root / f"00000{number}_0"
        path.write_bytes(data)
        files.append((DataFile(path=path.name, directory="", length=len(data), bucket=0), way))
    return tally_of_plain(PlainView(location=at(root), bucket=0, files=tuple(files)), LocalDataFiles(), lambda: 0.0)


def parquet(**columns: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    return bytes(out.getvalue())


def test_lines_whichever_files_they_are_in(tmp_path: Path) -> None:
    joined = tally(tmp_path, JoinWay.LINES, b"a\nb\n\nc\n")
    assert joined.rows == 4
    assert tally(tmp_path, JoinWay.LINES, b"a\nb\n\n", b"c") == joined
    assert tally(tmp_path, JoinWay.LINES, b"a\nb\n", b"c").differs_from(joined)
    assert tally(tmp_path, JoinWay.LINES, b"a\nb\n\nd\n").differs_from(joined)


def test_long_lines_are_whole(tmp_path: Path) -> None:
    long = b"x" * (3 << 20)
    assert tally(tmp_path, JoinWay.LINES, long + b"\ny\n") == tally(tmp_path, JoinWay.LINES, long, b"y")


def test_whole_files(tmp_path: Path) -> None:
    both = tally(tmp_path, JoinWay.WHOLE, b"a\n", b"b\n")
    assert tally(tmp_path, JoinWay.WHOLE, b"b\n", b"a\n") == both
    assert tally(tmp_path, JoinWay.WHOLE, b"a\nb\n").differs_from(both)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2], pa.timestamp("ns")), pa.array([1, 3], pa.timestamp("ns"))),
        (pa.array([[1]], pa.list_(pa.timestamp("ns"))), pa.array([[2]], pa.list_(pa.timestamp("ns")))),
        (pa.array([Decimal("1.10")]), pa.array([Decimal("1.11")])),
        (pa.array([date(2024, 1, 1)]), pa.array([date(2024, 1, 2)])),
        (pa.array([{"x": 0.0}]), pa.array([{"x": -0.0}])),
        (pa.array([[("k", 1)]], MAP), pa.array([[("k", 2)]], MAP)),
        (pa.array(["a", None]), pa.array(["a", ""])),
        (pa.array([b"\xff"]), pa.array([b"\xfe"])),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_rows_of_parquet(one: Any, other: Any, tmp_path: Path) -> None:
    first = tally(tmp_path, JoinWay.ROW_GROUPS, parquet(a=one))
    assert first.rows == len(one)
    assert tally(tmp_path, JoinWay.ROW_GROUPS, parquet(a=one)) == first
    assert tally(tmp_path, JoinWay.ROW_GROUPS, parquet(a=other)).differs_from(first)
    joined = tally(tmp_path, JoinWay.ROW_GROUPS, parquet(a=pa.chunked_array([other, one])))
    assert tally(tmp_path, JoinWay.ROW_GROUPS, parquet(a=one), parquet(a=other)) == joined
