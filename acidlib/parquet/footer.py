"""The footer of a Parquet file: what it says of its row groups, and whether they may stand beside another file's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from acidlib.datafiles import SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.parquet import shapes
from acidlib.parquet.shapes import Column, File, Group, Metadata
from acidlib.parquet.thrift_compact import DamageError, Decoded, Struct, Value, decode, decode_list

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
MOST_FOOTER = 64 << 20
"""Bytes of the largest footer that is read: decoded it takes some ten times as much."""

_FIRST_READ = 64 * 1024
_TRAILER = 4 + len(MAGIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A range of bytes of a file. It is empty where a column chunk does not have what it is a range of."""

    start: int = 0
    size: int = 0

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.start + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column chunk: its pages, and where its indexes lie. Its bloom filter is known by its start alone; 0 = none."""

    struct: Struct
    pages: Region
    column_index: Region
    offset_index: Region
    bloom_filter: int

    @property
    def metadata(self) -> Struct:
        """Its ColumnMetaData."""
        return cast(Struct, self.struct[Column.METADATA])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group that has rows."""

    struct: Struct
    rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What readers interpret a whole file by; equal for all files that are joined, byte for byte.

    By created_by readers know which faults of a writer's statistics to expect; key_values holds Hive's time zone and
    calendar of INT96 and DATE. Key-value metadata has no order.
    """

    version: Value
    schema: Value
    created_by: Value | None
    column_orders: Value | None
    key_values: tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What the end of a Parquet file says of the rest.

    length      bytes of the file; size: of its footer
    row_groups  those with rows
    data_end    the first byte after everything but the footer
    alone       why the file can be copied as a whole only, else ""
    """

    name: str
    length: int
    size: int
    struct: Struct
    identity: Identity
    rows: int
    row_groups: tuple[RowGroup, ...]
    alone: str

    @property
    def data_end(self) -> int:
        return self.length - _TRAILER - self.size


def read_footer(source: SourceFile) -> Footer:
    """Read and check the footer of a file.

    Raises CorruptError when it is damaged or truncated, RefusedError for an encrypted file, one whose column chunks
    lie in other files (a `_metadata` summary), and a footer of more than MOST_FOOTER bytes.
    """
    where = source.name
    data = _footer_bytes(source)
    try:
        decoded = decode(data, shapes.FILE)
        struct = decoded.struct
        key_values, unknown = _key_values(struct)
        leaves = _leaves(cast(bytes, struct[File.SCHEMA]))
    except DamageError as damage:
        raise CorruptError(f"Cannot read the footer of {where}: because {damage}") from None
    if File.ENCRYPTION in struct or File.SIGNING_KEY in struct:
        raise RefusedError(f"Cannot read {where}: because it is encrypted")
    row_groups, rows = [], 0
    for number, group in enumerate(_structs(struct, File.ROW_GROUPS)):
        found = _row_group(group, leaves, source.length - _TRAILER - len(data), f"row group {number} of {where}")
        rows += found.rows
        if found.rows:
            row_groups.append(found)
    stated = _integer(struct, File.ROWS)
    if rows != stated:
        raise CorruptError(f"Cannot read {where}: because its row groups have {rows} rows and its footer says {stated}")
    _check_apart(row_groups, where)
    identity = Identity(
        version=struct[File.VERSION],
        schema=struct[File.SCHEMA],
        created_by=struct.get(File.CREATED_BY),
        column_orders=struct.get(File.COLUMN_ORDERS),
        key_values=key_values,
    )
    return Footer(
        name=where,
        length=source.length,
        size=len(data),
        struct=struct,
        identity=identity,
        rows=rows,
        row_groups=tuple(row_groups),
        alone=_alone(decoded, unknown, len(data)),
    )


def _footer_bytes(source: SourceFile) -> bytes:
    where = source.name
    if source.length < len(MAGIC) + _TRAILER:
        raise CorruptError(f"Cannot read {where}: because {source.length} bytes are too few for a Parquet file")
    size = min(source.length, _FIRST_READ)
    end = source.read(source.length - size, size)
    if end.endswith(ENCRYPTED_MAGIC):
        raise RefusedError(f"Cannot read {where}: because it is encrypted")
    if not end.endswith(MAGIC) or source.read(0, len(MAGIC)) != MAGIC:
        raise CorruptError(f"Cannot read {where}: because it does not start and end with PAR1")
    length = int.from_bytes(end[-_TRAILER : -len(MAGIC)], "little")
    if not 0 < length <= source.length - _TRAILER - len(MAGIC):
        raise CorruptError(f"Cannot read {where}: because a footer of {length} bytes does not lie inside it")
    if length > MOST_FOOTER:
        raise RefusedError(f"Cannot read {where}: because its footer has {length} bytes, more than {MOST_FOOTER}")
    if length + _TRAILER > size:
        return source.read(source.length - _TRAILER - length, length)
    return end[-_TRAILER - length : -_TRAILER]


def _key_values(struct: Struct) -> tuple[tuple[tuple[bytes, bytes | None], ...], tuple[str, ...]]:
    if File.KEY_VALUES not in struct:
        return (), ()
    pairs, unknown = decode_list(cast(bytes, struct[File.KEY_VALUES]), shapes.KEY_VALUE)
    found = [(cast(bytes, pair[1]), cast("bytes | None", pair.get(2))) for pair in pairs]
    return tuple(sorted(found, key=lambda pair: (pair[0], pair[1] is not None, pair[1] or b""))), unknown


