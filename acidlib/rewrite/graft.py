"""Stripes that are copied with columns that their file does not have: row ids, and columns that were added later.

Their streams stay byte for byte what they are; the row index, the footer and the few bytes of the new columns are
added around them. So the first compaction of a converted table, or of one with a new column, costs a copy.
"""

from __future__ import annotations

from itertools import islice

from acidlib.orc.alignment import Alignment
from acidlib.orc.encode import EncodedColumn, encode_column
from acidlib.orc.schema import ROW_COLUMN, TypeNode
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.orc.statistics_merge import copied_columns
from acidlib.orc.stripe import StripeReader, null_column
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.rewrite.inputs import OpenInput, StripeKeys
from acidlib.rewrite.recode import encode_row_ids, encoding_options, group_bounds


def added_by_graft(file: OpenInput, number: int, alignment: Alignment, reader: StripeReader) -> str | None:
    """What a stripe would get that may be copied with more columns than it has; None when that cannot be done."""
    source = alignment.source
    assert source is not None
    present = [part for part in alignment.children if part.source is not None]
    missing = len(alignment.children) > len(present)
    what = [name for name, added in (("row ids", not file.acid), ("columns", missing)) if added]
    if not what or not all(part.copyable for part in present) or reader.is_nullable(source.column):
        return None
    if reader.layout is None or not stripe_statistics_are_true(file.tail, number):
        return None
    return " and ".join(what)


def copy_unchanged(writer: OrcWriter, file: OpenInput, number: int) -> None:
    """Append a stripe that has all columns, as it is."""
    options = writer.options
    statistics = copied_columns(file.tail.stripe_statistics[number], options.root.walk(), rules=options.rules)
    writer.copy_stripe(file.source, file.tail, number, statistics)


def graft(writer: OrcWriter, file: OpenInput, keys: StripeKeys, alignment: Alignment) -> None:
    """Append a stripe for which `added_by_graft` names something."""
    options = writer.options
    reader = StripeReader(file.source, file.tail, keys.number)
    before = [] if file.acid else _row_ids(keys, options, reader.timezone)
    fields = options.root.children[ROW_COLUMN - 1].children
    missing = [node for node, part in zip(fields, alignment.children, strict=True) if part.source is None]
    after = [column for node in missing for column in _nulls(node, reader, options)]
    found = file.tail.stripe_statistics[keys.number]
    own = copied_columns(found, islice(options.root.walk(), len(before), len(before) + len(found)), rules=options.rules)
    statistics = [column.statistics for column in before] + own + [column.statistics for column in after]
    writer.graft_stripe(reader, before, after, statistics)


def _row_ids(keys: StripeKeys, options: FileOptions, timezone: str) -> list[EncodedColumn]:
    ids = keys.ids()
    keys.forget()
    return encode_row_ids(ids.keys, ids.current, options, timezone)


def _nulls(node: TypeNode, reader: StripeReader, options: FileOptions) -> list[EncodedColumn]:
    rows = reader.stripe.rows
    bounds = group_bounds(rows, options.stride)
    return encode_column(null_column(node, rows), node, bounds, encoding_options(options, reader.timezone))
