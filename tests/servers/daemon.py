"""What the servers of Hive have in common: a directory, settings, a port, and a Java process that can be restarted."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from acidlib.acid.names import Generation
from servers.errors import ServerError
from servers.jars import LATER, brought, java_for, release_of
from servers.java import java_command
from servers.process import OneProcess, ServerProcess, free_port, listens
from servers.settings import log_options, write_settings

# what Hive reaches into: closed since Java 17
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.ref",
    "java.lang.reflect",
    "java.io",
    "java.math",
    "java.net",
    "java.nio",
    "java.nio.channels.spi",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.regex",
    "java.util.zip",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
OPENED = tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED)
_JVM_OPTIONS = (
    *OPENED,
    # or Hive 4's cleaner fails: Spring asks PostgreSQL for the types of parameters, which it cannot tell
    "-Dspring.jdbc.getParameterType.ignore=true",
)

OFS = "fs.ofs.impl"
"""The property that names the class of Ozone's file system."""
_MORE = {"ozone_client": OFS, "abfs_driver": "fs.azure.always.use.https"}
"""Folders of jars, and a property of those who need them."""


class Daemon(OneProcess):
    """One server of Hive on a free port of 127.0.0.1; it keeps its port and its files when it is started again."""

    def __init__(
        self,
        name: str,
        *,
        version: str,
        directory: Path,
        main: Sequence[str],
        heap: str,
        properties: Mapping[str, str],
        java_options: Sequence[str] = (),
    ) -> None:
        """Starts nothing yet. ``main`` is the main class; ``properties`` win over those of ``properties``.

        ``version`` is the release of Hive. Raises ServerError where a newer Java is needed than there is.
        ``java_options`` are added.
        """
        self.version = version
        self.generation = Generation(int(version[0]))
        self._java = _java(version)
        self.port = free_port()
        self.conf_dir = directory / "conf"
        """Holds hive-site.xml."""
        self.work_dir = directory / "work"
        self.log = directory / "log"
        self._name = name
        self._directory = directory
        self._main = list(main)
        self._heap = heap
        self._given = dict(properties)
        self._java_options = tuple(java_options)

    @property
    @abc.abstractmethod
    def properties(self) -> dict[str, str]:
        """What its hive-site.xml says; only after ``_prepare``."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Makes what must be there before the first start."""

    def _jars(self) -> list[str]:
        """Its jars, in the order of the class path.

        Those of Hive 4.0 know S3A and Google's connector, and what else they are told of.
        """
        jars = list(release_of(self.version).jars)
        if self.generation is Generation.HIVE4 and self.version not in LATER:
            for more in ("s3a", "gcs_connector", *(name for name, key in _MORE.items() if key in self._given)):
                jars += sorted(str(jar) for jar in (brought(more) / "lib").glob("*.jar"))
        return jars

    @property
    def pid(self) -> int | None:
        """The process, or None when it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts it, unless it runs. Raises ServerError with the end of its log."""
        if self._process is None:
            self.work_dir.mkdir(parents=True, exist_ok=True)
            self._prepare()
            write_settings(self.conf_dir, self.properties)
        super().start()

    def restart(self) -> None:
        """Stops it, if it runs, and starts it again on the same port. Raises ServerError."""
        self.stop()
        self.start()

    def memory_mb(self) -> int:
        """Its resident memory now. Raises ServerError when it does not run."""
        if self._process is None:
            raise ServerError(f"Cannot measure {self._name}: it was not started")
        return self._process.memory_mb()

    def _new_process(self) -> ServerProcess:
        java = java_command(
            heap=self._heap,
            options=(
                *_JVM_OPTIONS,
                *log_options(self.conf_dir),
                f"-Djava.io.tmpdir={self.work_dir}",
                *self._java_options,
            ),
            # the jars first: they have no settings but those of the log
            class_path=[*self._jars(), str(self.conf_dir)],
            arguments=self._directory / "class-path",
            home=self._java,
        )
        return ServerProcess(
            self._name,
            command=[*java, *self._main],
            log=self.log,
            ready=lambda: listens(self.port),
            # its own settings only, wherever the tests run
            environment={name: value for name, value in os.environ.items() if not name.startswith(("HIVE_", "HADOOP_"))}
            # or Java makes other names of what is not ASCII
            | {"HIVE_CONF_DIR": str(self.conf_dir), "TZ": "UTC", "LC_ALL": "C.UTF-8"},
            directory=self._directory,
        )


def _java(version: str) -> Path:
    home = java_for(version)
    if home is None:
        oldest = LATER[version].java
        raise ServerError(f"Cannot run Hive {version}: a JDK {oldest} or newer is needed, and there is none")
    return home
