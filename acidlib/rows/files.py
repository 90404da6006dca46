"""The input files of a unit, open with their tails, and facts on keys in their footers: metadata and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from cachetools import LRUCache

from acidlib.datafiles import DataFiles, SourceFile
from acidlib.errors import CorruptError
from acidlib.location import Location
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.units import DataFile, FileForm, RowKey
from acidlib.orc.alignment import Alignment
from acidlib.orc.reader import StripeReader, Tail, read_tail
from acidlib.orc.schema import TypeNode, is_acid, row_struct, shown
from acidlib.orc.statistics import integer_range

MAX_TAIL_BYTES = 16 << 20
"""Memory of the tails that are kept of files that are not open; a tail that takes more is kept alone."""


class InputFiles:
    """The data files of one location, for one task: opened by their paths there, and each tail read once.

    The tails used last are kept, up to `MAX_TAIL_BYTES`, for when the same task needs them again.
    """

    def __init__(self, location: Location, data: DataFiles) -> None:
        self._location = location
        self._data = data
        self._tails: LRUCache[str, Tail] = LRUCache(MAX_TAIL_BYTES, lambda tail: min(tail.memory_size, MAX_TAIL_BYTES))

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
            self._tails[file.path] = read_tail(source)
        return self._tails[file.path]


MAX_STRIPE_BYTES = 32 << 20
"""Memory of the stripes of a bucket that stay open: of sixteen or so, if they have thousands of columns."""


class OpenStripes:
    """The opened stripes of some files that were used last: several readers need each, and its footer is read once.

    Up to `MAX_STRIPE_BYTES` are kept; a stripe that takes more is kept alone.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[str, int], StripeReader] = LRUCache(
            MAX_STRIPE_BYTES, lambda stripe: min(stripe.memory_size, MAX_STRIPE_BYTES)
        )

    def open(self, source: SourceFile, tail: Tail, number: int) -> StripeReader:
        """Return a stripe of a file, by its number."""
        key = tail.name, number
        if key not in self._kept:
            self._kept[key] = StripeReader(source, tail, number)
        return self._kept[key]


@dataclass(frozen=True, kw_only=True)
class OpenInput:
    """An open input with rows.

    The properties are computed once, for there may be many thousands of stripes that need them.

    aligned  how its columns fill the table's, of an input of rows that is to be compacted
    stripes  shared with the other inputs
    """

    file: DataFile
    source: SourceFile
    tail: Tail
    aligned: Alignment | None = None
    stripes: OpenStripes = field(default_factory=OpenStripes, repr=False, compare=False)

    def stripe(self, number: int) -> StripeReader:
        """Return a stripe, open for reading columns."""
        return self.stripes.open(self.source, self.tail, number)

    @property
    def alignment(self) -> Alignment:
        """How its columns fill the table's."""
        assert self.aligned is not None
        return self.aligned

    @cached_property
    def acid(self) -> bool:
        """Whether the rows have ACID columns."""
        return is_acid(self.tail.root)

    @cached_property
    def key_index(self) -> tuple[RowKey, ...] | None:
        """The entries of hive.acid.key.index, as `key_index` reads them."""
        return key_index(self.tail)

    @cached_property
    def row(self) -> TypeNode:
        """The user's columns as the file has them: all columns of an original file."""
        return row_struct(self.tail.root)

    @cached_property
    def rows_before(self) -> tuple[int, ...]:
        """The number of rows of the file before each stripe."""
        return tuple(accumulate((stripe.rows for stripe in self.tail.stripes), initial=0))

    @cached_property
    def ranges_true(self) -> bool:
        """Whether the ranges of the id columns of all stripes together are the file's, as every writer makes them.

        Statistics have no checksum, and a range that is too narrow would let deleted rows stay. This comparison shows
        such damage in a file of one stripe, and at the outer ends of the ranges in others.
        """
        tail = self.tail
        if not self.acid or not tail.stripe_statistics:
            return False
        pairs = zip(tail.stripes, tail.stripe_statistics, strict=True)
        stripes = [id_ranges(statistics) for stripe, statistics in pairs if stripe.rows]
        known = [ranges for ranges in stripes if ranges is not None]
        if not known or len(known) < len(stripes):
            return False
        columns = zip(*known, strict=True)
        joined = tuple((min(low for low, _ in column), max(high for _, high in column)) for column in columns)
        return joined == id_ranges(tail.file_statistics)


_ID_COLUMNS = range(1, 6)
"""operation, originalTransaction, bucket, rowId, currentTransaction."""

IdRanges = tuple[tuple[int, int], ...]
"""Lowest and highest value of each of the columns 1 to 5."""


def id_ranges(statistics: Sequence[Any]) -> IdRanges | None:
    """Return the ranges of the id columns by the statistics of a stripe or file; None unless all five are known."""
    if not statistics:
        return None
    ranges = [integer_range(statistics[column]) for column in _ID_COLUMNS]
    known = tuple(bounds for bounds in ranges if bounds is not None)
    return known if len(known) == len(ranges) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInputs:
    """The inputs that have rows, in order, and the full paths of those that count as empty.

    notes  for people, on how columns were matched
    """

    files: tuple[OpenInput, ...]
    empty: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def aligned(self) -> tuple[tuple[DataFile, Alignment], ...]:
        """Return each input of rows with its alignment, with which another task can open it again."""
        return tuple((opened.file, opened.alignment) for opened in self.files)


def memory_of(inputs: Iterable[OpenInput]) -> Memory:
    """Return the memory that the task may take, as its open inputs know it."""
    return next((file.source.memory for file in inputs), DEFAULT_MEMORY)


@contextmanager
def open_inputs(listed: tuple[DataFile, ...], files: InputFiles) -> Iterator[OpenInputs]:
    """Open every input with its tail. A zero-byte file counts as empty, as in Hive, and is reported."""
    inputs: list[OpenInput] = []
    empty: list[str] = []
    rows_before: dict[str, int] = {}
    stripes = OpenStripes()
    tails = 0
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
                # its writer died, and its transaction with it: no reader sees a row of it
                empty.append(files.full_path(file))
                continue
            tails += tail.memory_size
            source.memory.require(tails, f"the tails of {files.full_path(listed[0])} and {len(listed) - 1} more files")
            # originals of one bucket are numbered on in path order, raw deltas each within its directory
            first_row = rows_before.get(file.directory, 0)
            opened = OpenInput(file=replace(file, first_row=first_row), source=source, tail=tail, stripes=stripes)
            if not opened.acid and file.form is not FileForm.ORIGINAL:
                promised, schema = file.form.value, shown(tail.root)
                raise CorruptError(f"Cannot read {tail.name}: its name promises {promised}, and its schema is {schema}")
            if tail.rows:
                inputs.append(opened)
            if not opened.acid:
                rows_before[file.directory] = first_row + tail.rows
        yield OpenInputs(files=tuple(inputs), empty=tuple(empty))


KEY_INDEX = "hive.acid.key.index"
"""The name of the metadata entry with the last key of each stripe (Hive OrcRecordUpdater.KeyIndexBuilder)."""


def key_index(tail: Tail) -> tuple[RowKey, ...] | None:
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


def acid_metadata(last_keys: Iterable[RowKey], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """Return the three entries that Hive's readers look for (Hive OrcRecordUpdater.KeyIndexBuilder, AcidStats)."""
    entries = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in last_keys)
    return {
        "hive.acid.version": b"2",
        KEY_INDEX: entries.encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
    }
