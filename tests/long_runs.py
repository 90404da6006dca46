"""What a usual run tries once in some combination, and a long one in all (`tests/run long` sets ACIDLIB_LONG=1)."""

from __future__ import annotations

import os
from typing import TypeVar

Amount = TypeVar("Amount")
LONG = os.environ.get("ACIDLIB_LONG") == "1"


def amount(usual: Amount, *, long: Amount) -> Amount:
    """How much is tried."""
    return long if LONG else usual
