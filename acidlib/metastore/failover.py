"""Calls with failover and repetition: which may be repeated, on which metastore, and what is raised when all fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from acidlib.errors import AcidError, DefectError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.connection import Connection, NoSuchTransactionError, UnknownCallError
from acidlib.metastore.effects import Effect, effect_of
from acidlib.metastore.idl import interface
from acidlib.metastore.options import ConnectionOptions, Endpoint
from acidlib.metastore.transport import ConnectionLost
from acidlib.model.generation import Generation

T = TypeVar("T")

_FIRST_ATTEMPTS = 3
_LONGEST_WAIT_SECONDS = 30


class _AttemptFailed(Exception):  # noqa: N818 - it asks for another attempt
    """Another attempt may succeed; `error` is raised when this was the last one."""

    def __init__(self, error: AcidError) -> None:
        super().__init__(str(error))
        self.error = error


class _Line(threading.local):
    """What each thread has of its own: its connection, and the number of the endpoint that this goes to."""

    connection: Connection | None = None
    current: int = 0


class FailoverClient:
    """Makes calls on one of several metastores, the next one when the current one is lost.

    Threads may share it: each of them has a connection of its own.
    """

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        options: ConnectionOptions,
        *,
        user: str,
        host: str,
        sleep: Callable[[float], None],
        find_again: Callable[[], tuple[Endpoint, ...]] | None = None,
    ) -> None:
        """Connects to the first endpoint that answers as a metastore.

        `find_again` gives the endpoints of now, where they may change: it is asked when none of those known answers.
        Raises RetryError when none can be reached, RefusedError when all that can be are no metastores of Hive 3.1
        or 4.
        """
        self.user = user
        self.host = host
        self._endpoints = endpoints
        self._options = options
        self._sleep = sleep
        self._find_again = find_again
        self._line = _Line()
        self._opened: set[Connection] = set()
        connection = self._line.connection = self._repeat(
            min(_FIRST_ATTEMPTS, options.attempts), partial(self._open, None)
        )
        self.peer = connection.peer

    @property
    def generation(self) -> Generation:
        """The generation of the metastores; those that are failed over to have to be of the same."""
        return self.peer.generation

    @property
    def catalog(self) -> str:
        """The catalog whose databases are meant."""
        return self._options.catalog

    @property
    def version(self) -> str:
        """The version that the metastore reports."""
        return self.peer.version

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that this thread is connected to, or was last."""
        if self._line.connection is not None:
            return self._line.connection.endpoint
        endpoints = self._endpoints
        return endpoints[self._line.current % len(endpoints)]

    def call(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """The answer of a call of our own interface; None if the server raised the exception named `missing`.

        `action` completes "Cannot ..." in errors. Raises what `Connection.call` does, but RetryError when no metastore
        can be reached, and UnknownOutcomeError as `effect_of` this call says.
        """
        return self._call(action, name, arguments, missing, hive3=False)

    def hive3_call(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """The answer of a read through hmsclient; otherwise as `call`."""
        return self._call(action, name, arguments, missing, hive3=True)

    def close(self) -> None:
        """Ends the connections of all threads, none of which may be in use; a later call opens a new one."""
        while self._opened:
            self._opened.pop().close()
        self._line = _Line()

    def _call(self, action: str, name: str, arguments: tuple[object, ...], missing: str, *, hive3: bool) -> Any:
        effect = effect_of(name)
        answer_lost = False

        def attempt() -> Any:
            nonlocal answer_lost
            connection = self._connected()
            call = connection.hive3_call if hive3 else connection.call
            try:
                return call(action, name, *arguments, missing=missing)
            except ConnectionLost as error:
                reason = f"{error} (metastore {connection.endpoint.uri})"
                if connection.sent:
                    answer_lost = True
                    if effect is Effect.NOT_IDEMPOTENT:
                        raise _unknown_outcome(action, reason) from None
                raise _AttemptFailed(RetryError(f"Cannot {action}: because {reason}")) from None
            except NoSuchTransactionError:
                if answer_lost and effect is Effect.IDEMPOTENT:
                    # a transaction that is over may be forgotten: Hive 3.1 does so at once if it wrote nothing
                    reason = "the answer was lost, and now the transaction is unknown"
                    raise _unknown_outcome(action, reason) from None
                raise

        try:
            return self._repeat(self._options.attempts, partial(self._leaving_no_answer_behind, attempt))
        except (RetryError, RefusedError) as error:
            if answer_lost and effect is Effect.IDEMPOTENT:
                raise _unknown_outcome(action, f"the answer was lost, and then: {error}") from None
            raise

    def _leaving_no_answer_behind(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns; a connection that may be in the middle of an answer is not used again."""
        try:
            return attempt()
        except AcidError as error:
            if isinstance(error, (UnknownOutcomeError, DefectError)):
                self._move_on()
            raise
        except BaseException:
            self._move_on()
            raise

    def _repeat(self, attempts: int, attempt: Callable[[], T]) -> T:
        retrying = Retrying(
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(multiplier=1, max=_LONGEST_WAIT_SECONDS),
            retry=retry_if_exception_type(_AttemptFailed),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _AttemptFailed as failed:
            raise failed.error from None

    def _move_on(self) -> None:
        """Closes the connection; the next one is tried with the next endpoint first."""
        if self._line.connection is not None:
            self._close_own()
            self._line.current += 1

    def _close_own(self) -> None:
        connection, self._line.connection = self._line.connection, None
        if connection is not None:
            self._opened.discard(connection)
            connection.close()

    def _connected(self) -> Connection:
        """The connection, opened again where it was closed or the server has ended it."""
        connection = self._line.connection
        if connection is not None and connection.is_usable():
            return connection
        # an idle connection that the server ended says nothing against its endpoint
        self._close_own()
        connection = self._line.connection = self._open(self.generation)
        self.peer = connection.peer
        return connection

    def _open(self, generation: Generation | None) -> Connection:
        """A connection to the first endpoint that answers, from the current one on; of this generation, if given."""
        failures: list[str] = []
        refused: list[AcidError] = []
        start, endpoints = self._line.current, self._endpoints
        for step in range(len(endpoints)):
            self._line.current = (start + step) % len(endpoints)
            endpoint = endpoints[self._line.current]
            try:
                return self._open_one(endpoint, generation)
            except ConnectionLost as reason:
                failures.append(f"{endpoint.uri}: {reason}" if len(endpoints) > 1 else str(reason))
            except RefusedError as error:
                failures.append(str(error))
                refused.append(error)
        self._line.current = start
        if self._find_again is not None:
            with suppress(RetryError, RefusedError):
                self._endpoints = self._find_again()
        if len(refused) == len(endpoints):
            # what let us in before may do so again, and says nothing against a table
            raise refused[0] if generation is None else RetryError(str(refused[0]))
        uris = ", ".join(endpoint.uri for endpoint in endpoints)
        raise _AttemptFailed(RetryError(f"Cannot reach the metastore {uris}: because {'; '.join(failures)}"))

    def _open_one(self, endpoint: Endpoint, generation: Generation | None) -> Connection:
        connection = Connection(endpoint, self._options, user=self.user)
        found = connection.peer.generation
        if generation is not None and found is not generation:
            connection.close()
            raise RefusedError(
                f"Cannot go on with the metastore {endpoint.uri}: because it is of Hive {found}, the one before "
                f"was of Hive {generation}"
            )
        self._opened.add(connection)
        return connection


def _unknown_outcome(action: str, reason: str) -> UnknownOutcomeError:
    return UnknownOutcomeError(f"Cannot tell the outcome of an attempt to {action}: because {reason}")


class Calls:
    """A group of calls over one `FailoverClient`."""

    def __init__(self, client: FailoverClient) -> None:
        self._client = client
        self._types: Any = interface()

    @property
    def generation(self) -> Generation:
        """The generation of the metastore, found by asking it."""
        return self._client.generation

    @property
    def _is_hive4(self) -> bool:
        return self.generation is Generation.HIVE4

    def _read(self, action: str, call: str, *arguments: object, missing: str = "") -> Any:
        """A call that changes nothing, through our own interface."""
        return self._client.call(action, call, *arguments, missing=missing)

    def _read_if_known(self, action: str, call: str, *arguments: object) -> Any:
        """A read that only some versions of a generation have; None from one that has not."""
        try:
            return self._read(action, call, *arguments)
        except UnknownCallError:
            return None

    def _require_hive4(self, action: str) -> None:
        if not self._is_hive4:
            raise RefusedError(f"Cannot {action}: because a Hive 3.1 metastore has no such call")
