"""A stub of ours of Azure Data Lake Storage: no emulator has its endpoint with a hierarchical namespace.

It does what Microsoft's pages "Path - Create", "Path - Update", "Path - List", "Path - Delete" and "Path - Get
Properties" say, and where they are silent what hadoop-azure expects. Microsoft's own client and Hadoop's drivers work
with it (integration/test_abfs_foreign.py). It is strict: a call, parameter or header that is not modelled here is
answered with 400, so that no client can rely on what nobody has looked up. What it cannot prove is that the service
does the same.

Paths are made with all directories above them, a rename overwrites unless a condition forbids it, and needs the
directory above its target. Times are whole seconds. A directory's time does not move when something in it changes:
Microsoft does not say whether it does.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

KEY = base64.b64encode(b"a key of the tests, of 32 bytes!").decode()
ACCOUNT = "127"
OWNER = "$superuser"
OLDEST = "2019-12-12"
"""The version that Hadoop 3.3 asks for."""
PAGINATED = "2023-08-03"
"""The first whose recursive removals may take several requests."""
VERSION = "2024-11-04"
"""The first that keeps transaction ids."""
MAX_NAME = 1024
_CONNECTION = {"host", "user-agent", "accept", "accept-encoding", "accept-charset", "connection", "content-length"}
_ALWAYS = (
    _CONNECTION
    | {"content-type", "x-ms-version", "x-ms-date", "date", "x-ms-client-request-id", "authorization"}
    | {"x-http-method-override"}
)
_SAS = {"sv", "ss", "srt", "sp", "se", "sig", "spr", "sr", "st"}
_MAKING = {"if-none-match", "if-match", "x-ms-permissions", "x-ms-umask", "x-ms-client-transaction-id"}
_MOVING = {
    "x-ms-rename-source",
    "x-ms-source-lease-id",
    "if-none-match",
    "x-ms-source-if-match",
    "x-ms-client-transaction-id",
}
_READING = {"range", "x-ms-range", "if-match", "x-ms-request-priority"}


@dataclass(eq=False)
class Node:
    """A file or directory; ``pending`` was appended and is not flushed."""

    is_directory: bool
    etag: str
    modified: float
    permissions: str
    owner: str = OWNER
    group: str = OWNER
    transaction: str = ""
    data: bytes = b""
    properties: str = ""
    pending: dict[int, bytes] = field(default_factory=dict)
    below: dict[str, Node] = field(default_factory=dict)

    def count(self) -> int:
        """How many paths lie below it."""
        return sum(1 + node.count() for node in self.below.values())


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client asks for."""

    method: str
    verb: str
    """The method as it was sent, which is what is signed: Java knows no PATCH, and sends PUT with another header."""
    container: str
    path: str
    query: dict[str, str]
    headers: Message
    body: bytes
    line: str
    """The path as it was sent, which is what is signed."""

    @property
    def version(self) -> str:
        """Of the service, as the client asks for it."""
        return str(self.headers.get("x-ms-version", ""))

    @property
    def transaction(self) -> str:
        """Its transaction, which older versions do not know."""
        given = str(self.headers.get("x-ms-client-transaction-id", ""))
        if given and self.version < VERSION:
            raise RefusedError(400, "UnsupportedHeader", "x-ms-client-transaction-id")
        return given

    @property
    def name(self) -> str:
        """What it is called: "rename", "append", "list", …"""
        if self.query.get("resource") == "filesystem" and self.method != "GET":
            return f"{self.method} container"
        if self.method == "PUT":
            source = self.headers.get("x-ms-rename-source")
            return "rename" if source else f"create {self.query.get('resource', '')}"
        if self.method in ("PATCH", "HEAD"):
            return self.query.get("action", "getProperties")
        return {"GET": "read" if self.path else "list", "DELETE": "delete"}.get(self.method, self.method)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a client gets."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """An error of the service."""

    def __init__(self, status: int, code: str, message: str = "", **headers: str) -> None:
        """``headers`` have underscores for dashes."""
        super().__init__(code)
        body = json.dumps({"error": {"code": code, "message": message or code}}).encode()
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answer = Answer(status=status, body=body, headers={"x-ms-error-code": code, **shown})


Fault = Callable[[Request], str | Answer | None]
"""Goes wrong with a request: "before" it is carried out, or "after" that, the connection ends; or another answer."""


class AbfsStub:
    """One account with a hierarchical namespace.

    ``page`` paths are in an answer to a list; ``limit`` paths are renamed or deleted by one request. With ``ticking``
    its clock goes on by a second with each change, so that changes can be told apart by their times. A share of all
    requests is ``lost`` on its way there or back, and of another the service says that it is ``busy``.
    """

    def __init__(self, *, namespace: bool = True, tls: ssl.SSLContext | None = None) -> None:
        """Listens from now on, on a port of its own."""
        self.tells_transactions = True
        self.namespace = namespace
        self.page = 50
        self.limit = 1000
        self.fault: Fault | None = None
        self.lost = self.busy = 0.0
        self.asked: list[str] = []
        self.counts: Counter[str] = Counter()
        self.tokens: dict[str, str] = {}
        self.sas = ""
        self.containers: dict[str, Node] = {}
        self.ticking = False
        self._ahead = 0.0
        self._number = 0
        self._under_way: dict[str, tuple[str, str, int]] = {}
        self._random = random.Random(5)
        self._lock = threading.Lock()
        self._tls = tls
        self.is_secure = tls is not None
        self._http = self._listening(0)
        self.is_up = True

    @property
    def authority(self) -> str:
        """Host and port. What stands before the first dot is the account, for Hadoop's driver as well."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    def properties(self) -> dict[str, str]:
        """How Hadoop would be told to reach it."""
        return {
            f"fs.azure.account.key.{self.authority}": KEY,
            "fs.azure.always.use.https": "true" if self.is_secure else "false",
        }

    def new_container(self) -> str:
        """The URI of a container that was just made."""
        name = f"c{uuid.uuid4().hex[:12]}"
        self.containers[name] = self._node(is_directory=True)
        return f"abfss://{name}@{self.authority}"

    def give(self, container: str, path: str, owner: str) -> None:
        """Makes another user the owner of a path and of all below it."""
        node = self._found(container, path)
        assert node is not None, path
        for given in (node, *(below for _, below in _below(node, "", deep=True))):
            given.owner = owner

    def _listening(self, port: int) -> _Server:
        server = _Server(("127.0.0.1", port), type("_Asked", (_Asked,), {"stub": self}))
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        return server

    def _serve(self) -> None:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Nobody listens for the length of a block; what is stored lasts, and comes back on the same port."""
        port = self._http.server_address[1]
        self.is_up = False
        self._http.shutdown()
        self._http.socket.shutdown(socket.SHUT_RDWR)  # processes that were forked have it, too
        self._http.server_close()
        try:
            yield
        finally:
            self._http = self._listening(port)
            self.is_up = True
            self._serve()

    def __enter__(self) -> Self:
        """Answers."""
        self._serve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Answers no more."""
        self._http.shutdown()
        self._http.server_close()

    @contextlib.contextmanager
    def at_fault(self, fault: Fault) -> Iterator[None]:
        """Something is wrong for the length of a block."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    def answer(self, request: Request) -> tuple[Answer, bool]:
        """The answer to a request, and whether it is lost on its way."""
        self.asked.append(f"{request.name} {request.path}")
        self.counts[request.name] += 1
        found = None if self.fault is None else self.fault(request)
        if isinstance(found, Answer):
            return found, False
        if found is None and self._random.random() < self.lost:
            found = self._random.choice(["before", "after"])
        if found is None and self._random.random() < self.busy:
            return RefusedError(503, "ServerBusy", "Operations per second is over the account limit.").answer, False
        if found == "before":
            return Answer(status=0), True
        try:
            done = self._done(request)
        except RefusedError as refused:
            done = refused.answer
        return done, found == "after"

    # --- what the service does ------------------------------------------------------------------------------------

    def _done(self, request: Request) -> Answer:
        if request.version < OLDEST:
            raise RefusedError(400, "InvalidHeaderValue", "x-ms-version")
        owner = self._user(request)
        if (request.query.get("resource") == "filesystem") is (request.line.count("/") > 1):
            raise RefusedError(400, "InvalidUri", "the root of a container ends in a slash, its name does not")
        with self._lock:
            if request.name == "PUT container":
                return self._make_container(request)
            if request.container not in self.containers:
                raise RefusedError(404, "FilesystemNotFound")
            if len(request.path) > MAX_NAME or "\\" in request.path:
                raise RefusedError(400, "InvalidResourceName")
            if request.name == "HEAD container":
                self._known(request, set(), {"resource"})
                enabled = {"x-ms-namespace-enabled": "true" if self.namespace else "false"}
                return Answer(status=200, headers=_times(self.containers[request.container]) | enabled)
            if request.method == "PUT" and "x-ms-rename-source" in request.headers:
                return self._rename(request)
            if request.method == "PUT":
                return self._make(request, owner)
            does = {"GET": self._get, "HEAD": self._look, "PATCH": self._update, "DELETE": self._delete}
            if request.method not in does:
                raise RefusedError(400, "UnsupportedHttpVerb")
            return does[request.method](request)

    def _user(self, request: Request) -> str:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme == "Bearer":
            if given not in self.tokens:
                raise RefusedError(401, "InvalidAuthenticationInfo")
            return self.tokens[given]
        if not scheme and self.sas and request.query.get("sig") == dict(parse_qsl(self.sas))["sig"]:
            return OWNER
        expected = f"{_account(request.headers['host'])}:{signature(request)}"
        if scheme != "SharedKey" or not hmac.compare_digest(given, expected):
            raise RefusedError(403, "AuthenticationFailed")
        return OWNER

    def _known(self, request: Request, headers: set[str], query: set[str]) -> None:
        for name in request.headers:
            if name.lower() not in _ALWAYS | headers:
                raise RefusedError(400, "UnsupportedHeader", name)
        for name in request.query:
            if name not in query | {"timeout"} and not (self.sas and name in _SAS):
                raise RefusedError(400, "UnsupportedQueryParameter", name)

    def _node(self, *, is_directory: bool, permissions: str = "rwxr-x---", **more: Any) -> Node:
        return Node(is_directory=is_directory, etag=self._etag(), modified=self._now(), permissions=permissions, **more)

    def _etag(self) -> str:
        self._number += 1
        return f'"0x8DD{self._number:012X}"'

    def _now(self) -> float:
        if not self.ticking:
            return time.time()
        self._ahead += 1.0
        return time.time() + self._ahead

    def _changed(self, node: Node) -> None:
        node.etag, node.modified = self._etag(), self._now()

    def _found(self, container: str, path: str) -> Node | None:
        node: Node | None = self.containers[container]
        for part in path.split("/") if path else ():
            node = node.below.get(part) if node is not None else None
        return node

    def _there(self, request: Request) -> Node:
        node = self._found(request.container, request.path)
        if node is None:
            raise RefusedError(404, "PathNotFound")
        return node

    def _conditions(self, request: Request, node: Node | None) -> None:
        if request.headers.get("if-none-match") not in (None, "*"):
            raise RefusedError(400, "InvalidHeaderValue")
        if "if-none-match" in request.headers and node is not None:
            kind = "directory" if node.is_directory else "file"
            raise RefusedError(409, "PathAlreadyExists", x_ms_existing_resource_type=kind)
        # Hadoop 3.4 sends it without its quotes
        if "if-match" in request.headers and (
            node is None or node.etag.strip('"') != request.headers["if-match"].strip('"')
        ):
            raise RefusedError(412, "ConditionNotMet")

    def _parent(self, request: Request, *, make: str | None) -> tuple[Node, str]:
        """The directory above a path, which is made where it is missing; its name in there."""
        *parts, name = request.path.split("/")
        node = self.containers[request.container]
        for part in parts:
            if part not in node.below:
                if make is None:
                    raise RefusedError(404, "RenameDestinationParentPathNotFound")
                node.below[part] = self._node(is_directory=True, owner=make)
            node = node.below[part]
            if not node.is_directory:
                raise RefusedError(409, "PathConflict")
        return node, name

    def _make_container(self, request: Request) -> Answer:
        self._known(request, set(), {"resource"})
        if request.container in self.containers:
            raise RefusedError(409, "FilesystemAlreadyExists")
        made = self.containers[request.container] = self._node(is_directory=True)
        return Answer(status=201, headers=_times(made))

    def _make(self, request: Request, owner: str) -> Answer:
        self._known(request, _MAKING, {"resource"})
        if request.query.get("resource") not in ("file", "directory") or request.body:
            raise RefusedError(400, "InvalidQueryParameterValue", "resource")
        is_directory = request.query["resource"] == "directory"
        found = self._found(request.container, request.path)
        self._conditions(request, found)
        if found is not None and found.is_directory != is_directory:
            raise RefusedError(409, "PathConflict")
        above, name = self._parent(request, make=owner)
        given = request.headers.get("x-ms-permissions", "0777" if is_directory else "0666")
        permissions = _mode(given)
        permissions &= ~int(request.headers.get("x-ms-umask", "0027"), 8)
        if found is not None and is_directory:
            self._changed(found)
        else:
            found = above.below[name] = self._node(
                is_directory=is_directory, permissions=_symbolic(permissions), owner=owner
            )
        found.transaction = request.transaction
        return Answer(status=201, headers=_times(found))

    def _rename(self, request: Request) -> Answer:
        self._known(request, _MOVING, {"mode", "continuation"})
        named = request.headers["x-ms-rename-source"].partition("?")[0]
        container, _, source = unquote(named).lstrip("/").partition("/")
        if request.headers.get("x-ms-source-lease-id"):  # Microsoft's client sends an empty one
            raise RefusedError(412, "LeaseNotPresent")
        node = self._found(container, source) if container in self.containers else None
        if node is None or not source:
            raise RefusedError(404, "SourcePathNotFound")
        if request.headers.get("x-ms-source-if-match") not in (None, node.etag):
            raise RefusedError(412, "SourceConditionNotMet")
        if f"{request.path}/".startswith(f"{source}/") and request.path != source:
            raise RefusedError(409, "InvalidRenameSourcePath")
        above, name = self._parent(request, make=None)
        target = above.below.get(name)
        self._conditions(request, target)
        if target is not None and (target.is_directory != node.is_directory or target.below):
            raise RefusedError(409, "InvalidSourceOrDestinationResourceType")
        if token := self._more(request, source, node):
            return Answer(status=201, headers={"x-ms-continuation": token})
        *parts, old = source.split("/")
        from_ = self._found(container, "/".join(parts))
        assert from_ is not None
        above.below[name] = from_.below.pop(old)
        node.transaction = request.transaction
        if node.is_directory:  # that of a file is kept, see HADOOP-17981
            node.etag = self._etag()
        return Answer(status=201)

    def _more(self, request: Request, source: str, node: Node) -> str:
        """What the next request for a directory has to name, where this one is not the last; until then all is there.

        Only the rights of what lies below are looked at by one request after the other (HADOOP-18656).
        """
        begun = source, request.path, 0
        if token := request.query.get("continuation", ""):
            begun = self._under_way.pop(token, ("", "", 0))
        if begun[:2] != (source, request.path):
            raise RefusedError(400, "InvalidQueryParameterValue", "continuation")
        done = begun[2] + self.limit
        if done >= node.count():
            return ""
        token = uuid.uuid4().hex
        self._under_way[token] = source, request.path, done
        return token

    def _get(self, request: Request) -> Answer:
        if not request.path:
            return self._list(request)
        self._known(request, _READING, set())
        node = self._there(request)
        self._conditions(request, node)
        data = b"" if node.is_directory else node.data
        headers = {**_times(node), **_kind(node), "Accept-Ranges": "bytes"}
        wanted = request.headers.get("range") or request.headers.get("x-ms-range")
        if wanted is None:
            return Answer(status=200, body=data, headers=headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        if int(first) >= len(data):
            raise RefusedError(416, "InvalidRange", Content_Range=f"bytes */{len(data)}")
        end = min(int(last) + 1, len(data)) if last else len(data)
        return Answer(
            status=206,
            body=data[int(first) : end],
            headers={**headers, "Content-Range": f"bytes {first}-{end - 1}/{len(data)}"},
        )

    def _list(self, request: Request) -> Answer:
        self._known(request, set(), {"resource", "recursive", "directory", "maxResults", "continuation", "upn"})
        if request.query.get("resource") != "filesystem" or request.query.get("recursive") not in ("true", "false"):
            raise RefusedError(400, "InvalidQueryParameterValue")
        directory = request.query.get("directory", "").strip("/")
        node = self._found(request.container, directory)
        if node is None or not node.is_directory:
            raise RefusedError(404, "PathNotFound")
        after = base64.b64decode(request.query.get("continuation", "")).decode()
        paths = sorted(_below(node, f"{directory}/" if directory else "", deep=request.query["recursive"] == "true"))
        waiting = [(path, found) for path, found in paths if path > after]
        size = min(self.page, int(request.query.get("maxResults", "5000")))
        headers = {"Content-Type": "application/json;charset=utf-8"}
        if waiting[size:]:
            headers["x-ms-continuation"] = base64.b64encode(waiting[size - 1][0].encode()).decode()
        body = json.dumps({"paths": [_listed(path, found) for path, found in waiting[:size]]}).encode()
        return Answer(status=200, body=body, headers=headers)

    def _look(self, request: Request) -> Answer:
        self._known(request, {"if-match"}, {"action", "upn"})
        action = request.query.get("action", "getProperties")
        if action not in ("getStatus", "getProperties", "getAccessControl"):
            raise RefusedError(400, "InvalidQueryParameterValue")
        if action == "getAccessControl" and not self.namespace:
            raise RefusedError(400, "UnsupportedForNonHierarchicalNamespace")
        node = self._there(request)
        headers = {**_times(node), **_kind(node), "Content-Length": str(len(node.data))}
        if action == "getProperties" and node.is_directory:  # Microsoft's client asks the Blob service for them
            headers["x-ms-meta-hdi_isfolder"] = "true"
        headers |= {"x-ms-owner": node.owner, "x-ms-group": node.group, "x-ms-permissions": node.permissions}
        if node.transaction and self.tells_transactions:
            headers["x-ms-client-transaction-id"] = node.transaction
        return Answer(status=200, headers=headers)

    def _update(self, request: Request) -> Answer:
        action = request.query.get("action")
        node = self._there(request)
        if action in ("append", "flush"):
            if node.is_directory:
                raise RefusedError(409, "PathIsADirectory")
            return self._append(request, node) if action == "append" else self._flush(request, node)
        if action == "setProperties":
            self._known(request, {"x-ms-properties"}, {"action"})
            node.properties = request.headers["x-ms-properties"]
            self._changed(node)
        elif action == "setAccessControl":
            self._known(request, {"x-ms-owner", "x-ms-group", "x-ms-permissions"}, {"action"})
            node.owner = request.headers.get("x-ms-owner", node.owner)
            node.group = request.headers.get("x-ms-group", node.group)
            node.permissions = _symbolic(_mode(request.headers.get("x-ms-permissions", node.permissions)))
        else:
            raise RefusedError(400, "InvalidQueryParameterValue", "action")
        return Answer(status=200, headers=_times(node))

    def _append(self, request: Request, node: Node) -> Answer:
        self._known(request, set(), {"action", "position", "flush", "close"})
        position = int(request.query["position"])
        if position < len(node.data):
            raise RefusedError(400, "InvalidFlushPosition")
        if not request.body:
            raise RefusedError(400, "InvalidHeaderValue", "Content-Length")
        node.pending[position] = request.body
        if request.query.get("flush") == "true":
            self._write(node, position + len(request.body))
        return Answer(status=202, headers=_times(node))

    def _flush(self, request: Request, node: Node) -> Answer:
        self._known(request, {"if-match"}, {"action", "position", "close", "retainUncommittedData"})
        if request.body or request.headers.get("content-length") != "0":
            raise RefusedError(400, "InvalidHeaderValue", "Content-Length")
        self._write(node, int(request.query["position"]))
        return Answer(status=200, headers=_times(node))

    def _write(self, node: Node, position: int) -> None:
        data = node.data
        for start in sorted(node.pending):
            if start != len(data):
                raise RefusedError(400, "InvalidFlushPosition")
            data += node.pending[start]
        if len(data) != position:
            raise RefusedError(400, "InvalidFlushPosition")
        node.data, node.pending = data, {}
        self._changed(node)

    def _delete(self, request: Request) -> Answer:
        self._known(request, {"if-match"}, {"recursive", "continuation", "paginated"})
        node = self._found(request.container, request.path)
        if node is None or not request.path:
            raise RefusedError(404, "PathNotFound")
        self._conditions(request, node)
        if node.below and request.query.get("recursive") != "true":
            raise RefusedError(409, "DirectoryNotEmpty")
        paginated = request.query.get("paginated") == "true"
        is_recursive = node.is_directory and request.query.get("recursive") == "true"
        if paginated and not (is_recursive and request.version >= PAGINATED):
            raise RefusedError(400, "InvalidQueryParameterValue", "paginated")
        if node.count() > self.limit and not paginated:  # rights are looked at path by path, for 30 seconds at most
            raise RefusedError(500, "OperationTimedOut")
        if token := self._more(request, "", node):
            return Answer(status=200, headers={"x-ms-continuation": token})
        above, name = self._parent(request, make=None)
        del above.below[name]
        return Answer(status=200)


def _below(node: Node, prefix: str, *, deep: bool) -> Iterator[tuple[str, Node]]:
    for name, found in node.below.items():
        yield prefix + name, found
        if deep:
            yield from _below(found, f"{prefix}{name}/", deep=True)


def _mode(text: str) -> int:
    """The mode of a text in octal digits or in letters, both of which the service takes."""
    if text.isdecimal():
        return int(text, 8)
    return sum(1 << 8 - place for place, sign in enumerate(text) if sign in "rwx")


def _symbolic(mode: int) -> str:
    return "".join(sign if mode >> 8 - place & 1 else "-" for place, sign in enumerate("rwxrwxrwx"))


def _times(node: Node) -> dict[str, str]:
    return {"ETag": node.etag, "Last-Modified": formatdate(int(node.modified), usegmt=True)}


def _kind(node: Node) -> dict[str, str]:
    return {"x-ms-resource-type": "directory" if node.is_directory else "file"}


def _listed(path: str, node: Node) -> dict[str, str]:
    shown = {
        "name": path,
        "contentLength": str(len(node.data)),
        "etag": node.etag.strip('"'),
        "lastModified": formatdate(int(node.modified), usegmt=True),
        "owner": node.owner,
        "group": node.group,
        "permissions": node.permissions,
    }
    return {**shown, "isDirectory": "true"} if node.is_directory else shown


def _account(host: str) -> str:
    return host.partition(".")[0].partition(":")[0]


def signature(request: Request) -> str:
    """What the holder of the key signs. Source: Microsoft's "Authorize with Shared Key", for the Blob service."""
    given = {name.lower(): value for name, value in request.headers.items()}
    length = given.get("content-length", "")
    standard = [
        *(given.get("content-encoding", ""), given.get("content-language", ""), "" if length == "0" else length),
        *(given.get("content-md5", ""), given.get("content-type", ""), "" if "x-ms-date" in given else given["date"]),
        *(given.get(name, "") for name in ("if-modified-since", "if-match", "if-none-match", "if-unmodified-since")),
        given.get("range", ""),
    ]
    own = [f"{name}:{given[name].strip()}" for name in sorted(given) if name.startswith("x-ms-")]
    account = _account(given["host"])
    asked = [f"{name.lower()}:{request.query[name]}" for name in sorted(request.query)]
    resource = f"/{account}{request.line}"
    text = "\n".join([request.verb, *standard, *own, "\n".join([resource, *asked])])
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


