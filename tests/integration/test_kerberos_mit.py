"""The KDC of MIT in place of Hadoop's: who is let in, and what its refusals are told as.

ACIDLIB_TEST_KDC=mit has the other tests with a realm use it, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from long_runs import in_a_long_run
from servers.errors import ServerError
from servers.fleet import Servers
from servers.metastore import SERVICE, Metastore
from servers.mit_kdc import MitKdc

from acidlib.acid.names import Generation
from acidlib.metastore.options import KerberosLogin, Protection
from acidlib.metastore.transactions import TxnType
from integration.conftest import OFFERED
from integration.kerberos_logins import kinit, reach, refusal, sasl

pytest.importorskip("gssapi", reason="tests/servers/gssapi.sh could not install it", exc_type=ImportError)
pytestmark = [pytest.mark.live, in_a_long_run]
TICKET_SECONDS = 4
CLOCKS = "the clocks of this machine, of the KDC and of the metastore differ by too much; set them by NTP"


@pytest.fixture(scope="module")
def mit(servers: Servers) -> Iterator[MitKdc]:
    try:
        made = servers.mit_kdc(ticket_seconds=TICKET_SECONDS)
    except ServerError as error:
        pytest.skip(str(error))
    with made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(made.krb5_conf))
        patch.delenv("KRB5CCNAME", raising=False)
        yield made


@pytest.fixture(scope="module")
def asking(servers: Servers, mit: MitKdc, shared_hive4: Metastore) -> Iterator[Metastore]:
    offered = {"hadoop.rpc.protection": OFFERED}
    with servers.metastore(Generation.HIVE4, beside=shared_hive4, realm=mit, properties=offered) as made:
        yield made


def login(realm: MitKdc, name: str) -> KerberosLogin:
    return KerberosLogin(principal=f"{name}@{realm.realm}", keytab=str(realm.keytab(name)))


def test_who_is_let_in_and_for_how_long(
    mit: MitKdc, asking: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", "")
    anna = login(mit, "anna")
    for protection in Protection:
        with reach(asking.uri, sasl(anna, protection)) as hms:
            hms.abort_txn(hms.open_txn(TxnType.DEFAULT, "realm of MIT"), TxnType.DEFAULT)
    cached = kinit(anna, tmp_path / "cache")
    with reach(asking.uri, sasl(cached)) as hms:
        time.sleep(TICKET_SECONDS + 1)
        assert "default" in hms.database_names()
    told = refusal(asking.uri, sasl(cached))
    assert f"the ticket of {anna.principal} ended at " in told
    assert "default" in reach(asking.uri, sasl(anna)).database_names()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("cpw -randkey", "the keys of {0} in {1} are not those of the realm: have a new keytab made"),
        ("modprinc -pwexpire yesterday", "the password or key of {0} has expired: have a new one made"),
        ("modprinc -expire yesterday", "{0} is locked in the realm, or has expired there"),
        ("modprinc -allow_tix", "{0} is locked in the realm, or has expired there"),
        ("delprinc -force", "the realm knows no principal {0}"),
    ],
)
def test_what_the_realm_has_against_somebody(mit: MitKdc, asking: Metastore, query: str, told: str) -> None:
    bob = login(mit, "bob-" + query.split()[1].strip("-") + query.split()[0])
    mit.kadmin(query, (bob.principal or "").partition("@")[0])
    line = refusal(asking.uri, sasl(bob))
    expected = told.format(bob.principal, bob.keytab)
    assert line.startswith(f"Cannot log in to the metastore {asking.uri}: {expected} (Kerberos says: ")


@pytest.mark.parametrize("ahead_seconds", [3600, -3600])
def test_a_clock_that_is_wrong(
    servers: Servers, asking: Metastore, monkeypatch: pytest.MonkeyPatch, ahead_seconds: int
) -> None:
    with servers.mit_kdc(ahead_seconds=ahead_seconds, user_clock=True) as realm:
        monkeypatch.setenv("KRB5_CONFIG", str(realm.krb5_conf))
        realm.keytab(SERVICE)
        line = refusal(asking.uri, sasl(login(realm, "clara")))
        assert line.startswith(f"Cannot log in to the metastore {asking.uri}: {CLOCKS} (Kerberos says: ")
