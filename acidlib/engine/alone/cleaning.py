"""Cleaning without a metastore: what is obsolete waits for a retention, counted from the newest publication there.

Nothing can tell who reads; the retention is the caller's statement that no query lasts longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from acidlib.engine.alone.recovery import recover
from acidlib.engine.alone.selecting import select_targets
from acidlib.engine.cleaning import CleanerOptions, Cleaning, ListedRequest, ReplacedError, recorded_mark
from acidlib.engine.queueing import SqlReadyRequests
from acidlib.engine.selection import Selection, look_at
from acidlib.engine.services import Services
from acidlib.engine.target import Interpretation, ListedPlace, Target, target_of
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.listing import Listing
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest
from acidlib.planning.clean import CleanPlan, cleanable
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.queue.sql import SqlQueue
from acidlib.storage.witness import is_there
from acidlib.wording import human_bytes, plural

TOGETHER = 16
"""To ask an SQLite file costs as much as all else that is done at a small place."""


def standalone_cleaning(services: Services, queue: SqlQueue, options: CleanerOptions) -> Cleaning:
    """The requests of our own queue; with a location only those there or below it."""

    def is_wanted(request: CompactionRequest) -> bool:
        if request.facts.metastore is not None:
            return False
        place = request.facts.location
        return options.location is None or (place is not None and options.location.holds(place))

    requests = SqlReadyRequests(services, queue, is_wanted, recover=lambda: recover(services, queue, is_wanted))
    return Cleaning(
        requests=requests,
        proof=RetentionProof(services, queue, options),
        history=OwnHistory(services, queue),
        must_exist=False,  # a directory that is missing was dropped
        note_failure=requests.note_failure,
        known_places=requests.known_places,
        why_nothing=lambda: _why_nothing(services, queue, options.selection, requests.known_places()),
        together=TOGETHER,
    )


def _why_nothing(
    services: Services, queue: SqlQueue, selection: Selection, known: Sequence[CompactionRequest]
) -> list[str]:
    """Which queue was asked in vain, and what a cleaner could free at the location if it knew the compaction.

    Raises MissingError for a location that does not exist, RefusedError for one that is no ACID table, unless requests
    are known about it.
    """
    location = selection.location
    if location is None:
        return []
    newest = max(known, key=lambda row: row.id, default=None)
    state = "" if newest is None else f"; its newest there, {newest.id}, is {newest.state.label}"
    note = f"the queue {queue.shown} has no request of {location} that awaits cleaning{state}"
    everything = Interpretation(write_ids=StatedWriteIds(everything=True))
    named = {row.entity for row in known}
    try:
        found = select_targets(services, selection, everything, may_be_empty=bool(known), known=named)
        looked, _ = look_at(services, found.targets, None)
    except AcidError as error:
        if not known:
            why = str(error).replace("Cannot compact", "Cannot clean", 1)
            raise type(error)(f"{why}; {note}") from None
        return [note]  # what cannot be looked at cannot be cleaned either
    if found.notes:
        return [f"{one}; {note}" for one in found.notes]
    sizes = [size for one in looked if isinstance(one, ListedPlace) for size in one.obsolete.values()]
    if not sizes:
        return [f"{note}; nothing there is obsolete"]
    left = f"{plural(len(sizes), 'directory or file', 'directories and files')} there, {human_bytes(sum(sizes))}"
    is_are = "is" if len(sizes) == 1 else "are"
    return [
        f"{note}, but {left}, {is_are} obsolete if all that lies there is committed: give the --queue-url of the queue "
        "in which the compaction was requested; where there is none any more, a major compaction requests the cleaning"
    ]


class RetentionProof:
    """That the retention has passed since the newest publication at a place."""

    def __init__(self, services: Services, queue: SqlQueue, options: CleanerOptions) -> None:
        self._services = services
        self._queue = queue
        self._dry_run = options.dry_run
        given = options.retention_seconds
        self._retention = services.settings.integer("acidlib.retention") / 1000 if given is None else given

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target]:
        """The place as the request describes it; without a metastore nothing is renamed."""
        del anew
        return request, target_of(request)

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """The rows about each location, by whatever name: another run may have called the place by another."""
        try:
            found = self._queue.at_locations([one.target.location for one in about])
        except AcidError as error:
            return [error] if len(about) == 1 else [answer for one in about for answer in self.known([one])]
        return [found[one.target.location] for one in about]

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """What is obsolete by the recorded list. When directories that cover something were first seen is noted."""
        request, target, listing = looked.request, looked.target, looked.listing
        if not is_there(self._services.fs(target.location), target.location, request.facts.witness or ""):
            raise ReplacedError(
                "what it was made for is not there any more: the table was made anew, or something newer replaced it"
            )
        newest, published = _publications(listing, known)
        plan = cleanable(
            listing,
            recorded_mark(request),
            target.write_ids(listing),
            generation=target.generation(listing),
            now=self._services.clock(),
            retention_seconds=self._retention,
            newest_publication=newest,
            published_at=published,
        )
        if plan.first_seen and not self._dry_run:
            seen = {**request.facts.first_seen, **dict.fromkeys(plan.first_seen, self._services.clock())}
            self._queue.set_facts(request.id, None, RequestFacts(first_seen=seen))
        return plan


def _publications(listing: Listing, known: Sequence[CompactionRequest]) -> tuple[float | None, dict[str, float]]:
    """When the newest publication at a place was, and when each directory was published or first seen.

    Not before its files were written, by the clock of the file system: workers' clocks differ, and a table that was
    made anew has directories of the same names.
    """
    published: dict[str, float] = {}
    newest: float | None = None
    for other in known:
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


class OwnHistory:
    """The history of our own queue, where no metastore remembers aborted write ids."""

    def __init__(self, services: Services, queue: SqlQueue) -> None:
        self._services = services
        self._queue = queue

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests as succeeded."""
        ids = [one.request.id for one in done]
        try:
            return [*self._queue.mark_all_cleaned(ids, self._services.now_ms())]
        except (CorruptError, RefusedError) as error:  # it is about one of them
            return [error] if len(done) == 1 else [answer for one in done for answer in self.cleaned([one])]
        except AcidError as error:
            return [error] * len(done)

    def dropped(self, request: CompactionRequest) -> None:
        """End the request as succeeded: there is nothing to clean any more."""
        self._queue.mark_cleaned(request.id, self._services.now_ms())
