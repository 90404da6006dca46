"""Decisions about a published result: its verification, the quarantine of its place, its undo and its statistics.

Quarantine. A result that readers see before it is verified (in a bucket, where no transaction hides it) must neither be
compacted again nor be cleaned up after: its request names it. Elsewhere a result is compared before any reader sees it;
if it differs, nothing is compacted at the place without verification, or the same result would be made again and seen.
Either ends with a newer request of the place that counts.

Undo. A result can be taken back, so that readers read its inputs again, as long as two things hold: nothing newer was
made of the result, and without it readers would read exactly what the compaction has read, file by file. The second is
no guess: a compaction notes a digest of its inputs (`digest_of_inputs`), and the same is computed of the files that
would be read again. Later writes do not matter. Their write ids are above the mark of the compaction, and delete events
name rows by ids that a compaction keeps; rows of files without ids have those that readers give them by the order of
the files, and the digest says that these are the same ones.

Statistics are the parameters of a place in the metastore that describe its files and rows. A compaction changes no row,
so no claim about rows becomes right or wrong by it: `COLUMN_STATS_ACCURATE`, which lets `count(*)` be answered, and
column statistics stay as they are. Source: Hive `StatsUpdater` of the compactor (ANALYZE ... NOSCAN), `BasicStatsTask`,
`AcidUtils.getAcidFilesForStats`; names are those of `StatsSetupConst`.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acidlib.acid.listing import ListedFile, Listing, has_hidden_part
from acidlib.acid.names import (
    ANY_NAMES,
    DELETE_DELTA_PREFIX,
    LONG_MIN,
    BaseDir,
    Calls,
    DeltaDir,
    Generation,
    Names,
    parse_directory,
)
from acidlib.acid.state import AcidState, acid_state
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.arguments import RELEASE_HELD, VERIFIED
from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionRequest, State


def parse_verify_share(text: str) -> float | None:
    """Return the share of buckets to verify by `acidlib.verify` or --verify, or None; RefusedError for another text."""
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
    """Return the buckets to verify, at least one: always the same ones for one request at one place."""
    ranked = []
    for bucket in set(buckets):
        digest = hashlib.blake2b(f"{place} {request} {bucket}".encode(), digest_size=8).digest()
        ranked.append((int.from_bytes(digest), bucket))
    ranked.sort()
    within = len(ranked) if share >= 1 else sum(rank < share * (1 << 64) for rank, _ in ranked)
    return tuple(sorted(bucket for _, bucket in ranked[: max(within, 1)]))


_COUNTS = (State.READY_FOR_CLEANING, State.SUCCEEDED)


def is_unverified(request: CompactionRequest) -> bool:
    """Return whether the verification of a request's result is due: it found a difference, or the run ended before."""
    return request.state not in _COUNTS and (shows_unverified(request) or request.facts.differs)


def shows_unverified(request: CompactionRequest) -> bool:
    """Return whether readers see, or may see, a result of the request that was not verified."""
    return bool(request.facts.unverified) or "unverified" in request.facts.problems


def counts_as_attempt(state: State, calls: Calls) -> bool:
    """Return whether a request that ended so counts where a place is held back after failures in a row.

    calls  whose queue it is: Hive 3.1 counts all but `attempted` requests, Hive 4 succeeded and failed ones

    Source: Hive `CompactionTxnHandler.checkFailedCompactions`.
    """
    if calls is Generation.HIVE3:
        return state is not State.ATTEMPTED
    return state in (State.SUCCEEDED, State.FAILED)


def quarantining_request(
    requests: Iterable[CompactionRequest], directories: Collection[str] | None = None
) -> CompactionRequest | None:
    """Return the request for which a place is in quarantine; None where it is not.

    requests     the queue and its history, for this place
    directories  names of the directories at the place: a request whose whole result has gone has no effect; None =
                 unknown

    It is the newest unverified request, one whose result readers see before all others. A newer request that counts
    has ended the quarantine.
    """
    rows = [
        row
        for row in requests
        if not (result := row.facts.unverified) or directories is None or not set(result).isdisjoint(directories)
    ]
    released = max((row.id for row in rows if row.state in _COUNTS), default=0)
    unverified = [row for row in rows if is_unverified(row) and row.id > released]
    return max(unverified, key=lambda row: (shows_unverified(row), row.id), default=None)


def quarantine_reason(request: CompactionRequest, *, insert_only: bool = False) -> str:
    """Return why nothing is compacted or cleaned at a place that this request keeps in quarantine, and what to do."""
    if request.facts.differs:
        return f"it is held: the result of request {request.id} could not be verified: {request.error_message}"
    first = "" if insert_only else f"{VERIFIED} does that first, and "
    return (
        f"it is held: the run of request {request.id} ended before it had verified its result, "
        f"{', '.join(request.facts.unverified or ())}; {first}{RELEASE_HELD} releases it"
    )


Within = tuple[int, int, bool]
"""The first and the last write id that results cover, and whether they are a base, which covers all up to the last."""


def _range(outputs: Iterable[str]) -> Within:
    names = [parse_directory(output, ANY_NAMES) for output in outputs]
    bases = [name.write_id for name in names if isinstance(name, BaseDir)]
    if bases:
        return LONG_MIN, max(bases), True
    deltas = [name for name in names if isinstance(name, DeltaDir)]
    return min(name.min_write_id for name in deltas), max(name.max_write_id for name in deltas), False


