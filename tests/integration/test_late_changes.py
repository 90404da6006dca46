"""What changes after a job has looked costs no row: stale lists, late files, runs that died after publishing."""

from __future__ import annotations

from pathlib import Path

import pytest
from judges import merge, tables

from acidlib.ports.sql import SqlRequests
from acidlib.queue.sql import SqlQueue
from acidlib.stores.renaming.store import RenameStage
from integration.harness import Jobs, fixture, tree, visible

COLUMNS = "struct<a:int>"
NOW = ("--retention", "0s")


def write(location: Path, write_id: int, *, low: int | None = None, rows: int = 3) -> None:
    """One insert delta of a write id, or (with `low`) a compacted one of a range, each write id with equal rows."""
    first = write_id if low is None else low
    events = []
    for one in range(first, write_id + 1):
        events += tables.inserts(one, [(one * 10 + i,) for i in range(rows)])
    tables.write_dir(location, tables.delta_name(first, write_id, 0 if low is None else None), COLUMNS, events)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Seven inserts, of which a minor compaction has merged the second to the last; nothing is cleaned yet."""
    location = tmp_path / "db.db" / "t"
    for write_id in range(1, 8):
        write(location, write_id)
    write(location, 7, low=2)
    return location


@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
@pytest.mark.parametrize("stale", ["db.t:5:9223372036854775807::", "db.t:7:6:6:"])
def test_a_stale_list_does_not_double_what_a_wider_delta_holds(jobs: Jobs, table: Path, kind: str, stale: str) -> None:
    rows = merge.read(table, strict=True)
    assert len(rows) == 21
    before = tree(table)
    ran = jobs(kind, "--location", table, "--write-ids", stale)
    assert merge.read(table, strict=True) == rows
    assert (ran.status, ran.states) == (0, ["refused"])
    assert "delta_0000002_0000007" in ran.compactions[0]["reason"]
    assert tree(table, times=False) == {name: (*facts[:2], 0) for name, facts in before.items()}


def test_a_request_of_another_queue_that_became_stale_doubles_nothing(jobs: Jobs, tmp_path: Path) -> None:
    location = tmp_path / "db.db" / "t"
    for write_id in (1, 2, 3):
        write(location, write_id)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    threshold = ("--set", "hive.compactor.delta.num.threshold=1")
    jobs("initiator", "--location", location, "--all-committed", *threshold, queue_url=other)
    write(location, 4)
    jobs.good("minor_compact", "--location", location, "--all-committed")
    rows = merge.read(location, strict=True)
    jobs("major_compact", queue_url=other)
    assert merge.read(location, strict=True) == rows
    assert "base_0000003" not in visible(location)


def test_what_appears_while_a_named_run_waits_is_not_taken_for_committed(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "db.db" / "t"
    for write_id in (1, 2, 3):
        write(location, write_id)
    enqueue = SqlRequests.submit

    def late(*args, **more):
        write(location, 4)
        return enqueue(*args, **more)

    monkeypatch.setattr(SqlRequests, "submit", late)
    (entry,) = jobs.good("major_compact", "--location", location, "--all-committed").compactions
    assert entry["output_directories"] == ["base_0000003"]
    assert entry["write_ids"]["high_water_mark"] == 3
    monkeypatch.undo()


@pytest.mark.parametrize("late", ["bucket_00001", "bucket_00000_1"])
def test_a_file_that_joins_an_input_before_publishing_is_a_conflict(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    location = tmp_path / "db.db" / "t"
    for write_id in (1, 2, 3):
        write(location, write_id)
    publish = RenameStage.publish

    def grown(*args, **more):
        data = tables.acid_bytes(COLUMNS, tables.inserts(3, [(99,)], writer=1))
        (location / "delta_0000003_0000003_0000" / late).write_bytes(data)
        return publish(*args, **more)

    monkeypatch.setattr(RenameStage, "publish", grown)
    ran = jobs("major_compact", "--location", location, "--all-committed")
    assert ran.states == ["conflict"]
    assert late in ran.compactions[0]["reason"]
    assert not [name for name in visible(location) if name.startswith("base_")]


def test_an_empty_input_that_is_filled_before_publishing_is_a_conflict(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "db.db" / "t"
    for write_id in (1, 2, 3):
        write(location, write_id)
    empty = location / "delta_0000003_0000003_0000" / "bucket_00001"
    empty.touch()
    publish = RenameStage.publish

    def grown(*args, **more):
        empty.write_bytes(tables.acid_bytes(COLUMNS, tables.inserts(3, [(99,)], writer=1)))
        return publish(*args, **more)

    monkeypatch.setattr(RenameStage, "publish", grown)
    assert jobs("major_compact", "--location", location, "--all-committed").states == ["conflict"]
    assert not [name for name in visible(location) if name.startswith("base_")]


def dies_after_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is interrupted between the rename and the note in the queue."""

    def killed(*_, **__) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SqlQueue, "mark_compacted", killed)


