"""How Hive's own client would reach a metastore, by its settings: as the values of `options`. No I/O.

Source of the names of settings: Hive `MetastoreConf` (`metastore.` and older `hive.metastore.` names) and `HiveConf`.
What is said over HTTP: Hive 4 `HiveMetaStoreClient` and `HmsThriftHttpServlet`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from acidlib.errors import RefusedError
from acidlib.metastore.options import (
    CATALOG,
    ConnectionOptions,
    HttpOptions,
    KerberosLogin,
    Protection,
    SaslOptions,
    TlsOptions,
)

_WITH_TICKET = KerberosLogin()
PROTECTION = "hadoop.rpc.protection"
CA_FILE = "acidlib.metastore.ca.file"
PASSWORD_FILE = "acidlib.metastore.password.file"  # noqa: S105 - the name of a setting
# as in Hive's client: the one way to hand it in
TOKEN_VARIABLE = "HMS_JWT"  # noqa: S105 - the name of a variable

_SECONDS = {
    "": 1.0, "ms": 0.001, "msec": 0.001, "us": 1e-6, "usec": 1e-6, "ns": 1e-9, "nsec": 1e-9,
    "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_DURATION = re.compile(r"([0-9]+)\s*([a-z]*)", re.IGNORECASE)
# the characters that RFC 9110 has for names of headers and for values, RFC 3986 for paths, RFC 6750 for tokens
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
_PATH = re.compile(r"[0-9A-Za-z._~!$&'()*+,;=:@%/-]+")
_CATALOG_NAME = re.compile(r"\w+")
_TOKEN = re.compile(r"[0-9A-Za-z._~+/-]+=*")
_ZOOKEEPER_TLS = ("metastore.zookeeper.ssl.", "hive.zookeeper.ssl.")
_PEM_SUFFIXES = (".pem", ".crt", ".cer")


class Secrets(Protocol):
    """What Java keeps; see `acidlib.storage.jvm.secrets`, which says what is raised."""

    @property
    def providers(self) -> str:
        """Where Hadoop's credential providers are; empty where there are none."""

    def password(self, name: str) -> str | None:
        """The password of a name in them."""

    def certificates(self, path: str, kind: str | None, password: str | None) -> str:
        """The certificates of a truststore, as PEM."""


def uris_from_settings(values: Mapping[str, str]) -> tuple[str, ...]:
    """The metastore URIs of the settings, in their order; empty when there is none.

    Where a ZooKeeper knows the metastores they are those of its servers: see `zookeeper_of`. Raises RefusedError for
    another way to find them.
    """
    text = _value(values, "metastore.thrift.uris", "hive.metastore.uris") or ""
    given = tuple(part.strip() for part in text.split(",") if part.strip())
    mode = _value(values, "metastore.service.discovery.mode")
    if mode is None:
        return given
    if mode.lower() != "zookeeper":
        raise _unsupported(f"metastore.service.discovery.mode is {mode}", "only zookeeper is")
    port = _value(values, "metastore.zookeeper.client.port", "hive.zookeeper.client.port") or "2181"
    namespace = _value(values, "metastore.zookeeper.namespace", "hive.zookeeper.namespace") or "hive_metastore"
    servers = (server if ":" in server else f"{server}:{port}" for server in given)
    return tuple(f"zookeeper://{server}/{namespace.strip('/')}" for server in servers)


def options_from_settings(
    values: Mapping[str, str],
    *,
    token: str | None = None,
    secrets: Secrets | None = None,
    login: KerberosLogin = _WITH_TICKET,
) -> ConnectionOptions:
    """The options that Hive's client would connect with.

    token    the JWT of who runs this, if there is one
    secrets  what Java keeps; asked where it is needed
    login    for a metastore that asks for Kerberos

    Raises RefusedError for a value that makes no sense and for what is not supported: the compact protocol; and what
    `secrets` raises.
    """
    if _flag(values, "metastore.thrift.compact.protocol.enabled"):
        raise _unsupported("metastore.thrift.compact.protocol.enabled is true", "only the binary protocol is")
    mode = _one_of(values, "metastore.client.thrift.transport.mode", ("binary", "http"))
    order = _one_of(
        values, "metastore.thrift.uri.selection", ("random", "sequential"), older="hive.metastore.uri.selection"
    )
    timeout = _value(values, "metastore.client.socket.timeout")
    return ConnectionOptions(
        timeout_seconds=600.0 if timeout is None else _seconds("hive.metastore.client.socket.timeout", timeout),
        framed=_flag(values, "metastore.thrift.framed.transport.enabled"),
        tls=_tls(values, secrets) if _flag(values, "metastore.use.SSL") else None,
        sasl=_sasl(values, secrets, login) if mode == "binary" else None,
        http=_http(values, token, secrets, login) if mode == "http" else None,
        set_user=_flag(values, "metastore.execute.setugi", default=True),
        in_any_order=order == "random",
        catalog=catalog_from_settings(values),
    )


