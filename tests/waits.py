"""Waiting for what another thread, process or server does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 120) -> float:
    """Waits for a condition; how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, threading.enumerate()
        time.sleep(0.005)
    return time.monotonic() - began
