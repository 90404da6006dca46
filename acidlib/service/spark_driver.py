"""What is said to Spark, on a command line and in its file of properties, and the JVM that a driver starts with that.

A driver on this machine is a Python process that starts Spark's JVM itself. Python decides what becomes of a run that
is to stop, and needs the JVM until all is given back. So the JVM is in a session of its own, where no terminal reaches
it, and ignores what a service manager sends to all processes. Its standard input is a pipe from Python: it ends with
that, however Python ends. Nothing of PySpark is loaded here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from threading import Thread
from typing import IO

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.options import KerberosLogin
from acidlib.service.stopping import SIGNALS, STOPPING

MASTER, DEPLOY_MODE, ARCHIVES, PROPERTIES_FILE = "--master", "--deploy-mode", "--archives", "--properties-file"
PYTHON, DRIVER_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"
ENVIRONMENT = "environment"
"""What the archive of `acidlib pack` is called where it is unpacked."""
QUEUE, YARN_QUEUE = "--queue", "spark.yarn.queue"
PRINCIPAL, KEYTAB = "--principal", "--keytab"
SUBMIT_ARGS, SHELL = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
"""A variable with the options of spark-submit for a JVM that the run itself starts, and the word behind them there."""
HADOOP = "spark.hadoop."
_CONF = ("--conf", "-c")
# both as org.apache.spark.launcher.SparkSubmitOptionParser has them; an option that is neither has a value behind it
_SWITCHES = frozenset(
    ("--supervise", "--verbose", "-v", "--usage-error", "--help", "-h", "--version", "--load-spark-defaults")
)
_WITH_A_VALUE = frozenset(
    re.findall(
        r"\S+",
        "-c --archives --class --conf --deploy-mode --driver-class-path --driver-cores --driver-default-class-path "
        "--driver-java-options --driver-library-path --driver-memory --exclude-packages --executor-cores "
        "--executor-memory --extra-properties-file --files --jars --keytab --kill --master --name --num-executors "
        "--packages --principal --properties-file --proxy-user --py-files --queue --remote --repositories --status "
        "--total-executor-cores",
    )
)
OPTIONS = tuple(sorted((_SWITCHES | _WITH_A_VALUE) - {"--usage-error"}))
"""Those of spark-submit, of all its versions that are known here."""
ARCHIVE_PROPERTIES = ("spark.archives", "spark.yarn.dist.archives")
_NAMED = {
    MASTER: "spark.master",
    DEPLOY_MODE: "spark.submit.deployMode",
    ARCHIVES: ARCHIVE_PROPERTIES[0],
    QUEUE: YARN_QUEUE,
    PRINCIPAL: "spark.kerberos.principal",
    KEYTAB: "spark.kerberos.keytab",
}
"""Options, and the properties that they say; they win over these."""


def split_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options of spark-submit, and what stands behind them, from the first word on that is none."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        word = words[position]
        position += 1 if word in _SWITCHES or "=" in word else 2
    return tuple(words[:position]), tuple(words[position:])


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What is said to Spark, on a command line and in a file of properties; the command line wins."""

    words: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def given(self) -> tuple[tuple[str, str], ...]:
        """The options with their values, in their order."""
        found = []
        words = iter(self.words)
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name.startswith("--"):
                found.append((name, value))
            else:
                found.append((word, "" if word in _SWITCHES else next(words, "")))
        return tuple(found)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those that no version of spark-submit has, as far as is known here."""
        return tuple(option for option, _ in self.given if option not in _SWITCHES | _WITH_A_VALUE)

    @property
    def stated(self) -> dict[str, str]:
        """All properties by their names."""
        pairs = (text.partition("=") for option, text in self.given if option in _CONF)
        options = {_NAMED[option]: text for option, text in self.given if option in _NAMED}
        return {**self.properties, **{key.strip(): value for key, _, value in pairs}, **options}

    @property
    def hadoop(self) -> dict[str, str]:
        """The properties of Hadoop among them (`spark.hadoop.*`), without the prefix."""
        return {name.removeprefix(HADOOP): text for name, text in self.stated.items() if name.startswith(HADOOP)}

    @property
    def login(self) -> KerberosLogin:
        """The principal and keytab that log in where Kerberos is asked for; without them, the ticket of the user."""
        principal = self.property(_NAMED[PRINCIPAL]) or self.property("spark.yarn.principal")  # its older name
        keytab = self.property(_NAMED[KEYTAB]) or self.property("spark.yarn.keytab")
        return KerberosLogin(principal=principal or None, keytab=keytab or None)

    @property
    def master(self) -> str:
        """Where executors are; Spark's own machine, if nothing is said."""
        return self.property(_NAMED[MASTER]) or "local[*]"

    @property
    def is_local(self) -> bool:
        """Executors are threads of the driver."""
        return self.master.startswith("local")

    @property
    def driver_is_placed(self) -> bool:
        """Spark chooses the machine of the driver (`--deploy-mode cluster`)."""
        return self.property(_NAMED[DEPLOY_MODE]) == "cluster"

    @property
    def archives(self) -> tuple[str, ...]:
        """What is unpacked where executors start."""
        found = [self.property(name) for name in ARCHIVE_PROPERTIES]
        return tuple(part for text in found for part in re.split(r"\s*,\s*", text.strip()) if part)

    @property
    def has_environment(self) -> bool:
        """One of the archives is a Python environment, by its name."""
        return any(archive.rpartition("#")[2] == ENVIRONMENT for archive in self.archives if "#" in archive)

    def property(self, name: str) -> str:
        """Return a property of Spark by its name alone; empty where it is not given."""
        return self.stated.get(name, "")


