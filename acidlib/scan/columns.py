"""The columns of one ORC file, as the table has them.

Arrow's ORC reader reads the columns whose values it reads as Hive does. The kernels of `orc/` decode the others: times,
values of a changed type, and structs that lack fields or have them in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc

from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.names import Generation
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import Alignment, align
from acidlib.orc.columns import Mask, filter_column
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import Kind
from acidlib.orc.reader import StripeReader, under_target
from acidlib.orc.schema import TypeNode
from acidlib.scan.arrays import arrow_array, arrow_type
from acidlib.scan.partitions import partition_value
from acidlib.scan.times import StoredTimes

__all__ = ["FileColumns", "arrow_type", "file_columns", "partition_value"]

_ARROW_KINDS = frozenset(
    {
        *(Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE),
        *(Kind.STRING, Kind.VARCHAR, Kind.BINARY),
    }
)
"""Besides DECIMAL, and LIST and STRUCT of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The chosen columns of a file.

    where       the file, for messages
    row         the file's own columns
    parts       how each chosen column is filled, in their order
    acid        the rows have ACID columns, and `row` is a struct beside them
    generation  of the Hive that reads the table
    """

    where: str
    row: TypeNode
    parts: tuple[Alignment, ...]
    acid: bool
    generation: Generation

    @property
    def columns(self) -> frozenset[int]:
        """The ids of all columns of the file that are read, with those above and below them."""
        read = {node.column for part in self.parts if part.source is not None for node in part.source.walk()}
        return frozenset(read | {0, self.row.column}) if read else frozenset()

    def read(self, values: pa_orc.ORCFile | None, stripe: StripeReader, keep: Mask | None) -> list[pa.Array]:
        """Return the columns of a stripe's rows that are kept, None for all, in the order chosen.

        Raises CorruptError and RefusedError that name the stripe and the column.

        values  the same file, open in Arrow's reader; needed only where a column is read by it
        """
        rows = stripe.stripe.rows if keep is None else int(np.count_nonzero(keep))
        by_arrow = self._read_by_arrow(values, stripe, keep)
        return [
            pa.nulls(rows, arrow_type(part.target))
            if part.source is None
            else by_arrow[part.source.column]
            if part.source.column in by_arrow
            else self._decoded(part, part.source, stripe, keep)
            for part in self.parts
        ]

    def _read_by_arrow(
        self, values: pa_orc.ORCFile | None, stripe: StripeReader, keep: Mask | None
    ) -> dict[int, pa.Array]:
        """Return the columns that Arrow's reader reads as Hive does, by their ids in the file."""
        parts = self._arrow_parts()
        if not parts or values is None:
            return {}
        names = dict(zip((child.column for child in self.row.children), self.row.field_names, strict=True))
        prefix = "row." if self.acid else ""
        batch = values.read_stripe(stripe.number, columns=[prefix + names[column] for column in parts])
        if keep is not None:
            batch = batch.filter(pa.array(keep))
        arrays = batch.column(0).flatten() if self.acid else batch.columns
        if len(arrays) != len(parts):
            raise CorruptError(f"Cannot read {stripe.where}: {len(arrays)} columns were read in place of {len(parts)}")
        columns = zip(parts.items(), arrays, strict=True)
        return {column: array.cast(arrow_type(part.target)) for (column, part), array in columns if _is_valid(array)}

    def _arrow_parts(self) -> dict[int, Alignment]:
        """Return the parts that Arrow's reader can read, which chooses columns by their names, in the file's order."""
        names = self.row.field_names
        if any("." in name for name in names):
            return {}
        parts = {part.source.column: part for part in self.parts if part.source is not None and _is_same(part)}
        counts = Counter(names)
        children = zip(self.row.children, names, strict=True)
        return {
            child.column: parts[child.column] for child, name in children if child.column in parts and counts[name] == 1
        }

    def _decoded(self, part: Alignment, source: TypeNode, stripe: StripeReader, keep: Mask | None) -> pa.Array:
        times = StoredTimes.of(stripe.timezone, stripe.tail.calendar, self.generation)
        row_present = stripe.column(TypeNode(column=self.row.column, kind=Kind.STRUCT), stripe.stripe.rows).present
        slots = stripe.stripe.rows if row_present is None else int(np.count_nonzero(row_present))
        kept = keep if keep is None or row_present is None else filter_values(keep, row_present)
        try:
            column = stripe.column(source, slots)
            if kept is not None:
                column = filter_column(column, kept)
            column = under_target(column, part, source, calendar=stripe.tail.calendar)
            array = arrow_array(column, part.target, times)
        except AcidError as error:
            raise type(error)(f"Cannot read column {part.path} in {stripe.where}: {error}") from None
        if row_present is None:
            return array
        present = row_present if keep is None else filter_values(row_present, keep)
        return array.take(pa.array(np.cumsum(present, dtype=np.int64) - 1, mask=~present))


def file_columns(
    table: TypeNode,
    chosen: Sequence[str],
    file_row: TypeNode,
    *,
    generation: Generation,
    matching: ColumnMatching,
    where: str,
    acid: bool,
) -> FileColumns:
    """Return how the columns of a file fill the chosen columns of the table, as readers of the Hive match them.

    Raises RefusedError that names file and column where a chosen one has another type, and no conversion is known that
    all readers do alike, or a type that Spark does not have.

    table     the row of the table
    chosen    names of its columns, in the order in which they are wanted
    file_row  the row of the file
    where     the file
    acid      the file's row is a struct beside ACID columns
    """
    names = {name.lower(): name for name in table.field_names}
    wanted = [names[name.lower()] for name in chosen]
    alignment = align(
        table, file_row, where=where, generation=generation, matching=matching, chosen=frozenset(wanted), purpose="read"
    )
    by_name = dict(zip(table.field_names, alignment.children, strict=True))
    parts = tuple(by_name[name] for name in wanted)
    for name, part in zip(wanted, parts, strict=True):
        try:
            arrow_type(part.target)
        except RefusedError as error:
            raise RefusedError(f"Cannot read column {name} of {where}: {error}") from None
    return FileColumns(where=where, row=file_row, parts=parts, acid=acid, generation=generation)


def _is_same(part: Alignment) -> bool:
    """Return whether a column has the table's type, of kinds that Arrow's reader reads as Hive does."""
    target, source = part.target, part.source
    if source is None or part.converted is not None:
        return False
    if target.kind is Kind.DECIMAL:
        return target.scale == source.scale and 1 <= source.precision <= target.precision
    if not target.children:
        return target.kind in _ARROW_KINDS
    if target.kind not in (Kind.LIST, Kind.STRUCT) or target.field_names != source.field_names or not part.copyable:
        return False
    children = zip(target.children, source.children, part.children, strict=True)
    return all(child.kind is own.kind and _is_same(below) for child, own, below in children)


def _is_valid(array: pa.Array) -> bool:
    """Return whether all texts are UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
