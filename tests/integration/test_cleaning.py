"""The cleaner at work: what it says beforehand, what changes under its hands, and what it cannot remove."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conformance.hive_tables import hive_table
from judges import merge, tables
from located import at

from acidlib.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from acidlib.places.removals import DeleteRateLimiter
from acidlib.queue.sql import SqlQueue
from acidlib.runs import clean as cleaner
from acidlib.wording import human_bytes
from integration.children import without_rights
from integration.harness import Jobs, Ran, at_time, fixture, names, tree, visible
from integration.test_service_cycle import litter

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
DAY = 86_400
OBSOLETE = "delta_0000001_0000001_0000"


@pytest.fixture
def crud(jobs: Jobs, tmp_path: Path) -> Path:
    """A table that was compacted and awaits the cleaner."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    jobs.good("major_compact", "--location", place, *ALL)
    return place


def removals(ran: Ran) -> set[tuple[str, str, int, str]]:
    return {
        (entry["location"], item["path"], item["bytes"], item["reason"])
        for entry in ran.document["cleanings"]
        for item in entry["removed"]
    }


def bytes_below(path: Path) -> int:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files)


# --- what is told beforehand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--trash",)], ids=["deleted", "to the trash"])
def test_a_dry_run_names_exactly_what_then_goes(jobs: Jobs, tmp_path: Path, more: tuple[str, ...]) -> None:
    """Obsolete directories, original files, what was aborted, litter; with the bytes and the reason of each."""
    abouts = {name: hive_table(name) for name in ("hive3/a_crud", "hive3/g_orig", "hive4/aborted", "hive3/f_abort")}
    places = {}
    for name, about in abouts.items():
        place = places[name] = about.copy(tmp_path / "db.db" / name.replace("/", "_"))
        ids = ("--write-ids", f"db.{place.name}:{about.write_ids.partition(':')[2]}") if about.write_ids else ALL
        ran = jobs.good("major_compact", "--location", place, "--hive-version", str(about.generation), *ids)
        assert ran.states == ["ready for cleaning"]
    originals = places["hive3/g_orig"]
    (originals / "HIVE_UNION_SUBDIR_1").mkdir()
    (originals / "HIVE_UNION_SUBDIR_1" / "000000_0").write_bytes(b"branch")
    (originals / "other_table").mkdir()
    (originals / "other_table" / "000000_0").write_bytes(b"somebody else's")
    (places["hive3/a_crud"] / OBSOLETE / "_hidden").mkdir()
    (places["hive3/a_crud"] / OBSOLETE / "_hidden" / "file").write_bytes(b"counted as well")
    litter(places["hive4/aborted"], "_tmp_old", 2 * DAY)
    before = tree(tmp_path, without=lambda name: name.startswith(("queue.db", "home")))
    sizes = {path: bytes_below(path) for place in places.values() for path in place.iterdir()}

    planned = jobs.good("cleaner", *NOW, "--dry-run", *more)
    assert tree(tmp_path, without=lambda name: name.startswith(("queue.db", "home"))) == before
    done = jobs.good("cleaner", *NOW, *more)

    assert removals(planned) == removals(done)
    assert {entry["state"] for entry in done.document["cleanings"]} == {"succeeded"}
    gone = {str(path): size for path, size in sizes.items() if not path.exists()}
    assert {f"{location}/{path}": size for location, path, size, _ in removals(done)} == gone
    reasons = {reason.partition(" ")[0] for *_, reason in removals(done)}
    assert reasons == {"covered", "everything", "left"}
    assert (originals / "other_table" / "000000_0").read_bytes() == b"somebody else's"
    told = [entry["blocked"] for entry in done.document["cleanings"] if entry["location"] == str(originals)]
    assert told == [[f"other_table: {told[0][0].partition(': ')[2]}"]]
    assert "another table or partition may lie there" in told[0][0]
    words = {entry["location"]: entry["reason"] for entry in done.document["cleanings"]}
    assert words.pop(str(originals)) == (
        "nothing is left that the cleaner may remove; 1 covered directory stays for its owner to remove"
    )
    assert set(words.values()) == {"nothing obsolete is left"}
    assert jobs.good("cleaner", *NOW, "--dry-run").document["cleanings"] == []


