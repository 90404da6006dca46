"""Cleaning with a metastore of Hive 4: by the strict watermark, over thrift alone, or by what readers registered.

A request may be cleaned when no transaction is open that existed when its compaction committed: then every snapshot in
use was taken after that commit, and knows the result. Source: Hive 4 `CompactionTxnHandler.findReadyToClean` and
`CompactionCleaner`, except that the comparison is strict (HIVE-23048, HIVE-24291). Where readers register what they
read, transactions that read other tables do not count: see `readers`.

The commit of a rebalance notes no transaction with its request, and Hive's cleaner takes that for "none". Here the
first run that sees it committed notes the highest transaction there is by then, which is none too low.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from acidlib.engine.catalog import Catalog, Entity
from acidlib.engine.cleaning import CleanerOptions, Cleaning, ListedRequest, each_alone, recorded_mark
from acidlib.engine.hive4.readers import MIN_HISTORY, Readers, Registered, SeenFirst, Unseen, Watermark
from acidlib.engine.hive4.recovery import recover
from acidlib.engine.hive4.rolled_back import NOTHING_FORGOTTEN, RolledBack
from acidlib.engine.metastore_cleaning import DROPPED, CleaningPlaces, is_wanted, retention_of
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.metastore.hms import Hms
from acidlib.metastore.values import OpenTxns, ShownRequest
from acidlib.model.generation import Generation
from acidlib.model.names import parse_directory
from acidlib.model.requests import CommitNote, CompactionRequest, CompactionType, State
from acidlib.planning.clean import CleanPlan, aborted_present, cleanable
from acidlib.queue.min_history import MinHistory
from acidlib.queue.noted_writes import NotedWrites
from acidlib.wording import retention_words

CLEANER_ON = "metastore.compactor.cleaner.on"


def hive4_cleaning(
    services: Services,
    hms: Hms,
    options: CleanerOptions,
    history: MinHistory | None = None,
    notes: NotedWrites | None = None,
) -> Cleaning:
    """The requests of a Hive 4 metastore that are ready for cleaning, and what is due after rolled back transactions.

    `history` and `notes` are in its database, if that is known.

    A cleaning that failed leaves its row as it is, for thrift has no way to note it; and places of which no request is
    at hand are not known without a look at all tables.
    """
    first = SeenFirst(hms)
    readers = _readers(services, hms, first, history)
    if not isinstance(readers, Unseen):
        refuse_beside_hives(hms, force=options.force)
    retention = retention_of(services.settings, options)
    catalog = Catalog(services, hms)
    places = CleaningPlaces(catalog, readers.snapshot, lambda request_id: _find(hms, request_id))
    rolled_back = None if notes is None else RolledBack(services, hms, catalog, notes, options)

    def check(request: CompactionRequest, target: Target) -> None:
        """The request is still there, and its table has the name by which readers were looked for."""
        found = _find(hms, request.id)
        if found is None:
            raise ConflictError(f"Cannot clean {target.name}: because request {request.id} was cleaned by another")
        if readers.renamed_is_another and found.entity != request.entity:
            raise _renamed(request)

    requests = Hive4ReadyRequests(
        services,
        hms,
        first,
        readers,
        options,
        retention,
        places,
        lambda: rolled_back is not None and rolled_back.is_seen,
    )
    return Cleaning(
        requests=requests,
        proof=WatermarkProof(services, places, retention, readers, requests.still_waiting),
        history=Hive4History(hms, rolled_back),
        must_exist=True,
        check=check,
        unmoved=places.require_unmoved,
        further=rolled_back,
    )


class Hive4ReadyRequests:
    """The requests that the metastore shows as ready for cleaning."""

    def __init__(
        self,
        services: Services,
        hms: Hms,
        first: SeenFirst,
        readers: Readers,
        options: CleanerOptions,
        retention: float,
        places: CleaningPlaces,
        ends_retries: Callable[[], bool],
    ) -> None:
        """`ends_retries` says whether this run sees itself to what Hive's cleaner queued after rolled back ones."""
        self._services = services
        self._hms = hms
        self._ends_retries = ends_retries
        self._first = first
        self._readers = readers
        self._options = options
        self._retention = retention
        self._places = places
        self._waiting: dict[Entity, dict[int, str]] = {}

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self._services, self._hms, is_wanted=partial(is_wanted, self._options))

    def ready(self) -> list[CompactionRequest]:
        """The requests that the metastore shows, an earlier mark of a place before a later one.

        A later one does not wait for an earlier one: its own watermark is the higher one, and what it covers may be
        just what the earlier one cannot get rid of.
        """
        txns = self._first.txns  # before the requests: what has committed by it is among them
        rows = [
            self._with_bound(_with_mark(row), txns)
            for row in self._hms.show_compactions()
            if row.state is State.READY_FOR_CLEANING
            and is_wanted(self._options, row)
            and not (row.type is CompactionType.ABORT_TXN_CLEANUP and self._ends_retries())
        ]
        if rows:
            self._readers.look()
        for row in rows:
            reason = self.waits(row)
            if reason is not None and row.txn_id is not None:
                self._waiting.setdefault(row.entity, {})[row.txn_id] = reason
        self._places.expect([row for row in rows if self._options.dry_run or self.waits(row) is None])
        return sorted(rows, key=lambda row: (row.highest_write_id or 0, row.id))

    def still_waiting(self, request: CompactionRequest) -> Mapping[int, str]:
        """The transactions of requests of the same place that wait, and what for: what they cover may be read."""
        return self._waiting.get(request.entity, {})

    def _with_bound(self, row: ShownRequest, txns: OpenTxns) -> ShownRequest:
        """A rebalance that has committed, with the highest transaction and the time that are noted of it, or are now.

        They are later than its commit, which they stand for.
        """
        if row.type is not CompactionType.REBALANCE or row.next_txn_id is not None or row.txn_id is None:
            return row
        bound = row.noted_commit
        if bound is None and txns.txns.is_txn_valid(row.txn_id):
            bound = CommitNote(next_txn_id=txns.high_water_mark, commit_ms=self._services.now_ms())
            if not self._options.dry_run:
                self._hms.set_job_id(row, bound.text)
        if bound is None:
            return row
        return replace(row, next_txn_id=bound.next_txn_id, commit_ms=bound.commit_ms)

    def waits(self, request: CompactionRequest) -> str | None:
        """Whether the watermark has passed the request, and whether its row is ours to clean."""
        if request.type is CompactionType.ABORT_TXN_CLEANUP:
            return f"left to Hive's own cleaner: it is a {request.type.label}"
        if request.start_ms is None:
            return "left to Hive's own cleaner: it is for a table or partition that was dropped, not for a compaction"
        if request.next_txn_id is None or request.commit_ms is None:
            return f"its transaction {request.txn_id or 'unknown'} has not committed"
        reading = self._readers.waits(request)
        if reading is not None:
            return reading
        due = request.commit_ms / 1000 + self._retention
        if due > self._services.clock():
            return retention_words(self._retention, due)
        return None


