"""Numbers and times in sentences."""

import pytest

from acidlib.wording import age_words, duration_words, plural, retention_words


def test_one_and_many() -> None:
    assert [plural(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
    assert plural(2, "copy", "copies") == "2 copies"


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
