"""Tables in Ozone that HiveServer2 writes and reads by Ozone's own client, before and after each of our jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ozone_tables
import pytest
from long_runs import in_a_long_run
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.ozone import Ozone
from servers.sql import Session

from acidlib.acid.names import Generation
from acidlib.stores.renaming.ozone_client import HTTPFS
from integration.conftest import started
from integration.harness import Jobs
from integration.hive4_jobs import Service
from integration.hive_in_stores import BOTH, DATABASE, Store, reads_and_goes_on_writing

pytestmark = [in_a_long_run, pytest.mark.live]


@pytest.fixture(scope="module")
def shared_hive4(servers: Servers, ozone: Ozone) -> Iterator[Metastore]:
    """A metastore that knows Ozone."""
    with started(lambda: servers.metastore(Generation.HIVE4, properties=ozone.properties)) as metastore:
        yield metastore


@pytest.fixture(scope="module")
def shared_hiveserver(servers: Servers, shared_hive4: Metastore, ozone: Ozone) -> Iterator[HiveServer]:
    """HiveServer2 that knows Ozone."""
    with started(lambda: servers.hiveserver(shared_hive4, properties=ozone.properties)) as server:
        yield server


def test_hive_reads_and_goes_on_writing(
    hive4_metastore: Metastore,
    sql: Session,
    ozone: Ozone,
    jobs: Jobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(ozone.conf_dir))
    store = Store(
        managed=f"{ozone.new_directory()}/{DATABASE}.db",
        copied=lambda place, target: ozone_tables.downloaded(ozone, place, target),
    )
    sql.run(f"create database {DATABASE} managedlocation '{store.managed}'")
    service = Service(jobs=jobs, uri=hive4_metastore.uri, options=("--set", f"{HTTPFS}={ozone.url}"))
    reads_and_goes_on_writing(BOTH, metastore=hive4_metastore, sql=sql, store=store, service=service, folder=tmp_path)
