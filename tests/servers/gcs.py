"""Servers that speak Google Cloud Storage's JSON interface, for the tests: two emulators.

``gcsemulator`` keeps conditions on writes, removals and compositions, and judges publication. It is not faithful in
this: it answers a range with the whole object; a composition reads its sources without a lock, so that one that is
removed meanwhile may still be composed, and appear after the removal was answered ("aborts are final" is broken); a
listing shows ``null`` for an object that is removed meanwhile; it makes any bucket that is written to; names that hold
``//`` or ``/compose`` are not understood; a listing with a delimiter ends where a page of 1,000 objects has prefixes
alone; it knows no namespaces, rights, retention or limits of writes.
``fake-gcs-server`` is a second opinion on reads and listings: it honours creations and ranges, and ignores conditions
on removals and compositions, so that no run may publish there.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3

from servers.go_programs import built
from servers.process import ServerProcess, Startable, free_port, listens

EMULATOR, FAKE = "gcsemulator", "fake-gcs-server"


class GcsServer(Startable):
    """One emulator on a free port of 127.0.0.1; ``judge`` says which one it is."""

    def __init__(self, directory: Path, judge: str = EMULATOR, *, on_disk: bool = False) -> None:
        """Starts nothing yet; ``directory`` is its own and gets its log.

        ``on_disk``: objects lie there, too, and are there again after it was killed; else all is in memory.
        """
        self._on_disk = on_disk
        self.judge = judge
        self.port = free_port()
        self.log = directory / "log"
        self._directory = directory
        self._process: ServerProcess | None = None
        self._clients: dict[int, urllib3.PoolManager] = {}

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """How Hadoop would be told to reach it; by another way to it, where one is given."""
        return {
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.storage.root.url": endpoint or self.endpoint,
            "fs.gs.project.id": "tests",
        }

    def new_bucket(self) -> str:
        """The name of a bucket that was just made."""
        name = f"b{uuid.uuid4().hex[:12]}"
        self._ask("POST", "/storage/v1/b?project=tests", body=json.dumps({"name": name}).encode())
        return name

    def put(self, bucket: str, key: str, data: bytes, encoding: str = "") -> None:
        """Writes an object, whatever there is."""
        query = f"uploadType=media&name={quote(key, safe='')}" + (f"&contentEncoding={encoding}" if encoding else "")
        self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body=data)

    def get(self, bucket: str, key: str) -> bytes:
        """The contents of an object."""
        return self._ask("GET", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}?alt=media")

    def remove(self, bucket: str, key: str) -> None:
        """Removes an object."""
        self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}")

    def objects(self, bucket: str, prefix: str = "") -> dict[str, Mapping[str, Any]]:
        """The objects by their keys, as the server describes them."""
        found: dict[str, Mapping[str, Any]] = {}
        token = ""
        while True:
            query = f"prefix={quote(prefix, safe='')}" + (f"&pageToken={quote(token, safe='')}" if token else "")
            page = json.loads(self._ask("GET", f"/storage/v1/b/{bucket}/o?{query}"))
            found |= {item["name"]: item for item in page.get("items", ())}
            if not (token := page.get("nextPageToken", "")):
                return found

    def _ask(self, method: str, line: str, body: bytes | None = None) -> bytes:
        """The answer to a request of a client that shares no code with the engine, one for each process."""
        client = self._clients.setdefault(os.getpid(), urllib3.PoolManager())
        headers = {"Content-Type": "application/json" if line.startswith("/storage") else "application/octet-stream"}
        answer = client.request(method, self.endpoint + line, body=body, headers=headers, retries=False)
        assert answer.status < 300, f"{method} {line}: {answer.status} {answer.data[:200]!r}"
        return answer.data

    def start(self) -> None:
        """Starts it, unless it runs. Raises ServerError with the end of its log."""
        command = [str(built(self.judge)), "-port", str(self.port)]
        if self.judge == EMULATOR:
            command += ["-host", "127.0.0.1", "-verbose=false"]
            command += ["-dir", str(self._directory / "objects")] if self._on_disk else []
        else:
            command += ["-host", "127.0.0.1", "-scheme", "http", "-backend", "memory", "-log-level", "error"]
        self._process = ServerProcess(
            self.judge,
            command=command,
            log=self.log,
            ready=lambda: listens(self.port),
            environment=dict(os.environ),
            directory=self._directory,
        )
        self._process.start()

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._process is not None:
            self._process.kill()
