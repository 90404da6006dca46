"""The paths that a cleaner may remove: after a compaction, while readers may still need them, and after rolled back
transactions.

After a compaction. Source: Hive `Cleaner` and `CompactionCleaner`: a path is obsolete for the high-water mark that the
compaction recorded, by the write-id list it used, never for a newer one; a second computation must find nothing left.
Differences on purpose:

* Hive 3.1's cleaner computes with a list that has no exceptions, so it takes the base of an aborted insert overwrite
  for valid and deletes the directories that this base "replaces". Here aborted ids stay exceptions for bases.
* Nothing is removed while the newest publication, or the first sight of another compactor's directory that covers it,
  is younger than the retention: a reader that listed the directories before that may still be reading.
* A directory of original files is removed only where its name is that of a UNION ALL's branch. Hive calls any other
  one obsolete, too, once there is a base; but it may be another table or partition that is there by mistake, and
  readers of this one read the base instead of it in any case.

The caller has to finish an unfinished publication in two steps first: while half of it is visible, delete events of the
other half look obsolete.

Readers of Hive 4 that register. With `metastore.txn.use.minhistorywriteid` (the default of Hive 4.2) a query registers,
once it has its snapshot and its locks, the lowest open write id of each transactional table that it reads, all of them
at once; the registration ends with its transaction. Source: Hive 4 `DriverTxnHandler.recordValidWriteIds`,
`DbTxnManager.addWriteIdsToMinHistory`, `AddWriteIdsToMinHistoryCommand`. A transaction has one statement: START
TRANSACTION is not supported. Hive's own cleaner waits while a write id is registered that is not above the mark of the
compaction (`ReadyToCleanHandler`). That alone is not enough, and differs here on purpose:

* A query that reads everything committed registers a write id above the mark, and reads the inputs of the compaction
  all the same if its snapshot is older than the commit. So every registration for the table counts, whatever its write
  id, unless its transaction was opened after the commit.
* Between its snapshot and its registration a query is not seen, nor is a reader that never registers. So a
  transaction that registered nothing counts for every table.
* `CQ_NEXT_TXN_ID` is the highest transaction that was seen when the compaction committed. Hive 4.2 takes no lock for
  that any more (`CommitTxnFunction`): a transaction with a higher id may have been opened, and may have taken its
  snapshot, before the commit ended. So a transaction counts as opened after the commit only if that was `COMMIT_MS`
  later, too, by the clock of the database, which gives both times.

After transactions that were rolled back, where no compaction comes. A metastore notes where a transaction writes
(TXN_COMPONENTS), and remembers that it was rolled back as long as one such note is left: until then readers leave its
rows out. So a note may go once no directory is left that may hold rows of it, and no sooner (HIVE-24481). Source: Hive
4 `ReadyToCleanAbortHandler` (which places are due), `AbortedTxnCleaner`, `TaskHandler` and `MarkCleanedFunction`.
Differences on purpose:

* Only directories of nothing but rolled back rows are removed. Hive's cleaner removes obsolete directories, too, though
  queries may still read them: here they are left to the request of their compaction.
* Hive's cleaner forgets all notes up to a write id, or those of the directories that it removed; here each note is
  forgotten by itself, once it is shown that no directory holds rows of its transaction. So other cleaners at work do no
  harm, and a result of a compaction that fails meanwhile is not forgotten before it is gone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from acidlib.acid.listing import Listing, has_hidden_part
from acidlib.acid.names import (
    ANY_NAMES,
    LONG_MAX,
    DeltaDir,
    Generation,
    Names,
    is_acid_directory_name,
    parse_directory,
)
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.errors import RefusedError
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import UNION_SUBDIRECTORY
from acidlib.wording import age_words, plural, retention_words

_KEPT = "covered, but it is no directory of Hive's, and another table or partition may lie there"
COMMIT_MS = 3_600_000
"""A time longer than the commit of a compaction takes in the metastore's database, from reading the highest transaction
until others see the commit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """The obsolete paths to remove and to keep, relative to the location, each with the reason.

    blocked     stay for now; if there is nothing to remove and nothing blocked, the place is clean
    kept        are not needed by readers any more, but only their owner may remove them
    first_seen  directories that cover something obsolete and were not seen before: the caller has to record that they
                were seen now
    """

    remove: Mapping[str, str]
    blocked: Mapping[str, str]
    kept: Mapping[str, str]
    first_seen: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeRule:
    """A retention, for which covered paths stay where nothing but time proves that no query reads them any more.

    It counts from the newest publication at the place, or from the first sight of what covers a path if that is later.

    now, retention_seconds  epoch seconds, and seconds
    newest_publication      epoch seconds of the newest publication at the place, by any request; None when there never
                            was one: then nothing may be removed
    published_at            epoch seconds at which each directory (relative path) was published by us or first seen;
                            one without a time is seen now
    """

    now: float
    retention_seconds: float
    newest_publication: float | None
    published_at: Mapping[str, float]

    def wait_reason(self, covering: Iterable[str]) -> str | None:
        """Return why a path that these directories cover has to stay; None if it may go."""
        if self.newest_publication is None:
            return "no publication on this partition is known"
        seen = (self.published_at.get(cover, self.now) for cover in covering)
        until = max((self.newest_publication, *seen)) + self.retention_seconds
        return retention_words(self.retention_seconds, until) if until > self.now else None


