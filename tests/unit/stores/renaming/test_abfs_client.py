"""How a container is reached: the settings of Hadoop's ABFS driver, and what is refused by name."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from acidlib.errors import RefusedError, RetryError
from acidlib.location import ABFS, parse_location
from acidlib.stores.renaming.abfs_client import (
    Container,
    ContainerOptions,
    LogIn,
    container_options,
    with_stored_secrets,
)
from acidlib.stores.stores import PROPERTIES, Stores

HOST = "data.dfs.core.windows.net"
KEY = "c2VjcmV0IGtleQ=="
ENDPOINT = "https://login.microsoftonline.com/the-tenant/oauth2/token"
CLIENT = {
    "account.auth.type": "OAuth",
    "account.oauth2.client.id": "client",
    "account.oauth2.client.secret": "hidden",
    "account.oauth2.client.endpoint": ENDPOINT,
}
HADOOP = "org.apache.hadoop.fs.azurebfs.oauth2."
PROVIDER = {"account.oauth.provider.type": f"{HADOOP}ClientCredsTokenProvider"}


def options(properties: dict[str, str]) -> ContainerOptions:
    return container_options(f"lake@{HOST}", {f"fs.azure.{name}": text for name, text in properties.items()})


def test_a_property_of_the_account_wins() -> None:
    own = {"account.key": "d3Jvbmc=", f"account.key.{HOST}": KEY, "account.key.other.dfs.core.windows.net": "eA=="}
    found = options(own)
    assert (found.key, found.log_in, found.account, found.container) == (KEY, LogIn.KEY, "data", "lake")
    assert found.is_secure


@pytest.mark.parametrize(
    ("properties", "log_in"),
    [
        ({}, LogIn.CHAIN),
        ({"account.key": KEY}, LogIn.KEY),
        ({"account.auth.type": "SharedKey", "account.key": KEY}, LogIn.KEY),
        ({"sas.fixed.token": "?sv=1&sig=x"}, LogIn.SAS),
        ({"account.key": KEY, "account.auth.type": "SAS", "sas.fixed.token": "sv=1"}, LogIn.SAS),
        (CLIENT, LogIn.SECRET),
        (CLIENT | PROVIDER, LogIn.SECRET),
        ({"account.auth.type": "OAuth"}, LogIn.CHAIN),
        ({"account.auth.type": "OAuth", "account.oauth.provider.type": f"{HADOOP}MsiTokenProvider"}, LogIn.MANAGED),
        (
            {"account.auth.type": "OAuth", "account.oauth.provider.type": f"{HADOOP}WorkloadIdentityTokenProvider"},
            LogIn.WORKLOAD,
        ),
    ],
)
def test_how_requests_show_whose_they_are(properties: dict[str, str], log_in: LogIn) -> None:
    found = options(properties)
    assert found.log_in is log_in
    # what another way to log in would take is not handed to tasks
    assert (bool(found.key), bool(found.sas), bool(found.secret)) == (
        log_in is LogIn.KEY,
        log_in is LogIn.SAS,
        log_in is LogIn.SECRET,
    )
    if log_in is LogIn.SECRET:
        assert (found.tenant, found.log_in_host, found.client) == ("the-tenant", "login.microsoftonline.com", "client")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"account.auth.type": "Custom"}, "fs.azure.account.auth.type is Custom, which is not supported"),
        ({f"account.auth.type.{HOST}": "Custom"}, rf"fs.azure.account.auth.type.{HOST} is Custom"),
        ({"account.auth.type": "SharedKey"}, "fs.azure.account.key is not given"),
        ({"account.auth.type": "SAS"}, "fs.azure.sas.fixed.token is not given"),
        ({"account.key": "not base 64!"}, "fs.azure.account.key is not in base 64"),
        (
            CLIENT | {"account.oauth2.client.secret": "", "account.oauth.provider.type": "X$ClientCredsTokenProvider"},
            "secret is not given",
        ),
        (CLIENT | {"account.oauth2.client.endpoint": "login"}, "client.endpoint names no tenant"),
        (
            CLIENT | {"account.oauth.provider.type": f"{HADOOP}UserPasswordTokenProvider"},
            "UserPasswordTokenProvider, which",
        ),
        (CLIENT | {"always.use.https": "false"}, "always.use.https is false: tokens are sent by TLS only"),
        ({"always.use.https": "perhaps"}, "neither true nor false"),
        ({"account.hns.enabled": "false"}, "without the hierarchical namespace"),
        ({"account.keyprovider": "org.example.Provider"}, "fs.azure.account.keyprovider is not supported"),
        ({"sas.token.provider.type": "org.example.Provider"}, "sas.token.provider.type is not supported"),
        ({"client-provided-encryption-key": "x"}, "client-provided-encryption-key is not supported"),
        ({"encryption.encoded.client-provided-key": "x"}, "client-provided-key is not supported"),
        ({"encryption.context.provider.type": "x"}, "context.provider.type is not supported"),
        ({"io.retry.max.retries": "many"}, "io.retry.max.retries is 'many', which is no number"),
        ({"http.read.timeout": "long"}, "http.read.timeout is 'long', which is no duration"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(properties: dict[str, str], message: str) -> None:
    with pytest.raises(RefusedError, match=message) as refused:
        options(properties)
    assert str(refused.value).startswith(f"Cannot use the account {HOST}: fs.azure.")
    for secret in ("hidden", "not base 64!"):
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("properties", "own"),
    [
        ({}, "account.auth.type"),
        ({"account.auth.type": "OAuth"}, "account.auth.type"),
        ({"account.auth.type": "OAuth", "account.oauth.provider.type": "MsiTokenProvider"}, "account.auth.type"),
        (
            {"account.auth.type": "OAuth", "account.oauth.provider.type": "WorkloadIdentityTokenProvider"},
            "account.auth.type",
        ),
        ({"account.key": KEY}, "account.key"),
        ({"account.key": KEY, "account.auth.type": "SharedKey"}, "account.key"),
        ({"sas.fixed.token": "sv=1&sig=hidden"}, "sas.fixed.token"),
        (CLIENT, "account.oauth2.client.secret"),
    ],
)
@pytest.mark.parametrize(
    "host",
    [
        "data.attacker.example",
        "dfs.core.windows.net",
        "data.blob.core.windows.net.attacker.example",
        "datadfs.core.windows.net.attacker.example:443",
        "data-dfs.core.windows.net",
        "127.0.0.1:8080",
    ],
)
def test_only_a_host_that_is_named_gets_credentials_if_it_is_not_of_azure(
    properties: dict[str, str], own: str, host: str
) -> None:
    """Who may write to a table may name any host."""
    shared = {f"fs.azure.{name}": text for name, text in properties.items()}
    another = {f"fs.azure.{own}.another.example": properties.get(own, "OAuth")}
    with pytest.raises(RefusedError) as refused:
        container_options(f"lake@{host}", shared | another)
    assert str(refused.value).endswith(f"is sent elsewhere without fs.azure.{own}.{host}")
    assert "hidden" not in str(refused.value)
    named = {f"fs.azure.{own}.{host}": properties.get(own, "OAuth")}
    assert container_options(f"lake@{host}", shared | named).host == host


@pytest.mark.parametrize("suffix", ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net:443"])
@pytest.mark.parametrize("account", ["data", "DATA", "data.privatelink", "data.z01"])
def test_hosts_of_azure_get_the_credentials_for_all(suffix: str, account: str) -> None:
    host = f"{account}.dfs.{suffix}"
    assert container_options(f"lake@{host}", {"fs.azure.account.key": KEY}).key == KEY


@pytest.mark.parametrize(
    ("properties", "environment", "said"),
    [
        (CLIENT | {"account.oauth2.client.id": ""}, {}, "client_id should be"),
        (CLIENT | {"account.oauth2.client.endpoint": "https://login.example/the%20tenant"}, {}, "Invalid tenant ID"),
        (
            {"account.auth.type": "OAuth", "account.oauth.provider.type": f"{HADOOP}WorkloadIdentityTokenProvider"},
            {},
            "not fully configured",
        ),
        ({}, {"AZURE_TOKEN_CREDENTIALS": "none"}, "AZURE_TOKEN_CREDENTIALS"),
    ],
)
def test_what_azure_identity_does_not_take_is_refused(
    properties: dict[str, str], environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(RefusedError, match=f"Cannot log in to {HOST}: .*{said}"):
        Container(options(properties)).status("t")


def test_a_missing_file_of_a_token_is_told() -> None:
    workload = {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{HADOOP}WorkloadIdentityTokenProvider",
        "account.oauth2.msi.tenant": "the-tenant",
        "account.oauth2.client.id": "client",
        "account.oauth2.token.file": "/nowhere",
    }
    with pytest.raises(RetryError, match=r"Cannot log in to Azure Data Lake Storage: .*/nowhere"):
        Container(options(workload)).status("t")


def test_limits_and_modes() -> None:
    found = container_options(
        f"lake@{HOST}",
        {
            "fs.azure.io.retry.max.retries": "2",
            "fs.azure.http.connection.timeout": "500",
            "fs.azure.http.read.timeout": "2s",
            "fs.permissions.umask-mode": "027",
        },
    )
    assert (found.tries, found.connect_seconds, found.answer_seconds, found.umask) == (3, 0.5, 2.0, "0027")
    assert options({"http.read.timeout": "0"}).answer_seconds == 60.0  # no limit to Hadoop
    with pytest.raises(RefusedError, match="only octal numbers"):
        container_options(f"lake@{HOST}", {"fs.permissions.umask-mode": "u=rwx"})


def test_no_secret_is_printed_and_all_are_handed_to_tasks() -> None:
    for properties in (CLIENT, {"account.key": KEY}, {"sas.fixed.token": "sv=1&sig=hidden"}):
        found = options(properties)
        assert KEY not in repr(found)
        assert "hidden" not in repr(found)
        assert pickle.loads(pickle.dumps(Container(found))).options == found


def test_secrets_in_credential_providers_win() -> None:
    kept = {f"fs.azure.account.key.{HOST}": KEY, "fs.azure.sas.fixed.token": "not asked for"}

    def stored(names: Sequence[str], providers: str) -> dict[str, str]:
        assert providers == "jceks://hdfs"
        return {name: kept[name] for name in names if name in kept}

    given = {"fs.azure.account.key": "d3Jvbmc="}
    path = {"hadoop.security.credential.provider.path": "jceks://hdfs"}
    assert container_options(f"lake@{HOST}", with_stored_secrets(f"lake@{HOST}", given | path, stored)).key == KEY
    assert with_stored_secrets(f"lake@{HOST}", given, stored) == given


def test_both_schemes_name_one_place() -> None:
    one, two = (parse_location(f"{scheme}://lake@{HOST}/w/t/") for scheme in ("abfs", "abfss"))
    assert one == two
    assert hash(one) == hash(two)
    assert (str(one), str(two)) == (f"abfs://lake@{HOST}/w/t", f"abfss://lake@{HOST}/w/t")
    assert one.stored_text == two.stored_text == str(two)
    assert parse_location(one.stored_text).stored_text == one.stored_text
    assert one.kind is ABFS
    assert one.parent.holds(two)
    container = Container(options({"account.key": KEY}))
    assert container.inside(str(one)) == container.inside(str(two)) == "w/t"


@pytest.mark.parametrize(
    "uri",
    [
        f"abfss://other@{HOST}/t",
        "abfss://lake@other.dfs.core.windows.net/t",
        "s3a://lake/t",
        f"abfss://lake@{HOST}/a\\b",
    ],
)
def test_what_lies_elsewhere_is_not_touched(uri: str) -> None:
    with pytest.raises(RefusedError):
        Container(options({"account.key": KEY})).inside(uri)


def test_its_settings_are_among_those_that_stores_get() -> None:
    assert f"fs.azure.account.key.{HOST}".startswith(PROPERTIES)
    stores = Stores(configuration={f"fs.azure.account.key.{HOST}": KEY})
    assert KEY not in repr(stores)
    assert str(stores.locate(f"abfs://lake@{HOST}/t")) == f"abfs://lake@{HOST}/t"
