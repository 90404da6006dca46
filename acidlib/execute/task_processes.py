"""Processes for the tasks of a Python program, so that none ends the program; see `acidlib.execute.task_process`.

They are forked from one that has loaded what tasks need, never from the program, which may have threads, and whose
`__main__` is not run again. A process does one task at a time, and ends with the run. What kills it, such as a fault of
a library or the lack of memory, is the error of its task alone: the others go on, and the next one gets a new process.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from acidlib.errors import AcidError, HangingError, RetryError
from acidlib.execute import task_process
from acidlib.execute.answers import answer_of
from acidlib.execute.task import Task
from acidlib.memory import Memory, over_barrier_reason
from acidlib.waiting import STOP_SECONDS, Threads

_MAX_STATUS_BYTES = 64
_TRIES = 2
"""A nursery that had no work may end while it is asked for a process: another one is started."""


class TaskProcesses:
    """The processes of one run: started when they are needed, kept, and ended at the end of the `with`.

    number  how many tasks run at the same time
    """

    def __init__(self, number: int) -> None:
        self._threads = Threads(number, "acidlib-task")  # each waits for a process
        self._lock = Lock()
        self._idle: list[TaskProcess] = []
        self._busy: set[TaskProcess] = set()
        self._cancelled = 0

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Return the value or the error of each task, in order; see Runner.

        RetryError for a task whose process has ended under it, or does not start; it is not tried again.
        """
        cancelled = self._cancelled

        def all_of(batch: Sequence[Task]) -> list[Any]:
            return [self._answer(task, group, cancelled) for task in batch]

        return list(self._threads.map(all_of, batches))

    def cancel(self) -> None:
        """Begin no further task, and end those that run."""
        with self._lock:
            self._cancelled += 1
            for process in self._busy:
                process.kill()

    def _answer(self, task: Task, group: str, cancelled: int) -> Any | AcidError:
        stopped = RetryError(f"Cannot finish {group}: the run was stopped before")
        if self._cancelled != cancelled:
            return stopped
        try:
            process = self._process()
        except RetryError as error:
            return error
        with self._lock:
            self._busy.add(process)
            if self._cancelled != cancelled:
                process.kill()
        answer = process.do(task, group)
        with self._lock:
            self._busy.discard(process)
            is_stopped = self._cancelled != cancelled
            if not (process.has_ended or is_stopped or isinstance(answer, HangingError)):
                self._idle.append(process)
                return answer
        if is_stopped and process.has_ended:
            answer = stopped
        process.close()
        return answer

    def _process(self) -> TaskProcess:
        """Return a process without a task: one that is there, or a new one; RetryError if that does not start."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                process = self._idle.pop()
            if process.is_alive():
                return process
            process.close()
        return NURSERY.process()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()  # what still runs is not waited for by anything
        # a process that is killed while a file system does not answer goes on until it does
        self._threads.stop(STOP_SECONDS, STOP_SECONDS)
        while self._idle:
            self._idle.pop().close()


class TaskProcess:
    """One process, for one task at a time.

    pid  its number
    """

    def __init__(self, pid: int, tasks: socket.socket, connection: Connection, life: socket.socket) -> None:
        self.pid = pid
        self.has_ended = False
        self._tasks = tasks
        self._connection = connection
        self._life = life
        self._is_killed = False

    def do(self, task: Task, group: str) -> Any | AcidError:
        """Return the value or the error of a task; RetryError if the process ends under it."""
        pickled = answer_of(pickle.dumps, (task, uuid.uuid4().hex[:16]))
        if isinstance(pickled, AcidError):
            return pickled
        try:
            self._connection.send_bytes(pickled)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            self.has_ended = True
            # one that is killed while a file system does not answer goes on until it does
            status = b"" if self._is_killed else self._life.recv(_MAX_STATUS_BYTES)
            reason = exit_text(int(status) if status else None, task.memory)
            return RetryError(f"Cannot finish {task.named_in(group)}: {reason}")
        return answer_of(pickle.loads, answer)

    def is_alive(self) -> bool:
        """Return whether the process has not ended yet."""
        poll = select.poll()  # select(2) counts to 1,024 descriptors only
        poll.register(self._life, select.POLLIN)
        return not poll.poll(0)

    def kill(self) -> None:
        """End the process at once, also under its task, for which nothing waits any more."""
        self._is_killed = True
        with suppress(OSError):  # it has ended
            self._life.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            self._tasks.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the process, if it has not ended, and forget it."""
        self._tasks.close()
        self._connection.close()
        self._life.close()


