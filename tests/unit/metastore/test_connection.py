"""Calls to a metastore: which are repeated and which never, and the errors of failed calls."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType

import pytest
import thriftpy2
from fake_metastore import TYPES, FakeMetastore, Hangup, raises
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thriftpy2.thrift import TApplicationException

from acidlib.acid.names import Generation
from acidlib.errors import ConflictError, CorruptError, DefectError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore import connection
from acidlib.metastore.connection import Effect, MetastoreClient, effect_of, translated
from acidlib.metastore.options import ConnectionOptions, parse_endpoints

HINT = "(is it a metastore, with the same settings of framed transport, TLS and SASL?)"
PATIENT = ConnectionOptions(timeout_seconds=60, connect_timeout_seconds=60, attempts=3)


@pytest.fixture
def server() -> Iterator[FakeMetastore]:
    with FakeMetastore() as found:
        yield found


@pytest.fixture
def second() -> Iterator[FakeMetastore]:
    with FakeMetastore() as found:
        yield found


def client(*uris: str, options: ConnectionOptions = PATIENT, waits: list[float] | None = None) -> MetastoreClient:
    told = waits if waits is not None else []
    return MetastoreClient(parse_endpoints(uris), options, user="joe", host="here", sleep=told.append)


def hang_up() -> Callable[..., object]:
    return raises(Hangup())


def mark(of: MetastoreClient) -> object:
    """A call without an answer's value that must not be done twice."""
    return of.call("mark it", "mark_compacted", TYPES.CompactionInfoStruct(id=1))


def note(of: MetastoreClient) -> object:
    """One that may."""
    return of.call("mark it", "update_compactor_state", TYPES.CompactionInfoStruct(id=1), 7)


def names(of: MetastoreClient) -> object:
    return of.call("list the databases", "get_all_databases")


# ---- which server


def test_the_generation_is_what_the_server_answers_not_what_it_says() -> None:
    with FakeMetastore(Generation.HIVE4, version="3.1.3000.vendor") as server:
        found = client(server.uri)
        assert (found.calls, found.version) == (Generation.HIVE4, "3.1.3000.vendor")
    with FakeMetastore(Generation.HIVE3, version="4.9") as server:
        assert client(server.uri).calls is Generation.HIVE3


def test_any_answer_of_a_call_shows_that_the_server_has_it(server: FakeMetastore) -> None:
    for error in (TYPES.MetaException(message="no"), TYPES.NoSuchObjectException(message="no")):
        server.answers["get_database_req"] = raises(error)
        assert client(server.uri).calls is Generation.HIVE4


def test_a_server_with_neither_call_is_refused() -> None:
    with FakeMetastore(Generation.HIVE3, version="2.3.9") as server:
        del server.answers["get_valid_write_ids"]
        with pytest.raises(RefusedError, match=rf"^Cannot use {server.uri}: it is no metastore of Hive 3\.1 or"):
            client(server.uri)


def test_a_server_that_fails_at_first_is_tried_again(server: FakeMetastore) -> None:
    works = server.answers["get_database_req"]
    assert callable(works)
    failure = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error\n\tat java")
    server.answers["get_database_req"] = [raises(failure), works]
    waits: list[float] = []
    assert client(server.uri, waits=waits).calls is Generation.HIVE4
    assert waits == [1]
    server.answers["get_database_req"] = raises(failure)
    with pytest.raises(RetryError, match=rf"^Cannot reach the metastore {server.uri}: the server failed: Int"):
        client(server.uri)


def test_the_user_is_told_unless_it_is_not_wanted(server: FakeMetastore) -> None:
    told: list[object] = []
    server.answers["set_ugi"] = lambda user, groups: told.append((user, groups)) or []
    client(server.uri)
    client(server.uri, options=ConnectionOptions(set_user=False))
    assert told == [("joe", [])]
    server.answers["set_ugi"] = raises(TYPES.MetaException(message="not wanted"))
    server.answers["getVersion"] = raises(TApplicationException(TApplicationException.INTERNAL_ERROR, "no"))
    assert client(server.uri).version == ""


# ---- failover


