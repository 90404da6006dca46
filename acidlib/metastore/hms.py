"""A Hive metastore, of Hive 3.1 or Hive 4, as typed calls; and where it is, as a ZooKeeper knows it.

Source: Hive 4 `ZooKeeperHiveHelper`, `HiveMetaStore.startMetaStore`: below the namespace each metastore has an
ephemeral node for as long as it runs, whose data is `host:port`.
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

_LONGEST_TOLD = 80
# it tells of each attempt to connect; what becomes of them is told by the errors here
_SILENT = logging.getLogger("acidlib.metastore.zookeeper")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Hms(CatalogCalls, TransactionCalls, CompactionCalls):
    """One metastore, with failover over several URIs. Threads may share it: each has a connection of its own.

    Calls that change nothing, or the same once or twice, are repeated over new connections when one is lost; the others
    raise UnknownOutcomeError once something was sent. All calls raise RetryError when no metastore can be reached or
    the server failed, ConflictError when a transaction or lock does not exist any more, RefusedError for what the
    server refuses or does not know, CorruptError for an answer that is not whole.
    """


def connect(
    uris: Sequence[str],
    options: ConnectionOptions,
    *,
    user: str,
    host: str,
    sleep: Callable[[float], None] = time.sleep,
    shuffle: Callable[[list[Endpoint]], None] | None = None,
) -> Hms:
    """Connect to the first of the URIs (`thrift://host[:port]`) that answers; `user` and `host` are who asks.

    URIs `zookeeper://host:port/namespace` are those of a ZooKeeper where the metastores register. `shuffle` is used
    where the options say that the URIs have no order; without it they are tried as they are given.

    Raises RetryError when none can be reached, RefusedError for a URI that makes no sense and for servers that are
    no metastore of Hive 3.1 or 4, do not let us in, or show a certificate that does not pass.
    """
    given = parse_endpoints(uris)
    is_zookeeper = names_zookeeper(uris)

    def find() -> tuple[Endpoint, ...]:
        endpoints = list(given)
        if is_zookeeper:
            endpoints = list(registered(given, options.connect_timeout_seconds, options.zookeeper_tls))
        if shuffle is not None and options.in_any_order:
            shuffle(endpoints)
        return tuple(endpoints)

    find_again = find if is_zookeeper else None
    return Hms(find(), options, user=user, host=host, sleep=sleep, find_again=find_again)


def registered(
    servers: tuple[Endpoint, ...], timeout_seconds: float, tls: TlsOptions | None = None
) -> tuple[Endpoint, ...]:
    """Return the metastores that run now, in the order of the names of their nodes. The servers are of one ZooKeeper.

    Raises RetryError when the ZooKeeper does not answer in time or knows no metastore, RefusedError when there is no
    such node, what is in it names no metastore, no server has a certificate that passes, or the extra `zookeeper` is
    not installed.
    """
    try:
        from kazoo.client import KazooClient  # an extra
        from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
    except ImportError:
        raise RefusedError(
            "Cannot find the metastore: the module kazoo is not installed, with which a ZooKeeper is asked; "
            "pip install 'acidlib[zookeeper]' installs it"
        ) from None
    failed = "Cannot find the metastore: the ZooKeeper"
    addresses = [server.address for server in servers]
    hosts, place = ", ".join(addresses), f"/{servers[0].namespace}"
    context = None if tls is None else tls_context(tls)
    untrusted = ""

    def connect_one(*, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        """Connect in place of kazoo.

        That gives one server all the time that there is for all of them, trusts the system's certificates besides
        those that it is told, and does not say why TLS failed.
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
                untrusted = f"the certificate of {hostname}:{address[1]} does not pass: {error.verify_message}"
            raise

    handler = SequentialThreadingHandler()
    handler.create_connection = connect_one
    client = KazooClient(hosts=",".join(addresses), timeout=timeout_seconds, handler=handler, logger=_SILENT)
    data: dict[str, bytes] = {}
    try:
        client.start(timeout=timeout_seconds)
        for node in client.get_children(place):
            with suppress(NoNodeError):  # it has ended meanwhile
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
    found: list[Endpoint] = []
    for node, content in sorted(data.items()):
        try:
            text = content.decode()
            if "," in text or urlsplit(f"thrift://{text}").port is None:
                raise ValueError(text)
            found += parse_endpoints([f"thrift://{text}"])
        except (ValueError, RefusedError):
            raise RefusedError(
                f"Cannot find the metastore: the node {place}/{node} of the ZooKeeper {hosts} holds "
                f"{content[:_LONGEST_TOLD]!r}, which is not host:port"
            ) from None
    return tuple(dict.fromkeys(found))
