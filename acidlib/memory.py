"""The memory that a task may take for what it decodes: a small file can state, or inflate to, any amount of it.

Sizes are checked before anything is allocated by them, and while a stream is inflated. So a file that was made to
exhaust a worker, or is damaged, ends as an error of its own place.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acidlib.errors import OverMemoryError

TASK_MEMORY = "acidlib.task.memory"
"""The name of the setting that states `Memory.limit`."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The most memory that what is decoded at a time may take: a footer, the deletes of a bucket, a stripe's columns.

    limit  bytes
    """

    limit: int

    def excess(self, needed: int) -> str | None:
        """Return why so many bytes are too many; None where they are not."""
        if needed <= self.limit:
            return None
        return f"decoded it takes at least {needed:,} bytes of memory, and {TASK_MEMORY} is {self.limit:,}"

    def require(self, needed: int, what: str) -> None:
        """Raise OverMemoryError for `what`, such as a file, if decoding it takes more than the limit."""
        if (reason := self.excess(needed)) is not None:
            raise OverMemoryError(f"Cannot read {what}: {reason}")

    @property
    def barrier(self) -> int:
        """The bytes that a process may take for a task of libraries that know no limit: twice it, and some for them."""
        return 2 * self.limit + _WORKINGS


_WORKINGS = 256 << 20
"""Bytes of stacks, buffers and what allocators keep, which nothing that is decoded is in."""

DEFAULT_MEMORY = Memory(2 << 30)
"""What the setting states unless it is set."""

DRIVER_MEMORY = Memory(64 << 20)
"""Of a tail that the driver of many places reads by itself, in one of its threads; tasks read larger ones."""


class Room:
    """The memory that is left for columns that are decoded one after the other and held together."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._taken = 0

    def take(self, size: int) -> None:
        """Count bytes before they are allocated. Raises OverMemoryError, with the reason alone, for too many."""
        self._taken += size
        if (reason := self._memory.excess(self._taken)) is not None:
            raise OverMemoryError(reason)


@contextmanager
def memory_limited(memory: Memory, what: str) -> Iterator[None]:
    """Let this process, which does nothing else in the block, take no more than the memory's barrier.

    A library that asks for more gets none. Raises OverMemoryError for `what` where it says so; one that does not notice
    ends the process. What an allocator has reserved and not used, a gibibyte of Arrow's, counts as a part of it unless
    it is more. Source: RLIMIT_DATA in getrlimit(2); VmData, which it is compared with, and RssAnon in proc(5).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    reserved, used = _taken()
    most = max(reserved + _WORKINGS, used + memory.barrier)
    limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min((most, *limits)), hard))
    try:
        yield
    except MemoryError:
        raise OverMemoryError(f"Cannot read {what}: {over_barrier_reason(memory)}") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def over_barrier_reason(memory: Memory) -> str:
    """Return why a task did not end that took more than the barrier."""
    return f"it took more than {memory.barrier:,} bytes of memory, and {TASK_MEMORY} is {memory.limit:,}"


def _taken() -> tuple[int, int]:
    """Return the bytes that this process has reserved for data, and those that it uses."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    reserved, used = (int(status[name].split()[0]) << 10 for name in ("VmData", "RssAnon"))
    return reserved, used
