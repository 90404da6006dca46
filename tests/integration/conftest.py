"""Jobs in this process with a queue of their own, and real servers for tests marked ``live``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from long_runs import amount
from servers.abfs import AbfsStub
from servers.errors import ServerError
from servers.fleet import Servers
from servers.gcs import GcsServer
from servers.gcs_door import GcsDoor
from servers.hdfs import Hdfs
from servers.hiveserver import HiveServer
from servers.kdc import Kdc
from servers.mariadb import MariaDb
from servers.metastore import Metastore
from servers.ozone import Ozone
from servers.postgres import Postgres
from servers.s3 import S3Server
from servers.sql import Session
from store_tables import StoreTables

from acidlib.acid.names import Generation
from acidlib.execute.spark import SparkRunner
from acidlib.metastore.hms import connect_hms
from acidlib.metastore.options import ConnectionOptions, KerberosLogin, Protection
from acidlib.metastore.transactions import TxnType
from integration.harness import AROUND, Jobs, probed, use_runner
from integration.hive3_site import METASTORES, OWN, Site, site
from integration.hive4_jobs import Service
from integration.hive4_model import Lake
from integration.hive4_proxy import Proxy
from integration.metastore_writes import Writes

Server = TypeVar("Server")
SHORT = 6
"""Seconds of the transaction timeout of metastores that are waited for."""
KERBEROS = amount([Generation.HIVE4], long=list(Generation))
"""Of which generations there are metastores that ask for Kerberos."""
OFFERED = ",".join(one.value for one in Protection)
"""That messages may be plain, signed and encrypted there."""
HIVE_POOL = "hive.compactor.worker.hive.threads"
"""The pool of Hive's own compactor, the default one is ours; Hive 4.0.1 calls a pool like the setting of its size."""
HIVESERVER = {
    "hive.in.test": "true",  # or hive.test.rollbacktxn does nothing
    HIVE_POOL: "1",
    "hive.compactor.worker.sleep.time": "1s",
    "hive.compactor.worker.max.sleep.time": "1s",
    "tez.counters.max": "2000",  # a query of many tables has many
}


