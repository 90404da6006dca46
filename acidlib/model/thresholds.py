"""The figures above which a table is compacted, each with the source it came from."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The value in force of a setting, by Hive's name and in the unit of its definition, and where it came from.

    Every comparison with one is strict: more than, never equal to.
    """

    key: str
    value: float
    source: str


Thresholds = Mapping[str, Threshold]
"""By key; those whose definition says so (`Key.is_threshold`)."""
