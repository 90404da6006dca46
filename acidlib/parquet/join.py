"""Joining Parquet files: which may become one, their row groups under one new footer, and the proof of the result.

The pages of every row group are copied as they are, and the new footer has their new offsets. Layout of the result:
row groups, then for each input its bloom filters, column indexes and offset indexes, then the footer. Bytes that no
footer refers to are left out, and so are row groups without rows: older versions in Java, Hive 3.1's among them, fail
on such a row group between others (PARQUET-2219). So are bloom filters and page indexes that cannot be understood:
readers do without them (parquet-mr `BloomFilterReader`, `ColumnIndexStoreImpl`), or do not read them, as Hive 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeAlias, cast

from acidlib.datafiles import DataFiles, RangeCopier, SinkFile, SourceFile
from acidlib.errors import CorruptError, DefectError, RefusedError
from acidlib.parquet.footer import (
    BITSET_SIZE,
    BLOOM_FILTER_HEADER,
    CHUNK_FILTERS,
    CHUNK_INDEXES,
    FILE,
    MAGIC,
    OFFSET_INDEX,
    PAGE_LOCATIONS,
    PAGE_OFFSET,
    PAGE_SIZE,
    Chunk,
    ColumnChunkField,
    File,
    Footer,
    Group,
    Metadata,
    Region,
    RowGroup,
    read_footer,
    without_indexes,
)
from acidlib.parquet.thrift_compact import DamageError, Struct, decode, encode

MAX_ROW_GROUPS = 32767
"""`RowGroup.ordinal` has 16 bits."""
MAX_JOINED_FOOTER_BYTES = 32 << 20
"""Bytes of the footers of files that are joined: every reader holds the whole footer of the result."""
_MAX_HEADER_BYTES = 256
"""Bytes to read for a bloom filter's header, which has no stated length; today it has less than 20."""
_DECODED_INDEX = 100
"""Bytes of memory that a byte of an offset index takes: the least page of seven bytes is two structs."""
_MAX_ROWS = (1 << 63) - 1

_PAGES = (Metadata.DATA_PAGE, Metadata.DICTIONARY_PAGE, Metadata.INDEX_PAGE)
_OFFSETS_OF_A_CHUNK = {
    ColumnChunkField.FILE_OFFSET,
    ColumnChunkField.OFFSET_INDEX,
    ColumnChunkField.OFFSET_INDEX_LENGTH,
    ColumnChunkField.COLUMN_INDEX,
}

_Moved: TypeAlias = tuple[Chunk, Struct]
"""A chunk of an input, and its struct in the result, which is completed while its indexes are written."""


def differences(first: Footer, second: Footer) -> tuple[str, ...]:
    """Return the reasons why two files cannot become one, by their `identity`; none when they can."""
    reasons = [f"{footer.name} is copied as a whole: {footer.alone}" for footer in (first, second) if footer.alone]
    old_writer, new_writer = (_text(footer.struct.get(File.CREATED_BY)) for footer in (first, second))
    keys = sorted({_text(key) for key, _ in set(first.key_values) ^ set(second.key_values)})
    names = {
        File.VERSION: "another format version",
        File.SCHEMA: "another schema",
        File.CREATED_BY: f"another writer ({new_writer} instead of {old_writer})",
        File.COLUMN_ORDERS: "other column orders",
    }
    reasons += [name for field, name in names.items() if first.struct.get(field) != second.struct.get(field)]
    if first.key_values != second.key_values:
        reasons.append(f"other key-value metadata ({', '.join(keys) or 'a key twice'})")
    return tuple(reasons)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "none"


