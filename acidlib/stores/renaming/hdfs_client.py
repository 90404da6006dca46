"""Clients of hdfs-native: names of files, configuration, questions that are given up, errors, and connections."""

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
from acidlib.model.location import Location
from acidlib.stores.filesystem import needs, permission_missing
from acidlib.stores.hadoop.tokens import asks_for_kerberos
from acidlib.wording import parse_size

# --- names ------------------------------------------------------------------------------------------------------------
# Names of files: whole URIs here, paths as the name node has them there.


@dataclass(frozen=True, slots=True)
class NameSpace:
    """That of one name node or name service, by its authority."""

    authority: str

    @property
    def uri(self) -> str:
        """What all names begin with, without a slash at its end."""
        return f"hdfs://{self.authority}"

    def inside(self, uri: str) -> str:
        """A path as the name node has it. Raises `RefusedError` for one that does not lie here."""
        rest = uri.removeprefix(self.uri)
        if rest == uri or rest[:1] not in ("", "/") or "\0" in rest:
            raise RefusedError(f"Cannot open {uri!r}: because it does not name something on {self.uri}")
        return rest.rstrip("/") or "/"

    def outside(self, path: str) -> str:
        """The reverse of `inside`."""
        return self.uri + path


# --- configuration ----------------------------------------------------------------------------------------------------
# What HDFS goes by of Hadoop's configuration.

DEFAULT_FS = "fs.defaultFS"
IMPLEMENTATION = "fs.hdfs.impl"
DEFAULT_PORT = 8020
_HDFS = (DEFAULT_FS, IMPLEMENTATION, "dfs.", "fs.permissions.umask-mode", "hadoop.security.")


def about_hdfs(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that HDFS goes by: no keys of other stores."""
    return {name: value for name, value in properties.items() if name.startswith(_HDFS)}


def default_authority(configuration: Mapping[str, str]) -> str:
    """The authority that `hdfs:///path` has: that of fs.defaultFS. Raises `RefusedError` when it has none."""
    uri = configuration.get(DEFAULT_FS, "")
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    if scheme.lower() != "hdfs" or not authority:
        said = f"is {uri}" if uri else "is not set"
        raise RefusedError(f"Cannot open hdfs:///: because {DEFAULT_FS} {said}, which names no name node")
    return authority


def require_no_view(location: Location, configuration: Mapping[str, str]) -> None:
    """`RefusedError` where Hadoop has a mount table for hdfs: URIs, too (ViewFileSystemOverloadScheme)."""
    name = configuration.get(IMPLEMENTATION, "").rpartition(".")[2]
    if name.startswith("View"):
        raise RefusedError(f"Cannot open {location}: because {IMPLEMENTATION} is {name}: hdfs: is a mount table there")


def whole_authority(authority: str, configuration: Mapping[str, str]) -> str:
    """A name service as it is, a host with its port: with the default port and without, it is one place."""
    known = ("dfs.ha.namenodes.", "dfs.namenode.rpc-address.")
    service = any(f"{prefix}{authority}" in configuration for prefix in known)
    return authority if service or ":" in authority else f"{authority}:{DEFAULT_PORT}"


def client_uri(authority: str, configuration: Mapping[str, str]) -> str:
    """The URI that hdfs-native connects to."""
    return f"hdfs://{whole_authority(authority, configuration)}"


def new_mode(configuration: Mapping[str, str], *, is_directory: bool) -> int:
    """The mode of what is created, by fs.permissions.umask-mode. Raises `RefusedError` unless that is octal."""
    text = configuration.get("fs.permissions.umask-mode", "022")
    if not re.fullmatch("[0-7]{1,4}", text):
        raise RefusedError(f"Cannot use fs.permissions.umask-mode = {text}: because only octal numbers are supported")
    return (0o777 if is_directory else 0o666) & ~int(text, 8)


def replication(configuration: Mapping[str, str]) -> int | None:
    """dfs.replication, if it is set; the name node has a default. Raises `RefusedError` unless it is a number."""
    return _number("dfs.replication", configuration)


def block_size(configuration: Mapping[str, str]) -> int | None:
    """dfs.blocksize in bytes, which may be written as `128m`; the name node has a default."""
    return _number("dfs.blocksize", configuration)


def _number(name: str, configuration: Mapping[str, str]) -> int | None:
    text = configuration.get(name, "").strip().lower()
    if not text:
        return None
    try:
        return parse_size(text)
    except ValueError:
        raise RefusedError(f"Cannot use {name} = {text}: because it is not a number") from None


# --- deadline ---------------------------------------------------------------------------------------------------------
# Questions that are given up: hdfs-native itself waits for the answer of a name node without an end.
#
# A call that waits in Rust cannot be ended, only left behind, with the thread it waits in. So nothing that changes a
# file system is called this way: it might be done long after it was given up.

_Answer = TypeVar("_Answer")


class NoAnswerError(Exception):
    """A question was given up."""


def in_time(seconds: float, question: Callable[[], _Answer]) -> _Answer:
    """The answer to a question, which another thread asks; `NoAnswerError` when it takes longer."""
    asker: _Asker | None = getattr(_of_thread, "asker", None)
    if asker is None or asker.process != os.getpid():  # no thread is taken along through a fork
        asker = _of_thread.asker = _Asker()
    answers: SimpleQueue[tuple[_Answer | None, BaseException | None]] = SimpleQueue()

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
        self.questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=_ask_all, args=(self.questions,), name="acidlib-name-node", daemon=True).start()

    def __del__(self) -> None:
        self.questions.put(None)


def _ask_all(questions: SimpleQueue[Callable[[], None] | None]) -> None:
    while (ask := questions.get()) is not None:
        ask()
        del ask


_of_thread = threading.local()


# --- errors -----------------------------------------------------------------------------------------------------------
# What hdfs-native raises, as the errors of this library.
#
# It has an `OSError` without a number where the name node cannot be reached or an answer was lost, the classes of
# Python for what is missing or exists, and `RuntimeError` for all else, whose text is that of a Rust value: the Java
# class and the message of the name node, with a stack trace.

_ANSWER = re.compile(r'(\w+)\("((?:[^"\\]|\\.)*)"(?:, "((?:[^"\\]|\\.)*)")?')
_GSSAPI = re.compile(r'GSSAPIError\(.*, "((?:[^"\\]|\\.)*)"\)')
"""The text comes last; it begins with words for the major code, which say nothing more."""
_RPC = ("RPCError", "FatalRPCError")
_NOT_SENT = ("Connection refused", "failed to lookup address")
_QUOTAS = frozenset({"NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException"})
_NAMES = frozenset({"InvalidPathException", "FSLimitException$PathComponentTooLongException"})
_LINKS = frozenset({"UnresolvedPathException", "UnresolvedLinkException"})
_LETTERS = {"READ": "r", "WRITE": "w", "EXECUTE": "x"}
_DENIAL = re.compile(
    r"""Permission\ denied:\ user=(?P<user>[^,]+),
    \ access=(?P<access>ALL|(?:READ|WRITE|EXECUTE)(?:_(?:WRITE|EXECUTE))*),
    \ inode="(?P<path>[^"]*)":(?P<owner>[^:]*):(?P<group>[^:]*):(?P<mode>\S+)""",
    re.VERBOSE,
)
_LOGIN = frozenset({"SASLError", "NoSASLMechanism"})

