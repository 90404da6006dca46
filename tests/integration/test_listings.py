"""How often a place is listed, and what becomes of a listing that is not true any more when the place is claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from judges import merge

from acidlib.ports.sql import SqlRequests
from acidlib.stores.renaming.local import LocalFileSystem
from integration.harness import Jobs, fixture
from integration.test_late_changes import write

NAMED = ("--all-committed", "--location")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each place was listed with all that is in it."""
    found: Counter[str] = Counter()
    real = LocalFileSystem.list_tree

    def counted(self, path, **more):
        if not more["enter_hidden"]:
            found[path] += 1
        return real(self, path, **more)

    monkeypatch.setattr(LocalFileSystem, "list_tree", counted)
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    location = tmp_path / "db.db" / "t"
    for write_id in range(1, 5):
        write(location, write_id)
    return location


def before_submitting(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let something happen once a place has been listed, before there is a request for it."""
    real = SqlRequests.submit

    def later(self, listed, kind, **asked):
        action()
        return real(self, listed, kind, **asked)

    monkeypatch.setattr(SqlRequests, "submit", later)


@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
def test_once_to_plan_and_once_before_publishing(jobs: Jobs, table: Path, listed: Counter[str], kind: str) -> None:
    jobs.good(kind, *NAMED, table, "--idle", "0s", "--max-bytes", "1g")
    assert listed == {str(table): 2}


def test_each_partition_by_itself(jobs: Jobs, tmp_path: Path, listed: Counter[str]) -> None:
    part = fixture("hive3/b_part", tmp_path / "part")
    jobs.good("major_compact", *NAMED, part)
    assert set(listed.values()) == {2}
    assert len(listed) == 3


def test_a_dry_run_lists_once(jobs: Jobs, table: Path, listed: Counter[str]) -> None:
    jobs.good("major_compact", *NAMED, table, "--dry-run")
    assert listed == {str(table): 1}


def test_what_waits_in_the_queue_is_listed_once_to_plan_too(jobs: Jobs, table: Path, listed: Counter[str]) -> None:
    jobs.good("initiator", *NAMED, table, "--set", "hive.compactor.delta.num.threshold=1")
    listed.clear()
    assert jobs.good("major_compact").states == ["ready for cleaning"]
    assert listed == {str(table): 2}


def test_what_was_written_since_is_listed_and_left_for_the_next(
    jobs: Jobs, table: Path, listed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        before_submitting(patch, lambda: write(table, 5))
        (entry,) = jobs.good("major_compact", *NAMED, table).compactions
    assert entry["output_directories"] == ["base_0000004"]
    assert listed == {str(table): 3}
    assert len(merge.read(table, strict=True)) == 15


def test_what_another_run_has_compacted_and_cleaned_since_is_no_failure(
    jobs: Jobs, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Jobs(queue_url=f"sqlite:///{tmp_path / 'other.db'}")
    rows = merge.read(table)

    def compact_and_clean() -> None:
        patch.undo()
        other.good("major_compact", *NAMED, table)
        other.good("cleaner", "--retention", "0s")

    with monkeypatch.context() as patch:
        before_submitting(patch, compact_and_clean)
        ran = jobs("major_compact", *NAMED, table)
    assert ran.states == ["refused"]
    assert "were compacted and cleaned" in ran.told
    assert merge.read(table, strict=True) == rows
