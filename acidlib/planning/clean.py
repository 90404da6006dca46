"""What may be removed after a compaction, what has to stay for now, and which readers may still need it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from acidlib.errors import RefusedError
from acidlib.model.listing import Listing
from acidlib.model.names import LONG_MAX, DeltaDir, Generation, is_acid_directory_name, parse_directory
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import UNION_SUBDIRECTORY
from acidlib.planning.state import AcidState, acid_state
from acidlib.wording import retention_words

# --- clean ------------------------------------------------------------------------------------------------------------
# What may be removed after a compaction, and what has to stay for now.
#
# Source: Hive `Cleaner` and `CompactionCleaner`: obsolete is what is obsolete for the high-water mark that the
# compaction recorded, by the write-id list it used, never for a newer guess; a second computation must find nothing
# left. Differences on purpose:
#
# * Hive 3.1's cleaner computes with a list that has no exceptions, so the base of an aborted insert overwrite is taken
#   as valid and what it "replaces" is deleted. Here aborted ids stay exceptions for bases.
# * Nothing is removed while the newest publication, or the first sight of somebody else's directory that covers it, is
#   younger than the retention: a reader that listed the directories before that may still be reading.
# * A directory of original files is removed only where its name is that of a UNION ALL's branch. Hive calls any other
#   one obsolete, too, once there is a base; but another table or partition may lie there by mistake, and readers of
#   this one read the base instead of it in any case.
#
# The caller has to finish an unfinished publication in two steps first: with half of it visible, delete events look
# obsolete that are in the other half.

_KEPT = "covered, but it is no directory of Hive's, and another table or partition may lie there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One directory or original file to remove; `path` is relative to the location, `length` the bytes in it."""

    path: str
    is_directory: bool
    length: int
    files: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Something obsolete that has to stay for now."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """What may go now, what must wait, and what covers it.

    `first_seen` are directories that cover something obsolete and whose age is not known: the caller has to record that
    they were seen at the time given as `now`. `remove` and `blocked` both empty means that there is nothing to clean.
    `kept` is what readers do not need any more and only its owner may remove.
    """

    remove: tuple[Removal, ...]
    blocked: tuple[Blocked, ...]
    kept: tuple[Blocked, ...]
    first_seen: tuple[str, ...]
    high_water_mark: int


def cleanable(
    listing: Listing,
    high_water_mark: int,
    write_ids: ValidWriteIdList,
    *,
    generation: Generation,
    now: float,
    retention_seconds: float,
    newest_publication: float | None,
    published_at: Mapping[str, float],
    txns: ValidTxnList = ALL_COMMITTED,
    sees_empty_directories: bool | None = None,
    still_read: Mapping[str, str] | None = None,
) -> CleanPlan:
    """What a compaction that recorded `high_water_mark` and used `write_ids` leaves to be removed.

    Times are epoch seconds. `newest_publication` is that of the newest publication on this partition, by whatever
    request (None when there never was one: then nothing may go). `published_at` has the time at which each directory
    (relative path) was published by us or first seen. `still_read` has for a directory (or for everything, under the
    empty name) why what it covers may still be read. Raises what `acid_state` raises, except for bases that the list
    may not use: these make nothing obsolete. Raises RefusedError without a real mark (0 is one, when
    nothing but original files was merged): writes newer than the compaction would decide what is deleted.
    """
    if not 0 <= high_water_mark < LONG_MAX:
        raise RefusedError(f"Cannot clean {listing.location}: because the request recorded no high-water mark")
    listed = _state(listing, high_water_mark, write_ids, generation, txns, sees_empty_directories)
    foreign = _foreign(listing)
    candidates = _candidates(listed, generation, foreign)
    kept = tuple(Blocked(path=entry.path, reason=_KEPT) for entry in listed.obsolete if entry.path in foreign)
    sizes = _sizes(listing)
    remove: list[Removal] = []
    blocked: list[Blocked] = []
    unseen: dict[str, None] = {}
    for path, reason, covering in candidates:
        unseen.update((cover, None) for cover in covering if cover not in published_at)
        times = [published_at.get(cover, now) for cover in covering]
        wait = _still_read(path, covering, still_read or {}) or _wait(
            path, newest_publication, times, now, retention_seconds
        )
        if wait is None:
            length, files, is_directory = sizes.get(path, (0, 0, True))
            remove.append(Removal(path=path, is_directory=is_directory, length=length, files=files, reason=reason))
        else:
            blocked.append(wait)
    return CleanPlan(
        remove=tuple(remove),
        blocked=tuple(blocked),
        kept=kept,
        first_seen=tuple(unseen),
        high_water_mark=high_water_mark,
    )


def left_over(
    listing: Listing,
    high_water_mark: int,
    write_ids: ValidWriteIdList,
    *,
    generation: Generation,
    sees_empty_directories: bool | None = None,
) -> tuple[str, ...]:
    """What had to be removed and a listing made after the removal still has; with nothing left the request is cleaned.

    As in Hive 4's `CompactionCleaner`, every transaction counts as committed here, so that a directory whose
    transaction had not committed when the removals were computed keeps the request open.
    """
    state = _state(listing, high_water_mark, write_ids, generation, ALL_COMMITTED, sees_empty_directories)
    return tuple(path for path, _, _ in _candidates(state, generation, _foreign(listing)))


def is_reached(
    listing: Listing, high_water_mark: int, write_ids: ValidWriteIdList, marks: Iterable[int], *, generation: Generation
) -> bool:
    """Return whether cleanings up to these marks remove all that one up to `high_water_mark` would.

    A base above a mark covers nothing for a cleaning up to that mark: what it replaced stays until a cleaning goes up
    to the base.
    """
    reached = {path for mark in marks for path in left_over(listing, mark, write_ids, generation=generation)}
    return reached.issuperset(left_over(listing, high_water_mark, write_ids, generation=generation))


def _state(
    listing: Listing,
    high_water_mark: int,
    write_ids: ValidWriteIdList,
    generation: Generation,
    txns: ValidTxnList,
    sees_empty_directories: bool | None,  # noqa: FBT001 - private, and passed on as it came
) -> AcidState:
    if generation == Generation.HIVE3:
        # aborted deltas count as current, as they were inputs: they are obsolete when something covers them
        listed: ValidWriteIdList = write_ids.for_compactor().capped(high_water_mark)
    else:
        listed = write_ids.for_cleaner(high_water_mark)
    return acid_state(
        listing,
        listed,
        generation=generation,
        txns=txns,
        sees_empty_directories=sees_empty_directories,
        require_history=False,
    )


def _foreign(listing: Listing) -> frozenset[str]:
    """The directories of original files that may be another table's or partition's."""
    return frozenset(
        name
        for name in listing.top_directories()
        if not is_acid_directory_name(name) and not name.startswith(UNION_SUBDIRECTORY)
    )


def _candidates(
    state: AcidState, generation: Generation, foreign: frozenset[str]
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Path, reason and covering directories of what is obsolete or aborted."""
    obsolete = tuple(
        (entry.path, f"covered by {', '.join(entry.covered_by)}", entry.covered_by)
        for entry in state.obsolete
        if entry.path not in foreign
    )
    if generation == Generation.HIVE3:
        return obsolete
    return (*obsolete, *((path, "everything in it is aborted", ()) for path in state.aborted))