def join_files(sink: SinkFile, footers: Sequence[Footer], data: DataFiles) -> list[Footer]:
    """Write the rows of some files, in their order, as one file; a single file is copied byte for byte.

    The files are opened by the name and length of their footers, one at a time. The caller closes the sink, then
    proves the result with `check_joined`. Raises RefusedError for files that differ (`differences`).

    Return the footers without the indexes that are left out, each with the first reason.
    """
    if len(footers) == 1:
        with closing(data.open(footers[0].name, footers[0].length)) as source:
            sink.copy(source, 0, source.length)
        return [*footers]
    for footer in footers[1:]:
        if reasons := differences(footers[0], footer):
            raise RefusedError(f"Cannot join {footer.name} with {footers[0].name}: they differ in {'; '.join(reasons)}")
    row_groups = sum(len(footer.row_groups) for footer in footers)
    rows = sum(footer.rows for footer in footers)
    if row_groups > MAX_ROW_GROUPS or rows > _MAX_ROWS:
        raise RefusedError(
            f"Cannot join {len(footers)} files with {footers[0].name}: one file cannot hold {row_groups} "
            f"row groups of {rows} rows"
        )
    sink.write(MAGIC)
    groups: list[Struct] = []
    moved: list[list[_Moved]] = []
    for footer in footers:
        with closing(data.open(footer.name, footer.length)) as source:
            copier = RangeCopier(sink)
            moved.append([part for group in footer.row_groups for part in _copy_group(copier, source, group, groups)])
            copier.flush()
    carried = [*footers]
    for number, (footer, parts) in enumerate(zip(footers, moved, strict=True)):
        if any(chunk.bloom_filter or chunk.column_index.size or chunk.offset_index.size for chunk, _ in parts):
            with closing(data.open(footer.name, footer.length)) as source:
                carried[number] = _copy_indexes(sink, source, footer, parts)
    end = encode({**footers[0].struct, File.ROWS: rows, File.ROW_GROUPS: groups}, FILE)
    sink.write(end + len(end).to_bytes(4, "little") + MAGIC)
    return carried


def _copy_group(copier: RangeCopier, source: SourceFile, group: RowGroup, groups: list[Struct]) -> list[_Moved]:
    """Append the pages of a row group, in their order in the file, and its struct to the footer's."""
    by_offset = sorted(range(len(group.chunks)), key=lambda number: group.chunks[number].pages.start)
    starts = {number: copier.place(source, *group.chunks[number].pages) for number in by_offset}
    moved = [(chunk, _moved_chunk(chunk, starts[number])) for number, chunk in enumerate(group.chunks)]
    struct: Struct = {**group.struct, Group.COLUMNS: [column for _, column in moved]}
    if Group.FILE_OFFSET in struct:
        # not shifted but set: Java's Parquet 1.12.0 writes wrong ones (PARQUET-2078)
        struct[Group.FILE_OFFSET] = min(starts.values(), default=0)
    if Group.ORDINAL in struct:
        struct[Group.ORDINAL] = len(groups)
    groups.append(struct)
    return moved


def _moved_chunk(chunk: Chunk, start: int) -> Struct:
    """Return the struct of a chunk whose pages start at `start` now; the offsets of its indexes are not yet new."""
    shift = start - chunk.pages.start
    struct: Struct = {**chunk.struct, ColumnChunkField.METADATA: _shifted(chunk.metadata, shift)}
    if ColumnChunkField.FILE_OFFSET in struct:
        # deprecated: a page of the chunk, or a copy of its metadata after it, which is left out, or 0 for none
        offset = cast(int, struct[ColumnChunkField.FILE_OFFSET])
        struct[ColumnChunkField.FILE_OFFSET] = offset + shift if chunk.pages.start <= offset < chunk.pages.end else 0
    return struct


def _shifted(metadata: Struct, shift: int) -> Struct:
    """Return the metadata of a chunk with the offsets of its pages moved; 0, of some writers, means no page."""
    offsets = {field: cast(int, metadata.get(field, 0)) for field in _PAGES}
    return metadata | {field: offset + shift for field, offset in offsets.items() if offset > 0}


class _Sound(NamedTuple):
    """A chunk with the indexes that are carried: the region of its bloom filter, its offset index as it is to be."""

    chunk: Chunk
    bloom_filter: Region
    offset_index: bytes


