"""--output json: one document on standard output and nothing else, with every field, unknown ones null."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acidlib import __version__
from acidlib.errors import (
    ConflictError,
    CorruptError,
    DefectError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.location import local_location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from integration.harness import ROOT, Jobs, fixture

ENTRY = {
    "id", "database", "table", "location", "partition", "type", "state", "reason", "publication", "write_ids", "inputs",
    "output_directories", "rows_in", "rows_deleted", "rows_aborted", "rows_out", "events_in", "events_aborted",
    "duplicate_events", "events_out", "bytes_copied", "bytes_rewritten", "stripes_copied", "stripes_rewritten",
    "deltas_before", "deltas_after", "bytes_in", "bytes_out", "start_ms", "end_ms", "seconds", "rewrite_seconds",
}  # fmt: skip
STATES = {"planned", "ready for cleaning", "succeeded", "already compact", "refused", "failed", "conflict", "skipped"}


@pytest.fixture
def crud(tmp_path: Path) -> Path:
    return fixture("hive3/a_crud", tmp_path / "db.db" / "crud")


def check_entry(entry: dict) -> None:
    assert set(entry) >= ENTRY
    assert set(entry["write_ids"]) == {"min", "max", "high_water_mark"}
    assert entry["state"] in STATES
    assert entry["reason"]
    assert isinstance(entry["inputs"], list)
    assert isinstance(entry["output_directories"], list)


@pytest.mark.parametrize("job", ["major_compact", "minor_compact"])
def test_compaction_jobs(jobs: Jobs, crud: Path, job: str) -> None:
    damaged = fixture("hive3/a_crud", crud.parent / "damaged")
    (damaged / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"ORC")
    compacted = fixture("hive3/a_crud", crud.parent / "compacted")
    jobs.good("major_compact", "--location", compacted, "--all-committed")
    ran = jobs(job, "--warehouse", crud.parents[1], "--table", "db.*", "--all-committed", "--yes")
    assert ran.status == 3
    document = ran.document
    assert {"job", "version", "run_id", "compactions", "totals"} <= set(document)
    assert document["job"] == job
    by_table = {entry["table"]: entry for entry in document["compactions"]}
    for entry in by_table.values():
        check_entry(entry)
    assert by_table["crud"]["state"] == "ready for cleaning"
    assert all(by_table["crud"][key] is not None for key in ENTRY - {"partition"})
    deltas = [(by_table[name]["deltas_before"], by_table[name]["deltas_after"]) for name in sorted(by_table)]
    assert deltas == [(0, 0), (5, 0), (5, None)]
    assert by_table["compacted"]["state"] == "already compact"
    assert by_table["damaged"]["state"] == "failed"
    for unknown in ("rows_in", "bytes_copied", "rewrite_seconds", "publication", "partition"):
        assert by_table["compacted"][unknown] is None
    assert document["totals"]["rows_in"] == by_table["crud"]["rows_in"]
    assert document["totals"]["states"] == dict.fromkeys(STATES, 0) | {
        "ready for cleaning": 1, "already compact": 1, "failed": 1,
    }  # fmt: skip


def test_a_result_that_never_began_has_all_fields(jobs: Jobs, crud: Path) -> None:
    (crud / "delta_5_5_x").mkdir()
    ran = jobs("major_compact", "--location", crud, "--all-committed")
    check_entry(ran.compactions[0])
    assert ran.compactions[0]["seconds"] is None
    assert ran.compactions[0]["rows_in"] is None


def test_services(jobs: Jobs, crud: Path) -> None:
    scan = jobs.good("initiator", "--location", crud, "--all-committed",
                     "--set", "hive.compactor.delta.num.threshold=1").document  # fmt: skip
    jobs.good("major_compact")
    cleaned = jobs.good("cleaner", "--retention", "0s").document
    shown = jobs.good("show_compactions").document
    for document, job, key in (
        (scan, "initiator", "decisions"),
        (cleaned, "cleaner", "cleanings"),
        (shown, "show_compactions", "compactions"),
    ):
        assert {"job", "version", "run_id", "totals", key} <= set(document), job
        assert document["job"] == job
        (entry,) = document[key]
        assert {"id", "database", "table", "partition", "reason"} - {"id", "reason"} <= set(entry)
    assert {"type", "reason", "queued", "base_bytes", "delta_bytes", "deltas", "threshold"} <= set(scan["decisions"][0])
    assert {"id", "state", "reason", "removed", "blocked"} <= set(cleaned["cleanings"][0])
    assert {"id", "state", "enqueue_ms", "commit_ms", "highest_write_id"} <= set(shown["compactions"][0])


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_notes_and_progress_stay_off_standard_output(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, debug: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ACIDLIB_PROGRESS", "1")
    ran = jobs.good("major_compact", "--location", crud, "--all-committed", *debug)
    assert json.loads(ran.out)["compactions"][0]["state"] == "ready for cleaning"
    assert "db.crud" in ran.err


def test_an_error_is_a_document_as_well(jobs: Jobs, tmp_path: Path) -> None:
    ran = jobs("major_compact", "--location", tmp_path / "nothing", "--all-committed")
    assert ran.status == 1
    assert len(ran.err.strip().splitlines()) == 1
    assert ran.document == {
        "job": "major_compact",
        "version": __version__,
        "run_id": None,
        "error": {"kind": "missing", "message": ran.err.removeprefix("error: ").strip()},
    }
    told = jobs("major_compact", "--location", tmp_path / "nothing", "--all-committed", text=True)
    assert (told.status, told.out, told.err) == (1, "", ran.err)


ERRORS = [
    (RetryError, "retry"), (RefusedError, "refused"), (MissingError, "missing"), (ConflictError, "conflict"),
    (CorruptError, "corrupt"), (UnknownOutcomeError, "unknown outcome"), (DefectError, "defect"),
    (IndexError, "defect"),
]  # fmt: skip


@pytest.mark.pairs
@pytest.mark.parametrize("job", ["major_compact", "minor_compact"])
@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_the_kind_tells_what_can_be_done_about_an_error(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, job: str, error: type[Exception], kind: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("Cannot do it:\nthe test says so")

    monkeypatch.setattr("acidlib.runs.compactions.compactions", fail)
    ran = jobs(job, "--location", crud, "--all-committed")
    assert (ran.status, ran.document["job"], ran.error["kind"]) == (1, job, kind)
    assert "the test says so" in ran.error["message"]
    assert "the test says so" in ran.err
    debug = jobs(job, "--location", crud, "--all-committed", "--debug", traceback=True)
    assert "Traceback" in debug.err
    assert debug.out == ran.out


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        (["--idle", "x", "--output", "json"], True),
        (["--no-such-option", "--output=json"], True),
        (["--output", "text", "--output", "json", "stray"], True),
        (["--output", "json", "--idle"], True),
        (["--output", "json", "--output", "text", "stray"], False),
        (["--output", "xml"], False),
        (["--output"], False),
        (["--set", "--output=json", "stray"], False),
        (["--", "--output", "json"], False),
    ],
)
def test_an_error_of_usage_as_far_as_the_words_are_understood(jobs: Jobs, words: list[str], understood: bool) -> None:
    ran = jobs("cleaner", *words, text=True)
    assert ran.status == 2
    assert "Error: " in ran.err
    if understood:
        assert ran.error["kind"] == "usage"
    else:
        assert ran.out == ""


def test_a_result_that_nobody_takes(tmp_path: Path, crud: Path) -> None:
    """A full disk behind standard output: what was done is done, and there is one clear line about it."""
    environment = {**os.environ, "ACIDLIB_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, ROOT / "jobs" / "show_compactions.py", "--output", "json", "--metastore-uri", "none"],
            stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: Cannot write the result to standard output: No space left on device; what was done is done"
    ]


def test_the_document_and_the_log_name_the_run(jobs: Jobs, crud: Path) -> None:
    lines = ("--log-format", "json", "--set", "acidlib.part.bytes=1m")
    ran = jobs.good("major_compact", "--location", crud, "--all-committed", *lines)
    document = ran.document
    assert document["start_ms"] <= document["end_ms"]
    assert document["settings"] == [{"name": "acidlib.part.bytes", "value": "1m", "source": "--set"}]
    assert (document["application_id"], document["tracking_url"]) == (None, None), "the tasks ran in this process"
    told = [json.loads(line) for line in ran.err.splitlines()]
    assert {(line["job"], line["run_id"]) for line in told} == {("major_compact", document["run_id"])}
    assert "db.crud" in {line["place"] for line in told}
    failed = jobs("cleaner", "--location", crud, "--metastore-uri", "none", "--log-format", "full", "--orphans")
    assert failed.status == 0
    refused = jobs("major_compact", "--location", crud / "nowhere", "--all-committed", "--log-format", "full")
    assert f"ERROR   major_compact {document['run_id'].rpartition('-')[0]}-" in refused.err


def test_a_log_says_when_a_run_found_nothing_to_do_and_a_terminal_says_it_once(jobs: Jobs) -> None:
    for job, words in (("minor_compact", "Nothing to compact."), ("cleaner", "Nothing to clean.")):
        logged = jobs(job, "--log-format", "full", text=True)
        assert (logged.status, logged.out) == (0, f"{words}\n")
        assert re.fullmatch(rf"\S+Z INFO    {job} acidlib-\S+ -: {words}\n", logged.err)
        assert jobs(job, text=True).err == ""


def test_each_entry_about_a_request_has_its_id_and_no_other_has_one(jobs: Jobs, crud: Path) -> None:
    odd = CompactionRequest(
        id=0,
        ref=TableRef("db", "odd"),
        type=CompactionType.MAJOR,
        facts=RequestFacts(location=local_location(str(crud.parent / "odd"))),
        properties=(("acidlib.hive.version", "four"),),
    )
    with jobs.queue() as queue:
        number = queue.enqueue(odd, now_ms=1).id
    (planned,) = jobs("major_compact", "--dry-run").document["compactions"]
    (refused,) = jobs("major_compact").document["compactions"]
    assert (planned["id"], refused["id"], refused["state"]) == (None, number, "refused")
    named = ("--location", crud, "--all-committed")
    assert jobs.good("major_compact", *named, "--dry-run").document["compactions"][0]["id"] is None
    assert jobs.good("major_compact", *named).document["compactions"][0]["id"] == number + 1
    assert jobs.good("cleaner", "--dry-run").document["cleanings"][0]["id"] == number + 1
    jobs.good("cleaner", "--retention", "0s")
    assert jobs.good("major_compact", *named).document["compactions"][0]["id"] is None, "none was queued"
    staging = crud / "_tmp_1a2b"
    staging.mkdir()
    os.utime(staging, (0, 0))
    (orphan,) = jobs.good("cleaner", "--orphans", "--location", crud).document["cleanings"]
    assert orphan["id"] is None
