"""The tables that real Hive wrote, and this project's compactions of copies of them."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

from judges.fixtures import ROOT as FIXTURES
from judges.fixtures import Fixture, fixtures
from judges.merge import overlay, partitions

from acidlib.model.requests import CompactionType

__all__ = ["FIXTURES", "HiveTable", "hive_results", "hive_table", "hive_tables", "hive_tables_by_kind"]

OUR_TXN = 9_000_001


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTable(Fixture):
    """One table or partition as Hive left it. `partition` is its path below the table, "" without partitions."""

    partition: str

    @property
    def before(self) -> Path:
        return self.folder / "before" / self.partition

    @property
    def visibility_txn(self) -> int | None:
        """Results of Hive 4's kind carry the transaction of the compactor."""
        return OUR_TXN if self.generation == 4 else None

    def after(self, what: str) -> Path:
        """The directories that Hive's own compaction added."""
        return self.folder / what / self.partition

    def copy(self, target: Path, *after: str) -> Path:
        """The table before any compaction, with the results of Hive's own laid over it."""
        return overlay(target, self.before, *(self.after(what) for what in after))

    def hive_rows(self) -> Counter[str]:
        """What SELECT returned of this partition; its keys come last."""
        keys = "".join(f"\t{part.partition('=')[2]}" for part in self.partition.split("/") if part)
        return Counter({line: count for line, count in Fixture.hive_rows(self).items() if line.endswith(keys)})

    def hive_row_ids(self) -> Counter[tuple[int, ...]] | None:
        """ROW__ID of each row, as Hive returned it; None where nobody asked."""
        path = self.folder / ("row_ids.tsv" if self.generation == 3 else "rowids.tsv")
        if not path.exists():
            return None
        cells = (line.split("\t") for line in self._lines(path))
        return Counter(tuple(map(int, row[:3])) for row in cells if row[3].startswith(self.partition))

    def __str__(self) -> str:
        return self.name + (f"/{self.partition}" if self.partition else "")


def hive_tables_by_kind() -> list[tuple[HiveTable, CompactionType]]:
    """Every full-ACID table with both kinds of compaction, but for the minor that there is nothing to merge for."""
    one_delta = hive_table("hive3/j_stream")
    every = itertools.product(hive_tables(), (CompactionType.MAJOR, CompactionType.MINOR))
    return [(table, kind) for table, kind in every if (table, kind) != (one_delta, CompactionType.MINOR)]


@functools.cache
def hive_tables() -> tuple[HiveTable, ...]:
    """Every full-ACID table, partition by partition."""
    found = []
    for fixture in fixtures():
        root, about = fixture.folder / "before", {field.name: getattr(fixture, field.name) for field in fields(fixture)}
        paths = (path.relative_to(root).as_posix() for path in partitions(root))
        found += [HiveTable(**about, partition="" if path == "." else path) for path in paths]
    return tuple(found)


def hive_table(name: str) -> HiveTable:
    """The table (its first partition) of a name like `hive3/a_crud`."""
    return next(table for table in hive_tables() if str(table).startswith(name))


def hive_results(table: HiveTable, kind: str) -> list[str]:
    """Names of the folders with Hive's own results of a kind: `after_major`, `after_major_mr` and so on."""
    return sorted(path.name for path in table.folder.glob(f"after_{kind}*") if table.after(path.name).is_dir())
