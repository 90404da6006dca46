"""Stripes of a result: input stripes encoded as one, or copied. Columns go one by one: memory follows one stripe.

A stripe may be copied for a result with other columns than its file, or another order of them. Its streams stay as they
are, byte for byte; those of columns that the result does not have are left out. Row ids and columns that the file lacks
are added, the columns null throughout. So the first compaction of a converted table, or of a table whose columns were
added, dropped or moved, costs a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from acidlib.errors import OverMemoryError
from acidlib.memory import Room
from acidlib.orc.columns import Column, Longs, Mask, concat_columns, filter_column, offsets_of, reorder_column
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import Kind
from acidlib.orc.reader import StripeReader, null_column
from acidlib.orc.schema import ROW_COLUMN
from acidlib.orc.statistics import copied_statistics, stripe_statistics_are_true
from acidlib.orc.writer import CopiedColumn, EncodedColumn, FileOptions, OrcWriter, encode_column
from acidlib.rows.files import OpenInput
from acidlib.rows.row_ids import DELETE, INSERT, Ids, Keys, StripeKeys


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptRows:
    """The rows of an input stripe that go into a rewritten stripe.

    keep     bool per row, or None when every row stays
    keys, current  id columns of the rows that stay
    """

    stripe: StripeKeys
    keep: Mask | None
    keys: Keys
    current: Longs


def encode_rows(
    parts: Sequence[KeptRows], options: FileOptions, timezone: str, order: Longs | None = None
) -> list[EncodedColumn]:
    """Return all columns of a stripe with the kept rows of the parts: one part after the other, or in an `order`.

    order  the numbers of all kept rows, counted over the parts, in their order in the stripe
    """
    rows = sum(len(part.keys) for part in parts)
    bounds = group_bounds(rows, options)
    keys, current = _join_keys(parts), _join([part.current for part in parts])
    if order is not None:
        keys, current = keys.select(order), current[order]
    encoded = _encode_ids(keys, current, INSERT, bounds, options, timezone)
    row_node = options.root.children[5]
    # the rows that have a row struct; in an original file the root itself is the row
    row_present: list[Mask | None] = []
    structs = []
    for part in parts:
        source, reader = replace(part.stripe.file.row, children=()), part.stripe.file.stripe(part.stripe.number)
        present = reader.column(source, part.stripe.rows).present
        row_present.append(present)
        kept = present if present is None or part.keep is None else filter_values(present, part.keep)
        structs.append(Column(kind=Kind.STRUCT, slots=len(part.keys), present=kept))
    readers = [part.stripe.file.stripe(part.stripe.number) for part in parts]
    row = joined_columns(structs, readers)
    if row.present is not None and row.present.all():
        row.present = None
    value_order = order
    if order is not None and row.present is not None:
        # columns have no slot for a row that is null itself
        value_order = (np.cumsum(row.present, dtype=np.int64) - 1)[order[row.present[order]]]
    if order is not None:
        row = reorder_column(row, order)
    encoded += encode_column(row, replace(row_node, children=()), bounds, options, timezone)
    child_bounds = bounds if row.present is None else offsets_of(row.present)[bounds]
    for position in range(len(row_node.children)):
        column = joined_columns(
            (_user_column(part, position, present) for part, present in zip(parts, row_present, strict=True)), readers
        )
        if value_order is not None:
            column = reorder_column(column, value_order)
        encoded += encode_column(column, row_node.children[position], child_bounds, options, timezone)
    return encoded


def joined_columns(columns: Iterable[Column], stripes: Sequence[StripeReader]) -> Column:
    """Return the slots of a column of several stripes; OverMemoryError if they take too much memory together.

    columns  of each stripe, decoded when they are taken
    """
    room, parts = Room(stripes[0].memory), list[Column]()
    try:
        for column in columns:
            room.take(column.size)
            parts.append(column)
        return concat_columns(parts, room)
    except OverMemoryError as error:
        raise OverMemoryError(
            f"Cannot join the rows of {stripes[0].where} and of {len(stripes) - 1} more: {error}"
        ) from None


def _join_keys(parts: Sequence[KeptRows]) -> Keys:
    return Keys(
        _join([part.keys.write_ids for part in parts]),
        _join([part.keys.buckets for part in parts]),
        _join([part.keys.row_ids for part in parts]),
    )


def _join(arrays: Sequence[Longs]) -> Longs:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _user_column(part: KeptRows, position: int, row_present: Mask | None) -> Column:
    file = part.stripe.file
    slots = part.stripe.rows if row_present is None else int(np.count_nonzero(row_present))
    column = file.stripe(part.stripe.number).aligned(file.alignment.children[position], slots)
    if part.keep is None:
        return column
    return filter_column(column, part.keep if row_present is None else filter_values(part.keep, row_present))


def encode_deletes(keys: Keys, current: Longs, options: FileOptions) -> list[EncodedColumn]:
    """Return all columns of a stripe of delete events: id columns, and a row that is null throughout."""
    bounds = group_bounds(len(keys), options)
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


_ENTRY_BYTES = 400
"""Memory of an entry of a row index, with the statistics of a number, as measured."""


def group_bounds(rows: int, options: FileOptions) -> Longs:
    """Return the first row of each row group of a stripe, and the end.

    OverMemoryError if the row indexes and filters of all columns take too much memory: an input that states one row a
    group has an entry for each value.
    """
    stride, columns = options.stride, options.root.columns
    of_group = columns * _ENTRY_BYTES + sum(size.bits // 8 for size in options.filters.values())
    if (reason := options.memory.excess(-(-rows // stride) * of_group)) is not None:
        raise OverMemoryError(
            f"Cannot write the row indexes of {columns:,} columns with {rows:,} rows in groups of {stride:,}: {reason}"
        )
    return np.append(np.arange(0, rows, stride, dtype=np.int64), np.int64(rows))


def column_changes(stripe: StripeKeys) -> str | None:
    """Return the changes of columns with which a stripe may be copied column by column, as words for people.

    None when it may not, or when the stripe has the result's columns as they are.
    """
    file = stripe.file
    columns = file.alignment.children
    present = [part.source for part in columns if part.source is not None]
    missing = len(columns) > len(present)
    added = [name for name, is_added in (("row ids", not file.acid), ("columns", missing)) if is_added]
    changes = [f"{' and '.join(added)} that are added"] if added else []
    if len(present) < len(file.row.children):
        changes.append("columns that the table does not have")
    if present != sorted(present, key=lambda node: node.column):
        changes.append("the order of columns")
    return ", ".join(changes) if changes and may_be_spliced(stripe) else None


def may_be_spliced(stripe: StripeKeys) -> bool:
    """Return whether the streams of a stripe's columns may stand beside streams from elsewhere."""
    file, number = stripe.file, stripe.number
    copyable = all(part.copyable for part in file.alignment.children if part.source is not None)
    is_nullable = file.stripe(number).is_nullable(file.row.column)
    return copyable and not is_nullable and stripe_statistics_are_true(file.tail, number)


