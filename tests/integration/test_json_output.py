"""--output json: one document on standard output and nothing else, with every field, unknown ones null."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.harness import Jobs, fixture

ENTRY = {
    "id", "database", "table", "location", "partition", "type", "state", "reason", "publication", "write_ids", "inputs",
    "output_directories", "rows_in", "rows_deleted", "rows_aborted", "rows_out", "events_in", "events_aborted",
    "duplicate_events", "events_out", "bytes_copied", "bytes_rewritten", "stripes_copied", "stripes_rewritten",
    "seconds", "rewrite_seconds",
}  # fmt: skip
STATES = {"planned", "ready for cleaning", "succeeded", "refused", "failed", "conflict", "skipped"}


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
    ran = jobs(job, "--warehouse", crud.parents[1], "--table", "db.*", "--all-committed")
    assert ran.status == 3
    document = ran.document
    assert {"job", "version", "run_id", "compactions", "totals"} <= set(document)
    assert document["job"] == job
    by_table = {entry["table"]: entry for entry in document["compactions"]}
    for entry in by_table.values():
        check_entry(entry)
    assert by_table["crud"]["state"] == "ready for cleaning"
    assert all(by_table["crud"][key] is not None for key in ENTRY - {"partition"})
    assert by_table["compacted"]["state"] == "refused"
    assert by_table["damaged"]["state"] == "failed"
    for unknown in ("rows_in", "bytes_copied", "rewrite_seconds", "publication", "partition"):
        assert by_table["compacted"][unknown] is None
    assert document["totals"]["rows_in"] == by_table["crud"]["rows_in"]
    assert document["totals"]["states"] == dict.fromkeys(STATES, 0) | {
        "ready for cleaning": 1, "refused": 1, "failed": 1,
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


def test_an_error_leaves_standard_output_empty(jobs: Jobs, tmp_path: Path) -> None:
    ran = jobs("major_compact", "--location", tmp_path / "nothing", "--all-committed")
    assert ran.status == 1
    assert ran.out == ""
    assert len(ran.err.strip().splitlines()) == 1
    assert ran.err.startswith("error: Cannot")
