"""Where a metastore is reached and how: URIs, and the options of a connection as values. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from acidlib.errors import RefusedError

DEFAULT_PORT = 9083
CATALOG = "hive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One metastore process: a host name or address, and a port."""

    host: str
    port: int = DEFAULT_PORT

    @property
    def uri(self) -> str:
        """`thrift://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"thrift://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS with a check of the server's certificate and name; `ca_file` is a PEM file, None the system's own."""

    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    """A SASL login. `mechanism` is PLAIN (user and password) or GSSAPI (Kerberos, with the ticket of this process).

    `service` and `host` are the two parts of the server's principal; a `host` of None is the one connected to.
    Instead of `password` a `password_file` may be given, whose first line it is.
    """

    mechanism: str
    service: str = "hive"
    host: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to connect. Times are seconds.

    `timeout_seconds` is how long one answer may take, `connect_timeout_seconds` how long the connection and the first
    answer over it may: a peer that speaks another protocol often just waits. `attempts` is how often a call that may
    be repeated is tried in all. `set_user` tells the server the user's name, as Hive's client does without SASL.
    """

    timeout_seconds: float = 600.0
    connect_timeout_seconds: float = 10.0
    framed: bool = False
    tls: TlsOptions | None = None
    sasl: SaslOptions | None = None
    attempts: int = 5
    set_user: bool = True

    def __post_init__(self) -> None:
        for name, value in (
            ("timeout", self.timeout_seconds),
            ("connect timeout", self.connect_timeout_seconds),
            ("number of attempts", self.attempts),
        ):
            if value <= 0:
                raise RefusedError(f"Cannot connect to a metastore: because the {name}, {value}, is not above 0")


def parse_endpoints(uris: Sequence[str]) -> tuple[Endpoint, ...]:
    """The endpoints of URIs; each text may hold several, joined by commas. Repeated ones count once.

    Raises RefusedError for a text that is not `thrift://host[:port]`, and when there is none.
    """
    texts = [part.strip() for uri in uris for part in uri.split(",")]
    endpoints = tuple(dict.fromkeys(_parse(text) for text in texts if text))
    if not endpoints:
        raise RefusedError("Cannot connect to a metastore: because no URI is given")
    return endpoints


def _parse(text: str) -> Endpoint:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _malformed(text, str(error)) from None
    if parts.scheme != "thrift":
        raise _malformed(text, "it does not begin with thrift://")
    if not parts.hostname:
        raise _malformed(text, "it names no host")
    if "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise _malformed(text, "there is more than a host and a port")
    if port == 0:
        raise _malformed(text, "there is no port 0")
    return Endpoint(host=parts.hostname, port=DEFAULT_PORT if port is None else port)


def _malformed(text: str, reason: str) -> RefusedError:
    return RefusedError(f"Cannot use the metastore URI {text!r}: because {reason}; it has to be thrift://host:port")
