"""What proves with a metastore of Hive 4 that nobody reads any more what a compaction made obsolete.

Either the watermark of open transactions, which thrift shows; or, where the metastore has readers register what they
read (`metastore.txn.use.minhistorywriteid`), what they registered in its database, see `acidlib.planning.readers`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from acidlib.errors import RefusedError
from acidlib.metastore.hms import Hms
from acidlib.metastore.values import OpenTxns, TxnType
from acidlib.model.requests import CompactionRequest
from acidlib.model.txnids import ValidTxnList
from acidlib.planning.readers import OpenReader, TableName, readers_of, still_reading
from acidlib.queue.min_history import MinHistory, Registration

MIN_HISTORY = "metastore.txn.use.minhistorywriteid"
_CANARY = "acidlib"
"""The database of a table that does not exist, for which a run registers itself."""


class Readers(Protocol):
    """Who may still read, as one run of the cleaner sees it: asked once, after the requests were read."""

    renamed_is_another: bool
    """Whether what was said of a table does not hold under another name of it."""

    def look(self) -> None:
        """Ask now. Raises RefusedError where the answer would prove nothing."""

    def waits(self, request: CompactionRequest) -> str | None:
        """Whom a committed request has to wait for."""

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """The snapshot that everybody has at least who may read its table."""


class SeenFirst:
    """The transactions as they were before the requests were read: what has committed by then is among those."""

    def __init__(self, hms: Hms) -> None:
        self._hms = hms

    @cached_property
    def txns(self) -> OpenTxns:
        """Asked for once."""
        return self._hms.open_txns()

    def of_all(self) -> ValidTxnList:
        """The snapshot that every open transaction has at least."""
        return self.below(self.txns.min_open)

    def below(self, lowest: int) -> ValidTxnList:
        """The snapshot that every transaction from this one on has at least.

        What committed at or above it is not in it, nor what was not known then. Source: Hive 4 `CompactionCleaner` (the
        capped transaction list).
        """
        cap = min(lowest - 1, self.txns.high_water_mark)
        return ValidTxnList(
            high_water_mark=cap,
            opened=tuple((low, min(high, cap)) for low, high in self.txns.txns.opened if low <= cap),
            aborted=tuple((low, min(high, cap)) for low, high in self.txns.txns.aborted if low <= cap),
        )


class Watermark:
    """Every open transaction may read everything; one from after a commit has a higher id than any it has seen."""

    renamed_is_another = False

    def __init__(self, first: SeenFirst) -> None:
        self._first = first

    def look(self) -> None:
        """Nothing that could prove nothing."""

    def waits(self, request: CompactionRequest) -> str | None:
        """The lowest open transaction, where it existed at the commit."""
        assert request.next_txn_id is not None
        lowest = self._first.txns.min_open
        if lowest > request.next_txn_id:
            return None
        return (
            f"transaction {lowest} is open since before its commit (transactions up to "
            f"{request.next_txn_id} have to end; show_compactions --blockers names them)"
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """The same for all."""
        del request
        return self._first.of_all()


class Unseen:
    """Readers register where nobody looks: all cleaning is left to Hive's own cleaner."""

    renamed_is_another = False

    def __init__(self, first: SeenFirst, why: str, *, is_off: bool) -> None:
        """`why` nobody looks there; `is_off`: whether that cleaner is."""
        self._first = first
        self._reason = (
            f"left to Hive's own cleaner{', which is off' if is_off else ''}: readers register in the metastore's "
            f"database ({MIN_HISTORY}), {why}"
        )

    def look(self) -> None:
        """At nothing."""

    def waits(self, request: CompactionRequest) -> str | None:
        """Always."""
        del request
        return self._reason

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """For a dry run, which plans what would go later."""
        del request
        return self._first.of_all()


class Registered:
    """What open transactions have registered in the metastore's database."""

    renamed_is_another = True

    def __init__(self, hms: Hms, first: SeenFirst, history: MinHistory, unique: Callable[[], str]) -> None:
        """`unique` gives a new text at each call."""
        self._hms = hms
        self._first = first
        self._history = history
        self._unique = unique

    def look(self) -> None:
        """Raises RefusedError where the database is another one than this metastore's, or a copy that is behind."""
        self._opened  # noqa: B018 - asks

    def waits(self, request: CompactionRequest) -> str | None:
        """The lowest transaction that may read the table with a snapshot from before the commit."""
        assert request.next_txn_id is not None
        assert request.commit_ms is not None
        table = _table_of(request)
        return still_reading(
            table,
            readers_of(table, self._opened),
            mark=request.highest_write_id or 0,
            next_txn_id=request.next_txn_id,
            commit_ms=request.commit_ms,
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """Below the lowest transaction that may read the table; open ones that do not read it count as open."""
        readers = readers_of(_table_of(request), self._opened)
        return self._first.below(readers[0].txn_id if readers else self._first.txns.high_water_mark + 1)

    @cached_property
    def _opened(self) -> tuple[OpenReader, ...]:
        """First the transactions, then what they registered: one that has ended in between counts as unregistered."""
        opened = self._hms.open_txns().txns.opened
        ids = [txn for low, high in opened for txn in range(low, high + 1)]
        started = {txn.id: txn.started_ms for txn in self._hms.open_txns_info()}
        tables: dict[int, dict[TableName, int]] = {}
        for one in self._registrations():
            known = tables.setdefault(one.txn_id, {})
            name = (one.database, one.table)
            known[name] = min(one.write_id, known.get(name, one.write_id))
        return tuple(
            OpenReader(txn_id=txn, started_ms=started.get(txn), tables=tables.get(txn, {})) for txn in sorted(ids)
        )

    def _registrations(self) -> tuple[Registration, ...]:
        """All of them, read while this run itself has registered, over thrift: who sees that sees the others, too."""
        name = self._unique().lower()
        txn = self._hms.open_txn(TxnType.READ_ONLY, "acidlib cleaner")
        try:
            self._hms.add_write_ids_to_min_history(txn, {f"{_CANARY}.{name}": 1})
            found = self._history.read()
        finally:
            self._hms.commit_txn(txn, TxnType.READ_ONLY)
        own = Registration(txn_id=txn, database=_CANARY, table=name, write_id=1)
        if found is None or own not in found:
            what = "has no table MIN_HISTORY_WRITE_ID" if found is None else "does not show what was just registered"
            raise RefusedError(
                f"Cannot clean by what readers register in {self._history.shown}: it {what}: it is not the database of "
                f"this metastore, or a copy of it, or the metastore has given up {MIN_HISTORY}; give --queue-url of "
                "its own database"
            )
        return found


def _table_of(request: CompactionRequest) -> TableName:
    return request.database.lower(), request.table.lower()
