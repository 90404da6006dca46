"""The footer of a Parquet file: the structs of its metadata, and whether they may stand beside another file's.

Shapes list the structs that are decoded, by field id (parquet.thrift of parquet-format 2.12). Structs that no shape has
as nested are kept as they were written: statistics, logical types, sorting columns, page encodings. These hold no
offsets in the file, so that their unknown newer fields do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from acidlib.datafiles import SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.parquet.thrift_compact import DamageError, Shape, Struct, ThriftType, Value, decode, decode_list

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
MAX_FOOTER_BYTES = 64 << 20
"""Bytes of the largest footer that is read."""
_DECODED = 10
"""Bytes of memory that a byte of a footer takes once it is decoded."""

_FIRST_READ = 64 * 1024
_TRAILER = 4 + len(MAGIC)

_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = (
    ThriftType.I16,
    ThriftType.I32,
    ThriftType.I64,
    ThriftType.BINARY,
    ThriftType.LIST,
    ThriftType.STRUCT,
)


class Metadata:
    """Field ids of `ColumnMetaData`."""

    TYPE = 1
    COMPRESSED_SIZE = 7
    DATA_PAGE = 9
    INDEX_PAGE = 10
    DICTIONARY_PAGE = 11
    BLOOM_FILTER = 14
    BLOOM_FILTER_LENGTH = 15


class SchemaElement:
    """Field ids of `SchemaElement`."""

    TYPE = 1
    TYPE_LENGTH = 2
    CHILDREN = 5


class ColumnChunkField:
    """Field ids of `ColumnChunk`."""

    FILE_PATH = 1
    FILE_OFFSET = 2
    METADATA = 3
    OFFSET_INDEX = 4
    OFFSET_INDEX_LENGTH = 5
    COLUMN_INDEX = 6
    COLUMN_INDEX_LENGTH = 7
    CRYPTO_METADATA = 8
    ENCRYPTED_METADATA = 9


class Group:
    """Field ids of `RowGroup`."""

    COLUMNS = 1
    ROWS = 3
    FILE_OFFSET = 5
    ORDINAL = 7


class File:
    """Field ids of `FileMetaData`."""

    VERSION = 1
    SCHEMA = 2
    ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUES = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7
    ENCRYPTION = 8
    SIGNING_KEY = 9


CHUNK_INDEXES = frozenset(
    {
        ColumnChunkField.OFFSET_INDEX,
        ColumnChunkField.OFFSET_INDEX_LENGTH,
        ColumnChunkField.COLUMN_INDEX,
        ColumnChunkField.COLUMN_INDEX_LENGTH,
    }
)
"""Fields of `ColumnChunk` about its page index."""
CHUNK_FILTERS = frozenset({Metadata.BLOOM_FILTER, Metadata.BLOOM_FILTER_LENGTH})
"""Fields of `ColumnMetaData` about its bloom filter."""


def _kinds(*kinds: ThriftType) -> dict[int, ThriftType]:
    # field ids count from 1 without a gap in every one of these structs
    return dict(enumerate(kinds, 1))


METADATA = Shape(
    name="ColumnMetaData",
    kinds=_kinds(
        *(_I32, _LIST, _LIST, _I32, _I64, _I64, _I64, _LIST, _I64),
        *(_I64, _I64, _STRUCT, _LIST, _I64, _I32, _STRUCT, _STRUCT),
    ),
    required=frozenset({1, 2, 3, 4, 5, 6, 7, 9}),
)
COLUMN = Shape(
    name="ColumnChunk",
    kinds=_kinds(_BINARY, _I64, _STRUCT, _I64, _I32, _I64, _I32, _STRUCT, _BINARY),
    nested={3: METADATA},
)
GROUP = Shape(
    name="RowGroup",
    kinds=_kinds(_LIST, _I64, _I64, _LIST, _I64, _I64, _I16),
    required=frozenset({1, 2, 3}),
    nested={1: COLUMN},
)
FILE = Shape(
    name="FileMetaData",
    kinds=_kinds(_I32, _LIST, _I64, _LIST, _LIST, _BINARY, _LIST, _STRUCT, _BINARY),
    required=frozenset({1, 2, 3, 4}),
    nested={4: GROUP},
)
KEY_VALUE = Shape(name="KeyValue", kinds=_kinds(_BINARY, _BINARY), required=frozenset({1}))
SCHEMA_ELEMENT = Shape(
    name="SchemaElement",
    kinds=_kinds(_I32, _I32, _I32, _BINARY, _I32, _I32, _I32, _I32, _I32, _STRUCT),
    required=frozenset({4}),
)

PAGE_OFFSET, PAGE_SIZE = 1, 2
"""Field ids of `PageLocation`."""
PAGE_LOCATIONS = 1
"""Field id in `OffsetIndex`."""
PAGE_LOCATION = Shape(name="PageLocation", kinds=_kinds(_I64, _I32, _I64), required=frozenset({1, 2, 3}))
OFFSET_INDEX = Shape(name="OffsetIndex", kinds=_kinds(_LIST, _LIST), required=frozenset({1}), nested={1: PAGE_LOCATION})
BITSET_SIZE = 1
"""Field id in `BloomFilterHeader`."""
BLOOM_FILTER_HEADER = Shape(
    name="BloomFilterHeader",
    kinds=_kinds(_I32, _STRUCT, _STRUCT, _STRUCT),
    required=frozenset({1, 2, 3, 4}),
)


class Region(NamedTuple):
    """A range of bytes of a file; empty for an index or filter that a column chunk does not have."""

    start: int = 0
    size: int = 0

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.start + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column chunk with the regions of its pages and indexes, and the start of its bloom filter; 0 = none.

    The struct is without the fields of indexes and filters that it does not have: writers give some the offset 0, and
    readers for whom an index is of use find none elsewhere either.
    """

    struct: Struct
    pages: Region
    column_index: Region
    offset_index: Region
    bloom_filter: int
    alone: str

    @property
    def metadata(self) -> Struct:
        """Its ColumnMetaData."""
        return cast(Struct, self.struct[ColumnChunkField.METADATA])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group that has rows."""

    struct: Struct
    rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of a file.

    length      bytes of the file; size: of its footer
    key_values  the key-value metadata, sorted; it holds Hive's time zone and calendar of INT96 and DATE
    row_groups  those with rows
    alone       the reason why the file can only be copied as a whole, else ""
    left_out    why bloom filters or page indexes of it are left out of a result, else ""
    """

    name: str
    length: int
    size: int
    struct: Struct
    key_values: tuple[tuple[bytes, bytes | None], ...]
    rows: int
    row_groups: tuple[RowGroup, ...]
    alone: str
    left_out: str = ""

    @property
    def identity(self) -> tuple[Value | tuple[tuple[bytes, bytes | None], ...] | None, ...]:
        """The metadata by which readers interpret the whole file: equal, byte for byte, for files that are joined.

        The writer is part of it, for readers know the faults of statistics by it.
        """
        fields = (File.VERSION, File.SCHEMA, File.CREATED_BY, File.COLUMN_ORDERS)
        return (*(self.struct.get(field) for field in fields), self.key_values)

    @property
    def data_end(self) -> int:
        """The first byte after everything but the footer."""
        return self.length - _TRAILER - self.size


