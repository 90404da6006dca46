"""Snapshots of random tables: what `to_arrow` returns is what Hive's own OrcInputFormat reads of the same directory.

Tables whose columns were renamed, moved, added, dropped and changed in type while rows were inserted, updated, loaded,
streamed and deleted; readers' lists of write ids of which any may be open or aborted; any columns in any order, and any
condition, which a naive evaluator applies to Hive's rows. With ACIDLIB_FUZZ_SECONDS set it goes on from random seeds.
"""

from __future__ import annotations

import functools
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import random_tables
from fuzzing import seeds
from judges import arrow_rows
from judges.hive_reader import JudgeError, hive_reader
from judges.java_orc import JavaOrc, shared
from judges.merge import Row
from judges.random_predicates import Wanted, columns_of, wanted
from long_runs import amount
from snapshot_reads import fields_of, read_arrow
from snapshot_tables import SnapshotTable

import acidlib.runs.snapshot
import acidlib.scan.deletes
import acidlib.scan.read
import acidlib.scan.splits
from acidlib.acid.write_ids import all_committed
from acidlib.errors import AcidError
from acidlib.rows.row_ids import Keys
from acidlib.scan.splits import SPLIT_BYTES, place_splits

pytestmark = pytest.mark.slow

TABLES = amount(20, long=500)
OF_ANY_TYPE = amount(20, long=300)
CONDITIONS = 4


class Reading:
    """One snapshot of one place, with the rows that a reader has to find."""

    def __init__(
        self, location: Path, types: Mapping[str, str], generation: int, write_ids: str, rows: Sequence[Row]
    ) -> None:
        self.location, self.types, self.generation, self.write_ids = location, types, generation, write_ids
        self.struct = f"struct<{','.join(f'{name}:{kind}' for name, kind in types.items())}>"
        self.rows = arrow_rows.alike(rows, self.struct)

    def _read(self, **how: Any) -> Any:
        return read_arrow(
            self.location, generation=self.generation, write_ids=self.write_ids, columns=self.struct, **how
        )

    def check(self, rng: random.Random) -> None:
        """All of it, then some columns under some conditions."""
        found = self._read(row_ids=True)
        assert found.column_names == [arrow_rows.ROW_ID, *(name.lower() for name in self.types)], found.schema
        assert arrow_rows.alike(arrow_rows.keyed_rows(found), self.struct) == self.rows
        names = [name.lower() for name in self.types]
        known = [dict(zip(names, row, strict=True)) for *_, row in self.rows]
        columns, plain = columns_of(dict(zip(names, self.types.values(), strict=True)), known)
        for number in range(CONDITIONS):
            chosen = rng.sample(list(self.types), rng.randint(1, len(self.types)))
            condition = wanted(rng, columns, depth=2) if number or rng.random() < 0.5 else None
            selected = [row for row, values in zip(self.rows, plain, strict=True) if _selects(condition, values)]
            self._check_some(chosen, condition, selected, row_ids=rng.random() < 0.3)

    def _check_some(
        self, chosen: Sequence[str], condition: Wanted | None, selected: Sequence[Row], *, row_ids: bool
    ) -> None:
        where = condition.text if condition else None
        found = self._read(chosen=chosen, where=where, row_ids=row_ids)
        assert found.column_names == [arrow_rows.ROW_ID] * row_ids + [name.lower() for name in chosen], found.schema
        keyed = arrow_rows.keyed_rows(found) if row_ids else [(0, 0, 0, row) for row in arrow_rows.table_rows(found)]
        struct = f"struct<{','.join(f'{name}:{self.types[name]}' for name in chosen)}>"
        places = [list(self.types).index(name) for name in chosen]
        right = Counter(
            (*(key if row_ids else (0, 0, 0)), tuple(row[place] for place in places)) for *key, row in selected
        )
        seen = Counter(arrow_rows.alike(keyed, struct))
        assert (right - seen, seen - right) == (Counter(), Counter()), f"columns {chosen} where {where}"


def _selects(condition: Wanted | None, values: Mapping[str, Any]) -> bool:
    return condition is None or condition.value(values) is True


def expected(table: SnapshotTable, write_ids: str, *, vectorized: bool) -> list[Row] | None:
    """Hive's rows. A reader of Hive fails on some tables: then the other, and None where both do."""
    hive = hive_reader(table.generation)
    for way in (vectorized, not vectorized):
        try:
            return hive.rows(table.location, table.types, write_ids=write_ids, vectorized=way)
        except JudgeError:
            continue
    return None


def judge(seed: int, folder: Path) -> Counter[str]:
    """What was judged of a seed; its files are cut into splits of some size."""
    table = SnapshotTable(seed, folder / "t")
    rng = random.Random(seed)
    did: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        cut = functools.partial(place_splits, split_bytes=rng.choice((150, 1000, SPLIT_BYTES)))
        patch.setattr(acidlib.runs.snapshot, "place_splits", cut)
        for write_ids in (table.now(), table.snapshot()):
            rows = expected(table, write_ids, vectorized=seed % 2 == 0)
            did["by Hive" if rows is not None else "not by Hive"] += 1
            if rows is not None:
                did["rows"] += len(rows)
                Reading(table.location, table.types, table.generation, write_ids, rows).check(rng)
    return did


