"""The offsets of all time zones are those of Java; times on which releases of Java disagree are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from acidlib.errors import RefusedError
from acidlib.scan import time_zones
from acidlib.scan.time_zones import TimeZone, time_zone

pytestmark = pytest.mark.java

FIRST_YEAR, LAST_YEAR = 1900, 2025
"""Before 1900 `java.util.TimeZone` goes by the rules of today; after 2025 a release may have newer ones."""


def in_spans(zone: str, seconds: np.ndarray) -> np.ndarray:
    spans = time_zones._DISPUTED.get(zone, ())
    inside = [(seconds >= start) & (seconds < end) for start, end in spans]
    return np.any(inside, axis=0) if inside else np.zeros(len(seconds), dtype=bool)


def test_offsets_of_all_zones_are_those_of_java() -> None:
    source = Path(__file__).parent.parent / "judges" / "java" / "ZoneOffsets.java"
    run = ["java", str(source), str(FIRST_YEAR), str(LAST_YEAR)]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) > 500
    differ, unknown = [], []
    for line in lines:
        name, *numbers = line.split("\t")
        seconds, by_rules, by_time_zone = np.array(numbers, dtype=np.int64).reshape(-1, 3).T
        try:
            zone = time_zone(name)
        except RefusedError:
            unknown.append(name)
            continue
        disputed = in_spans(name, seconds)
        if zone is None:
            assert not by_rules.any()
            continue
        if disputed.any():
            for offsets in (zone.offsets, zone.time_zone_offsets):
                with pytest.raises(RefusedError, match=f"releases of Java disagree on the time zone {name}"):
                    offsets(seconds)
        agreed = seconds[~disputed]
        if not np.array_equal(zone.offsets(agreed), by_rules[~disputed]) or not np.array_equal(
            zone.time_zone_offsets(agreed), by_time_zone[~disputed]
        ):
            differ.append(name)
    assert [name for name in unknown if not name.startswith("SystemV/")] == []
    assert differ == []


@pytest.mark.parametrize(
    ("name", "second", "offset"),
    [
        ("Europe/Amsterdam", -1_500_000_000, 3600),
        ("Asia/Kolkata", 0, 19_800),
        ("EST", 1_700_000_000, -18_000),
        ("PST", 1_720_000_000, -25_200),
        ("GMT+05:30", -9_999_999_999, 19_800),
        ("UTC-3", 0, -10_800),
    ],
)
def test_no_database_of_the_machine_counts(
    name: str, second: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoneinfo.TZPATH", ())
    time_zone.cache_clear()
    zone = time_zone(name)
    assert isinstance(zone, TimeZone)
    assert zone.offsets(np.array([second])).tolist() == [offset]


@pytest.mark.parametrize("name", ["Mars/Phobos", "../zones", "Europe", "europe/paris", "SystemV/PST8", "America/"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(RefusedError, match=f"the time zone {name} of its timestamps is not known"):
        time_zone(name)


def test_times_beyond_the_rules_of_a_zone_are_refused() -> None:
    zone = time_zone("Africa/Windhoek")
    assert zone is not None
    for second in (-2_300_000_000, 4_000_000_000):
        assert zone.offsets(np.array([second])).shape == (1,)
        with pytest.raises(RefusedError, match="releases of Java disagree on the time zone Africa/Windhoek"):
            zone.time_zone_offsets(np.array([second]))
