"""Damaged copies of data files, and what may come of compacting them."""

from __future__ import annotations

import pickle
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzzing import limit_memory
from judges import merge

from integration.children import forked
from integration.harness import Jobs, Ran, tree

_SECONDS = 60
_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One way to spoil a file: cut it to a length, or replace bytes."""

    cut: int | None
    flips: tuple[tuple[int, int], ...]

    def apply(self, data: bytes) -> bytes:
        spoilt = bytearray(data[: self.cut])
        for at, mask in self.flips:
            spoilt[at] ^= mask
        return bytes(spoilt)

    def __str__(self) -> str:
        return f"cut to {self.cut}" if self.cut is not None else f"flipped {self.flips}"


def damages(size: int, count: int, seed: str) -> Iterator[Damage]:
    """Cuts, flips of one bit, of a byte, and of several bytes anywhere or in the tail, always the same for a seed."""
    rng = random.Random(seed)
    for number in range(count):
        kind = number % 5
        if kind == 0:
            yield Damage(cut=rng.randrange(size), flips=())
        elif kind in (1, 2):
            yield Damage(cut=None, flips=((rng.randrange(size), 1 << rng.randrange(8)),))
        elif kind == 3:
            at = rng.randrange(max(0, size - 300), size)
            yield Damage(cut=None, flips=((at, rng.randrange(1, 256)),))
        else:
            places = sorted(rng.sample(range(size), 3))
            yield Damage(cut=None, flips=tuple((at, rng.randrange(1, 256)) for at in places))


def in_child(work: Callable[[], Any], answer: Path) -> Any:
    """The value of something that may crash, hang or eat memory; a text that begins with `!` when it did, or raised."""

    def run() -> None:
        signal.alarm(_SECONDS)
        limit_memory(_BYTES)
        try:
            found = work()
        except Exception as error:
            found = f"!{type(error).__name__}: {error}"
        answer.write_bytes(pickle.dumps(found))

    answer.unlink(missing_ok=True)
    status = forked(run)
    return pickle.loads(answer.read_bytes()) if status == 0 else f"!ended by {status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one damage: `wrong` is None when it is allowed."""

    outcome: str
    wrong: str | None = None


class Table:
    """A whole table, spoilt copies of which are compacted and judged."""

    def __init__(self, jobs: Jobs, place: Path, write_ids: str, generation: int) -> None:
        self._jobs, self._place, self._write_ids, self._generation = jobs, place, write_ids, generation
        self._answer = place.parent / "answer"
        self._rows = self._read(place)
        assert isinstance(self._rows, list)
        assert self._rows
        # in this process: what is compiled here, no child has to load again
        whole = shutil.copytree(place, place.parent / "whole" / place.name)
        assert self._compact(whole).states == ["ready for cleaning"]

    def size(self, file: str) -> int:
        return (self._place / file).stat().st_size

    def _read(self, place: Path) -> Any:
        return in_child(lambda: merge.read(place, self._write_ids, generation=self._generation), self._answer)

    def _compact(self, place: Path) -> Ran:
        stated = ("--write-ids", self._write_ids) if self._write_ids else ("--all-committed",)
        return self._jobs("major_compact", "--location", place, *stated, queue_url="sqlite://")

    def judge(self, file: str, damage: Damage) -> Verdict:
        """Compact a spoilt copy and say whether what came of it is allowed."""
        spoilt = self._place.parent / "spoilt" / self._place.name
        shutil.rmtree(spoilt, ignore_errors=True)
        shutil.copytree(self._place, spoilt)
        (spoilt / file).write_bytes(damage.apply((self._place / file).read_bytes()))
        before = tree(spoilt)
        ran = in_child(lambda: self._compact(spoilt), self._answer)
        if isinstance(ran, str):
            return Verdict(outcome="crash", wrong=ran)
        if not ran.begun:
            return _untouched(before, spoilt, ran.told, "not begun", ran.status == 1)
        (entry,) = ran.compactions
        if entry["state"] != "ready for cleaning":
            status_is_right = ran.status == (entry["state"] == "failed")
            return _untouched(before, spoilt, entry["reason"], entry["state"], status_is_right)
        return self._compare(spoilt, entry)

    def _compare(self, spoilt: Path, entry: dict[str, Any]) -> Verdict:
        found = self._read(spoilt)
        if found == self._rows:
            return Verdict(outcome="every value right")
        for name in entry["output_directories"]:
            shutil.rmtree(spoilt / name)
        shown = self._read(spoilt)
        if found == shown or (isinstance(found, str) and isinstance(shown, str)):
            return Verdict(outcome="what pyorc shows of the damaged file")
        return Verdict(outcome="wrong", wrong=f"result {str(found)[:300]} | damaged input {str(shown)[:300]}")


def _untouched(before: dict, place: Path, reason: str, outcome: str, status_is_right: bool) -> Verdict:
    problems = []
    after = tree(place)
    changed = [name for name in before.keys() | after.keys() if not _alike(before.get(name), after.get(name))]
    if changed:
        problems.append(f"changed {changed}")
    if "unexpected" in reason or "Cannot" not in reason:
        problems.append(f"said {reason}")
    if not status_is_right:
        problems.append("wrong exit status")
    return Verdict(outcome=outcome, wrong="; ".join(problems) or None)


def _alike(one: tuple | None, other: tuple | None) -> bool:
    """The same, but for the times of directories, in which a claim and a staging directory came and went."""
    if one is None or other is None:
        return False
    return one[:2] == other[:2] and (one[2] == other[2] or one[0] == "directory")
