"""Texts of numbers, texts without their padding, and whether decimals have no more digits than their type."""

import numpy as np
import numpy.typing as npt

from acidlib.orc.kernels.jit import Bytes, Longs, kernel, kernel_bytes, kernel_longs, magnitude

_BLANK, _MINUS, _ZERO = 32, 45, 48
_TEN = np.uint64(10)
_MOST_DIGITS = 38
_LOW_POWERS = np.array([10**n & (2**64 - 1) for n in range(_MOST_DIGITS + 1)], dtype=np.uint64)
_HIGH_POWERS = np.array([10**n >> 64 for n in range(_MOST_DIGITS + 1)], dtype=np.uint64)


def integer_texts(values: Longs, width: int) -> tuple[Bytes, Longs]:
    """The decimal text of each number (Java's `Long.toString`), blanks behind it up to `width` bytes.

    Returns all bytes one behind the other, and the length of each.
    """
    numbers = kernel_longs(values)
    lengths = np.empty(len(numbers), dtype=np.int64)
    out = np.empty(_integer_sizes(numbers, width, lengths), dtype=np.uint8)
    _write_integers(numbers, lengths, out)
    return out, lengths


def repadded(data: Bytes, lengths: Longs, width: int) -> tuple[Bytes, Longs, int]:
    """Each text without the blanks at its end, then with blanks up to `width` characters (0: none at all).

    The texts lie in `data` one behind the other, by lengths that the caller has checked. Returns the new bytes, their
    lengths, and the most characters that a text has without its blanks.
    """
    source, sizes = kernel_bytes(data), kernel_longs(lengths)
    kept, padded = np.empty_like(sizes), np.empty_like(sizes)
    most = _padded_sizes(source, sizes, width, kept, padded)
    out = np.full(int(padded.sum()), _BLANK, dtype=np.uint8)
    _write_padded(source, sizes, kept, padded, out)
    return out, padded, most


def first_too_long(low: Longs, high: Longs | None, scales: Longs, precision: int, scale: int) -> int | None:
    """The first number that is no DECIMAL(precision, scale), or None.

    Numbers are as `decode_varints` has them, each with the digits behind its point in `scales`.
    """
    lower = kernel_longs(low)
    upper = lower >> 63 if high is None else kernel_longs(high)
    found = _first_too_long(lower, upper, kernel_longs(scales), precision, scale, _LOW_POWERS, _HIGH_POWERS)
    return None if found < 0 else int(found)


@kernel
def _integer_sizes(values: Longs, width: int, lengths: Longs) -> int:
    total = 0
    for i in range(len(values)):
        rest = np.uint64(magnitude(values[i]))
        size = 2 if values[i] < 0 else 1
        while rest >= _TEN:
            rest //= _TEN
            size += 1
        lengths[i] = max(size, width)
        total += lengths[i]
    return total


@kernel
def _write_integers(values: Longs, lengths: Longs, out: Bytes) -> None:
    digits = np.empty(20, np.uint8)
    pos = 0
    for i in range(len(values)):
        rest = np.uint64(magnitude(values[i]))
        end = pos + lengths[i]
        if values[i] < 0:
            out[pos] = _MINUS
            pos += 1
        count = 0
        while True:
            tenth = rest // _TEN
            digits[count] = np.uint64(_ZERO) + rest - tenth * _TEN
            count += 1
            rest = tenth
            if rest == np.uint64(0):
                break
        while count:
            count -= 1
            out[pos] = digits[count]
            pos += 1
        while pos < end:
            out[pos] = _BLANK
            pos += 1


@kernel
def _padded_sizes(data: Bytes, lengths: Longs, width: int, kept: Longs, padded: Longs) -> int:
    """What stays of each text and its new length; returns the most characters of what stays."""
    start = 0
    most = 0
    for i in range(len(lengths)):
        end = start + lengths[i]
        while end > start and data[end - 1] == _BLANK:
            end -= 1
        characters = 0
        for at in range(start, end):
            characters += data[at] & 0xC0 != 0x80
        kept[i] = end - start
        padded[i] = kept[i] + max(width - characters, 0)
        most = max(most, characters)
        start += lengths[i]
    return most


@kernel
def _write_padded(data: Bytes, lengths: Longs, kept: Longs, padded: Longs, out: Bytes) -> None:
    """Copies what stays of each text; the array is blank before."""
    start = 0
    pos = 0
    for i in range(len(lengths)):
        for at in range(kept[i]):
            out[pos + at] = data[start + at]
        start += lengths[i]
        pos += padded[i]


@kernel
def _first_too_long(
    low: Longs,
    high: Longs,
    scales: Longs,
    precision: int,
    scale: int,
    low_powers: npt.NDArray[np.uint64],
    high_powers: npt.NDArray[np.uint64],
) -> int:
    for i in range(len(low)):
        if scales[i] < 0 or scales[i] > scale:
            return i
        bottom, top = np.uint64(low[i]), np.uint64(high[i])
        if high[i] < 0:
            # the two's complement of 128 bits
            bottom = ~bottom + np.uint64(1)
            top = ~top + np.uint64(bottom == np.uint64(0))
        digits = precision - scale + scales[i]
        if top > high_powers[digits] or (top == high_powers[digits] and bottom >= low_powers[digits]):
            return i
    return -1
