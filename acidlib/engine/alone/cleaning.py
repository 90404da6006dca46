"""Cleaning without a metastore: what is obsolete waits for a retention, counted from the newest publication there.

Nothing can tell who reads; the retention is the caller's statement that no query lasts longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from acidlib.engine.alone.recovery import recover
from acidlib.engine.cleaner import CleaningAsked, ReplacedError, recorded_mark
from acidlib.engine.retrying import note_failure, retry_wait
from acidlib.engine.services import Services
from acidlib.engine.target import Target, target_of
from acidlib.errors import AcidError
from acidlib.model.listing import Listing
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest
from acidlib.planning.clean import CleanPlan, cleanable, left_over
from acidlib.queue.sql import SqlQueue
from acidlib.storage.witness import is_there


class StandaloneCleaning:
    """The requests of our own queue; with `location` only those there or below it."""

    def __init__(self, services: Services, queue: SqlQueue, asked: CleaningAsked) -> None:
        self._services = services
        self._queue = queue
        given = asked.retention_seconds
        self._retention = services.settings.integer("acidlib.retention") / 1000 if given is None else given
        self._location = asked.location

    def recover(self) -> list[str]:
        """Requests of dead runs go back to the queue."""
        return recover(self._services, self._queue)

    def ready(self) -> list[CompactionRequest]:
        """What awaits the cleaner."""
        return [request for request in self._queue.ready_for_cleaning() if self._selected(request)]

    def waits(self, request: CompactionRequest) -> str | None:
        """A cleaning that failed is tried again after a while."""
        return retry_wait(self._services, request)

    def again(self, request: CompactionRequest) -> CompactionRequest | None:
        """Nothing is renamed here."""
        return request

    @property
    def place_is_known(self) -> bool:
        """A directory that is gone was dropped."""
        return False

    def target(self, request: CompactionRequest) -> Target | None:
        """As it was understood when it was queued."""
        return target_of(request)

    def finishing(self, request: CompactionRequest) -> AbstractContextManager[None]:
        """Nobody else reads or writes, as the caller stated."""
        del request
        return nullcontext()

    def plan(self, request: CompactionRequest, target: Target, listing: Listing) -> CleanPlan:
        """With the recorded list, and the retention from the newest publication on."""
        if not is_there(self._services.fs, target.location, request.facts.witness or ""):
            raise ReplacedError(
                "what it was made for is not there any more: the table was made anew, or something newer replaced it"
            )
        newest, published = self._publications(target, listing)
        return cleanable(
            listing,
            recorded_mark(request),
            target.write_ids(listing),
            generation=target.generation(listing),
            now=self._services.clock(),
            retention_seconds=self._retention,
            newest_publication=newest,
            published_at=published,
        )

    def remember(self, request: CompactionRequest, plan: CleanPlan) -> None:
        """When directories that cover something were first seen."""
        if plan.first_seen:
            seen = {**request.facts.first_seen, **dict.fromkeys(plan.first_seen, self._services.clock())}
            self._queue.set_facts(request.id, None, RequestFacts(first_seen=seen))

    def check(self, request: CompactionRequest, target: Target) -> None:
        """The claim on the place is all there is."""

    def left(self, request: CompactionRequest, target: Target, listing: Listing) -> Sequence[str]:
        """By the recorded mark and list."""
        mark, write_ids = recorded_mark(request), target.write_ids(listing)
        return left_over(listing, mark, write_ids, generation=target.generation(listing))

    def keeps(self, request: CompactionRequest, target: Target, listing: Listing) -> str | None:
        """Nothing is remembered elsewhere."""
        del request, target, listing
        return None

    def cleaned(self, request: CompactionRequest) -> None:
        """To the history."""
        self._queue.mark_cleaned(request.id, self._services.now_ms())

    def gone(self, request: CompactionRequest) -> None:
        """To the history: nothing is remembered elsewhere."""
        self.cleaned(request)

    def failed(self, request: CompactionRequest, error: AcidError) -> None:
        """Tried again after a while, a few times."""
        note_failure(self._services, self._queue, request, error)

    def places(self) -> list[tuple[CompactionRequest, str]]:
        """Wherever the queue or its history knows a place."""
        return [(request, request.facts.location or "") for request in self._queue.show() if self._selected(request)]

    def _selected(self, request: CompactionRequest) -> bool:
        if request.facts.metastore is not None:
            return False
        place = request.facts.location or ""
        return self._location is None or place == self._location or place.startswith(f"{self._location}/")

    def _publications(self, target: Target, listing: Listing) -> tuple[float | None, dict[str, float]]:
        """When the newest publication at this place was, and when each directory was published or first seen.

        Not before its files were written, by the clock of the file system: workers' clocks differ, and a table that was
        made anew has directories of the same names.
        """
        published: dict[str, float] = {}
        newest: float | None = None
        # by place alone: another run may have called it by another name
        for other in self._queue.at_location(target.location):
            other.require_understood("clean", "first_seen", "published_ms")
            published.update(other.facts.first_seen)
            if other.facts.published_ms is not None:
                seconds = other.facts.published_ms / 1000
                newest = seconds if newest is None else max(newest, seconds)
                published.update(dict.fromkeys(other.facts.outputs or (), seconds))
        for file in listing.files:
            name = file.path.partition("/")[0]
            if name in published:
                published[name] = max(published[name], file.modified)
        return newest, published
