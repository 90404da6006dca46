"""What becomes of a published result: its verification, the quarantine of its place, its undo and its statistics.

A result that readers see before it is verified (in a bucket, where no transaction hides it) must neither be built on
nor be cleaned up after: its request names it. Elsewhere a result is compared before any reader sees it. Where a
difference was found, nothing is compacted at the place without verifying it, or the same would be made again and seen.
Either ends with a newer request of the place that counts.

A result can be taken back, so that readers go back to what it was made of, as long as two things hold: nothing newer
was made of the result, and without it readers would read exactly what the compaction has read, file by file. The second
is no guess: a compaction notes a digest of what it read (`digest_of_inputs`), and the same is computed of what would be
read again. What was written since does not matter. Its write ids are above the mark of the compaction, and delete
events name rows by ids that a compaction keeps; rows of files without ids have those that readers give them by the
order of the files, and the digest says that these are the same ones.

Statistics are what the parameters of a place in the metastore should say of its files and rows. A compaction changes no
row, so nothing that is claimed of rows becomes right or wrong by it: `COLUMN_STATS_ACCURATE`, which lets `count(*)` be
answered, and column statistics stay as they are. Source: Hive `StatsUpdater` of the compactor (ANALYZE ... NOSCAN),
`BasicStatsTask`, `AcidUtils.getAcidFilesForStats`; names are those of `StatsSetupConst`.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acidlib.errors import RefusedError
from acidlib.model.listing import ListedFile, Listing, has_hidden_part
from acidlib.model.names import DELETE_DELTA_PREFIX, LONG_MIN, BaseDir, DeltaDir, Generation, parse_directory
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.planning.state import AcidState, acid_state

_COUNTS = (State.READY_FOR_CLEANING, State.SUCCEEDED)
FILES, BYTES, ROWS = "numFiles", "totalSize", "numRows"


def parse_verify_share(text: str) -> float | None:
    """Return the share of buckets that `acidlib.verify` or --verify asks for, or None; RefusedError for no share."""
    if text in ("", "none"):
        return None
    if text == "all":
        return 1.0
    try:
        share = float(text.removeprefix("sample="))
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise RefusedError(f"Cannot verify {text!r}: it is neither none, all, nor sample= and a share such as 0.1")
    return share


def chosen_buckets(buckets: Iterable[int], share: float, *, place: str, request: int | None) -> tuple[int, ...]:
    """Return the buckets to look at, at least one: always the same ones for this request at this place."""
    ranked = []
    for bucket in set(buckets):
        digest = hashlib.blake2b(f"{place} {request} {bucket}".encode(), digest_size=8).digest()
        ranked.append((int.from_bytes(digest), bucket))
    ranked.sort()
    within = len(ranked) if share >= 1 else sum(rank < share * (1 << 64) for rank, _ in ranked)
    return tuple(sorted(bucket for _, bucket in ranked[: max(within, 1)]))


def is_unverified(request: CompactionRequest) -> bool:
    """Return True for a request whose result was to be verified and was not: as it differs, or as its run has ended."""
    return request.state not in _COUNTS and (shows_unverified(request) or request.facts.differs)


def shows_unverified(request: CompactionRequest) -> bool:
    """Return True where readers see, or may see, what a request made and was not verified."""
    return bool(request.facts.unverified) or "unverified" in request.facts.problems


def quarantining_request(
    requests: Iterable[CompactionRequest], directories: Collection[str] | None = None
) -> CompactionRequest | None:
    """Return the request for which a place is held; None where none is.

    requests     of the queue and its history, about this place
    directories  that are there: where all that a request made is gone, it holds nothing; None = not known

    It is the newest that is not verified, before all others one whose result shows; none that is older than one that
    counts: that has released the place.
    """
    rows = [
        one
        for one in requests
        if not (made := one.facts.unverified) or directories is None or not set(made).isdisjoint(directories)
    ]
    released = max((one.id for one in rows if one.state in _COUNTS), default=0)
    held = [one for one in rows if is_unverified(one) and one.id > released]
    return max(held, key=lambda one: (shows_unverified(one), one.id), default=None)


def quarantine_reason(request: CompactionRequest, *, insert_only: bool = False) -> str:
    """Return why nothing is compacted or cleaned at a place that is held for a request, and what to do."""
    if request.facts.differs:
        return f"it is held: the result of request {request.id} could not be verified: {request.error_message}"
    first = "" if insert_only else "a compaction with --verify does that first, and "
    return (
        f"it is held: the run of request {request.id} ended before it had verified its result, "
        f"{', '.join(request.facts.unverified or ())}; {first}--release-held releases it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """What is moved out of readers' sight, in this order, and what they read in its place.

    Paths are relative to the location. The delete half of a pair goes first: rows too many are the smaller harm. `read`
    are the directories of the inputs; `originals` the original files that were read beside them.
    """

    result: tuple[str, ...]
    read: tuple[str, ...]
    originals: tuple[str, ...]


def undo_plan(
    listing: Listing,
    outputs: Collection[str],
    write_ids: ValidWriteIdList,
    *,
    digest: str,
    generation: Generation,
) -> UndoPlan | str:
    """Return what it takes to take back the results `outputs` of a compaction that noted this digest of its inputs.

    Where they have to stay it is the reason. Nothing above the write ids of the result was an input of it. Raises
    CorruptError for a name that does not parse.
    """
    tops = set(listing.top_directories())
    for name in outputs:
        if name not in tops:
            return f"{name} is not there any more"
    within = _range(outputs)
    newer = _newer(tops.difference(outputs), within)
    if newer is not None:
        return f"{newer} stands for rows of it: what was made of it would be left without it"
    before = listing.without(outputs)
    try:
        state = acid_state(
            before,
            write_ids.for_compactor().capped(within[1]),
            generation=generation,
            ignore_empty_files=True,
        )
    except RefusedError as error:
        return f"without it nothing could be read: {error}"
    directories, originals, files = _read(before, state, within)
    now, _, aborted_now = _digest(directories, files, state, write_ids, within).partition(".")
    noted, _, aborted_noted = digest.partition(".")
    if now != noted and not files:
        return "nothing of what it was made of is there any more"
    if now != noted:
        return (
            "what it was made of is not all there as it was read: directories or files went, came or were written again"
        )
    if aborted_now != aborted_noted:
        return "what was rolled back among its inputs is not known to be any more, and those rows would come back"
    deletes_first = sorted(outputs, key=lambda name: (name.startswith(DELETE_DELTA_PREFIX), name), reverse=True)
    return UndoPlan(result=tuple(deletes_first), read=directories, originals=originals)


def digest_of_inputs(listing: Listing, state: AcidState, write_ids: ValidWriteIdList, outputs: Iterable[str]) -> str:
    """Return a digest of all that a compaction with these results reads, from the listing and state that it goes by.

    The directories, their files with length and time of modification, and which write ids in them are rolled back: once
    a metastore has forgotten one, its rows would come to life with the directory.
    """
    within = _range(outputs)
    directories, _, files = _read(listing, state, within)
    return _digest(directories, files, state, write_ids, within)


Within = tuple[int, int, bool]
"""The first and the last write id that results stand for, and whether that is everything up to the last one."""


def _range(outputs: Iterable[str]) -> Within:
    found = [name for output in outputs if (name := parse_directory(output, Generation.HIVE4)) is not None]
    bases = [name.write_id for name in found if isinstance(name, BaseDir)]
    if bases:
        return LONG_MIN, max(bases), True
    deltas = [name for name in found if isinstance(name, DeltaDir)]
    return min(name.min_write_id for name in deltas), max(name.max_write_id for name in deltas), False


def _newer(names: Iterable[str], within: Within) -> str | None:
    """Return a directory that covers write ids of the result and is no input of it, by its name alone.

    Whether it is committed is not asked: what is not, may be in a moment. Names are parsed by the wider rules of
    Hive 4.
    """
    low, high, is_base = within
    for path in sorted(names):
        name = parse_directory(path, Generation.HIVE4)
        if isinstance(name, BaseDir):
            if name.write_id >= (high if is_base else low):
                return path
        elif name is not None:
            reaches_above = name.min_write_id <= high < name.max_write_id
            begins_below = not is_base and name.min_write_id < low <= name.max_write_id
            if reaches_above or begins_below:
                return path
    return None


def _read(
    listing: Listing, state: AcidState, within: Within
) -> tuple[tuple[str, ...], tuple[str, ...], list[ListedFile]]:
    """Return the directories, original files and files that a result of a range is made of, as a state shows it."""
    low, high, is_base = within
    names = [one.path for one in state.deltas if low <= one.name.min_write_id and one.name.max_write_id <= high]
    if is_base and state.base is not None:
        names.append(state.base.path)
    originals = state.originals if is_base else ()
    wanted = {*names, *originals}
    files = [
        file
        for file in listing.files
        if not has_hidden_part(file.path) and (file.path in wanted or file.path.partition("/")[0] in wanted)
    ]
    return tuple(sorted(names)), tuple(sorted(originals)), sorted(files, key=lambda file: file.path)


def _digest(
    directories: Sequence[str],
    files: Iterable[ListedFile],
    state: AcidState,
    write_ids: ValidWriteIdList,
    within: Within,
) -> str:
    """Return two digests, with a dot between: of directories and files, and of what in them was rolled back."""
    ranges = [(one.name.min_write_id, one.name.max_write_id) for one in state.deltas if one.path in directories]
    if within[2] and state.base is not None:
        ranges.append((state.base.name.write_id, state.base.name.write_id))
    ids = write_ids.aborted_ids
    aborted = {one for first, last in ranges for one in ids[bisect_left(ids, first) : bisect_right(ids, last)]}
    seen = [directories, [[file.path, file.length, file.modified] for file in files]]
    texts = (json.dumps(part).encode() for part in (seen, sorted(aborted)))
    return ".".join(hashlib.sha256(text).hexdigest()[:16] for text in texts)


def basic_statistics(
    state: AcidState, listing: Listing, *, results: Collection[str], rows: int | None
) -> dict[str, int]:
    """Return what a reader finds by this state of the listing: files, their bytes, and rows where they are known.

    `rows` are those that the compaction wrote into its `results`; they are all there are where a reader reads nothing
    but one of these.
    """
    base = None if state.base is None else state.base.path
    directories, originals = {base, *(delta.path for delta in state.deltas)}, set(state.originals)
    read = [
        file.length
        for file in listing.files
        if file.path in originals or (file.path.partition("/")[0] in directories and not has_hidden_part(file.path))
    ]
    found = {FILES: len(read), BYTES: sum(read)}
    if rows is not None and base in results and not (state.deltas or state.originals):
        found[ROWS] = rows
    return found


def statistics_changes(parameters: Mapping[str, str], found: Mapping[str, int]) -> dict[str, str]:
    """Return the parameters that have to be changed, with their new values.

    The number of rows is left alone where the basic statistics are claimed to be accurate (Hive
    `StatsSetupConst.areBasicStatsUptoDate`): then it was right before, and is.
    """
    try:
        claimed = json.loads(parameters.get("COLUMN_STATS_ACCURATE", "{}"))
    except ValueError:
        claimed = None  # as old servers write it, or another: what is not understood may be a claim
    claims_rows = not isinstance(claimed, dict) or str(claimed.get("BASIC_STATS", "")).lower() == "true"
    wanted = {key: str(value) for key, value in found.items() if key != ROWS or not claims_rows}
    return {key: value for key, value in wanted.items() if parameters.get(key) != value}
