"""The look right before publishing: has anybody touched what a compaction read, or published over the same range?

Nobody but the compactor may publish a directory of the range it merges (HIVE-29210: two compactors' deltas of one range
are both read), and a result must not be published for inputs that have gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing, has_hidden_part
from acidlib.model.names import BaseDir, DeltaDir, parse_directory
from acidlib.model.txnids import ALL_COMMITTED, ValidTxnList
from acidlib.model.units import DataFile, FlushLength
from acidlib.planning.inputs import CompactionInputs, Role, is_aside
from acidlib.planning.state import AcidState, NotTaken


def overlapping_outputs(
    listing_now: Listing,
    inputs: CompactionInputs,
    state: AcidState,
    *,
    generation: Generation,
    txns: ValidTxnList = ALL_COMMITTED,
) -> str | None:
    """Why the result of `inputs`, planned from `state`, must not be published now; None when nothing speaks against it.

    Conflicts are: an input file that vanished, was written again or joined the others; a result's name that exists; a
    directory that was not there (or whose transaction had not committed) when the inputs were listed and that shares a
    write id with the result, for a major also anything below it and new original files. Whether such a directory has
    committed cannot be seen by its name, so it counts unless `txns` says that its transaction is aborted. Directories
    wholly above the result's range are no conflict.
    """
    return (
        _changed_input(listing_now, inputs)
        or _grown_input(listing_now, inputs)
        or _taken_name(listing_now, inputs)
        or _new_directory(listing_now, inputs, state, generation, txns)
        or _new_original(listing_now, inputs)
    )


def _changed_input(listing: Listing, inputs: CompactionInputs) -> str | None:
    found = {file.path: file for file in listing.files}
    directories = set(listing.top_directories())
    for directory in inputs.directories:
        for file in directory.files:
            now = found.get(file.path)
            if now is None:
                return f"the input {file.path} is gone"
            if file.flush_length is not None:
                # a streaming writer may still append behind the length its side file notes
                if _went_on(file, file.flush_length, found):
                    return f"the streaming writer of {file.path} has gone on since the inputs were listed"
                continue
            if now.length != file.length:
                return f"the input {file.path} had {file.length} bytes and has {now.length} now"
            if now.modified != file.modified:
                return f"the input {file.path} was written again after it was listed"
        if directory.path and directory.files and directory.path not in directories:
            return f"the input {directory.path} is gone"
    return None


def _went_on(file: DataFile, side: FlushLength, found: Mapping[str, ListedFile]) -> bool:
    """Whether rows were noted in the side file, or the writer has closed its file behind what was noted."""
    noted = found.get(side.path)
    if noted is None:
        return found[file.path].length != side.data_length
    return noted.length != side.length


def _grown_input(listing: Listing, inputs: CompactionInputs) -> str | None:
    """A file with bytes that was not read: the result's name covers its directory, and its rows would be lost."""
    directories = {directory.path for directory in inputs.directories if directory.path}
    seen = {file.path for directory in inputs.directories for file in directory.files}
    for file in listing.files:
        if file.path in seen or file.length == 0 or file.path.partition("/")[0] not in directories:
            continue
        if not is_aside(file):
            return f"the file {file.path} has appeared in an input, or been filled, since the inputs were listed"
    return None


def _taken_name(listing: Listing, inputs: CompactionInputs) -> str | None:
    existing = set(listing.top_directories())
    for output in inputs.outputs:
        if output.path in existing:
            return f"{output.path}, the name of the result, exists already"
    return None


def _new_directory(
    listing: Listing, inputs: CompactionInputs, state: AcidState, generation: Generation, txns: ValidTxnList
) -> str | None:
    known = _known(inputs, state)
    for path in listing.top_directories():
        name = None if path in known else parse_directory(path, generation)
        if name is None or txns.is_txn_aborted(name.visibility_txn):
            continue
        if _overlaps(name, inputs):
            return f"{path} has appeared since the inputs were listed, and overlaps {inputs.outputs[0].path}"
    return None


def _known(inputs: CompactionInputs, state: AcidState) -> frozenset[str]:
    """What was looked at when the inputs were chosen. A transaction that was open then may have committed since."""
    seen = {directory.path for directory in inputs.directories}
    seen.update(delta.path for delta in state.deltas)
    seen.update(state.obsolete_paths)
    seen.update(state.aborted)
    seen.update(entry.path for entry in state.ignored if entry.reason is not NotTaken.INVISIBLE)
    if state.base is not None:
        seen.add(state.base.path)
    return frozenset(seen)


def _overlaps(name: BaseDir | DeltaDir, inputs: CompactionInputs) -> bool:
    if isinstance(name, BaseDir) or inputs.min_write_id is None or inputs.max_write_id is None:
        # a base reaches down to the first write id; originals alone make a base below every delta
        return isinstance(name, BaseDir)
    if inputs.kind.makes_base:
        return name.min_write_id <= inputs.max_write_id
    return name.min_write_id <= inputs.max_write_id and name.max_write_id >= inputs.min_write_id


def _new_original(listing: Listing, inputs: CompactionInputs) -> str | None:
    if not inputs.kind.makes_base or any(entry.role is Role.BASE for entry in inputs.directories):
        return None
    seen = {file.path for entry in inputs.directories if entry.role is Role.ORIGINALS for file in entry.files}
    seen.update(inputs.empty_files)
    for file in listing.files:
        top = file.path.partition("/")[0]
        is_original = "/" not in file.path or _parse_wide(top) is None
        if is_original and not has_hidden_part(file.path) and file.length > 0 and file.path not in seen:
            return f"the original file {file.path} has appeared since the inputs were listed"
    return None


def _parse_wide(name: str) -> BaseDir | DeltaDir | None:
    """The parsed name by the wider rules of Hive 4."""
    return parse_directory(name, Generation.HIVE4)