def spark_options(words: Sequence[str], environment: Mapping[str, str]) -> SparkOptions:
    """Return what is said to Spark in these words, and in the file of properties that spark-submit reads with them."""
    given = SparkOptions(tuple(words))
    conf_dir = environment.get("SPARK_CONF_DIR") or str(spark_home(environment) / "conf")
    named = dict(given.given).get(PROPERTIES_FILE)
    path = Path(named) if named else Path(conf_dir, "spark-defaults.conf")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""  # spark-submit says so, where one was named
    except OSError as error:
        raise RetryError(f"Cannot read {path}: the operating system said: {error.strerror}") from error
    return SparkOptions(tuple(words), read_properties(text))


def stated_to_spark(environment: Mapping[str, str]) -> SparkOptions:
    """Return what is said to Spark where spark-submit does not run the driver; starts no JVM."""
    words = shlex.split(environment.get(SUBMIT_ARGS, ""))
    return spark_options(split_words(words)[0], environment)


def read_properties(text: str) -> dict[str, str]:
    """Return a file as spark-defaults.conf is: in each line a name, white space, `=` or `:`, and a value."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = re.sub(r"\s*[\s=:]\s*", "\0", line, count=1).partition("\0")
            found[name] = value
    return found


def spark_home(environment: Mapping[str, str]) -> Path:
    """Return `SPARK_HOME`, or the Spark that pip installed. RefusedError where there is neither."""
    if named := environment.get("SPARK_HOME"):
        return Path(named)
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise RefusedError(
            f"Cannot start Spark: {sys.executable} has no pyspark, and SPARK_HOME names no other Spark; "
            "install pyspark or set SPARK_HOME"
        )
    return Path(found.origin).parent


def python_of_spark(environment: Mapping[str, str]) -> list[str]:
    """Return where PySpark lies in the Spark that `SPARK_HOME` names; nothing where that is the one found anyway.

    The two halves of PySpark are of one release: spark-submit sees to that for the drivers that it starts.
    """
    named = environment.get("SPARK_HOME")
    found = importlib.util.find_spec("pyspark")
    own = None if found is None or found.origin is None else Path(found.origin).parent.resolve()
    if not named or own == Path(named).resolve():
        return []
    return sorted(map(str, Path(named, "python", "lib").glob("py*.zip")))


_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""By this variable Spark's PythonGatewayServer is told where to write its port and its secret."""
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

        def ignore_signals() -> None:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)

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
                preexec_fn=ignore_signals,
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
            # two numbers of four bytes, the second the length of the secret behind them
            port, length = struct.unpack_from("!ii", data := told.read_bytes())
            return port, data[8 : 8 + length].decode()

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


def _copy(stream: IO[bytes]) -> None:
    """Pass on what it says, but for what it always says, and what it says of tasks that a stopped run has ended."""
    for line in stream:
        if STOPPING.by is None and not _NO_NEWS.match(line):
            with suppress(OSError):
                os.write(2, line)
