"""Making one bucket file: plan it from the keys of its inputs, write the result, prove it by reading it back.

One task makes a bucket (`run_unit`), or several make a large one: `plan_bucket` plans it, each `run_part` rewrites some
of its stripes, and `join_parts` joins them. A part is an ORC file of its own with the options of the result, proved as
any result is. Joining copies its stripes. The plan holds all that follows only from all inputs together, so that a part
opens no other files than those whose stripes it rewrites and the delete files that may hold events of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.arguments import TABLE_COLUMNS
from acidlib.datafiles import DataFiles, SinkFile, SourceFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import DataFile, KeyRange, StripeAction, StripeFacts, Unit, UnitResult
from acidlib.orc.alignment import Alignment, align, conversions, has_names, names_agree, names_note
from acidlib.orc.columns import Longs, Mask
from acidlib.orc.kernels.vectors import filter_values
from acidlib.orc.proto import GREGORIAN_START_DAYS, Calendar, Compression, Kind
from acidlib.orc.reader import JAVA_WRITER, ORC_135, Tail, read_tail
from acidlib.orc.schema import ROW_COLUMN, TypeNode, acid_tree, parse_row_type, row_struct, shown
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.points import Point, reach
from acidlib.rewrite.output import (
    InputStripe,
    file_options,
    input_stripe,
    new_file,
    new_result,
    plan_actions,
    removed_on_error,
    result_of_actions,
    row_counts,
)
from acidlib.rewrite.recode import KeptRows, column_changes, copy_unchanged, encode_deletes, encode_rows, splice_columns
from acidlib.rows.deletes import DeleteEvents, overlaps, read_deletes
from acidlib.rows.files import (
    InputFiles,
    OpenInput,
    OpenInputs,
    acid_metadata,
    key_index,
    memory_of,
    open_inputs,
)
from acidlib.rows.row_ids import Ids, Keys, StripeKeys, kept_mask, row_masks


def run_unit(unit: Unit, data: DataFiles, path: str | None) -> UnitResult:
    """Make the unit's file at `path`, which must not exist; with `path` None only plan it.

    The result has an action for each stripe or group of stripes. Raises AcidError; then no file is left at `path`.
    """
    files = InputFiles(unit.location, data)
    result = _run_deletes(unit, files, data, path) if unit.is_delete else _run_rows(unit, files, data, path)
    reach(Point.PROVED)
    return result


def _run_rows(unit: Unit, files: InputFiles, data: DataFiles, path: str | None) -> UnitResult:
    with planned_rows(unit, files) as (plan, deleted, stripes):
        result, actions = plan.planned, plan.actions.values()
        if path is None or (not result.rows_out and not unit.keep_empty):
            return result
        with bucket_file(data, path, unit, plan.options, row_counts(actions), deleted=deleted) as bucket:
            for action in actions:
                members = [stripes[facts.file, facts.number] for facts in action.stripes]
                if action.copy:
                    bucket.copy(members[0])
                else:
                    bucket.recode(members)
                reach(Point.WRITTEN)
    return replace(result, path=path, length=bucket.length)


AlignedFile = tuple[DataFile, Alignment]
"""An input of rows as another task opens it again, with its alignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """The actions on the stripes of a bucket, as one task has planned them for those that carry out all or some.

    inputs         by the numbers that the facts of stripes have for them
    options        of the result
    actions        by their numbers, in order
    planned        the result as far as it is known before
    ranges         of the keys of the stripes, by the numbers of input and stripe
    delete_ranges  of the keys of each delete file's events, by its path; None without true statistics of them
    """

    unit: Unit
    inputs: Mapping[int, AlignedFile]
    options: FileOptions
    actions: Mapping[int, StripeAction]
    planned: UnitResult
    ranges: Mapping[tuple[int, int], KeyRange]
    delete_ranges: Mapping[str, KeyRange | None]

    def part(self, numbers: Collection[int]) -> BucketPlan:
        """Return the share of the plan that a task needs to carry out the actions with these numbers."""
        actions = {number: self.actions[number] for number in numbers}
        stripes = [(facts.file, facts.number) for action in actions.values() for facts in action.stripes]
        ranges = {stripe: self.ranges[stripe] for stripe in stripes}
        inputs = {number: self.inputs[number] for number in sorted({file for file, _ in stripes})}
        deletes = (file for file in self.unit.deletes if file.path in self.delete_ranges)
        return replace(
            self,
            unit=replace(
                self.unit,
                inputs=tuple(file for file, _ in inputs.values()),
                deletes=tuple(file for file in deletes if overlaps(self.delete_ranges[file.path], ranges.values())),
            ),
            inputs=inputs,
            actions=actions,
            planned=replace(self.planned, actions=()),
            ranges=ranges,
        )


