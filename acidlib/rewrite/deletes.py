"""The delete events of one bucket: read from wherever they lie, routed by the bucket in their key, sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from acidlib.errors import CorruptError
from acidlib.model.units import DataFile
from acidlib.model.writeids import ValidWriteIdList
from acidlib.orc.column import Longs, Mask
from acidlib.orc.source import DataFiles
from acidlib.rewrite.inputs import OpenInput, StripeKeys, aborted_rows, open_inputs
from acidlib.rewrite.keys import Keys


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
        keys = self.keys
        first = np.ones(len(keys), dtype=np.bool_)
        first[1:] = (
            (keys.write_ids[1:] != keys.write_ids[:-1])
            | (keys.buckets[1:] != keys.buckets[:-1])
            | (keys.row_ids[1:] != keys.row_ids[:-1])
        )
        return keys if first.all() else keys.select(first)


def read_deletes(
    files: tuple[DataFile, ...], bucket: int, write_ids: ValidWriteIdList, data: DataFiles
) -> DeleteEvents:
    """All delete events of a bucket.

    Unbucketed tables of Hive 3.1 may keep them in a file of any number, so every file that may hold some is read and
    the bucket is decoded from each key (Hive BucketCodec).
    """
    parts: list[tuple[Keys, Longs]] = []
    events_in = aborted = 0
    with open_inputs(files, data) as inputs:
        for file in inputs.files:
            for stripe in _stripes_with_rows(file):
                if bucket not in stripe.buckets():
                    continue
                ids = stripe.ids()
                mine = bucket_numbers(ids.keys.buckets) == bucket
                gone = aborted_rows(stripe, write_ids)
                events_in += int(np.count_nonzero(mine))
                if gone is not None:
                    aborted += int(np.count_nonzero(mine & gone))
                    mine &= ~gone
                parts.append((ids.keys.select(mine), ids.current[mine]))
                stripe.forget()
        empty = inputs.empty
    keys, current = _sorted(parts)
    fresh = _first_of_equal(keys, current)
    duplicates = int(np.count_nonzero(~fresh))
    if duplicates:
        keys, current = keys.select(fresh), current[fresh]
    return DeleteEvents(
        keys=keys, current=current, events_in=events_in, aborted=aborted, duplicates=duplicates, empty_files=empty
    )


def bucket_numbers(properties: Longs) -> Longs:
    """The bucket of each property (Hive BucketCodec); CorruptError for a codec version other than 0 and 1."""
    version = properties >> 29
    if len(properties) and not bool(((version == 0) | (version == 1)).all()):
        value = int(properties[(version != 0) & (version != 1)][0])
        raise CorruptError(f"Cannot decode bucket property {value}: because its codec version is neither 0 nor 1")
    return np.where(version == 0, properties, properties >> 16 & 0xFFF)


def _sorted(parts: list[tuple[Keys, Longs]]) -> tuple[Keys, Longs]:
    if not parts:
        return Keys.empty(), np.zeros(0, dtype=np.int64)
    keys = Keys(
        np.concatenate([part.write_ids for part, _ in parts]),
        np.concatenate([part.buckets for part, _ in parts]),
        np.concatenate([part.row_ids for part, _ in parts]),
    )
    current = np.concatenate([part for _, part in parts])
    if not keys.ascending():
        order = np.lexsort((-current, keys.row_ids, keys.buckets, keys.write_ids))
        keys, current = keys.select(order), current[order]
    return keys, current


def _first_of_equal(keys: Keys, current: Longs) -> Mask:
    first = np.ones(len(keys), dtype=np.bool_)
    if len(keys) > 1:
        first[1:] = (
            (keys.write_ids[1:] != keys.write_ids[:-1])
            | (keys.buckets[1:] != keys.buckets[:-1])
            | (keys.row_ids[1:] != keys.row_ids[:-1])
            | (current[1:] != current[:-1])
        )
    return first


def event_buckets(file: DataFile, data: DataFiles) -> frozenset[int]:
    """The buckets that the events of one delete file belong to."""
    with open_inputs((file,), data) as inputs:
        found: set[int] = set()
        for opened in inputs.files:
            for stripe in _stripes_with_rows(opened):
                found |= stripe.buckets()
        return frozenset(found)


def _stripes_with_rows(file: OpenInput) -> Iterator[StripeKeys]:
    return (StripeKeys(file, number) for number, stripe in enumerate(file.tail.stripes) if stripe.rows)
