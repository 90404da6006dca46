"""Each job of the command line and its verb do the same, and give the same document, text and exit status."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import acidlib
from acidlib.api.caller import Caller
from acidlib.arguments import said
from integration.harness import AROUND, IN_PROCESS, Jobs, fixture, names, tree

CALLER = Caller(IN_PROCESS)
"""A program whose runs are on the machine of the jobs of these tests."""
LOW = {"hive.compactor.delta.num.threshold": "1"}
BY_CLI, BY_VERB = "by_cli", "by_verb"


class Doors:
    """Two copies of a warehouse, each with a queue: one is worked on by commands, one by verbs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AROUND, "clock", lambda: 1_800_000_000.0)  # times are equal, and nothing takes long
        monkeypatch.setenv("ACIDLIB_HOME", str(root / "home"))
        monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
        monkeypatch.delenv("ACIDLIB_QUEUE_URL", raising=False)
        self.root = root
        for door in (BY_CLI, BY_VERB):
            fixture("hive3/a_crud", root / door / "w" / "sales.db" / "orders")
            fixture("hive3/b_part", root / door / "w" / "sales.db" / "visits")
        self.jobs = Jobs(queue_url=self.queue(BY_CLI))
        url = self.queue(BY_VERB)
        self.orders = acidlib.directory(
            self.place(BY_VERB, "sales.db/orders"), all_committed=True, settings=LOW, queue=url, caller=CALLER
        )
        self.lake = acidlib.warehouse(
            self.place(BY_VERB), all_committed=True, of_each=True, settings=LOW, queue=url, caller=CALLER
        )
        self.unstated = acidlib.directory(self.place(BY_VERB, "sales.db/orders"), queue=url, caller=CALLER)
        self.alone = acidlib.connect("none", settings=LOW, queue=url, caller=CALLER)

    def queue(self, door: str) -> str:
        return f"sqlite:///{self.root / door}.db"

    def place(self, door: str, name: str = "") -> Path:
        return self.root / door / "w" / name

    def alike(self, text: str) -> str:
        """A text without what differs between the doors: folders, ids of runs, seconds inside tasks, and words."""
        for of_cli, of_python in (
            ("acidlib show", "queue()"),
            ("--details", "text_pieces(details=True)"),
            ("--max-partitions", "max_partitions"),
        ):
            text = text.replace(of_cli, of_python)
        text = text.replace(str(self.root / BY_VERB), "/w").replace(str(self.root / BY_CLI), "/w")
        text = re.sub(r"-[0-9a-f]{16}\b", "-RUN", text)
        text = re.sub(r'("(?:rewrite_seconds|seconds|ratio)": )[0-9.]+', r"\g<1>0", text)
        return re.sub(r"[0-9.]+( s\s+inside|\s+times\s+the\s+rewriting)", r"0\1", text)

    def same(self, job: str, words: list[str | Path], result: acidlib.Result, *, text: bool = False) -> None:
        """Compare a result with what the command returned for the other copy."""
        ran = self.jobs(job, *words, "--set", "hive.compactor.delta.num.threshold=1", text=text)
        mine = "".join(result.text_pieces() if text else result.json_pieces())
        mine, theirs = self.alike(mine), self.alike(ran.out.removesuffix("\n"))
        if job == "cleaner" and len(result.entries) > 1:  # places end in any order
            assert sorted(mine.split("\n")) == sorted(theirs.split("\n"))
        elif text:  # words of one door may be longer, and lines break elsewhere
            assert mine.split() == theirs.split()
        else:
            assert mine == theirs
        if not text:
            assert result.to_dict() == json.loads("".join(result.json_pieces()))
        assert result.exit_status == ran.status
        assert result.ok == (ran.status == 0)


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steady_deflate: None) -> Doors:
    return Doors(tmp_path, monkeypatch)


