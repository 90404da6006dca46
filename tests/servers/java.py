"""The JDK that runs the servers, and the options all of them get."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.errors import ServerError

OLDEST_JAVA = 17
# start fast and stay small: no optimising compiler, one collecting thread, released jars are not verified;
# and collect seldom: not for more classes, and of young objects half of the heap at a time;
# and start a command without a helper program before it
SMALL = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-XX:MetaspaceSize=256m",
    "-XX:NewRatio=1",
    "-Djdk.lang.Process.launchMechanism=VFORK",
    "-Dfile.encoding=UTF-8",
)


@functools.cache
def java_home() -> Path:
    """The JDK of JAVA_HOME, else that of the java on the PATH. Raises ServerError when neither is 17 or newer."""
    found = []
    for java in _candidates():
        version = _version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java.resolve().parents[1]
        found.append(f"{java} is {f'Java {version}' if version is not None else 'no Java'}")
    reason = " and ".join(found) if found else "JAVA_HOME is not set and no java is on the PATH"
    raise ServerError(f"Cannot run Hive: a JDK {OLDEST_JAVA} or newer is needed, and {reason}")


@functools.cache
def java_home_of(oldest: int) -> Path | None:
    """A JDK of this version or newer: of JAVA_HOME or a variable such as JAVA24_HOME, else the oldest that fits of
    /usr/lib/jvm; None without one.
    """
    named = [Path(home) for name, home in sorted(os.environ.items()) if re.fullmatch(r"JAVA_?\d*_?HOME", name)]
    installed = sorted(Path("/usr/lib/jvm").glob("*"), key=_released)
    return next((home for home in (*named, *installed) if _released(home) >= oldest), None)


def java_command(
    *, heap: str, options: Sequence[str], class_path: Sequence[str], arguments: Path, home: Path | None = None
) -> list[str]:
    """The command line up to the main class. The class path goes into the file ``arguments``, as it is long."""
    path = os.pathsep.join(class_path).replace("\\", "\\\\").replace('"', '\\"')
    arguments.write_text(f'-cp "{path}"\n')
    java = (home or java_home()) / "bin" / "java"
    return [str(java), f"-Xms{heap}", f"-Xmx{heap}", *SMALL, *options, f"@{arguments}"]


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    return [*([Path(home, "bin", "java")] if home else []), *([Path(on_path)] if on_path else [])]


def _version(java: Path) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def _released(home: Path) -> int:
    """The version that a JDK tells in its file ``release``; 0 when this is none."""
    try:
        found = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
