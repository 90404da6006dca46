"""Where Hadoop finds that mount tables lead, in the JVM of the driver; its exceptions as the errors of this library."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from acidlib.errors import AcidError, MissingError, RefusedError, RetryError
from acidlib.stores.filesystem import permission_missing
from acidlib.stores.unanswered import Unanswered

_MISSING = frozenset({"FileNotFoundException", "NoSuchFileException"})
_NOT_DIRECTORY = frozenset({"ParentNotDirectoryException", "PathIsNotDirectoryException", "NotDirectoryException"})
_DENIED = frozenset({"AccessControlException", "AccessDeniedException", "AuthorizationException"})
_NO_SUCH_NAME = frozenset({"IllegalArgumentException", "InvalidPathException", "URISyntaxException"})
_AWAY = frozenset(
    {
        *("ConnectException", "ConnectTimeoutException", "NoRouteToHostException", "SocketTimeoutException"),
        *("UnknownHostException", "RetriesFailedException"),
    }
)


class Hadoop:
    """Hadoop's `FileSystem` for mount tables, asked by whole URIs; threads share it.

    Pickled it can ask nothing any more.
    """

    def __init__(self, start: Callable[[], tuple[Any, Any]] | None = None) -> None:
        """`start` gives py4j's view of a JVM and the configuration of Hadoop in it. It is called when one is needed."""
        self._start = start
        self._started: tuple[Any, Any] | None = None
        self._starting = threading.Lock()
        self._opened: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[Hadoop], tuple[()]]:
        return Hadoop, ()

    def resolve(self, uri: str, unanswered: Unanswered) -> str:
        """Return the URI behind the name of something that exists in a mount table.

        Where a server behind it is away, all of the table counts as away: what else that server has is not known.
        Raises `MissingError` for what is not there, `RetryError` for what cannot be asked now.
        """
        server = _server(uri)
        why = unanswered.reason(server)
        if why is not None:
            raise RetryError(f"Cannot open {uri}: because {why}")
        jvm, configuration = self._jvm(uri)
        try:
            path = jvm.org.apache.hadoop.fs.Path(uri)
            files = self._opened.get(server)
            if files is None:
                files = jvm.org.apache.hadoop.fs.FileSystem.get(path.toUri(), configuration)
                self._opened[server] = files
            return str(files.resolvePath(path).toString())
        except Py4JError as error:
            name, says = said(error)
            if name in _AWAY:
                unanswered.note(server, f"{server} does not answer ({name}: {says})")
            raise _as_acid_error(name, says, f"Cannot open {uri}") from error

    def _jvm(self, uri: str) -> tuple[Any, Any]:
        if self._start is None:
            raise RefusedError(f"Cannot open {uri}: because only the driver, with the JVM of its Spark, can do so")
        with self._starting:
            if self._started is None:
                self._started = self._start()
            return self._started


def _server(uri: str) -> str:
    scheme, _, rest = uri.partition(":")
    return f"{scheme}://{rest[2:].partition('/')[0] if rest.startswith('//') else ''}"


def said(error: Py4JError) -> tuple[str, str]:
    """The simple name of the Java exception and the first line of its message; py4j's own where it lost the JVM."""
    try:
        if isinstance(error, Py4JJavaError):
            thrown = error.java_exception
            name, says = thrown.getClass().getSimpleName(), thrown.getMessage()
            return str(name), _first_line(says or "")
    except Py4JError as another:
        error = another
    return "", _first_line(str(error)) or type(error).__name__


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()


def _as_acid_error(name: str, says: str, what: str) -> AcidError:
    start = f"{what}: because"
    if name in _MISSING:
        return MissingError(f"{start} there is no such file or directory")
    if name in _NOT_DIRECTORY or "not a directory" in says.lower():
        return MissingError(f"{start} it is not, or lies not in, a directory")
    if name in _DENIED:
        return permission_missing(what, says)
    if name in _NO_SUCH_NAME:
        return RefusedError(f"{start} Hadoop does not take it ({says})")
    if not name:
        return RetryError(f"{start} the JVM of Spark does not answer ({says})")
    return RetryError(f"{start} Hadoop said {name}: {says}")
