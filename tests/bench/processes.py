"""What processes of this machine use, as Linux tells: those that a bench has started, and all that these have."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_LOOK_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME = 11
"""User and system time, and those of children that have ended, in `/proc/PID/stat`, counted behind the name."""


def below(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of these processes so far, and of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[_UTIME : _UTIME + 4]))
    return ticks / _TICKS


class Memory:
    """The most that was resident of the processes of a driver, in MB: of its Python, and of its JVM.

    root    the process that starts both
    script  what the driver runs
    """

    def __init__(self, root: int, script: str) -> None:
        self.python = self.jvm = 0.0
        self._root, self._script = root, script

    def watch(self) -> None:
        """Look at it until the first process has ended."""
        known: dict[int, str] = {}
        while Path(f"/proc/{self._root}").exists():
            time.sleep(_LOOK_SECONDS)
            for pid in below(self._root):
                with suppress(OSError, IndexError, StopIteration):
                    kind = known.get(pid) or self._kind(pid)
                    known[pid] = kind
                    if kind:
                        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                        most = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
                        setattr(self, kind, max(most, getattr(self, kind)))

    def _kind(self, pid: int) -> str:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if Path(words[0]).name == "java":
            return "jvm"
        return "python" if "python" in Path(words[0]).name and words[1].endswith(self._script) else ""
