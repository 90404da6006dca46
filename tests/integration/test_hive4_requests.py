"""Requests of Hive 4 of which rows, the request itself or a reader could be lost: none of them is."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyorc
import pytest
from judges.tables import Transaction, delta_name, inserts, write_dir
from runners import ThreadRunner

from acidlib.config.settings import default_settings
from acidlib.errors import ConflictError, RetryError, UnknownOutcomeError
from acidlib.metastore.connection import interface
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import State
from acidlib.model.tables import TableRef
from acidlib.ports.hive4 import Hive4Hold, Hive4Requests
from acidlib.ports.hive4_cleaning import Hive4Cleaning
from acidlib.runs import compact
from acidlib.stores.stores import Stores
from integration.harness import use_runner
from integration.hive4_jobs import Service, only_line
from integration.hive4_model import COLUMNS, CRUD, ROW, Lake, rows
from integration.metastore_client import drop_partition
from integration.metastore_writes import NewTable
from integration.test_verification import deletes_are_ignored, unnoticed

pytestmark = pytest.mark.live

ABORTED = tuple(Transaction(inserts=rows(900 + 10 * number, 2), aborted=True) for number in range(3))


def insert(lake: Lake, made, number: int, letter: str, **more) -> None:
    """A row that is ready for cleaning, straight into the metastore's queue, as Hive's own services leave them."""
    columns = {
        "CQ_ID": number,
        "CQ_DATABASE": made.database,
        "CQ_TABLE": made.name,
        "CQ_STATE": "r",
        "CQ_TYPE": letter,
        "CQ_ENQUEUE_TIME": int(time.time() * 1000),
        **more,
    }
    names = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join("%s" for _ in columns)
    lake.sql(f'insert into "COMPACTION_QUEUE" ({names}) values ({marks})', *columns.values())  # noqa: S608 # constants


def until(true, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.3)
    return true()


def test_aborted_rows_stay_out_when_the_metastore_cuts_its_list(lake: Lake, service: Service) -> None:
    """Once nothing that committed is remembered, Hive 4 ends the list at the first aborted write id."""
    reader = lake.open()
    made = lake.table("cut", (*CRUD, *ABORTED))
    (compacted,) = service.compact(made).compactions
    undo = service("undo", str(compacted["id"]))
    assert (undo.status, undo.error["kind"], "no call takes a commit back" in only_line(undo)) == (1, "refused", True)
    lake.hms.commit_txn(reader, TxnType.DEFAULT)
    assert until(lambda: ":6:" not in lake.write_ids(made), 120)
    service.clean("--table", made.full)
    assert not until(lambda: lake.seen(made) != made.expected, 15)


@pytest.mark.parametrize("letter", ["c", "r"])
def test_rows_that_are_not_ours_block_none_of_ours(lake: Lake, service: Service, letter: str) -> None:
    made = lake.table(f"foreign_{letter}")
    txn = lake.open()
    lake.hms.commit_txn(txn, TxnType.DEFAULT)
    now = int(time.time() * 1000)
    insert(
        lake,
        made,
        900001,
        letter,
        **({"CQ_COMMIT_TIME": now} if letter == "c" else {"CQ_HIGHEST_WRITE_ID": 3, "CQ_TXN_ID": txn}),
    )
    try:
        service.compact(lake.add(made, (Transaction(inserts=rows(500, 2)),), 500))
        states = {one["id"]: one["state"] for one in service.clean("--table", made.full)}
    finally:
        lake.sql('delete from "COMPACTION_QUEUE" where "CQ_ID" = 900001')
    assert states.pop(900001, "ready for cleaning") == "ready for cleaning"
    assert list(states.values()) == ["succeeded"]


def test_what_was_soft_dropped_is_left_to_hive(lake: Lake, service: Service, tmp_path: Path) -> None:
    made = lake.table("dropped_softly")
    place = tmp_path / "dropped"
    (place / "delta_0000001_0000001_0000").mkdir(parents=True)
    txn = lake.open()
    lake.hms.commit_txn(txn, TxnType.DEFAULT)
    location = f"file://{place}"
    gone = type(made)(database=made.database, name="gone", location=place, places=made.places)
    insert(
        lake,
        gone,
        900002,
        "a",
        CQ_TBLPROPERTIES=f"1:8:location{len(location)}:{location}",
        CQ_HIGHEST_WRITE_ID=3,
        CQ_TXN_ID=txn,
        CQ_NEXT_TXN_ID=txn,
        CQ_COMMIT_TIME=int(time.time() * 1000),
        CQ_RUN_AS="root",
    )
    try:
        service.clean("--table", gone.full)
        assert lake.of(gone)[0].state is State.READY_FOR_CLEANING
    finally:
        lake.sql('delete from "COMPACTION_QUEUE" where "CQ_ID" = 900002')


def test_an_aborted_dynamic_partition_write_is_left_to_hive(lake: Lake, service: Service) -> None:
    """It is noted for the table alone, and a request about it names no partition: only Hive can tell what it wrote."""
    made = lake.table("dynamic", partitions=["1", "2"])
    types, txn = interface(), lake.open()
    write_id = lake.hms.allocate_write_id(txn, TableRef(made.database, made.name))
    component = types.LockComponent(
        type=2, level=2, dbname=made.database, tablename=made.name, operationType=2, isTransactional=True
    )
    request = types.LockRequest(component=[component], txnid=txn, user="u", hostname="h", agentInfo="tests")
    assert lake.raw.lock(request).state == 1
    for place in made.places:
        write_dir(place.location, delta_name(write_id, write_id), COLUMNS, inserts(write_id, rows(900, 2)))
    lake.hms.abort_txn(txn, TxnType.DEFAULT)

    def noted() -> int:
        return lake.sql('select from "TXN_COMPONENTS" where "TC_TXNID" = %s and "TC_PARTITION" is null', txn)

    # the letter by which Hive 4 notes a write to partitions that it will only know in the end
    assert lake.sql("""update "TXN_COMPONENTS" set "TC_OPERATION_TYPE" = 'p' where "TC_TXNID" = %s""", txn) == 1
    assert noted() == 1
    lake.check(made)
    now = int(time.time() * 1000)
    insert(
        lake, made, 900003, "a", CQ_START=now, CQ_HIGHEST_WRITE_ID=write_id, CQ_TXN_ID=txn, CQ_NEXT_TXN_ID=txn,
        CQ_COMMIT_TIME=now,
    )  # fmt: skip
    try:
        service.good("major_compact", "--table", made.full, "--partition", "p=1")
        (planned,) = [one for one in service.clean("--dry-run", "--table", made.full) if one["id"] == 900003]
        found = {one["partition"]: one for one in service.clean("--table", made.full)}
    finally:
        lake.sql('delete from "COMPACTION_QUEUE" where "CQ_ID" = 900003')
    assert found["p=1"]["state"] == "succeeded"
    assert (found[None]["state"], found[None]["removed"], planned["removed"]) == ("ready for cleaning", [], [])
    assert "the request names no partition" in found[None]["reason"]
    one, two = made.places
    assert [name.partition("_")[0] for name in one.directories()] == ["base"]
    assert delta_name(write_id, write_id) in two.directories()
    assert noted() == 1
    lake.check(made)


def test_what_is_dropped_or_kept_by_its_owner_before_it_is_cleaned(lake: Lake, service: Service) -> None:
    kept = lake.table("kept_by_property", properties={"no_cleanup": "true"})
    parts, gone = lake.table("parts", partitions=["1", "2"]), lake.table("gone")
    for made in (kept, parts, gone):
        assert set(service.compact(made).states) == {"ready for cleaning"}
    before = kept.place.directories()
    drop_partition(lake.metastore.uri, lake.database, "parts", "1")
    lake.writes.drop_table(lake.database, "gone")
    (planned,) = [one for one in service.clean("--dry-run") if one["table"] == kept.name]
    found = {(one["table"], one["partition"]): one for one in service.clean()}
    assert (planned["removed"], found["kept_by_property", None]["removed"]) == ([], [])
    assert found["kept_by_property", None]["state"] == "refused"
    assert "NO_CLEANUP is set on the table" in found["kept_by_property", None]["reason"]
    assert (kept.place.directories(), lake.states(kept)) == (before, ["refused"])
    assert {one["state"] for key, one in found.items() if key[0] != kept.name} == {"succeeded"}
    assert len(parts.places[1].directories()) == 1
    assert not gone.location.exists()
    lake.check(kept)


def test_two_partitions_of_one_location(lake: Lake, service: Service) -> None:
    """Hive reads the same rows in both. One result stands for both; whatever is asked of either, it ends."""
    made = lake.table("same", partitions=["1"])
    table = lake.hms.table(TableRef(made.database, made.name))
    assert table is not None
    lake.writes.partitions(
        made.database, made.name, [["2"]], location=f"{table.storage.location}/parts", new=NewTable(columns=ROW)
    )
    found = lake.hms.partitions(table, ["p=1", "p=2"])
    assert len({one.storage.location for one in found.values()}) == 1
    ran = service("major_compact", "--table", made.full)
    assert "ready for cleaning" in ran.states
    assert set(ran.states) <= {"conflict", "ready for cleaning"}  # who comes later has something to clean only
    assert len([entry for entry in ran.compactions if entry["output_directories"]]) == 1
    lake.check(made)
    again = service("major_compact", "--table", made.full)
    assert set(again.states) <= {"already compact", "ready for cleaning"}
    lake.check(made)
    assert {one["state"] for one in service.clean("--table", made.full)} == {"succeeded"}
    (left,) = made.place.directories()
    assert left.startswith("base_")
    lake.check(made)


def test_a_later_compaction_frees_what_an_earlier_one_could_not_clean(lake: Lake, service: Service) -> None:
    made = lake.table("mixed", CRUD)
    first, _ = lake.write(made)
    lake.hms.commit_txn(first, TxnType.DEFAULT)
    second, _ = lake.write(made)
    lake.hms.abort_txn(second, TxnType.DEFAULT)
    third, _ = lake.write(made)
    streamed = made.place.location / "delta_0000004_0000006"
    streamed.mkdir()
    (streamed / "bucket_00000").write_bytes(b"")
    (streamed / "_orc_acid_version").write_text("2")
    service.compact(made)
    (kept,) = service.clean("--table", made.full)
    assert kept["state"] == "ready for cleaning"
    lake.hms.commit_txn(third, TxnType.DEFAULT)
    service("major_compact", "--table", made.full)
    service.clean("--table", made.full)
    service.clean("--table", made.full)
    assert "ready for cleaning" not in lake.states(made)


def test_a_result_that_reads_otherwise_is_taken_back_before_anybody_sees_it(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("doubted", CRUD)
    there = made.place.directories()
    with monkeypatch.context() as patch:
        unnoticed(patch, deletes_are_ignored)
        ran = service("major_compact", "--table", made.full, "--verify")
    assert (ran.status, ran.states) == (3, ["failed"])
    assert "Nothing was published: readers see the same as before" in ran.told
    assert made.place.directories() == there
    assert "ready for cleaning" not in lake.states(made)
    assert lake.states(made)[-1] == "failed"
    assert lake.seen(made) == made.expected
    # it is not made again unseen, neither by name nor from the queue
    service.good("initiator", "--table", made.full, "--set", "hive.compactor.delta.num.threshold=1")
    for dry in (("--dry-run",), ()):
        drained, named = service("major_compact", *dry), service("major_compact", "--table", made.full, *dry)
        assert (drained.states, named.states) == (["refused"], ["refused"])
        assert (drained.status, named.status) == (3, 3)
        assert "it is held: the result of request" in named.told
    assert made.place.directories() == there
    (finding,) = [
        one
        for one in service("status", "--table", made.full).document["findings"]
        if one["trouble"] == "result not verified"
    ]
    assert (finding["level"], finding["table"]) == ("error", made.name)
    ran = service.good("major_compact", "--table", made.full, "--verify", "sample=0.01")
    assert ran.states == ["ready for cleaning"]
    assert ran.compactions[0]["verification"]["share"] == 1
    assert ran.compactions[0]["verification"]["rows"] == len(made.expected)
    assert lake.seen(made) == made.expected
    service.clean("--table", made.full)
    assert len(made.place.directories()) == 1
    lake.check(made)


def test_an_interrupted_named_run_leaves_no_request(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("interrupted")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compact, "choose_inputs", interrupt)
        assert service("major_compact", "--table", made.full).status == 130
    assert lake.states(made) == ["refused"]
    assert service("major_compact", "--table", made.full).states == ["ready for cleaning"]


def test_requests_taken_before_taking_fails_are_done(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [lake.table(f"wave{number}") for number in range(3)]
    for one in made:
        lake.request(one)
    real, calls = Hms.find_next_compaction, []

    def flaky(self: Hms, *given):
        calls.append(given)
        if len(calls) == 3:
            raise RetryError("Cannot take a request: the metastore is away")
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Hms, "find_next_compaction", flaky)
        ran = service("major_compact")
    assert ran.status == 3
    assert ran.states.count("ready for cleaning") == 2
    assert sorted(state for one in made for state in lake.states(one)) == ["initiated"] + 2 * ["ready for cleaning"]
    service("major_compact")
    assert all(lake.states(one) == ["ready for cleaning"] for one in made)


def test_many_places_under_way_at_a_time(lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread of the driver has a connection and each place a transaction of its own."""
    use_runner(monkeypatch, ThreadRunner())
    made = lake.table("many", CRUD, partitions=[str(number) for number in range(12)])
    service.good("initiator", "--table", made.full, "--set", "hive.compactor.delta.num.threshold=1")
    assert service.good("major_compact").states == 12 * ["ready for cleaning"]
    assert lake.seen(made) == made.expected
    assert lake.states(made) == 12 * ["ready for cleaning"]


