"""A ZooKeeper of one server, out of the jars that Hive 4 brings."""

from __future__ import annotations

import os
from pathlib import Path

from servers.jars import brought
from servers.java import java_command
from servers.process import ServerProcess, Startable, free_port, listens
from servers.settings import LOG4J, LOG4J_FILE, log_options

MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_JARS = ("zookeeper-", "slf4j-api-", "log4j-", "metrics-core-", "snappy-java-", "netty-", "commons-io-")


class ZooKeeper(Startable):
    """One server on a free port of 127.0.0.1; it keeps its port and its nodes when it is started again."""

    def __init__(self, directory: Path) -> None:
        """Starts nothing yet; ``directory`` is its own."""
        self.port = free_port()
        self._directory = directory
        self._process: ServerProcess | None = None

    @property
    def server(self) -> str:
        """Where clients connect: `host:port`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, unless it runs. Raises ServerError with the end of its log."""
        if self._process is None:
            self._process = self._new_process()
        self._process.start()

    def stop(self) -> None:
        """Ends it in an orderly way."""
        if self._process is not None:
            self._process.stop()

    def _new_process(self) -> ServerProcess:
        (self._directory / LOG4J_FILE).write_text(LOG4J)
        settings = self._directory / "zoo.cfg"
        settings.write_text(
            f"dataDir={self._directory / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=500\nadmin.enableServer=false\n"
        )
        java = java_command(
            heap="64m",
            options=log_options(self._directory),
            class_path=sorted(
                str(jar) for jar in (brought("hive4") / "lib").glob("*.jar") if jar.name.startswith(_JARS)
            ),
            arguments=self._directory / "class-path",
        )
        return ServerProcess(
            "ZooKeeper",
            command=[*java, MAIN, str(settings)],
            log=self._directory / "log",
            ready=lambda: listens(self.port),
            environment={**os.environ, "TZ": "UTC"},
            directory=self._directory,
        )
