"""How long the plan of a read of many small partitions takes, against the initiator's scan of the same ones.

    PYTHONPATH=tests .venv/bin/python -m bench.many_snapshots DIRECTORY [--places 10000] [--repeat 3]

Both are done in this process, in turns, so that neither has a start of Spark or Python in it: the initiator decides of
each place whether a compaction is due (a dry run), the snapshot lists each and makes its splits, once with the table's
columns stated and once without. The last plan reads one partition of all, by a condition. CPU is that of all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

import acidlib
from bench.many_places import COLUMNS, SMALL, USUAL, make_places


def timed(name: str, work: Callable[[], object]) -> None:
    """Print what the work returns, and its seconds."""
    wall, cpu = time.monotonic(), time.process_time()
    result = work()
    print(f"{name}: {result}, {time.monotonic() - wall:.2f} s, CPU {time.process_time() - cpu:.2f} s", flush=True)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--places", default=10_000, show_default=True)
@click.option("--repeat", default=3, show_default=True)
@click.option("--small", is_flag=True, help="Three directories a place instead of seven.")
def main(directory: Path, places: int, repeat: int, small: bool) -> None:
    """Make the places in DIRECTORY, and plan."""
    location = make_places(directory / "many", places, SMALL if small else USUAL)
    columns = COLUMNS.removeprefix("struct<").removesuffix(">").replace(":", " ")
    stated = acidlib.directory(location, all_committed=True, columns=columns, table_kind="full", hive_version=3)
    plain = acidlib.directory(location, all_committed=True, queue=f"sqlite:///{directory}/queue.db")
    lake = acidlib.warehouse(location.parents[1], all_committed=True, queue=f"sqlite:///{directory}/queue.db")

    def planned(table: acidlib.Table, where: str | None = None) -> str:
        with table.snapshot(where=where) as snapshot:
            return f"{snapshot.places} places, {len(snapshot.splits)} splits"

    for _ in range(repeat):
        timed("initiator", lambda: f"{len(lake.initiate(dry_run=True, progress=False).entries)} decisions")
        timed("snapshot", lambda: planned(plain))
        timed("snapshot, columns stated", lambda: planned(stated))
        timed("snapshot, one of all", lambda: planned(stated, f"p = '{places // 2}'"))


if __name__ == "__main__":
    main()
