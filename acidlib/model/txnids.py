"""Which global transactions have committed: the list by which Hive 4 takes or leaves directories with a `_v` suffix.

Source: Hive `ValidReadTxnList`. The text is `<high-water mark>:<lowest open>:<open>:<aborted>`; ids are joined by
commas, and Hive 4 writes five or more consecutive ones as `a-b`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from acidlib.errors import RefusedError
from acidlib.model.names import LONG_MAX

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
        """The list of a text; raises RefusedError when it does not parse, and for a blank text."""
        fields = text.strip().split(":")
        if not 2 <= len(fields) <= 4:
            raise _unreadable(text, f"it has {len(fields)} fields instead of mark:lowest open[:open[:aborted]]")
        _number(text, fields[1])
        return ValidTxnList(
            high_water_mark=_number(text, fields[0]), opened=_ranges(text, fields, 2), aborted=_ranges(text, fields, 3)
        )

    def format(self) -> str:
        """The text of the list."""
        lowest = self.opened[0][0] if self.opened else LONG_MAX
        return f"{self.high_water_mark}:{lowest}:{_join(self.opened)}:{_join(self.aborted)}"

    def is_txn_valid(self, txn: int) -> bool:
        """Whether this transaction has committed; 0, the absent suffix, always has."""
        if txn == 0:
            return True
        return txn <= self.high_water_mark and not _inside(self.opened, txn) and not _inside(self.aborted, txn)

    def is_txn_aborted(self, txn: int) -> bool:
        """Whether this transaction is known to be aborted."""
        return _inside(self.aborted, txn)

    def without(self, txn: int) -> ValidTxnList:
        """The same list with one transaction counted as open."""
        return ValidTxnList(
            high_water_mark=self.high_water_mark, opened=(*self.opened, (txn, txn)), aborted=self.aborted
        )

    def with_committed(self, txn: int) -> ValidTxnList:
        """The same list with one more transaction that has committed, and none besides."""
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


def _join(ranges: tuple[IdRange, ...]) -> str:
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _ranges(text: str, fields: list[str], index: int) -> tuple[IdRange, ...]:
    if len(fields) <= index or not fields[index]:
        return ()
    ranges = []
    for part in fields[index].split(","):
        low, dash, high = part.partition("-")
        first = _number(text, low)
        last = _number(text, high) if dash else first
        if last < first:
            raise _unreadable(text, f"{part!r} ends before it begins")
        ranges.append((first, last))
    return tuple(ranges)


def _merged(ranges: list[IdRange]) -> tuple[IdRange, ...]:
    merged: list[IdRange] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _number(text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or int(digits) > LONG_MAX:
        raise _unreadable(text, f"{digits!r} is not a transaction id")
    return int(digits)


def _unreadable(text: str, reason: str) -> RefusedError:
    shown = text if len(text) <= 200 else text[:200] + "..."
    return RefusedError(f"Cannot read the transaction list {shown!r}: because {reason}")


ALL_COMMITTED = ValidTxnList(high_water_mark=LONG_MAX)
