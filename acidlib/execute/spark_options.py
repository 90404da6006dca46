"""The options of Spark, from a command line and its file of properties. Nothing of PySpark is loaded here."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from acidlib.config.files import read_bytes
from acidlib.errors import RefusedError
from acidlib.masking import is_secret, masked
from acidlib.metastore.options import KerberosLogin
from acidlib.processes import user_name

MASTER, DEPLOY_MODE, ARCHIVES, PROPERTIES_FILE = "--master", "--deploy-mode", "--archives", "--properties-file"
PYTHON, DRIVER_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"
ENVIRONMENT = "environment"
"""The name of the archive of `acidlib pack` where it is unpacked."""
QUEUE, YARN_QUEUE = "--queue", "spark.yarn.queue"
PRINCIPAL, KEYTAB = "--principal", "--keytab"
SUBMIT_ARGS, SHELL = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
"""A variable with the options of spark-submit for a JVM that the run itself starts, and the last word in it."""
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
"""The options of spark-submit in all versions that are known here."""
ARCHIVE_PROPERTIES = ("spark.archives", "spark.yarn.dist.archives")
_NAMED = {
    MASTER: "spark.master",
    DEPLOY_MODE: "spark.submit.deployMode",
    ARCHIVES: ARCHIVE_PROPERTIES[0],
    QUEUE: YARN_QUEUE,
    PRINCIPAL: "spark.kerberos.principal",
    KEYTAB: "spark.kerberos.keytab",
}
"""The properties that options set; an option wins over --conf."""


def split_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options of spark-submit, and the words behind them, from the first one on that is no option."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        word = words[position]
        position += 1 if word in _SWITCHES or "=" in word else 2
    return tuple(words[:position]), tuple(words[position:])


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options of Spark on a command line and in a file of properties; the command line wins. Never printed."""

    words: tuple[str, ...] = field(repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """The options with their values, in their order."""
        options = []
        words = iter(self.words)
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name.startswith("--"):
                options.append((name, value))
            else:
                options.append((word, "" if word in _SWITCHES else next(words, "")))
        return tuple(options)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The options that no known version of spark-submit has."""
        return tuple(option for option, _ in self.options if option not in _SWITCHES | _WITH_A_VALUE)

    @property
    def all_properties(self) -> dict[str, str]:
        """All properties by their names."""
        pairs = (text.partition("=") for option, text in self.options if option in _CONF)
        options = {_NAMED[option]: text for option, text in self.options if option in _NAMED}
        return {**self.properties, **{key.strip(): value for key, _, value in pairs}, **options}

    @property
    def hadoop(self) -> dict[str, str]:
        """The properties of Hadoop among them (`spark.hadoop.*`), without the prefix."""
        return {
            name.removeprefix(HADOOP): text for name, text in self.all_properties.items() if name.startswith(HADOOP)
        }

    @property
    def login(self) -> KerberosLogin:
        """The principal and keytab for Kerberos; without them, the ticket of the user."""
        principal = self.property(_NAMED[PRINCIPAL]) or self.property("spark.yarn.principal")  # its older name
        keytab = self.property(_NAMED[KEYTAB]) or self.property("spark.yarn.keytab")
        return KerberosLogin(principal=principal or None, keytab=keytab or None)

    @property
    def master(self) -> str:
        """The master of the executors; this machine, if none is stated."""
        return self.property(_NAMED[MASTER]) or "local[*]"

    @property
    def is_local(self) -> bool:
        """Whether executors are threads of the driver."""
        return self.master.startswith("local")

    @property
    def driver_is_placed(self) -> bool:
        """Whether Spark chooses the machine of the driver (`--deploy-mode cluster`)."""
        return self.property(_NAMED[DEPLOY_MODE]) == "cluster"

    @property
    def archives(self) -> tuple[str, ...]:
        """The archives that are unpacked where executors start."""
        texts = [self.property(name).strip() for name in ARCHIVE_PROPERTIES]
        return tuple(archive for text in texts for archive in re.split(r"\s*,\s*", text) if archive)

    @property
    def has_environment(self) -> bool:
        """Whether one of the archives is a Python environment, by its name."""
        return any(archive.rpartition("#")[2] == ENVIRONMENT for archive in self.archives if "#" in archive)

    def property(self, name: str) -> str:
        """Return a property of Spark; empty if it is not stated."""
        return self.all_properties.get(name, "")


def spark_options(words: Sequence[str], environment: Mapping[str, str]) -> SparkOptions:
    """Return the options in these words, and in the file of properties that spark-submit reads with them."""
    options = SparkOptions(tuple(words))
    data = (
        read_bytes(_properties_file(options, environment)) or b""
    )  # spark-submit reports a missing file that is named
    return replace(options, properties=read_properties(data.decode(errors="replace")))


def _properties_file(spark: SparkOptions, environment: Mapping[str, str]) -> Path:
    if named := dict(spark.options).get(PROPERTIES_FILE):
        return Path(named)
    return Path(environment.get("SPARK_CONF_DIR") or spark_home(environment) / "conf", "spark-defaults.conf")


def without_secrets(words: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], tuple[int, ...]]:
    """Return words for spark-submit that every user may see, and the descriptors that its process has to inherit.

    `ps` shows the words of a process to all users. Properties with secrets are moved from `--conf` into a file in
    memory, with the properties of the file that spark-submit would read; it goes with the last process that has it.
    Without such properties the words stay as they are.
    """
    options, behind = split_words(words)
    spark = SparkOptions(options)
    secrets = [text for name, text in spark.options if name in _CONF and _has_secret(text)]
    if not secrets:
        return list(words), ()
    data = read_bytes(_properties_file(spark, environment)) or b""
    lines = [_property_line(*text.split("=", 1)) for text in secrets]
    file = os.memfd_create("acidlib-properties", 0)  # inherited
    with os.fdopen(os.dup(file), "wb") as stream:
        stream.write(b"\n".join([data, b"", *map(str.encode, lines), b""]))
    shown: list[str] = []
    for name, text in spark.options:
        if name != PROPERTIES_FILE and not (name in _CONF and text in secrets):
            shown += [name] if name in _SWITCHES else [name, text]
    return [*shown, PROPERTIES_FILE, f"/proc/self/fd/{file}", *behind], (file,)


def _has_secret(assignment: str) -> bool:
    name, _, value = assignment.partition("=")
    return bool(value) and (is_secret(name.strip()) or masked(value) != value)


def _property_line(name: str, value: str) -> str:
    """Return a line of a file of Java's Properties."""
    return "=".join(text.translate(_ESCAPES) for text in (name.strip(), value))


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", " ": "\\ ", "=": "\\=", ":": "\\:"})
"""Source: Java's `Properties.load`."""


def stated_spark_options(environment: Mapping[str, str]) -> SparkOptions:
    """Return the options for a driver that spark-submit does not run; start no JVM."""
    words = shlex.split(environment.get(SUBMIT_ARGS, ""))
    return spark_options(split_words(words)[0], environment)


def read_properties(text: str) -> dict[str, str]:
    """Return the properties in the text of spark-defaults.conf: lines of name, white space, `=` or `:`, value."""
    properties = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = re.sub(r"\s*[\s=:]\s*", "\0", line, count=1).partition("\0")
            properties[name] = value
    return properties


def spark_home(environment: Mapping[str, str]) -> Path:
    """Return `SPARK_HOME`, or the Spark that pip installed; RefusedError if there is neither."""
    if named := environment.get("SPARK_HOME"):
        return Path(named)
    installed = _installed_pyspark()
    if installed is None:
        raise RefusedError(
            f"Cannot start Spark: {sys.executable} has no pyspark, and SPARK_HOME names no other Spark; "
            "install pyspark or set SPARK_HOME"
        )
    return installed


def python_of_spark(environment: Mapping[str, str]) -> list[str]:
    """Return the paths of PySpark in the Spark of `SPARK_HOME`; none if that is the installed one anyway.

    Python and Java have to be of one release of Spark: spark-submit sees to that for the drivers that it starts.
    """
    named, installed = environment.get("SPARK_HOME"), _installed_pyspark()
    if not named or (installed is not None and installed.resolve() == Path(named).resolve()):
        return []
    return sorted(map(str, Path(named, "python", "lib").glob("py*.zip")))


def _installed_pyspark() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def variables_without_a_name(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which Spark starts for a user without a name, as in some containers; none for others.

    Java has the home directory `?` for such a user, which Spark's Ivy refuses, and Hadoop's login has no name for it.
    """
    with suppress(KeyError):
        pwd.getpwuid(os.getuid())
        return {}
    home = environment.get("HOME") or tempfile.gettempdir()
    options = f"{shlex.quote(f'-Duser.home={home}')} {environment.get(_SUBMIT_OPTS, '')}".rstrip()
    return {"SPARK_USER": environment.get("SPARK_USER") or user_name(), _SUBMIT_OPTS: options}


_SUBMIT_OPTS = "SPARK_SUBMIT_OPTS"
