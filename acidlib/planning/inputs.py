"""The inputs and outputs of one compaction: whether there is enough to merge, which directories are read and written.

Enough to merge. Source: Hive 4 `Worker.isEnoughToCompact`. Hive 3.1 asks less of a full-ACID table: `CompactorMR.run`
refuses only a place with neither deltas nor original files, so a major compaction makes a base of a single delta,
without its aborted and deleted rows. (Its minor compaction of a single delta replaces that directory; nothing here
replaces one.) A minor compaction over a single write id is refused, too: without statement ids in its names a reader
no longer sees that one statement's delete events came after another's rows, and rows deleted within that transaction
reappear.

Inputs and results. Source: Hive `CompactorMR` (which directories and files, the range of the result). Where this
differs from Hive on purpose:

* `hive.compactor.max.num.delta` has no effect: a merge here may have any number of inputs, so there are no
  intermediate minor compactions.
* The number in a result's name is the highest write id of the inputs; Hive 4's query-based compaction takes the
  high-water mark.
* In places with Hive 3's names wholly aborted directories at or below the high-water mark are inputs, and their rows
  are dropped, as in Hive 3.1, so that the result's name covers them; with Hive 4's names they are left to the cleaner.
* Files whose names follow no pattern are refused: leaving them out would lose rows.
* A delta that reaches above the mark and begins within the inputs is refused: the list is older than the compaction
  that made it, and a reader would take its rows from it and from the result.
* A table without a visibility suffix cannot publish two directories at one moment. A wide directory makes every
  narrower one of either kind obsolete, so a minor compaction of inserts and deletes is done as a major one while the
  base is small, else needs two renames.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from acidlib.acid.listing import ListedFile, Listing, has_hidden_part, uri_order
from acidlib.acid.names import (
    ANY_NAMES,
    LONG_MIN,
    SIDE_FILE_SUFFIX,
    BaseDir,
    BucketFile,
    DeltaDir,
    Generation,
    Names,
    OriginalFile,
    is_hidden,
    is_side_file,
    may_have_side_files,
    parse_directory,
    parse_file,
    side_file_name,
)
from acidlib.acid.state import AcidState
from acidlib.arguments import SHOW_PLACE
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.units import DataFile, FileForm, FlushLength
from acidlib.wording import plural, size_words

_REFUSED_MESSAGE = "None of the compaction thresholds met, compaction request is refused!"


def refused_message(reason: str) -> str:
    """Return the error message of a request whose place is compact already, as Hive 4's worker words it."""
    return f"{_REFUSED_MESSAGE} ({reason})"


def was_compact(request: CompactionRequest) -> bool:
    """Return whether a request, of any worker, ended because its place was compact already.

    Hive 4 has no state for that: the message tells such a request from others that were refused.
    """
    return request.state is State.REFUSED and (request.error_message or "").startswith(_REFUSED_MESSAGE)


def not_enough_reason(
    state: AcidState, kind: CompactionType, *, names: Names, insert_only: bool, automatic: bool
) -> str | None:
    """Return why there is not enough to compact, or None when there is.

    automatic  the request is an initiator's; for any other request a single delta is enough by the rules of Hive 3.1
    """
    count = len(state.deltas)
    deltas = plural(count, "delta directory", "delta directories")
    if kind is CompactionType.REBALANCE:
        is_empty = not (state.base or state.originals or state.deltas)
        return "there is nothing to rebalance: no base and no delta" if is_empty else None
    if kind is CompactionType.MINOR:
        if count <= 1:
            return f"there is nothing to merge: {deltas}"
        if (write_id := single_write_id(state)) is not None:
            return (
                f"there is nothing to merge: all {deltas} are of write id {write_id}, and a minor "
                "compaction would lose their order"
            )
        if count == 2 and sum(delta.name.is_delete for delta in state.deltas) == 1:
            return "there is nothing to merge: one delta and one delete delta directory"
        return None
    one_delta_is_enough = names is Generation.HIVE3 and not (insert_only or automatic)
    if (one_delta_is_enough and count) or state.originals or count + (state.base is not None) > 1:
        return None
    there = "a base and no delta" if state.base is not None else f"{deltas} and no base"
    return f"there is nothing to merge: {there}"


