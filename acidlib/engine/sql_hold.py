"""One request in a SQL queue, and the claim on its place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from acidlib.engine.attempts import awaited_marks
from acidlib.engine.backend import Taken
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, UnknownOutcomeError
from acidlib.model.listing import Listing
from acidlib.model.location import Location
from acidlib.model.request_facts import NO_FACTS, UNVERIFIED, RequestFacts
from acidlib.model.requests import CompactionRequest
from acidlib.model.txnids import ALL_COMMITTED, ValidTxnList
from acidlib.planning.inputs import Publication
from acidlib.planning.verification import holding, shows
from acidlib.points import Point, passing
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Outcome, Statistics
from acidlib.storage.held import Claim


class SqlHold:
    """A request in a SQL queue that is ours; what else it takes of its place is for each kind to say."""

    def __init__(self, services: Services, queue: SqlQueue, taken: Taken) -> None:
        self._services = services
        self._queue = queue
        self._taken = taken
        self._claim: Claim | None = None

    def _claimed(self, location: Location) -> Claim:
        """The claim on a place, which `close` gives back."""
        self._claim = self._services.claim(location)
        return self._claim

    def assert_held(self) -> None:
        """The claim is ours, as far as there is one."""
        if self._claim is not None:
            self._claim.assert_mine()

    def end(self, outcome: Outcome, reason: str, *, named: bool, note: str | None) -> str | None:
        """Refused and failed requests go to the history, conflicts back to the queue unless they were named.

        So does what was left to another run. A request for a place that is compact already leaves nothing that a status
        would count.
        """
        number = self._taken.request.id
        worker, now_ms = self._services.worker_id, self._services.now_ms()
        noted = RequestFacts(files=note)
        if outcome is Outcome.REFUSED or (outcome is Outcome.CONFLICT and named):
            self._queue.mark_refused(number, reason, now_ms, worker_id=worker, facts=noted)
        elif outcome is Outcome.ALREADY_COMPACT:
            self._queue.mark_needless(number, now_ms, worker_id=worker)
        elif outcome is Outcome.FAILED:
            self._queue.mark_failed(number, reason, now_ms, worker_id=worker, facts=noted)
        elif outcome in (Outcome.CONFLICT, Outcome.SKIPPED):
            self.abandon()
        return None

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request back to the queue, or withdraw it; see Hold."""
        end = self._queue.withdraw if self._taken.is_new and not may_be_visible else self._queue.give_back
        end(self._taken.request.id, self._services.worker_id)

    def close(self) -> None:
        """Release the claim."""
        if self._claim is not None:
            self._claim.release()


class SqlHeldPlace:
    """The place of a request in a SQL queue, which is claimed."""

    def __init__(
        self, services: Services, queue: SqlQueue, request: CompactionRequest, target: Target, claim: Claim
    ) -> None:
        self._services = services
        self._queue = queue
        self._request = request
        self._claim = claim
        self._mark: int | None = None
        self._inputs: str | None = None
        self._noted_unverified = bool(request.facts.unverified)
        self._releases = False
        self.target = target

    @property
    def request_id(self) -> int:
        """Of our request."""
        return self._request.id

    def unverified(self, listing: Listing) -> CompactionRequest | None:
        """By the rows about the place, as they are now: a run that verified it held it until its end was noted."""
        if not self._may_be_unverified():
            return None
        found = holding(self._rows_here(), listing.top_directories())
        self._releases = found is not None and shows(found)
        return found

    def _may_be_unverified(self) -> bool:
        """Asked of every place, so it has to cost little."""
        return self._queue.may_note_at(self.target.location, UNVERIFIED)

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note it in the request, where later runs look for it until the result is said to be verified."""
        self._noted_unverified = True
        facts = replace(self._identity(), unverified=directories, inputs=self._inputs)
        self._queue.set_facts(self._request.id, self._services.worker_id, facts)

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Remember both: the queue is told of them with the result, for nobody asks before there is one."""
        self._mark, self._inputs = high_water_mark, inputs

    def awaited_marks(self) -> tuple[int, ...]:
        """By the rows about the place; none where it is released, for that is done by the cleaning of a newer one."""
        return () if self._releases else awaited_marks(self._rows_here())

    def only_clean(self, high_water_mark: int) -> None:
        """Make it a request to clean only.

        Obsolete may be what a run made so that died before it could tell the queue. What covers it counts as published
        now, for it is not known when it was.
        """
        self.start(high_water_mark)
        self._mark_compacted(())

    def _rows_here(self) -> Sequence[CompactionRequest]:
        """The rows of the queue and its history about this place."""
        return self._queue.at_location(self.target.location)

    def publishing(self, publication: Publication) -> AbstractContextManager[None]:
        """Nothing else has to be had: nobody else writes or reads, as the caller stated."""
        del publication
        return nullcontext()

    def assert_mine(self, high_water_mark: int) -> None:
        """The claim and the request are still ours."""
        del high_water_mark
        self._claim.assert_mine()
        self._queue.assert_owned(self._request.id, self._services.worker_id)

    def transactions_now(self) -> ValidTxnList:
        """None has to do with what lies there."""
        return ALL_COMMITTED

    def published(self, directories: tuple[str, ...]) -> None:
        """Ready for cleaning, with what the cleaner needs."""
        try:
            self._mark_compacted(directories)
        except AcidError as error:
            raise UnknownOutcomeError(
                f"Cannot note that {self.target.name} is compacted: because {error}; its results are visible "
                "and right, and stay; clean it with a new compaction"
            ) from error

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Nothing: without a metastore there are none."""
        del directories, rows
        return None

    def _mark_compacted(self, directories: tuple[str, ...]) -> None:
        now_ms = self._services.now_ms()
        facts = replace(self._facts(directories), outputs=directories, published_ms=now_ms, inputs=self._inputs)
        if self._noted_unverified:
            facts = replace(facts, unverified=())
        self._queue.mark_compacted(
            self._request.id, self._services.worker_id, now_ms, highest_write_id=self._mark, facts=facts
        )
        passing(Point.MARKED)

    def _identity(self) -> RequestFacts:
        """What tells the place from another one of its name, also before anything is published there."""
        return NO_FACTS

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """What else the cleaner has to know of this publication."""
        del directories
        return NO_FACTS
