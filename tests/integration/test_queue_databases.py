"""The queue in real databases: PostgreSQL and MariaDB, in tables of our own and in those of a metastore of Hive 3.1.

What a queue does in any database is stated once, for SQLite too.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pytest
from claiming import claim_next
from hive_queue_behaviour import Hive, HiveQueueBehaviour, left, near_now, request, write_rows, write_txns
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore import ttypes
from located import at
from long_runs import amount, in_a_long_run
from queue_behaviour import QueueBehaviour
from servers.fleet import Servers
from servers.jars import hive_release
from servers.java import java_home
from servers.mariadb import MariaDb
from servers.metastore import Metastore
from servers.postgres import Postgres
from servers.process import free_port
from sqlalchemy import Connection, MetaData, create_engine, event, text, update
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from acidlib.acid.names import Generation
from acidlib.errors import ConflictError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.model.requests import CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.queue.metastore_database import MetastoreDatabase, Owner
from acidlib.queue.sql import Service, SqlQueue
from acidlib.queue.tables import COMPACTION_QUEUE

pytestmark = pytest.mark.live

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
UNPACK = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
HIVE_3 = "org.apache.hive:hive-standalone-metastore:3.1.3:tar.gz:bin"


# --- servers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mysql_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hive 3.1's script for MySQL, from the artifact that has the one for PostgreSQL."""
    name = "hive-schema-3.1.0.mysql.sql"
    beside = list(hive_release("hive3").schema.parents[1].rglob(name))
    if beside:
        return beside[0]
    place = tmp_path_factory.mktemp("schema")
    subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            UNPACK,
            f"-Dartifact={HIVE_3}",
            f"-DoutputDirectory={place}",
            f"-Dmdep.unpack.includes=**/{name}",
        ],
        env={**os.environ, "JAVA_HOME": str(java_home())},
        cwd=place,
        check=True,
    )
    return next(place.rglob(name))


KINDS = ("postgresql", "mariadb")


def _url(kind: str, asked: pytest.FixtureRequest, *, metastore: bool = False) -> str:
    if kind == "postgresql":
        postgres: Postgres = asked.getfixturevalue("postgres")
        return postgres.database_url(postgres.new_database(*([hive_release("hive3").schema] if metastore else [])))
    mariadb: MariaDb = asked.getfixturevalue("mariadb")
    return mariadb.url(mariadb.new_database(asked.getfixturevalue("mysql_script") if metastore else None))


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    """An empty database."""
    return _url(request.param, request)


@pytest.fixture(params=KINDS)
def hive(request: pytest.FixtureRequest) -> Hive:
    """The database of a metastore of Hive 3.1."""
    return Hive(_url(request.param, request, metastore=True))


@pytest.fixture(params=["sqlite", *KINDS, *(f"{kind} of hive" for kind in KINDS)])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/queue.db"
    kind, _, rest = request.param.partition(" ")
    return _url(kind, request, metastore=bool(rest))


@pytest.fixture
def opened(any_url: str) -> Iterator[SqlQueue]:
    with SqlQueue(any_url) as queue:
        yield queue


# --- what holds in any database ---------------------------------------------------------------------------------------


class TestOnTablesOfOurOwn(QueueBehaviour):
    """What holds for SQLite holds for a server."""

    @pytest.fixture
    def queue(self, url: str) -> Iterator[SqlQueue]:
        with SqlQueue(url) as opened:
            yield opened


class TestOnTablesOfHive(HiveQueueBehaviour):
    """What holds for the imitation holds for the real tables."""

    @pytest.fixture
    def queue(self, hive: Hive) -> Iterator[SqlQueue]:
        with SqlQueue(hive.url) as opened:
            yield opened


# --- many at once -----------------------------------------------------------------------------------------------------

WORKERS, REQUESTS = 4, amount(60, long=400)
REQUESTS_OF_BOTH = amount(20, long=60)
AtOnce = Callable[..., list[Any]]


def _drain(url: str, worker: str, gate: str) -> list[int]:
    """What it takes until nothing is left; after the first, each waits until all have one."""
    taken: list[int] = []
    with SqlQueue(url) as queue:
        _wait_for(gate)
        while (claimed := claim_next(queue, MAJOR, worker, 1)) is not None:
            assert (claimed.state, claimed.worker_id) == (State.WORKING, worker)
            taken.append(claimed.id)
            facts = RequestFacts(reason=worker)
            queue.mark_compacted(claimed.id, worker, 2, highest_write_id=claimed.id, facts=facts)
            Path(f"{gate} taken by {worker}").touch()
            while len(taken) == 1 and len(list(Path(gate).parent.glob(f"{Path(gate).name} taken by *"))) < WORKERS:
                time.sleep(0.001)
    return taken


