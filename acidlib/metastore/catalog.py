"""The calls that read databases, tables, partitions and settings of the server, and the one that changes properties.

The calls to Hive 4 are those that Hive's own client of 4.0 to 4.2 makes (4.0.0 lacks `fetch_partition_names_req`, 4.0.1
dropped `get_table`).

A catalog other than `hive` is named in the requests that have a field for it, elsewhere in front of the database as
`@catalog#database` (Hive `MetaStoreUtils.prependCatalogToDbName`). Transactions, write ids, locks and the queue have
databases and tables only: see `of_other_catalogs`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.metastore.connection import MetastoreClient, portions_of, required
from acidlib.metastore.options import CATALOG
from acidlib.model.tables import (
    DEFAULT_PARTITION,
    MANAGED_TABLE,
    Database,
    MetastoreTable,
    Partition,
    PartitionName,
    Storage,
    TableColumn,
    TableRef,
)
from acidlib.wording import plural

_TABLES_PER_CALL = 300
_PARTITIONS_PER_CALL = 500
# without these a server hides insert-only tables behind an error (Hive `ClientCapability`)
_CAPABILITIES = [1, 2]
_NO_OBJECT = "NoSuchObjectException"
_NO_DATABASE = "UnknownDBException"
CHANGED = "transient_lastDdlTime"
"""The table property with the epoch second of its last change. Hive's client, Spark's and Impala's renew it with every
change; the metastore renews it if a client does not send it."""


_MODIFIED = "The table has been modified"
"""The beginning of Hive's answers where an expected value is another (`HiveAlterHandler.alterTable`)."""
_NOT_COMPARED = ('set "PARAM_VALUE"', "Cannot update parameter with JDO")
"""Parts of Hive's answers where the comparison itself failed, after ten attempts of its own: Derby compares no CLOBs,
and without direct SQL there is no comparison (`MetaStoreDirectSql.updateTableParam`).
"""


