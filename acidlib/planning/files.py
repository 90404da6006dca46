"""From the inputs of a compaction to its units of work: one per file to be made, of full ACID and of insert-only
tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from acidlib.model.listing import Listing, has_hidden_part
from acidlib.model.location import Location
from acidlib.model.names import BucketFile, DeltaDir, Generation, OriginalFile, parse_file
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.model.tables import Storage
from acidlib.model.units import ColumnMatching, DataFile, JoinFacts, JoinUnit, JoinWay, RewriteSettings, Unit
from acidlib.planning.initiate import ORC_INPUT_FORMAT
from acidlib.planning.inputs import CompactionInputs, InputDirectory, Role

# --- units ------------------------------------------------------------------------------------------------------------
# From the inputs of a compaction to its units of work: one per bucket file to be made.
#
# Source: Hive `CompactorMR` (one task per bucket number) and `OrcRawRecordMerger`. Differences, on purpose: delete
# events go to the bucket that their key decodes to, in whichever file they lay (Hive 3.1's minor compaction copies all
# of them into every bucket file of an unbucketed table, and then cannot read the result).


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


# --- insert only ------------------------------------------------------------------------------------------------------
# Insert-only tables: what of them may be joined, and which files come of it.
#
# Rows have no ids and nothing is ever deleted, so a compaction gathers the files of the directories that are committed.
# Files of one bucket number become one where their format allows it without looking at a value: ORC by stripes, Parquet
# by row groups, text by lines. Others are copied as they are, under names of their own. The order of files is kept.
#
# Source: Hive `CompactorMR.runMmCompaction` (3.1), `MmMajorQueryCompactor` and `MergeCompactor` (4) for what is read
# and for the names of results; `Utilities.getBucketedTableFileName` for numbers in names.

PARQUET_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
TEXT_INPUT_FORMAT = "org.apache.hadoop.mapred.TextInputFormat"
ONE_PER_FILE = ("skip.header.line.count", "skip.footer.line.count")
"""Table properties that say something of each single file, so that text files may not be joined."""

_WAYS = {
    ORC_INPUT_FORMAT: JoinWay.STRIPES,
    PARQUET_INPUT_FORMAT: JoinWay.ROW_GROUPS,
    TEXT_INPUT_FORMAT: JoinWay.LINES,
}


def ways_of(storage: Storage | None, properties: Mapping[str, str]) -> frozenset[JoinWay]:
    """How files of a table or partition may be joined, by what a metastore says of it.

    Without a metastore (None) a file shows by itself that it is ORC or Parquet; nothing shows that one is text without
    header lines.
    """
    if storage is None:
        return frozenset({JoinWay.STRIPES, JoinWay.ROW_GROUPS})
    way = _WAYS.get(storage.input_format or "")
    if way is None or (way is JoinWay.LINES and any(properties.get(key, "0").strip() != "0" for key in ONE_PER_FILE)):
        return frozenset()
    return frozenset({way})


def input_files(inputs: CompactionInputs) -> tuple[DataFile, ...]:
    """The files whose rows stay, in order: none of a directory whose write ids are all aborted."""
    return tuple(file for directory in inputs.directories for file in directory.files if not file.aborted)


def join_units(
    inputs: CompactionInputs,
    facts: Mapping[str, JoinFacts],
    *,
    location: Location,
    generation: Generation,
    settings: RewriteSettings,
) -> tuple[JoinUnit, ...]:
    """The files to make. `facts` of each input, by its path.

    A bucket's first file is named as Hive's writers name it, further ones as Hive names copies of it.
    """
    groups: list[_Group] = []
    latest: dict[tuple[int, JoinWay, str], _Group] = {}
    for file in input_files(inputs):
        found = facts[file.path]
        key = (file.bucket, found.way, file.path if found.way is JoinWay.WHOLE else found.group_key)
        if key not in latest or latest[key].share + found.share > 1:
            latest[key] = _Group(facts=found)
            groups.append(latest[key])
        latest[key].files.append(file)
        latest[key].share += found.share
    copies: dict[int, Iterator[int]] = defaultdict(count)
    (output,) = inputs.outputs
    return tuple(
        JoinUnit(
            location=location,
            directory=output.path,
            file_name=_name(group.files[0], next(copies[group.files[0].bucket])),
            bucket=group.files[0].bucket,
            way=group.facts.way,
            inputs=tuple(group.files),
            generation=generation,
            settings=settings,
            reason=group.facts.reason,
        )
        for group in groups
    )


@dataclass(slots=True)
class _Group:
    """Files that become one; `share` of what it may hold."""

    facts: JoinFacts
    files: list[DataFile] = field(default_factory=list)
    share: float = 0.0


def extension(path: str) -> str:
    """What follows the last dot of a file's name, with the dot: by it Hadoop chooses the codec of text."""
    _, dot, rest = path.rpartition("/")[2].rpartition(".")
    return dot + rest if dot else ""


def _name(first: DataFile, copy: int) -> str:
    return OriginalFile(bucket=first.bucket, copy=copy or None).name + extension(first.path)
