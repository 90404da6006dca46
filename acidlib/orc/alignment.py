"""How a file's type tree lines up with the table's, as the readers of the result would line it up.

The columns of the row go by name or by position (`goes_by_position`); the fields of structs within them always go by
name (ORC `SchemaEvolution`, the same in 1.5.8 of Hive 3.1 and 1.8.5 of Hive 4.0: only the levels down to the row are
positional). What the file lacks is null, and what only the file has goes.

Columns whose type was changed (ALTER TABLE ... CHANGE COLUMN) are in one of four cases, by what Java's ORC reader makes
of them in Hive of the table's generation (ConvertTreeReaderFactory of ORC 1.5.8 in Hive 3.1 and 1.8.5 in Hive 4.0):
their streams may be copied, they are the same numbers in another encoding, their values are converted (`conversion`),
or the change is refused. Only changes from whose result every old value can be recovered, and which all readers of that
Hive make alike, row by row and in batches, in any zone and on any Java, are converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest

from acidlib.errors import RefusedError
from acidlib.model.names import Generation
from acidlib.model.units import ColumnMatching
from acidlib.orc.columns import STRING_KINDS
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode

_INTEGER_WIDTH = {Kind.BYTE: 1, Kind.SHORT: 2, Kind.INT: 4, Kind.LONG: 8}
_DIGITS = {Kind.BOOLEAN: 1, Kind.BYTE: 3, Kind.SHORT: 5, Kind.INT: 10, Kind.LONG: 19}
"""Decimal digits of the longest number; a BOOLEAN is read as 0 or 1."""

_CHARACTERS = {Kind.BOOLEAN: 5, Kind.BYTE: 4, Kind.SHORT: 6, Kind.INT: 11, Kind.LONG: 20}
"""Characters of the longest text: FALSE, or the least number with its sign."""

_EXACT_REALS = {
    Kind.FLOAT: frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.SHORT}),
    Kind.DOUBLE: frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT}),
}
"""The integers of which a FLOAT (24 bits) or DOUBLE (53 bits) holds every one."""

_DATE_CHARACTERS = 10
"""Of `0001-01-01` to `9999-12-31`: readers disagree on the text of any other date."""

_REAL_CHARACTERS = {Kind.FLOAT: 15, Kind.DOUBLE: 24}
"""Characters of the longest text, `-1.17549435E-38` and `-2.2250738585072014E-308`."""

_LONGEST_CHAR, _MOST_DIGITS = 255, 38
"""Of Hive's CHAR and DECIMAL. A footer may claim more, and would then have every value padded to that."""

_NAMED = 3
_NO_NAME = re.compile(r"_col\d+", re.ASCII)


class Change(Enum):
    """What becomes of a column's own streams: these bytes, the same values in another encoding, or other values."""

    COPY = "copy"
    RECODE = "recode"
    CONVERT = "convert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """How a node of the output is filled from an input file.

    path       the names that lead to it, as `row.a.b`; elements of other nested types have their number
    source     the input's node, or None when the file has no such column: every value is null
    copyable   the subtree's streams and statistics may stand in the output as they are, and there are no others
    converted  the Hive as which the node's own values have to be converted, None where they stay
    """

    path: str
    target: TypeNode
    source: TypeNode | None
    children: tuple[Alignment, ...]
    copyable: bool
    converted: Generation | None = None

    def walk(self) -> Iterator[Alignment]:
        """This node and all below it, in column order."""
        yield self
        for child in self.children:
            yield from child.walk()


def has_names(row: TypeNode) -> bool:
    """Whether the columns of a file with this row have names (ORC `SchemaEvolution.hasColumnNames`).

    Files from before HIVE-4243 call them `_col0`, `_col1` and so on. One other name among the row's own, not those
    below, is enough.
    """
    return not all(_NO_NAME.fullmatch(name) for name in row.field_names)


def goes_by_position(row: TypeNode, matching: ColumnMatching) -> bool:
    """Whether readers take the columns of a file with this row by position: as they are set, or as it has no names."""
    return matching.by_position or not has_names(row)


def names_agree(target: TypeNode, source: TypeNode, *, named: bool = True) -> bool:
    """Whether names and positions give the same: the file's columns and fields are the first ones of the table, or all.

    named  False: the names of the row itself do not count, only those below
    """
    if target is source:
        return True  # as `parse_types` has it for the files of a table
    names = zip(source.field_names, target.field_names, strict=False)
    if len(source.children) > len(target.children) or (named and any(one != other for one, other in names)):
        return False
    return all(names_agree(t, s) for t, s in zip(target.children, source.children, strict=False))


def names_note(target: TypeNode, source: TypeNode, matching: ColumnMatching) -> str | None:
    """What people should know of a file whose columns have other names than the table's; None if `names_agree`."""
    if names_agree(target, source):
        return None
    columns, table = (f"({', '.join(row.field_names)})" for row in (source, target))
    if columns == table:
        columns, table = str(source), str(target)
    if goes_by_position(source, matching):
        if not matching.by_position:
            return f"files with the columns {columns}, which are no names, are read by position as {table}"
        others = "readers that go by name, such as Hive 3.1, may have seen other values in them before"
        return f"files with the columns {columns} are read by position as {table}; {others}"
    others = "readers that go by position, such as Hive 4 and Trino, may have seen other values in them before"
    return f"files with the columns {columns} are read by name as {table}; {others}"


