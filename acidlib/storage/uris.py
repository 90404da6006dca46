"""Opening a file system by URI: only local ones are built."""

import os
import re
from pathlib import Path

from acidlib.errors import RefusedError
from acidlib.storage.filesystem import RenameFileSystem
from acidlib.storage.local import LocalFileSystem

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MISSING_CLIENT = {
    "hdfs": "HDFS",
    "webhdfs": "HDFS",
    "s3": "Amazon S3",
    "s3a": "Amazon S3",
    "s3n": "Amazon S3",
    "gs": "Google Cloud Storage",
    "abfs": "Azure Data Lake Storage",
    "abfss": "Azure Data Lake Storage",
    "wasb": "Azure Blob Storage",
    "wasbs": "Azure Blob Storage",
}


def local_path(uri: str) -> str:
    """The absolute local path of a bare path or a `file:` URI.

    As in Hadoop's Path, nothing is percent-decoded: the `%3A` of an escaped partition directory stays as it is, and a
    `?` or `#` is part of the name. `file:/a`, `file:///a` and `file://localhost/a` mean the same. Symbolic links in
    the location itself are resolved here, once, so that everything below it can refuse them. Raises `RefusedError`
    for another scheme, another host, or an empty path.
    """
    return os.path.realpath(_named_path(uri))


def local_path_below(uri: str, above: str) -> str:
    """As `local_path`, for a location that may be named below another one: then it has to lie there.

    Anybody who may write to the table may make a partition's directory. Raises `RefusedError` where a symbolic link
    between the two leads elsewhere; a location that is named elsewhere is taken by its name.
    """
    found = local_path(uri)
    try:
        root = os.path.normpath(_named_path(above))
    except RefusedError:
        return found  # that one lies on another file system
    named = os.path.normpath(_named_path(uri))
    if named.startswith(f"{root}/") and found != os.path.realpath(root) + named[len(root) :]:
        raise RefusedError(f"Cannot use {named}: because a symbolic link below {root} leads from there to {found}")
    return found


def _named_path(uri: str) -> str:
    match = _SCHEME.match(uri)
    rest = uri
    if match is not None:
        scheme = match.group(1).lower()
        if scheme != "file":
            kind = _MISSING_CLIENT.get(scheme)
            missing = f"a client for {kind} is not built yet" if kind else f"the scheme {scheme!r} is not known"
            raise RefusedError(f"Cannot open {uri}: because {missing}; only local paths and file: URIs are supported")
        rest = uri[match.end() :]
        if rest.startswith("//"):
            host, slash, tail = rest[2:].partition("/")
            if host not in ("", "localhost"):
                raise RefusedError(f"Cannot open {uri}: because a file: URI names this machine only, not {host!r}")
            rest = slash + tail
        if not rest.startswith("/"):
            raise RefusedError(f"Cannot open {uri}: because a file: URI needs an absolute path")
    if not rest or "\0" in rest:
        raise RefusedError(f"Cannot open {uri!r}: because it names no path")
    return str(Path(rest).expanduser().absolute()) if match is None else rest


def open_filesystem(uri: str) -> tuple[RenameFileSystem, str]:
    """The file system of a URI and the absolute path in it; a bare path is local, see `local_path`.

    Raises `RefusedError` naming what is missing when the scheme is not supported.
    """
    return LocalFileSystem(), local_path(uri)
