"""The addresses of a metastore and the options of a connection, as values read from the settings of Hive's own client.

Source of the names of settings: Hive `MetastoreConf` (`metastore.` and older `hive.metastore.` names) and `HiveConf`;
of those for HTTP: Hive 4 `HiveMetaStoreClient` and `HmsThriftHttpServlet`. There is no I/O here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol
from urllib.parse import urlsplit

from acidlib.acid.names import Reader
from acidlib.arguments import LOGIN_KEYTAB, LOGIN_PRINCIPAL
from acidlib.errors import RefusedError
from acidlib.masking import masked_uri
from acidlib.wording import parse_duration, parse_flag

DEFAULT_PORT = 9083
_SCHEMES = ("thrift", "http", "https")
_ZOOKEEPER = "zookeeper"
PROTECTION = "hadoop.rpc.protection"
CA_FILE = "acidlib.metastore.ca.file"
READER = "acidlib.reader.hive.version"
PASSWORD_FILE = "acidlib.metastore.password.file"  # noqa: S105 - the name of a setting
# as in Hive's client, which takes it from nowhere else
TOKEN_VARIABLE = "HMS_JWT"  # noqa: S105 - the name of a variable

# the characters of RFC 9110 in names and values of headers, of RFC 3986 in paths, of RFC 6750 in tokens
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
_PATH = re.compile(r"[0-9A-Za-z._~!$&'()*+,;=:@%/-]+")
_CATALOG_NAME = re.compile(r"\w+")
_TOKEN = re.compile(r"[0-9A-Za-z._~+/-]+=*")
_ZOOKEEPER_TLS = ("metastore.zookeeper.ssl.", "hive.zookeeper.ssl.")
_PEM_SUFFIXES = (".pem", ".crt", ".cer")
CATALOG = "hive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A metastore process: a host name or address, and a port. The scheme `https` means TLS.

    With the scheme `zookeeper` it is a server of a ZooKeeper in which metastores register, below the node `namespace`.
    """

    host: str
    port: int = DEFAULT_PORT
    scheme: str = "thrift"
    namespace: str = ""

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        """`thrift://host:port`."""
        return f"{self.scheme}://{self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS with a check of the server's certificate and name.

    ca_file       a PEM file with the certificates to trust; without it and `certificates`, the system's are trusted
    certificates  the same as PEM text
    key_file      a PEM file with our own key and certificate, for a server that demands one, and its `key_password`
    """

    ca_file: str | None = None
    certificates: str | None = field(default=None, repr=False)
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """The identity of a Kerberos login: `principal` with the file `keytab`, or the ticket in the cache without them.

    `cache` is the value of KRB5CCNAME if it is set: messages take the end of a ticket's life from that cache.
    """

    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None


class Protection(Enum):
    """The protection of messages after a Kerberos login, by Hadoop's names: none, signed, encrypted."""

    AUTHENTICATION = "authentication"
    INTEGRITY = "integrity"
    PRIVACY = "privacy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    """A SASL login.

    mechanism      PLAIN (user and password) or GSSAPI (Kerberos)
    service        the first part of the server's principal
    host           its second part; None: the host that is connected to
    realm          its realm; None: Kerberos finds it
    login          our own identity in Kerberos
    protection     the allowed protections of messages; the first that the server offers is used; empty: the cheapest
    password_file  a file with the password in its first line, instead of `password`
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

    token     the JWT that identifies the user
    username  the user's name in a header, without a token; None: the user of this process
    login     the identity for servers that demand Kerberos
    headers   more headers to send
    https     TLS for URIs with the scheme `https`
    """

    path: str = "/metastore/*"
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    login: KerberosLogin | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    https: TlsOptions = TlsOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The options of a connection.

    timeout_seconds          the limit for one answer
    connect_timeout_seconds  the limit for connecting, and for the first answer: a peer that speaks another protocol
                             often just waits
    framed, sasl, set_user   have no effect with `http`
    zookeeper_tls            TLS to the ZooKeeper in which metastores register
    attempts                 the number of attempts at a call that may be repeated
    set_user                 send the user's name to the server, as Hive's client does without SASL
    in_any_order             try the URIs in random order
    catalog                  the catalog of all databases that are named
    reader                   what reads the tables, where that is stated
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
    reader: Reader | None = None


def names_zookeeper(uris: Sequence[str]) -> bool:
    """Return whether any of the URIs is `zookeeper://host:port/namespace`, one for each server."""
    return any(text.startswith(f"{_ZOOKEEPER}:") for text in _split(uris))


def parse_endpoints(uris: Sequence[str]) -> tuple[Endpoint, ...]:
    """Return the endpoints of URIs, each once; a text may have several URIs, joined by commas.

    Raises RefusedError for a text that is not `thrift://host[:port]` (over HTTP also `http://` or `https://`), without
    any URI, and when servers of a ZooKeeper are mixed with other URIs or differ in the node.
    """
    is_zookeeper = names_zookeeper(uris)
    endpoints = tuple(dict.fromkeys(_parse(text, is_zookeeper=is_zookeeper) for text in _split(uris)))
    if not endpoints:
        raise RefusedError("Cannot connect to a metastore: no URI is given")
    nodes = sorted({f"/{endpoint.namespace}" for endpoint in endpoints})
    if len(nodes) > 1:
        raise RefusedError(f"Cannot find the metastore: its URIs name several nodes of a ZooKeeper: {', '.join(nodes)}")
    return endpoints


def _split(uris: Sequence[str]) -> list[str]:
    return [part.strip() for uri in uris for part in uri.split(",") if part.strip()]


def _parse(text: str, *, is_zookeeper: bool) -> Endpoint:
    shown = masked_uri(text)
    failed, form = f"Cannot use the metastore URI {shown!r}", "thrift://host:port"
    if is_zookeeper:
        failed, form = f"Cannot use the URI {shown!r} of a ZooKeeper", f"{_ZOOKEEPER}://host:port/namespace"
    try:
        parts = urlsplit(text)
        host, port, node = parts.hostname or "", parts.port, parts.path.strip("/")
    except ValueError as error:
        raise RefusedError(f"{failed}: {error}; it has to be {form}") from None
    if is_zookeeper:
        problems = {
            f"other URIs begin with {_ZOOKEEPER}://": parts.scheme != _ZOOKEEPER,
            "it has not just a host and a port": not host or not port or "@" in parts.netloc,
            "it names no node": not node.isprintable() or not node or parts.query or parts.fragment,
        }
    else:
        problems = {
            "it does not begin with thrift://": parts.scheme not in _SCHEMES,
            "it names no host": not host,
            "it has more than a host and a port": "@" in parts.netloc or node or parts.query or parts.fragment,
            "its port is 0": port == 0,
        }
    for reason, is_so in problems.items():
        if is_so:
            raise RefusedError(f"{failed}: {reason}; it has to be {form}")
    return Endpoint(host=host, port=DEFAULT_PORT if port is None else port, scheme=parts.scheme, namespace=node)


_WITH_TICKET = KerberosLogin()


class Secrets(Protocol):
    """Passwords and certificates in files of Java's; `acidlib.stores.hadoop` states the errors."""

    @property
    def providers(self) -> str:
        """The locations of Hadoop's credential providers; empty without any."""

    def password(self, name: str) -> str | None:
        """Return the password of a name in them."""

    def certificates(self, path: str, kind: str | None, password: str | None) -> str:
        """Return the certificates of a truststore, as PEM."""


