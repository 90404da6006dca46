"""Standard error before a job is loaded: under spark-submit, which joins it to standard output, and its first word."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

_ERROR = 2


def restore_standard_error(environment: Mapping[str, str]) -> None:
    """Lead descriptor 2 to where spark-submit's own standard error goes, if that can be opened.

    Spark's PythonRunner merges the two streams of the driver, so that a line meant for people would stand in the middle
    of a JSON document. The process above the driver still has both. Outside spark-submit nothing is done.
    """
    if "PYSPARK_GATEWAY_PORT" not in environment:
        return
    with suppress(OSError):
        # a log file is appended to, for the JVM writes to it as well
        stream = os.open(f"/proc/{os.getppid()}/fd/{_ERROR}", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        os.dup2(stream, _ERROR)
        os.close(stream)


def tell_starting(what: str) -> None:
    """The first word on a terminal: what follows takes seconds before it has one of its own."""
    if os.isatty(_ERROR):
        print(f"starting {what} …", file=sys.stderr, flush=True)