@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
def test_what_a_run_published_before_it_died_is_cleaned_in_the_end(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    location = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    rows = merge.read(location)
    how = (kind, "--location", location, "--all-committed", "--minor-as-major-bytes", "0")
    with monkeypatch.context() as patched:
        dies_after_publishing(patched)
        assert jobs(*how).status == 130
    assert [row["state"] for row in jobs.shown().values()] == ["initiated"]
    ran = jobs.good(*how)
    assert ran.states == ["ready for cleaning"]
    assert ran.compactions[0]["output_directories"] == []
    assert "nothing to merge" in ran.compactions[0]["reason"]
    first = jobs.good("cleaner").document
    assert "delta_0000001_0000001_0000" in visible(location), first
    jobs.good("cleaner", *NOW)
    assert [row["state"] for row in jobs.shown().values()] == ["succeeded"]
    left = {
        "major_compact": {"base_0000004"},
        "minor_compact": {"delta_0000001_0000004", "delete_delta_0000001_0000004"},
    }
    assert set(visible(location)) == left[kind]
    assert merge.read(location, strict=True) == rows
    assert jobs.good(*how).states == ["already compact"]


def test_several_overwrites_are_left_to_the_cleaner(jobs: Jobs, tmp_path: Path) -> None:
    location = tmp_path / "db.db" / "t"
    for write_id in (1, 2, 3):
        tables.write_base(location, write_id, COLUMNS, tables.inserts(write_id, [(write_id,)]), compacted=False)
    named = ("--location", location, "--all-committed", "--hive-version", "4")
    jobs.good("initiator", *named)
    assert jobs.good("major_compact").states == ["ready for cleaning"]
    jobs.good("cleaner", *NOW)
    assert visible(location) == ["base_0000003"]
    assert jobs.good("initiator", *named).document["decisions"][0]["queued"] is None


def test_a_request_that_was_given_to_another_worker_is_not_published(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    publish = RenameStage.publish

    def late(*args, **more):
        with jobs.queue() as queue:
            assert queue.revoke_timed_out(2**60, 0) == 1
            assert queue.claim_id(1, "another", 5) is not None
        return publish(*args, **more)

    monkeypatch.setattr(RenameStage, "publish", late)
    before = visible(location)
    ran = jobs("major_compact", "--location", location, "--all-committed")
    assert ran.states == ["conflict"]
    assert visible(location) == before


def test_nothing_goes_for_a_base_of_a_transaction_that_nobody_knows(jobs: Jobs, tmp_path: Path) -> None:
    """What Hive 4's compactor left when its transaction was aborted looks like a result."""
    location = tmp_path / "db.db" / "t"
    for write_id in (1, 2, 3):
        write(location, write_id)
    tables.write_dir(location, "base_0000003_v0000099", COLUMNS, tables.inserts(1, [(10,)]))
    before = tree(location)
    ran = jobs.good("major_compact", "--location", location, "--write-ids", "db.t:3:9223372036854775807::")
    assert ran.states == ["already compact"]
    jobs.good("cleaner", *NOW)
    assert tree(location, times=False) == {name: (*facts[:2], 0) for name, facts in before.items()}