def test_the_first_that_answers_is_used(server: FakeMetastore) -> None:
    with FakeMetastore() as gone:
        nobody = gone.uri
    found = client(nobody, server.uri)
    assert found.uri == server.uri
    with pytest.raises(RetryError) as caught:
        client(nobody)
    assert str(caught.value) == f"Cannot reach the metastore {nobody}: connection refused"


def test_a_call_goes_on_with_the_next_metastore(server: FakeMetastore, second: FakeMetastore) -> None:
    found = client(server.uri, second.uri)
    server.answers["get_all_databases"] = hang_up()
    second.answers["get_all_databases"] = lambda: ["a"]
    assert names(found) == ["a"]
    assert found.uri == second.uri
    assert server.calls == second.calls == ["get_all_databases"]
    assert names(found) == ["a"]
    assert server.calls == ["get_all_databases"]


def test_a_metastore_of_another_generation_is_no_replacement(server: FakeMetastore) -> None:
    with FakeMetastore(Generation.HIVE3) as other:
        other.answers["get_all_databases"] = lambda: ["wrong"]
        found = client(server.uri, other.uri)
        server.answers["get_all_databases"] = [hang_up(), lambda: ["a"]]
        assert names(found) == ["a"]
        assert "get_all_databases" not in other.calls
        server.answers["get_all_databases"] = hang_up()
        with pytest.raises(RetryError, match=r"^Cannot list the databases: the server closed the connection"):
            names(found)
        assert "get_all_databases" not in other.calls


def test_an_idle_connection_that_ended_is_opened_again_at_once(server: FakeMetastore, second: FakeMetastore) -> None:
    waits: list[float] = []
    found = client(server.uri, second.uri, waits=waits)
    server.answers["mark_compacted"] = lambda info: None
    mark(found)
    server.hang_up()
    mark(found)
    assert server.calls == ["mark_compacted", "mark_compacted"]
    assert server.connections == 2
    assert (second.connections, waits) == (0, [])


# ---- repeating


def test_a_read_is_repeated_with_growing_waits(server: FakeMetastore) -> None:
    waits: list[float] = []
    found = client(server.uri, options=ConnectionOptions(attempts=5), waits=waits)
    server.answers["get_all_databases"] = [hang_up(), hang_up(), hang_up(), lambda: ["a"]]
    assert names(found) == ["a"]
    assert waits == [1, 2, 4]
    assert server.calls == ["get_all_databases"] * 4


def test_a_read_is_given_up_after_the_attempts(server: FakeMetastore) -> None:
    found = client(server.uri)
    server.answers["get_all_databases"] = hang_up()
    with pytest.raises(RetryError) as caught:
        names(found)
    assert str(caught.value) == (
        f"Cannot list the databases: the server closed the connection (metastore {server.uri})"
    )
    assert len(server.calls) == 3


def test_what_has_an_effect_each_time_is_repeated_while_nothing_was_sent(server: FakeMetastore) -> None:
    server.answers["mark_compacted"] = lambda info: None
    with FakeMetastore() as gone:
        gone.answers["mark_compacted"] = lambda info: None
        found = client(gone.uri, server.uri)
        mark(found)
    assert mark(found) is None
    assert server.calls == ["mark_compacted"]
    found.close()
    assert mark(found) is None


def test_what_is_the_same_twice_has_an_unknown_outcome_when_no_answer_ever_comes() -> None:
    with FakeMetastore() as server:
        found = client(server.uri)
        server.answers["update_compactor_state"] = hang_up()
        with pytest.raises(UnknownOutcomeError, match=r"^Cannot tell the outcome of an attempt to mark it: the"):
            note(found)
    # nothing was sent: nothing is unknown
    with pytest.raises(RetryError, match=r"^Cannot reach the metastore"):
        note(found)


def test_a_transaction_that_is_unknown_after_a_lost_answer(server: FakeMetastore) -> None:
    unknown = raises(TYPES.NoSuchTxnException(message="No such transaction txnid:5"))
    request = TYPES.CommitTxnRequest(txnid=5)
    found = client(server.uri)
    server.answers["commit_txn"] = unknown
    with pytest.raises(ConflictError, match=r"^Cannot commit it: No such transaction txnid:5$"):
        found.call("commit it", "commit_txn", request)
    server.answers["commit_txn"] = [hang_up(), unknown]
    with pytest.raises(UnknownOutcomeError, match=r"the answer was lost, and now the transaction is unknown$"):
        found.call("commit it", "commit_txn", request)
    server.answers["commit_txn"] = [hang_up(), raises(TYPES.TxnAbortedException(message="aborted"))]
    with pytest.raises(ConflictError, match=r"aborted$"):
        found.call("commit it", "commit_txn", request)


