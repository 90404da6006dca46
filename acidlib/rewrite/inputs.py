"""The open input files of a unit, and the ACID id columns of their stripes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.rowid import decode_bucket, encode_bucket
from acidlib.model.units import DataFile, FileForm
from acidlib.model.writeids import ValidWriteIdList
from acidlib.orc.column import Longs, Mask
from acidlib.orc.schema import is_acid
from acidlib.orc.source import DataFiles, SourceFile
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.orc.stripe import StripeReader
from acidlib.orc.tail import Tail, read_tail
from acidlib.rewrite.id_ranges import IdRanges, id_ranges, id_ranges_agree
from acidlib.rewrite.keys import Key, KeyRange, Keys

KEY_INDEX = "hive.acid.key.index"
OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT = 1, 2, 3, 4, 5
INSERT, DELETE = 0, 2


MOST_TAILS = 64
"""Tails that are kept of files that are not open; what statistics a file of many stripes has may be megabytes."""


class InputFiles:
    """The data files of one location, for one task: opened by their paths there, and each tail read once.

    What was read of a file is used again when the same task asks for it again; of at most the last `MOST_TAILS`.
    """

    def __init__(self, location: str, data: DataFiles) -> None:
        self._location = location
        self._data = data
        self._tails: dict[str, Tail] = {}

    def full_path(self, file: DataFile) -> str:
        """Where a file is, for people and to open it."""
        return f"{self._location}/{file.path}"

    def open(self, file: DataFile) -> SourceFile:
        """A file, open; CorruptError when it is missing or shorter."""
        return self._data.open(self.full_path(file), file.length)

    def tail(self, file: DataFile, source: SourceFile | None = None) -> Tail:
        """The tail of a file, which may be open as `source`; as `read_tail` raises."""
        if file.path not in self._tails:
            if source is None:
                with closing(self.open(file)) as opened:
                    return self.tail(file, opened)
            if len(self._tails) == MOST_TAILS:
                del self._tails[next(iter(self._tails))]
            self._tails[file.path] = read_tail(source)
        return self._tails[file.path]


@dataclass(frozen=True, kw_only=True)
class OpenInput:
    """One input with rows, open.

    What is asked for each of its stripes, of which there may be many thousands, is worked out once.
    first_row    row id of its first row when it has no ACID columns
    ranges_true  what statistics say of its id columns may be believed (`id_ranges_agree`)
    """

    file: DataFile
    source: SourceFile
    tail: Tail
    acid: bool
    first_row: int
    ranges_true: bool

    @cached_property
    def key_index(self) -> tuple[Key, ...] | None:
        """The entries of hive.acid.key.index, as `key_index` reads them."""
        return key_index(self.tail)

    @cached_property
    def rows_before(self) -> tuple[int, ...]:
        """For each stripe the rows of the file that lie before it."""
        return tuple(accumulate((stripe.rows for stripe in self.tail.stripes), initial=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInputs:
    """The inputs that have rows, in order, and the full paths of those that count as empty."""

    files: tuple[OpenInput, ...]
    empty: tuple[str, ...]


@contextmanager
def open_inputs(files: tuple[DataFile, ...], place: InputFiles) -> Iterator[OpenInputs]:
    """Open every input with its tail. A zero-byte file counts as empty, as in Hive, and is reported."""
    found: list[OpenInput] = []
    empty: list[str] = []
    rows_before: dict[str, int] = {}
    with ExitStack() as stack:
        for file in files:
            if file.length == 0:
                empty.append(place.full_path(file))
                continue
            try:
                source = stack.enter_context(closing(place.open(file)))
                tail = place.tail(file, source)
            except CorruptError:
                if not file.aborted:
                    raise
                # its writer died, and its transaction with it: there is no row that anybody could want
                empty.append(place.full_path(file))
                continue
            # originals of one bucket are numbered on in path order, raw deltas each within its directory
            opened = open_input(file, source, tail, first_row=rows_before.get(file.directory, 0))
            if not opened.acid and file.form is not FileForm.ORIGINAL:
                raise CorruptError(
                    f"Cannot compact {tail.name}: because its name promises {file.form.value}, "
                    f"and its schema is {tail.root}"
                )
            if tail.rows:
                found.append(opened)
            if not opened.acid:
                rows_before[file.directory] = rows_before.get(file.directory, 0) + tail.rows
        yield OpenInputs(files=tuple(found), empty=tuple(empty))


def open_input(file: DataFile, source: SourceFile, tail: Tail, *, first_row: int) -> OpenInput:
    """An input that is open as `source`; `first_row` as in OpenInput."""
    acid = is_acid(tail.root)
    return OpenInput(
        file=file, source=source, tail=tail, acid=acid, first_row=first_row, ranges_true=acid and id_ranges_agree(tail)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StripeIds:
    """The id columns of one stripe."""

    keys: Keys
    current: Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """First and last key of a stripe, and the range of currentTransaction, as they were decoded."""

    first: Key
    last: Key
    current: tuple[int, int]


class StripeKeys:
    """What is known of the keys of one stripe without decoding, and the id columns when they are asked for."""

    def __init__(self, file: OpenInput, number: int) -> None:
        self.file = file
        self.number = number
        self.rows = file.tail.stripes[number].rows
        self.where = f"stripe {number} of {file.tail.name}"
        self._ids: StripeIds | None = None
        self._bounds: _Bounds | None = None
        self._rows_proved = False
        self._ranges = self._true_ranges()

    def _true_ranges(self) -> IdRanges | None:
        """The ranges of the id columns, or None unless the statistics are there and true."""
        tail = self.file.tail
        if not self.file.ranges_true or not stripe_statistics_are_true(tail, self.number):
            return None
        return id_ranges(tail.stripe_statistics[self.number])

    @property
    def statistics_true(self) -> bool:
        """Whether the stripe's statistics may be believed."""
        return self._ranges is not None

    def ids(self) -> StripeIds:
        """The id columns; decoded at the first call. `forget` drops them."""
        return self._ids if self._ids is not None else self._load()[0]

    def _load(self) -> tuple[StripeIds, _Bounds]:
        ids = self._synthetic() if not self.file.acid else self._decode()
        bounds = _Bounds(
            first=ids.keys.key(0), last=ids.keys.key(-1), current=(int(ids.current.min()), int(ids.current.max()))
        )
        self._ids, self._bounds = ids, bounds
        return ids, bounds

    def _bounds_alone(self) -> _Bounds:
        """The bounds of the id columns, which do not stay decoded for that."""
        if self._bounds is not None:
            return self._bounds
        _, bounds = self._load()
        self.forget()
        return bounds

    def forget(self) -> None:
        """Give the decoded columns back."""
        self._ids = None

    def _synthetic(self) -> StripeIds:
        file = self.file.file
        if not self._rows_proved:
            StripeReader(self.file.source, self.file.tail, self.number).prove_rows()
            self._rows_proved = True
        first_row = self.file.first_row + self.file.rows_before[self.number]
        keys = Keys.sequence(file.write_id, encode_bucket(file.bucket, file.statement_id), first_row, self.rows)
        return StripeIds(keys=keys, current=keys.write_ids)

    def _decode(self) -> StripeIds:
        reader = StripeReader(self.file.source, self.file.tail, self.number)
        arrays = []
        for column in range(OPERATION, CURRENT + 1):
            decoded = reader.column(self.file.tail.root.children[column - 1], self.rows)
            if decoded.present is not None or decoded.values is None:
                raise CorruptError(f"Cannot read column {column} in {self.where}: because an id column has nulls")
            arrays.append(decoded.values)
        operations, write_ids, buckets, row_ids, current = arrays
        keys = Keys(write_ids, buckets, row_ids)
        self._check_operations(int(operations.min()), int(operations.max()))
        return StripeIds(keys=keys, current=current)

    def _check_operations(self, low: int, high: int) -> None:
        wanted = DELETE if self.file.file.directory.startswith("delete_delta_") else INSERT
        if self.rows and (low != wanted or high != wanted):
            raise RefusedError(
                f"Cannot compact {self.where}: because it holds events of operation {low} to {high} where only "
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
                    f"Cannot compact {self.where}: because it holds rows of bucket {min(others)}, not only of "
                    f"{self.file.file.bucket} as its name says. Hive shows such rows whatever deletes them, and cannot "
                    "compact them either; INSERT OVERWRITE of the table, or partition, with a SELECT of all its rows "
                    "writes those that Hive shows anew, with new row ids"
                )

    def buckets(self) -> frozenset[int]:
        """The buckets that the keys decode to, exactly."""
        if self._ranges is not None:
            low, high = self._ranges[BUCKET - 1]
            # between properties of two codec versions, or of two plain buckets, lie those of others
            if low == high or (low >> 29 and low >> 16 == high >> 16):
                return frozenset({self._bucket(low)})
        found = self.ids().keys.buckets
        if found.min() == found.max():
            return frozenset({self._bucket(int(found[0]))})
        return frozenset(self._bucket(int(value)) for value in np.unique(found))

    def _bucket(self, value: int) -> int:
        try:
            return decode_bucket(value)[0]
        except CorruptError as error:
            raise CorruptError(f"Cannot compact {self.where}: {error}") from None

    def known_range(self) -> KeyRange | None:
        """What true statistics say of the keys: their least parts together, and their greatest. Else None."""
        if self._ranges is None:
            return None
        write_ids, buckets, row_ids = self._ranges[WRITE_ID - 1 : ROW_ID]
        return (write_ids[0], buckets[0], row_ids[0]), (write_ids[1], buckets[1], row_ids[1])

    def key_range(self) -> KeyRange:
        """No key of the stripe, whose keys ascend, lies outside of these; decoded where statistics do not tell."""
        known = self.known_range()
        if known is not None:
            return known
        bounds = self._bounds or self._load()[1]
        return bounds.first, bounds.last

    def first_key(self) -> Key:
        """The key of the stripe's first row."""
        return self._bounds_alone().first

    def current_range(self) -> tuple[int, int]:
        """Lowest and highest currentTransaction."""
        if self._ranges is not None:
            return self._ranges[CURRENT - 1]
        return (self._bounds or self._load()[1]).current

    def last_key(self) -> Key:
        """The key of the stripe's last row: decoded before, or the file's own entry, or decoded now.

        An entry counts where the file has one per stripe and it agrees with true statistics.
        """
        entries = self.file.key_index
        if self._bounds is None and self._ranges is not None and entries is not None:
            entry = entries[self.number]
            bounds = self._ranges[WRITE_ID - 1 : ROW_ID]
            if all(low <= part <= high for part, (low, high) in zip(entry, bounds, strict=True)):
                return entry
        return self._bounds_alone().last


