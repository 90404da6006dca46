"""The judges themselves: right about tables that Hive wrote and answered about, and able to see faults."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pyorc
import pytest
from judges import exact_stats, merge, mutants, random_orc, tables, values
from judges import orc_tail as o
from judges.acid_dirs import ReaderError, WriteIds, directory_state
from judges.column_stats import CPP, HIVE, Policy
from judges.fixtures import Fixture, fixtures, orc_files
from judges.samples import any_layout, any_rows, column_of, wide_file
from judges.tables import Transaction

COLUMNS = "struct<a:int,b:string>"


def _cases() -> list[Any]:
    layers = [(f, layer) for f in fixtures() for layer in ("", *f.layers)]
    return [pytest.param(f, layer, id=f"{f.name}-{layer or 'before'}") for f, layer in layers]


def _fixture(name: str) -> Fixture:
    return next(f for f in fixtures() if f.name == name)


@pytest.mark.parametrize(("fixture", "layer"), _cases())
def test_naive_reader_gives_what_hive_returned(fixture: Fixture, layer: str, tmp_path: Path) -> None:
    faulty = (fixture.name, layer) == ("hive3/m_multiwriter", "after_minor")  # Hive cannot read its own result
    rows, keys = fixture.read(fixture.lay(tmp_path / "t", layer), strict=not faulty)
    assert rows == fixture.hive_rows()
    assert fixture.hive_keys(layer) in (None, keys)


def test_the_faulty_minor_of_hive_3_is_refused_as_hive_refuses_it(tmp_path: Path) -> None:
    location = _fixture("hive3/m_multiwriter").lay(tmp_path / "t", "after_minor")
    with pytest.raises(ReaderError, match="Two readers"):
        merge.read(location, strict=True)


@pytest.mark.parametrize("name", ["hive3/a_crud", "hive3/g_orig", "hive4/crud_table", "hive4/original_files"])
def test_after_a_major_compaction_only_the_new_base_is_read(name: str, tmp_path: Path) -> None:
    fixture = _fixture(name)
    folder, location = fixture.folder, fixture.lay(tmp_path / "t", "after_major")
    state = directory_state(location, generation=fixture.generation)
    new = {p.name for p in (folder / "after_major").iterdir()}
    assert state.base is not None
    assert {state.base.path.name} == new
    assert (state.deltas, state.originals) == ((), ())
    assert {p.name for p in state.obsolete} == {p.name for p in (folder / "before").iterdir()}


def test_an_uncommitted_base_is_not_read(tmp_path: Path) -> None:
    location = _fixture("hive4/crud_table").lay(tmp_path / "t", "after_major")
    state = directory_state(location, generation=4, hidden_txns=frozenset({83}))
    assert state.base is None
    assert len(state.deltas) == 4


def test_hive_3_cannot_read_names_of_hive_4(tmp_path: Path) -> None:
    location = _fixture("hive4/crud_table").lay(tmp_path / "t", "after_major")
    with pytest.raises(ReaderError, match="cannot parse base_0000003_v0000083"):
        merge.read(location, generation=3)
    shutil.rmtree(location / "base_0000003_v0000083")
    with pytest.raises(ReaderError, match=r"cannot parse .*bucket_00000_0"):
        merge.read(location, generation=3)


def test_the_side_file_cuts_the_data_file(tmp_path: Path) -> None:
    location = _fixture("hive3/j_stream").lay(tmp_path / "t")
    bucket = location / "delta_0000006_0000010" / "bucket_00000"
    side = bucket.with_name("bucket_00000_flush_length")
    lengths = struct.unpack(">3q", side.read_bytes())
    side.unlink()
    for count, rows in ((3, 7), (2, 5)):
        side.write_bytes(struct.pack(f">{count}q", *lengths[:count]) + b"\0\0")
        ids = "t:10:8:8,9,10:3,5"
        assert len(merge.read(location, ids)) == rows
    side.write_bytes(b"\0\0\0")
    with pytest.raises(ReaderError, match="holds no length"):
        merge.read(location, "t:10:8:8,9,10:3,5")


def test_write_id_lists() -> None:
    ids = WriteIds.parse("default.t:10:8:8,9:3,5")
    assert [ids.valid(i) for i in (2, 3, 8, 10, 11)] == [True, False, False, True, False]
    assert [ids.valid_base(i) for i in (7, 8, 11)] == [True, False, False]
    assert [ids.any_valid(a, b) for a, b in ((8, 9), (8, 10), (3, 3), (3, 5), (9, 12), (11, 12))] == [
        False,
        True,
        False,
        True,
        True,
        False,
    ]
    assert WriteIds.parse("").valid(1 << 60)
    assert WriteIds.parse("t:7:9223372036854775807").valid(7)


COLUMNS = "struct<a:int,b:string>"


def test_same_range_twice_is_read_twice(tmp_path: Path) -> None:
    """Readers up to Hive 4.1 take both of two compacted deltas of one range: the rows are doubled."""
    for suffix in ("_v0000024", "_v0000025"):
        tables.write_dir(tmp_path, f"delta_0000022_0000023{suffix}", COLUMNS, tables.inserts(22, [(1, "x")]))
    assert len(merge.read(tmp_path, generation=4)) == 2
    with pytest.raises(ReaderError, match="Two rows with one key"):
        merge.read(tmp_path, generation=4, strict=True)


def test_hive_4_does_not_apply_deletes_of_the_same_write_id_without_a_later_statement(tmp_path: Path) -> None:
    row = tables.inserts(5, [(1, "x")])
    tables.write_dir(tmp_path, "delta_0000005_0000005_0000", COLUMNS, row)
    tables.write_dir(tmp_path, "delete_delta_0000005_0000005_0001", COLUMNS, tables.deletes(5, [row[0][1:4]]))
    assert merge.read(tmp_path, generation=4) == []
    (tmp_path / "delta_0000005_0000005_0000").rename(tmp_path / "delta_0000005_0000005_v0000009")
    (tmp_path / "delete_delta_0000005_0000005_0001").rename(tmp_path / "delete_delta_0000005_0000005_v0000009")
    assert len(merge.read(tmp_path, generation=4)) == 1


def test_deletes_in_a_foreign_bucket_file(tmp_path: Path) -> None:
    row = tables.inserts(1, [(1, "x")], writer=1)
    tables.write_dir(tmp_path, "delta_0000001_0000001_0000", COLUMNS, row)
    directory = tables.write_dir(
        tmp_path, "delete_delta_0000002_0000002_0000", COLUMNS, tables.deletes(2, [row[0][1:4]])
    )
    (directory / "bucket_00001").rename(directory / "bucket_00000")
    assert merge.read(tmp_path, generation=3) == []
    with pytest.raises(ReaderError, match="holds a delete of bucket"):
        merge.read(tmp_path, generation=4)


def test_not_enough_history(tmp_path: Path) -> None:
    tables.write_base(tmp_path, 5, COLUMNS, tables.inserts(4, [(1, "x")]))
    assert len(merge.read(tmp_path, "t:6:9223372036854775807::")) == 1
    with pytest.raises(ReaderError, match="not enough history"):
        merge.read(tmp_path, "t:6:3:3:")


def test_a_file_out_of_order_or_in_the_wrong_bucket_is_refused(tmp_path: Path) -> None:
    events = tables.inserts(1, [(1, "x"), (2, "y")])
    path = tmp_path / "bucket_00000"
    path.write_bytes(tables.acid_bytes(COLUMNS, events))
    merge.check_order(path)
    path.write_bytes(tables.acid_bytes(COLUMNS, events[::-1]))
    with pytest.raises(ReaderError, match="after"):
        merge.check_order(path)
    path.write_bytes(tables.acid_bytes(COLUMNS, tables.inserts(1, [(1, "x")], writer=2)))
    with pytest.raises(ReaderError, match="holds bucket property"):
        merge.check_order(path)


@pytest.mark.parametrize("seed", range(25))
def test_a_built_history_reads_as_expected(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    columns = random_orc.columns(rng, unions=False)
    history = [
        Transaction(
            inserts=any_rows(rng, columns, 6),
            updates=tuple((rng.randrange(30), row) for row in any_rows(rng, columns, 2)),
            deletes=tuple(rng.randrange(30) for _ in range(rng.randint(0, 3))),
            aborted=rng.random() < 0.25,
        )
        for _ in range(rng.randint(1, 5))
    ]
    layouts = [any_layout(rng), any_layout(rng)]
    built = tables.build(tmp_path / "table", columns, history, writers=rng.randint(1, 3), layouts=layouts)
    for generation in (3, 4):
        assert merge.read(built.location, built.write_ids, generation=generation, strict=True) == list(built.expected)


@pytest.mark.parametrize("seed", range(25))
def test_statistics_of_any_file_written_by_pyorc_are_right(seed: int) -> None:
    rng = random.Random(seed)
    columns = random_orc.columns(rng, unions=False)
    rows = any_rows(rng, columns, 14)
    report = exact_stats.check(tables.acid_bytes(columns, tables.inserts(1, rows), any_layout(rng)), CPP)
    assert (report.problems, report.rows) == ([], len(rows))


def test_statistics_of_hives_files_are_right() -> None:
    checked = 0
    for path in orc_files():
        if o.read_orc(path).stride == 0:
            continue
        keys = "hive.acid.key.index" in o.read_orc(path).user
        policy = HIVE if keys else Policy(may_be_absent=False, nan_absent=False, collections=False, acid_metadata=False)
        report = exact_stats.check(path, policy)
        assert report.problems == [], path
        checked += report.checked
    assert checked > 8000


def test_statistics_of_hive_3_minors_are_known_to_be_false() -> None:
    [path] = orc_files("hive3/a_crud/after_minor/delta_*/bucket_*")
    orc = o.read_orc(path)
    assert orc.stride == 0
    assert any("numberOfValues 0, should be 6" in p for p in exact_stats.check(path, HIVE).problems)


def test_hive_4_writes_false_statistics_of_collections() -> None:
    [path] = orc_files("hive4/all_types/after_major/*/bucket_*")
    policy = Policy(nan_absent=False, acid_metadata=False)
    problems = exact_stats.check(path, policy).problems
    assert problems
    assert all("1000, should be" in p for p in problems)


@pytest.mark.parametrize("compression", list(tables.KINDS))
def test_a_wide_file_is_right(compression: str) -> None:
    content = wide_file(compression)
    report = exact_stats.check(content, CPP)
    assert report.problems == []
    assert (report.row_groups, report.absent) == (8 * report.stripes, 0)


def test_a_changed_copy_of_a_file_is_still_whole() -> None:
    """The tool that makes mutants must not add faults of its own: a change by zero leaves a right file."""
    for compression in ("none", "zlib"):
        orc = o.read_orc(wide_file(compression, stripe_size=1, batch=500, block=1024))
        assert len(orc.stripes) > 1
        copy = mutants.move_position(orc, 0, column_of(orc, "id"), 1, by=0)
        assert exact_stats.check(copy, CPP).problems == []
        assert list(values.canonical_rows(copy)) == list(values.canonical_rows(orc.data))


@pytest.mark.parametrize("field", [1, 2, 3])
@pytest.mark.parametrize("name", ["id", "big", "tiny"])
def test_a_statistic_off_by_three_is_seen(name: str, field: int) -> None:
    orc = o.read_orc(wide_file("zlib"))
    column = column_of(orc, name)
    copies = {
        "stripe 0, row group 2": mutants.shift_group_statistic(orc, 0, column, 2, field=field),
        "stripe 0": mutants.shift_stripe_statistic(orc, 0, column, field=field),
        "file": mutants.shift_file_statistic(orc, column, field=field),
    }
    for where, copy in copies.items():
        [problem] = exact_stats.check(copy, CPP).problems
        assert problem.startswith(f"{where}, column {column}: ")


def _without_statistic(entry: o.Message) -> o.Message:
    return {1: entry.get(1, [])}


def _short_positions(entry: o.Message) -> o.Message:
    positions = o.packed(entry[1])[:-1]
    return {**entry, 1: [b"".join(o.encode_varint(p) for p in positions)]}


def test_faults_of_the_container_are_seen() -> None:
    orc = o.read_orc(wide_file("none"))
    column = column_of(orc, "id")
    changes = {
        "no statistics": mutants.change_index(orc, 0, column, 1, _without_statistic),
        "positions, ": mutants.change_index(orc, 0, column, 1, _short_positions),
        "in stream 1 of": mutants.move_position(orc, 0, column, 1, place=0, by=1 << 20),
        "hive.acid.stats": mutants.with_user_metadata(orc, {"hive.acid.stats": b"1,0,0"}),
        "hive.acid.version": mutants.with_user_metadata(orc, {"hive.acid.version": None}),
        "hive.acid.key.index": mutants.with_user_metadata(orc, {"hive.acid.key.index": b"7,536870912,998;"}),
        "rows in stripes": o.with_tail(orc, {**orc.footer, 6: [999]}),
        "contentLength": o.with_tail(orc, {**orc.footer, 2: [17]}),
    }
    for text, copy in changes.items():
        problems = exact_stats.check(copy, CPP).problems
        assert len(problems) == 1, (text, problems)
        assert text in problems[0]


def test_what_a_policy_allows() -> None:
    rows = [((i, 123_456_789),) for i in range(10)]
    orc = o.read_orc(tables.orc_bytes("struct<t:timestamp>", rows))
    typed = o.parse(o.one(o.parse(orc.footer[7][1]), 9))
    rounded = {**typed, 4: [(9124 << 1)]}
    rounded.pop(6)
    columns = [orc.footer[7][0], o.encode({**o.parse(orc.footer[7][1]), 9: [o.encode(rounded)]})]
    copy = o.with_tail(orc, {**orc.footer, 7: columns})
    assert exact_stats.check(copy, Policy(generation=3)).problems == []
    assert exact_stats.check(copy, Policy(generation=4)).problems == ["file, column 1: maximumUtc 9124, should be 9123"]
    bare = o.with_tail(orc, {**orc.footer, 7: [columns[0], o.encode({1: [10], 10: [0]})]})
    report = exact_stats.check(bare)
    assert (report.problems, report.absent) == ([], 1)
    assert exact_stats.check(bare, Policy(may_be_absent=False)).problems == ["file, column 1: no typed statistics"]
    nan = tables.orc_bytes("struct<d:double>", [(float("nan"),), (1.0,)])
    assert exact_stats.check(nan, CPP).problems == []
    assert any("NaN" in p for p in exact_stats.check(nan, Policy()).problems)


def test_canonical_values() -> None:
    kind = pyorc.TypeDescription.from_string
    assert values.canonical(-0.0, kind("double")) == "f:8000000000000000"
    assert values.canonical(0.0, kind("double")) != values.canonical(-0.0, kind("double"))
    assert values.canonical("-0.50", kind("decimal(10,2)")) == "n:-0.5"
    assert values.canonical("-0.00", kind("decimal(10,2)")) == "n:0"
    assert values.canonical("a  ", kind("char(3)")) == "s:a  "
    assert values.canonical("a  ", kind("char(3)"), trim_char=True) == "s:a"
    assert values.canonical("x", kind("uniontype<int,string>")) == ("u", 1, "s:x")
    assert values.unscaled("-1.5", 2) == -150
    with pytest.raises(ValueError, match="cannot tell"):
        values.canonical(1, kind("uniontype<int,bigint>"))
