"""Random predicates on random batches: the rows that they select, and what bounds of the batches exclude."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from judges.random_predicates import ONLY_NULLS, Sampled, rank, wanted
from long_runs import amount

from acidlib.scan.predicate import HIVE_TYPE, Bounds, parse_predicate, pushed

SIGNS = st.sampled_from("ab é'\\%_\n.(\uffff\U0001f600漢")
NEAR = st.integers(-2, 2)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tinyint": (pa.int8(), NEAR | st.integers(-128, 127)),
    "smallint": (pa.int16(), NEAR | st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), NEAR | st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), NEAR | st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 2)),
    "float": (pa.float32(), NEAR.map(float) | st.sampled_from([0.5, -0.0]) | st.floats(width=32)),
    "double": (pa.float64(), NEAR.map(float) | st.sampled_from([0.1, -0.0]) | st.floats()),
    "decimal(5,2)": (pa.decimal128(5, 2), st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(-2))),
    "decimal(38,10)": (pa.decimal128(38, 10), st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-10))),
    "string": (pa.string(), st.text(SIGNS, max_size=5)),
    "char": (pa.string(), st.text(SIGNS, max_size=3).map(lambda text: text.ljust(3))),
    "date": (pa.date32(), st.dates(date(2026, 1, 1), date(2026, 1, 9)) | st.dates(date(1, 1, 1))),
    "timestamp": (pa.timestamp("us"), st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 3)) | st.datetimes()),
    "instant": (
        pa.timestamp("us", "UTC"),
        st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 3), timezones=st.just(UTC)),
    ),
    ONLY_NULLS: (pa.list_(pa.int32()), st.lists(st.integers(0, 3), max_size=2)),
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The kinds of some columns, and rows of them."""
    chosen = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    kinds = {f"c{place}": kind for place, kind in enumerate(chosen)}
    rows = st.fixed_dictionaries({name: st.none() | KINDS[kind][1] for name, kind in kinds.items()})
    return kinds, draw(st.lists(rows, max_size=8))


def schema_of(kinds: Mapping[str, str]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, KINDS[kind][0], metadata={HIVE_TYPE: b"char(3)"} if kind == "char" else None)
            for name, kind in kinds.items()
        ]
    )


def bounds_of(rng: random.Random, kind: str, values: list[Any]) -> Bounds:
    """Bounds that hold the values, and maybe more, or say less."""
    present = [value for value in values if value is not None]
    has_nulls = len(present) < len(values) or rng.random() < 0.2
    if not present:
        return Bounds(all_null=bool(values) and rng.random() < 0.7)
    if kind == ONLY_NULLS:
        return Bounds(has_nulls=has_nulls)
    stored = "string" if kind == "char" else kind  # bounds of a CHAR are those of its padded values
    low, high = (choose(present, key=lambda value: rank(stored, value)) for choose in (min, max))
    if rng.random() < 0.3 and isinstance(low, (int, Decimal)) and not isinstance(low, bool):
        low, high = low - 1, high + 1
    return Bounds(
        low=None if rng.random() < 0.15 else low, high=None if rng.random() < 0.15 else high, has_nulls=has_nulls
    )


@settings(max_examples=amount(300, long=20_000))
@given(batches(), st.randoms(use_true_random=False))
def test_masks_and_bounds(batch: tuple[dict[str, str], list[dict[str, Any]]], rng: random.Random) -> None:
    kinds, rows = batch
    schema = schema_of(kinds)
    columns = {
        name: Sampled(kind=kind, samples=[row[name] for row in rows if row[name] is not None])
        for name, kind in kinds.items()
    }
    tree = wanted(rng, columns, depth=rng.choice((0, 1, 2, 3)))
    predicate = parse_predicate(tree.text, schema)
    arrow = pa.RecordBatch.from_pylist(rows, schema)
    mask = predicate.mask(arrow)
    assert mask.to_pylist() == [tree.value(row) for row in rows]
    assert predicate.columns <= kinds.keys()

    bounds = {
        name: bounds_of(rng, kind, [row[name] for row in rows]) for name, kind in kinds.items() if rng.random() < 0.8
    }
    if not predicate.may_match(bounds):
        assert True not in mask.to_pylist()
    for row in rows:
        alone = {name: bounds_of(rng, kind, [row[name]]) for name, kind in kinds.items()}
        assert predicate.may_match(alone) or tree.value(row) is not True
    part = pushed(tree.text, schema)
    if part is not None:
        assert [
            False for row, kept in zip(rows, part.mask(arrow).to_pylist(), strict=True) if tree.value(row) and not kept
        ] == []
