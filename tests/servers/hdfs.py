"""A small HDFS: one name node and some data nodes, each a process of its own, and its tools of the command line."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hdfs_native import Client

from servers.errors import ServerError
from servers.jars import brought
from servers.java import java_command
from servers.kdc import HOST, Kdc
from servers.process import POLL_SECONDS, START_SECONDS, ServerProcess, Startable, free_port, last_lines, listens
from servers.settings import write_site

NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
SHELL = "org.apache.hadoop.fs.FsShell"
TRASH_INTERVAL = "fs.trash.interval"
SUPERUSER = getpass.getuser()
"""Who may do everything: the user of the name node, who runs the tests."""
SERVICE = f"hdfs/{HOST}"
"""With Kerberos: the principal of all nodes, and the superuser."""
WEB = f"HTTP/{HOST}"
_GROUPS = f"{SUPERUSER}=supergroup;etl=etl,hive;anna=anna,hive;bob=bob"
_HEAP = "192m"
# they look for the pages of their web server, of which the jars for small clusters have none
_PAGES = ("webapps/hdfs", "webapps/datanode", "webapps/static")


class Hdfs(Startable):
    """A cluster on 127.0.0.1. Its name node keeps its port and its files when it is started again.

    Users are who they say they are: HADOOP_USER_NAME, which hdfs-native reads whenever it connects, else the user who
    runs the tests, who is the superuser. `etl` and `anna` share the group `hive`; `bob` is in none of these. A test
    works below a directory of its own (`new_directory`), and leaves the cluster whole: `start`, out of safe mode.
    """

    def __init__(
        self,
        directory: Path,
        *,
        data_nodes: int = 2,
        properties: Mapping[str, str] | None = None,
        realm: Kdc | None = None,
    ) -> None:
        """Starts nothing yet; ``directory`` is its own. ``properties`` win over all else in hdfs-site.xml.

        With ``realm`` users are who their tickets say they are, and `SERVICE` is the superuser: whoever makes a
        directory needs a ticket of his.
        """
        self.port = free_port()
        self.realm = realm
        self.conf_dir = directory / "conf"
        """Holds core-site.xml and hdfs-site.xml, as HADOOP_CONF_DIR does."""
        self._directory = directory
        self._given = dict(properties or {})
        self.web_port = free_port()
        self._ports = tuple(free_port() for _ in range(data_nodes))
        self._name_node: ServerProcess | None = None
        self._data_nodes: tuple[ServerProcess, ...] = ()
        self._made = 0
        self._limited: set[tuple[str, str]] = set()

    @property
    def authority(self) -> str:
        """Host and port of the name node."""
        return f"127.0.0.1:{self.port}"

    @property
    def uri(self) -> str:
        """The root, without a slash at its end: hdfs://127.0.0.1:12345"""
        return f"hdfs://{self.authority}"

    @property
    def configuration(self) -> dict[str, str]:
        """What a client needs to be told."""
        return {
            "fs.defaultFS": self.uri,
            "dfs.replication": str(min(2, len(self._ports))),
            # or it takes minutes until a name node is said to be away
            "dfs.client.failover.max.attempts": "4",
            **({} if self.realm is None else self._secure(self.realm)),
        }

    @property
    def name_node(self) -> ServerProcess:
        """Its process, which may be killed, stopped and started; only after the first start."""
        assert self._name_node is not None
        return self._name_node

    @property
    def data_nodes(self) -> tuple[ServerProcess, ...]:
        """Their processes; `start` of this class waits until the name node knows them."""
        return self._data_nodes

    def start(self) -> None:
        """Starts what does not run, and waits until files can be written on all data nodes. Raises ServerError."""
        if self._name_node is None:
            self._prepare()
        for node in (self.name_node, *self.data_nodes):
            node.start()
        self._wait(self._is_whole)

    def stop(self) -> None:
        """Ends all of it at once; nobody needs the files any more."""
        if self._name_node is not None:
            for node in (*self.data_nodes, self.name_node):
                node.kill()

    def kill_name_node(self) -> None:
        """Ends the name node as a crash would; `start` brings it back."""
        self.name_node.kill()

    def live_data_nodes(self) -> int:
        """How many data nodes the name node thinks alive; it gives one up some 12 s after it was killed."""
        return int(self._state()["NumLiveDataNodes"])

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                end = last_lines(self.name_node.log)
                raise ServerError(f"Cannot use HDFS: its nodes did not find each other; end of the log:\n{end}")
            time.sleep(POLL_SECONDS)

    def _is_whole(self) -> bool:
        try:
            state = self._state()
        except (OSError, LookupError):  # it does not answer, or does not know yet
            return False
        return state["FSState"] == "Operational" and state["NumLiveDataNodes"] == len(self._ports)

    def _state(self) -> dict[str, Any]:
        query = "Hadoop:service=NameNode,name=FSNamesystemState"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/jmx?qry={query}", timeout=30) as answer:
            state: dict[str, Any] = json.load(answer)["beans"][0]
            return state

    def client(self) -> Client:
        """A new client."""
        return Client(self.uri, self.configuration)

    def new_directory(self, *, owner: str = SUPERUSER, group: str = "supergroup", mode: int = 0o755) -> str:
        """Makes an empty directory; its URI."""
        self._made += 1
        path = f"/tests/{os.getpid()}-{self._made}"
        client = self.client()
        client.mkdirs(path, mode, create_parent=True)
        client.set_permission(path, mode)
        client.set_owner(path, owner, group)
        return self.uri + path

    def safe_mode(self, *, on: bool) -> None:
        """Lets the name node refuse all changes, or take them again."""
        self.admin("-safemode", "enter" if on else "leave")

    def empty_trash_after(self, minutes: int) -> None:
        """Lets the name node keep a trash for its users, or with 0 none, for which it is started anew.

        A client goes on with what it was told before.
        """
        write_site(self.conf_dir / "core-site.xml", self.configuration | self._core() | {TRASH_INTERVAL: str(minutes)})
        self.name_node.kill()
        self.start()

    def set_quota(self, path: str, *, names: int | None = None, space: int | None = None) -> None:
        """Limits the names below a directory (itself included) and its bytes, all replicas counted; None: no limit."""
        for what, limit in (("Quota", names), ("SpaceQuota", space)):
            if limit is not None:
                self.admin(f"-set{what}", str(limit), path)
                self._limited.add((path, what))
            elif (path, what) in self._limited:  # each command starts a virtual machine
                self.admin(f"-clr{what}", path)
                self._limited.discard((path, what))

    def admin(self, *arguments: str) -> str:
        """``hdfs dfsadmin``; what it printed. Raises ServerError when it fails. It takes some 2 s."""
        return self.tool(ADMIN, *arguments)

    def shell(self, *arguments: str) -> str:
        """``hdfs dfs``; what it printed. Raises ServerError when it fails. It takes some 2 s."""
        return self.tool(SHELL, *arguments)

    def tool(self, main: str, *arguments: str) -> str:
        """Runs a main class of Hadoop; what it printed. Raises ServerError when it fails."""
        command = [*self._java("tool"), main, *arguments]
        ran = subprocess.run(command, env=_environment(), cwd=self._directory, capture_output=True, text=True)
        if ran.returncode:
            raise ServerError(f"Cannot run {main} {' '.join(arguments)}: it said {ran.stdout}{ran.stderr}")
        return ran.stdout

    def memory_mb(self) -> int:
        """The resident memory of all that runs."""
        return sum(node.memory_mb() for node in (self.name_node, *self.data_nodes) if node.pid is not None)

    def _prepare(self) -> None:
        for pages in _PAGES:
            (self.conf_dir / pages).mkdir(parents=True)
        (self._directory / "tmp").mkdir()
        write_site(self.conf_dir / "core-site.xml", self.configuration | self._core())
        write_site(self.conf_dir / "hdfs-site.xml", self._site() | self._given)
        self.tool(NAME_NODE, "-format", "-nonInteractive")
        self._name_node = self._node("name-node", NAME_NODE, port=self.port)
        nodes = []
        for number, port in enumerate(self._ports):
            place = f"dfs.datanode.data.dir={self._directory / f'data-{number}'}"
            address = f"dfs.datanode.address=127.0.0.1:{port}"
            nodes.append(self._node(f"data-node-{number}", DATA_NODE, "-D", place, "-D", address, port=port))
        self._data_nodes = tuple(nodes)

    def _node(self, name: str, main: str, *arguments: str, port: int) -> ServerProcess:
        return ServerProcess(
            f"the {name} of HDFS",
            command=[*self._java(name), main, *arguments],
            log=self._directory / f"{name}.log",
            ready=lambda: listens(port),
            environment=_environment(),
            directory=self._directory,
        )

    def _java(self, name: str) -> list[str]:
        jars = sorted(str(jar) for jar in (brought("hdfs") / "lib").glob("*.jar"))
        return java_command(
            heap=_HEAP,
            options=(
                *(() if self.realm is None else self.realm.java_options),
                f"-Djava.io.tmpdir={self._directory / 'tmp'}",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dorg.slf4j.simpleLogger.showDateTime=true",
            ),
            class_path=[str(self.conf_dir), *jars],
            arguments=self._directory / f"{name}.class-path",
        )

    def _core(self) -> dict[str, str]:
        return {
            "hadoop.tmp.dir": str(self._directory / "tmp"),
            "hadoop.user.group.static.mapping.overrides": _GROUPS,
            "ipc.client.connect.max.retries": "3",
            "fs.getspaceused.classname": "org.apache.hadoop.fs.DFCachingGetSpaceUsed",  # no `du` every now and then
        }

    def _site(self) -> dict[str, str]:
        return {
            "dfs.namenode.name.dir": f"{self._directory / 'name'}",
            "dfs.namenode.rpc-address": self.authority,
            "dfs.namenode.http-address": f"127.0.0.1:{self.web_port}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.safemode.threshold-pct": "1",  # by default few blocks are none
            "dfs.namenode.safemode.min.datanodes": str(len(self._ports)),
            "dfs.namenode.fs-limits.min-block-size": "1024",
            # a data node that is gone is known to be so after twice this and ten heartbeats
            "dfs.namenode.heartbeat.recheck-interval": "1000",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.namenode.handler.count": "4",
            **({} if self.realm is None else self._keys(self.realm)),
        }

    def _secure(self, realm: Kdc) -> dict[str, str]:
        """What clients know of a cluster with Kerberos."""
        return {
            "hadoop.security.authentication": "kerberos",
            "dfs.namenode.kerberos.principal": f"{SERVICE}@{realm.realm}",
            "dfs.data.transfer.protection": "authentication",
        }

    def _keys(self, realm: Kdc) -> dict[str, str]:
        keytab, web = str(realm.keytab(SERVICE, WEB)), f"{WEB}@{realm.realm}"
        return {
            "dfs.namenode.keytab.file": keytab,
            "dfs.datanode.keytab.file": keytab,
            "dfs.datanode.kerberos.principal": f"{SERVICE}@{realm.realm}",
            "dfs.web.authentication.kerberos.principal": web,
            "dfs.web.authentication.kerberos.keytab": keytab,
            "dfs.namenode.kerberos.internal.spnego.principal": web,
            "dfs.block.access.token.enable": "true",
            "dfs.namenode.delegation.token.always-use": "true",
            # neither ports of root nor certificates
            "ignore.secure.ports.for.testing": "true",
        }


def _environment() -> dict[str, str]:
    """Settings of its own only, wherever the tests run."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HIVE_", "HADOOP_"))}
    return own | {"TZ": "UTC"}
