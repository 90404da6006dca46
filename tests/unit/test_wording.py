"""Durations and sizes as they are given; numbers, sizes and times in sentences."""

import json

import pytest

from acidlib.errors import RefusedError
from acidlib.model.results import InitiatorResult, Outcome
from acidlib.report.progress import LogFormat, LogLines
from acidlib.wording import (
    MAX_REASON_BYTES,
    age_words,
    brief,
    duration_words,
    human_bytes,
    parse_duration,
    parse_size,
    plural,
    retention_end,
    retention_words,
    size_words,
    utc_words,
    without_ends,
)

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "unit", "milliseconds"),
    [
        ("300ms", "s", 300),
        ("86400s", "s", 86_400_000),
        ("86400", "s", 86_400_000),
        ("300000", "ms", 300_000),
        ("90 m", "s", 5_400_000),
        ("12h", "s", 43_200_000),
        ("1D", "s", 86_400_000),
        ("7days", "s", 604_800_000),
        ("5 mins", "s", 300_000),
        ("1500us", "s", 1),
        ("-1h", "s", -3_600_000),
    ],
)
def test_durations(text: str, unit: str, milliseconds: int) -> None:
    assert parse_duration(text, unit) == milliseconds


@pytest.mark.parametrize("text", ["2ss", "5mss", "3hs", "3ds", "2 secss", "2x"])
def test_only_words_have_a_plural(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1024", 1024), ("2k", 2048), ("256m", 268_435_456), ("1GiB", 2**30), ("3 TB", 3 * 2**40), ("5b", 5)],
)
def test_sizes_as_they_are_given(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "m", "1.5m", "-1", "1mm", "1x"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


def test_one_and_many() -> None:
    assert [plural(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
    assert plural(2, "copy", "copies") == "2 copies"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (MIB - 1, "1.0 MiB"),
        (1023 * 1024, "1023.0 KiB"),
        (12 * MIB + MIB // 4, "12.2 MiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 50, "1.0 PiB"),
        (5000 << 50, "5,000.0 PiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_sizes_in_sentences_have_no_digit_that_says_nothing() -> None:
    assert [size_words(size) for size in (0, 1024, 256 * MIB, MIB + MIB // 2)] == [
        "0 bytes", "1 KiB", "256 MiB", "1.5 MiB"
    ]  # fmt: skip


def test_how_long_something_takes_is_as_exact_as_people_want_it() -> None:
    assert [duration_words(seconds) for seconds in (0.4, 99.4, 100, 5999, 6000, 90_000)] == [
        "0 s", "99 s", "2 min", "100 min", "1.7 h", "25.0 h"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (60, "1 min"), (100, "1.7 min"), (5400, "1.5 h"), (86400, "1 d"), (200_000, "2.3 d")],
)
def test_ages_in_words(seconds: float, text: str) -> None:
    assert age_words(seconds) == text


def test_until_when_a_retention_lasts() -> None:
    assert retention_words(86_400, 1_772_331_007.5) == (
        "the retention of 1 d has not passed (until 2026-03-01 02:10:07 UTC)"
    )
    assert retention_words(1e12, 1e12).endswith("(until 1000000000000 s after 1970)")


@pytest.mark.parametrize("letter", ["a", "é", "漢", "𝄞", "\ud800"])
def test_a_text_is_cut_to_its_bytes_and_the_rest_counted(letter: str) -> None:
    bytes_of_letter = len(letter.encode(errors="surrogatepass"))
    fits = letter * (MAX_REASON_BYTES // bytes_of_letter)
    assert brief(fits) == fits
    long = letter * 200_000
    cut = brief(long)
    assert MAX_REASON_BYTES - 10 < len(cut.encode(errors="surrogatepass")) <= MAX_REASON_BYTES
    begin, _, rest = cut.partition("… and ")
    assert long.startswith(begin)
    assert rest == f"{200_000 - len(begin):,} more characters"
    # what was cut before is counted with what is cut now
    again, _, rest = brief(f"Cannot say: {cut}").partition("… and ")
    assert rest == f"{12 + 200_000 - len(again):,} more characters"


def test_errors_and_results_are_cut_when_they_are_made() -> None:
    error = RefusedError(f"Cannot read f: {'c' * 2_500_000}")
    assert str(error).endswith(" more characters")
    result = InitiatorResult(
        database="d", table="t", partition=None, location="/t", reason="c" * 5000, outcome=Outcome.REFUSED
    )
    line = json.loads(LogLines(format=LogFormat.JSON).line("c" * 5000))["message"]
    assert all(
        MAX_REASON_BYTES - 4 < len(text.encode()) <= MAX_REASON_BYTES for text in (str(error), result.reason, line)
    )


@pytest.mark.parametrize("retention", [0.5, 86_400.0, 1e9])
@pytest.mark.parametrize("until", [0.0, 1_772_331_007.5, 1e13])
def test_the_end_of_a_retention_is_found_in_its_words_and_in_no_others(retention: float, until: float) -> None:
    text = retention_words(retention, until)
    assert retention_end(text) == (f"the retention of {age_words(retention)} has not passed", utc_words(until))
    assert without_ends(f"2 obsolete left: {text}; it is read") == (
        f"2 obsolete left: the retention of {age_words(retention)} has not passed; it is read"
    )
    assert retention_end(f"2 obsolete left: {text}") is None
    assert retention_end(f"{text}; then: it is read") is None