@pytest.mark.parametrize("text", [False, True])
def test_each_job_and_its_verb_are_the_same(doors: Doors, text: bool) -> None:
    """A table's life by each door: what one step leaves is what the next one starts with."""
    w, orders = doors.place(BY_CLI), doors.place(BY_CLI, "sales.db/orders")
    one: list[str | Path] = ["--location", orders, "--all-committed"]
    every: list[str | Path] = ["--warehouse", w, "--all-committed", "--yes"]
    (orders / "_tmp_1.revoked").mkdir()
    (doors.place(BY_VERB, "sales.db/orders") / "_tmp_1.revoked").mkdir()

    def same(job: str, words: list[str | Path], result: acidlib.Result) -> None:
        doors.same(job, words, result, text=text)

    same("initiator", [*every, "--dry-run"], doors.lake.initiate(dry_run=True))
    same(
        "initiator",
        [*every, "--table", "sales.visits", "--partition", "dt=*-02"],
        doors.lake.initiate(tables="sales.visits", partitions="dt=*-02"),
    )
    same("cancel", ["1", "--dry-run"], doors.alone.cancel(1, dry_run=True))
    same("cancel", ["1", "77"], doors.alone.cancel(1, 77))
    same("minor_compact", [*one, "--dry-run"], doors.orders.plan("minor"))
    same("minor_compact", one, doors.orders.compact("minor"))
    same("show_place", one, doors.orders.files())
    same(
        "major_compact",
        [*every, "--table", "sales.*", "--max-partitions", "2", "--order", "name", "--verify", "all"],
        doors.lake.compact("major", tables="sales.*", max_partitions=2, order="name", verify="all"),
    )
    same("initiator", every, doors.lake.initiate())
    same(
        "major_compact",
        ["--time-budget", "1h", "--max-bytes", "1g"],
        doors.alone.compact("major", time_budget="1h", max_bytes="1g"),
    )
    same("show_compactions", ["--limit", "3"], doors.alone.queue(limit=3))
    same("show_compactions", ["--state", "ready-for-cleaning"], doors.alone.queue(states="ready-for-cleaning"))
    same("status", [*every[:3], "--fail-on", "error"], doors.lake.status(fail_on="error"))
    newest: int = doors.alone.queue(states="ready-for-cleaning").entries[0]["id"]
    undo: list[str | Path] = [str(newest), "--nobody-reads"]
    same("undo", [*undo, "--dry-run"], doors.alone.undo(newest, nobody_reads=True, dry_run=True))
    same("undo", undo, doors.alone.undo(newest, nobody_reads=True))
    same("cleaner", ["--retention", "0s", "--dry-run"], doors.alone.clean(retention=0, dry_run=True))
    same("cleaner", ["--retention", "0s", "--location", orders], doors.orders.clean(retention="0s"))
    same(
        "cleaner",
        ["--retention", "0s", "--warehouse", w, "--table", "sales.visits", "--partition", "dt=*-02"],
        doors.lake.table("sales.visits").clean(retention="0s", partitions="dt=*-02"),
    )
    same("cleaner", ["--retention", "0s"], doors.alone.clean(retention=0.0))
    same("cleaner", ["--orphans", "--warehouse", w, "--older-than", "0s"], doors.lake.orphans(older_than=0))
    same("cleaner", ["--orphans", "--warehouse", w], doors.lake.orphans())
    same("show_place", every[:3], doors.lake.files())
    before, after = (
        tree(doors.place(door), times=False, without=lambda name: "_acidlib_" in name) for door in (BY_CLI, BY_VERB)
    )
    assert before.keys() == after.keys()


