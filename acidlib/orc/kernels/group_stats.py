"""Kernels that find the extremes and sums of a column's row groups.

All take `bounds`, int64 of length G + 1: group g holds the values bounds[g] to bounds[g + 1]. The caller has checked
that bounds ascend within the arrays. A group without values leaves zeros; the caller does not look at them.
Sums are kept in halves of 32 bits, so that a group of fewer than 2**31 values cannot overflow.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # no type information is published
from numba import types
from numba.extending import intrinsic

from acidlib.orc.kernels.jit import Bytes, Longs, kernel

Doubles = npt.NDArray[np.float64]

SCALES = 39
"""Scales 0 to 38 have a cell of their own in the decimal kernels' tables."""

BASE_SECONDS = 1_420_070_400
"""2015-01-01 00:00:00 UTC, from which stored timestamp seconds count."""

_LOW = 0xFFFFFFFF
_SIGN = np.int64(-(2**63))
MAX_SECONDS = 9_000_000_000_000_000
_MAX_NANOS = 999_999_999


@kernel
def integer_groups(values: Longs, bounds: Longs) -> tuple[Longs, Longs, Longs, Longs]:
    """Per group: minimum, maximum, sum of the low 32 bits, sum of the high 32 bits (signed)."""
    groups = len(bounds) - 1
    minimum = np.zeros(groups, np.int64)
    maximum = np.zeros(groups, np.int64)
    low = np.zeros(groups, np.int64)
    high = np.zeros(groups, np.int64)
    for g in range(groups):
        first = bounds[g]
        if first == bounds[g + 1]:
            continue
        least = values[first]
        most = least
        low_sum = np.int64(0)
        high_sum = np.int64(0)
        for i in range(first, bounds[g + 1]):
            value = values[i]
            least = min(least, value)
            most = max(most, value)
            low_sum += value & _LOW
            high_sum += value >> 32
        minimum[g] = least
        maximum[g] = most
        low[g] = low_sum
        high[g] = high_sum
    return minimum, maximum, low, high


@kernel
def double_groups(values: Doubles, bounds: Longs) -> tuple[Doubles, Doubles, Doubles]:
    """Per group: minimum, maximum, sum from first to last. All three are NaN when any value is."""
    groups = len(bounds) - 1
    minimum = np.zeros(groups, np.float64)
    maximum = np.zeros(groups, np.float64)
    total = np.zeros(groups, np.float64)
    for g in range(groups):
        first = bounds[g]
        if first == bounds[g + 1]:
            continue
        least = values[first]
        most = least
        running = 0.0
        nan = False
        for i in range(first, bounds[g + 1]):
            value = values[i]
            if value != value:
                nan = True
            if value < least:
                least = value
            if value > most:
                most = value
            running += value
        minimum[g] = np.nan if nan else least
        maximum[g] = np.nan if nan else most
        total[g] = np.nan if nan else running
    return minimum, maximum, total


