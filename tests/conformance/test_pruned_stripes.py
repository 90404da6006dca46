"""Random predicates on ORC files of every writer: no file or stripe is left out that holds a row which they select.

Values are those that pyorc reads.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyorc
import pytest
from judges import java_files, random_orc
from judges.fixtures import orc_files
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.random_predicates import ONLY_NULLS, Sampled, wanted
from judges.tables import Layout, orc_bytes
from judges.values import open_orc
from long_runs import amount
from orc_memory import tail_of
from pyorc import TypeKind

from acidlib.acid.names import Generation
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import Alignment, align
from acidlib.orc.reader import Tail
from acidlib.orc.schema import is_acid, row_struct
from acidlib.scan.predicate import HIVE_TYPE, Predicate, parse_predicate
from acidlib.scan.pruning import file_may_match, stripe_may_match

EPOCH = datetime(1970, 1, 1)
SIMPLE = {
    TypeKind.BOOLEAN: ("boolean", pa.bool_()),
    TypeKind.BYTE: ("tinyint", pa.int8()),
    TypeKind.SHORT: ("smallint", pa.int16()),
    TypeKind.INT: ("int", pa.int32()),
    TypeKind.LONG: ("bigint", pa.int64()),
    TypeKind.FLOAT: ("float", pa.float32()),
    TypeKind.DOUBLE: ("double", pa.float64()),
    TypeKind.STRING: ("string", pa.string()),
    TypeKind.VARCHAR: ("string", pa.string()),
    TypeKind.CHAR: ("char", pa.string()),
    TypeKind.DATE: ("date", pa.date32()),
    TypeKind.TIMESTAMP: ("timestamp", pa.timestamp("us")),
    TypeKind.TIMESTAMP_INSTANT: ("instant", pa.timestamp("us", "UTC")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file: its rows as Arrow has them, and what decides on its stripes."""

    name: str
    tail: Tail
    rows: pa.RecordBatch
    sampled: dict[str, Sampled]
    columns: dict[str, Alignment]

    def wrongly_excluded(self, predicate: Predicate) -> tuple[list[Any], int]:
        """The stripes left out that hold selected rows, with "file" for all; and how many are left out."""
        mask = predicate.mask(self.rows).fill_null(False)
        wrong: list[Any] = []
        excluded, first = 0, 0
        for number, stripe in enumerate(self.tail.stripes):
            if not stripe_may_match(predicate, self.tail, number, self.columns, {}):
                excluded += 1
                if pc.any(mask.slice(first, stripe.rows)).as_py():
                    wrong.append(number)
            first += stripe.rows
        if not file_may_match(predicate, self.tail, self.columns, {}) and pc.any(mask).as_py():
            wrong.append("file")
        return wrong, excluded


def stored(name: str, data: bytes) -> Stored:
    reader = open_orc(data)
    tail = tail_of(data, name)
    row = row_struct(tail.root)
    place = 5 if is_acid(tail.root) else None
    rows = [event if place is None else event[place] for event in reader]
    kind = reader.schema if place is None else list(reader.schema.fields.values())[place]
    arrays, fields, sampled = [], [], {}
    for number, (field, child) in enumerate(kind.fields.items()):
        values = [None if event is None else event[number] for event in rows]
        array, simple = column(values, child)
        lower = field.lower()
        arrays.append(array)
        fields.append(pa.field(lower, array.type, metadata={HIVE_TYPE: b"char(5)"} if simple == "char" else None))
        sampled[lower] = Sampled(kind=simple, samples=samples(array, simple))
    by_name = ColumnMatching(by_position=False)
    parts = align(row, row, where=name, reader=Generation.HIVE3, matching=by_name).children
    return Stored(
        name=name,
        tail=tail,
        rows=pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)),
        sampled=sampled,
        columns=dict(zip((n.lower() for n in row.field_names), parts, strict=True)),
    )


