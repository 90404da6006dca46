"""Results that a second reader compares with what was there before: what it sees, and what is held because of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.hive_tables import HiveTable, hive_tables_by_kind
from judges import merge, tables
from judges.fixtures import Fixture, fixtures

import acidlib.jobs.compact as compact_job
import acidlib.rewrite.recode
import acidlib.rewrite.unit
from acidlib.engine import prepare
from acidlib.errors import RetryError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings, Unit
from acidlib.model.writeids import ValidWriteIdList
from acidlib.points import Point
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.output import Proof
from acidlib.storage import rename_store
from integration.children import killed_at
from integration.harness import Jobs, Ran, fixture, tree, visible

UNIT, RECODE = acidlib.rewrite.unit, acidlib.rewrite.recode
NOW = ("--retention", "0s")
COLUMNS = "struct<a:int,s:string>"
LAYOUT = tables.Layout(stripe_size=1, stride=5, batch=20)


@pytest.mark.parametrize(("table", "kind"), hive_tables_by_kind(), ids=str)
def test_tables_that_hive_wrote(table: HiveTable, kind: CompactionType, jobs: Jobs, tmp_path: Path) -> None:
    location = table.copy(tmp_path / table.name)
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    asked = ("--location", location, *said, "--hive-version", str(table.generation), "--table-kind", "full")
    (entry,) = jobs.good(f"{kind.label.lower()}_compact", *asked, "--verify", "--minor-as-major-bytes", "0").compactions
    assert entry["state"] == "ready for cleaning", entry
    compared = entry["verification"]
    assert compared["rows"] == entry["rows_in"] - entry["rows_deleted"] - entry["rows_aborted"]
    assert compared["events"] == entry["events_out"]
    assert compared["buckets"]
    assert len(compared["buckets"]) == compared["of_buckets"]


@pytest.mark.parametrize("table", fixtures(insert_only=True), ids=lambda table: table.name)
def test_insert_only_tables_that_hive_wrote(table: Fixture, jobs: Jobs, tmp_path: Path) -> None:
    location = fixture(table.name, tmp_path / table.folder.name)
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    asked = ("--location", location, "--table-kind", "insert-only", *said, "--hive-version", str(table.generation))
    for entry in jobs.good("major_compact", *asked, "--verify").compactions:
        assert entry["state"] == "ready for cleaning", entry
        assert entry["verification"]["rows"] > 0


# --- faults of the rewriting, behind the back of its own proof --------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rows of two writers in two transactions, some of them deleted; and a transaction that was rolled back."""
    location = tmp_path / "db.db" / "t"
    events: dict[int, list[tables.Event]] = {}
    for write_id in (1, 2, 3, 4, 5):
        for writer in (0, 1):
            rows = [(write_id * 1000 + i * i + writer, f"row {i % 7}") for i in range(40)]
            events.setdefault(write_id, []).extend(tables.inserts(write_id, rows, writer=writer))
    for low, high in ((1, 1), (2, 2), (3, 3), (4, 5)):
        held = events[low] + (events[high] if high != low else [])
        tables.write_dir(location, tables.delta_name(low, high), COLUMNS, held, LAYOUT)
    gone = [(2 - writer, tables.bucket_property(writer, 0), row_id) for writer in (0, 1) for row_id in (3, 4, 17)]
    tables.write_dir(location, tables.delta_name(6, 6, delete=True), COLUMNS, tables.deletes(6, gone), LAYOUT)
    return location


def compact(jobs: Jobs, table: Path, kind: str = "major", *more: str) -> Ran:
    said = ("--location", table, "--write-ids", "db.t:6:9223372036854775807::4", "--minor-as-major-bytes", "0")
    return jobs(f"{kind}_compact", *said, *more)


Patch = pytest.MonkeyPatch


def _parts(patch: Patch, change: Callable[[Any], Any]) -> None:
    true = UNIT._part
    patch.setattr(UNIT, "_part", lambda *given: change(true(*given)))


