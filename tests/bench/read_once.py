"""A snapshot read on one core: all columns, one, row ids alone, no column; beside the same files read by pyarrow alone.

    PYTHONPATH=tests .venv/bin/python -m bench.read_once DIRECTORY [--rounds 5]

DIRECTORY is the table of `bench.make_table`. Seconds are those of the processor, medians, measured in turns; bytes are
those read of the files. pyarrow applies no deletes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.orc as pa_orc
import pyorc
from snapshots import arrow_type, schema_of, splits_of

from acidlib.scan.read import read_splits
from acidlib.scan.splits import Scan
from acidlib.stores.renaming.local import LocalSource
from acidlib.stores.stores import Stores
from bench.make_table import COLUMNS

ROW = pyorc.TypeDescription.from_string(f"struct<{COLUMNS}>")


def read(directory: Path, *names: str, row_ids: bool = False) -> int:
    """Read some columns of all rows; returns the rows."""
    fields = [(name, arrow_type(ROW.fields[name])) for name in names]
    scan = Scan(
        table="t",
        row_type=f"struct<{COLUMNS}>",
        columns=names,
        schema=schema_of(fields, row_ids=row_ids),
        row_ids=row_ids,
    )
    return sum(batch.num_rows for batch in read_splits(scan, splits_of(scan, directory), Stores()))


def read_by_pyarrow(directory: Path, *names: str) -> int:
    """Read all rows, deleted ones too; returns them."""
    rows = 0
    for path in sorted(directory.glob("*/bucket_00000")):
        if not path.parent.name.startswith("delete_delta"):
            file = pa_orc.ORCFile(str(path))
            for stripe in range(file.nstripes):
                rows += file.read_stripe(stripe, columns=list(names) or None).num_rows
    return rows


@click.command(help=__doc__)
@click.argument("directory", type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=5)
def main(directory: Path, rounds: int) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    read_bytes = 0
    true = LocalSource.read

    def counted(source: LocalSource, offset: int, size: int) -> bytes:
        nonlocal read_bytes
        read_bytes += size
        return true(source, offset, size)

    LocalSource.read = counted  # type: ignore[method-assign]
    ways: dict[str, Callable[[], int]] = {
        "all columns": lambda: read(directory, *ROW.fields),
        "all columns, pyarrow alone": lambda: read_by_pyarrow(directory),
        "one column": lambda: read(directory, "id"),
        "one column, pyarrow alone": lambda: read_by_pyarrow(directory, "row.id"),
        "row ids alone": lambda: read(directory, row_ids=True),
        "no column": lambda: read(directory),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    counts: dict[str, tuple[int, int]] = {}
    for _ in range(rounds + 1):
        for way, run in ways.items():
            read_bytes, start = 0, time.process_time()
            rows = run()
            seconds[way].append(time.process_time() - start)
            counts[way] = rows, read_bytes
    for way, (rows, size) in counts.items():
        of_files = f"  {size / 1e6:7.1f} MB" if size else ""
        click.echo(f"{way:28} {statistics.median(seconds[way][1:]):6.2f} s  {rows:9,} rows{of_files}")


if __name__ == "__main__":
    main()