REFUSED: dict[str, tuple[str, list[str], Callable[[Doors], Any]]] = {
    "no statement": ("major_compact", ["--location", "W/sales.db/orders"], lambda doors: doors.unstated.plan("major")),
    "no metastore": ("initiator", [], lambda doors: doors.alone.initiate()),
    "no table": ("major_compact", ["--partition", "dt=1"], lambda doors: doors.alone.plan("major", partitions="dt=1")),
    "pattern": ("major_compact", ["--partition", "dt"], lambda doors: doors.alone.plan("major", partitions="dt")),
    "held": ("minor_compact", ["--release-held"], lambda doors: doors.alone.compact("minor", release_held=True)),
    "verify": ("minor_compact", ["--verify", "most"], lambda doors: doors.alone.compact("minor", verify="most")),
    "no request": ("undo", ["77", "--nobody-reads"], lambda doors: doors.alone.undo(77, nobody_reads=True)),
    "blockers": ("show_compactions", ["--blockers"], lambda doors: doors.alone.queue(blockers=True)),
    "filters": ("cleaner", ["--partition", "dt=1"], lambda doors: doors.alone.clean(partitions="dt=1")),
    "both": (
        "cleaner",
        ["--orphans", "--delete", "--trash"],
        lambda doors: doors.alone.orphans(delete=True, trash=True),
    ),
    "metrics": ("status", ["--metrics-file", "a.txt"], lambda doors: doors.alone.status(metrics_file="a.txt")),
    "missing": (
        "major_compact",
        ["--warehouse", "W", "--all-committed", "--table", "sales.none"],
        lambda doors: doors.lake.plan("major", tables="sales.none"),
    ),
}


@pytest.mark.parametrize(("job", "words", "verb"), REFUSED.values(), ids=REFUSED)
def test_both_doors_refuse_the_same(doors: Doors, job: str, words: list[str], verb: Callable[[Doors], Any]) -> None:
    words = [word.replace("W", str(doors.place(BY_CLI)), 1) for word in words]
    error = doors.jobs(job, *words).error
    with pytest.raises(acidlib.AcidError) as raised:
        verb(doors)
    assert raised.value.kind == error["kind"]
    assert "--" not in str(raised.value), "a program has keywords, no options"
    assert doors.alike(said(raised.value.words)) == doors.alike(error["message"]).replace(BY_CLI, BY_VERB)


@pytest.mark.parametrize(
    "options",
    [{"max_bytes": "much"}, {"idle": "soon"}, {"order": "size"}, {"max_partitions": -1}, {"buckets": 0}, {"idle": -1}],
    ids=str,
)
def test_an_argument_that_is_none_is_refused(doors: Doors, options: dict[str, Any]) -> None:
    before = tree(doors.place(BY_VERB))
    with pytest.raises(acidlib.UsageError, match=f"^Cannot use {next(iter(options))} "):
        doors.lake.compact("rebalance", tables="sales.orders", **options)
    assert tree(doors.place(BY_VERB)) == before
    with pytest.raises(acidlib.UsageError, match=r"^Cannot use kind full: it is none of major, minor, rebalance$"):
        doors.orders.compact("full")  # type: ignore[arg-type]
    with pytest.raises(acidlib.UsageError, match="pattern"):
        doors.lake.table("sales.*")


def test_a_table_undoes_its_own_compactions_alone(doors: Doors) -> None:
    visits = doors.lake.table("sales.visits")
    request = doors.orders.compact("major", progress=False).entries[0]["id"]
    other = visits.compact("major", partitions="dt=2024-01-01", progress=False).entries[0]["id"]
    undo = {"nobody_reads": True, "progress": False}
    with pytest.raises(acidlib.UsageError, match=rf"^Cannot undo request {request} as one of sales.visits: it is of "):
        visits.undo(request, **undo)
    with pytest.raises(acidlib.UsageError, match=rf"^Cannot undo request {other} as one of /.*/orders: it is of sales"):
        doors.orders.undo(other, **undo)
    assert [entry["state"] for entry in doors.alone.queue().entries] == ["ready for cleaning"] * 2
    assert (doors.orders.undo(request, **undo).state, visits.undo(other, **undo).state) == ("undone", "undone")


