"""A name node for the file system and its data files: connections, questions with a limit of time, errors.

hdfs-native raises an `OSError` without a number where the name node cannot be reached or an answer was lost, Python's
own classes for missing and existing paths, and `RuntimeError` for all else. Its text is that of a Rust value: the Java
class and the message of the name node, with a stack trace.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

from hdfs_native import Client, WriteOptions

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.stores.filesystem import needs, permission_missing
from acidlib.stores.hadoop import asks_for_kerberos
from acidlib.waiting import asking
from acidlib.wording import parse_size

Answer = TypeVar("Answer")

# a name node that is away is asked again for about a minute, as long as a failover may take; hdfs-native's own 15 tries
# take 3 minutes
_TRIES_PROPERTY = "dfs.client.failover.max.attempts"
_DEFAULTS = {_TRIES_PROPERTY: "8"}
# the time for which hdfs-native keeps connections to data nodes, in a pool that all its clients share
_KEPT_SECONDS = 3.0
# hdfs-native itself waits without a limit for a connection that is not refused, and for an answer
_CONNECTION_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_MAX_PAUSE_SECONDS = 15.0
"""Seconds between two tries of hdfs-native to reach a name node, at most."""
# never emptied: at its end a client waits for its threads, and a fork does not have those of its parent's clients
_CLIENTS: dict[tuple[int, NameNode], Client] = {}
_GIVEN_UP: list[Client] = []
_forked_at: float | None = None


@dataclass(frozen=True, slots=True)
class NameNode:
    """One name node or name service, with the properties for its connections. It may be pickled and compared.

    Callers name files by whole URIs, the name node by paths.

    authority      host and port, or the name service
    configuration  names and values of Hadoop's configuration, sorted
    """

    authority: str
    configuration: tuple[tuple[str, str], ...]

    @staticmethod
    def of(authority: str, configuration: Mapping[str, str]) -> NameNode:
        """Return the name node, or name service, of an authority. Opens no connection."""
        return NameNode(authority, tuple(sorted(configuration.items())))

    @property
    def uri(self) -> str:
        """The beginning of the URI of each file, without a slash at its end."""
        return f"hdfs://{self.authority}"

    def inside(self, uri: str) -> str:
        """Return the path of a URI on the name node. Raises `RefusedError` for a URI of another one."""
        rest = uri.removeprefix(self.uri)
        if rest == uri or rest[:1] not in ("", "/") or "\0" in rest:
            raise RefusedError(f"Cannot open {uri!r}: it does not name a file on {self.uri}")
        return rest.rstrip("/") or "/"

    def outside(self, path: str) -> str:
        """Return the URI of a path on the name node."""
        return self.uri + path

    @property
    def client(self) -> Client:
        """The client of this process. The first one after a fork waits a few seconds, see `_forked`.

        Raises `RetryError` for a host that is not known, `RefusedError` for a name service that is not configured,
        `NotAskedError`, which is an `OSError`, for a server that does not answer as a name node does.
        """
        client = _CLIENTS.get((os.getpid(), self))
        if client is None:
            settings = _DEFAULTS | dict(self.configuration)
            uri = f"hdfs://{whole_authority(self.authority, settings)}"
            host = _known_host(uri)
            if _forked_at is not None:
                time.sleep(max(0.0, _forked_at + _KEPT_SECONDS + 1 - time.monotonic()))
            with raising_hdfs_errors("open", self.uri):
                client = Client(uri, settings)
            if host is not None:
                _require_answer(client, host, settings)
            client = _CLIENTS.setdefault((os.getpid(), self), client)
        return client

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer to a question that changes nothing; `NotAskedError` when none comes in time.

        Then the next question gets a client of its own, with a new connection.
        """
        tries = dict(self.configuration).get(_TRIES_PROPERTY, "")
        # the first question of a process waits for a connection and an answer before it is asked
        seconds = _CONNECTION_SECONDS + 2 * _ANSWER_SECONDS
        seconds += _MAX_PAUSE_SECONDS * int(tries if tries.isdecimal() else _DEFAULTS[_TRIES_PROPERTY])
        before = _CLIENTS.get((os.getpid(), self))
        try:
            return answer_in_time(seconds, question)
        except NoAnswerError as error:
            if before is not None and _CLIENTS.get((os.getpid(), self)) is before:
                _GIVEN_UP.append(_CLIENTS.pop((os.getpid(), self)))
            raise NotAskedError(f"{self.uri} takes requests and gives {error}") from None

    def mode(self, *, is_directory: bool) -> int:
        """Return the mode of new files and directories; `RefusedError` unless fs.permissions.umask-mode is octal."""
        text = dict(self.configuration).get("fs.permissions.umask-mode", "022")
        if not re.fullmatch("[0-7]{1,4}", text):
            raise RefusedError(f"Cannot use fs.permissions.umask-mode = {text}: only octal numbers are supported")
        return (0o777 if is_directory else 0o666) & ~int(text, 8)

    def write_options(self) -> WriteOptions:
        """Return the options of new files; directories above them are not made, as they may be gone on purpose."""
        properties = dict(self.configuration)
        return WriteOptions(
            block_size=size_or_number("dfs.blocksize", properties),
            replication=size_or_number("dfs.replication", properties),
            permission=self.mode(is_directory=False),
            overwrite=False,
            create_parent=False,
        )


