"""A private PostgreSQL cluster for one test session; every metastore gets a database of its own in it.

The programs are those of the machine when there are any, else those of the package ``pgserver``. PostgreSQL refuses to
run as root: root starts it as another user, whose files then lie outside of any private directory.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from servers.errors import ServerError
from servers.guard import GUARD
from servers.process import ServerProcess, free_port

USER = "hive"
GUARDED = "guarded"
# nothing here survives the session, so nothing needs to reach the disk
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}
# root runs it as one of these; the first that the machine knows
OTHER_USERS = ("postgres", "nobody")


class Postgres:
    """One cluster on a free port of 127.0.0.1; the user ``hive`` may do everything.

    Nobody needs a password but a user of the name `GUARDED`, whom a test may make.
    """

    def __init__(self) -> None:
        """Starts nothing yet."""
        self.home: Path | None = None
        """Where its files are while it runs."""
        self._server: ServerProcess | None = None
        self._templates: dict[tuple[Path, ...], str] = {}
        self._numbers = itertools.count(1)
        self.port = 0

    def start(self) -> None:
        """Makes the cluster and starts it. Raises ServerError."""
        if self._server is not None:
            return
        # not in pytest's own directory: only its owner may enter that
        self.home = home = Path(tempfile.mkdtemp(prefix="tests-postgres-"))
        GUARD.directory(str(home))
        try:
            self._server = self._started(home)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the cluster and removes it."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self.home is not None:
            shutil.rmtree(self.home, ignore_errors=True)
            self.home = None
        self._templates.clear()

    @property
    def pid(self) -> int | None:
        """The main process, or None when it does not run."""
        return None if self._server is None else self._server.pid

    def memory_mb(self) -> int:
        """The resident memory of the main process. Raises ServerError when it does not run."""
        if self._server is None:
            raise ServerError("Cannot measure PostgreSQL: it does not run")
        return self._server.memory_mb()

    def jdbc_url(self, database: str) -> str:
        """How Java reaches a database."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}"

    def database_url(self, database: str) -> str:
        """How SQLAlchemy reaches a database."""
        return f"postgresql+psycopg://{USER}:{USER}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """A connection that commits every statement."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True, connect_timeout=10
        )

    def new_database(self, *scripts: Path) -> str:
        """Makes a database, with the tables of these scripts; they run once and their result is copied."""
        return self._create("test", self._template(scripts) if scripts else None)

    def drop_database(self, name: str) -> None:
        """Removes a database, whoever is connected."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _template(self, scripts: tuple[Path, ...]) -> str:
        if scripts not in self._templates:
            name = self._create("schema", None)
            with self.connect(name) as connection:
                for script in scripts:
                    connection.execute(script.read_bytes())  # without parameters: the server takes many statements
            self._templates[scripts] = name
        return self._templates[scripts]

    def _create(self, prefix: str, template: str | None) -> str:
        name = f"{prefix}{next(self._numbers)}"
        source = sql.Identifier(template or "template1")
        with self.connect() as connection:
            copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), source)
            if connection.info.server_version >= 150_000:  # before it was the only way; logging each page costs more
                copy += sql.SQL(" STRATEGY FILE_COPY")
            connection.execute(copy)
        return name

    def _started(self, home: Path) -> ServerProcess:
        user, group = _other_user()
        programs = _programs(home, user, group)
        data = home / "data"
        data.mkdir(mode=0o700)
        if user is not None and group is not None:
            home.chmod(0o755)
            os.chown(data, user, group)
        environment = {**os.environ, "LC_ALL": "C", "PGTZ": "UTC"}
        made = subprocess.run(
            [programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            env=environment,
            cwd=data,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            capture_output=True,
            text=True,
        )
        if made.returncode:
            raise ServerError(f"Cannot make a PostgreSQL cluster: initdb says: {made.stderr.strip()[-1000:]}")
        rules = data / "pg_hba.conf"
        rules.write_text(f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.port = free_port()
        server = ServerProcess(
            "PostgreSQL",
            command=[str(programs / "postgres"), "-D", str(data), "-p", str(self.port), *_options()],
            log=home / "log",
            ready=self._answers,
            environment=environment,
            directory=data,
            user=user,
            group=group,
            stop_signal=signal.SIGINT,  # ends the connections and does not wait for the clients
        )
        server.start()
        return server

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


def _options() -> Iterator[str]:
    for name, value in SETTINGS.items():
        yield from ("-c", f"{name}={value}")


def _other_user() -> tuple[int | None, int | None]:
    """The user and group to run as: None and None for the present one."""
    if os.geteuid() != 0:
        return None, None
    for name in OTHER_USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    raise ServerError(f"Cannot run PostgreSQL as root: the machine has no user {' or '.join(OTHER_USERS)}")


def _programs(home: Path, user: int | None, group: int | None) -> Path:
    """The directory of the programs that this user can run; those of pgserver are copied when they lie too deep."""
    for directory in _installed():
        if _runs(directory, user, group):
            return directory
    package = _pgserver()
    if package is None:
        raise ServerError("Cannot run PostgreSQL: the machine has none and the package pgserver is missing")
    bundled = package / "pginstall" / "bin"
    if _runs(bundled, user, group):
        return bundled
    # the programs find their libraries by the way from one directory to the other
    for directory in (package / "pginstall", package.with_name("pgserver.libs")):
        if directory.is_dir():
            shutil.copytree(directory, home / directory.relative_to(package.parent))
    home.chmod(0o755)
    copied = home / "pgserver" / "pginstall" / "bin"
    if not _runs(copied, user, group):
        raise ServerError(f"Cannot run PostgreSQL: the programs of pgserver do not run, not even from {copied}")
    return copied


def _installed() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    versions = (path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal())
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)


def _pgserver() -> Path | None:
    found = importlib.util.find_spec("pgserver")  # not imported: only its files are used
    return Path(found.origin).parent if found is not None and found.origin is not None else None


def _runs(programs: Path, user: int | None, group: int | None) -> bool:
    groups: list[int] | None = None if user is None else []
    try:
        for program in ("initdb", "postgres"):
            subprocess.run(
                [programs / program, "--version"],
                cwd="/",
                user=user,
                group=group,
                extra_groups=groups,
                capture_output=True,
                check=True,
                timeout=60,
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
