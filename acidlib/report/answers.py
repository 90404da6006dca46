"""The results of jobs that end with one document: the status, the queue, places, checks, an undo, and cancellations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import UnsetType

from acidlib.acid.names import Calls
from acidlib.arguments import said_in
from acidlib.model.requests import CompactionRequest
from acidlib.model.results import (
    Cancellation,
    CancellationsDocument,
    Check,
    ChecksDocument,
    Outcome,
    PlacesDocument,
    ProbeDocument,
    RequestsDocument,
    RunHead,
    ShownBlocker,
    ShownPlace,
    ShownRequest,
    Texts,
    TriedPromise,
    UndoDocument,
    UndoResult,
)
from acidlib.model.status import Finding, Level, StatusDocument, TableFigures
from acidlib.report.page import ReportPage, status_page
from acidlib.report.show import blockers_text, hive_text, show_text
from acidlib.report.text import (
    JsonEntry,
    cancellations_text,
    checks_text,
    places_text,
    promises_text,
    status_text,
    undo_text,
)
from acidlib.report.values import (
    EXIT_DONE,
    EXIT_HAS_ERRORS,
    EXIT_HAS_WARNINGS,
    EXIT_NOT_DONE,
    EXIT_SOME_FAILED,
    Result,
    plain,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Status(Result):
    """The state of all tables, and what is wrong with them.

    fail_on  the level of findings from which the status is not ok: "warning", "error" or "never"
    """

    head: RunHead
    document: StatusDocument
    fail_on: str

    listed, kind = "tables", TableFigures

    @property
    def level(self) -> Level:
        """The level of the worst finding: "ok", "warning" or "error"."""
        return self.document.level

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings, the worst first."""
        return self.document.findings

    @property
    def tables(self) -> Sequence[TableFigures]:
        """The figures of each table, the worst first."""
        return self.document.tables

    @property
    def notes(self) -> Texts:
        """Notes about what could not be looked at."""
        return self.document.notes

    @property
    def exit_status(self) -> int:
        """0 below the level of `fail_on`, 4 with warnings, 5 with errors."""
        if self.level is Level.OK or self.fail_on == "never" or self.level.rank < Level(self.fail_on).rank:
            return EXIT_DONE
        return EXIT_HAS_ERRORS if self.level is Level.ERROR else EXIT_HAS_WARNINGS

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield status_text(self.document, self.word)

    def page(self) -> ReportPage:
        """Return the page for a browser."""
        return said_in(status_page(self.head, self.document), self.word)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Requests(Result):
    """The queue: requests that wait, run, await cleaning or have ended, the newest first.

    rows        the requests as they are in the queue
    calls       whose names the states have
    now_ms      when it was looked, in epoch milliseconds
    of          how many requests there are, with those that were not asked for
    """

    document: RequestsDocument
    rows: tuple[CompactionRequest, ...]
    calls: Calls
    now_ms: int
    of: int

    listed, kind = "compactions", ShownRequest

    @property
    def requests(self) -> Sequence[ShownRequest]:
        """The requests."""
        return self.document.compactions

    @property
    def exit_status(self) -> int:
        """0."""
        return EXIT_DONE

    @property
    def blockers(self) -> Sequence[ShownBlocker] | None:
        """The transactions and locks that keep requests from being cleaned; None unless they were asked for."""
        return None if isinstance(self.document.blockers, UnsetType) else self.document.blockers

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people: the blockers alone if they were asked for."""
        if self.blockers is not None:
            yield blockers_text(self.blockers)
        else:
            yield show_text(self.rows, self.calls, self.now_ms, of=self.of)

    def hive_text(self) -> str:
        """Return the columns of Hive's SHOW COMPACTIONS, separated by tabs."""
        return hive_text(self.rows, self.calls)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Places(Result):
    """Places with the directories that are there, those that readers read, and why."""

    document: PlacesDocument
    left_out: Texts = ()
    """What `notes` has."""

    listed, kind = "places", ShownPlace

    @property
    def notes(self) -> Texts:
        """Sentences about places that are left out."""
        return said_in(self.left_out, self.word)

    @property
    def places(self) -> Sequence[ShownPlace]:
        """The places."""
        return self.document.places

    @property
    def exit_status(self) -> int:
        """3 where a place is damaged; else 0."""
        return EXIT_SOME_FAILED if self.document.totals.damaged else EXIT_DONE

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield places_text(self.places) or "nothing that is named is a table or partition to compact"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checks(Result):
    """The checks of a doctor: whether jobs can work here, and what to do where they cannot."""

    document: ChecksDocument

    listed, kind = "checks", Check

    @property
    def checks(self) -> Sequence[Check]:
        """The checks, in their order."""
        return self.document.checks

    @property
    def exit_status(self) -> int:
        """1 if a check fails; else 0."""
        return EXIT_NOT_DONE if self.document.totals.wrong else EXIT_DONE

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield checks_text(self.document)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Probe(Result):
    """The promises of a store, tried where tables lie."""

    document: ProbeDocument
    unrecorded: str = ""
    """Why no record of the probe was written; empty if one was."""

    listed, kind = "promises", TriedPromise

    @property
    def promises(self) -> Sequence[TriedPromise]:
        """The promises, in the order of their trials."""
        return self.document.promises

    @property
    def exit_status(self) -> int:
        """1 if a promise is broken or could not be tried, or no record was written; else 0."""
        return EXIT_DONE if self.document.passed and not self.unrecorded else EXIT_NOT_DONE

    @property
    def notes(self) -> Texts:
        """Why no record was written."""
        return (self.unrecorded,) if self.unrecorded else ()

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield promises_text(self.document)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Undo(Result):
    """The end of the undo of one compaction, or in a dry run its plan."""

    document: UndoDocument

    listed, kind = "undo", UndoResult

    @property
    def entries(self) -> Sequence[JsonEntry]:
        """The undo as JSON has it, as the only entry."""
        return [plain(self.place)]

    @property
    def place(self) -> UndoResult:
        """The result."""
        return self.document.undo

    @property
    def state(self) -> Outcome:
        """The end: "undone", "already undone", "planned", "refused", "failed" or "conflict"."""
        return self.place.state

    @property
    def exit_status(self) -> int:
        """0 where readers do not read the result, or would not; 1 where it stays."""
        return EXIT_DONE if self.state in (Outcome.PLANNED, Outcome.UNDONE, Outcome.WAS_UNDONE) else EXIT_NOT_DONE

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield undo_text(self.place)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cancellations(Result):
    """The end of the cancellation of each named request."""

    document: CancellationsDocument

    listed, kind = "cancellations", Cancellation

    @property
    def cancellations(self) -> Sequence[Cancellation]:
        """What became of each named request."""
        return self.document.cancellations

    @property
    def exit_status(self) -> int:
        """0 where all are withdrawn; 1 where the only one is not, 3 where some of several are not."""
        if all(request.state in (Outcome.PLANNED, Outcome.CANCELLED) for request in self.cancellations):
            return EXIT_DONE
        return EXIT_NOT_DONE if len(self.cancellations) == 1 else EXIT_SOME_FAILED

    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people."""
        yield cancellations_text(self.cancellations)
