"""Classes as the virtual machine keeps them in memory, in a file: servers start in two thirds of the processor time.

The first server of a kind that ends in an orderly way leaves the list of its classes, of which the archive is made,
once per checkout. The class path of a server must begin with that of the archive. Where anything does not fit any more,
the virtual machine takes no notice of the archive (``-Xshare:auto``).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.jars import CACHE
from servers.java import SMALL


class ClassArchive:
    """The archive of one kind of server."""

    def __init__(self, kind: str, jars: Sequence[str], options: Sequence[str], home: Path) -> None:
        """``jars`` are the beginning of its class path; ``options`` are those of the virtual machine of ``home``."""
        self._java = str(home / "bin" / "java")
        self._jars = os.pathsep.join(jars)
        self._options = [*SMALL, *options]
        known = "\n".join([str(home), self._jars, *self._options])
        self._path = CACHE / f"{kind}-{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"

    def arguments(self, classes: Path) -> list[str]:
        """What a server is started with: the archive, or that it shall list its classes in a file."""
        if self._path.is_file():
            return [f"-XX:SharedArchiveFile={self._path}"]
        return [f"-XX:DumpLoadedClassList={classes}"]

    def make(self, classes: Path) -> None:
        """Makes the archive of what a server has listed, if it has, and nobody else does."""
        if self._path.is_file() or not classes.is_file():
            return
        with self._path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            half = self._path.with_suffix(".half")
            what = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={half}"]
            java = [self._java, *self._options, *what, "-cp", self._jars]
            # without it servers only start slower
            if subprocess.run(java, capture_output=True, check=False).returncode == 0:
                half.rename(self._path)
