"""A private MariaDB server for one test session, where the machine has its programs."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pymysql

from servers.elsewhere import Elsewhere, brought_file, schema_script
from servers.errors import ServerError
from servers.guard import GUARD
from servers.process import ServerProcess, free_port

DRIVER = "org.mariadb.jdbc:mariadb-java-client:2.7.12"

OTHER_USERS = ("mysql", "nobody")
"""Root runs it as one of these; the first that the machine knows."""


class MariaDb:
    """A private server on a free port of 127.0.0.1; the user `hive` may do everything."""

    def __init__(self) -> None:
        self.port = free_port()
        self._home = Path(tempfile.mkdtemp(prefix="tests-mariadb-"))
        GUARD.directory(str(self._home))
        self._server: ServerProcess | None = None
        self._number = 0

    @staticmethod
    def require_programs() -> None:
        """Raises ServerError where the machine has none of its programs."""
        program("mariadb-install-db", "mysql_install_db")

    def start(self) -> None:
        """Makes the data and starts it."""
        user = getpass.getuser() if os.geteuid() else _other_user()
        if not os.geteuid():
            shutil.chown(self._home, user)
        data = self._home / "data"
        install = [program("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={data}"]
        subprocess.run(
            [*install, f"--user={user}", "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True,
            check=True,
        )
        bootstrap = self._home / "init.sql"
        bootstrap.write_text(  # a statement per line
            "CREATE USER hive@'127.0.0.1' IDENTIFIED BY 'hive';\n"
            "GRANT ALL ON *.* TO hive@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        bootstrap.chmod(0o644)
        self._server = ServerProcess(
            "MariaDB",
            command=[
                program("mariadbd", "mysqld"),
                "--no-defaults",
                f"--datadir={data}",
                f"--user={user}",
                f"--port={self.port}",
                "--bind-address=127.0.0.1",
                f"--socket={self._home}/socket",
                f"--init-file={bootstrap}",
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-size=64M",
                "--skip-name-resolve",
            ],
            log=self._home / "log",
            ready=self._answers,
            environment=dict(os.environ),
            directory=self._home,
        )
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"mysql+pymysql://hive:hive@127.0.0.1:{self.port}/{database}"

    def new_database(self, script: Path | None = None) -> str:
        self._number += 1
        name = f"test{self._number}"
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            if script is not None:
                cursor.execute(f"USE {name}")
                cursor.execute(script.read_text())
                while cursor.nextset():
                    pass
        return name

    def for_a_metastore(self) -> Elsewhere:
        """A database for a metastore of Hive 4.0.1."""
        return Elsewhere(
            driver="org.mariadb.jdbc.Driver",
            jar=brought_file("copy", DRIVER, "mariadb-java-client-*.jar"),
            user="hive",
            password="hive",
            new=lambda: self.new_database(schema_script("mysql")),
            jdbc=lambda name: f"jdbc:mariadb://127.0.0.1:{self.port}/{name}",
            url=self.url,
        )

    def granted(self, database: str, user: str, *, select: Sequence[str], delete: Sequence[str]) -> str:
        """The URL of a database for another user, who may do that with these tables and no more."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{user}'")
            for right, tables in (("SELECT", select), ("DELETE", delete)):
                for table in tables:
                    cursor.execute(f"GRANT {right} ON {database}.{table} TO {user}@'127.0.0.1'")
        return self.url(database).replace("hive:hive@", f"{user}:{user}@")

    def connect(self) -> pymysql.Connection:
        flags = pymysql.constants.CLIENT.MULTI_STATEMENTS
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="hive", password="hive", client_flag=flags, autocommit=True
        )

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True


def _other_user() -> str:
    """MariaDB is not to run as root."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in OTHER_USERS if name in names)


def program(*names: str) -> str:
    """The path of the first of these programs that there is. Raises ServerError without one."""
    for name in names:
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/libexec")
        if found is not None:
            return found
    raise ServerError(f"Cannot start MariaDB: there is no program {' or '.join(names)} on this machine")