def single_write_id(state: AcidState) -> int | None:
    """Return the write id of all current deltas; None where they have several, or there is no delta."""
    ids = {write_id for delta in state.deltas for write_id in (delta.name.min_write_id, delta.name.max_write_id)}
    return ids.pop() if len(ids) == 1 else None


UNION_SUBDIRECTORY = "HIVE_UNION_SUBDIR_"
"""Prefix of the directories to which Hive writes the branches of a UNION ALL (`AbstractFileMergeOperator`)."""


class Role(Enum):
    """The contribution of an input directory to the result."""

    BASE = "base"
    ORIGINALS = "originals"
    DELTA = "delta"
    DELETE_DELTA = "delete delta"


class Publication(Enum):
    """The way in which a result becomes visible; the values are words of documents.

    At once is by one rename, or in a bucket by the completion of one upload that has all rows.
    """

    COMMIT = "commit"
    AT_ONCE = "one rename"
    TWO_RENAMES = "two renames"
    FILE_BY_FILE = "file by file"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDirectory:
    """One input directory, or the original files (with an empty path and no name).

    path             relative to the location
    files            in the order on which row ids of raw files depend: such a row has the write id of the directory,
                     the bucket with its statement, and an ordinal that counts on over the files of one bucket number
    empty_files      files of zero bytes without a side file; they hold no rows
    lone_side_files  side files without a data file, in which 0 is the only readable length that is not an error
    wholly_aborted   the directory's name is covered by that of the result, which has none of its rows
    """

    role: Role
    path: str
    name: BaseDir | DeltaDir | None
    files: tuple[DataFile, ...] = ()
    empty_files: tuple[str, ...] = ()
    lone_side_files: tuple[str, ...] = ()
    wholly_aborted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionInputs:
    """The directories that are merged, in the order of their rows: base or originals, then deltas as selected.

    kind          the compaction that is carried out; `requested` the one that was asked for
    reason        why these differ, if they do
    outputs       the possible results, the insert half first. An empty one is not written, but at least one always is,
                  as its name covers the inputs
    min_write_id, max_write_id  of the deltas; None when only original files are merged
    schema        the file whose columns are the table's where these are not stated, as far as files were read
    """

    kind: CompactionType
    requested: CompactionType
    reason: str
    directories: tuple[InputDirectory, ...]
    outputs: tuple[BaseDir | DeltaDir, ...]
    publication: Publication
    min_write_id: int | None
    max_write_id: int | None
    high_water_mark: int
    schema: DataFile | None = None

    @property
    def empty_files(self) -> tuple[str, ...]:
        """Input files of zero bytes and without a side file."""
        return tuple(path for directory in self.directories for path in directory.empty_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason for which nothing is compacted.

    already_compact  there is nothing to merge, and nothing is wrong
    cleaning_only    there is nothing to merge, but a cleaning for this `high_water_mark` may remove something obsolete
    """

    reason: str
    already_compact: bool = False
    cleaning_only: bool = False
    high_water_mark: int | None = None


def compaction_inputs(
    state: AcidState,
    listing: Listing,
    kind: CompactionType,
    *,
    names: Names,
    visibility_txn: int | None = None,
    visible_on_commit: bool = False,
    minor_as_major_bytes: int,
    shows_at_once: bool = True,
    insert_only: bool = False,
    automatic: bool = False,
) -> CompactionInputs | Refusal:
    """Return inputs and results of a compaction, from a state by the compactor's list and the listing of that state.

    visibility_txn        suffix of the results (Hive 4 only)
    visible_on_commit     `visibility_txn` is our own open transaction, whose commit shows all results at once; else it
                          has committed already, and a rename shows them
    minor_as_major_bytes  size of a base up to which a minor compaction that needs two renames is done as a major one
                          (0 = never)
    shows_at_once         a directory of several files becomes visible as a whole. Where it does not, and no commit
                          shows it, the compaction is always a major one: readers can be kept from a base that is not
                          whole yet, but not from a delta
    insert_only           files of the table have any names, and no row was ever deleted
    automatic             the request is an initiator's: Hive 4's rules say what is too little, whatever the generation

    Raises CorruptError for files and directories among the inputs whose names cannot be read, RefusedError for
    arguments that do not fit together.
    """
    if visibility_txn is not None and names == Generation.HIVE3:
        raise RefusedError("Cannot write a visibility suffix by the rules of Hive 3: Hive 3 does not read it")
    if above := [delta.path for delta in state.deltas if delta.name.max_write_id > state.high_water_mark]:
        raise RefusedError(
            f"Cannot compact {above[0]}: it reaches above the high-water mark {state.high_water_mark}; state a "
            "newer list of write ids"
        )
    reason = not_enough_reason(state, kind, names=names, insert_only=insert_only, automatic=automatic)
    if reason is not None:
        return Refusal(
            reason=reason,
            already_compact=True,
            cleaning_only=_may_be_cleaned(state, visibility_txn or 0, commits_are_known=visible_on_commit),
            high_water_mark=state.high_water_mark,
        )
    if (reason := _straddling_delta_reason(state)) is not None:
        return Refusal(reason=reason)
    actual_kind, publication, why = kind, Publication.COMMIT, "as requested"
    if not visible_on_commit:
        actual_kind, publication, why = _without_commit(
            state, listing, kind, minor_as_major_bytes=minor_as_major_bytes, shows_at_once=shows_at_once
        )
    outputs = _outputs(state, actual_kind, visibility_txn or 0)
    taken = set(listing.top_directories())
    if existing := [output.name for output in outputs if output.name in taken]:
        return Refusal(
            reason=f"{existing[0]}, the name of the result, exists already, and readers do not take it for "
            f"committed; {SHOW_PLACE} says why, and once it is removed the compaction goes on"
        )
    deltas = [delta.name for delta in state.deltas]
    return CompactionInputs(
        kind=actual_kind,
        requested=kind,
        reason=why,
        directories=directories_read(state, listing, actual_kind, names=names, insert_only=insert_only),
        outputs=outputs,
        publication=publication,
        min_write_id=min((delta.min_write_id for delta in deltas), default=None),
        max_write_id=max((delta.max_write_id for delta in deltas), default=None),
        high_water_mark=state.high_water_mark,
    )


def _may_be_cleaned(state: AcidState, own_txn: int, *, commits_are_known: bool) -> bool:
    """Return whether something is obsolete, and all directories that cover it are known to be committed."""
    if not (state.obsolete or state.aborted):
        return False
    names: dict[str, BaseDir | DeltaDir] = {delta.path: delta.name for delta in state.deltas}
    if state.base is not None:
        names[state.base.path] = state.base.name
    covering = {path for paths in state.obsolete.values() for path in paths}
    return commits_are_known or all(names[path].visibility_txn in (0, own_txn) for path in covering)


def _straddling_delta_reason(state: AcidState) -> str | None:
    """Return why a delta that is no input forbids merging those that are, or None."""
    high = max((delta.name.max_write_id for delta in state.deltas), default=LONG_MIN)
    for path in state.ignored:
        name = parse_directory(path, ANY_NAMES)
        if isinstance(name, DeltaDir) and name.min_write_id <= high < name.max_write_id:
            return (
                f"{path} reaches above the high-water mark {state.high_water_mark} and overlaps the inputs, which"
                f" end at {high}: the write-id list is older than that directory; state a newer one"
            )
    return None


def needs_empty_write_id(state: AcidState) -> bool:
    """Return whether a rebalance needs a new write id: the place has nothing but a base of the highest one.

    Of two bases of one number readers of Hive 4.0 take the one that they happen to see last, and with it other row ids
    (`AcidUtils.processBaseDir` over a hash map).
    """
    if state.deltas or state.base is None:
        return False
    return state.high_water_mark <= max(state.base.name.write_id, 0)


def _without_commit(
    state: AcidState, listing: Listing, kind: CompactionType, *, minor_as_major_bytes: int, shows_at_once: bool
) -> tuple[CompactionType, Publication, str]:
    """Return the compaction to carry out where no commit shows its results, how they become visible, and why."""
    if not shows_at_once:
        is_requested = kind is CompactionType.MAJOR
        why = "as requested" if is_requested else "readers would see a delta before all of its files are there"
        return CompactionType.MAJOR, Publication.FILE_BY_FILE, why
    mixed = len({delta.name.is_delete for delta in state.deltas}) > 1
    if kind is CompactionType.MAJOR or not mixed:
        return kind, Publication.AT_ONCE, "as requested"
    if state.base is not None:
        base_files = [file for file in listing.files_in(state.base.path) if not is_hidden(file.name)]
    else:
        originals = set(state.originals)
        base_files = [file for file in listing.files if file.path in originals]
    base_bytes = sum(file.length for file in base_files)
    if minor_as_major_bytes > 0 and base_bytes <= minor_as_major_bytes:
        why = (
            "a minor compaction of inserts and deletes needs two renames, and a base of "
            f"{size_words(base_bytes)} is no larger than {size_words(minor_as_major_bytes)}"
        )
        return CompactionType.MAJOR, Publication.AT_ONCE, why
    return kind, Publication.TWO_RENAMES, "as requested"


def _outputs(state: AcidState, kind: CompactionType, visibility_txn: int) -> tuple[BaseDir | DeltaDir, ...]:
    names = [delta.name for delta in state.deltas]
    high = max((name.max_write_id for name in names), default=LONG_MIN)
    if kind is CompactionType.REBALANCE and not names and state.base is not None:
        high = state.high_water_mark  # the number of the present base is taken
    if kind.makes_base:
        return (BaseDir(write_id=high, visibility_txn=visibility_txn),)
    low = min(name.min_write_id for name in names)
    return tuple(
        DeltaDir(min_write_id=low, max_write_id=high, visibility_txn=visibility_txn, is_delete=is_delete)
        for is_delete in sorted({name.is_delete for name in names})
    )


def directories_read(
    state: AcidState, listing: Listing, kind: CompactionType, *, names: Names, insert_only: bool
) -> tuple[InputDirectory, ...]:
    """Return the directories that a compaction reads in this state; raises as `compaction_inputs`.

    A major compaction reads everything that a reader reads.
    """
    files = _ListedFiles(listing, names=names, insert_only=insert_only)
    directories = []
    if kind.makes_base and state.base is not None:
        directories.append(files.directory(Role.BASE, state.base.path, state.base.name))
    elif kind.makes_base and state.originals:
        directories.append(files.originals(state.originals))
    for delta in state.deltas:
        role = Role.DELETE_DELTA if delta.name.is_delete else Role.DELTA
        directories.append(files.directory(role, delta.path, delta.name, wholly_aborted=delta.wholly_aborted))
    return tuple(directories)


class _ListedFiles:
    """The files of a listing, by directory and by path, from which input directories are made."""

    def __init__(self, listing: Listing, *, names: Names, insert_only: bool) -> None:
        self._names = names
        self._insert_only = insert_only
        self._listing = listing
        self._by_directory = listing.by_directory()
        self._by_path = {file.path: file for file in listing.files}
        self._nested = [path for path in self._by_directory if "/" in path]

    def originals(self, paths: tuple[str, ...]) -> InputDirectory:
        """Return the original files, in the order on which their row ids depend."""
        for path in paths if self._insert_only else ():
            if "/" in path and not path.startswith(UNION_SUBDIRECTORY):
                raise RefusedError(f"Cannot read {path}: it is in a directory that is not a branch of a UNION ALL")
        directory = self._with_files(
            InputDirectory(role=Role.ORIGINALS, path="", name=None), [self._by_path[path] for path in paths]
        )
        if acid := [file.path for file in directory.files if file.form is FileForm.EVENTS]:
            raise CorruptError(f"Cannot read {acid[0]}: it is a bucket file outside of any ACID directory")
        return directory

    def directory(
        self, role: Role, path: str, name: BaseDir | DeltaDir, *, wholly_aborted: bool = False
    ) -> InputDirectory:
        """Return one base, delta or delete delta directory with its files, in path order."""
        directory = InputDirectory(role=role, path=path, name=name, wholly_aborted=wholly_aborted)
        if self._insert_only:
            return self._with_files(directory, self._insert_only_files(role, path))
        for nested in self._nested:
            if nested.startswith(path + "/") and not is_hidden(nested[len(path) + 1 :]):
                raise CorruptError(f"Cannot read {path}: it holds a directory, {nested}")
        listed = sorted(self._by_directory.get(path, ()), key=lambda file: uri_order(file.path))
        directory = self._with_files(directory, [file for file in listed if not holds_no_rows(file)])
        raw = [file.path for file in directory.files if file.form is FileForm.ORIGINAL]
        if role is Role.DELETE_DELTA and raw:
            raise CorruptError(f"Cannot read {raw[0]}: a delete delta never holds files without ACID columns")
        lone = tuple(
            file.path
            for file in listed
            if is_side_file(file.name) and file.path.removesuffix(SIDE_FILE_SUFFIX) not in self._by_path
        )
        return replace(directory, lone_side_files=lone)

    def _insert_only_files(self, role: Role, path: str) -> list[ListedFile]:
        """Return the files of a directory of an insert-only table, with those in a UNION ALL's branches below it."""
        if role is Role.DELETE_DELTA:
            raise CorruptError(f"Cannot read {path}: an insert-only table never has a delete delta")
        for nested in self._nested:
            inner = nested.removeprefix(path + "/")
            if inner != nested and not has_hidden_part(inner) and not inner.startswith(UNION_SUBDIRECTORY):
                raise RefusedError(f"Cannot read {path}: it holds a directory, {nested}, as list bucketing makes it")
        listed = sorted(self._listing.files_under(path), key=lambda file: uri_order(file.path))
        return [file for file in listed if not has_hidden_part(file.path)]

    def _with_files(self, directory: InputDirectory, listed: Iterable[ListedFile]) -> InputDirectory:
        """Return the directory with these files, those of zero bytes apart."""
        name, files, empty = directory.name, [], []
        write_id = 0  # that of original files
        if name is not None:
            write_id = max(name.write_id, 0) if isinstance(name, BaseDir) else name.min_write_id
        for file in listed:
            has_side = not self._insert_only and (directory.wholly_aborted or may_have_side_files(name, self._names))
            side = self._by_path.get(side_file_name(file.path)) if has_side else None
            if file.length == 0 and side is None:
                empty.append(file.path)
                continue
            # LOAD DATA keeps names: a file of an insert-only table without a number in its name is in bucket 0
            parsed = parse_file(file.name.partition(".")[0] if self._insert_only else file.name)
            bucket = parsed.bucket if isinstance(parsed, BucketFile | OriginalFile) else None
            if bucket is None and not self._insert_only:
                raise CorruptError(
                    f"Cannot read {file.path}: its name has no bucket number, and its rows would be lost"
                )
            has_events = isinstance(parsed, BucketFile) and not self._insert_only
            flush_length = None
            if side is not None:
                flush_length = FlushLength(path=side.path, length=side.length, data_length=file.length)
            files.append(
                DataFile(
                    path=file.path,
                    directory=directory.path,
                    length=file.length,
                    bucket=bucket or 0,
                    form=FileForm.EVENTS if has_events else FileForm.ORIGINAL,
                    write_id=write_id,
                    statement_id=max(name.statement_id, 0) if isinstance(name, DeltaDir) else 0,
                    aborted=directory.wholly_aborted,
                    modified=file.modified,
                    flush_length=flush_length,
                )
            )
        return replace(directory, files=tuple(files), empty_files=tuple(empty))


def holds_no_rows(file: ListedFile) -> bool:
    """Return whether a file in an input holds no rows: a hidden file, or the side file of another one."""
    return has_hidden_part(file.path) or is_side_file(file.name)
