"""What the cleaner works on: where its requests come from, what proves that nobody reads, and where requests end.

There are three kinds: without a metastore (`alone`), with one of Hive 3.1 (`hive3`) and with one of Hive 4 (`hive4`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from acidlib.engine.removals import Pace
from acidlib.engine.selection import Selection
from acidlib.engine.target import Target
from acidlib.errors import AcidError, RefusedError
from acidlib.model.listing import Listing
from acidlib.model.location import Location
from acidlib.model.requests import CompactionRequest
from acidlib.planning.clean import CleanPlan
from acidlib.planning.rolled_back import DueCleaning
from acidlib.report.decisions import CleaningResult

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
        raise RefusedError(f"Cannot clean {request.full_name}: because request {request.id} has no high-water mark")
    return request.highest_write_id
