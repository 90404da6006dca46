"""What is said when a request to Google Cloud Storage fails, and which requests are repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores import repeating
from acidlib.stores.buckets.bucket import UnderWayError
from acidlib.stores.filesystem import UnreachableServers
from acidlib.stores.gcs import bucket as composing
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.gcs.client import GcsAnswer, gcs_acid_error
from acidlib.stores.gcs.options import GcsOptions, LogInAs


def answer(status: int, message: str = "", reason: str = "") -> GcsAnswer:
    error = {"code": status, "message": message, "errors": [{"reason": reason}]}
    return GcsAnswer(status, {}, json.dumps({"error": error}).encode())


ABSENT = (404, answer(404, "No such object").body)
OF_A_PROXY = (404, b"<html>Not Found</html>")


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
        (GcsAnswer(404, {}, OF_A_PROXY[1]), "read", RetryError, "b at http://x answered 404"),
        (GcsAnswer(404, {}, b'{"error": "no route"}'), "read", RetryError, "b at http://x answered 404"),
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
    headers_sent: dict[str, str] = {}  # noqa: RUF012 - of the test that runs
    lines: list[str] = []  # noqa: RUF012 - of the test that runs

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """The next answer."""
        type(self).asked += 1
        self.authorizations.append(self.headers.get("Authorization"))
        self.lines.append(self.path)
        found = self.answers.pop(0) if self.answers else (200, b'{"kind": "storage#objects", "items": []}')
        if found is None:
            self.close_connection = True
            return
        self.send_response(found[0])
        self.send_header("Content-Length", str(len(found[1])))
        for name, text in self.headers_sent.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(found[1])

    def do_DELETE(self) -> None:
        """The next answer."""
        self.do_GET()

    def do_POST(self) -> None:
        """A token for whoever has signed for it."""
        type(self).tokens += 1
        self.lines.append(self.path)
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
    monkeypatch.setattr(Answering, "headers_sent", {})
    monkeypatch.setattr(Answering, "lines", [])
    monkeypatch.setattr(Answering, "tokens", 0)
    monkeypatch.setattr(repeating.time, "sleep", lambda seconds: None)
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
        ([(200, b'{"items": []}')], 1, "with no listing"),
        ([(200, b'{"kind": "storage#objects", "items": [{"name": "k"}]}')], 1, "an object lacks 'updated'"),
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


def with_key(options: GcsOptions, server: str) -> GcsOptions:
    """The options with a key for which a server gives tokens."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    key = {"type": "service_account", "client_email": "etl@p", "private_key": pem, "token_uri": server}
    return replace(options, log_in=LogInAs.KEY_FILE, key=json.dumps(key), account="etl@p")


def test_a_key_is_exchanged_for_a_token_once(bucket: GcsBucket) -> None:
    options = with_key(bucket.options, bucket.options.root)
    for _ in range(2):
        assert next(GcsBucket(options).pages("gs://b/k", "k")).objects == ()
    assert Answering.authorizations == ["Bearer token 1"] * 2


