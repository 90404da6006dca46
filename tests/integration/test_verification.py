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
import s3_tables
from conformance.hive_tables import HiveTable, hive_tables_by_kind
from judges import merge, tables
from judges.fixtures import Fixture, fixtures
from s3_tables import uploaded
from servers.s3 import S3Server

import acidlib.api.lake as compact_job
import acidlib.rewrite.bucket
import acidlib.rewrite.recode
from acidlib.acid.names import BaseDir, DeltaDir
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import RetryError
from acidlib.location import Location
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings, Unit
from acidlib.planning import inputs
from acidlib.points import Point
from acidlib.rows.row_ids import Keys
from acidlib.runs import plan as prepare
from acidlib.stores.renaming.store import RenameStage
from integration.children import killed_at
from integration.harness import AROUND, Jobs, Ran, fixture, names, tree, visible

UNIT, RECODE = acidlib.rewrite.bucket, acidlib.rewrite.recode
NOW = ("--retention", "0s")
COLUMNS = "struct<a:int,s:string>"
LAYOUT = tables.Layout(stripe_size=1, stride=5, batch=20)


@pytest.mark.parametrize(("table", "kind"), hive_tables_by_kind(), ids=str)
def test_tables_that_hive_wrote(table: HiveTable, kind: CompactionType, jobs: Jobs, tmp_path: Path) -> None:
    location = table.copy(tmp_path / table.folder.name)
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


OLD_TYPES = "struct<f:float,g:float,x:double,d:date,n:decimal(12,4),c:char(3)>"
NEW_TYPES = "struct<f:double,g:string,x:char(24),d:varchar(10),n:string,c:char(5)>"


@pytest.mark.parametrize("generation", ["3", "4"])
def test_columns_whose_type_was_changed(generation: str, jobs: Jobs, tmp_path: Path) -> None:
    """Both readers convert the values, each by code of its own."""
    reals = (74.72, -0.1, 0.0, -0.0, 1e-4, 1e7, 16777216.0, 2.0**30 + 128, float("inf"), 1 / 3, -999.995, None)
    days = (-719_164, -141_428, -141_427, -1, 0, 11_016, 2_932_896, -577_736, None)
    numbers = ("0", "1.5000", "-0.0001", "99999999.9999", "120", None)
    rows = [
        (real, real, real, days[i % len(days)], numbers[i % len(numbers)], ("a", " b ", None)[i % 3])
        for i, real in enumerate(reals * 6)
    ]
    place = tmp_path / "db.db" / "t"
    for number in (1, 2):
        tables.write_dir(place, tables.delta_name(number, number), OLD_TYPES, tables.inserts(number, rows), LAYOUT)
    latest = tables.inserts(3, [(0.5, "g", "x", "d", "n", "c")])
    tables.write_dir(place, tables.delta_name(3, 3), NEW_TYPES, latest)
    asked = ("--location", place, "--all-committed", "--hive-version", generation, "--table-kind", "full")
    (entry,) = jobs.good("major_compact", *asked, "--verify").compactions
    assert entry["state"] == "ready for cleaning", entry["reason"]
    assert entry["verification"]["rows"] == 2 * len(rows) + 1
    assert "values to convert: f from float to double" in " ".join(
        action["reason"] for file in entry["files"] for action in file["actions"]
    )


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


def compact(jobs: Jobs, table: Path | Location, kind: str = "major", *more: str) -> Ran:
    said = ("--location", str(table), "--write-ids", "db.t:6:9223372036854775807::4", "--minor-as-major-bytes", "0")
    return jobs(f"{kind}_compact", *said, *more)


Patch = pytest.MonkeyPatch


def _parts(patch: Patch, change: Callable[[Any], Any]) -> None:
    true = UNIT.BucketWriter.kept_rows
    patch.setattr(UNIT.BucketWriter, "kept_rows", lambda *given: change(true(*given)))


