"""Records of probes: which one counts for a table, and that jobs wait for it where the store demands one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from integration.harness import IN_PROCESS, fixture

import acidlib
from acidlib.cli import jobs
from acidlib.errors import CorruptError, RefusedError, RetryError
from acidlib.location import HDFS, Location
from acidlib.model.results import CheckState, ProbeDocument, PromiseState, TriedPromise
from acidlib.status.doctor import probe_check
from acidlib.stores.probe_records import RECORD, last_probe, require_probe, write_probe_record
from acidlib.stores.promises import BrokenPromiseError
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.stores import Stores

STORES = Stores()


def at(path: Path) -> Location:
    return STORES.locate(str(path))


def passed(path: Path) -> ProbeDocument:
    """A probe of a directory that has shown all."""
    promises = [
        TriedPromise(name=promise.name, sentence=promise.sentence, state=PromiseState.HOLDS, seen="it")
        for promise in STORES.store(at(path)).promises()
    ]
    return ProbeDocument.of(promises, location=str(path), kind="local", authority="", time_ms=1)


def record(path: Path, document: ProbeDocument | None = None) -> None:
    write_probe_record(STORES.store(at(path)), at(path), document or passed(path))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in a store that demands a probe."""
    monkeypatch.setattr(RenameStore, "demands_probe", True)
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ACIDLIB_QUEUE_URL", f"sqlite:///{tmp_path}/queue.db")
    return fixture("hive3/a_crud", tmp_path / "warehouse" / "sales.db" / "orders")


def test_the_nearest_record_at_or_above_is_the_last_one(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert last_probe(STORES, at(below)) is None
    for path in (tmp_path, tmp_path / "a", below):
        record(path)
        assert last_probe(STORES, at(below)) == passed(path)
    record(below, replace(passed(below), time_ms=2))
    probe = last_probe(STORES, at(below))
    assert probe is not None
    assert probe.time_ms == 2, "a record takes the place of the one before it"
    assert last_probe(STORES, at(below), outside=(at(tmp_path / "a"),)) == passed(tmp_path)


def test_a_record_of_another_store_counts_for_nothing(tmp_path: Path) -> None:
    record(tmp_path, replace(passed(tmp_path), authority="other"))
    assert last_probe(STORES, at(tmp_path)) is None
    record(tmp_path, replace(passed(tmp_path), kind=str(HDFS)))
    assert last_probe(STORES, at(tmp_path)) is None


def test_a_mounted_disk_is_a_store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mnt" / "t").mkdir(parents=True)
    record(tmp_path)
    assert last_probe(STORES, at(tmp_path / "mnt" / "t")) is not None
    monkeypatch.setattr("os.path.ismount", lambda path: path == f"{tmp_path}/mnt")
    assert last_probe(STORES, at(tmp_path / "mnt" / "t")) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"location": "/w"}'])
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/{RECORD}"):
        last_probe(STORES, at(tmp_path))
    assert probe_check(STORES, at(tmp_path)).state is CheckState.WRONG


def test_a_record_in_the_table_counts_for_nothing(table: Path) -> None:
    partition = table / "ds=1" / "hour=2"
    partition.mkdir(parents=True)
    for path in (table, table / "ds=1", partition):
        record(path)
        for place in (table, partition):
            with pytest.raises(RefusedError, match=f"; run: acidlib probe {table.parent}$"):
                require_probe(STORES, at(place))
    record(table.parent)
    for place in (table, partition):
        require_probe(STORES, at(place))


def test_the_metastore_says_where_the_table_is(table: Path) -> None:
    place = table / "of_2024" / "january"
    place.mkdir(parents=True)
    record(table)
    require_probe(STORES, at(place))
    with pytest.raises(RefusedError, match="is recorded above the table"):
        require_probe(STORES, at(place), table=at(table))
    record(table.parent)
    require_probe(STORES, at(place), table=at(table))


def test_a_probe_has_to_have_shown_what_the_store_promises_today(table: Path) -> None:
    before = passed(table.parent)
    first, second, *others = before.promises
    for promises in ((second, *others), (replace(first, state=PromiseState.BROKEN), second, *others)):
        record(table.parent, replace(before, promises=promises))
        with pytest.raises(RefusedError, match=f"the probe of {table.parent} has not shown {first.name}; run: acidlib"):
            require_probe(STORES, at(table))


