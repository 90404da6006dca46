"""Jobs in processes of their own, forked from this one: killed, stopped, waited for."""

from __future__ import annotations

import json
import os
import pickle
import signal
import stat
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forking import fork

from acidlib.points import KILL_AT, STOP_AT
from integration.harness import Ran

_CHILD_SECONDS = 300
NOBODY = 65534


def forked(work: Callable[[], object]) -> int:
    """Run something in a child process of this one; its exit status, negative for the signal that ended it.

    What the child raises ends it with status 99, and is told on standard error; five minutes end it with SIGALRM.
    """
    child = fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_CHILD_SECONDS)
            work()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(point: str, work: Callable[[], object]) -> bool:
    """Run something in a child process that is killed at a point (see `acidlib.points`); whether it came to that."""

    def run() -> None:
        os.environ[KILL_AT] = point
        work()

    status = forked(run)
    assert status in (0, -signal.SIGKILL), (status, point)
    return status != 0


def open_to_others(root: Path) -> None:
    """Let every user come to a directory, where its parents are root's."""
    for parent in root.parents:
        mode = parent.stat().st_mode
        if parent.stat().st_uid == 0 and mode & 0o005 != 0o005:
            parent.chmod(stat.S_IMODE(mode) | 0o055)


def without_rights(root: Path, work: Callable[[], Ran]) -> Ran:
    """Run a job as a user who owns all below `root` and is not root, who may do everything; where we are root."""
    if os.geteuid() != 0:
        return work()
    told = root / "ran.json"
    told.touch()
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    open_to_others(root)

    def run() -> None:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ran = work()
        told.write_text(json.dumps([ran.status, ran.out, ran.err]))

    assert forked(run) == 0
    status, out, err = json.loads(told.read_text())
    told.unlink()
    return Ran(status=status, out=out, err=err)


class Child:
    """A job in a process of its own, forked from this one."""

    def __init__(self, run: Callable[[], Any], answer: Path) -> None:
        """Starts it; what `run` returns comes back through the file `answer`."""
        self._answer = answer
        self._status: int | None = None
        self._asking = threading.Lock()  # a proxy's thread waits too, and a process ends for one of them only
        self.pid = fork()
        if self.pid == 0:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                answer.write_bytes(pickle.dumps(run()))
            except BaseException as error:
                answer.write_bytes(pickle.dumps(AssertionError(f"{type(error).__name__}: {error}")))
                os._exit(99)
            os._exit(0)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Sends it a signal."""
        os.kill(self.pid, number)

    def wait_until_stopped(self, seconds: float = 300) -> None:
        """Waits until it has stopped itself at a point."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                assert os.WIFSTOPPED(status), f"a job ended with {os.waitstatus_to_exitcode(status)} before its point"
                return
            assert time.monotonic() < end, f"a job did not stop within {seconds:g} s"
            time.sleep(0.02)

    def end(self) -> None:
        """Ends it if it has not ended yet."""
        if self._ended() is None:
            self.kill()
            self.wait()

    def wake(self) -> None:
        """Lets it go on."""
        self.kill(signal.SIGCONT)

    def wait(self, seconds: float = 300) -> int:
        """Its exit status, negative for the signal that ended it."""
        end = time.monotonic() + seconds
        while (status := self._ended()) is None:
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"a job did not end within {seconds:g} s")
            time.sleep(0.02)
        return status

    def _ended(self) -> int | None:
        with self._asking:
            if self._status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
            return self._status

    def result(self, seconds: float = 300) -> Any:
        """What its function returned. Fails when it was killed or raised."""
        status = self.wait(seconds)
        assert status in (0, 99), f"a job was ended by {status}"
        found = pickle.loads(self._answer.read_bytes())
        if isinstance(found, BaseException):
            raise found
        return found

    def ran(self, seconds: float = 300) -> Ran:
        """How its job ended."""
        found = self.result(seconds)
        assert isinstance(found, Ran)
        return found


@contextmanager
def stopped_at(point: str, run: Callable[[], Any], answer: Path) -> Iterator[Child]:
    """A run that has stopped at a point (see `acidlib.points`) and sleeps; `wake` lets it go on."""

    def until_then() -> Any:
        os.environ[STOP_AT] = point
        return run()

    child = Child(until_then, answer)
    try:
        child.wait_until_stopped()
        yield child
    finally:
        child.end()
