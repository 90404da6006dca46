"""A thousand damaged ORC files, each an error that says why, or exactly the rows that pyorc reads from it.

Every file is worked on in a child process: what crashes, hangs, eats memory or raises anything else fails with its
seed. With ACIDLIB_FUZZ_SECONDS set it goes on from random seeds for that long.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyorc
import pytest
from damaged_orc import GROUPS, READING, Sample, Written, judge, pyorc_writer, run_engine, sample, trial
from fuzzing import Outcome, Phase, describe, in_children, seeds
from judges import java_files
from judges.java_files import Options
from judges.java_orc import JavaOrc, shared
from judges.tables import Layout
from long_runs import amount
from orc_memory import MemoryFiles

from acidlib.errors import CorruptError
from acidlib.model.units import Unit
from acidlib.rewrite.bucket import run_unit

pytestmark = [pytest.mark.java, pytest.mark.slow]

MUTANTS = amount(500, long=5000)
FOUND = (10000389, 10000610, 10001491, 30011096)
"""Seeds that once failed: rows that a footer claims, a stream of no kind. They are others once the damages change."""

BY_PYORC = (
    Layout(compression="none", stripe_size=1, stride=7, batch=20),
    Layout(compression="zlib", stripe_size=1, stride=10, batch=20, dictionary=1.0, bloom=(7,)),
    Layout(compression="snappy", stripe_size=1, stride=5, batch=20),
    Layout(compression="lz4", stripe_size=1, stride=10, batch=20, dictionary=1.0),
    Layout(compression="zstd", stripe_size=1, stride=20, batch=20, bloom=(7,)),
)
BY_JAVA = (
    Options(version="0.11", compression="none", dictionary=1.0),
    Options(version="0.11", compression="snappy", stride=0, dictionary_impl="hash"),
    Options(compression="zlib", bloom="*"),
)


def java_writer(java: JavaOrc, folder: Path, options: Options, columns: str) -> Written:
    """A writer of samples by Java."""
    if options.bloom:
        options = dataclasses.replace(options, bloom=",".join(pyorc.TypeDescription.from_string(columns).fields))

    def write(schema: str, rows: Sequence[Any], acid: bool) -> bytes:
        return java_files.write_orc(java, folder / "sample.orc", schema, rows, options, acid=acid).read_bytes()

    return write


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    """Small files of every kind of column, codec and writer; every kernel is compiled afterwards."""
    java, folder = shared(), tmp_path_factory.mktemp("samples")
    found = []
    for seed, (name, columns) in enumerate(GROUPS.items()):
        if name != "unions":
            found += [sample(f"{name} by pyorc {i}", columns, pyorc_writer(x), seed) for i, x in enumerate(BY_PYORC)]
        for i, options in enumerate(BY_JAVA):
            found.append(sample(f"{name} by Java {i}", columns, java_writer(java, folder, options, columns), seed))
    for seed in range(3 * len(found)):
        run_engine(trial(found[seed % len(found)], random.Random(seed)))
    return found


def try_one(seed: int, phase: Phase, samples: list[Sample]) -> str:
    """The outcome of a seed; AssertionError with all that is known of it."""
    rng = random.Random(seed)
    found = rng.choice(samples)
    what = trial(found, rng)
    try:
        return judge(what, phase)
    except Exception as error:
        raise AssertionError(f"{found.name}, {what.scene}, {what.damage}: {describe(error)}") from error


def is_failure(outcome: Outcome) -> bool:
    """pyorc may crash or hang on the damaged file, the engine may not."""
    return outcome.raised or (outcome.died and outcome.phase != READING)


def test_damaged_files_give_an_error_or_what_pyorc_reads(samples: list[Sample]) -> None:
    outcomes: Counter[str] = Counter()
    failures = []
    for outcome in in_children(seeds(MUTANTS), lambda seed, phase: try_one(seed, phase, samples)):
        if is_failure(outcome):
            failures.append(outcome)
            print(f"seed {outcome.seed} fails in phase {outcome.phase!r}: {outcome.text}")
        outcomes["failed" if is_failure(outcome) else "pyorc died" if outcome.died else outcome.text] += 1
    print(dict(outcomes))
    assert not failures, f"seeds {[failure.seed for failure in failures]}; the first: {failures[0]}"
    assert outcomes["CorruptError"] > MUTANTS / 4
    assert outcomes["made right"] > MUTANTS / 5


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_once_failed(seed: int, samples: list[Sample]) -> None:
    [outcome] = in_children(iter([seed]), lambda seed, phase: try_one(seed, phase, samples))
    assert not is_failure(outcome), outcome


def raises_another(unit: Unit, *rest: Any) -> None:
    raise ValueError("not an error of the engine's own")


def leaves_a_file(unit: Unit, data: MemoryFiles, path: str, *rest: Any) -> None:
    data.create(path).write(b"half")
    raise CorruptError(f"Cannot read {path}: this")


def forgets_deletes(unit: Unit, *rest: Any) -> None:
    run_unit(dataclasses.replace(unit, deletes=()), *rest)


def eats_memory(unit: Unit, *rest: Any) -> None:
    np.ones(300 << 20, np.uint8)
    run_unit(unit, *rest)


@pytest.mark.parametrize(
    ("fault", "tries", "fewest"),
    [
        *((fault, 60, 8) for fault in (raises_another, leaves_a_file, forgets_deletes)),
        (eats_memory, 6, 1),  # memory is counted once: a resident set does not shrink
    ],
)
def test_an_engine_at_fault_is_found_out(
    fault: Any, tries: int, fewest: int, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("damaged_orc.run_unit", fault)
    outcomes = in_children(iter(range(tries)), lambda seed, phase: try_one(seed, phase, samples))
    assert sum(is_failure(outcome) for outcome in outcomes) >= fewest
