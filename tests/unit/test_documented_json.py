"""docs/json.md names exactly the fields that the jobs' JSON documents have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner
from integration.harness import IN_PROCESS, fixture

import acidlib
from acidlib.acid.names import Generation
from acidlib.cli.jobs import show_compactions
from acidlib.documents import OPTIONS
from acidlib.errors import AcidError
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.results import (
    CANCEL_OUTCOMES,
    COMPACTION_OUTCOMES,
    Cancellation,
    CancellationsDocument,
    Check,
    ChecksDocument,
    CheckState,
    Head,
    Outcome,
    ProbeDocument,
    PromiseState,
    RequestsDocument,
    RequestTotals,
    Statistics,
    TriedPromise,
    UndoDocument,
    UndoResult,
    Verification,
)
from acidlib.model.status import CleaningBlocker, FindingKind
from acidlib.model.tables import TableRef
from acidlib.report.answers import Cancellations, Checks, Places, Probe, Requests, Undo
from acidlib.report.show import shown_blocker, shown_request
from acidlib.report.values import Result

from .report.documents import HEAD, PLACE, SHOWN, UNFILED, UNIT, told

UNDO_OUTCOMES = (Outcome.PLANNED, Outcome.UNDONE, Outcome.WAS_UNDONE, Outcome.REFUSED, Outcome.CONFLICT, Outcome.FAILED)


def printed(*words: str, job: click.Command) -> dict[str, Any]:
    """What a job prints that needs neither Spark nor a metastore."""
    command = [*words, "--output", "json", "--metastore-uri", "none", "--queue-url", "sqlite://"]
    command += ["--set", "acidlib.retention=2d"]
    document: dict[str, Any] = json.loads(CliRunner().invoke(job, command, obj=IN_PROCESS).stdout)
    return document


def queue() -> Requests:
    ref, generation = TableRef("db", "t"), Generation.HIVE4
    request = CompactionRequest(id=1, ref=ref, type=CompactionType.MAJOR)
    blocker = CleaningBlocker(request_id=1, **ref._asdict(), kind="lock", id=2, user="u", host="h", age=None)
    document = RequestsDocument(
        compactions=(shown_request(request, generation),),
        blockers=(shown_blocker(blocker),),
        totals=RequestTotals(compactions=1),
    )
    return Requests(head=HEAD, document=document, rows=(request,), calls=generation, now_ms=0, of=1)


def shown_place() -> Places:
    with TemporaryDirectory() as folder:
        place = fixture("hive3/a_crud", Path(folder) / "t")
        return acidlib.directory(str(place), all_committed=True).files(progress=False)


UNDONE = UndoResult(id=1, **PLACE, type="major", state=Outcome.UNDONE, reason="undone by a person")
CANCELLED = Cancellation(id=1, state=Outcome.MISSING, reason="there is none")
COMPACTED = UNFILED.with_work((UNIT,), Verification(share=1.0))
BARE = Head(job="doctor", version="1")
PRODUCED: dict[str, Callable[[], Result]] = {
    "major_compact, minor_compact": lambda: told("major_compact", [replace(COMPACTED, statistics=Statistics())]),
    "initiator": SHOWN["initiator"],
    "cleaner": SHOWN["cleaner"],
    "show_place": shown_place,
    "undo": lambda: Undo(head=HEAD, document=UndoDocument(undo=UNDONE)),
    "cancel": lambda: Cancellations(head=HEAD, document=CancellationsDocument.of([CANCELLED])),
    "show_compactions": queue,
    "doctor": lambda: Checks(head=BARE, document=ChecksDocument.of([Check("clock", CheckState.UNCHECKED, "none")])),
    "probe": lambda: Probe(
        head=replace(BARE, job="probe"),
        document=ProbeDocument.of(
            [TriedPromise(name="whole", sentence="It is.", state=PromiseState.HOLDS, seen="it")],
            location="/w",
            kind="local",
            authority="",
            time_ms=0,
        ),
    ),
    "status": SHOWN["status"],
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


JSON = sections(OPTIONS.with_name("json.md").read_text(), "##")


def listed(text: str) -> list[str]:
    """What stands in backticks before the colon of the items of a list."""
    items = re.findall(r"^- ((?:`[^`]+`(?:, )?)+): ", text, flags=re.MULTILINE)
    return [name for item in items for name in re.findall("`(.+?)`", item)]


def described(title: str) -> list[tuple[str, str]]:
    """What a section says of the document itself, and below headings with their paths of what is in it."""
    inner = sections(JSON[title], "###")
    return [
        (path, name)
        for paths, text in {"`.`": JSON[title].partition("\n###")[0], **inner}.items()
        for path in re.findall("`(.+?)`", paths)
        for name in listed(text)
    ]


def test_what_is_called_a_common_field_is_described_as_one() -> None:
    common = set(listed(JSON["Common fields"]))
    named = re.findall(r"^- (.+): \[common\]", "".join(JSON.values()), flags=re.MULTILINE)
    assert {name for names in named for name in re.findall("`(.+?)`", names)} == common != set()


@pytest.mark.parametrize("title", PRODUCED)
def test_the_fields_are_those_of_the_document(title: str) -> None:
    head = BARE_FIELDS if title in ("show_place", "doctor", "probe") else described("Every document")
    document = PRODUCED[title]().to_dict()
    assert sorted([*head, *described(title)]) == sorted(set(fields(document)))


BARE_FIELDS = [(".", "job"), (".", "version"), (".", "run_id")]


def test_the_fields_of_an_error_are_described() -> None:
    assert {*BARE_FIELDS, *described("Errors")} == set(fields(printed("--no-such-option", job=show_compactions)))


@pytest.mark.parametrize("title", PRODUCED)
def test_entries_are_a_table_of_arrow(title: str) -> None:
    result = PRODUCED[title]()
    table = result.to_arrow()
    assert table.to_pylist() == list(result.entries) != []
    assert table.schema.names == list(result.entries[0])
    assert not [name for name, kind in columns(table.schema) if pa.types.is_null(kind)]


def columns(kind: pa.StructType | pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Every field of a type of Arrow."""
    for field in kind:
        yield field.name, field.type
        inner = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(inner):
            yield from columns(inner)


def test_every_kind_of_error_is_described() -> None:
    def kinds(error: type[AcidError]) -> Iterator[str]:
        for child in error.__subclasses__():
            yield child.kind
            yield from kinds(child)

    assert set(listed(JSON["Values of `kind` of an error"])) == {*kinds(AcidError), "interrupted"}


def test_every_kind_of_trouble_is_described() -> None:
    described = listed(JSON["Values of `trouble`"])
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
def test_every_state_is_named(title: str, entry: str, states: Iterable[Outcome]) -> None:
    rows = sections(JSON[title], "###")[entry]
    (state,) = (row for row in rows.splitlines() if row.startswith("- `state`: "))
    assert {outcome.value for outcome in states} == set(re.findall("`(.+?)`", state)[1:])
