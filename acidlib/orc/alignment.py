"""Columns of an ORC file matched with those of its table as readers do it, and values converted to a changed type.

Columns of the row are matched by name or by position (`goes_by_position`); fields of structs within them always by
name (ORC `SchemaEvolution`, the same in 1.5.8 of Hive 3.1 and 1.8.5 of Hive 4.0: only the levels down to the row are
positional). Columns that the file lacks are null, columns that only the file has are dropped.

A changed type (ALTER TABLE ... CHANGE COLUMN) is one of four cases, by the conversion of Java's ORC reader in Hive of
the table's generation (ConvertTreeReaderFactory of ORC 1.5.8 in Hive 3.1 and 1.8.5 in Hive 4.0): the column's streams
may be copied, they are the same numbers in another encoding, its values are converted (`convert`), or the change is
refused. A change is converted only if every old value can be recovered from the result, and if all readers of that Hive
convert alike: row by row and in batches, in any zone and on any Java. The two versions of ORC agree on these changes
except of FLOAT: 74.72 becomes the DOUBLE or the text of 74.72 for Hive 3.1, and of its exact value 74.72000122070312
for Hive 4.0. The result holds the values that the table's Hive reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.acid.names import Generation, Reader
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import ColumnMatching
from acidlib.orc.columns import STRING_KINDS, Bytes, Column, Dictionary, Longs
from acidlib.orc.kernels.texts import date_texts, decimal_texts, first_too_long, integer_texts, real_texts, repadded
from acidlib.orc.proto import GREGORIAN_START_DAYS, Calendar, Kind
from acidlib.orc.schema import MAX_SHOWN_CHARACTERS, TypeNode, shown
from acidlib.wording import brief

_INTEGER_WIDTH = {Kind.BYTE: 1, Kind.SHORT: 2, Kind.INT: 4, Kind.LONG: 8}
_RANGES = {kind: (-(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1) for kind, width in _INTEGER_WIDTH.items()}
_RANGES[Kind.BOOLEAN] = 0, 1  # the numbers that readers take it for
_DIGITS = {kind: len(str(greatest)) for kind, (_, greatest) in _RANGES.items()}
"""Decimal digits of the longest number."""

_CHARACTERS = {kind: len(str(least)) for kind, (least, _) in _RANGES.items()} | {Kind.BOOLEAN: len("FALSE")}
"""Characters of the longest text, the least number with its sign."""

_EXACT_REALS = {
    Kind.FLOAT: frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.SHORT}),
    Kind.DOUBLE: frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT}),
}
"""The integer kinds with no number too long for a FLOAT (24 bits) or DOUBLE (53 bits)."""

_DATE_CHARACTERS = 10
"""Of `0001-01-01` to `9999-12-31`: readers disagree on the text of any other date."""

_REAL_CHARACTERS = {Kind.FLOAT: 15, Kind.DOUBLE: 24}
"""Characters of the longest text, `-1.17549435E-38` and `-2.2250738585072014E-308`."""

_MAX_CHAR, _MAX_DIGITS = 255, 38
"""Of Hive's CHAR and DECIMAL. A damaged footer may have more, and would have every value padded to that."""

_FIRST_DAY, _LAST_DAY = -719_164, 2_932_896
"""0001-01-01 of the hybrid calendar, and 9999-12-31."""

Reals = NDArray[np.floating[Any]]
Forms = NDArray[np.bytes_]
_FORM, _REAL = "S32", 24
_LOG_2 = float(np.log10(2))
_MIN_POWER, _MAX_WHOLE = 2.0**-23, 2.0**62
"""Java 8 to 25 agree on the texts of powers of two from the first, and of whole numbers below the second."""

_WIDEST_DICTIONARY = 1 << 16
_PATTERNS: dict[Kind, tuple[type[np.generic], type[np.generic]]] = {
    Kind.BYTE: (np.uint8, np.uint8),
    Kind.FLOAT: (np.float32, np.uint32),
    Kind.DOUBLE: (np.float64, np.uint64),
}
"""The type of the numbers in `Column.values` of a kind, and of their bit patterns there; int64 for other kinds."""

_ROW = "row"
"""The path of the row itself."""

_NO_NAME = re.compile(r"_col\d+", re.ASCII)


