"""The connection to S3: the options of a bucket, its client, and what errors say.

The properties of Hadoop's S3A say how a bucket is reached (Hadoop's "Connecting to an Amazon S3 Bucket" and
"Troubleshooting S3A"). A property of one bucket, `fs.s3a.bucket.BUCKET.NAME`, wins over `fs.s3a.NAME`. A property that
changes how objects are read or written, and is not known here, is refused by its name: going on without it would fail
later, or write objects that readers cannot read.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError
from botocore.session import Session as CoreSession
from urllib3.exceptions import HTTPError

from acidlib.errors import AcidError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.stores.buckets.bucket import ChangedError, UnderWayError, UploadGoneError
from acidlib.stores.filesystem import permission_missing
from acidlib.stores.properties import StoreProperties
from acidlib.wording import first_line_of

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


PREFIX = "fs.s3a."
DIRECTORY_BUCKET = "--x-s3"
ATTEMPTS = 5


class Credentials(Enum):
    """The source of keys."""

    GIVEN = "the properties"
    CHAIN = "boto3's chain: environment, profile, web identity, container, instance"
    ROLE = "a role that is assumed"
    NONE = "nowhere: requests are not signed"


_PROVIDERS = {
    **dict.fromkeys(("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"), Credentials.GIVEN),
    **dict.fromkeys(
        (
            *("EnvironmentVariableCredentialsProvider", "SystemPropertyCredentialsProvider"),
            *("ProfileCredentialsProvider", "ProfileAWSCredentialsProvider"),
            *("InstanceProfileCredentialsProvider", "IAMInstanceCredentialsProvider"),
            *("EC2ContainerCredentialsProviderWrapper", "ContainerCredentialsProvider"),
            *("WebIdentityTokenCredentialsProvider", "WebIdentityTokenFileCredentialsProvider"),
            *("DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider"),
        ),
        Credentials.CHAIN,
    ),
    "AssumedRoleCredentialProvider": Credentials.ROLE,
    **dict.fromkeys(("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"), Credentials.NONE),
}
"""By the name of the class alone: the classes have moved between packages."""

_REFUSED = (
    "accesspoint.arn",
    "access.point.arn",
    "delegation.token.binding",
    "encryption.context",
    "proxy.host",
    "s3.client.factory.impl",
    "custom.signers",
    "signing-algorithm",
)
_REFUSED_IF_TRUE = ("requester.pays.enabled", "encryption.cse.v1.compatibility.enabled", "accesspoint.required")
_STORED = ("access.key", "secret.key", "session.token", "encryption.key", "server-side-encryption.key")
"""Properties that S3A looks up in Hadoop's credential providers first."""
_PROVIDER_PATH = "security.credential.provider.path"
_ENCRYPTION = {"AES256": "AES256", "SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """The options of the connection to one bucket. Picklable; its secrets are never printed.

    endpoint    with its scheme; None for that of the region
    region      None for that of the machine's own configuration, as for an endpoint of Amazon that names none
    creation    arguments of every request that makes an object: encryption, storage class, ACL
    attempts    at one request; each waits `connect_seconds` for a connection and `answer_seconds` for an answer
    checksums   whether parts carry a checksum where the store asks for none
    role        the ARN to assume, with the name of the session
    """

    bucket: str
    credentials: tuple[Credentials, ...]
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    role: str = ""
    role_session: str = "acidlib"
    role_endpoint: str | None = None
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    attempts: int = ATTEMPTS
    connect_seconds: float = 10.0
    answer_seconds: float = 60.0
    connections: int = 32
    checksums: bool = True
    creation: tuple[tuple[str, str], ...] = ()
    unknown_provider: str = ""

    @property
    def shown(self) -> str:
        """The bucket and its endpoint, for messages."""
        return f"{self.bucket} at {self.endpoint or 'Amazon S3'}"

    @property
    def user(self) -> str:
        """The user of the requests, for messages: the id of a key is no secret."""
        if Credentials.ROLE in self.credentials:
            return f"the role {self.role}"
        if Credentials.GIVEN in self.credentials:
            return f"the access key {self.access_key}"
        return "a request without keys" if self.credentials == (Credentials.NONE,) else "the keys that boto3 finds"


_AMAZON = re.compile(r"\.amazonaws\.com(?:\.cn)?(?::\d+)?/*$")
_AMAZON_REGION = re.compile(r"s3[.-](?:fips\.)?(?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d+)(?:\.vpce)?\.amazonaws\.com")
"""The region in an endpoint of Amazon S3; one of PrivateLink is `bucket.vpce-ID.s3.REGION.vpce.amazonaws.com`."""


def s3_options(bucket: str, properties: Mapping[str, str]) -> S3Options:
    """Return the options of a bucket by Hadoop's properties. RefusedError names a property that is not understood."""
    if bucket.endswith(DIRECTORY_BUCKET):
        raise RefusedError(f"Cannot use {bucket}: it is a directory bucket, and these are not supported")
    own = _BucketProperties(bucket, properties)
    for name in _REFUSED:
        if own.text(name):
            raise own.refused(name, "is not supported")
    for name in _REFUSED_IF_TRUE:
        if own.flag(name, default=False):
            raise own.refused(name, "is not supported")
    access, secret = own.text("access.key"), own.text("secret.key")
    if bool(access) != bool(secret):
        raise own.refused("secret.key" if access else "access.key", "is given without its other half")
    credentials, unknown = _credentials(own, has_keys=bool(access))
    role, region, endpoint = (own.text(name) for name in ("assumed.role.arn", "endpoint.region", "endpoint"))
    if Credentials.ROLE in credentials and not role:
        raise own.refused("aws.credentials.provider", f"assumes a role, and {PREFIX}assumed.role.arn names none")
    if endpoint and not region:
        if (named := _AMAZON_REGION.search(endpoint)) is not None:
            region = named[1]
        elif not _AMAZON.search(endpoint):  # for other servers any does, if all clients use the same
            region = "us-east-1"
    return S3Options(
        bucket=bucket,
        credentials=credentials,
        access_key=access,
        secret_key=secret,
        session_token=own.text("session.token"),
        role=role,
        role_session=own.text("assumed.role.session.name") or "acidlib",
        role_endpoint=_endpoint(own.text("assumed.role.sts.endpoint"), secure=True),
        endpoint=_endpoint(endpoint, secure=own.flag("connection.ssl.enabled", default=True)),
        region=region or None,
        path_style=own.flag("path.style.access", default=False),
        attempts=max(1, own.number("attempts.maximum", ATTEMPTS)),
        connect_seconds=own.seconds("connection.establish.timeout", 10.0),
        answer_seconds=own.seconds("connection.timeout", 60.0),
        connections=min(128, max(16, own.number("connection.maximum", 32))),
        checksums=own.flag("checksum.generation", default=True),
        creation=_creation_arguments(own),
        unknown_provider=unknown,
    )


def with_stored_keys(
    bucket: str,
    properties: Mapping[str, str],
    stored: Callable[[Sequence[str], str], Mapping[str, str]],
) -> Mapping[str, str]:
    """Return the properties with the keys of a bucket out of credential providers, which win.

    stored  returns the values that the providers of a path have for some names
    """
    own = _BucketProperties(bucket, properties)
    # the providers of S3A, or of the bucket, come before Hadoop's own, which have no variant for a bucket
    paths = own.text(_PROVIDER_PATH), properties.get(f"hadoop.{_PROVIDER_PATH}", "").strip()
    providers = ",".join(filter(None, paths))
    names = [f"{prefix}{name}" for prefix in (f"{PREFIX}bucket.{bucket}.", PREFIX) for name in _STORED]
    return {**properties, **stored(names, providers)} if providers else properties


class _BucketProperties(StoreProperties):
    """The properties that hold for one bucket."""

    def __init__(self, bucket: str, properties: Mapping[str, str]) -> None:
        super().__init__(f"the bucket {bucket}", properties)
        self._own = f"{PREFIX}bucket.{bucket}."

    def key(self, name: str) -> str:
        of_bucket = self._own + name
        return of_bucket if of_bucket in self.properties else PREFIX + name


def _credentials(own: _BucketProperties, *, has_keys: bool) -> tuple[tuple[Credentials, ...], str]:
    """Return the sources of keys in the order in which they are tried, and the first unknown provider."""
    named = [name.strip() for name in own.text("aws.credentials.provider").split(",") if name.strip()]
    sources: dict[Credentials, None] = {}
    unknown = ""
    for name in named:
        kind = _PROVIDERS.get(re.split(r"[.$]", name)[-1])
        if kind is None:
            unknown = unknown or name
        elif kind is not Credentials.GIVEN or has_keys:
            sources[kind] = None
    if named:
        if not sources and not unknown:
            raise own.refused("aws.credentials.provider", "wants keys, and none are given")
        return tuple(sources), unknown
    return (Credentials.GIVEN if has_keys else Credentials.CHAIN,), ""


def _endpoint(text: str, *, secure: bool) -> str | None:
    if not text:
        return None
    return text.rstrip("/") if "://" in text else f"{'https' if secure else 'http'}://{text.rstrip('/')}"


def _creation_arguments(own: _BucketProperties) -> tuple[tuple[str, str], ...]:
    arguments = {}
    name = "encryption.algorithm"
    if not own.text(name):
        name = "server-side-encryption-algorithm"
    algorithm = own.text(name)
    if algorithm:
        if algorithm.upper() not in _ENCRYPTION:
            raise own.refused(name, f"is {algorithm}, which is not supported")
        arguments["ServerSideEncryption"] = _ENCRYPTION[algorithm.upper()]
        key = own.text("encryption.key") or own.text("server-side-encryption.key")
        if key and arguments["ServerSideEncryption"] != "AES256":
            arguments["SSEKMSKeyId"] = key
    if storage := own.text("create.storage.class"):
        arguments["StorageClass"] = storage.upper()
    if acl := own.text("acl.default"):
        arguments["ACL"] = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", acl).lower()
    return tuple(sorted(arguments.items()))


_CLIENTS = 16
_REQUIRED_FIELDS = {
    "CompleteMultipartUpload": "ETag",
    "CreateMultipartUpload": "UploadId",
    "GetObject": "ETag",
    "HeadObject": "LastModified",
    "ListObjectsV2": "IsTruncated",
    "ListParts": "IsTruncated",
    "PutObject": "ETag",
    "UploadPart": "ETag",
    "UploadPartCopy": "CopyPartResult",
}
"""A field that the answer to each request must have."""


_making = threading.Lock()
"""Held while a client is made, which takes a while: threads that begin together make only one."""


def _forked() -> None:
    """Renew the lock, which another thread of the parent may have held."""
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def client_of(options: S3Options, process: int) -> S3Client:
    """Return the client of a process, which its threads share."""
    with _making:
        return _client(options, process)


@lru_cache(maxsize=_CLIENTS)
def _client(options: S3Options, process: int) -> S3Client:
    """Return a client for one process: a fork must not use the connections of its parent."""
    del process
    unsigned = options.credentials == (Credentials.NONE,)
    config = Config(
        signature_version=UNSIGNED if unsigned else None,
        retries={"mode": "standard", "total_max_attempts": options.attempts},
        s3={"addressing_style": "path" if options.path_style else "auto"},
        max_pool_connections=options.connections,
        connect_timeout=options.connect_seconds,
        read_timeout=options.answer_seconds,
        request_checksum_calculation="when_supported" if options.checksums else "when_required",
        response_checksum_validation="when_supported" if options.checksums else "when_required",
    )
    try:
        session = boto3.Session() if unsigned else _session(options)
        client = session.client("s3", region_name=_region(options), endpoint_url=options.endpoint, config=config)
        client.meta.events.register("after-call.s3", _require_s3)
        return client
    except (BotoCoreError, ClientError, ValueError) as error:
        raise RetryError(f"Cannot open the bucket {options.shown}: {error}") from error


def _require_s3(model: Any, http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
    """Raise NotS3Error for a good answer without a field that every server of S3 gives: boto3 takes it for empty."""
    lacking = _REQUIRED_FIELDS.get(model.name)
    if lacking is not None and http_response.status_code < 300 and lacking not in parsed:
        raise NotS3Error(lacking=lacking)


def _region(options: S3Options) -> str | None:
    if options.region:
        return options.region
    return boto3.Session().region_name or "us-east-1"


def _session(options: S3Options) -> boto3.Session:
    """Return a session with the first credentials that there are, in the order of the options."""
    for kind in options.credentials:
        if kind is Credentials.GIVEN:
            return _with_keys(options)
        if kind is Credentials.ROLE:
            return _with_role(options)
        if kind is Credentials.CHAIN and (session := boto3.Session()).get_credentials() is not None:
            return session
    if options.unknown_provider:
        raise RefusedError(
            f"Cannot open the bucket {options.shown}: its keys come from {options.unknown_provider}, which is "
            "not supported; give them by fs.s3a.access.key and fs.s3a.secret.key, or by AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    return boto3.Session()  # its first request says that there are no keys


def _with_keys(options: S3Options) -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=options.access_key,
        aws_secret_access_key=options.secret_key,
        aws_session_token=options.session_token or None,
    )


def _with_role(options: S3Options) -> boto3.Session:
    """Return a session with the keys of a role, renewed before they run out."""
    base = _with_keys(options) if options.access_key else boto3.Session()
    sts = base.client("sts", region_name=_region(options), endpoint_url=options.role_endpoint)

    def assume() -> dict[str, str]:
        keys = sts.assume_role(RoleArn=options.role, RoleSessionName=options.role_session)["Credentials"]
        return {
            "access_key": keys["AccessKeyId"],
            "secret_key": keys["SecretAccessKey"],
            "token": keys["SessionToken"],
            "expiry_time": keys["Expiration"].isoformat(),
        }

    core = CoreSession()
    core.register_component("credential_provider", CredentialResolver([_Role(assume)]))
    return boto3.Session(botocore_session=core)


class _Role(CredentialProvider):
    """The keys of a role, for boto3."""

    METHOD = "assume-role"

    def __init__(self, assume: Callable[[], dict[str, str]]) -> None:
        super().__init__()
        self._assume = assume

    def load(self) -> Any:
        return DeferredRefreshableCredentials(self._assume, self.METHOD)


_NO_UPLOAD = "NoSuchUpload"
_MISSING = frozenset({"404", "NoSuchKey", "NotFound", _NO_UPLOAD, "NoSuchVersion"})
_DENIED = frozenset({"403", "AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden"})
_RIGHTS = {
    **dict.fromkeys(("HeadObject", "GetObject"), "the right to read (s3:GetObject)"),
    **dict.fromkeys(("HeadBucket", "ListObjectsV2"), "the right to list (s3:ListBucket)"),
    **dict.fromkeys(
        ("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"),
        "the right to write (s3:PutObject)",
    ),
    **dict.fromkeys(("CopyObject", "UploadPartCopy"), "the rights to read and to write (s3:GetObject, s3:PutObject)"),
    **dict.fromkeys(("DeleteObject", "DeleteObjects"), "the right to delete (s3:DeleteObject)"),
    "AbortMultipartUpload": "the right to give uploads up (s3:AbortMultipartUpload)",
    "ListMultipartUploads": "the right to list uploads (s3:ListBucketMultipartUploads)",
    "ListParts": "the right to list parts of uploads (s3:ListMultipartUploadParts)",
}
"""The right that a request takes, by its name in S3."""
_ELSEWHERE = frozenset({"301", "307", "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"})
BROKEN_OFF = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError, HTTPError, OSError)
"""Errors of reading the bytes of an answer that has begun to come."""


class NotS3Error(BotoCoreError):
    """The answer lacks a field that every server of S3 gives: another kind of server, or a proxy, gave it."""

    fmt = "it did not answer as a server of S3 does: {lacking} is not in the answer"


def code_of(error: ClientError) -> str:
    """Return the code of an error, or the status where the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def http_status(error: ClientError) -> int:
    """Return the HTTP status."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_missing(error: ClientError) -> bool:
    """Tell whether the object or upload is missing; a missing bucket is another error."""
    return code_of(error) in _MISSING


_ANSWERS: dict[str, tuple[type[AcidError], str]] = {
    "NoSuchBucket": (MissingError, "there is no bucket {where}"),
    **dict.fromkeys(("412", "PreconditionFailed"), (ChangedError, "another program has changed or made the object")),
    **dict.fromkeys(
        ("409", "ConditionalRequestConflict", "OperationAborted"),
        (UnderWayError, "another program has changed or made the object"),
    ),
    **dict.fromkeys(
        (
            *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity"),
            *("InvalidClientTokenId", "XAdminUserNotFound"),  # the last is versitygw's
        ),
        (RetryError, "the keys for {where} are wrong ({code})"),
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"),
        (RetryError, "the session token for {where} has expired"),
    ),
    "RequestTimeTooSkewed": (RetryError, "the clock of this machine differs too much from that of {where}"),
    "InvalidObjectState": (RetryError, "the object is archived and has to be restored first"),
    **dict.fromkeys(
        ("SlowDown", "503", "ServiceUnavailable", "Throttling", "RequestLimitExceeded", "TooManyRequests"),
        (RetryError, "{where} is busy ({shown}), even after several attempts"),
    ),
    **dict.fromkeys(
        ("507", "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"),
        (RetryError, "no space is left at {where}, or the quota is used up"),
    ),
    **dict.fromkeys(
        ("KeyTooLongError", "InvalidBucketName"), (RefusedError, "the store does not take that name ({code})")
    ),
}
"""Errors of a server, by their codes."""


def s3_acid_error(
    error: Exception, action: str, path: str, *, where: str, user: str, missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("read", "list") on `path`.

    `where` names bucket and endpoint, `user` the user of the request.

    A failed condition is `ChangedError`, a missing object `missing`, a missing upload UploadGoneError, a missing bucket
    MissingError. Keys, rights, clocks, networks and busy servers may be put right: RetryError.
    """
    start = f"Cannot {action} {path}:"
    if not isinstance(error, ClientError):
        return _without_answer(error, start, where)
    code, about = code_of(error), error.response.get("Error", {})
    message = str(about.get("Message", "")).splitlines()
    shown = f"{code or http_status(error)} ({message[0]})" if message and message[0] else code or "without a reason"
    if code == _NO_UPLOAD:
        return UploadGoneError(f"{start} its upload is gone: another program has aborted it")
    if code in _MISSING:
        return missing(f"{start} there is no such object")
    if code in _ANSWERS:
        kind, why = _ANSWERS[code]
        return kind(f"{start} {why.format(where=where, code=code, shown=shown)}")
    if code in _DENIED:
        right = _RIGHTS.get(error.operation_name, error.operation_name)
        return permission_missing(f"Cannot {action} {path}", f"{user} needs {right}; {where} answered {shown}")
    if code in _ELSEWHERE:
        headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        region = about.get("Region") or headers.get("x-amz-bucket-region", "another one")
        return RetryError(f"{start} the bucket is not there but in the region {region}: set fs.s3a.endpoint.region")
    return RetryError(f"{start} {where} answered {shown if code.isdecimal() else f'{http_status(error)} {shown}'}")


def _without_answer(error: Exception, start: str, where: str) -> AcidError:
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return RetryError(
            f"{start} no keys for {where} are found: neither fs.s3a.access.key nor any other source of boto3"
        )
    # boto3 follows redirections without an end, until it, or urllib3, recurses too deeply
    deep: BaseException | None = error
    while deep is not None and not isinstance(deep, RecursionError):
        deep = deep.__context__
    if deep is not None:
        return RetryError(
            f"{start} {where} sends every request elsewhere: look at fs.s3a.endpoint and fs.s3a.connection.ssl.enabled"
        )
    first_line = first_line_of(error)
    if isinstance(error, NotS3Error | ResponseParserError):
        return RetryError(f"{start} {where} is no server of S3, or a proxy before one ({first_line})")
    if isinstance(error, ParamValidationError):
        rule = str(error).splitlines()[-1].partition(": Bucket name must match")[0]
        return RefusedError(f"{start} the store does not take that name ({rule})")
    if isinstance(error, IncompleteReadError | ResponseStreamingError):
        return RetryError(f"{start} answers of {where} broke off several times")
    if isinstance(error, BotoConnectionError | HTTPClientError | HTTPError | OSError):
        return unreachable_error(start, where, unanswered_reason(error, is_short=True) or first_line)
    return RetryError(f"{start} of {first_line}")


def unreachable_error(start: str, where: str, reason: str) -> RetryError:
    """Return the error for a server that does not answer; `start` is "Cannot list PATH:"."""
    return RetryError(f"{start} {where} cannot be reached, or went away ({reason})")


def unanswered_reason(error: Exception, *, is_short: bool) -> str | None:
    """Return why there was no answer, where the server seems to be away; None for any other error.

    is_short  the action takes a server no time, so that it is away when it does not answer
    """
    if isinstance(error, EndpointConnectionError | ProxyConnectionError):
        return "no connection"
    if isinstance(error, ConnectTimeoutError):
        return "no connection in time"
    return "no answer in time" if is_short and isinstance(error, ReadTimeoutError) else None


def seconds(modified: datetime) -> float:
    """Return a time of the store in whole seconds since the epoch: in some, listings are finer than other answers."""
    return float(int(modified.timestamp()))
