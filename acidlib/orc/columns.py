"""The content of ORC columns, decoded but not interpreted: filtering, joining, reordering, and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.memory import Room
from acidlib.orc.kernels.vectors import filter_bytes, filter_values, gather_bytes, is_ascending, rank_strings
from acidlib.orc.proto import Kind

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

NO_VALUES: Longs = np.zeros(0, dtype=np.int64)
NO_BYTES: Bytes = np.zeros(0, dtype=np.uint8)

STRING_KINDS = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
INTEGER_KINDS = frozenset({Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE})
TIMESTAMP_KINDS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})

KEY_THRESHOLD = 0.8
"""Above this share of distinct strings a dictionary does not pay (orc.dictionary.key.threshold)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary:
    """Distinct strings: entry i is data[offsets[i]:offsets[i+1]]; int64 offsets of length entries + 1."""

    offsets: Longs
    data: Bytes

    @classmethod
    def of(cls, data: Bytes, lengths: Longs) -> Dictionary:
        """Return the dictionary of strings that lie one after the other, by their lengths."""
        return cls(offsets=offsets_of(lengths), data=data)

    @property
    def entries(self) -> int:
        """The number of entries."""
        return len(self.offsets) - 1


@dataclass(slots=True, kw_only=True)
class Column:
    """A run of slots of a column, decompressed and decoded; no value is interpreted.

    Arrays hold the *present* values only, except `present` itself, which has an entry for each slot. Arrays that a kind
    does not use are empty.

    kind       the type kind as written
    slots      number of slots, nulls included
    present    bool per slot, or None when every slot has a value
    values     BOOLEAN: uint8 0/1 · BYTE: uint8 bit patterns · SHORT, INT, LONG, DATE: int64 · FLOAT: uint32 and
               DOUBLE: uint64 bit patterns · DECIMAL: low 64 bits of the unscaled value as int64 · TIMESTAMP: int64
               seconds from 2015-01-01 in the writer's zone, as stored · UNION: uint8 tags ·
               strings in dictionary form: int64 entry numbers
    high       DECIMAL: high 64 bits of the two's complement value, or None when all values fit 64 bits
    secondary  DECIMAL: int64 scales · TIMESTAMP: int64 nanoseconds as stored (with their trailing-zero code)
    lengths    direct strings and BINARY: int64 byte lengths · LIST, MAP: int64 element counts
    data       direct strings and BINARY: the bytes, uint8
    dictionary strings in dictionary form, else None
    children   LIST: 1, MAP: 2, STRUCT and UNION: one per child; slots of a child = elements, or present values
    """

    kind: Kind
    slots: int
    present: Mask | None = None
    values: NDArray[Any] = field(default_factory=lambda: NO_VALUES)
    high: Longs | None = None
    secondary: Longs = field(default_factory=lambda: NO_VALUES)
    lengths: Longs = field(default_factory=lambda: NO_VALUES)
    data: Bytes = field(default_factory=lambda: NO_BYTES)
    dictionary: Dictionary | None = None
    children: tuple[Column, ...] = field(default=())

    @property
    def high_words(self) -> Longs:
        """The high 64 bits of every DECIMAL."""
        return self.values >> 63 if self.high is None else self.high

    @property
    def count(self) -> int:
        """The number of present values."""
        return self.slots if self.present is None else int(np.count_nonzero(self.present))

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, with all below it."""
        arrays = [self.present, self.values, self.high, self.secondary, self.lengths, self.data]
        if self.dictionary is not None:
            arrays += [self.dictionary.offsets, self.dictionary.data]
        return sum(array.nbytes for array in arrays if array is not None) + sum(child.size for child in self.children)


def offsets_of(lengths: Sequence[int] | NDArray[Any]) -> Longs:
    """Return the offsets at which values of these lengths begin, one after the other, and the end of the last value."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


def filter_column(column: Column, keep: Mask) -> Column:
    """Return the slots with a true entry in `keep` (bool per slot), in order, with all below them."""
    present = column.present
    if present is None:
        kept_values, kept_present = keep, None
    else:
        kept_values, kept_present = filter_values(keep, present), filter_values(present, keep)
        if kept_present.all():
            kept_present = None
    slots = int(np.count_nonzero(keep))
    out = _picked(column, slots, kept_present, lambda values: filter_values(values, kept_values))
    if len(column.data):
        out.data = filter_bytes(column.data, column.lengths, kept_values)
    below = [kept_values] * len(column.children)
    if column.kind in (Kind.LIST, Kind.MAP):
        below = [np.repeat(kept_values, column.lengths)] * len(column.children)
    elif column.kind is Kind.UNION:
        below = [kept_values[column.values == tag] for tag in range(len(column.children))]
    out.children = tuple(filter_column(child, mask) for child, mask in zip(column.children, below, strict=True))
    return out


def _picked(column: Column, slots: int, present: Mask | None, pick: Callable[[NDArray[Any]], NDArray[Any]]) -> Column:
    """Return the chosen values of a column, without its bytes and the columns below it."""

    def picked(values: NDArray[Any]) -> NDArray[Any]:
        return pick(values) if len(values) else values

    return Column(
        kind=column.kind,
        slots=slots,
        present=present,
        values=picked(column.values),
        high=None if column.high is None else picked(column.high),
        secondary=picked(column.secondary),
        lengths=picked(column.lengths),
        dictionary=column.dictionary,
    )