def _forked() -> None:
    """Note the time of the fork, in the child of a process with clients: it waits until inherited connections are old.

    Both processes would send requests over them, and each would read the other's answers.
    """
    global _forked_at
    if _CLIENTS:
        _forked_at = time.monotonic()


os.register_at_fork(after_in_child=_forked)


def _known_host(uri: str) -> tuple[str, int] | None:
    """Return host and port of a name node; None for a name service. An unknown host fails at once, not in minutes."""
    host, _, port = uri.removeprefix("hdfs://").rpartition(":")
    if not host:
        return None
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise RetryError(
            f"Cannot open {uri}: {host} is neither a known host nor, in the configuration of Hadoop, a name "
            f"service ({error})"
        ) from error
    return host.strip("[]"), int(port)


def _require_answer(client: Client, host: tuple[str, int], settings: Mapping[str, str]) -> None:
    """Raise `NotAskedError` unless the name node answers; one that refuses connections may be starting."""
    name = f"{host[0]}:{host[1]}"
    try:
        socket.create_connection(host, _CONNECTION_SECONDS).close()
    except TimeoutError as error:
        raise NotAskedError(f"no connection to {name} within {_CONNECTION_SECONDS:g} s") from error
    except OSError:
        return
    try:
        answer_in_time(_ANSWER_SECONDS, lambda: client.get_file_info("/"))
    except FINAL:
        return  # an error of the name node is an answer, too
    except NoAnswerError as error:
        raise NotAskedError(f"{name} takes connections and gives {error}") from None
    except OSError as error:
        hint = (
            "" if asks_for_kerberos(settings) else "; does it ask for Kerberos, which core-site.xml does not mention?"
        )
        raise NotAskedError(f"{name} does not answer as a name node does: {error}{hint}") from error


class NoAnswerError(Exception):
    """A question was given up."""


