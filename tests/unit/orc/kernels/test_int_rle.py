"""Integer run lengths against the examples of the specification and against the C++ readers and writer."""

import io

import numpy as np
import pyorc
import pytest
from judges.orc_tail import DATA, LONG, read_orc
from one_column import int_column, orc_bytes, read_from, read_pyarrow, read_pyorc

from acidlib.errors import CorruptError
from acidlib.orc.kernels.ints import _block_end, _calm_block_end, _summary, decode_ints, encode_ints

NO_MARKS = np.empty(0, dtype=np.int64)
PATCHED = [2030, 2000, 2020, 1000000, *range(2040, 2191, 10)]
PATCHED_BYTES = (
    "8e 13 2b 21 07 d0 1e 00 14 70 28 32 3c 46 50 5a 64 6e 78 82 8c 96 a0 aa b4 be fc e8"  # the specification's example
)

SPECIFIED = [
    (2, "0a 27 10", [10000] * 5),
    (2, "5e 03 5c a1 ab 1e de ad be ef", [23713, 43806, 57005, 48879]),
    (2, PATCHED_BYTES, PATCHED),
    (2, "c6 09 02 02 22 42 42 46", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    (1, "61 00 07", [7] * 100),
    (1, "61 ff 64", list(range(100, 0, -1))),
    (1, "fb 02 03 04 07 0b", [2, 3, 4, 7, 11]),
]


def stream(text):
    return np.frombuffer(bytes.fromhex(text), dtype=np.uint8)


def longs(values):
    return np.array(values, dtype=np.int64)


def rng():
    return np.random.default_rng(20240607)


def outliers(size, *, count, bits, low=-50, high=50):
    r = rng()
    values = r.integers(low, high, size)
    values[r.choice(size, count, replace=False)] += 1 << bits
    return values


PATTERNS = {
    "empty": longs([]),
    "one": longs([-7]),
    "two": longs([5, 5]),
    "three equal": longs([9, 9, 9]),
    "ten equal": longs([-1] * 10),
    "eleven equal": longs([300] * 11),
    "512 equal": longs([3] * 512),
    "513 equal": longs([3] * 513),
    "ramp": np.arange(-2000, 3000),
    "falling ramp": np.arange(5000, 0, -7),
    "steep ramp": np.arange(0, 1 << 62, 1 << 51),
    "rising by 0 and 1": np.cumsum(rng().integers(0, 2, 3000)),
    "falling": -np.cumsum(rng().integers(1, 200, 3000)),
    "starts level": longs([4, 4, 5, 6, 9, 12, 30, 31, 40]),
    "kept of a ramp": np.flatnonzero(rng().random(5000) > 0.05),
    "bits": rng().integers(0, 2, 3000),
    "random 20 bit": rng().integers(0, 1 << 20, 3000),
    "random signed": rng().integers(-(1 << 40), 1 << 40, 3000),
    "full range": rng().integers(-(1 << 63), (1 << 63) - 1, 3000, endpoint=True),
    "extremes": longs([-(1 << 63), (1 << 63) - 1, 0, -1, 1, -(1 << 63), -(1 << 63), -(1 << 63), (1 << 63) - 1]),
    "extremes in steps": longs([-(1 << 63), 0, (1 << 63) - 1, -2, -(1 << 63)] * 20),
    "the least number below": longs([0] * 9 + [-1, -(1 << 63)]),
    "the least number as a step": longs([0, -(1 << 63)] * 50),
    "one outlier": outliers(512, count=1, bits=30),
    "some outliers": outliers(5120, count=200, bits=45),
    "wide outliers": outliers(512, count=20, bits=60),
    "widest outliers": outliers(512, count=2, bits=62, low=0, high=2),
    "outlier at 511": np.append(rng().integers(0, 9, 511), 1 << 33),
    "outliers at 0 and 511": longs([1 << 33, *rng().integers(0, 9, 510), 1 << 34]),
    "outliers at 0 and 256": longs([1 << 33, *rng().integers(0, 9, 255), 1 << 34, *rng().integers(0, 9, 255)]),
    "outlier on a high base": (1 << 54) + outliers(512, count=9, bits=30),
    "outlier on a low base": -(1 << 54) + outliers(512, count=9, bits=30),
    "outlier beyond any base": -(1 << 61) + outliers(512, count=9, bits=40),
    "sparse": np.where(rng().random(3000) < 0.1, rng().integers(0, 1 << 30, 3000), 0),
    "runs of 2 to 12": np.repeat(rng().integers(0, 1000, 600), rng().integers(2, 13, 600)),
    "short ramps": np.concatenate([np.arange(start, start + 70) for start in rng().integers(0, 1 << 40, 30)]),
    "every width": np.concatenate([rng().integers(-(1 << w), 1 << w, 600) for w in range(63)]),
}


@pytest.mark.parametrize(("version", "text", "values"), SPECIFIED)
def test_examples_of_the_specification_decode(version, text, values):
    assert decode_ints(stream(text), len(values), signed=False, version=version).tolist() == values


@pytest.mark.parametrize(("version", "text", "values"), [case for case in SPECIFIED if case[0] == 2])
def test_not_larger_than_the_examples_of_the_specification(version, text, values):
    assert len(encode_ints(longs(values), signed=False, marks=NO_MARKS).data) <= len(stream(text))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ten equal", 0), ("random 20 bit", 1), ("some outliers", 2), ("outlier at 511", 2), ("ramp", 3), ("falling", 3)],
)
def test_each_sub_encoding_is_chosen_where_it_pays(name, kind):
    assert encode_ints(PATTERNS[name], signed=True, marks=NO_MARKS).data[0] >> 6 == kind