class Change(Enum):
    """What happens to a column's own streams: same bytes, same values in another encoding, or converted values."""

    COPY = "copy"
    RECODE = "recode"
    CONVERT = "convert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The way in which a node of the output is filled from an input file.

    path       its names from the root, as `row.a.b`; elements of other nested types have their number
    source     the input's node, or None when the file has no such column: every value is null
    copyable   the subtree's streams and statistics may stand in the output as they are, and there are no others
    converted  the Hive that the conversion of the node's own values follows, None where they stay
    """

    path: str
    target: TypeNode
    source: TypeNode | None
    children: tuple[Alignment, ...]
    copyable: bool
    converted: Reader | None = None

    def walk(self) -> Iterator[Alignment]:
        """Yield this node and all below it, in column order."""
        yield self
        for child in self.children:
            yield from child.walk()


def align(
    target: TypeNode,
    source: TypeNode,
    *,
    where: str,
    reader: Reader,
    matching: ColumnMatching,
    chosen: Collection[str] | None = None,
    purpose: str = "compact",
) -> Alignment:
    """Align the row of an input with the table's; types may differ as `type_change` allows.

    Raises RefusedError naming column and file for any other difference.

    reader    of the table
    matching  how it finds columns in files
    chosen    the table's columns that are needed, None for all: the others are as if the file had none of them
    purpose   what cannot be done with a file that differs
    """
    same = str if matching.case_sensitive else str.lower

    def align_node(target: TypeNode, source: TypeNode, path: str, *, by_position: bool = False) -> Alignment:
        is_struct = target.kind is source.kind is Kind.STRUCT
        change = type_change(target, source, reader)
        if change is None or (not is_struct and len(target.children) != len(source.children)):
            raise RefusedError(
                f"Cannot {purpose} {where}: its column {path} is {source} and the table's is {target}, and no "
                "lossless conversion is known"
            )
        sources: tuple[TypeNode | None, ...] = source.children
        if is_struct and not by_position:
            # of two fields with the same name readers see the last
            named = {same(name): child for name, child in zip(source.field_names, source.children, strict=True)}
            sources = tuple(named.get(same(name)) for name in target.field_names)
        pairs = list(zip_longest(target.children, sources))[: len(target.children)]
        if chosen is not None and path == _ROW:
            names = zip(target.field_names, pairs, strict=True)
            pairs = [(child, own if name in chosen else None) for name, (child, own) in names]
        below = target.field_names if is_struct else range(len(pairs))
        children = tuple(
            _absent(t, f"{path}.{name}") if s is None else align_node(t, s, f"{path}.{name}")
            for (t, s), name in zip(pairs, below, strict=True)
        )
        is_whole = tuple(part.source for part in children) == source.children
        return Alignment(
            path=path,
            target=target,
            source=source,
            children=children,
            copyable=change is Change.COPY and is_whole and all(part.copyable for part in children),
            converted=reader if change is Change.CONVERT else None,
        )

    return align_node(target, source, _ROW, by_position=goes_by_position(source, matching))


def _absent(target: TypeNode, path: str) -> Alignment:
    children = tuple(_absent(child, f"{path}.{i}") for i, child in enumerate(target.children))
    return Alignment(path=path, target=target, source=None, children=children, copyable=False)


def has_names(row: TypeNode) -> bool:
    """Return whether the columns of a file with this row have names (ORC `SchemaEvolution.hasColumnNames`).

    Files from before HIVE-4243 call them `_col0`, `_col1` and so on. A single other name among the row's own fields,
    not those below, is enough.
    """
    return not all(_NO_NAME.fullmatch(name) for name in row.field_names)


def goes_by_position(row: TypeNode, matching: ColumnMatching) -> bool:
    """Return whether readers match this row's columns by position: by their setting, or since it has no names."""
    return matching.by_position or not has_names(row)


def names_agree(target: TypeNode, source: TypeNode, *, named: bool = True) -> bool:
    """Return whether names and positions match the same: the file has the table's first columns and fields, or all.

    named  False: the names of the row itself do not count, only those below
    """
    if target is source:
        return True  # `parse_types` returns one tree for the files of a table
    names = zip(source.field_names, target.field_names, strict=False)
    if len(source.children) > len(target.children) or (named and any(own != other for own, other in names)):
        return False
    return all(names_agree(t, s) for t, s in zip(target.children, source.children, strict=False))


def names_note(target: TypeNode, source: TypeNode, matching: ColumnMatching) -> str | None:
    """Return a note on a file whose columns have other names than the table's; None if `names_agree`."""
    if names_agree(target, source):
        return None
    columns, table = (f"({', '.join(row.field_names)})" for row in (source, target))
    if columns == table:
        columns, table = str(source), str(target)
    columns, table = brief(columns, MAX_SHOWN_CHARACTERS), brief(table, MAX_SHOWN_CHARACTERS)
    if goes_by_position(source, matching):
        if not matching.by_position:
            return f"files with the columns {columns}, which are no names, are read by position as {table}"
        others = "readers that go by name, such as Hive 3.1, may have seen other values in them before"
        return f"files with the columns {columns} are read by position as {table}; {others}"
    others = "readers that go by position, such as Hive 4 and Trino, may have seen other values in them before"
    return f"files with the columns {columns} are read by name as {table}; {others}"


