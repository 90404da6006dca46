"""Where a metastore is reached and how: URIs and options as values. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from acidlib.errors import RefusedError

DEFAULT_PORT = 9083
_SCHEMES = ("thrift", "http", "https")
CATALOG = "hive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One metastore process: a host name or address, and a port. The scheme `https` asks for TLS."""

    host: str
    port: int = DEFAULT_PORT
    scheme: str = "thrift"

    @property
    def uri(self) -> str:
        """`thrift://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS with a check of the server's certificate and name.

    `ca_file` is a PEM file with the certificates to trust, `certificates` their text; without both it is the system's
    own that count. `key_file` is one with our own key and certificate, for a server that asks who we are.
    """

    ca_file: str | None = None
    certificates: str | None = field(default=None, repr=False)
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Who logs in: `principal` with the keys in the file `keytab`; without them, whoever has a ticket in the cache.

    `cache` is the cache as KRB5CCNAME names it, where that is known: it is told from there when a ticket ended.
    """

    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None


class Protection(Enum):
    """What is done with messages after a login with Kerberos, by Hadoop's names: nothing, signed, encrypted."""

    AUTHENTICATION = "authentication"
    INTEGRITY = "integrity"
    PRIVACY = "privacy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    """A SASL login. `mechanism` is PLAIN (user and password) or GSSAPI (Kerberos, by `login`).

    `service`, `host` and `realm` are the parts of the server's principal; a `host` of None is the one connected to, a
    `realm` of None is found by Kerberos. `protection` is what may become of messages, the first one that the server
    offers is taken; empty: what costs least. Instead of `password` a `password_file` may be given; its first line is
    the password.
    """

    mechanism: str
    service: str = "hive"
    host: str | None = None
    realm: str | None = None
    login: KerberosLogin = KerberosLogin()
    protection: tuple[Protection, ...] = ()
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Thrift over HTTP: each message is one POST to `path`.

    `token`, a JWT, says who asks; without one it is a header with `username`, or with the name of who runs this.
    With `login` somebody logs in with Kerberos where the server asks for it. `headers` are sent besides. `https` is for
    URIs that begin so.
    """

    path: str = "/metastore/*"
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    login: KerberosLogin | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    https: TlsOptions = TlsOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to connect. Times are seconds.

    `timeout_seconds` is how long one answer may take, `connect_timeout_seconds` how long the connection and the first
    answer over it may: a peer that speaks another protocol often just waits. `attempts` is how often a call that may
    be repeated is tried in all. With `set_user` the user's name is sent to the server, as Hive's client does without
    SASL; with `http` neither that nor frames nor SASL have a meaning. `in_any_order` says that the URIs are not to be
    tried in the order in which they are given, `catalog` whose databases are meant. `zookeeper_tls` is for a ZooKeeper
    that is asked where they are.
    """

    timeout_seconds: float = 600.0
    connect_timeout_seconds: float = 10.0
    framed: bool = False
    tls: TlsOptions | None = None
    zookeeper_tls: TlsOptions | None = None
    sasl: SaslOptions | None = None
    http: HttpOptions | None = None
    attempts: int = 5
    set_user: bool = True
    in_any_order: bool = True
    catalog: str = CATALOG

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

    Raises RefusedError for a text that is not `thrift://host[:port]` (over HTTP also `http://` or `https://`), and when
    there is none.
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
    if parts.scheme not in _SCHEMES:
        raise _malformed(text, "it does not begin with thrift://")
    if not parts.hostname:
        raise _malformed(text, "it names no host")
    if "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise _malformed(text, "there is more than a host and a port")
    if port == 0:
        raise _malformed(text, "there is no port 0")
    return Endpoint(host=parts.hostname, port=DEFAULT_PORT if port is None else port, scheme=parts.scheme)


def _malformed(text: str, reason: str) -> RefusedError:
    return RefusedError(f"Cannot use the metastore URI {text!r}: because {reason}; it has to be thrift://host:port")