def answer_in_time(seconds: float, question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question, which another thread asks; `NoAnswerError` when it takes longer.

    hdfs-native itself waits for the answer of a name node without an end. A call that waits in Rust cannot be ended,
    only left behind, with the thread it waits in. So no change of a file system is called this way: it might be made
    long after it was given up.
    """
    asker: _Asker | None = getattr(_of_thread, "asker", None)
    if asker is None or asker.process != os.getpid():  # no thread is taken along through a fork
        asker = _of_thread.asker = _Asker()
    answers: SimpleQueue[tuple[Answer | None, BaseException | None]] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put((question(), None))
        except BaseException as error:
            answers.put((None, error))

    asker.questions.put(ask)
    try:
        answer, error = answers.get(timeout=seconds)
    except BaseException as given_up:
        _of_thread.asker = None  # its thread may wait for ever
        if isinstance(given_up, Empty):
            raise NoAnswerError(f"no answer within {seconds:g} s") from None
        raise
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


class _Asker:
    """A thread that asks all questions of another thread: making a thread for each question would take longer."""

    def __init__(self) -> None:
        self.process = os.getpid()
        questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

        def ask_all() -> None:  # without a reference to this object, so that it is deleted when its user is
            while (ask := questions.get()) is not None:
                ask()
                del ask

        self.questions = questions
        threading.Thread(target=ask_all, name="acidlib-name-node", daemon=True).start()

    def __del__(self) -> None:
        self.questions.put(None)


_of_thread = threading.local()


DEFAULT_FS = "fs.defaultFS"
IMPLEMENTATION = "fs.hdfs.impl"
DEFAULT_PORT = 8020
_HDFS = (DEFAULT_FS, IMPLEMENTATION, "dfs.", "fs.permissions.umask-mode", "hadoop.security.")


def about_hdfs(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that concern HDFS: no keys of other stores."""
    return {name: value for name, value in properties.items() if name.startswith(_HDFS)}


def default_authority(configuration: Mapping[str, str]) -> str:
    """Return the authority of `hdfs:///path`, which is that of fs.defaultFS; `RefusedError` when that has none."""
    uri = configuration.get(DEFAULT_FS, "")
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    if scheme.lower() != "hdfs" or not authority:
        value = f"is {uri}" if uri else "is not set"
        raise RefusedError(f"Cannot open hdfs:///: {DEFAULT_FS} {value}, which names no name node")
    return authority


def whole_authority(authority: str, configuration: Mapping[str, str]) -> str:
    """Return a name service as it is, a host with its port: so a place has one name, with the default port or not."""
    known = ("dfs.ha.namenodes.", "dfs.namenode.rpc-address.")
    service = any(f"{prefix}{authority}" in configuration for prefix in known)
    return authority if service or ":" in authority else f"{authority}:{DEFAULT_PORT}"


def size_or_number(name: str, configuration: Mapping[str, str]) -> int | None:
    """Return a property that is a number, which may be written as `128m`; None where the name node has a default."""
    text = configuration.get(name, "").strip().lower()
    if not text:
        return None
    try:
        return parse_size(text)
    except ValueError:
        raise RefusedError(f"Cannot use {name} = {text}: it is not a number") from None


_ANSWER = re.compile(r'(\w+)\("((?:[^"\\]|\\.)*)"(?:, "((?:[^"\\]|\\.)*)")?')
_GSSAPI = re.compile(r'GSSAPIError\(.*, "((?:[^"\\]|\\.)*)"\)')
"""The text comes last, after words for the major code that add nothing."""
_RPC = ("RPCError", "FatalRPCError")
_NOT_SENT = ("Connection refused", "failed to lookup address")
_LETTERS = {"READ": "r", "WRITE": "w", "EXECUTE": "x"}
_DENIAL = re.compile(
    r"""Permission\ denied:\ user=(?P<user>[^,]+),
    \ access=(?P<access>ALL|(?:READ|WRITE|EXECUTE)(?:_(?:WRITE|EXECUTE))*),
    \ inode="(?P<path>[^"]*)":(?P<owner>[^:]*):(?P<group>[^:]*):(?P<mode>\S+)""",
    re.VERBOSE,
)
FINAL = (FileNotFoundError, FileExistsError, IsADirectoryError, NotImplementedError, RuntimeError)
"""Errors that are answers of the name node, not lost answers; some of these are an `OSError`, too."""


class NotAskedError(OSError):
    """No request was sent, as no server would answer."""


def was_not_sent(error: OSError) -> bool:
    """Tell whether no request was sent, since no server could be reached."""
    return isinstance(error, NotAskedError) or str(error).startswith(_NOT_SENT)


def java_class(error: BaseException) -> str:
    """Return the simple name of the name node's Java exception; empty without one."""
    kind, name, _ = _parsed(error)
    return name.rpartition(".")[2] if kind in _RPC else ""


def is_of_data(error: OSError | RuntimeError) -> bool:
    """Tell whether writing bytes failed at a data node, and may succeed with others."""
    if isinstance(error, RuntimeError):
        return _parsed(error)[0] == "DataTransferError"
    return not isinstance(error, FINAL)


def is_taken(error: BaseException) -> bool:
    """Tell whether the target exists; the name node has other words for a file as the target of a directory."""
    return isinstance(error, FileExistsError) or "must both be " in says(error)


def says(error: BaseException) -> str:
    """Return the first line of an error's message."""
    kind, name, message = _parsed(error)
    text = message if kind in _RPC else name or str(error)
    return text.replace("\\n", "\n").replace('\\"', '"').split("\n", 1)[0].strip()


_NAME_NODE: dict[str, tuple[type[AcidError], str]] = {
    "PathIsNotEmptyDirectoryException": (ConflictError, "it is not empty"),
    **dict.fromkeys(
        ("NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException"),
        (RetryError, "the quota is used up ({text})"),
    ),
    "RetriableException": (RetryError, "the name node is not ready ({text})"),
    "SafeModeException": (RetryError, "the name node is in safe mode"),
    "StandbyException": (RetryError, "no name node is active"),
    **dict.fromkeys(
        ("InvalidPathException", "FSLimitException$PathComponentTooLongException"),
        (RefusedError, "HDFS does not take that name ({text})"),
    ),
    **dict.fromkeys(
        ("UnresolvedPathException", "UnresolvedLinkException"),
        (RefusedError, "it is, or passes through, a symbolic link"),
    ),
}
"""Errors of the name node, by the simple names of Java exceptions."""

_CLIENT: dict[str, tuple[type[AcidError], str]] = {
    "GSSAPIError": (RetryError, "there was no log-in with Kerberos ({text})"),
    **dict.fromkeys(("SASLError", "NoSASLMechanism"), (RetryError, "the name node did not take the log-in ({text})")),
    **dict.fromkeys(
        ("UrlParseError", "InvalidArgument", "InvalidPath", "UnsupportedErasureCodingPolicy"),
        (RefusedError, "the client for HDFS said {kind}: {text}"),
    ),
    "ChecksumError": (CorruptError, "its bytes do not match their checksum"),
    **dict.fromkeys(
        ("DataTransferError", "BlocksNotFound"), (RetryError, "no data node has, or takes, its bytes ({text})")
    ),
}
"""Errors of hdfs-native itself, by the kind of its Rust value."""


def hdfs_acid_error(
    error: BaseException, action: str, path: str, *, missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("write", "list") on `path`, by the rules of local disks.

    A Java exception that is not known is a `RetryError` that names it.
    """
    cannot = f"Cannot {action} {path}"
    start = f"{cannot}:"
    text = says(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        is_directory = isinstance(error, IsADirectoryError) or "Path is not a file" in text
        return missing(f"{start} {'it is a directory' if is_directory else 'there is no such file or directory'}")
    if is_taken(error):
        return ConflictError(f"{start} it already exists")
    if isinstance(error, NotImplementedError):
        return RefusedError(f"{start} the client for HDFS does not support {text}")
    if isinstance(error, OSError):
        return RetryError(f"{start} the name node, or a data node, cannot be reached ({text})")
    name, kind = java_class(error), _parsed(error)[0]
    if name and "is not a directory" in text:  # in ParentNotDirectoryException, and in AccessControlException
        return missing(f"{start} it is not, or lies not in, a directory")
    if name in ("AccessControlException", "AuthorizationException"):
        return permission_missing(cannot, _needs(text))
    if name and "Pathname too long" in text:
        name = "InvalidPathException"
    if not name and kind == "InvalidArgument" and "No NameNode hosts" in text:
        return RefusedError(f"{start} dfs.nameservices does not name its name nodes")
    if not name and text == "ChecksumError":
        kind = text
    unknown = f"the name node said {name}: {{text}}" if name else "the client for HDFS said {text}"
    error_class, why = _NAME_NODE.get(name, (RetryError, unknown)) if name else _CLIENT.get(kind, (RetryError, unknown))
    return error_class(f"{start} {why.format(kind=kind, text=text)}")


@contextmanager
def raising_hdfs_errors(action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
    """Guard a block; a failure of hdfs-native in it is raised as the error that `hdfs_acid_error` names."""
    try:
        with asking(action, path):
            yield
    except (OSError, RuntimeError) as error:
        raise hdfs_acid_error(error, action, path, missing=missing) from error


def refuse_unfinished(path: str, length: int, readable: int) -> None:
    """Raise `RetryError` for a file of `length` bytes of which only `readable` can be read.

    hdfs-native reads finished blocks only. A file of which nothing was flushed yet looks empty.
    """
    if readable < length:
        raise RetryError(f"Cannot read {path}: it is still being written: {readable} of its {length} bytes can be read")


def _needs(text: str) -> str:
    """Return the text of a denial in the words of `needs`; unchanged where its form is not known."""
    denial = _DENIAL.match(text)
    if denial is None:
        return text
    rights = "rwx" if denial["access"] == "ALL" else "".join(_LETTERS[word] for word in denial["access"].split("_"))
    owner = f"{denial['owner']}:{denial['group']}"
    return needs(denial["user"], rights, denial["path"] or "/", mode=denial["mode"], owner=owner)


def _parsed(error: BaseException) -> tuple[str, str, str]:
    """Return kind, first and second text of the Rust value in a `RuntimeError`; all empty without one."""
    if not isinstance(error, RuntimeError):
        return "", "", ""
    if (login := _GSSAPI.search(str(error))) is not None:
        return "GSSAPIError", login[1].rpartition("inaccessible: ")[2].rpartition("more information: ")[2], ""
    match = _ANSWER.match(str(error))
    return ("", "", "") if match is None else (match[1], match[2], match[3] or "")
