"""The scheduling of a run on clusters that are not there, in virtual time."""

from __future__ import annotations

import pytest
from simulated_cluster import Costs, heavy_tailed, simulate

from acidlib.model.units import MEBIBYTE

SIZES = heavy_tailed(1, 2500, 1000 * MEBIBYTE, most=20_000 * MEBIBYTE)


def test_executors_are_busy_to_the_end() -> None:
    found = simulate(SIZES, cores=100)
    assert found.ratio <= 1.1
    assert found == simulate(SIZES, cores=100), "nothing but the seed decides"
    assert found != simulate(SIZES, cores=100, seed=1)


def test_many_cores_are_busy_too() -> None:
    """Spark is not asked for more tasks than it can start, and jobs are ended by few tasks each."""
    found = simulate(SIZES[:1250], cores=1000, costs=Costs(calls=0.01, straggling=(1.0, 0)))
    assert found.ratio <= 1.45  # the rest is the largest place, and the driver's last steps


@pytest.mark.parametrize("large", [0, -1])
def test_one_large_place_takes_what_it_takes_alone(large: int) -> None:
    sizes = [8 * MEBIBYTE] * 3000
    sizes[large] = 2048 * MEBIBYTE
    found = simulate(sizes, cores=16, costs=Costs(straggling=(1.0, 0)))
    assert found.seconds <= 1.1 * (found.work / found.cores + found.longest)