def align(
    target: TypeNode,
    source: TypeNode,
    *,
    where: str,
    generation: Generation,
    matching: ColumnMatching,
    path: str = "row",
) -> Alignment:
    """Line up the row of an input with the table's; for types that differ `type_change` says what is allowed.

    Raises RefusedError naming column and file for any other difference.

    generation  of the Hive that reads the table
    matching    how it finds columns in files
    """
    by_position = goes_by_position(source, matching)
    return _Aligner(where, generation, matching.case_sensitive).align(target, source, path, by_position=by_position)


def conversions(alignment: Alignment) -> str | None:
    """The columns whose values have to be converted, `a from int to string, ...`, or None when there is none."""
    found = [part for part in alignment.walk() if part.converted]
    if not found:
        return None
    named = [f"{part.path.partition('.')[2]} from {part.source} to {part.target}" for part in found[:_NAMED]]
    more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return ", ".join([*named, *more])


@dataclass(frozen=True, slots=True)
class _Aligner:
    where: str
    generation: Generation
    case_sensitive: bool

    def align(self, target: TypeNode, source: TypeNode, path: str, *, by_position: bool = False) -> Alignment:
        if target.kind is Kind.STRUCT and source.kind is Kind.STRUCT:
            found = source.children if by_position else self._by_name(target, source)
            return self._struct(target, source, path, found)
        if len(target.children) != len(source.children):
            raise self._refuse(target, source, path)
        children = tuple(
            self.align(t, s, f"{path}.{i}")
            for i, (t, s) in enumerate(zip(target.children, source.children, strict=True))
        )
        change = type_change(target, source, self.generation)
        if change is None:
            raise self._refuse(target, source, path)
        return Alignment(
            path=path,
            target=target,
            source=source,
            children=children,
            copyable=change is Change.COPY and all(c.copyable for c in children),
            converted=self.generation if change is Change.CONVERT else None,
        )

    def _by_name(self, target: TypeNode, source: TypeNode) -> Sequence[TypeNode | None]:
        """For each of the table's fields the file's; of two with the same name readers see the last."""
        same = str if self.case_sensitive else str.lower
        found = {same(name): child for name, child in zip(source.field_names, source.children, strict=True)}
        return [found.get(same(name)) for name in target.field_names]

    def _struct(self, target: TypeNode, source: TypeNode, path: str, found: Sequence[TypeNode | None]) -> Alignment:
        pairs = list(zip_longest(target.children, found))[: len(target.children)]
        children = tuple(
            _absent(t, f"{path}.{name}") if s is None else self.align(t, s, f"{path}.{name}")
            for (t, s), name in zip(pairs, target.field_names, strict=True)
        )
        return Alignment(
            path=path,
            target=target,
            source=source,
            children=children,
            copyable=tuple(part.source for part in children) == source.children and all(c.copyable for c in children),
        )

    def _refuse(self, target: TypeNode, source: TypeNode, path: str) -> RefusedError:
        return RefusedError(
            f"Cannot compact {self.where}: because its column {path} is {source} and the table's is {target}, and no "
            "lossless conversion is known"
        )


