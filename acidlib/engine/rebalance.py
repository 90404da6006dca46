"""What a rebalance makes: first its rows are found, bucket by bucket, and then shared out among the new buckets."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from acidlib.engine.prepare import Prepared
from acidlib.engine.runner import Done, Task
from acidlib.engine.tasks import RunsTask, find_runs_task
from acidlib.engine.units import Errand, one_task
from acidlib.model.units import Unit
from acidlib.planning.units import present_buckets
from acidlib.rewrite.runs import RebalanceUnit, RunsLook, shared_out
from acidlib.storage.stores import Stores


def rebalanced(
    stores: Stores, plan: Prepared, buckets_before: Sequence[Unit], wanted: int | None
) -> Generator[tuple[Errand, ...], list[Done[Any]], tuple[RebalanceUnit, ...]]:
    """The files to make; none where no row is left.

    buckets_before  the place's, as a major would make each of them
    wanted          into how many buckets; None = as many as there are
    """
    tasks = [
        Task(find_runs_task, RunsTask(look=RunsLook(unit=unit, number=number), stores=stores), _ids_of(unit), "look")
        for number, unit in enumerate(buckets_before)
    ]
    answers = yield tuple(one_task(task) for task in tasks)
    sources = [answer.get() for answer in answers]
    buckets = wanted or present_buckets(plan.place.listing, plan.inputs)
    (output,) = plan.inputs.outputs
    return shared_out(sources, buckets, directory=output.path) if sources else ()


def _ids_of(unit: Unit) -> int:
    """Bytes that are read for the ids of a bucket's rows, at most about so many."""
    return sum(file.length for file in (*unit.inputs, *unit.deletes)) // 8
