"""Compacting a table of odd files: the rows before are the rows after, and the result is a sound file."""

from __future__ import annotations

from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, Compacted, bucket_files, compact_directory
from judges import merge

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.checks import statistics_problems

COPY, RECODE = RewriteSettings(copy_bytes=0), RewriteSettings(copy_bytes=1 << 40)
SETTINGS = [pytest.param(COPY, id="copy"), pytest.param(RECODE, id="recode")]
KINDS = [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")]


def compact_judged(
    location: Path,
    kind: CompactionType,
    write_ids: str = "",
    *,
    generation: int = 3,
    settings: RewriteSettings | None = None,
) -> Compacted:
    """Compact; what a reader sees is what a naive merge saw before, row ids included, and every statistic is exact."""
    before = merge.read(location, write_ids, generation=generation)
    assert before
    made = compact_directory(location, kind, write_ids, generation, settings=settings)
    assert merge.read(location, write_ids, generation=generation, strict=True) == before
    copied = any(result.stripes_copied for result in made.results)
    for path in bucket_files(location, made.directories):
        assert statistics_problems(path, generation, copied=copied) == [], path
    return made