def catalog_from_settings(values: Mapping[str, str]) -> str:
    """The catalog whose databases are meant; raises RefusedError for what cannot be a name of one."""
    name = (_value(values, "metastore.catalog.default") or CATALOG).lower()
    if not _CATALOG_NAME.fullmatch(name):
        raise RefusedError(f"Cannot use metastore.catalog.default: because {name!r} is no name of a catalog")
    return name


def zookeeper_tls(values: Mapping[str, str], secrets: Secrets | None) -> TlsOptions | None:
    """TLS to a ZooKeeper, as Hive's client has it; None without.

    Raises RefusedError for a key in a file of Java's, and what `secrets` raises.
    """
    if not _flag(values, "metastore.zookeeper.ssl.client.enable", older="hive.zookeeper.ssl.client.enable"):
        return None
    key_file = _value(values, *(f"{prefix}keystore.location" for prefix in _ZOOKEEPER_TLS))
    if key_file is not None and not key_file.lower().endswith(_PEM_SUFFIXES):
        raise RefusedError(
            f"Cannot use the keystore {key_file}: because of keys only PEM files are read; export key and certificate "
            "into one, and name that in hive.zookeeper.ssl.keystore.location (ZooKeeper itself reads it, too)"
        )
    truststore = _value(values, *(f"{prefix}truststore.location" for prefix in _ZOOKEEPER_TLS))
    trusting = _trusting(values, secrets, truststore, [f"{prefix}truststore." for prefix in _ZOOKEEPER_TLS])
    if key_file is None:
        return trusting
    password = _kept(values, secrets, *(f"{prefix}keystore.password" for prefix in _ZOOKEEPER_TLS))
    return replace(trusting, key_file=key_file, key_password=password)


def _http(values: Mapping[str, str], token: str | None, secrets: Secrets | None, login: KerberosLogin) -> HttpOptions:
    mode = (_value(values, "metastore.client.auth.mode") or "NOSASL").upper()
    by_kerberos = mode != "JWT" and (_flag(values, "metastore.sasl.enabled") or mode == "KERBEROS")
    if mode == "JWT" and not token:
        raise RefusedError(
            f"Cannot log in to the metastore with a JWT: because the variable {TOKEN_VARIABLE} is not set"
        )
    if mode == "JWT" and token is not None and not _TOKEN.fullmatch(token):
        raise RefusedError(f"Cannot log in to the metastore with a JWT: because {TOKEN_VARIABLE} does not hold one")
    return HttpOptions(
        path=_http_path(_value(values, "metastore.client.thrift.http.path") or "metastore"),
        token=token if mode == "JWT" else None,
        username=_value(values, "metastore.client.plain.username"),
        login=_checked(login) if by_kerberos else None,
        headers=_headers(_value(values, "metastore.client.http.additional.headers") or ""),
        https=_tls(values, secrets),
    )


def _http_path(text: str) -> str:
    """The path that Hive's client posts to (`MetaStoreUtils.getHttpPath`): it is that of the servlet, with its star."""
    if not _PATH.fullmatch(text):
        raise RefusedError(f"Cannot use metastore.client.thrift.http.path: because {text!r} is no path")
    return f"/{text.removesuffix('*').strip('/')}/*".replace("//", "/")


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """Headers given as `name=value,name=value`. A refusal does not show the values: they may be secrets."""
    found = []
    for number, part in enumerate(filter(str.strip, text.split(",")), start=1):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not _HEADER_NAME.fullmatch(name) or not value or not _HEADER_VALUE.fullmatch(value):
            raise RefusedError(
                f"Cannot use metastore.client.http.additional.headers: because its part {number} is not name=value"
            )
        found.append((name, value))
    return tuple(found)


