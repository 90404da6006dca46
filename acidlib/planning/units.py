"""From the inputs of a compaction to its units of work: one per bucket file to be made.

Source: Hive `CompactorMR` (one task per bucket number) and `OrcRawRecordMerger`. Differences, on purpose: delete events
go to the bucket that their key decodes to, in whichever file they lay (Hive 3.1's minor compaction copies all of them
into every bucket file of an unbucketed table, and then cannot read the result).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acidlib.model.generation import Generation
from acidlib.model.names import DeltaDir
from acidlib.model.requests import CompactionType
from acidlib.model.units import ColumnMatching, DataFile, RewriteSettings, Unit
from acidlib.model.writeids import ValidWriteIdList
from acidlib.planning.inputs import CompactionInputs, InputDirectory, InputFile, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What only a look into files tells.

    lengths         logical length in bytes of files that have a side file, by relative path
    delete_buckets  the buckets that the events of a delete file decode to, by relative path
    without_rows    absolute paths of files that were found to hold no row, among `deciding_files`
    """

    lengths: Mapping[str, int]
    delete_buckets: Mapping[str, frozenset[int]]
    without_rows: frozenset[str] = frozenset()


def data_file(location: str, directory: InputDirectory, file: InputFile, lengths: Mapping[str, int]) -> DataFile:
    """A planned input as a unit opens it."""
    return DataFile(
        path=f"{location}/{file.path}",
        directory=directory.path,
        length=lengths.get(file.path, file.length),
        bucket=file.bucket,
        form=file.form,
        write_id=directory.synthetic_write_id,
        statement_id=directory.synthetic_statement,
        aborted=directory.wholly_aborted,
    )


def delete_files(inputs: CompactionInputs, location: str, lengths: Mapping[str, int]) -> tuple[DataFile, ...]:
    """The inputs that hold delete events, in order."""
    return tuple(
        data_file(location, directory, file, lengths)
        for directory in inputs.directories
        if directory.role is Role.DELETE_DELTA
        for file in directory.files
    )


def deciding_files(inputs: CompactionInputs, location: str, lengths: Mapping[str, int]) -> tuple[DataFile, ...]:
    """The files that may tell the table's columns where nobody else does, the newest first; the first with rows does.

    A writer without rows need not have known the columns (`struct<>`), and its transaction changed none of them.
    """
    rows, _ = _files(inputs, location, lengths)
    return tuple(file for file in reversed(rows) if file.length and not file.aborted)


def compaction_units(
    inputs: CompactionInputs,
    facts: FileFacts,
    *,
    location: str,
    generation: Generation,
    write_ids: ValidWriteIdList,
    settings: RewriteSettings,
    matching: ColumnMatching,
    row_type: str | None = None,
) -> tuple[Unit, ...]:
    """The units of a compaction, by result directory and bucket.

    By Hive 3's names every bucket number seen in any input gives a file in every result, be it empty, as Hive 3.1 does;
    by Hive 4's only buckets with rows or events give one. A result without any row or event is dropped by whoever
    publishes. Without any data file there is no unit. `row_type`: the table's columns, where
    they are told; `matching`: how its readers find them.
    """
    rows, events = _files(inputs, location, facts.lengths)
    schema = _schema(rows, facts.without_rows) or _schema(events)
    if schema is None:
        return ()
    paths = {file.path: path for path, file in _relative(inputs, location, facts.lengths)}
    routed = {file.path: facts.delete_buckets[paths[file.path]] for file in events}
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
                    directory=output.path,
                    bucket=bucket,
                    is_delete=is_delete,
                    inputs=mine if is_delete else tuple(file for file in rows if file.bucket == bucket),
                    deletes=() if is_delete else mine,
                    collapse=inputs.kind is CompactionType.MAJOR,
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


def _relative(inputs: CompactionInputs, location: str, lengths: Mapping[str, int]) -> list[tuple[str, DataFile]]:
    return [
        (file.path, data_file(location, directory, file, lengths))
        for directory in inputs.directories
        for file in directory.files
    ]


def _files(
    inputs: CompactionInputs, location: str, lengths: Mapping[str, int]
) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    rows = tuple(
        data_file(location, directory, file, lengths)
        for directory in inputs.directories
        if directory.role is not Role.DELETE_DELTA
        for file in directory.files
    )
    return rows, delete_files(inputs, location, lengths)


def _schema(files: tuple[DataFile, ...], without_rows: frozenset[str] = frozenset()) -> DataFile | None:
    """The file with the newest columns: the last that has rows, else any bytes, for inputs come by write id.

    A writer that was aborted may have died before its file was whole, so others are preferred.
    """
    filled = [file for file in reversed(files) if file.length]
    whole = [file for file in filled if not file.aborted]
    return next((file for file in whole if file.path not in without_rows), next(iter(whole or filled), None))
