"""A bucket as the other modules use it: its client, made once per process, and names of objects from paths."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session as CoreSession

from acidlib.errors import AcidError, CorruptError, RefusedError, RetryError
from acidlib.storage.s3.errors import (
    BROKEN_OFF,
    NotAskedError,
    NotS3Error,
    has_no_word,
    is_missing,
    raising_acid_errors,
    why_unanswered,
)
from acidlib.storage.s3.options import BucketOptions, Credentials
from acidlib.storage.unanswered import Unanswered

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_PATH = re.compile(r"s3[an]?://([^/]+)(?:/(.*))?", re.DOTALL)
_CLIENTS = 16
_TRIES = 3
_SHORT = ("list", "look at")
"""What takes a server no time."""
_ALWAYS_SAID = {
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
"""What the answer to a request cannot be without."""


_making = threading.Lock()
"""Making a client takes a while: threads that begin together make one."""


def _forked() -> None:
    """Another thread of the parent may have held it."""
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_forked)


class Bucket:
    """One bucket and how it is reached. It may be pickled and forked: each process makes a client of its own."""

    __slots__ = ("_unanswered", "options")

    def __init__(self, options: BucketOptions, unanswered: Unanswered | None = None) -> None:
        self.options = options
        self._unanswered = unanswered

    @property
    def name(self) -> str:
        """The bucket's name."""
        return self.options.bucket

    @property
    def client(self) -> S3Client:
        """The client of this process; threads share it."""
        with _making:
            return _client(self.options, os.getpid())

    def key(self, path: str) -> str:
        """The key of a path, without a slash at its end; empty for the bucket itself. RefusedError for another one."""
        found = _PATH.fullmatch(path)
        if found is None or found[1] != self.name:
            raise RefusedError(f"Cannot use {path}: because it does not lie in the bucket {self.name}")
        return (found[2] or "").strip("/")

    def path(self, key: str) -> str:
        """The path of a key."""
        return f"s3a://{self.name}/{key}"

    @contextmanager
    def raising(self, action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
        """Runs a block; what boto3 raises in it becomes the error of ours for a failed `action` on `path`.

        Nothing is asked of a server that this run has waited for in vain.
        """
        server = self.options.endpoint or f"the region {self.options.region}"
        with raising_acid_errors(action, path, where=self.options.shown, who=self.options.user, missing=missing):
            reason = None if self._unanswered is None else self._unanswered.reason(server)
            if reason is not None:
                raise NotAskedError(reason=reason)
            try:
                yield
            except BotoCoreError as error:
                # an answer may take its time where a part is copied or an upload completed
                waited = why_unanswered(error, is_short=action in _SHORT)
                if self._unanswered is not None and waited is not None:
                    self._unanswered.note(server, waited)
                raise

    def head(self, path: str) -> Any | None:
        """What is known of the object at a path; None without one.

        The answer has no body, so that a reason why there is none is missing: that of a listing is told then.
        """
        with self.raising("look at", path):
            try:
                return self.client.head_object(Bucket=self.name, Key=self.key(path))
            except ClientError as error:
                if is_missing(error):
                    return None
                if has_no_word(error):
                    self.client.list_objects_v2(Bucket=self.name, Prefix=self.key(path), MaxKeys=1)
                raise

    def get(self, path: str, **more: Any) -> tuple[Any, bytes]:
        """An answer and the bytes of an object. It is asked for again when the connection breaks amid the bytes.

        What goes wrong before them boto3 repeats.
        """
        tries = 0
        while True:
            answer = self.client.get_object(Bucket=self.name, Key=self.key(path), **more)
            try:
                return answer, answer["Body"].read()
            except BROKEN_OFF:
                tries += 1
                if tries == _TRIES:
                    raise

    @property
    def created(self) -> dict[str, Any]:
        """Arguments of every request that makes an object."""
        return dict(self.options.created)


@lru_cache(maxsize=_CLIENTS)
def _client(options: BucketOptions, process: int) -> S3Client:
    """A client for one process: a fork must not use the connections of its parent."""
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
        found = session.client("s3", region_name=_region(options), endpoint_url=options.endpoint, config=config)
        found.meta.events.register("after-call.s3", _require_s3)
        return found
    except (BotoCoreError, ClientError, ValueError) as error:
        raise RetryError(f"Cannot open the bucket {options.shown}: because {error}") from error


def _require_s3(model: Any, http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
    """Raises NotS3Error for a good answer that no server of S3 gives: what is not said would be taken for nothing."""
    lacking = _ALWAYS_SAID.get(model.name)
    if lacking is not None and http_response.status_code < 300 and lacking not in parsed:
        raise NotS3Error(lacking=lacking)


def _region(options: BucketOptions) -> str | None:
    if options.region:
        return options.region
    return boto3.Session().region_name or "us-east-1"


def _session(options: BucketOptions) -> boto3.Session:
    """A session with the first credentials that there are, in the order in which they are to be tried."""
    for kind in options.credentials:
        if kind is Credentials.GIVEN:
            return _with_keys(options)
        if kind is Credentials.ROLE:
            return _with_role(options)
        if kind is Credentials.CHAIN and (found := boto3.Session()).get_credentials() is not None:
            return found
    if options.unknown_provider:
        raise RefusedError(
            f"Cannot open the bucket {options.shown}: because its keys come from {options.unknown_provider}, which is "
            "not supported; give them by fs.s3a.access.key and fs.s3a.secret.key, or by AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    return boto3.Session()  # its first request says that there are no keys


def _with_keys(options: BucketOptions) -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=options.access_key,
        aws_secret_access_key=options.secret_key,
        aws_session_token=options.session_token or None,
    )


def _with_role(options: BucketOptions) -> boto3.Session:
    """Keys of a role, renewed before they run out."""
    base = _with_keys(options) if options.access_key else boto3.Session()
    sts = base.client("sts", region_name=_region(options), endpoint_url=options.role_endpoint)

    def assume() -> dict[str, str]:
        found = sts.assume_role(RoleArn=options.role, RoleSessionName=options.role_session)["Credentials"]
        return {
            "access_key": found["AccessKeyId"],
            "secret_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expiry_time": found["Expiration"].isoformat(),
        }

    core = CoreSession()
    core.register_component("credential_provider", CredentialResolver([_Role(assume)]))
    return boto3.Session(botocore_session=core)


class _Role(CredentialProvider):
    """Hands boto3 the keys of a role."""

    METHOD = "assume-role"

    def __init__(self, assume: Callable[[], dict[str, str]]) -> None:
        super().__init__()
        self._assume = assume

    def load(self) -> Any:
        return DeferredRefreshableCredentials(self._assume, self.METHOD)
