"""Attempts as values, and what their paths say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acidlib.errors import CorruptError
from acidlib.stores.s3.client import Bucket, bucket_options
from acidlib.stores.s3.files import Part, StagedUpload, note_path, output_path, planned_upload

BUCKET = Bucket(bucket_options("b", {}))
ATTEMPT = StagedUpload(
    key="t/base_5/bucket_00000",
    upload="u-1",
    length=7,
    mark="run/0-a",
    parts=(
        Part(number=1, version='"e1"', size=5),
        Part(number=2, version='"e2"', size=2, checksums=(("ChecksumCRC32", "x"),)),
    ),
)


def test_an_attempt_travels_as_json() -> None:
    assert StagedUpload.of_document(json.loads(json.dumps(ATTEMPT.document())), where="here") == ATTEMPT
    assert ATTEMPT.parts[1].as_completed() == {"PartNumber": 2, "ETag": '"e2"', "ChecksumCRC32": "x"}


@pytest.mark.parametrize("change", [{"parts": [[1, "e"]]}, {"parts": 3}, {"length": "x"}, {"upload": None, "key": 1}])
def test_what_is_no_attempt_is_corrupt(change: dict[str, Any]) -> None:
    document = ATTEMPT.document() | change
    if "upload" in change:
        del document["upload"]
    with pytest.raises(CorruptError, match="Cannot read here: it does not describe an upload"):
        StagedUpload.of_document(document, where="here")


def test_a_path_says_what_is_made() -> None:
    path = output_path("s3a://b/t/p=_tmp_1/_tmp_run", "base_5", "bucket_00000", "0-a")
    planned = StagedUpload(key="t/p=_tmp_1/base_5/bucket_00000", mark="run/0-a")
    assert planned_upload(BUCKET, path) == planned
    assert note_path(path) == ("s3a://b/t/p=_tmp_1/_tmp_run/_acidlib_staging.upload._outputs.0-a.base_5.bucket_00000")


@pytest.mark.parametrize(
    "path", ["s3a://b/t/base_5/f", "s3a://b/t/_tmp_run/_attempts/base_5.f.a", "s3a://b/t/_tmp_run/_outputs/a/f"]
)
def test_other_paths_are_none_of_these(path: str) -> None:
    assert planned_upload(BUCKET, path) is None
    assert (note_path(path) is None) == ("_tmp_" not in path)
