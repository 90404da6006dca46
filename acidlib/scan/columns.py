"""The columns of one ORC file, as the table has them: decoded by the kernels of `orc/`, under the table's types.

Arrow's ORC reader is not used. It lacks times outside 1677 to 2262, calendars, CHAR, changed types, structs with other
fields, and texts that are not UTF-8, which the kernels read as Hive does; and it takes half as long again for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from acidlib.acid.names import Reader
from acidlib.errors import AcidError, RefusedError
from acidlib.memory import Room
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import Alignment, align
from acidlib.orc.columns import Mask, filter_column
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import Kind
from acidlib.orc.reader import StripeReader, under_target
from acidlib.orc.schema import TypeNode
from acidlib.scan.arrays import arrow_array, arrow_type, spread_array
from acidlib.scan.times import StoredTimes

__all__ = ["FileColumns", "arrow_type", "file_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The chosen columns of a file.

    row     the file's own columns
    parts   how each chosen column is filled, in their order
    reader  of the table
    """

    row: TypeNode
    parts: tuple[Alignment, ...]
    reader: Reader

    @property
    def columns(self) -> frozenset[int]:
        """The ids of all columns of the file that are read, with those above and below them."""
        read = {node.column for part in self.parts if part.source is not None for node in part.source.walk()}
        return frozenset(read | {0, self.row.column}) if read else frozenset()

    def read(self, stripe: StripeReader, keep: Mask | None) -> list[pa.Array]:
        """Return the columns of a stripe's rows that are kept, None for all, in the order chosen.

        Raises CorruptError and RefusedError that name the stripe and the column.
        """
        rows = slots = stripe.stripe.rows
        kept, present = keep, stripe.column(TypeNode(column=self.row.column, kind=Kind.STRUCT), rows).present
        if present is not None:  # rows that are null have no slots
            slots = int(np.count_nonzero(present))
            if keep is not None:
                kept, present = filter_values(keep, present), filter_values(present, keep)
        if keep is not None:
            rows = int(np.count_nonzero(keep))
        room = Room(stripe.source.memory)
        arrays = []
        for part in self.parts:
            if part.source is None:
                arrays.append(pa.nulls(rows, arrow_type(part.target)))
            else:
                arrays.append(spread_array(self._column(part, part.source, stripe, slots, kept), present))
            try:
                room.take(arrays[-1].nbytes)
            except RefusedError as error:
                raise RefusedError(f"Cannot read the columns of {stripe.where}: {error}") from None
        return arrays

    def _column(
        self, part: Alignment, source: TypeNode, stripe: StripeReader, slots: int, kept: Mask | None
    ) -> pa.Array:
        times = StoredTimes.of(stripe.timezone, stripe.tail.calendar, self.reader)
        column = stripe.column(source, slots)
        if kept is not None:
            column = filter_column(column, kept)
        try:
            column = under_target(column, part, source, calendar=stripe.tail.calendar)
            return arrow_array(column, part.target, times)
        except AcidError as error:
            raise type(error)(f"Cannot read column {part.path} in {stripe.where}: {error}") from None


def file_columns(
    table: TypeNode,
    chosen: Sequence[str],
    file_row: TypeNode,
    *,
    reader: Reader,
    matching: ColumnMatching,
    where: str,
) -> FileColumns:
    """Return how the columns of a file fill the chosen columns of the table, as readers of the Hive match them.

    Raises RefusedError that names file and column where a chosen one has another type, and no conversion is known that
    all readers do alike, or a type that Spark does not have.

    table     the row of the table
    chosen    names of its columns, in the order in which they are wanted
    file_row  the row of the file
    where     the file, for messages
    """
    names = {name.lower(): name for name in table.field_names}
    wanted = [names[name.lower()] for name in chosen]
    alignment = align(
        table, file_row, where=where, reader=reader, matching=matching, chosen=frozenset(wanted), purpose="read"
    )
    by_name = dict(zip(table.field_names, alignment.children, strict=True))
    parts = tuple(by_name[name] for name in wanted)
    for name, part in zip(wanted, parts, strict=True):
        try:
            arrow_type(part.target)
        except RefusedError as error:
            raise RefusedError(f"Cannot read column {name} of {where}: {error}") from None
    return FileColumns(row=file_row, parts=parts, reader=reader)
