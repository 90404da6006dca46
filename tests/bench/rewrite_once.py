"""Compacts one bucket of a made table, without Spark: what the benches time from outside.

    cd tests; ../.venv/bin/python -m bench.rewrite_once DIRECTORY OUTPUT

Prints seconds inside the process (start-up and imports left out) and the peak memory above the idle worker.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import click
from located import at

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import all_committed
from acidlib.model.units import ColumnMatching, DataFile, RewriteSettings, Unit
from acidlib.orc.columns import Column
from acidlib.orc.reader import StripeReader
from acidlib.rewrite.bucket import run_unit
from acidlib.rows.files import InputFiles, open_inputs
from acidlib.stores.renaming.local import LocalDataFiles


def data_files(directory: Path, location: Path | None = None) -> tuple[DataFile, ...]:
    """The files of a made table, in the order of their names; their paths are relative to `location`, if given."""
    return tuple(
        DataFile(
            path=str(path.relative_to(location or directory)),
            directory=path.parent.name,
            length=path.stat().st_size,
            bucket=0,
        )
        for path in sorted(directory.glob("*/bucket_00000"))
    )


def unit_of(directory: Path) -> Unit:
    """The major compaction of a table's only bucket."""
    found = data_files(directory)
    rows = [file for file in found if not file.directory.startswith("delete_delta")]
    return Unit(
        location=at(directory),
        directory="base_0000100",
        bucket=0,
        is_delete=False,
        inputs=tuple(rows),
        deletes=tuple(file for file in found if file.directory.startswith("delete_delta")),
        collapse=True,
        schema=rows[-1],
        reader=Generation.HIVE3,
        keep_empty=True,
        write_ids=all_committed("t", 1_000_000).for_compactor(),
        settings=RewriteSettings(),
        matching=ColumnMatching.of(Generation.HIVE3),
    )


def largest_decoded(unit: Unit) -> int:
    """Bytes of all columns of the largest input stripe, as they are held while they are rewritten."""
    largest = 0
    with open_inputs(unit.inputs, InputFiles(unit.location, LocalDataFiles())) as inputs:
        for file in inputs.files:
            for number, stripe in enumerate(file.tail.stripes):
                reader = StripeReader(file.source, file.tail, number)
                largest = max(largest, _bytes(reader.column(file.tail.root, stripe.rows)))
    return largest


def _bytes(column: Column) -> int:
    arrays = [column.present, column.values, column.high, column.secondary, column.lengths, column.data]
    if column.dictionary is not None:
        arrays += [column.dictionary.offsets, column.dictionary.data]
    return sum(array.nbytes for array in arrays if array is not None) + sum(map(_bytes, column.children))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
def main(directory: Path, output: Path) -> None:
    """Compact the one bucket of DIRECTORY into the file OUTPUT."""
    output.unlink(missing_ok=True)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    result = run_unit(unit_of(directory), LocalDataFiles(), str(output))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decoded = largest_decoded(unit_of(directory))
    print(
        f"{seconds:.3f} s, {result.rows_in} rows in, {result.rows_out} out, {result.length} bytes, "
        f"{result.stripes_copied} stripes copied, {result.stripes_rewritten} rewritten, "
        f"peak {(peak - idle) / 1024:.0f} MiB above {idle / 1024:.0f} MiB, "
        f"{(peak - idle) * 1024 / decoded:.1f} times the largest stripe decoded ({decoded / (1 << 20):.0f} MiB)"
    )


if __name__ == "__main__":
    main()