def exit_text(status: int | None, memory: Memory | None = None) -> str:
    """Return how the process of a task has ended: by exit status, by a signal (below 0), or with its nursery (None).

    memory  of the task, if it was held to the barrier of that
    """
    if status is None:
        return "its process has ended, together with the one that it was forked from"
    if status >= 0:
        return f"its process has ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = "; perhaps memory ran out, which the log of the kernel says" if status == -signal.SIGKILL else ""
    if memory is not None and status in (-signal.SIGSEGV, -signal.SIGABRT):
        hint = f"; perhaps {over_barrier_reason(memory)}"
    return f"its process was ended by {name}{hint}"


class _Nursery:
    """The process of this program from which processes of tasks are forked; started when it is needed."""

    def __init__(self, command: Callable[[int], Sequence[str]]) -> None:
        self._command = command
        self._lock = Lock()
        self._control: socket.socket | None = None
        self._started: subprocess.Popen[bytes] | None = None

    def process(self) -> TaskProcess:
        """Return a new process for tasks; RetryError if it does not start."""
        for _ in range(_TRIES):
            tasks, life = self._forked()
            connection = Connection(os.dup(tasks.fileno()))
            with suppress(EOFError, OSError):
                # tasks find modules, keys of stores and caches where the program finds them
                connection.send_bytes(pickle.dumps((dict(os.environ), _search_path())))
                return TaskProcess(int(connection.recv_bytes()), tasks, connection, life)
            for end in (connection, tasks, life):
                end.close()
            self._end_if_dead()
        raise RetryError(
            f"Cannot start a process for tasks: {sys.executable or 'Python'} -m {task_process.__name__} has ended; "
            "its standard error says why"
        )

    def _forked(self) -> tuple[socket.socket, socket.socket]:
        """Return the program's ends of the two sockets of a process that the nursery is asked to fork."""
        tasks, its_tasks = socket.socketpair()
        life, its_life = socket.socketpair()
        with its_tasks, its_life, suppress(OSError), self._lock:
            control = self._control or self._start()
            socket.send_fds(control, [b"\0"], [its_tasks.fileno(), its_life.fileno()])
        return tasks, life

    def _start(self) -> socket.socket:
        self._control, its_control = socket.socketpair()
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(_search_path()),
            "PYTHONSAFEPATH": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        before = signal.pthread_sigmask(signal.SIG_BLOCK, task_process.STOPPING)  # for the new process
        try:
            with its_control:
                self._started = subprocess.Popen(  # noqa: S603 - this interpreter
                    self._command(its_control.fileno()),
                    env=environment, pass_fds=(its_control.fileno(),),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._control

    def _end_if_dead(self) -> None:
        """Forget a nursery that has ended; one that only cannot fork has other processes under way."""
        with self._lock, suppress(BlockingIOError):
            if self._control is None or not self._control.recv(1, socket.MSG_DONTWAIT):
                self._end()

    def end(self) -> None:
        """End the nursery and its processes; the next one starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._started is not None:
            self._started.wait()
        self._control = self._started = None

    def forget(self) -> None:
        """Leave it to the program that this process was forked from."""
        self._lock = Lock()
        if self._control is not None:
            self._control.close()
        self._control = self._started = None


def _search_path() -> list[str]:
    """Return where this program finds modules, absolute."""
    return [str(Path(entry).absolute()) for entry in sys.path]


NURSERY = _Nursery(lambda descriptor: [sys.executable, "-m", task_process.__name__, str(descriptor)])
atexit.register(NURSERY.end)
os.register_at_fork(after_in_child=NURSERY.forget)
