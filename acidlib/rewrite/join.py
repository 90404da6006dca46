"""Joining files of an insert-only table: which may be joined, and how text, ORC and Parquet become one file."""

from __future__ import annotations

import bz2
import gzip
import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, cast

from isal import igzip_lib

from acidlib.datafiles import DataFiles, SinkFile, SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.text_codecs import BZIP2, GZIP, codec_ending
from acidlib.model.units import (
    DataFile,
    JoinFacts,
    JoinUnit,
    JoinWay,
    PlannedAction,
    StripeFacts,
    UnitResult,
)
from acidlib.orc.proto import MAGIC as ORC_MAGIC
from acidlib.orc.proto import Calendar
from acidlib.orc.reader import StripeReader, read_tail
from acidlib.orc.schema import is_acid, shown
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.orc.writer import EncodedColumn, FileOptions, OrcWriter, encode_column
from acidlib.parquet.footer import MAGIC as PARQUET_MAGIC
from acidlib.parquet.footer import read_footer
from acidlib.parquet.join import MAX_JOINED_FOOTER_BYTES, MAX_ROW_GROUPS, check_joined, join_files
from acidlib.rewrite.bucket import container_difference
from acidlib.rewrite.output import (
    InputStripe,
    file_options,
    input_stripe,
    new_file,
    new_result,
    plan_actions,
    removed_on_error,
    result_of_actions,
)
from acidlib.rewrite.recode import copy_unchanged, group_bounds, joined_columns
from acidlib.rows.files import InputFiles, OpenInput, memory_of, open_inputs
from acidlib.rows.row_ids import StripeKeys

