"""Named points of a run, at which a test has the process killed to see that nothing is lost.

The variable `ACIDLIB_TEST_KILL_AT` names the point; without it, reaching one costs a look into the environment. A
number behind a colon says at which time of reaching it, `a stripe is written:2` for example; 1 if it is left out.
`ACIDLIB_TEST_STOP_AT` stops the process there until it is sent SIGCONT, like a machine that was suspended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from enum import StrEnum

KILL_AT = "ACIDLIB_TEST_KILL_AT"
STOP_AT = "ACIDLIB_TEST_STOP_AT"


class Point(StrEnum):
    """Points of a run by what has just happened, in the order of the run."""

    QUEUED = "the initiator has queued a request"
    TAKEN = "a request is taken"
    CLAIMED = "its place is claimed"
    STARTED = "its mark is known"
    STAGED = "the staging directory is made"
    CREATED = "a file is created"
    WRITTEN = "a stripe is written"
    CLOSED = "a file is closed"
    PROVED = "a file is proved"
    ACCEPTED = "the files are in their directories"
    VERIFIED = "the result reads as what it was made of"
    SEALED = "the version file is written"
    CHECKED = "all is still ours"
    RECORDED = "the publication of a pair is recorded"
    FIRST_RENAMED = "the first directory has its name"
    SECOND_RENAMED = "the second directory has its name"
    UNRECORDED = "the record of the publication is removed"
    PUBLISHED = "the staging directory is removed"
    MARKED = "the request is marked as compacted"
    COMMITTED = "the transaction is committed"
    ENDED = "the queue knows how it ended"
    CLEANING_CLAIMED = "the place is claimed for cleaning"
    CLEANING_PLANNED = "what may go is known"
    REMOVED_ONE = "a directory is removed"
    REMOVED_HIDDEN = "a directory that was out of sight is removed"
    REMOVED_ALL = "everything obsolete is removed"
    LITTER_REMOVED = "litter is removed"
    CLEANED = "the request is marked as cleaned"
    UNDO_RECORDED = "what is taken back is recorded"
    UNDO_MOVED = "a directory is taken back"
    UNDO_ASIDE = "all that is taken back has left together"
    UNDONE = "the request is marked as undone"


_SIGNALS = {KILL_AT: signal.SIGKILL, STOP_AT: signal.SIGSTOP}
_reached: Counter[tuple[str, Point]] = Counter()


def reach(point: Point) -> None:
    """Kill or stop the process if a test names this point; else do nothing."""
    for variable, number in _SIGNALS.items():
        name, _, time = os.environ.get(variable, "").partition(":")
        if name == point:
            _reached[variable, point] += 1
            if _reached[variable, point] == int(time or 1):
                signal.pthread_kill(threading.get_ident(), number)  # or this thread would go on until another stops
