"""Hive's own readers of ACID directories as judges: OrcInputFormat of Hive 3.1.3 and of Hive 4.0.1.

One JVM per generation serves a whole test session. It needs the jars of the release (``servers.jars``), no server.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.hive_process import HiveProcess
from judges.java_process import JudgeError
from judges.values import from_json

__all__ = ["POSITIONAL", "HiveReader", "JudgeError", "hive_reader"]

POSITIONAL = "orc.force.positional.evolution"
ALL_WRITE_IDS = f"default.t:{2**62}:{2**63 - 1}::"
Row = tuple[int, int, int, tuple[Any, ...]]


class HiveReader(HiveProcess):
    """The JVM of one release. Every call raises JudgeError where Hive fails."""

    main = "HiveJudge"

    def rows(
        self,
        location: Path,
        columns: Mapping[str, str],
        *,
        write_ids: str = "",
        vectorized: bool = False,
        predicate: str = "",
        positional: bool | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> list[Row]:
        """The rows of one table or partition directory, sorted: (write id, bucket property, row id, values).

        location     holds bases, deltas and original files
        columns      names and types (as the metastore has them) that the table has now
        write_ids    text of the valid list; blank for all ids
        vectorized   by VectorizedOrcAcidRowBatchReader; else by OrcRawRecordMerger, row by row
        predicate    ``column operator literal`` (eq, lt, gt, null) by which Hive may leave rows out, but need not
        positional   ``orc.force.positional.evolution``; None for what the release has where nobody sets it
        """
        given = {
            POSITIONAL: str(self._generation == 4 if positional is None else positional).lower(),
            **(settings or {}),
        }
        types = ":".join(columns.values())
        texts = [str(location), write_ids or ALL_WRITE_IDS, ",".join(columns), types, predicate]
        lines = self.ask("batches" if vectorized else "rows", *texts, *(f"{k}={v}" for k, v in given.items()))
        return sorted((from_json(line) for line in lines), key=lambda row: (row[:3], repr(row[3])))


hive_reader = functools.cache(HiveReader)
"""The one JVM of this process for a generation and a zone, started by the first call."""
