"""A bucket of Google Cloud Storage as the engine sees it: listings, ranges, and files that are made of pieces."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from long_runs import amount
from servers.gcs import FAKE, GcsServer

from acidlib.errors import ConflictError, CorruptError, MissingError, RefusedError
from acidlib.stores.buckets.files import BucketDataFiles, BucketFileSystem
from acidlib.stores.gcs import bucket as composing
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.gcs.options import gcs_options

pytestmark = pytest.mark.live
MIB = 1 << 20


@pytest.fixture(scope="module", params=["gcsemulator", FAKE])
def server(gcs_server: GcsServer, request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[GcsServer]:
    """Both emulators: the second is another opinion on reads, listings and ranges."""
    if request.param != FAKE:
        yield gcs_server
        return
    fake = GcsServer(tmp_path_factory.mktemp("fake"), FAKE)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def bucket(server: GcsServer) -> GcsBucket:
    return GcsBucket(gcs_options(server.new_bucket(), server.properties(), str))


def put(server: GcsServer, bucket: GcsBucket, *keys: str) -> None:
    for key in keys:
        server.put(bucket.name, key, b"" if key.endswith("/") else key.encode())


def test_listings(server: GcsServer, bucket: GcsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    put(server, bucket, "t/a", "t/d/f", "t/d/g/h", "t/e/", "t/_tmp_x/f", "t/p=a%3Ab +ü&<>'\"/f", "tt/f")
    fs, root = BucketFileSystem(bucket), bucket.path("t")
    for size in (1000, 2) if server.judge == FAKE else (1000,):
        monkeypatch.setattr(composing, "_MAX_LISTED", size)
        assert [(entry.name, entry.is_directory, entry.length) for entry in fs.list_directory(root)] == [
            *(("_tmp_x", True, 0), ("a", False, 3), ("d", True, 0), ("e", True, 0)),
            ("p=a%3Ab +ü&<>'\"", True, 0),
        ]
        tree = [item.path for item in fs.list_tree(root, enter_hidden=False)]
        odd = "p=a%3Ab +ü&<>'\""
        assert tree == ["_tmp_x", "a", "d", "d/f", "d/g", "d/g/h", "e", odd, f"{odd}/f"]
    assert fs.entry(f"{root}/a") in fs.list_directory(root)
    assert [fs.exists(f"{root}/{name}") for name in ("a", "d", "e", "x")] == [True, True, True, False]
    assert fs.read(f"{root}/{odd}/f") == f"t/{odd}/f".encode()
    with pytest.raises(CorruptError, match="no object below it"):
        fs.list_directory(f"{root}/x")
    fs.remove_tree(root, "d")
    assert [key for key in server.objects(bucket.name) if "/d/" in key] == []
    with pytest.raises(ConflictError):
        fs.remove_tree(root, "d")
    absent = GcsBucket(gcs_options("none-such", server.properties(), str))
    with pytest.raises(MissingError, match="there is no bucket none-such at http"):
        BucketFileSystem(absent).list_directory("gs://none-such/t")
    with pytest.raises(RefusedError, match="does not lie in the bucket"):
        fs.exists("gs://other/t")


def test_reads_keep_to_one_generation(server: GcsServer, bucket: GcsBucket) -> None:
    body = random.Random(1).randbytes(5 * MIB)
    server.put(bucket.name, "t/f", body)
    source = BucketDataFiles(bucket).open(bucket.path("t/f"), len(body) - 5)
    places = random.Random(2)
    for _ in range(20):
        offset = places.randrange(len(body) - 5)
        size = min(places.choice((0, 100, 70_000, 4 * MIB)), len(body) - 5 - offset)
        assert source.read(offset, size) == body[offset : offset + size]
    server.put(bucket.name, "t/f", body[::-1])
    with pytest.raises(CorruptError, match="another object took its place"):
        source.read(0, 4 * MIB)
    server.put(bucket.name, "t/short", b"12345")
    for length, offset, says in ((7, 0, "5 bytes and was listed with 7"), (700_000, 6, "less than 7 bytes")):
        with pytest.raises(CorruptError, match=says):
            BucketDataFiles(bucket).open(bucket.path("t/short"), length).read(offset, 1)
    with pytest.raises(CorruptError, match="no such object"):
        BucketDataFiles(bucket).open(bucket.path("t/none"), 7).read(0, 2)


def test_an_object_that_is_stored_compressed_is_refused(tmp_path: Path) -> None:
    """Else its length is another than it is listed with, and rows are missing without an error."""
    fake = GcsServer(tmp_path, FAKE)
    fake.start()
    try:
        bucket = GcsBucket(gcs_options(fake.new_bucket(), fake.properties(), str))
        fake.put(bucket.name, "t/f", gzip.compress(b"1\n" * 100_000), "gzip")
        stored = bucket.look(bucket.path("t/f"))
        assert stored is not None
        for read in (
            lambda: bucket.read(bucket.path("t/f")),
            lambda: bucket.read_small(bucket.path("t/f")),
            lambda: BucketDataFiles(bucket).open(bucket.path("t/f"), stored.length).read(0, 10),
        ):
            with pytest.raises(RefusedError, match="it is stored with the content encoding gzip"):
                read()
    finally:
        fake.stop()


@pytest.mark.parametrize("seed", range(amount(2, long=12)))
def test_any_mixture_of_bytes_and_ranges(
    server: GcsServer, bucket: GcsBucket, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many more pieces than one request composes; whole objects are copied by the service."""
    monkeypatch.setattr(composing, "PIECE_BYTES", 1000)
    monkeypatch.setattr(composing, "MAX_COMPOSED", 4)
    monkeypatch.setattr(composing, "MIN_COPIED_BYTES", 2500)
    chosen = random.Random(seed)
    files = BucketDataFiles(bucket)
    path = files.output_path(bucket.path("t/_tmp_u"), "base_5", "f", "a")
    bodies = [chosen.randbytes(size) for size in (2400, 9000)]
    for number, body in enumerate(bodies):
        server.put(bucket.name, f"t/{number}", body)
    sources = [files.open(bucket.path(f"t/{number}"), len(body)) for number, body in enumerate(bodies)]
    sink, expected = files.create(path), bytearray()
    for _ in range(30):
        number = chosen.randrange(2)
        offset = chosen.choice((0, chosen.randrange(len(bodies[number]))))
        piece = bodies[number][offset : offset + chosen.choice((0, 10, 1500, 9000))]
        if chosen.random() < 0.5:
            sink.write(piece)
        else:
            sink.copy(sources[number], offset, len(piece))
        expected += piece
    sink.close()
    assert files.open(path, len(expected)).read(0, len(expected)) == expected
    upload = files.upload(path)
    assert upload is not None
    assert len(upload.parts) <= 4
    assert upload.length == len(expected)
    keys = list(server.objects(bucket.name, "t/_tmp_u/"))
    assert len(keys) == len(upload.parts), "what was composed is gone"
    assert bucket.is_open(upload)
    assert bucket.complete(upload)
    assert server.get(bucket.name, "t/base_5/f") == expected
    assert server.objects(bucket.name)["t/base_5/f"]["metadata"] == {"acidlib": "u/a"}
    bucket.abort(upload)
    assert not bucket.is_open(upload)
    assert list(server.objects(bucket.name, "t/_tmp_u/")) == []


