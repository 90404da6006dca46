"""Times the jobs over many small partitions, each run as `spark-submit`, against a bare loop that does the least of it.

    cd tests; ../.venv/bin/python -m bench.many_places DIRECTORY [--places 1000] [--cores 2] [--checkout ANOTHER]

A place has seven directories (a base, five deltas and one of deletes) and fourteen files of some 5 KB; all are hard
links to those of one. The bare loop lists a place, reads all files, writes one of a base's size, syncs and renames it.
With --checkout the same is done with another checkout of the engine, in turns.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from judges.tables import delta_name, write_dir

ROOT = Path(__file__).parents[2]
COLUMNS = "struct<id:bigint,name:string,amount:double>"
ROWS, BUCKETS = 150, 2


def _events(write_id: int) -> Iterator[tuple[int, int, int, int, int, Any]]:
    for bucket in range(BUCKETS):
        for row in range(ROWS):
            number = write_id * ROWS + row
            yield (
                0,
                write_id,
                0x20000000 + (bucket << 16),
                row,
                write_id,
                (number, f"name {number * 7919:x}", number / 7),
            )


def _deletes(write_id: int) -> Iterator[tuple[int, int, int, int, int, Any]]:
    for bucket in range(BUCKETS):
        for row in range(0, ROWS, 10):
            yield 2, 2, 0x20000000 + (bucket << 16), row, write_id, None


def make_places(directory: Path, count: int) -> Path:
    """A table of so many partitions; existing ones are made anew."""
    shutil.rmtree(directory, ignore_errors=True)
    first = directory / "db.db" / "t" / "p=0"
    write_dir(first, "base_0000001", COLUMNS, _events(1))
    for write_id in range(2, 7):
        write_dir(first, delta_name(write_id, write_id), COLUMNS, _events(write_id))
    write_dir(first, delta_name(7, 7, delete=True), COLUMNS, _deletes(7))
    for number in range(1, count):
        shutil.copytree(first, first.with_name(f"p={number}"), copy_function=os.link)
    return first.parent


def bare_loop(table: Path, count: int) -> float:
    """Seconds for so many places."""
    began = time.perf_counter()
    for number in range(count):
        place = table / f"p={number}"
        data = b""
        for directory in sorted(place.iterdir()):
            for file in sorted(directory.iterdir()):
                data += file.read_bytes()
        made = place / "_tmp_bare"
        with made.open("wb") as out:
            out.write(data[: len(data) // 2])
            out.flush()
            os.fsync(out.fileno())
        made.rename(place / "_bare")
        (place / "_bare").unlink()
    return time.perf_counter() - began


def job(checkout: Path, cores: int, home: Path, name: str, *words: str) -> tuple[float, float, int]:
    """Seconds of a job and of CPU, Spark's start included, and how many places it is about."""
    command = [checkout / "spark-submit.sh", "--master", f"local[{cores}]", checkout / "jobs" / f"{name}.py"]
    environment = os.environ | {"ACIDLIB_HOME": str(home)}
    began, cpu_before = time.perf_counter(), _cpu()
    ran = subprocess.run(
        [*map(str, command), "--output", "json", *words], env=environment, capture_output=True, text=True, check=False
    )
    took, cpu = time.perf_counter() - began, _cpu() - cpu_before
    if ran.returncode:
        sys.exit(ran.stderr[-2000:] + ran.stdout[-2000:])
    document = json.loads(ran.stdout)
    return took, cpu, len(next(document[key] for key in ("decisions", "compactions", "cleanings") if key in document))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--places", default=1000, show_default=True)
@click.option("--cores", default=2, show_default=True)
@click.option("--checkout", type=click.Path(path_type=Path, exists=True), multiple=True)
def main(directory: Path, places: int, cores: int, checkout: tuple[Path, ...]) -> None:
    """Measure in DIRECTORY, whose contents are lost."""
    for one in (ROOT, *checkout):
        table = make_places(directory, places)
        bare = bare_loop(table, places)
        print(f"{one}: bare loop {1000 * bare / places:.2f} ms a place")
        everything = ("--location", str(table), "--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
        for name, words in (("initiator", everything), ("major_compact", ()), ("cleaner", ("--retention", "0s"))):
            took, cpu, count = job(one, cores, directory / "home", name, *words)
            print(f"  {name:14} {count} in {took:6.1f} s, {count / took:6.1f} a second, {took / bare:6.1f} times the "
                  f"bare loop; {1000 * cpu / count:6.1f} ms of CPU a place", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
