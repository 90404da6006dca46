"""Standard error before a job is loaded: under spark-submit, which joins it to standard output, and its first word."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_ERROR = 2
IN_A_CONTAINER = "acidlib-stderr"
"""Beside the streams of a container of YARN: a file with ours."""
_LOG_DIRECTORIES = "LOG_DIRS"
"""Set by YARN for its containers, several with a comma between them."""


def restore_standard_error(environment: Mapping[str, str]) -> None:
    """Lead descriptor 2 to where spark-submit's own standard error goes, if that can be opened.

    Spark's PythonRunner merges the two streams of the driver, so that a line meant for people would stand in the middle
    of a JSON document. The process above the driver still has both. Outside spark-submit nothing is done.

    In a container of YARN the JVM writes to a file from where it is in it, and over what another has appended: there
    our lines go to a file of their own, which YARN keeps with the others.
    """
    if "PYSPARK_GATEWAY_PORT" not in environment:
        return
    parent = Path("/proc", str(os.getppid()))
    with suppress(OSError):
        directory = environment.get(_LOG_DIRECTORIES, "").partition(",")[0]
        if directory and _would_be_overwritten(parent):
            stream = os.open(Path(directory, IN_A_CONTAINER), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        else:
            # a log file is appended to, for the JVM writes to it as well
            stream = os.open(parent / "fd" / str(_ERROR), os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        os.dup2(stream, _ERROR)
        os.close(stream)


def while_loading() -> None:
    """Let an interrupt end the process without a word while a job is loaded: nothing has begun that could be told."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def tell_starting(what: str) -> None:
    """The first word on a terminal: what follows takes seconds before it has one of its own."""
    if os.isatty(_ERROR):
        print(f"starting {what} …", file=sys.stderr, flush=True)


def _would_be_overwritten(process: Path) -> bool:
    """Whether its standard error is a file that it does not append to."""
    if not stat.S_ISREG((process / "fd" / str(_ERROR)).stat().st_mode):
        return False
    lines = (process / "fdinfo" / str(_ERROR)).read_text().splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return not int(flags, base=8) & os.O_APPEND
