"""The memory of tasks that read a snapshot, and of those that compact, where rows of the table are deleted by millions.

    PYTHONPATH=tests .venv/bin/python -m bench.memory_of_deletes DIRECTORY [--events 20000000] [--only spread]

Makes tables of twice as many rows as there are delete events in DIRECTORY, if they are not there:

    none    without deletes
    spread  ten delete deltas, each all over the rows
    range   ten that have a range of rows each, together the first half of the table, in files of some KB
    hive31  four buckets in the layout of Hive 3.1: each of ten delete files has events of all buckets, all over
    minor   one delete delta, whose file has one stripe

A snapshot is read as by tasks of Spark on a session of two cores, one task after the other in one process, and no batch
is kept. A compaction is a major one of each bucket in tasks of the usual size, one after the other. Every way has a
process of its own, which does the same with a thousand events first: what it has in memory then is not counted.
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from located import at
from numpy.typing import NDArray
from pyarrow import orc
from runners import LocalRunner
from snapshots import schema_of, splits_of

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import all_committed
from acidlib.execute.answers import returned_by
from acidlib.execute.schedule import Scheduler, Subtask, run_tasks
from acidlib.execute.spark_frame import task_bytes
from acidlib.execute.task import Task
from acidlib.model.units import ColumnMatching, DataFile, RewriteSettings, Unit
from acidlib.runs.plan import file_task
from acidlib.scan.read import read_splits
from acidlib.scan.splits import Scan, packed
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore, try_to_remove_staging
from acidlib.stores.stores import Stores

ROW_TYPE = "struct<id:bigint,name:string,amount:double>"
FIELDS = [("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())]
CORES = 2
PART_BYTES = 64 << 20
"""The default of `acidlib.part.bytes`."""
_BATCH_ROWS = 1_000_000
_FEW = 1000
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """A table with deletes: its buckets and delete deltas, and whether each of these has a range of rows."""

    name: str
    buckets: int = 1
    deltas: int = 10
    is_range: bool = False


CASES = (
    Case("none", deltas=0),
    Case("spread"),
    Case("range", is_range=True),
    Case("hive31", buckets=4),
    Case("minor", deltas=1),
)


def make(directory: Path, case: Case, events: int) -> None:
    """The table of a case: a base, and its delete deltas."""
    rows = 2 * events // case.buckets
    for bucket in range(case.buckets):
        _write(directory / "base_0000001" / f"bucket_{bucket:05d}", _inserts(bucket, rows))
    gone = np.arange(events) if case.is_range else np.random.default_rng(7).permutation(2 * events)[:events]
    for number, part in enumerate(np.array_split(gone, case.deltas) if case.deltas else ()):
        write_id = number + 2
        name = f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
        _write(directory / name / f"bucket_{number % case.buckets:05d}", _deletes(write_id, np.sort(part), rows))


def _inserts(bucket: int, rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(bucket)
    for first in range(0, rows, _BATCH_ROWS):
        row_ids = np.arange(first, min(first + _BATCH_ROWS, rows))
        numbers = random.integers(0, 1 << 40, len(row_ids))
        values = pa.StructArray.from_arrays(
            [pa.array(row_ids), pc.cast(pa.array(numbers), pa.string()), pa.array(numbers / 7)],
            names=[name for name, _ in FIELDS],
        )
        yield _events(0, 1, np.full(len(row_ids), bucket), row_ids, 1, values)


def _deletes(write_id: int, gone: Rows, rows: int) -> Iterator[pa.RecordBatch]:
    """Delete events of rows that are numbered on over buckets of so many rows."""
    for first in range(0, len(gone), _BATCH_ROWS):
        buckets, row_ids = np.divmod(gone[first : first + _BATCH_ROWS], rows)
        values = pa.nulls(len(row_ids), pa.struct(FIELDS))
        yield _events(2, 1, buckets, row_ids, write_id, values)


def _events(
    operation: int, write_id: int, buckets: Rows, row_ids: Rows, current: int, row: pa.StructArray
) -> pa.RecordBatch:
    count = len(row_ids)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(count, operation, dtype=np.int32)),
            pa.array(np.full(count, write_id)),
            pa.array((0x20000000 + (buckets << 16)).astype(np.int32)),
            pa.array(row_ids),
            pa.array(np.full(count, current)),
            row,
        ],
        names=["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"],
    )


def _write(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_text("2")
    with orc.ORCWriter(str(path), compression="zlib", compression_block_size=262_144) as writer:
        for batch in batches:
            writer.write(pa.Table.from_batches([batch]))


def read(directory: Path, columns: int) -> int:
    """Read the first columns of all rows as tasks of Spark do, and return the rows."""
    fields = FIELDS[:columns]
    scan = Scan(table="t", row_type=ROW_TYPE, columns=tuple(name for name, _ in fields), schema=schema_of(fields))
    splits = splits_of(scan, directory)
    groups = packed(splits, bytes_per_task=task_bytes(splits, CORES))
    return sum(batch.num_rows for group in groups for batch in read_splits(scan, group, Stores()))


def compact(directory: Path) -> int:
    """Do the tasks of a major compaction of each bucket, and return the rows that are left."""
    stage = RenameStore(LocalFileSystem()).stage(at(directory), unique=uuid.uuid4().hex, owner="bench", now=time.time())
    rows: list[int] = []
    try:
        scheduler: Scheduler[int] = Scheduler(
            LocalRunner(lambda: uuid.uuid4().hex), limit=lambda _: 1, name=str, on_result=rows.append
        )
        returned_by(scheduler.run(_Bucket(file_task(unit, stage.path, Stores())) for unit in units(directory)))
    finally:
        try_to_remove_staging(LocalFileSystem(), at(directory), stage.path)
    return sum(rows)


@dataclass(frozen=True, slots=True)
class _Bucket:
    """A bucket as a workflow."""

    made: Task | Subtask
    name: str = "bucket"

    async def run(self) -> int:
        (result,) = await run_tasks(self.made)
        return result.rows_out

    def give_back(self) -> None:
        """Nothing is given up here."""


def units(directory: Path) -> Iterator[Unit]:
    """The major compaction of each bucket."""
    files = [
        DataFile(
            path=str(path.relative_to(directory)),
            directory=path.parent.name,
            length=path.stat().st_size,
            bucket=int(path.name.removeprefix("bucket_")),
        )
        for path in sorted(directory.glob("*/bucket_*"))
    ]
    deletes = tuple(file for file in files if file.directory.startswith("delete_delta"))
    for file in files:
        if file not in deletes:
            yield Unit(
                location=at(directory),
                directory="base_0000100",
                bucket=file.bucket,
                is_delete=False,
                inputs=(file,),
                deletes=deletes,
                collapse=True,
                schema=file,
                reader=Generation.HIVE3,
                keep_empty=True,
                write_ids=all_committed("t", 1_000_000).for_compactor(),
                settings=RewriteSettings(part_bytes=PART_BYTES),
                matching=ColumnMatching.of(Generation.HIVE3),
            )


WAYS = {
    "one column read": partial(read, columns=1),
    "all columns read": partial(read, columns=len(FIELDS)),
    "compacted": compact,
}


def measured(way: str, directory: Path, warm: Path) -> tuple[int, float, float, float]:
    """Return rows, seconds of CPU, the peak in MB, and what was resident before, in a process that is new."""
    WAYS[way](warm)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    idle, began = _peak(), time.process_time()
    rows = WAYS[way](directory)
    return rows, time.process_time() - began, _peak() - idle, idle


def _peak() -> float:
    """The most MB of this process that were in memory at a time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--events", default=20_000_000, show_default=True)
@click.option("--only", type=click.Choice([case.name for case in CASES]), help="Only this table, and none.")
def main(directory: Path, events: int, only: str | None) -> None:
    """Measure the tables in DIRECTORY."""
    for case in CASES:
        if only not in (None, case.name) and case.deltas:
            continue
        table, warm = directory / case.name, directory / f"few-{case.name}"
        for path, count in ((table, events), (warm, _FEW)):
            if not path.exists():
                make(path, case, count)
        bytes_of = [sum(path.stat().st_size for path in table.glob(f"{kind}/bucket*")) for kind in ("base*", "delete*")]
        print(f"{case.name}: {bytes_of[0] / 1e6:.0f} MB of rows, {bytes_of[1] / 1e6:.1f} MB of deletes", flush=True)
        for way in WAYS:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                rows, seconds, peak, idle = pool.submit(measured, way, table, warm).result()
            if rows != (events if case.deltas else 2 * events):
                raise SystemExit(f"{rows} rows are left of {2 * events}")
            print(f"  {way:18} {seconds:6.1f} s of CPU, peak {peak:6.0f} MB above {idle:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
