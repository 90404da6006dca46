"""A new data file that is whole, or not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from acidlib.orc.source import DataFiles, SinkFile


@contextmanager
def new_file(data: DataFiles, path: str) -> Iterator[SinkFile]:
    """A new data file: durable when the block ends, gone when it raises."""
    file = data.create(path)
    with dropped_if_wrong(file):
        yield file
        file.close()


@contextmanager
def dropped_if_wrong(file: SinkFile) -> Iterator[None]:
    """Remove the file when the block raises."""
    try:
        yield
    except BaseException:
        file.abort()
        raise
