"""How a bucket is reached, what it says when a request fails, and how often a condition is asked for."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError, NoCredentialsError

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.stores.buckets import bucket as conditional
from acidlib.stores.buckets.bucket import ChangedError, SmallObject, UnderWayError, UploadGoneError, create_object
from acidlib.stores.filesystem import UnreachableServers
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.s3.client import (
    Credentials,
    S3Options,
    s3_acid_error,
    s3_options,
    with_stored_keys,
)

KEYS = {"fs.s3a.access.key": "public", "fs.s3a.secret.key": "hidden"}


def options(**properties: str) -> S3Options:
    return s3_options("b", {name.replace("__", "-").replace("_", "."): text for name, text in properties.items()})


def test_a_property_of_the_bucket_wins() -> None:
    found = s3_options("b", KEYS | {"fs.s3a.bucket.b.access.key": "own", "fs.s3a.bucket.c.access.key": "another's"})
    assert (found.access_key, found.secret_key) == ("own", "hidden")


@pytest.mark.parametrize(
    ("endpoint", "ssl", "shown", "region"),
    [
        ("", "", None, None),
        ("s3.eu-central-1.amazonaws.com", "", "https://s3.eu-central-1.amazonaws.com", "eu-central-1"),
        ("minio:9000/", "false", "http://minio:9000", "us-east-1"),
        *(
            (host, "", f"https://{host}", region)
            for host, region in (
                ("s3-us-west-2.amazonaws.com", "us-west-2"),
                ("s3.dualstack.eu-west-3.amazonaws.com", "eu-west-3"),
                ("s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
                ("s3-fips.dualstack.us-west-2.amazonaws.com", "us-west-2"),
                ("s3.cn-north-1.amazonaws.com.cn:443", "cn-north-1"),
                ("bucket.vpce-1a2b-3c4d.s3.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
                ("bucket.vpce-1a2b-3c4d-us-east-1a.s3.us-east-1.vpce.amazonaws.com", "us-east-1"),
                ("s3.amazonaws.com", None),
                ("s3-accelerate.amazonaws.com", None),
            )
        ),
        ("http://minio:9000", "true", "http://minio:9000", "us-east-1"),
    ],
)
def test_the_endpoint_has_a_scheme_and_a_region(endpoint: str, ssl: str, shown: str | None, region: str | None) -> None:
    found = options(fs_s3a_endpoint=endpoint, fs_s3a_connection_ssl_enabled=ssl)
    assert (found.endpoint, found.region) == (shown, region)


@pytest.mark.parametrize(
    ("providers", "has_keys", "tried", "unknown"),
    [
        ("", True, (Credentials.GIVEN,), ""),
        ("", False, (Credentials.CHAIN,), ""),
        ("org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider", True, (Credentials.GIVEN,), ""),
        (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
            False,
            (Credentials.CHAIN,),
            "",
        ),
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", False, (Credentials.NONE,), ""),
        ("com.example.Vault", False, (), "com.example.Vault"),
    ],
)
def test_where_keys_come_from(providers: str, has_keys: bool, tried: tuple[Credentials, ...], unknown: str) -> None:
    found = s3_options("b", {"fs.s3a.aws.credentials.provider": providers} | (KEYS if has_keys else {}))
    assert (found.credentials, found.unknown_provider) == (tried, unknown)


def test_a_role_is_assumed_with_its_arn_only() -> None:
    provider = {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"}
    found = s3_options("b", provider | {"fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/r"})
    assert (found.credentials, found.role) == ((Credentials.ROLE,), "arn:aws:iam::1:role/r")
    with pytest.raises(RefusedError, match=r"fs\.s3a\.assumed\.role\.arn names none"):
        s3_options("b", provider)


def test_keys_in_credential_providers_win_and_those_of_the_bucket_before_all() -> None:
    kept = {
        ("jceks://b", "fs.s3a.bucket.b.secret.key"): "of b",
        ("jceks://b", "fs.s3a.access.key"): "kept",
        ("jceks://b", "fs.s3a.endpoint"): "no secret",
    }

    def stored(names: Sequence[str], providers: str) -> dict[str, str]:
        assert providers == "jceks://b,jceks://hdfs"
        first = providers.partition(",")[0]
        return {name: kept[first, name] for name in names if (first, name) in kept}

    paths = {
        "hadoop.security.credential.provider.path": "jceks://hdfs",
        "fs.s3a.security.credential.provider.path": "jceks://all",
        "fs.s3a.bucket.b.security.credential.provider.path": "jceks://b",
    }
    found = s3_options("b", with_stored_keys("b", KEYS | paths, stored))
    assert (found.access_key, found.secret_key, found.endpoint) == ("kept", "of b", None)
    assert found.credentials == (Credentials.GIVEN,)
    # nobody is asked where there are no providers
    assert with_stored_keys("b", KEYS, stored) == KEYS


def test_what_objects_are_made_with() -> None:
    found = options(
        fs_s3a_encryption_algorithm="SSE-KMS",
        fs_s3a_encryption_key="k",
        fs_s3a_create_storage_class="intelligent_tiering",
        fs_s3a_acl_default="BucketOwnerFullControl",
    )
    assert dict(found.creation) == {
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "k",
        "StorageClass": "INTELLIGENT_TIERING",
        "ACL": "bucket-owner-full-control",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fs.s3a.encryption.algorithm", "SSE-C"),
        ("fs.s3a.server-side-encryption-algorithm", "CSE-KMS"),
        ("fs.s3a.requester.pays.enabled", "true"),
        ("fs.s3a.bucket.b.accesspoint.arn", "arn:aws:s3:x"),
        ("fs.s3a.proxy.host", "proxy"),
        ("fs.s3a.path.style.access", "yes"),
        ("fs.s3a.attempts.maximum", "many"),
        ("fs.s3a.connection.timeout", "5 fortnights"),
        ("fs.s3a.access.key", "without its secret"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        s3_options("b", {name: text})
    assert name in str(refused.value) or "secret.key" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 60.0), ("5000", 5.0), ("200s", 200.0), ("250 ms", 0.25), ("2m", 120.0), ("0", 60.0)]
)
def test_how_long_an_answer_is_waited_for(text: str, seconds: float) -> None:
    assert options(fs_s3a_connection_timeout=text).answer_seconds == seconds


def test_a_directory_bucket_is_refused() -> None:
    with pytest.raises(RefusedError, match="directory bucket"):
        s3_options("x--use1-az4--x-s3", {})


def test_options_travel_and_show_no_secret() -> None:
    found = s3_options("b", KEYS | {"fs.s3a.session.token": "hidden too"})
    assert "hidden" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


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
        (answered("NoSuchUpload", 404), UploadGoneError, "its upload is gone: another program has aborted it"),
        (answered("NoSuchBucket", 404), MissingError, "no bucket b at http://x"),
        (answered("PreconditionFailed", 412), ConflictError, "another program has changed or made the object"),
        (answered("ConditionalRequestConflict", 409), UnderWayError, "another program has changed or made the object"),
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
    found = s3_acid_error(error, "read", "s3a://b/k", where="b at http://x", user="the access key K")
    assert isinstance(found, kind)
    assert str(found).startswith("Cannot read s3a://b/k: ")
    assert says in str(found)
    assert "\n" not in str(found)


MANY = 9


@pytest.mark.parametrize(
    ("refused", "there", "asked", "ends"),
    [
        ([ChangedError], None, 1, ChangedError),
        ([ChangedError], b"another", 1, ChangedError),
        ([ChangedError], b"ours", 1, None),
        ([UnderWayError] * 2, None, 3, None),
        ([UnderWayError, ChangedError], b"another", 2, ChangedError),
        ([UnderWayError] * MANY, None, 4, UnderWayError),
    ],
)
def test_only_an_answer_that_says_nothing_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
    refused: list[type[ConflictError]],
    there: bytes | None,
    asked: int,
    ends: type[ConflictError] | None,
) -> None:
    requests = []
    found = None if there is None else SmallObject(data=there, version="v", modified=0, now=0, origin="")

    class Client:
        @staticmethod
        def put_object(**arguments: object) -> dict[str, str]:
            requests.append(arguments)
            if len(requests) <= len(refused):
                raise refused[len(requests) - 1]("no")
            return {"ETag": "v"}

    monkeypatch.setattr(S3Bucket, "client", Client)
    monkeypatch.setattr(conditional, "read_object", lambda bucket, path: found)
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    bucket = S3Bucket(s3_options("b", {}))
    if ends is None:
        assert create_object(bucket, "s3a://b/c", b"ours") == "v"
    else:
        with pytest.raises(ConflictError) as raised:
            create_object(bucket, "s3a://b/c", b"ours")
        assert raised.type is ends
    assert len(requests) == asked
    assert pauses == [0.1, 0.2, 0.4][: asked - 1], "the other request is given time to end"


def test_a_server_that_a_run_waited_for_in_vain_gets_no_request() -> None:
    unreachable = UnreachableServers(lambda: 0.0)
    bucket = S3Bucket(options(fs_s3a_endpoint="http://minio:9000"), unreachable)
    unreachable.note("http://minio:9000", "no connection in time")
    expected = "Cannot read s3a://b/x: b at http://minio:9000 cannot be reached, or went away (no connection in time)"
    with pytest.raises(RetryError, match=f"^{re.escape(expected)}$"), bucket.raising("read", "s3a://b/x"):
        pytest.fail("a request was sent")