def plan_cleaning(
    listing: Listing,
    high_water_mark: int,
    write_ids: ValidWriteIdList,
    *,
    names: Names,
    age: AgeRule | None,
    seen: Collection[str] = (),
    txns: ValidTxnList = ALL_COMMITTED,
    still_read: Mapping[str, str] | None = None,
) -> CleanPlan:
    """Return what may be removed after a compaction that recorded `high_water_mark` and used `write_ids`.

    age         for which what is covered stays; None where age proves nothing, and `still_read` has all that keeps it
    seen        directories (relative paths) of which it is recorded when they were published by us or first seen
    still_read  why the paths that a directory covers (of the empty name: all paths) may still be read

    Raises what `acid_state` raises, except for bases that the list may not use: these make nothing obsolete. Raises
    RefusedError without a real mark (0 is one, when nothing but original files was merged): writes newer than the
    compaction would decide what is deleted.
    """
    if not 0 <= high_water_mark < LONG_MAX:
        raise RefusedError(f"Cannot clean {listing.location}: the request recorded no high-water mark")
    obsolete, kept = _obsolete(listing, high_water_mark, write_ids, names, txns)
    remove: dict[str, str] = {}
    blocked: dict[str, str] = {}
    unseen: dict[str, None] = {}
    for path, (reason, covering) in obsolete.items():
        unseen.update((cover, None) for cover in covering if cover not in seen)
        why_read = next((still_read[name] for name in ("", *covering) if still_read and name in still_read), None)
        if why_read is None and age is not None:
            why_read = age.wait_reason(covering)
        if why_read is None:
            remove[path] = reason
        else:
            blocked[path] = why_read
    return CleanPlan(remove=remove, blocked=blocked, kept=dict.fromkeys(kept, _KEPT), first_seen=tuple(unseen))


def remaining_obsolete(
    listing: Listing, high_water_mark: int, write_ids: ValidWriteIdList, *, names: Names
) -> tuple[str, ...]:
    """Return the paths that had to be removed and that a later listing still has; without any the request is cleaned.

    As in Hive 4's `CompactionCleaner`, every transaction counts as committed here, so that a directory whose
    transaction had not committed when the removals were computed keeps the request open.
    """
    obsolete, _ = _obsolete(listing, high_water_mark, write_ids, names, ALL_COMMITTED)
    return tuple(obsolete)


def marks_cover_cleaning(
    listing: Listing, high_water_mark: int, write_ids: ValidWriteIdList, marks: Iterable[int], *, names: Names
) -> bool:
    """Return whether cleanings up to these marks remove everything that one up to `high_water_mark` would.

    A base above a mark covers nothing for a cleaning up to that mark: the directories that it replaced stay until a
    cleaning reaches the base.
    """
    reached = {path for mark in marks for path in remaining_obsolete(listing, mark, write_ids, names=names)}
    return reached.issuperset(remaining_obsolete(listing, high_water_mark, write_ids, names=names))