def uris_from_settings(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the metastore URIs of the settings, in their order; empty without any.

    Where metastores register in a ZooKeeper, the URIs are those of its servers. Raises RefusedError for any other
    discovery of metastores.
    """
    uris = tuple(_split([_value(values, "metastore.thrift.uris", "hive.metastore.uris") or ""]))
    mode = _value(values, "metastore.service.discovery.mode")
    if mode is None:
        return uris
    if mode.lower() != "zookeeper":
        raise _unsupported(f"metastore.service.discovery.mode is {mode}", "only zookeeper is")
    port = _value(values, "metastore.zookeeper.client.port", "hive.zookeeper.client.port") or "2181"
    namespace = _value(values, "metastore.zookeeper.namespace", "hive.zookeeper.namespace") or "hive_metastore"
    servers = (server if ":" in server else f"{server}:{port}" for server in uris)
    return tuple(f"zookeeper://{server}/{namespace.strip('/')}" for server in servers)


def options_from_settings(
    values: Mapping[str, str], *, secrets: Secrets, token: str | None = None, login: KerberosLogin = _WITH_TICKET
) -> ConnectionOptions:
    """Return the options with which Hive's client would connect.

    secrets  passwords and certificates in files of Java's, which are read only where they are needed
    token    the user's JWT, if there is one
    login    for a metastore that demands Kerberos

    Raises RefusedError for an invalid value, for the compact protocol and other values that are not supported, and the
    errors of `secrets`.
    """
    if _flag(values, "metastore.thrift.compact.protocol.enabled"):
        raise _unsupported("metastore.thrift.compact.protocol.enabled is true", "only the binary protocol is")
    mode = _one_of(values, "metastore.client.thrift.transport.mode", ("binary", "http"))
    order = _one_of(values, "metastore.thrift.uri.selection", ("random", "sequential"), "hive.metastore.uri.selection")
    timeout = _value(values, "metastore.client.socket.timeout") or "600s"
    try:
        seconds = parse_duration(timeout) / 1000
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        name = "hive.metastore.client.socket.timeout"
        raise RefusedError(f"Cannot use the setting {name}: {timeout!r} is not a duration such as 600s")
    return ConnectionOptions(
        timeout_seconds=seconds or 600.0,  # 0 means no limit to Hive; a call that never ends would block a compaction
        framed=_flag(values, "metastore.thrift.framed.transport.enabled"),
        tls=_tls(values, secrets) if _flag(values, "metastore.use.SSL") else None,
        sasl=_sasl(values, secrets, login) if mode == "binary" else None,
        http=_http(values, token, secrets, login) if mode == "http" else None,
        set_user=_flag(values, "metastore.execute.setugi", default=True),
        in_any_order=order == "random",
        catalog=catalog_from_settings(values),
    )


def catalog_from_settings(values: Mapping[str, str]) -> str:
    """Return the default catalog; raise RefusedError for an invalid name."""
    name = (_value(values, "metastore.catalog.default") or CATALOG).lower()
    if not _CATALOG_NAME.fullmatch(name):
        raise RefusedError(f"Cannot use metastore.catalog.default: {name!r} is no name of a catalog")
    return name


def zookeeper_tls(values: Mapping[str, str], secrets: Secrets) -> TlsOptions | None:
    """Return the TLS options of Hive's client for a ZooKeeper; None without TLS.

    Raises RefusedError for a key in a file of Java's, and the errors of `secrets`.
    """
    if not _flag(values, "metastore.zookeeper.ssl.client.enable", "hive.zookeeper.ssl.client.enable"):
        return None
    key_file = _value(values, *(f"{prefix}keystore.location" for prefix in _ZOOKEEPER_TLS))
    if key_file is not None and not key_file.lower().endswith(_PEM_SUFFIXES):
        raise RefusedError(
            f"Cannot use the keystore {key_file}: keys are read from PEM files only; export key and certificate "
            "into a PEM file, and name it in hive.zookeeper.ssl.keystore.location (ZooKeeper itself reads it, too)"
        )
    truststore = _value(values, *(f"{prefix}truststore.location" for prefix in _ZOOKEEPER_TLS))
    options = _truststore(values, secrets, truststore, [f"{prefix}truststore." for prefix in _ZOOKEEPER_TLS])
    if key_file is None:
        return options
    password = _password(values, secrets, *(f"{prefix}keystore.password" for prefix in _ZOOKEEPER_TLS))
    return replace(options, key_file=key_file, key_password=password)


def _http(values: Mapping[str, str], token: str | None, secrets: Secrets, login: KerberosLogin) -> HttpOptions:
    mode = (_value(values, "metastore.client.auth.mode") or "NOSASL").upper()
    by_kerberos = mode != "JWT" and (_flag(values, "metastore.sasl.enabled") or mode == "KERBEROS")
    if mode == "JWT" and not token:
        raise RefusedError(f"Cannot log in to the metastore with a JWT: the variable {TOKEN_VARIABLE} is not set")
    if mode == "JWT" and not _TOKEN.fullmatch(token or ""):
        raise RefusedError(f"Cannot log in to the metastore with a JWT: {TOKEN_VARIABLE} does not hold a JWT")
    path = _value(values, "metastore.client.thrift.http.path") or "metastore"
    if not _PATH.fullmatch(path):
        raise RefusedError(f"Cannot use metastore.client.thrift.http.path: {path!r} is no path")
    return HttpOptions(
        # with the servlet's star, as Hive's client posts to it (`MetaStoreUtils.getHttpPath`)
        path=f"/{path.removesuffix('*').strip('/')}/*".replace("//", "/"),
        token=token if mode == "JWT" else None,
        username=_value(values, "metastore.client.plain.username"),
        login=_checked(login) if by_kerberos else None,
        headers=_headers(_value(values, "metastore.client.http.additional.headers") or ""),
        https=_tls(values, secrets),
    )


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of a text `name=value,name=value`. A refusal does not show values: they may be secrets."""
    headers = []
    for number, part in enumerate(filter(str.strip, text.split(",")), start=1):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not _HEADER_NAME.fullmatch(name) or not value or not _HEADER_VALUE.fullmatch(value):
            raise RefusedError(
                f"Cannot use metastore.client.http.additional.headers: its part {number} is not name=value"
            )
        headers.append((name, value))
    return tuple(headers)


def _tls(values: Mapping[str, str], secrets: Secrets) -> TlsOptions:
    ca_file = values.get(CA_FILE, "").strip()
    if ca_file:
        return TlsOptions(ca_file=ca_file)
    return _truststore(values, secrets, _value(values, "metastore.truststore.path"), ("metastore.truststore.",))


def _truststore(values: Mapping[str, str], secrets: Secrets, path: str | None, prefixes: Sequence[str]) -> TlsOptions:
    """Return TLS options that trust a truststore; settings named prefix and `type` or `password` describe it."""
    if path is None or path.lower().endswith(_PEM_SUFFIXES):
        return TlsOptions(ca_file=path)
    kind = _value(values, *(f"{prefix}type" for prefix in prefixes))
    password = _password(values, secrets, *(f"{prefix}password" for prefix in prefixes))
    return TlsOptions(certificates=secrets.certificates(path, kind, password))


def _password(values: Mapping[str, str], secrets: Secrets, *names: str) -> str | None:
    """Return a password from a credential provider, else from the settings."""
    return next(filter(None, map(secrets.password, _spellings(names))), None) or _value(values, *names)


def _sasl(values: Mapping[str, str], secrets: Secrets, login: KerberosLogin) -> SaslOptions | None:
    mode = (_value(values, "metastore.client.auth.mode") or "NOSASL").upper()
    if _flag(values, "metastore.sasl.enabled") or mode == "KERBEROS":
        return _kerberos(values, login)
    if mode == "PLAIN":
        return _plain(values, secrets)
    if mode == "JWT":
        raise _unsupported("metastore.client.auth.mode is JWT without HTTP", "a JWT is sent over HTTP only")
    if mode != "NOSASL":
        raise _unsupported(f"metastore.client.auth.mode is {mode}", "only NOSASL, PLAIN and KERBEROS are")
    return None


def _plain(values: Mapping[str, str], secrets: Secrets) -> SaslOptions:
    """Return a PLAIN login; the password is in a file of ours, or in a provider under the user's name, as in Hive."""
    username = _value(values, "metastore.client.plain.username")
    password_file = values.get(PASSWORD_FILE, "").strip()
    failed = "Cannot log in to the metastore with PLAIN:"
    if not username:
        raise RefusedError(f"{failed} hive.metastore.client.plain.username is not set")
    if password_file:
        return SaslOptions(mechanism="PLAIN", username=username, password_file=password_file)
    if not secrets.providers:
        raise RefusedError(
            f"{failed} neither hadoop.security.credential.provider.path, where Hive's client finds the password by the "
            f"user's name, nor {PASSWORD_FILE} is set"
        )
    password = secrets.password(username)
    if password is None:
        raise RefusedError(f"{failed} there is no {username} in {secrets.providers}, or no such file")
    return SaslOptions(mechanism="PLAIN", username=username, password=password)


def _kerberos(values: Mapping[str, str], login: KerberosLogin) -> SaslOptions:
    principal = _value(values, "metastore.kerberos.principal")
    service, slash, rest = (principal or "").partition("/")
    host, _, realm = rest.partition("@")
    if not service or not slash or not host:
        raise RefusedError(
            f"Cannot log in to the metastore with Kerberos: hive.metastore.kerberos.principal is "
            f"{principal or 'not set'}; it has to be service/_HOST@REALM"
        )
    text = values.get(PROTECTION, "")
    try:
        protection = tuple(Protection(word) for part in text.split(",") if (word := part.strip().lower()))
    except ValueError:
        names = ", ".join(protection.value for protection in Protection)
        raise RefusedError(f"Cannot use the setting {PROTECTION}: {text!r} is none of {names}") from None
    return SaslOptions(
        mechanism="GSSAPI",
        service=service,
        host=None if host.upper() == "_HOST" else host,
        realm=realm or None,
        login=_checked(login),
        # metastores with TLS, which encrypts by itself, offer only none: `MetaStoreUtils.getMetaStoreSaslProperties`
        protection=() if _flag(values, "metastore.use.SSL") else protection,
    )


def _checked(login: KerberosLogin) -> KerberosLogin:
    if login.keytab is not None and login.principal is None:
        raise RefusedError(
            f"Cannot log in to the metastore with Kerberos: {LOGIN_KEYTAB} names {login.keytab}, and no "
            f"{LOGIN_PRINCIPAL} says which principal in it logs in"
        )
    return login


def _value(values: Mapping[str, str], *names: str) -> str | None:
    """Return the value of the first name that is set, else of one with `hive.` in front; a blank value is not set."""
    return next((text for name in _spellings(names) if (text := values.get(name, "").strip())), None)


def _spellings(names: Sequence[str]) -> list[str]:
    return [*names, *(f"hive.{name}" for name in names if not name.startswith("hive."))]


def _one_of(values: Mapping[str, str], name: str, words: Sequence[str], *older: str) -> str:
    """Return the word of a setting, in lower case; the first word if it is not set."""
    text = _value(values, name, *older)
    if text is not None and text.lower() not in words:
        raise RefusedError(f"Cannot use the setting {name}: {text!r} is neither {' nor '.join(words)}")
    return words[0] if text is None else text.lower()


def _flag(values: Mapping[str, str], name: str, *older: str, default: bool = False) -> bool:
    text = _value(values, name, *older)
    try:
        return default if text is None else parse_flag(text)
    except ValueError:
        raise RefusedError(f"Cannot use the setting {name}: {text!r} is neither true nor false") from None


def _unsupported(setting: str, instead: str) -> RefusedError:
    return RefusedError(f"Cannot connect to the metastore: {setting}, which is not supported; {instead}")
