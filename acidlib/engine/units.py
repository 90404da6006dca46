"""Running the units of a wave, large buckets in parts that several tasks share, and collecting what they made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from acidlib.engine.runner import Done
from acidlib.engine.tasks import UnitTask, join_parts_task, plan_bucket_task, run_unit_task
from acidlib.model.units import BucketJoin, BucketPlan, PartUnit, Unit, UnitResult
from acidlib.planning.inputs import CompactionInputs
from acidlib.planning.stripes import shares
from acidlib.storage.filesystem import FileSystem
from acidlib.storage.records import StagedDirectory, StagedFile
from acidlib.storage.staging import accept_attempt, add_output_directory

Run = Callable[[Callable[[Any, str], Any], Sequence[Any], str], list[Done[Any]]]
"""Runs a function over items as one Spark job; with a text for people about what they are."""

Key = tuple[int, int]
"""The number of a unit, and of a part of it; or one of the two below."""
Items = dict[Key, tuple[Callable[[UnitTask, str], Any], UnitTask]]
"""What a job runs: functions, and what each is given."""
_WHOLE, _PLAN = -1, -2

# what planning a bucket and joining its parts take of the time of rewriting it (bench.shared_bucket)
PLANNING, JOINING = 0.04, 0.07


def run_units(run: Run, units: Sequence[UnitTask]) -> list[Done[UnitResult]]:
    """What became of each unit, in order. Every job starts with its largest item: one that starts last is waited for.

    A bucket that is worth it takes three jobs: it is planned, its parts run, and it is joined. The first and the last
    would leave most cores idle, so the smallest of the other units run beside them; the rest runs beside the parts.
    """
    large = [number for number, one in enumerate(units) if _is_large(one)]
    others = sorted(set(range(len(units))).difference(large), key=lambda number: units[number].length)
    weight = sum(units[number].length for number in large)
    beside_plans = _smallest(units, others, PLANNING * weight)
    beside_joins = _smallest(units, others[len(beside_plans) :], JOINING * weight)
    others = others[len(beside_plans) + len(beside_joins) :]

    def whole(numbers: Iterable[int]) -> Items:
        return {(number, _WHOLE): (run_unit_task, units[number]) for number in numbers}

    planning: Items = {(number, _PLAN): (plan_bucket_task, units[number]) for number in large}
    found = _largest_first(run, planning | whole(beside_plans), "plans")
    plans = {number: found[number, _PLAN] for number in large}
    parts = {number: _parts(units[number], plan) for number, plan in plans.items()}
    others += [number for number in large if plans[number].error is None and not parts[number]]
    if not any(parts.values()):
        others, beside_joins = others + beside_joins, []
    rewriting: Items = {
        (number, place): (run_unit_task, replace(units[number], work=part))
        for number in large
        for place, part in enumerate(parts[number])
    }
    found |= _largest_first(run, rewriting | whole(others), "files")
    joining: Items = {}
    for number in large:
        results = [found[number, place] for place in range(len(parts[number]))]
        failed = next((result for result in (plans[number], *results) if result.error is not None), None)
        if failed is not None:
            found[number, _WHOLE] = Done(error=failed.error)
        elif results:
            join = BucketJoin(plan=plans[number].get(), parts=tuple(result.get() for result in results))
            joining[number, _WHOLE] = (join_parts_task, replace(units[number], work=join))
    found |= _largest_first(run, joining | whole(beside_joins), "joined files")
    return [found[number, _WHOLE] for number in range(len(units))]


def collect_results(
    fs: FileSystem, staging: str, inputs: CompactionInputs, results: Sequence[UnitResult]
) -> tuple[StagedDirectory, ...]:
    """Move the files of the attempts that count to where they are published from.

    A directory without rows or events is left out where another has some, but one is always published.
    """
    outputs = [output.path for output in inputs.outputs]
    filled = [path for path in outputs if any(result.has_content for result in results if result.directory == path)]
    staged = []
    for path in filled or outputs[:1]:
        add_output_directory(fs, staging, path)
        files = []
        for result in results:
            if result.directory == path and result.path is not None:
                accept_attempt(fs, staging, result.path, path, result.file_name)
                files.append(StagedFile(name=result.file_name, length=result.length))
        staged.append(StagedDirectory(name=path, files=tuple(files)))
    return tuple(staged)


def _smallest(units: Sequence[UnitTask], numbers: Sequence[int], length: float) -> list[int]:
    """As many of the first as do not exceed a length together."""
    reached = accumulate(units[number].length for number in numbers)
    return [number for number, total in zip(numbers, reached, strict=True) if total <= length]


def _is_large(one: UnitTask) -> bool:
    unit = one.unit
    if one.staging is None or not isinstance(unit, Unit) or unit.is_delete:
        return False
    return 0 < 2 * unit.settings.part_bytes <= one.length


def _parts(one: UnitTask, plan: Done[BucketPlan]) -> list[PartUnit]:
    if plan.error is not None:
        return []
    assert isinstance(one.unit, Unit)
    actions, filters = plan.get().actions, plan.get().filters
    return [
        PartUnit(unit=one.unit, numbers=numbers, actions=tuple(actions[number] for number in numbers), filters=filters)
        for numbers in shares(actions, one.unit.settings.part_bytes)
    ]


def _call(item: tuple[Callable[[UnitTask, str], Any], UnitTask], attempt: str) -> Any:
    work, task = item
    return work(task, attempt)


def _largest_first(run: Run, items: Items, what: str) -> dict[Key, Done[Any]]:
    """Run tasks of one job in the order of their input bytes."""
    order = sorted(items, key=lambda key: -items[key][1].length)
    done = run(_call, [items[key] for key in order], what) if items else []
    return dict(zip(order, done, strict=True))
