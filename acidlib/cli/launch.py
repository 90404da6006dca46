"""All jobs, and how a job is started: the command line of its driver, a log of its output, the start of its process.

This module imports no module of a job: the failure of such an import must be printed on standard error, which `begin`
prepares, as standard output is for the job's result.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO, TYPE_CHECKING, NoReturn

from acidlib.config.files import CHECKOUT, METASTORE_DB_VARIABLE, QUEUE_VARIABLE, conf_file
from acidlib.errors import RefusedError, RetryError, UsageError
from acidlib.execute.spark_options import (
    DRIVER_PYTHON,
    ENVIRONMENT,
    PYTHON,
    QUEUE,
    SHELL,
    SUBMIT_ARGS,
    YARN_QUEUE,
    SparkOptions,
    python_of_spark,
    spark_home,
    without_secrets,
)
from acidlib.execute.stopping import SIGNALS, exit_status
from acidlib.masking import masked

if TYPE_CHECKING:
    import click


@dataclass(frozen=True, slots=True)
class Job:
    """A job: a command of `acidlib`, and for most of them a file in jobs/.

    group    of commands, under which `acidlib --help` lists it
    name     of the command, as in `acidlib NAME`; with a word in capitals that stands for another one
    summary  one line of help
    called   its name in results, and in Python; empty where that is the same, with underscores
    spark    whether options of spark-submit have an effect on it
    stays    whether its driver is on this machine, whatever --deploy-mode says
    file     whether a file in jobs/ of a checkout runs it, too
    code     the module with its command
    """

    group: str
    name: str
    summary: str
    _: KW_ONLY
    called: str = ""
    spark: bool = True
    stays: bool = False
    file: bool = True
    code: str = "acidlib.cli.jobs"

    @property
    def module(self) -> str:
        """The name of its file in jobs/, and of its command in `code`."""
        return self.called or self.name.replace("-", "_")

    def load(self) -> click.Command:
        """Import the job, and return its command."""
        command: click.Command = getattr(importlib.import_module(self.code), self.module)
        return command


_EVERYDAY, _OPERATION, _SET_UP = "Everyday", "Operation", "Set-up"
_PACKING = "acidlib.cli.pack"
PLACE_SHOWN = "show PLACE"
"""The name of the job that `show` is with a place."""

JOBS: Sequence[Job] = (
    Job(_EVERYDAY, "major-compact", "Merge the base and deltas of tables into a new base."),
    Job(_EVERYDAY, "minor-compact", "Merge the deltas of tables into one."),
    Job(_EVERYDAY, "initiator", "Queue the tables and partitions over Hive's thresholds."),
    Job(_EVERYDAY, "cleaner", "Remove the files that compactions made obsolete."),
    Job(_OPERATION, "status", "Show the state of all tables, and each problem.", stays=True),
    Job(_OPERATION, "show", "Show the queue and its history.", called="show_compactions", spark=False),
    Job(
        _OPERATION,
        PLACE_SHOWN,
        "Show the directories of a table, and which of them readers read.",
        called="show_place",
        stays=True,
    ),
    Job(_OPERATION, "cancel", "Withdraw requests that wait in the queue.", spark=False),
    Job(_OPERATION, "undo", "Take the result of a compaction back.", stays=True),
    Job(_SET_UP, "quickstart", "Show each step on a copy of two tables that Hive wrote."),
    Job(_SET_UP, "doctor", "Check that jobs can work here.", stays=True, file=False),
    Job(_SET_UP, "probe", "Try what a store has to promise.", stays=True, file=False),
    Job(_SET_UP, "warm", "Compile the kernels, once for an installation.", spark=False, file=False, code=_PACKING),
    Job(
        _SET_UP, "pack", "Make one archive of the installation for --archives.", spark=False, file=False, code=_PACKING
    ),
)
"""All jobs, in the order of use."""


def job_named(name: str) -> Job | None:
    """Return the job with this name, None if there is none."""
    return next((job for job in JOBS if job.name == name), None)


# A driver on this machine is a Python process that starts Spark's JVM as its child, when there are tasks. So the
# command line is checked before that, and signals reach Python, which ends the JVM when it is no longer needed.
# spark-submit starts a driver whose machine Spark chooses.

_DATABASES = {"--metastore-db": METASTORE_DB_VARIABLE, "--queue-url": QUEUE_VARIABLE}
_EXECUTORS, _DRIVER, _PATH, _ADDRESS = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP"
_WITH_SPARK_ENV = ("/bin/bash", "-c", '. "$0" >&2; exec "$@"')
"""The words before a command that give it the variables of `spark-env.sh`, as Spark's own scripts do."""


