"""What a server's exceptions mean to a caller.

Source of the exceptions: Hive `HMSHandler` and `TxnHandler`.
"""

from __future__ import annotations

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.metastore.connection import APPLICATION_ERRORS, UNKNOWN_METHOD

_MISSING_RESULT = 5
_LONGEST = 300

CONFLICTS = frozenset({"NoSuchTxnException", "TxnAbortedException", "TxnOpenException", "NoSuchLockException"})


class UnknownCallError(RefusedError):
    """The server has no such call."""


def class_name(error: Exception) -> str:
    """Hive's name of a server's exception; both Thrift libraries name their classes so."""
    return type(error).__name__


def is_unknown_method(error: Exception) -> bool:
    """Whether the server said that it has no such call."""
    return isinstance(error, APPLICATION_ERRORS) and getattr(error, "type", None) == UNKNOWN_METHOD


def translate(error: Exception, *, action: str, call: str, uri: str) -> AcidError:
    """The error to raise for an exception of the server. `action` completes "Cannot ..."."""
    if is_unknown_method(error):
        return UnknownCallError(f"Cannot {action}: because the metastore {uri} has no call {call}")
    if isinstance(error, APPLICATION_ERRORS):
        if getattr(error, "type", None) == _MISSING_RESULT:
            return CorruptError(f"Cannot read the answer of {call}: because it is empty (asked of {uri})")
        return RetryError(f"Cannot {action}: because the metastore {uri} failed: {one_line(error)}")
    reason = one_line(error)
    if class_name(error) in CONFLICTS:
        return ConflictError(f"Cannot {action}: because {reason}")
    if class_name(error) == "MetaException":
        return RetryError(f"Cannot {action}: because the metastore {uri} says: {reason}")
    return RefusedError(f"Cannot {action}: because {reason}")


def one_line(error: Exception) -> str:
    """The first line of a server's text, without the Java class in front; at most 300 characters."""
    text = error.message if hasattr(error, "message") else str(error)
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    line = lines[0] if lines else class_name(error)
    head, colon, rest = line.partition(": ")
    if colon and rest and " " not in head and "." in head and head.endswith(("Exception", "Error")):
        line = rest
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