def unnoticed(patch: Patch, fault: Callable[[Patch], None]) -> None:
    """A fault that the engine's own proof does not stop."""
    patch.setattr(UNIT.BucketWriter, "prove", lambda *_: None)
    fault(patch)


def a_row_is_lost(patch: Patch) -> None:
    def without_last(part: Any) -> Any:
        kept = np.ones(part.stripe.rows, dtype=np.bool_) if part.keep is None else part.keep
        chosen = np.ones(len(part.keys), dtype=np.bool_)
        chosen[-1] = False
        keep = kept.copy()
        keep[kept] = chosen
        return replace(part, keep=keep, keys=part.keys.select(chosen), current=part.current[chosen])

    _parts(patch, without_last)


def deletes_are_ignored(patch: Patch) -> None:
    true = UNIT.BucketWriter.kept_rows
    patch.setattr(
        UNIT.BucketWriter, "kept_rows", lambda written, stripe: true(replace(written, deleted=Keys.empty()), stripe)
    )


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
        swapped = [replace(first, stripe=second.stripe), replace(second, stripe=first.stripe), *others]
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
    there = names(table)
    unnoticed(monkeypatch, fault)
    ran = compact(jobs, table, kind, "--verify")
    (entry,) = ran.compactions
    assert (ran.status, entry["state"], entry["unverified"]) == (3, "failed", True), entry
    assert entry["reason"].startswith("Cannot vouch for the compaction of db.t: bucket "), entry["reason"]
    assert (entry["verification"], entry["output_directories"]) == (None, [])
    assert names(table) == there, "nothing was published, and nothing is left of it"


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("major", BaseDir(write_id=9), "may use none of its bases, the oldest is base_0000009"),
        ("minor", DeltaDir(min_write_id=1, max_write_id=5), "readers still take delete_delta_0000006_0000006_0000"),
    ],
)
def test_a_name_that_readers_do_not_take_is_seen(
    kind: str, name: BaseDir | DeltaDir, why: str, jobs: Jobs, table: Path, monkeypatch: Patch
) -> None:
    there = names(table)
    monkeypatch.setattr(inputs, "_outputs", lambda *_: (name,))
    monkeypatch.setattr(UNIT.BucketWriter, "prove", lambda *_: None)
    ran = compact(jobs, table, kind, "--verify")
    assert (ran.status, ran.states) == (3, ["failed"])
    assert why in ran.told
    assert names(table) == there


# --- what is held because of it ---------------------------------------------------------------------------------------


def inserted(table: Path, write_id: int) -> None:
    events = tables.inserts(write_id, [(write_id, "more")])
    tables.write_dir(table, tables.delta_name(write_id, write_id), COLUMNS, events, LAYOUT)


def test_a_place_is_compacted_again_only_with_a_look_at_all_of_it(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    """A result that was not right is seen by no reader, and is not made again unseen."""
    assert compact(jobs, table, "minor").states == ["ready for cleaning"]
    there = visible(table)
    with monkeypatch.context() as patch:
        unnoticed(patch, deletes_are_ignored)
        (entry,) = compact(jobs, table, "major", "--verify").compactions
    assert "bucket 0 has 157 rows before and 160 now" in entry["reason"]
    assert "before: delete_delta_0000001_0000006, delta_0000001_0000006; now: base_0000006" in entry["reason"]
    assert "Nothing was published: readers see the same as before. Compact it again with --verify" in entry["reason"]
    assert visible(table) == there
    (finding,) = [one for one in findings(jobs, table) if one["trouble"] == "result not verified"]
    assert (finding["level"], finding["reason"].count("--verify")) == ("error", 1)
    # nothing that is wrong is there: what the minor has replaced goes
    jobs.good("cleaner", "--location", table, *NOW)
    assert visible(table) == ["delete_delta_0000001_0000006", "delta_0000001_0000006"]
    inserted(table, 7)
    asked = ("--location", table, "--all-committed")
    for more in ((), ("--dry-run",)):
        ran = jobs("major_compact", *asked, *more)
        assert (ran.status, ran.states, ran.compactions[0]["unverified"]) == (3, ["refused"], True)
        assert f"it is held: the result of request {entry['id']} could not be verified" in ran.told
    assert "\nerror: db.t: refused" in ran.err
    assert jobs("major_compact", *asked, "--dry-run", "--verify").states == ["planned"]
    ran = jobs.good("major_compact", *asked, "--verify", "sample=0.01")
    assert ran.states == ["ready for cleaning"]
    assert len(ran.compactions[0]["verification"]["buckets"]) == 2, "another sample might not meet what was wrong"
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, table)}
    jobs.good("cleaner", "--location", table, *NOW)
    assert visible(table) == ["base_0000007"]


