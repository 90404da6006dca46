"""One open connection to one metastore: our own interface by thriftpy2, and hmsclient's for reads of Hive 3.1."""

from __future__ import annotations

from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException as ApacheApplicationException
from thrift.Thrift import TException as ApacheException
from thrift.transport.TTransport import TBufferedTransport, TTransportBase
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TTransportException

from acidlib.errors import DefectError
from acidlib.metastore.endpoint import ConnectionOptions, Endpoint
from acidlib.metastore.idl import check_required, interface
from acidlib.metastore.link import Link, LinkLost

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
