"""Row keys as three arrays, in the order of ACID files: write id, bucket property, row id (Hive OrcRawRecordMerger)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acidlib.model.rowid import Key
from acidlib.orc.column import Longs, Mask
from acidlib.orc.kernels.jit import kernel, kernel_flags
from acidlib.orc.kernels.vectors import filter_values

Indices = NDArray[np.int32] | Longs


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of n rows: three int64 arrays of length n."""

    write_ids: Longs
    buckets: Longs
    row_ids: Longs

    def __len__(self) -> int:
        return len(self.write_ids)

    def key(self, index: int) -> Key:
        """One key; negative indices count from the end."""
        return int(self.write_ids[index]), int(self.buckets[index]), int(self.row_ids[index])

    def select(self, chosen: Mask | Indices | slice) -> Keys:
        """The keys at a mask, index array or slice."""
        if isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_:
            keep = kernel_flags(chosen)
            return Keys(*(filter_values(array, keep) for array in (self.write_ids, self.buckets, self.row_ids)))
        return Keys(self.write_ids[chosen], self.buckets[chosen], self.row_ids[chosen])

    def ascending(self) -> bool:
        """Whether the keys ascend strictly."""
        return bool(_ascending(self.write_ids, self.buckets, self.row_ids))

    def equals(self, other: Keys) -> bool:
        """Whether they are the same keys in the same order."""
        pairs = zip(
            (self.write_ids, self.buckets, self.row_ids), (other.write_ids, other.buckets, other.row_ids), strict=True
        )
        return all(np.array_equal(one, another) for one, another in pairs)

    def matches(self, sought: Keys) -> Mask:
        """Which of these rows are in `sought`; both must ascend strictly."""
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
        """Those of ascending keys that lie in [low, high]."""
        arrays = (self.write_ids, self.buckets, self.row_ids)
        start = int(_lower_bound(*arrays, *low))
        end = int(_lower_bound(*arrays, high[0], high[1], high[2] + 1)) if high[2] < (1 << 63) - 1 else len(self)
        return self.select(slice(start, max(start, end)))

    @staticmethod
    def empty() -> Keys:
        """No keys."""
        none = np.zeros(0, dtype=np.int64)
        return Keys(none, none, none)

    @staticmethod
    def sequence(write_id: int, bucket: int, first_row: int, rows: int) -> Keys:
        """The synthetic keys of rows without ACID columns: one write id and bucket, consecutive row ids."""
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
    """The indices of delete events by key, then by currentTransaction from the latest; equal ones stay as they are.

    Events come in a few ascending runs, one for each file: they are merged, so that cost and memory stay low.
    """
    narrow = len(keys) < 1 << 31
    source: Indices = np.arange(len(keys), dtype=np.int32) if narrow else np.arange(len(keys), dtype=np.int64)
    return _merge_order(keys.write_ids, keys.buckets, keys.row_ids, current, source, np.empty_like(source))


@kernel
def gather(values: Longs, order: Indices) -> Longs:  # pragma: no cover - compiled
    """The values that an order names, which is one of indices inside; numpy would widen the indices first."""
    out = np.empty(len(order), np.int64)
    for i in range(len(order)):
        out[i] = values[order[i]]
    return out


@kernel
def _merge_order(
    w: Longs, b: Longs, r: Longs, c: Longs, source: Indices, target: Indices
) -> Indices:  # pragma: no cover - compiled
    """Merges neighbouring runs from one array into the other until there is one run; returns the array that has it."""
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
    """Whether event i has to stand behind event j."""
    order = _compare(w[i], b[i], r[i], w[j], b[j], r[j])
    return order > 0 or (order == 0 and c[i] < c[j])


@kernel
def _match(
    w: Longs, b: Longs, r: Longs, sw: Longs, sb: Longs, sr: Longs, found: Mask
) -> None:  # pragma: no cover - compiled
    """Galloping search: cost follows the smaller of the two, whichever it is."""
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
