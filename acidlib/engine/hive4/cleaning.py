"""Cleaning with a metastore of Hive 4: by the strict watermark, over thrift alone.

A request may be cleaned when no transaction is open that existed when its compaction committed: then every snapshot in
use was taken after that commit, and knows the result. Source: Hive 4 `CompactionTxnHandler.findReadyToClean` and
`CompactionCleaner`, except that the comparison is strict (HIVE-23048, HIVE-24291).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from acidlib.engine.catalog import Catalog, require_unchanged
from acidlib.engine.cleaner import CleaningAsked, recorded_mark
from acidlib.engine.cleaning_rules import GONE, NO_FORGETTING, cleaning_place, retention_of, wanted
from acidlib.engine.hive4.connected import MIN_HISTORY
from acidlib.engine.hive4.recovery import recover
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.metastore.hms import Hms
from acidlib.metastore.values import OpenTxns, ShownRequest
from acidlib.model.generation import Generation
from acidlib.model.listing import Listing
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.txnids import ValidTxnList
from acidlib.planning.clean import CleanPlan, aborted_present, cleanable, left_over

CLEANER_ON = "metastore.compactor.cleaner.on"


class Hive4Cleaning:
    """The requests of a Hive 4 metastore that are ready for cleaning."""

    def __init__(self, services: Services, hms: Hms, asked: CleaningAsked) -> None:
        self._services = services
        self._hms = hms
        self._asked = asked
        self._catalog = Catalog(services, hms)
        self._retention = retention_of(services.settings, asked)
        refuse_unless_ours(hms, force=asked.force)
        self._txns: OpenTxns | None = None
        self._marks: dict[int, int] = {}

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self._services, self._hms)

    def ready(self) -> list[CompactionRequest]:
        """An earlier mark of a place before a later one.

        A later one does not wait for an earlier one: its own watermark is the higher one, and what it covers may be
        just what the earlier one cannot get rid of.
        """
        rows = [
            row
            for row in self._hms.show_compactions()
            if row.state is State.READY_FOR_CLEANING and wanted(self._asked, row)
        ]
        self._txns = self._hms.open_txns()
        return sorted((_with_mark(row) for row in rows), key=lambda row: (row.highest_write_id or 0, row.id))

    def waits(self, request: CompactionRequest) -> str | None:
        """The watermark, and the rows that are not ours to clean."""
        assert self._txns is not None
        if request.type not in (CompactionType.MAJOR, CompactionType.MINOR):
            return f"left to Hive's own cleaner: it is a {request.type.label}"
        if request.start_ms is None:
            return "left to Hive's own cleaner: it is for a table or partition that was dropped, not for a compaction"
        if request.next_txn_id is None or request.commit_ms is None:
            return f"its transaction {request.txn_id or 'unknown'} has not committed"
        if self._txns.min_open <= request.next_txn_id:
            return (
                f"transaction {self._txns.min_open} is open since before its commit (transactions up to "
                f"{request.next_txn_id} have to end; show_compactions --blockers names them)"
            )
        due = request.commit_ms / 1000 + self._retention
        if due > self._services.clock():
            return f"the retention of {self._retention:g} s has not passed"
        return None

    def again(self, request: CompactionRequest) -> CompactionRequest | None:
        """Hive renames requests with their table."""
        row = self._hms.find_compaction(request.id)
        return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)

    @property
    def place_is_known(self) -> bool:
        """The metastore says that it exists."""
        return True

    def target(self, request: CompactionRequest) -> Target | None:
        """The place as of a snapshot below the watermark; None when it was dropped."""
        assert self._txns is not None
        return cleaning_place(self._catalog, request, below(self._txns))

    def finishing(self, request: CompactionRequest) -> AbstractContextManager[None]:
        """Nothing is published in several visible steps here."""
        del request
        return nullcontext()

    def plan(self, request: CompactionRequest, target: Target, listing: Listing) -> CleanPlan:
        """Obsolete and aborted, as every transaction that is open now sees it."""
        commit = (request.commit_ms or 0) / 1000
        self._marks[request.id] = target.write_ids(listing).high_water_mark
        return cleanable(
            listing,
            recorded_mark(request),
            target.write_ids(listing),
            generation=Generation.HIVE4,
            now=self._services.clock(),
            retention_seconds=self._retention,
            newest_publication=commit,
            published_at=_Always(commit),
            txns=target.understanding.txns,
        )

    def remember(self, request: CompactionRequest, plan: CleanPlan) -> None:
        """The metastore remembers all there is."""

    def check(self, request: CompactionRequest, target: Target) -> None:
        """The request is still there, and the place where it was."""
        row = self._hms.find_compaction(request.id)
        if row is None or row.state is not State.READY_FOR_CLEANING:
            raise ConflictError(f"Cannot clean {target.name}: because request {request.id} was cleaned by another")
        require_unchanged(target, self._catalog.place(request), "clean")

    def left(self, request: CompactionRequest, target: Target, listing: Listing) -> Sequence[str]:
        """As Hive verifies: with every transaction counted as committed."""
        return left_over(listing, recorded_mark(request), target.write_ids(listing), generation=Generation.HIVE4)

    def keeps(self, request: CompactionRequest, target: Target, listing: Listing) -> str | None:
        """mark_cleaned over thrift forgets every aborted write id up to the mark: none may lie there any more."""
        still = aborted_present(
            listing, target.write_ids(listing), generation=Generation.HIVE4, up_to=recorded_mark(request)
        )
        return NO_FORGETTING.format(ids=", ".join(map(str, still[:5]))) if still else None

    def cleaned(self, request: CompactionRequest) -> None:
        """To the history of the metastore, which then forgets aborted write ids up to the mark that it is told.

        The list may end below the recorded mark, when the metastore has forgotten all that committed: what lies above
        its end was not looked at, and must not be forgotten.
        """
        mark = recorded_mark(request)
        self._hms.mark_cleaned(replace(request, highest_write_id=min(mark, self._marks.get(request.id, mark))))

    def gone(self, request: CompactionRequest) -> None:
        """Refused: a table may only seem to be gone, to a user who may not see it, and cleaned would mean forgotten."""
        self._hms.mark_refused(replace(request, error_message=GONE))

    def failed(self, request: CompactionRequest, error: AcidError) -> None:
        """The row stays as it is: thrift has no way to note a failed cleaning."""

    def places(self) -> list[tuple[CompactionRequest, str]]:
        """Places of the requests at hand are looked at when they are cleaned; no others are known without a scan."""
        return []


def _with_mark(row: ShownRequest) -> CompactionRequest:
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


def below(txns: OpenTxns) -> ValidTxnList:
    """The snapshot that every open transaction has at least: what committed at or above the lowest open is not in it.

    Source: Hive 4 `CompactionCleaner` (the capped transaction list).
    """
    cap = txns.min_open - 1
    return ValidTxnList(
        high_water_mark=cap,
        aborted=tuple((low, min(high, cap)) for low, high in txns.txns.aborted if low <= cap),
    )


def refuse_unless_ours(hms: Hms, *, force: bool) -> None:
    """Refuse where reading cannot be proven over, or where Hive's own cleaner does it."""
    mode = hms.config_value(MIN_HISTORY, "unknown").strip().lower()
    if mode != "false":
        raise RefusedError(
            f"Cannot clean by transactions: because the metastore's {MIN_HISTORY} is {mode}, and readers then register "
            "where no client can see them; leave cleaning to Hive's own cleaner"
        )
    if not force and hms.config_value(CLEANER_ON, "unknown").strip().lower() != "false":
        raise RefusedError(
            f"Cannot clean beside Hive's own cleaner: because the metastore's {CLEANER_ON} is not false; Hive cleans "
            "what was compacted, or --force cleans too"
        )
