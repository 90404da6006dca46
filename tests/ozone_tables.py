"""Tables copied to Ozone and back, by requests to its HttpFS that are not the engine's."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from servers.ozone import USER, Ozone

from acidlib.location import Location, parse_location


def uploaded(ozone: Ozone, source: Path, name: str = "t", *, below: str | None = None) -> Location:
    """A copy of a directory, below a new one, or below one that is given."""
    root = parse_location(f"{below or ozone.new_directory()}/{name}")
    ask(ozone, "PUT", root.path, "MKDIRS")
    targets = {path: root.child(path.relative_to(source).as_posix()).path for path in sorted(source.rglob("*"))}
    for path in filter(Path.is_dir, targets):
        ask(ozone, "PUT", targets[path], "MKDIRS")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: create(ozone, targets[path], path.read_bytes()), filter(Path.is_file, targets)))
    return root


def downloaded(ozone: Ozone, source: Location, target: Path) -> Path:
    """A copy on this machine's disks of what lies at a location; what was there before goes."""
    shutil.rmtree(target, ignore_errors=True)
    _download(ozone, source.path, target)
    return target


def names(ozone: Ozone, place: Location) -> list[str]:
    """The entries of a directory."""
    return sorted(status["pathSuffix"] for status in _statuses(ozone, place.path))


def create(ozone: Ozone, path: str, data: bytes) -> None:
    """Makes a file and the directories above it."""
    ask(ozone, "PUT", path, "CREATE", data, data="true")


def ask(ozone: Ozone, method: str, path: str, operation: str, body: bytes | None = None, **parameters: str) -> bytes:
    """One request to HttpFS; its answer."""
    query = urlencode({"op": operation, "user.name": USER, **parameters})
    headers = {} if body is None else {"Content-Type": "application/octet-stream"}
    connection = HTTPConnection("127.0.0.1", ozone.port, timeout=60)
    try:
        connection.request(method, f"/webhdfs/v1{quote(path)}?{query}", body, headers)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    assert answer.status in (200, 201), (answer.status, data)
    return data


def _statuses(ozone: Ozone, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ask(ozone, "GET", path, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
    return found


def _download(ozone: Ozone, path: str, target: Path) -> None:
    target.mkdir(parents=True)
    for status in _statuses(ozone, path):
        name = status["pathSuffix"]
        if status["type"] == "DIRECTORY":
            _download(ozone, f"{path}/{name}", target / name)
        else:
            (target / name).write_bytes(ask(ozone, "GET", f"{path}/{name}", "OPEN"))
