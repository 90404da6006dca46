"""Random damage to an ORC file, from a seeded generator: bytes of any part of it, also below its compression, and
numbers of its messages. What lies around the damage is made to fit, so that a reader gets as far as it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from judges import mutants
from judges import orc_tail as o

_NUMBERS = (0, 1, 2, 127, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_PIECES = (
    b"\0",
    b"\xff",
    b"\xff" * 9,
    b"\xff" * 9 + b"\x01",
    b"\x80" * 12,
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\x00\x00",
    b"\x1f\xff",
    b"\x9f\xff",
    b"\xdf\xff",
    b"\xe0\xff",
    b"\xff\xff\x7f",
)
"""Varints of 5 to 12 bytes, headers of long runs in every encoding, headers of large chunks."""

_NESTED: dict[str, dict[int, str]] = {
    "footer": {3: "stripe", 4: "type", 5: "item", 7: "statistics"},
    "metadata": {1: "columns"},
    "columns": {1: "statistics"},
    "stripe footer": {1: "stream", 2: "encoding"},
    "index": {1: "entry"},
    "entry": {2: "statistics"},
    "statistics": dict.fromkeys((2, 3, 4, 5, 6, 7, 8, 9, 12), "typed"),
    "filters": {1: "filter"},
}
"""Which fields of a message are messages again."""


def mutate(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """A damaged copy of a valid file, and where it was damaged."""
    orc = o.read_orc(data)
    ways: tuple[Callable[[o.OrcFile, random.Random], tuple[bytes, str]], ...] = (
        _rows,
        _boundaries,
        *(_anywhere, _postscript, _footer, _metadata) * 2,
        *(_stripe_footer, _index, _chunks) * 3,
        *(_stream,) * 7,
    )
    return rng.choice(ways)(orc, rng)


def spoil(data: bytes, rng: random.Random) -> bytes:
    """A few bytes flipped, set, put in, taken out or doubled, or the end cut off."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(spoilt) + 1)
        end = at + rng.choice((1, 1, 2, 3, 10, 100))
        way = rng.randrange(7)
        if way in (0, 1) and at < len(spoilt):
            spoilt[at] ^= 1 << rng.randrange(8)
        elif way == 2 and at < len(spoilt):
            spoilt[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif way == 3:
            spoilt[at:at] = rng.choice(_PIECES)
        elif way == 4:
            piece = rng.choice(_PIECES)
            spoilt[at : at + len(piece)] = piece
        elif way == 5:
            del spoilt[at:end]
        elif rng.random() < 0.3:
            del spoilt[at:]
        else:
            spoilt[at:at] = spoilt[at:end]
    return bytes(spoilt)


def _message(data: bytes, form: str, rng: random.Random) -> bytes:
    """A message with a number changed or a field left out or doubled somewhere in it, or with spoilt bytes."""
    if rng.random() < 0.4:
        return spoil(data, rng)
    message = o.parse(data)
    if not message:
        return spoil(data, rng)
    number = rng.choice(list(message))
    values = message[number] = list(message[number])
    place = rng.randrange(len(values))
    value = values[place]
    way = rng.randrange(10)
    if way == 0:
        del values[place]
    elif way == 1:
        values.insert(rng.randrange(len(values) + 1), value)
    elif isinstance(value, int):
        near = (value + 1, value - 1, value * 2, value ^ 1 << rng.randrange(40))
        values[place] = rng.choice((*near, *_NUMBERS)) & 2**64 - 1
    elif isinstance(value, o.Fixed64):
        values[place] = o.Fixed64(rng.choice((bytes(8), b"\xff" * 8, rng.randbytes(8))))
    elif number in _NESTED.get(form, {}):
        values[place] = _message(value, _NESTED[form][number], rng)
    else:
        values[place] = spoil(value, rng)
    return o.encode(message)


def _anywhere(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    return spoil(orc.data, rng), "anywhere"


def _postscript(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    size = orc.tail_lengths[2]
    content = _message(orc.data[-1 - size : -1], "postscript", rng)
    length = rng.randrange(256) if rng.random() < 0.1 else len(content) & 255
    return orc.data[: -1 - size] + content + bytes([length]), "postscript"


def _tail(orc: o.OrcFile, metadata: bytes, footer: bytes) -> bytes:
    body = orc.data[: len(orc.data) - 1 - sum(orc.tail_lengths)]
    parts = [o.stored(part, orc.compression, orc.block) for part in (metadata, footer)]
    postscript = o.encode({**orc.postscript, 1: [len(parts[1])], 5: [len(parts[0])]})
    return body + b"".join(parts) + postscript + bytes([len(postscript)])


def _footer(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    return _tail(orc, o.encode(orc.metadata), _message(o.encode(orc.footer), "footer", rng)), "footer"


def _rows(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    """Another number of rows of a stripe, and of the file with it."""
    number = rng.randrange(len(orc.stripes))
    old = orc.stripes[number].rows
    rows = rng.choice((0, 1, old - 1, old + 1, 2 * old, 10**6, 2**31 - 1, 2**31, 2**40))
    infos = list(orc.footer[3])
    infos[number] = o.encode({**o.parse(infos[number]), 5: [rows]})
    footer = {**orc.footer, 3: infos, 6: [orc.rows - old + rows]}
    return _tail(orc, o.encode(orc.metadata), o.encode(footer)), f"{rows} rows of stripe {number}"


def _boundaries(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    """One stream ends later, and the next begins so."""
    stripe = rng.choice(orc.stripes)
    footer = o.parse(mutants.stripe_footer(orc, stripe.number))
    streams = [o.parse(raw) for raw in footer[1]]
    places = [at for at in range(len(streams) - 1) if o.one(streams[at + 1], 3, 0)]
    at = rng.choice(places)
    moved = rng.randint(1, o.one(streams[at + 1], 3, 0))
    for stream, by in ((streams[at], moved), (streams[at + 1], -moved)):
        stream[3] = [o.one(stream, 3, 0) + by]
    content = o.encode({**footer, 1: [o.encode(stream) for stream in streams]})
    return mutants.replace_stripe_footer(orc, stripe.number, content), f"end of stream {at} in stripe {stripe.number}"


def _metadata(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    return _tail(orc, _message(o.encode(orc.metadata), "metadata", rng), o.encode(orc.footer)), "metadata"


def _stripe_footer(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    number = rng.randrange(len(orc.stripes))
    content = _message(mutants.stripe_footer(orc, number), "stripe footer", rng)
    return mutants.replace_stripe_footer(orc, number, content), f"footer of stripe {number}"


def _index(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    """A row index or the bloom filters of a column."""
    found = _pick(orc, rng, index=True)
    if found is None:
        return _stream(orc, rng)
    stripe, stream = found
    form = "index" if stream.kind == o.ROW_INDEX else "filters"
    content = _message(orc.stream_bytes(stream), form, rng)
    return mutants.replace_stream(orc, stripe.number, stream.column, stream.kind, content), _place(stripe, stream)


def _stream(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    """A stream of data, below its compression."""
    stripe, stream = _pick(orc, rng, index=False) or (orc.stripes[0], orc.stripes[0].streams[0])
    content = spoil(orc.stream_bytes(stream), rng)
    return mutants.replace_stream(orc, stripe.number, stream.column, stream.kind, content), _place(stripe, stream)


def _chunks(orc: o.OrcFile, rng: random.Random) -> tuple[bytes, str]:
    """A stream as it lies in the file: headers of chunks, and what the codec reads."""
    stripe, stream = _pick(orc, rng, index=rng.random() < 0.1) or (orc.stripes[0], orc.stripes[0].streams[0])
    chunks = spoil(orc.data[stream.offset : stream.offset + stream.length], rng)
    data = mutants.replace_chunks(orc, stripe.number, stream.column, stream.kind, chunks)
    return data, f"chunks of {_place(stripe, stream)}"


def _pick(orc: o.OrcFile, rng: random.Random, *, index: bool) -> tuple[o.Stripe, o.Stream] | None:
    stripe = rng.choice(orc.stripes)
    streams = [s for s in stripe.streams if (s.kind in o.INDEX_STREAMS) is index and s.length]
    return (stripe, rng.choice(streams)) if streams else None


def _place(stripe: o.Stripe, stream: o.Stream) -> str:
    return f"stream {stream.kind} of column {stream.column} in stripe {stripe.number}"
