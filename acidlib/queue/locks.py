"""Hive's mutexes, which are rows of AUX_TABLE, and the ids of requests.

Source: Hive `TxnHandler.MutexAPI.acquireLock` and `generateCompactionQueueId`, Hive 3.1: a mutex is the row (name, 0),
made by whoever needs it first.
"""

import enum
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from sqlalchemy import Connection, Select, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from acidlib.errors import CorruptError, RetryError
from acidlib.queue.database import Database
from acidlib.queue.tables import QueueTables


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
