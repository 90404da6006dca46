"""Compressed streams against the specification, real files and the C++ readers and writer."""

import io
import zlib

import cramjam
import numpy as np
import pyorc
import pytest
from judges.fixtures import orc_files
from judges.orc_tail import DATA, inflate, read_orc

from acidlib.errors import CorruptError, RefusedError
from acidlib.memory import DEFAULT_MEMORY
from acidlib.orc.compression import compress, decompress, positions_in
from acidlib.orc.kernels.ints import decode_ints
from acidlib.orc.proto import Compression

CODECS = [Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
CHUNKED = CODECS[1:]


def rng():
    return np.random.default_rng(11)


def contents():
    r = rng()
    return {
        "empty": np.empty(0, np.uint8),
        "a byte": np.array([7], np.uint8),
        "exactly one block": r.integers(0, 9, 4096).astype(np.uint8),
        "one block and a byte": r.integers(0, 9, 4097).astype(np.uint8),
        "compressible": np.repeat(r.integers(0, 20, 5000), 5).astype(np.uint8),
        "random": r.integers(0, 256, 30000).astype(np.uint8),
        "mixed": np.concatenate([r.integers(0, 256, 9000), np.zeros(9000)]).astype(np.uint8),
        "zeros": np.zeros(100000, np.uint8),
    }


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("name", contents())
def test_there_and_back(name, kind):
    data = contents()[name]
    packed, chunks = compress(data, kind, 4096)
    assert np.array_equal(decompress(packed, kind, 4096, name="it", memory=DEFAULT_MEMORY), data)
    if kind is not Compression.LZ4:
        # by the tests' own reader, whose deflate is zlib's; it does not know where an LZ4 block ends
        assert inflate(bytes(packed), int(kind), 4096) == bytes(data)
    assert len(packed) <= len(data) + (0 if chunks is None else 3 * len(chunks))


@pytest.mark.parametrize("kind", CHUNKED)
@pytest.mark.parametrize("name", contents())
def test_chunks_and_positions(name, kind):
    data = contents()[name]
    packed, chunks = compress(data, kind, 4096)
    assert len(chunks) == -(-len(data) // 4096)
    wanted = np.array([w for w in (0, 1, 4095, 4096, 8191, len(data) - 1, len(data)) if 0 <= w <= len(data)])
    for want, header, within in zip(wanted, *positions_in(chunks, len(data), 4096, wanted), strict=True):
        rest = decompress(packed[header:], kind, 4096, name="it", memory=DEFAULT_MEMORY)
        assert np.array_equal(rest[within:], data[want:])
        assert within < 4096 or want == len(data)


def test_a_position_at_the_end_of_a_stream_is_before_it():
    for size, kind, offset, wanted in (
        (8192, Compression.ZLIB, 8192, [None, 4096]),
        (8000, Compression.ZLIB, 8000, [None, 8000 - 4096]),
        (8000, Compression.NONE, 8000, [7999]),
        (8000, Compression.NONE, 0, [0]),
        (0, Compression.ZLIB, 0, [0, 0]),
        (0, Compression.NONE, 0, [0]),
    ):
        _, chunks = compress(np.zeros(size, np.uint8), kind, 4096)
        found = [part.item() for part in positions_in(chunks, size, 4096, np.array([offset]))]
        assert found == [chunks[1] if part is None else part for part in wanted]


def test_headers_of_the_specification():
    five, _ = compress(np.arange(5, dtype=np.uint8), Compression.ZLIB, 4096)
    assert bytes(five[:3]) == b"\x0b\x00\x00"
    chunk_of_100_000 = stored_deflate(99_990)
    assert len(chunk_of_100_000) == 100_000
    assert len(decompress(b"\x40\x0d\x03" + chunk_of_100_000, 1, 1 << 18, name="it", memory=DEFAULT_MEMORY)) == 99_990


def zlib_raw(data, level=6):
    engine = zlib.compressobj(level, zlib.DEFLATED, -15)
    return engine.compress(data) + engine.flush()


def stored_deflate(size):
    """A deflate stream of stored blocks that hold `size` zeros, in size + 10 bytes."""
    first = b"\x00" + (65535).to_bytes(2, "little") + (0).to_bytes(2, "little") + bytes(65535)
    rest = size - 65535
    return first + b"\x01" + rest.to_bytes(2, "little") + (rest ^ 0xFFFF).to_bytes(2, "little") + bytes(rest)


@pytest.mark.parametrize("kind", CODECS)
def test_streams_of_the_cpp_writer(kind):
    out = io.BytesIO()
    options = {"compression": pyorc.CompressionKind(int(kind)), "compression_block_size": 1 << 14}
    numbers = [i * i * 2654435761 % 1000003 for i in range(20000)]
    with pyorc.Writer(out, "struct<a:bigint,b:string>", memory_block_size=1 << 14, **options) as writer:
        for i, number in enumerate(numbers):
            writer.write((number, f"name {i % 777}"))
    orc = read_orc(out.getvalue())
    if kind is not Compression.LZ4:
        assert compare_streams(orc) > 3
    stream = orc.stripes[0].stream(1, DATA)
    raw = orc.data[stream.offset : stream.offset + stream.length]
    plain = decompress(raw, kind, 1 << 14, name="it", memory=DEFAULT_MEMORY)
    assert decode_ints(plain, 20000, signed=True, version=2).tolist() == numbers


def test_streams_of_real_files():
    files = [read_orc(path) for path in orc_files("**/bucket_0*")]
    assert {0, 1} == {orc.compression for orc in files}
    assert sum(map(compare_streams, files)) > 200


def compare_streams(orc):
    streams = [stream for stripe in orc.stripes for stream in stripe.streams]
    for stream in streams:
        raw = orc.data[stream.offset : stream.offset + stream.length]
        assert bytes(decompress(raw, orc.compression, orc.block, name="it", memory=DEFAULT_MEMORY)) == orc.stream_bytes(
            stream
        )
    return len(streams)


@pytest.mark.parametrize("kind", CHUNKED)
def test_a_cut_stream_is_damaged(kind):
    packed, chunks = compress(contents()["compressible"], kind, 4096)
    ends = set(chunks.tolist())
    for cut in range(1, len(packed)):
        if cut not in ends:
            with pytest.raises(CorruptError, match="Cannot read column 3: it ends within"):
                decompress(packed[:cut], kind, 4096, name="column 3", memory=DEFAULT_MEMORY)


def outcome(data, kind):
    """The number of bytes found, or the error."""
    try:
        return len(decompress(data, kind, 4096, name="it", memory=DEFAULT_MEMORY))
    except CorruptError as problem:
        return str(problem)


@pytest.mark.parametrize("kind", CHUNKED)
def test_a_flipped_bit_is_no_crash(kind):
    packed = bytes(compress(contents()["mixed"], kind, 4096)[0])
    outcomes = []
    for place in rng().integers(0, 8 * len(packed), 300).tolist():
        broken = bytearray(packed)
        broken[place // 8] ^= 1 << place % 8
        outcomes.append(outcome(bytes(broken), kind))
    errors = [found for found in outcomes if isinstance(found, str)]
    assert errors
    assert all(error.startswith("Cannot read it: ") for error in errors)
    assert all(found <= 5 * 4096 for found in outcomes if isinstance(found, int))


def chunk(content, *, original=False):
    return (len(content) << 1 | original).to_bytes(3, "little") + bytes(content)


DEFLATED = zlib_raw(bytes(4096))
TOO_LARGE = {
    Compression.ZLIB: zlib_raw(bytes(4097)),
    Compression.SNAPPY: bytes(cramjam.snappy.compress_raw(bytes(4097))),
    Compression.LZ4: bytes(cramjam.lz4.compress_block(bytes(4097), store_size=False)),
    Compression.ZSTD: bytes(cramjam.zstd.compress(bytes(4097))),
}


@pytest.mark.parametrize("kind", CHUNKED)
def test_a_chunk_beyond_the_block_size(kind):
    assert len(decompress(chunk(TOO_LARGE[kind]), kind, 4097, name="it", memory=DEFAULT_MEMORY)) == 4097
    with pytest.raises(CorruptError, match="chunk at byte 0 is damaged"):
        decompress(chunk(TOO_LARGE[kind]), kind, 4096, name="it", memory=DEFAULT_MEMORY)
    with pytest.raises(CorruptError, match="chunk at byte 0 is damaged"):
        decompress(chunk(bytes(4097), original=True), kind, 4096, name="it", memory=DEFAULT_MEMORY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DEFLATED[:-1], "incomplete"),
        (DEFLATED + b"\x00", "1 bytes follow"),
        (b"", "incomplete"),
        (b"\xff\xff\xff", "damaged"),
        (zlib.compress(bytes(50)), "damaged"),
    ],
)
def test_a_chunk_must_be_one_whole_deflate_stream(content, message):
    good = chunk(DEFLATED)
    assert len(decompress(good, 1, 4096, name="it", memory=DEFAULT_MEMORY)) == 4096
    with pytest.raises(CorruptError, match=f"chunk at byte {len(good)} is damaged.*{message}|{message}"):
        decompress(good + chunk(content), 1, 4096, name="it", memory=DEFAULT_MEMORY)


@pytest.mark.parametrize("kind", CHUNKED)
@pytest.mark.parametrize(
    "rest", [b"\x05", chunk(b"\xff" * 40), chunk(bytes(9))[:-1], chunk(bytes(4097), original=True)]
)
def test_what_lies_before_damage(kind, rest):
    packed, _ = compress(contents()["mixed"], kind, 4096)
    damage = []
    found = decompress(bytes(packed) + rest, kind, 4096, name="it", memory=DEFAULT_MEMORY, damage=damage)
    assert np.array_equal(found, contents()["mixed"])
    assert [type(error) for error in damage] == [CorruptError]
    assert f"at byte {len(packed)}" in str(damage[0])


def test_many_small_chunks_need_no_block_each():
    data = chunk(b"a", original=True) * 20000
    assert bytes(decompress(data, 1, (1 << 23) - 1, name="it", memory=DEFAULT_MEMORY)) == b"a" * 20000


def test_what_is_not_supported():
    for kind, name in ((3, "LZO"), (6, "BROTLI")):
        with pytest.raises(RefusedError, match=f"compression {name} is not supported"):
            decompress(b"", kind, 4096, name="it", memory=DEFAULT_MEMORY)
        with pytest.raises(RefusedError, match=name):
            compress(np.empty(0, np.uint8), kind, 4096)
    for size in (0, 1 << 23):
        with pytest.raises(ValueError, match="block size"):
            compress(np.empty(0, np.uint8), 1, size)
