"""How numbers, sizes and times are said in sentences, in reasons of decisions as in what people read."""

from __future__ import annotations

from datetime import UTC, datetime


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 row`, `1,234 rows`; `many` where the plural is not formed with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def human_bytes(size: int) -> str:
    """Return `1 byte`, `512 bytes`, `1.0 KiB`, `12.3 MiB` and so on; units of 1024."""
    if size < 1024:
        return plural(size, "byte")
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        # what would be rounded to 1024.0 belongs to the next unit
        if value < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:,.1f} PiB"


def size_words(size: int) -> str:
    """Return a size or limit as sentences have it: `256 MiB`, `12.3 MiB`."""
    return human_bytes(size).replace(".0 ", " ")


def age_words(seconds: float) -> str:
    """`45 s`, `12 min`, `5.5 h`, `3.2 d`: an age or a limit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= 1.5 * size or (abs(seconds) >= size and seconds % size == 0):
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"


def duration_words(seconds: float) -> str:
    """`8 s`, `4 min`, `2.5 h`: as exact as people want it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def utc_words(seconds: float) -> str:
    """`2026-03-01 02:10:07 UTC`, for a time in epoch seconds."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):  # after the year 9999, as some file systems can have it
        return f"{seconds:.0f} s after 1970"


def retention_words(retention: float, until: float) -> str:
    """`the retention of 1 d has not passed (until 2026-03-01 02:10:07 UTC)`."""
    return f"the retention of {age_words(retention)} has not passed (until {utc_words(until)})"
