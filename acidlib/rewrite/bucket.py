"""Making one bucket file: plan it from its inputs' keys, write the result, prove it by reading it back.

A large bucket is made by several tasks: one plans it, each part rewrites some of its stripes, and a last task joins
them. A part is an ORC file of its own with the options of the result, proved as any result is. Joining copies its
stripes. The plan holds all that follows only from all inputs together, so that a part opens no other files than those
whose stripes it rewrites and the delete files that may hold events of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from acidlib.datafiles import DataFiles, SinkFile, SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.model.units import DataFile, Key, KeyRange, StripeAction, StripeFacts, Unit, UnitResult
from acidlib.orc.alignment import Alignment, align, conversions, has_names, names_agree, names_note
from acidlib.orc.columns import Mask
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import GREGORIAN_START_DAYS, Calendar, Compression, Kind
from acidlib.orc.reader import JAVA_WRITER, ORC_135, Tail, read_tail
from acidlib.orc.schema import TypeNode, acid_tree, parse_row_type, row_struct
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.points import Point, passing
from acidlib.rewrite.deletes import DeleteEvents, key_range, overlaps, read_deletes
from acidlib.rewrite.inputs import InputFiles, OpenInput, OpenInputs, acid_metadata, open_input, open_inputs
from acidlib.rewrite.keys import Keys, StripeKeys, aborted_rows
from acidlib.rewrite.output import (
    InputStripe,
    file_options,
    found_filters,
    new_file,
    plan_actions,
    read_back,
    removed_on_error,
    result_columns,
    result_of_actions,
)
from acidlib.rewrite.recode import (
    KeptRows,
    copy_unchanged,
    encode_deletes,
    encode_rows,
    graft,
    has_timestamps,
    regrouped,
)

Clock = Callable[[], float]

EVENTS_PER_STRIPE = 2_000_000
"""Delete events of one stripe: about 64 MB decoded."""

_CALENDAR_KINDS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


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


def _run_rows(unit: Unit, place: InputFiles, data: DataFiles, path: str | None) -> UnitResult:
    deletes, deleted = delete_set(unit, place)
    with open_bucket(unit, place) as bucket:
        stripes, actions, options = plan_rows(unit, bucket, deleted)
        result = planned_result(unit, bucket, actions, deletes)
        if path is None or (not result.rows_out and not unit.keep_empty):
            return result
        by_facts = {(stripe.facts.file, stripe.facts.number): stripe for stripe in stripes}
        with new_file(data, path) as sink:
            writer, written = OrcWriter(sink, options), Written()
            for action in actions:
                members = [by_facts[fact.file, fact.number] for fact in action.stripes]
                if action.copy:
                    copy_one(writer, members[0], written)
                else:
                    recode_stripes(writer, members, written, options, unit, deleted)
                passing(Point.WRITTEN)
            writer.finish(acid_metadata(written.last_keys, inserts=rows_kept(actions), deletes=0))
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
        notes = [names_note(target_row, file.row, unit.matching) for file in inputs.files]
        yield OpenBucket(
            inputs=inputs,
            alignments=alignments,
            options=file_options(
                acid_tree(target_row), [file.tail for file in inputs.files], unit.generation, unit.settings
            ),
            notes=tuple(dict.fromkeys(note for note in notes if note is not None)),
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


def plan_rows(
    unit: Unit, bucket: OpenBucket, deleted: Keys
) -> tuple[tuple[RowStripe, ...], tuple[StripeAction, ...], FileOptions]:
    """The stripes in the order of their keys, what becomes of them, and the result's options with bloom filters."""
    stripes = in_key_order(row_stripes(bucket.inputs.files, bucket.alignments, deleted, unit.write_ids, bucket.options))
    actions, options = plan_actions(stripes, bucket.options, unit.settings, unit.generation)
    return stripes, actions, options


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStripe(InputStripe):
    """An input stripe of rows: with its keys, and how its columns fill the table's."""

    keys: StripeKeys
    alignment: Alignment


