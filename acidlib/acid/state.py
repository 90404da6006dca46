"""The state of one place: the directories that a reader with a write-id list reads, and those that are obsolete.

Source: Hive `AcidUtils.getAcidState` with `processBaseDir`, `processDeltaDir` and `findBestWorkingDeltas`, of Hive
3.1 and of Hive 4 where they differ.

Where Hive is wrong, this differs on purpose, as the state decides what is merged and what is deleted:

* Two compacted deltas of one kind and one range that differ in the visibility suffix only are the work of two
  compactors on the same inputs. Hive up to 4.1 takes both and returns every row twice (HIVE-29210); here the one of
  the larger transaction is taken, and the other is obsolete.
* A base is valid only below the lowest open write id and up to the mark. Hive 4 also takes an uncommitted base whose
  id equals the lowest open one, and a base above the mark; Hive forgets the lowest open id when no exception is
  listed.
* Bases are judged by ascending write id, not in the order of a file system's listing: a base that is not valid is
  never called obsolete because of its position in a listing.
* ACID directories below a directory that is not one (the partitions of a table whose root was given by mistake) are
  refused: Hive would call the directory original, hence obsolete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from acidlib.acid.listing import Listing, has_hidden_part, uri_order
from acidlib.acid.names import (
    LONG_MIN,
    METADATA_ACID_FILE,
    ORC_ACID_VERSION_FILE,
    BaseDir,
    DeltaDir,
    Generation,
    Names,
    is_acid_directory_name,
    is_hidden,
    is_side_file,
    parse_directory,
)
from acidlib.acid.write_ids import ALL_COMMITTED, RangePart, ValidTxnList, ValidWriteIdList
from acidlib.errors import RefusedError

_MARKERS = frozenset({ORC_ACID_VERSION_FILE, METADATA_ACID_FILE})


class NotTaken(Enum):
    """The reason for which a directory is neither read nor obsolete nor known to be aborted."""

    INVISIBLE = "its transaction has not committed"
    NOT_VALID_BASE = "its write id, or one below it, is open or above the high-water mark"
    NO_VALID_WRITE_ID = "its write ids are rolled back, open, or above the high-water mark"
    NOTHING_LEFT = "those of its write ids that no directory before it covers are rolled back or open"
    NO_FILE = "it holds no file, and Hive 4 does not see a directory without files"


# In /warehouse/db/t/delta_0000003_0000005/bucket_00002, of the place /warehouse/db/t, the `path` of the delta is
# delta_0000003_0000005, and its `name` is that path parsed: DeltaDir(min_write_id=3, max_write_id=5, …).


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBase:
    """A base directory; `path` is relative to the location."""

    path: str
    name: BaseDir
    compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDelta:
    """A delta or delete delta directory; `path` is relative to the location.

    `wholly_aborted` (Hive 3 only, where such a directory is still an input): none of its rows was committed.
    """

    path: str
    name: DeltaDir
    wholly_aborted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidState:
    """The state of a place by one write-id list; all paths are relative to the location.

    originals  in Hive's order, on which their row ids depend
    deltas     in the order in which they were selected
    obsolete   directories and original files that no reader with this list needs, with the paths that replace each, in
               Hive's order: bases, original files and directories, deltas
    aborted    directories of nothing but aborted write ids (Hive 4) or transactions
    ignored    directories that are neither read nor obsolete, each with the reason
    """

    base: ParsedBase | None
    originals: tuple[str, ...]
    deltas: tuple[ParsedDelta, ...]
    obsolete: Mapping[str, tuple[str, ...]]
    aborted: tuple[str, ...]
    ignored: Mapping[str, NotTaken]
    high_water_mark: int


def acid_state(
    listing: Listing,
    write_ids: ValidWriteIdList,
    *,
    names: Names,
    txns: ValidTxnList = ALL_COMMITTED,
    ignore_empty_files: bool = False,
    sees_empty_directories: bool | None = None,
    require_history: bool = True,
) -> AcidState:
    """Return the state of the listed location for one write-id list, and for Hive 4 one transaction list.

    txns                    must have our own running transaction as open (`ValidTxnList.without`)
    ignore_empty_files      original files of zero bytes are left out
    sees_empty_directories  a directory without any file exists for the table's readers: always for Hive 3.1 and on
                            HDFS, not for Hive 4 elsewhere (the default). An empty base must hide rows from all of them
                            or from none
    require_history         raise RefusedError when bases exist and the list may use none of them (Hive's
                            ACID_NOT_ENOUGH_HISTORY)

    Raises RefusedError when the location holds partitions, and, with CorruptError, as `parse_directory` does.
    """
    walk = _Walk(listing, write_ids, names, txns)
    if sees_empty_directories is None:
        sees_empty_directories = names == Generation.HIVE3
    walk.sort_directories(sees_empty=sees_empty_directories)
    walk.choose_base(require_history=require_history)
    taken, obsolete_deltas = walk.select_deltas()
    base = walk.base
    others = set(walk.original_directories)
    visible = [
        file
        for file in listing.files
        if not has_hidden_part(file.path) and ("/" not in file.path or file.path.partition("/")[0] in others)
    ]
    if base is None:
        originals = sorted((f.path for f in visible if f.length > 0 or not ignore_empty_files), key=uri_order)
        obsolete: dict[str, tuple[str, ...]] = dict.fromkeys(walk.obsolete_bases, ())
    else:
        originals = []
        replaced = sorted((file.path for file in visible if "/" not in file.path), key=uri_order)
        obsolete = dict.fromkeys((*walk.obsolete_bases, *replaced, *walk.original_directories), (base.path,))
    for delta in obsolete_deltas:
        low, high = delta.name.min_write_id, delta.name.max_write_id
        if base is not None and high <= base.name.write_id:
            obsolete[delta.path] = (base.path,)
        else:
            obsolete[delta.path] = tuple(
                wider.path for wider in taken if wider.name.min_write_id <= low and high <= wider.name.max_write_id
            )
    return AcidState(
        base=base,
        originals=tuple(originals),
        deltas=tuple(taken),
        obsolete=obsolete,
        aborted=tuple(walk.aborted),
        ignored=walk.ignored,
        high_water_mark=write_ids.high_water_mark,
    )


class _Walk:
    """A state in the making: the directories by kind, then what becomes of each, in Hive's order."""

    def __init__(self, listing: Listing, write_ids: ValidWriteIdList, names: Names, txns: ValidTxnList) -> None:
        self._listing, self._write_ids, self._names, self._txns = listing, write_ids, names, txns
        self._is_hive4 = names == Generation.HIVE4
        self._bases: list[ParsedBase] = []
        self._deltas: list[ParsedDelta] = []
        self.original_directories: list[str] = []
        self.base: ParsedBase | None = None
        self.obsolete_bases: list[str] = []
        self.aborted: list[str] = []
        self.ignored: dict[str, NotTaken] = {}

    def sort_directories(self, *, sees_empty: bool) -> None:
        listing = self._listing
        for path in dict.fromkeys((*listing.directories, *(file.directory for file in listing.files))):
            first, *below = path.split("/")
            if is_acid_directory_name(first) or not any(map(is_acid_directory_name, below)) or has_hidden_part(path):
                continue
            raise RefusedError(
                f"Cannot read {listing.location} as one table or partition: {path} is an ACID directory below {first};"
                " name the table or partition that it belongs to"
            )
        populated = {
            file.path.partition("/")[0]
            for file in (() if sees_empty else listing.files)
            if "/" in file.path and not has_hidden_part(file.directory)
            if file.name in _MARKERS or not is_hidden(file.name)  # as Hive 4 counts
        }
        for path in listing.top_directories():
            name = parse_directory(path, self._names)
            if name is None:
                self.original_directories.append(path)
            elif not sees_empty and path not in populated:
                self.ignored[path] = NotTaken.NO_FILE
            elif isinstance(name, BaseDir):
                compacted = name.visibility_txn > 0 or path in listing.compacted_bases
                self._bases.append(ParsedBase(path=path, name=name, compacted=compacted))
            else:
                self._deltas.append(ParsedDelta(path=path, name=name))

    def _is_usable(self, path: str, name: BaseDir | DeltaDir) -> bool:
        if self._txns.is_txn_valid(name.visibility_txn):
            return True
        if self._txns.is_txn_aborted(name.visibility_txn):
            self.aborted.append(path)
        else:
            self.ignored[path] = NotTaken.INVISIBLE
        return False

    def choose_base(self, *, require_history: bool) -> None:
        usable = [base for base in self._bases if self._is_usable(base.path, base.name)]
        # a compacted base of equal write id comes last, so that it is chosen (Hive 4: the compactor's copy wins)
        usable.sort(key=lambda base: (base.name.write_id, base.compacted, base.name.visibility_txn, base.path))
        not_valid = []
        for base in usable:
            write_id, best = base.name.write_id, self.base
            if base.compacted and write_id != LONG_MIN:
                is_valid = write_id < self._write_ids.min_open and self._write_ids.is_valid_base(write_id)
            else:
                is_valid = write_id == LONG_MIN or self._write_ids.is_write_id_valid(write_id)
            if self._is_hive4 and not base.compacted and self._write_ids.is_write_id_aborted(write_id):
                self.aborted.append(base.path)
            elif best is not None and write_id <= best.name.write_id and not (self._is_hive4 and base.compacted):
                self.obsolete_bases.append(base.path)
            elif is_valid:
                self.obsolete_bases += [] if best is None else [best.path]
                self.base = base
            else:
                not_valid.append(base)
        for base in not_valid:
            is_below = self.base is not None and base.name.write_id < self.base.name.write_id
            if is_below and self._write_ids.is_write_id_aborted(base.name.write_id):
                # Hive 4 lists them as aborted; in Hive 3.1 it depends on the order of the listing whether they ever go
                self.obsolete_bases.append(base.path)
            else:
                self.ignored[base.path] = NotTaken.NOT_VALID_BASE
        if require_history and usable and self.base is None and (not self._is_hive4 or usable[0].compacted):
            raise RefusedError(
                f"Cannot read {self._listing.location}: the write-id list (high-water mark"
                f" {self._write_ids.high_water_mark}) may use none of its bases, the oldest is {usable[0].path};"
                " without a metastore state a newer list, with one find out why its write ids were set back"
            )

    def select_deltas(self) -> tuple[list[ParsedDelta], list[ParsedDelta]]:
        """Return the deltas that are read, in order, and those that others replace."""
        kept = []
        for delta in self._deltas:
            if not self._is_usable(delta.path, delta.name):
                continue
            low, high = delta.name.min_write_id, delta.name.max_write_id
            wholly_aborted = self._write_ids.range_aborted(low, high) is RangePart.ALL
            if wholly_aborted and self._is_hive4:
                self.aborted.append(delta.path)
            elif self._write_ids.range_valid(low, high) is RangePart.NONE:
                self.ignored[delta.path] = NotTaken.NO_VALID_WRITE_ID
            else:
                kept.append(replace(delta, wholly_aborted=wholly_aborted))

        def order(delta: ParsedDelta) -> tuple[int, int, int, int, str]:
            name = delta.name
            return name.min_write_id, -name.max_write_id, name.statement_id, -name.visibility_txn, delta.path

        taken: list[ParsedDelta] = []
        obsolete: list[ParsedDelta] = []
        current = 0 if self.base is None else self.base.name.write_id
        last_statement = -1
        previous: tuple[int, int, int] | None = None
        winners: dict[tuple[tuple[int, int, int], bool], int] = {}
        for delta in sorted(kept, key=order):
            name = delta.name
            key = (name.min_write_id, name.max_write_id, name.statement_id)
            if name.max_write_id > current:
                if self._write_ids.range_valid(current + 1, name.max_write_id) is RangePart.NONE:
                    self.ignored[delta.path] = NotTaken.NOTHING_LEFT
                    continue
                current, last_statement = name.max_write_id, name.statement_id
            else:
                # a delta that reaches no further is another statement's, or the delete half of the one before it
                belongs = (name.max_write_id == current and last_statement >= 0) or previous == key
                if not belongs or winners.get((key, name.is_delete), name.visibility_txn) != name.visibility_txn:
                    obsolete.append(delta)
                    continue
            winners[key, name.is_delete] = name.visibility_txn
            previous = key
            taken.append(delta)
        return taken, obsolete


