"""The tail of an ORC file: postscript, footer and stripe statistics (ORC specification, "File Tail")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from acidlib.datafiles import SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.orc import proto
from acidlib.orc.compression import decompress
from acidlib.orc.proto import Compression
from acidlib.orc.schema import TypeNode, parse_types

JAVA_WRITER = 0
CPP_WRITER = 1
ORC_135 = 6
"""First Java writer version whose timestamp statistics are in UTC."""
ORC_517 = 7
"""The newest Java writer version that Hive 3.1 (ORC 1.5) knows."""
ORC_14 = 9
"""The newest Java writer version there is (ORC 1.6 to 2.x, Hive 4)."""

_FIRST_READ = 16 * 1024
_MAX_POSTSCRIPT = 255
_MOST_ROWS = (1 << 31) - 1
"""Java counts the rows of a stripe in 32 bits."""
MAX_SLOTS = 1 << 31
"""Values that a column of one stripe can have, nulls included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """Place and size of one stripe, in bytes and rows."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def length(self) -> int:
        """Index, data and footer together, in bytes."""
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What the end of an ORC file says of the rest.

    stride             rows per row group; 0 = no row index
    version            file version, (0, 11) or (0, 12)
    file_statistics    one ColumnStatistics message per column, or empty
    stripe_statistics  per stripe, one ColumnStatistics message per column, or empty
    """

    name: str
    length: int
    root: TypeNode
    columns: int
    stripes: tuple[Stripe, ...]
    rows: int
    compression: Compression
    block_size: int
    stride: int
    version: tuple[int, int]
    writer: int
    writer_version: int
    calendar: int
    user_metadata: dict[str, bytes]
    file_statistics: tuple[Any, ...]
    stripe_statistics: tuple[tuple[Any, ...], ...]


def read_tail(source: SourceFile) -> Tail:
    """Read and check the tail of a file.

    Raises CorruptError when it is damaged or truncated, RefusedError for what this version does not understand
    (encryption, an unknown codec, a future file or writer version).
    """
    where = source.name
    size = min(source.length, _FIRST_READ)
    if size < len(proto.MAGIC) + 2:
        raise CorruptError(f"Cannot read {where}: because {source.length} bytes are too few for an ORC file")
    end = source.read(source.length - size, size)
    postscript, ps_length = _postscript(end, where)
    kind = _compression(postscript, where)
    block = int(postscript.compression_block_size) if kind is not Compression.NONE else 0
    if kind is not Compression.NONE and not 0 < block < 1 << 23:
        raise CorruptError(f"Cannot read {where}: because its compression block size is {block}")
    tail_size = 1 + ps_length + postscript.footer_length + postscript.metadata_length
    if tail_size > source.length - len(proto.MAGIC):
        raise CorruptError(f"Cannot read {where}: because its tail is longer than the file")
    if source.read(0, len(proto.MAGIC)) != proto.MAGIC:
        raise CorruptError(f"Cannot read {where}: because it does not start with ORC")
    if tail_size > size:
        end = source.read(source.length - tail_size, tail_size)
    footer_end = len(end) - 1 - ps_length
    footer_start = footer_end - postscript.footer_length
    metadata_start = footer_start - postscript.metadata_length
    footer = parse_message(proto.Footer, end[footer_start:footer_end], kind, block, f"the footer of {where}")
    metadata = parse_message(
        proto.Metadata, end[metadata_start:footer_start], kind, block, f"the stripe statistics of {where}"
    )
    if footer.encryption:
        raise RefusedError(f"Cannot read {where}: because it is encrypted")
    root = parse_types(footer.types, where=where)
    columns = root.columns
    stripes = _stripes(footer, source.length - tail_size, where)
    return Tail(
        name=where,
        length=source.length,
        root=root,
        columns=columns,
        stripes=stripes,
        rows=int(footer.number_of_rows),
        compression=kind,
        block_size=block,
        stride=int(footer.row_index_stride),
        version=_version(postscript, where),
        writer=int(footer.writer),
        writer_version=_writer_version(footer, postscript, where),
        calendar=int(footer.calendar),
        user_metadata=_user_metadata(footer, where),
        file_statistics=_columns(footer.statistics, columns, where),
        stripe_statistics=_stripe_statistics(metadata, columns, stripes, where),
    )


