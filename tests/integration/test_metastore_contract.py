"""Every call of the metastore client against real metastores of both generations: what they really answer."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from servers.metastore import Metastore

from acidlib.acid.names import LONG_MAX, Generation
from acidlib.acid.write_ids import ValidTxnList
from acidlib.cli.jobs import doctor
from acidlib.errors import ConflictError, RefusedError, RetryError
from acidlib.metastore import connection
from acidlib.metastore.compactions import OF_A_COMPACTOR
from acidlib.metastore.connection import interface
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import ConnectionOptions
from acidlib.metastore.transactions import LockComponent, LockState, LockType, OpenTxn, TxnType
from acidlib.metastore.transport import ConnectionLost
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import TableColumn, TableRef
from acidlib.status.doctor import compactor_check
from integration.harness import IN_PROCESS
from integration.metastore_writes import FULL_ACID, INSERT_ONLY, NewTable, Writes, clone_partition, remove_clones

pytestmark = pytest.mark.live

HIVE3_AND_4 = pytest.mark.parametrize("metastore", [Generation.HIVE3, Generation.HIVE4], indirect=True, ids=str)
HIVE4 = pytest.mark.parametrize("metastore", [Generation.HIVE4], indirect=True, ids=str)
KEYS = (("ds", "string"), ("hr", "int"))
ODD_VALUES = [
    ("a/b:c=d", "1"),
    ("ü é", "2"),
    ("__HIVE_DEFAULT_PARTITION__", "3"),
    ("x%41", "4"),
    ("Upper", "5"),
    ("upper", "5"),
    ("O'Brien", "6"),
]
_numbers = count()


@pytest.fixture(scope="module")
def metastore(request: pytest.FixtureRequest) -> Metastore:
    found = request.getfixturevalue(f"hive{request.param.value}_metastore")
    assert isinstance(found, Metastore)
    return found


@pytest.fixture(scope="module")
def hms(metastore: Metastore) -> Iterator[Hms]:
    with connect_hms([metastore.uri], ConnectionOptions(attempts=2), user="tester", host="here") as found:
        yield found


@pytest.fixture(scope="module")
def writes(metastore: Metastore) -> Iterator[Writes]:
    found = Writes(metastore.uri, metastore.generation.value)
    yield found
    found.close()


@pytest.fixture(scope="module")
def database(metastore: Metastore, writes: Writes) -> Iterator[str]:
    name = f"contract{next(_numbers)}"
    writes.database(name, {"repl": "no", "Case": "Kept"})
    yield name
    writes.drop_database(name)


@pytest.fixture
def table(database: str, writes: Writes) -> str:
    """A new full ACID table."""
    name = f"t{next(_numbers)}"
    writes.table(database, name)
    return name


@pytest.fixture(scope="module")
def partitioned(metastore: Metastore, database: str, writes: Writes) -> str:
    """A full ACID table with partitions of odd values; partition number n lies in `.../odd/n`."""
    writes.table(database, "odd", NewTable(partition_keys=KEYS))
    writes.partitions(database, "odd", ODD_VALUES, location=f"{metastore.warehouse.as_uri()}/odd")
    return "odd"


@pytest.fixture
def txns(hms: Hms) -> Iterator[list[int]]:
    """Transactions to abort in the end, whatever a test made of them."""
    opened: list[int] = []
    yield opened
    for txn_id in opened:
        with suppress(ConflictError):
            hms.abort_txn(txn_id, TxnType.DEFAULT)


def opened(hms: Hms, txns: list[int], kind: TxnType = TxnType.DEFAULT) -> int:
    txn_id = hms.open_txn(kind, "contract test")
    txns.append(txn_id)
    return txn_id


def is_open(hms: Hms, txn_id: int, *, exclude_readers: bool = False) -> bool:
    ranges = hms.open_txns(exclude_readers=exclude_readers).opened
    return any(low <= txn_id <= high for low, high in ranges)


# ---- what it is


@HIVE3_AND_4
def test_the_generation_is_found_by_asking(metastore: Metastore, hms: Hms) -> None:
    assert hms.calls is metastore.generation
    assert hms.version == ("3.0" if metastore.generation is Generation.HIVE3 else "4.0.1")
    assert hms.uri == metastore.uri


@HIVE3_AND_4
def test_a_connection_that_was_closed_is_opened_again(metastore: Metastore, hms: Hms) -> None:
    with connect_hms([metastore.uri], ConnectionOptions(attempts=2), user="tester", host="here") as second:
        assert second.calls is hms.calls
        second.close()
        assert "default" in second.database_names()
    assert "default" in hms.database_names()


# ---- the catalog


@HIVE3_AND_4
def test_databases(hms: Hms, database: str) -> None:
    assert {"default", database} <= set(hms.database_names())
    found = hms.database(database.upper())
    assert found is not None
    assert found.name == database
    assert found.properties == {"repl": "no", "Case": "Kept"}
    default = hms.database("default")
    assert default is not None
    assert default.properties == {}
    assert hms.database("no_such_database") is None


@HIVE3_AND_4
def test_a_full_acid_table(hms: Hms, database: str, writes: Writes) -> None:
    columns = (("Aa", "int"), ("s", "struct<x:int,y:array<decimal(10,2)>>"))
    writes.table(database, "Mixed_Case", NewTable(columns=columns, properties=FULL_ACID | {"compactor.x": "1"}))
    found = hms.table(TableRef(database.upper(), "MIXED_case"))
    assert found is not None
    assert (found.ref.database, found.ref.table, found.kind, found.owner) == (
        database,
        "mixed_case",
        "MANAGED_TABLE",
        "tester",
    )
    assert found.storage.columns == (TableColumn(name="aa", type="int"), TableColumn(name="s", type=columns[1][1]))
    assert found.storage.location.startswith("file:")
    assert found.storage.location.endswith(f"{database}.db/mixed_case")
    assert found.storage.serde == "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
    assert found.storage.input_format == "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
    assert found.is_transactional
    assert not found.is_insert_only
    assert found.properties.get("compactor.x") == "1"
    assert found.partition_keys == ()
    assert found.created > 1_600_000_000
    assert (found.id is None) == (hms.calls is Generation.HIVE3)


@HIVE3_AND_4
def test_a_table_made_anew_is_told_apart(hms: Hms, database: str, writes: Writes) -> None:
    writes.table(database, "again")
    first = hms.table(TableRef(database, "again"))
    writes.drop_table(database, "again")
    assert hms.table(TableRef(database, "again")) is None
    writes.table(database, "again")
    second = hms.table(TableRef(database, "again"))
    assert first is not None
    assert second is not None
    if hms.calls is Generation.HIVE4:
        assert first.id != second.id
    assert second.created >= first.created


@HIVE3_AND_4
def test_tables_of_every_kind_are_read(hms: Hms, database: str, writes: Writes) -> None:
    external = NewTable(
        kind="EXTERNAL_TABLE",
        properties={"EXTERNAL": "TRUE"},
        buckets=4,
        bucket_columns=["a"],
        sort_columns=["a"],
        partition_keys=KEYS,
    )
    writes.table(database, "kind_mm", NewTable(properties=INSERT_ONLY))
    writes.table(database, "kind_view", NewTable(kind="VIRTUAL_VIEW", properties={}, view_of="select 1"))
    writes.table(database, "kind_external", external)
    names = ["kind_mm", "kind_view", "kind_external"]
    assert set(names) <= set(hms.table_names(database))

    found = {table.ref.table: table for table in hms.tables(database, [*names, "no_such_table", "KIND_MM"])}
    assert sorted(found) == sorted(names)
    assert found == {name: hms.table(TableRef(database, name)) for name in names}
    assert found["kind_mm"].is_insert_only
    assert found["kind_view"].storage.location == ""
    storage = found["kind_external"].storage
    assert (storage.buckets, storage.bucket_columns, storage.sort_columns) == (4, ("a",), ("a",))
    assert found["kind_external"].partition_keys == (
        TableColumn(name="ds", type="string"),
        TableColumn(name="hr", type="int"),
    )


@HIVE3_AND_4
def test_names_in_several_batches(hms: Hms, database: str, writes: Writes) -> None:
    writes.table(database, "batch_first")
    writes.table(database, "batch_last")
    asked = ["batch_first", *(f"no_such_{number}" for number in range(700)), "batch_last"]
    assert [table.ref.table for table in hms.tables(database, asked)] == ["batch_first", "batch_last"]


@HIVE3_AND_4
def test_what_does_not_exist_is_never_an_empty_list(hms: Hms, database: str, partitioned: str) -> None:
    assert hms.table(TableRef(database, "no_such_table")) is None
    assert hms.table(TableRef("no_such_database", "t")) is None
    assert hms.tables("no_such_database", ["t"]) == ()
    assert hms.tables(database, []) == ()
    with pytest.raises(RefusedError, match=r"^Cannot list the tables of nothere: there is no such database$"):
        hms.table_names("NotHere")
    with pytest.raises(RefusedError, match=rf"^Cannot list the partitions of {database}.nothere: there is no"):
        hms.partition_names(TableRef(database, "NotHere"))
    table = hms.table(TableRef(database, partitioned))
    assert table is not None
    assert hms.partitions(table, []) == {}
    assert hms.partitions(table, ["ds=none/hr=1"]) == {}
    assert hms.partitions(replace(table, ref=TableRef(table.ref.database, "no_such_table")), ["ds=none/hr=1"]) == {}


@HIVE3_AND_4
def test_an_empty_database_and_a_table_without_partitions(hms: Hms, database: str, table: str, writes: Writes) -> None:
    writes.database("contract_empty")
    try:
        assert hms.table_names("contract_empty") == ()
    finally:
        writes.drop_database("contract_empty")
    assert hms.partition_names(TableRef(database, table)) == ()


@HIVE3_AND_4
def test_partitions_of_odd_values(metastore: Metastore, hms: Hms, database: str, partitioned: str) -> None:
    table = hms.table(TableRef(database, partitioned))
    assert table is not None
    names = hms.partition_names(TableRef(database.upper(), partitioned.upper()))
    assert len(names) == len(set(names)) == len(ODD_VALUES)
    assert {"ds=a%2Fb%3Ac%3Dd/hr=1", "ds=x%2541/hr=4", "ds=Upper/hr=5", "ds=upper/hr=5"} <= set(names)

    found = hms.partitions(table, [*names, "ds=none/hr=9"])
    assert sorted(found) == sorted(names)
    for partition in found.values():
        number = ODD_VALUES.index((partition.values[0], partition.values[1]))
        assert partition.properties["number"] == str(number)
        assert partition.storage.location.endswith(f"/odd/{number}")
        assert partition.storage.columns == (TableColumn(name="a", type="int"),)
        assert partition.created > 1_600_000_000
    assert found["ds=Upper/hr=5"].values == ("Upper", "5")
    assert found["ds=x%2541/hr=4"].values == ("x%41", "4")


@HIVE3_AND_4
def test_2500_partitions_in_batches(metastore: Metastore, hms: Hms, database: str, writes: Writes) -> None:
    writes.table(database, "many", NewTable(partition_keys=(("p", "int"),)))
    writes.partitions(database, "many", [("0",)], location=f"{metastore.warehouse.as_uri()}/many")
    clone_partition(metastore.database_url, "many", "p=0", 2499)
    try:
        table = hms.table(TableRef(database, "many"))
        assert table is not None
        names = hms.partition_names(TableRef(database, "many"))
        found = hms.partitions(table, names)
    finally:
        remove_clones(metastore.database_url)
    assert set(names) == {f"p={number}" for number in range(2500)}
    assert {name: partition.values for name, partition in found.items()} == {
        f"p={number}": (str(number),) for number in range(2500)
    }
    assert found["p=2499"].storage.location.endswith("/many/0-2499")
    assert found["p=2499"].storage.columns == found["p=0"].storage.columns == (TableColumn(name="a", type="int"),)


@HIVE3_AND_4
def test_settings_of_the_server(hms: Hms, metastore: Metastore) -> None:
    timeout = metastore.properties["hive.txn.timeout"]
    assert hms.config_value("metastore.txn.timeout", "none") == timeout
    assert hms.config_value("hive.txn.timeout", "none") == timeout
    assert hms.config_value("hive.no.such.key", "none") == "none"
    minimum = hms.config_value("metastore.txn.use.minhistorywriteid", "unknown")
    assert minimum == ("unknown" if hms.calls is Generation.HIVE3 else "false")
    with pytest.raises(RefusedError, match=r"^Cannot read the setting fs.defaultFS .*: For security reasons"):
        hms.config_value("fs.defaultFS", "none")


# ---- transactions and write ids


@HIVE3_AND_4
def test_a_snapshot_tells_open_from_aborted(hms: Hms, txns: list[int]) -> None:
    ids = [opened(hms, txns) for _ in range(12)]
    for txn_id in ids[1::3]:
        hms.abort_txn(txn_id, TxnType.DEFAULT)
    hms.commit_txn(ids[0], TxnType.DEFAULT)
    snapshot = hms.open_txns()
    assert snapshot.high_water_mark >= ids[-1]
    assert [txn_id for txn_id in ids if snapshot.is_txn_valid(txn_id)] == ids[:1]
    assert [txn_id for txn_id in ids if snapshot.is_txn_aborted(txn_id)] == ids[1::3]
    assert [txn_id for txn_id in ids if is_open(hms, txn_id)] == sorted({*ids[2::3], *ids[3::3]})
    assert snapshot.min_open <= ids[2]

    told = {txn.id: txn for txn in hms.open_txns_info()}
    assert [told[txn_id].state for txn_id in ids[1:4]] == ["aborted", "open", "open"]
    assert ids[0] not in told
    mine = told[ids[2]]
    assert isinstance(mine, OpenTxn)
    assert (mine.user, mine.host) == ("tester", "here")
    assert mine.started_ms is not None
    assert mine.heartbeat_ms is not None
    assert 1_600_000_000_000 < mine.started_ms <= mine.heartbeat_ms


@HIVE3_AND_4
def test_readers_are_in_the_snapshot_unless_they_are_left_out(hms: Hms, txns: list[int]) -> None:
    reader = opened(hms, txns, TxnType.READ_ONLY)
    writer = opened(hms, txns)
    assert is_open(hms, reader)
    assert is_open(hms, writer)
    # on Hive 3.1 no transaction is known to be a reader
    assert is_open(hms, reader, exclude_readers=True) == (hms.calls is Generation.HIVE3)
    assert is_open(hms, writer, exclude_readers=True)


@HIVE3_AND_4
def test_the_lowest_open_id_without_any(hms: Hms) -> None:
    for txn in hms.open_txns_info():
        if txn.state == "open":
            hms.abort_txn(txn.id, TxnType.DEFAULT)
    snapshot = hms.open_txns()
    assert snapshot.opened == ()
    assert snapshot.min_open == snapshot.high_water_mark + 1


@HIVE3_AND_4
def test_valid_write_ids(hms: Hms, database: str, table: str, txns: list[int]) -> None:
    ids = [opened(hms, txns) for _ in range(11)]
    got = [hms.allocate_write_id(txn_id, TableRef(database, table.upper())) for txn_id in ids]
    assert got == list(range(1, 12))
    assert hms.allocate_write_id(ids[3], TableRef(database, table)) == 4
    for index in (1, 2, 3, 9):
        hms.abort_txn(ids[index], TxnType.DEFAULT)
    hms.commit_txn(ids[0], TxnType.DEFAULT)
    hms.commit_txn(ids[5], TxnType.DEFAULT)

    snapshot = hms.open_txns()
    names = [TableRef(database.upper(), table.upper()), TableRef(database, "no_such_table")]
    found = hms.valid_write_ids(names, snapshot)
    assert list(found) == [TableRef(database, table), TableRef(database, "no_such_table")]
    mine = found[TableRef(database, table)]
    assert (mine.table, mine.high_water_mark, mine.min_open) == (f"{database}.{table}", 11, 5)
    assert mine.open_ids == (5, 7, 8, 9, 11)
    assert mine.aborted_ids == (2, 3, 4, 10)
    nothing = found[TableRef(database, "no_such_table")]
    assert (nothing.high_water_mark, nothing.open_ids, nothing.min_open) == (0, (), LONG_MAX)

    # what was open in the snapshot stays open, whatever has happened since
    hms.commit_txn(ids[4], TxnType.DEFAULT)
    assert hms.valid_write_ids(names[:1], snapshot)[TableRef(database, table)].open_ids == (5, 7, 8, 9, 11)
    assert hms.valid_write_ids(names[:1], hms.open_txns())[TableRef(database, table)].open_ids == (7, 8, 9, 11)
    assert hms.valid_write_ids([], snapshot) == {}


@HIVE3_AND_4
def test_ranges_in_a_snapshot_are_understood(hms: Hms, database: str, table: str, txns: list[int]) -> None:
    ids = [opened(hms, txns) for _ in range(7)]
    for txn_id in ids:
        hms.allocate_write_id(txn_id, TableRef(database, table))
        hms.commit_txn(txn_id, TxnType.DEFAULT)
    before = ValidTxnList(high_water_mark=ids[-1], opened=((ids[1], ids[5]),))
    ref = TableRef(database, table)
    found = hms.valid_write_ids([ref], before)[ref]
    assert found.open_ids == (2, 3, 4, 5, 6)
    assert found.min_open == 2


@HIVE3_AND_4
def test_write_ids_of_250_tables(hms: Hms, database: str, table: str, txns: list[int]) -> None:
    hms.allocate_write_id(opened(hms, txns), TableRef(database, table))
    names = [*(TableRef(database, f"no_such_{number}") for number in range(249)), TableRef(database, table)]
    found = hms.valid_write_ids(names, hms.open_txns())
    assert list(found) == names
    assert found[TableRef(database, table)].open_ids == (1,)


@HIVE3_AND_4
def test_hive_3_forgets_even_a_commit_that_has_a_write_id(hms: Hms, database: str, table: str, txns: list[int]) -> None:
    txn_id = opened(hms, txns)
    hms.allocate_write_id(txn_id, TableRef(database, table))
    hms.commit_txn(txn_id, TxnType.DEFAULT)
    if hms.calls is Generation.HIVE4:
        hms.commit_txn(txn_id, TxnType.DEFAULT)
    else:
        with pytest.raises(ConflictError, match="No such transaction"):
            hms.commit_txn(txn_id, TxnType.DEFAULT)


# ---- locks


@HIVE3_AND_4
def test_locks_of_a_database_and_of_things_that_do_not_exist(hms: Hms, database: str) -> None:
    lock_id, state = hms.lock(
        [
            LockComponent(type=LockType.SHARED_READ, database=database),
            LockComponent(type=LockType.EXCLUSIVE, database="acidlib", table="no.such", partition="p=1"),
        ],
        txn_id=None,
        agent="contract test",
    )
    assert state is LockState.ACQUIRED
    held = [lock for lock in hms.show_locks() if lock.lock_id == lock_id]
    assert {(lock.database, lock.table, lock.partition) for lock in held} == {
        (database, None, None),
        ("acidlib", "no.such", "p=1"),
    }
    hms.unlock(lock_id)


@HIVE3_AND_4
def test_exclusive_writes_are_of_hive_4(hms: Hms, database: str, table: str) -> None:
    asked = [LockComponent(type=LockType.EXCL_WRITE, database=database, table=table)]
    if hms.calls is Generation.HIVE3:
        with pytest.raises(RefusedError, match=r"a Hive 3\.1 metastore has no EXCL_WRITE locks$"):
            hms.lock(asked, txn_id=None, agent="contract test")
        return
    lock_id, state = hms.lock(asked, txn_id=None, agent="contract test")
    assert state is LockState.ACQUIRED
    assert [lock.type for lock in hms.show_locks(database, table)] == [LockType.EXCL_WRITE]
    hms.unlock(lock_id)


# ---- compactions


def asked_for(database: str, table: str, partition: str | None = None, **more: object) -> CompactionRequest:
    request = CompactionRequest(id=0, ref=TableRef(database, table, partition), type=CompactionType.MAJOR)
    return replace(request, **more)  # type: ignore[arg-type] # tests name the fields


def shown(hms: Hms, request_id: int) -> CompactionRequest:
    (found,) = (request for request in hms.show_compactions() if request.id == request_id)
    return found


def drain(hms: Hms, pool: str | None) -> None:
    """Takes all that other tests left in a pool."""
    while hms.find_next_compaction("drain", "0", pool) is not None:
        pass


@HIVE3_AND_4
def test_a_request_and_its_duplicate(hms: Hms, database: str, table: str, partitioned: str) -> None:
    whole = asked_for(database.upper(), table.upper(), properties=(("compactor.a", "b"),), run_as="joe")
    answer = hms.compact(whole)
    assert answer.accepted
    assert answer.state is State.INITIATED
    row = shown(hms, answer.id)
    assert (row.ref.database, row.ref.table, row.ref.partition, row.type) == (
        database,
        table,
        None,
        CompactionType.MAJOR,
    )
    assert (row.state, row.run_as, row.worker_id, row.start_ms, row.end_ms) == (
        State.INITIATED, "joe", None, None, None,
    )  # fmt: skip
    assert (row.highest_write_id, row.hadoop_job_id, row.error_message) == (None, None, None)
    assert (row.enqueue_ms is None) == (hms.calls is Generation.HIVE3)

    again = hms.compact(whole)
    assert not again.accepted
    if hms.calls is Generation.HIVE3:
        assert (again.id, again.state, again.reason) == (answer.id, State.INITIATED, None)
    else:
        assert (again.id, again.state) == (-1, State.REFUSED)
        assert again.reason is not None
        assert f"id={answer.id}" in again.reason

    name = "ds=Upper/hr=5"
    minor = hms.compact(asked_for(database, partitioned, name, type=CompactionType.MINOR))
    assert shown(hms, minor.id).ref.partition == name
    assert shown(hms, minor.id).type is CompactionType.MINOR
    ids = [request.id for request in hms.show_compactions()]
    assert ids == sorted(ids, reverse=True)
    assert [row.id for row in hms.show_compactions_of(shown(hms, minor.id).ref)] == [minor.id]
    assert [row.id for row in hms.show_compactions_of(row.ref)] == [answer.id]


@HIVE3_AND_4
def test_a_heartbeat_of_a_range_keeps_each_of_its_transactions_alive(hms: Hms, txns: list[int]) -> None:
    """Also where some between them have ended."""
    first, aborted, committed, last = numbers = [opened(hms, txns) for _ in range(4)]

    def heard() -> dict[int, int]:
        return {txn.id: txn.heartbeat_ms or 0 for txn in hms.open_txns_info() if txn.id in (first, last)}

    before = heard()
    assert not set(numbers) & set(hms.heartbeat_range(first, last))
    between = heard()
    hms.abort_txn(aborted, TxnType.DEFAULT)
    hms.commit_txn(committed, TxnType.DEFAULT)
    assert {aborted, committed} <= set(hms.heartbeat_range(first, last))
    after = heard()
    assert all(before[txn] < between[txn] < after[txn] for txn in (first, last))


@HIVE4
def test_who_asked_and_which_pool_are_told(hms: Hms, database: str, table: str) -> None:
    request = asked_for(database, table, initiator_id="host-1", initiator_version="0.1", pool="contract")
    answer = hms.compact(request)
    message = hms._types.ShowCompactRequest(dbName=database, tbName=table)
    assert [row.id for row in hms.call("read its requests", "show_compact", message).compacts] == [answer.id]
    assert len(hms.show_compactions()) > 1, "the server has others, and left them out"
    row = shown(hms, answer.id)
    assert (row.initiator_id, row.initiator_version, row.pool) == ("host-1", "0.1", "contract")
    assert row.enqueue_ms is not None
    drain(hms, "contract")


@HIVE4
def test_the_life_of_a_compaction(hms: Hms, database: str, table: str, txns: list[int]) -> None:
    writer = opened(hms, txns)
    hms.allocate_write_id(writer, TableRef(database, table))
    hms.commit_txn(writer, TxnType.DEFAULT)
    properties = (("compactor.x", "ü"), ("tblprops.orc.compress", "ZSTD"))
    asked = hms.compact(asked_for(database, table, properties=properties, pool="life"))
    assert hms.find_next_compaction("worker-1", "0.1", "no such pool") is None
    claimed = hms.find_next_compaction("worker-1", "0.1", "life")
    assert claimed is not None
    assert (claimed.id, claimed.ref.database, claimed.ref.table, claimed.ref.partition) == (
        asked.id,
        database,
        table,
        None,
    )
    assert (claimed.type, claimed.state, claimed.worker_id) == (CompactionType.MAJOR, State.WORKING, "worker-1")
    assert sorted(claimed.properties) == sorted(properties)
    assert hms.find_next_compaction("worker-1", "0.1", "life") is None
    row = shown(hms, asked.id)
    assert (row.state, row.worker_id, row.worker_version, row.pool) == (State.WORKING, "worker-1", "0.1", "life")
    assert row.start_ms is not None

    txn_id = opened(hms, txns, TxnType.COMPACTION)
    hms.add_write_ids_to_min_history(txn_id, {f"{database}.{table}": 1})
    mine = replace(claimed, highest_write_id=1, run_as="joe")
    hms.update_compactor_state(mine, txn_id)
    row = shown(hms, asked.id)
    assert (row.txn_id, row.highest_write_id, row.run_as, row.next_txn_id) == (txn_id, 1, "joe", None)
    hms.update_compactor_state(mine, txn_id)
    hms.mark_compacted(mine)
    later = opened(hms, txns)
    hms.commit_txn(txn_id, TxnType.COMPACTION)
    hms.commit_txn(txn_id, TxnType.COMPACTION)
    row = shown(hms, asked.id)
    assert (row.state, row.worker_id, row.next_txn_id) == (State.READY_FOR_CLEANING, None, later)
    assert row.commit_ms is not None
    # nothing was written since: refused as done already
    assert hms.compact(asked_for(database, table)).reason is not None

    hms.mark_cleaned(mine)
    row = shown(hms, asked.id)
    assert (row.state, row.highest_write_id) == (State.SUCCEEDED, 1)
    assert row.end_ms is not None


@HIVE4
def test_failed_and_refused(hms: Hms, database: str, table: str, partitioned: str) -> None:
    for name, mark, state in (
        (table, hms.mark_failed, State.FAILED),
        (partitioned, hms.mark_refused, State.REFUSED),
    ):
        asked = hms.compact(asked_for(database, name, pool="marks"))
        claimed = hms.find_next_compaction("worker-1", "0.1", "marks")
        assert claimed is not None
        mark(replace(claimed, error_message="it is: so ü"))
        row = shown(hms, asked.id)
        assert (row.state, row.error_message) == (state, "it is: so ü")
        # gone from the queue, the second time there is nothing to mark
        with pytest.raises(RetryError, match=rf"^Cannot mark compaction {asked.id} of {database}.{name} as "):
            mark(claimed)
        assert shown(hms, asked.id).state is state


@HIVE4
def test_waiting_requests_can_be_aborted(hms: Hms, database: str, table: str) -> None:
    asked = hms.compact(asked_for(database, table, pool="aborts"))
    told = hms.abort_compactions([asked.id, 999_999_999])
    assert sorted(told) == [asked.id, 999_999_999]
    assert shown(hms, asked.id).state is State.ABORTED
    assert told[999_999_999].startswith("Error: ")
    assert not told[asked.id].startswith("Error")
    assert hms.abort_compactions([]) == {}


@HIVE4
def test_a_rebalance_is_told_for_what_it_is(hms: Hms, database: str, table: str) -> None:
    more = {"bucket_count": 3, "order_by": "order by id"}
    asked = hms.compact(asked_for(database, table, type=CompactionType.REBALANCE, pool="rebalances", **more))
    assert asked.accepted
    assert shown(hms, asked.id).type is CompactionType.REBALANCE
    claimed = hms.find_next_compaction("worker-1", "0.1", "rebalances")
    assert claimed is not None
    assert (claimed.type, claimed.bucket_count) == (CompactionType.REBALANCE, 3)
    assert claimed.order_by == more["order_by"]
    hms.set_job_id(claimed, "acid:17:1795468797123")
    assert shown(hms, asked.id).hadoop_job_id == "acid:17:1795468797123"
    hms.mark_refused(replace(claimed, error_message="not here"))


@pytest.mark.parametrize("metastore", [Generation.HIVE3], indirect=True, ids=str)
def test_calls_that_hive_3_has_not(hms: Hms, database: str, table: str) -> None:
    request = replace(asked_for(database, table), id=1)
    calls = (
        lambda: hms.find_next_compaction("worker-1", "0.1", None),
        lambda: hms.update_compactor_state(request, 1),
        lambda: hms.mark_compacted(request),
        lambda: hms.mark_failed(request),
        lambda: hms.mark_refused(request),
        lambda: hms.mark_cleaned(request),
        lambda: hms.abort_compactions([1]),
        lambda: hms.add_write_ids_to_min_history(1, {}),
    )
    for call in calls:
        with pytest.raises(RefusedError, match=r"a Hive 3\.1 metastore has no such call$"):
            call()


@HIVE3_AND_4
def test_which_calls_of_a_compactor_a_server_has_is_found_by_calls_without_effect(
    hms: Hms, database: str, table: str
) -> None:
    asked = hms.compact(asked_for(database, table, pool="asking"))
    before = hms.show_compactions()
    lacking = [call for call in OF_A_COMPACTOR if hms.lacks(call)]
    assert lacking == ([] if hms.calls is Generation.HIVE4 else [*OF_A_COMPACTOR])
    assert (hms.show_compactions(), shown(hms, asked.id).state) == (before, State.INITIATED)


# ---- what goes wrong


@HIVE3_AND_4
def test_a_missing_field_costs_the_connection_and_no_more(hms: Hms) -> None:
    types = interface()
    # a server either says what is missing, or ends the connection without a word
    with pytest.raises(RetryError, match=r"failed: Required field 'tablename' is unset"):
        hms.call("ask wrongly", "compact2", types.CompactionRequest(dbname="a"))
    without_txns = types.GetValidWriteIdsRequest(fullTableNames=["a.b"])
    with pytest.raises(ConnectionLost, match=r"the server closed the connection"):
        hms._connected().call("ask wrongly", "get_valid_write_ids", without_txns)
    assert "default" in hms.database_names()


@HIVE3_AND_4
def test_a_call_that_does_not_exist_leaves_the_connection_usable(hms: Hms, monkeypatch: pytest.MonkeyPatch) -> None:
    types = interface()
    if hms.calls is Generation.HIVE3:
        with pytest.raises(RefusedError, match=r"has no call get_database_req$"):
            hms.call("ask", "get_database_req", types.GetDatabaseRequest(name="default"))
    else:
        monkeypatch.setattr(connection, "OF_HMSCLIENT", {"get_table"})
        with pytest.raises(RefusedError, match=r"has no call get_table$"):
            hms._connected().call("ask", "get_table", "default", "t")
    assert "default" in hms.database_names()


# ---- what is seen of it by doctor


@HIVE3_AND_4
def test_doctor_sees_a_metastore_that_is_well(metastore: Metastore, hms: Hms, tmp_path: Path) -> None:
    words = ("--metastore-uri", metastore.uri, "--queue-url", f"sqlite:///{tmp_path}/queue.db", "--output", "json")
    ran = CliRunner().invoke(doctor, words, obj=IN_PROCESS)
    assert ran.exit_code == 0, ran.output
    checks = {check["name"]: (check["state"], check["found"]) for check in json.loads(ran.stdout)["checks"]}
    generation = "Hive 3.1" if metastore.generation is Generation.HIVE3 else "Hive 4"
    assert checks["metastore"] == ("ok", f"{generation} at {metastore.uri}")
    assert checks["clock"] == ("ok", "within 5 s of the metastore's")
    assert checks["store"][0] == "ok"
    assert checks["queue"][1].startswith("sqlite at" if metastore.generation is Generation.HIVE3 else "the metastore's")
    compactor = compactor_check(hms)
    assert checks["Hive's compactor"] == (compactor.state.value, compactor.found)
    assert not any(txn.user == getpass.getuser() and txn.state == "open" for txn in hms.open_txns_info())
