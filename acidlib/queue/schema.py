"""The tables of the compaction queue, under the metastore's own table and column names.

Source: Hive's metastore schema 3.1 (COMPACTION_QUEUE, COMPLETED_COMPACTIONS, NEXT_COMPACTION_QUEUE_ID, AUX_TABLE, and
those of transactions that cleaning touches) and, of what Hive 4 added, the columns that a history needs. Times are
epoch milliseconds.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.dialects import mysql

METADATA = MetaData()
"""Our own tables, made where they are missing."""

PLACE = "PLACE"
"""What tells where a request's place lies, by which its rows are found; see `rows.place_key`. A metastore's tables have
no such column: their rows are found by the text of their properties.
"""
PLACE_WIDTH = 32

ENTITY = "ENTITY"
"""What tells which table or partition a request is about; see `rows.entity_key`. An index by the names themselves would
be wider than some databases allow, and one by the table's alone has all partitions gone through for each. A metastore's
tables are searched by the names.
"""
ENTITY_WIDTH = 32

METASTORE = MetaData()
"""Further tables of a metastore of Hive 3.1, with the columns that are used; never made by us."""

# SQLite gives only INTEGER columns its automatic treatment of 64-bit keys; elsewhere they are BIGINT
_Long = BigInteger().with_variant(Integer(), "sqlite")


def _name(length: int) -> String:
    """A text that is compared; MySQL's usual collations take letters of either case for equal."""
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


# MySQL's TEXT ends at 64 KiB
_LongText = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), "mysql", "mariadb")


def _request_columns(prefix: str) -> list[Column[object]]:
    return [
        Column(f"{prefix}_ID", _Long, primary_key=True, autoincrement=False),
        Column(f"{prefix}_DATABASE", _name(128), nullable=False),
        Column(f"{prefix}_TABLE", _name(256), nullable=False),
        Column(f"{prefix}_PARTITION", _name(767)),
        Column(f"{prefix}_STATE", _name(1), nullable=False),
        Column(f"{prefix}_TYPE", _name(1), nullable=False),
        Column(f"{prefix}_TBLPROPERTIES", _LongText),
        Column(f"{prefix}_WORKER_ID", _name(128)),
        Column(f"{prefix}_START", _Long),
        Column(f"{prefix}_RUN_AS", _name(128)),
        Column(f"{prefix}_HIGHEST_WRITE_ID", _Long),
        Column(f"{prefix}_META_INFO", LargeBinary),
        Column(f"{prefix}_HADOOP_JOB_ID", _name(32)),
        Column(f"{prefix}_ENQUEUE_TIME", _Long),
        Column(f"{prefix}_ERROR_MESSAGE", _LongText),
        Column(f"{prefix}_COMMIT_TIME", _Long),
        Column(f"{prefix}_INITIATOR_ID", _name(128)),
        Column(f"{prefix}_POOL_NAME", _name(128)),
    ]


def _by_entity(prefix: str) -> tuple[Column[object], UniqueConstraint]:
    """The column of the table or partition, and an index by it, which every kind of database makes with the table.

    What the index demands always holds.
    """
    entity: Column[object] = Column(f"{prefix}_{ENTITY}", _name(ENTITY_WIDTH), nullable=False)
    return entity, UniqueConstraint(f"{prefix}_{ENTITY}", f"{prefix}_ID")


def _by_place(prefix: str) -> tuple[Column[object], UniqueConstraint]:
    """The column of the place, and an index by it."""
    return Column(f"{prefix}_{PLACE}", _name(PLACE_WIDTH)), UniqueConstraint(f"{prefix}_{PLACE}", f"{prefix}_ID")


COMPACTION_QUEUE = Table(
    "COMPACTION_QUEUE",
    METADATA,
    *_request_columns("CQ"),
    Column("CQ_CLEANER_START", _Long),
    Column("CQ_RETRY_RETENTION", _Long, nullable=False, server_default="0"),
    *_by_entity("CQ"),
    *_by_place("CQ"),
)

COMPLETED_COMPACTIONS = Table(
    "COMPLETED_COMPACTIONS",
    METADATA,
    *_request_columns("CC"),
    Column("CC_END", _Long),
    *_by_entity("CC"),
    *_by_place("CC"),
)

NEXT_COMPACTION_QUEUE_ID = Table("NEXT_COMPACTION_QUEUE_ID", METADATA, Column("NCQ_NEXT", _Long, nullable=False))

AUX_TABLE = Table(
    "AUX_TABLE",
    METADATA,
    Column("MT_KEY1", _name(128), primary_key=True),
    Column("MT_KEY2", _Long, primary_key=True, autoincrement=False),
    Column("MT_COMMENT", _name(255)),
)

VERSION = Table("VERSION", METASTORE, Column("SCHEMA_VERSION", String(127)))

TXNS = Table("TXNS", METASTORE, Column("TXN_ID", _Long), Column("TXN_STATE", String(1)))

TXN_COMPONENTS = Table(
    "TXN_COMPONENTS",
    METASTORE,
    Column("TC_TXNID", _Long),
    Column("TC_DATABASE", String(128)),
    Column("TC_TABLE", String(128)),
    Column("TC_PARTITION", String(767)),
    Column("TC_WRITEID", _Long),
)

COMPLETED_TXN_COMPONENTS = Table(
    "COMPLETED_TXN_COMPONENTS",
    METASTORE,
    Column("CTC_DATABASE", String(128)),
    Column("CTC_TABLE", String(256)),
    Column("CTC_PARTITION", String(767)),
    Column("CTC_WRITEID", _Long),
)

NEXT_TXN_ID = Table("NEXT_TXN_ID", METASTORE, Column("NTXN_NEXT", _Long))

# what a table need not have: all but META_INFO, PLACE and ENTITY came with Hive 4
OPTIONAL_COLUMNS = frozenset(
    f"{prefix}_{end}"
    for prefix in ("CQ", "CC")
    for end in (
        "META_INFO",
        "ENQUEUE_TIME",
        "ERROR_MESSAGE",
        "COMMIT_TIME",
        "INITIATOR_ID",
        "POOL_NAME",
        "CLEANER_START",
        "RETRY_RETENTION",
        PLACE,
        ENTITY,
    )
)

# the fields of a request that both tables keep, by the end of the column's name
SHARED_FIELDS = {
    "ID": "id",
    "DATABASE": "database",
    "TABLE": "table",
    "PARTITION": "partition",
    "STATE": "state",
    "TYPE": "type",
    "TBLPROPERTIES": "properties",
    "WORKER_ID": "worker_id",
    "START": "start_ms",
    "RUN_AS": "run_as",
    "HIGHEST_WRITE_ID": "highest_write_id",
    "HADOOP_JOB_ID": "hadoop_job_id",
    "ENQUEUE_TIME": "enqueue_ms",
    "ERROR_MESSAGE": "error_message",
    "COMMIT_TIME": "commit_ms",
    "INITIATOR_ID": "initiator_id",
    "POOL_NAME": "pool",
}
QUEUE_FIELDS = SHARED_FIELDS | {"CLEANER_START": "cleaner_start_ms", "RETRY_RETENTION": "retry_retention_ms"}
HISTORY_FIELDS = SHARED_FIELDS | {"END": "end_ms"}
