"""What a table or partition of Hive 4 says of itself, and what Hive answers by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from servers.sql import Row

from acidlib.model.tables import TableRef
from integration.hive4_model import Lake, local

GATHERING: Mapping[str, str] = {"hive.stats.autogather": "true", "hive.stats.column.autogather": "true"}


class Sql(Protocol):
    """A session of Hive."""

    def run(self, statement: str) -> list[Row]:
        """The rows of a statement."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A table whose statistics Hive keeps; `partition` is the only one of it, where it has any."""

    lake: Lake
    sql: Sql
    full: str
    partition: str | None = None

    @property
    def name(self) -> str:
        return self.full.partition(".")[2]

    def insert(self, *ids: int) -> None:
        part = "" if self.partition is None else " partition (p='1')"
        values = ", ".join(f"({one})" for one in ids)
        self.sql.run(f"insert into {self.full}{part} values {values}")  # noqa: S608 - a name of the tests

    def parameters(self) -> Mapping[str, str]:
        found = self.lake.hms.table(TableRef(self.lake.database, self.name))
        assert found is not None
        if self.partition is None:
            return found.properties
        return self.lake.hms.partitions(found, [self.partition])[self.partition].properties

    def count(self) -> tuple[int, bool]:
        """The rows by Hive, and whether it answers from the metastore alone."""
        query = f"select count(*) from {self.full}"  # noqa: S608 - a name of the tests
        plan = "\n".join(str(line) for (line,) in self.sql.run(f"explain {query}"))
        ((rows,),) = self.sql.run(query)
        return rows, "TableScan" not in plan

    def base(self) -> tuple[str, str]:
        """What parameters have to say of its only base: files and bytes."""
        found = self.lake.hms.table(TableRef(self.lake.database, self.name))
        assert found is not None
        location = found.storage.location
        if self.partition is not None:
            location = self.lake.hms.partitions(found, [self.partition])[self.partition].storage.location
        (newest,) = sorted(local(location).glob("base_*"))[-1:]
        sizes = [file.stat().st_size for file in newest.iterdir() if file.name.startswith("bucket_")]
        return str(len(sizes)), str(sum(sizes))

    def told(self) -> tuple[str | None, str | None]:
        """What they say: files and bytes."""
        found = self.parameters()
        return found.get("numFiles"), found.get("totalSize")


def gathered(lake: Lake, sql: Sql, name: str, *, partitioned: bool = False) -> Gathered:
    """A new table with the property mine=x, and two inserts of two rows each; the session has to gather."""
    full = f"{lake.database}.{name}"
    keys = "partitioned by (p string) " if partitioned else ""
    properties = "'transactional'='true', 'mine'='x'"
    sql.run(f"create table {full} (id int comment 'of a row') {keys}stored as orc tblproperties ({properties})")
    made = Gathered(lake=lake, sql=sql, full=full, partition="p=1" if partitioned else None)
    made.insert(1, 2)
    made.insert(3, 4)
    assert made.told()[0] == "2"
    return made
