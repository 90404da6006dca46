"""A file on a server: each read is a request, so a small one fetches what will be asked for next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from acidlib.datafiles import kept_range
from acidlib.errors import CorruptError, RetryError
from acidlib.memory import Memory
from acidlib.stores.store import require_inside

FIRST_AHEAD = 64 << 10
"""Bytes that a small read fetches at least: small streams of a stripe lie side by side."""
MAX_BYTES_AHEAD = 4 << 20
END_BYTES = 256 << 10
"""Bytes at the end of a file that are fetched together: footers lie there, the last one is read first."""
_NEAR = 64 << 10
_KEPT = 4
"""Windows that are kept of a file: the one of a stripe's footer has the beginning of the next stripe, too."""


class AheadSource(ABC):
    """A file of a known logical length, with the windows that its last small reads fetched.

    most_ahead  bytes that a small read fetches at most: they double while each begins near the end of the one before
    end_bytes   bytes at the end that are fetched together
    """

    __slots__ = ("_ahead", "_end", "_end_bytes", "_is_open", "_kept", "_most_ahead", "length", "memory", "name")

    def __init__(
        self, name: str, length: int, memory: Memory, *, most_ahead: int = FIRST_AHEAD, end_bytes: int = 0
    ) -> None:
        self.name = name
        self.length = length
        self.memory = memory
        self._most_ahead = most_ahead
        self._end_bytes = end_bytes
        self._ahead = FIRST_AHEAD
        self._end = -1
        self._is_open = True
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        if not self._is_open:
            raise ValueError(f"{self.name} is closed")
        require_inside(self.name, self.length, offset, size)
        if not size:
            return b""
        goes_on = 0 <= offset - self._end <= _NEAR
        self._end = offset + size
        if (known := self._found(offset, size)) is not None:
            return known
        if size >= self._most_ahead:
            return self._fetched(offset, size)
        self._ahead = min(self._most_ahead, 2 * self._ahead) if goes_on else FIRST_AHEAD
        start, end = offset, min(self.length, offset + max(size, self._ahead))
        if offset >= self.length - self._end_bytes:
            start, end = max(0, self.length - self._end_bytes), self.length
        window = self._fetched(start, end - start)
        self._keep(start, window)
        return window[offset - start : offset - start + size]

    def close(self) -> None:
        """Close for good; a second call does nothing."""
        self._is_open = False
        self._kept.clear()

    @abstractmethod
    def _fetched(self, offset: int, size: int) -> bytes:
        """Return a range by one request."""

    def _require_length(self, length: int) -> None:
        """Raise CorruptError for a file of a length that is less than the listed one."""
        if length < self.length:
            raise CorruptError(f"Cannot read {self.name}: it has {length} bytes and was listed with {self.length}")

    def _require_size(self, data: bytes, offset: int, size: int) -> None:
        """Raise RetryError unless an answer has as many bytes as were asked for."""
        if len(data) != size:
            raise RetryError(f"Cannot read {self.name}: {len(data)} of {size} bytes at {offset} came")

    def _found(self, offset: int, size: int) -> bytes | None:
        """Return a range that a window holds all of, if there is one."""
        return kept_range(tuple(self._kept), offset, size)

    def _keep(self, start: int, window: bytes) -> None:
        self._kept.append((start, window))
