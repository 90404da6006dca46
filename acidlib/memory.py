"""The memory that a task may take for what it decodes: a small file can state, or inflate to, any amount of it.

Sizes are checked before anything is allocated by them, and while a stream is inflated. So a file that was made to
exhaust a worker, or is damaged, ends as an error of its own place.
"""

from __future__ import annotations

from dataclasses import dataclass

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
