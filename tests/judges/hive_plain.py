"""Hive's own readers of Parquet and text as judges: input formats and SerDes of Hive 3.1.3 and of Hive 4.0.1."""

from __future__ import annotations

import atexit
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servers.daemon import OPENED
from servers.jars import hive_release

from judges.java_process import JavaProcess, JudgeError
from judges.values import from_json

__all__ = ["PARQUET", "TEXT", "HivePlain", "JudgeError", "hive_plain"]

PARQUET = (
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
TEXT = ("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")


class HivePlain(JavaProcess):
    """The JVM of one release. Use as a context manager; every call raises JudgeError where Hive fails."""

    def __init__(self, generation: int, *, zone: str = "UTC", timeout: float = 300.0) -> None:
        jars = hive_release(f"hive{generation}").jars
        options = (*OPENED, f"-Duser.timezone={zone}")
        super().__init__("PlainJudge", timeout=timeout, sources="java_hive", jars=jars, options=options)

    def rows(
        self,
        path: Path,
        columns: Mapping[str, str],
        form: tuple[str, str],
        properties: Mapping[str, str] | None = None,
        *,
        splits: int = 1,
    ) -> list[tuple[Any, ...]]:
        """The rows of a file or of all files of a directory, in order, in the form of `values`.

        columns     names and types (as the metastore has them) of the table
        form        input format and SerDe: `PARQUET` or `TEXT`
        properties  of the table and of its SerDe
        splits      as which the files are read, about
        """
        given = [f"{key}={_spelt(value)}" for key, value in (properties or {}).items()]
        lines = self.ask(str(path), ",".join(columns), ":".join(columns.values()), *form, str(splits), *given)
        return [from_json(line) for line in lines]


def _spelt(value: str) -> str:
    return re.sub(r"[\x00-\x1f{}]", lambda match: f"{{{ord(match[0])}}}", value)


@functools.cache
def hive_plain(generation: int, zone: str = "UTC") -> HivePlain:
    """Return the one JVM of this process for a generation (3 or 4) and a zone, started by the first call."""
    judge = HivePlain(generation, zone=zone)
    atexit.register(judge.close)
    return judge
