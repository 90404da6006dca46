"""The tables of the compaction queue, under the metastore's own table and column names.

Source: Hive's metastore schema 3.1 (COMPACTION_QUEUE, COMPLETED_COMPACTIONS, NEXT_COMPACTION_QUEUE_ID, AUX_TABLE) and,
of what Hive 4 added, the columns that a history needs. Times are epoch milliseconds.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table, Text

METADATA = MetaData()

# SQLite gives only INTEGER columns its automatic treatment of 64-bit keys; elsewhere they are BIGINT
_Long = BigInteger().with_variant(Integer(), "sqlite")


def _request_columns(prefix: str) -> list[Column[object]]:
    return [
        Column(f"{prefix}_ID", _Long, primary_key=True, autoincrement=False),
        Column(f"{prefix}_DATABASE", String(128), nullable=False),
        Column(f"{prefix}_TABLE", String(256), nullable=False),
        Column(f"{prefix}_PARTITION", String(767)),
        Column(f"{prefix}_STATE", String(1), nullable=False),
        Column(f"{prefix}_TYPE", String(1), nullable=False),
        Column(f"{prefix}_TBLPROPERTIES", Text),
        Column(f"{prefix}_WORKER_ID", String(128)),
        Column(f"{prefix}_START", _Long),
        Column(f"{prefix}_RUN_AS", String(128)),
        Column(f"{prefix}_HIGHEST_WRITE_ID", _Long),
        Column(f"{prefix}_META_INFO", LargeBinary),
        Column(f"{prefix}_HADOOP_JOB_ID", String(32)),
        Column(f"{prefix}_ENQUEUE_TIME", _Long),
        Column(f"{prefix}_ERROR_MESSAGE", Text),
        Column(f"{prefix}_COMMIT_TIME", _Long),
        Column(f"{prefix}_INITIATOR_ID", String(128)),
        Column(f"{prefix}_POOL_NAME", String(128)),
    ]


COMPACTION_QUEUE = Table(
    "COMPACTION_QUEUE",
    METADATA,
    *_request_columns("CQ"),
    Column("CQ_CLEANER_START", _Long),
    Column("CQ_RETRY_RETENTION", _Long, nullable=False, server_default="0"),
)

COMPLETED_COMPACTIONS = Table(
    "COMPLETED_COMPACTIONS",
    METADATA,
    *_request_columns("CC"),
    Column("CC_END", _Long),
)

NEXT_COMPACTION_QUEUE_ID = Table("NEXT_COMPACTION_QUEUE_ID", METADATA, Column("NCQ_NEXT", _Long, nullable=False))

AUX_TABLE = Table(
    "AUX_TABLE",
    METADATA,
    Column("MT_KEY1", String(128), primary_key=True),
    Column("MT_KEY2", _Long, primary_key=True, autoincrement=False),
    Column("MT_COMMENT", String(255)),
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
