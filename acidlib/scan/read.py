"""The rows of a split, as Arrow batches: ACID rows with their deletes applied, by the reader's list of write ids.

Source: Hive `VectorizedOrcAcidRowBatchReader`: a row is seen when its own write id (`currentTransaction`) is valid, and
no delete event of a valid write id has its key. Values are decoded by Arrow's ORC reader, keys by the kernels of
`orc/`, and only where they can matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.snapshots import all_committed
from acidlib.model.units import DataFile, FileForm, KeyRange, encode_bucket
from acidlib.orc.alignment import Alignment, align
from acidlib.orc.columns import Mask
from acidlib.orc.schema import parse_row_type
from acidlib.rewrite.deletes import read_deletes
from acidlib.rewrite.inputs import InputFiles, OpenInput, open_inputs
from acidlib.rewrite.keys import Keys, StripeKeys, kept_mask, row_masks
from acidlib.scan.source import arrow_file
from acidlib.scan.splits import Scan, Split
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
    """Yield the rows of the splits of one task, as `read_split` does; files that several of them need are kept."""
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
        """Yield the rows of a split."""
        scan = self._scan
        if scan.insert_only:
            raise RefusedError(f"Cannot read {scan.table}: it is insert-only")
        if scan.predicate is not None:
            raise RefusedError(f"Cannot read {scan.table}: a condition on its rows is not supported")
        if split.file.length == 0:
            return
        files = self._input_files(split.location)
        with closing(files.open(split.file)) as source:
            tail = files.tail(split.file, source)
            opened = OpenInput(file=split.file, source=source, tail=tail)
            if not opened.acid and split.file.form is not FileForm.ORIGINAL:
                raise CorruptError(
                    f"Cannot read {tail.name}: its name promises {split.file.form.value}, and its schema is {tail.root}"
                )
            numbers = [
                number
                for number, stripe in enumerate(tail.stripes)
                if split.start <= stripe.offset < split.end and stripe.rows
            ]
            if not numbers:
                return
            yield from self._rows(split, opened, numbers, files)

    def _input_files(self, location: Location) -> InputFiles:
        if location not in self._files:
            self._files[location] = InputFiles(location, self._stores.data(location))
        return self._files[location]

    def _rows(
        self, split: Split, opened: OpenInput, numbers: Sequence[int], files: InputFiles
    ) -> Iterator[pa.RecordBatch]:
        scan = self._scan
        columns = self._columns(split, opened)
        values = pa_orc.ORCFile(arrow_file(opened.source))
        stripes = [StripeKeys(opened, number) for number in numbers]
        for stripe in stripes if opened.acid else ():
            stripe.check_operations()
        deleted = self._deleted(split, opened, stripes, files)
        if not opened.acid and (scan.row_ids or len(deleted)):
            opened = replace(opened, file=_numbered(split, files))
            stripes = [StripeKeys(opened, number) for number in numbers]
        write_ids = all_committed(None) if split.all_valid else split.write_ids
        for stripe in stripes:
            keep = kept_mask(*row_masks(stripe, deleted, write_ids))
            if keep is None or keep.any():
                batch = self._batch(stripe, keep, values, columns, split)
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS)
            stripe.forget()

    def _deleted(self, split: Split, opened: OpenInput, stripes: Sequence[StripeKeys], files: InputFiles) -> Keys:
        """Return the keys of deleted rows that the stripes may hold."""
        if not split.deletes:
            return Keys.empty()
        if opened.acid:
            near = [_key_bounds(stripe) for stripe in stripes]
        else:
            file = split.file
            bucket = encode_bucket(file.bucket, file.statement_id)
            near = [((file.write_id, bucket, 0), (file.write_id, bucket, _LAST_ROW))]
        with open_inputs(split.deletes, files) as inputs:
            return read_deletes(inputs, split.file.bucket, split.write_ids, near).deleted_keys()

    def _columns(self, split: Split, opened: OpenInput) -> tuple[Alignment | None, ...]:
        """Return for each column of the result how the file fills it; None for a partition key."""
        scan, where = self._scan, opened.tail.name
        alignment = align(self._row, opened.row, where=where, generation=split.generation, matching=split.matching)
        by_name = {name.lower(): part for name, part in zip(self._row.field_names, alignment.children, strict=True)}
        keys = {key.name.lower() for key in scan.partition_keys}
        parts = tuple(None if name in keys else by_name[name] for name in scan.columns)
        for part in parts:
            if part is not None and part.source is not None and (part.converted or not part.copyable):
                raise RefusedError(
                    f"Cannot read {where}: its column {part.path} is {part.source} and the table's is {part.target}"
                )
        return parts

    def _batch(
        self,
        stripe: StripeKeys,
        keep: Mask | None,
        values: pa_orc.ORCFile,
        columns: Sequence[Alignment | None],
        split: Split,
    ) -> pa.RecordBatch:
        scan, opened = self._scan, stripe.file
        rows = stripe.rows if keep is None else int(np.count_nonzero(keep))
        row = opened.row
        prefix = "row." if opened.acid else ""
        in_file = {part.source.column: part for part in columns if part is not None and part.source is not None}
        names = {child.column: name for child, name in zip(row.children, row.field_names, strict=True)}
        stripe_values: dict[int, pa.Array] = {}
        if in_file:
            wanted = [prefix + names[column] for column in sorted(in_file)]
            batch = values.read_stripe(stripe.number, columns=wanted)
            if keep is not None:
                batch = batch.filter(pa.array(keep))
            arrays = batch.column(0).flatten() if opened.acid else batch.columns
            if len(arrays) != len(in_file):
                raise RefusedError(f"Cannot read {stripe.where}: names of its columns are not distinct")
            stripe_values = dict(zip(sorted(in_file), arrays, strict=True))
        partition = _partition_values(split)
        arrays = []
        if scan.row_ids:
            keys = stripe.ids()[0] if keep is None else stripe.ids()[0].select(keep)
            arrays.append(_row_ids(keys))
        for part, name, field in zip(columns, scan.columns, list(scan.schema)[len(arrays) :], strict=True):
            if part is None:
                text = partition[name]
                arrays.append(pa.array([text]).cast(field.type).take(pa.array(np.zeros(rows, dtype=np.int8))))
            elif part.source is None:
                arrays.append(pa.nulls(rows, field.type))
            else:
                arrays.append(stripe_values[part.source.column].cast(field.type))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=scan.schema)


def _partition_values(split: Split) -> dict[str, str]:
    parts = (part.partition("=") for part in (split.partition or "").split("/") if part)
    return {name.lower(): value for name, _, value in parts}


def _row_ids(keys: Keys) -> pa.Array:
    """Return keys as the structs that Hive's queries show."""
    arrays = (pa.array(keys.write_ids), pa.array(keys.buckets.astype(np.int32)), pa.array(keys.row_ids))
    return pa.StructArray.from_arrays(arrays, names=["writeid", "bucketid", "rowid"])


def _key_bounds(stripe: StripeKeys) -> KeyRange:
    """Return a range of all keys of a stripe; where statistics have none, keys are decoded and not kept."""
    known = stripe.known_range()
    if known is not None:
        return known
    arrays = stripe.ids()[0].arrays
    low, high = tuple(int(array.min()) for array in arrays), tuple(int(array.max()) for array in arrays)
    stripe.forget()
    return (low[0], low[1], low[2]), (high[0], high[1], high[2])


def _numbered(split: Split, files: InputFiles) -> DataFile:
    """Return a file without ACID columns with the row id of its first row."""
    rows = sum(files.tail(file).rows for file in split.before if file.length)
    return replace(split.file, first_row=rows)
