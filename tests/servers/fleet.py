"""The servers of one test session: started when first asked for, all stopped at the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from acidlib.acid.names import Generation
from servers.hdfs import Hdfs
from servers.hive_sessions import HiveSessions
from servers.hiveserver import HiveServer
from servers.kdc import DAY_SECONDS, Kdc
from servers.metastore import Metastore
from servers.mit_kdc import MitKdc
from servers.ozone import Ozone
from servers.postgres import Postgres
from servers.yarn import Yarn

Realm = TypeVar("Realm", bound=Kdc)


class Servers:
    """Starts servers and remembers them.

    A test that wants other options than the shared servers have starts one of its own, and only for a while:
    ``with servers.metastore(Generation.HIVE4, txn_timeout_seconds=5) as metastore: ...``
    """

    def __init__(self, new_directory: Callable[[str], Path]) -> None:
        """Starts nothing yet; ``new_directory`` makes an empty directory for the files and logs of one server."""
        self._new_directory = new_directory
        self._stack = contextlib.ExitStack()
        self._postgres: Postgres | None = None

    def postgres(self) -> Postgres:
        """The one cluster of the session. Raises ServerError."""
        if self._postgres is None:
            cluster = Postgres()
            cluster.start()
            self._stack.callback(cluster.stop)
            self._postgres = cluster
        return self._postgres

    def metastore(
        self,
        generation: Generation,
        *,
        beside: Metastore | None = None,
        version: str | None = None,
        initiator_on: bool = False,
        cleaner_on: bool = False,
        worker_threads: int = 0,
        txn_timeout_seconds: int = 300,
        properties: Mapping[str, str] | None = None,
        realm: Kdc | None = None,
    ) -> Metastore:
        """Starts a metastore on a database of its own (see ``Metastore``). Raises ServerError."""
        metastore = Metastore(
            generation,
            postgres=self.postgres(),
            directory=self._new_directory(f"metastore{generation.value}"),
            beside=beside,
            version=version,
            initiator_on=initiator_on,
            cleaner_on=cleaner_on,
            worker_threads=worker_threads,
            txn_timeout_seconds=txn_timeout_seconds,
            properties=properties,
            realm=realm,
        )
        self._stack.callback(metastore.stop)
        metastore.start()
        return metastore

    def hiveserver(
        self,
        metastore: Metastore,
        *,
        worker_threads: int = 0,
        query_based: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> HiveServer:
        """Starts a HiveServer2 on a metastore of Hive 4 (see ``HiveServer``). Raises ServerError."""
        server = HiveServer(
            metastore,
            directory=self._new_directory("hiveserver"),
            worker_threads=worker_threads,
            query_based=query_based,
            properties=properties,
        )
        self._stack.callback(server.stop)
        server.start()
        return server

    def hive_sessions(self, metastore: Metastore, *, properties: Mapping[str, str] | None = None) -> HiveSessions:
        """Starts sessions of Hive's Driver on a metastore (see ``HiveSessions``). Raises ServerError."""
        sessions = HiveSessions(metastore, directory=self._new_directory("sessions"), properties=properties)
        self._stack.callback(sessions.stop)
        sessions.start()
        return sessions

    def hdfs(
        self, *, data_nodes: int = 2, properties: Mapping[str, str] | None = None, realm: Kdc | None = None
    ) -> Hdfs:
        """Starts a cluster of HDFS (see ``Hdfs``). Raises ServerError."""
        cluster = Hdfs(self._new_directory("hdfs"), data_nodes=data_nodes, properties=properties, realm=realm)
        self._stack.callback(cluster.stop)
        cluster.start()
        return cluster

    def ozone(self) -> Ozone:
        """Starts Ozone and its HttpFS (see ``Ozone``). Raises ServerError."""
        cluster = Ozone(self._new_directory("ozone"))
        self._stack.callback(cluster.stop)
        cluster.start()
        return cluster

    def kdc(self, *, ticket_seconds: int = DAY_SECONDS) -> Kdc:
        """Starts a Kerberos realm (see ``Kdc``), that of MIT where ACIDLIB_TEST_KDC says so. Raises ServerError."""
        if os.environ.get("ACIDLIB_TEST_KDC") == "mit":
            return self.mit_kdc(ticket_seconds=ticket_seconds)
        return self._started(Kdc(self._new_directory("kdc"), ticket_seconds=ticket_seconds))

    def mit_kdc(self, *, ticket_seconds: int = DAY_SECONDS, ahead_seconds: int = 0, user_clock: bool = False) -> MitKdc:
        """Starts a Kerberos realm with the KDC of MIT (see ``MitKdc``). Raises ServerError."""
        directory = self._new_directory("kdc")
        return self._started(
            MitKdc(directory, ticket_seconds=ticket_seconds, ahead_seconds=ahead_seconds, user_clock=user_clock)
        )

    def _started(self, realm: Realm) -> Realm:
        self._stack.callback(realm.stop)
        realm.start()
        return realm

    def yarn(self, hdfs: Hdfs) -> Yarn:
        """Starts YARN on a cluster of HDFS (see ``Yarn``), with its realm if it has one. Raises ServerError."""
        cluster = Yarn(self._new_directory("yarn"), hdfs.configuration, realm=hdfs.realm)
        self._stack.callback(cluster.stop)
        cluster.start()
        return cluster

    def close(self) -> None:
        """Stops all of them, the last one first."""
        self._stack.close()
        self._postgres = None
