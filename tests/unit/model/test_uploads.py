"""Uploads as JSON values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acidlib.errors import CorruptError
from acidlib.model.uploads import Part, StagedUpload

UPLOAD = StagedUpload(
    key="t/base_5/bucket_00000",
    upload_id="u-1",
    length=7,
    origin="run/0-a",
    parts=(
        Part(number=1, version='"e1"', size=5),
        Part(number=2, version='"e2"', size=2, checksums=(("ChecksumCRC32", "x"),)),
    ),
)


def test_an_upload_is_read_from_json_as_it_was_written() -> None:
    assert StagedUpload.of_document(json.loads(json.dumps(UPLOAD.document())), where="here") == UPLOAD


@pytest.mark.parametrize("change", [{"parts": [[1, "e"]]}, {"parts": 3}, {"length": "x"}, {"upload": None, "key": 1}])
def test_a_document_of_another_kind_is_corrupt(change: dict[str, Any]) -> None:
    document = UPLOAD.document() | change
    if "upload" in change:
        del document["upload"]
    with pytest.raises(CorruptError, match="Cannot read here: it does not describe an upload"):
        StagedUpload.of_document(document, where="here")
