"""The rows of a split, as Arrow batches: ACID rows with their deletes applied, by the reader's list of write ids.

Source: Hive `VectorizedOrcAcidRowBatchReader`: a row is seen when its own write id (`currentTransaction`) is valid, and
no delete event of a valid write id has its key. Keys are decoded by the kernels of `orc/`, and only where they can
matter; values by Arrow's ORC reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.snapshots import all_committed
from acidlib.model.tables import PartitionName
from acidlib.model.units import DataFile, FileForm, KeyRange, encode_bucket
from acidlib.orc.alignment import align
from acidlib.orc.columns import Mask
from acidlib.orc.reader import StripeReader
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.rewrite.deletes import read_deletes
from acidlib.rewrite.inputs import InputFiles, OpenInput, open_inputs
from acidlib.rewrite.keys import Keys, StripeKeys, kept_mask, row_masks
from acidlib.scan.source import ArrowStream, FetchedFiles, FetchedSource, arrow_file
from acidlib.scan.splits import ROW_ID, Scan, Split
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


def read_all(scan: Scan, splits: Sequence[Split], stores: Stores) -> pa.Table:
    """Return the rows of all splits as one table, in the order of the splits; raises as `read_split`."""
    return pa.Table.from_batches(list(read_splits(scan, splits, stores)), schema=scan.schema)


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
            if numbers:
                yield from self._rows(split, opened, numbers, files)

    def _input_files(self, location: Location) -> InputFiles:
        if location not in self._files:
            self._files[location] = InputFiles(location, FetchedFiles(self._stores.data(location)))
        return self._files[location]

    def _rows(
        self, split: Split, opened: OpenInput, numbers: Sequence[int], files: InputFiles
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
        reader = _StripeRows(self._scan, self._row, split, opened)
        for keys in stripes:
            keep = kept_mask(*row_masks(keys, deleted, write_ids))
            if keep is None or keep.any():
                yield from reader.read(keys, keep)
            keys.forget()


class _StripeRows:
    """The rows of the stripes of one file, in the columns of the scan.

    Rows are tested by the columns of the predicate first: others are read only where a row passes.
    """

    def __init__(self, scan: Scan, row: TypeNode, split: Split, opened: OpenInput) -> None:
        self._scan = scan
        self._opened = opened
        self._partition = partition_scalars(scan, split)
        self._predicate = scan.predicate if scan.exact else None
        tested = () if self._predicate is None else tuple(sorted(self._predicate.columns - self._partition.keys()))
        others = tuple(name for name in scan.columns if name not in self._partition and name not in tested)
        self._tested, self._others = (
            PlainColumns(row, names, opened, split, scan.schema) if names else None for names in (tested, others)
        )
        self._stream = ArrowStream(opened.source)
        self._values = None
        if tested or others:
            with self._stream.raising_acid_errors(opened.tail.name):
                self._values = pa_orc.ORCFile(arrow_file(self._stream))

    def read(self, keys: StripeKeys, keep: Mask | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stripe that are kept, if they pass the predicate."""
        arrays = self._read_columns(self._tested, keys, keep)
        if self._predicate is not None:
            arrays |= self._constants(_count(keys, keep), self._predicate.columns)
            passed = self._predicate.mask(_batch(arrays, _count(keys, keep))).fill_null(False)
            if passed.true_count == 0:
                return
            if passed.true_count < len(passed):
                arrays = {name: array.filter(passed) for name, array in arrays.items()}
                keep = _narrowed(keep, passed.to_numpy(zero_copy_only=False))
        arrays |= self._read_columns(self._others, keys, keep)
        arrays |= self._constants(_count(keys, keep), self._scan.columns)
        if self._scan.row_ids:
            ids, _ = keys.ids()
            arrays[ROW_ID] = _row_ids(ids if keep is None else ids.select(keep))
        batch = _batch({name: arrays[name] for name in self._scan.schema.names}, _count(keys, keep))
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)

    def _read_columns(self, columns: PlainColumns | None, keys: StripeKeys, keep: Mask | None) -> dict[str, pa.Array]:
        if columns is None:
            return {}
        stripe, source = self._opened.stripe(keys.number), self._opened.source
        if isinstance(source, FetchedSource):
            source.fetch(_streams(stripe, columns.columns))
        with self._stream.raising_acid_errors(keys.where):
            arrays = columns.read(self._values, stripe, keep)
        if isinstance(source, FetchedSource):
            source.forget()
        return dict(zip(columns.names, arrays, strict=True))

    def _constants(self, rows: int, names: Iterable[str]) -> dict[str, pa.Array]:
        """Return the partition keys of these names, as columns of so many rows."""
        chosen = ((name, self._partition[name]) for name in names if name in self._partition)
        return {
            name: pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type) for name, value in chosen
        }


class PlainColumns:
    """Columns of a file with the names and types of the table's."""

    def __init__(self, row: TypeNode, names: tuple[str, ...], opened: OpenInput, split: Split, schema: pa.Schema):
        self.names = names
        where = opened.tail.name
        alignment = align(row, opened.row, where=where, generation=split.generation, matching=split.matching)
        by_name = {name.lower(): part for name, part in zip(row.field_names, alignment.children, strict=True)}
        self._parts = [by_name[name] for name in names]
        self._types = [schema.field(name).type for name in names]
        self._acid = opened.acid
        for part in self._parts:
            if part.source is not None and (part.converted or not part.copyable):
                raise RefusedError(
                    f"Cannot read {where}: its column {part.path} is {part.source} and the table's is {part.target}"
                )
        self._sources = sorted({part.source.column for part in self._parts if part.source is not None})
        by_column = dict(zip((child.column for child in opened.row.children), opened.row.field_names, strict=True))
        self._wanted = [("row." if opened.acid else "") + by_column[column] for column in self._sources]
        chosen = [child for child in opened.row.children if child.column in self._sources]
        self.columns = frozenset(node.column for child in chosen for node in child.walk())
        self.columns |= {0, opened.row.column}

    def read(self, values: pa_orc.ORCFile, stripe: StripeReader, keep: Mask | None) -> list[pa.Array]:
        """Return the columns of the rows of a stripe that are kept."""
        rows = stripe.stripe.rows if keep is None else int(np.count_nonzero(keep))
        arrays = {}
        if self._wanted:
            batch = values.read_stripe(stripe.number, columns=self._wanted)
            if keep is not None:
                batch = batch.filter(pa.array(keep))
            read = batch.column(0).flatten() if self._acid else batch.columns
            if len(read) != len(self._sources):
                raise RefusedError(f"Cannot read {stripe.where}: names of its columns are not distinct")
            arrays = dict(zip(self._sources, read, strict=True))
        return [
            pa.nulls(rows, kind) if part.source is None else arrays[part.source.column].cast(kind)
            for part, kind in zip(self._parts, self._types, strict=True)
        ]


def partition_scalars(scan: Scan, split: Split) -> Mapping[str, pa.Scalar]:
    """Return the values of the partition keys in a split, by their names."""
    if not scan.partition_keys:
        return {}
    values = {key.lower(): value for key, value in PartitionName.parse(split.partition or "").pairs}
    types = {name: scan.schema.field(name).type for name in scan.columns}
    return {key.name: pa.scalar(values[key.name]).cast(types.get(key.name, pa.string())) for key in scan.partition_keys}


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
