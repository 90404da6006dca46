"""Joining, filtering and re-encoding stripes into one, column by column, so that memory follows one stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from acidlib.orc.alignment import Alignment
from acidlib.orc.column import Column, Longs, Mask
from acidlib.orc.encode import EncodedColumn, EncodingOptions, encode_column
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode, row_struct
from acidlib.orc.stripe import StripeReader, null_column
from acidlib.orc.transform import concat_columns, filter_column, reorder_column
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.stripe_keys import DELETE, INSERT


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


def group_bounds(rows: int, stride: int) -> Longs:
    """First row of each row group, and the end."""
    return np.append(np.arange(0, rows, stride, dtype=np.int64), np.int64(rows))


def encode_rows(
    parts: Sequence[KeptRows], options: FileOptions, timezone: str, *, order: Longs | None = None
) -> list[EncodedColumn]:
    """All columns of the stripe that holds the kept rows of the parts: one part after the other, or in an `order`.

    order  the numbers of all kept rows, counted over the parts, as they are to stand
    """
    rows = sum(len(part.keys) for part in parts)
    bounds = group_bounds(rows, options.stride)
    encoding = encoding_options(options, timezone)
    keys, current = _join_keys(parts), _join([part.current for part in parts])
    if order is not None:
        keys, current = keys.select(order), current[order]
    encoded = _encode_ids(keys, current, INSERT, options, bounds, encoding)
    row_node = options.root.children[5]
    row_present = [_row_present(part) for part in parts]
    row = concat_columns(
        [
            Column(kind=Kind.STRUCT, slots=len(part.keys), present=_kept(present, part.keep))
            for part, present in zip(parts, row_present, strict=True)
        ]
    )
    if row.present is not None and row.present.all():
        row.present = None
    value_order = order
    if order is not None and row.present is not None:
        # columns hold nothing of a row that is null itself
        value_order = (np.cumsum(row.present, dtype=np.int64) - 1)[order[row.present[order]]]
    if order is not None:
        row = reorder_column(row, order)
    encoded += encode_column(row, replace(row_node, children=()), bounds, encoding)
    child_bounds = bounds if row.present is None else _value_bounds(row.present, bounds)
    for position in range(len(row_node.children)):
        column = concat_columns(
            [_user_column(part, position, present) for part, present in zip(parts, row_present, strict=True)]
        )
        if value_order is not None:
            column = reorder_column(column, value_order)
        encoded += encode_column(column, row_node.children[position], child_bounds, encoding)
    return encoded


def encode_row_ids(keys: Keys, current: Longs, options: FileOptions, timezone: str) -> list[EncodedColumn]:
    """The root and the id columns of a stripe of rows."""
    bounds = group_bounds(len(keys), options.stride)
    return _encode_ids(keys, current, INSERT, options, bounds, encoding_options(options, timezone))


def encode_deletes(keys: Keys, current: Longs, options: FileOptions) -> list[EncodedColumn]:
    """All columns of a stripe of delete events: id columns, and a row that is null throughout."""
    bounds = group_bounds(len(keys), options.stride)
    encoding = encoding_options(options, "UTC")
    encoded = _encode_ids(keys, current, DELETE, options, bounds, encoding)
    row = null_column(options.root.children[5], len(keys))
    return encoded + encode_column(row, options.root.children[5], bounds, encoding)


def encoding_options(options: FileOptions, timezone: str) -> EncodingOptions:
    """How the columns of a stripe of this writer's zone are encoded."""
    return EncodingOptions(
        compression=options.compression,
        block_size=options.block_size,
        rules=replace(options.rules, writer_timezone=timezone),
        filters=options.filters,
    )


def _encode_ids(
    keys: Keys, current: Longs, operation: int, options: FileOptions, bounds: Longs, encoding: EncodingOptions
) -> list[EncodedColumn]:
    rows = len(keys)
    root = replace(options.root, children=())
    encoded = encode_column(Column(kind=Kind.STRUCT, slots=rows), root, bounds, encoding)
    operations = np.full(rows, operation, dtype=np.int64)
    arrays = (operations, keys.write_ids, keys.buckets, keys.row_ids, current)
    for node, values in zip(options.root.children[:5], arrays, strict=True):
        encoded += encode_column(Column(kind=node.kind, slots=rows, values=values), node, bounds, encoding)
    return encoded


def _join_keys(parts: Sequence[KeptRows]) -> Keys:
    return Keys(
        _join([part.keys.write_ids for part in parts]),
        _join([part.keys.buckets for part in parts]),
        _join([part.keys.row_ids for part in parts]),
    )


def _join(arrays: Sequence[Longs]) -> Longs:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _row_present(part: KeptRows) -> Mask | None:
    """Which rows of an input stripe have a row struct at all; in an original file the root itself is the row."""
    row = row_struct(part.reader.tail.root)
    return part.reader.column(replace(row, children=()), part.rows).present


def _kept(present: Mask | None, keep: Mask | None) -> Mask | None:
    return present if present is None or keep is None else filter_values(present, keep)


def _user_column(part: KeptRows, position: int, row_present: Mask | None) -> Column:
    slots = part.rows if row_present is None else int(np.count_nonzero(row_present))
    column = part.reader.aligned(part.alignment.children[position], slots)
    if part.keep is None:
        return column
    return filter_column(column, part.keep if row_present is None else filter_values(part.keep, row_present))


def _value_bounds(present: Mask, bounds: Longs) -> Longs:
    running = np.zeros(len(present) + 1, dtype=np.int64)
    np.cumsum(present, out=running[1:])
    return running[bounds]


def walk_timestamps(root: TypeNode) -> Iterator[TypeNode]:
    """The TIMESTAMP columns, whose encoding depends on the writer's zone."""
    return (node for node in root.walk() if node.kind is Kind.TIMESTAMP)
