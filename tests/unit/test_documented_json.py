"""docs/json.md names exactly the fields that the jobs' JSON documents have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pytest
from click.testing import CliRunner
from integration.harness import IN_PROCESS, fixture

from acidlib.cli.jobs import show_compactions, status
from acidlib.cli.jobs import show_place as show_place_job
from acidlib.documents import OPTIONS
from acidlib.errors import AcidError
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import TableRef
from acidlib.model.units import PlannedAction, UnitResult
from acidlib.planning.health import (
    CleaningBlocker,
    FindingKind,
    PlaceFigures,
    StatusSnapshot,
    Transaction,
    status_of,
)
from acidlib.report.results import (
    Cancellation,
    CancelState,
    CleaningResult,
    CompactionResult,
    InitiatorResult,
    Outcome,
    RemovedPath,
    Statistics,
    UndoResult,
    UndoState,
    Verdict,
    Verification,
    cancellations_document,
)
from acidlib.report.run import CleanerReport, CompactionsReport, InitiatorReport, RunReport
from acidlib.report.show import blockers_document, show_document
from acidlib.report.text import json_text
from acidlib.status.doctor import Check, checks_document
from acidlib.status.doctor import State as CheckState
from acidlib.status.look import status_document

PLACE: dict[str, Any] = {"ref": TableRef("db", "t"), "location": "/w/t"}
ABOUT: dict[str, Any] = {"job": "a job", "version": "1", "run_id": "r"}
FACTS: dict[str, Any] = {
    "start_ms": 1,
    "end_ms": 2,
    "application_id": None,
    "tracking_url": None,
    "settings": [{"name": "n", "value": "v", "source": "--set"}],
}
ACTION = PlannedAction(
    path="f", first_stripe=0, stripes=1, copy=True, bytes=1, rows=1, deleted=0, aborted=0, reason="all of it stays"
)
UNIT = UnitResult(
    directory="base_1", file_name="bucket_00000", bucket=0, is_delete=False, path="f", length=1, actions=(ACTION,)
)


def document_of(report: RunReport, result: CompactionResult | InitiatorResult | CleaningResult) -> dict[str, Any]:
    report.add(result.document())
    document: dict[str, Any] = json.loads("".join(report.pieces([])))
    return document


def compaction() -> dict[str, Any]:
    done = CompactionResult(
        id=1, **PLACE, type="major", state=Outcome.SUCCEEDED, reason="it was asked for", units=(UNIT,),
        verification=Verification(share=1.0), statistics=Statistics(),
    )  # fmt: skip
    return document_of(CompactionsReport(lambda: ABOUT | FACTS, dry_run=False, as_json=True), done)


def initiator() -> dict[str, Any]:
    decision = InitiatorResult(**PLACE, type=None, queued=None, reason="nothing to do", outcome=Verdict.LEFT_ALONE)
    return document_of(InitiatorReport(lambda: ABOUT | FACTS, as_json=True), decision)


def cleaner() -> dict[str, Any]:
    removed = (RemovedPath(path="delta_1_1", bytes=1, reason="it is obsolete"),)
    cleaned = CleaningResult(id=1, **PLACE, state="succeeded", reason="", removed=removed)
    return document_of(CleanerReport(lambda: ABOUT | FACTS, dry_run=False, as_json=True), cleaned)


def printed(*words: str, job: click.Command = show_compactions) -> dict[str, Any]:
    """What a job prints that needs neither Spark nor a metastore."""
    command = [*words, "--output", "json", "--metastore-uri", "none", "--queue-url", "sqlite://"]
    command += ["--set", "acidlib.retention=2d"]
    document: dict[str, Any] = json.loads(CliRunner().invoke(job, command, obj=IN_PROCESS).stdout)
    return document


def status_document_of() -> dict[str, Any]:
    place = PlaceFigures(**PLACE)
    txn = Transaction(id=1, is_open=True, user="u", host="h", age=None, silent=None)
    blocker = CleaningBlocker(request_id=1, ref=TableRef("db", "t"), kind="lock", id=2, user="u", host="h", age=None)
    snapshot = StatusSnapshot(
        now_ms=0,
        requests=(CompactionRequest(id=1, ref=TableRef("db", "t"), type=CompactionType.MAJOR, state=State.FAILED),),
        transactions=(txn, replace(txn, is_open=False)),
        blockers=(blocker,),
        places=(replace(place, ratio=1.0, deltas=1, obsolete_bytes=1),),
    )
    seen = status_of(snapshot, {})
    assert seen.findings
    begun = printed("--places", "0", job=status)
    return begun | status_document(seen, Generation.HIVE4)


def shown() -> dict[str, Any]:
    request = CompactionRequest(id=1, ref=TableRef("db", "t"), type=CompactionType.MAJOR)
    blocker = CleaningBlocker(request_id=1, ref=TableRef("db", "t"), kind="lock", id=2, user="u", host="h", age=None)
    return printed() | {"compactions": show_document([request]), "blockers": blockers_document([blocker])}


def show_place() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        place = fixture("hive3/a_crud", Path(folder) / "t")
        return printed("--location", str(place), "--all-committed", job=show_place_job)


def cancelled() -> dict[str, Any]:
    one = Cancellation(id=1, state=CancelState.MISSING, reason="there is none")
    document: dict[str, Any] = json.loads(json_text(ABOUT | FACTS | cancellations_document([one])))
    return document


def undo() -> dict[str, Any]:
    result = UndoResult(id=1, **PLACE, type="major", state=UndoState.UNDONE, reason="undone by a person")
    document: dict[str, Any] = json.loads(json_text(ABOUT | FACTS | {"undo": result.document()}))
    return document


PRODUCED = {
    "major_compact, minor_compact": compaction,
    "initiator": initiator,
    "cleaner": cleaner,
    "show_place": show_place,
    "undo": undo,
    "cancel": cancelled,
    "show_compactions": shown,
    "doctor": lambda: checks_document([Check("clock", CheckState.UNCHECKED, "no metastore")]),
    "status": status_document_of,
    "Errors": lambda: printed("--no-such-option"),
}


def fields(value: Any, path: str = ".") -> Iterator[tuple[str, str]]:
    """Every field of a document with the path of what it belongs to, as jq writes it."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item, f"{path}[]")
    if isinstance(value, dict):
        for name, inner in value.items():
            yield path, name
            yield from fields(inner, f"{path.rstrip('.')}.{name}")


