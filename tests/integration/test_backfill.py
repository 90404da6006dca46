"""Runs that are repeated until nothing is left: what is done, or always fails, keeps no other place from its turn."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judges import merge
from located import at
from long_runs import amount
from runners import ThreadRunner

from acidlib.errors import RetryError
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from acidlib.places import listing as selection
from acidlib.points import Point
from acidlib.runs import run_queue as turns
from acidlib.stores.renaming.claims import claim
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.store import PUBLISH_RECORD, Claim
from integration.children import killed_at
from integration.harness import Jobs, Ran, at_time, fixture, use_runner, visible

DELTA = Path("delta_0000001_0000001_0000") / "bucket_00000"
OVER = ("--set", "hive.compactor.delta.num.threshold=1")


class Places:
    """A table of many partitions, all alike."""

    def __init__(self, root: Path, count: int) -> None:
        self.root = root
        self.names = [f"p={number:02d}" for number in range(count)]
        one = fixture("hive3/a_crud", root.parent / "one")
        for name in self.names:
            shutil.copytree(one, root / name)
        self.rows = merge.read(one)
        self.asked = ("--location", root, "--all-committed")

    def damage(self, *names: str) -> None:
        for name in names:
            (self.root / name / DELTA).write_bytes(b"ORC, or so it says")

    def compacted(self) -> set[str]:
        return {name for name in self.names if any(path.startswith("base_") for path in visible(self.root / name))}

    def check(self) -> None:
        for name in self.compacted():
            assert merge.read(self.root / name, strict=True) == self.rows, name


def ended(ran: Ran, state: str) -> set[str]:
    return {entry["partition"] for entry in ran.compactions if entry["state"] == state}


def another_at_work(place: Path) -> Claim:
    return claim(LocalFileSystem(), at(place), owner="another", token="t")


ORDERS = ("name", "bytes", "deltas", "age")


@pytest.mark.parametrize(
    ("cleaned", "order"),
    amount(
        [(number % 2 == 0, order) for number, order in enumerate(ORDERS)],
        long=[(cleaned, order) for cleaned in (True, False) for order in ORDERS],
    ),
)
def test_a_backfill_gets_further_until_nothing_is_left(jobs: Jobs, tmp_path: Path, order: str, cleaned: bool) -> None:
    """Of twenty places five are done already and three always fail; each run may start five."""
    places = Places(tmp_path / "t", 20)
    done = places.names[1:10:2]
    for name in done:
        jobs.good("major_compact", "--location", places.root / name, "--all-committed")
    if cleaned:
        jobs.good("cleaner", "--retention", "0s")
    broken = {"p=00", "p=02", "p=19"}
    for number, name in enumerate(sorted(broken)):
        places.damage(name)
        longer = places.root / name / "delta_0000001_0000001_0000" / f"bucket_0000{number + 1}"
        longer.write_bytes(bytes(1 << 20))  # first by bytes, too
    run = ("major_compact", *places.asked, "--order", order, "--max-partitions", "5")
    for number in (1, 2, 3):
        planned = jobs(*run, "--dry-run")
        ran = jobs(*run)
        started = ended(ran, "ready for cleaning") - set(done) | ended(ran, "failed")
        assert len(started) == 5, number
        assert ended(planned, "planned") | ended(planned, "failed") == started
        assert ended(ran, "already compact") == set(done) | (places.compacted() - started)
    assert places.compacted() == set(places.names) - broken
    places.check()
    fourth = jobs(*run)
    assert fourth.status == 3
    assert ended(fourth, "failed") == broken
    assert ended(fourth, "ready for cleaning") == set()
    assert fourth.document["notes"] == [
        "nothing new was to be done of 20 places; 3 of them could not be done before, and had not changed since"
    ]


def test_a_plan_lists_places_in_the_order_of_their_turns(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many are planned at a time, and the damaged ones end at once."""
    places = Places(tmp_path / "t", 12)
    places.damage(*places.names[1::2])
    jobs.good("major_compact", "--location", places.root / "p=06", "--all-committed")
    use_runner(monkeypatch, ThreadRunner())
    run = ("major_compact", *places.asked, "--dry-run", "--order", "name")
    turns = [entry["partition"] for entry in jobs(*run).compactions]
    compact = [name for name in places.names if name == "p=06"]
    assert turns == [*compact, *(name for name in places.names if name not in compact)]


