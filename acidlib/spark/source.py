"""Spark's data source "hive_acid": a snapshot for each `load()`, in PySpark 4.

Spark asks a data source for its columns and splits in a short-lived Python process beside the driver. So a thread of
the driver opens the snapshot for it, and holds the locks with their heartbeats; without that thread there is no data
source. Spark 4.1 to 4.3 remembers the splits with the relation of a `load()`, Spark 4.0 asks again in each query and
is answered with the same snapshot. The relation is watched as `spark_read` watches its rows.

Conditions of queries are not pushed: Spark 4.1 to 4.3 remembers what `pushFilters` left of one query for all other
queries of the same relation (`PythonDataSourceV2.setReadInfo`), which then miss rows, and Spark 4.0 has no
`pushFilters`. The option `where` prunes.
"""

from __future__ import annotations

import atexit
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from acidlib.errors import AcidError, DefectError, RefusedError, RetryError
from acidlib.execute.spark import SessionRunner, context_of, has_stopped
from acidlib.execute.spark_frame import task_bytes
from acidlib.scan.splits import packed
from acidlib.spark.holds import OF_THIS_PROCESS, HeldSnapshot
from acidlib.spark.source_options import FORMAT, Address, Planned, SourceOptions, source_options

if TYPE_CHECKING:
    from acidlib.runs.snapshot import Snapshot

PREPARED_SECONDS = 60.0
"""A snapshot that `load()` has opened waits so long for the first query; then that query opens another one."""
UNSEEN_SECONDS = 600.0
"""A snapshot whose relation was never seen in a running query is held until Spark has had no job for so long."""


def register_format(session: Any, open_snapshot: Callable[[SourceOptions], Snapshot]) -> None:
    """Give a session the format "hive_acid"; may be called again.

    open_snapshot  opens an exact snapshot by the options of a `load()`, in this process

    Raises RefusedError for a session of PySpark 3, and as `SessionRunner` does.
    """
    context = context_of(session)
    if not hasattr(session, "dataSource"):
        raise RefusedError(
            f"Cannot register {FORMAT}: a data source in Python needs PySpark 4, this is {context.version}; "
            "table.read(spark) works with both"
        )
    with SessionRunner(session):
        server = SourceServer(open_snapshot, context)
    server.start()
    from acidlib.spark.source_read import HiveAcidSource  # there is none in PySpark 3

    # a class of its own for each session: PySpark pickles it by value, with the address in it
    session.dataSource.register(type("HiveAcidSource", (HiveAcidSource,), {"address": server.address}))


