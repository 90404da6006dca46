"""The tables of a queue of compaction requests, and their rows as `CompactionRequest` values.

A queue lies in tables of our own, created where they are missing under the metastore's own names, or in those of a Hive
3.1 metastore, where nothing is ever created or altered. A database is a metastore's if it has a table VERSION. The
names of its tables and columns are reflected: PostgreSQL has those of Hive 3.1 in lower case, MySQL in the case in
which the schema script was run.

Source: Hive's metastore schema 3.1, with those columns of Hive 4 that a history needs. Times are epoch milliseconds.

Values without a column in Hive 3.1 are not kept there: the times of enqueueing, commit and start of cleaning, the
initiator, the pool and the wait before cleaning is tried again are read back as None or 0. Only the reason why a
request ended is kept, as the property `acidlib.error`, cut to the space that is left: Hive copies properties and reads
none of that name. META_INFO is Hive's own and is copied unchanged.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from acidlib.arguments import QUEUE_URL
from acidlib.errors import AcidError, CorruptError, RefusedError, RetryError
from acidlib.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType, State, format_map, parse_map, split_properties
from acidlib.model.tables import TableRef
from acidlib.queue.database import POSTGRESQL, SQLITE, SqlDatabase

PLACE = "PLACE"
"""The column with the key of a request's location, see `place_key`; only in tables of our own."""

ENTITY = "ENTITY"
"""The column with the key of a request's table or partition, see `entity_key`; only in tables of our own. An index of
the names themselves would be wider than some databases allow, and one of the table's name alone would have all its
partitions read for each.
"""

ERROR = "acidlib.error"
"""The property with the reason why a request ended, where the table has no column for it."""

_KEY_WIDTH = 32
_ELLIPSIS = "..."
_MIN_ERROR_CHARACTERS = 16
_HIVE_31 = re.compile(r"3\.1(\.\d{1,3})?")
# SQLite gives only INTEGER columns its automatic treatment of 64-bit keys; elsewhere they are BIGINT
_Long = BigInteger().with_variant(Integer(), "sqlite")
# MySQL's TEXT ends at 64 KiB
_LongText = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), "mysql", "mariadb")
_OURS = MetaData()


def _name(length: int) -> String:
    """Return the type of a text that is compared exactly; MySQL's usual collations ignore case."""
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


_COLUMNS: dict[str, tuple[str, TypeEngine[Any]]] = {
    "ID": ("id", _Long),
    "DATABASE": ("database", _name(128)),
    "TABLE": ("table", _name(256)),
    "PARTITION": ("partition", _name(767)),
    "STATE": ("state", _name(1)),
    "TYPE": ("type", _name(1)),
    "TBLPROPERTIES": ("properties", _LongText),
    "WORKER_ID": ("worker_id", _name(128)),
    "START": ("start_ms", _Long),
    "RUN_AS": ("run_as", _name(128)),
    "HIGHEST_WRITE_ID": ("highest_write_id", _Long),
    "HADOOP_JOB_ID": ("hadoop_job_id", _name(32)),
    "ENQUEUE_TIME": ("enqueue_ms", _Long),
    "ERROR_MESSAGE": ("error_message", _LongText),
    "COMMIT_TIME": ("commit_ms", _Long),
    "INITIATOR_ID": ("initiator_id", _name(128)),
    "POOL_NAME": ("pool", _name(128)),
    "CLEANER_START": ("cleaner_start_ms", _Long),
    "RETRY_RETENTION": ("retry_retention_ms", _Long),
    "END": ("end_ms", _Long),
}
"""The field of a request and its type, by the column's name after the prefix; not every table has every column."""


