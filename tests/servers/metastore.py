"""A Hive metastore, 3.1.3, 4.0.1, 4.1.0 or 4.2.0, on a database of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from acidlib.acid.names import Generation
from servers.daemon import Daemon
from servers.jars import LATER, brought, release_of
from servers.kdc import HOST, Kdc
from servers.postgres import USER, Postgres
from servers.settings import write_site

HEAP = "512m"
SERVICE = f"hive/{HOST}"
"""Whom clients with Kerberos log in to."""
RELEASES = {Generation.HIVE3: "3.1.3", Generation.HIVE4: "4.0.1"}
MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
# so that it looks every second for transactions and locks without a heartbeat, and for those that may be forgotten
_HOUSEKEEPING: Mapping[Generation, Mapping[str, str]] = {
    Generation.HIVE3: {
        "hive.timedout.txn.reaper.interval": "1s",
        # Hive 3.1 (HiveMetaStore.startRemoteOnlyTasks) runs it only where the initiator is on; these tasks run always
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService",
    },
    Generation.HIVE4: {
        "metastore.housekeeping.threads.on": "true",
        "metastore.acid.housekeeper.interval": "1s",
        "metastore.acid.txn.cleaner.interval": "1s",  # forgets transactions that were rolled back, and wrote nothing
    },
}
_FEW_CONNECTIONS: Mapping[Generation, Mapping[str, str]] = {
    Generation.HIVE3: {"hikari.minimumIdle": "1"},
    Generation.HIVE4: {"hikaricp.minimumIdle": "1"},
}
"""Connections that each pool opens before they are needed; by default four pools open ten each."""
_TASKS = (
    "org.apache.hadoop.hive.metastore.txn.service.AcidHouseKeeperService",
    "org.apache.hadoop.hive.metastore.txn.service.CompactionHouseKeeperService",
    "org.apache.hadoop.hive.metastore.txn.service.AcidTxnCleanerService",
    "org.apache.hadoop.hive.metastore.txn.service.AcidOpenTxnsCounterService",
)


class Metastore(Daemon):
    """One metastore. It answers, ends what had no heartbeat for long, and compacts nothing unless an option says so.

    In Hive 3.1 one switch starts the initiator and the cleaner: there both options must have the same value.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        postgres: Postgres,
        directory: Path,
        beside: Metastore | None = None,
        version: str | None = None,
        initiator_on: bool = False,
        cleaner_on: bool = False,
        worker_threads: int = 0,
        txn_timeout_seconds: int = 300,
        properties: Mapping[str, str] | None = None,
        realm: Kdc | None = None,
    ) -> None:
        """Starts nothing yet; ``directory`` is its own and gets the warehouse, the settings and the log.

        ``version`` is 3.1.3 or 4.0.1 where nothing is said. Raises ServerError where that version needs a newer Java.
        ``beside`` is another metastore, started before, whose database and warehouse this one shares. ``properties``
        are added to hive-site.xml and win over all else. With ``realm`` clients log in with Kerberos to ``SERVICE``.
        """
        if generation is Generation.HIVE3 and initiator_on != cleaner_on:
            raise ValueError("in Hive 3.1 one switch starts the initiator and the cleaner: give both the same value")
        switches = {
            "hive.compactor.initiator.on": _text(initiator_on),
            "hive.compactor.worker.threads": str(worker_threads),
            "hive.txn.timeout": f"{txn_timeout_seconds}s",
        }
        if generation is Generation.HIVE4:
            switches["hive.compactor.cleaner.on"] = _text(cleaner_on)
            switches["hive.metastore.runworker.in"] = "metastore"  # these workers; HiveServer2 has its own
        super().__init__(
            f"the metastore of Hive {version or generation.value}",
            version=version or RELEASES[generation],
            directory=directory,
            main=[MAIN],
            heap=HEAP,
            properties=switches | dict(properties or {}),
            java_options=() if realm is None else realm.java_options,
        )
        self._realm = realm
        self._keytab: Path | None = None
        self.warehouse: Path = directory / "warehouse" if beside is None else beside.warehouse
        self.database: str = "" if beside is None else beside.database
        """The name of its database in the cluster; empty before the first start."""
        self._owns_database = beside is None
        self._postgres = postgres

    @property
    def uri(self) -> str:
        """Where clients connect."""
        return f"thrift://{'127.0.0.1' if self._realm is None else HOST}:{self.port}"

    @property
    def database_url(self) -> str:
        """Its database for SQLAlchemy; only after the first start."""
        return self._postgres.database_url(self.database)

    @property
    def properties(self) -> dict[str, str]:
        """What its hive-site.xml says; only after the first start."""
        url = self._postgres.jdbc_url(self.database)
        found = {
            # in the simple mode, or Hive 4's cleaner fails
            "javax.jdo.option.ConnectionURL": url + "?preferQueryMode=simple",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": USER,
            "javax.jdo.option.ConnectionPassword": USER,
            "datanucleus.schema.autoCreateAll": "false",
            "hive.metastore.schema.verification": "true",
            "hive.metastore.uris": self.uri,
            "hive.metastore.port": str(self.port),
            "hive.metastore.warehouse.dir": self.warehouse.as_uri(),
            "hive.metastore.warehouse.external.dir": self.warehouse.with_name("external").as_uri(),
            "hive.metastore.event.db.notification.api.auth": "false",
            "hive.support.concurrency": "true",
            "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
            "hive.compactor.check.interval": "1s",
            "hive.compactor.cleaner.run.interval": "1s",
            "hive.async.log.enabled": "false",  # or the last lines before an end are lost
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(self.work_dir),
            "mapreduce.framework.name": "local",
            **_HOUSEKEEPING[self.generation],
            **_FEW_CONNECTIONS[self.generation],
        }
        if self.version in LATER:
            # none of Iceberg, whose classes are not there
            found["metastore.task.threads.remote"] = ",".join(_TASKS)
        if self.generation is Generation.HIVE3:
            # or a second INSERT into a table that is not transactional fails
            found["hive.stats.column.autogather"] = "false"
        if self._realm is not None:
            found |= self._kerberos(self._realm)
        return found | self._given

    def _kerberos(self, realm: Kdc) -> dict[str, str]:
        return {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": f"{SERVICE}@{realm.realm}",
            "hive.metastore.kerberos.keytab.file": str(self._keytab),
        }

    def _jars(self) -> list[str]:
        jars = super()._jars()
        if self._given.get("metastore.server.thrift.transport.mode") == "http":
            jars += sorted(str(jar) for jar in (brought("hive4_http") / "lib").glob("*.jar"))
        return jars

    def remove(self) -> None:
        """Stops it and drops its database; the files stay."""
        self.stop()
        if self._owns_database and self.database:
            self._postgres.drop_database(self.database)
            self.database = ""
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops it and drops its database."""
        self.remove()

    def _prepare(self) -> None:
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.warehouse.with_name("external").mkdir(exist_ok=True)
        if self._realm is not None:
            self._keytab = self._realm.keytab(SERVICE)
            # Hadoop's own login looks there alone
            self.conf_dir.mkdir(exist_ok=True)
            write_site(self.conf_dir / "core-site.xml", {"hadoop.security.authentication": "kerberos"})
        if not self.database:
            release = release_of(self.version)
            self.database = self._postgres.new_database(release.schema, *release.changes)


def _text(value: bool) -> str:
    return "true" if value else "false"
