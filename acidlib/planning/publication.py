"""What lies at a place and makes a publication obsolete that a dead run has recorded and not finished."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from acidlib.model.names import BaseDir, DeltaDir, Generation, parse_directory


def covering(
    there: Iterable[str], recorded: Collection[str], inputs: Collection[str], *, uncommitted: bool = False
) -> tuple[str | None, str | None]:
    """Return the first base, and the first delta, that make all recorded directories obsolete.

    there        names of the directories at the place
    recorded     names of the directories of the publication, visible or not
    inputs       relative paths of what these were made of, which cover nothing
    uncommitted  a base with a visibility suffix counts, too

    A base covers recorded deltas up to its write id, and a base below it (Hive AcidUtils.getAcidState). One with a
    visibility suffix does not count by itself: whether its transaction was committed is not known here. A delta of
    either kind covers deltas within its range. It counts with a suffix, too, as what has merged a half that readers see
    lacks the other half, whatever became of its transaction.
    """
    own = [parsed for name in recorded if (parsed := parse_directory(name, Generation.HIVE4)) is not None]
    deltas = [parsed for parsed in own if isinstance(parsed, DeltaDir)]
    if not own:
        return None, None
    # a base of the write id of a recorded one is no newer
    least = max(one.max_write_id if isinstance(one, DeltaDir) else one.write_id + 1 for one in own)
    base = delta = None
    for name in there:
        if name in recorded or name in inputs:
            continue
        found = parse_directory(name, Generation.HIVE4)
        if isinstance(found, BaseDir) and found.write_id >= least and (uncommitted or not found.visibility_txn):
            base = base or name
        within = isinstance(found, DeltaDir) and all(
            found.min_write_id <= one.min_write_id and one.max_write_id <= found.max_write_id for one in deltas
        )
        if within and len(deltas) == len(own):
            delta = delta or name
    return base, delta
