"""Delegation tokens of HDFS, obtained in the JVM of the driver with its ticket; without one, those that it was given.

A driver that YARN has started without a keytab has only tokens, and nobody gets new ones by them.

Source: Hadoop `UserGroupInformation`, `FileSystem.addDelegationTokens`, `Credentials`.
"""

from __future__ import annotations

import os
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
    """Obtained here, and when a new one is due, and when it ends, in epoch seconds."""

    token: Any
    due: float
    ends: float


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
        login = _Login(jvm, configuration, user)
        given, handed = user.getCredentials(), hadoop.security.Credentials()
        for authority in authorities:
            root = hadoop.fs.Path(f"hdfs://{authority}/").toUri()
            service = hadoop.fs.FileSystem.get(root, configuration).getCanonicalServiceName()
            token = self._token(login, root, service, given)
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

    def _token(self, login: _Login, root: Any, service: str, given: Any) -> Any:
        own = self._own.get(service)
        now = self._clock()
        if own is not None and now < own.due:
            return own.token
        try:
            token, ends = login.obtain(root, service)
        except Py4JError:
            if own is not None and now < own.ends:
                return own.token
            # whoever has given it may have given another one by now
            token = given.getToken(login.jvm.org.apache.hadoop.io.Text(service))
            if token is None:
                raise
            return token
        self._own[service] = _Own(token, now + (ends - now) * _SHARE_OF_LIFE, ends)
        return token


@dataclass(frozen=True, slots=True)
class _Login:
    """Whom name nodes give tokens: whoever shows a ticket, not a token."""

    jvm: Any
    configuration: Any
    user: Any

    def obtain(self, root: Any, service: str) -> tuple[Any, float]:
        """A token of a name node, and when it ends unless it is renewed, in epoch seconds; raises `Py4JError`."""
        hadoop = self.jvm.org.apache.hadoop
        fresh = hadoop.security.Credentials()
        files = self._open(root)
        try:
            files.addDelegationTokens(self.user.getShortUserName(), fresh)
            token = fresh.getToken(hadoop.io.Text(service))
            # when it ends is told only to whom renews it; the token itself would do so as the user of this process
            return token, files.getClient().getNamenode().renewDelegationToken(token) / 1000
        finally:
            files.close()

    def _open(self, root: Any) -> Any:
        """As the user of this process has logged in.

        Spark gives that user tokens, and whoever has one connects with it. So with a ticket it is opened as a user
        who has nothing else; with a keytab Spark sees to it that the tokens given are new ones.
        """
        hadoop = self.jvm.org.apache.hadoop
        users, files = hadoop.security.UserGroupInformation, hadoop.fs.FileSystem
        if self.user.getRealUser() is not None or not users.isLoginTicketBased():
            return files.newInstance(root, self.configuration)
        alone = hadoop.conf.Configuration(self.configuration)
        cache = self.jvm.java.lang.System.getenv("KRB5CCNAME")
        cache = cache or f"/tmp/krb5cc_{os.getuid()}"  # noqa: S108 - Kerberos has it there where nothing is said
        alone.set("hadoop.security.kerberos.ticket.cache.path", cache)
        return files.newInstance(root, alone, self.user.getUserName())
