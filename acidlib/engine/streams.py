"""Standard error under spark-submit, which runs a Python driver with its standard error joined to standard output."""

from __future__ import annotations

import os
from collections.abc import Mapping

_ERROR = 2


def restore_standard_error(environment: Mapping[str, str]) -> bool:
    """Lead descriptor 2 to where spark-submit's own standard error goes; returns whether it is apart from output.

    Spark's PythonRunner merges the two streams of the driver, so that a line meant for people would stand in the middle
    of a JSON document. The process above the driver still has both. Outside spark-submit nothing is done.
    """
    if "PYSPARK_GATEWAY_PORT" in environment:
        try:
            # a log file is appended to, for the JVM writes to it as well
            stream = os.open(f"/proc/{os.getppid()}/fd/{_ERROR}", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        except OSError:
            return False
        os.dup2(stream, _ERROR)
        os.close(stream)
    return True
