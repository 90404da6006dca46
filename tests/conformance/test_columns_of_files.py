"""Which column of a file is which column of the table: the naive reader against Hive's own readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from judges import merge, tables
from judges.evolution import Columns, struct_text
from judges.hive_reader import JudgeError, hive_reader
from long_runs import LONG

pytestmark = pytest.mark.live

Types = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Files with the columns ``files`` in a table with the columns ``table``.

    ``named`` and ``placed`` are the first row by name and by position; None where Hive cannot read the file.
    """

    files: Types
    table: Types
    row: tuple[Any, ...]
    named: tuple[Any, ...] | None
    placed: tuple[Any, ...] | None
    forms: tuple[str, ...] = field(default=("base", "delta", "original"))


def _struct(**types: str) -> str:
    return struct_text(types)


AB = {"a": "int", "b": "int"}
INNER = _struct(x="int", y="string")
CASES = {
    "the same": Case(files=AB, table=AB, row=(1, 2), named=(1, 2), placed=(1, 2)),
    "another order": Case(files={"b": "int", "a": "int"}, table=AB, row=(1, 2), named=(2, 1), placed=(1, 2)),
    "other names": Case(files={"x": "int", "y": "int"}, table=AB, row=(1, 2), named=(None, None), placed=(1, 2)),
    "the middle is missing": Case(
        files={"a": "int", "c": "int"}, table={**AB, "c": "int"}, row=(1, 3), named=(1, None, 3), placed=(1, 3, None)
    ),
    "the middle is missing, of another type": Case(
        files={"a": "int", "c": "string"},
        table={"a": "int", "b": "int", "c": "string"},
        row=(1, "c1"),
        named=(1, None, "s:c1"),
        placed=(1, None, None),
    ),
    "renamed": Case(
        files={"a": "int", "b": "string"},
        table={"a": "int", "c": "string"},
        row=(1, "old"),
        named=(1, None),
        placed=(1, "s:old"),
    ),
    "dropped": Case(
        files={**AB, "c": "int"}, table={"a": "int", "c": "int"}, row=(1, 2, 3), named=(1, 3), placed=(1, 2)
    ),
    "added at the end": Case(files={"a": "int"}, table=AB, row=(1,), named=(1, None), placed=(1, None)),
    "dropped at the end": Case(files=AB, table={"a": "int"}, row=(1, 2), named=(1,), placed=(1,)),
    "added at the beginning": Case(files={"b": "int"}, table=AB, row=(2,), named=(None, 2), placed=(2, None)),
    "capitals": Case(files={"A": "int", "b": "int"}, table=AB, row=(1, 2), named=(None, 2), placed=(1, 2)),
    "both cases": Case(files={"A": "int", "a": "int"}, table={"a": "int"}, row=(1, 2), named=(2,), placed=(1,)),
    # no names
    "no names": Case(files={"_col0": "int", "_col1": "int"}, table=AB, row=(1, 2), named=(1, 2), placed=(1, 2)),
    "no names in another order": Case(
        files={"_col1": "int", "_col0": "int"}, table=AB, row=(1, 2), named=(1, 2), placed=(1, 2)
    ),
    "no names, fewer": Case(files={"_col0": "int"}, table=AB, row=(1,), named=(1, None), placed=(1, None)),
    "no names, more": Case(
        files={"_col0": "int", "_col1": "int", "_col2": "int"}, table=AB, row=(1, 2, 3), named=(1, 2), placed=(1, 2)
    ),
    "one name": Case(files={"_col0": "int", "b": "int"}, table=AB, row=(1, 2), named=(None, 2), placed=(1, 2)),
    "not quite no names": Case(
        files={"_col0": "int", "_col1x": "int"}, table=AB, row=(1, 2), named=(None, None), placed=(1, 2)
    ),
    "no names in capitals": Case(
        files={"_COL0": "int", "_COL1": "int"}, table=AB, row=(1, 2), named=(None, None), placed=(1, 2)
    ),
    "the table has no names": Case(
        files={"_col1": "int", "_col0": "int"},
        table={"_col0": "int", "_col1": "int"},
        row=(1, 2),
        named=(1, 2),
        placed=(1, 2),
    ),
    "no names with a struct": Case(
        files={"_col0": _struct(y="string", x="int"), "_col1": "int"},
        table={"s": INNER, "b": "int"},
        row=(("t", 1), 2),
        named=((1, "s:t"), 2),
        placed=((1, "s:t"), 2),
    ),
    "no names inside a struct": Case(
        files={"s": _struct(_col0="int", _col1="string")},
        table={"s": INNER},
        row=((1, "t"),),
        named=((None, None),),
        placed=((None, None),),
    ),
    # inside of columns
    "a struct in another order": Case(
        files={"s": _struct(y="string", x="int")},
        table={"s": INNER},
        row=(("t", 1),),
        named=((1, "s:t"),),
        placed=((1, "s:t"),),
    ),
    "a struct's field renamed": Case(
        files={"s": _struct(x="int", z="string")},
        table={"s": INNER},
        row=((1, "t"),),
        named=((1, None),),
        placed=((1, None),),
    ),
    "a struct lacks the first field": Case(
        files={"s": _struct(y="string")},
        table={"s": INNER},
        row=(("t",),),
        named=((None, "s:t"),),
        placed=((None, "s:t"),),
    ),
    "a struct lacks the last field": Case(
        files={"s": _struct(x="int")}, table={"s": INNER}, row=((1,),), named=((1, None),), placed=((1, None),)
    ),
    "a struct has one more": Case(
        files={"s": _struct(w="int", x="int", y="string")},
        table={"s": INNER},
        row=((0, 1, "t"),),
        named=((1, "s:t"),),
        placed=((1, "s:t"),),
    ),
    "a struct's field in capitals": Case(
        files={"s": _struct(X="int", y="string")},
        table={"s": INNER},
        row=((1, "t"),),
        named=((None, "s:t"),),
        placed=((None, "s:t"),),
    ),
    "a table's field in capitals": Case(
        files={"s": _struct(x="int", Y="string")},
        table={"s": _struct(X="int", Y="string")},
        row=((1, "t"),),
        named=((None, "s:t"),),
        placed=((None, "s:t"),),
    ),
    "a table's column in capitals": Case(
        files={"a": "int", "B": "int"}, table={"A": "int", "B": "int"}, row=(1, 2), named=(None, 2), placed=(1, 2)
    ),
    "a struct in a union": Case(
        files={"s": f"uniontype<int,{_struct(y='string', x='int')}>"},
        table={"s": f"uniontype<int,{INNER}>"},
        row=(("t", 1),),
        named=(("u", 1, (1, "s:t")),),
        placed=(("u", 1, (1, "s:t")),),
    ),
    "a union has one more": Case(
        files={"s": "uniontype<int,string>"},
        table={"s": "uniontype<int,string,double>"},
        row=("t",),
        named=None,
        placed=None,
    ),
    "a struct in a struct": Case(
        files={"s": _struct(n="int", i=_struct(y="string", x="int"))},
        table={"s": _struct(i=INNER, n="int")},
        row=((5, ("t", 1)),),
        named=(((1, "s:t"), 5),),
        placed=(((1, "s:t"), 5),),
    ),
    "a struct in a list": Case(
        files={"s": f"array<{_struct(y='string', x='int')}>"},
        table={"s": f"array<{INNER}>"},
        row=([("t", 1), ("u", 2)],),
        named=(((1, "s:t"), (2, "s:u")),),
        placed=(((1, "s:t"), (2, "s:u")),),
    ),
    "a struct in a list lacks a field": Case(
        files={"s": f"array<{_struct(y='string')}>"},
        table={"s": f"array<{INNER}>"},
        row=([("t",)],),
        named=(((None, "s:t"),),),
        placed=(((None, "s:t"),),),
    ),
    "a struct in a map": Case(
        files={"s": f"map<string,{_struct(y='string', x='int')}>"},
        table={"s": f"map<string,{INNER}>"},
        row=({"k": ("t", 1)},),
        named=((("s:k", (1, "s:t")),),),
        placed=((("s:k", (1, "s:t")),),),
    ),
    "a struct without any field of the table": Case(
        files={"s": _struct(z="int")}, table={"s": INNER}, row=((7,),), named=((None, None),), placed=((None, None),)
    ),
    # types
    "a wider type in another order": Case(
        files={"b": "int", "a": "int"},
        table={"a": "bigint", "b": "string"},
        row=(1, 2),
        named=(2, "s:1"),
        placed=(1, "s:2"),
    ),
    "a wider type inside a struct": Case(
        files={"s": _struct(y="string", x="int")},
        table={"s": _struct(x="bigint", y="string")},
        row=(("t", 1),),
        named=((1, "s:t"),),
        placed=((1, "s:t"),),
    ),
    "types that only fit by name": Case(
        files={"s": INNER, "a": "int"},
        table={"a": "int", "s": INNER},
        row=((1, "t"), 2),
        named=(2, (1, "s:t")),
        placed=None,
    ),
    "types that only fit by position": Case(
        files={"b": "int", "a": INNER},
        table={"a": "int", "b": INNER},
        row=(1, (2, "t")),
        named=None,
        placed=(1, (2, "s:t")),
    ),
    "a struct became an int": Case(files={"s": INNER}, table={"s": "int"}, row=((1, "t"),), named=None, placed=None),
}
FORMS = ("base", "delta", "original")
READERS = [(generation, positional) for generation in (3, 4) for positional in (False, True)]
LOOKED_AT = [
    pytest.param(
        *(name, form, generation, positional, vectorized),
        id=f"{name}-{form}-hive{generation}-{'position' if positional else 'name'}-"
        + ("batches" if vectorized else "rows"),
    )
    for which, name in enumerate(CASES)
    for place, form in enumerate(FORMS)
    for number, (generation, positional) in enumerate(READERS)
    if LONG or (which + number) % len(FORMS) == place
    for vectorized in ((place + number) % 2 == 1,)
]
"""Every case in every form of a file and by every reader, every form by every reader; each of them in both ways.

A long run has every case in every form by every reader.
"""


