"""The delete events of one bucket: read from files that may hold them, routed by the bucket in their key, sorted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import CorruptError
from acidlib.model.units import DataFile, KeyRange
from acidlib.orc.columns import Longs, Mask
from acidlib.orc.kernels.vectors import filter_values
from acidlib.rows.files import InputFiles, OpenInput, OpenInputs, open_inputs
from acidlib.rows.row_ids import Keys, StripeKeys, event_order, gather, invalid_rows

_EVENT_BYTES = 40
"""Bytes of memory of an event: its four columns, and while they are put in order one of them again."""


def event_buckets(file: DataFile, files: InputFiles) -> frozenset[int]:
    """Return the buckets to which the events of a delete file belong."""
    with open_inputs((file,), files) as inputs:
        stripes = (stripe for opened in inputs.files for stripe in _stripes_with_rows(opened))
        return frozenset[int]().union(*(stripe.buckets() for stripe in stripes))


def _stripes_with_rows(file: OpenInput) -> list[StripeKeys]:
    return [StripeKeys(file, number) for number, stripe in enumerate(file.tail.stripes) if stripe.rows]


def overlaps(bounds: KeyRange | None, others: Iterable[KeyRange]) -> bool:
    """Return whether keys within the bounds may be in one of the other ranges; they may where bounds are unknown."""
    return bounds is None or any(bounds[0] <= high and low <= bounds[1] for low, high in others)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeleteEvents:
    """Delete events of one bucket and of valid write ids, ascending by key, then currentTransaction descending.

    events_in   number of events of this bucket that were read
    others      number of events of other buckets beside them
    aborted     of events_in, the events of aborted write ids, left out (for a reader, of those that are not valid)
    duplicates  of these, the events equal to another in all five id columns, left out
    ranges      of the keys of each file's events, of any bucket, by its path; None without true statistics
    """

    keys: Keys
    current: Longs
    events_in: int
    others: int
    aborted: int
    duplicates: int
    empty_files: tuple[str, ...]
    ranges: Mapping[str, KeyRange | None]

    def deleted_keys(self) -> Keys:
        """Return each deleted row once, strictly ascending."""
        if len(self.keys) < 2:
            return self.keys
        first = np.concatenate(([True], self.keys.differ_from_before()))
        return self.keys if first.all() else self.keys.select(first)


def read_deletes(
    inputs: OpenInputs, bucket: int, write_ids: ValidWriteIdList, near: Collection[KeyRange] | None = None
) -> DeleteEvents:
    """Read all delete events of a bucket; with `near` at least those whose keys are in one of its ranges.

    Unbucketed tables of Hive 3.1 may keep them in a file of any number, so every file that may hold some is read and
    the bucket is decoded from each key (Hive BucketCodec).
    """
    stripes: list[StripeKeys] = []
    by_file: dict[str, KeyRange | None] = {}
    for file in inputs.files:
        in_file = _stripes_with_rows(file)
        ranges = [stripe.known_range() for stripe in in_file]
        known = [bounds for bounds in ranges if bounds is not None]
        all_known = 0 < len(known) == len(ranges)
        by_file[file.file.path] = (min(low for low, _ in known), max(high for _, high in known)) if all_known else None
        pairs = zip(in_file, ranges, strict=True)
        stripes += [stripe for stripe, bounds in pairs if near is None or overlaps(bounds, near)]
    parts: list[tuple[Longs, ...]] = []
    count = events_in = others = aborted = 0
    for stripe in stripes:
        if bucket in stripe.buckets():
            chosen = _belong_to(bucket, stripe)
            in_stripe = int(np.count_nonzero(chosen))
            events_in, others = events_in + in_stripe, others + stripe.rows - in_stripe
            rolled_back = invalid_rows(stripe, write_ids)
            if rolled_back is not None:
                aborted += int(np.count_nonzero(chosen & rolled_back))
                chosen &= ~rolled_back
            keys, current = stripe.ids()
            if near is not None:
                chosen &= _may_be_in(keys, near)
            kept = int(np.count_nonzero(chosen))
            count += kept
            file = stripe.file
            file.source.memory.require(_EVENT_BYTES * count, f"the delete events of {file.tail.name}")
            arrays = (*keys.arrays, current)
            parts.append(arrays if kept == len(chosen) else tuple(filter_values(array, chosen) for array in arrays))
        else:
            others += stripe.rows
        stripe.forget()
    try:
        columns = _joined(parts)
    except MemoryError:
        largest = max(inputs.files, key=lambda file: file.tail.rows)
        raise CorruptError(
            f"Cannot read {largest.tail.name}: its {largest.tail.rows} delete events do not fit in memory"
        ) from None
    keys = Keys(*columns[:3])
    if not keys.ascending():
        order = event_order(keys, columns[3])
        del keys
        for position in range(4):
            columns[position] = gather(columns[position], order)
    keys, current = Keys(*columns[:3]), columns[3]
    distinct = np.ones(count, dtype=np.bool_)
    distinct[1:] = keys.differ_from_before() | (current[1:] != current[:-1])
    duplicates = int(np.count_nonzero(~distinct))
    return DeleteEvents(
        keys=keys.select(distinct) if duplicates else keys,
        current=current[distinct] if duplicates else current,
        events_in=events_in,
        others=others,
        aborted=aborted,
        duplicates=duplicates,
        empty_files=inputs.empty,
        ranges=by_file,
    )


def _joined(parts: list[tuple[Longs, ...]]) -> list[Longs]:
    """Return the four columns of some events as one array each; the parts are dropped as they are joined."""
    if len(parts) == 1:
        return list(parts.pop())
    by_column = [[part[position] for part in parts] for position in range(4)]
    parts.clear()
    columns = []
    while by_column:  # one after the other: both forms of all four would take twice the memory
        columns.append(np.concatenate([np.zeros(0, dtype=np.int64), *by_column.pop(0)]))
    return columns


def _may_be_in(keys: Keys, ranges: Collection[KeyRange]) -> Mask:
    """Return a mask of the keys that are in one of some ranges; with others, where keys do not ascend."""
    if not keys.ascending():
        return np.ones(len(keys), dtype=np.bool_)
    near = np.zeros(len(keys), dtype=np.bool_)
    for low, high in ranges:
        near[keys.span(low, high)] = True
    return near


def _belong_to(bucket: int, stripe: StripeKeys) -> Mask:
    """Return for each event of a stripe whether it belongs to the bucket."""
    properties = stripe.ids()[0].buckets
    try:
        if properties.min() == properties.max():
            return np.full(len(properties), bool(bucket_numbers(properties[:1])[0] == bucket))
        chosen: Mask = bucket_numbers(properties) == bucket
    except CorruptError as error:
        raise CorruptError(f"Cannot read {stripe.where}: {error}") from None
    return chosen


def bucket_numbers(properties: Longs) -> Longs:
    """Return the bucket of each property (Hive BucketCodec); CorruptError for a codec version other than 0 and 1."""
    version = properties >> 29
    if len(properties) and not bool(((version == 0) | (version == 1)).all()):
        value = int(properties[(version != 0) & (version != 1)][0])
        raise CorruptError(f"Cannot decode bucket property {value}: its codec version is neither 0 nor 1")
    return np.where(version == 0, properties, properties >> 16 & 0xFFF)
