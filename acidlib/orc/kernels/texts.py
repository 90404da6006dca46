"""Texts of numbers, texts without their padding, and whether decimals have no more digits than their type."""

import numpy as np
import numpy.typing as npt

from acidlib.orc.kernels.jit import Bytes, Longs, bit_length, kernel, kernel_bytes, kernel_longs, magnitude

_BLANK, _MINUS, _ZERO = 32, 45, 48
_HUNDRED = np.uint64(100)
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
        number = magnitude(values[i])
        # 1233 / 4096 is just below the logarithm of 2; it is one digit too many below the power of ten
        guess = (bit_length(number | 1) * 1233) >> 12
        size = guess + int(np.uint64(number) >= _LOW_POWERS[guess]) + int(values[i] < 0)
        # a 0 is below the first power, and has a digit
        lengths[i] = max(size, 1, width)
        total += lengths[i]
    return total


@kernel
def _write_integers(values: Longs, lengths: Longs, out: Bytes) -> None:
    digits = np.empty(20, np.uint8)
    pos = 0
    for i in range(len(values)):
        rest = np.uint64(magnitude(values[i]))
        first = 20
        while rest >= _HUNDRED:
            next_rest = rest // _HUNDRED
            pair = int(rest - next_rest * _HUNDRED)
            first -= 2
            digits[first] = _ZERO + pair // 10
            digits[first + 1] = _ZERO + pair % 10
            rest = next_rest
        pair = int(rest)
        first -= 1
        digits[first] = _ZERO + pair % 10
        if pair >= 10:
            first -= 1
            digits[first] = _ZERO + pair // 10
        end = pos + lengths[i]
        if values[i] < 0:
            out[pos] = _MINUS
            pos += 1
        for at in range(first, 20):
            out[pos] = digits[at]
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
