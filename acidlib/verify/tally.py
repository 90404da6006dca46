"""The tally of a bucket: the number of rows and delete events that its readers see at a moment, and a sum over them.

The sum does not depend on their order, so that two tallies are equal if the rows are, to their last bit. Files of
insert-only tables may be of any format: rows of ORC and Parquet, lines of text, else bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from marshal import dumps
from typing import Any

from acidlib.acid.names import Reader
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.datafiles import DataFiles
from acidlib.errors import CorruptError
from acidlib.location import Location
from acidlib.model.units import ColumnMatching, DataFile, JoinWay
from acidlib.verify.columns import EMPTY_ROW, parse_type, row_reader
from acidlib.verify.files import OrcRows, digest, file_row_type, lines, open_orc, parquet_rows

_MASK = (1 << 64) - 1
_INSERT, _DELETE = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Numbers of rows and delete events, the sums of `count_and_sum`, and the seconds of the task."""

    rows: int = 0
    row_sum: int = 0
    events: int = 0
    event_sum: int = 0
    seconds: float = field(default=0.0, compare=False)

    def with_more(self, other: Tally) -> Tally:
        """Return the sum of this tally and that of other buckets."""
        return Tally(
            rows=self.rows + other.rows,
            row_sum=(self.row_sum + other.row_sum) & _MASK,
            events=self.events + other.events,
            event_sum=(self.event_sum + other.event_sum) & _MASK,
            seconds=self.seconds + other.seconds,
        )

    def differs_from(self, other: Tally) -> str | None:
        """Return the difference between this tally, of before, and that of now, or None where they are equal."""
        for before, now, same, name in (
            (self.rows, other.rows, self.row_sum == other.row_sum, "rows"),
            (self.events, other.events, self.event_sum == other.event_sum, "delete events"),
        ):
            if before != now:
                return f"{before:,} {name} before and {now:,} now"
            if not same:
                return f"{now:,} {name}, as many as before, and not the same"
        return None


def count_and_sum(values: Iterable[Any]) -> tuple[int, int]:
    """Return the number of values and the sum of a hash of each, modulo 2 to the 64, in any order of them.

    They are made of numbers, texts, bytes, tuples, lists and dictionaries, each hashed to its last bit.
    """
    count = total = 0
    for value in values:
        # version 2 writes floating point numbers as they are, and ignores the identity of objects
        total += int.from_bytes(blake2b(dumps(value, 2), digest_size=8).digest())
        count += 1
    return count, total & _MASK


