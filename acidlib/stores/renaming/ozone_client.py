"""HttpFS of Ozone for the file system and its data files: connections, requests, errors.

HttpFS is the service by which Ozone speaks WebHDFS's REST, so executors need no Java. It answers for one Ozone service,
with the bytes of files as well as with names.

An `OSError` says that no answer came: `HttpFsNotAskedError` where no request was sent, `HttpFsLostAnswerError` where it
may have been carried out. A `HttpFsError` is an answer. HttpFS may carry out a change long after its caller has given
up; so changes wait for their answer without a limit (`acidlib.step.timeout` gives the place up), as in HDFS.

Source: Ozone `HttpFSServer`, `HttpFSExceptionProvider`, `FSOperations`; WebHDFS's REST.
"""

from __future__ import annotations

import getpass
import json
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import Location
from acidlib.stores.filesystem import MAX_ENTRIES, permission_missing, require_few
from acidlib.stores.repeating import Failure, repeated
from acidlib.waiting import asking

DEFAULT_PORT = 9862
_DEFAULT_FS, _ADDRESS, _SERVICES = "fs.defaultFS", "ozone.om.address", "ozone.om.service.ids"
_SECURE = "ozone.security.enabled"
HTTPFS = "acidlib.ozone.httpfs"
PROPERTIES = (_DEFAULT_FS, _ADDRESS, _SERVICES, _SECURE, HTTPFS)
"""The properties that are read."""
PARTS_OF_PATHS = 3
"""How many parts the path of a place has at least: the volume, the bucket, and a directory."""
_CONNECTION_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_TRIES = 4
"""Of one question."""
_IDLE_SECONDS = 20.0
"""How long an idle connection is kept; HttpFS ends it after a minute."""
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
"""A host that is gone is noticed in some 90 seconds, also by a thread that waits without a limit."""
_PREFIX = "/webhdfs/v1"
_MAX_LISTING_BYTES = MAX_ENTRIES * 512
_UNSAFE_IN_TARGETS = "&<>\"'"
"""HttpFS escapes these for HTML in the target of a rename, and takes the result for the name."""

_idle: dict[tuple[int, str], list[tuple[float, HTTPConnection]]] = {}
"""Connections of a process that no thread uses, and since when."""
_lock = threading.Lock()