def row_stripes(
    files: Sequence[OpenInput],
    alignments: Sequence[Alignment],
    deleted: Keys,
    write_ids: ValidWriteIdList,
    options: FileOptions,
) -> tuple[RowStripe, ...]:
    """Every stripe of the inputs in key order, with what has to go and whether it may be copied.

    Raises RefusedError when the keys of two stripes interleave or a stripe holds what is not understood, CorruptError
    for rows in the wrong bucket.
    """
    zones = has_timestamps(options.root)
    found = []
    for index, (file, alignment) in enumerate(zip(files, alignments, strict=True)):
        columns = result_columns(alignment, options.root, acid=file.acid)
        for number, stripe in enumerate(file.tail.stripes):
            if not stripe.rows:
                continue
            # read even if it will be copied: readers expect no unknown kinds of streams below the result's footer
            reader = file.stripe(number)
            keys = StripeKeys(file, number)
            keys.check()
            check_calendar(file, keys, alignment, options)
            deleted_rows, aborted = dropped_rows(keys, deleted, write_ids)
            regroup = regrouped(file, number, alignment, reader)
            facts = StripeFacts(
                file=index,
                number=number,
                rows=stripe.rows,
                length=stripe.length,
                deleted=deleted_rows,
                aborted=aborted,
                timezone=reader.timezone if zones else "UTC",
                no_copy=why_not_copied(file, keys, alignment, options, regroup),
                regroup=regroup,
            )
            keys.key_range()
            keys.forget()
            filters = found_filters(reader, columns)
            found.append(RowStripe(keys=keys, file=file, alignment=alignment, facts=facts, filters=filters))
    return tuple(found)


def dropped_rows(stripe: StripeKeys, deleted: Keys, write_ids: ValidWriteIdList) -> tuple[int, int]:
    """How many rows of a stripe are deleted, and how many are of aborted write ids (these count only as aborted)."""
    deleted_rows, aborted = row_masks(stripe, deleted, write_ids)
    aborted_count = 0 if aborted is None else int(np.count_nonzero(aborted))
    if deleted_rows is None:
        return 0, aborted_count
    return int(np.count_nonzero(deleted_rows if aborted is None else deleted_rows & ~aborted)), aborted_count


def row_masks(stripe: StripeKeys, deleted: Keys, write_ids: ValidWriteIdList) -> tuple[Mask | None, Mask | None]:
    """Per row whether it is in the delete set, and whether it is aborted; None where no row is."""
    aborted = aborted_rows(stripe, write_ids)
    if not len(deleted):
        return None, aborted
    near = deleted.between(*stripe.key_range())
    if not len(near):
        return None, aborted
    keys = stripe.ids().keys
    if not keys.ascending():
        raise RefusedError(
            f"Cannot compact stripe {stripe.number} of {stripe.file.tail.name}: its keys do not ascend; INSERT "
            "OVERWRITE in Hive writes the table or partition anew"
        )
    deleted_rows = keys.matches(near)
    return (deleted_rows if deleted_rows.any() else None), aborted


def kept_rows(deleted: Mask | None, aborted: Mask | None) -> Mask | None:
    """Per row whether it stays, by the masks of `row_masks`; None where all do."""
    dropped = [mask for mask in (deleted, aborted) if mask is not None]
    return ~np.logical_or.reduce(dropped) if dropped else None


def why_not_copied(
    file: OpenInput, keys: StripeKeys, alignment: Alignment, options: FileOptions, regroup: str | None
) -> str | None:
    """The one predicate of splicing: None when the stripe's bytes may stand under the result's footer.

    regroup  what could be done about its columns (`regrouped`), if it can be copied so
    """
    if regroup is None and not file.acid:
        return "rows without ACID columns"
    if regroup is None and not alignment.copyable:
        changed = conversions(alignment)
        return "other columns than the table has now" if changed is None else f"values to convert: {changed}"
    return container_difference(file.tail, options, statistics_true=regroup is not None or keys.statistics_true)


def container_difference(tail: Tail, options: FileOptions, *, statistics_true: bool) -> str | None:
    """Why no stripe of a file may stand under the result's footer, whatever its columns are; None when it may.

    statistics_true  whether those of the stripe in question may be believed
    """
    if tail.compression is not options.compression:
        return f"compressed with {tail.compression.name}, not {options.compression.name}"
    if tail.compression is not Compression.NONE and tail.block_size > options.block_size:
        return f"compression blocks of {tail.block_size:,} bytes, above {options.block_size:,}"
    if tail.stride != options.stride:
        return "no row index" if tail.stride == 0 else f"row index stride {tail.stride}, not {options.stride}"
    if tail.version != (0, 12):
        return "file version 0.11"
    if not statistics_true:
        return "no true statistics"
    if tail.writer == JAVA_WRITER and tail.writer_version < ORC_135:
        return f"writer version {tail.writer_version}, whose timestamp statistics are in local time"
    return None


