"""INT96 of Parquet as the bytes that are stored.

Arrow takes the nanoseconds of a day for unsigned, so that a negative number, which Hive carries over to the day before,
becomes a time of five hundred years later that nothing tells from a true one. FIXED_LEN_BYTE_ARRAY is laid out and
encoded like INT96 (Encodings.md of parquet-format: PLAIN, dictionaries), and Arrow gives its bytes as they are.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from acidlib.errors import CorruptError
from acidlib.parquet.footer import FILE, MAGIC, SCHEMA_ELEMENT, ColumnChunkField, File, Group, Metadata, SchemaElement
from acidlib.parquet.thrift_compact import DamageError, Struct, decode, encode

INT96_BYTES = pa.binary(12)
"""The nanoseconds of the day, 8 bytes, and the Julian day number, 4 bytes; both little-endian and signed."""

_INT96, _FIXED_LEN_BYTE_ARRAY = 3, 7
"""Values of `Type` in parquet.thrift."""
_FILE = replace(FILE, nested={**FILE.nested, File.SCHEMA: SCHEMA_ELEMENT})


def columns_with_int96(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the names of the columns that are INT96 or have fields that are."""
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    return frozenset(leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96")


def with_int96_as_bytes(metadata: pq.FileMetaData, where: str) -> pq.FileMetaData:
    """Return the metadata of a file by which Arrow reads its INT96 columns as INT96_BYTES.

    Raises CorruptError where it cannot be decoded.
    """
    footer = pa.BufferOutputStream()
    metadata.write_metadata_file(footer)  # begins with MAGIC, ends with a length and MAGIC
    try:
        file, _, _ = decode(footer.getvalue().to_pybytes()[len(MAGIC) : -len(MAGIC) - 4], _FILE)
    except DamageError as damage:
        raise CorruptError(f"Cannot read the footer of {where}: {damage}") from None
    for element in cast("list[Struct]", file[File.SCHEMA]):
        if element.get(SchemaElement.TYPE) == _INT96:
            element[SchemaElement.TYPE], element[SchemaElement.TYPE_LENGTH] = (
                _FIXED_LEN_BYTE_ARRAY,
                INT96_BYTES.byte_width,
            )
    for group in cast("list[Struct]", file[File.ROW_GROUPS]):
        for column in cast("list[Struct]", group[Group.COLUMNS]):
            chunk = cast(Struct, column[ColumnChunkField.METADATA])
            if chunk[Metadata.TYPE] == _INT96:
                chunk[Metadata.TYPE] = _FIXED_LEN_BYTE_ARRAY
    changed = encode(file, _FILE)
    return pq.read_metadata(io.BytesIO(MAGIC + changed + len(changed).to_bytes(4, "little") + MAGIC))
