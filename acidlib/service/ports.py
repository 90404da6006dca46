"""The ports between the jobs and their surroundings: tables, the queue of requests, and what fences a place off.

Each is implemented side by side, for directories alone (`surroundings.directories`), for a metastore of Hive 3.1
(`surroundings.hive3`) and for one of Hive 4 (`surroundings.hive4`); two kinds that share a queue in a SQL database
share the code for it (`surroundings.sql`), not a class above them. The jobs know only this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from acidlib.acid.listing import Listing
from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import AcidError, ConflictError
from acidlib.location import NOWHERE, Location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.results import Outcome, Statistics
from acidlib.planning.inputs import Publication
from acidlib.service.attempts import Attempts
from acidlib.service.places import ListedPlace, Target
from acidlib.service.selection import Selected, Selection
from acidlib.service.services import Services
from acidlib.stores.store import Claim, Store


def nowhere(request: CompactionRequest) -> Target:
    """Return a target with only names: its location is not known yet."""
    return Target(ref=request.ref, location=NOWHERE)


WaitingRequest = tuple[CompactionRequest, Target | AcidError]
"""A request that no run works on yet, and its place, or the error why that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A compaction that the initiator wants, and the figures of its decision."""

    place: ListedPlace
    kind: CompactionType
    figures: RequestFacts


class Hold(Protocol):
    """A place at which this run alone works, from `begin` until `close`; see `held`."""

    @property
    def request(self) -> CompactionRequest:
        """The request for which the place is held."""

    @property
    def target(self) -> Target:
        """The place; once it is held, its interpretation is fixed: later writes count as not committed."""

    @property
    def claim(self) -> Claim:
        """The claim on the place; ConflictError before `begin`."""

    def begin(self) -> None:
        """Claim the place; ConflictError while another run works there."""

    def assert_mine(self) -> None:
        """Raise ConflictError if claim or lock was lost, or the table was replaced; called right before any change."""

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

    def __init__(self, services: Services, request: CompactionRequest, target: Target) -> None:
        self._services = services
        self._claim: Claim | None = None
        self.request = request
        self.target = target

    @property
    def claim(self) -> Claim:
        """The claim on the place; ConflictError before `begin`."""
        if self._claim is None:
            raise ConflictError(f"Cannot go on with {self.target.ref}: it is not claimed")
        return self._claim

    def begin(self) -> None:
        """Claim the place; ConflictError while another run works there."""
        self._claim = self._services.claim(self.target.location)

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

    def quarantining_request(self, listing: Listing) -> CompactionRequest | None:
        """Return the request for which the place is quarantined, see `planning.results`, or None.

        Proceeding after this call lifts the quarantine once the result is published or cleaned.
        """

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note, before a result is compared, that it is unverified if the run dies.

        directories  of the result that readers see before it is verified; it counts once it is verified
        """

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Note the mark before the first byte is written; ConflictError if the request was lost.

        inputs  a digest of the inputs, by which the result can be undone later; see `planning.results`
        """

    def awaited_marks(self) -> tuple[int, ...]:
        """Return the marks of the place's requests that await cleaning, except one whose quarantine is lifted here."""

    def only_clean(self, high_water_mark: int) -> None:
        """Make the request one that only has obsolete directories cleaned, as there is nothing to merge."""

    def publishing(self, publication: Publication) -> AbstractContextManager[object]:
        """Surround the moments in which results become visible; ConflictError if readers cannot be kept away."""

    def transactions_now(self) -> ValidTxnList:
        """Return the transactions as they are now."""

    def published(self, directories: tuple[str, ...]) -> None:
        """Have results that stand under their names count, and the directories that they replace cleaned.

        ConflictError if they can never count, UnknownOutcomeError if it is unknown whether they do.
        """

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics of the place to the metastore once results count; return None where there are none.

        rows  in the results; None = unknown. An error is part of the return value.
        """

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
        with services.claim(location):
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


class Tables(Protocol):
    """The tables of a run."""

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return the selected places; for the initiator, those that may be compacted automatically.

        RefusedError if a name of the selection does not exist.
        """

    def is_dropped(self, target: Target) -> bool:
        """Return whether a selected place has been dropped since, which explains errors there."""


class Queue(Protocol):
    """The requests of a run.

    in_order  whether requests can only be taken in the order of the queue (Hive 4)
    """

    in_order: bool

    def recover(self, is_wanted: Callable[[CompactionRequest], bool]) -> list[str]:
        """Give back wanted requests of dead runs, and what is theirs; return a note about each kind."""

    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests to choose from, oldest first."""

    def warnings(self) -> list[str]:
        """Return warnings about the queue for the operator of a run that drains it."""

    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Take a request, and return it as it is then; None if another worker has it.

        A queue with its own order may hand out another one.
        """

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request for a selected place and take it at once; ConflictError if another request is in the way.

        buckets  the number of buckets of a rebalance, if it is stated
        """

    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """End a request that is not understood, unless another worker has it."""

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """Return the earlier attempts at these places, by the queue and its history as they are now."""

    def backoff_reason(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Return why a place over its thresholds is backed off after failures, or None.

        Unless it is a dry run, the history records that too.
        """

    def quarantining_request(self, target: Target, listing: Listing) -> CompactionRequest | None:
        """Return the request for which a place is quarantined, see `planning.results`, or None."""

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue the initiator's decisions; return the id of each request, or the error why it is not queued."""

    def purge_history(self) -> None:
        """Remove the rows of the history that settings do not want kept."""


class Fence(Protocol):
    """The means that keep others away from a place while this run works there.

    can_rebalance  whether a lock can keep out statements that change rows (Hive 4)
    """

    can_rebalance: bool

    def recover(self) -> list[str]:
        """Take away what dead runs keep others away with; return a note about each."""

    def hold(self, request: CompactionRequest, target: Target) -> CompactionHold:
        """Return the hold for a request of this run, at the place as it was when the request was taken."""

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs at a place; ConflictError while another run works there."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The surroundings of a run: one of each port."""

    tables: Tables
    queue: Queue
    fence: Fence

    def recover(self, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True) -> list[str]:
        """Give back the requests of dead runs, and claims and locks with them; return a note about each kind."""
        return self.queue.recover(is_wanted) + self.fence.recover()