def test_an_interrupted_call_does_not_leave_its_answer_to_the_next(server: FakeMetastore) -> None:
    found = client(server.uri)
    asked = threading.Event()
    server.answers["get_all_databases"] = [lambda: asked.set() or ["late"], lambda: ["right"]]
    connection = found._connected()
    real = connection.transport.read

    def interrupted(size: int) -> bytes:
        assert asked.wait(20)
        raise KeyboardInterrupt

    connection.transport.read = interrupted  # type: ignore[method-assign] # an interruption in the middle of a call
    with pytest.raises(KeyboardInterrupt):
        names(found)
    connection.transport.read = real  # type: ignore[method-assign] # as it was
    assert names(found) == ["right"]


# ---- exceptions of the server


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (TYPES.NoSuchTxnException(message="No such transaction txnid:7"), ConflictError, "No such transaction txnid:7"),
        (TYPES.TxnAbortedException(message="Transaction 7 aborted"), ConflictError, "Transaction 7 aborted"),
        (TYPES.NoSuchLockException(message="No such lock"), ConflictError, "No such lock"),
        (
            TYPES.MetaException(message="javax.jdo.JDOException: no database\n\tat org.apache\n"),
            RetryError,
            "the metastore URI says: no database",
        ),
        (TYPES.MetaException(message=None), RetryError, "the metastore URI says: MetaException"),
        (TYPES.InvalidObjectException(message="bad"), RefusedError, "bad"),
        (
            TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing it"),
            RetryError,
            "the metastore URI failed: Internal error processing it",
        ),
        (
            TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'x'"),
            RefusedError,
            "the metastore URI has no call get_all_databases",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_exceptions_of_the_server(error: Exception, kind: type[Exception], told: str) -> None:
    found = translated(error, action="do it", call="get_all_databases", uri="URI")
    assert isinstance(found, kind)
    assert str(found) == f"Cannot do it: {told}"


def test_an_exception_of_the_server_is_not_repeated(server: FakeMetastore) -> None:
    found = client(server.uri)
    server.answers["get_all_databases"] = raises(TYPES.MetaException(message="no"))
    with pytest.raises(RetryError, match=rf"^Cannot list the databases: the metastore {server.uri} says: no$"):
        names(found)
    assert (server.calls, server.connections) == (["get_all_databases"], 1)


def test_a_required_field_that_is_missing_deep_inside(server: FakeMetastore) -> None:
    good = TYPES.TxnInfo(id=1, state=3, user="u", hostname="h")
    bad = TYPES.TxnInfo(id=2, state=3, hostname="h")
    server.answers["get_open_txns_info"] = lambda: TYPES.GetOpenTxnsInfoResponse(open_txns=[good, bad])
    asking = client(server.uri)
    with pytest.raises(CorruptError, match=r"of get_open_txns_info: field open_txns\.user is missing$"):
        asking.call("read them", "get_open_txns_info")
    server.answers["get_all_databases"] = lambda: ["a"]
    assert names(asking) == ["a"]
    assert server.connections == 1
    found = TYPES.AbortCompactResponse(abortedcompacts={1: TYPES.AbortCompactionResponseElement(status="ok")})
    server.answers["abort_Compactions"] = lambda request: found
    with pytest.raises(CorruptError, match=r"field abortedcompacts\.compactionId is missing$"):
        client(server.uri).call("x", "abort_Compactions", TYPES.AbortCompactionRequest())


def test_an_answer_that_is_not_there_at_all(server: FakeMetastore) -> None:
    server.answers["get_all_databases"] = lambda: None
    with pytest.raises(CorruptError, match=r"^Cannot read the answer of get_all_databases: it is empty"):
        names(client(server.uri))


# ---- transports


def test_hmsclient_goes_over_the_same_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OF_HMSCLIENT", {"get_all_tables"})
    for framed in (False, True):
        with FakeMetastore(Generation.HIVE3, framed=framed) as server:
            many = [f"database_{number}_ü" for number in range(20_000)]
            server.answers["get_all_databases"] = lambda many=many: many
            server.answers["get_all_tables"] = lambda database, many=many: [database, *many]
            found = client(server.uri, options=ConnectionOptions(framed=framed, attempts=2))
            assert found.call("list the tables", "get_all_tables", "ä") == ["ä", *many]
            assert names(found) == many
            assert found.call("list the tables", "get_all_tables", "ä") == ["ä", *many]
            assert server.connections == 1
            server.answers["get_all_tables"] = [hang_up(), lambda database: ["a"]]
            assert found.call("list the tables", "get_all_tables", "ä") == ["a"]


def test_the_wrong_framing_is_told() -> None:
    with FakeMetastore(framed=True) as server, pytest.raises((RetryError, RefusedError)) as caught:
        client(server.uri, options=ConnectionOptions(connect_timeout_seconds=1, attempts=1))
    assert HINT in str(caught.value)


def serve_once(behave: Callable[[socket.socket], None]) -> tuple[socket.socket, threading.Thread]:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            behave(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    return server, thread


@pytest.mark.parametrize(
    ("answer", "framed", "kind", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, RefusedError, "cannot be read"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True, RetryError, "does not come in frames"),
        (struct.pack(">I", 3) + b"abc", True, RetryError, "closed the connection"),
        (b"", False, RetryError, "closed the connection"),
        (b"\x80\x01", False, RetryError, "closed the connection"),
        (b"\x80\x02\x00\x01more and more", False, RefusedError, "cannot be read"),
    ],
    ids=["http", "http framed", "short frame", "nothing", "half", "another version"],
)
def test_what_is_no_metastore(answer: bytes, framed: bool, kind: type[Exception], told: str) -> None:
    def behave(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(answer)

    server, thread = serve_once(behave)
    uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
    with server, pytest.raises(kind, match=told) as caught:
        client(uri, options=ConnectionOptions(connect_timeout_seconds=60, framed=framed, attempts=1))
    thread.join()
    assert HINT in str(caught.value)


# of the handshake, in which nothing is repeated by itself
HANDSHAKE = {"set_ugi", "getVersion"}


def test_every_call_has_a_rule() -> None:
    calls = set(TYPES.Metastore.thrift_services) - HANDSHAKE
    ruled = {*connection._READS, *connection._CHANGES}
    assert calls <= ruled
    assert not connection._READS & set(connection._CHANGES)
    assert ruled - calls == connection.OF_HMSCLIENT
    assert all(hasattr(ThriftHiveMetastore.Client, call) for call in connection.OF_HMSCLIENT)


def test_only_what_is_known_to_be_harmless_is_repeated() -> None:
    never = {call for call in TYPES.Metastore.thrift_services if call not in HANDSHAKE}
    never = {call for call in never if effect_of(call) is Effect.NOT_IDEMPOTENT}
    assert never == {
        *("open_txns", "lock", "compact2", "find_next_compact2", "add_write_ids_to_min_history", "abort_Compactions"),
        *("mark_compacted", "mark_cleaned", "mark_failed", "mark_refused", "alter_table_req"),
    }
    assert all(call.startswith(("get_", "show_", "fetch_")) for call in connection._READS)


def test_a_call_without_a_rule_is_a_defect() -> None:
    with pytest.raises(DefectError, match=r"^Cannot call drop_table: it is not known whether it may be repeated"):
        effect_of("drop_table")


def test_threads_that_connect_at_the_same_time_know_each_others_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interface is read once, also when the first callers come at the same time."""
    all_there, readings = threading.Barrier(4), []

    def read(_: object, name: str) -> ModuleType:
        readings.append(name)
        time.sleep(0.1)
        return ModuleType(name)

    def ask() -> ModuleType:
        all_there.wait(60)
        return connection.interface()

    monkeypatch.setattr(connection, "_interface", cache(connection._interface.__wrapped__))
    monkeypatch.setattr(thriftpy2, "load_fp", read)
    with ThreadPoolExecutor(4) as pool:
        answers = [future.result(60) for future in [pool.submit(ask) for _ in range(4)]]
    assert len(readings) == len(set(map(id, answers))) == 1
