"""Compactions of a table or partitions that are named on the command line."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyorc
import pytest
from claim_directories import CHANGES, owner_elsewhere
from judges import merge

from acidlib.errors import RetryError
from acidlib.points import Point
from acidlib.stores.renaming.local import LocalFileSystem
from integration.children import forked, killed_at
from integration.harness import Jobs, Ran, added, at_time, fixture, names, results_alike, tree, visible

PARTITIONS = [f"dt=2024-01-0{day}" for day in (1, 2, 3)]
TWO_RENAMES = ("--minor-as-major-bytes", "0")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return fixture("hive3/b_part", tmp_path / "db.db" / "b_part")


@pytest.fixture
def crud(tmp_path: Path) -> Path:
    return fixture("hive3/a_crud", tmp_path / "db.db" / "crud")


def done_partitions(ran: Ran) -> list[str]:
    return [entry["partition"] for entry in ran.compactions]


def test_all_partitions_of_a_location(jobs: Jobs, part: Path) -> None:
    rows = {name: merge.read(part / name) for name in PARTITIONS}
    ran = jobs.good("major_compact", "--location", part, "--all-committed")
    assert done_partitions(ran) == PARTITIONS
    for entry in ran.compactions:
        assert (entry["database"], entry["table"], entry["state"]) == ("db", "b_part", "ready for cleaning")
        assert entry["location"] == str(part / entry["partition"])
        assert entry["rows_in"] - entry["rows_deleted"] == entry["rows_out"] == len(rows[entry["partition"]])
    assert ran.document["totals"]["rows_out"] == sum(map(len, rows.values()))
    assert {name: merge.read(part / name, strict=True) for name in PARTITIONS} == rows


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (["dt=2024-01-02"], PARTITIONS[1:2]),
        (["dt=*-0[13]"], [PARTITIONS[0], PARTITIONS[2]]),
        (["dt=*-01", "dt=*-03"], [PARTITIONS[0], PARTITIONS[2]]),
        (["DT=2024-*"], PARTITIONS),
    ],
)
def test_only_the_partitions_that_match(jobs: Jobs, part: Path, patterns: list[str], wanted: list[str]) -> None:
    options = [word for pattern in patterns for word in ("--partition", pattern)]
    before = tree(part)
    ran = jobs.good("major_compact", "--location", part, "--all-committed", *options)
    assert done_partitions(ran) == wanted
    for name in set(PARTITIONS) - set(wanted):
        assert {k: v for k, v in tree(part).items() if k.startswith(name)} == {
            k: v for k, v in before.items() if k.startswith(name)
        }


def test_values_with_spaces_and_two_keys(jobs: Jobs, tmp_path: Path) -> None:
    table = fixture("hive4/part_table", tmp_path / "p.db" / "t")
    ran = jobs.good("major_compact", "--location", table, "--all-committed", "--partition", "q=y y")
    assert done_partitions(ran) == ["p=2/q=y y"]
    ran = jobs.good("major_compact", "--location", table / "p=1" / "q=x", "--all-committed")
    assert done_partitions(ran) == ["p=1/q=x"]
    assert ran.compactions[0]["database"] == "p"
    assert ran.compactions[0]["table"] == "t"


def test_partition_keys_that_begin_as_acid_directories_do(jobs: Jobs, tmp_path: Path) -> None:
    table = fixture("hive4/part_table", tmp_path / "p.db" / "t")
    for outer in list(table.glob("p=*")):
        for inner in list(outer.glob("q=*")):
            inner.rename(outer / f"delete_delta_{inner.name}")
        outer.rename(table / f"base_{outer.name}")
    one = table / "base_p=1" / "delete_delta_q=x"
    places = [str(path.relative_to(table)) for path in sorted(table.glob("*/*"))]
    rows = {place: merge.read(table / place, generation=4) for place in places}
    ran = jobs.good("major_compact", "--location", one, "--all-committed")
    assert (ran.compactions[0]["table"], done_partitions(ran)) == ("t", ["base_p=1/delete_delta_q=x"])
    ran = jobs.good("major_compact", "--warehouse", tmp_path, "--table", "p.t", "--all-committed")
    assert sorted(done_partitions(ran)) == places
    ran = jobs.good("cleaner", "--location", table, "--retention", "0s")
    assert {entry["state"] for entry in ran.document["cleanings"]} == {"succeeded"}
    assert visible(one) == ["base_0000006"]
    assert {place: merge.read(table / place, generation=4) for place in places} == rows


def test_no_partition_matches(jobs: Jobs, part: Path) -> None:
    before = tree(part)
    ran = jobs("major_compact", "--location", part, "--all-committed", "--partition", "dt=1999-*")
    assert (ran.status, ran.error["kind"]) == (1, "missing")
    assert ran.error["message"].endswith("none matches dt=1999-*")
    assert tree(part) == before


@pytest.mark.pairs
@pytest.mark.parametrize("job", ["major_compact", "minor_compact", "initiator"])
@pytest.mark.parametrize("place", ["part", "gone", "part/dt=1999-01-01"])
def test_nothing_to_do_where_nothing_is_if_that_may_be(jobs: Jobs, part: Path, job: str, place: str) -> None:
    before = tree(part)
    named = ("--location", part.parent / place, "--all-committed", "--partition", "dt=1999-*")
    failed = jobs(job, *named)
    assert (failed.status, failed.error["kind"]) == (1, "missing")
    document = jobs.good(job, *named, "--if-exists").document
    (note,) = document["notes"]
    assert note == f"{failed.error['message']}; nothing is done there, as --if-exists says"
    assert document["decisions" if job == "initiator" else "compactions"] == []
    told = jobs(job, *named, "--if-exists", text=True)
    assert (told.status, told.out.partition(" ")[0]) == (0, "Nothing")
    assert f"note: {note}" in told.err
    assert tree(part) == before


def test_orphans_where_nothing_is(jobs: Jobs, part: Path) -> None:
    named = ("--orphans", "--location", part / "dt=1999-01-01")
    assert jobs("cleaner", *named).error["kind"] == "missing"
    assert jobs.good("cleaner", *named, "--if-exists").document["cleanings"] == []


def test_tables_of_a_warehouse_by_name(jobs: Jobs, part: Path, crud: Path) -> None:
    root = part.parents[1]
    before = tree(crud)
    named = ("--warehouse", root, "--all-committed")
    ran = jobs.good("major_compact", *named, "--table", "db.*", "--exclude", "db.cr*", "--partition", "dt=*-01")
    assert done_partitions(ran) == PARTITIONS[:1]
    assert tree(crud) == before
    missing = jobs("major_compact", *named, "--table", "db.nothing")
    assert missing.status == 1
    assert "no ACID table there has such a name\n" in missing.err
    misspelt = jobs("major_compact", *named, "--table", "db.b_parrt", "--if-exists", text=True)
    assert "has such a name; did you mean db.b_part?; nothing is done there, as --if-exists says" in misspelt.err


def test_one_word_for_several_tables_has_to_be_said_of_each(jobs: Jobs, tmp_path: Path) -> None:
    """One of them has rows that were rolled back, and nothing in its directories hints at that."""
    root = tmp_path / "w"
    for name in ("a_crud", "f_abort", "j_stream", "p_opentxn"):
        fixture(f"hive3/{name}", root / "db.db" / name)
    before, asked = tree(root), ("--warehouse", root, "--all-committed", "--table", "db.*")
    for job in ("major_compact", "minor_compact", "initiator"):
        ran = jobs(job, *asked)
        assert (ran.status, ran.error["kind"]) == (2, "usage")
        told = ran.error["message"]
        assert told.startswith("Cannot take everything as committed in 4 tables, db.a_crud, db.f_abort, db.j_stream, ")
        assert "give --write-ids-file with a line for each table, or --yes" in told
    lists = tmp_path / "lists"
    lists.write_text("db.a_crud:9:9223372036854775807::\n")
    assert jobs("major_compact", *asked[:2], "--write-ids-file", lists, "--table", "db.*", "--yes").status == 2
    planned = jobs.good("major_compact", *asked, "--dry-run")
    assert planned.states == ["planned"] * 4
    question = "a run without --dry-run asks for --write-ids-file with a line for each table, or for --yes: everything"
    for job in ("major_compact", "initiator"):
        assert f"{question} is taken as committed in 4 tables" in jobs.good(job, *asked, "--dry-run").document["notes"]
        assert question not in jobs.good(job, *asked, "--yes", "--dry-run").err
    warned = [line for line in planned.err.splitlines() if line.startswith("warning: ")]
    assert warned == [
        f"warning: db.{name}: --all-committed may not be so: {sign}. If it is not, give --write-ids"
        for name, sign in (
            ("j_stream", "delta_0000006_0000010/bucket_00000_flush_length is of a streaming writer that may have "
             "been rolled back, or still writes"),
            ("p_opentxn", "no directory has write ids 4, as after a transaction that was rolled back"),
        )
    ]  # fmt: skip
    assert (tree(root), jobs.shown()) == (before, {})
    one = jobs.good("major_compact", *asked[:3], "--table", "db.a*")
    assert (one.states, "warning: " in one.err) == (["ready for cleaning"], False)
    ran = jobs("major_compact", *asked, "--yes")
    assert [entry["state"] for entry in ran.compactions if entry["table"] != "a_crud"] == ["ready for cleaning"] * 3
    assert [line for line in ran.err.splitlines() if line.startswith("warning: ")] == warned


def test_what_hints_at_a_rolled_back_transaction_is_asked_of_a_whole_table(jobs: Jobs, part: Path) -> None:
    """What one partition lacks another may have."""
    asked = ("--all-committed", "--dry-run")
    second = "delta_0000002_0000002_0000"
    shutil.rmtree(part / PARTITIONS[0] / second)
    for named in (part / PARTITIONS[0], part):
        assert "warning: " not in jobs.good("major_compact", "--location", named, *asked).err
    for name in PARTITIONS[1:]:
        shutil.rmtree(part / name / second)
    named = ("--location", part, "--partition", PARTITIONS[1])
    assert "warning: " not in jobs.good("major_compact", *named, *asked).err
    for job in ("major_compact", "initiator"):
        told = jobs.good(job, "--location", part, *asked).err
        assert "warning: db.b_part: --all-committed may not be so: no directory has write ids 2, as after" in told


def test_idle_leaves_what_has_just_changed(jobs: Jobs, part: Path) -> None:
    """Only the middle partition has nothing younger than an hour."""
    for path in (part / PARTITIONS[1]).rglob("*"):
        os.utime(path, (time.time() - 7200,) * 2)
    named = ("--location", part, "--all-committed", "--idle", "1h")
    looked = jobs.good("initiator", *named, "--dry-run").document["decisions"]
    ran = jobs.good("major_compact", *named)
    assert ran.document["totals"]["states"]["skipped"] == len(PARTITIONS) - 1
    for entry in ran.compactions:
        decision = next(one["reason"] for one in looked if one["partition"] == entry["partition"])
        if entry["partition"] == PARTITIONS[1]:
            assert entry["state"] == "ready for cleaning"
            continue
        assert entry["state"] == "skipped"
        assert entry["reason"].startswith("something in it is younger than 1h: delta_")
        assert "bucket_00000, modified 20" in entry["reason"]
        assert decision == entry["reason"]


def test_idle_holds_for_what_waits_in_the_queue_too(jobs: Jobs, part: Path) -> None:
    jobs.good("initiator", "--location", part, "--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
    waiting = {row["partition"] for row in jobs.shown().values()}
    ran = jobs.good("major_compact", "--idle", "1h")
    assert {(entry["partition"], entry["state"]) for entry in ran.compactions} == {(p, "skipped") for p in waiting}
    assert {row["state"] for row in jobs.shown().values()} == {"initiated"}


def grow(place: Path, size: int) -> None:
    """A file that readers do not see in any delta of a place, to change what is counted."""
    target = place / "delta_0000001_0000001_0000" / "bucket_00001"
    target.write_bytes(b"")
    os.truncate(target, size)


def test_order(jobs: Jobs, part: Path) -> None:
    """Fewest deltas in the first partition, most bytes in the second, untouched longest the third."""
    fewer = part / PARTITIONS[0] / "delta_0000006_0000006_0000"
    for path in (fewer / "bucket_00000", fewer / "_orc_acid_version"):
        path.unlink()
    fewer.rmdir()
    grow(part / PARTITIONS[1], 1 << 20)
    for name, age in zip(PARTITIONS, (10, 20, 30), strict=True):
        for path in (part / name).rglob("*"):
            os.utime(path, (time.time() - age * 60,) * 2)
    one, two, three = PARTITIONS
    wanted = {
        "deltas": [two, three, one],
        "bytes": [two, three, one],
        "age": [three, two, one],
        "name": [one, two, three],
    }
    for order, expected in wanted.items():
        ran = jobs("major_compact", "--location", part, "--all-committed", "--order", order, "--dry-run")
        assert [e["partition"] for e in ran.compactions if e["partition"] != two] == [e for e in expected if e != two]
        first = jobs("major_compact", "--location", part, "--all-committed", "--order", order, "--dry-run",
                     "--max-partitions", "1")  # fmt: skip
        assert done_partitions(first) == expected[:1], order


def test_budgets_stop_what_has_not_begun(jobs: Jobs, part: Path) -> None:
    named = ("major_compact", "--location", part, "--all-committed", "--order", "name")
    size = sum(path.stat().st_size for path in (part / PARTITIONS[0]).rglob("*") if path.is_file())
    nothing = jobs.good(*named, "--time-budget", "0s")
    assert (nothing.compactions, nothing.document["notes"]) == (
        [],
        ["stopped: the time budget is spent; 3 places are left"],
    )
    assert jobs.good(*named, "--max-partitions", "0").compactions == []
    told = jobs(*named, "--max-partitions", "0", text=True)
    assert told.out == "Nothing was compacted; stopped: --max-partitions 0 is reached; 3 places are left\n"
    assert "are left" not in told.err
    one = jobs.good(*named, "--max-partitions", "1")
    assert done_partitions(one) == PARTITIONS[:1]
    assert one.document["notes"] == ["stopped: --max-partitions 1 is reached; 2 places are left"]
    assert one.document["totals"]["left"] == 2
    by_bytes = jobs.good(*named, "--max-bytes", str(size), "--partition", "dt=*-0[23]")
    assert done_partitions(by_bytes) == [PARTITIONS[1]]  # the first always begins, the second is over the budget
    assert len(jobs.shown()) == 2


def test_a_budget_leaves_requests_queued(jobs: Jobs, part: Path) -> None:
    jobs.good("initiator", "--location", part, "--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
    ran = jobs.good("major_compact", "--max-partitions", "2", "--order", "name")
    assert done_partitions(ran) == PARTITIONS[:2]
    assert ran.document["notes"] == ["stopped: --max-partitions 2 is reached; 1 place is left"]
    assert [row["state"] for row in jobs.shown().values()] == ["initiated", "ready for cleaning", "ready for cleaning"]


@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
@pytest.mark.parametrize("options", [(), TWO_RENAMES])
def test_a_dry_run_plans_what_then_happens_and_changes_nothing(
    jobs: Jobs, part: Path, kind: str, options: tuple[str, ...]
) -> None:
    before = tree(part)
    named = (kind, "--location", part, "--all-committed", *options)
    planned = jobs.good(*named, "--dry-run")
    assert tree(part) == before
    assert jobs.shown() == {}
    assert planned.states == ["planned"] * 3
    done = jobs.good(*named)
    assert [results_alike(entry) for entry in planned.compactions] == [results_alike(e) for e in done.compactions]
    after = tree(part)
    for entry in done.compactions:
        new = added(below(before, entry["partition"]), below(after, entry["partition"]))
        assert set(entry["output_directories"]) == new


def below(found: dict[str, tuple], folder: str) -> dict[str, tuple]:
    """The part of a tree that lies in one of its directories."""
    return {name.removeprefix(f"{folder}/"): facts for name, facts in found.items() if name.startswith(f"{folder}/")}


def test_dry_run_as_text_says_which_stripes_are_copied_and_why(jobs: Jobs, crud: Path) -> None:
    ran = jobs("major_compact", "--location", crud, "--all-committed", "--dry-run", text=True)
    assert ran.status == 0
    for word in ("db.crud", "base_0000004", "rewrite", "rows to leave out: 2 deleted"):
        assert word in " ".join(ran.out.split())


@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
def test_what_is_compact_already_is_left_with_the_reason(jobs: Jobs, crud: Path, kind: str) -> None:
    jobs.good(kind, "--location", crud, "--all-committed", *(TWO_RENAMES if kind == "minor_compact" else ()))
    before = tree(crud)
    for _ in range(2):
        ran = jobs(kind, "--location", crud, "--all-committed", *(TWO_RENAMES if kind == "minor_compact" else ()))
        assert ran.status == 0
        (entry,) = ran.compactions
        assert entry["state"] == "already compact"
        assert entry["reason"].startswith("there is nothing to merge: ")
        assert tree(crud, times=False) == {name: (*facts[:2], 0) for name, facts in before.items()}


def test_a_major_of_a_single_delta_is_made_for_who_asks(jobs: Jobs, tmp_path: Path) -> None:
    """As by Hive 3.1.3; not for an initiator, which would queue what is pointless."""
    stream = fixture("hive3/j_stream", tmp_path / "default.db" / "j_stream")
    write_ids = "default.j_stream:10:8:8,9,10:3,5"
    rows = merge.read(stream, write_ids)
    (tmp_path / "ids").write_text(f"{write_ids}\n")
    low = ("--set", "hive.compactor.delta.num.threshold=0")
    scanned = jobs.good("initiator", "--warehouse", tmp_path, "--write-ids-file", tmp_path / "ids", *low)
    assert scanned.document["totals"]["queued"] == 0
    assert "1 delta directory and no base" in scanned.document["decisions"][0]["reason"]
    named = ("--location", stream, "--write-ids", write_ids)
    (entry,) = jobs.good("major_compact", *named).compactions
    assert (entry["state"], entry["output_directories"]) == ("ready for cleaning", ["base_0000005"])
    assert merge.read(stream, write_ids, strict=True) == rows
    (entry,) = jobs.good("major_compact", *named).compactions
    assert (entry["state"], "a base and no delta" in entry["reason"]) == ("already compact", True)


def test_a_minor_of_inserts_and_deletes_is_a_major_unless_told_otherwise(jobs: Jobs, crud: Path) -> None:
    rows = merge.read(crud)
    (entry,) = jobs.good("minor_compact", "--location", crud, "--all-committed").compactions
    assert (entry["type"], entry["publication"], entry["output_directories"]) == (
        "major",
        "one rename",
        ["base_0000004"],
    )
    assert merge.read(crud, strict=True) == rows


def size_of(place: Path, directories: str) -> int:
    """Bytes of the bucket files in directories of a place."""
    return sum(path.stat().st_size for path in place.glob(f"{directories}/bucket_*"))


def test_a_minor_in_two_renames(jobs: Jobs, crud: Path) -> None:
    rows, size = merge.read(crud), size_of(crud, "*")
    (entry,) = jobs.good("minor_compact", "--location", crud, "--all-committed", *TWO_RENAMES).compactions
    assert (entry["deltas_before"], entry["deltas_after"]) == (5, 2)
    made = sum(size_of(crud, directory) for directory in entry["output_directories"])
    assert (entry["bytes_in"], entry["bytes_out"]) == (size, made)
    assert (entry["type"], entry["publication"]) == ("minor", "two renames")
    assert entry["output_directories"] == ["delta_0000001_0000004", "delete_delta_0000001_0000004"]
    assert merge.read(crud, strict=True) == rows
    assert not [name for name in names(crud) if name.startswith("_")]


def break_second_rename(monkeypatch: pytest.MonkeyPatch, failing, *, way_back: bool = False) -> None:
    """Let the second of two renames fail; with `way_back` also the one that takes the first back."""
    rename = LocalFileSystem.rename_noreplace

    def broken(self, source: str, target: str, **more: object) -> None:
        if Path(target).name.startswith("delete_delta") and "_tmp_" not in Path(target).parent.name:
            failing()
        if way_back and Path(source).parent.name == "crud" and Path(source).name.startswith("delta_"):
            failing()
        rename(self, source, target, **more)

    monkeypatch.setattr(LocalFileSystem, "rename_noreplace", broken)


def raise_retry() -> None:
    raise RetryError("Cannot rename: the test says so")


NEXT_JOBS = {
    "minor": ("minor_compact", "--location", "{}", "--all-committed", *TWO_RENAMES),
    "major": ("major_compact", "--location", "{}", "--all-committed"),
    "initiator": ("initiator", "--location", "{}", "--all-committed"),
    "cleaner": ("cleaner",),
    "queue": ("minor_compact",),
}


def half_published(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> list[merge.Row]:
    """A table between the two renames of a dead run; returns the rows it had before."""
    rows = merge.read(crud)
    with monkeypatch.context() as patch:
        break_second_rename(patch, raise_retry, way_back=True)
        ran = jobs("minor_compact", "--location", crud, "--all-committed", *TWO_RENAMES)
    assert ran.status == 1
    assert ran.states == ["failed"]
    assert "the next run on this partition finishes it" in ran.compactions[0]["reason"]
    assert "delta_0000001_0000004" in visible(crud)
    assert "delete_delta_0000001_0000004" not in visible(crud)
    assert merge.read(crud) != rows
    return rows


@pytest.mark.parametrize("following", ["minor", "major", "initiator", "cleaner"])
def test_any_next_job_finishes_a_publication_that_broke(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, following: str
) -> None:
    rows = half_published(jobs, crud, monkeypatch)
    planned = tree(crud)
    for job in ("minor_compact", "major_compact"):
        dry = jobs(job, "--location", crud, "--all-committed", "--dry-run")
        assert "unfinished" in dry.compactions[0]["reason"]
    jobs("initiator", "--location", crud, "--all-committed", "--dry-run")
    jobs("cleaner", "--dry-run", "--retention", "0s")
    assert tree(crud) == planned, "a dry run changes nothing"
    jobs.good(*(word.format(crud) for word in NEXT_JOBS[following]))
    assert merge.read(crud, strict=True) == rows
    assert "delete_delta_0000001_0000004" in visible(crud)
    assert not [name for name in names(crud) if name.startswith("_")]
    jobs.good("cleaner", "--retention", "0s")
    assert merge.read(crud, strict=True) == rows


@pytest.mark.parametrize("following", ["minor", "major", "initiator", "cleaner"])
def test_a_half_that_somebody_removed_again_blocks_nothing(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, following: str
) -> None:
    rows = half_published(jobs, crud, monkeypatch)
    shutil.rmtree(crud / "delta_0000001_0000004")
    jobs.good(*(word.format(crud) for word in NEXT_JOBS[following]))
    assert merge.read(crud, strict=True) == rows
    assert not [name for name in names(crud) if name.startswith("_")]


def die() -> None:
    os.kill(os.getpid(), 9)


@pytest.mark.pairs
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "on another machine"])
@pytest.mark.parametrize("following", ["minor", "major", "initiator", "cleaner", "queue"])
def test_a_run_that_was_killed_between_the_renames_is_finished(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, following: str, elsewhere: bool
) -> None:
    rows = merge.read(crud)

    def killed() -> None:
        break_second_rename(monkeypatch, die)
        jobs("minor_compact", "--location", crud, "--all-committed", *TWO_RENAMES, queue_url=f"{jobs.queue_url}2")

    assert forked(killed) == -9
    assert merge.read(crud) != rows
    assert "_acidlib_claim" in names(crud)
    if elsewhere:
        owner_elsewhere(crud)
        now = jobs(*(word.format(crud) for word in NEXT_JOBS["major"]), queue_url=f"{jobs.queue_url}3")
        assert (now.status, now.states) == (1, ["conflict"])  # the dead run's claim still counts for ten minutes
        at_time(monkeypatch, 3600)
    same = f"{jobs.queue_url}2"
    jobs("cleaner", "--dry-run", queue_url=same)
    assert merge.read(crud) != rows
    ran = jobs(*(word.format(crud) for word in NEXT_JOBS[following]), queue_url=same)
    assert ran.status == 0, ran
    assert merge.read(crud, strict=True) == rows
    assert not [name for name in names(crud) if name.startswith("_")]


KINDS = {"minor": "minor_compact", "major": "major_compact"}


@pytest.mark.parametrize("how", ["killed here", "killed elsewhere"])
@pytest.mark.parametrize(("first", "then"), [("minor", "major"), ("major", "minor")])
def test_a_named_run_that_has_ended_blocks_no_later_one_of_the_other_kind(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str, how: str
) -> None:
    rows = merge.read(crud)
    asked = ("--location", crud, "--all-committed")
    if how == "killed elsewhere":
        for module in ("stores.renaming.claims", "ports.sql"):
            monkeypatch.setattr(f"acidlib.{module}.process_identity", lambda: "elsewhere.1.1")
    assert killed_at(Point.STAGED, lambda: jobs(KINDS[first], *asked))
    assert [row["state"] for row in jobs.shown().values()] == ["working"]
    if how == "killed elsewhere":
        now = jobs(KINDS[then], *asked)
        assert (now.status, now.states) == (1, ["conflict"])  # alive, as far as anybody here knows
        at_time(monkeypatch, 601)
    ran = jobs.good(KINDS[then], *asked)
    assert ran.states == ["ready for cleaning"]
    assert merge.read(crud, strict=True) == rows
    ended = jobs.shown()[1]
    assert (ended["type"], ended["state"]) == (first.upper(), "refused")
    assert ended["error_message"] == f"its run has ended, and a {then.upper()} compaction was requested since"
    assert jobs.good(KINDS[first]).compactions == []


def test_a_named_run_that_is_interrupted_withdraws_what_it_queued_and_no_more(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **more: object) -> None:
        raise KeyboardInterrupt

    asked = ("--location", crud, "--all-committed")
    with monkeypatch.context() as patch:
        patch.setattr("acidlib.runs.compact.choose_inputs", interrupt)
        assert jobs("major_compact", *asked).status == 130
        assert jobs.shown() == {}
    jobs.good("initiator", *asked, "--set", "hive.compactor.delta.num.threshold=1")
    with monkeypatch.context() as patch:
        patch.setattr("acidlib.runs.compact.choose_inputs", interrupt)
        assert jobs("major_compact", *asked).status == 130
    assert [row["state"] for row in jobs.shown().values()] == ["initiated"], "the initiator has asked for it"
    assert jobs.good("major_compact").states == ["ready for cleaning"]


def test_what_a_dead_run_was_to_do_waits_for_whoever_drains_the_queue(jobs: Jobs, crud: Path) -> None:
    assert killed_at(Point.TAKEN, lambda: jobs("minor_compact", "--location", crud, "--all-committed"))
    queued = jobs.good("initiator", "--location", crud, "--all-committed").document["decisions"][0]
    assert queued["type"] is None
    assert [row["state"] for row in jobs.shown().values()] == ["initiated"]
    assert jobs.good("minor_compact").states == ["ready for cleaning"]


def test_a_dead_named_minor_keeps_no_major_from_being_queued(jobs: Jobs, crud: Path) -> None:
    assert killed_at(Point.TAKEN, lambda: jobs("minor_compact", "--location", crud, "--all-committed"))
    over = ("--set", "hive.compactor.delta.num.threshold=1")
    (decision,) = jobs.good("initiator", "--location", crud, "--all-committed", *over).document["decisions"]
    assert (decision["type"], decision["queued"]) == ("major", 2)


def counted(monkeypatch: pytest.MonkeyPatch, at: int | None) -> list[str]:
    """Count the steps that change the file system; die before the one numbered `at`."""
    steps: list[str] = []
    for name in CHANGES:
        real = getattr(LocalFileSystem, name)

        def step(self, *args: object, real=real, name=name, **more: object):
            if at == len(steps):
                die()
            steps.append(name)
            return real(self, *args, **more)

        monkeypatch.setattr(LocalFileSystem, name, step)
    return steps


def test_killed_at_any_step_the_next_run_ends_right(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every step that changes the file system, of a minor compaction with its two renames."""
    run = ("minor_compact", "--all-committed", *TWO_RENAMES)
    with monkeypatch.context() as patch:
        steps = counted(patch, None)
        jobs.good(*run, "--location", fixture("hive3/a_crud", tmp_path / "whole"))
    assert len(steps) > 15
    half = 0
    for at in range(len(steps)):
        place = fixture("hive3/a_crud", tmp_path / f"t{at}")
        rows = merge.read(place)

        def killed(at: int = at, place: Path = place) -> None:
            counted(monkeypatch, at)
            jobs(*run, "--location", place)

        assert forked(killed) == -9, at
        half += merge.read(place) != rows
        with monkeypatch.context() as patch:
            at_time(patch, 3600)
            again = jobs(*run, "--location", place)
        assert again.status == 0, (at, again)
        assert merge.read(place, strict=True) == rows
        assert "delete_delta_0000001_0000004" in visible(place)
        with monkeypatch.context() as patch:
            at_time(patch, 3 * 86_400)
            jobs.good("cleaner", "--location", place, "--retention", "0s")
        assert merge.read(place, strict=True) == rows
        assert not [name for name in names(place) if name.startswith(("_tmp", "_acidlib"))], at
    assert 0 < half < 5, "only between the two renames a reader sees what it should not"


@pytest.mark.parametrize("generation", ["3", "4"])
def test_a_result_without_rows_has_a_file(jobs: Jobs, tmp_path: Path, generation: str) -> None:
    """Readers that list files alone would not see its directory, and would go on reading what it replaces."""
    place = fixture("hive3/n_alldeleted", tmp_path / "t")
    said = ("--location", place, "--all-committed", "--hive-version", generation)
    (entry,) = jobs.good("major_compact", *said).compactions
    assert (entry["rows_in"] > 0, entry["rows_out"]) == (True, 0)
    (base,) = [path for path in place.iterdir() if path.name.startswith("base_")]
    (file,) = [path for path in base.iterdir() if path.name[0] != "_"]
    with file.open("rb") as opened:
        assert len(pyorc.Reader(opened)) == 0
    assert merge.read(place, "", generation=3) == []
