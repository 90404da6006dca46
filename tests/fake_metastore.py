"""A metastore in this process that answers, fails and falls silent as a test wants it to.

It speaks through thriftpy2's own server side and transports, so that ours are checked against others.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.protocol.cybin.cybin import ProtocolError
from thriftpy2.thrift import TApplicationException, TProcessor
from thriftpy2.transport import TBufferedTransport, TFramedTransport, TSocket, TTransportException

from acidlib.acid.names import Generation, Reader
from acidlib.metastore.connection import interface
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import CATALOG, ConnectionOptions

TYPES: Any = interface()
Answer = Callable[..., Any]


class Hangup(Exception):  # noqa: N818 - what a handler raises to end the connection without an answer
    """Ends the connection without an answer."""


_BAD, _COMPLETE = 3, 5  # of the SASL login


class FakeMetastore:
    """`answers` maps the name of a call to a function of its arguments; a call without one is unknown.

    A list of functions is used up one by one, the last of them for ever. `calls` are the names of all calls so far
    but those of the handshake. With `password` it asks for a login with it, by SASL's PLAIN; with `tls` it has a
    certificate.
    """

    def __init__(
        self,
        generation: Generation = Generation.HIVE4,
        *,
        framed: bool = False,
        version: str = "4.0.1",
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {
            "set_ugi": lambda user, groups: [user, *groups],
            "getVersion": lambda: version,
            "get_valid_write_ids": lambda request: TYPES.GetValidWriteIdsResponse(tblValidWriteIds=[]),
        }
        if generation is Generation.HIVE4:
            self.answers["get_database_req"] = lambda request: TYPES.Database(name=request.name, parameters={})
        self.calls: list[str] = []
        self.connections = 0
        self._framed = framed or password is not None
        self._password = password
        self._tls = tls
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def hang_up(self) -> None:
        """Ends all connections, as a restart does."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._meet, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _meet(self, connection: socket.socket) -> None:
        if self._tls is not None:
            plain = connection
            try:
                connection = self._tls.wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                return
            self._open.append(connection)
        self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        if self._password is not None and not self._logged_in(connection, self._password):
            connection.close()
            return
        link = TSocket(sock=connection)
        transport = (TFramedTransport if self._framed else TBufferedTransport)(link)
        protocol = TBinaryProtocol(transport)
        processor = TProcessor(TYPES.Metastore, self)
        # what is no message ends a connection, as at a real server
        with suppress(TTransportException, ProtocolError, OSError, Hangup):
            while True:
                processor.process(protocol, protocol)
        link.close()

    def _logged_in(self, connection: socket.socket, password: str) -> bool:
        with connection.makefile("rb", 0) as stream, suppress(OSError):
            said = []
            for _ in range(2):
                head = stream.read(5) or b""
                said.append(stream.read(struct.unpack(">BI", head)[1]) if len(head) == 5 else b"")
            good = said[0] == b"PLAIN" and (said[1] or b"").endswith(b"\0" + password.encode())
            connection.sendall(struct.pack(">BI", _COMPLETE if good else _BAD, 0))
            return good
        return False

    def __getattr__(self, name: str) -> Answer:
        if name not in TYPES.Metastore.thrift_services:
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, arguments)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name not in ("set_ugi", "getVersion", "get_database_req"):
            self.calls.append(name)
        answer = self.answers.get(name)
        if answer is None:
            raise TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{name}'")
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer(*arguments)


def raises(error: BaseException) -> Answer:
    """An answer that is an exception."""

    def answer(*_: Any) -> Any:
        raise error

    return answer


def recorded(into: list[Any], answer: object) -> Answer:
    """An answer that records the arguments of the call."""

    def answered(*asked: Any) -> object:
        into.append(asked[0] if len(asked) == 1 else asked)
        return answer

    return answered


def connected(server: FakeMetastore, catalog: str = CATALOG, reader: Reader | None = None) -> Hms:
    """A connection that tries each call once."""
    options = ConnectionOptions(
        timeout_seconds=60, connect_timeout_seconds=60, attempts=1, catalog=catalog, reader=reader
    )
    return connect_hms([server.uri], options, user="joe", host="here", sleep=lambda _seconds: None)
