"""Times one bucket rewritten by one task against the same shared by several processes, in turns, in one run.

    cd tests; ../.venv/bin/python -m bench.shared_bucket DIRECTORY [--processes 2] [--part-bytes 8m] [--rounds 5]

DIRECTORY as bench.make_table makes it. Planning, the parts and the final joining are included; Spark is not.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from acidlib.engine.command import Size
from acidlib.engine.runner import Done, attempt
from acidlib.engine.units import StagedUnit, run_units
from acidlib.storage.local import LocalFileSystem
from acidlib.storage.staging import create_staging, remove_staging
from bench.rewrite_once import unit_of


def _attempt(work: Callable[[Any, str], Any], item: Any) -> Done[Any]:
    return attempt(work, item, uuid.uuid4().hex)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--processes", default=2, show_default=True)
@click.option("--part-bytes", type=Size(), default="8m", show_default=True)
@click.option("--rounds", default=5, show_default=True)
def main(directory: Path, processes: int, part_bytes: int, rounds: int) -> None:
    """Measure the table in DIRECTORY."""
    unit, fs = unit_of(directory), LocalFileSystem()
    place = directory.parent / "shared.out"
    place.mkdir(exist_ok=True)
    times: dict[str, list[float]] = {"one task": [], "shared": []}
    with ProcessPoolExecutor(processes) as pool:

        def run(work: Callable[[Any, str], Any], items: Sequence[Any], what: str) -> list[Done[Any]]:
            del what
            return list(pool.map(_attempt, [work] * len(items), items))

        for number in range(rounds + 2):  # the first two warm both processes
            for name, size in (("one task", 0), ("shared", part_bytes)):
                staging = create_staging(fs, str(place), unique=uuid.uuid4().hex, owner="bench", now=time.time())
                settings = replace(unit.settings, part_bytes=size)
                start = time.perf_counter()
                (done,) = run_units(run, [StagedUnit(unit=replace(unit, settings=settings), staging=staging)])
                done.get()
                if number > 1:
                    times[name].append(time.perf_counter() - start)
                remove_staging(fs, str(place), staging)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, found in times.items():
        print(f"{name:8} {medians[name]:7.3f} s ({min(found):.3f} to {max(found):.3f})")
    print(f"one task / shared by {processes} processes: {medians['one task'] / medians['shared']:.2f}")


if __name__ == "__main__":
    main()
