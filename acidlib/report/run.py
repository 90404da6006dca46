"""The results of runs: a frozen value for each kind of job, gathered entry by entry in little memory.

Totals, text and page are made of the entries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from acidlib.arguments import Word, option, said_in
from acidlib.model.results import (
    COMPACTION_OUTCOMES,
    DECISION_OUTCOMES,
    FIGURES,
    CleaningResult,
    CleaningsDocument,
    CleaningTotals,
    CompactionResult,
    CompactionsDocument,
    CompactionTotals,
    DecisionsDocument,
    DecisionTotals,
    InitiatorResult,
    Outcome,
    RunHead,
    Texts,
)
from acidlib.model.tables import TableRef
from acidlib.report.page import CleanerSummary, CompactionsSummary, InitiatorSummary, ReportPage
from acidlib.report.place_table import (
    GONE,
    PLANNED,
    WOULD_GO,
    First,
    cleaning_row,
    grouped,
    place_paragraphs,
    planned_row,
)
from acidlib.report.text import (
    JsonEntry,
    by_state,
    cleaning_lines,
    compaction_lines,
    decision_lines,
    json_text,
    wrapped,
)
from acidlib.report.values import (
    EXIT_DONE,
    EXIT_NOT_DONE,
    EXIT_SOME_FAILED,
    Packed,
    Packer,
    Result,
    plain,
)
from acidlib.wording import human_bytes, plural

_BLOCKS_SHOWN = 20
_FEW = 3
"""So many places each have a block, which fill a screen; more of them a line."""
_NOT_DONE = (Outcome.REFUSED, Outcome.FAILED, Outcome.CONFLICT, Outcome.SKIPPED, Outcome.ALREADY_COMPACT)
_PIECE = 1 << 15
"""Characters of a document that are written at once, at least."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over entries: their number by outcome, and their figures by name."""

    states: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """The number of entries."""
        return self.states.total()


def exit_status_of(sums: Sums) -> int:
    """Return 3 where an entry failed or is in conflict; else 0."""
    return EXIT_SOME_FAILED if sums.states["failed"] or sums.states["conflict"] else EXIT_DONE


