"""The data source "hive_acid" as the Python processes of Spark have it; PySpark 4 alone can import this module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Client
from typing import Any, ClassVar, Never

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError, UsageError
from acidlib.execute.spark_frame import spark_schema
from acidlib.scan.read import read_task
from acidlib.scan.splits import Split
from acidlib.spark.source_options import FORMAT, Address, Planned, source_options, word


class HiveAcidSource(DataSource):
    """The data source as Spark sees it: it asks the thread of the driver for everything."""

    address: ClassVar[Address]

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self._token: str | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the result."""
        self._token, schema = self._asked("columns", self.options)
        return spark_schema(schema)

    def reader(self, schema: StructType) -> HiveAcidReader:
        """Return the reader of a snapshot, which is planned now."""
        planned: Planned = self._asked("plan", self.options, self._token)
        if spark_schema(planned.scan.schema) != schema:
            table = planned.scan.table
            if self._token is None:
                raise UsageError(f"Cannot read {table} with a stated schema: its columns are those of the table")
            raise ConflictError(f"Cannot read {table}: its columns have changed since it was loaded; load it again")
        return HiveAcidReader(planned)

    def writer(self, schema: StructType, overwrite: bool) -> Never:  # noqa: FBT001 - PySpark's signature
        """Refuse: nothing here writes rows."""
        del schema, overwrite
        raise self._only_reads(f"Cannot write {source_options(self.options).name}")

    def streamReader(self, schema: StructType) -> Never:  # noqa: N802 - PySpark's name
        """Refuse: a snapshot has an end."""
        del schema
        raise self._only_reads(f"Cannot stream {source_options(self.options).name}")

    streamWriter = writer  # noqa: N815 - PySpark's name

    def _only_reads(self, what: str) -> RefusedError:
        return RefusedError(f"{what}: {FORMAT} reads snapshots alone; Hive writes to its tables")

    def _asked(self, verb: str, *arguments: Any) -> Any:
        """Return the answer of the driver's thread, or raise the error that it answers."""
        try:
            with Client(self.address.path, "AF_UNIX", authkey=self.address.key) as connection:
                connection.send((verb, arguments))
                answer = connection.recv()
        except (OSError, EOFError) as error:
            raise RetryError(f"Cannot plan a read: the driver that registered {FORMAT} does not answer") from error
        if isinstance(answer, AcidError):
            raise answer
        return answer


class HiveAcidPartition(InputPartition):
    """The splits of one task."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self.splits = splits


class HiveAcidReader(DataSourceReader):
    """Reads the splits of one snapshot in the tasks of Spark."""

    def __init__(self, planned: Planned) -> None:
        self._scan, self._stores = planned.scan, planned.stores
        self._groups = planned.groups

    def __getstate__(self) -> dict[str, Any]:
        """Leave the splits behind: each task gets its own."""
        return {**self.__dict__, "_groups": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits of each task."""
        return [HiveAcidPartition(group) for group in self._groups] or [HiveAcidPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        assert isinstance(partition, HiveAcidPartition)
        try:
            yield from read_task(self._scan, partition.splits, self._stores)
        except AcidError as error:
            error.put(word)
            error.add_note(
                f"If a cleaner has removed the file: the snapshot was released; load {self._scan.table} again."
            )
            raise