def unnoticed(patch: Patch, fault: Callable[[Patch], None]) -> None:
    """A fault that the engine's own proof does not stop."""
    patch.setattr(Proof, "check", lambda proof: None)
    fault(patch)


def a_row_is_lost(patch: Patch) -> None:
    def without_last(part: Any) -> Any:
        kept = np.ones(part.rows, dtype=np.bool_) if part.keep is None else part.keep
        chosen = np.ones(len(part.keys), dtype=np.bool_)
        chosen[-1] = False
        keep = kept.copy()
        keep[kept] = chosen
        return replace(part, keep=keep, keys=part.keys.select(chosen), current=part.current[chosen])

    _parts(patch, without_last)


def deletes_are_ignored(patch: Patch) -> None:
    true = UNIT._part
    patch.setattr(UNIT, "_part", lambda stripe, unit, _, written: true(stripe, unit, Keys.empty(), written))


def another_row_is_deleted(patch: Patch) -> None:
    true = UNIT.row_masks

    def beside(*given: Any) -> Any:
        gone, aborted = true(*given)
        return None if gone is None else np.roll(gone, 5), aborted

    patch.setattr(UNIT, "row_masks", beside)


def _units(patch: Patch, change: Callable[[Unit], Unit]) -> None:
    true = prepare.compaction_units
    patch.setattr(prepare, "compaction_units", lambda *given, **more: tuple(map(change, true(*given, **more))))


def aborted_rows_are_kept(patch: Patch) -> None:
    everything = ValidWriteIdList.parse("db.t:6:9223372036854775807::")
    _units(patch, lambda unit: replace(unit, write_ids=everything))


def _keys(patch: Patch, change: Callable[[Keys], Keys]) -> None:
    true = RECODE._join_keys
    patch.setattr(RECODE, "_join_keys", lambda parts: change(true(parts)))


def row_ids_are_shifted(patch: Patch) -> None:
    _keys(patch, lambda keys: Keys(keys.write_ids, keys.buckets, keys.row_ids + 1))


def write_ids_are_shifted(patch: Patch) -> None:
    _keys(patch, lambda keys: Keys(keys.write_ids + 1, keys.buckets, keys.row_ids))


def values_are_those_of_another_stripe(patch: Patch) -> None:
    true = UNIT.encode_rows

    def crossed(parts: Any, *given: Any) -> Any:
        first, second, *others = parts
        swapped = [replace(first, reader=second.reader), replace(second, reader=first.reader), *others]
        return true(swapped, *given)

    patch.setattr(UNIT, "encode_rows", crossed)


def a_number_is_another(patch: Patch) -> None:
    true = RECODE._user_column

    def other(part: Any, position: int, present: Any) -> Any:
        column = true(part, position, present)
        return column if position else replace(column, values=np.where(column.values == 1036, 1037, column.values))

    patch.setattr(RECODE, "_user_column", other)


def rows_are_in_the_file_of_another_bucket(patch: Patch) -> None:
    patch.setattr(Unit, "file_name", property(lambda unit: f"bucket_{1 - unit.bucket:05d}"))


def an_input_is_left_out(patch: Patch) -> None:
    _units(patch, lambda unit: replace(unit, inputs=unit.inputs[:1]))


def a_bucket_is_left_out(patch: Patch) -> None:
    true = prepare.compaction_units
    patch.setattr(prepare, "compaction_units", lambda inputs, **given: true(inputs, **given)[:-1])


def a_stripe_is_copied_twice(patch: Patch) -> None:
    true, first = UNIT.copy_unchanged, {}
    patch.setattr(
        UNIT, "copy_unchanged", lambda writer, file, number: true(writer, first.setdefault(id(writer), file), number)
    )
    patch.setattr(compact_job, "RewriteSettings", partial(RewriteSettings, copy_bytes=0))


def an_event_is_of_another_row(patch: Patch) -> None:
    true = UNIT.encode_deletes

    def wrong(keys: Keys, current: Any, options: Any) -> Any:
        return true(Keys(keys.write_ids, keys.buckets, keys.row_ids + 1), current, options)

    patch.setattr(UNIT, "encode_deletes", wrong)


