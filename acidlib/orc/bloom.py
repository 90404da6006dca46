"""Bloom filters of row groups, by which readers skip groups that cannot hold what they look for.

Source: ORC specification, "Bloom Filter Index"; ORC's TreeWriters and BloomFilter for what is written, its
RecordReaderImpl.checkInBloomFilter for what is asked. Filters are of the kind BLOOM_FILTER_UTF8, bit for bit those of
Java's writer, with two differences, because a filter that lacks a value makes readers lose rows:

- a zero counts as both 0.0 and -0.0, which are equal in SQL and hash differently;
- where it is not certain what a reader asks for, the row group has a filter of ones, which holds everything.
  That is so for timestamps whose writer was not in UTC; for dates and timestamps before 1582-10-15, whose number
  depends on the calendar; for a CHAR that is not padded and a VARCHAR that is too long, which readers show otherwise;
  for a decimal of more digits than its column or a HiveDecimal has; and always for BOOLEAN, STRUCT, LIST, MAP, UNION.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.model.units import FilterSize
from acidlib.orc.columns import INTEGER_KINDS, STRING_KINDS, Column, Longs, Mask, offsets_of
from acidlib.orc.kernels import murmur
from acidlib.orc.kernels.jit import Bytes, kernel_bytes, kernel_longs
from acidlib.orc.kernels.murmur import Words
from acidlib.orc.kernels.texts import MOST_DIGITS
from acidlib.orc.proto import GREGORIAN_START_DAYS, BloomFilterIndex, Kind
from acidlib.orc.schema import TypeNode

_WORD = 64
_MOST_PER_ROW = 64
_MOST_BITS = 1 << 26
_MOST_FUNCTIONS = 64
_INT32_END = 1 << 31
_NAN = 0x7FF8 << 48
_ZEROS = np.array([0, -(2**63)], dtype=np.int64)

_Hasher = Callable[[int, int], Words | None]
"""The hashes of the values first to end, or None when it is not certain what readers ask for."""


def filter_size(rows: int, false_positives: float) -> FilterSize:
    """Return the size that Java's writer takes for so many rows and a share of false positives, above 0 and below 1.

    Not above 64 bits for each row and 8 MiB in all. Source: ORC `BloomFilter(long, double)`.
    """
    bits = int(-rows * math.log(false_positives) / (math.log(2) * math.log(2)))
    bits = min(bits + _WORD - bits % _WORD, _most_bits(rows))
    return FilterSize(bits, max(1, math.floor(bits / rows * math.log(2) + 0.5)))


def size_of(index: Any, rows: int) -> FilterSize | None:
    """Return the size of the filters of a BloomFilterIndex for row groups of `rows`, or None if none can be followed.

    None too for one of no hash functions or more than 64, or larger than `filter_size` would make any.
    """
    for entry in index.bloom_filter:
        bits = 8 * len(entry.utf8_bitset) or _WORD * len(entry.bitset)
        fits = 0 < bits <= _most_bits(rows) and bits % _WORD == 0 and 1 <= entry.num_hash_functions <= _MOST_FUNCTIONS
        return FilterSize(bits, int(entry.num_hash_functions)) if fits else None
    return None


def _most_bits(rows: int) -> int:
    return min(_MOST_PER_ROW * rows, _MOST_BITS)


def bloom_filters(column: Column, node: TypeNode, value_bounds: Longs, size: FilterSize, *, timezone: str) -> Any:
    """Return the BloomFilterIndex of a column: a filter for each of its row groups, that is pair of value numbers."""
    hasher = _hasher(column, node, timezone)
    index = BloomFilterIndex()
    for first, end in pairwise(value_bounds.tolist()):
        hashes = hasher(first, end)
        if hashes is None:
            words = np.full(size.bits // _WORD, -1, dtype=np.int64)
        else:
            words = murmur.set_bits(hashes, size.bits, size.functions).view(np.int64)
        index.bloom_filter.add(num_hash_functions=size.functions, utf8_bitset=words.astype("<i8").tobytes())
    return index


def _hasher(column: Column, node: TypeNode, timezone: str) -> _Hasher:
    kind = column.kind
    if kind is Kind.DATE:
        return _dates(np.ascontiguousarray(column.values))
    if kind in INTEGER_KINDS:
        return _integers(np.ascontiguousarray(column.values))
    if kind is Kind.BYTE:
        return _integers(np.ascontiguousarray(column.values).view(np.int8))
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return _doubles(np.ascontiguousarray(column.values), np.float32 if kind is Kind.FLOAT else np.float64)
    if kind in STRING_KINDS or kind is Kind.BINARY:
        return _strings(column, node)
    if kind is Kind.DECIMAL:
        return _decimals(column, node)
    if kind is Kind.TIMESTAMP_INSTANT or (kind is Kind.TIMESTAMP and timezone == "UTC"):
        return _timestamps(column)
    return lambda _first, _end: None


def _integers(values: NDArray[Any]) -> _Hasher:
    return lambda first, end: murmur.hash_longs(kernel_longs(values[first:end]))


def _dates(days: Longs) -> _Hasher:
    def hasher(first: int, end: int) -> Words | None:
        part = kernel_longs(days[first:end])
        if len(part) and (part.min() < GREGORIAN_START_DAYS or part.max() >= _INT32_END):
            return None
        return murmur.hash_longs(part)

    return hasher


def _doubles(patterns: NDArray[Any], real: type[np.floating[Any]]) -> _Hasher:
    def hasher(first: int, end: int) -> Words:
        with np.errstate(invalid="ignore"):  # widening a signalling NaN
            numbers = patterns[first:end].view(real).astype(np.float64)
        asked = numbers.view(np.int64)
        asked[np.isnan(numbers)] = _NAN
        if not numbers.all():
            asked = np.concatenate((asked, _ZEROS))
        return murmur.hash_longs(kernel_longs(asked))

    return hasher


def _strings(column: Column, node: TypeNode) -> _Hasher:
    if column.dictionary is None:
        offsets, data = (
            offsets_of(np.ascontiguousarray(column.lengths)),
            kernel_bytes(np.ascontiguousarray(column.data)),
        )
        return lambda first, end: _hash_strings(data, offsets[first : end + 1], node)
    offsets, data = kernel_longs(column.dictionary.offsets), kernel_bytes(column.dictionary.data)
    entries, hashes = np.ascontiguousarray(column.values), murmur.hash_strings(data, offsets)
    sure = _as_shown(data, offsets, node)

    def hasher(first: int, end: int) -> Words | None:
        found = entries[first:end]
        return None if sure is not None and not sure[found].all() else hashes[found]

    return hasher


def _hash_strings(data: Bytes, offsets: Longs, node: TypeNode) -> Words | None:
    sure = _as_shown(data, offsets, node)
    return None if sure is not None and not sure.all() else murmur.hash_strings(data, offsets)


def _as_shown(data: Bytes, offsets: Longs, node: TypeNode) -> Mask | None:
    """Return which strings readers show as they are stored, or None where they do so with all."""
    if node.kind not in (Kind.CHAR, Kind.VARCHAR):
        return None
    characters = murmur.count_characters(data, offsets)
    least = node.maximum_length if node.kind is Kind.CHAR else 0
    shown: Mask = (characters >= least) & (characters <= node.maximum_length)
    return shown


def _decimals(column: Column, node: TypeNode) -> _Hasher:
    low, scales = np.ascontiguousarray(column.values), np.ascontiguousarray(column.secondary)
    most_scale = node.scale if node.precision else MOST_DIGITS

    def hasher(first: int, end: int) -> Words | None:
        bottom = kernel_longs(low[first:end])
        top = bottom >> 63 if column.high is None else kernel_longs(column.high[first:end])
        hashes = np.empty(end - first, np.uint64)
        sure = murmur.hash_decimals(bottom, top, kernel_longs(scales[first:end]), most_scale, hashes)
        return hashes if sure else None

    return hasher


def _timestamps(column: Column) -> _Hasher:
    seconds, nanos = np.ascontiguousarray(column.values), np.ascontiguousarray(column.secondary)

    def hasher(first: int, end: int) -> Words | None:
        millis = np.empty(end - first, np.int64)
        sure = murmur.timestamp_millis(kernel_longs(seconds[first:end]), kernel_longs(nanos[first:end]), millis)
        if not sure or (len(millis) and millis.min() < GREGORIAN_START_DAYS * 86_400_000):
            return None
        return murmur.hash_longs(millis)

    return hasher
