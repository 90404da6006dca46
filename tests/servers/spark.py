"""A standalone cluster of the Spark that pip installed: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from pyspark import SparkContext

from acidlib.execute.driver_jvm import OF_THIS_PROCESS
from servers.errors import ServerError
from servers.java import SMALL
from servers.process import POLL_SECONDS, ServerProcess, free_port, listens, marked_processes

SPARK_HOME = Path(pyspark.__file__).parent
_CLUSTER = "ACIDLIB_TEST_CLUSTER"
"""In the environment of all processes of a cluster: those that have lost their parents are found by it."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_END_SECONDS = 30.0


class SparkCluster:
    """A master and workers of one core. Speculation takes another host, so worker N listens on 127.0.0.N."""

    def __init__(self, directory: Path, *, workers: int, spark_home: Path = SPARK_HOME) -> None:
        """Starts nothing yet; ``directory`` is its own and gets the logs, and the files of applications."""
        self._spark_home = spark_home
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._directory = directory
        self._master = self._new_process(
            "master", "127.0.0.1", ["master.Master", "--port", str(port)], lambda: listens(port)
        )
        self._workers = [self._new_worker(number) for number in range(1, workers + 1)]

    def executors(self) -> list[int]:
        """The processes of the executors that run now."""
        return [pid for pid in self.processes() if is_executor(pid)]

    def on_executors(self) -> list[int]:
        """The executors and their Python processes, also those that have lost their executor."""
        own = {process.pid for process in (self._master, *self._workers)}
        return [pid for pid in self.processes() if pid not in own]

    def applications(self) -> set[str]:
        """The names of all applications that ever had an executor."""
        return {path.name for path in self._directory.glob("work*/app-*")}

    def files(self, application: str, pattern: str) -> list[Path]:
        """Files in the directories of the executors of an application."""
        return [path for place in self._directory.glob(f"work*/{application}/*") for path in place.glob(pattern)]

    def processes(self) -> list[int]:
        """All processes of the cluster and of what runs on it, whoever their parents are."""
        return marked_processes(f"{_CLUSTER}={self._directory}")

    def __enter__(self) -> Self:
        """Starts it and waits until all workers are there. Raises ServerError with the end of a log."""
        try:
            self._master.start()
            with ThreadPoolExecutor() as pool:
                list(pool.map(ServerProcess.start, self._workers))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops it."""
        self.stop()

    def stop(self) -> None:
        """Ends the cluster and everything that runs on it; raises ServerError when something had to be killed for it.

        Executors end with their workers, and Python processes with their executors.
        """
        for process in (*self._workers, self._master):
            process.stop()
        deadline = time.monotonic() + _END_SECONDS
        while left := self.processes():
            if time.monotonic() > deadline:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                raise ServerError(f"Cannot stop Spark in {self._directory}: processes {left} did not end")
            time.sleep(POLL_SECONDS)

    def _new_worker(self, number: int) -> ServerProcess:
        work = str(self._directory / f"work{number}")
        words = ["worker.Worker", "--cores", "1", "--memory", "2g", "--work-dir", work]
        log = self._log(f"worker{number}")
        return self._new_process(
            f"worker{number}",
            f"127.0.0.{number}",
            [*words, self.url],
            lambda: "Successfully registered with master" in log.read_text(),
        )

    def _new_process(self, name: str, host: str, words: list[str], ready: Callable[[], bool]) -> ServerProcess:
        main, *options = words
        small = " ".join(SMALL)
        return ServerProcess(
            f"Spark's {name}",
            command=[
                *(str(self._spark_home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"),
                *("--host", host, "--webui-port", "0", *options),
            ],
            log=self._log(name),
            ready=ready,
            # its own settings only, wherever the tests run
            environment={key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
            | {
                _CLUSTER: str(self._directory),
                "SPARK_HOME": str(self._spark_home),
                "SPARK_CONF_DIR": str(self._directory),
                "SPARK_LOCAL_DIRS": str(self._directory / "local"),
                "SPARK_LOCAL_IP": host,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": f"{small} -Dspark.master.rest.enabled=false",
                "SPARK_LAUNCHER_OPTS": small,
            },
            directory=self._directory,
        )

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


def end_jvm() -> None:
    """Ends the JVM of this process, if it has one and no context is open; the next context starts another."""
    gateway = SparkContext._gateway
    if gateway is None or SparkContext._active_spark_context is not None:
        return
    gateway.shutdown()
    started = getattr(gateway, "proc", None)
    if started is not None:  # by PySpark itself
        started.communicate()
    OF_THIS_PROCESS.end()
    SparkContext._gateway = SparkContext._jvm = None


def is_executor(pid: int) -> bool:
    """Whether a process is the JVM of an executor."""
    try:
        return _EXECUTOR.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
