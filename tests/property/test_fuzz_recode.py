"""Compactions of random tables by random writers, each from one integer seed: everything that a reader sees, judged.

Of both writers, with every codec, run-length version, zone and kind of column; what was minor becomes major, and all is
rebalanced. With ACIDLIB_FUZZ_SECONDS set it goes on from random seeds.
"""

from __future__ import annotations

import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, REBALANCE, Compacted, RefusedPlanError, bucket_files, compact_directory, plan
from conformance.checks import java_problems, statistics_problems
from fuzzing import seeds
from judges import merge, mutants
from judges import orc_tail as o
from judges.java_orc import JavaOrc, shared
from long_runs import amount
from random_tables import RandomTable, build
from rebalancing import renumbered

from acidlib.model.units import Unit
from acidlib.rewrite.bucket import join_parts, plan_bucket, run_part
from acidlib.stores.renaming.local import LocalDataFiles

pytestmark = [pytest.mark.java, pytest.mark.slow]

TABLES = amount(30, long=200)
FOUND: tuple[int, ...] = ()
"""Seeds with which the engine once failed. A change of the generator makes other tables of them."""


@pytest.fixture(scope="module")
def java() -> JavaOrc:
    return shared()


def judge(seed: int, java: JavaOrc) -> str:
    """What was done for a seed. Raises AssertionError, or whatever the engine or a judge raises."""
    with tempfile.TemporaryDirectory() as folder:
        table = build(seed, Path(folder) / "table", java)
        before = merge.read(table.location, table.write_ids, generation=table.generation)
        assert table.expected is None or before == table.expected
        rng = random.Random(seed)
        visibility = 100 if table.generation == 4 else None
        arguments = (table.location, table.kind, table.write_ids, table.generation, visibility)
        try:
            _, units = plan(*arguments, settings=table.settings)
            in_parts = [_in_parts(unit, Path(folder)) for unit in units if not unit.is_delete and rng.random() < 0.3]
            compacted = compact_directory(*arguments, settings=table.settings)
        except RefusedPlanError:
            return "nothing to compact"
        _check(table, compacted, before, java)
        whole = [path.read_bytes() for path in bucket_files(table.location, compacted.directories)]
        assert all(part in whole for part in in_parts if part)
        if table.kind is MINOR:
            over = None if visibility is None else 101
            arguments = (table.location, MAJOR, table.write_ids, table.generation, over)
            with suppress(RefusedPlanError):
                _check(table, compact_directory(*arguments, settings=table.settings), before, java)
        if table.generation == 4:
            _rebalance(table, before, rng, java)
        copied = any(result.stripes_copied for result in compacted.results)
        rewritten = any(result.stripes_rewritten for result in compacted.results)
        return f"{table.kind.value}, {'copied ' * copied}{'rewritten' * rewritten}"


def _in_parts(unit: Unit, folder: Path) -> bytes:
    """The file of a unit made by several tasks; nothing where it has no rows."""
    data = LocalDataFiles()
    found = plan_bucket(unit, data)
    if not found.planned.rows_out:
        return b""
    rewritten = [number for number, action in found.actions.items() if not action.copy]
    parts = []
    for number in rewritten:
        parts.append(run_part(found.part([number]), data, f"{folder}/part_{unit.bucket}_{number}"))
    joined = folder / f"joined_{unit.bucket}"
    join_parts(found, tuple(parts), data, str(joined))
    return joined.read_bytes()


def _rebalance(table: RandomTable, before: Sequence[merge.Row], rng: random.Random, java: JavaOrc) -> None:
    """What was compacted, rebalanced."""
    buckets = rng.choice((1, 2, 3, 7))
    spread = compact_directory(
        table.location, REBALANCE, table.write_ids, 4, 102, settings=table.settings, buckets=buckets
    )
    _check(table, spread, renumbered(before, buckets), java)


def _check(table: RandomTable, compacted: Compacted, before: Sequence[merge.Row], java: JavaOrc) -> None:
    after = merge.read(table.location, table.write_ids, generation=table.generation, strict=True)
    assert after == before
    for result in compacted.results:
        for path in bucket_files(table.location, [result.directory]):
            if path.name != f"bucket_{result.bucket:05d}":
                continue
            copied = result.stripes_copied > 0
            problems = statistics_problems(path, table.generation, copied=copied)
            assert not problems, f"{path}: {problems[:5]}"
            # Java cannot prune in some uncompressed stripes of pyorc
            if copied and not table.java_only and "none" in table.codecs:
                problems = java.differences(path)
            else:
                problems = java_problems(java, path, max_groups=1)
            assert not problems, f"{path}: {problems[:5]}"


def test_random_tables(java: JavaOrc, steady_deflate: None) -> None:
    outcomes: Counter[str] = Counter()
    failures: list[tuple[int, str]] = []
    for seed in seeds(TABLES):
        try:
            outcomes[judge(seed, java)] += 1
        except Exception as error:
            outcomes["failed"] += 1
            failures.append((seed, f"{type(error).__name__}: {error}"))
            print(f"seed {seed} fails:\n{traceback.format_exc()}")
    print(dict(outcomes))
    assert not failures, f"seeds {[seed for seed, _ in failures]}; the first: {failures[0][1]}"
    assert outcomes["nothing to compact"] < TABLES / 3


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_once_failed(seed: int, java: JavaOrc) -> None:
    judge(seed, java)


def with_wrong_statistic(path: Path) -> None:
    path.write_bytes(mutants.shift_group_statistic(o.read_orc(path), 0, 4, 0))


def with_wrong_position(path: Path) -> None:
    path.write_bytes(mutants.move_position(o.read_orc(path), 0, 4, 0))


def without_rows(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("fault", [with_wrong_statistic, with_wrong_position, without_rows])
def test_an_engine_at_fault_is_found_out(fault: Any, java: JavaOrc, monkeypatch: pytest.MonkeyPatch) -> None:
    right = compact_directory

    def compact(location: Path, *rest: Any, **settings: Any) -> Compacted:
        compacted = right(location, *rest, **settings)
        for path in bucket_files(location, compacted.directories):
            if o.read_orc(path).stripes:
                fault(path)
        return compacted

    monkeypatch.setitem(globals(), "compact_directory", compact)
    with pytest.raises(AssertionError):
        Counter(judge(seed, java) for seed in range(8))
