"""Tables whose columns changed at random: renamed, moved, added in the middle, dropped, written in capitals, widened.

Each comes from one integer seed: bases, deltas, loaded files and deletes of several stages of the table, compacted with
its columns stated. Whoever reads by name, or by position, finds the same afterwards. With ACIDLIB_FUZZ_SECONDS set it
goes on from random seeds.
"""

from __future__ import annotations

import random
import shutil
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fuzzing import seeds
from judges import merge, tables
from judges.evolution import Columns, struct_text
from judges.hive_reader import POSITIONAL, hive_reader
from long_runs import amount

from integration.harness import Jobs

pytestmark = pytest.mark.slow

TABLES, WITHOUT_HIVE = amount(12, long=200), amount(12, long=100)
NAMES = "abcdef"
FIELDS = {"x": ("int", "bigint"), "y": ("string",), "z": ("int",)}
WAYS = (("3", False, ()), ("4", True, ()), ("4", False, ("--set", f"{POSITIONAL}=false")))
# by position any column may meet any other, so all of such a table are of one family
FAMILIES = {
    "whole": ("int", "bigint"),
    "text": ("string",),
    "struct": ("{}",),
    "list": ("array<{}>",),
    "map": ("map<string,{}>",),
}

Column = tuple[str, str]


def _type(rng: random.Random, family: str) -> str:
    return rng.choice(FAMILIES[family]).format(_struct_type(rng))


def _struct_type(rng: random.Random) -> str:
    """Some fields, in any order, some in capitals."""
    chosen = rng.sample(list(FIELDS), rng.randint(1, len(FIELDS)))
    return struct_text({n.upper() if rng.random() < 0.15 else n: rng.choice(FIELDS[n]) for n in chosen})


def _value(rng: random.Random, kind: str) -> Any:
    if rng.random() < 0.15:
        return None
    if kind in ("int", "bigint"):
        return rng.randrange(-(2**31), 2**31)
    if kind == "string":
        return f"t{rng.randrange(1000)}"
    if kind.startswith("array<"):
        return [_value(rng, kind[6:-1]) for _ in range(rng.randrange(3))]
    if kind.startswith("map<"):
        return {f"k{i}": _value(rng, kind[11:-1]) for i in range(rng.randrange(3))}
    return tuple(_value(rng, field.partition(":")[2]) for field in kind[7:-1].split(","))


def _inner(kind: str) -> tuple[str, str]:
    """The struct in a type, and the type with a gap in its place."""
    start, end = kind.index("struct<"), kind.index(">", kind.index("struct<")) + 1
    return kind[start:end], f"{kind[:start]}{{}}{kind[end:]}"


