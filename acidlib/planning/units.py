"""From the inputs of a compaction to its units of work: one per bucket file to be made.

Source: Hive `CompactorMR` (one task per bucket number) and `OrcRawRecordMerger`. Differences, on purpose: delete events
go to the bucket that their key decodes to, in whichever file they lay (Hive 3.1's minor compaction copies all of them
into every bucket file of an unbucketed table, and then cannot read the result).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from acidlib.model.generation import Generation
from acidlib.model.listing import Listing, has_hidden_part
from acidlib.model.location import Location
from acidlib.model.names import BucketFile, DeltaDir, parse_file
from acidlib.model.units import ColumnMatching, DataFile, RewriteSettings, Unit
from acidlib.model.writeids import ValidWriteIdList
from acidlib.planning.inputs import CompactionInputs, InputDirectory, Role


def row_files(inputs: CompactionInputs) -> tuple[DataFile, ...]:
    """The inputs that hold rows, in order."""
    return _files(inputs.directories, deletes=False)


def delete_files(inputs: CompactionInputs) -> tuple[DataFile, ...]:
    """The inputs that hold delete events, in order."""
    return _files(inputs.directories, deletes=True)


def _files(directories: Sequence[InputDirectory], *, deletes: bool) -> tuple[DataFile, ...]:
    return tuple(file for one in directories if (one.role is Role.DELETE_DELTA) is deletes for file in one.files)


def schema_file(inputs: CompactionInputs, has_rows: Callable[[DataFile], bool]) -> DataFile | None:
    """The file whose columns are the table's where these are not stated; None where no input has any bytes.

    It is the newest with rows, for inputs come by write id: a writer without rows need not have known the columns
    (`struct<>`), and its transaction changed none of them. Without rows it is the newest with any bytes. A writer that
    was aborted may have died before its file was whole, so others are preferred. `has_rows` is asked of the newest file
    first, until it says so of one; mostly that is the first.
    """
    return newest_schema(inputs.directories, has_rows)


def newest_schema(directories: Sequence[InputDirectory], has_rows: Callable[[DataFile], bool]) -> DataFile | None:
    """As `schema_file`, of some directories."""
    filled = [file for file in reversed(_files(directories, deletes=False)) if file.length]
    whole = [file for file in filled if not file.aborted]
    with_rows = next((file for file in whole if has_rows(file)), None)
    events = [file for file in reversed(_files(directories, deletes=True)) if file.length]
    whole_events = [file for file in events if not file.aborted]
    return with_rows or next(iter(whole or filled or whole_events or events), None)


def present_buckets(listing: Listing, inputs: CompactionInputs) -> int:
    """Into how many buckets a place is rebalanced where nobody says it: as many as its bucket files have numbers.

    Source: Hive 4 `RebalanceQueryCompactor`, which counts the files of obsolete directories, too; where there are
    original files alone, which it does not count, these have numbers as well.
    """
    names = (parse_file(file.name) for file in listing.files if not has_hidden_part(file.path))
    numbers = {name.bucket for name in names if isinstance(name, BucketFile)}
    return len(numbers or {file.bucket for file in row_files(inputs)}) or 1


def compaction_units(
    inputs: CompactionInputs,
    *,
    schema: DataFile | None,
    delete_buckets: Mapping[str, frozenset[int]],
    location: Location,
    generation: Generation,
    write_ids: ValidWriteIdList,
    settings: RewriteSettings,
    matching: ColumnMatching,
    row_type: str | None = None,
) -> tuple[Unit, ...]:
    """The units of a compaction, by result directory and bucket.

    schema          as `schema_file` finds it; without one there is no unit
    delete_buckets  the buckets that the events of a delete file decode to, by its path
    row_type        the table's columns, where they are stated
    matching        how the table's readers find its columns

    By Hive 3's names every bucket number seen in any input gives a file in every result, be it empty, as Hive 3.1 does;
    by Hive 4's only buckets with rows or events give one. A result without any row or event is
    not published.
    """
    if schema is None:
        return ()
    rows, events = row_files(inputs), delete_files(inputs)
    routed = {file.path: delete_buckets[file.path] for file in events}
    everywhere = {file.bucket for file in (*rows, *events)}.union(*routed.values())
    keep_empty = generation is Generation.HIVE3
    units = []
    for output in inputs.outputs:
        is_delete = isinstance(output.name, DeltaDir) and output.name.is_delete
        own = set().union(*routed.values()) if is_delete else {file.bucket for file in rows}
        for bucket in sorted(everywhere if keep_empty else own):
            mine = tuple(file for file in events if bucket in routed[file.path])
            units.append(
                Unit(
                    location=location,
                    directory=output.path,
                    bucket=bucket,
                    is_delete=is_delete,
                    inputs=mine if is_delete else tuple(file for file in rows if file.bucket == bucket),
                    deletes=() if is_delete else mine,
                    collapse=inputs.kind.makes_base,
                    schema=schema,
                    generation=generation,
                    keep_empty=keep_empty,
                    write_ids=write_ids,
                    settings=settings,
                    matching=matching,
                    row_type=row_type,
                )
            )
    return tuple(units)
