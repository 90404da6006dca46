"""Where tables, requests and the right to work on a place come from: one interface, three kinds.

Without a metastore (`alone`), with one of Hive 3.1 (`hive3`) and with one of Hive 4 (`hive4`). The worker, the
initiator and the jobs know only what stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from acidlib.engine.attempts import Attempts
from acidlib.engine.selection import PassedOver, Selection
from acidlib.engine.target import ListedPlace, Target
from acidlib.errors import AcidError, RefusedError
from acidlib.model.listing import Listing
from acidlib.model.location import NOWHERE
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.txnids import ValidTxnList
from acidlib.planning.inputs import Publication
from acidlib.report.results import Outcome, Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The places that a job is about, those among what is named that it leaves alone, and notes about the rest."""

    targets: tuple[Target, ...]
    passed_over: tuple[PassedOver, ...] = ()
    notes: tuple[str, ...] = ()


def nowhere(request: CompactionRequest) -> Target:
    """A target of which only the names are known yet."""
    return Target(database=request.database, table=request.table, partition=request.partition, location=NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A request that nobody works on yet, and what it is about; `error` where that cannot be found out."""

    request: CompactionRequest
    target: Target
    error: AcidError | None = None

    @classmethod
    def at(cls, request: CompactionRequest, place: Target | AcidError) -> Waiting:
        """A request for a place, or for one that cannot be found for a reason."""
        try:
            request.require_understood("compact")
        except RefusedError as error:
            place = error
        if isinstance(place, AcidError):
            return cls(request=request, target=nowhere(request), error=place)
        return cls(request=request, target=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What the initiator wants compacted, and the figures by which it decided."""

    place: ListedPlace
    kind: CompactionType
    figures: RequestFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A request that is ours; `is_new` where this run has queued it for itself."""

    request: CompactionRequest
    target: Target
    is_new: bool = False


class HeldPlace(Protocol):
    """The place of a request that is ours, which no other compactor has meanwhile."""

    @property
    def target(self) -> Target:
        """What is held, understood for good: what was written after it was taken is not committed."""

    @property
    def request_id(self) -> int:
        """Of the request that it is held for."""

    def unverified(self, listing: Listing) -> CompactionRequest | None:
        """The request for which nothing may be done here, see `planning.verification`; None where there is none.

        Who asks and goes on all the same releases the place, with what he publishes or has cleaned.
        """

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note, before a result is compared, that it is not verified, whoever dies.

        directories  what readers see of it before it is verified: from now on it counts only once it is
        """

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Note up to which write id this goes, before the first byte is written. ConflictError: not ours any more.

        inputs  a digest of what is read, by which the result may be taken back later; see `planning.undo`
        """

    def awaited_marks(self) -> tuple[int, ...]:
        """Return up to which write ids requests of this place, but for one that is released here, await cleaning."""

    def only_clean(self, high_water_mark: int) -> None:
        """Have what is obsolete cleaned, where there is nothing to merge."""

    def publishing(self, publication: Publication) -> AbstractContextManager[None]:
        """Around the moments in which results become visible. ConflictError when the place cannot be had for them."""

    def assert_mine(self, high_water_mark: int) -> None:
        """Right before publishing: raises ConflictError unless all is still ours that `published` does not ask for."""

    def transactions_now(self) -> ValidTxnList:
        """The transactions as they are now."""

    def published(self, directories: tuple[str, ...]) -> None:
        """The results stand under their names: make them count, and have what they replace cleaned.

        ConflictError when they can never count, UnknownOutcomeError when it is not known whether they do.
        """

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Once these results count: have the metastore say what readers find there; None where there is nothing to say.

        rows  in them, where that is known. Whatever goes wrong is told by what is returned.
        """


class Hold(Protocol):
    """One request that is ours; `begin` takes its place, `end` or `abandon` tells the queue, `close` lets go."""

    def begin(self) -> HeldPlace:
        """Take the place. ConflictError while another works there."""

    def assert_held(self) -> None:
        """Raises ConflictError when what was taken is not ours any more; nothing to ask before that."""

    def end(self, outcome: Outcome, reason: str, *, named: bool, note: str | None) -> str | None:
        """Tell the queue how it ended; a note where more came of it than that.

        note  what it was not carried out for, to be kept; see `attempts`
        """

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request back, for the run is interrupted; one that this run has queued for itself is withdrawn.

        may_be_visible  something of its result: then it stays, for whoever finds that
        """

    def close(self) -> None:
        """Give back what was taken, also by a `begin` that failed half-way. May be called again, and tries again."""


class Backend(Protocol):
    """One run's source of tables and requests."""

    def recover(self) -> list[str]:
        """Give back what dead runs left; a note about each kind."""

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """The places that are named (or, for the initiator, automatic ones).

        RefusedError when what is named does not exist.
        """

    def waiting(self, kind: CompactionType) -> list[Waiting]:
        """The requests to choose from, oldest first."""

    @property
    def in_order(self) -> bool:
        """Whether requests can only be taken in the order of the queue, whatever is asked for (Hive 4)."""

    def cautions(self) -> list[str]:
        """What a person who has the queue drained should know."""

    def take(self, waiting: Waiting) -> Taken | None:
        """Take this request; None when it is not to be had. In an ordered queue it may be another one."""

    @property
    def can_rebalance(self) -> bool:
        """Whether there is the lock that keeps out who changes rows (Hive 4)."""

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> Taken:
        """Queue a request for what is named and take it at once. ConflictError when another one is in the way.

        buckets  into how many it is rebalanced, where that is stated
        """

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """End a request that cannot be understood."""

    def hold(self, taken: Taken) -> Hold:
        """The hold by which a request that is ours is carried out."""

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """What the queue and its history know of these places now."""

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Why a place that is over its thresholds is not queued, after failures; None when it may be."""

    def unverified(self, place: ListedPlace) -> CompactionRequest | None:
        """The request for which nothing may be done at a place that is only looked at; see `HeldPlace.unverified`."""

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs at a place. ConflictError while another works there."""

    def is_dropped(self, target: Target) -> bool:
        """Whether a place that was selected has been dropped since, which explains what went wrong there."""

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue what the initiator decided: the id of each, or why it is not queued."""

    def purge_history(self) -> None:
        """Forget what settings do not want kept."""
