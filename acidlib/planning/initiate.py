"""The initiator's decisions: which tables it leaves alone, whether a place should be compacted, and how.

Tables that are not compacted: those that cannot be, must not be, or must not be unless they are named. Source, also of
the messages: Hive's `Initiator` and `Worker` (`CompactorFactory` and `CompactionService` in Hive 4).

Source of the decision: Hive `Initiator.checkForCompaction` and `determineCompactionType`, of Hive 3.1 and of Hive 4
where they differ, but for one thing: Hive 3.1 never has an overwritten base cleaned, and so keeps one for each INSERT
OVERWRITE. Here a compaction is requested for that, as by Hive 4.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

from acidlib.acid.listing import Listing
from acidlib.acid.names import BASE_PREFIX, Generation, Names, is_hidden, parse_file
from acidlib.acid.state import AcidState
from acidlib.model.requests import CompactionType
from acidlib.model.tables import EXTERNAL_TABLE, ORC_INPUT_FORMAT, VIRTUAL_VIEW, MetastoreTable, Partition
from acidlib.planning.inputs import single_write_id
from acidlib.wording import Reasoned, plural, size_words

ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
FIRST_INCREMENTAL_PENDING = "hive.repl.first.inc.pending"
NO_CLEANUP = "no_cleanup"
NO_AUTO_COMPACTION = "no_auto_compaction"
DELTA_NUM_KEY = "hive.compactor.delta.num.threshold"
DELTA_PCT_KEY = "hive.compactor.delta.pct.threshold"
ABORTED_TXN_KEY = "hive.compactor.abortedtxn.threshold"
ABORTED_TXN_TIME_KEY = "hive.compactor.aborted.txn.time.threshold"
ABORTS_BY_CLEANER = "metastore.compactor.clean.aborts.using.cleaner"


def not_compactable_reason(
    table: MetastoreTable,
    database_properties: Mapping[str, str],
    *,
    names: Names,
    automatic: bool,
    partition: Partition | None = None,
    insert_only_enabled: bool = True,
) -> str | None:
    """Return why a table, or one partition of it, is not to be compacted, as a whole sentence; None when it may be.

    automatic              the table was not named: NO_AUTO_COMPACTION counts, and a replica that still waits for its
                           first incremental load is left alone
    partition              has the storage to judge in place of the table's
    insert_only_enabled    the setting hive.compactor.compact.insert.only
    """
    if (reason := wrong_kind_reason(table, insert_only_enabled=insert_only_enabled)) is not None:
        return reason
    storage = table.storage if partition is None else partition.storage
    if storage.sort_columns:
        return f"Attempt to compact sorted table {table.ref}, which is not yet supported!"
    if not table.is_insert_only and (storage.input_format, storage.serde) != (ORC_INPUT_FORMAT, ORC_SERDE):
        return (
            f"Cannot compact {table.ref}: its rows are read by {storage.input_format} and {storage.serde}, "
            "and only ORC can be full ACID"
        )
    if not automatic:
        return None
    # only Hive 4 heeds this property; a Hive 3.1 table that has it is of a vendor's backport
    for owner, properties in (("database", database_properties), ("table", table.properties)):
        if _is_true(properties, FIRST_INCREMENTAL_PENDING):
            return f"the first incremental replication into the {owner} is pending ({FIRST_INCREMENTAL_PENDING}=true)"
    return switched_off_reason(table.properties, database_properties, names)


def not_acid_reason(table: MetastoreTable) -> str | None:
    """Return why a table is not an ACID table, as a whole sentence; None when it is."""
    cannot = f"Cannot compact {table.ref}:"
    if table.kind == VIRTUAL_VIEW:
        return f"{cannot} it is a view"
    if table.kind == EXTERNAL_TABLE or _is_true(table.properties, "EXTERNAL"):
        return f"{cannot} it is an external table"
    if not table.is_transactional:
        return f"Only transactional tables can be compacted, {table.ref} is not suitable for compaction!"
    return None


def wrong_kind_reason(table: MetastoreTable, *, insert_only_enabled: bool) -> str | None:
    """Return why a table of this kind is never compacted; None when it may be."""
    if (reason := not_acid_reason(table)) is not None:
        return reason
    if table.is_insert_only and not insert_only_enabled:
        return "Insert only compaction is disabled. Set hive.compactor.compact.insert.only=true to enable it."
    return None


def cleaning_forbidden_reason(table: MetastoreTable, partition: Partition | None = None) -> str | None:
    """Return why nothing may be removed, NO_CLEANUP in either case on table or partition; None if it may.

    Source: Hive 4 `CompactionCleaner`, `MetaStoreUtils.isNoCleanUpSet`.
    """
    for owner, described in (("table", table), ("partition", partition)):
        if described is not None and (_either_case(described.properties, NO_CLEANUP) or "").lower() == "true":
            return f"{NO_CLEANUP.upper()} is set on the {owner}"
    return None


def _is_true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The value in force of a setting, by Hive's name and in the unit of its definition, and its source.

    Every comparison with a threshold is strict: more than, never equal to.
    """

    key: str
    value: float
    source: str


