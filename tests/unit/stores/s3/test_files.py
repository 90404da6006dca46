"""Files that a task uploads, as values and by the paths that it makes them at."""

from __future__ import annotations

import pickle

import pytest

from acidlib.errors import DefectError, RefusedError
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores.s3.client import Bucket, bucket_options
from acidlib.stores.s3.files import S3DataFiles, S3Sink, upload_list_path

BUCKET = Bucket(bucket_options("b", {}))
STAGING = "s3a://b/t/p=_tmp_1/_tmp_run"


def test_the_path_of_an_output_is_that_of_one_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[StagedUpload | None, str]] = []
    monkeypatch.setattr(
        S3Sink, "__init__", lambda self, bucket, path, planned, staging: begun.append((planned, staging))
    )
    data = S3DataFiles(BUCKET)
    path = data.output_path(STAGING, "base_5", "bucket_00000", "0-a")
    upload = StagedUpload(key="t/p=_tmp_1/base_5/bucket_00000", origin="run/0-a")
    data.create(path)
    data.create(f"{STAGING}/_attempts/base_5.bucket_00000.part0.0-a")
    pickle.loads(pickle.dumps(data)).create(path)  # another task has not planned it
    assert begun == [(upload, STAGING), (None, STAGING), (None, STAGING)]
    assert upload_list_path(STAGING, upload) == (f"{STAGING}/_acidlib_staging.upload.run.0-a.base_5.bucket_00000")


@pytest.mark.parametrize("path", ["s3a://b/t/base_5/f", "s3a://b/t/_tmp_run", "s3a://b/t/p=_tmp_1/f"])
def test_a_path_that_readers_see_is_refused(path: str) -> None:
    with pytest.raises(RefusedError, match="readers would see it at once"):
        S3DataFiles(BUCKET).create(path)


def test_a_file_that_this_task_has_not_made_has_no_upload() -> None:
    data = S3DataFiles(BUCKET)
    with pytest.raises(DefectError, match="has not made it"):
        data.upload(data.output_path(STAGING, "base_5", "bucket_00000", "0-a"))


def test_a_completion_names_number_version_and_checksums_of_a_part() -> None:
    part = Part(number=2, version='"e2"', size=2, checksums=(("ChecksumCRC32", "x"),))
    assert part.as_completed() == {"PartNumber": 2, "ETag": '"e2"', "ChecksumCRC32": "x"}