def _obsolete(
    listing: Listing,
    high_water_mark: int,
    write_ids: ValidWriteIdList,
    names: Names,
    txns: ValidTxnList,
) -> tuple[dict[str, tuple[str, tuple[str, ...]]], list[str]]:
    """Return the obsolete paths up to a mark, each with the reason and the paths that cover it, and the paths to keep.

    To keep are covered directories of original files that may be another table's or partition's.
    """
    if names == Generation.HIVE3:
        # aborted deltas count as current, for they were inputs: they are obsolete once something covers them
        listed: ValidWriteIdList = write_ids.for_compactor().capped(high_water_mark)
    else:
        listed = write_ids.for_cleaner(high_water_mark)
    state = acid_state(listing, listed, names=names, txns=txns, require_history=False)
    directories = frozenset(listing.top_directories())
    obsolete: dict[str, tuple[str, tuple[str, ...]]] = {}
    kept = []
    for path, covering in state.obsolete.items():
        if path in directories and not (is_acid_directory_name(path) or path.startswith(UNION_SUBDIRECTORY)):
            kept.append(path)
        else:
            obsolete[path] = f"covered by {', '.join(covering)}", covering
    if names != Generation.HIVE3:
        obsolete.update((path, ("everything in it is aborted", ())) for path in state.aborted)
    return obsolete, kept


def _acid_directories(paths: Iterable[str], names: Names) -> Iterator[tuple[str, int, int, int]]:
    """Yield the names of bases and deltas, each with its visibility transaction or 0, first and last write id."""
    for name in paths:
        parsed = parse_directory(name, names)
        if isinstance(parsed, DeltaDir):
            yield name, parsed.visibility_txn, parsed.min_write_id, parsed.max_write_id
        elif parsed is not None:
            yield name, parsed.visibility_txn, parsed.write_id, parsed.write_id


def aborted_present(
    listing: Listing,
    write_ids: ValidWriteIdList,
    *,
    names: Names,
    up_to: int = LONG_MAX,
    compacted: Collection[str] = (),
) -> tuple[int, ...]:
    """Return the aborted write ids, at most `up_to`, within the range of a directory that may hold rows of them.

    While the metastore remembers that a write id is aborted, readers leave its rows out; once it forgets, its rows
    become valid. So they must be gone from disk first (HIVE-24481).

    Delete deltas count: an event of an aborted write id would delete rows. So does the base of an aborted INSERT
    OVERWRITE. Results of compactors (with a visibility suffix, or a name in `compacted`) do not: a compactor merges
    only where nothing is open any more, and leaves the rows of aborted write ids out.
    """
    ids = write_ids.aborted_ids[: bisect_right(write_ids.aborted_ids, up_to)]
    present: set[int] = set()
    for name, txn, low, high in _acid_directories(listing.top_directories(), names):
        if not txn and name not in compacted:
            present.update(ids[bisect_left(ids, low) : bisect_right(ids, high)])
    return tuple(sorted(present))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReader:
    """An open transaction that may read.

    started_ms  when it was opened, by the clock of the database; None if unknown
    tables      the lowest open write id that it registered of each table (names in lower case)
    """

    txn_id: int
    started_ms: int | None = None
    tables: Mapping[TableRef, int] = field(default_factory=dict)


def readers_of(table: TableRef, opened: Iterable[OpenReader]) -> tuple[OpenReader, ...]:
    """Return the readers that registered a table, or have registered nothing yet, lowest id first."""
    readers = (reader for reader in opened if not reader.tables or table in reader.tables)
    return tuple(sorted(readers, key=lambda reader: reader.txn_id))


def still_reading_reason(
    table: TableRef, readers: Sequence[OpenReader], *, mark: int, next_txn_id: int, commit_ms: int
) -> str | None:
    """Return which transaction has to end before a compaction's inputs may be removed; None without one."""
    for reader in readers:
        lowest, started = reader.tables.get(table), reader.started_ms
        is_newer = reader.txn_id > next_txn_id and started is not None and started > commit_ms + COMMIT_MS
        if is_newer and (lowest is None or mark < lowest):
            continue
        reads = "registered nothing that it reads" if lowest is None else f"reads the table from write id {lowest}"
        if reader.txn_id <= next_txn_id:
            return f"transaction {reader.txn_id} is open since before its commit and {reads}"
        return f"transaction {reader.txn_id} may be older than its commit and {reads}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedWrite:
    """A metastore's note of a transaction that writes at a place, kept while it is open and after it was rolled back.

    ref        has no partition for a write to partitions that are known only at its end
    write_id   None where the transaction has none of the table, as that of a rebalance
    compacts   the transaction is a compaction's, whose results have it in their names
    """

    txn_id: int
    ref: TableRef
    write_id: int | None
    compacts: bool
    is_open: bool
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCleaning:
    """A place that is due for cleaning after transactions that were rolled back.

    below   the lowest open transaction that writes there: later ones are left alone; None without one
    """

    ref: TableRef
    reason: str
    below: int | None

    def concerns(self, note: NotedWrite) -> bool:
        """Return whether the note's transaction is one that this cleaning is for."""
        return note.ref == self.ref and not note.is_open and (self.below is None or note.txn_id < self.below)


