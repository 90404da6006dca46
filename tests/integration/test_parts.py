"""A large bucket by several tasks gives what one task gives, byte for byte."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyorc
import pytest
from judges import bloom, merge
from judges import orc_tail as o

from acidlib.errors import CorruptError
from acidlib.runs import plan as units
from integration.harness import Jobs, tree

ROW = "struct<id:int,v:string>"
ACID = f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{ROW}>"
BUCKET = 536870912
DELTAS, ROWS = 9, 3000


def bucket_file(path: Path, rows: Any, *, deletes: int = 0, filtered: tuple[int, ...] = ()) -> None:
    path.parent.mkdir(parents=True)
    options = {"stripe_size": 1, "batch_size": ROWS, "bloom_filter_columns": filtered}
    with path.open("wb") as file, pyorc.Writer(file, ACID, **options) as writer:
        writer.writerows(rows)
        writer.set_user_metadata(**{"hive.acid.stats": f"{0 if deletes else 1},0,{deletes}".encode()})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One bucket in a base and deltas; one of them loses all rows, some lose a few, and some stay."""
    return make_table(tmp_path / "t")


def make_table(place: Path, filtered: tuple[int, ...] = ()) -> Path:
    """`filtered`: columns with filters in the last delta."""
    for part in range(DELTAS):
        first = part * ROWS
        name = "base_0000001" if part == 0 else f"delta_{part + 1:07d}_{part + 1:07d}_0000"
        made = ((0, part + 1, BUCKET, n, part + 1, (first + n, f"{(first + n) * 7919:x}" * 40)) for n in range(ROWS))
        bucket_file(place / name / "bucket_00000", made, filtered=filtered if part == DELTAS - 1 else ())
    gone = [(part + 1, n) for part in range(DELTAS) for n in range(ROWS) if part == 3 or (part % 2 and n % 7 == part)]
    events = [(2, write_id, BUCKET, n, 20, None) for write_id, n in gone]
    bucket_file(place / "delete_delta_0000020_0000020_0000" / "bucket_00000", events, deletes=len(events))
    return place


def compact(jobs: Jobs, place: Path, part_bytes: str, kind: str = "major") -> dict[str, Any]:
    said = ("--location", place, "--all-committed", "--set", f"acidlib.part.bytes={part_bytes}")
    (entry,) = jobs.good(f"{kind}_compact", *said, "--minor-as-major-bytes", "0").compactions
    assert entry["state"] == "ready for cleaning", entry["reason"]
    return entry


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many tasks of each kind ran."""
    found: dict[str, int] = {}
    for name in ("plan_bucket_task", "run_unit_task", "run_part_task", "join_parts_task"):
        original = getattr(units, name)

        def counted(*given: Any, name: str = name, original: Any = original) -> Any:
            found[name] = found.get(name, 0) + 1
            return original(*given)

        monkeypatch.setattr(units, name, counted)
    return found


@pytest.mark.usefixtures("steady_deflate")
def test_parts_give_what_one_task_gives(jobs: Jobs, table: Path, tmp_path: Path, ran: dict[str, int]) -> None:
    other = tmp_path / "other"
    shutil.copytree(table, other)
    rows = merge.read(table, "", generation=3)
    whole = compact(jobs, table, "0")
    assert ran == {"run_unit_task": 1}
    parts = compact(jobs, other, "40k")
    assert ran["plan_bucket_task"] == ran["join_parts_task"] == 1
    assert ran["run_part_task"] >= 2
    figures = {key: value for key, value in whole.items() if key in parts and key not in (
        "id", "start_ms", "end_ms", "seconds", "rewrite_seconds", "location", "files", "table", "database",
    )}  # fmt: skip
    assert {key: parts[key] for key in figures} == figures
    assert merge.read(other, "", generation=3) == rows == merge.read(table, "", generation=3)
    result = Path("base_0000020") / "bucket_00000"
    assert (other / result).read_bytes() == (table / result).read_bytes()
    assert not list(other.glob("_tmp_*"))


@pytest.mark.usefixtures("steady_deflate")
def test_parts_have_the_bloom_filters_of_the_whole(jobs: Jobs, tmp_path: Path, ran: dict[str, int]) -> None:
    table, other = make_table(tmp_path / "t", (7, 8)), make_table(tmp_path / "other", (7, 8))
    compact(jobs, table, "0")
    compact(jobs, other, "40k")
    assert ran["run_part_task"] >= 2
    result = Path("base_0000020") / "bucket_00000"
    orc = o.read_orc(other / result)
    assert {tuple(bloom.columns(stripe)) for stripe in orc.stripes} == {(7, 8)}
    assert (other / result).read_bytes() == (table / result).read_bytes()


@pytest.mark.usefixtures("steady_deflate")
def test_a_minor_of_large_deltas_is_shared_too(jobs: Jobs, table: Path, tmp_path: Path, ran: dict[str, int]) -> None:
    other = tmp_path / "other"
    shutil.copytree(table, other)
    compact(jobs, table, "0", "minor")
    compact(jobs, other, "40k", "minor")
    names = [name for name in tree(other, times=False) if name.endswith("bucket_00000")]
    assert len([name for name in names if "0000002_0000020" in name]) == 2
    for name in names:
        assert (other / name).read_bytes() == (table / name).read_bytes()


@pytest.mark.parametrize("where", ["plan_bucket_task", "run_part_task", "join_parts_task"])
def test_what_fails_in_one_of_the_tasks_fails_the_compaction(
    jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    original, calls = getattr(units, where), []

    def fails(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == (2 if where == "run_part_task" else 1):
            raise CorruptError("Cannot go on: a test says so")
        return original(*given)

    monkeypatch.setattr(units, where, fails)
    before = tree(table, times=False)
    said = ("--location", table, "--all-committed", "--set", "acidlib.part.bytes=40k")
    ran = jobs("major_compact", *said)
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "a test says so" in ran.compactions[0]["reason"]
    assert tree(table, times=False) == before


def test_a_part_that_is_not_what_was_proved_is_noticed(
    jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = units.join_parts_task

    def tampered(plan: Any, parts: Any, *given: Any) -> Any:
        first, second, *rest = parts
        swapped = [
            replace(first, path=second.path, length=second.length),
            replace(second, path=first.path, length=first.length),
        ]
        return original(plan, (*swapped, *rest), *given)

    monkeypatch.setattr(units, "join_parts_task", tampered)
    before = tree(table, times=False)
    said = ("--location", table, "--all-committed", "--set", "acidlib.part.bytes=40k")
    assert jobs("major_compact", *said).states == ["failed"]
    assert tree(table, times=False) == before
