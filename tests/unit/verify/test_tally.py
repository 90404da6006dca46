"""What the second reader counts: equal sums mean equal rows, to the last bit."""

from __future__ import annotations

import math
import struct
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judges import tables
from located import at

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import CorruptError
from acidlib.model.units import ColumnMatching, DataFile, FileForm, JoinWay
from acidlib.stores.renaming.local import LocalDataFiles
from acidlib.verify.tally import BucketView, PlainView, Tally, tally_of, tally_of_plain

ALL = ValidWriteIdList.parse("d.t:9:9223372036854775807::")
NAN, OTHER_NAN = (struct.unpack(">d", bytes.fromhex(bits))[0] for bits in ("7ff8000000000000", "fff8000000000001"))


def tally(
    root: Path,
    columns: str,
    rows: list[Any],
    *,
    table: str | None = None,
    raw: bool = False,
    matching: ColumnMatching | None = None,
    generation: Generation = Generation.HIVE4,
    writer: int = 0,
    renumbered: bool = False,
) -> Tally:
    """Of one file of these rows, as a table of these columns has them."""
    path = root / "000000_0"
    events = tables.inserts(1, rows, writer=writer, first=writer)
    data = tables.orc_bytes(columns, rows) if raw else tables.acid_bytes(columns, events)
    path.write_bytes(data)
    file = DataFile(
        path=path.name,
        directory="",
        length=len(data),
        bucket=0,
        form=FileForm.ORIGINAL if raw else FileForm.EVENTS,
        write_id=1,
    )
    view = BucketView(
        location=at(root),
        bucket=0,
        files=(file,),
        deletes=(),
        applied=True,
        write_ids=ALL,
        results=(),
        columns=table,
        schema=file,
        matching=matching or ColumnMatching(by_position=False),
        reader=generation,
        renumbered=renumbered,
    )
    return tally_of(view, LocalDataFiles())


def test_rows_that_were_renumbered_are_the_same_by_their_write_ids_and_values(tmp_path: Path) -> None:
    columns, rows = "struct<a:int>", [(1,), (2,), (3,)]
    before = tally(tmp_path, columns, rows, renumbered=True)
    parts = [tally(tmp_path, columns, part, writer=2, renumbered=True) for part in (rows[:1], rows[1:])]
    assert before.differs_from(parts[0].with_more(parts[1])) is None
    assert before.differs_from(tally(tmp_path, columns, [(1,), (2,), (4,)], renumbered=True)) is not None
    assert tally(tmp_path, columns, rows).differs_from(tally(tmp_path, columns, rows, writer=2)) is not None


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("double", 0.0, -0.0),
        ("double", NAN, OTHER_NAN),
        ("double", 1.0, math.nextafter(1.0, 2.0)),
        ("array<double>", [NAN], [OTHER_NAN]),
        ("struct<x:double>", (NAN,), (OTHER_NAN,)),
        ("map<string,double>", {"k": NAN}, {"k": OTHER_NAN}),
        ("timestamp", (5, 1), (5, 2)),
        ("timestamp", (-62135769600, 0), (-62135769600, 1)),
        ("date", 3_000_000, 3_000_001),
        ("decimal(38,18)", "99999999999999999999.000000000000000001", "99999999999999999999.000000000000000002"),
        ("string", "a", "a "),
        ("string", "nan", "NaN"),
        ("string", "", None),
        ("binary", b"\x00", b""),
        ("boolean", True, False),
        ("uniontype<int,string>", 1, "1"),
        ("char(3)", "ab ", "abc"),
    ],
)
def test_values_that_differ_have_other_sums(kind: str, one: Any, other: Any, tmp_path: Path) -> None:
    columns = f"struct<a:{kind}>"
    first = tally(tmp_path, columns, [(one,), (other,)])
    assert tally(tmp_path, columns, [(one,), (other,)]) == first
    assert first.rows == 2
    assert tally(tmp_path, columns, [(one,), (one,)]).differs_from(first) is not None
    assert tally(tmp_path, columns, [(other,), (one,)]).differs_from(first) is not None


@pytest.mark.parametrize(
    ("old", "new", "values", "read"),
    [
        ("a:int", "a:bigint", [(7,)], [(7,)]),
        ("a:int,b:int", "b:int,c:string", [(1, 2)], [(2, None)]),
        ("A:int", "a:int", [(1,)], [(None,)]),
        ("a:boolean", "a:string", [(True,), (None,)], [("TRUE",), (None,)]),
        ("a:boolean", "a:tinyint", [(True,)], [(1,)]),
        ("a:smallint", "a:double", [(5,)], [(5.0,)]),
        ("a:bigint", "a:decimal(20,1)", [(-5,)], [("-5.0",)]),
        ("a:int", "a:char(11)", [(-5,)], [("-5         ",)]),
        ("a:decimal(4,1)", "a:decimal(10,3)", [("1.5",), ("-0.0",)], [("1.500",), ("0.000",)]),
        ("a:decimal(4,0)", "a:decimal(10,2)", [("15",)], [("15.00",)]),
        ("a:boolean", "a:decimal(3,2)", [(True,)], [("1.00",)]),
        ("a:char(3)", "a:string", [("ab ",)], [("ab",)]),
        ("a:decimal(5,2)", "a:string", [("1.50",), ("-7",), ("0",), (None,)], [("1.5",), ("-7",), ("0",), (None,)]),
        ("a:date", "a:char(11)", [(0,), (-719_164,)], [("1970-01-01 ",), ("0001-01-01 ",)]),
        ("a:date", "a:string", [(-141_428,), (2_932_896,)], [("1582-10-04",), ("9999-12-31",)]),
        ("a:double", "a:string", [(0.001,), (1e7,), (-0.0,)], [("0.001",), ("1.0E7",), ("-0.0",)]),
        ("a:float", "a:double", [(74.72,)], [(74.72000122070312,)]),
        ("a:float", "a:string", [(74.72,), (float("-inf"),)], [("74.72000122070312",), ("-Infinity",)]),
        ("a:char(3)", "a:char(5)", [("ab ",)], [("ab   ",)]),
        ("a:struct<x:int,y:int>", "a:struct<y:bigint,z:int>", [((1, 2),), (None,)], [((2, None),), (None,)]),
        ("a:map<int,array<int>>", "a:map<string,array<double>>", [({1: [2, None]},)], [({"1": [2.0, None]},)]),
    ],
)
def test_columns_are_those_of_the_table(old: str, new: str, values: Any, read: Any, tmp_path: Path) -> None:
    table = f"struct<{new}>"
    expected = tally(tmp_path, table, read, table=table)
    assert tally(tmp_path, f"struct<{old}>", values, table=table) == expected


