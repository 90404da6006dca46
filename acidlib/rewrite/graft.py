"""Stripes that are copied column by column, for a result that has other columns than their file, or another order.

Streams stay byte for byte what they are; those of columns that the result does not have are left out, and what the file
lacks is put beside them: row ids, and columns that are null throughout. So the first compaction of a converted table,
or of one whose columns were added, dropped or moved, costs a copy.
"""

from __future__ import annotations

from acidlib.orc.alignment import Alignment
from acidlib.orc.encode import EncodedColumn, encode_column
from acidlib.orc.schema import ROW_COLUMN, TypeNode
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.orc.statistics_merge import copied_columns, copied_statistics
from acidlib.orc.stripe import StripeReader, null_column
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.rewrite.inputs import OpenInput
from acidlib.rewrite.recode import encode_row_ids, encoding_options, group_bounds
from acidlib.rewrite.stripe_keys import StripeIds, StripeKeys


def regrouped(file: OpenInput, number: int, alignment: Alignment, reader: StripeReader) -> str | None:
    """What is done about the columns of a stripe that may be copied column by column, as words for people.

    None when that cannot be done, or when the stripe has the result's columns as they are.
    """
    present = [part.source for part in alignment.children if part.source is not None]
    missing = len(alignment.children) > len(present)
    added = [name for name, is_added in (("row ids", not file.acid), ("columns", missing)) if is_added]
    what = [f"{' and '.join(added)} that are added"] if added else []
    if len(present) < len(file.row.children):
        what.append("columns that the table does not have")
    if present != sorted(present, key=lambda node: node.column):
        what.append("the order of columns")
    return ", ".join(what) if what and may_be_grafted(file, number, alignment, reader) else None


def may_be_grafted(file: OpenInput, number: int, alignment: Alignment, reader: StripeReader) -> bool:
    """Whether the streams of a stripe's columns may stand beside others than those of its file."""
    copyable = all(part.copyable for part in alignment.children if part.source is not None)
    return copyable and not reader.is_nullable(file.row.column) and stripe_statistics_are_true(file.tail, number)


def copy_unchanged(writer: OrcWriter, file: OpenInput, number: int) -> None:
    """Append a stripe that has all columns, as it is."""
    options = writer.options
    statistics = copied_columns(file.tail.stripe_statistics[number], options.root.walk(), rules=options.rules)
    writer.copy_stripe(file.source, file.tail, number, statistics)


def graft(
    writer: OrcWriter, file: OpenInput, keys: StripeKeys, alignment: Alignment, *, ids: StripeIds | None = None
) -> None:
    """Append a stripe for which `regrouped` names something, or one that gets other `ids`."""
    options = writer.options
    reader = file.stripe(keys.number)
    columns: list[int | EncodedColumn] = []
    if ids is None and file.acid:
        columns += range(ROW_COLUMN)
    else:
        columns += _row_ids(ids or keys.ids(), options, reader.timezone)
        keys.forget()
    row = options.root.children[ROW_COLUMN - 1]
    columns.append(file.row.column)
    for node, part in zip(row.children, alignment.children, strict=True):
        if part.source is None:
            columns += _nulls(node, reader, options)
        else:
            columns += [below.column for below in part.source.walk()]
    found = file.tail.stripe_statistics[keys.number]
    statistics = [
        column.statistics
        if isinstance(column, EncodedColumn)
        else copied_statistics(found[column], node, rules=options.rules)
        for column, node in zip(columns, options.root.walk(), strict=True)
    ]
    writer.regroup_stripe(reader, columns, statistics)


def _row_ids(ids: StripeIds, options: FileOptions, timezone: str) -> list[EncodedColumn]:
    return encode_row_ids(ids.keys, ids.current, options, timezone)


def _nulls(node: TypeNode, reader: StripeReader, options: FileOptions) -> list[EncodedColumn]:
    rows = reader.stripe.rows
    bounds = group_bounds(rows, options.stride)
    return encode_column(null_column(node, rows), node, bounds, encoding_options(options, reader.timezone))
