"""Timestamps of writers in zones with summer time, of local mean time, and of halves of an hour; all side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, bucket_files
from judges import merge, tables
from judges import orc_tail as o
from judges.java_orc import JavaOrc
from judges.merge import bucket_property

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.java_tables import visible
from conformance.odd import COPY, KINDS, SETTINGS, compact_judged

COLUMNS = "struct<ts:timestamp,more:array<timestamp>,ti:timestamp with local time zone>"
ZONES = ("America/New_York", "Asia/Kolkata", "UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe")
FRACTIONS = (0, 1, 10, 1000, 999_999_999, 100_000_000, 123_456_789, 500_000_000, 999_000_000, 7_000_000)
EDGES = (
    -62_135_596_800,  # year 1
    -12_219_292_800,  # 1582-10-15
    -2_717_650_800,  # 1883-11-18, when New York gave up local mean time
    -2_208_988_800,  # 1900
    -1,
    0,
    1_173_583_800,  # 2007-03-11 03:30, New York springs forward
    1_194_150_600,  # 2007-11-04 04:30, and back
    1_420_070_399,  # before 2015, from which ORC counts
    1_420_070_400,
    253_402_214_400,  # 9999-12-31
)


def instants() -> list[tuple[int, int]]:
    """Around each edge, with every kind of fraction."""
    found = [(edge + step * 1800, 0) for edge in EDGES for step in (-3, -2, -1, 0, 1, 2, 3)]
    return [(seconds, FRACTIONS[i % len(FRACTIONS)]) for i, (seconds, _) in enumerate(found)]


def zoned_table(location: Path) -> None:
    """A delta for each zone, and deletes of a few rows of each."""
    times = instants()
    layout = {"stripe_size": 1, "stride": 20, "batch": 40, "compression": "none"}
    for write_id, zone in enumerate(ZONES, 1):
        rows: list[tuple[Any, ...]] = [
            (None if i % 13 == 5 else at, [at, None, times[i - 1]][: i % 4], times[i - 2]) for i, at in enumerate(times)
        ]
        events = tables.inserts(write_id, rows[write_id:])
        name = tables.delta_name(write_id, write_id)
        tables.write_dir(location, name, COLUMNS, events, tables.Layout(timezone=zone, **layout))
    last = len(ZONES) + 1
    keys = [(write_id, bucket_property(0, 0), 3 * write_id) for write_id in range(1, last, 2)]
    name = tables.delta_name(last, last, delete=True)
    tables.write_dir(location, name, COLUMNS, tables.deletes(last, keys))


@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_instants_of_any_zone_stay(
    kind: CompactionType, generation: int, settings: RewriteSettings, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    zoned_table(location)
    made = compact_judged(location, kind, generation=generation, settings=settings)
    path = bucket_files(location, made.directories)[0]
    zones = [stripe.timezone for stripe in o.read_orc(path).stripes]
    assert list(dict.fromkeys(zones)) == list(dict.fromkeys(ZONES))
    if settings is not COPY:
        assert zones == list(ZONES)
    text = repr(merge.raw_rows(path))
    assert all(f":{fraction}'" in text for fraction in FRACTIONS)


@pytest.mark.java
@pytest.mark.parametrize("settings", SETTINGS)
def test_readers_of_any_zone_see_the_same_wall_clocks(settings: RewriteSettings, java: JavaOrc, tmp_path: Path) -> None:
    location = tmp_path / "t"
    zoned_table(location)
    readers = ("", "America/New_York", "Asia/Kolkata")
    before = [visible(java, sorted(location.iterdir()), zone=zone) for zone in readers]
    made = compact_judged(location, MAJOR, generation=4, settings=settings)
    outputs = [location / name for name in made.directories]
    assert [visible(java, outputs, zone=zone) for zone in readers] == before
    assert before[1] != before[2]
