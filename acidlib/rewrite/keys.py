"""Row keys in the order of ACID files, and the id columns of a stripe that they come from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.model.units import Key, KeyRange, decode_bucket, encode_bucket
from acidlib.orc.columns import Longs, Mask
from acidlib.orc.kernels.jit import kernel
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.rewrite.inputs import IdRanges, OpenInput, id_ranges

Indices = NDArray[np.int32] | Longs


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of n rows: three int64 arrays of length n, ordered in this order of them (Hive OrcRawRecordMerger)."""

    write_ids: Longs
    buckets: Longs
    row_ids: Longs

    def __len__(self) -> int:
        return len(self.write_ids)

    def key(self, index: int) -> Key:
        """Return one key; negative indices count from the end."""
        return int(self.write_ids[index]), int(self.buckets[index]), int(self.row_ids[index])

    def select(self, chosen: Mask | Indices | slice) -> Keys:
        """Return the keys at a mask, index array or slice."""
        if isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_:
            keep = chosen.astype(np.bool_, copy=False)
            return Keys(*(filter_values(array, keep) for array in (self.write_ids, self.buckets, self.row_ids)))
        return Keys(self.write_ids[chosen], self.buckets[chosen], self.row_ids[chosen])

    def ascending(self) -> bool:
        """Return True if the keys ascend strictly."""
        return bool(_ascending(self.write_ids, self.buckets, self.row_ids))

    def differ_from_before(self) -> Mask:
        """Return for each key but the first True if it is another than the one before it."""
        differ: Mask = (
            (self.write_ids[1:] != self.write_ids[:-1])
            | (self.buckets[1:] != self.buckets[:-1])
            | (self.row_ids[1:] != self.row_ids[:-1])
        )
        return differ

    def equals(self, other: Keys) -> bool:
        """Return True if they are the same keys in the same order."""
        pairs = zip(
            (self.write_ids, self.buckets, self.row_ids), (other.write_ids, other.buckets, other.row_ids), strict=True
        )
        return all(np.array_equal(one, another) for one, another in pairs)

    def matches(self, sought: Keys) -> Mask:
        """Return for each of these rows True if it is in `sought`; both must ascend strictly."""
        found = np.zeros(len(self), dtype=np.bool_)
        if len(self) and len(sought):
            _match(
                self.write_ids,
                self.buckets,
                self.row_ids,
                sought.write_ids,
                sought.buckets,
                sought.row_ids,
                found,
            )
        return found

    def between(self, low: Key, high: Key) -> Keys:
        """Return those of ascending keys that lie in [low, high]."""
        arrays = (self.write_ids, self.buckets, self.row_ids)
        start = int(_lower_bound(*arrays, *low))
        end = int(_lower_bound(*arrays, high[0], high[1], high[2] + 1)) if high[2] < (1 << 63) - 1 else len(self)
        return self.select(slice(start, max(start, end)))

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
    """Return the indices of delete events by key, then by currentTransaction from the latest; equal ones stay.

    Events come in a few ascending runs, one for each file: they are merged, so that cost and memory stay low.
    """
    narrow = len(keys) < 1 << 31
    source: Indices = np.arange(len(keys), dtype=np.int32) if narrow else np.arange(len(keys), dtype=np.int64)
    return _merge_order(keys.write_ids, keys.buckets, keys.row_ids, current, source, np.empty_like(source))


@kernel
def gather(values: Longs, order: Indices) -> Longs:  # pragma: no cover - compiled
    """Return the values that an order names, which is one of indices inside; numpy would widen the indices first."""
    out = np.empty(len(order), np.int64)
    for i in range(len(order)):
        out[i] = values[order[i]]
    return out


@kernel
def _merge_order(
    w: Longs, b: Longs, r: Longs, c: Longs, source: Indices, target: Indices
) -> Indices:  # pragma: no cover - compiled
    """Merge neighbouring runs from one array into the other until there is one run; return the array that has it."""
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
    """Return True if event i has to stand behind event j."""
    order = _compare(w[i], b[i], r[i], w[j], b[j], r[j])
    return order > 0 or (order == 0 and c[i] < c[j])


@kernel
def _match(
    w: Longs, b: Longs, r: Longs, sw: Longs, sb: Longs, sr: Longs, found: Mask
) -> None:  # pragma: no cover - compiled
    """Note where keys are found, by galloping search: cost follows the smaller of the two, whichever it is."""
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
            found[i] = True


OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT = 1, 2, 3, 4, 5
INSERT, DELETE = 0, 2


