"""Row keys in the order of ACID files, and the id columns of a stripe, which hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acidlib.acid.write_ids import ListUse, ValidWriteIdList
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import KeyRange, RowKey, decode_bucket, encode_bucket
from acidlib.orc.columns import Longs, Mask
from acidlib.orc.kernels.jit import kernel
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.reader import StripeReader
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.rows.files import IdRanges, OpenInput, id_ranges

Indices = NDArray[np.int32] | Longs


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of n rows: three int64 arrays of length n, compared in this order of the arrays (OrcRawRecordMerger)."""

    write_ids: Longs
    buckets: Longs
    row_ids: Longs

    @property
    def arrays(self) -> tuple[Longs, Longs, Longs]:
        """The three arrays, in their order."""
        return self.write_ids, self.buckets, self.row_ids

    def __len__(self) -> int:
        return len(self.write_ids)

    def key(self, index: int) -> RowKey:
        """Return one key; negative indices count from the end."""
        return int(self.write_ids[index]), int(self.buckets[index]), int(self.row_ids[index])

    def select(self, chosen: Mask | Indices | slice) -> Keys:
        """Return the keys at a mask, index array or slice."""
        if isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_:
            keep = chosen.astype(np.bool_, copy=False)
            return Keys(*(filter_values(array, keep) for array in self.arrays))
        return Keys(*(array[chosen] for array in self.arrays))

    def ascending(self) -> bool:
        """Return whether the keys ascend strictly."""
        return bool(_ascending(*self.arrays))

    def differ_from_before(self) -> Mask:
        """Return for each key but the first whether it differs from its predecessor."""
        write_ids, buckets, row_ids = self.arrays
        differ: Mask = (write_ids[1:] != write_ids[:-1]) | (buckets[1:] != buckets[:-1]) | (row_ids[1:] != row_ids[:-1])
        return differ

    def equals(self, other: Keys) -> bool:
        """Return whether both are the same keys in the same order."""
        return all(map(np.array_equal, self.arrays, other.arrays))

    def matches(self, sought: Keys) -> Mask:
        """Return for each of these rows whether it is in `sought`; both must ascend strictly."""
        is_match = np.zeros(len(self), dtype=np.bool_)
        if len(self) and len(sought):
            _match(*self.arrays, *sought.arrays, is_match)
        return is_match

    def between(self, low: RowKey, high: RowKey) -> Keys:
        """Return the keys in [low, high]; these keys must ascend."""
        return self.select(self.span(low, high))

    def span(self, low: RowKey, high: RowKey) -> slice:
        """Return where the keys in [low, high] are; these keys must ascend."""
        start = int(_lower_bound(*self.arrays, *low))
        end = len(self)
        if high[2] < (1 << 63) - 1:
            end = int(_lower_bound(*self.arrays, high[0], high[1], high[2] + 1))
        return slice(start, max(start, end))

    def bounds(self) -> KeyRange:
        """Return a range that holds all keys: the first and the last one, or, where they do not ascend, a wider one."""
        if self.ascending():
            return self.key(0), self.key(-1)
        least, most = ([int(limit(array)) for array in self.arrays] for limit in (np.min, np.max))
        return (least[0], least[1], least[2]), (most[0], most[1], most[2])

    @staticmethod
    def empty() -> Keys:
        """Return no keys."""
        none = np.zeros(0, dtype=np.int64)
        return Keys(none, none, none)

    @staticmethod
    def sequence(write_id: int, bucket: int, first_row: int, rows: int) -> Keys:
        """Return the synthetic keys of rows without ACID columns: one write id and bucket, consecutive row ids."""
        return Keys(
            np.full(rows, write_id, dtype=np.int64),
            np.full(rows, bucket, dtype=np.int64),
            np.arange(first_row, first_row + rows, dtype=np.int64),
        )


@kernel
def _compare(aw: int, ab: int, ar: int, bw: int, bb: int, br: int) -> int:  # pragma: no cover - compiled
    if aw != bw:
        return -1 if aw < bw else 1
    if ab != bb:
        return -1 if ab < bb else 1
    if ar != br:
        return -1 if ar < br else 1
    return 0


@kernel
def _ascending(w: Longs, b: Longs, r: Longs) -> bool:  # pragma: no cover - compiled
    for i in range(1, len(w)):  # noqa: SIM110 - numba has no all() over a generator
        if _compare(w[i - 1], b[i - 1], r[i - 1], w[i], b[i], r[i]) >= 0:
            return False
    return True


