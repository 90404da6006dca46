"""The values of a column under another type: those changes that `alignment.type_change` calls CONVERT.

Source: ORC ConvertTreeReaderFactory, which is what Hive reads a file of an older type with; its versions 1.5.8 (Hive
3.1) and 1.8.5 (Hive 4.0) agree on all of these but on FLOAT: 74.72 becomes the DOUBLE or the text of 74.72 for Hive
3.1, and for Hive 4.0 that of 74.72000122070312, which it is. The result holds what the table's Hive reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.names import Generation
from acidlib.orc.columns import STRING_KINDS, Bytes, Column, Dictionary, Longs
from acidlib.orc.kernels.texts import date_texts, decimal_texts, first_too_long, integer_texts, real_texts, repadded
from acidlib.orc.proto import Calendar, Kind
from acidlib.orc.schema import TypeNode

_RANGES = {
    Kind.BOOLEAN: (0, 1),
    Kind.BYTE: (-(2**7), 2**7 - 1),
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.LONG: (-(2**63), 2**63 - 1),
}
_FIRST_DAY, _CALENDARS_AGREE, _LAST_DAY = -719_164, -141_427, 2_932_896
"""0001-01-01 of the hybrid calendar, 1582-10-15 and 9999-12-31."""

Reals = NDArray[np.floating[Any]]
Forms = NDArray[np.bytes_]
_FORM, _REAL = "S32", 24
_LOG_2 = float(np.log10(2))
_LEAST_POWER, _MOST_WHOLE = 2.0**-23, 2.0**62
"""What Java 8 to 25 write alike begins with, among powers of two, and what it takes for a whole number ends before."""

_WIDEST_DICTIONARY = 1 << 16
_BOOLEAN_TEXTS = (b"FALSE", b"TRUE")


def convert(column: Column, target: TypeNode, source: TypeNode, *, generation: Generation, calendar: int) -> Column:
    """Return a column of the source's type as one of the target's, nulls and slots as they were.

    Raises CorruptError for values that the source's type cannot have: readers cut those, each in its own way.
    RefusedError for values that readers convert each in its own way. `calendar`: that of the file, for dates.
    """
    if source.kind is Kind.DATE:
        return _from_dates(column, target, proleptic=calendar == Calendar.PROLEPTIC_GREGORIAN)
    if source.kind is Kind.DECIMAL:
        _check_decimals(column, source)
        if target.kind in STRING_KINDS:
            return _direct(column, target, decimal_texts(column.values, column.high, column.secondary, _width(target)))
        # each value has a scale of its own, so it stays as it is stored
        return replace(column, kind=target.kind)
    if source.kind is Kind.CHAR:
        return _from_char(column, target, source)
    if source.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _from_reals(column, target, source, generation)
    return _from_integers(column, _integers(column, source), target)


def _integers(column: Column, source: TypeNode) -> Longs:
    """The numbers of a BOOLEAN, BYTE, SHORT, INT or LONG column."""
    values = column.values.view(np.int8) if source.kind is Kind.BYTE else column.values
    low, high = _RANGES[source.kind]
    if len(values) and (int(values.min()) < low or int(values.max()) > high):
        wrong = int(values.min()) if int(values.min()) < low else int(values.max())
        raise CorruptError(f"its value {wrong} is no {source}")
    return values.astype(np.int64, copy=False)


def _from_integers(column: Column, numbers: Longs, target: TypeNode) -> Column:
    if target.kind in STRING_KINDS:
        return _texts(column, numbers, target)
    if target.kind is Kind.DECIMAL:
        return replace(column, kind=target.kind, values=numbers, secondary=np.zeros_like(numbers))
    if target.kind is Kind.BYTE:
        return replace(column, kind=target.kind, values=numbers.astype(np.uint8))
    if target.kind is Kind.FLOAT:
        return replace(column, kind=target.kind, values=numbers.astype(np.float32).view(np.uint32))
    if target.kind is Kind.DOUBLE:
        return replace(column, kind=target.kind, values=numbers.astype(np.float64).view(np.uint64))
    return replace(column, kind=target.kind, values=numbers)


def _texts(column: Column, numbers: Longs, target: TypeNode) -> Column:
    """Texts of numbers: as a dictionary of all between the least and the most, if these are fewer than the values."""
    width = _width(target)
    if column.kind is Kind.BOOLEAN:
        padded = [text.ljust(width) for text in _BOOLEAN_TEXTS]
        data = np.frombuffer(b"".join(padded), dtype=np.uint8)
        return replace(
            column, kind=target.kind, values=numbers, dictionary=_dictionary(data, np.array([len(t) for t in padded]))
        )
    if len(numbers):
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < min(_WIDEST_DICTIONARY, len(numbers)):
            entries = _dictionary(*integer_texts(np.arange(low, high + 1, dtype=np.int64), width))
            return replace(column, kind=target.kind, values=numbers - low, dictionary=entries)
    return _direct(column, target, integer_texts(numbers, width))


def _direct(column: Column, target: TypeNode, texts: tuple[Bytes, Longs]) -> Column:
    data, lengths = texts
    return Column(kind=target.kind, slots=column.slots, present=column.present, lengths=lengths, data=data)


def _width(target: TypeNode) -> int:
    """Return how many characters every text has at least: those of a CHAR are padded."""
    return target.maximum_length if target.kind is Kind.CHAR else 0


def _from_dates(column: Column, target: TypeNode, *, proleptic: bool) -> Column:
    """Return texts of days, as a dictionary: there are few days.

    The texts are of the file's calendar. Hive 3.1 takes every file for one of the hybrid calendar, so there are two
    texts for the dates of others on which the calendars differ.
    """
    days, places = np.unique(column.values, return_inverse=True)
    if len(days):
        first, last = int(days[0]), int(days[-1])
        if first < _FIRST_DAY or last > _LAST_DAY:
            wrong = first if first < _FIRST_DAY else last
            raise RefusedError(
                f"day {wrong} is not from 0001-01-01 to 9999-12-31, and readers write others in several ways"
            )
        if proleptic and first < _CALENDARS_AGREE:
            raise RefusedError(f"day {first} is before 1582-10-15, and readers take it for dates of several calendars")
    return replace(column, kind=target.kind, values=places, dictionary=_dictionary(*date_texts(days, _width(target))))


def _from_reals(column: Column, target: TypeNode, source: TypeNode, generation: Generation) -> Column:
    reals: Reals = column.values.view(np.float32 if source.kind is Kind.FLOAT else np.float64)
    if source.kind is Kind.FLOAT and generation is Generation.HIVE4:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            reals = reals.astype(np.float64)
        if target.kind is Kind.DOUBLE:
            return replace(column, kind=target.kind, values=reals.view(np.uint64))
    if target.kind is Kind.DOUBLE:
        # `nan` is the one that Java's `Double.parseDouble` makes
        wide = _decimal_forms(reals, generation).astype(np.float64)
        return replace(column, kind=target.kind, values=wide.view(np.uint64))
    if np.isnan(reals).any():
        raise RefusedError("its value NaN is read as null, which would be lost")
    return _direct(column, target, _java_texts(_decimal_forms(reals, generation), _width(target)))


def _java_texts(forms: Forms, width: int) -> tuple[Bytes, Longs]:
    return real_texts(forms.view(np.uint8), forms.itemsize, width)


def _decimal_forms(reals: Reals, generation: Generation) -> Forms:
    """Return the decimal number as which Java writes each one, in any form.

    Since Java 19 that is the one with the fewest digits of those nearest to the value, as Python has it. Before it was
    another one for some powers of two and for what is no normal number, and whole numbers with more bits than their
    type had as many digits as the power of two that their last bit stands for (JDK-4511638). Hive 3.1 runs on Java 8;
    Hive 4 on all, so what depends on the Java is refused.
    """
    sizes, (fractions, _) = np.abs(reals), np.frexp(reals)
    limits = np.finfo(reals.dtype)
    with np.errstate(invalid="ignore"):
        is_power = (np.abs(fractions) == 0.5) & (sizes < _LEAST_POWER)
        is_odd = (
            (sizes > 0) & (is_power | (sizes < limits.smallest_normal) | (sizes >= _MOST_WHOLE)) & np.isfinite(reals)
        )
        is_whole = (sizes >= 2.0 ** (limits.nmant + 1)) & (sizes < _MOST_WHOLE)
    if is_odd.any():
        raise _depends_on_java(reals[is_odd])
    forms = reals.astype(_FORM)
    if is_whole.any():
        older = _older_forms(reals[is_whole], limits.nmant)
        if generation is Generation.HIVE4:
            texts = [_java_texts(form, _REAL)[0].reshape(-1, _REAL) for form in (forms[is_whole], older)]
            differ = (texts[0] != texts[1]).any(axis=1)
            if differ.any():
                raise _depends_on_java(reals[is_whole][differ])
        forms[is_whole] = older
    return forms


def _older_forms(reals: Reals, bits: int) -> Forms:
    """Return whole numbers of more than so many bits as Java before 19 writes them."""
    _, exponents = np.frexp(reals)
    unsure = np.maximum(exponents.astype(np.int64) - bits - 3, 0)
    unit = 10 ** np.floor(unsure * _LOG_2).astype(np.int64)
    unit[unsure < 2] = 1
    whole = np.abs(reals).astype(np.int64)
    rounded = (whole + unit // 2) // unit * unit
    return np.where(reals < 0, -rounded, rounded).astype(_FORM)


def _depends_on_java(reals: Reals) -> RefusedError:
    return RefusedError(f"its value {reals[0]!s} becomes another one in some versions of Java than in others")


def _from_char(column: Column, target: TypeNode, source: TypeNode) -> Column:
    width = _width(target)
    old = column.dictionary
    before, sizes = (column.data, column.lengths) if old is None else (old.data, np.diff(old.offsets))
    data, lengths, most = repadded(before, sizes, width)
    if most > source.maximum_length:
        raise CorruptError(f"a value of {most} characters is no {source}")
    if old is None:
        return replace(column, kind=target.kind, data=data, lengths=lengths)
    return replace(column, kind=target.kind, dictionary=_dictionary(data, lengths))


def _dictionary(data: np.ndarray[tuple[int], np.dtype[np.uint8]], lengths: Longs) -> Dictionary:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Dictionary(offsets=offsets, data=data)


def _check_decimals(column: Column, source: TypeNode) -> None:
    found = first_too_long(column.values, column.high, column.secondary, source.precision, source.scale)
    if found is not None:
        high = int(column.values[found] < 0) * -1 if column.high is None else int(column.high[found])
        unscaled = (high << 64) + (int(column.values[found]) & (2**64 - 1))
        raise CorruptError(f"its value {unscaled} of scale {column.secondary[found]} is no {source}")
