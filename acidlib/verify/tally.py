"""The tally of a bucket: rows and delete events that its readers see at one moment, and a sum over them.

The sum does not depend on their order, so that two tallies are equal where the rows are, to their last bit. Files of
insert-only tables may be of any format: rows of ORC and Parquet, lines of text, else bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from marshal import dumps
from time import perf_counter
from typing import Any

from acidlib.datafiles import DataFiles
from acidlib.errors import CorruptError
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.model.units import ColumnMatching, DataFile, JoinWay
from acidlib.verify.columns import EMPTY_ROW, parse_type, row_reader
from acidlib.verify.files import OrcRows, digest, lines, opened, parquet_rows, row_type

_MASK = (1 << 64) - 1
_INSERT, _DELETE = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Rows and delete events: how many, and the sum of a hash of each, modulo 2 to the 64; `seconds` of the task."""

    rows: int = 0
    row_sum: int = 0
    events: int = 0
    event_sum: int = 0
    seconds: float = field(default=0.0, compare=False)

    def with_more(self, other: Tally) -> Tally:
        """Return this one and another of other buckets as one."""
        return Tally(
            rows=self.rows + other.rows,
            row_sum=(self.row_sum + other.row_sum) & _MASK,
            events=self.events + other.events,
            event_sum=(self.event_sum + other.event_sum) & _MASK,
            seconds=self.seconds + other.seconds,
        )

    def differs_from(self, other: Tally) -> str | None:
        """Return how this one, of before, differs from that of now; None where nothing does."""
        for before, now, same, what in (
            (self.rows, other.rows, self.row_sum == other.row_sum, "rows"),
            (self.events, other.events, self.event_sum == other.event_sum, "delete events"),
        ):
            if before != now:
                return f"{before:,} {what} before and {now:,} now"
            if not same:
                return f"{now:,} {what}, as many as before, and not the same"
        return None


class Sum:
    """Adds up things, in whatever order they come."""

    def __init__(self) -> None:
        self.count = self.sum = 0

    def add_all(self, things: Iterable[Any]) -> None:
        """Add values that are made of numbers, texts, bytes, tuples, lists and dictionaries, each to its last bit."""
        count = total = 0
        for one in things:
            # version 2 writes floating point numbers as they are, and does not look at which objects are the same
            total += int.from_bytes(blake2b(dumps(one, 2), digest_size=8).digest())
            count += 1
        self.count += count
        self.sum = (self.sum + total) & _MASK


