"""Time zones of Java, by the package `tzdata`: the same rules on each machine, whatever time zone database it has.

Source: `java.util.TimeZone` (ORC goes by it) and `java.time.ZoneId` (Hive's Parquet) of Java 17 and 25, whose offsets
of all zones were compared with those of the package. A machine's own database may have other rules before 1970
(Debian's keeps those of zones that were merged), or lack zones. Where releases of Java disagree among themselves, a
time is refused rather than taken for one of two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np

from acidlib.errors import RefusedError
from acidlib.orc.columns import Longs

_DAY = 86_400
_FIRST_SECOND = -2_208_988_800
"""Of 1900 in UTC."""
_LOCAL_TIMES = -5_364_662_400
"""Of 1800, when every place had its local mean time."""
_YEAR_2037 = 2_114_380_800
"""Its start: a year of which all zones know when they have daylight saving time."""
_YEARS_2400 = 13_569_465_600, 146_097 * _DAY
"""Seconds of 2400-01-01, and of 400 years, after which days of the week and leap years are the same again."""
_EVER = 1 << 62

_FIXED = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII)
_UTC_NAMES = frozenset({"", "UTC", "Etc/UTC", "GMT", "Z"})

_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "GMT-05:00",
    "HST": "GMT-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "GMT-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Short names that Java alone has (`ZoneId.SHORT_IDS`), and the zones that they mean."""


def _second(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp())


_Span = tuple[int, int]
"""From a second, and up to another."""

_DISPUTED: dict[str, tuple[_Span, ...]] = {
    # links to zones of cities since 2024b, and zones of their own before
    **dict.fromkeys(("EST", "HST", "MST"), ((-_EVER, _second(1968, 1, 1)),)),
    **dict.fromkeys(("EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT"), ((-_EVER, _second(1968, 1, 1)),)),
    **dict.fromkeys(("CET", "EET", "MET", "WET"), ((-_EVER, _second(1997, 1, 1)),)),
    # history that a release corrected
    **dict.fromkeys(("Asia/Tehran", "Iran"), ((_second(1978, 11, 10), _second(1979, 5, 28)),)),
    **dict.fromkeys(("Europe/Dublin", "Eire"), ((_second(1925, 9, 19), _second(1925, 10, 5)),)),
    "America/Bogota": ((_second(1992, 5, 2), _second(1992, 5, 4)),),
    **dict.fromkeys(
        ("America/Ensenada", "America/Santa_Isabel", "America/Tijuana", "Mexico/BajaNorte"),
        ((_second(1953, 4, 25), _second(1975, 10, 28)),),
    ),
    **dict.fromkeys(
        (
            *("America/Araguaina", "America/Bahia", "America/Belem", "America/Boa_Vista", "America/Campo_Grande"),
            *("America/Cuiaba", "America/Eirunepe", "America/Fortaleza", "America/Maceio", "America/Manaus"),
            *("America/Noronha", "America/Porto_Acre", "America/Porto_Velho", "America/Recife", "America/Rio_Branco"),
            *("America/Santarem", "America/Sao_Paulo", "BET", "Brazil/Acre", "Brazil/DeNoronha", "Brazil/East"),
            "Brazil/West",
        ),
        ((_second(1965, 3, 30), _second(1966, 3, 2)),),
    ),
    **dict.fromkeys(
        ("Europe/Chisinau", "Europe/Tiraspol"),
        tuple(
            (_second(*day), _second(*day) + _DAY)
            for day in ((2022, 3, 27), (2022, 10, 30), (2023, 3, 26), (2023, 10, 29))
        ),
    ),
}
"""The times of zones about whose offset releases of Java disagree."""

