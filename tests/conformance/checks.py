"""What the judges say about files that this project wrote."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from judges import exact_stats
from judges import orc_tail as o
from judges.column_stats import Column, Policy
from judges.java_orc import JavaOrc

_REALS = (o.FLOAT, o.DOUBLE)
_TEXT = (o.STRING, o.VARCHAR, o.CHAR)
_MAX_BOUND = 1024


class _Check(exact_stats._Check):
    """Exact statistics, and of those that are missing only the ones that have to be, or that a part lacks."""

    def __init__(self, path: Path | bytes, policy: Policy) -> None:
        super().__init__(path, policy)
        self._without: dict[str, set[int]] = {"group": set(), "stripe": set(), "file": set()}

    def one(self, where: str, message: o.Message, column: Column, timezone: str) -> None:
        report = self.report
        said, absent = len(report.problems), report.absent
        super().one(where, message, column, timezone)
        excused = self._excused(where, column.type.column, absent=report.absent > absent)
        copied_nan = not self.policy.nan_absent and column.type.kind in _REALS and math.isnan(column.real_sum)
        if report.absent > absent and not excused and not copied_nan and not _may_be_absent(column, timezone):
            self.say(f"{where}: no typed statistics, though all of {column.count} values are known")
        if column.type.kind in _REALS and not math.isfinite(column.real_sum):
            # a sum that is not finite tells nothing and is left out
            report.problems[said:] = [text for text in report.problems[said:] if not text.endswith(": no sum")]

    def _excused(self, where: str, column: int, *, absent: bool) -> bool:
        """Whether a row group of this stripe, or a stripe of this file, lacks them; parts come before the whole."""
        level = "file" if where.startswith("file") else "group" if "row group" in where else "stripe"
        parts = {"group": set[int](), "stripe": self._without["group"], "file": self._without["stripe"]}[level]
        found = column in parts
        if level == "stripe":
            parts.discard(column)
        if absent:
            self._without[level].add(column)
        return found


def _may_be_absent(column: Column, timezone: str) -> bool:
    """Statistics that a reader would draw a false conclusion from are left out whole."""
    kind = column.type.kind
    if not column.count or column.nans:
        return True
    if kind == o.TIMESTAMP:
        return timezone not in ("UTC", "GMT")
    if kind in _TEXT:
        bounds: tuple[bytes, ...] = (column.low, column.high)
        # Java compares bounds as UTF-16, which is another order from U+E000 on
        return any(len(b) > _MAX_BOUND or max(b.decode(), default="") >= "\ue000" for b in bounds)
    return False


def statistics_report(path: Path, generation: int, *, copied: bool = False) -> exact_stats.Report:
    """Every statistic and the bookkeeping of a file. `copied`: its stripes may carry another writer's row index."""
    policy = Policy(generation=generation)
    if copied:
        policy = replace(policy, nan_absent=False, suppress_present=False, exact_nulls=False, collections=False)
    return _Check(path, policy).run()


def statistics_problems(path: Path, generation: int, *, copied: bool = False) -> list[str]:
    """What is wrong with the statistics of a file."""
    return statistics_report(path, generation, copied=copied).problems


def java_problems(java: JavaOrc, path: Path, *, max_groups: int = 4) -> list[str]:
    """What Java's reader finds wrong: values, seeks to row groups, rows lost to search arguments at some of them."""
    found = list(java.differences(path))
    if not o.read_orc(path).rows:
        return found
    found += java.seek_check(path).problems
    for pruning in (*java.sarg_check(path, max_groups=max_groups), *java.sarg_check_ids(path, max_groups=max_groups)):
        found += [f"{pruning.column}: {lost}" for lost in pruning.lost]
    return found