def column(values: list[Any], kind: Any) -> tuple[pa.Array, str]:
    """The values that pyorc read of a column, as Arrow has them, and the kind that predicates have for them."""
    if kind.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        simple, arrow = SIMPLE[kind.kind]
        micros = [None if value is None else value[0] * 10**6 + value[1] // 1000 for value in values]
        return pa.array(micros, pa.int64()).cast(arrow), simple
    if kind.kind is TypeKind.DATE:
        return pa.array(values, pa.int32()).cast(pa.date32()), "date"
    if kind.kind is TypeKind.DECIMAL:
        numbers = [None if value is None else Decimal(value) for value in values]
        return pa.array(numbers, pa.decimal128(kind.precision, kind.scale)), f"decimal({kind.precision},{kind.scale})"
    if kind.kind in SIMPLE:
        simple, arrow = SIMPLE[kind.kind]
        return pa.array(values, arrow), simple
    return pa.array([None if value is None else [] for value in values], pa.list_(pa.int8())), ONLY_NULLS


def samples(array: pa.Array, kind: str) -> list[Any]:
    """Some of the values, as Python has them."""
    if kind == ONLY_NULLS:
        return []
    chosen = array.drop_null()[:: max(1, len(array) // 40)]
    if kind in ("date", "timestamp", "instant"):
        return [
            value
            for value in map(python_time(kind), chosen.cast(pa.int32() if kind == "date" else pa.int64()).to_pylist())
            if value
        ]
    return chosen.to_pylist()


def python_time(kind: str) -> Any:
    def convert(number: int) -> Any:
        try:
            if kind == "date":
                return date(1970, 1, 1) + timedelta(days=number)
            return (EPOCH + timedelta(microseconds=number)).replace(tzinfo=UTC if kind == "instant" else None)
        except OverflowError:
            return None

    return convert


def check(file: Stored, rng: random.Random, tries: int) -> int:
    """Try random predicates; returns how many stripes were left out."""
    total = 0
    for _ in range(tries):
        tree = wanted(rng, file.sampled, depth=rng.choice((0, 0, 1, 2)))
        predicate = parse_predicate(tree.text, file.rows.schema)
        wrong, excluded = file.wrongly_excluded(predicate)
        assert wrong == [], f"{tree.text} of {file.name}"
        total += excluded
    return total


def test_files_of_hive() -> None:
    rng = random.Random(32)
    paths = orc_files()
    assert len(paths) > 200
    excluded = 0
    for path in paths:
        data = path.read_bytes()
        file = stored(str(path), data)
        if file.columns and file.tail.rows:
            excluded += check(file, rng, amount(8, long=400))
    assert excluded > 150


@pytest.mark.parametrize("seed", range(amount(20, long=1000)))
def test_files_of_orc_in_cpp(seed: int) -> None:
    rng = random.Random(seed)
    columns = random_orc.columns(rng, unions=False)
    kind = pyorc.TypeDescription.from_string(columns)
    rows = [random_orc.raw(row, kind) for row in random_orc.rows(rng, columns, rng.choice((3, 40, 300)))]
    layout = Layout(stripe_size=1, stride=rng.choice((2, 10, 10_000)), batch=rng.choice((2, 10, 50)))
    zoned = replace(layout, timezone=rng.choice(("UTC", "America/New_York", "Asia/Kolkata")))
    check(stored(f"seed {seed}", orc_bytes(columns, rows, zoned)), rng, 60)


@pytest.mark.java
@pytest.mark.parametrize("seed", range(amount(12, long=500)))
def test_files_of_orc_in_java(seed: int, java: JavaOrc, tmp_path: Path) -> None:
    rng = random.Random(seed)
    columns = random_orc.columns(rng, unions=False)
    count = rng.choice((3, 40, 300, 3000))
    options = Options(
        stripe_rows=rng.choice((1000, 1 << 40)),
        stride=rng.choice((0, 1000, 1000, 10_000)),
        timezone=rng.choice(("UTC", "America/New_York", "Asia/Kolkata")),
        proleptic=rng.random() < 0.3,
    )
    path = java_files.write_orc(java, tmp_path / "file", columns, random_orc.rows(rng, columns, count), options)
    check(stored(f"seed {seed}", path.read_bytes()), rng, 60)


def test_nan_that_bounds_of_java_pass_over(java: JavaOrc, tmp_path: Path) -> None:
    nan = "f:" + struct.pack(">d", float("nan")).hex()
    real = "f:" + struct.pack(">d", 1.0).hex()
    path = java_files.write_orc(java, tmp_path / "file", "struct<d:double>", [(real,), (nan,)])
    file = stored("nan", path.read_bytes())
    predicate = parse_predicate("d > 5", file.rows.schema)
    assert predicate.mask(file.rows).to_pylist() == [False, True]
    assert file.wrongly_excluded(predicate) == ([], 0)
    assert file.tail.stripe_statistics[0][1].double_statistics.maximum == 1.0
