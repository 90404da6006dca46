"""What HDFS goes by of Hadoop's configuration."""

import re
from collections.abc import Mapping

from acidlib.errors import RefusedError
from acidlib.model.location import Location

DEFAULT_FS = "fs.defaultFS"
IMPLEMENTATION = "fs.hdfs.impl"
DEFAULT_PORT = 8020
_HDFS = (DEFAULT_FS, IMPLEMENTATION, "dfs.", "fs.permissions.umask-mode", "hadoop.security.")
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


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
    match = re.fullmatch(r"(\d+)([kmgt]?)", text)
    if match is None:
        raise RefusedError(f"Cannot use {name} = {text}: because it is not a number")
    return int(match[1]) << _UNITS[match[2]]
