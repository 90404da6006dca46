"""How far a run of compactions is: what is done, in flight and wrong, and how much was read for it."""

from __future__ import annotations

from collections.abc import Callable

from acidlib.engine.services import Progress
from acidlib.report.results import CompactionResult, Outcome
from acidlib.report.text import human_bytes


class RunProgress:
    """Shows the figures of a run as its results come.

    in_flight  how many places are under way
    """

    def __init__(self, progress: Progress, in_flight: Callable[[], int]) -> None:
        self._progress = progress
        self._in_flight = in_flight
        self._done = self._bad = self._bytes = 0

    def add(self, result: CompactionResult) -> None:
        """One more result."""
        self._done += 1
        self._bad += result.state in (Outcome.FAILED, Outcome.CONFLICT)
        self._bytes += (result.total("bytes_copied") or 0) + (result.total("bytes_rewritten") or 0)
        self._progress.note(f"{result.name}: {result.state.value}, {result.reason}")
        self.show()

    def show(self) -> None:
        """Show the figures as they are now."""
        parts = [f"{self._in_flight():,} in flight", f"{self._bad:,} failed" if self._bad else ""]
        parts.append(human_bytes(self._bytes) if self._bytes else "")
        self._progress.advance(self._done, detail=", ".join(part for part in parts if part))
