"""Times a large bucket, alone or beside small ones, in one process against the same shared by several, in turns.

    cd tests; ../.venv/bin/python -m bench.shared_bucket DIRECTORY [--processes 2] [--part-bytes 64m] [--rounds 5]
                                                         [--small DIRECTORY --count 63]

DIRECTORY as bench.make_table makes it; with --small the table there is compacted so many times beside it. Planning, the
parts and the final joining are included; Spark is not.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from located import at

from acidlib.cli.options import size
from acidlib.execute.answers import answer_of, returned_by
from acidlib.execute.schedule import Scheduler, Subtask, run_tasks
from acidlib.execute.task import Application, Task
from acidlib.model.units import Unit
from acidlib.runs.plan import file_task
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore, try_to_remove_staging
from acidlib.stores.stores import Stores
from bench.rewrite_once import unit_of


def _attempts(batch: Sequence[Task]) -> list[Any]:
    return [answer_of(task.work, uuid.uuid4().hex) for task in batch]


class _Processes:
    """Runs batches in a pool of so many processes; see acidlib.execute.task.Runner."""

    application = Application()

    def __init__(self, pool: ProcessPoolExecutor, slots: int) -> None:
        self._pool, self.slots = pool, slots

    def start(self) -> None:
        """It is here."""

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        del group
        return list(self._pool.map(_attempts, batches))

    def cancel(self) -> None:
        """Nothing is given up here."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """A bucket as a workflow."""

    made: Task | Subtask
    name: str = "bucket"

    async def run(self) -> None:
        await run_tasks(self.made)

    def give_back(self) -> None:
        """Nothing is given up here."""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--processes", default=2, show_default=True)
@click.option("--part-bytes", type=size, default="64m", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--small", type=click.Path(path_type=Path))
@click.option("--count", default=63, show_default=True)
def main(directory: Path, processes: int, part_bytes: int, rounds: int, small: Path | None, count: int) -> None:
    """Measure the table in DIRECTORY."""
    units = [unit_of(directory)] + ([] if small is None else [unit_of(small)] * count)
    place = directory.parent / "shared.out"
    place.mkdir(exist_ok=True)
    times: dict[int, list[float]] = {1: [], processes: []}
    with ProcessPoolExecutor(1) as one, ProcessPoolExecutor(processes) as several:
        for number in range(rounds + 2):  # the first two warm all processes
            for pool, workers, size in ((one, 1, 0), (several, processes, part_bytes)):
                seconds = _timed(pool, workers, place, units, size)
                if number > 1:
                    times[workers].append(seconds)
    medians = {workers: statistics.median(found) for workers, found in times.items()}
    for workers, found in times.items():
        print(f"{workers} processes {medians[workers]:7.3f} s ({min(found):.3f} to {max(found):.3f})")
    faster = medians[1] / medians[processes]
    print(f"{faster:.2f} times faster; {processes / faster:.2f} times the ideal")


def _timed(pool: ProcessPoolExecutor, processes: int, place: Path, units: Sequence[Unit], part_bytes: int) -> float:
    """Seconds of all units, each into a directory of its own."""
    fs = LocalFileSystem()

    staged = []
    for unit in units:
        sized = replace(unit, settings=replace(unit.settings, part_bytes=part_bytes))
        staging = RenameStore(fs).stage(at(place), unique=uuid.uuid4().hex, owner="bench", now=time.time()).path
        staged.append((sized, staging))
    start = time.perf_counter()
    scheduler: Scheduler[None] = Scheduler(
        _Processes(pool, processes), limit=lambda _: len(staged), name=str, on_result=lambda _: None
    )
    returned_by(scheduler.run(_Bucket(file_task(sized, staging, Stores())) for sized, staging in staged))
    seconds = time.perf_counter() - start
    for _, staging in staged:
        try_to_remove_staging(fs, at(place), staging)
    return seconds


if __name__ == "__main__":
    main()
