"""Tables on HDFS and in buckets that HiveServer2 itself writes and reads, before and after each of our jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gcs_tables
import hdfs_tables
import pytest
import s3_tables
from judges import merge
from judges.hive_reader import hive_reader
from judges.java_orc import shared
from long_runs import amount
from servers.gcs import GcsServer
from servers.hdfs import Hdfs
from servers.metastore import Metastore
from servers.s3 import S3Server
from servers.s3_proxy import Relay
from servers.sql import Session

from acidlib.location import GCS, HDFS, S3, parse_location
from integration.harness import AROUND
from integration.hive4_jobs import Service
from integration.hive4_model import Lake, plain
from integration.hive_in_stores import BOTH, DATABASE, Store, reads_and_goes_on_writing
from integration.moved_places import MovedPlaces
from integration.spliced import LAYOUT, transactions, was_spliced

pytestmark = pytest.mark.live

# each kind in one of the stores, which the suites of the stores hold alike
KINDS = amount({HDFS: BOTH[1:], S3: BOTH[:1]}, long={HDFS: BOTH, S3: BOTH, GCS: BOTH})


@pytest.fixture(params=list(KINDS))
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sql: Session) -> Iterator[Store]:
    """One that the jobs are told of, too."""
    if request.param == HDFS:
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
        made = Store(
            managed=f"{hdfs.new_directory()}/{DATABASE}.db",
            copied=lambda place, target: hdfs_tables.downloaded(hdfs, place, target),
        )
    elif request.param == GCS:
        emulator: GcsServer = request.getfixturevalue("gcs_server")
        request.getfixturevalue("gcs_door")  # by which Hive comes
        monkeypatch.setattr(AROUND, "hadoop", emulator.properties())
        made = Store(
            managed=f"gs://{emulator.new_bucket()}/{DATABASE}.db",
            copied=lambda place, target: gcs_tables.downloaded(emulator, place, target),
        )
    else:
        server: S3Server = request.getfixturevalue("s3_server")
        monkeypatch.setattr(AROUND, "hadoop", server.properties())
        made = Store(
            managed=f"s3a://{server.new_bucket()}/{DATABASE}.db",
            copied=lambda place, target: s3_tables.downloaded(server, place, target),
        )
    sql.run(f"create database {DATABASE} managedlocation '{made.managed}'")
    yield made
    sql.run(f"drop database {DATABASE} cascade")


def test_hive_reads_and_goes_on_writing(
    hive4_metastore: Metastore, sql: Session, store: Store, service: Service, tmp_path: Path
) -> None:
    kinds = KINDS[parse_location(store.managed).kind]
    reads_and_goes_on_writing(kinds, metastore=hive4_metastore, sql=sql, store=store, service=service, folder=tmp_path)


def test_all_readers_of_a_spliced_file(
    hdfs: Hdfs,
    s3_server: S3Server,
    hive4_metastore: Metastore,
    lake_of_hive: Lake,
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = lake_of_hive.table("spliced", transactions(), layout=LAYOUT)
    places = MovedPlaces(hive4_metastore, hdfs, s3_server, tmp_path / "copies")
    try:
        places.move(made.location, S3)
        with Relay(s3_server.port) as relay:
            monkeypatch.setattr(AROUND, "hadoop", s3_server.properties(relay.endpoint))
            (entry,) = service.compact(made).compactions
        assert was_spliced(entry, relay.sent)
        assert lake_of_hive.selected(made) == made.expected
        copy = places.copy(made.location, [made.location])
    finally:
        places.again()
    (result,) = copy.glob("base_*")
    (file,) = result.glob("bucket_*")
    assert shared().differences(file) == []
    alone = tmp_path / "alone"
    alone.mkdir()
    result.rename(alone / result.name.partition("_v")[0])  # Hive 3.1 knows no transactions in names
    assert sorted(map(plain, merge.read(alone, generation=3, strict=True))) == made.expected
    for vectorized in (False, True):
        rows = hive_reader(3).rows(alone, {"id": "int", "v": "string"}, vectorized=vectorized)
        assert sorted(map(plain, rows)) == made.expected