def _absent(target: TypeNode, path: str) -> Alignment:
    children = tuple(_absent(child, f"{path}.{i}") for i, child in enumerate(target.children))
    return Alignment(path=path, target=target, source=None, children=children, copyable=False)


def type_change(target: TypeNode, source: TypeNode, generation: Generation) -> Change | None:
    """Return what becomes of a column of the source's type in a table that has the target's, children aside.

    None: the change is refused.
    """
    if target.kind in _INTEGER_WIDTH and source.kind in _INTEGER_WIDTH:
        if _INTEGER_WIDTH[target.kind] < _INTEGER_WIDTH[source.kind]:
            return None
        return Change.COPY if target.kind is source.kind or source.kind is not Kind.BYTE else Change.RECODE
    if source.kind in _DIGITS and target.kind is not source.kind:
        return Change.CONVERT if _holds_every_integer(target, source) else None
    if source.kind in (Kind.CHAR, Kind.VARCHAR):
        return _text_change(target, source)
    if target.kind in STRING_KINDS and (longest := _longest_text(source, generation)):
        return Change.CONVERT if _has_room(target, longest) else None
    if target.kind is Kind.DOUBLE and source.kind is Kind.FLOAT:
        return Change.CONVERT
    if target.kind is not source.kind:
        return None
    return _decimal_change(target, source) if target.kind is Kind.DECIMAL else Change.COPY


def _holds_every_integer(target: TypeNode, source: TypeNode) -> bool:
    if target.kind is Kind.DECIMAL:
        return target.precision - target.scale >= _DIGITS[source.kind]
    if target.kind in STRING_KINDS:
        return _has_room(target, _CHARACTERS[source.kind])
    if target.kind in _EXACT_REALS:
        return source.kind in _EXACT_REALS[target.kind]
    return source.kind is Kind.BOOLEAN and target.kind in _INTEGER_WIDTH


def _has_room(target: TypeNode, characters: int) -> bool:
    """Return whether every text of so many characters is one of a STRING, VARCHAR or CHAR."""
    if target.kind is Kind.CHAR:
        return characters <= target.maximum_length <= _LONGEST_CHAR
    return target.kind is Kind.STRING or target.maximum_length >= characters


def _longest_text(source: TypeNode, generation: Generation) -> int:
    """Return the characters of the longest text of a date, decimal or floating point number; 0 for any other type."""
    if source.kind is Kind.DATE:
        return _DATE_CHARACTERS
    if source.kind is Kind.DECIMAL and _is_known(source):
        whole = max(source.precision - source.scale, 1)
        return 1 + whole + (1 + source.scale if source.scale else 0)
    if source.kind is Kind.FLOAT and generation is Generation.HIVE4:
        return _REAL_CHARACTERS[Kind.DOUBLE]  # which it is made first
    return _REAL_CHARACTERS.get(source.kind, 0)


def _is_known(source: TypeNode) -> bool:
    return 1 <= source.precision <= _MOST_DIGITS and source.scale <= source.precision


def _text_change(target: TypeNode, source: TypeNode) -> Change | None:
    """Readers take the blanks off the end of a CHAR, so they are no part of what it becomes; a VARCHAR keeps them."""
    more = target.maximum_length - source.maximum_length
    kept = target.kind is Kind.STRING or (target.kind is Kind.VARCHAR and more >= 0)
    if source.kind is Kind.VARCHAR:
        return Change.COPY if kept else None
    if target.kind is Kind.CHAR and more == 0:
        return Change.COPY
    padded = target.kind is Kind.CHAR and more > 0 and target.maximum_length <= _LONGEST_CHAR
    return Change.CONVERT if kept or padded else None


def _decimal_change(target: TypeNode, source: TypeNode) -> Change | None:
    if bool(target.precision) != bool(source.precision):
        return None  # without one (Hive 0.11) each value has a scale of its own, which readers then round
    if target.scale == source.scale:
        return Change.COPY if target.precision >= source.precision else None
    more_digits = target.precision - target.scale >= source.precision - source.scale
    return Change.CONVERT if _is_known(source) and target.scale > source.scale and more_digits else None
