"""The results of jobs that end with one document: the status, the queue, places, checks, an undo, and cancellations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from acidlib.model.names import Calls
from acidlib.model.requests import CompactionRequest
from acidlib.model.results import Outcome
from acidlib.planning.health import Level
from acidlib.report.page import Page, status_page
from acidlib.report.show import blockers_text, hive_text, show_text
from acidlib.report.text import Entry, cancellations_text, checks_text, places_text, status_text, undo_text
from acidlib.report.values import (
    EXIT_DONE,
    EXIT_HAS_ERRORS,
    EXIT_HAS_WARNINGS,
    EXIT_NOT_DONE,
    EXIT_SOME_FAILED,
    DocumentResult,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Status(DocumentResult):
    """The state of all tables: `entries` are the tables, `findings` what is wrong with them.

    fail_on  the level of findings from which the status is not ok: "warning", "error" or "never"
    """

    fail_on: str

    listed, shape = "tables", "tables"

    @property
    def level(self) -> str:
        """The level of the worst finding: "ok", "warning" or "error"."""
        level: str = self.to_dict()["level"]
        return level

    @property
    def findings(self) -> Sequence[Entry]:
        """The findings, the worst first."""
        findings: Sequence[Entry] = self.to_dict()["findings"]
        return findings

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about what could not be looked at."""
        return tuple(self.to_dict()["notes"])

    @property
    def exit_status(self) -> int:
        """0 below the level of `fail_on`, 4 with warnings, 5 with errors."""
        level = Level[self.level.upper()]
        if level is Level.OK or self.fail_on == "never" or level < Level[self.fail_on.upper()]:
            return EXIT_DONE
        return EXIT_HAS_ERRORS if level is Level.ERROR else EXIT_HAS_WARNINGS

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield status_text(self.to_dict())

    def page(self) -> Page:
        """Return the page for a browser."""
        return status_page(self.to_dict())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Requests(DocumentResult):
    """The queue: requests that wait, run, await cleaning or have ended, the newest first.

    rows        the requests as they are in the queue
    generation  whose names the states have
    now_ms      when it was looked, in epoch milliseconds
    of          how many requests there are, with those that were not asked for
    """

    rows: tuple[CompactionRequest, ...]
    generation: Calls
    now_ms: int
    of: int

    listed, shape = "compactions", "requests"

    @property
    def exit_status(self) -> int:
        """0."""
        return EXIT_DONE

    @property
    def blockers(self) -> Sequence[Entry] | None:
        """The transactions and locks that keep requests from being cleaned; None unless they were asked for."""
        blockers: Sequence[Entry] | None = self.to_dict().get("blockers")
        return blockers

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people: the blockers alone if they were asked for."""
        blockers = self.to_dict().get("blockers")
        if blockers is not None:
            yield blockers_text(blockers)
        else:
            yield show_text(self.rows, self.generation, self.now_ms, of=self.of)

    def hive_text(self) -> str:
        """Return the columns of Hive's SHOW COMPACTIONS, separated by tabs."""
        return hive_text(self.rows, self.generation)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Places(DocumentResult):
    """Places with the directories that are there, those that readers read, and why."""

    listed, shape = "places", "places"

    @property
    def exit_status(self) -> int:
        """3 where a place is damaged; else 0."""
        return EXIT_SOME_FAILED if self.to_dict()["totals"]["damaged"] else EXIT_DONE

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield places_text(self.entries) or "nothing that is named is a table or partition to compact"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checks(DocumentResult):
    """The checks of a doctor: whether jobs can work here, and what to do where they cannot."""

    listed, shape = "checks", "checks"

    @property
    def exit_status(self) -> int:
        """1 if a check fails; else 0."""
        return EXIT_NOT_DONE if self.to_dict()["totals"]["wrong"] else EXIT_DONE

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield checks_text(self.to_dict())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Undo(DocumentResult):
    """The end of the undo of one compaction, or in a dry run its plan."""

    listed, shape = "undo", "undo"

    @property
    def entries(self) -> Sequence[Entry]:
        """The undo, as the only entry."""
        return [self.to_dict()[self.listed]]

    @property
    def state(self) -> str:
        """The end: "undone", "already undone", "planned", "failed" or "conflict"."""
        state: str = self.entries[0]["state"]
        return state

    @property
    def exit_status(self) -> int:
        """1 where the result stays; else 0."""
        return EXIT_NOT_DONE if Outcome(self.state).is_bad else EXIT_DONE

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield undo_text(self.entries[0])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cancellations(DocumentResult):
    """The end of the cancellation of each named request."""

    listed, shape = "cancellations", "cancellations"

    @property
    def exit_status(self) -> int:
        """0 where all are withdrawn; 1 where the only one is not, 3 where some of several are not."""
        entries = self.entries
        if all(Outcome(entry["state"]) in (Outcome.PLANNED, Outcome.CANCELLED) for entry in entries):
            return EXIT_DONE
        return EXIT_NOT_DONE if len(entries) == 1 else EXIT_SOME_FAILED

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield cancellations_text(self.entries)
