"""The services on a real Hive 3.1.3 metastore, with its queue and with a queue of our own.

Tables and transactions are made over thrift as Hive makes them (``hive3_tables``), files are those that Hive wrote, and
rows are judged by an independent reader with the write ids that the metastore tells at that moment.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from judges import merge, tables
from judges.plain_rows import insert_only_rows
from located import at
from long_runs import amount
from runners import ThreadRunner
from servers.fleet import Servers
from servers.metastore import Metastore

from acidlib.acid.names import Generation
from acidlib.metastore import holding
from acidlib.metastore.heartbeat import Lease
from acidlib.points import Point
from acidlib.ports import sql
from acidlib.ports.hive3 import LockedPlace
from acidlib.ports.sql import SqlHold
from acidlib.runs import plan as units
from acidlib.stores.renaming import claims
from acidlib.stores.renaming.claims import claim
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStage
from integration.children import forked, killed_at
from integration.conftest import started
from integration.harness import Jobs, names, tree, use_runner, visible
from integration.hive3_site import METASTORES, NOW, OWN, Site, forget_claim, site
from integration.hive3_tables import HOST, MINOR, USER, Gate, Laid, full_acid, hives_names
from integration.metastore_writes import NewTable, Writes
from integration.test_named_compaction import break_second_rename, raise_retry
from integration.test_two_runs import Held

pytestmark = pytest.mark.live

LOW = ("--set", "hive.compactor.delta.num.threshold=1")
# what is about the metastore, at one of the queues: their suites hold them alike
AT_HIVES = pytest.mark.parametrize("both", amount([METASTORES], long=[METASTORES, OWN]), indirect=True)
AT_OURS = pytest.mark.parametrize("both", amount([OWN], long=[METASTORES, OWN]), indirect=True)


def in_turn(*values: str) -> list[tuple[str, str]]:
    """Each value at one of the queues in turn; in a long run all at both."""
    queues = (METASTORES, OWN)
    turns = [(queues[number % 2], value) for number, value in enumerate(values)]
    return amount(turns, long=[(queue, value) for queue in queues for value in values])


TWO_RENAMES = ("--minor-as-major-bytes", "0")
ONE_DELTA = "j_stream"  # below its open transactions: a major makes a base of it, a minor has nothing to do


@pytest.fixture(scope="module")
def busy_metastore(servers: Servers) -> Iterator[Metastore]:
    """A metastore whose own initiator and cleaner run."""
    properties = {"hive.compactor.delta.num.threshold": "1", "hive.compactor.delta.pct.threshold": "0.5"}
    with started(
        lambda: servers.metastore(Generation.HIVE3, initiator_on=True, cleaner_on=True, properties=properties)
    ) as metastore:
        yield metastore


@pytest.fixture(scope="module")
def hasty_metastore(servers: Servers) -> Iterator[Metastore]:
    """A metastore that gives up whoever has not been heard of for two seconds."""
    with started(lambda: servers.metastore(Generation.HIVE3, txn_timeout_seconds=2)) as metastore:
        yield metastore


@pytest.fixture
def in_the_middle(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Lets something happen once in the next run: at `run_unit_task` (at work), at `publish` (renames follow)."""

    def arrange(point: str, action: Callable[[], object]) -> None:
        module = units if point == "run_unit_task" else RenameStage
        original = getattr(module, point)
        left = [action]

        def wrapped(*arguments: Any, **more: Any) -> Any:
            if left:
                left.pop()()
            return original(*arguments, **more)

        monkeypatch.setattr(module, point, wrapped)

    return arrange


def bases(place: Path) -> list[str]:
    return [name for name in visible(place) if name.startswith("base_")]


