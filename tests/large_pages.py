"""Memory in pages of 2 MB: a fork copies an entry for each page, which took half of the time of short children."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_COLLAPSE = 25  # MADV_COLLAPSE; Linux before 6.1 knows it not, and leaves the pages small
_LARGE = 2 << 20


def use_large_pages() -> None:
    """Lets the memory that this process has now lie in large pages, where most of it does not already."""
    if _kilobytes("AnonHugePages") * 2 > _kilobytes("Anonymous"):
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        found = re.fullmatch(r"(\w+)-(\w+) rw-p \S+ \S+ 0 *(\[heap\])?", line)
        if found is not None:
            start, end = int(found[1], 16), int(found[2], 16)
            for place in range(-(-start // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE):
                advise(place, _LARGE, _COLLAPSE)


def _kilobytes(name: str) -> int:
    found = re.search(rf"^{name}: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) if found is not None else 0
