"""Kernels that find the extremes and sums of a column's row groups.

All take `bounds`, int64 of length G + 1: group g holds the values bounds[g] to bounds[g + 1]. The caller has checked
that bounds ascend within the arrays. A group without values has zeros, which the caller ignores.
Sums are kept in halves of 32 bits, so that a group of fewer than 2**31 values cannot overflow.
"""

import numpy as np
import numpy.typing as npt

from acidlib.orc.kernels.jit import Bytes, Longs, entry, kernel, wrapping_add
from acidlib.orc.kernels.vectors import head, is_less

Doubles = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

SCALES = 39
"""The decimal kernels' tables have a cell for each of the scales 0 to 38."""

_BASE_SECONDS = 1_420_070_400
"""2015-01-01 00:00:00 UTC, from which stored timestamp seconds count."""

_LOW = 0xFFFFFFFF
_HALF = 1 << 31
_SIGN = np.int64(-(2**63))
MAX_SECONDS = 9_000_000_000_000_000
_GREATEST_NANOSECONDS = np.array([999_999_999, *(999_999_999 // 10 ** (zeros + 1) for zeros in range(1, 8))], np.int64)
"""The greatest nanoseconds by the lowest three bits of their stored form."""


@entry
def integer_groups(values: Longs, bounds: Longs) -> Cells:
    """Return per group (G, 4): minimum, maximum, sum of the low 32 bits, sum of the high 32 bits (signed)."""
    table = np.zeros((len(bounds) - 1, 4), np.int64)
    for g in range(len(table)):
        block = values[bounds[g] : bounds[g + 1]]
        if len(block):
            table[g, 0], table[g, 1], table[g, 2], table[g, 3] = _integers(block)
    return table


@kernel
def _integers(block: Longs) -> tuple[int, int, int, int]:
    least = block[0]
    most = block[0]
    total = 0
    for value in block:
        least = min(least, value)
        most = max(most, value)
        total = wrapping_add(total, value)
    if least >= -_HALF and most < _HALF:
        # so few values cannot overflow
        return least, most, total & _LOW, total >> 32
    low = 0
    high = 0
    for value in block:
        low += value & _LOW
        high += value >> 32
    return least, most, low, high


@entry
def double_groups(values: Doubles, bounds: Longs) -> Doubles:
    """Return per group (G, 3): minimum, maximum, sum from first to last. All three are NaN when any value is."""
    table = np.zeros((len(bounds) - 1, 3), np.float64)
    for g in range(len(table)):
        block = values[bounds[g] : bounds[g + 1]]
        if not len(block):
            continue
        least = most = block[0]
        total = 0.0
        nan = False
        for value in block:
            nan |= value != value
            if value < least:
                least = value
            if value > most:
                most = value
            total += value
        if nan:
            least = most = total = np.nan
        table[g, 0], table[g, 1], table[g, 2] = least, most, total
    return table


@entry
def string_groups(lengths: Longs, data: Bytes, bounds: Longs) -> Cells:
    """Return per group (G, 5): start and length of the least string, of the greatest, and the sum of the lengths.

    The strings lie in `data` one after the other; the caller has checked that the lengths fit.
    """
    table = np.zeros((len(bounds) - 1, 5), np.int64)
    at = 0
    for i in range(bounds[0]):
        at += lengths[i]
    for g in range(len(table)):
        first = bounds[g]
        if first == bounds[g + 1]:
            continue
        begin = least = most = at
        least_end = most_end = at + lengths[first]
        # most strings differ within their first bytes
        least_head = most_head = head(data, at, least_end)
        for i in range(first, bounds[g + 1]):
            end = at + lengths[i]
            own_head = head(data, at, end)
            if own_head <= least_head and (own_head < least_head or is_less(data, at, end, least, least_end)):
                least = at
                least_end = end
                least_head = own_head
            elif own_head >= most_head and (own_head > most_head or is_less(data, most, most_end, at, end)):
                most = at
                most_end = end
                most_head = own_head
            at = end
        table[g, 0], table[g, 1] = least, least_end - least
        table[g, 2], table[g, 3] = most, most_end - most
        table[g, 4] = at - begin
    return table


@entry
def decimal_groups(low: Longs, high: Longs, scales: Longs, bounds: Longs) -> tuple[Cells, Cells]:
    """Return extremes and sums by scale, (G, SCALES, 8), and counts, (G, SCALES).

    The eight are the minimum's low and high word, the maximum's, and the sums of the four 32-bit parts from low to high
    (the last one in use is signed: in groups that are not wide the second). `high` is empty where all values fit
    64 bits. The caller compares values of different scales exactly. A scale outside 0..38 makes the
    group's first count -1.
    """
    groups = len(bounds) - 1
    table = np.zeros((groups, SCALES, 8), np.int64)
    counts = np.zeros((groups, SCALES), np.int64)
    is_wide = len(high) > 0
    for g in range(groups):
        first, end = bounds[g], bounds[g + 1]
        if first == end:
            continue
        scale = scales[first]
        others = 0
        for other in scales[first:end]:
            others |= other ^ scale
        if not is_wide and others == 0 and 0 <= scale < SCALES:
            cell = table[g, scale]
            cell[0], cell[2], cell[4], cell[5] = _integers(low[first:end])
            cell[1] = cell[0] >> 63
            cell[3] = cell[2] >> 63
            counts[g, scale] = end - first
            continue
        for i in range(first, end):
            scale = scales[i]
            if scale < 0 or scale >= SCALES:
                counts[g, 0] = -1
                break
            cell = table[g, scale]
            bottom = low[i]
            top = high[i] if is_wide else bottom >> 63
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
    return table, counts


@kernel
def timestamp_parts(seconds: int, nanos: int) -> tuple[int, int]:
    """Return a stored timestamp in UTC as milliseconds since 1970, and the nanoseconds below.

    Source: ORC's TreeReaderFactory.TimestampTreeReader. The writer rounded seconds before 1970 towards zero, so a
    second is subtracted, as Java does only if the fraction is 1 ms or more. The lowest three bits of stored nanoseconds
    are the number of zeros removed from the end, less 1.
    """
    fraction = nanos >> 3
    if nanos & 7:
        for _ in range((nanos & 7) + 1):
            fraction *= 10
    millis = (seconds + _BASE_SECONDS) * 1000 + fraction // 1_000_000
    if millis < 0 and fraction > 999_999:
        millis -= 1000
    return millis, fraction % 1_000_000


@entry
def timestamp_groups(seconds: Longs, nanos: Longs, bounds: Longs) -> Cells:
    """Return per group (G, 5): minimum in milliseconds since 1970, its nanoseconds below, the maximum's, 1 if unknown.

    Unknown: nanoseconds outside 0..999,999,999 or seconds whose milliseconds do not fit 64 bits.
    """
    table = np.zeros((len(bounds) - 1, 5), np.int64)
    for g in range(len(table)):
        first = bounds[g]
        if first == bounds[g + 1]:
            continue
        block = seconds[first : bounds[g + 1]]
        least, most = block.min(), block.max()
        if least < -MAX_SECONDS or most > MAX_SECONDS or not are_nanoseconds(nanos[first : bounds[g + 1]]):
            table[g, 4] = 1
            continue
        fresh = True
        for i in range(first, bounds[g + 1]):
            stored = seconds[i]
            # the instants of a second all come before those of the next, before 1970 too
            if least < stored < most:
                continue
            millis, below = timestamp_parts(stored, nanos[i])
            if fresh or millis < table[g, 0] or (millis == table[g, 0] and below < table[g, 1]):
                table[g, 0], table[g, 1] = millis, below
            if fresh or millis > table[g, 2] or (millis == table[g, 2] and below > table[g, 3]):
                table[g, 2], table[g, 3] = millis, below
            fresh = False
    return table


@kernel
def are_nanoseconds(stored: Longs) -> bool:
    """Return whether all are nanoseconds in the stored form."""
    wrong = 0
    for value in stored:
        wrong |= int(value < 0) | int(value >> 3 > _GREATEST_NANOSECONDS[value & 7])
    return wrong == 0
