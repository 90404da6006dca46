"""URIs and options of a metastore connection, as given and out of Hive's settings."""

from __future__ import annotations

import pytest

from acidlib.errors import RefusedError
from acidlib.metastore.options import (
    ConnectionOptions,
    Endpoint,
    SaslOptions,
    TlsOptions,
    options_from_settings,
    parse_endpoints,
    uris_from_settings,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["thrift://a"], ["thrift://a:9083"]),
        (["thrift://a:1"], ["thrift://a:1"]),
        (["thrift://A.example:1/"], ["thrift://a.example:1"]),
        (["thrift://a:1, thrift://b:2", " thrift://c ,"], ["thrift://a:1", "thrift://b:2", "thrift://c:9083"]),
        (["thrift://a:9083,thrift://a,thrift://b"], ["thrift://a:9083", "thrift://b:9083"]),
        (["thrift://[::1]:1", "thrift://10.0.0.1"], ["thrift://[::1]:1", "thrift://10.0.0.1:9083"]),
    ],
)
def test_uris(given: list[str], expected: list[str]) -> None:
    assert [endpoint.uri for endpoint in parse_endpoints(given)] == expected


def test_an_address_of_ip_6_loses_its_brackets() -> None:
    assert parse_endpoints(["thrift://[::1]:1"]) == (Endpoint(host="::1", port=1),)


@pytest.mark.parametrize(
    "text",
    [
        "a:9083",
        "http://a:9083",
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
    assert str(caught.value).startswith(f"Cannot use the metastore URI {text!r}: because ")
    assert str(caught.value).endswith("it has to be thrift://host:port")


@pytest.mark.parametrize("given", [[], [""], [" , "]])
def test_no_uri_is_refused(given: list[str]) -> None:
    with pytest.raises(RefusedError, match="because no URI is given"):
        parse_endpoints(given)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(ConnectionOptions(sasl=SaslOptions(mechanism="PLAIN", password="secret")))


@pytest.mark.parametrize("name", ["timeout_seconds", "connect_timeout_seconds", "attempts"])
def test_options_that_make_no_sense(name: str) -> None:
    with pytest.raises(RefusedError, match="is not above 0"):
        ConnectionOptions(**{name: 0})


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


def test_metastores_behind_a_zookeeper_are_refused() -> None:
    settings = {"hive.metastore.uris": "zk1:2181", "hive.metastore.service.discovery.mode": "zookeeper"}
    with pytest.raises(RefusedError, match=r"because metastore\.service\.discovery\.mode is zookeeper"):
        uris_from_settings(settings)


KERBEROS = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": "hms/_HOST@EXAMPLE.COM"}
SSL = {"hive.metastore.use.SSL": "true"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ConnectionOptions()),
        ({"unknown": "x", "hive.metastore.use.SSL": "false"}, ConnectionOptions()),
        ({"hive.metastore.client.socket.timeout": "90"}, ConnectionOptions(timeout_seconds=90)),
        ({"metastore.client.socket.timeout": "5min"}, ConnectionOptions(timeout_seconds=300)),
        ({"hive.metastore.client.socket.timeout": "1500ms"}, ConnectionOptions(timeout_seconds=1.5)),
        ({"hive.metastore.client.socket.timeout": "2 hours"}, ConnectionOptions(timeout_seconds=7200)),
        ({"hive.metastore.client.socket.timeout": "0s"}, ConnectionOptions(timeout_seconds=600)),
        ({"hive.metastore.thrift.framed.transport.enabled": "TRUE"}, ConnectionOptions(framed=True)),
        ({"metastore.thrift.framed.transport.enabled": "true"}, ConnectionOptions(framed=True)),
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
        (KERBEROS, ConnectionOptions(sasl=SaslOptions(mechanism="GSSAPI", service="hms"))),
        (
            {"metastore.sasl.enabled": "true", "metastore.kerberos.principal": "hive/h.example@X"},
            ConnectionOptions(sasl=SaslOptions(mechanism="GSSAPI", service="hive", host="h.example")),
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
    ],
)
def test_options_of_settings(settings: dict[str, str], expected: ConnectionOptions) -> None:
    assert options_from_settings(settings) == expected


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            SSL | {"hive.metastore.truststore.path": "/t.jks"},
            r"truststore /t\.jks: .*PEM.*acidlib\.metastore\.ca\.file",
        ),
        ({"hive.metastore.use.SSL": "yes"}, r"setting metastore\.use\.SSL: because 'yes' is neither"),
        ({"hive.metastore.client.socket.timeout": "soon"}, r"socket\.timeout: because 'soon' is not a duration"),
        ({"hive.metastore.client.socket.timeout": "5 eons"}, "because '5 eons' is not a duration"),
        ({"hive.metastore.sasl.enabled": "true"}, r"kerberos\.principal is not set"),
        (KERBEROS | {"hive.metastore.kerberos.principal": "hive"}, "is hive; it has to be service/_HOST@REALM"),
        ({"metastore.client.thrift.transport.mode": "http"}, "which is not supported"),
        ({"hive.metastore.thrift.compact.protocol.enabled": "true"}, "which is not supported"),
        ({"metastore.catalog.default": "spark"}, "only the catalog hive is"),
        ({"metastore.client.auth.mode": "PLAIN"}, r"acidlib\.metastore\.password\.file is not set"),
        ({"metastore.client.auth.mode": "JWT"}, "is JWT, which is not supported"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        options_from_settings(settings)