@pytest.mark.parametrize("name", PATTERNS)
def test_cpp_readers_read_what_is_encoded(name):
    values = PATTERNS[name]
    file = orc_bytes(int_column(LONG, encode_ints(values, signed=True, marks=NO_MARKS)), len(values))
    assert read_pyorc(file) == values.tolist()
    assert read_pyarrow(file) == values.tolist()


@pytest.mark.parametrize("name", PATTERNS)
def test_what_the_cpp_writer_encodes_is_decoded(name):
    values = PATTERNS[name]
    file = pyorc_file(values)
    orc = read_orc(file)
    assert len(orc.stripes) == (1 if len(values) else 0)
    for stripe in orc.stripes:
        data = np.frombuffer(orc.stream_bytes(stripe.stream(1, DATA)), dtype=np.uint8)
        assert np.array_equal(decode_ints(data, len(values), signed=True, version=2), values)


@pytest.mark.parametrize("name", PATTERNS)
def test_not_larger_than_the_cpp_writer(name):
    values = PATTERNS[name]
    orc = read_orc(pyorc_file(values))
    theirs = sum(stripe.stream(1, DATA).length for stripe in orc.stripes)
    assert len(encode_ints(values, signed=True, marks=NO_MARKS).data) <= theirs * 1.01


def pyorc_file(values):
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<a:bigint>", compression=pyorc.CompressionKind.NONE) as writer:
        for value in values.tolist():
            writer.write((value,))
    return out.getvalue()


@pytest.mark.parametrize("name", [name for name in PATTERNS if len(PATTERNS[name]) > 1000])
def test_cpp_seeks_by_our_positions(name):
    values = PATTERNS[name]
    marks = np.arange(0, len(values), 1000)
    file = orc_bytes(int_column(LONG, encode_ints(values, signed=True, marks=marks)), len(values), stride=1000)
    for mark in marks.tolist():
        assert read_from(file, mark, 20) == values[mark : mark + 20].tolist()


@pytest.mark.parametrize("code", range(32))
def test_every_width_decodes_up_to_the_last_byte(code):
    # as numbers without end: neither words nor bytes
    width = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64][code]
    for length in [*range(1, 19), 64]:
        values = [int(value) >> (64 - width) for value in rng().integers(0, 1 << 64, length, dtype=np.uint64)]
        packed = 0
        for value in values:
            packed = packed << width | value
        size = (length * width + 7) // 8
        packed <<= size * 8 - length * width
        data = bytes([0x40 | code << 1, length - 1]) + packed.to_bytes(size, "big")
        found = decode_ints(np.frombuffer(data, dtype=np.uint8), length, signed=False, version=2)
        assert found.view(np.uint64).tolist() == values