_DISPUTED_BY_TIME_ZONE: dict[str, tuple[_Span, ...]] = {
    "Africa/Windhoek": ((-_EVER, _FIRST_SECOND), (_YEAR_2037, _EVER)),
    **dict.fromkeys(
        ("Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza", "Asia/Hebron"), ((_second(2038, 1, 1), _EVER),)
    ),
}
"""Those about which `java.util.TimeZone` disagrees, too: it has no exact rules before 1900 and after 2037."""


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone by its name in Java. Seconds are counted from 1970 in UTC, offsets are seconds east of UTC.

    Methods raise RefusedError for a time about whose offset releases of Java disagree.
    """

    name: str
    rules: tzinfo

    def offsets(self, seconds: Longs) -> Longs:
        """Return the offset at each instant, by `java.time`."""
        return self._offsets(seconds, _DISPUTED.get(self.name, ()), _offset)

    def time_zone_offsets(self, seconds: Longs) -> Longs:
        """Return the offset at each instant, by `java.util.TimeZone`."""
        disputed = _DISPUTED.get(self.name, ()) + _DISPUTED_BY_TIME_ZONE.get(self.name, ())
        return self._offsets(seconds, disputed, _time_zone_offset)

    def midnight_offset(self, year: int) -> int:
        """Return the offset at the first midnight of a year on clocks of the zone."""
        offset = datetime(year, 1, 1, tzinfo=self.rules).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    def _offsets(self, seconds: Longs, disputed: tuple[_Span, ...], offset: Callable[[tzinfo, int], int]) -> Longs:
        for start, end in disputed:
            inside = seconds[(seconds >= start) & (seconds < end)]
            if len(inside):
                raise RefusedError(
                    f"releases of Java disagree on the time zone {self.name} {int(inside[0])} seconds from 1970, where "
                    "one of its timestamps lies"
                )
        # the zone is asked once for each day
        days, numbers = np.unique(seconds // _DAY, return_inverse=True)
        bounds = [[offset(self.rules, day * _DAY), offset(self.rules, (day + 1) * _DAY - 1)] for day in days.tolist()]
        first: Longs
        last: Longs
        first, last = np.array(bounds, dtype=np.int64).reshape(-1, 2).T[:, numbers]
        changed = first != last
        if changed.any():
            first[changed] = [offset(self.rules, second) for second in seconds[changed].tolist()]
        return first


@cache
def time_zone(name: str) -> TimeZone | None:
    """Return a time zone of Java by its name, None for UTC. Raises RefusedError for one that is not known."""
    if name in _UTC_NAMES:
        return None
    meant = _SHORT_IDS.get(name, name)
    fixed = _FIXED.fullmatch(meant)
    if fixed is not None:
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        return TimeZone(name, timezone(-offset if fixed[1] == "-" else offset))
    if meant not in _names():
        raise RefusedError(f"the time zone {name} of its timestamps is not known")
    with (files("tzdata") / "zoneinfo").joinpath(*meant.split("/")).open("rb") as rules:
        return TimeZone(name, ZoneInfo.from_file(rules, key=meant))


def time_in_zone(moment: datetime, zone: str) -> datetime:
    """Return a time on clocks of a zone with this zone, by `java.time`.

    A time that they skip is as much later as they are put forward; of one that they show twice it is the first.

    zone  "Z", an offset as +01:00, or a name

    Raises RefusedError for a name that is not known, and for years that are not between 1 and 9999.
    """
    named = time_zone(f"UTC{zone}" if zone[:1] in ("+", "-") else zone)
    if named is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.replace(tzinfo=named.rules).astimezone(UTC).astimezone(named.rules)
    except OverflowError:
        raise RefusedError(f"{moment} {zone} is not in the years 1 to 9999 in UTC") from None


@cache
def _names() -> frozenset[str]:
    return frozenset((files("tzdata") / "zones").read_text().split())


def _time_zone_offset(rules: tzinfo, second: int) -> int:
    """Return an offset by `java.util.TimeZone`.

    Before 1900 that is today's, without daylight saving time (`sun.util.calendar.ZoneInfo`).
    """
    if second < _FIRST_SECOND:
        return min(_offset(rules, _YEAR_2037 + half_month * 15 * _DAY) for half_month in range(24))
    return _offset(rules, second)


def _offset(rules: tzinfo, second: int) -> int:
    """Return an offset by `java.time` and the time zone database."""
    start, cycle = _YEARS_2400
    second = max(second, _LOCAL_TIMES)
    moment = datetime.fromtimestamp(second if second < start else start + (second - start) % cycle, UTC)
    offset = moment.astimezone(rules).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
