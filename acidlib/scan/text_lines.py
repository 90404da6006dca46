"""Lines of text files, as columns of a table: the rows of Hive's LazySimpleSerDe.

Source: Hive `LazySerDeParameters` (which character means what), `LazyStruct.parse` (fields of a line), the classes
`LazyInteger`, `LazyDouble`, `LazyDate` and so on (values of texts; a text that is no value is null); Hadoop
`LineReader` (CR, LF and CR LF end a line) and `LineRecordReader` (which split has a line).
"""

from __future__ import annotations

import base64
import bz2
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from isal import igzip_lib
from numpy.typing import NDArray

from acidlib.acid.names import Generation, Reader
from acidlib.datafiles import SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.text_codecs import codec_ending
from acidlib.orc.columns import Bytes, Longs
from acidlib.orc.kernels.vectors import gather_bytes
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode
from acidlib.scan.arrays import arrow_type, offsets_buffer, readable_texts, truncated
from acidlib.scan.java_texts import JAVA_BLANKS, java_day, java_decimal, java_moment, java_real

SIMPLE_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_LINE_END = ord("\n")
_PIECE = 8 << 20
_LINE_BYTES, _LINE_OBJECT = 8, 40
"""Bytes of memory that a byte of a line takes while its fields are found, and that a line alone has beside its own."""
_MAX_LINES, _MAX_VALUES = 1 << 20, 1 << 22
"""Lines that are made columns of at a time, and fields of them."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CODECS: dict[str, Callable[[], Any]] = {
    ".gz": partial(igzip_lib.IgzipDecompressor, flag=igzip_lib.DECOMP_GZIP),
    ".deflate": partial(igzip_lib.IgzipDecompressor, flag=igzip_lib.DECOMP_ZLIB),
    ".bz2": bz2.BZ2Decompressor,
}
"""Codecs of Hadoop by the ending of a file's name, each for one of the streams that follow one another."""

_DAMAGE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    EOFError,
    cast(type[Exception], igzip_lib.IsalError),
)

_UNREAD = ("serialization.encoding", "timestamp.formats", "line.delim", "textinputformat.record.delimiter")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """What the characters of a line mean, by the properties of a table and its SerDe.

    delimiter  the byte between two fields
    null       the bytes of a field that is null
    escape     the byte before a character that is only itself; None without one
    takes_rest  the last column has the rest of the line, with its delimiters
    header, footer  lines at the start and end of each file that are no rows
    """

    delimiter: int
    null: bytes
    escape: int | None
    takes_rest: bool
    header: int
    footer: int

    @classmethod
    def of(cls, table: str, serde: str | None, properties: Mapping[str, str]) -> TextFormat:
        """Return the format of a table. Raises RefusedError for another SerDe, and for what is not understood."""
        if serde not in (None, SIMPLE_SERDE):
            raise RefusedError(f"Cannot read {table}: its lines are read by {serde}; those of LazySimpleSerDe are read")
        for name in _UNREAD:
            value = properties.get(name)
            is_usual = value is None or value.lower() in ("utf-8", "utf8", "\n", "10", "\\n")
            if not is_usual:
                raise RefusedError(f"Cannot read {table}: its property {name} is {value!r}, which is not supported")
        delimiter = properties.get("field.delim", properties.get("serialization.format"))
        escape = properties.get("escape.delim")
        header, footer = (
            _lines(table, name, properties) for name in ("skip.header.line.count", "skip.footer.line.count")
        )
        return cls(
            delimiter=_byte(table, "field.delim", delimiter, 1),
            null=properties.get("serialization.null.format", "\\N").encode(),
            escape=None if escape is None else _byte(table, "escape.delim", escape, ord("\\")),
            takes_rest=properties.get("serialization.last.column.takes.rest", "").lower() == "true",
            header=header,
            footer=footer,
        )


def _byte(table: str, name: str, text: str | None, default: int) -> int:
    """Return a separator: a byte stated as a number, else the first character (`LazyUtils.getByte`)."""
    if not text:
        return default
    number = int(text) if re.fullmatch(r"[+-]?\d{1,3}", text, re.ASCII) else ord(text[0])
    if not 0 <= number < 128 or number in b"\r\n":
        raise RefusedError(f"Cannot read {table}: its property {name} is {text!r}, which separates no fields")
    return number


def _lines(table: str, name: str, properties: Mapping[str, str]) -> int:
    text = properties.get(name, "0").strip()
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise RefusedError(f"Cannot read {table}: its property {name} is {text!r}, which is no number of lines")
    return int(text)


