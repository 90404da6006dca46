"""The connection to a container of Azure Data Lake Storage: its options, its requests, their repetition, errors.

The properties of Hadoop's ABFS driver say how an account is reached (hadoop-azure, "Hadoop Azure Support: ABFS"). A
property of one account, `fs.azure.NAME.HOST`, wins over `fs.azure.NAME`. A property that changes how files are read or
written, and is not known here, is refused by its name.

Who may write to a table may name any host as the place of a partition. So a host that is not of Azure gets a credential
only where a property names both.

The requests are those of Microsoft's pages "Path - Create", "Path - Update", "Path - List", "Path - Delete" and "Path -
Get Properties", sent one by one: Microsoft's own client repeats a rename whose answer is lost by itself, and its
second answer, that the source is gone, then looks like another run's work. Here each request that changes something
has a way to tell whether an earlier try of it was carried out. A rename carries a transaction id, which its target
names from then on (`x-ms-client-transaction-id`, HADOOP-19497), since a directory's ETag need not outlive its rename
(HADOOP-18425 compares those of files only).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from acidlib.errors import (
    AcidError,
    ConflictError,
    CorruptError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.location import ABFS
from acidlib.stores.filesystem import UnreachableServers, permission_missing
from acidlib.stores.http import (
    BUSY,
    UNCLEAR,
    AwayError,
    BusyServiceError,
    ForkSafeLock,
    HttpAnswer,
    LostAnswerError,
    failure_of_sending,
    send,
)
from acidlib.stores.properties import StoreProperties
from acidlib.stores.repeating import Failure, changed, repeated
from acidlib.waiting import asking
from acidlib.wording import first_line_of

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

Answered = TypeVar("Answered")

PREFIX = "fs.azure."
UMASK = "fs.permissions.umask-mode"
_PROVIDERS_PATH = "hadoop.security.credential.provider.path"
_VERSION = "2024-11-04"
"""Of the service: the first that keeps transaction ids (HADOOP-19450)."""
_SCOPE = "https://storage.azure.com/.default"
_OF_AZURE = (".dfs.core.windows.net", ".dfs.core.chinacloudapi.cn", ".dfs.core.usgovcloudapi.net")
"""How the hosts of accounts end in Azure's clouds: `StorageEndpointSuffix` of Microsoft's `Get-AzEnvironment`."""
_TRIES = 6


class LogIn(Enum):
    """The way in which requests show whose they are."""

    KEY = "SharedKey"
    SAS = "SAS"
    SECRET = "OAuth, by the secret of a client"  # noqa: S105 - it is none
    MANAGED = "OAuth, by the managed identity of the machine"
    WORKLOAD = "OAuth, by the token of a workload"
    CHAIN = "the default chain of azure-identity"


_OAUTH = {
    "ClientCredsTokenProvider": LogIn.SECRET,
    "MsiTokenProvider": LogIn.MANAGED,
    "WorkloadIdentityTokenProvider": LogIn.WORKLOAD,
}
_REFUSED = (
    "account.keyprovider",
    "client-provided-encryption-key",
    "encryption.context.provider.type",
    "encryption.encoded.client-provided-key",
    "sas.token.provider.type",
)
_STORED = ("account.key", "account.oauth2.client.secret", "sas.fixed.token")
"""Properties that are looked up in Hadoop's credential providers."""
_GIVEN = {LogIn.KEY: "account.key", LogIn.SAS: "sas.fixed.token", LogIn.SECRET: "account.oauth2.client.secret"}
"""The properties that hold a credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions:
    """The options of the connection to one container. Picklable; its secrets are never printed.

    host           of the account, with a port where it has one
    key            of the account, in base 64
    sas            a token, the parameters of each request
    tenant         of the client, with the host of its `log_in_host`
    is_secure      TLS is used: always, but for an emulator by its key
    has_namespace  the account is known to have the hierarchical namespace; False = it has to be asked for
    tries          of one request; each waits `connect_seconds` for a connection and `answer_seconds` for an answer
    """

    container: str
    host: str
    log_in: LogIn
    key: str = field(default="", repr=False)
    sas: str = field(default="", repr=False)
    client: str = ""
    secret: str = field(default="", repr=False)
    tenant: str = ""
    log_in_host: str = ""
    token_file: str = ""
    is_secure: bool = True
    has_namespace: bool = False
    umask: str = "022"
    tries: int = _TRIES
    connect_seconds: float = 10.0
    answer_seconds: float = 60.0

    @property
    def account(self) -> str:
        """The name of the account."""
        return re.split("[.:]", self.host, maxsplit=1)[0]

    @property
    def user(self) -> str:
        """The user of the requests, for messages."""
        return {
            LogIn.KEY: "the key of the account",
            LogIn.SAS: "the SAS token",
            LogIn.SECRET: f"the client {self.client}",
        }.get(self.log_in, "the identity that azure-identity finds")


def container_options(authority: str, properties: Mapping[str, str]) -> ContainerOptions:
    """Return the options of `container@host` by Hadoop's properties; RefusedError names one that is not understood."""
    container, _, host = authority.partition("@")
    own = _AccountProperties(host, properties)
    for name in _REFUSED:
        if own.text(name):
            raise own.refused(name, "is not supported")
    if own.text("account.hns.enabled") and not own.flag("account.hns.enabled", default=True):
        raise own.refused("account.hns.enabled", "is false: without the hierarchical namespace nothing can be renamed")
    log_in = _log_in(own)
    own.require_trusted(log_in)
    is_secure = own.flag("always.use.https", default=True)
    if not is_secure and log_in is not LogIn.KEY:
        raise own.refused("always.use.https", "is false: tokens are sent by TLS only")
    endpoint = urlsplit(own.text("account.oauth2.client.endpoint"))
    tenant = endpoint.path.strip("/").partition("/")[0]
    if log_in is LogIn.SECRET and not (endpoint.hostname and tenant):
        raise own.refused("account.oauth2.client.endpoint", "names no tenant, as in https://HOST/TENANT/oauth2/token")
    umask = properties.get(UMASK, "").strip() or "022"
    if not re.fullmatch("[0-7]{1,4}", umask):
        raise RefusedError(f"Cannot use {UMASK} = {umask}: only octal numbers are supported")
    return ContainerOptions(
        container=container,
        host=host,
        log_in=log_in,
        key=own.key_text() if log_in is LogIn.KEY else "",
        sas=own.text("sas.fixed.token").lstrip("?") if log_in is LogIn.SAS else "",
        client=own.text("account.oauth2.client.id"),
        secret=own.text("account.oauth2.client.secret") if log_in is LogIn.SECRET else "",
        tenant=tenant or own.text("account.oauth2.msi.tenant"),
        log_in_host=endpoint.netloc,
        token_file=own.text("account.oauth2.token.file"),
        is_secure=is_secure,
        has_namespace=own.flag("account.hns.enabled", default=False),
        umask=umask.zfill(4),
        tries=1 + min(30, own.number("io.retry.max.retries", _TRIES - 1)),
        connect_seconds=own.seconds("http.connection.timeout", 10.0),
        answer_seconds=own.seconds("http.read.timeout", 60.0),
    )


