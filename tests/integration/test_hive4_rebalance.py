"""Rebalances at a real Hive 4 metastore: as Hive's own worker does them, and what is done with the table after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from judges.merge import raw_rows
from judges.tables import Transaction
from long_runs import LONG
from servers.sql import Session

from acidlib.metastore.transactions import TxnType
from integration.conftest import HIVE_POOL
from integration.hive4_jobs import Service, clean_up
from integration.hive4_model import Lake, Made, rows
from integration.hive4_proxy import Proxy
from integration.hive4_rebalanced import rebalanced, skewed

pytestmark = pytest.mark.live


@pytest.fixture
def lake(lake_of_hive: Lake) -> Lake:
    return lake_of_hive


def files_of(made: Made, directory: str) -> dict[str, list[Any]]:
    """The events in each file of a directory, all five ids included."""
    return {path.name: raw_rows(path) for path in sorted((made.location / directory).glob("bucket_*"))}


def values(made: Made) -> list[Any]:
    return sorted(row[3] for row in made.expected)


@pytest.mark.skipif(not LONG, reason="Hive's own rebalance takes half a minute of a processor")
def test_a_rebalance_is_what_hive_makes_of_it(lake: Lake, service: Service, sql: Session) -> None:
    """The same files with the same rows under the same ids, though some write ids were aborted and rows deleted."""
    ours, hives = skewed(lake, "ours"), skewed(lake, "hives")
    sql.run(f"alter table {ours.full} compact 'rebalance' clustered into 4 buckets")
    (entry,) = service.good("major_compact").compactions
    assert (entry["type"], entry["state"], entry["rows_out"]) == ("rebalance", "ready for cleaning", len(ours.expected))
    sql.run(f"alter table {hives.full} compact 'rebalance' clustered into 4 buckets and wait pool '{HIVE_POOL}'")
    bases = [next(name for name in made.place.directories() if name.startswith("base_")) for made in (ours, hives)]
    assert bases[0].partition("_v")[0] == bases[1].partition("_v")[0] == "base_0000005"
    assert files_of(ours, bases[0]) == files_of(hives, bases[1])
    lake.check(rebalanced(ours, 4))
    # what Hive has rebalanced is cleaned by ours, too
    assert [one["state"] for one in service.clean("--table", hives.full)] == ["succeeded"]
    assert hives.place.directories() == bases[1:]
    lake.check(rebalanced(hives, 4))


def test_rows_are_found_by_their_new_ids_from_then_on(lake: Lake, service: Service, sql: Session) -> None:
    """Hive updates and deletes, we compact, and rebalance again what is nothing but a base."""
    made = skewed(lake, "lived_on")
    sql.run(f"alter table {made.full} compact 'rebalance'")
    reader = lake.open()
    assert service.good("major_compact").states == ["ready for cleaning"]
    made = rebalanced(made, 3)
    lake.check(made)
    old = made.place.directories()
    for _ in range(2):  # it is noted by the first run, and waited for by the second
        (waits,) = service.clean("--table", made.full)
        assert waits["state"] == "ready for cleaning", waits
        assert f"transaction {reader} is open since before its commit" in waits["reason"]
    assert made.place.directories() == old
    late = lake.open()  # whoever comes after that reads nothing of before
    lake.hms.abort_txn(reader, TxnType.DEFAULT)
    (cleaned,) = service.clean("--table", made.full)
    assert cleaned["state"] == "succeeded", cleaned["reason"]
    lake.hms.abort_txn(late, TxnType.DEFAULT)
    assert len(made.place.directories()) == 1
    lake.check(made)

    sql.run("update lake.lived_on set v = 'hit' where id in (5, 21, 107, 202)")
    sql.run("delete from lake.lived_on where id in (6, 30, 110)")
    wanted = sorted(
        (row[0], "hit" if row[0] in (5, 21, 107, 202) else row[1]) for row in values(made) if row[0] not in (6, 30, 110)
    )
    for kind in ("minor", "major"):
        ran = service.compact(made, kind)
        assert ran.states == ["ready for cleaning"], ran.compactions[0]["reason"]
        made = replace(made, places=(replace(made.place, expected=tuple(lake.selected(made))),))
        assert values(made) == wanted
        lake.check(made)
        clean_up(lake, service, made)
    (base,) = made.place.directories()

    by_name = ("--table", made.full, "--rebalance", "--buckets", "2")
    (planned,) = service.good("major_compact", *by_name, "--dry-run").compactions
    (done,) = service.good("major_compact", *by_name, "--verify").compactions
    assert (done["state"], done["rows_out"]) == ("ready for cleaning", planned["rows_out"])
    assert done["verification"]["rows"] == len(made.expected)
    made = rebalanced(made, 2)
    lake.check(made)
    (other,) = set(made.place.directories()) - {base}
    assert int(other[5:12]) == int(base[5:12]) + 1
    clean_up(lake, service, made)
    assert made.place.directories() == [other]
    lake.check(made)


def test_a_rebalance_is_not_done_beside_who_changes_rows_nor_where_it_makes_no_sense(
    lake: Lake, service: Service, proxy: Proxy, sql: Session
) -> None:
    made = skewed(lake, "changing")
    sql.run(f"alter table {made.full} compact 'rebalance'")
    txn, _ = lake.write(made)
    (entry,) = service("major_compact").compactions
    assert entry["state"] == "conflict"
    assert "its lock was not granted" in entry["reason"]
    assert lake.hms.open_txns_info()[-1].id == txn  # nothing was opened, and so aborted, for that
    lake.hms.commit_txn(txn, TxnType.DEFAULT)

    def lock_waits() -> None:
        with pytest.raises(AssertionError):
            lake.write(made)
        found.append("waits")
        (waiting,) = (txn.id for txn in lake.hms.open_txns_info() if (txn.user, txn.state) == ("writer", "open"))
        lake.hms.abort_txn(waiting, TxnType.DEFAULT)

    def is_told() -> None:
        """Whoever has read rows before, and gets a lock to change them now, reads them again because of this."""
        known = """update "WRITE_SET" set "WS_TABLE" = "WS_TABLE" where "WS_TABLE" = %s and "WS_OPERATION_TYPE" = 'u'"""
        found.append(lake.sql(known, made.name))

    found: list[object] = []
    proxy.before("commit_txn", lock_waits)
    proxy.after("commit_txn", is_told)
    assert service.good("major_compact", uri=proxy.uri).states == ["ready for cleaning"]
    assert found == ["waits", 1]
    made = rebalanced(made, 3)
    lake.check(made)
    clean_up(lake, service, made)

    emptied = lake.table("emptied", (Transaction(inserts=rows(1, 3)), Transaction(deletes=(0, 1, 2))))
    parted = lake.table("parted", partitions=["1", "2"])
    sql.run(f"alter table {emptied.full} compact 'rebalance'")
    sql.run(f"alter table {parted.full} partition (p='2') compact 'rebalance' clustered into 2 buckets")
    assert service.good("major_compact").states == ["ready for cleaning"] * 2
    lake.check(emptied)
    first, second = parted.places
    (moved,) = rebalanced(replace(parted, places=(second,)), 2).places
    lake.check(replace(parted, places=(first, moved)))

    sql.run("create table lake.hashed (id int, v string) clustered by (id) into 2 buckets stored as orc "
            "tblproperties('transactional'='true')")  # fmt: skip
    sql.run("create table lake.added (id int, v string) stored as orc "
            "tblproperties('transactional'='true', 'transactional_properties'='insert_only')")  # fmt: skip
    why = {}
    for name, clause in (("hashed", ""), ("added", ""), ("changing", " order by id")):
        sql.run(f"alter table lake.{name} compact 'rebalance'{clause}")
        (entry,) = service.good("major_compact").compactions
        assert entry["state"] == "refused"
        why[name] = entry["reason"]
    assert why["hashed"] == "Cannot execute rebalancing compaction on bucketed tables."
    assert why["added"] == "REBALANCE compaction is not supported on insert only tables."
    assert "ORDER BY" in why["changing"]
    lake.check(made)


def test_an_earlier_request_leaves_what_only_a_later_one_covers(lake: Lake, service: Service, proxy: Proxy) -> None:
    """A result of a minor, which a reader still needs who came before the major over it had committed."""
    made = lake.table("twice", partitions=["1"])
    of_one = ("--table", made.full)
    assert service.good("minor_compact", *of_one).states == ["ready for cleaning"]
    minors = {name for name in made.place.directories() if "_v" in name}
    lake.commit(made, (Transaction(),))  # of another partition: the major has the same highest write id here
    readers: list[int] = []
    proxy.before("commit_txn", lambda: readers.append(lake.open()))
    assert service.good("major_compact", *of_one, uri=proxy.uri).states == ["ready for cleaning"]
    service.clean(*of_one)
    assert minors < set(made.place.directories())
    lake.hms.abort_txn(readers[0], TxnType.DEFAULT)
    clean_up(lake, service, made)
    assert len(made.place.directories()) == 1
    lake.check(made)
