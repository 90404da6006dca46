"""Columns as a metastore tells them: against the footers of real Hive, and as what the results of a compaction have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, Compacted, bucket_files, compact_directory
from judges import merge
from judges import orc_tail as o
from judges.acid_dirs import parse_dir
from judges.java_orc import JavaOrc

from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import ColumnMatching, RewriteSettings
from acidlib.orc.schema import parse_row_type
from conformance.checks import java_problems, statistics_problems
from conformance.hive_ddl import row_type_of
from conformance.hive_tables import FIXTURES, HiveTable, hive_table, hive_tables_by_kind

COPY, RECODE = RewriteSettings(copy_bytes=0), RewriteSettings(copy_bytes=1 << 40)
SETTINGS = [pytest.param(COPY, id="copy"), pytest.param(RECODE, id="recode")]
KINDS = [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")]
EVERY_TYPE = [hive_table("hive3/d_types"), hive_table("hive4/all_types")]
SIMPLE = [hive_table("hive3/a_crud"), hive_table("hive3/c_bucket"), hive_table("hive4/crud_table")]
BY_KIND = [pytest.param(table, kind, id=f"{table}-{kind.label.lower()}") for table, kind in hive_tables_by_kind()]
ORC_TABLES = [
    folder
    for folder in sorted(FIXTURES.glob("hive[34]/*"))
    if folder.is_dir() and not folder.name.endswith(("_parquet", "_textfile"))
]

Change = Callable[[str], str]


# --- the texts of real tables -----------------------------------------------------------------------------------------


def newest_file(folder: Path) -> Path:
    """The file with the highest write id; originals come before all."""

    def write_id(path: Path) -> int:
        found = parse_dir(path.parent, int(folder.parent.name[-1]))
        return -1 if found is None else found.high

    files = [path for path in merge.all_files(folder / "before") if path.read_bytes()[:3] == b"ORC"]
    return max(files, key=write_id)


@pytest.mark.parametrize("folder", ORC_TABLES, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_the_text_of_a_table_is_the_tree_of_its_newest_file(folder: Path) -> None:
    types = o.read_orc(merge.logical_bytes(newest_file(folder), side_file=True)).types
    first = types[0].children[5] if len(types) > 6 and types[0].names[-1] == "row" else 0
    found = list(parse_row_type(row_type_of(folder), where="t").walk())
    assert len(found) == len(types) - first
    for node, other in zip(found, types[first:], strict=True):
        assert (node.column, int(node.kind), node.field_names) == (found.index(node), other.kind, other.names)
        assert [child.column + first for child in node.children] == list(other.children)
        assert (node.maximum_length, node.precision, node.scale) == (other.max_length, other.precision, other.scale)


# --- results that have the table's columns ----------------------------------------------------------------------------


def compact(
    table: HiveTable, location: Path, kind: CompactionType, settings: RewriteSettings, row_type: str | None
) -> Compacted:
    table.copy(location)
    return compact_directory(
        location, kind, table.write_ids, table.generation, table.visibility_txn, settings=settings, row_type=row_type
    )


def rows(table: HiveTable, location: Path) -> list[merge.Row]:
    return merge.read(location, table.write_ids, generation=table.generation, strict=True)


def padded(found: list[merge.Row], columns: int) -> list[merge.Row]:
    return [(*row[:3], row[3] + (None,) * columns) for row in found]


def written(table: HiveTable, location: Path, made: Compacted) -> o.OrcFile:
    """Any file of the result with its statistics judged; all have the same types."""
    copied = {f"{r.directory}/bucket_{r.bucket:05d}": r.stripes_copied > 0 for r in made.results}
    files = bucket_files(location, made.directories)
    for path in files:
        name = f"{path.parent.name}/{path.name}"
        assert statistics_problems(path, table.generation, copied=copied[name]) == []
    found = [o.read_orc(path) for path in files]
    assert all(file.types == found[0].types for file in found)
    return found[0]


def judge_by_java(java: JavaOrc, location: Path, made: Compacted) -> None:
    """Takes long: for some of the cases."""
    for path in bucket_files(location, made.directories):
        assert java_problems(java, path, max_groups=1) == []


def columns(file: o.OrcFile) -> tuple[str, ...]:
    return file.types[file.types[0].children[5]].names


@pytest.mark.usefixtures("steady_deflate")
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("table", "kind"), BY_KIND)
def test_columns_that_the_files_have_change_nothing(
    table: HiveTable, kind: CompactionType, settings: RewriteSettings, tmp_path: Path
) -> None:
    plain = compact(table, tmp_path / "plain", kind, settings, None)
    told = compact(table, tmp_path / "told", kind, settings, row_type_of(table.folder))
    assert [result.actions for result in told.results] == [
        tuple(replace(action, file=action.file.replace("/plain/", "/told/")) for action in r)
        for r in (result.actions for result in plain.results)
    ]
    for one, other in zip(
        bucket_files(tmp_path / "plain", plain.directories),
        bucket_files(tmp_path / "told", told.directories),
        strict=True,
    ):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.java
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", EVERY_TYPE, ids=str)
def test_columns_that_no_file_has_yet_are_null(
    table: HiveTable, kind: CompactionType, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    before = rows(table, table.copy(tmp_path / "before"))
    more = "late:decimal(38,6),`the rest`:array<struct<x:varchar(3),y:map<string,timestamp>>>,`a``b`:int"
    made = compact(table, tmp_path / "t", kind, settings, row_type_of(table.folder)[:-1] + f",{more}>")
    assert rows(table, tmp_path / "t") == padded(before, 3)
    assert columns(written(table, tmp_path / "t", made))[-3:] == ("late", "the rest", "a`b")
    if kind is MAJOR:
        judge_by_java(java, tmp_path / "t", made)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [*EVERY_TYPE, *SIMPLE], ids=str)
def test_columns_that_the_table_has_no_more_go_and_the_others_are_still_copied(
    table: HiveTable, kind: CompactionType, settings: RewriteSettings, tmp_path: Path
) -> None:
    before = rows(table, table.copy(tmp_path / "before"))
    plain = compact(table, tmp_path / "plain", kind, settings, None)
    first = re.match(r"struct<(\w+):(\w+),", row_type_of(table.folder))
    assert first is not None
    made = compact(table, tmp_path / "t", kind, settings, f"struct<{first[1]}:{first[2]}>")
    assert rows(table, tmp_path / "t") == [(*row[:3], row[3][:1]) for row in before]
    assert columns(written(table, tmp_path / "t", made)) == (first[1],)
    assert [result.stripes_copied for result in made.results] == [result.stripes_copied for result in plain.results]
    assert all(len(result.notes) == 1 for result in made.results if result.rows_in)


def replacing(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert text.count(old) == 1
        return text.replace(old, new)

    return change


WIDENED = {
    "hive3/a_crud int": ("hive3/a_crud", replacing("id:int", "id:bigint"), True),
    "hive4/crud_table int": ("hive4/crud_table", replacing("id:int", "id:bigint"), True),
    "hive3/d_types varchar": ("hive3/d_types", replacing("varchar(20)", "varchar(65535)"), True),
    "hive4/all_types varchar": ("hive4/all_types", replacing("varchar(12)", "varchar(13)"), True),
    "hive3/d_types decimal": ("hive3/d_types", replacing("d1:decimal(10,2)", "d1:decimal(12,2)"), True),
    "hive3/d_types below": ("hive3/d_types", replacing("ai:array<int>", "ai:array<bigint>"), True),
    "hive4/all_types smallint": ("hive4/all_types", replacing("c_si:smallint", "c_si:int"), True),
    "hive3/d_types tinyint": ("hive3/d_types", replacing("ti:tinyint", "ti:int"), False),
    "hive4/all_types tinyint": ("hive4/all_types", replacing("c_ti:tinyint", "c_ti:bigint"), False),
    "hive3/b_part decimal": ("hive3/b_part", replacing("decimal(12,2)", "decimal(38,2)"), True),
    "hive4/schema_evolution": ("hive4/schema_evolution", replacing("id:int", "id:bigint"), True),
}


@pytest.mark.java
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", WIDENED)
def test_wider_columns_keep_their_values(
    case: str, kind: CompactionType, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    name, change, copyable = WIDENED[case]
    table = hive_table(name)
    before = rows(table, table.copy(tmp_path / "before"))
    plain = compact(table, tmp_path / "plain", kind, settings, row_type_of(table.folder))
    text = change(row_type_of(table.folder))
    made = compact(table, tmp_path / "t", kind, settings, text)
    assert rows(table, tmp_path / "t") == before
    file = written(table, tmp_path / "t", made)
    row = file.types[0].children[5]
    expected = [
        (int(node.kind), node.maximum_length, node.precision) for node in parse_row_type(text, where="t").walk()
    ]
    assert [(t.kind, t.max_length, t.precision) for t in file.types[row:]] == expected
    copied = [result.stripes_copied for result in made.results]
    assert copied == ([result.stripes_copied for result in plain.results] if copyable else [0] * len(copied))
    if kind is MAJOR and settings is COPY:
        judge_by_java(java, tmp_path / "t", made)


@pytest.mark.parametrize("table", SIMPLE, ids=str)
def test_names_are_the_tables_and_stripes_are_still_copied(table: HiveTable, tmp_path: Path) -> None:
    plain = compact(table, tmp_path / "plain", MINOR, COPY, None)
    text = "struct<Nummer:int,`der Wert`:string>"
    table.copy(tmp_path / "t")
    made = compact_directory(
        tmp_path / "t", MINOR, table.write_ids, table.generation, table.visibility_txn, settings=COPY, row_type=text,
        matching=ColumnMatching(by_position=True),
    )  # fmt: skip
    assert columns(written(table, tmp_path / "t", made)) == ("Nummer", "der Wert")
    assert [result.stripes_copied for result in made.results] == [result.stripes_copied for result in plain.results]
    assert sum(result.stripes_copied for result in made.results) > 0


FILE, TABLE = r"compact /\S*/delta_\w+/bucket_0000\d", r"read default\.\w+"


@pytest.mark.parametrize(
    ("row_type", "where", "said"),
    [
        ("struct<id:date,value:string>", FILE, r"its column row\.id is int and the table's is date"),
        ("struct<id:smallint,value:string>", FILE, r"column row\.id is int and the table's is short"),
        ("struct<id:int,value:varchar(5)>", FILE, r"column row\.value is string and the table's is varchar\(5\)"),
        (
            "struct<id:int,value:interval_day_time>",
            TABLE,
            r"ORC cannot hold its column row\.value of type interval_day_time",
        ),
        ("struct<id:int,value:text>", TABLE, r"the type of its column row\.value is not understood from 'text>'"),
    ],
)
def test_what_does_not_align_is_refused_and_nothing_is_left(
    row_type: str, where: str, said: str, tmp_path: Path
) -> None:
    table = SIMPLE[0]
    before = rows(table, table.copy(tmp_path / "before"))
    with pytest.raises(RefusedError, match=f"^Cannot {where}: .*{said}"):
        compact(table, tmp_path / "t", MAJOR, COPY, row_type)
    assert rows(table, tmp_path / "t") == before
    assert sorted(p.name for p in (tmp_path / "t").iterdir()) == sorted(p.name for p in (tmp_path / "before").iterdir())
