"""What a cleaner may remove: after a compaction, which readers may still need it, and after rolled back transactions.

After a compaction. Source: Hive `Cleaner` and `CompactionCleaner`: obsolete is what is obsolete for the high-water mark
that the compaction recorded, by the write-id list it used, never for a newer guess; a second computation must find
nothing left. Differences on purpose:

* Hive 3.1's cleaner computes with a list that has no exceptions, so the base of an aborted insert overwrite is taken
  as valid and what it "replaces" is deleted. Here aborted ids stay exceptions for bases.
* Nothing is removed while the newest publication, or the first sight of somebody else's directory that covers it, is
  younger than the retention: a reader that listed the directories before that may still be reading.
* A directory of original files is removed only where its name is that of a UNION ALL's branch. Hive calls any other
  one obsolete, too, once there is a base; but another table or partition may lie there by mistake, and readers of
  this one read the base instead of it in any case.

The caller has to finish an unfinished publication in two steps first: with half of it visible, delete events look
obsolete that are in the other half.

Readers of Hive 4, where they register what they read. With `metastore.txn.use.minhistorywriteid` (the default of Hive
4.2) a query notes, once it has its snapshot and its locks, the lowest open write id of each transactional table that it
reads, all of them at once; that is gone with its transaction. Source: Hive 4 `DriverTxnHandler.recordValidWriteIds`,
`DbTxnManager.addWriteIdsToMinHistory`, `AddWriteIdsToMinHistoryCommand`. A transaction has one statement: START
TRANSACTION is not supported. Hive's own cleaner waits while a write id is registered that is not above the mark of the
compaction (`ReadyToCleanHandler`). That alone is not enough, and differs here on purpose:

* A query that read all that had committed registers a write id above the mark, and reads the inputs of the compaction
  all the same if its snapshot is older than the commit. So whatever registered for the table counts, by whatever id,
  unless its transaction is one from after the commit.
* Between its snapshot and its registration a query is not seen, nor is a reader that never registers. So a
  transaction that registered nothing counts for every table.
* `CQ_NEXT_TXN_ID` is the highest transaction that was seen when the compaction committed. Hive 4.2 takes no lock for
  that any more (`CommitTxnFunction`): a transaction with a higher id may have been opened, and may have taken its
  snapshot, before the commit ended. So one counts as from after it only if it was opened `COMMIT_MS` later, too, by
  the clock of the database, which gives both times.

After transactions that were rolled back, where no compaction comes. A metastore notes of a transaction where it writes
(TXN_COMPONENTS), and remembers that it was rolled back as long as one such note is left: until then readers leave its
rows out. So a note may go once no directory is left that may hold rows of it, and no sooner (HIVE-24481). Source: Hive
4 `ReadyToCleanAbortHandler` (which places are due), `AbortedTxnCleaner`, `TaskHandler` and `MarkCleanedFunction`.
Differences on purpose:

* Directories of nothing but rolled back rows go. Hive's cleaner removes there what is obsolete, too, though queries may
  still read it: here that is left to the request of its compaction.
* Hive's forgets all notes up to a write id, or those of the directories that it removed; here each note goes by itself,
  once it is shown that nothing of its transaction lies there. So it is of no account what else cleans, and a result of
  a compaction that fails meanwhile is not forgotten before it is gone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from acidlib.errors import RefusedError
from acidlib.model.listing import Listing, has_hidden_part
from acidlib.model.names import LONG_MAX, DeltaDir, Generation, is_acid_directory_name, parse_directory
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import UNION_SUBDIRECTORY
from acidlib.planning.state import acid_state
from acidlib.wording import age_words, retention_words

_KEPT = "covered, but it is no directory of Hive's, and another table or partition may lie there"
COMMIT_MS = 3_600_000
"""Longer than the commit of a compaction takes in the metastore's database: from the look at the highest transaction
until others see it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """What may go now, and what is obsolete and stays: each path, relative to the location, with the reason.

    blocked     stays for now; where nothing is removed or blocked, there is nothing to clean
    kept        is not needed by readers any more, and only its owner may remove it
    first_seen  directories that cover something obsolete and whose age is not known: the caller has to record that
                they were seen at the time given as `now`
    """

    remove: Mapping[str, str]
    blocked: Mapping[str, str]
    kept: Mapping[str, str]
    first_seen: tuple[str, ...]


