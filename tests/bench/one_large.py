"""Times one large place among small ones, in one run on a standalone cluster of Spark with two workers.

    cd tests; ../.venv/bin/python -m bench.one_large DIRECTORY LARGE [--small 31] [--part-bytes 64m]

LARGE as bench.make_table makes it: it becomes a partition of a table in DIRECTORY, beside small ones of some 70 KB. A
line says when the last small place was published, when the large one was, and what the run's tasks took of it: each
place's time is that of its result's directory. The bound is the work of all, as a run on one core has it, over both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
from servers.spark import SparkCluster

from bench.many_places import ROOT, make_places

WORKERS = 2


def _published(place: Path) -> float:
    """When the newest base was renamed to where it is, in epoch seconds."""
    return max(made.stat().st_ctime for made in place.glob("base_*"))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("large", type=click.Path(path_type=Path, exists=True))
@click.option("--small", default=31, show_default=True)
@click.option("--part-bytes", default="64m", show_default=True)
def main(directory: Path, large: Path, small: int, part_bytes: str) -> None:
    """Measure in DIRECTORY, whose contents are lost."""
    table = make_places(directory, small)
    shutil.copytree(large, table / "p=large", copy_function=os.link)
    size = sum(file.stat().st_size for file in (table / "p=large").rglob("*") if file.is_file())
    (directory / "cluster").mkdir()
    with SparkCluster(directory / "cluster", workers=WORKERS) as cluster:
        words = [
            *(ROOT / "spark-submit.sh", "--master", cluster.url, "--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
            *("--conf", "spark.executor.memory=1g"),
            *("--conf", "spark.python.daemon.module=acidlib.engine.spark_daemon", ROOT / "jobs" / "major_compact.py"),
            *("--location", table, "--all-committed", "--output", "json", "--set", f"acidlib.part.bytes={part_bytes}"),
        ]
        began = time.time()
        ran = subprocess.run(
            list(map(str, words)),
            env=os.environ | {"ACIDLIB_HOME": str(directory / "home"), "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.time() - began
    if ran.returncode:
        sys.exit(ran.stderr[-2000:] + ran.stdout[-2000:])
    places = json.loads(ran.stdout)["compactions"]
    published = {place.name: _published(place) - began for place in table.iterdir()}
    of_large = published.pop("p=large")
    first, last = min(published.values()), max(published.values())
    print(f"{len(places)} places, the large one of {size / 1e6:.0f} MB: first small one at {first:.1f} s, last at "
          f"{last:.1f} s, large one at {of_large:.1f} s, all in {took:.1f} s")  # fmt: skip
    rewritten = {place["partition"]: place.get("rewrite_seconds", 0.0) for place in places}
    print(f"seconds of rewriting: large {rewritten.get('p=large', 0.0):.1f}, all {sum(rewritten.values()):.1f}, "
          f"over {WORKERS} cores {sum(rewritten.values()) / WORKERS:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
