"""A snapshot of a table for reading: the places to read and their files, at one moment, held until it is closed.

With a metastore the order is that of `acidlib.metastore.reading`: transaction, locks, then the committed transactions
and write ids, asked for once, then one listing of each place and nothing else. Without one the caller states the write
ids, and nothing is locked.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import pyarrow as pa

from acidlib.acid.listing import Listing
from acidlib.acid.names import Generation, Hive, Reader
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, UsageError
from acidlib.execute.answers import value_or_raise
from acidlib.execute.in_process import usable_processes
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import WORKER_PREFIX, step_seconds
from acidlib.execute.task import Task
from acidlib.execute.task_processes import TaskProcesses
from acidlib.execute.tasks import TailFacts
from acidlib.location import Location
from acidlib.metastore.hms import Hms
from acidlib.metastore.reading import LOCKS_PER_REQUEST, ReadTransaction, begin_read
from acidlib.model.requests import CompactionType
from acidlib.model.tables import Database, MetastoreTable, Partition, TableColumn, TableRef, row_type
from acidlib.orc.schema import hive_type
from acidlib.places.place import FULL, INSERT_ONLY, Interpretation, Place, TableFacts
from acidlib.planning.inputs import InputDirectory, directories_read
from acidlib.planning.stated_write_ids import StatedWriteIds, directory_ids, side_files, signs_of_aborts
from acidlib.planning.units import TEXT_INPUT_FORMAT
from acidlib.ports.catalog import tables_like
from acidlib.ports.hive4 import MIN_HISTORY
from acidlib.runs.environment import Environment
from acidlib.runs.open import heartbeater, open_metastore
from acidlib.runs.plan import Tails, prove_full_acid, schema_file, with_logical_lengths, with_tails
from acidlib.scan.read import read_splits, read_stream, read_table
from acidlib.scan.splits import Scan, Split, packed, place_splits
from acidlib.scan.wanted import Wanted, may_match, scan_of, unreadable_reason, wanted_partitions
from acidlib.stores.discover import (
    Each,
    TableLocation,
    database_at,
    discover_location,
    discover_warehouse,
    named_at,
)
from acidlib.stores.listing import list_location
from acidlib.stores.store import STAGING_PREFIX
from acidlib.stores.stores import Stores
from acidlib.wording import did_you_mean, plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")

NO_LOCK = (
    "nothing keeps a cleaner away from this snapshot: without a metastore there are no locks; read it within the "
    "retention of the cleaner (acidlib.retention)"
)
_TRIES = 20
_PAUSE_SECONDS = 0.25
_TRIES_TO_LIST = 80
"""For a publication in several steps: in a bucket it keeps a base closed for some seconds (`READERS_SECONDS`)."""


class Snapshot:
    """What a table holds at one moment, for reading. A context manager: `close` releases its locks.

    scan       what all splits share; `scan.schema` is the schema of the result
    splits     what is to be read
    stores     open the files of the splits
    places     the number of tables or partitions that were listed
    notes      sentences about the snapshot, for people
    lock_note  what keeps cleaners away from its files, or that nothing does

    The locks also end when the snapshot is no longer referred to, and when the process ends; if it is killed, when the
    metastore has waited for heartbeats in vain.
    """

    def __init__(
        self,
        *,
        scan: Scan,
        splits: tuple[Split, ...],
        stores: Stores,
        places: int,
        notes: tuple[str, ...],
        lock_note: str,
        held: Held | None,
    ) -> None:
        """Use `open_snapshot`."""
        self.scan = scan
        self.splits = splits
        self.stores = stores
        self.places = places
        self.notes = notes
        self.lock_note = lock_note
        self._held = held
        self._is_open = True
        self._closing: list[Callable[[], None]] = []
        self._finalizer = None if held is None else weakref.finalize(self, _close_elsewhere, held)
        if self._finalizer is not None:
            self._finalizer.atexit = False  # at the end of the process `_close_all` does it, in the same thread

    def __repr__(self) -> str:
        columns, splits = plural(len(self.scan.schema), "column"), plural(len(self.splits), "split")
        return f"<Snapshot: {self.scan.table}, {columns}, {splits}, {'open' if self._is_open else 'closed'}>"

    def assert_held(self) -> None:
        """Raise ConflictError if the snapshot is closed or its locks are lost: a cleaner may remove its files."""
        if not self._is_open:
            raise ConflictError(f"Cannot read {self.scan.table}: its snapshot is closed")
        if self._held is not None:
            try:
                self._held.assert_alive()
            except ConflictError as error:
                raise ConflictError(
                    f"Cannot read {self.scan.table}: its snapshot is lost, and a cleaner may remove its files: "
                    f"{error.reason}; read it again"
                ) from error

    def guarded(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield what is read of the snapshot; ConflictError as soon as it is not held any more.

        That comes before the error of a file that is missing because of it.
        """
        self.assert_held()
        reading = iter(items)
        while True:
            try:
                item = next(reading)
            except StopIteration:
                break
            except AcidError:
                self.assert_held()
                raise
            self.assert_held()
            yield item
        self.assert_held()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, read in the calling thread, in the order of the splits.

        Errors as of `read_split` and `guarded`.
        """
        for group in packed(self.splits):
            yield from self.guarded(read_splits(self.scan, group, self.stores))

    def to_arrow(self) -> pa.Table:
        """Return all rows as one table; errors as of `batches`.

        They are read in processes of tasks, several at a time; those of a single task in the calling thread.
        """
        groups = packed(self.splits)
        if len(groups) > 1:
            return pa.concat_tables(self.guarded(self._tables(groups)))
        (table,) = self.guarded(read_table(self.scan, splits, self.stores) for splits in (self.splits,))
        return table

    def _tables(self, groups: Sequence[Sequence[Split]]) -> Iterator[pa.Table]:
        """Yield the rows of each group of splits, read in processes of tasks."""
        memory = self.stores.memory if self.scan.insert_only else None
        tasks = [
            [Task(partial(read_stream, self.scan, group, self.stores), 0, "read", self.scan.table, memory)]
            for group in groups
        ]
        with TaskProcesses(min(len(groups), usable_processes())) as processes:
            for (answer,) in processes.run_batches(tasks, group=f"the reading of {self.scan.table}"):
                yield pa.ipc.open_stream(value_or_raise(answer)).read_all()

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all rows as a DataFrame of a session, whose executors read them, until the snapshot is closed.

        Raises RefusedError for a session that cannot run tasks, or whose executors do not have this package, and
        ConflictError for a snapshot that is closed or lost.
        """
        from acidlib.execute.spark import SessionRunner
        from acidlib.execute.spark_frame import SnapshotFrame

        with SessionRunner(spark):
            self.assert_held()
        frame = SnapshotFrame(spark, self.scan, self.splits, self.stores)
        reason = f"Cannot read {self.scan.table}: its snapshot is closed; open another one"
        self.when_closed(partial(frame.refuse, reason))
        return frame.take()

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Have `close` call this before it releases the locks, so that nothing reads without them."""
        self._closing.append(callback)

    def close(self) -> None:
        """Release the locks; may be called again. A metastore that does not answer releases them by itself later."""
        self._is_open = False
        while self._closing:
            self._closing.pop()()
        if self._held is not None:
            self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Held:
    """The transaction of a snapshot with its locks and heartbeats, which end once.

    It is apart from the snapshot, so that it can end when nothing refers to that any more.
    """

    def __init__(self, read: ReadTransaction, stack: ExitStack, note: Callable[[str], None]) -> None:
        """Hold a transaction; `stack` closes its connections, and `note` gets a sentence if it does not end."""
        self._read = read
        self._stack = stack
        self._note = note
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._closed = False
        _OPEN.add(self)

    def assert_alive(self) -> None:
        """Raise the errors of `ReadTransaction.assert_alive`."""
        self._read.assert_alive()

    def close(self) -> None:
        """End the transaction, its heartbeats and connections; do nothing again, and nothing in a forked process.

        All callers return after the end.
        """
        if os.getpid() != self._process:
            return
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            try:
                self._read.end()
            except AcidError as error:
                self._note(error.words)
            finally:
                self._stack.close()
                _OPEN.discard(self)


_OPEN: weakref.WeakSet[Held] = weakref.WeakSet()


def _close_elsewhere(held: Held) -> None:
    """Close in a thread of its own: garbage is collected in any thread, perhaps the one that sends the heartbeats."""
    thread = threading.Thread(target=held.close, name="acidlib-release", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends: `_close_all` follows
        return


@atexit.register
def _close_all() -> None:
    for held in list(_OPEN):
        with suppress(Exception):  # the process ends; the metastore releases the locks of others by itself
            held.close()


def open_snapshot(
    environment: Environment,
    stores: Stores,
    table: TableRef | Location,
    wanted: Wanted,
    *,
    interpretation: Interpretation | None = None,
    lock_seconds: float | None = None,
    note: Callable[[str], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """Open a snapshot of a table of the metastore, or of a table or partition at a location.

    interpretation  how a location is read; it has to state the committed write ids
    lock_seconds    how long to wait for the locks of those who drop, change or overwrite the table; None = as the
                    settings say
    note            gets a sentence if the locks could not be released

    Raises UsageError for a column that does not exist, a condition or pattern that is wrong, and write ids that are not
    stated; MissingError for a table or location that does not exist, and if no partition matches; RefusedError for what
    is no ACID table; ConflictError for locks that are not granted in time; RetryError when the metastore does not
    answer. After any error nothing is locked.
    """
    if isinstance(table, Location):
        return _of_location(environment, stores, table, wanted, interpretation or Interpretation(), pause)
    if not environment.metastore:
        raise UsageError(
            f"Cannot read {table}: no metastore is named, which knows where it lies; name one, or read its directory"
        )
    if lock_seconds is None:
        lock_seconds = environment.settings.integer("acidlib.read.lock.timeout") / 1000
    with ExitStack() as stack:
        hms = stack.enter_context(open_metastore(environment))
        described = _readable(hms, table)
        scan = scan_of(
            str(described.ref),
            row_type(described),
            described.partition_keys,
            wanted,
            insert_only=described.is_insert_only,
            input_format=described.storage.input_format,
            serde=described.storage.serde,
            properties={**described.storage.serde_properties, **described.properties},  # as Hive joins them
        )
        names = _partitions_to_read(hms, described, scan, wanted)  # refuses before anything is opened
        beats = stack.enter_context(heartbeater(environment, hms))
        is_hive4 = hms.calls is Generation.HIVE4
        read = stack.enter_context(
            begin_read(
                hms,
                beats,
                table=described.ref,
                agent=f"{WORKER_PREFIX}{environment.host}-{os.getpid()}",
                registers=is_hive4 and hms.config_value(MIN_HISTORY, "false").strip().lower() == "true",
            )
        )
        as_of = _locked(hms, read, described, scan, wanted, names, lock_seconds)
        places = _places(hms, stores, as_of)
        listed_places = _listed_all(environment, partial(_listed, stores, pause=pause), places)
        read.assert_alive()
        return Snapshot(
            scan=scan,
            splits=_splits(environment, scan, listed_places),
            stores=stores,
            places=len(listed_places),
            notes=(),
            lock_note=f"transaction {read.txn_id} holds {as_of.lock_words}",
            held=Held(read, stack.pop_all(), note),
        )


def location_in(environment: Environment, stores: Stores, warehouse: Location, ref: TableRef) -> Location:
    """Return where a table lies in a directory of tables; MissingError or RefusedError where there is none."""
    tables, skipped = discover_warehouse(stores.fs(warehouse), warehouse, each=_in_threads(environment))
    for table in tables:
        if table.ref == ref:
            return table.location
    for location, reason in skipped.items():
        if named_at(location) == ref:
            raise RefusedError(f"Cannot read {ref}: {reason.words if isinstance(reason, AcidError) else reason}")
        if isinstance(reason, AcidError) and location.parent == warehouse and database_at(location) == ref.database:
            raise reason
    meant = did_you_mean(str(ref), [str(table.ref) for table in tables])
    raise MissingError(f"Cannot read {ref}: no ACID table in {warehouse} has such a name{meant}")


def _readable(hms: Hms, ref: TableRef) -> MetastoreTable:
    """Return a table that can be read."""
    table = hms.table(ref)
    if table is None:
        meant = did_you_mean(str(ref), tables_like(hms, str(ref)))
        raise MissingError(f"Cannot read {ref}: the metastore {hms.uri} has no such table{meant}")
    if (reason := unreadable_reason(table)) is not None:
        raise RefusedError(reason)
    other = hms.of_other_catalogs(ref.database, [ref.table]).get(ref.table.lower())
    if other is not None:
        raise RefusedError(
            f"Cannot read {table.ref}: the catalog {other} has a transactional table of this name, too, and the "
            "metastore takes their transactions and write ids for those of one table"
        )
    if not table.storage.location:
        raise RefusedError(f"Cannot read {table.ref}: it has no location in the metastore")
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class _AsOf:
    """A table at one moment: the transactions, its write ids, and the partitions to read, all of them locked.

    partitions  their names; None for a table without partitions
    lock_words  what is locked
    """

    table: MetastoreTable
    txns: ValidTxnList
    write_ids: ValidWriteIdList
    partitions: tuple[str, ...] | None
    lock_words: str


def _partitions_to_read(hms: Hms, table: MetastoreTable, scan: Scan, wanted: Wanted) -> tuple[str, ...] | None:
    """Return the names of the partitions that may hold wanted rows; None for a table without partitions."""
    reader = hms.reader  # refuses where it is not known
    names = hms.partition_names(table.ref) if table.partition_keys else ()
    chosen = wanted_partitions(str(table.ref), table.partition_keys, names, wanted)
    if not table.partition_keys:
        return None
    return tuple(name for name in chosen if may_match(scan, name, reader))


def _locked(
    hms: Hms,
    read: ReadTransaction,
    table: MetastoreTable,
    scan: Scan,
    wanted: Wanted,
    names: tuple[str, ...] | None,
    lock_seconds: float,
) -> _AsOf:
    """Lock the partitions to read, whose names are known, or the table; return it as of a moment after that.

    A partition may be added until the moment of the snapshot, by a transaction that it shows: then it is locked as
    well, and the moment is a later one. Hive 3.1's cleaner knows no lock of the whole table at a partition; Hive 4
    takes long to lock many partitions, and its cleaner waits for the transaction alone.
    """
    locked: set[TableRef] = set()
    for _ in range(_TRIES):
        refs = {table.ref} if names is None else {table.ref._replace(partition=name) for name in names}
        if table.ref in locked or (hms.calls is Generation.HIVE4 and len(refs) > LOCKS_PER_REQUEST):
            refs = {table.ref}
        if missing := sorted(refs - locked):
            read.lock(missing, timeout_seconds=lock_seconds)
            locked |= refs
        txns = hms.open_txns()
        names = _partitions_to_read(hms, table, scan, wanted)
        if table.ref in locked or not {table.ref._replace(partition=name) for name in names or ()} - locked:
            break
    else:
        raise ConflictError(f"Cannot read {table.ref}: partitions are added to it faster than they can be locked")
    now = hms.table(table.ref)
    if now is None or (now.created, now.id, now.storage, now.partition_keys) != (
        table.created,
        table.id,
        table.storage,
        table.partition_keys,
    ):
        raise ConflictError(f"Cannot read {table.ref}: it was dropped or changed meanwhile; read it again")
    words = "no lock, as no partition is read"
    if table.ref in locked:
        words = f"a shared lock on {table.ref}"
    elif locked:
        words = f"shared locks on {plural(len(locked), 'partition')} of {table.ref}"
    return _AsOf(
        table=table,
        txns=txns,
        write_ids=hms.valid_write_ids([table.ref], txns)[table.ref],
        partitions=names,
        lock_words=words,
    )


def _places(hms: Hms, stores: Stores, as_of: _AsOf) -> list[Place]:
    """Return the places to read, as the metastore describes them now that they are locked."""
    table = as_of.table
    interpretation = Interpretation(
        write_ids=StatedWriteIds(single=as_of.write_ids),
        names=hms.names,
        reader=hms.reader,
        table_kind=INSERT_ONLY if table.is_insert_only else FULL,
        txns=as_of.txns if hms.names is Generation.HIVE4 else ALL_COMMITTED,
    )
    described: dict[str | None, Partition | None] = {None: None}
    if as_of.partitions is not None:
        known = hms.partitions(table, as_of.partitions)
        described = {name: known[name] for name in as_of.partitions if name in known}
    places = []
    for name, partition in described.items():
        ref = table.ref._replace(partition=name)
        storage = table.storage if partition is None else partition.storage
        if not storage.location:
            raise RefusedError(f"Cannot read {ref}: it has no location in the metastore")
        if (storage.input_format, storage.serde) != (table.storage.input_format, table.storage.serde):
            raise RefusedError(
                f"Cannot read {ref}: its files are read by {storage.input_format} and {storage.serde}, those of the "
                f"table by {table.storage.input_format} and {table.storage.serde}"
            )
        if storage.input_format == TEXT_INPUT_FORMAT and storage.serde_properties != table.storage.serde_properties:
            raise RefusedError(
                f"Cannot read {ref}: the properties of its SerDe are {dict(storage.serde_properties)}, those of the "
                f"table {dict(table.storage.serde_properties)}"
            )
        location = stores.locate_below(storage.location, table.storage.location)
        if location.is_root:
            raise RefusedError(f"Cannot read {ref}: its location is the whole file system")
        facts = TableFacts(table=table, database=Database(name=ref.database), partition=partition)
        places.append(Place(ref=ref, location=location, interpretation=interpretation, facts=facts))
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A place with one listing of it, and the directories that a reader reads there, as its list of write ids shows."""

    place: Place
    listing: Listing
    hive: Hive
    write_ids: ValidWriteIdList
    directories: tuple[InputDirectory, ...]


