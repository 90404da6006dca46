"""The splits of a snapshot: which files, and which bytes of them, are read together, with what each needs beside it.

Splits are made from a listing alone. A split is a range of bytes, and has the stripes whose first byte lies in it, so
that no footer is read before its task runs (as Hadoop's splits of ORC files, Hive `OrcInputFormat`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from acidlib.acid.names import DeltaDir, Generation, Reader
from acidlib.acid.write_ids import RangePart, ValidWriteIdList
from acidlib.location import Location
from acidlib.model.tables import TableColumn
from acidlib.model.units import MEBIBYTE, ColumnMatching, DataFile, FileForm
from acidlib.planning.inputs import InputDirectory, Role

if TYPE_CHECKING:
    import pyarrow as pa

    from acidlib.scan.predicate import Predicate

ROW_ID = "row__id"
"""The name of the column of row ids, as Hive's queries have it (`VirtualColumn.ROWID`)."""

SPLIT_BYTES = 128 * MEBIBYTE
"""A file of more bytes is read by several splits of about so many."""

TASK_BYTES = 128 * MEBIBYTE
"""Small splits are read by one task, of about so many bytes."""

OPENING_BYTES = MEBIBYTE
"""Opening a file takes about as long as reading so many bytes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The part of a read that all of its splits share.

    table           for messages
    row_type        the columns of the table, as Hive's text `struct<name:type,...>`, partition keys left out
    columns         names of the columns of the result, in their order: the table's and partition keys, as asked for
    schema          of the result: with `row_ids` the column `ROW_ID` first, a struct<writeid: int64, bucketid: int32,
                    rowid: int64>, then `columns`
    predicate       rows for which it is not true need not be in the result
    exact           they are left out; otherwise whole stripes and files may be
    insert_only     the table's rows have no ids, and its files may be of any format
    input_format    the table's, where a metastore states it
    serde           the class that reads its rows, where a metastore states it
    properties      the table's and its SerDe's
    """

    table: str
    row_type: str
    columns: tuple[str, ...]
    schema: pa.Schema
    partition_keys: tuple[TableColumn, ...] = ()
    row_ids: bool = False
    predicate: Predicate | None = None
    exact: bool = True
    insert_only: bool = False
    input_format: str | None = None
    serde: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The stripes of one file whose first byte lies in [start, end), with all that decides which of its rows are seen.

    location   of the table or partition: paths of files are relative to it
    partition  its name, as `k=v/k2=v2`; None for a table without partitions
    write_ids  the reader's list
    all_valid  every write id that the file's directory may hold rows of is valid by that list
    before     files whose rows are numbered before those of a file without ACID columns, in their order
    deletes    files that may hold delete events for its rows
    """

    location: Location
    partition: str | None
    write_ids: ValidWriteIdList
    reader: Reader
    matching: ColumnMatching
    file: DataFile
    start: int
    end: int
    all_valid: bool = False
    before: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of the file that the split spans."""
        return self.end - self.start

    @property
    def weight(self) -> int:
        """Bytes that take as long to read as the split does, with the opening of its file."""
        return self.bytes + OPENING_BYTES


def place_splits(
    scan: Scan,
    directories: Sequence[InputDirectory],
    *,
    location: Location,
    partition: str | None,
    write_ids: ValidWriteIdList,
    reader: Reader,
    matching: ColumnMatching,
    split_bytes: int = SPLIT_BYTES,
) -> tuple[Split, ...]:
    """Return the splits of a place: those of one bucket together, for they share delete files, in the order of rows.

    directories  those that a reader reads, by a state of the reader's list, files with their logical lengths
    """
    events = [directory for directory in directories if directory.role is Role.DELETE_DELTA]
    splits = []
    for directory in directories:
        if directory.role is Role.DELETE_DELTA:
            continue
        later = [file for entry in events if _may_delete(entry, directory, reader) for file in entry.files]
        by_bucket: dict[int, tuple[DataFile, ...]] = {}
        all_valid = _all_valid(directory, write_ids)
        numbered: dict[int, list[DataFile]] = {}
        for file in directory.files:
            if file.bucket not in by_bucket:
                by_bucket[file.bucket] = _events_of(file.bucket, later, reader)
            deletes = by_bucket[file.bucket]
            before: tuple[DataFile, ...] = ()
            if file.form is FileForm.ORIGINAL and (scan.row_ids or deletes) and not scan.insert_only:
                before = tuple(numbered.setdefault(file.bucket, []))
                numbered[file.bucket].append(file)
            splits += [
                Split(
                    location=location,
                    partition=partition,
                    write_ids=write_ids,
                    reader=reader,
                    matching=matching,
                    file=file,
                    start=start,
                    end=end,
                    all_valid=all_valid,
                    before=before,
                    deletes=deletes,
                )
                for start, end in _ranges(file.length, split_bytes)
            ]
    return tuple(splits if scan.insert_only else sorted(splits, key=lambda split: split.file.bucket))


def _may_delete(events: InputDirectory, rows: InputDirectory, reader: Reader) -> bool:
    """Return whether readers apply the events of a delete delta to the rows of another directory.

    Hive 4 does where the events are of a later write id than the directory's first, or of a later statement of the same
    one (`VectorizedOrcAcidRowBatchReader`, `OrcSplit.parse`); Hive 3.1 always.
    """
    if reader is Generation.HIVE3 or not isinstance(rows.name, DeltaDir) or not isinstance(events.name, DeltaDir):
        return True
    last, first = events.name.max_write_id, rows.name.min_write_id
    later_statement = max(events.name.statement_id, 0) > max(rows.name.statement_id, 0)
    return last > first or (last == first and later_statement)


def _events_of(bucket: int, files: Sequence[DataFile], reader: Reader) -> tuple[DataFile, ...]:
    """Return those of some delete files that may hold events of a bucket.

    Hive 4 opens the one of the bucket's number (`OrcInputFormat`). Hive 3.1 writes events of unbucketed tables to files
    of any number, and opens all.
    """
    return tuple(file for file in files if reader is Generation.HIVE3 or file.bucket == bucket)


def _all_valid(directory: InputDirectory, write_ids: ValidWriteIdList) -> bool:
    """Return whether all rows in a directory are of valid write ids, by its name alone.

    A base is read only if all its rows are: those of one transaction that has committed, or those that a compaction
    took where nothing was open any more.
    """
    name = directory.name
    if not isinstance(name, DeltaDir):
        return True
    is_below = name.max_write_id <= write_ids.high_water_mark
    return is_below and write_ids.range_valid(name.min_write_id, name.max_write_id) is RangePart.ALL


def _ranges(length: int, split_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of about equal size that cover a file."""
    parts = max(1, round(length / split_bytes))
    for part in range(parts):
        yield length * part // parts, length * (part + 1) // parts


def packed(splits: Iterable[Split], *, bytes_per_task: int = TASK_BYTES) -> tuple[tuple[Split, ...], ...]:
    """Return the splits in groups, one for each task: neighbours together, about so many bytes.

    Neighbours are of one place and share delete files and numbered files, which a task then opens once.
    """
    listed = tuple(splits)
    total = sum(split.weight for split in listed)
    groups: list[list[Split]] = [[] for _ in range(max(1, round(total / bytes_per_task)))]
    done = 0
    for split in listed:
        # the group in whose equal share of the whole the middle of the split lies
        groups[(2 * done + split.weight) * len(groups) // (2 * total)].append(split)
        done += split.weight
    return tuple(tuple(group) for group in groups if group)
