"""What a metastore of Hive 3.1 forgets once a request is cleaned: notes of writes that its compaction has merged.

Source: Hive `CompactionTxnHandler.markCleaned` of Hive 3.1. Without these rows the Initiator sees nothing new, and an
aborted transaction without rows is removed for good: so all that it wrote must be covered or gone by then.
"""

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, select

from acidlib.model.requests import CompactionRequest
from acidlib.queue.dialects import equals
from acidlib.queue.tables import MetastoreTables

CHUNK = 500
"""Values of one IN list; databases bound the number of parameters."""


def forget_writes(
    connection: Connection, tables: MetastoreTables, request: CompactionRequest, up_to: int | None
) -> None:
    """Removes the notes of committed and of aborted writes up to a write id; without one, all.

    A request for a whole table is about all its partitions. Of a transaction that is chosen all rows of the place go.
    """
    done = tables.completed_txn_components
    connection.execute(delete(done).where(_place(connection, done, "CTC", request), *_until(done, "CTC", up_to)))
    aborted = _aborted(connection, tables, request, up_to)
    components = tables.txn_components
    for start in range(0, len(aborted), CHUNK):
        chosen = components.c["TC_TXNID"].in_(aborted[start : start + CHUNK])
        connection.execute(delete(components).where(chosen, _place(connection, components, "TC", request)))


def _aborted(
    connection: Connection, tables: MetastoreTables, request: CompactionRequest, up_to: int | None
) -> list[int]:
    """The aborted transactions that wrote at the place."""
    components = tables.txn_components
    statement = (
        select(tables.txns.c["TXN_ID"])
        .distinct()
        .where(
            tables.txns.c["TXN_ID"] == components.c["TC_TXNID"],
            tables.txns.c["TXN_STATE"] == "a",
            _place(connection, components, "TC", request),
            *_until(components, "TC", up_to),
        )
    )
    return sorted(connection.execute(statement).scalars())


def _place(connection: Connection, table: Table, prefix: str, request: CompactionRequest) -> ColumnElement[bool]:
    named = [("DATABASE", request.database), ("TABLE", request.table)]
    if request.partition is not None:
        named.append(("PARTITION", request.partition))
    return and_(*(equals(connection, table.c[f"{prefix}_{end}"], value) for end, value in named))


def _until(table: Table, prefix: str, up_to: int | None) -> list[ColumnElement[bool]]:
    return [] if up_to is None else [table.c[f"{prefix}_WRITEID"] <= up_to]
