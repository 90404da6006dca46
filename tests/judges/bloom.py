"""Bloom filters worked out anew, value by value: what a filter of some values must hold, bit for bit.

Source: ORC specification, "Bloom Filter Index", and Austin Appleby's MurmurHash3. Values have the form of ``values``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

from judges import orc_tail as o

WORD = 2**64 - 1
SEED = 104729
NAN = 0x7FF8 << 48


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & WORD


def murmur(data: bytes) -> int:
    """The first half of MurmurHash3 of 128 bits, as ORC takes it: words of eight bytes, one lane."""
    value = SEED
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at : at + 8], "little") * 0x87C37B91114253D5 & WORD
        value ^= _rotated(word, 31) * 0x4CF5AD432745937F & WORD
        if at + 8 <= len(data):
            value = (_rotated(value, 27) * 5 + 0x52DCE729) & WORD
    value ^= len(data)
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & WORD
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & WORD
    return value ^ value >> 33


def _signed(value: int) -> int:
    return (value & WORD) - ((value & 1 << 63) << 1)


def wang(number: int) -> int:
    """Thomas Wang's hash of a long, with the shifts of Java."""
    key = _signed(~number + (number << 21))
    key = _signed(key ^ key >> 24)
    key = _signed(key * 265)
    key = _signed(key ^ key >> 14)
    key = _signed(key * 21)
    key = _signed(key ^ key >> 28)
    return (key + (key << 31)) & WORD


def hashes(value: Any, kind: int, length: int = 0) -> tuple[int, ...]:
    """What a value puts into the filter of a column of a kind; ``length`` of a CHAR."""
    if value is None:
        return ()
    if kind in (o.BYTE, o.SHORT, o.INT, o.LONG):
        return (wang(value),)
    text = str(value)[2:]
    if kind == o.DATE:
        return (wang(int(text)),)
    if kind in (o.FLOAT, o.DOUBLE):
        [number] = struct.unpack(">d", bytes.fromhex(text))
        if number == 0:
            return wang(0), wang(-(2**63))
        return (wang(NAN if math.isnan(number) else _signed(int(text, 16))),)
    if kind in (o.TIMESTAMP, o.TIMESTAMP_INSTANT):
        seconds, nanos = map(int, text.split(":"))
        return (wang(seconds * 1000 + nanos // 1_000_000),)
    if kind == o.BINARY:
        return (murmur(bytes.fromhex(text)),)
    return (murmur((text.ljust(length) if kind == o.CHAR else text).encode()),)


def filter_bits(found: Iterable[int], bits: int, functions: int) -> bytes:
    """A filter of ``bits`` bits that holds some hashes."""
    out = bytearray(bits // 8)
    for value in found:
        for k in range(1, functions + 1):
            combined = ((value & 0xFFFFFFFF) + k * (value >> 32)) & 0xFFFFFFFF
            place = (combined ^ 0xFFFFFFFF if combined >> 31 else combined) % bits
            out[place >> 3] |= 1 << (place & 7)
    return bytes(out)


def filters(orc: o.OrcFile, stripe: o.Stripe, column: int) -> list[tuple[int, bytes]]:
    """(number of hash functions, bits) per row group; empty where the stripe has no such filter."""
    stream = stripe.stream(column, o.BLOOM_UTF8)
    if stream is None:
        return []
    found = [o.parse(entry) for entry in o.parse(orc.stream_bytes(stream)).get(1, [])]
    return [(o.one(entry, 1, 0), o.one(entry, 3, b"")) for entry in found]


def columns(stripe: o.Stripe, kind: int = o.BLOOM_UTF8) -> list[int]:
    """The columns with filters, ascending."""
    return sorted(stream.column for stream in stripe.streams if stream.kind == kind and stream.length)
