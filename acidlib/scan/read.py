"""The rows of a split, as Arrow batches: ACID rows with their deletes applied, by the reader's list of write ids.

Source: Hive `VectorizedOrcAcidRowBatchReader`: a row is seen when its own write id (`currentTransaction`) is valid, and
no delete event of a valid write id has its key. Keys are decoded by the kernels of `orc/`, and only where they can
matter; values by `FileColumns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.snapshots import all_committed
from acidlib.model.tables import PartitionName
from acidlib.model.units import DataFile, FileForm, KeyRange, encode_bucket
from acidlib.orc.columns import Mask
from acidlib.orc.reader import StripeReader
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.rewrite.deletes import read_deletes
from acidlib.rewrite.inputs import InputFiles, OpenInput, open_inputs
from acidlib.rewrite.keys import Keys, StripeKeys, kept_mask, row_masks
from acidlib.scan.columns import arrow_type, file_columns, partition_value
from acidlib.scan.pruning import file_may_match, partition_bounds, stripe_may_match
from acidlib.scan.source import ArrowStream, FetchedFiles, FetchedSource, arrow_file
from acidlib.scan.splits import ROW_ID, Scan, Split, packed
from acidlib.stores.stores import Stores

BATCH_ROWS = 65_536
"""Most rows of a batch."""

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


def read_all(scan: Scan, splits: Sequence[Split], stores: Stores, *, threads: int = 1) -> pa.Table:
    """Return the rows of all splits as one table, in the order of the splits; raises as `read_split`.

    threads  at most so many groups of splits are read at a time
    """
    groups = packed(splits)
    with ThreadPoolExecutor(max(1, min(threads, len(groups)))) as pool:
        batches = list(chain.from_iterable(pool.map(lambda group: list(read_splits(scan, group, stores)), groups)))
    return pa.Table.from_batches(batches, schema=scan.schema)


class SplitReader:
    """Reads splits of one scan, one after the other, in one task."""

    def __init__(self, scan: Scan, stores: Stores) -> None:
        self._scan = scan
        self._stores = stores
        self._row = parse_row_type(scan.row_type, where=scan.table)
        self._files: dict[Location, InputFiles] = {}

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, as `read_split` does."""
        scan, file = self._scan, split.file
        if scan.insert_only:
            raise RefusedError(f"Cannot read {scan.table}: it is insert-only")
        if file.length == 0:
            return
        files = self._input_files(split.location)
        with closing(files.open(file)) as source:
            tail = files.tail(file, source)
            opened = OpenInput(file=file, source=source, tail=tail)
            if not opened.acid and file.form is not FileForm.ORIGINAL:
                raise CorruptError(
                    f"Cannot read {tail.name}: its name promises {file.form.value}, and its schema is {tail.root}"
                )
            stripes = enumerate(tail.stripes)
            numbers = [n for n, stripe in stripes if split.start <= stripe.offset < split.end and stripe.rows]
            columns = _ChosenColumns(scan, self._row, split, opened)
            numbers = columns.stripes_that_may_match(numbers)
            if numbers:
                yield from self._rows(split, opened, numbers, columns, files)

    def _input_files(self, location: Location) -> InputFiles:
        if location not in self._files:
            self._files[location] = InputFiles(location, FetchedFiles(self._stores.data(location)))
        return self._files[location]

    def _rows(
        self, split: Split, opened: OpenInput, numbers: Sequence[int], columns: _ChosenColumns, files: InputFiles
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some stripes of a file."""
        stripes = [StripeKeys(opened, number) for number in numbers]
        for keys in stripes if opened.acid else ():
            keys.check_operations()
        deleted = _deleted_keys(split, opened, stripes, files)
        if not opened.acid and (self._scan.row_ids or len(deleted)):
            opened = replace(opened, file=_numbered(split, files))
            stripes = [StripeKeys(opened, number) for number in numbers]
        write_ids = all_committed(None) if split.all_valid else split.write_ids
        for keys in stripes:
            keep = kept_mask(*row_masks(keys, deleted, write_ids))
            if keep is None or keep.any():
                yield from columns.read(keys, keep)
            keys.forget()


class _ChosenColumns:
    """The columns of a scan in one file, and the stripes and rows of it that pass the scan's predicate.

    Rows are tested by the predicate's columns first: others are read only where a row passes.
    """

    def __init__(self, scan: Scan, row: TypeNode, split: Split, opened: OpenInput) -> None:
        self._scan = scan
        self._opened = opened
        self._predicate = scan.predicate
        self._partition = _partition(scan, split)
        in_predicate = frozenset[str]() if scan.predicate is None else scan.predicate.columns
        self._tested = tuple(sorted(in_predicate - self._partition.keys()))
        known = self._partition.keys() | (self._tested if scan.exact else ())
        self._others = tuple(name for name in scan.columns if name not in known)
        self._in_file = {
            names: file_columns(
                row,
                names,
                opened.row,
                generation=split.generation,
                matching=split.matching,
                where=opened.tail.name,
                acid=opened.acid,
            )
            for names in (self._tested, self._others)
        }
        self._stream = ArrowStream(opened.source)

    def stripes_that_may_match(self, numbers: list[int]) -> list[int]:
        """Return those of some stripes in which statistics do not exclude that a row passes the predicate."""
        predicate, tail = self._predicate, self._opened.tail
        if predicate is None:
            return numbers
        columns = dict(zip(self._tested, self._in_file[self._tested].parts, strict=True))
        partition = partition_bounds({name: value.as_py() for name, value in self._partition.items()})
        if not file_may_match(predicate, tail, columns, partition):
            return []
        return [number for number in numbers if stripe_may_match(predicate, tail, number, columns, partition)]

    @cached_property
    def _values(self) -> pa_orc.ORCFile:
        with self._stream.raising_acid_errors(self._opened.tail.name):
            return pa_orc.ORCFile(arrow_file(self._stream))

    def read(self, keys: StripeKeys, keep: Mask | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stripe that are kept and, in an exact scan, pass the predicate."""
        scan, arrays = self._scan, dict[str, pa.Array]()
        if self._predicate is not None and scan.exact:
            arrays = self._read_columns(self._tested, keys, keep)
            tested = arrays | self._constants(self._predicate.columns, _count(keys, keep))
            passed = self._predicate.mask(_batch(tested, _count(keys, keep))).fill_null(False)
            if passed.true_count == 0:
                return
            if passed.true_count < len(passed):
                arrays = {name: array.filter(passed) for name, array in arrays.items()}
                keep = _narrowed(keep, passed.to_numpy(zero_copy_only=False))
        rows = _count(keys, keep)
        arrays |= self._read_columns(self._others, keys, keep) | self._constants(scan.columns, rows)
        if scan.row_ids:
            ids, _ = keys.ids()
            arrays[ROW_ID] = _row_ids(ids if keep is None else ids.select(keep))
        batch = _batch({name: arrays[name] for name in scan.schema.names}, rows)
        for start in range(0, rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)

    def _read_columns(self, names: tuple[str, ...], keys: StripeKeys, keep: Mask | None) -> dict[str, pa.Array]:
        """Return columns of the rows of a stripe that are kept."""
        columns, source = self._in_file[names], self._opened.source
        if not columns.columns:
            return dict(zip(names, columns.read(None, self._opened.stripe(keys.number), keep), strict=True))
        stripe = self._opened.stripe(keys.number)
        if isinstance(source, FetchedSource):
            source.fetch(_streams(stripe, columns.columns))
        with self._stream.raising_acid_errors(keys.where):
            arrays = columns.read(self._values, stripe, keep)
        if isinstance(source, FetchedSource):
            source.forget()
        return dict(zip(names, arrays, strict=True))

    def _constants(self, names: Iterable[str], rows: int) -> dict[str, pa.Array]:
        """Return the partition keys of these names, as columns of so many rows."""
        values = {name: self._partition[name] for name in names if name in self._partition}
        return {
            name: pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type)
            for name, value in values.items()
        }


