"""The options of a bucket of Google Cloud Storage, and its credentials.

The properties are those of Hadoop's connector (GoogleCloudDataproc/hadoop-connectors, CONFIGURATION.md of its releases
2 and 3): `fs.gs.NAME`, and for credentials also `google.cloud.auth.NAME`, which comes after `fs.gs.auth.NAME`. A
property that changes how objects are read or written, and is not known here, is refused by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from acidlib.errors import RetryError
from acidlib.stores.properties import StoreProperties
from acidlib.wording import first_line_of

if TYPE_CHECKING:
    from google.auth.credentials import Credentials as GoogleCredentials

PREFIX = "fs.gs."
LEGACY = "google.cloud."
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_ROOT_URL, _SERVICE_PATH = "https://storage.googleapis.com/", "storage/v1/"
_PROVIDERS = "hadoop.security.credential.provider.path"
_TRIES = 5
_KEY_FILE = "auth.service.account.json.keyfile"


class LogInAs(Enum):
    """The source of credentials. The values are those of `fs.gs.auth.type`."""

    KEY_FILE = "SERVICE_ACCOUNT_JSON_KEYFILE"
    USER = "USER_CREDENTIALS"
    MACHINE = "COMPUTE_ENGINE"
    DEFAULT = "APPLICATION_DEFAULT"
    NOBODY = "UNAUTHENTICATED"


_REFUSED = (
    "auth.access.token.provider",
    "auth.access.token.provider.impl",
    "auth.impersonation.service.account",
    "auth.service.account.keyfile",
    "authorization.handler.impl",
    "config.override.file",
    "delegation.token.binding",
    "encryption.algorithm",
    "encryption.key",
    "proxy.address",
)
_REFUSED_BEGINNINGS = ("auth.impersonation.service.account.for.", "storage.http.headers.")
_STORED = (
    "auth.client.id",
    "auth.client.secret",
    "auth.refresh.token",
    "auth.service.account.private.key",
    "auth.service.account.private.key.id",
)
"""Properties that the connector looks up in Hadoop's credential providers first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsOptions:
    """The options of the connection to one bucket. Picklable; its secrets are never printed.

    root      the URL of the service, with a slash at its end; `path` that of its JSON interface below it
    key       the key of a service account or of a user, a JSON text as Google's libraries read it; empty without one
    account   the name of the service account that the key is of
    attempts  at one request; each waits `connect_seconds` for a connection and `answer_seconds` for an answer
    """

    bucket: str
    log_in: LogInAs
    key: str = field(default="", repr=False)
    account: str = ""
    root: str = _ROOT_URL
    path: str = _SERVICE_PATH
    attempts: int = _TRIES
    connect_seconds: float = 10.0
    answer_seconds: float = 60.0

    @property
    def server(self) -> str:
        """The server, for messages."""
        return "Google Cloud Storage" if self.root == _ROOT_URL else self.root.rstrip("/")

    @property
    def shown(self) -> str:
        """The bucket and its server, for messages."""
        return f"{self.bucket} at {self.server}"

    @property
    def user(self) -> str:
        """The user of the requests, for messages."""
        if self.log_in is LogInAs.NOBODY:
            return "a request without credentials"
        if self.account:
            return f"the account {self.account}"
        return "the user of the refresh token" if self.log_in is LogInAs.USER else "the account of this machine"


def gcs_options(bucket: str, properties: Mapping[str, str], read_key: Callable[[str], str]) -> GcsOptions:
    """Return the options of a bucket by Hadoop's properties. RefusedError names a property that is not understood.

    read_key  returns the contents of the file of a key, by its path
    """
    own = _ConnectorProperties(f"the bucket {bucket}", properties)
    for name in _REFUSED:
        if own.text(name):
            raise own.refused(name, "is not supported")
    for key, text in properties.items():
        for prefix in (PREFIX, LEGACY):
            if text and key.startswith(tuple(prefix + name for name in _REFUSED_BEGINNINGS)):
                raise own.refused(key.removeprefix(prefix), "is not supported")
    if (mode := own.text("requester.pays.mode").upper()) not in ("", "DISABLED"):
        raise own.refused("requester.pays.mode", f"is {mode}, and buckets whose reader pays are not supported")
    log_in, key = _log_in(own, read_key)
    root = own.text("storage.root.url") or _ROOT_URL
    if "://" not in root:
        raise own.refused("storage.root.url", f"is {root!r}, which is no URL")
    return GcsOptions(
        bucket=bucket,
        log_in=log_in,
        key=key,
        account=str(json.loads(key).get("client_email", "")) if key else "",
        root=root.rstrip("/") + "/",
        path=(own.text("storage.service.path") or _SERVICE_PATH).strip("/") + "/",
        attempts=1 + own.number("http.max.retry", _TRIES - 1),
        connect_seconds=own.seconds("http.connect-timeout", 10.0),
        answer_seconds=own.seconds("http.read-timeout", 60.0),
    )


