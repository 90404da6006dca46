"""Makes the tables of the cases: by SQL, and copies of them by files and write ids."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from servers.sql import Session

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from integration.hive4_cases import PLAIN, TWIN, Case, Fate
from integration.metastore_writes import NewTable, Writes

DATABASE = "hive_tables"
_PLAIN_FILES = "plain_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCopy:
    """A table without partitions, or one partition, by its name, of one copy of a case."""

    table: str
    copy: str
    partition: str | None
    path: Path

    @property
    def key(self) -> tuple[str, str | None]:
        """The table and the partition."""
        return self.table, self.partition

    @property
    def printed(self) -> tuple[str, str]:
        """What SHOW COMPACTIONS prints of the two; Hive 4.0.1 writes the low byte of each character only."""
        name = " --- " if self.partition is None else self.partition
        return self.table, bytes(ord(letter) & 255 for letter in name).decode(errors="replace")

    @property
    def spec(self) -> str:
        """What follows the name of the table in ALTER TABLE."""
        if self.partition is None:
            return self.table
        pairs = (level.split("=", 1) for level in self.partition.split("/"))
        values = ", ".join(f"{key}='{unquote(value)}'" for key, value in pairs)
        return f"{self.table} partition ({values})"


def table_of(case: Case, copy: str) -> str:
    """The name of a copy."""
    return f"{case.name}_{copy}"


def prepare(session: Session) -> None:
    """Makes a table with files to load."""
    session.run(f"create table {_PLAIN_FILES}(id int, val string) {PLAIN}")
    session.run(f"insert into {_PLAIN_FILES} values (1,'a'),(2,'b'),(3,'c')")


def make(session: Session, case: Case, plain_files: Path) -> None:
    """Runs the statements on all copies; with ``copied`` on the source of the copies, the others get the DDL only."""
    for name, value in case.settings.items():
        session.run(f"set {name}={value}")
    source = _source(case)
    for table in {source, *_tables(case)}:
        session.run(case.create.replace("{t}", table))
        for step in case.steps:
            if step.is_ddl or table == source or not case.copied:
                session.run(f"set hive.test.rollbacktxn={str(step.fate is Fate.ABORTED).lower()}")
                session.run(step.sql.replace("{t}", table).replace("{files}", str(plain_files)))
    session.run("set hive.test.rollbacktxn=false")
    for name in case.settings:
        session.run(f"set {name}=-1")


class Copier:
    """Gives the copies the files of their sources, and as many write ids with the fates that the case says.

    To Hive such a table is as good as one that got the statements: the row ids are the same, which they need not be
    when statements run twice. The transactions of the write ids are new ones.
    """

    def __init__(self, hms: Hms, writes: Writes) -> None:
        self._hms = hms
        self._writes = writes
        self.open_txn: int | None = None
        """The transaction of the write ids that are open."""

    def location(self, table: str) -> Path:
        """Where a table lies."""
        found = self._hms.table(TableRef(DATABASE, table))
        assert found is not None, table
        return Path(unquote(urlsplit(str(found.storage.location)).path))

    def plain_files(self) -> Path:
        """The directory with files to load."""
        return self.location(_PLAIN_FILES)

    def write_ids(self, tables: Iterable[str]) -> Mapping[str, ValidWriteIdList]:
        """The write ids of tables as a reader sees them now."""
        refs = [TableRef(DATABASE, table) for table in tables]
        found = self._hms.valid_write_ids(refs, self._hms.open_txns())
        return {ref.table: found[ref] for ref in refs}

    def copy(self, cases: Iterable[Case]) -> None:
        """Copies the cases that want it: their files, their partitions and the fates of their write ids."""
        copied = [case for case in cases if case.copied]
        sources = {table: _source(case) for case in copied for table in _copies(case)}
        opened = {table: _open_ids(case) for case in copied for table in _copies(case)}
        highest = {table: ids.high_water_mark for table, ids in self.write_ids(set(sources.values())).items()}
        given = {table: ids.high_water_mark for table, ids in self.write_ids(sources).items()}
        if any(opened.values()):
            self.open_txn = self._hms.open_txn(TxnType.DEFAULT, "open while compacted")
        while lacking := [table for table, source in sources.items() if given[table] < highest[source]]:
            txn = self._hms.open_txn(TxnType.DEFAULT, "copies")
            for table in lacking:
                used = self.open_txn if given[table] + 1 in opened[table] else txn
                given[table] = self._hms.allocate_write_id(used or txn, TableRef(DATABASE, table))
            self._hms.commit_txn(txn, TxnType.DEFAULT)
        for table, source in sources.items():
            shutil.copytree(self.location(source), self.location(table), dirs_exist_ok=True)
        for case in copied:
            if case.partitioned:
                names = self._hms.partition_names(TableRef(DATABASE, _source(case)))
                values = [[unquote(level.partition("=")[2]) for level in name.split("/")] for name in names]
                for table in _copies(case):
                    found = self._hms.table(TableRef(DATABASE, table))
                    assert found is not None, table
                    columns = [(column.name, column.type) for column in found.storage.columns]
                    self._writes.partitions(DATABASE, table, values, location=None, new=NewTable(columns=columns))

    def commit_open(self) -> None:
        """Commits the write ids that are open."""
        if self.open_txn is not None:
            self._hms.commit_txn(self.open_txn, TxnType.DEFAULT)
            self.open_txn = None

    def places(self, case: Case, copies: Iterable[str] | None = None) -> list[PlaceCopy]:
        """Where the copies of a case lie; every partition on its own."""
        found = []
        for copy in case.every_copy if copies is None else copies:
            table = table_of(case, copy)
            root = self.location(table)
            names = self._hms.partition_names(TableRef(DATABASE, table)) if case.partitioned else [None]
            found += [
                PlaceCopy(table=table, copy=copy, partition=name, path=root / name if name else root) for name in names
            ]
        return found


def _tables(case: Case) -> list[str]:
    return [table_of(case, copy) for copy in case.every_copy]


def _source(case: Case) -> str:
    """The twin got the statements itself, unless a write id of it must be open."""
    return table_of(case, "source" if _open_ids(case) else TWIN)


def _copies(case: Case) -> list[str]:
    return [table for table in _tables(case) if table != _source(case)]


def _open_ids(case: Case) -> set[int]:
    """No such case has ALTER TABLE, so the write ids are the numbers of the statements."""
    return {number for number, step in enumerate(case.steps, start=1) if step.fate is Fate.OPEN}
