"""What a usual run tries once in some combination, and a long one in all (`tests/run long` sets ACIDLIB_LONG=1)."""

from __future__ import annotations

import os
from typing import TypeVar

import pytest

Amount = TypeVar("Amount")
LONG = os.environ.get("ACIDLIB_LONG") == "1"
in_a_long_run = pytest.mark.skipif(not LONG, reason="in a long run only")
"""What a test is about, others are about as well, or find out at once."""


def amount(usual: Amount, *, long: Amount) -> Amount:
    """How much is tried."""
    return long if LONG else usual
