"""What deletes cost by the number of stripes that they touch: one row of each is deleted, the rest is copied.

    cd tests; taskset -c 0 ../.venv/bin/python -m bench.stripes_touched DIRECTORY [--rounds 5]

Makes the table in DIRECTORY if it is not there: a base of about 100 MB in stripes of some 8 MB, written by pyorc.
All cases are measured in turns; prints medians, their ratio to a plain copy with fsync, and a bar as long as the time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from judges.orc_tail import read_orc

from acidlib.model.units import Unit
from acidlib.rewrite.bucket import run_unit
from acidlib.stores.renaming.local import LocalDataFiles
from bench.compare import copy_all, timed
from bench.make_table import write_deletes, write_file
from bench.rewrite_once import data_files, unit_of

BAR = 50  # the width of the longest


def touching(directory: Path, stripes: int) -> Unit:
    """The compaction of the base with one row deleted in each of so many stripes, evenly spread."""
    unit = unit_of(directory)
    if not stripes:
        return unit
    place = directory / f"deletes_{stripes}"
    if not place.exists():
        sizes = [stripe.rows for stripe in read_orc(directory / "base_0000001" / "bucket_00000").stripes]
        chosen = [number * len(sizes) // stripes for number in range(stripes)]
        keys = [sum(sizes[:number]) + sizes[number] // 2 for number in chosen]
        write_deletes(place / "delete_delta_0000002_0000002_0000" / "bucket_00000", 2, keys)
    return replace(unit, deletes=data_files(place, directory))


def _rewriting(unit: Unit, output: Path) -> Callable[[], None]:
    return lambda: _check(unit, run_unit(unit, LocalDataFiles(), str(output)).rows_deleted)


def _check(unit: Unit, deleted: int) -> None:
    if bool(unit.deletes) != bool(deleted):
        raise SystemExit(f"{deleted} rows were deleted")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rounds", default=5, show_default=True)
def main(directory: Path, rounds: int) -> None:
    """Measure the table in DIRECTORY."""
    base = directory / "base_0000001" / "bucket_00000"
    if not base.exists():
        write_file(base, 1, 2_500_000, 0, stripe_bytes=8 << 20)
    total = len(read_orc(base).stripes)
    output = directory / "result"
    works: dict[str, Callable[[], None]] = {"copy": lambda: copy_all(directory, output)}
    for stripes in sorted({0, 1, 2, total // 4, total // 2, total}):
        works[f"{stripes} of {total}"] = _rewriting(touching(directory, stripes), output)
    for work in works.values():
        timed(work, output)  # warm: kernels, page cache
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(timed(work, output))
    output.unlink()
    copied = statistics.median(times["copy"])
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(f"{base.stat().st_size} bytes; stripes touched, seconds, against a copy")
    for name, found in times.items():
        bar = "#" * max(1, round(BAR * medians[name] / max(medians.values())))
        spread = f"({min(found):.3f} to {max(found):.3f})"
        print(f"{name:10} {medians[name]:7.3f} {spread} {medians[name] / copied:6.2f} {bar}")


if __name__ == "__main__":
    main()
