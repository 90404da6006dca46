"""Documents of jobs, made as the jobs make them, to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.results import (
    CleaningResult,
    CompactionResult,
    InitiatorResult,
    Outcome,
    RemovedPath,
    RunHead,
    StatedSetting,
    Waiting,
)
from acidlib.model.status import CleaningBlocker, PlaceFigures, Transaction
from acidlib.model.tables import TableRef
from acidlib.model.units import PlannedAction, UnitResult
from acidlib.planning.health import KnownTransaction, ListedFigures, StatusSnapshot, status_document
from acidlib.report.answers import Status
from acidlib.report.run import Cleanings, Compactions, Decisions, RunReport, RunResult
from acidlib.report.values import Result

MIB = 1 << 20
PLACE: dict[str, Any] = {"database": "sales", "table": "orders", "partition": "ds=7", "location": "/w/orders/ds=7"}
HEAD = RunHead(
    job="a job",
    version="1.2",
    run_id="acidlib-h-1",
    start_ms=1_766_500_000_000,
    end_ms=1_766_500_090_000,
    application_id="app-17",
    settings=(StatedSetting(name="acidlib.retention", value="2d", source="--set"),),
)
NOTES = ("the time budget is used up",)


def action(size: int, *, copy: bool, reason: str = "unchanged", deleted: int = 0) -> PlannedAction:
    return PlannedAction(
        file="/w/f",
        first_stripe=0,
        stripes=1,
        action="copy" if copy else "rewrite",
        bytes=size,
        rows=9,
        deleted=deleted,
        aborted=0,
        reason=reason,
    )


UNIT = UnitResult(
    directory="base_9",
    file_name="bucket_00000",
    bucket=0,
    is_delete=False,
    path="/w/x",
    length=7 * MIB,
    rows_in=1000,
    rows_deleted=30,
    rows_aborted=4,
    rows_out=966,
    bytes_copied=5 * MIB,
    bytes_rewritten=3 * MIB,
    stripes_copied=2,
    stripes_rewritten=1,
    seconds=6.0,
    actions=(action(5 * MIB, copy=True), action(3 * MIB, copy=False, reason="30 rows deleted", deleted=30)),
    notes=("columns are matched by position",),
)
UNFILED = CompactionResult(
    id=12,
    **PLACE,
    type="major",
    state=Outcome.READY_FOR_CLEANING,
    reason="it was asked for",
    start_ms=1_766_500_010_000,
    end_ms=1_766_500_018_500,
    seconds=8.5,
    deltas_before=17,
    deltas_after=1,
    bytes_in=9 * MIB,
)
DONE = UNFILED.with_work((UNIT,), None)
FAILED = replace(
    UNFILED, partition="ds=8", location="/w/orders/ds=8", state=Outcome.FAILED, reason="the footer is damaged"
)
REFUSED = replace(FAILED, partition="ds=9", state=Outcome.REFUSED, reason="there is nothing to merge", seconds=0.1)
DUE = InitiatorResult(
    **PLACE,
    type="minor",
    queued=31,
    reason="22 deltas are too many",
    base_bytes=40 * MIB,
    delta_bytes=6 * MIB,
    deltas=22,
    ratio=0.15,
    threshold=10.0,
    threshold_key="hive.compactor.delta.num.threshold",
    threshold_source="hive-site.xml",
    outcome=Outcome.DUE,
)
LEFT = replace(DUE, type=None, queued=None, reason="it is below all thresholds", deltas=2, outcome=Outcome.LEFT_ALONE)
UNSEEN = replace(LEFT, partition="ds=8", reason="it cannot be listed", deltas=None, outcome=Outcome.FAILED)
REFUSED_AT_ONCE = replace(DUE, partition="ds=6", queued=None, reason="its columns disagree", outcome=Outcome.REFUSED)
CLEANED = CleaningResult(
    id=5,
    **PLACE,
    state=Outcome.SUCCEEDED,
    reason="nothing obsolete is left",
    removed=(
        RemovedPath(path="/w/orders/ds=7/delta_1_1", bytes=11 * MIB, reason="covered by base_9"),
        RemovedPath(path="/w/orders/ds=7/delta_2_2", bytes=2 * MIB, reason="covered by base_9", moved_to="/trash/1"),
    ),
)
WAITS = replace(
    CLEANED,
    partition="ds=8",
    state=Outcome.READY_FOR_CLEANING,
    reason="1 obsolete left",
    removed=(),
    waiting=(Waiting("delta_3_3", "transaction 812 of etl at host9 is open"),),
)
UNCLEANED = replace(CLEANED, partition="ds=9", state=Outcome.FAILED, reason="permission denied", removed=())


def told(
    job: str, results: Iterable[Any], *, dry_run: bool = False, is_named: bool = False, rest: str = ""
) -> RunResult[Any]:
    """Return the result of a run of a job that has told its results."""
    kinds: dict[str, type[RunResult[Any]]] = {"initiator": Decisions, "cleaner": Cleanings}
    kind = kinds.get(job, Compactions)
    report = RunReport(kind)
    for result in results:
        report.add(result)
    more: dict[str, Any] = {"is_named": is_named, "rest": rest} if kind is Compactions else {}
    return report.result(replace(HEAD, job=job), NOTES, dry_run=dry_run, **more)


def text_of(job: str, *results: Any, dry_run: bool = False) -> str:
    """Return what people read of a run on standard output."""
    return "".join(told(job, results, dry_run=dry_run).text_pieces())


def status_of_tables() -> Status:
    """A status in which much is wrong."""
    txn = Transaction(id=812, user="etl", host="host9", age=19_800)
    blocker = CleaningBlocker(
        request_id=1, **TableRef("sales", "orders", "ds=7")._asdict(), kind="transaction", id=812, user="etl",
        host="host9", age=19_800,
    )  # fmt: skip
    failed = CompactionRequest(
        id=1, ref=TableRef("sales", "orders", "ds=7"), type=CompactionType.MAJOR, state=State.FAILED
    )
    snapshot = StatusSnapshot(
        now_ms=HEAD.start_ms,
        requests=(failed,),
        transactions=(
            KnownTransaction(shown=txn, is_open=True, silent=None),
            KnownTransaction(shown=replace(txn, id=7), is_open=False, silent=None),
        ),
        blockers=(blocker,),
        places=(
            ListedFigures(figures=PlaceFigures(**PLACE, deltas=311, ratio=2.5, obsolete=3, obsolete_bytes=23 * MIB)),
        ),
    )
    document = replace(status_document(snapshot, {}), notes=NOTES)
    return Status(head=replace(HEAD, job="status"), document=document, fail_on="never")


RESULTS: dict[str, list[Any]] = {
    "major_compact": [DONE, FAILED, REFUSED],
    "initiator": [DUE, LEFT, UNSEEN, REFUSED_AT_ONCE],
    "cleaner": [CLEANED, WAITS, UNCLEANED],
}
SHOWN: dict[str, Callable[[], Result]] = {
    **{job: partial(told, job, results) for job, results in RESULTS.items()},
    "status": status_of_tables,
}
"""Results that have a page, by their jobs."""