def test_a_token_is_fetched_past_the_proxy_of_the_storage(bucket: GcsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives tokens, such as the metadata server of a machine, may be where no proxy leads, or may look."""
    monkeypatch.setenv("http_proxy", bucket.options.root)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    storage = replace(bucket.options, root="http://storage.example/")
    list(GcsBucket(with_key(storage, f"{bucket.options.root}token")).pages("gs://b/k", "k"))
    token, listing = Answering.lines
    assert token == "/token"
    assert listing.startswith("http://storage.example/"), "the storage is reached by its proxy"


@pytest.mark.parametrize("name", ["x-goog-stored-content-encoding", "content-encoding"])
def test_what_is_stored_compressed_is_refused(bucket: GcsBucket, name: str) -> None:
    """Else the service sends more bytes than it lists, and all instead of a range."""
    Answering.headers_sent = {"x-goog-generation": "1", name: "gzip"}
    with pytest.raises(RefusedError, match="it is stored with the content encoding gzip"):
        bucket.read("gs://b/k")
    with pytest.raises(RefusedError, match="it is stored with the content encoding gzip"):
        bucket.read_range("gs://b/k", 0, 10, None)
    Answering.answers = [ABOUT]
    with pytest.raises(RefusedError, match="it is stored with the content encoding gzip"):
        bucket.read_small("gs://b/k")


ABOUT = (200, b'{"name": "k", "size": "4", "updated": "2026-01-01T00:00:00Z", "generation": "1"}')


def test_no_more_is_read_than_was_asked_for(bucket: GcsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composing, "MAX_CONTROL_FILE_BYTES", 1000)
    Answering.headers_sent = {"x-goog-generation": "1"}
    body = bytes(range(250)) * 40_000
    Answering.answers = [(200, body), (200, body), ABOUT, (200, body), ABOUT, (200, b"abc"), ABOUT, (200, b"abcd")]
    assert len(bucket._bytes("gs://b/k", None).body) == 1001
    whole = bucket.read_range("gs://b/k", 100, 2000, None)
    assert whole is not None
    assert (whole.data, whole.total) == (body[100:2100], len(body))
    for _ in range(2):
        with pytest.raises(RetryError, match="did not send the 4 bytes of the object"):
            bucket.read_small("gs://b/k")
    assert bucket.read_small("gs://b/k").data == b"abcd"


def test_only_the_service_says_that_there_is_no_object(bucket: GcsBucket) -> None:
    """A proxy says "Not Found" of what it does not reach: that must not look as if a run had left nothing."""
    Answering.answers = [ABSENT, OF_A_PROXY, (404, b"No such object: b/k"), ABSENT, OF_A_PROXY, OF_A_PROXY]
    Answering.answers += [ABSENT, OF_A_PROXY]
    assert bucket.look("gs://b/k") is None
    with pytest.raises(RetryError, match="answered 404"):
        bucket.look("gs://b/k")
    with pytest.raises(CorruptError, match="there is no such object"):
        bucket.read("gs://b/k")
    with pytest.raises(RetryError, match="answered 404"):
        bucket.read("gs://b/k")
    bucket.remove("gs://b", {"k": ""})
    with pytest.raises(RetryError, match="the store kept 1 of 1 object"):
        bucket.remove("gs://b", {"k": ""})
    assert not Answering.answers


def test_an_upload_of_more_pieces_than_one_request_composes_costs_none(bucket: GcsBucket) -> None:
    parts = tuple(Part(number=number, version="1", size=1) for number in range(33))
    upload = StagedUpload(key="t/base_5/f", origin="u/a", upload_id="t/_tmp_u/f", parts=parts)
    for use in (bucket.abort, bucket.complete, bucket.is_open):
        with pytest.raises(CorruptError, match="33 pieces, and one request composes 32"):
            use(upload)
    assert Answering.asked == 0


def test_a_damaged_key_is_told_and_not_shown(bucket: GcsBucket) -> None:
    key = {"type": "service_account", "client_email": "etl@p", "private_key": "s3cret", "token_uri": "http://x"}
    options = replace(bucket.options, log_in=LogInAs.KEY_FILE, key=json.dumps(key), account="etl@p")
    with pytest.raises(RetryError, match=r"^Cannot log in to the bucket b at http") as raised:
        GcsBucket(options).look("gs://b/k")
    assert "s3cret" not in str(raised.value)


def test_without_credentials_the_setting_is_named(
    bucket: GcsBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    with pytest.raises(RetryError, match=r"were not found.*[a-z]; fs\.gs\.auth\.type names another source$"):
        GcsBucket(replace(bucket.options, log_in=LogInAs.DEFAULT)).look("gs://b/k")


@pytest.mark.parametrize(
    ("answers", "is_refused"),
    [
        ([(200, b'{"hierarchicalNamespace": {"enabled": true}}')], True),
        ([ABSENT, (200, b'{"hierarchicalNamespace": {"enabled": true}}')], True),
        ([(200, b'{"hierarchicalNamespace": {"enabled": false}}')], False),
        ([ABSENT, (200, b"{}")], False),
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
