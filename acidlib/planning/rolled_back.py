"""What transactions that were rolled back leave where no compaction comes: which places are due, what may go there, and
what the metastore may forget.

A metastore notes of a transaction where it writes (TXN_COMPONENTS), and remembers that it was rolled back as long as
one such note is left: until then readers leave its rows out. So a note may go once no directory is left that may hold
rows of it, and no sooner (HIVE-24481).

Source: Hive 4 `ReadyToCleanAbortHandler` (which places are due), `AbortedTxnCleaner`, `TaskHandler` and
`MarkCleanedFunction`. Differences on purpose:

* Directories of nothing but rolled back rows go. Hive's cleaner removes there what is obsolete, too, though queries may
  still read it: here that is left to the request of its compaction.
* Hive's forgets all notes up to a write id, or those of the directories that it removed; here each note goes by itself,
  once it is shown that nothing of its transaction lies there. So it is of no account who else cleans, and a result of a
  compaction that fails meanwhile is not forgotten before it is gone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from acidlib.model.listing import Listing, has_hidden_part
from acidlib.model.names import BaseDir, DeltaDir, Generation, is_acid_directory_name, parse_directory
from acidlib.model.tables import TableRef
from acidlib.wording import age_words


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


@dataclass(slots=True)
class _Counted:
    """What is noted of one place so far."""

    notes: int = 0
    oldest_ms: int | None = None
    lowest_open: int | None = None
    rolled_back: list[int] = field(default_factory=list)


def due_cleanings(notes: Iterable[NotedWrite], *, most: int, longest_ms: int, now_ms: int) -> tuple[DueCleaning, ...]:
    """Return the places with more than `most` notes of rolled back transactions, or with one begun too long ago.

    A negative `longest_ms` has the number alone count. Where all such transactions came after one that is still open
    and writes there, nothing is due.
    """
    places: dict[TableRef, _Counted] = {}
    for note in notes:
        found = places.setdefault(note.ref, _Counted())
        if note.is_open:
            found.lowest_open = min(note.txn_id, found.lowest_open or note.txn_id)
        else:
            found.notes += 1
            found.oldest_ms = min(note.started_ms, note.started_ms if found.oldest_ms is None else found.oldest_ms)
            found.rolled_back.append(note.txn_id)
    due = []
    for ref, found in sorted(places.items(), key=lambda one: (one[0].whole_table, one[0].partition or "")):
        reason = _due(found, most, longest_ms, now_ms)
        if reason and (found.lowest_open is None or min(found.rolled_back) < found.lowest_open):
            due.append(DueCleaning(ref=ref, reason=reason, below=found.lowest_open))
    return tuple(due)


def _due(found: _Counted, most: int, longest_ms: int, now_ms: int) -> str | None:
    if found.notes > most:
        return f"{found.notes} rolled back transactions are more than {most}"
    if found.oldest_ms is not None and 0 <= longest_ms < now_ms - found.oldest_ms:
        since, limit = age_words((now_ms - found.oldest_ms) / 1000), age_words(longest_ms / 1000)
        return f"a rolled back transaction was begun {since} ago, more than {limit}"
    return None


def rolled_back_directories(listing: Listing, txns: Collection[int], write_ids: Sequence[int]) -> dict[str, str]:
    """Return the directories right under a location that hold nothing but rolled back rows, each with why.

    txns       transactions that were rolled back, of which results of compactions may be there
    write_ids  all of the table that were rolled back, in order
    """
    found = {}
    for name, parsed in _acid_directories(listing.top_directories()):
        if parsed.visibility_txn:
            if parsed.visibility_txn in txns:
                found[name] = f"its transaction {parsed.visibility_txn} was rolled back"
        elif name not in listing.compacted_bases:
            low, high = _range(parsed)
            if bisect_right(write_ids, high) - bisect_left(write_ids, low) == high - low + 1:
                found[name] = "all that was written to it was rolled back"
    return found


def held_notes(
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
    for name, parsed in _acid_directories(names):
        if parsed.visibility_txn:
            by_txn.setdefault(parsed.visibility_txn, name)
        elif name not in compacted:
            low, high = _range(parsed)
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


def _acid_directories(names: Iterable[str]) -> Iterable[tuple[str, BaseDir | DeltaDir]]:
    for name in names:
        parsed = parse_directory(name, Generation.HIVE4)
        if parsed is not None:
            yield name, parsed


def _range(parsed: BaseDir | DeltaDir) -> tuple[int, int]:
    if isinstance(parsed, DeltaDir):
        return parsed.min_write_id, parsed.max_write_id
    return parsed.write_id, parsed.write_id
