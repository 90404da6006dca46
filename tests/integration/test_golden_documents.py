"""What every job says of tables of both Hives, in each state, byte for byte: JSON, text and page.

The documents lie in `tests/golden/`, with times, ids, and the sizes that words and compressed results have masked; the
page without the places where a long word may be broken. A change that is meant is written anew, and seen in the diff:

    ACIDLIB_GOLDEN=write .venv/bin/python -m pytest tests/integration/test_golden_documents.py
"""

from __future__ import annotations

import difflib
import getpass
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from claim_directories import lay_claim

from acidlib import __version__
from acidlib.execute import in_threads
from acidlib.runs import environment
from integration.harness import Jobs, Ran, fixture
from integration.test_verification import a_row_is_lost, unnoticed

GOLDEN = Path(__file__).parents[1] / "golden"
STYLE = GOLDEN / "style.html"
WRITE = os.environ.get("ACIDLIB_GOLDEN") == "write"
DAY = 86_400

LISTS = {
    3: {"crud": "5:9223372036854775807::", "part": "9:9223372036854775807::", "gaps": "7:4:4:2,3,6"},
    4: {"crud": "3:9223372036854775807::", "part": "9:9223372036854775807::", "gaps": "6:9223372036854775807::2,3,4"},
}
"""What is committed in the tables of a warehouse, by generation; the damaged and the claimed one are like `crud`."""
TABLES = {
    3: {"crud": "hive3/a_crud", "part": "hive3/b_part", "gaps": "hive3/f_abort"},
    4: {"crud": "hive4/crud_table", "part": "hive4/part_table", "gaps": "hive4/aborted"},
}
INSERT_ONLY = {3: "hive3/h_mm_parquet", 4: "hive4/insert_only_parquet"}
PAGES = (
    *("status before", "scan", "scan again", "drain one", "verified", "differs", "quarantined"),
    *("clean", "orphans", "status after", "missing"),
)
"""Steps whose page is kept; that of many compactions is in the order of their times."""
EACH = ("--table", "db.*", "--order", "name")
FEW = ("--set", "hive.compactor.delta.num.threshold=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A warehouse of tables as Hive left them, and the jobs on it."""

    jobs: Jobs
    folder: Path
    generation: int
    patch: pytest.MonkeyPatch

    @property
    def lists(self) -> tuple[str | Path, ...]:
        return "--warehouse", self.folder / "wh", "--write-ids-file", self.folder / "lists"

    def table(self, name: str) -> Path:
        return self.folder / "wh" / "db.db" / name

    def named(self, name: str) -> tuple[str | Path, ...]:
        return "--location", self.table(name), "--all-committed"

    def apart(self, name: str) -> tuple[str | Path, ...]:
        """A table that lies in no warehouse."""
        return "--location", self.folder / name, "--all-committed"

    def request(self, name: str) -> str:
        """The id of the first request of a table that lies in no warehouse."""
        return str(min(id for id, row in self.jobs.shown().items() if row["table"] == name))


def laid(jobs: Jobs, folder: Path, generation: int, patch: pytest.MonkeyPatch) -> World:
    world = World(jobs=jobs, folder=folder, generation=generation, patch=patch)
    lists = LISTS[generation] | dict.fromkeys(("claimed", "damaged"), LISTS[generation]["crud"])
    (folder / "lists").write_text("".join(f"db.{name}:{text}\n" for name, text in lists.items()))
    for name, source in TABLES[generation].items():
        fixture(source, world.table(name))
    for name in ("claimed", "damaged"):
        fixture(TABLES[generation]["crud"], world.table(name))
    (world.table("damaged") / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"ORC")
    lay_claim(world.table("claimed"), owner="another run")
    fixture(INSERT_ONLY[generation], folder / "mm")
    for name in ("alone", "other"):
        fixture(TABLES[generation]["crud"], folder / name)
    lay_orphan(world.table("crud"))
    return world


def lay_orphan(place: Path) -> None:
    """Staging that no run owns, and that nobody has touched for years."""
    staging = place / "_tmp_1a2b"
    staging.mkdir()
    (staging / "bucket_00000").write_bytes(b"x" * 10)
    then = time.time() - 9211.7 * 24 * 3600  # the documents say how long ago, whenever they are made
    for path in (staging / "bucket_00000", staging):
        os.utime(path, (then, then))


STEPS: dict[str, Callable[[World], tuple[str | Path, ...]]] = {
    "place before": lambda w: ("show_place", *w.named("crud")),
    "damaged place": lambda w: ("show_place", *w.named("damaged")),
    "status before": lambda w: ("status", *w.lists),
    "scan planned": lambda w: ("initiator", *w.lists, *FEW, "--dry-run"),
    "scan": lambda w: ("initiator", *w.lists, *FEW),
    "scan again": lambda w: ("initiator", *w.lists, *FEW),
    "requests": lambda w: ("show_compactions",),
    "cancel planned": lambda w: ("cancel", "2", "--dry-run"),
    "cancel": lambda w: ("cancel", "2", "99"),
    "drain one": lambda w: ("major_compact", "--max-partitions", "1", "--order", "name"),
    "drain major": lambda w: ("major_compact", "--order", "name"),
    "drain minor": lambda w: ("minor_compact", "--order", "name"),
    "named planned": lambda w: ("major_compact", *w.lists, *EACH, "--dry-run"),
    "named major": lambda w: ("major_compact", *w.lists, *EACH),
    "named minor": lambda w: ("minor_compact", *w.named("crud")),
    "verified": lambda w: ("major_compact", *w.apart("alone"), "--verify"),
    "differs": lambda w: ("major_compact", *w.apart("other"), "--verify"),
    "quarantined": lambda w: ("major_compact", *w.apart("other")),
    "insert-only": lambda w: ("major_compact", *w.apart("mm"), "--table-kind", "insert-only"),
    "rebalance": lambda w: ("major_compact", *w.lists, "--table", "db.gaps", "--rebalance"),
    "place after": lambda w: ("show_place", *w.named("gaps")),
    "undo planned": lambda w: ("undo", w.request("alone"), "--dry-run"),
    "undo": lambda w: ("undo", w.request("alone"), "--nobody-reads"),
    "clean planned": lambda w: ("cleaner", "--dry-run"),
    "clean too early": lambda w: ("cleaner", "--retention", "2d"),
    "clean": lambda w: ("cleaner", "--retention", "0s"),
    "orphans": lambda w: ("cleaner", "--orphans", "--warehouse", w.folder / "wh"),
    "orphans removed": lambda w: ("cleaner", "--orphans", "--warehouse", w.folder / "wh", "--delete"),
    "status after": lambda w: ("status", *w.lists),
    "requests after": lambda w: ("show_compactions",),
    "requests as Hive": lambda w: ("show_compactions", "--output", "hive"),
    "missing": lambda w: ("major_compact", "--location", w.folder / "nothing", "--all-committed"),
    "wrong option": lambda w: ("major_compact", "--locaton", w.folder),
}


MASKS: tuple[tuple[str, str], ...] = (
    (re.escape(__version__), "VERSION"),
    (r"acidlib-(golden-)?[0-9a-f]{16}", "RUN"),
    (r'("\w*(?:_ms|seconds)": )-?[0-9.e-]+', r"\1TIME"),
    (r'("bytes(?:_out)?": )\d+', r"\1SIZE"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( to \d\d:\d\d:\d\d)?(Z| UTC|[+-]\d\d:\d\d)?", "TIME"),
    (r'(TIME,\s+"ratio": )[0-9.]+', r"\1TIME"),
    (r"(<dt>Time of [^<]*</dt>).*?</dd></div>", r"\1TIME</div>"),
    (r"(flex-grow|width):[0-9.]+", r"\1:TIME"),
    (r"_acidlib_undone\.(\d+)\.\d{13}", r"_acidlib_undone.\1.TIME"),
    (r" *\b\d+(\.\d+)? (ms|s|min|h)\b", " TIME"),
    (r" *\b\d+(\.\d+)? (bytes|[KMGT]iB)\b", " SIZE"),
    (r"\d+\.\d times the", "TIME times the"),
)


def masked(text: str, world: World) -> str:
    text = text.replace("<wbr>", "").replace(str(world.folder), "/WORLD")
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text, flags=re.DOTALL)
    return text


def without_style(page: str) -> str:
    """A page without its style sheet, which is the same in all and stands in a file of its own, whole."""
    (style,) = re.findall(r"<style>.*?</style>", page, flags=re.DOTALL)
    if WRITE:
        STYLE.parent.mkdir(parents=True, exist_ok=True)
        STYLE.write_text(style)
    assert style == STYLE.read_text()
    return page.replace(style, "<style>of all pages</style>")


def told(world: World, step: str, form: str) -> dict[str, str]:
    """What one job says, by the ending of the file that has it."""
    words = [str(word) for word in STEPS[step](world)]
    page = world.folder / "page.html"
    if words[0].endswith("compact"):
        words += ["--set", "acidlib.places.in.flight=1"]
    if form == "json" and step in PAGES:
        words += ["--report", str(page)]
    with world.patch.context() as patch:
        if step == "differs":
            unnoticed(patch, a_row_is_lost)
        ran: Ran = world.jobs(*words, text=form == "text")
    found = {form: f"exit status {ran.status}\n{ran.out}--- standard error\n{ran.err}"}
    if page.exists():
        found["html"] = without_style(page.read_text())
        page.unlink()
    return {ending: masked(text, world) for ending, text in found.items()}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name always has the same length, so that lines of text break at the same words."""
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as made:
        yield Path(made)


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("generation", [3, 4])
def test_golden_documents(
    jobs: Jobs, folder: Path, monkeypatch: pytest.MonkeyPatch, generation: int, form: str
) -> None:
    monkeypatch.setattr(in_threads, "THREADS", 1)  # one place after another
    monkeypatch.setattr(socket, "gethostname", lambda: "golden")
    monkeypatch.setattr(environment, "Environment", partial(environment.Environment, host="golden"))
    monkeypatch.setattr(getpass, "getuser", lambda: "anna")
    world = laid(jobs, folder, generation, monkeypatch)
    differences: list[str] = []
    for number, step in enumerate(STEPS, start=1):
        for ending, text in told(world, step, form).items():
            file = GOLDEN / f"hive{generation}" / f"{number:02} {step}.{ending}"
            if WRITE:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            if file.read_text() != text:
                before = file.read_text().splitlines(keepends=True)
                differences += difflib.unified_diff(before, text.splitlines(keepends=True), file.name, "now")
    assert not differences, "".join(differences)


@pytest.mark.parametrize("generation", [3, 4])
def test_no_document_is_of_a_step_that_is_gone(generation: int) -> None:
    steps = {f"{number:02} {step}" for number, step in enumerate(STEPS, start=1)}
    assert {file.stem for file in (GOLDEN / f"hive{generation}").iterdir()} == steps
