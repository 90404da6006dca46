"""What is said when a request to Google Cloud Storage fails, and which requests are repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.stores import http
from acidlib.stores.buckets.bucket import UnderWayError
from acidlib.stores.filesystem import UnreachableServers
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.gcs.client import GcsAnswer, gcs_acid_error
from acidlib.stores.gcs.options import GcsOptions, LogInAs


def answer(status: int, message: str = "", reason: str = "") -> GcsAnswer:
    error = {"code": status, "message": message, "errors": [{"reason": reason}]}
    return GcsAnswer(status, {}, json.dumps({"error": error}).encode())


OPTIONS = GcsOptions(bucket="b", log_in=LogInAs.NOBODY, account="a@p", root="http://x/")


@pytest.mark.parametrize(
    ("given", "action", "kind", "says"),
    [
        (answer(404), "read", CorruptError, "there is no such object"),
        (answer(404), "list", MissingError, "there is no bucket b at http://x"),
        (answer(404, "The specified bucket does not exist."), "read", MissingError, "there is no bucket b at http://x"),
        (answer(412), "write", ConflictError, "another program has changed or made the object"),
        (answer(409), "write", UnderWayError, "another program has changed or made the object"),
        (answer(400, "Bad name"), "read", RefusedError, "does not take the request (Bad name)"),
        (answer(400, "Bucket is a requester pays bucket"), "read", RefusedError, "has to pay"),
        (answer(401, "Invalid Credentials"), "read", RetryError, "did not take a request without credentials (401"),
        (answer(403, "no"), "write", RetryError, "needs the right to write (storage.objects.create"),
        (answer(403, "no", "retentionPolicyNotMet"), "write", RefusedError, "the bucket has a retention policy"),
        (GcsAnswer(302, {}, b""), "read", RetryError, "sends every request elsewhere"),
        (GcsAnswer(418, {}, b"<html>"), "read", RetryError, "b at http://x answered 418"),
    ],
)
def test_each_failure_says_what_to_do_in_one_line(
    given: GcsAnswer, action: str, kind: type[AcidError], says: str
) -> None:
    found = gcs_acid_error(given, action, "gs://b/k", OPTIONS)
    assert isinstance(found, kind)
    assert str(found).startswith(f"Cannot {action} gs://b/k: ")
    assert says in str(found)
    assert "\n" not in str(found)


class Answering(BaseHTTPRequestHandler):
    """Gives answers in turn, then good ones; None hangs up."""

    answers: list[tuple[int, bytes] | None] = []  # noqa: RUF012 - of the test that runs
    asked = 0
    tokens = 0
    authorizations: list[str | None] = []  # noqa: RUF012 - of the test that runs

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """The next answer."""
        type(self).asked += 1
        self.authorizations.append(self.headers.get("Authorization"))
        found = self.answers.pop(0) if self.answers else (200, b'{"items": []}')
        if found is None:
            self.close_connection = True
            return
        self.send_response(found[0])
        self.send_header("Content-Length", str(len(found[1])))
        self.end_headers()
        self.wfile.write(found[1])

    def do_POST(self) -> None:
        """A token for whoever has signed for it."""
        type(self).tokens += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"access_token": f"token {self.tokens}", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsBucket]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(Answering, "asked", 0)
    monkeypatch.setattr(Answering, "answers", [])
    monkeypatch.setattr(Answering, "authorizations", [])
    monkeypatch.setattr(http.time, "sleep", lambda seconds: None)
    options = GcsOptions(bucket="b", log_in=LogInAs.NOBODY, root=f"http://127.0.0.1:{server.server_port}/", attempts=3)
    yield GcsBucket(options, UnreachableServers())
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answers", "asked", "says"),
    [
        ([(503, b""), (429, b"")], 3, None),
        ([None, (500, b"")], 3, None),
        ([(503, b"")] * 3, 3, "is busy (503), even after several attempts"),
        ([(500, b"")] * 3, 3, "cannot be reached, or went away (it answered 500"),
        ([(403, b"")], 1, "the right to list"),
        ([(200, b"<html>It works!</html>")], 1, "it answered as no Google Cloud Storage does"),
        ([(200, b'{"items": [{"name": "k"}]}')], 1, "an object lacks 'updated'"),
    ],
)
def test_what_may_pass_is_asked_again(
    bucket: GcsBucket, answers: list[tuple[int, bytes] | None], asked: int, says: str | None
) -> None:
    Answering.answers = list(answers)
    if says is None:
        assert next(bucket.pages("gs://b/k", "k")).objects == ()
    else:
        with pytest.raises(RetryError) as raised:
            list(bucket.pages("gs://b/k", "k"))
        assert says in str(raised.value)
    assert Answering.asked == asked


def test_a_server_that_a_run_waited_for_in_vain_gets_no_request(bucket: GcsBucket) -> None:
    far = GcsBucket(GcsOptions(bucket="b", log_in=LogInAs.NOBODY, root="http://127.0.0.1:1/"), UnreachableServers())
    for _ in range(2):
        with pytest.raises(RetryError, match=r"b at http://127.0.0.1:1 cannot be reached, or went away"):
            far.look("gs://b/k")
    assert far.client._unreachable is not None
    assert far.client._unreachable.reason("http://127.0.0.1:1/") is not None


def test_a_key_is_exchanged_for_a_token_once(bucket: GcsBucket) -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    key = {"type": "service_account", "client_email": "etl@p", "private_key": pem, "token_uri": bucket.options.root}
    options = replace(bucket.options, log_in=LogInAs.KEY_FILE, key=json.dumps(key), account="etl@p")
    for _ in range(2):
        assert next(GcsBucket(options).pages("gs://b/k", "k")).objects == ()
    assert Answering.authorizations == ["Bearer token 1"] * 2


def test_a_damaged_key_is_told_and_not_shown(bucket: GcsBucket) -> None:
    key = {"type": "service_account", "client_email": "etl@p", "private_key": "s3cret", "token_uri": "http://x"}
    options = replace(bucket.options, log_in=LogInAs.KEY_FILE, key=json.dumps(key), account="etl@p")
    with pytest.raises(RetryError, match=r"^Cannot log in to the bucket b at http") as raised:
        GcsBucket(options).look("gs://b/k")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("answers", "is_refused"),
    [
        ([(200, b'{"hierarchicalNamespace": {"enabled": true}}')], True),
        ([(404, b""), (200, b'{"hierarchicalNamespace": {"enabled": true}}')], True),
        ([(200, b'{"hierarchicalNamespace": {"enabled": false}}')], False),
        ([(404, b""), (200, b"{}")], False),
    ],
)
def test_a_bucket_with_a_hierarchical_namespace_is_refused(
    bucket: GcsBucket, answers: list[tuple[int, bytes] | None], is_refused: bool
) -> None:
    Answering.answers = answers
    (flat,) = [promise for promise in bucket.promises() if promise.name == "no hierarchical namespace"]
    assert flat.is_quick, "it is tried before the first claim"
    with pytest.raises(RefusedError, match="it has a hierarchical namespace") if is_refused else nullcontext():
        flat.trial("gs://b/t/_acidlib_probe.u/1")
