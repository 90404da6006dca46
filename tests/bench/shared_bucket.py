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
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from acidlib.cli.options import Size
from acidlib.model.units import Unit
from acidlib.service.plan import Errand, make_file
from acidlib.service.services import Done, attempt
from acidlib.service.tasks import UnitTask
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.publishing import create_staging, remove_staging
from bench.rewrite_once import unit_of


def _attempt(work: Callable[[Any, str], Any], item: Any) -> Done[Any]:
    return attempt(work, item, uuid.uuid4().hex)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--processes", default=2, show_default=True)
@click.option("--part-bytes", type=Size(), default="64m", show_default=True)
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
                seconds = _timed(pool, place, units, size)
                if number > 1:
                    times[workers].append(seconds)
    medians = {workers: statistics.median(found) for workers, found in times.items()}
    for workers, found in times.items():
        print(f"{workers} processes {medians[workers]:7.3f} s ({min(found):.3f} to {max(found):.3f})")
    faster = medians[1] / medians[processes]
    print(f"{faster:.2f} times faster; {processes / faster:.2f} times the ideal")


def _timed(pool: ProcessPoolExecutor, place: Path, units: Sequence[Unit], part_bytes: int) -> float:
    """Seconds of all units, each into a directory of its own."""
    fs = LocalFileSystem()

    staged = [
        UnitTask(
            unit=replace(unit, settings=replace(unit.settings, part_bytes=part_bytes)),
            staging=create_staging(fs, str(place), unique=uuid.uuid4().hex, owner="bench", now=time.time()),
        )
        for unit in units
    ]
    start = time.perf_counter()
    for done in _made(pool, [make_file(one) for one in staged]):
        done.get()
    seconds = time.perf_counter() - start
    for unit in staged:
        assert unit.staging is not None
        remove_staging(fs, str(place), unit.staging)
    return seconds


def _made(pool: ProcessPoolExecutor, errands: Sequence[Errand]) -> list[Done[Any]]:
    """What became of each, all their tasks being run as they ask for them, the largest first."""
    asked = {number: next(errand) for number, errand in enumerate(errands)}
    ended: dict[int, Done[Any]] = {}
    running: dict[Future[Done[Any]], tuple[int, int]] = {}
    answers: dict[int, list[Done[Any] | None]] = {}
    while len(ended) < len(errands):
        tasks = [(task, number, place) for number, some in asked.items() for place, task in enumerate(some)]
        answers |= {number: [None] * len(some) for number, some in asked.items()}
        for task, number, place in sorted(tasks, key=lambda one: -one[0].length):
            running[pool.submit(_attempt, task.work, task.item)] = number, place
        asked = {}
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            number, place = running.pop(future)
            answers[number][place] = future.result()
            if None not in answers[number]:
                try:
                    asked[number] = errands[number].send([done for done in answers[number] if done is not None])
                except StopIteration as end:
                    ended[number] = end.value
    return [ended[number] for number in range(len(errands))]


if __name__ == "__main__":
    main()
