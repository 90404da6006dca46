"""The processes in which the tasks of a Python program run; `acidlib.execute.task_processes` is the program's side.

    python -m acidlib.execute.task_process DESCRIPTOR

starts the nursery: a process that loads what tasks need, once for a program, and forks the processes of tasks. It has
one thread and runs no task, so that its forks are whole. DESCRIPTOR is its socket to the program. Each message there is
a byte with two sockets, of a process that is to be forked: one for its tasks, and its life. On the latter the nursery
writes the status with which the process has ended; it kills the process when the program closes or shuts down its own
end. When the program has ended, however it did, so have the nursery and its processes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import redirect_stdout, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals to all processes of a program, such as Ctrl-C, which the program alone is to act upon."""
IDLE_SECONDS = 60
"""The nursery ends after so long without a process; the next run of the program starts another one."""
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (prctl(2))."""
_SOONER_OUT_OF_MEMORY = "500"
"""Where memory runs out the kernel ends a process of tasks rather than the program (proc(5), oom_score_adj)."""


def load() -> None:
    """Load the modules of tasks. An import that fails here fails again in a task, where it is reported."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # OpenBLAS would start unused threads before the forks
    with redirect_stdout(sys.stderr), suppress(Exception):  # Spark reads a port number from standard output
        import acidlib.execute.task
        import acidlib.execute.tasks
        from acidlib.rewrite import warm

        del acidlib
        warm.main()
    gc.collect()
    gc.freeze()


def main(descriptor: int) -> None:
    """Fork processes for the program at the other end of a socket, until it has ended or needs none for a while."""
    faulthandler.enable()  # a fault in a library shows on standard error what the task was doing
    load()
    control = socket.socket(fileno=descriptor)
    awake, waker = os.pipe()
    for end in (awake, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    lives: dict[int, socket.socket] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(awake, select.POLLIN)
    while True:
        events = poll.poll(None if lives else IDLE_SECONDS * 1000)
        if not events:
            return
        for number, _ in events:
            if number == awake:
                with suppress(BlockingIOError):
                    os.read(awake, 1 << 16)
            elif number == control.fileno():
                _, sockets, _, _ = socket.recv_fds(control, 1, 2)
                if not sockets:
                    return  # the processes end with this one
                tasks, life = (socket.socket(fileno=each) for each in sockets)
                with tasks, suppress(OSError):  # too many processes: the program finds both sockets closed
                    nursery, pid = os.getpid(), os.fork()
                    if not pid:
                        for other in (control, life, *lives.values()):
                            other.close()
                        os.close(awake)
                        os.close(waker)
                        _work(tasks, nursery)
                    lives[pid] = life
                    poll.register(life, select.POLLIN)
            else:
                for pid in (pid for pid, life in lives.items() if life.fileno() == number):
                    os.kill(pid, signal.SIGKILL)
                poll.unregister(number)
        for pid in list(lives):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                life = lives.pop(pid)
                with suppress(KeyError):
                    poll.unregister(life)
                with life, suppress(OSError):  # the program has no more need to know
                    life.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _work(tasks: socket.socket, nursery: int) -> NoReturn:
    """Do the tasks that come, and end this forked process when there can be no more."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != nursery:
            os._exit(status)  # it has ended before this one was to end with it
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_SOONER_OUT_OF_MEMORY)
        connection = Connection(tasks.detach())
        environment, sys.path[:] = pickle.loads(connection.recv_bytes())  # noqa: S301 - of the program
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        connection.send_bytes(str(os.getpid()).encode())
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))
    except (EOFError, ConnectionError):
        status = 0  # the run has ended
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _answer(task: bytes) -> bytes:
    """Return the pickled value or error of a pickled task and the text that is unique to the attempt."""
    from acidlib.errors import DefectError

    try:
        work, unique = pickle.loads(task)  # noqa: S301 - of the program
        return pickle.dumps(work.answer(unique))
    except Exception as error:
        return pickle.dumps(
            DefectError(f"Cannot hand over a task or its result: unexpected {type(error).__name__}: {error}")
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
