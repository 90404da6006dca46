"""The figures above which a table is compacted, each with the source it came from.

Keys, defaults and units are Hive's: `hive.compactor.*` of `HiveConf`, and the table properties
`compactorthreshold.<key>` of `Initiator`, which knows them for the number and the share of deltas only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from acidlib.errors import RefusedError

DELTA_NUM_KEY = "hive.compactor.delta.num.threshold"
DELTA_PCT_KEY = "hive.compactor.delta.pct.threshold"
MAX_NUM_DELTA_KEY = "hive.compactor.max.num.delta"
ABORTED_TXN_KEY = "hive.compactor.abortedtxn.threshold"
ABORTED_TXN_TIME_KEY = "hive.compactor.aborted.txn.time.threshold"
TABLE_PREFIX = "compactorthreshold."

DEFAULT_SOURCE = "default"
TABLE_SOURCE = "table property"

_T = TypeVar("_T", int, float)
_TIME = re.compile(r"(-?[0-9]+)\s*([a-z]*)")
_MILLISECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
    **dict.fromkeys(("", "h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Every comparison with these is strict: more than, never equal to.

    `delta_num` is a number of directories, `delta_pct` a share of the base's bytes (0.1 = a tenth), `max_num_delta` and
    `aborted_txn_num` are numbers, `aborted_txn_time_ms` is in milliseconds (negative = off). `sources` names where each
    value that is not a default came from, as (key, source) pairs.
    """

    delta_num: int = 10
    delta_pct: float = 0.1
    max_num_delta: int = 500
    aborted_txn_num: int = 1000
    aborted_txn_time_ms: int = 12 * 3_600_000
    sources: tuple[tuple[str, str], ...] = ()

    def source_of(self, key: str) -> str:
        """Where the value of a key (its Hive name) came from; `default` for the built-in one."""
        return dict(self.sources).get(key, DEFAULT_SOURCE)

    def override(self, values: Mapping[str, str], source: str) -> Thresholds:
        """These thresholds with those of `values` (Hive's keys, other keys ignored) taken over from a named source.

        Raises RefusedError for a value that does not parse.
        """
        taken = [key for key in _KEYS if key in values]
        return replace(
            self,
            delta_num=_take(values, DELTA_NUM_KEY, _parse_int, source, self.delta_num),
            delta_pct=_take(values, DELTA_PCT_KEY, _parse_float, source, self.delta_pct),
            max_num_delta=_take(values, MAX_NUM_DELTA_KEY, _parse_int, source, self.max_num_delta),
            aborted_txn_num=_take(values, ABORTED_TXN_KEY, _parse_int, source, self.aborted_txn_num),
            aborted_txn_time_ms=_take(values, ABORTED_TXN_TIME_KEY, parse_time_ms, source, self.aborted_txn_time_ms),
            sources=(
                *(pair for pair in self.sources if pair[0] not in taken),
                *((key, source) for key in taken),
            ),
        )

    def for_table(self, properties: Mapping[str, str]) -> Thresholds:
        """These thresholds with the overrides in a table's properties (`compactorthreshold.<key>`)."""
        values = {
            key: properties[TABLE_PREFIX + key]
            for key in (DELTA_NUM_KEY, DELTA_PCT_KEY)
            if TABLE_PREFIX + key in properties
        }
        return self.override(values, TABLE_SOURCE)


def parse_time_ms(text: str, key: str, source: str) -> int:
    """Milliseconds of Hive's time text (`12h`, `43200s`; a plain number is in hours, the unit of the only such key)."""
    match = _TIME.fullmatch(text.strip().lower())
    if match is None or match[2] not in _MILLISECONDS:
        raise _wrong(text, key, source, "a time such as 12h")
    return math.floor(int(match[1]) * _MILLISECONDS[match[2]])


def _parse_int(text: str, key: str, source: str) -> int:
    digits = text.strip()
    if not re.fullmatch(r"-?[0-9]{1,10}", digits):
        raise _wrong(text, key, source, "a whole number")
    return int(digits)


def _parse_float(text: str, key: str, source: str) -> float:
    try:
        number = float(text.strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _wrong(text, key, source, "a number")
    return number


def _wrong(text: str, key: str, source: str, wanted: str) -> RefusedError:
    return RefusedError(f"Cannot use {key}={text} from {source}: because it is not {wanted}")


_KEYS = (DELTA_NUM_KEY, DELTA_PCT_KEY, MAX_NUM_DELTA_KEY, ABORTED_TXN_KEY, ABORTED_TXN_TIME_KEY)


def _take(values: Mapping[str, str], key: str, parse: Callable[[str, str, str], _T], source: str, current: _T) -> _T:
    return parse(values[key], key, source) if key in values else current
