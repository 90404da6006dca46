"""Hashes of values, and the bits that they set in a bloom filter.

Source: ORC specification, "Bloom Filter Index"; ORC's Murmur3.hash64 and BloomFilter.getLongHash. Numbers here are
unsigned, so that they wrap around; the shifts of hash_longs to the right keep the sign, as Java's do.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from acidlib.orc.kernels.group_stats import BASE_SECONDS, MAX_SECONDS, are_nanoseconds, nanoseconds
from acidlib.orc.kernels.jit import Bytes, Longs, kernel

Words = npt.NDArray[np.uint64]

MOST_DIGITS = 38
"""Digits of the longest HiveDecimal, and those of its longest fraction."""

_U = np.uint64
_SEED = _U(104729)
_C1, _C2 = _U(0x87C37B91114253D5), _U(0x4CF5AD432745937F)
_M, _N = _U(5), _U(0x52DCE729)
_MIX1, _MIX2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_LOW = 0xFFFFFFFF
_SIGN = 0x80000000
_MINUS, _POINT, _ZERO = 45, 46, 48
_TEXT = 48


@kernel
def _scramble(word: Any) -> Any:
    word *= _C1
    return ((word << _U(31)) | (word >> _U(33))) * _C2


@kernel
def _word(data: Bytes, start: int, count: int) -> Any:
    """Up to eight bytes as one number, the first the lowest."""
    word = _U(0)
    for i in range(count):
        word |= _U(data[start + i]) << _U(8 * i)
    return word


@kernel
def _murmur(data: Bytes, start: int, end: int) -> Any:
    """The hash of data[start:end]."""
    value = _SEED
    at = start
    while at + 8 <= end:
        value ^= _scramble(_word(data, at, 8))
        value = ((value << _U(27)) | (value >> _U(37))) * _M + _N
        at += 8
    if at < end:
        value ^= _scramble(_word(data, at, end - at))
    value ^= _U(end - start)
    value = (value ^ (value >> _U(33))) * _MIX1
    value = (value ^ (value >> _U(33))) * _MIX2
    return value ^ (value >> _U(33))


@kernel
def hash_strings(data: Bytes, offsets: Longs) -> Words:
    """Of each string data[offsets[i]:offsets[i + 1]]; the caller has checked that offsets ascend within the data."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        out[i] = _murmur(data, offsets[i], offsets[i + 1])
    return out


@kernel
def _right(word: Any, bits: int) -> Any:
    return _U(np.int64(word) >> bits)


@kernel
def hash_longs(values: Longs) -> Words:
    """Of each number (Thomas Wang's hash of 64 bits)."""
    out = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        word = _U(values[i])
        word = ~word + (word << _U(21))
        word ^= _right(word, 24)
        word = word + (word << _U(3)) + (word << _U(8))
        word ^= _right(word, 14)
        word = word + (word << _U(2)) + (word << _U(4))
        word ^= _right(word, 28)
        out[i] = word + (word << _U(31))
    return out


@kernel
def set_bits(hashes: Words, bits: int, functions: int) -> Words:
    """The bits, in words of 64 from the lowest on, that some hashes set in a filter of so many bits."""
    out = np.zeros(bits >> 6, np.uint64)
    for value in hashes:
        step = np.int64(value >> _U(32))
        combined = np.int64(value & _U(_LOW))
        for _ in range(functions):
            combined = (combined + step) & _LOW
            place = (combined ^ _LOW if combined & _SIGN else combined) % bits
            out[place >> 6] |= _U(1) << _U(place & 63)
    return out


@kernel
def count_characters(data: Bytes, offsets: Longs) -> Longs:
    """Characters of each string, by the bytes that begin one in UTF-8."""
    out = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(out)):
        for at in range(offsets[i], offsets[i + 1]):
            out[i] += data[at] & 0xC0 != 0x80
    return out


@kernel
def timestamp_millis(seconds: Longs, nanos: Longs, out: Longs) -> bool:
    """Milliseconds since 1970 of stored timestamps in UTC, as timestamp_groups has them; False where one is unknown."""
    if not are_nanoseconds(nanos):
        return False
    for i in range(len(seconds)):
        fraction = nanoseconds(nanos[i])
        if seconds[i] < -MAX_SECONDS or seconds[i] > MAX_SECONDS:
            return False
        millis = (seconds[i] + BASE_SECONDS) * 1000 + fraction // 1_000_000
        if millis < 0 and fraction > 999_999:
            millis -= 1000
        out[i] = millis
    return True


@kernel
def _digits(low: int, high: int, out: Bytes) -> int:
    """The decimal digits of a magnitude of 128 bits, the lowest first; returns their number."""
    found = 0
    if high == 0:
        rest = _U(low)
        while rest > _U(0):
            out[found] = rest % _U(10)
            rest //= _U(10)
            found += 1
        return found
    parts = np.empty(4, np.int64)
    parts[0], parts[1] = (high >> 32) & _LOW, high & _LOW
    parts[2], parts[3] = (low >> 32) & _LOW, low & _LOW
    while parts[0] | parts[1] | parts[2] | parts[3]:
        carry = 0
        for k in range(4):
            carry = carry << 32 | parts[k]
            parts[k] = carry // 10
            carry %= 10
        out[found] = carry
        found += 1
    return found


@kernel
def _decimal_text(digits: Bytes, count: int, scale: int, sign: int, out: Bytes) -> int:
    """HiveDecimal.toString of digits, the lowest first; the sign is below 0 for a minus. Returns its length."""
    at = 0
    if sign < 0:
        out[at] = _MINUS
        at += 1
    for place in range(max(count, scale + 1) - 1, -1, -1):
        out[at] = _ZERO + (digits[place] if place < count else 0)
        at += 1
        if place == scale and scale > 0:
            out[at] = _POINT
            at += 1
    return at


@kernel
def hash_decimals(low: Longs, high: Longs, scales: Longs, most_scale: int, out: Words) -> bool:
    """Of the text of each decimal; False where one is none that a HiveDecimal of a scale up to most_scale can hold."""
    digits = np.empty(_TEXT, np.uint8)
    text = np.empty(_TEXT, np.uint8)
    for i in range(len(low)):
        bottom, top = low[i], high[i]
        sign = top
        if sign < 0:
            # the two's complement of 128 bits
            bottom = np.int64(~_U(bottom) + _U(1))
            top = np.int64(~_U(top) + _U(bottom == 0))
        count = _digits(bottom, top, digits)
        scale = scales[i]
        if scale < 0:
            return False
        zeros = 0
        while zeros < count and zeros < scale and digits[zeros] == 0:
            zeros += 1
        scale = 0 if count == 0 else scale - zeros
        if count - zeros > MOST_DIGITS or scale > min(most_scale, MOST_DIGITS):
            return False
        length = _decimal_text(digits[zeros:], count - zeros, scale, sign, text)
        out[i] = _murmur(text, 0, length)
    return True