class WatermarkProof:
    """That no transaction is open any more that existed when the compaction committed; `waits` has judged that."""

    def __init__(
        self,
        services: Services,
        places: CleaningPlaces,
        retention: float,
        readers: Readers,
        still_waiting: Callable[[CompactionRequest], Mapping[int, str]],
    ) -> None:
        """`still_waiting` names the transactions of results whose inputs may be read, and why."""
        self._services = services
        self._places = places
        self._retention = retention
        self._readers = readers
        self._still_waiting = still_waiting

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """The place as of a snapshot that all who may read it have at least."""
        found, target = self._places.of(request, anew=anew)
        if self._readers.renamed_is_another and found.entity != request.entity:
            raise _renamed(found)
        return found, target

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """Nothing that is needed."""
        return [() for _ in about]

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """Obsolete and aborted, as every transaction that is open now sees it; there is nothing to note."""
        del known
        request, target, listing = looked.request, looked.target, looked.listing
        commit = (request.commit_ms or 0) / 1000
        waiting = self._still_waiting(request)
        names = {name: parse_directory(name, Generation.HIVE4) for name in listing.top_directories() if waiting}
        return cleanable(
            listing,
            recorded_mark(request),
            target.write_ids(listing),
            generation=Generation.HIVE4,
            now=self._services.clock(),
            retention_seconds=self._retention,
            newest_publication=commit,
            published_at=_Always(commit),
            txns=target.interpretation.txns,
            still_read={
                name: waiting[parsed.visibility_txn]
                for name, parsed in names.items()
                if parsed is not None and parsed.visibility_txn in waiting
            },
        )


