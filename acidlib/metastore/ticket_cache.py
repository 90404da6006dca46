"""When the tickets in a cache end. No I/O.

Source: MIT Kerberos, `Credential cache file format`, version 4; all numbers are big-endian.
"""

from __future__ import annotations

import struct

_VERSION = 0x0504
_TICKET_GRANTING = b"krbtgt"


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

    def principal(self) -> list[bytes]:
        """Its parts, without the realm."""
        self.take(4)
        count = self.number(4)
        self.text()
        return [self.text() for _ in range(count)]


def end_of_tickets(data: bytes) -> int | None:
    """When nobody can ask for further tickets with what is in this file: epoch seconds; None for no such file."""
    reader = _Reader(data)
    ends = []
    try:
        if reader.number(2) != _VERSION:
            return None
        reader.take(reader.number(2))
        reader.principal()
        while reader.at < len(data):
            reader.principal()
            server = reader.principal()
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
    return max(ends, default=None)
