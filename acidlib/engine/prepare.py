"""From a target and its one listing to a plan's inputs: its state computed once, before any output exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from acidlib.engine.target import FULL, ListedPlace, Target
from acidlib.engine.tasks import Look
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.names import SIDE_FILE_SUFFIX
from acidlib.model.requests import CompactionType
from acidlib.model.units import DataFile, FileForm, JoinUnit, RewriteSettings, Unit
from acidlib.orc.hive_types import parse_row_type
from acidlib.orc.proto import MAGIC
from acidlib.orc.schema import is_acid
from acidlib.orc.source import DataFiles
from acidlib.planning.inputs import CompactionInputs, Refusal, Role, compaction_inputs
from acidlib.planning.insert_only import input_files, join_units, ways_of
from acidlib.planning.units import FileFacts, compaction_units, deciding_files, delete_files
from acidlib.rewrite.inputs import tail_of
from acidlib.settings import Settings
from acidlib.storage.datafiles import LocalDataFiles
from acidlib.storage.filesystem import FileSystem
from acidlib.storage.listing import flush_length

_FORMATS = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"SEQ": "a sequence file", b"RCF": "RCFile"}
"""Formats by the first bytes of their files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The inputs of one compaction, and all they were derived from."""

    place: ListedPlace
    inputs: CompactionInputs
    lengths: dict[str, int]
    without_rows: frozenset[str]

    def looks(self) -> tuple[Look, ...]:
        """What has to be looked into before units are known: delete files, or all files of an insert-only table."""
        target = self.place.target
        if target.is_insert_only:
            ways = ways_of(target.storage, target.properties)
            return tuple(Look(file=file, ways=ways) for file in input_files(self.inputs, target.location))
        return tuple(Look(file=file) for file in delete_files(self.inputs, target.location, self.lengths))

    def units(
        self, found: Mapping[str, Any], settings: RewriteSettings, common: Settings
    ) -> tuple[Unit, ...] | tuple[JoinUnit, ...]:
        """The files to make. `found`: what each look told, by absolute path; `common`: the settings of the run."""
        target, generation = self.place.target, self.place.generation
        settings = target.rewrite_settings(settings, generation)
        if target.is_insert_only:
            return join_units(self.inputs, found, location=target.location, generation=generation, settings=settings)
        prefix = f"{target.location}/"
        facts = FileFacts(
            lengths=self.lengths,
            delete_buckets={path.removeprefix(prefix): buckets for path, buckets in found.items()},
            without_rows=self.without_rows,
        )
        return compaction_units(
            self.inputs,
            facts,
            location=target.location,
            generation=generation,
            write_ids=self.place.write_ids.for_compactor(),
            settings=settings,
            matching=target.matching(common, generation),
            row_type=target.row_type(),
        )


def prepare(
    fs: FileSystem,
    place: ListedPlace,
    kind: CompactionType,
    *,
    minor_as_major_bytes: int,
    automatic: bool,
) -> Prepared | Refusal:
    """What a compaction of a place, as it is listed, would read and write, or why there is none.

    automatic  an initiator asked for it, nobody by name

    RefusedError for what no compaction can be made of until its owner changes it.
    """
    target = place.target
    columns = None if target.is_insert_only else target.row_type()
    if columns is not None:
        parse_row_type(columns, where=target.name)  # what cannot be written is refused before anything is read
    understood = target.understanding
    inputs = compaction_inputs(
        place.state,
        place.listing,
        kind,
        generation=place.generation,
        visibility_txn=understood.visibility_txn,
        visible_on_commit=understood.visible_on_commit,
        minor_as_major_bytes=minor_as_major_bytes,
        insert_only=target.is_insert_only,
        automatic=automatic,
    )
    if isinstance(inputs, Refusal):
        unproven = inputs.cleaning_only and not (target.is_insert_only or _holds_events(place))
        return replace(inputs, cleaning_only=False) if unproven else inputs
    lengths: dict[str, int] = {}
    without_rows: frozenset[str] = frozenset()
    if not target.is_insert_only:
        lengths = _logical_lengths(fs, target, inputs)
        _prove_full_acid(target, inputs, lengths)
        if columns is None:
            without_rows = newest_without_rows(deciding_files(inputs, target.location, lengths), LocalDataFiles())
    return Prepared(place=place, inputs=inputs, lengths=lengths, without_rows=without_rows)


def newest_without_rows(files: Iterable[DataFile], data: DataFiles) -> frozenset[str]:
    """The paths of the first of these files, up to the one that has rows: mostly none, for one look."""
    return frozenset(
        file.path for file in takewhile(lambda file: not tail_of(file.path, file.length, data).rows, files)
    )


def _logical_lengths(fs: FileSystem, target: Target, inputs: CompactionInputs) -> dict[str, int]:
    lengths = {}
    for directory in inputs.directories:
        for file in directory.files:
            if file.side_file is None:
                continue
            try:
                lengths[file.path] = flush_length(fs, f"{target.location}/{file.side_file}", file.length)
            except CorruptError:
                if not directory.wholly_aborted:
                    raise
                lengths[file.path] = 0  # its writer died before it noted a length, and nobody wants its rows
        for side in () if directory.wholly_aborted else directory.lone_side_files:
            data = side.removesuffix(SIDE_FILE_SUFFIX)
            if flush_length(fs, f"{target.location}/{side}", 1 << 62):
                raise CorruptError(f"Cannot compact {target.location}: because {side} is there and {data} is missing")
    return lengths


def _holds_events(place: ListedPlace) -> bool:
    """Whether a file proves the table full ACID, or the caller says so: else nothing of it may be removed either."""
    if place.target.understanding.table_kind == FULL:
        return True
    for file in place.listing.files:
        if file.length and file.name.startswith("bucket_") and not file.name.endswith(SIDE_FILE_SUFFIX):
            try:
                return _has_acid_columns(place.target, file.path, file.length)
            except AcidError:
                return False
    return False


def _has_acid_columns(target: Target, path: str, length: int) -> bool:
    return is_acid(tail_of(f"{target.location}/{path}", length, LocalDataFiles()).root)


def _prove_full_acid(target: Target, inputs: CompactionInputs, lengths: dict[str, int]) -> None:
    """Refuse what is not proven to hold ACID events: the engine must not treat an insert-only table as another."""
    files = [
        (file, directory)
        for directory in inputs.directories
        for file in directory.files
        if directory.role is not Role.DELETE_DELTA or file.form is FileForm.EVENTS
    ]
    for file, directory in files:
        length = lengths.get(file.path, file.length)
        if file.form is FileForm.EVENTS and length and not directory.wholly_aborted:
            if _has_acid_columns(target, file.path, length):
                return
            raise RefusedError(
                f"Cannot compact {target.name}: because {file.path} has no ACID columns; if the table is insert-only, "
                "give --table-kind insert-only"
            )
    if target.understanding.table_kind == FULL:
        first = next((file for file, _ in files if file.length), None)
        if first is not None:
            _refuse_other_formats(target, first.path, first.length)
    elif files:
        raise RefusedError(
            f"Cannot compact {target.name}: because no file proves whether the table is full ACID or insert-only; give "
            "--table-kind"
        )


def _refuse_other_formats(target: Target, path: str, length: int) -> None:
    """Rows of a table that is said to be full ACID can only be in ORC files."""
    source = LocalDataFiles().open(f"{target.location}/{path}", length)
    try:
        head = source.read(0, min(length, 4))
    finally:
        source.close()
    cannot, instead = (
        f"Cannot compact {target.name}: because",
        "if the table is insert-only, give --table-kind insert-only",
    )
    found = next((name for magic, name in _FORMATS.items() if head.startswith(magic)), None)
    if found is not None:
        raise RefusedError(f"{cannot} {path} is {found}, and a full ACID table is ORC; {instead}")
    if not head.startswith(MAGIC):
        raise CorruptError(f"{cannot} {path} does not begin as an ORC file does; {instead}")
