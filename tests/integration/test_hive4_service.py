"""Our jobs as the compaction service of a real Hive 4 metastore: queue, pools, initiator, several workers, cleaner."""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from judges.tables import Transaction, delta_name, inserts, orc_bytes, write_dir
from long_runs import amount
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.sql import Session

import acidlib
from acidlib.acid.names import Generation
from acidlib.metastore.catalog import CHANGED
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import State
from acidlib.points import Point
from integration.children import Child, killed_at
from integration.conftest import HIVE_POOL
from integration.harness import Jobs
from integration.hive4_jobs import Service, clean_up, wait_for
from integration.hive4_model import ABORTED, COLUMNS, CRUD, ROW, Lake, Made, rows
from integration.hive4_proxy import Proxy
from integration.hive4_statistics import GATHERING, gathered
from integration.metastore_writes import INSERT_ONLY, NewTable

pytestmark = pytest.mark.live
MANY = amount(500, long=2000)
LOW = ("--set", "hive.compactor.delta.num.threshold=1")
KINDS = pytest.mark.parametrize("kind", ["major", "minor"])


@pytest.fixture
def lake(lake_of_hive: Lake) -> Lake:
    return lake_of_hive


def shown(sql: Session, made: Made) -> list[dict[str, Any]]:
    """SHOW COMPACTIONS of a table, oldest first."""
    found = sql.run("show compactions")
    named = [dict(zip(sql.columns, row, strict=True)) for row in found]
    return sorted((row for row in named if row["tabname"] == made.name), key=lambda row: int(row["compactionid"]))


# --- tasks that a program runs ----------------------------------------------------------------------------------------


def test_a_program_runs_the_tasks_under_the_transaction(lake: Lake, service: Service) -> None:
    """It is committed with the job, and aborted without: then the request waits for another run, or is withdrawn."""
    made = lake.table("handed")
    table = acidlib.connect(service.uri).table(made.full)
    before = made.place.directories()
    with table.compaction("major") as job:
        results = [task.run() for task in job.plan.tasks]
        assert results
        assert lake.states(made) == ["working"]
    assert (made.place.directories(), made.place.litter()) == (before, [])
    assert "working" not in lake.states(made)
    with table.compaction("major") as job:
        (entry,) = job.commit(task.run() for task in job.plan.tasks).entries
    assert (entry["state"], entry["publication"]) == ("ready for cleaning", "commit")
    lake.check(made)


# --- requests of Hive's users -----------------------------------------------------------------------------------------


@KINDS
def test_a_dry_run_plans_what_is_then_done(lake: Lake, service: Service, kind: str) -> None:
    made = lake.table("planned")
    before = made.place.directories()
    (planned,) = service.good(f"{kind}_compact", "--table", made.full, "--dry-run").compactions
    assert made.place.directories() == before
    assert lake.states(made) == []
    (done,) = service.compact(made, kind).compactions
    for key in ("type", "publication", "reason", "write_ids", "inputs", "rows_in", "rows_out", "events_out"):
        assert planned[key] == done[key], key
    assert len(planned["output_directories"]) == len(done["output_directories"])
    lake.check(made)


@KINDS
def test_a_request_by_alter_table_goes_through_all_states(
    lake: Lake, service: Service, proxy: Proxy, sql: Session, kind: str
) -> None:
    made = lake.table("asked")
    old = made.place.directories()
    sql.run(f"alter table {made.full} compact '{kind}'")
    assert [row["state"] for row in shown(sql, made)] == ["initiated"]
    worked: list[Any] = []
    proxy.after("update_compactor_state", lambda: worked.extend(lake.working()))
    ran = service.good(f"{kind}_compact", uri=proxy.uri)
    assert ran.states == ["ready for cleaning"]
    (row,) = worked
    assert row.worker_id.startswith("acidlib-")
    assert (row.highest_write_id, row.txn_id is not None) == (3, True)
    (row,) = shown(sql, made)
    assert (row["state"], row["type"], row["workerid"]) == ("ready for cleaning", kind.upper(), " --- ")
    txn = int(row["txnid"])
    new = [f"base_0000003_v{txn:07d}"]
    if kind == "minor":
        new = [f"delete_delta_0000001_0000003_v{txn:07d}", f"delta_0000001_0000003_v{txn:07d}"]
    assert made.place.directories() == sorted([*old, *new])
    assert made.place.litter() == []
    lake.check(made)
    (cleaned,) = service.clean("--table", made.full)
    assert cleaned["state"] == "succeeded"
    assert {entry["path"] for entry in cleaned["removed"]} == set(old)
    assert made.place.directories() == new
    assert [row["state"] for row in shown(sql, made)] == ["succeeded"]
    lake.check(made)


@pytest.mark.parametrize("kind", amount(["major"], long=["major", "minor"]))
def test_a_result_that_is_doubted_is_moved_aside_and_made_anew(
    lake: Lake, service: Service, sql: Session, kind: str
) -> None:
    """The steps of the runbook for a metastore of Hive 4, whose compactions cannot be undone."""
    made = lake.table("doubted", ABORTED)
    inputs = made.place.directories()
    service.compact(made, kind)
    sql.run(f"alter table {made.full} set tblproperties ('NO_CLEANUP'='true', 'NO_AUTO_COMPACTION'='true')")
    (kept,) = service.clean("--table", made.full)
    assert (kept["state"], kept["removed"]) == ("refused", [])
    for name in set(made.place.directories()) - set(inputs):
        (made.place.location / name).rename(made.place.location / f"_doubted_{name}")
    assert made.place.directories() == inputs
    lake.check(made)
    # as its request has ended, the metastore takes another one at once
    (again,) = service.compact(made, kind).compactions
    assert again["state"] == "ready for cleaning", again["reason"]
    lake.check(made)
    made = lake.add(made, [Transaction(inserts=rows(301, 3))], first_id=6)
    sql.run(f"alter table {made.full} set tblproperties ('NO_CLEANUP'='false', 'NO_AUTO_COMPACTION'='false')")
    clean_up(lake, service, made)
    assert not set(inputs) & set(made.place.directories())
    lake.check(made)


