"""What signals do to a run, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acidlib.documents import ROOT

RUN = """
import os, sys, time
from acidlib.service.stopping import STOPPING, exit_status, write_line

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
    tmp_path: Path, *, shielded: float = 0, giving_back: float = 0, before: str = "", more: str = ""
) -> subprocess.Popen[str]:
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, "-c", before + RUN, str(begun), str(shielded), str(giving_back), more],
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