class ReaderRole(Enum):
    """The role of a directory or file for readers."""

    READ = "read"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    NOT_READ = "not read"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class PlacePart:
    """A directory or file at the top of a place, as people are shown it.

    path       relative to the place
    kind       base, delta, delete delta, original file, other directory, hidden directory, hidden file
    write_ids  the first and the last that its name covers; None where the name has none
    why        the reason for the role, in words
    files      paths of the files that readers take for data, without hidden ones (markers, side files)
    bytes      sum over all files in it; 0 for a hidden directory
    """

    path: str
    kind: str
    write_ids: tuple[int, int] | None
    role: ReaderRole
    why: str
    files: tuple[str, ...]
    bytes: int


_ORDER = tuple(ReaderRole)


def place_parts(listing: Listing, state: AcidState, names: Names) -> tuple[PlacePart, ...]:
    """Return everything at the top of a listed place by role, that which is read first, else by name.

    state  of the same listing, for the write ids of a reader (those of a compactor stop at the first open one)
    """
    roles = _roles(state)
    parts: list[PlacePart] = []
    for path in listing.top_directories():
        files = listing.files_under(path)
        kind, write_ids = _named(parse_directory(path, names))
        # Hive reads files in other directories as original files, one by one
        inside = next((roles[file.path] for file in files if file.path in roles), None)
        role, why = roles.get(path) or inside or (ReaderRole.NOT_READ, "it holds no file that readers see")
        shown = (file.path for file in files if not has_hidden_part(file.path) and not is_side_file(file.name))
        size = sum(file.length for file in files)
        parts.append(PlacePart(path, kind, write_ids, role, why, tuple(shown), size))
    hidden = ReaderRole.HIDDEN, "readers pass over names that begin with _ or a dot"
    for file in listing.files_in(""):
        if is_hidden(file.path):
            parts.append(PlacePart(file.path, "hidden file", None, *hidden, (), file.length))
        else:
            role, why = roles.get(file.path, (ReaderRole.NOT_READ, "it is empty"))
            parts.append(PlacePart(file.path, "original file", None, role, why, (file.path,), file.length))
    tops = {path.partition("/")[0] for path in listing.directories}
    parts += [PlacePart(path, "hidden directory", None, *hidden, (), 0) for path in tops if is_hidden(path)]
    return tuple(sorted(parts, key=lambda part: (_ORDER.index(part.role), part.path)))


