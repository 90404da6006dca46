"""The protobuf messages of ORC: file tail, stripe footer, row index (ORC specification, "ORC Protobuf Definitions").

The descriptors are built when the module is imported, so that no generated code is bound to one protobuf release.
Enumerations are declared as integers: a kind that this version does not know stays visible and can be refused.
String statistics are declared as bytes (same wire format): real files hold bounds that are not valid UTF-8.
"""

from __future__ import annotations

import enum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MAGIC = b"ORC"


class Kind(enum.IntEnum):
    """Type kinds of `Type.kind`."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


class StreamKind(enum.IntEnum):
    """Stream kinds of `Stream.kind`."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8
    ENCRYPTED_INDEX = 9
    ENCRYPTED_DATA = 10


INDEX_STREAMS = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})


class Encoding(enum.IntEnum):
    """Column encodings of `ColumnEncoding.kind`."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


class BloomEncoding(enum.IntEnum):
    """What `ColumnEncoding.bloom_encoding` says of the column's BLOOM_FILTER_UTF8 (ORC `BloomFilterIO.Encoding`)."""

    ORIGINAL = 0
    UTF8_UTC = 1


class Compression(enum.IntEnum):
    """Compression kinds of `PostScript.compression`."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


class Calendar(enum.IntEnum):
    """Calendars of `Footer.calendar`; unknown means the hybrid Julian/Gregorian one, which older writers used."""

    UNKNOWN = 0
    JULIAN_GREGORIAN = 1
    PROLEPTIC_GREGORIAN = 2


GREGORIAN_START_DAYS = -141_427
"""1582-10-15 in days from 1970-01-01: from there on both calendars agree."""


# name: "type number [repeated|packed]"; a type that is no scalar names another message
_MESSAGES: dict[str, dict[str, str]] = {
    "IntegerStatistics": {"minimum": "sint64 1", "maximum": "sint64 2", "sum": "sint64 3"},
    "DoubleStatistics": {"minimum": "double 1", "maximum": "double 2", "sum": "double 3"},
    "StringStatistics": {
        "minimum": "bytes 1",
        "maximum": "bytes 2",
        "sum": "sint64 3",
        "lower_bound": "bytes 4",
        "upper_bound": "bytes 5",
    },
    "BucketStatistics": {"count": "uint64 1 packed"},
    "DecimalStatistics": {"minimum": "string 1", "maximum": "string 2", "sum": "string 3"},
    "DateStatistics": {"minimum": "sint32 1", "maximum": "sint32 2"},
    "TimestampStatistics": {
        "minimum": "sint64 1",
        "maximum": "sint64 2",
        "minimum_utc": "sint64 3",
        "maximum_utc": "sint64 4",
        "minimum_nanos": "int32 5",
        "maximum_nanos": "int32 6",
    },
    "BinaryStatistics": {"sum": "sint64 1"},
    "CollectionStatistics": {"min_children": "uint64 1", "max_children": "uint64 2", "total_children": "uint64 3"},
    "ColumnStatistics": {
        "number_of_values": "uint64 1",
        "int_statistics": "IntegerStatistics 2",
        "double_statistics": "DoubleStatistics 3",
        "string_statistics": "StringStatistics 4",
        "bucket_statistics": "BucketStatistics 5",
        "decimal_statistics": "DecimalStatistics 6",
        "date_statistics": "DateStatistics 7",
        "binary_statistics": "BinaryStatistics 8",
        "timestamp_statistics": "TimestampStatistics 9",
        "has_null": "bool 10",
        "bytes_on_disk": "uint64 11",
        "collection_statistics": "CollectionStatistics 12",
    },
    "RowIndexEntry": {"positions": "uint64 1 packed", "statistics": "ColumnStatistics 2"},
    "RowIndex": {"entry": "RowIndexEntry 1 repeated"},
    "BloomFilter": {"num_hash_functions": "uint32 1", "bitset": "fixed64 2 repeated", "utf8_bitset": "bytes 3"},
    "BloomFilterIndex": {"bloom_filter": "BloomFilter 1 repeated"},
    "Stream": {"kind": "uint32 1", "column": "uint32 2", "length": "uint64 3"},
    "ColumnEncoding": {"kind": "uint32 1", "dictionary_size": "uint32 2", "bloom_encoding": "uint32 3"},
    "StripeFooter": {
        "streams": "Stream 1 repeated",
        "columns": "ColumnEncoding 2 repeated",
        "writer_timezone": "string 3",
        "encryption": "bytes 4 repeated",
    },
    "StringPair": {"key": "string 1", "value": "string 2"},
    "Type": {
        "kind": "uint32 1",
        "subtypes": "uint32 2 packed",
        "field_names": "string 3 repeated",
        "maximum_length": "uint32 4",
        "precision": "uint32 5",
        "scale": "uint32 6",
        "attributes": "StringPair 7 repeated",
    },
    "StripeInformation": {
        "offset": "uint64 1",
        "index_length": "uint64 2",
        "data_length": "uint64 3",
        "footer_length": "uint64 4",
        "number_of_rows": "uint64 5",
        "encrypt_stripe_id": "uint64 6",
        "encrypted_local_keys": "bytes 7 repeated",
    },
    "UserMetadataItem": {"name": "string 1", "value": "bytes 2"},
    "StripeStatistics": {"col_stats": "ColumnStatistics 1 repeated"},
    "Metadata": {"stripe_stats": "StripeStatistics 1 repeated"},
    "Footer": {
        "header_length": "uint64 1",
        "content_length": "uint64 2",
        "stripes": "StripeInformation 3 repeated",
        "types": "Type 4 repeated",
        "metadata": "UserMetadataItem 5 repeated",
        "number_of_rows": "uint64 6",
        "statistics": "ColumnStatistics 7 repeated",
        "row_index_stride": "uint32 8",
        "writer": "uint32 9",
        "encryption": "bytes 10",
        "calendar": "uint32 11",
        "software_version": "string 12",
    },
    "PostScript": {
        "footer_length": "uint64 1",
        "compression": "uint32 2",
        "compression_block_size": "uint64 3",
        "version": "uint32 4 packed",
        "metadata_length": "uint64 5",
        "writer_version": "uint32 6",
        "stripe_statistics_length": "uint64 7",
        "magic": "string 8000",
    },
}

_PACKAGE = "acidlib.orc"
_SCALARS = {
    "sint64": descriptor_pb2.FieldDescriptorProto.TYPE_SINT64,
    "sint32": descriptor_pb2.FieldDescriptorProto.TYPE_SINT32,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "fixed64": descriptor_pb2.FieldDescriptorProto.TYPE_FIXED64,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}


def _build_pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="acidlib/orc.proto", package=_PACKAGE, syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for field_name, form in fields.items():
            type_name, number, *modifier = form.split()
            field = message.field.add(name=field_name, number=int(number))
            label = "LABEL_REPEATED" if modifier else "LABEL_OPTIONAL"
            field.label = descriptor_pb2.FieldDescriptorProto.Label.Value(label)
            if type_name in _SCALARS:
                field.type = _SCALARS[type_name]
            else:
                field.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{type_name}"
            if modifier == ["packed"]:
                field.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _build_pool()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ColumnStatistics: Any = _message("ColumnStatistics")
RowIndex: Any = _message("RowIndex")
BloomFilterIndex: Any = _message("BloomFilterIndex")
StripeFooter: Any = _message("StripeFooter")
Type: Any = _message("Type")
StripeInformation: Any = _message("StripeInformation")
Metadata: Any = _message("Metadata")
Footer: Any = _message("Footer")
PostScript: Any = _message("PostScript")
