"""The rows of a split, as Arrow batches: ACID rows with their deletes applied, by the reader's list of write ids.

Source: Hive `VectorizedOrcAcidRowBatchReader`: a row is seen when its own write id (`currentTransaction`) is valid, and
no delete event of a valid write id has its key. Keys are decoded by the kernels of `orc/`, and only where they can
matter; values by `FileColumns`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pyarrow as pa

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import all_committed
from acidlib.datafiles import SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.location import Location
from acidlib.memory import memory_limited
from acidlib.model.text_codecs import CODECS
from acidlib.model.units import DataFile, FileForm, KeyRange, encode_bucket
from acidlib.orc.columns import Mask
from acidlib.orc.reader import StripeReader
from acidlib.orc.schema import TypeNode, parse_row_type, shown
from acidlib.rows.files import InputFiles, OpenInput
from acidlib.rows.row_ids import Keys, StripeKeys, kept_mask, row_masks
from acidlib.scan.columns import FileColumns, file_columns
from acidlib.scan.deletes import DeletedKeys
from acidlib.scan.partitions import constants, partition_scalars
from acidlib.scan.plain import PlainFormat, format_of, read_plain
from acidlib.scan.pruning import file_may_match, partition_bounds, stripe_may_match
from acidlib.scan.source import FetchedFiles, FetchedSource
from acidlib.scan.splits import ROW_ID, Scan, Split
from acidlib.stores.stores import Stores

BATCH_ROWS = 65_536
"""Most rows of a batch."""

MAX_ROW_TYPES = 64
"""Row types of files, with the columns chosen of each, that are kept."""

_LAST_ROW = (1 << 63) - 1


def read_split(scan: Scan, split: Split, stores: Stores) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, in batches of the scan's schema of at most `BATCH_ROWS` rows, none of them empty.

    Raises CorruptError for a damaged file, RefusedError for one that cannot be read, with its path.
    """
    return SplitReader(scan, stores).read(split)


def read_splits(scan: Scan, splits: Iterable[Split], stores: Stores) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the splits of one task, as `read_split` does; tails that several of them need are read once."""
    reader = SplitReader(scan, stores)
    for split in splits:
        yield from reader.read(split)


def read_task(scan: Scan, splits: Iterable[Split], stores: Stores) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the splits of one task of Spark, as `read_splits` does, in a worker of Python.

    It is held to the barrier of the memory where Arrow reads the files.
    """
    with memory_limited(stores.memory, scan.table) if scan.insert_only else nullcontext():
        yield from read_splits(scan, splits, stores)
    _freeze_what_is_loaded()


@cache
def _freeze_what_is_loaded() -> None:
    """Leave modules and kernels, which stay, out of the collection of garbage that PySpark makes after each task.

    With them a collection takes 0.1 s.
    """
    gc.collect()
    gc.freeze()


def read_table(scan: Scan, splits: Iterable[Split], stores: Stores) -> pa.Table:
    """Return the rows of the splits of one task as a table, as `read_splits` does."""
    return pa.Table.from_batches(list(read_splits(scan, splits, stores)), schema=scan.schema)


