"""Units of work of a compaction: a file to be made, from which inputs, and the result; with the id of an ACID row.

The encoded bucket property of a row id (the `bucket` column). Source: Hive `BucketCodec`. The top three bits are the
codec's version. Version 0 is the plain bucket number; version 1 has twelve bits of bucket (27..16) and twelve of
statement id (11..0), the bits between are reserved.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from acidlib.acid.names import Generation, Reader
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import CorruptError, RefusedError
from acidlib.location import Location
from acidlib.model.uploads import StagedUpload

RowKey = tuple[int, int, int]
"""Write id, bucket property and row id of a row."""

KeyRange = tuple[RowKey, RowKey]
"""The lowest and the highest key of a stripe or of a file."""

MAX_BUCKET = 4095
MAX_STATEMENT = 4095

_VERSION_SHIFT = 29
_V1 = 1 << _VERSION_SHIFT


def encode_bucket(bucket: int, statement: int = 0) -> int:
    """Return the version 1 property of a bucket (0..4095) and a statement id (0..4095, or -1 for none, stored as 0).

    Raises RefusedError for values that version 1 cannot hold.
    """
    if not 0 <= bucket <= MAX_BUCKET:
        raise RefusedError(f"Cannot encode bucket {bucket}: a row id holds buckets 0 to {MAX_BUCKET} only")
    if not -1 <= statement <= MAX_STATEMENT:
        raise RefusedError(f"Cannot encode statement {statement}: a row id holds ids up to {MAX_STATEMENT} only")
    return _V1 | bucket << 16 | max(statement, 0)


def decode_bucket(value: int) -> tuple[int, int, int]:
    """Return (bucket, statement id, codec version) of a property; CorruptError for versions other than 0 and 1."""
    version = value >> _VERSION_SHIFT
    if version == 0:
        return value, 0, 0
    if version == 1:
        return value >> 16 & MAX_BUCKET, value & MAX_STATEMENT, 1
    raise CorruptError(f"Cannot decode bucket property {value}: its codec version is neither 0 nor 1")


MEBIBYTE = 1 << 20


class FileForm(enum.Enum):
    """The contents of a data file: ACID events, or rows with ids by directory, file name and position."""

    EVENTS = "ACID events"
    ORIGINAL = "rows without ACID columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLength:
    """The side file of a data file that a streaming writer left open, or still has open.

    path, length  of the side file, relative to the location, and in bytes as listed
    data_length   bytes of the data file as listed; those behind the length in the side file must not be read
    """

    path: str
    length: int
    data_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One input data file.

    path       relative to the location of its table or partition
    directory  name of its base, delta or delete_delta directory; "" for an original file
    length     logical length in bytes: as listed, until a `flush_length` is read, then the length noted there
    bucket     number from the file's name
    form       by the file's name; a reader checks it against the file's columns
    write_id, statement_id  for the synthetic keys of rows without ACID columns (0 and 0 for original files)
    first_row  row id of the first of these rows, once the files before it have been read
    aborted    every write id of its directory is aborted: none of its rows stays, so it need not be readable
    modified   epoch seconds, as listed
    """

    path: str
    directory: str
    length: int
    bucket: int
    form: FileForm = FileForm.EVENTS
    write_id: int = 0
    statement_id: int = 0
    first_row: int = 0
    aborted: bool = False
    modified: float = 0.0
    flush_length: FlushLength | None = None