def reorder_column(column: Column, order: Longs) -> Column:
    """Return the slots that `order` names, in that order, with all below them; a slot may be named once or never."""
    present = column.present
    if present is None:
        chosen, chosen_present = order, None
    else:
        chosen_present = present[order]
        chosen = (np.cumsum(present, dtype=np.int64) - 1)[order[chosen_present]]
        if chosen_present.all():
            chosen_present = None
    out = _picked(column, len(order), chosen_present, lambda values: values[chosen])
    if len(column.data):
        out.data = gather_bytes(column.data, offsets_of(column.lengths)[:-1], column.lengths, chosen)
    below = [chosen] * len(column.children)
    if column.kind in (Kind.LIST, Kind.MAP):
        # each element's place in its own list, added to where that list starts
        within = np.arange(int(out.lengths.sum()), dtype=np.int64) - np.repeat(
            offsets_of(out.lengths)[:-1], out.lengths
        )
        starts = offsets_of(column.lengths)[chosen]
        below = [np.repeat(starts, out.lengths) + within] * len(column.children)
    elif column.kind is Kind.UNION:
        for tag in range(len(column.children)):
            is_mine = column.values == tag
            below[tag] = (np.cumsum(is_mine, dtype=np.int64) - 1)[chosen[is_mine[chosen]]]
    out.children = tuple(reorder_column(child, order) for child, order in zip(column.children, below, strict=True))
    return out


def concat_columns(columns: Sequence[Column], room: Room) -> Column:
    """Return the slots of several columns of one type, one after the other.

    Raises OverMemoryError, with the reason alone, where strings of dictionaries that have to be repeated at each slot
    take more than the room: one long string may stand for any number of them.
    """
    columns = [column for column in columns if column.slots] or list(columns[:1])
    if len(columns) == 1:
        return columns[0]
    out = Column(kind=columns[0].kind, slots=sum(column.slots for column in columns))
    if any(column.present is not None for column in columns):
        out.present = np.concatenate(
            [np.ones(c.slots, dtype=np.bool_) if c.present is None else c.present for c in columns]
        )
    if out.kind in STRING_KINDS:
        # a column without any value may have either form
        valued = [column for column in columns if column.count]
        dictionaries = [column.dictionary for column in valued if column.dictionary is not None]
        if dictionaries and len(dictionaries) == len(valued):
            # the entries of all, one after the other
            lengths = np.concatenate([np.diff(dictionary.offsets) for dictionary in dictionaries])
            data = np.concatenate([dictionary.data for dictionary in dictionaries])
            out.dictionary = Dictionary.of(data, lengths)
            firsts = offsets_of([dictionary.entries for dictionary in dictionaries])[:-1]
            out.values = np.concatenate([part.values + first for part, first in zip(valued, firsts, strict=True)])
        elif valued:
            for dictionary, column in ((column.dictionary, column) for column in valued):
                if dictionary is not None:
                    room.take(int(np.diff(dictionary.offsets)[column.values].sum()))
            direct = [as_direct(column) for column in valued]
            out.lengths = _join([column.lengths for column in direct])
            out.data = _join([column.data for column in direct])
        return out
    out.values = _join([column.values for column in columns])
    out.lengths = _join([column.lengths for column in columns])
    out.data = _join([column.data for column in columns])
    out.secondary = _join([column.secondary for column in columns])
    if any(column.high is not None for column in columns):
        out.high = np.concatenate([column.high_words for column in columns])
    children = zip(*(column.children for column in columns), strict=True)
    out.children = tuple(concat_columns(parts, room) for parts in children)
    return out


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([array for array in arrays if len(array)] or arrays[:1])


def as_direct(column: Column) -> Column:
    """Return a string column in direct form."""
    if column.dictionary is None:
        return column
    offsets = column.dictionary.offsets
    lengths = np.diff(offsets)
    return Column(
        kind=column.kind,
        slots=column.slots,
        present=column.present,
        lengths=lengths[column.values],
        data=gather_bytes(column.dictionary.data, offsets[:-1], lengths, column.values),
    )


def canonical(column: Column) -> Column:
    """Return a string column whose dictionary, if it keeps one, is as Java's writer produces it.

    That is: only used entries, each once, in ascending byte order.
    """
    if column.dictionary is None:
        return column
    dictionary, values = column.dictionary, column.values
    used = np.zeros(dictionary.entries, dtype=np.bool_)
    used[values] = True
    if np.count_nonzero(used) > KEY_THRESHOLD * len(values):
        return as_direct(column)
    if not used.all() or not is_ascending(dictionary.offsets, dictionary.data):
        starts, lengths = dictionary.offsets[:-1][used], np.diff(dictionary.offsets)[used]
        ranks, firsts = rank_strings(starts, lengths, dictionary.data)
        new_numbers = np.zeros(dictionary.entries, dtype=np.int64)
        new_numbers[used] = ranks
        data = gather_bytes(dictionary.data, starts, lengths, firsts)
        dictionary, values = Dictionary.of(data, lengths[firsts]), new_numbers[values]
    return Column(kind=column.kind, slots=column.slots, present=column.present, values=values, dictionary=dictionary)
