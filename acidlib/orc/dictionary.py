"""String dictionaries: only used entries, each once, in ascending byte order (what Java's writer produces)."""

from __future__ import annotations

import numpy as np

from acidlib.orc.column import Bytes, Column, Dictionary, Longs
from acidlib.orc.kernels.jit import byte_at, kernel
from acidlib.orc.kernels.vectors import gather_bytes
from acidlib.orc.transform import as_direct

KEY_THRESHOLD = 0.8
"""Above this share of distinct strings a dictionary does not pay (orc.dictionary.key.threshold)."""


def canonical(column: Column) -> Column:
    """A string column whose dictionary, if it keeps one, is sorted, without duplicates and without unused entries."""
    if column.dictionary is None:
        return column
    dictionary, values = column.dictionary, column.values
    used = np.zeros(dictionary.entries, dtype=np.bool_)
    used[values] = True
    if np.count_nonzero(used) > KEY_THRESHOLD * len(values):
        return as_direct(column)
    if not used.all() or not _ascending(dictionary.offsets, dictionary.data):
        dictionary, values = _rebuild(dictionary, values, np.flatnonzero(used))
    return Column(kind=column.kind, slots=column.slots, present=column.present, values=values, dictionary=dictionary)


def _rebuild(dictionary: Dictionary, values: Longs, used: Longs) -> tuple[Dictionary, Longs]:
    starts = dictionary.offsets[used]
    lengths = dictionary.offsets[used + 1] - starts
    order = _sort(starts, lengths, _prefixes(starts, lengths, dictionary.data), dictionary.data)
    ranks, firsts = _rank(starts, lengths, order, dictionary.data)
    mapping = np.zeros(dictionary.entries, dtype=np.int64)
    mapping[used] = ranks
    kept = lengths[firsts]
    offsets = np.zeros(len(firsts) + 1, dtype=np.int64)
    np.cumsum(kept, out=offsets[1:])
    data = gather_bytes(dictionary.data, starts, lengths, firsts)
    return Dictionary(offsets=offsets, data=data), mapping[values]


@kernel
def _compare(data: Bytes, a: int, a_length: int, b: int, b_length: int) -> int:  # pragma: no cover
    for i in range(min(a_length, b_length)):
        difference = byte_at(data, a + i) - byte_at(data, b + i)
        if difference != 0:
            return difference
    return a_length - b_length


@kernel
def _ascending(offsets: Longs, data: Bytes) -> bool:  # pragma: no cover
    for i in range(1, len(offsets) - 1):
        a, b, c = offsets[i - 1], offsets[i], offsets[i + 1]
        if _compare(data, a, b - a, b, c - b) >= 0:
            return False
    return True


@kernel
def _prefixes(starts: Longs, lengths: Longs, data: Bytes) -> Longs:  # pragma: no cover
    """The first seven bytes of each string as a number that orders like them (seven fit without a sign)."""
    out = np.zeros(len(starts), dtype=np.int64)
    for i in range(len(starts)):
        value = 0
        for j in range(7):
            value <<= 8
            if j < lengths[i]:
                value |= int(data[starts[i] + j])
        out[i] = value
    return out


@kernel
def _sort(starts: Longs, lengths: Longs, prefixes: Longs, data: Bytes) -> Longs:  # pragma: no cover
    """Indices in ascending byte order, by a bottom-up merge sort."""
    n = len(starts)
    source = np.arange(n)
    target = np.empty(n, dtype=np.int64)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            left, right = low, middle
            for out in range(low, high):
                take_left = left < middle
                if take_left and right < high:
                    a, b = source[left], source[right]
                    if prefixes[a] != prefixes[b]:
                        take_left = prefixes[a] < prefixes[b]
                    else:
                        take_left = _compare(data, starts[a], lengths[a], starts[b], lengths[b]) <= 0
                if take_left:
                    target[out] = source[left]
                    left += 1
                else:
                    target[out] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@kernel
def _rank(starts: Longs, lengths: Longs, order: Longs, data: Bytes) -> tuple[Longs, Longs]:  # pragma: no cover
    """Per string its rank among the distinct ones, and per rank the index of one string that has it."""
    ranks = np.empty(len(order), dtype=np.int64)
    firsts = np.empty(len(order), dtype=np.int64)
    found = 0
    for i in range(len(order)):
        b = order[i]
        if i == 0 or _compare(data, starts[order[i - 1]], lengths[order[i - 1]], starts[b], lengths[b]) != 0:
            firsts[found] = b
            found += 1
        ranks[b] = found - 1
    return ranks, firsts[:found].copy()