@pytest.fixture(scope="module", autouse=True)
def nobody_waits_between_attempts() -> Iterator[None]:
    """A metastore that did not answer is asked again almost at once; how long after, the tests of connections know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acidlib.metastore.connection._MAX_WAIT_SECONDS", 0.1)
        yield


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs, without Spark, on a new queue."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.delenv("ACIDLIB_QUEUE_URL", raising=False)
    return Jobs(queue_url=f"sqlite:///{tmp_path / 'queue.db'}")


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Starts servers with options of the test's own; all of them end with the session."""
    fleet = Servers(tmp_path_factory.mktemp)
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture(scope="session")
def postgres(servers: Servers) -> Postgres:
    """A PostgreSQL cluster."""
    return started(servers.postgres)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server; skipped where the machine has no such program."""
    server = MariaDb()
    try:
        server.require_programs()
    except ServerError as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def shared_hive3(servers: Servers) -> Iterator[Metastore]:
    """The one metastore of Hive 3.1.3 of this process, for `hive3_metastore`."""
    with started(lambda: servers.metastore(Generation.HIVE3)) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def shared_hive4(
    servers: Servers, unstarted_s3: S3Server, unstarted_gcs: GcsServer, unstarted_gcs_door: GcsDoor
) -> Iterator[Metastore]:
    """The one metastore of Hive 4.0.1 of this process, for `hive4_metastore`.

    It is told where `s3_server` answers, and `gcs_server` by its door.
    """
    told = unstarted_s3.properties() | unstarted_gcs.properties(unstarted_gcs_door.endpoint)
    # a transaction that a test leaves open for a while has no heartbeats
    with started(lambda: servers.metastore(Generation.HIVE4, txn_timeout_seconds=3600, properties=told)) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hasty_hive3(servers: Servers) -> Iterator[Metastore]:
    """The one of Hive 3.1, whose cleaner comes with its initiator, which finds nothing to ask for."""
    properties = {
        "hive.compactor.cleaner.run.interval": "500ms",
        "hive.compactor.delta.num.threshold": "1000",
        "hive.compactor.delta.pct.threshold": "1000",
    }
    with started(
        lambda: servers.metastore(
            Generation.HIVE3, initiator_on=True, cleaner_on=True, txn_timeout_seconds=SHORT, properties=properties
        )
    ) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hasty_hive4(servers: Servers) -> Iterator[Metastore]:
    """The one metastore of Hive 4 of this process that gives up whoever is silent for SHORT seconds, with a cleaner.

    It cleans as it does without MIN_HISTORY_LEVEL, which readers of 4.0.1 do not need any more.
    """
    properties = {"metastore.compactor.cleaner.run.interval": "500ms", "metastore.txn.use.minhistorylevel": "false"}
    with started(
        lambda: servers.metastore(Generation.HIVE4, cleaner_on=True, txn_timeout_seconds=SHORT, properties=properties)
    ) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def shared_hiveserver(servers: Servers, shared_hive4: Metastore) -> Iterator[HiveServer]:
    """The one HiveServer2 of this process, for `hiveserver`."""
    with started(lambda: servers.hiveserver(shared_hive4, worker_threads=1, properties=HIVESERVER)) as server:
        yield server


@pytest.fixture(scope="session")
def shared_realm(servers: Servers) -> Iterator[Kdc]:
    """The one realm of this process, for `realm`."""
    with started(servers.kdc) as realm:
        yield realm


@pytest.fixture(scope="session")
def with_kerberos(
    servers: Servers, shared_realm: Kdc, request: pytest.FixtureRequest
) -> Iterator[dict[Generation, Metastore]]:
    """Metastores that ask for Kerberos, each beside one that asks for nothing, by which tests see what came of it."""
    found = {}
    for generation in KERBEROS:
        beside = request.getfixturevalue(f"shared_hive{generation.value}")
        protection = {"hadoop.rpc.protection": OFFERED}
        found[generation] = servers.metastore(generation, beside=beside, realm=shared_realm, properties=protection)
    yield found
    for metastore in found.values():
        metastore.remove()


@pytest.fixture(scope="session")
def hdfs(servers: Servers) -> Iterator[Hdfs]:
    """The one HDFS of this process. A test that breaks it must mend it (`start`, safe mode off)."""
    with started(servers.hdfs) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ozone(servers: Servers) -> Iterator[Ozone]:
    """The one Ozone of this process. A test that stops its HttpFS must start it again (`start`)."""
    with started(servers.ozone) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def unstarted_s3(tmp_path_factory: pytest.TempPathFactory) -> S3Server:
    """What `s3_server` starts; others may be told before where it will answer."""
    return S3Server(tmp_path_factory.mktemp("s3"))


@pytest.fixture(scope="session")
def s3_server(unstarted_s3: S3Server) -> Iterator[S3Server]:
    """The one server of this process that speaks S3."""
    started(unstarted_s3.start)
    try:
        yield unstarted_s3
    finally:
        unstarted_s3.stop()


@pytest.fixture(scope="session")
def abfs() -> Iterator[AbfsStub]:
    """A stub of ours of Azure Data Lake Storage."""
    with AbfsStub() as stub:
        yield stub


@pytest.fixture(scope="session")
def abfs_container(abfs: AbfsStub) -> str:
    """A container there whose promises were tried, and hold."""
    made = abfs.new_container()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AROUND, "hadoop", abfs.properties())
        assert set(probed(made).values()) == {"holds", "not tried"}
    return made


@pytest.fixture(scope="session")
def unstarted_gcs(tmp_path_factory: pytest.TempPathFactory) -> GcsServer:
    """What `gcs_server` starts; others may be told before where it will answer."""
    return GcsServer(tmp_path_factory.mktemp("gcs"))


@pytest.fixture(scope="session")
def gcs_server(unstarted_gcs: GcsServer) -> Iterator[GcsServer]:
    """The one emulator of Google Cloud Storage of this process."""
    started(unstarted_gcs.start)
    try:
        yield unstarted_gcs
    finally:
        unstarted_gcs.stop()


@pytest.fixture(scope="session")
def unstarted_gcs_door(unstarted_gcs: GcsServer) -> GcsDoor:
    """What `gcs_door` opens."""
    return GcsDoor(unstarted_gcs)


@pytest.fixture(scope="session")
def gcs_door(unstarted_gcs_door: GcsDoor) -> Iterator[GcsDoor]:
    """What stands between Google's clients and `gcs_server`."""
    with unstarted_gcs_door as door:
        yield door


