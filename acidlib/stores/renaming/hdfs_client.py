"""A name node as the file system and data files use it: how it is reached, questions that are given up, errors.

hdfs-native raises an `OSError` without a number where the name node cannot be reached or an answer was lost, the
classes of Python for what is missing or exists, and `RuntimeError` for all else, whose text is that of a Rust value:
the Java class and the message of the name node, with a stack trace.
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
from acidlib.wording import parse_size

Answer = TypeVar("Answer")

# one that is away is asked again for about a minute, as long as a failover may take; hdfs-native's own 15 are 3 minutes
_MOST_TRIES = "dfs.client.failover.max.attempts"
_DEFAULTS = {_MOST_TRIES: "8"}
# for how long hdfs-native keeps connections to data nodes that were read from, in one place for all its clients
_KEPT_SECONDS = 3.0
# hdfs-native itself waits for ever: for a connection that is not refused, and for an answer
_CONNECTION_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 15.0
"""Between two tries of hdfs-native to reach a name node."""
# never emptied: the threads that a client of the parent process would wait for when it ends are not in a fork
_CLIENTS: dict[tuple[int, NameNode], Client] = {}
_GIVEN_UP: list[Client] = []
_forked_at: float | None = None


@dataclass(frozen=True, slots=True)
class NameNode:
    """One name node or name service by its authority, and how it is reached. It may be pickled and compared.

    Names of files are whole URIs here, paths as the name node has them there.

    configuration  names and values of Hadoop's configuration, sorted
    """

    authority: str
    configuration: tuple[tuple[str, str], ...]

    @staticmethod
    def of(authority: str, configuration: Mapping[str, str]) -> NameNode:
        """Return the one of an authority: host and port, or a name service. Opens no connection."""
        return NameNode(authority, tuple(sorted(configuration.items())))

    @property
    def uri(self) -> str:
        """What all names begin with, without a slash at its end."""
        return f"hdfs://{self.authority}"

    def inside(self, uri: str) -> str:
        """Return a path as the name node has it. Raises `RefusedError` for one that does not lie here."""
        rest = uri.removeprefix(self.uri)
        if rest == uri or rest[:1] not in ("", "/") or "\0" in rest:
            raise RefusedError(f"Cannot open {uri!r}: it does not name something on {self.uri}")
        return rest.rstrip("/") or "/"

    def outside(self, path: str) -> str:
        """Return the reverse of `inside`."""
        return self.uri + path

    @property
    def client(self) -> Client:
        """The client of this process. The first one after a fork waits a few seconds, see `_forked`.

        Raises `RetryError` for a host that is not known, `RefusedError` for a name service that is not configured,
        `NotAskedError`, which is an `OSError`, for what does not answer as a name node does.
        """
        found = _CLIENTS.get((os.getpid(), self))
        if found is None:
            settings = _DEFAULTS | dict(self.configuration)
            uri = f"hdfs://{whole_authority(self.authority, settings)}"
            host = _known_host(uri)
            if _forked_at is not None:
                time.sleep(max(0.0, _forked_at + _KEPT_SECONDS + 1 - time.monotonic()))
            with raising_acid_errors("open", self.uri):
                made = Client(uri, settings)
            if host is not None:
                _require_answer(made, host, settings)
            found = _CLIENTS.setdefault((os.getpid(), self), made)
        return found

    def answered(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer to a question that changes nothing; `NotAskedError` when none comes in time.

        The next one gets a client of its own, with a new connection.
        """
        tries = dict(self.configuration).get(_MOST_TRIES, "")
        # the first question of a process waits for a connection and an answer before it is asked
        seconds = _CONNECTION_SECONDS + 2 * _ANSWER_SECONDS
        seconds += _LONGEST_PAUSE_SECONDS * int(tries if tries.isdecimal() else _DEFAULTS[_MOST_TRIES])
        before = _CLIENTS.get((os.getpid(), self))
        try:
            return in_time(seconds, question)
        except NoAnswerError as error:
            if before is not None and _CLIENTS.get((os.getpid(), self)) is before:
                _GIVEN_UP.append(_CLIENTS.pop((os.getpid(), self)))
            raise NotAskedError(f"{self.uri} takes requests and gives {error}") from None

    def mode(self, *, is_directory: bool) -> int:
        """Return the mode of what is created, by fs.permissions.umask-mode; `RefusedError` unless that is octal."""
        text = dict(self.configuration).get("fs.permissions.umask-mode", "022")
        if not re.fullmatch("[0-7]{1,4}", text):
            raise RefusedError(f"Cannot use fs.permissions.umask-mode = {text}: only octal numbers are supported")
        return (0o777 if is_directory else 0o666) & ~int(text, 8)

    def write_options(self) -> WriteOptions:
        """Return how new files are made; never with the directories above them, which may be gone on purpose."""
        properties = dict(self.configuration)
        return WriteOptions(
            block_size=size_or_number("dfs.blocksize", properties),
            replication=size_or_number("dfs.replication", properties),
            permission=self.mode(is_directory=False),
            overwrite=False,
            create_parent=False,
        )


