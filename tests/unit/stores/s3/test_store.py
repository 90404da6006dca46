"""What the marker of a staging directory says, and what is no marker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acidlib.errors import CorruptError
from acidlib.stores.s3.files import Part, StagedUpload
from acidlib.stores.s3.store import Marker, Recorded, State, _decoded, _encoded
from acidlib.stores.store import StagedDirectory

MARKER = Marker(
    staging="s3a://b/t/_tmp_u",
    unique="u",
    owner="o",
    start=1.5,
    state=State.RECORDED,
    recorded=Recorded(
        directories=(StagedDirectory(name="base_5", files={"f": 3}),),
        inputs=("delta_1_1",),
        uploads=(
            StagedUpload(
                directory="base_5",
                file="f",
                key="t/base_5/f",
                upload="id",
                length=3,
                mark="u/a",
                parts=(Part(number=1, version="e", size=3),),
            ),
        ),
        hidden=False,
        closed=True,
    ),
    version="e",
)


def test_a_marker_is_read_as_it_was_written() -> None:
    assert _decoded(MARKER.staging, _encoded(MARKER), "e") == MARKER
    assert MARKER.path == "s3a://b/t/_tmp_u/_acidlib_staging"


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"state": "published"}, {"publication": {}}, {"start": None}, {"publication": {"uploads": [{}]}}],
)
def test_what_this_version_does_not_understand_is_corrupt(change: dict[str, Any]) -> None:
    document = json.loads(_encoded(MARKER)) | change
    with pytest.raises(CorruptError, match="Cannot read s3a://b/t/_tmp_u"):
        _decoded(MARKER.staging, json.dumps(document).encode(), "e")
    with pytest.raises(CorruptError, match="not a marker"):
        _decoded(MARKER.staging, b"{", "e")
