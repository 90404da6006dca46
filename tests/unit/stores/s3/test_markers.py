"""What the marker of a staging directory says, and what is no marker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acidlib.errors import CorruptError
from acidlib.stores.renaming.publishing import StagedDirectory, StagedFile
from acidlib.stores.s3.publishing import Attempt, Marker, Part, Recorded, State, _decoded, _encoded

MARKER = Marker(
    path="s3a://b/t/_tmp_u/_acidlib_staging",
    unique="u",
    owner="o",
    start=1.5,
    state=State.RECORDED,
    recorded=Recorded(
        directories=(StagedDirectory(name="base_5", files=(StagedFile(name="f", length=3),)),),
        inputs=("delta_1_1",),
        uploads=(
            Attempt(
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
    assert _decoded(MARKER.path, _encoded(MARKER), "e") == MARKER
    assert MARKER.staging == "s3a://b/t/_tmp_u"


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"state": "published"}, {"publication": {}}, {"start": None}, {"publication": {"uploads": [{}]}}],
)
def test_what_this_version_does_not_understand_is_corrupt(change: dict[str, Any]) -> None:
    document = json.loads(_encoded(MARKER)) | change
    with pytest.raises(CorruptError, match="Cannot read s3a://b/t/_tmp_u"):
        _decoded(MARKER.path, json.dumps(document).encode(), "e")
    with pytest.raises(CorruptError, match="not a marker"):
        _decoded(MARKER.path, b"{", "e")
