"""Carrying out one unit: plan it from its inputs' keys, write the result, prove it by reading it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from acidlib.errors import RefusedError
from acidlib.model.rowid import Key
from acidlib.model.units import StripeAction, Unit, UnitResult
from acidlib.orc.alignment import Alignment, align, has_names, names_agree, names_note
from acidlib.orc.hive_types import parse_row_type
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.schema import TypeNode, acid_tree, row_struct
from acidlib.orc.source import DataFiles, SinkFile
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.planning.stripes import plan_stripes
from acidlib.points import Point, passing
from acidlib.rewrite.acid_footer import acid_metadata
from acidlib.rewrite.deletes import DeleteEvents, read_deletes
from acidlib.rewrite.filters import filter_sizes, plan_filters
from acidlib.rewrite.graft import copy_unchanged, graft
from acidlib.rewrite.inputs import InputFiles, OpenInput, OpenInputs, open_inputs
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.output import Proof, file_options, new_file, removed_on_error, result_of_actions
from acidlib.rewrite.readback import read_back
from acidlib.rewrite.recode import KeptRows, encode_deletes, encode_rows
from acidlib.rewrite.rows import RowStripe, kept_rows, row_masks, row_stripes

Clock = Callable[[], float]

EVENTS_PER_STRIPE = 2_000_000
"""Delete events of one stripe: about 64 MB decoded."""


def run_unit(unit: Unit, data: DataFiles, path: str | None, clock: Clock) -> UnitResult:
    """Make the unit's file at `path`, which must not exist; with `path` None only plan it.

    The result says what was done, stripe by stripe. Raises AcidError; then no file is left at `path`.
    clock: seconds, monotonic.
    """
    start = clock()
    place = InputFiles(unit.location, data)
    result = _run_deletes(unit, place, data, path) if unit.is_delete else _run_rows(unit, place, data, path)
    passing(Point.PROVED)
    return replace(result, seconds=clock() - start)


# --- rows ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Written:
    """What is gathered while a file is written: keys of each stripe, which are copies, and rows that were deleted."""

    last_keys: list[Key] = field(default_factory=list)
    first_keys: list[Key] = field(default_factory=list)
    copied: set[int] = field(default_factory=set)
    matched: int = 0


def _run_rows(unit: Unit, place: InputFiles, data: DataFiles, path: str | None) -> UnitResult:
    deletes, deleted = delete_set(unit, place)
    with open_bucket(unit, place) as bucket:
        stripes, actions, options = plan_rows(unit, bucket, deleted)
        result = planned_result(unit, bucket, actions, deletes)
        if path is None or (not result.rows_out and not unit.keep_empty):
            return result
        by_facts = {(stripe.facts.file, stripe.facts.number): stripe for stripe in stripes}
        with new_file(data, path) as sink:
            written = _write_rows(sink, unit, options, actions, by_facts, deleted)
    with removed_on_error(sink):
        prove_rows(unit, data, sink, actions, written, deleted)
    return replace(result, path=path, length=sink.position)


def delete_set(unit: Unit, place: InputFiles) -> tuple[DeleteEvents | None, Keys]:
    """The delete events of the bucket, and the keys that they delete; none in a minor compaction."""
    if not unit.collapse:
        return None, Keys.empty()
    with open_inputs(unit.deletes, place) as inputs:
        deletes = read_deletes(inputs, unit.bucket, unit.write_ids)
    return deletes, deletes.deleted_keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBucket:
    """The open inputs of a bucket, how their columns fill the table's, and the options of the result.

    notes  what people should know of how columns were found
    """

    inputs: OpenInputs
    alignments: tuple[Alignment, ...]
    options: FileOptions
    notes: tuple[str, ...]


@contextmanager
def open_bucket(unit: Unit, place: InputFiles) -> Iterator[OpenBucket]:
    """Open all inputs of a unit of rows."""
    with open_inputs(unit.inputs, place) as inputs:
        target_row = result_row(unit, place)
        inputs, alignments = _aligned(inputs, target_row, unit, place)
        yield OpenBucket(
            inputs=inputs,
            alignments=alignments,
            options=file_options(
                acid_tree(target_row), [file.tail for file in inputs.files], unit.generation, unit.settings
            ),
            notes=_notes(inputs, target_row, unit),
        )


def result_row(unit: Unit, place: InputFiles) -> TypeNode:
    """The table's columns where they are stated, else those of the unit's `schema` file."""
    if unit.row_type is None:
        return row_struct(place.tail(unit.schema).root)
    return parse_row_type(unit.row_type, where=place.full_path(unit.schema))


def _aligned(
    inputs: OpenInputs, target_row: TypeNode, unit: Unit, place: InputFiles
) -> tuple[OpenInputs, tuple[Alignment, ...]]:
    """How the columns of every input fill the table's.

    A writer that was aborted may have known of columns that no committed file has. Its rows are left out anyway, so a
    file of it whose columns do not fit counts as empty.
    """
    files, alignments, empty = [], [], list(inputs.empty)
    for file in inputs.files:
        try:
            alignments.append(_alignment(target_row, file, unit, place))
            files.append(file)
        except RefusedError:
            if not file.file.aborted:
                raise
            empty.append(file.tail.name)
    return OpenInputs(files=tuple(files), empty=tuple(empty)), tuple(alignments)


def _alignment(target_row: TypeNode, file: OpenInput, unit: Unit, place: InputFiles) -> Alignment:
    """How a file's columns fill the table's; RefusedError for a difference that could change values.

    Where the table's columns are not stated, other names are refused too: it is not known which are the table's.
    """
    row, where = file.row, file.tail.name
    if unit.row_type is None and not names_agree(target_row, row, named=has_names(row)):
        raise RefusedError(
            f"Cannot compact {where}: because its columns are {row} and those of {place.full_path(unit.schema)} are "
            f"{target_row}, and nothing tells which are the table's; state them with --columns 'name type, ...'"
        )
    return align(target_row, row, where=where, generation=unit.generation, matching=unit.matching)


def _notes(inputs: OpenInputs, target_row: TypeNode, unit: Unit) -> tuple[str, ...]:
    notes = (names_note(target_row, file.row, unit.matching) for file in inputs.files)
    return tuple(dict.fromkeys(note for note in notes if note is not None))


def plan_rows(
    unit: Unit, bucket: OpenBucket, deleted: Keys
) -> tuple[tuple[RowStripe, ...], tuple[StripeAction, ...], FileOptions]:
    """The stripes in the order of their keys, what becomes of them, and the result's options with bloom filters."""
    stripes = in_key_order(row_stripes(bucket.inputs.files, bucket.alignments, deleted, unit.write_ids, bucket.options))
    facts, filtered = plan_filters(stripes, bucket.options.root, unit.settings)
    actions = plan_stripes(facts, unit.settings)
    filters = filter_sizes(stripes, filtered, actions, bucket.options, unit.generation, unit.settings)
    return stripes, actions, replace(bucket.options, filters=filters)


