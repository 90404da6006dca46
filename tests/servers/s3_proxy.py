"""What goes to and from a server of S3, counted at a relay between them; it may swallow answers, too."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from types import TracebackType
from typing import Self

from servers.process import free_port

_REQUEST = re.compile(rb"(GET|PUT|POST|HEAD|DELETE) (/[^ ]*) HTTP/1\.1\r\n")
_CHUNK = 1 << 16


class Relay:
    """Passes bytes on to a port of 127.0.0.1 from one of its own, and counts bytes and requests.

    ``sent`` and ``received`` are the bytes of what clients sent and got, headers included; ``requests`` counts
    methods. While ``lose`` is a pattern, the answer to the next request whose first line matches it is swallowed, once
    the server has given it, and the connection is closed; before that, ``skip`` such requests are answered.
    """

    def __init__(self, target: int) -> None:
        """Starts nothing yet."""
        self.port = free_port()
        self.sent = self.received = 0
        self.requests: Counter[str] = Counter()
        self.lose: re.Pattern[str] | None = None
        self.skip = 0
        self.lost = 0
        self._target = target
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    @property
    def endpoint(self) -> str:
        """Where clients reach the server through it."""
        return f"http://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Counts from nothing again."""
        with self._lock:
            self.sent = self.received = 0
            self.requests.clear()

    def __enter__(self) -> Self:
        """Listens."""
        self._socket = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listens no more; connections that are open end with their clients."""
        assert self._socket is not None
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            losing = threading.Event()
            for work in (self._send, self._receive):
                threading.Thread(target=work, args=(client, server, losing), daemon=True).start()

    def _send(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                with self._lock:
                    self.sent += len(data)
                    for found in _REQUEST.finditer(data):  # requests begin a packet: clients wait for answers
                        self.requests[found[1].decode()] += 1
                        line = f"{found[1].decode()} {found[2].decode()}"
                        if self.lose is None or not self.lose.search(line):
                            continue
                        self.skip -= 1
                        if self.skip < 0:
                            self.lose = None
                            losing.set()
                server.sendall(data)
        _close(server)

    def _receive(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if losing.is_set() and not data.startswith(b"HTTP/1.1 100"):
                    self.lost += 1
                    break
                with self._lock:
                    self.received += len(data)
                client.sendall(data)
        _close(client)
        _close(server)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