def _partition(scan: Scan, split: Split) -> dict[str, pa.Scalar]:
    """Return the values of the partition keys in a split, by their names."""
    if not scan.partition_keys:
        return {}
    texts = {name.lower(): text for name, text in PartitionName.parse(split.partition or "").pairs}
    types = parse_row_type(
        f"struct<{','.join(f'`{key.name}`:{key.type}' for key in scan.partition_keys)}>", where=scan.table
    )
    return {
        key.name: pa.scalar(partition_value(texts[key.name], key.type), arrow_type(node))
        for key, node in zip(scan.partition_keys, types.children, strict=True)
    }


def _deleted_keys(split: Split, opened: OpenInput, stripes: Sequence[StripeKeys], files: InputFiles) -> Keys:
    """Return the keys of deleted rows that the stripes may hold."""
    if not split.deletes:
        return Keys.empty()
    file = split.file
    if opened.acid:
        near = [_key_bounds(keys) for keys in stripes]
    else:
        bucket = encode_bucket(file.bucket, file.statement_id)
        near = [((file.write_id, bucket, 0), (file.write_id, bucket, _LAST_ROW))]
    with open_inputs(split.deletes, files) as inputs:
        return read_deletes(inputs, file.bucket, split.write_ids, near).deleted_keys()


def _key_bounds(stripe: StripeKeys) -> KeyRange:
    """Return a range of all keys of a stripe; where statistics have none, keys are decoded and not kept."""
    known = stripe.known_range()
    if known is not None:
        return known
    low, high = zip(*((int(array.min()), int(array.max())) for array in stripe.ids()[0].arrays), strict=True)
    stripe.forget()
    return (low[0], low[1], low[2]), (high[0], high[1], high[2])


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
