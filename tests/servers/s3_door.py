"""A server of S3 with something wrong with it: a door in front of one that works, which a test tells what to do."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from servers.s3 import S3Server

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
    """What a client gets. Of a ``cut`` one the first half of the body arrives, and then the connection ends.

    With status 0 nothing arrives at all.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False


Fault = Callable[[Request], Answer | None]
"""What is answered in place of the server; None where it is asked."""


class Door:
    """Passes requests on to a server, unless ``fault`` answers them. ``asked`` are those that came, by their lines."""

    def __init__(self, server: S3Server) -> None:
        """Listens from now on, on a port of its own."""
        self.fault: Fault | None = None
        self.asked: list[str] = []
        self._server = server
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
        server = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        with contextlib.closing(server):
            target = request.line.partition(" ")[2]
            server.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() not in ("expect", "connection"):
                    server.putheader(name, value)
            server.endheaders(request.body or None)
            found = server.getresponse()
            headers = tuple(item for item in found.getheaders() if item[0].lower() not in _OF_ONE_CONNECTION)
            return Answer(status=found.status, body=found.read(), headers=headers)

    def without_conditions(self, request: Request) -> Answer | None:
        """A fault: the conditions of requests are ignored."""
        if not {"if-match", "if-none-match"} & {name.lower() for name in request.headers}:
            return None
        client = self._server.client()
        bucket, _, key = request.path[1:].partition("/")
        if request.method == "PUT":
            found = client.put_object(Bucket=bucket, Key=key, Body=request.body)
            return Answer(status=200, headers=(("ETag", found["ETag"]),))
        if request.method == "POST" and "uploadId=" in request.query:
            upload = re.sub(r".*uploadId=([^&]*).*", r"\1", request.query)
            said = (re.findall(rf"<{name}>(.*?)</{name}>", request.body.decode()) for name in ("PartNumber", "ETag"))
            parts = [{"PartNumber": int(number), "ETag": tag} for number, tag in zip(*said, strict=True)]
            client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
            return Answer(
                status=200, body=b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
            )
        return None


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
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        request = Request(method=self.command, path=path, query=query, headers=self.headers, body=body)
        self._say(self.door.answer(request))

    def _say(self, answer: Answer) -> None:
        if not answer.status:
            self.close_connection = True
            return
        known = {name.lower() for name, _ in answer.headers}
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if "content-length" not in known and answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        sent = b"" if self.command == "HEAD" else answer.body
        self.wfile.write(sent[: len(sent) // 2] if answer.cut else sent)
        if answer.cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


def refusal(status: int, code: str, message: str = "") -> Answer:
    """An error as S3 puts it."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status=status, body=body.encode(), headers=(("Content-Type", "application/xml"),))
