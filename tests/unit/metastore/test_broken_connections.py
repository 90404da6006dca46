"""Connections that break, fall silent or change a bit at any byte, over every transport: repetitions and errors.

Those with Kerberos are in `tests/integration/test_kerberos_faults.py`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from certificates import certified
from fake_http_metastore import FakeHttpMetastore
from fake_metastore import TYPES, FakeMetastore
from faulty_wire import FAULTS, Fault, Way, What, Wire
from waits import until

from acidlib.errors import RetryError, UnknownOutcomeError
from acidlib.metastore.connection import MetastoreClient
from acidlib.metastore.options import ConnectionOptions, HttpOptions, SaslOptions, TlsOptions, parse_endpoints
from acidlib.metastore.transport import HttpTransport

MANY = [f"database_{number}" for number in range(100)]
PATIENT = ConnectionOptions(timeout_seconds=60, connect_timeout_seconds=60, attempts=3)
SHORT_SECONDS = 0.3


@dataclass(frozen=True)
class Secured:
    """A server's certificate, and the file that clients trust."""

    server: ssl.SSLContext
    trusted: Path


@dataclass(frozen=True)
class Over:
    """A transport."""

    name: str
    framed: bool = False
    password: bool = False
    tls: bool = False
    http: bool = False

    @contextmanager
    def served(self, secured: Secured) -> Iterator[tuple[FakeMetastore, Wire]]:
        """A metastore that speaks so, and the wire to it."""
        tls = secured.server if self.tls else None
        made = (
            FakeHttpMetastore(tls=tls)
            if self.http
            else FakeMetastore(framed=self.framed, password="secret" if self.password else None, tls=tls)
        )
        scheme = ("https" if self.tls else "http") if self.http else "thrift"
        with made as server, Wire(server.port, scheme=scheme) as wire:
            server.answers["get_all_databases"] = lambda: MANY
            server.answers["mark_compacted"] = lambda info: None
            server.answers["update_compactor_state"] = lambda info, txn: None
            yield server, wire

    def client(self, wire: Wire, secured: Secured, options: ConnectionOptions) -> MetastoreClient:
        """One that speaks so."""
        trusting = TlsOptions(ca_file=str(secured.trusted)) if self.tls else None
        sasl = SaslOptions(mechanism="PLAIN", username="joe", password="secret") if self.password else None
        http = HttpOptions(https=trusting or TlsOptions()) if self.http else None
        given = replace(options, framed=self.framed, tls=trusting, sasl=sasl, http=http)
        return MetastoreClient(parse_endpoints([wire.uri]), given, user="joe", host="here", sleep=lambda _seconds: None)


TRANSPORTS = (
    Over("plain"),
    Over("frames", framed=True),
    Over("password", password=True),
    Over("TLS", tls=True),
    Over("password over TLS", password=True, tls=True),
    Over("HTTP", http=True),
    Over("HTTPS", http=True, tls=True),
)
each_transport = pytest.mark.parametrize("over", TRANSPORTS, ids=lambda over: over.name)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(*certified(tmp_path_factory.mktemp("certificate")))


def line_of(error: BaseException) -> str:
    line = str(error)
    assert line.isprintable(), line
    assert line.startswith("Cannot ")
    return line


def wait_shortly_for_silence(found: MetastoreClient, wire: Wire) -> None:
    """The next answer is not waited for long once the wire is silent: what only takes a while, is no silence."""
    connection = found._connected()
    connection._timeout_seconds = SHORT_SECONDS
    transport = connection.transport
    reader, name = (transport._http, "getresponse") if isinstance(transport, HttpTransport) else (transport, "read")
    read = getattr(reader, name)

    def read_from_silence(*given: int) -> object:
        until(lambda: not wire.is_due)
        return read(*given)

    setattr(reader, name, read_from_silence)