def _clean(url: str, gate: str) -> int:
    done = 0
    with SqlQueue(url) as queue:
        _wait_for(gate)
        for row in queue.ready_for_cleaning():
            try:
                queue.end(row.id, State.SUCCEEDED, 3)
            except ConflictError:
                continue
            done += 1
    return done


def _enqueue(url: str, gate: str) -> list[tuple[int, bool]]:
    _wait_for(gate)
    with SqlQueue(url) as queue:
        answers = [queue.enqueue(request(f"t{number}"), now_ms=1) for number in range(REQUESTS // 4)]
    return [(answer.id, answer.accepted) for answer in answers]


def _wait_for(gate: str) -> None:
    """Until the parent opens the gate: all begin at the same moment."""
    Path(f"{gate}.{os.getpid()}").touch()
    while not Path(gate).exists():
        time.sleep(0.001)


@pytest.fixture(scope="module")
def processes() -> Iterator[Pool]:
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        yield pool


@pytest.fixture
def at_once(processes: Pool, tmp_path: Path) -> AtOnce:
    """Runs a task in several processes that begin at the same moment; the results in the order of the arguments."""
    rounds = itertools.count()

    def run(task: Callable[..., Any], *arguments: tuple[object, ...]) -> list[Any]:
        gate = tmp_path / f"gate{next(rounds)}"
        running = [processes.apply_async(task, (*given, str(gate))) for given in arguments]
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob(f"{gate.name}.*"))) < len(arguments):
            assert time.monotonic() < deadline, "the processes do not come up"
            time.sleep(0.01)
        gate.touch()
        return [one.get(timeout=300) for one in running]

    return run


def test_processes_never_take_the_same_request(opened: SqlQueue, any_url: str, at_once: AtOnce) -> None:
    for number in range(REQUESTS):
        opened.enqueue(request(f"t{number}"), now_ms=1)
    parts = at_once(_drain, *((any_url, f"w-{number}") for number in range(WORKERS)))
    assert sorted(number for part in parts for number in part) == list(range(1, REQUESTS + 1))
    assert all(parts)
    by = {number: f"w-{worker}" for worker, part in enumerate(parts) for number in part}
    assert all(row.facts.reason == by[row.id] for row in opened.ready_for_cleaning())
    assert sum(at_once(_clean, *([(any_url,)] * WORKERS))) == REQUESTS
    assert [row.state for row in opened.show()] == [State.SUCCEEDED] * REQUESTS