def copy_unchanged(writer: OrcWriter, file: OpenInput, number: int) -> None:
    """Append a stripe that has all columns, as it is."""
    options = writer.options
    columns = zip(file.tail.stripe_statistics[number], options.root.walk(), strict=True)
    statistics = [copied_statistics(column, node, reader=options.reader) for column, node in columns]
    writer.copy_stripe(file.source, file.tail, number, statistics)


def splice_columns(writer: OrcWriter, stripe: StripeKeys, ids: Ids | None = None) -> None:
    """Append a stripe column by column: one with `column_changes`, or with new `ids`."""
    options, file = writer.options, stripe.file
    reader = file.stripe(stripe.number)
    bounds = group_bounds(stripe.rows, options)
    columns: list[int | EncodedColumn] = []
    if ids is None and file.acid:
        columns += range(ROW_COLUMN)
    else:
        keys, current = ids or stripe.ids()
        stripe.forget()
        columns += _encode_ids(keys, current, INSERT, bounds, options, reader.timezone)
    row = options.root.children[ROW_COLUMN - 1]
    columns.append(file.row.column)
    for node, part in zip(row.children, file.alignment.children, strict=True):
        if part.source is None:
            columns += encode_column(null_column(node, stripe.rows), node, bounds, options, reader.timezone)
        else:
            columns += [below.column for below in part.source.walk()]
    statistics = file.tail.stripe_statistics[stripe.number]
    result = [
        column
        if isinstance(column, EncodedColumn)
        else CopiedColumn(
            reader=reader,
            number=column,
            statistics=copied_statistics(statistics[column], node, reader=options.reader),
        )
        for column, node in zip(columns, options.root.walk(), strict=True)
    ]
    writer.write_stripe(result, rows=stripe.rows, timezone=reader.writer_timezone)
