"""Messages after a SASL login and over HTTP: the sent bytes, and the error for each invalid answer."""

from __future__ import annotations

import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fake_http_metastore import FakeHttpMetastore, answer
from fake_metastore import TYPES

from acidlib.acid.names import Generation
from acidlib.errors import AcidError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore import connection
from acidlib.metastore import transport as http_transport
from acidlib.metastore.connection import MetastoreClient
from acidlib.metastore.kerberos import KerberosFailure
from acidlib.metastore.options import (
    ConnectionOptions,
    Endpoint,
    HttpOptions,
    KerberosLogin,
    SaslOptions,
    parse_endpoints,
)
from acidlib.metastore.transport import ConnectionLost, SocketTransport

START, OK, BAD, COMPLETE = 1, 2, 3, 5
NO_SASL = r"Cannot .*: the server does not speak SASL"


class Peer:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.connection.recv(size - len(data)) or self.gone()
        return data

    def gone(self) -> bytes:
        raise ConnectionResetError

    def negotiation(self) -> tuple[int, bytes]:
        status, length = struct.unpack(">BI", self.exactly(5))
        return status, self.exactly(length)

    def tell(self, status: int, text: bytes = b"") -> None:
        self.connection.sendall(negotiation(status, text))

    def frame(self) -> bytes:
        (length,) = struct.unpack(">I", self.exactly(4))
        return self.exactly(length)


@contextmanager
def serving(behave: Callable[[Peer], None]) -> Iterator[Endpoint]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                behave(Peer(connection))

        thread = threading.Thread(target=serve)
        thread.start()
        yield Endpoint(host="127.0.0.1", port=server.getsockname()[1])
        thread.join()


def link(endpoint: Endpoint, **given: str | None) -> SocketTransport:
    sasl = SaslOptions(**({"mechanism": "PLAIN", "username": "joe", "password": "pass"} | given))  # type: ignore[arg-type] # tests name the fields
    return SocketTransport(endpoint, ConnectionOptions(connect_timeout_seconds=60, sasl=sasl))


@pytest.mark.parametrize("from_file", [False, True])
def test_a_login_with_a_password_and_a_message(tmp_path: Path, from_file: bool) -> None:
    seen: list[object] = []

    def behave(peer: Peer) -> None:
        seen.extend([peer.negotiation(), peer.negotiation()])
        peer.tell(COMPLETE)
        seen.append(peer.frame())
        peer.connection.sendall(struct.pack(">I", 3) + b"abc" + struct.pack(">I", 2) + b"de")

    password_file = tmp_path / "password"
    password_file.write_text("geh€im\nmore\n", encoding="utf-8")
    given = {"password": None, "password_file": str(password_file)} if from_file else {"password": "geh€im"}
    with serving(behave) as endpoint:
        made = link(endpoint, **given)
        made.begin(2)
        made.write(b"he")
        made.write(b"llo")
        assert not made.sent
        made.flush()
        assert made.sent
        assert [made.read(2), made.read(10), made.read(10)] == [b"ab", b"c", b"de"]
        made.close()
    assert seen == [(START, b"PLAIN"), (OK, b"\0joe\0" + "geh€im".encode()), b"hello"]


def negotiation(status: int, text: bytes) -> bytes:
    return struct.pack(">BI", status, len(text)) + text


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        pytest.param(
            negotiation(BAD, "wrong\n\tpässword\x1b ".encode() + b"!" * 1000),
            RefusedError,
            r"Cannot log in to the metastore thrift://127\.0\.0\.1:\d+: wrong pässword !{182}\.\.\.",
            id="the login is refused",
        ),
        pytest.param(b"HTTP/1.1 400 Bad Request", RefusedError, NO_SASL, id="the server speaks HTTP"),
        pytest.param(b"\x05\xff\xff\xff\xff", RefusedError, NO_SASL, id="the answer is too long for one"),
        pytest.param(negotiation(9, b""), RefusedError, NO_SASL, id="the answer has no known status"),
        pytest.param(
            b"",
            ConnectionLost,
            r"the server closed the connection in the login \(does the metastore ask for one, by SASL\?\)",
            id="the connection is closed instead of an answer",
        ),
        # it demands a login: no other call is needed
        pytest.param(
            negotiation(BAD, b"x" * 100)[:9],
            ConnectionLost,
            "the server closed the connection in the login",
            id="the connection is closed in the middle of an answer",
        ),
    ],
)
def test_a_login_that_fails(answer: bytes, kind: type[Exception], told: str) -> None:
    def behave(peer: Peer) -> None:
        peer.negotiation()
        peer.negotiation()
        peer.connection.sendall(answer)

    with serving(behave) as endpoint, pytest.raises(kind) as caught:
        link(endpoint)
    assert re.fullmatch(told, str(caught.value))


