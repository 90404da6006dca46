"""What verifying a major compaction costs against the compaction itself: CPU seconds of one process, without Spark.

cd tests; ../.venv/bin/python -m bench.verify_cost /tmp/bench/t10      # a table of bench.make_table, which stays
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from compaction import MAJOR, plan_of, prepared, to_its_end

from acidlib.config.settings import default_settings
from acidlib.execute.tasks import run_unit_task
from acidlib.runs.compact import collect_results
from acidlib.runs.verify import Verifier, result_to_verify
from acidlib.stores.stores import Stores


class _Services:
    """As much of them as comparing needs."""

    def __init__(self, stores: Stores) -> None:
        self.stores, self.fs, self.settings = stores, stores.fs, default_settings()


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What comes of it, and CPU seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def once(place: Path) -> str:
    """Compacts a place, and verifies it."""
    stores = Stores()
    found = prepared(place, MAJOR, stores=stores)
    location = found.listed.place.location
    stage = stores.store(location).stage(location, unique="b", owner="b", now=time.time())

    def compact() -> Any:
        plan = plan_of(found, stores=stores)
        made = [run_unit_task(unit, stage.path, stores, str(number)) for number, unit in enumerate(plan.files)]
        staged = collect_results(stage, plan.inputs, made)
        return result_to_verify(plan, staged, stage)

    done, compacting = timed(compact)
    services: Any = _Services(stores)
    verifier = Verifier(services, release_held=False)
    checked, verifying = timed(lambda: to_its_end(verifier.compare(done, 1, 1.0)))
    return (
        f"compacting {compacting:.2f} s, verifying {verifying:.2f} s of CPU for {checked.rows:,} rows: "
        f"{verifying / compacting:.1f} times"
    )


@click.command()
@click.argument("table", type=click.Path(path_type=Path, exists=True))
@click.option("--runs", default=3)
def main(table: Path, runs: int) -> None:
    """Compacts copies of TABLE, and verifies them."""
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=table.parent) as root:
            shutil.copytree(table, Path(root) / "t")
            click.echo(once(Path(root) / "t"))


if __name__ == "__main__":
    main()