def test_a_dry_run_for_orphans_names_exactly_what_then_goes(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    for name in ("_tmp_a", "_tmp_b"):
        litter(place, name, 9 * DAY, marked=name == "_tmp_a")
    orphans = ("cleaner", "--orphans", "--location", place)
    assert removals(jobs.good(*orphans)) == removals(jobs.good(*orphans, "--delete")) != set()


# --- what changes meanwhile -------------------------------------------------------------------------------------------


def right_before_removing(
    monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], *, place: Path | None = None
) -> None:
    """Let something happen once, between the listing (of a place) and the removal of what it shows."""
    real, left = cleaner.remove_named, [action]

    def late(services: Any, held: Any, *arguments: Any, **more: Any) -> Any:
        if left and place in (None, Path(str(held.location))):
            left.pop()()
        return real(services, held, *arguments, **more)

    monkeypatch.setattr(cleaner, "remove_named", late)


def clean(jobs: Jobs, *more: str) -> tuple[int, dict[str, Any]]:
    ran = jobs("cleaner", *NOW, *more)
    (entry,) = ran.document["cleanings"]
    return ran.status, entry


def test_a_write_that_comes_meanwhile_is_left_alone(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = merge.read(crud)
    columns = "struct<id:int,value:string>"

    def write() -> None:
        tables.write_dir(crud, "delta_0000005_0000005_0000", columns, tables.inserts(5, [(50, "late")]))

    right_before_removing(monkeypatch, write)
    status, entry = clean(jobs)
    assert (status, entry["state"]) == (0, "succeeded")
    assert visible(crud) == ["base_0000004", "delta_0000005_0000005_0000"]
    assert len(merge.read(crud)) == len(rows) + 1


def test_what_another_cleaner_takes_meanwhile_is_gone(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right_before_removing(monkeypatch, lambda: shutil.rmtree(crud / OBSOLETE))
    status, entry = clean(jobs)
    assert (status, entry["state"]) == (0, "succeeded")
    assert OBSOLETE not in [item["path"] for item in entry["removed"]]
    assert visible(crud) == ["base_0000004"]


def appear(place: Path, how: str) -> None:
    directory = place / OBSOLETE
    if how == "a file":
        (directory / "bucket_00007").write_bytes(b"late")
    elif how == "other contents":
        file = directory / "bucket_00000"
        file.write_bytes(b"x" * file.stat().st_size)
    elif how == "a link inside":
        (directory / "link").symlink_to(place.parent.parent / "outside")
    else:
        shutil.move(directory, place.parent.parent / "aside")
        directory.symlink_to(place.parent.parent / "outside")


@pytest.mark.parametrize("more", [(), ("--trash",)], ids=["deleted", "to the trash"])
@pytest.mark.parametrize("how", ["a file", "other contents", "a link inside", "a link in its place"])
def test_a_directory_that_changes_meanwhile_stays(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, more: tuple[str, ...]
) -> None:
    """Never called cleaned; what else is obsolete goes, and the next try takes it if it is as it was listed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    rows = merge.read(crud)
    with monkeypatch.context() as patch:
        right_before_removing(patch, lambda: appear(crud, how))
        status, entry = clean(jobs, *more)
    assert (status, entry["state"]) == (3, "failed")
    assert entry["reason"].startswith(f"{OBSOLETE}: Cannot ")
    assert sorted(item["path"] for item in entry["removed"]) == [
        "delete_delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0000", "delta_0000002_0000002_0000",
        "delta_0000003_0000003_0000",
    ]  # fmt: skip
    assert os.path.lexists(crud / OBSOLETE)
    assert names(outside) == ["precious"]
    (row,) = jobs.shown().values()
    assert (row["state"], row["error_message"]) == ("ready for cleaning", entry["reason"])
    if "link" in how:
        (crud / OBSOLETE / "link" if how == "a link inside" else crud / OBSOLETE).unlink()
    assert clean(jobs)[1]["state"] == "ready for cleaning"  # too soon
    assert jobs.good("cleaner", *NOW, "--dry-run").document["cleanings"][0]["removed"] == []
    with monkeypatch.context() as patch:
        at_time(patch, 3600)
        status, entry = clean(jobs, *more)
    assert (status, entry["state"]) == (0, "succeeded")
    assert [name for name in visible(crud) if name != "base_0000004"] == []
    assert merge.read(crud, strict=True) == rows
    assert names(outside) == ["precious"]


# --- what cannot be removed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--trash",)], ids=["deleted", "to the trash"])
def test_what_may_not_be_removed_is_told_and_tried_again(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    rows = merge.read(crud)
    other = fixture("hive3/a_crud", tmp_path / "db.db" / "other")
    jobs.good("major_compact", "--location", other, *ALL)
    # their files may not be unlinked; nor may they be moved elsewhere, for that changes their own ..
    stay = [OBSOLETE, "delta_0000002_0000002_0000"]
    for name in stay:
        (crud / name).chmod(0o555)
    for attempt in range(3):
        with monkeypatch.context() as patch:
            at_time(patch, attempt * DAY)
            ran = without_rights(tmp_path, lambda: jobs("cleaner", *NOW, *more))
        assert ran.status == 3
        found = {Path(entry["location"]).name: entry for entry in ran.document["cleanings"]}
        assert found["crud"]["state"] == "failed"
        assert found["crud"]["reason"].count("the permission is missing") == 2
        assert [name for name in visible(crud) if name.startswith("del")] == (stay if more else [])
        assert sorted(path.name.rpartition(".")[2] for path in crud.glob("*delta_*")) == stay
        assert len(found["crud"]["removed"]) == (3 if attempt == 0 else 0)
        assert merge.read(crud, strict=True) == rows
        if attempt == 0:
            assert found["other"]["state"] == "succeeded", "one does not stop the others"
            assert visible(other) == ["base_0000004"]
    states = [row["state"] for row in jobs.shown().values() if row["table"] == "crud"]
    assert states == ["ready for cleaning"]
    for path in crud.glob("*delta_*"):
        path.chmod(0o755)
    with monkeypatch.context() as patch:
        at_time(patch, 9 * DAY)
        assert jobs.good("cleaner", *NOW, *more).document["cleanings"][0]["state"] == "succeeded"
    assert visible(crud) == ["base_0000004"]
    assert list(crud.glob("_acidlib_removed*")) == []


def test_after_so_many_failures_it_is_failed_and_never_succeeded(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (crud / OBSOLETE / "link").symlink_to("/")
    monkeypatch.setattr(cleaner, "list_location", without_links(cleaner.list_location))
    entries = []
    for attempt in range(20):
        with monkeypatch.context() as patch:
            at_time(patch, attempt * 10 * DAY)
            entries += jobs("cleaner", *NOW).document["cleanings"]
    assert {entry["state"] for entry in entries} == {"failed"}
    (row,) = jobs.shown().values()
    assert row["state"] == "failed"
    assert "symbolic link" in row["error_message"]
    assert 2 <= len(entries) < 20


def without_links(real: Callable[..., Any]) -> Callable[..., Any]:
    """A listing from before a link was there."""

    def listing(fs: Any, location: Location, **more: Any) -> Any:
        link = Path(str(location)) / OBSOLETE / "link"
        target = link.readlink()
        link.unlink()
        try:
            return real(fs, location, **more)
        finally:
            link.symlink_to(target)

    return listing


def test_litter_that_cannot_be_removed_hides_nothing_that_went(jobs: Jobs, crud: Path, tmp_path: Path) -> None:
    litter(crud, "_tmp_fine", 2 * DAY)
    litter(crud, "_tmp_old", 2 * DAY)
    stamp = (crud / "_tmp_old" / "_attempts").stat().st_mtime
    (crud / "_tmp_old" / "_attempts").chmod(0o555)
    os.utime(crud / "_tmp_old" / "_attempts", (stamp, stamp))
    ran = without_rights(tmp_path, lambda: jobs("cleaner", *NOW))
    (entry,) = ran.document["cleanings"]
    assert (ran.status, entry["state"]) == (3, "failed")
    assert "_tmp_old.revoked: Cannot remove" in entry["reason"]
    assert [item["path"] for item in entry["removed"]][5:] == ["_tmp_fine"]
    assert visible(crud) == ["base_0000004"]


@pytest.mark.parametrize("method", ["note_failure", "end_dropped"])
def test_a_queue_that_is_full_does_not_stop_the_others(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """It keeps one failure from being noted, or one request from its end, whose table was re-created."""
    from acidlib.errors import RetryError
    from acidlib.ports.directories import DirectoryCleaning

    other = fixture("hive3/a_crud", tmp_path / "db.db" / "other")
    jobs.good("major_compact", "--location", other, *ALL)
    if method == "note_failure":
        right_before_removing(monkeypatch, lambda: appear(crud, "a file"), place=crud)
    else:
        shutil.rmtree(crud)
        fixture("hive3/a_crud", crud)

    def failing(*arguments: object) -> None:
        raise RetryError("Cannot write to the queue: no space is left")

    monkeypatch.setattr(DirectoryCleaning, method, failing)
    ran = jobs("cleaner", *NOW)
    states = {Path(entry["location"]).name: entry for entry in ran.document["cleanings"]}
    assert (ran.status, states["crud"]["state"], states["other"]["state"]) == (3, "failed", "succeeded")
    then = "then: " if method == "note_failure" else ""
    assert f"{then}Cannot write to the queue" in states["crud"]["reason"]


def test_a_queue_that_is_lost_at_the_end_hides_nothing_that_went(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acidlib.errors import RetryError
    from acidlib.ports.directories import DirectoryCleaning

    def failing(cleaning: DirectoryCleaning) -> None:
        raise RetryError("Cannot read the queue: the database is gone")

    monkeypatch.setattr(DirectoryCleaning, "known_places", failing)
    ran = jobs("cleaner", *NOW)
    cleaned, rest = ran.document["cleanings"]
    assert (ran.status, cleaned["state"], rest["state"]) == (3, "succeeded", "failed")
    assert cleaned["removed"]
    assert rest["reason"].startswith("Cannot go on: Cannot read the queue")
    assert visible(crud) == ["base_0000004"]
    nothing = jobs("cleaner", *NOW)
    assert (nothing.status, nothing.error["kind"]) == (1, "retry")


def test_a_cleaning_is_no_faster_than_allowed(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paced: list[int] = []
    monkeypatch.setattr(DeleteRateLimiter, "_wait", lambda _, files: paced.append(files))
    files = sum(path.is_file() for name in visible(crud) if "base" not in name for path in (crud / name).rglob("*"))
    jobs.good("cleaner", *NOW, "--set", "acidlib.cleaner.files.per.second=4")
    assert paced == [1] * files


# --- several in a row -------------------------------------------------------------------------------------------------


def test_several_results_of_one_place_in_a_row(jobs: Jobs, tmp_path: Path) -> None:
    """Minor upon minor, then a major: whoever comes first takes no more than its own mark says, and the rows stay."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    rows = merge.read(place)
    minor = ("minor_compact", "--location", place, "--minor-as-major-bytes", "0", "--write-ids")
    for mark in (2, 3):
        jobs.good(*minor, f"db.crud:{mark}:9223372036854775807::")
    jobs.good("major_compact", "--location", place, *ALL)
    assert [row["state"] for row in jobs.shown().values()] == ["ready for cleaning"] * 3
    planned = jobs.good("cleaner", *NOW, "--dry-run").document["cleanings"]
    done = jobs.good("cleaner", *NOW).document["cleanings"]
    assert [entry["id"] for entry in done] == [1, 2, 3] == [entry["id"] for entry in planned]
    assert [entry["state"] for entry in done] == ["succeeded"] * 3
    went = [item["path"] for entry in done for item in entry["removed"]]
    assert len(went) == len(set(went))
    assert {item["path"] for entry in planned for item in entry["removed"]} == set(went)
    assert not any(path.endswith("0000004_0000004_0000") for entry in done[:2] for path in [
        item["path"] for item in entry["removed"]
    ])  # fmt: skip
    assert visible(place) == ["base_0000004"]
    assert merge.read(place, strict=True) == rows


@pytest.mark.parametrize("of", ["hive3/a_crud", "hive4/crud_table"])
def test_a_base_that_was_overwritten_while_its_inputs_await_cleaning_goes(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    place = fixture(of, tmp_path / "db.db" / "crud")
    compact = ("major_compact", "--location", place, *ALL)
    jobs.good(*compact)
    (compacted,) = (place / name for name in visible(place) if name.startswith("base_"))
    overwritten = f"base_{int(compacted.name.split('_')[1]) + 1:07d}"
    shutil.copytree(compacted, place / overwritten)
    (place / overwritten / "_metadata_acid").unlink(missing_ok=True)
    rows = merge.read(place)
    scan = ("initiator", "--location", place, *ALL)
    (due,) = jobs.good(*scan).document["decisions"]
    assert (due["outcome"], due["reason"]) == ("due", "an obsolete base is left to be cleaned")
    (again,) = jobs.good("major_compact").compactions
    assert (again["state"], again["output_directories"]) == ("ready for cleaning", [])
    # what waits now reaches all of it
    assert jobs.good(*compact).states == ["already compact"]
    assert [entry["outcome"] for entry in jobs.good(*scan).document["decisions"]] == ["left alone"]
    with monkeypatch.context() as later:
        at_time(later, DAY / 2)
        assert jobs.good("status", "--location", place, *ALL).document["findings"] == []
    assert [entry["state"] for entry in jobs.good("cleaner", *NOW).document["cleanings"]] == ["succeeded"] * 2
    assert visible(place) == [overwritten]
    assert merge.read(place, strict=True) == rows


def test_where_another_queue_knows_the_compaction_the_queue_that_was_asked_is_named(
    jobs: Jobs, crud: Path, tmp_path: Path
) -> None:
    """And what lies there; of other tables, whose run has died, nothing is said nor done."""
    other = fixture("hive3/a_crud", tmp_path / "db.db" / "other")
    asked = f"sqlite:///{tmp_path / 'asked.db'}"
    with SqlQueue(asked) as queue:
        facts = RequestFacts(location=at(other))
        request = CompactionRequest(id=0, ref=TableRef("db", "other"), type=CompactionType.MAJOR, facts=facts)
        queue.enqueue(request, now_ms=int(time.time() * 1000) - 3_600_000, worker_id="acidlib-gone-1")
    ran = jobs("cleaner", "--location", crud, queue_url=asked)
    (note,) = ran.document["notes"]
    obsolete = [name for name in visible(crud) if name.startswith("del")]
    size = human_bytes(sum(bytes_below(crud / name) for name in obsolete))
    assert note.startswith(
        f"the queue {asked} has no request of {crud} that awaits cleaning, but {len(obsolete)} directories and files "
        f"there, {size}, are obsolete if all that lies there is committed: name the queue in which the compaction "
        "was requested with --queue-url"
    )
    assert (ran.status, ran.err) == (0, "")
    assert "request 1 for db.other was given back" in jobs("cleaner", queue_url=asked).err
    jobs.good("cleaner", "--location", crud, *NOW)
    (note,) = jobs.good("cleaner", "--location", crud).document["notes"]
    assert note == (
        f"the queue {jobs.queue_url} has no request of {crud} that awaits cleaning; its newest there, 1, is succeeded; "
        "nothing there is obsolete"
    )
    (note,) = jobs.good("cleaner", "--location", tmp_path / "db.db").document["notes"]
    assert note.startswith(f"the queue {jobs.queue_url} has no request of {tmp_path / 'db.db'} that awaits cleaning")
    (note,) = jobs.good("cleaner", "--warehouse", tmp_path).document["notes"]
    assert note.startswith(f"the queue {jobs.queue_url} has no request of {tmp_path} that awaits cleaning")
    assert "Cannot list /nowhere" in jobs("cleaner", "--warehouse", "/nowhere").err