def _still_read(path: str, covering: tuple[str, ...], still_read: Mapping[str, str]) -> Blocked | None:
    reasons = [still_read[name] for name in ("", *covering) if name in still_read]
    return Blocked(path=path, reason=reasons[0]) if reasons else None


def _wait(
    path: str, newest_publication: float | None, covering: list[float], now: float, retention: float
) -> Blocked | None:
    if newest_publication is None:
        return Blocked(path=path, reason="no publication on this partition is known")
    until = max((newest_publication, *covering)) + retention
    if until <= now:
        return None
    return Blocked(path=path, reason=retention_words(retention, until))


def _sizes(listing: Listing) -> dict[str, tuple[int, int, bool]]:
    """Bytes, number of files and whether it is a directory, for everything directly under the location."""
    sizes: dict[str, tuple[int, int, bool]] = {}
    for file in listing.files:
        top, slash, _ = file.path.partition("/")
        length, files, _ = sizes.get(top, (0, 0, True))
        sizes[top] = (length + file.length, files + 1, bool(slash))
    return sizes


def aborted_present(
    listing: Listing,
    write_ids: ValidWriteIdList,
    *,
    generation: Generation,
    up_to: int = LONG_MAX,
    compacted: Collection[str] = (),
) -> tuple[int, ...]:
    """The aborted write ids, at most `up_to`, that lie within the range of a directory that may hold rows of them.

    While the metastore remembers that a write id is aborted, readers leave its rows out; once it forgets, its rows
    become valid. So what is forgotten must be gone from disk first (HIVE-24481).

    Delete deltas count: an event of an aborted write id would delete rows. So does the base of an aborted INSERT
    OVERWRITE. What a compactor wrote (a visibility suffix, or a name in `compacted`) does not: it merges only where
    nothing is open any more, and leaves the rows of aborted write ids out.
    """
    ids = write_ids.aborted_ids[: bisect_right(write_ids.aborted_ids, up_to)]
    found: set[int] = set()
    for name in listing.top_directories():
        parsed = parse_directory(name, generation)
        if parsed is None or parsed.visibility_txn or name in compacted:
            continue
        low = parsed.min_write_id if isinstance(parsed, DeltaDir) else parsed.write_id
        high = parsed.max_write_id if isinstance(parsed, DeltaDir) else parsed.write_id
        found.update(ids[bisect_left(ids, low) : bisect_right(ids, high)])
    return tuple(sorted(found))