def _roles(state: AcidState) -> dict[str, tuple[ReaderRole, str]]:
    """Return the role of each path, and the reason for it, as the state has it."""
    roles: dict[str, tuple[ReaderRole, str]] = {}
    if state.base is not None:
        roles[state.base.path] = (ReaderRole.READ, "the newest base whose write ids are all decided")
    for path in state.originals:
        roles[path] = (ReaderRole.READ, "no base replaces it")
    for delta in state.deltas:
        why = "all its write ids were rolled back, and Hive 3.1 opens it" if delta.wholly_aborted else ""
        roles[delta.path] = (ReaderRole.READ, why or "no base and no wider delta covers it")
    for path, covering in state.obsolete.items():
        roles[path] = (ReaderRole.OBSOLETE, f"replaced by {', '.join(covering)}" if covering else "replaced")
    for path in state.aborted:
        roles[path] = (ReaderRole.ABORTED, "all its transactions were rolled back")
    for path, reason in state.ignored.items():
        roles[path] = (ReaderRole.NOT_READ, reason.value)
    return roles


def _named(name: BaseDir | DeltaDir | None) -> tuple[str, tuple[int, int] | None]:
    """Return the kind of directory that has such a name, and the write ids that it covers."""
    if name is None:
        return "other directory", None
    if isinstance(name, BaseDir):
        return "base", (0, max(name.write_id, 0))  # 0 for a base of nothing but converted original files
    return "delete delta" if name.is_delete else "delta", (name.min_write_id, name.max_write_id)