def require_memory(source: SourceFile) -> None:
    """Raise OverMemoryError for a footer that takes too much memory, before another reader decodes it."""
    if source.length >= _TRAILER:
        stated = int.from_bytes(source.read(source.length - _TRAILER, 4), "little")
        source.memory.require(_DECODED * min(stated, source.length), f"the footer of {source.name}")


def read_footer(source: SourceFile) -> Footer:
    """Read and check the footer of a file.

    What Hive's readers (parquet-mr) do not look at may be wrong: the file's number of rows, the place of an index page,
    sizes of columns that are too large. Such a file is copied as a whole (`alone`).

    Raises CorruptError when it is damaged or truncated, RefusedError for an encrypted file, one whose column chunks
    lie in other files (a `_metadata` summary), and a footer of more than MAX_FOOTER_BYTES bytes.
    """
    where = source.name
    if source.length < len(MAGIC) + _TRAILER:
        raise CorruptError(f"Cannot read {where}: {source.length} bytes are too few for a Parquet file")
    size = min(source.length, _FIRST_READ)
    end = source.read(source.length - size, size)
    if end.endswith(ENCRYPTED_MAGIC):
        raise RefusedError(f"Cannot read {where}: it is encrypted")
    if not end.endswith(MAGIC) or source.read(0, len(MAGIC)) != MAGIC:
        raise CorruptError(f"Cannot read {where}: it does not start and end with PAR1")
    footer_size = int.from_bytes(end[-_TRAILER : -len(MAGIC)], "little")
    data_end = source.length - _TRAILER - footer_size
    if not footer_size or data_end < len(MAGIC):
        raise CorruptError(f"Cannot read {where}: a footer of {footer_size} bytes does not lie inside it")
    source.memory.require(_DECODED * footer_size, f"the footer of {where}")
    if footer_size > MAX_FOOTER_BYTES:
        raise RefusedError(f"Cannot read {where}: its footer has {footer_size} bytes, more than {MAX_FOOTER_BYTES}")
    is_read = footer_size + _TRAILER <= size
    data = end[-_TRAILER - footer_size : -_TRAILER] if is_read else source.read(data_end, footer_size)
    try:
        struct, length, unknown = decode(data, FILE)
        pairs: list[Struct] = []
        if File.KEY_VALUES in struct:
            pairs, unknown_pairs = decode_list(cast(bytes, struct[File.KEY_VALUES]), KEY_VALUE)
            unknown += unknown_pairs
        leaves = _leaves(cast(bytes, struct[File.SCHEMA]))
    except DamageError as damage:
        raise CorruptError(f"Cannot read the footer of {where}: {damage}") from None
    if File.ENCRYPTION in struct or File.SIGNING_KEY in struct:
        raise RefusedError(f"Cannot read {where}: it is encrypted")
    groups = [
        _row_group(group, leaves, data_end, source.length, f"row group {number} of {where}")
        for number, group in enumerate(cast("list[Struct]", struct[File.ROW_GROUPS]))
    ]
    rows = sum(group.rows for group in groups)
    key_values = [(cast(bytes, pair[1]), cast("bytes | None", pair.get(2))) for pair in pairs]
    return Footer(
        name=where,
        length=source.length,
        size=footer_size,
        struct=struct,
        key_values=tuple(sorted(key_values, key=lambda pair: (pair[0], pair[1] is not None, pair[1] or b""))),
        rows=rows,
        row_groups=tuple(group for group in groups if group.rows),
        alone=_alone(struct, unknown, footer_size - length) or _forgiven(groups, _integer(struct, File.ROWS), data_end),
    )


