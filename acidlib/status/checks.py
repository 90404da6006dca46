"""What `acidlib doctor` says: each check is a function of what was found, and gives one line and what to do."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acidlib.report.text import wrapped
from acidlib.wording import plural

OLDEST_JAVA = 17
MOST_APART_SECONDS = 5.0
"""How far the clocks of two machines may be apart before it is reported."""
_JAVA = re.compile(r'version "(?:1\.)?(\d+)')
_CORE = re.compile(r"spark-core_[\d.]+-([\w.-]+)\.jar")
_COMPILE = "`acidlib warm`, called by the owner of the installation, compiles them for all who use it"


class State(enum.Enum):
    """What a line begins with."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line: about what, how it is, what was found, and what to do where it is not as it has to be."""

    name: str
    state: State
    found: str
    advice: str = ""

    def document(self) -> dict[str, str]:
        """As JSON has it."""
        return {"name": self.name, "state": self.state.value, "found": self.found, "advice": self.advice}


def _ok(name: str, found: str) -> Check:
    return Check(name=name, state=State.OK, found=found)


def _wrong(name: str, found: str, advice: str) -> Check:
    return Check(name=name, state=State.WRONG, found=found, advice=advice)


def unchecked(name: str, reason: str) -> Check:
    """What could not be looked at, and why."""
    return Check(name=name, state=State.UNCHECKED, found=reason)


def java_check(program: str, output: str | None) -> Check:
    """Java, as Spark starts it.

    program  what is run
    output   what it says about its version; None where it cannot be run
    """
    advice = f"install a JDK {OLDEST_JAVA} or newer, and put it on the PATH or name it in JAVA_HOME"
    if output is None:
        return _wrong("Java", f"{program} cannot be run", advice)
    match = _JAVA.search(output)
    if match is None:
        return _wrong("Java", f"{program} does not tell its version", advice)
    if int(match[1]) < OLDEST_JAVA:
        return _wrong("Java", f"{program} is version {match[1]}", advice)
    return _ok("Java", f"version {match[1]} ({program})")


def python_check(executable: str, version: str, package: str) -> Check:
    """Python, and where this package lies."""
    return _ok("Python", f"version {version} ({executable}), acidlib in {package}")


def spark_check(home: str, jars: Sequence[str], client: str) -> Check:
    """Spark in its folder, and PySpark, which talks to it.

    jars    names of files in its folder jars/
    client  the version of PySpark
    """
    versions = sorted({match[1] for jar in jars if (match := _CORE.fullmatch(jar))})
    if not versions:
        return _wrong("Spark", f"{home} holds no Spark", "unset SPARK_HOME, or have it name the folder of a Spark")
    if versions != [client]:
        return _wrong(
            "Spark",
            f"{home} is version {' and '.join(versions)}, and PySpark here is {client}",
            f"install pyspark=={versions[0]} in this environment, or have SPARK_HOME name a Spark {client}",
        )
    return _ok("Spark", f"version {client} ({home})")


