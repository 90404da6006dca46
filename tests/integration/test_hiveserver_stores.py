"""Tables on HDFS that HiveServer2 itself writes and reads, before and after each of our jobs."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs_tables import downloaded
from judges import merge
from servers.hdfs import Hdfs
from servers.metastore import Metastore
from servers.sql import Session

from acidlib.metastore.hms import connect
from acidlib.metastore.options import ConnectionOptions
from acidlib.model.location import Location, parse_location
from integration.hive4_jobs import Service
from integration.hive4_model import ACID_ROW, acid_row, plain

pytestmark = pytest.mark.live

DATABASE = "stores"


@pytest.fixture(autouse=True)
def configured(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))


@pytest.fixture
def managed(hdfs: Hdfs, sql: Session, hive4_metastore: Metastore) -> Iterator[str]:
    """Where the tables of the database `stores` have to lie."""
    place = f"{hdfs.new_directory()}/stores.db"
    sql.run(f"create database {DATABASE} managedlocation '{place}'")
    yield place
    sql.run(f"drop database {DATABASE} cascade")


def write(sql: Session, table: str) -> None:
    """Four transactions: inserts, an update, deletes."""
    sql.run(f"insert into {table} values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    sql.run(f"insert into {table} values (5, 'e')")
    sql.run(f"update {table} set v = 'changed' where id = 2")
    sql.run(f"delete from {table} where id in (3, 5)")


class Reader:
    """What HiveServer2 and the independent reader see in a table: the same, before and after each job."""

    def __init__(self, sql: Session, hdfs: Hdfs, metastore: Metastore, table: str, copy: Path) -> None:
        self._sql = sql
        self._hdfs = hdfs
        self._metastore = metastore
        self._table = table
        self._copy = copy

    def rows(self) -> list[ACID_ROW]:
        """With their row ids."""
        selected = self._sql.run(f"select t.ROW__ID, t.id, t.v from {self._table} t")
        return sorted(acid_row(row) for row in selected)

    def judged(self, place: Location) -> list[ACID_ROW]:
        """By files."""
        with connect([self._metastore.uri], ConnectionOptions(), user="tests", host="localhost") as hms:
            txns = hms.open_txns().txns
            key = (DATABASE, self._table.partition(".")[2])
            write_ids = hms.valid_write_ids([key], txns)[key].format()
        copy = downloaded(self._hdfs, place, self._copy)
        hidden = [int(path.name.rpartition("_v")[2]) for path in copy.glob("*_v*")]
        invisible = frozenset(txn for txn in hidden if not txns.is_txn_valid(txn))
        return sorted(
            plain(row) for row in merge.read(copy, write_ids, generation=4, hidden_txns=invisible, strict=True)
        )


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_hive_reads_and_goes_on_writing(
    hdfs: Hdfs, hive4_metastore: Metastore, sql: Session, managed: str, service: Service, tmp_path: Path, kind: str
) -> None:
    place = parse_location(f"{managed}/{kind}_of_all")
    table = f"{DATABASE}.{kind}_of_all"
    sql.run(
        f"create table {table} (id int, v string) stored as orc location '{place}' "
        "tblproperties ('transactional'='true')"
    )
    reader = Reader(sql, hdfs, hive4_metastore, table, tmp_path / "copy")
    write(sql, table)
    before = reader.rows()
    assert [row[3] for row in before] == [(1, "a"), (4, "d"), (2, "changed")]
    assert reader.judged(place) == before

    sql.run(f"alter table {table} compact '{kind}'")
    (entry,) = service.good(f"{kind}_compact").compactions
    assert (entry["state"], entry["location"]) == ("ready for cleaning", str(place))
    assert reader.rows() == reader.judged(place) == before
    (cleaned,) = service.clean("--table", table)
    assert cleaned["state"] == "succeeded"
    assert reader.rows() == reader.judged(place) == before
    left = sorted(path.name for path in (tmp_path / "copy").iterdir())
    assert left == sorted(entry["output_directories"])

    write(sql, table)
    after = reader.rows()
    assert len(after) > len(before)
    (entry,) = service.good("major_compact", "--table", table).compactions
    assert entry["state"] == "ready for cleaning"
    assert service.clean("--table", table)[0]["state"] == "succeeded"
    assert reader.rows() == reader.judged(place) == after
