"""Times one large place among small ones, in one run on a cluster of Spark, against what no scheduling beats.

    PYTHONPATH=tests .venv/bin/python -m bench.large_among_small DIRECTORY [--rows 25000000] [--small 31] [--cores 2]
                                                                 [--order deltas] [--part-bytes 64m] [--rounds 3]

Starts a master and workers of one core each on this machine; their Python workers begin with the kernels loaded, and
some places are compacted before anything counts. DIRECTORY/large and DIRECTORY/one are made as by bench.make_table when
they are not there: 2.5 million rows are 100 MB, one deleted row in ten has most stripes rewritten. All places are
partitions of one table, hard links to these two.

The bound is the work over the cores, or the large place alone on all of them, whichever is longer. The work is the time
of the same run on one core with no bucket shared. All times are from the beginning of a run in a warm driver to a
rename: Spark's start is in none of them.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from integration.harness import AROUND, Jobs, spark_context
from servers.java import SMALL
from servers.spark import SparkCluster

from acidlib.cli.options import size
from acidlib.model.units import MEBIBYTE
from bench.make_table import make
from bench.many_places import copy_by_links
from bench.processes import below, cpu_seconds

LARGE = "p=large"
SMALL_ROWS, DELTAS, DELETED = 25_000, 10, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Seconds from the beginning of a run until each place was published; those in tasks, and of CPU, are sums."""

    published: dict[str, float]
    large_began: float
    tasks: float
    cpu: float

    @property
    def seconds(self) -> float:
        return max(self.published.values())

    @property
    def small(self) -> list[float]:
        return sorted(moment for name, moment in self.published.items() if name != LARGE)

    @property
    def last_small(self) -> float:
        """When the last small place was published, as a part of the time from the large one's claim to its own."""
        return self.small[-1] / (self.published[LARGE] - self.large_began)


class Bench:
    """Runs on one cluster after the other."""

    def __init__(self, place: Path, large: Path, one: Path, words: tuple[str, ...]) -> None:
        self._place = place
        self._large = large
        self._one = one
        self._words = words
        self._jobs = Jobs(queue_url=f"sqlite:///{place}/queue.db")

    @contextmanager
    def cluster(self, cores: int) -> Iterator[None]:
        """So many workers, which have done something of everything."""
        conf = {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(SMALL),
            "spark.scheduler.mode": "FAIR",
            "spark.cores.max": str(cores),
            "spark.scheduler.minRegisteredResourcesRatio": "1",
        }
        directory = Path(tempfile.mkdtemp(prefix="spark", dir=self._place))
        before = AROUND.runner
        with SparkCluster(directory, workers=cores) as cluster:
            with spark_context({**conf, "spark.master": cluster.url}) as AROUND.runner:
                self.run(small=8 * cores, large=False)
                yield
            AROUND.runner = before

    def run(self, *, small: int, large: bool, part_bytes: int = 64 * MEBIBYTE) -> Run:
        """Compact so many small places, and the large one among them."""
        table = self._place / "table"
        made = {f"p={number:03d}": self._one for number in range(small)} | ({LARGE: self._large} if large else {})
        for name, source in made.items():
            copy_by_links(source, table / name)
        before = cpu_seconds(below(os.getpid()))
        began = time.time()
        ran = self._jobs.good(
            "major_compact", "--all-committed", "--location", table, "--set", f"acidlib.part.bytes={part_bytes}",
            *self._words,
        )  # fmt: skip
        states = set(ran.states)
        if states != {"ready for cleaning"}:
            raise SystemExit(f"not all was compacted: {ran.out[-2000:]}")
        published = {name: _renamed(table / name, source) - began for name, source in made.items()}
        large_seconds = [entry["seconds"] for entry in ran.compactions if f"p={entry['partition']}" == LARGE]
        found = Run(
            published=published,
            large_began=published[LARGE] - large_seconds[0] if large_seconds else 0.0,
            tasks=sum(entry["rewrite_seconds"] for entry in ran.compactions),
            cpu=cpu_seconds(below(os.getpid())) - before,
        )
        shutil.rmtree(table)
        return found


def _renamed(place: Path, source: Path) -> float:
    """When the result of a place got its name: a rename changes the status of what is renamed."""
    (result,) = {path.name for path in place.iterdir() if path.name[0] not in "_."} - {p.name for p in source.iterdir()}
    return (place / result).stat().st_ctime


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rows", default=25_000_000, show_default=True, help="Of the large place, when it is made.")
@click.option("--small", default=31, show_default=True, help="Small places.")
@click.option("--cores", default=2, show_default=True)
@click.option("--order", default="deltas", show_default=True, help="As that of the job.")
@click.option("--part-bytes", type=size, default="64m", show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(directory: Path, rows: int, small: int, cores: int, order: str, part_bytes: int, rounds: int) -> None:
    """Measure in DIRECTORY."""
    large, one = directory / "large", directory / "one"
    for place, count in ((large, rows), (one, SMALL_ROWS)):
        if not place.exists():
            make(place, rows=count, deltas=DELTAS, deleted=DELETED)
            print(f"{place} made: {_bytes(place) / 1e6:.1f} MB", flush=True)
    with tempfile.TemporaryDirectory(dir=directory) as name:
        bench = Bench(Path(name), large, one, ("--order", order))
        with bench.cluster(1):
            single = [bench.run(small=small, large=True, part_bytes=0) for _ in range(rounds)]
        with bench.cluster(cores):
            pairs = [
                (
                    bench.run(small=0, large=True, part_bytes=part_bytes),
                    bench.run(small=small, large=True, part_bytes=part_bytes),
                )
                for _ in range(rounds)
            ]
    rows = {
        "all on one core, nothing shared": single,
        f"the large place alone on {cores}": [alone for alone, _ in pairs],
        f"all on {cores}": [run for _, run in pairs],
    }
    print(f"{'':34}{'seconds':>9}{'in tasks':>10}{'CPU':>8}")
    for title, runs in rows.items():
        seconds, tasks, cpu = (_median(getattr(run, key) for run in runs) for key in ("seconds", "tasks", "cpu"))
        print(f"{title:34}{seconds:9.2f}{tasks:10.2f}{cpu:8.1f}")
    bound = max(_median(run.seconds for run in single) / cores, _median(alone.seconds for alone, _ in pairs))
    for _, run in pairs:
        print(f"all: {run.seconds / bound:.2f} times the bound ({bound:.2f} s); small places published after "
              f"{run.small[0]:.2f} to {run.small[-1]:.2f} s, the large one after {run.published[LARGE]:.2f} s: the "
              f"last small one at {run.last_small:.2f} of the large one's time")  # fmt: skip
    print(f"median: {_median(run.seconds for _, run in pairs) / bound:.2f} times the bound; the last small one at "
          f"{_median(run.last_small for _, run in pairs):.2f}")  # fmt: skip


def _bytes(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def _median(found: Iterable[float]) -> float:
    return statistics.median(found)


if __name__ == "__main__":
    main()
