"""Whose tickets are in a cache, and when they end, by files as MIT Kerberos writes them."""

from __future__ import annotations

import struct

import pytest

from acidlib.metastore.kerberos import Tickets, tickets_in


def text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def principal(*parts: bytes, realm: bytes = b"R") -> bytes:
    return struct.pack(">II", 1, len(parts)) + text(realm) + b"".join(map(text, parts))


def ticket(*server: bytes, end: int) -> bytes:
    addresses = struct.pack(">IH", 1, 2) + text(b"\x7f\0\0\1")
    return b"".join(
        (
            principal(b"anna"),
            principal(*server),
            struct.pack(">H", 17) + text(b"key"),
            struct.pack(">4I", 1, 2, end, 4),
            b"\0" + struct.pack(">I", 5),
            addresses,
            struct.pack(">I", 0),
            text(b"the ticket"),
            text(b""),
        )
    )


HEAD = struct.pack(">HH", 0x0504, 12) + b"\0\1\0\x08" + bytes(8) + principal(b"anna", b"admin")
CACHE = HEAD + ticket(b"krb5_ccache_conf_data", b"fast_avail", end=0) + ticket(b"krbtgt", b"R", end=1000)


def test_the_ticket_for_tickets_counts() -> None:
    assert tickets_in(CACHE + ticket(b"hive", b"host", end=2000)) == Tickets("anna/admin@R", 1000)
    assert tickets_in(CACHE + ticket(b"krbtgt", b"OTHER", end=1500)) == Tickets("anna/admin@R", 1500)
    assert tickets_in(HEAD) == Tickets("anna/admin@R", None)


@pytest.mark.parametrize("data", [b"", b"junk", HEAD[:-1], CACHE[:-1], b"\5\3" + CACHE[2:], HEAD + b"\xff" * 40])
def test_what_is_no_such_cache_says_nothing(data: bytes) -> None:
    assert tickets_in(data) is None
