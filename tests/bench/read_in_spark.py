"""Reads a snapshot in Spark, in pairs with `spark.read.orc` of the same rows in a flat ORC table.

    cd tests; ../.venv/bin/python -m bench.read_in_spark DIRECTORY [--rows 10000000] [--rounds 5]

Makes the tables in DIRECTORY if they are not there, by Arrow's writer: one after a major compaction, and one with five
deltas, of which a tenth is deleted. A pair is a query of each, one after the other; columns are summed up (`sum`), or
all are read and dropped (`noop`). Prints seconds of the median pair, and medians of the ratios: of seconds, and of
the CPU of all processes, which also means something while others use the machine.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pyarrow as pa
import pyarrow.orc
from pyspark.sql import DataFrame, SparkSession

import acidlib
from acidlib.model.units import encode_bucket

BUCKETS = 4
DELTAS = 5
DELETED = 0.1
_PART = 500_000
_STATUS = ("new", "paid", "packed", "shipped", "delivered", "returned", "lost", "cancelled")
_EPOCH_2020 = 1_577_836_800


def columns(first: int, count: int) -> pa.Table:
    """Rows with the ids from `first` on."""
    random = np.random.default_rng(first)
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "id": ids,
            "customer": random.integers(0, 1 << 20, count, dtype=np.int32),
            "amount": pa.array(random.integers(0, 1 << 24, count) / 100).cast(pa.decimal128(12, 2), safe=False),
            "ratio": random.random(count),
            "flag": random.random(count) < 0.5,
            "day": pa.array(random.integers(18_000, 22_000, count, dtype=np.int32)).cast(pa.date32()),
            "ts": pa.array((_EPOCH_2020 + ids // 4) * 1_000_000, pa.timestamp("us")),
            "status": np.array(_STATUS)[random.integers(0, len(_STATUS), count)],
            "city": np.char.add("city ", random.integers(0, 4096, count).astype(str)),
            "note": pa.array(np.char.add(random.integers(0, 1 << 40, count).astype(str), " note")),
        }
    )


def write(path: Path, parts: Iterator[pa.Table]) -> None:
    """One file of ORC, in zlib as Hive writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.orc.ORCWriter(
        str(path), compression="zlib", stripe_size=64 << 20, dictionary_key_size_threshold=0.8
    ) as writer:
        for part in parts:
            writer.write(part)


