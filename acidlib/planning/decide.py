"""Whether a table or partition should be compacted, and how: the initiator's decision with its figures.

Source: Hive `Initiator.checkForCompaction` and `determineCompactionType`, of Hive 3.1 and of Hive 4 where they differ,
but for one thing: Hive 3.1 never asks for the cleaning of a base that was overwritten, and so keeps one for each INSERT
OVERWRITE. Here that is asked for as by Hive 4.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.names import BASE_PREFIX, BucketFile, OriginalFile, is_hidden, parse_file
from acidlib.model.requests import CompactionType
from acidlib.planning.enough import single_write_id
from acidlib.planning.state import AcidState
from acidlib.wording import size_words

NO_AUTO_COMPACTION = "no_auto_compaction"
DELTA_NUM_KEY = "hive.compactor.delta.num.threshold"
DELTA_PCT_KEY = "hive.compactor.delta.pct.threshold"
ABORTED_TXN_KEY = "hive.compactor.abortedtxn.threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The value in force of a setting, by Hive's name and in the unit of its definition, and where it came from.

    Every comparison with one is strict: more than, never equal to.
    """

    key: str
    value: float
    source: str


Thresholds = Mapping[str, Threshold]
"""By key; those whose definition says so (`Key.is_threshold`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the initiator does about one table or partition: `kind` None means nothing.

    Bytes are file lengths of one listing. `ratio` is delta bytes through base bytes in single precision, None without a
    base. `threshold` is the value the decision was made by, `threshold_key` its Hive name and `threshold_source` where
    the value came from; they are None where no threshold was involved.
    """

    kind: CompactionType | None
    reason: str
    base_bytes: int = 0
    delta_bytes: int = 0
    delta_count: int = 0
    ratio: float | None = None
    threshold: float | None = None
    threshold_key: str | None = None
    threshold_source: str | None = None


def decide(
    state: AcidState,
    listing: Listing,
    thresholds: Thresholds,
    *,
    generation: Generation,
    properties: Mapping[str, str],
    database_properties: Mapping[str, str] | None = None,
    aborted_txn_count: int = 0,
    insert_only: bool = False,
) -> Decision:
    """The decision for a state that was computed with the compactor's list from the same listing.

    `thresholds` are those in force for the table. `properties` are the table's, `database_properties` the database's
    (Hive 4: if it has NO_AUTO_COMPACTION, it decides for the whole database). The number of aborted transactions
    comes from a metastore that leaves them to compaction. Deltas of one single write id do not count towards a minor:
    it would be refused.
    """
    if reason := switched_off(properties, database_properties or {}, generation):
        return Decision(kind=None, reason=reason)
    figures = _figures(state, listing, generation)
    limit = thresholds[ABORTED_TXN_KEY]
    if aborted_txn_count > limit.value:
        reason = f"{aborted_txn_count} aborted transactions are more than {limit.value}"
        return _by(figures, CompactionType.MAJOR, reason, limit)
    return _by_size(figures, state, thresholds) or _by_count(
        figures, state, thresholds, generation, insert_only=insert_only
    )


def switched_off(table: Mapping[str, str], database: Mapping[str, str], generation: Generation) -> str | None:
    """Why nothing is to be compacted automatically, by the properties of a table and of its database; None if it may.

    Hive 4: a database that says anything decides, be it "false" against the table's "true".
    """
    flag = _flag(database) if generation == Generation.HIVE4 else None
    owner = "table" if flag is None else "database"
    flag = _flag(table) if flag is None else flag
    if flag is not None and flag.lower() == "true":
        return f"{NO_AUTO_COMPACTION.upper()} is set on the {owner}"
    return None


def _flag(properties: Mapping[str, str]) -> str | None:
    return properties.get(NO_AUTO_COMPACTION, properties.get(NO_AUTO_COMPACTION.upper()))


