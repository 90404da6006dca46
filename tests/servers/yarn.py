"""YARN: a resource manager and a node manager, each a process of its own, and what applications leave on the node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.errors import ServerError
from servers.jars import brought
from servers.java import java_command, java_home
from servers.kdc import HOST, Kdc
from servers.process import POLL_SECONDS, ServerProcess, Startable, free_port, marked_processes
from servers.settings import write_site

QUEUES = ("default", "compaction")
RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
SERVICE = f"yarn/{HOST}"
"""With Kerberos: the principal of both."""
_HEAP = "192m"
_MARK = "ACIDLIB_TEST_YARN"
"""In the environment of all containers: those that have lost the node manager are found by it."""
_END_SECONDS = 30.0
_LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %5p %c{2}: %m%n
"""
# Guice makes classes at run time
_OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What YARN reports of an application, in its own words."""

    id: str
    queue: str
    state: str
    final_state: str


class Yarn(Startable):
    """A cluster on 127.0.0.1 with two queues, whose containers run as the user who runs the tests."""

    def __init__(self, directory: Path, core: Mapping[str, str], *, realm: Kdc | None = None) -> None:
        """Starts nothing yet; ``directory`` is its own. ``core`` is what core-site.xml says of the file system.

        With ``realm`` it asks for Kerberos.
        """
        self._realm = realm
        self.conf_dir = directory / "conf"
        """Holds core-site.xml and yarn-site.xml, as YARN_CONF_DIR and HADOOP_CONF_DIR do."""
        self._directory = directory
        self._core = dict(core)
        self._web = f"127.0.0.1:{free_port()}"
        self._addresses = {
            f"yarn.resourcemanager.{name}address": f"127.0.0.1:{free_port()}"
            for name in ("", "scheduler.", "resource-tracker.", "admin.")
        } | {"yarn.resourcemanager.webapp.address": self._web}
        self._processes: tuple[ServerProcess, ...] = ()

    def start(self) -> None:
        """Starts it, and waits until the node can be given containers. Raises ServerError."""
        if not self._processes:
            self._processes = self._prepared()
        for process in self._processes:
            process.start()

    def stop(self) -> None:
        """Ends it and all containers; raises ServerError when one of them had to be killed for it."""
        for process in reversed(self._processes):
            process.stop()
        deadline = time.monotonic() + _END_SECONDS
        while left := marked_processes(f"{_MARK}={self._directory}"):
            if time.monotonic() > deadline:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                raise ServerError(f"Cannot stop YARN in {self._directory}: containers {left} did not end")
            time.sleep(POLL_SECONDS)

    def applications(self) -> list[Application]:
        """What the resource manager reports of each application that ever was, by ``yarn application -list``.

        It takes some 2 s. Raises ServerError.
        """
        command = [*self._java("client", self.conf_dir), CLIENT, "application", "-list", "-appStates", "ALL"]
        ran = subprocess.run(command, env=self._environment(), cwd=self._directory, capture_output=True, text=True)
        if ran.returncode:
            raise ServerError(f"Cannot list the applications of YARN: it said {ran.stdout}{ran.stderr}")
        lines = [[cell.strip() for cell in line.split("\t")] for line in ran.stdout.splitlines()]
        return [
            Application(id=cells[0], queue=cells[4].removeprefix("root."), state=cells[5], final_state=cells[6])
            for cells in lines
            if cells[0].startswith("application_")
        ]

    def containers(self, application: str) -> list[Path]:
        """The directories of the containers of an application, which are kept."""
        return sorted(self._directory.glob(f"local/usercache/*/appcache/{application}/container_*"))

    def output(self, application: str, name: str) -> dict[str, str]:
        """A file in the log of each container of an application that has it, such as `stdout`, by its container."""
        found = sorted(self._directory.glob(f"log/{application}/container_*/{name}"))
        return {path.parent.name: path.read_text() for path in found}

    def memory_mb(self) -> int:
        """The resident memory of both processes. Raises ServerError when one does not run."""
        return sum(process.memory_mb() for process in self._processes)

    def _answers(self) -> bool:
        return self._nodes() is not None

    def _has_node(self) -> bool:
        return [node["state"] for node in self._nodes() or []] == ["RUNNING"]

    def _nodes(self) -> list[dict[str, Any]] | None:
        """None when nobody answers. What the REST interface of these jars says of applications is no JSON."""
        try:
            with urllib.request.urlopen(f"http://{self._web}/ws/v1/cluster/nodes", timeout=30) as answer:
                return list(json.load(answer)["nodes"] or [])
        except (OSError, ValueError):
            return None

    def _prepared(self) -> tuple[ServerProcess, ServerProcess]:
        """The files of both, and what starts them."""
        own = self._directory / "own"
        for place in (self.conf_dir, own):
            place.mkdir()
            write_site(place / "core-site.xml", self._core)
        places = {f"yarn.nodemanager.{name}-dirs": str(self._directory / name) for name in ("local", "log")}
        write_site(self.conf_dir / "yarn-site.xml", self._client())
        write_site(own / "yarn-site.xml", self._client() | _SITE | places | self._keys())
        write_site(own / "capacity-scheduler.xml", _SCHEDULER)
        (own / "log4j.properties").write_text(_LOG4J)
        return (
            self._new_process("resource-manager", RESOURCE_MANAGER, own, self._answers),
            self._new_process("node-manager", NODE_MANAGER, own, self._has_node),
        )

    def _new_process(self, name: str, main: str, conf: Path, ready: Callable[[], bool]) -> ServerProcess:
        return ServerProcess(
            f"the {name} of YARN",
            command=[*self._java(name, conf), main],
            log=self._directory / f"{name}.log",
            ready=ready,
            environment=self._environment(),
            directory=self._directory,
        )

    def _java(self, name: str, conf: Path) -> list[str]:
        jars = sorted(str(jar) for jar in (brought("yarn") / "lib").glob("*.jar"))
        return java_command(
            heap=_HEAP,
            options=(
                *_OPENED,
                *(() if self._realm is None else self._realm.java_options),
                f"-Djava.io.tmpdir={self._directory}",
            ),
            class_path=[str(conf), *jars],
            arguments=self._directory / f"{name}.class-path",
        )

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_OF_OTHERS)}
        return kept | {"JAVA_HOME": str(java_home()), "TZ": "UTC", _MARK: str(self._directory)}

    def _client(self) -> dict[str, str]:
        """What a client and an application master have to know."""
        return self._addresses | {
            # or what has lost the resource manager looks for it for a quarter of an hour
            "yarn.resourcemanager.connect.max-wait.ms": "10000",
            "yarn.resourcemanager.connect.retry-interval.ms": "500",
            **({} if self._realm is None else {"yarn.resourcemanager.principal": f"{SERVICE}@{self._realm.realm}"}),
        }

    def _keys(self) -> dict[str, str]:
        if self._realm is None:
            return {}
        keytab = str(self._realm.keytab(SERVICE))
        found = {f"yarn.{name}.keytab": keytab for name in ("resourcemanager", "nodemanager")}
        return found | {"yarn.nodemanager.principal": f"{SERVICE}@{self._realm.realm}"}


_OF_OTHERS = ("HIVE_", "HADOOP_", "YARN_", "SPARK_", "PYSPARK_", "PYTHON", "ACIDLIB_", "KRB5")
"""Containers inherit little of the node manager, and none of these."""
_SITE = {
    **{
        f"yarn.nodemanager.{name}address": "127.0.0.1:0" for name in ("", "localizer.", "webapp.", "collector-service.")
    },
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.scheduler.minimum-allocation-mb": "128",
    # what the tests need of memory is little, and nobody measures it for them
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    # a disk is good that is almost full
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    # directories of containers are looked at when an application has ended
    "yarn.nodemanager.delete.debug-delay-sec": "3600",
    "yarn.nodemanager.env-whitelist": f"JAVA_HOME,PATH,LANG,TZ,{_MARK}",
    "yarn.nodemanager.sleep-delay-before-sigkill.ms": "2000",
    # a heartbeat each second is what an application waits for again and again
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
    "yarn.resourcemanager.am.max-attempts": "1",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}
_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": ",".join(QUEUES),
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.node-locality-delay": "-1",
    **{f"yarn.scheduler.capacity.root.{name}.capacity": str(100 // len(QUEUES)) for name in QUEUES},
    **{f"yarn.scheduler.capacity.root.{name}.maximum-capacity": "100" for name in QUEUES},
}