def test_a_lost_answer_does_not_mix_requests_up(lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        lake.table(f"lost{number}")
    real, calls = Hms.compact, []

    def flaky(self: Hms, *given, **more):
        answer = real(self, *given, **more)
        calls.append(answer)
        if len(calls) == 1:
            raise UnknownOutcomeError("Cannot tell whether it is queued: the answer was lost")
        return answer

    monkeypatch.setattr(Hms, "compact", flaky)
    assert service("major_compact", "--table", f"{lake.database}.lost*").states == 3 * ["ready for cleaning"]


def test_nothing_but_original_files_is_cleaned(lake: Lake, service: Service) -> None:
    made = lake.table("originals", ())
    with (made.location / "000000_0").open("wb") as file, pyorc.Writer(file, "struct<id:int,v:string>") as writer:
        writer.write((1, "a"))
    service.compact(made)
    (cleaned,) = service.clean("--table", made.full)
    assert (cleaned["state"], [item["path"] for item in cleaned["removed"]]) == ("succeeded", ["000000_0"])


def test_a_request_that_cannot_be_queued_again_says_so(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("lost_again")
    lake.request(made)

    def conflict(*_: object, **__: object) -> None:
        raise ConflictError("Cannot list it: another works there")

    def away(*_: object, **__: object) -> None:
        raise RetryError("Cannot request a compaction: the metastore is away")

    with monkeypatch.context() as patch:
        patch.setattr(compact, "choose_inputs", conflict)
        patch.setattr(Hms, "compact", away)
        (entry,) = service("major_compact").compactions
    assert "could not be queued again" in entry["reason"]
    assert lake.states(made) == ["refused"]


def test_a_run_that_is_alive_is_not_taken_for_dead(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by another run whose clock is ten minutes ahead."""
    lake.request(lake.table("alive"))
    real, notes = compact.choose_inputs, []

    def out_of_reach(_: object) -> None:
        raise RetryError("Cannot look at it from there")

    def looked_at(*given, **more):
        ahead = SimpleNamespace(
            clock=lambda: time.time() + 700,
            settings=default_settings(),
            stores=Stores(),
            store=out_of_reach,
            warn=lambda _: None,
        )
        notes.extend(Hive4Requests(ahead, lake.hms).recover(lambda _: True))
        return real(*given, **more)

    monkeypatch.setattr(compact, "choose_inputs", looked_at)
    assert service("major_compact").states == ["ready for cleaning"]
    assert notes == []


def test_what_a_dead_worker_of_hive_holds_past_its_timeout_is_done(lake: Lake, service: Service) -> None:
    """Hive's own initiator, which would give it back, is off. Should the worker live, it can end nothing any more."""
    made = lake.table("held")
    number = lake.request(made)
    taken = lake.hms.find_next_compaction("hive-node7-9", "4.0.1", None)
    assert taken is not None
    txn = lake.hms.open_txn(TxnType.COMPACTION, "hive-node7-9")
    lake.hms.update_compactor_state(replace(taken, highest_write_id=3, run_as="root"), txn)
    ran = service.good("major_compact")
    assert (ran.compactions, lake.states(made)) == ([], ["working"])
    two_days_ago = int(time.time() * 1000) - 2 * 86_400_000
    lake.sql('update "COMPACTION_QUEUE" set "CQ_START" = %s where "CQ_ID" = %s', two_days_ago, number)
    ran = service.good("major_compact")
    assert ran.states == ["ready for cleaning"]
    held = f"request {number} for {made.full} was ended, and queued again as request {ran.compactions[0]['id']}: "
    assert ran.document["notes"][0].startswith(f"{held}hive-node7-9 has held it for longer than")
    assert lake.hms.open_txns().is_txn_aborted(txn)
    with pytest.raises(RetryError):
        lake.hms.mark_compacted(taken)
    assert sorted(lake.states(made)) == ["ready for cleaning", "refused"]
    lake.check(made)


def test_a_place_that_cannot_be_given_back_costs_no_report(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        lake.table(f"close{number}")
    real = compact.choose_inputs

    def bad(fs, listed, *given, **more):
        if listed.place.ref.table == "close1":
            raise RetryError("Cannot list it: the disk is away")
        return real(fs, listed, *given, **more)

    def away(*_: object, **__: object) -> None:
        raise RetryError("Cannot abort it: the metastore is away")

    monkeypatch.setattr(compact, "choose_inputs", bad)
    with monkeypatch.context() as patch:
        patch.setattr(Hms, "abort_txn", away)
        ran = service("major_compact", "--table", f"{lake.database}.close*")
    assert (ran.status, sorted(ran.states)) == (3, ["failed", "ready for cleaning", "ready for cleaning"])
    for txn in lake.hms.open_txns_info():
        if txn.state == "open":
            lake.hms.abort_txn(txn.id, TxnType.COMPACTION)


def test_only_a_directory_of_an_aborted_transaction_may_appear_meanwhile(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {ended: lake.table(ended) for ended in ("aborted", "open")}
    real = Hive4Hold.assert_mine

    def another(self: Hive4Hold) -> None:
        txn = lake.open()
        if self.place.ref.table == "aborted":
            lake.hms.abort_txn(txn, TxnType.DEFAULT)
        Path(self.place.location.path, f"base_0000003_v{txn:07d}").mkdir()
        real(self)

    monkeypatch.setattr(Hive4Hold, "assert_mine", another)
    ran = service("major_compact", "--table", f"{lake.database}.*")
    assert {entry["table"]: entry["state"] for entry in ran.compactions} == {
        "aborted": "ready for cleaning", "open": "conflict",
    }  # fmt: skip
    assert [name for name in made["open"].place.directories() if name.startswith("base_")][1:] == []
    lake.check(made["aborted"])


def test_a_table_renamed_before_its_turn_is_cleaned_under_its_new_name(
    lake: Lake, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("before")
    service.compact(made)
    real = Hive4Cleaning.ready

    def late(self: Hive4Cleaning):
        found = real(self)
        for table, column in (
            ("TBLS", "TBL_NAME"),
            ("COMPACTION_QUEUE", "CQ_TABLE"),
            ("TXN_TO_WRITE_ID", "T2W_TABLE"),
            ("NEXT_WRITE_ID", "NWI_TABLE"),
            ("COMPLETED_TXN_COMPONENTS", "CTC_TABLE"),
        ):
            lake.sql(f'update "{table}" set "{column}" = %s where "{column}" = %s', "after", "before")  # noqa: S608 # constants
        return found

    monkeypatch.setattr(Hive4Cleaning, "ready", late)
    (cleaned,) = service.clean("--table", made.full)
    assert (cleaned["table"], cleaned["state"], len(cleaned["removed"]) > 0) == ("after", "succeeded", True)