def with_stored_credentials(
    properties: Mapping[str, str], stored: Callable[[Sequence[str], str], Mapping[str, str]]
) -> Mapping[str, str]:
    """Return the properties with credentials out of Hadoop's credential providers, which win.

    stored  returns the values that the providers of a path have for some names
    """
    providers = properties.get(_PROVIDERS, "").strip()
    names = [prefix + name for prefix in (PREFIX, LEGACY) for name in _STORED]
    return {**properties, **stored(names, providers)} if providers else properties


class _ConnectorProperties(StoreProperties):
    """The properties of the connector, which are those of all buckets."""

    def key(self, name: str) -> str:
        legacy = LEGACY + name
        return legacy if PREFIX + name not in self.properties and legacy in self.properties else PREFIX + name

    def required(self, name: str) -> str:
        """Return a text that has to be there; RefusedError without it."""
        if not (text := self.text(name)):
            raise self.refused(name, "is not set")
        return text


def _log_in(own: _ConnectorProperties, read_key: Callable[[str], str]) -> tuple[LogInAs, str]:
    """Return the source of credentials, and the key if there is one, in the order of the connector.

    Release 3 names the source; release 2 takes the first that is given.
    """
    named = own.text("auth.type").upper()
    if named:
        try:
            log_in = LogInAs(named)
        except ValueError:
            raise own.refused("auth.type", f"is {named}, which is not supported") from None
    elif own.flag("auth.null.enable", default=False):
        log_in = LogInAs.NOBODY
    elif own.text("auth.service.account.private.key") or own.text(_KEY_FILE):
        log_in = LogInAs.KEY_FILE
    else:
        log_in = LogInAs.DEFAULT
    if log_in is LogInAs.KEY_FILE:
        return log_in, _account_key(own, read_key)
    if log_in is LogInAs.USER:
        key = {
            "type": "authorized_user",
            "client_id": own.required("auth.client.id"),
            "client_secret": own.required("auth.client.secret"),
            "refresh_token": own.required("auth.refresh.token"),
        }
        return log_in, json.dumps(key)
    return log_in, ""


def _account_key(own: _ConnectorProperties, read_key: Callable[[str], str]) -> str:
    """Return the key of a service account, given in the properties or by the path of its file."""
    given = own.text("auth.service.account.private.key")
    if given and not own.text("auth.type"):
        key: Any = {
            "type": "service_account",
            "client_email": own.required("auth.service.account.email"),
            "private_key_id": own.required("auth.service.account.private.key.id"),
            "private_key": given.replace("\\n", "\n"),
        }
    else:
        path = own.required(_KEY_FILE)
        try:
            key = json.loads(read_key(path))
        except ValueError:
            key = None
        if not isinstance(key, dict) or not key.get("private_key") or not key.get("client_email"):
            raise own.refused(_KEY_FILE, f"names {path}, which is not the JSON key of a service account")
    server = own.text("token.server.url") or key.get("token_uri") or "https://oauth2.googleapis.com/token"
    return json.dumps({**key, "token_uri": server})


def google_credentials(options: GcsOptions) -> GoogleCredentials | None:
    """Return the credentials of requests; None for requests without. RetryError where there are none."""
    import google.auth
    import google.auth.compute_engine
    import google.oauth2.credentials
    import google.oauth2.service_account
    from google.auth.exceptions import GoogleAuthError

    scopes = [SCOPE]
    credentials: GoogleCredentials
    try:
        if options.log_in is LogInAs.NOBODY:
            return None
        if options.log_in is LogInAs.KEY_FILE:
            of_account = google.oauth2.service_account.Credentials
            credentials = of_account.from_service_account_info(json.loads(options.key), scopes=scopes)
        elif options.log_in is LogInAs.USER:
            of_user = google.oauth2.credentials.Credentials
            credentials = of_user.from_authorized_user_info(json.loads(options.key), scopes)
        elif options.log_in is LogInAs.MACHINE:
            credentials = google.auth.compute_engine.Credentials(scopes=scopes)
        else:
            credentials = google.auth.default(scopes=scopes)[0]
        return credentials
    except (GoogleAuthError, ValueError) as error:
        # of a damaged key the library says what is wrong, and never shows it
        others = "; fs.gs.auth.type names another source" if options.log_in is LogInAs.DEFAULT else ""
        raise RetryError(
            f"Cannot log in to the bucket {options.shown}: {first_line_of(error).rstrip('.')}{others}"
        ) from error