def _request_table(name: str, prefix: str, *without: str) -> Table:
    more: dict[str, dict[str, Any]] = {
        "ID": {"primary_key": True, "autoincrement": False},
        **{end: {"nullable": False} for end in ("DATABASE", "TABLE", "STATE", "TYPE")},
        "RETRY_RETENTION": {"nullable": False, "server_default": "0"},
    }
    return Table(
        name,
        _OURS,
        *(
            Column(f"{prefix}_{end}", kind, **more.get(end, {}))
            for end, (_, kind) in _COLUMNS.items()
            if end not in without
        ),
        Column(f"{prefix}_META_INFO", LargeBinary),
        # a constraint that always holds: every kind of database creates an index for it together with the table
        Column(f"{prefix}_{ENTITY}", _name(_KEY_WIDTH), nullable=False),
        UniqueConstraint(f"{prefix}_{ENTITY}", f"{prefix}_ID"),
        Column(f"{prefix}_{PLACE}", _name(_KEY_WIDTH)),
        UniqueConstraint(f"{prefix}_{PLACE}", f"{prefix}_ID"),
    )


COMPACTION_QUEUE = _request_table("COMPACTION_QUEUE", "CQ", "END")
_COMPLETED_COMPACTIONS = _request_table("COMPLETED_COMPACTIONS", "CC", "CLEANER_START", "RETRY_RETENTION")
_NEXT_COMPACTION_QUEUE_ID = Table("NEXT_COMPACTION_QUEUE_ID", _OURS, Column("NCQ_NEXT", _Long, nullable=False))
_AUX_TABLE = Table(
    "AUX_TABLE",
    _OURS,
    Column("MT_KEY1", _name(128), primary_key=True),
    Column("MT_KEY2", _Long, primary_key=True, autoincrement=False),
    Column("MT_COMMENT", _name(255)),
)

# columns that a metastore's table may lack: all but META_INFO, ENTITY and PLACE came with Hive 4
_OPTIONAL_ENDS = (
    *("META_INFO", "ENQUEUE_TIME", "ERROR_MESSAGE", "COMMIT_TIME", "INITIATOR_ID", "POOL_NAME"),
    *("CLEANER_START", "RETRY_RETENTION", ENTITY, PLACE),
)
_OPTIONAL_COLUMNS = frozenset(f"{prefix}_{end}" for prefix in ("CQ", "CC") for end in _OPTIONAL_ENDS)


def metastore_table(name: str, **columns: type[BigInteger | Integer | String | Text]) -> Table:
    """Return a template for `ReflectedTables`: a metastore's table with the columns that are used."""
    return Table(name, MetaData(), *(Column(column, kind) for column, kind in columns.items()))


TXNS = metastore_table("TXNS", TXN_ID=BigInteger, TXN_STATE=String, TXN_STARTED=BigInteger, TXN_HOST=String)
TXN_COMPONENTS = metastore_table(
    "TXN_COMPONENTS",
    TC_TXNID=BigInteger,
    TC_DATABASE=String,
    TC_TABLE=String,
    TC_PARTITION=String,
    TC_OPERATION_TYPE=String,
    TC_WRITEID=BigInteger,
)
_COMPLETED_TXN_COMPONENTS = metastore_table(
    "COMPLETED_TXN_COMPONENTS", CTC_DATABASE=String, CTC_TABLE=String, CTC_PARTITION=String, CTC_WRITEID=BigInteger
)
_VERSION = metastore_table("VERSION", SCHEMA_VERSION=String)
_NEXT_TXN_ID = metastore_table("NEXT_TXN_ID", NTXN_NEXT=BigInteger)
_OPENED = (*_OURS.tables.values(), TXNS, TXN_COMPONENTS, _COMPLETED_TXN_COMPONENTS, _VERSION)
"""The tables of which `open_tables` may ask for columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A row of another tool that cannot be read as a request; `state` is None if that cannot be read either."""

    id: int
    table: str
    state: State | None
    reason: str


