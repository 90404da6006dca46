"""A snapshot that is held as long as Spark can read its DataFrame.

The rows of bytes of a `SnapshotFrame` are an RDD that only plans of this DataFrame refer to, and those of DataFrames
made of it. Once the JVM has collected it nothing can read the snapshot any more, and its locks are released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acidlib.errors import AcidError, ConflictError
from acidlib.execute.spark import SessionRunner
from acidlib.execute.spark_frame import SnapshotFrame
from acidlib.spark.holds import OF_THIS_PROCESS, HeldSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from acidlib.runs.snapshot import Snapshot


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
        frame = SnapshotFrame(session, snapshot.scan, snapshot.splits, snapshot.stores)
        dataframe = frame.take(columns=columns, where=where)
    except BaseException:
        snapshot.close()
        raise
    OF_THIS_PROCESS.add(_hold(snapshot, frame))
    return dataframe


def _hold(snapshot: Snapshot, frame: SnapshotFrame) -> HeldSnapshot:
    def is_over() -> bool:
        try:
            snapshot.assert_held()
        except ConflictError as error:
            frame.refuse(error.words)
            return True
        except AcidError:
            pass  # the metastore has not answered for a while; the transaction may still be alive
        return frame.is_unreachable()

    return HeldSnapshot(is_over, snapshot.close)