@contextmanager
def planned_rows(
    unit: Unit, files: InputFiles
) -> Iterator[tuple[BucketPlan, Keys, Mapping[tuple[int, int], InputStripe]]]:
    """Plan a unit of rows. In the block its inputs are open, for the stripes by the numbers of input and stripe.

    Yields the plan, the delete set and these stripes.
    """
    events = delete_events(unit, files)
    deleted = events.deleted_keys()
    with open_rows(unit, files) as inputs:
        tails = [file.tail for file in inputs.files]
        root, memory = acid_tree(result_row(unit, files)), memory_of(inputs.files)
        options = file_options(root, tails, unit.reader, unit.settings, memory)
        ordered = in_key_order(row_stripes(inputs, deleted, unit.write_ids, options))
        actions, options = plan_actions(ordered, options, unit.settings, unit.reader)
        stripes = {(stripe.facts.file, stripe.facts.number): stripe for stripe in ordered}
        plan = BucketPlan(
            unit=unit,
            inputs=dict(enumerate(inputs.aligned())),
            options=options,
            actions=dict(enumerate(actions)),
            planned=planned_result(unit, inputs, actions, events),
            ranges={numbers: stripe.keys.key_range() for numbers, stripe in stripes.items()},
            delete_ranges=events.ranges,
        )
        yield plan, deleted, stripes


def delete_events(unit: Unit, files: InputFiles, near: Collection[KeyRange] | None = None) -> DeleteEvents:
    """Read the delete events that are applied to the unit's rows, none in a minor compaction.

    near  as for `read_deletes`
    """
    with open_inputs(unit.deletes if unit.collapse else (), files) as inputs:
        return read_deletes(inputs, unit.bucket, unit.write_ids, near)


@contextmanager
def open_rows(unit: Unit, files: InputFiles) -> Iterator[OpenInputs]:
    """Open all inputs of a unit of rows, each with its alignment.

    Raises RefusedError for columns whose values could change, and, where the unit does not state the table's columns,
    for columns of other names: it is not known which are the table's. A file of aborted write ids counts as empty
    instead: its writer may have known of columns that no committed file has, and its rows are left out anyway.
    """
    with open_inputs(unit.inputs, files) as inputs:
        table = result_row(unit, files)
        aligned, empty = [], list(inputs.empty)
        for file in inputs.files:
            row, where = file.row, file.tail.name
            try:
                if unit.row_type is None and not names_agree(table, row, named=has_names(row)):
                    raise RefusedError(
                        f"Cannot compact {where}: its columns are {shown(row)} and those of "
                        f"{files.full_path(unit.schema)} are {shown(table)}, and nothing tells which are the table's; "
                        f"state them with {TABLE_COLUMNS}"
                    )
                alignment = align(table, row, where=where, reader=unit.reader, matching=unit.matching)
            except RefusedError:
                if not file.file.aborted:
                    raise
                empty.append(where)
            else:
                aligned.append(replace(file, aligned=alignment))
        notes = (names_note(table, file.row, unit.matching) for file in aligned)
        yield OpenInputs(
            files=tuple(aligned),
            empty=tuple(empty),
            notes=tuple(dict.fromkeys(note for note in notes if note is not None)),
        )


def result_row(unit: Unit, files: InputFiles) -> TypeNode:
    """Return the table's columns as the unit states them, else those of its `schema` file."""
    if unit.row_type is None:
        return row_struct(files.tail(unit.schema).root)
    return parse_row_type(unit.row_type, where=files.full_path(unit.schema))