def with_stored_secrets(
    authority: str,
    properties: Mapping[str, str],
    stored: Callable[[Sequence[str], str], Mapping[str, str]],
) -> Mapping[str, str]:
    """Return the properties with the secrets of an account out of Hadoop's credential providers, which win.

    stored  returns the values that the providers of a path have for some names
    """
    providers = properties.get(_PROVIDERS_PATH, "").strip()
    host = authority.partition("@")[2]
    names = [f"{PREFIX}{name}{end}" for end in (f".{host}", "") for name in _STORED]
    return {**properties, **stored(names, providers)} if providers else properties


class _AccountProperties(StoreProperties):
    """The properties that hold for one account."""

    def __init__(self, host: str, properties: Mapping[str, str]) -> None:
        super().__init__(f"the account {host}", properties)
        self._host = host

    def key(self, name: str) -> str:
        of_account = f"{PREFIX}{name}.{self._host}"
        return of_account if of_account in self.properties else PREFIX + name

    def key_text(self) -> str:
        """Return the key of the account; RefusedError unless it is in base 64."""
        text = self.text("account.key")
        try:
            base64.b64decode(text, validate=True)
        except ValueError:
            raise self.refused("account.key", "is not in base 64, as the keys of accounts are") from None
        return text

    def require_trusted(self, log_in: LogIn) -> None:
        """Raise RefusedError for a host that is not of Azure, unless a property gives it this way to log in."""
        host = self._host.partition(":")[0].lower()
        own = f"{PREFIX}{_GIVEN.get(log_in, 'account.auth.type')}.{self._host}"
        if not host.endswith(_OF_AZURE) and not self.properties.get(own, "").strip():
            raise RefusedError(
                f"Cannot use the account {self._host}: it is not of Azure ({', '.join(_OF_AZURE)}), and nothing that "
                f"shows who asks is sent elsewhere without {own}"
            )


