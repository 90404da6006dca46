"""Clients of hdfs-native, one per process and name service; they are never taken along through a fork."""

import os
import socket
from collections.abc import Mapping

from hdfs_native import Client, WriteOptions

from acidlib.errors import RefusedError, RetryError
from acidlib.storage.hdfs.configuration import block_size, client_uri, new_mode, replication
from acidlib.storage.hdfs.errors import raising_acid_errors

Configuration = tuple[tuple[str, str], ...]
"""Names and values of Hadoop's configuration, sorted: what `frozen` makes."""

# one that is away is asked again for about a minute, as long as a failover may take; hdfs-native's own 15 are 3 minutes
_DEFAULTS = {"dfs.client.failover.max.attempts": "8"}
# never emptied: the threads that a client of the parent process would wait for when it ends are not in a fork
_CLIENTS: dict[tuple[int, str, Configuration], Client] = {}


def frozen(configuration: Mapping[str, str]) -> Configuration:
    """A configuration that can be pickled and compared."""
    return tuple(sorted(configuration.items()))


def client(authority: str, configuration: Configuration) -> Client:
    """The client of this process. Raises `RetryError` for a host that nobody knows, `RefusedError` for no service."""
    key = os.getpid(), authority, configuration
    found = _CLIENTS.get(key)
    if found is None:
        settings = _DEFAULTS | dict(configuration)
        uri = client_uri(authority, settings)
        _check_host(uri)
        with raising_acid_errors("open", f"hdfs://{authority}"):
            found = _CLIENTS.setdefault(key, Client(uri, settings))
    return found


def path_inside(authority: str, path: str) -> str:
    """The path of a URI as the name node has it. Raises `RefusedError` for one that is not of this authority."""
    root = f"hdfs://{authority}"
    rest = path.removeprefix(root)
    if rest == path or rest[:1] not in ("", "/") or "\0" in rest:
        raise RefusedError(f"Cannot open {path!r}: because it does not name something on {root}")
    return rest.rstrip("/") or "/"


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


def _check_host(uri: str) -> None:
    """Says at once what hdfs-native would try for minutes."""
    host, _, port = uri.removeprefix("hdfs://").rpartition(":")
    if not host:
        return
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise RetryError(
            f"Cannot open {uri}: because {host} is neither a known host nor, in the configuration of Hadoop, a name "
            f"service ({error})"
        ) from error
