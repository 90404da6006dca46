"""Kernels that find the extremes and sums of a column's row groups.

All take `bounds`, int64 of length G + 1: group g holds the values bounds[g] to bounds[g + 1]. The caller has checked
that bounds ascend within the arrays. A group without values leaves zeros; the caller does not look at them.
Sums are kept in halves of 32 bits, so that a group of fewer than 2**31 values cannot overflow.
"""

import numpy as np
import numpy.typing as npt

from acidlib.orc.kernels.jit import Bytes, Longs, kernel, wrapping_add
from acidlib.orc.kernels.vectors import head, is_less

Doubles = npt.NDArray[np.float64]

SCALES = 39
"""Scales 0 to 38 have a cell of their own in the decimal kernels' tables."""

_BASE_SECONDS = 1_420_070_400
"""2015-01-01 00:00:00 UTC, from which stored timestamp seconds count."""

_LOW = 0xFFFFFFFF
_HALF = 1 << 31
_SIGN = np.int64(-(2**63))
MAX_SECONDS = 9_000_000_000_000_000
_MOST_DIGITS = np.array([999_999_999, *(999_999_999 // 10 ** (zeros + 1) for zeros in range(1, 8))], np.int64)
"""The greatest nanoseconds by the lowest three bits of their stored form."""


@kernel
def integer_groups(values: Longs, bounds: Longs) -> tuple[Longs, Longs, Longs, Longs]:
    """Return per group: minimum, maximum, sum of the low 32 bits, sum of the high 32 bits (signed)."""
    groups = len(bounds) - 1
    minimum = np.zeros(groups, np.int64)
    maximum = np.zeros(groups, np.int64)
    low = np.zeros(groups, np.int64)
    high = np.zeros(groups, np.int64)
    for g in range(groups):
        block = values[bounds[g] : bounds[g + 1]]
        if len(block):
            minimum[g], maximum[g], low[g], high[g] = _integers(block)
    return minimum, maximum, low, high


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


@kernel
def double_groups(values: Doubles, bounds: Longs) -> tuple[Doubles, Doubles, Doubles]:
    """Return per group: minimum, maximum, sum from first to last. All three are NaN when any value is."""
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


@kernel
def string_groups(lengths: Longs, data: Bytes, bounds: Longs) -> npt.NDArray[np.int64]:
    """Return per group (G, 5): start and length of the least string, of the greatest, and the sum of the lengths.

    The strings lie one behind the other in data; the caller has checked that the lengths fit.
    """
    groups = len(bounds) - 1
    found = np.zeros((groups, 5), np.int64)
    at = 0
    for i in range(bounds[0]):
        at += lengths[i]
    for g in range(groups):
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
        found[g, 0] = least
        found[g, 1] = least_end - least
        found[g, 2] = most
        found[g, 3] = most_end - most
        found[g, 4] = at - begin
    return found


@kernel
def chosen_sums(amounts: Longs, indices: Longs, bounds: Longs) -> Longs:
    """Return per group: the sum of the amounts that its indices name. The caller has checked the indices."""
    sums = np.zeros(len(bounds) - 1, np.int64)
    for g in range(len(sums)):
        total = 0
        for index in indices[bounds[g] : bounds[g + 1]]:
            total += amounts[index]
        sums[g] = total
    return sums


@kernel
def true_counts(flags: Bytes, bounds: Longs) -> Longs:
    """Return per group: how many flags are not 0."""
    counts = np.zeros(len(bounds) - 1, np.int64)
    for g in range(len(counts)):
        count = 0
        for flag in flags[bounds[g] : bounds[g + 1]]:
            count += int(flag != 0)
        counts[g] = count
    return counts


@kernel
def decimal_groups(values: Longs, scales: Longs, bounds: Longs) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return for 64 bits, by scale: (G, SCALES, 4) with minimum, maximum, low and high sums; counts (G, SCALES).

    Values of different scales are compared by the caller, exactly. A scale outside 0..38 makes the group's first count
    -1.
    """
    groups = len(bounds) - 1
    found = np.zeros((groups, SCALES, 4), np.int64)
    counts = np.zeros((groups, SCALES), np.int64)
    for g in range(groups):
        first = bounds[g]
        scale = _only_scale(scales[first : bounds[g + 1]])
        if scale >= 0:
            cell = found[g, scale]
            cell[0], cell[1], cell[2], cell[3] = _integers(values[first : bounds[g + 1]])
            counts[g, scale] = bounds[g + 1] - first
            continue
        for i in range(first, bounds[g + 1]):
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
def _only_scale(scales: Longs) -> int:
    """Return the scale that all values have, or -1: none has one, they differ, or it is outside 0..38."""
    if len(scales) == 0 or scales[0] < 0 or scales[0] >= SCALES:
        return -1
    others = 0
    for scale in scales:
        others |= scale ^ scales[0]
    return -1 if others else int(scales[0])


@kernel
def wide_decimal_groups(
    low: Longs, high: Longs, scales: Longs, bounds: Longs
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return as decimal_groups, for 128 bits: (G, SCALES, 8) with the minimum's low and high word, the maximum's, and
    the sums of the four 32-bit parts from low to high (the last one signed).
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
def instant(seconds: int, nanos: int) -> tuple[int, int]:
    """Return a stored timestamp in UTC as milliseconds since 1970, and the nanoseconds below.

    As ORC's TreeReaderFactory.TimestampTreeReader: seconds before 1970 were rounded towards zero by the writer, so one
    is taken off where the fraction has a millisecond or more. The lowest three bits of stored nanoseconds count the
    zeros taken off the end, less one.
    """
    fraction = nanos >> 3
    if nanos & 7:
        for _ in range((nanos & 7) + 1):
            fraction *= 10
    millis = (seconds + _BASE_SECONDS) * 1000 + fraction // 1_000_000
    if millis < 0 and fraction > 999_999:
        millis -= 1000
    return millis, fraction % 1_000_000


@kernel
def timestamp_groups(seconds: Longs, nanos: Longs, bounds: Longs) -> npt.NDArray[np.int64]:
    """Return per group (G, 5): minimum in milliseconds since 1970, its nanoseconds below, the maximum's, 1 if unknown.

    Unknown: nanoseconds outside 0..999,999,999 or seconds whose milliseconds do not fit 64 bits.
    """
    groups = len(bounds) - 1
    found = np.zeros((groups, 5), np.int64)
    for g in range(groups):
        first = bounds[g]
        if first == bounds[g + 1]:
            continue
        block = seconds[first : bounds[g + 1]]
        least = block[0]
        most = block[0]
        for stored in block:
            least = min(least, stored)
            most = max(most, stored)
        if least < -MAX_SECONDS or most > MAX_SECONDS or not are_nanoseconds(nanos[first : bounds[g + 1]]):
            found[g, 4] = 1
            continue
        fresh = True
        for i in range(first, bounds[g + 1]):
            stored = seconds[i]
            # the instants of a second all come before those of the next, before 1970 too
            if least < stored < most:
                continue
            millis, below = instant(stored, nanos[i])
            if fresh or millis < found[g, 0] or (millis == found[g, 0] and below < found[g, 1]):
                found[g, 0] = millis
                found[g, 1] = below
            if fresh or millis > found[g, 2] or (millis == found[g, 2] and below > found[g, 3]):
                found[g, 2] = millis
                found[g, 3] = below
            fresh = False
    return found


@kernel
def are_nanoseconds(stored: Longs) -> bool:
    """Return whether all are nanoseconds in the stored form."""
    wrong = 0
    for value in stored:
        wrong |= int(value < 0) | int(value >> 3 > _MOST_DIGITS[value & 7])
    return wrong == 0
