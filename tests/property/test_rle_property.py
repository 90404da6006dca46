"""Run lengths and varints of random values: there and back, from every mark, and never a crash on damaged bytes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidlib.errors import CorruptError
from acidlib.orc.kernels.bytes_bits import decode_bits, decode_bytes, encode_bits, encode_bytes
from acidlib.orc.kernels.ints import decode_ints, encode_ints
from acidlib.orc.kernels.varints import decode_varints, encode_varints
from acidlib.orc.kernels.vectors import filter_bytes, gather_bytes

BOUNDED = settings(max_examples=100)
NO_MARKS = np.empty(0, dtype=np.int64)
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
INT64 = st.one_of(
    st.integers(LEAST, GREATEST),
    st.integers(-100, 100),
    st.sampled_from([LEAST, LEAST + 1, GREATEST, 1 << 55, 1 << 56, -(1 << 55), -(1 << 56), 0]),
)


def wrapped(value):
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@st.composite
def pieces(draw):
    """A stretch of values of one nature: level, even, monotonic, random of a width, with outliers."""
    nature = draw(st.sampled_from(["level", "even", "rising", "falling", "random", "outliers", "drawn"]))
    if nature == "drawn":
        return draw(st.lists(INT64, min_size=1, max_size=20))
    size = draw(st.sampled_from([1, 2, 3, 4, 5, 9, 10, 11, 12, 60, 255, 256, 257, 511, 512, 513, 700]))
    first = draw(INT64)
    r = np.random.default_rng(draw(st.integers(0, 1000)))
    width = draw(st.integers(0, 62))
    if nature == "level":
        return [first] * size
    if nature == "even":
        return [wrapped(first + i * draw(st.just(1 << width)) * (-1) ** (width % 2)) for i in range(size)]
    steps = r.integers(0, 1 << min(width, 50), size, endpoint=True)
    if nature in ("rising", "falling"):
        sums = np.cumsum(steps) if nature == "rising" else -np.cumsum(steps)
        return [wrapped(first + step) for step in sums.tolist()]
    if nature == "outliers":
        steps = np.where(r.random(size) < 0.04, r.integers(0, 1 << 62, size) >> draw(st.integers(0, 50)), steps & 255)
    return [wrapped(first + step) for step in steps.tolist()]


VALUES = st.lists(pieces(), max_size=4).map(lambda parts: np.array([v for part in parts for v in part], dtype=np.int64))


def marks_of(data, count):
    return np.array(sorted(data.draw(st.lists(st.integers(0, count), max_size=8))), dtype=np.int64)


@BOUNDED
@given(st.data(), VALUES, st.booleans())
def test_ints(data, values, signed):
    marks = marks_of(data, len(values))
    encoded = encode_ints(values, signed=signed, marks=marks)
    assert np.array_equal(decode_ints(encoded.data, len(values), signed=signed, version=2), values)
    assert len(encoded.data) <= 9 * len(values) + 2
    for mark in marks:
        first = decode_ints(encoded.data, mark, signed=signed, version=2, surplus=[])
        assert np.array_equal(first, values[:mark])
    for mark, offset, skip in zip(marks, encoded.offsets, encoded.skips, strict=True):
        rest = decode_ints(encoded.data[offset:], len(values) - mark + skip, signed=signed, version=2)
        assert np.array_equal(rest[skip:], values[mark:])


OCTETS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=200),
        st.tuples(st.binary(min_size=1, max_size=1), st.integers(1, 400)).map(lambda run: run[0] * run[1]),
        st.lists(st.integers(0, 1), min_size=1, max_size=200).map(bytes),
    ),
    max_size=5,
).map(lambda parts: np.frombuffer(b"".join(parts), dtype=np.uint8))


@BOUNDED
@given(st.data(), OCTETS)
def test_bytes(data, values):
    marks = marks_of(data, len(values))
    encoded = encode_bytes(values, marks)
    assert np.array_equal(decode_bytes(encoded.data, len(values)), values)
    assert len(encoded.data) <= len(values) + len(values) // 128 + 1
    for mark in marks:
        assert np.array_equal(decode_bytes(encoded.data, mark, []), values[:mark])
        assert np.array_equal(decode_bits(encoded.data, 8 * mark, []), np.unpackbits(values[:mark]))
    for mark, offset, skip in zip(marks, encoded.offsets, encoded.skips, strict=True):
        rest = decode_bytes(encoded.data[offset:], len(values) - mark + skip)
        assert np.array_equal(rest[skip:], values[mark:])


@BOUNDED
@given(st.data(), OCTETS)
def test_bits(data, values):
    bits = values & 1
    marks = marks_of(data, len(bits))
    encoded = encode_bits(bits, marks)
    assert np.array_equal(decode_bits(encoded.data, len(bits)), bits)
    for mark, offset, skip, bit in zip(marks, encoded.offsets, encoded.skips, encoded.bits, strict=True):
        rest = decode_bits(encoded.data[offset:], len(bits) - mark + 8 * skip + bit)
        assert np.array_equal(rest[8 * skip + bit :], bits[mark:])


@BOUNDED
@given(st.data(), st.lists(st.one_of(INT64, st.integers(-(1 << 127), (1 << 127) - 1)), max_size=50))
def test_varints(data, values):
    low = np.array([v & ((1 << 64) - 1) for v in values], dtype=np.uint64).view(np.int64)
    high = np.array([v >> 64 for v in values], dtype=np.int64)
    marks = marks_of(data, len(values))
    encoded = encode_varints(low, high, marks)
    for mark, offset in zip([0, *marks.tolist()], [0, *encoded.offsets.tolist()], strict=True):
        found, upper = decode_varints(encoded.data[offset:], len(values) - mark)
        assert np.array_equal(found, low[mark:])
        assert np.array_equal(found >> 63 if upper is None else upper, high[mark:])


@BOUNDED
@given(st.data(), st.lists(st.tuples(st.binary(max_size=20), st.booleans()), max_size=30))
def test_kept_and_gathered_values(data, texts):
    content = np.frombuffer(b"".join(text for text, _ in texts), dtype=np.uint8)
    lengths = np.array([len(text) for text, _ in texts], dtype=np.int64)
    keep = np.array([flag for _, flag in texts], dtype=np.bool_)
    assert bytes(filter_bytes(content, lengths, keep)) == b"".join(text for text, flag in texts if flag)
    assert np.array_equal(content[np.repeat(keep, lengths)], filter_bytes(content, lengths, keep))
    if texts:
        indices = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=30))
        found = gather_bytes(content, np.cumsum(lengths) - lengths, lengths, np.array(indices, dtype=np.int64))
        assert bytes(found) == b"".join(texts[i][0] for i in indices)


def damaged(data, stream):
    """The stream with bits flipped, bytes cut off or added; or any bytes at all."""
    broken = bytearray(stream.tobytes() if data.draw(st.booleans()) else data.draw(st.binary(max_size=60)))
    for _ in range(data.draw(st.integers(0, 3))):
        if broken:
            broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    del broken[data.draw(st.integers(0, len(broken))) if data.draw(st.booleans()) else len(broken) :]
    return np.frombuffer(bytes(broken) + data.draw(st.binary(max_size=3)), dtype=np.uint8)


def all_or_error(decode, count):
    try:
        found = decode(count)
    except CorruptError as error:
        return str(error).startswith("Cannot decode ")
    return len(found) == count


@BOUNDED
@given(st.data(), VALUES, st.booleans(), st.sampled_from([1, 2]), st.integers(-2, 2))
def test_damaged_ints(data, values, signed, version, more):
    stream = damaged(data, encode_ints(values, signed=signed, marks=NO_MARKS).data)
    count = len(values) + more
    assert all_or_error(lambda n: decode_ints(stream, n, signed=signed, version=version), count)
    assert all_or_error(lambda n: decode_ints(stream, n, signed=signed, version=version), 3)


@BOUNDED
@given(st.data(), OCTETS, st.integers(-2, 2))
def test_damaged_bytes(data, values, more):
    stream = damaged(data, encode_bytes(values, NO_MARKS).data)
    assert all_or_error(lambda n: decode_bytes(stream, n), len(values) + more)


@BOUNDED
@given(st.data(), st.lists(INT64, max_size=50).map(lambda v: np.array(v, dtype=np.int64)), st.integers(-2, 2))
def test_damaged_varints(data, values, more):
    stream = damaged(data, encode_varints(values, None, NO_MARKS).data)
    assert all_or_error(lambda n: decode_varints(stream, n)[0], len(values) + more)


@pytest.mark.parametrize("high", range(16))
def test_no_first_byte_is_a_trap(high):
    """Every header with a few tails: all values or an error, for every count around its run."""
    tails = (b"", b"\x00" * 40, b"\xff" * 40, bytes(range(40)), b"\x00\x80" * 20)
    for head, tail in itertools.product(range(16 * high, 16 * high + 16), tails):
        stream = np.frombuffer(bytes([head]) + tail, dtype=np.uint8)
        for count in (0, 1, 3, 10, 13, 256, 257, 512):
            for version in (1, 2):
                assert all_or_error(lambda n, s=stream, v=version: decode_ints(s, n, signed=True, version=v), count)
            assert all_or_error(lambda n, s=stream: decode_bytes(s, n), count)
            assert all_or_error(lambda n, s=stream: decode_varints(s, n)[0], count)
