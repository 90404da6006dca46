"""Files that a task uploads, as values and by the paths that it makes them at."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from acidlib.errors import DefectError, RefusedError
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores import filesystem
from acidlib.stores.buckets.files import BucketDataFiles, BucketFileSystem, BucketSink, upload_list_path
from acidlib.stores.filesystem import MAX_DEPTH
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.s3.client import s3_options

BUCKET = S3Bucket(s3_options("b", {}))
STAGING = "s3a://b/t/p=_tmp_1/_tmp_run"


def test_the_path_of_an_output_is_that_of_one_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[StagedUpload | None, str]] = []
    monkeypatch.setattr(
        BucketSink, "__init__", lambda self, bucket, path, planned, staging: begun.append((planned, staging))
    )
    data = BucketDataFiles(BUCKET)
    path = data.output_path(STAGING, "base_5", "bucket_00000", "0-a")
    upload = StagedUpload(key="t/p=_tmp_1/base_5/bucket_00000", origin="run/0-a")
    data.create(path)
    data.create(f"{STAGING}/_attempts/base_5.bucket_00000.part0.0-a")
    pickle.loads(pickle.dumps(data)).create(path)  # another task has not planned it
    assert begun == [(upload, STAGING), (None, STAGING), (None, STAGING)]
    assert upload_list_path(STAGING, upload) == (f"{STAGING}/_acidlib_staging.upload.run.0-a.base_5.bucket_00000")


class Holding(S3Bucket):
    """A bucket in which a place has objects of these names."""

    def __init__(self, *names: str) -> None:
        super().__init__(BUCKET.options)
        self._names = names

    @property
    def client(self) -> Any:
        return self

    def list_objects_v2(self, **_: Any) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {"Contents": [{"Key": f"t/{name}", "Size": 0, "LastModified": now} for name in self._names]}


def test_a_place_is_listed_as_far_as_a_table_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    deepest, too_deep = "d/" * MAX_DEPTH + "f", "d/" * (MAX_DEPTH + 1) + "f"
    entries = BucketFileSystem(Holding(deepest, f"_hidden/{too_deep}")).list_tree("s3a://b/t", enter_hidden=False)
    assert len(entries) == MAX_DEPTH + 2
    with pytest.raises(RefusedError, match="more than 64 directories"):
        BucketFileSystem(Holding(too_deep)).list_tree("s3a://b/t", enter_hidden=False)
    monkeypatch.setattr(filesystem, "MAX_ENTRIES", 4)
    assert len(BucketFileSystem(Holding(*"abcd")).list_tree("s3a://b/t", enter_hidden=False)) == 4
    for fs in (BucketFileSystem(Holding(*"abcdef")), BucketFileSystem(Holding("a/f", "b/f", "c/f"))):
        with pytest.raises(RefusedError, match="more than 4 files and directories"):
            fs.list_tree("s3a://b/t", enter_hidden=False)
    with pytest.raises(RefusedError, match="more than 4 files and directories"):
        BucketFileSystem(Holding(*"abcde")).list_directory("s3a://b/t")
    with pytest.raises(RefusedError, match="more than 4 files and directories"):  # each is listed, seen or not
        BucketFileSystem(Holding(*(f"_hidden/{name}" for name in "abcd"))).list_tree("s3a://b/t", enter_hidden=False)


def test_a_directory_without_a_name_is_part_of_no_table() -> None:
    assert BucketFileSystem(Holding("_hidden//f", "f")).list_tree("s3a://b/t", enter_hidden=False)
    for name in ("/delta_1_1/f", "delta_1_1//f"):
        with pytest.raises(RefusedError, match="a directory without a name"):
            BucketFileSystem(Holding(name)).list_tree("s3a://b/t", enter_hidden=False)


@pytest.mark.parametrize("path", ["s3a://b/t/base_5/f", "s3a://b/t/_tmp_run", "s3a://b/t/p=_tmp_1/f"])
def test_a_path_that_readers_see_is_refused(path: str) -> None:
    with pytest.raises(RefusedError, match="readers would see it at once"):
        BucketDataFiles(BUCKET).create(path)


def test_a_file_that_this_task_has_not_made_has_no_upload() -> None:
    data = BucketDataFiles(BUCKET)
    with pytest.raises(DefectError, match="has not made it"):
        data.upload(data.output_path(STAGING, "base_5", "bucket_00000", "0-a"))


def test_a_completion_names_number_version_and_checksums_of_a_part() -> None:
    part = Part(number=2, version='"e2"', size=2, checksums={"ChecksumCRC32": "x"})
    assert part.as_completed() == {"PartNumber": 2, "ETag": '"e2"', "ChecksumCRC32": "x"}
