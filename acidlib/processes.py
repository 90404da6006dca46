"""Identities of processes, and whether one of this machine has ended: then its claims need not time out.

Also how long threads compute.
"""

from __future__ import annotations

import getpass
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


def user_name() -> str:
    """Return the name of the user of this process; the number of one without a name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter from Python 3.13 on
        return str(os.getuid())


def process_identity() -> str:
    """Return an identity that no other process of any machine has; empty where the system gives none (not Linux).

    It is a digest of host name, boot and process namespace (containers number processes on their own), the number of
    the process, and the time of its start, since numbers are used again.
    """
    surroundings, status = _surroundings(), _state_and_start(os.getpid())
    if surroundings is None or status is None:
        return ""
    return f"{surroundings}.{os.getpid()}.{status[1]}"


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
        pass  # perhaps another user's process: /proc may still show it
    status = _state_and_start(int(number))
    return status is not None and (status[1] != start or status[0] in _ENDED_STATES)


def signed(name: str) -> str:
    """Return a name with the identity of this process behind it, for `signer_has_ended`.

    A name that ends with a hyphen and a part without dots keeps both in front of the first dot behind that hyphen.
    """
    identity = process_identity()
    return f"{name}.{identity}" if identity else name


def signer_has_ended(name: str) -> bool:
    """Return whether the process that signed a name is known to have ended; False for a name that is not signed."""
    return has_ended(name.rpartition("-")[2].partition(".")[2])


@cache
def boot_identity() -> str:
    """Return a text that tells this start of this machine from all others; empty where the system gives none."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def processor_seconds(thread: int) -> tuple[float, float]:
    """Return how long a thread of this process has computed, and how long it has waited for a processor to do so.

    Both are 0 where the system does not tell, as of a thread that has ended. Source: schedstat in the documentation of
    Linux's scheduler, whose first two figures are the nanoseconds of both.
    """
    try:
        ran, waited, _ = Path(f"/proc/self/task/{thread}/schedstat").read_text().split()
    except OSError:
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


@cache
def _surroundings() -> str | None:
    try:
        if str(Path("/proc/self").readlink()) != str(os.getpid()):
            return None  # that /proc is of another process namespace: its numbers are not ours
        namespace = _NAMESPACE.readlink()
    except OSError:
        return None
    if not boot_identity():
        return None
    text = f"{socket.gethostname()} {boot_identity()} {namespace}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """Return the state of a process and the time of its start; None when they cannot be seen, ended or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[_STATE], fields[_START]
    except (OSError, IndexError):
        return None
