"""A snapshot of a table: its places, its locks and its end, on a metastore that knows transactions and locks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from fake_locks import Client, Failure, LockServer
from judges.tables import deletes, delta_name, inserts, write_base, write_dir
from located import at
from waits import until

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidTxnList, ValidWriteIdList, all_committed
from acidlib.config.settings import default_settings, load_settings
from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError, UsageError
from acidlib.location import Location
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.transactions import LockComponent, LockState, LockType, TxnType
from acidlib.model.tables import ORC_INPUT_FORMAT, MetastoreTable, Partition, Storage, TableColumn, TableRef
from acidlib.places.place import Interpretation
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.runs import snapshot as snapshots
from acidlib.runs.environment import Environment
from acidlib.runs.snapshot import NO_LOCK, Snapshot, open_snapshot
from acidlib.scan.splits import packed
from acidlib.scan.wanted import Wanted
from acidlib.stores.store import STAGING_PREFIX
from acidlib.stores.stores import Stores

COLUMNS = "struct<id:int,name:string>"
REF = TableRef("db", "t")
DAYS = ("ds=1", "ds=2", "ds=3")
EVERYTHING = Interpretation(write_ids=StatedWriteIds(everything=True))


class Metastore(Client):
    """One table `db.t` beside transactions and locks."""

    uri = "thrift://fake:9083"

    def __init__(self, server: LockServer, location: Path, *, partitioned: bool) -> None:
        super().__init__(server)
        keys = (TableColumn(name="ds", type="int"),) if partitioned else ()
        columns = (TableColumn(name="id", type="int"), TableColumn(name="name", type="string"))
        storage = Storage(location=str(location), columns=columns, input_format=ORC_INPUT_FORMAT)
        properties = {"transactional": "true"}
        self.known: MetastoreTable | None = MetastoreTable(
            ref=REF, kind="MANAGED_TABLE", owner="etl", created=1, storage=storage, partition_keys=keys,
            properties=properties,
        )  # fmt: skip
        self.parts = {
            name: Partition(values=(name[3:],), storage=replace(storage, location=f"{location}/{name}"))
            for name in (DAYS if partitioned else ())
        }
        self.write_ids = all_committed("db.t", 10)
        self.other_catalog: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        self.registered: dict[str, int] = {}
        self.order: list[str] = []
        self.on: dict[str, Callable[[], None]] = {}

    def database_names(self) -> list[str]:
        return ["db", "default"]

    def table_names(self, database: str) -> list[str]:
        return ["days", "t"] if database == "db" else []

    def _noted(self, call: str) -> None:
        self.order.append(call)
        self.on.pop(call, lambda: None)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def table(self, ref: TableRef) -> MetastoreTable | None:
        self._noted("table")
        return self.known if ref.as_stored.whole_table == REF else None

    def of_other_catalogs(self, database: str, names: Sequence[str]) -> dict[str, str]:
        return self.other_catalog

    def partition_names(self, ref: TableRef) -> tuple[str, ...]:
        self._noted("partition_names")
        return tuple(self.parts)

    def partitions(self, table: MetastoreTable, names: Sequence[str]) -> Mapping[str, Partition]:
        self._noted("partitions")
        return {name: self.parts[name] for name in names if name in self.parts}

    def config_value(self, key: str, default: str) -> str:
        return self.settings.get(key, default)

    def add_write_ids_to_min_history(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        self._noted("register")
        self.registered.update(write_ids)

    def lock(self, components: Sequence[LockComponent], **options: Any) -> tuple[int, LockState]:
        self._noted("lock")
        return super().lock(components, **options)

    def open_txns(self) -> ValidTxnList:
        self._noted("open_txns")
        return super().open_txns()

    def valid_write_ids(self, tables: Sequence[TableRef], txns: ValidTxnList) -> dict[TableRef, ValidWriteIdList]:
        self._noted("write_ids")
        return dict.fromkeys(tables, self.write_ids)

    @property
    def open_txn_ids(self) -> list[int]:
        return [txn for txn, state in self.server.txns.items() if state == "open"]

    @property
    def locked(self) -> list[str | None]:
        return [lock.partition for lock in self.server.all_locks()]

    @property
    def is_free(self) -> bool:
        """Nothing is locked or open, and no connection is left."""
        return self.closed and not self.locked and not self.open_txn_ids


@pytest.fixture(params=[Generation.HIVE3, Generation.HIVE4], ids=str)
def server(request: pytest.FixtureRequest) -> LockServer:
    return LockServer(generation=request.param)


class Site:
    """A metastore with a table on this machine's disks, and snapshots of it."""

    def __init__(self, metastore: Metastore, location: Path) -> None:
        self.metastore = metastore
        self.location = location
        self.environment = Environment(
            settings=load_settings(assignments=["acidlib.read.lock.timeout=200ms"]),
            queue_url="",
            metastore=(metastore.uri,),
        )
        self.notes: list[str] = []

    def open(self, table: TableRef | Location = REF, *, lock_seconds: float | None = None, **wanted: Any) -> Snapshot:
        return open_snapshot(
            self.environment,
            Stores(),
            table,
            Wanted(**wanted),
            lock_seconds=lock_seconds,
            note=self.notes.append,
            pause=lambda seconds: None,
        )