class RequestTable:
    """COMPACTION_QUEUE or COMPLETED_COMPACTIONS as a database has it.

    limits   the most characters of a column, by its upper-case name
    of_hive  the table is a metastore's: Hive writes to it as well, and it has neither ENTITY nor PLACE
    """

    def __init__(self, table: Table, *, limits: Mapping[str, int], of_hive: bool = False) -> None:
        self.table = table
        self.of_hive = of_hive
        self._limits = limits
        self._prefix = "CQ" if "CQ_ID" in table.c else "CC"
        self._fields = {end: field for end, (field, _) in _COLUMNS.items() if self._has(end)}
        self._keeps_errors = self._has("ERROR_MESSAGE")
        self._meta_info = [self.column("META_INFO")] if self._has("META_INFO") else []

    def _has(self, end: str) -> bool:
        return f"{self._prefix}_{end}" in self.table.c

    def column(self, end: str) -> Column[Any]:
        """Return a column by its name after the prefix."""
        return self.table.c[f"{self._prefix}_{end}"]

    def select(self) -> Select[Any]:
        """Return a query for the columns of a request, by name: the table may have others."""
        return select(*(self.column(end) for end in self._fields), *self._meta_info)

    def request(self, row: Row[Any]) -> CompactionRequest:
        """Return the request of a row of `select`; raise `CorruptError` for an unknown state, type or property text."""
        values: dict[str, Any] = dict(zip(self._fields.values(), row, strict=False))  # as `select` orders them
        try:
            values["type"] = CompactionType.parse(values["type"])
            values["state"] = State.parse(values["state"])
            properties = parse_map(values["properties"]) if values["properties"] else {}
        except AcidError as error:
            raise CorruptError(
                f"Cannot read request {values['id']} of {self.table.name}: its row is not understood: {error}"
            ) from error
        if not self._keeps_errors:
            values["error_message"] = properties.pop(ERROR, None)
        if self.of_hive:
            # Hive writes 0 for an unknown value
            values |= {field: values[field] or None for field in ("start_ms", "highest_write_id")}
        facts, others = split_properties(
            {key: value for key, value in properties.items() if key is not None and value is not None}
        )
        ref = TableRef(*(values.pop(name) for name in TableRef._fields))
        return CompactionRequest(ref=ref, **values | {"properties": tuple(others.items()), "facts": facts})

    def read(self, row: Row[Any]) -> CompactionRequest | Unreadable:
        """Return the request of a row of `select`, or the `Unreadable` for a metastore's row that is no valid request.

        Raises CorruptError for such a row in tables of our own.
        """
        try:
            return self.request(row)
        except CorruptError as error:
            if not self.of_hive:
                raise
            try:
                state = State.parse(row._mapping[self.column("STATE")])
            except AcidError:
                state = None
            return Unreadable(id=row._mapping[self.column("ID")], table=self.table.name, state=state, reason=str(error))

    def values(self, request: CompactionRequest, *fields: str) -> dict[str, object]:
        """Return the values of a request's fields, or the named ones, by column key, if there is a column.

        Raises RefusedError for a value that is longer than its column.
        """
        wanted = set(fields or self._fields.values())
        if "facts" in wanted or ("error_message" in wanted and not self._keeps_errors):
            wanted.add("properties")
        values = {
            f"{self._prefix}_{end}": self._value(request, end, field)
            for end, field in self._fields.items()
            if field in wanted
        }
        if not self.of_hive:
            location = request.facts.location
            if not fields:
                values[f"{self._prefix}_{ENTITY}"] = entity_key(request.ref)
            if not fields or ("properties" in wanted and location is not None):
                values[f"{self._prefix}_{PLACE}"] = None if location is None else place_key(location)
        return values

    def meta_info(self, row: Row[Any]) -> dict[str, object]:
        """Return Hive's META_INFO of a row of the queue, as a value for the history."""
        return {"CC_META_INFO": row._mapping[self._meta_info[0]]} if self._meta_info else {}

    def _value(self, request: CompactionRequest, end: str, field: str) -> object:
        if field == "properties":
            value = self._properties_text(request)
        elif field in ("type", "state"):
            value = getattr(request, field).value
        else:
            value = getattr(request.ref if field in TableRef._fields else request, field)
        limit = self._limits.get(f"{self._prefix}_{end}")
        if limit is not None and isinstance(value, str) and len(value) > limit:
            raise RefusedError(
                f"Cannot queue a compaction of {request.ref}: its {field.replace('_', ' ')} "
                f"({len(value)} characters) is longer than the {limit} that {self._prefix}_{end} holds"
            )
        return value

    def _properties_text(self, request: CompactionRequest) -> str | None:
        """Return the text of properties and facts, as Hive stores it; None without either."""
        entries: dict[str | None, str | None] = dict([*request.properties, *request.facts.properties().items()])
        if request.error_message is not None and not self._keeps_errors:
            # in ASCII, as a metastore's tables in MySQL are in Latin-1
            error = request.error_message.encode("ascii", "backslashreplace").decode("ascii")
            limit = self._limits.get(f"{self._prefix}_TBLPROPERTIES")
            if limit is not None:
                room = limit - len(format_map({**entries, ERROR: ""})) - len(str(limit))
                if len(error) > room:
                    error = error[: room - len(_ELLIPSIS)] + _ELLIPSIS if room >= _MIN_ERROR_CHARACTERS else ""
            if error:
                entries[ERROR] = error
        return format_map(entries) if entries else None


