"""How a bucket is reached, from the properties that Hadoop's S3A has for it.

Source: Hadoop's "Connecting to an Amazon S3 Bucket" and "Troubleshooting S3A". A property of one bucket,
`fs.s3a.bucket.BUCKET.NAME`, wins over `fs.s3a.NAME`. What changes how objects have to be read or written and is not
known here is refused by its name: going on without it would fail later, or write what nobody can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from acidlib.errors import RefusedError

PREFIX = "fs.s3a."
DIRECTORY_BUCKET = "--x-s3"
ATTEMPTS = 5


class Credentials(Enum):
    """Where keys come from."""

    GIVEN = "the properties"
    CHAIN = "boto3's chain: environment, profile, web identity, container, instance"
    ROLE = "a role that is assumed"
    NONE = "nowhere: requests are not signed"


_PROVIDERS = {
    "SimpleAWSCredentialsProvider": Credentials.GIVEN,
    "TemporaryAWSCredentialsProvider": Credentials.GIVEN,
    "EnvironmentVariableCredentialsProvider": Credentials.CHAIN,
    "SystemPropertyCredentialsProvider": Credentials.CHAIN,
    "ProfileCredentialsProvider": Credentials.CHAIN,
    "ProfileAWSCredentialsProvider": Credentials.CHAIN,
    "InstanceProfileCredentialsProvider": Credentials.CHAIN,
    "IAMInstanceCredentialsProvider": Credentials.CHAIN,
    "EC2ContainerCredentialsProviderWrapper": Credentials.CHAIN,
    "ContainerCredentialsProvider": Credentials.CHAIN,
    "WebIdentityTokenCredentialsProvider": Credentials.CHAIN,
    "WebIdentityTokenFileCredentialsProvider": Credentials.CHAIN,
    "DefaultAWSCredentialsProviderChain": Credentials.CHAIN,
    "DefaultCredentialsProvider": Credentials.CHAIN,
    "AssumedRoleCredentialProvider": Credentials.ROLE,
    "AnonymousAWSCredentialsProvider": Credentials.NONE,
    "AnonymousCredentialsProvider": Credentials.NONE,
}
"""By the name of the class alone: the same ones have lain in several packages."""

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
"""What S3A looks up in Hadoop's credential providers before it goes by the properties."""
_PROVIDER_PATH = "security.credential.provider.path"
_UNITS = {"": 1e-3, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_ENCRYPTION = {"AES256": "AES256", "SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOptions:
    """How one bucket is reached. Picklable; no secret of it is ever printed.

    endpoint    with its scheme; None for that of the region
    region      None for what the machine says
    created     arguments of every request that makes an object: encryption, storage class, ACL
    attempts    at one request, each of which waits for a connection and for an answer so long
    checksums   whether parts carry a checksum where none is asked for
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
    created: tuple[tuple[str, str], ...] = ()
    unknown_provider: str = ""

    @property
    def shown(self) -> str:
        """The bucket and where it is looked for, for messages."""
        return f"{self.bucket} at {self.endpoint or 'Amazon S3'}"

    @property
    def user(self) -> str:
        """Those who ask, for messages: the number of a key is no secret."""
        if Credentials.ROLE in self.credentials:
            return f"the role {self.role}"
        if Credentials.GIVEN in self.credentials:
            return f"the access key {self.access_key}"
        return "a request without keys" if self.credentials == (Credentials.NONE,) else "the keys that boto3 finds"


def bucket_options(bucket: str, properties: Mapping[str, str]) -> BucketOptions:
    """How a bucket is reached by these properties of Hadoop. RefusedError names what is not understood."""
    if bucket.endswith(DIRECTORY_BUCKET):
        raise RefusedError(f"Cannot use {bucket}: because it is a directory bucket, and these are not supported")
    given = _Given(bucket, properties)
    for name in _REFUSED:
        if given.text(name):
            raise given.refused(name, "is not supported")
    for name in _REFUSED_IF_TRUE:
        if given.flag(name, default=False):
            raise given.refused(name, "is not supported")
    access, secret = given.text("access.key"), given.text("secret.key")
    if bool(access) != bool(secret):
        raise given.refused("secret.key" if access else "access.key", "is given without its other half")
    credentials, unknown = _credentials(given, has_keys=bool(access))
    role = given.text("assumed.role.arn")
    if Credentials.ROLE in credentials and not role:
        raise given.refused("aws.credentials.provider", f"assumes a role, and {PREFIX}assumed.role.arn names none")
    return BucketOptions(
        bucket=bucket,
        credentials=credentials,
        access_key=access,
        secret_key=secret,
        session_token=given.text("session.token"),
        role=role,
        role_session=given.text("assumed.role.session.name") or "acidlib",
        role_endpoint=_endpoint(given.text("assumed.role.sts.endpoint"), secure=True),
        endpoint=_endpoint(given.text("endpoint"), secure=given.flag("connection.ssl.enabled", default=True)),
        region=given.text("endpoint.region") or _region_in(given.text("endpoint")),
        path_style=given.flag("path.style.access", default=False),
        attempts=max(1, given.number("attempts.maximum", ATTEMPTS)),
        connect_seconds=given.seconds("connection.establish.timeout", 10.0),
        answer_seconds=given.seconds("connection.timeout", 60.0),
        connections=min(128, max(16, given.number("connection.maximum", 32))),
        checksums=given.flag("checksum.generation", default=True),
        created=_created(given),
        unknown_provider=unknown,
    )


def with_stored_keys(
    bucket: str,
    properties: Mapping[str, str],
    stored: Callable[[Sequence[str], str], Mapping[str, str]],
) -> Mapping[str, str]:
    """The properties with those keys of a bucket that are kept in credential providers, which win.

    stored  those of some names that are kept in the providers of a path
    """
    providers = _providers(_Given(bucket, properties))
    names = [f"{prefix}{name}" for prefix in (f"{PREFIX}bucket.{bucket}.", PREFIX) for name in _STORED]
    return {**properties, **stored(names, providers)} if providers else properties


def _providers(given: _Given) -> str:
    """The path of all providers: those of S3A, or of the bucket, stand before Hadoop's."""
    return ",".join(filter(None, (given.text(_PROVIDER_PATH), given.plain(f"hadoop.{_PROVIDER_PATH}"))))


class _Given:
    """The properties that hold for one bucket."""

    def __init__(self, bucket: str, properties: Mapping[str, str]) -> None:
        self._bucket = bucket
        self._properties = properties

    def key(self, name: str) -> str:
        """The property that says it, for messages."""
        own = f"{PREFIX}bucket.{self._bucket}.{name}"
        return own if own in self._properties else PREFIX + name

    def text(self, name: str) -> str:
        return self._properties.get(self.key(name), "").strip()

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise self.refused(name, f"is {text!r}, which is neither true nor false")
        return default if not text else text == "true"

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if text and not text.isdecimal():
            raise self.refused(name, f"is {text!r}, which is no number")
        return int(text) if text else default

    def seconds(self, name: str, default: float) -> float:
        """A duration as Hadoop writes one: in milliseconds, or with its unit."""
        text = self.text(name).lower()
        found = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", text)
        if text and (found is None or found[2] not in _UNITS):
            raise self.refused(name, f"is {text!r}, which is no duration")
        return int(found[1]) * _UNITS[found[2]] or default if found else default  # 0 is Hadoop's for no limit

    def plain(self, key: str) -> str:
        """A property that S3A has no variant for a bucket of."""
        return self._properties.get(key, "").strip()

    def refused(self, name: str, why: str) -> RefusedError:
        return RefusedError(f"Cannot use the bucket {self._bucket}: because {self.key(name)} {why}")


def _credentials(given: _Given, *, has_keys: bool) -> tuple[tuple[Credentials, ...], str]:
    """What is tried, in order, and the first provider that is not known."""
    named = [name.strip() for name in given.text("aws.credentials.provider").split(",") if name.strip()]
    found: dict[Credentials, None] = {}
    unknown = ""
    for name in named:
        kind = _PROVIDERS.get(re.split(r"[.$]", name)[-1])
        if kind is None:
            unknown = unknown or name
        elif kind is not Credentials.GIVEN or has_keys:
            found[kind] = None
    if named:
        if not found and not unknown:
            raise given.refused("aws.credentials.provider", "wants keys, and none are given")
        return tuple(found), unknown
    return (Credentials.GIVEN if has_keys else Credentials.CHAIN,), ""


def _endpoint(text: str, *, secure: bool) -> str | None:
    if not text:
        return None
    return text.rstrip("/") if "://" in text else f"{'https' if secure else 'http'}://{text.rstrip('/')}"


def _region_in(endpoint: str) -> str | None:
    """The region that is part of an endpoint of Amazon; for servers of others any does, if all use the same."""
    if not endpoint:
        return None
    found = re.search(r"s3[.-](?:dualstack\.|fips\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com", endpoint)
    return found[1] if found else "us-east-1"


def _created(given: _Given) -> tuple[tuple[str, str], ...]:
    arguments = {}
    name = "encryption.algorithm"
    if not given.text(name):
        name = "server-side-encryption-algorithm"
    algorithm = given.text(name)
    if algorithm:
        if algorithm.upper() not in _ENCRYPTION:
            raise given.refused(name, f"is {algorithm}, which is not supported")
        arguments["ServerSideEncryption"] = _ENCRYPTION[algorithm.upper()]
        key = given.text("encryption.key") or given.text("server-side-encryption.key")
        if key and arguments["ServerSideEncryption"] != "AES256":
            arguments["SSEKMSKeyId"] = key
    if storage := given.text("create.storage.class"):
        arguments["StorageClass"] = storage.upper()
    if acl := given.text("acl.default"):
        arguments["ACL"] = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", acl).lower()
    return tuple(sorted(arguments.items()))
