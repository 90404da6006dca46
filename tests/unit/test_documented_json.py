"""docs/json.md names exactly the fields that the jobs' JSON documents have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner
from integration.harness import IN_PROCESS, fixture

from acidlib.cli.jobs import show_compactions, status
from acidlib.cli.jobs import show_place as show_place_job
from acidlib.documents import OPTIONS
from acidlib.errors import AcidError
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.results import (
    CANCEL_OUTCOMES,
    COMPACTION_OUTCOMES,
    Cancellation,
    Outcome,
    Statistics,
    UndoResult,
    Verification,
    cancellations_document,
)
from acidlib.model.tables import TableRef
from acidlib.planning.health import CleaningBlocker, FindingKind
from acidlib.report.answers import Cancellations, Checks, Places, Requests, Status, Undo
from acidlib.report.columns import SCHEMAS
from acidlib.report.run import Cleanings, Decisions, Plan
from acidlib.report.show import blockers_document, show_document
from acidlib.report.text import json_text
from acidlib.report.values import Result
from acidlib.status.doctor import Check, checks_document
from acidlib.status.doctor import State as CheckState

from .report.documents import ABOUT, DOCUMENTS, DONE, PLACE, document_of

UNDO_OUTCOMES = (
    Outcome.PLANNED,
    Outcome.UNDONE,
    Outcome.WAS_UNDONE,
    Outcome.REFUSED,
    Outcome.CONFLICT,
    Outcome.FAILED,
)
UNDONE = UndoResult(id=1, **PLACE, type="major", state=Outcome.UNDONE, reason="undone by a person")
CANCELLED = Cancellation(id=1, state=Outcome.MISSING, reason="there is none")
COMPACTED = replace(DONE, verification=Verification(share=1.0), statistics=Statistics())


def printed(*words: str, job: click.Command = show_compactions) -> dict[str, Any]:
    """What a job prints that needs neither Spark nor a metastore."""
    command = [*words, "--output", "json", "--metastore-uri", "none", "--queue-url", "sqlite://"]
    command += ["--set", "acidlib.retention=2d"]
    document: dict[str, Any] = json.loads(CliRunner().invoke(job, command, obj=IN_PROCESS).stdout)
    return document


def saved(document: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json_text({"job": "a job", **ABOUT} | document))
    return loaded


def shown() -> dict[str, Any]:
    request = CompactionRequest(id=1, ref=TableRef("db", "t"), type=CompactionType.MAJOR)
    blocker = CleaningBlocker(request_id=1, ref=TableRef("db", "t"), kind="lock", id=2, user="u", host="h", age=None)
    return printed() | {"compactions": show_document([request]), "blockers": blockers_document([blocker])}


def show_place() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        place = fixture("hive3/a_crud", Path(folder) / "t")
        return printed("--location", str(place), "--all-committed", job=show_place_job)


PRODUCED: dict[str, Callable[[], dict[str, Any]]] = {
    "major_compact, minor_compact": lambda: document_of("major_compact", [COMPACTED]),
    "initiator": DOCUMENTS["initiator"],
    "cleaner": DOCUMENTS["cleaner"],
    "show_place": show_place,
    "undo": lambda: saved({"undo": UNDONE.document()}),
    "cancel": lambda: saved(cancellations_document([CANCELLED])),
    "show_compactions": shown,
    "doctor": lambda: checks_document([Check("clock", CheckState.UNCHECKED, "no metastore")]),
    "status": lambda: printed("--places", "0", job=status) | DOCUMENTS["status"](),
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


def described(title: str) -> list[tuple[str, str]]:
    return [
        (path, name)
        for paths, text in sections(JSON[title], "###").items()
        for path in re.findall("`(.+?)`", paths)
        for name in first_cells(text, "Field")
    ]


@pytest.mark.parametrize("title", PRODUCED)
def test_the_fields_are_those_of_the_document(title: str) -> None:
    assert len(set(described(title))) == len(described(title))
    assert set(described(title)) == set(fields(PRODUCED[title]()))


LISTS: list[tuple[str, str, type[Result]]] = [
    ("major_compact, minor_compact", ".compactions[]", Plan),
    ("initiator", ".decisions[]", Decisions),
    ("cleaner", ".cleanings[]", Cleanings),
    ("show_place", ".places[]", Places),
    ("undo", ".undo", Undo),
    ("cancel", ".cancellations[]", Cancellations),
    ("show_compactions", ".compactions[]", Requests),
    ("doctor", ".checks[]", Checks),
    ("status", ".tables[]", Status),
]


def columns(path: str, kind: pa.StructType | pa.Schema) -> Iterator[tuple[str, str]]:
    """Every field of a type of Arrow, as `fields` has them."""
    for field in kind:
        yield path, field.name
        below, inner = f"{path}.{field.name}", field.type
        if pa.types.is_list(inner):
            below, inner = f"{below}[]", inner.value_type
        if pa.types.is_struct(inner):
            yield from columns(below, inner)


@pytest.mark.parametrize(("title", "path", "result"), LISTS)
def test_the_columns_of_a_table_are_the_fields_of_an_entry(title: str, path: str, result: type[Result]) -> None:
    schema = SCHEMAS[result.shape]
    assert sorted(columns(path, schema)) == sorted(
        (at, name) for at, name in described(title) if at == path or at.startswith(f"{path}.")
    )
    entries = PRODUCED[title]()[path.strip(".[]")]
    for entry in entries if isinstance(entries, list) else [entries]:
        assert pa.Table.from_pylist([entry], schema=schema).to_pylist() == [entry]
        assert schema.names == list(entry)


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
        ("major_compact, minor_compact", "`.compactions[]`", COMPACTION_OUTCOMES),
        ("undo", "`.undo`", UNDO_OUTCOMES),
        ("cancel", "`.cancellations[]`", CANCEL_OUTCOMES),
    ],
)
def test_every_state_is_named(title: str, entry: str, states: tuple[Outcome, ...]) -> None:
    rows = sections(JSON[title], "###")[entry]
    (state,) = (row for row in rows.splitlines() if row.startswith("| `state`"))
    assert {outcome.value for outcome in states} == set(re.findall("`(.+?)`", state)[1:])