def place_key(location: Location) -> str:
    """Return a location's key in an index: a digest, equal for equal locations only."""
    return hashlib.sha256(location.stored_text.encode("utf-8", "surrogateescape")).hexdigest()[:_KEY_WIDTH]


def entity_key(ref: TableRef) -> str:
    """Return the key of a request's table or partition in an index: a digest, equal for equal names only."""
    return hashlib.sha256(json.dumps(ref).encode()).hexdigest()[:_KEY_WIDTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTables:
    """The tables of a queue. Keys of columns are Hive's upper-case names, however the database spells them.

    version  the schema version of the metastore that has the tables; None for tables of our own
    written  a metastore's notes of the writes of transactions: TXNS, TXN_COMPONENTS and COMPLETED_TXN_COMPONENTS
    """

    queue: RequestTable
    history: RequestTable
    next_id: Table
    mutex: Table
    version: str | None = None
    written: tuple[Table, Table, Table] | None = None


def open_tables(database: SqlDatabase, *, of_metastore: bool = False) -> QueueTables:
    """Return the tables of a database; create our own where they are missing.

    of_metastore  it is stated to be a metastore's, and nothing is created in another one

    Raises RefusedError for a metastore that is not one of Hive 3.1, and for a table without a required column.
    """
    with database.reading("open") as connection:
        there = ReflectedTables(connection, database.shown, together=_OPENED)
        version = there.schema_version(connection)
        if version is not None:
            return QueueTables(
                queue=there.request_table(COMPACTION_QUEUE),
                history=there.request_table(_COMPLETED_COMPACTIONS),
                next_id=there.table(_NEXT_COMPACTION_QUEUE_ID),
                mutex=there.table(_AUX_TABLE),
                version=version,
                written=(there.table(TXNS), there.table(TXN_COMPONENTS), there.table(_COMPLETED_TXN_COMPONENTS)),
            )
        if of_metastore:
            raise RefusedError(
                f"Cannot use {database.shown} as the metastore's database: it has no schema of a metastore; "
                f"{QUEUE_URL} names a database of our own queue"
            )
        missing = there.missing()

    def create(connection: Connection) -> None:
        for table in missing:
            connection.execute(CreateTable(table, if_not_exists=True))

    if missing:
        try:
            database.write("create", create)
        except RetryError:  # another process may have created them at the same time
            with database.reading("open") as connection:
                if ReflectedTables(connection, database.shown, together=_OPENED).missing():
                    raise
    return QueueTables(
        queue=_own_request_table(database, COMPACTION_QUEUE),
        history=_own_request_table(database, _COMPLETED_COMPACTIONS),
        next_id=_NEXT_COMPACTION_QUEUE_ID,
        mutex=_AUX_TABLE,
    )


def _own_request_table(database: SqlDatabase, table: Table) -> RequestTable:
    bounded = database.dialect != SQLITE
    lengths = {column.name: _length_of(column.type) for column in table.columns} if bounded else {}
    return RequestTable(table, limits={name: length for name, length in lengths.items() if length is not None})


def _length_of(kind: object) -> int | None:
    return kind.length if isinstance(kind, String) else None


class ReflectedTables:
    """The tables that a database shows its user, by names in upper case.

    The columns of those that are used `together` are asked for at once: each question to a catalog takes milliseconds.
    """

    def __init__(self, connection: Connection, shown: str, *, together: Sequence[Table] = ()) -> None:
        self._shown = shown
        self._together = together
        self._known: dict[str, list[ReflectedColumn]] = {}
        self._inspector = inspect(connection)
        self._metadata = MetaData()
        # where two names differ by case alone, Hive's is the one that PostgreSQL folds to lower case
        lower_first = connection.dialect.name == POSTGRESQL
        names = sorted(self._inspector.get_table_names(), reverse=not lower_first)
        self._names = {name.upper(): name for name in names}

    def has(self, template: Table) -> bool:
        """Return whether there is a table of the template's name."""
        return template.name in self._names

    def _columns(self, template: Table) -> dict[str, tuple[str, int | None]]:
        """Return each column's own name and the most characters it holds, by its name in upper case."""
        if not self.has(template):
            return {}
        name = self._names[template.name]
        if name not in self._known:
            wanted = {name, *(self._names[other.name] for other in self._together if self.has(other))}
            answer = self._inspector.get_multi_columns(filter_names=sorted(wanted))
            self._known |= {table: columns for (_, table), columns in answer.items()}
        columns = self._known[name]
        return {column["name"].upper(): (column["name"], _length_of(column["type"])) for column in columns}

    def table(self, template: Table) -> Table:
        """Return the table with the template's columns that it has; RefusedError if a required one is missing."""
        cannot = f"Cannot use the metastore's database {self._shown} as a queue:"
        if not self.has(template):
            raise RefusedError(f"{cannot} it has no table {template.name}")
        there = self._columns(template)
        columns = []
        for column in template.columns:
            if column.name in there:
                columns.append(Column(there[column.name][0], column.type, key=column.name))
            elif column.name not in _OPTIONAL_COLUMNS:
                raise RefusedError(f"{cannot} its table {template.name} has no column {column.name}")
        return Table(self._names[template.name], self._metadata, *columns)

    def request_table(self, template: Table) -> RequestTable:
        """Return a metastore's table of requests."""
        lengths = {name: length for name, (_, length) in self._columns(template).items() if length is not None}
        return RequestTable(self.table(template), limits=lengths, of_hive=True)

    def schema_version(self, connection: Connection) -> str | None:
        """Return the version of a metastore's schema; None in any other database. RefusedError unless of Hive 3.1."""
        if "SCHEMA_VERSION" not in self._columns(_VERSION):
            return None
        version = self.table(_VERSION).c["SCHEMA_VERSION"]
        stored = sorted({str(text) for (text,) in connection.execute(select(version))})
        cannot = (
            f"Cannot use the metastore's database {self._shown} as a queue: its schema version is "
            f"{', '.join(stored) or 'none'}"
        )
        if len(stored) == 1 and _HIVE_31.fullmatch(stored[0]):
            # a vendor's "3.1" may follow Hive 4's rules of cleaning
            if "CQ_NEXT_TXN_ID" in self._columns(COMPACTION_QUEUE) or not self.has(_NEXT_TXN_ID):
                raise RefusedError(f"{cannot}, but its tables are not those of Hive 3.1; use the metastore over thrift")
            return stored[0]
        if stored and not stored[0].startswith(("0.", "1.", "2.", "3.")):
            raise RefusedError(f"{cannot}; use the metastore over thrift")
        raise RefusedError(f"{cannot}, and only that of Apache Hive 3.1 is supported")

    def missing(self) -> list[Table]:
        """Return the tables of our own that do not exist yet; RefusedError for a foreign table of such a name."""
        missing = []
        for table in _OURS.sorted_tables:
            if not self.has(table):
                missing.append(table)
                continue
            there = {name for name, _ in self._columns(table).values()}
            lacking = [column.name for column in table.columns if column.name not in there]
            if lacking:
                raise RefusedError(
                    f"Cannot use the queue {self._shown}: its table {table.name} has no column {lacking[0]}, "
                    "and no table VERSION says that it is a metastore's"
                )
        return missing
