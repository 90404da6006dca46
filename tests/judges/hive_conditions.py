"""Hive's own reading of partition keys and evaluation of conditions as judges: those of Hive 3.1.3 and of 4.0.1."""

from __future__ import annotations

import atexit
import functools
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from servers.daemon import OPENED
from servers.jars import hive_release

from judges.java_process import JavaProcess, JudgeError

__all__ = ["HiveConditions", "JudgeError", "hive_conditions"]


class HiveConditions(JavaProcess):
    """The JVM of one release. Use as a context manager."""

    def __init__(self, generation: int, *, zone: str = "UTC", timeout: float = 300.0) -> None:
        jars = hive_release(f"hive{generation}").jars
        options = (*OPENED, f"-Duser.timezone={zone}")
        super().__init__("ConditionJudge", timeout=timeout, sources="java_hive", jars=jars, options=options)

    def keys(self, hive_type: str, texts: Sequence[str]) -> list[tuple[Any, Any]]:
        """Each text as a partition key: the value in batches and pruning, and that in rows, in the form of `values`.

        An error of Hive is its text, with "Exception" or "Error" in it.
        """
        lines = self.ask("keys", hive_type, *map(quote, texts))
        return [tuple(json.loads(line)) for line in lines]

    def conditions(
        self, columns: dict[str, str], rows: Sequence[Sequence[str | None]], conditions: Sequence[str]
    ) -> list[list[bool | None] | str]:
        """The value of each condition for each row; an error of Hive is its text.

        columns  names and types, as the metastore has them
        rows     values as texts, which Hive converts
        """
        fields = ["" if value is None else f"={quote(value)}" for row in rows for value in row]
        texts = [*fields, *map(quote, conditions)]
        lines = self.ask("conditions", ",".join(columns), ":".join(columns.values()), str(len(rows)), *texts)
        return [json.loads(line) for line in lines]


@functools.cache
def hive_conditions(generation: int, zone: str = "UTC") -> HiveConditions:
    """Return the one JVM of this process for a generation (3 or 4) and a zone, started by the first call."""
    judge = HiveConditions(generation, zone=zone)
    atexit.register(judge.close)
    return judge
