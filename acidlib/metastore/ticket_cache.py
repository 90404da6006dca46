"""Whose tickets are in a cache, and when they end. No I/O.

The module gssapi tells both of tickets that are good, and neither once they have ended, when it is asked for.

Source: MIT Kerberos, `Credential cache file format`, version 4; all numbers are big-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_VERSION = 0x0504
_TICKET_GRANTING = b"krbtgt"


@dataclass(frozen=True, slots=True)
class Tickets:
    """`owner` is a principal; after `end`, epoch seconds, they are good for nothing. None: there are none."""

    owner: str
    end: int | None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("the cache ends before it is whole")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> bytes:
        return self.take(self.number(4))

    def principal(self) -> tuple[bytes, list[bytes]]:
        """Its realm and its parts."""
        self.take(4)
        count = self.number(4)
        return self.text(), [self.text() for _ in range(count)]


def tickets_in(data: bytes) -> Tickets | None:
    """What is in such a file; None for another file, and for one that is not whole."""
    reader = _Reader(data)
    ends = []
    try:
        if reader.number(2) != _VERSION:
            return None
        reader.take(reader.number(2))
        realm, parts = reader.principal()
        while reader.at < len(data):
            reader.principal()
            _, server = reader.principal()
            reader.take(2)
            reader.text()
            _, _, end, _ = struct.unpack(">4I", reader.take(16))
            reader.take(1 + 4)
            for _ in range(2):  # addresses, and data of whoever authorised
                for _ in range(reader.number(4)):
                    reader.take(2)
                    reader.text()
            reader.text()
            reader.text()
            if server[:1] == [_TICKET_GRANTING]:
                ends.append(end)
    except ValueError:
        return None
    owner = b"/".join(parts) + b"@" + realm
    return Tickets(owner.decode("utf-8", "replace"), max(ends, default=None))
