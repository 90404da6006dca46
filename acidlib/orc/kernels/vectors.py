"""Values of variable length: copies of kept or chosen values, and their order. And the result of encoders."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.orc.kernels.jit import Bytes, Flags, Longs, copy_bytes, entry, kernel, load_word

_PATTERNS: dict[int, type[np.generic]] = {1: np.uint8, 4: np.uint32, 8: np.int64}


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An encoded stream before compression, with a position for each mark.

    A mark is the index of the first value of a row group. `offsets` holds the byte offset in `data` of the run that
    contains this value, `skips` the number of values of that run before it. A mark after the last value points to the
    end of the stream with skip 0.

    In a stream of bits `skips` counts bytes of the run, and `bits` the bits of that byte (0-7). Where the last byte is
    partly filled, a mark after the last bit points into it, as Java's writer records it. Source: ORC's
    BitFieldWriter.getPosition.
    """

    data: Bytes
    offsets: Longs
    skips: Longs
    bits: Longs | None = None


@kernel
def note_marks(marks: Longs, mark: int, start: int, end: int, at: int, offsets: Longs, skips: Longs) -> int:
    """Record the marks in a run of the values from start to end, which begins at byte `at`; return the next mark."""
    while mark < len(marks) and marks[mark] < end:
        offsets[mark] = at
        skips[mark] = marks[mark] - start
        mark += 1
    return mark


def filter_values(values: NDArray[Any], keep: Flags) -> NDArray[Any]:
    """Return the kept values, of 1, 4 or 8 bytes each. Raises ValueError unless there is a flag for each value."""
    if len(keep) != len(values):
        raise ValueError(f"{len(values)} values but {len(keep)} flags")
    patterns = values.view(_PATTERNS[values.itemsize])
    # with room for a dropped value after the last kept one; allocated by numpy, which uses large pages
    out = np.empty(int(np.count_nonzero(keep)) + 1, dtype=patterns.dtype)
    _filter_values(patterns, keep, out)
    return out[:-1].view(values.dtype)


@entry
def _filter_values(values: NDArray[Any], keep: Flags, out: NDArray[Any]) -> None:
    done = 0
    for i in range(len(values)):
        # written in any case: a branch on random flags costs more
        out[done] = values[i]
        done += int(keep[i])


@entry
def filter_bytes(data: Bytes, lengths: Longs, keep: Flags) -> Bytes:
    """Return the bytes of the kept values; in `data` and in the result values lie one after the other."""
    total = 0
    for i in range(len(lengths)):
        if keep[i]:
            total += lengths[i]
    out = np.empty(total, dtype=np.uint8)
    pos = 0
    done = 0
    i = 0
    while i < len(lengths):
        start = pos
        while i < len(lengths) and keep[i]:
            pos += lengths[i]
            i += 1
        if pos > start:
            copy_bytes(out, done, data, start, pos - start)
            done += pos - start
        while i < len(lengths) and not keep[i]:
            pos += lengths[i]
            i += 1
    return out


@entry
def gather_bytes(data: Bytes, offsets: Longs, lengths: Longs, indices: Longs) -> Bytes:
    """Return the bytes of the values at `indices`, in that order; value i is data[offsets[i]:][:lengths[i]]."""
    total = 0
    for i in indices:
        total += lengths[i]
    out = np.empty(total, dtype=np.uint8)
    done = 0
    for i in indices:
        copy_bytes(out, done, data, offsets[i], lengths[i])
        done += lengths[i]
    return out


@kernel
def is_less(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Return whether data[a:a_end] comes before data[b:b_end], bytes taken as unsigned."""
    shared = min(a_end - a, b_end - b)
    done = 0
    while done + 8 <= shared:
        left = load_word(data, a + done)
        right = load_word(data, b + done)
        if left != right:
            return bool(left < right)
        done += 8
    rest = shared - done
    if rest > 0 and max(a, b) + done + 8 <= len(data):
        unused = np.uint64(64 - 8 * rest)
        left = load_word(data, a + done) >> unused
        right = load_word(data, b + done) >> unused
        if left != right:
            return bool(left < right)
        return a_end - a < b_end - b
    for i in range(done, shared):
        if data[a + i] != data[b + i]:
            return bool(data[a + i] < data[b + i])
    return a_end - a < b_end - b


@kernel
def head(data: Bytes, at: int, end: int) -> np.uint64:
    """Return the first eight bytes of data[at:end] as a big-endian number, with zeros for missing bytes."""
    size = end - at
    if at + 8 <= len(data) and size > 0:
        word = np.uint64(load_word(data, at))
        return word if size >= 8 else word & ~(np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(8 * size))
    word = np.uint64(0)
    for i in range(min(size, 8)):
        word |= np.uint64(data[at + i]) << np.uint64(56 - 8 * i)
    return word


@entry
def is_ascending(offsets: Longs, data: Bytes) -> bool:
    """Return whether the strings data[offsets[i]:offsets[i + 1]] ascend strictly by unsigned bytes."""
    for i in range(1, len(offsets) - 1):
        if not is_less(data, offsets[i - 1], offsets[i], offsets[i], offsets[i + 1]):
            return False
    return True


@entry
def rank_strings(starts: Longs, lengths: Longs, data: Bytes) -> tuple[Longs, Longs]:
    """Return for each string its rank among the distinct strings, and for each rank the index of a string with it."""
    # a bottom-up merge sort
    n = len(starts)
    heads = np.empty(n, dtype=np.uint64)
    for i in range(n):
        heads[i] = head(data, starts[i], starts[i] + lengths[i])
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
                    if heads[a] != heads[b]:
                        take_left = heads[a] < heads[b]
                    else:
                        take_left = not is_less(
                            data, starts[b], starts[b] + lengths[b], starts[a], starts[a] + lengths[a]
                        )
                if take_left:
                    target[out] = source[left]
                    left += 1
                else:
                    target[out] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    ranks = np.empty(n, dtype=np.int64)
    firsts = np.empty(n, dtype=np.int64)
    distinct = 0
    for i in range(n):
        a, b = source[i - 1], source[i]
        if i == 0 or is_less(data, starts[a], starts[a] + lengths[a], starts[b], starts[b] + lengths[b]):
            firsts[distinct] = b
            distinct += 1
        ranks[b] = distinct - 1
    return ranks, firsts[:distinct].copy()
