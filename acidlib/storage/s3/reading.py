"""Reading an object at any place, with few requests: each costs about as much as a megabyte."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from acidlib.errors import CorruptError, RetryError
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.errors import ChangedError

END_BYTES = 256 << 10
"""What is fetched of the end of an object at once: footers lie there, and they are read from the last one forward."""

FIRST_AHEAD, MOST_AHEAD = 64 << 10, 4 << 20
"""What is fetched by a small read; it doubles while reads go on where the last one ended."""

MOST_KEPT = 64 << 20
"""Bytes that the sources of one task keep together."""

_NEAR = 64 << 10


class Windows:
    """Ranges of objects that were fetched, of all sources of a task; those not used for longest go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0

    def find(self, path: str, offset: int, size: int, starts: list[int]) -> bytes | None:
        """A range of an object, if one window that starts at one of `starts` has it; starts that are gone leave."""
        for start in list(starts):
            window = self._kept.get((path, start))
            if window is None:
                starts.remove(start)
            elif start <= offset and offset + size <= start + len(window):
                self._kept.move_to_end((path, start))
                return window[offset - start : offset - start + size]
        return None

    def keep(self, path: str, start: int, window: bytes) -> None:
        """Keep a window; others may go."""
        self.drop(path, start)
        self._kept[path, start] = window
        self._bytes += len(window)
        while self._bytes > MOST_KEPT and len(self._kept) > 1:
            self.drop(*next(iter(self._kept)))

    def drop(self, path: str, start: int) -> None:
        """Forget a window."""
        self._bytes -= len(self._kept.pop((path, start), b""))


class S3Source:
    """An object of a known logical length. All that is read of it is of the version that the first request saw."""

    def __init__(self, bucket: Bucket, path: str, length: int, windows: Windows, version: str | None = None) -> None:
        self.name = path
        self.length = length
        self.bucket = bucket
        self.key = bucket.key(path)
        self._windows = windows
        self._version = version
        self._starts: list[int] = []
        self._ahead = FIRST_AHEAD
        self._end = -1

    @property
    def version(self) -> str:
        """The ETag of the object; one request if nothing was read of it yet."""
        if self._version is None:
            with self.bucket.raising("read", self.name):
                found = self.bucket.client.head_object(Bucket=self.bucket.name, Key=self.key)
            self._check_size(found["ContentLength"])
            self._version = found["ETag"]
        return self._version

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        self.check_range(offset, size)
        if not size:
            return b""
        found = self._windows.find(self.name, offset, size, self._starts)
        if found is None:
            found = self._fetch(offset, size)
        self._end = offset + size
        return found

    def check_range(self, offset: int, size: int) -> None:
        """CorruptError when a range is not inside the logical length."""
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")

    def close(self) -> None:
        """Forget what was kept of it."""
        for start in self._starts:
            self._windows.drop(self.name, start)
        self._starts.clear()

    def _fetch(self, offset: int, size: int) -> bytes:
        if size >= MOST_AHEAD:
            return self._get(offset, size)
        goes_on = 0 <= offset - self._end <= _NEAR
        self._ahead = min(MOST_AHEAD, 2 * self._ahead) if goes_on else FIRST_AHEAD
        start, end = offset, min(self.length, offset + max(size, self._ahead))
        if offset >= self.length - END_BYTES:
            start, end = max(0, self.length - END_BYTES), self.length
        window = self._get(start, end - start)
        self._windows.keep(self.name, start, window)
        if start not in self._starts:
            self._starts.append(start)
        return window[offset - start : offset - start + size]

    def _get(self, offset: int, size: int) -> bytes:
        """A range by one request."""
        condition: Any = {} if self._version is None else {"IfMatch": self._version}
        try:
            with self.bucket.raising("read", self.name):
                answer, data = self.bucket.get(self.name, Range=f"bytes={offset}-{offset + size - 1}", **condition)
        except ChangedError as error:
            raise self._replaced() from error
        except RetryError as error:
            if "InvalidRange" in str(error):
                raise CorruptError(
                    f"Cannot read {self.name}: because it has less than {offset + 1} bytes and was listed with "
                    f"{self.length}"
                ) from error
            raise
        self._check_size(int(answer["ContentRange"].rpartition("/")[2]))
        if self._version is None:
            self._version = answer["ETag"]
        if len(data) != size:
            raise CorruptError(f"Cannot read {self.name}: because it has fewer bytes than it says")
        return data

    def _check_size(self, size: int) -> None:
        if size < self.length:
            raise CorruptError(
                f"Cannot read {self.name}: because it has {size} bytes and was listed with {self.length}"
            )

    def _replaced(self) -> CorruptError:
        return CorruptError(f"Cannot read {self.name}: because another object took its place while it was read")
