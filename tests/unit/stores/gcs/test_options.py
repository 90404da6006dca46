"""How a bucket of Google Cloud Storage is reached, by the properties of Hadoop's connector."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from acidlib.errors import RefusedError
from acidlib.stores.gcs.options import GcsOptions, LogInAs, gcs_options, with_stored_credentials
from acidlib.stores.stores import KeyFiles

KEY = json.dumps({"type": "service_account", "client_email": "etl@p.iam", "private_key": "hidden"})


def options(**properties: str) -> GcsOptions:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in properties.items()}
    return gcs_options("b", named, {"/key.json": KEY, "/bad.json": "{}", "/no.json": "x"}.__getitem__)


@pytest.mark.parametrize(
    ("properties", "log_in", "user"),
    [
        ({}, LogInAs.DEFAULT, "the account of this machine"),
        ({"fs_gs_auth_type": "unauthenticated"}, LogInAs.NOBODY, "a request without credentials"),
        ({"fs_gs_auth_type": "COMPUTE_ENGINE"}, LogInAs.MACHINE, "the account of this machine"),
        ({"google_cloud_auth_null_enable": "true"}, LogInAs.NOBODY, "a request without credentials"),
        (
            {"fs_gs_auth_type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs_gs_auth_service_account_json_keyfile": "/key.json"},
            LogInAs.KEY_FILE,
            "the account etl@p.iam",
        ),
        ({"google_cloud_auth_service_account_json_keyfile": "/key.json"}, LogInAs.KEY_FILE, "the account etl@p.iam"),
        (
            {
                "fs_gs_auth_service_account_private_key": "hidden",
                "fs_gs_auth_service_account_private_key_id": "1",
                "fs_gs_auth_service_account_email": "own@p.iam",
                "fs_gs_auth_service_account_json_keyfile": "/key.json",
            },
            LogInAs.KEY_FILE,
            "the account own@p.iam",
        ),
        (
            {
                "fs_gs_auth_type": "USER_CREDENTIALS",
                "fs_gs_auth_client_id": "c",
                "fs_gs_auth_client_secret": "hidden",
                "fs_gs_auth_refresh_token": "hidden",
            },
            LogInAs.USER,
            "the user of the refresh token",
        ),
    ],
)
def test_where_credentials_come_from(properties: dict[str, str], log_in: LogInAs, user: str) -> None:
    found = options(**properties)
    assert (found.log_in, found.user) == (log_in, user)
    assert "hidden" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_newer_name_of_a_property_wins() -> None:
    legacy = {"google_cloud_auth_service_account_json_keyfile": "/bad.json"}
    assert options(fs_gs_auth_service_account_json_keyfile="/key.json", **legacy).account == "etl@p.iam"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fs.gs.auth.type", "ACCESS_TOKEN_PROVIDER"),
        ("fs.gs.auth.access.token.provider.impl", "com.example.Vault"),
        ("fs.gs.auth.impersonation.service.account.for.user.etl", "x"),
        ("google.cloud.auth.service.account.keyfile", "/key.p12"),
        ("fs.gs.auth.service.account.json.keyfile", "/bad.json"),
        ("fs.gs.auth.service.account.json.keyfile", "/no.json"),
        ("fs.gs.encryption.key", "k"),
        ("fs.gs.http.connect-timeout", "5 fortnights"),
        ("fs.gs.http.max.retry", "many"),
        ("fs.gs.proxy.address", "proxy:1"),
        ("fs.gs.requester.pays.mode", "AUTO"),
        ("fs.gs.storage.http.headers.x", "y"),
        ("fs.gs.storage.root.url", "host"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(RefusedError, match=rf"^Cannot use the bucket b: {name} "):
        gcs_options("b", {name: text}, {"/bad.json": "{}", "/no.json": "x"}.__getitem__)


def test_where_the_service_is_and_how_long_it_is_waited_for() -> None:
    assert options().shown == "b at Google Cloud Storage"
    found = options(fs_gs_storage_root_url="http://h:1", fs_gs_http_max_retry="2", fs_gs_http_read__timeout="5s")
    assert (found.root, found.path, found.shown) == ("http://h:1/", "storage/v1/", "b at http://h:1")
    assert (found.attempts, found.answer_seconds, found.connect_seconds) == (3, 5.0, 10.0)


def test_credentials_in_providers_win() -> None:
    def stored(names: Sequence[str], providers: str) -> dict[str, str]:
        assert providers == "jceks://x"
        return {"fs.gs.auth.client.secret": "kept"} if "fs.gs.auth.client.secret" in names else {}

    paths = {"hadoop.security.credential.provider.path": "jceks://x"}
    given = {"fs.gs.auth.client.secret": "given"}
    assert with_stored_credentials(given | paths, stored)["fs.gs.auth.client.secret"] == "kept"
    assert with_stored_credentials(given, stored) == given


def test_tasks_have_the_keys_that_the_driver_has_read(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(KEY)
    files = KeyFiles()
    assert files.read(f"file://{path}") == KEY
    sent = pickle.dumps(files)
    path.unlink()
    assert pickle.loads(sent).read(f"file://{path}") == KEY
    assert "hidden" not in repr(files)
    with pytest.raises(RefusedError, match=r"Cannot read the key in .*: No such file"):
        KeyFiles().read(str(path))