def lay(case: Case, form: str, location: Path) -> None:
    """Two rows of the case and a third that is deleted."""
    rows = [case.row, case.row, case.row]
    columns = struct_text(case.files)
    location.mkdir()
    if form == "original":
        (location / "000000_0").write_bytes(tables.orc_bytes(columns, rows))
        first = 0
    else:
        first = 1
        name = "base_0000001" if form == "base" else tables.delta_name(1, 1)
        tables.write_dir(location, name, columns, tables.inserts(first, rows))
    gone = [(first, merge.bucket_property(0, 0), 2)]
    tables.write_dir(location, tables.delta_name(2, 2, delete=True), columns, tables.deletes(2, gone))


@pytest.mark.parametrize(("name", "form", "generation", "positional", "vectorized"), LOOKED_AT)
def test_the_naive_reader_finds_the_columns_that_hive_finds(
    name: str, form: str, generation: int, positional: bool, vectorized: bool, tmp_path: Path
) -> None:
    case = CASES[name]
    location = tmp_path / "t"
    lay(case, form, location)
    expected = case.placed if positional else case.named

    def hive() -> list[merge.Row]:
        return hive_reader(generation).rows(location, case.table, vectorized=vectorized, positional=positional)

    if expected is None:
        with pytest.raises(JudgeError):
            hive()
        return
    naive = merge.read(location, generation=generation, columns=Columns(types=case.table, by_position=positional))
    assert [row[3] for row in naive] == [expected, expected]
    assert hive() == naive


