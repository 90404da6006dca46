"""A server of HTTP with something wrong with it: a door in front of one that works, which a test tells what to do."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_OF_ONE_CONNECTION = frozenset({"connection", "transfer-encoding", "keep-alive"})


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client asks for. ``path`` has no query; ``query`` has the rest of the line as it is."""

    method: str
    path: str
    query: str
    headers: Message
    body: bytes

    @property
    def line(self) -> str:
        """As in the first line."""
        return f"{self.method} {self.path}{'?' if self.query else ''}{self.query}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a client gets.

    cut      the first half of the body arrives, and then the connection ends; with status 0 nothing arrives at all
    stalled  the first half of the body arrives, and nothing more until the client goes
    reset    where the connection ends, it is by an error
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    stalled: bool = False
    reset: bool = False


Fault = Callable[[Request], Answer | None]
"""What is answered in place of the server; None where it is asked."""


class Door:
    """Passes requests on to a server, unless ``fault`` answers them. ``asked`` are those that came, by their lines."""

    def __init__(self, port: int) -> None:
        """Listens from now on, on a port of its own, in front of the server at a port of this machine."""
        self.fault: Fault | None = None
        self.asked: list[str] = []
        self._port = port
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("_Asked", (_Asked,), {"door": self}))
        self._http.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        """Answers."""
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Answers no more."""
        self._http.shutdown()
        self._http.server_close()

    @contextlib.contextmanager
    def at_fault(self, fault: Fault) -> Any:
        """Something is wrong for the length of a block."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""
        self.asked.append(request.line)
        found = None if self.fault is None else self.fault(request)
        return self.passed_on(request) if found is None else found

    def passed_on(self, request: Request) -> Answer:
        """What the server answers."""
        server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        with contextlib.closing(server):
            target = request.line.partition(" ")[2]
            server.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() not in ("expect", "connection", "transfer-encoding", "content-length"):
                    server.putheader(name, value)
            if request.body or request.method in ("POST", "PUT"):
                server.putheader("Content-Length", str(len(request.body)))
            server.endheaders(request.body or None)
            found = server.getresponse()
            headers = tuple(item for item in found.getheaders() if item[0].lower() not in _OF_ONE_CONNECTION)
            return Answer(status=found.status, body=found.read(), headers=headers)


class _Asked(BaseHTTPRequestHandler):
    """One connection to a door."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or clients wait for 40 ms
    door: Door

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def handle_one_request(self) -> None:
        """As the class above, for any method."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = self._chunks() if chunked else self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        request = Request(method=self.command, path=path, query=query, headers=self.headers, body=body)
        self._say(self.door.answer(request))

    def _chunks(self) -> bytes:
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def _say(self, answer: Answer) -> None:
        if not answer.status:
            self._hang_up(answer)
            return
        known = {name.lower() for name, _ in answer.headers}
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if "content-length" not in known and answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        sent = b"" if self.command == "HEAD" else answer.body
        self.wfile.write(sent[: len(sent) // 2] if answer.cut or answer.stalled else sent)
        if answer.stalled:
            self.rfile.read(1)
        if answer.cut or answer.stalled:
            self._hang_up(answer)

    def _hang_up(self, answer: Answer) -> None:
        self.close_connection = True
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            with contextlib.suppress(OSError):  # the client has gone before
                self.connection.shutdown(socket.SHUT_RDWR)


def when(pattern: str, answer: Answer, *, times: int = 1 << 30, skip: int = 0) -> Fault:
    """A fault: requests whose line matches are answered so: so many times, after some that are not."""
    seen = 0

    def fault(request: Request) -> Answer | None:
        nonlocal seen
        if not re.search(pattern, request.line):
            return None
        seen += 1
        return answer if skip < seen <= skip + times else None

    return fault
