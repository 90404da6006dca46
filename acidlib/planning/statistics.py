"""The basic statistics of a place: what its parameters in the metastore should say of its files and rows.

Source: Hive `StatsUpdater` of the compactor (ANALYZE ... NOSCAN), `BasicStatsTask`, `AcidUtils.getAcidFilesForStats`;
names are those of `StatsSetupConst`. A compaction changes no row, so nothing that is claimed of rows becomes right or
wrong by it: `COLUMN_STATS_ACCURATE`, which lets `count(*)` be answered, and column statistics stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from acidlib.model.listing import Listing, has_hidden_part
from acidlib.planning.state import AcidState

FILES, BYTES, ROWS = "numFiles", "totalSize", "numRows"
_ACCURATE, _BASIC = "COLUMN_STATS_ACCURATE", "BASIC_STATS"


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicStatistics:
    """What readers find at a place: files, their bytes, and rows where the compaction has counted all of them."""

    files: int
    bytes: int
    rows: int | None


def basic_statistics(
    state: AcidState, listing: Listing, *, results: Collection[str], rows: int | None
) -> BasicStatistics:
    """Return what a reader finds by this state of the listing.

    `rows` are those that the compaction wrote into its `results`; they are all there are where a reader reads nothing
    but one of these.
    """
    base = None if state.base is None else state.base.path
    directories = {base, *(delta.path for delta in state.deltas)}
    originals = set(state.originals)
    read = [
        file.length
        for file in listing.files
        if file.path in originals or (file.path.partition("/")[0] in directories and not has_hidden_part(file.path))
    ]
    is_all = base in results and not state.deltas and not originals
    return BasicStatistics(files=len(read), bytes=sum(read), rows=rows if is_all else None)


def changes(parameters: Mapping[str, str], found: BasicStatistics) -> dict[str, str]:
    """Return the parameters that have to be changed, with their new values.

    The number of rows is left alone where it is claimed to be accurate: then it was right before, and is.
    """
    wanted = {FILES: str(found.files), BYTES: str(found.bytes)}
    if found.rows is not None and not _claims_rows(parameters):
        wanted[ROWS] = str(found.rows)
    return {key: value for key, value in wanted.items() if parameters.get(key) != value}


def _claims_rows(parameters: Mapping[str, str]) -> bool:
    """Return whether the basic statistics are claimed to be accurate (Hive `StatsSetupConst.areBasicStatsUptoDate`)."""
    text = parameters.get(_ACCURATE)
    if text is None:
        return False
    try:
        claimed = json.loads(text)
    except ValueError:
        return True  # as old servers write it, or another: what is not understood may be a claim
    return not isinstance(claimed, dict) or str(claimed.get(_BASIC, "")).lower() == "true"