def _figures(state: AcidState, listing: Listing, generation: Generation) -> Decision:
    directories = listing.by_directory()
    by_path = {file.path: file.length for file in listing.files}
    base_bytes = 0 if state.base is None else _data_bytes(directories.get(state.base.path, ()), generation)
    if generation == Generation.HIVE3 or state.base is None:
        base_bytes += sum(by_path[path] for path in state.originals)
    return Decision(
        kind=None,
        reason="",
        base_bytes=base_bytes,
        delta_bytes=sum(_data_bytes(directories.get(delta.path, ()), generation) for delta in state.deltas),
        delta_count=len(state.deltas),
    )


def _data_bytes(files: tuple[ListedFile, ...], generation: Generation) -> int:
    return sum(file.length for file in files if _counts(file.name, generation))


def _counts(name: str, generation: Generation) -> bool:
    if is_hidden(name):
        return False
    # Hive 3.1 adds up all files, side files of streaming writers included
    return generation == Generation.HIVE3 or isinstance(parse_file(name), BucketFile | OriginalFile)


def _by_size(figures: Decision, state: AcidState, thresholds: Thresholds) -> Decision | None:
    if figures.base_bytes > 0:
        ratio = _float32(_float32(figures.delta_bytes) / _float32(figures.base_bytes))
        figures = replace(figures, ratio=ratio)
        limit = thresholds[DELTA_PCT_KEY]
        if ratio > _float32(limit.value):
            reason = (
                f"the deltas hold {size_words(figures.delta_bytes)}, {ratio:.2%} of the base's"
                f" {size_words(figures.base_bytes)},"
                f" more than {limit.value:.2%}"
            )
            return _by(figures, CompactionType.MAJOR, reason, limit)
    elif figures.delta_bytes > 0:
        return None
    if figures.delta_bytes == 0 and _has_obsolete_base(state):
        return replace(figures, kind=CompactionType.MAJOR, reason="an obsolete base is left to be cleaned")
    return None


def _has_obsolete_base(state: AcidState) -> bool:
    return any(path.startswith(BASE_PREFIX) for path in state.obsolete_paths)


def _by_count(
    figures: Decision, state: AcidState, thresholds: Thresholds, generation: Generation, *, insert_only: bool
) -> Decision:
    if figures.base_bytes > 0:
        figures = replace(figures, ratio=_float32(_float32(figures.delta_bytes) / _float32(figures.base_bytes)))
    count, limit = figures.delta_count, thresholds[DELTA_NUM_KEY]
    if count <= limit.value:
        return _by(figures, None, _below(figures, thresholds), limit)
    no_base = figures.base_bytes == 0 and figures.delta_bytes > 0
    if no_base or (insert_only and generation == Generation.HIVE3):
        why = "there is no base" if no_base else "the table is insert-only"
        reason = f"{count} delta directories are more than {limit.value}, and {why}"
        return _by(figures, CompactionType.MAJOR, reason, limit)
    if (write_id := single_write_id(state)) is not None:
        reason = f"{count} delta directories are more than {limit.value}, but all are of write id {write_id}"
        return _by(figures, None, reason, limit)
    reason = f"{count} delta directories are more than {limit.value}"
    return _by(figures, CompactionType.MINOR, reason, limit)


def _below(figures: Decision, thresholds: Thresholds) -> str:
    number, share = thresholds[DELTA_NUM_KEY].value, thresholds[DELTA_PCT_KEY].value
    count = f"{figures.delta_count} delta directories are not more than {number}"
    if figures.ratio is None:
        return count
    return f"{count}, and their bytes, {figures.ratio:.2%} of the base, not more than {share:.2%}"


def _by(figures: Decision, kind: CompactionType | None, reason: str, limit: Threshold) -> Decision:
    return replace(
        figures,
        kind=kind,
        reason=reason,
        threshold=limit.value,
        threshold_key=limit.key,
        threshold_source=limit.source,
    )


def _float32(value: float) -> float:
    """Java's float: the quotient of two of them is rounded once more, as there."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return value
    return single
