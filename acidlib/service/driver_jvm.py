"""Spark's JVM as a child of the run: what signals do to the run leaves it alone, and it ends after the run.

Python decides what becomes of a run that is to stop, and needs the JVM until all is given back. So the JVM is in a
session of its own, where no terminal reaches it, and ignores what a service manager sends to all processes. Its
standard input is a pipe from Python: it ends with that, however Python ends.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from threading import Thread
from typing import IO, Any

from acidlib.errors import RetryError
from acidlib.service.stopping import SIGNALS, STOPPING

_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""By this variable Spark's PythonGatewayServer is told where to write its port and its secret."""
_BEFORE_SPARK, _GIVE_BACK_SECONDS = 1000, 600
"""The priority of what a JVM does before it stops its context (40), and for how long it waits for the run then."""
_LOOK_SECONDS, _END_SECONDS, _LAST_WORDS_SECONDS = 0.05, 60.0, 1.0
# what every JVM says for which Spark asks for a module of vectors
_NO_NEWS = re.compile(rb"WARNING: Using incubator modules: ")


class DriverJvm:
    """A JVM that is started at most once."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._copier: Thread | None = None
        self._owner = os.getpid()

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Start it, and return the port and the secret by which it is reached.

        RetryError where it ends before it can be reached; what it says stands on standard error.
        """
        with tempfile.TemporaryDirectory(prefix="acidlib-") as folder:
            told = Path(folder, "gateway")
            variables = {**environment, _INFO_PATH: str(told), "SPARK_CONNECT_MODE": "0"}
            process = self._process = Popen(  # noqa: S603 - Spark's own command
                command,
                env=variables,
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,  # standard output is the job's
                start_new_session=True,
                preexec_fn=_ignore_signals,
            )
            assert process.stdout is not None
            self._copier = Thread(target=_copy, args=(process.stdout,), name="acidlib-jvm", daemon=True)
            self._copier.start()
            try:
                while not told.is_file():
                    if process.poll() is not None:
                        self._copier.join(_LAST_WORDS_SECONDS)
                        raise RetryError(
                            f"Cannot start Spark: {command[0]} has ended with status {process.returncode}; "
                            "what it said stands above"
                        )
                    time.sleep(_LOOK_SECONDS)
            except BaseException:
                process.kill()
                process.wait()
                raise
            return _gateway(told.read_bytes())

    def end(self) -> None:
        """Let it end, and wait until it has."""
        process = self._process
        if process is None or os.getpid() != self._owner:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except TimeoutExpired:
            process.kill()
            process.wait()
        if self._copier is not None:
            self._copier.join(_LAST_WORDS_SECONDS)

    def kill(self) -> None:
        """End it at once; may be called from within a handler of signals."""
        if self._process is not None and os.getpid() == self._owner:
            self._process.kill()


OF_THIS_PROCESS = DriverJvm()
"""The one of a driver that spark-submit does not run."""


def end_after_this_process(jvm: Any) -> None:
    """Have a JVM that has started this process hand a signal on to it, and wait for its end, before it ends itself.

    Of hooks of Java alone, for a callback would open a port to all users: a method of a value is what is run. Both do
    nothing where this process has ended by itself. `jvm` is py4j's view of it.
    """
    invoke = jvm.java.lang.invoke
    runnable, nothing = jvm.java.lang.Class.forName("java.lang.Runnable"), jvm.java.lang.Void.TYPE

    def calling(value: Any, type_name: str, method: str, returned: str | None) -> Any:
        of, gives = jvm.java.lang.Class.forName(type_name), jvm.java.lang.Boolean.TYPE
        if returned is not None:
            gives = jvm.java.lang.Class.forName(returned)
        found = invoke.MethodHandles.publicLookup().findVirtual(of, method, invoke.MethodType.methodType(gives))
        return found.bindTo(value)

    def hook(handle: Any) -> Any:
        ending = handle.asType(invoke.MethodType.methodType(nothing))
        return invoke.MethodHandleProxies.asInterfaceInstance(runnable, ending)

    process = jvm.java.lang.ProcessHandle.of(os.getpid()).get()
    future = "java.util.concurrent.CompletableFuture"
    ended = calling(process, "java.lang.ProcessHandle", "onExit", future).invokeWithArguments(jvm.java.util.ArrayList())
    hooks, seconds = jvm.org.apache.hadoop.util.ShutdownHookManager.get(), jvm.java.util.concurrent.TimeUnit.SECONDS
    first = hook(calling(process, "java.lang.ProcessHandle", "destroy", None))
    hooks.addShutdownHook(first, _BEFORE_SPARK + 1, _GIVE_BACK_SECONDS, seconds)
    then = hook(calling(ended, future, "join", "java.lang.Object"))
    hooks.addShutdownHook(then, _BEFORE_SPARK, _GIVE_BACK_SECONDS, seconds)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _copy(stream: IO[bytes]) -> None:
    """Pass on what it says, but for what it always says, and what it says of tasks that a stopped run has ended."""
    for line in stream:
        if STOPPING.by is None and not _NO_NEWS.match(line):
            with suppress(OSError):
                os.write(2, line)


def _gateway(told: bytes) -> tuple[int, str]:
    """Return port and secret: two numbers of four bytes, the second the length of what follows it."""
    port, length = struct.unpack_from("!ii", told)
    return port, told[8 : 8 + length].decode()
