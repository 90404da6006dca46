"""Runs that signals stop, each as its caller would send them: what is left, what is told, and when the command returns.

Each place is in the middle of a file when the signal comes: the Python workers of Spark stop themselves there.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from judges import merge
from long_runs import amount, in_a_long_run
from servers.process import marked_processes
from servers.spark import SPARK_HOME

from acidlib.points import STOP_AT, Point
from integration.harness import ROOT, SMALL_SPARK, Jobs, fixture, names

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PLACES = 3
SECONDS = 300.0
ACIDLIB = [sys.executable, "-P", "-c", "from acidlib.cli.main import main; main()"]
SCRIPT = [str(ROOT / "spark-submit.sh")]
PLAIN = [str(SPARK_HOME / "bin" / "spark-submit")]
MARK = "ACIDLIB_TEST_RUN"
"""In the environment of all processes of a run, by which those that are left are found."""


def wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not there():
        assert time.monotonic() < end, "it was waited for in vain"
        time.sleep(0.05)


@dataclass
class Stopped:
    """A run of the major compaction of a table of three places, one for each core."""

    root: Path
    command: Sequence[str]
    queued: bool = False
    words: Sequence[str] = ()
    stop_at: str = str(Point.WRITTEN)
    status: int | None = None
    told: str = ""
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = self.root / "db.db" / "t"
        self.places = [self.table / f"p={number}" for number in range(PLACES)]
        for place in self.places:
            fixture("hive3/a_crud", place)
        self.rows = merge.read(self.places[0])
        self.jobs = Jobs(queue_url=f"sqlite:///{self.root / 'queue.db'}")
        self.named = ["--location", str(self.table), "--all-committed"]
        if self.queued:
            self.jobs.good("initiator", *self.named, "--set", "hive.compactor.delta.num.threshold=1")

    @property
    def line(self) -> list[str]:
        """The words of the command."""
        job = ["major-compact"] if self.command is ACIDLIB else [str(ROOT / "jobs/major_compact.py")]
        words = [] if self.queued else self.named
        return [*self.command, "--master", f"local[{PLACES}]", *job, *words, *self.words]

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: text for key, text in os.environ.items() if not key.startswith(("PYSPARK_", "ACIDLIB_"))}
        ours = {"ACIDLIB_HOME": str(self.root), "PYTHONPATH": str(ROOT), MARK: str(self.root), STOP_AT: self.stop_at}
        if self.command is PLAIN:
            ours |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
            ours |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(ROOT / "conf")}
        return kept | SMALL_SPARK | ours

    def processes(self) -> list[int]:
        return marked_processes(f"{MARK}={self.root}")

    def begun(self) -> bool:
        """Whether all places are in the middle of their files: their workers have stopped."""
        return sum(state_of(pid) == "T" for pid in self.processes()) == PLACES

    def ended(self, status: int, told: str) -> None:
        """It has returned: what is left is what is left now."""
        self.status, self.told = status, told
        self.left = [name for place in self.places for name in names(place) if name[0] == "_"]
        self.alive = [pid for pid in self.processes() if state_of(pid) not in "Z"]

    def check_all_given_back(self, by: signal.Signals) -> None:
        assert self.status == 128 + by, self.told
        lines = [line for line in self.told.replace("\r", "").splitlines() if "interrupted" in line]
        assert [line[line.index("interrupted") :] for line in lines] == [
            f"interrupted by {by.name}: of {PLACES} places {PLACES} stopped"
        ]
        assert "Traceback" not in self.told
        if self.command is not PLAIN:
            assert "WARNING" not in self.told
            assert "\tat " not in self.told, "what Spark says of tasks that were ended is no news"
        assert self.left == []
        states = [row["state"] for row in self.jobs.shown().values()]
        assert states == (["initiated"] * PLACES if self.queued else [])
        assert all(merge.read(place, strict=True) == self.rows for place in self.places)
        wait_for(lambda: not [pid for pid in self.processes() if state_of(pid) not in "Z"])


def state_of(pid: int) -> str:
    """Its state, as a letter; empty where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return ""


