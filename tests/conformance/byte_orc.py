"""ACID files of integer columns, byte by byte from the ORC specification: of shapes that no writer here makes.

Run lengths of version 1, no compression; the three hive.acid keys are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from judges import orc_tail as o
from judges.tables import Event

_IDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")
_ID_KINDS = (o.INT, o.LONG, o.INT, o.LONG, o.LONG)
STRIDE = 10_000
Values = Sequence[int | None]


def acid_ints(events: Sequence[Event], columns: int, *, stripe_rows: int = 1 << 30) -> bytes:
    """A file of insert events whose rows are `columns` integers or nulls, one row group in each stripe."""
    body, stripes, metadata, keys = bytearray(b"ORC"), [], [], ""
    for start in range(0, len(events), stripe_rows):
        part = events[start : start + stripe_rows]
        assert len(part) <= STRIDE
        content, info = _stripe(part, columns, len(body))
        body += content
        stripes.append(info)
        metadata.append(o.encode({1: [_statistics(values, kind) for kind, values in _columns(part, columns)]}))
        keys += "{},{},{};".format(*part[-1][1:4])
    user = {"version": "2", "stats": f"{len(events)},0,0", "key.index": keys}
    footer = {
        1: [3],
        2: [len(body)],
        3: stripes,
        4: list(_types(columns)),
        5: [o.encode({1: [f"hive.acid.{name}".encode()], 2: [text.encode()]}) for name, text in user.items()],
        6: [len(events)],
        7: [_statistics(values, kind) for kind, values in _columns(events, columns)],
        8: [STRIDE],
    }
    tail = o.encode({1: metadata}), o.encode(footer)
    postscript = o.encode({1: [len(tail[1])], 2: [0], 4: [b"\x00\x0c"], 5: [len(tail[0])], 6: [6], 8000: [b"ORC"]})
    return bytes(body) + b"".join(tail) + postscript + bytes([len(postscript)])


def _types(columns: int) -> Iterator[bytes]:
    yield o.encode({1: [o.STRUCT], 2: [bytes(range(1, 7))], 3: [name.encode() for name in (*_IDS, "row")]})
    yield from (o.encode({1: [kind]}) for kind in _ID_KINDS)
    children = b"".join(o.encode_varint(7 + number) for number in range(columns))
    yield o.encode({1: [o.STRUCT], 2: [children], 3: [f"c{number}".encode() for number in range(columns)]})
    yield from [o.encode({1: [o.INT]})] * columns


def _columns(events: Sequence[Event], columns: int) -> Iterator[tuple[int, Values]]:
    """Kind and values of every column, structs too."""
    yield o.STRUCT, [0] * len(events)
    for place, kind in enumerate(_ID_KINDS):
        yield kind, [event[place] for event in events]
    yield o.STRUCT, [0] * len(events)
    for number in range(columns):
        yield o.INT, [event[5][number] for event in events]


def _statistics(values: Values, kind: int) -> bytes:
    there = [value for value in values if value is not None]
    message: o.Message = {1: [len(there)]}
    if kind != o.STRUCT and there:
        message[2] = [o.encode({n: [_zigzag(f(there))] for n, f in ((1, min), (2, max), (3, sum))})]
    return o.encode({**message, 10: [int(len(there) < len(values))]})


def _stripe(events: Sequence[Event], columns: int, offset: int) -> tuple[bytes, bytes]:
    """The stripe, and its StripeInformation."""
    index, data = [], []
    for column, (kind, values) in enumerate(_columns(events, columns)):
        positions = b""
        if None in values:
            data.append((column, o.PRESENT, _bits([value is not None for value in values])))
            positions += b"\0\0\0"
        if kind != o.STRUCT:
            data.append((column, o.DATA, _literals([value for value in values if value is not None])))
            positions += b"\0\0"
        entry = o.encode({1: [positions], 2: [_statistics(values, kind)]})
        index.append((column, o.ROW_INDEX, o.encode({1: [entry]})))
    streams = [*index, *data]
    footer = o.encode(
        {
            1: [o.encode({1: [kind], 2: [column], 3: [len(content)]}) for column, kind, content in streams],
            2: [o.encode({1: [0]})] * (7 + columns),
            3: [b"UTC"],
        }
    )
    sizes = [sum(len(content) for _, _, content in part) for part in (index, data)]
    info = o.encode({1: [offset], 2: [sizes[0]], 3: [sizes[1]], 4: [len(footer)], 5: [len(events)]})
    return b"".join(content for _, _, content in streams) + footer, info


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _literals(values: Sequence[int]) -> bytes:
    out = bytearray()
    for start in range(0, len(values), 128):
        part = values[start : start + 128]
        out.append(256 - len(part))
        for value in part:
            out += o.encode_varint(_zigzag(value))
    return bytes(out)


def _bits(flags: Sequence[bool]) -> bytes:
    octets = [
        sum(flag << 7 - place for place, flag in enumerate(flags[start : start + 8]))
        for start in range(0, len(flags), 8)
    ]
    return b"".join(
        bytes([256 - len(octets[start : start + 128]), *octets[start : start + 128]])
        for start in range(0, len(octets), 128)
    )