def _listed(stores: Stores, place: Place, pause: Callable[[float], None]) -> _Listed:
    listing = _whole_listing(stores, place, pause)
    hive, write_ids = place.hive(listing), place.write_ids(listing)
    state = acid_state(listing, write_ids, names=hive.names, txns=place.interpretation.txns, ignore_empty_files=True)
    directories = directories_read(
        state, listing, CompactionType.MAJOR, names=hive.names, insert_only=place.is_insert_only
    )
    if not place.is_insert_only:
        fs = stores.fs(place.location)
        directories = with_logical_lengths(fs, place.location, directories, may_grow=True)
    return _Listed(place=place, listing=listing, hive=hive, write_ids=write_ids, directories=directories)


def _listed_all(environment: Environment, listed: Callable[[Place], _Listed], places: Sequence[Place]) -> list[_Listed]:
    """List all places in threads; the first error of one of them is raised, as a read has all rows or fails."""
    return [*map(value_or_raise, in_threads(listed, places, seconds=step_seconds(environment.settings)))]


def _in_threads(environment: Environment) -> Each:
    return partial(in_threads, seconds=step_seconds(environment.settings))


def _whole_listing(stores: Stores, place: Place, pause: Callable[[float], None]) -> Listing:
    """List a place while no publication in several steps is half done there, of a run that works or that has died."""
    location, fs = place.location, stores.fs(place.location)
    for _ in range(_TRIES_TO_LIST):
        try:
            listing = list_location(fs, location, without_unfinished=True, missing=MissingError)
        except MissingError:
            if location.kind.has_directories or place.facts is None:
                raise
            return Listing(location=location, modified=0.0, files=(), directories=())  # a bucket has no directories
        stages = [path for path in listing.directories if path.startswith(STAGING_PREFIX)]
        if not stages:
            return listing
        # all of them are as they were before the listing: no publication has begun in between, or ended
        if not stores.store(location).unfinished(location) and all(fs.exists(f"{location}/{path}") for path in stages):
            return listing
        pause(_PAUSE_SECONDS)
    raise ConflictError(
        f"Cannot read {place.ref}: the publication of a compaction there is half done; if its run has died, the next "
        "compaction or cleaning of the place finishes it"
    )


