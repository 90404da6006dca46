"""What a run of the initiator or of a compaction works with: tables, requests, and the place of a request while held.

There are three kinds of surroundings: without a metastore (`surroundings.alone`), with one of Hive 3.1
(`surroundings.hive3`) and with one of Hive 4 (`surroundings.hive4`). The jobs know only what stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from acidlib.errors import AcidError, ConflictError
from acidlib.model.listing import Listing
from acidlib.model.location import NOWHERE, Location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.snapshots import ValidTxnList
from acidlib.planning.inputs import Publication
from acidlib.report.results import Outcome, Statistics
from acidlib.service.attempts import Attempts
from acidlib.service.places import ListedPlace, Target
from acidlib.service.selection import Selected, Selection
from acidlib.service.services import Services
from acidlib.stores.store import Claim, Store


def nowhere(request: CompactionRequest) -> Target:
    """Return a target of which only the names are known yet."""
    return Target(ref=request.ref, location=NOWHERE)


WaitingRequest = tuple[CompactionRequest, Target | AcidError]
"""A request that no run works on yet, and its place, or why that cannot be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A compaction that the initiator wants, and the figures by which it decided."""

    place: ListedPlace
    kind: CompactionType
    figures: RequestFacts


class Hold:
    """A place at which this run alone works, from `begin` until `close`.

    request  what the place is held for
    target   the place; once it is held, understood for good: what was written after that is not committed
    """

    def __init__(self, services: Services, request: CompactionRequest, target: Target) -> None:
        self._services = services
        self._claim: Claim | None = None
        self.request = request
        self.target = target

    @property
    def claim(self) -> Claim:
        """The claim on the place; raises ConflictError before there is one."""
        if self._claim is None:
            raise ConflictError(f"Cannot go on with {self.target.ref}: it is not claimed")
        return self._claim

    def begin(self) -> None:
        """Take the place. ConflictError while another run works there."""
        self._claim = self._services.claim(self.target.location)

    def assert_claimed(self) -> None:
        """Raise ConflictError when the claim is not ours any more; nothing is asked before there is one."""
        if self._claim is not None:
            self._claim.assert_mine()

    def assert_mine(self) -> None:
        """Raise ConflictError unless all is still ours, and the table still the same: right before anything changes."""
        self.claim.assert_mine()

    def exclusive(self) -> AbstractContextManager[object]:
        """Keep readers away, as far as anything can, while something becomes or stops being visible."""
        return nullcontext()

    def close(self) -> None:
        """Give back what was taken, also by a `begin` that failed half-way. May be called again, and tries again."""
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
        except AcidError:
            if error is None:
                raise  # else the first error is the one to report; what was taken goes stale by itself


class CompactionHold(Hold, ABC):
    """The place of a request that is ours, and the request's end: `end` or `abandon` tells the queue."""

    @abstractmethod
    def quarantining_request(self, listing: Listing) -> CompactionRequest | None:
        """Return the request for which nothing may be done here, see `planning.results`; None without one.

        Proceeding after this call releases the place once the result is published or cleaned.
        """

    @abstractmethod
    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note, before a result is compared, that it is not verified, should the run die.

        directories  what readers see of it before it is verified: from now on it counts only once it is
        """

    @abstractmethod
    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Note up to which write id this goes, before the first byte is written. ConflictError: not ours any more.

        inputs  a digest of what is read, by which the result may be taken back later; see `planning.results`
        """

    @abstractmethod
    def awaited_marks(self) -> tuple[int, ...]:
        """Return up to which write ids requests of this place, but for one that is released here, await cleaning."""

    @abstractmethod
    def only_clean(self, high_water_mark: int) -> None:
        """Have what is obsolete cleaned, where there is nothing to merge."""

    def publishing(self, publication: Publication) -> AbstractContextManager[object]:
        """Surround the moments in which results become visible. ConflictError when the place cannot be had for them."""
        del publication
        return nullcontext()

    @abstractmethod
    def transactions_now(self) -> ValidTxnList:
        """Return the transactions as they are now."""

    @abstractmethod
    def published(self, directories: tuple[str, ...]) -> None:
        """Let results that stand under their names count, and have what they replace cleaned.

        ConflictError when they can never count, UnknownOutcomeError when it is not known whether they do.
        """

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Have the metastore say what readers find, once these results count; None where there is nothing to say.

        rows  in them, where that is known. Whatever goes wrong is told by what is returned.
        """
        del directories, rows
        return None

    @abstractmethod
    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Tell the queue how it ended; return a note where more came of it than that.

        noted  facts of the place and of the result that are to be kept; see `attempts`
        """

    @abstractmethod
    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request back, for the run is interrupted; one that this run has queued for itself is withdrawn.

        may_be_visible  something of its result: then it stays, for the run that finds that
        """


def finish_publications(
    services: Services, location: Location, alone: Callable[[], AbstractContextManager[object]] = nullcontext
) -> None:
    """Finish the publications of dead runs at a place, under a claim of our own. ConflictError while another works.

    `alone` keeps readers away, see `finish_claimed`.
    """
    store = services.store(location)
    if store.unfinished(location):
        with services.claim(location):
            for line in finish_claimed(store, location, alone):
                services.progress.note(line, place=str(location))


def finish_claimed(
    store: Store, location: Location, alone: Callable[[], AbstractContextManager[object]]
) -> tuple[str, ...]:
    """Finish the publications of dead runs at a claimed place; return a line about each.

    First those of which one of two directories is visible already: while we waited for readers to go, new ones would
    see that half. Then those of which nothing is visible, while `alone` keeps readers away; ConflictError where it
    cannot.
    """
    if not store.unfinished(location):
        return ()  # the common case, for one listing
    finished = store.roll_forward(location, visible_only=True)
    if store.unfinished(location):
        with alone():
            finished += store.roll_forward(location)
    return finished


class Backend(ABC):
    """One run's source of tables and requests."""

    in_order = False
    """Whether requests can only be taken in the order of the queue, whatever is asked for (Hive 4)."""
    can_rebalance = False
    """Whether there is the lock that keeps out statements that change rows (Hive 4)."""

    def __init__(self, services: Services) -> None:
        self.services = services

    @abstractmethod
    def recover(self) -> list[str]:
        """Give back what dead runs left; return a note about each kind."""

    @abstractmethod
    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return the places that are named (or, for the initiator, automatic ones).

        RefusedError when what is named does not exist.
        """

    @abstractmethod
    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests to choose from, oldest first."""

    def queue_warnings(self) -> list[str]:
        """Return what a person who has the queue drained should know."""
        return []

    @abstractmethod
    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Take a request, and return it as it is then; None when it is not to be had.

        In an ordered queue it may be another one.
        """

    @abstractmethod
    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request for what is named, and return it, taken at once. ConflictError when another is in the way.

        buckets  into how many it is rebalanced, where that is stated
        """

    @abstractmethod
    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """End a request that cannot be understood, unless another worker has it."""

    @abstractmethod
    def hold(self, request: CompactionRequest, target: Target) -> CompactionHold:
        """Return the hold by which a request that is ours is carried out, at the place as it was when it was taken."""

    @abstractmethod
    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """Return what the queue and its history know of these places now."""

    @abstractmethod
    def backoff_reason(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Return why a place that is over its thresholds is not queued, after failures; None when it may be.

        The history says so too, unless it is a dry run.
        """

    @abstractmethod
    def quarantining_request(self, target: Target, listing: Listing) -> CompactionRequest | None:
        """Return the request for which nothing may be done at a place, see `planning.results`."""

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs at a place. ConflictError while another works there."""
        finish_publications(self.services, target.location)

    @abstractmethod
    def is_dropped(self, target: Target) -> bool:
        """Return whether a place that was selected has been dropped since, which explains what went wrong there."""

    @abstractmethod
    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue what the initiator decided: the id of each, or why it is not queued."""

    @abstractmethod
    def purge_history(self) -> None:
        """Forget what settings do not want kept."""
