"""What boto3 raises, as errors of one line that say what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
from urllib3.exceptions import HTTPError

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.storage.filesystem import permission_missing

_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchUpload", "NoSuchVersion"})
_CHANGED = frozenset({"412", "PreconditionFailed"})
_UNDER_WAY = frozenset({"409", "ConditionalRequestConflict", "OperationAborted"})
_KEYS = frozenset(
    {
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity", "InvalidClientTokenId"),
        "XAdminUserNotFound",  # what versitygw says of an access key that it does not know
    }
)
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
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
"""What a request takes, by its name in S3."""
_BUSY = frozenset({"SlowDown", "503", "ServiceUnavailable", "Throttling", "RequestLimitExceeded", "TooManyRequests"})
_ELSEWHERE = frozenset({"301", "307", "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"})
_FULL = frozenset({"507", "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"})


BROKEN_OFF = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError, HTTPError, OSError)
"""What reading the bytes of an answer raises that has begun to come."""


class NotS3Error(BotoCoreError):
    """The answer lacks what every server of S3 says: another kind of server, or something in between, gave it."""

    fmt = "it did not answer as a server of S3 does: {lacking} is not in the answer"


class NotAskedError(BotoCoreError):
    """The server was waited for in vain a moment ago; `reason` is what came of that."""

    fmt = "{reason}"


class ChangedError(ConflictError):
    """A condition of a request did not hold: the object has changed, or is there already."""


class UnderWayError(ChangedError):
    """Another request for the object was carried out at the same time: whether the condition holds was not said."""


def code_of(error: ClientError) -> str:
    """The server's word for what went wrong, or the status where the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """The HTTP status."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def has_no_word(error: ClientError) -> bool:
    """Whether the server did not say what went wrong, as it cannot in the answer to a HEAD; 404 says enough."""
    return code_of(error).isdecimal() and code_of(error) != "404"


def is_missing(error: ClientError) -> bool:
    """Whether the object or upload is not there; a bucket that is not there is another matter."""
    return code_of(error) in _MISSING


def as_acid_error(
    error: Exception, action: str, path: str, *, where: str, who: str, missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("read", "list") on `path`.

    `where` names bucket and endpoint, `who` those who ask.

    What a condition stopped is `ChangedError`, what is not there `missing`, a bucket that is not there MissingError.
    Keys, rights, clocks, networks and busy servers may be put right: RetryError.
    """
    start = f"Cannot {action} {path}: because"
    if not isinstance(error, ClientError):
        return _without_answer(error, start, where)
    code = code_of(error)
    message = str(error.response.get("Error", {}).get("Message", "")).splitlines()
    said = f"{code or status_of(error)} ({message[0]})" if message and message[0] else code or "without a reason"
    if code in _MISSING:
        return missing(f"{start} there is no such object")
    if code == "NoSuchBucket":
        return MissingError(f"{start} there is no bucket {where}")
    if code in _CHANGED or code in _UNDER_WAY:
        kind = ChangedError if code in _CHANGED else UnderWayError
        return kind(f"{start} the object has been changed, or made, by somebody else")
    if code in _KEYS:
        return RetryError(f"{start} the keys for {where} are wrong ({code})")
    if code in _EXPIRED:
        return RetryError(f"{start} the session token for {where} has expired")
    if code == "RequestTimeTooSkewed":
        return RetryError(f"{start} the clock of this machine differs too much from that of {where}")
    if code == "InvalidObjectState":
        return RetryError(f"{start} the object is archived and has to be restored first")
    if code in _DENIED:
        right = _RIGHTS.get(error.operation_name, error.operation_name)
        return permission_missing(f"Cannot {action} {path}", f"{who} needs {right}; {where} answered {said}")
    if code in _BUSY:
        return RetryError(f"{start} {where} is busy ({said}), even after several attempts")
    if code in _ELSEWHERE:
        region = error.response.get("Error", {}).get("Region") or error.response.get("ResponseMetadata", {}).get(
            "HTTPHeaders", {}
        ).get("x-amz-bucket-region", "another one")
        return RetryError(f"{start} the bucket is not there but in the region {region}: set fs.s3a.endpoint.region")
    if code in _FULL:
        return RetryError(f"{start} no space is left at {where}, or the quota is used up")
    if code in ("KeyTooLongError", "InvalidBucketName"):
        return RefusedError(f"{start} the store does not take that name ({code})")
    return RetryError(f"{start} {where} answered {said if code.isdecimal() else f'{status_of(error)} {said}'}")


def _is_endless(error: BaseException | None) -> bool:
    """boto3 follows redirections without an end, until it, or what it is connected by, is too deep in itself."""
    while error is not None and not isinstance(error, RecursionError):
        error = error.__context__
    return error is not None


def _without_answer(error: Exception, start: str, where: str) -> AcidError:
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return RetryError(
            f"{start} no keys for {where} are found: neither fs.s3a.access.key nor anything that boto3 looks at"
        )
    if _is_endless(error):
        return RetryError(
            f"{start} {where} sends every request elsewhere: look at fs.s3a.endpoint and fs.s3a.connection.ssl.enabled"
        )
    if isinstance(error, NotS3Error | ResponseParserError):
        return RetryError(
            f"{start} what answers for {where} is no server of S3, or stands before one ({_first_line(error)})"
        )
    if isinstance(error, ParamValidationError):
        said = str(error).splitlines()[-1].partition(": Bucket name must match")[0]
        return RefusedError(f"{start} the store does not take that name ({said})")
    if isinstance(error, IncompleteReadError | ResponseStreamingError):
        return RetryError(f"{start} answers of {where} broke off several times")
    if isinstance(error, BotoConnectionError | HTTPClientError | HTTPError | OSError):
        said = why_unanswered(error, is_short=True) or _first_line(error)
        return RetryError(f"{start} {where} cannot be reached, or went away ({said})")
    if isinstance(error, NotAskedError):
        return RetryError(f"{start} {where} cannot be reached, or went away ({error})")
    return RetryError(f"{start} of {_first_line(error)}")


def why_unanswered(error: Exception, *, is_short: bool) -> str | None:
    """Why there was no answer, where the server seems to be away; None where it was something else.

    is_short  what was asked for takes a server no time, so that it is away when it does not answer
    """
    if isinstance(error, EndpointConnectionError | ProxyConnectionError):
        return "no connection"
    if isinstance(error, ConnectTimeoutError):
        return "no connection in time"
    return "no answer in time" if is_short and isinstance(error, ReadTimeoutError) else None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


@contextmanager
def raising_acid_errors(
    action: str, path: str, *, where: str, who: str, missing: type[AcidError] = CorruptError
) -> Iterator[None]:
    """Runs its body; what boto3 raises in it is raised as the error that `as_acid_error` names."""
    try:
        yield
    except (ClientError, BotoCoreError, HTTPError, OSError, RecursionError) as error:
        raise as_acid_error(error, action, path, where=where, who=who, missing=missing) from error
