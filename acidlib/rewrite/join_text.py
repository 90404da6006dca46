"""Joining text files by lines: their bytes one after the other, each line ended.

Source: Hadoop `LineReader` (a line ends at LF, CR or CR LF; the last one of a file needs no end) and the definitions of
gzip (RFC 1952, section 2.2: a file is a series of members) and bzip2, whose streams may follow one another.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, cast

from isal import igzip_lib

from acidlib.errors import CorruptError
from acidlib.model.units import DataFile
from acidlib.orc.source import ByteSource, SinkFile
from acidlib.planning.insert_only import extension
from acidlib.rewrite.inputs import InputFiles

_PIECE = 1 << 20
_DAMAGE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    EOFError,
    cast(type[Exception], igzip_lib.IsalError),
)


def join_text(files: tuple[DataFile, ...], place: InputFiles, sink: SinkFile) -> None:
    """Append every file. A last line without an end gets one, or the next file's first line would become part of it.

    Compressed files stay as they are; they are inflated to see how they end, which shows whether they are whole, too.
    Raises CorruptError for a compressed file that is damaged or cut.
    """
    for file in files:
        with closing(place.open(file)) as source:
            last, newline = _last(source)
            sink.copy(source, 0, source.length)
        if last not in (b"", b"\n"):
            sink.write(newline)


def _last(source: ByteSource) -> tuple[bytes, bytes]:
    """The last byte of the text, empty if there is none, and the bytes that stand for the end of a line."""
    suffix = extension(source.name)
    if suffix == ".gz":
        return _last_inflated(source, _gunzip), gzip.compress(b"\n", mtime=0)
    if suffix == ".bz2":
        return _last_inflated(source, bz2.BZ2Decompressor), bz2.compress(b"\n")
    return (source.read(source.length - 1, 1) if source.length else b""), b"\n"


def _gunzip() -> Any:
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)


def _last_inflated(source: ByteSource, stream: Callable[[], Any]) -> bytes:
    """The last byte of all the streams of a file, one after the other. Whatever else follows a stream is damage."""
    last = b""
    current = None
    for piece in _pieces(source):
        rest = piece
        while rest:
            current = current or stream()
            try:
                for plain in _inflated(current, rest):
                    last = plain[-1:] or last
            except _DAMAGE as problem:
                raise CorruptError(f"Cannot read {source.name}: because it is damaged ({problem})") from None
            rest = current.unused_data if current.eof else b""
            current = None if current.eof else current
    if current is not None:
        raise CorruptError(f"Cannot read {source.name}: because its last compressed stream is cut")
    return last


def _inflated(stream: Any, data: bytes) -> Iterator[bytes]:
    """What the data inflate to, in pieces that fit in memory however well they were compressed."""
    yield stream.decompress(data, _PIECE)
    while not (stream.eof or stream.needs_input):
        yield stream.decompress(b"", _PIECE)


def _pieces(source: ByteSource) -> Iterator[bytes]:
    for offset in range(0, source.length, _PIECE):
        yield source.read(offset, min(_PIECE, source.length - offset))
