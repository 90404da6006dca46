"""The delete events of one bucket: read from wherever they lie, routed by the bucket in their key, sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from acidlib.errors import CorruptError
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.model.units import DataFile, KeyRange
from acidlib.orc.columns import Longs
from acidlib.orc.kernels.vectors import filter_values
from acidlib.rewrite.inputs import InputFiles, OpenInput, OpenInputs, open_inputs
from acidlib.rewrite.keys import Keys, StripeKeys, aborted_rows, event_order, gather


def event_buckets(file: DataFile, place: InputFiles) -> frozenset[int]:
    """The buckets that the events of one delete file belong to."""
    with open_inputs((file,), place) as inputs:
        found: set[int] = set()
        for opened in inputs.files:
            for stripe in _stripes_with_rows(opened):
                found |= stripe.buckets()
        return frozenset(found)


def key_range(file: OpenInput) -> KeyRange | None:
    """Bounds of the keys of a delete file's events, or None without true statistics of them."""
    low, high = None, None
    for stripe in _stripes_with_rows(file):
        found = stripe.known_range()
        if found is None:
            return None
        low = found[0] if low is None else min(low, found[0])
        high = found[1] if high is None else max(high, found[1])
    return None if low is None or high is None else (low, high)


def _stripes_with_rows(file: OpenInput) -> Iterator[StripeKeys]:
    return (StripeKeys(file, number) for number, stripe in enumerate(file.tail.stripes) if stripe.rows)


def overlaps(found: KeyRange | None, others: Iterable[KeyRange]) -> bool:
    """Whether keys within the one range may be in one of the others; where it is not known, they may."""
    return found is None or any(found[0] <= high and low <= found[1] for low, high in others)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeleteEvents:
    """Committed delete events of one bucket, ascending by key, then currentTransaction descending.

    events_in   events of this bucket that were read
    aborted     of these, events of aborted write ids, left out
    duplicates  of these, events whose five parts repeat another's, left out
    """

    keys: Keys
    current: Longs
    events_in: int
    aborted: int
    duplicates: int
    empty_files: tuple[str, ...]

    def deleted_keys(self) -> Keys:
        """Each deleted row once, strictly ascending."""
        if len(self.keys) < 2:
            return self.keys
        first = np.concatenate(([True], self.keys.differ_from_before()))
        return self.keys if first.all() else self.keys.select(first)


def read_deletes(
    inputs: OpenInputs, bucket: int, write_ids: ValidWriteIdList, near: Sequence[KeyRange] | None = None
) -> DeleteEvents:
    """All delete events of a bucket; with `near` at least those whose keys are in one of these ranges.

    Unbucketed tables of Hive 3.1 may keep them in a file of any number, so every file that may hold some is read and
    the bucket is decoded from each key (Hive BucketCodec).
    """
    stripes = [
        stripe
        for file in inputs.files
        for stripe in _stripes_with_rows(file)
        if near is None or overlaps(stripe.known_range(), near)
    ]
    try:
        events = _Events(bucket, sum(stripe.rows for stripe in stripes))
    except MemoryError:
        largest = max(inputs.files, key=lambda file: file.tail.rows)
        raise CorruptError(
            f"Cannot compact {largest.tail.name}: because its {largest.tail.rows} delete events do not fit in memory"
        ) from None
    for stripe in stripes:
        if bucket in stripe.buckets():
            events.add(stripe, write_ids)
        stripe.forget()
    keys, current = events.sorted()
    fresh = np.ones(len(keys), dtype=np.bool_)
    fresh[1:] = keys.differ_from_before() | (current[1:] != current[:-1])
    duplicates = int(np.count_nonzero(~fresh))
    if duplicates:
        keys, current = keys.select(fresh), current[fresh]
    return DeleteEvents(
        keys=keys,
        current=current,
        events_in=events.read,
        aborted=events.aborted,
        duplicates=duplicates,
        empty_files=inputs.empty,
    )


class _Events:
    """The four columns of the events, gathered in arrays of their own from the start and sorted one by one.

    So ten million events need little more memory than they are: 32 bytes each.
    """

    def __init__(self, bucket: int, most: int) -> None:
        self._bucket = bucket
        self._columns = [np.empty(most, dtype=np.int64) for _ in range(4)]
        self._count = 0
        self.read = 0
        self.aborted = 0

    def add(self, stripe: StripeKeys, write_ids: ValidWriteIdList) -> None:
        """Append the committed events of the bucket that a stripe holds."""
        ids = stripe.ids()
        try:
            properties = ids.keys.buckets
            if properties.min() == properties.max():
                chosen = np.full(len(properties), bool(bucket_numbers(properties[:1])[0] == self._bucket))
            else:
                chosen = bucket_numbers(properties) == self._bucket
        except CorruptError as error:
            raise CorruptError(f"Cannot compact {stripe.where}: {error}") from None
        aborted = aborted_rows(stripe, write_ids)
        self.read += int(np.count_nonzero(chosen))
        if aborted is not None:
            self.aborted += int(np.count_nonzero(chosen & aborted))
            chosen &= ~aborted
        start = self._count
        self._count += int(np.count_nonzero(chosen))
        everything = self._count - start == len(chosen)
        arrays = (ids.keys.write_ids, ids.keys.buckets, ids.keys.row_ids, ids.current)
        for column, array in zip(self._columns, arrays, strict=True):
            column[start : self._count] = array if everything else filter_values(array, chosen)

    def sorted(self) -> tuple[Keys, Longs]:
        """Keys and currentTransaction in order. Nothing may be added any more."""
        columns = [column[: self._count] for column in self._columns]
        self._columns = []
        keys = Keys(*columns[:3])
        if not keys.ascending():
            order = event_order(keys, columns[3])
            del keys
            for position in range(len(columns)):
                columns[position] = gather(columns[position], order)
        return Keys(*columns[:3]), columns[3]


def bucket_numbers(properties: Longs) -> Longs:
    """The bucket of each property (Hive BucketCodec); CorruptError for a codec version other than 0 and 1."""
    version = properties >> 29
    if len(properties) and not bool(((version == 0) | (version == 1)).all()):
        value = int(properties[(version != 0) & (version != 1)][0])
        raise CorruptError(f"Cannot decode bucket property {value}: because its codec version is neither 0 nor 1")
    return np.where(version == 0, properties, properties >> 16 & 0xFFF)
