"""Stripes of a result: some encoded as one, column by column, so that memory follows one stripe; or copied.

A stripe may be copied for a result that has other columns than its file, or another order. Streams stay byte for byte
what they are; those of columns that the result does not have are left out, and what the file lacks is put beside them:
row ids, and columns that are null throughout. So the first compaction of a converted table, or of one whose columns
were added, dropped or moved, costs a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from acidlib.orc.alignment import Alignment
from acidlib.orc.columns import Column, Longs, Mask, concat_columns, filter_column, offsets_of, reorder_column
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import Kind
from acidlib.orc.reader import StripeReader, null_column
from acidlib.orc.schema import ROW_COLUMN, TypeNode, row_struct
from acidlib.orc.statistics import copied_statistics, stripe_statistics_are_true
from acidlib.orc.writer import CopiedColumn, EncodedColumn, FileOptions, OrcWriter, encode_column
from acidlib.rewrite.inputs import OpenInput
from acidlib.rewrite.keys import DELETE, INSERT, Keys, StripeKeys


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptRows:
    """The rows of an input stripe that go into a rewritten one.

    keep     bool per row, or None when every row stays
    keys, current  id columns of the rows that stay
    """

    reader: StripeReader
    alignment: Alignment
    rows: int
    keep: Mask | None
    keys: Keys
    current: Longs


def encode_rows(
    parts: Sequence[KeptRows], options: FileOptions, timezone: str, order: Longs | None = None
) -> list[EncodedColumn]:
    """Return all columns of the stripe of the kept rows of the parts: one part after the other, or in an `order`.

    order  the numbers of all kept rows, counted over the parts, as they are to stand
    """
    rows = sum(len(part.keys) for part in parts)
    bounds = group_bounds(rows, options.stride)
    keys, current = _join_keys(parts), _join([part.current for part in parts])
    if order is not None:
        keys, current = keys.select(order), current[order]
    encoded = _encode_ids(keys, current, INSERT, bounds, options, timezone)
    row_node = options.root.children[5]
    # which rows have a row struct at all; in an original file the root itself is the row
    row_present: list[Mask | None] = []
    structs = []
    for part in parts:
        source = replace(row_struct(part.reader.tail.root), children=())
        present = part.reader.column(source, part.rows).present
        row_present.append(present)
        kept = present if present is None or part.keep is None else filter_values(present, part.keep)
        structs.append(Column(kind=Kind.STRUCT, slots=len(part.keys), present=kept))
    row = concat_columns(structs)
    if row.present is not None and row.present.all():
        row.present = None
    value_order = order
    if order is not None and row.present is not None:
        # columns hold nothing of a row that is null itself
        value_order = (np.cumsum(row.present, dtype=np.int64) - 1)[order[row.present[order]]]
    if order is not None:
        row = reorder_column(row, order)
    encoded += encode_column(row, replace(row_node, children=()), bounds, options, timezone)
    child_bounds = bounds if row.present is None else offsets_of(row.present)[bounds]
    for position in range(len(row_node.children)):
        column = concat_columns(
            [_user_column(part, position, present) for part, present in zip(parts, row_present, strict=True)]
        )
        if value_order is not None:
            column = reorder_column(column, value_order)
        encoded += encode_column(column, row_node.children[position], child_bounds, options, timezone)
    return encoded


def _join_keys(parts: Sequence[KeptRows]) -> Keys:
    return Keys(
        _join([part.keys.write_ids for part in parts]),
        _join([part.keys.buckets for part in parts]),
        _join([part.keys.row_ids for part in parts]),
    )


def _join(arrays: Sequence[Longs]) -> Longs:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _user_column(part: KeptRows, position: int, row_present: Mask | None) -> Column:
    slots = part.rows if row_present is None else int(np.count_nonzero(row_present))
    column = part.reader.aligned(part.alignment.children[position], slots)
    if part.keep is None:
        return column
    return filter_column(column, part.keep if row_present is None else filter_values(part.keep, row_present))


def encode_deletes(keys: Keys, current: Longs, options: FileOptions) -> list[EncodedColumn]:
    """Return all columns of a stripe of delete events: id columns, and a row that is null throughout."""
    bounds = group_bounds(len(keys), options.stride)
    encoded = _encode_ids(keys, current, DELETE, bounds, options, "UTC")
    row = null_column(options.root.children[5], len(keys))
    return encoded + encode_column(row, options.root.children[5], bounds, options, "UTC")


def _encode_ids(
    keys: Keys, current: Longs, operation: int, bounds: Longs, options: FileOptions, timezone: str
) -> list[EncodedColumn]:
    rows = len(keys)
    root = replace(options.root, children=())
    encoded = encode_column(Column(kind=Kind.STRUCT, slots=rows), root, bounds, options, timezone)
    operations = np.full(rows, operation, dtype=np.int64)
    arrays = (operations, keys.write_ids, keys.buckets, keys.row_ids, current)
    for node, values in zip(options.root.children[:5], arrays, strict=True):
        encoded += encode_column(Column(kind=node.kind, slots=rows, values=values), node, bounds, options, timezone)
    return encoded


def group_bounds(rows: int, stride: int) -> Longs:
    """Return the first row of each row group, and the end."""
    return np.append(np.arange(0, rows, stride, dtype=np.int64), np.int64(rows))


def has_timestamps(root: TypeNode) -> bool:
    """Return True if a column is a TIMESTAMP, whose encoding depends on the writer's zone."""
    return any(node.kind is Kind.TIMESTAMP for node in root.walk())


