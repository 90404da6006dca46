"""A large bucket by several tasks: one plans it, each part rewrites some of its stripes, and a last task joins them.

A part is an ORC file of its own with the options of the result, proved as any result is. Joining copies its stripes.
The plan holds all that follows only from all inputs together, so that a part opens no other files than those whose
stripes it rewrites and the delete files that may hold events of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from acidlib.errors import CorruptError
from acidlib.model.rowid import Key, KeyRange
from acidlib.model.units import DataFile, StripeAction, StripeFacts, Unit, UnitResult
from acidlib.orc.alignment import Alignment
from acidlib.orc.source import DataFiles, SourceFile
from acidlib.orc.tail import Tail, read_tail
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.points import Point, passing
from acidlib.rewrite.acid_footer import acid_metadata
from acidlib.rewrite.deletes import key_range, overlaps, read_deletes
from acidlib.rewrite.inputs import InputFiles, OpenInput, open_input, open_inputs
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.output import new_file, removed_on_error
from acidlib.rewrite.rows import RowStripe
from acidlib.rewrite.stripe_keys import StripeKeys
from acidlib.rewrite.unit import (
    Written,
    copy_one,
    open_bucket,
    plan_rows,
    planned_result,
    prove_rows,
    recode_stripes,
    rows_kept,
)

Clock = Callable[[], float]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketJoin:
    """The rest of the work on a bucket: copied stripes and those of the parts, under one footer."""

    plan: BucketPlan
    parts: tuple[PartResult, ...]


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


def join_parts(join: BucketJoin, data: DataFiles, path: str, clock: Clock) -> UnitResult:
    """Make the bucket file at `path`, which must not exist, of the parts and of the stripes that are copied."""
    start = clock()
    plan = join.plan
    copied = plan.inputs_of(action for action in plan.actions if action.copy)
    written = Written(matched=sum(part.matched for part in join.parts))
    with ExitStack() as stack:
        inputs = stack.enter_context(planned_inputs(copied, InputFiles(plan.unit.location, data)))
        places = _places(join, data, stack)
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
    seconds = plan.planned.seconds + sum(part.seconds for part in join.parts)
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


def _places(join: BucketJoin, data: DataFiles, stack: ExitStack) -> Mapping[int, _Place | None]:
    found: dict[int, _Place | None] = {}
    for part in join.parts:
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
