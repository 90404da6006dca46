"""The values of a column under another type: those changes that `alignment.type_change` calls CONVERT.

Source: ORC ConvertTreeReaderFactory, which is what Hive reads a file of an older type with; its versions 1.5.8 (Hive
3.1) and 1.8.5 (Hive 4.0) agree on all of these but FLOAT to DOUBLE, which is done for Hive 4 alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from acidlib.errors import CorruptError
from acidlib.orc.column import NO_VALUES, STRING_KINDS, Column, Dictionary, Longs
from acidlib.orc.kernels.texts import first_too_long, integer_texts, repadded
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode

_RANGES = {
    Kind.BOOLEAN: (0, 1),
    Kind.BYTE: (-(2**7), 2**7 - 1),
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.LONG: (-(2**63), 2**63 - 1),
}
_WIDEST_DICTIONARY = 1 << 16
_BOOLEAN_TEXTS = (b"FALSE", b"TRUE")


def convert(column: Column, target: TypeNode, source: TypeNode) -> Column:
    """A column of the source's type as one of the target's, nulls and slots as they were.

    Raises CorruptError for values that the source's type cannot have: readers cut those, each in its own way.
    """
    if source.kind is Kind.DECIMAL:
        _check_decimals(column, source)
        # each value has a scale of its own, so it stays as it is stored
        return replace(column, kind=target.kind)
    if source.kind is Kind.CHAR:
        return _from_char(column, target, source)
    if source.kind is Kind.FLOAT:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            wide = column.values.view(np.float32).astype(np.float64)
        return replace(column, kind=target.kind, values=wide.view(np.uint64))
    return _from_integers(column, _integers(column, source), target)


def _integers(column: Column, source: TypeNode) -> Longs:
    """The numbers of a BOOLEAN, BYTE, SHORT, INT or LONG column."""
    values = column.values.view(np.int8) if source.kind is Kind.BYTE else column.values
    low, high = _RANGES[source.kind]
    if len(values) and (int(values.min()) < low or int(values.max()) > high):
        wrong = int(values.min()) if int(values.min()) < low else int(values.max())
        raise CorruptError(f"because its value {wrong} is no {source}")
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
    width = target.maximum_length if target.kind is Kind.CHAR else 0
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
    data, lengths = integer_texts(numbers, width)
    return replace(column, kind=target.kind, values=NO_VALUES, lengths=lengths, data=data)


def _from_char(column: Column, target: TypeNode, source: TypeNode) -> Column:
    width = target.maximum_length if target.kind is Kind.CHAR else 0
    old = column.dictionary
    before, sizes = (column.data, column.lengths) if old is None else (old.data, np.diff(old.offsets))
    data, lengths, most = repadded(before, sizes, width)
    if most > source.maximum_length:
        raise CorruptError(f"because a value of {most} characters is no {source}")
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
        raise CorruptError(f"because its value {unscaled} of scale {column.secondary[found]} is no {source}")
