"""Which tables a queue works on: our own, or those of a metastore of Hive 3.1, with Hive's mutexes."""

import enum
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

from sqlalchemy import (
    Column,
    Connection,
    Inspector,
    MetaData,
    Select,
    String,
    Table,
    and_,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from acidlib.errors import CorruptError, RefusedError, RetryError
from acidlib.queue import schema
from acidlib.queue.database import POSTGRESQL, SQLITE, Database
from acidlib.queue.rows import RequestTable

# --- tables -----------------------------------------------------------------------------------------------------------
# Which tables a queue works on: our own, made where they are missing, or those of a metastore of Hive 3.1, found.
#
# A metastore's database is recognised by its table VERSION. Its names are found by looking: PostgreSQL has those of
# Hive 3.1 in lower case, MySQL as the schema script was run.

_HIVE_31 = re.compile(r"3\.1(\.\d{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreTables:
    """The further tables of a metastore, for what cleaning removes; and the version of its schema."""

    version: str
    txns: Table
    txn_components: Table
    completed_txn_components: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTables:
    """The tables of a queue. Columns go by Hive's upper-case names, however the database writes them."""

    queue: RequestTable
    history: RequestTable
    next_id: Table
    mutex: Table
    metastore: MetastoreTables | None = None


def open_tables(database: Database) -> QueueTables:
    """The tables of a database; our own are made where they are missing.

    Raises RefusedError for a metastore that is not one of Hive 3.1, and for a table without a column that is needed.
    """
    with database.reading("open") as connection:
        found = _Found(connection, database.shown)
        version = _schema_version(connection, found)
        if version is not None:
            return _of_metastore(found, version)
        missing = _missing(found)
    if missing:
        _make(database, missing)
    bounded = database.dialect != SQLITE
    return QueueTables(
        queue=RequestTable(schema.COMPACTION_QUEUE, limits=_limits(schema.COMPACTION_QUEUE) if bounded else {}),
        history=RequestTable(
            schema.COMPLETED_COMPACTIONS, limits=_limits(schema.COMPLETED_COMPACTIONS) if bounded else {}
        ),
        next_id=schema.NEXT_COMPACTION_QUEUE_ID,
        mutex=schema.AUX_TABLE,
    )


def find_table(connection: Connection, shown: str, template: Table) -> Table | None:
    """The table with the template's columns, whatever the case of its names; None where there is none.

    RefusedError when a column is missing; `shown` is the database in messages.
    """
    found = _Found(connection, shown)
    return found.table(template) if found.has(template) else None


class _Found:
    """What is there, by names in upper case."""

    def __init__(self, connection: Connection, shown: str) -> None:
        self.shown = shown
        self._inspector: Inspector = inspect(connection)
        self._metadata = MetaData()
        self._names: dict[str, str] = {}
        # where two names differ by case alone, Hive's is the one that PostgreSQL folds to lower case
        lower_first = connection.dialect.name == POSTGRESQL
        for name in sorted(self._inspector.get_table_names(), reverse=not lower_first):
            self._names[name.upper()] = name

    def has(self, template: Table) -> bool:
        return template.name in self._names

    def columns(self, template: Table) -> dict[str, tuple[str, int | None]]:
        """The name as it is and the most characters, by the name in upper case."""
        found = {}
        for column in self._inspector.get_columns(self._names[template.name]):
            length = column["type"].length if isinstance(column["type"], String) else None
            found[column["name"].upper()] = (column["name"], length)
        return found

    def table(self, template: Table) -> Table:
        """The table with the template's columns that it has. RefusedError when one that is needed is missing."""
        if not self.has(template):
            raise self._unfit(f"it has no table {template.name}")
        there = self.columns(template)
        columns = []
        for column in template.columns:
            if column.name in there:
                columns.append(Column(there[column.name][0], column.type, key=column.name))
            elif column.name not in schema.OPTIONAL_COLUMNS:
                raise self._unfit(f"its table {template.name} has no column {column.name}")
        return Table(self._names[template.name], self._metadata, *columns)

    def request_table(self, template: Table) -> RequestTable:
        table = self.table(template)
        limits = {name: length for name, (_, length) in self.columns(template).items() if length is not None}
        return RequestTable(table, limits=limits, of_hive=True)

    def _unfit(self, reason: str) -> RefusedError:
        return RefusedError(f"Cannot use the metastore's database {self.shown} as a queue: because {reason}")


def _schema_version(connection: Connection, found: _Found) -> str | None:
    """The version of a metastore's schema; None in a database that is none's. RefusedError unless it is of Hive 3.1."""
    if not found.has(schema.VERSION) or "SCHEMA_VERSION" not in found.columns(schema.VERSION):
        return None
    version = found.table(schema.VERSION)
    stored = sorted({str(text) for (text,) in connection.execute(select(version.c["SCHEMA_VERSION"]))})
    shown = ", ".join(stored) or "none"
    refusal = f"Cannot use the metastore's database {found.shown} as a queue: because its schema version is {shown}"
    if len(stored) == 1 and _HIVE_31.fullmatch(stored[0]):
        # what vendors call 3.1 may have Hive 4's rules of cleaning
        queue = found.columns(schema.COMPACTION_QUEUE) if found.has(schema.COMPACTION_QUEUE) else {}
        if "CQ_NEXT_TXN_ID" in queue or not found.has(schema.NEXT_TXN_ID):
            raise RefusedError(f"{refusal}, but its tables are not those of Hive 3.1; use the metastore over thrift")
        return stored[0]
    if stored and not stored[0].startswith(("0.", "1.", "2.", "3.")):
        raise RefusedError(f"{refusal}; use the metastore over thrift")
    raise RefusedError(f"{refusal}, and only that of Apache Hive 3.1 is supported")


def _of_metastore(found: _Found, version: str) -> QueueTables:
    return QueueTables(
        queue=found.request_table(schema.COMPACTION_QUEUE),
        history=found.request_table(schema.COMPLETED_COMPACTIONS),
        next_id=found.table(schema.NEXT_COMPACTION_QUEUE_ID),
        mutex=found.table(schema.AUX_TABLE),
        metastore=MetastoreTables(
            version=version,
            txns=found.table(schema.TXNS),
            txn_components=found.table(schema.TXN_COMPONENTS),
            completed_txn_components=found.table(schema.COMPLETED_TXN_COMPONENTS),
        ),
    )


def _missing(found: _Found) -> list[Table]:
    """The tables to be made; RefusedError for one that is there but not ours."""
    missing = []
    for table in schema.METADATA.sorted_tables:
        if not found.has(table):
            missing.append(table)
            continue
        there = {name for name, _ in found.columns(table).values()}
        lacking = [column.name for column in table.columns if column.name not in there]
        if lacking:
            raise RefusedError(
                f"Cannot use the queue {found.shown}: because its table {table.name} has no column {lacking[0]}, and "
                "no table VERSION says that it is a metastore's"
            )
    return missing


def _make(database: Database, missing: list[Table]) -> None:
    """Makes tables; another process may be doing the same, so a failure counts only if they are not there after it."""

    def create(connection: Connection) -> None:
        for table in missing:
            connection.execute(CreateTable(table, if_not_exists=True))

    try:
        database.write("create", create)
    except RetryError:
        with database.reading("open") as connection:
            if _missing(_Found(connection, database.shown)):
                raise


def _limits(table: Table) -> Mapping[str, int]:
    return {
        column.name: column.type.length
        for column in table.columns
        if isinstance(column.type, String) and column.type.length is not None
    }


# --- locks ------------------------------------------------------------------------------------------------------------
# Hive's mutexes, which are rows of AUX_TABLE, and the ids of requests.
#
# Source: Hive `TxnHandler.MutexAPI.acquireLock` and `generateCompactionQueueId`, Hive 3.1: a mutex is the row (name,
# 0), made by whoever needs it first.


class Service(enum.Enum):
    """A service that works alone, under the name of its mutex in Hive."""

    INITIATOR = "Initiator"
    CLEANER = "Cleaner"


SCHEDULER = "CompactionScheduler"


def make_mutex(database: Database, tables: QueueTables, name: str) -> None:
    """Makes the row of a mutex if it is missing, in a transaction of its own: others see it before anybody waits."""
    with database.reading("lock") as connection:
        if connection.execute(_mutex(tables, name)).first() is not None:
            return

    def make(connection: Connection) -> None:
        # another process may be faster
        with suppress(IntegrityError), connection.begin_nested():
            connection.execute(insert(tables.mutex).values(MT_KEY1=name, MT_KEY2=0))

    database.write("lock", make)


def lock_mutex(connection: Connection, tables: QueueTables, name: str) -> None:
    """Takes a mutex until the transaction ends; SQLite has locked the whole database already."""
    if connection.execute(_mutex(tables, name).with_for_update()).first() is None:
        raise RetryError(f"Cannot lock the queue: because the row {name} of {tables.mutex.name} is gone")


@contextmanager
def new_ids(connection: Connection, tables: QueueTables) -> Iterator[Iterator[int]]:
    """Ids for what a transaction adds, allocated as Hive does: read under a lock, and counted up by those it took.

    The caller holds the scheduler's mutex.
    """
    column = tables.next_id.c["NCQ_NEXT"]
    row = connection.execute(select(column).with_for_update()).one_or_none()
    if row is None and tables.metastore is not None:
        raise CorruptError(f"Cannot number a request: because the metastore's table {tables.next_id.name} is empty")
    first = 1 if row is None else int(row[0])
    ids = count(first)
    yield ids
    following = next(ids)
    if following == first:
        return
    change = insert(tables.next_id) if row is None else update(tables.next_id)
    connection.execute(change.values(NCQ_NEXT=following))


def _mutex(tables: QueueTables, name: str) -> Select[str]:
    keys = tables.mutex.c
    return select(keys["MT_KEY1"]).where(and_(keys["MT_KEY1"] == name, keys["MT_KEY2"] == 0))
