"""Columns that the kernels of `orc/` decoded, as Arrow arrays; and texts, dates and times as Hive reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.columns import Column, Longs, Mask, as_direct, offsets_of
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode
from acidlib.scan.times import StoredTimes

_TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.CHAR: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMP_INSTANT: pa.timestamp("us", "UTC"),
}
_RANGES = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in ((Kind.SHORT, 16), (Kind.INT, 32), (Kind.DATE, 32))
}
_MAX_BYTES = (1 << 31) - 1
"""Of the texts of an Arrow array with offsets of 32 bits, which is what Spark reads."""


def arrow_type(node: TypeNode) -> pa.DataType:
    """Return the Arrow type of the values of a Hive type. Raises RefusedError for a UNIONTYPE."""
    if node.kind is Kind.LIST:
        return pa.list_(arrow_type(node.children[0]))
    if node.kind is Kind.MAP:
        return pa.map_(*map(arrow_type, node.children))
    if node.kind is Kind.STRUCT:
        fields = zip(node.field_names, node.children, strict=True)
        return pa.struct([(name, arrow_type(child)) for name, child in fields])
    if node.kind is Kind.DECIMAL:
        return pa.decimal128(node.precision, node.scale)
    if node.kind not in _TYPES:
        raise RefusedError(f"Cannot read a column of type {node}: Spark has no such type")
    return _TYPES[node.kind]


def arrow_array(column: Column, node: TypeNode, times: StoredTimes) -> pa.Array:
    """Return a decoded column of a type as an array of the type's `arrow_type`.

    Raises CorruptError and RefusedError for values that the type or Arrow cannot hold; messages have the reason alone.
    """
    slots, kind = column.slots, node.kind
    values: NDArray[Any]
    if kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BINARY):
        return _texts(column, kind)
    if kind is Kind.LIST:
        offsets = offsets_buffer(column.lengths, column.present)
        return pa.Array.from_buffers(
            arrow_type(node),
            slots,
            [validity(column.present), offsets],
            children=[arrow_array(column.children[0], node.children[0], times)],
        )
    if kind is Kind.MAP:
        return _maps(column, node, times)
    if kind is Kind.STRUCT:
        children = [
            spread_array(arrow_array(child, below, times), column.present)
            for child, below in zip(column.children, node.children, strict=True)
        ]
        return pa.Array.from_buffers(arrow_type(node), slots, [validity(column.present)], children=children)
    if kind is Kind.BOOLEAN:
        data = pa.array(_spread(column.values, column.present).astype(np.bool_)).buffers()[1]
        return pa.Array.from_buffers(pa.bool_(), slots, [validity(column.present), data])
    if kind is Kind.DECIMAL:
        values = _decimals(column, node)
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        values = times.microseconds(column, instant=kind is Kind.TIMESTAMP_INSTANT)
    elif kind is Kind.DATE:
        values = times.days(_in_range(column.values, kind)).astype(np.int32)
    elif kind in _RANGES:
        values = _in_range(column.values, kind).astype(np.int16 if kind is Kind.SHORT else np.int32)
    else:
        values = column.values  # BYTE, LONG, FLOAT and DOUBLE: the bits of the values
    data = pa.py_buffer(np.ascontiguousarray(_spread(values, column.present)))
    return pa.Array.from_buffers(arrow_type(node), slots, [validity(column.present), data])


def _maps(column: Column, node: TypeNode, times: StoredTimes) -> pa.Array:
    children = zip(column.children, node.children, strict=True)
    keys, items = (arrow_array(child, below, times) for child, below in children)
    return map_array(keys, items, column.lengths, column.present, arrow_type(node))


def map_array(keys: pa.Array, items: pa.Array, lengths: Longs, present: Mask | None, kind: pa.MapType) -> pa.Array:
    """Return maps of so many entries each, `lengths` of the present ones alone.

    Of entries with the same key the last counts, at the place of the first, as in Java's `LinkedHashMap`. Raises
    RefusedError for a null as key.
    """
    if keys.null_count:
        raise RefusedError("a map has a null as key, which Arrow and Spark cannot hold")
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    maps = np.repeat(np.arange(len(lengths)), lengths)
    entries = maps * (int(codes.max(initial=0)) + 1) + codes
    if len(np.unique(entries)) < len(entries):
        _, firsts, groups = np.unique(entries, return_index=True, return_inverse=True)
        lasts = np.zeros(len(firsts), dtype=np.int64)
        lasts[groups] = np.arange(len(groups))  # of several numbers for a place numpy keeps the last
        order = np.argsort(firsts)
        keys, items = keys.take(pa.array(firsts[order])), items.take(pa.array(lasts[order]))
        lengths = np.bincount(maps[firsts], minlength=len(lengths)).astype(np.int64)
    pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    slots = len(lengths) if present is None else len(present)
    return pa.Array.from_buffers(kind, slots, [validity(present), offsets_buffer(lengths, present)], children=[pairs])


def validity(present: Mask | None) -> pa.Buffer | None:
    """Return the bitmap of the present slots."""
    return None if present is None else pa.array(present).buffers()[1]


def _spread(values: NDArray[Any], present: Mask | None) -> NDArray[Any]:
    """Return present values in their slots, zeros in the others."""
    if present is None:
        return values
    out = np.zeros((len(present), *values.shape[1:]), dtype=values.dtype)
    out[present] = values
    return out


def spread_array(array: pa.Array, present: Mask | None) -> pa.Array:
    """Return the array of present values in their slots, nulls in the others."""
    if present is None:
        return array
    return array.take(pa.array(np.cumsum(present, dtype=np.int64) - 1, mask=~present))


def offsets_buffer(lengths: Longs, present: Mask | None) -> pa.Buffer:
    """Return the offsets of lists, maps or bytes in their slots; RefusedError for more than Arrow can count."""
    offsets = offsets_of(_spread(lengths, present))
    _require_countable(int(offsets[-1]), "values or bytes")
    return pa.py_buffer(offsets.astype(np.int32))


def _in_range(values: Longs, kind: Kind) -> Longs:
    low, high = _RANGES[kind]
    if len(values) and (int(values.min()) < low or int(values.max()) > high):
        wrong = int(values.min()) if int(values.min()) < low else int(values.max())
        raise CorruptError(f"its value {wrong} is no {kind.name.lower()}")
    return values


def _texts(column: Column, kind: Kind) -> pa.Array:
    binary = pa.binary()
    dictionary = column.dictionary
    if dictionary is not None and max(int(dictionary.offsets[-1]), dictionary.entries) > _MAX_BYTES:
        # entries that no kept row has need not fit
        lengths = np.diff(dictionary.offsets)[column.values]
        _require_countable(int(lengths.sum()), "bytes of text")
        column, dictionary = as_direct(column), None
    if dictionary is None:
        buffers = [
            validity(column.present),
            offsets_buffer(column.lengths, column.present),
            pa.py_buffer(np.ascontiguousarray(column.data)),
        ]
        array = pa.Array.from_buffers(binary, column.slots, buffers)
        return array if kind is Kind.BINARY else readable_texts(array, kind)
    offsets = pa.py_buffer(dictionary.offsets.astype(np.int32))
    entries = readable_texts(
        pa.Array.from_buffers(
            binary, dictionary.entries, [None, offsets, pa.py_buffer(np.ascontiguousarray(dictionary.data))]
        ),
        kind,
    )
    numbers = pa.py_buffer(_spread(column.values, column.present).astype(np.int32))
    indices = pa.Array.from_buffers(pa.int32(), column.slots, [validity(column.present), numbers])
    _require_countable(pc.sum(pc.take(pc.binary_length(entries), indices)).as_py() or 0, "bytes of text")
    return entries.take(indices)


def _require_countable(number: int, what: str) -> None:
    if number > _MAX_BYTES:
        raise RefusedError(f"{number} {what} in one stripe are more than an Arrow array can hold")


def readable_texts(array: pa.Array, kind: Kind) -> pa.Array:
    """Return bytes or texts of a STRING, VARCHAR or CHAR as texts.

    A CHAR is without blanks at its end, as Hive compares and converts it. Bytes that are not UTF-8 become U+FFFD, as
    Hive's clients show them (`Text.decode`).
    """
    texts = array.view(pa.string()) if array.type == pa.binary() else array
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        data = array.view(pa.binary()).to_pylist()
        texts = pa.array([None if text is None else text.decode("utf-8", "replace") for text in data], pa.string())
    return pc.ascii_rtrim(texts, " ") if kind is Kind.CHAR else texts


def truncated(texts: pa.Array, node: TypeNode) -> pa.Array:
    """Return texts as a VARCHAR or CHAR has them: of its length at most, the latter without blanks at the end."""
    if node.kind is Kind.STRING:
        return texts
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > node.maximum_length:
        texts = pc.utf8_slice_codeunits(texts, 0, node.maximum_length)
    return pc.ascii_rtrim(texts, " ") if node.kind is Kind.CHAR else texts


def _decimals(column: Column, node: TypeNode) -> NDArray[Any]:
    """Return decimals as pairs of 64-bit words, the lower one first, all of the scale of the column."""
    low, high, scales = column.values, column.high_words, column.secondary
    if (scales != node.scale).any():
        parts = np.empty((len(low), 2), dtype=np.int64)
        for scale in np.unique(scales).tolist():
            chosen = scales == scale
            parts[chosen] = _rescaled(np.stack([low[chosen], high[chosen]], axis=1), scale, node)
        return parts
    return np.stack([low, high], axis=1)


def _rescaled(words: NDArray[np.int64], scale: int, node: TypeNode) -> NDArray[np.int64]:
    if not 0 <= scale <= 38:
        raise CorruptError(f"its value has the scale {scale}")
    stored = pa.Array.from_buffers(
        pa.decimal128(38, scale), len(words), [None, pa.py_buffer(np.ascontiguousarray(words))]
    )
    try:
        array = stored.cast(pa.decimal128(node.precision, node.scale))
    except pa.ArrowInvalid as error:
        raise CorruptError(f"a value of scale {scale} is no {node}: {error}") from None
    return np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * len(words)).reshape(-1, 2)
