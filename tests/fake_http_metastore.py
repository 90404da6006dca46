"""The metastore of `fake_metastore` behind HTTP, and whatever else an HTTP server may answer."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from typing import BinaryIO

from fake_metastore import TYPES, FakeMetastore, Hangup
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TMemoryBuffer

from acidlib.acid.names import Generation


@dataclass(frozen=True)
class Post:
    """A request as it came."""

    line: str
    headers: Message


class FakeHttpMetastore(FakeMetastore):
    """`instead` are whole answers, each used once before the metastore's own: bytes, after which the end may follow.

    `more_headers` goes into each answer of the metastore, `posts` are all requests so far.
    """

    def __init__(self, generation: Generation = Generation.HIVE4, *, tls: ssl.SSLContext | None = None) -> None:
        self.instead: list[bytes] = []
        self.ends_after_instead = False
        self.more_headers = ""
        self.posts: list[Post] = []
        super().__init__(generation, tls=tls)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, suppress(OSError, Hangup):
            while line := stream.readline():
                response, ends = self._response(line, stream)
                connection.sendall(response)
                if ends:
                    return

    def _response(self, line: bytes, stream: BinaryIO) -> tuple[bytes, bool]:
        """An answer, and whether the connection ends behind it."""
        lines = []
        while (one := stream.readline()).strip():
            lines.append(one)
        if not one:
            raise Hangup
        headers = BytesParser().parsebytes(b"".join(lines))
        self.posts.append(Post(line.decode().strip(), headers))
        asked = stream.read(int(headers["Content-Length"]))
        if len(asked) < int(headers["Content-Length"]):
            raise Hangup
        if self.instead:
            given = self.instead.pop(0)
            # decided before it is sent: whoever has got it may have begun with the next connection
            ends = self.ends_after_instead and not self.instead
            self.ends_after_instead &= not ends
            return given, ends
        answer = TMemoryBuffer()
        protocol = TBinaryProtocol(answer)
        TProcessor(TYPES.Metastore, self).process(TBinaryProtocol(TMemoryBuffer(asked)), protocol)
        body = answer.getvalue()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\nContent-Length: {len(body)}\r\n"
        return f"{head}{self.more_headers}\r\n".encode() + body, False


def answer(status: str, body: str = "", *headers: str) -> bytes:
    """A whole answer of an HTTP server."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body.encode())}", "", body]
    return "\r\n".join(lines).encode()
