"""True statistics of one column of one row group, stripe or file, and their comparison with a ColumnStatistics message.

After the ORC specification ("Column Statistics") and Java's ``ColumnStatisticsImpl``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from judges import orc_tail as o
from judges.values import plain_decimal, unscaled

_INT_MAX = (1 << 63) - 1
_TEXT = (o.STRING, o.VARCHAR, o.CHAR)
_INTS = (o.BYTE, o.SHORT, o.INT, o.LONG)
_REALS = (o.FLOAT, o.DOUBLE)
_INSTANTS = (o.TIMESTAMP, o.TIMESTAMP_INSTANT)
_COLLECTIONS = (o.LIST, o.MAP)
_TYPED = {
    **dict.fromkeys(_INTS, 2),
    **dict.fromkeys(_REALS, 3),
    **dict.fromkeys(_TEXT, 4),
    o.BOOLEAN: 5,
    o.DECIMAL: 6,
    o.DATE: 7,
    o.BINARY: 8,
    **dict.fromkeys(_INSTANTS, 9),
    **dict.fromkeys(_COLLECTIONS, 12),
}
_NAMES = {2: "int", 3: "double", 4: "string", 5: "bucket", 6: "decimal", 7: "date", 8: "binary", 9: "timestamp"}


class Problem(enum.Enum):
    """Marks that are no text."""

    ABSENT = "no typed statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a writer is allowed. The defaults are what this project's own files must satisfy.

    generation: 3 also allows a timestamp maximum rounded up to the next millisecond, without nanoseconds, when it has
    digits below the millisecond. may_be_absent: a typed message may be missing. nan_absent: it must be missing where a
    value is NaN (Java's writer: its sum is NaN instead, which tells readers to ignore the rest). string_bounds: cut
    lower and upper bounds instead of minimum and maximum. suppress_present: no PRESENT stream without nulls.
    acid_metadata: the three hive.acid keys are right. contiguous: no padding between stripes. collections: the lengths
    of lists and maps are right (Hive 4.0.1 writes 1000 for minimum, maximum and sum of each; Hive 3 writes none, which
    is always allowed; ORC C++ writes no sums). exact_nulls: hasNull is false without nulls (ORC C++ says true, and
    writes PRESENT, below null structs).
    """

    generation: int = 4
    may_be_absent: bool = True
    nan_absent: bool = True
    string_bounds: bool = True
    suppress_present: bool = True
    acid_metadata: bool = True
    contiguous: bool = True
    collections: bool = True
    exact_nulls: bool = True


HIVE = Policy(may_be_absent=False, nan_absent=False, collections=False)
"""What Hive's own writers, 3.1.3 and 4.0.1, do in files with a row index."""

CPP = Policy(
    may_be_absent=False,
    nan_absent=False,
    collections=False,
    exact_nulls=False,
    suppress_present=False,
    string_bounds=False,
)
"""What pyorc's writer (ORC C++) does."""


@dataclass(slots=True)
class Column:
    """The values of one column, folded. Decimals are unscaled integers; NaN is only counted."""

    type: o.Type
    count: int = 0
    nulls: int = 0
    low: Any = None
    high: Any = None
    total: Any = 0
    magnitude: Any = 0
    nans: int = 0
    _parts: list[float] = field(default_factory=list)

    def add(self, value: Any) -> None:
        self.count += 1
        kind = self.type.kind
        if kind == o.STRUCT or kind == o.UNION:
            return
        if kind in _REALS:
            if math.isnan(value):
                self.nans += 1
                return
            self._parts.append(value)
        elif kind == o.BOOLEAN:
            self.total += value
            return
        elif kind in _TEXT:
            value = value.encode()
            self.total += len(value)
        elif kind == o.DECIMAL:
            value = unscaled(value, self.type.scale)
            self.total += value
            self.magnitude += abs(value)
        elif kind in _INTS:
            self.total += value
            self.magnitude += abs(value)
        elif kind in (*_COLLECTIONS, o.BINARY):
            value = len(value)
            self.total += value
        self._widen(value, value)

    def _widen(self, low: Any, high: Any) -> None:
        self.low = low if self.low is None or low < self.low else self.low
        self.high = high if self.high is None or high > self.high else self.high

    def merge(self, other: Column) -> None:
        self.count += other.count
        self.nulls += other.nulls
        self.nans += other.nans
        self.total += other.total
        self.magnitude += other.magnitude
        self._parts += other._parts
        if other.low is not None:
            self._widen(other.low, other.high)

    @property
    def real_sum(self) -> float:
        """The sum of finite and infinite values; NaN if any value is NaN, or infinities cancel."""
        infinite = {v for v in self._parts if math.isinf(v)}
        if self.nans or len(infinite) == 2:
            return math.nan
        if infinite:
            return infinite.pop()
        try:
            return math.fsum(self._parts)
        except OverflowError:
            return math.inf

    @property
    def real_magnitude(self) -> float:
        try:
            return math.fsum(abs(v) for v in self._parts if math.isfinite(v))
        except OverflowError:
            return math.inf


