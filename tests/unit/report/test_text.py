"""Results as text: what a person has to find in it, the right words for one and for many, and lines that fit.

Each file in texts/ is a whole text, as it was read and found right.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acidlib.acid.names import Generation
from acidlib.arguments import TABLE, option
from acidlib.location import local_location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.results import (
    Check,
    ChecksDocument,
    CheckState,
    DecisionTotals,
    Outcome,
    ProbeDocument,
    PromiseState,
    ShownBlocker,
    ShownPart,
    ShownPlace,
    Statistics,
    TriedPromise,
    Verification,
    Waiting,
    WriteIdRange,
)
from acidlib.model.status import Finding, FindingKind
from acidlib.model.tables import TableRef
from acidlib.report.show import blockers_text, show_text
from acidlib.report.text import (
    WIDTH,
    aligned,
    checks_text,
    json_text,
    one_line,
    places_text,
    promises_text,
    status_text,
)

from .documents import (
    CLEANED,
    DONE,
    DUE,
    FAILED,
    HEAD,
    LEFT,
    MIB,
    NOTES,
    REFUSED,
    REFUSED_AT_ONCE,
    UNCLEANED,
    UNFILED,
    UNIT,
    UNSEEN,
    WAITS,
    action,
    status_of_tables,
    text_of,
    told,
)  # fmt: skip

WORDS = "word " * 40
REST = "stopped: --max-bytes 100 GiB is reached; 37 places are left"
TOLD = replace(
    DONE,
    inputs=tuple(f"delta_{number}" for number in range(9)),
    empty_files=("delta_1/bucket_1",),
    output_directories=("base_9",),
    publication="two renames",
    write_ids=WriteIdRange(min=1, max=5, high_water_mark=6),
    verification=Verification(share=0.5, buckets=(0, 2), of_buckets=3, rows=966, events=1, seconds=1.25, ratio=0.208),
    statistics=Statistics(written=("numRows",), files=3, bytes=4096, rows=12),
)
JOINED = replace(
    action(MIB, copy=False, reason="small " + "word " * 8),
    stripes=2,
    first_stripe=3,
    file="/w/orders/ds=7/base_2/bucket_00000",
)
COPIED = replace(JOINED, action="copy", bytes=2 * MIB, first_stripe=0, reason="unchanged")
ACTIONS = (COPIED, replace(COPIED, stripes=1, first_stripe=2), JOINED, replace(COPIED, stripes=0, rows=None))
DELETES = replace(
    UNIT,
    directory="delete_delta_1_9",
    is_delete=True,
    events_out=1,
    actions=(),
    path=None,
    empty_files=("/w/orders/ds=7/delta_1/bucket_0",),
)
PLANNED = replace(
    TOLD,
    id=None,
    state=Outcome.PLANNED,
    write_ids=WriteIdRange(min=6, max=6, high_water_mark=6),
    statistics=Statistics(reason="no rights"),
    seconds=None,
).with_work((replace(UNIT, actions=ACTIONS), DELETES), None)
HELD_BACK = replace(DUE, type="major", queued=None, outcome=Outcome.HELD_BACK, reason="the last 2 compactions failed")
FAR = replace(DUE, partition=f"ds={'x' * 60}", threshold=43_200_000.0)
BLOCKED = (
    Waiting("delta_1", "the retention has not passed"),
    Waiting("delta_2", "the retention has not passed"),
    Waiting("base_3", "it is read"),
)
CHECKS = ChecksDocument.of(
    [Check("queue", CheckState.OK, "mysql"), Check("Java", CheckState.WRONG, "it is not there", "install it")]
)
PROBED = ProbeDocument.of(
    [
        TriedPromise(name=name, sentence="It is so.", state=state, seen="3 of 6 renames to one name succeeded " * words)
        for name, state, words in zip(("one", "other name", "third", "sync"), PromiseState, (1, 2, 1, 1), strict=True)
    ],
    location="s3a://lake/w",
    kind="s3",
    authority="lake",
    time_ms=1_700_000_001_000,
)
NOW = 1_700_000_003_500 + 2 * 3_600_000
ENDED = CompactionRequest(
    id=22,
    ref=TableRef("sales", "orders"),
    type=CompactionType.MAJOR,
    state=State.SUCCEEDED,
    worker_id="compactor-node-7-99",
    start_ms=1_700_000_001_000,
    end_ms=1_700_000_003_500,
    error_message="first\nsecond\tthird",
)
BROKEN = replace(ENDED, id=23, state=State.FAILED)
TAKEN_BACK = replace(BROKEN, id=24, facts=RequestFacts(undone="_aside"), error_message="undone by ann")
LONG = CompactionRequest(
    id=125,
    ref=TableRef("default", "a_table_with_a_name_that_takes_more_than_half_of_a_line_of_80", "p=abc"),
    type=CompactionType.MINOR,
)
BLOCKERS = [
    ShownBlocker(request_id=5, name="db.t", kind="lock", id=7, user="ann", host="h", age_ms=7_200_000),
    ShownBlocker(request_id=6, name="db.u", kind="transaction", id=8, user="bob", host="i", age_ms=None),
]


def in_lake(number: int) -> CompactionRequest:
    """One of two places of one name."""
    return replace(LONG, id=number, ref=ENDED.ref, facts=RequestFacts(location=local_location(f"/lake{number}/t")))


def refused(number: int) -> CompactionRequest:
    """One of many that are refused again and again."""
    table = ("orders", "raw", "items")[number % 3]
    why = f"Cannot compact sales.{table}: it is a view, at /w/{table}"
    facts = RequestFacts(location=local_location(f"/w/{table}"))
    ref = TableRef("sales", table)
    return replace(ENDED, id=number, ref=ref, state=State.REFUSED, error_message=why, facts=facts)


TEXTS = {
    "compaction": text_of("major_compact", TOLD),
    "compaction_planned": text_of("major_compact", PLANNED, dry_run=True),
    "compaction_not_counted": text_of("major_compact", UNFILED.with_work((replace(UNIT, rows_in=None),), None)),
    "compactions": text_of("major_compact", DONE, FAILED, REFUSED, DONE),
    "compactions_left": "".join(told("major_compact", [DONE], rest=REST).text_pieces()),
    "compactions_left_all": "".join(told("major_compact", [], rest=REST).text_pieces()),
    "compactions_left_planned": "".join(told("major_compact", [PLANNED] * 4, rest=REST, dry_run=True).text_pieces()),
    "initiator": text_of("initiator", DUE, LEFT, UNSEEN, REFUSED_AT_ONCE, HELD_BACK),
    "initiator_wide": text_of("initiator", FAR, replace(LEFT, threshold=0.1)),
    "initiator_alone": text_of(
        "initiator", replace(LEFT, threshold_key=None), replace(UNSEEN, reason="cannot list /w/orders/ds=7")
    ),
    "cleaner": text_of("cleaner", replace(CLEANED, waiting=BLOCKED)),
    "cleaner_planned": text_of(
        "cleaner",
        replace(CLEANED, state=Outcome.PLANNED, id=None, removed=CLEANED.removed[:1]),
        WAITS,
        UNCLEANED,
        dry_run=True,
    ),
    "doctor": checks_text(CHECKS),
    "probe": promises_text(PROBED),
    "show": show_text([LONG, TAKEN_BACK, BROKEN, ENDED], Generation.HIVE4, NOW, of=4),
    "show_some": show_text([ENDED], Generation.HIVE4, NOW, of=40),
    "show_taken_back": show_text([TAKEN_BACK, replace(TAKEN_BACK, id=20)], Generation.HIVE4, NOW, of=2),
    "show_refused": show_text([refused(number) for number in range(90, 0, -1)], Generation.HIVE4, NOW, of=90),
    "show_two_places": show_text([in_lake(2), in_lake(1)], Generation.HIVE4, NOW, of=2),
    "blockers": blockers_text(BLOCKERS),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_as_it_was(name: str) -> None:
    assert f"{TEXTS[name]}\n" == (Path(__file__).parent / "texts" / f"{name}.txt").read_text(encoding="utf-8")
    assert max(map(len, TEXTS[name].splitlines())) <= WIDTH or name.startswith("show")


def test_promises_that_could_not_be_tried_are_not_broken() -> None:
    promises = [replace(PROBED.promises[0], state=PromiseState.FAILED), PROBED.promises[0]]
    document = ProbeDocument.of(promises, location="/full", kind="local", authority="", time_ms=1)
    assert promises_text(document).endswith(
        "2 promises tried in /full: none broken, 1 not to be tried; mend what hinders\nthem, and probe again"
    )


def test_nothing_at_all() -> None:
    assert text_of("major_compact") == "Nothing to compact."
    assert text_of("initiator") == "Nothing to look at: no table was found."
    assert text_of("cleaner") == "Nothing to clean."
    assert show_text([], Generation.HIVE4, NOW, of=40) == "none of 40 requests"


def test_a_program_reads_the_notes_as_well_of_which_the_command_writes_lines() -> None:
    result = told("major_compact", [DONE], rest=REST)
    assert str(result) == f"{''.join(result.text_pieces())}\n\nnote: the time budget is used up"
    assert str(replace(result, document=replace(result.document, notes=(REST,)))) == "".join(result.text_pieces())


def test_a_text_names_arguments_in_the_words_of_its_caller() -> None:
    many = [replace(PLANNED, partition=f"ds={number}") for number in range(4)]
    for word, hint in ((str.upper, "DETAILS tells more"), (option, "--details tells more")):
        result = replace(told("major_compact", many, dry_run=True), word=word)
        assert hint in str(result)
    (note,) = replace(result, document=replace(result.document, notes=(f"give {TABLE}",)), word=str.upper).notes
    assert note == "give TABLE"


def test_why_statistics_are_not_updated_is_said_once_a_table() -> None:
    def compacted(table: str, day: int, why: str) -> Any:
        ref = TableRef("sales", table, f"ds={day}")
        statistics = Statistics(reason=f"Cannot update statistics of {ref}: {why}")
        return replace(DONE, table=table, partition=ref.partition, statistics=statistics)

    days = [compacted("orders", day, "no call does that") for day in range(3)]
    text = text_of("major_compact", *days, compacted("orders", 3, "it is locked"), compacted("items", 0, "none"))
    assert [line.strip() for line in text.splitlines() if "not updated" in line] == [
        "statistics   not updated: Cannot update statistics of sales.orders.ds=0: no",
        "statistics   not updated: as at sales.orders.ds=0",
        "statistics   not updated: as at sales.orders.ds=0",
        "statistics   not updated: Cannot update statistics of sales.orders.ds=3: it is",
        "statistics   not updated: Cannot update statistics of sales.items.ds=0: none",
    ]


def test_a_list_is_shortened_with_a_count_unless_it_is_one_too_long_or_a_dry_run() -> None:
    assert "delta_5, delta_6\n" in text_of("major_compact", replace(TOLD, inputs=TOLD.inputs[:7]))
    many = PLANNED.with_work((replace(UNIT, actions=ACTIONS[:1] * 40),) * 30, None)
    assert text_of("major_compact", many, dry_run=True).count("    copy  ") == 30 * 40
    assert "    copy  " not in text_of("major_compact", many)
    emptied = replace(UNIT, actions=(replace(ACTIONS[0], action="rewrite", deleted=4, aborted=5),))
    assert "\n    drop     " in text_of("major_compact", PLANNED.with_work((emptied,), None), dry_run=True)
    gone = replace(
        CLEANED, removed=CLEANED.removed[:1] * 50, waiting=tuple(Waiting(f"b{n}", "it is read") for n in range(50))
    )
    text = text_of("cleaner", gone)
    assert "    and 30 more paths, 330.0 MiB\n" in text
    assert "and 30 more" in " ".join(text.splitlines()[-4:])


@pytest.mark.parametrize(
    ("job", "result", "kind"),
    [
        *(("major_compact", replace(FAILED, state=state), state.value) for state in Outcome),
        *(("cleaner", replace(CLEANED, state=state), state.value) for state in (Outcome.SUCCEEDED, Outcome.FAILED)),
        ("initiator", replace(DUE, reason="11 deltas"), "for a minor compaction"),
        ("initiator", replace(LEFT, reason="11 deltas"), "left alone"),
        ("initiator", replace(UNSEEN, reason="11 deltas"), "failed"),
    ],
)
@pytest.mark.parametrize("count", [20, 21, 22, 2000])
def test_of_many_places_that_end_alike_the_first_are_told_and_of_failures_all(
    job: str, result: Any, kind: str, count: int
) -> None:
    text = "".join(told(job, [replace(result, partition=f"p={n}") for n in range(count)]).text_pieces(details=True))
    few = count > 21 and kind not in ("failed", "conflict")
    assert text.count("\nsales.orders.p=" if job == "initiator" else "  location  ") == (20 if few else count)
    assert (f"and {count - 20:,} more {kind}; --output json tells of each" in text) == few
    assert f"{count:,} {'compactions' if job == 'major_compact' else 'places'}" in text


def of_tables(result: Any, *names: str) -> list[Any]:
    """The result at each of these tables, whose reason names the table."""
    return [
        replace(result, table=name, partition=None, location=f"/w/{name}", reason=f"Cannot read sales.{name}: {WHY}")
        for name in names
    ]


WHY = "no file proves its kind"


def test_a_reason_that_names_its_table_is_said_once_for_several() -> None:
    refused = of_tables(REFUSED, "a", "b", "c")
    text = text_of("major_compact", *refused, DONE, replace(REFUSED, reason=f"Cannot read it: {WHY}"))
    assert f"3 refused: Cannot read …: {WHY}\n  sales.a\n  sales.b\n  sales.c\n\n" in text
    assert "\n\nsales.orders.ds=9: major, refused" in text, "one alone has its block"
    plan = text_of("major_compact", *refused, replace(DONE, state=Outcome.PLANNED), dry_run=True)
    assert f"3 refused: Cannot read …: {WHY}\n  sales.a\n  sales.b\n  sales.c\n\n" in plan
    assert f"1 refused: Cannot read sales.a: {WHY}\n" in text_of(
        "major_compact", *refused[:1], *[DONE] * 3, dry_run=True
    )
    decided = text_of("initiator", *of_tables(REFUSED_AT_ONCE, "a", "b"), DUE, *of_tables(REFUSED_AT_ONCE, "c"))
    assert decided.count(WHY) == 1
    assert [line.split()[0] for line in decided.splitlines()[1:5]] == ["sales.a", "sales.b", "sales.c", "these"]


def test_of_very_many_places_with_one_reason_the_first_are_named() -> None:
    text = text_of("major_compact", *of_tables(REFUSED, *(f"t{n}" for n in range(2000))))
    assert text.count("\n  sales.t") == 100
    assert "\n  sales.t99\n  and 1,900 more\n" in text


def test_findings_of_several_places_for_the_same_reason_are_one() -> None:
    finding = Finding(trouble=FindingKind.NOT_COMPACTABLE, database="sales", table="t", location="/w/t", reason="")
    alike = of_tables(finding, *(f"t{n}" for n in range(30)))
    others = (replace(finding, reason=f"for reason {n}") for n in range(6))
    text = status_text(replace(status_of_tables().document, findings=(*alike, *others, *alike), tables=()))
    assert text.count(WHY) == 1
    assert f"\nwarning 60 places: cannot be compacted: Cannot read …: {WHY}\n        sales.t0, sales.t1, " in text
    assert "and 40 more\nwarning sales.t: cannot be compacted: for reason 0 (/w/t)" in text
    assert text.endswith("for reason 3 (/w/t)\n        and 2 more: cannot be compacted"), "alike ones count as one"


@pytest.mark.parametrize(
    ("results", "is_named", "status"),
    [
        ([DONE, REFUSED], True, 0),
        ([FAILED], True, 1),
        ([FAILED], False, 3),
        ([DONE, FAILED], True, 3),
        ([replace(FAILED, state=Outcome.CONFLICT)], True, 1),
        ([replace(REFUSED, unverified=True)], True, 3),
    ],
)
def test_the_exit_status_tells_whether_all_is_done(results: list[Any], is_named: bool, status: int) -> None:
    result = told("major_compact", results, is_named=is_named)
    assert (result.exit_status, result.ok) == (status, status == 0)


def test_what_a_worker_would_refuse_is_a_note_and_no_failure() -> None:
    result = told("initiator", (DUE, REFUSED_AT_ONCE, REFUSED_AT_ONCE))
    assert result.document.totals == DecisionTotals(looked_at=3, queued=1, refused=2, held_back=0, failed=0)
    assert result.notes == (*NOTES, "2 places cannot be compacted as they are: status has a finding for each")
    assert result.exit_status == 0
    assert str(HEAD.run_id) not in text_of("initiator", DUE)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\n  lines\r\n", "two lines"),
        ("a\tb", "a b"),
        ("p=a  b", "p=a  b"),
        ("ds=Größe/日本", "ds=Größe/日本"),
        ("\x1b[2J", "\\x1b[2J"),
        ("bad\udcff", "bad\\udcff"),
        ("zero\x00", "zero\\x00"),
    ],
)
def test_anything_becomes_one_harmless_line(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    "name",
    ["plain", "ünï/日本", "\x1b[2J", "\x9b2J", "\x7f", "\u202eabc", "a\u2028b", "\udcff", "\U000e0001", 'q"\\\n'],
)
def test_json_holds_nothing_that_a_terminal_takes_for_a_command(name: str) -> None:
    document = {"p": [name, {name: 1}]}
    text = json_text(document)
    assert json.loads(text) == document
    assert all(line.isprintable() for line in text.split("\n"))
    assert ("日本" in text) is ("日本" in name)


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    assert aligned([("p", "n"), ("日本", "10"), ("abc", "5")], right=(1,)) == ["p      n", "日本  10", "abc    5"]


def test_all_that_jobs_print_fits_a_terminal_that_nobody_has_widened_and_commands_nothing() -> None:
    words = WORDS + "\x1b[31mred\x1b[0m\nnext"
    part = ShownPart(
        path=f"delete_delta_{'9' * 19}_{'9' * 19}_0000", kind="delta", first_write_id=1, last_write_id=2,
        reader="obsolete", why=words, files=123_456, bytes=5 * MIB, rows=123_456_789, damage=words,
    )  # fmt: skip
    place = ShownPlace(database="d", table="t", partition=None, location="/t", error=words, parts=(part, part))
    gone = replace(
        CLEANED, reason=words, waiting=(Waiting("base_1", words),), removed=(replace(CLEANED.removed[0], reason=words),)
    )
    for text in (
        text_of("major_compact", replace(PLANNED, reason=words), dry_run=True),
        text_of("initiator", replace(FAR, reason=words, deltas=123_456), LEFT),
        text_of("cleaner", gone),
        places_text([place]),
        checks_text(ChecksDocument.of([Check("metastore", CheckState.WRONG, words, words)])),
    ):
        assert max(map(len, text.splitlines())) <= WIDTH
        assert text.count("word") >= 40
        assert "\x1b" not in text
        assert "\\x1b[31mred" in text