@kernel
def _lower_bound(w: Longs, b: Longs, r: Longs, kw: int, kb: int, kr: int) -> int:  # pragma: no cover - compiled
    low, high = 0, len(w)
    while low < high:
        middle = (low + high) // 2
        if _compare(w[middle], b[middle], r[middle], kw, kb, kr) < 0:
            low = middle + 1
        else:
            high = middle
    return low


def event_order(keys: Keys, current: Longs) -> Indices:
    """Return the indices of delete events by key, then by currentTransaction from the latest; equal events stay.

    Events come in a few ascending runs, one for each file. Merging these costs little time and memory.
    """
    narrow = len(keys) < 1 << 31
    source: Indices = np.arange(len(keys), dtype=np.int32) if narrow else np.arange(len(keys), dtype=np.int64)
    return _merge_order(*keys.arrays, current, source, np.empty_like(source))


@kernel
def gather(values: Longs, order: Indices) -> Longs:  # pragma: no cover - compiled
    """Return the values in an order of indices, which must lie inside; numpy would widen the indices first."""
    out = np.empty(len(order), np.int64)
    for i in range(len(order)):
        out[i] = values[order[i]]
    return out


@kernel
def _merge_order(
    w: Longs, b: Longs, r: Longs, c: Longs, source: Indices, target: Indices
) -> Indices:  # pragma: no cover - compiled
    """Merge neighbouring runs from one array into the other until a single run is left; return the array with it."""
    n = len(w)
    runs = 1
    for i in range(1, n):
        runs += int(_follows(w, b, r, c, i - 1, i))
    edges = np.empty(runs + 1, np.int64)
    edges[0] = 0
    runs = 1
    for i in range(1, n):
        if _follows(w, b, r, c, i - 1, i):
            edges[runs] = i
            runs += 1
    edges[runs] = n
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            left, middle = edges[run], edges[run + 1]
            right, end = middle, edges[min(run + 2, runs)]
            for out in range(left, end):
                if left < middle and (right == end or not _follows(w, b, r, c, source[left], source[right])):
                    target[out] = source[left]
                    left += 1
                else:
                    target[out] = source[right]
                    right += 1
            edges[merged] = edges[run]
            merged += 1
        edges[merged] = n
        runs = merged
        source, target = target, source
    return source


@kernel
def _follows(w: Longs, b: Longs, r: Longs, c: Longs, i: int, j: int) -> bool:  # pragma: no cover - compiled
    """Return whether event i has to stand behind event j."""
    order = _compare(w[i], b[i], r[i], w[j], b[j], r[j])
    return order > 0 or (order == 0 and c[i] < c[j])


@kernel
def _match(
    w: Longs, b: Longs, r: Longs, sw: Longs, sb: Longs, sr: Longs, is_match: Mask
) -> None:  # pragma: no cover - compiled
    """Flag the keys that are among the sought ones, by galloping search: cost follows the smaller of the two sets."""
    i, n = 0, len(w)
    for j in range(len(sw)):
        step = 1
        while i + step < n and _compare(w[i + step], b[i + step], r[i + step], sw[j], sb[j], sr[j]) < 0:
            i += step
            step *= 2
        high = min(i + step + 1, n)
        while i < high:
            middle = (i + high) // 2
            if _compare(w[middle], b[middle], r[middle], sw[j], sb[j], sr[j]) < 0:
                i = middle + 1
            else:
                high = middle
        if i >= n:
            return
        if _compare(w[i], b[i], r[i], sw[j], sb[j], sr[j]) == 0:
            is_match[i] = True


Ids = tuple[Keys, Longs]
"""Keys and currentTransaction of rows."""

ID_BYTES = 48
"""Bytes of memory of the id columns of a row, with its masks."""

OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT = 1, 2, 3, 4, 5
INSERT, DELETE = 0, 2