class _Table:
    """A table at one stage: its columns, and the keys of the rows that were written."""

    def __init__(self, rng: random.Random, location: Path) -> None:
        self.rng = rng
        self.location = location
        self.generation, self.by_position, self.options = rng.choice(WAYS)
        self.one_family = rng.choice(list(FAMILIES)) if self.by_position else ""
        self.families = {name: self.one_family or rng.choice(list(FAMILIES)) for name in NAMES}
        names = rng.sample(NAMES, rng.randint(1, 4))
        self.columns: list[Column] = [(name, _type(rng, self.families[name])) for name in names]
        self.keys: list[tuple[int, int, int]] = []
        self.write_id = 0
        location.mkdir()

    def evolve(self) -> None:
        """One ALTER TABLE, or REPLACE COLUMNS."""
        rng, columns = self.rng, self.columns
        free = [name for name in NAMES if name not in dict(columns)]
        what = rng.choice(["rename", "move", "add", "drop", "widen", "nested"])
        at = rng.randrange(len(columns))
        name, kind = columns[at]
        if what == "rename" and free:
            # by name the new one must be what files of the old days may have under it
            new = rng.choice(free)
            columns[at] = (new, kind if self.families[new] == self.families[name] else _type(rng, self.families[new]))
        elif what == "move":
            rng.shuffle(columns)
        elif what == "add" and free:
            new = rng.choice(free)
            columns.insert(rng.randint(0, len(columns)), (new, _type(rng, self.families[new])))
        elif what == "drop" and len(columns) > 1:
            del columns[at]
        elif what == "widen" and kind == "int":
            columns[at] = (name, "bigint")
        elif what == "nested" and "struct<" in kind:
            _, around = _inner(kind)
            columns[at] = (name, around.format(_struct_type(rng)))

    def write(self) -> None:
        """A directory with rows: events, or a file that was loaded, which need not have the table's columns."""
        rng = self.rng
        self.write_id += 1
        columns = list(self.columns)
        raw = rng.random() < 0.4
        if raw:
            columns = self._loaded(columns)
        rows = [tuple(_value(rng, kind) for _, kind in columns) for _ in range(rng.randint(1, 5))]
        text = struct_text(dict(columns))
        first = self.write_id == 1 and rng.random() < 0.7
        self.keys += [(0 if raw and first else self.write_id, merge.bucket_property(0, 0), i) for i in range(len(rows))]
        if raw:
            directory = self.location / ("" if first else tables.delta_name(self.write_id, self.write_id))
            directory.mkdir(exist_ok=True)
            (directory / "000000_0").write_bytes(tables.orc_bytes(text, rows))
            return
        name = f"base_{self.write_id:07d}" if first else tables.delta_name(self.write_id, self.write_id)
        tables.write_dir(self.location, name, text, tables.inserts(self.write_id, rows))

    def _loaded(self, columns: list[Column]) -> list[Column]:
        rng = self.rng
        change = rng.choice(["none", "order", "capitals", "no names", "some names", "fewer"])
        if change == "order":
            rng.shuffle(columns)
        elif change == "capitals":
            columns = [(name.upper() if rng.random() < 0.5 else name, kind) for name, kind in columns]
        elif change == "no names":
            # taken by position at any later stage, whatever the types are then: only where all are of one family
            if len(set(self.families.values())) == 1:
                columns = [(f"_col{i}", kind) for i, (_, kind) in enumerate(columns)]
        elif change == "some names":
            columns = [(f"_col{i}" if i else name, kind) for i, (name, kind) in enumerate(columns)]
        elif change == "fewer":
            columns = rng.sample(columns, rng.randint(1, len(columns)))
        return columns

    def delete(self) -> None:
        """A delete delta of some rows, of which some may be gone already."""
        self.write_id += 1
        gone = self.rng.sample(self.keys, self.rng.randint(1, len(self.keys)) // 2 + 1)[: len(self.keys)]
        name = tables.delta_name(self.write_id, self.write_id, delete=True)
        text = struct_text(dict(self.columns))
        tables.write_dir(self.location, name, text, tables.deletes(self.write_id, gone))
        self.keys = [key for key in self.keys if key not in gone] or self.keys

    def naive(self) -> list[merge.Row]:
        columns = Columns(types=dict(self.columns), by_position=self.by_position)
        return merge.read(self.location, generation=int(self.generation), columns=columns, strict=True)

    def hive(self, *, vectorized: bool) -> list[merge.Row]:
        hive = hive_reader(int(self.generation))
        return hive.rows(self.location, dict(self.columns), positional=self.by_position, vectorized=vectorized)

    def compact(self, jobs: Jobs) -> str:
        job = self.rng.choice(["major_compact", "major_compact", "minor_compact"])
        stated = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        limit = ("--minor-as-major-bytes", "0") if job == "minor_compact" and self.rng.random() < 0.5 else ()
        ran = jobs(
            job, "--location", self.location, "--all-committed", "--hive-version", self.generation,
            "--columns", stated, *self.options, *limit,
        )  # fmt: skip
        assert ran.status == 0, ran
        [entry] = ran.compactions
        return entry["state"]


def judge(seed: int, folder: Path, jobs: Jobs, *, ask_hive: bool) -> list[str]:
    """The states of the compactions of a seed. Raises AssertionError, or whatever the engine or a judge raises."""
    rng = random.Random(seed)
    table = _Table(rng, folder / "t")
    states = []
    for _ in range(rng.randint(1, 2)):
        for _ in range(rng.randint(2, 5)):
            table.write()
            for _ in range(rng.randrange(3)):
                table.evolve()
            if rng.random() < 0.3 and table.keys:
                table.delete()
        before = table.naive()
        assert not ask_hive or table.hive(vectorized=False) == before == table.hive(vectorized=True)
        states.append(table.compact(jobs))
        assert table.naive() == before, (table.generation, table.by_position, table.columns)
        assert not ask_hive or table.hive(vectorized=False) == before == table.hive(vectorized=True)
    return states


def _try(found: Sequence[int], tmp_path: Path, *, ask_hive: bool) -> Counter[str]:
    problems: list[str] = []
    states: Counter[str] = Counter()
    for seed in found:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            # a queue of its own: what a compaction asks one costs with all that was ever in it
            alone = Jobs(queue_url=f"sqlite:///{folder / 'queue.db'}")
            states.update(judge(seed, folder, alone, ask_hive=ask_hive))
        except Exception:
            problems.append(f"seed {seed}: {traceback.format_exc()[-1500:]}")
        shutil.rmtree(folder)
    assert not problems, "\n\n".join([f"{len(problems)} of {len(found)} seeds", *problems[:5]])
    return states


def test_every_reader_finds_the_same_after_a_compaction(jobs: Jobs, tmp_path: Path) -> None:
    states = _try(list(seeds(WITHOUT_HIVE)), tmp_path, ask_hive=False)
    assert states["ready for cleaning"] > states.total() * 3 / 4, states


@pytest.mark.live
def test_hives_own_readers_find_the_same(jobs: Jobs, tmp_path: Path) -> None:
    """And our own, of more tables."""
    states = _try(range(TABLES), tmp_path, ask_hive=True)
    assert states["ready for cleaning"] > states.total() * 3 / 4, states
