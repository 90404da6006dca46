"""Without a metastore: tables are directories, what is committed is stated, the queue is our own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, UsageError
from acidlib.model.listing import Listing
from acidlib.model.location import Location
from acidlib.model.requests import NO_FACTS, UNVERIFIED, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef, matches
from acidlib.planning.clean import CleanPlan, cleanable
from acidlib.planning.results import holding
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.queue.sql import SqlQueue
from acidlib.service.attempts import COUNTED, Attempts
from acidlib.service.backend import (
    CleanerOptions,
    Cleaning,
    Decided,
    Hold,
    ListedRequest,
    ReplacedError,
    Selected,
    Taken,
    Waiting,
    recorded_mark,
)
from acidlib.service.leftovers import finish_publications, give_back_dead, give_back_timed_out, is_dead_at
from acidlib.service.places import Interpretation, ListedPlace, Selection, Target, look_at, request_of, target_of
from acidlib.service.services import Services
from acidlib.service.surroundings.sql import (
    SqlHeldPlace,
    SqlHold,
    SqlReadyRequests,
    failed_attempts,
    purge_history,
    queue_all,
    queue_and_claim,
    refuse_waiting,
    take_waiting,
)
from acidlib.service.undo import HeldForUndo
from acidlib.stores.discover import TableLocation, discover_location, discover_warehouse, named_at
from acidlib.stores.listing import is_there, witness_in
from acidlib.stores.store import Claim
from acidlib.wording import human_bytes, plural

# --- selecting --------------------------------------------------------------------------------------------------------
# Targets among directories.


def select_targets(
    services: Services,
    selection: Selection,
    interpretation: Interpretation,
    *,
    may_be_empty: bool = False,
    known: Collection[TableRef] = (),
) -> Selected:
    """The targets in path order, and notes about what was passed over.

    may_be_empty  what is known of the named location explains that nothing is in it
    known         to the queue: it may have been dropped since

    Raises RefusedError when a named location or table is no ACID table, MissingError where it, a table or partitions
    that are named do not exist, UsageError when the only write-id list that is stated is another table's, or no
    directory is named.
    """
    notes: list[str] = []
    if selection.location is not None:
        try:
            only = discover_location(services.fs(selection.location), selection.location, may_be_empty=may_be_empty)
        except MissingError as error:
            return Selected(targets=(), notes=(str(error) if known else selection.note_of(error),))
        if interpretation.write_ids is not None:
            interpretation.write_ids.require_of(only.ref)
        tables: Sequence[TableLocation] = (only,)
    else:
        if selection.warehouse is None:
            raise UsageError("Cannot choose tables: because no directory is named in which to look for them")
        found = discover_warehouse(services.fs(selection.warehouse), selection.warehouse)
        tables = found.tables
        for skipped in found.skipped:
            name = str(named_at(skipped.location))
            if selection.names_table(name):
                raise RefusedError(f"Cannot compact {name}: {skipped.reason}")
        notes += [f"{skipped.location} is skipped: {skipped.reason}" for skipped in found.skipped]
    chosen = [table for table in tables if selection.wants_table(table.ref)]
    notes += selection.absent([*(table.ref for table in chosen), *known], "no ACID table there")
    targets = [
        Target(
            ref=table.ref._replace(partition=None if place.name is None else place.name.path),
            location=place.location,
            interpretation=interpretation,
        )
        for table in chosen
        for place in table.partitions
        if not selection.partitions or (place.name is not None and matches(place.name, selection.partitions))
    ]
    if selection.partitions and chosen and not (targets or known):
        notes.append(selection.note_of(selection.no_partition([str(one.ref) for one in chosen])))
    return Selected(targets=tuple(targets), notes=tuple(notes))


# --- recovery ---------------------------------------------------------------------------------------------------------
# What dead runs left in our own queue, where no metastore is concerned.


def recover(
    services: Services, queue: SqlQueue, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True
) -> list[str]:
    """Give requests of dead runs back to the queue, those that are wanted; notes about what was done.

    Requests for a metastore are left to the runs that can ask it for locks.
    """

    def is_dead(row: CompactionRequest) -> bool:
        location = row.facts.location
        if location is None or row.facts.metastore is not None or not is_wanted(row):
            return False
        return is_dead_at(services, location, row, now_ms=services.now_ms())

    def finish(row: CompactionRequest) -> None:
        if row.facts.location is not None:
            finish_publications(services, row.facts.location)

    return give_back_timed_out(services, queue) + give_back_dead(queue, is_dead, finish)


# --- hold -------------------------------------------------------------------------------------------------------------
# One request for a directory, which may have been dropped since it was queued.


class StandaloneHold(SqlHold):
    """A request in our queue, and the claim on its place."""

    def begin(self) -> StandaloneHeldPlace:
        """Claim the place.

        RefusedError where it was dropped: no failed attempt that would hold back a partition of that name later. With
        the directory above it gone as well a mount may be missing, and the claim fails.
        """
        request, target, fs = self._taken.request, self._taken.target, self._services.fs(self._taken.target.location)
        if not fs.exists(str(target.location)) and fs.exists(str(target.location.parent)):
            raise RefusedError(
                f"Cannot compact {target.ref}: {target.location} does not exist any more; if it was moved, have the "
                "initiator look where it lies now"
            )
        claim = self._claimed(target.location)
        if not is_there(fs, target.location, request.facts.witness or ""):
            raise RefusedError(
                f"Cannot compact {target.ref}: the table was made anew, or what the request was made for was "
                "compacted and cleaned, since then; the initiator queues it again where that is due"
            )
        return StandaloneHeldPlace(self._services, self._queue, request, target, claim)


class StandaloneHeldPlace(SqlHeldPlace):
    """A directory that is claimed."""

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """A file by which the cleaner knows that the result is still there."""
        if not directories:
            return NO_FACTS
        try:
            return RequestFacts(
                witness=witness_in(self._services.fs(self.target.location), self.target.location, directories[0])
            )
        except ConflictError:
            return NO_FACTS  # replaced and cleaned already: what the request was made for is not there either


# --- backend ----------------------------------------------------------------------------------------------------------


class StandaloneBackend:
    """Directories and stated write ids, with a queue of our own."""

    in_order = False
    can_rebalance = False

    def __init__(self, services: Services, queue: SqlQueue, interpretation: Interpretation) -> None:
        self._services = services
        self._queue = queue
        self._interpretation = interpretation
        self._failed: set[TableRef] | None = None

    def recover(self) -> list[str]:
        """Requests of dead runs go back to the queue."""
        return recover(self._services, self._queue)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """The ACID tables and partitions below the named directory."""
        del automatic
        return select_targets(
            self._services, selection, self._interpretation, may_be_empty=self._was_cleaned(selection.location)
        )

    def waiting(self, kind: CompactionType) -> list[Waiting]:
        """What waits in our queue and was not made for a metastore."""
        return [_waiting(request) for request in self._queue.waiting(kind) if request.facts.metastore is None]

    def cautions(self) -> list[str]:
        """Nothing: the queue is ours alone."""
        return []

    def take(self, waiting: Waiting) -> Taken | None:
        """Claim the request by its id."""
        return take_waiting(self._services, self._queue, waiting)

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> Taken:
        """Queue it, understood as it is now, and claim it; one of its kind that waits already is taken over."""
        del buckets
        if place.holds_staging:
            finish_publications(self._services, place.target.location)
        request = request_of(place, kind, initiator=f"{self._services.host}-manual")
        return queue_and_claim(self._services, self._queue, request, place.target)

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """End the request as refused."""
        refuse_waiting(self._services, self._queue, waiting, reason)

    def hold(self, taken: Taken) -> Hold:
        """What works on a request of our queue."""
        return StandaloneHold(self._services, self._queue, taken)

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """What our own queue and its history know."""
        rows = self._queue.rows_at((target.location for target in targets), states=tuple(COUNTED))
        self._failed = {row.ref for row in rows if row.state is State.FAILED}
        return Attempts(rows, self._services.settings)

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """The failed-attempt rule over our own history, which is not asked where `attempts` saw no failure."""
        if self._failed is not None and target.ref not in self._failed:
            return None
        request = CompactionRequest(
            id=0,
            ref=target.ref,
            type=kind,
            facts=RequestFacts(location=target.location),
            initiator_id=self._services.initiator_id,
        )
        return failed_attempts(self._services, self._queue, request, dry_run=dry_run)

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs, under a claim of our own."""
        finish_publications(self._services, target.location)

    def unverified(self, place: ListedPlace) -> CompactionRequest | None:
        """By the rows of our queue about the place."""
        rows = self._queue.rows_at([place.target.location], noting=UNVERIFIED)
        return holding(rows, place.listing.top_directories())

    def is_dropped(self, target: Target) -> bool:
        """Whether the directory is gone and the one above it is not, as where a mount is missing."""
        fs, location = self._services.fs(target.location), target.location
        return not fs.exists(str(location)) and fs.exists(str(location.parent))

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue each decision with all that a later worker and cleaner need."""
        return queue_all(self._services, self._queue, decided, self._request)

    def _request(self, decided: Decided) -> CompactionRequest:
        request = request_of(decided.place, decided.kind, initiator=self._services.initiator_id)
        mark = decided.place.write_ids.for_compactor().high_water_mark
        return replace(request, highest_write_id=mark, facts=request.facts.updated(decided.figures))

    def _was_cleaned(self, location: Location | None) -> bool:
        """Whether the history knows a cleaning there or below it: all that was written may have been rolled back."""
        if location is None:
            return False
        return self._queue.has_succeeded_below(location)

    def purge_history(self) -> None:
        """Forget what Hive's settings of retention do not keep."""
        purge_history(self._services, self._queue)


