"""Times a copy without deletes in a fresh Python worker of a local run, against a warm one, and against a plain copy.

    cd tests; ../.venv/bin/python -m bench.fresh_worker DIRECTORY [--rows 2500000] [--places 4] [--rounds 3]

Each round is one `spark-submit` with one core over some partitions of the same files, one after the other: the first
one's task is the first of its worker, the others find it warm. `rewrite_seconds` of the JSON document are compared, and
the time of a plain copy with fsync, taken between the rounds. DIRECTORY/whole is made as by bench.make_table, with
nothing deleted, when it is not there: 2.5 million rows are 95 MB.
"""

from __future__ import annotations

import statistics
import tempfile
from functools import partial
from pathlib import Path

import click

from bench.compare import copy_all, timed
from bench.make_table import make
from bench.many_places import ROOT, Ran, copy_by_links, job

ONE_BY_ONE = ("--order", "name", "--set", "acidlib.places.in.flight=1")


def compacted(place: Path, count: int, directory: Path) -> Ran:
    """A run over so many copies of a place."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        table = Path(name) / "t"
        for number in range(count):
            copy_by_links(place, table / f"p={number}")
        words = (*ONE_BY_ONE, "--all-committed", "--location", str(table))
        return job(ROOT, 1, Path(name) / "home", "major_compact", *words)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rows", default=2_500_000, show_default=True, help="Of a place, when it is made.")
@click.option("--places", default=4, show_default=True, help="In a run: all but the first are warm.")
@click.option("--rounds", default=3, show_default=True)
def main(directory: Path, rows: int, places: int, rounds: int) -> None:
    """Measure in DIRECTORY."""
    whole, copied = directory / "whole", directory / "copy.out"
    if not whole.exists():
        make(whole, rows=rows, deleted=0)
    times: dict[str, list[float]] = {"fresh": [], "warm": [], "copy": []}
    cpu = []
    copy_all(whole, copied)  # the files may have to be read from the disk
    for _ in range(rounds):
        times["copy"] += [timed(partial(copy_all, whole, copied), copied) for _ in range(places)]
        ran = compacted(whole, places, directory)
        cpu.append(ran.cpu)
        for entry in ran.entries:
            times["fresh" if entry["partition"] == "p=0" else "warm"].append(entry["rewrite_seconds"])
    copied.unlink()
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, found in times.items():
        print(f"{name:6}{medians[name]:7.3f} s ({min(found):.3f} to {max(found):.3f})")
    for one, other in (("fresh", "warm"), ("fresh", "copy"), ("warm", "copy")):
        least = min(times[one]) / min(times[other])
        print(f"{one} / {other}: {medians[one] / medians[other]:.2f}, of the least {least:.2f}")
    print(f"CPU of a run {statistics.median(cpu):.1f} s, Spark's start included")


if __name__ == "__main__":
    main()
