"""Calls to a metastore: the interface, the effect of each call, an open connection, and failover with repetition."""

from __future__ import annotations

import enum
import io
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import resources
from types import ModuleType
from typing import Any, Self, TypeVar

import thriftpy2
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException as ApacheApplicationException
from thrift.Thrift import TException as ApacheException
from thrift.transport.TTransport import TBufferedTransport
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TClient, TException, TPayload
from thriftpy2.transport import TCyBufferedTransport, TTransportException

from acidlib.acid.names import LONG_MAX, Calls, Generation, Names, Reader
from acidlib.errors import (
    AcidError,
    ConflictError,
    CorruptError,
    DefectError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.metastore.options import CATALOG, READER, ConnectionOptions, Endpoint
from acidlib.metastore.transport import ConnectionLost, HttpTransport, SocketTransport, TurnedAway, UnreadableAnswer

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
_FILE = "hive_metastore.thrift"


# threads of a program may connect at the same time: the exceptions of another reading would not be recognised
_READING = threading.Lock()


def interface() -> ModuleType:
    """Return the structures, exceptions and the service `Metastore` of the interface file (read once, about 50 ms)."""
    with _READING:
        return _interface()


@cache
def _interface() -> ModuleType:
    text = resources.files(__package__ or "acidlib.metastore").joinpath(_FILE).read_text(encoding="utf-8")
    return thriftpy2.load_fp(io.StringIO(text), "acidlib_metastore_thrift")


def missing_field(call: str, field: str) -> CorruptError:
    """Return the error for an answer without a required field."""
    return CorruptError(f"Cannot read the answer of {call}: field {field} is missing")


def required(value: Any, call: str, field: str) -> Any:
    """Return the value of a required field; raise CorruptError when it is None."""
    if value is None:
        raise missing_field(call, field)
    return value


def portions_of(values: Iterable[H], size: int) -> Iterator[list[H]]:
    """Yield the distinct values in portions of this size, so that messages stay small."""
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), size):
        yield distinct[start : start + size]


def _check(value: object, call: str, path: str = "") -> None:
    """Raise CorruptError, naming the field with its path, when a required field is missing anywhere in an answer.

    The Thrift library does not check: it leaves None for a field that is missing or of an unexpected type.
    """
    if isinstance(value, TPayload):
        for _, (_, name, *_, is_required) in value.thrift_spec.items():
            member = getattr(value, name)
            if member is None and is_required:
                raise missing_field(call, path + name)
            _check(member, call, f"{path}{name}.")
    elif isinstance(value, list):
        # of plain values, or of partitions with their columns, there may be hundreds of thousands
        if value and isinstance(value[0], TPayload) and _requires_any(type(value[0])):
            for member in value:
                _check(member, call, path)
    elif isinstance(value, dict):
        for member in value.values():
            _check(member, call, path)


@cache
def _requires_any(structure: type[TPayload]) -> bool:
    """Return whether a structure, or one that it may hold, has a required field."""
    return any(
        is_required or any(map(_requires_any, _structures(within)))
        for _, _, *within, is_required in structure.thrift_spec.values()
    )


def _structures(kinds: Any) -> Iterator[type[TPayload]]:
    """Yield the structures in what thriftpy2 says of the values of a field: a number, a structure, or several."""
    if isinstance(kinds, type):
        yield kinds
    elif isinstance(kinds, list | tuple):
        for kind in kinds:
            yield from _structures(kind)


class Effect(enum.Enum):
    """The effect of a call on the server, which decides whether it is repeated when its answer is lost."""

    NONE = "nothing: it is repeated"
    IDEMPOTENT = "the same once or twice: it is repeated; if no answer ever comes, the outcome is unknown"
    NOT_IDEMPOTENT = "something each time: it is never repeated once anything was sent"