def _forked() -> None:
    """Renew the lock, which another thread of the parent may have held."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


class HttpFsNotAskedError(OSError):
    """No request was sent, as no gateway takes a connection."""


class HttpFsLostAnswerError(OSError):
    """A request was sent, and its answer did not come: it may have been carried out."""


class HttpFsError(Exception):
    """An answer that is an error: the simple name of the Java exception, its message and the status of HTTP."""

    def __init__(self, name: str, message: str, status: int) -> None:
        super().__init__(f"{name}: {message}" if name else message)
        self.name, self.message, self.status = name, message, status


def failure_of_httpfs(error: Exception) -> Failure | None:
    """Return what is known of a request after an error of the client; None for any other error."""
    if isinstance(error, HttpFsError):
        return Failure.REFUSED
    if isinstance(error, OSError):
        return Failure.AWAY if isinstance(error, HttpFsNotAskedError) else Failure.LOST
    return None


@dataclass(frozen=True, slots=True)
class HttpFs:
    """The gateways of one Ozone service. It may be pickled and compared.

    Callers name files by whole URIs, HttpFS by paths.

    authority  host and port of the manager, or the service
    urls       of HttpFS, without a path; any of them serves
    user       who asks
    """

    authority: str
    urls: tuple[str, ...]
    user: str

    @property
    def uri(self) -> str:
        """The beginning of the URI of each file, without a slash at its end."""
        return f"ofs://{self.authority}"

    def inside(self, uri: str) -> str:
        """Return the path of a URI. Raises `RefusedError` for a URI of another service."""
        rest = uri.removeprefix(self.uri)
        if rest == uri or rest[:1] not in ("", "/") or "\0" in rest:
            raise RefusedError(f"Cannot open {uri!r}: it does not name a file on {self.uri}")
        return rest.rstrip("/") or "/"

    def target(self, uri: str) -> str:
        """Return the path of a URI that a rename leads to. Raises `RefusedError` for one that HttpFS would change."""
        if any(sign in _UNSAFE_IN_TARGETS for sign in uri):
            raise RefusedError(
                f"Cannot rename to {uri}: HttpFS takes none of the characters {_UNSAFE_IN_TARGETS} in the target of a "
                "rename as they are"
            )
        return self.inside(uri)

    def question(self, uri: str, operation: str, *, most: int | None = None, **parameters: object) -> bytes:
        """Return the answer to a question, which changes nothing; it is asked again where the answer was lost.

        No request begins when the time for an answer is over, so a gateway that hangs is waited for once.

        most  bytes that the answer may have; RefusedError for more
        """
        end = time.monotonic() + _ANSWER_SECONDS
        return repeated(
            lambda: self._send("GET", uri, operation, parameters, seconds=_ANSWER_SECONDS, most=most),
            failure=lambda error: failure_of_httpfs(error) if time.monotonic() < end else None,
            tries=_TRIES,
        )

    def status(self, uri: str) -> dict[str, Any]:
        """Return the status of a path."""
        status: dict[str, Any] = _parsed(self.question(uri, "GETFILESTATUS"), "FileStatus", _is_status)
        return status

    def statuses(self, uri: str) -> list[dict[str, Any]]:
        """Return the status of each entry of a directory; of a file its own, without a name.

        Raises `RefusedError` for more than `MAX_ENTRIES`, which are counted before they are parsed: parsed they take
        several times as much memory.
        """
        answer = self.question(uri, "LISTSTATUS", most=_MAX_LISTING_BYTES)
        require_few(uri, answer.count(b'"pathSuffix"'))  # the quotes in a name have a backslash
        statuses: list[dict[str, Any]] = _parsed(answer, "FileStatuses", _are_statuses)["FileStatus"]
        return statuses

    def change(self, method: str, uri: str, operation: str, body: bytes | None = None, **parameters: object) -> bool:
        """Ask for a change once; return the answer of one that answers with yes or no, else True.

        What a proxy answers instead of HttpFS is a lost answer: what it was asked for may have been carried out.
        """
        try:
            answer = self._send(method, uri, operation, parameters, body=body)
            return body is not None or _parsed(answer, "boolean", _is_boolean) is True
        except HttpFsError as error:
            if not error.name and (error.status == 200 or error.status >= 500):
                raise HttpFsLostAnswerError(str(error)) from error
            raise

    def upload(self, uri: str) -> HTTPConnection:
        """Begin to create a file, whose bytes are sent in chunks; `answer_of` ends it."""
        connection = self._connection(None)
        try:
            connection.putrequest("PUT", self._target(uri, "CREATE", {"data": "true", "overwrite": "false"}))
            connection.putheader("Content-Type", "application/octet-stream")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
        except (OSError, HTTPException) as error:
            connection.close()
            raise HttpFsLostAnswerError(_said(error)) from error
        return connection

    def answer_of(self, connection: HTTPConnection) -> None:
        """Wait for the answer to an upload."""
        try:
            response = connection.getresponse()
            data = response.read()
        except (OSError, HTTPException) as error:
            connection.close()
            raise HttpFsLostAnswerError(_said(error)) from error
        self._keep(connection, response)
        _require_success(response.status, data)

    def _send(
        self,
        method: str,
        uri: str,
        operation: str,
        parameters: Mapping[str, object],
        *,
        body: bytes | None = None,
        seconds: float | None = None,
        most: int | None = None,
    ) -> bytes:
        connection = self._connection(seconds)
        headers = {} if body is None else {"Content-Type": "application/octet-stream"}
        try:
            connection.request(method, self._target(uri, operation, parameters), body, headers)
            response = connection.getresponse()
            if response.length is None and not response.chunked:
                raise HTTPException("the answer has no length, by which it would be seen to be whole")
            data = response.read() if most is None else response.read(most + 1)
        except (OSError, HTTPException) as error:
            connection.close()
            raise HttpFsLostAnswerError(_said(error)) from error
        except BaseException:
            connection.close()
            raise
        if most is not None and len(data) > most:
            connection.close()
            raise RefusedError(f"Cannot list {uri}: the listing has more than {most} bytes")
        self._keep(connection, response)
        _require_success(response.status, data)
        return data

    def _target(self, uri: str, operation: str, parameters: Mapping[str, object]) -> str:
        query = urlencode({"op": operation, "user.name": self.user, **parameters})
        return f"{_PREFIX}{quote(self.inside(uri))}?{query}"

    def _connection(self, seconds: float | None) -> HTTPConnection:
        """Return an idle connection, or a new one to the first gateway that takes one; HttpFsNotAskedError without."""
        reasons = []
        for url in self.urls:
            connection = _taken(url)
            if connection is None:
                connection = _new_connection(url)
                try:
                    connection.connect()
                except OSError as error:
                    reasons.append(f"no connection to {url}: {_said(error)}")
                    continue
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in _KEEP_ALIVE:
                    connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.sock.settimeout(seconds)
            return connection
        raise HttpFsNotAskedError("; ".join(reasons))

    def _keep(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        if response.will_close or not response.isclosed() or connection.sock is None:
            connection.close()
            return
        scheme = "https" if isinstance(connection, HTTPSConnection) else "http"
        with _lock:
            idle = _idle.setdefault((os.getpid(), f"{scheme}://{connection.host}:{connection.port}"), [])
            idle.append((time.monotonic(), connection))


def _new_connection(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return HTTPSConnection(parts.hostname or "", parts.port, timeout=_CONNECTION_SECONDS, context=context)
    return HTTPConnection(parts.hostname or "", parts.port, timeout=_CONNECTION_SECONDS)


def _taken(url: str) -> HTTPConnection | None:
    """Return an idle connection that the server has not ended; None without one."""
    while True:
        with _lock:
            idle = _idle.get((os.getpid(), url))
            if not idle:
                return None
            since, connection = idle.pop()
        is_quiet = connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]
        if is_quiet and time.monotonic() - since < _IDLE_SECONDS:
            return connection
        connection.close()


def _require_success(status: int, data: bytes) -> None:
    """Raise the `HttpFsError` in an answer; what is no answer of HttpFS is an error of its own."""
    if status in (200, 201):
        return
    try:
        exception = json.loads(data)["RemoteException"]
        name, message = str(exception["exception"]), str(exception["message"])
    except (ValueError, LookupError, TypeError):
        name, message = "", f"the answer of HttpFS has the status {status}"
    raise HttpFsError(name, message.split("\n", 1)[0], status)


def _parsed(data: bytes, field: str, is_right: Callable[[Any], bool]) -> Any:
    """Return what an answer has in its one field. Raises HttpFsError where it is not right."""
    try:
        answer = json.loads(data)[field]
    except (ValueError, LookupError, TypeError) as error:
        raise HttpFsError("", f"the answer of HttpFS has no {field}", 200) from error
    if not is_right(answer):
        raise HttpFsError("", f"the answer of HttpFS has no {field} that can be understood", 200)
    return answer


def _is_boolean(answer: Any) -> bool:
    return isinstance(answer, bool)


def _is_status(answer: Any) -> bool:
    return (
        isinstance(answer, dict)
        and answer.get("type") in ("FILE", "DIRECTORY")
        and all(isinstance(answer.get(name), str) for name in ("pathSuffix", "owner"))
        and all(isinstance(answer.get(name), int) for name in ("length", "modificationTime"))
        and answer["length"] >= 0
    )


def _are_statuses(answer: Any) -> bool:
    statuses = answer.get("FileStatus") if isinstance(answer, dict) else None
    return isinstance(statuses, list) and all(map(_is_status, statuses))


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


_ERRORS: dict[str, tuple[type[AcidError], str]] = {
    "PathIsNotEmptyDirectoryException": (ConflictError, "it is not empty"),
    "FileAlreadyExistsException": (ConflictError, "it already exists"),
    **dict.fromkeys(
        ("InvalidPathException", "InvalidPathNameException", "IllegalArgumentException", "QueryParamException"),
        (RefusedError, "Ozone does not take that name ({text})"),
    ),
}
_DENIED = ("AccessControlException", "AuthorizationException")
_KERBEROS = "HttpFS asks for a log-in, as with Kerberos, which is not supported for Ozone"


def ozone_acid_error(
    error: BaseException, action: str, path: str, *, missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("write", "list") on `path`, by the rules of local disks."""
    cannot = f"Cannot {action} {path}"
    if not isinstance(error, HttpFsError):
        return RetryError(f"{cannot}: HttpFS of Ozone cannot be reached, or gave no answer ({error})")
    if error.status == 401:
        return RefusedError(f"{cannot}: {_KERBEROS}")
    if error.name == "FileNotFoundException":
        is_directory = "NOT_A_FILE" in error.message
        return missing(f"{cannot}: {'it is a directory' if is_directory else 'there is no such file or directory'}")
    if error.status == 403 or error.name in _DENIED or "PERMISSION_DENIED" in error.message:
        return permission_missing(cannot, error.message)
    if "QUOTA" in error.message.upper():
        return RetryError(f"{cannot}: the quota is used up ({error.message})")
    unknown = RetryError, f"HttpFS said {error.name}: {{text}}" if error.name else "{text}"
    error_class, why = _ERRORS.get(error.name, unknown)
    return error_class(f"{cannot}: {why.format(text=error.message)}")