_Event = tuple[int, int, int, int, int, Any]
Key = tuple[int, int]
"""Write id and bucket property of a row; its row id is the third part of what it is known by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketView:
    """A bucket of a full ACID place as a reader sees it.

    files      with its rows, in the order in which originals are numbered
    deletes    files that may hold delete events of it
    applied    rows that are deleted are left out; else rows and delete events are counted, each for itself
    write_ids  rows and events of others are not there
    results    directories that hold none of others: what was rolled back would come back in them once it is forgotten,
               so there it counts
    renumbered  rows have other buckets and row ids than before, which do not count: only their write ids
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
    generation: Generation
    renumbered: bool = False

    @property
    def length(self) -> int:
        """Bytes to read."""
        return sum(file.length for file in self.files + self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainView:
    """Files of one bucket number of an insert-only place, each with the way in which it is or was joined."""

    location: Location
    bucket: int
    files: tuple[tuple[DataFile, JoinWay], ...]

    @property
    def length(self) -> int:
        """Bytes to read."""
        return sum(file.length for file, _ in self.files)


def bucket_of(bucket_property: int) -> int:
    """Return the bucket that the id of a row says it is in (Hive BucketCodec)."""
    version = bucket_property >> 29 & 7
    if version > 1:
        raise CorruptError(f"Cannot verify: the bucket property {bucket_property} is of version {version}")
    return bucket_property >> 16 & 0xFFF if version else bucket_property


def buckets_of_deletes(files: DataFiles, location: Location, file: DataFile) -> frozenset[int]:
    """Return the buckets of the rows that a delete file is about."""
    found: set[int] = set()
    for one in opened(files, location, file, columns=("bucket",)):
        found.update(bucket for (bucket,) in one.rows)
    return frozenset(map(bucket_of, found))


def tally_of(view: BucketView, files: DataFiles) -> Tally:
    """Count a bucket. CorruptError for what cannot be read, or stands where it must not."""
    start = perf_counter()
    if view.columns is not None:
        table = parse_type(view.columns)
    else:
        table = EMPTY_ROW if view.schema is None else row_type(files, view.location, view.schema)
    valid, everything = _Valid(view.write_ids), _Valid(None)
    deleted, events = _deletes(view, files, valid, everything)
    rows = Sum()
    before: dict[str, int] = {}
    for file in view.files:
        if file.aborted:
            continue
        is_valid = everything if file.directory in view.results else valid
        for one in opened(files, view.location, file):
            read = row_reader(one.row, table, view.matching, view.generation)
            if one.has_ids:
                found = _events(one, file, is_valid)
            else:
                first = before.get(file.directory, 0)
                found = _numbered(one, file, is_valid, first, before)
            if view.applied and deleted:
                found = (event for event in found if event[3] not in deleted.get(event[1:3], ()))
            if read is not None:
                found = ((*event[:5], read(event[5])) for event in found)
            rows.add_all(((event[1], event[5]) for event in found) if view.renumbered else found)
    counted = Tally() if view.applied else events
    return Tally(
        rows=rows.count,
        row_sum=rows.sum,
        events=counted.events,
        event_sum=counted.event_sum,
        seconds=perf_counter() - start,
    )


class _Valid(dict[int, bool]):
    """Which write ids count; without a list all of them."""

    def __init__(self, write_ids: ValidWriteIdList | None) -> None:
        super().__init__()
        self._write_ids = write_ids

    def __missing__(self, write_id: int) -> bool:
        found = self[write_id] = self._write_ids is None or self._write_ids.is_write_id_valid(write_id)
        return found


def _deletes(
    view: BucketView, files: DataFiles, valid: _Valid, everything: _Valid
) -> tuple[dict[Key, set[int]], Tally]:
    """Return the rows that are deleted, or the events that say so, each once."""
    deleted: dict[Key, set[int]] = {}
    events: set[tuple[int, int, int, int]] = set()
    for file in view.deletes:
        if file.aborted:
            continue
        is_valid = everything if file.directory in view.results else valid
        for one in opened(files, view.location, file):
            for operation, write_id, bucket, row_id, current, row in one.rows:
                if bucket_of(bucket) != view.bucket:
                    continue
                if operation != _DELETE or row is not None:
                    raise _wrong(file, operation, (write_id, bucket, row_id))
                if not is_valid[current]:
                    continue
                if view.applied:
                    deleted.setdefault((write_id, bucket), set()).add(row_id)
                else:
                    events.add((write_id, bucket, row_id, current))
    total = Sum()
    total.add_all(events)
    return deleted, Tally(events=total.count, event_sum=total.sum)


def _events(one: OrcRows, file: DataFile, is_valid: _Valid) -> Iterator[_Event]:
    for event in one.rows:
        operation, write_id, bucket, row_id, current, row = event
        if operation != _INSERT or row is None:
            raise _wrong(file, operation, (write_id, bucket, row_id))
        if is_valid[current]:
            yield event


def _numbered(one: OrcRows, file: DataFile, is_valid: _Valid, first: int, before: dict[str, int]) -> Iterator[_Event]:
    """Number rows without ids over the files of their bucket, one directory at a time."""
    bucket = 1 << 29 | file.bucket << 16 | file.statement_id
    count = first
    valid = is_valid[file.write_id]
    for row in one.rows:
        if valid:
            yield _INSERT, file.write_id, bucket, count, file.write_id, row
        count += 1
    before[file.directory] = count


def _wrong(file: DataFile, operation: int, key: tuple[int, int, int]) -> CorruptError:
    return CorruptError(f"Cannot verify {file.path}: it holds operation {operation} of the row {key}")


def tally_of_plain(view: PlainView, files: DataFiles) -> Tally:
    """Count rows, lines or whole files. CorruptError for what cannot be read."""
    start = perf_counter()
    total = Sum()
    for file, way in view.files:
        if file.aborted or not file.length:
            continue
        match way:
            case JoinWay.STRIPES:
                for one in opened(files, view.location, file):
                    total.add_all(one.rows)
            case JoinWay.ROW_GROUPS:
                total.add_all(parquet_rows(files, view.location, file))
            case JoinWay.LINES:
                total.add_all(lines(files, view.location, file))
            case JoinWay.WHOLE:
                total.add_all([digest(files, view.location, file)])
    return Tally(rows=total.count, row_sum=total.sum, seconds=perf_counter() - start)