def _forked() -> None:
    """Note, in a process that was just forked off one with clients, from when its inherited connections get old.

    Both processes would send requests over them, and each would read what the other asked for.
    """
    global _forked_at
    if _CLIENTS:
        _forked_at = time.monotonic()


os.register_at_fork(after_in_child=_forked)


def _known_host(uri: str) -> tuple[str, int] | None:
    """Return host and port of a name node; None of a name service. Says at once what hdfs-native tries for minutes."""
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


def _require_answer(made: Client, host: tuple[str, int], settings: Mapping[str, str]) -> None:
    """Raise `NotAskedError` unless something answers; one that refuses connections may be starting, and has time."""
    name = f"{host[0]}:{host[1]}"
    try:
        socket.create_connection(host, _CONNECTION_SECONDS).close()
    except TimeoutError as error:
        raise NotAskedError(f"no connection to {name} within {_CONNECTION_SECONDS:g} s") from error
    except OSError:
        return
    try:
        in_time(_ANSWER_SECONDS, lambda: made.get_file_info("/"))
    except FINAL:
        return  # an answer, too
    except NoAnswerError as error:
        raise NotAskedError(f"{name} takes connections and gives {error}") from None
    except OSError as error:
        hint = "" if asks_for_kerberos(settings) else "; does it ask for Kerberos, of which core-site.xml says nothing?"
        raise NotAskedError(f"{name} does not answer as a name node does: {error}{hint}") from error


class NoAnswerError(Exception):
    """A question was given up."""


