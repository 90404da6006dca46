"""A listener between our jobs and a metastore: it counts calls, does something at a call, and loses answers.

So a test can choose the moment of a fault by what the metastore is asked, without a look into the engine.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from servers.metastore import Metastore

HEADER = 8
END_OF_HEAD = b"\r\n\r\n"
CHUNK = 1 << 16
UNKNOWN_METHOD = 1
"""Of Thrift's TApplicationException."""


class Cut(Exception):  # noqa: N818 - an order, not an error
    """Raised by an action: the connection is closed at this point."""


class _Hook:
    def __init__(self, action: Callable[[], object], at: int) -> None:
        self.action = action
        self.left = at


class Proxy:
    """Passes the calls of any number of clients on to one metastore; over a socket or HTTP, not framed or encrypted.

    An action runs in a thread of the proxy while the call waits: `before` it reaches the metastore, or `after` the
    metastore has done it and the client knows nothing yet. Each runs once. What goes wrong in one is raised at the end.
    """

    def __init__(self, metastore: Metastore) -> None:
        """Listens at once."""
        self.calls: Counter[str] = Counter()
        self.happened: list[str] = []
        self.deaf_to: set[str] = set()
        """Calls at which the connection is always closed."""
        self.unknown: set[str] = set()
        """Calls that the metastore is said not to have."""
        self.version: str | None = None
        """What it is said to report as its version."""
        self.watch: Callable[[], object] | None = None
        """Done before every call."""
        self._watching = threading.Lock()
        self._port = metastore.port
        self._hooks: dict[tuple[str, str], list[_Hook]] = {}
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._closing = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.2)
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def before(self, call: str, action: Callable[[], object], *, at: int = 1) -> None:
        """Does something when the metastore is about to be asked this, the first time or a later one."""
        self._hooks.setdefault(("before", call), []).append(_Hook(action, at))

    def after(self, call: str, action: Callable[[], object], *, at: int = 1) -> None:
        """Does something when the metastore has done this, before the client hears of it."""
        self._hooks.setdefault(("after", call), []).append(_Hook(action, at))

    def lose(self, call: str, *, answer: bool, at: int = 1) -> None:
        """Closes the connection once: instead of the answer to this call, else before it reaches the metastore."""
        (self.after if answer else self.before)(call, _cut, at=at)

    def close(self) -> None:
        """Ends all connections; raises what went wrong in an action."""
        self._closing = True
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            left = list(self._open)
        for end in left:
            _hang_up(end)
        if self._errors:
            raise self._errors[0]

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- parts ----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        with self._lock:
            self._open.add(client)
        try:
            server = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            client.settimeout(60)
            self._pass_on(client, server)
        except (OSError, Cut):
            pass  # either end is gone: so is the other
        except BaseException as error:
            self._errors.append(error)
        finally:
            with self._lock:
                self._open.discard(client)
            for end in (client, server):
                if end is not None:
                    _hang_up(end)
                    end.close()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        call = ""
        while not self._closing:
            readable = select.select([client, server], [], [], 0.5)[0]
            if server in readable:
                data = server.recv(CHUNK)
                if not data:
                    return
                if call == "getVersion" and self.version is not None:
                    data = _answer(data, 2) + struct.pack(">bhi", 11, 0, len(self.version))
                    data += self.version.encode() + b"\0"
                if call:
                    self._happen("after", call)
                    call = ""
                client.sendall(data)
            elif client in readable:
                data = client.recv(CHUNK)
                if not data:
                    return
                if not call:
                    data, call = _whole_name(client, data)
                    self._count(call)
                    self._happen("before", call)
                if call in self.unknown:
                    words = f"Invalid method name: '{call}'".encode()
                    said = struct.pack(">bhi", 11, 1, len(words)) + words + struct.pack(">bhi", 8, 2, UNKNOWN_METHOD)
                    client.sendall(_answer(data, 3) + said + b"\0")
                    call = ""
                else:
                    server.sendall(data)

    def _count(self, call: str) -> None:
        with self._lock:
            self.calls[call] += 1

    def _happen(self, when: str, call: str) -> None:
        if call in self.deaf_to:
            raise Cut
        if self.watch is not None and when == "before":
            with self._watching:
                self.watch()
        with self._lock:
            due = []
            for hook in self._hooks.get((when, call), []):
                hook.left -= 1
                if hook.left == 0:
                    due.append(hook)
                    self.happened.append(f"{when} {call}")
        for hook in due:
            hook.action()


def _cut() -> None:
    raise Cut


def _answer(message: bytes, kind: int) -> bytes:
    """The head of an answer to a call: a result (2) or an exception of the protocol (3), not of the server."""
    end = HEADER + struct.unpack_from(">i", message, 4)[0] + 4  # the name, and the number of the call
    return struct.pack(">I", 0x80010000 | kind) + message[4:end]


def _whole_name(client: socket.socket, data: bytes) -> tuple[bytes, str]:
    """The bytes of a request so far, at least up to the end of the name of its call, and that name."""
    start = 0
    if data.startswith(b"POST"):
        while END_OF_HEAD not in data:
            data += _more(client)
        start = data.index(END_OF_HEAD) + len(END_OF_HEAD)
    while len(data) < start + HEADER or len(data) < start + HEADER + struct.unpack_from(">i", data, start + 4)[0]:
        data += _more(client)
    version, length = struct.unpack_from(">Ii", data, start)
    assert version >> 16 == 0x8001, f"no call of the strict binary protocol: {data[:40]!r}"
    return data, data[start + HEADER : start + HEADER + length].decode()


def _more(client: socket.socket) -> bytes:
    more = client.recv(CHUNK)
    if not more:
        raise Cut
    return more


def _hang_up(end: socket.socket) -> None:
    """Ends a connection even if a forked child has it open too."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