class NotComparedError(RefusedError):
    """The metastore cannot compare a value in its database before it changes it: it will not for other tables, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTable:
    """A table with everything that has to be sent back to leave it unchanged.

    write_id  of the transaction that last wrote its statistics; 0 if it is unknown
    row       the structure of the interface
    """

    table: MetastoreTable
    write_id: int
    row: Any

    @property
    def is_skewed(self) -> bool:
        """Whether skewed values have directories of their own, which cannot be sent back."""
        skewed = self.row.sd.skewedInfo
        return bool(self.row.sd.storedAsSubDirectories or (skewed is not None and skewed.skewedColNames))


class CatalogCalls(MetastoreClient):
    """Reads of the catalog, which are repeated when a connection is lost, and a change of properties, which is not."""

    _others: tuple[str, ...] | None = None

    def other_catalogs(self) -> tuple[str, ...]:
        """Return the names of all other catalogs, which are read once: they hardly ever change."""
        if self._others is None:
            answer = self._call_if_known("list the catalogs", "get_catalogs")
            names = () if answer is None else _lower(answer.names)
            self._others = tuple(name for name in names if name != self.catalog)
        return self._others

    def of_other_catalogs(self, database: str, names: Sequence[str]) -> dict[str, str]:
        """Return the names that a transactional table of another catalog has, too, each with such a catalog.

        The metastore confuses the two: they share write ids and locks, and a cleaning of one of them makes it forget
        transactions of both (Hive `TxnHandler`, whose tables have no column for a catalog).
        """
        catalogs: dict[str, str] = {}
        for catalog in self.other_catalogs():
            tables = self._tables_of(catalog, database.lower(), _lower(names))
            catalogs.update({table.ref.table: catalog for table in tables if table.is_transactional})
        return catalogs

    def database_names(self) -> tuple[str, ...]:
        """Return all databases, in lower case."""
        if self.catalog == CATALOG:
            return _lower(self._names("list the databases", "get_all_databases"))
        return _lower(self._names("list the databases", "get_databases", self._in_catalog("")))

    def database(self, name: str) -> Database | None:
        """Return a database with its properties; None if it does not exist."""
        name = name.lower()
        action = f"read the database {name}"
        call, request = "get_database", self._in_catalog(name)
        if self._is_hive4:
            call = "get_database_req"
            request = self._types.GetDatabaseRequest(name=name, catalogName=self.catalog)
        answer = self.call(action, call, request, missing=_NO_OBJECT)
        if answer is None:
            # servers report some failures of their own as "no such database"
            if name in self.database_names():
                raise RetryError(f"Cannot {action}: the metastore lists it but does not return it")
            return None
        return Database(
            name=required(answer.name, call, "name").lower(),
            properties=dict(required(answer.parameters, call, "parameters")),
        )

    def table_names(self, database: str) -> tuple[str, ...]:
        """Return all tables and views of a database, in lower case.

        Raises RefusedError when there is no such database: a metastore answers with an empty list.
        """
        database = database.lower()
        names = _lower(self._names(f"list the tables of {database}", "get_all_tables", self._in_catalog(database)))
        if not names and self.database(database) is None:
            raise RefusedError(f"Cannot list the tables of {database}: there is no such database")
        return names

    def tables(self, database: str, names: Sequence[str]) -> tuple[MetastoreTable, ...]:
        """Return the existing tables of these names; none without the database."""
        return self._tables_of(self.catalog, database.lower(), _lower(names))

    def table(self, ref: TableRef) -> MetastoreTable | None:
        """Return a table or view; None if it does not exist."""
        row = self._table_row(ref.as_stored)
        return None if row is None else _table_of(row, "get_table_req")

    def whole_table(self, ref: TableRef) -> WholeTable | None:
        """Return a table for `change_properties` (Hive 4 only); None if it does not exist."""
        row = self._table_row(ref.as_stored)
        if row is None:
            return None
        return WholeTable(table=_table_of(row, "get_table_req"), write_id=row.writeId or 0, row=row)

    def change_properties(self, whole: WholeTable, changes: Mapping[str, str], write_ids: ValidWriteIdList) -> None:
        """Change properties of a table unless it has changed since it was read (Hive 4 only).

        `changes` have a new value of `CHANGED`; the metastore compares its old value and sets the new one in one
        transaction (HIVE-26882). `write_ids` were read before the table: if a client that keeps `CHANGED` has stored
        statistics of a later transaction in between, the metastore marks them as not accurate (Hive
        `ObjectStore.alterTable`). Raises ConflictError if the table has changed, NotComparedError where no comparison
        is possible.
        """
        row, table = copy.copy(whole.row), whole.table
        row.parameters = dict(table.properties) | dict(changes)
        row.writeId = whole.write_id or write_ids.highest_valid
        context = self._types.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})  # else it lists the files
        request = self._types.AlterTableRequest(
            catName=self.catalog,
            dbName=table.ref.database,
            tableName=table.ref.table,
            table=row,
            environmentContext=context,
            validWriteIdList=write_ids.format() if row.writeId else None,
            expectedParameterKey=CHANGED,
            expectedParameterValue=table.properties[CHANGED],
        )
        try:
            self.call(f"change properties of {table.ref}", "alter_table_req", request)
        except RetryError as error:
            if _MODIFIED in error.reason:
                raise ConflictError(error.words) from error
            if any(part in error.reason for part in _NOT_COMPARED):
                raise NotComparedError(error.words) from error
            raise

    def _table_row(self, ref: TableRef) -> Any:
        capabilities = self._types.ClientCapabilities(_CAPABILITIES)
        request = self._types.GetTableRequest(
            catName=self.catalog, dbName=ref.database, tblName=ref.table, capabilities=capabilities
        )
        answer = self.call(f"read the table {ref.whole_table}", "get_table_req", request, missing=_NO_OBJECT)
        return None if answer is None else answer.table

    def partition_names(self, ref: TableRef) -> tuple[str, ...]:
        """Return the names of all partitions of a table, `k=v/k2=v2` with Hive's escaping, exactly as stored.

        Raises RefusedError when there is no such table: Hive 4 answers with an empty list, Hive 3.1 with an error.
        """
        ref = ref.whole_table.as_stored
        action = f"list the partitions of {ref}"
        names = None
        try:
            if self._is_hive4:
                request = self._types.PartitionsRequest(
                    catName=self.catalog, dbName=ref.database, tblName=ref.table, maxParts=-1
                )
                names = self._call_if_known(action, "fetch_partition_names_req", request)
            if names is None:
                names = self._names(action, "get_partition_names", self._in_catalog(ref.database), ref.table, -1)
        except (RefusedError, RetryError):
            if self.table(ref) is not None:
                raise
        if not names and self.table(ref) is None:
            raise RefusedError(f"Cannot {action}: there is no such table")
        return tuple(names or ())

    def partitions(self, table: MetastoreTable, names: Sequence[str]) -> dict[str, Partition]:
        """Return the existing partitions of these names, by name.

        Raises CorruptError for a name that is not of the form `k=v/k2=v2`.
        """
        partitions: dict[str, Partition] = {}
        for batch in portions_of(names, _PARTITIONS_PER_CALL):
            partitions.update(self._partitions(table, batch))
        return partitions

    def config_value(self, key: str, default: str) -> str:
        """Return the server's value of a setting, `default` if the setting is not set or unknown to its Hive.

        Servers show settings that begin with hive, metastore, hdfs or mapred; RefusedError for others.
        """
        return str(self.call(f"read the setting {key} of the metastore", "get_config_value", key, default))

    def _in_catalog(self, database: str) -> str:
        """Return the name of a database for calls without a field for the catalog."""
        return database if self.catalog == CATALOG else f"@{self.catalog}#{database}"

    def _tables_of(self, catalog: str, database: str, names: Sequence[str]) -> tuple[MetastoreTable, ...]:
        capabilities = self._types.ClientCapabilities(_CAPABILITIES)
        tables: list[MetastoreTable] = []
        for batch in portions_of(names, _TABLES_PER_CALL):
            action = f"read {plural(len(batch), 'table')} of {database}"
            call = "get_table_objects_by_name_req"
            request = self._types.GetTablesRequest(
                catName=catalog, dbName=database, tblNames=batch, capabilities=capabilities
            )
            answer = self.call(action, call, request, missing=_NO_DATABASE)
            if answer is None:
                return ()
            tables += [_table_of(table, call) for table in answer.tables]
        return tuple(tables)

    def _names(self, action: str, call: str, *arguments: object) -> Sequence[str]:
        return list(self.call(action, call, *arguments))

    def _partitions(self, table: MetastoreTable, names: list[str]) -> Iterator[tuple[str, Partition]]:
        # a metastore answers with values, not names, and the same values can have several names
        by_values = {tuple(value for _, value in PartitionName.parse(name).pairs): name for name in names}
        if len(by_values) < len(names):
            for name in names:
                yield from self._partitions(table, [name])
            return
        action = f"read {plural(len(names), 'partition')} of {table.ref}"
        database = self._in_catalog(table.ref.database)
        call = "get_partitions_by_names_req" if self._is_hive4 else "get_partitions_by_names"
        try:
            if self._is_hive4:
                request = self._types.GetPartitionsByNamesRequest(
                    db_name=database, tbl_name=table.ref.table, names=names
                )
                rows = self.call(action, call, request).partitions
            else:
                rows = self.call(action, call, database, table.ref.table, names)
        except RefusedError:
            # neither generation has an exception of its own for a table that does not exist
            if self.table(table.ref) is not None:
                raise
            return
        for row in rows:
            partition = Partition(
                values=tuple(required(row.values, call, "values")),
                storage=_storage_of(required(row.sd, call, "sd"), call, has_location=True),
                created=required(row.createTime, call, "createTime"),
                properties=dict(required(row.parameters, call, "parameters")),
            )
            # an empty value has the default partition's name (Hive FileUtils.escapePathName)
            requested = by_values.get(tuple(value or DEFAULT_PARTITION for value in partition.values))
            if requested is None:
                raise CorruptError(
                    f"Cannot read the answer of {call}: it has a partition of {table.ref} that was not "
                    f"requested, with the values {partition.values}"
                )
            yield requested, partition


def _lower(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _table_of(answer: Any, call: str) -> MetastoreTable:
    """Return a table or view; raise CorruptError when a field is missing."""
    kind = required(answer.tableType, call, "tableType")
    return MetastoreTable(
        ref=TableRef(required(answer.dbName, call, "dbName"), required(answer.tableName, call, "tableName")).as_stored,
        kind=kind,
        owner=answer.owner,
        created=required(answer.createTime, call, "createTime"),
        # a managed table always has a location; views and tables of other systems need not
        storage=_storage_of(required(answer.sd, call, "sd"), call, has_location=kind == MANAGED_TABLE),
        id=answer.id if answer.id is not None and answer.id > 0 else None,
        partition_keys=_columns(required(answer.partitionKeys, call, "partitionKeys"), call, "partitionKeys"),
        properties=dict(required(answer.parameters, call, "parameters")),
    )


def _storage_of(answer: Any, call: str, *, has_location: bool) -> Storage:
    location = required(answer.location, call, "sd.location") if has_location else answer.location or ""
    sort_columns = required(answer.sortCols, call, "sd.sortCols")
    serde = required(answer.serdeInfo, call, "sd.serdeInfo")
    return Storage(
        location=location,
        columns=_columns(required(answer.cols, call, "sd.cols"), call, "sd.cols"),
        input_format=answer.inputFormat,
        serde=serde.serializationLib,
        serde_properties=dict(serde.parameters or {}),
        bucket_columns=tuple(required(answer.bucketCols, call, "sd.bucketCols")),
        buckets=required(answer.numBuckets, call, "sd.numBuckets"),
        sort_columns=tuple(required(order.col, call, "sd.sortCols.col") for order in sort_columns),
    )


def _columns(answer: Any, call: str, path: str) -> tuple[TableColumn, ...]:
    return tuple(
        TableColumn(name=required(column.name, call, f"{path}.name"), type=required(column.type, call, f"{path}.type"))
        for column in answer
    )
