"""Delegation tokens of HDFS, obtained in the JVM of the driver with its ticket; without one, those that it was given.

A driver that YARN has started without a keytab has only tokens, and nobody gets new ones by them.

Source: Hadoop `UserGroupInformation`, `FileSystem.addDelegationTokens`, `Credentials`.
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
_GIVEN_SECONDS = 3600.0
"""For about so long one that was given is handed on before it is tried again whether there is a ticket by now."""
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
        given, handed = user.getCredentials(), hadoop.security.Credentials()
        for authority in authorities:
            files = hadoop.fs.FileSystem.get(hadoop.fs.Path(f"hdfs://{authority}/").toUri(), configuration)
            service = files.getCanonicalServiceName()
            token = self._token(jvm, files, service, user.getShortUserName(), given)
            # hdfs-native looks for the name by which it connects, where Hadoop has an address
            wanted = hadoop.io.Text(service if service.startswith("ha-hdfs:") else authority)
            renamed = token.copyToken()
            renamed.setService(wanted)
            handed.addToken(wanted, renamed)
        data = jvm.java.io.ByteArrayOutputStream()
        stream = jvm.java.io.DataOutputStream(data)
        handed.writeTokenStorageToStream(stream)
        stream.flush()
        return bytes(data.toByteArray())

    def _token(self, jvm: Any, files: Any, service: str, renewer: str, given: Any) -> Any:
        own = self._own.get(service)
        if own is not None and self._clock() < own.until:
            return own.token
        name = jvm.org.apache.hadoop.io.Text(service)
        fresh = jvm.org.apache.hadoop.security.Credentials()
        try:
            files.addDelegationTokens(renewer, fresh)
            token = fresh.getToken(name)
            # when it ends is told only to whom renews it
            life = token.renew(files.getConf()) / 1000 - self._clock()
        except Py4JError:
            token = given.getToken(name)
            if token is None:
                raise
            life = _GIVEN_SECONDS
        self._own[service] = _Own(token, self._clock() + life * _SHARE_OF_LIFE)
        return token
