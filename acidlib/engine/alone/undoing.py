"""Undoing without a metastore: the caller has stated that nobody reads, for nothing can tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from acidlib.engine.services import Services
from acidlib.engine.target import Target, target_of
from acidlib.engine.undo import HeldForUndo
from acidlib.errors import MissingError, RefusedError, UsageError
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest
from acidlib.queue.sql import SqlQueue
from acidlib.storage.held import Claim
from acidlib.storage.witness import is_there


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
                f"Cannot undo the compaction of {row.full_name}: because request {request_id} is of the metastore "
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
                f"Cannot undo the compaction of {target.name}: because {target.location} does not exist any more"
            )
        return target

    def known(self, request: CompactionRequest, target: Target) -> Sequence[CompactionRequest]:
        """The rows about the location, by whatever name."""
        del request
        return self._queue.at_location(target.location)

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
                f"Cannot undo the compaction of {target.name}: because its result is not there any more: it was "
                "replaced, or the table was made anew"
            )

    def mark_undone(self, request: CompactionRequest, reason: str, facts: RequestFacts) -> None:
        """In our queue."""
        self._queue.mark_undone(request.id, reason, self._services.now_ms(), facts=facts)
