"""Snapshots of committed transactions and write ids, as readers, compactors and cleaners use them.

Global transactions: the list by which Hive 4 reads or skips directories with a `_v` suffix. Source: Hive
`ValidReadTxnList`. The text is `<high-water mark>:<lowest open>:<open>:<aborted>`; ids are joined by commas, and Hive 4
writes five or more consecutive ones as `a-b`.

Write ids of a table. Source: Hive `ValidReaderWriteIdList`, `ValidCompactorWriteIdList` and `ValidCleanerWriteIdList`.
The text is `<db.table>:<high-water mark>:<lowest open id>:<open ids>:<aborted ids>`, ids joined by commas, the last two
fields optional.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from heapq import merge

from acidlib.acid.names import LONG_MAX
from acidlib.errors import RefusedError

IdRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidTxnList:
    """Transactions up to the mark are valid unless they lie in a range of `opened` or `aborted` (both ends included).

    The ranges are sorted and merged on creation. An own running transaction has to count as open: see `without`.
    """

    high_water_mark: int
    opened: tuple[IdRange, ...] = ()
    aborted: tuple[IdRange, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "opened", _merged(list(self.opened)))
        object.__setattr__(self, "aborted", _merged(list(self.aborted)))

    @staticmethod
    def parse(text: str) -> ValidTxnList:
        """Return the list of a text; raises RefusedError when it does not parse, and for a blank text."""
        fields = text.strip().split(":")
        if not 2 <= len(fields) <= 4:
            form = "high-water mark:lowest open[:open[:aborted]]"
            raise _unreadable("transaction", text, f"it has {len(fields)} fields instead of {form}")
        mark, lowest, opened, aborted = (*fields, "", "")[:4]
        _txn_id(text, lowest)
        return ValidTxnList(
            high_water_mark=_txn_id(text, mark), opened=_ranges(text, opened), aborted=_ranges(text, aborted)
        )

    def format(self, *, as_ranges: bool = True) -> str:
        """Return the text of the list, without `as_ranges` with each id by itself, as Hive 3.1 reads it."""

        def join(ranges: tuple[IdRange, ...]) -> str:
            if not as_ranges:
                return ",".join(str(txn) for low, high in ranges for txn in range(low, high + 1))
            return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)

        lowest = self.opened[0][0] if self.opened else LONG_MAX
        return f"{self.high_water_mark}:{lowest}:{join(self.opened)}:{join(self.aborted)}"

    @property
    def min_open(self) -> int:
        """The lowest open id (aborted ones do not count); one more than the high-water mark when none is open."""
        return self.opened[0][0] if self.opened else self.high_water_mark + 1

    def is_txn_valid(self, txn: int) -> bool:
        """Return whether this transaction has committed; 0, the absent suffix, always has."""
        if txn == 0:
            return True
        return txn <= self.high_water_mark and not _inside(self.opened, txn) and not _inside(self.aborted, txn)

    def is_txn_aborted(self, txn: int) -> bool:
        """Return whether this transaction is known to be aborted."""
        return _inside(self.aborted, txn)

    def without(self, txn: int) -> ValidTxnList:
        """Return the list with one more open transaction."""
        return ValidTxnList(
            high_water_mark=self.high_water_mark, opened=(*self.opened, (txn, txn)), aborted=self.aborted
        )

    def with_committed(self, txn: int) -> ValidTxnList:
        """Return the list with one more committed transaction, and no other."""
        opened = [part for low, high in self.opened for part in ((low, min(high, txn - 1)), (max(low, txn + 1), high))]
        if txn > self.high_water_mark:
            opened.append((self.high_water_mark + 1, txn - 1))
        return ValidTxnList(
            high_water_mark=max(self.high_water_mark, txn),
            opened=tuple((low, high) for low, high in opened if low <= high),
            aborted=self.aborted,
        )


def _inside(ranges: tuple[IdRange, ...], txn: int) -> bool:
    at = bisect_right(ranges, (txn, LONG_MAX))
    return at > 0 and ranges[at - 1][0] <= txn <= ranges[at - 1][1]


def _ranges(text: str, field: str) -> tuple[IdRange, ...]:
    ranges = []
    for part in field.split(",") if field else ():
        low, dash, high = part.partition("-")
        first = _txn_id(text, low)
        last = _txn_id(text, high) if dash else first
        if last < first:
            raise _unreadable("transaction", text, f"{part!r} ends before it begins")
        ranges.append((first, last))
    return tuple(ranges)


def _merged(ranges: list[IdRange]) -> tuple[IdRange, ...]:
    merged: list[IdRange] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


ALL_COMMITTED = ValidTxnList(high_water_mark=LONG_MAX)


class RangePart(enum.Enum):
    """The part of a range of write ids for which a statement is true."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


