"""Values of variable length: copies of those that are kept or chosen, and their order. And what encoders return."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.errors import CorruptError
from acidlib.orc.kernels.jit import (
    Bytes,
    Flags,
    Longs,
    copy_bytes,
    kernel,
    kernel_array,
    kernel_bytes,
    kernel_flags,
    kernel_longs,
    load_word,
    store_word,
)

_MOST_ELEMENTS = 1 << 40
_PATTERNS: dict[int, type[np.generic]] = {1: np.uint8, 4: np.uint32, 8: np.int64}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoded:
    """An encoded stream before compression, with a position for each mark.

    A mark is the index of the first value of a row group. `offsets` holds the byte offset in `data` of the run that
    contains this value, `skips` the number of values of that run to pass over. A mark behind the last value points to
    the end of the stream with skip 0.

    In a stream of bits `skips` counts bytes of the run, and `bits` the bits of that byte (0-7). Inside a partly filled
    last byte, a mark behind the last bit points into that byte, as Java's writer records it. Source: ORC's
    BitFieldWriter.getPosition.
    """

    data: Bytes
    offsets: Longs
    skips: Longs
    bits: Longs | None = None


def checked_marks(marks: Longs, count: int) -> Longs:
    """Return the marks as kernels take them. Raises ValueError if they do not ascend within 0..count."""
    checked = kernel_longs(marks)
    if len(checked) and (checked[0] < 0 or checked[-1] > count or bool(np.any(np.diff(checked) < 0))):
        raise ValueError(f"marks must ascend within 0..{count}")
    return checked


def filter_bytes(data: Bytes, lengths: Longs, keep: Flags) -> Bytes:
    """Return the bytes of the kept values, one behind the other.

    `data` holds all values one behind the other, `lengths` the bytes of each, `keep` whether to copy it. Raises
    CorruptError if a length is negative or the lengths are not those of `data`, ValueError if the arrays do not match.
    """
    source, sizes, kept = kernel_bytes(data), kernel_longs(lengths), kernel_flags(keep)
    _check_lengths(sizes, kept, len(source), "bytes")
    out = np.empty(_kept_sum(sizes, kept), dtype=np.uint8)
    _filter(source, sizes, kept, out)
    return out


def filter_values(values: NDArray[Any], keep: Flags) -> NDArray[Any]:
    """Return the kept ones among values of one width (1, 4 or 8 bytes); ValueError if there is not a flag for each."""
    kept = kernel_flags(keep)
    if len(kept) != len(values):
        raise ValueError(f"{len(values)} values but {len(kept)} flags")
    patterns = kernel_array(values, values.dtype).view(_PATTERNS[values.itemsize])
    # one more: a dropped value behind the last kept one is written there
    out = np.empty(int(np.count_nonzero(kept)) + 1, dtype=patterns.dtype)
    _filter_values(patterns, kept, out)
    return out[:-1].view(values.dtype)


def gather_bytes(data: Bytes, offsets: Longs, lengths: Longs, indices: Longs) -> Bytes:
    """Return the bytes of the values `indices` names, in that order; value i is data[offsets[i]:][:lengths[i]].

    Raises CorruptError if an index names no value or a value does not lie within `data`.
    """
    source, starts, sizes, wanted = (
        kernel_bytes(data),
        kernel_longs(offsets),
        kernel_longs(lengths),
        kernel_longs(indices),
    )
    if len(starts) != len(sizes):
        raise ValueError(f"{len(starts)} offsets but {len(sizes)} lengths")
    total = _gathered_size(len(source), starts, sizes, wanted)
    if total < 0:
        raise CorruptError(f"Cannot gather values: because number {-total - 1} of the wanted ones is not in the data")
    out = np.empty(total, dtype=np.uint8)
    _gather(source, starts, sizes, wanted, out)
    return out


def expand_keep(keep: Flags, lengths: Longs) -> Flags:
    """Return for each element of lists whether its list is kept. `lengths` has the number of elements of each list.

    Raises CorruptError if a length is negative or their sum beyond all memory, ValueError if the arrays do not match.
    """
    sizes, kept = kernel_longs(lengths), kernel_flags(keep)
    _check_lengths(sizes, kept, None, "elements")
    total = _bounded_sum(sizes, _MOST_ELEMENTS)
    if total < 0:
        raise CorruptError(f"Cannot filter values: because their lists have more than {_MOST_ELEMENTS} elements")
    flags = np.empty(total + 8, dtype=np.uint8)
    _expand(kept, sizes, flags)
    return flags[:-8].view(np.bool_)


def sums_before(amounts: Longs, marks: Longs) -> Longs:
    """Return for each mark (a sorted index, 0..len) the sum of the amounts before it; ValueError for other marks."""
    parts, checked = kernel_longs(amounts), checked_marks(marks, len(amounts))
    sums = np.empty(len(checked), dtype=np.int64)
    _sums_before(parts, checked, sums)
    return sums


def _check_lengths(sizes: Longs, keep: Flags, total: int | None, unit: str) -> None:
    if len(sizes) != len(keep):
        raise ValueError(f"{len(sizes)} lengths but {len(keep)} flags")
    if len(sizes) and sizes.min() < 0:
        raise CorruptError(f"Cannot filter values: because value {int(sizes.argmin())} has a negative length")
    found = _bounded_sum(sizes, total) if total is not None else None
    if found != total:
        raise CorruptError(f"Cannot filter values: because their lengths do not add up to the {total} {unit} there are")


@kernel
def _bounded_sum(sizes: Longs, limit: int) -> int:
    """Return the sum of sizes, or -1 as soon as it passes the limit, so that it cannot overflow."""
    total = 0
    for size in sizes:
        if size > limit - total:
            return -1
        total += size
    return total


@kernel
def _sums_before(amounts: Longs, marks: Longs, out: Longs) -> None:
    total = 0
    start = 0
    for i in range(len(marks)):
        for amount in amounts[start : marks[i]]:
            total += amount
        start = marks[i]
        out[i] = total


@kernel
def _kept_sum(sizes: Longs, keep: Flags) -> int:
    total = 0
    for i in range(len(sizes)):
        if keep[i]:
            total += sizes[i]
    return total


@kernel
def _expand(keep: Flags, sizes: Longs, out: Bytes) -> None:
    """Write one flag for each element, in an array of eight more than there are."""
    pos = 0
    for i in range(len(sizes)):
        flags = np.uint64(0x0101010101010101 if keep[i] else 0)
        end = pos + sizes[i]
        # most lists are short: eight flags at once; the next list overwrites those that are too many
        store_word(out, pos, flags)
        pos += 8
        while pos < end:
            store_word(out, pos, flags)
            pos += 8
        pos = end


@kernel
def _filter_values(values: NDArray[Any], keep: Flags, out: NDArray[Any]) -> None:
    done = 0
    for i in range(len(values)):
        # written in any case: a branch on random flags costs more
        out[done] = values[i]
        done += int(keep[i])


@kernel
def _filter(data: Bytes, sizes: Longs, keep: Flags, out: Bytes) -> None:
    pos = 0
    done = 0
    i = 0
    while i < len(sizes):
        start = pos
        while i < len(sizes) and keep[i]:
            pos += sizes[i]
            i += 1
        if pos > start:
            copy_bytes(out, done, data, start, pos - start)
            done += pos - start
        while i < len(sizes) and not keep[i]:
            pos += sizes[i]
            i += 1


@kernel
def _gathered_size(available: int, offsets: Longs, sizes: Longs, indices: Longs) -> int:
    """Return the bytes of all wanted values, or -1 - k where number k is no value or not within the data."""
    total = 0
    for k in range(len(indices)):
        i = indices[k]
        if i < 0 or i >= len(sizes):
            return -1 - k
        if offsets[i] < 0 or offsets[i] > available or sizes[i] < 0 or sizes[i] > available - offsets[i]:
            return -1 - k
        total += sizes[i]
    return total


@kernel
def _gather(data: Bytes, offsets: Longs, sizes: Longs, indices: Longs, out: Bytes) -> None:
    done = 0
    for i in indices:
        copy_bytes(out, done, data, offsets[i], sizes[i])
        done += sizes[i]


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
    """Return the first eight bytes of data[at:end] as a number that orders as they do, with zeros for missing ones."""
    size = end - at
    if at + 8 <= len(data) and size > 0:
        word = load_word(data, at)
        return word if size >= 8 else word & ~(np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(8 * size))
    word = np.uint64(0)
    for i in range(min(size, 8)):
        word |= np.uint64(data[at + i]) << np.uint64(56 - 8 * i)
    return word


@kernel
def is_ascending(offsets: Longs, data: Bytes) -> bool:
    """Return whether the strings data[offsets[i]:offsets[i + 1]] ascend by unsigned bytes, without equal ones."""
    for i in range(1, len(offsets) - 1):
        if not is_less(data, offsets[i - 1], offsets[i], offsets[i], offsets[i + 1]):
            return False
    return True


@kernel
def rank_strings(starts: Longs, lengths: Longs, data: Bytes) -> tuple[Longs, Longs]:
    """Return per string its rank among the distinct ones, and per rank the index of one string that has it."""
    order = _sorted(starts, lengths, data)
    ranks = np.empty(len(order), dtype=np.int64)
    firsts = np.empty(len(order), dtype=np.int64)
    found = 0
    for i in range(len(order)):
        a, b = order[i - 1], order[i]
        if i == 0 or is_less(data, starts[a], starts[a] + lengths[a], starts[b], starts[b] + lengths[b]):
            firsts[found] = b
            found += 1
        ranks[b] = found - 1
    return ranks, firsts[:found].copy()


@kernel
def _sorted(starts: Longs, lengths: Longs, data: Bytes) -> Longs:
    """Return indices in ascending byte order, by a bottom-up merge sort."""
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
    return source