@pytest.mark.pairs
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@each_transport
def test_a_connection_that_breaks_at_a_call(over: Over, fault: Fault, secured: Secured) -> None:
    info = TYPES.CompactionInfoStruct(id=1)
    with over.served(secured) as (server, wire):
        found = over.client(wire, secured, PATIENT)

        def breaks() -> None:
            server.calls.clear()
            wire.next(fault)
            if fault.what is What.SILENCE:
                wait_shortly_for_silence(found, wire)

        asked = 0 if fault.way is Way.UP else 1
        breaks()
        assert found.call("list the databases", "get_all_databases") == MANY
        assert len(server.calls) == asked + 1
        breaks()
        found.call("note it", "update_compactor_state", info, 7)
        assert len(server.calls) == asked + 1
        breaks()
        with pytest.raises(UnknownOutcomeError) as caught:
            found.call("mark it", "mark_compacted", info)
        line = line_of(caught.value)
        assert line.startswith("Cannot tell the outcome of an attempt to mark it: th")
        assert (f"there was no answer within {SHORT_SECONDS} s" in line) == (fault.what is What.SILENCE)
        assert not wire.is_due
        found.call("list the databases", "get_all_databases")
        assert server.calls == ["mark_compacted"] * asked + ["get_all_databases"]


@each_transport
@pytest.mark.parametrize("what", [What.END, What.RESET])
def test_a_connection_that_breaks_while_it_is_made(over: Over, what: What, secured: Secured) -> None:
    """Anywhere: in the handshake of TLS, in the login, in the first questions. It is no reason to refuse a server."""
    with over.served(secured) as (_, wire):
        over.client(wire, secured, PATIENT).close()
        # signatures and times have not always the same length
        lengths = {way: passed - 16 for way, passed in wire.passed.items()}
        for way, length in lengths.items():
            for after in {*range(6), *range(6, length, length // 12)}:
                wire.next(Fault(what, way, after))
                with pytest.raises(RetryError) as caught:
                    over.client(wire, secured, replace(PATIENT, attempts=1))
                line = line_of(caught.value)
                assert line.startswith(f"Cannot reach the metastore {wire.uri}: "), (way, after)
        wire.next(Fault(what, Way.DOWN, lengths[Way.DOWN] // 2))
        over.client(wire, secured, PATIENT).call("list the databases", "get_all_databases")
        assert not wire.is_due


@each_transport
def test_a_server_that_falls_silent_while_a_connection_is_made(over: Over, secured: Secured) -> None:
    with over.served(secured) as (_, wire):
        over.client(wire, secured, PATIENT).close()
        for after in (3, wire.passed[Way.DOWN] - 20):
            wire.next(Fault(What.SILENCE, Way.DOWN, after))
            with pytest.raises(RetryError) as caught:
                over.client(wire, secured, replace(PATIENT, connect_timeout_seconds=SHORT_SECONDS, attempts=1))
            assert line_of(caught.value).startswith(f"Cannot reach the metastore {wire.uri}: ")


@pytest.mark.parametrize("over", [over for over in TRANSPORTS if over.tls], ids=lambda over: over.name)
def test_a_bit_that_changes_is_noticed_by_tls(over: Over, secured: Secured) -> None:
    with over.served(secured) as (server, wire):
        found = over.client(wire, secured, PATIENT)
        for way in Way:
            for after in (6, 30):
                found.call("list the databases", "get_all_databases")  # in an open connection
                wire.next(Fault(What.FLIP, way, after))
                assert found.call("list the databases", "get_all_databases") == MANY
                wire.next(Fault(What.FLIP, way, after))
                with pytest.raises(UnknownOutcomeError) as caught:
                    found.call("mark it", "mark_compacted", TYPES.CompactionInfoStruct(id=1))
                line_of(caught.value)
                assert not wire.is_due
        assert server.calls.count("mark_compacted") == 2


@each_transport
def test_a_large_question_whose_sending_fails(over: Over, secured: Secured) -> None:
    """More than any buffer takes: here sending itself raises, when the server may have had enough of it."""
    large = TYPES.CompactionInfoStruct(id=1, errorMessage="x" * (16 << 20))
    with over.served(secured) as (server, wire):
        found = over.client(wire, secured, PATIENT)
        wire.next(Fault(What.END, Way.UP, 1 << 20))
        with pytest.raises(UnknownOutcomeError) as caught:
            found.call("mark it", "mark_compacted", large)
        assert line_of(caught.value).startswith("Cannot tell the outcome of an attempt to mark it: th")
        assert not wire.is_due
        found.call("mark it", "mark_compacted", TYPES.CompactionInfoStruct(id=1))
        assert server.calls == ["mark_compacted"]
