"""Trino 476 on a Hive metastore: one process, for readers that are not Hive.

It needs a Java that is newer than the other servers', and its archive has 800 MB; nothing starts it unasked.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servers.gcs_door import GcsDoor
from servers.hdfs import Hdfs
from servers.jars import CACHE, locked
from servers.java import java_home_of
from servers.maven import run_maven
from servers.metastore import Metastore
from servers.process import ServerProcess, free_port
from servers.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server

VERSION = "476"
OLDEST_JAVA = 24
HEAP = "2g"
USER = "tests"
_ARTIFACT = f"io.trino:trino-server:{VERSION}:tar.gz"
_PLUGIN = "maven-dependency-plugin:3.8.1:copy"
_KEPT = ("lib", "plugin/hive")
"""What is unpacked of the archive."""
_JVM_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dfile.encoding=UTF-8",
    "-Duser.timezone=UTC",
    "--enable-native-access=ALL-UNNAMED",
    "--add-modules=jdk.incubator.vector",
)


def properties_of_stores(hdfs: Hdfs, s3: S3Server) -> dict[str, str]:
    """What a catalog needs to be told so that it reads tables there: HDFS by Hadoop's client, S3 by Trino's own."""
    return {
        "hive.config.resources": ",".join(str(hdfs.conf_dir / name) for name in ("core-site.xml", "hdfs-site.xml")),
        "fs.native-s3.enabled": "true",
        "s3.endpoint": s3.endpoint,
        "s3.region": REGION,
        "s3.path-style-access": "true",
        "s3.aws-access-key": ACCESS_KEY,
        "s3.aws-secret-key": SECRET_KEY,
    }


def properties_of_gcs(door: GcsDoor, directory: Path) -> dict[str, str]:
    """The same of Google Cloud Storage, by Trino's own client, and its key, which the directory gets."""
    key = directory / "key.json"
    key.write_text(json.dumps(door.key()))
    return {
        "fs.native-gcs.enabled": "true",
        "gcs.endpoint": door.endpoint,
        "gcs.project-id": "tests",
        "gcs.json-key-file-path": str(key),
    }


def new_java() -> Path | None:
    """A JDK that Trino runs on; None without one."""
    return java_home_of(OLDEST_JAVA)


class Trino:
    """One Trino with the catalog ``hive`` on a metastore, on a free port of 127.0.0.1."""

    def __init__(
        self, metastore: Metastore, *, java: Path, directory: Path, catalog: Mapping[str, str] | None = None
    ) -> None:
        """Starts nothing yet; ``directory`` is its own and gets its settings, its files and its log.

        ``catalog`` is added to the properties of the catalog.
        """
        self.port = free_port()
        self.log = directory / "log"
        self._metastore = metastore
        self._java = java
        self._directory = directory
        self._catalog = dict(catalog or {})
        self._process: ServerProcess | None = None

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs one statement to its end; its rows. Raises trino.exceptions.Error."""
        from trino.dbapi import connect  # only those who ask for Trino need its client

        with connect(host="127.0.0.1", port=self.port, user=USER, catalog="hive") as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]

    def __enter__(self) -> Self:
        """Starts it. Raises ServerError."""
        home = _unpacked()
        self._write_settings(home)
        self._process = ServerProcess(
            "Trino",
            command=[
                str(self._java / "bin" / "java"),
                f"-Xmx{HEAP}",
                *_JVM_OPTIONS,
                f"-Dconfig={self._directory / 'config.properties'}",
                f"-Dlog.levels-file={self._directory / 'log.properties'}",
                "-cp",
                f"{home / 'lib'}/*",
                "io.trino.server.TrinoServer",
            ],
            log=self.log,
            ready=self._answers,
            environment=os.environ | {"TZ": "UTC"},
            directory=self._directory,
        )
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops it."""
        assert self._process is not None
        self._process.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/info", timeout=5) as answer:
                return json.load(answer)["starting"] is False
        except (OSError, urllib.error.URLError, ValueError):
            return False

    def _write_settings(self, home: Path) -> None:
        catalogs, plugins = self._directory / "catalog", self._directory / "plugin"
        catalogs.mkdir()
        plugins.mkdir()
        (plugins / "hive").symlink_to(home / "plugin" / "hive")
        _write(
            self._directory / "config.properties",
            "coordinator=true",
            "node-scheduler.include-coordinator=true",
            "node.environment=tests",
            f"http-server.http.port={self.port}",
            f"discovery.uri=http://127.0.0.1:{self.port}",
            "query.max-memory=1GB",
            "query.max-memory-per-node=800MB",
            f"plugin.dir={plugins}",
            "catalog.management=static",
            f"catalog.config-dir={catalogs}",
        )
        _write(
            catalogs / "hive.properties",
            "connector.name=hive",
            f"hive.metastore.uri={self._metastore.uri}",
            "hive.metastore.thrift.client.read-timeout=60s",
            "fs.hadoop.enabled=true",
            "hive.timestamp-precision=NANOSECONDS",
            *(f"{name}={value}" for name, value in self._catalog.items()),
        )
        _write(self._directory / "log.properties", "io.trino=INFO")


def _unpacked() -> Path:
    """The server, brought by Maven once per checkout. Raises ServerError."""
    place = CACHE / f"trino-{VERSION}"
    CACHE.mkdir(exist_ok=True)
    with locked(CACHE / "trino.lock"):
        if not place.is_dir():
            partial = CACHE / "trino.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            goal = f"org.apache.maven.plugins:{_PLUGIN}"
            run_maven("Trino", [goal, f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={partial}"], directory=partial)
            archive = partial / f"trino-server-{VERSION}.tar.gz"
            with tarfile.open(archive) as tar:
                wanted = [entry for entry in tar.getmembers() if _is_kept(entry.name)]
                tar.extractall(partial, members=wanted, filter="data")
            (partial / f"trino-server-{VERSION}").rename(place)
            shutil.rmtree(partial)
    return place


def _is_kept(name: str) -> bool:
    _, _, inside = name.partition("/")
    return inside.startswith(tuple(f"{kept}/" for kept in _KEPT))


def _write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
