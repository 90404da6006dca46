"""What signals do to a run, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acidlib.documents import ROOT
from acidlib.execute.stopping import Stopping

RUN = """
import itertools, os, sys, time
from pathlib import Path
from acidlib.execute.stopping import Stopping, exit_status
from acidlib.standard_error import write_line

begun, way, more = sys.argv[1:]
# looked at for each signal, between which nothing passes, or a second each
stopping = Stopping(itertools.count().__next__ if way == "below Python" else lambda: 0.0)

def stay_below_python():
    import ctypes
    mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    for _ in range(2):
        libc.pthread_mutex_lock(mutex)

def wait_for(condition):
    while not condition():
        time.sleep(0.01)

try:
    with stopping.by_signals(write_line, os._exit):
        try:
            with stopping.shielded():
                Path(begun).touch()
                wait_for(lambda: way != "shielded" or stopping.by is not None)
                print("shielded to its end", flush=True)
                if more == "error":
                    raise ValueError
            time.sleep(300)
        except KeyboardInterrupt:
            if way == "below Python":
                print("giving back", flush=True)
                stay_below_python()
            wait_for(lambda: way != "go on" or Path(begun + " go on").exists())
            print("given back", flush=True)
            raise
except KeyboardInterrupt:
    sys.exit(exit_status(stopping.by))
"""


def started(
    tmp_path: Path, way: str = "", *, program: str = RUN, before: str = "", more: str = ""
) -> subprocess.Popen[str]:
    """Once its shielded part has begun, which ends as the way says; giving back goes on once it is told to."""
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, "-c", before + program, str(begun), way, more],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not begun.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def told(tmp_path: Path) -> None:
    """It may go on: signals that were sent have arrived before it sees this."""
    (tmp_path / "begun go on").touch()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_stops_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, "go on")
    process.send_signal(number)
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(number)  # as `timeout` does
    told(tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, "shielded to its end\ngiven back\n")
    assert (
        line
        == f"stopping by {number.name}: publications under way are finished, all other places are left as they were\n"
    )
    assert err == ""


@pytest.mark.parametrize("more", ["", "error"])
def test_what_is_shielded_is_done_before(tmp_path: Path, more: str) -> None:
    process = started(tmp_path, "shielded", more=more)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "shielded to its end\ngiven back\n")


def test_a_later_one_ends_it_at_once_and_says_so(tmp_path: Path) -> None:
    """Also where the main thread waits for a database, and learns of no signal before it has answered."""
    with started(tmp_path, "below Python") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["shielded to its end\n", "giving back\n"]
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stdout.read()) == (130, "")
        assert process.stderr.read().splitlines()[1:] == [
            "ended at once by another SIGINT: the next run gives back the places that were under way"
        ]


def test_what_is_ignored_stays_so(tmp_path: Path) -> None:
    process = started(tmp_path, before="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143


IN_PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from acidlib.execute.stopping import STOPPING

begun, way, _ = sys.argv[1:]

def wait_for(condition):
    while not condition():
        time.sleep(0.01)

before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
try:
    with STOPPING.in_program(lambda line: print(line, file=sys.stderr, flush=True)):
        try:
            with STOPPING.shielded():
                Path(begun).touch()
                wait_for(lambda: STOPPING._waiting is not None)
                print("shielded to its end", flush=True)
            print("to its end", flush=True)
        except BaseException as error:
            wait_for(lambda: way != "go on" or Path(begun + " go on").exists())
            print("given back", type(error).__name__, STOPPING.by.name, flush=True)
            raise
except BaseException as error:
    print("stopped by", repr(error))
assert before == {number: signal.getsignal(number) for number in before}
assert STOPPING.by is None
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        print("goes on")
"""
OF_SPARK = """
import signal
def handler(number, frame):
    print("all jobs are ended", flush=True)
    raise KeyboardInterrupt
handler.__module__ = "pyspark.core.context"
signal.signal(signal.SIGINT, handler)
"""
OWN = """
import signal
class Terminated(BaseException): pass
def handler(number, frame): raise Terminated(number)
signal.signal(signal.SIGTERM, handler)
"""
FLAG = """
import signal
signal.signal(signal.SIGTERM, lambda number, frame: print("noted", flush=True))
"""


@pytest.mark.parametrize(
    ("before", "number", "out"),
    [
        ("", signal.SIGINT, ["given back KeyboardInterrupt SIGINT", "stopped by KeyboardInterrupt()", "goes on"]),
        (OF_SPARK, signal.SIGINT, ["given back KeyboardInterrupt SIGINT", "stopped by KeyboardInterrupt()"]),
        (OWN, signal.SIGTERM, ["given back Terminated SIGTERM", "stopped by Terminated(15)", "goes on"]),
        (FLAG, signal.SIGTERM, ["noted", "to its end", "goes on"]),
    ],
)
def test_handlers_of_a_program_wait_for_the_end_of_a_shield(
    tmp_path: Path, before: str, number: signal.Signals, out: list[str]
) -> None:
    """They stop the run as the program has it, which goes on with its own handlers."""
    process = started(tmp_path, program=IN_PROGRAM, before=before)
    process.send_signal(number)
    output, err = process.communicate(timeout=60)
    assert (process.returncode, output.splitlines()) == (0, ["shielded to its end", *out])
    line = f"stopping by {number.name}: publications under way are finished, all other places are left as they were"
    assert err.splitlines() == ([] if before == FLAG else [line])


def test_a_later_interrupt_of_a_program_does_not_keep_places_from_being_given_back(tmp_path: Path) -> None:
    with started(tmp_path, "go on", program=IN_PROGRAM) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline().startswith("stopping by SIGINT: ")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        told(tmp_path)
        assert process.stdout.read().splitlines() == [
            "shielded to its end", "given back KeyboardInterrupt SIGINT", "stopped by KeyboardInterrupt()", "goes on",
        ]  # fmt: skip
        assert (process.wait(60), process.stderr.read()) == (0, "")


def test_what_python_does_not_handle_does_what_it_did(tmp_path: Path) -> None:
    process = started(tmp_path, program=IN_PROGRAM)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM


def test_within_a_command_a_program_changes_no_handler() -> None:
    stopping = Stopping()
    with stopping.by_signals(lambda _: None, lambda _: None):
        handler = signal.getsignal(signal.SIGINT)
        with stopping.in_program(lambda _: None):
            assert signal.getsignal(signal.SIGINT) is handler


@pytest.fixture
def python_handles_interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, whatever handler earlier tests of this process have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.default_int_handler)


def test_a_shield_of_another_thread_delays_nothing_and_nothing_stops_it(python_handles_interrupts: None) -> None:
    stopping = Stopping()
    entered, going_on = threading.Event(), threading.Event()
    outcomes: list[str] = []

    def run() -> None:
        handler = signal.getsignal(signal.SIGINT)
        try:
            with stopping.in_program(lambda _: None), stopping.shielded():
                assert signal.getsignal(signal.SIGINT) is handler
                entered.set()
                going_on.wait(60)
                stopping.look()
            outcomes.append("to its end")
        except BaseException as error:
            outcomes.append(repr(error))

    thread = threading.Thread(target=run)
    with stopping.in_program(lambda _: None):
        thread.start()
        entered.wait(60)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        going_on.set()
        thread.join(60)
    assert outcomes == ["to its end"]
