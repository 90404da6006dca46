"""Tables that HiveServer2 writes and reads by Hadoop's driver for Azure, before and after each of our jobs.

The service is a stub of ours, the driver and its reader are not. Trino reads them by the driver of Hadoop, too: its own
client for Azure speaks TLS to `ACCOUNT.blob.ENDPOINT`, a service that the stub has not.
"""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import abfs_tables
import pytest
from judges.abfs_clients import driver_settings
from long_runs import in_a_long_run
from servers.abfs import AbfsStub
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.settings import write_site
from servers.sql import Session
from servers.trino import Trino, new_java

from acidlib.acid.names import Generation
from integration.conftest import started
from integration.harness import AROUND
from integration.hive4_jobs import Service
from integration.hive_in_stores import BOTH, DATABASE, Store, reads_and_goes_on_writing, write

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


@pytest.mark.skipif(os.environ.get("ACIDLIB_TRINO") != "1", reason="ACIDLIB_TRINO=1 brings and starts Trino")
@pytest.mark.skipif(find_spec("trino") is None, reason="its client is missing: pip install -e '.[trino]'")
@pytest.mark.skipif(new_java() is None, reason="Trino needs a newer JDK, see JAVA24_HOME")
def test_trino_reads_what_was_compacted(
    hive4_metastore: Metastore,
    sql: Session,
    abfs: AbfsStub,
    abfs_container: str,
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())
    java, table = new_java(), "trinos.written"
    assert java is not None
    sql.run(f"create database trinos managedlocation 'abfs{abfs_container.removeprefix('abfss')}/trinos.db'")
    sql.run(f"create table {table} (id int, v string) stored as orc tblproperties ('transactional'='true')")
    write_site(tmp_path / "core-site.xml", driver_settings(abfs))
    (tmp_path / "trino").mkdir()
    catalog = {"hive.config.resources": str(tmp_path / "core-site.xml")}
    with Trino(hive4_metastore, java=java, directory=tmp_path / "trino", catalog=catalog) as trino:
        for kind in BOTH:
            write(sql, table)
            rows = sorted((int(row[0]), row[1]) for row in sql.run(f"select id, v from {table}"))
            sql.run(f"alter table {table} compact '{kind}'")
            (entry,) = service.good(f"{kind}_compact").compactions
            assert entry["state"] == "ready for cleaning"
            assert sorted(trino.run(f"select id, v from {table}")) == rows
            (cleaned,) = service.clean("--table", table)
            assert cleaned["state"] == "succeeded"
            assert sorted(trino.run(f"select id, v from {table}")) == rows
