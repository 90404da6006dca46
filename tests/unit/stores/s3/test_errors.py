"""What boto3 raises, as errors of one line."""

from __future__ import annotations

import socket

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError, NoCredentialsError

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RetryError
from acidlib.stores.s3.client import Bucket, UnderWayError, as_acid_error, bucket_options, read_object


def answered(code: str, status: int, **more: str) -> ClientError:
    error = {"Code": code, "Message": f"what {code} means\nand more", **more}
    return ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetObject")  # type: ignore[typeddict-item]


def too_deep() -> HTTPClientError:
    """As botocore raises it where the recursion is noticed below it."""
    try:
        try:
            raise RecursionError("maximum recursion depth exceeded")
        except RecursionError as deep:
            raise HTTPClientError(error=deep)  # noqa: B904 # botocore names no cause
    except HTTPClientError as error:
        return error


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (answered("NoSuchKey", 404), CorruptError, "no such object"),
        (answered("404", 404), CorruptError, "no such object"),
        (answered("NoSuchBucket", 404), MissingError, "no bucket b at http://x"),
        (answered("PreconditionFailed", 412), ConflictError, "somebody else"),
        (answered("ConditionalRequestConflict", 409), UnderWayError, "somebody else"),
        (answered("InvalidAccessKeyId", 403), RetryError, "keys for b at http://x are wrong"),
        (answered("SignatureDoesNotMatch", 403), RetryError, "keys for b at http://x are wrong"),
        (answered("ExpiredToken", 400), RetryError, "token for b at http://x has expired"),
        (answered("RequestTimeTooSkewed", 403), RetryError, "clock of this machine"),
        (
            answered("AccessDenied", 403),
            RetryError,
            "missing: the access key K needs the right to read (s3:GetObject); b at http://x answered AccessDenied (",
        ),
        (answered("SlowDown", 503), RetryError, "busy"),
        (answered("InvalidObjectState", 403), RetryError, "archived"),
        (answered("PermanentRedirect", 301, Region="eu-west-3"), RetryError, "region eu-west-3"),
        (answered("Odd", 418), RetryError, "418 Odd"),
        (NoCredentialsError(), RetryError, "no keys for b at http://x are found"),
        (EndpointConnectionError(endpoint_url="http://x"), RetryError, "cannot be reached"),
        (RecursionError("maximum recursion depth exceeded"), RetryError, "sends every request elsewhere"),
        (too_deep(), RetryError, "sends every request elsewhere"),
        (TimeoutError("slow"), RetryError, "cannot be reached"),
    ],
)
def test_each_failure_says_what_to_do_in_one_line(error: Exception, kind: type[AcidError], says: str) -> None:
    found = as_acid_error(error, "read", "s3a://b/k", where="b at http://x", who="the access key K")
    assert isinstance(found, kind)
    assert str(found).removeprefix("Cannot read s3a://b/k: ").startswith(("because ", "the permission is missing: "))
    assert says in str(found)
    assert "\n" not in str(found)


def test_an_object_that_is_not_there_is_what_the_caller_says() -> None:
    assert isinstance(
        as_acid_error(answered("NoSuchKey", 404), "read", "p", where="b", who="", missing=ConflictError), ConflictError
    )


def test_a_server_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        properties = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{held.getsockname()[1]}",
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.attempts.maximum": "1",
        }
        with pytest.raises(RetryError, match="cannot be reached"):
            read_object(Bucket(bucket_options("b", properties)), "s3a://b/k")
