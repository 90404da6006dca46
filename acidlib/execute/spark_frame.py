"""The DataFrame of a snapshot: Spark has the splits as rows of bytes, and tasks turn them into Arrow batches."""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from acidlib.errors import ConflictError, UsageError
from acidlib.execute.spark import context_of, first_line, has_stopped
from acidlib.scan.read import read_task
from acidlib.scan.splits import TASK_BYTES, Scan, Split, packed
from acidlib.stores.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_RELEASED = "ACIDLIB_RELEASED_"
"""The beginning of a variable of the environment of tasks, which says why they must not read."""
_MIN_TASK_BYTES = 16 << 20
"""A smaller task costs more than it gains by running beside others."""


class SnapshotFrame:
    """The DataFrame of a snapshot's rows, with the means to see that nothing can read it any more, and to end it."""

    def __init__(self, session: SparkSession, scan: Scan, splits: Sequence[Split], stores: Stores) -> None:
        """Make the DataFrame in a session whose executors have this package."""
        context = self._context = context_of(session)
        self._scan = scan
        jvm: Any = context._jvm
        groups = packed(splits, bytes_per_task=task_bytes(splits, context.defaultParallelism))
        # each row of this RDD is the pickled list of the splits of one task
        rows = context.parallelize(groups, max(1, len(groups)))._jrdd.rdd()
        self._collected = jvm.java.lang.ref.ReferenceQueue()
        self._rows = jvm.java.lang.ref.WeakReference(rows, self._collected)
        of_bytes = session._jsparkSession.createDataset(rows, jvm.org.apache.spark.sql.Encoders.BINARY()).toDF()
        self._variable = _RELEASED + uuid.uuid4().hex
        read = _reading(scan, stores, self._variable)
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
    return min(TASK_BYTES, max(_MIN_TASK_BYTES, share))
