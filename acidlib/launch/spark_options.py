"""The options of spark-submit that decide how a job is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MASTER, DEPLOY_MODE, ARCHIVES, PROPERTIES_FILE = "--master", "--deploy-mode", "--archives", "--properties-file"
PYTHON, DRIVER_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"
ENVIRONMENT = "environment"
"""What the archive of `acidlib pack` is called where it is unpacked."""
QUEUE, YARN_QUEUE = "--queue", "spark.yarn.queue"
PRINCIPAL, KEYTAB = "--principal", "--keytab"
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
        return self._value(MASTER, "spark.master") or _LOCAL

    @property
    def is_local(self) -> bool:
        """Whether executors are threads of the driver."""
        return self.master.startswith("local")

    @property
    def driver_is_placed(self) -> bool:
        """Whether Spark chooses the machine of the driver (`--deploy-mode cluster`)."""
        return self._value(DEPLOY_MODE, "spark.submit.deployMode") == "cluster"

    @property
    def leaves_queue_to_yarn(self) -> bool:
        """Whether YARN starts the driver, in a queue that nobody names here."""
        on_yarn = self.master.startswith("yarn") and self.driver_is_placed
        return on_yarn and not self._value(QUEUE, YARN_QUEUE)

    @property
    def principal(self) -> str:
        """Who logs in where Kerberos is asked for; empty: whoever has a ticket."""
        return self._value(PRINCIPAL, "spark.kerberos.principal") or self.property("spark.yarn.principal")

    @property
    def keytab(self) -> str:
        """The file with the keys of that principal; empty: it has a ticket."""
        return self._value(KEYTAB, "spark.kerberos.keytab") or self.property("spark.yarn.keytab")

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
        found = [self._value(ARCHIVES, _ARCHIVES[0]), *(self.property(name) for name in _ARCHIVES[1:])]
        return tuple(part for text in found for part in re.split(r"\s*,\s*", text.strip()) if part)

    @property
    def has_environment(self) -> bool:
        """Whether one of them is a Python environment, by its name."""
        return any(archive.rpartition("#")[2] == ENVIRONMENT for archive in self.archives if "#" in archive)

    def property(self, name: str) -> str:
        """A property of Spark by its name alone; empty where it is not given."""
        given = [text for option, text in self._given() if option in _CONF]
        pairs = (text.partition("=") for text in given)
        stated = {key.strip(): value for key, _, value in pairs}
        return stated.get(name, self.properties.get(name, ""))

    def properties_below(self, prefix: str) -> dict[str, str]:
        """The properties whose names begin with a prefix, without it."""
        given = (text.partition("=") for option, text in self._given() if option in _CONF)
        stated = {**self.properties, **{name.strip(): value for name, _, value in given}}
        return {name.removeprefix(prefix): value for name, value in stated.items() if name.startswith(prefix)}

    def option(self, name: str) -> str:
        """The value of an option; empty where it is not given. Of several the last one counts."""
        return next((text for option, text in reversed(list(self._given())) if option == name), "")

    def _value(self, option: str, name: str) -> str:
        return self.option(option) or self.property(name)

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
