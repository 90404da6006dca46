"""Results as text: what a person has to find in it, the right words for one and for many, and lines that fit."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from acidlib.model.tables import TableRef
from acidlib.model.units import PlannedAction, UnitResult
from acidlib.report.results import (
    CleaningResult,
    CompactionResult,
    InitiatorResult,
    Outcome,
    RemovedPath,
)
from acidlib.report.run import CleanerReport, CompactionsReport, InitiatorReport, RunReport
from acidlib.report.text import WIDTH, aligned, checks_text, json_text, one_line, places_text

MIB = 1 << 20
LOCATION = "/data/warehouse/sales.db/orders/ds=2026-01-01"


def action(
    stripe: int, *, copy: bool = True, stripes: int = 1, file: str = "base_0000002/bucket_00000"
) -> PlannedAction:
    return PlannedAction(
        path=f"{LOCATION}/{file}",
        first_stripe=stripe,
        stripes=stripes,
        copy=copy,
        bytes=MIB,
        rows=1000,
        deleted=0 if copy else 3,
        aborted=0,
        reason="unchanged" if copy else "3 of 1000 rows are deleted",
    )


def unit(*actions: PlannedAction, **fields: object) -> UnitResult:
    figures: dict[str, Any] = {
        "directory": "base_0000005",
        "file_name": "bucket_00000",
        "bucket": 0,
        "is_delete": False,
        "path": None,
        "length": 0,
        "rows_in": 1234,
        "rows_deleted": 30,
        "rows_aborted": 4,
        "rows_out": 1200,
        "events_in": 31,
        "events_aborted": 1,
        "bytes_copied": 3 * MIB,
        "bytes_rewritten": MIB // 2,
        "stripes_copied": 3,
        "stripes_rewritten": 1,
        "seconds": 0.75,
    }
    return UnitResult(**{**figures, "actions": actions, **fields})


def result(*units: UnitResult, **fields: object) -> CompactionResult:
    whole = CompactionResult(
        id=None,
        ref=TableRef("sales", "orders", "ds=2026-01-01"),
        location=LOCATION,
        type="major",
        state=Outcome.PLANNED,
        reason="as requested",
        publication="one rename",
        min_write_id=1,
        max_write_id=5,
        high_water_mark=6,
        inputs=("base_0000002", "delta_0000003_0000003_0000"),
        output_directories=("base_0000005",),
        units=units,
        seconds=1.5,
    )
    return replace(whole, **fields)  # type: ignore[arg-type] # fields of different types by name


FAILED = result(
    id=7,
    state=Outcome.FAILED,
    reason="Cannot read x: because it is damaged",
    units=None,
    high_water_mark=None,
    inputs=(),
    output_directories=(),
    publication=None,
    seconds=None,
)


def about() -> dict[str, Any]:
    return {}


def compactions_text(results: Sequence[CompactionResult], *, dry_run: bool) -> str:
    return told(CompactionsReport(about, dry_run=dry_run), results)


def initiator_text(results: Sequence[InitiatorResult]) -> str:
    return told(InitiatorReport(about), results)


def cleaner_text(results: Sequence[CleaningResult], *, dry_run: bool = False) -> str:
    return told(CleanerReport(about, dry_run=dry_run), results)


def told(report: RunReport, results: Sequence[CompactionResult | InitiatorResult | CleaningResult]) -> str:
    for one in results:
        report.add(one.document())
    return "".join(report.pieces(["a note is none of it"]))


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_a_compaction_tells_every_figure() -> None:
    done = result(unit(), id=12, state=Outcome.READY_FOR_CLEANING)
    assert compactions_text([done], dry_run=False).splitlines() == [
        "sales.orders.ds=2026-01-01: major, ready for cleaning (request 12)",
        "  reason       as requested",
        "  location     /data/warehouse/sales.db/orders/ds=2026-01-01",
        "  inputs       base_0000002, delta_0000003_0000003_0000",
        "  output       base_0000005",
        "  write ids    1 to 5, high-water mark 6",
        "  publication  one rename",
        "  rows         1,234 in, 30 deleted, 4 aborted, 1,200 out",
        "  events       31 in, 1 aborted, 0 duplicate, 0 out",
        "  stripes      3 copied (3.0 MiB), 1 rewritten (512.0 KiB)",
        "  time         1.50 s, 0.75 s inside the tasks",
        "",
        "1 compaction: 1 ready for cleaning; 1,234 rows in, 30 deleted, 4 aborted, 1,200",
        "    out; 3.0 MiB copied, 512.0 KiB rewritten",
    ]


def test_what_was_not_planned_has_no_figures() -> None:
    assert compactions_text([FAILED], dry_run=False).splitlines() == [
        "sales.orders.ds=2026-01-01: major, failed (request 7)",
        "  reason       Cannot read x: because it is damaged",
        "  location     /data/warehouse/sales.db/orders/ds=2026-01-01",
        "",
        "1 compaction: 1 failed",
    ]


def test_of_several_places_the_sum_is_told_first_then_what_failed() -> None:
    one = result(unit(), state=Outcome.READY_FOR_CLEANING)
    text = compactions_text([one, FAILED, one], dry_run=False)
    assert text.splitlines()[:5] == [
        "3 compactions: 2 ready for cleaning, 1 failed; 2,468 rows in, 60 deleted, 8",
        "    aborted, 2,400 out; 6.0 MiB copied, 1.0 MiB rewritten",
        "",
        "sales.orders.ds=2026-01-01: major, failed (request 7)",
        "  reason       Cannot read x: because it is damaged",
    ]
    assert text.splitlines()[-1].startswith("  time ")


def test_a_dry_run_says_so_and_names_two_renames() -> None:
    text = compactions_text([result(unit(), publication="two renames")], dry_run=True)
    assert "3 to copy (3.0 MiB), 1 to rewrite (512.0 KiB)" in text
    assert "publication  two renames: nobody may read or write between them" in lines_of(text)
    assert lines_of(text)[-2].startswith("Dry run, nothing was changed. 1 compaction: 1 planned;")
    done = compactions_text([result(unit(), publication="two renames")], dry_run=False)
    assert "publication  two renames" in lines_of(done)
    assert "Dry run" not in done


def test_a_dry_run_tells_stripes_with_reasons_and_bytes() -> None:
    joined = replace(action(3, copy=False, stripes=2), reason="small " + "word " * 8)
    text = compactions_text(
        [result(unit(replace(action(0, stripes=2), bytes=2 * MIB), action(2, copy=False), joined))], dry_run=True
    )
    start = text.splitlines().index("  base_0000005/bucket_00000: 1,200 rows out")
    assert text.splitlines()[start + 1 : start + 8] == [
        "    copy        2.0 MiB  stripes 0 to 1 of base_0000002/bucket_00000, 1,000",
        "                         rows: unchanged",
        "    rewrite     1.0 MiB  stripe 2 of base_0000002/bucket_00000, 1,000 rows: 3 of",
        "                         1000 rows are deleted",
        "    rewrite     1.0 MiB  2 stripes joined, from stripe 3 of",
        "                         base_0000002/bucket_00000 on, 1,000 rows: small word",
        "                         word word word word word word word",
    ]


def test_a_list_is_shortened_with_a_count_unless_it_is_one_too_long() -> None:
    def inputs(number: int) -> str:
        many = result(inputs=tuple(f"delta_{n}" for n in range(number)), state=Outcome.SUCCEEDED)
        return " ".join(compactions_text([many], dry_run=False).split())

    assert "delta_5, and 94 more" in inputs(100)
    assert "delta_5, delta_6 " in inputs(7)


def test_a_dry_run_shortens_nothing() -> None:
    actions = [action(number) for number in range(40)]
    planned = result(*(unit(*actions) for _ in range(30)), inputs=tuple(f"delta_{n}" for n in range(100)))
    text = compactions_text([planned], dry_run=True)
    assert sum(line.startswith("copy ") for line in lines_of(text)) == 30 * 40
    assert "delta_99" in text
    assert "copy " not in compactions_text([planned], dry_run=False)
    written = result(unit(path="/staging/x", length=5 * MIB))
    assert "base_0000005/bucket_00000: 1,200 rows out, 5.0 MiB" in lines_of(compactions_text([written], dry_run=True))


def test_delete_events_and_empty_inputs_are_told() -> None:
    one = unit(
        directory="delete_delta_0000001_0000005",
        is_delete=True,
        events_out=1,
        empty_files=(f"{LOCATION}/delta_1/bucket_0",),
    )
    text = lines_of(compactions_text([result(one)], dry_run=True))
    assert "delete_delta_0000001_0000005/bucket_00000: 1 event out" in text
    assert "empty files  delta_1/bucket_0" in text


def test_a_single_write_id_is_no_range() -> None:
    text = compactions_text([result(min_write_id=5)], dry_run=False)
    assert "write ids    5, high-water mark 6" in lines_of(text)


def test_lines_fit_and_carry_no_terminal_commands() -> None:
    long = result(
        unit(*(action(n, copy=False) for n in range(9))),
        inputs=tuple(f"delta_{n:07d}_{n:07d}_0000" for n in range(50)),
        reason="word " * 80 + "\x1b[31mred\x1b[0m\nnext",
    )
    text = compactions_text([long], dry_run=True)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


@pytest.mark.parametrize("state", list(Outcome))
@pytest.mark.parametrize("count", [20, 21, 22, 10_000])
def test_of_many_places_that_end_alike_the_first_are_told_and_of_failures_all(state: Outcome, count: int) -> None:
    many = [result(ref=TableRef("sales", "orders", f"p={number}"), units=None, state=state) for number in range(count)]
    text = compactions_text([*many, FAILED], dry_run=True)
    few = count > 21 and state not in (Outcome.FAILED, Outcome.CONFLICT)
    assert text.count(f"major, {state.value}") == (20 if few else count + (state is FAILED.state))
    assert (f"and {count - 20:,} more {state.value}; --output json tells of each" in text) == few
    assert FAILED.reason in text
    assert f"{count + 1:,} compactions" in text


@pytest.mark.parametrize("count", [21, 10_000])
def test_the_initiator_too(count: int) -> None:
    many = [
        replace(one, ref=one.ref._replace(partition=f"p={number}"))
        for number in range(count)
        for one in (LEFT, LOOKED_AT)
    ]
    failed = replace(LEFT, outcome=Outcome.FAILED, reason="Cannot list it: because of the test")
    text = initiator_text([*many, *[failed] * count])
    for one, kind in ((LEFT, "left alone"), (LOOKED_AT, f"for a {LOOKED_AT.type} compaction")):
        assert text.count(one.reason) == (20 if count > 21 else count)
        assert (f"and {count - 20:,} more {kind}; --output json tells of each" in text) == (count > 21)
    assert text.count(failed.reason) == count
    assert f"{3 * count:,} places looked at" in text


def test_nothing_at_all() -> None:
    assert compactions_text([], dry_run=False) == "Nothing to compact."
    assert initiator_text([]) == "Nothing to look at: no table was found."
    assert cleaner_text([]) == "Nothing to clean."


# --- initiator --------------------------------------------------------------------------------------------------------

LOOKED_AT = InitiatorResult(
    ref=TableRef("sales", "orders", "ds=2026-01-01"),
    location=LOCATION,
    type="minor",
    queued=12,
    reason="11 delta directories are more than 10",
    base_bytes=10 * MIB,
    delta_bytes=MIB,
    deltas=11,
    ratio=0.1,
    threshold=10,
    threshold_key="hive.compactor.delta.num.threshold",
    threshold_source="table property",
    outcome=Outcome.DUE,
)
LEFT = InitiatorResult(
    ref=TableRef("sales", "x"),
    location="/x",
    type=None,
    queued=None,
    reason="it is switched off",
    outcome=Outcome.LEFT_ALONE,
)


def test_the_initiator_tells_figures_threshold_and_source() -> None:
    failed = replace(
        LEFT,
        ref=LEFT.ref._replace(table="y"),
        location="/data/y",
        reason="Cannot list it: because of the disk",
        outcome=Outcome.FAILED,
    )
    assert initiator_text([LOOKED_AT, LEFT, failed]).splitlines() == [
        "3 places looked at: 1 minor, 1 left alone, 1 failed; 1 request queued",
        "",
        "Place",
        "  Decision  Request  Deltas  In deltas   In base   Ratio",
        "sales.y",
        "  failed          -       -          -         -       -",
        "    Cannot list it: because of the disk (/data/y)",
        "sales.orders.ds=2026-01-01",
        "  minor          12      11    1.0 MiB  10.0 MiB  10.00%",
        "    11 delta directories are more than 10 (hive.compactor.delta.num.threshold =",
        "    10, table property)",
        "sales.x",
        "  none            -       -          -         -       -",
        "    it is switched off",
    ]
    assert "(/data/y)" not in initiator_text([replace(failed, reason="Cannot list /data/y")])


def test_what_a_worker_would_refuse_is_no_decision_for_a_compaction() -> None:
    refused = replace(LOOKED_AT, queued=None, reason="its columns disagree", outcome=Outcome.REFUSED)
    held_back = replace(refused, reason="the last 2 compactions failed", outcome=Outcome.HELD_BACK)
    lines = initiator_text([LOOKED_AT, refused, refused, held_back, LEFT]).splitlines()
    summary = " ".join(line.strip() for line in lines[:2])
    assert summary == "5 places looked at: 1 minor, 1 left alone, 2 refused, 1 held back; 1 request queued"
    assert [line.split()[0] for line in lines if line.startswith("  ")].count("refused") == 2
    assert any(line.startswith("  held back") for line in lines)
    assert [line for line in lines if "columns disagree" in line] == ["    its columns disagree"] * 2
    report = InitiatorReport(about)
    told(report, (LOOKED_AT, refused, refused))
    assert report.totals() == {"looked_at": 3, "queued": 1, "refused": 2, "held_back": 0, "failed": 0}
    assert report.notes() == ["2 places cannot be compacted as they are: status has a finding for each"]
    assert report.exit_status() == 0


def test_a_table_that_fits_has_a_line_for_each_place() -> None:
    assert initiator_text([LEFT]).splitlines() == [
        "1 place looked at: none to compact, 1 left alone; 0 requests queued",
        "",
        "Place    Decision  Request  Deltas  In deltas  In base  Ratio",
        "sales.x  none            -       -          -        -      -",
        "    it is switched off",
    ]


@pytest.mark.parametrize(("threshold", "shown"), [(0.1, "0.1"), (43_200_000, "43200000"), (500.0, "500")])
def test_a_threshold_is_shown_as_it_is_set(threshold: float, shown: str) -> None:
    text = initiator_text([replace(LOOKED_AT, threshold=threshold)])
    assert f"hive.compactor.delta.num.threshold = {shown}, table" in " ".join(text.split())


# --- cleaner ----------------------------------------------------------------------------------------------------------

CLEANED = CleaningResult(
    id=12,
    ref=TableRef("sales", "orders"),
    location="/orders",
    state=Outcome.READY_FOR_CLEANING,
    reason="something is left",
    removed=(
        RemovedPath(path="/orders/delta_0000001_0000001_0000", bytes=3 * MIB, reason="covered by base_0000005"),
        RemovedPath(path="/orders/_tmp_1", bytes=1, reason="litter of a dead run"),
    ),
    blocked=("delta_2: the retention of 1 d has not passed", "base_3: something else"),
)


def test_the_cleaner_tells_what_went_and_what_stays() -> None:
    assert cleaner_text([CLEANED]).splitlines() == [
        "sales.orders: ready for cleaning (request 12)",
        "  reason       something is left",
        "  location     /orders",
        "  removed      2 paths, 3.0 MiB",
        "       3.0 MiB  delta_0000001_0000001_0000: covered by base_0000005",
        "        1 byte  _tmp_1: litter of a dead run",
        "  blocked      delta_2: the retention of 1 d has not passed",
        "               base_3: something else",
        "",
        "1 place: 1 ready for cleaning; 2 paths, 3.0 MiB removed",
    ]


def test_what_stays_for_one_reason_is_told_together() -> None:
    texts = ("delta_1: the retention has not passed", "delta_2: the retention has not passed", "base_3: it is read")
    assert cleaner_text([replace(CLEANED, removed=(), blocked=texts)]).splitlines()[3:5] == [
        "  blocked      delta_1, delta_2: the retention has not passed",
        "               base_3: it is read",
    ]


def test_what_went_to_the_trash_is_no_space_that_was_won() -> None:
    moved = replace(CLEANED.removed[0], moved_to="/orders/_acidlib_trash/1-2/delta_0000001_0000001_0000")
    text = cleaner_text([replace(CLEANED, removed=(moved, CLEANED.removed[1]), blocked=())])
    assert lines_of(text)[3:] == [
        "removed      1 path, 1 byte",
        "1 byte  _tmp_1: litter of a dead run",
        "moved        1 path, 3.0 MiB, to /orders/_acidlib_trash/1-2; they take space",
        "until that is emptied",
        "3.0 MiB  delta_0000001_0000001_0000: covered by base_0000005",
        "",
        "1 place: 1 ready for cleaning; 1 path, 1 byte removed; 1 path, 3.0 MiB moved to",
        "the trash",
    ]


def test_a_dry_clean_says_what_would_go() -> None:
    planned = replace(CLEANED, id=None, state=Outcome.PLANNED, removed=CLEANED.removed[:1], blocked=())
    text = lines_of(cleaner_text([planned], dry_run=True))
    assert text[0] == "sales.orders: planned"
    assert "would go     1 path, 3.0 MiB" in text
    assert text[-1] == "Dry run, nothing was changed. 1 place: 1 planned; 1 path, 3.0 MiB would go"


def test_many_paths_are_shortened() -> None:
    removed = tuple(RemovedPath(path=f"/orders/d{n}", bytes=MIB, reason="covered") for n in range(50))
    many = replace(CLEANED, removed=removed, blocked=tuple(f"b{n}" for n in range(50)))
    short = lines_of(cleaner_text([many]))
    assert "and 30 more paths, 30.0 MiB" in short
    assert "and 30 more" in " ".join(short[-4:])


# --- words and figures ------------------------------------------------------------------------------------------------


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


def test_all_that_jobs_print_fits_a_terminal_that_nobody_has_widened() -> None:
    words = "word " * 40
    part = {
        "path": f"delete_delta_{'9' * 19}_{'9' * 19}_0000", "kind": "delta", "first_write_id": 1, "last_write_id": 2,
        "reader": "obsolete", "why": words, "files": 123_456, "bytes": 5 * MIB, "rows": 123_456_789, "damage": words,
    }  # fmt: skip
    place = {
        "database": "d", "table": "t", "partition": None, "location": "/t", "high_water_mark": None, "error": words,
        "parts": [part, part],
    }  # fmt: skip
    decided = replace(LOOKED_AT, ref=LOOKED_AT.ref._replace(partition=f"ds={'x' * 60}"), reason=words, deltas=123_456)
    cleaned = replace(CLEANED, reason=words, blocked=(words,), removed=(replace(CLEANED.removed[0], reason=words),))
    texts = (
        initiator_text([decided, LEFT]),
        cleaner_text([cleaned]),
        places_text([place]),
        checks_text(CHECKS | {"checks": [{"name": "metastore", "state": "wrong", "found": words, "advice": words}]}),
    )
    for text in texts:
        assert max(map(len, text.splitlines())) <= WIDTH
        assert text.count("word") >= 40


def test_rows_that_are_not_counted_are_told_so() -> None:
    whole = replace(action(0, stripes=0, file="delta_0000001_0000001_0000/data.csv"), rows=None, reason="unchanged")
    done = result(unit(whole, rows_in=None, rows_out=None, file_name="000000_0.csv"))
    text = compactions_text([done], dry_run=True)
    assert "base_0000005/000000_0.csv: rows not counted" in lines_of(text)
    assert "rows         not counted" in lines_of(text)
    assert "delta_0000001_0000001_0000/data.csv, rows not counted: unchanged" in " ".join(text.split())


@pytest.mark.parametrize("state", ["succeeded", "ready for cleaning", "planned", "failed", "conflict"])
@pytest.mark.parametrize("count", [21, 22])
def test_the_cleaner_too(state: str, count: int) -> None:
    cleaned = replace(CLEANED, state=Outcome(state))
    text = cleaner_text(
        [replace(cleaned, ref=CLEANED.ref._replace(partition=f"p={number}")) for number in range(count)]
    )
    few = count > 21 and state not in ("failed", "conflict")
    assert text.count(f": {state} (request") == (20 if few else count)
    assert (f"and {count - 20:,} more {state}; --output json tells of each" in text) == few


CHECKS: dict[str, Any] = {
    "checks": [
        {"name": "queue", "state": "ok", "found": "mysql", "advice": ""},
        {"name": "Java", "state": "wrong", "found": "it is not there", "advice": "install it"},
    ],
    "totals": {"checks": 2, "wrong": 1},
}


def test_what_to_do_stands_below_the_line_of_a_check() -> None:
    assert checks_text(CHECKS) == (
        "ok         queue  mysql\n"
        "wrong      Java   it is not there\n"
        "                  -> install it\n"
        "\n"
        "2 checks, 1 wrong"
    )
