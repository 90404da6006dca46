"""The jars of Hive (with the scripts of its schema), of connectors and of HDFS, brought by Maven once per checkout.

``pom.xml`` in a folder named after the release says what is brought. The result lies in ``.servers/<name>`` with the
hash of the pom it came from; a changed pom brings it anew. Tests that start at once wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from servers.errors import ServerError
from servers.java import OLDEST_JAVA, java_home, java_home_of
from servers.maven import run_maven

CACHE = Path(__file__).parents[2] / ".servers"
STAMP = ".pom-hash"
_OF_LATER = "hive4_later"
_OF_LONG_RUNS = ("ozone_client", "abfs_driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What goes with a release of Hive that has no pom of its own.

    hadoop  an older one does not run on Java 24
    java    the oldest that it runs on
    """

    hadoop: str
    java: int


LATER = {"4.1.0": Later(hadoop="3.4.1", java=OLDEST_JAVA), "4.2.0": Later(hadoop="3.5.0", java=21)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What Maven brought of one Hive release."""

    jars: tuple[str, ...]
    schema: Path
    """The script that makes the metastore's tables in PostgreSQL."""
    changes: tuple[Path, ...] = ()
    """What is run after it, in this order."""


def release_of(version: str) -> Release:
    """The release of Hive with this number. Raises ServerError when Maven is missing or fails."""
    if version not in LATER:
        return hive_release(f"hive{version[0]}")
    scripts = sorted((Path(__file__).parent / _OF_LATER).glob("changes-*.sql"))
    return replace(
        hive_release(_OF_LATER, version),
        changes=tuple(script for script in scripts if script.stem.removeprefix("changes-") <= version),
    )


def hive_release(name: str, version: str | None = None) -> Release:
    """The release of ``<name>/pom.xml``. Raises ServerError when Maven is missing or fails."""
    place = brought(name, version)
    found = sorted((place / "lib").glob("*.jar"), key=_rank)
    jars = tuple(str(jar) for jar in found)
    schemas = list((place / "schema").rglob("hive-schema-*.postgres.sql"))
    if not jars or len(schemas) != 1:
        raise ServerError(f"Cannot use {place}: it holds {len(jars)} jars and {len(schemas)} schema scripts")
    return Release(jars=jars, schema=schemas[0])


def brought(name: str, version: str | None = None) -> Path:
    """The folder with what ``<name>/pom.xml`` names; its jars are in ``lib``. Raises ServerError as above.

    ``version`` is for a pom that is of several releases, of Hive or of Hadoop; each has a folder of its own.
    """
    pom = Path(__file__).with_name(name) / "pom.xml"
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    folder = name if version is None else f"{name}-{version}"
    place = CACHE / folder
    CACHE.mkdir(exist_ok=True)
    with locked(CACHE / f"{folder}.lock"):
        stamp = place / STAMP
        if not stamp.is_file() or stamp.read_text() != wanted:
            shutil.rmtree(place, ignore_errors=True)
            _bring(folder, pom, place, version)
            stamp.write_text(wanted)
    return place


def java_for(version: str) -> Path | None:
    """A JDK for this release of Hive; None without one. Raises ServerError where there is none for any."""
    oldest = LATER[version].java if version in LATER else OLDEST_JAVA
    return java_home() if oldest == OLDEST_JAVA else java_home_of(oldest)


def newest_of_later() -> str:
    """The newest of LATER, or the one before where there is no JDK for it; asks for no Java but that."""
    *_, before, newest = LATER
    return newest if java_for(newest) is not None else before


def bring_all() -> None:
    """What the servers of a usual run need. Raises ServerError."""
    for pom in sorted(Path(__file__).parent.glob("*/pom.xml")):
        if pom.parent.name in _OF_LONG_RUNS:
            continue
        brought(pom.parent.name, newest_of_later() if pom.parent.name == _OF_LATER else None)


def compiled(source: Path, jars: Sequence[str], home: Path | None = None) -> Path:
    """A jar with the classes of one Java source, compiled once per checkout, for Java 17. Raises ServerError.

    ``home`` is the JDK that compiles, where the jars are for a newer one.
    """
    jar = CACHE / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.jar"
    with locked(CACHE / f"{source.stem}.lock"):
        if not jar.is_file():
            with tempfile.TemporaryDirectory(dir=CACHE) as work:
                classes, half = Path(work, "classes"), Path(work, jar.name)
                javac = str((home or java_home()) / "bin" / "javac")
                command = [
                    javac,
                    "-nowarn",
                    "--release",
                    "17",
                    "-cp",
                    os.pathsep.join(jars),
                    "-d",
                    str(classes),
                    str(source),
                ]
                ran = subprocess.run(command, capture_output=True, text=True)
                if ran.returncode:
                    raise ServerError(f"Cannot compile {source}: {ran.stderr.strip()[:300]}")
                with zipfile.ZipFile(half, "w") as packed:
                    for path in sorted(classes.rglob("*.class")):
                        packed.write(path, path.relative_to(classes))
                half.rename(jar)
    return jar


def _bring(name: str, pom: Path, place: Path, version: str | None) -> None:
    arguments = ["-f", str(pom), f"-Dplace={place}", "process-resources"]
    if version in LATER:
        arguments += [f"-Dhive.version={version}", f"-Dhadoop.version={LATER[version].hadoop}"]
    elif version is not None:
        arguments += [f"-Dhadoop.version={version}"]
    run_maven(f"the jars of {name}", arguments, directory=CACHE)


def _rank(jar: Path) -> tuple[int, str]:
    """Always the same order, as several jars hold the same classes.

    hive-exec brings the right ones, but for the Guava of Hive 3.1 that is too old for Hadoop.
    """
    first = ("guava-", "hive-exec-")
    return next((place for place, name in enumerate(first) if jar.name.startswith(name)), len(first)), jar.name


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
