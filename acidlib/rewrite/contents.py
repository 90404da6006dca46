"""What a file of an insert-only table holds, as far as joining it with others goes."""

from __future__ import annotations

import hashlib
from contextlib import closing

from acidlib.errors import RefusedError
from acidlib.model.units import Contents, DataFile, JoinWay
from acidlib.orc.proto import MAGIC as ORC_MAGIC
from acidlib.orc.proto import Calendar
from acidlib.orc.schema import is_acid
from acidlib.orc.source import SourceFile
from acidlib.orc.tail import read_tail
from acidlib.parquet.footer import MAGIC as PARQUET_MAGIC
from acidlib.parquet.footer import read_footer
from acidlib.parquet.groups import MOST_JOINED_FOOTER, MOST_ROW_GROUPS
from acidlib.planning.insert_only import extension
from acidlib.rewrite.inputs import InputFiles

PLAIN = frozenset({"", ".txt", ".csv", ".tsv", ".json", ".log", ".text"})
"""Extensions that no codec has. A file with an unknown one may be of a codec that somebody added to Hadoop."""

JOINED_CODECS = frozenset({".gz", ".bz2"})
"""Codecs whose streams may follow one another in a file, by their own definition and as Hadoop reads them."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def look_into(file: DataFile, ways: frozenset[JoinWay], place: InputFiles) -> Contents:
    """How a file may be joined with others, of the `ways` that its table allows.

    Raises CorruptError for a damaged ORC or Parquet file, RefusedError for one with ACID columns.
    """
    with closing(place.open(file)) as source:
        start = source.read(0, min(4, source.length))
        if JoinWay.STRIPES in ways and (len(ways) == 1 or start[:3] == ORC_MAGIC):
            return _orc(source)
        if JoinWay.ROW_GROUPS in ways and (len(ways) == 1 or start == PARQUET_MAGIC):
            return _parquet(source)
        if JoinWay.LINES in ways:
            return _text(source)
        return Contents(way=JoinWay.WHOLE, why="files of this format are not joined")


def _orc(source: SourceFile) -> Contents:
    try:
        tail = read_tail(source)
    except RefusedError as error:
        return Contents(way=JoinWay.WHOLE, why=str(error))
    if is_acid(tail.root):
        raise RefusedError(
            f"Cannot compact {source.name}: because it has ACID columns, which no file of an insert-only table has"
        )
    # names count, for readers find columns of such files by name; and so does whatever else is said of a whole file
    metadata = sorted(tail.user_metadata.items())
    proleptic = tail.calendar == Calendar.PROLEPTIC_GREGORIAN
    text = repr((tail.root, proleptic, metadata))
    why = f"only files of the same columns, calendar and metadata are joined: {tail.root}"
    return Contents(way=JoinWay.STRIPES, like=hashlib.sha256(text.encode()).hexdigest(), why=why)


def _parquet(source: SourceFile) -> Contents:
    try:
        footer = read_footer(source)
    except RefusedError as error:
        return Contents(way=JoinWay.WHOLE, why=str(error))
    if footer.alone:
        return Contents(way=JoinWay.WHOLE, why=footer.alone)
    like = hashlib.sha256(repr(footer.identity).encode()).hexdigest()
    why = "only files of the same schema, writer and key-value metadata are joined"
    share = max(len(footer.row_groups) / MOST_ROW_GROUPS, footer.size / MOST_JOINED_FOOTER)
    return Contents(way=JoinWay.ROW_GROUPS, like=like, why=why, share=min(share, 1.0))


def _text(source: SourceFile) -> Contents:
    suffix = extension(source.name)
    if suffix in JOINED_CODECS:
        return Contents(way=JoinWay.LINES, like=suffix, why=f"compressed as {suffix}")
    if suffix not in PLAIN:
        return Contents(way=JoinWay.WHOLE, why=f"text compressed as {suffix} is not joined")
    if source.read(0, min(len(BYTE_ORDER_MARK), source.length)) == BYTE_ORDER_MARK:
        # a reader takes it off the beginning of a file only
        return Contents(way=JoinWay.WHOLE, why="it begins with a byte order mark")
    return Contents(way=JoinWay.LINES)
