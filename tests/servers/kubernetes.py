"""As much of an API server of Kubernetes as Spark's driver needs: it lets in what a role allows, and starts pods here.

A pod is a process of this machine: the image's entrypoint with the pod's variables and arguments. Nothing of the image,
of volumes and of networks is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "persistentvolumeclaims": "PersistentVolumeClaim"}
_HERE = "127.0.0.1"
_END_OF_WATCH = 0.2


@dataclass
class Kubernetes:
    """The server. `asked` is what was asked of it, as roles name it; `refused` what none of `allowed` lets in."""

    allowed: set[tuple[str, str]]
    entrypoint: Path
    variables: Mapping[str, str]
    logs: Path
    asked: set[tuple[str, str]] = field(default_factory=set)
    refused: set[tuple[str, str]] = field(default_factory=set)
    _pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Kubernetes:
        handler = type("Handler", (_Handler,), {"kubernetes": self})
        self._server = ThreadingHTTPServer((_HERE, 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def url(self) -> str:
        return f"http://{_HERE}:{self._server.server_address[1]}"

    @property
    def started(self) -> int:
        """How many pods were started."""
        return len(self._processes)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """What is said to a request, and what it does."""
        parts = urlsplit(path)
        _, _, _, _, _, resource, *rest = [*parts.path.split("/"), ""][:8]
        name = next((one for one in rest if one), "")
        query = parse_qs(parts.query)
        verb = self._verb(method, name, query)
        self.asked.add((resource, verb))
        if (resource, verb) not in self.allowed:
            self.refused.add((resource, verb))
            return HTTPStatus.FORBIDDEN, {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
        if verb == "create":
            made = json.loads(body)
            made["metadata"].setdefault("uid", made["metadata"]["name"])
            if resource == "pods":
                self._start(made)
            return HTTPStatus.CREATED, made
        if resource == "pods" and verb == "get":
            return HTTPStatus.OK, self._pods.get(name) or _pod(name)
        found = []
        if resource == "pods":
            _, _, of_one = query.get("fieldSelector", [""])[0].partition("metadata.name=")
            found = [_pod(of_one)] if of_one else [self._seen(name) for name in self._pods]
        about = {"kind": f"{_KINDS.get(resource, '')}List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
        return HTTPStatus.OK, about | {"items": found}

    @staticmethod
    def _verb(method: str, name: str, query: Mapping[str, list[str]]) -> str:
        if method == "GET":
            return "watch" if query.get("watch") == ["true"] else "get" if name else "list"
        if method == "DELETE":
            return "delete" if name else "deletecollection"
        return _VERBS[method]

    def _start(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        said = {one["name"]: one.get("value", _HERE) for one in container["env"] if "secretKeyRef" not in str(one)}
        said |= {"SPARK_EXECUTOR_POD_IP": _HERE, "SPARK_EXECUTOR_POD_NAME": name, "SPARK_CONF_DIR": str(self.logs)}
        with (self.logs / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                ["/bin/sh", str(self.entrypoint), *container["args"]],
                env={**os.environ, **said, **self.variables}, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._pods[name] = pod | {"status": {"phase": "Running"}}

    def _seen(self, name: str) -> dict[str, Any]:
        status = self._processes[name].poll()
        phase = "Running" if status is None else "Failed" if status else "Succeeded"
        return self._pods[name] | {"status": {"phase": phase, "podIP": _HERE}}


def _pod(name: str) -> dict[str, Any]:
    """The driver's own."""
    about = {"name": name, "namespace": "acidlib", "uid": name, "resourceVersion": "1"}
    ready = {"phase": "Running", "podIP": _HERE, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": {"containers": []}, "status": ready}


class _Handler(BaseHTTPRequestHandler):
    kubernetes: Kubernetes
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, document = self.kubernetes.answer(self.command, self.path, body)
        watches = "watch=true" in self.path and status == HTTPStatus.OK
        if watches:
            # nothing is told: the client asks again, and lists at intervals of its own
            threading.Event().wait(_END_OF_WATCH)
        answer = b"" if watches else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - by these names the base class finds them

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
