"""The last check before a compaction publishes: whether its place is still as it was when it was planned.

Only one compactor may publish a directory of a range (readers read two compactors' deltas of one range twice,
HIVE-29210), and a result must not be published for inputs that have gone. What keeps the place between this check and
the publication is the stage; see `last_check` in `acidlib.runs.compact`.
"""

from __future__ import annotations

from acidlib.acid.listing import Listing, has_hidden_part
from acidlib.acid.names import ANY_NAMES, BaseDir, DeltaDir, Names, parse_directory
from acidlib.acid.state import AcidState, NotTaken
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList
from acidlib.planning.inputs import CompactionInputs, Role, holds_no_rows


def publication_conflict_reason(
    listing_now: Listing,
    inputs: CompactionInputs,
    state: AcidState,
    *,
    names: Names,
    txns: ValidTxnList = ALL_COMMITTED,
) -> str | None:
    """Return why the result of `inputs`, planned from `state`, must not be published now; None when it may.

    Conflicts are:

    * an input file that has gone, was written again or has been added
    * a result's name that exists
    * a directory that was not there (or whose transaction had not committed) when the inputs were listed, and that
      shares a write id with the result, or is below it and the result a base. Its name does not say whether it has
      committed, so it counts unless `txns` says that its transaction is aborted. Directories wholly above the result's
      range are no conflict
    * new original files, if the result is a base
    """
    return (
        _changed_input_reason(listing_now, inputs)
        or _new_directory_reason(listing_now, inputs, state, names, txns)
        or _new_original_reason(listing_now, inputs)
    )


def _changed_input_reason(listing: Listing, inputs: CompactionInputs) -> str | None:
    by_path = {file.path: file for file in listing.files}
    tops = set(listing.top_directories())
    for directory in inputs.directories:
        for file in directory.files:
            now, side = by_path.get(file.path), file.flush_length
            if now is None:
                return f"the input {file.path} is gone"
            if side is not None:
                # a streaming writer may still append behind the length its side file notes, or close its file there
                noted = by_path.get(side.path)
                if noted is None:
                    has_grown = now.length != side.data_length
                else:
                    has_grown = noted.length != side.length
                if has_grown:
                    return f"the streaming writer of {file.path} has gone on since the inputs were listed"
            elif now.length != file.length:
                return f"the input {file.path} had {file.length} bytes and has {now.length} now"
            elif now.modified != file.modified:
                return f"the input {file.path} was written again after it was listed"
        if directory.path and directory.files and directory.path not in tops:
            return f"the input {directory.path} is gone"
    # a file with bytes that was no input: the result's name covers its directory, and its rows would be lost
    directories = {directory.path for directory in inputs.directories if directory.path}
    seen = {file.path for directory in inputs.directories for file in directory.files}
    for listed in listing.files:
        if listed.path in seen or listed.length == 0 or listed.path.partition("/")[0] not in directories:
            continue
        if not holds_no_rows(listed):
            return f"the file {listed.path} has appeared in an input, or been filled, since the inputs were listed"
    return None


def _new_directory_reason(
    listing: Listing, inputs: CompactionInputs, state: AcidState, names: Names, txns: ValidTxnList
) -> str | None:
    tops = listing.top_directories()
    if taken := [output.name for output in inputs.outputs if output.name in tops]:
        return f"{taken[0]}, the name of the result, exists already"
    # the directories that were judged when the inputs were chosen; an open transaction may have committed since
    known = {directory.path for directory in inputs.directories} | {delta.path for delta in state.deltas}
    known |= {*state.obsolete, *state.aborted}
    known |= {path for path, reason in state.ignored.items() if reason is not NotTaken.INVISIBLE}
    known |= set() if state.base is None else {state.base.path}
    for path in tops:
        name = None if path in known else parse_directory(path, names)
        if name is None or txns.is_txn_aborted(name.visibility_txn):
            continue
        # a base reaches down to the first write id; inputs that are originals alone have none, and overlap no delta
        overlaps = isinstance(name, BaseDir)
        if isinstance(name, DeltaDir) and inputs.min_write_id is not None and inputs.max_write_id is not None:
            is_below = not inputs.kind.makes_base and name.max_write_id < inputs.min_write_id
            overlaps = name.min_write_id <= inputs.max_write_id and not is_below
        if overlaps:
            return f"{path} has appeared since the inputs were listed, and overlaps {inputs.outputs[0].name}"
    return None


def _new_original_reason(listing: Listing, inputs: CompactionInputs) -> str | None:
    if not inputs.kind.makes_base or any(entry.role is Role.BASE for entry in inputs.directories):
        return None
    seen = {file.path for entry in inputs.directories if entry.role is Role.ORIGINALS for file in entry.files}
    for file in listing.files:
        top = file.path.partition("/")[0]
        is_original = "/" not in file.path or parse_directory(top, ANY_NAMES) is None
        if is_original and not has_hidden_part(file.path) and file.length > 0 and file.path not in seen:
            return f"the original file {file.path} has appeared since the inputs were listed"
    return None
