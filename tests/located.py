"""Places on this machine's disks, for tests."""

from __future__ import annotations

from pathlib import Path

from acidlib.location import Location, local_location


def at(path: Path | str) -> Location:
    """The location of an absolute path."""
    return local_location(str(path))