def in_key_order(stripes: tuple[RowStripe, ...]) -> tuple[RowStripe, ...]:
    """Stripes by their keys. They come that way unless file names say otherwise than their rows."""
    if _interleaving(stripes) is None:
        return stripes
    ordered = tuple(sorted(stripes, key=lambda stripe: stripe.keys.first_key()))
    pair = _interleaving(ordered)
    if pair is not None:
        before, after = pair
        raise RefusedError(
            f"Cannot compact {after.file.tail.name}: the row ids of its stripe {after.facts.number} interleave with "
            f"stripe {before.facts.number} of {before.file.tail.name}; leave it to Hive's own compactor"
        )
    return ordered


def _interleaving(stripes: Sequence[RowStripe]) -> tuple[RowStripe, RowStripe] | None:
    """The first neighbours whose keys do not ascend. Bounds decide where they can, else the keys themselves."""
    for before, after in pairwise(stripes):
        if before.keys.key_range()[1] >= after.keys.key_range()[0] and before.keys.last_key() >= after.keys.first_key():
            return before, after
    return None


def planned_result(
    unit: Unit, bucket: OpenBucket, actions: Sequence[StripeAction], deletes: DeleteEvents | None
) -> UnitResult:
    """The result of a unit as it is known before anything is written."""
    inputs = bucket.inputs
    result = replace(result_of_actions(unit, actions, inputs.files), empty_files=inputs.empty, notes=bucket.notes)
    if deletes is None:
        return result
    return replace(
        result,
        events_in=deletes.events_in,
        events_aborted=deletes.aborted,
        duplicate_events=deletes.duplicates,
        empty_files=inputs.empty + deletes.empty_files,
    )


def _write_rows(
    sink: SinkFile,
    unit: Unit,
    options: FileOptions,
    actions: Sequence[StripeAction],
    stripes: dict[tuple[int, int], RowStripe],
    deleted: Keys,
) -> Written:
    writer = OrcWriter(sink, options)
    written = Written()
    for action in actions:
        members = [stripes[fact.file, fact.number] for fact in action.stripes]
        if action.copy:
            copy_one(writer, members[0], written)
        else:
            recode_stripes(writer, members, written, options, unit, deleted)
        passing(Point.WRITTEN)
    writer.finish(acid_metadata(written.last_keys, inserts=rows_kept(actions), deletes=0))
    return written


def rows_kept(actions: Iterable[StripeAction]) -> int:
    """The rows that stay of all stripes."""
    return sum(fact.kept for action in actions for fact in action.stripes)


def copy_one(writer: OrcWriter, stripe: RowStripe, written: Written) -> None:
    """Append a stripe as it is, or column by column; what is added then is checked like a rewritten stripe's."""
    if stripe.facts.regroup is not None:
        graft(writer, stripe.file, stripe.keys, stripe.alignment)
    else:
        written.copied.add(writer.stripes)
        copy_unchanged(writer, stripe.file, stripe.facts.number)
    low = stripe.keys.key_range()[0]
    if written.last_keys and low <= written.last_keys[-1]:
        low = stripe.keys.first_key()
    written.first_keys.append(low)
    written.last_keys.append(stripe.keys.last_key())