class AbfsProcess:
    """A stub in a process of its own, which shares no interpreter with its client; it has one container."""

    def __enter__(self) -> Self:
        """Answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "servers.abfs"],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.container = self._process.stdout.readline().strip()
        self.authority = self.container.partition("@")[2]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends."""
        self._process.kill()
        self._process.wait()

    def properties(self) -> dict[str, str]:
        """As those of a stub."""
        return {f"fs.azure.account.key.{self.authority}": KEY, "fs.azure.always.use.https": "false"}


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients are killed on purpose."""


class _Asked(BaseHTTPRequestHandler):
    """One connection to the stub."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stub: AbfsStub

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def handle_one_request(self) -> None:
        """As the class above, for any method."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.stub.is_up or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        line, _, query = self.path.partition("?")
        container, _, path = line[1:].partition("/")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        request = Request(
            method=self.headers.get("X-HTTP-Method-Override") or self.command,
            verb=self.command,
            container=unquote(container),
            path=unquote(path).strip("/"),
            query=asked,
            headers=self.headers,
            body=body,
            line=line,
        )
        answer, is_lost = self.stub.answer(request)
        if is_lost:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(answer.status)
        headers = {"Date": formatdate(usegmt=True), "x-ms-request-id": uuid.uuid4().hex, **answer.headers}
        if "Content-Length" not in headers:
            headers["Content-Length"] = str(len(answer.body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


if __name__ == "__main__":
    with AbfsStub() as answering:
        print(answering.new_container(), flush=True)
        sys.stdin.read()  # until its parent ends
