"""Reaching real metastores: failover, restarts, what is no metastore, framed transport, TLS, a login."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from credential_store import PROVIDERS, credential_store
from long_runs import amount, in_a_long_run
from servers.fleet import Servers
from servers.ldap import PEOPLE, Directory
from servers.metastore import Metastore
from servers.process import free_port

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError, RetryError
from acidlib.execute.spark import hadoop_in_jvm
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import ConnectionOptions, TlsOptions, options_from_settings
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from acidlib.stores.hadoop import JavaSecrets
from integration.hive3_tables import Gate
from integration.keystore import keystore
from integration.metastore_writes import FULL_ACID, NewTable, Writes

pytestmark = pytest.mark.live

HIVE3_AND_4 = pytest.mark.parametrize("generation", list(Generation), ids=str)
# servers with settings of their own: the client is the same for both
FRAMED = amount([Generation.HIVE4], long=list(Generation))
SECURE = pytest.mark.parametrize("generation", amount([Generation.HIVE4], long=list(Generation)), ids=str)
TWICE = ConnectionOptions(connect_timeout_seconds=60, attempts=2)
HINT = r"\(is it a metastore, with the same settings of framed transport, TLS and SASL\?\)"


@pytest.fixture
def metastore(request: pytest.FixtureRequest, generation: Generation) -> Metastore:
    found = request.getfixturevalue(f"hive{generation.value}_metastore")
    assert isinstance(found, Metastore)
    return found


def reach(uri: str, options: ConnectionOptions = TWICE, *more: str) -> Hms:
    return connect_hms([uri, *more], options, user="tester", host="here", sleep=lambda _seconds: None)


def works(hms: Hms) -> bool:
    """A call through each of the two Thrift libraries, and a transaction."""
    with hms:
        assert hms.database("default") is not None
        assert "default" in hms.database_names()
        txn_id = hms.open_txn(TxnType.DEFAULT, "transport test")
        hms.heartbeat(txn_id=txn_id)
        hms.abort_txn(txn_id, TxnType.DEFAULT)
    return True


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does something with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def loop() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield f"thrift://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@HIVE3_AND_4
def test_failover_to_the_second_uri(metastore: Metastore) -> None:
    nobody = f"thrift://127.0.0.1:{free_port()}"
    with reach(f"{nobody},{metastore.uri}") as hms:
        assert hms.uri == metastore.uri
        assert "default" in hms.database_names()
    with listening(lambda connection: connection.close()) as closing, reach(closing, TWICE, metastore.uri) as hms:
        assert hms.uri == metastore.uri


@pytest.fixture
def gate(metastore: Metastore) -> Iterator[Gate]:
    """The way to it, which is closed and opened in place of a restart: a client sees the same."""
    made = Gate(metastore.uri)
    yield made
    made.cut()


@HIVE3_AND_4
def test_a_restart_between_two_calls_is_not_noticed(gate: Gate) -> None:
    with reach(gate.uri) as hms:
        first = hms.open_txn(TxnType.DEFAULT, "transport test")
        gate.restart()
        # never repeated once sent: so the end of the connection has to be seen before
        second = hms.open_txn(TxnType.DEFAULT, "transport test")
        assert second > first
        gate.restart()
        hms.heartbeat(txn_id=first)
        for txn_id in (first, second):
            hms.abort_txn(txn_id, TxnType.DEFAULT)


@HIVE3_AND_4
def test_a_metastore_that_is_gone(gate: Gate) -> None:
    with reach(gate.uri) as hms:
        gate.cut()
        with pytest.raises(RetryError, match=rf"^Cannot reach the metastore {gate.uri}: "):
            hms.database_names()
        with pytest.raises(RetryError, match=rf"^Cannot reach the metastore {gate.uri}: "):
            hms.open_txn(TxnType.DEFAULT, "transport test")
        gate.open()
        assert "default" in hms.database_names()


def test_another_generation_is_not_failed_over_to(hive3_metastore: Metastore, hive4_metastore: Metastore) -> None:
    with reach(hive4_metastore.uri, TWICE, hive3_metastore.uri) as hms:
        hms._move_on()
        assert hms.uri == hive3_metastore.uri
        # the first one still answers
        assert "default" in hms.database_names()
        assert hms.uri == hive4_metastore.uri
        assert hms.calls is Generation.HIVE4


def test_a_wrong_port() -> None:
    uris = [f"thrift://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(RetryError) as caught:
        reach(",".join(uris))
    assert str(caught.value) == (
        f"Cannot reach the metastore {uris[0]}, {uris[1]}: {uris[0]}: connection refused; {uris[1]}: connection refused"
    )
    with pytest.raises(RetryError, match=r"^Cannot reach the metastore thrift://nohost.invalid:9083: "):
        reach("thrift://nohost.invalid")


def test_an_http_server_is_no_metastore() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[method-assign] # it writes to the terminal
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    uri = f"thrift://127.0.0.1:{server.server_port}"
    try:
        for framed in (False, True):
            # it waits for the end of a line, or answers with a text
            with pytest.raises((RefusedError, RetryError), match=rf"^Cannot (use|reach the metastore) {uri}: "):
                reach(uri, ConnectionOptions(connect_timeout_seconds=1, framed=framed, attempts=1))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_server_that_answers_with_text_is_no_metastore() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(answer) as uri:
        for framed in (False, True):
            with pytest.raises(RefusedError if not framed else RetryError, match=rf"{uri}: "):
                reach(uri, ConnectionOptions(connect_timeout_seconds=60, attempts=1, framed=framed))


def test_a_server_that_closes_the_connection() -> None:
    with (
        listening(lambda connection: connection.close()) as uri,
        pytest.raises(RetryError, match=rf"^Cannot reach the metastore {uri}: .* {HINT}$"),
    ):
        reach(uri)


def test_postgresql_is_no_metastore(hive4_metastore: Metastore) -> None:
    port = hive4_metastore.database_url.rpartition(":")[2].partition("/")[0]
    with pytest.raises((RefusedError, RetryError), match=rf"thrift://127.0.0.1:{port}: "):
        reach(f"thrift://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def framed_metastores(servers: Servers) -> Iterator[dict[Generation, Metastore]]:
    setting = {"hive.metastore.thrift.framed.transport.enabled": "true"}
    with ExitStack() as stack:
        yield {one: stack.enter_context(servers.metastore(one, properties=setting)) for one in FRAMED}


@pytest.mark.parametrize("generation", FRAMED, ids=str)
def test_framed_transport(framed_metastores: dict[Generation, Metastore], generation: Generation) -> None:
    metastore = framed_metastores[generation]
    assert works(reach(metastore.uri, ConnectionOptions(framed=True)))
    # one frame each way of more than any buffer
    with reach(metastore.uri, ConnectionOptions(framed=True)) as hms:
        names = [TableRef("default", f"{'long' * 30}{number}") for number in range(100)]
        assert len(hms.valid_write_ids(names, hms.open_txns())) == 100


@pytest.mark.parametrize("generation", FRAMED, ids=str)
def test_a_buffered_client_at_a_framed_server(
    framed_metastores: dict[Generation, Metastore], generation: Generation
) -> None:
    uri = framed_metastores[generation].uri
    with pytest.raises(RetryError, match=rf"^Cannot reach the metastore {uri}: .* {HINT}$"):
        reach(uri)


@HIVE3_AND_4
def test_a_framed_client_at_a_buffered_server(metastore: Metastore) -> None:
    with pytest.raises(RetryError, match=rf"^Cannot reach the metastore {metastore.uri}: .* {HINT}$"):
        reach(metastore.uri, ConnectionOptions(connect_timeout_seconds=2, framed=True, attempts=1))


@SECURE
def test_tls(servers: Servers, tmp_path: Path, generation: Generation) -> None:
    store = keystore(tmp_path)
    properties = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(store),
        "hive.metastore.keystore.password": "changeit",
    }
    trusted = TlsOptions(ca_file=str(store.with_name("ca.pem")))
    with servers.metastore(generation, properties=properties) as metastore:
        assert works(reach(metastore.uri, ConnectionOptions(tls=trusted)))
        gate = Gate(metastore.uri)
        with reach(gate.uri, ConnectionOptions(tls=trusted)) as hms:
            gate.restart()  # the end of a connection is seen through TLS as well
            hms.abort_txn(hms.open_txn(TxnType.DEFAULT, "transport test"), TxnType.DEFAULT)
        gate.cut()
        with pytest.raises(RefusedError, match=rf"^Cannot trust the metastore {metastore.uri}: its certificate"):
            reach(metastore.uri, ConnectionOptions(tls=TlsOptions()))
        wrong_name = f"thrift://localhost:{metastore.port}"
        with pytest.raises(RefusedError, match=rf"^Cannot trust the metastore {wrong_name}: .*localhost"):
            reach(wrong_name, ConnectionOptions(tls=trusted))
        with pytest.raises(RefusedError, match=rf"^Cannot use {metastore.uri}: .* {HINT}$"):
            reach(metastore.uri)


@pytest.mark.parametrize("generation", [Generation.HIVE4], ids=str)
def test_tls_at_a_server_without(metastore: Metastore) -> None:
    with pytest.raises(RetryError, match=rf"^Cannot reach the metastore {metastore.uri}: TLS could not be"):
        reach(metastore.uri, ConnectionOptions(tls=TlsOptions(), connect_timeout_seconds=3, attempts=1))


def test_a_login_with_a_password_over_tls(servers: Servers, tmp_path: Path) -> None:
    """By the settings of Hive's client: the password is in a credential provider, the certificates in a truststore."""
    store = keystore(tmp_path)
    tls = {"metastore.use.SSL": "true"}
    properties = tls | {
        "metastore.keystore.path": str(store),
        "metastore.keystore.password": "changeit",
        "metastore.authentication": "CONFIG",
        "metastore.authentication.config.username": "joe",
        "metastore.authentication.config.password": "secret word",
        "metastore.execute.setugi": "false",
    }
    login = {"metastore.client.auth.mode": "PLAIN", "metastore.client.plain.username": "joe"}
    trusting = tls | {"metastore.truststore.path": str(store)}
    password_file = tmp_path / "password"
    password_file.write_text("secret word\n")

    def options(passwords: dict[str, str], settings: dict[str, str]) -> ConnectionOptions:
        file = tmp_path / "passwords.jceks"
        file.unlink(missing_ok=True)
        secrets = JavaSecrets(hadoop_in_jvm, {PROVIDERS: credential_store(file, passwords)})
        found = options_from_settings(settings, secrets=secrets)
        assert not any(password in repr(found) for password in passwords.values())
        return found

    truststore = {"metastore.truststore.password": "changeit"}
    with servers.metastore(Generation.HIVE4, properties=properties) as metastore:
        assert works(reach(metastore.uri, options({"joe": "secret word"} | truststore, login | trusting)))
        by_files = {"acidlib.metastore.password.file": str(password_file)}
        by_files["acidlib.metastore.ca.file"] = str(store.with_name("ca.pem"))
        assert works(reach(metastore.uri, options_from_settings(login | tls | by_files, secrets=JavaSecrets())))
        with pytest.raises(RefusedError, match=rf"^Cannot log in to the metastore {metastore.uri}: ") as caught:
            reach(metastore.uri, options({"joe": "guess"} | truststore, login | trusting))
        assert "guess" not in str(caught.value)
        with pytest.raises((RefusedError, RetryError)):
            reach(metastore.uri, options_from_settings(tls | by_files, secrets=JavaSecrets()))


