"""One compaction of one directory, in this process: from its listing to the result in place. No Spark, no claim."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acidlib.engine.prepare import newest_without_rows
from acidlib.model.generation import Generation
from acidlib.model.listing import Listing, highest_write_id
from acidlib.model.names import METADATA_ACID_FILE, ORC_ACID_VERSION_FILE
from acidlib.model.requests import CompactionType
from acidlib.model.units import ColumnMatching, DataFile, FileForm, JoinUnit, JoinWay, RewriteSettings, Unit, UnitResult
from acidlib.model.writeids import ValidWriteIdList, all_committed
from acidlib.planning.inputs import CompactionInputs, Refusal, Role, compaction_inputs
from acidlib.planning.state import acid_state
from acidlib.planning.units import FileFacts, compaction_units, data_file, deciding_files
from acidlib.rewrite.deletes import event_buckets
from acidlib.rewrite.join import run_join
from acidlib.rewrite.unit import run_unit
from acidlib.storage.datafiles import LocalDataFiles
from acidlib.storage.listing import flush_length, list_location
from acidlib.storage.local import LocalFileSystem

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
STAGING = "_tmp_compaction"


class RefusedPlanError(Exception):
    """Planning found nothing to compact; the message is its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What one compaction did: its plan, one result per unit, and the directories that are in place now."""

    inputs: CompactionInputs
    results: tuple[UnitResult, ...]
    directories: tuple[str, ...]


def write_id_list(location: Path | str, text: str, generation: Generation) -> ValidWriteIdList:
    """The list of a text; without one, everything in the directory is committed."""
    if text:
        return ValidWriteIdList.parse(text)
    listing = list_location(LocalFileSystem(), str(location))
    return all_committed("default.t", highest_write_id(listing, generation))


def plan(
    location: Path | str,
    kind: CompactionType,
    write_ids: str = "",
    generation: Generation | int = Generation.HIVE3,
    visibility_txn: int | None = None,
    minor_as_major_bytes: int = 0,
    settings: RewriteSettings | None = None,
    row_type: str | None = None,
    matching: ColumnMatching | None = None,
) -> tuple[CompactionInputs, tuple[Unit, ...]]:
    """The inputs and units of a compaction; raises RefusedPlanError with planning's reason."""
    generation = Generation(generation)
    ids = write_id_list(location, write_ids, generation).for_compactor()
    listing = list_location(LocalFileSystem(), str(location))
    state = acid_state(listing, ids, generation=generation, ignore_empty_files=True)
    inputs = compaction_inputs(
        state,
        listing,
        kind,
        generation=generation,
        visibility_txn=visibility_txn,
        visible_on_commit=visibility_txn is not None,
        minor_as_major_bytes=minor_as_major_bytes,
    )
    if isinstance(inputs, Refusal):
        raise RefusedPlanError(inputs.reason)
    units = compaction_units(
        inputs,
        _facts(listing, inputs),
        location=str(location),
        generation=generation,
        write_ids=ids,
        settings=settings or RewriteSettings(),
        matching=matching or ColumnMatching.of(generation),
        row_type=row_type,
    )
    return inputs, units


def _facts(listing: Listing, inputs: CompactionInputs) -> FileFacts:
    fs, data = LocalFileSystem(), LocalDataFiles()
    lengths = {
        file.path: flush_length(fs, f"{listing.location}/{file.side_file}", file.length)
        for directory in inputs.directories
        for file in directory.files
        if file.side_file is not None
    }
    buckets = {
        file.path: event_buckets(data_file(listing.location, directory, file, lengths), data)
        for directory in inputs.directories
        if directory.role is Role.DELETE_DELTA
        for file in directory.files
    }
    deciding = deciding_files(inputs, listing.location, lengths)
    return FileFacts(lengths=lengths, delete_buckets=buckets, without_rows=newest_without_rows(deciding, data))


def compact_directory(
    location: Path | str,
    kind: CompactionType,
    write_ids: str = "",
    generation: Generation | int = Generation.HIVE3,
    visibility_txn: int | None = None,
    minor_as_major_bytes: int = 0,
    settings: RewriteSettings | None = None,
    row_type: str | None = None,
    matching: ColumnMatching | None = None,
) -> Compacted:
    """Compact one table or partition directory and put the result into place.

    `write_ids` is a reader's list in Hive's format, blank for "all committed". A result without rows or events is left
    out when another has some. Nothing of the result is left when a unit fails; raises RefusedPlanError, AcidError.
    """
    inputs, units = plan(
        location, kind, write_ids, generation, visibility_txn, minor_as_major_bytes, settings, row_type, matching
    )
    staging = Path(location) / STAGING
    for unit in units:
        (staging / unit.directory).mkdir(parents=True, exist_ok=True)
    try:
        results = tuple(
            run_unit(unit, LocalDataFiles(), f"{staging}/{unit.directory}/{unit.file_name}", time.perf_counter)
            for unit in units
        )
        filled = {result.directory for result in results if result.rows_out or result.events_out}
        names = [output for output in inputs.outputs if output.path in filled] or [inputs.outputs[0]]
        for output in names:
            _put_into_place(staging / output.path, Path(location) / output.path, metadata_acid=output.metadata_acid)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Compacted(inputs=inputs, results=results, directories=tuple(output.path for output in names))


def join_plain_files(
    files: Sequence[Path], made: Path, *, settings: RewriteSettings, generation: Generation = Generation.HIVE4
) -> UnitResult:
    """Joins the ORC files of an insert-only table into the file `made`, in the order given."""
    inputs = tuple(
        DataFile(
            path=str(path),
            directory=path.parent.name,
            length=path.stat().st_size,
            bucket=0,
            form=FileForm.ORIGINAL,
        )
        for path in files
    )
    unit = JoinUnit(
        directory=made.parent.name,
        file_name=made.name,
        bucket=0,
        way=JoinWay.STRIPES,
        inputs=inputs,
        generation=generation,
        settings=settings,
    )
    return run_join(unit, LocalDataFiles(), str(made), time.perf_counter)


def _put_into_place(staged: Path, target: Path, *, metadata_acid: bool) -> None:
    staged.mkdir(parents=True, exist_ok=True)
    (staged / ORC_ACID_VERSION_FILE).write_bytes(b"2")
    if metadata_acid:
        (staged / METADATA_ACID_FILE).write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    assert not target.exists()
    staged.rename(target)


def bucket_files(location: Path | str, directories: tuple[str, ...] | list[str]) -> list[Path]:
    """The data files of some directories of a location."""
    return [path for name in directories for path in sorted((Path(location) / name).glob("bucket_*"))]
