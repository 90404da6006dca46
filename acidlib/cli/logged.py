"""A run whose output goes to a file, for cron: on standard error are its problems alone, a line for each."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO

from acidlib.errors import RetryError, UsageError
from acidlib.service.stopping import SIGNALS, exit_status

OPTION = "--log-file"
# as acidlib.report.progress writes them in each of its formats, and click what is wrong with a command line
_PROBLEM = re.compile(rb'\S+Z (WARNING|ERROR) |warning: |error: |Error: |\{"time": "[^"]*", "level": "(warning|error)"')
_END_SECONDS = 10.0
"""For so long the last lines are waited for, when others may still hold the stream."""


def log_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The words without the option, and the file that it names. UsageError where it names none."""
    rest: list[str] = []
    found = None
    given = iter(words)
    for word in given:
        if word == OPTION or word.startswith(f"{OPTION}="):
            found = word.partition("=")[2] or next(given, "")
            if not found:
                raise UsageError(f"{OPTION} needs the name of a file")
        else:
            rest.append(word)
    return rest, None if found is None else Path(found)


def run_logged(command: Sequence[str], path: Path) -> int:
    """Run a command, append all that it writes to a file, tell its problems here, and return its exit status.

    Signals are passed on to it, and it decides what they mean; what a terminal has sent to both is one signal to it.
    Where it fails and has printed no problem in a line of its own, one is printed: also of a run that was killed, which
    is why a process above it is needed. RetryError for a file that cannot be
    written.
    """
    try:
        log = path.open("ab", buffering=0)
    except OSError as error:
        raise RetryError(f"Cannot write {path}: because the operating system said: {error.strerror}") from error
    sent: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        sent.append(number)
        for process in running:
            process.send_signal(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    with log, subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE) as process:  # noqa: S603 - our own words
        running.append(process)
        for early in sent:
            process.send_signal(early)
        assert process.stderr is not None
        printed: list[bytes] = []
        copier = Thread(target=_copy, args=(process.stderr, log, printed), daemon=True)
        copier.start()
        ended = process.wait()
        status = ended if ended >= 0 else exit_status(-ended)
        copier.join(_END_SECONDS)
        if status and not printed:
            _tell(f"error: the run ended with exit status {status}; {path} has what it said\n".encode())
        return status


def _copy(stream: IO[bytes], log: IO[bytes], printed: list[bytes]) -> None:
    """All lines to the log, and problems to standard error; of a log on a full disk the rest is not kept."""
    for line in stream:
        try:
            log.write(line)
        except OSError as error:
            if not printed:
                printed.append(b"")
                _tell(f"error: Cannot write the log: {error.strerror}\n".encode())
        if _PROBLEM.match(line):
            printed.append(line)
            _tell(line)


def _tell(line: bytes) -> None:
    """Write a line to standard error; where the terminal has gone, the log alone has it."""
    with suppress(OSError):
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
