"""Maven, for what it brings from its repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.errors import ServerError
from servers.java import java_home

_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""It ends before a better compiler pays."""


def run_maven(what: str, arguments: Sequence[str], *, directory: Path) -> None:
    """Runs it there, to bring ``what``. Raises ServerError with its first error, or when Maven is missing."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerError(f"Cannot bring {what}: Maven is needed, and there is no mvn on the PATH")
    options = f"{_SMALL} {os.environ.get('MAVEN_OPTS', '')}"
    ran = subprocess.run(
        [maven, "-q", "-B", *arguments],
        env={**os.environ, "JAVA_HOME": str(java_home()), "MAVEN_OPTS": options},
        capture_output=True,
        text=True,
        cwd=directory,
    )
    if ran.returncode:
        lines = [line for line in (ran.stdout + ran.stderr).splitlines() if "ERROR" in line]
        reason = lines[0].partition("ERROR] ")[2] if lines else f"mvn ended with status {ran.returncode}"
        raise ServerError(f"Cannot bring {what}: {reason}")
