"""Hive's own reading of partition keys and evaluation of conditions as judges: those of Hive 3.1.3 and of 4.0.1."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from judges.hive_process import HiveProcess
from judges.java_process import JudgeError

__all__ = ["HiveConditions", "JudgeError", "hive_conditions"]


class HiveConditions(HiveProcess):
    """The JVM of one release."""

    main = "ConditionJudge"

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


hive_conditions = functools.cache(HiveConditions)
"""The one JVM of this process for a generation and a zone, started by the first call."""
