"""Thrift's compact protocol: what Apache Thrift writes is read and kept, damage is an error, nothing is reserved."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parquet_joining import metadata_bytes
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

from acidlib.parquet.footer import FILE
from acidlib.parquet.thrift_compact import DamageError, Shape, ThriftType, decode, decode_list, encode

INNER = Shape(
    name="Inner", kinds={1: ThriftType.I32, 16: ThriftType.BINARY, 32: ThriftType.BINARY}, required=frozenset({1})
)
OUTER = Shape(
    name="Outer",
    kinds={
        1: ThriftType.I16,
        2: ThriftType.I64,
        3: ThriftType.STRUCT,
        4: ThriftType.STRUCT,
        5: ThriftType.LIST,
        6: ThriftType.LIST,
    },
    nested={3: INNER, 5: INNER},
)

SCALARS: dict[int, st.SearchStrategy[Any]] = {
    TType.BOOL: st.booleans(),
    TType.BYTE: st.integers(-128, 127),
    TType.I16: st.integers(-(1 << 15), (1 << 15) - 1),
    TType.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    TType.I64: st.integers(-(1 << 63), (1 << 63) - 1),
    TType.DOUBLE: st.floats(allow_nan=False),
    TType.STRING: st.binary(max_size=200),
}
WRITERS = {
    TType.BOOL: "writeBool",
    TType.BYTE: "writeByte",
    TType.I16: "writeI16",
    TType.I32: "writeI32",
    TType.I64: "writeI64",
    TType.DOUBLE: "writeDouble",
    TType.STRING: "writeBinary",
}


def scalar() -> st.SearchStrategy[tuple[int, Any]]:
    return st.sampled_from(sorted(SCALARS)).flatmap(lambda kind: SCALARS[kind].map(lambda value: (kind, value)))


def nested(children: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[tuple[int, Any]]:
    """Lists and sets of one value many times, maps likewise, structs."""
    many = st.tuples(children, st.integers(0, 20))
    return st.one_of(
        many.map(lambda pair: (TType.LIST, pair)),
        many.map(lambda pair: (TType.SET, pair)),
        st.tuples(children, children, st.integers(0, 3)).map(lambda entry: (TType.MAP, entry)),
        st.dictionaries(st.integers(1, 300), children, max_size=4).map(lambda fields: (TType.STRUCT, fields)),
    )


VALUES = st.recursive(scalar(), nested, max_leaves=12)


def put(out: TCompactProtocol, kind: int, value: Any) -> None:
    if kind in WRITERS:
        getattr(out, WRITERS[kind])(value)
    elif kind == TType.STRUCT:
        out.writeStructBegin("")
        for number, (inner, content) in value.items():
            out.writeFieldBegin("", inner, number)
            put(out, inner, content)
            out.writeFieldEnd()
        out.writeFieldStop()
        out.writeStructEnd()
    elif kind == TType.MAP:
        (key, of_key), (item, of_item), count = value
        out.writeMapBegin(key, item, count)
        for _ in range(count):
            put(out, key, of_key)
            put(out, item, of_item)
        out.writeMapEnd()
    else:
        (inner, content), count = value
        begin, end = (
            (out.writeListBegin, out.writeListEnd) if kind == TType.LIST else (out.writeSetBegin, out.writeSetEnd)
        )
        begin(inner, count)
        for _ in range(count):
            put(out, inner, content)
        end()


def thrift(fields: dict[int, tuple[int, Any]]) -> bytes:
    """A struct as Apache Thrift writes it."""
    buffer = TMemoryBuffer()
    put(TCompactProtocol(buffer), TType.STRUCT, fields)
    return bytes(buffer.getvalue())


@settings(max_examples=300)
@given(st.integers(-(1 << 63), (1 << 63) - 1), st.dictionaries(st.integers(1, 300), VALUES, max_size=5))
def test_what_is_not_looked_into_stays_as_it_was(number: int, inside: dict[int, Any]) -> None:
    data = thrift({2: (TType.I64, number), 4: (TType.STRUCT, inside), 6: (TType.LIST, ((TType.STRUCT, inside), 16))})
    found, length, _ = decode(data + b"more", OUTER)
    assert (found[2], found[4], length) == (number, thrift(inside), len(data))
    assert encode(found, OUTER) == data


@settings(max_examples=300)
@given(st.dictionaries(st.integers(7, 300), VALUES, min_size=1, max_size=5), st.integers(-5, 5))
def test_unknown_fields_are_told_and_passed_over(others: dict[int, Any], number: int) -> None:
    data = thrift({**others, 1: (TType.I16, number)})
    found, length, unknown = decode(data, OUTER)
    assert (found, length) == ({1: number}, len(data))
    assert unknown == tuple(f"Outer field {other}" for other in others)


@settings(max_examples=100)
@given(st.binary(max_size=300), st.one_of(st.integers(13, 17), st.integers(0, 200)))
@example(b"", 15)
def test_structs_that_are_looked_into(text: bytes, count: int) -> None:
    # ids that are 15 and 16 apart, lists of 14, 15 and 16: where short headers end
    inner = {1: (TType.I32, -7), 16: (TType.STRING, text), 32: (TType.STRING, b"")}
    data = thrift({3: (TType.STRUCT, inner), 5: (TType.LIST, ((TType.STRUCT, inner), count))})
    found = decode(data, OUTER)[0]
    assert found == {3: {1: -7, 16: text, 32: b""}, 5: [{1: -7, 16: text, 32: b""}] * count}
    if count:
        assert encode(found, OUTER) == data


def test_the_metadata_of_a_real_file_comes_back_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    table = pa.table({"a": range(5000), "s": [str(n) for n in range(5000)], "l": [[n] for n in range(5000)]})
    pq.write_table(table, path, row_group_size=200, write_page_index=True)
    data = metadata_bytes(path.read_bytes())
    found, length, unknown = decode(data, FILE)
    assert (length, unknown) == (len(data), ())
    assert encode(found, FILE) == data


DAMAGED = {
    "the middle of a value": bytes([0x14]),
    "Outer field 1 has type I32 instead of I16": bytes([0x15, 5, 0]),
    "Outer field 1 is there twice": bytes([0x14, 5, 0x04, 2, 5, 0]),
    "32768 is no I16": bytes([0x14, 0x80, 0x80, 0x04, 0]),
    "more than 10 bytes": bytes([0x14, *[0xFF] * 11, 0]),
    "no type 15": bytes([0x1F, 0]),
    "no type 14": bytes([0x69, 0x2E, 0, 0, 0]),
    "a list of 268435455 elements": bytes([0x59, 0xFC, 0xFF, 0xFF, 0xFF, 0x7F, 0]),
    "a list of 14 elements": bytes([0x69, 0xE7, 0]),
    "elements of another type": bytes([0x59, 0x15, 2, 0]),
    "Inner has no field 1": bytes([0x3C, 0, 0]),
    "a map of 127 entries": bytes([0x7B, 0x7F, 0x55, 0]),
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_damage_is_told(reason: str) -> None:
    with pytest.raises(DamageError, match=reason):
        decode(DAMAGED[reason], OUTER)


def test_every_part_of_a_struct_is_damaged() -> None:
    inner = {1: (TType.I32, -7), 16: (TType.STRING, b"text")}
    opaque = {1: (TType.DOUBLE, 1.0), 2: (TType.MAP, ((TType.STRING, b"k"), (TType.BOOL, True), 2))}
    data = thrift({2: (TType.I64, 1 << 60), 3: (TType.STRUCT, inner), 4: (TType.STRUCT, opaque)})
    assert decode(data, OUTER)[1] == len(data)
    for end in range(len(data)):
        with pytest.raises(DamageError):
            decode(data[:end], OUTER)


@pytest.mark.parametrize("opening", [b"\x1c", b"\x19", b"\x1b\x01\x55"], ids=["struct", "list", "map"])
def test_nesting_has_a_limit(opening: bytes) -> None:
    inside = {b"\x1c": b"\x1c", b"\x19": b"\x19", b"\x1b\x01\x55": b"\x01\xbb"}[opening]
    with pytest.raises(DamageError, match="nested deeper than 64"):
        decode(b"\x7c" + opening + inside * 100_000, OUTER)


def test_a_list_that_claims_much_reserves_nothing() -> None:
    data = bytes([0x59, 0xFC]) + b"\xff" * 4 + b"\x07" + bytes(1000)
    tracemalloc.start()
    with pytest.raises(DamageError):
        decode(data, OUTER)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_list_on_its_own_has_to_be_all_there_is() -> None:
    assert decode_list(bytes([0x0C]), INNER) == ([], ())
    assert decode_list(bytes([0x00]), INNER) == ([], ())
    assert decode_list(bytes([0x1C, 0x15, 2, 0]), INNER) == ([{1: 1}], ())
    with pytest.raises(DamageError, match="1 bytes follow a list of Inner"):
        decode_list(bytes([0x1C, 0x15, 2, 0, 0]), INNER)
    with pytest.raises(DamageError, match="middle of a value"):
        decode_list(bytes([0x1C, 0x15]), INNER)
