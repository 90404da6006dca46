"""Times the rewriting of one bucket against a plain copy and against pyarrow, in turns, in one run.

    cd tests; taskset -c 0 ../.venv/bin/python -m bench.compare DIRECTORY [--rounds 5] [--no-pyarrow] [--moved]

DIRECTORY as bench.make_table makes it. Each figure is the time of the whole job in a warm process: opening, checks and
fsync included. Prints medians and the ratios of medians; peak memory is bench.rewrite_once's to tell.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from acidlib.orc.schema import parse_row_type
from acidlib.rewrite.bucket import run_unit
from acidlib.stores.renaming.local import LocalDataFiles
from bench.make_table import COLUMNS
from bench.pyarrow_once import compact_by_pyarrow
from bench.rewrite_once import unit_of


def copy_all(directory: Path, output: Path) -> None:
    """The bytes of all insert files, copied by read and write (no reflinks), then fsync."""
    with output.open("wb") as sink:
        for path in sorted(directory.glob("*/bucket_00000")):
            if not path.parent.name.startswith("delete_delta"):
                with path.open("rb") as source:
                    while data := source.read(1 << 20):
                        sink.write(data)
        sink.flush()
        os.fsync(sink.fileno())


def timed(work: Callable[[], object], output: Path) -> float:
    """Seconds of a job that makes a file anew."""
    output.unlink(missing_ok=True)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def moved_columns() -> str:
    """The columns of the bench's tables but the first, in reverse, as Hive's text of a row."""
    row = parse_row_type(f"struct<{COLUMNS}>", where="the bench")
    texts = dict(field.split(":", 1) for field in re.split(r",(?=\w+:)", COLUMNS))
    return f"struct<{','.join(f'{name}:{texts[name]}' for name in reversed(row.field_names[1:]))}>"


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rounds", default=5, show_default=True)
@click.option("--pyarrow/--no-pyarrow", default=True, help="Whether pyarrow takes its turns too.")
@click.option("--moved", is_flag=True, help="Also for a table whose columns stand the other way round, without one.")
def main(directory: Path, rounds: int, pyarrow: bool, moved: bool) -> None:
    """Measure the table in DIRECTORY."""
    unit = unit_of(directory)
    ours, theirs, copied = (directory.parent / f"{name}.out" for name in ("ours", "pyarrow", "copy"))
    works: dict[str, tuple[Callable[[], object], Path]] = {
        "ours": (lambda: run_unit(unit, LocalDataFiles(), str(ours)), ours),
        "copy": (lambda: copy_all(directory, copied), copied),
    }
    other = directory.parent / "moved.out"
    if moved:
        table = replace(unit, row_type=moved_columns())
        works["moved"] = (lambda: run_unit(table, LocalDataFiles(), str(other)), other)
    if pyarrow:
        works["pyarrow"] = (lambda: compact_by_pyarrow(directory, theirs), theirs)
    for work, output in works.values():
        timed(work, output)  # warm: kernels, page cache
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, (work, output) in works.items():
            times[name].append(timed(work, output))
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, (_, output) in works.items():
        found = times[name]
        print(f"{name:8} {medians[name]:7.3f} s ({min(found):.3f} to {max(found):.3f}), {output.stat().st_size} bytes")
    size = sum(file.length for file in unit.inputs)
    print(f"ours / copy     {medians['ours'] / medians['copy']:.2f}")
    if moved:
        print(f"moved / copy    {medians['moved'] / medians['copy']:.2f}")
    if pyarrow:
        print(f"pyarrow / ours  {medians['pyarrow'] / medians['ours']:.2f}")
    print(f"ours            {size / medians['ours'] / 1e6:.0f} MB of compressed input per second")
    for output in (ours, theirs, copied, other):
        output.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