# the effects, with reasons, of all calls that do not only read
_CHANGES: Mapping[str, tuple[Effect, str]] = {
    "heartbeat": (Effect.NONE, "a second heartbeat prolongs the life no further"),
    "heartbeat_txn_range": (Effect.NONE, "as one of each"),
    "check_lock": (Effect.NONE, "a lock that is granted meanwhile stays granted"),
    "open_txns": (Effect.NOT_IDEMPOTENT, "each call opens another transaction"),
    "commit_txn": (Effect.IDEMPOTENT, "Hive 4 accepts a second commit; Hive 3.1 may have forgotten the transaction"),
    "abort_txn": (Effect.IDEMPOTENT, "an aborted transaction stays aborted"),
    "allocate_table_write_ids": (Effect.IDEMPOTENT, "a transaction has one write id of a table"),
    "add_write_ids_to_min_history": (Effect.NOT_IDEMPOTENT, "each call adds rows"),
    "lock": (Effect.NOT_IDEMPOTENT, "each call is another request for locks"),
    "unlock": (Effect.IDEMPOTENT, "a lock that does not exist is no error"),
    "compact2": (Effect.NOT_IDEMPOTENT, "the first request may have been carried out and gone from the queue"),
    "find_next_compact2": (Effect.NOT_IDEMPOTENT, "each call hands out another request"),
    "update_compactor_state": (Effect.IDEMPOTENT, "each call writes the same into the row"),
    "set_hadoop_jobid": (Effect.IDEMPOTENT, "each call writes the same into the row"),
    "mark_compacted": (Effect.NOT_IDEMPOTENT, "another run may own the request by then: the server does not check"),
    "mark_cleaned": (Effect.NOT_IDEMPOTENT, "the request has left the queue by then"),
    "mark_failed": (Effect.NOT_IDEMPOTENT, "the request has left the queue by then"),
    "mark_refused": (Effect.NOT_IDEMPOTENT, "the request has left the queue by then"),
    "alter_table_req": (Effect.NOT_IDEMPOTENT, "the second call would not find the value that it expects"),
    "abort_Compactions": (Effect.NOT_IDEMPOTENT, "the second answer would be that the requests do not exist"),
}
_READS = frozenset(
    (
        *("get_catalogs", "get_databases", "get_all_databases", "get_database", "get_database_req", "get_all_tables"),
        *("get_table_req", "get_table_objects_by_name_req", "get_partition_names", "fetch_partition_names_req"),
        *("get_partitions_by_names", "get_partitions_by_names_req", "get_config_value"),
        *("get_open_txns", "get_open_txns_req", "get_open_txns_info", "get_valid_write_ids"),
        *("show_locks", "show_compact"),
    )
)


OF_HMSCLIENT = frozenset(("get_partitions_by_names",))
"""The calls that go through hmsclient, Apache's Thrift with an interface older than ours: the one with the largest
answers of Hive 3.1, 500 partitions each, which it reads in two thirds of our time."""

_ONLY_HIVE4 = frozenset(
    (
        *("add_write_ids_to_min_history", "find_next_compact2", "update_compactor_state", "set_hadoop_jobid"),
        *("mark_compacted", "mark_cleaned", "mark_failed", "mark_refused", "alter_table_req", "abort_Compactions"),
    )
)


def effect_of(call: str) -> Effect:
    """Return the effect of a call; raise DefectError for a call without an entry in the tables above."""
    if call in _READS:
        return Effect.NONE
    if call not in _CHANGES:
        raise DefectError(f"Cannot call {call}: it is not known whether it may be repeated")
    return _CHANGES[call][0]


_READ_AHEAD = 1 << 16
_MAX_REASON_CHARACTERS = 300
_SETTINGS_HINT = "is it a metastore, with the same settings of framed transport, TLS and SASL?"
_HTTP_HINT = "is it a metastore behind HTTP, with the same setting of TLS?"

_APPLICATION_ERRORS = (TApplicationException, ApacheApplicationException)
_APACHE = re.compile(r"[4-9]\.\d+\.\d+(-(alpha|beta)-\d+|-SNAPSHOT)?")
"""The versions that Apache's metastores of Hive 4 report; forks report 3.1.3000.7.1.9.0-387, say."""
_SERVER_ERRORS = (TException, ApacheException)