@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize("generation", [3, 4])
def test_each_file_is_decided_for_itself(generation: int, vectorized: bool, tmp_path: Path) -> None:
    location = tmp_path / "t"
    location.mkdir()
    texts = ["struct<_col0:int,_col1:int>", "struct<b:int,a:int>", "struct<_col1:int>"]
    for number, text in enumerate(texts):
        (location / f"000000_0{f'_copy_{number}' if number else ''}").write_bytes(
            tables.orc_bytes(text, [(1, 2)[: text.count(":")]])
        )
    tables.write_dir(location, tables.delta_name(1, 1), texts[0], tables.inserts(1, [(1, 2)]))
    tables.write_dir(location, tables.delta_name(2, 2), texts[1], tables.inserts(2, [(1, 2)]))
    naive = merge.read(location, generation=generation, columns=Columns(types=AB))
    assert [row[3] for row in naive] == [(1, 2), (2, 1), (1, None), (1, 2), (2, 1)]
    assert hive_reader(generation).rows(location, AB, vectorized=vectorized, positional=False) == naive


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("form", ["base", "original"])
def test_case_counts_unless_somebody_says_otherwise(generation: int, form: str, tmp_path: Path) -> None:
    lay(CASES["capitals"], form, tmp_path / "t")
    hive = hive_reader(generation)
    settings = {"orc.schema.evolution.case.sensitive": "false"}
    found = hive.rows(tmp_path / "t", AB, positional=False, settings=settings)
    assert [row[3] for row in found] == [(1, 2), (1, 2)]


@pytest.mark.parametrize("generation", [3, 4])
def test_files_without_names_can_be_forbidden(generation: int, tmp_path: Path) -> None:
    lay(CASES["no names"], "base", tmp_path / "t")
    settings = {"orc.tolerate.missing.schema": "false"}
    with pytest.raises(JudgeError, match="schema metadata is missing"):
        hive_reader(generation).rows(tmp_path / "t", AB, positional=False, settings=settings)


@pytest.mark.parametrize(("form", "expected"), [("base", (1, "s:t")), ("original", (None, "s:1"))])
def test_deeper_positions_are_for_original_files_alone(form: str, expected: Any, tmp_path: Path) -> None:
    """``orc.force.positional.evolution.level`` of ORC 1.8: here the struct's fields go by position too."""
    case = CASES["a struct in another order"]
    lay(case, form, tmp_path / "t")
    settings = {"orc.force.positional.evolution.level": "2"}
    found = hive_reader(4).rows(tmp_path / "t", case.table, positional=True, settings=settings)
    assert [row[3] for row in found] == [(expected,), (expected,)]
