"""Byte and bit run lengths against the examples of the specification and against the C++ readers and writer."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyorc
import pytest
from judges.orc_tail import BOOLEAN, BYTE, DATA, PRESENT, read_orc
from one_column import DIRECT, Column, orc_bytes, read_from, read_pyarrow, read_pyorc

from acidlib.errors import CorruptError
from acidlib.orc.kernels.bytes_bits import decode_bits, decode_bytes, encode_bits, encode_bytes

NO_MARKS = np.empty(0, dtype=np.int64)


def stream(text):
    return np.frombuffer(bytes.fromhex(text), dtype=np.uint8)


def octets(values):
    return np.array(values, dtype=np.uint8)


def rng():
    return np.random.default_rng(7)


BYTES = {
    "empty": octets([]),
    "one": octets([200]),
    "two equal": octets([1, 1]),
    "three equal": octets([1, 1, 1]),
    "130 equal": octets([5] * 130),
    "131 equal": octets([5] * 131),
    "133 equal": octets([5] * 133),
    "128 literals": octets(range(128)),
    "129 literals": octets(range(129)),
    "a run at a full list of literals": octets([*range(126), 9, 9, 9, 9, 1]),
    "random": rng().integers(0, 256, 5000).astype(np.uint8),
    "pairs": np.repeat(rng().integers(0, 256, 2500), 2).astype(np.uint8),
    "runs of 1 to 6": np.repeat(rng().integers(0, 9, 1500), rng().integers(1, 7, 1500)).astype(np.uint8),
    "long runs": np.repeat(rng().integers(0, 9, 20), 300).astype(np.uint8),
}
BITS = {
    "empty": octets([]),
    "one": octets([1]),
    "seven": octets([1, 0, 1, 1, 0, 0, 1]),
    "eight": octets([1, 0, 1, 1, 0, 0, 1, 0]),
    "all ones": np.ones(3001, dtype=np.uint8),
    "all zeros": np.zeros(3008, dtype=np.uint8),
    "random": rng().integers(0, 2, 5003).astype(np.uint8),
    "rare zeros": (rng().random(5000) > 0.01).astype(np.uint8),
}


def test_examples_of_the_specification():
    assert decode_bytes(stream("61 00"), 100).tolist() == [0] * 100
    assert decode_bytes(stream("fe 44 45"), 2).tolist() == [0x44, 0x45]
    assert bytes(encode_bytes(octets([0] * 100), NO_MARKS).data) == bytes.fromhex("6100")
    assert bytes(encode_bytes(octets([0x44, 0x45]), NO_MARKS).data) == bytes.fromhex("fe4445")
    assert decode_bits(stream("fe ff 80"), 16).tolist() == [1] * 9 + [0] * 7
    assert bytes(encode_bits(octets([1] + [0] * 7), NO_MARKS).data) == bytes.fromhex("ff80")


@dataclass(frozen=True)
class Runs:
    """One of the two encodings: its kernels, its column in a file, and how Python sees a value of it."""

    kind: int
    schema: str
    encode: Callable[..., Any]
    decode: Callable[..., Any]
    seen_as: type
    contents: dict[str, Any]

    def file(self, values, marks=NO_MARKS, stride=0):
        encoded = self.encode(values, marks)
        parts = [encoded.offsets, encoded.skips] + ([encoded.bits] if self.kind == BOOLEAN else [])
        positions = list(zip(*(part.tolist() for part in parts), strict=True))
        streams = [(DATA, bytes(encoded.data))]
        column = Column(kind=self.kind, encoding=DIRECT, streams=streams, positions=positions)
        return orc_bytes(column, len(values), stride=stride)

    def seen(self, values):
        return values.astype(self.seen_as).tolist()


OCTETS = Runs(BYTE, "tinyint", encode_bytes, decode_bytes, np.int8, BYTES)
FLAGS = Runs(BOOLEAN, "boolean", encode_bits, decode_bits, np.bool_, BITS)
CASES = [pytest.param(runs, name, id=f"{runs.schema}, {name}") for runs in (OCTETS, FLAGS) for name in runs.contents]


@pytest.mark.parametrize(("runs", "name"), CASES)
def test_what_is_encoded_is_read_by_cpp_and_by_us(runs, name):
    values = runs.contents[name]
    assert np.array_equal(runs.decode(runs.encode(values, NO_MARKS).data, len(values)), values)
    file = runs.file(values)
    assert read_pyorc(file) == runs.seen(values)
    assert read_pyarrow(file) == runs.seen(values)


def written(schema, values):
    out = io.BytesIO()
    with pyorc.Writer(out, f"struct<a:{schema}>", compression=pyorc.CompressionKind.NONE) as writer:
        for value in values:
            writer.write((value,))
    orc = read_orc(out.getvalue())
    return {s.kind: np.frombuffer(orc.stream_bytes(s), np.uint8) for s in orc.stripes[0].streams if s.column == 1}


@pytest.mark.parametrize(("runs", "name"), [case for case in CASES if case.values[1] != "empty"])
def test_what_the_cpp_writer_encodes_is_decoded(runs, name):
    values = runs.contents[name]
    theirs = written(runs.schema, runs.seen(values))[DATA]
    assert np.array_equal(runs.decode(theirs, len(values)), values)
    if runs is OCTETS:
        assert len(encode_bytes(values, NO_MARKS).data) <= len(theirs)
        return
    nulls = written("boolean", [True if value else None for value in values.tolist()])
    assert np.array_equal(decode_bits(nulls[PRESENT], len(values)), values) if PRESENT in nulls else values.all()


@pytest.mark.parametrize(
    ("runs", "name", "stride"),
    [(OCTETS, name, 700) for name in ("random", "pairs", "runs of 1 to 6", "long runs")]
    + [(FLAGS, name, 703) for name in ("all ones", "random", "rare zeros")],
)
def test_cpp_seeks_by_our_positions(runs, name, stride):
    values = runs.contents[name]
    marks = np.arange(0, len(values), stride)
    file = runs.file(values, marks, stride)
    for mark in marks.tolist():
        assert read_from(file, mark, 20) == runs.seen(values[mark : mark + 20])


def test_a_mark_behind_the_last_bit():
    encoded = encode_bits(np.ones(11, dtype=np.uint8), np.array([11]))
    assert (encoded.offsets[0], encoded.skips[0], encoded.bits[0]) == (0, 1, 3)
    encoded = encode_bits(np.ones(16, dtype=np.uint8), np.array([16]))
    assert (encoded.offsets[0], encoded.skips[0], encoded.bits[0]) == (len(encoded.data), 0, 0)


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ("", 1, "cannot hold"),
        ("61 00", 10**9, "cannot hold"),
        ("61", 100, "ends before|cannot hold"),
        ("61 00", 99, "more values"),
        ("61 00", 101, "ends before"),
        ("61 00 00", 100, "follow"),
        ("fe 44", 2, "ends before"),
        ("fe 44 45", 1, "more values"),
        ("fe 44 45 01", 2, "follow"),
    ],
)
def test_damage_is_named(text, count, message):
    with pytest.raises(CorruptError, match=f"Cannot decode bytes: .*({message})"):
        decode_bytes(stream(text), count)


def test_bits_must_fill_their_bytes():
    with pytest.raises(CorruptError, match="follow"):
        decode_bits(stream("fe ff 80 ff 00"), 16)
    with pytest.raises(CorruptError, match="more values"):
        decode_bits(stream("fe ff 80"), 8)


@pytest.mark.parametrize(("text", "length"), [("7f 09", 130), ("80" + "09" * 128, 128)])
def test_surplus_is_named_and_not_looked_at(text, length):
    for count in (1, length - 1, length, length + 1, 2 * length - 1):
        surplus = []
        assert decode_bytes(stream(text * 2), count, surplus).tolist() == [9] * count
        assert len(surplus) == 1
    surplus = []
    assert decode_bits(stream("fe ff 80 ff 00"), 9, surplus).tolist() == [1] * 9
    assert decode_bits(stream("fe ff 80"), 8, surplus).tolist() == [1] * 8
    assert ["follow" in text for text in surplus] == [True, False]
    with pytest.raises(CorruptError, match="ends before"):
        decode_bytes(stream("61 00"), 101, surplus)
