"""Sessions of Hive's own Driver in one process, for releases of Hive that have no HiveServer2 to start."""

from __future__ import annotations

import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servers.daemon import Daemon
from servers.hiveserver import query_settings
from servers.jars import compiled
from servers.metastore import Metastore
from servers.sql import Row, SqlError

HEAP = "1500m"
SOURCE = Path(__file__).parent / "java_classes" / "HiveSessions.java"
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_MOST = 1 << 30


class HiveSessions(Daemon):
    """One process with sessions on a metastore: queries run in it, by Tez in local mode."""

    def __init__(self, metastore: Metastore, *, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        """Starts nothing yet; ``directory`` is its own. ``properties`` win over all else."""
        super().__init__(
            f"sessions of Hive {metastore.version}",
            version=metastore.version,
            directory=directory,
            main=[SOURCE.stem],
            heap=HEAP,
            properties=dict(properties or {}),
        )
        self._main.append(str(self.port))
        self.metastore = metastore

    @property
    def properties(self) -> dict[str, str]:
        """What its hive-site.xml says; only after its metastore was started."""
        # most queries need no task
        own = {"hive.cli.tez.initialize.session": "false"}
        return self.metastore.properties | query_settings(self.work_dir) | own | self._given

    @contextmanager
    def session(self, settings: Mapping[str, str] | None = None) -> Iterator[DriverSession]:
        """A session with Hive's settings. Several may be open at a time."""
        with DriverSession(self.port) as made:
            for key, value in (settings or {}).items():
                made.set(key, value)
            yield made

    def _jars(self) -> list[str]:
        jars = super()._jars()
        return [str(compiled(SOURCE, jars, self._java)), *jars]

    def _prepare(self) -> None:
        self.metastore.start()
        scratch = self.work_dir / "scratch"
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o733)  # Hive refuses one that others cannot write to


class DriverSession:
    """One session: what is set lasts for its later statements."""

    def __init__(self, port: int) -> None:
        """Connects."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        self._answers = self._socket.makefile("r", encoding="ascii")
        self.columns: tuple[str, ...] = ()
        """The names of the columns of the last result."""
        self._types: tuple[str, ...] = ()

    def run(self, statement: str) -> list[Row]:
        """Runs one statement to its end; its rows, or none. Raises SqlError.

        Whole numbers come as such, all else as Hive's text, NULL as None.
        """
        self.start(statement)
        rows = self.fetch(_MOST) if self.columns else []
        self.finish()
        return rows

    def start(self, statement: str) -> None:
        """Runs one statement and leaves its rows to be fetched, until `finish` or the next one. Raises SqlError."""
        self.columns, self._types = (), ()
        found = self._ask(f"run {_encoded(statement)}", statement)
        columns = [tuple(map(_decoded, answer[1:])) for answer in found]
        self.columns = tuple(name.rpartition(".")[2] for name, _ in columns)
        self._types = tuple(kind for _, kind in columns)

    def fetch(self, most: int) -> list[Row]:
        """Further rows of the last statement. Raises SqlError."""
        return [self._row(_decoded(answer[1])) for answer in self._ask(f"fetch {most}", "fetch")]

    def finish(self) -> None:
        """Ends the last statement."""
        self._ask("close", "close")

    def set(self, key: str, value: str) -> None:
        """Changes a setting."""
        self._ask(f"set {_encoded(key)} {_encoded(value)}", key)

    def close(self) -> None:
        """Ends the session."""
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _row(self, text: str) -> Row:
        return tuple(_value(kind, value) for kind, value in zip(self._types, text.split("\t"), strict=True))

    def _ask(self, request: str, what: str) -> list[list[str]]:
        self._socket.sendall(f"{request}\n".encode("ascii"))
        found = []
        for line in self._answers:
            words = line.split()
            if words[0] == "failed":
                raise SqlError(f"{what}\n  {_decoded(words[1])}")
            if words[0] == "done":
                return found
            found.append(words if len(words) > 1 else [*words, ""])
        raise SqlError(f"{what}\n  the connection was closed")


def _value(kind: str, text: str) -> Any:
    if text == "NULL":
        return None
    return int(text) if kind in _WHOLE else text


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    return b64decode(text).decode()
