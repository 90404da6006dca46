"""Delegation tokens of HDFS, as Spark has them in the JVM of the driver, or obtained there.

Source: Hadoop `UserGroupInformation`, `FileSystem.addDelegationTokens`, `Credentials`; Spark
`HadoopDelegationTokenManager`, which puts new ones into the credentials of the driver's user in time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from acidlib.errors import RetryError
from acidlib.storage.jvm.hadoop import said

_KEPT_SECONDS = 30.0
_SHARE_OF_LIFE = 0.5
"""After so much of the life of a token of ours a new one is obtained: a task that gets the old one has the rest."""


@dataclass(frozen=True, slots=True)
class _Own:
    token: Any
    until: float


class DelegationTokens:
    """Tokens for name nodes, as Hadoop stores them; asked by each task that is sent, so they are kept for a moment."""

    def __init__(
        self,
        start: Callable[[], tuple[Any, Any]],
        clock: Callable[[], float],
        *,
        kept_seconds: float = _KEPT_SECONDS,
    ) -> None:
        """`start` gives py4j's view of a JVM and the configuration of Hadoop in it; `clock` gives epoch seconds."""
        self._start = start
        self._clock = clock
        self._kept_seconds = kept_seconds
        self._own: dict[str, _Own] = {}
        self._known: tuple[float, tuple[str, ...], bytes] = (float("-inf"), (), b"")
        self._asking = threading.Lock()

    def __call__(self, authorities: tuple[str, ...]) -> bytes:
        """Those for these authorities: `host:port`, or a name service. Raises `RetryError`."""
        with self._asking:
            since, whose, data = self._known
            if whose == authorities and self._clock() - since < self._kept_seconds:
                return data
            try:
                data = self._stored(authorities)
            except Py4JError as error:
                name, says = said(error)
                names = ", ".join(f"hdfs://{one}" for one in authorities)
                raise RetryError(f"Cannot get tokens for {names}: because Hadoop said {name}: {says}") from error
            self._known = self._clock(), authorities, data
            return data

    def _stored(self, authorities: tuple[str, ...]) -> bytes:
        jvm, configuration = self._start()
        hadoop = jvm.org.apache.hadoop
        user = hadoop.security.UserGroupInformation.getCurrentUser()
        spark, handed = user.getCredentials(), hadoop.security.Credentials()
        for authority in authorities:
            files = hadoop.fs.FileSystem.get(hadoop.fs.Path(f"hdfs://{authority}/").toUri(), configuration)
            service = files.getCanonicalServiceName()
            token = spark.getToken(hadoop.io.Text(service))
            if token is None:
                token = self._owned(jvm, files, service, user, configuration)
            # hdfs-native looks for the name by which it connects, where Hadoop has an address
            wanted = hadoop.io.Text(service if service.startswith("ha-hdfs:") else authority)
            handed_token = token.copyToken()
            handed_token.setService(wanted)
            handed.addToken(wanted, handed_token)
        bytes_out = jvm.java.io.ByteArrayOutputStream()
        stream = jvm.java.io.DataOutputStream(bytes_out)
        handed.writeTokenStorageToStream(stream)
        stream.flush()
        return bytes(bytes_out.toByteArray())

    def _owned(self, jvm: Any, files: Any, service: str, user: Any, configuration: Any) -> Any:
        own = self._own.get(service)
        if own is None or self._clock() > own.until:
            fresh = jvm.org.apache.hadoop.security.Credentials()
            files.addDelegationTokens(user.getShortUserName(), fresh)
            token = fresh.getToken(jvm.org.apache.hadoop.io.Text(service))
            # when it ends is known to whom renews it alone
            life = token.renew(configuration) / 1000 - self._clock()
            own = self._own[service] = _Own(token, self._clock() + life * _SHARE_OF_LIFE)
        return own.token