class StripeKeys:
    """The keys of a stripe: bounds without decoding where true statistics have them, and the decoded id columns."""

    def __init__(self, file: OpenInput, number: int) -> None:
        self.file = file
        self.number = number
        self.rows = file.tail.stripes[number].rows
        self.where = f"stripe {number} of {file.tail.name}"
        self._ids: Ids | None = None
        # known once the id columns have been decoded: the first and the last key, and the range of currentTransaction
        self._decoded: tuple[KeyRange, tuple[int, int]] | None = None
        self._decoded_range: KeyRange | None = None
        self._rows_proved = False
        # the ranges of the id columns, by true statistics
        self._ranges: IdRanges | None = None
        if file.ranges_true and stripe_statistics_are_true(file.tail, number):
            self._ranges = id_ranges(file.tail.stripe_statistics[number])

    @property
    def _holds_deletes(self) -> bool:
        return self.file.file.directory.startswith("delete_delta_")

    @property
    def statistics_true(self) -> bool:
        """Whether the stripe's statistics may be believed."""
        return self._ranges is not None

    def ids(self) -> Ids:
        """Return the keys and currentTransaction of the rows; decoded at the first call. `forget` drops them."""
        if self._ids is None:
            keys, current = self._ids = self._decode() if self.file.acid else self._synthetic()
            self._decoded = (keys.key(0), keys.key(-1)), (int(current.min()), int(current.max()))
            if self._ranges is None and self._decoded_range is None:
                self._decoded_range = keys.bounds()
        return self._ids

    def forget(self) -> None:
        """Free the decoded columns."""
        self._ids = None

    def _bounds(self, *, keep: bool) -> tuple[KeyRange, tuple[int, int]]:
        """Return the first and the last key, and the range of currentTransaction.

        keep  whether id columns that are decoded for this stay decoded
        """
        if not self.file.acid:
            write_id, bucket, first = self._first_synthetic()
            return ((write_id, bucket, first), (write_id, bucket, first + self.rows - 1)), (write_id, write_id)
        if self._decoded is None:
            self.ids()
            if not keep:
                self.forget()
        assert self._decoded is not None
        return self._decoded

    def _first_synthetic(self) -> RowKey:
        file = self.file.file
        first_row = file.first_row + self.file.rows_before[self.number]
        return file.write_id, encode_bucket(file.bucket, file.statement_id), first_row

    def _synthetic(self) -> Ids:
        if not self._rows_proved:
            reader = self.file.stripe(self.number)
            reader.prove_rows()
            reader.require_memory(ID_BYTES)
            self._rows_proved = True
        keys = Keys.sequence(*self._first_synthetic(), self.rows)
        return keys, keys.write_ids

    def _decode(self) -> Ids:
        reader = self.file.stripe(self.number)
        reader.require_memory(ID_BYTES)
        columns = range(OPERATION, CURRENT + 1)
        operations, write_ids, buckets, row_ids, current = (self._id_column(reader, column) for column in columns)
        self._check_operations(int(operations.min()), int(operations.max()))
        return Keys(write_ids, buckets, row_ids), current

    def _id_column(self, reader: StripeReader, column: int) -> Longs:
        decoded = reader.column(self.file.tail.root.children[column - 1], self.rows)
        if decoded.present is not None or decoded.values is None:
            raise CorruptError(f"Cannot read column {column} in {self.where}: an id column has nulls")
        return decoded.values

    def _check_operations(self, low: int, high: int) -> None:
        expected = DELETE if self._holds_deletes else INSERT
        if self.rows and (low != expected or high != expected):
            raise RefusedError(
                f"Cannot read {self.where}: it holds events of operation {low} to {high} where only "
                f"{expected} belongs; tables written before split update are not supported"
            )

    def check(self) -> None:
        """Raise RefusedError or CorruptError for operations or buckets that do not belong in this file.

        RefusedError also for keys that are known not to ascend, by true statistics or as they are decoded.
        """
        if self._ranges is not None:
            self.check_operations()
        else:
            self.ids()
        if not self._holds_deletes:
            if self._has_too_few_ids() or (self._ids is not None and not self._ids[0].ascending()):
                raise self.not_ascending()
            others = self.buckets() - {self.file.file.bucket}
            if others:
                raise CorruptError(
                    f"Cannot compact {self.where}: it holds rows of bucket {min(others)}, not only of "
                    f"{self.file.file.bucket} as its name says. Hive shows such rows whatever deletes them, and cannot "
                    "compact them either; INSERT OVERWRITE of the table, or partition, with a SELECT of all its rows "
                    "writes those that Hive shows anew, with new row ids"
                )

    def _has_too_few_ids(self) -> bool:
        """Return whether true statistics tell that rows share their ids: one write id and bucket, and more rows."""
        if self._ranges is None:
            return False
        write_ids, buckets, row_ids = self._ranges[WRITE_ID - 1 : ROW_ID]
        return write_ids[0] == write_ids[1] and buckets[0] == buckets[1] and self.rows > row_ids[1] - row_ids[0] + 1

    def not_ascending(self) -> RefusedError:
        """Return the error for keys that do not ascend, as of rows that share an id."""
        return RefusedError(
            f"Cannot read {self.where}: its keys do not ascend; INSERT OVERWRITE in Hive writes the table or "
            "partition anew"
        )

    def check_operations(self) -> None:
        """Raise RefusedError for operations that do not belong in this file."""
        if self._ranges is not None:
            self._check_operations(*self._ranges[OPERATION - 1])
        elif self._decoded is None:
            operations = self._id_column(self.file.stripe(self.number), OPERATION)
            self._check_operations(int(operations.min()), int(operations.max()))

    def buckets(self) -> frozenset[int]:
        """Return the buckets that the keys decode to, exactly."""
        if self._ranges is not None:
            low, high = self._ranges[BUCKET - 1]
            # between properties of two codec versions, or of two plain buckets, lie those of others
            if low == high or (low >> 29 and low >> 16 == high >> 16):
                return frozenset({self._bucket(low)})
        properties = self.ids()[0].buckets
        if properties.min() == properties.max():
            return frozenset({self._bucket(int(properties[0]))})
        return frozenset(self._bucket(int(value)) for value in np.unique(properties))

    def _bucket(self, value: int) -> int:
        try:
            return decode_bucket(value)[0]
        except CorruptError as error:
            raise CorruptError(f"Cannot read {self.where}: {error}") from None

    def known_range(self) -> KeyRange | None:
        """Return bounds made of the least and the greatest parts of all keys; None without true statistics."""
        if self._ranges is None:
            return None
        write_ids, buckets, row_ids = self._ranges[WRITE_ID - 1 : ROW_ID]
        return (write_ids[0], buckets[0], row_ids[0]), (write_ids[1], buckets[1], row_ids[1])

    def key_range(self, *, keep: bool = True) -> KeyRange:
        """Return a range that holds all keys of the stripe, in any order; without true statistics they are decoded.

        keep  as for `_bounds`
        """
        known = self.known_range()
        if known is not None:
            return known
        ends = self._bounds(keep=keep)[0]
        return self._decoded_range or ends

    def first_key(self) -> RowKey:
        """Return the key of the stripe's first row."""
        return self._bounds(keep=False)[0][0]

    def current_range(self) -> tuple[int, int]:
        """Return the lowest and highest currentTransaction."""
        if self._ranges is not None:
            return self._ranges[CURRENT - 1]
        return self._bounds(keep=True)[1]

    def last_key(self) -> RowKey:
        """Return the key of the stripe's last row: decoded before, or of the file's key index, or decoded now.

        A key-index entry counts where the file has one for each stripe and it agrees with true statistics.
        """
        entries = self.file.key_index
        if self._decoded is None and self._ranges is not None and entries is not None:
            entry = entries[self.number]
            bounds = self._ranges[WRITE_ID - 1 : ROW_ID]
            if all(low <= part <= high for part, (low, high) in zip(entry, bounds, strict=True)):
                return entry
        return self._bounds(keep=False)[0][1]


