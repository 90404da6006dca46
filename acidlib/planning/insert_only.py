"""Insert-only tables: what of them may be joined, and which files come of it.

Rows have no ids and nothing is ever deleted, so a compaction gathers the files of the directories that are committed.
Files of one bucket number become one where their format allows it without looking at a value: ORC by stripes, Parquet
by row groups, text by lines. Others are copied as they are, under names of their own. The order of files is kept.

Source: Hive `CompactorMR.runMmCompaction` (3.1), `MmMajorQueryCompactor` and `MergeCompactor` (4) for what is read and
for the names of results; `Utilities.getBucketedTableFileName` for numbers in names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from acidlib.model.generation import Generation
from acidlib.model.location import Location
from acidlib.model.names import OriginalFile
from acidlib.model.tables import Storage
from acidlib.model.units import DataFile, JoinFacts, JoinUnit, JoinWay, RewriteSettings
from acidlib.planning.eligible import ORC_INPUT_FORMAT
from acidlib.planning.inputs import CompactionInputs

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
