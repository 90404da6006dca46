"""Delegation tokens of HDFS: obtained in the JVM of the driver, handed to its tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from acidlib.errors import RetryError
from acidlib.stores.hadoop.jvm import said

# --- tokens -----------------------------------------------------------------------------------------------------------
# Delegation tokens of HDFS, handed by the driver to its tasks, where nobody may have a ticket of Kerberos.
#
# hdfs-native reads tokens from the file that HADOOP_TOKEN_FILE_LOCATION names, whenever it makes a connection. What
# YARN puts there when it starts a container stays as it is; what Spark obtains later goes to the JVM of an executor
# alone. So each task brings what the driver had when it was sent, and the file is one in memory, which ends with its
# process.

FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
_AUTHENTICATION = "hadoop.security.authentication"
_taking = threading.Lock()
_taken: list[tuple[bytes, int]] = []
"""What this process goes by, and what before that: somebody may be about to read it."""


def _forked() -> None:
    """Another thread of the parent may have held it; the file stays."""
    global _taking
    _taking = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def asks_for_kerberos(configuration: Mapping[str, str]) -> bool:
    """Whether the name nodes do."""
    return configuration.get(_AUTHENTICATION, "").strip().lower() == "kerberos"


class HandedTokens:
    """In the driver: where tokens come from. In a task: the tokens, as Hadoop stores them; never printed."""

    def __init__(self, obtain: Callable[[tuple[str, ...]], bytes] | None = None, data: bytes = b"") -> None:
        """`obtain` gives those for some authorities, host and port or a name service; it is asked by each pickling."""
        self._obtain = obtain
        self._authorities: tuple[str, ...] = ()
        self._data = data

    def __reduce__(self) -> tuple[type[HandedTokens], tuple[None, bytes]]:
        data = self._data
        if self._obtain is not None and self._authorities:
            data = self._obtain(self._authorities)
        return HandedTokens, (None, data)

    def use(self, authority: str) -> None:
        """Before somewhere is connected to: the driver notes for what tokens are needed, a task takes up its own."""
        if self._obtain is None:
            _take_up(self._data)
        elif authority not in self._authorities:
            self._authorities = (*self._authorities, authority)


def _take_up(data: bytes) -> None:
    if not data:
        return
    with _taking:
        if _taken and _taken[-1][0] == data:
            return
        file = os.memfd_create("acidlib-tokens")
        with os.fdopen(os.dup(file), "wb") as stream:
            stream.write(data)
        _taken.append((data, file))
        os.environ[FILE_VARIABLE] = f"/proc/self/fd/{file}"
        while len(_taken) > 2:
            os.close(_taken.pop(0)[1])


# --- tokens -----------------------------------------------------------------------------------------------------------
# Delegation tokens of HDFS, obtained in the JVM of the driver with its ticket; without one, those that it was given.
#
# A driver that YARN has started without a keytab has only tokens, and nobody gets new ones by them.
#
# Source: Hadoop `UserGroupInformation`, `FileSystem.addDelegationTokens`, `Credentials`.

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