@contextlib.contextmanager
def nothing_left_running(run: Stopped) -> Iterator[None]:
    try:
        yield
    finally:
        for pid in run.processes():
            if pid != os.getpid():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


class Terminal:
    """A terminal, and what leads its session."""

    def __init__(self, line: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self.pid, self.side = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(line[0], list(line), environment)  # noqa: S606 - no shell
        os.set_blocking(self.side, False)
        self.shown = ""

    def look(self) -> str:
        """All that was shown so far."""
        with contextlib.suppress(BlockingIOError, OSError):  # EIO: nobody has its other side any more
            while data := os.read(self.side, 65536):
                self.shown += data.decode(errors="replace")
        return self.shown

    def type(self, text: str) -> None:
        os.write(self.side, text.encode())

    def ended(self) -> int | None:
        """The exit status of what leads it."""
        self.look()
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def wait(self) -> int:
        found: list[int] = []

        def has_ended() -> bool:
            status = self.ended()
            found.extend([] if status is None else [status])
            return bool(found)

        wait_for(has_ended)
        self.look()
        return found[0]


def to_process(run: Stopped, pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)


def to_group(run: Stopped, pid: int, number: signal.Signals) -> None:
    os.killpg(pid, number)


def to_both(run: Stopped, pid: int, number: signal.Signals) -> None:
    """As `timeout` sends it."""
    os.kill(pid, number)
    os.killpg(pid, number)


def to_all(run: Stopped, pid: int, number: signal.Signals) -> None:
    """As a service manager sends it, whatever sessions there are."""
    for one in run.processes():
        with contextlib.suppress(OSError):
            os.kill(one, number)


WITHOUT_TERMINAL = [
    (SCRIPT, True, to_both, signal.SIGTERM),
    (ACIDLIB, False, to_process, signal.SIGTERM),
    (ACIDLIB, False, to_process, signal.SIGINT),
    (ACIDLIB, True, to_process, signal.SIGHUP),
    (ACIDLIB, True, to_group, signal.SIGINT),
    (ACIDLIB, False, to_all, signal.SIGTERM),
    (SCRIPT, False, to_process, signal.SIGTERM),
    (SCRIPT, False, to_group, signal.SIGTERM),
    (PLAIN, True, to_process, signal.SIGTERM),
    (PLAIN, False, to_group, signal.SIGINT),
]


@pytest.mark.parametrize(
    ("command", "queued", "send", "number"),
    amount(WITHOUT_TERMINAL[:1], long=WITHOUT_TERMINAL),
    ids=lambda one: getattr(one, "__name__", None),
)
def test_without_a_terminal(
    tmp_path: Path,
    command: Sequence[str],
    queued: bool,
    send: Callable[[Stopped, int, signal.Signals], None],
    number: signal.Signals,
) -> None:
    """As cron, a scheduler or a service starts it: in a session of its own, with pipes."""
    run = Stopped(tmp_path, command, queued=queued)
    with nothing_left_running(run):
        process = subprocess.Popen(
            run.line, env=run.environment, cwd=run.root, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        wait_for(lambda: run.begun() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        send(run, process.pid, number)
        out, _ = process.communicate(timeout=SECONDS)
        run.ended(process.returncode, out)
        run.check_all_given_back(number)


def test_an_interrupt_where_the_command_leads_the_session(tmp_path: Path) -> None:
    """As below `ssh -t` and `docker run -it`: when such a process ends, all others get SIGHUP."""
    run = Stopped(tmp_path, ACIDLIB)
    with nothing_left_running(run):
        terminal = Terminal(run.line, run.environment, run.root)
        wait_for(lambda: run.begun() or terminal.ended() is not None)
        terminal.type("\x03")
        run.ended(terminal.wait(), terminal.shown)
        run.check_all_given_back(signal.SIGINT)


def test_a_terminal_that_closes(tmp_path: Path) -> None:
    """It goes to whatever runs in it: here to what keeps the log, too."""
    run = Stopped(tmp_path, ACIDLIB, queued=True, words=["--log-file", str(tmp_path / "log")])
    with nothing_left_running(run):
        terminal = Terminal(run.line, run.environment, run.root)
        wait_for(lambda: run.begun() or terminal.ended() is not None)
        os.close(terminal.side)
        status = terminal.wait()
        run.ended(status, (tmp_path / "log").read_text())
        run.check_all_given_back(signal.SIGHUP)


@in_a_long_run
def test_an_interrupt_in_a_shell(tmp_path: Path) -> None:
    """The prompt comes back when all is given back, and not before."""
    run = Stopped(tmp_path, SCRIPT)
    environment = run.environment | {"PS1": "prompt> "}
    with nothing_left_running(run):
        shell = Terminal(["bash", "--norc", "-i"], environment, run.root)
        shell.type(shlex.join(run.line) + "\n")
        wait_for(lambda: run.begun() or shell.ended() is not None)
        prompts = shell.look().count("prompt> ")
        shell.type("\x03")
        wait_for(lambda: shell.look().count("prompt> ") > prompts)
        run.ended(0, shell.shown)
        shell.type("echo status=$?\n")
        wait_for(lambda: "status=130" in shell.look())
        shell.type("exit\n")
        shell.wait()
        run.status = 130
        run.check_all_given_back(signal.SIGINT)


@in_a_long_run
def test_what_is_being_published_is_published(tmp_path: Path) -> None:
    run = Stopped(tmp_path, ACIDLIB, queued=True, stop_at=str(Point.CHECKED))
    with nothing_left_running(run):
        process = subprocess.Popen(
            run.line, env=run.environment, cwd=run.root, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: state_of(process.pid) == "T" or process.poll() is not None)
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGCONT)
        _, run.told = process.communicate(timeout=SECONDS)
        compacted = {place.name for place in run.places if any(name.startswith("base_") for name in names(place))}
        states = sorted(row["state"] for row in run.jobs.shown().values())
        assert states == ["initiated"] * (PLACES - len(compacted)) + ["ready for cleaning"] * len(compacted)
        assert compacted
        assert f"of {PLACES} places {len(compacted)} ready for cleaning" in run.told
        assert process.returncode == 128 + signal.SIGTERM
        assert all(merge.read(place, strict=True) == run.rows for place in run.places)


@in_a_long_run
def test_another_signal_ends_it_at_once_and_the_next_run_takes_over(tmp_path: Path) -> None:
    """Giving back waits here for a queue that another process has locked."""
    run = Stopped(tmp_path, ACIDLIB, queued=True)
    with (
        nothing_left_running(run),
        contextlib.closing(sqlite3.connect(tmp_path / "queue.db", timeout=SECONDS)) as queue,
    ):
        process = subprocess.Popen(
            run.line, env=run.environment, cwd=run.root, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: run.begun() or process.poll() is not None)
        queue.execute("BEGIN EXCLUSIVE")
        process.terminate()
        time.sleep(1)
        assert process.poll() is None
        process.terminate()
        _, told = process.communicate(timeout=SECONDS)
        queue.rollback()
        assert process.returncode == 128 + signal.SIGTERM
        assert told.splitlines()[-1].endswith(
            "ended at once by another SIGTERM: the next run gives back the places that were under way"
        )
        wait_for(lambda: not [pid for pid in run.processes() if state_of(pid) not in "Z"])
        assert [row["state"] for row in run.jobs.shown().values()] == ["working"] * PLACES
        assert run.jobs.good("major_compact").states == ["ready for cleaning"] * PLACES
        assert all(merge.read(place, strict=True) == run.rows for place in run.places)
