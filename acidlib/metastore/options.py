"""Where a metastore is reached and how: URIs and options as values, given or out of Hive's settings. No I/O.

Source of the names of settings: Hive `MetastoreConf` (`metastore.` and older `hive.metastore.` names) and `HiveConf`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    Instead of `password` a `password_file` may be given; its first line is the password.
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
    be repeated is tried in all. With `set_user` the user's name is sent to the server, as Hive's client does without
    SASL.
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


CA_FILE = "acidlib.metastore.ca.file"
PASSWORD_FILE = "acidlib.metastore.password.file"  # noqa: S105 - the name of a setting

_SECONDS = {
    "": 1.0, "ms": 0.001, "msec": 0.001, "us": 1e-6, "usec": 1e-6, "ns": 1e-9, "nsec": 1e-9,
    "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_DURATION = re.compile(r"([0-9]+)\s*([a-z]*)", re.IGNORECASE)
_PEM_SUFFIXES = (".pem", ".crt", ".cer")


def uris_from_settings(values: Mapping[str, str]) -> tuple[str, ...]:
    """The metastore URIs of the settings, in their order; empty when there is none.

    Raises RefusedError where the URIs are those of a ZooKeeper that knows the metastores.
    """
    mode = _value(values, "metastore.service.discovery.mode")
    if mode and mode.lower() == "zookeeper":
        raise RefusedError(
            "Cannot find the metastore: because metastore.service.discovery.mode is zookeeper, which is not "
            "supported; give the metastore's own URIs"
        )
    text = _value(values, "metastore.thrift.uris", "hive.metastore.uris") or ""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def options_from_settings(values: Mapping[str, str]) -> ConnectionOptions:
    """The options that Hive's client would connect with.

    Raises RefusedError for a value that makes no sense and for what is not supported: HTTP, the compact
    protocol, another catalog, a Java truststore.
    """
    if (_value(values, "metastore.client.thrift.transport.mode") or "binary").lower() != "binary":
        raise _unsupported("metastore.client.thrift.transport.mode is http", "only the binary transport is")
    if _flag(values, "metastore.thrift.compact.protocol.enabled"):
        raise _unsupported("metastore.thrift.compact.protocol.enabled is true", "only the binary protocol is")
    catalog = _value(values, "metastore.catalog.default") or CATALOG
    if catalog != CATALOG:
        raise _unsupported(f"metastore.catalog.default is {catalog}", f"only the catalog {CATALOG} is")
    timeout = _value(values, "metastore.client.socket.timeout")
    return ConnectionOptions(
        timeout_seconds=600.0 if timeout is None else _seconds("hive.metastore.client.socket.timeout", timeout),
        framed=_flag(values, "metastore.thrift.framed.transport.enabled"),
        tls=_tls(values) if _flag(values, "metastore.use.SSL") else None,
        sasl=_sasl(values),
        set_user=_flag(values, "metastore.execute.setugi", default=True),
    )


def _tls(values: Mapping[str, str]) -> TlsOptions:
    ca_file = values.get(CA_FILE, "").strip() or None
    truststore = _value(values, "metastore.truststore.path")
    if ca_file is None and truststore:
        if not truststore.lower().endswith(_PEM_SUFFIXES):
            raise RefusedError(
                f"Cannot use the truststore {truststore}: because only Java reads such files; export its certificates "
                f"as PEM (keytool -exportcert -rfc) and name that file in {CA_FILE}"
            )
        ca_file = truststore
    return TlsOptions(ca_file=ca_file)


def _sasl(values: Mapping[str, str]) -> SaslOptions | None:
    mode = (_value(values, "metastore.client.auth.mode") or "NOSASL").upper()
    if _flag(values, "metastore.sasl.enabled") or mode == "KERBEROS":
        return _kerberos(_value(values, "metastore.kerberos.principal"))
    if mode == "PLAIN":
        password_file = values.get(PASSWORD_FILE, "").strip()
        username = _value(values, "metastore.client.plain.username")
        if not password_file or not username:
            raise RefusedError(
                "Cannot log in to the metastore with PLAIN: because hive.metastore.client.plain.username or "
                f"{PASSWORD_FILE} is not set (the password in a Hadoop credential store can only be read by Java)"
            )
        return SaslOptions(mechanism="PLAIN", username=username, password_file=password_file)
    if mode != "NOSASL":
        raise _unsupported(f"metastore.client.auth.mode is {mode}", "only NOSASL, PLAIN and KERBEROS are")
    return None


def _kerberos(principal: str | None) -> SaslOptions:
    service, slash, rest = (principal or "").partition("/")
    host = rest.partition("@")[0]
    if not service or not slash or not host:
        raise RefusedError(
            f"Cannot log in to the metastore with Kerberos: because hive.metastore.kerberos.principal is "
            f"{principal or 'not set'}; it has to be service/_HOST@REALM"
        )
    return SaslOptions(mechanism="GSSAPI", service=service, host=None if host.upper() == "_HOST" else host)


def _value(values: Mapping[str, str], *names: str) -> str | None:
    """The first of the names that is set, or else its older spelling with `hive.` in front; blank counts as not set."""
    spellings = [*names, *(f"hive.{name}" for name in names if not name.startswith("hive."))]
    return next((text for name in spellings if (text := values.get(name, "").strip())), None)


def _flag(values: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = _value(values, name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise RefusedError(f"Cannot use the setting {name}: because {text!r} is neither true nor false")
    return text.lower() == "true"


def _seconds(name: str, text: str) -> float:
    match = _DURATION.fullmatch(text)
    unit = match.group(2).lower() if match else ""
    factor = _SECONDS.get(unit, _SECONDS.get(unit.removesuffix("s")))
    if match is None or factor is None:
        raise RefusedError(f"Cannot use the setting {name}: because {text!r} is not a duration such as 600s")
    # 0 is no limit for Hive; a call that never ends would hold a compaction for ever
    return int(match.group(1)) * factor or 600.0


def _unsupported(what: str, instead: str) -> RefusedError:
    return RefusedError(f"Cannot connect to the metastore: because {what}, which is not supported; {instead}")
