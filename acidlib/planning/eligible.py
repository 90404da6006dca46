"""Tables that are not compacted: those that cannot be, must not be, or must not be without being named.

Source: Hive's `Initiator` and `Worker` (`CompactorFactory` and `CompactionService` in Hive 4); their texts, where they
have one.
"""

from __future__ import annotations

from collections.abc import Mapping

from acidlib.model.generation import Generation
from acidlib.model.tables import EXTERNAL_TABLE, VIRTUAL_VIEW, Partition, Storage, Table
from acidlib.planning.decide import switched_off

ORC_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
FIRST_INCREMENTAL_PENDING = "hive.repl.first.inc.pending"
NO_CLEANUP = "no_cleanup"


def why_not(
    table: Table,
    database_properties: Mapping[str, str],
    *,
    generation: Generation,
    automatic: bool,
    partition: Partition | None = None,
    insert_only_enabled: bool = True,
) -> str | None:
    """Why a table, or one partition of it, is not to be compacted: a whole sentence; None when it may be.

    automatic              this table was not asked for by name: NO_AUTO_COMPACTION counts, and a replica that still
                           waits for its first incremental load is left alone
    partition              decides how rows are stored, where it is given
    insert_only_enabled    the setting hive.compactor.compact.insert.only
    """
    storage = table.storage if partition is None else partition.storage
    return (
        wrong_kind(table, insert_only_enabled=insert_only_enabled)
        or _wrong_storage(table, storage)
        or (_left_alone(table, database_properties, generation) if automatic else None)
    )


def not_acid(table: Table) -> str | None:
    """Return why a table is no ACID table, as a whole sentence; None when it is one."""
    cannot = f"Cannot compact {table.full_name}: because"
    if table.kind == VIRTUAL_VIEW:
        return f"{cannot} it is a view"
    if table.kind == EXTERNAL_TABLE or _is_true(table.properties, "EXTERNAL"):
        return f"{cannot} it is an external table"
    if not table.is_transactional:
        return f"Only transactional tables can be compacted, {table.full_name} is not suitable for compaction!"
    return None


def wrong_kind(table: Table, *, insert_only_enabled: bool) -> str | None:
    """Return why a table is none that compactions are made of at all; None when it is one."""
    reason = not_acid(table)
    if reason is not None:
        return reason
    if table.is_insert_only and not insert_only_enabled:
        return "Insert only compaction is disabled. Set hive.compactor.compact.insert.only=true to enable it."
    return None


def _wrong_storage(table: Table, storage: Storage) -> str | None:
    if storage.sort_columns:
        return f"Attempt to compact sorted table {table.full_name}, which is not yet supported!"
    if table.is_insert_only or (storage.input_format, storage.serde) == (ORC_INPUT_FORMAT, ORC_SERDE):
        return None
    return (
        f"Cannot compact {table.full_name}: because its rows are read by {storage.input_format} and {storage.serde}, "
        "and only ORC can be full ACID"
    )


def _left_alone(table: Table, database: Mapping[str, str], generation: Generation) -> str | None:
    # only Hive 4 looks at this; where a Hive 3.1 table has it, a vendor has backported all of it
    for owner, properties in (("database", database), ("table", table.properties)):
        if _is_true(properties, FIRST_INCREMENTAL_PENDING):
            return f"the first incremental replication into the {owner} is pending ({FIRST_INCREMENTAL_PENDING}=true)"
    return switched_off(table.properties, database, generation)


def cleaning_forbidden(table: Table, partition: Partition | None = None) -> str | None:
    """Why nothing may be removed: NO_CLEANUP, in upper or lower case, on the table or the partition; None if it may.

    Source: Hive 4 `CompactionCleaner`, `MetaStoreUtils.isNoCleanUpSet`.
    """
    owners = [("table", table.properties)]
    if partition is not None:
        owners.append(("partition", partition.properties))
    for owner, properties in owners:
        flag = properties.get(NO_CLEANUP, properties.get(NO_CLEANUP.upper()))
        if flag is not None and flag.lower() == "true":
            return f"{NO_CLEANUP.upper()} is set on the {owner}"
    return None


def _is_true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").lower() == "true"