E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult(Result, Generic[E]):
    """The result of a run that gathers an entry for each place.

    Each kind of job sums entries for its totals and its exit status, and has a text for an entry.
    """

    head: RunHead
    sums: Sums = field(compare=False)
    dry_run: bool = False

    nothing_to_do: ClassVar[str]
    """The whole text where there is no entry."""
    summary: ClassVar[type[CompactionsSummary | InitiatorSummary | CleanerSummary]]
    """The sums over entries of which a page is made."""

    @classmethod
    @abstractmethod
    def count(cls, entry: E, sums: Sums) -> None:
        """Add an entry to the sums of its kind."""

    @classmethod
    @abstractmethod
    def document_of(cls, places: Packed[E], sums: Sums, notes: Texts) -> Any:
        """Return the document after its head."""

    @classmethod
    def when_stopped(cls, sums: Sums) -> str:
        """Return the figures of a run that was stopped, as a sentence."""
        return by_state(sums.states)

    @classmethod
    def notes_of(cls, sums: Sums) -> Texts:
        """Return notes about places that only a person can help."""
        del sums
        return ()

    @abstractmethod
    def _show(self, entry: E, shown: First) -> None:
        """Keep what the text has of an entry."""

    def _entries(self) -> Iterator[E]:
        """Yield the entries as the text has them."""
        return iter(self.places)

    def _table(self) -> Iterator[str] | None:
        """Return the paragraphs of a table of many places, if they have one."""
        return None

    def _gather(self, shown: First, *, many: bool) -> None:
        """Keep what the text has of all entries.

        many  a reason that places share is said once
        """
        del many
        for entry in self._entries():
            self._show(entry, shown)

    @abstractmethod
    def _text(self, shown: First) -> Iterator[str]:
        """Yield the text for people, piece by piece."""

    @property
    def nothing(self) -> str:
        """What is said where no place was worked on."""
        return "" if self.sums.count else self.nothing_to_do

    @property
    def places(self) -> Packed[E]:
        """The results of the places, in the order in which they ended; of a plan, in that of their turns."""
        places: Packed[E] = getattr(self.document, self.listed)
        return places

    @property
    def entries(self) -> Packed[JsonEntry]:
        """`places` as JSON has them."""
        return self.places.entries

    @property
    def notes(self) -> Texts:
        """Sentences about the run as a whole, or about places that were passed over."""
        notes: Texts = self.document.notes
        return notes

    @property
    def states(self) -> Mapping[str, int]:
        """The number of entries by outcome."""
        return dict(self.sums.states)

    @property
    def exit_status(self) -> int:
        """3 where an entry failed and may succeed the next time, or is in conflict; else 0."""
        return exit_status_of(self.sums)

    def _around(self, entries: Sequence[JsonEntry]) -> dict[str, Any]:
        """Return the document with these entries."""
        rest = {"totals": plain(self.document.totals), "notes": list(self.notes)}
        return {**plain(self.head), self.listed: entries, **rest}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of the job (docs/json.md)."""
        return self._around(list(self.entries))

    def json_pieces(self) -> Iterator[str]:
        """Yield the JSON document, piece by piece, as `json_text` writes it."""
        whole = json_text(self._around([]))
        before, empty, after = whole.partition(f'\n  "{self.listed}": []')
        if not self.entries:
            yield whole
            return
        piece, separator = before + empty.removesuffix("]"), ""
        for entry in self.entries:
            text = json_text({"entries": [entry]})
            piece += separator + text[text.index("\n    {") : text.rindex("\n  ]")]
            separator = ","
            if len(piece) >= _PIECE:
                yield piece
                piece = ""
        yield f"{piece}\n  ]{after}"

    def text_pieces(self, *, details: bool = False) -> Iterator[str]:
        """Yield the text for people, piece by piece.

        details  with a block for each place, where many places have a table else
        """
        if self.nothing:
            yield "\n".join(wrapped(self.nothing, "", "    "))
            return
        many = not details and len(self.places) > _FEW
        table = self._table() if many else None
        if table is not None:
            yield "\n\n".join(table)
            return
        shown = First(_BLOCKS_SHOWN)
        self._gather(shown, many=many)
        yield from self._text(shown)

    def page(self) -> ReportPage:
        """Return the page for a browser."""
        summary: Any = self.summary()
        for entry in self.places:
            summary.add(entry)
        page: ReportPage = summary.page(self.head, self.document)
        return said_in(page, self.word)


Ran = TypeVar("Ran", bound=RunResult[Any])


class RunReport(Generic[Ran]):
    """Gathers the entries of a run for a result of one kind."""

    def __init__(self, kind: type[Ran], *, word: Word = option) -> None:
        self._kind = kind
        self._word = word
        self._packer: Packer[Any] = Packer(kind.kind, word=word)
        self.sums = Sums()

    def add(self, entry: Any) -> None:
        """Add an entry."""
        self._packer.add(entry)
        self._kind.count(entry, self.sums)

    def when_stopped(self) -> str:
        """Return the figures of a run that was stopped, as a sentence."""
        return self._kind.when_stopped(self.sums)

    def result(self, head: RunHead, notes: Sequence[str], **more: Any) -> Ran:
        """Return the result when all is done."""
        sums = Sums(self.sums.states.copy(), self.sums.figures.copy())
        document = self._kind.document_of(self._packer.packed(), sums, (*notes, *self._kind.notes_of(sums)))
        return self._kind(head=head, document=document, sums=sums, word=self._word, **said_in(more, self._word))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Compactions(RunResult[CompactionResult]):
    """The result of a run of compactions: a block of text for each place.

    A dry run also lists per bucket file which stripes would be copied and rewritten, how many bytes, and why; one of
    many places has a line for each, and the blocks only with `details`. A run of many says once why several were not
    compacted. Of many places with the same outcome only the first are shown, and the others counted; each failed place
    is shown that has a reason of its own.
    """

    document: CompactionsDocument
    is_named: bool = False
    """Whether the table or location was named; else the run drained the queue."""
    rest: str = ""
    """What is left to do, as one of the notes says it; empty if the run has done all that it found."""

    nothing_to_do = "Nothing to compact."
    summary, listed, kind = CompactionsSummary, "compactions", CompactionResult

    @classmethod
    def count(cls, entry: CompactionResult, sums: Sums) -> None:
        sums.states[entry.state.value] += 1
        sums.figures["with files"] += entry.files is not None
        sums.figures["unverified"] += entry.unverified
        for figure in FIGURES:
            sums.figures[figure] += getattr(entry, figure) or 0

    @classmethod
    def document_of(cls, places: Packed[CompactionResult], sums: Sums, notes: Texts) -> CompactionsDocument:
        states = {outcome: sums.states[outcome] for outcome in COMPACTION_OUTCOMES}
        figures: dict[str, Any] = {name: sums.figures[name] for name in FIGURES}
        totals = CompactionTotals(compactions=sums.count, states=states, left=sums.figures["left"], **figures)
        return CompactionsDocument(compactions=places, totals=totals, notes=notes)

    @property
    def totals(self) -> CompactionTotals:
        """The number of compactions, of each state, and sums of their figures."""
        return self.document.totals

    def _entries(self) -> Iterator[CompactionResult]:
        """Yield the entries: why statistics are not updated is said once for the partitions of a table."""
        first: dict[tuple[TableRef, str], str] = {}
        for entry in self.places:
            statistics, name = entry.statistics, str(entry.ref)
            if statistics is not None and statistics.reason is not None:
                at = first.setdefault((entry.ref.whole_table, statistics.reason.replace(name, "")), name)
                if at != name:
                    yield replace(entry, statistics=replace(statistics, reason=f"as at {at}"))
                    continue
            yield entry

    @property
    def _untold(self) -> Texts:
        return tuple(note for note in self.notes if note != self.rest)

    def _show(self, entry: CompactionResult, shown: First) -> None:
        is_bad = entry.state.is_bad or entry.unverified
        shown.add(None if is_bad else entry.state, lambda: "\n".join(compaction_lines(entry, dry_run=self.dry_run)))

    def _gather(self, shown: First, *, many: bool) -> None:
        rows = (planned_row(entry) for entry in self.places if entry.state in _NOT_DONE and not entry.unverified)
        groups = grouped(rows) if many else {}
        for entry in self._entries():
            row = planned_row(entry)
            group = groups.get((row.state, row.shared))
            if group is None or group.count == 1 or entry.unverified:
                self._show(entry, shown)
            elif row.name == group.names[0]:
                shown.add(None, group.text)

    def _text(self, shown: First) -> Iterator[str]:
        yield from _with_summary(self._summary(), shown, self.word)

    def _table(self) -> Iterator[str] | None:
        if not self.dry_run:
            return None
        return place_paragraphs(self._summary(), PLANNED, map(planned_row, self.places), self.word)

    def _summary(self) -> str:
        totals = self.totals
        text = f"{plural(totals.compactions, 'compaction')}: {by_state(totals.states)}"
        if self.sums.figures["with files"]:
            copied, rewritten = ("to copy", "to rewrite") if self.dry_run else ("copied", "rewritten")
            text += (
                f"; {plural(totals.rows_in, 'row')} in, {totals.rows_deleted:,} deleted,"
                f" {totals.rows_aborted:,} aborted, {totals.rows_out:,} out;"
                f" {human_bytes(totals.bytes_copied)} {copied},"
                f" {human_bytes(totals.bytes_rewritten)} {rewritten}"
            )
        if self.rest:
            text += f"; {self.rest}"
        return f"Dry run, nothing was changed. {text}" if self.dry_run else text

    @property
    def nothing(self) -> str:
        """What is said where no place was worked on."""
        if self.sums.count:
            return ""
        return f"Nothing was compacted; {self.rest}" if self.rest else self.nothing_to_do

    @property
    def exit_status(self) -> int:
        """0 where every place is done, already compact, refused or skipped; 1 when the only named table failed or is
        in conflict; 3 when some of several did, or a result is unverified.
        """
        if self.sums.figures["unverified"]:
            return EXIT_SOME_FAILED
        status = exit_status_of(self.sums)
        return EXIT_NOT_DONE if status != EXIT_DONE and self.is_named and self.sums.count == 1 else status

    @property
    def bytes_copied(self) -> int:
        """Bytes of stripes that were copied as they are; of a plan, those that would be."""
        return self.sums.figures["bytes_copied"]

    @property
    def bytes_rewritten(self) -> int:
        """Bytes of stripes that were decoded and written anew; of a plan, those that would be."""
        return self.sums.figures["bytes_rewritten"]

    @property
    def stripes_copied(self) -> int:
        """The number of stripes that were copied."""
        return self.sums.figures["stripes_copied"]

    @property
    def stripes_rewritten(self) -> int:
        """The number of stripes that were rewritten."""
        return self.sums.figures["stripes_rewritten"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Compactions):
    """The plan of compactions: the places, why each is compacted or not, and which stripes are copied or rewritten.

    Nothing was changed. `places` has one for each place; its `files` has the treatment of each stripe.
    """

    dry_run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Decisions(RunResult[InitiatorResult]):
    """The result of an initiator: a table of the places that it judged, with reason and threshold below each.

    Of many places with the same decision only the first are listed, and the others counted; each failed one is listed.
    """

    document: DecisionsDocument

    nothing_to_do = "Nothing to look at: no table was found."
    summary, listed, kind = InitiatorSummary, "decisions", InitiatorResult

    @classmethod
    def count(cls, entry: InitiatorResult, sums: Sums) -> None:
        sums.states[entry.outcome.value] += 1
        sums.figures["queued"] += entry.queued is not None
        if entry.outcome is Outcome.DUE and entry.type is not None:
            sums.figures[entry.type] += 1

    @classmethod
    def document_of(cls, places: Packed[InitiatorResult], sums: Sums, notes: Texts) -> DecisionsDocument:
        totals = DecisionTotals(
            looked_at=sums.count,
            queued=sums.figures["queued"],
            refused=sums.states["refused"],
            held_back=sums.states["held back"],
            failed=sums.states["failed"],
        )
        return DecisionsDocument(decisions=places, totals=totals, notes=notes)

    @property
    def totals(self) -> DecisionTotals:
        """The number of places that were looked at, queued, refused, held back, and that failed."""
        return self.document.totals

    def _show(self, entry: InitiatorResult, shown: First) -> None:
        outcome = entry.outcome
        kind = f"for a {entry.type} compaction" if outcome is Outcome.DUE else outcome
        shown.add(None if outcome is Outcome.FAILED else kind, lambda: entry)

    def _text(self, shown: First) -> Iterator[str]:
        due = by_state({kind: self.sums.figures[kind] for kind in ("major", "minor")}) or "none to compact"
        counts = [
            f"{self.sums.states[outcome.value]:,} {outcome.value}"
            for outcome in DECISION_OUTCOMES
            if outcome is Outcome.LEFT_ALONE or (outcome is not Outcome.DUE and self.sums.states[outcome.value])
        ]
        looked_at, queued = plural(self.sums.count, "place"), plural(self.sums.figures["queued"], "request")
        summary = f"{looked_at} looked at: {', '.join([due, *counts])}; {queued} queued"
        yield "\n".join([*decision_lines(shown.items()), *shown.others(self.word), "", *wrapped(summary, "", "    ")])

    @classmethod
    def when_stopped(cls, sums: Sums) -> str:
        """Return the figures of a run that was stopped, as a sentence."""
        looked_at, queued = plural(sums.count, "place"), plural(sums.figures["queued"], "request")
        return f"{looked_at} looked at, {queued} queued; the next run looks at the others"

    @classmethod
    def notes_of(cls, sums: Sums) -> tuple[str, ...]:
        """Return a note about places that only their owner can help."""
        refused = sums.states["refused"]
        if not refused:
            return ()
        they_are, each = ("it is", "") if refused == 1 else ("they are", " for each")
        return (f"{plural(refused, 'place')} cannot be compacted as {they_are}: status has a finding{each}",)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cleanings(RunResult[CleaningResult]):
    """The result of a cleaner: a block per request, or per partition with litter, with the paths that went and stay.

    Many have a line each, and blocks only with `details`; those that all wait for a retention have one sentence. Of
    many with the same outcome only the first are shown, and the others counted; each failed one is shown.
    """

    document: CleaningsDocument

    nothing_to_do = "Nothing to clean."
    summary, listed, kind = CleanerSummary, "cleanings", CleaningResult

    @classmethod
    def count(cls, entry: CleaningResult, sums: Sums) -> None:
        sums.states[entry.state.value] += 1
        sums.figures["bytes_removed"] += entry.bytes_removed
        sums.figures["bytes_moved"] += entry.bytes_moved
        for path in entry.removed:
            sums.figures["paths_removed" if path.moved_to is None else "paths_moved"] += 1

    @classmethod
    def document_of(cls, places: Packed[CleaningResult], sums: Sums, notes: Texts) -> CleaningsDocument:
        totals = CleaningTotals(
            requests=sums.count,
            succeeded=sums.states["succeeded"],
            bytes_removed=sums.figures["bytes_removed"],
            bytes_moved=sums.figures["bytes_moved"],
        )
        return CleaningsDocument(cleanings=places, totals=totals, notes=notes)

    @property
    def totals(self) -> CleaningTotals:
        """The number of requests, and of those that ended; bytes that were removed and moved."""
        return self.document.totals

    def _show(self, entry: CleaningResult, shown: First) -> None:
        shown.add(
            None if entry.state.is_bad else entry.state,
            lambda: "\n".join(cleaning_lines(entry, dry_run=self.dry_run)),
        )

    def _text(self, shown: First) -> Iterator[str]:
        yield from _with_summary(self._summary(), shown, self.word)

    def _table(self) -> Iterator[str]:
        head = WOULD_GO if self.dry_run else GONE
        return place_paragraphs(self._summary(), head, map(cleaning_row, self.places), self.word)

    def _summary(self) -> str:
        sums = self.sums.figures
        paths, size = plural(sums["paths_removed"], "path"), human_bytes(sums["bytes_removed"])
        text = f"{plural(self.sums.count, 'place')}: {by_state(self.sums.states)}; {paths}, {size}"
        text = f"Dry run, nothing was changed. {text} would go" if self.dry_run else f"{text} removed"
        if sums["paths_moved"]:
            moved, size = plural(sums["paths_moved"], "path"), human_bytes(sums["bytes_moved"])
            text += f"; {moved}, {size} moved to the trash"
        return text

    @classmethod
    def when_stopped(cls, sums: Sums) -> str:
        """Return the outcomes of the requests of a run that was stopped, as a sentence."""
        return f"of the requests {by_state(sums.states) or 'none has ended'}; the next run goes on with the others"


def _with_summary(summary: str, shown: First, word: Word) -> Iterator[str]:
    """Yield blocks with an empty line between them, and their summary: a terminal shows the end."""
    text = "\n".join(wrapped(summary, "", "    "))
    for number, part in enumerate([*shown.items(), *shown.others(word), text]):
        yield f"\n\n{part}" if number else part
