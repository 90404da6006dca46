"""Odd files without ACID columns: the original files of a table that became ACID, and those of insert-only tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from compaction import join_plain_files
from judges import orc_tail as o
from judges import tables
from judges.merge import bucket_property
from judges.values import canonical_rows

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.checks import statistics_problems
from conformance.odd import COPY, KINDS, SETTINGS, compact_judged
from conformance.test_odd_files import COLUMNS, LAYOUT, ODD, row, without_key_index

PLAIN = [what for what in ODD if ODD[what][0] is not without_key_index]


def plain(what: str, count: int, first: int) -> bytes:
    change, layout = ODD[what]
    return change(tables.orc_bytes(COLUMNS, [row(first + i) for i in range(count)], layout))


@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", PLAIN)
def test_original_files(
    what: str, kind: CompactionType, generation: int, settings: RewriteSettings, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    for number, name in enumerate(("000000_0", "000000_0_copy_1", "HIVE_UNION_SUBDIR_1/000000_0")):
        path = location / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(plain(what, 20 + number, 100 * number))
    for write_id in (1, 2):
        events = tables.inserts(write_id, [row(write_id)])
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, events, LAYOUT)
    events = tables.deletes(3, [(0, bucket_property(0, 0), i) for i in (3, 20, 62)])
    tables.write_dir(location, tables.delta_name(3, 3, delete=True), COLUMNS, events, LAYOUT)
    compact_judged(location, kind, generation=generation, settings=settings)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("every", [1, 2], ids=["all", "some"])
@pytest.mark.parametrize("what", PLAIN)
def test_insert_only_files(what: str, every: int, settings: RewriteSettings, tmp_path: Path) -> None:
    files, expected = [], []
    for write_id in range(1, 6):
        path = tmp_path / tables.delta_name(write_id, write_id) / "000000_0"
        path.parent.mkdir()
        path.write_bytes(plain(what if write_id % every == 0 else "no file statistics", 20, 100 * write_id))
        expected += list(canonical_rows(path))
        files.append(path)
    made = tmp_path / "result"
    result = join_plain_files(files, made, settings=settings)
    assert result.rows_out == len(expected) == 100
    assert list(canonical_rows(made)) == expected
    assert statistics_problems(made, 4, copied=result.stripes_copied > 0) == []
    zones = {stripe.timezone for stripe in o.read_orc(made).stripes}
    assert zones == ({"UTC"} if what != "no time zone" else {""} if every == 1 else {"", "UTC"})
    if settings is COPY:
        good = every == 2 or what in ("no file statistics", "padding", "no time zone")
        assert (result.stripes_copied > 0) is good
