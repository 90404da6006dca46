"""Tables in a real Hive 4 metastore, as transactions of ours made them, and what every reader has to see in them.

Files are written by pyorc and the transactions made over thrift, with the lock of a writer, as Hive does: a table costs
a tenth of a second. The rows that are expected are known exactly, row ids included.
"""

from __future__ import annotations

import ast
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from judges import merge
from judges.tables import DEFAULT, Layout, Transaction, build
from servers.metastore import Metastore
from servers.sql import Session
from thriftpy2.rpc import make_client

from acidlib.acid.names import Generation
from acidlib.metastore.connection import interface
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import CATALOG, ConnectionOptions
from acidlib.metastore.transactions import LockState, TxnType
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import TableRef
from integration.metastore_writes import FULL_ACID, NewTable, Writes

COLUMNS = "struct<id:int,v:string>"
ROW = (("id", "int"), ("v", "string"))
ACID_ROW = tuple[int, int, int, tuple[Any, ...]]
_SHARED_WRITE, _TABLE_LEVEL, _PARTITION_LEVEL, _INSERT = 2, 2, 3, 2


def rows(first: int, count: int, word: str = "v") -> tuple[tuple[int, str], ...]:
    """Rows to insert: ids counted from `first`."""
    return tuple((first + i, f"{word}{first + i}") for i in range(count))