def due_cleanings(notes: Iterable[NotedWrite], *, most: int, longest_ms: int, now_ms: int) -> tuple[DueCleaning, ...]:
    """Return the places with more than `most` notes of rolled back transactions, or with one begun too long ago.

    With a negative `longest_ms` only the number counts. A place is not due where all such transactions came after one
    that is still open and writes there.
    """
    places: dict[TableRef, list[NotedWrite]] = {}
    for note in notes:
        places.setdefault(note.ref, []).append(note)
    due = []
    for ref in sorted(places, key=lambda ref: (ref.whole_table, ref.partition or "")):
        rolled_back = [note for note in places[ref] if not note.is_open]
        below = min((note.txn_id for note in places[ref] if note.is_open), default=None)
        if not rolled_back or (below is not None and below <= min(note.txn_id for note in rolled_back)):
            continue
        age_ms = now_ms - min(note.started_ms for note in rolled_back)
        if len(rolled_back) > most:
            number = plural(len(rolled_back), "rolled back transaction is", "rolled back transactions are")
            reason = f"{number} more than {most}"
        elif 0 <= longest_ms < age_ms:
            since, limit = age_words(age_ms / 1000), age_words(longest_ms / 1000)
            reason = f"a rolled back transaction was begun {since} ago, more than {limit}"
        else:
            continue
        due.append(DueCleaning(ref=ref, reason=reason, below=below))
    return tuple(due)


def rolled_back_directories(listing: Listing, txns: Collection[int], write_ids: Sequence[int]) -> dict[str, str]:
    """Return the directories right under a location that hold nothing but rolled back rows, each with the reason.

    txns       rolled back transactions, some of which may be of compactions whose results are there
    write_ids  all rolled back ones of the table, in order
    """
    reasons = {}
    for name, txn, low, high in _acid_directories(listing.top_directories(), ANY_NAMES):
        if txn:
            if txn in txns:
                reasons[name] = f"its transaction {txn} was rolled back"
        elif name not in listing.compacted_bases and (
            bisect_right(write_ids, high) - bisect_left(write_ids, low) == high - low + 1
        ):
            reasons[name] = "all that was written to it was rolled back"
    return reasons


def notes_to_keep(
    names: Iterable[str], notes: Iterable[NotedWrite], compacted: Collection[str] = ()
) -> dict[NotedWrite, str]:
    """Return the notes that must stay, each with a directory right under a location that may hold rows of it.

    The result of a committed compaction holds none, as it leaves rolled back rows out, nor does a `compacted` base
    (one that a file in it marks as a result).
    """
    listed = list(notes)
    # the write id of a compaction is its high-water mark
    with_ids = [(note.write_id, note) for note in listed if note.write_id is not None and not note.compacts]
    written = sorted(with_ids, key=lambda pair: pair[0])
    ids = [write_id for write_id, _ in written]
    by_txn: dict[int, str] = {}
    held: dict[NotedWrite, str] = {}
    for name, txn, low, high in _acid_directories(names, ANY_NAMES):
        if txn:
            by_txn.setdefault(txn, name)
        elif name not in compacted:
            for _, note in written[bisect_left(ids, low) : bisect_right(ids, high)]:
                held.setdefault(note, name)
    held.update((note, by_txn[note.txn_id]) for note in listed if note.txn_id in by_txn)
    return held


def places_below(listing: Listing) -> Mapping[str, frozenset[str]]:
    """Return the names of the ACID directories below a table's location, by the path relative to it.

    This includes partitions that an insert made and that the metastore does not know.
    """
    below: dict[str, set[str]] = {}
    paths = {*listing.directories, *(file.directory for file in listing.files)}
    for path in paths:
        parts = path.split("/")
        at = next((number for number, part in enumerate(parts) if is_acid_directory_name(part)), None)
        if at is not None and not has_hidden_part("/".join(parts[:at])):
            below.setdefault("/".join(parts[:at]), set()).add(parts[at])
    return {path: frozenset(names) for path, names in below.items()}
