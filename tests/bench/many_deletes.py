"""Reads, sorts and searches ten million delete events of one bucket.

    cd tests; taskset -c 0 ../.venv/bin/python -m bench.many_deletes DIRECTORY [--rounds 5]

Makes them in DIRECTORY if they are not there: ten delete deltas of pyorc, each over all rows of the base. They are
searched with twenty million keys, of which they delete half. Prints seconds, and (in a run that did not make them) the
peak memory of the first round above that of a worker that has its kernels.
"""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

import click
import numpy as np

from acidlib.acid.write_ids import all_committed
from acidlib.rows.deletes import read_deletes
from acidlib.rows.files import InputFiles, open_inputs
from acidlib.rows.row_ids import Keys
from acidlib.stores.renaming.local import LocalDataFiles
from bench.make_table import BUCKET, write_deletes
from bench.rewrite_once import data_files

_STRIPE_ROWS = 1_000_000


def make(directory: Path, events: int) -> None:
    """Ten delete deltas that share the events at random."""
    rows = np.random.default_rng(7).permutation(2 * events)[:events]
    for number, part in enumerate(np.array_split(rows, 10)):
        name = f"delete_delta_{number + 2:07d}_{number + 2:07d}_0000"
        write_deletes(directory / name / "bucket_00000", number + 2, np.sort(part).tolist())


def read_and_search(directory: Path, events: int) -> tuple[float, float]:
    """Seconds to read and sort them, and to search them stripe by stripe."""
    write_ids = all_committed("t", 1_000_000).for_compactor()
    start = time.perf_counter()
    with open_inputs(data_files(directory), InputFiles(str(directory), LocalDataFiles())) as inputs:
        deleted = read_deletes(inputs, 0, write_ids).deleted_keys()
    middle = time.perf_counter()
    found = 0
    for first in range(0, 2 * events, _STRIPE_ROWS):
        keys = Keys.sequence(1, BUCKET, first, min(_STRIPE_ROWS, 2 * events - first))
        found += int(np.count_nonzero(keys.matches(deleted.between(keys.key(0), keys.key(-1)))))
    if found != events or len(deleted) != events:
        raise SystemExit(f"{found} of {events} events were found, {len(deleted)} are there")
    return middle - start, time.perf_counter() - middle


def _resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--events", default=10_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
def main(directory: Path, events: int, rounds: int) -> None:
    """Measure the events in DIRECTORY."""
    small = directory / "few"
    if not directory.exists():
        make(directory, events)
        make(small, 1000)
    read_and_search(small, 1000)  # kernels
    idle = _resident()
    times = [read_and_search(directory, events)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    times += [read_and_search(directory, events) for _ in range(rounds - 1)]
    sorting, searching = (statistics.median(part) for part in zip(*times, strict=True))
    whole = [sum(parts) for parts in times]
    print(
        f"{statistics.median(whole):.2f} s ({min(whole):.2f} to {max(whole):.2f}): {sorting:.2f} to read and sort, "
        f"{searching:.2f} to search; peak {(peak - idle) / 1e6:.0f} MB above {idle / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