def _leaves(schema: bytes) -> int:
    """Return the number of leaves of a schema, each a column chunk in a row group. Raises DamageError for no tree."""
    elements, _ = decode_list(schema, SCHEMA_ELEMENT)
    leaves, expected = 0, 1
    for element in elements:
        children = cast(int, element.get(SchemaElement.CHILDREN, 0))
        if not expected or children < 0:
            raise DamageError("its schema is no tree")
        expected += children - 1
        leaves += SchemaElement.TYPE in element
    if expected or not elements:
        raise DamageError("its schema is no tree")
    return leaves


def _row_group(struct: Struct, leaves: int, data_end: int, length: int, where: str) -> RowGroup:
    columns, rows = cast("list[Struct]", struct[Group.COLUMNS]), _integer(struct, Group.ROWS)
    if len(columns) != leaves:
        raise CorruptError(f"Cannot read {where}: it has {len(columns)} columns and its schema {leaves}")
    if rows < 0:
        raise CorruptError(f"Cannot read {where}: it has {rows} rows")
    for column in columns:
        if ColumnChunkField.CRYPTO_METADATA in column or ColumnChunkField.ENCRYPTED_METADATA in column:
            raise RefusedError(f"Cannot read {where}: it is encrypted")
        if ColumnChunkField.FILE_PATH in column:
            path = cast(bytes, column[ColumnChunkField.FILE_PATH]).decode(errors="replace")
            raise RefusedError(f"Cannot read {where}: its data lie in another file, {path!r}")
        if ColumnChunkField.METADATA not in column:
            raise CorruptError(f"Cannot read {where}: a column has no metadata")
    # offsets in a row group without rows need not be true: some writers give it a data page at 0
    known = enumerate(columns) if rows else ()
    chunks = tuple(_chunk(column, data_end, length, f"column {place} in {where}") for place, column in known)
    return RowGroup(struct=struct, rows=rows, chunks=chunks)


