"""The protobuf messages of ORC: file tail, stripe footer, row index (ORC specification, "ORC Protobuf Definitions").

The descriptors are built when the module is imported, so that no generated code is bound to one protobuf release.
Enumerations are declared as integers: an unknown kind stays visible and can be refused.
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
    """Values of `ColumnEncoding.bloom_encoding`, of a column with BLOOM_FILTER_UTF8 (ORC `BloomFilterIO.Encoding`)."""

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
    """Calendars of `Footer.calendar`; unknown means the hybrid Julian/Gregorian calendar of older writers."""

    UNKNOWN = 0
    JULIAN_GREGORIAN = 1
    PROLEPTIC_GREGORIAN = 2


GREGORIAN_START_DAYS = -141_427
"""1582-10-15 in days from 1970-01-01: from there on both calendars agree."""


_MESSAGES = {
    "IntegerStatistics": "sint64 minimum 1, sint64 maximum 2, sint64 sum 3",
    "DoubleStatistics": "double minimum 1, double maximum 2, double sum 3",
    "StringStatistics": "bytes minimum 1, bytes maximum 2, sint64 sum 3, bytes lower_bound 4, bytes upper_bound 5",
    "BucketStatistics": "uint64 count 1 packed",
    "DecimalStatistics": "string minimum 1, string maximum 2, string sum 3",
    "DateStatistics": "sint32 minimum 1, sint32 maximum 2",
    "TimestampStatistics": (
        "sint64 minimum 1, sint64 maximum 2, sint64 minimum_utc 3, sint64 maximum_utc 4, "
        "int32 minimum_nanos 5, int32 maximum_nanos 6"
    ),
    "BinaryStatistics": "sint64 sum 1",
    "CollectionStatistics": "uint64 min_children 1, uint64 max_children 2, uint64 total_children 3",
    "ColumnStatistics": (
        "uint64 number_of_values 1, IntegerStatistics int_statistics 2, "
        "DoubleStatistics double_statistics 3, StringStatistics string_statistics 4, "
        "BucketStatistics bucket_statistics 5, DecimalStatistics decimal_statistics 6, "
        "DateStatistics date_statistics 7, BinaryStatistics binary_statistics 8, "
        "TimestampStatistics timestamp_statistics 9, bool has_null 10, uint64 bytes_on_disk 11, "
        "CollectionStatistics collection_statistics 12"
    ),
    "RowIndexEntry": "uint64 positions 1 packed, ColumnStatistics statistics 2",
    "RowIndex": "RowIndexEntry entry 1 repeated",
    "BloomFilter": "uint32 num_hash_functions 1, fixed64 bitset 2 repeated, bytes utf8_bitset 3",
    "BloomFilterIndex": "BloomFilter bloom_filter 1 repeated",
    "Stream": "uint32 kind 1, uint32 column 2, uint64 length 3",
    "ColumnEncoding": "uint32 kind 1, uint32 dictionary_size 2, uint32 bloom_encoding 3",
    "StripeFooter": (
        "Stream streams 1 repeated, ColumnEncoding columns 2 repeated, string writer_timezone 3, "
        "bytes encryption 4 repeated"
    ),
    "StringPair": "string key 1, string value 2",
    "Type": (
        "uint32 kind 1, uint32 subtypes 2 packed, string field_names 3 repeated, uint32 maximum_length 4, "
        "uint32 precision 5, uint32 scale 6, StringPair attributes 7 repeated"
    ),
    "StripeInformation": (
        "uint64 offset 1, uint64 index_length 2, uint64 data_length 3, uint64 footer_length 4, "
        "uint64 number_of_rows 5, uint64 encrypt_stripe_id 6, bytes encrypted_local_keys 7 repeated"
    ),
    "UserMetadataItem": "string name 1, bytes value 2",
    "StripeStatistics": "ColumnStatistics col_stats 1 repeated",
    "Metadata": "StripeStatistics stripe_stats 1 repeated",
    "MetadataParts": "bytes stripe_stats 1 repeated",
    "StripeStatisticsParts": "bytes col_stats 1 repeated",
    "Footer": (
        "uint64 header_length 1, uint64 content_length 2, StripeInformation stripes 3 repeated, "
        "Type types 4 repeated, UserMetadataItem metadata 5 repeated, uint64 number_of_rows 6, "
        "ColumnStatistics statistics 7 repeated, uint32 row_index_stride 8, uint32 writer 9, "
        "bytes encryption 10, uint32 calendar 11, string software_version 12"
    ),
    "FooterParts": (
        "bytes stripes 3 repeated, bytes types 4 repeated, bytes metadata 5 repeated, bytes statistics 7 repeated"
    ),
    "PostScript": (
        "uint64 footer_length 1, uint32 compression 2, uint64 compression_block_size 3, "
        "uint32 version 4 packed, uint64 metadata_length 5, uint32 writer_version 6, "
        "uint64 stripe_statistics_length 7, string magic 8000"
    ),
}
"""The fields of each message, as "type name number [repeated|packed]"; a type in capitals is another message.

Those named parts are the same messages with what repeats left as it was written: to count it before it is parsed.
"""

_PACKAGE = "acidlib.orc"
_Field = descriptor_pb2.FieldDescriptorProto


def _declared() -> Any:
    """Return a pool with the descriptors of all messages."""
    file = descriptor_pb2.FileDescriptorProto(name="acidlib/orc.proto", package=_PACKAGE, syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for text in fields.split(", "):
            type_name, name, number, *modifier = text.split()
            field = message.field.add(name=name, number=int(number))
            field.label = _Field.LABEL_REPEATED if modifier else _Field.LABEL_OPTIONAL
            if type_name in _MESSAGES:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{type_name}"
            else:
                field.type = _Field.Type.Value(f"TYPE_{type_name.upper()}")
            if modifier == ["packed"]:
                field.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _declared()
_CLASSES: dict[str, Any] = {
    name: message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
}
"""The class of each message, kept as long as the process, also of those that are only parts of others.

A class that nothing else holds is garbage to protobuf (upb), which makes it anew at the next use, and knows it by a
table without references. Threads that make one at the same time leave two entries there, of which one outlives its
class: the process then dies by SIGSEGV at a message of it.
"""


def _message(name: str) -> Any:
    return _CLASSES[name]


ColumnStatistics: Any = _message("ColumnStatistics")
RowIndex: Any = _message("RowIndex")
BloomFilterIndex: Any = _message("BloomFilterIndex")
StripeFooter: Any = _message("StripeFooter")
Type: Any = _message("Type")
StripeInformation: Any = _message("StripeInformation")
Metadata: Any = _message("Metadata")
MetadataParts: Any = _message("MetadataParts")
StripeStatisticsParts: Any = _message("StripeStatisticsParts")
Footer: Any = _message("Footer")
FooterParts: Any = _message("FooterParts")
PostScript: Any = _message("PostScript")
