"""The rows of a file of an insert-only table that is no ORC file: Parquet, or text of Hive's LazySimpleSerDe.

Source: Hive `HiveInputFormat`: the input format of the table decides how its files are read, whatever they are called.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from acidlib.datafiles import SourceFile
from acidlib.errors import RefusedError
from acidlib.model.tables import ORC_INPUT_FORMAT
from acidlib.orc.proto import MAGIC as ORC_MAGIC
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.parquet.footer import require_memory
from acidlib.planning.units import PARQUET_INPUT_FORMAT, TEXT_INPUT_FORMAT
from acidlib.scan.parquet_columns import INDEX_ACCESS, ParquetColumns
from acidlib.scan.parquet_int96 import columns_with_int96, with_int96_as_bytes
from acidlib.scan.partitions import partition_scalars
from acidlib.scan.pruning import partition_bounds
from acidlib.scan.source import ArrowStream, arrow_file
from acidlib.scan.splits import Scan, Split
from acidlib.scan.text_lines import TextColumns, TextFormat, split_of_lines

_PARQUET_MAGIC = b"PAR1"
_READ_ROWS = 65_536


class PlainFormat(enum.Enum):
    """What a file of an insert-only table is."""

    ORC = "ORC"
    PARQUET = "Parquet"
    TEXT = "text"


_FORMATS = {
    ORC_INPUT_FORMAT: PlainFormat.ORC,
    PARQUET_INPUT_FORMAT: PlainFormat.PARQUET,
    TEXT_INPUT_FORMAT: PlainFormat.TEXT,
}


def format_of(scan: Scan, source: SourceFile) -> PlainFormat:
    """Return the format of a file by the table's input format; without a metastore, by its first bytes.

    Raises RefusedError for a format that is not read.
    """
    if scan.input_format is not None:
        known = _FORMATS.get(scan.input_format)
        if known is None:
            raise RefusedError(
                f"Cannot read {scan.table}: its files are read by {scan.input_format}; ORC, Parquet and text are read"
            )
        return known
    start = source.read(0, min(4, source.length))
    if start[:3] == ORC_MAGIC:
        return PlainFormat.ORC
    if start == _PARQUET_MAGIC:
        return PlainFormat.PARQUET
    raise RefusedError(
        f"Cannot read {source.name}: it is neither ORC nor Parquet, and only a metastore knows of other formats"
    )


def read_plain(
    scan: Scan, split: Split, names: tuple[str, ...], source: SourceFile, codecs: str
) -> Iterator[pa.RecordBatch]:
    """Yield columns of the rows of a split of an open Parquet or text file, in the order of their names.

    Rows that the predicate of the scan excludes by statistics may be left out, and no others.

    codecs  that Hadoop has beside its own (`text_codecs.CODECS`)

    Raises CorruptError for a damaged file, RefusedError for one that cannot be read, with its path.
    """
    row = parse_row_type(scan.row_type, where=scan.table)
    is_parquet = format_of(scan, source) is PlainFormat.PARQUET
    parts = _parquet(scan, row, split, source, names) if is_parquet else _text(scan, row, split, source, names, codecs)
    for rows, arrays in parts:
        if names:
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))
        else:
            yield pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def _parquet(
    scan: Scan,
    row: TypeNode,
    split: Split,
    source: SourceFile,
    names: tuple[str, ...],
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield the columns of the row groups whose first byte lies in a split."""
    require_memory(source)
    stream = ArrowStream(source)
    with stream.raising_acid_errors(source.name):
        file = pq.ParquetFile(arrow_file(stream), page_checksum_verification=True)
        int96 = columns_with_int96(file.metadata)
        if int96:
            metadata = with_int96_as_bytes(file.metadata, source.name)
            file = pq.ParquetFile(arrow_file(stream), metadata=metadata, page_checksum_verification=True)
    groups = [group for group in range(file.metadata.num_row_groups) if split.start <= _start(file, group) < split.end]
    columns = ParquetColumns(
        file,
        row,
        names,
        reader=split.reader,
        int96=int96,
        by_position=scan.properties.get(INDEX_ACCESS, "").strip().lower() == "true",
        where=source.name,
    )
    if scan.predicate is not None:
        bounds = partition_bounds({name: value.as_py() for name, value in partition_scalars(scan, split).items()})
        groups = columns.groups_that_may_match(groups, scan.predicate, bounds)
    batches = columns.batches(groups, _READ_ROWS)
    while True:
        with stream.raising_acid_errors(source.name):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _start(file: pq.ParquetFile, group: int) -> int:
    """Return the first byte of a row group."""
    columns = file.metadata.row_group(group)
    first = columns.column(0)
    start: int = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
    return start


def _text(
    scan: Scan,
    row: TypeNode,
    split: Split,
    source: SourceFile,
    names: tuple[str, ...],
    codecs: str,
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield the columns of the lines of a split."""
    form = TextFormat.of(scan.table, scan.serde, scan.properties)
    columns = TextColumns(form, row, names, reader=split.reader, where=source.name)
    for lines in split_of_lines(source, split.file.path, form, split.start, split.end, codecs):
        yield from columns.batches(lines)
