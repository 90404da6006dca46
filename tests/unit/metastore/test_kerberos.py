"""What is agreed on in a login with Kerberos, and where tickets are looked for; logins are tested at real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from acidlib.metastore.kerberos import KerberosFailure, Tickets, _cached, _chosen
from acidlib.metastore.options import KerberosLogin, Protection
from unit.metastore.test_ticket_cache import CACHE

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
    assert _chosen(offered, wanted) is chosen


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
        _chosen(offered, wanted)
    assert str(caught.value) == f"the server {told}"


def test_where_tickets_are_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "a:b"
    path.write_bytes(CACHE)
    for name in (str(path), f"FILE:{path}"):
        assert _cached(KerberosLogin(cache=name)) == Tickets("anna/admin@R", 1000)
    for name in (f"{path}x", f"DIR:{path}", "KEYRING:persistent:0", "KCM:"):
        assert _cached(KerberosLogin(cache=name)) is None