def _log_in(own: _AccountProperties) -> LogIn:
    """Return how to log in: as `fs.azure.account.auth.type` says, else by what is given."""
    kind = own.text("account.auth.type")
    if not kind:
        return next((log_in for log_in, name in _GIVEN.items() if own.text(name)), LogIn.CHAIN)
    provider = own.text("account.oauth.provider.type")
    if kind.lower() == "oauth" and not provider:
        return LogIn.SECRET if own.text(_GIVEN[LogIn.SECRET]) else LogIn.CHAIN
    if kind.lower() == "oauth":
        log_in = _OAUTH.get(re.split(r"[.$]", provider)[-1])
        if log_in is None:
            raise own.refused("account.oauth.provider.type", f"is {provider}, which is not supported")
    else:
        log_in = {"sharedkey": LogIn.KEY, "sas": LogIn.SAS}.get(kind.lower())
        if log_in is None:
            raise own.refused("account.auth.type", f"is {kind}, which is not supported")
    if log_in in _GIVEN and not own.text(_GIVEN[log_in]):
        raise own.refused(_GIVEN[log_in], f"is not given, which {own.key('account.auth.type')} = {kind} asks for")
    return log_in


# --- requests -----------------------------------------------------------------------------------------------------


class Answer(HttpAnswer):
    """An answer of the service."""

    __slots__ = ()

    @property
    def code(self) -> str:
        """The code of an error."""
        return self.headers.get("x-ms-error-code") or str(self.error.get("code", ""))


