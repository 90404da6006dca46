"""Files with one deliberate fault, to prove that the judges see it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from judges import orc_tail as o


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def replace_stream(orc: o.OrcFile, stripe: int, column: int, kind: int, content: bytes) -> bytes:
    """The file with other (uncompressed) content of one stream; lengths and offsets after it are made to fit."""
    return replace_chunks(orc, stripe, column, kind, o.stored(content, orc.compression, orc.block))


def replace_chunks(orc: o.OrcFile, stripe: int, column: int, kind: int, chunks: bytes) -> bytes:
    """``replace_stream`` with the stream's bytes as they lie in the file, compression chunks and all."""
    target = orc.stripes[stripe]
    body = bytearray(orc.data[:3])
    infos: list[bytes] = []
    for number, old in enumerate(orc.stripes):
        info = o.parse(orc.footer[3][number])
        offset = len(body)
        if number != stripe:
            end = old.offset + old.index_length + old.data_length + old.footer_length
            body += orc.data[old.offset : end]
        else:
            footer_at = old.offset + old.index_length + old.data_length
            raw = orc.data[footer_at : footer_at + old.footer_length]
            footer = o.parse(o.inflate(raw, orc.compression, orc.block))
            lengths = [0, 0]
            for place, stream in enumerate(target.streams):
                piece = orc.data[stream.offset : stream.offset + stream.length]
                if (stream.column, stream.kind) == (column, kind):
                    piece = chunks
                    footer[1][place] = o.encode({**o.parse(footer[1][place]), 3: [len(piece)]})
                body += piece
                lengths[stream.kind not in o.INDEX_STREAMS] += len(piece)
            new_footer = o.stored(o.encode(footer), orc.compression, orc.block)
            body += new_footer
            info.update({2: [lengths[0]], 3: [lengths[1]], 4: [len(new_footer)]})
        info[1] = [offset]
        infos.append(o.encode(info))
    metadata_length, footer_length, size = orc.tail_lengths
    tail = orc.data[len(orc.data) - 1 - size - footer_length - metadata_length :]
    content_length = len(body) - (3 if o.one(orc.footer, 2) == len(orc.data) - len(tail) - 3 else 0)
    moved = dataclasses.replace(orc, data=bytes(body) + tail)
    return o.with_tail(moved, {**orc.footer, 2: [content_length], 3: infos})


def change_stripe_footer(orc: o.OrcFile, stripe: int, change: Callable[[o.Message], o.Message]) -> bytes:
    """The file with another footer of its stripe; what lies behind moves."""
    return replace_stripe_footer(orc, stripe, o.encode(change(o.parse(stripe_footer(orc, stripe)))))


def stripe_footer(orc: o.OrcFile, stripe: int) -> bytes:
    """The footer of a stripe without its compression."""
    found = orc.stripes[stripe]
    start = found.offset + found.index_length + found.data_length
    return o.inflate(orc.data[start : start + found.footer_length], orc.compression, orc.block)


def replace_stripe_footer(orc: o.OrcFile, stripe: int, content: bytes) -> bytes:
    """The file with other (uncompressed) bytes as the footer of a stripe; what lies behind moves."""
    old = orc.stripes[stripe]
    start = old.offset + old.index_length + old.data_length
    end = start + old.footer_length
    new = o.stored(content, orc.compression, orc.block)
    moved = len(new) - old.footer_length
    infos = [o.parse(info) for info in orc.footer[3]]
    infos[stripe][4] = [len(new)]
    for info in infos[stripe + 1 :]:
        info[1] = [o.one(info, 1, 0) + moved]
    whole = dataclasses.replace(orc, data=orc.data[:start] + new + orc.data[end:])
    content_length = o.one(orc.footer, 2) + moved
    return o.with_tail(whole, {**orc.footer, 2: [content_length], 3: [o.encode(info) for info in infos]})


def change_index(
    orc: o.OrcFile, stripe: int, column: int, group: int, change: Callable[[o.Message], o.Message]
) -> bytes:
    """The file with one row index entry changed (fields: 1 positions, 2 statistics)."""
    entries = list(orc.stripes[stripe].row_index[column])
    entries[group] = change(entries[group])
    content = o.encode({1: [o.encode(entry) for entry in entries]})
    return replace_stream(orc, stripe, column, o.ROW_INDEX, content)


def move_position(orc: o.OrcFile, stripe: int, column: int, group: int, *, place: int = -1, by: int = 1) -> bytes:
    """One number of one row index entry's positions off by ``by`` (the last one is where in its run a value lies)."""

    def change(entry: o.Message) -> o.Message:
        positions = o.packed(entry.get(1, []))
        positions[place] += by
        return {**entry, 1: [b"".join(o.encode_varint(p) for p in positions)]}

    return change_index(orc, stripe, column, group, change)


def _shift_integer(statistics: bytes, field: int, by: int, kind: int = 2) -> bytes:
    message = o.parse(statistics)
    typed = o.parse(o.one(message, kind))
    typed[field] = [_zigzag(o.signed(o.one(typed, field)) + by)]
    return o.encode({**message, kind: [o.encode(typed)]})


def shift_group_statistic(
    orc: o.OrcFile, stripe: int, column: int, group: int, *, field: int = 1, by: int = 3
) -> bytes:
    """An integer statistic of a row group off by ``by`` (fields: 1 minimum, 2 maximum, 3 sum)."""

    def change(entry: o.Message) -> o.Message:
        return {**entry, 2: [_shift_integer(o.one(entry, 2), field, by)]}

    return change_index(orc, stripe, column, group, change)


def shift_stripe_statistic(
    orc: o.OrcFile, stripe: int, column: int, *, field: int = 1, by: int = 3, kind: int = 2
) -> bytes:
    """A statistic of a stripe off by ``by`` (kinds: 2 of integers, 4 of strings)."""
    stripes: list[Any] = list(orc.metadata[1])
    columns = list(o.parse(stripes[stripe])[1])
    columns[column] = _shift_integer(columns[column], field, by, kind)
    stripes[stripe] = o.encode({1: columns})
    return o.with_tail(orc, orc.footer, {**orc.metadata, 1: stripes})


def shift_file_statistic(orc: o.OrcFile, column: int, *, field: int = 1, by: int = 3) -> bytes:
    """An integer statistic of the file off by ``by``."""
    columns = list(orc.footer[7])
    columns[column] = _shift_integer(columns[column], field, by)
    return o.with_tail(orc, {**orc.footer, 7: columns})


def with_user_metadata(orc: o.OrcFile, changes: dict[str, bytes | None]) -> bytes:
    """The file with other user metadata: None removes a key."""
    user = {**orc.user, **changes}
    items = [o.encode({1: [key.encode()], 2: [value]}) for key, value in sorted(user.items()) if value is not None]
    footer = {number: values for number, values in orc.footer.items() if number != 5}
    return o.with_tail(orc, {**footer, **({5: items} if items else {})})
