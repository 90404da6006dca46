"""A JVM that answers requests line by line: with pyspark's jars, or with those of a Hive release.

The classes in ``java`` (or ``java_hive``) are compiled once into the cache folder of the checkout.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

HERE = Path(__file__).parent
PYSPARK = str(Path(pyspark.__file__).parent / "jars" / "*")
TIMEOUT = 300.0
CACHE = Path(__file__).parents[2] / ".cache" / "java-judges"


class JudgeError(Exception):
    """Java failed on the file, or the JVM is gone."""


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / name) if home else name


def _classes(jars: str, folder_of_sources: str) -> Path:
    """The folder of compiled classes, made if it is not there; named after sources and jars, so never stale."""
    sources = sorted((HERE / folder_of_sources).glob("*.java"))
    texts = b"".join(source.read_bytes() for source in sources)
    folder = CACHE / hashlib.sha256(texts + jars.encode()).hexdigest()[:16]
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=CACHE))
        subprocess.run([_tool("javac"), "-nowarn", "-cp", jars, "-d", str(fresh), *map(str, sources)], check=True)
        try:
            fresh.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    return folder


class JavaProcess:
    """The JVM of one main class, which ends with this process; every call raises JudgeError if Java cannot answer."""

    def __init__(
        self,
        main: str,
        *,
        sources: str = "java",
        jars: Sequence[str] = (PYSPARK,),
        options: Sequence[str] = (),
    ) -> None:
        """``sources`` is the folder of ``main`` beside this file, ``jars`` its class path in its order."""
        path = os.pathsep.join(jars)
        classes = _classes(path, sources)
        options = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", *options]
        # released jars are not verified, and nothing is collected for more classes
        options += ["-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", "-XX:MetaspaceSize=256m"]
        options += ["-Dfile.encoding=UTF-8", "-Dorg.apache.logging.log4j.level=OFF"]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the JVM
        self._process = subprocess.Popen(
            [_tool("java"), *options, "-cp", f"{classes}{os.pathsep}{path}", main],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._buffer = b""
        atexit.register(self.close)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def _line(self, deadline: float) -> str:
        stream = self._process.stdout
        assert stream is not None
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(stream.fileno(), 1 << 20) if ready else b""
            if not chunk:
                self._errors.seek(0)
                raise JudgeError(f"no answer from Java: {self._errors.read()[-2000:].decode(errors='replace')}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def _lines(self, count: int, deadline: float) -> list[str]:
        """Many lines at once: splitting the buffer line by line would be quadratic."""
        found: list[bytes] = []
        parts = [self._buffer]
        have = self._buffer.count(b"\n")
        stream = self._process.stdout
        assert stream is not None
        while have < count:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(stream.fileno(), 1 << 20) if ready else b""
            if not chunk:
                raise JudgeError("Java ended in the middle of an answer")
            parts.append(chunk)
            have += chunk.count(b"\n")
        found = b"".join(parts).split(b"\n", count)
        self._buffer = found.pop()
        return [line.decode() for line in found]

    def ask(self, *fields: str) -> list[str]:
        """One request; the lines of its answer."""
        deadline = time.monotonic() + TIMEOUT
        if any(c in field for field in fields for c in "\t\n"):
            raise ValueError(f"a tab or newline in {fields}")
        assert self._process.stdin is not None
        self._process.stdin.write(("\t".join(fields) + "\n").encode())
        self._process.stdin.flush()
        status, _, rest = self._line(deadline).partition("\t")
        if status != "OK":
            raise JudgeError(f"Java cannot answer {fields}: {rest}")
        return self._lines(int(rest), deadline)
