"""Tables on HDFS and in a bucket that HiveServer2 itself writes and reads, before and after each of our jobs."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hdfs_tables
import pytest
import s3_tables
from judges import merge
from judges.hive_reader import hive_reader
from judges.java_orc import shared
from long_runs import amount
from servers.hdfs import Hdfs
from servers.metastore import Metastore
from servers.s3 import S3Server
from servers.s3_proxy import Relay
from servers.sql import Session

from acidlib.location import HDFS, S3, Location, parse_location
from acidlib.metastore.hms import connect_hms
from acidlib.metastore.options import ConnectionOptions
from acidlib.model.tables import TableRef
from integration.harness import AROUND
from integration.hive4_jobs import Service
from integration.hive4_model import ACID_ROW, Lake, acid_row, plain
from integration.moved_places import MovedPlaces
from integration.spliced import LAYOUT, transactions, was_spliced

pytestmark = pytest.mark.live

DATABASE = "stores"
LOW = ("--set", "hive.compactor.delta.num.threshold=1")
BOTH = ("major", "minor")
# each kind in one of the stores, which the suites of the stores hold alike
KINDS = amount({HDFS: BOTH[1:], S3: BOTH[:1]}, long={HDFS: BOTH, S3: BOTH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where the tables of the database `stores` have to lie, and how to copy a directory of it to a local disk."""

    managed: str
    copied: Callable[[Location, Path], Path]


@pytest.fixture(params=[HDFS, S3])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sql: Session) -> Iterator[Store]:
    """One that the jobs are told of, too."""
    if request.param == HDFS:
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
        made = Store(
            managed=f"{hdfs.new_directory()}/{DATABASE}.db",
            copied=lambda place, target: hdfs_tables.downloaded(hdfs, place, target),
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


def write(sql: Session, table: str) -> None:
    """Four transactions: inserts, an update, deletes."""
    sql.run(f"insert into {table} values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    sql.run(f"insert into {table} values (5, 'e')")
    sql.run(f"update {table} set v = 'changed' where id = 2")
    sql.run(f"delete from {table} where id in (3, 5)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """What HiveServer2 and the independent reader see in a table: the same, before and after each job."""

    sql: Session
    metastore: Metastore
    table: str
    place: Location
    store: Store
    copy: Path
    """A directory of its own."""

    def rows(self) -> list[ACID_ROW]:
        """With their row ids."""
        selected = self.sql.run(f"select t.ROW__ID, t.id, t.v from {self.table} t")
        return sorted(acid_row(row) for row in selected)

    def judged(self) -> list[ACID_ROW]:
        """By files."""
        with connect_hms([self.metastore.uri], ConnectionOptions(), user="tests", host="localhost") as hms:
            txns = hms.open_txns()
            key = TableRef(DATABASE, self.table.partition(".")[2])
            write_ids = hms.valid_write_ids([key], txns)[key].format()
        copy = self.store.copied(self.place, self.copy)
        hidden = [int(path.name.rpartition("_v")[2]) for path in copy.glob("*_v*")]
        invisible = frozenset(txn for txn in hidden if not txns.is_txn_valid(txn))
        return sorted(
            plain(row) for row in merge.read(copy, write_ids, generation=4, hidden_txns=invisible, strict=True)
        )

    def directories(self) -> list[str]:
        """What a reader may look into."""
        copy = self.store.copied(self.place, self.copy)
        return sorted(path.name for path in copy.iterdir() if path.name[0] not in "_.")


def test_hive_reads_and_goes_on_writing(
    hive4_metastore: Metastore, sql: Session, store: Store, service: Service, tmp_path: Path
) -> None:
    table, place = f"{DATABASE}.written", parse_location(f"{store.managed}/written")
    sql.run(f"create table {table} (id int, v string) stored as orc tblproperties ('transactional'='true')")
    reader = Reader(sql=sql, metastore=hive4_metastore, table=table, place=place, store=store, copy=tmp_path / "copy")
    before: list[ACID_ROW] = []
    for kind in KINDS[place.kind]:
        write(sql, table)
        before, earlier = reader.rows(), before
        assert len(before) > len(earlier)
        assert reader.judged() == before
        if kind == "major":  # it is the first
            assert [row[3] for row in before] == [(1, "a"), (4, "d"), (2, "changed")]
            (decision,) = service.good("initiator", "--table", table, *LOW).document["decisions"]
            assert decision["type"] == kind
        else:
            sql.run(f"alter table {table} compact '{kind}'")
        (entry,) = service.good(f"{kind}_compact").compactions
        assert (entry["state"], entry["location"]) == ("ready for cleaning", str(place))
        assert reader.rows() == reader.judged() == before
        (cleaned,) = service.clean("--table", table)
        assert cleaned["state"] == "succeeded"
        assert reader.rows() == reader.judged() == before
        assert set(entry["output_directories"]) <= set(reader.directories())
    left = reader.directories()
    assert len(left) == sum({"major": 1, "minor": 2}[kind] for kind in KINDS[place.kind]), left
    sql.run(f"update {table} set v = 'again' where id = 1")
    after = reader.rows()
    assert reader.judged() == after
    assert sorted(row[3] for row in after) != sorted(row[3] for row in before)


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
