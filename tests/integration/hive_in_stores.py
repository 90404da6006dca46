"""Tables in a store that HiveServer2 itself writes and reads, before and after each of our jobs."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from judges import merge
from servers.metastore import Metastore
from servers.sql import Session

from acidlib.location import Location, parse_location
from acidlib.metastore.hms import connect_hms
from acidlib.metastore.options import ConnectionOptions
from acidlib.model.tables import TableRef
from integration.hive4_jobs import Service
from integration.hive4_model import ACID_ROW, acid_row, plain

DATABASE = "stores"
LOW = ("--set", "hive.compactor.delta.num.threshold=1")
BOTH = ("major", "minor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where the tables of the database `stores` have to lie, and how to copy a directory of it to a local disk."""

    managed: str
    copied: Callable[[Location, Path], Path]


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


def reads_and_goes_on_writing(
    kinds: Sequence[str], *, metastore: Metastore, sql: Session, store: Store, service: Service, folder: Path
) -> None:
    """Hive finds the same rows before and after each kind of compaction and its cleaning, and writes again."""
    table, place = f"{DATABASE}.written", parse_location(f"{store.managed}/written")
    sql.run(f"create table {table} (id int, v string) stored as orc tblproperties ('transactional'='true')")
    reader = Reader(sql=sql, metastore=metastore, table=table, place=place, store=store, copy=folder / "copy")
    before: list[ACID_ROW] = []
    for kind in kinds:
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
    assert len(left) == sum({"major": 1, "minor": 2}[kind] for kind in kinds), left
    sql.run(f"update {table} set v = 'again' where id = 1")
    after = reader.rows()
    assert reader.judged() == after
    assert sorted(row[3] for row in after) != sorted(row[3] for row in before)
