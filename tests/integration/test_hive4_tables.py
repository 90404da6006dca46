"""Every kind of full ACID table of Hive 4: compacted and cleaned by us, before and after the eyes of Hive.

HiveServer2 makes each table in several copies. They are compacted: by hand to a minor compaction, as ALTER TABLE asks
for to a major one, and some as the initiator wants it. The last one, the twin, never is: it gets the same statements as
the others, and what Hive says about it is what it must say about them. What Hive writes and compacts after us, and how
it does, does not depend on the table: of these every pair stands in some case, not in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from judges.hive_client import coarse_texts
from long_runs import amount
from servers.hiveserver import HiveServer
from servers.metastore import Metastore

from integration.hive4_cases import ALL_DELETED, CASES, OPEN, TWIN, Case
from integration.hive4_compare import Directory, Picture, Rows
from integration.hive4_course import Course, live_course
from integration.hive4_making import table_of

pytestmark = pytest.mark.live
READ: Mapping[str, Callable[[Course, str], Mapping[str, Rows]]] = {
    "row by row": lambda course, case: course.read_compacted[case].result().row_by_row,
    "cleaned, by batches": lambda course, case: course.read_cleaned[case].result(),
}
IN_LONG_RUNS: Mapping[str, Callable[[Course, str], Mapping[str, Rows]]] = {
    "by batches": lambda course, case: course.read_compacted[case].result().by_batches,
    "cleaned, row by row": lambda course, case: course.fetched_cleaned[case].result(),
}
HOW = amount(READ, long={**READ, **IN_LONG_RUNS})
Copy = tuple[Case, str]
EVERY: tuple[Copy, ...] = tuple((case, copy) for case in CASES for copy in case.copies)
SNAPSHOTS: tuple[Copy, ...] = tuple((case, copy) for case in CASES for copy in case.every_copy)
WRITTEN: tuple[Copy, ...] = tuple((case, copy) for case in CASES for copy in case.by_hive)
each_copy = pytest.mark.parametrize(("case", "copy"), EVERY, ids=[f"{case}-{copy}" for case, copy in EVERY])
each_written = pytest.mark.parametrize(("case", "copy"), WRITTEN, ids=[f"{case}-{copy}" for case, copy in WRITTEN])


@pytest.fixture(scope="module")
def course(
    hive4_metastore: Metastore, hiveserver: HiveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Course]:
    """All cases."""
    with live_course(hive4_metastore, hiveserver, tmp_path_factory.mktemp("hive4_tables"), CASES) as stages:
        yield stages


def kind_of(case: Case, copy: str) -> str:
    """What compaction a copy gets."""
    return case.auto if copy == "auto" else copy


@each_copy
def test_compaction(course: Course, case: Case, copy: str) -> None:
    course.made[case.name].result()
    compacted = course.compacted
    assert {name: ran.status for name, ran in compacted.runs.items()} == dict.fromkeys(compacted.runs, 0)
    kind = kind_of(case, copy)
    places = course.places(case, [copy])
    assert any(compacted.before[place.key].enough(kind) for place in places) or case.name == "truncated"
    for place in places:
        before = compacted.before[place.key]
        if before.enough(kind):
            row = compacted.shown[place.printed]
            assert (row["state"], row["type"]) == ("ready for cleaning", kind.upper())
            assert row["errormessage"].strip() in ("", "---")
            check_names(before, kind, compacted.entries[place.key], row)
        elif copy == "auto":
            assert place.printed not in compacted.shown
        else:  # as Hive's worker answers: what is obsolete goes, nothing is written
            row, entry = compacted.shown.get(place.printed), compacted.entries[place.key]
            assert entry["state"] == ("ready for cleaning" if before.obsolete else "already compact")
            # where nothing is to be done that is known before anything is asked of the queue, unless Hive asked
            assert row is None or row["state"] == ("ready for cleaning" if before.obsolete else "refused")
            assert row is not None or not before.obsolete
            assert entry["output_directories"] == []
            assert "there is nothing to merge" in entry["reason"]


def test_statistics_are_told_and_nothing_else_of_a_table_changes(course: Course) -> None:
    """A table is sent back as a whole: what would be left out would be lost."""
    compacted = course.compacted
    before, after = compacted.described
    assert after == before
    told = [entry for (_, partition), entry in compacted.entries.items() if partition is None and entry["files"]]
    assert len(told) > 20
    assert {entry["statistics"]["reason"] for entry in told} == {None}
    assert all("numFiles" in entry["statistics"]["written"] for entry in told)


def check_names(before: Picture, kind: str, entry: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    """The results are named as Hive 4 names them, after the transaction that SHOW COMPACTIONS tells."""
    results = [Directory.parse(name) for name in entry["output_directories"]]
    assert {it.txn for it in results if it is not None} == {int(row["txnid"])}
    low, high = min(it.low for it in before.deltas), max(it.high for it in before.deltas)
    if kind == "major":
        (base,) = results
        assert base is not None
        assert base.kind == "base"
        assert high <= base.high <= before.mark
        return
    assert {it.kind for it in results if it is not None} == {it.kind for it in before.deltas}
    assert {(it.low, it.high) for it in results if it is not None} == {(low, high)}


@pytest.mark.parametrize("how", HOW)
@each_copy
def test_hive_reads_the_same_rows(course: Course, case: Case, copy: str, how: str) -> None:
    # the transaction that was open is committed when the cleaner is done
    cleaned = how.startswith("cleaned")
    twin = course.twin(case) if cleaned else course.read_compacted[case.name].result().row_by_row[TWIN]
    assert bool(twin.rows) == (case is not ALL_DELETED)
    assert HOW[how](course, case.name)[copy].rows == twin.rows


@pytest.mark.parametrize(("case", "copy"), SNAPSHOTS, ids=[f"{case}-{copy}" for case, copy in SNAPSHOTS])
def test_a_snapshot_has_the_rows_that_hive_reads(course: Course, case: Case, copy: str) -> None:
    """Of compacted tables, the replaced directories still there, and of the twin, which never is compacted."""
    hives = course.read_compacted[case.name].result().row_by_row[copy].rows
    types = course.types(table_of(case, copy))
    assert tuple(types) == case.columns
    assert course.snapshots_compacted[case.name].result()[copy] == coarse_texts(hives, [*types.values()], row_ids=True)


@each_copy
def test_a_snapshot_after_the_cleaner_has_the_rows_that_hive_reads(course: Course, case: Case, copy: str) -> None:
    hives = course.read_cleaned[case.name].result()[copy].rows
    types = [*course.types(table_of(case, copy)).values()]
    assert course.snapshots_cleaned[case.name].result()[copy] == coarse_texts(hives, types, row_ids=True)


@each_written
def test_hive_reads_the_same_rows_by_tasks(course: Course, case: Case, copy: str) -> None:
    rows = course.read_cleaned_by_tasks[case.name].result()
    assert rows[copy].rows == course.twin(case).rows


@each_copy
def test_hive_reads_what_was_written(course: Course, case: Case, copy: str) -> None:
    files = course.read_compacted[case.name].result().row_by_row[copy].files
    assert bool(files) == (case is not ALL_DELETED)
    for place in course.places(case, [copy]):
        if entry := course.compacted.entries.get(place.key):
            replaced = {f"{place.path}/{name}" for name in entry["inputs"]}
            read = {name.removeprefix("file:") for name in files}
            assert not {it for name in read for it in (name, name.rpartition("/")[0]) if it in replaced}


@pytest.mark.parametrize("case", [case for case in CASES if case.counted], ids=str)
def test_hive_counts(course: Course, case: Case) -> None:
    reading = course.read_compacted[case.name].result()
    assert reading.counted == dict.fromkeys(reading.counted, len(reading.row_by_row[TWIN].rows))


@pytest.mark.parametrize("case", [case for case in CASES if case.probes], ids=str)
def test_hive_finds_by_indexes(course: Course, case: Case) -> None:
    reading = course.read_compacted[case.name].result()
    assert reading.probed == {(copy, name): reading.expected[name] for copy, name in reading.probed}
    assert any(reading.expected.values())


def test_the_cleaner_waits_for_an_older_transaction(course: Course) -> None:
    early = course.cleaned_too_early
    assert early.ran.status == 0
    cleanings = early.ran.document["cleanings"]
    assert {entry["state"] for entry in cleanings} == {"ready for cleaning"}
    assert all(f"transaction {early.txn} " in entry["reason"] for entry in cleanings)
    assert early.after == early.before


@each_copy
def test_cleaning(course: Course, case: Case, copy: str) -> None:
    course.made[case.name].result()
    assert course.cleaned.ran.status == 0
    kind = kind_of(case, copy)
    for place in course.places(case, [copy]):
        before, after = course.compacted.before[place.key], course.cleaned.pictures[place.key]
        left = {it.name for it in after.directories} | after.originals
        if before.enough(kind):
            assert left == before.untouched(kind) | set(course.compacted.entries[place.key]["output_directories"])
            assert course.cleaned.shown[place.printed]["state"] == "succeeded"
        else:
            obsolete = before.obsolete if copy != "auto" else set()
            assert left == ({it.name for it in before.directories} | before.originals) - obsolete
    for place in course.places(case, [TWIN]):
        before, after = course.compacted.before[place.key], course.cleaned.pictures[place.key]
        assert (after.directories, after.originals) == (before.directories, before.originals)


def test_rows_of_the_transaction_that_was_open_appear(course: Course) -> None:
    before = course.read_compacted[OPEN.name].result().row_by_row[TWIN].values
    after = course.read_cleaned[OPEN.name].result()[TWIN].values
    assert [row for row in after if row not in before] == [("9", "'was open'")]


@each_written
def test_hive_writes_afterwards(course: Course, case: Case, copy: str) -> None:
    last = course.twin(case).newest
    written = course.written[case.name].result()
    assert written[copy].values == written[TWIN].values
    # new row ids depend on the order in which Hive's tasks read
    assert written[copy].up_to(last) == written[TWIN].up_to(last)
    assert written[copy].newest > last


@each_written
def test_hive_compacts_afterwards(course: Course, case: Case, copy: str) -> None:
    written = course.written[case.name].result()
    done = course.compacted_by_hive
    places = [place for place in course.places(case, [copy]) if place.key in done.asked]
    assert places
    for place in places:
        done.asked[place.key].result()
        row = done.shown[place.printed]
        assert (row["state"], row["type"]) == ("ready for cleaning", case.by_hive[copy].upper())
        assert done.left.shown[place.printed]["state"] == "succeeded"
        (*_, newest) = sorted(it.txn or 0 for it in done.left.pictures[place.key].directories)
        assert newest == int(row["txnid"])
    assert done.left.ran.status == 0
    for read in (done.read, done.read_cleaned):
        rows = read[case.name].result()
        assert rows[copy].rows == written[copy].rows
        assert rows[TWIN].rows == written[TWIN].rows


def test_every_kind_of_hives_follows_every_kind_of_ours() -> None:
    pairs = {pair for case in CASES for pair in case.by_hive.items()}
    assert pairs == {(ours, hives) for ours in ("minor", "major") for hives in ("minor", "major")}
    assert {case.auto for case in CASES} == {"", "minor", "major"}
    assert {case.name for case in CASES if case.afterwards} == {case.name for case in CASES if case.by_hive}