JOINED_CODECS = frozenset({GZIP, BZIP2})
"""Codecs whose streams may follow one another in a file, by their own definition and as Hadoop reads them."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PIECE = 1 << 20
_DAMAGE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    EOFError,
    cast(type[Exception], igzip_lib.IsalError),
)


def join_facts(file: DataFile, ways: frozenset[JoinWay], files: InputFiles, codecs: str = "") -> JoinFacts:
    """Return how a file may be joined with others, in one of the `ways` that its table allows.

    codecs  of text that Hadoop has beside its own (`text_codecs.CODECS`)

    Raises CorruptError for a damaged ORC or Parquet file, RefusedError for one with ACID columns.
    """
    with closing(files.open(file)) as source:
        start = source.read(0, min(4, source.length))
        if JoinWay.STRIPES in ways and (len(ways) == 1 or start[:3] == ORC_MAGIC):
            return _orc(source)
        if JoinWay.ROW_GROUPS in ways and (len(ways) == 1 or start == PARQUET_MAGIC):
            return _parquet(source)
        if JoinWay.LINES in ways:
            return _text(source, codecs)
        return JoinFacts(way=JoinWay.WHOLE, reason="files of this format are not joined")


def _orc(source: SourceFile) -> JoinFacts:
    try:
        tail = read_tail(source)
    except RefusedError as error:
        return JoinFacts(way=JoinWay.WHOLE, reason=error.words)
    if is_acid(tail.root):
        raise RefusedError(
            f"Cannot compact {source.name}: it has ACID columns, which no file of an insert-only table has"
        )
    # names count, for readers find columns of such files by name; and so does all metadata of a whole file
    metadata = sorted(tail.user_metadata.items())
    proleptic = tail.calendar == Calendar.PROLEPTIC_GREGORIAN
    text = repr((tail.root, proleptic, metadata))
    reason = f"only files of the same columns, calendar and metadata are joined: {shown(tail.root)}"
    return JoinFacts(way=JoinWay.STRIPES, group_key=hashlib.sha256(text.encode()).hexdigest(), reason=reason)


def _parquet(source: SourceFile) -> JoinFacts:
    try:
        footer = read_footer(source)
    except RefusedError as error:
        return JoinFacts(way=JoinWay.WHOLE, reason=error.words)
    if footer.alone:
        return JoinFacts(way=JoinWay.WHOLE, reason=footer.alone)
    group_key = hashlib.sha256(repr(footer.identity).encode()).hexdigest()
    reason = "only files of the same schema, writer and key-value metadata are joined"
    share = max(len(footer.row_groups) / MAX_ROW_GROUPS, footer.size / MAX_JOINED_FOOTER_BYTES)
    return JoinFacts(way=JoinWay.ROW_GROUPS, group_key=group_key, reason=reason, share=min(share, 1.0))


def _text(source: SourceFile, codecs: str) -> JoinFacts:
    try:
        ending = codec_ending(source.name, codecs)
    except RefusedError as error:
        return JoinFacts(way=JoinWay.WHOLE, reason=error.words)
    if ending in JOINED_CODECS:
        return JoinFacts(way=JoinWay.LINES, group_key=ending, reason=f"compressed as {ending}")
    if ending:
        return JoinFacts(way=JoinWay.WHOLE, reason=f"text compressed as {ending} is not joined")
    if source.read(0, min(len(BYTE_ORDER_MARK), source.length)) == BYTE_ORDER_MARK:
        # readers take it off the beginning of a file only
        return JoinFacts(way=JoinWay.WHOLE, reason="it begins with a byte order mark")
    return JoinFacts(way=JoinWay.LINES)


def run_join(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    """Make the unit's file at `path`, which must not exist; with `path` None only plan it.

    Raises AcidError; then no file is left at `path`.
    """
    runs = {JoinWay.STRIPES: _run_orc, JoinWay.ROW_GROUPS: _run_parquet}
    return runs.get(unit.way, _run_bytes)(unit, data, path)


def _run_orc(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    with open_inputs(unit.inputs, InputFiles(unit.location, data)) as inputs:
        if not inputs.files:
            return new_result(unit)
        tails = [file.tail for file in inputs.files]
        options = file_options(tails[0].root, tails, unit.reader, unit.settings, memory_of(inputs.files))
        stripes = _input_stripes(inputs.files, options)
        actions, options = plan_actions(stripes, options, unit.settings, unit.reader)
        result = replace(result_of_actions(unit, actions, inputs.files), empty_files=inputs.empty)
        if path is None:
            return result
        with new_file(data, path) as sink:
            writer = OrcWriter(sink, options)
            for action in actions:
                first = action.stripes[0]
                if action.copy:
                    copy_unchanged(writer, inputs.files[first.file], first.number)
                else:
                    _recode(writer, inputs.files, action.stripes)
            writer.finish(tails[0].user_metadata)
    rows = sum(tail.rows for tail in tails)
    with removed_on_error(sink), closing(data.open(path, sink.position)) as source:
        tail = read_tail(source)
        for number in range(len(tail.stripes)):
            StripeReader(source, tail, number)
        if (tail.rows, len(tail.stripes)) != (rows, len(actions)):
            raise CorruptError(
                f"Cannot publish {path}: it has {tail.rows} rows in {len(tail.stripes)} stripes, and {rows} "
                f"rows in {len(actions)} stripes were written; nothing was changed"
            )
    return replace(result, path=path, length=sink.position)


def _input_stripes(inputs: Sequence[OpenInput], options: FileOptions) -> list[InputStripe]:
    columns = {node.column: node.column for node in options.root.walk()}
    stripes = []
    for index, file in enumerate(inputs):
        for number, stripe in enumerate(file.tail.stripes):
            if stripe.rows:
                is_true = stripe_statistics_are_true(file.tail, number)
                no_copy = container_difference(file.tail, options, statistics_true=is_true)
                stripes.append(input_stripe(StripeKeys(file, number), options, index, columns, no_copy=no_copy))
    return stripes


def _recode(writer: OrcWriter, inputs: Sequence[OpenInput], stripes: Sequence[StripeFacts]) -> None:
    """Append one stripe of the rows of several."""
    readers = [inputs[facts.file].stripe(facts.number) for facts in stripes]
    rows, timezone = sum(facts.rows for facts in stripes), stripes[0].timezone
    for reader in readers:
        reader.prove_rows()
    bounds = group_bounds(rows, writer.options)
    root = writer.options.root
    columns: list[EncodedColumn] = []
    for node in (replace(root, children=()), *root.children):
        column = joined_columns((reader.column(node, reader.stripe.rows) for reader in readers), readers)
        if node.column == root.column and column.present is not None:
            raise CorruptError(f"Cannot read {readers[0].where}: rows of a file without ACID columns are null")
        columns += encode_column(column, node, bounds, writer.options, timezone)
    writer.write_stripe(columns, rows=rows, timezone=timezone)


def _run_parquet(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    files, footers = InputFiles(unit.location, data), []
    for file in unit.inputs:
        with closing(files.open(file)) as source:
            footers.append(read_footer(source))
    rows = sum(footer.rows for footer in footers)
    result = replace(
        new_result(unit),
        rows_in=rows,
        rows_out=rows,
        bytes_copied=sum(footer.length for footer in footers),
        actions=tuple(
            replace(_whole(footer.name, footer.length, "row groups unchanged"), rows=footer.rows) for footer in footers
        ),
    )
    if path is None:
        return result
    with new_file(data, path) as sink:
        footers = join_files(sink, footers, data)
    with removed_on_error(sink), closing(data.open(path, sink.position)) as source:
        check_joined(source, footers)
    notes = (f"{footer.name}: indexes are left out, for {footer.left_out}" for footer in footers if footer.left_out)
    return replace(result, path=path, length=sink.position, notes=tuple(notes))


def _run_bytes(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    """Make a file of files whose rows are not read: a single file copied, or text files joined."""
    files = InputFiles(unit.location, data)
    lines = unit.way is JoinWay.LINES
    reason = "text, joined by lines" if lines else unit.reason or "copied as it is"
    result = replace(
        new_result(unit),
        rows_in=None,
        rows_out=None,
        bytes_copied=sum(file.length for file in unit.inputs),
        actions=tuple(_whole(files.full_path(file), file.length, reason) for file in unit.inputs),
    )
    if path is None:
        return result
    with new_file(data, path) as sink:
        if lines:
            join_text(unit.inputs, files, sink)
        else:
            (file,) = unit.inputs
            with closing(files.open(file)) as source:
                sink.copy(source, 0, source.length)
            if sink.position != file.length:
                raise CorruptError(
                    f"Cannot publish {unit.directory}/{unit.file_name}: {sink.position} bytes of {file.length} "
                    "were copied"
                )
    return replace(result, path=path, length=sink.position)


def join_text(inputs: tuple[DataFile, ...], files: InputFiles, sink: SinkFile) -> None:
    """Append every file. A last line without an end gets one, or the next file's first line would become part of it.

    Compressed files are copied as they are. They are inflated to see their last byte, which also shows damage: raises
    CorruptError for a compressed file that is damaged or cut. Source: Hadoop `LineReader` (a line ends at LF, CR or
    CR LF; the last line of a file needs no end) and the definitions of gzip (RFC 1952, section 2.2: a file is a series
    of members) and bzip2, whose streams may follow one another.
    """
    for file in inputs:
        with closing(files.open(file)) as source:
            ending, newline = codec_ending(source.name, ""), b"\n"
            if ending == GZIP:
                newline = gzip.compress(newline, mtime=0)
                last = _last_inflated(source, partial(igzip_lib.IgzipDecompressor, flag=igzip_lib.DECOMP_GZIP))
            elif ending == BZIP2:
                newline = bz2.compress(newline)
                last = _last_inflated(source, bz2.BZ2Decompressor)
            else:
                last = source.read(source.length - 1, 1) if source.length else b""
            sink.copy(source, 0, source.length)
        if last not in (b"", b"\n"):
            sink.write(newline)


def _last_inflated(source: SourceFile, stream: Callable[[], Any]) -> bytes:
    """Return the last byte of all streams of a file, one after the other. Other bytes after a stream are damage.

    Streams are inflated in pieces, which fit in memory at any ratio of compression.
    """
    last, current = b"", None
    for offset in range(0, source.length, _PIECE):
        rest = source.read(offset, min(_PIECE, source.length - offset))
        while rest:
            current = current or stream()
            try:
                last = current.decompress(rest, _PIECE)[-1:] or last
                while not (current.eof or current.needs_input):
                    last = current.decompress(b"", _PIECE)[-1:] or last
            except _DAMAGE as problem:
                raise CorruptError(f"Cannot read {source.name}: it is damaged ({problem})") from None
            rest = current.unused_data if current.eof else b""
            current = None if current.eof else current
    if current is not None:
        raise CorruptError(f"Cannot read {source.name}: its last compressed stream is cut")
    return last


def _whole(path: str, length: int, reason: str) -> PlannedAction:
    return PlannedAction(
        file=path,
        first_stripe=0,
        stripes=0,
        action="copy",
        bytes=length,
        rows=None,
        deleted=0,
        aborted=0,
        reason=reason,
    )