FINAL = (FileNotFoundError, FileExistsError, IsADirectoryError, NotImplementedError, RuntimeError)
"""What the name node answered, as opposed to an answer that did not come; some of these are an `OSError`, too."""


class NotAskedError(OSError):
    """Nothing was asked, as nobody would answer."""


def was_not_sent(error: OSError) -> bool:
    """Whether nothing was asked at all, since nobody could be reached."""
    return isinstance(error, NotAskedError) or str(error).startswith(_NOT_SENT)


def java_class(error: BaseException) -> str:
    """The simple name of the Java exception of the name node; empty when there is none."""
    kind, name, _ = _parsed(error)
    return name.rpartition(".")[2] if kind in _RPC else ""


def is_to_be_repeated(error: BaseException) -> bool:
    """Whether the name node has done nothing yet and wants to be asked again, as one does that is starting."""
    return java_class(error) == "RetriableException"


def is_of_data(error: OSError | RuntimeError) -> bool:
    """Whether writing bytes failed for the sake of a data node, and may succeed with others."""
    if isinstance(error, RuntimeError):
        return _parsed(error)[0] == "DataTransferError"
    return not isinstance(error, FINAL)


def is_taken(error: BaseException) -> bool:
    """Whether the target exists; of a rename between a file and a directory the name node says so in another way."""
    return isinstance(error, FileExistsError) or "must both be " in says(error)


def says(error: BaseException) -> str:
    """The first line of what was said."""
    kind, name, message = _parsed(error)
    return _first_line(message if kind in _RPC else name or str(error))