def test_the_operator_may_say_that_a_result_is_right(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        unnoticed(patch, deletes_are_ignored)
        assert compact(jobs, table, "major", "--verify").status == 3
    assert compact(jobs, table, "major", "--release-held", "--dry-run").states == ["planned"]
    assert compact(jobs, table, "major", "--release-held").states == ["ready for cleaning"]
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, table)}


def test_what_was_not_published_holds_nothing(jobs: Jobs, table: Path, monkeypatch: Patch) -> None:
    there = visible(table)
    with monkeypatch.context() as patch:
        patch.setattr(RenameStage, "publish", raising(RetryError("Cannot rename: no space is left")))
        assert compact(jobs, table, "major", "--verify").states == ["failed"]
    assert visible(table) == there
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, table)}
    assert compact(jobs, table).states == ["ready for cleaning"]


PUBLISHING = (
    Point.CLOSED, Point.ACCEPTED, Point.VERIFIED, Point.SEALED, Point.CHECKED, Point.RECORDED, Point.FIRST_RENAMED,
    Point.SECOND_RENAMED, Point.PUBLISHED, Point.MARKED,
)  # fmt: skip


@pytest.mark.parametrize("point", PUBLISHING)
def test_a_run_that_dies_has_shown_nothing_that_is_not_verified(
    point: Point, jobs: Jobs, table: Path, monkeypatch: Patch
) -> None:
    """Nor does it keep any later run from its work."""
    kind = "minor" if point in (Point.RECORDED, Point.SECOND_RENAMED) else "major"
    there, rows = visible(table), merge.read(table, "db.t:6:9223372036854775807::4")
    with monkeypatch.context() as patch:
        unnoticed(patch, events_are_lost if kind == "minor" else deletes_are_ignored)
        came = killed_at(point, lambda: compact(jobs, table, kind, "--verify"))
    assert came is (point in (Point.CLOSED, Point.ACCEPTED)), "what differs goes no further"
    assert visible(table) == there
    if not came:
        assert killed_at(point, lambda: compact(jobs, table, kind, "--verify"))
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, table)} or not came
    (state,) = compact(jobs, table, "major", *(() if came else ("--verify",))).states
    assert state == ("already compact" if point is Point.MARKED else "ready for cleaning")
    jobs.good("cleaner", "--location", table, *NOW)
    assert visible(table) == ["base_0000006"]
    assert merge.read(table) == rows


# --- in a bucket readers see a result before it can be read -----------------------------------------------------------


@pytest.fixture
def bucket(s3_server: S3Server, table: Path, monkeypatch: Patch) -> Location:
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties())
    place = uploaded(s3_server, table, "db.db/t")
    shutil.rmtree(table)
    return place


def shown(server: S3Server, place: Location) -> list[str]:
    return [name for name in s3_tables.names(server, place) if name.startswith(("base_", "delta_", "delete_delta_"))]