def _tls(values: Mapping[str, str], secrets: Secrets | None) -> TlsOptions:
    ca_file = values.get(CA_FILE, "").strip()
    if ca_file:
        return TlsOptions(ca_file=ca_file)
    return _trusting(values, secrets, _value(values, "metastore.truststore.path"), ("metastore.truststore.",))


def _trusting(
    values: Mapping[str, str], secrets: Secrets | None, truststore: str | None, prefixes: Sequence[str]
) -> TlsOptions:
    """What a truststore has; the names of the settings with its type and its password begin with the prefixes."""
    if truststore is None or truststore.lower().endswith(_PEM_SUFFIXES):
        return TlsOptions(ca_file=truststore)
    if secrets is None:
        raise RefusedError(f"Cannot use the truststore {truststore}: because there is no Java here, which reads such")
    kind = _value(values, *(f"{prefix}type" for prefix in prefixes))
    password = _kept(values, secrets, *(f"{prefix}password" for prefix in prefixes))
    return TlsOptions(certificates=secrets.certificates(truststore, kind, password))


def _kept(values: Mapping[str, str], secrets: Secrets | None, *names: str) -> str | None:
    """A password: that of a credential provider, else what the settings say."""
    stored = () if secrets is None else map(secrets.password, _spellings(names))
    return next(filter(None, stored), None) or _value(values, *names)


def _sasl(values: Mapping[str, str], secrets: Secrets | None, login: KerberosLogin) -> SaslOptions | None:
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


def _plain(values: Mapping[str, str], secrets: Secrets | None) -> SaslOptions:
    """With the password of a file of ours, or as Hive's client has it: that of the user's name, in a provider."""
    username = _value(values, "metastore.client.plain.username")
    password_file = values.get(PASSWORD_FILE, "").strip()
    failed = "Cannot log in to the metastore with PLAIN: because"
    if not username:
        raise RefusedError(f"{failed} hive.metastore.client.plain.username is not set")
    if password_file:
        return SaslOptions(mechanism="PLAIN", username=username, password_file=password_file)
    if secrets is None or not secrets.providers:
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
            f"Cannot log in to the metastore with Kerberos: because hive.metastore.kerberos.principal is "
            f"{principal or 'not set'}; it has to be service/_HOST@REALM"
        )
    return SaslOptions(
        mechanism="GSSAPI",
        service=service,
        host=None if host.upper() == "_HOST" else host,
        realm=realm or None,
        login=_checked(login),
        protection=_protection(values),
    )


def _checked(login: KerberosLogin) -> KerberosLogin:
    if login.keytab is not None and login.principal is None:
        raise RefusedError(
            f"Cannot log in to the metastore with Kerberos: because --keytab names {login.keytab}, and no --principal "
            "says who of those in it logs in"
        )
    return login


def _protection(values: Mapping[str, str]) -> tuple[Protection, ...]:
    """What Hadoop's setting names, in its order; over TLS, which encrypts by itself, what costs least.

    Source: Hive `MetaStoreUtils.getMetaStoreSaslProperties`, by which metastores with TLS offer nothing else.
    """
    text = values.get(PROTECTION, "")
    try:
        named = tuple(Protection(word) for part in text.split(",") if (word := part.strip().lower()))
    except ValueError:
        names = ", ".join(one.value for one in Protection)
        raise RefusedError(f"Cannot use the setting {PROTECTION}: because {text!r} is none of {names}") from None
    return () if _flag(values, "metastore.use.SSL") else named


def _value(values: Mapping[str, str], *names: str) -> str | None:
    """The first of the names that is set, or else its older spelling with `hive.` in front; blank counts as not set."""
    return next((text for name in _spellings(names) if (text := values.get(name, "").strip())), None)


def _spellings(names: Sequence[str]) -> list[str]:
    return [*names, *(f"hive.{name}" for name in names if not name.startswith("hive."))]


def _one_of(values: Mapping[str, str], name: str, words: Sequence[str], *, older: str | None = None) -> str:
    """The word that a setting has, in lower case; the first one if it is not set."""
    text = _value(values, name, *([older] if older else []))
    if text is not None and text.lower() not in words:
        raise RefusedError(f"Cannot use the setting {name}: because {text!r} is neither {' nor '.join(words)}")
    return words[0] if text is None else text.lower()


def _flag(values: Mapping[str, str], name: str, *, default: bool = False, older: str | None = None) -> bool:
    text = _value(values, name, *([older] if older else []))
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