Thresholds = Mapping[str, Threshold]
"""Thresholds by key: the settings whose definition says so (`SettingKey.is_threshold`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Reasoned):
    """The initiator's decision about one place.

    kind       compaction to queue; None for none
    ratio      delta bytes divided by base bytes (file lengths of one listing) in single precision; None without a base
    threshold  the one that decided; None where none was involved
    """

    kind: CompactionType | None
    reason: str
    base_bytes: int = 0
    delta_bytes: int = 0
    delta_count: int = 0
    ratio: float | None = None
    threshold: Threshold | None = None


def decide(
    state: AcidState,
    listing: Listing,
    thresholds: Thresholds,
    *,
    names: Names,
    properties: Mapping[str, str],
    database_properties: Mapping[str, str] | None = None,
    aborted_txn_count: int = 0,
    insert_only: bool = False,
) -> Decision:
    """Return the decision for a state that was computed with the compactor's list from the same listing.

    thresholds         those in force for the table
    properties, database_properties  of the table, and of its database (see `switched_off_reason`)
    aborted_txn_count  aborted transactions, from a metastore that leaves them to compaction

    Deltas of one single write id call for no minor compaction, which would be refused.
    """
    if reason := switched_off_reason(properties, database_properties or {}, names):
        return Decision(kind=None, reason=reason)
    figures = _figures(state, listing, names)
    limit = thresholds[ABORTED_TXN_KEY]
    if aborted_txn_count > limit.value:
        aborted = plural(aborted_txn_count, "aborted transaction is", "aborted transactions are")
        reason = f"{aborted} more than {limit.value}"
        return replace(figures, kind=CompactionType.MAJOR, reason=reason, threshold=limit)
    if figures.base_bytes > 0:
        ratio = _float32(_float32(figures.delta_bytes) / _float32(figures.base_bytes))
        figures, limit = replace(figures, ratio=ratio), thresholds[DELTA_PCT_KEY]
        if ratio > _float32(limit.value):
            reason = (
                f"the deltas hold {size_words(figures.delta_bytes)}, {ratio:.2%} of the base's"
                f" {size_words(figures.base_bytes)},"
                f" more than {limit.value:.2%}"
            )
            return replace(figures, kind=CompactionType.MAJOR, reason=reason, threshold=limit)
    if figures.delta_bytes == 0 and any(path.startswith(BASE_PREFIX) for path in state.obsolete):
        return replace(figures, kind=CompactionType.MAJOR, reason="an obsolete base is left to be cleaned")
    limit = thresholds[DELTA_NUM_KEY]
    deltas = plural(figures.delta_count, "delta directory is", "delta directories are")
    if figures.delta_count <= limit.value:
        reason = f"{deltas} not more than {limit.value}"
        if figures.ratio is not None:
            share = thresholds[DELTA_PCT_KEY].value
            reason += f", and their bytes, {figures.ratio:.2%} of the base, not more than {share:.2%}"
        return replace(figures, kind=None, reason=reason, threshold=limit)
    reason = f"{deltas} more than {limit.value}"
    kind: CompactionType | None = CompactionType.MINOR
    if figures.base_bytes == 0 and figures.delta_bytes > 0:
        kind, reason = CompactionType.MAJOR, f"{reason}, and there is no base"
    elif insert_only and names == Generation.HIVE3:
        kind, reason = CompactionType.MAJOR, f"{reason}, and the table is insert-only"
    elif (write_id := single_write_id(state)) is not None:
        kind, reason = None, f"{reason}, but all are of write id {write_id}"
    return replace(figures, kind=kind, reason=reason, threshold=limit)


def switched_off_reason(table: Mapping[str, str], database: Mapping[str, str], names: Names) -> str | None:
    """Return why nothing is compacted automatically, by properties of a table and of its database; None if it may be.

    With Hive 4 the property of the database decides where it has one, even "false" against the table's "true".
    """
    flag = _either_case(database, NO_AUTO_COMPACTION) if names == Generation.HIVE4 else None
    owner = "table" if flag is None else "database"
    flag = _either_case(table, NO_AUTO_COMPACTION) if flag is None else flag
    if flag is not None and flag.lower() == "true":
        return f"{NO_AUTO_COMPACTION.upper()} is set on the {owner}"
    return None


def _either_case(properties: Mapping[str, str], key: str) -> str | None:
    return properties.get(key, properties.get(key.upper()))


def _figures(state: AcidState, listing: Listing, names: Names) -> Decision:
    directories, counts_all = listing.by_directory(), names == Generation.HIVE3

    def data_bytes(directory: str) -> int:  # Hive 3.1 adds up all files, side files of streaming writers included
        files = (file for file in directories.get(directory, ()) if not is_hidden(file.name))
        return sum(file.length for file in files if counts_all or parse_file(file.name) is not None)

    base_bytes = 0 if state.base is None else data_bytes(state.base.path)
    if names == Generation.HIVE3 or state.base is None:
        originals = set(state.originals)
        base_bytes += sum(file.length for file in listing.files if file.path in originals)
    return Decision(
        kind=None,
        reason="",
        base_bytes=base_bytes,
        delta_bytes=sum(data_bytes(delta.path) for delta in state.deltas),
        delta_count=len(state.deltas),
    )


def _float32(value: float) -> float:
    """Return the number rounded to single precision, as in Java's float."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return value
    return single
