"""The input files of a unit, open with their tails, and what footers say of keys: Hive's metadata and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from acidlib.datafiles import DataFiles, SourceFile
from acidlib.errors import CorruptError
from acidlib.model.location import Location
from acidlib.model.units import DataFile, FileForm, Key
from acidlib.orc.alignment import Alignment
from acidlib.orc.reader import StripeReader, Tail, read_tail
from acidlib.orc.schema import TypeNode, is_acid, row_struct
from acidlib.orc.statistics import integer_range

MOST_TAILS = 64
"""Tails that are kept of files that are not open; what statistics a file of many stripes has may be megabytes."""


class InputFiles:
    """The data files of one location, for one task: opened by their paths there, and each tail read once.

    What was read of a file is used again when the same task asks for it again; of at most the last `MOST_TAILS`.
    """

    def __init__(self, location: Location, data: DataFiles) -> None:
        self._location = location
        self._data = data
        self._tails: dict[str, Tail] = {}

    def full_path(self, file: DataFile) -> str:
        """Return where a file is, for people and to open it."""
        return f"{self._location}/{file.path}"

    def open(self, file: DataFile) -> SourceFile:
        """Open a file; CorruptError when it is missing or shorter."""
        return self._data.open(self.full_path(file), file.length)

    def tail(self, file: DataFile, source: SourceFile | None = None) -> Tail:
        """Return the tail of a file, which may be open as `source`; as `read_tail` raises."""
        if file.path not in self._tails:
            if source is None:
                with closing(self.open(file)) as opened:
                    return self.tail(file, opened)
            if len(self._tails) == MOST_TAILS:
                del self._tails[next(iter(self._tails))]
            self._tails[file.path] = read_tail(source)
        return self._tails[file.path]


MOST_STRIPES = 16
"""Stripes of a bucket that stay open; what the footer of one of thousands of columns says may be a megabyte."""


class OpenStripes:
    """The last `MOST_STRIPES` that were opened of some files: several ask for each, and its footer is read once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], StripeReader] = {}

    def open(self, source: SourceFile, tail: Tail, number: int) -> StripeReader:
        """Return a stripe of a file, by its number."""
        key = tail.name, number
        if key not in self._kept:
            if len(self._kept) == MOST_STRIPES:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = StripeReader(source, tail, number)
        return self._kept[key]


@dataclass(frozen=True, kw_only=True)
class OpenInput:
    """One input with rows, open.

    What is asked for each of its stripes, of which there may be many thousands, is worked out once.
    stripes  shared with the other inputs
    """

    file: DataFile
    source: SourceFile
    tail: Tail
    stripes: OpenStripes = field(default_factory=OpenStripes, repr=False, compare=False)

    def stripe(self, number: int) -> StripeReader:
        """Return a stripe, open for reading columns."""
        return self.stripes.open(self.source, self.tail, number)

    @cached_property
    def acid(self) -> bool:
        """Whether the rows have ACID columns."""
        return is_acid(self.tail.root)

    @cached_property
    def key_index(self) -> tuple[Key, ...] | None:
        """The entries of hive.acid.key.index, as `key_index` reads them."""
        return key_index(self.tail)

    @cached_property
    def row(self) -> TypeNode:
        """The user's columns as the file has them; in an original file they are all there is."""
        return row_struct(self.tail.root)

    @cached_property
    def rows_before(self) -> tuple[int, ...]:
        """For each stripe the rows of the file that lie before it."""
        return tuple(accumulate((stripe.rows for stripe in self.tail.stripes), initial=0))

    @cached_property
    def ranges_true(self) -> bool:
        """Whether the ranges of the id columns of all stripes together are the file's, as every writer makes them.

        Nothing covers statistics against damage, and a range that is too narrow would let deleted rows stay. This shows
        it in a file of one stripe and at the outer ends of others.
        """
        tail = self.tail
        if not self.acid or not tail.stripe_statistics:
            return False
        pairs = zip(tail.stripes, tail.stripe_statistics, strict=True)
        stripes = [id_ranges(found) for stripe, found in pairs if stripe.rows]
        known = [found for found in stripes if found is not None]
        whole = id_ranges(tail.file_statistics)
        if whole is None or not known or len(known) < len(stripes):
            return False
        folded = (
            (min(low for low, _ in column), max(high for _, high in column)) for column in zip(*known, strict=True)
        )
        return tuple(folded) == whole


_ID_COLUMNS = range(1, 6)
"""operation, originalTransaction, bucket, rowId, currentTransaction."""

IdRanges = tuple[tuple[int, int], ...]
"""Lowest and highest value of each of the columns 1 to 5."""


def id_ranges(statistics: Sequence[Any]) -> IdRanges | None:
    """Return what the statistics of a stripe or file say of the id columns; None unless all of it is there."""
    if not statistics:
        return None
    ranges = [integer_range(statistics[column]) for column in _ID_COLUMNS]
    found = tuple(found for found in ranges if found is not None)
    return found if len(found) == len(ranges) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInputs:
    """The inputs that have rows, in order, and the full paths of those that count as empty.

    alignments  of inputs of rows, in the same order: how their columns fill the table's
    notes       what people should know of how columns were found
    """

    files: tuple[OpenInput, ...]
    empty: tuple[str, ...]
    alignments: tuple[Alignment, ...] = ()
    notes: tuple[str, ...] = ()

    def aligned(self) -> tuple[tuple[DataFile, Alignment], ...]:
        """Return what another task needs to open each of them again."""
        return tuple((opened.file, alignment) for opened, alignment in zip(self.files, self.alignments, strict=True))


@contextmanager
def open_inputs(listed: tuple[DataFile, ...], files: InputFiles) -> Iterator[OpenInputs]:
    """Open every input with its tail. A zero-byte file counts as empty, as in Hive, and is reported."""
    found: list[OpenInput] = []
    empty: list[str] = []
    rows_before: dict[str, int] = {}
    stripes = OpenStripes()
    with ExitStack() as stack:
        for file in listed:
            if file.length == 0:
                empty.append(files.full_path(file))
                continue
            try:
                source = stack.enter_context(closing(files.open(file)))
                tail = files.tail(file, source)
            except CorruptError:
                if not file.aborted:
                    raise
                # its writer died, and its transaction with it: there is no row that anybody could want
                empty.append(files.full_path(file))
                continue
            # originals of one bucket are numbered on in path order, raw deltas each within its directory
            first_row = rows_before.get(file.directory, 0)
            opened = OpenInput(file=replace(file, first_row=first_row), source=source, tail=tail, stripes=stripes)
            if not opened.acid and file.form is not FileForm.ORIGINAL:
                raise CorruptError(
                    f"Cannot compact {tail.name}: its name promises {file.form.value}, and its schema is {tail.root}"
                )
            if tail.rows:
                found.append(opened)
            if not opened.acid:
                rows_before[file.directory] = first_row + tail.rows
        yield OpenInputs(files=tuple(found), empty=tuple(empty))


KEY_INDEX = "hive.acid.key.index"
"""The name of the entry that has the last key of each stripe (Hive OrcRecordUpdater.KeyIndexBuilder)."""


def key_index(tail: Tail) -> tuple[Key, ...] | None:
    """Return the entries of hive.acid.key.index, or None when there is not one per stripe (Hive OrcRecordUpdater)."""
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


def acid_metadata(last_keys: Iterable[Key], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """Return the three entries that Hive's readers look for (Hive OrcRecordUpdater.KeyIndexBuilder, AcidStats)."""
    entries = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in last_keys)
    return {
        "hive.acid.version": b"2",
        KEY_INDEX: entries.encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
    }
