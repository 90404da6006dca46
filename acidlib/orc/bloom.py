"""Bloom filters of row groups, by which readers skip groups that cannot hold a value of their query.

Source: ORC specification, "Bloom Filter Index"; ORC's TreeWriters and BloomFilter for the bits, its
RecordReaderImpl.checkInBloomFilter for the hash that readers look up. Filters are of the kind BLOOM_FILTER_UTF8, bit
for bit those of Java's writer, with two differences, because a filter that lacks a value makes readers lose rows:

- a zero counts as both 0.0 and -0.0, which are equal in SQL and hash differently;
- where it is not certain which hash readers look up, the row group has a filter of ones, which holds every value.
  These are timestamps with a writer outside UTC; dates and timestamps before 1582-10-15, whose number depends on the
  calendar; a CHAR that is not padded and a VARCHAR that is too long, which readers pad or cut; a decimal of more
  digits than its column or a HiveDecimal has; and always BOOLEAN, STRUCT, LIST, MAP, UNION.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from acidlib.model.units import FilterSize
from acidlib.orc.columns import INTEGER_KINDS, STRING_KINDS, Column, Longs, Mask, offsets_of
from acidlib.orc.kernels import murmur
from acidlib.orc.kernels.jit import Words
from acidlib.orc.kernels.texts import MAX_DIGITS
from acidlib.orc.proto import GREGORIAN_START_DAYS, BloomFilterIndex, Kind
from acidlib.orc.schema import TypeNode

_WORD = 64
_MAX_BITS_PER_ROW = 64
_MAX_BITS = 1 << 26
_MAX_FUNCTIONS = 64
_INT32_END = 1 << 31
_NAN = 0x7FF8 << 48
_ZEROS = np.array([0, -(2**63)], dtype=np.int64)


def filter_size(rows: int, false_positives: float) -> FilterSize:
    """Return the size of Java's writer for so many rows and a share of false positives, above 0 and below 1.

    It is at most 64 bits for each row, and 8 MiB. Source: ORC `BloomFilter(long, double)`.
    """
    bits = int(-rows * math.log(false_positives) / (math.log(2) * math.log(2)))
    bits = min(bits + _WORD - bits % _WORD, _most_bits(rows))
    return FilterSize(bits, max(1, math.floor(bits / rows * math.log(2) + 0.5)))


def size_of(index: Any, rows: int) -> FilterSize | None:
    """Return the size of the filters of a BloomFilterIndex for row groups of `rows`, or None without usable filters.

    A filter is not usable if it has no hash function or more than 64, or is larger than `filter_size` ever returns.
    """
    for entry in index.bloom_filter:
        bits = 8 * len(entry.utf8_bitset) or _WORD * len(entry.bitset)
        fits = 0 < bits <= _most_bits(rows) and bits % _WORD == 0 and 1 <= entry.num_hash_functions <= _MAX_FUNCTIONS
        return FilterSize(bits, int(entry.num_hash_functions)) if fits else None
    return None


def _most_bits(rows: int) -> int:
    return min(_MAX_BITS_PER_ROW * rows, _MAX_BITS)


def bloom_filters(column: Column, node: TypeNode, value_bounds: Longs, size: FilterSize, *, timezone: str) -> Any:
    """Return the BloomFilterIndex of a column: a filter for each row group, the values between two bounds."""
    is_text = node.kind in STRING_KINDS or node.kind is Kind.BINARY
    texts, sure = _text_hashes(column, node) if is_text else (None, None)
    index = BloomFilterIndex()
    for first, end in pairwise(value_bounds.tolist()):
        if texts is None:
            hashes = _hashes(column, node, slice(first, end), timezone)
        else:
            hashes = texts[first:end] if sure is None or sure[first:end].all() else None
        if hashes is None:
            words = np.full(size.bits // _WORD, -1, dtype=np.int64)
        else:
            words = murmur.set_bits(hashes, size.bits, size.functions).view(np.int64)
        index.bloom_filter.add(num_hash_functions=size.functions, utf8_bitset=words.astype("<i8").tobytes())
    return index


def _text_hashes(column: Column, node: TypeNode) -> tuple[Words, Mask | None]:
    """Return the hash of each value, and whether readers look it up as it is stored; None where they always do."""
    if column.dictionary is None:
        data, offsets = column.data, offsets_of(column.lengths)
    else:
        data, offsets = column.dictionary.data, column.dictionary.offsets
    hashes, sure = murmur.hash_strings(data, offsets), None
    if node.kind in (Kind.CHAR, Kind.VARCHAR):
        characters = murmur.count_characters(data, offsets)
        least = node.maximum_length if node.kind is Kind.CHAR else 0
        sure = (characters >= least) & (characters <= node.maximum_length)
    if column.dictionary is None:
        return hashes, sure
    return hashes[column.values], None if sure is None else sure[column.values]


def _hashes(column: Column, node: TypeNode, group: slice, timezone: str) -> Words | None:
    """Return the hashes of a row group's values, or None when it is not certain which hashes readers look up."""
    kind, values, secondary = node.kind, column.values[group], column.secondary[group]
    if kind is Kind.BYTE:
        return murmur.hash_longs(values.view(np.int8).astype(np.int64))
    if kind in INTEGER_KINDS:
        if kind is Kind.DATE and len(values) and (values.min() < GREGORIAN_START_DAYS or values.max() >= _INT32_END):
            return None
        return murmur.hash_longs(values)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        with np.errstate(invalid="ignore"):  # widening a signalling NaN
            reals = values.view(np.float32 if kind is Kind.FLOAT else np.float64).astype(np.float64)
        patterns = reals.view(np.int64)
        patterns[np.isnan(reals)] = _NAN
        return murmur.hash_longs(patterns if reals.all() else np.concatenate((patterns, _ZEROS)))
    if kind is Kind.DECIMAL:
        hashes = np.empty(len(values), np.uint64)
        top = values >> 63 if column.high is None else column.high[group]
        most_scale = node.scale if node.precision else MAX_DIGITS
        return hashes if murmur.hash_decimals(values, top, secondary, most_scale, hashes) else None
    if kind is Kind.TIMESTAMP_INSTANT or (kind is Kind.TIMESTAMP and timezone == "UTC"):
        millis = np.empty(len(values), np.int64)
        sure = murmur.timestamp_millis(values, secondary, millis)
        if not sure or (len(millis) and millis.min() < GREGORIAN_START_DAYS * 86_400_000):
            return None
        return murmur.hash_longs(millis)
    return None
