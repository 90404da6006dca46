"""Operating system errors told as errors of this library, in one place."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError

_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


def as_acid_error(error: OSError, action: str, path: str, *, missing: type[AcidError] = CorruptError) -> AcidError:
    """The error to raise for a failed `action` ("write", "list") on `path`.

    Missing paths become `missing`, existing targets `ConflictError`, symbolic links and impossible names
    `RefusedError`, everything that may pass (space, permission, input/output) `RetryError`.
    """
    start = f"Cannot {action} {path}: because"
    code = error.errno
    if code == errno.ENOENT:
        return missing(f"{start} there is no such file or directory")
    if code in (errno.ENOTDIR, errno.EISDIR):
        return missing(f"{start} {'it is not' if code == errno.ENOTDIR else 'it is'} a directory")
    if code in (errno.EEXIST, errno.ENOTEMPTY):
        return ConflictError(f"{start} it already exists")
    if code == errno.ELOOP:
        return RefusedError(f"{start} it is, or passes through, a symbolic link")
    if code in (errno.ENAMETOOLONG, errno.EILSEQ):
        return RefusedError(f"{start} the file system does not take that name ({os.strerror(code)})")
    if code in _SPACE:
        return RetryError(f"{start} no space is left on the device, or the quota is used up")
    if code in _DENIED:
        return RetryError(f"{start} the permission is missing")
    if code == errno.EROFS:
        return RetryError(f"{start} the file system is read-only")
    return RetryError(f"{start} the operating system said: {error.strerror or error}")


@contextmanager
def told_as_acid_error(action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
    """Runs its body and turns an `OSError` of it into the error that `as_acid_error` names."""
    try:
        yield
    except OSError as error:
        raise as_acid_error(error, action, path, missing=missing) from error
