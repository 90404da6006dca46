"""Filtering, joining and reordering columns, whose values are not interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.orc.column import NO_BYTES, NO_VALUES, STRING_KINDS, Column, Dictionary, Longs, Mask
from acidlib.orc.kernels.vectors import expand_keep, filter_bytes, filter_values, gather_bytes
from acidlib.orc.proto import Kind


def filter_column(column: Column, keep: Mask) -> Column:
    """The slots whose entry in `keep` (bool per slot) is true, in order, with all below them."""
    present = column.present
    if present is None:
        kept_values, kept_present = keep, None
    else:
        kept_values, kept_present = filter_values(keep, present), filter_values(present, keep)
        if kept_present.all():
            kept_present = None
    slots = int(np.count_nonzero(keep))
    out = Column(kind=column.kind, slots=slots, present=kept_present, dictionary=column.dictionary)
    out.values = _take(column.values, kept_values)
    out.high = None if column.high is None else _take(column.high, kept_values)
    out.secondary = _take(column.secondary, kept_values)
    out.lengths = _take(column.lengths, kept_values)
    if len(column.data):
        out.data = filter_bytes(column.data, column.lengths, kept_values)
    out.children = tuple(
        filter_column(child, child_keep)
        for child, child_keep in zip(column.children, _child_masks(column, kept_values), strict=True)
    )
    return out


def _child_masks(column: Column, keep: Mask) -> list[Mask]:
    if column.kind in (Kind.LIST, Kind.MAP):
        elements = expand_keep(keep, column.lengths)
        return [elements] * len(column.children)
    if column.kind is Kind.UNION:
        return [keep[column.values == tag] for tag in range(len(column.children))]
    return [keep] * len(column.children)


def _take(array: NDArray[Any], keep: Mask) -> NDArray[Any]:
    return filter_values(array, keep) if len(array) else array


def reorder_column(column: Column, order: Longs) -> Column:
    """The slots that `order` names, in that order, with all below them; a slot may be named once or never."""
    present = column.present
    if present is None:
        chosen, chosen_present = order, None
    else:
        chosen_present = present[order]
        chosen = (np.cumsum(present, dtype=np.int64) - 1)[order[chosen_present]]
        if chosen_present.all():
            chosen_present = None
    out = Column(kind=column.kind, slots=len(order), present=chosen_present, dictionary=column.dictionary)
    out.values = _gather(column.values, chosen)
    out.high = None if column.high is None else _gather(column.high, chosen)
    out.secondary = _gather(column.secondary, chosen)
    out.lengths = _gather(column.lengths, chosen)
    if len(column.data):
        out.data = gather_bytes(column.data, _starts(column.lengths), column.lengths, chosen)
    out.children = tuple(
        reorder_column(child, child_order)
        for child, child_order in zip(column.children, _child_orders(column, chosen), strict=True)
    )
    return out


def _child_orders(column: Column, chosen: Longs) -> list[Longs]:
    if column.kind in (Kind.LIST, Kind.MAP):
        lengths = column.lengths[chosen]
        # each element's place in its own list, added to where that list starts
        within = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(_starts(lengths), lengths)
        return [np.repeat(_starts(column.lengths)[chosen], lengths) + within] * len(column.children)
    if column.kind is Kind.UNION:
        orders = []
        for tag in range(len(column.children)):
            is_mine = column.values == tag
            orders.append((np.cumsum(is_mine, dtype=np.int64) - 1)[chosen[is_mine[chosen]]])
        return orders
    return [chosen] * len(column.children)


def _starts(lengths: Longs) -> Longs:
    starts = np.zeros(len(lengths), dtype=np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    return starts


def _gather(array: NDArray[Any], chosen: Longs) -> NDArray[Any]:
    return array[chosen] if len(array) else array


def concat_columns(columns: Sequence[Column]) -> Column:
    """The slots of several columns of one type, one after the other."""
    columns = [column for column in columns if column.slots] or list(columns[:1])
    if len(columns) == 1:
        return columns[0]
    kind = columns[0].kind
    out = Column(kind=kind, slots=sum(column.slots for column in columns), present=_join_present(columns))
    if kind in STRING_KINDS:
        _join_strings(columns, out)
    else:
        out.values = _join([column.values for column in columns])
        out.lengths = _join([column.lengths for column in columns])
        out.data = _join([column.data for column in columns])
    out.secondary = _join([column.secondary for column in columns])
    if any(column.high is not None for column in columns):
        out.high = np.concatenate([_high(column) for column in columns])
    children = zip(*(column.children for column in columns), strict=True)
    out.children = tuple(concat_columns(parts) for parts in children)
    return out


def _high(column: Column) -> Longs:
    return column.high if column.high is not None else column.values >> 63


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    found = [array for array in arrays if len(array)] or arrays[:1]
    return np.concatenate(found)


def _join_present(columns: Sequence[Column]) -> Mask | None:
    if all(column.present is None for column in columns):
        return None
    return np.concatenate([np.ones(c.slots, dtype=np.bool_) if c.present is None else c.present for c in columns])


def _join_strings(columns: Sequence[Column], out: Column) -> None:
    # a column without any value says nothing about the form
    valued = [column for column in columns if column.count]
    dictionaries = [column.dictionary for column in valued if column.dictionary is not None]
    if dictionaries and len(dictionaries) == len(valued):
        offsets, data, values, entries, size = [np.zeros(1, dtype=np.int64)], [], [], 0, 0
        for column, dictionary in zip(valued, dictionaries, strict=True):
            offsets.append(dictionary.offsets[1:] + size)
            data.append(dictionary.data)
            values.append(column.values + entries)
            entries += dictionary.entries
            size += len(dictionary.data)
        out.dictionary = Dictionary(offsets=np.concatenate(offsets), data=np.concatenate(data))
        out.values = np.concatenate(values)
        return
    direct = [as_direct(column) for column in valued]
    out.lengths = _join([column.lengths for column in direct]) if direct else NO_VALUES
    out.data = _join([column.data for column in direct]) if direct else NO_BYTES


def as_direct(column: Column) -> Column:
    """A string column in direct form."""
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
