"""A metastore of Hive 3.1 or Hive 4 as typed calls, and the discovery of metastores in a ZooKeeper.

Source: Hive 4 `ZooKeeperHiveHelper`, `HiveMetaStore.startMetaStore`: below the namespace each metastore has an
ephemeral node while it runs, with the data `host:port`.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.catalog import CatalogCalls
from acidlib.metastore.compactions import CompactionCalls
from acidlib.metastore.options import ConnectionOptions, Endpoint, TlsOptions, names_zookeeper, parse_endpoints
from acidlib.metastore.transactions import TransactionCalls
from acidlib.metastore.transport import tls_context

_MAX_DATA_BYTES = 80
# kazoo logs each attempt to connect; the errors raised here have their results
_SILENT = logging.getLogger("acidlib.metastore.zookeeper")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Hms(CatalogCalls, TransactionCalls, CompactionCalls):
    """A metastore, with failover over several URIs. Threads may share it: each has a connection of its own.

    Calls that change nothing, or that may run twice, are repeated over a new connection when one is lost; the others
    raise UnknownOutcomeError once something was sent. All calls raise RetryError when no metastore can be reached or
    the server failed, ConflictError when a transaction or lock does not exist any more, RefusedError for a call that
    the server refuses or does not have, CorruptError for an incomplete answer.
    """


def connect_hms(
    uris: Sequence[str],
    options: ConnectionOptions,
    *,
    user: str,
    host: str,
    sleep: Callable[[float], None] = time.sleep,
    shuffle: Callable[[list[Endpoint]], None] | None = None,
) -> Hms:
    """Connect to the first of the URIs (`thrift://host[:port]`) that answers; `user` and `host` identify the client.

    URIs `zookeeper://host:port/namespace` are servers of a ZooKeeper in which metastores register. `shuffle` reorders
    the endpoints where the options allow any order; without it they are tried in their order.

    Raises RetryError when none can be reached, RefusedError for an invalid URI and for servers that are no metastore of
    Hive 3.1 or 4, do not let us in, or have no valid certificate.
    """
    endpoints = parse_endpoints(uris)
    is_zookeeper = names_zookeeper(uris)

    def find() -> tuple[Endpoint, ...]:
        metastores = [*endpoints]
        if is_zookeeper:
            metastores = [*registered(endpoints, options.connect_timeout_seconds, options.zookeeper_tls)]
        if shuffle is not None and options.in_any_order:
            shuffle(metastores)
        return tuple(metastores)

    find_again = find if is_zookeeper else None
    return Hms(find(), options, user=user, host=host, sleep=sleep, find_again=find_again)


def registered(
    servers: tuple[Endpoint, ...], timeout_seconds: float, tls: TlsOptions | None = None
) -> tuple[Endpoint, ...]:
    """Return the running metastores that the servers of a ZooKeeper list, in the order of their nodes' names.

    Raises RetryError when the ZooKeeper does not answer in time or lists no metastore, RefusedError when the node does
    not exist or has no address of a metastore, no server has a valid certificate, or the extra `zookeeper` is not
    installed.
    """
    try:
        from kazoo.client import KazooClient  # an extra
        from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
    except ImportError:
        raise RefusedError(
            "Cannot find the metastore: the module kazoo, which reads a ZooKeeper, is not installed; "
            "pip install 'acidlib[zookeeper]' installs it"
        ) from None
    failed = "Cannot find the metastore: the ZooKeeper"
    addresses = [server.address for server in servers]
    hosts, place = ", ".join(addresses), f"/{servers[0].namespace}"
    context = None if tls is None else tls_context(tls)
    untrusted = ""

    def open_connection(*, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        """Connect in place of kazoo.

        By itself kazoo spends the time for all servers on one of them, trusts the system's certificates besides the
        configured ones, and does not report why TLS failed.
        """
        nonlocal untrusted
        plain = socket.create_connection(address, timeout_seconds / len(servers) / 2)
        if context is None:
            return plain
        try:
            return context.wrap_socket(plain, server_hostname=hostname)
        except OSError as error:
            plain.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                untrusted = f"the certificate of {hostname}:{address[1]} is not valid: {error.verify_message}"
            raise

    handler = SequentialThreadingHandler()
    handler.create_connection = open_connection
    client = KazooClient(hosts=",".join(addresses), timeout=timeout_seconds, handler=handler, logger=_SILENT)
    data: dict[str, bytes] = {}
    try:
        client.start(timeout=timeout_seconds)
        for node in client.get_children(place):
            with suppress(NoNodeError):  # the metastore has ended meanwhile
                data[node] = client.get(f"{place}/{node}")[0]
    except KazooTimeoutError:
        if untrusted:
            raise RefusedError(f"Cannot trust the ZooKeeper {hosts} below {place}: {untrusted}") from None
        raise RetryError(f"{failed} {hosts} did not answer within {timeout_seconds:g} s") from None
    except NoNodeError:
        raise RefusedError(
            f"{failed} {hosts} has no node {place}: hive.zookeeper.namespace names it, and no metastore may have "
            "registered yet"
        ) from None
    except NoAuthError:
        raise RefusedError(f"{failed} {hosts} below {place} does not let us read") from None
    except KazooException as error:
        raise RetryError(f"{failed} {hosts} below {place} failed: {type(error).__name__}") from None
    finally:
        client.stop()
        client.close()
    if not data:
        raise RetryError(f"Cannot find a metastore: none is registered in the ZooKeeper {hosts} below {place}")
    metastores: list[Endpoint] = []
    for node, content in sorted(data.items()):
        try:
            text = content.decode()
            if "," in text or urlsplit(f"thrift://{text}").port is None:
                raise ValueError(text)
            metastores += parse_endpoints([f"thrift://{text}"])
        except (ValueError, RefusedError):
            raise RefusedError(
                f"Cannot find the metastore: the node {place}/{node} of the ZooKeeper {hosts} holds "
                f"{content[:_MAX_DATA_BYTES]!r}, which is not host:port"
            ) from None
    return tuple(dict.fromkeys(metastores))
