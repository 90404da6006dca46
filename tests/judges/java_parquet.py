"""Java's Parquet library (from pyspark's jars) as a judge: rows, page index, bloom filters, splits; and as a writer."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from judges.java_process import JavaProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search brought: ``left``, the rows of the row groups or pages that had to be read, and the rows found."""

    left: int
    rows: tuple[str, ...]


class JavaParquet(JavaProcess):
    """The JVM. Use as a context manager; every call raises JudgeError if Java cannot read the file."""

    def __init__(self) -> None:
        super().__init__("ParquetJudge")

    def rows(self, path: Path) -> list[str]:
        """Every row as a line of text."""
        return self.ask("rows", str(path))[1:]

    def find(self, path: Path, mode: str, column: str, value: object) -> Found:
        """The rows with a value in the column ``id`` (int64) or another (text).

        ``mode``: pages, by the page index alone; bloom, by bloom filters alone; plain, by neither.
        """
        left, *rows = self.ask("find", str(path), mode, column, str(value))
        return Found(left=int(left), rows=tuple(rows))

    def splits(self, path: Path, size: int) -> list[int]:
        """How many rows a task gets of each split of ``size`` bytes."""
        return [int(rows) for rows in self.ask("splits", str(path), str(size))]

    def write(
        self,
        path: Path,
        first: int,
        count: int,
        *,
        group: int = 300,
        page: int = 50,
        codec: str = "SNAPPY",
        version: str = "PARQUET_1_0",
        dictionary: bool = True,
        bloom: bool = True,
    ) -> None:
        """A file of rows n from ``first`` on: id 10 n; name "name %06d", missing where n % 7 is 3; INT96; a list."""
        options = (group, page, codec, version, str(dictionary).lower(), str(bloom).lower())
        self.ask("write", str(path), str(first), str(count), *map(str, options))


shared = functools.cache(JavaParquet)
"""The one JVM of this process, started by the first who asks."""