def until(done: Callable[[], bool], seconds: float = 120) -> None:
    """Waits, looking often."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


# --- every table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("both", "kind"), [(METASTORES, "major"), (OWN, "minor")], indirect=["both"])
def test_an_insert_only_table_from_the_request_to_the_cleaning(both: Site, kind: str) -> None:
    laid = both.lay_insert_only("h_mm_orc")
    rows = insert_only_rows(laid.location, laid.write_ids())
    assert sum(rows.values()) == sum(laid.fixture.hive_rows().values())
    if kind == "major":
        both.good("initiator", *LOW)
        ran = both.good("major_compact")
    else:
        ran = both.good("minor_compact", "--table", laid.full_name)
    assert ran.states == ["ready for cleaning"], ran
    assert insert_only_rows(laid.location, laid.write_ids()) == rows
    both.clean()
    both.clean()
    assert visible(laid.location) == (["base_0000004"] if kind == "major" else ["delta_0000001_0000004"])
    assert insert_only_rows(laid.location, laid.write_ids()) == rows
    assert both.states() == ["succeeded"]


@pytest.mark.parametrize(("both", "kind"), [(METASTORES, "minor"), (OWN, "major")], indirect=["both"])
def test_every_table_from_the_request_to_the_cleaning(both: Site, kind: str) -> None:
    """Row for row and row id for row id what Hive returned, after each step; names that Hive 3.1 would have given."""
    # two renames would wait for the lock of a transaction that is open
    everything = [both.lay(name, locked=kind == "major") for name in full_acid()]
    for laid in everything:
        assert laid.write_ids().partition(":")[2] == laid.told_write_ids(), laid.name
        assert laid.read() == laid.as_hive_read_it(), laid.name
    every = ("--table", f"{both.database}.*")
    if kind == "major":
        scan = both.good("initiator", *every, *LOW).document["decisions"]
        assert {entry["type"] for entry in scan if entry["table"] != ONE_DELTA} == {"major"}
        done = both.good("major_compact").compactions
        done += both.good("major_compact", "--table", f"{both.database}.{ONE_DELTA}").compactions
    elif both.hives_queue:
        for laid in everything:
            for partition in sorted(laid.partitions) or [None]:
                both.client.ask(both.database, laid.name, partition, kind=MINOR)
        assert set(both.hive_shows()) == {"initiated"}
        done = both.good("minor_compact", *TWO_RENAMES).compactions
    else:
        done = both.good("minor_compact", *every, *TWO_RENAMES).compactions
    entries = {(entry["table"], entry["partition"]): entry for entry in done}
    assert len(entries) == len(done) == 14

    kept = {}
    for laid in everything:
        assert laid.read() == laid.as_hive_read_it(), laid.name
        for place, expected in hives_names(laid, kind).items():
            entry = entries[laid.name, place.name if laid.partitions else None]
            if laid.name == ONE_DELTA and kind == "minor":
                assert (entry["state"], entry["output_directories"]) == ("already compact", [])
                assert entry["reason"]
                continue
            assert entry["state"] == "ready for cleaning", entry
            assert set(entry["output_directories"]) == expected
            assert entry["publication"] == ("two renames" if len(expected) == 2 else "one rename")
            assert expected <= set(visible(place))
            for name in expected:
                assert (place / name / "_orc_acid_version").read_bytes() == b"2"
                assert (place / name / "_metadata_acid").is_file() is (kind == "major")
            left = {name for name in visible(place) if name[0] in "bd"} - set(entry["inputs"])
            kept[place] = left | {name for name in visible(place) if name[0] == "0" and kind == "minor"}

    waiting = [laid.name for laid in everything if laid.pending]
    assert waiting == ["j_stream", "p_opentxn"]
    both.clean()
    for laid in everything:
        laid.end()
    both.clean()
    assert both.clean() == []
    for laid in everything:
        assert laid.read() == laid.as_hive_read_it(), laid.name
    for place, expected in kept.items():
        assert set(names(place)) == expected, place
    assert set(both.states()) == {"succeeded"}
    assert both.client.locks() == []


OF_A_TABLE = 'select "TBL_ID" from "TBLS" join "DBS" using ("DB_ID") where "NAME" = %s'
PARAMETERS = {
    "table": ('"TABLE_PARAMS"', '"TBL_ID"', OF_A_TABLE),
    "partition": (
        '"PARTITION_PARAMS"', '"PART_ID"', f'select "PART_ID" from "PARTITIONS" where "TBL_ID" in ({OF_A_TABLE})'  # noqa: S608
    ),
}  # fmt: skip
"""Where the metastore has the parameters of the only table or partition of a database."""


@pytest.mark.parametrize(
    ("both", "what"), [(METASTORES, "table"), (METASTORES, "partition"), (OWN, "partition")], indirect=["both"]
)
def test_statistics_are_written_where_the_database_is_named(both: Site, what: str) -> None:
    """No call of Hive 3.1 changes single parameters: without its database they stay, and the result says so."""
    laid = both.lay("a_crud", keys=("p",), values=[("1",)]) if what == "partition" else both.lay("a_crud")
    table, key, of = PARAMETERS[what]
    for name, value in (("numFiles", "77"), ("mine", "x")):
        both.sql(f"insert into {table} select n.*, %s, %s from ({of}) n", name, value, both.database)  # noqa: S608

    def told() -> dict[str, str]:
        return dict(
            both.sql(f'select "PARAM_KEY", "PARAM_VALUE" from {table} where {key} in ({of})', both.database)  # noqa: S608
        )

    before = told()
    (done,) = both.good("major_compact", "--table", laid.full_name).compactions
    (made,) = done["files"]
    if both.hives_queue:
        assert done["statistics"]["written"] == ["numFiles", "totalSize", "numRows"]
        changed = {"numFiles": "1", "totalSize": str(made["bytes"]), "numRows": str(made["rows_out"])}
        assert told() == {**before, **changed}
    else:
        assert "no call of Hive 3.1 keeps concurrent changes" in done["statistics"]["reason"]
        assert told() == before


@AT_HIVES
def test_the_initiator_asks_for_a_minor_beside_a_base(both: Site) -> None:
    laid, part = both.lay(), both.lay("b_part")
    every = ("--table", f"{both.database}.*")
    both.good("major_compact", *every)
    both.clean()
    for number in range(3):
        laid.insert((100 + number, "new"))
    part.insert((100, "new", "1.00"), partition="dt=2024-01-02")
    rows = laid.read(), part.read()
    assert sum(rows[0][0].values()) == sum(laid.as_hive_read_it()[0].values()) + 3
    ratio = ("--set", "hive.compactor.delta.pct.threshold=100")
    decisions = both.good("initiator", *every, *LOW, *ratio).document["decisions"]
    assert [(entry["table"], entry["type"]) for entry in decisions if entry["queued"]] == [("a_crud", "minor")]
    assert both.good("major_compact").compactions == []
    (entry,) = both.good("minor_compact").compactions
    assert (entry["state"], entry["publication"]) == ("ready for cleaning", "one rename")
    assert entry["output_directories"] == ["delta_0000005_0000007"]
    both.clean()
    assert visible(laid.location) == ["base_0000004", "delta_0000005_0000007"]
    assert (laid.read(), part.read()) == rows


@AT_OURS
def test_partitions_with_escaped_values_and_names_in_upper_case(both: Site) -> None:
    values = [("EU west", "10:00=[x]/y"), ("ünï", "__HIVE_DEFAULT_PARTITION__"), ("A%", "1"), ("a%", "1")]
    laid = both.lay("f_abort", name="odd", keys=("region", "day"), values=values)
    assert "region=EU west/day=10%3A00%3D%5Bx%5D%2Fy" in laid.partitions
    rows = {place: laid.rows(place) for place in laid.places()}
    assert all(rows.values())
    named = ("--table", laid.full_name.upper(), "--partition", "REGION=EU w*")
    (entry,) = both.good("major_compact", *named).compactions
    assert (entry["table"], entry["partition"]) == ("odd", "region=EU west/day=10%3A00%3D%5Bx%5D%2Fy")
    scan = both.good("initiator", "--table", laid.full_name.upper(), *LOW).document["decisions"]
    assert [entry["partition"] for entry in scan if entry["queued"]] == sorted(
        set(laid.partitions) - {entry["partition"]}
    )
    assert both.good("major_compact").states == ["ready for cleaning"] * 3
    assert {entry["state"] for entry in both.clean("--table", laid.full_name.upper())} == {"succeeded"}
    for place in laid.places():
        assert visible(place) == ["base_0000007"]
        assert laid.rows(place) == rows[place]
    assert {row["partition"] for row in both.rows()} == set(laid.partitions)


@AT_HIVES
def test_what_is_not_compacted_is_named_with_the_reason(both: Site) -> None:
    sorted_table = both.lay("c_bucket", name="in_order")
    # a metastore of 3.1 makes no such table any more, but may have one from before
    both.sql(
        'INSERT INTO "SORT_COLS" ("SD_ID", "COLUMN_NAME", "ORDER", "INTEGER_IDX")'
        ' SELECT t."SD_ID", \'id\', 1, 0 FROM "TBLS" t JOIN "DBS" d ON d."DB_ID" = t."DB_ID"'
        ' WHERE t."TBL_NAME" = \'in_order\' AND d."NAME" = %s',
        both.database,
    )
    writes = Writes(both.metastore.uri, 3)
    writes.table(both.database, "plain", NewTable(properties={}))
    writes.table(both.database, "outside", NewTable(properties={"EXTERNAL": "TRUE"}, kind="EXTERNAL_TABLE"))
    writes.table(both.database, "seen", NewTable(properties={}, kind="VIRTUAL_VIEW", view_of="SELECT 1 AS a"))
    writes.close()
    before = tree(sorted_table.location)
    told = {}
    for name in ("plain", "outside", "seen"):
        for job in ("major_compact", "initiator", "cleaner", "status", "show_place"):
            ran = both(job, "--table", f"{both.database}.{name}", "--if-exists")
            assert (ran.status, ran.error["kind"]) == (1, "refused")
            told[name] = ran.error["message"]
    (passed,) = both.good("major_compact", "--table", f"{both.database}.in_order").compactions
    assert (passed["state"], passed["output_directories"]) == ("skipped", [])
    told["in_order"] = passed["reason"]
    assert "sorted" in told["in_order"]
    assert "transactional" in told["plain"]
    assert "external" in told["outside"].lower()
    assert "view" in told["seen"].lower()
    both.good("initiator", "--table", f"{both.database}.*", *LOW)
    both.good("major_compact")
    assert tree(sorted_table.location) == before
    both.hive_shows()  # nothing was written that Hive's own SHOW COMPACTIONS cannot tell


# --- the queue --------------------------------------------------------------------------------------------------------


def test_requests_of_a_metastore_by_another_name_are_told(own: Site) -> None:
    laid = own.lay()
    own.good("initiator", *LOW)
    elsewhere = ("--metastore-uri", own.uri.replace("127.0.0.1", "localhost"))
    drained = own.jobs("major_compact", *elsewhere)
    assert (drained.status, drained.compactions) == (0, [])
    told = f"left alone in this queue: requests of the metastore {own.uri} (1); this run's is {elsewhere[1]}"
    assert told in drained.document["notes"]
    assert own.good("major_compact").states == ["ready for cleaning"]
    for dry in ([], ["--dry-run"]):
        cleaned = own.jobs("cleaner", *NOW, *elsewhere, *dry)
        assert (cleaned.status, cleaned.document["cleanings"]) == (0, [])
        assert told in cleaned.err
    assert len(visible(laid.location)) > 1


def test_a_request_of_hives_own_goes_through_the_states_that_hive_shows(
    hives: Site, in_the_middle: Callable[[str, Callable[[], object]], None]
) -> None:
    laid = hives.lay("b_part")
    partition = "dt=2024-01-02"
    number = hives.client.ask(hives.database, laid.name, partition)
    seen = []
    in_the_middle("run_unit_task", lambda: seen.append(hives.client.shown(hives.database)[number]))
    assert hives.hive_shows() == ["initiated"]
    assert hives.good("minor_compact").compactions == []
    assert hives.hive_shows() == ["initiated"]
    (entry,) = hives.good("major_compact").compactions
    assert (entry["id"], entry["partition"], entry["state"]) == (number, partition, "ready for cleaning")
    assert [(row.state, row.type, row.partition) for row in seen] == [("working", "major", partition)]
    assert (seen[0].worker or "").startswith("acidlib-")
    assert hives.hive_shows() == ["ready for cleaning"]
    hives.clean()
    assert hives.hive_shows() == ["succeeded"]
    assert laid.read() == laid.as_hive_read_it()
    assert [visible(place) == ["base_0000006"] for place in laid.places()] == [False, True, False]


def test_a_request_that_fails_is_failed_and_the_others_are_done(hives: Site) -> None:
    laid = hives.lay("b_part")
    damaged = laid.places()[0] / "delta_0000001_0000001_0000" / "bucket_00000"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:300])
    for partition in laid.partitions:
        hives.client.ask(hives.database, laid.name, partition)
    ran = hives("major_compact")
    assert ran.status == 3
    assert sorted(ran.states) == ["failed", "ready for cleaning", "ready for cleaning"]
    assert sorted(hives.hive_shows()) == ["failed", "ready for cleaning", "ready for cleaning"]
    damaged.write_bytes(whole)
    assert laid.read() == laid.as_hive_read_it()


def test_a_request_for_what_is_not_there_is_refused(hives: Site) -> None:
    hives.client.ask(hives.database, "never_was")
    laid = hives.lay("b_part")
    hives.client.ask(hives.database, laid.name, "dt=1999-01-01")
    ran = hives.good("major_compact")
    assert set(ran.states) <= {"refused", "skipped"}
    assert len(ran.states) == 2
    assert "never_was" in ran.compactions[0]["reason"]
    assert "dt=1999-01-01" in ran.compactions[1]["reason"]
    # Hive 3.1 has no word for it and prints the letter of Hive 4's table
    assert set(hives.hive_shows()) <= {"c", "failed", "succeeded"}
    assert set(hives.states()) == {"refused"}
    assert hives.good("major_compact").compactions == []


@AT_HIVES
def test_the_initiator_does_not_ask_twice(both: Site) -> None:
    laid = both.lay()
    assert both.good("initiator", "--table", laid.full_name, *LOW).document["totals"]["queued"] == 1
    again = both.good("initiator", "--table", laid.full_name, *LOW).document
    assert again["totals"]["queued"] == 0
    assert "request" in again["decisions"][0]["reason"]
    assert both.states() == ["initiated"]
    # a named run does what waits, and leaves nothing to be done a second time
    assert both.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"]
    assert both.states() == ["ready for cleaning"]
    assert both.good("major_compact").compactions == []


def test_a_request_that_waits_is_cancelled_in_whichever_queue_it_is(both: Site) -> None:
    laid = both.lay()
    number = both.client.ask(both.database, laid.name)
    ran = both("cancel", str(number))
    (told,) = ran.document["cancellations"]
    if both.hives_queue:
        assert (ran.status, told["state"]) == (0, "cancelled")
        assert both.hive_shows() == ["x"], "Hive 3.1 has no word for it"
        assert both.states() == ["aborted"]
        number = both.client.ask(both.database, laid.name)
        assert both.good("major_compact").states == ["ready for cleaning"]
        assert "awaits the cleaner" in both("cancel", str(number)).document["cancellations"][0]["reason"]
        return
    assert (ran.status, told["state"]) == (1, "refused")
    assert "name its database with --metastore-db" in told["reason"]
    assert both.hive_shows() == ["initiated"]


@AT_HIVES
def test_what_failed_twice_is_not_asked_for_again(both: Site) -> None:
    laid = both.lay()
    damaged = laid.location / "delta_0000001_0000001_0000" / "bucket_00000"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:300])
    scan = ("initiator", "--table", laid.full_name, *LOW)
    for _ in range(2):
        assert both.good(*scan).document["totals"]["queued"] == 1
        assert both("major_compact").states == ["failed"]
    damaged.write_bytes(whole)
    (entry,) = both.good(*scan).document["decisions"]
    assert entry["queued"] is None
    assert "failed" in entry["reason"]
    if both.hives_queue:
        assert both.hive_shows() == ["failed", "failed", "attempted"]
    assert both.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"]
    assert laid.read() == laid.as_hive_read_it()


@AT_HIVES
def test_a_dry_run_asks_for_nothing_and_locks_nothing(both: Site) -> None:
    laid = both.lay("b_part")
    before, mark = tree(laid.location), both.client.locks()
    for job in ("major_compact", "minor_compact", "initiator"):
        ran = both.good(job, "--table", laid.full_name, "--dry-run", *LOW)
        assert len(ran.document.get("compactions") or ran.document["decisions"]) == 3
    assert (tree(laid.location), both.client.locks(), both.rows()) == (before, mark, [])
    both.good("major_compact", "--table", laid.full_name)
    before = tree(laid.location)
    planned = both.clean("--dry-run")
    assert tree(laid.location) == before
    assert both.states() == ["ready for cleaning"] * 3
    waits = both.good("cleaner", "--retention", "1h").document["cleanings"]
    assert [entry["state"] for entry in waits] == ["ready for cleaning"] * 3
    assert all("retention" in entry["reason"] for entry in waits)
    done = both.clean()
    assert [entry["removed"] for entry in done] == [entry["removed"] for entry in planned]
    assert [entry["state"] for entry in done] == ["succeeded"] * 3


@AT_OURS
def test_what_only_waits_to_be_cleaned_is_not_asked_for_twice(both: Site) -> None:
    laid = both.lay()
    both.good("major_compact", "--table", laid.full_name)
    for _ in range(2):
        ran = both.good("major_compact", "--table", laid.full_name)
        assert (ran.states, ran.told) == (["already compact"], "there is nothing to merge: a base and no delta")
    found = Counter(both.states())
    assert found == {"ready for cleaning": 1} | ({"succeeded": 2} if both.hives_queue else {})
    assert both("status", "--table", laid.full_name).document["findings"] == []
    # what was compacted is overwritten before it is cleaned: that request goes up to it, and no further
    write_id = laid.insert((100, "new"))
    overwritten = f"base_{write_id:07d}"
    (laid.location / tables.delta_name(write_id, write_id, 0)).rename(laid.location / overwritten)
    (due,) = both.good("initiator", "--table", laid.full_name).document["decisions"]
    assert (due["outcome"], due["reason"]) == ("due", "an obsolete base is left to be cleaned")
    assert both.good("major_compact").states == ["ready for cleaning"]
    assert both.good("major_compact", "--table", laid.full_name).states == ["already compact"]
    both.clean()
    both.clean()
    assert visible(laid.location) == [overwritten]


@pytest.mark.parametrize("state", ["initiated", "working"])
def test_what_waits_in_hives_own_queue_is_left_to_hive(own: Site, state: str) -> None:
    laid = own.lay("b_part")
    rows = laid.read()
    partition, free = "dt=2024-01-02", ["dt=2024-01-01", "dt=2024-01-03"]
    number = own.client.ask(own.database, laid.name, partition)
    if state == "working":
        own.sql("UPDATE compaction_queue SET cq_state = 'w', cq_worker_id = 'node1-77' WHERE cq_id = %s", number)
    scan = own.good("initiator", "--table", laid.full_name, *LOW).document["decisions"]
    assert sorted(entry["partition"] for entry in scan if entry["queued"]) == free
    (told,) = [entry for entry in scan if entry["partition"] == partition and not entry["queued"]]
    assert "request" in told["reason"]
    assert sorted(entry["partition"] for entry in own.good("major_compact").compactions) == free
    before = tree(laid.location / partition)
    ran = own("major_compact", "--table", laid.full_name, "--partition", "dt=2024-01-02")
    assert ran.states in (["conflict"], ["skipped"])
    assert ran.status == (1 if ran.states == ["conflict"] else 0)
    assert "Hive" in ran.compactions[0]["reason"]
    assert tree(laid.location / partition) == before
    own.clean()
    assert tree(laid.location / partition) == before
    assert laid.read() == rows
    (row,) = own.client.shown(own.database).values()
    assert (row.id, row.state) == (number, state)


@pytest.mark.parametrize("point", ["run_unit_task", "publish"])
def test_what_hive_takes_up_in_the_middle_is_left_to_hive(
    own: Site, in_the_middle: Callable[[str, Callable[[], object]], None], point: str
) -> None:
    laid = own.lay()
    in_the_middle(point, lambda: own.client.ask(own.database, laid.name))
    before = visible(laid.location)
    ran = own("major_compact", "--table", laid.full_name)
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert "Hive" in ran.compactions[0]["reason"]
    assert visible(laid.location) == before == names(laid.location)
    assert own.hive_shows() == ["initiated"]
    assert laid.read() == laid.as_hive_read_it()


@AT_OURS
def test_what_hive_works_on_is_neither_compacted_nor_cleaned(both: Site) -> None:
    laid = both.lay()
    both.good("major_compact", "--table", laid.full_name)
    for number in range(2):
        laid.insert((100 + number, "new"))
    rows = laid.read()
    number = both.client.ask(both.database, laid.name)
    both.sql(
        "UPDATE compaction_queue SET cq_state = 'w', cq_worker_id = 'node1-77', cq_start = %s WHERE cq_id = %s",
        int(time.time() * 1000), number,
    )  # fmt: skip
    before = tree(laid.location, times=False)
    ran = both("major_compact", "--table", laid.full_name)
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert "working" in ran.compactions[0]["reason"]
    assert both.good("major_compact").compactions == []
    (entry,) = both("cleaner", *NOW).document["cleanings"]
    assert entry["state"] in ("ready for cleaning", "conflict")
    assert entry["reason"]
    assert tree(laid.location, times=False) == before
    (row,) = [row for row in both.client.shown(both.database).values() if row.id == number]
    assert (row.state, row.worker) == ("working", "node1-77")
    both.sql("DELETE FROM compaction_queue WHERE cq_id = %s", number)
    assert [entry["state"] for entry in both.clean()] == ["succeeded"]
    assert visible(laid.location) == ["base_0000004", "delta_0000005_0000005_0000", "delta_0000006_0000006_0000"]
    assert laid.read() == rows


# --- what the metastore remembers of transactions ---------------------------------------------------------------------


def compacted_while_written(
    made: Site, in_the_middle: Callable[[str, Callable[[], object]], None], properties: dict[str, str]
) -> Laid:
    """A partition that is compacted while more is written to it, beside one that is not compacted."""
    laid = made.lay("f_abort", keys=("p",), values=[("a",), ("b",)], properties=properties)

    def write() -> None:
        laid.insert((8, "later"), partition="p=a")
        laid.insert((9, "ABORTED"), partition="p=a", abort=True)

    in_the_middle("run_unit_task", write)
    made.client.ask(made.database, laid.name, "p=a")
    (entry,) = made.good("major_compact").compactions
    assert entry["output_directories"] == ["base_0000007"]
    return laid


def test_cleaning_forgets_transactions_exactly_as_hives_own_cleaner(
    hives: Site,
    jobs: Jobs,
    busy_metastore: Metastore,
    in_the_middle: Callable[[str, Callable[[], object]], None],
) -> None:
    properties = {"no_auto_compaction": "true"}
    ours = compacted_while_written(hives, in_the_middle, properties)
    assert [entry["state"] for entry in hives.clean()] == ["succeeded"]
    left = hives.components()
    with site(jobs, busy_metastore, hives_queue=True) as beside:
        theirs = compacted_while_written(beside, in_the_middle, properties)
        until(lambda: beside.hive_shows() == ["succeeded"])  # its cleaner begins when it likes
        assert beside.components() == left
        assert visible(theirs.location / "p=a") == visible(ours.location / "p=a")
        assert theirs.rows(theirs.location / "p=a") == ours.rows(ours.location / "p=a")
    a = [{row[2] for row in rows if row[1] == "p=a"} for rows in left]
    b = [{row[2] for row in rows if row[1] == "p=b"} for rows in left]
    assert a == [{8}, {9}]
    assert b == [{1, 4, 5, 7}, {2, 3, 6}]
    assert visible(ours.location / "p=a") == [
        "base_0000007",
        "delta_0000008_0000008_0000",
        "delta_0000009_0000009_0000",
    ]
    assert ours.rows(ours.location / "p=a")[-1][3] == (8, "s:later")


def test_an_own_queue_leaves_alone_what_hive_remembers(own: Site) -> None:
    laid = own.lay("f_abort")
    before = own.components()
    own.good("major_compact", "--table", laid.full_name)
    own.clean()
    assert visible(laid.location) == ["base_0000007"]
    assert own.components() == before
    assert own.client.shown(own.database) == {}


@AT_HIVES
def test_rolled_back_writes_are_remembered_as_long_as_their_files_lie_there(both: Site) -> None:
    """A batch of a stream that is half rolled back reaches above the mark: forgotten too early, it would count."""
    laid = both.lay()
    txns = laid.stream([(5, "ABORTED")], [(6, "f")], [(7, "ABORTED")])
    both.client.abort(txns[5])
    both.client.commit(txns[6])
    rows = laid.rows()
    assert {row[0] for row in rows} == {1, 2, 3, 6}
    (entry,) = both.good("major_compact", "--table", laid.full_name).compactions
    assert entry["output_directories"] == ["base_0000004"]
    both.client.abort(txns[7])
    both.clean()
    assert visible(laid.location) == ["base_0000004", "delta_0000005_0000007"]
    assert {row[2] for row in both.components()[1]} == {5, 7}
    assert laid.rows() == rows
    ran = both("major_compact", "--table", laid.full_name)
    assert ran.states == ["ready for cleaning"], ran
    both.clean()
    both.clean()
    assert visible(laid.location) == ["base_0000007"]
    assert laid.rows() == rows
    assert set(both.states()) == {"succeeded"}
    if both.hives_queue:
        assert both.components() == (Counter(), Counter())


# --- who may still be reading -----------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Site, Laid, str], Callable[[], None]]] = {}


def reader(name: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        READERS[name] = function
        return function

    return add


@reader("a transaction")
def _(made: Site, laid: Laid, partition: str) -> Callable[[], None]:
    (txn,) = made.client.open()
    return lambda: made.client.commit(txn)


@reader("a query on the partition")
def _(made: Site, laid: Laid, partition: str) -> Callable[[], None]:
    (txn,) = made.client.open()
    made.client.reading(laid.database, laid.name, partition, txn=txn)
    return lambda: made.client.abort(txn)


@reader("a lock on the partition")
def _(made: Site, laid: Laid, partition: str) -> Callable[[], None]:
    lock = made.client.reading(laid.database, laid.name, partition)
    return lambda: made.client.unlock(lock)


@reader("a lock on the table")
def _(made: Site, laid: Laid, partition: str) -> Callable[[], None]:
    lock = made.client.reading(laid.database, laid.name)
    return lambda: made.client.unlock(lock)


@reader("a lock on the database")
def _(made: Site, laid: Laid, partition: str) -> Callable[[], None]:
    lock = made.client.reading(laid.database)
    return lambda: made.client.unlock(lock)


def blockers_of(made: Site, table: str) -> list[dict[str, Any]]:
    found = made.good("show_compactions", "--blockers").document["blockers"]
    return [entry for entry in found if entry["name"].startswith(f"{made.database}.{table}")]


@pytest.mark.parametrize(
    ("both", "who"),
    amount(
        in_turn(*READERS),
        long=[*((METASTORES, who) for who in READERS), (OWN, "a query on the partition"), (OWN, "a lock on the table")],
    ),
    indirect=["both"],
)
def test_who_was_there_before_keeps_the_directories(both: Site, who: str) -> None:
    laid = both.lay("b_part")
    partition = "dt=2024-01-02"
    end = READERS[who](both, laid, partition)
    place = laid.location / partition
    both.good("major_compact", "--table", laid.full_name, "--partition", "dt=2024-01-02")
    kept = visible(place)
    later = READERS[who](both, laid, partition)
    (entry,) = both.clean()
    assert entry["state"] == "ready for cleaning", entry
    kind = "transaction" if who.startswith(("a t", "a q")) else "lock"
    assert kind in entry["reason"]
    short = ("--set", "metastore.compactor.oldest.uncleaned.compaction.time.threshold=1ms")
    status = both("status", "--table", laid.full_name, *short)
    assert status.status == 4
    reasons = [one["reason"] for one in status.document["findings"] if one["trouble"] == f"blocked by a {kind}"]
    assert reasons
    assert all(f"waits for {kind} " in reason and partition in str(status.document) for reason in reasons)
    assert visible(place) == kept
    found = blockers_of(both, laid.name)
    assert {blocker["kind"] for blocker in found} == {
        *(["transaction"] if who.startswith(("a t", "a q")) else []), *(["lock"] if who != "a transaction" else []),
    }  # fmt: skip
    assert {(blocker["user"], blocker["host"]) for blocker in found} == {(USER, HOST)}
    assert all(blocker["age_ms"] >= 0 for blocker in found)
    assert any(f"{blocker['kind']} {blocker['id']}" in entry["reason"] for blocker in found)
    assert both.states() == ["ready for cleaning"]
    end()
    # whoever came after the publication reads its result and is in nobody's way
    assert blockers_of(both, laid.name) == []
    assert [entry["state"] for entry in both.clean()] == ["succeeded"]
    assert visible(place) == ["base_0000006"]
    assert laid.read() == laid.as_hive_read_it()
    later()


@pytest.mark.parametrize(
    ("both", "who", "point"),
    [
        (OWN, "a transaction", "run_unit_task"),
        (METASTORES, "a transaction", "publish"),
        (OWN, "a lock on the table", "publish"),
    ],
    indirect=["both"],
)
def test_who_came_until_the_last_moment_keeps_the_directories(
    both: Site, in_the_middle: Callable[[str, Callable[[], object]], None], who: str, point: str
) -> None:
    laid = both.lay()
    ends = []
    in_the_middle(point, lambda: ends.append(READERS[who](both, laid, "")))
    both.good("major_compact", "--table", laid.full_name)
    kept = visible(laid.location)
    assert [entry["state"] for entry in both.clean()] == ["ready for cleaning"]
    assert visible(laid.location) == kept
    assert [blocker["user"] for blocker in blockers_of(both, laid.name)] == [USER]
    (end,) = ends
    end()
    assert [entry["state"] for entry in both.clean()] == ["succeeded"]


@AT_OURS
def test_a_lock_on_a_partition_with_capitals_and_escapes_is_seen(both: Site) -> None:
    """Hive 3.1 puts the whole name of a partition into lower case in its locks, the values too."""
    laid = both.lay(keys=("region", "day"), values=[("EU West", "10:00=[X]"), ("US", "1")])
    held, free = "region=EU West/day=10%3A00%3D%5BX%5D", "region=US/day=1"
    assert set(laid.partitions) == {held, free}
    lock = both.client.reading(laid.database, laid.name, held)
    both.good("major_compact", "--table", laid.full_name)
    assert {entry["partition"]: entry["state"] for entry in both.clean()} == {
        held: "ready for cleaning", free: "succeeded",
    }  # fmt: skip
    (blocker,) = blockers_of(both, laid.name)
    assert (blocker["kind"], blocker["id"]) == ("lock", lock)
    both.client.unlock(lock)
    assert [entry["state"] for entry in both.clean()] == ["succeeded"]


def test_nothing_waits_for_what_waits_for_a_reader(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """He goes only when all others are published; meanwhile bad ones are told, and one that began first waits."""
    use_runner(monkeypatch, ThreadRunner())
    every = [f"p={number}" for number in range(10)]
    laid = own.lay("a_crud", keys=("p",), values=[(str(number),) for number in range(10)])
    (waits, damaged, dropped, claimed), good = every[:4], set(every[4:])
    (laid.location / damaged / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"ORC, or so it says")
    lock = own.client.reading(laid.database, laid.name, waits)
    published, one_at_a_time = [], threading.Lock()
    begin, real = LockedPlace.begin, SqlHold.published

    def begun(self: LockedPlace) -> None:
        if self.request.ref.partition == dropped:
            with one_at_a_time:
                own.client.call.drop_partition(laid.database, laid.name, [dropped[2:]], True)
        begin(self)

    def publish(self: SqlHold, directories: tuple[str, ...]) -> None:
        real(self, directories)
        published.append(self.place.ref.partition)
        if set(published) == good:
            with one_at_a_time:
                own.client.unlock(lock)

    monkeypatch.setattr(LockedPlace, "begin", begun)
    monkeypatch.setattr(SqlHold, "published", publish)
    named = ("--table", laid.full_name, "--order", "name")
    with claim(LocalFileSystem(), at(laid.location / claimed), owner="another", token="t"):
        ran = own("minor_compact", *named, *TWO_RENAMES)
    assert ran.status == 3
    assert {entry["partition"]: entry["state"] for entry in ran.compactions} == {
        **dict.fromkeys((waits, *good), "ready for cleaning"),
        damaged: "failed", dropped: "refused", claimed: "conflict",
    }  # fmt: skip
    assert published[-1] == waits


@AT_OURS
def test_what_hive_published_counts_from_when_it_was_first_seen(both: Site) -> None:
    """When Hive's own base appeared nobody knows: who is there when it is first seen may read what it covers."""
    laid = both.lay()
    (early,) = both.client.open()
    merge.overlay(laid.location, laid.fixture.folder / "after_major")
    covered = visible(laid.location)
    both("major_compact", "--table", laid.full_name)
    both.clean()
    (late,) = both.client.open()
    for _ in range(2):
        (entry,) = both.clean()
        assert entry["state"] == "ready for cleaning", entry
        assert f"transaction {early}" in entry["reason"]
        assert visible(laid.location) == covered
    both.client.commit(early)
    assert [entry["state"] for entry in both.clean()] == ["succeeded"]
    assert visible(laid.location) == ["base_0000004"]
    assert laid.read() == laid.as_hive_read_it()
    both.client.commit(late)


