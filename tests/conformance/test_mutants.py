"""Faults put into the writer on purpose: the judges see each of them, and the proof before publishing stops its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compaction import MAJOR, MINOR, Compacted, bucket_files, compact_directory
from judges import merge, tables
from judges.java_orc import JavaOrc

import acidlib.orc.statistics
import acidlib.orc.writer
import acidlib.rewrite.bucket
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.rows.row_ids import Keys
from conformance.checks import java_problems, statistics_problems

COLUMNS = "struct<a:int,s:string>"
BUCKET = 536870912
GENERATION = 4
UNIT, ENCODE = acidlib.rewrite.bucket, acidlib.orc.writer
REWRITE_ALL, COPY_ALL = RewriteSettings(copy_bytes=1 << 40), RewriteSettings(copy_bytes=0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two transactions of 40 rows in some stripes of small row groups, and one that deletes three rows of the first."""
    location = tmp_path / "table"
    layout = tables.Layout(stripe_size=1, stride=5, batch=20)
    for write_id in (1, 2):
        rows = [(write_id * 1000 + i * i, f"row {i % 7}") for i in range(40)]
        tables.write_dir(
            location, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, rows), layout
        )
    gone = tables.deletes(3, [(1, BUCKET, row_id) for row_id in (3, 4, 17)])
    tables.write_dir(location, tables.delta_name(3, 3, delete=True), COLUMNS, gone, layout)
    return location


def compact(location: Path, kind: CompactionType = MAJOR, settings: RewriteSettings = REWRITE_ALL) -> Compacted:
    return compact_directory(location, kind, "", GENERATION, settings=settings)


def output(location: Path, compacted: Compacted) -> Path:
    return bucket_files(location, compacted.directories)[0]


def tree(location: Path) -> list[str]:
    return sorted(path.relative_to(location).as_posix() for path in location.rglob("*"))


@pytest.mark.java
def test_without_a_fault_the_judges_are_content(table: Path, java: JavaOrc) -> None:
    before = merge.read(table, generation=GENERATION)
    path = output(table, compact(table))
    assert merge.read(table, generation=GENERATION, strict=True) == before
    assert statistics_problems(path, GENERATION) == []
    assert java_problems(java, path) == []


# --- what equal rows do not show --------------------------------------------------------------------------------------


