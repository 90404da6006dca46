"""Lines on standard error past all buffers, beside the bar that may stand there."""

from __future__ import annotations

import os
from contextlib import suppress

WIPE = "\r\x1b[2K"
"""What a terminal takes for: to the begin of the line, and wipe it out."""
BARS: set[object] = set()
"""The bars that stand on the terminal: at most one, unless threads of a program run several jobs."""


def above_bar() -> str:
    """Return what a line begins with, so that it does not stand behind a bar, which is drawn again below it."""
    return WIPE if BARS else ""


def write_line(line: str) -> None:
    """Write a line: another thread may be in the middle of one."""
    write_bytes(f"{line}\n".encode(errors="replace"))


def write_bytes(line: bytes) -> None:
    """Write a line, with its end, of another program."""
    with suppress(OSError):
        os.write(2, above_bar().encode() + line)
