"""Delegation tokens of HDFS, handed by the driver to its tasks, where nobody may have a ticket of Kerberos.

hdfs-native reads tokens from the file that HADOOP_TOKEN_FILE_LOCATION names, whenever it makes a connection. What YARN
puts there when it starts a container stays as it is; what Spark obtains later goes to the JVM of an executor alone. So
each task brings what the driver had when it was sent, and the file is one in memory, which ends with its process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
_AUTHENTICATION = "hadoop.security.authentication"
_taking = threading.Lock()
_taken: list[tuple[bytes, int]] = []
"""What this process goes by, and what before that: somebody may be about to read it."""


def _forked() -> None:
    """Another thread of the parent may have held it; the file stays."""
    global _taking
    _taking = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def asks_for_kerberos(configuration: Mapping[str, str]) -> bool:
    """Whether the name nodes do."""
    return configuration.get(_AUTHENTICATION, "").strip().lower() == "kerberos"


class HandedTokens:
    """In the driver: where tokens come from. In a task: the tokens, as Hadoop stores them; never printed."""

    def __init__(self, obtain: Callable[[tuple[str, ...]], bytes] | None = None, data: bytes = b"") -> None:
        """`obtain` gives those for some authorities, host and port or a name service; it is asked by each pickling."""
        self._obtain = obtain
        self._authorities: tuple[str, ...] = ()
        self._data = data

    def __reduce__(self) -> tuple[type[HandedTokens], tuple[None, bytes]]:
        data = self._data
        if self._obtain is not None and self._authorities:
            data = self._obtain(self._authorities)
        return HandedTokens, (None, data)

    def use(self, authority: str) -> None:
        """Before somewhere is connected to: the driver notes for what tokens are needed, a task takes up its own."""
        if self._obtain is None:
            _take_up(self._data)
        elif authority not in self._authorities:
            self._authorities = (*self._authorities, authority)


def _take_up(data: bytes) -> None:
    if not data:
        return
    with _taking:
        if _taken and _taken[-1][0] == data:
            return
        file = os.memfd_create("acidlib-tokens")
        with os.fdopen(os.dup(file), "wb") as stream:
            stream.write(data)
        _taken.append((data, file))
        os.environ[FILE_VARIABLE] = f"/proc/self/fd/{file}"
        while len(_taken) > 2:
            os.close(_taken.pop(0)[1])
