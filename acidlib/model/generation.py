"""The generation of Hive whose names and rules of state a table follows."""

from __future__ import annotations

import enum


class Generation(enum.IntEnum):
    """Hive 3.1 (no visibility suffix, no attempt suffix), or Hive 4 (both)."""

    HIVE3 = 3
    HIVE4 = 4
