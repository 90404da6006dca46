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
import os, sys, time
from acidlib.execute.stopping import STOPPING, exit_status
from acidlib.standard_error import write_line

def stay(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)

def stay_below_python():
    import ctypes
    mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    for _ in range(2):
        libc.pthread_mutex_lock(mutex)

try:
    with STOPPING.by_signals(write_line, os._exit):
        try:
            with STOPPING.shielded():
                open(sys.argv[1], "w").close()
                stay(float(sys.argv[2]))
                print("shielded to its end", flush=True)
                if "error" in sys.argv:
                    raise ValueError
            stay(60)
        except KeyboardInterrupt:
            stay(float(sys.argv[3])) if float(sys.argv[3]) < 30 else stay_below_python()
            print("given back", flush=True)
            raise
except KeyboardInterrupt:
    sys.exit(exit_status(STOPPING.by))
"""


def started(
    tmp_path: Path, *, program: str = RUN, shielded: float = 0, giving_back: float = 0, before: str = "", more: str = ""
) -> subprocess.Popen[str]:
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, "-c", before + program, str(begun), str(shielded), str(giving_back), more],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not begun.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_stops_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, giving_back=0.2)
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(number)  # as `timeout` does
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + number, "shielded to its end\ngiven back\n")
    assert err == f"stopping by {number.name}: publications under way are finished, all other places are given back\n"


@pytest.mark.parametrize("more", ["", "error"])
def test_what_is_shielded_is_done_before(tmp_path: Path, more: str) -> None:
    process = started(tmp_path, shielded=0.3, more=more)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (143, "shielded to its end\ngiven back\n")


def test_a_later_one_ends_it_at_once_and_says_so(tmp_path: Path) -> None:
    """Also where the main thread waits for a database, and learns of no signal before it has answered."""
    process = started(tmp_path, giving_back=60)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "shielded to its end\n")
    assert err.splitlines()[1:] == [
        "ended at once by another SIGINT: the next run gives back the places that were under way"
    ]


def test_what_is_ignored_stays_so(tmp_path: Path) -> None:
    process = started(tmp_path, before="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143


IN_PROGRAM = """
import os, signal, sys, threading, time
from acidlib.execute.stopping import STOPPING

def stay(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)

before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
try:
    with STOPPING.in_program(lambda line: print(line, file=sys.stderr, flush=True)):
        try:
            with STOPPING.shielded():
                open(sys.argv[1], "w").close()
                stay(float(sys.argv[2]))
                print("shielded to its end", flush=True)
            stay(1)
            print("to its end", flush=True)
        except BaseException as error:
            stay(float(sys.argv[3]))
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
    process = started(tmp_path, program=IN_PROGRAM, shielded=0.3, before=before)
    process.send_signal(number)
    output, err = process.communicate(timeout=30)
    assert (process.returncode, output.splitlines()) == (0, ["shielded to its end", *out])
    line = f"stopping by {number.name}: publications under way are finished, all other places are given back"
    assert err.splitlines() == ([] if before == FLAG else [line])


def test_a_later_interrupt_of_a_program_does_not_keep_places_from_being_given_back(tmp_path: Path) -> None:
    process = started(tmp_path, program=IN_PROGRAM, giving_back=0.5)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    output, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output.splitlines()[1:] == [
        "given back KeyboardInterrupt SIGINT", "stopped by KeyboardInterrupt()", "goes on",
    ]  # fmt: skip
    assert len(err.splitlines()) == 1


def test_what_python_does_not_handle_does_what_it_did(tmp_path: Path) -> None:
    process = started(tmp_path, program=IN_PROGRAM, shielded=30)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM


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