def test_a_server_that_never_ends_a_login() -> None:
    def behave(peer: Peer) -> None:
        peer.negotiation()
        with suppress(OSError):
            for _ in range(100):
                peer.negotiation()
                peer.tell(OK)

    told = r"the server goes on with a login that is finished$"
    with serving(behave) as endpoint, pytest.raises(RefusedError, match=told):
        link(endpoint)


def test_what_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def use(**given: str | None) -> str:
        with serving(lambda peer: None) as endpoint, pytest.raises(RefusedError) as caught:
            link(endpoint, **given)
        return str(caught.value)

    monkeypatch.setitem(sys.modules, "gssapi", None)
    assert re.fullmatch(
        "Cannot log in to the metastore with Kerberos: the module gssapi cannot be loaded: .*gssapi.*; "
        r"pip install 'acidlib\[kerberos\]' installs it, if there are a compiler and the headers of Kerberos",
        use(mechanism="GSSAPI"),
    )
    missing = str(tmp_path / "missing")
    assert f"the password file {missing} cannot be read" in use(password=None, password_file=missing)
    assert "has a NUL" in use(username="joe\0anna")


ASKING = answer("401 Unauthorized", "", "WWW-Authenticate: Negotiate")
HINT = "(is it a metastore behind HTTP, with the same setting of TLS?)"


@pytest.fixture
def server() -> Iterator[FakeHttpMetastore]:
    with FakeHttpMetastore() as found:
        yield found


def client(uri: str, http: HttpOptions | None = None, *, attempts: int = 2) -> MetastoreClient:
    options = ConnectionOptions(
        timeout_seconds=60, connect_timeout_seconds=60, attempts=attempts, http=http or HttpOptions()
    )
    return MetastoreClient(parse_endpoints([uri]), options, user="joe", host="here", sleep=lambda _seconds: None)


def names(of: MetastoreClient) -> object:
    return of.call("list the databases", "get_all_databases")


def mark(of: MetastoreClient) -> object:
    return of.call("mark it", "mark_compacted", TYPES.CompactionInfoStruct(id=1))


def test_each_message_is_a_post_of_one_connection(server: FakeHttpMetastore) -> None:
    server.answers["get_all_databases"] = lambda: ["default"]
    server.more_headers = "Set-Cookie: session=abc; Path=/; HttpOnly\r\n"
    found = client(server.uri, HttpOptions(path="/a/b/*", headers=(("X-Tenant", "one"),)))
    assert names(found) == ["default"]
    assert server.connections == 1
    assert {post.line for post in server.posts} == {"POST /a/b/* HTTP/1.1"}
    first, last = server.posts[0].headers, server.posts[-1].headers
    assert (last["x-actor-username"], last["X-Tenant"]) == ("joe", "one")
    assert last["Content-Type"] == last["Accept"] == "application/x-thrift"
    assert (first["Cookie"], last["Cookie"], last["Authorization"]) == (None, "session=abc", None)
    # getVersion, get_database_req and the call: the header has the user's name, and no call sends it
    assert len(server.posts) == 3


def test_who_asks(server: FakeHttpMetastore) -> None:
    client(server.uri, HttpOptions(username="service"))
    assert server.posts[-1].headers["x-actor-username"] == "service"
    http = HttpOptions(token="a.b.c", username="service")
    client(server.uri, http)
    assert server.posts[-1].headers["Authorization"] == "Bearer a.b.c"
    assert server.posts[-1].headers["x-actor-username"] is None
    assert "a.b.c" not in repr(http)
    for name in ("j\u00f6", "a\r\nX: y"):
        with pytest.raises(
            RefusedError, match=r"^Cannot send the user's name to a metastore behind HTTP: no header can"
        ):
            client(server.uri, HttpOptions(username=name))


