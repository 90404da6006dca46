"""Whether the result of a compaction can be taken back, so that readers go back to what it was made of.

That is so as long as two things hold: nothing newer was made of the result, and without it readers would read exactly
what the compaction has read, file by file. The second is no guess: a compaction notes a digest of what it read
(`digest_of_inputs`), and the same is computed of what would be read again.

What was written since does not matter. Its write ids are above the mark of the compaction, and delete events name rows
by ids that a compaction keeps; rows of files without ids have those that readers give them by the order of the files,
and the digest says that these are the same ones.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from acidlib.errors import RefusedError
from acidlib.model.listing import ListedFile, Listing, has_hidden_part
from acidlib.model.names import LONG_MIN, BaseDir, DeltaDir, Generation, parse_directory
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.planning.state import AcidState, acid_state

_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingBack:
    """What is moved out of readers' sight, in this order, and what they read in its place.

    Paths are relative to the location. The delete half of a pair goes first: rows too many are the smaller harm. `read`
    are the directories of the inputs; `originals` the original files that were read beside them.
    """

    result: tuple[str, ...]
    read: tuple[str, ...]
    originals: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTakenBack:
    """The result stays, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """What a result of a range is made of, as a state shows it."""

    directories: tuple[str, ...]
    originals: tuple[str, ...]
    files: tuple[ListedFile, ...]
    aborted: tuple[int, ...]

    @property
    def digests(self) -> tuple[str, str]:
        """Of the directories and files, and of what in them was rolled back."""
        seen = [[file.path, file.length, file.modified] for file in self.files]
        return _digest([self.directories, seen]), _digest(self.aborted)


def digest_of_inputs(listing: Listing, state: AcidState, write_ids: ValidWriteIdList, outputs: Iterable[str]) -> str:
    """A digest of all that a compaction with these results reads, from the listing and state that it goes by.

    The directories, their files with length and time of modification, and which write ids in them are rolled back: once
    a metastore has forgotten one, its rows would come to life with the directory.
    """
    return ".".join(_inputs(listing, state, write_ids, _range(outputs)).digests)


def taking_back(
    listing: Listing,
    outputs: Collection[str],
    write_ids: ValidWriteIdList,
    *,
    digest: str,
    generation: Generation,
) -> TakingBack | NotTakenBack:
    """What it takes to take back the results `outputs` of a compaction that noted this digest of its inputs.

    Nothing above the write ids of the result was an input of it. Raises CorruptError for a name that does not parse.
    """
    if not outputs:
        return NotTakenBack(reason="it published nothing")
    tops = set(listing.top_directories())
    for name in outputs:
        if name not in tops:
            return NotTakenBack(reason=f"{name} is not there any more")
    within = _range(outputs)
    newer = _newer(tops.difference(outputs), within)
    if newer is not None:
        return NotTakenBack(reason=f"{newer} stands for rows of it: what was made of it would be left without it")
    before = listing.without(outputs)
    try:
        state = acid_state(
            before,
            write_ids.for_compactor().capped(within[1]),
            generation=generation,
            ignore_empty_files=True,
        )
    except RefusedError as error:
        return NotTakenBack(reason=f"without it nothing could be read: {error}")
    inputs = _inputs(before, state, write_ids, within)
    reason = _difference(inputs, digest)
    if reason is not None:
        return NotTakenBack(reason=reason)
    return TakingBack(
        result=tuple(sorted(outputs, key=_is_delete, reverse=True)),
        read=inputs.directories,
        originals=inputs.originals,
    )


def _difference(inputs: _Inputs, digest: str) -> str | None:
    """Why what would be read is not what was read; None when it is."""
    files, aborted = inputs.digests
    noted, _, noted_aborted = digest.partition(".")
    if not inputs.files and files != noted:
        return "nothing of what it was made of is there any more"
    if files != noted:
        return (
            "what it was made of is not all there as it was read: directories or files went, came or were written again"
        )
    if aborted != noted_aborted:
        return "what was rolled back among its inputs is not known to be any more, and those rows would come back"
    return None


def _range(outputs: Iterable[str]) -> tuple[int, int, bool]:
    """The write ids that results stand for, and whether that is everything up to the last one."""
    found = [name for output in outputs if (name := _parsed(output)) is not None]
    bases = [name.write_id for name in found if isinstance(name, BaseDir)]
    if bases:
        return LONG_MIN, max(bases), True
    deltas = [name for name in found if isinstance(name, DeltaDir)]
    return min(name.min_write_id for name in deltas), max(name.max_write_id for name in deltas), False


def _inputs(
    listing: Listing,
    state: AcidState,
    write_ids: ValidWriteIdList,
    within: tuple[int, int, bool],
) -> _Inputs:
    low, high, is_base = within
    deltas = [one for one in state.deltas if low <= one.name.min_write_id and one.name.max_write_id <= high]
    base = state.base if is_base else None
    originals = state.originals if is_base else ()
    names = sorted([*(one.path for one in deltas), *([] if base is None else [base.path])])
    wanted = {*names, *originals}
    files = [
        file
        for file in listing.files
        if not has_hidden_part(file.path) and (file.path in wanted or file.path.partition("/")[0] in wanted)
    ]
    ranges = [(one.name.min_write_id, one.name.max_write_id) for one in deltas]
    ranges += [] if base is None else [(base.name.write_id, base.name.write_id)]
    ids = write_ids.aborted_ids
    aborted = {one for first, last in ranges for one in ids[bisect_left(ids, first) : bisect_right(ids, last)]}
    return _Inputs(
        directories=tuple(names),
        originals=tuple(sorted(originals)),
        files=tuple(sorted(files, key=lambda file: file.path)),
        aborted=tuple(sorted(aborted)),
    )


def _newer(names: Iterable[str], within: tuple[int, int, bool]) -> str | None:
    """A directory that covers write ids of the result and is no input of it, by its name alone.

    Whether it is committed is not asked: what is not, may be in a moment.
    """
    low, high, is_base = within
    for path in sorted(names):
        name = _parsed(path)
        if isinstance(name, BaseDir):
            if name.write_id >= (high if is_base else low):
                return path
        elif name is not None:
            reaches_above = name.min_write_id <= high < name.max_write_id
            begins_below = not is_base and name.min_write_id < low <= name.max_write_id
            if reaches_above or begins_below:
                return path
    return None


def _parsed(name: str) -> BaseDir | DeltaDir | None:
    """By the wider rules of Hive 4."""
    return parse_directory(name, Generation.HIVE4)


def _is_delete(output: str) -> tuple[bool, str]:
    name = _parsed(output)
    return isinstance(name, DeltaDir) and name.is_delete, output


def _digest(seen: Any) -> str:
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:_DIGITS]