def sections(text: str, marks: str) -> dict[str, str]:
    """The text below each heading of one level, by title."""
    parts = re.split(rf"^{marks} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def first_cells(text: str, header: str) -> list[str]:
    """What stands in backticks in the first column of the tables with a header."""
    tables = re.findall(rf"^\| {header} \|.*\n\|---.*\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    return [name for table in tables for row in table.splitlines() for name in re.findall("`(.+?)`", row.split("|")[1])]


JSON = sections(OPTIONS.with_name("json.md").read_text(), "##")


def test_every_document_is_described() -> None:
    assert JSON.keys() == PRODUCED.keys()


@pytest.mark.parametrize("title", PRODUCED)
def test_the_fields_are_those_of_the_document(title: str) -> None:
    described = [
        (path, name)
        for paths, text in sections(JSON[title], "###").items()
        for path in re.findall("`(.+?)`", paths)
        for name in first_cells(text, "Field")
    ]
    assert len(set(described)) == len(described)
    assert set(described) == set(fields(PRODUCED[title]()))


def test_every_kind_of_error_is_described() -> None:
    def kinds(error: type[AcidError]) -> Iterator[str]:
        for child in error.__subclasses__():
            yield child.kind
            yield from kinds(child)

    assert set(first_cells(JSON["Errors"], "`kind`")) == {*kinds(AcidError), "interrupted"}


def test_every_kind_of_trouble_is_described() -> None:
    described = first_cells(JSON["status"], "`trouble`")
    assert len(set(described)) == len(described)
    assert set(described) == {trouble.value for trouble in FindingKind}


@pytest.mark.parametrize(
    ("title", "entry", "states"),
    [
        ("major_compact, minor_compact", "`.compactions[]`", Outcome),
        ("undo", "`.undo`", UndoState),
        ("cancel", "`.cancellations[]`", CancelState),
    ],
)
def test_every_state_is_named(title: str, entry: str, states: type[Enum]) -> None:
    rows = sections(JSON[title], "###")[entry]
    (state,) = (row for row in rows.splitlines() if row.startswith("| `state`"))
    assert {outcome.value for outcome in states} == set(re.findall("`(.+?)`", state)[1:])
