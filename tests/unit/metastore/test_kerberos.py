"""Kerberos logins: the agreed protection, the owner of tickets, and the message of each error.

Logins themselves are tested at real servers.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from acidlib.arguments import said
from acidlib.errors import RefusedError
from acidlib.metastore import kerberos
from acidlib.metastore.kerberos import (
    KerberosFailure,
    cached_tickets,
    chosen_protection,
    failure_of,
    keytab_failure,
    message_failure,
)
from acidlib.metastore.options import KerberosLogin, Protection

NONE, SIGNED, ENCRYPTED = Protection


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [
        (7, (), NONE),
        (6, (), SIGNED),
        (4, (), ENCRYPTED),
        (7, (ENCRYPTED, NONE), ENCRYPTED),
        (3, (ENCRYPTED, NONE), NONE),
        (2, (SIGNED,), SIGNED),
    ],
)
def test_the_protection_that_is_agreed_on(offered: int, wanted: tuple[Protection, ...], chosen: Protection) -> None:
    assert chosen_protection(offered, wanted) is chosen


@pytest.mark.parametrize(
    ("offered", "wanted", "told"),
    [
        (6, (NONE,), "offers integrity, privacy, and hadoop.rpc.protection is authentication here"),
        (1, (ENCRYPTED, SIGNED), "offers authentication, and hadoop.rpc.protection is privacy,integrity here"),
        (0, (), "offers nothing, and hadoop.rpc.protection is not set here"),
    ],
)
def test_nothing_to_agree_on(offered: int, wanted: tuple[Protection, ...], told: str) -> None:
    with pytest.raises(KerberosFailure) as caught:
        chosen_protection(offered, wanted)
    assert str(caught.value) == f"the server {told}"


def test_where_tickets_are_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "a:b"
    path.write_bytes(CACHE)
    for name in (str(path), f"FILE:{path}"):
        assert cached_tickets(KerberosLogin(cache=name)) == ("anna/admin@R", 1000)
    for name in (f"{path}x", f"DIR:{path}", "KEYRING:persistent:0", "KCM:"):
        assert cached_tickets(KerberosLogin(cache=name)) == ("", None)


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


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (CACHE + ticket(b"hive", b"host", end=2000), ("anna/admin@R", 1000)),
        (CACHE + ticket(b"krbtgt", b"OTHER", end=1500), ("anna/admin@R", 1500)),
        (HEAD, ("anna/admin@R", None)),
        *((no_cache, ("", None)) for no_cache in (b"", b"junk", HEAD[:-1], CACHE[:-1], b"\5\3" + CACHE[2:])),
        (HEAD + b"\xff" * 40, ("", None)),
    ],
)
def test_the_ticket_for_tickets_counts(tmp_path: Path, data: bytes, expected: tuple[str, int | None]) -> None:
    (tmp_path / "cache").write_bytes(data)
    assert cached_tickets(KerberosLogin(cache=str(tmp_path / "cache"))) == expected


FIRST = 2529638912
KEYTAB = KerberosLogin(principal="anna@R", keytab="/k")
TICKET = KerberosLogin()
NAMED = KerberosLogin(principal="anna@R")
CLOCKS = "the clocks of this machine, of the KDC and of the metastore differ by too much; set them by NTP"


class GssapiError(Exception):
    """As the module gssapi has it."""

    def __init__(self, min_code: int, text: str = "The text") -> None:
        self.maj_code = 851968
        self.min_code = min_code
        self.text = text

    def get_all_statuses(self, code: int, is_maj: bool, /) -> list[str]:
        if is_maj:
            assert code == self.maj_code
            return ["The text"]
        assert code == self.min_code
        assert code
        return [self.text] if self.text else []


@pytest.mark.parametrize(
    ("number", "login", "told"),
    [
        (1, KEYTAB, "anna@R is locked in the realm, or has expired there"),
        (18, TICKET, "bob@R is locked in the realm, or has expired there"),
        (6, KEYTAB, "the realm knows no principal anna@R"),
        (
            7,
            TICKET,
            "the realm knows no service hive/h@R: does hive.metastore.kerberos.principal name the metastore's own?",
        ),
        (23, KEYTAB, "the password or key of anna@R has expired: have a new one made"),
        (24, KEYTAB, "the keys of anna@R in /k are not those of the realm: have a new keytab made"),
        (31, KEYTAB, "the keys of anna@R in /k are not those of the realm: have a new keytab made"),
        (31, TICKET, "Kerberos failed"),
        (
            32,
            TICKET,
            "the ticket of bob@R ended at 2001-09-09 01:46:40 UTC; run kinit, or give --principal and --keytab",
        ),
        (32, KEYTAB, f"a ticket that was just fetched has ended already: {CLOCKS}"),
        (33, TICKET, CLOCKS),
        (37, KEYTAB, CLOCKS),
        (148, TICKET, CLOCKS),
        (136, TICKET, "krb5.conf cannot be understood"),
        (141, TICKET, "there is no ticket; run kinit, or give --principal and --keytab"),
        (195, NAMED, "there is no ticket of anna@R; run kinit, or give --principal and --keytab"),
        (154, TICKET, "krb5.conf names no KDC of the realm; KRB5_CONFIG says which file is read"),
        (156, TICKET, "no KDC of the realm answers"),
        (224, TICKET, "krb5.conf names no default_realm; KRB5_CONFIG says which file is read"),
        (60, TICKET, "Kerberos failed"),
        (-FIRST, TICKET, "Kerberos failed"),
    ],
)
def test_what_helps(number: int, login: KerberosLogin, told: str) -> None:
    found = failure_of(GssapiError(FIRST + number), login, service="hive/h@R", cached=("bob@R", 1_000_000_000))
    assert said(str(found)) == f"{told} (Kerberos says: The text)"
    assert (found.passes, found.has_ended) == (number == 156, number == 32)


def test_what_is_not_known_is_not_told() -> None:
    found = failure_of(GssapiError(FIRST + 32, ""), TICKET, service="hive/h@R")
    assert said(str(found)) == "the ticket of this user has ended; run kinit, or give --principal and --keytab"
    found = failure_of(GssapiError(FIRST + 32, ""), NAMED, service="hive/h@R", cached=("bob@R", None))
    assert said(str(found)) == "the ticket of anna@R has ended; run kinit, or give --principal and --keytab"


@pytest.mark.parametrize("number", [31, 24, -FIRST, 100001 - FIRST])
def test_a_message_that_was_changed_says_nothing_about_keys(number: int) -> None:
    """Kerberos has the number 31 for data that cannot be decrypted, and that of success for a wrong signature."""
    for text in ("The text", "Success"):
        found = message_failure(GssapiError(FIRST + number, text))
        told = "the received data is not the server's next message as it was sent (Kerberos says: The text)"
        assert (said(str(found)), found.passes, found.has_ended) == (told, False, False)
    assert str(message_failure(GssapiError(FIRST + 37))) == f"{CLOCKS} (Kerberos says: The text)"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (39756033, "the keytab /k has no keys of anna@R"),
        (FIRST + 213, "/k is no keytab"),
        (2, "the keytab /k cannot be read"),
    ],
)
def test_a_keytab_that_cannot_be_used(code: int, told: str) -> None:
    assert str(keytab_failure(GssapiError(code), KEYTAB)) == f"{told} (Kerberos says: The text)"


def test_a_process_has_one_login_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would change the login of clients that are at work in other threads."""
    fetched: list[KerberosLogin] = []

    def credentials(login: KerberosLogin) -> SimpleNamespace:
        fetched.append(login)
        return SimpleNamespace(lifetime=3600)

    monkeypatch.setattr(kerberos, "_module", lambda: SimpleNamespace(exceptions=SimpleNamespace(GSSError=OSError)))
    monkeypatch.setattr(kerberos, "_credentials", credentials)
    monkeypatch.setenv("KRB5CCNAME", "FILE:/of/the/user")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "")
    anna, bob = (KerberosLogin(principal=f"{name}@REALM", keytab=f"/k/{name}") for name in ("anna", "bob"))
    kerberos.keep_logged_in(anna)
    kerberos.keep_logged_in(anna)
    with pytest.raises(RefusedError, match="as bob@REALM: this process is logged in as anna@REALM, and all"):
        kerberos.keep_logged_in(bob)
    assert fetched == [anna, anna]
    assert os.environ["KRB5CCNAME"] == "MEMORY:acidlib anna@REALM /k/anna"
    assert os.environ["KRB5_CLIENT_KTNAME"] == "FILE:/k/anna"
