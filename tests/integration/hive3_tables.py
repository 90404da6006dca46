"""Tables of the Hive 3.1.3 fixtures, made again in a real metastore: definition, transactions, write ids, files.

Hive's own SQL server does not run here, so everything that it would tell the metastore is told over thrift: the table,
the partitions, each transaction with its lock and operation (so that the metastore knows which transaction wrote what),
the commits and aborts. The directories are those that Hive 3.1.3 wrote.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from judges import merge, tables
from judges.acid_dirs import WriteIds
from judges.fixtures import ROOT, Fixture, fixtures

from integration.metastore_client import TYPES, metastore_client, stored_table

_ORC = "org.apache.hadoop.hive.ql.io.orc.Orc"
_LONG_MAX = 2**63 - 1
# numbers on the wire
MINOR, MAJOR = 1, 2
_KINDS = {1: "minor", 2: "major"}
SHARED_READ, SHARED_WRITE, EXCLUSIVE = 1, 2, 3
_DB, _TABLE, _PARTITION = 1, 2, 3
_SELECT, _INSERT, _UPDATE, _DELETE, _NO_TXN = 1, 2, 3, 4, 6
_ACQUIRED = 1
_ABORTED, _OPEN = 2, 3
USER, HOST = "nina", "reader.example"
"""Whom the transactions and locks of these tests belong to."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One row of SHOW COMPACTIONS."""

    id: int
    database: str
    table: str
    partition: str | None
    type: str
    state: str
    worker: str | None
    highest_write_id: int | None


