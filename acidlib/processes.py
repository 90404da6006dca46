"""Identities of processes, and whether a process of this machine has ended: then its claims need not time out."""

from __future__ import annotations

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
# fields of /proc/PID/stat (proc(5)) behind the name, which is in parentheses and may hold anything
_STATE, _START = 0, 19
_ENDED_STATES = "ZX"


def process_identity() -> str:
    """Return an identity that no other process of any machine has; empty where the system has none (not Linux).

    A digest of host name, boot and process namespace (containers count processes on their own), the number, and the
    time of its start, since numbers are used again.
    """
    surroundings, found = _surroundings(), _look(os.getpid())
    if surroundings is None or found is None:
        return ""
    return f"{surroundings}.{os.getpid()}.{found[1]}"


def has_ended(identity: str) -> bool:
    """Return whether the process of this identity is known to have ended; False where that cannot be known."""
    surroundings, _, rest = identity.partition(".")
    number, _, start = rest.partition(".")
    if not surroundings or surroundings != _surroundings() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # somebody else's, perhaps: /proc may still show it
    found = _look(int(number))
    return found is not None and (found[1] != start or found[0] in _ENDED_STATES)


@cache
def _surroundings() -> str | None:
    try:
        if str(Path("/proc/self").readlink()) != str(os.getpid()):
            return None  # that /proc is of another process namespace: its numbers are not ours
        text = f"{socket.gethostname()} {_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _look(pid: int) -> tuple[str, str] | None:
    """Return its state and the time of its start; None when that cannot be seen, which need not mean an end."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[_STATE], fields[_START]
    except (OSError, IndexError):
        return None
