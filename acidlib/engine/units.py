"""Running the units of a wave: most in one go; the rewriting of a large bucket in parts that other tasks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from acidlib.engine.runner import Done
from acidlib.engine.tasks import UnitTask, join_parts_task, plan_bucket_task, run_unit_task
from acidlib.model.units import BucketJoin, BucketPlan, JoinUnit, PartUnit, Unit, UnitResult
from acidlib.planning.stripes import shares

Run = Callable[[Callable[[Any, str], Any], Sequence[Any], str], list[Done[Any]]]
"""Runs a function over items as one Spark job; with a text for people about what they are."""

AnyUnit = Unit | JoinUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUnit:
    """A unit, and the staging directory its file goes to; None only plans it."""

    unit: AnyUnit
    staging: str | None


def run_units(run: Run, units: Sequence[StagedUnit]) -> list[Done[UnitResult]]:
    """What became of each unit, in order. Every job starts with its largest item: one that starts last is waited for.

    A bucket that is worth it takes three jobs: it is planned, its parts run beside all other units, and it is joined.
    """
    large = [one for one in units if _is_large(one)]
    plans = _by_unit(large, _largest_first(run, plan_bucket_task, [_task(one, one.unit) for one in large], "plans"))
    parts = {id(one): _parts(one, plans[id(one)]) for one in large}
    shared = [one for one in large if parts[id(one)]]
    whole = [one for one in units if not parts.get(id(one)) and (id(one) not in plans or plans[id(one)].error is None)]
    tasks = [_task(one, one.unit) for one in whole]
    tasks += [_task(one, part) for one in shared for part in parts[id(one)]]
    done = _largest_first(run, run_unit_task, tasks, "files")
    found = _by_unit(whole, done[: len(whole)])
    rest = iter(done[len(whole) :])
    joins = []
    for one in shared:
        results = [next(rest) for _ in parts[id(one)]]
        failed = next((result for result in results if result.error is not None), None)
        if failed is not None:
            found[id(one)] = Done(error=failed.error)
            continue
        joins.append((one, BucketJoin(plan=plans[id(one)].get(), parts=tuple(result.get() for result in results))))
    joined = _largest_first(run, join_parts_task, [_task(one, join) for one, join in joins], "joined files")
    found |= _by_unit([one for one, _ in joins], joined)
    for one in large:
        if plans[id(one)].error is not None:
            found[id(one)] = Done(error=plans[id(one)].error)
    return [found[id(one)] for one in units]


def _is_large(one: StagedUnit) -> bool:
    unit = one.unit
    if one.staging is None or not isinstance(unit, Unit) or unit.is_delete:
        return False
    return 0 < 2 * unit.settings.part_bytes <= sum(file.length for file in unit.inputs)


def _parts(one: StagedUnit, plan: Done[BucketPlan]) -> list[PartUnit]:
    if plan.error is not None:
        return []
    assert isinstance(one.unit, Unit)
    actions, filters = plan.get().actions, plan.get().filters
    return [
        PartUnit(unit=one.unit, numbers=numbers, actions=tuple(actions[number] for number in numbers), filters=filters)
        for numbers in shares(actions, one.unit.settings.part_bytes)
    ]


def _task(one: StagedUnit, work: AnyUnit | PartUnit | BucketJoin) -> UnitTask:
    return UnitTask(work=work, staging=one.staging)


def _by_unit(units: Iterable[StagedUnit], done: Iterable[Done[Any]]) -> dict[int, Done[Any]]:
    return {id(one): result for one, result in zip(units, done, strict=True)}


def _largest_first(
    run: Run, work: Callable[[UnitTask, str], Any], tasks: Sequence[UnitTask], what: str
) -> list[Done[Any]]:
    """Run tasks in the order of their input bytes; results in the order given."""
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number].length)
    done = run(work, [tasks[number] for number in order], what) if tasks else []
    results = dict(zip(order, done, strict=True))
    return [results[number] for number in range(len(tasks))]
