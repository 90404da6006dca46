"""Files whose columns are not those of the table: whoever reads them by name or by position reads the same afterwards.

Hive 3.1 reads by name, Hive 4 by position unless ``orc.force.positional.evolution`` is off. The rows are those of the
naive reader, which ``tests/conformance/test_columns_of_files.py`` proves right; ``hive`` asks Hive's own as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judges import merge, tables
from judges.evolution import Columns, struct_text
from judges.hive_reader import POSITIONAL, hive_reader
from long_runs import amount

from integration.harness import Jobs, tree

Types = Mapping[str, str]
Row = tuple[Any, ...]

AB = {"a": "int", "b": "int"}
ABC = {"a": "int", "b": "string", "c": "string"}
INNER = "struct<x:int,y:string>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One directory of a table: the columns of its file and its rows. ``raw``: without the columns of ACID events."""

    columns: Types
    rows: tuple[Row, ...]
    raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table and its directories, oldest first; ``named`` and ``placed`` are its rows by name and by position."""

    table: Types
    parts: tuple[Part, ...]
    named: tuple[Row, ...]
    placed: tuple[Row, ...]


def _raw(columns: Types, *rows: Row) -> Part:
    return Part(columns=columns, rows=rows, raw=True)


def _acid(columns: Types, *rows: Row) -> Part:
    return Part(columns=columns, rows=rows)


CASES = {
    "loaded in another order": Case(
        table=AB,
        parts=(_acid(AB, (1, 1001)), _raw({"b": "int", "a": "int"}, (1100, 100))),
        named=((1, 1001), (100, 1100)),
        placed=((1, 1001), (1100, 100)),
    ),
    "loaded with other names": Case(
        table=AB,
        parts=(_acid(AB, (1, 1001)), _raw({"x": "int", "y": "int"}, (100, 1100))),
        named=((1, 1001), (None, None)),
        placed=((1, 1001), (100, 1100)),
    ),
    "a file from before the middle was added": Case(
        table=ABC,
        parts=(_raw({"a": "int", "c": "string"}, (1, "c1")), _acid(ABC, (2, "b2", "c2"))),
        named=((1, None, "s:c1"), (2, "s:b2", "s:c2")),
        placed=((1, "s:c1", None), (2, "s:b2", "s:c2")),
    ),
    "a column renamed": Case(
        table={"a": "int", "c": "string"},
        parts=(_acid({"a": "int", "b": "string"}, (1, "old")), _acid({"a": "int", "c": "string"}, (2, "new"))),
        named=((1, None), (2, "s:new")),
        placed=((1, "s:old"), (2, "s:new")),
    ),
    "every column renamed, nothing written since": Case(
        table={"c": "int", "d": "string"},
        parts=(_acid({"a": "int", "b": "string"}, (1, "old")), _acid({"a": "int", "b": "string"}, (2, "old"))),
        named=((None, None), (None, None)),
        placed=((1, "s:old"), (2, "s:old")),
    ),
    "a column dropped": Case(
        table={"a": "int", "c": "string"},
        parts=(_acid(ABC, (1, "b1", "c1")), _acid({"a": "int", "c": "string"}, (2, "c2"))),
        named=((1, "s:c1"), (2, "s:c2")),
        placed=((1, "s:b1"), (2, "s:c2")),
    ),
    "a column dropped and made again": Case(
        table={"a": "int", "c": "string", "b": "string"},
        parts=(_acid(ABC, (1, "b1", "c1")), _acid({"a": "int", "c": "string"}, (2, "c2"))),
        named=((1, "s:c1", "s:b1"), (2, "s:c2", None)),
        placed=((1, "s:b1", "s:c1"), (2, "s:c2", None)),
    ),
    "capitals in a loaded file": Case(
        table=AB,
        parts=(_acid(AB, (1, 1001)), _raw({"A": "int", "b": "int"}, (100, 1100))),
        named=((1, 1001), (None, 1100)),
        placed=((1, 1001), (100, 1100)),
    ),
    "a loaded file without names": Case(
        table=AB,
        parts=(_acid(AB, (1, 1001)), _raw({"_col0": "int", "_col1": "int"}, (100, 1100))),
        named=((1, 1001), (100, 1100)),
        placed=((1, 1001), (100, 1100)),
    ),
    "a loaded file with one name": Case(
        table=AB,
        parts=(_acid(AB, (1, 1001)), _raw({"_col0": "int", "b": "int"}, (100, 1100))),
        named=((1, 1001), (None, 1100)),
        placed=((1, 1001), (100, 1100)),
    ),
    "original files without names, then another order": Case(
        table={"b": "int", "a": "int"},
        parts=(_raw({"_col0": "int", "_col1": "int"}, (1, 2)), _acid(AB, (3, 4))),
        named=((1, 2), (4, 3)),
        placed=((1, 2), (3, 4)),
    ),
    "a wider type in another order": Case(
        table={"a": "bigint", "b": "string"},
        parts=(_acid({"b": "int", "a": "int"}, (1001, 1)), _acid({"a": "bigint", "b": "string"}, (2, "t"))),
        named=((1, "s:1001"), (2, "s:t")),
        placed=((1001, "s:1"), (2, "s:t")),
    ),
    "a struct in another order": Case(
        table={"a": "int", "s": INNER},
        parts=(
            _raw({"a": "int", "s": "struct<y:string,x:int>"}, (1, ("y1", 11)), (2, None)),
            _acid({"a": "int", "s": INNER}, (3, (13, "y3"))),
        ),
        named=((1, (11, "s:y1")), (2, None), (3, (13, "s:y3"))),
        placed=((1, (11, "s:y1")), (2, None), (3, (13, "s:y3"))),
    ),
    "structs with other fields in lists and maps": Case(
        table={"l": f"array<{INNER}>", "m": f"map<string,{INNER}>"},
        parts=(
            _raw({"l": "array<struct<y:string,z:int>>", "m": "map<string,struct<X:int,y:string>>"},
                 ([("y1", 1), None], {"k": (5, "v")})),
            _acid({"l": f"array<{INNER}>", "m": f"map<string,{INNER}>"}, ([(2, "y2")], {"k": (6, "w")})),
        ),
        named=((((None, "s:y1"), None), (("s:k", (None, "s:v")),)), (((2, "s:y2"),), (("s:k", (6, "s:w")),))),
        placed=((((None, "s:y1"), None), (("s:k", (None, "s:v")),)), (((2, "s:y2"),), (("s:k", (6, "s:w")),))),
    ),
}  # fmt: skip
WAYS = {
    "hive3": ("3", False, ()),
    "hive4": ("4", True, ()),
    "hive4-off": ("4", False, ("--set", f"{POSITIONAL}=false")),
}
Read = Callable[[Path, Case, str, bool], list[merge.Row]]


def _naive(location: Path, case: Case, generation: str, by_position: bool) -> list[merge.Row]:
    columns = Columns(types=case.table, by_position=by_position)
    return merge.read(location, generation=int(generation), columns=columns, strict=True)


def _hive(location: Path, case: Case, generation: str, by_position: bool) -> list[merge.Row]:
    hive = hive_reader(int(generation))
    rows, batches = (
        hive.rows(location, case.table, positional=by_position, vectorized=vectorized) for vectorized in (False, True)
    )
    assert rows == batches
    return rows


BOTH = [pytest.param(_naive, id="naive"), pytest.param(_hive, id="hive", marks=pytest.mark.live)]


def in_turn(first: int) -> list[Any]:
    """Each case with each way and both readers; in a usual run Hive reads every third, the naive reader the others."""
    return [
        pytest.param(reader.values[0], name, way, id=f"{reader.id}-{name}-{way}", marks=reader.marks)
        for number, name in enumerate(CASES)
        for place, way in enumerate(WAYS)
        for reader in amount([BOTH[(number + place + first) % 3 == 0]], long=BOTH)
    ]


@pytest.fixture(params=BOTH)
def read(request: pytest.FixtureRequest) -> Read:
    return request.param


def lay(case: Case, location: Path, *, base: bool) -> None:
    """The parts as a base (or original files) and deltas, or as deltas; a raw one as LOAD DATA puts it."""
    location.mkdir()
    for write_id, part in enumerate(case.parts, start=1):
        columns = struct_text(part.columns)
        first = write_id == 1 and base
        if part.raw:
            directory = location if first else location / tables.delta_name(write_id, write_id)
            directory.mkdir(exist_ok=True)
            (directory / "000000_0").write_bytes(tables.orc_bytes(columns, part.rows))
            continue
        name = "base_0000001" if first else tables.delta_name(write_id, write_id)
        tables.write_dir(location, name, columns, tables.inserts(write_id, part.rows))


def stated(case: Case) -> tuple[str, str]:
    """The columns of the table as an option."""
    return "--columns", ", ".join(f"{name} {kind}" for name, kind in case.table.items())


def compacted(jobs: Jobs, job: str, location: Path, *options: str) -> None:
    ran = jobs.good(job, "--location", location, "--all-committed", *options)
    assert ran.states == ["ready for cleaning"], ran


@pytest.mark.parametrize(("read", "name", "way"), in_turn(0), indirect=["read"])
def test_a_major_keeps_what_each_reader_finds(name: str, way: str, read: Read, jobs: Jobs, tmp_path: Path) -> None:
    case, (generation, by_position, more) = CASES[name], WAYS[way]
    location = tmp_path / "t"
    lay(case, location, base=True)
    before = read(location, case, generation, by_position)
    assert tuple(row[3] for row in before) == (case.placed if by_position else case.named)
    compacted(jobs, "major_compact", location, "--hive-version", generation, *stated(case), *more)
    assert read(location, case, generation, by_position) == before


@pytest.mark.parametrize(("read", "name", "way"), in_turn(1), indirect=["read"])
def test_a_minor_keeps_what_each_reader_finds(name: str, way: str, read: Read, jobs: Jobs, tmp_path: Path) -> None:
    case, (generation, by_position, more) = CASES[name], WAYS[way]
    location = tmp_path / "t"
    lay(case, location, base=False)
    before = read(location, case, generation, by_position)
    compacted(jobs, "minor_compact", location, "--hive-version", generation, *stated(case), *more)
    assert read(location, case, generation, by_position) == before


@pytest.mark.parametrize("way", WAYS)
def test_deleted_rows_stay_deleted(way: str, read: Read, jobs: Jobs, tmp_path: Path) -> None:
    case, (generation, by_position, more) = CASES["loaded in another order"], WAYS[way]
    location = tmp_path / "t"
    lay(case, location, base=True)
    gone = [(1, merge.bucket_property(0, 0), 0)]
    tables.write_dir(location, tables.delta_name(3, 3, delete=True), struct_text(AB), tables.deletes(3, gone))
    before = read(location, case, generation, by_position)
    assert tuple(row[3] for row in before) == (case.placed if by_position else case.named)[1:]
    compacted(jobs, "major_compact", location, "--hive-version", generation, *stated(case), *more)
    assert read(location, case, generation, by_position) == before


# --- without the columns of the table ---------------------------------------------------------------------------------


@pytest.mark.pairs
@pytest.mark.parametrize("name", ["loaded in another order", "loaded with other names"])
@pytest.mark.parametrize("job", ["major_compact", "minor_compact"])
@pytest.mark.parametrize("generation", ["3", "4"])
def test_without_columns_files_that_differ_by_name_are_refused(
    name: str, job: str, generation: str, jobs: Jobs, tmp_path: Path
) -> None:
    """Nobody says which file has the table's columns, and some reader goes by the names that the result would have."""
    case = CASES[name]
    location = tmp_path / "t"
    lay(case, location, base=job == "major_compact")
    before = tree(location, times=False)
    ran = jobs(job, "--location", location, "--all-committed", "--hive-version", generation)
    (entry,) = ran.compactions
    assert entry["state"] == "refused", ran
    for part in case.parts:
        names = r"(:\w+)?\W+".join(part.columns)
        assert re.search(rf"\b{names}\b", entry["reason"]), entry["reason"]
    assert "--columns" in entry["reason"]
    assert tree(location, times=False) == before


