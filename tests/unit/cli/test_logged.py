"""A run whose output goes to a file: what is told on standard error all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acidlib.cli.launch import log_file, run_logged
from acidlib.errors import RetryError, UsageError
from acidlib.report.progress import ERROR, INFO, NOTE, WARNING, LogFormat, LogLines

SAYS = """
import sys
print("result")
sys.stderr.write(open(sys.argv[1]).read())
sys.exit(int(sys.argv[2]))
"""


def run(tmp_path: Path, said: str, status: int = 0) -> tuple[int, str]:
    """The exit status, and the log."""
    (tmp_path / "said").write_text(said)
    got = run_logged([sys.executable, "-c", SAYS, str(tmp_path / "said"), str(status)], tmp_path / "log")
    return got, (tmp_path / "log").read_text()


@pytest.fixture(autouse=True)
def signals() -> object:
    """As they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "rest", "path"),
    [
        ("--master yarn show", "--master yarn show", None),
        ("cleaner --log-file /l --trash", "cleaner --trash", "/l"),
        ("cleaner --log-file=/l --trash", "cleaner --trash", "/l"),
        ("cleaner --log-file-format x", "cleaner --log-file-format x", None),
    ],
)
def test_the_option_is_taken_out_of_the_words(words: str, rest: str, path: str | None) -> None:
    assert log_file(words.split()) == (rest.split(), None if path is None else Path(path))


@pytest.mark.parametrize("words", [["show", "--log-file"], ["show", "--log-file="]])
def test_an_option_without_a_file_is_wrong(words: list[str]) -> None:
    with pytest.raises(UsageError, match="needs the name of a file"):
        log_file(words)


@pytest.mark.parametrize("form", LogFormat)
def test_lines_that_tell_of_a_problem_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], form: LogFormat
) -> None:
    lines = LogLines(format=form, job="cleaner", run_id="r")
    bad = [lines.line(f"it is {level}", level=level, place="d.t") + "\n" for level in (WARNING, ERROR)]
    good = [lines.line(f"it is {level}", level=level, place="d.t") + "\n" for level in (INFO, NOTE)]
    said = [
        "WARNING: Using incubator modules: x\n",
        good[0],
        bad[0],
        "02:10:00 ERROR TaskSetManager: x\n",
        bad[1],
        good[1],
    ]
    for status in (0, 3):
        (tmp_path / "log").unlink(missing_ok=True)
        assert run(tmp_path, "".join(said), status) == (status, "result\n" + "".join(said))
        assert capfd.readouterr() == ("", "".join(bad))


def test_all_is_well(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "one\n") == (0, "result\none\n")
    assert run(tmp_path, "two\n") == (0, "result\none\nresult\ntwo\n")
    assert capfd.readouterr() == ("", "")


def test_a_run_that_fails_in_silence_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "Traceback ...\n", 1)[0] == 1
    assert capfd.readouterr() == ("", f"error: the run ended with exit status 1; {tmp_path / 'log'} has what it said\n")


def test_a_run_that_is_killed_is_told_with_the_status_that_is_returned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_logged([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path / "log") == 137
    assert capfd.readouterr().err == f"error: the run ended with exit status 137; {tmp_path / 'log'} has what it said\n"


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(RetryError, match=r"Cannot write .*: because the operating system said: No such file"):
        run_logged([sys.executable, "-c", f"open({str(tmp_path / 'begun')!r}, 'w')"], tmp_path / "none" / "log")
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_runs_to_understand(tmp_path: Path, number: signal.Signals) -> None:
    waits = (
        f"import signal, sys, time; signal.signal({number}, lambda *_: sys.exit(7)); "
        f"open({str(tmp_path / 'begun')!r}, 'w'); time.sleep(60)"
    )
    script = (
        f"from pathlib import Path; from acidlib.cli.launch import run_logged; import sys; "
        f"sys.exit(run_logged([sys.executable, '-c', {waits!r}], Path({str(tmp_path / 'log')!r})))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=os.environ)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode == 7
    assert told.startswith("error: the run ended with exit status 7; ")