def kernels_check(*, compiled: bool, place: str) -> Check:
    """The compiled kernels.

    compiled  they are there for this processor, and had not to be compiled for this look
    place     where the installation has its own
    """
    if compiled:
        return _ok("kernels", "compiled for this processor")
    found = f"not compiled for this processor in {place}: each user waits a minute for them once"
    return Check(name="kernels", state=State.NOTE, found=found, advice=_COMPILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """What a task found where it ran: versions of Python (major.minor) and of this package, and compiled kernels."""

    host: str
    python: str
    package: str
    compiled: bool


def executors_check(master: str, driver: Executor, found: Sequence[Executor]) -> Check:
    """Executors against the driver."""
    hosts = ", ".join(sorted({one.host for one in found}))
    for one in found:
        if (one.python, one.package) != (driver.python, driver.package):
            return _wrong(
                "executors",
                f"{one.host} has Python {one.python} and acidlib {one.package}, the driver {driver.python} and "
                f"{driver.package}",
                "give them the environment of the driver: an archive of `acidlib pack`, or the same installation",
            )
    if slow := sorted({one.host for one in found if not one.compiled}):
        text = f"at {master}; the kernels are not compiled for the processor of {', '.join(slow)}"
        return Check(name="executors", state=State.NOTE, found=text, advice=f"{_COMPILE}, on such a machine")
    return _ok("executors", f"at {master}, looked at on {hosts}")


def failed(name: str, error: str, advice: str) -> Check:
    """What could not be reached or used at all."""
    return _wrong(name, error, advice)


def metastore_check(uris: Sequence[str], generation: int) -> Check:
    """The metastore, which answered."""
    return _ok("metastore", f"Hive {'3.1' if generation == 3 else generation} at {', '.join(uris)}")


def queue_check(shown: str, kind: str) -> Check:
    """The queue in a SQL database, which could be opened."""
    return _ok("queue", f"{kind} at {shown}" if shown else kind)


def place_check(location: str, broken: Sequence[str]) -> Check:
    """Rights at a place, and what its store has to promise.

    broken  the promises that it did not keep
    """
    if broken:
        return _wrong(
            "store",
            f"{location}: {'; '.join(broken)}",
            "tables there cannot be compacted safely: use a store that keeps its promises (docs/stores.md)",
        )
    return _ok("store", f"{location}: written, named and removed; of two who create or rename only one succeeds")


@dataclass(frozen=True, slots=True, kw_only=True)
class HivesCompactor:
    """What the metastore's settings say of Hive's own compactor; a cleaner of its own is a thing of Hive 4."""

    initiator: bool
    workers: int
    cleaner: bool

    def text(self) -> str:
        """What is on, in words."""
        parts = ["initiator" if self.initiator else "", f"{self.workers} workers" if self.workers > 0 else ""]
        return ", ".join(part for part in (*parts, "cleaner" if self.cleaner else "") if part)


def compactor_check(found: HivesCompactor) -> Check:
    """Hive's own compactor."""
    if not found.text():
        return _ok("Hive's compactor", "off, as far as the metastore's settings say")
    advice = "either turn all of it off, or share the work as docs/hive4.md and docs/hive3.md say"
    return Check(name="Hive's compactor", state=State.NOTE, found=f"on: {found.text()}", advice=advice)


def clock_check(ahead_seconds: float) -> Check:
    """This machine's clock against the metastore's; `ahead_seconds` is negative where it is behind."""
    apart = abs(ahead_seconds)
    if apart <= MOST_APART_SECONDS:
        return _ok("clock", f"within {MOST_APART_SECONDS:.0f} s of the metastore's")
    side = "ahead of" if ahead_seconds > 0 else "behind"
    return _wrong(
        "clock",
        f"{apart:,.0f} s {side} the metastore's",
        "set both by NTP: retentions and what is too old are counted by these clocks",
    )


def checks_document(checks: Sequence[Check], *, version: str) -> dict[str, Any]:
    """The document of --output json."""
    return {
        "job": "doctor",
        "version": version,
        "run_id": None,
        "checks": [check.document() for check in checks],
        "totals": {"checks": len(checks), "wrong": wrong(checks)},
    }


def wrong(checks: Sequence[Check]) -> int:
    """How many are."""
    return sum(check.state is State.WRONG for check in checks)


def checks_text(checks: Sequence[Check]) -> str:
    """Each with what to do below it."""
    width = max(len(check.name) for check in checks)
    lines, below = [], " " * (width + 13)
    for check in checks:
        lines += wrapped(check.found or "-", f"{check.state.value:<9}  {check.name:<{width}}  ", below)
        lines += wrapped(check.advice, f"{below}-> ", f"{below}   ")
    return "\n".join([*lines, "", f"{plural(len(checks), 'check')}, {wrong(checks)} wrong"])
