"""What hdfs-native raises, as the errors of this library.

It has an `OSError` without a number where the name node cannot be reached or an answer was lost, the classes of Python
for what is missing or exists, and `RuntimeError` for all else, whose text is that of a Rust value: the Java class and
the message of the name node, with a stack trace.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.storage.filesystem import needs, permission_missing

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