class StripeKeys:
    """What is known of the keys of one stripe without decoding, and the id columns when they are asked for."""

    def __init__(self, file: OpenInput, number: int) -> None:
        self.file = file
        self.number = number
        self.rows = file.tail.stripes[number].rows
        self.where = f"stripe {number} of {file.tail.name}"
        self._ids: tuple[Keys, Longs] | None = None
        # once the id columns were decoded: the first and the last key, and the range of currentTransaction
        self._bounds: tuple[KeyRange, tuple[int, int]] | None = None
        self._rows_proved = False
        # the ranges of the id columns, where the statistics are there and true
        self._ranges: IdRanges | None = None
        if file.ranges_true and stripe_statistics_are_true(file.tail, number):
            self._ranges = id_ranges(file.tail.stripe_statistics[number])

    @property
    def statistics_true(self) -> bool:
        """Whether the stripe's statistics may be believed."""
        return self._ranges is not None

    def ids(self) -> tuple[Keys, Longs]:
        """Return the keys and currentTransaction of the rows; decoded at the first call. `forget` drops them."""
        return self._ids if self._ids is not None else self._load()[0]

    def forget(self) -> None:
        """Give the decoded columns back."""
        self._ids = None

    def _load(self) -> tuple[tuple[Keys, Longs], tuple[KeyRange, tuple[int, int]]]:
        keys, current = ids = self._decode() if self.file.acid else self._synthetic()
        bounds = (keys.key(0), keys.key(-1)), (int(current.min()), int(current.max()))
        self._ids, self._bounds = ids, bounds
        return ids, bounds

    def _decoded_range(self) -> KeyRange:
        """Return the first and the last key; the id columns do not stay decoded for that."""
        if self._bounds is not None:
            return self._bounds[0]
        _, (found, _) = self._load()
        self.forget()
        return found

    def _synthetic(self) -> tuple[Keys, Longs]:
        file = self.file.file
        if not self._rows_proved:
            self.file.stripe(self.number).prove_rows()
            self._rows_proved = True
        first_row = file.first_row + self.file.rows_before[self.number]
        keys = Keys.sequence(file.write_id, encode_bucket(file.bucket, file.statement_id), first_row, self.rows)
        return keys, keys.write_ids

    def _decode(self) -> tuple[Keys, Longs]:
        reader = self.file.stripe(self.number)
        arrays = []
        for column in range(OPERATION, CURRENT + 1):
            decoded = reader.column(self.file.tail.root.children[column - 1], self.rows)
            if decoded.present is not None or decoded.values is None:
                raise CorruptError(f"Cannot read column {column} in {self.where}: an id column has nulls")
            arrays.append(decoded.values)
        operations, write_ids, buckets, row_ids, current = arrays
        self._check_operations(int(operations.min()), int(operations.max()))
        return Keys(write_ids, buckets, row_ids), current

    def _check_operations(self, low: int, high: int) -> None:
        wanted = DELETE if self.file.file.directory.startswith("delete_delta_") else INSERT
        if self.rows and (low != wanted or high != wanted):
            raise RefusedError(
                f"Cannot compact {self.where}: it holds events of operation {low} to {high} where only "
                f"{wanted} belongs; tables written before split update are not supported"
            )

    def check(self) -> None:
        """Raise RefusedError or CorruptError for operations or buckets that do not belong here."""
        if self._ranges is not None:
            self._check_operations(*self._ranges[OPERATION - 1])
        else:
            self.ids()
        if not self.file.file.directory.startswith("delete_delta_"):
            others = self.buckets() - {self.file.file.bucket}
            if others:
                raise CorruptError(
                    f"Cannot compact {self.where}: it holds rows of bucket {min(others)}, not only of "
                    f"{self.file.file.bucket} as its name says. Hive shows such rows whatever deletes them, and cannot "
                    "compact them either; INSERT OVERWRITE of the table, or partition, with a SELECT of all its rows "
                    "writes those that Hive shows anew, with new row ids"
                )

    def buckets(self) -> frozenset[int]:
        """Return the buckets that the keys decode to, exactly."""
        if self._ranges is not None:
            low, high = self._ranges[BUCKET - 1]
            # between properties of two codec versions, or of two plain buckets, lie those of others
            if low == high or (low >> 29 and low >> 16 == high >> 16):
                return frozenset({self._bucket(low)})
        found = self.ids()[0].buckets
        if found.min() == found.max():
            return frozenset({self._bucket(int(found[0]))})
        return frozenset(self._bucket(int(value)) for value in np.unique(found))

    def _bucket(self, value: int) -> int:
        try:
            return decode_bucket(value)[0]
        except CorruptError as error:
            raise CorruptError(f"Cannot compact {self.where}: {error}") from None

    def known_range(self) -> KeyRange | None:
        """Return the least parts of all keys together, and the greatest, by true statistics; None without these."""
        if self._ranges is None:
            return None
        write_ids, buckets, row_ids = self._ranges[WRITE_ID - 1 : ROW_ID]
        return (write_ids[0], buckets[0], row_ids[0]), (write_ids[1], buckets[1], row_ids[1])

    def key_range(self) -> KeyRange:
        """Return the range that all keys of the stripe lie in; they ascend, and are decoded without true statistics."""
        return self.known_range() or (self._bounds or self._load()[1])[0]

    def first_key(self) -> Key:
        """Return the key of the stripe's first row."""
        return self._decoded_range()[0]

    def current_range(self) -> tuple[int, int]:
        """Return the lowest and highest currentTransaction."""
        if self._ranges is not None:
            return self._ranges[CURRENT - 1]
        return (self._bounds or self._load()[1])[1]

    def last_key(self) -> Key:
        """Return the key of the stripe's last row: decoded before, or the file's own entry, or decoded now.

        An entry counts where the file has one per stripe and it agrees with true statistics.
        """
        entries = self.file.key_index
        if self._bounds is None and self._ranges is not None and entries is not None:
            entry = entries[self.number]
            bounds = self._ranges[WRITE_ID - 1 : ROW_ID]
            if all(low <= part <= high for part, (low, high) in zip(entry, bounds, strict=True)):
                return entry
        return self._decoded_range()[1]


def aborted_rows(stripe: StripeKeys, write_ids: ValidWriteIdList) -> Mask | None:
    """Return for each row True if an aborted id wrote it, or None when none was.

    Raises CorruptError for a row whose write id is above the high-water mark: such a directory is no input.
    """
    low, high = stripe.current_range()
    if high > write_ids.high_water_mark:
        raise CorruptError(
            f"Cannot compact stripe {stripe.number} of {stripe.file.tail.name}: it holds write id {high}, "
            f"above the high-water mark {write_ids.high_water_mark}"
        )
    aborted = write_ids.aborted_ids
    suspects = aborted[bisect_left(aborted, low) : bisect_right(aborted, high)]
    if not suspects:
        return None
    mask = np.isin(stripe.ids()[1], np.array(suspects, dtype=np.int64))
    return mask if mask.any() else None
