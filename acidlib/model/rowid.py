"""The id of an ACID row, and its encoded bucket property (the `bucket` column).

Source: Hive `BucketCodec`. The top three bits are the codec's version. Version 0 is the plain bucket number; version 1
has twelve bits of bucket (27..16) and twelve of statement id (11..0), the bits between are reserved.
"""

from __future__ import annotations

from acidlib.errors import CorruptError, RefusedError

Key = tuple[int, int, int]
"""Write id, bucket property and row id of a row."""

KeyRange = tuple[Key, Key]
"""A lowest and a highest key; all those of a stripe, or of a file, lie between them or are them."""

MAX_BUCKET = 4095
MAX_STATEMENT = 4095

_VERSION_SHIFT = 29
_V1 = 1 << _VERSION_SHIFT


def encode_bucket(bucket: int, statement: int = 0) -> int:
    """The version 1 property of a bucket (0..4095) and a statement id (0..4095, -1 for none, which is stored as 0).

    Raises RefusedError for values that version 1 cannot hold.
    """
    if not 0 <= bucket <= MAX_BUCKET:
        raise RefusedError(f"Cannot encode bucket {bucket}: because a row id holds buckets 0 to {MAX_BUCKET} only")
    if not -1 <= statement <= MAX_STATEMENT:
        raise RefusedError(
            f"Cannot encode statement {statement}: because a row id holds ids up to {MAX_STATEMENT} only"
        )
    return _V1 | bucket << 16 | max(statement, 0)


def decode_bucket(value: int) -> tuple[int, int, int]:
    """The (bucket, statement id, codec version) of a property; raises CorruptError for versions other than 0 and 1."""
    version = value >> _VERSION_SHIFT
    if version == 0:
        return value, 0, 0
    if version == 1:
        return value >> 16 & MAX_BUCKET, value & MAX_STATEMENT, 1
    raise CorruptError(f"Cannot decode bucket property {value}: because its codec version is neither 0 nor 1")