@KINDS
def test_nothing_half_done_is_visible_at_any_time(lake: Lake, service: Service, proxy: Proxy, kind: str) -> None:
    """Readers who come between any two calls to the metastore see the same rows."""
    made = lake.table("watched", ABORTED)
    looks: list[bool] = []

    def look() -> None:
        looks.append(lake.seen(made) == made.expected)

    def select() -> None:
        looks.append(lake.selected(made) == made.expected)

    proxy.watch = look
    for hook, call in (
        (proxy.before, "mark_compacted"),
        (proxy.after, "mark_compacted"),
        (proxy.after, "commit_txn"),
        (proxy.before, "mark_cleaned"),
    ):
        hook(call, select)
    assert service.good(f"{kind}_compact", "--table", made.full, uri=proxy.uri).states == ["ready for cleaning"]
    ran = service.good("cleaner", "--retention", "0s", "--table", made.full, uri=proxy.uri)
    assert [entry["state"] for entry in ran.document["cleanings"]] == ["succeeded"]
    assert len(proxy.happened) == 4
    assert len(looks) > 20
    assert all(looks)
    lake.check(made)


def test_what_we_show_is_what_hive_shows(lake: Lake, service: Service, sql: Session) -> None:
    made = lake.table("listed", partitions=["1", "2", "3", "4"])
    for place in made.places[:3]:
        lake.request(made, partition=place.name)
    ran = service.good("major_compact", "--max-partitions", "2")
    assert ran.document["notes"][-1] == "stopped: --max-partitions 2 is reached; 1 place is left"
    service.clean("--table", made.full, "--partition", "p=1")
    lake.request(made, partition="p=5")
    ours = {row["id"]: row for row in service.good("show_compactions").compactions if row["table"] == "listed"}
    hives = shown(sql, made)
    assert [row["state"] for row in hives] == ["succeeded", "ready for cleaning", "initiated", "initiated"]
    for row in hives:
        mine = ours.pop(int(row["compactionid"]))
        assert mine["state"] == row["state"]
        assert (mine["database"], mine["partition"], mine["type"]) == (row["dbname"], row["partname"], row["type"])
        assert str(mine["pool"]) == row["poolname"]
    assert ours == {}


def test_hives_show_locks_shows_what_is_read(lake: Lake, sql: Session) -> None:
    made = lake.table("read_by_us")

    def locks() -> list[list[str]]:
        named = [dict(zip(sql.columns, line, strict=True)) for line in sql.run("show locks")]
        return [[line["lock_type"], line["agent_info"]] for line in named if line["table"] == made.name]

    with acidlib.connect(lake.metastore.uri).table(made.full).snapshot():
        ((kind, agent),) = locks()
        assert (kind, agent.startswith("read by acidlib-")) == ("SHARED_READ", True)
    assert locks() == []


def test_a_rebalance_by_values_is_left_to_hive_or_refused(lake: Lake, service: Service, sql: Session) -> None:
    """It is not ours to do; what waits behind it is done."""
    made, other = lake.table("uneven"), lake.table("behind_it")
    sql.run(f"alter table {made.full} compact 'rebalance' order by v")
    lake.request(other)
    ran = service.good("major_compact")
    assert lake.states(other) == ["ready for cleaning"]
    assert [row["state"] for row in shown(sql, made)] in (["initiated"], ["refused"])
    assert "failed" not in ran.states
    lake.check(made)


def test_hive_waits_for_our_result(lake: Lake, service: Service, hiveserver: HiveServer) -> None:
    made = lake.table("awaited", partitions=["a b", "c"])
    ended: list[object] = []

    def wait() -> None:
        try:
            ended.append(hiveserver.hive.run(f"alter table {made.full} partition (p='a b') compact 'major' and wait"))
        except Exception as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_for(lambda: lake.states(made) == ["initiated"])
    assert ended == []
    (entry,) = service.good("major_compact").compactions
    assert (entry["partition"], entry["state"]) == ("p=a b", "ready for cleaning")
    waiting.join(60)
    assert ended == [[]]
    lake.check(made)


def test_a_damaged_file_fails_its_request_and_no_other(lake: Lake, service: Service, sql: Session) -> None:
    made = lake.table("damaged", partitions=["1", "2"])
    file = made.places[0].location / "delta_0000002_0000002_0000" / "bucket_00000"
    whole = file.read_bytes()
    for part in ("1", "2"):
        lake.request(made, partition=f"p={part}")
    file.write_bytes(whole[:200])
    ran = service("major_compact")
    assert (ran.status, ran.states) == (3, ["failed", "ready for cleaning"])
    reason = ran.compactions[0]["reason"]
    assert str(file) in reason
    assert reason in ran.err
    failed, done = shown(sql, made)
    assert failed["state"] == "failed"
    assert re.fullmatch(rf"{re.escape(reason)} \[files [0-9a-f]{{16}}\]", failed["errormessage"])
    assert done["state"] == "ready for cleaning"
    file.write_bytes(whole)
    assert made.places[0].directories() == sorted(
        delta_name(*name) if len(name) == 2 else delta_name(name[0], name[1], delete=True)
        for name in ((1, 1), (2, 2), (2, 2, 1), (3, 3, 1))
    )
    lake.check(made)


def test_a_dropped_table_or_partition_is_refused_in_hives_words(lake: Lake, service: Service) -> None:
    made = lake.table("there", partitions=["1"])
    lake.request(made, partition="p=2")
    gone = Made(database=made.database, name="gone", location=made.location, places=())
    lake.request(gone)
    ran = service.good("major_compact")
    assert ran.states == ["refused", "refused"]
    found = [(row.state.label, row.error_message) for row in (*lake.of(made), *lake.of(gone))]
    words = "Unable to find {} lake.{}, assuming it was dropped and moving on."
    assert found == [
        ("refused", words.format("partition", "there.p=2")), ("refused", words.format("table", "gone")),
    ]  # fmt: skip