def parts_of(first: int, count: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows with so many ids from `first` on, and the number of the first of each part."""
    for start in range(0, count, _PART):
        yield start, columns(first + start, min(_PART, count - start))


def acid(operation: int, write_id: int, bucket: int, original: int, row_ids: np.ndarray, row: pa.Array) -> pa.Table:
    """Rows with the columns of an ACID file."""
    count = len(row_ids)
    return pa.table(
        {
            "operation": np.full(count, operation, np.int32),
            "originalTransaction": np.full(count, original, np.int64),
            "bucket": np.full(count, encode_bucket(bucket, 0), np.int32),
            "rowId": row_ids,
            "currentTransaction": np.full(count, write_id, np.int64),
            "row": row,
        }
    )


def inserts(write_id: int, bucket: int, first: int, count: int) -> Iterator[pa.Table]:
    """The contents of an insert file."""
    for start, part in parts_of(first, count):
        row = part.combine_chunks().to_struct_array().combine_chunks()
        yield acid(0, write_id, bucket, write_id, np.arange(start, start + len(part)), row)


def make(directory: Path, rows: int) -> None:
    """Both tables, and their rows in flat tables."""
    share, of_delta = rows // BUCKETS, rows // BUCKETS // 50
    base = share - DELTAS * of_delta
    row = pa.struct(list(columns(0, 1).schema))
    for bucket in range(BUCKETS):
        name, first = f"bucket_{bucket:05d}", bucket * share
        write(directory / "major" / "base_0000001" / name, inserts(1, bucket, first, share))
        write(directory / "flat_major" / f"{bucket}.orc", (part for _, part in parts_of(first, share)))
        write(directory / "deltas" / "base_0000001" / name, inserts(1, bucket, first, base))
        for number in range(2, DELTAS + 2):
            path = directory / "deltas" / f"delta_{number:07d}_{number:07d}_0000" / name
            write(path, inserts(number, bucket, first + base + (number - 2) * of_delta, of_delta))
        gone = np.sort(np.random.default_rng(bucket).choice(base, int(share * DELETED), replace=False))
        last = DELTAS + 2
        path = directory / "deltas" / f"delete_delta_{last:07d}_{last:07d}_0000" / name
        write(path, iter([acid(2, last, bucket, 1, gone, pa.nulls(len(gone), row))]))
        kept = np.ones(base, bool)
        kept[gone] = False
        left = (part.filter(pa.array(kept[start : start + len(part)])) for start, part in parts_of(first, base))
        added = (part for start in range(base, share, of_delta) for _, part in parts_of(first + start, of_delta))
        write(directory / "flat_deltas" / f"{bucket}.orc", chain(left, added))


def summed(column: str) -> Callable[[DataFrame], object]:
    return lambda table: table.selectExpr(f"sum({column})").collect()


def dropped(table: DataFrame) -> object:
    table.write.format("noop").mode("overwrite").save()
    return None


QUERIES: dict[str, tuple[tuple[str, ...] | None, Callable[[DataFrame], object]]] = {
    "one column, sum": (("customer",), summed("customer")),
    "one column, noop": (("customer",), dropped),
    "all columns, noop": (None, dropped),
}


def cpu_seconds() -> float:
    """Seconds that this process, the JVM and all workers of Python have computed so far."""
    parents, ticks = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            parents[int(entry.parent.name)] = int(fields[1])
            ticks[int(entry.parent.name)] = sum(map(int, fields[11:15]))  # those of its ended children, too
    ours, before = {os.getpid()}, 0
    while len(ours) > before:
        before = len(ours)
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return sum(ticks[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    seconds: float
    cpu: float
    answer: object


def measured(work: Callable[[], object]) -> Measured:
    computed, start = cpu_seconds(), time.perf_counter()
    answer = work()
    return Measured(time.perf_counter() - start, cpu_seconds() - computed, answer)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rows", default=10_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--master", default="local[2]", show_default=True)
@click.option("--query", "chosen", type=click.Choice(list(QUERIES)), multiple=True, help="Some queries alone.")
@click.option("--source", is_flag=True, help="Read by the format hive_acid.")
def main(directory: Path, rows: int, rounds: int, master: str, chosen: tuple[str, ...], source: bool) -> None:
    """Measure the tables in DIRECTORY."""
    if not directory.exists():
        make(directory, rows)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.driver.memory", "4g")
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(key, "false")
    with builder.getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        acidlib.register(spark)
        for table in ("major", "deltas"):
            for title in chosen or QUERIES:
                names, query = QUERIES[title]
                flat = spark.read.orc(str(directory / f"flat_{table}"))
                flat = flat if names is None else flat.select(*names)
                if source:
                    reader = spark.read.format("hive_acid").option("allCommitted", "true")
                    reader = reader if names is None else reader.option("columns", ",".join(names))
                    snapshot = reader.load(str(directory / table))
                else:
                    snapshot = acidlib.directory(directory / table, all_committed=True).read(spark, columns=names)
                pairs = []
                for _ in range(rounds + 1):  # the first one warms up
                    of_flat = measured(partial(query, flat))
                    of_snapshot = measured(partial(query, snapshot))
                    assert of_snapshot.answer == of_flat.answer
                    pairs.append((of_snapshot.seconds / of_flat.seconds, of_flat, of_snapshot))
                del pairs[0]
                ratios = sorted(pair[0] for pair in pairs)
                cpu = statistics.median(pair[2].cpu / pair[1].cpu for pair in pairs)
                of_flat, of_snapshot = sorted(pairs, key=itemgetter(0))[rounds // 2][1:]
                print(
                    f"{table:7} {title:18} flat {of_flat.seconds:6.2f} s ({of_flat.cpu:.1f} of CPU), "
                    f"snapshot {of_snapshot.seconds:6.2f} s ({of_snapshot.cpu:.1f}): {statistics.median(ratios):.2f} "
                    f"times ({ratios[0]:.2f} to {ratios[-1]:.2f}), {cpu:.2f} times the CPU",
                    flush=True,
                )


if __name__ == "__main__":
    main()