@pytest.mark.parametrize("size", [0, 1])
def test_a_small_file_and_one_that_is_given_up(server: GcsServer, bucket: GcsBucket, size: int) -> None:
    files = BucketDataFiles(bucket)
    path = files.output_path(bucket.path("t/_tmp_u"), "base_5", "f", "a")
    for is_kept in (False, True):
        sink = files.create(path)
        sink.write(b"x" * size)
        sink.close()
        if not is_kept:
            sink.abort()
            assert server.objects(bucket.name) == {}
    upload = files.upload(path)
    assert upload is not None
    assert bucket.complete(upload)
    assert server.get(bucket.name, "t/base_5/f") == b"x" * size


def test_a_source_that_changes_before_it_is_copied(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composing, "MIN_COPIED_BYTES", 5)
    bucket = GcsBucket(gcs_options(gcs_server.new_bucket(), gcs_server.properties(), str))
    gcs_server.put(bucket.name, "t/f", b"0123456789")
    files = BucketDataFiles(bucket)
    source = files.open(bucket.path("t/f"), 10)
    source.read(0, 3)
    gcs_server.put(bucket.name, "t/f", b"9876543210")
    sink = files.create(files.output_path(bucket.path("t/_tmp_u"), "base_5", "f", "a"))
    sink.copy(source, 0, 10)
    with pytest.raises(CorruptError, match="another object took its place"):
        sink.close()
    sink.abort()