def _try(found: Iterable[int], tmp_path: Path, work: Any) -> Counter[str]:
    problems: list[str] = []
    did: Counter[str] = Counter()
    for seed in found:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            did += work(seed, folder)
        except Exception:
            problems.append(f"seed {seed}: {traceback.format_exc()[-2500:]}")
        shutil.rmtree(folder)
    assert not problems, "\n\n".join([f"{len(problems)} seeds", *problems[:5]])
    return did


@pytest.mark.live
def test_rows_columns_and_conditions_are_hives(tmp_path: Path) -> None:
    did = _try(seeds(TABLES), tmp_path, judge)
    assert did["by Hive"] > 1.8 * TABLES, did
    assert did["rows"] > 20 * TABLES, did


# --- faults put into the reader ---------------------------------------------------------------------------------------

READ, SPLITS, DELETES = acidlib.scan.read, acidlib.scan.splits, acidlib.scan.deletes
EVERY_ID = all_committed(None)
Fault = tuple[Any, str, Callable[[Any], Any]]
"""Where, the name there, and what takes the place of what is there."""
FAULTS: dict[str, Fault] = {
    "deletes are ignored": (DELETES.DeletedKeys, "near", lambda true: lambda *a: Keys.empty()),
    "deletes that are not valid count": (
        *(DELETES, "read_deletes"),
        lambda true: lambda inputs, bucket, ids, near: true(inputs, bucket, EVERY_ID, near),
    ),
    "rows that are not valid count": (READ, "row_masks", lambda true: lambda keys, gone, _: true(keys, gone, EVERY_ID)),
    "directories are taken for valid": (SPLITS, "_all_valid", lambda true: lambda *a: True),
    "deletes are looked for in another bucket": (
        *(SPLITS, "_events_of"),
        lambda true: lambda bucket, files, _: tuple(file for file in files if file.bucket != bucket),
    ),
    "each original file is numbered from 0": (
        *(READ, "_numbered"),
        lambda true: lambda split, files: replace(split.file, first_row=0),
    ),
    "row ids are those of the next row": (
        *(READ, "_row_ids"),
        lambda true: lambda keys: true(Keys(keys.write_ids, keys.buckets, keys.row_ids + 1)),
    ),
    "splits overlap": (
        *(SPLITS, "_ranges"),
        lambda true: lambda length, size: ((start, end + 300) for start, end in true(length, size)),
    ),
    "the second split of a file is lost": (
        *(SPLITS, "_ranges"),
        lambda true: lambda *a: (part for number, part in enumerate(true(*a)) if number != 1),
    ),
    "stripes but the first are left out": (
        *(READ, "stripe_may_match"),
        lambda true: lambda predicate, tail, number, *more: number == 0 and true(predicate, tail, number, *more),
    ),
    "a condition that is null selects": (
        *(READ._Result, "passed"),
        lambda true: lambda self, arrays, rows: None if not self.tested else _or_null(self, arrays, rows),
    ),
    "columns are matched the other way": (
        *(READ, "file_columns"),
        lambda true: (
            lambda *a, matching, **more: true(
                *a, matching=replace(matching, by_position=not matching.by_position), **more
            )
        ),
    ),
}


SEEN_FIRST = {
    "deletes that are not valid count": 9,
    "each original file is numbered from 0": 29,
    "the second split of a file is lost": 11,
}
"""Of which table on a fault is looked for: those before do not show it."""


def _or_null(result: Any, arrays: Mapping[str, pa.Array], rows: int) -> Any:
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    predicate = result.scan.predicate
    return None if predicate is None else predicate.mask(batch).fill_null(True)


@pytest.mark.live
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_reader_is_seen(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, change = FAULTS[fault]
    monkeypatch.setattr(place, name, change(getattr(place, name)))
    first = SEEN_FIRST.get(fault, 0)
    for seed in range(first, first + TABLES):
        try:
            judge(seed, tmp_path / str(seed))
        except (AssertionError, AcidError):
            return
    pytest.fail(f"no table shows that {fault}")


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def java() -> JavaOrc:
    """Java's ORC writer."""
    return shared()


@pytest.mark.java
def test_values_of_any_type_and_writer(java: JavaOrc, tmp_path: Path) -> None:
    """Columns do not change here; what a reader must see is known from the history alone."""

    def work(seed: int, folder: Path) -> Counter[str]:
        table = random_tables.build(seed, folder / "t", java)
        fields = dict(fields_of(table.columns))
        plain = {name: kind for name, kind in fields.items() if "uniontype" not in kind}
        if table.expected is None or not plain or not any(table.location.iterdir()):
            return Counter("left out")
        places = [list(fields).index(name) for name in plain]
        rows = [(*key, tuple(row[place] for place in places)) for *key, row in table.expected]
        Reading(table.location, plain, 3, table.write_ids, rows).check(random.Random(seed))
        return Counter({"judged": 1, "rows": len(rows)})

    did = _try(seeds(OF_ANY_TYPE), tmp_path, work)
    assert did["judged"] > OF_ANY_TYPE / 2, did
    assert did["rows"] > 50 * OF_ANY_TYPE, did