class Client:
    """What Hive 3.1 itself tells and asks its metastore; one connection."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.call = metastore_client(self._uri)

    def reconnect(self) -> None:
        """A new connection, after the metastore was away."""
        self.call.close()
        self.call = metastore_client(self._uri)

    def close(self) -> None:
        """Ends the connection."""
        self.call.close()

    def database(self, name: str) -> None:
        """Makes a database."""
        self.call.create_database(TYPES.Database(name=name, parameters={}))

    def table(self, database: str, name: str) -> Any:
        """A table, also one that is insert-only."""
        return stored_table(self.call, database, name)

    def change(self, database: str, name: str, *, location: Path | None = None, to: str = "") -> None:
        """ALTER TABLE: SET LOCATION, or RENAME TO, which moves its files."""
        table = self.table(database, name)
        if location is not None:
            table.sd.location = location.as_uri()
        table.tableName = to or name
        self.call.alter_table(database, name, table)

    def make_again(self, database: str, name: str) -> None:
        """Drops a table and makes one that is just like it; the files stay where they are."""
        table = self.table(database, name)
        while int(time.time()) <= table.createTime:  # two of one second cannot be told apart
            time.sleep(0.05)
        self.call.drop_table(database, name, False)
        table.createTime = 0  # the metastore sets it
        self.call.create_table(table)

    def open(self, number: int = 1) -> Ids:
        """Opens transactions."""
        request = TYPES.OpenTxnRequest(num_txns=number, user=USER, hostname=HOST, agentInfo="tests")
        return tuple(self.call.open_txns(request).txn_ids)

    def commit(self, txn: int) -> None:
        """Commits a transaction."""
        self.call.commit_txn(TYPES.TxnRequest(txnid=txn))

    def abort(self, txn: int) -> None:
        """Rolls a transaction back."""
        self.call.abort_txn(TYPES.TxnRequest(txnid=txn))

    def reading(self, database: str, table: str | None = None, partition: str | None = None, *, txn: int = 0) -> int:
        """Takes a reader's lock on a database, a table or a partition, in a transaction or in none; its id."""
        return self._lock(txn, [_component(SHARED_READ, database, table, partition, _SELECT if txn else _NO_TXN)])

    def writing(self, txn: int, database: str, table: str, operation: int, *, dynamic: bool) -> int:
        """Takes a writer's lock on a table; its id. Unless `dynamic`, the metastore notes what is written."""
        kind = SHARED_READ if operation == _INSERT else SHARED_WRITE
        component = _component(kind, database, table, None, operation)
        component.isDynamicPartitionWrite = dynamic
        return self._lock(txn, [component])

    def unlock(self, lock: int) -> None:
        """Gives a lock that belongs to no transaction back."""
        self.call.unlock(TYPES.UnlockRequest(lockid=lock))

    def locks(self) -> list[Any]:
        """All locks, held and waiting."""
        return list(self.call.show_locks(TYPES.ShowLocksRequest()).locks or [])

    def ask(self, database: str, table: str, partition: str | None = None, *, kind: int = MAJOR) -> int:
        """ALTER TABLE ... COMPACT; the id of the request."""
        answer = self.call.compact2(
            TYPES.CompactionRequest(dbname=database, tablename=table, partitionname=partition, type=kind)
        )
        assert answer.accepted, answer
        return answer.id

    def shown(self, database: str) -> dict[int, Shown]:
        """SHOW COMPACTIONS of a database, queue and history, by id."""
        rows = self.call.show_compact(TYPES.ShowCompactRequest()).compacts
        return {
            row.id: Shown(
                id=row.id, database=row.dbname, table=row.tablename, partition=row.partitionname,
                type=_KINDS[row.type], state=row.state, worker=row.workerid, highest_write_id=row.hightestTxnId,
            )
            for row in rows
            if row.dbname == database
        }  # fmt: skip

    def write_ids(self, database: str, table: str) -> str:
        """The valid write ids of a table now, as Hive prints them."""
        answer = self.call.get_valid_write_ids(
            TYPES.WriteIdsRequest(fullTableNames=[f"{database}.{table}"], validTxnList=self._txns())
        )
        (found,) = answer.tblValidWriteIds
        aborted, opened = _parted(found.invalidWriteIds, found.abortedBits)
        low = min(opened, default=_LONG_MAX)
        return f"{found.fullTableName}:{found.writeIdHighWaterMark}:{low}:{_joined(opened)}:{_joined(aborted)}"

    def transactions(self, state: int = _OPEN) -> set[int]:
        """The transactions that are open."""
        return {txn.id for txn in self.call.get_open_txns_info().open_txns if txn.state == state}

    def aborted(self) -> set[int]:
        """The transactions that are rolled back and not forgotten yet."""
        return self.transactions(_ABORTED)

    def _txns(self) -> str:
        found = self.call.get_open_txns_info()
        opened = [txn.id for txn in found.open_txns if txn.state == _OPEN]
        aborted = [txn.id for txn in found.open_txns if txn.state == _ABORTED]
        low = min(opened, default=_LONG_MAX)
        return f"{found.txn_high_water_mark}:{low}:{_joined(opened)}:{_joined(aborted)}"

    def _lock(self, txn: int, components: list[Any]) -> int:
        answer = self.call.lock(TYPES.LockRequest(component=components, txnid=txn, user=USER, hostname=HOST))
        assert answer.state == _ACQUIRED, answer
        return answer.lockid


