"""Judging a publication that a dead run has recorded and not finished, by names of directories alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from acidlib.acid.names import ANY_NAMES, BaseDir, DeltaDir, parse_directory


def unexplained(recorded: Iterable[str], inputs: Iterable[str]) -> str | None:
    """Return why the inputs of a publication cannot have led to the recorded directories; None where they can.

    inputs  relative paths of files and directories

    A delta covers the write ids of its inputs. A base has at most their highest one, or is made of original files.
    """
    ranges, inputs = [], tuple(inputs)
    if not inputs:
        return "it names no input"
    for path in inputs:
        parsed = parse_directory(path.partition("/")[0], ANY_NAMES)
        if parsed is not None:
            ranges.append(_range(parsed))
    for name in recorded:
        result = parse_directory(name, ANY_NAMES)
        if result is None:
            return f"{name} is not the name of a base, delta or delete_delta"
        first, last = _range(result)
        is_base = isinstance(result, BaseDir)
        if ranges and last > max(high for _, high in ranges):
            return f"no input of {name} has so high a write id"
        if not is_base and (not ranges or first < min(low for low, _ in ranges)):
            return f"no input of {name} has so low a write id"
    return None


def _range(directory: BaseDir | DeltaDir) -> tuple[int, int]:
    """Return the lowest and the highest write id in a directory, as far as its name tells."""
    if isinstance(directory, BaseDir):
        return 0, directory.write_id
    return directory.min_write_id, directory.max_write_id


def covering(
    there: Iterable[str], recorded: Collection[str], inputs: Collection[str], *, uncommitted: bool = False
) -> tuple[str | None, str | None]:
    """Return the first base, and the first delta, that make all recorded directories obsolete.

    there        names of the directories at the place
    recorded     names of the directories of the publication, visible or not
    inputs       relative paths of their inputs, which cover nothing
    uncommitted  a base with a visibility suffix counts, too

    A base covers recorded deltas up to its write id, and a base below it (Hive AcidUtils.getAcidState). A base with a
    visibility suffix does not count by itself: whether its transaction was committed is not known here. A delta of
    either kind covers deltas within its range. It counts with a suffix, too: if it was made of a visible half, it lacks
    the other half, whether or not its transaction was committed.
    """
    own = [parsed for name in recorded if (parsed := parse_directory(name, ANY_NAMES)) is not None]
    deltas = [directory for directory in own if isinstance(directory, DeltaDir)]
    if not own:
        return None, None
    # a base of the write id of a recorded base is no newer
    least = max(item.max_write_id if isinstance(item, DeltaDir) else item.write_id + 1 for item in own)
    base = delta = None
    for name in there:
        if name in recorded or name in inputs:
            continue
        other = parse_directory(name, ANY_NAMES)
        if isinstance(other, BaseDir) and other.write_id >= least and (uncommitted or not other.visibility_txn):
            base = base or name
        within = isinstance(other, DeltaDir) and all(
            other.min_write_id <= item.min_write_id and item.max_write_id <= other.max_write_id for item in deltas
        )
        if within and len(deltas) == len(own):
            delta = delta or name
    return base, delta