@pytest.mark.live
def test_in_a_bucket_a_place_is_held_until_the_operator_releases_it(
    jobs: Jobs, s3_server: S3Server, bucket: Location, monkeypatch: Patch
) -> None:
    before = shown(s3_server, bucket)
    with monkeypatch.context() as patch:
        unnoticed(patch, deletes_are_ignored)
        (entry,) = compact(jobs, bucket, "major", "--verify").compactions
    assert "bucket 0 has 157 rows before and 160 now" in entry["reason"]
    assert "Readers see the result, and all its inputs are still there" in entry["reason"]
    assert "remove base_0000006 if that is wrong" in entry["reason"]
    there = ["base_0000006", *before]
    assert shown(s3_server, bucket) == there
    # nothing is removed, and nothing is built on it
    held = f"it is held: the result of request {entry['id']} could not be verified"
    jobs.good("cleaner", "--location", str(bucket), *NOW)
    for more in ((), ("--verify",), ("--dry-run",), ("--dry-run", "--verify")):
        ran = compact(jobs, bucket, "major", *more)
        assert (ran.status, ran.states) == (3, ["refused"]), ran.compactions
        assert held in ran.told
    assert shown(s3_server, bucket) == there
    assert {one["trouble"] for one in findings(jobs, bucket)} >= {"result not verified"}
    # the operator says that it is right
    assert compact(jobs, bucket, "major", "--release-held").states == ["ready for cleaning"]
    assert "result not verified" not in {one["trouble"] for one in findings(jobs, bucket)}
    (cleaned,) = jobs.good("cleaner", "--location", str(bucket), *NOW).document["cleanings"]
    assert cleaned["state"] == "succeeded"
    assert shown(s3_server, bucket) == ["base_0000006"]


@pytest.mark.live
@pytest.mark.parametrize("is_right", [True, False])
def test_in_a_bucket_a_run_that_dies_before_it_has_verified(
    is_right: bool, jobs: Jobs, s3_server: S3Server, bucket: Location, tmp_path: Path, monkeypatch: Patch
) -> None:
    copy = tmp_path / "copy"
    rows = merge.read(s3_tables.downloaded(s3_server, bucket, copy), "db.t:6:9223372036854775807::4")
    with monkeypatch.context() as patch:
        if not is_right:
            unnoticed(patch, deletes_are_ignored)
        assert killed_at(Point.PUBLISHED, lambda: compact(jobs, bucket, "major", "--verify"))
    there = shown(s3_server, bucket)
    assert "base_0000006" in there
    # a run that verifies nothing leaves it alone, and so does the cleaner
    ran = compact(jobs, bucket)
    assert (ran.status, ran.states) == (3, ["refused"])
    assert "ended before it had verified its result, base_0000006; a compaction with --verify does that" in ran.told
    jobs.good("cleaner", "--location", str(bucket), *NOW)
    assert shown(s3_server, bucket) == there
    ran = compact(jobs, bucket, "major", "--verify")
    if is_right:
        assert ran.states == ["ready for cleaning"]
        assert ran.compactions[0]["verification"]["rows"] == 314
        jobs.good("cleaner", "--location", str(bucket), *NOW)
        assert shown(s3_server, bucket) == ["base_0000006"]
        assert merge.read(s3_tables.downloaded(s3_server, bucket, copy)) == rows
        return
    assert (ran.status, ran.states) == (3, ["failed"])
    assert compact(jobs, bucket, "major", "--verify").states == ["refused"]
    # what is taken away holds nothing
    client = s3_server.client()
    for item in client.list_objects_v2(Bucket=bucket.authority, Prefix=f"{bucket.path[1:]}/base_")["Contents"]:
        client.delete_object(Bucket=bucket.authority, Key=item["Key"])
    assert compact(jobs, bucket, "major", "--verify").states == ["ready for cleaning"]
    assert merge.read(s3_tables.downloaded(s3_server, bucket, copy), "db.t:6:9223372036854775807::4") == rows


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


def findings(jobs: Jobs, table: Path | Location) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = jobs("status", "--location", str(table)).document["findings"]
    return found
