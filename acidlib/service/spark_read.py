"""A snapshot as a DataFrame: Spark has the splits as rows of bytes, and tasks turn them into Arrow batches.

The rows of bytes are an RDD that only plans of this DataFrame refer to, and those of DataFrames made of it. Once the
JVM has collected it nothing can read the snapshot any more, and its locks are released.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from acidlib.errors import AcidError, ConflictError, UsageError
from acidlib.scan.read import read_task
from acidlib.scan.splits import TASK_BYTES, Scan, Split, packed
from acidlib.service.holds import OF_THIS_PROCESS, Hold
from acidlib.service.spark import SessionRunner, context_of, first_line, has_stopped
from acidlib.stores.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from acidlib.service.snapshot import Snapshot

_RELEASED = "ACIDLIB_RELEASED_"
"""The beginning of a variable of the environment of tasks, which says why they must not read."""
_LEAST_TASK_BYTES = 16 << 20
"""A smaller task costs more than it gains by running beside others."""


def held_dataframe(
    session: Any,
    open_snapshot: Callable[[], Snapshot],
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> DataFrame:
    """Return the rows of a snapshot as a DataFrame, which holds the snapshot as long as Spark can read it.

    open_snapshot   opens it, not exact; called once the session is known to be able to read
    columns, where  as it is opened with; Spark applies the whole condition itself

    The snapshot is released after the DataFrame, and every DataFrame, cache, view and RDD made of it, has been
    collected as garbage, when the session has stopped, and at the end of the interpreter. If its locks are lost, tasks
    that start later raise ConflictError.

    Raises RefusedError and UsageError as `SessionRunner` does, UsageError for a condition that Spark does not accept,
    and the errors of `open_snapshot`. After an error nothing is held.
    """
    with SessionRunner(session):
        snapshot = open_snapshot()
    try:
        frame = SnapshotFrame(session, snapshot)
        dataframe = frame.take(columns=columns, where=where)
    except BaseException:
        snapshot.close()
        raise
    OF_THIS_PROCESS.add(_hold(snapshot, frame))
    return dataframe


def open_dataframe(session: Any, snapshot: Snapshot) -> DataFrame:
    """Return the rows of an open snapshot as a DataFrame, which can be read until the snapshot is closed.

    Raises as `SessionRunner` does, and ConflictError for a snapshot that is closed or lost.
    """
    with SessionRunner(session):
        snapshot.assert_held()
    frame = SnapshotFrame(session, snapshot)
    reason = f"Cannot read {snapshot.scan.table}: its snapshot is closed; open another one"
    snapshot.when_closed(partial(frame.refuse, reason))
    return frame.take()


def _hold(snapshot: Snapshot, frame: SnapshotFrame) -> Hold:
    def is_over() -> bool:
        try:
            snapshot.assert_held()
        except ConflictError as error:
            frame.refuse(str(error))
            return True
        except AcidError:
            pass  # the metastore has not answered for a while; the transaction may still be alive
        return frame.is_unreachable()

    return Hold(is_over, snapshot.close)


class SnapshotFrame:
    """The DataFrame of a snapshot's rows, with the means to see that nothing can read it any more, and to end it."""

    def __init__(self, session: SparkSession, snapshot: Snapshot) -> None:
        """Make the DataFrame in a session whose executors have this package."""
        context = self._context = context_of(session)
        scan = self._scan = snapshot.scan
        jvm: Any = context._jvm
        groups = packed(snapshot.splits, bytes_per_task=task_bytes(snapshot.splits, context.defaultParallelism))
        # each row of this RDD is the pickled list of the splits of one task
        rows = context.parallelize(groups, max(1, len(groups)))._jrdd.rdd()
        self._collected = jvm.java.lang.ref.ReferenceQueue()
        self._rows = jvm.java.lang.ref.WeakReference(rows, self._collected)
        of_bytes = session._jsparkSession.createDataset(rows, jvm.org.apache.spark.sql.Encoders.BINARY()).toDF()
        self._variable = _RELEASED + uuid.uuid4().hex
        read = _reading(scan, snapshot.stores, self._variable)
        self._dataframe: DataFrame | None = DataFrame(of_bytes, session).mapInArrow(read, spark_schema(scan.schema))
        self._variables = self._dataframe._jdf.queryExecution().logical().functionExpr().func().envVars()

    def take(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """Return the DataFrame with these rows and columns, and forget it, so that nothing here keeps it alive."""
        dataframe, self._dataframe = self._dataframe, None
        assert dataframe is not None
        if where is not None and where.strip():
            try:
                dataframe = dataframe.where(where)
            except PySparkException as error:
                raise UsageError(f"Cannot use the condition {where!r}: {first_line(error)}") from None
        names = self._scan.schema.names
        shown = names if columns is None else names[: len(columns) + self._scan.row_ids]
        return dataframe if shown == names else dataframe.select(*(f"`{name}`" for name in shown))

    def is_unreachable(self) -> bool:
        """Return whether nothing can read the snapshot any more; True is returned once."""
        return has_stopped(self._context) or self._collected.poll() is not None

    def refuse(self, reason: str) -> None:
        """Have each task that starts from now on raise ConflictError with this reason.

        Tasks get the variables of their function's environment when their stage starts.
        """
        if not has_stopped(self._context):
            self._variables.put(self._variable, reason)


def _reading(
    scan: Scan, stores: Stores, variable: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of the tasks."""

    def read(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if (reason := os.environ.get(variable)) is not None:
            raise ConflictError(reason)
        for batch in rows:
            for value in batch.column(0).to_pylist():
                for splits in pickle.loads(value):  # noqa: S301 - Spark has them of the driver
                    yield from read_task(scan, splits, stores)

    return read


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the schema of a scan with the types of Spark; a time without zone is TIMESTAMP_NTZ."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def task_bytes(splits: Sequence[Split], slots: int) -> int:
    """Return how many bytes a task reads: a snapshot that is small for the cores is spread over all of them."""
    share = sum(split.weight for split in splits) // (2 * max(1, slots))
    return min(TASK_BYTES, max(_LEAST_TASK_BYTES, share))