class Gate:
    """A way to a metastore that can be cut off and opened again, at once and on one port."""

    def __init__(self, uri: str) -> None:
        self._server = urlsplit(uri)
        self._ends: list[socket.socket] = []
        self._port = 0
        self.open()

    @property
    def uri(self) -> str:
        """Where clients connect."""
        return f"thrift://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Lets connections through."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Breaks all connections and refuses new ones."""
        for end in [self._listener, *self._ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def restart(self) -> None:
        """What a client sees of a metastore that is started again."""
        self.cut()
        self.open()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it was cut
            while True:
                here = listener.accept()[0]
                there = socket.create_connection((self._server.hostname, self._server.port))
                self._ends += [here, there]
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        end.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A table that is there: in the metastore and on disk.

    `txns` are its transactions by write id; `pending` are the write ids whose transactions are open.
    """

    client: Client
    fixture: Fixture
    database: str
    name: str
    location: Path
    txns: Mapping[int, int]
    pending: Ids = ()
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"

    def places(self) -> list[Path]:
        """The directories that hold data."""
        return [self.location / partition for partition in sorted(self.partitions)] or [self.location]

    def write_ids(self) -> str:
        """The metastore's list of valid write ids now."""
        return self.client.write_ids(self.database, self.name)

    def told_write_ids(self) -> str:
        """What the metastore's list should say after the table's name."""
        if self.fixture.write_ids:
            return self.fixture.write_ids.partition(":")[2]
        return f"{max(self.txns)}:{_LONG_MAX}::"

    def read(self, *, strict: bool = True) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
        """What a reader that starts now sees: rows and row ids as Hive prints them."""
        return replace(self.fixture, write_ids=self.write_ids()).read(self.location, strict=strict)

    def as_hive_read_it(self) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
        """What Hive 3.1.3 itself answered about these directories."""
        keys = self.fixture.hive_keys()
        assert keys is not None
        return self.fixture.hive_rows(), keys

    def rows(self, place: Path | None = None) -> list[merge.Row]:
        """The rows of one of the places, as a reader that starts now sees them."""
        return merge.read(place or self.location, self.write_ids(), generation=3, strict=True)

    def end(self, *, abort: bool = True) -> None:
        """Ends the transactions that are still open."""
        for write_id in self.pending:
            (self.client.abort if abort else self.client.commit)(self.txns[write_id])

    def insert(self, *rows: tuple[Any, ...], partition: str = "", abort: bool = False) -> int:
        """One more transaction inserts rows; its write id."""
        ((write_id, txn),) = self.stream(rows, partition=partition).items()
        (self.client.abort if abort else self.client.commit)(txn)
        return write_id

    def stream(self, *batch: Sequence[tuple[Any, ...]], partition: str = "") -> dict[int, int]:
        """Transactions that write one directory together and stay open: them by write id, each with its rows."""
        opened = self.client.open(len(batch))
        told = _tell(
            self.client,
            self.database,
            self.name,
            opened,
            {partition or None: _INSERT},
        )
        events = [event for one, rows in zip(told, batch, strict=True) for event in tables.inserts(one, rows)]
        name = tables.delta_name(told[0], told[-1], 0 if len(batch) == 1 else None)
        kind = merge.table_type(self.fixture.folder / "before")
        tables.write_dir(self.location / partition, name, str(kind), events)
        return dict(zip(told, opened, strict=True))


def hives_names(laid: Laid, kind: str) -> dict[Path, set[str]]:
    """What Hive's own compaction of each place was called, without a result that is empty beside one that is not."""
    found = {}
    for place in laid.places():
        folder = laid.fixture.folder / f"after_{kind}" / place.relative_to(laid.location)
        results = {path.name: sum(len(merge.raw_rows(file)) for file in path.glob("bucket_*"))
                   for path in folder.iterdir()}  # fmt: skip
        filled = {name for name, rows in results.items() if rows}
        found[place] = filled or {sorted(results)[0]}
    return found


@cache
def full_acid() -> dict[str, Fixture]:
    """The full ACID tables that Hive 3.1.3 wrote, by name."""
    return {found.folder.name: found for found in fixtures() if found.generation == 3}


def insert_only(name: str) -> Fixture:
    """One of the insert-only tables that Hive 3.1.3 wrote."""
    (found,) = (found for found in fixtures(insert_only=True) if found.folder == ROOT / "hive3" / name)
    return found