def _copy_indexes(sink: SinkFile, source: SourceFile, footer: Footer, parts: Sequence[_Moved]) -> Footer:
    """Append the bloom filters and page indexes of an input, and set their offsets; return what is carried of it."""
    sound, left_out = _sound_indexes(source, footer, parts)
    copier = RangeCopier(sink)
    for carried, (_, struct) in zip(sound, parts, strict=True):
        metadata = cast(Struct, struct[ColumnChunkField.METADATA])
        for field in CHUNK_INDEXES - carried.chunk.struct.keys():
            struct.pop(field, None)
        for field in CHUNK_FILTERS - carried.chunk.metadata.keys():
            metadata.pop(field, None)
        if carried.bloom_filter.size:
            metadata[Metadata.BLOOM_FILTER] = copier.place(source, *carried.bloom_filter)
    for carried, (_, struct) in zip(sound, parts, strict=True):
        if carried.chunk.column_index.size:
            struct[ColumnChunkField.COLUMN_INDEX] = copier.place(source, *carried.chunk.column_index)
    copier.flush()
    for carried, (_, struct) in zip(sound, parts, strict=True):
        if carried.offset_index:
            struct[ColumnChunkField.OFFSET_INDEX] = sink.position
            struct[ColumnChunkField.OFFSET_INDEX_LENGTH] = len(carried.offset_index)
            sink.write(carried.offset_index)
    chunks = iter([carried.chunk for carried in sound])
    groups = [replace(group, chunks=tuple(islice(chunks, len(group.chunks)))) for group in footer.row_groups]
    return replace(footer, row_groups=tuple(groups), left_out=left_out)


def _sound_indexes(source: SourceFile, footer: Footer, parts: Sequence[_Moved]) -> tuple[list[_Sound], str]:
    """Return each chunk of an input with the indexes that are carried, and why others are left out.

    None is carried if together they are larger than the file: chunks that share an index get a copy each, and a damaged
    footer must not turn a small file into a large one.
    """
    faults: list[str] = []
    filtered: list[tuple[Chunk, Region]] = []
    for chunk, _ in parts:
        try:
            filtered.append((chunk, bloom_filter(source, footer, chunk)))
        except DamageError as damage:
            faults.append(str(damage))
            filtered.append((without_indexes(chunk, pages=False), Region()))
    held = sum(chunk.offset_index.size for chunk, _ in filtered)
    total = held + sum(region.size + chunk.column_index.size for chunk, region in filtered)
    excess = source.memory.excess(held)
    if total > footer.length or excess is not None:
        fault = (
            f"{total} bytes of indexes do not lie in it" if total > footer.length else f"its offset indexes: {excess}"
        )
        return [_Sound(without_indexes(chunk), Region(), b"") for chunk, _ in parts], fault
    sound = []
    for (chunk, region), (_, struct) in zip(filtered, parts, strict=True):
        index = b""
        try:
            if chunk.offset_index.size:
                first = cast(int, cast(Struct, struct[ColumnChunkField.METADATA])[Metadata.DATA_PAGE])
                index = moved_offset_index(source, chunk, first - cast(int, chunk.metadata[Metadata.DATA_PAGE]))
            sound.append(_Sound(chunk, region, index))
        except DamageError as damage:
            faults.append(str(damage))
            sound.append(_Sound(without_indexes(chunk, bloom_filter=False), region, b""))
    return sound, faults[0] if faults else ""


def bloom_filter(source: SourceFile, footer: Footer, chunk: Chunk) -> Region:
    """Return the header and bitset of a chunk's bloom filter (BloomFilter.md). Raises DamageError if they are damaged.

    The length is the header's, which every reader uses; `bloom_filter_length` is younger than bloom filters, and has to
    be the same where it is stated.
    """
    if not chunk.bloom_filter:
        return Region()
    where = f"the bloom filter at {chunk.bloom_filter}"
    limit = footer.data_end - chunk.bloom_filter
    data = source.read(chunk.bloom_filter, min(_MAX_HEADER_BYTES, limit))
    try:
        header, length, _ = decode(data, BLOOM_FILTER_HEADER)
    except DamageError as damage:
        raise DamageError(f"{where} cannot be read: {damage}") from None
    bits = cast(int, header[BITSET_SIZE])
    size = length + bits
    stated = cast(int, chunk.metadata.get(Metadata.BLOOM_FILTER_LENGTH, size))
    if bits <= 0 or size > limit or size != stated:
        raise DamageError(f"{where} has {bits} bytes of bits, and {stated} bytes by the footer")
    return Region(start=chunk.bloom_filter, size=size)


