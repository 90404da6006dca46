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
from acidlib.rewrite.stripe_keys import StripeKeys


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
    copyable = all(part.copyable for part in alignment.children if part.source is not None)
    if not what or not copyable or reader.is_nullable(file.row.column):
        return None
    return ", ".join(what) if stripe_statistics_are_true(file.tail, number) else None


def copy_unchanged(writer: OrcWriter, file: OpenInput, number: int) -> None:
    """Append a stripe that has all columns, as it is."""
    options = writer.options
    statistics = copied_columns(file.tail.stripe_statistics[number], options.root.walk(), rules=options.rules)
    writer.copy_stripe(file.source, file.tail, number, statistics)


def graft(writer: OrcWriter, file: OpenInput, keys: StripeKeys, alignment: Alignment) -> None:
    """Append a stripe for which `regrouped` names something."""
    options = writer.options
    reader = file.stripe(keys.number)
    columns: list[int | EncodedColumn] = []
    columns += range(ROW_COLUMN) if file.acid else _row_ids(keys, options, reader.timezone)
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


def _row_ids(keys: StripeKeys, options: FileOptions, timezone: str) -> list[EncodedColumn]:
    ids = keys.ids()
    keys.forget()
    return encode_row_ids(ids.keys, ids.current, options, timezone)


def _nulls(node: TypeNode, reader: StripeReader, options: FileOptions) -> list[EncodedColumn]:
    rows = reader.stripe.rows
    bounds = group_bounds(rows, options.stride)
    return encode_column(null_column(node, rows), node, bounds, encoding_options(options, reader.timezone))
