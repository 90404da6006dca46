"""The keys of deleted rows of a split, read from its delete files; those of small files are kept for later splits.

A place that was written to often has many small deltas and as many small delete deltas, and all splits need the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from cachetools import LRUCache

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError
from acidlib.location import Location
from acidlib.model.units import DataFile, KeyRange
from acidlib.rows.deletes import overlaps, read_deletes
from acidlib.rows.files import InputFiles, OpenInputs, open_inputs
from acidlib.rows.row_ids import Keys, StripeKeys, event_order, gather
from acidlib.scan.splits import Split

SMALL_BYTES = 1 << 20
"""Delete files of at most so many bytes are read as a whole, and kept."""

SMALL_EVENTS = 1 << 17
"""Delete events of such a file, at most."""

MAX_KEPT_BYTES = 48 << 20
"""Memory of the keys that are kept, also of files that are known to have none."""

_KEY_BYTES, _FILE_BYTES = 24, 1 << 10
"""Memory of a key, and of what else is kept of a file, about."""


class DeletedKeys:
    """Reads the keys of deleted rows for the splits of one task."""

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[Location, str, int], Keys] = LRUCache(
            MAX_KEPT_BYTES, lambda keys: _FILE_BYTES + _KEY_BYTES * len(keys)
        )

    def near(self, split: Split, files: InputFiles, ranges: Sequence[KeyRange]) -> Keys:
        """Return the keys of deleted rows of a split, at least those in some ranges, strictly ascending."""
        parts, large = [], []
        for file in split.deletes:
            keys = self._of(file, split, files)
            if keys is None:
                large.append(file)
            else:
                parts += _inside(keys, ranges)
        if large:
            parts.append(_read(tuple(large), split, files, ranges))
        return joined_keys(parts)

    def may_hold_keys(self, split: Split, files: InputFiles, ranges: Sequence[KeyRange]) -> bool:
        """Return whether keys of deleted rows may be in some ranges; of large files only statistics are read."""
        for file in split.deletes:
            keys = self._of(file, split, files)
            if keys is not None:
                if _inside(keys, ranges):
                    return True
            else:
                with open_inputs((file,), files) as inputs:
                    for opened in inputs.files:
                        stripes = (StripeKeys(opened, number) for number in range(len(opened.tail.stripes)))
                        if any(overlaps(stripe.known_range(), ranges) for stripe in stripes if stripe.rows):
                            return True
        return False

    def _of(self, file: DataFile, split: Split, files: InputFiles) -> Keys | None:
        """Return all keys of the split's bucket in a small file; None for a large one."""
        if file.length > SMALL_BYTES:
            return None
        key = split.location, file.path, split.file.bucket
        keys = self._kept.get(key)
        if keys is None:
            with open_inputs((file,), files) as inputs:
                if any(opened.tail.rows > SMALL_EVENTS for opened in inputs.files):
                    return None  # millions of neighbouring rows are a few KB
                keys = _deleted(inputs, (file,), split, files, None)
            self._kept[key] = keys
        return keys


def _read(listed: tuple[DataFile, ...], split: Split, files: InputFiles, ranges: Sequence[KeyRange]) -> Keys:
    with open_inputs(listed, files) as inputs:
        return _deleted(inputs, listed, split, files, ranges)


def _deleted(
    inputs: OpenInputs,
    listed: tuple[DataFile, ...],
    split: Split,
    files: InputFiles,
    ranges: Sequence[KeyRange] | None,
) -> Keys:
    events = read_deletes(inputs, split.file.bucket, split.write_ids, ranges)
    if events.others and split.reader is Generation.HIVE4:
        names = ", ".join(files.full_path(file) for file in listed)
        raise CorruptError(
            f"Cannot read {names}: it holds delete events of other buckets than {split.file.bucket}, as Hive 3.1 "
            "wrote them, and Hive 4 does not apply these; a major compaction by the rules of Hive 3 does"
        )
    return events.deleted_keys()


def _inside(keys: Keys, ranges: Iterable[KeyRange]) -> list[Keys]:
    """Return the part of ascending keys that spans some ranges, or nothing where no key lies between their ends."""
    bounds = list(ranges)
    if not len(keys) or not overlaps((keys.key(0), keys.key(-1)), bounds):
        return []
    inside = keys.between(min(low for low, _ in bounds), max(high for _, high in bounds))
    return [inside] if len(inside) else []


def joined_keys(parts: Sequence[Keys]) -> Keys:
    """Return strictly ascending keys as one, each key once."""
    if len(parts) < 2:
        return parts[0] if parts else Keys.empty()
    keys = Keys(*(np.concatenate(arrays) for arrays in zip(*(part.arrays for part in parts), strict=True)))
    if keys.ascending():
        return keys
    order = event_order(keys, np.zeros(len(keys), dtype=np.int64))
    keys = Keys(*(gather(array, order) for array in keys.arrays))
    first = np.concatenate(([True], keys.differ_from_before()))
    return keys if first.all() else keys.select(first)