CRUD = (
    Transaction(inserts=rows(1, 40)),
    Transaction(inserts=rows(101, 20), updates=((3, (4, "updated")),)),
    Transaction(deletes=(0, 7, 41)),
)
"""Write ids 1 to 3: inserts, an update, deletes."""
ABORTED = (*CRUD, Transaction(inserts=rows(900, 5), deletes=(1, 2), aborted=True), Transaction(inserts=rows(201, 3)))
"""The same, an aborted transaction with write id 4, and one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlace:
    """A table without partitions, or one partition (`name` as Hive has it), and the rows that are in it."""

    name: str | None
    location: Path
    expected: tuple[ACID_ROW, ...]

    def directories(self) -> list[str]:
        """What readers may look at."""
        return sorted(path.name for path in self.location.iterdir() if path.name[0] not in "_.")

    def litter(self) -> list[str]:
        """What our jobs leave for themselves."""
        return sorted(path.name for path in self.location.iterdir() if path.name[0] in "_.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A table that was made."""

    database: str
    name: str
    location: Path
    places: tuple[ModelPlace, ...]

    @property
    def full(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def place(self) -> ModelPlace:
        """The only place."""
        (place,) = self.places
        return place

    @property
    def expected(self) -> list[ACID_ROW]:
        """All rows of all partitions."""
        return sorted(itertools.chain.from_iterable(place.expected for place in self.places))


class Lake:
    """A database of a metastore, for one test. As a context manager it is gone in the end, with all it has queued."""

    def __init__(
        self,
        metastore: Metastore,
        hive: Session | None = None,
        database: str = "lake",
        properties: Mapping[str, str] | None = None,
        catalog: str = CATALOG,
    ) -> None:
        """Connects and makes the database. Without `hive` only the independent reader judges."""
        self.metastore = metastore
        self.database = database
        self.hive = hive
        self._opened: list[int] = []
        self.hms: Hms = connect_hms(
            (metastore.uri,), ConnectionOptions(catalog=catalog), user="tester", host="testhost"
        )
        self.writes = Writes(metastore.uri, metastore.generation.value, None if catalog == CATALOG else catalog)
        parts = urlsplit(metastore.uri)
        self.raw: Any = make_client(interface().Metastore, parts.hostname, parts.port, timeout=120_000)
        self.writes.database(database, properties)
        waiting = [row.id for row in self.hms.show_compactions() if row.state is State.INITIATED]
        if (
            waiting and metastore.generation is Generation.HIVE4
        ):  # of other tests; a job that drains the queue would do them too
            self.hms.abort_compactions(waiting)

    def reconnect(self) -> None:
        """After the metastore was started again."""
        parts = urlsplit(self.metastore.uri)
        self.raw = make_client(interface().Metastore, parts.hostname, parts.port, timeout=120_000)
        self.writes = Writes(self.metastore.uri, 4)

    def close(self) -> None:
        """Drops the database with its requests, ends what was opened."""
        still = {txn.id for txn in self.hms.open_txns_info() if txn.state == "open"}
        for txn in still.intersection(self._opened):
            self.hms.abort_txn(txn, TxnType.DEFAULT)
        self.writes.drop_database(self.database)
        self.hms.close()
        self.writes.close()
        self.raw.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- making ---------------------------------------------------------------------------------------------------

    def table(
        self,
        name: str,
        transactions: Sequence[Transaction] = CRUD,
        *,
        partitions: Sequence[str] = (),
        filled: int | None = None,
        layout: Layout = DEFAULT,
        properties: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Made:
        """A table whose partitions (values of the only key `p`) went through the same transactions.

        With `filled` only so many of them did, and the others are empty.
        """
        keys = (("p", "string"),) if partitions else ()
        new = NewTable(columns=ROW, partition_keys=keys, properties=FULL_ACID | dict(properties or {}), **more)
        self.writes.table(self.database, name, new)
        found = self.hms.table(TableRef(self.database, name))
        assert found is not None
        location = local(found.storage.location)
        where: dict[str | None, Path] = {None: location}
        if partitions:
            under = f"{found.storage.location}/parts"
            for number in range(len(partitions)):  # a metastore makes them ten times as slowly
                (location / "parts" / str(number)).mkdir(parents=True)
            self.writes.partitions(self.database, name, [[value] for value in partitions], location=under, new=new)
            names = self.hms.partition_names(TableRef(self.database, name))
            kept = self.hms.partitions(found, names)
            where = {part: local(kept[part].storage.location) for part in names}
        places = []
        for part, directory in sorted(where.items())[:filled]:
            built = build(directory, COLUMNS, transactions, layouts=(layout,), name=f"{self.database}.{name}")
            places.append(ModelPlace(name=part, location=directory, expected=tuple(map(plain, built.expected))))
        made = Made(database=self.database, name=name, location=location, places=tuple(places))
        self.commit(made, transactions)
        return made

    def add(self, made: Made, transactions: Sequence[Transaction], first_id: int) -> Made:
        """More transactions, which only insert; the table with what they have added."""
        places = []
        for place in made.places:
            built = build(place.location, COLUMNS, transactions, first_id=first_id)
            places.append(replace(place, expected=tuple(sorted((*place.expected, *map(plain, built.expected))))))
        made = replace(made, places=tuple(places))
        self.commit(made, transactions)
        return made

    def commit(self, made: Made, transactions: Sequence[Transaction]) -> None:
        """Write ids for transactions whose files are there, committed or aborted."""
        for transaction in transactions:
            txn, _ = self.write(made)
            (self.hms.abort_txn if transaction.aborted else self.hms.commit_txn)(txn, TxnType.DEFAULT)

    def write(self, made: Made, user: str = "writer") -> tuple[int, int]:
        """An open transaction with a write id and the lock of an INSERT; both ids."""
        txn = self.open(user)
        write_id = self.hms.allocate_write_id(txn, TableRef(made.database, made.name))
        types = interface()
        component = [
            types.LockComponent(
                type=_SHARED_WRITE,
                level=_TABLE_LEVEL if place.name is None else _PARTITION_LEVEL,
                dbname=made.database,
                tablename=made.name,
                partitionname=place.name,
                operationType=_INSERT,
                isTransactional=True,
            )
            for place in made.places
            if place.name is None or any(place.location.iterdir())
        ]
        request = types.LockRequest(component=component, txnid=txn, user=user, hostname="testhost", agentInfo="tests")
        answer = self.raw.lock(request)
        state, end = LockState(answer.state), time.monotonic() + 60
        while state is LockState.WAITING and time.monotonic() < end:  # for somebody's exclusive lock
            time.sleep(0.05)
            state = self.hms.check_lock(answer.lockid, txn_id=txn)
        assert state is LockState.ACQUIRED
        return txn, write_id

    def open(self, user: str = "reader", kind: TxnType = TxnType.DEFAULT) -> int:
        """An open transaction of somebody's."""
        types = interface()
        request = types.OpenTxnRequest(num_txns=1, user=user, hostname="testhost", txn_type=kind.value)
        (txn,) = self.raw.open_txns(request).txn_ids
        self._opened.append(txn)
        return int(txn)

    def request(self, made: Made, kind: str = "major", *, partition: str | None = None, pool: str | None = None) -> int:
        """Queue a compaction as ALTER TABLE ... COMPACT does; its id."""
        answer = self.hms.compact(
            CompactionRequest(
                id=0,
                ref=TableRef(made.database, made.name, partition),
                type=CompactionType.parse(kind),
                run_as="root",
                initiator_id="testhost-manual",
                pool=pool,
            )
        )
        assert answer.accepted, answer
        return answer.id

    # --- looking --------------------------------------------------------------------------------------------------

    def queue(self) -> dict[int, CompactionRequest]:
        """Queue and history by id."""
        return {row.id: row for row in self.hms.show_compactions()}

    def of(self, made: Made) -> list[CompactionRequest]:
        """What queue and history know of a table, oldest first."""
        found = [
            row for row in self.queue().values() if (row.ref.database, row.ref.table) == (made.database, made.name)
        ]
        return sorted(found, key=lambda row: row.id)

    def states(self, made: Made) -> list[str]:
        """The states of these, in Hive's words."""
        return [row.state.label for row in self.of(made)]

    def working(self) -> list[CompactionRequest]:
        """What somebody works on."""
        return [row for row in self.queue().values() if row.state is State.WORKING]

    def write_ids(self, made: Made) -> str:
        """The valid write-id list of a reader who comes now."""
        key = TableRef(made.database, made.name)
        return self.hms.valid_write_ids([key], self.hms.open_txns())[key].format()

    def hidden(self, place: ModelPlace) -> frozenset[int]:
        """The transactions in names of directories that have not committed."""
        txns = self.hms.open_txns()
        suffixes = (name.rpartition("_v")[2] for name in place.directories() if "_v" in name)
        return frozenset(txn for txn in map(int, suffixes) if not txns.is_txn_valid(txn))

    def seen(self, made: Made) -> list[ACID_ROW]:
        """What an independent reader sees now."""
        text = self.write_ids(made)
        found: list[ACID_ROW] = []
        for place in made.places:
            found += merge.read(place.location, text, generation=4, hidden_txns=self.hidden(place), strict=True)
        return sorted(map(plain, found))

    def selected(self, made: Made) -> list[ACID_ROW]:
        """What Hive's SELECT returns now, with ROW__ID."""
        assert self.hive is not None
        statement = "select t.ROW__ID, t.id, t.v from {} t"
        return sorted(acid_row(row) for row in self.hive.run(statement.format(made.full)))

    def check(self, made: Made) -> None:
        """Hive and the independent reader see exactly the rows that have to be there."""
        seen = self.seen(made)
        assert seen == made.expected, (self.write_ids(made), seen)
        if self.hive is not None:
            assert self.selected(made) == made.expected

    # --- behind the metastore's back ------------------------------------------------------------------------------

    def sql(self, statement: str, *values: object) -> int:
        """Changes rows in the metastore's own database, as nobody may; how many."""
        url = self.metastore.database_url.replace("postgresql+psycopg://", "postgresql://")
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(statement, values).rowcount  # type: ignore[call-overload, no-any-return]

    def take_away(self, worker: str | None = None) -> None:
        """Revokes what is being worked on, as Hive does after a timeout; another worker may have it then."""
        state = "i" if worker is None else "w"
        changed = self.sql(
            """update "COMPACTION_QUEUE" set "CQ_STATE" = %s, "CQ_WORKER_ID" = %s where "CQ_STATE" = 'w'""",
            state,
            worker,
        )
        assert changed == 1


def local(uri: str) -> Path:
    """The path of a file URI."""
    return Path(unquote(urlsplit(uri).path))


def plain(row: ACID_ROW) -> ACID_ROW:
    """With text as text: the reader marks its kind."""
    return *row[:3], tuple(value[2:] if isinstance(value, str) else value for value in row[3])


def acid_row(row: Sequence[Any]) -> ACID_ROW:
    """A row of a SELECT that begins with ROW__ID."""
    key = json.loads(row[0]) if row[0].startswith("{") else ast.literal_eval(row[0])
    return key["writeid"], key["bucketid"], key["rowid"], tuple(row[1:])