def test_processes_that_open_and_enqueue_at_once(any_url: str, at_once: AtOnce) -> None:
    answers = at_once(_enqueue, *([(any_url,)] * WORKERS))
    numbers = list(range(1, REQUESTS // 4 + 1))
    assert sorted(number for part in answers for number, taken in part if taken) == numbers
    for part in answers:
        assert sorted(number for number, _ in part) == numbers


def test_what_is_shown_is_of_one_moment(url: str) -> None:
    """A row that goes from the queue to the history while both are read is seen once."""
    with SqlQueue(url) as queue, SqlQueue(url) as other:
        queue.enqueue(request(), now_ms=1)
        other.claim_id(1, "w", 1)
        other.mark_compacted(1, "w", 1)
        read: list[str] = []

        def between(connection: Connection, cursor: object, statement: str, *rest: object) -> None:
            if "COMPACTION_QUEUE" in statement:
                read.append(statement)
                other.end(1, State.SUCCEEDED, 2)

        event.listen(queue._database._engine, "after_cursor_execute", between, once=True)
        (row,) = queue.show()
        assert len(read) == 1
        assert row.state is State.READY_FOR_CLEANING
        assert [row.state for row in queue.show()] == [State.SUCCEEDED]


def test_who_gives_way_to_another_tries_again(url: str) -> None:
    """Two transactions lock two rows in opposite order; the database ends one, and it is done anew."""
    barrier = threading.Barrier(2, timeout=60)
    tries: list[int] = []

    def cross(first: int, second: int) -> None:
        with SqlQueue(url) as queue:
            met = False

            def work(connection: Connection) -> None:
                nonlocal met
                tries.append(first)
                for number in (first, second):
                    connection.execute(
                        update(COMPACTION_QUEUE)
                        .where(COMPACTION_QUEUE.c["CQ_ID"] == number)
                        .values(CQ_START=COMPACTION_QUEUE.c["CQ_START"] + 1)
                    )
                    if not met:
                        met = True
                        barrier.wait()

            queue._database.write("test", work)

    with SqlQueue(url) as queue:
        for number in (1, 2):
            queue.enqueue(request(f"t{number}"), now_ms=1)
            queue.claim_id(number, "w", 10)
        threads = [threading.Thread(target=cross, args=pair) for pair in ((1, 2), (2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [row.start_ms for row in queue.show()] == [12, 12]
    assert len(tries) >= 3  # more when the one that gave way was faster than the one that waits


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_connection_that_is_lost_while_committing(url: str) -> None:
    with SqlQueue(url) as queue, SqlQueue(url) as other:
        queue.enqueue(request(), now_ms=1)
        engine = queue._database._engine
        postgresql = url.startswith("postgresql")

        def cut(connection: Connection) -> None:
            number = connection.scalar(text("SELECT pg_backend_pid()" if postgresql else "SELECT CONNECTION_ID()"))
            with other._database._engine.begin() as killer:
                killer.execute(text(f"SELECT pg_terminate_backend({number})" if postgresql else f"KILL {number}"))

        event.listen(engine, "commit", cut, once=True)
        with pytest.raises(UnknownOutcomeError, match="the connection was lost while committing") as caught:
            queue.claim_id(1, "w", 1)
        assert "\n" not in str(caught.value)
        assert [row.state for row in queue.show()] == [State.INITIATED]  # and it goes on


def test_a_server_that_is_away(url: str) -> None:
    away = url.replace(url.rpartition(":")[2].partition("/")[0], str(free_port())).replace(":hive@", ":secret@")
    with pytest.raises(RetryError, match="the database said: ") as caught:
        SqlQueue(away)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_that_does_not_exist(url: str) -> None:
    with pytest.raises(RetryError, match=r"the database said: .*nowhere") as caught:
        SqlQueue(url.rpartition("/")[0] + "/nowhere")
    assert "\n" not in str(caught.value)


def test_values_that_do_not_fit_are_refused(url: str) -> None:
    with SqlQueue(url) as queue:
        queue.enqueue(request(), now_ms=1)
        queue.claim_id(1, "w", 1)
        with pytest.raises(RefusedError, match=r"run as \(129 characters\)"):
            queue.change(1, "w", run_as="x" * 129)
        with pytest.raises(RefusedError, match="the database said: "):
            queue.mark_compacted(1, "w", 1, highest_write_id=2**63)
        long = "é" * 100_000
        queue.change(1, "w", facts=RequestFacts(reason=long))
        assert queue.show()[0].facts.reason == long


def test_text_that_the_metastores_tables_cannot_hold(hive: Hive) -> None:
    """The script for MySQL makes them Latin-1: what does not fit is refused, whatever the server is told to do then."""
    if hive.url.startswith("postgresql"):
        with SqlQueue(hive.url) as queue:
            assert queue.enqueue(request(location="/w/東京"), now_ms=1).accepted
            assert queue.show()[0].facts.location == at("/w/東京")
        return
    ((mode,),) = hive.run("SELECT @@GLOBAL.sql_mode")
    for lenient in (str(mode), ""):
        hive.run(f"SET GLOBAL sql_mode = '{lenient}'")
        try:
            with SqlQueue(hive.url) as queue:
                with pytest.raises(RefusedError, match="the database said: "):
                    queue.enqueue(request(location="/w/東京"), now_ms=1)
                assert queue.show() == ()
        finally:
            hive.run(f"SET GLOBAL sql_mode = '{mode}'")


def test_a_reader_needs_no_right_to_write(postgres: Postgres) -> None:
    name = postgres.new_database(hive_release("hive3").schema)
    with postgres.connect(name) as connection:
        connection.execute("CREATE ROLE onlooker LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO onlooker")
    with SqlQueue(postgres.database_url(name)) as queue:
        queue.enqueue(request(), now_ms=1)
    with SqlQueue(postgres.database_url(name).replace("hive:hive@", "onlooker@")) as queue:
        assert len(queue.show()) == 1
        with pytest.raises(RetryError, match="permission denied"):
            queue.claim_id(1, "w", 1)


def test_a_schema_of_its_own(postgres: Postgres) -> None:
    """By the search path, in a database that holds other things."""
    name = postgres.new_database()
    with postgres.connect(name) as connection:
        connection.execute("CREATE SCHEMA compaction")
    url = postgres.database_url(name)
    with SqlQueue(f"{url}?options=-csearch_path%3Dcompaction") as queue:
        assert queue.enqueue(request(), now_ms=1).id == 1
    with SqlQueue(url) as queue:
        assert queue.show() == ()
    with postgres.connect(name) as connection:
        found = connection.execute(
            "SELECT schemaname, count(*) FROM pg_tables WHERE tablename ~* 'compact|aux' GROUP BY 1"
        )
        assert sorted(found.fetchall()) == [("compaction", 4), ("public", 4)]


def test_a_hive_4_metastore_is_refused(postgres: Postgres) -> None:
    name = postgres.new_database(hive_release("hive4").schema)
    with pytest.raises(RefusedError, match=r"schema version is 4\.0\.0; use the metastore over thrift"):
        SqlQueue(postgres.database_url(name))


# --- beside Hive ------------------------------------------------------------------------------------------------------


def test_a_service_works_alone(hive: Hive) -> None:
    with SqlQueue(hive.url) as one, SqlQueue(hive.url) as other:
        with one.alone(Service.CLEANER):
            with pytest.raises(ConflictError, match=r"Cannot run the Cleaner on the queue .*: another process"):
                other.alone(Service.CLEANER).__enter__()
            with other.alone(Service.INITIATOR):
                assert one.enqueue(request(), now_ms=1).accepted
        with other.alone(Service.CLEANER):
            assert one.claim_id(1, "w", 1) is not None
        assert hive.run("SELECT MT_KEY1, MT_KEY2 FROM AUX_TABLE ORDER BY MT_KEY1") == [
            ("Cleaner", 0),
            ("CompactionScheduler", 0),
            ("Initiator", 0),
        ]


def test_a_lock_that_is_lost_ends_quietly(hive: Hive) -> None:
    with SqlQueue(hive.url) as queue, SqlQueue(hive.url) as other:
        with queue.alone(Service.CLEANER):
            _kill_others(hive)
            with other.alone(Service.CLEANER):
                pass
        assert queue.show() == ()


def _kill_others(hive: Hive) -> None:
    """Ends all connections to a database but the one that asks."""
    if hive.url.startswith("postgresql"):
        hive.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return
    others = hive.run("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()")
    for (number,) in others:
        hive.run(f"KILL {number}")


OF_A_METASTORE = {
    "DBS": ({"DB_ID": 1, "NAME": "db", "DB_LOCATION_URI": "/", "CTLG_NAME": "hive"},),
    "TBLS": ({"TBL_ID": 5, "DB_ID": 1, "TBL_NAME": "t", "CREATE_TIME": 9, "LAST_ACCESS_TIME": 0, "RETENTION": 0,
              "IS_REWRITE_ENABLED": False},),
    "PARTITIONS": tuple(
        {"PART_ID": number, "TBL_ID": 5, "PART_NAME": name, "CREATE_TIME": 9, "LAST_ACCESS_TIME": 0}
        for number, name in ((7, "p=a"), (8, "p=A"))
    ),
    "PARTITION_PARAMS": tuple(
        {"PART_ID": number, "PARAM_KEY": key, "PARAM_VALUE": value}
        for number in (7, 8) for key, value in (("numFiles", "3"), ("mine", "x"))
    ),
}  # fmt: skip


def test_single_parameters_of_a_partition_are_changed(hive: Hive) -> None:
    """Others stay, also of one whose name differs in case; what was changed or added meanwhile stays, too."""
    engine, schema = create_engine(hive.url), MetaData()
    schema.reflect(engine, only=list(OF_A_METASTORE))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("set session_replication_role = replica"))  # none of the tables that these are of
        for name, rows in OF_A_METASTORE.items():
            connection.execute(schema.tables[name].insert(), list(rows))

    def there() -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {7: {}, 8: {}}
        with engine.connect() as connection:
            for number, key, value in connection.execute(schema.tables["PARTITION_PARAMS"].select()):
                found[number][key] = value
        return found

    untouched, before = there()[8], there()[7]
    owner = Owner(catalog="hive", ref=TableRef("db", "t", "p=a"), created=9)
    with closing(MetastoreDatabase(hive.url)) as database:
        assert database.parameters(owner) == before
        database.change_parameters(owner, before, {"numFiles": "1", "totalSize": "5"})
        assert there() == {7: before | {"numFiles": "1", "totalSize": "5"}, 8: untouched}
        for changes, what in (({"numFiles": "2"}, "numFiles"), ({"mine": "y", "totalSize": "6"}, "totalSize")):
            with pytest.raises(
                ConflictError, match=f"^Cannot change statistics of db.t.p=a: another writer has changed {what}"
            ):
                database.change_parameters(owner, before, changes)
        assert there() == {7: before | {"numFiles": "1", "totalSize": "5"}, 8: untouched}
        assert database.parameters(replace(owner, created=8)) is None
    engine.dispose()


def test_one_that_is_not_hives_is_never_kept_waiting(url: str) -> None:
    with SqlQueue(url) as one, SqlQueue(url) as other, one.alone(Service.CLEANER), other.alone(Service.CLEANER):
        assert one.enqueue(request(), now_ms=1).accepted


@pytest.fixture
def client(hive3_metastore: Metastore) -> Iterator[HMSClient]:
    transport = TBufferedTransport(TSocket("127.0.0.1", hive3_metastore.port))
    with HMSClient(iprot=TBinaryProtocol(transport)) as opened:
        yield opened


def _compact(client: HMSClient, table: str, **more: object) -> ttypes.CompactionResponse:
    wanted = {"dbname": "db", "tablename": table, "type": ttypes.CompactionType.MINOR, **more}
    return client.compact2(ttypes.CompactionRequest(**wanted))


def _shown(client: HMSClient, number: int) -> ttypes.ShowCompactResponseElement:
    found = client.show_compact(ttypes.ShowCompactRequest()).compacts
    return next(one for one in found if one.id == number)


def test_hive_sees_what_we_do(hive3_metastore: Metastore, client: HMSClient) -> None:
    hive = Hive(hive3_metastore.database_url)
    with SqlQueue(hive3_metastore.database_url) as queue:
        answer = _compact(client, "seen", partitionname="p=1", properties={"compactor.k": "v"})
        assert (answer.accepted, answer.state) == (True, "initiated")
        number = answer.id
        assert not queue.enqueue(request("seen", partition="p=1"), now_ms=1).accepted
        claimed = claim_next(queue, MINOR, "acidlib-w", 1)
        assert claimed is not None
        assert (claimed.id, claimed.ref, claimed.properties) == (
            number,
            ("db", "seen", "p=1"),
            (("compactor.k", "v"),),
        )
        shown = _shown(client, number)
        assert (shown.state, shown.workerid, shown.start) == ("working", "acidlib-w", claimed.start_ms)
        assert near_now(shown.start)
        again = _compact(client, "seen", partitionname="p=1")
        assert (again.accepted, again.id, again.state) == (False, number, "working")
        queue.change(number, "acidlib-w", run_as="etl")
        queue.mark_compacted(number, "acidlib-w", 1, highest_write_id=3, facts=RequestFacts(outputs=("delta_1_3",)))
        shown = _shown(client, number)
        assert (shown.state, shown.workerid, shown.runAs) == ("ready for cleaning", None, "etl")
        assert _compact(client, "seen", partitionname="p=1").accepted
        queue.end(number, State.SUCCEEDED, 1)
        shown = _shown(client, number)
        assert (shown.state, shown.start) == ("succeeded", claimed.start_ms)
        assert near_now(shown.endTime)
    assert (number, 3) in hive.run("SELECT CC_ID, CC_HIGHEST_WRITE_ID FROM COMPLETED_COMPACTIONS")


@pytest.mark.parametrize(
    ("end", "shown_as"),
    [("failed", "failed"), ("refused", "c"), ("given back", "initiated"), ("attempted", "attempted")],
)
def test_hive_shows_every_end_of_ours(hive3_metastore: Metastore, client: HMSClient, end: str, shown_as: str) -> None:
    table = end.replace(" ", "_")
    with SqlQueue(hive3_metastore.database_url) as queue:
        if end == "attempted":
            number = queue.record_not_initiated(request(table), "too many failures", 1)
        else:
            number = queue.enqueue(request(table, location="/w"), now_ms=1).id
            assert queue.claim_id(number, "acidlib-w", 1) is not None
        if end == "failed":
            queue.end(number, State.FAILED, 1, worker_id="acidlib-w", reason="Cannot read x")
        elif end == "refused":
            queue.end(number, State.REFUSED, 1, worker_id="acidlib-w", reason="nothing to do")
        elif end == "given back":
            queue.give_back(number, "acidlib-w")
    shown = _shown(client, number)
    assert (shown.state, shown.type) == (shown_as, ttypes.CompactionType.MAJOR)


@in_a_long_run  # whole runs forget as Hive's cleaner does among the tests of the service at Hive 3.1
def test_hives_own_cleaner_forgets_the_same(servers: Servers, postgres: Postgres) -> None:
    """The same rows of tables that are gone, cleaned by Hive in its database and by us in another."""
    requests = [("ds=a", 5), ("ds=A", 5), ("ds=a", None), (None, 5), (None, 0)]

    def seeded(hive: Hive) -> None:
        for number, (partition, mark) in enumerate(requests):
            # Hive aborts a transaction whose heart has stopped
            write_txns(hive, offset=1000 * number, heartbeat=4_000_000_000_000)
            for written_to in ("ds=A", "ds=a", None):
                write_rows(hive, written_to, table=f"t{number}", offset=1000 * number)
            given = {"TABLE": f"t{number}", "PARTITION": partition, "HIGHEST_WRITE_ID": mark, "START": 7}
            hive.queued(number + 1, STATE="r", RUN_AS="etl", TBLPROPERTIES="1:1:k1:v", **given)

    def done(hive: Hive) -> list[tuple[object, ...]]:
        columns = "CC_ID, CC_DATABASE, CC_TABLE, CC_PARTITION, CC_STATE, CC_TYPE, CC_TBLPROPERTIES, CC_WORKER_ID"
        more = "CC_START, CC_RUN_AS, CC_META_INFO, CC_HADOOP_JOB_ID, COALESCE(CC_HIGHEST_WRITE_ID, 0)"
        return hive.run(f"SELECT {columns}, {more} FROM COMPLETED_COMPACTIONS ORDER BY CC_ID")  # noqa: S608 # of this file

    ours = Hive(postgres.database_url(postgres.new_database(hive_release("hive3").schema)))
    seeded(ours)
    with SqlQueue(ours.url) as queue:
        for row in queue.ready_for_cleaning():
            queue.end(row.id, State.SUCCEEDED, 1)

    quiet = servers.metastore(Generation.HIVE3)
    theirs = Hive(quiet.database_url)
    seeded(theirs)
    busy = servers.metastore(Generation.HIVE3, beside=quiet, initiator_on=True, cleaner_on=True)
    try:
        deadline = time.monotonic() + 120
        while len(done(theirs)) < len(requests):
            assert time.monotonic() < deadline, "Hive's cleaner has not cleaned"
            time.sleep(0.2)
        assert left(ours) == left(theirs)
        assert done(ours) == done(theirs)
    finally:
        busy.stop()
        quiet.stop()


def test_an_id_that_hive_is_taking_is_waited_for(hive: Hive) -> None:
    """Hive marks what it never queued as failed without the scheduler's mutex: then the row of the next id counts."""
    ours: list[int] = []

    def enqueue() -> None:
        with SqlQueue(hive.url) as queue:
            ours.append(queue.enqueue(request(), now_ms=1).id)

    engine = create_engine(hive.url, isolation_level="READ COMMITTED")
    thread = threading.Thread(target=enqueue)
    with engine.begin() as connection:
        connection.execute(text("SELECT NCQ_NEXT FROM NEXT_COMPACTION_QUEUE_ID FOR UPDATE"))
        thread.start()
        thread.join(1)  # it has nothing to do but wait
        assert thread.is_alive()
        connection.execute(text("UPDATE NEXT_COMPACTION_QUEUE_ID SET NCQ_NEXT = 50"))
    thread.join(60)
    engine.dispose()
    assert ours == [50]


def test_ids_are_shared_with_hive(hive3_metastore: Metastore, client: HMSClient) -> None:
    """Both ask for ids at once; none is given twice."""
    ours: list[int] = []

    def enqueue() -> None:
        with SqlQueue(hive3_metastore.database_url) as queue:
            ours.extend(queue.enqueue(request(f"ours{number}"), now_ms=1).id for number in range(REQUESTS_OF_BOTH))

    thread = threading.Thread(target=enqueue)
    thread.start()
    theirs = [_compact(client, f"theirs{number}").id for number in range(REQUESTS_OF_BOTH)]
    thread.join(120)
    assert len({*ours, *theirs}) == 2 * REQUESTS_OF_BOTH