def lay(
    client: Client,
    fixture: Fixture,
    database: str,
    *,
    name: str = "",
    keys: Sequence[str] = (),
    values: Sequence[tuple[str, ...]] = (),
    properties: Mapping[str, str] | None = None,
    locked: bool = True,
) -> Laid:
    """Makes a table of a fixture in a database that exists, with all its transactions.

    `keys` makes a table without partitions one that has them: with those columns, and a partition with the whole
    contents for each of `values`. Without `locked` the transactions that stay open have no locks yet.
    """
    name = name or fixture.folder.name
    ddl = (fixture.folder / "ddl.sql").read_text()
    table = _definition(ddl, database, name, keys)
    table.parameters |= properties or {}
    if fixture.insert_only:
        table.parameters["transactional_properties"] = "insert_only"
    converted = "'transactional'='false'" in ddl
    table.parameters["transactional"] = str(not converted).lower()
    client.call.create_table(table)
    stored = client.table(database, name)
    location = Path(unquote(urlsplit(stored.sd.location).path))
    before = fixture.folder / "before"
    partitions: dict[str, tuple[str, ...]] = {}
    places = {}
    for source in merge.partitions(before) if table.partitionKeys and not keys else [before]:
        own = tuple(part.partition("=")[2] for part in source.relative_to(before).parts)
        for row in values or [own]:
            places[source, row] = location
            if table.partitionKeys:
                partition = _partition(client, stored, row)
                places[source, row] = location / partition
                partitions[partition] = row
    if converted:
        _copy(places, lambda entry: entry.is_file())
        stored.parameters["transactional"] = "true"
        client.call.alter_table(database, name, stored)
    txns, pending = _transactions(client, database, name, fixture.write_ids, places, location, locked)
    _copy(places, lambda entry: entry.is_dir())
    return Laid(
        client=client, fixture=fixture, database=database, name=name,
        location=location, txns=txns, pending=pending, partitions=partitions,
    )  # fmt: skip


def _transactions(
    client: Client, database: str, name: str, state: str, places: Mapping[Any, Path], location: Path, locked: bool
) -> tuple[dict[int, int], Ids]:
    """Opens, tells and ends the transactions of the directories; those by write id, and the ids that stay open."""
    written: dict[tuple[int, int], dict[str | None, int]] = {}
    for (source, _), place in places.items():
        partition = str(place.relative_to(location)) if place != location else None
        for low, high, operation in _written(source):
            found = written.setdefault((low, high), {})
            found[partition] = _UPDATE if found.get(partition, operation) != operation else operation
    ids = WriteIds.parse(state)
    last = ids.high if state else max(high for _, high in written)
    first = min(low for low, _ in written)
    number = first - first % 10_000_000 + 1
    txns: dict[int, int] = {}
    pending = []
    while number <= last:
        low, high = next((pair for pair in sorted(written) if pair[0] == number), (number, number))
        opened = client.open(high - low + 1)
        everywhere = {str(p.relative_to(location)) if p != location else None for p in places.values()}
        operations = written.get((low, high)) or dict.fromkeys(everywhere, _INSERT)
        if not locked:
            operations = {part: what for part, what in operations.items() if not ids.open & set(range(low, high + 1))}
        told = _tell(client, database, name, opened, operations)
        assert told == tuple(range(low, high + 1)), (told, low, high)
        for write_id, txn in zip(told, opened, strict=True):
            txns[write_id] = txn
            if write_id in ids.open:
                pending.append(write_id)
            elif write_id in ids.aborted:
                client.abort(txn)
            else:
                client.commit(txn)
        number = high + 1
    return txns, tuple(pending)


def _tell(client: Client, database: str, name: str, opened: Sequence[int], operations: Mapping[str | None, int]) -> Ids:
    """Write ids for transactions, and what each of them writes where, as Hive's driver tells it."""
    answer = client.call.allocate_table_write_ids(
        TYPES.AllocateRequest(dbName=database, tableName=name, txnIds=list(opened))
    )
    given = {pair.txnId: pair.writeId for pair in answer.txnToWriteIds}
    for txn in opened:
        for partition, operation in sorted(operations.items(), key=str):
            if partition is None:
                client.writing(txn, database, name, operation, dynamic=False)
                continue
            client.writing(txn, database, name, operation, dynamic=True)
            client.call.add_dynamic_partitions(
                TYPES.AddDynamicPartitions(
                    txnid=txn, writeid=given[txn], dbname=database, tablename=name, partitionnames=[partition],
                    operationType=operation,
                )
            )  # fmt: skip
    return tuple(given[txn] for txn in opened)


_DELTA = re.compile(r"(delete_)?delta_(\d+)_(\d+)(?:_\d+)?")


def _written(source: Path) -> Iterator[tuple[int, int, int]]:
    for entry in sorted(source.iterdir()):
        if match := _DELTA.fullmatch(entry.name):
            yield int(match[2]), int(match[3]), _DELETE if match[1] else _INSERT


