"""A wire between clients and a server that breaks, falls silent or changes a bit at a chosen byte.

It counts bytes and understands none of them, so it fits whatever they speak, also where they speak in secret.
"""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import struct
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class Way(enum.Enum):
    """Whose bytes: the client's, or the server's."""

    UP = "up"
    DOWN = "down"


class What(enum.Enum):
    """What becomes of the connection: it ends, it ends with an error, nothing passes any more, a bit is another."""

    END = "end"
    RESET = "reset"
    SILENCE = "silence"
    FLIP = "flip"


@dataclass(frozen=True)
class Fault:
    """So many bytes still go this way before it happens; at 0 of the server's, it has done what it was asked.

    `question` is the number of the one, over all connections from now on, before which it does not happen.
    """

    what: What
    way: Way
    after: int = 0
    question: int = 1


FAULTS = {
    "ends before it is asked": Fault(What.END, Way.UP),
    "ends in the middle of the question": Fault(What.END, Way.UP, 9),
    "ends before the answer": Fault(What.END, Way.DOWN),
    "ends in the middle of the answer": Fault(What.END, Way.DOWN, 9),
    "resets in the middle of the answer": Fault(What.RESET, Way.DOWN, 9),
    "falls silent": Fault(What.SILENCE, Way.DOWN),
    "falls silent in the middle of the answer": Fault(What.SILENCE, Way.DOWN, 9),
}
"""What happens to a call, by its name."""


class Wire:
    """`uri` leads to the server at `port`. `host` is how clients name this machine."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", scheme: str = "thrift") -> None:
        self.passed = dict.fromkeys(Way, 0)
        """How many bytes went each way, over all connections."""
        self.connections = 0
        self._port = port
        self._fault: Fault | None = None
        self._left = 0
        self._questions = 1
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.uri = f"{scheme}://{host}:{self.port}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def next(self, fault: Fault) -> None:
        """Lets something happen once, from now on; in place of what has not happened yet."""
        with self._lock:
            self._fault, self._left, self._questions = fault, fault.after, 0

    @property
    def is_due(self) -> bool:
        """Whether what was ordered has not happened yet."""
        return self._fault is not None

    def mend(self) -> None:
        """Orders nothing any more."""
        self._fault = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    # --- parts ----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            ways = {client: (Way.UP, server), server: (Way.DOWN, client)}
            for end in ways:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            silent, asked = False, False
            while not self._closing.is_set():
                for end in select.select(list(ways), [], [], 0.1)[0]:
                    way, other = ways[end]
                    data = end.recv(CHUNK)
                    if not data:
                        return
                    if silent:
                        continue
                    data, what = self._changed(way, data, asks=way is Way.UP and not asked)
                    asked = way is Way.UP
                    other.sendall(data)
                    silent = what is What.SILENCE
                    if what is What.RESET:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if what in (What.END, What.RESET):
                        return

    def _changed(self, way: Way, data: bytes, *, asks: bool) -> tuple[bytes, What | None]:
        """What is passed on of some bytes, and what happens then."""
        with self._lock:
            self.passed[way] += len(data)
            self._questions += asks
            fault = self._fault
            if fault is None or fault.way is not way or self._questions < fault.question:
                return data, None
            if self._left >= len(data):
                self._left -= len(data)
                return data, None
            self._fault = None
            at = self._left
            if fault.what is What.FLIP:
                return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], None
            return data[:at], fault.what