def _splits(environment: Environment, scan: Scan, listed_places: Iterable[_Listed]) -> tuple[Split, ...]:
    """Return the splits of all places, in the order of these."""
    return tuple(
        split
        for listed in listed_places
        for split in place_splits(
            scan,
            listed.directories,
            location=listed.place.location,
            partition=listed.place.ref.partition,
            write_ids=listed.write_ids,
            reader=listed.hive.reader,
            matching=listed.place.matching(environment.settings, listed.hive.reader),
        )
    )


def _of_location(
    environment: Environment,
    stores: Stores,
    location: Location,
    wanted: Wanted,
    interpretation: Interpretation,
    pause: Callable[[float], None],
) -> Snapshot:
    """Open a snapshot of a table or partition by its directories."""
    is_stated = interpretation.table_kind is not None
    table = _discovered(stores, location, pause, is_stated=is_stated, each=_in_threads(environment))
    if interpretation.write_ids is not None:
        interpretation.write_ids.require_of(table.ref)
    locations = {None if name is None else name.path: where for name, where in table.partitions}
    keys = _keys_of(table)
    names = [name for name in locations if name is not None]
    chosen = set(wanted_partitions(str(table.ref), keys, names, wanted))
    places = [
        Place(ref=table.ref._replace(partition=name), location=where, interpretation=interpretation)
        for name, where in locations.items()
        if name is None or name in chosen
    ]
    row, kind = interpretation.columns, interpretation.table_kind
    if row is not None:
        scan = scan_of(str(table.ref), row, keys, wanted, insert_only=kind == INSERT_ONLY)
        # keys of a directory are texts, which are the same for every generation
        places = [place for place in places if may_match(scan, place.ref.partition, Reader(Generation.HIVE4))]
    listed_places = _listed_all(environment, partial(_listed, stores, pause=pause), places)
    newest_first = sorted(listed_places, key=_newest_write_id, reverse=True)
    if kind is None:
        _require_full_acid(stores, newest_first)
    if row is None:
        row = _row_of_files(stores, table.ref, newest_first)
        scan = scan_of(str(table.ref), row, keys, wanted, insert_only=kind == INSERT_ONLY)
    read = [listed for listed in listed_places if may_match(scan, listed.place.ref.partition, listed.hive.reader)]
    return Snapshot(
        scan=scan,
        splits=_splits(environment, scan, read),
        stores=stores,
        places=len(listed_places),
        notes=(NO_LOCK, *_signs_of_aborts(listed_places, is_whole=len(listed_places) == len(locations))),
        lock_note=NO_LOCK,
        held=None,
    )


