"""A Hive metastore, of Hive 3.1 or Hive 4, as typed calls; and where it is, as a ZooKeeper knows it.

Source: Hive 4 `ZooKeeperHiveHelper`, `HiveMetaStore.startMetaStore`: below the namespace each metastore has an
ephemeral node for as long as it runs, whose data is `host:port`.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.catalog import CatalogCalls
from acidlib.metastore.compactions import CompactionCalls
from acidlib.metastore.options import (
    ConnectionOptions,
    Endpoint,
    Ensemble,
    TlsOptions,
    ensemble_of,
    parse_endpoints,
)
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
    ensemble = ensemble_of(uris)

    def find() -> tuple[Endpoint, ...]:
        if ensemble is None:
            endpoints = list(parse_endpoints(uris))
        else:
            seconds, tls = options.connect_timeout_seconds, options.zookeeper_tls
            endpoints = list(registered(ensemble, timeout_seconds=seconds, tls=tls))
        if shuffle is not None and options.in_any_order:
            shuffle(endpoints)
        return tuple(endpoints)

    find_again = None if ensemble is None else find
    return Hms(find(), options, user=user, host=host, sleep=sleep, find_again=find_again)


def registered(ensemble: Ensemble, *, timeout_seconds: float, tls: TlsOptions | None = None) -> tuple[Endpoint, ...]:
    """Return the metastores that run now, in the order of the names of their nodes. The servers of a ZooKeeper are one.

    Raises RetryError when the ZooKeeper does not answer in time or knows no metastore, RefusedError when there is no
    such node, what is in it names no metastore, no server has a certificate that passes, or the extra `zookeeper` is
    not installed.
    """
    context = None if tls is None else tls_context(tls)
    with _asking(ensemble, timeout_seconds, context) as client:
        texts = dict(_data(client, ensemble))
    if not texts:
        raise RetryError(f"Cannot find a metastore: because none is registered in the ZooKeeper {ensemble.name}")
    return tuple(dict.fromkeys(_endpoint(ensemble, node, data) for node, data in sorted(texts.items())))


class _Connecting:
    """How kazoo makes its connections, in place of what it does by itself.

    That gives one server all the time that there is for all of them, trusts the system's certificates besides those
    that it is told, and does not say why TLS failed.
    """

    def __init__(self, timeout_seconds: float, context: ssl.SSLContext | None) -> None:
        self._timeout_seconds = timeout_seconds
        self._context = context
        self.untrusted: str | None = None
        """Why a server was not trusted."""

    def __call__(self, *, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        plain = socket.create_connection(address, self._timeout_seconds)
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            self.untrusted = f"the certificate of {hostname}:{address[1]} does not pass: {error.verify_message}"
            raise
        except OSError:
            plain.close()
            raise


@contextmanager
def _asking(ensemble: Ensemble, timeout_seconds: float, context: ssl.SSLContext | None) -> Iterator[Any]:
    try:
        from kazoo.client import KazooClient  # an extra
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
    except ImportError:
        raise RefusedError(
            "Cannot find the metastore: because the module kazoo is not installed, with which a ZooKeeper is asked; "
            "pip install 'acidlib[zookeeper]' installs it"
        ) from None
    handler = SequentialThreadingHandler()
    handler.create_connection = connecting = _Connecting(timeout_seconds / len(ensemble.servers) / 2, context)
    client = KazooClient(hosts=",".join(ensemble.servers), timeout=timeout_seconds, handler=handler, logger=_SILENT)
    try:
        client.start(timeout=timeout_seconds)
        yield client
    except KazooTimeoutError:
        if connecting.untrusted is not None:
            raise RefusedError(f"Cannot trust the ZooKeeper {ensemble.name}: because {connecting.untrusted}") from None
        raise RetryError(
            f"Cannot find the metastore: because the ZooKeeper {', '.join(ensemble.servers)} did not answer within "
            f"{timeout_seconds:g} s"
        ) from None
    except KazooException as error:
        raise RetryError(
            f"Cannot find the metastore: because the ZooKeeper {ensemble.name} failed: {type(error).__name__}"
        ) from None
    finally:
        client.stop()
        client.close()


def _data(client: Any, ensemble: Ensemble) -> Iterator[tuple[str, bytes]]:
    from kazoo.exceptions import NoAuthError, NoNodeError

    place = f"/{ensemble.namespace}"
    try:
        for node in client.get_children(place):
            try:
                yield node, client.get(f"{place}/{node}")[0]
            except NoNodeError:
                continue  # it has ended meanwhile
    except NoNodeError:
        raise RefusedError(
            f"Cannot find the metastore: because the ZooKeeper {', '.join(ensemble.servers)} has no node {place}: "
            "hive.zookeeper.namespace names it, and no metastore may have registered yet"
        ) from None
    except NoAuthError:
        raise RefusedError(
            f"Cannot find the metastore: because the ZooKeeper {ensemble.name} does not let us read"
        ) from None


def _endpoint(ensemble: Ensemble, node: str, data: bytes) -> Endpoint:
    try:
        text = data.decode()
        if "," not in text and urlsplit(f"thrift://{text}").port is not None:
            (endpoint,) = parse_endpoints([f"thrift://{text}"])
            return endpoint
    except (ValueError, RefusedError):
        pass
    raise RefusedError(
        f"Cannot find the metastore: because the node /{ensemble.namespace}/{node} of the ZooKeeper "
        f"{', '.join(ensemble.servers)} holds {data[:_LONGEST_TOLD]!r}, which is not host:port"
    )