def conversions(alignment: Alignment) -> str | None:
    """Return the columns with values to convert, `a from int to string, ...`, or None when there is none."""
    parts = [part for part in alignment.walk() if part.converted]
    if not parts:
        return None
    named = [
        f"{part.path.partition('.')[2]} from {brief(str(part.source), MAX_SHOWN_CHARACTERS)} to {shown(part.target)}"
        for part in parts[:3]
    ]
    more = [f"{len(parts) - 3} more"] if len(parts) > 3 else []
    return ", ".join([*named, *more])


def type_change(target: TypeNode, source: TypeNode, reader: Reader) -> Change | None:
    """Return the change of a column of the source's type to the target's, children aside; None if it is refused."""
    new, old = target.kind, source.kind
    if new in _INTEGER_WIDTH and old in _INTEGER_WIDTH:
        if _INTEGER_WIDTH[new] < _INTEGER_WIDTH[old]:
            return None
        return Change.COPY if new is old or old is not Kind.BYTE else Change.RECODE
    if old in _DIGITS and new is not old:
        if new is Kind.DECIMAL:
            holds_all = target.precision - target.scale >= _DIGITS[old]
        elif new in STRING_KINDS:
            holds_all = _has_room(target, _CHARACTERS[old])
        elif new in _EXACT_REALS:
            holds_all = old in _EXACT_REALS[new]
        else:
            holds_all = old is Kind.BOOLEAN and new in _INTEGER_WIDTH
        return Change.CONVERT if holds_all else None
    if old in (Kind.CHAR, Kind.VARCHAR):
        return _text_change(target, source)
    if new in STRING_KINDS and (longest := _longest_text(source, reader)):
        return Change.CONVERT if _has_room(target, longest) else None
    if new is Kind.DOUBLE and old is Kind.FLOAT:
        return Change.CONVERT
    if new is not old:
        return None
    if new is not Kind.DECIMAL:
        return Change.COPY
    if bool(target.precision) != bool(source.precision):
        # without a precision (Hive 0.11) each value has a scale of its own, which readers then round
        return Change.CONVERT if target.precision and not source.scale else None
    if target.scale == source.scale:
        return Change.COPY if target.precision >= source.precision else None
    more_digits = target.precision - target.scale >= source.precision - source.scale
    return Change.CONVERT if _is_known(source) and target.scale > source.scale and more_digits else None


def _has_room(target: TypeNode, characters: int) -> bool:
    """Return whether a STRING, VARCHAR or CHAR can hold every text of so many characters."""
    if target.kind is Kind.CHAR:
        return characters <= target.maximum_length <= _MAX_CHAR
    return target.kind is Kind.STRING or target.maximum_length >= characters


def _longest_text(source: TypeNode, reader: Reader) -> int:
    """Return the characters of the longest text of a date, decimal or floating point number; 0 for any other type."""
    if source.kind is Kind.DATE:
        return _DATE_CHARACTERS
    if source.kind is Kind.DECIMAL and _is_known(source):
        whole = max(source.precision - source.scale, 1)
        return 1 + whole + (1 + source.scale if source.scale else 0)
    if source.kind is Kind.FLOAT and reader is Generation.HIVE4:
        return _REAL_CHARACTERS[Kind.DOUBLE]  # Hive 4 converts it to a DOUBLE first
    return _REAL_CHARACTERS.get(source.kind, 0)


def _is_known(source: TypeNode) -> bool:
    """Return whether a DECIMAL has a precision and scale of Hive's."""
    return 1 <= source.precision <= _MAX_DIGITS and source.scale <= source.precision


def _text_change(target: TypeNode, source: TypeNode) -> Change | None:
    # readers strip blanks from the end of a CHAR before they convert it; a VARCHAR keeps them
    more = target.maximum_length - source.maximum_length
    kept = target.kind is Kind.STRING or (target.kind is Kind.VARCHAR and more >= 0)
    if source.kind is Kind.VARCHAR:
        return Change.COPY if kept else None
    if target.kind is Kind.CHAR and more == 0:
        return Change.COPY
    padded = target.kind is Kind.CHAR and more > 0 and target.maximum_length <= _MAX_CHAR
    return Change.CONVERT if kept or padded else None