# --- the lines of a split ---------------------------------------------------------------------------------------------


def split_of_lines(
    source: SourceFile, path: str, form: TextFormat, start: int, end: int, codecs: str = ""
) -> Iterator[bytes]:
    """Yield the lines of a split of a file in pieces of whole lines, each with LF at its end.

    A line is of the split in whose bytes the end of the line before it lies, as in Hadoop. A compressed file is read as
    a whole by its first split, and so is one of a table whose files have a header or footer.

    codecs  that Hadoop has beside its own (`text_codecs.CODECS`)

    Raises RefusedError for a codec that is not known, CorruptError for damage.
    """
    try:
        ending = codec_ending(path, codecs)
    except RefusedError as error:
        raise RefusedError(f"Cannot read {source.name}: {error}") from None
    if ending and ending not in _CODECS:
        raise RefusedError(f"Cannot read {source.name}: text compressed as {ending} is not read")
    stream = _CODECS.get(ending)
    is_whole = stream is not None or form.header or form.footer
    if start == end or (is_whole and start > 0):
        return
    if stream is not None:
        pieces = _inflated(source, stream)
    else:
        first = _next_line(source, start) if start else 0
        last = source.length if is_whole or end >= source.length else _next_line(source, end)
        pieces = _pieces(source, first, last)
    lines = _whole_lines(source, pieces, at_start=start == 0)
    yield from _between(source, lines, form.header, form.footer) if form.header or form.footer else lines


def _pieces(source: SourceFile, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _PIECE):
        yield source.read(at, min(_PIECE, end - at))


def _next_line(source: SourceFile, position: int) -> int:
    """Return where the first line begins whose predecessor ends at or after a position."""
    size = 1 << 16
    for at in range(position, source.length, size):
        data = source.read(at, min(size + 1, source.length - at))
        ending = re.search(rb"\r\n|\r|\n", data)
        if ending is not None and ending.start() < size:
            return at + ending.end()
    return source.length


