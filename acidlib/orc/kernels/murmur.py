"""Hashes of values, and the bits that they set in a bloom filter.

Source: ORC specification, "Bloom Filter Index"; ORC's Murmur3.hash64 and BloomFilter.getLongHash. Numbers here are
unsigned, so that they wrap around; the shifts of hash_longs to the right keep the sign, as Java's do.
"""

from typing import Any

import numpy as np

from acidlib.orc.kernels.group_stats import MAX_SECONDS, are_nanoseconds, timestamp_parts
from acidlib.orc.kernels.jit import Bytes, Longs, Words, entry, kernel
from acidlib.orc.kernels.texts import DIGITS_ROOM, MAX_DIGITS, decimal_digits, trailing_zeros, write_decimal

_U = np.uint64
_SEED = _U(104729)
_C1, _C2 = _U(0x87C37B91114253D5), _U(0x4CF5AD432745937F)
_M, _N = _U(5), _U(0x52DCE729)
_MIX1, _MIX2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_LOW = 0xFFFFFFFF
_SIGN = 0x80000000


@kernel
def _scramble(word: Any) -> Any:
    word *= _C1
    return ((word << _U(31)) | (word >> _U(33))) * _C2


@kernel
def _word(data: Bytes, start: int, count: int) -> Any:
    """Return up to eight bytes as a little-endian number."""
    word = _U(0)
    for i in range(count):
        word |= _U(data[start + i]) << _U(8 * i)
    return word


@kernel
def _murmur(data: Bytes, start: int, end: int) -> Any:
    """Return the hash of data[start:end]."""
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


@entry
def hash_strings(data: Bytes, offsets: Longs) -> Words:
    """Hash each string data[offsets[i]:offsets[i + 1]]; the caller has checked that offsets ascend within the data."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        out[i] = _murmur(data, offsets[i], offsets[i + 1])
    return out


@kernel
def _right(word: Any, bits: int) -> Any:
    return _U(np.int64(word) >> bits)


@entry
def hash_longs(values: Longs) -> Words:
    """Hash each number (Thomas Wang's hash of 64 bits)."""
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


@entry
def set_bits(hashes: Words, bits: int, functions: int) -> Words:
    """Return a filter of so many bits, in words of 64 from the lowest on, with the bits that the hashes set."""
    out = np.zeros(bits >> 6, np.uint64)
    for value in hashes:
        step = np.int64(value >> _U(32))
        combined = np.int64(value & _U(_LOW))
        for _ in range(functions):
            combined = (combined + step) & _LOW
            bit = (combined ^ _LOW if combined & _SIGN else combined) % bits
            out[bit >> 6] |= _U(1) << _U(bit & 63)
    return out


@entry
def count_characters(data: Bytes, offsets: Longs) -> Longs:
    """Return the number of characters of each string: its bytes that begin a character in UTF-8."""
    out = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(out)):
        for at in range(offsets[i], offsets[i + 1]):
            out[i] += data[at] & 0xC0 != 0x80
    return out


@entry
def timestamp_millis(seconds: Longs, nanos: Longs, out: Longs) -> bool:
    """Fill in milliseconds since 1970 of stored timestamps in UTC; return False if any is out of range.

    Out of range are nanoseconds beyond 0..999,999,999, and seconds beyond MAX_SECONDS.
    """
    if not are_nanoseconds(nanos):
        return False
    for i in range(len(seconds)):
        if seconds[i] < -MAX_SECONDS or seconds[i] > MAX_SECONDS:
            return False
        out[i], _ = timestamp_parts(seconds[i], nanos[i])
    return True


@entry
def hash_decimals(low: Longs, high: Longs, scales: Longs, most_scale: int, out: Words) -> bool:
    """Hash the text of each decimal; return False if any is no HiveDecimal of a scale up to `most_scale`."""
    digits = np.empty(DIGITS_ROOM, np.uint8)
    text = np.empty(DIGITS_ROOM, np.uint8)
    for i in range(len(low)):
        if scales[i] < 0:
            return False
        count = decimal_digits(low[i], high[i], digits)
        zeros = trailing_zeros(digits, count, scales[i])
        if count > 0 and (count - zeros > MAX_DIGITS or scales[i] - zeros > min(most_scale, MAX_DIGITS)):
            return False
        length = write_decimal(digits, count, scales[i], high[i], text, 0)
        out[i] = _murmur(text, 0, length)
    return True
