"""A large bucket by several tasks: one plans it, each part rewrites some of its stripes, and a last task joins them.

A part is an ORC file of its own with the options of the result, proved as any result is. Joining copies its stripes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from acidlib.errors import CorruptError
from acidlib.model.units import (
    BucketJoin,
    BucketPlan,
    PartResult,
    PartUnit,
    RowKey,
    StripeAction,
    StripeFacts,
    Unit,
    UnitResult,
)
from acidlib.orc.source import DataFiles, SourceFile
from acidlib.orc.tail import Tail, read_tail
from acidlib.orc.writer import OrcWriter
from acidlib.points import Point, passing
from acidlib.rewrite.figures import planned
from acidlib.rewrite.inputs import InputFiles, StripeKeys
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.output import acid_metadata
from acidlib.rewrite.rows import RowStripe
from acidlib.rewrite.sink import dropped_if_wrong, new_file
from acidlib.rewrite.unit import (
    OpenBucket,
    Written,
    copy_one,
    delete_set,
    open_bucket,
    plan_rows,
    planned_result,
    prove_rows,
    recode_stripes,
)

Clock = Callable[[], float]


def plan_bucket(unit: Unit, data: DataFiles, clock: Clock) -> BucketPlan:
    """What becomes of each stripe of a unit of rows."""
    start = clock()
    place = InputFiles(unit.location, data)
    deletes, deleted = delete_set(unit, place)
    with open_bucket(unit, place) as bucket:
        _, actions, filters = plan_rows(unit, bucket, deleted)
        result = planned_result(unit, bucket, actions, deletes)
    result = replace(result, seconds=clock() - start)
    return BucketPlan(unit=unit, actions=actions, planned=result, filters=filters)


def run_part(part: PartUnit, data: DataFiles, path: str, clock: Clock) -> PartResult:
    """Rewrite some stripes into a file at `path`, which must not exist. Raises AcidError; then no file is left."""
    start = clock()
    unit = part.unit
    place = InputFiles(unit.location, data)
    _, deleted = delete_set(unit, place)
    written = Written()
    stripes: list[tuple[int, tuple[RowKey, RowKey] | None]] = []
    with open_bucket(unit, place) as bucket, new_file(data, path, durable=False) as sink:
        options = replace(bucket.options, filters=part.filters)
        writer = OrcWriter(sink, options)
        for number, action in zip(part.numbers, part.actions, strict=True):
            before = writer.stripes
            members = [_row_stripe(bucket, fact) for fact in action.stripes]
            recode_stripes(writer, members, written, options, unit, deleted)
            is_there = writer.stripes > before
            stripes.append((number, (written.first_keys[-1], written.last_keys[-1]) if is_there else None))
            passing(Point.WRITTEN)
        writer.finish(acid_metadata(written.last_keys, inserts=_kept(part.actions), deletes=0))
        expected = planned(unit, part.actions, bucket.inputs.files)
    with dropped_if_wrong(sink):
        prove_rows(unit, data, replace(expected, path=path, length=sink.position), written, deleted)
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
    unit, result = join.plan.unit, join.plan.planned
    written = Written(matched=sum(part.matched for part in join.parts))
    with ExitStack() as stack:
        bucket = stack.enter_context(open_bucket(unit, InputFiles(unit.location, data)))
        places = _places(join, data, stack)
        sink = stack.enter_context(new_file(data, path))
        options = replace(bucket.options, filters=join.plan.filters)
        writer = OrcWriter(sink, options)
        for number, action in enumerate(join.plan.actions):
            if action.copy:
                copy_one(writer, _row_stripe(bucket, action.stripes[0]), written)
            elif (place := places[number]) is not None:
                written.copied.add(writer.stripes)
                statistics = place.tail.stripe_statistics[place.stripe]
                writer.copy_stripe(place.source, place.tail, place.stripe, statistics)
                written.first_keys.append(place.first)
                written.last_keys.append(place.last)
            passing(Point.WRITTEN)
        writer.finish(acid_metadata(written.last_keys, inserts=_kept(join.plan.actions), deletes=0))
    seconds = result.seconds + sum(part.seconds for part in join.parts)
    result = replace(result, path=path, length=sink.position, seconds=seconds + clock() - start)
    with dropped_if_wrong(sink):
        # whether a deleted row came through was looked for in each part, where its keys were at hand
        prove_rows(unit, data, result, written, Keys.empty())
    return result


def _row_stripe(bucket: OpenBucket, fact: StripeFacts) -> RowStripe:
    file = bucket.inputs.files[fact.file]
    return RowStripe(keys=StripeKeys(file, fact.number), file=file, alignment=bucket.alignments[fact.file], facts=fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the stripe of an action lies, and its first and last key."""

    source: SourceFile
    tail: Tail
    stripe: int
    first: RowKey
    last: RowKey


def _places(join: BucketJoin, data: DataFiles, stack: ExitStack) -> Mapping[int, _Place | None]:
    found: dict[int, _Place | None] = {}
    for part in join.parts:
        source = data.open(part.path, part.length)
        stack.callback(source.close)
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


def _kept(actions: tuple[StripeAction, ...]) -> int:
    return sum(fact.kept for action in actions for fact in action.stripes)
