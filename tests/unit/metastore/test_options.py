"""How a metastore is reached: its URIs, and the settings of Hive's client."""

from __future__ import annotations

from typing import Any

import pytest

from acidlib.errors import RefusedError
from acidlib.metastore.options import (
    ConnectionOptions,
    HttpOptions,
    KerberosLogin,
    Protection,
    SaslOptions,
    TlsOptions,
    options_from_settings,
    parse_endpoints,
    uris_from_settings,
    zookeeper_tls,
)


class Kept:
    """What Java keeps, without Java."""

    def __init__(self, providers: str = "jceks://file/p", **passwords: str) -> None:
        self.providers = providers
        self._passwords = {name.replace("_", "."): password for name, password in passwords.items()}

    def password(self, name: str) -> str | None:
        return self._passwords.get(name)

    def certificates(self, path: str, kind: str | None, password: str | None) -> str:
        return f"{path} {kind} {password}"


def options_of(settings: dict[str, str], **given: Any) -> ConnectionOptions:
    return options_from_settings(settings, secrets=Kept(""), **given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["thrift://a"], ["thrift://a:9083"]),
        (["thrift://a:1"], ["thrift://a:1"]),
        (["thrift://A.example:1/"], ["thrift://a.example:1"]),
        (["thrift://a:1, thrift://b:2", " thrift://c ,"], ["thrift://a:1", "thrift://b:2", "thrift://c:9083"]),
        (["thrift://a:9083,thrift://a,thrift://b"], ["thrift://a:9083", "thrift://b:9083"]),
        (["thrift://[::1]:1", "thrift://10.0.0.1"], ["thrift://[::1]:1", "thrift://10.0.0.1:9083"]),
        (["https://a", "http://a:1"], ["https://a:9083", "http://a:1"]),
    ],
)
def test_uris(given: list[str], expected: list[str]) -> None:
    assert [endpoint.uri for endpoint in parse_endpoints(given)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "a:9083",
        "ftp://a:9083",
        "thrift://",
        "thrift://:9083",
        "thrift://a:port",
        "thrift://a:99999",
        "thrift://a:0",
        "thrift://user@a",
        "thrift://a/path",
        "thrift://a?x=1",
        "thrift://[::1",
    ],
)
def test_malformed_uris_are_refused(text: str) -> None:
    with pytest.raises(RefusedError) as caught:
        parse_endpoints(["thrift://good", text])
    assert str(caught.value).startswith(f"Cannot use the metastore URI {text!r}: ")
    assert str(caught.value).endswith("it has to be thrift://host:port")


@pytest.mark.parametrize("given", [[], [""], [" , "]])
def test_no_uri_is_refused(given: list[str]) -> None:
    with pytest.raises(RefusedError, match="no URI is given"):
        parse_endpoints(given)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(ConnectionOptions(sasl=SaslOptions(mechanism="PLAIN", password="secret")))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ()),
        ({"hive.metastore.uris": "thrift://a:1,thrift://b"}, ("thrift://a:1", "thrift://b")),
        ({"metastore.thrift.uris": "thrift://a"}, ("thrift://a",)),
        ({"metastore.thrift.uris": "thrift://new", "hive.metastore.uris": "thrift://old"}, ("thrift://new",)),
        ({"metastore.thrift.uris": " ", "hive.metastore.uris": "thrift://old"}, ("thrift://old",)),
    ],
)
def test_uris_of_settings(settings: dict[str, str], expected: tuple[str, ...]) -> None:
    assert uris_from_settings(settings) == expected


