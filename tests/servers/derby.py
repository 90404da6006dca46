"""Derby's network server, which keeps its databases in memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from servers.elsewhere import Elsewhere, brought_file, schema_script
from servers.errors import ServerError
from servers.guard import GUARD
from servers.java import java_home
from servers.process import ServerProcess, free_port, listens

RELEASE = "10.14.2.0"
_DRIVER = "org.apache.derby.jdbc.ClientDriver"


def jar(name: str) -> Path:
    """One of Derby's jars. Raises ServerError when it cannot be had."""
    return brought_file("copy", f"org.apache.derby:{name}:{RELEASE}", f"{name}-{RELEASE}.jar")


class Derby:
    """A server on a free port of 127.0.0.1. Whoever knows where it is may do everything."""

    def __init__(self) -> None:
        self.port = free_port()
        self._home = Path(tempfile.mkdtemp(prefix="tests-derby-"))
        GUARD.directory(str(self._home))
        self._number = 0
        java = str(java_home() / "bin" / "java")
        self._ij = [java, "-cp", ":".join(str(jar(name)) for name in ("derbytools", "derbyclient", "derby"))]
        control = ["org.apache.derby.drda.NetworkServerControl", "start", "-noSecurityManager", "-p", str(self.port)]
        self._server = ServerProcess(
            "Derby",
            command=[java, "-cp", f"{jar('derbynet')}:{jar('derby')}", *control],
            log=self._home / "log",
            ready=lambda: listens(self.port),
            environment=dict(os.environ) | {"TZ": "UTC"},
            directory=self._home,
        )

    def start(self) -> None:
        """Starts it. Raises ServerError."""
        self._server.start()

    def stop(self) -> None:
        """Stops it."""
        self._server.stop()

    def for_a_metastore(self) -> Elsewhere:
        """A database for a metastore of Hive 4.0.1."""
        return Elsewhere(
            driver=_DRIVER,
            jar=jar("derbyclient"),
            user="APP",
            password="mine",
            new=self._new_metastore,
            jdbc=self._jdbc,
            direct_sql=False,  # it rolls back to savepoints, which the network server loses
            url=lambda name: f"derby://APP:mine@127.0.0.1:{self.port}/{name}",
        )

    def _jdbc(self, name: str) -> str:
        return f"jdbc:derby://127.0.0.1:{self.port}/{name}"

    def _new_metastore(self) -> str:
        self._number += 1
        name = f"memory:test{self._number}"
        script = self._home / "make.sql"
        connected = f"connect '{self._jdbc(name)};create=true;user=APP;password=mine';\n"
        script.write_text(connected + schema_script("derby").read_text())
        ran = subprocess.run([*self._ij, "org.apache.derby.tools.ij", script], capture_output=True, text=True)
        failed = [line for line in ran.stdout.splitlines() if line.startswith("ERROR")]
        if ran.returncode or failed:
            raise ServerError(f"Cannot make a metastore's tables in Derby: {(failed or [ran.stderr])[0]}")
        return name
