"""Passwords and keys in texts are masked, whatever stands around them, and names that look alike are not."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pytest
from servers.settings import write_site

import acidlib
from acidlib.errors import RefusedError
from acidlib.location import parse_location
from acidlib.masking import is_secret, masked
from acidlib.report.text import json_text, one_line

SECRETS = {
    "Cannot open s3a://AKIA:S3C/R@ET@b/t: x": "Cannot open s3a://***@b/t: x",
    "a 'thrift://user:S3CRET@h:1', b": "a 'thrift://user:***@h:1', b",
    "thrift://a:9083,thrift://user:S3CRET@h": "thrift://a:***@h",
    "hdfs://user:S3CRET@nn:8020/w": "hdfs://user:***@nn:8020/w",
    "http://user:S3CRET@proxy:80": "http://user:***@proxy:80",
    "postgresql+psycopg://u:1/S3CRET@h/d?password=S3CRET&a=b&sslpassword=S3CRET": (
        "postgresql+psycopg://u:***@h/d?password=***&a=b&sslpassword=***"
    ),
    "jdbc:mysql://u:S3CRET@h/d?user=u&password=S3CRET;x": "jdbc:mysql://u:***@h/d?user=u&password=***;x",
    "jdbc:derby:d;user=u;password=S3CRET": "jdbc:derby:d;user=u;password=***",
    "https://b.s3.example/k?X-Amz-Signature=S3CRET": "https://b.s3.example/k?X-Amz-Signature=***",
    "--conf spark.hadoop.fs.s3a.secret.key=S3CRET x": "--conf spark.hadoop.fs.s3a.secret.key=*** x",
    "fs.s3a.bucket.b.access.key = S3CRET": "fs.s3a.bucket.b.access.key = ***",
    "--conf spark.hadoop.fs.azure.account.key.n.dfs.core.windows.net=S3/CR+ET== x": (
        "--conf spark.hadoop.fs.azure.account.key.n.dfs.core.windows.net=*** x"
    ),
    "fs.azure.account.oauth2.client.secret.n.dfs.core.windows.net=S3CRET": (
        "fs.azure.account.oauth2.client.secret.n.dfs.core.windows.net=***"
    ),
    "fs.azure.sas.fixed.token.h:1 = sv=2024&sig=S3%3DCRET.": "fs.azure.sas.fixed.token.h:1 = ***.",
    "https://n.dfs.core.windows.net/c/f?sv=2024&sig=S3CRET&se=1": "https://n.dfs.core.windows.net/c/f?sv=2024&sig=***&se=1",
    "Cannot use a.password=S3,CR;E&T: it is": "Cannot use a.password=***: it is",
    "javax.jdo.option.ConnectionPassword=S3CRET": "javax.jdo.option.ConnectionPassword=***",
    "-Djavax.net.ssl.trustStorePassword=S3CRET": "-Djavax.net.ssl.trustStorePassword=***",
}
PLAIN = (
    "hdfs://nn:8020/w/email=a@b.c",
    "hdfs://nn/w/t=a:b@c",
    "abfss://lake@n.dfs.core.windows.net/w/p=1",
    "fs.azure.account.auth.type.n.dfs.core.windows.net=OAuth",
    "s3a://bucket/x:y@z",
    "postgresql://u:***@h/d",
    "postgresql://u@h/d?sslkey=/etc/key.pem",
    "sales.orders/password=4",
    "hadoop.security.credential.provider.path=jceks://file@nn:8020/x",
    "acidlib.metastore.password.file=/etc/password",
    "hive/_HOST@EXAMPLE.COM at thrift://h:9083",
)


@pytest.mark.parametrize(("text", "shown"), SECRETS.items())
def test_a_secret(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown
    assert str(pickle.loads(pickle.dumps(RefusedError(text)))) == shown
    assert one_line(text) == shown
    assert json_text({"a": [text + '"', "x@y"]}) == json_text({"a": [shown + '"', "x@y"]})


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_without_secrets(text: str) -> None:
    assert masked(text) == text


def test_a_quote_in_a_secret_of_a_json_document() -> None:
    assert "CRET" not in json_text({"a": 'jdbc:x?password=S3"CRET', "b": 1})


def test_names_of_secrets() -> None:
    assert is_secret("password")
    assert is_secret("fs.s3a.secret.key")
    assert not is_secret("sslkey")
    assert not is_secret("passfile")


@pytest.mark.parametrize(
    "uri", ["s3a://A:S3CRET@b/t", "s3a://A:S3/CRET@b/t", "s3a://A:S3 CRET@b/..", "hdfs://u:S3 CRET@h/t"]
)
def test_a_location_holds_no_secret(uri: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_location(uri)
    assert "CRET" not in str(refused.value)


@pytest.mark.parametrize("piece", ["s3a://a:", "a.", "?pass", "&a", "@://", "a-", "key="])
def test_the_time_is_linear(piece: str) -> None:
    before = time.process_time()
    masked(piece * (1_000_000 // len(piece)) + "@://.=")
    assert time.process_time() - before < 5


def test_a_lake_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_site(tmp_path / "hive-site.xml", {"hive.metastore.uris": "thrift://user:S3CRET@h:1"})
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    for lake in (acidlib.connect(), acidlib.connect("none", queue="postgresql://u:S3CRET@h/d")):
        assert "S3CRET" not in repr(lake) + repr(lake._environment)