def plan_cleaning(
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
    still_read: Mapping[str, str] | None = None,
) -> CleanPlan:
    """Return what a compaction that recorded `high_water_mark` and used `write_ids` leaves to be removed.

    Times are epoch seconds. `newest_publication` is that of the newest publication on this partition, by whatever
    request (None when there never was one: then nothing may go). `published_at` has the time at which each directory
    (relative path) was published by us or first seen. `still_read` has for a directory (or for everything, under the
    empty name) why what it covers may still be read. Raises what `acid_state` raises, except for bases that the list
    may not use: these make nothing obsolete. Raises RefusedError without a real mark (0 is one, when
    nothing but original files was merged): writes newer than the compaction would decide what is deleted.
    """
    if not 0 <= high_water_mark < LONG_MAX:
        raise RefusedError(f"Cannot clean {listing.location}: the request recorded no high-water mark")
    obsolete, kept = _obsolete(listing, high_water_mark, write_ids, generation, txns)
    remove: dict[str, str] = {}
    blocked: dict[str, str] = {}
    unseen: dict[str, None] = {}
    for path, (reason, covering) in obsolete.items():
        unseen.update((cover, None) for cover in covering if cover not in published_at)
        why_read = next((still_read[name] for name in ("", *covering) if still_read and name in still_read), None)
        if why_read is not None:
            blocked[path] = why_read
        elif newest_publication is None:
            blocked[path] = "no publication on this partition is known"
        else:
            seen = (published_at.get(cover, now) for cover in covering)
            until = max((newest_publication, *seen)) + retention_seconds
            if until > now:
                blocked[path] = retention_words(retention_seconds, until)
            else:
                remove[path] = reason
    return CleanPlan(remove=remove, blocked=blocked, kept=dict.fromkeys(kept, _KEPT), first_seen=tuple(unseen))


def remaining_obsolete(
    listing: Listing, high_water_mark: int, write_ids: ValidWriteIdList, *, generation: Generation
) -> tuple[str, ...]:
    """Return what had to be removed and a later listing still has; with nothing left the request is cleaned.

    As in Hive 4's `CompactionCleaner`, every transaction counts as committed here, so that a directory whose
    transaction had not committed when the removals were computed keeps the request open.
    """
    obsolete, _ = _obsolete(listing, high_water_mark, write_ids, generation, ALL_COMMITTED)
    return tuple(obsolete)


def marks_cover_cleaning(
    listing: Listing, high_water_mark: int, write_ids: ValidWriteIdList, marks: Iterable[int], *, generation: Generation
) -> bool:
    """Return whether cleanings up to these marks remove all that one up to `high_water_mark` would.

    A base above a mark covers nothing for a cleaning up to that mark: what it replaced stays until a cleaning goes up
    to the base.
    """
    reached = {path for mark in marks for path in remaining_obsolete(listing, mark, write_ids, generation=generation)}
    return reached.issuperset(remaining_obsolete(listing, high_water_mark, write_ids, generation=generation))


def _obsolete(
    listing: Listing,
    high_water_mark: int,
    write_ids: ValidWriteIdList,
    generation: Generation,
    txns: ValidTxnList,
) -> tuple[dict[str, tuple[str, tuple[str, ...]]], list[str]]:
    """Return what is obsolete up to a mark, each path with the reason and what covers it; and what its owner removes.

    That is covered, too: directories of original files that may be another table's or partition's.
    """
    if generation == Generation.HIVE3:
        # aborted deltas count as current, as they were inputs: they are obsolete when something covers them
        listed: ValidWriteIdList = write_ids.for_compactor().capped(high_water_mark)
    else:
        listed = write_ids.for_cleaner(high_water_mark)
    state = acid_state(listing, listed, generation=generation, txns=txns, require_history=False)
    directories = frozenset(listing.top_directories())
    obsolete: dict[str, tuple[str, tuple[str, ...]]] = {}
    kept = []
    for path, covering in state.obsolete.items():
        if path in directories and not (is_acid_directory_name(path) or path.startswith(UNION_SUBDIRECTORY)):
            kept.append(path)
        else:
            obsolete[path] = f"covered by {', '.join(covering)}", covering
    if generation != Generation.HIVE3:
        obsolete.update((path, ("everything in it is aborted", ())) for path in state.aborted)
    return obsolete, kept


