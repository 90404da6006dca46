"""Requests in a SQL queue: queueing and taking them, recovery after dead runs, holds of places, and cleaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from acidlib.acid.listing import Listing
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList
from acidlib.arguments import CANCEL, METASTORE_URI, QUEUE_URL, SHOW
from acidlib.config.settings import Settings
from acidlib.errors import (
    AcidError,
    ConflictError,
    CorruptError,
    MissingError,
    RefusedError,
    RetryError,
    UnnotedResultError,
    UsageError,
)
from acidlib.execute.answers import answers_of
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import WORKER_PREFIX, Services, step_seconds
from acidlib.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.results import Outcome, Statistics
from acidlib.model.tables import TableRef
from acidlib.places.attempts import COUNTED, Attempts, awaited_marks
from acidlib.places.place import ListedPlace, Place
from acidlib.planning.inputs import Publication
from acidlib.planning.results import quarantining_request
from acidlib.points import Point, reach
from acidlib.ports.backend import Decided, WaitingRequest
from acidlib.ports.holds import Hold, finish_publications
from acidlib.processes import has_ended, process_identity, signer_has_ended
from acidlib.queue.rules import Retention
from acidlib.queue.sql import SqlQueue
from acidlib.stores.store import STALE_SECONDS, Claim
from acidlib.wording import plural, utc_words


class Scope(Protocol):
    """The requests in a SQL queue that are a run's own, and the places they are about.

    by_location  a place is known by its location, whatever it is called
    """

    by_location: bool

    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request was made with these surroundings: the same metastore, or none."""

    def rows_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the rows of the queue and its history that concern a place."""

    def unverified_rows(self, place: Place) -> Sequence[CompactionRequest]:
        """Return `rows_at` a place, of which those matter that note an unverified result."""

    def current_location(self, row: CompactionRequest) -> Location:
        """Return the location of the place of a request; RefusedError where it is gone."""

    def places(self, rows: Sequence[CompactionRequest]) -> Sequence[Place | AcidError]:
        """Return the place of each request, or the error why that is unknown."""

    def request_for(self, place: Place, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request for a place."""

    def named_request(self, listed: ListedPlace, kind: CompactionType) -> CompactionRequest:
        """Return a request for a place that was named."""

    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return the request for a compaction that the initiator wants."""

    def exclusive(self, ref: TableRef) -> AbstractContextManager[object]:
        """Keep readers away from a table or partition, as far as anything can."""

    def notes(self) -> list[str]:
        """Return notes about requests in the queue that are left alone."""


class SqlRequests:
    """Requests in a SQL queue; those of other metastores, which are not `ours`, are left alone."""

    in_order = False

    def __init__(self, services: Services, queue: SqlQueue, scope: Scope) -> None:
        self.services = services
        self.queue = queue
        self.scope = scope
        self.queued_here: set[int] = set()
        """The requests that this run has queued for itself, which are withdrawn when it gives up."""
        self._failed: set[TableRef] | None = None
        """The places where a request has failed; None where they are not known."""

    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return our requests of a kind that wait."""
        rows = list(filter(self.scope.ours, self.queue.waiting(kind)))
        return list(zip(rows, self.scope.places(rows), strict=True))

    def warnings(self) -> list[str]:
        """Return none."""
        return []

    def recover(self, is_wanted: Callable[[CompactionRequest], bool]) -> list[str]:
        """Give back requests whose worker timed out (Hive Worker revocation), and wanted ones that a dead run took."""
        timeout = self.services.settings.integer("hive.compactor.worker.timeout")
        revoked = self.queue.revoke_timed_out(self.services.now_ms(), timeout)
        were = plural(revoked, "request was", "requests were")
        left_alone = self.scope.notes()
        notes = [f"{were} given back, as the worker timed out"] if revoked else []
        rows = self.queue.in_states(State.WORKING)

        def given_back(row: CompactionRequest) -> bool:
            return self.scope.ours(row) and is_wanted(row) and self._give_back_if_dead(row)

        for row, answer in zip(
            rows, in_threads(given_back, rows, seconds=step_seconds(self.services.settings)), strict=True
        ):
            if isinstance(answer, AcidError):
                notes.append(f"request {row.id} for {row.ref} could not be given back: {answer}")
            elif answer:
                notes.append(f"request {row.id} for {row.ref} was given back: its run is dead")
        self.services.warn(notes)
        return left_alone + notes

    def _give_back_if_dead(self, row: CompactionRequest) -> bool:
        """Give the request of a dead run back, and return whether that was done.

        Its publication is finished before: one of its two renames may have been made. A claim that seems stale is taken
        for that: then it is so by the clock of the store, whatever the clock of this machine says.
        """
        if row.worker_id is None or not self._seems_dead(row):
            return False
        try:
            with suppress(CorruptError, RefusedError):  # the run that takes the request reports it
                finish_publications(
                    self.services,
                    self.scope.current_location(row),
                    partial(self.scope.exclusive, row.ref),
                    claims_always=not is_known_dead(row),
                )
            self.queue.give_back(row.id, row.worker_id)
        except (ConflictError, RetryError):
            return False  # it has ended meanwhile, or another run works there
        return True

    def _seems_dead(self, row: CompactionRequest) -> bool:
        """Return whether the run that took a request seems dead by its process, or by its claim and the clock here.

        It does if its process has ended on this machine, if its claim on the place is stale, or if it has no claim
        and took the request longer ago than a claim may be silent: for a worker ends the request in the queue before it
        releases the claim.
        """
        if not (row.worker_id or "").startswith(WORKER_PREFIX):
            return False
        if is_known_dead(row):
            return True
        if row.start_ms is None:
            return False
        took_long = self.queue.now_ms(self.services.now_ms()) - row.start_ms > STALE_SECONDS * 1000
        try:
            location = self.scope.current_location(row)
        except RefusedError:
            return took_long  # the table is gone: the run that takes the request says so
        except AcidError:
            return False
        try:
            if not self.services.fs(location).is_directory(str(location)):
                return False
            holder = self.services.store(location).holder(location, now=self.services.clock())
        except AcidError:
            return False  # a place that is out of reach from here proves nothing
        is_stale = holder is None or holder.is_stale
        return is_stale and (took_long or (holder is not None and holder.owner == row.worker_id))

    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Claim the request by its id; None when another worker has it."""
        return self.queue.claim_id(request.id, self.services.worker_id, self.services.now_ms())

    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """End a request as refused, unless another worker has it."""
        worker, now_ms = self.services.worker_id, self.services.now_ms()
        if self.queue.claim_id(request.id, worker, now_ms):
            self.queue.end(request.id, State.REFUSED, now_ms, worker_id=worker, reason=reason)

    def submit(self, listed: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request for a named place, take it, and return it: it ends with this run.

        A waiting request of the same kind is taken over. ConflictError where any other request is in the way.
        """
        del buckets
        request = self.scope.named_request(listed, kind)
        queue, worker, now_ms = self.queue, self.services.worker_id, self.services.now_ms()
        request = replace(request, facts=request.facts.updated(RequestFacts(process=process_identity())))
        answer = queue.enqueue(request, now_ms=now_ms, worker_id=worker)
        if answer.working is not None:
            self.queued_here.add(answer.working.id)
            return answer.working
        waiting = None
        if answer.state is State.INITIATED:
            with suppress(CorruptError):  # a row that is not understood is in the way as well
                waiting = queue.find(answer.id)
        if waiting is None or waiting.type is not request.type:
            raise blocked_by_request_error(str(request.ref), answer.reason)
        claimed = queue.claim_id(answer.id, worker, now_ms)
        if claimed is None:
            raise taken_by_another_error(str(request.ref), answer.id)
        # the facts stated now are newer than those of the waiting request
        queue.change(answer.id, worker, facts=request.facts)
        return replace(claimed, facts=claimed.facts.updated(request.facts))

    def attempts(self, places: Sequence[Place]) -> Attempts:
        """Read the queue and its history: at the places in a queue of our own, else everywhere."""
        if self.queue.schema_version is None:
            rows = self.queue.rows_at((place.location for place in places), states=COUNTED)
        else:  # a metastore's rows have no locations
            rows = self.queue.in_states(*COUNTED)
        attempts = Attempts(filter(self.scope.ours, rows), self.services.settings)
        self._failed = attempts.failed if self.scope.by_location else None
        return attempts

    def backoff_reason(self, place: Place, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Apply the queue's rule of failed attempts; it is asked only where `attempts` saw a failure, if that tells."""
        if self._failed is not None and place.ref not in self._failed:
            return None
        initiator, now_ms, settings = self.services.initiator_id, self.services.now_ms(), self.services.settings
        request = self.scope.request_for(place, kind, initiator=initiator)
        reason = self.queue.failed_attempts(
            request,
            threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
            retry_ms=settings.integer("metastore.compactor.initiator.failed.retry.time"),
            now_ms=now_ms,
        )
        if reason is not None and not dry_run:
            self.queue.record_not_initiated(request, reason, now_ms)
        return reason

    def quarantining_request(self, place: Place, listing: Listing, *, anew: bool) -> CompactionRequest | None:
        """Judge the rows about the place as they are now: a run that verifies a result holds its place to the end."""
        del anew
        return quarantining_request(self.scope.unverified_rows(place), listing.top_directories())

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue all in one transaction, or each by itself where one is refused."""
        return answers_of(self._enqueue, decided)

    def _enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        requests = [self.scope.decided_request(decision) for decision in decided]
        answers = self.queue.enqueue_all(requests, now_ms=self.services.now_ms())
        return [answer.id if answer.accepted else ConflictError(answer.reason or ALREADY_QUEUED) for answer in answers]

    def find_own(self, request_id: int) -> CompactionRequest:
        """Return the request of an id; MissingError where there is none, UsageError unless it is `ours`."""
        row = self.queue.find(request_id)
        if row is None:
            raise MissingError(
                f"Cannot undo request {request_id}: there is no such request in {self.queue.shown}; see {SHOW}, "
                f"or name the queue with {QUEUE_URL}"
            )
        if not self.scope.ours(row):
            raise UsageError(f"Cannot undo the compaction of {row.ref}: request {request_id} is {surroundings_of(row)}")
        return row

    def purge_history(self) -> None:
        """Delete the rows of the history that the settings do not keep; a metastore purges its own."""
        if self.scope.by_location or self.queue.schema_version is None:
            self.queue.purge_history(history_retention(self.services.settings), self.services.now_ms())


def with_figures(request: CompactionRequest, decided: Decided) -> CompactionRequest:
    """Return a request with the figures of the initiator, for which only the tables of our own queue have room."""
    mark = decided.listed.write_ids.for_compactor().high_water_mark
    return replace(request, highest_write_id=mark, facts=request.facts.updated(decided.figures))


def is_known_dead(request: CompactionRequest) -> bool:
    """Return whether the run that made a request for itself, or took it, ran on this machine, and has ended."""
    return has_ended(request.facts.process or "") or signer_has_ended(request.worker_id or "")


def surroundings_of(row: CompactionRequest) -> str:
    """Return the surroundings of a request that is not `ours`, and how to name them."""
    owner = f"the metastore {row.facts.metastore}" if row.facts.metastore else "a directory alone"
    return f"of {owner}: name that with {METASTORE_URI} (or none)"


ALREADY_QUEUED = "it is already queued"
"""The reason where a queue says no more of a request that it does not accept."""


def blocked_by_request_error(name: str, reason: str | None) -> ConflictError:
    """Return the error for a named place while another request for it is in the queue."""
    return ConflictError(
        f"Cannot compact {name}: {reason or ALREADY_QUEUED}; {SHOW} has it: a run that drains the queue "
        f"does it, and {CANCEL} withdraws it while it waits"
    )


def taken_by_another_error(name: str, number: int) -> ConflictError:
    """Return the error for a request that another worker had first."""
    return ConflictError(f"Cannot compact {name}: another worker has taken request {number}, and does it; see {SHOW}")


def history_retention(settings: Settings) -> Retention:
    """Return the limits of the history by Hive's settings `metastore.compactor.history.retention.*`."""
    return Retention(
        succeeded=settings.integer("metastore.compactor.history.retention.succeeded"),
        failed=settings.integer("metastore.compactor.history.retention.failed"),
        did_not_initiate=settings.integer("metastore.compactor.history.retention.did.not.initiate"),
        refused=settings.integer("metastore.compactor.history.retention.refused"),
        timeout_ms=settings.integer("metastore.compactor.history.retention.timeout"),
        failed_threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
    )


class FencedPlace(Hold, Protocol):
    """What a hold keeps of its place: claim and locks, and the facts about it that its request notes."""

    def assert_claimed(self) -> None:
        """Raise ConflictError if the claim was lost; do nothing before `begin`."""

    def leave_claim(self) -> None:
        """Let the claim go stale, without asking a file system that does not answer."""

    def publishing(self, publication: Publication) -> AbstractContextManager[bool]:
        """Surround the moments in which results become visible, and yield whether a reader may list the place then.

        ConflictError if readers have to be kept away, and cannot be.
        """

    def user_to_note(self) -> str | None:
        """Return the user that the request has to note before the first byte is written; None = nothing."""

    def identity_facts(self) -> RequestFacts:
        """Return facts that tell the place from another one of its name, also before anything is published there."""

    def publication_facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Return the facts of this publication that the cleaner needs."""

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics of the place to the metastore; return None where there are none."""


class SqlHold:
    """A fenced place, and the request of a SQL queue that it is held for; one not taken by this run is only read."""

    def __init__(self, requests: SqlRequests, place: FencedPlace) -> None:
        self._services = requests.services
        self._requests = requests
        self._queue = requests.queue
        self._place = place
        self._mark: int | None = None
        self._inputs: str | None = None
        self._noted_unverified = bool(place.request.facts.unverified)

    @property
    def request(self) -> CompactionRequest:
        """The request."""
        return self._place.request

    @property
    def place(self) -> Place:
        """The place, as `FencedPlace` knows it."""
        return self._place.place

    @property
    def claim(self) -> Claim:
        """The claim on the place."""
        return self._place.claim

    def begin(self) -> None:
        """Claim the place, and lock it where anything can."""
        self._place.begin()

    def close(self) -> None:
        """Give back claim and locks; the request is ended by `end`, or given back by `abandon`."""
        self._place.close()

    def leave_claim(self) -> None:
        """Let the claim go stale, without asking a file system that does not answer."""
        self._place.leave_claim()

    def assert_claimed(self) -> None:
        """Check the claim alone."""
        self._place.assert_claimed()

    def assert_mine(self) -> None:
        """Check the place, and that a request that this run works on is still its own."""
        self._place.assert_mine()
        if self.request.state is State.WORKING:
            self._queue.assert_owned(self.request.id, self._services.worker_id)

    def exclusive(self) -> AbstractContextManager[object]:
        """Keep readers away as the place can."""
        return self._place.exclusive()

    def publishing(self, publication: Publication) -> AbstractContextManager[bool]:
        """Keep readers away, where that is needed, as the place can."""
        return self._place.publishing(publication)

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note it in the request, where later runs look for it until the request notes that the result is verified."""
        self._noted_unverified = True
        facts = replace(self._place.identity_facts(), unverified=directories, inputs=self._inputs)
        self._queue.change(self.request.id, self._services.worker_id, facts=facts)

    def note_mark(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Remember both until the result is noted in the queue, for without a result they do not count."""
        self._mark, self._inputs = high_water_mark, inputs
        if (run_as := self._place.user_to_note()) is not None:
            self._queue.change(self.request.id, self._services.worker_id, run_as=run_as)

    def awaited_marks(self) -> tuple[int, ...]:
        """Ask the queue."""
        return awaited_marks(self._requests.scope.rows_at(self.place))

    def only_clean(self, high_water_mark: int) -> None:
        """Make it a request to clean only.

        The run that made the directories obsolete may have died before it could tell the queue. The covering ones count
        as published now, for the queue does not know when they were.
        """
        self.note_mark(high_water_mark)
        self._mark_compacted(())

    def transactions_now(self) -> ValidTxnList:
        """Return a list in which everything has committed: transactions do not matter there."""
        return ALL_COMMITTED

    def published(self, directories: tuple[str, ...]) -> None:
        """Make the request ready for cleaning, with the facts that the cleaner needs."""
        try:
            self._mark_compacted(directories)
        except AcidError as error:
            raise UnnotedResultError(
                f"Cannot note that {self.place.ref} is compacted: {error}; its results are visible "
                "and right, and stay; clean it with a new compaction"
            ) from error

    def _mark_compacted(self, directories: tuple[str, ...]) -> None:
        now_ms = self._services.now_ms()
        facts = replace(
            self._place.publication_facts(directories), outputs=directories, published_ms=now_ms, inputs=self._inputs
        )
        if self._noted_unverified:
            facts = replace(facts, unverified=())
        self._queue.mark_compacted(
            self.request.id, self._services.worker_id, now_ms, highest_write_id=self._mark, facts=facts
        )
        reach(Point.MARKED)

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write them where the place has any."""
        return self._place.update_statistics(directories, rows)

    @property
    def keeps_needless(self) -> bool:
        """A metastore's history keeps it; a queue of our own does not."""
        return self._queue.schema_version is not None

    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Put refused and failed requests into the history; give a conflict back unless the place was named.

        A request that was left to another run is given back as well. One for a place that is compact already leaves
        nothing that a status would count.
        """
        number = self.request.id
        worker, now_ms = self._services.worker_id, self._services.now_ms()
        if outcome is Outcome.REFUSED or (outcome is Outcome.CONFLICT and named):
            self._queue.end(number, State.REFUSED, now_ms, worker_id=worker, reason=reason, facts=noted)
        elif outcome is Outcome.ALREADY_COMPACT:
            self._queue.mark_needless(number, now_ms, worker_id=worker)
        elif outcome is Outcome.FAILED:
            self._queue.end(number, State.FAILED, now_ms, worker_id=worker, reason=reason, facts=noted)
        elif outcome in (Outcome.CONFLICT, Outcome.SKIPPED):
            self.abandon()
        return None

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request back to the queue, or withdraw it."""
        is_new = self.request.id in self._requests.queued_here
        end = self._queue.withdraw if is_new and not may_be_visible else self._queue.give_back
        end(self.request.id, self._services.worker_id)


def retry_reason(services: Services, request: CompactionRequest) -> str | None:
    """Return why a cleaning that failed is not tried yet: 2^n times the retention after the commit, as in Hive."""
    if not request.retry_retention_ms or request.commit_ms is None:
        return None
    due_ms = request.commit_ms + request.retry_retention_ms
    if services.now_ms() >= due_ms:
        return None
    return f"the last try failed ({request.error_message}); the next is not made before {utc_words(due_ms / 1000)}"


def note_failed_cleaning(services: Services, queue: SqlQueue, request: CompactionRequest, error: AcidError) -> None:
    """Note a failed cleaning for a later try, or give the request up after so many."""
    base = services.settings.integer("metastore.compactor.cleaner.retry.retention.time")
    most = services.settings.integer("hive.compactor.cleaner.retry.maxattempts")
    before = request.retry_retention_ms
    attempts = 0 if not before or not base else (before // base).bit_length()
    if attempts >= most:
        queue.end(request.id, State.FAILED, services.now_ms(), reason=error.words)
    else:
        queue.change(request.id, None, error_message=error.words, retry_retention_ms=base << attempts)