def invalid_rows(stripe: StripeKeys, write_ids: ValidWriteIdList) -> Mask | None:
    """Return for each row whether its write id is not valid: open, aborted or above the mark; None where no row's is.

    Raises CorruptError, for a compactor's list, for a row above the mark: such a directory is no input.
    """
    if write_ids.everything_valid:
        return None
    low, high = stripe.current_range()
    above = high > write_ids.high_water_mark
    if above and write_ids.use is ListUse.COMPACTOR:
        raise CorruptError(
            f"Cannot compact {stripe.where}: it holds write id {high}, above the high-water mark "
            f"{write_ids.high_water_mark}"
        )
    suspects = write_ids.exceptions(low, high)
    if not suspects and not above:
        return None
    current = stripe.ids()[1]
    mask: Mask = np.isin(current, np.array(suspects, dtype=np.int64))
    if above:
        mask |= current > write_ids.high_water_mark
    return mask if mask.any() else None


def row_masks(stripe: StripeKeys, deleted: Keys, write_ids: ValidWriteIdList) -> tuple[Mask | None, Mask | None]:
    """Return two flags for each row, whether it is deleted and whether its write id is not valid; None where no row is.

    A row that is both counts for the second alone. RefusedError for keys that do not ascend, if they are searched.
    """
    invalid = invalid_rows(stripe, write_ids)
    near = deleted.between(*stripe.key_range()) if len(deleted) else deleted
    if not len(near):
        return None, invalid
    keys, _ = stripe.ids()
    if not keys.ascending():
        raise stripe.not_ascending()
    deleted_rows = keys.matches(near)
    if invalid is not None:
        deleted_rows &= ~invalid
    return (deleted_rows if deleted_rows.any() else None), invalid


def kept_mask(deleted: Mask | None, invalid: Mask | None) -> Mask | None:
    """Return for each row whether it stays, by the masks of `row_masks`; None where all do."""
    dropped = [mask for mask in (deleted, invalid) if mask is not None]
    return ~np.logical_or.reduce(dropped) if dropped else None