def moved_offset_index(source: SourceFile, chunk: Chunk, shift: int) -> bytes:
    """Return a chunk's offset index for its pages `shift` bytes further on.

    Raises DamageError for one that is damaged or takes too much memory, for pages outside the chunk, and for unknown
    fields: they could hold offsets in the file.
    """
    where = f"the offset index at {chunk.offset_index.start}"
    if (excess := source.memory.excess(_DECODED_INDEX * chunk.offset_index.size)) is not None:
        raise DamageError(f"{where} cannot be read: {excess}")
    data = source.read(chunk.offset_index.start, chunk.offset_index.size)
    try:
        index, length, unknown = decode(data, OFFSET_INDEX)
    except DamageError as damage:
        raise DamageError(f"{where} cannot be read: {damage}") from None
    if length != len(data):
        raise DamageError(f"{where} cannot be read: {len(data) - length} bytes follow it")
    if unknown:
        raise DamageError(f"{where} has unknown fields ({', '.join(unknown)})")
    pages = []
    for page in cast("list[Struct]", index[PAGE_LOCATIONS]):
        offset, size = cast(int, page[PAGE_OFFSET]), cast(int, page[PAGE_SIZE])
        if offset < chunk.pages.start or size <= 0 or offset + size > chunk.pages.end:
            raise DamageError(f"{where} has a page of {size} bytes at {offset}, which does not lie in the column's")
        pages.append({**page, PAGE_OFFSET: offset + shift})
    return encode({**index, PAGE_LOCATIONS: pages}, OFFSET_INDEX)


def check_joined(source: SourceFile, footers: Sequence[Footer]) -> Footer:
    """Read a result back, prove that it describes its rows as the inputs do, and return its footer.

    footers  of the inputs, as `join_files` returns them

    Every row group has to equal that of its input but for offsets. Every offset must have the same distance from the
    start of its pages, every index must lie inside the file and refer to these pages. Raises DefectError otherwise.
    """
    try:
        written = read_footer(source)
        problem = _problem(source, written, footers)
    except (CorruptError, RefusedError, DamageError) as error:
        raise DefectError(f"Cannot use {source.name}: it was written wrong: {error}") from error
    if problem:
        raise DefectError(f"Cannot use {source.name}: it was written wrong: {problem}")
    return written


def _problem(source: SourceFile, written: Footer, footers: Sequence[Footer]) -> str:
    """Return the first difference between a result and its inputs, or "" where there is none."""
    if len(footers) == 1:
        same = written.struct == footers[0].struct and written.length == footers[0].length
        return "" if same else f"it is no copy of {footers[0].name}"
    if any(written.identity != footer.identity for footer in footers) or written.alone:
        return "its metadata is not that of the inputs"
    inputs = [(footer, group) for footer in footers for group in footer.row_groups]
    rows = sum(footer.rows for footer in footers)
    if written.rows != rows or len(written.row_groups) != len(inputs):
        return f"it has {len(written.row_groups)} row groups, {written.rows} rows, and the inputs {len(inputs)}, {rows}"
    for number, (group, (footer, expected)) in enumerate(zip(written.row_groups, inputs, strict=True)):
        first = min((chunk.pages.start for chunk in group.chunks), default=0)
        placed = {Group.FILE_OFFSET: first, Group.ORDINAL: number}
        if any(group.struct.get(field, value) != value for field, value in placed.items()):
            return f"row group {number} has another offset or number"
        if _without_offsets(group) != _without_offsets(expected):
            return f"row group {number} is not as in {footer.name}"
        for chunk in group.chunks:
            bloom_filter(source, written, chunk)
            if chunk.offset_index.size:
                moved_offset_index(source, chunk, 0)
    return ""


def _without_offsets(group: RowGroup) -> Struct:
    """Return a row group with offsets of pages counted from their start, and all other offsets 0."""
    columns: list[Struct] = []
    for chunk in group.chunks:
        metadata = _shifted(chunk.metadata, -chunk.pages.start)
        metadata |= dict.fromkeys(metadata.keys() & {Metadata.BLOOM_FILTER}, 0)
        zeros = dict.fromkeys(chunk.struct.keys() & _OFFSETS_OF_A_CHUNK, 0)
        columns.append({**chunk.struct, ColumnChunkField.METADATA: metadata, **zeros})
    zeros = dict.fromkeys(group.struct.keys() & {Group.FILE_OFFSET, Group.ORDINAL}, 0)
    return {**group.struct, Group.COLUMNS: columns, **zeros}