def in_time(seconds: float, question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question, which another thread asks; `NoAnswerError` when it takes longer.

    hdfs-native itself waits for the answer of a name node without an end. A call that waits in Rust cannot be ended,
    only left behind, with the thread it waits in. So nothing that changes a file system is called this way: it might be
    done long after it was given up.
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
        _of_thread.asker = None  # it may wait for ever
        if isinstance(given_up, Empty):
            raise NoAnswerError(f"no answer within {seconds:g} s") from None
        raise
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


class _Asker:
    """A thread that asks for another one, as long as that needs it: making one for each question would take longer."""

    def __init__(self) -> None:
        self.process = os.getpid()
        questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

        def ask_all() -> None:  # it must not know us, so that we end when nothing else does
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
    """Return the properties that HDFS goes by: no keys of other stores."""
    return {name: value for name, value in properties.items() if name.startswith(_HDFS)}


def default_authority(configuration: Mapping[str, str]) -> str:
    """Return the authority that `hdfs:///path` has: that of fs.defaultFS. Raises `RefusedError` when it has none."""
    uri = configuration.get(DEFAULT_FS, "")
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    if scheme.lower() != "hdfs" or not authority:
        said = f"is {uri}" if uri else "is not set"
        raise RefusedError(f"Cannot open hdfs:///: {DEFAULT_FS} {said}, which names no name node")
    return authority


def whole_authority(authority: str, configuration: Mapping[str, str]) -> str:
    """Return a name service as it is, a host with its port: with the default port and without, it is one place."""
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
"""The text comes last; it begins with words for the major code, which say nothing more."""
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
"""What the name node answered, as opposed to an answer that did not come; some of these are an `OSError`, too."""


class NotAskedError(OSError):
    """Nothing was asked, as no server would answer."""


def was_not_sent(error: OSError) -> bool:
    """Tell whether nothing was asked at all, since no server could be reached."""
    return isinstance(error, NotAskedError) or str(error).startswith(_NOT_SENT)


def java_class(error: BaseException) -> str:
    """Return the simple name of the Java exception of the name node; empty when there is none."""
    kind, name, _ = _parsed(error)
    return name.rpartition(".")[2] if kind in _RPC else ""


def is_of_data(error: OSError | RuntimeError) -> bool:
    """Tell whether writing bytes failed for the sake of a data node, and may succeed with others."""
    if isinstance(error, RuntimeError):
        return _parsed(error)[0] == "DataTransferError"
    return not isinstance(error, FINAL)


def is_taken(error: BaseException) -> bool:
    """Tell whether the target exists; where it is a file and the source none, the name node says so in other words."""
    return isinstance(error, FileExistsError) or "must both be " in says(error)


def says(error: BaseException) -> str:
    """Return the first line of what was said."""
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
"""What the name node says by a Java exception, by its simple name."""

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
"""What hdfs-native says itself, by the kind of its Rust value."""


def as_acid_error(
    error: BaseException, action: str, path: str, *, missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("write", "list") on `path`, by the rules of local disks.

    A Java exception that is not known is a `RetryError` that names it.
    """
    what = f"Cannot {action} {path}"
    start = f"{what}:"
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
    if name and "is not a directory" in text:  # of ParentNotDirectoryException; AccessControlException says it, too
        return missing(f"{start} it is not, or lies not in, a directory")
    if name in ("AccessControlException", "AuthorizationException"):
        return permission_missing(what, _needs(text))
    if name and "Pathname too long" in text:
        name = "InvalidPathException"
    if not name and kind == "InvalidArgument" and "No NameNode hosts" in text:
        return RefusedError(f"{start} dfs.nameservices does not name its name nodes")
    if not name and text == "ChecksumError":
        kind = text
    unknown = f"the name node said {name}: {{text}}" if name else "the client for HDFS said {text}"
    found, why = _NAME_NODE.get(name, (RetryError, unknown)) if name else _CLIENT.get(kind, (RetryError, unknown))
    return found(f"{start} {why.format(kind=kind, text=text)}")


@contextmanager
def raising_acid_errors(action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
    """Guard a block; a failure of hdfs-native in it is raised as the error that `as_acid_error` names."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise as_acid_error(error, action, path, missing=missing) from error


def refuse_unfinished(path: str, length: int, readable: int) -> None:
    """Raise `RetryError` for a file of `length` bytes of which only `readable` can be read.

    hdfs-native reads what is in finished blocks. A file of which nothing was flushed yet looks empty.
    """
    if readable < length:
        raise RetryError(f"Cannot read {path}: it is still being written: {readable} of its {length} bytes can be read")


def _needs(text: str) -> str:
    """Return what HDFS says of a denial as the local file system says it; in its own words where it has others."""
    found = _DENIAL.match(text)
    if found is None:
        return text
    rights = "rwx" if found["access"] == "ALL" else "".join(_LETTERS[word] for word in found["access"].split("_"))
    owner = f"{found['owner']}:{found['group']}"
    return needs(found["user"], rights, found["path"] or "/", mode=found["mode"], owner=owner)


def _parsed(error: BaseException) -> tuple[str, str, str]:
    """Return kind, first and second text of the Rust value in a `RuntimeError`; all empty where there is none."""
    if not isinstance(error, RuntimeError):
        return "", "", ""
    if (login := _GSSAPI.search(str(error))) is not None:
        return "GSSAPIError", login[1].rpartition("inaccessible: ")[2].rpartition("more information: ")[2], ""
    match = _ANSWER.match(str(error))
    return ("", "", "") if match is None else (match[1], match[2], match[3] or "")
