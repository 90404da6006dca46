"""Running the units of a wave, large buckets in parts that several tasks share, and collecting what they made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from acidlib.engine.runner import Done
from acidlib.engine.tasks import (
    BucketJoinTask,
    PartTask,
    UnitTask,
    join_parts_task,
    plan_bucket_task,
    run_part_task,
    run_unit_task,
)
from acidlib.model.units import Unit, UnitResult
from acidlib.planning.inputs import CompactionInputs
from acidlib.planning.stripes import shares
from acidlib.rewrite.parts import BucketJoin, BucketPlan, PartUnit
from acidlib.storage.records import StagedDirectory
from acidlib.storage.store import Attempt, Stage

Run = Callable[[Callable[[Any, str], Any], Sequence[Any], str], list[Done[Any]]]
"""Runs a function over items as one Spark job; with a text for people about what they are."""

Key = tuple[int, int]
"""The number of a unit, and of a part of it; or one of the two below."""
_WHOLE, _PLAN = -1, -2


@dataclass(frozen=True, slots=True)
class _Item:
    """One item of a job: a function, what it is given, and its input bytes."""

    work: Callable[[Any, str], Any]
    task: Any
    length: int


_Items = dict[Key, _Item]

# what planning a bucket and joining its parts take of the time of rewriting it (bench.shared_bucket)
PLANNING, JOINING = 0.04, 0.07


def run_units(run: Run, units: Sequence[UnitTask]) -> list[Done[UnitResult]]:
    """What became of each unit, in order. Every job starts with its largest item: one that starts last is waited for.

    A bucket that is worth it takes three jobs: it is planned, its parts run, and it is joined. The first and the last
    would leave most cores idle, so the smallest of the other units run beside them; the rest runs beside the parts.
    """
    large = {number: bucket for number, one in enumerate(units) if (bucket := _large_bucket(one)) is not None}
    others = sorted(set(range(len(units))).difference(large), key=lambda number: units[number].length)
    weight = sum(units[number].length for number in large)
    beside_plans = _smallest(units, others, PLANNING * weight)
    beside_joins = _smallest(units, others[len(beside_plans) :], JOINING * weight)
    others = others[len(beside_plans) + len(beside_joins) :]

    def whole(numbers: Iterable[int]) -> _Items:
        return {(number, _WHOLE): _Item(run_unit_task, units[number], units[number].length) for number in numbers}

    planning = {(number, _PLAN): _Item(plan_bucket_task, units[number], units[number].length) for number in large}
    found = _largest_first(run, planning | whole(beside_plans), "plans")
    plans: dict[int, Done[BucketPlan]] = {number: found[number, _PLAN] for number in large}
    parts = {number: _parts(plan) for number, plan in plans.items()}
    others += [number for number in large if plans[number].error is None and not parts[number]]
    if not any(parts.values()):
        others, beside_joins = others + beside_joins, []
    rewriting = {
        (number, place): _Item(
            run_part_task, PartTask(part=part, staging=staging, stores=units[number].stores), part.length
        )
        for number, (_, staging) in large.items()
        for place, part in enumerate(parts[number])
    }
    found |= _largest_first(run, rewriting | whole(others), "files")
    joining: _Items = {}
    for number, (_, staging) in large.items():
        results = [found[number, place] for place in range(len(parts[number]))]
        failed = next((result for result in (plans[number], *results) if result.error is not None), None)
        if failed is not None:
            found[number, _WHOLE] = failed
        elif results:
            join = BucketJoin(plan=plans[number].get(), parts=tuple(result.get() for result in results))
            task = BucketJoinTask(join=join, staging=staging, stores=units[number].stores)
            joining[number, _WHOLE] = _Item(join_parts_task, task, units[number].length)
    found |= _largest_first(run, joining | whole(beside_joins), "joined files")
    return [found[number, _WHOLE] for number in range(len(units))]


def collect_results(
    stage: Stage, inputs: CompactionInputs, results: Sequence[UnitResult]
) -> tuple[StagedDirectory, ...]:
    """Hand the files of the attempts that count over to be published; see `filled_directories`."""
    staged = []
    for path in filled_directories(inputs, results):
        attempts = [
            Attempt(written=result.path, name=result.file_name, length=result.length)
            for result in results
            if result.directory == path and result.path is not None
        ]
        staged.append(stage.accept(path, attempts))
    return tuple(staged)


def filled_directories(inputs: CompactionInputs, results: Sequence[UnitResult]) -> tuple[str, ...]:
    """Those of the planned directories that have rows or events; the first one where none has, for one is needed."""
    planned = [output.path for output in inputs.outputs]
    filled = [path for path in planned if any(result.has_content for result in results if result.directory == path)]
    return tuple(filled or planned[:1])


def _smallest(units: Sequence[UnitTask], numbers: Sequence[int], length: float) -> list[int]:
    """As many of the first as do not exceed a length together."""
    reached = accumulate(units[number].length for number in numbers)
    return [number for number, total in zip(numbers, reached, strict=True) if total <= length]


def _large_bucket(one: UnitTask) -> tuple[Unit, str] | None:
    """The unit and the staging directory of a bucket that several tasks share; None of what one task makes."""
    unit = one.unit
    if one.staging is None or not isinstance(unit, Unit) or unit.is_delete:
        return None
    return (unit, one.staging) if 0 < 2 * unit.settings.part_bytes <= one.length else None


def _parts(plan: Done[BucketPlan]) -> list[PartUnit]:
    if plan.error is not None:
        return []
    found = plan.get()
    return [found.part(numbers) for numbers in shares(found.actions, found.unit.settings.part_bytes)]


def _call(item: _Item, attempt: str) -> Any:
    return item.work(item.task, attempt)


def _largest_first(run: Run, items: _Items, what: str) -> dict[Key, Done[Any]]:
    """Run tasks of one job in the order of their input bytes."""
    order = sorted(items, key=lambda key: -items[key].length)
    done = run(_call, [items[key] for key in order], what) if items else []
    return dict(zip(order, done, strict=True))