def row_stripes(
    inputs: OpenInputs, deleted: Keys, write_ids: ValidWriteIdList, options: FileOptions
) -> tuple[InputStripe, ...]:
    """Return every stripe of the inputs, with the numbers of rows to drop and whether it may be copied.

    Raises RefusedError where a stripe holds something that is not understood, CorruptError for rows in the wrong
    bucket.
    """
    stripes = []
    for index, file in enumerate(inputs.files):
        for number, stripe in enumerate(file.tail.stripes):
            if not stripe.rows:
                continue
            keys = StripeKeys(file, number)
            keys.check()
            check_calendar(keys, options)
            deleted_rows, aborted = row_masks(keys, deleted, write_ids)
            changes = column_changes(keys)
            stripes.append(
                input_stripe(
                    keys,
                    options,
                    index,
                    result_columns(file, options),
                    deleted=count_set(deleted_rows),
                    aborted=count_set(aborted),
                    no_copy=no_copy_reason(keys, options, changes),
                    changes=changes,
                )
            )
            keys.key_range()
            keys.forget()
    return tuple(stripes)


def check_calendar(keys: StripeKeys, options: FileOptions) -> None:
    """Refuse dates on which the stripe's calendar and the result's differ: days would have to be converted.

    From 1582-10-15 on both agree. A column without true bounds may hold anything. No calendar, as older writers leave
    it, means the hybrid one.
    """
    tail, proleptic = keys.file.tail, Calendar.PROLEPTIC_GREGORIAN
    if (tail.calendar == proleptic) is (options.calendar == proleptic):
        return
    for node in (part.source for part in keys.file.alignment.walk() if part.source is not None):
        if node.kind in _CALENDAR_KINDS and not (
            keys.statistics_true and _is_modern(tail.stripe_statistics[keys.number][node.column], node.kind)
        ):
            raise RefusedError(
                f"Cannot compact {keys.where}: its column {node.column} may hold dates before 1582-10-15 in another "
                "calendar than the rest of the table; leave it to Hive's own compactor"
            )


_CALENDAR_KINDS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


def _is_modern(statistics: Any, kind: Kind) -> bool:
    """Return whether no value of a column lies before 1582-10-15, by its true statistics."""
    if not statistics.number_of_values:
        return True
    if kind is Kind.DATE:
        dates = statistics.date_statistics
        return bool(dates.HasField("minimum") and dates.minimum >= GREGORIAN_START_DAYS)
    times = statistics.timestamp_statistics
    return bool(times.HasField("minimum_utc") and times.minimum_utc >= GREGORIAN_START_DAYS * 86_400_000)


def count_set(mask: Mask | None) -> int:
    """Return the number of rows that a mask is set for."""
    return 0 if mask is None else int(np.count_nonzero(mask))


def no_copy_reason(keys: StripeKeys, options: FileOptions, changes: str | None = None) -> str | None:
    """Return why the stripe's bytes may not stand under the result's footer; None when they may.

    changes  of its columns (`column_changes`), with which it can be copied
    """
    if changes is None and not keys.file.acid:
        return "rows without ACID columns"
    alignment = keys.file.alignment
    if changes is None and not alignment.copyable:
        changed = conversions(alignment)
        return "other columns than the table has now" if changed is None else f"values to convert: {changed}"
    return container_difference(keys.file.tail, options, statistics_true=changes is not None or keys.statistics_true)


def container_difference(tail: Tail, options: FileOptions, *, statistics_true: bool) -> str | None:
    """Return why no stripe of a file may stand under the result's footer, whatever its columns; None when it may.

    statistics_true  whether those of the stripe may be believed
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


def result_columns(file: OpenInput, options: FileOptions, *, new_ids: bool = False) -> dict[int, int]:
    """Return the result's column for each column that it takes of a file; id columns too unless they are new."""
    pairs = zip(file.alignment.walk(), row_struct(options.root).walk(), strict=True)
    columns = {part.source.column: node.column for part, node in pairs if part.source is not None}
    return columns | {column: column for column in range(ROW_COLUMN)} if file.acid and not new_ids else columns


def in_key_order(stripes: tuple[InputStripe, ...]) -> tuple[InputStripe, ...]:
    """Return the stripes by their keys. They come that way unless file names say otherwise than their rows.

    Raises RefusedError when the keys of two stripes interleave.
    """
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


def _interleaving(stripes: Sequence[InputStripe]) -> tuple[InputStripe, InputStripe] | None:
    """Return the first neighbours whose keys do not ascend. Bounds decide where they can, else the keys themselves."""
    for before, after in pairwise(stripes):
        if before.keys.key_range()[1] >= after.keys.key_range()[0] and before.keys.last_key() >= after.keys.first_key():
            return before, after
    return None