def _newer(names: Iterable[str], within: Within) -> str | None:
    """Return a directory that covers write ids of the result and is no input of it, by its name alone.

    It need not be committed, for it may be in a moment. Names are parsed by the wider rules of Hive 4.
    """
    low, high, is_base = within
    for path in sorted(names):
        name = parse_directory(path, ANY_NAMES)
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
    """Return the directories, original files and all files that are the inputs of a result, by a state."""
    low, high, is_base = within
    names = [delta.path for delta in state.deltas if low <= delta.name.min_write_id and delta.name.max_write_id <= high]
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


def _digests(
    directories: Sequence[str],
    files: Iterable[ListedFile],
    state: AcidState,
    write_ids: ValidWriteIdList,
    within: Within,
) -> tuple[str, str]:
    """Return a digest of directories and files, and one of the write ids in them that are rolled back."""
    ranges = [(delta.name.min_write_id, delta.name.max_write_id) for delta in state.deltas if delta.path in directories]
    if within[2] and state.base is not None:
        ranges.append((state.base.name.write_id, state.base.name.write_id))
    ids = write_ids.aborted_ids
    aborted = {txn for first, last in ranges for txn in ids[bisect_left(ids, first) : bisect_right(ids, last)]}

    def digest(value: object) -> str:
        return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]

    return digest([directories, [[file.path, file.length, file.modified] for file in files]]), digest(sorted(aborted))


def digest_of_inputs(listing: Listing, state: AcidState, write_ids: ValidWriteIdList, outputs: Iterable[str]) -> str:
    """Return a digest of everything that a compaction with these results reads, by its listing and state.

    It is of the directories, their files with length and time of modification, and behind a dot of the write ids in
    them that are rolled back: once a metastore has forgotten one, its rows would come back with the directory.
    """
    within = _range(outputs)
    directories, _, files = _read(listing, state, within)
    return ".".join(_digests(directories, files, state, write_ids, within))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The directories to hide from readers, and those that they read again; paths are relative to the location.

    result     in the order in which they are moved: the delete half of a pair first, as rows too many do less harm
    read       directories of the inputs
    originals  original files among the inputs
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
    names: Names,
) -> UndoPlan | str:
    """Return how to take back the results `outputs` of a compaction that noted this digest of its inputs.

    Where they have to stay, return the reason. Nothing above the write ids of a result was an input of it. Raises
    CorruptError for a name that does not parse.
    """
    tops = set(listing.top_directories())
    for name in outputs:
        if name not in tops:
            return f"{name} is not there any more"
    within = _range(outputs)
    newer = _newer(tops.difference(outputs), within)
    if newer is not None:
        return f"{newer} stands for rows of it, and would be left without the result that it was made of"
    before = listing.without(outputs)
    try:
        state = acid_state(
            before,
            write_ids.for_compactor().capped(within[1]),
            names=names,
            ignore_empty_files=True,
        )
    except RefusedError as error:
        return f"without it nothing could be read: {error}"
    directories, originals, files = _read(before, state, within)
    read_now, aborted_now = _digests(directories, files, state, write_ids, within)
    read_then, _, aborted_then = digest.partition(".")
    if read_now != read_then and not files:
        return "nothing of what it was made of is there any more"
    if read_now != read_then:
        return "its inputs are not all there as they were read: directories or files went, came or were written again"
    if aborted_now != aborted_then:
        return "rows in its inputs were rolled back, which is not known of all of them any more: they would come back"
    deletes_first = sorted(outputs, key=lambda name: (name.startswith(DELETE_DELTA_PREFIX), name), reverse=True)
    return UndoPlan(result=tuple(deletes_first), read=directories, originals=originals)


FILES, BYTES, ROWS = "numFiles", "totalSize", "numRows"


def basic_statistics(
    state: AcidState, listing: Listing, *, results: Collection[str], rows: int | None
) -> dict[str, int]:
    """Return the files that a reader opens by this state of the listing, their bytes, and rows where they are known.

    `rows` are those that the compaction wrote into its `results`: all rows of the place if a reader reads nothing but
    one of these.
    """
    base = None if state.base is None else state.base.path
    directories, originals = {base, *(delta.path for delta in state.deltas)}, set(state.originals)
    read = [
        file.length
        for file in listing.files
        if file.path in originals or (file.path.partition("/")[0] in directories and not has_hidden_part(file.path))
    ]
    statistics = {FILES: len(read), BYTES: sum(read)}
    if rows is not None and base in results and not (state.deltas or state.originals):
        statistics[ROWS] = rows
    return statistics


def statistics_changes(parameters: Mapping[str, str], statistics: Mapping[str, int]) -> dict[str, str]:
    """Return the parameters that have to be changed, with their new values.

    The number of rows is left alone where the basic statistics are claimed to be accurate (Hive
    `StatsSetupConst.areBasicStatsUptoDate`): then it was right before, and is.
    """
    try:
        claimed = json.loads(parameters.get("COLUMN_STATS_ACCURATE", "{}"))
    except ValueError:
        claimed = None  # an old server's text, or another: it may be a claim
    claims_rows = not isinstance(claimed, dict) or str(claimed.get("BASIC_STATS", "")).lower() == "true"
    wanted = {key: str(value) for key, value in statistics.items() if key != ROWS or not claims_rows}
    return {key: value for key, value in wanted.items() if parameters.get(key) != value}
