"""Thrift's compact protocol as far as Parquet's metadata needs it (thrift-compact-protocol.md of Apache Thrift).

A `Shape` lists the fields of a struct that are decoded. A nested value without a shape stays as the bytes that were
written, so that no newer field in it is lost or changed. Fields that a shape does not list are reported, and the caller
decides on them. Code generated from an IDL drops such fields silently, which is why none is used.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = "int | bytes | Struct | list[Struct]"
Struct: TypeAlias = "dict[int, Value]"
"""Field id to value: an integer, the content of a binary, structs of a nested shape, else the encoded bytes."""

_MAX_DEPTH = 64
_MAX_VARINT_BYTES = 10
_MAX_UNKNOWN = 8


class ThriftType(enum.IntEnum):
    """Type codes of fields and list elements. The decoder works with plain integers: hashing a member is slow."""

    TRUE = 1
    FALSE = 2
    I8 = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


_BITS: dict[int, int] = {ThriftType.I16: 16, ThriftType.I32: 32, ThriftType.I64: 64}
# sizes of the kinds of fixed size; in a list a boolean is a byte
_FIXED: dict[int, int] = {
    ThriftType.TRUE: 1,
    ThriftType.FALSE: 1,
    ThriftType.I8: 1,
    ThriftType.DOUBLE: 8,
    ThriftType.UUID: 16,
}
_STOP, _FALSE, _BINARY, _MAP, _STRUCT = (
    0,
    int(ThriftType.FALSE),
    int(ThriftType.BINARY),
    int(ThriftType.MAP),
    int(ThriftType.STRUCT),
)
_MAX_KIND = max(ThriftType)


class DamageError(Exception):
    """The bytes are not such a struct; the message is the reason alone. This package catches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The known part of a struct: kinds by field id, required fields, and shapes of nested structs to decode.

    A nested shape of a LIST field is that of its elements. Booleans, doubles, maps and sets cannot be fields of a
    shape: no decoded struct has any.
    """

    name: str
    kinds: Mapping[int, ThriftType]
    required: frozenset[int] = frozenset()
    nested: Mapping[int, Shape] = field(default_factory=dict)


def decode(data: bytes, shape: Shape) -> tuple[Struct, int, tuple[str, ...]]:
    """Return the struct at the start of `data`, the number of its bytes, and the names of the first unknown fields.

    Names are like "RowGroup field 9". Raises DamageError. Memory is bounded by a multiple of the data.
    """
    decoder = _Decoder(data)
    try:
        struct, end = decoder.struct(0, shape)
    except IndexError:
        raise DamageError("it ends in the middle of a value") from None
    return struct, end, tuple(decoder.unknown)


def decode_list(data: bytes, shape: Shape) -> tuple[list[Struct], tuple[str, ...]]:
    """Return the structs of an encoded list, which must fill `data`, and unknown fields. Raises DamageError."""
    decoder = _Decoder(data)
    try:
        structs, end = decoder.structs(0, shape)
    except IndexError:
        raise DamageError("it ends in the middle of a value") from None
    if end != len(data):
        raise DamageError(f"{len(data) - end} bytes follow a list of {shape.name}")
    return structs, tuple(decoder.unknown)


def encode(struct: Struct, shape: Shape) -> bytes:
    """Return the bytes of a struct, its fields in their order."""
    out = bytearray()
    _put_struct(out, struct, shape)
    return bytes(out)


class _Decoder:
    """Positions go in and out of every method; reading past the end raises IndexError."""

    __slots__ = ("_data", "_end", "unknown")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end = len(data)
        self.unknown: list[str] = []

    def struct(self, at: int, shape: Shape) -> tuple[Struct, int]:
        fields: Struct = {}
        last = 0
        while True:
            kind, last, at = self._header(at, last)
            if kind == _STOP:
                break
            known = shape.kinds.get(last)
            if known is None:
                name = f"{shape.name} field {last}"
                if len(self.unknown) < _MAX_UNKNOWN and name not in self.unknown:
                    self.unknown.append(name)
                at = at if kind <= _FALSE else self._skip(at, kind, 0)
                continue
            if kind != known:
                raise DamageError(f"{shape.name} field {last} has type {ThriftType(kind).name} instead of {known.name}")
            if last in fields:
                raise DamageError(f"{shape.name} field {last} is there twice")
            fields[last], at = self._value(at, kind, shape.nested.get(last))
        missing = shape.required - fields.keys()
        if missing:
            raise DamageError(f"{shape.name} has no field {min(missing)}")
        return fields, at

    def structs(self, at: int, shape: Shape) -> tuple[list[Struct], int]:
        kind, count, at = self._list_header(at)
        if count and kind != _STRUCT:
            raise DamageError(f"a list of {shape.name} has elements of another type")
        structs = []
        for _ in range(count):
            struct, at = self.struct(at, shape)
            structs.append(struct)
        return structs, at

    def _value(self, at: int, kind: int, shape: Shape | None) -> tuple[Value, int]:
        bits = _BITS.get(kind)
        if bits is not None:
            number, at = self._varint(at)
            value = (number >> 1) ^ -(number & 1)
            if number >> bits:
                raise DamageError(f"{value} is no {ThriftType(kind).name}")
            return value, at
        if kind == _BINARY:
            size, at = self._varint(at)
            end = self._inside(at + size)
            return self._data[at:end], end
        if shape is not None:
            return self.struct(at, shape) if kind == _STRUCT else self.structs(at, shape)
        end = self._skip(at, kind, 0)
        return self._data[at:end], end

    def _header(self, at: int, last: int) -> tuple[int, int, int]:
        """Return kind, field id and the position of the value; kind 0 at the end of the struct."""
        byte = self._data[at]
        if byte == 0:
            return _STOP, 0, at + 1
        kind = self._kind(byte & 15)
        if byte > 15:
            return kind, last + (byte >> 4), at + 1
        number, at = self._varint(at + 1)
        return kind, (number >> 1) ^ -(number & 1), at

    def _list_header(self, at: int) -> tuple[int, int, int]:
        byte = self._data[at]
        count, at = (byte >> 4, at + 1) if byte >> 4 < 15 else self._varint(at + 1)
        # an element has at least a byte: a count beyond the data must not cost memory or time
        if count > self._end - at:
            raise DamageError(f"a list of {count} elements has {self._end - at} bytes")
        # some writers give an empty list no element type
        return (self._kind(byte & 15) if count else _STOP), count, at

    def _kind(self, code: int) -> int:
        if not 0 < code <= _MAX_KIND:
            raise DamageError(f"there is no type {code}")
        return code

    def _varint(self, at: int) -> tuple[int, int]:
        data = self._data
        value = data[at]
        if value < 128:
            return value, at + 1
        value &= 127
        for index in range(1, _MAX_VARINT_BYTES):
            byte = data[at + index]
            value |= (byte & 127) << 7 * index
            if byte < 128:
                return value, at + index + 1
        raise DamageError(f"a number has more than {_MAX_VARINT_BYTES} bytes")

    def _skip(self, at: int, kind: int, depth: int) -> int:
        """Return the position after a value that is encoded as an element, not as a field."""
        if kind in _BITS:
            return self._varint(at)[1]
        if kind == _BINARY:
            size, at = self._varint(at)
            return self._inside(at + size)
        if depth > _MAX_DEPTH:
            raise DamageError(f"values are nested deeper than {_MAX_DEPTH}")
        if kind == _STRUCT:
            while True:
                field, _, at = self._header(at, 0)
                if field == _STOP:
                    return at
                # a boolean field has its value in its type
                if field > _FALSE:
                    at = self._skip(at, field, depth + 1)
        if kind in _FIXED:
            return self._inside(at + _FIXED[kind])
        if kind == _MAP:
            count, at = self._varint(at)
            if not count:
                return at
            if count > self._end - at:
                raise DamageError(f"a map of {count} entries has {self._end - at} bytes")
            kinds = self._kind(self._data[at] >> 4), self._kind(self._data[at] & 15)
            at += 1
            for _ in range(count):
                for kind in kinds:
                    at = self._skip(at, kind, depth + 1)
            return at
        element, count, at = self._list_header(at)
        if element in _FIXED:
            return self._inside(at + count * _FIXED[element])
        for _ in range(count):
            at = self._skip(at, element, depth + 1)
        return at

    def _inside(self, at: int) -> int:
        if at > self._end:
            raise IndexError
        return at


def _put_struct(out: bytearray, struct: Struct, shape: Shape) -> None:
    last = 0
    for number, value in struct.items():
        kind = shape.kinds[number]
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, _zigzag(number))
        last = number
        if isinstance(value, int):
            _put_varint(out, _zigzag(value))
        elif isinstance(value, bytes):
            if kind == _BINARY:
                _put_varint(out, len(value))
            out += value
        elif isinstance(value, dict):
            _put_struct(out, value, shape.nested[number])
        else:
            out.append(min(len(value), 15) << 4 | ThriftType.STRUCT)
            if len(value) >= 15:
                _put_varint(out, len(value))
            for element in value:
                _put_struct(out, element, shape.nested[number])
    out.append(0)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1