def _leaves(schema: bytes) -> int:
    """The number of leaves, which is that of the column chunks in a row group; DamageError when it is no tree."""
    elements, _ = decode_list(schema, shapes.SCHEMA_ELEMENT)
    leaves, expected = 0, 1
    for element in elements:
        children = cast(int, element.get(5, 0))
        if not expected or children < 0:
            raise DamageError("its schema is no tree")
        expected += children - 1
        leaves += 1 in element
    if expected or not elements:
        raise DamageError("its schema is no tree")
    return leaves


def _row_group(struct: Struct, leaves: int, data_end: int, where: str) -> RowGroup:
    columns, rows = _structs(struct, Group.COLUMNS), _integer(struct, Group.ROWS)
    if len(columns) != leaves:
        raise CorruptError(f"Cannot read {where}: because it has {len(columns)} columns and its schema {leaves}")
    if rows < 0:
        raise CorruptError(f"Cannot read {where}: because it has {rows} rows")
    for column in columns:
        _check_here(column, where)
    # what a row group without rows says of its places need not be true: some writers give it a data page at 0
    chunks = [_chunk(column, data_end, f"column {i} in {where}") for i, column in enumerate(columns)] if rows else []
    return RowGroup(struct=struct, rows=rows, chunks=tuple(chunks))


def _check_here(column: Struct, where: str) -> None:
    if Column.CRYPTO_METADATA in column or Column.ENCRYPTED_METADATA in column:
        raise RefusedError(f"Cannot read {where}: because it is encrypted")
    if Column.FILE_PATH in column:
        path = cast(bytes, column[Column.FILE_PATH]).decode(errors="replace")
        raise RefusedError(f"Cannot read {where}: because its data lie in another file, {path!r}")
    if Column.METADATA not in column:
        raise CorruptError(f"Cannot read {where}: because a column has no metadata")


def _chunk(column: Struct, data_end: int, where: str) -> Chunk:
    metadata = cast(Struct, column[Column.METADATA])
    first = _integer(metadata, Metadata.DATA_PAGE)
    dictionary = _integer(metadata, Metadata.DICTIONARY_PAGE)
    # as every reader finds it; old writers leave out a dictionary's place or say 0, then it is at the data page's
    start = dictionary if 0 < dictionary < first else first
    pages = Region(start=start, size=_integer(metadata, Metadata.COMPRESSED_SIZE))
    if start < len(MAGIC) or pages.size <= 0 or pages.end > data_end:
        raise CorruptError(
            f"Cannot read {where}: because its {pages.size} bytes at {start} do not lie in the file's data"
        )
    for place in (first, dictionary, _integer(metadata, Metadata.INDEX_PAGE)):
        if place > 0 and not start <= place < pages.end:
            raise CorruptError(f"Cannot read {where}: because a page at {place} does not lie in the column's pages")
    bloom = _integer(metadata, Metadata.BLOOM_FILTER)
    if Metadata.BLOOM_FILTER in metadata and not len(MAGIC) <= bloom < data_end:
        raise CorruptError(f"Cannot read {where}: because a bloom filter at {bloom} does not lie in the file's data")
    return Chunk(
        struct=column,
        pages=pages,
        column_index=_region(column, Column.COLUMN_INDEX, Column.COLUMN_INDEX_LENGTH, data_end, where),
        offset_index=_region(column, Column.OFFSET_INDEX, Column.OFFSET_INDEX_LENGTH, data_end, where),
        bloom_filter=bloom,
    )


def _region(column: Struct, start: int, size: int, data_end: int, where: str) -> Region:
    if start not in column and size not in column:
        return Region()
    region = Region(start=_integer(column, start), size=_integer(column, size))
    if region.start < len(MAGIC) or region.size <= 0 or region.end > data_end:
        raise CorruptError(
            f"Cannot read {where}: because an index of {region.size} bytes at {region.start} does not lie in the data"
        )
    return region


def _check_apart(row_groups: list[RowGroup], where: str) -> None:
    """No byte is a page of two columns: otherwise a small file could grow without bound by being copied."""
    end = 0
    for pages in sorted((chunk.pages for group in row_groups for chunk in group.chunks), key=lambda p: p.start):
        if pages.start < end:
            raise CorruptError(f"Cannot read {where}: because the pages of two columns overlap at {pages.start}")
        end = pages.end


def _alone(decoded: Decoded, unknown_key_values: tuple[str, ...], size: int) -> str:
    unknown = (*decoded.unknown, *unknown_key_values)
    if unknown:
        # it may hold a place in the file, as the extensions of BinaryProtocolExtensions.md do
        return f"its footer has what this version does not know ({', '.join(unknown)})"
    if decoded.length != size:
        return f"{size - decoded.length} bytes follow its metadata"
    writer = cast(bytes, decoded.struct.get(File.CREATED_BY, b"")).decode(errors="replace")
    if writer.startswith("parquet-mr") and _version(writer) < (1, 2, 9):
        # IMPALA-694, PARQUET-816: the header of a dictionary page is missing in total_compressed_size
        return "its writer understated the sizes of columns"
    return ""


def _version(created_by: str) -> tuple[int, ...]:
    found = re.match(r"parquet-mr version (\d{1,9})\.(\d{1,9})\.(\d{1,9})", created_by, re.ASCII)
    return tuple(map(int, found.groups())) if found else (0,)


def _integer(struct: Struct, number: int) -> int:
    return cast(int, struct.get(number, 0))


def _structs(struct: Struct, number: int) -> list[Struct]:
    return cast("list[Struct]", struct[number])
