"""Two judges beside the naive reader on every file that was written: exact statistics, and Java's reader."""

from __future__ import annotations

import pytest
from compaction import MAJOR, MINOR

from acidlib.model.requests import CompactionType
from conformance.checks import java_problems, statistics_report
from conformance.conftest import Compaction
from conformance.hive_tables import HiveTable, hive_tables
from judges.java_orc import JavaOrc

KINDS = [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")]
TABLES = [pytest.param(table, id=str(table)) for table in hive_tables() if table.name != "j_stream"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_every_statistic_is_exact(table: HiveTable, kind: CompactionType, compacted: Compaction) -> None:
    case = compacted(table, kind)
    assert case.files or not case.before
    for path, copied in files_with_copies(case):
        report = statistics_report(path, table.generation, copied=copied)
        assert report.problems == [], path
        assert report.checked >= 9 * report.stripes


def files_with_copies(case):
    """Each file, and whether another writer's stripe was copied into it."""
    copied = {(r.directory, r.bucket) for r in case.compacted.results if r.stripes_copied}
    return [(p, (p.parent.name, int(p.name.removeprefix("bucket_"))) in copied) for p in case.files]


@pytest.mark.java
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_java_reads_seeks_and_prunes(
    table: HiveTable, kind: CompactionType, compacted: Compaction, java: JavaOrc
) -> None:
    for path in compacted(table, kind).files:
        assert java_problems(java, path) == [], path
