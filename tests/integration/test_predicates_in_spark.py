"""Random predicates select the rows that Spark selects by the same texts, and Spark's filters say what it means."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judges.random_predicates import ONLY_NULLS, Sampled, wanted
from long_runs import amount
from pyspark.sql import SparkSession

from acidlib.scan.predicate import parse_predicate, pushed
from integration.harness import session_of_a_program

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 3, 12, 30, 15)
TEXTS = ["", "a", "a ", "ab", "b'c", "x\\y", "%", "a_b", "é", "漢", "\uffff", "\U0001f600", "a\nb", "10%"]
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "flag": ("boolean", pa.bool_(), [True, False]),
    "tiny": ("tinyint", pa.int8(), [-128, -1, 0, 1, 127]),
    "small": ("smallint", pa.int16(), [-(2**15), 0, 7, 2**15 - 1]),
    "n": ("int", pa.int32(), [-(2**31), -1, 0, 1, 2**24 + 1, 2**31 - 1]),
    "big": ("bigint", pa.int64(), [-(2**63), 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f": ("float", pa.float32(), [0.0, -0.0, 0.5, 1.25, math.nan, math.inf, -math.inf, 3e30]),
    "d": ("double", pa.float64(), [0.0, -0.0, 0.1, 0.5, 1e300, 5e-324, math.nan, math.inf, -math.inf]),
    "m": ("decimal(5,2)", pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.00"), Decimal("1.50"), Decimal("1.51")]),
    "wide": ("decimal(28,10)", pa.decimal128(28, 10), [Decimal("0E-10"), Decimal("123456789012.0000000001")]),
    "s": ("string", pa.string(), TEXTS),
    "day": ("date", pa.date32(), [date(1, 1, 1), date(1582, 10, 4), date(2026, 1, 3), date(9999, 12, 31)]),
    "ts": (
        "timestamp",
        pa.timestamp("us"),
        [datetime(1, 1, 1), NOON, NOON + timedelta(microseconds=1), datetime(2026, 1, 3)],
    ),
    "tz": ("instant", pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)]),
    "items": (ONLY_NULLS, pa.list_(pa.int32()), [[], [1]]),
}
ROWS = 120


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A local session in UTC."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.codegen.wholeStage": "false",  # hundreds of expressions would be compiled
    }
    with session_of_a_program(settings) as made:
        yield made


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_selects_the_same_rows(session: SparkSession, tmp_path: Path, ansi: str) -> None:
    rng = random.Random(f"ansi {ansi}")
    arrays = [
        pa.array([rng.choice([None, *values, *values]) for _ in range(ROWS)], arrow)
        for _, arrow, values in COLUMNS.values()
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    session.conf.set("spark.sql.ansi.enabled", ansi)
    sampled = {name: Sampled(kind=kind, samples=values) for name, (kind, _, values) in COLUMNS.items()}
    texts = [wanted(rng, sampled, depth=rng.choice((0, 0, 1, 2))).text for _ in range(amount(100, long=3000))]
    frame = session.read.parquet(str(tmp_path / "rows.parquet")).coalesce(1)
    wrong: list[str] = []
    for first in range(0, len(texts), 100):
        part = texts[first : first + 100]
        rows = frame.selectExpr(*(f"({text}) AS p{place}" for place, text in enumerate(part))).collect()
        for place, text in enumerate(part):
            seen = [row[place] for row in rows]
            if parse_predicate(text, batch.schema).mask(batch).to_pylist() != seen:
                wrong.append(text)
            understood = pushed(text, batch.schema)
            if understood is not None:
                kept = understood.mask(batch).to_pylist()
                assert not [text for is_seen, is_kept in zip(seen, kept, strict=True) if is_seen and not is_kept]
    assert wrong == []