def test_a_compaction_waits_for_a_probe_and_a_reader_does_not(table: Path) -> None:
    orders = acidlib.directory(str(table), all_committed=True)
    before = sorted(table.rglob("*"))
    (place,) = orders.compact("major", progress=False).places
    assert (place.state.value, place.reason) == (
        "refused",
        f"Cannot work in {table}: no probe of this store is recorded above the table; run: acidlib probe "
        f"{table.parent}",
    )
    assert sorted(table.rglob("*")) == before
    assert (orders.to_arrow().num_rows, len(orders.files(progress=False).places)) == (4, 1)
    assert acidlib.probe(table.parent.parent).ok
    assert orders.compact("major", progress=False).ok


def test_the_doctor_names_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = probe_check(STORES, at(tmp_path))
    assert check.state is CheckState.NOTE
    assert f"acidlib probe {tmp_path}" in check.advice
    monkeypatch.setattr(RenameStore, "demands_probe", True)
    assert probe_check(STORES, at(tmp_path)).state is CheckState.WRONG
    record(tmp_path)
    check = probe_check(STORES, at(tmp_path))
    assert (check.state, "1970-01-01T00:00:00+00:00, and all" in check.found) == (CheckState.OK, True)
    record(tmp_path, replace(passed(tmp_path), promises=passed(tmp_path).promises[1:]))
    assert probe_check(STORES, at(tmp_path)).state is CheckState.WRONG


def test_who_may_not_read_above_the_tables_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: LocalFileSystem, path: str, **_: object) -> bytes:
        raise RetryError(f"Cannot read {path}: no right")

    monkeypatch.setattr(LocalFileSystem, "read", denied)
    check = probe_check(STORES, at(tmp_path))
    assert (check.state, "no right" in check.found) == (CheckState.UNCHECKED, True)
    monkeypatch.setattr(RenameStore, "demands_probe", True)
    assert probe_check(STORES, at(tmp_path)).state is CheckState.WRONG


def without_run(text: str) -> dict[str, object]:
    """A document without the id of a run, which no probe has."""
    document: dict[str, object] = json.loads(text)
    assert document.pop("run_id") is None
    return document


def test_the_command_and_its_record(tmp_path: Path) -> None:
    words = [str(tmp_path), "--metastore-uri", "none"]
    ran = CliRunner().invoke(jobs.probe, [*words, "--output", "json"], obj=IN_PROCESS)
    assert (ran.exit_code, json.loads((tmp_path / RECORD).read_text())) == (0, without_run(ran.stdout))
    assert [path.name for path in tmp_path.iterdir()] == [RECORD]
    (tmp_path / "_acidlib_probe.killed").mkdir()
    said = CliRunner().invoke(jobs.probe, words, obj=IN_PROCESS)
    assert " ".join(said.stdout.split()).endswith(": all hold")
    assert f"works in {tmp_path}/_acidlib_probe." in said.stderr
    assert f"{tmp_path}/_acidlib_probe.killed is of another probe" in said.stderr
    assert f"{RECORD} is of another probe" not in said.stderr, "a record is no leftover"


def test_a_record_in_a_table_is_told_to_count_for_nothing(tmp_path: Path) -> None:
    inside = tmp_path / "t" / "dt=1"
    inside.joinpath("base_1").mkdir(parents=True)
    for path, is_inside in ((tmp_path, False), (tmp_path / "t", True), (inside, True)):
        said = CliRunner().invoke(jobs.probe, [str(path), "--metastore-uri", "none"], obj=IN_PROCESS)
        assert ("it lies in a table, where no record counts" in said.stderr) == is_inside


def broken(place: str) -> str:
    del place
    raise BrokenPromiseError("it was seen")


def test_a_broken_promise_is_a_status_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RenameStore.promises
    monkeypatch.setattr(RenameStore, "promises", lambda self: [replace(kept(self)[0], trial=broken)])
    ran = CliRunner().invoke(jobs.probe, [str(tmp_path), "--metastore-uri", "none"], obj=IN_PROCESS)
    assert (ran.exit_code, ran.stdout.split()[0]) == (1, "BROKEN")
    stored = json.loads((tmp_path / RECORD).read_text())
    assert (stored["passed"], stored["promises"][0]["seen"]) == (False, "it was seen")


def test_what_was_tried_is_shown_also_where_its_record_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / RECORD).mkdir()
    ran = CliRunner().invoke(jobs.probe, [str(tmp_path), "--metastore-uri", "none"], obj=IN_PROCESS)
    assert (ran.exit_code, " ".join(ran.stdout.split()).endswith(": all hold")) == (1, True)
    assert f"error: Cannot write {tmp_path / RECORD}: " in ran.stderr
    probe = acidlib.probe(tmp_path)
    assert (probe.ok, probe.document.passed, probe.notes) == (False, True, (probe.unrecorded,))