def check_calendar(file: OpenInput, keys: StripeKeys, alignment: Alignment, options: FileOptions) -> None:
    """Refuse dates on which the stripe's calendar and the result's differ: days would have to be converted.

    From 1582-10-15 on both agree. A column without true bounds may hold anything.
    """
    if _proleptic(file.tail.calendar) == _proleptic(options.calendar):
        return
    for node in (part.source for part in alignment.walk() if part.source is not None):
        if node.kind in _CALENDAR_KINDS and not (keys.statistics_true and _modern(file, keys.number, node)):
            raise RefusedError(
                f"Cannot compact stripe {keys.number} of {file.tail.name}: its column {node.column} may hold dates "
                "before 1582-10-15 in another calendar than the rest of the table; leave it to Hive's own compactor"
            )


def _proleptic(calendar: int) -> bool:
    # no calendar (older writers) means the hybrid one
    return calendar == Calendar.PROLEPTIC_GREGORIAN


def _modern(file: OpenInput, number: int, node: TypeNode) -> bool:
    statistics = file.tail.stripe_statistics[number][node.column]
    if not statistics.number_of_values:
        return True
    if node.kind is Kind.DATE:
        dates = statistics.date_statistics
        return bool(dates.HasField("minimum") and dates.minimum >= GREGORIAN_START_DAYS)
    times = statistics.timestamp_statistics
    return bool(times.HasField("minimum_utc") and times.minimum_utc >= GREGORIAN_START_DAYS * 86_400_000)


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


def rows_kept(actions: Iterable[StripeAction]) -> int:
    """The rows that stay of all stripes."""
    return sum(fact.kept for action in actions for fact in action.stripes)