def test_what_may_not_be_compacted_is_refused_with_the_reason(lake: Lake, service: Service) -> None:
    """In the queue as refused; by its own name an error, by a glob passed over."""
    kinds = {
        "outside": NewTable(properties={"EXTERNAL": "TRUE"}, kind="EXTERNAL_TABLE"),
        "seen": NewTable(kind="VIRTUAL_VIEW", view_of="select 1", properties={}),
    }
    words = {"outside": "external", "seen": "view"}
    asked = {}
    for name, new in kinds.items():
        lake.writes.table("lake", name, new)
        asked[name] = Made(database="lake", name=name, location=Path(), places=())
        lake.request(asked[name])
    assert service.good("major_compact").states == ["refused"] * 2
    for name, made in asked.items():
        (row,) = lake.of(made)
        assert row.state is State.REFUSED
        assert words[name] in (row.error_message or "")
    named = service.good("major_compact", "--table", "lake.*")
    assert {entry["table"]: entry["state"] for entry in named.compactions} == dict.fromkeys(kinds, "skipped")
    for entry in named.compactions:
        assert words[entry["table"]] in entry["reason"]
    for name in kinds:
        for job in ("initiator", "major_compact", "cleaner", "status"):
            ran = service(job, "--table", f"lake.{name}", "--if-exists")
            assert (ran.status, ran.error["kind"], words[name] in ran.error["message"]) == (1, "refused", True)
    scanned = service.good("initiator", "--table", "lake.*", *LOW).document
    assert scanned["totals"]["queued"] == 0
    assert all(any(word in note for note in scanned["notes"]) for word in words.values())


def test_a_materialized_view_is_compacted_as_the_table_that_it_is(lake: Lake, service: Service, sql: Session) -> None:
    """By Hive's user, by the initiator and by name: it has rows and transactions of its own."""
    made = Made(database="lake", name="summed", location=Path(), places=())
    sql.run("create table lake.orders (a int) stored as orc tblproperties('transactional'='true')")
    sql.run("insert into lake.orders values (1)")
    sql.run(
        "create materialized view lake.summed stored as orc tblproperties('transactional'='true') "
        "as select a from lake.orders where a > 0"
    )
    try:
        for number, ask in enumerate(
            (
                lambda: sql.run(f"alter table {made.full} compact 'major'"),
                lambda: service.good("initiator", "--table", made.full, *LOW),
                None,
            ),
            start=2,
        ):
            sql.run(f"insert into lake.orders select {number}")
            sql.run("alter materialized view lake.summed rebuild")
            if ask is not None:
                ask()
            (done,) = service.good("major_compact", *(() if ask else ("--table", made.full))).compactions
            assert (done["table"], done["state"], done["rows_out"]) == ("summed", "ready for cleaning", number), done
            found = sql.run("select row__id.writeid, a from lake.summed order by a")
            assert found == [(row, row) for row in range(1, number + 1)]
    finally:
        sql.run("drop materialized view lake.summed")


def test_a_request_that_is_not_needed_is_refused_in_hives_words(lake: Lake, service: Service) -> None:
    made, needed = lake.table("single", CRUD[:1]), lake.table("needed", CRUD)
    for one in (made, needed):
        lake.request(one)
    ran = service.good("major_compact", "--max-partitions", "1")
    assert {entry["table"]: entry["state"] for entry in ran.compactions} == {
        "single": "already compact", "needed": "ready for cleaning",
    }  # fmt: skip
    (row,) = lake.of(made)
    assert row.error_message is not None
    assert row.state is State.REFUSED
    assert row.error_message.startswith("None of the compaction thresholds met, compaction request is refused!")
    assert row.error_message.endswith("(there is nothing to merge: 1 delta directory and no base)")
    for again in range(3):  # what is obsolete waits for the cleaner
        ran = service.good("major_compact", "--table", needed.full, *(("--dry-run",) if again == 1 else ()))
        assert (ran.states, ran.told) == (["already compact"], "there is nothing to merge: a base and no delta")
    assert lake.states(needed) == ["ready for cleaning"]
    lake.request(made)
    service.good("major_compact")
    assert service("status", "--table", made.full).document["findings"] == []
    lake.check(made)


