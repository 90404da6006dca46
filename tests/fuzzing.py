"""Fuzzing by integer seeds: a fixed number of them, then random ones for as long as ACIDLIB_FUZZ_SECONDS says; and
children that work on them, so that a crash, a hang or a flood of memory is one seed's failure.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from forking import fork

SECONDS = "ACIDLIB_FUZZ_SECONDS"
_SPARE_BYTES = 2 << 30


def seeds(count: int, *, first: int = 0, clock: Callable[[], float] = time.monotonic) -> Iterator[int]:
    """So many from the first on, and then random ones for ACIDLIB_FUZZ_SECONDS."""
    yield from range(first, first + count)
    end = clock() + float(os.environ.get(SECONDS) or 0)
    chosen = random.Random(time.time_ns())
    while clock() < end:
        yield chosen.randrange(first + count, 1 << 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one seed: `died` in a phase of its work, or raised, or `text`."""

    seed: int
    text: str
    phase: str = ""
    died: bool = False
    raised: bool = False


Phase = Callable[[str, float], None]
"""Tells what begins now, and how many seconds it may take."""


def in_children(found: Iterator[int], work: Callable[[int, Phase], str], *, batch: int = 400) -> Iterator[Outcome]:
    """The outcome of every seed, worked on by children of this process, one at a time, each a batch.

    A child may take 2 GiB more than it begins with, and is ended when a phase of a seed takes too long.
    """
    while group := list(islice(found, batch)):
        while group:
            done = 0
            for outcome in _child(group, work):
                yield outcome
                done += 1
            group = group[done:]


def _child(group: list[int], work: Callable[[int, Phase], str]) -> Iterator[Outcome]:
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            with os.fdopen(writing, "w") as answers:
                _work_on(group, work, lambda *fields: print(json.dumps(fields), file=answers, flush=True))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    seed, phase = group[0], "start"
    with os.fdopen(reading) as answers:
        for line in answers:
            kind, seed, text = json.loads(line)
            if kind == "phase":
                phase = text
            else:
                yield Outcome(seed=seed, text=text, phase=phase, raised=kind == "raised")
                seed, phase = -1, "between"
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        yield Outcome(seed=seed, text=f"the child ended with {status}", phase=phase, died=True)


def _work_on(group: list[int], work: Callable[[int, Phase], str], report: Callable[..., None]) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.disable()  # readers of others crash on damaged files, as is expected here
    limit_memory(_SPARE_BYTES)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed in group:

        def phase(name: str, seconds: float, seed: int = seed) -> None:
            report("phase", seed, name)
            signal.setitimer(signal.ITIMER_REAL, seconds)

        try:
            text = work(seed, phase)
        except Exception as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            report("raised", seed, describe(error))
            continue
        signal.setitimer(signal.ITIMER_REAL, 0)
        report("done", seed, text)


def limit_memory(spare_bytes: int) -> None:
    """Let this process map so many bytes more than it has already; a forked child has all that its parent mapped."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + spare_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def resident() -> int:
    """The most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def describe(error: BaseException) -> str:
    """Its kind and text, and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
    return f"{type(error).__name__} at {where}: {error}"[:2000]