class AnswerError(Exception):
    """The service has answered a request by an error, after which nothing has changed."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.code or str(answer.status))
        self.answer = answer
        self.code = answer.code


NO_PARENT = "RenameDestinationParentPathNotFound"
MISSING = frozenset({"PathNotFound", "BlobNotFound", "SourcePathNotFound", NO_PARENT, "ResourceNotFound"})
TAKEN = frozenset({"PathAlreadyExists", "BlobAlreadyExists"})
CHANGED = frozenset({"ConditionNotMet", "SourceConditionNotMet", "TargetConditionNotMet"})


_making = ForkSafeLock()
"""Held while the source of tokens is made, so that threads that begin together share it."""


class Container:
    """The connection to one container. It may be pickled and forked: each process has connections of its own."""

    __slots__ = ("_unreachable", "options")

    def __init__(self, options: ContainerOptions, unreachable: UnreachableServers | None = None) -> None:
        self.options = options
        self._unreachable = unreachable

    @property
    def shown(self) -> str:
        """The container and its account, for messages."""
        return f"{self.options.container}@{self.options.host}"

    def inside(self, uri: str) -> str:
        """Return the path of a URI, without a slash at both ends; RefusedError for another container, or a name.

        The service takes a backslash for a slash.
        """
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        if scheme not in ABFS.schemes or authority != self.shown or "\0" in path:
            raise RefusedError(f"Cannot open {uri!r}: it does not name a file in {self.shown}")
        if "\\" in path:
            raise RefusedError(f"Cannot open {uri}: the service does not take that name (\\ is / there)")
        return path.strip("/")

    def ask(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Answer:
        """Return the answer to a question about a path; it is asked again where the answer was lost."""
        try:
            return repeated(
                lambda: self._sent(method, path, query, headers or {}, b""),
                failure=failure_of_sending,
                tries=self.options.tries,
            )
        except AwayError as error:
            self._note_away(error)
            raise

    def make(self, path: str, *, is_directory: bool) -> str:
        """Make an empty file or directory under a new name that is unique; return its version.

        The directories above it are made as well. A late copy of the request, which the service carries out after all,
        changes nothing that is there.
        """
        headers = {
            "If-None-Match": "*",
            "x-ms-permissions": "0777" if is_directory else "0666",
            "x-ms-umask": self.options.umask,
            "x-ms-client-transaction-id": str(uuid.uuid4()),
        }

        def was_done() -> bool:
            made = self.status(path)
            return made is not None and made.transaction == headers["x-ms-client-transaction-id"]

        query = {"resource": "directory" if is_directory else "file"}
        answer = self.change("PUT", path, query, headers, was_done=was_done)
        if answer is not None:
            return answer.headers["etag"]
        made = self.status(path)
        return "" if made is None else made.version

    def rename(self, source: str, target: str, *, version: str = "", transaction: str = "") -> None:
        """Rename a file or directory, of this version if one is given, to a name that must not exist.

        When an answer was lost and a repeated request fails, it counts as done if the target names our transaction,
        by default a new one.
        """
        transaction = transaction or str(uuid.uuid4())
        named = quote(f"/{self.options.container}/{source}") + (f"?{self.options.sas}" if self.options.sas else "")
        headers = {
            "x-ms-rename-source": named,
            "If-None-Match": "*",
            "x-ms-client-transaction-id": transaction,
            **({"x-ms-source-if-match": version} if version else {}),
        }

        def was_done() -> bool:
            now = self.status(target)
            if now is None or now.transaction:
                return now is not None and now.transaction == transaction
            if self.status(source) is not None:
                return False
            raise LostAnswerError("the target tells no transaction")

        def rename(_: int) -> None:
            token, was_seen = "", False
            while True:
                try:
                    answer = self._sent("PUT", target, {"continuation": token} if token else {}, headers, b"")
                except AnswerError as error:
                    if error.code != NO_PARENT or was_seen or not self._are_there(source, target.rpartition("/")[0]):
                        raise
                    was_seen = True
                    continue
                if not (token := answer.headers.get("x-ms-continuation", "")):
                    return

        self._changed(target, rename, was_done)

    def _are_there(self, source: str, parent: str) -> bool:
        """Return whether both are there: the service may say that one is not until it is asked (HADOOP-18242)."""
        return self.status(source) is not None and self.status(parent) is not None

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return whether it was there, as it was if it is gone after a lost answer.

        Without `paginated` the service has 30 seconds to look at the rights of all below a directory (HADOOP-18656).
        It is for directories alone, so what is refused with it is removed as a file, or an empty directory.
        """

        def delete(lost: int) -> bool:
            token, by_pages = "", recursive
            while True:
                query = {"recursive": "true", "paginated": "true"} if by_pages else {"recursive": "false"}
                try:
                    answer = self._sent("DELETE", path, query | ({"continuation": token} if token else {}), {}, b"")
                except AnswerError as error:
                    if error.code in MISSING:
                        return bool(lost or token)
                    if by_pages and error.answer.status == 400 and not token:
                        by_pages = False
                        continue
                    raise
                if not (token := answer.headers.get("x-ms-continuation", "")):
                    return True

        return bool(self._changed(path, delete))

    def change(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        was_done: Callable[[], bool] | None = None,
    ) -> Answer | None:
        """Change something by one request; None when an earlier try had done it, which `was_done` tells.

        Without `was_done` it is a request that may be carried out twice.
        """
        return self._changed(path, lambda _: self._sent(method, path, query, headers, body), was_done)

    def status(self, path: str) -> PathStatus | None:
        """Return what is known of a file or directory; None where there is none."""
        try:
            answer = self.ask("HEAD", path, {"action": "getStatus"})
        except AnswerError as error:
            if error.code in MISSING or (error.answer.status == 404 and not error.code):
                return None
            raise
        return PathStatus.of(answer)

    def require_there(self, path: str) -> None:
        """Raise AnswerError unless there is a file or directory."""
        if self.status(path) is None:
            raise AnswerError(Answer(404, {"x-ms-error-code": "PathNotFound"}, b""))

    def require_namespace(self) -> None:
        """Raise RefusedError for an account without the hierarchical namespace, where renames are not atomic.

        Only accounts with it have access control lists, and one of the root is answered with 400 by others
        (hadoop-azure, `AzureBlobFileSystemStore.getIsNamespaceEnabled`).
        """
        if self.options.has_namespace or (self.options, os.getpid()) in _WITH_NAMESPACE:
            return
        with self.raising("open", f"abfss://{self.shown}"):
            try:
                self.ask("HEAD", "", {"action": "getAccessControl"})
            except AnswerError as error:
                if error.answer.status == 400:
                    raise RefusedError(
                        f"Cannot open abfss://{self.shown}: the account has no hierarchical namespace, without which "
                        "a directory is not renamed at once"
                    ) from error
                if error.answer.status == 403 and "Authentication" not in error.code:
                    raise RefusedError(
                        f"Cannot open abfss://{self.shown}: whether the account has a hierarchical namespace is told "
                        f"by the access control list of its root, which {self.options.user} may not read; if it has, "
                        f"set {PREFIX}account.hns.enabled.{self.options.host} to true"
                    ) from error
                raise
        _WITH_NAMESPACE.add((self.options, os.getpid()))

    @contextmanager
    def raising(self, action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
        """Guard a block; an error of the service in it becomes our own for a failed `action` on `path`."""
        try:
            with asking(action, path):
                yield
        except (AnswerError, LostAnswerError) as error:
            raise self._acid_error(error, action, path, missing) from error

    def _acid_error(self, error: Exception, action: str, path: str, missing: type[AcidError]) -> AcidError:
        start, where = f"Cannot {action} {path}:", self.options.host
        if isinstance(error, BusyServiceError):
            return RetryError(f"{start} {where} is busy ({error}), even after several attempts")
        if not isinstance(error, AnswerError):
            return RetryError(f"{start} {where} cannot be reached, or went away ({error})")
        code, status = error.code, error.answer.status
        shown = f"{status} {code}".strip() + (f" ({error.answer.message})" if error.answer.message else "")
        if code in MISSING or (status == 404 and not code):
            return missing(f"{start} there is no such file or directory")
        if code in ("FilesystemNotFound", "ContainerNotFound", "FilesystemBeingDeleted"):
            return MissingError(f"{start} there is no container {self.shown}")
        if code in TAKEN:
            return ConflictError(f"{start} it already exists")
        if code.startswith("Lease"):
            return RetryError(f"{start} another program has a lease on it ({shown})")
        if code in CHANGED or status == 412:
            return ConflictError(f"{start} another program has changed it ({shown})")
        if code in ("PathConflict", "InvalidSourceOrDestinationResourceType", "PathIsADirectory"):
            return missing(f"{start} it, or a path above it, is not a directory ({code})")
        if code == "DirectoryNotEmpty":
            return ConflictError(f"{start} it is not empty")
        if code in ("InvalidResourceName", "InvalidUri", "PathNameTooLong"):
            return RefusedError(f"{start} the service does not take that name ({code})")
        if code == "AccountRequiresHttps":
            return RefusedError(f"{start} the account takes requests by TLS only: {PREFIX}always.use.https is false")
        if status == 401 or code in ("AuthenticationFailed", "InvalidAuthenticationInfo"):
            return RetryError(f"{start} {where} did not take {self.options.user} ({code or status})")
        if status == 403:
            return permission_missing(f"Cannot {action} {path}", f"{self.options.user} may not; {where} said {shown}")
        return RetryError(f"{start} {where} answered {shown}")

    def _changed(
        self, path: str, change: Callable[[int], Answered], was_done: Callable[[], bool] | None = None
    ) -> Answered | None:
        """Make a change, as `repeating.changed` does."""
        return changed(
            change,
            was_done,
            failure=_failure,
            tries=self.options.tries,
            is_patient=False,
            away=self._note_away,
            unknown=lambda error: self._unknown(path, error),
        )

    def _unknown(self, path: str, error: Exception) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"Cannot tell the outcome of a change of abfss://{self.shown}/{path}: {self.options.host} was lost after "
            f"the request ({error})"
        )

    def _note_away(self, error: Exception) -> None:
        if self._unreachable is not None:
            self._unreachable.note(self.options.host, str(error))

    def _sent(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Send one request, once; AnswerError for an error of the service, LostAnswerError without an answer."""
        options = self.options
        reason = None if self._unreachable is None else self._unreachable.reason(options.host)
        if reason is not None:
            raise AwayError(reason)
        # without the slash a name is that of the container, not of its root
        line = (
            f"/{options.container}" if query.get("resource") == "filesystem" else quote(f"/{options.container}/{path}")
        )
        with _making:
            credential = None if options.key or options.sas else _credential(options, os.getpid())
        sent = {
            **headers,
            "x-ms-version": _VERSION,
            "x-ms-date": formatdate(usegmt=True),
            "Content-Length": str(len(body)),
        }
        if method in ("GET", "HEAD", "DELETE"):
            del sent["Content-Length"]
        if options.key:
            sent["Authorization"] = f"SharedKey {options.account}:{_signature(options, method, line, query, sent)}"
        elif credential is not None:
            sent["Authorization"] = f"Bearer {_token(credential)}"
        parameters = "&".join(filter(None, (urlencode(query, quote_via=quote), options.sas)))
        scheme = "https" if options.is_secure else "http"
        url = f"{scheme}://{options.host}{line}{'?' if parameters else ''}{parameters}"
        answer = send(
            Answer,
            method,
            url,
            sent,
            body or None,
            connect_seconds=options.connect_seconds,
            answer_seconds=options.answer_seconds,
        )
        if not answer.headers.get("x-ms-request-id"):  # of a proxy, which may have passed the request on
            raise LostAnswerError(f"something that is no Azure Data Lake Storage answered with {answer.status}")
        if answer.status in BUSY and answer.code:
            raise BusyServiceError(f"{answer.status} {answer.code}".strip())
        if answer.status in BUSY | UNCLEAR:
            raise LostAnswerError(f"{answer.status} {answer.code}".strip())
        if not 200 <= answer.status < 300:
            raise AnswerError(answer)
        return answer


_WITH_NAMESPACE: set[tuple[ContainerOptions, int]] = set()
"""Containers that this process knows to have the hierarchical namespace."""


def _failure(error: Exception) -> Failure | None:
    return Failure.REFUSED if isinstance(error, AnswerError) else failure_of_sending(error)


@dataclass(frozen=True, slots=True)
class PathStatus:
    """A file or directory; `permissions` as in `rwxr-x---`, with a plus for an access control list of more entries.

    `transaction` is of the last request that made or renamed it. What the service does not tell is empty.
    """

    is_directory: bool
    length: int
    modified: float
    version: str
    owner: str
    group: str
    permissions: str
    transaction: str

    @staticmethod
    def of(answer: Answer) -> PathStatus:
        """Return the status in an answer; LostAnswerError for one that lacks it."""
        headers = answer.headers
        try:
            return PathStatus(
                is_directory=headers["x-ms-resource-type"] == "directory",
                length=int(headers.get("content-length", 0)),
                modified=parsedate_to_datetime(headers["last-modified"]).timestamp(),
                version=headers["etag"],
                owner=headers.get("x-ms-owner", ""),
                group=headers.get("x-ms-group", ""),
                permissions=headers.get("x-ms-permissions", ""),
                transaction=headers.get("x-ms-client-transaction-id", ""),
            )
        except (KeyError, ValueError) as error:
            raise LostAnswerError(f"the answer lacks {error}, which Azure Data Lake Storage gives") from error


@lru_cache(maxsize=16)
def _credential(options: ContainerOptions, process: int) -> TokenCredential:
    """Return the source of tokens of one process: a fork must not use that of its parent.

    Raises `RefusedError` where it is not installed, or does not take the settings.
    """
    del process
    try:
        from azure import identity
    except ModuleNotFoundError as error:
        raise RefusedError(
            f"Cannot log in to {options.host}: {error.name} is not installed; pip install 'acidlib[azure]' brings it"
        ) from error
    try:
        if options.log_in is LogIn.SECRET:
            return identity.ClientSecretCredential(
                options.tenant, options.client, options.secret, authority=options.log_in_host
            )
        if options.log_in is LogIn.MANAGED:
            return identity.ManagedIdentityCredential(client_id=options.client or None)
        if options.log_in is LogIn.WORKLOAD:
            return identity.WorkloadIdentityCredential(
                tenant_id=options.tenant or None,
                client_id=options.client or None,
                token_file_path=options.token_file or None,
            )
        return identity.DefaultAzureCredential()
    except ValueError as error:
        raise RefusedError(f"Cannot log in to {options.host}: {first_line_of(error)}") from error


def _token(credential: TokenCredential) -> str:
    """Return a token, which azure-identity keeps until it runs out."""
    from azure.core.exceptions import AzureError

    try:
        return credential.get_token(_SCOPE).token
    except (AzureError, OSError, ValueError) as error:  # a file of tokens may be missing, or a log-in host be none
        raise RetryError(f"Cannot log in to Azure Data Lake Storage: {first_line_of(error)}") from error


def _signature(
    options: ContainerOptions, method: str, line: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> str:
    """Return the signature of a request. Source: Microsoft, "Authorize with Shared Key", for the Blob service."""
    length = headers.get("Content-Length", "0")
    standard = [
        *("", "", "" if length == "0" else length, "", "", ""),  # encoding, language, length, MD5, type, date
        *("", headers.get("If-Match", ""), headers.get("If-None-Match", ""), "", headers.get("Range", "")),
    ]
    own = [f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith("x-ms-")]
    parameters = [f"{name.lower()}:{query[name]}" for name in sorted(query, key=str.lower)]
    text = "\n".join([method, *standard, *own, f"/{options.account}{line}", *parameters])
    digest = hmac.new(base64.b64decode(options.key), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
