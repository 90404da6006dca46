"""The tables that real Hive wrote, and this project's compactions of copies of them."""

from __future__ import annotations

import functools
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from judges.merge import overlay, partitions

from acidlib.model.requests import CompactionType

FIXTURES = Path(__file__).parents[1] / "fixtures"
OUR_TXN = 9_000_001


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTable:
    """One table or partition as Hive left it. `partition` is its path below the table, "" without partitions."""

    name: str
    generation: int
    write_ids: str
    partition: str

    @property
    def folder(self) -> Path:
        return FIXTURES / f"hive{self.generation}" / self.name

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

    def __str__(self) -> str:
        return f"hive{self.generation}/{self.name}" + (f"/{self.partition}" if self.partition else "")


def hive_tables_by_kind() -> list[tuple[HiveTable, CompactionType]]:
    """Every full-ACID table with both kinds of compaction, but for the minor that there is nothing to merge for."""
    one_delta = hive_table("hive3/j_stream")
    every = itertools.product(hive_tables(), (CompactionType.MAJOR, CompactionType.MINOR))
    return [(table, kind) for table, kind in every if (table, kind) != (one_delta, CompactionType.MINOR)]


@functools.cache
def hive_tables() -> tuple[HiveTable, ...]:
    """Every full-ACID table, partition by partition."""
    found = []
    for file in sorted(FIXTURES.glob("hive[34]/*/fixture.json")):
        about = json.loads(file.read_text())
        if about.get("insert_only"):
            continue
        root = file.parent / "before"
        for path in partitions(root):
            relative = path.relative_to(root).as_posix()
            found.append(
                HiveTable(
                    name=file.parent.name,
                    generation=about["hive"],
                    write_ids=about.get("write_ids", ""),
                    partition="" if relative == "." else relative,
                )
            )
    return tuple(found)


def hive_table(name: str) -> HiveTable:
    """The table (its first partition) of a name like `hive3/a_crud`."""
    return next(table for table in hive_tables() if str(table).startswith(name))


def hive_results(table: HiveTable, kind: str) -> list[str]:
    """Names of the folders with Hive's own results of a kind: `after_major`, `after_major_mr` and so on."""
    return sorted(path.name for path in table.folder.glob(f"after_{kind}*") if table.after(path.name).is_dir())