def _chunk(column: Struct, data_end: int, length: int, where: str) -> Chunk:
    metadata = cast(Struct, column[ColumnChunkField.METADATA])
    first = _integer(metadata, Metadata.DATA_PAGE)
    dictionary = _integer(metadata, Metadata.DICTIONARY_PAGE)
    # as every reader does: old writers omit the dictionary's offset or write 0, and it begins at the data page's
    start = dictionary if 0 < dictionary < first else first
    pages = Region(start=start, size=_integer(metadata, Metadata.COMPRESSED_SIZE))
    if start < len(MAGIC) or pages.size <= 0 or pages.end > length:
        raise CorruptError(f"Cannot read {where}: its {pages.size} bytes at {start} do not lie in the file's data")
    for place in (first, dictionary):
        if place > 0 and not start <= place < pages.end:
            raise CorruptError(f"Cannot read {where}: a page at {place} does not lie in the column's pages")
    bloom = _integer(metadata, Metadata.BLOOM_FILTER)
    has_bloom = len(MAGIC) <= bloom < data_end
    column_index = _region(column, ColumnChunkField.COLUMN_INDEX, ColumnChunkField.COLUMN_INDEX_LENGTH, data_end)
    offset_index = _region(column, ColumnChunkField.OFFSET_INDEX, ColumnChunkField.OFFSET_INDEX_LENGTH, data_end)
    index_page = _integer(metadata, Metadata.INDEX_PAGE)
    absent = {
        *((ColumnChunkField.COLUMN_INDEX, ColumnChunkField.COLUMN_INDEX_LENGTH) if not column_index.size else ()),
        *((ColumnChunkField.OFFSET_INDEX, ColumnChunkField.OFFSET_INDEX_LENGTH) if not offset_index.size else ()),
    }
    filters = () if has_bloom else CHUNK_FILTERS
    return Chunk(
        struct={
            **{field: value for field, value in column.items() if field not in absent},
            ColumnChunkField.METADATA: {field: value for field, value in metadata.items() if field not in filters},
        },
        pages=pages,
        column_index=column_index,
        offset_index=offset_index,
        bloom_filter=bloom if has_bloom else 0,
        alone=""
        if index_page <= 0 or start <= index_page < pages.end
        else f"an index page of it at {index_page} does not lie in the column's pages",
    )


def without_indexes(chunk: Chunk, *, pages: bool = True, bloom_filter: bool = True) -> Chunk:
    """Return a chunk as if it had no page index, no bloom filter, or neither.

    A column index is of no use without the offset index.
    """
    struct, metadata = chunk.struct, chunk.metadata
    if pages:
        struct = {field: value for field, value in struct.items() if field not in CHUNK_INDEXES}
    if bloom_filter:
        metadata = {field: value for field, value in metadata.items() if field not in CHUNK_FILTERS}
    return replace(
        chunk,
        struct={**struct, ColumnChunkField.METADATA: metadata},
        column_index=Region() if pages else chunk.column_index,
        offset_index=Region() if pages else chunk.offset_index,
        bloom_filter=0 if bloom_filter else chunk.bloom_filter,
    )


def _region(column: Struct, start: int, size: int, data_end: int) -> Region:
    """Return where an index lies, an empty region for one that does not lie in the file's data."""
    region = Region(start=_integer(column, start), size=_integer(column, size))
    return region if len(MAGIC) <= region.start < region.end <= data_end else Region()


def _forgiven(groups: Sequence[RowGroup], stated_rows: int, data_end: int) -> str:
    """Return what readers do not look at and is wrong, so that a file cannot be joined; "" where there is nothing."""
    rows = sum(group.rows for group in groups)
    if rows != stated_rows:
        return f"its row groups have {rows} rows and its footer says {stated_rows}"
    chunks = sorted((chunk for group in groups for chunk in group.chunks), key=lambda chunk: chunk.pages.start)
    # no byte may be a page of two columns: otherwise joined copies of a small file could grow without bound
    ends = [*(chunk.pages.start for chunk in chunks[1:]), *([data_end] if chunks else ())]
    for chunk, end in zip(chunks, ends, strict=True):
        if chunk.alone:
            return chunk.alone
        if chunk.pages.end > end:
            return f"the {chunk.pages.size} bytes of a column at {chunk.pages.start} overlap what follows them"
    return ""


def _alone(struct: Struct, unknown: tuple[str, ...], behind: int) -> str:
    """Return why a file cannot be joined, by its metadata and the number of bytes after that; "" where it can."""
    if unknown:
        # they may hold offsets in the file, as the extensions of BinaryProtocolExtensions.md do
        return f"its footer has unknown fields ({', '.join(unknown)})"
    if behind:
        return f"{behind} bytes follow its metadata"
    writer = cast(bytes, struct.get(File.CREATED_BY, b"")).decode(errors="replace")
    version = re.match(r"parquet-mr version (\d{1,9})\.(\d{1,9})\.(\d{1,9})", writer, re.ASCII)
    if writer.startswith("parquet-mr") and (version is None or tuple(map(int, version.groups())) < (1, 2, 9)):
        # IMPALA-694, PARQUET-816: the header of a dictionary page is missing in total_compressed_size
        return "its writer understated the sizes of columns"
    return ""


def _integer(struct: Struct, number: int) -> int:
    return cast(int, struct.get(number, 0))