def _acid_directories(names: Iterable[str], generation: Generation) -> Iterator[tuple[str, int, int, int]]:
    """Yield the names of bases and deltas, each with its visibility transaction or 0, first and last write id."""
    for name in names:
        parsed = parse_directory(name, generation)
        if isinstance(parsed, DeltaDir):
            yield name, parsed.visibility_txn, parsed.min_write_id, parsed.max_write_id
        elif parsed is not None:
            yield name, parsed.visibility_txn, parsed.write_id, parsed.write_id


def aborted_present(
    listing: Listing,
    write_ids: ValidWriteIdList,
    *,
    generation: Generation,
    up_to: int = LONG_MAX,
    compacted: Collection[str] = (),
) -> tuple[int, ...]:
    """Return the aborted write ids, at most `up_to`, within the range of a directory that may hold rows of them.

    While the metastore remembers that a write id is aborted, readers leave its rows out; once it forgets, its rows
    become valid. So what is forgotten must be gone from disk first (HIVE-24481).

    Delete deltas count: an event of an aborted write id would delete rows. So does the base of an aborted INSERT
    OVERWRITE. What a compactor wrote (a visibility suffix, or a name in `compacted`) does not: it merges only where
    nothing is open any more, and leaves the rows of aborted write ids out.
    """
    ids = write_ids.aborted_ids[: bisect_right(write_ids.aborted_ids, up_to)]
    found: set[int] = set()
    for name, txn, low, high in _acid_directories(listing.top_directories(), generation):
        if not txn and name not in compacted:
            found.update(ids[bisect_left(ids, low) : bisect_right(ids, high)])
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReader:
    """An open transaction: when it was opened (epoch milliseconds of the database; None if that is not known) and the
    lowest open write id that it registered of each table (names in lower case).
    """

    txn_id: int
    started_ms: int | None = None
    tables: Mapping[TableRef, int] = field(default_factory=dict)


def readers_of(table: TableRef, opened: Iterable[OpenReader]) -> tuple[OpenReader, ...]:
    """Return those that read a table, or of which it is not known yet what they read, lowest id first."""
    found = (one for one in opened if not one.tables or table in one.tables)
    return tuple(sorted(found, key=lambda one: one.txn_id))


def still_reading_reason(
    table: TableRef, readers: Sequence[OpenReader], *, mark: int, next_txn_id: int, commit_ms: int
) -> str | None:
    """Return what has to end before a compaction's inputs may go, in words; None without it."""
    for reader in readers:
        lowest, started = reader.tables.get(table), reader.started_ms
        is_newer = reader.txn_id > next_txn_id and started is not None and started > commit_ms + COMMIT_MS
        if is_newer and (lowest is None or mark < lowest):
            continue
        what = "registered nothing that it reads" if lowest is None else f"reads the table from write id {lowest}"
        if reader.txn_id <= next_txn_id:
            return f"transaction {reader.txn_id} is open since before its commit and {what}"
        return f"transaction {reader.txn_id} may be older than its commit and {what}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedWrite:
    """What a metastore notes of a transaction that writes at a place, while it is open and after it was rolled back.

    ref        without a partition, too, of a write to partitions that are known only at its end
    write_id   None where the transaction has none of the table, as that of a rebalance
    compacts   it is a compaction, whose results have the transaction in their names
    """

    txn_id: int
    ref: TableRef
    write_id: int | None
    compacts: bool
    is_open: bool
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCleaning:
    """A place to be cleaned after transactions that were rolled back.

    below   transactions from this one on are left alone, for it is open and writes there; None without one
    """

    ref: TableRef
    reason: str
    below: int | None

    def concerns(self, note: NotedWrite) -> bool:
        """Return whether the cleaning is about this note."""
        return note.ref == self.ref and not note.is_open and (self.below is None or note.txn_id < self.below)


