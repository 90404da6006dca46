"""Hive's own readers of Parquet and text as judges: input formats and SerDes of Hive 3.1.3 and of Hive 4.0.1."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.hive_process import HiveProcess
from judges.java_process import JudgeError
from judges.values import from_json

__all__ = ["PARQUET", "TEXT", "HivePlain", "JudgeError", "hive_plain"]

PARQUET = (
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
TEXT = ("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")


class HivePlain(HiveProcess):
    """The JVM of one release. Every call raises JudgeError where Hive fails."""

    main = "PlainJudge"

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


hive_plain = functools.cache(HivePlain)
"""The one JVM of this process for a generation and a zone, started by the first call."""