@pytest.mark.parametrize(
    ("new", "read"), [("double", [74.72, 8589934600.0, -0.0]), ("string", ["74.72", "8.5899346E9", "-0.0"])]
)
def test_a_float_is_read_by_its_text_by_hive_3(new: str, read: list[Any], tmp_path: Path) -> None:
    table = f"struct<a:{new}>"
    expected = tally(tmp_path, table, [(value,) for value in read], table=table)
    old = [(74.72,), (2.0**33,), (-0.0,)]
    assert tally(tmp_path, "struct<a:float>", old, table=table, generation=Generation.HIVE3) == expected


def test_columns_go_by_position_or_whatever_their_case(tmp_path: Path) -> None:
    table = "struct<a:int,b:int>"
    expected = tally(tmp_path, table, [(1, None)])
    by_position = ColumnMatching(by_position=True)
    assert tally(tmp_path, "struct<x:int>", [(1,)], table=table, matching=by_position) == expected
    assert tally(tmp_path, "struct<_col0:int>", [(1,)], table=table) == expected
    any_case = ColumnMatching(by_position=False, case_sensitive=False)
    assert tally(tmp_path, "struct<A:int>", [(1,)], table=table, matching=any_case) == expected


def test_rows_without_ids_are_numbered(tmp_path: Path) -> None:
    rows = [(1,), (2,), (1,)]
    numbered = tally(tmp_path, "struct<a:int>", rows, raw=True)
    assert numbered == tally(tmp_path, "struct<a:int>", rows)
    assert tally(tmp_path, "struct<a:int>", [(2,), (1,), (1,)], raw=True).differs_from(numbered)


def test_a_change_that_loses_something_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="no string is read as int"):
        tally(tmp_path, "struct<a:string>", [("1",)], table="struct<a:int>")


def test_what_pyorc_cannot_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.mkdir()
    with pytest.raises(CorruptError, match="pyorc cannot read it"):
        tally(path, "struct<a:map<array<int>,int>>", [({(1,): 1},)])


MAP = pa.map_(pa.string(), pa.int32())


def of_files(root: Path, way: JoinWay, *contents: bytes) -> Tally:
    """Of files of these bytes."""
    files = []
    for number, data in enumerate(contents):
        path = root / f"00000{number}_0"
        path.write_bytes(data)
        files.append((DataFile(path=path.name, directory="", length=len(data), bucket=0), way))
    return tally_of_plain(PlainView(location=at(root), bucket=0, files=tuple(files)), LocalDataFiles())


def parquet(**columns: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    return bytes(out.getvalue())


def test_lines_whichever_files_they_are_in(tmp_path: Path) -> None:
    joined = of_files(tmp_path, JoinWay.LINES, b"a\nb\n\nc\n")
    assert joined.rows == 4
    assert of_files(tmp_path, JoinWay.LINES, b"a\nb\n\n", b"c") == joined
    assert of_files(tmp_path, JoinWay.LINES, b"a\nb\n", b"c").differs_from(joined)
    assert of_files(tmp_path, JoinWay.LINES, b"a\nb\n\nd\n").differs_from(joined)


def test_long_lines_are_whole(tmp_path: Path) -> None:
    long = b"x" * (3 << 20)
    assert of_files(tmp_path, JoinWay.LINES, long + b"\ny\n") == of_files(tmp_path, JoinWay.LINES, long, b"y")


def test_whole_files(tmp_path: Path) -> None:
    both = of_files(tmp_path, JoinWay.WHOLE, b"a\n", b"b\n")
    assert of_files(tmp_path, JoinWay.WHOLE, b"b\n", b"a\n") == both
    assert of_files(tmp_path, JoinWay.WHOLE, b"a\nb\n").differs_from(both)


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
    first = of_files(tmp_path, JoinWay.ROW_GROUPS, parquet(a=one))
    assert first.rows == len(one)
    assert of_files(tmp_path, JoinWay.ROW_GROUPS, parquet(a=one)) == first
    assert of_files(tmp_path, JoinWay.ROW_GROUPS, parquet(a=other)).differs_from(first)
    joined = of_files(tmp_path, JoinWay.ROW_GROUPS, parquet(a=pa.chunked_array([other, one])))
    assert of_files(tmp_path, JoinWay.ROW_GROUPS, parquet(a=one), parquet(a=other)) == joined