def compare(message: o.Message, column: Column, policy: Policy, *, utc: bool) -> Iterator[str | Problem]:
    """The differences between a statistics message and the true values. ``utc``: the writer's zone is UTC."""
    count = o.one(message, 1)
    if count != column.count:
        yield f"numberOfValues {count}, should be {column.count}"
    has_null = o.one(message, 10)
    if has_null is not None and bool(has_null) != bool(column.nulls) and (policy.exact_nulls or column.nulls):
        yield f"hasNull {bool(has_null)}, {column.nulls} nulls"
    wanted = _TYPED.get(column.type.kind)
    for number in (2, 3, 4, 5, 6, 7, 8, 9, 12):
        if number in message and number != wanted:
            yield f"{_NAMES.get(number, 'collection')} statistics of a column of type {column.type.kind}"
    if wanted is None or (wanted == 12 and not (policy.collections and wanted in message)):
        return
    if wanted not in message:
        yield Problem.ABSENT
        return
    yield from _typed(o.parse(o.one(message, wanted)), column, policy, wanted, utc)


def _typed(typed: o.Message, column: Column, policy: Policy, number: int, utc: bool) -> Iterator[str]:
    if number == 2:
        yield from _bounds(typed, column, o.signed, required=True)
        yield from _whole_sum(typed, 3, o.signed, column, _INT_MAX)
    elif number == 3:
        yield from _real(typed, column, policy)
    elif number == 4:
        yield from _text(typed, column, policy)
    elif number == 5:
        if o.packed(typed.get(1, [])) != [column.total]:
            yield f"bucket counts {o.packed(typed.get(1, []))}, {column.total} are true"
    elif number == 6:
        scale, digits = column.type.scale, 18 if column.type.precision <= 18 else 36

        def decode(raw: bytes) -> int:
            return unscaled(plain_decimal(raw.decode()), scale)

        yield from _bounds(typed, column, decode, required=True)
        yield from _whole_sum(typed, 3, decode, column, 10**digits - 1)
    elif number == 7:
        yield from _bounds(typed, column, o.signed, required=True)
    elif number == 8:
        if o.signed(o.one(typed, 1, 0)) != column.total:
            yield f"sum of lengths {o.signed(o.one(typed, 1, 0))}, should be {column.total}"
    elif number == 9:
        yield from _timestamp(typed, column, policy, utc)
    else:
        yield from _bounds(typed, column, int, required=False)
        yield from _whole_sum(typed, 3, int, column, _INT_MAX)


def _bounds(typed: o.Message, column: Column, decode: Any, *, required: bool) -> Iterator[str]:
    """Fields 1 and 2 are minimum and maximum, both or (without values) none."""
    for field_number, name, true in ((1, "minimum", column.low), (2, "maximum", column.high)):
        raw = o.one(typed, field_number)
        if raw is None:
            if true is not None and required:
                yield f"typed statistics without {name}"
            continue
        found = decode(raw)
        if true is None:
            if found != 0 or required:
                yield f"{name} {found} of no values"
        elif found != true:
            yield f"{name} {found}, should be {true}"


