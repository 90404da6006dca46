"""What is said to Spark: the options of spark-submit, and the file of properties that it reads with them."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from acidlib.errors import RefusedError, RetryError

MASTER, DEPLOY_MODE, ARCHIVES, PROPERTIES_FILE = "--master", "--deploy-mode", "--archives", "--properties-file"
PYTHON, DRIVER_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"
ENVIRONMENT = "environment"
"""What the archive of `acidlib pack` is called where it is unpacked."""
QUEUE, YARN_QUEUE = "--queue", "spark.yarn.queue"
PRINCIPAL, KEYTAB = "--principal", "--keytab"
SUBMIT_ARGS, SHELL = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
"""A variable with the options of spark-submit for a JVM that the run itself starts, and the word behind them there."""
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
_ARCHIVES = ("spark.archives", "spark.yarn.dist.archives")
_NAMED = {
    MASTER: "spark.master",
    DEPLOY_MODE: "spark.submit.deployMode",
    ARCHIVES: _ARCHIVES[0],
    QUEUE: YARN_QUEUE,
    PRINCIPAL: "spark.kerberos.principal",
    KEYTAB: "spark.kerberos.keytab",
}
"""Options, and the properties that they say; they win over these."""
_LOCAL = "local[*]"


def split_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of spark-submit, and what stands behind them, from the first word on that is none."""
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
    def master(self) -> str:
        """Where executors are; Spark's own machine, if nothing is said."""
        return self.property(_NAMED[MASTER]) or _LOCAL

    @property
    def is_local(self) -> bool:
        """Whether executors are threads of the driver."""
        return self.master.startswith("local")

    @property
    def driver_is_placed(self) -> bool:
        """Whether Spark chooses the machine of the driver (`--deploy-mode cluster`)."""
        return self.property(_NAMED[DEPLOY_MODE]) == "cluster"

    @property
    def leaves_queue_to_yarn(self) -> bool:
        """Whether YARN starts the driver, in a queue that nobody names here."""
        on_yarn = self.master.startswith("yarn") and self.driver_is_placed
        return on_yarn and not self.property(YARN_QUEUE)

    @property
    def principal(self) -> str:
        """Who logs in where Kerberos is asked for; empty: whoever has a ticket."""
        return self.property(_NAMED[PRINCIPAL]) or self.property("spark.yarn.principal")

    @property
    def keytab(self) -> str:
        """The file with the keys of that principal; empty: it has a ticket."""
        return self.property(_NAMED[KEYTAB]) or self.property("spark.yarn.keytab")

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those that no version of spark-submit has, as far as is known here."""
        return tuple(option for option, _ in self._given() if option not in _SWITCHES | _WITH_A_VALUE)

    @property
    def is_login_alone(self) -> bool:
        """Whether nothing is said but who logs in."""
        return all(option in (PRINCIPAL, KEYTAB) for option, _ in self._given())

    @property
    def archives(self) -> tuple[str, ...]:
        """What is unpacked where executors start."""
        found = [self.property(name) for name in _ARCHIVES]
        return tuple(part for text in found for part in re.split(r"\s*,\s*", text.strip()) if part)

    @property
    def has_environment(self) -> bool:
        """Whether one of them is a Python environment, by its name."""
        return any(archive.rpartition("#")[2] == ENVIRONMENT for archive in self.archives if "#" in archive)

    @property
    def stated(self) -> dict[str, str]:
        """All properties by their names."""
        pairs = (text.partition("=") for option, text in self._given() if option in _CONF)
        options = {_NAMED[option]: text for option, text in self._given() if option in _NAMED}
        return {**self.properties, **{key.strip(): value for key, _, value in pairs}, **options}

    def property(self, name: str) -> str:
        """A property of Spark by its name alone; empty where it is not given."""
        return self.stated.get(name, "")

    def properties_below(self, prefix: str) -> dict[str, str]:
        """The properties whose names begin with a prefix, without it."""
        return {name.removeprefix(prefix): value for name, value in self.stated.items() if name.startswith(prefix)}

    def option(self, name: str) -> str:
        """The value of an option; empty where it is not given. Of several the last one counts."""
        return next((text for option, text in reversed(list(self._given())) if option == name), "")

    def _given(self) -> Iterator[tuple[str, str]]:
        words = iter(self.words)
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name.startswith("--"):
                yield name, value
            elif word in _SWITCHES:
                yield word, ""
            else:
                yield word, next(words, "")


def read_properties(text: str) -> dict[str, str]:
    """A file as spark-defaults.conf is: a name and a value in each line, with white space, `=` or `:` between."""
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


def spark_options(words: Sequence[str], environment: Mapping[str, str]) -> SparkOptions:
    """Return what is said to Spark in these words, and in the file of properties that spark-submit reads with them."""
    given = SparkOptions(tuple(words))
    conf_dir = environment.get("SPARK_CONF_DIR") or str(spark_home(environment) / "conf")
    named = given.option(PROPERTIES_FILE)
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
