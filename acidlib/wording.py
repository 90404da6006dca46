"""How numbers and times are said in sentences, in reasons of decisions as in what people read."""

from __future__ import annotations


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 row`, `1,234 rows`; `many` where the plural is not formed with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


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
