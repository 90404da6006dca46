"""With which other files a file of an insert-only table may be joined, by its format, columns and metadata."""

from __future__ import annotations

import hashlib
from contextlib import closing

from acidlib.errors import RefusedError
from acidlib.model.units import DataFile, JoinFacts, JoinWay
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


def join_facts(file: DataFile, ways: frozenset[JoinWay], place: InputFiles) -> JoinFacts:
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
        return JoinFacts(way=JoinWay.WHOLE, reason="files of this format are not joined")


def _orc(source: SourceFile) -> JoinFacts:
    try:
        tail = read_tail(source)
    except RefusedError as error:
        return JoinFacts(way=JoinWay.WHOLE, reason=str(error))
    if is_acid(tail.root):
        raise RefusedError(
            f"Cannot compact {source.name}: because it has ACID columns, which no file of an insert-only table has"
        )
    # names count, for readers find columns of such files by name; and so does whatever else is said of a whole file
    metadata = sorted(tail.user_metadata.items())
    proleptic = tail.calendar == Calendar.PROLEPTIC_GREGORIAN
    text = repr((tail.root, proleptic, metadata))
    reason = f"only files of the same columns, calendar and metadata are joined: {tail.root}"
    return JoinFacts(way=JoinWay.STRIPES, group_key=hashlib.sha256(text.encode()).hexdigest(), reason=reason)


def _parquet(source: SourceFile) -> JoinFacts:
    try:
        footer = read_footer(source)
    except RefusedError as error:
        return JoinFacts(way=JoinWay.WHOLE, reason=str(error))
    if footer.alone:
        return JoinFacts(way=JoinWay.WHOLE, reason=footer.alone)
    group_key = hashlib.sha256(repr(footer.identity).encode()).hexdigest()
    reason = "only files of the same schema, writer and key-value metadata are joined"
    share = max(len(footer.row_groups) / MOST_ROW_GROUPS, footer.size / MOST_JOINED_FOOTER)
    return JoinFacts(way=JoinWay.ROW_GROUPS, group_key=group_key, reason=reason, share=min(share, 1.0))


def _text(source: SourceFile) -> JoinFacts:
    suffix = extension(source.name)
    if suffix in JOINED_CODECS:
        return JoinFacts(way=JoinWay.LINES, group_key=suffix, reason=f"compressed as {suffix}")
    if suffix not in PLAIN:
        return JoinFacts(way=JoinWay.WHOLE, reason=f"text compressed as {suffix} is not joined")
    if source.read(0, min(len(BYTE_ORDER_MARK), source.length)) == BYTE_ORDER_MARK:
        # a reader takes it off the beginning of a file only
        return JoinFacts(way=JoinWay.WHOLE, reason="it begins with a byte order mark")
    return JoinFacts(way=JoinWay.LINES)