def as_acid_error(
    error: BaseException, action: str, path: str, *, missing: type[AcidError] = CorruptError
) -> AcidError:
    """The error to raise for a failed `action` ("write", "list") on `path`, by the rules of the local file system.

    A Java exception that is not known is a `RetryError` that names it.
    """
    what = f"Cannot {action} {path}"
    start = f"{what}: because"
    text = says(error)
    if isinstance(error, FileNotFoundError):
        if "Path is not a file" in text:
            return missing(f"{start} it is a directory")
        return missing(f"{start} there is no such file or directory")
    if isinstance(error, IsADirectoryError):
        return missing(f"{start} it is a directory")
    if is_taken(error):
        return ConflictError(f"{start} it already exists")
    if isinstance(error, NotImplementedError):
        return RefusedError(f"{start} the client for HDFS does not support {text}")
    if isinstance(error, OSError):
        return RetryError(f"{start} the name node, or a data node, cannot be reached ({text})")
    name = java_class(error)
    if name:
        return _of_name_node(name, text, what, missing)
    return _of_client(_parsed(error)[0], text, start)


@contextmanager
def raising_acid_errors(action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
    """Runs its body; a failure of hdfs-native in it is raised as the error that `as_acid_error` names."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise as_acid_error(error, action, path, missing=missing) from error


def refuse_unfinished(path: str, length: int, readable: int) -> None:
    """`RetryError` for a file of `length` bytes of which only `readable` can be read.

    hdfs-native reads what is in finished blocks. A file of which nothing was flushed yet looks empty.
    """
    if readable < length:
        raise RetryError(
            f"Cannot read {path}: because it is still being written: {readable} of its {length} bytes can be read"
        )


def _of_name_node(name: str, text: str, what: str, missing: type[AcidError]) -> AcidError:
    start = f"{what}: because"
    if "is not a directory" in text:  # of ParentNotDirectoryException, and AccessControlException says it, too
        return missing(f"{start} it is not, or lies not in, a directory")
    if name in ("AccessControlException", "AuthorizationException"):
        return permission_missing(what, _needs(text))
    if name == "PathIsNotEmptyDirectoryException":
        return ConflictError(f"{start} it is not empty")
    if name in _QUOTAS:
        return RetryError(f"{start} the quota is used up ({text})")
    if name == "RetriableException":
        return RetryError(f"{start} the name node is not ready ({text})")
    if name == "SafeModeException":
        return RetryError(f"{start} the name node is in safe mode")
    if name == "StandbyException":
        return RetryError(f"{start} no name node is active")
    if name in _NAMES or "Pathname too long" in text:
        return RefusedError(f"{start} HDFS does not take that name ({text})")
    if name in _LINKS:
        return RefusedError(f"{start} it is, or passes through, a symbolic link")
    return RetryError(f"{start} the name node said {name}: {text}")


def _needs(text: str) -> str:
    """Return what HDFS says of a denial as the local file system says it; in its own words where it has others."""
    found = _DENIAL.match(text)
    if found is None:
        return text
    rights = "rwx" if found["access"] == "ALL" else "".join(_LETTERS[word] for word in found["access"].split("_"))
    owner = f"{found['owner']}:{found['group']}"
    return needs(found["user"], rights, found["path"] or "/", mode=found["mode"], owner=owner)


def _of_client(kind: str, text: str, start: str) -> AcidError:
    if kind == "InvalidArgument" and "No NameNode hosts" in text:
        return RefusedError(f"{start} dfs.nameservices does not name its name nodes")
    if kind == "GSSAPIError":
        return RetryError(f"{start} there was no log-in with Kerberos ({text})")
    if kind in _LOGIN:
        return RetryError(f"{start} the name node did not take the log-in ({text})")
    if kind in ("UrlParseError", "InvalidArgument", "InvalidPath", "UnsupportedErasureCodingPolicy"):
        return RefusedError(f"{start} the client for HDFS said {kind}: {text}")
    if "ChecksumError" in (kind, text):
        return CorruptError(f"{start} its bytes do not match their checksum")
    if kind in ("DataTransferError", "BlocksNotFound"):
        return RetryError(f"{start} no data node has, or takes, its bytes ({text})")
    return RetryError(f"{start} the client for HDFS said {text}")


def _parsed(error: BaseException) -> tuple[str, str, str]:
    """Kind, first and second text of the Rust value in a `RuntimeError`; all empty where there is none."""
    if not isinstance(error, RuntimeError):
        return "", "", ""
    if (login := _GSSAPI.search(str(error))) is not None:
        return "GSSAPIError", login[1].rpartition("inaccessible: ")[2].rpartition("more information: ")[2], ""
    match = _ANSWER.match(str(error))
    return ("", "", "") if match is None else (match[1], match[2], match[3] or "")


def _first_line(text: str) -> str:
    line = text.replace("\\n", "\n").replace('\\"', '"').split("\n", 1)[0]
    return line.strip()


# --- client -----------------------------------------------------------------------------------------------------------
# Clients of hdfs-native, one per process and name service; they are never taken along through a fork.

Configuration = tuple[tuple[str, str], ...]
"""Names and values of Hadoop's configuration, sorted: what `frozen` makes."""

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
_CLIENTS: dict[tuple[int, str, Configuration], Client] = {}
_GIVEN_UP: list[Client] = []
_forked_at: float | None = None


def _forked() -> None:
    """Notes, in a process that was just forked off one with clients, from when its inherited connections get old.

    Both processes would send requests over them, and each would read what the other asked for.
    """
    global _forked_at
    if _CLIENTS:
        _forked_at = time.monotonic()


os.register_at_fork(after_in_child=_forked)


def frozen(configuration: Mapping[str, str]) -> Configuration:
    """A configuration that can be pickled and compared."""
    return tuple(sorted(configuration.items()))


def client(authority: str, configuration: Configuration) -> Client:
    """The client of this process. The first one after a fork waits a few seconds, see `_forked`.

    Raises `RetryError` for a host that nobody knows, `RefusedError` for a name service that is not configured,
    `NotAskedError`, which is an `OSError`, for what does not answer as a name node does.
    """
    key = os.getpid(), authority, configuration
    found = _CLIENTS.get(key)
    if found is None:
        settings = _DEFAULTS | dict(configuration)
        uri = client_uri(authority, settings)
        host = _known_host(uri)
        _wait_after_fork()
        with raising_acid_errors("open", f"hdfs://{authority}"):
            made = Client(uri, settings)
        if host is not None:
            _require_answer(made, host, settings)
        found = _CLIENTS.setdefault(key, made)
    return found


def answered(authority: str, configuration: Configuration, question: Callable[[], _Answer]) -> _Answer:
    """The answer to a question that changes nothing; `NotAskedError` when none comes in time.

    The next one gets a client of its own, with a new connection.
    """
    tries = dict(configuration).get(_MOST_TRIES, "")
    # the first question of a process waits for a connection and an answer before it is asked
    seconds = _CONNECTION_SECONDS + 2 * _ANSWER_SECONDS
    seconds += _LONGEST_PAUSE_SECONDS * int(tries if tries.isdecimal() else _DEFAULTS[_MOST_TRIES])
    before = _CLIENTS.get((os.getpid(), authority, configuration))
    try:
        return in_time(seconds, question)
    except NoAnswerError as error:
        key = os.getpid(), authority, configuration
        if before is not None and _CLIENTS.get(key) is before:
            _GIVEN_UP.append(_CLIENTS.pop(key))
        raise NotAskedError(f"hdfs://{authority} takes requests and gives {error}") from None


def write_options(configuration: Configuration) -> WriteOptions:
    """How new files are made; never with the directories above them, which somebody may have removed on purpose."""
    properties = dict(configuration)
    return WriteOptions(
        block_size=block_size(properties),
        replication=replication(properties),
        permission=new_mode(properties, is_directory=False),
        overwrite=False,
        create_parent=False,
    )


def _known_host(uri: str) -> tuple[str, int] | None:
    """Host and port of a name node; None of a name service. Says at once what hdfs-native would try for minutes."""
    host, _, port = uri.removeprefix("hdfs://").rpartition(":")
    if not host:
        return None
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise RetryError(
            f"Cannot open {uri}: because {host} is neither a known host nor, in the configuration of Hadoop, a name "
            f"service ({error})"
        ) from error
    return host.strip("[]"), int(port)


def _require_answer(made: Client, host: tuple[str, int], settings: Mapping[str, str]) -> None:
    """Raises `NotAskedError` unless something answers; one that refuses connections may be starting, and has time."""
    name = f"{host[0]}:{host[1]}"
    try:
        socket.create_connection(host, _CONNECTION_SECONDS).close()
    except TimeoutError as error:
        raise NotAskedError(f"no connection to {name} within {_CONNECTION_SECONDS:g} s") from error
    except OSError:
        return
    failed: list[OSError] = []

    def ask() -> None:
        try:
            made.get_file_info("/")
        except (*FINAL, RuntimeError):
            pass  # an answer, too
        except OSError as error:
            failed.append(error)

    asking = threading.Thread(target=ask, name="acidlib-name-node", daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    if asking.is_alive():
        raise NotAskedError(f"{name} takes connections and gives no answer within {_ANSWER_SECONDS:g} s")
    if failed:
        hint = "" if asks_for_kerberos(settings) else "; does it ask for Kerberos, of which core-site.xml says nothing?"
        raise NotAskedError(f"{name} does not answer as a name node does: {failed[0]}{hint}") from failed[0]


def _wait_after_fork() -> None:
    if _forked_at is not None:
        time.sleep(max(0.0, _forked_at + _KEPT_SECONDS + 1 - time.monotonic()))
