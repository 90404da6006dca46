"""Snapshots of damaged files: an error of the library's own that names the file, or rows, but never a crash.

Each damage comes from a seed, and is read in a child of this process. With ACIDLIB_FUZZ_SECONDS set it goes on from
random seeds.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from fuzzing import Phase, in_children, seeds
from judges import random_orc, tables
from judges.orc_mutations import mutate
from judges.samples import any_layout, any_rows
from long_runs import amount
from snapshot_reads import read_arrow

from acidlib.errors import CorruptError, RefusedError

pytestmark = pytest.mark.slow
DAMAGES = amount(60, long=2000)
SECONDS = 20.0


def read_damaged(seed: int, phase: Phase) -> str:
    """What came of a damage: rows, or the name of an error's class."""
    rng = random.Random(seed)
    columns = random_orc.columns(rng, unions=False, most=4)
    rows, layout = any_rows(rng, columns, 60, least=60), any_layout(rng)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "t"
        tables.write_dir(place, tables.delta_name(1, 1), columns, tables.inserts(1, rows), layout)
        gone = [(1, tables.bucket_property(0, 0), number) for number in range(0, 60, 3)]
        tables.write_dir(place, tables.delta_name(2, 2, delete=True), columns, tables.deletes(2, gone), layout)
        path = rng.choice(sorted(place.glob("*/bucket_*")))
        path.write_bytes(mutate(path.read_bytes(), rng)[0])
        phase("read", SECONDS)
        try:
            found = read_arrow(place, generation=rng.choice((3, 4)), columns=columns, row_ids=rng.random() < 0.5)
        except (CorruptError, RefusedError) as error:
            return f"{type(error).__name__}: {error}"
        found.validate(full=True)
        return "rows"


def test_damage_is_an_error_or_rows() -> None:
    outcomes = list(in_children(seeds(DAMAGES), read_damaged))
    problems = [outcome for outcome in outcomes if outcome.died or outcome.raised]
    assert not problems, problems[:5]
    errors = [outcome.text.partition(": ")[2] for outcome in outcomes if outcome.text != "rows"]
    assert not [text for text in errors if not text.startswith("Cannot read ") or "/bucket_00000" not in text]
    counts = Counter(outcome.text.partition(":")[0] for outcome in outcomes)
    assert counts["CorruptError"] > DAMAGES / 4, counts
    assert counts["rows"] > 0, counts