def _load_word(_context: Any, data: Any, _at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return builder.bswap(word) if sys.byteorder == "little" else word

    return types.uint64(data, types.int64), generate


_word: Any = intrinsic(_load_word)
"""The eight bytes from an index on as one number that orders as they do. The caller keeps the index inside."""


@kernel
def _is_less(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Whether data[a:a_end] comes before data[b:b_end], bytes taken as unsigned."""
    shared = min(a_end - a, b_end - b)
    done = 0
    while done + 8 <= shared:
        left = _word(data, a + done)
        right = _word(data, b + done)
        if left != right:
            return bool(left < right)
        done += 8
    rest = shared - done
    if rest > 0 and max(a, b) + done + 8 <= len(data):
        unused = np.uint64(64 - 8 * rest)
        left = _word(data, a + done) >> unused
        right = _word(data, b + done) >> unused
        if left != right:
            return bool(left < right)
        return a_end - a < b_end - b
    for i in range(done, shared):
        if data[a + i] != data[b + i]:
            return bool(data[a + i] < data[b + i])
    return a_end - a < b_end - b


@kernel
def string_groups(offsets: Longs, data: Bytes, bounds: Longs) -> tuple[Longs, Longs]:
    """Per group: index of the least string and of the greatest; string i is data[offsets[i]:offsets[i + 1]]."""
    groups = len(bounds) - 1
    minimum = np.zeros(groups, np.int64)
    maximum = np.zeros(groups, np.int64)
    for g in range(groups):
        least = bounds[g]
        most = least
        for i in range(bounds[g] + 1, bounds[g + 1]):
            if _is_less(data, offsets[i], offsets[i + 1], offsets[least], offsets[least + 1]):
                least = i
            elif _is_less(data, offsets[most], offsets[most + 1], offsets[i], offsets[i + 1]):
                most = i
        minimum[g] = least
        maximum[g] = most
    return minimum, maximum


@kernel
def is_sorted(offsets: Longs, data: Bytes) -> bool:
    """Whether the strings data[offsets[i]:offsets[i + 1]] ascend by unsigned bytes, equal neighbours allowed."""
    for i in range(1, len(offsets) - 1):
        if _is_less(data, offsets[i], offsets[i + 1], offsets[i - 1], offsets[i]):
            return False
    return True


@kernel
def entry_groups(entries: Longs, offsets: Longs, data: Bytes, bounds: Longs) -> tuple[Longs, Longs]:
    """Per group of dictionary strings: the entry of the least and of the greatest string, in any order of entries.

    Entry numbers have been checked by the caller.
    """
    groups = len(bounds) - 1
    minimum = np.zeros(groups, np.int64)
    maximum = np.zeros(groups, np.int64)
    for g in range(groups):
        first = bounds[g]
        if first == bounds[g + 1]:
            continue
        least = entries[first]
        most = least
        for i in range(first + 1, bounds[g + 1]):
            entry = entries[i]
            if entry in (least, most):
                continue
            if _is_less(data, offsets[entry], offsets[entry + 1], offsets[least], offsets[least + 1]):
                least = entry
            elif _is_less(data, offsets[most], offsets[most + 1], offsets[entry], offsets[entry + 1]):
                most = entry
        minimum[g] = least
        maximum[g] = most
    return minimum, maximum


@kernel
def decimal_groups(values: Longs, scales: Longs, bounds: Longs) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Decimals of 64 bits, by scale: (G, SCALES, 4) with minimum, maximum, low and high sums; counts (G, SCALES).

    Values of different scales are compared by the caller, exactly. A scale outside 0..38 makes the group's first count
    -1.
    """
    groups = len(bounds) - 1
    found = np.zeros((groups, SCALES, 4), np.int64)
    counts = np.zeros((groups, SCALES), np.int64)
    for g in range(groups):
        for i in range(bounds[g], bounds[g + 1]):
            scale = scales[i]
            if scale < 0 or scale >= SCALES:
                counts[g, 0] = -1
                break
            value = values[i]
            if counts[g, scale] == 0:
                found[g, scale, 0] = value
                found[g, scale, 1] = value
            elif value < found[g, scale, 0]:
                found[g, scale, 0] = value
            elif value > found[g, scale, 1]:
                found[g, scale, 1] = value
            found[g, scale, 2] += value & _LOW
            found[g, scale, 3] += value >> 32
            counts[g, scale] += 1
    return found, counts


@kernel
def wide_decimal_groups(
    low: Longs, high: Longs, scales: Longs, bounds: Longs
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """As decimal_groups for 128 bits: shape (G, SCALES, 8) with the minimum's low and high word, the maximum's, and the
    sums of the four 32-bit parts from low to high (the last one signed).
    """
    groups = len(bounds) - 1
    found = np.zeros((groups, SCALES, 8), np.int64)
    counts = np.zeros((groups, SCALES), np.int64)
    for g in range(groups):
        for i in range(bounds[g], bounds[g + 1]):
            scale = scales[i]
            if scale < 0 or scale >= SCALES:
                counts[g, 0] = -1
                break
            cell = found[g, scale]
            bottom = low[i]
            top = high[i]
            if counts[g, scale] == 0:
                cell[0] = cell[2] = bottom
                cell[1] = cell[3] = top
            elif top < cell[1] or (top == cell[1] and (bottom ^ _SIGN) < (cell[0] ^ _SIGN)):
                cell[0] = bottom
                cell[1] = top
            elif top > cell[3] or (top == cell[3] and (bottom ^ _SIGN) > (cell[2] ^ _SIGN)):
                cell[2] = bottom
                cell[3] = top
            cell[4] += bottom & _LOW
            cell[5] += (bottom >> 32) & _LOW
            cell[6] += top & _LOW
            cell[7] += top >> 32
            counts[g, scale] += 1
    return found, counts


@kernel
def nanoseconds(stored: int) -> int:
    """Nanoseconds behind the stored form, -1 for a form that no writer makes."""
    zeros = stored & 7
    value = stored >> 3
    if value < 0 or value > _MAX_NANOS:
        return -1
    if zeros > 0:
        for _ in range(zeros + 1):
            value *= 10
    return value if value <= _MAX_NANOS else -1


@kernel
def timestamp_groups(seconds: Longs, nanos: Longs, bounds: Longs) -> npt.NDArray[np.int64]:
    """Per group, shape (G, 5): minimum in milliseconds since 1970, its nanoseconds below, the maximum's, 1 if unknown.

    The instants are those of ORC's TreeReaderFactory.TimestampTreeReader in UTC: seconds before 1970 were rounded
    towards zero by the writer, so one is taken off where the fraction has a millisecond or more. Unknown: nanoseconds
    outside 0..999,999,999 or seconds whose milliseconds do not fit 64 bits.
    """
    groups = len(bounds) - 1
    found = np.zeros((groups, 5), np.int64)
    for g in range(groups):
        for i in range(bounds[g], bounds[g + 1]):
            fraction = nanoseconds(nanos[i])
            stored = seconds[i]
            if fraction < 0 or stored < -MAX_SECONDS or stored > MAX_SECONDS:
                found[g, 4] = 1
                break
            millis = (stored + BASE_SECONDS) * 1000 + fraction // 1_000_000
            if millis < 0 and fraction > 999_999:
                millis -= 1000
            below = fraction % 1_000_000
            first = i == bounds[g]
            if first or millis < found[g, 0] or (millis == found[g, 0] and below < found[g, 1]):
                found[g, 0] = millis
                found[g, 1] = below
            if first or millis > found[g, 2] or (millis == found[g, 2] and below > found[g, 3]):
                found[g, 2] = millis
                found[g, 3] = below
    return found