_Event = tuple[int, int, int, int, int, Any]
RowIdPrefix = tuple[int, int]
"""Write id and bucket property of a row, the first two parts of its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketView:
    """A bucket of a full ACID place as a reader sees it.

    files      with its rows, in the order in which originals are numbered
    deletes    files that may hold delete events of it
    applied    deleted rows are left out; else rows and delete events are counted separately
    write_ids  those that a reader sees
    results    directories of results, in which all write ids count: a rolled back row in them would reappear once its
               transaction is forgotten
    renumbered  bucket and row id of rows have changed and do not count, only the write id does
    columns    the table's as `struct<name:type,...>`; None: those of the file `schema` (None: there is no row)
    """

    location: Location
    bucket: int
    files: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    applied: bool
    write_ids: ValidWriteIdList
    results: tuple[str, ...]
    columns: str | None
    schema: DataFile | None
    matching: ColumnMatching
    reader: Reader
    renumbered: bool = False

    @property
    def length(self) -> int:
        """Bytes to read."""
        return sum(file.length for file in self.files + self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainView:
    """Files of a bucket number of an insert-only place, each with the way in which it is or was joined."""

    location: Location
    bucket: int
    files: tuple[tuple[DataFile, JoinWay], ...]

    @property
    def length(self) -> int:
        """Bytes to read."""
        return sum(file.length for file, _ in self.files)


def bucket_of(bucket_property: int) -> int:
    """Return the bucket of a row by the property in its id (Hive BucketCodec)."""
    version = bucket_property >> 29 & 7
    if version > 1:
        raise CorruptError(f"Cannot verify: the bucket property {bucket_property} is of version {version}")
    return bucket_property >> 16 & 0xFFF if version else bucket_property


def buckets_of_deletes(files: DataFiles, location: Location, file: DataFile) -> frozenset[int]:
    """Return the buckets of the rows that a delete file deletes."""
    with open_orc(files, location, file, columns=("bucket",)) as orc:
        return frozenset(map(bucket_of, {bucket for (bucket,) in orc.rows}))


def tally_of(view: BucketView, files: DataFiles) -> Tally:
    """Count a bucket. Raises CorruptError for unreadable files and for operations or keys in the wrong file."""
    deleted, events = _deletes(view, files)
    rows, row_sum = count_and_sum(_rows(view, files, deleted))
    counted = Tally() if view.applied else events
    return replace(counted, rows=rows, row_sum=row_sum)


class _Valid(dict[int, bool]):
    """Whether a write id counts; without a list every id does."""

    def __init__(self, write_ids: ValidWriteIdList | None) -> None:
        super().__init__()
        self._write_ids = write_ids

    def __missing__(self, write_id: int) -> bool:
        valid = self[write_id] = self._write_ids is None or self._write_ids.is_write_id_valid(write_id)
        return valid


def _visible(view: BucketView, files: tuple[DataFile, ...]) -> Iterator[tuple[DataFile, _Valid]]:
    """Yield the files of committed write ids, each with the write ids that count in it."""
    listed, everything = _Valid(view.write_ids), _Valid(None)
    for file in files:
        if not file.aborted:
            yield file, everything if file.directory in view.results else listed


def _deletes(view: BucketView, files: DataFiles) -> tuple[dict[RowIdPrefix, set[int]], Tally]:
    """Return the row ids of the deleted rows by key, or the tally of the delete events, each counted once."""
    deleted: dict[RowIdPrefix, set[int]] = {}
    events: set[tuple[int, int, int, int]] = set()
    for file, is_valid in _visible(view, view.deletes):
        with open_orc(files, view.location, file) as orc:
            for operation, write_id, bucket, row_id, current, row in orc.rows:
                if bucket_of(bucket) != view.bucket:
                    continue
                if operation != _DELETE or row is not None:
                    raise _misplaced(file, operation, (write_id, bucket, row_id))
                if not is_valid[current]:
                    continue
                if view.applied:
                    deleted.setdefault((write_id, bucket), set()).add(row_id)
                else:
                    events.add((write_id, bucket, row_id, current))
    count, total = count_and_sum(events)
    return deleted, Tally(events=count, event_sum=total)


def _rows(view: BucketView, files: DataFiles, deleted: dict[RowIdPrefix, set[int]]) -> Iterator[Any]:
    """Yield the rows of a view as its table has them, with their ids; renumbered rows with their write id alone."""
    if view.columns is not None:
        table = parse_type(view.columns)
    else:
        table = EMPTY_ROW if view.schema is None else file_row_type(files, view.location, view.schema)
    before: dict[str, int] = {}
    for file, is_valid in _visible(view, view.files):
        with open_orc(files, view.location, file) as orc:
            convert = row_reader(orc.row, table, view.matching, view.reader)
            events = _events(orc, file, is_valid) if orc.has_ids else _numbered(orc, file, is_valid, before)
            for event in events:
                if deleted and event[3] in deleted.get(event[1:3], ()):
                    continue
                row = event if convert is None else (*event[:5], convert(event[5]))
                yield (row[1], row[5]) if view.renumbered else row


def _events(orc: OrcRows, file: DataFile, is_valid: _Valid) -> Iterator[_Event]:
    for event in orc.rows:
        operation, write_id, bucket, row_id, current, row = event
        if operation != _INSERT or row is None:
            raise _misplaced(file, operation, (write_id, bucket, row_id))
        if is_valid[current]:
            yield event


def _numbered(orc: OrcRows, file: DataFile, is_valid: _Valid, before: dict[str, int]) -> Iterator[_Event]:
    """Number rows without ids over the files of their bucket, in each directory from the number `before` on."""
    bucket = 1 << 29 | file.bucket << 16 | file.statement_id
    valid = is_valid[file.write_id]
    count = before.get(file.directory, 0)
    for row in orc.rows:
        if valid:
            yield _INSERT, file.write_id, bucket, count, file.write_id, row
        count += 1
    before[file.directory] = count


def _misplaced(file: DataFile, operation: int, key: tuple[int, int, int]) -> CorruptError:
    return CorruptError(f"Cannot verify {file.path}: it holds operation {operation} of the row {key}")


def tally_of_plain(view: PlainView, files: DataFiles) -> Tally:
    """Count rows, lines or whole files. Raises CorruptError for unreadable files."""
    rows, row_sum = count_and_sum(_plain_values(view, files))
    return Tally(rows=rows, row_sum=row_sum)


def _plain_values(view: PlainView, files: DataFiles) -> Iterator[Any]:
    for file, way in view.files:
        if file.aborted or not file.length:
            continue
        match way:
            case JoinWay.STRIPES:
                with open_orc(files, view.location, file) as orc:
                    yield from orc.rows
            case JoinWay.ROW_GROUPS:
                yield from parquet_rows(files, view.location, file)
            case JoinWay.LINES:
                yield from lines(files, view.location, file)
            case JoinWay.WHOLE:
                yield digest(files, view.location, file)