def parse_message(message: Any, data: bytes, kind: Compression, block: int, what: str) -> Any:
    """Decompress and parse one protobuf message of the file; CorruptError names `what`."""
    plain = decompress(data, kind, block, what=what)
    try:
        return message.FromString(bytes(plain))
    except DecodeError:
        raise CorruptError(f"Cannot read {what}: because it is not a valid message") from None


def _postscript(end: bytes, where: str) -> tuple[Any, int]:
    length = end[-1]
    if length > len(end) - 1 or not 0 < length <= _MAX_POSTSCRIPT:
        raise CorruptError(f"Cannot read {where}: because its last byte is no postscript length")
    try:
        postscript = proto.PostScript.FromString(end[-1 - length : -1])
    except DecodeError:
        raise CorruptError(f"Cannot read {where}: because its postscript is not a valid message") from None
    if postscript.magic != proto.MAGIC.decode():
        raise CorruptError(f"Cannot read {where}: because its postscript does not carry the name ORC")
    return postscript, length


def _compression(postscript: Any, where: str) -> Compression:
    try:
        return Compression(postscript.compression)
    except ValueError:
        raise RefusedError(
            f"Cannot read {where}: because compression kind {postscript.compression} is not known"
        ) from None


def _version(postscript: Any, where: str) -> tuple[int, int]:
    # the specification reads a file without a version as 0.11
    version = tuple(postscript.version) or (0, 11)
    if version not in ((0, 11), (0, 12)):
        text = ".".join(map(str, version))
        raise RefusedError(f"Cannot read {where}: because file version {text} is newer than 0.12")
    return version


def _writer_version(footer: Any, postscript: Any, where: str) -> int:
    version = int(postscript.writer_version)
    if int(footer.writer) == JAVA_WRITER and version > ORC_14:
        raise RefusedError(f"Cannot read {where}: because writer version {version} is newer than {ORC_14}")
    return version


def _stripes(footer: Any, limit: int, where: str) -> tuple[Stripe, ...]:
    stripes = []
    end = len(proto.MAGIC)
    rows = 0
    for number, info in enumerate(footer.stripes):
        if info.HasField("encrypt_stripe_id") or info.encrypted_local_keys:
            raise RefusedError(f"Cannot read stripe {number} of {where}: because it is encrypted")
        stripe = Stripe(
            offset=int(info.offset),
            index_length=int(info.index_length),
            data_length=int(info.data_length),
            footer_length=int(info.footer_length),
            rows=int(info.number_of_rows),
        )
        if stripe.offset < end or stripe.offset + stripe.length > limit or stripe.rows > _MOST_ROWS:
            raise CorruptError(
                f"Cannot read stripe {number} of {where}: because its {stripe.rows} rows and {stripe.length} bytes at "
                f"{stripe.offset} do not lie inside the file"
            )
        end = stripe.offset + stripe.length
        rows += stripe.rows
        stripes.append(stripe)
    if rows != footer.number_of_rows:
        raise CorruptError(
            f"Cannot read {where}: because its stripes have {rows} rows and its footer says {footer.number_of_rows}"
        )
    return tuple(stripes)


def _user_metadata(footer: Any, where: str) -> dict[str, bytes]:
    if not all(isinstance(item.name, str) for item in footer.metadata):  # what is no UTF-8 comes as bytes
        raise CorruptError(f"Cannot read {where}: because a name in its metadata is not UTF-8")
    return {item.name: bytes(item.value) for item in footer.metadata}


def _columns(statistics: Any, columns: int, where: str) -> tuple[Any, ...]:
    if statistics and len(statistics) != columns:
        raise CorruptError(
            f"Cannot read {where}: because it has statistics of {len(statistics)} columns and {columns} columns"
        )
    return tuple(statistics)


def _stripe_statistics(metadata: Any, columns: int, stripes: tuple[Stripe, ...], where: str) -> tuple[Any, ...]:
    found = metadata.stripe_stats
    if not found:
        return ()
    if len(found) != len(stripes):
        raise CorruptError(
            f"Cannot read {where}: because it has {len(stripes)} stripes and statistics of {len(found)} stripes"
        )
    return tuple(_columns(stripe.col_stats, columns, where) for stripe in found)