def planned_result(
    unit: Unit, inputs: OpenInputs, actions: Sequence[StripeAction], deletes: DeleteEvents
) -> UnitResult:
    """Return the result of a unit as it is known before anything is written."""
    return replace(
        result_of_actions(unit, actions, inputs.files),
        events_in=deletes.events_in,
        events_aborted=deletes.aborted,
        duplicate_events=deletes.duplicates,
        empty_files=inputs.empty + deletes.empty_files,
        notes=inputs.notes,
    )


ExpectedIds = Callable[[int, int], Ids]
"""Returns the ids that rows of a result must have, by the number of the first row and the number of rows."""


@contextmanager
def bucket_file(
    data: DataFiles,
    path: str,
    unit: Unit,
    options: FileOptions,
    counts: tuple[int, int, int],
    *,
    deleted: Keys | None = None,
    expected: ExpectedIds | None = None,
    durable: bool = True,
) -> Iterator[BucketWriter]:
    """Open a new bucket file. After the block it is finished, closed and proved; any error removes it.

    counts    rows or events of the inputs, and how many of them are deleted (of events: repeated) and aborted
    deleted   the delete set
    expected  the ids of the result, where they are known apart from those that are read
    durable   False for a file that lasts only until another is made of it
    """
    with new_file(data, path, durable=durable) as sink:
        bucket = BucketWriter(sink, OrcWriter(sink, options), unit, counts, deleted or Keys.empty())
        yield bucket
        bucket.finish()
    with removed_on_error(sink):
        bucket.prove(data, expected)


