"""The content of one ORC column after its streams were decompressed and decoded: no value is interpreted.

Arrays hold the *present* values only, except `present` itself, which has one entry per slot. Those that a kind has no
use for are empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.orc.proto import Kind

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

NO_VALUES: Longs = np.zeros(0, dtype=np.int64)
NO_BYTES: Bytes = np.zeros(0, dtype=np.uint8)

STRING_KINDS = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
INTEGER_KINDS = frozenset({Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE})
TIMESTAMP_KINDS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary:
    """Distinct strings: entry i is data[offsets[i]:offsets[i+1]]; int64 offsets of length entries + 1."""

    offsets: Longs
    data: Bytes

    @property
    def entries(self) -> int:
        """Number of entries."""
        return len(self.offsets) - 1


@dataclass(slots=True, kw_only=True)
class Column:
    """A run of slots of one column.

    kind       the type kind as written
    slots      number of slots, nulls included
    present    bool per slot, or None when every slot has a value
    values     BOOLEAN: uint8 0/1 · BYTE: uint8 bit patterns · SHORT, INT, LONG, DATE: int64 · FLOAT: uint32 and
               DOUBLE: uint64 bit patterns · DECIMAL: low 64 bits of the unscaled value as int64 · TIMESTAMP: int64
               seconds from 2015-01-01 in the writer's zone, as stored · UNION: uint8 tags ·
               strings in dictionary form: int64 entry numbers
    high       DECIMAL: high 64 bits of the two's complement value, or None when all values fit 64 bits
    secondary  DECIMAL: int64 scales · TIMESTAMP: int64 nanoseconds as stored (with their trailing-zero code)
    lengths    direct strings and BINARY: int64 byte lengths · LIST, MAP: int64 element counts
    data       direct strings and BINARY: the bytes, uint8
    dictionary strings in dictionary form, else None
    children   LIST: 1, MAP: 2, STRUCT and UNION: one per child; slots of a child = elements, or present values
    """

    kind: Kind
    slots: int
    present: Mask | None = None
    values: NDArray[Any] = field(default_factory=lambda: NO_VALUES)
    high: Longs | None = None
    secondary: Longs = field(default_factory=lambda: NO_VALUES)
    lengths: Longs = field(default_factory=lambda: NO_VALUES)
    data: Bytes = field(default_factory=lambda: NO_BYTES)
    dictionary: Dictionary | None = None
    children: tuple[Column, ...] = field(default=())

    @property
    def count(self) -> int:
        """Number of present values."""
        return self.slots if self.present is None else int(np.count_nonzero(self.present))