def start_driver(spark: SparkOptions, words: Sequence[str]) -> NoReturn:
    """Replace this process by the driver of a job, or by spark-submit. Raises RefusedError if that cannot be started.

    words  the file with the job, and the words behind it
    """
    queue = queue_of_yarn(spark, words)
    log4j = conf_file("log4j2.properties", os.environ)
    command, environment = driver(
        spark, words, os.environ, python=sys.executable, log4j=log4j, checkout=CHECKOUT, queue=queue
    )
    if spark.driver_is_placed:  # any other driver has the options of Spark in a variable
        command[1:], _ = without_secrets(command[1:], environment)
    start(command, environment)


def driver_has_variables(environment: Mapping[str, str]) -> bool:
    """Return whether a driver on this machine has just these variables: a spark-env.sh may give it others."""
    if environment.get("SPARK_ENV_LOADED"):
        return True
    conf_dir = environment.get("SPARK_CONF_DIR") or str(spark_home(environment) / "conf")
    try:
        lines = Path(conf_dir, "spark-env.sh").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def queue_of_yarn(spark: SparkOptions, words: Sequence[str]) -> str:
    """Return the YARN queue of `hive.compactor.job.queue` for a driver that YARN starts; else an empty text.

    Any other driver chooses its queue itself. Raises `RefusedError` if the settings of the job cannot be read.
    """
    if not (spark.master.startswith("yarn") and spark.driver_is_placed) or spark.property(YARN_QUEUE):
        return ""
    from acidlib.runs.environment import read_settings  # slow to import

    return read_settings(assignments(words), is_placed=False).text("hive.compactor.job.queue")


def assignments(words: Sequence[str]) -> list[str]:
    """Return the values of `--set` among the words of a job."""
    return [text for text in _taken(words, "--set")[1] if text]


def _taken(words: Sequence[str], option: str) -> tuple[list[str], list[str]]:
    """Return the words without an option and its values, and these values; an empty one is missing at the end."""
    rest: list[str] = []
    values: list[str] = []
    remaining = iter(words)
    for word in remaining:
        name, equals, text = word.partition("=")
        if name == option:
            values.append(text if equals else next(remaining, ""))
        else:
            rest.append(word)
    return rest, values


