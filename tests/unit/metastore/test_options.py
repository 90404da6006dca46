"""URIs and options of a metastore connection, as given."""

from __future__ import annotations

import pytest

from acidlib.errors import RefusedError
from acidlib.metastore.options import (
    ConnectionOptions,
    Endpoint,
    SaslOptions,
    parse_endpoints,
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
        (["https://a", "http://a:1"], ["https://a:9083", "http://a:1"]),
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
    assert str(caught.value).startswith(f"Cannot use the metastore URI {text!r}: because ")
    assert str(caught.value).endswith("it has to be thrift://host:port")


@pytest.mark.parametrize("given", [[], [""], [" , "]])
def test_no_uri_is_refused(given: list[str]) -> None:
    with pytest.raises(RefusedError, match="because no URI is given"):
        parse_endpoints(given)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(ConnectionOptions(sasl=SaslOptions(mechanism="PLAIN", password="secret")))