def key_index(tail: Tail) -> tuple[Key, ...] | None:
    """The entries of hive.acid.key.index, or None when there is not one per stripe (Hive OrcRecordUpdater)."""
    text = tail.user_metadata.get(KEY_INDEX)
    if text is None:
        return None
    try:
        parts = text.decode("ascii").split(";")
        entries = [tuple(int(number) for number in part.split(",")) for part in parts if part]
    except ValueError:
        return None
    if len(entries) != len(tail.stripes) or any(len(entry) != 3 for entry in entries):
        return None
    return tuple((entry[0], entry[1], entry[2]) for entry in entries)


def aborted_rows(stripe: StripeKeys, write_ids: ValidWriteIdList) -> Mask | None:
    """Which rows were written by aborted ids, or None when none was.

    Raises CorruptError for a row whose write id is above the high-water mark: such a directory is no input.
    """
    low, high = stripe.current_range()
    if high > write_ids.high_water_mark:
        raise CorruptError(
            f"Cannot compact stripe {stripe.number} of {stripe.file.tail.name}: because it holds write id {high}, "
            f"above the high-water mark {write_ids.high_water_mark}"
        )
    aborted = write_ids.aborted_ids
    suspects = aborted[bisect_left(aborted, low) : bisect_right(aborted, high)]
    if not suspects:
        return None
    mask = np.isin(stripe.ids().current, np.array(suspects, dtype=np.int64))
    return mask if mask.any() else None