def site_of(server: LockServer, location: Path, monkeypatch: pytest.MonkeyPatch, *, partitioned: bool) -> Site:
    metastore = Metastore(server, location, partitioned=partitioned)

    def beats(*_: object) -> Heartbeater:
        return Heartbeater(
            lambda: Client(server),
            interval_seconds=0.02,
            timeout_seconds=300,
            clock=time.monotonic,  # type: ignore[arg-type, return-value]
        )

    monkeypatch.setattr(snapshots, "open_metastore", lambda environment: metastore)
    monkeypatch.setattr(snapshots, "heartbeater", beats)
    return Site(metastore, location)


@pytest.fixture
def plain(server: LockServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A table without partitions, with three rows of which one is deleted."""
    write_dir(tmp_path, delta_name(1, 1), COLUMNS, inserts(1, [(1, "a"), (2, "b"), (3, "c")]))
    write_dir(tmp_path, delta_name(2, 2, delete=True), COLUMNS, deletes(2, [(1, 536870912, 1)]))
    return site_of(server, tmp_path, monkeypatch, partitioned=False)


@pytest.fixture
def days(server: LockServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A table of three partitions with a row each."""
    for number, name in enumerate(DAYS, 1):
        write_dir(tmp_path / name, delta_name(number, number), COLUMNS, inserts(number, [(number, name)]))
    return site_of(server, tmp_path, monkeypatch, partitioned=True)


# --- with a metastore -------------------------------------------------------------------------------------------------


def test_the_rows_of_the_snapshot_are_read_while_it_is_locked(plain: Site) -> None:
    metastore = plain.metastore
    with plain.open() as opened:
        assert metastore.locked == [None]
        (lock,) = metastore.server.all_locks()
        assert (lock.type, lock.agent.startswith("read by acidlib-")) == (LockType.SHARED_READ, True)
        assert opened.to_arrow().to_pylist() == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
        assert opened.lock_note == f"transaction {lock.txn_id} holds a shared lock on db.t"
        assert opened.notes == ()
    assert metastore.is_free
    assert plain.notes == []
    with pytest.raises(ConflictError, match=r"^Cannot read db\.t: its snapshot is closed$"):
        opened.to_arrow()


@pytest.mark.parametrize("server", [Generation.HIVE4], indirect=True, ids=str)
def test_the_rows_of_several_tasks_are_read_in_processes(days: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "packed", partial(packed, bytes_per_task=1))
    with days.open() as opened:
        assert len(snapshots.packed(opened.splits)) == len(DAYS)
        table = opened.to_arrow()
        assert table.schema == opened.scan.schema
        assert table.to_pylist() == [{"id": n, "name": name, "ds": n} for n, name in enumerate(DAYS, 1)]
        (file,) = (days.location / DAYS[1]).glob("*/bucket_00000")
        file.write_bytes(b"ORC" + bytes(file.stat().st_size - 3))
        with pytest.raises(CorruptError, match=r"Cannot read \S+/ds=2/\S+/bucket_00000: "):
            opened.to_arrow()


def test_what_is_committed_is_asked_for_after_the_lock_and_before_the_listing(
    plain: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = plain.metastore.order
    listed = snapshots.list_location

    def list_location(*arguments: Any, **options: Any) -> Any:
        order.append("listing")
        return listed(*arguments, **options)

    monkeypatch.setattr(snapshots, "list_location", list_location)
    with plain.open():
        pass
    assert [order.count(call) for call in ("open_txns", "write_ids", "listing")] == [1, 1, 1]
    assert order.index("lock") < order.index("open_txns") < order.index("write_ids") < order.index("listing")


def test_rows_that_are_not_committed_are_left_out(plain: Site) -> None:
    plain.metastore.write_ids = ValidWriteIdList.parse("db.t:2:2:2:")
    with plain.open(columns=("id",)) as opened:
        assert opened.to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_a_result_of_an_open_transaction_is_not_read(plain: Site) -> None:
    """Hive 4 hides it by the transaction in its name; to Hive 3.1 it is visible."""
    metastore = plain.metastore
    compaction = metastore.open_txn(TxnType.DEFAULT, "a compaction")
    rows = inserts(1, [(7, "x")])
    suffix = f"_v{compaction:07d}" if metastore.calls is Generation.HIVE4 else ""
    write_dir(plain.location, f"base_0000002{suffix}", COLUMNS, rows)
    if not suffix:
        (plain.location / "base_0000002" / "_metadata_acid").write_text(
            '{"thisFileVersion":"0","dataFormat":"compacted"}'
        )
    with plain.open(columns=("id",)) as opened:
        assert opened.to_arrow()["id"].to_pylist() == ([1, 3] if suffix else [7])
    metastore.commit_txn(compaction, TxnType.DEFAULT)
    with plain.open(columns=("id",)) as opened:
        assert opened.to_arrow()["id"].to_pylist() == [7]


@pytest.mark.parametrize(
    ("wanted", "read"),
    [
        ({}, [1, 2, 3]),
        ({"partitions": ("ds=2",)}, [2]),
        ({"where": "ds >= 2"}, [2, 3]),
        ({"where": "ds >= 2", "partitions": ("ds=[12]",)}, [2]),
        ({"where": "ds > 3"}, []),
    ],
)
def test_only_partitions_that_may_match_are_listed_and_locked(
    days: Site, wanted: dict[str, Any], read: list[int]
) -> None:
    for number in {1, 2, 3} - set(read):
        (days.location / f"ds={number}").rename(days.location / f"gone{number}")
    with days.open(columns=("ds",), **wanted) as opened:
        assert sorted(filter(None, days.metastore.locked)) == [f"ds={number}" for number in read]
        assert opened.places == len(read)
        assert sorted({split.partition for split in opened.splits if split.partition}) == [f"ds={n}" for n in read]
    assert days.metastore.is_free


def test_hive_4_locks_the_table_instead_of_very_many_partitions(days: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cleaner waits for the transaction; Hive 3.1's for the locks of each partition alone."""
    monkeypatch.setattr(snapshots, "LOCKS_PER_REQUEST", 2)
    with days.open(columns=("id",)) as opened:
        is_hive4 = days.metastore.calls is Generation.HIVE4
        assert days.metastore.locked == ([None] if is_hive4 else [*DAYS])
        words = "a shared lock on db.t" if is_hive4 else "shared locks on 3 partitions of db.t"
        assert opened.lock_note.endswith(words)
        assert sorted(opened.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_partition_that_is_added_before_the_snapshot_is_locked_and_read(days: Site) -> None:
    """Its rows may be of a transaction whose other rows the snapshot shows."""
    metastore = days.metastore
    late = metastore.parts.pop("ds=3")
    metastore.on["open_txns"] = lambda: metastore.parts.update({"ds=3": late})
    with days.open(columns=("id",)) as opened:
        assert sorted(filter(None, metastore.locked)) == [*DAYS]
        assert sorted(opened.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert metastore.order.index("partitions") > len(metastore.order) - 1 - metastore.order[::-1].index("open_txns")


def test_a_reader_registers_where_the_server_counts_by_write_ids(plain: Site) -> None:
    """With the lowest write id: see `reading._REGISTERED_WRITE_ID`."""
    plain.metastore.settings["metastore.txn.use.minhistorywriteid"] = "TRUE"
    with plain.open():
        if plain.metastore.calls is Generation.HIVE4:
            assert plain.metastore.registered == {"db.t": 1}
            assert plain.metastore.order.index("register") < plain.metastore.order.index("lock")
        else:
            assert plain.metastore.registered == {}


# --- refusals leave nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "wanted", "kind", "message"),
    [
        ({}, {"columns": ("amount",)}, UsageError, "it has the columns id, name, ds"),
        ({}, {"where": "amount = 1"}, UsageError, "amount"),
        ({}, {"where": "id ="}, UsageError, "id ="),
        ({}, {"partitions": ("x=1",)}, UsageError, "is no partition key"),
        ({}, {"partitions": ("ds=9",)}, MissingError, "Cannot find partitions of db.t: none matches ds=9"),
        ({"kind": "VIRTUAL_VIEW"}, {}, RefusedError, "it is a view"),
        ({"properties": {}}, {}, RefusedError, "it is not transactional"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_locked(
    days: Site, changes: dict[str, Any], wanted: dict[str, Any], kind: type[AcidError], message: str
) -> None:
    assert days.metastore.known is not None
    days.metastore.known = replace(days.metastore.known, **changes)
    with pytest.raises(AcidError) as refused:
        days.open(**wanted)
    assert type(refused.value) is kind
    assert message in str(refused.value)
    assert days.metastore.closed
    assert days.metastore.server.txns == {}


def test_a_table_that_does_not_exist(plain: Site) -> None:
    with pytest.raises(MissingError, match=r"^Cannot read db\.no: the metastore thrift://fake:9083 has no such table$"):
        plain.open(TableRef("db", "no"))
    with pytest.raises(MissingError, match=r"has no such table; did you mean db\.days\?$"):
        plain.open(TableRef("db", "dayz"))
    assert plain.metastore.is_free
    plain.metastore.other_catalog = {"t": "spark"}
    with pytest.raises(RefusedError, match="the catalog spark has a transactional table of this name"):
        plain.open()
    assert plain.metastore.is_free


def test_without_a_metastore_a_name_says_nothing(plain: Site) -> None:
    plain.environment = replace(plain.environment, metastore=())
    with pytest.raises(UsageError, match=r"^Cannot read db\.t: no metastore is named"):
        plain.open()


@pytest.mark.parametrize(("stated", "waited"), [(None, 0.2), (0.1, 0.1)])
def test_a_lock_that_is_not_granted_leaves_nothing(plain: Site, stated: float | None, waited: float) -> None:
    """It is waited for as the setting says, or the caller."""
    dropping = LockComponent(type=LockType.EXCLUSIVE, database="db", table="t")
    lock_id, _ = Client(plain.metastore.server, "anna", "laptop").lock([dropping], txn_id=None, agent="a drop")
    with pytest.raises(
        ConflictError, match=rf"^Cannot read db\.t: .* within {waited} s: held by lock 1 \(EXCLUSIVE by anna on laptop"
    ):
        plain.open(lock_seconds=stated)
    plain.metastore.unlock(lock_id)
    assert plain.metastore.is_free


@pytest.mark.parametrize("call", ["open_txn", "lock", "open_txns"])
def test_a_server_that_fails_leaves_nothing(plain: Site, call: str) -> None:
    plain.metastore.server.errors[call] = [Failure(RetryError("Cannot reach thrift://fake:9083: it is away"))]
    with pytest.raises(RetryError, match="it is away"):
        plain.open()
    assert plain.metastore.is_free


@pytest.mark.parametrize("server", [Generation.HIVE4], indirect=True, ids=str)
def test_a_second_transaction_that_does_not_end_is_left_to_its_timeout(plain: Site) -> None:
    plain.metastore.server.errors["commit_txn"] = [Failure(RetryError("Cannot reach thrift://fake:9083: it is away"))]
    with pytest.raises(RetryError, match="it is away"):
        plain.open()
    assert (plain.metastore.closed, plain.metastore.locked, plain.metastore.open_txn_ids) == (True, [], [2])


def test_a_table_that_is_changed_before_the_snapshot_is_a_conflict(plain: Site) -> None:
    metastore = plain.metastore

    def make_anew() -> None:
        assert metastore.known is not None
        metastore.known = replace(metastore.known, created=2)

    metastore.on["lock"] = make_anew
    with pytest.raises(ConflictError, match=r"^Cannot read db\.t: it was dropped or changed meanwhile; read it again$"):
        plain.open()
    assert metastore.is_free


def test_a_place_that_cannot_be_listed_leaves_nothing(days: Site) -> None:
    (days.location / "ds=2" / delta_name(7, 7)).symlink_to(days.location / "ds=1")
    with pytest.raises(RefusedError, match="symbolic link"):
        days.open()
    assert days.metastore.is_free
    (days.location / "ds=2").rename(days.location / "away")
    with pytest.raises(MissingError, match="ds=2"):
        days.open()
    assert days.metastore.is_free


# --- the end of a snapshot --------------------------------------------------------------------------------------------


def test_a_snapshot_ends_once(plain: Site) -> None:
    opened = plain.open()
    threads = [threading.Thread(target=opened.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened.close()
    is_hive4 = plain.metastore.calls is Generation.HIVE4
    assert plain.metastore.server.calls.count("commit_txn") == 1 + is_hive4
    assert plain.metastore.is_free


def test_a_snapshot_ends_when_nothing_refers_to_it(plain: Site) -> None:
    opened = plain.open()
    reading = opened.batches()
    next(reading)
    del opened
    gc.collect()
    assert plain.metastore.locked == [None]  # those who read refer to it
    del reading
    gc.collect()
    until(lambda: plain.metastore.is_free)


def test_a_snapshot_ends_after_an_error_of_its_reader(plain: Site) -> None:
    with pytest.raises(ZeroDivisionError), plain.open() as opened:
        opened.scan.table[1 // 0]
    assert plain.metastore.is_free


def test_a_metastore_that_does_not_release_is_noted(plain: Site) -> None:
    away = RetryError("Cannot reach thrift://fake:9083: it is away")
    with plain.open() as opened:
        plain.metastore.server.errors["commit_txn"] = [Failure(away), Failure(away)]
        rows = opened.to_arrow()
    assert rows.num_rows == 2
    assert plain.notes == [
        "Cannot end the read of db.t: it is away; the metastore ends it by itself after 300 s without a heartbeat"
    ]
    assert plain.metastore.closed


def test_an_end_without_an_answer_is_tried_again(plain: Site) -> None:
    with plain.open():
        plain.metastore.server.errors["commit_txn"] = [Failure(RetryError("Cannot commit: lost"), after=True)]
    assert plain.notes == []
    assert plain.metastore.is_free


def test_a_forked_process_ends_nothing(plain: Site) -> None:
    with plain.open() as opened:
        child = os.fork()
        if not child:
            opened.close()
            snapshots._close_all()
            os._exit(0 if plain.metastore.locked == [None] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        opened.to_arrow()


_AT_EXIT = """
import sys
from acidlib.runs import snapshot

class Read:
    def end(self):
        print("ended")

class Stack:
    def close(self):
        print("closed")

held = snapshot.Held(Read(), Stack(), print)
"""


def test_the_end_of_the_process_ends_a_snapshot() -> None:
    ran = subprocess.run([sys.executable, "-c", _AT_EXIT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["ended", "closed"]


# --- locks that are lost ----------------------------------------------------------------------------------------------


def lose(metastore: Metastore, opened: Snapshot) -> None:
    """Abort the transaction as the metastore's housekeeper does, and wait until a heartbeat has noticed."""
    (txn,) = metastore.open_txn_ids
    metastore.server.abort(txn)

    def is_noticed() -> bool:
        try:
            opened.assert_held()
        except ConflictError:
            return True
        return False

    until(is_noticed)


def test_a_lost_lock_is_a_conflict_and_not_a_missing_file(days: Site) -> None:
    with days.open() as opened:
        metastore, reading = days.metastore, opened.guarded(iter(lambda: next(parts), None))
        parts = iter([1, 2, 3])
        assert next(reading) == 1
        lose(metastore, opened)
        for name in DAYS:
            (days.location / name).rename(days.location / f"cleaned_{name}")
        lost = r"^Cannot read db\.t: its snapshot is lost, and a cleaner may remove its files: the metastore has given"
        with pytest.raises(ConflictError, match=lost):
            next(reading)
        with pytest.raises(ConflictError, match=lost):
            opened.to_arrow()
    assert days.notes == []


def test_an_error_of_a_file_is_a_conflict_once_the_lock_is_lost(plain: Site) -> None:
    with plain.open() as opened:

        def reads() -> Iterator[int]:
            yield 1
            lose(plain.metastore, opened)
            raise MissingError("Cannot open delta_1_1/bucket_00000: it is missing")

        reading = opened.guarded(reads())
        assert next(reading) == 1
        with pytest.raises(ConflictError, match="its snapshot is lost"):
            next(reading)
    with plain.open() as opened, pytest.raises(MissingError):
        list(opened.guarded(raising(MissingError("Cannot open it: it is missing"))))


def raising(error: Exception) -> Iterator[int]:
    raise error
    yield 1


# --- publications in several steps ------------------------------------------------------------------------------------


def test_a_publication_that_is_half_done_is_waited_for(plain: Site) -> None:
    stage = plain.location / f"{STAGING_PREFIX}1"
    stage.mkdir()
    (stage / "publish.json").write_text("{}")
    with pytest.raises(ConflictError, match=r"^Cannot read db\.t: the publication of a compaction there is half done"):
        plain.open()
    assert plain.metastore.is_free
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            (stage / "publish.json").unlink()

    with open_snapshot(plain.environment, Stores(), REF, Wanted(), pause=pause) as opened:
        assert (opened.to_arrow().num_rows, len(paused)) == (2, 2)


# --- directories ------------------------------------------------------------------------------------------------------


def directory(path: Path, interpretation: Interpretation = EVERYTHING, **wanted: Any) -> Snapshot:
    environment = Environment(settings=default_settings(), queue_url="")
    return open_snapshot(environment, Stores(), at(path), Wanted(**wanted), interpretation=interpretation)


def test_a_directory_is_read_without_a_lock_and_says_so(plain: Site) -> None:
    with directory(plain.location) as opened:
        assert opened.to_arrow().to_pylist() == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
        assert opened.notes == (NO_LOCK,)
        assert opened.lock_note == NO_LOCK


def test_a_directory_of_partitions_has_their_keys_as_texts(days: Site) -> None:
    with directory(days.location, where="ds = '2'") as opened:
        assert opened.scan.schema.field("ds").type == pa.string()
        assert opened.to_arrow().to_pylist() == [{"id": 2, "name": "ds=2", "ds": "2"}]
        assert opened.places == 3
    stated = replace(EVERYTHING, columns=COLUMNS, table_kind="full")
    with directory(days.location, stated, where="ds = '2'") as opened:
        assert opened.places == 1
    with directory(days.location, partitions=("ds=3",)) as opened:
        assert opened.to_arrow()["id"].to_pylist() == [3]
    with directory(days.location / "ds=1") as opened:
        assert opened.to_arrow().to_pylist() == [{"id": 1, "name": "ds=1", "ds": "1"}]


def test_the_columns_of_a_directory_are_those_of_its_newest_rows(tmp_path: Path) -> None:
    write_base(tmp_path, 2, "struct<id:int>", inserts(1, [(1,)]))
    write_dir(tmp_path, delta_name(3, 3), COLUMNS, inserts(3, [(2, "b")]))
    write_dir(tmp_path, delta_name(4, 4), "struct<>", [])
    with directory(tmp_path) as opened:
        assert opened.to_arrow().to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]


def test_stated_write_ids_are_those_that_are_read(plain: Site) -> None:
    stated = Interpretation(write_ids=StatedWriteIds(single=ValidWriteIdList.parse("null:1:9223372036854775807::")))
    with directory(plain.location, stated) as opened:
        assert opened.to_arrow().num_rows == 3
    with pytest.raises(UsageError, match="nothing says which of its transactions are committed"):
        directory(plain.location, Interpretation())
    other = Interpretation(write_ids=StatedWriteIds(single=ValidWriteIdList.parse("a.b:1:9223372036854775807::")))
    with pytest.raises(UsageError, match=r"Cannot use the write-id list of a\.b"):
        directory(plain.location, other)


def test_signs_of_rolled_back_transactions_are_noted(tmp_path: Path) -> None:
    write_dir(tmp_path, delta_name(1, 1), COLUMNS, inserts(1, [(1, "a")]))
    write_dir(tmp_path, delta_name(3, 3), COLUMNS, inserts(3, [(3, "c")]))
    with directory(tmp_path) as opened:
        assert opened.notes[1:] == (
            "what is stated may not be so, that all is committed: no directory has write ids 2, as after a "
            "transaction that was rolled back",
        )


def test_directories_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"^Cannot list .*/no: there is no such"):
        directory(tmp_path / "no")
    (tmp_path / "000000_0").write_bytes(b"x")
    with pytest.raises(RefusedError, match=r"^Cannot read .* it holds original files only"):
        directory(tmp_path)


def test_a_column_that_does_not_exist_in_a_directory(plain: Site) -> None:
    with pytest.raises(UsageError, match="it has the columns id, name"):
        directory(plain.location, columns=("amount",))


def test_a_streaming_file_that_has_grown_since_the_listing(plain: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer goes on; the length it has written by then is in its side file."""
    path = write_dir(plain.location, delta_name(3, 4, None), COLUMNS, inserts(3, [(9, "s")])) / "bucket_00000"
    whole = path.read_bytes()
    side = path.with_name("bucket_00000_flush_length")
    path.write_bytes(whole[:10])
    side.write_bytes((10).to_bytes(8, "big"))
    listed = snapshots.list_location

    def list_location(*arguments: Any, **options: Any) -> Any:
        listing = listed(*arguments, **options)
        path.write_bytes(whole)
        side.write_bytes(len(whole).to_bytes(8, "big"))
        return listing

    monkeypatch.setattr(snapshots, "list_location", list_location)
    with plain.open(columns=("id",)) as opened:
        assert sorted(opened.to_arrow()["id"].to_pylist()) == [1, 3, 9]


def test_a_directory_that_is_cleaned_while_it_is_looked_at(plain: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    discovered, vanished = snapshots.discover_location, [ConflictError("Cannot list t: delta_1_1 vanished")] * 2

    def discover_location(*arguments: Any, **options: Any) -> Any:
        if vanished:
            raise vanished.pop()
        return discovered(*arguments, **options)

    monkeypatch.setattr(snapshots, "discover_location", discover_location)
    monkeypatch.setattr(snapshots, "_PAUSE_SECONDS", 0)
    with directory(plain.location) as opened:
        assert opened.to_arrow().num_rows == 2
    vanished.extend([ConflictError("Cannot list t: delta_1_1 vanished")] * 100)
    with pytest.raises(ConflictError, match="removed faster than they can be listed"):
        directory(plain.location)