@AT_HIVES
def test_a_newer_publication_of_hives_starts_the_wait_anew(both: Site) -> None:
    """Who came after our base reads it; a base that Hive laid over it since does not make that reader go away."""
    laid = both.lay()
    both.good("major_compact", "--table", laid.full_name)
    for number in (5, 6):
        laid.insert((100 + number, "new"))
    (reading,) = both.client.open()
    rows = laid.rows()
    events = [(tables.INSERT, *key, key[0], (row[0], row[1].removeprefix("s:"))) for *key, row in rows]
    tables.write_base(laid.location, 6, "struct<id:int,value:string>", events)
    read = {"base_0000004", "delta_0000005_0000005_0000", "delta_0000006_0000006_0000"}
    both.clean()
    assert read < set(visible(laid.location))
    assert both.good("major_compact", "--table", laid.full_name).compactions[0]["output_directories"] == []
    for _ in range(2):
        (entry,) = both.clean()
        assert entry["state"] == "ready for cleaning"
        assert f"transaction {reading}" in entry["reason"]
        assert read < set(visible(laid.location))
    both.client.commit(reading)
    assert [entry["state"] for entry in both.clean()] == ["succeeded"]
    assert visible(laid.location) == ["base_0000006"]
    assert laid.rows() == rows


# --- two renames ------------------------------------------------------------------------------------------------------