def blocks():
    r = rng()
    for size in [1, 2, 3, 4, 5, 9, 40, 200, 512]:
        for _ in range(40):
            yield r.integers(-3, 3, size)
            yield np.cumsum(r.choice([0, 1, 1, 1, 1, 1, 2, 5], size))
            yield np.repeat(r.integers(-(10**6), 10**6, size), r.integers(1, 9, size))[:size]
            yield np.concatenate([r.integers(-9, 9) * np.arange(n) + r.integers(0, 99) for n in range(1, 40)])[:size]
            yield np.where(np.arange(size) < size // 2, r.integers(-(1 << 62), 1 << 62, size), 1 << 62)


@pytest.mark.parametrize("signed", [0, 1])
def test_a_block_ends_where_it_does_however_it_is_looked_for(signed):
    same = np.empty(512, np.uint8)
    found = [
        (
            _calm_block_end(block, signed, _summary(block, signed), same),
            _block_end(block, 0, len(block), signed),
            len(block),
        )
        for block in blocks()
    ]
    assert [calm for calm, _, _ in found] == [slow for _, slow, _ in found]
    assert 100 < sum(end < size for end, _, size in found) < len(found) - 100


def test_a_negative_base_is_sign_and_magnitude():
    # width 1, length 2, base -3 in one byte, patch width 1, gap width 1, one patch at 1
    data = stream("80 01 00 01 83 40 c0")
    assert decode_ints(data, 2, signed=True, version=2).tolist() == [-3, 0]


def test_signed_version_1_wraps_and_zigzags():
    assert decode_ints(stream("00 ff 03"), 3, signed=True, version=1).tolist() == [-2, -3, -4]
    top = "fe ff ff ff ff ff ff ff ff 01"
    assert decode_ints(stream("00 01" + top), 3, signed=True, version=1).tolist() == [
        (1 << 63) - 1,
        -(1 << 63),
        1 - (1 << 63),
    ]


DAMAGED = {
    "no bytes": (2, "", 1, "cannot hold"),
    "too few bytes for so many": (2, "c0 00 00 00", 10**12, "cannot hold"),
    "a byte alone": (2, "0a", 5, "ends before"),
    "a run too few": (2, "0a 27 10", 6, "ends before"),
    "a run too long": (2, "0a 27 10", 4, "more values"),
    "a byte more": (2, "0a 27 10 00", 5, "follow"),
    "short repeat cut": (2, "0a 27", 5, "ends before"),
    "direct cut": (2, "5e 03 5c a1 ab 1e de ad be", 4, "ends before"),
    "delta cut": (2, "c6 09 02 02 22 42 42", 10, "ends before"),
    "delta without its step": (2, "c6 09 02", 10, "ends before"),
    "deltas in a run of one": (2, "c6 00 02 02", 1, "too short"),
    "patches cut": (2, PATCHED_BYTES[:-3], 20, "ends before"),
    "no patches": (2, PATCHED_BYTES.replace("2b 21", "2b 20"), 20, "patch list"),
    "a patch behind the run": (2, "80 01 00 21 03 40 e0", 2, "patch list"),
    "a patch list that ends in a gap": (2, "80 01 00 e1 03 40 ff 00", 2, "patch list"),
    "patches too wide": (2, "80 01 1f 01 03 40 00 00 00 00 00 00 00 00", 2, "patch list"),
    "varint too long": (2, "c0 00 ff ff ff ff ff ff ff ff ff 02 00", 1, "64 bits"),
    "version 1: empty": (1, "", 3, "cannot hold"),
    "version 1: run cut": (1, "61 00", 100, "ends before"),
    "version 1: literals cut": (1, "fb 02 03 04 07", 5, "ends before"),
    "version 1: too long": (1, "61 00 07", 99, "more values"),
    "version 1: a byte more": (1, "61 00 07 07", 100, "follow"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named(name):
    version, text, count, message = DAMAGED[name]
    with pytest.raises(CorruptError, match=f"Cannot decode integers: .*{message}"):
        decode_ints(stream(text), count, signed=False, version=version)


@pytest.mark.parametrize("name", ["a run too long", "a byte more", "version 1: too long", "version 1: a byte more"])
def test_surplus_is_named_and_not_looked_at(name):
    version, text, count, message = DAMAGED[name]
    surplus = []
    found = decode_ints(stream(text), count, signed=False, version=version, surplus=surplus)
    assert found.tolist() == [10000 if version == 2 else 7] * count
    assert len(surplus) == 1
    assert message in surplus[0]


def test_what_is_not_surplus_stays_damage():
    for version, text, count, message in DAMAGED.values():
        if message not in ("more values", "follow"):
            surplus = []
            with pytest.raises(CorruptError, match=message):
                decode_ints(stream(text), count, signed=False, version=version, surplus=surplus)
            assert surplus == []


LONGEST = {
    "direct": (2, b"\x7f\xff" + np.arange(512, dtype=">i8").tobytes()),
    "delta": (2, bytes.fromhex("c1ff0002")),
    "version 1, run": (1, bytes.fromhex("7f0100")),
    "version 1, literals": (1, bytes([0x80, *range(128)])),
}


@pytest.mark.parametrize("name", LONGEST)
def test_any_part_of_the_longest_runs_is_decoded(name):
    version, data = LONGEST[name]
    size = {"direct": 512, "delta": 512, "version 1, run": 130, "version 1, literals": 128}[name]
    for count in (1, 2, size - 1, size, size + 1, 2 * size - 1):
        surplus = []
        found = decode_ints(np.frombuffer(data * 2, np.uint8), count, signed=False, version=version, surplus=surplus)
        assert found.tolist() == [*range(size), *range(size)][:count]
        assert len(surplus) == 1


def test_read_only_and_strided_input():
    data = np.frombuffer(bytes.fromhex("0a2710"), dtype=np.uint8)
    assert not data.flags.writeable
    doubled = np.repeat(data, 2)[::2]
    assert decode_ints(doubled, 5, signed=False, version=2).tolist() == [10000] * 5
    values = np.arange(20)[::2]
    encoded = encode_ints(values, signed=True, marks=NO_MARKS)
    assert np.array_equal(decode_ints(encoded.data, 10, signed=True, version=2), values)
