"""Aborted write ids whose rows still lie in a directory, where nobody may see them.

While the metastore remembers that a write id is aborted, readers leave its rows out; once it forgets, its rows become
valid. So what is forgotten must be gone from disk first (HIVE-24481).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection

from acidlib.model.generation import Generation
from acidlib.model.listing import Listing
from acidlib.model.names import LONG_MAX, DeltaDir, parse_directory
from acidlib.model.writeids import ValidWriteIdList


def aborted_present(
    listing: Listing,
    write_ids: ValidWriteIdList,
    *,
    generation: Generation,
    up_to: int = LONG_MAX,
    compacted: Collection[str] = (),
) -> tuple[int, ...]:
    """The aborted write ids, at most `up_to`, that lie within the range of a directory that may hold rows of them.

    Delete deltas count: an event of an aborted write id would delete rows. So does the base of an aborted INSERT
    OVERWRITE. What a compactor wrote (a visibility suffix, or a name in `compacted`) does not: it merges only where
    nothing is open any more, and leaves the rows of aborted write ids out.
    """
    ids = write_ids.aborted_ids[: bisect_right(write_ids.aborted_ids, up_to)]
    found: set[int] = set()
    for name in listing.top_directories():
        parsed = parse_directory(name, generation)
        if parsed is None or parsed.visibility_txn or name in compacted:
            continue
        low = parsed.min_write_id if isinstance(parsed, DeltaDir) else parsed.write_id
        high = parsed.max_write_id if isinstance(parsed, DeltaDir) else parsed.write_id
        found.update(ids[bisect_left(ids, low) : bisect_right(ids, high)])
    return tuple(sorted(found))