class SourceServer:
    """Opens snapshots for Spark's planning processes, and holds them as long as Spark may read them."""

    def __init__(self, open_snapshot: Callable[[SourceOptions], Snapshot], context: Any) -> None:
        self._open_snapshot = open_snapshot
        self._context = context
        self._directory = Path(tempfile.mkdtemp(prefix="acidlib-source-"))  # of this user alone
        self.address = Address(path=str(self._directory / "socket"), key=secrets.token_bytes(32))
        self._prepared: dict[str | None, Snapshot] = {}
        self._read: dict[str | None, ReadSnapshot] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Listen, in a thread that ends with the process."""
        listener = Listener(self.address.path, "AF_UNIX", backlog=16, authkey=self.address.key)
        threading.Thread(target=self._serve, args=(listener,), name="acidlib-source", daemon=True).start()
        atexit.register(self._end, listener)

    def _end(self, listener: Listener) -> None:
        listener.close()
        self._directory.rmdir()

    def _serve(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except Exception:  # a process that has no key, or has ended meanwhile
                time.sleep(0.01)
                continue
            threading.Thread(target=self._answer, args=(connection,), name="acidlib-source-plan", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection, suppress(EOFError, OSError):  # the process has ended
            verb, arguments = connection.recv()
            try:
                answer: Any = self.columns(*arguments) if verb == "columns" else self.plan(*arguments)
            except AcidError as error:
                answer = error
            except Exception as error:
                answer = DefectError(f"Cannot plan a read: unexpected {type(error).__name__}: {error}")
            connection.send(answer)

    def columns(self, options: Mapping[str, str]) -> tuple[str, pa.Schema]:
        """Open a snapshot for a `load()`; return its token and the schema of the result."""
        snapshot = self._open_snapshot(source_options(options))
        token, until = secrets.token_hex(16), time.monotonic() + PREPARED_SECONDS
        with self._lock:
            self._prepared[token] = snapshot
        OF_THIS_PROCESS.add(
            HeldSnapshot(lambda: time.monotonic() > until or has_stopped(self._context), lambda: self._forget(token))
        )
        return token, snapshot.scan.schema

    def plan(self, options: Mapping[str, str], token: str | None) -> Planned:
        """Return the splits of the snapshot of a `load()`, or of a new one, and hold it for the relation.

        Raises ConflictError for a snapshot that earlier queries have read, and whose locks are lost.
        """
        snapshot = self._of_load(options, token)
        if snapshot is None:
            snapshot = self._open_snapshot(source_options(options))
            with self._lock:
                self._hold(snapshot, options, token)
        size = task_bytes(snapshot.splits, self._context.defaultParallelism)
        groups = packed(snapshot.splits, bytes_per_task=size)
        return Planned(scan=snapshot.scan, stores=snapshot.stores, groups=groups)

    def _of_load(self, options: Mapping[str, str], token: str | None) -> Snapshot | None:
        """Return the snapshot that `load()` has prepared, or that an earlier query has read, if it is still held."""
        with self._lock:  # it is not released between these steps
            read = self._read.get(token)
            if read is None:
                if (prepared := self._prepared.pop(token, None)) is not None:
                    self._hold(prepared, options, token)
                return prepared
            read.watch.note_query()
        with suppress(RetryError):  # the metastore has not answered for a while; the transaction may still be alive
            read.snapshot.assert_held()
        return read.snapshot

    def _hold(self, snapshot: Snapshot, options: Mapping[str, str], token: str | None) -> None:
        read = ReadSnapshot(snapshot, RelationWatch(self._context, options))
        read.watch.note_query()
        if token is not None:
            self._read[token] = read

        def is_over() -> bool:
            with self._lock:
                over = read.watch.is_over()
                if over and self._read.get(token) is read:
                    del self._read[token]
                return over

        OF_THIS_PROCESS.add(HeldSnapshot(is_over, snapshot.close))

    def _forget(self, token: str) -> None:
        with self._lock:
            snapshot = self._prepared.pop(token, None)
        if snapshot is not None:
            snapshot.close()


@dataclass(frozen=True, slots=True, eq=False)
class ReadSnapshot:
    """A snapshot that queries have planned to read, and what sees when Spark can no longer read it."""

    snapshot: Snapshot
    watch: RelationWatch


class RelationWatch:
    """Sees when Spark can no longer read the relations that were loaded with some options.

    A plan that is made within a query is met in that query, and its relations are watched by weak references. Others,
    as of `explain` or `cache`, are met in a later query; until then the snapshot is held while Spark has jobs.
    """

    def __init__(self, context: Any, options: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._jvm = context._jvm
        self._options = {key.lower(): value for key, value in options.items()}
        self._clock = clock
        self._busy = clock()
        self._collected = self._jvm.java.lang.ref.ReferenceQueue()
        self._watched: dict[int, Any] = {}
        self._alive = 0

    def note_query(self) -> None:
        """Note that a query plans to read the relation now, and watch it if the query runs already."""
        self._busy = self._clock()
        self._look()

    def _look(self) -> None:
        """Watch the relations of the queries that run now."""
        with suppress(Exception):  # a query that has ended meanwhile
            for relation in self._relations():
                identity = self._jvm.java.lang.System.identityHashCode(relation)
                if identity not in self._watched:
                    self._watched[identity] = self._jvm.java.lang.ref.WeakReference(relation, self._collected)
                    self._alive += 1

    def _relations(self) -> Iterator[Any]:
        """Yield the tables of our format with these options in the plans of running queries."""
        executions = getattr(self._jvm.org.apache.spark.sql.execution, "SQLExecution$")
        running = getattr(executions, "MODULE$").executionIdToQueryExecution().elements()
        while running.hasMoreElements():
            leaves = running.nextElement().analyzed().collectLeaves()
            for number in range(leaves.size()):
                leaf = leaves.apply(number)
                if leaf.getClass().getSimpleName() != "DataSourceV2Relation" or leaf.table().name() != FORMAT:
                    continue
                options = leaf.options().asCaseSensitiveMap()
                if {key.lower(): options[key] for key in options} == self._options:
                    yield leaf.table()

    def is_over(self) -> bool:
        """Return whether nothing can read the relations any more."""
        if has_stopped(self._context):
            return True
        if not self._watched:
            self._look()
        if self._watched:
            while self._collected.poll() is not None:
                self._alive -= 1
            return self._alive == 0
        if self._context._jsc.sc().statusTracker().getActiveJobIds():
            self._busy = self._clock()
        return self._clock() - self._busy > UNSEEN_SECONDS
