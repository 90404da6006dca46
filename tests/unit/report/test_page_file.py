"""A page is written as a whole or not at all, and what keeps it from being written is said before any work."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from acidlib.cli import command
from acidlib.cli.jobs import status
from acidlib.errors import RefusedError, RetryError
from acidlib.report.page import require_libraries, require_writable, write_page

ALONE = ("--places", "0", "--metastore-uri", "none", "--queue-url", "sqlite://")


def show(*words: str | Path) -> Result:
    return CliRunner().invoke(status, [*map(str, words), *ALONE])


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_page_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    write_page("old", path, unique="1")
    write_page("new ü", path, unique="1")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert list(tmp_path.iterdir()) == [path]


def test_on_a_full_disk_the_page_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.html"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RetryError, match=r"^Cannot write the report to .*run\.html: because No space left on device$"):
        write_page("new", path, unique="1")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_is_told_before(tmp_path: Path) -> None:
    require_writable(tmp_path / "run.html")
    (tmp_path / "pipe").mkdir()
    for path, why in ((tmp_path / "none" / "run.html", "is no directory"), (tmp_path / "pipe", "is no file")):
        with pytest.raises(RefusedError, match=why):
            require_writable(path)


def test_without_its_library_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(RefusedError, match=r"jinja2 is not installed; pip install 'acidlib\[report\]'"):
        require_libraries()
    ran = show("--report", tmp_path / "run.html", "--output", "json")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"]["kind"] == "refused"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["json", "text"])
def test_a_job_prints_its_result_and_draws_it(tmp_path: Path, output: str) -> None:
    path = tmp_path / "run.html"
    ran = show("--output", output, "--report", path)
    assert ran.exit_code == 0
    assert ran.stdout.startswith('{\n  "job": "status"' if output == "json" else "OK: nothing is wrong")
    assert "<h1>Nothing is wrong in 0 tables</h1>" in path.read_text()


@pytest.mark.parametrize("output", ["json", "text"])
def test_a_page_that_cannot_be_written_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    whole = show("--output", output).stdout
    monkeypatch.setattr(os, "fsync", full)
    ran = show("--output", output, "--report", tmp_path / "run.html")
    assert ran.exit_code == 1
    if output == "json":
        assert json.loads(ran.stdout).keys() == json.loads(whole).keys()
    else:
        assert ran.stdout == whole
    (line,) = (line for line in ran.stderr.splitlines() if "Cannot write" in line)
    assert line.endswith("run.html: because No space left on device; what was done is done")


def test_what_nobody_reads_on_standard_output_is_drawn_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(pieces: object) -> None:
        raise command._UnwrittenError("Cannot write the result to standard output")

    monkeypatch.setattr(command, "print_pieces", closed)
    ran = show("--report", tmp_path / "run.html")
    assert ran.exit_code == 1
    assert "Cannot write the result to standard output" in ran.stderr
    assert (tmp_path / "run.html").is_file()


def test_a_run_that_could_not_be_done_draws_why(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text("the run before")
    ran = CliRunner().invoke(
        status, ["--report", str(path), "--metastore-uri", "none", "--queue-url", "sqlite:////dev/null/q.db"]
    )
    assert ran.exit_code == 1
    assert "<h1>The run could not be done</h1>" in path.read_text()