@contextmanager
def raising_ozone_errors(action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
    """Guard a block; a failure of HttpFS in it is raised as the error that `ozone_acid_error` names."""
    try:
        with asking(action, path):
            yield
    except (OSError, HttpFsError) as error:
        raise ozone_acid_error(error, action, path, missing=missing) from error


def whole_location(location: Location, configuration: Mapping[str, str]) -> Location:
    """Return the one name of a location: that by `ofs`, with its service or manager and port.

    `o3fs://BUCKET.VOLUME.OM/path` is `ofs://OM/VOLUME/BUCKET/path`. Raises `RefusedError` where the bucket, the volume
    or the service is not named.
    """
    authority, path = location.authority, location.path
    if location.scheme == "o3fs":
        bucket, _, rest = authority.partition(".")
        volume, _, authority = rest.partition(".")
        if not bucket or not volume:
            raise RefusedError(f"Cannot open {location}: its authority is not BUCKET.VOLUME or BUCKET.VOLUME.SERVICE")
        path = f"/{volume}/{bucket}{path}"
    services = [name.strip() for name in configuration.get(_SERVICES, "").split(",") if name.strip()]
    authority = authority or _default_authority(location, services, configuration)
    if authority not in services and ":" not in authority:
        authority = f"{authority}:{DEFAULT_PORT}"
    return Location(location.kind, authority, path, "ofs")


def _default_authority(location: Location, services: list[str], configuration: Mapping[str, str]) -> str:
    scheme, _, rest = configuration.get(_DEFAULT_FS, "").partition("://")
    if scheme.lower() == "ofs" and (authority := rest.partition("/")[0]):
        return authority
    if len(services) == 1:
        return services[0]
    if not services and (address := configuration.get(_ADDRESS, "").strip()):
        return address
    raise RefusedError(
        f"Cannot open {location}: neither {_DEFAULT_FS} nor {_SERVICES} nor {_ADDRESS} names one service of Ozone"
    )


def httpfs_of(location: Location, configuration: Mapping[str, str]) -> HttpFs:
    """Return the gateways of a location. Opens no connection.

    Raises `RefusedError` without any, for Kerberos, and for a location that is no directory in a bucket.
    """
    if configuration.get(_SECURE, "").strip().lower() == "true":
        raise RefusedError(f"Cannot open {location}: {_SECURE} is true, and Kerberos is not supported for Ozone")
    if location.path.count("/") < PARTS_OF_PATHS:
        raise RefusedError(f"Cannot open {location}: it names no directory in a bucket (ofs://SERVICE/VOLUME/BUCKET/…)")
    if not (stated := configuration.get(HTTPFS, "").replace(",", " ").split()):
        raise RefusedError(f"Cannot open {location}: {HTTPFS} is not set; it is of the form http://HOST:14000")
    urls, own = [], []
    for entry in stated:
        service, equals, url = entry.rpartition("=")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise RefusedError(f"Cannot use {HTTPFS} = {entry}: it is not of the form http://HOST:PORT")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        whole = f"{parts.scheme}://{parts.hostname}:{port}"
        if not equals:
            urls.append(whole)
        elif location.authority in (service, f"{service}:{DEFAULT_PORT}"):
            own.append(whole)
    if not (gateways := own or urls):
        raise RefusedError(f"Cannot open {location}: {HTTPFS} names no HttpFS of this service of Ozone")
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return HttpFs(location.authority, tuple(gateways), user)