@pytest.mark.java
def test_java_sees_an_index_position_that_is_off_by_one(
    table: Path, java: JavaOrc, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = ENCODE.encode_ints

    def shifted(values: Any, *, signed: bool, marks: Any) -> Any:
        encoded = true(values, signed=signed, marks=marks)
        skips = np.array(encoded.skips)
        skips[1:] += 1
        return replace(encoded, skips=skips)

    monkeypatch.setattr(ENCODE, "encode_ints", shifted)
    before = merge.read(table, generation=GENERATION)
    path = output(table, compact(table))
    assert merge.read(table, generation=GENERATION, strict=True) == before  # equal rows prove nothing about the index
    assert java.differences(path) == []
    assert java.seek_check(path).problems


def shift_integers(monkeypatch: pytest.MonkeyPatch, story: str, minimum: int, maximum: int, total: int) -> None:
    """Statistics of integers are off by so much where they are computed for row groups, or where they are merged."""
    true, true_story = acidlib.orc.statistics._set_integers, getattr(ENCODE, story)

    def wrong(typed: Any, low: int, high: int, found: int) -> None:
        true(typed, low + minimum, high + maximum, found + total)

    def faulty(*args: Any, **named: Any) -> Any:
        with monkeypatch.context() as within:
            within.setattr(acidlib.orc.statistics, "_set_integers", wrong)
            return true_story(*args, **named)

    monkeypatch.setattr(ENCODE, story, faulty)


@pytest.mark.parametrize("story", ["group_statistics", "merge_statistics"], ids=["groups", "merged"])
@pytest.mark.parametrize("what", ["minimum", "maximum", "sum"])
def test_a_statistic_that_is_off_by_three_is_seen(
    story: str, what: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift = {"minimum": (3, 0, 0), "maximum": (0, -3, 0), "sum": (0, 0, 3)}[what]
    shift_integers(monkeypatch, story, *shift)
    before = merge.read(table, generation=GENERATION)
    path = output(table, compact(table))
    assert merge.read(table, generation=GENERATION, strict=True) == before
    problems = statistics_problems(path, GENERATION)
    assert problems
    assert all(what in problem for problem in problems)


@pytest.mark.java
def test_java_loses_rows_by_a_minimum_that_is_off_by_three(
    table: Path, java: JavaOrc, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift_integers(monkeypatch, "group_statistics", 3, 0, 0)
    assert java_problems(java, output(table, compact(table)))


def test_a_wrong_key_index_entry_is_seen(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = UNIT.acid_metadata

    def wrong(last_keys: Any, **counts: int) -> dict[str, bytes]:
        return true([(w, b, row_id + 1) for w, b, row_id in last_keys], **counts)

    monkeypatch.setattr(UNIT, "acid_metadata", wrong)
    refused(table)
    without_proof(monkeypatch)
    [problem] = statistics_problems(output(table, compact(table)), GENERATION)
    assert problem.startswith("hive.acid.key.index")


def test_wrong_counts_of_operations_are_seen(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = UNIT.acid_metadata
    monkeypatch.setattr(UNIT, "acid_metadata", lambda keys, inserts, deletes: true(keys, inserts=deletes, deletes=0))
    [problem] = statistics_problems(output(table, compact(table)), GENERATION)
    assert problem.startswith("hive.acid.stats")


# --- what the proof stops ---------------------------------------------------------------------------------------------


def without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UNIT.BucketWriter, "prove", lambda *_: None)


def refused(
    location: Path, match: str = "Cannot publish", kind: CompactionType = MAJOR, settings: RewriteSettings = REWRITE_ALL
) -> None:
    """The compaction fails for the reason, and the directory is as it was, down to the bytes."""
    before = {path: path.read_bytes() for path in location.rglob("*") if path.is_file()}
    names = tree(location)
    with pytest.raises(CorruptError, match=match):
        compact(location, kind, settings)
    assert tree(location) == names
    assert {path: path.read_bytes() for path in location.rglob("*") if path.is_file()} == before


def changed_parts(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Any], Any]) -> None:
    """Every rewritten input stripe goes through `change(part, written)`."""
    true = UNIT.BucketWriter.kept_rows

    def part(written: Any, stripe: Any) -> Any:
        return change(true(written, stripe), written)

    monkeypatch.setattr(UNIT.BucketWriter, "kept_rows", part)


def _with_keep(part: Any, keep: Any) -> Any:
    ids = part.stripe
    kept = np.ones(part.stripe.rows, dtype=np.bool_) if part.keep is None else part.keep
    places = np.flatnonzero(kept)
    chosen = keep[places]
    assert ids is not None
    return replace(part, keep=keep & kept, keys=part.keys.select(chosen), current=part.current[chosen])


def test_a_row_dropped_too_many(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_last(part: Any, written: Any) -> Any:
        keep = np.ones(part.stripe.rows, dtype=np.bool_)
        keep[-1] = False
        return _with_keep(part, keep)

    changed_parts(monkeypatch, drop_last)
    refused(table, "rows in less 3 deleted less 0 aborted are not .* rows out")


def test_a_delete_that_is_not_applied(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = UNIT.BucketWriter.kept_rows
    monkeypatch.setattr(
        UNIT.BucketWriter, "kept_rows", lambda written, stripe: true(replace(written, deleted=Keys.empty()), stripe)
    )
    refused(table, "less 3 deleted less 0 aborted are not 80 rows out")


def test_another_row_dropped_in_place_of_the_deleted_one(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = UNIT.row_masks

    def beside(*args: Any) -> Any:
        gone, aborted = true(*args)
        return None if gone is None else np.roll(gone, 5), aborted

    monkeypatch.setattr(UNIT, "row_masks", beside)
    refused(table, "3 rows of the result are in the delete set")


def test_rows_counted_as_deleted_that_no_event_deletes(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count_one_less(part: Any, written: Any) -> Any:
        written.matched -= bool(written.matched)
        return part

    changed_parts(monkeypatch, count_one_less)
    refused(table, "rows are in the delete set and 3 were deleted")


@pytest.mark.parametrize("settings", [REWRITE_ALL, COPY_ALL], ids=["rewrite", "copy"])
def test_keys_out_of_order(table: Path, settings: RewriteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UNIT, "in_key_order", lambda stripes: tuple(reversed(stripes)))
    refused(table, "its keys do not ascend", settings=settings)


@pytest.mark.parametrize("settings", [REWRITE_ALL, COPY_ALL], ids=["rewrite", "copy"])
def test_a_stripe_without_key_index_entry(
    table: Path, settings: RewriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = UNIT.acid_metadata
    monkeypatch.setattr(UNIT, "acid_metadata", lambda keys, **counts: true(list(keys)[:-1], **counts))
    refused(table, "do not ascend|key-index entries", settings=settings)


def test_an_input_whose_keys_do_not_ascend_is_refused_by_its_name(table: Path) -> None:
    """Two of its rows share an id, which no statistics tell."""
    events = [(0, 4, BUCKET, row, 4, (row, "x")) for row in (0, 1, 1, 9)]
    path = table / tables.delta_name(4, 4) / "bucket_00000"
    path.parent.mkdir()
    path.write_bytes(tables.orc_bytes(tables.acid_schema(COLUMNS), events))
    before = tree(table)
    with pytest.raises(RefusedError, match=f"stripe 0 of {path}: its keys do not ascend; INSERT OVERWRITE in Hive"):
        compact(table)
    assert tree(table) == before


def test_a_delete_event_of_another_row(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = UNIT.encode_deletes

    def wrong(keys: Keys, current: Any, options: Any) -> Any:
        return true(Keys(keys.write_ids, keys.buckets, keys.row_ids + 1), current, options)

    monkeypatch.setattr(UNIT, "encode_deletes", wrong)
    tables.write_dir(table, tables.delta_name(4, 4), COLUMNS, tables.inserts(4, [(1, "x")]))
    refused(table, kind=MINOR)
