"""The services of a run without Spark: all tests of the engine share them."""

from __future__ import annotations

import itertools

import pytest
from runners import LocalRunner

from acidlib.config.settings import default_settings
from acidlib.execute.services import Services
from acidlib.report.progress import TerminalProgress
from acidlib.stores.stores import Stores


@pytest.fixture
def services() -> Services:
    """On local files, with built-in settings, at a time that stands still."""
    numbers = itertools.count()
    return Services(
        stores=Stores(),
        runner=LocalRunner(lambda: str(next(numbers))),
        settings=default_settings(),
        host="host",
        worker_id="acidlib-host-0123456789abcdef",
        clock=lambda: 2_000_000_000.0,
        pause=lambda seconds: None,
        unique=lambda: str(next(numbers)),
        progress=TerminalProgress(),
    )