_FIRST_ATTEMPTS = 3
_MAX_WAIT_SECONDS = 30


class UnknownCallError(RefusedError):
    """The server has no such call."""


class NoSuchTransactionError(ConflictError):
    """The server does not know the transaction: it never existed, or it has ended and was forgotten."""


# by the names of Hive's exceptions, in both Thrift libraries; every other one is a refusal
_ERRORS: Mapping[str, type[AcidError]] = {
    "NoSuchTxnException": NoSuchTransactionError,
    "TxnAbortedException": ConflictError,
    "TxnOpenException": ConflictError,
    "NoSuchLockException": ConflictError,
    "MetaException": RetryError,
}


class Connection:
    """A connection, open from its creation on; not thread safe, and not to be used after a ConnectionLost.

    Two Thrift libraries share it: thriftpy2 with our own interface, and Apache's for `OF_HMSCLIENT`. Their exceptions
    end here: callers see errors of `acidlib.errors`, and ConnectionLost.

    version  as the metastore reports it ("" if it does not): `3.0` from Hive 3.0 and 3.1, its own from Hive 4
    """

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions, *, user: str) -> None:
        """Connect, send the user's name, and ask for the version and the calls of the server.

        Raises ConnectionLost, and RefusedError when the server is no metastore of Hive 3.1 or 4, does not let us in, or
        has no valid certificate.
        """
        if options.http is None and endpoint.scheme != "thrift":
            raise RefusedError(
                f"Cannot use the metastore URI {endpoint.uri}: metastore.client.thrift.transport.mode is not http"
            )
        self.endpoint = endpoint
        self._timeout_seconds = options.timeout_seconds
        self.transport = (
            SocketTransport(endpoint, options)
            if options.http is None
            else HttpTransport(endpoint, options, options.http, user=user)
        )
        # thriftpy2 has no types for it
        protocol = TCyBinaryProtocol(TCyBufferedTransport(self.transport))  # type: ignore[no-untyped-call]
        self._client = TClient(interface().Metastore, protocol)
        self._hmsclient = ThriftHiveMetastore.Client(
            TBinaryProtocolAccelerated(TBufferedTransport(self.transport, _READ_AHEAD))
        )
        self.version = ""
        hint = _SETTINGS_HINT if options.http is None else _HTTP_HINT
        # the limit of each answer: a peer that is no metastore often just waits
        seconds = options.connect_timeout_seconds
        try:
            if options.set_user and options.sasl is None and options.http is None:
                # as in Hive's client a server may refuse to take the user's name
                with suppress(*_SERVER_ERRORS):
                    self._exchange(seconds, "set_ugi", user, [])
            with suppress(*_SERVER_ERRORS):
                self.version = self._exchange(seconds, "getVersion")
            self.calls = self._find_calls(seconds)
        except BaseException as error:
            self.transport.close()
            if isinstance(error, TurnedAway):
                raise RefusedError(f"Cannot use the metastore {endpoint.uri}: {error}") from None
            if isinstance(error, UnreadableAnswer):
                raise RefusedError(f"Cannot use {endpoint.uri}: {error} ({hint})") from None
            if isinstance(error, ConnectionLost):
                raise ConnectionLost(f"{error} ({hint})") from None
            raise

    def _find_calls(self, seconds: float) -> Calls:
        """Return Hive 4 if the server has a call that came with Hive 4, Hive 3 if it has one that came with Hive 3.

        A server has a call if it answers it in any way that the interface declares.
        """
        types = interface()
        database = types.GetDatabaseRequest(name="default", catalogName=CATALOG)
        no_tables = types.GetValidWriteIdsRequest(fullTableNames=[], validTxnList=f"0:{LONG_MAX}::")
        for calls, call, request in (
            (Generation.HIVE4, "get_database_req", database),
            (Generation.HIVE3, "get_valid_write_ids", no_tables),
        ):
            try:
                self._exchange(seconds, call, request)
            except _APPLICATION_ERRORS as error:
                if not _is_unknown_call(error):
                    raise ConnectionLost(f"the server failed: {_one_line(error)}") from None
            except _SERVER_ERRORS:
                return Calls(calls)
            else:
                return Calls(calls)
        reported = f" (it reports version {self.version})" if self.version else ""
        raise RefusedError(
            f"Cannot use {self.endpoint.uri}: it is no metastore of Hive 3.1 or 4{reported}: it has neither "
            "the call get_database_req nor get_valid_write_ids"
        )

    def call(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """Return the answer of a call, see `MetastoreClient.call`; raise an exception of the server as `translated`.

        Raises CorruptError for an incomplete answer, and ConnectionLost.
        """
        try:
            return self._exchange(self._timeout_seconds, name, *arguments)
        except _SERVER_ERRORS as error:
            if missing and type(error).__name__ == missing:
                return None
            raise translated(error, action=action, call=name, uri=self.endpoint.uri) from None

    def _exchange(self, timeout_seconds: float, name: str, *arguments: object) -> Any:
        """Send one message and return its answer; raise the exceptions of both Thrift libraries and ConnectionLost."""
        client = self._hmsclient if name in OF_HMSCLIENT else self._client
        self.transport.begin(timeout_seconds)
        try:
            answer = getattr(client, name)(*arguments)
        except ConnectionLost:
            raise
        except Exception as error:
            if isinstance(error, _SERVER_ERRORS) and not isinstance(error, TTransportException):
                raise
            if not self.transport.sent:
                raise DefectError(f"Cannot call {name}: its arguments cannot be written: {error}") from error
            raise UnreadableAnswer(f"the answer of {name} cannot be read: {error}") from None
        _check(answer, name)
        return answer


def translated(error: Exception, *, action: str, call: str, uri: str) -> AcidError:
    """Return the error to raise for an exception of the server. `action` completes "Cannot ...".

    Source of the exceptions: Hive `HMSHandler` and `TxnHandler`.
    """
    reason = _one_line(error)
    if _is_unknown_call(error):
        return UnknownCallError(f"Cannot {action}: the metastore {uri} has no call {call}")
    if isinstance(error, _APPLICATION_ERRORS):
        if getattr(error, "type", None) == TApplicationException.MISSING_RESULT:
            return CorruptError(f"Cannot read the answer of {call}: it is empty (from {uri})")
        return RetryError(f"Cannot {action}: the metastore {uri} failed: {reason}")
    kind = _ERRORS.get(type(error).__name__, RefusedError)
    return kind(f"Cannot {action}: {f'the metastore {uri} says: ' if kind is RetryError else ''}{reason}")


def _is_unknown_call(error: Exception) -> bool:
    return (
        isinstance(error, _APPLICATION_ERRORS) and getattr(error, "type", None) == TApplicationException.UNKNOWN_METHOD
    )


def _one_line(error: Exception) -> str:
    """Return the first line of a server's text, without a leading Java class; at most 300 characters."""
    text = error.message if hasattr(error, "message") else str(error)
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    head, colon, rest = line.partition(": ")
    if colon and rest and " " not in head and "." in head and head.endswith(("Exception", "Error")):
        line = rest
    return line if len(line) <= _MAX_REASON_CHARACTERS else line[: _MAX_REASON_CHARACTERS - 3] + "..."


class UnansweredError(RetryError):
    """An attempt failed and another may succeed; after the last attempt it is the error of the call."""


class _Line(threading.local):
    """The connection of each thread, and the index of its endpoint."""

    connection: Connection | None = None
    current: int = 0


class MetastoreClient:
    """Makes calls on one of several metastores, the next one when the current one is lost.

    Threads may share it: each of them has a connection of its own.

    calls       those of the first metastore; the others must have the same
    version     as the metastore reports it: `3.0` from Hive 3.0 and 3.1, its own from Hive 4; "" if none
    catalog     the catalog of all databases that are named
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
        """Connect to the first endpoint that answers as a metastore.

        `find_again` returns the current endpoints, where they may change; it is called when none of the last ones
        answers. Raises RetryError when none can be reached, RefusedError when none is a metastore of Hive 3.1 or 4.
        """
        self.user = user
        self.host = host
        self.catalog = options.catalog
        self._types: Any = interface()
        self._endpoints = endpoints
        self._options = options
        self._sleep = sleep
        self._find_again = find_again
        self._line = _Line()
        self._opened: set[Connection] = set()
        attempts = min(_FIRST_ATTEMPTS, options.attempts)
        connection = self._line.connection = self._repeat(attempts, partial(self._open, None))
        self.calls, self.version = connection.calls, connection.version
        self._is_hive4 = self.calls is Generation.HIVE4

    @property
    def names(self) -> Names:
        """The names in the metastore's tables: a compactor that is called over thrift notes its transaction in them."""
        return Names(self.calls)

    @property
    def shown_version(self) -> str:
        """The server, with the version that it reports, for messages."""
        return f"the metastore {self.uri}, of version {self.version or 'unknown'},"

    @property
    def may_be_fork(self) -> bool:
        """Whether a server that has calls of Hive 4 is, as far as its version tells, another than Apache's."""
        return self._is_hive4 and _APACHE.fullmatch(self.version) is None

    @property
    def reader(self) -> Reader:
        """What reads the metastore's tables: what is stated, or what Apache's release of these calls reads with.

        Raises RefusedError for a fork where nothing is stated: no call tells, and columns that are taken by name where
        readers go by position, or a text that they write otherwise, would be other rows to them.
        """
        if self._options.reader is not None:
            return self._options.reader
        if self.may_be_fork:
            raise RefusedError(
                f"Cannot read or write tables of {self.shown_version} which is a fork's: no call tells what reads "
                f"them. The setting {READER} states it: 3 as in Hive 3.1 (ORC 1.5, columns by name), 4 as in Hive 4 "
                "(ORC 1.8, columns by position); docs/metastores.md has what is known of forks"
            )
        return Reader(self.calls)

    @property
    def uri(self) -> str:
        """The URI that this thread is connected to, or was last."""
        if self._line.connection is not None:
            return self._line.connection.endpoint.uri
        endpoints = self._endpoints
        return endpoints[self._line.current % len(endpoints)].uri

    def close(self) -> None:
        """End the connections of all threads, none of which may be in use; a later call opens a new one."""
        while self._opened:
            self._opened.pop().transport.close()
        self._line = _Line()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """Return the answer of a call; None if the server raised the exception named `missing`, or has no result.

        The answer has all fields that our interface requires; those of `OF_HMSCLIENT` are checked by who reads them.
        `action` completes "Cannot ..." in errors. Raises the errors of `Connection.call`, RetryError when no metastore
        can be reached, and UnknownOutcomeError when the answer is lost, depending on `effect_of` the call.
        RefusedError, before anything is sent, for a call that Hive 3.1 has not.
        """
        if name in _ONLY_HIVE4 and not self._is_hive4:
            raise RefusedError(f"Cannot {action}: a Hive 3.1 metastore has no such call")
        effect = effect_of(name)
        answer_lost = False

        def attempt() -> Any:
            nonlocal answer_lost
            try:
                connection = self._connected()
                try:
                    return connection.call(action, name, *arguments, missing=missing)
                except ConnectionLost as error:
                    reason = f"{error} (metastore {connection.endpoint.uri})"
                    if connection.transport.sent:
                        answer_lost = True
                        if effect is Effect.NOT_IDEMPOTENT:
                            raise _unknown_outcome(action, reason) from None
                    raise UnansweredError(f"Cannot {action}: {reason}") from None
                except NoSuchTransactionError:
                    if answer_lost and effect is Effect.IDEMPOTENT:
                        # a transaction that has ended may be forgotten: Hive 3.1 does so at once if it wrote nothing
                        reason = "the answer was lost, and now the transaction is unknown"
                        raise _unknown_outcome(action, reason) from None
                    raise
            except BaseException as error:
                # after these the connection may be in the middle of an answer: it is not used again
                lost = (UnansweredError, UnknownOutcomeError, DefectError)
                if isinstance(error, lost) or not isinstance(error, AcidError):
                    self._move_on()
                raise

        try:
            return self._repeat(self._options.attempts, attempt)
        except (RetryError, RefusedError) as error:
            if answer_lost and effect is Effect.IDEMPOTENT:
                raise _unknown_outcome(action, f"the answer was lost, and then: {error}") from None
            raise

    def _call_if_known(self, action: str, call: str, *arguments: object) -> Any:
        """Return the answer of a call that only some versions of a generation have; None from the other versions."""
        try:
            return self.call(action, call, *arguments)
        except UnknownCallError:
            return None

    def lacks(self, call: str) -> bool:
        """Return whether the server has no such call, of one argument or more.

        It is called without arguments: a server that has it fails then, before it does anything, and an older one ends
        the connection (Thrift's `ProcessFunction`). Raises RetryError when no metastore can be reached.
        """
        fields = getattr(self._types.Metastore, f"{call}_args").thrift_spec
        connection = self._repeat(self._options.attempts, self._connected)
        try:
            connection.call(f"ask for the call {call}", call, *[None] * len(fields))
        except UnknownCallError:
            return True
        except ConnectionLost:
            self._close_own()
        except AcidError:
            pass
        return False

    def _repeat(self, attempts: int, attempt: Callable[[], T]) -> T:
        retrying = Retrying(
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(multiplier=1, max=_MAX_WAIT_SECONDS),
            retry=retry_if_exception_type(UnansweredError),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(attempt)

    def _connected(self) -> Connection:
        """Return this thread's connection; open it again if it was closed or the server has ended it."""
        connection = self._line.connection
        if connection is not None and connection.transport.is_usable():
            return connection
        # that the server ended an idle connection does not mean that its endpoint is down
        self._close_own()
        connection = self._line.connection = self._open(self.calls)
        self.version = connection.version
        return connection

    def _move_on(self) -> None:
        """Close this thread's connection; the next one will go to the next endpoint if that answers."""
        if self._line.connection is not None:
            self._close_own()
            self._line.current += 1

    def _close_own(self) -> None:
        connection, self._line.connection = self._line.connection, None
        if connection is not None:
            self._opened.discard(connection)
            connection.transport.close()

    def _open(self, calls: Calls | None) -> Connection:
        """Connect to the first endpoint that answers, from the current one on; only to such calls, if given."""
        failures: list[str] = []
        refused: list[AcidError] = []
        start, endpoints = self._line.current, self._endpoints
        for step in range(len(endpoints)):
            self._line.current = (start + step) % len(endpoints)
            endpoint = endpoints[self._line.current]
            try:
                connection = Connection(endpoint, self._options, user=self.user)
                if calls is not None and connection.calls is not calls:
                    connection.transport.close()
                    raise RefusedError(
                        f"Cannot go on with the metastore {endpoint.uri}: it is of Hive "
                        f"{connection.calls}, the one before was of Hive {calls}"
                    )
            except ConnectionLost as reason:
                failures.append(f"{endpoint.uri}: {reason}" if len(endpoints) > 1 else f"{reason}")
            except RefusedError as error:
                failures.append(error.words)
                refused.append(error)
            else:
                self._opened.add(connection)
                return connection
        self._line.current = start
        if self._find_again is not None:
            with suppress(RetryError, RefusedError):
                self._endpoints = self._find_again()
        if len(refused) == len(endpoints):
            # servers that let us in before may do so again; a RefusedError would count against the table
            raise refused[0] if calls is None else RetryError(refused[0].words)
        uris = ", ".join(endpoint.uri for endpoint in endpoints)
        raise UnansweredError(f"Cannot reach the metastore {uris}: {'; '.join(failures)}")


def _unknown_outcome(action: str, reason: str) -> UnknownOutcomeError:
    return UnknownOutcomeError(f"Cannot tell the outcome of an attempt to {action}: {reason}")
