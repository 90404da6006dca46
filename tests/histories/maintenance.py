"""The jobs over a history's table: compactions, initiator and cleaner, by write-id lists of the model; and crashes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.children import killed_at
from integration.harness import AROUND, Jobs, Ran
from judges.acid_dirs import MAX, ReaderError, directory_state
from located import at

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.planning.clean import aborted_present
from acidlib.points import Point
from acidlib.stores.listing import list_location
from acidlib.stores.renaming.local import LocalFileSystem
from histories.history import LONGEST, History

_ALL = [point for point in Point if point is not Point.COMMITTED]
_CLEANING = _ALL.index(Point.CLEANING_CLAIMED)
# a minor dies between its two renames more often than elsewhere
POINTS = {
    "initiator": [Point.QUEUED],
    "major_compact": _ALL[1:_CLEANING],
    "minor_compact": [*_ALL[1:_CLEANING], *[Point.RECORDED, Point.FIRST_RENAMED] * 4],
    "cleaner": _ALL[_CLEANING:],
}
LOW = ("--set", "hive.compactor.delta.num.threshold=1")
FINE = {"ready for cleaning", "already compact", "refused"}
RETENTION = ("--retention", f"{LONGEST:.0f}s")


class Maintenance:
    """Runs jobs, sometimes killed at a random point, by the history's own time."""

    def __init__(self, history: History, jobs: Jobs) -> None:
        self.history = history
        self.jobs = jobs
        self.did: Counter[str] = Counter()
        self._outputs: dict[str, set[str]] = {}

    def compact(self, *, crash: bool) -> None:
        """Major or minor of a place, or of the whole table, named on the command line."""
        history, rng = self.history, self.history.rng
        kind = rng.choice(["major", "minor", "minor"])
        targets = [place for place in history.places if self._directories(place) > rng.choice([1, 1, 1, 0])]
        if not targets:
            return
        place = rng.choice(targets)
        where = history.root if rng.random() < 0.3 else history.path(place)
        # a list that is older than the directories is no lie
        old = [one.snapshot.text for one in history.readers] if rng.random() < 0.2 else []
        text = rng.choice(old) if old else None
        self._compactions(kind, "--location", where, *self._write_ids(text), crash=crash)

    def initiate(self, *, crash: bool) -> None:
        """Queue what the thresholds say; the worker comes later, with the write ids of now."""
        if any(map(self._directories, self.history.places)):
            more = LOW if self.history.rng.random() < 0.7 else ()
            self.run("initiator", "--location", self.history.root, *self._write_ids(), *more, crash=crash)

    def drain(self, *, crash: bool) -> None:
        """What waits in the queue."""
        self._compactions(self.history.rng.choice(["major", "minor"]), crash=crash)

    def clean(self, *, crash: bool) -> None:
        """By the retention; by none only when nobody looks."""
        history, rng = self.history, self.history.rng
        retention = ("--retention", "0s") if history.nobody_looks and rng.random() < 0.7 else RETENTION
        trash = ("--trash",) if rng.random() < 0.2 else ()
        ran = self.run("cleaner", *retention, *trash, crash=crash)
        if ran is None:
            return
        marks = {row["id"]: row["highest_write_id"] for row in self.jobs.shown().values()}
        for entry in ran.document["cleanings"]:
            assert entry["state"] in ("succeeded", "ready for cleaning"), entry
            self.did[f"cleaning {entry['state']}"] += 1
            self.did["removed"] += len(entry["removed"])
            if entry["state"] != "succeeded":
                self.history.say(f"  {entry['location']} waits for cleaning: {entry['reason']}")
            if entry["state"] == "succeeded" and entry["id"] is not None:
                self._cleaned(entry["location"], marks[entry["id"]])

    def settle(self) -> None:
        """Everybody ends, and time passes: one directory is left of each place that can be compacted, and no litter."""
        history = self.history
        for stream in list(history.streams):
            history.close_stream(stream)
        history.end_all(lambda _: True)
        history.pass_time(3 * LONGEST)
        self._compactions("major")
        self._compactions("minor")
        self.clean(crash=False)
        for _ in range(2):
            # what is to be cleaned only has to wait for an earlier request; another's base for the cleaner's next look
            if any(map(self._directories, history.places)):
                self._compactions("major", "--location", history.root, *self._write_ids())
            for _ in range(2):
                history.pass_time(3 * LONGEST)
                self.clean(crash=False)
        waiting = {row["state"] for row in self.jobs.shown().values()}
        assert waiting <= {"succeeded", "refused", "did not initiate"}, self.jobs.shown()
        for place in history.places:
            if self._directories(place):
                # the base of an aborted overwrite stays in Hive 3 until something above covers it
                kept = {"_acidlib_trash", *(f"base_{number:07d}" for number in history.table.aborted)}
                left = sorted({path.name for path in history.path(place).iterdir()} - kept)
                assert len(left) <= 1, left

    # --- runs -----------------------------------------------------------------------------------------------------

    def run(self, job: str, *arguments: str | Path, crash: bool = False) -> Ran | None:
        """One run; None when it was killed. Half a publication is finished before anybody looks again."""
        told = " ".join(str(word) for word in arguments)
        self.did[job] += 1
        if not crash:
            self.history.say(f"{job} {told}")
            return self._good(job, *arguments)
        point = f"{self.history.rng.choice(POINTS[job])}:{self.history.rng.choice([1, 1, 1, 1, 1, 2])}"
        killed = killed_at(point, lambda: self._good(job, *arguments))
        self.did["killed"] += killed
        self.history.say(f"{job} {told}, {'killed' if killed else 'not killed'} at {point!r}")
        self._finish_halves()
        return None

    def _good(self, job: str, *arguments: str | Path) -> Ran:
        """A run that must not fail; whoever names a place for which a request waits already is told so."""
        ran = self.jobs(job, *arguments)
        if ran.status == 0:
            return ran
        assert "compact" in job, ran
        told = [entry["reason"] for entry in ran.compactions if entry["state"] not in FINE]
        assert told, ran
        assert all("Compaction is already scheduled with state=" in reason for reason in told), told
        return ran

    def _finish_halves(self) -> None:
        """Whoever runs two renames states that nobody reads or writes meanwhile: until the next run has finished it."""
        halves = [
            path for place in self.history.places for path in self.history.path(place).glob("_tmp_*/publish.json")
        ]
        if halves:
            self.did["halves"] += 1
            if self.history.rng.random() < 0.5:
                self.clean(crash=False)
            else:
                # the wide directory of the half may leave nothing to do
                where = halves[0].parents[1]
                self._compactions("major", "--location", where, *self._write_ids())
                self.clean(crash=False)
            assert not any(path.exists() for path in halves), halves

    def _compactions(self, kind: str, *arguments: str | Path, crash: bool = False) -> None:
        history = self.history
        more = ("--minor-as-major-bytes", "0") if kind == "minor" and history.rng.random() < 0.7 else ()
        ran = self.run(f"{kind}_compact", *arguments, *more, crash=crash)
        for entry in ran.compactions if ran is not None else ():
            self.did[f"{entry['type']} {entry['state']}"] += 1
            told = entry["output_directories"] or entry["reason"]
            history.say(f"  {entry['location']}: {entry['type']}, {entry['state']}: {told}")
            self._outputs.setdefault(entry["location"], set()).update(entry["output_directories"])

    def _write_ids(self, text: str | None = None) -> tuple[str, ...]:
        """The list of now or another one, and how the table is understood."""
        history = self.history
        words = (
            "--write-ids",
            text or history.now.text,
            "--hive-version",
            str(history.generation),
            "--table-kind",
            "full",
        )
        if not history.suffixes:
            return words
        history.table.txn += 1
        return (*words, "--visibility-txn", str(history.table.txn))

    def _directories(self, place: str) -> int:
        """How many ACID directories are there."""
        path = self.history.path(place)
        return sum(name.name.startswith(("base_", "de")) for name in path.iterdir()) if path.is_dir() else 0

    def _cleaned(self, location: str, mark: int) -> None:
        """Nothing obsolete is left; the metastore forgets the aborted write ids up to the mark that are not there."""
        history = self.history
        place = next(name for name in history.places if str(history.path(name)) == location)
        path = history.path(place)
        known = tuple(number for number in history.table.aborted if number <= mark)
        if path.is_dir():
            listing = list_location(LocalFileSystem(), at(location))
            ids = ValidWriteIdList.parse(history.now.text)
            generation = Generation(history.generation)
            still = aborted_present(
                listing, ids, names=generation, up_to=mark, compacted=self._outputs.get(location, set())
            )
            self._one_base(path, mark, known)
        else:
            still = ()
        gone = set(known) - set(still)
        self.did["forgotten"] += len(gone)
        history.table.cleaned(place, gone)
        history.say(f"  {location} is cleaned up to {mark}, forgotten: {sorted(gone)}")

    def _one_base(self, path: Path, mark: int, aborted: tuple[int, ...]) -> None:
        text = f"db.t:{mark}:{MAX}::{','.join(map(str, aborted))}"
        try:
            state = directory_state(path, text, generation=self.history.generation)
        except ReaderError:
            return
        if any(delta.high > mark for delta in state.deltas):
            return  # what such a one covers is not obsolete by this mark: readers of less may need it
        left = [path.name for path in state.obsolete]
        assert left == [], f"{path} is cleaned up to {mark}, but {left} are left"


def on_own_time(patch: pytest.MonkeyPatch, clock: Callable[[], float]) -> None:
    """Let the jobs live by a clock of seconds that is added to the real one."""
    patch.setattr(AROUND, "clock", lambda: time.time() + clock())
