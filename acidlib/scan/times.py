"""Dates and times of ORC files, as the readers of a Hive see them.

Source: ORC `TreeReaderFactory.TimestampTreeReader` and `DateTreeReader`, `SerializationUtils.convertBetweenTimezones`,
`CalendarUtils`, in ORC 1.5.8 (Hive 3.1) and 1.8.5 (Hive 4.0). Both Hives read TIMESTAMP as what clocks showed in the
zone of the writer (`useUTCTimestamp`). Hive 3.1 takes all days as they are stored; Hive 4 takes those before 1582-10-15
for days of the Julian calendar, unless the footer says otherwise, and keeps year, month and day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acidlib.acid.names import Generation, Reader
from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.columns import Column, Longs
from acidlib.orc.proto import GREGORIAN_START_DAYS, Calendar
from acidlib.scan.time_zones import time_zone

_DAY, _MICROS = 86_400, 1_000_000
_DAY_NANOS = _DAY * 1_000_000_000
_BASE = 1_420_070_400
"""Seconds of 2015-01-01, from which timestamps are counted."""
_JULIAN_MARCH = 719_470
"""Days from 0000-03-01 to 1970-01-01, in the Julian calendar before its end."""
_FIRST_JULIAN = -719_164
"""0001-01-01 of the Julian calendar."""
_FIRST_DAY = -719_162
"""0001-01-01 of the Gregorian calendar."""
JULIAN_DAY_OF_1970 = 2_440_588
"""The Julian day number of 1970-01-01."""
_MAX_SECONDS = 1 << 42
"""Of any timestamp, as microseconds need 64 bits."""


@dataclass(frozen=True)
class StoredTimes:
    """How the days and times of a stripe are understood.

    zone    of the writer, "UTC" or as its footer says; "" for that of the reader, which is UTC
    julian  days before 1582-10-15 are of the Julian calendar
    """

    zone: str
    julian: bool

    @classmethod
    def of(cls, zone: str, calendar: int, reader: Reader) -> StoredTimes:
        """Return the rule of readers of a Hive for a stripe with this zone in a file of this calendar."""
        return cls(zone=zone, julian=reader is Generation.HIVE4 and calendar != Calendar.PROLEPTIC_GREGORIAN)

    def days(self, stored: Longs) -> Longs:
        """Return days since 1970-01-01 of the proleptic Gregorian calendar."""
        return gregorian_days(stored) if self.julian else stored

    def microseconds(self, column: Column, *, instant: bool) -> Longs:
        """Return microseconds since 1970-01-01 00:00 on a clock of the writer, or of an instant; rounded down."""
        stored, nanos = column.values, _nanoseconds(column.secondary)
        if len(stored) and (int(stored.min()) < -_MAX_SECONDS or int(stored.max()) > _MAX_SECONDS):
            raise CorruptError("a timestamp is outside of the years that any reader knows")
        zone = None if instant else time_zone(self.zone)
        seconds = stored + (_BASE if zone is None else _BASE - zone.midnight_offset(2015))
        # whole seconds were rounded towards zero; a fraction below a millisecond was not seen (ORC-763)
        seconds = seconds - ((seconds < 0) & (nanos > 999_999))
        if zone is not None:
            seconds = seconds + zone.time_zone_offsets(seconds)
        if self.julian and len(seconds):
            days = seconds // _DAY
            seconds = seconds + (self.days(days) - days) * _DAY
        moments: Longs = seconds * _MICROS + nanos // 1000
        return moments


def gregorian_days(days: Longs) -> Longs:
    """Return days of the Julian calendar, before 1582-10-15, and of the Gregorian one, from then on, in the latter."""
    if not len(days) or int(days.min()) >= GREGORIAN_START_DAYS:
        return days
    return np.where(days < GREGORIAN_START_DAYS, _gregorian(days), days)


def moments_of_julian_days(days: Longs, nanos: Longs) -> Longs:
    """Return microseconds since 1970-01-01 of Julian day numbers and nanoseconds of these days, rounded down.

    The nanoseconds may be negative or of several days, which Hive carries over (`NanoTimeUtils.getTimestamp`).

    Raises RefusedError for a moment before 0001-01-01, where readers disagree on the year, and for one that no reader
    knows.
    """
    days = days.astype(np.int64) - JULIAN_DAY_OF_1970 + nanos // _DAY_NANOS
    unknown = days[(days < _FIRST_DAY) | (days > _MAX_SECONDS // _DAY)]
    if len(unknown):
        raise RefusedError(
            f"day {int(unknown[0])} from 1970-01-01 is before 0001-01-01, or of no year that readers know"
        )
    moments: Longs = days * (_DAY * _MICROS) + nanos % _DAY_NANOS // 1000
    return moments


def instants_on_clocks(moments: Longs, zone: str, *, julian: bool, legacy: bool) -> Longs:
    """Return microseconds on clocks of a zone, of instants in microseconds as Parquet's INT96 has them.

    Source: Hive 3.1.3 and 4.0.1 `NanoTimeUtils.getTimestamp`, `TimestampTZUtil.convertTimestampToZone`.

    julian  days before 1582-10-15 are of the Julian calendar, and keep their year, month and day
    legacy  by `java.util.TimeZone` and `SimpleDateFormat` rather than `java.time`
    """
    seconds, micros = moments // _MICROS, moments % _MICROS

    def shifted(seconds: Longs) -> Longs:
        days = seconds // _DAY
        return seconds + (gregorian_days(days) - days) * _DAY if julian else seconds

    if not legacy:
        seconds = shifted(seconds)
    rules = time_zone(zone)
    if rules is not None:
        seconds = seconds + (rules.time_zone_offsets(seconds) if legacy else rules.offsets(seconds))
    if legacy:
        seconds = shifted(seconds)
    on_clocks: Longs = seconds * _MICROS + micros
    return on_clocks


def _gregorian(days: Longs) -> Longs:
    """Return days of the Julian calendar as those of the Gregorian one with the same year, month and day."""
    if int(days.min()) < _FIRST_JULIAN:
        raise RefusedError(f"day {int(days.min())} is before 0001-01-01, where readers disagree on the calendar")
    year = (4 * (days + _JULIAN_MARCH) + 3) // 1461  # years begin with March
    century = year // 100
    shifted: Longs = days - (century - century // 4 - 2)
    return shifted


def _nanoseconds(stored: Longs) -> Longs:
    """Return nanoseconds: the lowest three bits are the zeros left out at the end, less one."""
    zeros = stored & 7
    nanos: Longs = (stored >> 3) * 10 ** np.where(zeros > 0, zeros + 1, 0)
    if len(nanos) and (int(nanos.min()) < 0 or int(nanos.max()) > 999_999_999):
        raise CorruptError("nanoseconds of a timestamp are no fraction of a second")
    return nanos