def convert(column: Column, target: TypeNode, source: TypeNode, *, reader: Reader, calendar: int) -> Column:
    """Return a column of the source's type converted to the target's, with the same nulls and slots.

    Raises CorruptError for values outside the source's type, which readers cut differently, RefusedError for values
    that readers convert differently.

    calendar  of the file, for dates
    """
    if source.kind is Kind.DATE:
        return _from_dates(column, target, proleptic=calendar == Calendar.PROLEPTIC_GREGORIAN)
    if source.kind is Kind.DECIMAL:
        high, scales = column.high_words, column.secondary
        if not source.precision:
            return _of_scale(column, target)
        wrong = first_too_long(column.values, high, scales, source.precision, source.scale)
        if wrong >= 0:
            raise CorruptError(f"its value {_unscaled(column, wrong)} of scale {scales[wrong]} is no {source}")
        if target.kind in STRING_KINDS:
            return _direct(column, target, decimal_texts(column.values, high, scales, _width(target)))
        # each value has a scale of its own, so it stays as it is stored
        return replace(column, kind=target.kind)
    if source.kind is Kind.CHAR:
        old = column.dictionary
        before, sizes = (column.data, column.lengths) if old is None else (old.data, np.diff(old.offsets))
        data, lengths, most = repadded(before, sizes, _width(target))
        if most > source.maximum_length:
            raise CorruptError(f"a value of {most} characters is no {source}")
        if old is None:
            return replace(column, kind=target.kind, data=data, lengths=lengths)
        return replace(column, kind=target.kind, dictionary=Dictionary.of(data, lengths))
    if source.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _from_reals(column, target, source, reader)
    return _from_integers(column, target, source)


def _unscaled(column: Column, place: int) -> int:
    """Return a value of a DECIMAL column without its point."""
    return (int(column.high_words[place]) << 64) + (int(column.values[place]) & (2**64 - 1))


def _of_scale(column: Column, target: TypeNode) -> Column:
    """Return numbers whose file states no precision and scale as DECIMALs of a type, without zeros that are too many.

    Raises RefusedError for a number that readers round to the type, or take for null as it is too large.
    """
    low, high, scales = column.values.copy(), column.high_words.copy(), column.secondary.copy()
    for place in np.flatnonzero(scales > target.scale).tolist():
        unscaled, rest = divmod(_unscaled(column, place), 10 ** int(scales[place] - target.scale))
        if not rest:
            low[place] = (unscaled + 2**63) % 2**64 - 2**63
            high[place], scales[place] = unscaled >> 64, target.scale
    wrong = first_too_long(low, high, scales, target.precision, target.scale)
    if wrong >= 0:
        raise RefusedError(
            f"its value {_unscaled(column, wrong)} of scale {column.secondary[wrong]} is rounded as {target}, or null"
        )
    return replace(column, values=low, high=high, secondary=scales)


def _from_integers(column: Column, target: TypeNode, source: TypeNode) -> Column:
    """Return the numbers of a BOOLEAN, BYTE, SHORT, INT or LONG column converted to another type."""
    values = column.values.view(np.int8) if source.kind is Kind.BYTE else column.values
    numbers: Longs = values.astype(np.int64, copy=False)
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    low, high = _RANGES[source.kind]
    if least < low or most > high:
        raise CorruptError(f"its value {least if least < low else most} is no {source}")
    if target.kind not in STRING_KINDS:
        secondary = np.zeros_like(numbers) if target.kind is Kind.DECIMAL else column.secondary
        real, pattern = _PATTERNS.get(target.kind, (np.int64, np.int64))
        return replace(
            column, kind=target.kind, values=numbers.astype(real, copy=False).view(pattern), secondary=secondary
        )
    width = _width(target)
    if source.kind is Kind.BOOLEAN:
        padded = [text.ljust(width) for text in (b"FALSE", b"TRUE")]
        data, lengths = np.frombuffer(b"".join(padded), dtype=np.uint8), np.array([len(text) for text in padded])
        return replace(column, kind=target.kind, values=numbers, dictionary=Dictionary.of(data, lengths))
    # a dictionary of all numbers from the least to the greatest, if these are fewer than the values
    if len(numbers) and most - least < min(_WIDEST_DICTIONARY, len(numbers)):
        entries = Dictionary.of(*integer_texts(np.arange(least, most + 1, dtype=np.int64), width))
        return replace(column, kind=target.kind, values=numbers - least, dictionary=entries)
    return _direct(column, target, integer_texts(numbers, width))


