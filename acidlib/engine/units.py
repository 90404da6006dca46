"""Making the file of a unit, that of a large bucket in parts that several tasks share, and collecting what was made."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from acidlib.engine.runner import Done, Task
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

Errand = Generator[tuple[Task, ...], list[Done[Any]], Done[Any]]
"""Asks for tasks, is answered by what became of each, and ends with what became of the whole."""

REWRITE = "rewrite"
# what planning a bucket and joining its parts take of the time of rewriting it (bench.shared_bucket)
PLANNING, JOINING = 0.04, 0.07


def one_task(task: Task) -> Errand:
    """An errand of one task."""
    (done,) = yield (task,)
    return done


def make_file(one: UnitTask) -> Errand:
    """What became of a unit. A bucket that is worth it is planned, rewritten by several tasks, and joined."""
    large = _large_bucket(one)
    if large is None:
        return (yield from one_task(Task(run_unit_task, one, one.length, REWRITE)))
    unit, staging = large
    plan: Done[BucketPlan] = yield from one_task(Task(plan_bucket_task, one, int(one.length * PLANNING), "plan parts"))
    if plan.error is not None:
        return plan
    parts = _parts(plan.get(), unit.settings.part_bytes)
    if not parts:
        return (yield from one_task(Task(run_unit_task, one, one.length, REWRITE)))
    results = yield tuple(
        Task(run_part_task, PartTask(part=part, staging=staging, stores=one.stores), part.length, REWRITE)
        for part in parts
    )
    failed = next((result for result in results if result.error is not None), None)
    if failed is not None:
        return failed
    join = BucketJoin(plan=plan.get(), parts=tuple(result.get() for result in results))
    task = BucketJoinTask(join=join, staging=staging, stores=one.stores)
    return (yield from one_task(Task(join_parts_task, task, int(one.length * JOINING), "join parts")))


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


def _large_bucket(one: UnitTask) -> tuple[Unit, str] | None:
    """The unit and the staging directory of a bucket that several tasks share; None of what one task makes."""
    unit = one.unit
    if one.staging is None or not isinstance(unit, Unit) or unit.is_delete:
        return None
    return (unit, one.staging) if 0 < 2 * unit.settings.part_bytes <= one.length else None


def _parts(plan: BucketPlan, part_bytes: int) -> list[PartUnit]:
    return [plan.part(numbers) for numbers in shares(plan.actions, part_bytes)]