def an_event_is_of_another_transaction(patch: Patch) -> None:
    true = UNIT.encode_deletes
    patch.setattr(UNIT, "encode_deletes", lambda keys, current, options: true(keys, current - 1, options))


def events_are_lost(patch: Patch) -> None:
    true = UNIT.read_deletes

    def fewer(*given: Any) -> Any:
        found = true(*given)
        return replace(found, keys=found.keys.select(slice(0, 1)), current=found.current[:1])

    patch.setattr(UNIT, "read_deletes", fewer)


EITHER = [
    a_row_is_lost,
    aborted_rows_are_kept,
    row_ids_are_shifted,
    write_ids_are_shifted,
    values_are_those_of_another_stripe,
    a_number_is_another,
    rows_are_in_the_file_of_another_bucket,
    an_input_is_left_out,
    a_bucket_is_left_out,
    a_stripe_is_copied_twice,
]
FAULTS = [
    *((kind, fault) for fault in EITHER for kind in ("major", "minor")),
    *(("major", fault) for fault in (deletes_are_ignored, another_row_is_deleted)),
    *(("minor", fault) for fault in (an_event_is_of_another_row, an_event_is_of_another_transaction, events_are_lost)),
]


@pytest.mark.parametrize(("kind", "fault"), FAULTS, ids=lambda given: getattr(given, "__name__", given))
def test_faults_of_the_rewriting_are_seen(
    kind: str, fault: Callable[[Patch], None], jobs: Jobs, table: Path, monkeypatch: Patch
) -> None:
    unnoticed(monkeypatch, fault)
    ran = compact(jobs, table, kind, "--verify")
    (entry,) = ran.compactions
    assert (ran.status, entry["state"]) == (3, "failed"), entry
    assert entry["reason"].startswith("Cannot vouch for the compaction of db.t: because bucket "), entry["reason"]
    assert entry["verification"] is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("major", "readers take no base, not base_0000006"),
        ("minor", "readers still take delete_delta_0000006_0000006_0000"),
    ],
)
def test_a_result_that_readers_do_not_take_is_seen(
    kind: str, why: str, jobs: Jobs, table: Path, monkeypatch: Patch
) -> None:
    """Where readers go on with what it was made of, all is as before, and nothing is known of the result."""
    true = rename_store.publish

    def hidden(fs: Any, where: Any, *given: Any, **more: Any) -> Any:
        published = true(fs, where, *given, **more)
        for name in published.directories:
            (table / name).rename(table / f"_{name}")
        return published

    monkeypatch.setattr(rename_store, "publish", hidden)
    ran = compact(jobs, table, kind, "--verify")
    assert (ran.status, ran.states) == (3, ["failed"])
    assert why in ran.told


# --- what is held because of it ---------------------------------------------------------------------------------------


def inserted(table: Path, write_id: int) -> None:
    events = tables.inserts(write_id, [(write_id, "more")])
    tables.write_dir(table, tables.delta_name(write_id, write_id), COLUMNS, events, LAYOUT)


def test_a_place_is_held_until_somebody_releases_it(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    assert compact(jobs, table, "minor").states == ["ready for cleaning"]
    with monkeypatch.context() as patch:
        unnoticed(patch, deletes_are_ignored)
        (entry,) = compact(jobs, table, "major", "--verify").compactions
    assert "bucket 0 has 157 rows before and 160 now" in entry["reason"]
    assert "before: delete_delta_0000001_0000006, delta_0000001_0000006; now: base_0000006" in entry["reason"]
    assert "base_0000006" in visible(table)
    there = visible(table)
    # nothing is removed, for the earlier request either, and nothing is built on it
    held = f"it is held: the result of request {entry['id']} could not be verified"
    for more in ((), ("--dry-run",)):
        (cleaned,) = jobs.good("cleaner", "--location", table, *NOW, *more).document["cleanings"]
        assert held in cleaned["reason"], cleaned
    inserted(table, 7)
    for kind in ("minor", "major"):
        for more in ((), ("--verify",), ("--dry-run",), ("--dry-run", "--verify")):
            ran = jobs(f"{kind}_compact", "--location", table, "--all-committed", *more)
            assert ran.states == ["refused"], ran.compactions
            assert held in ran.told
    assert {one["trouble"] for one in findings(jobs, table)} >= {"result not verified"}
    assert set(visible(table)) == {*there, "delta_0000007_0000007_0000"}
    # a person says that it is right
    planned = jobs.good("major_compact", "--location", table, "--all-committed", "--release-held", "--dry-run")
    assert planned.states == ["planned"]
    ran = jobs.good("major_compact", "--location", table, "--all-committed", "--release-held", "--verify")
    assert ran.states == ["ready for cleaning"]
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, table)}
    jobs.good("cleaner", "--location", table, *NOW)
    assert visible(table) == ["base_0000007"]