def _waiting(request: CompactionRequest) -> Waiting:
    try:
        return Waiting.at(request, target_of(request))
    except AcidError as error:
        return Waiting.at(request, error)


# --- cleaning ---------------------------------------------------------------------------------------------------------
# Cleaning without a metastore: what is obsolete waits for a retention, counted from the newest publication there.
#
# Nothing can tell who reads; the retention is the caller's statement that no query lasts longer.

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
    named = {row.ref for row in known}
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
            rows = self._queue.rows_at(one.target.location for one in about)
        except AcidError as error:
            return [error] if len(about) == 1 else [answer for one in about for answer in self.known([one])]
        return [[row for row in rows if row.facts.location == one.target.location] for one in about]

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


# --- undoing ----------------------------------------------------------------------------------------------------------
# Undoing without a metastore: the caller has stated that nobody reads, for nothing can tell.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A directory that is claimed."""

    target: Target
    claim: Claim

    def without_readers(self) -> AbstractContextManager[None]:
        """As the caller has stated."""
        return nullcontext()

    def assert_mine(self) -> None:
        """The claim is still ours; a directory is what it is."""
        self.claim.assert_mine()


class StandaloneUndoing:
    """The requests of our own queue that were made without a metastore."""

    def __init__(self, services: Services, queue: SqlQueue, *, nobody_reads: bool) -> None:
        self._services = services
        self._queue = queue
        self._nobody_reads = nobody_reads

    def find(self, request_id: int) -> CompactionRequest:
        """The row of our queue or its history."""
        row = self._queue.find(request_id)
        if row is None:
            raise MissingError(
                f"Cannot undo request {request_id}: there is no such request in {self._queue.shown}; see acidlib show, "
                "or name the queue with --queue-url"
            )
        if row.facts.metastore is not None:
            raise RefusedError(
                f"Cannot undo the compaction of {row.ref}: because request {request_id} is of the metastore "
                f"{row.facts.metastore}, which has to be named"
            )
        return row

    def require_stated(self) -> None:
        """That nobody reads, for files do not tell."""
        if not self._nobody_reads:
            raise UsageError("who reads cannot be known from files: give --nobody-reads, or --dry-run")

    def target(self, request: CompactionRequest) -> Target:
        """The place as the request describes it."""
        target = target_of(request)
        if not self._services.fs(target.location).is_directory(str(target.location)):
            raise RefusedError(
                f"Cannot undo the compaction of {target.ref}: because {target.location} does not exist any more"
            )
        return target

    def known(self, request: CompactionRequest, target: Target) -> Sequence[CompactionRequest]:
        """The rows about the location, by whatever name."""
        del request
        return self._queue.rows_at([target.location])

    @contextmanager
    def hold(self, request: CompactionRequest) -> Iterator[HeldForUndo]:
        """A claim of the place."""
        target = self.target(request)
        with self._services.claim(target.location) as claim:
            yield _Held(target=target, claim=claim)

    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """The result is the one that was published; whether somebody reads it nobody knows."""
        fs, witness = self._services.fs(target.location), request.facts.witness or ""
        if not is_there(fs, target.location, witness):
            raise RefusedError(
                f"Cannot undo the compaction of {target.ref}: because its result is not there any more: it was "
                "replaced, or the table was made anew"
            )

    def mark_undone(self, request: CompactionRequest, reason: str, facts: RequestFacts) -> None:
        """In our queue."""
        self._queue.mark_undone(request.id, reason, self._services.now_ms(), facts=facts)