def _discovered(
    stores: Stores, location: Location, pause: Callable[[float], None], *, is_stated: bool, each: Each
) -> TableLocation:
    """Return the table at a location; a directory that a cleaner removes meanwhile is no error.

    is_stated  as `discover_location` has it. A compaction asks for more: the base that it made would hide the files of
               a table that is not transactional after all
    """
    for _ in range(_TRIES):
        try:
            return discover_location(stores.fs(location), location, is_stated=is_stated, each=each)
        except ConflictError:
            pause(_PAUSE_SECONDS)
    raise ConflictError(f"Cannot read {location}: directories in it are removed faster than they can be listed")


def _keys_of(table: TableLocation) -> list[TableColumn]:
    """Return the partition keys of a table by the names of its directories, which do not tell their types."""
    keys: dict[tuple[str, ...], str | None] = {}
    for name, _ in table.partitions:
        if name is not None:
            keys.setdefault(tuple(key for key, _ in name.pairs), name.path)
    if len(keys) > 1:
        first, second = list(keys.values())[:2]
        raise RefusedError(f"Cannot read {table.ref}: its partitions {first} and {second} have other keys")
    return [TableColumn(name=key, type="string") for names in keys for key in names]


def _newest_write_id(listed: _Listed) -> int:
    return max((file.write_id for directory in listed.directories for file in directory.files), default=-1)


