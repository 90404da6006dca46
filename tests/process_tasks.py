"""What tests run in processes of tasks; it imports little, as each process imports it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from acidlib.errors import ConflictError
from acidlib.waiting import asking


def where(_: str) -> tuple[int, str, bool]:
    """The process that does it, its main thread's name, and whether the program's `__main__` was run in it again."""
    return os.getpid(), threading.current_thread().name, "pytest" in getattr(sys.modules["__main__"], "__file__", "")


def variable(name: str, _: str) -> str | None:
    """What a variable of the environment says there."""
    return os.environ.get(name)


def raised(_: str) -> None:
    """An error of ours."""
    raise ConflictError("Cannot do it: another one does")


def unexpected(_: str) -> None:
    """An error of nobody's."""
    raise IndexError(7)


def unsendable(_: str) -> object:
    """A value that no other process can have."""
    return threading.Lock()


def killed(number: int, _: str) -> None:
    """Its process dies of a signal."""
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)
    time.sleep(60)


def ended(status: int, _: str) -> None:
    """Its process ends."""
    os._exit(status)


def wild(_: str) -> None:
    """It reads where nothing is, as a broken library would."""
    import ctypes

    ctypes.string_at(0)


def stays(begun: str, _: str) -> None:
    """It says that it has begun, by which process, and does not end."""
    Path(begun).write_text(str(os.getpid()))
    time.sleep(300)


def hangs(pipe: str, _: str) -> None:
    """It reads a file of a file system that does not answer: no signal but SIGKILL, and no time, ends that."""
    with asking("read", pipe):
        os.close(os.open(pipe, os.O_RDONLY))


def meets(mine: str, other: str, _: str) -> bool:
    """It waits for another one at work."""
    Path(mine).touch()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if Path(other).exists():
            return True
        time.sleep(0.01)
    return False


def takes(size: int, _: str) -> int:
    """It takes so many bytes of memory, and gives them back."""
    return len(bytes(size))