def read_stream(scan: Scan, splits: Iterable[Split], stores: Stores, _: str) -> bytes:
    """Return the rows of the splits of one task as a stream of Arrow's IPC format, which another process reads."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, scan.schema) as writer:
        for batch in read_splits(scan, splits, stores):
            writer.write_batch(batch)
    written: bytes = stream.getvalue().to_pybytes()
    return written


class SplitReader:
    """Reads splits of one scan, one after the other, in one task."""

    def __init__(self, scan: Scan, stores: Stores) -> None:
        self._scan = scan
        self._stores = stores
        self._row = parse_row_type(scan.row_type, where=scan.table)
        self._files: dict[Location, InputFiles] = {}
        self._deleted = DeletedKeys()
        self._columns = _ColumnsOfFiles(self._row)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, as `read_split` does."""
        scan, file = self._scan, split.file
        if scan.insert_only and scan.row_ids:
            raise RefusedError(f"Cannot read {ROW_ID} of {scan.table}: rows of an insert-only table have no ids")
        if file.length == 0:
            return
        files = self._input_files(split.location)
        result = _Result(scan, split)
        with closing(files.open(file)) as source:
            if scan.insert_only and format_of(scan, source) is not PlainFormat.ORC:
                names = result.names_in_file
                codecs = self._stores.configuration.get(CODECS, "")
                for batch in read_plain(scan, split, names, source, codecs):
                    yield from result.rows(dict(zip(names, batch.columns, strict=True)), batch.num_rows)
            else:
                yield from self._orc_rows(split, source, result, files)

    def _orc_rows(
        self, split: Split, source: SourceFile, result: _Result, files: InputFiles
    ) -> Iterator[pa.RecordBatch]:
        file = split.file
        tail = files.tail(file, source)
        opened = OpenInput(file=file, source=source, tail=tail)
        promised = "rows without ids" if self._scan.insert_only else file.form.value
        if opened.acid if self._scan.insert_only else (not opened.acid and file.form is FileForm.EVENTS):
            raise CorruptError(
                f"Cannot read {tail.name}: it should hold {promised}, and its schema is {shown(tail.root)}"
            )
        stripes = enumerate(tail.stripes)
        numbers = [n for n, stripe in stripes if split.start <= stripe.offset < split.end and stripe.rows]
        columns = _FileReader(self._columns, split, opened, result)
        numbers = columns.stripes_that_may_match(numbers)
        if numbers:
            yield from self._stripe_rows(split, opened, numbers, columns, files)

    def _input_files(self, location: Location) -> InputFiles:
        if location not in self._files:
            self._files[location] = InputFiles(location, FetchedFiles(self._stores.data(location)))
        return self._files[location]

    def _stripe_rows(
        self, split: Split, opened: OpenInput, numbers: Sequence[int], columns: _FileReader, files: InputFiles
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some stripes of a file."""
        may_be_deleted = bool(split.deletes)
        if not opened.acid:
            may_be_deleted = self._deleted.may_hold_keys(split, files, [_all_keys(split.file)])
            if self._scan.row_ids or may_be_deleted:
                opened = replace(opened, file=_numbered(split, files))
        stripes = [StripeKeys(opened, number) for number in numbers]
        for keys in stripes if opened.acid else ():
            keys.check_operations()
        deleted = Keys.empty()
        if may_be_deleted:
            deleted = self._deleted.near(split, files, [keys.key_range(keep=False) for keys in stripes])
        write_ids = all_committed(None) if split.all_valid or self._scan.insert_only else split.write_ids
        for keys in stripes:
            if opened.acid and may_be_deleted and split.reader is Generation.HIVE3:
                _require_own_bucket(keys)
            keep = kept_mask(*row_masks(keys, deleted, write_ids))
            if keep is None or keep.any():
                yield from columns.read(keys, keep)
            keys.forget()
            if isinstance(opened.source, FetchedSource):
                opened.source.forget()


class _Result:
    """The columns of a scan's result for one split, and the rows that are in it.

    partition  the values of the partition keys
    tested     names of the columns in the file by which rows are tested
    others     names of the other columns in the file that are in the result
    """

    def __init__(self, scan: Scan, split: Split) -> None:
        self.scan = scan
        self._split = split
        self.partition = partition_scalars(scan, split)
        self._predicate = scan.predicate if scan.exact else None
        in_predicate = frozenset[str]() if self._predicate is None else self._predicate.columns
        self.tested = tuple(sorted(in_predicate - self.partition.keys()))
        known = self.partition.keys() | self.tested
        self.others = tuple(name for name in scan.columns if name not in known)

    @property
    def names_in_file(self) -> tuple[str, ...]:
        """The names of all columns that are read from the file."""
        return self.tested + self.others

    def passed(self, arrays: Mapping[str, pa.Array], rows: int) -> pa.BooleanArray | None:
        """Return for each row whether it passes the predicate, by the columns `tested`; None where all do."""
        if self._predicate is None:
            return None
        batch = _batch({**arrays, **constants(self.partition, self._predicate.columns, rows)}, rows)
        try:
            passed = self._predicate.mask(batch).fill_null(False)
        except RefusedError as error:
            where = "" if self._split.partition is None else f"partition {self._split.partition} of "
            raise RefusedError(
                f"Cannot read {where}{self.scan.table} by {self._predicate.text!r}: {error.reason}"
            ) from None
        return None if passed.true_count == rows else passed

    def rows(self, arrays: Mapping[str, pa.Array], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield those of some rows that pass the predicate; `arrays` has all columns of the file."""
        passed = self.passed({name: arrays[name] for name in self.tested}, rows)
        if passed is not None:
            rows = passed.true_count
            arrays = {name: array.filter(passed) for name, array in arrays.items()}
        yield from self.batches(arrays, rows)

    def batches(self, arrays: Mapping[str, pa.Array], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield rows of the result, by the columns of the file, and row ids if they are in it."""
        schema = self.scan.schema
        columns = {**arrays, **constants(self.partition, self.scan.columns, rows)}
        if schema.names:
            batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        else:
            batch = _batch({}, rows)
        for start in range(0, rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


class _ColumnsOfFiles:
    """How the columns of files fill those of the table; files of the same columns, as most of a table are, alike."""

    def __init__(self, row: TypeNode) -> None:
        self._row = row
        self._known: dict[tuple[object, ...], tuple[TypeNode, FileColumns]] = {}

    def of(self, split: Split, opened: OpenInput, names: tuple[str, ...]) -> FileColumns:
        """Return how an open file of a split fills some columns; raises as `file_columns`."""
        row = opened.row
        # `parse_types` returns one tree for equal columns; while it is kept here, no other tree has its identity
        key = id(row), names, split.reader, split.matching
        if key not in self._known:
            if len(self._known) == MAX_ROW_TYPES:
                self._known.clear()
            columns = file_columns(
                self._row,
                names,
                row,
                reader=split.reader,
                matching=split.matching,
                where=opened.tail.name,
            )
            self._known[key] = row, columns
        return self._known[key][1]


class _FileReader:
    """Reads the columns of a result from the stripes of one ORC file.

    Rows are tested by the predicate's columns first: others are read only where a row passes.
    """

    def __init__(self, columns: _ColumnsOfFiles, split: Split, opened: OpenInput, result: _Result) -> None:
        self._opened = opened
        self._result = result
        self._columns_of = partial(columns.of, split, opened)
        self._tested, self._others = self._columns_of(result.tested), self._columns_of(result.others)

    def stripes_that_may_match(self, numbers: list[int]) -> list[int]:
        """Return those of some stripes in which statistics do not exclude that a row passes the predicate."""
        predicate, tail = self._result.scan.predicate, self._opened.tail
        if predicate is None:
            return numbers
        names = tuple(sorted(predicate.columns - self._result.partition.keys()))
        columns = dict(zip(names, self._columns_of(names).parts, strict=True))
        partition = partition_bounds({name: value.as_py() for name, value in self._result.partition.items()})
        if not file_may_match(predicate, tail, columns, partition):
            return []
        return [number for number in numbers if stripe_may_match(predicate, tail, number, columns, partition)]

    def read(self, keys: StripeKeys, keep: Mask | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stripe that are kept and in the result."""
        result = self._result
        arrays = self._read(result.tested, self._tested, keys, keep)
        passed = result.passed(arrays, _count(keys, keep))
        if passed is not None:
            if not passed.true_count:
                return
            arrays = {name: array.filter(passed) for name, array in arrays.items()}
            keep = _narrowed(keep, passed.to_numpy(zero_copy_only=False))
        arrays |= self._read(result.others, self._others, keys, keep)
        if result.scan.row_ids:
            ids, _ = keys.ids()
            arrays[ROW_ID] = _row_ids(ids if keep is None else ids.select(keep))
        yield from result.batches(arrays, _count(keys, keep))

    def _read(
        self, names: tuple[str, ...], columns: FileColumns, keys: StripeKeys, keep: Mask | None
    ) -> dict[str, pa.Array]:
        """Return columns of the rows of a stripe that are kept."""
        if not names:
            return {}
        stripe, source = self._opened.stripe(keys.number), self._opened.source
        if isinstance(source, FetchedSource):
            source.fetch(_streams(stripe, columns.columns))
        return dict(zip(names, columns.read(stripe, keep), strict=True))


def _require_own_bucket(stripe: StripeKeys) -> None:
    """Raise CorruptError for rows of another bucket than the file's name says, whose deletes are not read.

    Hive 3.1 applies these; Hive 4 does not, so its readers show the rows, as is done here.
    """
    bucket = stripe.file.file.bucket
    others = stripe.buckets() - {bucket}
    if others:
        raise CorruptError(
            f"Cannot read {stripe.where}: it holds rows of bucket {min(others)}, not only of {bucket} as its name "
            "says, and some may be deleted; INSERT OVERWRITE in Hive writes the table or partition anew"
        )


def _all_keys(file: DataFile) -> KeyRange:
    """Return the range of the keys that rows of a file without ACID columns may have."""
    bucket = encode_bucket(file.bucket, file.statement_id)
    return (file.write_id, bucket, 0), (file.write_id, bucket, _LAST_ROW)


def _numbered(split: Split, files: InputFiles) -> DataFile:
    """Return a file without ACID columns with the row id of its first row."""
    return replace(split.file, first_row=sum(files.tail(file).rows for file in split.before if file.length))


def _streams(stripe: StripeReader, columns: Iterable[int]) -> list[tuple[int, int]]:
    """Return the places of the data of some columns in the file, as offset and length."""
    return [
        (offset, length) for column in columns for _, offset, length in stripe.streams(column, index=False) if length
    ]


def _count(keys: StripeKeys, keep: Mask | None) -> int:
    return keys.rows if keep is None else int(np.count_nonzero(keep))


def _narrowed(keep: Mask | None, passed: Mask) -> Mask:
    """Return the mask of the rows that are kept and pass; `passed` has an entry for each row that is kept."""
    if keep is None:
        return passed
    narrowed = keep.copy()
    narrowed[keep] = passed
    return narrowed


def _row_ids(keys: Keys) -> pa.Array:
    """Return keys as the structs that Hive's queries show."""
    arrays = pa.array(keys.write_ids), pa.array(keys.buckets.astype(np.int32)), pa.array(keys.row_ids)
    return pa.StructArray.from_arrays(arrays, names=["writeid", "bucketid", "rowid"])


def _batch(arrays: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Return columns as a batch, which has so many rows even where there is no column."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