@pytest.mark.parametrize("generation", ["3", "4"])
def test_columns_added_at_the_end_need_not_be_stated(generation: str, read: Read, jobs: Jobs, tmp_path: Path) -> None:
    case = Case(
        table=ABC,
        parts=(_acid({"a": "int", "b": "string"}, (1, "b1")), _acid(ABC, (2, "b2", "c2"))),
        named=((1, "s:b1", None), (2, "s:b2", "s:c2")),
        placed=((1, "s:b1", None), (2, "s:b2", "s:c2")),
    )
    location = tmp_path / "t"
    lay(case, location, base=True)
    before = read(location, case, generation, generation == "4")
    assert tuple(row[3] for row in before) == case.named
    compacted(jobs, "major_compact", location, "--hive-version", generation)
    assert read(location, case, generation, generation == "4") == before


@pytest.mark.parametrize("way", WAYS)
def test_what_a_dry_run_plans_is_what_is_done(way: str, jobs: Jobs, tmp_path: Path) -> None:
    case, (generation, _, more) = CASES["a column renamed"], WAYS[way]
    location = tmp_path / "t"
    lay(case, location, base=True)
    before = tree(location)
    said = ("--location", location, "--all-committed", "--hive-version", generation, *stated(case), *more)
    planned = jobs.good("major_compact", *said, "--dry-run")
    assert tree(location) == before
    done = jobs.good("major_compact", *said)
    ways = [[action["action"] for action in file["actions"]] for file in planned.compactions[0]["files"]]
    assert ways == [[action["action"] for action in file["actions"]] for file in done.compactions[0]["files"]]
