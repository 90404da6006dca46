"""One request in a SQL queue, done under locks of the metastore and published by renames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from acidlib.engine.backend import Taken
from acidlib.engine.catalog import Catalog, require_unchanged, run_as_user
from acidlib.engine.hive3.evidence import evidence_now, table_id
from acidlib.engine.hive3.metastore import Hive3Metastore, lock_timeout
from acidlib.engine.services import Services
from acidlib.engine.sql_hold import SqlHeldPlace, SqlHold
from acidlib.engine.statistics import StatisticsUpdater
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError
from acidlib.metastore.compactor_locks import CompactorLock, lock_place, publication_lock
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, State
from acidlib.planning.inputs import Publication
from acidlib.report.results import Statistics
from acidlib.storage.held import Claim


class Hive3Hold(SqlHold):
    """A request in a SQL queue, the claim on its place, and a lock of ours in the metastore."""

    def __init__(self, services: Services, metastore: Hive3Metastore, catalog: Catalog, taken: Taken) -> None:
        super().__init__(services, metastore.queue, taken)
        self._metastore = metastore
        self._catalog = catalog
        self._lock: CompactorLock | None = None

    def begin(self) -> Hive3HeldPlace:
        """Lock, claim, and take the snapshot by which everything is understood from here on."""
        request = self._taken.request
        lock = self._lock = lock_place(
            self._metastore.hms,
            self._metastore.beats,
            database=request.database,
            table=request.table,
            partition=request.partition,
            agent=self._services.worker_id,
        )
        target = self._catalog.place(request)
        _leave_to_hive(self._metastore, request)
        claim = self._claimed(target.location)
        return Hive3HeldPlace(self._services, self._metastore, self._catalog, request, target, claim=claim, lock=lock)

    def close(self) -> None:
        """Give claim and lock back."""
        try:
            super().close()
        finally:
            if self._lock is not None:
                self._lock.release()


class Hive3HeldPlace(SqlHeldPlace):
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
        super().__init__(services, metastore.queue, request, target, claim)
        self._metastore = metastore
        self._hms = metastore.hms
        self._catalog = catalog
        self._lock = lock
        self._since = services.clock()
        self._publication: CompactorLock | None = None

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Record the mark, and whom this runs as where Hive shows it."""
        super().start(high_water_mark, inputs)
        if self._request.run_as is None and not self._metastore.own_queue:
            self._queue.set_run_as(self._request.id, self._services.worker_id, run_as_user(self._services, self.target))

    @contextmanager
    def publishing(self, publication: Publication) -> Iterator[None]:
        """Under a lock: no ALTER or DROP in between, and for two renames no reader either."""
        request = self._request
        exclusive = publication in (Publication.TWO_RENAMES, Publication.FILE_BY_FILE)
        try:
            lock = publication_lock(
                self._hms,
                self._metastore.beats,
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
                self._services.progress.note(str(error), place=self.target.name)

    def assert_mine(self, high_water_mark: int) -> None:
        """Lock, claim and request are ours, and table and place are what they were."""
        self._lock.assert_alive()
        if self._publication is not None:
            self._publication.assert_alive()
        super().assert_mine(high_water_mark)
        _leave_to_hive(self._metastore, self._request)
        require_unchanged(self.target, self._catalog.whereabouts(self._request), "publish")

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """In the metastore's database, where that is named."""
        updater = StatisticsUpdater(self._services, self._hms, self._metastore.parameters)
        return updater.update(self.target, known_since=self._since, results=directories, rows=rows)

    def _identity(self) -> RequestFacts:
        return RequestFacts(table_id=table_id(self.target))

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """What the cleaner needs: which transactions and locks existed once the results were visible."""
        evidence = evidence_now(self._hms.open_txns(), self._hms.show_locks(), self._services.now_ms())
        return RequestFacts(evidence=dict.fromkeys(directories or ("",), evidence), table_id=table_id(self.target))

    def _may_be_unverified(self) -> bool:
        """Rows of a metastore's queue state no location."""
        return True

    def _rows_here(self) -> Sequence[CompactionRequest]:
        return self._metastore.of_entity(self._request)

    def _count_try(self) -> None:
        tried = RequestFacts(lock_tries=self._request.facts.lock_tries + 1)
        self._queue.set_facts(self._request.id, self._services.worker_id, tried)


def _leave_to_hive(metastore: Hive3Metastore, request: CompactionRequest) -> None:
    """Hive's own committer deletes an existing target before it renames: never be there at the same time."""
    if not metastore.own_queue:
        return
    for row in metastore.hms.show_compactions():
        if row.entity == request.entity and row.state in (State.INITIATED, State.WORKING):
            raise ConflictError(
                f"Cannot compact {row.full_name}: Hive's own request {row.id} for it is {row.state.label}; "
                "call again when it is done"
            )
