"""ORC files whose streams hold more than their columns' values: values that go on, bytes or chunks that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from judges import mutants
from judges import orc_tail as o

_ZEROS, _ONES = bytes(1000), b"\xff" * 1000
_CHUNK_OF_ITS_OWN = {
    "an empty chunk": lambda block: chunk(b"", is_original=True),
    "a damaged chunk": lambda block: chunk(b"\xff" * 40, is_original=False),
    "a cut chunk": lambda block: chunk(_ZEROS, is_original=True)[:50],
    "a cut header": lambda block: b"\x05",
    "a chunk that is too large": lambda block: chunk(bytes(block + 1), is_original=True),
}
"""What follows the chunks of a stream, by the size of its blocks."""

BYTES = ("a zero", "zeros", "ones", "a run", "half a run")
"""What may follow in a stream of any codec."""

CHUNKS = ("a chunk", *_CHUNK_OF_ITS_OWN)
"""What may follow in a stream that is compressed."""

_BYTES = {
    "a zero": b"\0",
    "zeros": _ZEROS,
    "ones": _ONES,
    "a run": bytes.fromhex("0a2710"),  # five times 10,000 in version 2, 13 values from 39 on by 16 in version 1
    "half a run": bytes.fromhex("5e035c"),
}


def data_streams(orc: o.OrcFile) -> Iterator[tuple[o.Stripe, o.Stream]]:
    """All streams of a file but those of its indexes."""
    for stripe in orc.stripes:
        for stream in stripe.streams:
            if stream.kind not in o.INDEX_STREAMS:
                yield stripe, stream


def with_surplus(data: bytes, name: str, wanted: Callable[[o.Stream], bool] = lambda stream: True) -> bytes:
    """The file with what `name` says behind the last value of all streams that are wanted."""
    places = [(stripe.number, stream.column, stream.kind) for stripe, stream in data_streams(o.read_orc(data))]
    for number, column, kind in places:
        orc = o.read_orc(data)
        stream = orc.stripes[number].stream(column, kind)
        assert stream is not None
        chunks = orc.data[stream.offset : stream.offset + stream.length]
        if not wanted(stream):
            continue
        if name in _CHUNK_OF_ITS_OWN:
            chunks += _CHUNK_OF_ITS_OWN[name](orc.block)
        elif name == "a chunk":
            chunks += chunk(_BYTES["a run"], is_original=True)
        else:
            chunks = o.stored(orc.stream_bytes(stream) + _BYTES[name], orc.compression, orc.block)
        data = mutants.replace_chunks(orc, number, column, kind, chunks)
    return data


def under_tail(longer: bytes, shorter: bytes) -> bytes:
    """The one stripe of a file under the tail of a file that has the first of its rows: all of its runs go on."""
    orc, first = o.read_orc(longer), o.read_orc(shorter)
    assert len(orc.stripes) == len(first.stripes) == 1
    stripe = {**o.parse(orc.footer[3][0]), 5: [first.rows]}
    return o.with_tail(orc, {**first.footer, 2: orc.footer[2], 3: [o.encode(stripe)]}, first.metadata)


def with_fewer_rows(data: bytes, rows: int) -> bytes:
    """The file with a footer that claims so many rows less of its first stripe; its statistics stay."""
    orc = o.read_orc(data)
    stripe = {**o.parse(orc.footer[3][0]), 5: [orc.stripes[0].rows - rows]}
    return o.with_tail(orc, {**orc.footer, 3: [o.encode(stripe), *orc.footer[3][1:]], 6: [orc.rows - rows]})


def chunk(content: bytes, *, is_original: bool) -> bytes:
    """A chunk of a compressed stream, with its header."""
    return (len(content) << 1 | is_original).to_bytes(3, "little") + content