@in_a_long_run
def test_a_login_with_a_password_of_a_directory(servers: Servers, hive4_metastore: Metastore, tmp_path: Path) -> None:
    """LDAP: to a client it is a login with a password like any other."""
    password_file = tmp_path / "password"
    settings = {
        "metastore.client.auth.mode": "PLAIN",
        "metastore.client.plain.username": "joe",
        "acidlib.metastore.password.file": str(password_file),
    }
    with Directory(tmp_path, {"joe": "secret word"}) as directory:
        asking = {
            "metastore.authentication": "LDAP",
            "metastore.authentication.ldap.url": directory.url,
            "metastore.authentication.ldap.baseDN": PEOPLE,
            "metastore.execute.setugi": "false",
        }
        with servers.metastore(Generation.HIVE4, beside=hive4_metastore, properties=asking) as metastore:

            def let_in(password: str, **others: str) -> bool:
                password_file.write_text(f"{password}\n")
                return works(reach(metastore.uri, options_from_settings(settings | others, secrets=JavaSecrets())))

            refused = rf"^Cannot log in to the metastore {metastore.uri}: Error validating the login$"
            assert let_in("secret word")
            for password, others in (
                ("guess", {}),
                ("", {}),
                ("secret word", {"metastore.client.plain.username": "jim"}),
            ):
                with pytest.raises(RefusedError, match=refused):
                    let_in(password, **others)
            directory.stop()  # the metastore does not tell that it cannot ask
            with pytest.raises(RefusedError, match=refused):
                let_in("secret word")
            directory.start()
            assert let_in("secret word")


@HIVE3_AND_4
def test_big_answers(metastore: Metastore) -> None:
    """More than one read of the network in each library: a table of 2,000 columns."""
    columns = [(f"column_{number}", f"struct<{'f' * 50}:string>") for number in range(2000)]
    writes = Writes(metastore.uri, metastore.generation.value)
    writes.database("transport")
    try:
        writes.table("transport", "wide", NewTable(columns=columns, properties=FULL_ACID))
        with reach(metastore.uri) as hms:
            table = hms.table(TableRef("transport", "wide"))
            assert table is not None
            assert [(column.name, column.type) for column in table.storage.columns] == columns
    finally:
        writes.drop_database("transport")
        writes.close()
