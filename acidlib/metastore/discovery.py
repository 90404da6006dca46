"""Where metastores are, as a ZooKeeper knows it: each registers itself there for as long as it runs.

Source: Hive 4 `ZooKeeperHiveHelper`, `HiveMetaStore.startMetaStore`: below the namespace each metastore has an
ephemeral node, whose data is `host:port`.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.options import Endpoint, TlsOptions, parse_endpoints
from acidlib.metastore.transport import tls_context

SCHEME = "zookeeper"
_LONGEST_TOLD = 80
# it tells of each attempt to connect; what becomes of them is told by the errors here
_SILENT = logging.getLogger("acidlib.metastore.discovery")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """The servers of a ZooKeeper as `host:port`, and the node below which metastores register, without slash."""

    servers: tuple[str, ...]
    namespace: str

    @property
    def name(self) -> str:
        """For people: the servers and the node."""
        return f"{', '.join(self.servers)} below /{self.namespace}"


def ensemble_of(uris: Sequence[str]) -> Ensemble | None:
    """The ZooKeeper that `zookeeper://host:port/namespace` name, one for each of its servers; None for other URIs.

    Raises RefusedError for such a URI that makes no sense, and where not all of them are of one ZooKeeper.
    """
    texts = [part.strip() for uri in uris for part in uri.split(",") if part.strip()]
    if not any(text.startswith(f"{SCHEME}:") for text in texts):
        return None
    found = [_server(text) for text in texts]
    namespaces = {namespace for _, namespace in found}
    if len(namespaces) > 1:
        raise RefusedError(
            f"Cannot find the metastore: because its URIs name several nodes of a ZooKeeper: "
            f"{', '.join(sorted(f'/{namespace}' for namespace in namespaces))}"
        )
    return Ensemble(servers=tuple(dict.fromkeys(server for server, _ in found)), namespace=namespaces.pop())


def registered(ensemble: Ensemble, *, timeout_seconds: float, tls: TlsOptions | None = None) -> tuple[Endpoint, ...]:
    """The metastores that run now, in the order of the names of their nodes. The servers of a ZooKeeper are one.

    Raises RetryError when the ZooKeeper does not answer in time or knows no metastore, RefusedError when there is no
    such node, what is in it names no metastore, no server has a certificate that passes, or the extra `zookeeper` is
    not installed.
    """
    context = None if tls is None else tls_context(tls)
    with _connected(ensemble, timeout_seconds, context) as client:
        texts = dict(_data(client, ensemble))
    if not texts:
        raise RetryError(f"Cannot find a metastore: because none is registered in the ZooKeeper {ensemble.name}")
    return tuple(dict.fromkeys(_endpoint(ensemble, node, data) for node, data in sorted(texts.items())))


def _server(text: str) -> tuple[str, str]:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _malformed(text, str(error)) from None
    namespace = parts.path.strip("/")
    if parts.scheme != SCHEME:
        raise _malformed(text, f"others begin with {SCHEME}://")
    if not parts.hostname or not port or "@" in parts.netloc:
        raise _malformed(text, "there is not just a host and a port")
    if not namespace or parts.query or parts.fragment or not namespace.isprintable():
        raise _malformed(text, "it names no node")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}", namespace


def _malformed(text: str, reason: str) -> RefusedError:
    return RefusedError(
        f"Cannot use the URI {text!r} of a ZooKeeper: because {reason}; it has to be {SCHEME}://host:port/namespace"
    )


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
def _connected(ensemble: Ensemble, timeout_seconds: float, context: ssl.SSLContext | None) -> Iterator[Any]:
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
