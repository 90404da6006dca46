"""One open connection to one metastore: the calls over it, what the server is, and what its exceptions mean."""

from __future__ import annotations

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
from acidlib.metastore.idl import check_required, interface
from acidlib.metastore.options import CATALOG, ConnectionOptions, Endpoint
from acidlib.metastore.transport import Link, LinkLost
from acidlib.model.generation import Generation
from acidlib.model.names import LONG_MAX

_MISSING_RESULT = 5
_LONGEST = 300

CONFLICTS = frozenset({"NoSuchTxnException", "TxnAbortedException", "TxnOpenException", "NoSuchLockException"})


class UnknownCallError(RefusedError):
    """The server has no such call."""


def class_name(error: Exception) -> str:
    """Hive's name of a server's exception; both Thrift libraries name their classes so."""
    return type(error).__name__


def is_unknown_method(error: Exception) -> bool:
    """Whether the server said that it has no such call."""
    return isinstance(error, APPLICATION_ERRORS) and getattr(error, "type", None) == UNKNOWN_METHOD


def translate(error: Exception, *, action: str, call: str, uri: str) -> AcidError:
    """The error to raise for an exception of the server. `action` completes "Cannot ..."."""
    if is_unknown_method(error):
        return UnknownCallError(f"Cannot {action}: because the metastore {uri} has no call {call}")
    if isinstance(error, APPLICATION_ERRORS):
        if getattr(error, "type", None) == _MISSING_RESULT:
            return CorruptError(f"Cannot read the answer of {call}: because it is empty (asked of {uri})")
        return RetryError(f"Cannot {action}: because the metastore {uri} failed: {one_line(error)}")
    reason = one_line(error)
    if class_name(error) in CONFLICTS:
        return ConflictError(f"Cannot {action}: because {reason}")
    if class_name(error) == "MetaException":
        return RetryError(f"Cannot {action}: because the metastore {uri} says: {reason}")
    return RefusedError(f"Cannot {action}: because {reason}")


def one_line(error: Exception) -> str:
    """The first line of a server's text, without the Java class in front; at most 300 characters."""
    text = error.message if hasattr(error, "message") else str(error)
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    line = lines[0] if lines else class_name(error)
    head, colon, rest = line.partition(": ")
    if colon and rest and " " not in head and "." in head and head.endswith(("Exception", "Error")):
        line = rest
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


_READ_AHEAD = 1 << 16
UNKNOWN_METHOD = TApplicationException.UNKNOWN_METHOD

APPLICATION_ERRORS = (TApplicationException, ApacheApplicationException)
SERVER_ERRORS = (TException, ApacheException)


class Unreadable(LinkLost):
    """What came back is no answer of a metastore."""


class Connection:
    """One connection, open from its creation on; not thread safe. A call that failed leaves it unusable."""

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions) -> None:
        """Connects; raises what `Link` raises."""
        self.endpoint = endpoint
        self.link = Link(endpoint, options)
        protocol = TCyBinaryProtocol(TCyBufferedTransport(self.link))  # type: ignore[no-untyped-call] # it has no types
        self._own = TClient(interface().Metastore, protocol)
        self._hive3: Any = None

    def own(self, timeout_seconds: float, name: str, *arguments: object) -> Any:
        """The answer of a call of our own interface, None for a call that has none, with all its required fields.

        Raises the exceptions of the interface, TApplicationException, LinkLost and CorruptError.
        """
        answer = self._invoke(self._own, timeout_seconds, name, arguments)
        check_required(answer, name)
        return answer

    def hive3(self, timeout_seconds: float, name: str, *arguments: object) -> Any:
        """The answer of a call of hmsclient's interface; required fields are the caller's to check."""
        if self._hive3 is None:
            transport = TBufferedTransport(_Bridge(self.link), _READ_AHEAD)
            self._hive3 = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
        return self._invoke(self._hive3, timeout_seconds, name, arguments)

    def close(self) -> None:
        """Ends the connection; never raises."""
        self.link.close()

    def _invoke(self, client: Any, timeout_seconds: float, name: str, arguments: tuple[object, ...]) -> Any:
        self.link.begin(timeout_seconds)
        try:
            return getattr(client, name)(*arguments)
        except LinkLost:
            raise
        except Exception as error:
            if isinstance(error, SERVER_ERRORS) and not isinstance(error, TTransportException):
                raise
            if not self.link.sent:
                raise DefectError(f"Cannot call {name}: because its arguments cannot be written: {error}") from error
            raise Unreadable(f"the answer of {name} cannot be read: {error}") from None


class _Bridge(TTransportBase):  # type: ignore[misc] # Apache Thrift publishes no types
    """The bytes of our link for Apache Thrift."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        return self._link.is_open()

    def close(self) -> None:
        self._link.close()

    def read(self, size: int) -> bytes:
        return self._link.read(size)

    def write(self, data: bytes) -> None:
        self._link.write(data)

    def flush(self) -> None:
        self._link.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What a metastore is: its generation, and the version it tells ("" if none).

    The versions 3.0 and 3.1 both tell `3.0`; Hive 4 tells its own, such as `4.0.1`.
    """

    generation: Generation
    version: str


def shake_hands(connection: Connection, options: ConnectionOptions, user: str) -> Peer:
    """Tells the server the user's name and asks what it is.

    Each answer has to come within the connect timeout. Raises LinkLost, and RefusedError when the server is no
    metastore of Hive 3.1 or 4.
    """
    if options.set_user and options.sasl is None:
        # as Hive's client: a server that does not want to know the user is no obstacle
        with suppress(*SERVER_ERRORS):
            connection.own(options.connect_timeout_seconds, "set_ugi", user, [])
    version = ""
    with suppress(*SERVER_ERRORS):
        version = connection.own(options.connect_timeout_seconds, "getVersion")
    return Peer(generation=_generation(connection, options, version), version=version)


def _generation(connection: Connection, options: ConnectionOptions, version: str) -> Generation:
    """Hive 4 if it has a call that only Hive 4 has, Hive 3 if it has one that came with Hive 3."""
    types = interface()
    asked = types.GetDatabaseRequest(name="default", catalogName=CATALOG)
    if _has(connection, options, "get_database_req", asked):
        return Generation.HIVE4
    nothing = types.GetValidWriteIdsRequest(fullTableNames=[], validTxnList=f"0:{LONG_MAX}::")
    if _has(connection, options, "get_valid_write_ids", nothing):
        return Generation.HIVE3
    told = f" (it tells version {version})" if version else ""
    raise RefusedError(
        f"Cannot use {connection.endpoint.uri}: because it is no metastore of Hive 3.1 or 4{told}: it has neither the "
        "call get_database_req nor get_valid_write_ids"
    )


def _has(connection: Connection, options: ConnectionOptions, call: str, request: object) -> bool:
    """Whether the server has a call: any answer that the interface provides for shows that it has."""
    try:
        connection.own(options.connect_timeout_seconds, call, request)
    except APPLICATION_ERRORS as error:
        if is_unknown_method(error):
            return False
        raise LinkLost(f"the server failed: {one_line(error)}") from None
    except SERVER_ERRORS:
        return True
    return True
