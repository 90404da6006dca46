"""The structs of Parquet's metadata that are looked into, by field id (parquet.thrift of parquet-format 2.12).

What is not listed as nested is kept as it was written: statistics, logical types, sorting columns, page encodings.
Those hold no place in the file, so that a field of theirs that is newer than this list does no harm.
"""

from __future__ import annotations

from acidlib.parquet.thrift_compact import Kind, Shape

_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = Kind.I16, Kind.I32, Kind.I64, Kind.BINARY, Kind.LIST, Kind.STRUCT


class Metadata:
    """Field ids of `ColumnMetaData`."""

    COMPRESSED_SIZE = 7
    DATA_PAGE = 9
    INDEX_PAGE = 10
    DICTIONARY_PAGE = 11
    BLOOM_FILTER = 14
    BLOOM_FILTER_LENGTH = 15


class Column:
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


def _kinds(*kinds: Kind) -> dict[int, Kind]:
    """Field ids count from 1 without a gap in every one of these structs."""
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
