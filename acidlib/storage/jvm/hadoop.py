"""Hadoop's file systems in the JVM of the driver, and its exceptions as the errors of this library."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from acidlib.errors import AcidError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.storage.filesystem import permission_missing
from acidlib.storage.unanswered import Unanswered

_Answer = TypeVar("_Answer")
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
_NO_CLASS = ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException")


@dataclass(frozen=True, slots=True)
class InHadoop:
    """A path in Hadoop: py4j's view of the JVM, the path's `FileSystem` there, and its `Path`."""

    jvm: Any
    files: Any
    path: Any


class Hadoop:
    """What Hadoop's `FileSystem` says of paths, by whole URIs; threads share it.

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

    def require(self, uri: str, unanswered: Unanswered) -> None:
        """Raises `RefusedError` where Hadoop has no file system for a URI, `RetryError` where it cannot be opened."""
        self.ask(uri, "open", lambda _: None, unanswered=unanswered)

    def resolve(self, uri: str, unanswered: Unanswered) -> str:
        """The URI behind the name of something that exists in a mount table; one of no mount table is given back.

        Where a server behind it is away, all of the table counts as away: nobody knows what else that server has.
        """

        def resolved(here: InHadoop) -> str:
            return str(here.files.resolvePath(here.path).toString())

        return self.ask(uri, "open", resolved, missing=MissingError, unanswered=unanswered)

    def ask(
        self,
        uri: str,
        action: str,
        question: Callable[[InHadoop], _Answer],
        *,
        missing: type[AcidError] = CorruptError,
        unanswered: Unanswered | None = None,
    ) -> _Answer:
        """The answer to a question about a URI.

        Its failures are raised as those of `storage.filesystem.FileSystem`; `action` names what was tried ("list").
        A server that is in `unanswered` is not asked, and one that is waited for in vain is noted there.
        """
        server = _server(uri)
        why = None if unanswered is None else unanswered.reason(server)
        if why is not None:
            raise RetryError(f"Cannot {action} {uri}: because {why}")
        jvm, configuration = self._jvm(uri)
        try:
            path = jvm.org.apache.hadoop.fs.Path(uri)
            files = self._opened.get(server)
            if files is None:
                files = jvm.org.apache.hadoop.fs.FileSystem.get(path.toUri(), configuration)
                self._opened[server] = files
            return question(InHadoop(jvm, files, path))
        except Py4JError as error:
            name, says = said(error)
            if unanswered is not None and name in _AWAY:
                unanswered.note(server, f"{server} does not answer ({name}: {says})")
            raise _as_acid_error(name, says, f"Cannot {action} {uri}", uri, missing) from error

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


def _as_acid_error(name: str, says: str, what: str, uri: str, missing: type[AcidError]) -> AcidError:
    start = f"{what}: because"
    if name in _MISSING:
        return missing(f"{start} there is no such file or directory")
    if name in _NOT_DIRECTORY or "not a directory" in says.lower():
        return missing(f"{start} it is not, or lies not in, a directory")
    if name in _DENIED:
        return permission_missing(what, says)
    if name in _NO_CLASS or any(kind in says for kind in _NO_CLASS):
        scheme = uri.partition(":")[0]
        return RefusedError(
            f"{start} Spark's Hadoop has no file system for {scheme}: ({says}); bring its jar by --packages or --jars"
        )
    if name in _NO_SUCH_NAME:
        return RefusedError(f"{start} Hadoop does not take it ({says})")
    if not name:
        return RetryError(f"{start} the JVM of Spark does not answer ({says})")
    return RetryError(f"{start} Hadoop said {name}: {says}")