@AT_HIVES
def test_two_renames_wait_for_readers(both: Site) -> None:
    laid = both.lay()
    lock = both.client.reading(laid.database, laid.name)
    before = tree(laid.location, times=False)
    named = ("minor_compact", "--table", laid.full_name, *TWO_RENAMES, "--lock-timeout", "1s")
    ran = both(*named)
    assert ran.states in (["conflict"], ["refused"])
    assert ran.status == (1 if ran.states == ["conflict"] else 0)
    assert f"lock {lock}" in ran.compactions[0]["reason"]
    assert USER in ran.compactions[0]["reason"]
    assert tree(laid.location, times=False) == before
    assert [held.lockid for held in both.client.locks()] == [lock]
    both.client.unlock(lock)
    (entry,) = both.good(*named).compactions
    assert (entry["state"], entry["publication"]) == ("ready for cleaning", "two renames")
    assert set(entry["output_directories"]) == {"delta_0000001_0000004", "delete_delta_0000001_0000004"}
    assert laid.read() == laid.as_hive_read_it()
    assert both.client.locks() == []


@AT_HIVES
def test_a_request_whose_lock_is_not_granted_is_given_back_and_in_the_end_done_in_one_rename(both: Site) -> None:
    laid = both.lay()
    (laid.location / "delta_0000001_0000001_0000").rename(laid.location / "base_0000001")
    lock = both.client.reading(laid.database, laid.name)
    if both.hives_queue:
        both.client.ask(both.database, laid.name, kind=MINOR)
    else:
        ratio = ("--set", "hive.compactor.delta.pct.threshold=100")
        (decision,) = both.good("initiator", "--table", laid.full_name, *LOW, *ratio).document["decisions"]
        assert decision["type"] == "minor"
    drain = ("minor_compact", *TWO_RENAMES, "--lock-timeout", "0s")
    for _ in range(3):
        ran = both(*drain)
        assert (ran.status, ran.states) == (3, ["conflict"])
        assert both.states()[-1] == "initiated"
        assert laid.read() == laid.as_hive_read_it()
    (entry,) = both.good(*drain).compactions
    assert (entry["state"], entry["type"], entry["publication"]) == ("ready for cleaning", "major", "one rename")
    assert "lock" in entry["reason"]
    assert "9223372036854775807" not in entry["reason"]
    assert laid.read() == laid.as_hive_read_it()
    both.client.unlock(lock)


