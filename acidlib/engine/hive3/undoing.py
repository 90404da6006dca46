"""Undoing with a metastore of Hive 3.1: under the lock of a compactor, and an exclusive one that no reader shares.

A reader without a lock yet waits for it, lists the place after that, and reads the inputs: by any snapshot, for they
are directories of single writes. So open transactions that hold no lock there do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from acidlib.engine.catalog import Catalog, require_unchanged
from acidlib.engine.hive3.cleaning import require_no_compactor
from acidlib.engine.hive3.evidence import concerns, table_id
from acidlib.engine.hive3.metastore import Hive3Metastore, alone_with
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.engine.undo import HeldForUndo
from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.metastore.compactor_locks import CompactorLock, lock_place
from acidlib.metastore.lock_rules import describe_holders
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest
from acidlib.storage.held import Claim


class Hive3Undoing:
    """The requests of one metastore, in its own queue or in ours."""

    def __init__(self, services: Services, metastore: Hive3Metastore) -> None:
        self._services = services
        self._metastore = metastore
        self._catalog = Catalog(services, metastore.hms)

    def find(self, request_id: int) -> CompactionRequest:
        """The row of the queue or its history."""
        row = self._metastore.queue.find(request_id)
        if row is None:
            raise MissingError(
                f"Cannot undo request {request_id}: there is no such request in {self._metastore.queue.shown}; see "
                "acidlib show"
            )
        if not self._metastore.ours(row):
            raise RefusedError(
                f"Cannot undo the compaction of {row.full_name}: because request {request_id} is not of the metastore "
                f"{self._metastore.name}"
            )
        return row

    def require_stated(self) -> None:
        """Nothing: the metastore knows who reads."""

    def target(self, request: CompactionRequest) -> Target:
        """The very table that was compacted, where it lay."""
        target = self._catalog.place(request)
        if request.facts.table_id != table_id(target):
            raise RefusedError(
                f"Cannot undo the compaction of {target.name}: because the table was made anew or moved since"
            )
        return target

    def known(self, request: CompactionRequest, target: Target) -> Sequence[CompactionRequest]:
        """The rows about the table or partition."""
        del target
        return self._metastore.of_entity(request)

    @contextmanager
    def hold(self, request: CompactionRequest) -> Iterator[HeldForUndo]:
        """The lock of a compactor, and a claim of the place."""
        with lock_place(
            self._metastore.hms,
            self._metastore.beats,
            database=request.database,
            table=request.table,
            partition=request.partition,
            agent=self._services.worker_id,
        ) as lock:
            target = self.target(request)
            with self._services.claim(target.location) as claim:
                yield _Held(self._services, self._metastore, self._catalog, request, target, claim=claim, lock=lock)

    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """Nobody holds a lock there, or waits for one: then nobody has to wait for us for long, either."""
        require_no_compactor(self._metastore, request, target, "undo the compaction of")
        locks = [lock for lock in self._metastore.hms.show_locks() if concerns(lock, *request.entity)]
        if locks:
            held = describe_holders(locks)
            raise ConflictError(f"Cannot undo the compaction of {target.name}: because its result may be read: {held}")

    def mark_undone(self, request: CompactionRequest, reason: str, facts: RequestFacts) -> None:
        """In whichever queue it is."""
        self._metastore.queue.mark_undone(request.id, reason, self._services.now_ms(), facts=facts)


class _Held:
    """A place that is claimed, and locked against other compactors in the metastore."""

    def __init__(
        self,
        services: Services,
        metastore: Hive3Metastore,
        catalog: Catalog,
        request: CompactionRequest,
        target: Target,
        *,
        claim: Claim,
        lock: CompactorLock,
    ) -> None:
        self._services = services
        self._metastore = metastore
        self._catalog = catalog
        self._request = request
        self._claim = claim
        self._locks = [lock]
        self.target = target

    @contextmanager
    def without_readers(self) -> Iterator[None]:
        """An exclusive lock on the place."""
        exclusive = alone_with(self._services, self._metastore, *self._request.entity)
        lock = exclusive.__enter__()
        self._locks.append(lock)
        try:
            yield
        finally:
            self._locks.remove(lock)
            try:
                exclusive.__exit__(None, None, None)
            except AcidError as error:
                # what was taken back stays so
                self._services.progress.note(str(error), place=self.target.name)

    def assert_mine(self) -> None:
        """Locks and claim are ours; the table is that one, lies there, and Hive's own compactor is not at work."""
        for lock in self._locks:
            lock.assert_alive()
        self._claim.assert_mine()
        require_unchanged(self.target, self._catalog.whereabouts(self._request), "undo the compaction of")
        require_no_compactor(self._metastore, self._request, self.target, "undo the compaction of")