def test_what_is_taken_away_holds_nothing(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        unnoticed(patch, deletes_are_ignored)
        assert compact(jobs, table, "major", "--verify").status == 3
    shutil.rmtree(table / "base_0000006")
    before = merge.read(table, "db.t:6:9223372036854775807::4")
    assert compact(jobs, table, "major", "--verify").states == ["ready for cleaning"]
    jobs.good("cleaner", "--location", table, *NOW)
    assert merge.read(table) == before


def test_what_was_not_published_holds_nothing(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    there = visible(table)
    with monkeypatch.context() as patch:
        patch.setattr(rename_store, "publish", raising(RetryError("Cannot rename: because no space is left")))
        assert compact(jobs, table, "major", "--verify").states == ["failed"]
    assert visible(table) == there
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, table)}
    assert compact(jobs, table).states == ["ready for cleaning"]


@pytest.mark.parametrize("is_right", [True, False])
def test_a_run_that_dies_before_it_has_verified(is_right: bool, jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        if not is_right:
            unnoticed(patch, deletes_are_ignored)
        assert compact(jobs, table, "minor").states == ["ready for cleaning"]
        assert killed_at(Point.PUBLISHED, lambda: compact(jobs, table, "major", "--verify"))
    there = visible(table)
    # a run that verifies nothing leaves it alone, and so does the cleaner
    ran = compact(jobs, table)
    assert ran.states == ["refused"]
    assert "ended before it had verified its result, base_0000006; a compaction with --verify does that" in ran.told
    jobs.good("cleaner", "--location", table, *NOW)
    assert visible(table) == there
    ran = compact(jobs, table, "major", "--verify")
    if is_right:
        assert ran.states == ["ready for cleaning"]
        assert ran.compactions[0]["verification"]["rows"] == 314
        jobs.good("cleaner", "--location", table, *NOW)
        assert visible(table) == ["base_0000006"]
    else:
        assert (ran.status, ran.states) == (3, ["failed"])
        assert compact(jobs, table, "major", "--verify").states == ["refused"]


def test_a_share_of_the_buckets(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    (entry,) = compact(jobs, table, "major", "--verify", "sample=0.01").compactions
    assert (len(entry["verification"]["buckets"]), entry["verification"]["of_buckets"]) == (1, 2)
    with jobs.queue() as queue:
        assert [row.facts.unverified for row in queue.show()] == [()]  # whatever becomes of its cleaning
    inserted(table, 7)
    for words in ("sample=0", "sample=2", "some"):
        ran = jobs("major_compact", "--location", table, "--all-committed", "--verify", words)
        assert not ran.begun
        assert "neither none, all, nor sample=" in ran.error["message"]


def test_without_the_second_reader_nothing_is_compacted(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    there = tree(table)
    monkeypatch.setitem(sys.modules, "pyorc", None)
    ran = compact(jobs, table, "major", "--verify")
    assert not ran.begun
    assert "install acidlib[verify]" in ran.error["message"]
    assert tree(table) == there


def raising(error: Exception) -> Callable[..., None]:
    def raises(*_: Any, **__: Any) -> None:
        raise error

    return raises


def findings(jobs: Jobs, table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = jobs("status", "--location", table).document["findings"]
    return found