def test_several_threads_compact_tables_of_one_lake(doors: Doors) -> None:
    lake, before = doors.lake, set(threading.enumerate())

    def compact(name: str) -> acidlib.Compactions:
        return lake.table(name).compact("major", verify="all", progress=False)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(compact, ("sales.orders", "sales.visits")))
    assert [result.states for result in results] == [{"ready for cleaning": 1}, {"ready for cleaning": 3}]
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if thread.name.startswith("acidlib")] == []
    assert [name for name in names(doors.place(BY_VERB, "sales.db/orders")) if name.startswith("base")]


def test_progress_goes_to_a_callback_or_nowhere(doors: Doors, capfd: pytest.CaptureFixture[str]) -> None:
    steps: list[acidlib.Step] = []
    doors.orders.compact("major", progress=steps.append)
    assert {step.title for step in steps} >= {"listing 1 location", "compacting 1 place"}
    assert [step.done for step in steps if step.title == "compacting 1 place"][-1] == 1
    assert [step.place for step in steps if step.note and step.note.startswith("ready for cleaning")] == [
        "sales.orders"
    ]
    doors.orders.files(progress=False)
    doors.alone.clean(retention=0, progress=False)
    assert capfd.readouterr() == ("", "")


def test_progress_never_counts_more_places_than_a_limit_starts(doors: Doors) -> None:
    """It counts no place that is compact already, nor one that only gets a cleaning."""
    elsewhere = acidlib.warehouse(
        doors.place(BY_VERB), all_committed=True, settings=LOW, queue=doors.queue("elsewhere"), caller=CALLER
    )
    elsewhere.table("sales.visits").compact("major", progress=False)
    for states in ({"ready for cleaning": 4}, {"already compact": 4}):
        steps: list[acidlib.Step] = []
        ran = doors.lake.compact("major", tables="sales.*", order="name", max_partitions=2, progress=steps.append)
        assert ran.states == states
        done = [(step.done, step.total) for step in steps if step.title == "compacting up to 2 places"]
        counted = 1 if "ready for cleaning" in states else 0
        assert done[-1] == (counted, 2)


def test_small_work_is_done_in_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program has it, with no machine of the tests: no JVM is started for a small table."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    table = acidlib.directory(fixture("hive3/a_crud", tmp_path / "orders"), all_committed=True)
    plan = table.plan("major", progress=False)
    assert (plan.ok, plan.stripes_copied + plan.stripes_rewritten, len(plan.entries)) == (True, 3, 1)
    result = table.compact("major", progress=False)
    assert (result.ok, result.states, result.to_dict()["application_id"]) == (True, {"ready for cleaning": 1}, None)
    assert result.to_arrow().column("partition").null_count == 1
    assert "<h1>" in result._repr_html_()


def test_a_table_of_a_warehouse_is_cleaned_alone(doors: Doors) -> None:
    other = fixture("hive3/a_crud", doors.root / "other" / "w" / "sales.db" / "orders")
    elsewhere = acidlib.directory(other, all_committed=True, queue=doors.queue(BY_VERB), caller=CALLER)
    assert elsewhere.compact("major").ok
    assert doors.lake.compact("major", tables="sales.*").ok
    cleaned = doors.lake.table("Sales.Orders").clean(retention=0)
    assert [entry["location"] for entry in cleaned.entries] == [str(doors.place(BY_VERB, "sales.db/orders"))]
    cleaned = doors.lake.table("sales.visits").clean(retention=0, partitions="dt=*-02")
    assert [entry["partition"] for entry in cleaned.entries] == ["dt=2024-01-02"]
    assert len(doors.lake.clean(retention=0).entries) == 2
    assert len(elsewhere.clean(retention=0).entries) == 1
    (note,) = doors.lake.table("sales.orders").clean(retention=0).notes
    assert "has no request of sales.orders in " in note
    with pytest.raises(acidlib.MissingError, match=r"^Cannot find sales\.none: "):
        doors.lake.table("sales.none").clean()
