"""A server as a process: started in a group of its own, waited for, stopped, killed."""

from __future__ import annotations

import abc
import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.errors import ServerError
from servers.guard import GUARD

START_SECONDS = 300.0  # a machine under load
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
# below the ports that the system gives to outgoing connections, so that a stopped server's port is still free later
PORTS = range(12_000, 32_000)
_SHARES = 8
_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that neither this process nor one beside it gets again.

    A server may need a minute before it listens: until then another's would be taken for it.
    """
    share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
    chosen = random.SystemRandom()
    for _ in range(1000):
        port = chosen.choice(PORTS[share::_SHARES])
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise ServerError(f"Cannot find a free port: a thousand between {PORTS.start} and {PORTS.stop} are taken")


def listens(port: int) -> bool:
    """Whether a server accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def marked_processes(mark: str) -> list[int]:
    """All processes with this variable (`NAME=value`) in their environment, whoever their parents are."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if place.name.isdecimal() and mark.encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def last_lines(path: Path, count: int = 25) -> str:
    """The end of a log, or a word that there is none."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"(no log: {error.strerror})"
    return "\n".join(line[:300] for line in lines[-count:]) or "(the log is empty)"


class Startable(abc.ABC):
    """What is started and stopped; as a context manager, for its length."""

    @abc.abstractmethod
    def start(self) -> None:
        """Starts it, unless it runs."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stops it."""

    def __enter__(self) -> Self:
        """Starts it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops it."""
        self.stop()


class OneProcess(Startable):
    """A server that is one process, made when it is first started."""

    _process: ServerProcess | None = None

    @abc.abstractmethod
    def _new_process(self) -> ServerProcess:
        """What is started, with the files that it needs."""

    def start(self) -> None:
        """Starts it, unless it runs. Raises ServerError with the end of its log."""
        if self._process is None:
            self._process = self._new_process()
        self._process.start()

    def stop(self) -> None:
        """Ends it in an orderly way."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._process is not None:
            self._process.kill()


class ServerProcess:
    """One process of a server and what it writes; it may be started again after it has ended."""

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str],
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str],
        directory: Path,
        user: int | None = None,
        group: int | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        """Starts nothing yet. ``ready`` tells whether the server answers; ``log`` gets its output, appended."""
        self.name = name
        self.log = log
        self._command = list(command)
        self._ready = ready
        self._environment = dict(environment)
        self._directory = directory
        self._user = user
        self._group = group
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, or None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Starts it and waits until it is ready. Raises ServerError with the end of its log."""
        if self.pid is not None:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                user=self._user,
                group=self._group,
                extra_groups=None if self._user is None else [],
                start_new_session=True,
            )
        GUARD.group(self._process.pid)
        try:
            self._wait_until_ready(self._process)
        except BaseException:  # also Ctrl-C: nobody else knows this process yet
            self.kill()
            raise

    def stop(self) -> None:
        """Asks it to end, and kills it when it does not. Nothing happens when it does not run."""
        self._end(self._stop_signal)

    def kill(self) -> None:
        """Ends it and its children at once, as a crash would."""
        self._end(signal.SIGKILL)

    def memory_mb(self) -> int:
        """The resident memory of the process now. Raises ServerError when it does not run."""
        if self.pid is None:
            raise ServerError(f"Cannot measure {self.name}: it does not run")
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            if process.poll() is not None:
                raise self._failed(f"it ended with status {process.returncode}")
            if self._ready():
                return
            if time.monotonic() > deadline:
                raise self._failed(f"it did not answer within {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _failed(self, reason: str) -> ServerError:
        return ServerError(f"Cannot start {self.name}: {reason}; end of {self.log}:\n{last_lines(self.log)}")

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None and number is not signal.SIGKILL:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # what is left of the group, if anything
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        GUARD.ended(process.pid)
        self._process = None