ZOOKEEPER = {"hive.metastore.service.discovery.mode": "ZooKeeper", "hive.metastore.uris": "zk1:1, zk2"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("zookeeper://zk1:1/hive_metastore", "zookeeper://zk2:2181/hive_metastore")),
        (
            {"hive.zookeeper.client.port": "7", "hive.zookeeper.namespace": "/a/b"},
            ("zookeeper://zk1:1/a/b", "zookeeper://zk2:7/a/b"),
        ),
        (
            {
                "metastore.zookeeper.client.port": "8",
                "hive.zookeeper.client.port": "7",
                "metastore.zookeeper.namespace": "new",
                "hive.zookeeper.namespace": "old",
            },
            ("zookeeper://zk1:1/new", "zookeeper://zk2:8/new"),
        ),
    ],
)
def test_uris_of_a_zookeeper(settings: dict[str, str], expected: tuple[str, ...]) -> None:
    assert uris_from_settings(ZOOKEEPER | settings) == expected


def test_other_ways_to_find_metastores_are_refused() -> None:
    settings = {"metastore.service.discovery.mode": "dns"}
    with pytest.raises(RefusedError, match=r"^Cannot connect to the metastore: .*, which is not supported"):
        uris_from_settings(settings)


HTTP = {"hive.metastore.client.thrift.transport.mode": "HTTP"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, HttpOptions()),
        ({"metastore.client.thrift.http.path": "/a/b/"}, HttpOptions(path="/a/b/*")),
        ({"metastore.client.thrift.http.path": "a/*"}, HttpOptions(path="/a/*")),
        ({"metastore.client.thrift.http.path": "/"}, HttpOptions(path="/*")),
        ({"hive.metastore.client.plain.username": "joe"}, HttpOptions(username="joe")),
        ({"metastore.client.auth.mode": "jwt"}, HttpOptions(token="a.b.c")),
        ({"metastore.client.auth.mode": "jwt", "metastore.sasl.enabled": "true"}, HttpOptions(token="a.b.c")),
        ({"hive.metastore.sasl.enabled": "true"}, HttpOptions(login=KerberosLogin())),
        ({"metastore.client.auth.mode": "KERBEROS"}, HttpOptions(login=KerberosLogin())),
        (
            {"metastore.client.http.additional.headers": "X-A = b=c, x-d=e f,"},
            HttpOptions(headers=(("X-A", "b=c"), ("x-d", "e f"))),
        ),
        ({"acidlib.metastore.ca.file": "/ca.pem"}, HttpOptions(https=TlsOptions(ca_file="/ca.pem"))),
    ],
)
def test_http_of_settings(settings: dict[str, str], expected: HttpOptions) -> None:
    assert options_of(HTTP | settings, token="a.b.c").http == expected


def test_what_is_no_jwt_is_refused_and_not_shown() -> None:
    with pytest.raises(RefusedError, match=r"HMS_JWT does not hold a JWT$"):
        options_of(HTTP | {"metastore.client.auth.mode": "JWT"}, token="a\r\nX: secret")


