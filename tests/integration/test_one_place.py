"""An error of any class at one place is an entry of that place, and the others are done."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claim_directories import age_claim, lay_claim
from judges import merge

from integration.harness import Jobs, fixture
from integration.test_orphans import put

BAD, GOOD = "dt=2024-01-01", "dt=2024-01-02"
RUN = ("--all-committed",)
ERRORS = (RecursionError("too deep"), OverflowError("too large"), MemoryError(), OSError(5, "broken"), KeyError("k"))


def break_at(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, place: str = BAD) -> None:
    """Have a function of the engine, `module:name`, raise an error where its arguments name the place."""
    module, _, path = name.partition(":")
    owner: Any = importlib.import_module(f"acidlib.{module}")
    *classes, function = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    real = getattr(owner, function)

    def broken(*arguments: Any, **more: Any) -> Any:
        if place in repr((arguments, more)):
            raise error
        return real(*arguments, **more)

    monkeypatch.setattr(owner, function, broken)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return fixture("hive3/b_part", tmp_path / "wh" / "db.db" / "b_part")


def queued(jobs: Jobs, table: Path) -> None:
    ran = jobs.good("initiator", "--location", table, *RUN, "--set", "hive.compactor.delta.num.threshold=1")
    assert ran.document["totals"]["queued"] == 3


def dead_run(jobs: Jobs, table: Path) -> None:
    """A run of another machine has both requests, and has been silent for long."""
    queued(jobs, table)
    with jobs.queue() as queue:
        for number in (1, 2, 3):
            queue.claim_id(number, "acidlib-other-host", round(time.time() * 1000))
    for part in (BAD, GOOD, "dt=2024-01-03"):
        lay_claim(table / part)
        age_claim(table / part, 3600)


def compacted(jobs: Jobs, table: Path) -> None:
    jobs.good("major_compact", "--location", table, *RUN)


def orphaned(jobs: Jobs, table: Path) -> None:
    del jobs
    for part in (BAD, GOOD):
        put(table / part, "_tmp_1a2b", 9)


def nothing(jobs: Jobs, table: Path) -> None:
    """As Hive left it."""


INITIATOR = (nothing, ("initiator", "--set", "hive.compactor.delta.num.threshold=1"), "decisions", "due")
NAMED = (nothing, ("major_compact",), "compactions", "ready for cleaning")
DRAINS = (queued, ("major_compact",), "compactions", "ready for cleaning")
CLEANER = (compacted, ("cleaner", "--retention", "0s"), "cleanings", "succeeded")
ORPHANS = (orphaned, ("cleaner", "--orphans", "--delete"), "cleanings", "succeeded")
ALONE = "ports.directories"
CASES = [
    *((INITIATOR, name) for name in ("places.listing:list_location", "places.place:Place.listed")),
    *((INITIATOR, name) for name in ("runs.initiate:_decision_about", f"{ALONE}:Directories.decided_request")),
    *((NAMED, name) for name in ("places.listing:list_location", "places.attempts:Attempts.last")),
    *((NAMED, name) for name in (f"{ALONE}:Directories.named_request", f"{ALONE}:DirectoryFence.hold")),
    *(
        (NAMED, name)
        for name in ("runs.compact:choose_inputs", "runs.plan:run_unit_task", "runs.compact:list_location")
    ),
    (DRAINS, "runs.compact:choose_inputs"),
    *((CLEANER, f"{ALONE}:DirectoryCleaning.{name}") for name in ("place", "requests_at", "plan", "end_cleaned")),
    *((CLEANER, name) for name in ("runs.clean:list_location", "stores.removing:measure")),
    (ORPHANS, "runs.orphans:find_unclaimed"),
]


@pytest.mark.parametrize(
    ("case", "name", "error"),
    [
        pytest.param(case, name, ERRORS[number % len(ERRORS)], id=f"{case[2]} {name}")
        for number, (case, name) in enumerate(CASES)
    ],
)
def test_the_others_are_done(
    jobs: Jobs,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[Callable[[Jobs, Path], None], tuple[str, ...], str, str],
    name: str,
    error: Exception,
) -> None:
    before, (job, *words), entries, well = case
    rows = {part: merge.read(table / part, strict=False) for part in (BAD, GOOD)}
    before(jobs, table)
    break_at(monkeypatch, name, error)
    if before is not queued and job != "cleaner":
        words += ["--location", str(table), *RUN]
    elif "--orphans" in words:
        words += ["--location", str(table)]
    ran = jobs(job, *words)
    found = {entry["partition"]: entry for entry in ran.document[entries]}
    assert ran.status == 3, ran
    state = "outcome" if job == "initiator" else "state"
    assert found[GOOD][state] == well
    assert found[BAD][state] == "failed"
    assert f"unexpected {type(error).__name__}: {error}" in found[BAD]["reason"]
    monkeypatch.undo()
    assert {part: merge.read(table / part, strict=False) for part in (BAD, GOOD)} == rows


def test_of_dead_runs_the_others_are_given_back(jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_run(jobs, table)
    break_at(monkeypatch, f"{ALONE}:Directories.current_location", RecursionError("too deep"))
    ran = jobs("major_compact")
    assert {entry["partition"] for entry in ran.compactions} == {GOOD, "dt=2024-01-03"}
    said = " ".join(ran.document["notes"])
    assert "could not be given back: Cannot finish a task: unexpected RecursionError" in said
    assert "was given back: its run is dead" in said


def test_of_tables_the_others_are_found(jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture("hive3/a_crud", table.parent / "a_crud")
    break_at(monkeypatch, "stores.renaming.local:LocalFileSystem.list_directory", MemoryError(), BAD)
    words = ("--warehouse", table.parent.parent, *RUN, "--yes", "--set", "hive.compactor.delta.num.threshold=1")
    ran = jobs("initiator", *words)
    found = {(entry["table"], entry["partition"]): entry["outcome"] for entry in ran.document["decisions"]}
    assert found.pop(("b_part", BAD)) == "failed"
    assert found == dict.fromkeys((("a_crud", None), ("b_part", GOOD), ("b_part", "dt=2024-01-03")), "due")


def test_of_a_status_the_others_are_looked_at(
    jobs: Jobs, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(monkeypatch, "status.look:_figures", OverflowError("too large"))
    metrics = tmp_path / "metrics.prom"
    ran = jobs("status", "--location", table, *RUN, "--metrics-file", metrics)
    (finding,) = (entry for entry in ran.document["findings"] if entry["partition"] == BAD)
    assert finding["reason"].endswith("unexpected OverflowError: too large")
    assert [place["partition"] for place in ran.document["totals"]["most_deltas"]] == [GOOD, "dt=2024-01-03"]
    assert 'table="b_part"' in metrics.read_text()
    break_at(monkeypatch, "status.show_place:list_location", RecursionError("too deep"))
    bad, good, _ = jobs("show_place", "--location", table, *RUN).document["places"]
    assert bad["error"].endswith("unexpected RecursionError: too deep")
    assert good["parts"]


def test_a_compact_place_shows_no_request_that_the_queue_has_forgotten(jobs: Jobs, tmp_path: Path) -> None:
    where = ("--location", fixture("hive3/a_crud", tmp_path / "t"), "--all-committed")
    jobs.good("major_compact", *where)
    (entry,) = jobs.good("major_compact", *where).compactions
    assert (entry["state"], entry["id"]) == ("already compact", None)
