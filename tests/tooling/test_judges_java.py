"""The judges that use Java's ORC reader: right about files of Hive and of pyorc, and able to see faults."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from judges import exact_stats, mutants, random_orc, tables
from judges import orc_tail as o
from judges.column_stats import CPP
from judges.fixtures import orc_files
from judges.java_orc import JavaOrc, JudgeError, shared
from judges.samples import any_layout, any_rows, column_of, wide_file

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def java() -> JavaOrc:
    return shared()


def test_java_and_pyorc_read_hives_files_alike(java: JavaOrc) -> None:
    files = orc_files("hive[34]/*types/**/*")
    for path in files:
        assert java.differences(path) == []
    assert len(files) > 20


@pytest.mark.parametrize(
    "name", ["hive3/d_types/after_major", "hive4/all_types/after_major", "hive4/part_table/before"]
)
def test_java_seeks_and_prunes_in_hives_files(name: str, java: JavaOrc) -> None:
    for path in orc_files(f"{name}/**/*")[:4]:
        assert java.seek_check(path).problems == ()
        for found in java.sarg_check(path):
            assert found.lost == ()


@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_java_agrees_about_a_file_of_pyorc(compression: str, java: JavaOrc, tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    path.write_bytes(wide_file(compression, stripe_size=1, batch=500, block=1024))
    assert len(o.read_orc(path).stripes) > 1
    assert java.differences(path) == []
    seeks = java.seek_check(path)
    assert (seeks.problems, seeks.tried > 8 * 3) == ((), True)
    pruned = {p.column: p for p in java.sarg_check(path)}
    assert set(pruned) >= {"id", "big", "small", "tiny", "s", "v", "c", "d", "f", "n", "w", "ts", "z", "day", "ok"}
    assert all(p.lost == () and p.queries > 20 for p in pruned.values())
    for name in ("id", "big", "s", "c", "d", "ts", "z", "day", "w"):  # others are spread over all row groups
        assert pruned[name].rows_read < 0.8 * pruned[name].rows_total, pruned[name]
    ids = {p.column: p for p in java.sarg_check_ids(path)}
    assert len(ids) == 5
    assert all(p.lost == () for p in ids.values())
    assert ids["rowId"].rows_read < 0.8 * ids["rowId"].rows_total


@pytest.mark.parametrize(
    ("name", "place"),
    [("id", -1), ("s", -1), ("s", 0), ("ts", 1), ("ts", -1), ("d", 0), ("ok", -1), ("n", 0), ("li", -1), ("bin", 0)],
)
def test_java_sees_a_position_off_by_one(name: str, place: int, java: JavaOrc, tmp_path: Path) -> None:
    orc = o.read_orc(wide_file("none"))
    path = tmp_path / "bucket_00000"
    column = column_of(orc, name)
    path.write_bytes(mutants.move_position(orc, 0, column, 3, place=place))
    assert java.differences(path) == []  # whole reads do not use the index
    assert exact_stats.check(path, CPP).problems == []
    assert java.seek_check(path).problems


@pytest.mark.parametrize(("field", "by"), [(1, 3), (2, -3)])
def test_java_loses_rows_by_a_narrow_statistic(field: int, by: int, java: JavaOrc, tmp_path: Path) -> None:
    orc = o.read_orc(wide_file("zlib"))
    path = tmp_path / "bucket_00000"
    path.write_bytes(mutants.shift_group_statistic(orc, 0, column_of(orc, "id"), 0, field=field, by=by))
    found = {p.column: p.lost for p in java.sarg_check(path, columns=("id", "big"))}
    assert found["id"]
    assert found["big"] == ()
    path.write_bytes(mutants.shift_group_statistic(orc, 0, 4, 0, field=field, by=by))
    assert {p.column for p in java.sarg_check_ids(path) if p.lost} == {"rowId"}


def test_java_says_what_it_cannot_read(java: JavaOrc, tmp_path: Path) -> None:
    [path] = orc_files("hive3/a_crud/after_minor/delta_*/bucket_*")
    with pytest.raises(JudgeError, match="no row index"):
        java.seek_check(path)
    broken = tmp_path / "broken"
    broken.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(JudgeError, match="Java cannot answer"):
        java.dump(broken)
    assert len(java.rows(path)) == 6


@pytest.mark.parametrize("seed", range(15))
def test_java_agrees_about_any_file_of_pyorc(seed: int, java: JavaOrc, tmp_path: Path) -> None:
    rng = random.Random(seed)
    columns = random_orc.columns(rng, unions=False)
    rows = any_rows(rng, columns, 14, least=1)
    path = tmp_path / "bucket_00000"
    path.write_bytes(tables.acid_bytes(columns, tables.inserts(1, rows), any_layout(rng)))
    assert java.differences(path) == []
    assert java.seek_check(path, random_rows=3).problems == ()
    assert [found for found in java.sarg_check(path) if found.lost] == []


def test_java_seeks_where_only_a_nested_column_has_a_bloom_filter(java: JavaOrc, tmp_path: Path) -> None:
    layout = tables.Layout(stride=10, bloom=(2,))
    rows = [([number, number + 1], number) for number in range(40)]
    path = tmp_path / "nested.orc"
    path.write_bytes(tables.orc_bytes("struct<a:array<int>,b:int>", rows, layout))
    assert [s.column for s in o.read_orc(path).stripes[0].streams if s.kind == o.BLOOM_UTF8] == [2]
    found = java.seek_check(path)
    assert found.problems == ()
    assert found.tried > 10
