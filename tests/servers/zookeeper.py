"""A ZooKeeper of one server or of several, out of the jars that Hive 4 brings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from servers.jars import brought
from servers.java import java_command
from servers.process import OneProcess, ServerProcess, free_port, listens
from servers.settings import LOG4J, LOG4J_FILE, log_options

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = ("zookeeper-", "slf4j-api-", "log4j-", "metrics-core-", "snappy-java-", "netty-", "commons-io-")


class ZooKeeper(OneProcess):
    """One server on a free port of 127.0.0.1; it keeps its port and its nodes when it is started again."""

    def __init__(
        self, directory: Path, *, keystore: Path | None = None, number: int = 0, peers: Sequence[str] = ()
    ) -> None:
        """Starts nothing yet; ``directory`` is its own.

        keystore  with it there is a second port, for TLS, where clients show the certificate that is in it, too
        number    of this server among ``peers``, from 1 on, each as `host:port:port`
        """
        self.port = free_port()
        self.secure_port = free_port()
        self._directory = directory
        self._keystore = keystore
        self._number = number
        self._peers = tuple(peers)

    @property
    def server(self) -> str:
        """Where clients connect: `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure_server(self) -> str:
        """The same, for TLS."""
        return f"127.0.0.1:{self.secure_port}"

    def _new_process(self) -> ServerProcess:
        (self._directory / LOG4J_FILE).write_text(LOG4J)
        settings = self._directory / "zoo.cfg"
        settings.write_text("\n".join(self._settings()))
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

    def _settings(self) -> list[str]:
        data = self._directory / "data"
        lines = [f"dataDir={data}", f"clientPort={self.port}", "clientPortAddress=127.0.0.1"]
        lines += ["tickTime=500", "admin.enableServer=false"]
        if self._keystore is not None:
            lines += [f"secureClientPort={self.secure_port}", "secureClientPortAddress=127.0.0.1"]
            lines += ["serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"]
            lines += [f"ssl.keyStore.location={self._keystore}", "ssl.keyStore.password=changeit"]
            lines += ["ssl.keyStore.type=PKCS12", f"ssl.trustStore.location={self._keystore.with_name('ca.pem')}"]
        if self._peers:
            data.mkdir(exist_ok=True)
            (data / "myid").write_text(str(self._number))
            lines += ["initLimit=20", "syncLimit=10"]
            lines += [f"server.{number}={peer}" for number, peer in enumerate(self._peers, 1)]
        return lines


def ensemble(directory: Path, *, servers: int = 3) -> list[ZooKeeper]:
    """Several servers that are one ZooKeeper; none is started, and one alone is not ready before most of them are."""
    peers = [f"127.0.0.1:{free_port()}:{free_port()}" for _ in range(servers)]
    made = []
    for number in range(1, servers + 1):
        own = directory / str(number)
        own.mkdir()
        made.append(ZooKeeper(own, number=number, peers=peers))
    return made