def column_changes(stripe: StripeKeys, alignment: Alignment) -> str | None:
    """Return what is done about the columns of a stripe that may be copied column by column, as words for people.

    None when that cannot be done, or when the stripe has the result's columns as they are.
    """
    file = stripe.file
    present = [part.source for part in alignment.children if part.source is not None]
    missing = len(alignment.children) > len(present)
    added = [name for name, is_added in (("row ids", not file.acid), ("columns", missing)) if is_added]
    what = [f"{' and '.join(added)} that are added"] if added else []
    if len(present) < len(file.row.children):
        what.append("columns that the table does not have")
    if present != sorted(present, key=lambda node: node.column):
        what.append("the order of columns")
    return ", ".join(what) if what and may_be_spliced(stripe, alignment) else None


def may_be_spliced(stripe: StripeKeys, alignment: Alignment) -> bool:
    """Return True if the streams of a stripe's columns may stand beside others than those of its file."""
    file, number = stripe.file, stripe.number
    copyable = all(part.copyable for part in alignment.children if part.source is not None)
    is_nullable = file.stripe(number).is_nullable(file.row.column)
    return copyable and not is_nullable and stripe_statistics_are_true(file.tail, number)


def copy_unchanged(writer: OrcWriter, file: OpenInput, number: int) -> None:
    """Append a stripe that has all columns, as it is."""
    options = writer.options
    found = zip(file.tail.stripe_statistics[number], options.root.walk(), strict=True)
    statistics = [copied_statistics(column, node, generation=options.generation) for column, node in found]
    writer.copy_stripe(file.source, file.tail, number, statistics)


def splice_columns(
    writer: OrcWriter, stripe: StripeKeys, alignment: Alignment, ids: tuple[Keys, Longs] | None = None
) -> None:
    """Append a stripe for which `column_changes` names something, or one that gets other `ids`."""
    options, file = writer.options, stripe.file
    reader = file.stripe(stripe.number)
    bounds = group_bounds(stripe.rows, options.stride)
    columns: list[int | EncodedColumn] = []
    if ids is None and file.acid:
        columns += range(ROW_COLUMN)
    else:
        keys, current = ids or stripe.ids()
        stripe.forget()
        columns += _encode_ids(keys, current, INSERT, bounds, options, reader.timezone)
    row = options.root.children[ROW_COLUMN - 1]
    columns.append(file.row.column)
    for node, part in zip(row.children, alignment.children, strict=True):
        if part.source is None:
            columns += encode_column(null_column(node, stripe.rows), node, bounds, options, reader.timezone)
        else:
            columns += [below.column for below in part.source.walk()]
    found = file.tail.stripe_statistics[stripe.number]
    result = [
        column
        if isinstance(column, EncodedColumn)
        else CopiedColumn(
            reader=reader,
            number=column,
            statistics=copied_statistics(found[column], node, generation=options.generation),
        )
        for column, node in zip(columns, options.root.walk(), strict=True)
    ]
    writer.write_stripe(result, rows=stripe.rows, timezone=reader.writer_timezone)
