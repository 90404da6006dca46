"""Ends servers when the process that started them is gone.

The guard is a process of its own that reads orders from a pipe. The pipe closes when the tests end, whether they ended
by themselves, by Ctrl-C or by SIGKILL; the guard then ends the process groups and removes the directories it still
has. This file also runs as the guard, without any other module of the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TextIO

GRACE_SECONDS = 5.0


class Guard:
    """The orders to the guard of this process. A fork gets a guard of its own."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def group(self, pid: int) -> None:
        """Ends the process group of this leader when this process ends."""
        self._order(f"group {pid}")

    def ended(self, pid: int) -> None:
        """Forgets a process group: it has ended, and its number may be used again."""
        self._order(f"ended {pid}")

    def directory(self, path: str) -> None:
        """Removes this directory when this process ends, after the groups are gone."""
        self._order(f"directory {path}")

    def close(self) -> None:
        """Lets the guard do its work now and waits for it; without this it does so when this process is gone."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._process.communicate()
            self._process = None

    def _order(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._owner = os.getpid()
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,  # so that Ctrl-C does not reach it
                )
            assert self._process.stdin is not None
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def watch(orders: TextIO) -> None:
    """Follows the orders until their end, then cleans up."""
    groups: dict[str, None] = {}
    directories: list[str] = []
    for order in orders:
        verb, _, argument = order.rstrip("\n").partition(" ")
        if verb == "group":
            groups[argument] = None
        elif verb == "ended":
            groups.pop(argument, None)
        elif verb == "directory":
            directories.append(argument)
    left = [int(pid) for pid in reversed(groups)]
    _signal(left, signal.SIGTERM)  # PostgreSQL then gives back its shared memory
    deadline = time.monotonic() + GRACE_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = _signal(left, 0)
    _signal(left, signal.SIGKILL)
    for path in directories:
        shutil.rmtree(path, ignore_errors=True)


def _signal(groups: list[int], number: int) -> list[int]:
    """Sends a signal to process groups; those that are still there."""
    present = []
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
            present.append(group)
    return present


GUARD = Guard()
atexit.register(GUARD.close)

if __name__ == "__main__":
    watch(sys.stdin)