def test_settings_of_a_hive_site_say_where_the_metastore_is(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("found")
    monkeypatch.setenv("HIVE_CONF_DIR", str(lake.metastore.conf_dir))
    ran = service.jobs.good("major_compact", "--table", made.full)
    assert ran.states == ["ready for cleaning"]
    assert lake.states(made) == ["ready for cleaning"]


def test_names_on_the_command_line_may_be_in_upper_case(lake: Lake, service: Service) -> None:
    made = lake.table("letters", partitions=["Ab", "cd", "x/y=1 %", "ü"])
    ran = service.good("major_compact", "--table", "LAKE.Letters", "--partition", "P=A*", "--partition", "p=x?y=1 %")
    assert sorted((entry["partition"], entry["state"]) for entry in ran.compactions) == [
        ("p=Ab", "ready for cleaning"), ("p=x%2Fy%3D1 %25", "ready for cleaning"),
    ]  # fmt: skip
    lake.check(made)


# --- pools and order --------------------------------------------------------------------------------------------------


def test_a_pool_is_served_by_its_own_runs(lake: Lake, service: Service, sql: Session) -> None:
    one, other = lake.table("one"), lake.table("other")
    sql.run(f"alter table {one.full} compact 'major' pool 'x'")
    lake.request(other)
    assert [entry["table"] for entry in service.good("major_compact").compactions] == ["other"]
    assert service.good("major_compact", "--pool", "y").compactions == []
    assert lake.states(one) == ["initiated"]
    assert [entry["table"] for entry in service.good("major_compact", "--pool", "x").compactions] == ["one"]
    assert lake.states(one) == ["ready for cleaning"]


def test_a_named_run_is_not_in_the_way_of_a_pool(lake: Lake, service: Service, proxy: Proxy) -> None:
    """Its request is in a pool of its own, that no other worker takes from."""
    made = lake.table("by_name")
    taken: list[object] = []
    proxy.after("compact2", lambda: taken.append(lake.hms.find_next_compaction("hive-1", "4.0.1", None)))
    assert service.good("major_compact", "--table", made.full, uri=proxy.uri).states == ["ready for cleaning"]
    assert taken == [None]
    assert lake.states(made) == ["ready for cleaning"]


def test_requests_are_done_in_order_up_to_the_last_of_the_kind(lake: Lake, service: Service) -> None:
    made = lake.table("ordered", partitions=["1", "2", "3", "4"])
    for part, kind in (("1", "minor"), ("2", "major"), ("3", "minor"), ("4", "minor")):
        lake.request(made, kind, partition=f"p={part}")
    ran = service.good("major_compact")
    assert [(entry["partition"], entry["type"]) for entry in ran.compactions] == [("p=1", "minor"), ("p=2", "major")]
    assert lake.states(made) == ["ready for cleaning"] * 2 + ["initiated"] * 2
    assert service.good("minor_compact", "--max-partitions", "1").states == ["ready for cleaning"]
    assert lake.states(made) == ["ready for cleaning"] * 3 + ["initiated"]
    dry = service.good("minor_compact", "--dry-run")
    assert dry.states == ["planned"]
    assert lake.states(made) == ["ready for cleaning"] * 3 + ["initiated"]
    lake.check(made)


def test_a_named_run_conflicts_with_what_is_queued(lake: Lake, service: Service) -> None:
    made = lake.table("busy")
    number = lake.request(made)
    before = made.place.directories()
    ran = service("major_compact", "--table", made.full)
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert "Compaction is already scheduled with state='initiated'" in ran.compactions[0]["reason"]
    assert f"id={number}" in ran.compactions[0]["reason"]
    assert made.place.directories() == before
    assert lake.states(made) == ["initiated"]
    withdrawn = service("cancel", str(number), "999999")
    assert (withdrawn.status, withdrawn.document["totals"]["states"]["cancelled"]) == (3, 1)
    assert lake.states(made) == ["aborted"]
    (again,) = service("cancel", str(number)).document["cancellations"]
    assert (again["state"], again["reason"]) == ("refused", "it has ended before, as aborted")
    assert service.compact(made).states == ["ready for cleaning"]


# --- the initiator ----------------------------------------------------------------------------------------------------


def decided(service: Service, *arguments: str, table: str = "lake.*") -> dict[str, dict[str, Any]]:
    """What the initiator decided, by table."""
    ran = service.good("initiator", "--table", table, *arguments)
    return {entry["table"]: entry for entry in ran.document["decisions"]}


def findings(service: Service, made: Made) -> list[dict[str, Any]]:
    """What status finds of a table, without the requests of other tests."""
    found: list[dict[str, Any]] = service("status", "--table", made.full, *LOW).document["findings"]
    return [one for one in found if one["table"] == made.name]


def test_what_no_run_can_compact_makes_none_fail_and_is_a_finding(lake: Lake, service: Service) -> None:
    """A directory that is gone, a base above a mark that was reset, a file that is no ACID file, a sorted table."""
    gone, reset, foreign = (lake.table(name) for name in ("gone", "reset", "foreign"))
    fine = lake.table("fine")
    shutil.rmtree(gone.location)
    shutil.rmtree(reset.location)
    write_dir(reset.location, "base_0000009_v0000001", COLUMNS, inserts(9, rows(1, 1)))
    (foreign.location / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(orc_bytes(COLUMNS, [(1, "v")]))
    is_sorted = NewTable(columns=ROW, properties=INSERT_ONLY, buckets=1, bucket_columns=["id"], sort_columns=["id"])
    lake.writes.table("lake", "sorted", is_sorted)
    ran = service.good("initiator", "--table", "lake.*", *LOW)
    found = {entry["table"]: entry for entry in ran.document["decisions"]}
    assert {name: entry["outcome"] for name, entry in found.items()} == {
        "gone": "refused", "reset": "refused", "foreign": "refused", "fine": "due",
    }  # fmt: skip
    assert (found["foreign"]["type"], "has no ACID columns" in found["foreign"]["reason"]) == ("major", True)
    totals = ran.document["totals"]
    assert totals == {"looked_at": 4, "queued": 1, "refused": 3, "held_back": 0, "failed": 0}
    assert "3 places cannot be compacted as they are: status has a finding for each" in ran.document["notes"]
    status = service("status", "--table", "lake.*", *LOW).document
    assert {(one["table"], one["trouble"]) for one in status["findings"] if one["database"] == "lake"} == {
        ("gone", "missing"),
        ("reset", "not judged"),
        ("foreign", "cannot be compacted"),
        ("sorted", "cannot be compacted"),
    }
    lake.hms.abort_compactions([found["fine"]["queued"]])
    # where what is above the table is gone as well, a mount may be missing, and it may be there the next time
    away = gone.location.parent.rename(gone.location.parent.with_name("away"))
    ran = service("initiator", "--table", gone.full, *LOW)
    away.rename(gone.location.parent)
    (entry,) = ran.document["decisions"]
    assert (ran.status, entry["outcome"]) == (3, "failed")
    lake.check(fine)


def test_thresholds_are_those_of_the_table(lake: Lake, service: Service) -> None:
    number = "compactorthreshold.hive.compactor.delta.num.threshold"
    ratio = "compactorthreshold.hive.compactor.delta.pct.threshold"
    for name, properties in {
        "over": {number: "3"},  # it has four deltas
        "equal": {number: "4"},
        "plain": {},
        "based": {number: "1", ratio: "1000"},
        "heavy": {number: "1000", ratio: "0.2"},
    }.items():
        made = lake.table(name, properties=properties)
        if name in ("based", "heavy"):
            service.compact(made)
            service.clean("--table", made.full)
            lake.add(made, [Transaction(inserts=rows(500, 9)), Transaction(inserts=rows(600, 9))], 4)
    found = decided(service, "--dry-run")
    assert {name: entry["type"] for name, entry in found.items()} == {
        "over": "major", "equal": None, "plain": None, "based": "minor", "heavy": "major",
    }  # fmt: skip
    assert all(entry["reason"] for entry in found.values())
    assert (found["over"]["threshold"], found["over"]["deltas"]) == (3, 4)
    before = lake.queue().keys()
    found = decided(service)
    queued = {name: entry["queued"] for name, entry in found.items() if entry["queued"] is not None}
    assert queued.keys() == {"over", "based", "heavy"}
    rows_of = lake.queue()
    assert rows_of.keys() - before == set(queued.values())
    assert {rows_of[number].type.label for name, number in queued.items() if name != "based"} == {"MAJOR"}
    assert rows_of[queued["based"]].type.label == "MINOR"
    again = decided(service)
    assert {name: entry["queued"] for name, entry in again.items()} == dict.fromkeys(found, None)
    assert all("a request for it waits" in again[name]["reason"] for name in queued)
    assert len(lake.queue().keys() - rows_of.keys()) == 0


@pytest.mark.parametrize(
    ("of_database", "of_table", "queued"),
    [
        ({}, {"NO_AUTO_COMPACTION": "TRUE"}, False),
        ({"no_auto_compaction": "true"}, {"no_auto_compaction": "false"}, False),
        ({"no_auto_compaction": "false"}, {"no_auto_compaction": "true"}, True),
    ],
)
def test_no_auto_compaction_of_table_and_database(
    hive4_metastore: Metastore, service: Service, of_database: dict, of_table: dict, queued: bool
) -> None:
    """That of the database decides for all its tables (Hive Initiator). What is named is done all the same."""
    with Lake(hive4_metastore, properties=of_database) as lake:
        made = lake.table("t", properties=of_table)
        found = decided(service, *LOW, table="lake.t")
        assert found["t"]["queued" if queued else "reason"]
        assert len(lake.of(made)) == queued
        if not queued:
            assert "no_auto_compaction" in found["t"]["reason"].lower()
            assert service.compact(made).states == ["ready for cleaning"]


def test_a_pool_property_is_where_the_initiator_queues(lake: Lake, service: Service) -> None:
    made = lake.table("pooled", properties={"hive.compactor.worker.pool": "big"})
    assert decided(service, *LOW)["pooled"]["queued"]
    assert [row.pool for row in lake.of(made)] == ["big"]
    assert service.good("major_compact").compactions == []
    assert service.good("major_compact", "--pool", "big").states == ["ready for cleaning"]


def test_after_failures_the_initiator_leaves_it_alone(lake: Lake, service: Service) -> None:
    made = lake.table("failing")
    file = made.place.location / "delta_0000001_0000001_0000" / "bucket_00000"
    whole = file.read_bytes()
    file.write_bytes(whole[:200])
    for _ in range(2):
        assert decided(service, *LOW)["failing"]["queued"]
        assert service("major_compact").status == 3
    file.write_bytes(whole)
    told = "Compaction is not initiated since last 2 consecutive compaction attempts failed"
    dry = decided(service, *LOW, "--dry-run")["failing"]
    assert told in dry["reason"]
    assert lake.states(made) == ["failed", "failed"]
    entry = decided(service, *LOW)["failing"]
    assert entry["queued"] is None
    assert told in entry["reason"]
    assert lake.states(made) == ["failed", "failed", "did not initiate"]
    assert told in (lake.of(made)[-1].error_message or "")
    assert decided(service, *LOW, "--force")["failing"]["queued"]
    assert service.good("major_compact").states == ["ready for cleaning"]
    lake.check(made)


def test_what_was_refused_is_not_asked_for_again_until_it_changes(lake: Lake, service: Service) -> None:
    """Row ids that interleave, as only the merging of the files finds; statistics of the table do not count."""
    made = lake.table("refused")
    one, other = (made.place.location / f"delta_000000{number}_000000{number}_0000" for number in (1, 2))
    (file,) = other.glob("bucket_*")
    whole = file.read_bytes()
    file.write_bytes(next(one.glob("bucket_*")).read_bytes())
    assert decided(service, *LOW)["refused"]["queued"]
    (refused,) = service.good("major_compact").compactions
    assert (refused["state"], "interleave" in refused["reason"]) == ("refused", True)
    request = lake.of(made)[0]
    entry = decided(service, *LOW)["refused"]
    assert entry["queued"] is None
    since = f"request {request.id} was refused, and nothing has changed there since: {refused['reason']}"
    assert entry["reason"] == since
    assert (entry["outcome"], lake.states(made)) == ("refused", ["refused"])
    (finding,) = findings(service, made)
    assert (finding["trouble"], finding["reason"].partition("; it is due")[0]) == ("cannot be compacted", since)
    file.write_bytes(whole)
    entry = decided(service, *LOW)["refused"]
    assert entry["queued"]
    (done,) = service.good("major_compact").compactions
    assert (done["state"], done["reason"]) == ("ready for cleaning", entry["reason"])
    lake.check(made)


def test_a_backfill_by_name_begins_with_what_has_not_failed(lake: Lake, service: Service) -> None:
    made = lake.table("backfill", partitions=["1", "2", "3"])
    (made.places[0].location / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"ORC, or so it says")
    run = ("major_compact", "--table", made.full, "--order", "name", "--max-partitions", "1")
    turns = [service(*run).compactions[-1] for _ in range(4)]
    assert [(entry["partition"], entry["state"]) for entry in turns] == [
        ("p=1", "failed"), ("p=2", "ready for cleaning"), ("p=3", "ready for cleaning"), ("p=1", "failed"),
    ]  # fmt: skip


def test_hundreds_of_partitions_cost_few_calls(lake: Lake, service: Service, proxy: Proxy) -> None:
    made = lake.table("many", partitions=[f"{number:04d}" for number in range(MANY)], filled=3)
    proxy.calls.clear()
    ran = service.good("initiator", "--table", made.full, *LOW, uri=proxy.uri)
    assert ran.document["totals"]["queued"] == 3
    assert ran.document["totals"]["looked_at"] == MANY
    assert sum(proxy.calls.values()) < 60, proxy.calls
    proxy.calls.clear()
    assert len(service.good("major_compact", uri=proxy.uri).compactions) == 3
    assert sum(proxy.calls.values()) < 120, proxy.calls
    assert lake.seen(made) == made.expected


# --- several workers --------------------------------------------------------------------------------------------------


def test_runs_at_once_never_take_the_same_request(lake: Lake, service: Service, tmp_path: Path) -> None:
    made = lake.table("shared", partitions=[f"{number:02d}" for number in range(12)])
    wanted = {lake.request(made, partition=place.name) for place in made.places}
    go = tmp_path / "go"

    def run() -> Any:
        wait_for(go.exists)
        return service("major_compact", "--max-partitions", "5")

    children = [Child(run, tmp_path / f"answer{number}") for number in range(3)]
    go.touch()
    ran = [child.ran() for child in children]
    assert [one.status for one in ran] == [0, 0, 0]
    taken = [entry["id"] for one in ran for entry in one.compactions]
    assert Counter(taken) == Counter(wanted)
    assert {entry["state"] for one in ran for entry in one.compactions} == {"ready for cleaning"}
    assert lake.states(made) == ["ready for cleaning"] * 12
    assert [sum(name.startswith("base_") for name in place.directories()) for place in made.places] == [1] * 12
    lake.check(made)


def test_beside_hives_own_worker_every_request_is_done_once(lake: Lake, service: Service) -> None:
    made = lake.table("side_by_side", partitions=[str(number) for number in range(6)])
    for place in made.places:
        lake.request(made, partition=place.name, pool=HIVE_POOL)
    wait_for(lambda: bool(lake.working()) or "ready for cleaning" in lake.states(made))
    while "initiated" in lake.states(made):
        ran = service.good("major_compact", "--pool", HIVE_POOL, "--max-partitions", "1")
        assert set(ran.states) <= {"ready for cleaning"}
    wait_for(lambda: not lake.working(), 60)
    found = lake.of(made)
    assert Counter(row.ref.partition for row in found) == Counter(place.name for place in made.places)
    assert {row.state for row in found} == {State.READY_FOR_CLEANING}, found
    assert {row.worker_version for row in found} > {"4.0.1"}, "both have worked"
    for place in made.places:
        assert sum(name.startswith("base_") for name in place.directories()) == 1
    lake.check(made)
    assert {entry["state"] for entry in service.clean("--table", made.full)} == {"succeeded"}
    assert [len(place.directories()) for place in made.places] == [1] * 6
    lake.check(made)


# --- the cleaner ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TxnType.DEFAULT, TxnType.READ_ONLY], ids=["a query", "a read-only one"])
def test_an_old_reader_keeps_what_it_may_read(lake: Lake, service: Service, kind: TxnType) -> None:
    made = lake.table("read")
    old = made.place.directories()
    reader = lake.open("ann", kind)
    (done,) = service.compact(made).compactions
    later = lake.open("bob", kind)
    (waits,) = service.clean("--table", made.full)
    assert (waits["state"], waits["removed"]) == ("ready for cleaning", [])
    assert f"transaction {reader} is open" in waits["reason"]
    assert lake.states(made) == ["ready for cleaning"]
    assert set(old) < set(made.place.directories())
    found = service.good("show_compactions", "--blockers").document["blockers"]
    (blocker,) = [entry for entry in found if entry["request_id"] == done["id"]]
    assert (blocker["kind"], blocker["id"], blocker["user"], blocker["host"]) == (
        "transaction", reader, "ann", "testhost",
    )  # fmt: skip
    assert 0 <= blocker["age_ms"] < 120_000
    short = ("--set", "metastore.compactor.oldest.uncleaned.compaction.time.threshold=1ms")
    status = service("status", "--table", made.full, *short)
    assert status.status == 4
    reasons = {one["trouble"]: one["reason"] for one in status.document["findings"]}
    assert f"waits for transaction {reader} of ann at testhost" in reasons["blocked by a transaction"]
    assert status.document["transactions"]["open"] >= 2
    lake.hms.commit_txn(reader, kind)
    found = service.good("show_compactions", "--blockers").document["blockers"]
    assert [entry for entry in found if entry["request_id"] == done["id"]] == []
    planned = service.clean("--table", made.full, "--dry-run")
    assert [entry["state"] for entry in planned] == ["planned"]
    assert set(old) < set(made.place.directories())
    (cleaned,) = service.clean("--table", made.full)
    assert cleaned["state"] == "succeeded"
    assert {entry["path"] for entry in cleaned["removed"]} == set(old)
    assert made.place.directories() == done["output_directories"]
    lake.hms.abort_txn(later, kind)
    lake.check(made)


def test_a_reader_that_opened_while_we_compacted_keeps_them_too(lake: Lake, service: Service, proxy: Proxy) -> None:
    """Its snapshot was taken before our commit, though its number is higher than that of our transaction."""
    made = lake.table("during")
    old = made.place.directories()
    opened: list[int] = []
    proxy.before("commit_txn", lambda: opened.append(lake.open("late")))
    service.good("major_compact", "--table", made.full, uri=proxy.uri)
    (waits,) = service.clean("--table", made.full)
    assert (waits["state"], waits["removed"]) == ("ready for cleaning", [])
    assert f"transaction {opened[0]} is open" in waits["reason"]
    assert set(old) < set(made.place.directories())
    lake.hms.abort_txn(opened[0], TxnType.DEFAULT)
    assert [entry["state"] for entry in service.clean("--table", made.full)] == ["succeeded"]
    lake.check(made)


def test_a_later_result_is_not_cleaned_before_an_earlier_one(lake: Lake, service: Service) -> None:
    made = lake.table("twice")
    service.compact(made, "minor")
    made = lake.add(made, [Transaction(inserts=rows(700, 4))], 4)
    service.compact(made)
    assert lake.states(made) == ["ready for cleaning"] * 2
    clean_up(lake, service, made)
    lake.check(made)
    assert lake.states(made) == ["succeeded"] * 2
    (left,) = made.place.directories()
    assert left.startswith("base_0000004_v")


def test_a_base_that_was_overwritten_while_its_inputs_await_cleaning_goes(lake: Lake, service: Service) -> None:
    made = lake.table("overwritten")
    reader = lake.open()
    service.compact(made)
    added = lake.add(made, [Transaction(inserts=rows(700, 4))], 4)
    location = made.place.location
    (location / "delta_0000004_0000004_0000").rename(location / "base_0000004")
    new = tuple(row for row in added.place.expected if row not in made.place.expected)
    made = replace(made, places=(replace(made.place, expected=new),))
    lake.check(made)
    (decision,) = service.good("initiator", "--table", made.full).document["decisions"]
    assert (decision["type"], decision["reason"]) == ("major", "an obsolete base is left to be cleaned")
    assert decision["queued"] is not None
    assert service.good("major_compact").states == ["ready for cleaning"]
    (decision,) = service.good("initiator", "--table", made.full).document["decisions"]
    assert decision["queued"] is None, "what waits now reaches all of it"
    lake.hms.commit_txn(reader, TxnType.DEFAULT)
    clean_up(lake, service, made)
    assert lake.states(made) == ["succeeded"] * 2
    assert made.place.directories() == ["base_0000004"]
    lake.check(made)


def test_aborted_directories_go_only_where_the_abort_is_proven(lake: Lake, service: Service) -> None:
    made = lake.table("aborted", ABORTED)
    location = made.place.location
    (done,) = service.compact(made).compactions
    dead = lake.open("dead", TxnType.COMPACTION)
    lake.hms.abort_txn(dead, TxnType.COMPACTION)
    unknown = {"base_0000002_v8888888", "delta_0000001_0000002_v8888888", "delta_0000008_0000008_0000"}
    for name in (*unknown, f"base_0000003_v{dead:07d}"):
        write_dir(location, name, COLUMNS, inserts(8, rows(950, 1)))
    lake.check(made)
    (cleaned,) = service.clean("--table", made.full)
    left = set(made.place.directories())
    assert not {"delta_0000004_0000004_0000", "delete_delta_0000004_0000004_0000"} & left, "write id 4 was aborted"
    assert f"base_0000003_v{dead:07d}" not in left, "so was the transaction of this one"
    assert left == {*done["output_directories"], *unknown}, "nobody knows what becomes of these"
    lake.check(made)
    # as in Hive, the request stays as long as something would be obsolete if its transaction committed
    assert cleaned["state"] == "ready for cleaning"
    assert "base_0000002_v8888888" in cleaned["reason"]
    for name in unknown - {"delta_0000008_0000008_0000"}:
        shutil.rmtree(location / name)
    assert [entry["state"] for entry in service.clean("--table", made.full)] == ["succeeded"]
    assert set(made.place.directories()) == {*done["output_directories"], "delta_0000008_0000008_0000"}


def test_what_another_compactor_has_begun_is_in_the_way(lake: Lake, service: Service) -> None:
    """Its transaction may still commit, and then the same rows would be there twice."""
    made = lake.table("two_of_us")
    other = lake.open("other", TxnType.COMPACTION)
    name = f"delta_0000001_0000003_v{other:07d}"
    write_dir(made.place.location, name, COLUMNS, inserts(1, rows(950, 1)))
    before = made.place.directories()
    ran = service("minor_compact", "--table", made.full)
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert name in ran.compactions[0]["reason"]
    assert made.place.directories() == before
    lake.hms.abort_txn(other, TxnType.COMPACTION)
    assert service.compact(made, "minor").states == ["ready for cleaning"]
    lake.check(made)


def test_an_aborted_part_of_a_delta_that_stays_is_not_forgotten(lake: Lake, service: Service, proxy: Proxy) -> None:
    """Or rows that nobody ever saw would appear. The request ends, though, as with Hive's own cleaner."""
    made = lake.table("mixed", CRUD[:2])
    location = made.place.location
    # what a streaming writer leaves whose first transaction was aborted, and whose last two are still open
    seen = inserts(4, rows(402, 2), first=2)
    write_dir(location, delta_name(3, 6, None), COLUMNS, [*inserts(3, rows(300, 2)), *seen])
    first, second, third, fourth = (lake.write(made)[0] for _ in range(4))
    lake.hms.abort_txn(first, TxnType.DEFAULT)
    lake.hms.commit_txn(second, TxnType.DEFAULT)
    made = with_rows(made, [(4, event[2], event[3], event[5]) for event in seen])
    lake.check(made)
    compacted_by_hive(lake, made, mark=4, base=2)
    lake.check(made)
    for txn in (third, fourth):
        lake.hms.commit_txn(txn, TxnType.DEFAULT)
    ran = service.good("cleaner", "--retention", "0s", "--table", made.full, uri=proxy.uri)
    (done,) = ran.document["cleanings"]
    assert done["state"] == "succeeded"
    assert proxy.calls["mark_cleaned"] == 1
    assert lake.states(made) == ["succeeded"]
    assert sorted(made.place.directories())[1:] == ["delta_0000003_0000006"]
    lake.check(made)
    assert lake.write_ids(made).endswith(":3"), "it is remembered that write id 3 was aborted"
    # once everything is in one base the abort may be forgotten
    service.compact(made)
    clean_up(lake, service, made)
    lake.check(made)
    (left,) = made.place.directories()
    assert left.startswith("base_0000006_v")


def with_rows(made: Made, more: list[tuple[int, int, int, Any]]) -> Made:
    """The table with further rows expected in its only place."""
    place = replace(made.place, expected=tuple(sorted((*made.place.expected, *more))))
    return replace(made, places=(place,))


def compacted_by_hive(lake: Lake, made: Made, *, mark: int, base: int) -> None:
    """What Hive's worker does: a request taken, a base of the write ids up to `base` committed under this mark."""
    lake.request(made)
    taken = lake.hms.find_next_compaction("hive-1", "4.0.1", None)
    assert taken is not None
    txn = lake.open("hive", TxnType.COMPACTION)
    taken = replace(taken, highest_write_id=mark)
    lake.hms.update_compactor_state(taken, txn)
    events = [(0, *row[:3], row[0], row[3]) for row in made.expected if row[0] <= base]
    write_dir(made.place.location, f"base_{base:07d}_v{txn:07d}", COLUMNS, events)
    lake.hms.mark_compacted(taken)
    lake.hms.commit_txn(txn, TxnType.COMPACTION)


def test_retention_is_kept_when_it_is_asked_for(lake: Lake, service: Service) -> None:
    made = lake.table("kept")
    service.compact(made)
    ran = service.good("cleaner", "--retention", "1h", "--table", made.full)
    (waits,) = ran.document["cleanings"]
    assert (waits["state"], waits["removed"]) == ("ready for cleaning", [])
    assert "retention of 1 h" in waits["reason"]
    assert len(made.place.directories()) == 5


def test_where_readers_register_write_ids_they_are_looked_for_in_the_database(jobs: Jobs, servers: Servers) -> None:
    properties = {"metastore.txn.use.minhistorywriteid": "true"}
    with (
        servers.metastore(Generation.HIVE4, properties=properties) as metastore,
        Lake(metastore) as lake,
        Proxy(metastore) as proxy,
    ):
        service = Service(jobs=jobs, uri=proxy.uri)
        made = lake.table("t")
        lake.request(made)
        assert service.good("major_compact").states == ["ready for cleaning"]
        assert proxy.calls["add_write_ids_to_min_history"] == 1
        lake.check(made)
        before = made.place.directories()
        for force in ((), ("--force",)):
            (waits,) = service.clean(*force)
            assert "metastore.txn.use.minhistorywriteid" in waits["reason"]
        assert made.place.directories() == before
        assert lake.states(made) == ["ready for cleaning"]
        looking = replace(service, jobs=Jobs(queue_url=metastore.database_url))
        reader = lake.open()
        lake.hms.add_write_ids_to_min_history(reader, {made.full: 4})
        (waits,) = looking.clean()
        assert f"transaction {reader} may be older than its commit and reads the table" in waits["reason"]
        # as if it had begun two hours later
        lake.sql('update "TXNS" set "TXN_STARTED" = "TXN_STARTED" + 7200000 where "TXN_ID" = %s', reader)
        assert [one["state"] for one in looking.clean()] == ["succeeded"]
        assert len(made.place.directories()) == 1
        lake.check(made)


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.fixture
def gathering(hiveserver: HiveServer) -> Iterator[Session]:
    """A session that keeps the statistics of what it writes."""
    with hiveserver.hive.session(GATHERING) as session:
        yield session


def test_statistics_are_those_of_the_result(lake: Lake, service: Service, gathering: Session) -> None:
    """What Hive claims of rows it claims as before, and answers by; what it does not claim is counted."""
    made = gathered(lake, gathering, "told")
    before = made.parameters()
    assert made.count() == (4, True)
    (done,) = service.good("minor_compact", "--table", made.full).compactions
    size, at = made.parameters()["totalSize"], made.parameters()[CHANGED]
    assert done["statistics"] == {
        "written": ["numFiles", "totalSize"], "reason": None, "files": 1, "bytes": int(size), "rows": None
    }  # fmt: skip
    assert int(size) == done["bytes_out"]
    assert made.parameters() == {**before, CHANGED: at, "numFiles": "1", "totalSize": size}
    assert int(at) > int(before[CHANGED])
    assert made.count() == (4, True)
    made.insert(5)
    gathering.run(f"alter table {made.full} set tblproperties ('numRows'='99', 'COLUMN_STATS_ACCURATE'='')")
    (done,) = service.good("major_compact", "--table", made.full).compactions
    files, size = made.base()
    assert (done["statistics"]["reason"], done["statistics"]["rows"]) == (None, 5)
    assert (*made.told(), made.parameters()["numRows"]) == (files, size, "5")
    assert made.count() == (5, False), "nobody claims that it is right"
    shown = {cell.strip() for row in gathering.run(f"describe formatted {made.full}") for cell in row if cell}
    assert {"numFiles", files, "totalSize", size, "numRows", "5", "mine", "of a row"} <= shown


@pytest.mark.parametrize("what", ["an alter", "an insert"])
def test_what_others_change_between_reading_and_writing_is_kept(
    lake: Lake, service: Service, proxy: Proxy, gathering: Session, what: str
) -> None:
    made = gathered(lake, gathering, "raced")

    def between() -> None:
        if what == "an alter":
            gathering.run(f"alter table {made.full} set tblproperties ('theirs'='y')")
        else:
            made.insert(5)

    proxy.before("alter_table_req", between)
    (done,) = service.good("major_compact", "--table", made.full, uri=proxy.uri).compactions
    assert proxy.happened == ["before alter_table_req"]
    assert proxy.calls["alter_table_req"] == (2 if what == "an alter" else 1), "after the insert all is right"
    assert done["statistics"]["reason"] is None
    found = made.parameters()
    if what == "an alter":
        assert (found["mine"], found["theirs"], made.told()) == ("x", "y", made.base())
        assert made.count() == (4, True)
    else:
        assert (found["numFiles"], found["numRows"]) == (str(done["statistics"]["files"]), "5")
        assert made.count() == (5, True)


def test_a_compaction_goes_well_whatever_becomes_of_the_statistics(
    lake: Lake, service: Service, proxy: Proxy, gathering: Session
) -> None:
    """The next one, after a run was killed before it wrote them, or was not let."""
    made = gathered(lake, gathering, "stale")
    proxy.deaf_to.add("alter_table_req")
    (done,) = service.good("major_compact", "--table", made.full, uri=proxy.uri).compactions
    assert (done["state"], done["statistics"]["written"]) == ("ready for cleaning", [])
    assert done["statistics"]["reason"].startswith("Cannot tell the outcome of an attempt to change properties of lake")
    assert made.told()[0] == "2"
    assert made.base()[0] == "1"
    made.insert(5)
    before = made.parameters()
    assert killed_at(Point.COMMITTED, lambda: service("major_compact", "--table", made.full))
    assert made.parameters() == before
    made.insert(6)
    assert service.good("major_compact", "--table", made.full).compactions[0]["statistics"]["reason"] is None
    assert made.told() == made.base()
    assert made.count() == (6, True)


def test_of_a_partition_single_rows_are_changed_in_the_database(
    lake: Lake, service: Service, hive4_metastore: Metastore, gathering: Session
) -> None:
    """No call keeps concurrent changes; the database does, also what another has begun to change."""
    made = gathered(lake, gathering, "parts", partitioned=True)
    before = made.parameters()
    (done,) = service.good("major_compact", "--table", made.full).compactions
    assert done["statistics"]["reason"].startswith(f"Cannot update statistics of {made.full}.p=1: no call")
    assert made.parameters() == before
    made.insert(5)
    before = made.parameters()
    there = replace(service, jobs=Jobs(queue_url=hive4_metastore.database_url))
    with psycopg.connect(hive4_metastore.database_url.replace("+psycopg", "")) as other:
        other.execute(
            'insert into "PARTITION_PARAMS" select "PART_ID", %s, %s from "PARTITIONS" join "TBLS" using ("TBL_ID")'
            ' where "TBL_NAME" = %s',
            ("theirs", "y", "parts"),
        )
        (done,) = there.good("major_compact", "--table", made.full).compactions
    assert done["statistics"]["written"] == ["numFiles", "totalSize"]
    files, size = made.base()
    assert made.parameters() == {**before, "theirs": "y", "numFiles": files, "totalSize": size}
    assert made.count() == (5, True)