@pytest.fixture
def stores(hdfs: Hdfs, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StoreTables:
    """What the jobs are told to find tables everywhere."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties())
    return StoreTables(hdfs, s3_server)


@pytest.fixture(scope="module")
def hive3_metastore(shared_hive3: Metastore) -> Iterator[Metastore]:
    """A metastore of Hive 3.1.3 that does nothing by itself. A test that stops it must start it again."""
    yield shared_hive3
    empty(shared_hive3)


@pytest.fixture(scope="module")
def hive4_metastore(shared_hive4: Metastore) -> Iterator[Metastore]:
    """A metastore of Hive 4.0.1 that does nothing by itself. A test that stops it must start it again."""
    yield shared_hive4
    empty(shared_hive4)


@pytest.fixture(scope="module")
def realm(shared_realm: Kdc) -> Iterator[Kdc]:
    """A realm that this process is in, where nobody has a ticket yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(shared_realm.krb5_conf))
        patch.delenv("KRB5CCNAME", raising=False)
        yield shared_realm


@pytest.fixture
def anna(realm: Kdc) -> KerberosLogin:
    """One of its users."""
    return KerberosLogin(principal=f"anna@{realm.realm}", keytab=str(realm.keytab("anna")))


@pytest.fixture(scope="module")
def hiveserver(shared_hiveserver: HiveServer, hive4_metastore: Metastore) -> HiveServer:
    """HiveServer2 on ``hive4_metastore``; its compactor works for HIVE_POOL only."""
    return shared_hiveserver


@pytest.fixture(scope="module")
def sql(hiveserver: HiveServer) -> Iterator[Session]:
    """A session of Hive 4."""
    with hiveserver.hive.session() as session:
        yield session


@pytest.fixture
def lake(hive4_metastore: Metastore) -> Iterator[Lake]:
    """A database of Hive 4, looked at by the independent reader alone."""
    with Lake(hive4_metastore) as made:
        yield made


@pytest.fixture
def lake_of_hive(hive4_metastore: Metastore, sql: Session) -> Iterator[Lake]:
    """A database of Hive 4, looked at by Hive, too."""
    with Lake(hive4_metastore, sql) as made:
        yield made


@pytest.fixture
def service(jobs: Jobs, hive4_metastore: Metastore) -> Service:
    """The jobs on Hive 4."""
    return Service(jobs=jobs, uri=hive4_metastore.uri)


@pytest.fixture
def proxy(hive4_metastore: Metastore) -> Iterator[Proxy]:
    """What stands between the jobs and Hive 4, where a test wants it."""
    with Proxy(hive4_metastore) as made:
        yield made


@pytest.fixture
def spark_jobs(jobs: Jobs, runner: SparkRunner, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs on the Spark context that the file has as `runner`."""
    use_runner(monkeypatch, runner)
    return jobs


@pytest.fixture(params=[METASTORES, OWN])
def both(request: pytest.FixtureRequest, jobs: Jobs, hive3_metastore: Metastore) -> Iterator[Site]:
    """Either queue."""
    with site(jobs, hive3_metastore, hives_queue=request.param == METASTORES) as made:
        yield made


@pytest.fixture
def hives(jobs: Jobs, hive3_metastore: Metastore) -> Iterator[Site]:
    """The metastore's own queue."""
    with site(jobs, hive3_metastore, hives_queue=True) as made:
        yield made


@pytest.fixture
def own(jobs: Jobs, hive3_metastore: Metastore) -> Iterator[Site]:
    """A queue of our own beside the metastore's."""
    with site(jobs, hive3_metastore, hives_queue=False) as made:
        yield made


def empty(metastore: Metastore) -> None:
    """Leaves nothing of a file to the next one: no database, open transaction, lock or request."""
    metastore.start()  # a test that failed may have left it down
    url = metastore.database_url.replace("+psycopg", "")
    hive4 = metastore.generation is Generation.HIVE4
    with (
        connect_hms([metastore.uri], ConnectionOptions(), user="tests", host="localhost") as hms,
        psycopg.connect(url, autocommit=True) as database,
    ):
        writes = Writes(metastore.uri, metastore.generation.value)
        for txn in hms.open_txns_info():
            if txn.state == "open":
                hms.abort_txn(txn.id, TxnType.DEFAULT)
        database.execute('delete from "HIVE_LOCKS"' if hive4 else "delete from hive_locks")
        for (name,) in database.execute('select "NAME" from "DBS"').fetchall():
            if name != "default":
                writes.drop_database(name)
        database.execute('delete from "COMPACTION_QUEUE"' if hive4 else "delete from compaction_queue")
        writes.close()


def started(start: Callable[[], Server]) -> Server:
    """A started server; a test fails in one message when it cannot be had (it is never skipped)."""
    try:
        return start()
    except ServerError as error:
        pytest.fail(str(error), pytrace=False)