KERBEROS = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": "hms/_HOST@EXAMPLE.COM"}
PLAIN = {"metastore.client.auth.mode": "PLAIN", "hive.metastore.client.plain.username": "joe"}
SSL = {"hive.metastore.use.SSL": "true"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ConnectionOptions()),
        ({"unknown": "x", "hive.metastore.use.SSL": "false"}, ConnectionOptions()),
        ({"hive.metastore.client.socket.timeout": "1500ms"}, ConnectionOptions(timeout_seconds=1.5)),
        ({"hive.metastore.client.socket.timeout": "0s"}, ConnectionOptions(timeout_seconds=600)),
        ({"hive.metastore.thrift.framed.transport.enabled": "TRUE"}, ConnectionOptions(framed=True)),
        ({"hive.metastore.execute.setugi": "false"}, ConnectionOptions(set_user=False)),
        (SSL, ConnectionOptions(tls=TlsOptions())),
        (
            {"metastore.use.SSL": "true", "acidlib.metastore.ca.file": "/ca.pem"},
            ConnectionOptions(tls=TlsOptions(ca_file="/ca.pem")),
        ),
        (
            SSL | {"hive.metastore.truststore.path": "/t.jks", "acidlib.metastore.ca.file": "/ca.pem"},
            ConnectionOptions(tls=TlsOptions(ca_file="/ca.pem")),
        ),
        (SSL | {"metastore.truststore.path": "/t.PEM"}, ConnectionOptions(tls=TlsOptions(ca_file="/t.PEM"))),
        ({"hive.metastore.truststore.path": "/t.jks"}, ConnectionOptions()),
        (KERBEROS, ConnectionOptions(sasl=SaslOptions(mechanism="GSSAPI", service="hms", realm="EXAMPLE.COM"))),
        (
            KERBEROS
            | {"hive.metastore.kerberos.principal": "hive/_host", "hadoop.rpc.protection": "privacy,Integrity"},
            ConnectionOptions(
                sasl=SaslOptions(mechanism="GSSAPI", protection=(Protection.PRIVACY, Protection.INTEGRITY))
            ),
        ),
        (
            SSL | KERBEROS | {"hive.metastore.kerberos.principal": "hive/_HOST", "hadoop.rpc.protection": "privacy"},
            ConnectionOptions(tls=TlsOptions(), sasl=SaslOptions(mechanism="GSSAPI")),
        ),
        (
            {"metastore.sasl.enabled": "true", "metastore.kerberos.principal": "hive/h.example@X"},
            ConnectionOptions(sasl=SaslOptions(mechanism="GSSAPI", service="hive", host="h.example", realm="X")),
        ),
        (
            {
                "metastore.client.auth.mode": "PLAIN",
                "hive.metastore.client.plain.username": "joe",
                "acidlib.metastore.password.file": "/p",
            },
            ConnectionOptions(sasl=SaslOptions(mechanism="PLAIN", username="joe", password_file="/p")),
        ),
        ({"metastore.client.auth.mode": "NOSASL", "metastore.catalog.default": "hive"}, ConnectionOptions()),
        ({"metastore.catalog.default": "Spark"}, ConnectionOptions(catalog="spark")),
        ({"hive.metastore.uri.selection": "random"}, ConnectionOptions()),
        (
            {"metastore.thrift.uri.selection": "Sequential", "hive.metastore.uri.selection": "RANDOM"},
            ConnectionOptions(in_any_order=False),
        ),
    ],
)
def test_options_of_settings(settings: dict[str, str], expected: ConnectionOptions) -> None:
    assert options_of(settings) == expected


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"hive.metastore.use.SSL": "yes"}, r"setting metastore\.use\.SSL: 'yes' is neither"),
        ({"hive.metastore.client.socket.timeout": "soon"}, r"socket\.timeout: 'soon' is not a duration"),
        ({"hive.metastore.client.socket.timeout": "5 eons"}, "'5 eons' is not a duration"),
        ({"hive.metastore.sasl.enabled": "true"}, r"kerberos\.principal is not set"),
        (KERBEROS | {"hive.metastore.kerberos.principal": "hive"}, "is hive; it has to be service/_HOST@REALM"),
        (KERBEROS | {"hadoop.rpc.protection": "privacy,none"}, "'privacy,none' is none of authentication, integrity"),
        ({"hive.metastore.thrift.compact.protocol.enabled": "true"}, "which is not supported"),
        ({"metastore.catalog.default": "a#b"}, "'a#b' is no name of a catalog"),
        ({"metastore.client.auth.mode": "PLAIN"}, r"hive\.metastore\.client\.plain\.username is not set"),
        (PLAIN, r"neither hadoop\.security\.credential.*nor acidlib\.metastore\.password\.file is set"),
        ({"metastore.client.auth.mode": "CUSTOM"}, "is CUSTOM, which is not supported"),
        ({"metastore.client.auth.mode": "JWT"}, "JWT without HTTP, which is not supported"),
        ({"metastore.thrift.uri.selection": "NEAREST"}, "'NEAREST' is neither random nor sequential"),
        (HTTP | {"metastore.client.auth.mode": "JWT"}, "^Cannot log in .* with a JWT: the variable HMS_JWT is not"),
        (HTTP | {"metastore.client.thrift.http.path": "a b"}, "'a b' is no path$"),
        (HTTP | {"metastore.client.thrift.http.path": "a?b"}, "is no path$"),
        (HTTP | {"metastore.client.http.additional.headers": "a=b,secret"}, "its part 2 is not name=value$"),
        (HTTP | {"metastore.client.http.additional.headers": "a b=c"}, "its part 1 is not"),
        (HTTP | {"metastore.client.http.additional.headers": "a=\u00e9"}, "its part 1 is not"),
        ({"hive.metastore.client.thrift.transport.mode": "grpc"}, "'grpc' is neither binary nor http$"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        options_of(settings)


def test_the_password_of_a_user_in_a_credential_provider() -> None:
    found = options_from_settings(PLAIN, secrets=Kept(joe="secret")).sasl
    assert found == SaslOptions(mechanism="PLAIN", username="joe", password="secret")
    of_a_file = PLAIN | {"acidlib.metastore.password.file": "/p"}
    found = options_from_settings(of_a_file, secrets=Kept(joe="secret")).sasl
    assert found == SaslOptions(mechanism="PLAIN", username="joe", password_file="/p")
    with pytest.raises(RefusedError, match="there is no joe in jceks://file/p, or no such file"):
        options_from_settings(PLAIN, secrets=Kept(jim="secret"))
    with pytest.raises(RefusedError, match=r"neither hadoop\.security\.credential\.provider\.path"):
        options_from_settings(PLAIN, secrets=Kept(""))


@pytest.mark.parametrize(
    ("more", "kept", "expected"),
    [
        ({}, Kept(), "/t.jks None None"),
        ({"hive.metastore.truststore.password": "plain"}, Kept(), "/t.jks None plain"),
        (
            {"metastore.truststore.password": "plain", "hive.metastore.truststore.type": "JCEKS"},
            Kept(hive_metastore_truststore_password="kept"),
            "/t.jks JCEKS kept",
        ),
        ({}, Kept(metastore_truststore_password="kept"), "/t.jks None kept"),
    ],
)
def test_certificates_of_a_truststore(more: dict[str, str], kept: Kept, expected: str) -> None:
    store = {"hive.metastore.truststore.path": "/t.jks"}
    trusted = TlsOptions(certificates=expected)
    assert options_from_settings(SSL | store | more, secrets=kept).tls == trusted
    http = options_from_settings(HTTP | store | more, secrets=kept).http
    assert http is not None
    assert http.https == trusted
    assert expected not in repr(trusted)


def test_tls_to_a_zookeeper() -> None:
    on = {"hive.zookeeper.ssl.client.enable": "true"}
    assert zookeeper_tls({}, Kept()) is None
    assert zookeeper_tls(on, Kept()) == TlsOptions()
    key = {"metastore.zookeeper.ssl.keystore.location": "/key.pem"}
    store = {"hive.zookeeper.ssl.truststore.location": "/t.jks", "hive.zookeeper.ssl.truststore.type": "JKS"}
    kept = Kept(hive_zookeeper_ssl_keystore_password="kept", metastore_zookeeper_ssl_truststore_password="too")
    found = zookeeper_tls(on | key | store, kept)
    assert found == TlsOptions(certificates="/t.jks JKS too", key_file="/key.pem", key_password="kept")
    assert "kept" not in repr(found)
    # the metastore has another truststore
    assert zookeeper_tls(on | {"hive.metastore.truststore.path": "/m.jks"}, kept) == TlsOptions()
    with pytest.raises(RefusedError, match=r"^Cannot use the keystore /k\.jks: keys are read from PEM files only"):
        zookeeper_tls(on | {"hive.zookeeper.ssl.keystore.location": "/k.jks"}, kept)


def test_who_logs_in_with_kerberos() -> None:
    login = KerberosLogin(principal="anna", keytab="/k", cache="/c")
    found = options_of(KERBEROS, login=login).sasl
    assert found is not None
    assert found.login == login
    assert options_of({}, login=login).sasl is None
    with pytest.raises(RefusedError, match=r"--keytab names /k, and no --principal says which principal"):
        options_of(KERBEROS, login=KerberosLogin(keytab="/k"))