@dataclass(slots=True)
class BucketWriter:
    """A bucket file that is written, then proved.

    counts, deleted  as for `bucket_file`
    keys     first and last key of each stripe
    copied   numbers of the stripes whose keys were not decoded for this file
    matched  rows left out for their keys are in the delete set
    """

    sink: SinkFile
    orc: OrcWriter
    unit: Unit
    counts: tuple[int, int, int]
    deleted: Keys
    keys: list[KeyRange] = field(default_factory=list)
    copied: set[int] = field(default_factory=set)
    matched: int = 0

    @property
    def length(self) -> int:
        """Bytes of the file."""
        return self.sink.position

    def copy(self, stripe: InputStripe, ids: Ids | None = None) -> None:
        """Append a stripe as it is, or column by column, or with other `ids`; ids that are added are proved."""
        if ids is not None:
            splice_columns(self.orc, stripe.keys, ids)
            self.keys.append((ids[0].key(0), ids[0].key(-1)))
            return
        if stripe.facts.column_changes is not None:
            splice_columns(self.orc, stripe.keys)
        else:
            self.copied.add(len(self.keys))
            copy_unchanged(self.orc, stripe.file, stripe.facts.number)
        low = stripe.keys.key_range()[0]
        if self.keys and low <= self.keys[-1][1]:
            low = stripe.keys.first_key()
        self.keys.append((low, stripe.keys.last_key()))

    def copy_part(self, source: SourceFile, tail: Tail, number: int, keys: KeyRange) -> None:
        """Append a stripe that a part has rewritten and proved."""
        self.copied.add(len(self.keys))
        self.orc.copy_stripe(source, tail, number, tail.stripe_statistics[number])
        self.keys.append(keys)

    def recode(self, stripes: Sequence[InputStripe]) -> None:
        """Append one stripe of the rows of several that stay; no stripe where no row stays."""
        parts = [part for part in map(self.kept_rows, stripes) if len(part.keys)]
        if parts:
            self.write_rows(parts, stripes[0].facts.timezone, (parts[0].keys.key(0), parts[-1].keys.key(-1)))

    def kept_rows(self, stripe: InputStripe) -> KeptRows:
        """Return the rows of a stripe that stay, and count those in the delete set; RefusedError unless keys ascend."""
        deleted, aborted = row_masks(stripe.keys, self.deleted, self.unit.write_ids)
        keys, current = stripe.keys.ids()
        if not keys.ascending():
            raise stripe.keys.not_ascending()
        stripe.keys.forget()
        self.matched += count_set(deleted)
        keep = kept_mask(deleted, aborted)
        return KeptRows(
            stripe=stripe.keys,
            keep=keep,
            keys=keys if keep is None else keys.select(keep),
            current=current if keep is None else filter_values(current, keep),
        )

    def write_rows(self, parts: Sequence[KeptRows], timezone: str, keys: KeyRange, order: Longs | None = None) -> None:
        """Append a stripe of rows, with its first and last key; `order` as for `encode_rows`."""
        rows = sum(len(part.keys) for part in parts)
        encoded = encode_rows(parts, self.orc.options, timezone, order)
        self.orc.write_stripe(encoded, rows=rows, timezone=timezone)
        self.keys.append(keys)

    def write_events(self, keys: Keys, current: Longs) -> None:
        """Append a stripe of delete events."""
        self.orc.write_stripe(encode_deletes(keys, current, self.orc.options), rows=len(keys), timezone="UTC")
        self.keys.append((keys.key(0), keys.key(-1)))

    def finish(self) -> None:
        """Write the end of the file."""
        rows, deleted, aborted = self.counts
        kept, is_delete = rows - deleted - aborted, self.unit.is_delete
        last_keys = [last for _, last in self.keys]
        self.orc.finish(acid_metadata(last_keys, inserts=0 if is_delete else kept, deletes=kept if is_delete else 0))

    def prove(self, data: DataFiles, expected: ExpectedIds | None) -> None:
        """Read the written file back; raise CorruptError unless counts, keys and ids are right.

        Of a copied stripe the bounds of its keys are compared, of others every key: against the one before, against the
        delete set and the expected ids, and the last one against its key-index entry.
        """
        unit, (rows_in, deleted, aborted) = self.unit, self.counts
        still_deleted = rows = 0
        as_expected, before = True, None
        with closing(data.open(self.sink.name, self.sink.position)) as source:
            tail = read_tail(source)
            entries = key_index(tail) or ()
            file = DataFile(path=source.name, directory=unit.directory, length=source.length, bucket=unit.bucket)
            opened = OpenInput(file=file, source=source, tail=tail)
            ascending = entries == tuple(last for _, last in self.keys)
            for number, (stripe, (first, last)) in enumerate(zip(tail.stripes, self.keys, strict=False)):
                if number not in self.copied:
                    keys, current = StripeKeys(opened, number).ids()
                    if expected is not None:
                        expected_keys, transactions = expected(rows, stripe.rows)
                        as_expected &= keys.equals(expected_keys) and np.array_equal(current, transactions)
                    if not unit.is_delete:
                        ascending &= keys.ascending()
                        still_deleted += count_set(keys.matches(self.deleted))
                    first = keys.key(0)
                    ascending &= keys.key(-1) == last
                # events of one key may follow one another, by their transactions
                ascending &= before is None or before < first or unit.is_delete
                before, rows = last, rows + stripe.rows
        faults = {
            f"{rows_in} rows in less {deleted} deleted less {aborted} aborted are not {tail.rows} rows out": (
                rows_in - deleted - aborted != tail.rows
            ),
            f"{still_deleted} rows of the result are in the delete set": still_deleted > 0,
            f"{self.matched} rows are in the delete set and {deleted} were deleted": (
                expected is None and self.matched != deleted
            ),
            f"it has {len(tail.stripes)} stripes and {len(entries)} key-index entries": (
                len(tail.stripes) != len(entries)
            ),
            "its ids are not the expected ones": not as_expected,
            "its keys do not ascend": not ascending,
        }
        for reason, is_fault in faults.items():
            if is_fault:
                raise CorruptError(f"Cannot publish {unit.directory}/{unit.file_name}: {reason}; nothing was changed")


EVENTS_PER_STRIPE = 2_000_000
"""Delete events of one stripe: about 64 MB decoded."""


def _run_deletes(unit: Unit, files: InputFiles, data: DataFiles, path: str | None) -> UnitResult:
    with open_inputs(unit.inputs, files) as inputs:
        events = read_deletes(inputs, unit.bucket, unit.write_ids)
        tails, memory = [file.tail for file in inputs.files], memory_of(inputs.files)
    count = len(events.keys)
    result = replace(
        new_result(unit),
        is_delete=True,
        events_in=events.events_in,
        events_aborted=events.aborted,
        duplicate_events=events.duplicates,
        events_out=count,
        bytes_rewritten=sum(file.length for file in unit.inputs),
        stripes_rewritten=sum(len(tail.stripes) for tail in tails),
        empty_files=events.empty_files,
    )
    if path is None or (not count and not unit.keep_empty):
        return result
    options = file_options(acid_tree(result_row(unit, files)), tails, unit.reader, unit.settings, memory)
    counts = events.events_in, events.duplicates, events.aborted

    def expected(start: int, rows: int) -> Ids:
        part = slice(start, start + rows)
        return events.keys.select(part), events.current[part]

    with bucket_file(data, path, unit, options, counts, expected=expected) as bucket:
        for start in range(0, count, EVENTS_PER_STRIPE):
            bucket.write_events(*expected(start, EVENTS_PER_STRIPE))
    return replace(result, path=path, length=bucket.length)


