"""The JVM of a driver on this machine.

Such a driver is a Python process that starts Spark's JVM itself. Python handles the signals of a run, and needs the JVM
until all places are given back. So the JVM is in a session of its own, where no terminal reaches it, and ignores the
signals that a service manager sends to all processes. Its standard input is a pipe from Python: the JVM ends with it,
however Python ends.
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
from typing import IO

from acidlib.errors import RetryError
from acidlib.execute.stopping import SIGNALS, STOPPING
from acidlib.standard_error import write_bytes

_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable that names the file to which Spark's PythonGatewayServer writes its port and its secret."""
_LOOK_SECONDS, _END_SECONDS, _LAST_WORDS_SECONDS = 0.05, 60.0, 1.0
# a warning of every JVM that Spark starts with the module of vectors
_NO_NEWS = re.compile(rb"WARNING: Using incubator modules: ")


class DriverJvm:
    """A JVM that is started at most once."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._copier: Thread | None = None
        self._owner = os.getpid()

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], files: Sequence[int] = ()
    ) -> tuple[int, str]:
        """Start it with inherited files, and return the port and the secret by which it is reached.

        RetryError if it ends before it can be reached; its output stands on standard error.
        """

        def ignore_signals() -> None:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)

        with tempfile.TemporaryDirectory(prefix="acidlib-") as folder:
            gateway = Path(folder, "gateway")
            variables = {**environment, _INFO_PATH: str(gateway), "SPARK_CONNECT_MODE": "0"}
            try:
                with STOPPING.shielded():  # an interrupt within it would lose the process
                    process = self._process = Popen(  # noqa: S603 - Spark's own command
                        command,
                        env=variables,
                        pass_fds=files,
                        stdin=PIPE,
                        stdout=PIPE,
                        stderr=STDOUT,  # standard output is the job's
                        start_new_session=True,
                        preexec_fn=ignore_signals,
                    )
                assert process.stdout is not None
                self._copier = Thread(target=_copy, args=(process.stdout,), name="acidlib-jvm", daemon=True)
                self._copier.start()
                while not gateway.is_file():
                    if process.poll() is not None:
                        self._copier.join(_LAST_WORDS_SECONDS)
                        raise RetryError(
                            f"Cannot start Spark: {command[0]} has ended with status {process.returncode}; "
                            "its output stands above"
                        )
                    time.sleep(_LOOK_SECONDS)
            except BaseException:
                if self._process is not None:
                    self._process.kill()
                    self._process.wait()
                raise
            # two numbers of four bytes, the second the length of the secret behind them
            port, length = struct.unpack_from("!ii", data := gateway.read_bytes())
            return port, data[8 : 8 + length].decode()

    def end(self) -> None:
        """Have it end, and wait for that."""
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
        """End it at once; a handler of signals may call this."""
        if self._process is not None and os.getpid() == self._owner:
            self._process.kill()


OF_THIS_PROCESS = DriverJvm()
"""The JVM of a driver that spark-submit does not run."""


def _copy(stream: IO[bytes]) -> None:
    """Write its output to standard error, except a usual warning, and messages about tasks that a stopped run ended."""
    for line in stream:
        if STOPPING.by is None and not _NO_NEWS.match(line):
            write_bytes(line)
