"""Compactions of Hive's tables, made once and looked at by many tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from compaction import Compacted, bucket_files, compact_directory
from judges import merge
from judges.java_orc import JavaOrc, shared

from acidlib.model.requests import CompactionType
from conformance.hive_tables import HiveTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A compacted copy of a table, and what a reader saw before."""

    table: HiveTable
    location: Path
    before: list[merge.Row]
    compacted: Compacted

    @property
    def files(self) -> list[Path]:
        """The data files of the result."""
        return bucket_files(self.location, self.compacted.directories)

    def rows(self) -> list[merge.Row]:
        """What a strict reader sees now."""
        return merge.read(self.location, self.table.write_ids, generation=self.table.generation, strict=True)


Compaction = Callable[[HiveTable, CompactionType], Case]


@pytest.fixture(scope="session")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Compaction:
    """A compacted copy of a table; not to be changed by a test. Raises compaction.RefusedPlanError."""
    made: dict[tuple[HiveTable, CompactionType], Case | Exception] = {}

    def compact(table: HiveTable, kind: CompactionType) -> Case:
        key = table, kind
        if key not in made:
            try:
                made[key] = _compact(table, kind, tmp_path_factory.mktemp(table.folder.name) / "table")
            except Exception as error:
                made[key] = error
        found = made[key]
        if isinstance(found, Exception):
            raise found
        return found

    return compact


@pytest.fixture(scope="session")
def java() -> JavaOrc:
    """Java's ORC reader, one JVM for all tests."""
    return shared()


def _compact(table: HiveTable, kind: CompactionType, location: Path) -> Case:
    table.copy(location)
    before = merge.read(location, table.write_ids, generation=table.generation)
    compacted = compact_directory(location, kind, table.write_ids, table.generation, table.visibility_txn)
    return Case(table=table, location=location, before=before, compacted=compacted)