def _copy(places: Mapping[Any, Path], wanted: Any) -> None:
    for (source, _), place in places.items():
        place.mkdir(parents=True, exist_ok=True)
        for entry in source.iterdir():
            if wanted(entry) and entry.is_dir():
                shutil.copytree(entry, place / entry.name, copy_function=shutil.copyfile)
            elif wanted(entry):
                shutil.copyfile(entry, place / entry.name)


def _partition(client: Client, table: Any, values: tuple[str, ...]) -> str:
    """Adds a partition where the metastore puts it; its name as Hive escapes it."""
    storage = TYPES.StorageDescriptor(**{name: getattr(table.sd, name) for name in vars(table.sd)})
    storage.location = None
    added = client.call.add_partition(
        TYPES.Partition(
            values=list(values), dbName=table.dbName, tableName=table.tableName, createTime=0, lastAccessTime=0,
            sd=storage, parameters={},
        )
    )  # fmt: skip
    # the path, not its URI: what Hive escapes in names stays escaped
    return urlsplit(added.sd.location).path.removeprefix(f"{urlsplit(table.sd.location).path}/")


def _definition(ddl: str, database: str, name: str, keys: Sequence[str]) -> Any:
    create = next(line for line in ddl.splitlines() if line.startswith("create table"))
    columns = _columns(_bracket(create, create.index("(")))
    if "add columns" in ddl:  # as its last ALTER TABLE left it
        columns = [("id", "bigint"), ("value", "string"), ("extra", "bigint"), ("tags", "array<string>"),
                   ("last", "decimal(10,3)")]  # fmt: skip
    at = create.find("PARTITIONED BY")
    given = [(key, "string") for key in keys] or (_columns(_bracket(create, create.index("(", at))) if at > 0 else [])
    buckets = re.search(r"CLUSTERED BY \((\w+)\) INTO (\d+) BUCKETS", create)
    bucket_columns = [buckets[1]] if buckets else []
    return TYPES.Table(
        tableName=name, dbName=database, owner="tester", createTime=0, lastAccessTime=0, retention=0,
        tableType="MANAGED_TABLE", partitionKeys=_fields(given), parameters={},
        sd=TYPES.StorageDescriptor(
            cols=_fields(columns), inputFormat=f"{_ORC}InputFormat", outputFormat=f"{_ORC}OutputFormat",
            compressed=False, numBuckets=int(buckets[2]) if buckets else -1,
            serdeInfo=TYPES.SerDeInfo(serializationLib=f"{_ORC}Serde", parameters={}), bucketCols=bucket_columns,
            sortCols=[], parameters={},
        ),
    )  # fmt: skip


def _bracket(text: str, at: int) -> str:
    """What stands between the bracket that opens at a place and the one that closes it."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1 : end]
    raise AssertionError(text)


def _columns(text: str) -> list[tuple[str, str]]:
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [(name, kind) for name, _, kind in (part.strip().partition(" ") for part in parts)]


def _fields(columns: Sequence[tuple[str, str]]) -> list[Any]:
    return [TYPES.FieldSchema(name=name, type=kind) for name, kind in columns]


def _component(kind: int, database: str, table: str | None, partition: str | None, operation: int) -> Any:
    level = _DB if table is None else _TABLE if partition is None else _PARTITION
    return TYPES.LockComponent(
        type=kind, level=level, dbname=database, tablename=table, partitionname=partition, operationType=operation,
        isTransactional=operation != _NO_TXN, isDynamicPartitionWrite=False,
    )  # fmt: skip


def _parted(ids: Sequence[int], bits: bytes) -> tuple[list[int], list[int]]:
    """The aborted and the open ones: bit i of the bytes, little-endian, tells of the i-th id."""
    aborted = [one for at, one in enumerate(ids) if at // 8 < len(bits) and bits[at // 8] >> at % 8 & 1]
    return aborted, [one for one in ids if one not in set(aborted)]


def _joined(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