def without_passwords(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a job without URLs of databases that hold a password, and these by their variables.

    `ps` shows the words of a process to all users, and its variables to none. A metastore's database wins over a queue,
    but its variable does not: with it no queue is named any more, and the caller forgets a variable that names one.
    """
    rest, variables = [*words], {}
    for option, variable in _DATABASES.items():
        others, urls = _taken(rest, option)
        if METASTORE_DB_VARIABLE in variables:
            rest = others
        elif any(masked(url) != url for url in urls):
            rest, variables[variable] = others, urls[-1]
    return rest, variables


def driver(
    spark: SparkOptions,
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    python: str,
    log4j: Path | None,
    checkout: Path | None,
    queue: str = "",
) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts a job, and all variables of its environment.

    words        the file with the job, and the words behind it
    environment  variables of the caller; those about Spark and Python win
    python       the interpreter of this environment
    log4j        the file with Spark's logging; None: Spark's own default
    checkout     the folder of the package in a checkout; None for an installed package
    queue        of YARN, see `queue_of_yarn`; empty: YARN chooses
    """
    stated = dict(environment)
    java: list[str] = []
    if log4j is not None and not spark.driver_is_placed:
        java.append(f"-Dlog4j2.configurationFile=file:{log4j}")
    if spark.is_local:
        # this JVM only starts workers and passes bytes on: optimising its code would cost more than it saves
        java.append("-XX:TieredStopAtLevel=1")
        # no other machine connects to this driver
        stated[_ADDRESS] = stated.get(_ADDRESS) or "127.0.0.1"
    options = ["--driver-java-options", " ".join(java)] if java else []
    stated["SPARK_HOME"] = stated.get("SPARK_HOME") or str(spark_home(environment))
    executors = spark.property(PYTHON) or stated.get(_EXECUTORS)
    if not executors and spark.has_environment and not spark.is_local:
        executors = f"./{ENVIRONMENT}/bin/python"
        # as a property as well: variables do not reach a driver on Kubernetes
        options += ["--conf", f"{PYTHON}={executors}"]
    if not (spark.driver_is_placed and spark.has_environment):
        # as a variable, which is all that PySpark reads in a driver that spark-submit has not started
        stated[_EXECUTORS] = executors or python
    if queue:
        options += [QUEUE, queue]
    if checkout is not None:
        # first in the path, or with an archive not at all: executors of YARN search the path before the archive
        parts = [part for part in stated.pop(_PATH, "").split(os.pathsep) if part and part != str(checkout)]
        if not spark.archives:
            parts.insert(0, str(checkout))
        if parts:
            stated[_PATH] = os.pathsep.join(parts)
    options += spark.words
    if spark.driver_is_placed:
        return [f"{stated['SPARK_HOME']}/bin/spark-submit", *options, *words], stated
    stated[SUBMIT_ARGS] = shlex.join([*options, SHELL])
    command = [spark.property(DRIVER_PYTHON) or stated.get(_DRIVER) or python, *words]
    if not driver_has_variables(environment):
        command = [*_WITH_SPARK_ENV, f"{stated['SPARK_HOME']}/bin/load-spark-env.sh", *command]
    return command, stated


def start(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command. Raises RefusedError if it cannot be run."""
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - no shell
    except OSError as error:
        raise RefusedError(
            f"Cannot start Spark: {command[0]} cannot be run: {error.strerror}; "
            "SPARK_HOME names where Spark is, PYSPARK_DRIVER_PYTHON the Python of the driver"
        ) from error


# With --log-file, for cron, all output goes to a file, and only problems to standard error, a line for each.

_LOG_FILE = "--log-file"
# lines about problems: of acidlib.report.progress in each of its formats, and of click
_PROBLEM = re.compile(rb'\S+Z (WARNING|ERROR) |warning: |error: |Error: |\{"time": "[^"]*", "level": "(warning|error)"')
_PR_SET_PDEATHSIG = 1
_END_SECONDS = 10.0
"""How long to wait for the last lines, as another process may keep the stream open."""


def log_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the words without --log-file, and its file. Raises UsageError if the name of the file is missing."""
    rest, names = _taken(words, _LOG_FILE)
    if not all(names):
        raise UsageError(f"{_LOG_FILE} needs the name of a file")
    return rest, Path(names[-1]) if names else None


def run_logged(command: Sequence[str], path: Path) -> int:
    """Run a command, append its output to a file, print its problems on standard error, and return its exit status.

    Signals are passed on to the command, each once; one that a terminal has sent to both counts as one. If this process
    is killed, the command is stopped in order, as nothing would read its output any more. If the command fails without
    a line about a problem, this process prints one: a command that is killed cannot. Raises RetryError for a file that
    cannot be written.
    """
    try:
        # for this user alone: names and paths of all tables are in it
        log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab", buffering=0)
    except OSError as error:
        raise RetryError(f"Cannot write {path}: the operating system said: {error.strerror}") from error
    received: deque[int] = deque()
    running: list[subprocess.Popen[bytes]] = []

    def pass_on() -> None:
        with suppress(IndexError):  # all are passed on, perhaps by a handler that came in between
            while running:
                running[0].send_signal(received.popleft())

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        pass_on()

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    # the thread closes stream and log: closing the stream here would wait for the thread as long as another process
    # keeps the stream open
    ending_too = _ending_with(os.getpid())
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, preexec_fn=ending_too)  # noqa: S603 - our own words
    running.append(process)
    pass_on()
    assert process.stderr is not None
    printed: list[bytes] = []
    copier = Thread(target=_copy, args=(process.stderr, log, printed), daemon=True)
    copier.start()
    ended = process.wait()
    status = ended if ended >= 0 else exit_status(-ended)
    copier.join(_END_SECONDS)
    if status and not printed:
        _tell(f"error: the run ended with exit status {status}; {path} has its output\n".encode())
    return status


def _ending_with(parent: int) -> Callable[[], None]:
    """Return a function that has the kernel send SIGTERM to the calling process once its parent has ended.

    The programs that it becomes keep that (prctl(2), PR_SET_PDEATHSIG).
    """
    prctl = ctypes.CDLL(None).prctl

    def set_up() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it has ended before
            os._exit(exit_status(signal.SIGTERM))

    return set_up


def _copy(stream: IO[bytes], log: IO[bytes], printed: list[bytes]) -> None:
    """Copy all lines to the log, and problems to standard error; close both streams at the end.

    A line that the log does not take is dropped.
    """
    with stream, log:
        for line in stream:
            try:
                log.write(line)
            except OSError as error:
                if not printed:
                    printed.append(b"")
                    _tell(f"error: Cannot write the log: {error.strerror}\n".encode())
            if _PROBLEM.match(line):
                printed.append(line)
                _tell(line)


def _tell(line: bytes) -> None:
    """Write a line to standard error; after the terminal is closed, only the log has it."""
    with suppress(OSError):
        sys.stderr.buffer.write(line)
        sys.stderr.flush()


_ERROR = 2
IN_A_CONTAINER = "acidlib-stderr"
"""Name of the file with our lines, beside the streams of a container of YARN."""
_LOG_DIRECTORIES = "LOG_DIRS"
"""Variable that YARN sets for its containers: directories, separated by commas."""


def run_file(path: str) -> None:
    """Run the job of a file in jobs/ as the driver, to the end of this process."""
    begin()
    job = next(job for job in JOBS if job.module == Path(path).stem)
    tell_starting(job.module)  # importing the job takes a second
    job.load().main()


def begin() -> None:
    """Prepare the process of a driver, so that later errors, also of imports, go to the right standard error.

    Until the job handles signals itself, an interrupt ends the process in silence: no work has begun.
    """
    restore_standard_error(os.environ)
    sys.path[:0] = [path for path in python_of_spark(os.environ) if path not in sys.path]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def restore_standard_error(environment: Mapping[str, str]) -> None:
    """Lead descriptor 2 to spark-submit's own standard error, if that can be opened. Only under spark-submit.

    Spark's PythonRunner merges the two streams of the driver, so that a line for people would stand in the middle of a
    JSON document. The process above the driver still has both streams.

    In a container of YARN the JVM writes its file without O_APPEND, and so over lines that another process appends.
    There our lines go to a file of their own, which YARN keeps with the others.
    """
    if "PYSPARK_GATEWAY_PORT" not in environment:
        return
    parent = Path("/proc", str(os.getppid()))
    with suppress(OSError):
        directory = environment.get(_LOG_DIRECTORIES, "").partition(",")[0]
        if directory and _would_be_overwritten(parent):
            stream = os.open(Path(directory, IN_A_CONTAINER), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        else:
            # appended, as the JVM writes to the same file
            stream = os.open(parent / "fd" / str(_ERROR), os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        os.dup2(stream, _ERROR)
        os.close(stream)


def _would_be_overwritten(process: Path) -> bool:
    """Return whether the standard error of a process is a file that it writes without O_APPEND."""
    if not stat.S_ISREG((process / "fd" / str(_ERROR)).stat().st_mode):
        return False
    lines = (process / "fdinfo" / str(_ERROR)).read_text().splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return not int(flags, base=8) & os.O_APPEND


def tell_starting(name: str) -> None:
    """Print a first line on a terminal: the next one takes seconds."""
    if os.isatty(_ERROR):
        print(f"starting {name} …", file=sys.stderr, flush=True)
