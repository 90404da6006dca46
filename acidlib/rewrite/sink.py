"""A new data file that is whole, or not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from acidlib.orc.source import DataFiles, SinkFile
from acidlib.points import Point, passing


@contextmanager
def new_file(data: DataFiles, path: str, *, durable: bool = True) -> Iterator[SinkFile]:
    """A new data file: gone when the block raises; else durable, unless it only lasts until another is made of it."""
    file = data.create(path)
    passing(Point.CREATED)
    with dropped_if_wrong(file):
        yield file
        file.close(durable=durable)
        passing(Point.CLOSED)


@contextmanager
def dropped_if_wrong(file: SinkFile) -> Iterator[None]:
    """Remove the file when the block raises."""
    try:
        yield
    except BaseException:
        file.abort()
        raise