def _whole_sum(typed: o.Message, number: int, decode: Any, column: Column, limit: int) -> Iterator[str]:
    """An exact sum. It may be missing only where adding in some order overflows, and must be if the total does."""
    raw = o.one(typed, number)
    if raw is None:
        if column.magnitude <= limit and column.count:
            yield f"no sum, should be {column.total}"
    elif decode(raw) != column.total:
        yield f"sum {decode(raw)}, should be {column.total}"


def _real(typed: o.Message, column: Column, policy: Policy) -> Iterator[str]:
    found = {name: o.double(o.one(typed, n)) for n, name in ((1, "minimum"), (2, "maximum"), (3, "sum")) if n in typed}
    total = found.get("sum")
    if column.nans:
        if policy.nan_absent:
            yield "typed statistics though a value is NaN"
        elif total is None or not math.isnan(total):
            yield f"sum {total} though a value is NaN"
        return
    for name, true in (("minimum", column.low), ("maximum", column.high)):
        bound = found.get(name)
        if true is None:
            if bound is not None:
                yield f"{name} {bound} of no values"
        elif bound is None or bound != true:  # -0.0 and 0.0 are equal here
            yield f"{name} {bound}, should be {true}"
    if total is None:
        if column.count:
            yield "no sum"
        return
    true_sum = column.real_sum
    same = total == true_sum or (math.isnan(total) and math.isnan(true_sum))
    if not same and math.isfinite(column.real_magnitude):
        same = abs(total - true_sum) <= 1e-9 * column.real_magnitude
    elif not same:
        same = not math.isfinite(total)  # sums that overflow on the way depend on the order
    if not same:
        yield f"sum {total}, should be {true_sum}"


def _text(typed: o.Message, column: Column, policy: Policy) -> Iterator[str]:
    cut = ((1, 4, "minimum", column.low), (2, 5, "maximum", column.high))
    for exact, bound, name, true in cut:
        value, limit = o.one(typed, exact), o.one(typed, bound)
        if true is None:
            if value or limit:
                yield f"{name} {value or limit!r} of no values"
        elif value is not None:
            if value != true:
                yield f"{name} {value!r}, should be {true!r}"
        elif limit is None or not policy.string_bounds:
            yield f"typed statistics without {name}"
        elif not (limit <= true and true.startswith(limit) if exact == 1 else limit >= true):
            yield f"bound {limit!r} of {name} {true!r}"
    total = o.one(typed, 3)
    if total is None:
        if column.count:
            yield "no sum of lengths"
    elif o.signed(total) != column.total:
        yield f"sum of lengths {o.signed(total)}, should be {column.total}"


def _timestamp(typed: o.Message, column: Column, policy: Policy, utc: bool) -> Iterator[str]:
    """Milliseconds of the wall clock taken as UTC, and the nanoseconds below them plus one (absent: 0 or 999999)."""
    if column.low is None:
        if typed:
            yield f"timestamp bounds {typed} of no values"
        return
    if 3 not in typed or 4 not in typed:
        yield "timestamp statistics without a UTC bound"
        return
    low, high = o.signed(o.one(typed, 3)), o.signed(o.one(typed, 4))
    low_true, high_true = _millis(column.low), _millis(column.high)
    low_nanos, high_nanos = column.low[1] % 1_000_000, column.high[1] % 1_000_000
    if low != low_true:
        yield f"minimumUtc {low}, should be {low_true}"
    if 5 in typed and o.one(typed, 5) - 1 != low_nanos:
        yield f"minimumNanos {o.one(typed, 5) - 1}, should be {low_nanos}"
    rounded = policy.generation == 3 and high_nanos > 0 and high == high_true + 1 and 6 not in typed
    if high != high_true and not rounded:
        yield f"maximumUtc {high}, should be {high_true}"
    if 6 in typed and o.one(typed, 6) - 1 != high_nanos:
        yield f"maximumNanos {o.one(typed, 6) - 1}, should be {high_nanos}"
    for number, true in ((1, low), (2, high)):
        if utc and number in typed and o.signed(o.one(typed, number)) != true:
            yield f"local bound {o.signed(o.one(typed, number))}, the UTC one is {true}"


def _millis(value: tuple[int, int]) -> int:
    return value[0] * 1000 + value[1] // 1_000_000
