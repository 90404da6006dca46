"""A bucket as the engine sees it: what is read, removed, and written without being seen."""

from __future__ import annotations

import os
import pickle
import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from long_runs import amount
from servers.s3 import S3Server
from servers.s3_proxy import Relay

from acidlib.errors import ConflictError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.location import parse_location
from acidlib.model.uploads import StagedUpload
from acidlib.stores.buckets import files as reading
from acidlib.stores.buckets.bucket import ChangedError, create_object, read_object, replace_object
from acidlib.stores.buckets.files import BucketDataFiles, BucketFileSystem
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.listing import list_location
from acidlib.stores.s3 import bucket as uploading
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.s3.client import s3_options

pytestmark = pytest.mark.live
MIB = 1 << 20


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> S3Bucket:
    """A bucket of this file's own."""
    name = s3_server.new_bucket()
    return S3Bucket(s3_options(name, s3_server.properties()))


@pytest.fixture
def root(bucket: S3Bucket, request: pytest.FixtureRequest) -> str:
    """A location that no other test uses."""
    return bucket.path(f"w/{request.node.name.replace('[', '-').replace(']', '')}")


@pytest.fixture
def relay(s3_server: S3Server) -> Iterator[Relay]:
    """A way to the server that counts."""
    with Relay(s3_server.port) as made:
        yield made


def put(bucket: S3Bucket, root: str, *paths: str) -> None:
    for path in paths:
        body = b"" if path.endswith("/") or not path else path.encode()
        bucket.client.put_object(Bucket=bucket.name, Key=f"{bucket.key(root)}/{path}", Body=body)


def keys(bucket: S3Bucket, root: str) -> list[str]:
    prefix = bucket.key(root) + "/"
    found = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=prefix).get("Contents", [])
    return [item["Key"].removeprefix(prefix) for item in found]


# --- the file system ----------------------------------------------------------------------------------------------


def test_a_tree_names_hidden_directories_and_does_not_enter_them(bucket: S3Bucket, root: str) -> None:
    put(bucket, root, "base_1/bucket_0", "base_1/_orc_acid_version", "_tmp_x/base_2/f", "_claim", "d/.h/f", "empty/")
    fs: FileSystem = BucketFileSystem(bucket)
    assert [(item.path, item.is_directory) for item in fs.list_tree(root, enter_hidden=False)] == [
        ("_claim", False),
        ("_tmp_x", True),
        ("base_1", True),
        ("base_1/_orc_acid_version", False),
        ("base_1/bucket_0", False),
        ("d", True),
        ("d/.h", True),
        ("empty", True),
    ]
    assert "_tmp_x/base_2/f" in [item.path for item in fs.list_tree(root, enter_hidden=True)]


def test_one_directory_is_what_lies_right_below_it(bucket: S3Bucket, root: str) -> None:
    put(bucket, root, "", "a", "d/f", "d/g/h", "e/")  # the first is what S3A makes for the directory itself
    fs = BucketFileSystem(bucket)
    assert [(entry.name, entry.is_directory, entry.length) for entry in fs.list_directory(root)] == [
        ("a", False, 1),
        ("d", True, 0),
        ("e", True, 0),
    ]
    assert fs.list_directory(f"{root}/e") == ()
    with pytest.raises(CorruptError, match="no object"):
        fs.list_directory(f"{root}/none")
    with pytest.raises(ConflictError):
        fs.list_tree(f"{root}/none", enter_hidden=True, missing=ConflictError)


