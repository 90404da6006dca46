"""What a cleaner of Hive 4 knows of its requests holds under the new name of a table that is renamed meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.ports.test_catalog import Metastore as Tables
from unit.ports.test_catalog import table

from acidlib.acid.write_ids import ValidTxnList
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.results import CleaningResult
from acidlib.model.tables import TableRef
from acidlib.places.selection import CleanerOptions
from acidlib.ports.hive4 import Hive4Requests
from acidlib.ports.hive4_cleaning import Hive4Cleaning
from acidlib.runs.clean import run_cleaner

NOW = 2_000_000_000_000
HOUR = 3_600_000
MINOR, MAJOR = 5, 9
"""The transactions of two compactions."""


class Metastore(Tables):
    """The table is `d.t`, and was `d.before` when the requests were shown."""

    rows: tuple[CompactionRequest, ...] = ()
    cleaned: tuple[int, ...] = ()

    def config_value(self, name: str, default: str) -> str:
        return "false"

    def open_txns(self) -> ValidTxnList:
        return ValidTxnList.parse("30:9223372036854775807::")

    def show_compactions(self) -> tuple[CompactionRequest, ...]:
        return tuple(replace(row, ref=TableRef("d", "before")) for row in self.rows)

    def find_compaction(self, request_id: int) -> CompactionRequest | None:
        return next((row for row in self.rows if row.id == request_id), None)

    def set_job_id(self, request: CompactionRequest, text: str) -> None:
        self.rows = tuple(replace(row, hadoop_job_id=text) if row.id == request.id else row for row in self.rows)

    def mark_cleaned(self, request: CompactionRequest) -> None:
        self.cleaned += (request.id,)


def ready(number: int, kind: CompactionType, txn: int, commit_ms: int | None) -> CompactionRequest:
    return CompactionRequest(
        id=number,
        ref=TableRef("d", "t"),
        type=kind,
        state=State.READY_FOR_CLEANING,
        highest_write_id=2,
        txn_id=txn,
        next_txn_id=None if commit_ms is None else txn,
        commit_ms=commit_ms,
        start_ms=1,
    )


def cleaning(services: Services, hms: Any) -> Hive4Cleaning:
    return Hive4Cleaning(Hive4Requests(services, hms), CleanerOptions(retention_seconds=HOUR / 1000), None)


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_waiting_result_covers_stays(services: Services, tmp_path: Path, *, waits: bool) -> None:
    """The request of the minor compaction is ready, that of the major one waits for its retention."""
    covered = ["delta_0000001_0000001", "delta_0000001_0000002_v0000005", "delta_0000002_0000002"]
    for name in (*covered, "base_0000002_v0000009"):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "bucket_00000").write_text("rows")
    hms = Metastore(table(tmp_path / "t"))
    major = ready(2, CompactionType.MAJOR, MAJOR, NOW - (HOUR // 2 if waits else 2 * HOUR))
    hms.rows = (ready(1, CompactionType.MINOR, MINOR, NOW - 2 * HOUR), major)
    results: list[CleaningResult] = []
    run_cleaner(cleaning(services, hms), results.append)
    assert hms.cleaned == (() if waits else (1, 2))
    left = sorted(path.name for path in (tmp_path / "t").iterdir())
    assert left == ["base_0000002_v0000009", *(covered if waits else [])]


def test_a_rebalance_keeps_its_bound(services: Services, tmp_path: Path) -> None:
    hms = Metastore(table(tmp_path))
    hms.rows = (ready(1, CompactionType.REBALANCE, MAJOR, None),)
    work = cleaning(services, hms)
    (request,) = work.ready()
    found, _ = work.place(request)
    assert (str(request.ref), str(found.ref)) == ("d.before", "d.t")
    assert (found.next_txn_id, found.commit_ms) == (request.next_txn_id, request.commit_ms) == (30, NOW)
