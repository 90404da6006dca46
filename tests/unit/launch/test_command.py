"""The command `acidlib`: who gets which words."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result

from acidlib.documents import ROOT
from acidlib.engine.placed import QUEUE_IN_A_FILE
from acidlib.engine.spark import kerberos_login
from acidlib.errors import RefusedError
from acidlib.jobs.table import JOBS, MASTER, Job
from acidlib.launch import __main__, command
from acidlib.launch.submission import Submission
from acidlib.metastore.options import KerberosLogin

ALONE = ("major-compact", "--location", "/t", "--all-committed")
PLACED = ("--master", "yarn", "--deploy-mode", "cluster")


class Submitted:
    """What was handed to spark-submit."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, submission: Submission) -> None:
        self.words = list(submission.command[1:])
        raise SystemExit(0)

    @property
    def behind_the_file(self) -> list[str]:
        return self.words[self.words.index(str(command.ENTRY)) + 1 :]


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Submitted:
    found = Submitted()
    monkeypatch.setattr(command, "start", found)
    return found


def called(*words: str) -> Result:
    return CliRunner().invoke(command.group, words)


def test_help_loads_little() -> None:
    """That of the command no job, that of a job no compiler."""
    script = """
import sys
from click.testing import CliRunner
from acidlib.launch.command import group
print(CliRunner().invoke(group, ["--help"]).output)
assert not {"pyspark", "numba", "pyarrow", "sqlalchemy"} & set(sys.modules)
for job in ("major-compact", "initiator"):
    assert CliRunner().invoke(group, [job, "--help"]).exit_code == 0
assert "numba" not in sys.modules
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(f"  {job.name} " in ran.stdout and job.summary in ran.stdout for job in JOBS)


def test_every_file_in_jobs_is_in_the_table() -> None:
    assert {path.stem for path in (ROOT / "jobs").glob("*.py")} == {job.module for job in JOBS if job.file}


def test_words_before_the_command_are_sparks_and_words_behind_it_are_the_jobs(submitted: Submitted) -> None:
    assert called("--master", "yarn", "-c", "a=b", *ALONE, "--set", "x=y", "--version").exit_code == 0
    assert submitted.words[2:6] == ["--master", "yarn", "-c", "a=b"]
    assert submitted.behind_the_file == [*ALONE, "--set", "x=y", "--version"]


def test_the_help_of_a_job_starts_no_spark(submitted: Submitted) -> None:
    ran = called("--master", "yarn", "cleaner", "--help")
    assert (ran.exit_code, submitted.words) == (0, [])
    assert ran.output.startswith("Usage: acidlib cleaner [OPTIONS]")


def test_what_needs_no_spark_takes_no_options_of_it() -> None:
    ran = called("--master", "yarn", "show")
    assert ran.exit_code == 2
    assert "show needs no Spark: --master yarn means nothing before it" in ran.output


@pytest.mark.parametrize("name", ["show", "status"])
def test_what_spark_does_not_run_is_told_who_logs_in(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    @click.command()
    def stub() -> None:
        click.echo(kerberos_login())

    monkeypatch.setattr(Job, "load", lambda job: stub)
    monkeypatch.setattr(os, "environ", {key: text for key, text in os.environ.items() if "GATEWAY" not in key})
    ran = called("--principal", "anna@R", "--keytab=/k", name)
    assert (ran.exit_code, ran.output) == (0, f"{KerberosLogin(principal='anna@R', keytab='/k')}\n")


def test_a_job_that_is_none_is_refused() -> None:
    assert "No such command 'compact'" in called("compact").output


def test_a_driver_that_would_have_its_queue_on_an_unknown_machine_is_not_started(submitted: Submitted) -> None:
    """The driver itself refuses it, too: tests/integration/test_bad_input.py."""
    for words in (ALONE, ("cleaner", "--metastore-uri", "none")):
        error = called(*PLACED, *words).exception
        assert isinstance(error, RefusedError)
        assert str(error) == QUEUE_IN_A_FILE
    told = json.loads(called(*PLACED, *ALONE, "--output", "json").stdout)
    assert (told["job"], told["error"]) == ("major_compact", {"kind": "refused", "message": QUEUE_IN_A_FILE})
    assert submitted.words == []
    for words in ((*ALONE, "--queue-url", "postgresql://q/q"), ("cleaner",), ALONE[:1]):
        assert called(*PLACED, *words).exit_code == 0
        assert submitted.behind_the_file == list(words)


def test_what_starts_spark_itself_is_told_how_and_runs_here(
    monkeypatch: pytest.MonkeyPatch, submitted: Submitted
) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", MASTER):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command.Job, "load", lambda job: click.Command(job.name, callback=lambda: None))
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", dict(os.environ))
        assert called(*PLACED, "doctor").exit_code == 0
        words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        assert words[-7:] == [*PLACED, "--deploy-mode", "client", "pyspark-shell"]
        assert (os.environ[MASTER], os.environ["PYSPARK_DRIVER_PYTHON"]) == ("yarn", sys.executable)
    assert submitted.words == []


def test_words_that_are_wrong_are_told_before_a_driver_is_placed(submitted: Submitted) -> None:
    ran = called(*PLACED, *ALONE, "--no-such-option")
    assert (ran.exit_code, submitted.words) == (2, [])
    assert "No such option '--no-such-option'" in ran.output


def test_show_with_a_place_shows_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run", lambda job, *, words, **_: click.echo(f"{job.module} {words}"))
    assert called("show", "/t", "--all-committed").output == "show_place ['/t', '--all-committed']\n"
    assert called("show", "--blockers").output == "show_compactions ['--blockers']\n"


@pytest.mark.parametrize(("module", "again"), [(command, command._AGAIN), (__main__, "acidlib.launch")])
def test_a_run_with_a_log_is_one_of_the_same_words_without_it(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, again: str
) -> None:
    called: list[tuple[list[str], Path]] = []

    def logged(words: list[str], path: Path) -> int:
        called.append((words, path))
        return 3

    monkeypatch.setattr(module, "run_logged", logged)
    words = ["--master", "yarn", "cleaner", "--log-file", "/log", "--trash"]
    monkeypatch.setattr(sys, "argv", ["acidlib", *words])
    with pytest.raises(SystemExit) as end:
        module.main(*([] if module is command else [words]))
    assert end.value.code == 3
    ((found, path),) = called
    assert (found[0], path) == (sys.executable, Path("/log"))
    assert again in found
    assert found[-4:] == ["--master", "yarn", "cleaner", "--trash"]
