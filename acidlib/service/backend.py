"""The interfaces between jobs and their surroundings: tables, requests, and the hold on the place of a request.

There are three kinds of surroundings: without a metastore (`surroundings.alone`), with one of Hive 3.1
(`surroundings.hive3`) and with one of Hive 4 (`surroundings.hive4`). The jobs know only the classes of this file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self

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


class Hold:
    """A place at which this run alone works, from `begin` until `close`.

    request  for which the place is held
    target   the place; once it is held, its interpretation is fixed: later writes count as not committed
    """

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

    def assert_claimed(self) -> None:
        """Raise ConflictError if the claim was lost; do nothing before `begin`."""
        if self._claim is not None:
            self._claim.assert_mine()

    def assert_mine(self) -> None:
        """Raise ConflictError if claim or lock was lost, or the table was replaced; called right before any change."""
        self.claim.assert_mine()

    def exclusive(self) -> AbstractContextManager[object]:
        """Keep readers away, as far as that is possible, while something becomes or stops being visible."""
        return nullcontext()

    def leave_claim(self) -> None:
        """Let the claim go stale, without asking a file system that does not answer."""
        if self._claim is not None:
            self._claim.leave()

    def close(self) -> None:
        """Give back claim and locks, also after a `begin` that failed half-way; a further call tries again."""
        if self._claim is not None:
            self._claim.release()

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise  # else the first error is the one to report; the claim goes stale by itself


class CompactionHold(Hold, ABC):
    """The hold for a request of this run, and the request's end: `end` or `abandon` tells the queue."""

    @abstractmethod
    def quarantining_request(self, listing: Listing) -> CompactionRequest | None:
        """Return the request for which the place is quarantined, see `planning.results`, or None.

        Proceeding after this call lifts the quarantine once the result is published or cleaned.
        """

    @abstractmethod
    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note, before a result is compared, that it is unverified if the run dies.

        directories  of the result that readers see before it is verified; it counts once it is verified
        """

    @abstractmethod
    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Note the mark before the first byte is written; ConflictError if the request was lost.

        inputs  a digest of the inputs, by which the result can be undone later; see `planning.results`
        """

    @abstractmethod
    def awaited_marks(self) -> tuple[int, ...]:
        """Return the marks of the place's requests that await cleaning, except one whose quarantine is lifted here."""

    @abstractmethod
    def only_clean(self, high_water_mark: int) -> None:
        """Make the request one that only has obsolete directories cleaned, as there is nothing to merge."""

    def publishing(self, publication: Publication) -> AbstractContextManager[object]:
        """Surround the moments in which results become visible; ConflictError if readers cannot be kept away."""
        del publication
        return nullcontext()

    @abstractmethod
    def transactions_now(self) -> ValidTxnList:
        """Return the transactions as they are now."""

    @abstractmethod
    def published(self, directories: tuple[str, ...]) -> None:
        """Have results that stand under their names count, and the directories that they replace cleaned.

        ConflictError if they can never count, UnknownOutcomeError if it is unknown whether they do.
        """

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics of the place to the metastore once results count; return None where there are none.

        rows  in the results; None = unknown. An error is part of the return value.
        """
        del directories, rows
        return None

    @abstractmethod
    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Tell the queue the outcome; return a note if the request was not simply ended.

        noted  facts of the place and of the result to keep with the request; see `attempts`
        """

    @abstractmethod
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


class Backend(ABC):
    """The tables and requests of a run."""

    in_order = False
    """Whether requests can only be taken in the order of the queue (Hive 4)."""
    can_rebalance = False
    """Whether a lock can keep out statements that change rows (Hive 4)."""

    def __init__(self, services: Services) -> None:
        self.services = services

    @abstractmethod
    def recover(self) -> list[str]:
        """Give back the requests of dead runs, and claims and transactions with them; return a note about each kind."""

    @abstractmethod
    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return the selected places; for the initiator, those that may be compacted automatically.

        RefusedError if a name of the selection does not exist.
        """

    @abstractmethod
    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests to choose from, oldest first."""

    def queue_warnings(self) -> list[str]:
        """Return warnings about the queue for the operator of a run that drains it."""
        return []

    @abstractmethod
    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Take a request, and return it as it is then; None if another worker has it.

        A queue with its own order may hand out another one.
        """

    @abstractmethod
    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request for a selected place and take it at once; ConflictError if another request is in the way.

        buckets  the number of buckets of a rebalance, if it is stated
        """

    @abstractmethod
    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """End a request that is not understood, unless another worker has it."""

    @abstractmethod
    def hold(self, request: CompactionRequest, target: Target) -> CompactionHold:
        """Return the hold for a request of this run, at the place as it was when the request was taken."""

    @abstractmethod
    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """Return the earlier attempts at these places, by the queue and its history as they are now."""

    @abstractmethod
    def backoff_reason(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Return why a place over its thresholds is backed off after failures, or None.

        Unless it is a dry run, the history records that too.
        """

    @abstractmethod
    def quarantining_request(self, target: Target, listing: Listing) -> CompactionRequest | None:
        """Return the request for which a place is quarantined, see `planning.results`, or None."""

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs at a place; ConflictError while another run works there."""
        finish_publications(self.services, target.location)

    @abstractmethod
    def is_dropped(self, target: Target) -> bool:
        """Return whether a selected place has been dropped since, which explains errors there."""

    @abstractmethod
    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue the initiator's decisions; return the id of each request, or the error why it is not queued."""

    @abstractmethod
    def purge_history(self) -> None:
        """Remove the rows of the history that settings do not want kept."""
