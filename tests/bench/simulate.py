"""Plans for clusters that are not there: the scheduling of a run in virtual time, against what no scheduling beats.

    cd tests; ../.venv/bin/python -m bench.simulate [--places 100000] [--cores 4000] [--mean 3g] [--order as-is]

Sizes are heavy-tailed (Pareto), at most 200 GB. What is modelled is told in `simulated_cluster`, and its costs are the
fields of `Costs` there. A line says how long it took, what bounds it (all work over all cores, and the largest place
shared as it may be), how much of the time the driver's interpreter worked, and the CPU that scheduling itself took.
"""

from __future__ import annotations

import time

import click
from simulated_cluster import Costs, heavy_tailed, simulate

from acidlib.cli.options import size
from acidlib.model.units import MEBIBYTE

LARGEST = 200 * 1024 * MEBIBYTE


@click.command()
@click.option("--places", default=100_000, show_default=True)
@click.option("--cores", "all_cores", default=[4000], show_default=True, multiple=True)
@click.option("--mean", "means", type=size, default=["3g"], show_default=True, multiple=True)
@click.option("--order", type=click.Choice(["as-is", "largest-first", "smallest-first"]), default="as-is")
@click.option(
    "--calls", default=Costs().calls, show_default=True, help="Seconds that each of two steps of a place waits."
)
@click.option("--seed", default=1, show_default=True)
def main(places: int, all_cores: tuple[int, ...], means: tuple[int, ...], order: str, calls: float, seed: int) -> None:
    """Simulate runs."""
    costs = Costs(calls=calls)
    for cores in all_cores:
        for mean in means:
            sizes = heavy_tailed(seed, places, mean, most=LARGEST)
            if order != "as-is":
                sizes.sort(reverse=order == "largest-first")
            before = time.process_time()
            found = simulate(sizes, cores=cores, costs=costs, seed=seed)
            print(f"{places} places, {found.bytes / places / MEBIBYTE:.0f} MB on average, {cores} cores, {order}: "
                  f"{found.seconds:.0f} s, {found.ratio:.2f} times the bound (work {found.work / cores:.0f} s, largest "
                  f"{found.longest:.0f} s); driver {found.busy:.0f} s, {found.driver:.0%}; {found.jobs} jobs, "
                  f"{found.most_under_way} places at a time; {time.process_time() - before:.0f} s to simulate",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