def _from_dates(column: Column, target: TypeNode, *, proleptic: bool) -> Column:
    """Return texts of days, as a dictionary: there are few days.

    The texts are of the file's calendar. Hive 3.1 reads every file by the hybrid calendar, so a date of a file of the
    other calendar has two texts where the calendars differ, and is refused.
    """
    days, numbers = np.unique(column.values, return_inverse=True)
    if len(days):
        first, last = int(days[0]), int(days[-1])
        if first < _FIRST_DAY or last > _LAST_DAY:
            wrong = first if first < _FIRST_DAY else last
            raise RefusedError(
                f"day {wrong} is not from 0001-01-01 to 9999-12-31, and readers disagree on the text of others"
            )
        if proleptic and first < GREGORIAN_START_DAYS:
            raise RefusedError(f"day {first} is before 1582-10-15, where readers disagree on the calendar")
    return replace(
        column, kind=target.kind, values=numbers, dictionary=Dictionary.of(*date_texts(days, _width(target)))
    )


def _from_reals(column: Column, target: TypeNode, source: TypeNode, reader: Reader) -> Column:
    reals: Reals = column.values.view(np.float32 if source.kind is Kind.FLOAT else np.float64)
    if source.kind is Kind.FLOAT and reader is Generation.HIVE4:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            reals = reals.astype(np.float64)
        if target.kind is Kind.DOUBLE:
            return replace(column, kind=target.kind, values=reals.view(np.uint64))
    if target.kind is Kind.DOUBLE:
        # numpy's NaN for `nan` is that of Java's `Double.parseDouble`
        wide = _decimal_forms(reals, reader).astype(np.float64)
        return replace(column, kind=target.kind, values=wide.view(np.uint64))
    if np.isnan(reals).any():
        raise RefusedError("its value NaN is read as null, which would be lost")
    return _direct(column, target, _java_texts(_decimal_forms(reals, reader), _width(target)))


def _java_texts(forms: Forms, width: int) -> tuple[Bytes, Longs]:
    return real_texts(forms.view(np.uint8), forms.itemsize, width)


def _decimal_forms(reals: Reals, reader: Reader) -> Forms:
    """Return the decimal number that Java writes for each value, in any notation.

    Since Java 19 it has the fewest digits among the decimals nearest to the value, as in Python. Earlier versions
    (JDK-4511638) wrote others for some powers of two and for subnormal numbers, and gave whole numbers with more bits
    than their type the digits of the power of two of their last bit. Hive 3.1 runs on Java 8; Hive 4 on all, so values
    that depend on the version of Java are refused.
    """
    sizes, (fractions, _) = np.abs(reals), np.frexp(reals)
    limits = np.finfo(reals.dtype)
    with np.errstate(invalid="ignore"):
        is_power = (np.abs(fractions) == 0.5) & (sizes < _MIN_POWER)
        is_odd = (
            (sizes > 0) & (is_power | (sizes < limits.smallest_normal) | (sizes >= _MAX_WHOLE)) & np.isfinite(reals)
        )
        is_whole = (sizes >= 2.0 ** (limits.nmant + 1)) & (sizes < _MAX_WHOLE)
    if is_odd.any():
        raise _depends_on_java(reals[is_odd])
    forms = reals.astype(_FORM)
    if is_whole.any():
        older = _older_forms(reals[is_whole], limits.nmant)
        if reader is Generation.HIVE4:
            texts = [_java_texts(form, _REAL)[0].reshape(-1, _REAL) for form in (forms[is_whole], older)]
            differ = (texts[0] != texts[1]).any(axis=1)
            if differ.any():
                raise _depends_on_java(reals[is_whole][differ])
        forms[is_whole] = older
    return forms


def _older_forms(reals: Reals, bits: int) -> Forms:
    """Return whole numbers of more than so many bits as versions of Java before 19 write them."""
    _, exponents = np.frexp(reals)
    unsure = np.maximum(exponents.astype(np.int64) - bits - 3, 0)
    unit = 10 ** np.floor(unsure * _LOG_2).astype(np.int64)
    unit[unsure < 2] = 1
    whole = np.abs(reals).astype(np.int64)
    rounded = (whole + unit // 2) // unit * unit
    return np.where(reals < 0, -rounded, rounded).astype(_FORM)


def _depends_on_java(reals: Reals) -> RefusedError:
    return RefusedError(f"its value {reals[0]!s} is converted differently by different versions of Java")


def _direct(column: Column, target: TypeNode, texts: tuple[Bytes, Longs]) -> Column:
    data, lengths = texts
    return Column(kind=target.kind, slots=column.slots, present=column.present, lengths=lengths, data=data)


def _width(target: TypeNode) -> int:
    """Return the least characters of a text: a CHAR is padded to its length."""
    return target.maximum_length if target.kind is Kind.CHAR else 0