def plan_bucket(unit: Unit, data: DataFiles) -> BucketPlan:
    """Plan a unit of rows for the tasks that share it."""
    with planned_rows(unit, InputFiles(unit.location, data)) as (plan, _, _):
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """A file of rewritten stripes, proved by itself.

    stripes  first and last key of each, by the number of its action; none of an action that left no row
    matched  rows left out for their keys are in the delete set
    """

    path: str
    length: int
    stripes: Mapping[int, KeyRange]
    matched: int
    seconds: float = 0.0


def run_part(part: BucketPlan, data: DataFiles, path: str) -> PartResult:
    """Rewrite some stripes into a file at `path`, which must not exist. Raises AcidError; then no file is left."""
    unit, files = part.unit, InputFiles(part.unit.location, data)
    deleted = delete_events(unit, files, near=part.ranges.values()).deleted_keys()
    counts = row_counts(part.actions.values())
    stripes = {}
    with (
        planned_inputs(part.inputs, files) as inputs,
        bucket_file(data, path, unit, part.options, counts, deleted=deleted, durable=False) as bucket,
    ):
        for number, action in part.actions.items():
            before = len(bucket.keys)
            bucket.recode([_planned_stripe(inputs, facts) for facts in action.stripes])
            if len(bucket.keys) > before:
                stripes[number] = bucket.keys[-1]
            reach(Point.WRITTEN)
    return PartResult(path=path, length=bucket.length, stripes=stripes, matched=bucket.matched)


@contextmanager
def planned_inputs(planned: Mapping[int, AlignedFile], files: InputFiles) -> Iterator[Mapping[int, OpenInput]]:
    """Open inputs of a plan, by their numbers."""
    with ExitStack() as stack:
        inputs = {}
        for number, (file, alignment) in planned.items():
            source = stack.enter_context(closing(files.open(file)))
            inputs[number] = OpenInput(file=file, source=source, tail=files.tail(file, source), aligned=alignment)
        yield inputs


def _planned_stripe(inputs: Mapping[int, OpenInput], facts: StripeFacts) -> InputStripe:
    return InputStripe(keys=StripeKeys(inputs[facts.file], facts.number), facts=facts)


def join_parts(plan: BucketPlan, parts: Sequence[PartResult], data: DataFiles, path: str) -> UnitResult:
    """Make the bucket file at `path`, which must not exist, of the parts and of the stripes that are copied.

    Its seconds are those of the plan and of the parts.
    """
    copied = plan.part([number for number, action in plan.actions.items() if action.copy])
    counts = row_counts(plan.actions.values())
    with ExitStack() as stack:
        inputs = stack.enter_context(planned_inputs(copied.inputs, InputFiles(plan.unit.location, data)))
        rewritten: dict[int, tuple[SourceFile, Tail, int, KeyRange]] = {}
        for part in parts:
            source = stack.enter_context(closing(data.open(part.path, part.length)))
            tail = read_tail(source)
            if len(tail.stripes) != len(part.stripes):
                raise CorruptError(
                    f"Cannot join {part.path}: it has {len(tail.stripes)} stripes and {len(part.stripes)} were written"
                )
            numbered = enumerate(part.stripes.items())
            rewritten |= {action: (source, tail, number, keys) for number, (action, keys) in numbered}
        # each part has proved that it has no deleted row, where its keys were decoded
        bucket = stack.enter_context(bucket_file(data, path, plan.unit, plan.options, counts))
        bucket.matched = sum(part.matched for part in parts)
        for number, action in plan.actions.items():
            if action.copy:
                bucket.copy(_planned_stripe(inputs, action.stripes[0]))
            elif number in rewritten:
                bucket.copy_part(*rewritten[number])
            reach(Point.WRITTEN)
    seconds = plan.planned.seconds + sum(part.seconds for part in parts)
    return replace(plan.planned, path=path, length=bucket.length, seconds=seconds)
