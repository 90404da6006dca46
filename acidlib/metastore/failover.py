"""Calls with failover and repetition: which may be repeated, on which metastore, and what is raised when all fail."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from acidlib.errors import AcidError, DefectError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.connection import (
    SERVER_ERRORS,
    Connection,
    Peer,
    UnknownCallError,
    Unreadable,
    class_name,
    shake_hands,
    translate,
)
from acidlib.metastore.idl import interface, need
from acidlib.metastore.options import ConnectionOptions, Endpoint
from acidlib.metastore.transport import LinkLost
from acidlib.model.generation import Generation

T = TypeVar("T")

_FIRST_ATTEMPTS = 3
_LONGEST_WAIT_SECONDS = 30
_HINT = "is it a metastore, with the same settings of framed transport, TLS and SASL?"


class Effect(enum.Enum):
    """What a call leaves behind, and so what may be done when its answer is lost."""

    NONE = "nothing: it is repeated"
    SAME_TWICE = "the same once or twice: it is repeated; if no answer ever comes, the outcome is unknown"
    EACH_TIME = "something each time: it is never repeated once anything was sent"


class _AgainError(Exception):
    """Try again, and if that was the last time raise `error`."""

    def __init__(self, error: AcidError) -> None:
        super().__init__(str(error))
        self.error = error


class Caller:
    """Makes calls on one of several metastores, the next one when the current one is lost. Not thread safe."""

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        options: ConnectionOptions,
        *,
        user: str,
        host: str,
        sleep: Callable[[float], None],
    ) -> None:
        """Connects to the first endpoint that answers as a metastore.

        Raises RetryError when none can be reached, RefusedError when all that can be are no metastores of Hive 3.1
        or 4.
        """
        self.endpoints = endpoints
        self.options = options
        self.user = user
        self.host = host
        self.sleep = sleep
        self._at = 0
        self._connection: Connection | None = None
        self.peer: Peer | None = None
        self._repeat(min(_FIRST_ATTEMPTS, options.attempts), self._connected)

    @property
    def generation(self) -> Generation:
        """The generation of the metastores; those that are failed over to have to be of the same."""
        assert self.peer is not None  # set by the first connection, without which there is no Caller
        return self.peer.generation

    @property
    def version(self) -> str:
        """The version that the metastore tells."""
        return self.peer.version if self.peer is not None else ""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that is connected to, or was last."""
        return self.endpoints[self._at]

    def own(self, action: str, name: str, *arguments: object, effect: Effect, missing: str = "") -> Any:
        """The answer of a call of our own interface; None if the server raised the exception named `missing`.

        `action` completes "Cannot ..." in errors. Raises what `translate` says, RetryError when no metastore can be
        reached, UnknownOutcomeError as `effect` says, CorruptError for an answer that is not whole.
        """
        return self._call(action, name, arguments, effect, missing, hive3=False)

    def hive3(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """The answer of a read through hmsclient; otherwise as `own`."""
        return self._call(action, name, arguments, Effect.NONE, missing, hive3=True)

    def close(self) -> None:
        """Ends the connection; a later call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(
        self, action: str, name: str, arguments: tuple[object, ...], effect: Effect, missing: str, *, hive3: bool
    ) -> Any:
        lost = False

        def once() -> Any:
            nonlocal lost
            connection = self._connected()
            call = connection.hive3 if hive3 else connection.own
            try:
                return call(self.options.timeout_seconds, name, *arguments)
            except LinkLost as reason:
                told = f"{reason} (metastore {connection.endpoint.uri})"
                if connection.link.sent:
                    lost = True
                    if effect is Effect.EACH_TIME:
                        raise _unknown(action, told) from None
                raise _AgainError(RetryError(f"Cannot {action}: because {told}")) from None
            except SERVER_ERRORS as error:
                if missing and class_name(error) == missing:
                    return None
                if lost and effect is Effect.SAME_TWICE and class_name(error) == "NoSuchTxnException":
                    # a transaction that is over may be forgotten: Hive 3.1 does so at once if it wrote nothing
                    raise _unknown(action, "the answer was lost, and now the transaction is unknown") from None
                raise translate(error, action=action, call=name, uri=connection.endpoint.uri) from None

        try:
            return self._repeat(self.options.attempts, self._dropping(once))
        except (RetryError, RefusedError) as error:
            if lost and effect is Effect.SAME_TWICE:
                raise _unknown(action, f"the answer was lost, and then: {error}") from None
            raise

    def _dropping(self, once: Callable[[], T]) -> Callable[[], T]:
        """`once`, after which a connection that may be in the middle of an answer is not used again."""

        def guarded() -> T:
            try:
                return once()
            except AcidError as error:
                if isinstance(error, (UnknownOutcomeError, DefectError)):
                    self._move_on()
                raise
            except BaseException:
                self._move_on()
                raise

        return guarded

    def _repeat(self, attempts: int, once: Callable[[], T]) -> T:
        retrying = Retrying(
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(multiplier=1, max=_LONGEST_WAIT_SECONDS),
            retry=retry_if_exception_type(_AgainError),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            return retrying(once)
        except _AgainError as again:
            raise again.error from None

    def _move_on(self) -> None:
        """Closes the connection; the next one is tried with the next endpoint first."""
        if self._connection is not None:
            self.close()
            self._at = (self._at + 1) % len(self.endpoints)

    def _connected(self) -> Connection:
        if self._connection is not None and self._connection.link.is_usable():
            return self._connection
        # an idle connection that the server ended says nothing against its endpoint
        self.close()
        failures: list[str] = []
        refused: list[AcidError] = []
        start = self._at
        for step in range(len(self.endpoints)):
            self._at = (start + step) % len(self.endpoints)
            try:
                self._connection = self._open(self.endpoint)
                return self._connection
            except LinkLost as reason:
                failures.append(f"{self.endpoint.uri}: {reason}" if len(self.endpoints) > 1 else str(reason))
            except RefusedError as error:
                failures.append(str(error))
                refused.append(error)
        self._at = start
        if len(refused) == len(self.endpoints):
            raise refused[0]
        uris = ", ".join(endpoint.uri for endpoint in self.endpoints)
        raise _AgainError(RetryError(f"Cannot reach the metastore {uris}: because {'; '.join(failures)}"))

    def _open(self, endpoint: Endpoint) -> Connection:
        connection = Connection(endpoint, self.options)
        try:
            peer = shake_hands(connection, self.options, self.user)
        except Unreadable as reason:
            connection.close()
            raise RefusedError(f"Cannot use {endpoint.uri}: because {reason} ({_HINT})") from None
        except LinkLost as reason:
            connection.close()
            raise LinkLost(f"{reason} ({_HINT})") from None
        except BaseException:
            connection.close()
            raise
        if self.peer is not None and peer.generation is not self.peer.generation:
            connection.close()
            raise RefusedError(
                f"Cannot go on with the metastore {endpoint.uri}: because it is of Hive {peer.generation}, the one "
                f"before was of Hive {self.peer.generation}"
            )
        self.peer = peer
        return connection


def _unknown(action: str, told: str) -> UnknownOutcomeError:
    return UnknownOutcomeError(f"Cannot tell the outcome of an attempt to {action}: because {told}")


class Calls:
    """A group of calls over one `Caller`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._types: Any = interface()
        self._need = need

    @property
    def generation(self) -> Generation:
        """The generation of the metastore, found by asking it."""
        return self._caller.generation

    @property
    def _is_hive4(self) -> bool:
        return self._caller.generation is Generation.HIVE4

    def _read(self, action: str, call: str, *arguments: object, missing: str = "") -> Any:
        """A call that leaves nothing behind, through our own interface."""
        return self._caller.own(action, call, *arguments, effect=Effect.NONE, missing=missing)

    def _if_known(self, action: str, call: str, *arguments: object) -> Any:
        """A read that some versions of a generation have; None from one that has not."""
        try:
            return self._read(action, call, *arguments)
        except UnknownCallError:
            return None

    def _only_hive4(self, action: str) -> None:
        if not self._is_hive4:
            raise RefusedError(f"Cannot {action}: because a Hive 3.1 metastore has no such call")