def test_kerberos_where_the_server_asks_for_it(server: FakeHttpMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["get_all_databases"] = list
    tickets = (f"Negotiate {number}" for number in range(10))
    monkeypatch.setattr(
        http_transport, "negotiate_header", lambda login, host: f"{next(tickets)} {login.principal} {host}"
    )
    found = client(server.uri, HttpOptions(login=KerberosLogin(principal="anna")))
    names(found)
    assert {post.headers["Authorization"] for post in server.posts} == {None}
    server.instead = [ASKING]
    del server.posts[:]
    names(found)
    names(found)
    told = [post.headers["Authorization"] for post in server.posts]
    assert told == [None, "Negotiate 0 anna 127.0.0.1", "Negotiate 1 anna 127.0.0.1"]
    # it asks again: it has not liked the ticket
    server.instead = [ASKING, ASKING]
    with pytest.raises(RefusedError, match=r"it does not let us in: 401 Unauthorized$"):
        client(server.uri, HttpOptions(login=KerberosLogin()), attempts=1)


@pytest.mark.parametrize(("passes", "kind"), [(False, RefusedError), (True, RetryError)])
def test_kerberos_that_fails(
    server: FakeHttpMetastore, monkeypatch: pytest.MonkeyPatch, passes: bool, kind: type[AcidError]
) -> None:
    def fail(login: KerberosLogin, host: str) -> str:
        raise KerberosFailure("there is no ticket", passes=passes)

    monkeypatch.setattr(http_transport, "negotiate_header", fail)
    for login, told in ((KerberosLogin(), "there is no ticket"), (None, "it does not let us in: 401 Unauthorized")):
        server.instead = [ASKING]
        with pytest.raises(kind if login else RefusedError, match=rf".*{told}"):
            client(server.uri, HttpOptions(login=login), attempts=1)


def test_a_cookie_that_ends_is_not_sent_back(server: FakeHttpMetastore) -> None:
    server.answers["get_all_databases"] = list
    server.more_headers = "Set-Cookie: session=abc\r\n"
    found = client(server.uri)
    server.more_headers = "Set-Cookie: session=; Max-Age=0\r\n"
    names(found)
    names(found)
    assert server.posts[-2].headers["Cookie"] == "session=abc"
    assert server.posts[-1].headers["Cookie"] is None


def test_a_server_that_ends_each_connection(server: FakeHttpMetastore) -> None:
    server.answers["get_all_databases"] = lambda: ["default"]
    server.more_headers = "Connection: close\r\n"
    found = client(server.uri)
    assert names(found) == ["default"]
    # the generation of the server is not asked for again
    assert len(server.posts) == server.connections == 3


def test_a_connection_that_ended_while_idle_is_made_anew(server: FakeHttpMetastore) -> None:
    server.answers["mark_compacted"] = lambda info: None
    found = client(server.uri)
    server.hang_up()
    mark(found)
    assert server.calls == ["mark_compacted"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            answer("404 Not Found", "<html>no</html>", "Content-Type: text/html"),
            "there is no metastore at this path: 404 Not Found (metastore.client.thrift.http.path is /metastore/*)",
        ),
        (
            answer("405 Method Not Allowed"),
            "there is no metastore at this path: 405 Method Not Allowed (metastore.client.thrift.http.path is "
            "/metastore/*)",
        ),
        (
            answer("401 Unauthorized", "Authentication error: User header missing\n at java"),
            "it does not let us in: 401 Unauthorized: Authentication error: User header missing at java",
        ),
        (answer("403 Forbidden", "<html>", "Content-Type: text/html"), "it does not let us in: 403 Forbidden"),
        (
            answer("302 Found", "", "Location: https://login.example/?next=1"),
            "it redirects to https://login.example/, which is not followed: name that server itself",
        ),
        (answer("308 Gone Elsewhere"), "it redirects to elsewhere, which is not followed: name that server itself"),
    ],
)
def test_what_is_turned_away_is_refused_at_first_and_never_counts_as_sent(
    server: FakeHttpMetastore, given: bytes, told: str
) -> None:
    server.instead = [given]
    with pytest.raises(RefusedError) as caught:
        client(server.uri)
    assert str(caught.value) == f"Cannot use the metastore {server.uri}: {told}"
    # in the middle of a run: it was not executed, so it is repeated, even if it may not run twice
    server.answers["mark_compacted"] = lambda info: None
    found = client(server.uri)
    server.instead = [given]
    mark(found)
    assert server.calls == ["mark_compacted"]
    # a table is not refused because a token has expired
    server.instead = [given] * 9
    with pytest.raises(RetryError, match=r"^Cannot use the metastore "):
        mark(found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (answer("200 OK", "<html>", "Content-Type: text/html; charset=utf-8"), "it answers with text/html, not with "),
        (answer("200 OK", "{}", "Content-Type: application/json"), "it answers with application/json, not with "),
        (answer("200 OK", "nonsense", "Content-Type: application/x-thrift"), "the answer of getVersion cannot be read"),
        (answer("200 OK", "", "Content-Type: application/x-thrift"), "the answer is incomplete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the server does not speak HTTP"),
    ],
)
def test_what_is_no_metastore(server: FakeHttpMetastore, given: bytes, told: str) -> None:
    server.instead = [given]
    server.ends_after_instead = True
    with pytest.raises(RefusedError) as caught:
        client(server.uri)
    assert str(caught.value).startswith(f"Cannot use {server.uri}: {told}")
    assert str(caught.value).endswith(HINT)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (HEAD + b"Content-Length: 100\r\n\r\n\x80\x01\x00\x02", "the connection broke in the middle of an answer"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\n\x80\x01", "the connection broke in the middle of an answer"),
        (HEAD + b"Connection: close\r\n\r\n\x80\x01\x00\x02\x00", "the answer is incomplete"),
        (HEAD + b"Conte", "the answer is incomplete"),
        (b"", "the server closed the connection"),
        (answer("503 Service Unavailable", "later"), "the server answered 503 Service Unavailable: later"),
        (answer("500 Server Error", "<html>", "Content-Type: text/html"), "the server answered 500 Server Error"),
        (answer("200 OK", "<html>", "Content-Type: text/html"), "it answers with text/html, not with "),
    ],
)
def test_after_an_answer_that_breaks_nobody_knows(server: FakeHttpMetastore, given: bytes, told: str) -> None:
    server.answers["get_all_databases"] = lambda: ["default"]
    found = client(server.uri)

    def breaks() -> None:
        server.instead, server.ends_after_instead = [given], True

    breaks()
    with pytest.raises(UnknownOutcomeError, match=rf"^Cannot tell the outcome of an attempt to mark it: {told}"):
        mark(found)
    names(found)  # which opens the connection again
    breaks()
    assert names(found) == ["default"]
    server.answers["commit_txn"] = lambda request: None
    breaks()
    found.call("commit", "commit_txn", TYPES.CommitTxnRequest(txnid=1))


def test_an_http_uri_without_its_mode_is_refused() -> None:
    options = ConnectionOptions(attempts=1)
    with pytest.raises(RefusedError, match=r"^Cannot use the metastore URI https://h:1: .* is not http$"):
        MetastoreClient(parse_endpoints(["https://h:1"]), options, user="a", host="b", sleep=lambda _seconds: None)


def test_hmsclient_goes_over_http_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OF_HMSCLIENT", {"get_all_tables"})
    with FakeHttpMetastore(Generation.HIVE3) as server:
        found = client(server.uri)
        many = [f"database_{number}" for number in range(20_000)]
        server.answers["get_all_databases"] = lambda: many
        server.answers["get_all_tables"] = lambda database: [database, *many]
        assert found.call("list the tables", "get_all_tables", "ä") == ["ä", *many]
        assert names(found) == many
        assert server.connections == 1
