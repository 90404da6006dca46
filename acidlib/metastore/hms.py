"""A Hive metastore, of Hive 3.1 or Hive 4, as typed calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from acidlib.metastore.catalog import CatalogCalls
from acidlib.metastore.compactions import CompactionCalls
from acidlib.metastore.connection import FailoverClient
from acidlib.metastore.discovery import ensemble_of, registered
from acidlib.metastore.options import ConnectionOptions, Endpoint, parse_endpoints
from acidlib.metastore.transactions import LockCalls, TransactionCalls


class Hms(CatalogCalls, TransactionCalls, LockCalls, CompactionCalls):
    """One metastore, with failover over several URIs. Threads may share it: each has a connection of its own.

    Calls that change nothing, or the same once or twice, are repeated over new connections when one is lost; the others
    raise UnknownOutcomeError once something was sent. All calls raise RetryError when no metastore can be reached or
    the server failed, ConflictError when a transaction or lock does not exist any more, RefusedError for what the
    server refuses or does not know, CorruptError for an answer that is not whole.
    """

    @property
    def version(self) -> str:
        """The version the server reports: `3.0` from Hive 3.0 and 3.1, its own from Hive 4; "" if none."""
        return self._client.version

    @property
    def uri(self) -> str:
        """The URI that this thread is connected to, or was last."""
        return self._client.endpoint.uri

    def close(self) -> None:
        """Ends the connections; a later call opens a new one."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    uris: Sequence[str],
    options: ConnectionOptions,
    *,
    user: str,
    host: str,
    sleep: Callable[[float], None] = time.sleep,
    shuffle: Callable[[list[Endpoint]], None] | None = None,
) -> Hms:
    """Connects to the first of the URIs (`thrift://host[:port]`) that answers; `user` and `host` are who asks.

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
    return Hms(FailoverClient(find(), options, user=user, host=host, sleep=sleep, find_again=find_again))
