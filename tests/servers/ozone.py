"""A small Ozone: one process with all of it, and HttpFS in another, which a test may stop."""

from __future__ import annotations

import getpass
import os
import subprocess
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from acidlib.stores.renaming.ozone_client import HTTPFS
from servers.daemon import OFS
from servers.errors import ServerError
from servers.jars import brought, compiled
from servers.java import java_command, java_home
from servers.process import PORTS, ServerProcess, Startable, free_port, listens
from servers.settings import write_site

HTTP_FS = "org.apache.ozone.fs.http.server.HttpFSServerWebServer"
FILE_SYSTEM = "org.apache.hadoop.fs.ozone.RootedOzoneFileSystem"
SHELL = "org.apache.hadoop.fs.FsShell"
USER = getpass.getuser()
"""Who may do everything: the user of the servers, who runs the tests."""
_LOG = """\
log4j.rootLogger=ERROR, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %5p [%t] %c{2}: %m%n
"""
_PORTS = 40
"""How many ports it takes, one after the other; they may be taken meanwhile, so it is tried again."""
_TRIES = 3
_PROXY = {f"hadoop.proxyuser.{USER}.{what}": "*" for what in ("hosts", "groups")}


class Ozone(Startable):
    """Ozone on 127.0.0.1, with a volume `tests` and in it a bucket of each layout: `fso`, `legacy` and `obs`.

    Users are who they say they are. HttpFS keeps its port when it is started again.
    """

    def __init__(self, directory: Path) -> None:
        """Starts nothing yet; ``directory`` is its own."""
        self._directory = directory
        self._cluster: ServerProcess | None = None
        self._http: ServerProcess | None = None
        self._address = ""
        self._made = 0
        self.port = free_port()
        self.conf_dir = directory / "conf"
        """Holds core-site.xml and ozone-site.xml, as HADOOP_CONF_DIR does."""

    @property
    def authority(self) -> str:
        """Host and port of the manager."""
        return self._address

    @property
    def url(self) -> str:
        """Where HttpFS answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def uri(self) -> str:
        """The bucket with directories, without a slash at its end."""
        return f"ofs://{self.authority}/tests/fso"

    @property
    def configuration(self) -> dict[str, str]:
        """What a client needs to be told."""
        return {"ozone.om.address": self.authority, HTTPFS: self.url}

    @property
    def properties(self) -> dict[str, str]:
        """What a program of Hadoop needs to be told, which asks Ozone itself."""
        return {OFS: FILE_SYSTEM, "ozone.om.address": self.authority, "ozone.replication": "1"}

    @property
    def http_fs(self) -> ServerProcess:
        """The process of HttpFS, which may be killed and started; only after the first start."""
        assert self._http is not None
        return self._http

    def start(self) -> None:
        """Starts what does not run. Raises ServerError."""
        if self._cluster is None:
            self._start_cluster()
        self.http_fs.start()

    def stop(self) -> None:
        """Ends all of it at once; nobody needs the files any more."""
        for process in (self._http, self._cluster):
            if process is not None:
                process.kill()

    def new_directory(self, bucket: str = "fso") -> str:
        """Makes an empty directory; its URI."""
        self._made += 1
        path = f"/tests/{bucket}/{os.getpid()}-{self._made}"
        if not self._is_done("PUT", f"{path}?op=MKDIRS"):
            raise ServerError(f"Cannot make {path} in Ozone")
        return f"ofs://{self.authority}{path}"

    def shell(self, *arguments: str) -> str:
        """``ozone fs``, by a Java with no options of the tests; what it printed. Raises ServerError when it fails."""
        self._java("shell", self._directory / "servers", "1g")
        command = [str(java_home() / "bin" / "java"), f"@{self._directory / 'shell.class-path'}", SHELL, *arguments]
        ran = subprocess.run(command, env=_environment(), cwd=self._directory, capture_output=True, text=True)
        if ran.returncode:
            raise ServerError(f"Cannot run {SHELL} {' '.join(arguments)}: it said {ran.stdout}{ran.stderr}")
        return ran.stdout

    def memory_mb(self) -> int:
        """The resident memory of all that runs."""
        running = (process for process in (self._http, self._cluster) if process is not None and process.pid)
        return sum(process.memory_mb() for process in running)

    def _start_cluster(self) -> None:
        told = self._directory / "address"
        servers = self._directory / "servers"
        for directory in (self.conf_dir, servers, self._directory / "tmp", self._directory / "log"):
            directory.mkdir()
        write_site(servers / "core-site.xml", _PROXY)
        write_site(
            servers / "ozone-site.xml",
            {
                "ozone.acl.enabled": "true",
                "ozone.administrators": USER,
                "ozone.server.default.replication": "1",
                "ozone.replication": "1",
                "ozone.om.s3.grpc.server_enabled": "false",  # it would have a port that is always the same
                # else it takes no file unless 6 GB are free, of a disk in memory, too
                "ozone.scm.container.size": "64MB",
                "ozone.scm.block.size": "16MB",
                "ozone.scm.datanode.ratis.volume.free-space.min": "1MB",
                "hdds.datanode.volume.min.free.space": "1MB",
            },
        )
        (servers / "log4j.properties").write_text(_LOG)
        source = Path(__file__).parent / "java_classes" / "SmallOzone.java"
        own = compiled(source, [str(brought("ozone") / "lib" / "*")])
        java = self._java("cluster", servers, "512m", str(own))
        for left in reversed(range(_TRIES)):
            cluster = ServerProcess(
                "Ozone",
                command=[*java, "SmallOzone", str(told), str(_first_of_free_ports())],
                log=self._directory / "cluster.log",
                ready=told.is_file,
                environment=_environment(),
                directory=self._directory,
            )
            try:
                cluster.start()
                break
            except ServerError:
                if not left or "Address already in use" not in cluster.log.read_text():
                    raise
        self._cluster = cluster
        self._address = told.read_text()
        core = {"fs.defaultFS": f"ofs://{self._address}/", OFS: FILE_SYSTEM}
        write_site(servers / "core-site.xml", _PROXY | core)
        write_site(servers / "ozone-site.xml", {"ozone.om.address": self._address, "ozone.replication": "1"})
        write_site(
            servers / "httpfs-site.xml",
            {
                "httpfs.http.port": str(self.port),
                "httpfs.http.hostname": "127.0.0.1",
                "httpfs.buffer.size": str(1 << 20),
                **{f"httpfs.proxyuser.{USER}.{what}": "*" for what in ("hosts", "groups")},
            },
        )
        (servers / "httpfs-signature.secret").write_text("of the tests")
        (servers / "httpfs-log4j.properties").write_text(_LOG)
        write_site(self.conf_dir / "core-site.xml", {"fs.defaultFS": core["fs.defaultFS"]})
        write_site(self.conf_dir / "ozone-site.xml", {"ozone.om.address": self._address})
        directories = {"home": self._directory, "config": servers, "log": "log", "temp": "tmp"}
        options = [f"-Dhttpfs.{what}.dir={self._directory / path}" for what, path in directories.items()]
        self._http = ServerProcess(
            "HttpFS of Ozone",
            command=[*self._java("http-fs", servers, "192m", *options), HTTP_FS],
            log=self._directory / "http-fs.log",
            ready=self._answers,
            environment=_environment(),
            directory=self._directory,
        )

    def _answers(self) -> bool:
        try:
            return self._is_done("GET", "/?op=GETFILESTATUS")
        except (OSError, HTTPException):
            return False

    def _is_done(self, method: str, request: str) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/webhdfs/v1{request}&user.name={USER}")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def _java(self, name: str, conf: Path, heap: str, *more: str) -> list[str]:
        jars = sorted(str(jar) for jar in (brought("ozone") / "lib").glob("*.jar"))
        own = [text for text in more if not text.startswith("-")]
        return java_command(
            heap=heap,
            options=(
                f"-Djava.io.tmpdir={self._directory / 'tmp'}",
                f"-Dtest.build.data={self._directory / 'data'}",
                f"-Dhadoop.tmp.dir={self._directory / 'tmp'}",
                f"-Dlog4j.configuration=file:{conf / 'log4j.properties'}",
                *(text for text in more if text.startswith("-")),
            ),
            class_path=[str(conf), *own, *jars],
            arguments=self._directory / f"{name}.class-path",
        )


def _first_of_free_ports() -> int:
    """The first port of a row that nobody listens on now. Raises ServerError."""
    for _ in range(100):
        first = free_port()
        if first + _PORTS < PORTS.stop and not any(map(listens, range(first, first + _PORTS))):
            return first
    raise ServerError(f"Cannot start Ozone: there are no {_PORTS} free ports in a row")


def _environment() -> dict[str, str]:
    """Settings of its own only, wherever the tests run."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HIVE_", "HADOOP_", "OZONE_"))}
    return own | {"TZ": "UTC"}
