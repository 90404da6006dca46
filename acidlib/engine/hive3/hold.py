"""One request in a SQL queue, done under locks of the metastore and published by renames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from acidlib.engine.backend import Taken
from acidlib.engine.catalog import Catalog, require_unchanged
from acidlib.engine.hive3.connected import Connected3, lock_timeout
from acidlib.engine.hive3.evidence import Evidence, format_evidence, table_id
from acidlib.engine.names import run_as_user
from acidlib.engine.services import Services
from acidlib.engine.sql_hold import SqlHold
from acidlib.engine.target import EVIDENCE, LOCK_TRIES, TABLE_ID, Target
from acidlib.errors import AcidError, ConflictError
from acidlib.metastore.compactor_locks import CompactorLock, lock_place, publication_lock
from acidlib.model.requests import State
from acidlib.model.txnids import ALL_COMMITTED, ValidTxnList
from acidlib.planning.inputs import Publication


class Hive3Hold(SqlHold):
    """A request in a SQL queue, the claim on its place, and a lock of ours in the metastore."""

    def __init__(self, services: Services, connected: Connected3, catalog: Catalog, taken: Taken) -> None:
        super().__init__(services, connected.queue, taken)
        self._connected = connected
        self._hms = connected.hms
        self._catalog = catalog
        self._request = taken.request
        self._place: Target | None = None
        self._lock: CompactorLock | None = None
        self._publication: CompactorLock | None = None

    def begin(self) -> Target:
        """Lock, claim, and take the snapshot by which everything is understood from here on."""
        request = self._request
        self._catalog.place(request)  # what does not exist is refused before anything is locked
        self._lock = lock_place(
            self._hms,
            self._connected.beats,
            database=request.database,
            table=request.table,
            partition=request.partition,
            agent=self._services.worker_id,
        )
        self._place = self._catalog.place(request)
        self._taken = replace(self._taken, target=self._place)
        self._leave_to_hive()
        return super().begin()

    def start(self, high_water_mark: int) -> None:
        """Record the mark, and whom this runs as where Hive shows it."""
        super().start(high_water_mark)
        if self._request.run_as is None and not self._connected.own_queue:
            self._queue.set_run_as(self._id, self._services.worker_id, run_as_user(self._services, self._taken.target))

    @contextmanager
    def publishing(self, publication: Publication) -> Iterator[None]:
        """Under a lock: no ALTER or DROP in between, and for two renames no reader either."""
        request = self._request
        exclusive = publication is Publication.TWO_RENAMES
        try:
            lock = publication_lock(
                self._hms,
                self._connected.beats,
                database=request.database,
                table=request.table,
                partition=request.partition,
                exclusive=exclusive,
                timeout_seconds=lock_timeout(self._services),
                agent=self._services.worker_id,
            )
            self._publication = lock.__enter__()
        except ConflictError:
            if exclusive:
                self._count_try()
            raise
        try:
            yield
        finally:
            self._publication = None
            try:
                lock.__exit__(None, None, None)
            except AcidError as error:
                # what was published stays published
                self._services.progress.note(f"{self._taken.target.name}: {error}")

    def assert_mine(self, high_water_mark: int) -> ValidTxnList:
        """Lock, claim and request are ours, and table and place are what they were."""
        assert self._lock is not None
        self._lock.assert_alive()
        if self._publication is not None:
            self._publication.assert_alive()
        super().assert_mine(high_water_mark)
        self._leave_to_hive()
        assert self._place is not None
        require_unchanged(self._place, self._catalog.place(self._request), "publish")
        return ALL_COMMITTED

    def close(self) -> None:
        """Give claim and lock back."""
        try:
            super().close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def _properties(self, directories: tuple[str, ...]) -> dict[str, str]:
        """What the cleaner needs: which transactions and locks existed once the results were visible."""
        evidence = Evidence.of(self._hms.open_txns(), self._hms.show_locks(), self._services.now_ms())
        # an empty name stands for the publication itself, where it left nothing
        return {
            EVIDENCE: format_evidence(dict.fromkeys(directories or ("",), evidence)),
            TABLE_ID: table_id(self._taken.target),
        }

    def _awaits_cleaning(self) -> bool:
        entity = self._request.entity
        return any(other.entity == entity and self._connected.ours(other) for other in self._queue.ready_for_cleaning())

    def _count_try(self) -> None:
        tries = int(self._request.property(LOCK_TRIES) or 0) + 1
        self._queue.set_properties(self._id, self._services.worker_id, {LOCK_TRIES: str(tries)})

    def _leave_to_hive(self) -> None:
        """Hive's own committer deletes an existing target before it renames: never be there at the same time."""
        if not self._connected.own_queue:
            return
        for row in self._hms.show_compactions():
            if row.entity == self._request.entity and row.state in (State.INITIATED, State.WORKING):
                raise ConflictError(
                    f"Cannot compact {row.full_name}: because Hive's own request {row.id} for it is {row.state.label}"
                )