def test_a_limit_says_how_many_places_nobody_has_looked_at(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PORTION", 4)
    places = Places(tmp_path / "t", 10)
    run = ("major_compact", *places.asked, "--order", "name", "--max-partitions")
    first, second, last = (jobs.good(*run, most) for most in ("3", "5", "2"))
    assert first.document["notes"] == [
        "stopped: --max-partitions 3 is reached; 7 places are left, 6 of them not looked at"
    ]
    assert second.document["notes"] == [
        "stopped: --max-partitions 5 is reached; 3 places with nothing to merge are not counted; 2 places are left, "
        "not looked at"
    ]
    assert (last.document["notes"], last.document["totals"]["left"]) == ([], 0)


def test_what_failed_takes_turns_and_what_was_mended_is_first_again(jobs: Jobs, tmp_path: Path) -> None:
    places = Places(tmp_path / "t", 4)
    whole = (places.root / "p=00" / DELTA).read_bytes()
    places.damage("p=00", "p=01", "p=02")
    run = ("major_compact", *places.asked, "--order", "name", "--max-partitions", "1")
    tried = [(ran := jobs(*run)).compactions[-1]["partition"] for _ in range(6)]
    assert tried == ["p=00", "p=01", "p=02", "p=03", "p=00", "p=01"]
    assert "--max-partitions 1 is reached" in ran.document["notes"][-1]
    (places.root / "p=00" / DELTA).write_bytes(whole)
    assert ended(jobs.good(*run), "ready for cleaning") == {"p=00"}
    assert ended(jobs(*run), "failed") == {"p=02"}


def test_a_budget_of_bytes_is_for_what_is_to_do(jobs: Jobs, tmp_path: Path) -> None:
    places = Places(tmp_path / "t", 4)
    size = sum(path.stat().st_size for path in (places.root / "p=00").rglob("*") if path.is_file())
    run = ("major_compact", *places.asked, "--order", "name", "--max-bytes", str(2 * size))
    assert len(ended(jobs.good(*run), "ready for cleaning")) == 2
    last = jobs.good(*run)
    assert places.compacted() == set(places.names)
    assert last.document["notes"] == []
    nothing = jobs.good(*run)
    assert set(nothing.states) == {"already compact"}
    assert nothing.document["notes"] == ["nothing is left to do of 4 places"]


def test_where_somebody_works_is_left_for_later(jobs: Jobs, tmp_path: Path) -> None:
    places = Places(tmp_path / "t", 3)
    with another_at_work(places.root / "p=00"), another_at_work(places.root / "p=01"):
        ran = jobs.good("major_compact", *places.asked, "--order", "name", "--max-partitions", "1")
    assert ended(ran, "ready for cleaning") == {"p=02"}


def test_a_conflict_that_does_not_end_keeps_no_other_waiting(jobs: Jobs, tmp_path: Path) -> None:
    """Half of a publication of two renames, whose other name somebody has taken: only a person can mend that."""
    places = Places(tmp_path / "t", 3)
    pair = ("minor_compact", "--all-committed", "--minor-as-major-bytes", "0")
    assert killed_at(Point.FIRST_RENAMED, lambda: jobs(*pair, "--location", places.root / "p=00"))
    (places.root / "p=00" / "delete_delta_0000001_0000004").mkdir()
    run = (*pair, "--location", places.root, "--order", "name", "--max-partitions", "1")
    for _ in range(3):
        ran = jobs(*run)
    assert ended(ran, "conflict") == {"p=00"}
    assert [visible(places.root / name)[:1] == ["delete_delta_0000001_0000004"] for name in places.names] == [True] * 3


def test_a_record_that_cannot_be_removed_is_told(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its publication is found again by every run."""
    place = Places(tmp_path / "t", 1).root / "p=00"
    run = ("minor_compact", "--all-committed", "--minor-as-major-bytes", "0", "--location", place)
    assert killed_at(Point.SECOND_RENAMED, lambda: jobs(*run))
    remove_tree = LocalFileSystem.remove_tree

    def kept(fs: LocalFileSystem, root: str, relative: str) -> None:
        if relative == PUBLISH_RECORD:
            raise RetryError("Cannot remove it: it is somebody else's")
        remove_tree(fs, root, relative)

    monkeypatch.setattr(LocalFileSystem, "remove_tree", kept)
    ran = jobs(*run)
    outcome = "publication of delta_0000001_0000004, delete_delta_0000001_0000004 was published"
    assert f"{outcome}; Cannot remove it: it is somebody else's" in ran.err


def test_what_another_run_has_taken_costs_no_budget(jobs: Jobs, tmp_path: Path) -> None:
    places = Places(tmp_path / "t", 2)
    with jobs.queue() as queue:
        taken = CompactionRequest(
            id=0, ref=TableRef("default", "t", "p=00"), type=CompactionType.MAJOR,
            facts=RequestFacts(location=at(places.root / "p=00")),
        )  # fmt: skip
        assert queue.enqueue(taken, now_ms=int(time.time() * 1000), worker_id="another").accepted
    ran = jobs("major_compact", *places.asked, "--order", "name", "--max-partitions", "1")
    assert (ended(ran, "conflict"), ended(ran, "ready for cleaning")) == ({"p=00"}, {"p=01"})


def test_a_place_that_is_done_is_not_even_claimed(jobs: Jobs, tmp_path: Path) -> None:
    """It costs its listing: no request, no claim."""
    places = Places(tmp_path / "t", 1)
    jobs.good("major_compact", *places.asked)
    jobs.good("cleaner", "--retention", "0s")
    before = jobs.shown()
    with another_at_work(places.root / "p=00"):
        (entry,) = jobs.good("major_compact", *places.asked).compactions
    assert (entry["state"], entry["id"]) == ("already compact", None)
    assert "there is nothing to merge: a base and no delta" in entry["reason"]
    assert jobs.shown() == before


@pytest.mark.parametrize("cleaned", [False, True])
def test_a_backfill_that_is_repeated_leaves_healthy_places_alone(jobs: Jobs, tmp_path: Path, cleaned: bool) -> None:
    """What is obsolete may still wait for the cleaner: nobody is told of a place that needs nothing."""
    places = Places(tmp_path / "db.db" / "t", 2)
    jobs.good("major_compact", *places.asked)
    if cleaned:
        jobs.good("cleaner", "--retention", "0s")
    before = jobs.shown()
    for number in range(3):
        more = ("--dry-run",) if number == 1 else ("--max-partitions", "1")
        ran = jobs.good("major_compact", *places.asked, *more)
        assert (ended(ran, "already compact"), len(ran.compactions)) == (set(places.names), 2)
        assert {entry["reason"] for entry in ran.compactions} == {"there is nothing to merge: a base and no delta"}
        assert ran.document["totals"]["states"]["already compact"] == 2
        assert ran.document["notes"] == ["nothing is left to do of 2 places"]
        assert "warning: " not in ran.err
    assert jobs.shown() == before
    assert jobs.good("status", *places.asked[:2]).document["findings"] == []
    told = jobs("major_compact", *places.asked, text=True).out
    assert told.endswith("\n2 compactions: 2 already compact; nothing is left to do of 2 places\n")


def test_what_waits_in_the_queue_gets_its_turn_too(jobs: Jobs, tmp_path: Path) -> None:
    """Queued again after a failure, it goes after what has not failed; what needs nothing any more costs no budget."""
    places = Places(tmp_path / "t", 6)
    places.damage("p=00", "p=01")
    run = ("major_compact", "--order", "name", "--max-partitions", "2")
    jobs.good("initiator", *places.asked, *OVER)
    assert ended(jobs(*run), "failed") == {"p=00", "p=01"}
    jobs.good("initiator", *places.asked, *OVER)
    jobs("major_compact", "--location", places.root / "p=02", "--all-committed", queue_url=f"{jobs.queue_url}2")
    assert places.compacted() == {"p=02"}
    ran = jobs.good(*run)
    assert ended(ran, "ready for cleaning") == {"p=02", "p=03", "p=04"}  # of the first only what is obsolete goes
    assert ran.document["notes"] == [
        "stopped: --max-partitions 2 is reached; 1 place with nothing to merge is not counted; 3 places are left"
    ]
    assert places.compacted() == {"p=02", "p=03", "p=04"}


def test_a_request_for_what_needs_nothing_any_more_leaves_the_queue_without_a_trace(jobs: Jobs, tmp_path: Path) -> None:
    places = Places(tmp_path / "t", 2)
    jobs.good("major_compact", "--location", places.root / "p=00", "--all-committed")
    with jobs.queue() as queue:
        done = queue.find(1)
        assert done is not None
        facts = RequestFacts(
            location=done.facts.location, write_ids=done.facts.write_ids, identity_file=done.facts.identity_file
        )
        assert queue.enqueue(replace(done, facts=facts, highest_write_id=None), now_ms=1).accepted
    jobs.good("initiator", *places.asked, *OVER)
    ran = jobs.good("major_compact", "--order", "name", "--max-partitions", "1")
    assert (ended(ran, "already compact"), ended(ran, "ready for cleaning")) == ({"p=00"}, {"p=01"})
    assert {number: row["state"] for number, row in jobs.shown().items()} == dict.fromkeys((1, 3), "ready for cleaning")


# --- what is refused is not asked for again ---------------------------------------------------------------------------


def parquet(place: Path) -> Path:
    for write_id in (1, 2, 3):
        folder = place / f"delta_{write_id:07d}_{write_id:07d}_0000"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [write_id]}), folder / "000000_0")
    return place


def test_the_initiator_asks_what_the_worker_asks(jobs: Jobs, tmp_path: Path) -> None:
    """Insert-only tables of Parquet files, which prove nothing."""
    place = parquet(tmp_path / "t")
    asked = ("initiator", "--location", place, "--all-committed", *OVER)
    for more in ((), ("--dry-run",), ("--force",)):
        (entry,) = jobs.good(*asked, *more).document["decisions"]
        assert (entry["type"], entry["queued"], entry["failed"]) == ("major", None, False)
        assert "no file proves whether the table is full ACID or insert-only; give --table-kind" in entry["reason"]
    assert jobs.shown() == {}
    several = ("initiator", "--warehouse", parquet(tmp_path / "w" / "t").parent, "--all-committed", *OVER)
    (entry,) = jobs.good(*several, "--dry-run").document["decisions"]
    alone = "name it alone, by --location with --table-kind; --exclude leaves it out of a run for several"
    assert entry["reason"].endswith(f"insert-only; {alone}")
    (entry,) = jobs.good(*asked, "--table-kind", "insert-only").document["decisions"]
    assert entry["queued"] == 1
    assert jobs.good("major_compact").states == ["ready for cleaning"]


def test_what_only_the_rows_refuse_is_not_asked_for_again_until_it_changes(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two directories whose row ids interleave, which is seen when they are merged."""
    place = tmp_path / "t"
    for number in (1, 2):
        (place / f"delta_000000{number}_000000{number}_0000").mkdir(parents=True)
        source = fixture("hive3/a_crud", tmp_path / f"s{number}") / DELTA
        shutil.copy(source, place / f"delta_000000{number}_000000{number}_0000" / "bucket_00000")
    asked = ("initiator", "--location", place, "--all-committed", *OVER)
    assert jobs.good(*asked).document["totals"]["queued"] == 1
    (refused,) = jobs.good("major_compact").compactions
    assert refused["state"] == "refused"
    assert "interleave" in refused["reason"]
    for days in (0, 30):
        with monkeypatch.context() as patch:
            at_time(patch, days * 86_400)
            (entry,) = jobs.good(*asked).document["decisions"]
        assert entry["queued"] is None
        assert entry["reason"] == f"request 1 was refused, and nothing has changed there since: {refused['reason']}"
    assert len(jobs.shown()) == 1
    assert jobs.good(*asked, "--force").document["totals"]["queued"] == 1
    assert jobs.good("major_compact").states == ["refused"]
    shutil.rmtree(place / "delta_0000002_0000002_0000")
    fixture("hive3/a_crud", tmp_path / "s3")
    for path in (tmp_path / "s3").glob("del*_000000[34]_*"):
        shutil.copytree(path, place / path.name)
    assert jobs.good(*asked).document["totals"]["queued"] == 1
    assert jobs.good("major_compact").states == ["ready for cleaning"]


def test_a_request_for_a_table_that_was_made_anew_says_nothing_of_the_new_one(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    asked = ("initiator", "--location", place, "--all-committed", *OVER)
    jobs.good(*asked)
    shutil.rmtree(place)
    fixture("hive3/a_crud", place)
    for path in place.rglob("bucket_*"):
        path.touch()
    assert jobs.good("major_compact").states == ["refused"]
    assert jobs.good(*asked).document["totals"]["queued"] == 1
    assert jobs.good("major_compact").states == ["ready for cleaning"]


def listed_by_threes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has places listed three at a time; their names, as they are."""
    listed: list[str] = []
    real = selection.list_location

    def counted(fs, location, **more):
        listed.append(location.name)
        return real(fs, location, **more)

    monkeypatch.setattr(selection, "list_location", counted)
    monkeypatch.setattr(turns, "PORTION", 3)
    return listed


def test_a_named_run_in_the_order_of_names_lists_while_it_compacts(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path / "db.db" / "t", 10)
    listed = listed_by_threes(monkeypatch)
    first = jobs("major_compact", *places.asked, "--order", "name", "--max-partitions", "4")
    assert ended(first, "ready for cleaning") == set(places.names[:4])
    assert sorted(listed) == places.names[:6]
    again = jobs("major_compact", *places.asked, "--order", "name")
    assert ended(again, "ready for cleaning") == set(places.names[4:])
    places.check()


@pytest.mark.parametrize("order", ["deltas", "bytes", "age"])
def test_of_many_places_no_listing_is_kept_and_the_order_is_the_same(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    places = Places(tmp_path / "db.db" / "t", 7)
    asked = (*places.asked, "--order", order, "--dry-run")
    before = [one["partition"] for one in jobs.good("major_compact", *asked).compactions]
    monkeypatch.setattr(turns, "LISTINGS_KEPT", 6)
    monkeypatch.setattr(turns, "PORTION", 2)
    assert [one["partition"] for one in jobs.good("major_compact", *asked).compactions] == before
    jobs.good("major_compact", *places.asked, "--order", order)
    places.check()


@pytest.mark.parametrize("order", ["deltas", "bytes", "name"])
def test_a_drain_lists_no_more_than_it_needs(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """The initiator has noted what an order goes by; what failed before still comes last, over all that waits."""
    places = Places(tmp_path / "db.db" / "t", 10)
    jobs.good("initiator", *places.asked, *OVER)
    places.damage(*places.names[:2])
    listed = listed_by_threes(monkeypatch)
    first = jobs("major_compact", "--order", order, "--max-partitions", "3")
    assert listed == places.names[:3]
    assert (ended(first, "failed"), ended(first, "ready for cleaning")) == ({"p=00", "p=01"}, {"p=02"})
    jobs("initiator", *places.asked, *OVER, "--force")
    listed.clear()
    again = jobs("major_compact", "--order", order, "--max-partitions", "7")
    assert ended(again, "ready for cleaning") == set(places.names[3:])
    assert len(again.compactions) == 7
    last = jobs("major_compact", "--order", order)
    assert ended(last, "failed") == {"p=00", "p=01"}
    places.check()
