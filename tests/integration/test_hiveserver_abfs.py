"""Tables that HiveServer2 writes and reads by Hadoop's driver for Azure, before and after each of our jobs.

The service is a stub of ours, the driver and its reader are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import abfs_tables
import pytest
from judges.abfs_clients import driver_settings
from long_runs import in_a_long_run
from servers.abfs import AbfsStub
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.sql import Session

from acidlib.acid.names import Generation
from integration.conftest import started
from integration.harness import AROUND
from integration.hive4_jobs import Service
from integration.hive_in_stores import BOTH, DATABASE, Store, reads_and_goes_on_writing

pytestmark = [in_a_long_run, pytest.mark.live]


@pytest.fixture(scope="module")
def shared_hive4(servers: Servers, abfs: AbfsStub) -> Iterator[Metastore]:
    """A metastore that knows Azure."""
    with started(lambda: servers.metastore(Generation.HIVE4, properties=driver_settings(abfs))) as metastore:
        yield metastore


@pytest.fixture(scope="module")
def shared_hiveserver(servers: Servers, shared_hive4: Metastore, abfs: AbfsStub) -> Iterator[HiveServer]:
    """HiveServer2 that knows Azure."""
    with started(lambda: servers.hiveserver(shared_hive4, properties=driver_settings(abfs))) as server:
        yield server


def test_hive_reads_and_goes_on_writing(
    hive4_metastore: Metastore,
    sql: Session,
    abfs: AbfsStub,
    abfs_container: str,
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())
    monkeypatch.setattr(abfs, "page", 3)  # its listings go on
    store = Store(
        # the driver uses TLS for abfss, whatever the setting says
        managed=f"abfs{abfs_container.removeprefix('abfss')}/hive/{DATABASE}.db",
        copied=partial(abfs_tables.downloaded, abfs),
    )
    sql.run(f"create database {DATABASE} managedlocation '{store.managed}'")
    reads_and_goes_on_writing(BOTH, metastore=hive4_metastore, sql=sql, store=store, service=service, folder=tmp_path)
