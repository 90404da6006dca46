"""Holds: what keeps a place for one run, from a claim alone to a request with locks or a transaction.

Words, here and where holds are used:

    hold     the claim of a run on a place, with its locks or transaction; the place is held from `begin` to `close`.
             What is held back, by a quarantine or after failures, no run holds
    mine     a hold that is not lost: its claim, locks and transaction are this run's still, and so is its request
    visible  readers see a result: since its rename, its last upload, or Hive 4's commit
    counts   a result is visible, was verified where that was wanted, and the queue knows it: its inputs may be cleaned
    noted    written into the request, where later runs look for it
    attempt  a request of earlier at the place (`places.attempts`); of a task it is one of its tries to make a file
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Protocol, TypeVar

from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import ConflictError
from acidlib.execute.services import Services
from acidlib.location import Location
from acidlib.model.requests import CompactionRequest, RequestFacts
from acidlib.model.results import Outcome, Statistics
from acidlib.places.place import Place
from acidlib.planning.inputs import Publication
from acidlib.stores.store import Claim, Store


class Hold(Protocol):
    """A place at which this run alone works, from `begin` until `close`; see `held`."""

    @property
    def request(self) -> CompactionRequest:
        """The request for which the place is held."""

    @property
    def place(self) -> Place:
        """The place; once it is held, its interpretation is fixed: later writes count as not committed."""

    @property
    def claim(self) -> Claim:
        """The claim on the place; ConflictError before `begin`."""

    def begin(self) -> None:
        """Claim the place; ConflictError while another run works there."""

    def assert_mine(self) -> None:
        """Raise ConflictError if the hold is lost or the table was replaced; RetryError if it may be lost.

        Asked once all is ready and nothing is changed: before results become visible or are taken back, and before one
        counts that was compared while it was visible. Not between renames, nor right after them: a publication that has
        begun is finished, by this run or by one that takes the place over. A cleaner asks the `claim`, at each path.
        """

    def exclusive(self) -> AbstractContextManager[object]:
        """Keep readers away, as far as that is possible, while something becomes or stops being visible."""

    def close(self) -> None:
        """Give back claim and locks, also after a `begin` that failed half-way; a further call tries again."""


AnyHold = TypeVar("AnyHold", bound=Hold)


@contextmanager
def held(hold: AnyHold) -> Iterator[AnyHold]:
    """Begin a hold, and close it at the end, also where it fails to begin."""
    try:
        hold.begin()
        yield hold
    except BaseException:
        with suppress(Exception):  # the first error is the one to report; the claim goes stale by itself
            hold.close()
        raise
    hold.close()


class ClaimedPlace:
    """A place that is claimed, and nothing else: the `Hold` of what needs no more, and a part of all others."""

    def __init__(self, services: Services, request: CompactionRequest, place: Place) -> None:
        self._services = services
        self._claim: Claim | None = None
        self.request = request
        self.place = place

    @property
    def claim(self) -> Claim:
        """The claim on the place; ConflictError before `begin`."""
        if self._claim is None:
            raise ConflictError(f"Cannot go on with {self.place.ref}: it is not claimed")
        return self._claim

    def begin(self) -> None:
        """Claim the place; ConflictError while another run works there."""
        facts = self.place.facts
        table = "" if facts is None else facts.table.storage.location
        self._claim = self._services.claim_and_revoke(self.place.location, table=table)

    def assert_mine(self) -> None:
        """Raise ConflictError if the claim was lost."""
        self.claim.assert_mine()

    def exclusive(self) -> AbstractContextManager[object]:
        """Do nothing: files do not tell who reads them."""
        return nullcontext()

    def assert_claimed(self) -> None:
        """Raise ConflictError if the claim was lost; do nothing before `begin`."""
        if self._claim is not None:
            self._claim.assert_mine()

    def leave_claim(self) -> None:
        """Let the claim go stale, without asking a file system that does not answer."""
        if self._claim is not None:
            self._claim.leave()

    def close(self) -> None:
        """Give the claim back."""
        if self._claim is not None:
            self._claim.release()


class CompactionHold(Hold, Protocol):
    """The hold for a request of this run, and the request's end: `end` or `abandon` tells the queue."""

    def assert_claimed(self) -> None:
        """Raise ConflictError if the claim was lost; do nothing before `begin`."""

    def leave_claim(self) -> None:
        """Let the claim go stale, without asking a file system that does not answer."""

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note, before a result is compared, that it is unverified if the run dies.

        directories  of the result that readers see before it is verified; it counts once it is verified
        """

    def note_mark(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Note the mark before the first byte is written; ConflictError if the request was lost.

        inputs  a digest of the inputs, by which the result can be undone later; see `planning.results`
        """

    def awaited_marks(self) -> tuple[int, ...]:
        """Return the marks of the place's requests that await cleaning, by the queue as it is now."""

    def only_clean(self, high_water_mark: int) -> None:
        """Make the request one that only has obsolete directories cleaned, as there is nothing to merge."""

    def publishing(self, publication: Publication) -> AbstractContextManager[bool]:
        """Surround the moments in which results become visible, and yield whether a reader may list the place then.

        ConflictError if readers have to be kept away, and cannot be.
        """

    def transactions_now(self) -> ValidTxnList:
        """Return the transactions as they are now."""

    def published(self, directories: tuple[str, ...]) -> None:
        """Have results that stand under their names count, and the directories that they replace cleaned.

        ConflictError if they can never count, UnknownOutcomeError if it is unknown whether they do.
        UnnotedResultError if readers see them already, and only the queue does not know it.
        """

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics of the place to the metastore once results count; return None where there are none.

        rows  in the results; None = unknown. An error is part of the return value.
        """

    @property
    def keeps_needless(self) -> bool:
        """The queue still knows a request that had nothing to do, after its end."""

    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Tell the queue the outcome; return a note if the request was not simply ended.

        noted  facts of the place and of the result to keep with the request; see `attempts`
        """

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request of an interrupted run back; withdraw one that the run has queued for itself.

        may_be_visible  a part of the result may be visible: the request stays for the run that finds it
        """


def finish_publications(
    services: Services,
    location: Location,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
    *,
    claims_always: bool = False,
) -> None:
    """Claim a place and finish the publications of dead runs there; ConflictError while another run works there.

    alone          keeps readers away, see `finish_claimed`
    claims_always  claim it also where nothing is to be finished, to know that no other run works there
    """
    store = services.store(location)
    if claims_always or store.unfinished(location):
        with services.claim_and_revoke(location):
            for line in finish_claimed(store, location, alone):
                services.progress.note(line, place=str(location))


def finish_claimed(
    store: Store, location: Location, alone: Callable[[], AbstractContextManager[object]]
) -> tuple[str, ...]:
    """Finish the publications of dead runs at a claimed place; return a line about each.

    First those of which one of two directories is visible already: during a wait for readers new ones would see that
    half. Then those of which nothing is visible, while `alone` keeps readers away; ConflictError if it cannot.
    """
    if not store.unfinished(location):
        return ()  # the common case, for one listing
    finished = store.roll_forward(location, visible_only=True)
    if store.unfinished(location):
        with alone():
            finished += store.roll_forward(location)
    return finished