class Hive4History:
    """The history of the metastore, which then forgets aborted write ids up to the mark that is stated."""

    def __init__(self, hms: Hms, rolled_back: RolledBack | None = None) -> None:
        """`rolled_back` has forgotten what thrift cannot say."""
        self._hms = hms
        self._rolled_back = rolled_back

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests as succeeded."""
        return each_alone(self._cleaned, done)

    def _cleaned(self, done: ListedRequest) -> str | None:
        """End a request; up to the mark the metastore forgets what no directory holds rows of.

        Where a delta that is needed holds rows of aborted write ids, it forgets only what is below the lowest of them:
        Hive's own cleaner has those forgotten that it removed (HIVE-24481), which thrift cannot say.

        The list may end below the recorded mark, when the metastore has forgotten all that committed: what lies above
        its end was not looked at, and must not be forgotten.
        """
        request, listing, target = done.request, done.listing, done.target
        write_ids = target.write_ids(listing)
        mark = min(recorded_mark(request), write_ids.high_water_mark)
        present = aborted_present(listing, write_ids, generation=Generation.HIVE4, up_to=mark)
        forgotten = min([mark, *(write_id - 1 for write_id in present)])
        self._hms.mark_cleaned(replace(request, highest_write_id=forgotten or NOTHING_FORGOTTEN))
        if present and self._rolled_back is not None:
            self._rolled_back.forget_what_is_gone(target, listing, mark)
        return None

    def dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self._hms.mark_refused(replace(request, error_message=DROPPED))


def _find(hms: Hms, request_id: int) -> CompactionRequest | None:
    """The request of an id, where it is still ready for cleaning."""
    row = hms.find_compaction(request_id)
    return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)


def _with_mark(row: ShownRequest) -> ShownRequest:
    """Thrift has no null: the mark 0 of a compaction of nothing but original files reads like none."""
    known = row.highest_write_id is not None or row.txn_id is None
    return row if known else replace(row, highest_write_id=0)


class _Always(Mapping[str, float]):
    """Every directory was published at one time: the watermark is the proof, not the age."""

    def __init__(self, time: float) -> None:
        self._time = time

    def __getitem__(self, key: str) -> float:
        return self._time

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(())

    def __len__(self) -> int:
        return 0


def _readers(services: Services, hms: Hms, first: SeenFirst, history: MinHistory | None) -> Readers:
    """What proves that nobody reads, by the metastore's setting; where it is unknown, readers may register."""
    if hms.config_value(MIN_HISTORY, "unknown").strip().lower() == "false":
        return Watermark(first)
    if history is not None and history.read() is not None:
        return Registered(hms, first, history, services.unique)
    named = "--queue-url does not name it" if history is None else f"{history.shown} is none of a metastore of Hive 4"
    return Unseen(first, f"and {named}", is_off=_cleaner_on(hms) == "false")


def _renamed(request: CompactionRequest) -> ConflictError:
    return ConflictError(
        f"Cannot clean {request.full_name}: because its table was renamed since readers were looked for; the next run "
        "goes on"
    )


def refuse_beside_hives(hms: Hms, *, force: bool) -> None:
    """Refuse where Hive's own cleaner does it, unless that is forced."""
    if not force and _cleaner_on(hms) != "false":
        raise RefusedError(
            f"Cannot clean beside Hive's own cleaner: because the metastore's {CLEANER_ON} is not false; Hive cleans "
            "what was compacted, or --force cleans too"
        )


def _cleaner_on(hms: Hms) -> str:
    return hms.config_value(CLEANER_ON, "unknown").strip().lower()
