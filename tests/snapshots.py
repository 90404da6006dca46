"""Snapshots of places on this machine's disks, read without a metastore and without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from located import at

from acidlib.model.names import Generation
from acidlib.model.requests import CompactionType
from acidlib.model.snapshots import ValidWriteIdList, all_committed
from acidlib.model.units import ColumnMatching
from acidlib.planning.inputs import directories_read
from acidlib.planning.state import acid_state
from acidlib.scan.splits import Split, place_splits
from acidlib.service.plan import with_logical_lengths
from acidlib.stores.listing import list_location
from acidlib.stores.stores import Stores


def splits_of(
    path: Path,
    write_ids: str = "",
    *,
    generation: int = 3,
    partition: str | None = None,
    matching: ColumnMatching | None = None,
    insert_only: bool = False,
    split_bytes: int = 128 << 20,
) -> tuple[Split, ...]:
    """The splits of a table or partition for a reader's list of write ids; blank for everything."""
    location, stores, hive = at(path), Stores(), Generation(generation)
    ids = ValidWriteIdList.parse(write_ids) if write_ids else all_committed(None)
    listing = list_location(stores.fs(location), location)
    state = acid_state(listing, ids, generation=hive, ignore_empty_files=True)
    directories = directories_read(state, listing, CompactionType.MAJOR, insert_only=insert_only)
    return place_splits(
        with_logical_lengths(stores.fs(location), location, directories),
        location=location,
        partition=partition,
        write_ids=ids,
        generation=hive,
        matching=matching or ColumnMatching.of(hive),
        split_bytes=split_bytes,
    )


def schema_of(fields: Sequence[tuple[str, pa.DataType]], *, row_ids: bool = False) -> pa.Schema:
    """The schema of a result, with row ids if they are asked for."""
    ids = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])
    return pa.schema([*([("row__id", ids)] if row_ids else []), *fields])
