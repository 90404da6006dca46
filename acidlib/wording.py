"""Parsing of durations, sizes and flags, and wording of numbers, sizes and times in sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches

_DURATION = re.compile(r"(-?[0-9]{1,18})\s*([a-z]*)")
_SIZE = re.compile(r"([0-9]{1,18})\s*([kmgt]?)(?:i?b)?")
_MILLISECONDS = {
    **dict.fromkeys(("d", "day"), 86_400_000.0),
    **dict.fromkeys(("h", "hour"), 3_600_000.0),
    **dict.fromkeys(("m", "min", "minute"), 60_000.0),
    **dict.fromkeys(("s", "sec", "second"), 1_000.0),
    **dict.fromkeys(("ms", "msec", "millisecond"), 1.0),
    **dict.fromkeys(("us", "usec", "microsecond"), 1e-3),
    **dict.fromkeys(("ns", "nsec", "nanosecond"), 1e-6),
}


def parse_duration(text: str, unit: str = "s") -> int:
    """Return the milliseconds of `300ms`, `86400s`, `12h`, `7days`; a bare number is in `unit`. Raises `ValueError`."""
    match = _DURATION.fullmatch(text.strip().lower())
    stated = "" if match is None else match[2] or unit
    singular = stated.removesuffix("s") if len(stated) > len("min") else stated  # only words have a plural
    factor = _MILLISECONDS.get(singular)
    if match is None or factor is None:
        raise ValueError(text)
    return math.floor(int(match[1]) * factor)


def duration_text(seconds: float) -> str:
    """Return `1d`, `90m`, `30s`, `0.5s`: a duration in the largest unit that takes it as a whole number."""
    for unit in ("d", "h", "m", "s"):
        size = _MILLISECONDS[unit] / 1000
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def parse_size(text: str) -> int:
    """Return the bytes of `1024`, `256m`, `1GiB`; the units are powers of 1024. Raises `ValueError`."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def parse_flag(text: str) -> bool:
    """Return the value of `true` or `false`, in any case. Raises `ValueError`."""
    if (word := text.strip().lower()) not in ("true", "false"):
        raise ValueError(text)
    return word == "true"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean tables?` for a name that is not known, if one that is known is like it, else nothing."""
    meant = closest(name, known)
    return "" if meant is None else f"; did you mean {meant}?"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a name, if one is like it."""
    return next(iter(alike(name, known)), None)


def alike(name: str, known: Iterable[str], *, likeness: float = 0.8) -> list[str]:
    """Return up to three of the known names that are like a name, the likest first.

    likeness  the least ratio of `difflib`
    """
    return get_close_matches(name, list(known), cutoff=likeness)


def first_line_of(error: BaseException) -> str:
    """Return the first line of what an error says; the name of its class where it says nothing."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Return `1 row`, `1,234 rows`; `many` where the plural is not formed with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


MAX_REASON_BYTES = 4096
"""Bytes of the longest reason or message: a file of many columns must not fill results, the queue and logs."""

_CUT = re.compile(r"… and ([0-9,]+) more characters$")


def brief(text: str, most: int = MAX_REASON_BYTES) -> str:
    """Return a text of at most so many bytes of UTF-8, at least 40: of a longer one the beginning, the rest counted."""
    if len(text.encode(errors="surrogatepass")) <= most:
        return text
    left_out = 0
    if (cut_before := _CUT.search(text)) is not None:
        left_out, text = int(cut_before[1].replace(",", "")), text[: cut_before.start()]
    room = most - len(_rest(left_out + len(text)).encode())
    data = text[:room].encode(errors="surrogatepass")[:room]
    while data and data[-1] & 0xC0 == 0x80:  # to the first byte of the last character
        data = data[:-1]
    begin = data[: -1 if data and data[-1] >= 0x80 else None].decode(errors="surrogatepass")
    return begin + _rest(left_out + len(text) - len(begin))


def _rest(characters: int) -> str:
    return f"… and {characters:,} more characters"


class Reasoned:
    """A dataclass with a `reason` for people, which is cut to what results and the queue take."""

    __slots__ = ()
    reason: str

    def __post_init__(self) -> None:
        """Cut the reason."""
        object.__setattr__(self, "reason", brief(self.reason))


def human_bytes(size: int) -> str:
    """Return `1 byte`, `512 bytes`, `1.0 KiB`, `12.3 MiB` and so on; units of 1024."""
    if size < 1024:
        return plural(size, "byte")
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        # 1024.0 by rounding belongs to the next unit
        if value < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:,.1f} PiB"


def size_words(size: int) -> str:
    """Return a size or limit for a sentence: `256 MiB`, `12.3 MiB`."""
    return human_bytes(size).replace(".0 ", " ")


def age_words(seconds: float) -> str:
    """Return `45 s`, `12 min`, `5.5 h`, `3.2 d`: an age or a limit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= 1.5 * size or (abs(seconds) >= size and seconds % size == 0):
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"


def duration_words(seconds: float) -> str:
    """Return `8 s`, `4 min`, `2.5 h`: a duration, rounded for people."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def utc_words(seconds: float) -> str:
    """Return `2026-03-01 02:10:07 UTC`, for a time in epoch seconds."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):  # after the year 9999, which some file systems can store
        return f"{seconds:.0f} s after 1970"


_RETENTION, _UNTIL = "the retention of {} has not passed", " (until {})"
"""What is said of a retention: it is the one carrier of its end, through JSON and the queue to what people read."""


def retention_words(retention: float, until: float) -> str:
    """Return `the retention of 1 d has not passed (until 2026-03-01 02:10:07 UTC)`."""
    return _RETENTION.format(age_words(retention)) + _UNTIL.format(utc_words(until))


def _form(words: str, value: str) -> str:
    return re.escape(words).replace(re.escape("{}"), value)


_END = re.compile(_form(_UNTIL, "(?P<until>[^()]*)"))
_WAIT = re.compile(f"(?P<words>{_form(_RETENTION, '.*')}){_END.pattern}")


def without_ends(text: str) -> str:
    """Return a text without the ends of retentions, which differ from place to place."""
    return _END.sub("", text)


def retention_end(text: str) -> tuple[str, str] | None:
    """Return what `retention_words` said, and the time in it: without a time many places say the same."""
    match = _WAIT.fullmatch(text)
    return None if match is None else (match["words"], match["until"])