class ListUse(enum.Enum):
    """The user of a list of write ids, by which a range of ids that reaches above the mark is judged."""

    READER = "reader"
    COMPACTOR = "compactor"
    CLEANER = "cleaner"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidWriteIdList:
    """A list of write ids: those above the mark, open ones and aborted ones are not valid, all others are.

    open_ids, aborted_ids  sorted on creation
    min_open  `LONG_MAX` when no id is open
    table     `db.table`, or None
    use       a compactor leaves out every directory that reaches above the mark, and never reads it in part; for a
              cleaner such a directory makes nothing obsolete
    """

    table: str | None
    high_water_mark: int
    open_ids: tuple[int, ...] = ()
    aborted_ids: tuple[int, ...] = ()
    min_open: int = LONG_MAX
    use: ListUse = ListUse.READER

    def __post_init__(self) -> None:
        object.__setattr__(self, "open_ids", tuple(sorted(set(self.open_ids))))
        object.__setattr__(self, "aborted_ids", tuple(sorted(set(self.aborted_ids))))
        if self.open_ids and self.min_open > self.open_ids[0]:
            object.__setattr__(self, "min_open", self.open_ids[0])

    @staticmethod
    def parse(text: str) -> ValidWriteIdList:
        """Return the list of a text; raises RefusedError with the text and the field when it does not parse.

        Hive takes a blank text for "everything is valid"; here it is refused, for a lost list must not mean that every
        transaction has committed.
        """
        fields = text.strip().split(":")
        if not 3 <= len(fields) <= 5:
            form = "table:high-water mark:lowest open[:open[:aborted]]"
            raise _unreadable("write-id", text, f"it has {len(fields)} fields instead of {form}")
        table, mark, lowest, *ids = (*fields, "", "")[:5]
        if not table:
            raise _unreadable("write-id", text, "the table's name, field 1, is empty")
        opened, aborted = (
            tuple(_write_id(text, number, part) for part in field.split(",") if field)
            for number, field in enumerate(ids, start=4)
        )
        min_open = _write_id(text, 3, lowest)
        if opened and min_open > min(opened):
            raise _unreadable("write-id", text, f"the lowest open id is given as {min_open}, but {min(opened)} is open")
        if both := sorted(set(opened) & set(aborted)):
            raise _unreadable("write-id", text, f"{both[0]} is both open and aborted")
        return ValidWriteIdList(
            table=None if table.lower() == "null" else table,
            high_water_mark=_write_id(text, 2, mark),
            open_ids=opened,
            aborted_ids=aborted,
            min_open=min_open,
        )

    def format(self) -> str:
        """Return the text of the list, as Hive writes it."""
        opened = ",".join(map(str, self.open_ids))
        aborted = ",".join(map(str, self.aborted_ids))
        return f"{self.table or 'null'}:{self.high_water_mark}:{self.min_open}:{opened}:{aborted}"

    def is_write_id_valid(self, write_id: int) -> bool:
        """Return whether rows of this write id are visible."""
        return write_id <= self.high_water_mark and self._exceptions_within(write_id, write_id) == 0

    @property
    def highest_valid(self) -> int:
        """The highest write id whose rows are visible; 0 where there is none."""
        write_id = self.high_water_mark
        while write_id > 0 and not self.is_write_id_valid(write_id):
            write_id -= 1
        return max(write_id, 0)

    def is_write_id_aborted(self, write_id: int) -> bool:
        """Return whether this write id is known to be aborted."""
        return _count(self.aborted_ids, write_id, write_id) > 0

    def is_valid_base(self, write_id: int) -> bool:
        """Return whether a compacted base of this write id may be read: nothing at or below it is open.

        As in Hive, whose readers must agree, the lowest open id has no effect when the list names no exception.
        """
        min_open = self.min_open if self.open_ids or self.aborted_ids else LONG_MAX
        return write_id < min_open and write_id <= self.high_water_mark

    def range_valid(self, low: int, high: int) -> RangePart:
        """Return how many ids of a range (both ends included) are valid.

        As in Hive, ALL even above the high-water mark when every exception is above the range. For a compactor a range
        that ends at or below the mark is ALL, aborted ids or not. For a compactor or cleaner a range that ends above
        the mark is NONE.
        """
        if self.use is not ListUse.READER and high > self.high_water_mark:
            return RangePart.NONE
        if self.use is ListUse.COMPACTOR:
            return RangePart.ALL
        if low > self.high_water_mark:
            return RangePart.NONE
        first = min(self.open_ids[:1] + self.aborted_ids[:1], default=None)
        if first is not None and first > high:
            return RangePart.ALL
        invalid = max(0, high - self.high_water_mark) + self._exceptions_within(low, high)
        return _range_of(size=high - low + 1, part=high - low + 1 - invalid)

    def range_aborted(self, low: int, high: int) -> RangePart:
        """Return how many ids of a range (both ends included) are aborted."""
        if self.high_water_mark < low:
            return RangePart.NONE
        return _range_of(size=high - low + 1, part=_count(self.aborted_ids, low, high))

    def for_compactor(self) -> ValidWriteIdList:
        """Return the list for a compaction: it ends below the lowest open id, and only aborted ids are exceptions.

        The lowest open id counts even if no exception is listed, which is stricter than for a reader.
        """
        mark = min(self.high_water_mark, self.min_open - 1)
        return ValidWriteIdList(
            table=self.table,
            high_water_mark=mark,
            aborted_ids=self.aborted_ids[: bisect_right(self.aborted_ids, mark)],
            min_open=self.min_open,
            use=ListUse.COMPACTOR,
        )

    def for_cleaner(self, high_water_mark: int) -> ValidWriteIdList:
        """Return the list for a cleaning, up to the high-water mark of the compaction that it follows."""
        return replace(self.capped(high_water_mark), use=ListUse.CLEANER)

    def capped(self, high_water_mark: int) -> ValidWriteIdList:
        """Return the list, for the same use, with a high-water mark of at most the given one."""
        return replace(self, high_water_mark=min(self.high_water_mark, high_water_mark))

    @property
    def everything_valid(self) -> bool:
        """Whether every write id is valid."""
        return self.high_water_mark == LONG_MAX and not self.open_ids and not self.aborted_ids

    def exceptions(self, low: int, high: int) -> tuple[int, ...]:
        """Return the open and aborted ids of a range (both ends included), ascending."""
        parts = (ids[bisect_left(ids, low) : bisect_right(ids, high)] for ids in (self.open_ids, self.aborted_ids))
        return tuple(merge(*parts))

    def _exceptions_within(self, low: int, high: int) -> int:
        return _count(self.open_ids, low, high) + _count(self.aborted_ids, low, high)


def all_committed(table: str | None, high_water_mark: int = LONG_MAX) -> ValidWriteIdList:
    """Return the list by which every write id up to the mark is committed."""
    return ValidWriteIdList(table=table, high_water_mark=high_water_mark)


def _count(ids: tuple[int, ...], low: int, high: int) -> int:
    return bisect_right(ids, high) - bisect_left(ids, low) if low <= high else 0


def _range_of(*, size: int, part: int) -> RangePart:
    if part == 0:
        return RangePart.NONE
    return RangePart.ALL if part == size else RangePart.SOME


def _write_id(text: str, field: int, digits: str) -> int:
    return _number("write-id", text, digits, f"{digits!r} in field {field} is not a write id")


def _txn_id(text: str, digits: str) -> int:
    return _number("transaction", text, digits, f"{digits!r} is not a transaction id")


def _number(kind: str, text: str, digits: str, problem: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or int(digits) > LONG_MAX:
        raise _unreadable(kind, text, problem)
    return int(digits)


def _unreadable(kind: str, text: str, reason: str) -> RefusedError:
    shown = text if len(text) <= 200 else text[:200] + "..."
    return RefusedError(f"Cannot read the {kind} list {shown!r}: {reason}")