def _require_full_acid(stores: Stores, newest_first: Sequence[_Listed]) -> None:
    """Raise UsageError, with a metastore RefusedError, unless the newest files prove that the table is full ACID."""
    for listed in newest_first:
        if any(directory.files for directory in listed.directories):
            # a read is of one table: what is stated is about no other
            interpretation = replace(listed.place.interpretation, names_one=True)
            place = replace(listed.place, interpretation=interpretation)
            prove = partial(prove_full_acid, place, listed.directories, unproven=UsageError)
            _with_tails(stores, listed.place.location, prove)
            return


def _with_tails(stores: Stores, location: Location, plan: Callable[[Tails], Item]) -> Item:
    """Return what `with_tails` does; its tasks run in a process of their own."""
    steps, answers = with_tails(stores, location, plan), None
    while True:
        try:
            (task,) = steps.send(answers)
        except StopIteration as end:
            planned: Item = end.value
            return planned
        with TaskProcesses(1) as processes:
            (answers,) = processes.run_batches([[task]], group=f"the look at {task.where}")


def _row_of_files(stores: Stores, table: TableRef, newest_first: Sequence[_Listed]) -> str:
    """Return the columns of the newest file with rows, or else of the newest file; mostly one footer is read."""
    otherwise = None
    for listed in newest_first:
        try:
            tail = _with_tails(stores, listed.place.location, partial(_schema_tail, listed.directories))
        except CorruptError as error:
            if listed.place.is_insert_only:
                raise UsageError(
                    f"Cannot read {table}: its columns are not stated, and only files of ORC state them: {error.reason}"
                ) from error
            raise
        if tail is not None:
            row = hive_type(tail.row)
            if tail.rows:
                return row
            otherwise = otherwise or row
    if otherwise is None:
        raise UsageError(f"Cannot read {table}: its columns are not stated, and it has no file that states them")
    return otherwise


def _schema_tail(directories: Sequence[InputDirectory], tails: Tails) -> TailFacts | None:
    file = schema_file(directories, tails)
    return None if file is None else tails.of(file)


def _signs_of_aborts(listed_places: Sequence[_Listed], *, is_whole: bool) -> list[str]:
    """Return a note if everything is stated to be committed, and directories look otherwise."""
    stated = listed_places[0].place.interpretation.write_ids if listed_places else None
    if stated is None or not stated.everything:
        return []
    ids = [pair for listed in listed_places for pair in directory_ids(listed.listing)] if is_whole else []
    signs = signs_of_aborts(ids, [path for listed in listed_places for path in side_files(listed.listing)])
    return [f"what is stated may not be so, that all is committed: {'; '.join(signs)}"] if signs else []
