"""The login before the first message, against a server of a few lines."""

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

from acidlib.errors import RefusedError
from acidlib.metastore.options import ConnectionOptions, Endpoint, SaslOptions
from acidlib.metastore.transport import ConnectionLost, Transport

START, OK, BAD, COMPLETE = 1, 2, 3, 5


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
        self.connection.sendall(struct.pack(">BI", status, len(text)) + text)

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


def link(endpoint: Endpoint, **given: str | None) -> Transport:
    sasl = SaslOptions(**({"mechanism": "PLAIN", "username": "joe", "password": "pass"} | given))  # type: ignore[arg-type] # tests name the fields
    return Transport(endpoint, ConnectionOptions(connect_timeout_seconds=2, sasl=sasl))


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


def test_a_login_that_is_refused() -> None:
    def behave(peer: Peer) -> None:
        peer.negotiation()
        peer.negotiation()
        peer.tell(BAD, "wrong\n\tpässword\x1b ".encode() + b"!" * 1000)

    with serving(behave) as endpoint, pytest.raises(RefusedError) as caught:
        link(endpoint)
    told = f"wrong pässword {'!' * 182}..."
    assert str(caught.value) == f"Cannot log in to the metastore {endpoint.uri}: because {told}"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request", b"\x05\xff\xff\xff\xff"])
def test_a_server_that_knows_no_logins(answer: bytes) -> None:
    def behave(peer: Peer) -> None:
        peer.negotiation()
        peer.connection.sendall(answer)
        peer.negotiation()

    with serving(behave) as endpoint, pytest.raises(RefusedError, match=r"because the server does not speak SASL$"):
        link(endpoint)


def test_a_server_that_closes_the_connection_instead() -> None:
    def behave(peer: Peer) -> None:
        peer.negotiation()
        peer.negotiation()

    told = r"^the server closed the connection in the login \(does the metastore ask for one, by SASL\?\)$"
    with serving(behave) as endpoint, pytest.raises(ConnectionLost, match=told):
        link(endpoint)


def test_a_server_that_closes_the_connection_in_the_middle_of_a_login() -> None:
    """It asks for one: that need not be asked."""

    def behave(peer: Peer) -> None:
        peer.negotiation()
        peer.negotiation()
        peer.connection.sendall(struct.pack(">BI", BAD, 100) + b"half")

    told = r"^the server closed the connection in the login$"
    with serving(behave) as endpoint, pytest.raises(ConnectionLost, match=told):
        link(endpoint)


def test_a_server_that_never_ends_a_login() -> None:
    def behave(peer: Peer) -> None:
        peer.negotiation()
        with suppress(OSError):
            for _ in range(100):
                peer.negotiation()
                peer.tell(OK)

    told = r"because the server goes on with a login that is finished$"
    with serving(behave) as endpoint, pytest.raises(RefusedError, match=told):
        link(endpoint)


def test_what_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def use(**given: str | None) -> str:
        with serving(lambda peer: None) as endpoint, pytest.raises(RefusedError) as caught:
            link(endpoint, **given)
        return str(caught.value)

    monkeypatch.setitem(sys.modules, "gssapi", None)
    assert re.fullmatch(
        "Cannot log in to the metastore with Kerberos: because the module gssapi cannot be loaded: .*gssapi.*; "
        r"pip install 'acidlib\[kerberos\]' brings it, where a compiler and the headers of Kerberos are installed",
        use(mechanism="GSSAPI"),
    )
    missing = str(tmp_path / "missing")
    assert f"the password file {missing} cannot be read" in use(password=None, password_file=missing)