def recode_stripes(
    writer: OrcWriter,
    members: Sequence[RowStripe],
    written: Written,
    options: FileOptions,
    unit: Unit,
    deleted: Keys,
) -> None:
    parts = [part for part in (_part(stripe, unit, deleted, written) for stripe in members) if len(part.keys)]
    if not parts:
        return
    timezone = members[0].facts.timezone
    rows = sum(len(part.keys) for part in parts)
    writer.write_stripe(encode_rows(parts, options, timezone), rows=rows, timezone=timezone)
    written.last_keys.append(parts[-1].keys.key(-1))
    written.first_keys.append(parts[0].keys.key(0))


def _part(stripe: RowStripe, unit: Unit, deleted: Keys, written: Written) -> KeptRows:
    deleted_rows, aborted = row_masks(stripe.keys, deleted, unit.write_ids)
    ids = stripe.keys.ids()
    stripe.keys.forget()
    if deleted_rows is not None:
        written.matched += int(np.count_nonzero(deleted_rows if aborted is None else deleted_rows & ~aborted))
    keep = kept_rows(deleted_rows, aborted)
    return KeptRows(
        reader=stripe.file.stripe(stripe.facts.number),
        alignment=stripe.alignment,
        rows=stripe.facts.rows,
        keep=keep,
        keys=ids.keys if keep is None else ids.keys.select(keep),
        current=ids.current if keep is None else filter_values(ids.current, keep),
    )


def prove_rows(
    unit: Unit, data: DataFiles, sink: SinkFile, actions: Sequence[StripeAction], written: Written, deleted: Keys
) -> None:
    """Check the finished file as it lies there: its tail, and the id columns of every rewritten stripe."""
    found = read_back(sink.name, sink.position, data, written.copied, written.last_keys, written.first_keys, deleted)
    facts = [fact for action in actions for fact in action.stripes]
    Proof(
        rows_in=sum(fact.rows for fact in facts),
        rows_deleted=sum(fact.deleted for fact in facts),
        rows_aborted=sum(fact.aborted for fact in facts),
        rows_out=found.rows,
        matched=written.matched,
        found_again=found.found_again,
        ascending=found.ascending,
        stripes=found.stripes,
        index_entries=found.index_entries,
        where=f"{unit.directory}/{unit.file_name}",
    ).check()


# --- delete events --------------------------------------------------------------------------------------------------


def _run_deletes(unit: Unit, place: InputFiles, data: DataFiles, path: str | None) -> UnitResult:
    with open_inputs(unit.inputs, place) as inputs:
        events = read_deletes(inputs, unit.bucket, unit.write_ids)
        tails = [file.tail for file in inputs.files]
    length = sum(file.length for file in unit.inputs)
    result = UnitResult(
        directory=unit.directory,
        file_name=unit.file_name,
        bucket=unit.bucket,
        is_delete=True,
        path=None,
        length=0,
        events_in=events.events_in,
        events_aborted=events.aborted,
        duplicate_events=events.duplicates,
        events_out=len(events.keys),
        bytes_rewritten=length,
        stripes_rewritten=sum(len(tail.stripes) for tail in tails),
        empty_files=events.empty_files,
    )
    if path is None or (not len(events.keys) and not unit.keep_empty):
        return result
    root = acid_tree(result_row(unit, place))
    options = file_options(root, tails, unit.generation, unit.settings)
    with new_file(data, path) as sink:
        last_keys = _write_events(sink, events, options)
    with removed_on_error(sink):
        _prove_events(unit, data, sink, last_keys, events)
    return replace(result, path=path, length=sink.position)


def _write_events(sink: SinkFile, events: DeleteEvents, options: FileOptions) -> list[Key]:
    writer = OrcWriter(sink, options)
    last_keys = []
    for part in _slices(len(events.keys), EVENTS_PER_STRIPE):
        keys = events.keys.select(part)
        writer.write_stripe(encode_deletes(keys, events.current[part], options), rows=len(keys), timezone="UTC")
        last_keys.append(keys.key(-1))
    writer.finish(acid_metadata(last_keys, inserts=0, deletes=len(events.keys)))
    return last_keys


def _slices(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def _prove_events(unit: Unit, data: DataFiles, sink: SinkFile, last_keys: list[Key], events: DeleteEvents) -> None:
    found = read_back(sink.name, sink.position, data, set(), last_keys, [], Keys.empty(), events=events)
    Proof(
        rows_in=events.events_in,
        rows_deleted=events.duplicates,
        rows_aborted=events.aborted,
        rows_out=found.rows,
        matched=events.duplicates,
        found_again=0,
        ascending=found.ascending,
        stripes=found.stripes,
        index_entries=found.index_entries,
        where=f"{unit.directory}/{unit.file_name}",
    ).check()