def due_cleanings(notes: Iterable[NotedWrite], *, most: int, longest_ms: int, now_ms: int) -> tuple[DueCleaning, ...]:
    """Return the places with more than `most` notes of rolled back transactions, or with one begun too long ago.

    A negative `longest_ms` has the number alone count. Where all such transactions came after one that is still open
    and writes there, nothing is due.
    """
    places: dict[TableRef, list[NotedWrite]] = {}
    for note in notes:
        places.setdefault(note.ref, []).append(note)
    due = []
    for ref, found in sorted(places.items(), key=lambda one: (one[0].whole_table, one[0].partition or "")):
        rolled_back = [note for note in found if not note.is_open]
        below = min((note.txn_id for note in found if note.is_open), default=None)
        if not rolled_back or (below is not None and below <= min(note.txn_id for note in rolled_back)):
            continue
        age_ms = now_ms - min(note.started_ms for note in rolled_back)
        if len(rolled_back) > most:
            reason = f"{len(rolled_back)} rolled back transactions are more than {most}"
        elif 0 <= longest_ms < age_ms:
            since, limit = age_words(age_ms / 1000), age_words(longest_ms / 1000)
            reason = f"a rolled back transaction was begun {since} ago, more than {limit}"
        else:
            continue
        due.append(DueCleaning(ref=ref, reason=reason, below=below))
    return tuple(due)


def rolled_back_directories(listing: Listing, txns: Collection[int], write_ids: Sequence[int]) -> dict[str, str]:
    """Return the directories right under a location that hold nothing but rolled back rows, each with why.

    txns       transactions that were rolled back, of which results of compactions may be there
    write_ids  all of the table that were rolled back, in order
    """
    found = {}
    for name, txn, low, high in _acid_directories(listing.top_directories(), Generation.HIVE4):
        if txn:
            if txn in txns:
                found[name] = f"its transaction {txn} was rolled back"
        elif name not in listing.compacted_bases and (
            bisect_right(write_ids, high) - bisect_left(write_ids, low) == high - low + 1
        ):
            found[name] = "all that was written to it was rolled back"
    return found


def notes_to_keep(
    names: Iterable[str], notes: Iterable[NotedWrite], compacted: Collection[str] = ()
) -> dict[NotedWrite, str]:
    """Return the notes that must stay, each with a directory right under a location that may hold rows of it.

    What a compaction wrote, in a transaction that has committed, holds none: it leaves rolled back rows out. So do the
    `compacted` bases, which tell it by a file in them.
    """
    listed = list(notes)
    # a compaction's write id is the mark up to which it went
    written = sorted(
        ((note.write_id, note) for note in listed if note.write_id is not None and not note.compacts),
        key=lambda one: one[0],
    )
    ids = [write_id for write_id, _ in written]
    by_txn: dict[int, str] = {}
    held: dict[NotedWrite, str] = {}
    for name, txn, low, high in _acid_directories(names, Generation.HIVE4):
        if txn:
            by_txn.setdefault(txn, name)
        elif name not in compacted:
            for _, note in written[bisect_left(ids, low) : bisect_right(ids, high)]:
                held.setdefault(note, name)
    held.update((note, by_txn[note.txn_id]) for note in listed if note.txn_id in by_txn)
    return held


def places_below(listing: Listing) -> Mapping[str, frozenset[str]]:
    """Return where ACID directories lie below a table's location: the names of those at each path relative to it.

    So also partitions are found that an insert made and that the metastore never heard of.
    """
    found: dict[str, set[str]] = {}
    paths = {*listing.directories, *(file.directory for file in listing.files)}
    for path in paths:
        parts = path.split("/")
        at = next((number for number, part in enumerate(parts) if is_acid_directory_name(part)), None)
        if at is not None and not has_hidden_part("/".join(parts[:at])):
            found.setdefault("/".join(parts[:at]), set()).add(parts[at])
    return {path: frozenset(names) for path, names in found.items()}
