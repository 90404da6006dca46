"""Unbounded varints against the specification's examples, Python's integers and the C++ decimals; copying of values."""

import decimal
import io

import numpy as np
import pyorc
import pytest
from judges.orc_tail import DATA, DECIMAL, SECONDARY, read_orc
from one_column import DIRECT_V2, Column, orc_bytes, read_from, read_pyarrow, read_pyorc

from acidlib.errors import CorruptError
from acidlib.orc.kernels.ints import encode_ints
from acidlib.orc.kernels.varints import decode_varints, encode_varints
from acidlib.orc.kernels.vectors import filter_values

NO_MARKS = np.empty(0, dtype=np.int64)
TOP = 10**38 - 1
NARROW = [0, 1, -1, 63, -64, 64, 8191, 8192, -(10**18), 10**18, (1 << 63) - 1, -(1 << 63)]
EDGES = [sign * (1 << bits) + more for bits in range(127) for sign in (1, -1) for more in (-1, 0, 1)]
WIDE = [*NARROW, 1 << 63, -(1 << 63) - 1, TOP, -TOP, (1 << 127) - 1, -(1 << 127), *EDGES]


def octets(values):
    return np.array(values, dtype=np.uint8)


def halves(values):
    low = np.array([v & ((1 << 64) - 1) for v in values], dtype=np.uint64).view(np.int64)
    return low, np.array([v >> 64 for v in values], dtype=np.int64)


def whole(low, high):
    return [
        int(h) << 64 | int(v) & ((1 << 64) - 1) for v, h in zip(low, low >> 63 if high is None else high, strict=True)
    ]


def varint(value):
    """A zigzag varint by Python's unbounded integers."""
    pattern = value << 1 if value >= 0 else -2 * value - 1
    out = bytearray()
    while pattern > 127:
        out.append(pattern & 127 | 128)
        pattern >>= 7
    return bytes([*out, pattern])


def test_values_are_as_python_writes_them():
    for values in (NARROW, WIDE, *([value] for value in WIDE)):
        data = b"".join(map(varint, values))
        low, high = decode_varints(octets(list(data)), len(values))
        assert whole(low, high) == values
        assert (high is None) == all(-(1 << 63) <= value < 1 << 63 for value in values)
        assert bytes(encode_varints(low, high, NO_MARKS).data) == data
        assert bytes(encode_varints(*halves(values), NO_MARKS).data) == data


def test_padding_is_no_width():
    low, high = decode_varints(octets([0x82] + [0x80] * 11 + [0]), 1)
    assert (low.tolist(), high) == ([1], None)


def decimal_column(values, marks):
    data = encode_varints(*halves(values), marks)
    scales = encode_ints(np.full(len(values), 4), signed=True, marks=marks)
    positions = list(zip(*(a.tolist() for a in (data.offsets, scales.offsets, scales.skips)), strict=True))
    streams = [(DATA, bytes(data.data)), (SECONDARY, bytes(scales.data))]
    return Column(kind=DECIMAL, encoding=DIRECT_V2, streams=streams, positions=positions, attributes={5: [38], 6: [4]})


def decimals(values):
    with decimal.localcontext(prec=60):
        return [decimal.Decimal(value).scaleb(-4) for value in values]


def test_cpp_readers_read_what_is_encoded():
    values = [value for value in WIDE if abs(value) <= TOP] * 10
    marks = np.arange(0, len(values), 1000)
    file = orc_bytes(decimal_column(values, marks), len(values), stride=1000)
    assert read_pyorc(file) == decimals(values)
    assert read_pyarrow(file) == decimals(values)
    for mark in marks.tolist():
        assert read_from(file, mark, 20) == decimals(values[mark : mark + 20])


@pytest.mark.parametrize("precision", [18, 38])
def test_what_the_cpp_writer_encodes_is_decoded(precision):
    values = [value for value in WIDE if abs(value) < 10**precision]
    out = io.BytesIO()
    with pyorc.Writer(out, f"struct<a:decimal({precision},4)>", compression=pyorc.CompressionKind.NONE) as writer:
        for value in decimals(values):
            writer.write((value,))
    orc = read_orc(out.getvalue())
    data = np.frombuffer(orc.stream_bytes(orc.stripes[0].stream(1, DATA)), dtype=np.uint8)
    low, high = decode_varints(data, len(values))
    assert whole(low, high) == values
    assert bytes(encode_varints(low, high, NO_MARKS).data) == bytes(data)


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        ([], 1, "cannot hold"),
        ([2], 10**9, "cannot hold"),
        ([2, 0x82], 2, "ends before"),
        ([0x82, 0x82], 1, "ends before"),
        ([2, 2], 1, "follow"),
        ([0xFF] * 18 + [4], 1, "128 bits"),
        ([0xFF] * 19 + [0], 1, "128 bits"),
        ([0xFF] * 12, 1, "ends before"),
    ],
)
def test_damage_is_named(data, count, message):
    with pytest.raises(CorruptError, match=f"Cannot decode varints: .*{message}"):
        decode_varints(octets(data), count)


def test_surplus_is_named_and_not_looked_at():
    surplus = []
    low, high = decode_varints(octets([2, 4] + [0xFF] * 30), 2, surplus)
    assert (low.tolist(), high) == ([1, 2], None)
    assert ["follow" in text for text in surplus] == [True]
    with pytest.raises(CorruptError, match="ends before"):
        decode_varints(octets([2, 0x82]), 2, surplus)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.uint32, np.uint8, np.bool_])
def test_filter_values_of_every_width(dtype):
    random = np.random.default_rng(6)
    values = random.integers(0, 2, 1000).astype(dtype) if dtype is np.bool_ else random.integers(0, 256, 1000, dtype)
    frozen = values.copy()
    frozen.flags.writeable = False
    for keep in (random.random(1000) < 0.9, values < 0, values >= 0):
        for source in (values, frozen, np.repeat(values, 2)[::2]):
            found = filter_values(source, keep)
            assert found.dtype == dtype
            assert np.array_equal(found, values[keep])
    assert len(filter_values(values[:0], keep[:0])) == 0
    with pytest.raises(ValueError, match="1000 values but 999 flags"):
        filter_values(values, keep[1:])
