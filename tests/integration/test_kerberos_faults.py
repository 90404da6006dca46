"""Connections to a real metastore with Kerberos that break, fall silent or change a bit at any byte.

Nobody on the way knows what is in a signed or encrypted message, so the faults are at bytes. Those over all other
transports are in `tests/unit/metastore/test_broken_connections.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faulty_wire import FAULTS, Fault, Way, What, Wire
from long_runs import in_a_long_run
from servers.kdc import Kdc
from servers.metastore import Metastore
from servers.settings import write_site

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import ConnectionOptions, KerberosLogin, Protection
from acidlib.metastore.transactions import TxnType
from acidlib.metastore.transport import SocketTransport
from integration.harness import AROUND
from integration.hive4_jobs import Service, check_told, settle
from integration.hive4_model import Lake
from integration.kerberos_logins import sasl

pytest.importorskip("gssapi", reason="tests/servers/gssapi.sh could not install it", exc_type=ImportError)
pytestmark = pytest.mark.live

PATIENT = ConnectionOptions(timeout_seconds=60, connect_timeout_seconds=60, attempts=3)
SHORT_SECONDS = 1
PROTECTED = (Protection.INTEGRITY, Protection.PRIVACY)


@pytest.fixture
def wire(with_kerberos: dict[Generation, Metastore]) -> Iterator[Wire]:
    with Wire(with_kerberos[Generation.HIVE4].port, host="localhost") as made:
        yield made


@pytest.fixture
def beside(hive4_metastore: Metastore) -> Iterator[Hms]:
    """Another way to the same transactions, by which is seen what was done."""
    with connect_hms([hive4_metastore.uri], PATIENT, user="tester", host="here", sleep=lambda _seconds: None) as hms:
        yield hms


def reach(wire: Wire, login: KerberosLogin, protection: Protection, options: ConnectionOptions = PATIENT) -> Hms:
    given = replace(options, sasl=sasl(login, protection))
    return connect_hms([wire.uri], given, user="tester", host="here", sleep=lambda _seconds: None)


def line_of(error: BaseException) -> str:
    line = str(error)
    assert line.isprintable(), line
    assert line.startswith("Cannot ")
    assert "keytab" not in line
    return line


def opened(hms: Hms) -> set[int]:
    return {txn.id for txn in hms.open_txns_info() if txn.state == "open"}


def break_at_calls(wire: Wire, hms: Hms, beside: Hms, fault: Fault) -> str:
    """At one that is repeated, at one that is the same twice, at one that must not be: what is told of that."""

    def breaks() -> None:
        hms.database_names()  # in an open connection
        wire.next(fault)

    breaks()
    assert "default" in hms.database_names()
    assert not wire.is_due
    txn = beside.open_txn(TxnType.DEFAULT, "faults")
    breaks()
    hms.abort_txn(txn, TxnType.DEFAULT)
    assert not wire.is_due
    before = opened(beside)
    assert txn not in before
    breaks()
    with pytest.raises(UnknownOutcomeError) as caught:
        hms.open_txn(TxnType.DEFAULT, "faults")
    assert not wire.is_due
    new = opened(beside) - before
    assert len(new) == (0 if fault.way is Way.UP else 1)
    for one in new:
        hms.abort_txn(one, TxnType.DEFAULT)
    return line_of(caught.value)


@pytest.mark.pairs
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("protection", Protection)
def test_a_connection_that_breaks_at_a_call(
    wire: Wire, beside: Hms, anna: KerberosLogin, protection: Protection, fault: Fault
) -> None:
    seconds = SHORT_SECONDS if fault.what is What.SILENCE else PATIENT.timeout_seconds
    with reach(wire, anna, protection, replace(PATIENT, timeout_seconds=seconds)) as hms:
        line = break_at_calls(wire, hms, beside, fault)
    if fault.what is What.SILENCE:
        assert f"there was no answer within {SHORT_SECONDS} s (metastore {wire.uri})" in line


@pytest.mark.parametrize("protection", PROTECTED)
def test_a_bit_that_changes_is_noticed(wire: Wire, beside: Hms, anna: KerberosLogin, protection: Protection) -> None:
    """In the head of a message, at its beginning, further on."""
    with reach(wire, anna, protection) as hms:
        for after in (4, 20, 40):
            line = break_at_calls(wire, hms, beside, Fault(What.FLIP, Way.DOWN, after))
            assert "the received data is not the server's next message as it was sent (Kerberos says: " in line
            break_at_calls(wire, hms, beside, Fault(What.FLIP, Way.UP, after))


def test_a_connection_that_breaks_while_it_is_made(wire: Wire, anna: KerberosLogin) -> None:
    """Anywhere in the login and in the first questions: it is no reason to refuse a server."""
    reach(wire, anna, Protection.INTEGRITY).close()
    lengths = {way: passed - 16 for way, passed in wire.passed.items()}
    told = set()
    for way, length in lengths.items():
        for after in {*range(6), *range(6, length, length // 12)}:
            wire.next(Fault(What.END if after % 2 else What.RESET, way, after))
            with pytest.raises(RetryError) as caught:
                reach(wire, anna, Protection.INTEGRITY, replace(PATIENT, attempts=1))
            line = line_of(caught.value)
            assert line.startswith(f"Cannot reach the metastore {wire.uri}: "), (way, after)
            told.add(line.partition(f"{wire.uri}: ")[2])
    # before the first answer, in the login, in the first questions
    for words in (" in the login (does the metastore ask for one, by SASL?)", " in the login", "TLS and SASL?)"):
        assert any(line.endswith(words) for line in told), told
    for after in (0, 3, 170, lengths[Way.DOWN]):
        wire.next(Fault(What.SILENCE, Way.DOWN, after))
        with pytest.raises(RetryError) as caught:
            reach(wire, anna, Protection.INTEGRITY, replace(PATIENT, attempts=1, connect_timeout_seconds=SHORT_SECONDS))
        assert f"there was no answer within {SHORT_SECONDS} s" in line_of(caught.value)
    wire.next(Fault(What.END, Way.DOWN, 100))
    assert "default" in reach(wire, anna, Protection.INTEGRITY).database_names()
    assert not wire.is_due


def test_a_bit_that_changes_in_the_login(wire: Wire, anna: KerberosLogin) -> None:
    """Nobody is let in by what was agreed on wrongly; where it does not matter, all is well."""
    options = replace(PATIENT, connect_timeout_seconds=3, attempts=1)
    given = replace(options, sasl=sasl(anna, Protection.PRIVACY))
    (endpoint,) = (hms := reach(wire, anna, Protection.PRIVACY))._endpoints
    hms.close()
    wire.passed.update(dict.fromkeys(Way, 0))
    SocketTransport(endpoint, given).close()
    refused = 0
    for way, length in dict(wire.passed).items():
        # not in what tells how long the first message is: nobody would come to its end
        for after in {0, *range(5, length - 32, length // 16), *range(length - 32, length, 5)}:
            wire.next(Fault(What.FLIP, way, after))
            try:
                reach(wire, anna, Protection.PRIVACY, options).close()
            except (RefusedError, RetryError) as error:
                line = line_of(error)
                assert ": " in line
                refused += isinstance(error, RefusedError)
            assert not wire.is_due
    assert refused > 20


def test_a_kdc_whose_connection_breaks(
    wire: Wire, realm: Kdc, anna: KerberosLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong with the keytab: it is asked again in a while."""
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    with Wire(realm.port) as to_kdc:
        text = realm.krb5_conf.read_text()
        (tmp_path / "krb5.conf").write_text(text.replace(f"127.0.0.1:{realm.port}", f"127.0.0.1:{to_kdc.port}"))
        for fault in (*FAULTS.values(), Fault(What.END, Way.UP, 500), Fault(What.END, Way.DOWN, 500)):
            if fault.what is What.SILENCE:
                continue  # how long is waited then is Kerberos' own
            for attempts in (1, 2):
                # another name of the same file, for which no tickets were fetched yet
                keytab = tmp_path / f"keytab {to_kdc.connections} {attempts}"
                keytab.symlink_to(anna.keytab or "")
                to_kdc.next(fault)
                options = replace(PATIENT, attempts=attempts)
                fresh = replace(anna, keytab=str(keytab))
                if attempts == 2:
                    reach(wire, fresh, Protection.INTEGRITY, options).close()
                    continue
                with pytest.raises(RetryError) as caught:
                    reach(wire, fresh, Protection.INTEGRITY, options)
                told = f"Cannot reach the metastore {wire.uri}: no KDC of the realm answers (Kerberos says: "
                assert line_of(caught.value).startswith(told)
                assert not to_kdc.is_due


@in_a_long_run
@pytest.mark.parametrize("way", Way)
def test_a_run_whose_connection_breaks_at_a_question(
    lake: Lake, service: Service, wire: Wire, realm: Kdc, anna: KerberosLogin, tmp_path: Path, way: Way
) -> None:
    """At each in turn, encrypted: what the run says is what is in the queue, and a later one sets all right."""
    asked = {
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": f"hive/_HOST@{realm.realm}",
        "hadoop.rpc.protection": "privacy",
    }
    write_site(tmp_path / "hive-site.xml", asked)
    outcomes: set[str] = set()
    for question in itertools.count(1, 2):
        made = lake.table(f"question_{question}")
        lake.request(made)
        wire.next(Fault(What.END, way, question=question))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HIVE_CONF_DIR", str(tmp_path))
            patch.setattr(AROUND, "login", anna)
            ran = service("major_compact", uri=wire.uri)
        check_told(ran, lake.states(made))
        with pytest.MonkeyPatch.context() as patch:
            settle(lake, service, made, patch)
        outcomes |= set(ran.states) if ran.begun else {"not begun"}
        if wire.is_due:
            break
    assert question > 20
    assert "ready for cleaning" in outcomes
    assert len(outcomes) > 1
