"""The servers of the tests: that they start, answer SQL exactly, come back, and never outlive the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from long_runs import in_a_long_run
from servers import jars, java
from servers.errors import ServerError
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.process import ServerProcess, listens
from servers.sql import SqlError

from acidlib.acid.names import Generation

TESTS = Path(__file__).parents[1]


def wait_for(what: Callable[[], bool], *, seconds: float = 300) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    """Whether no process has this number any more, or only a dead one that nobody waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.live
# that of Hive 3.1 does so below
@in_a_long_run  # others need it
@pytest.mark.parametrize("name", ["hive3_metastore", "hive4_metastore"])
def test_a_metastore_comes_back_on_its_port(name: str, request: pytest.FixtureRequest) -> None:
    metastore: Metastore = request.getfixturevalue(name)
    uri, pid = metastore.uri, metastore.pid
    with psycopg.connect(metastore.database_url.replace("+psycopg", "")) as connection:
        assert connection.execute('SELECT count(*) FROM "DBS"').fetchone() == (1,)
    metastore.kill()
    assert not listens(metastore.port)
    metastore.start()
    assert listens(metastore.port)
    assert metastore.uri == uri
    assert metastore.pid not in (None, pid)
    assert uri in (metastore.conf_dir / "hive-site.xml").read_text()


@pytest.mark.live
@in_a_long_run  # others need it
def test_changes_of_a_transactional_table_and_its_requests(hiveserver: HiveServer) -> None:
    with hiveserver.hive.session() as hive:
        hive.run("CREATE TABLE changed (k int, v string) STORED AS orc TBLPROPERTIES ('transactional' = 'true')")
        hive.run("INSERT INTO changed VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        hive.run("UPDATE changed SET v = 'TWO' WHERE k = 2")
        hive.run("DELETE FROM changed WHERE k = 3")
        rows = hive.run("SELECT ROW__ID.writeId, ROW__ID.rowId, k, v FROM changed ORDER BY k")
        assert rows == [(1, 0, 1, "one"), (2, 0, 2, "TWO")]
        place = hiveserver.metastore.warehouse / "changed"
        assert {path.name for path in place.iterdir()} == {
            "delta_0000001_0000001_0000",
            "delta_0000002_0000002_0001",
            "delete_delta_0000002_0000002_0000",
            "delete_delta_0000003_0000003_0000",
        }

        hive.run("ALTER TABLE changed COMPACT 'major'")
        queue = hive.run("SHOW COMPACTIONS")
        places = [hive.columns.index(name) for name in ("dbname", "tabname", "type", "state")]
        assert [tuple(row[place] for place in places) for row in queue] == [
            ("default", "changed", "MAJOR", "initiated")  # nobody takes it: the worker has a pool of its own
        ]
        hive.run("DROP TABLE changed")


VALUES = {
    "cast('2020-01-01 00:00:00.123456789' AS timestamp)": "2020-01-01 00:00:00.123456789",
    "cast('0001-01-02' AS date)": "0001-01-02",
    "cast(12.50 AS decimal(38,3))": Decimal("12.500"),
    "cast(9223372036854775807 AS bigint)": 2**63 - 1,
    "unhex('ff00')": b"\xff\x00",
    "cast('a' AS binary)": b"a",
    "cast(NULL AS decimal(3,1))": None,
    "array(1, 2)": "[1,2]",
    "named_struct('x', cast(NULL AS int))": '{"x":null}',
    "1.0E300D": 1e300,
    "true": True,
    "'\u00e9\U0001f600'": "\u00e9\U0001f600",
}


@pytest.mark.live
def test_values_are_exact(hiveserver: HiveServer) -> None:
    (found,) = hiveserver.hive.run(f"SELECT {', '.join(VALUES)}")
    assert found == tuple(VALUES.values())
    assert list(map(type, found)) == list(map(type, VALUES.values()))


@pytest.mark.live
def test_a_failed_statement_names_itself_and_the_reason(hiveserver: HiveServer) -> None:
    with pytest.raises(SqlError, match=r"(?s)SELECT \* FROM nowhere.*Table not found"):
        hiveserver.hive.run("SELECT * FROM nowhere")


@pytest.mark.live
def test_settings_last_for_a_session(hiveserver: HiveServer) -> None:
    with hiveserver.hive.session({"hive.query.name": "mine"}) as hive:
        assert hive.run("SET hive.query.name") == [("hive.query.name=mine",)]


@pytest.mark.live
@in_a_long_run  # others need it
def test_two_metastores_share_a_database(servers: Servers, hive3_metastore: Metastore) -> None:
    with servers.metastore(Generation.HIVE3, beside=hive3_metastore) as second:
        assert second.uri != hive3_metastore.uri
        assert second.database_url == hive3_metastore.database_url
        assert second.warehouse == hive3_metastore.warehouse
    assert listens(hive3_metastore.port)
    hive3_metastore.restart()  # its database is still there


@pytest.mark.live
def test_servers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    program = """
import time
from servers.postgres import Postgres
cluster = Postgres()
cluster.start()
print(cluster.pid, cluster.home, flush=True)
time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, text=True
    ) as runner:
        assert runner.stdout is not None
        pid, home = runner.stdout.readline().split()
        assert not is_gone(int(pid))
        runner.send_signal(signal.SIGKILL)
    wait_for(lambda: is_gone(int(pid)))
    wait_for(lambda: not Path(home).exists())


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    server = ServerProcess(
        "the thing",
        command=["sh", "-c", "echo no such luck; exit 3"],
        log=tmp_path / "log",
        ready=lambda: False,
        environment=os.environ,
        directory=tmp_path,
    )
    with pytest.raises(ServerError, match=r"(?s)Cannot start the thing: it ended with status 3;.*no such luck"):
        server.start()
    assert server.pid is None


def test_without_maven_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=r"^Cannot bring the jars of hive3: Maven is needed.*$"):
        jars.hive_release("hive3")


@pytest.mark.parametrize(
    ("home", "reason"),
    [
        (None, "JAVA_HOME is not set and no java is on the PATH"),
        ("old", r"\S+/old/bin/java is Java 8"),
        ("none", r"\S+/none/bin/java is no Java"),
    ],
)
def test_without_a_jdk_one_line_says_so(
    home: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "old" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=f"^Cannot run Hive: a JDK 17 or newer is needed, and {reason}$"):
        java.java_home.__wrapped__()