class JoinWay(enum.Enum):
    """How files of an insert-only table become one file."""

    STRIPES = "ORC stripes"
    ROW_GROUPS = "Parquet row groups"
    LINES = "lines of text"
    WHOLE = "whole files"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFacts:
    """The facts that decide with which other files a file of an insert-only table is joined.

    way        how it may be joined; WHOLE: it is copied as it is
    group_key  only files of equal keys are joined
    reason     why it is copied whole, or the property that joined files must have in common; else None
    share      its share of the most that one file may hold, at most 1
    """

    way: JoinWay
    group_key: str = ""
    reason: str | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMatching:
    """How readers find a table's columns in a file (ORC `OrcConf`, `Reader.Options`).

    by_position     by position, not by name (orc.force.positional.evolution)
    case_sensitive  names that differ in case are other names (orc.schema.evolution.case.sensitive)
    """

    by_position: bool
    case_sensitive: bool = True

    @classmethod
    def of(cls, reader: Reader) -> ColumnMatching:
        """Return the default: by position for Hive 4 (HiveConf), by name for Hive 3.1."""
        return cls(by_position=reader is Generation.HIVE4)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    """Settings of a rewrite; sizes are bytes.

    stripe_bytes      a joined stripe is not made larger than this (orc.stripe.size)
    copy_bytes        a stripe smaller than this is joined with its neighbours rather than copied
    stride            rows per row group where the inputs have none (orc.row.index.stride)
    block_bytes       compression block where the inputs have none, at most (orc.compress.size)
    block_enforced    blocks are not made smaller in tables of many columns (orc.buffer.size.enforce)
    compression       codec where the inputs do not show the table's (orc.compress)
    part_bytes        a bucket with more than two of these is rewritten by several tasks, each of about so many input
                      bytes; 0 = never
    bloom_columns     columns with bloom filters besides those with filters in the inputs: names separated by commas,
                      or `*` (orc.bloom.filter.columns)
    bloom_fpp         share of false positives in bloom filters, above 0 and below 1 (orc.bloom.filter.fpp); None =
                      as in the inputs, else Hive's default
    stated            those of stride, block_bytes and compression that were set by name: they win over the inputs'.
                      As one file has one codec, stride and block size, stripes with another codec or stride, or a
                      larger block, are recoded
    """

    stripe_bytes: int = 64 * MEBIBYTE
    copy_bytes: int = 256 * 1024
    stride: int = 10_000
    block_bytes: int = 256 * 1024
    block_enforced: bool = False
    compression: str = "ZLIB"
    part_bytes: int = 0
    bloom_columns: str = ""
    bloom_fpp: float | None = None
    stated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A bucket file to make.

    location     of the table or partition: the paths of its files are relative to it
    directory    name of the result's directory, e.g. base_0000005
    bucket       number of the file
    is_delete    the result holds delete events (the delete half of a minor compaction), else rows
    inputs       in merged order: base or originals first, then deltas
    deletes      files that may hold delete events for this bucket; applied only when `collapse`
    collapse     major: deleted rows go, and the events with them; minor: all committed events stay
    schema       the input whose columns are the table's where there is no `row_type`
    keep_empty   a file is written even when no row is left (Hive 3.1 does)
    write_ids    the compactor's list: rows of aborted ids go
    row_type     the table's columns, which the result has, as Hive's text `struct<name:type,...>`. None = unknown: the
                 columns are those of the files, which all have to agree with `schema` in names
    matching     how the table's readers find its columns in files
    """

    location: Location
    directory: str
    bucket: int
    is_delete: bool
    inputs: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    collapse: bool
    schema: DataFile
    reader: Reader
    keep_empty: bool
    write_ids: ValidWriteIdList
    settings: RewriteSettings
    matching: ColumnMatching
    row_type: str | None = None

    @property
    def file_name(self) -> str:
        """Name of the result's file; never with an attempt suffix."""
        return f"bucket_{self.bucket:05d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinUnit:
    """A file of an insert-only table to make.

    location   of the table or partition: the paths of its files are relative to it
    directory  name of the result's directory
    file_name  of the result, such as 000000_0
    bucket     number that the inputs' names have, 0 where a name has none
    inputs     in order: base or originals first, then deltas; a single file where `way` is WHOLE
    reason     why the inputs are not joined with others of their bucket, else None
    """

    location: Location
    directory: str
    file_name: str
    bucket: int
    way: JoinWay
    inputs: tuple[DataFile, ...]
    reader: Reader
    settings: RewriteSettings
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeFacts:
    """The facts of one input stripe by which its action is planned.

    file, number    index into the unit's inputs, and the stripe's number in that file
    rows, length    rows, and bytes of index, data and footer
    deleted, aborted  rows to leave out
    timezone        of the writer; stripes that hold timestamps are joined only with those of the same one
    no_copy         why the stripe may not be copied, or None
    column_changes  changes of a copy's columns ("row ids that are added", ...), or None
    first           the first row, where only a part of the stripe is an input
    decoded         bytes of memory that its largest column takes, about
    """

    file: int
    number: int
    rows: int
    length: int
    deleted: int
    aborted: int
    timezone: str
    no_copy: str | None
    column_changes: str | None = None
    first: int = 0
    decoded: int = 0

    @property
    def kept(self) -> int:
        """Rows that stay."""
        return self.rows - self.deleted - self.aborted


@dataclass(frozen=True, slots=True)
class FilterSize:
    """Bits of the bloom filter of one row group, a multiple of 64, and the number of them that each value sets."""

    bits: int
    functions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeAction:
    """The action for neighbouring stripes, with its reason: one is copied, or one or more are rewritten into one."""

    copy: bool
    stripes: tuple[StripeFacts, ...]
    reason: str

    @property
    def length(self) -> int:
        """Input bytes."""
        return sum(stripe.length for stripe in self.stripes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """A stripe action as people and documents are shown it."""

    file: str
    """The input."""
    first_stripe: int
    stripes: int
    """The first of its stripes, and their number."""
    action: Literal["copy", "rewrite"]
    """`copy` or `rewrite`."""
    bytes: int
    rows: int | None
    """Bytes and rows of these stripes."""
    deleted: int
    aborted: int
    """Rows of them that are left out, as deleted and as rolled back."""
    reason: str
    """Why."""

    @property
    def verb(self) -> Literal["copy", "rewrite", "drop"]:
        """What becomes of the stripes: nothing is written of one to rewrite of which no row is left."""
        is_emptied = self.action == "rewrite" and self.rows == self.deleted + self.aborted
        return "drop" if is_emptied else self.action

    @property
    def done(self) -> str:
        """The verb as what has become of the stripes."""
        return {"copy": "copied", "rewrite": "rewritten", "drop": "dropped"}[self.verb]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The result of one unit, or in a dry run the expected one. Sizes are bytes, `seconds` those inside the task.

    file_name  of the result in its directory
    path       of the written file; None when there is none
    upload     on S3, the upload that becomes that file
    rows_in, rows_out  None where the rows of a format are not counted
    empty_files  inputs that count as empty: of zero bytes, or of aborted write ids and either unreadable or with
                 columns of their own
    notes      notes for people on how inputs were read
    """

    directory: str
    file_name: str
    bucket: int
    is_delete: bool
    path: str | None
    length: int
    upload: StagedUpload | None = None
    rows_in: int | None = 0
    rows_deleted: int = 0
    rows_aborted: int = 0
    rows_out: int | None = 0
    events_in: int = 0
    events_aborted: int = 0
    duplicate_events: int = 0
    events_out: int = 0
    bytes_copied: int = 0
    bytes_rewritten: int = 0
    stripes_copied: int = 0
    stripes_rewritten: int = 0
    seconds: float = 0.0
    actions: tuple[PlannedAction, ...] = ()
    empty_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_content(self) -> bool:
        """Whether the file holds rows or events; a file whose rows are not counted does."""
        return self.events_out > 0 if self.is_delete else self.rows_out is None or self.rows_out > 0