# --- readers ----------------------------------------------------------------------------------------------------------
# Which transactions may still read what a compaction of Hive 4 made obsolete, where readers register what they read.
#
# With `metastore.txn.use.minhistorywriteid` (the default of Hive 4.2) a query notes, once it has its snapshot and its
# locks, the lowest open write id of each transactional table that it reads, all of them at once; that is gone with its
# transaction. Source: Hive 4 `DriverTxnHandler.recordValidWriteIds`, `DbTxnManager.addWriteIdsToMinHistory`,
# `AddWriteIdsToMinHistoryCommand`. A transaction has one statement: START TRANSACTION is not supported.
#
# Hive's own cleaner waits while a write id is registered that is not above the mark of the compaction
# (`ReadyToCleanHandler`). That alone is not enough, and differs here on purpose:
#
# * A query that read all that had committed registers a write id above the mark, and reads the inputs of the compaction
#   all the same if its snapshot is older than the commit. So whoever registered for the table counts, by whatever id,
#   unless its transaction is one from after the commit.
# * Between its snapshot and its registration a query is not seen, nor is a reader that never registers. So a
#   transaction that registered nothing counts for every table.
# * `CQ_NEXT_TXN_ID` is the highest transaction that was seen when the compaction committed. Hive 4.2 takes no lock for
#   that any more (`CommitTxnFunction`): a transaction with a higher id may have been opened, and may have taken its
#   snapshot, before the commit ended. So one counts as from after it only if it was opened `COMMIT_MS` later, too, by
#   the clock of the database, which gives both times.

COMMIT_MS = 3_600_000
"""Longer than the commit of a compaction takes in the metastore's database: from the look at the highest transaction
until others see it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReader:
    """An open transaction: when it was opened (epoch milliseconds of the database; None if that is not known) and the
    lowest open write id that it registered of each table (names in lower case).
    """

    txn_id: int
    started_ms: int | None = None
    tables: Mapping[TableRef, int] = field(default_factory=dict)

    def may_read(self, table: TableRef) -> bool:
        """Whether it reads this table, or nobody knows yet what it reads."""
        return not self.tables or table in self.tables

    def is_from_after(self, next_txn_id: int, commit_ms: int) -> bool:
        """Whether its snapshot is certainly newer than this commit."""
        return self.txn_id > next_txn_id and self.started_ms is not None and self.started_ms > commit_ms + COMMIT_MS


def readers_of(table: TableRef, opened: Iterable[OpenReader]) -> tuple[OpenReader, ...]:
    """Those that may read a table, lowest id first."""
    return tuple(sorted((one for one in opened if one.may_read(table)), key=lambda one: one.txn_id))


def still_reading(
    table: TableRef, readers: Sequence[OpenReader], *, mark: int, next_txn_id: int, commit_ms: int
) -> str | None:
    """What has to end before a compaction's inputs may go, in words; None without it. `readers`: see `readers_of`."""
    for reader in readers:
        lowest = reader.tables.get(table)
        if reader.is_from_after(next_txn_id, commit_ms) and (lowest is None or mark < lowest):
            continue
        what = "registered nothing that it reads" if lowest is None else f"reads the table from write id {lowest}"
        if reader.txn_id <= next_txn_id:
            return f"transaction {reader.txn_id} is open since before its commit and {what}"
        return f"transaction {reader.txn_id} may be older than its commit and {what}"
    return None