def test_what_a_path_is(bucket: S3Bucket, root: str) -> None:
    put(bucket, root, "d/f", "dd", "m/")
    fs = BucketFileSystem(bucket)
    assert [fs.exists(f"{root}/{name}") for name in ("d", "d/f", "dd", "m", "x", "d/")] == [
        True,
        True,
        True,
        True,
        False,
        True,
    ]
    assert [fs.is_directory(f"{root}/{name}") for name in ("d", "d/f", "dd", "m", "x")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    file = fs.entry(f"{root}/d/f")
    assert (file.name, file.length, file.is_directory, file.is_symlink) == ("f", 3, False, False)
    assert file in fs.list_directory(f"{root}/d")
    assert fs.entry(f"{root}/d").is_directory
    with pytest.raises(MissingError):
        fs.entry(f"{root}/x", missing=MissingError)
    assert fs.owner(root) is None
    assert fs.read(f"{root}/d/f") == b"d/f"
    with pytest.raises(ConflictError):
        fs.read(f"{root}/x", missing=ConflictError)


def test_names_are_taken_literally(bucket: S3Bucket, root: str) -> None:
    odd = "p=a%3Ab +ü&<>'\"\n?#/bucket_00000"
    put(bucket, root, odd)
    fs = BucketFileSystem(bucket)
    assert [item.path for item in fs.list_tree(root, enter_hidden=False)] == [odd.partition("/")[0], odd]
    assert fs.read(f"{root}/{odd}") == odd.encode()
    fs.remove_tree(root, odd)
    assert not fs.exists(root)


def test_schemes_of_s3_are_one_store_and_other_buckets_are_not(bucket: S3Bucket, root: str) -> None:
    put(bucket, root, "f")
    for scheme in ("s3", "s3n", "s3a"):
        assert BucketFileSystem(bucket).read(root.replace("s3a", scheme) + "/f") == b"f"
    for other in ("s3a://other/f", "hdfs://b/f", "/f"):
        with pytest.raises(RefusedError, match="does not lie in the bucket"):
            BucketFileSystem(bucket).exists(other)


def test_more_than_one_page(bucket: S3Bucket, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bucket, root, *(f"d{number % 3}/f{number}" for number in range(12)), "d1/x/y")
    fs = BucketFileSystem(bucket)
    whole = fs.list_tree(root, enter_hidden=False), fs.list_directory(root)
    listed = bucket.client.list_objects_v2
    monkeypatch.setattr(bucket.client, "list_objects_v2", lambda **given: listed(**{"MaxKeys": 4} | given))
    assert (fs.list_tree(root, enter_hidden=False), fs.list_directory(root)) == whole
    assert len(whole[0]) == 17


def test_a_place_is_listed_by_one_request(bucket: S3Bucket, root: str, s3_server: S3Server, relay: Relay) -> None:
    put(bucket, root, "delta_0000001_0000001_0000/bucket_00000")
    fs = BucketFileSystem(S3Bucket(s3_options(bucket.name, s3_server.properties(relay.endpoint))))
    relay.reset()
    assert len(list_location(fs, parse_location(root)).files) == 1
    assert relay.requests == {"GET": 1}


def test_what_is_removed_is_that_name_and_what_lies_below(bucket: S3Bucket, root: str) -> None:
    put(bucket, root, "a/f", "a/b/g", "a/", "ab/f", "f", "f-2")
    fs = BucketFileSystem(bucket)
    fs.remove_tree(root, "a")
    assert keys(bucket, root) == ["ab/f", "f", "f-2"]
    fs.remove_tree(root, "f")
    assert keys(bucket, root) == ["ab/f", "f-2"]
    with pytest.raises(ConflictError):
        fs.remove_tree(root, "f")
    for outside in ("../x", "", ".", "a//b", "/a"):
        with pytest.raises(RefusedError):
            fs.remove_tree(root, outside)


def test_what_a_store_would_not_remove_is_told(bucket: S3Bucket, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bucket, root, "a", "b", "c")
    answers = iter([{}, {"Errors": [{"Key": "w/c", "Code": "AccessDenied", "Message": "locked"}]}])
    monkeypatch.setattr(bucket.client, "delete_objects", lambda **given: next(answers))
    monkeypatch.setattr("acidlib.stores.s3.bucket._REMOVED_AT_ONCE", 2)
    with pytest.raises(RetryError, match=r"kept 1 of 3 objects, first w/c \(AccessDenied: locked\)"):
        bucket.remove(root, dict.fromkeys(("w/a", "w/b", "w/c"), ""))


def test_a_bucket_that_is_not_there_and_keys_that_are_wrong(s3_server: S3Server) -> None:
    absent = S3Bucket(s3_options("none-such", s3_server.properties()))
    with pytest.raises(MissingError, match="there is no bucket none-such at http"):
        BucketFileSystem(absent).list_directory("s3a://none-such/t")
    wrong = S3Bucket(s3_options("none-such", s3_server.properties() | {"fs.s3a.secret.key": "wrong"}))
    with pytest.raises(RetryError, match=r"keys for none-such at http.* are wrong"):
        BucketFileSystem(wrong).list_directory("s3a://none-such/t")


# --- small objects under a condition --------------------------------------------------------------------------------


def test_small_objects_change_hands_under_conditions(bucket: S3Bucket, root: str) -> None:
    path = f"{root}/c"
    first = create_object(bucket, path, b"1")
    with pytest.raises(ChangedError):
        create_object(bucket, path, b"2")
    second = replace_object(bucket, path, first, b"3")
    with pytest.raises(ChangedError):
        replace_object(bucket, path, first, b"4")
    found = read_object(bucket, path)
    assert found is not None
    assert (found.data, found.version) == (b"3", second)
    assert -2 <= found.now - found.modified < 60
    bucket.client.delete_object(Bucket=bucket.name, Key=bucket.key(path))
    with pytest.raises(ChangedError):
        replace_object(bucket, path, second, b"5")
    assert read_object(bucket, path) is None


def test_an_answer_that_is_lost_is_found_out(s3_server: S3Server, bucket: S3Bucket, root: str, relay: Relay) -> None:
    far = S3Bucket(s3_options(bucket.name, s3_server.properties(relay.endpoint)))
    relay.lose = re.compile("PUT .*/c")
    version = create_object(far, f"{root}/c", b"1")
    relay.lose = re.compile("PUT .*/c")
    replace_object(far, f"{root}/c", version, b"2")
    assert relay.lost == 2
    found = read_object(bucket, f"{root}/c")
    assert found is not None
    assert found.data == b"2"


# --- data -----------------------------------------------------------------------------------------------------------


def blob(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def stored(bucket: S3Bucket, path: str, body: bytes) -> str:
    bucket.client.put_object(Bucket=bucket.name, Key=bucket.key(path), Body=body)
    return path


def complete(bucket: S3Bucket, attempt: StagedUpload) -> bytes:
    """What the driver would make of an attempt that came to it."""
    attempt = msgspec.convert(msgspec.to_builtins(attempt), StagedUpload)
    parts: Any = [part.as_completed() for part in attempt.parts]
    bucket.client.complete_multipart_upload(
        Bucket=bucket.name, Key=attempt.key, UploadId=attempt.upload_id, MultipartUpload={"Parts": parts}
    )
    return bucket.client.get_object(Bucket=bucket.name, Key=attempt.key)["Body"].read()


def test_a_source_is_read_anywhere_and_keeps_to_one_version(bucket: S3Bucket, root: str) -> None:
    body = blob(9 * MIB, 1)
    path = stored(bucket, f"{root}/f", body)
    source = BucketDataFiles(bucket).open(path, len(body) - 5)
    places = random.Random(2)
    for _ in range(60):
        offset = places.choice((places.randrange(len(body) - 5), len(body) - 300, 0))
        size = min(places.choice((0, 1, 100, 70_000, 5 * MIB)), len(body) - 5 - offset)
        assert source.read(offset, size) == body[offset : offset + size]
    for offset, size in ((len(body) - 5, 1), (-1, 2), (0, len(body))):
        with pytest.raises(CorruptError, match="outside it"):
            source.read(offset, size)
    stored(bucket, path, blob(9 * MIB, 3))
    with pytest.raises(CorruptError, match="another object took its place"):
        source.read(5 * MIB, 4 * MIB - 5)
    source.close()


def test_a_source_that_is_missing_or_shorter(bucket: S3Bucket, root: str) -> None:
    path = stored(bucket, f"{root}/f", b"12345")
    with pytest.raises(CorruptError, match="5 bytes and was listed with 7"):
        BucketDataFiles(bucket).open(path, 7).read(0, 2)
    with pytest.raises(CorruptError, match="less than 7 bytes"):
        BucketDataFiles(bucket).open(path, 700_000).read(6, 2)
    with pytest.raises(CorruptError, match="no such object"):
        BucketDataFiles(bucket).open(f"{root}/g", 7).read(0, 2)


def test_small_reads_cost_few_requests(s3_server: S3Server, bucket: S3Bucket, root: str, relay: Relay) -> None:
    body = blob(10 * MIB, 1)
    path = stored(bucket, f"{root}/f", body)
    files = BucketDataFiles(S3Bucket(s3_options(bucket.name, s3_server.properties(relay.endpoint))))
    source = files.open(path, len(body))
    relay.reset()
    for size in (16_384, 30_000, 200_000):
        source.read(len(body) - size, size)
    assert relay.requests == {"GET": 1}
    relay.reset()
    for offset in range(0, 5 * MIB, 10_000):
        assert source.read(offset, 10_000) == body[offset : offset + 10_000]
    assert relay.requests["GET"] <= 8


def test_what_many_sources_keep_is_bounded(bucket: S3Bucket, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_KEPT_BYTES", 300_000)
    files, body = BucketDataFiles(bucket), blob(200_000, 1)
    sources = [files.open(stored(bucket, f"{root}/{number}", body), len(body)) for number in range(3)]
    for source in sources * 2:
        assert source.read(100, 10) == body[100:110]
    assert files._windows.currsize <= 300_000


def test_a_file_is_seen_by_nobody_until_it_is_completed(bucket: S3Bucket, root: str) -> None:
    files = BucketDataFiles(bucket)
    path = files.output_path(f"{root}/_tmp_u", "base_5", "bucket_00000", "a1")
    sink = files.create(path)
    body = blob(20 * MIB, 4)
    for start in range(0, len(body), 3 * MIB):
        sink.write(body[start : start + 3 * MIB])
    sink.close()
    assert sink.position == len(body)
    assert [name for name in keys(bucket, root) if not name.startswith("_tmp_u/_acidlib_staging.upload.")] == []
    assert files.open(path, len(body)).read(7 * MIB, 9 * MIB) == body[7 * MIB : 16 * MIB]
    attempt = files.upload(path)
    assert (attempt.directory, attempt.file, attempt.length, attempt.origin) == (
        "base_5",
        "bucket_00000",
        len(body),
        "u/a1",
    )
    assert complete(bucket, attempt) == body
    assert bucket.client.head_object(Bucket=bucket.name, Key=attempt.key)["Metadata"] == {"acidlib": "u/a1"}


@pytest.mark.parametrize("size", [0, 1])
def test_a_small_file(bucket: S3Bucket, root: str, size: int) -> None:
    files = BucketDataFiles(bucket)
    path = files.output_path(f"{root}/_tmp_u", "base_5", "f", "a")
    sink = files.create(path)
    sink.write(b"x" * size)
    sink.close()
    assert complete(bucket, files.upload(path)) == b"x" * size


def test_an_attempt_that_is_given_up_leaves_nothing(bucket: S3Bucket, root: str) -> None:
    files = BucketDataFiles(bucket)
    path = files.output_path(f"{root}/_tmp_u", "base_5", "f", "a")
    for closed in (False, True):
        sink = files.create(path)
        sink.write(blob(9 * MIB, 5))
        if closed:
            sink.close()
            attempt = files.upload(path)
        sink.abort()
        sink.abort()
    with pytest.raises(Exception, match="NoSuchUpload"):
        complete(bucket, attempt)
    assert keys(bucket, root) == []


def test_a_part_of_a_large_bucket_is_an_object_nobody_reads(bucket: S3Bucket, root: str) -> None:
    path = f"{root}/_tmp_u/_attempts/base_5.bucket_00000.part3.a"
    sink = BucketDataFiles(bucket).create(path)
    sink.write(b"part")
    sink.close(durable=False)
    assert BucketDataFiles(bucket).open(path, 4).read(0, 4) == b"part"
    assert BucketFileSystem(bucket).list_tree(root, enter_hidden=False)[-1].path == "_tmp_u"
    sink.abort()
    assert keys(bucket, root) == []


def test_nothing_is_written_where_readers_would_see_it(bucket: S3Bucket, root: str) -> None:
    with pytest.raises(RefusedError, match="readers would see it"):
        BucketDataFiles(bucket).create(f"{root}/base_5/bucket_00000")


def test_data_files_travel(bucket: S3Bucket, root: str) -> None:
    path = stored(bucket, f"{root}/f", b"12345")
    assert pickle.loads(pickle.dumps(BucketDataFiles(bucket))).open(path, 5).read(1, 3) == b"234"


def test_a_fork_has_connections_of_its_own(bucket: S3Bucket, root: str) -> None:
    path = stored(bucket, f"{root}/f", b"12345")
    mine = bucket.client
    child = os.fork()
    if child == 0:
        fine = bucket.client is not mine and BucketDataFiles(bucket).open(path, 5).read(0, 5) == b"12345"
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_splices_go_through_the_store(s3_server: S3Server, bucket: S3Bucket, root: str, relay: Relay) -> None:
    """Most of a large file is kept: it is never sent, nor fetched."""
    body, other = b"ORC" + blob(60 * MIB, 6), blob(3 * MIB, 7)
    old, delta = stored(bucket, f"{root}/old", body), stored(bucket, f"{root}/delta", other)
    far = BucketDataFiles(S3Bucket(s3_options(bucket.name, s3_server.properties(relay.endpoint))))
    path = far.output_path(f"{root}/_tmp_u", "base_5", "f", "a")
    base, more = far.open(old, len(body)), far.open(delta, len(other))
    relay.reset()
    sink = far.create(path)
    sink.write(b"ORC")
    for start in range(3, 30 * MIB, MIB):  # stripes side by side
        sink.copy(base, start, min(MIB, 30 * MIB - start))
    sink.write(b"new stripe" * 100_000)
    sink.copy(base, 31 * MIB, len(body) - 31 * MIB)
    sink.copy(more, 5, 1000)
    sink.copy(more, 1005, 0)
    sink.write(b"the tail")
    sink.close()
    expected = body[: 30 * MIB] + b"new stripe" * 100_000 + body[31 * MIB :] + other[5:1005] + b"the tail"
    assert sink.position == len(expected)
    read = far.open(path, len(expected))
    for offset, size in ((0, 10), (30 * MIB - 5, 1_000_010), (len(expected) - 1200, 1200)):
        assert read.read(offset, size) == expected[offset : offset + size]
    attempt = far.upload(path)
    assert complete(bucket, attempt) == expected
    assert [part.size for part in attempt.parts][1] == uploading.MIN_PART_BYTES
    assert relay.sent < 6 * MIB
    assert relay.received < 7 * MIB
    assert relay.requests["PUT"] <= 5  # four parts, and the note


@pytest.mark.parametrize("seed", range(amount(3, long=12)))
def test_any_mixture_of_bytes_and_ranges(
    bucket: S3Bucket, root: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "COPIED_PART_BYTES", 10 * MIB)
    monkeypatch.setattr(uploading, "GROWING", 3)
    monkeypatch.setattr(reading, "IN_MEMORY", MIB)
    chosen = random.Random(seed)
    files = BucketDataFiles(bucket)
    path = files.output_path(f"{root}/_tmp_u", "base_5", "f", "a")
    bodies = [b"ORC" + blob(14 * MIB, seed), blob(6 * MIB, seed + 100)]
    sources = [files.open(stored(bucket, f"{root}/{n}", body), len(body)) for n, body in enumerate(bodies)]
    sink, expected = files.create(path), bytearray()
    for _ in range(10):
        if chosen.random() < 0.4:
            piece = blob(chosen.choice((3, 1000, MIB, 9 * MIB)), chosen.randrange(1000))
            sink.write(piece)
        else:
            number = chosen.randrange(2)
            offset = chosen.choice((0, 3, chosen.randrange(len(bodies[number]))))
            size = min(chosen.choice((0, 10, MIB, 5 * MIB, 13 * MIB)), len(bodies[number]) - offset)
            piece = bodies[number][offset : offset + size]
            sink.copy(sources[number], offset, size)
        expected += piece
    sink.close()
    assert files.open(path, len(expected)).read(0, len(expected)) == expected
    assert all(part.size >= uploading.MIN_PART_BYTES for part in files.upload(path).parts[:-1])
    assert complete(bucket, files.upload(path)) == expected


def test_an_upload_that_is_aborted_before_files_are_copied_blames_no_input(bucket: S3Bucket, root: str) -> None:
    files = BucketDataFiles(bucket)
    path = files.output_path(f"{root}/_tmp_u", "base_5", "f", "a")
    source = files.open(stored(bucket, f"{root}/f", blob(9 * MIB, 1)), 9 * MIB)
    sink = files.create(path)
    begun = sink._filling.begun  # type: ignore[attr-defined]
    bucket.client.abort_multipart_upload(Bucket=bucket.name, **begun.named)
    sink.copy(source, 0, 9 * MIB)
    with pytest.raises(RetryError, match=r"Cannot write .*another program has aborted it"):
        sink.close()
    sink.abort()


def test_a_source_that_changes_before_it_is_copied(bucket: S3Bucket, root: str) -> None:
    files = BucketDataFiles(bucket)
    path = files.output_path(f"{root}/_tmp_u", "base_5", "f", "a")
    source = files.open(stored(bucket, f"{root}/f", blob(9 * MIB, 1)), 9 * MIB)
    source.read(0, 3)
    stored(bucket, f"{root}/f", blob(9 * MIB, 2))
    sink = files.create(path)
    sink.copy(source, 0, 9 * MIB)
    with pytest.raises(CorruptError, match="another object took its place"):
        sink.close()
    sink.abort()