def half_visible(made: Site, laid: Laid) -> bool:
    """Whether somebody who starts to read now would get other rows than before."""
    if laid.read(strict=False) == laid.as_hive_read_it():
        return False
    exclusive, acquired = 3, 1
    held = {(lock.dbname, lock.tablename, lock.type, lock.state) for lock in made.client.locks()}
    return (made.database, laid.name, exclusive, acquired) not in held


@pytest.mark.parametrize(("both", "following"), in_turn("cleaner", "initiator"), indirect=["both"])
def test_when_the_second_rename_fails_nobody_reads_the_half(
    both: Site, monkeypatch: pytest.MonkeyPatch, following: str
) -> None:
    laid = both.lay()
    with monkeypatch.context() as patch:
        break_second_rename(patch, raise_retry)
        ran = both("minor_compact", "--table", laid.full_name, *TWO_RENAMES)
    assert (ran.status, ran.states) == (1, ["failed"])
    half = half_visible(both, laid)
    both(following, "--table", laid.full_name)
    assert laid.read() == laid.as_hive_read_it()
    assert not half


# --- two at once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("both", "second"), in_turn("the same queue", "another queue", "the other kind of queue"), indirect=["both"]
)
def test_of_two_runs_at_once_one_does_it(
    both: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    laid = both.lay()
    named = ("--metastore-uri", both.metastore.uri, "--table", laid.full_name)
    fresh = f"sqlite:///{tmp_path / 'other.db'}"
    if second == "the same queue":
        queue = both.jobs.queue_url
    elif second == "another queue":
        queue = fresh
    else:
        queue = fresh if both.hives_queue else both.metastore.database_url
    database = ("--metastore-db", queue) if queue == both.metastore.database_url else ()
    first = Held(both.jobs, tmp_path, monkeypatch, "major_compact", *named)
    try:
        before = tree(laid.location)
        for kind in ("major_compact", "minor_compact"):
            ran = both.jobs(kind, *named, *database, queue_url=queue)
            assert (ran.status, ran.states) == (1, ["conflict"])
            assert ran.compactions[0]["reason"]
        assert tree(laid.location) == before
    finally:
        ended = first.let_go()
    assert ended == (0, ["ready for cleaning"])
    assert bases(laid.location) == ["base_0000004"]
    assert laid.read() == laid.as_hive_read_it()
    assert both.client.locks() == []


@AT_HIVES
def test_what_two_drains_take_is_done_once(both: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid = both.lay("b_part")
    both.good("initiator", "--table", laid.full_name, *LOW)
    uri = ("--metastore-uri", both.metastore.uri)
    first = Held(both.jobs, tmp_path, monkeypatch, "major_compact", *uri, "--max-partitions", "2")
    try:
        drained = both.good("major_compact")
    finally:
        ended = first.let_go()
    assert drained.states == ["ready for cleaning"] * 2
    assert ended == (0, ["ready for cleaning"])
    assert both.states() == ["ready for cleaning"] * 3
    assert laid.read() == laid.as_hive_read_it()


# --- what changes under us --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["table", "partition"])
def test_what_is_dropped_before_its_turn_is_refused(own: Site, what: str) -> None:
    laid = own.lay("b_part")
    own.good("initiator", "--table", laid.full_name, *LOW)
    if what == "table":
        own.client.call.drop_table(own.database, laid.name, True)
        gone = 3
    else:
        own.client.call.drop_partition(own.database, laid.name, ["2024-01-02"], True)
        gone = 1
    ran = own.good("major_compact")
    assert Counter(ran.states)["ready for cleaning"] == 3 - gone
    words = [entry["reason"] for entry in ran.compactions if entry["state"] in ("refused", "skipped")]
    assert len(words) == gone
    assert all("dropped" in reason and laid.full_name in reason for reason in words)
    assert not {"initiated", "working"} & set(own.states())


@AT_OURS
def test_a_named_table_that_does_not_exist_is_an_error(both: Site) -> None:
    for job in ("major_compact", "initiator", "cleaner", "status", "show_place"):
        ran = both(job, "--table", f"{both.database}.never_was")
        assert (ran.status, ran.error["kind"]) == (1, "missing")
        assert "never_was" in ran.err
        both.good(job, "--table", f"{both.database}.never_was", "--if-exists")


@pytest.mark.parametrize(
    ("both", "what", "point"),
    [
        (METASTORES, "table", "run_unit_task"),
        (METASTORES, "partition", "publish"),
        (OWN, "table", "publish"),
        (OWN, "partition", "run_unit_task"),
    ],
    indirect=["both"],
)
def test_what_is_dropped_in_the_middle_stays_dropped(
    both: Site, in_the_middle: Callable[[str, Callable[[], object]], None], what: str, point: str
) -> None:
    laid = both.lay("b_part")
    place = laid.location / "dt=2024-01-02"

    def drop() -> None:
        if what == "table":
            both.client.call.drop_table(both.database, laid.name, True)
        else:
            both.client.call.drop_partition(both.database, laid.name, ["2024-01-02"], True)

    in_the_middle(point, drop)
    ran = both("major_compact", "--table", laid.full_name, "--partition", "dt=2024-01-02")
    assert ran.states[0] in ("conflict", "failed", "refused", "skipped")
    assert ran.status == (1 if ran.states[0] in ("conflict", "failed") else 0)
    assert ran.compactions[0]["output_directories"] == []
    assert place.name in ran.compactions[0]["reason"]
    assert not place.exists() or visible(place) == []
    assert both.client.locks() == []
    assert not {"initiated", "working"} & set(both.states())
    if what == "partition":
        assert both.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"] * 2


@pytest.mark.parametrize(("both", "point"), [(METASTORES, "publish"), (OWN, "run_unit_task")], indirect=["both"])
def test_a_table_that_is_made_again_in_the_middle_gets_nothing(
    both: Site, in_the_middle: Callable[[str, Callable[[], object]], None], point: str
) -> None:
    laid = both.lay()
    made: list[Laid] = []

    def again() -> None:
        born = int(both.client.table(both.database, laid.name).createTime)
        until(lambda: int(time.time()) > born)  # a metastore tells the second only
        both.client.call.drop_table(both.database, laid.name, True)
        made.append(both.lay())

    in_the_middle(point, again)
    ran = both("major_compact", "--table", laid.full_name)
    # Hive itself cannot drop a table while the renames hold a lock on it
    assert ran.states == ["conflict"] or (ran.states == ["failed"] and point == "publish"), ran
    assert ran.status == 1
    assert ran.compactions[0]["output_directories"] == []
    (second,) = made
    assert second.location == laid.location
    assert bases(laid.location) == []
    assert second.read() == second.as_hive_read_it()
    assert both.client.locks() == []
    assert both.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"]
    both.clean()
    assert second.read() == second.as_hive_read_it()


@pytest.mark.parametrize(("both", "point"), [(METASTORES, "run_unit_task"), (OWN, "publish")], indirect=["both"])
def test_a_table_that_is_made_again_over_the_same_files_gets_nothing(
    both: Site, in_the_middle: Callable[[str, Callable[[], object]], None], point: str
) -> None:
    """Its write ids begin anew: the rows of its first transactions would count as part of an old base."""
    laid = both.lay()

    def again() -> None:
        born = int(both.client.table(both.database, laid.name).createTime)
        until(lambda: int(time.time()) > born)
        both.client.make_again(both.database, laid.name)

    in_the_middle(point, again)
    before = visible(laid.location)
    ran = both("major_compact", "--table", laid.full_name)
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert visible(laid.location) == before == names(laid.location)
    assert both.client.locks() == []


@pytest.mark.parametrize(
    ("both", "change", "point"),
    [
        (METASTORES, "renamed", "run_unit_task"),
        (OWN, "renamed", "run_unit_task"),
        (OWN, "moved", "run_unit_task"),
        (METASTORES, "moved", "publish"),
    ],
    indirect=["both"],
)
def test_a_table_that_is_renamed_or_moved_in_the_middle_loses_nothing(
    both: Site, in_the_middle: Callable[[str, Callable[[], object]], None], change: str, point: str
) -> None:
    laid = both.lay()

    def alter() -> None:
        if change == "renamed":
            both.client.change(both.database, laid.name, to="other")
        else:
            elsewhere = laid.location.with_name("elsewhere")
            merge.overlay(elsewhere, laid.fixture.folder / "before")
            both.client.change(both.database, laid.name, location=elsewhere)

    in_the_middle(point, alter)
    ran = both("major_compact", "--table", laid.full_name)
    # files that are renamed while they are read are missing
    assert ran.states == ["conflict"] or (ran.states == ["failed"] and (change, point) != ("moved", "run_unit_task"))
    assert ran.status == 1
    assert ran.compactions[0]["output_directories"] == []
    name = "other" if change == "renamed" else laid.name
    place = Path(unquote(urlsplit(both.client.table(both.database, name).sd.location).path))
    now = replace(laid, name=name, location=place)
    assert bases(place) == []
    assert now.read() == laid.as_hive_read_it()
    assert both.client.locks() == []
    forget_claim(now)  # it went with the directory
    assert both.good("major_compact", "--table", now.full_name).states == ["ready for cleaning"]
    both.clean()
    assert now.read() == laid.as_hive_read_it()


@AT_HIVES
def test_a_table_that_is_made_again_before_it_is_cleaned_loses_nothing(both: Site) -> None:
    laid = both.lay()
    both.good("major_compact", "--table", laid.full_name)
    both.client.call.drop_table(both.database, laid.name, True)
    born = int(time.time())
    until(lambda: int(time.time()) > born)
    second = both.lay()
    before = tree(second.location, times=False)
    ran = both("cleaner", *NOW)
    assert ran.status in (0, 3)
    assert tree(second.location, times=False) == before
    assert second.read() == second.as_hive_read_it()


# --- a metastore that goes away ---------------------------------------------------------------------------------------


@pytest.fixture
def gated(both: Site) -> Iterator[tuple[Site, Gate]]:
    """A metastore that the jobs can be cut off from."""
    gate = Gate(both.metastore.uri)
    yield replace(both, gate=gate), gate
    gate.cut()


@AT_HIVES
def test_a_metastore_that_does_not_answer_is_one_line_and_changes_nothing(gated: tuple[Site, Gate]) -> None:
    made, gate = gated
    laid = made.lay()
    made.good("initiator", "--table", laid.full_name, *LOW)
    before = tree(laid.location)
    gate.cut()
    for job, *more in (("major_compact",), ("major_compact", "--table", laid.full_name), ("cleaner", *NOW),
                       ("initiator", *LOW), ("show_compactions",)):  # fmt: skip
        ran = made(job, *more)
        assert ran.status == 1, ran
        assert made.uri in ran.err
        assert len(ran.err.strip().splitlines()) == 1
    gate.open()
    assert tree(laid.location) == before
    assert made.states() == ["initiated"]
    assert made.good("major_compact").states == ["ready for cleaning"]
    assert laid.read() == laid.as_hive_read_it()


@AT_OURS
def test_a_metastore_that_goes_away_in_the_middle_leaves_everything_as_it_was(
    gated: tuple[Site, Gate], in_the_middle: Callable[[str, Callable[[], object]], None]
) -> None:
    made, gate = gated
    laid = made.lay()
    in_the_middle("run_unit_task", gate.cut)
    before = visible(laid.location)
    ran = made("major_compact", "--table", laid.full_name)
    assert ran.status in (1, 3)
    assert made.uri in ran.err
    assert visible(laid.location) == before == names(laid.location)
    assert laid.read() == laid.as_hive_read_it()
    gate.open()
    assert made.states() in (["failed"], ["initiated"])
    for lock in made.client.locks():  # what could not be given back: dead only after the timeout
        assert lock.dbname != made.database
        made.client.unlock(lock.lockid)
    assert made.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"]
    assert laid.read() == laid.as_hive_read_it()
    assert ran.states in (["failed"], ["conflict"])  # what became of it is told as always


@AT_HIVES
def test_a_metastore_that_is_away_for_a_moment_does_no_harm(
    gated: tuple[Site, Gate], in_the_middle: Callable[[str, Callable[[], object]], None]
) -> None:
    made, gate = gated
    laid = made.lay("b_part")
    in_the_middle("publish", gate.restart)
    assert made.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"] * 3
    made.clean()
    assert [visible(place) for place in laid.places()] == [["base_0000006"]] * 3
    assert laid.read() == laid.as_hive_read_it()
    assert made.client.locks() == []


def test_a_metastore_that_crashes_and_comes_back_in_the_middle_does_no_harm(
    hives: Site, in_the_middle: Callable[[str, Callable[[], object]], None]
) -> None:
    laid = hives.lay()
    hives.client.ask(hives.database, laid.name)

    def crash() -> None:
        hives.metastore.kill()
        hives.metastore.start()

    in_the_middle("run_unit_task", crash)
    (entry,) = hives.good("major_compact").compactions
    hives.client.reconnect()
    assert entry["state"] == "ready for cleaning"
    hives.clean()
    assert visible(laid.location) == ["base_0000004"]
    assert laid.read() == laid.as_hive_read_it()
    assert hives.client.locks() == []


@pytest.mark.parametrize("queue", [METASTORES, OWN])
def test_who_lost_the_lock_publishes_nothing(
    jobs: Jobs,
    hasty_metastore: Metastore,
    in_the_middle: Callable[[str, Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
    queue: str,
) -> None:
    noticed, mark_lost = threading.Event(), Lease.mark_lost

    def mark_noticed(lease: Lease, *why: Any) -> None:
        mark_lost(lease, *why)
        noticed.set()

    monkeypatch.setattr(Lease, "mark_lost", mark_noticed)
    with site(jobs, hasty_metastore, hives_queue=queue == METASTORES) as made:
        laid = made.lay()
        lost = []

        def lose() -> None:
            noticed.clear()
            for lock in made.client.locks():
                lost.append(lock.agentInfo)
                made.client.unlock(lock.lockid)
            assert noticed.wait(120)  # by a heartbeat

        in_the_middle("run_unit_task", lose)
        before = visible(laid.location)
        ran = made("major_compact", "--table", laid.full_name)
        assert lost
        assert all(agent.startswith("acidlib") for agent in lost)
        assert (ran.status, ran.states) == (1, ["conflict"]) or (ran.status, ran.states) == (1, ["failed"])
        assert "lock" in ran.compactions[0]["reason"]
        assert visible(laid.location) == before
        assert laid.read() == laid.as_hive_read_it()
        assert made.good("major_compact", "--table", laid.full_name).states == ["ready for cleaning"]
        if queue == OWN:  # nor is anything taken back
            in_the_middle("take_back", lose)
            undo = made("undo", str(made.rows()[-1]["id"])).document["undo"]
            assert (undo["state"], "lock" in undo["reason"]) == ("conflict", True)
            assert visible(laid.location) == ["base_0000004", *before]
        made.clean()
        assert visible(laid.location) == ["base_0000004"]
        assert laid.read() == laid.as_hive_read_it()


POINTS = (
    Point.TAKEN,
    Point.CLAIMED,
    Point.STARTED,
    Point.CHECKED,
    Point.RECORDED,
    Point.FIRST_RENAMED,
    Point.SECOND_RENAMED,
    Point.PUBLISHED,
    Point.MARKED,
    Point.ENDED,
)


# between the claim and the publication there is no call of a queue
OF_THE_QUEUE = (Point.TAKEN, Point.STARTED, Point.PUBLISHED, Point.MARKED, Point.ENDED)


@pytest.mark.parametrize(
    ("both", "point"),
    amount(
        [(METASTORES if point in OF_THE_QUEUE else OWN, point) for point in POINTS],
        long=[*((METASTORES, point) for point in POINTS), *((OWN, point) for point in OF_THE_QUEUE)],
    ),
    indirect=["both"],
)
def test_killed_at_any_point_the_next_job_makes_it_whole_before_anything_else(both: Site, point: Point) -> None:
    """Two renames; and the next job is about another table."""
    laid, other = both.lay(), both.lay(name="other")
    assert killed_at(point, lambda: both("minor_compact", "--table", laid.full_name, *TWO_RENAMES))
    assert (laid.read(strict=False) != laid.as_hive_read_it()) is (point is Point.FIRST_RENAMED)
    assert not half_visible(both, laid)
    both.good("initiator", "--table", other.full_name)
    assert laid.read() == laid.as_hive_read_it()
    assert both.client.locks() == [] or point is Point.TAKEN
    assert "working" not in both.states() or point is Point.TAKEN  # which left no claim: nobody can know yet
    timeout = ("--set", "hive.compactor.worker.timeout=0s")
    both.good("minor_compact", *TWO_RENAMES, *timeout)
    both.clean()
    both.clean()  # what a dead run published is seen for the first time by the first one
    assert visible(laid.location) == ["delete_delta_0000001_0000004", "delta_0000001_0000004"]
    assert laid.read() == laid.as_hive_read_it()
    assert not {"working", "initiated"} & set(both.states())
    assert both.client.locks() == []


@pytest.mark.parametrize(("both", "runs"), in_turn("minor-major", "major-minor"), indirect=["both"])
def test_a_named_run_that_was_killed_blocks_no_later_one_of_the_other_kind(both: Site, runs: str) -> None:
    first, then = runs.split("-")
    laid = both.lay()
    assert killed_at(Point.TAKEN, lambda: both(f"{first}_compact", "--table", laid.full_name))
    assert both.states() == ["working"]
    assert both.good(f"{then}_compact", "--table", laid.full_name).states == ["ready for cleaning"]
    assert both.states() == ["refused", "ready for cleaning"]
    assert laid.read() == laid.as_hive_read_it()


@pytest.mark.parametrize(
    ("queue", "moment"),
    [(METASTORES, "before the rename"), (METASTORES, "after the rename"), (OWN, "after the rename")],
)
def test_what_a_killed_run_leaves_is_ended_by_a_later_one(
    jobs: Jobs, hasty_metastore: Metastore, monkeypatch: pytest.MonkeyPatch, queue: str, moment: str
) -> None:
    """On another machine: only time tells that it is dead."""
    for module in (claims, holding, sql):
        monkeypatch.setattr(module, "has_ended", lambda process: False)
    with site(jobs, hasty_metastore, hives_queue=queue == METASTORES) as made:
        laid = made.lay()
        publish = RenameStage.publish

        def killed(*arguments: Any, **more: Any) -> Any:
            if moment == "after the rename":
                publish(*arguments, **more)
            os._exit(9)

        def run() -> None:
            monkeypatch.setattr(RenameStage, "publish", killed)
            made("major_compact", "--table", laid.full_name)

        assert forked(run) == 9
        assert made.states() == ["working"]
        assert bases(laid.location) == (["base_0000004"] if moment == "after the rename" else [])
        assert laid.read() == laid.as_hive_read_it()
        assert made.client.locks()
        timeout = ("--set", "hive.compactor.worker.timeout=1s")
        early = made("major_compact", "--table", laid.full_name)
        assert (early.status, early.states) == (1, ["conflict"])
        forget_claim(laid)
        end = time.monotonic() + 120
        while (ran := made("major_compact", "--table", laid.full_name, *timeout)).states == ["conflict"]:
            assert laid.read() == laid.as_hive_read_it()
            assert time.monotonic() < end, ran
            time.sleep(0.2)
        assert ran.status == 0, ran
        made("major_compact", *timeout)

        def cleaned() -> bool:
            # it may see the result for the first time, and the dead run's lock on the table stands until it is dropped
            made.clean()
            assert laid.read() == laid.as_hive_read_it()
            return visible(laid.location) == ["base_0000004"]

        until(cleaned)
        assert "_acidlib_claim" not in names(laid.location)  # other litter goes after a day
        assert laid.read() == laid.as_hive_read_it()
        assert not {"working", "initiated"} & set(made.states())
        assert made.client.locks() == []


# --- beside Hive's own services ---------------------------------------------------------------------------------------


def test_beside_hives_own_initiator_and_cleaner_every_request_ends_once(jobs: Jobs, busy_metastore: Metastore) -> None:
    with site(jobs, busy_metastore, hives_queue=True) as made:
        everything = [made.lay(name) for name in ("a_crud", "b_part", "f_abort", "n_alldeleted")]
        entities = 6

        def ended() -> list[str]:
            # Hive's own initiator stumbles when a directory is removed while it looks: "attempted"
            return [state for state in made.hive_shows() if state != "attempted"]

        def settled(number: int) -> bool:
            for kind in ("major_compact", "minor_compact"):
                assert made(kind).status in (0, 3)
            cleaned = made("cleaner", *NOW)
            assert cleaned.status in (0, 3) or "another process does" in cleaned.err
            return len(ended()) >= number and set(ended()) == {"succeeded"}

        until(lambda: settled(entities))
        for laid in everything:
            assert laid.read() == laid.as_hive_read_it(), laid.name
        crud = everything[0]
        rows = sum(crud.read()[0].values())
        for number in range(3):
            crud.insert((100 + number, "new"))
        until(lambda: settled(entities + 1))
        assert sum(crud.read()[0].values()) == rows + 3
        history = made.sql("SELECT cc_id, cc_state FROM completed_compactions WHERE cc_database = %s", made.database)
        assert len({number for number, _ in history}) == len(history)
        assert {state for _, state in history} <= {"s", "a"}
        # Hive forgets the transactions that were rolled back; what is left of their files would count from then on
        until(lambda: not made.client.aborted())
        for laid in everything[1:]:
            assert laid.read() == laid.as_hive_read_it(), laid.name
            for place in laid.places():
                assert len(visible(place)) == 1
        assert made.components() == (Counter(), Counter())


def test_a_compaction_is_undone_unless_somebody_reads(both: Site) -> None:
    """An open transaction without a lock there is in nobody's way; the next compaction is as the first was."""
    laid = both.lay()
    before = visible(laid.location)
    ran = both.good("minor_compact", "--table", laid.full_name, *TWO_RENAMES)
    result = ran.compactions[0]["output_directories"]
    assert len(result) == 2
    laid.insert((9, "late", 9.0))
    both.client.open()
    rows = laid.read()
    (request,) = both.rows()
    undo = ("undo", str(request["id"]))
    busy = both.client.ask(both.database, laid.name)
    asked = [both(*undo, *how).document["undo"] for how in ((), ("--dry-run",))]
    assert {(entry["state"], entry["reason"]) for entry in asked} == {
        ("conflict", f"Cannot undo the compaction of {laid.full_name}: request {busy} for it is initiated")
    }
    both.sql("DELETE FROM compaction_queue WHERE cq_id = %s", busy)
    for reader in (both.client.reading(both.database, laid.name), both.client.reading(both.database)):
        held = both(*undo)
        assert (held.status, held.document["undo"]["state"]) == (1, "conflict")
        assert f"by {USER} on {HOST}" in held.document["undo"]["reason"]
        assert both(*undo, "--dry-run").document["undo"]["reason"] == held.document["undo"]["reason"]
        both.client.unlock(reader)
    assert set(result) <= set(visible(laid.location))
    done = both.good(*undo).document["undo"]
    assert (done["state"], sorted(done["result"])) == ("undone", sorted(result))
    assert [name for name in visible(laid.location) if name in before] == before
    assert laid.read() == rows
    assert both.client.locks() == []
    assert both.states() == ["undone"]
    assert both.rows()[0]["error_message"].startswith("undone by ")
    assert both.hive_shows() == (["failed"] if both.hives_queue else [])
    assert both.good(*undo).document["undo"]["state"] == "already undone"
    both.clean()
    both.good("major_compact", "--table", laid.full_name)
    assert laid.read() == rows
    both.clean()
    assert laid.read() == rows
    assert both.states() == ["undone", "ready for cleaning"]
    for txn in both.client.transactions():
        both.client.abort(txn)
    both.clean()
    assert laid.read() == rows
    assert both.states() == ["undone", "succeeded"]
    second = str(both.rows()[1]["id"])
    both.client.make_again(both.database, laid.name)
    anew = both("undo", second)
    if both.hives_queue:  # Hive drops the rows of a table with it
        assert (anew.status, anew.error["kind"]) == (1, "missing")
    else:
        undone = anew.document["undo"]
        assert (anew.status, undone["state"], "re-created or moved" in undone["reason"]) == (1, "refused", True)


def test_an_undo_that_died_is_put_back_before_readers_see_it(own: Site) -> None:
    """By the next job, whatever that is about: the lock that keeps them away says where."""
    laid, other = own.lay(), own.lay(name="other")
    own.good("minor_compact", "--table", laid.full_name, *TWO_RENAMES)
    (request,) = own.rows()
    assert killed_at(Point.UNDO_MOVED, lambda: own("undo", str(request["id"])))
    assert laid.read(strict=False) != laid.as_hive_read_it()
    assert not half_visible(own, laid)
    own.good("initiator", "--table", other.full_name)
    assert laid.read() == laid.as_hive_read_it()
    assert own.client.locks() == []
    assert own.good("undo", str(request["id"])).document["undo"]["state"] == "undone"
    assert laid.read() == laid.as_hive_read_it()
