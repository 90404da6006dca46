"""One open connection to one metastore: the calls over it, what the server is, and what its exceptions mean.

Two Thrift libraries share the connection: thriftpy2 with our own interface, and hmsclient (Apache Thrift) for reads of
Hive 3.1. Their exceptions end here: whoever calls sees errors of `acidlib.errors`, and ConnectionLost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException as ApacheApplicationException
from thrift.Thrift import TException as ApacheException
from thrift.transport.TTransport import TBufferedTransport, TTransportBase
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TTransportException

from acidlib.errors import AcidError, ConflictError, CorruptError, DefectError, RefusedError, RetryError
from acidlib.metastore.http_transport import HttpTransport, TurnedAway
from acidlib.metastore.idl import check_required, interface
from acidlib.metastore.options import CATALOG, ConnectionOptions, Endpoint
from acidlib.metastore.transport import ConnectionLost, Transport, UnreadableAnswer
from acidlib.model.generation import Generation
from acidlib.model.names import LONG_MAX

_READ_AHEAD = 1 << 16
_LONGEST_REASON = 300
_SETTINGS_HINT = "is it a metastore, with the same settings of framed transport, TLS and SASL?"
_HTTP_HINT = "is it a metastore behind HTTP, with the same setting of TLS?"

_APPLICATION_ERRORS = (TApplicationException, ApacheApplicationException)
_SERVER_ERRORS = (TException, ApacheException)
_CONFLICTS = frozenset({"TxnAbortedException", "TxnOpenException", "NoSuchLockException"})


class UnknownCallError(RefusedError):
    """The server has no such call."""


class NoSuchTransactionError(ConflictError):
    """The server does not know the transaction: it never was, or it is over and forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What a metastore is: its generation, and the version it reports ("" if none).

    Hive 3.0 and 3.1 both report `3.0`; Hive 4 reports its own version, such as `4.0.1`.
    """

    generation: Generation
    version: str


class Connection:
    """One connection, open from its creation on; not thread safe. A call that raised ConnectionLost ends its use."""

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions, *, user: str) -> None:
        """Connects, says who asks, and asks what the server is.

        Raises ConnectionLost, and RefusedError when the server is no metastore of Hive 3.1 or 4, does not let us in, or
        shows a certificate that does not pass.
        """
        self.endpoint = endpoint
        self._timeout_seconds = options.timeout_seconds
        self._transport = _open_transport(endpoint, options, user)
        # thriftpy2 publishes no types for it
        protocol = TCyBinaryProtocol(TCyBufferedTransport(self._transport))  # type: ignore[no-untyped-call]
        self._own_client = TClient(interface().Metastore, protocol)
        self._hive3_client: Any = None
        try:
            self.peer = self._shake_hands(options, user)
        except BaseException:
            self.close()
            raise

    @property
    def sent(self) -> bool:
        """Whether any byte of the last call may have reached the server."""
        return self._transport.sent

    def is_usable(self) -> bool:
        """Whether another call may be made: not when the server has ended the connection, as one that restarts does."""
        return self._transport.is_usable()

    def call(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """The answer of a call of our own interface, with all its required fields; None for a call that has none.

        `action` completes "Cannot ..." in errors; None is also what comes of the server's exception named `missing`.
        Raises what `translated` makes of any other, CorruptError for an answer that is not whole, ConnectionLost.
        """
        return self._answer(self._call_own, action, name, arguments, missing)

    def hive3_call(self, action: str, name: str, *arguments: object, missing: str = "") -> Any:
        """The answer of a call of hmsclient's interface, whose required fields are not checked.

        Otherwise as `call`.
        """
        return self._answer(self._call_hive3, action, name, arguments, missing)

    def close(self) -> None:
        """Ends the connection; never raises."""
        self._transport.close()

    def _answer(
        self, call: Callable[..., Any], action: str, name: str, arguments: tuple[object, ...], missing: str
    ) -> Any:
        try:
            return call(self._timeout_seconds, name, *arguments)
        except _SERVER_ERRORS as error:
            if missing and _exception_name(error) == missing:
                return None
            raise translated(error, action=action, call=name, uri=self.endpoint.uri) from None

    def _call_own(self, timeout_seconds: float, name: str, *arguments: object) -> Any:
        answer = self._exchange(self._own_client, timeout_seconds, name, arguments)
        check_required(answer, name)
        return answer

    def _call_hive3(self, timeout_seconds: float, name: str, *arguments: object) -> Any:
        if self._hive3_client is None:
            transport = TBufferedTransport(_ApacheTransport(self._transport), _READ_AHEAD)
            self._hive3_client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
        return self._exchange(self._hive3_client, timeout_seconds, name, arguments)

    def _exchange(self, client: Any, timeout_seconds: float, name: str, arguments: tuple[object, ...]) -> Any:
        """One message and its answer; raises the exceptions of both Thrift libraries and ConnectionLost."""
        self._transport.begin(timeout_seconds)
        try:
            return getattr(client, name)(*arguments)
        except ConnectionLost:
            raise
        except Exception as error:
            if isinstance(error, _SERVER_ERRORS) and not isinstance(error, TTransportException):
                raise
            if not self._transport.sent:
                raise DefectError(f"Cannot call {name}: because its arguments cannot be written: {error}") from error
            raise UnreadableAnswer(f"the answer of {name} cannot be read: {error}") from None

    def _shake_hands(self, options: ConnectionOptions, user: str) -> Peer:
        """Each answer has to come within the connect timeout: a peer that is no metastore often just waits."""
        seconds = options.connect_timeout_seconds
        hint = _SETTINGS_HINT if options.http is None else _HTTP_HINT
        try:
            if options.set_user and options.sasl is None and options.http is None:
                # as Hive's client: a server that refuses to be told the user is no obstacle
                with suppress(*_SERVER_ERRORS):
                    self._call_own(seconds, "set_ugi", user, [])
            version = ""
            with suppress(*_SERVER_ERRORS):
                version = self._call_own(seconds, "getVersion")
            return Peer(generation=self._generation(seconds, version), version=version)
        except TurnedAway as reason:
            raise RefusedError(f"Cannot use the metastore {self.endpoint.uri}: because {reason}") from None
        except UnreadableAnswer as reason:
            raise RefusedError(f"Cannot use {self.endpoint.uri}: because {reason} ({hint})") from None
        except ConnectionLost as reason:
            raise ConnectionLost(f"{reason} ({hint})") from None

    def _generation(self, seconds: float, version: str) -> Generation:
        """Hive 4 if it has a call that only Hive 4 has, Hive 3 if it has one that came with Hive 3."""
        types = interface()
        database = types.GetDatabaseRequest(name="default", catalogName=CATALOG)
        if self._has_call(seconds, "get_database_req", database):
            return Generation.HIVE4
        no_tables = types.GetValidWriteIdsRequest(fullTableNames=[], validTxnList=f"0:{LONG_MAX}::")
        if self._has_call(seconds, "get_valid_write_ids", no_tables):
            return Generation.HIVE3
        reported = f" (it tells version {version})" if version else ""
        raise RefusedError(
            f"Cannot use {self.endpoint.uri}: because it is no metastore of Hive 3.1 or 4{reported}: it has neither "
            "the call get_database_req nor get_valid_write_ids"
        )

    def _has_call(self, seconds: float, call: str, request: object) -> bool:
        """Whether the server has a call: any answer that the interface provides for shows that it has."""
        try:
            self._call_own(seconds, call, request)
        except _APPLICATION_ERRORS as error:
            if _is_unknown_call(error):
                return False
            raise ConnectionLost(f"the server failed: {_one_line(error)}") from None
        except _SERVER_ERRORS:
            return True
        return True


def _open_transport(endpoint: Endpoint, options: ConnectionOptions, user: str) -> Transport | HttpTransport:
    if options.http is not None:
        return HttpTransport(endpoint, options, options.http, user=user)
    if endpoint.scheme != "thrift":
        raise RefusedError(
            f"Cannot use the metastore URI {endpoint.uri}: because metastore.client.thrift.transport.mode is not http"
        )
    return Transport(endpoint, options)


class _ApacheTransport(TTransportBase):  # type: ignore[misc] # Apache Thrift publishes no types
    """Our transport with the names that Apache Thrift asks for."""

    def __init__(self, transport: Transport | HttpTransport) -> None:
        self._transport = transport

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        return self._transport.is_open()

    def close(self) -> None:
        self._transport.close()

    def read(self, size: int) -> bytes:
        return self._transport.read(size)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def flush(self) -> None:
        self._transport.flush()


def translated(error: Exception, *, action: str, call: str, uri: str) -> AcidError:
    """The error to raise for an exception of the server. `action` completes "Cannot ...".

    Source of the exceptions: Hive `HMSHandler` and `TxnHandler`.
    """
    reason = _one_line(error)
    if _is_unknown_call(error):
        return UnknownCallError(f"Cannot {action}: because the metastore {uri} has no call {call}")
    if isinstance(error, _APPLICATION_ERRORS):
        if getattr(error, "type", None) == TApplicationException.MISSING_RESULT:
            return CorruptError(f"Cannot read the answer of {call}: because it is empty (asked of {uri})")
        return RetryError(f"Cannot {action}: because the metastore {uri} failed: {reason}")
    name = _exception_name(error)
    if name == "NoSuchTxnException":
        return NoSuchTransactionError(f"Cannot {action}: because {reason}")
    if name in _CONFLICTS:
        return ConflictError(f"Cannot {action}: because {reason}")
    if name == "MetaException":
        return RetryError(f"Cannot {action}: because the metastore {uri} says: {reason}")
    return RefusedError(f"Cannot {action}: because {reason}")


def _exception_name(error: Exception) -> str:
    """Hive's name of an exception; both Thrift libraries name their classes so."""
    return type(error).__name__


def _is_unknown_call(error: Exception) -> bool:
    return (
        isinstance(error, _APPLICATION_ERRORS) and getattr(error, "type", None) == TApplicationException.UNKNOWN_METHOD
    )


def _one_line(error: Exception) -> str:
    """The first line of a server's text, without the Java class in front; at most 300 characters."""
    text = error.message if hasattr(error, "message") else str(error)
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    line = lines[0] if lines else _exception_name(error)
    head, colon, rest = line.partition(": ")
    if colon and rest and " " not in head and "." in head and head.endswith(("Exception", "Error")):
        line = rest
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 3] + "..."
