"""What a run works with, as interfaces: tables, requests, the right to work on a place, and cleaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from acidlib.errors import AcidError, RefusedError
from acidlib.model.listing import Listing
from acidlib.model.location import NOWHERE, Location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.snapshots import ValidTxnList
from acidlib.planning.clean import CleanPlan, DueCleaning
from acidlib.planning.inputs import Publication
from acidlib.report.results import CleaningResult, Outcome, Statistics
from acidlib.service.attempts import Attempts
from acidlib.service.places import ListedPlace, PassedOver, Selection, Target
from acidlib.service.removals import Pace

# --- backend ----------------------------------------------------------------------------------------------------------
# Where tables, requests and the right to work on a place come from: one interface, three kinds.
#
# Without a metastore (`alone`), with one of Hive 3.1 (`hive3`) and with one of Hive 4 (`hive4`). The worker, the
# initiator and the jobs know only what stands here.


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The places that a job is about, those among what is named that it leaves alone, and notes about the rest."""

    targets: tuple[Target, ...]
    passed_over: tuple[PassedOver, ...] = ()
    notes: tuple[str, ...] = ()


def nowhere(request: CompactionRequest) -> Target:
    """A target of which only the names are known yet."""
    return Target(ref=request.ref, location=NOWHERE)


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
        """The request for which nothing may be done here, see `planning.results`; None where there is none.

        Who asks and goes on all the same releases the place, with what he publishes or has cleaned.
        """

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note, before a result is compared, that it is not verified, whoever dies.

        directories  what readers see of it before it is verified: from now on it counts only once it is
        """

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Note up to which write id this goes, before the first byte is written. ConflictError: not ours any more.

        inputs  a digest of what is read, by which the result may be taken back later; see `planning.results`
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


# --- cleaning ---------------------------------------------------------------------------------------------------------
# What the cleaner works on: where its requests come from, what proves that nobody reads, and where requests end.
#
# There are three kinds: without a metastore (`alone`), with one of Hive 3.1 (`hive3`) and with one of Hive 4 (`hive4`).

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerOptions:
    """How the cleaner is to be run.

    retention_seconds  how long to leave what was made obsolete; None = as settings say
    location           only there or below (without a metastore)
    selection          only these tables and partitions (with a metastore)
    force              also where Hive's own cleaner is on
    dry_run            say what would be removed, and change nothing
    trash              move aside instead of removing
    """

    retention_seconds: float | None = None
    location: Location | None = None
    selection: Selection = field(default_factory=Selection)
    force: bool = False
    dry_run: bool = False
    trash: bool = False

    @property
    def names_places(self) -> bool:
        """Whether a place is named; else the queue is drained."""
        return self.location is not None or bool(self.selection.tables)


class ReadyRequests(Protocol):
    """Where requests that are ready for cleaning come from."""

    def recover(self) -> list[str]:
        """Finish and give back what dead runs left; a note about each kind."""

    def ready(self) -> list[CompactionRequest]:
        """The requests that are ready for cleaning and selected, no later result of a place before an earlier one."""

    def waits(self, request: CompactionRequest) -> str | None:
        """Why a request cannot be cleaned yet, or not by us, as far as that is known without a look at its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRequest:
    """A request, its place, which is claimed (but for a dry run), and what was listed there since."""

    request: CompactionRequest
    target: Target
    listing: Listing


class Proof(Protocol):
    """What proves that nobody reads any more what a request made obsolete."""

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """The request as the queue has it now, for its table may have been renamed, and its place, understood as the
        cleaning has to; None when the table or partition does not exist any more.

        anew  it was not found where it was said to be
        NotOursError where it is left to Hive's own cleaner, ConflictError when another cleaner has ended the request.
        """

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """What the queue and its history know of each of these places, as far as `plan` needs it; read together."""

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """What may go now, and what has to wait. What a later run has to know of this look at the place is noted in the
        queue, except in a dry run.

        ReplacedError when what the request published is not there any more.
        """


class History(Protocol):
    """Where requests end."""

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End these requests as succeeded, for nothing obsolete is left in their listings; or why one has to stay."""

    def dropped(self, request: CompactionRequest) -> None:
        """End the request, for its place or result does not exist any more; what was aborted is not forgotten."""


class Further(Protocol):
    """What is to be cleaned after rolled back transactions, of which no request says so (Hive 4)."""

    def due(self) -> list[list[DueCleaning]]:
        """Return what is due now, by table: the places of one table are cleaned one after the other."""

    def clean(self, due: DueCleaning, pace: Pace) -> CleaningResult:
        """Return what came of one, whatever goes wrong there."""

    def end_retries(self) -> None:
        """End what others queued for the same and is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """What one run of the cleaner works on.

    must_exist       somebody else says that each place exists: one that is missing or empty is an error
    note_failure     has a failed cleaning tried again later, or gives the request up; None: nothing can be noted
    check            right before something is removed: raises ConflictError when another works there; None: the claim
                     on the place says that already
    unmoved          right before something is removed or called cleaned: raises ConflictError when the table is another
                     one than was looked at, or lies elsewhere
    without_readers  around the completion of a publication that an earlier run began at the place of a request
    known_places     a request for each place that is known, to look for what dead runs left there
    notes            about what is named and does not exist
    why_nothing      notes about the location that the run is about, where no request of it awaits cleaning
    further          what else is to be cleaned, of which no request says so
    together         places that a thread has claimed at a time, so that the queue is asked once about all of them
    """

    requests: ReadyRequests
    proof: Proof
    history: History
    must_exist: bool
    note_failure: Callable[[CompactionRequest, AcidError], None] | None = None
    check: Callable[[CompactionRequest, Target], None] | None = None
    unmoved: Callable[[CompactionRequest, Target], None] = lambda *_: None
    without_readers: Callable[[CompactionRequest], AbstractContextManager[object]] = lambda _: nullcontext()
    known_places: Callable[[], list[CompactionRequest]] = list
    notes: Sequence[str] = ()
    why_nothing: Callable[[], list[str]] = list
    further: Further | None = None
    together: int = 1


class NotOursError(RefusedError):
    """A request that somebody else has to clean; not a failure."""


class ReplacedError(RefusedError):
    """A request whose result is not at its place any more."""


def each_alone(work: Callable[[ListedRequest], Found], items: Sequence[ListedRequest]) -> list[Found | AcidError]:
    """What became of each, where several cannot be asked for together."""

    def outcome(item: ListedRequest) -> Found | AcidError:
        try:
            return work(item)
        except AcidError as error:
            return error

    return [outcome(item) for item in items]


def recorded_mark(request: CompactionRequest) -> int:
    """The high-water mark that a request recorded; RefusedError without one."""
    if request.highest_write_id is None:
        raise RefusedError(f"Cannot clean {request.ref}: because request {request.id} has no high-water mark")
    return request.highest_write_id
