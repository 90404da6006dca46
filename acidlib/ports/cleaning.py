"""The interface of the cleaner to its surroundings: requests that are ready, and the proof that no query reads.

Implemented side by side for directories alone (`ports.directories`), Hive 3.1 (`ports.hive3_cleaning`) and Hive 4
(`ports.hive4_cleaning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from acidlib.acid.listing import Listing
from acidlib.errors import AcidError, RefusedError
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest
from acidlib.model.results import CleaningResult, Outcome
from acidlib.places.place import Place
from acidlib.places.removals import DeleteRateLimiter, NotOursError
from acidlib.places.selection import CleanerOptions
from acidlib.planning.clean import CleanPlan, DueCleaning
from acidlib.ports.holds import Hold


class NothingToCleanError(RefusedError):
    """A request whose place, or whose result there, does not exist any more: it ends, and nothing is removed."""


class CleaningForbiddenError(NotOursError):
    """A request whose place its owner does not let be cleaned: it ends where the queue's own cleaner ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRequest:
    """A request and its place, with a listing made since the place was claimed (in a dry run it is not claimed)."""

    request: CompactionRequest
    place: Place
    listing: Listing

    @property
    def mark(self) -> int:
        """The high-water mark that the request recorded; raises RefusedError without one."""
        mark = self.request.highest_write_id
        if mark is None:
            number = self.request.id
            raise RefusedError(f"Cannot clean {self.request.ref}: request {number} has no high-water mark")
        return mark


class RollbackCleaning(Protocol):
    """The cleaning of places after rolled back transactions, which have no requests."""

    def due(self) -> list[list[DueCleaning]]:
        """Return the places that are due and selected, by table: those of one table are cleaned one after the other."""

    def clean(self, due: DueCleaning, limiter: DeleteRateLimiter) -> CleaningResult:
        """Return the result of one place, also where an error has ended it: then with the paths removed before."""

    def end_retries(self) -> None:
        """End requests that Hive's own cleaner queued for itself after a failure, if nothing is noted of the place."""


def result_of_due(due: DueCleaning) -> CleaningResult:
    """Return the result of a place that is due while nothing is done there."""
    return CleaningResult(**due.ref._asdict(), location="", state=Outcome.FAILED)


class Cleaning(Protocol):
    """One run's source of requests to clean, with the proof that no reader needs anything that they remove.

    must_exist   a metastore says that each place exists: a missing or empty one is an error
    rolled_back  the cleaning after rolled back transactions; None where there is none
    ends_many    many requests are ended for the cost of one: a file of SQLite is synced to disk for each change
    notes        about tables and partitions that are named and do not exist
    """

    services: Services
    options: CleanerOptions

    @property
    def must_exist(self) -> bool:
        """See above."""

    @property
    def rolled_back(self) -> RollbackCleaning | None:
        """See above."""

    @property
    def ends_many(self) -> bool:
        """See above."""

    @property
    def notes(self) -> Sequence[str]:
        """See above."""

    def recover(self) -> list[str]:
        """Finish and give back what dead runs left; return a note about each kind."""

    def ready(self) -> list[CompactionRequest]:
        """Return the requests that are ready and selected, no later result of a place before an earlier one."""

    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Return why a request cannot be cleaned yet, or not by this engine, as far as the queue tells."""

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Place | None]:
        """Return the request as the queue has it now, for its table may have been renamed, and its place.

        The place is interpreted as the cleaner has to; it is None when the table or partition does not exist any more.

        anew  ask again for a place that did not exist where it was said to be

        NotOursError where it is left to Hive's own cleaner, ConflictError when another cleaner has ended the request.
        """

    def hold(self, request: CompactionRequest, place: Place) -> Hold:
        """Return the hold on the place of a request, which is not begun yet: a claim."""

    def requests_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the requests of the queue and its history about a place, as far as `plan` needs them."""

    def plan(self, listed: ListedRequest, requests: Sequence[CompactionRequest]) -> CleanPlan:
        """Return the paths that may go now, and those that have to wait; `requests` are those at the place.

        As much of the proof as goes by the request alone is `not_ready_reason`: with Hive 4 that is most of it.

        Facts of this listing that later runs need are noted in the queue, except in a dry run.

        NothingToCleanError when the result that the request published is not there any more.
        """

    def require_unmoved(self, request: CompactionRequest, place: Place) -> None:
        """Raise ConflictError when the table is not the one that was listed, or lies elsewhere.

        Called once before the first path is removed, and before a request ends for which nothing was removed. At each
        path the claim is asked, and whether files lie there that the listing lacks.
        """

    def require_alone(self, request: CompactionRequest, place: Place) -> None:
        """Raise ConflictError where another compactor or cleaner works which the claim does not keep out.

        Called once before the first path is removed.
        """

    def end_cleaned(self, cleaned: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End requests whose listings show nothing obsolete; return for each None, or why it has to stay."""

    def end_dropped(self, request: CompactionRequest) -> None:
        """End a request whose place or result does not exist any more; the queue forgets no aborted write ids."""

    def end_forbidden(self, request: CompactionRequest, reason: str) -> bool:
        """End a request whose place its owner does not let be cleaned, and return True; False where it waits."""

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Have a failed cleaning tried again later, or give the request up, where the queue can note that."""

    def known_places(self) -> list[CompactionRequest]:
        """Return a request of each place that the queue knows, where dead runs may have left something."""

    def nothing_to_clean_notes(self) -> list[str]:
        """Return notes about the location that is named, where no request of it awaits cleaning."""