def _inflated(source: SourceFile, stream: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of a compressed file, in pieces of at most `_PIECE` bytes."""
    decoder, ended = stream(), True
    try:
        for piece in _pieces(source, 0, source.length):
            rest = piece
            while rest:
                if ended:
                    decoder, ended = stream(), False
                yield decoder.decompress(rest, _PIECE)
                while not (decoder.eof or decoder.needs_input):
                    yield decoder.decompress(b"", _PIECE)
                ended = decoder.eof
                rest = decoder.unused_data if ended else b""
    except _DAMAGE as error:
        raise CorruptError(f"Cannot read {source.name}: {error}") from None
    if not ended:
        raise CorruptError(f"Cannot read {source.name}: its compressed data ends early")


def _whole_lines(source: SourceFile, pieces: Iterator[bytes], *, at_start: bool) -> Iterator[bytes]:
    """Yield pieces that end with the end of a line, all ends as LF.

    Raises RefusedError for a line that takes too much memory.
    """
    data = bytearray()
    for number, piece in enumerate(pieces):
        # what is left of the pieces before has no end of a line, but for a CR at its end
        start = max(len(data) - 1, 0)
        data += piece
        if number == 0 and at_start and data.startswith(_BYTE_ORDER_MARK):
            del data[: len(_BYTE_ORDER_MARK)]
        # a CR at the end may be the first half of CR LF
        end = max(data.rfind(b"\n", start), data.rfind(b"\r", start, len(data) - 1)) + 1
        if end:
            yield _with_lf(bytes(data[:end]))
            del data[:end]
        source.memory.require(_LINE_BYTES * len(data), f"a line of {source.name}")
    if data:
        yield _with_lf(bytes(data if data.endswith(b"\r") else data + b"\n"))


def _with_lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _between(source: SourceFile, pieces: Iterator[bytes], header: int, footer: int) -> Iterator[bytes]:
    """Yield lines without the first and the last ones."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        lines = [line + b"\n" for line in piece.split(b"\n")[:-1]]
        skipped = min(header, len(lines))
        header -= skipped
        held += lines[skipped:]
        size += len(piece)
        source.memory.require(size + _LINE_OBJECT * len(held), f"the last {footer:,} lines of {source.name}")
        ready = len(held) - footer
        if ready > 0:
            yield b"".join(held[:ready])
            del held[:ready]
            size = sum(map(len, held))


# --- their fields -----------------------------------------------------------------------------------------------------


class TextColumns:
    """The chosen columns of a table in the lines of a file.

    Raises RefusedError for a type that is not read from text.
    """

    def __init__(self, form: TextFormat, row: TypeNode, names: Sequence[str], *, reader: Reader, where: str) -> None:
        self._form = form
        self._where = where
        self._reader = reader
        self._last = len(row.children) - 1
        in_table = {name.lower(): place for place, name in enumerate(row.field_names)}
        self._columns = [(name, in_table[name], row.children[in_table[name]]) for name in names]
        for name, _, node in self._columns:
            if node.kind not in _PARSERS and node.kind not in _TEXTS:
                raise RefusedError(
                    f"Cannot read column {name} of {where}: values of type {node} are not read from text"
                )

    def batches(self, lines: bytes) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield what `of` returns for some of the lines at a time: a piece may be of millions of empty ones."""
        most = min(_MAX_LINES, max(1, _MAX_VALUES // max(1, len(self._columns))))
        if lines.count(b"\n") <= most:
            yield self.of(lines)
            return
        ends = np.flatnonzero(np.frombuffer(lines, dtype=np.uint8) == _LINE_END) + 1
        start = 0
        for end in (*ends[most - 1 : -1 : most].tolist(), len(lines)):
            yield self.of(lines[start:end])
            start = end

    def of(self, lines: bytes) -> tuple[int, dict[str, pa.Array]]:
        """Return the number of lines, each with LF at its end, and their columns by name."""
        data = np.frombuffer(lines, dtype=np.uint8)
        is_end = data == _LINE_END
        ends = np.flatnonzero(is_end)
        separators = np.flatnonzero(is_end | ((data == self._form.delimiter) & ~self._escaped(lines)))
        lasts = np.searchsorted(separators, ends)  # of each line, among the separators
        firsts = np.concatenate([[0], lasts[:-1] + 1])
        columns = {}
        for name, place, node in self._columns:
            has = firsts + place <= lasts
            own = firsts[has] + place
            starts = np.where(own > 0, separators[own - 1] + 1, 0)
            stops = ends[has] if self._form.takes_rest and place == self._last else separators[own]
            texts = _binary(data, starts, stops - starts, has)
            columns[name] = self._values(name, node, texts)
        return len(ends), columns

    def _escaped(self, lines: bytes) -> NDArray[np.bool_]:
        """Return for each byte whether the escape character stands before it; one before the end of a line is none."""
        escaped = np.zeros(len(lines), dtype=np.bool_)
        if self._form.escape is not None and self._form.escape in lines:
            sign = re.escape(bytes([self._form.escape]))
            escaped[[match.end() - 1 for match in re.finditer(sign + rb"[^\n]", lines)]] = True
        return escaped

    def _values(self, name: str, node: TypeNode, texts: pa.Array) -> pa.Array:
        is_null = pc.equal(texts, pa.scalar(self._form.null, pa.binary()))
        texts = pc.if_else(is_null, pa.scalar(None, pa.binary()), texts)
        if node.kind in _TEXTS:
            return truncated(readable_texts(self._unescaped(texts), Kind.STRING), node)
        try:
            return _parsed(texts, node, self._reader)
        except RefusedError as error:
            raise RefusedError(f"Cannot read column {name} of {self._where}: {error}") from None

    def _unescaped(self, texts: pa.Array) -> pa.Array:
        if self._form.escape is None:
            return texts
        sign = bytes([self._form.escape])
        pattern = re.compile(re.escape(sign) + rb"(.)", re.DOTALL)
        has_sign = pc.match_substring(texts, sign)
        if not pc.any(has_sign).as_py():
            return texts
        plain = [
            text
            if text is None or sign not in text
            else pattern.sub(lambda match: _CONTROLS.get(match[1], match[1]), text)
            for text in texts.to_pylist()
        ]
        return pa.array(plain, pa.binary())


_CONTROLS = {b"n": b"\n", b"r": b"\r"}
"""What an escape character and a letter stand for (`LazyUtils.copyAndEscapeStringDataToText`)."""

_TEXTS = frozenset({Kind.STRING, Kind.VARCHAR, Kind.CHAR})


def _binary(data: Bytes, starts: Longs, lengths: Longs, has: NDArray[np.bool_]) -> pa.Array:
    """Return ranges of bytes as an array, null for lines that do not have them."""
    content = gather_bytes(data, starts, lengths, np.arange(len(starts)))
    present = None if has.all() else has
    validity = None if present is None else pa.array(present).buffers()[1]
    buffers = [validity, offsets_buffer(lengths, present), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(has), buffers)


# --- the values of texts ----------------------------------------------------------------------------------------------

_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_WHOLE = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?")
_MIN_DAY_CHARACTERS = 8
"""Bytes of a text below which Hive takes it for no date."""
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_NEARLY_BASE64 = re.compile(rb"[A-Za-z0-9+/=_\-\s]*")


def _parsed(texts: pa.Array, node: TypeNode, reader: Reader) -> pa.Array:
    """Return the values of texts: the usual ones by Arrow, the others one by one."""
    target = arrow_type(node)
    usual = _USUAL.get(node.kind)
    if usual is None:
        return _one_by_one(texts, node, reader)
    is_usual = pc.match_substring_regex(texts, usual(node))
    strings = pc.if_else(is_usual, texts, pa.scalar(None, pa.binary())).view(pa.string())
    if node.kind in _BITS:
        values = strings.cast(pa.int64())
        limit = 1 << _BITS[node.kind] - 1
        in_range = pc.and_(pc.greater_equal(values, -limit), pc.less(values, limit)) if limit < 1 << 63 else None
        values = values if in_range is None else pc.if_else(in_range, values, pa.scalar(None, pa.int64()))
        values = values.cast(target)
    else:
        values = strings.cast(target)
    is_other = pc.fill_null(pc.invert(is_usual), False)
    if not pc.any(is_other).as_py():
        return values
    others = _one_by_one(texts.filter(is_other), node, reader)
    return pc.replace_with_mask(values, is_other, others)


_USUAL: dict[Kind, Callable[[TypeNode], str]] = {
    **dict.fromkeys(_BITS, lambda _: "^-?[0-9]{1,18}$"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), lambda _: r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"),
    Kind.DECIMAL: lambda node: (
        rf"^-?[0-9]{{1,{node.precision - node.scale}}}(\.[0-9]{{1,{node.scale}}})?$"
        if 0 < node.scale < node.precision
        else rf"^-?[0-9]{{1,{node.precision}}}$"
        if node.scale == 0
        else "^$."
    ),
    Kind.DATE: lambda _: r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$",
    Kind.TIMESTAMP: lambda _: (
        r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8]) ([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{1,6})?$"
    ),
}
"""Texts that every reader takes for the same value as Arrow."""


def _one_by_one(texts: pa.Array, node: TypeNode, reader: Reader) -> pa.Array:
    parse = _PARSERS[node.kind]
    values = [None if text is None else parse(text, node, reader) for text in texts.to_pylist()]
    if node.kind in (Kind.DATE, Kind.TIMESTAMP):
        numbers = pa.int32() if node.kind is Kind.DATE else pa.int64()
        try:
            return pa.array(values, numbers).view(arrow_type(node))
        except (pa.ArrowInvalid, OverflowError):
            raise RefusedError("a year is further away than Arrow and Spark can count") from None
    return pa.array(values, arrow_type(node))


def _integer(text: bytes, node: TypeNode, _: Reader) -> int | None:
    match = _WHOLE.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    value, limit = int(match[1] + (match[2] or b"0")), 1 << _BITS[node.kind] - 1
    return value if -limit <= value < limit else None


def _real(text: bytes, node: TypeNode, _: Reader) -> float | None:
    return java_real(text.decode("latin-1"), arrow_type(node))


def _decimal(text: bytes, node: TypeNode, reader: Reader) -> Decimal | None:
    plain = text.decode("latin-1")
    return java_decimal(plain.strip(JAVA_BLANKS) if reader is Generation.HIVE4 else plain, node, reader)


def _boolean(text: bytes, _node: TypeNode, _: Reader) -> bool | None:
    return {b"true": True, b"false": False}.get(text.lower())


def _date(text: bytes, _: TypeNode, reader: Reader) -> int | None:
    return None if len(text) < _MIN_DAY_CHARACTERS else java_day(text.decode("latin-1"), reader)


def _timestamp(text: bytes, _: TypeNode, reader: Reader) -> int | None:
    return java_moment(text.decode("latin-1").replace("T", " "), reader)


def _bytes(text: bytes, _node: TypeNode, _: Reader) -> bytes:
    if _BASE64.fullmatch(text):
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    if _NEARLY_BASE64.fullmatch(text) and text.strip(b"=") and len(text) > 1:
        raise RefusedError(f"readers disagree on whether {text!r} is Base64")
    return text


_PARSERS: dict[Kind, Callable[[bytes, TypeNode, Reader], Any]] = {
    **dict.fromkeys(_BITS, _integer),
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.DECIMAL: _decimal,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.BINARY: _bytes,
}