@dataclass(slots=True)
class Written:
    """What is gathered while a file is written: keys of each stripe, which are copies, and rows that were deleted."""

    last_keys: list[Key] = field(default_factory=list)
    first_keys: list[Key] = field(default_factory=list)
    copied: set[int] = field(default_factory=set)
    matched: int = 0


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
    facts = [fact for action in actions for fact in action.stripes]
    read_back(
        sink.name,
        sink.position,
        data,
        written.copied,
        written.last_keys,
        written.first_keys,
        deleted,
        rows_in=sum(fact.rows for fact in facts),
        rows_deleted=sum(fact.deleted for fact in facts),
        rows_aborted=sum(fact.aborted for fact in facts),
        matched=written.matched,
        where=f"{unit.directory}/{unit.file_name}",
    ).check()


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
        writer, last_keys = OrcWriter(sink, options), []
        for start in range(0, len(events.keys), EVENTS_PER_STRIPE):
            part = slice(start, start + EVENTS_PER_STRIPE)
            keys = events.keys.select(part)
            writer.write_stripe(encode_deletes(keys, events.current[part], options), rows=len(keys), timezone="UTC")
            last_keys.append(keys.key(-1))
        writer.finish(acid_metadata(last_keys, inserts=0, deletes=len(events.keys)))
    with removed_on_error(sink):
        read_back(
            sink.name,
            sink.position,
            data,
            set(),
            last_keys,
            [],
            Keys.empty(),
            rows_in=events.events_in,
            rows_deleted=events.duplicates,
            rows_aborted=events.aborted,
            matched=events.duplicates,
            where=f"{unit.directory}/{unit.file_name}",
            events=events,
        ).check()
    return replace(result, path=path, length=sink.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput:
    """An input with rows, and what follows from the inputs before it and from the table's columns.

    first_row  row id of its first row when it has no ACID columns
    alignment  how its columns fill the table's
    """

    file: DataFile
    first_row: int
    alignment: Alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUnit:
    """Some of the rewriting of a bucket: the `actions` with these numbers in the plan, in order.

    unit     the bucket's, with no other inputs and delete files than the part needs
    inputs   by the numbers that the facts of stripes have for them
    ranges   of the keys of the stripes
    options  of the result
    """

    unit: Unit
    inputs: Mapping[int, PlannedInput]
    ranges: tuple[KeyRange, ...]
    options: FileOptions
    numbers: tuple[int, ...]
    actions: tuple[StripeAction, ...]

    @property
    def length(self) -> int:
        """Input bytes."""
        return sum(action.length for action in self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """What becomes of the stripes of a bucket, in order, as one task found it for those that carry it out.

    inputs         by the numbers that the facts of stripes have for them
    options        of the result
    planned        the result as far as it is known before
    ranges         of the keys of the stripes, by the numbers of input and stripe
    delete_ranges  of the keys of each delete file's events, by its path; None without true statistics of them
    """

    unit: Unit
    inputs: tuple[PlannedInput, ...]
    options: FileOptions
    actions: tuple[StripeAction, ...]
    planned: UnitResult
    ranges: Mapping[tuple[int, int], KeyRange]
    delete_ranges: Mapping[str, KeyRange | None]

    def part(self, numbers: Sequence[int]) -> PartUnit:
        """What a task needs to carry out the actions with these numbers."""
        actions = tuple(self.actions[number] for number in numbers)
        ranges = tuple(self.ranges[fact.file, fact.number] for action in actions for fact in action.stripes)
        inputs = self.inputs_of(actions)
        deletes = (file for file in self.unit.deletes if file.path in self.delete_ranges)
        return PartUnit(
            unit=replace(
                self.unit,
                inputs=tuple(one.file for one in inputs.values()),
                deletes=tuple(file for file in deletes if overlaps(self.delete_ranges[file.path], ranges)),
            ),
            inputs=inputs,
            ranges=ranges,
            options=self.options,
            numbers=tuple(numbers),
            actions=actions,
        )

    def inputs_of(self, actions: Iterable[StripeAction]) -> dict[int, PlannedInput]:
        """The inputs that these actions read, in order."""
        return {number: self.inputs[number] for number in sorted(_files(actions))}


def _files(actions: Iterable[StripeAction]) -> set[int]:
    return {fact.file for action in actions for fact in action.stripes}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """A file of rewritten stripes, proved by itself.

    stripes  for each action's number the first and last key of its stripe, or None where no row was left
    matched  rows that the delete events hit
    """

    path: str
    length: int
    stripes: tuple[tuple[int, KeyRange | None], ...]
    matched: int
    seconds: float


def plan_bucket(unit: Unit, data: DataFiles, clock: Clock) -> BucketPlan:
    """What becomes of each stripe of a unit of rows."""
    start = clock()
    place = InputFiles(unit.location, data)
    deletes, deleted, delete_ranges = None, Keys.empty(), {}
    if unit.collapse:
        with open_inputs(unit.deletes, place) as opened:
            deletes = read_deletes(opened, unit.bucket, unit.write_ids)
            delete_ranges = {file.file.path: key_range(file) for file in opened.files}
        deleted = deletes.deleted_keys()
    with open_bucket(unit, place) as bucket:
        stripes, actions, options = plan_rows(unit, bucket, deleted)
        result = planned_result(unit, bucket, actions, deletes)
        inputs = tuple(
            PlannedInput(file=opened.file, first_row=opened.first_row, alignment=alignment)
            for opened, alignment in zip(bucket.inputs.files, bucket.alignments, strict=True)
        )
    return BucketPlan(
        unit=unit,
        inputs=inputs,
        options=options,
        actions=actions,
        planned=replace(result, seconds=clock() - start),
        ranges={(stripe.facts.file, stripe.facts.number): stripe.keys.key_range() for stripe in stripes},
        delete_ranges=delete_ranges,
    )


def run_part(part: PartUnit, data: DataFiles, path: str, clock: Clock) -> PartResult:
    """Rewrite some stripes into a file at `path`, which must not exist. Raises AcidError; then no file is left."""
    start = clock()
    unit, place = part.unit, InputFiles(part.unit.location, data)
    with open_inputs(unit.deletes, place) as deletes:
        deleted = read_deletes(deletes, unit.bucket, unit.write_ids, near=part.ranges).deleted_keys()
    written = Written()
    stripes: list[tuple[int, KeyRange | None]] = []
    with planned_inputs(part.inputs, place) as inputs, new_file(data, path, durable=False) as sink:
        writer = OrcWriter(sink, part.options)
        for number, action in zip(part.numbers, part.actions, strict=True):
            before = writer.stripes
            members = [_row_stripe(inputs, part.inputs, fact) for fact in action.stripes]
            recode_stripes(writer, members, written, part.options, unit, deleted)
            is_there = writer.stripes > before
            stripes.append((number, (written.first_keys[-1], written.last_keys[-1]) if is_there else None))
            passing(Point.WRITTEN)
        writer.finish(acid_metadata(written.last_keys, inserts=rows_kept(part.actions), deletes=0))
    with removed_on_error(sink):
        prove_rows(unit, data, sink, part.actions, written, deleted)
    return PartResult(
        path=path,
        length=sink.position,
        stripes=tuple(stripes),
        matched=written.matched,
        seconds=clock() - start,
    )


def join_parts(plan: BucketPlan, parts: Sequence[PartResult], data: DataFiles, path: str, clock: Clock) -> UnitResult:
    """Make the bucket file at `path`, which must not exist, of the parts and of the stripes that are copied."""
    start = clock()
    copied = plan.inputs_of(action for action in plan.actions if action.copy)
    written = Written(matched=sum(part.matched for part in parts))
    with ExitStack() as stack:
        inputs = stack.enter_context(planned_inputs(copied, InputFiles(plan.unit.location, data)))
        places = _places(parts, data, stack)
        sink = stack.enter_context(new_file(data, path))
        writer = OrcWriter(sink, plan.options)
        for number, action in enumerate(plan.actions):
            if action.copy:
                copy_one(writer, _row_stripe(inputs, copied, action.stripes[0]), written)
            elif (place := places[number]) is not None:
                written.copied.add(writer.stripes)
                statistics = place.tail.stripe_statistics[place.stripe]
                writer.copy_stripe(place.source, place.tail, place.stripe, statistics)
                written.first_keys.append(place.first)
                written.last_keys.append(place.last)
            passing(Point.WRITTEN)
        writer.finish(acid_metadata(written.last_keys, inserts=rows_kept(plan.actions), deletes=0))
    with removed_on_error(sink):
        # that no deleted row came through was proved of each part, where its keys were decoded
        prove_rows(plan.unit, data, sink, plan.actions, written, Keys.empty())
    seconds = plan.planned.seconds + sum(part.seconds for part in parts)
    return replace(plan.planned, path=path, length=sink.position, seconds=seconds + clock() - start)


@contextmanager
def planned_inputs(planned: Mapping[int, PlannedInput], place: InputFiles) -> Iterator[Mapping[int, OpenInput]]:
    """Open these inputs, by their numbers."""
    with ExitStack() as stack:
        found = {}
        for number, one in planned.items():
            source = stack.enter_context(closing(place.open(one.file)))
            found[number] = open_input(one.file, source, place.tail(one.file, source), first_row=one.first_row)
        yield found


def _row_stripe(inputs: Mapping[int, OpenInput], planned: Mapping[int, PlannedInput], fact: StripeFacts) -> RowStripe:
    file = inputs[fact.file]
    return RowStripe(keys=StripeKeys(file, fact.number), file=file, alignment=planned[fact.file].alignment, facts=fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the stripe of an action lies, and its first and last key."""

    source: SourceFile
    tail: Tail
    stripe: int
    first: Key
    last: Key


def _places(parts: Sequence[PartResult], data: DataFiles, stack: ExitStack) -> Mapping[int, _Place | None]:
    found: dict[int, _Place | None] = {}
    for part in parts:
        source = stack.enter_context(closing(data.open(part.path, part.length)))
        tail = read_tail(source)
        stripe = 0
        for number, keys in part.stripes:
            found[number] = None
            if keys is not None:
                found[number] = _Place(source=source, tail=tail, stripe=stripe, first=keys[0], last=keys[1])
                stripe += 1
        if stripe != len(tail.stripes):
            raise CorruptError(
                f"Cannot join {part.path}: because it has {len(tail.stripes)} stripes and {stripe} were written"
            )
    return found
