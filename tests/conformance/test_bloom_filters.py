"""Bloom filters of rewritten stripes: bit for bit those of Java's writer, and of the same columns in all of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compaction import MAJOR, Compacted, bucket_files, compact_directory, join_plain_files, plan
from judges import bloom, java_files
from judges import orc_tail as o
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.tables import acid_schema, deletes, delta_name, inserts

from acidlib.acid.names import Generation
from acidlib.model.units import RewriteSettings
from acidlib.orc.kernels import murmur
from acidlib.orc.kernels.murmur import hash_decimals, hash_longs, hash_strings, set_bits, timestamp_millis
from acidlib.rewrite.bucket import join_parts, plan_bucket, run_part, run_unit
from acidlib.stores.renaming.local import LocalDataFiles
from conformance.checks import java_problems, statistics_problems
from conformance.java_tables import COLUMNS, real, row, single

pytestmark = pytest.mark.java

COPY = RewriteSettings(copy_bytes=0)
RECODE = RewriteSettings(copy_bytes=1 << 40)
GONE = [(2, bucket_property(0, 0), 5)]
PASSING = (o.BOOLEAN, o.LIST, o.MAP, o.STRUCT, o.UNION)
"""Kinds whose filters let everything pass."""

Table = tuple[Path, list[Path]]


def filtered_row(i: int, total: int) -> tuple[Any, ...]:
    """A row of COLUMNS with both zeros where one is, letters of two bytes, and times before 1970."""
    values = list(row(i, total))
    zero = {3: 0.0, 4: -0.0}.get(i % 50)
    if zero is not None:
        values[5], values[6] = single(zero), real(zero)
    if i % 7 == 0:
        values[8], values[9] = f"s:ä{i % 13}", f"s:{'ßé'[i % 2]}{i % 50}"
    if i % 13 == 0:
        values[13], values[15] = f"t:{-86_413 * (i + 1)}:{i * 1_000_003 % 10**9}", f"d:{-i}"
    return tuple(values)


def filtered_rows(first: int, count: int) -> list[tuple[Any, ...]]:
    return [filtered_row(i, first + count) for i in range(first, first + count)]


def two_deltas(
    java: JavaOrc,
    location: Path,
    one: Options,
    other: Options,
    columns: str = COLUMNS,
    sizes: tuple[int, int] = (700, 600),
) -> None:
    """Two deltas, and a delete of a row of the second."""
    first, second = filtered_rows(0, sizes[0]), filtered_rows(sizes[0], sizes[1])
    if columns != COLUMNS:
        first, second = [(r[0], r[7]) for r in first], [(r[0], r[7]) for r in second]
    for write_id, rows, options in ((1, first, one), (2, second, other)):
        java_files.write_dir(java, location, delta_name(write_id, write_id), columns, inserts(write_id, rows), options)
    java_files.write_dir(java, location, delta_name(3, 3, delete=True), columns, deletes(3, GONE), one)


def compacted(location: Path, generation: int = 4, settings: RewriteSettings = RECODE) -> tuple[Compacted, Path]:
    result = compact_directory(location, MAJOR, "", generation, settings=settings)
    [path] = bucket_files(location, result.directories)
    return result, path


def by_java(java: JavaOrc, path: Path, options: Options) -> o.OrcFile:
    """The rows of an ACID file of COLUMNS, written by Java."""
    return o.read_orc(
        java_files.write_orc(java, path.parent / "java.orc", acid_schema(COLUMNS), java.rows(path), options, acid=True)
    )


def differences(ours: o.OrcFile, other: o.OrcFile) -> list[str]:
    """Where the filters of two files of one stripe differ, by what is certain in ours."""
    [one], [two] = ours.stripes, other.stripes
    found = []
    index = [[(s.kind, s.column) for s in stripe.streams if s.kind in o.INDEX_STREAMS] for stripe in (one, two)]
    if index[0] != index[1]:
        found.append(f"index streams {index[0]}, Java's {index[1]}")
    for column in bloom.columns(two):
        kind = ours.types[column].kind
        mine, theirs = bloom.filters(ours, one, column), bloom.filters(other, two, column)
        if kind in PASSING:
            theirs = [(functions, b"\xff" * len(bits)) for functions, bits in theirs]
        if mine != theirs:
            found.append(f"column {column} of kind {kind}")
        if one.encodings[column].get(3) != two.encodings[column].get(3):
            found.append(f"column {column}: bloom encoding {one.encodings[column]}")
    return found


@pytest.mark.parametrize(
    ("generation", "options"),
    [
        pytest.param(3, Options(bloom="*", conf={"orc.bloom.filter.fpp": "0.05"}), id="hive3"),
        pytest.param(4, Options(bloom="*", decimal64=True, compression="none"), id="decimals-of-64-bits"),
        pytest.param(4, Options(bloom="*", proleptic=True, bloom_version="original", dictionary=0.0), id="direct"),
        pytest.param(4, Options(bloom="*", dictionary=1.0, conf={"orc.bloom.filter.fpp": "0.3"}), id="dictionaries"),
    ],
)
def test_the_bits_are_those_of_java(generation: int, options: Options, java: JavaOrc, tmp_path: Path) -> None:
    two_deltas(java, tmp_path / "t", options, options)
    result, path = compacted(tmp_path / "t", generation)
    assert result.results[0].stripes_copied == 0
    ours, theirs = o.read_orc(path), by_java(java, path, Options(bloom="*", conf=options.conf))
    assert len(bloom.columns(theirs.stripes[0])) == len(ours.types)
    assert [len(bloom.filters(theirs, theirs.stripes[0], column)) for column in range(len(ours.types))] == [2] * len(
        ours.types
    )
    assert differences(ours, theirs) == []
    assert not bloom.columns(ours.stripes[0], o.BLOOM)
    assert statistics_problems(path, generation) == []
    assert java_problems(java, path, max_groups=2) == []


def broken(name: str, function: Callable[..., Any]) -> Any:
    return pytest.param(name, function, id=name)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        broken("set_bits", lambda hashes, bits, functions: set_bits(hashes, bits, functions - 1)),
        broken("hash_strings", lambda data, offsets: hash_strings(data, offsets) ^ np.uint64(1)),
        broken("hash_longs", lambda values: hash_longs(values + 1)),
        broken("timestamp_millis", lambda s, n, out: timestamp_millis(s, n, out) and out.__iadd__(1) is not None),
        broken("hash_decimals", lambda low, high, scales, most, out: hash_decimals(low, high, scales + 1, 38, out)),
    ],
)  # fmt: skip
def test_a_fault_shows(
    name: str, function: Callable[..., Any], java: JavaOrc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(bloom="*")
    two_deltas(java, tmp_path / "t", options, options)
    monkeypatch.setattr(murmur, name, function)
    _, path = compacted(tmp_path / "t")
    assert differences(o.read_orc(path), by_java(java, path, options))


LOOKED_FOR = {
    "id": 0,
    "small": 3,
    "big": 4,
    "f": 5,
    "d": 6,
    "s": 7,
    "v": 8,
    "c": 9,
    "n": 11,
    "w": 12,
    "ts": 13,
    "day": 15,
}


def texts(values: list[Any], column: str) -> Iterator[str]:
    for value in values:
        text = str(value) if isinstance(value, int) else value[2:]
        yield text.ljust(5) if column == "c" else text


UNUSED_SMALL = sorted(set(range(1000)).difference(row(i, 9999)[3] for i in range(2100)))


def absent(column: str) -> list[str]:
    """Values that no row of a column has, most between the least and the greatest: only the filter can tell."""
    make: dict[str, Callable[[int], str]] = {
        "id": lambda k: str(3000 + k),
        "small": lambda k: str(UNUSED_SMALL[k]),
        "big": lambda k: str((k - 10) * 10**12 + 1001),
        "f": lambda k: single(k + 0.01)[2:],
        "d": lambda k: real(k + 0.01)[2:],
        "s": lambda k: f"word {k}x",
        "v": lambda k: f"v1{k}x",
        "c": lambda k: f"b{k}".ljust(5),
        "n": lambda k: f"{k * 10}.77",
        "w": lambda k: f"{k * 10**24 + 7}.5",
        "ts": lambda k: f"{1_400_000_000 + k * 86_413 + 1}:0",
        "day": lambda k: f"{k * 3 + 1}",
    }
    return [make[column](k) for k in range(1, 30)]


def test_java_finds_what_is_there_and_passes_over_what_is_not(java: JavaOrc, tmp_path: Path) -> None:
    options = Options(bloom=",".join(LOOKED_FOR), conf={"orc.bloom.filter.fpp": "0.0001"})
    two_deltas(java, tmp_path / "t", options, options, sizes=(1100, 1000))
    _, path = compacted(tmp_path / "t")
    present = [event[5] for event in java.rows(path)]
    for column, at in LOOKED_FOR.items():
        values = [r[at] for r in present]
        known = [value for value in values[::97] if value not in (None, real(float("nan")))]
        for value, text in zip(known, texts(known, column), strict=True):
            same = sum(v == value or {v, value} == {real(0.0), real(-0.0)} for v in values)
            assert java.look_up(path, column, text)[1] == same, (column, text)
        left = [java.look_up(path, column, text) for text in absent(column)]
        assert all(matching == 0 for _, matching in left)
        # where NaN is, readers do not ask the filter
        assert sum(rows for rows, _ in left) <= len(left) * (1000 if column == "d" else 20), column


def test_times_of_another_zone_pass(java: JavaOrc, tmp_path: Path) -> None:
    options = Options(bloom="ts,ti,day", timezone="Asia/Kolkata")
    two_deltas(java, tmp_path / "t", options, options)
    _, path = compacted(tmp_path / "t")
    ours, theirs = o.read_orc(path), by_java(java, path, options)
    ts, ti, day = bloom.columns(ours.stripes[0])
    assert {bits.strip(b"\xff") for _, bits in bloom.filters(ours, ours.stripes[0], ts)} == {b""}
    for column in (ti, day):
        assert bloom.filters(ours, ours.stripes[0], column) == bloom.filters(theirs, theirs.stripes[0], column)


# --- the same columns in all stripes ----------------------------------------------------------------------------------

SMALL = "struct<id:int,s:string>"


def filtered_columns(path: Path) -> list[list[int]]:
    return [bloom.columns(stripe) for stripe in o.read_orc(path).stripes]


@pytest.mark.parametrize("version", ["utf8", "original"])
@pytest.mark.parametrize("generation", [3, 4])
def test_a_rewritten_stripe_behind_a_copied_one(version: str, generation: int, java: JavaOrc, tmp_path: Path) -> None:
    options = Options(bloom="id,s", bloom_version=version)
    two_deltas(java, tmp_path / "t", options, options, SMALL, (1100, 2500))
    result, path = compacted(tmp_path / "t", generation, COPY)
    assert [action.action for action in result.results[0].actions] == ["copy", "rewrite"]
    assert filtered_columns(path) == [[7, 8], [7, 8]]
    orc = o.read_orc(path)
    sizes = {(f, len(bits)) for stripe in orc.stripes for c in (7, 8) for f, bits in bloom.filters(orc, stripe, c)}
    assert len(sizes) == 1  # as in the copied stripe, whatever Hive's default is
    assert java_problems(java, path, max_groups=1) == []
    assert java.rows_left(path, "s", "word 7x") == 0
    assert java.rows_left(path, "s", "word 7") > 0


def test_a_stripe_without_the_filter_of_another_is_rewritten(java: JavaOrc, tmp_path: Path) -> None:
    two_deltas(java, tmp_path / "t", Options(bloom="s"), Options(bloom="id"), SMALL, (1100, 1100))
    result, path = compacted(tmp_path / "t", settings=COPY)
    reasons = [action.reason for action in result.results[0].actions]
    assert reasons == ["row to leave out: 1 deleted; no bloom filter of column id (1 of 2 stripes)"]
    assert filtered_columns(path) == [[7, 8]]


def test_without_filters_nothing_changes(java: JavaOrc, tmp_path: Path) -> None:
    two_deltas(java, tmp_path / "t", Options(), Options(), SMALL, (1100, 1100))
    result, path = compacted(tmp_path / "t", settings=COPY)
    assert [action.action for action in result.results[0].actions] == ["copy", "rewrite"]
    assert filtered_columns(path) == [[], []]
    assert not [encoding for encoding in o.read_orc(path).stripes[1].encodings if 3 in encoding]


@pytest.mark.parametrize(
    ("generation", "settings", "columns", "fpp"),
    [
        (3, {"bloom_columns": "S"}, [8], "0.05"),
        (4, {"bloom_columns": " nothing , id"}, [7], "0.01"),
        (4, {"bloom_columns": "s", "bloom_fpp": 0.2}, [8], "0.2"),
        (4, {"bloom_columns": "*"}, list(range(9)), "0.01"),
    ],
)
def test_filters_that_the_table_asks_for(
    generation: int, settings: dict[str, Any], columns: list[int], fpp: str, java: JavaOrc, tmp_path: Path
) -> None:
    two_deltas(java, tmp_path / "t", Options(), Options(), SMALL)
    result, path = compacted(tmp_path / "t", generation, RewriteSettings(copy_bytes=0, **settings))
    assert "no bloom filter of column" in result.results[0].actions[0].reason
    assert filtered_columns(path) == [columns]
    rows = java.rows(path)
    like = Options(bloom="*", conf={"orc.bloom.filter.fpp": fpp})
    theirs = o.read_orc(java_files.write_orc(java, tmp_path / "java.orc", acid_schema(SMALL), rows, like, acid=True))
    ours = o.read_orc(path)
    for column in set(columns) & {7, 8}:
        assert bloom.filters(ours, ours.stripes[0], column) == bloom.filters(theirs, theirs.stripes[0], column)


def test_a_stated_share_wins_over_the_inputs(java: JavaOrc, tmp_path: Path) -> None:
    two_deltas(java, tmp_path / "t", Options(bloom="s"), Options(bloom="s"), SMALL)
    _, path = compacted(tmp_path / "t", settings=RewriteSettings(copy_bytes=1 << 40, bloom_fpp=0.5))
    orc = o.read_orc(path)
    assert {(f, 8 * len(bits)) for f, bits in bloom.filters(orc, orc.stripes[0], 8)} == {(1, 1472)}


def grown_table(java: JavaOrc, location: Path, *, deleted: bool = True) -> None:
    """Original rows, rows from before a column was added, and rows with it of which one may be deleted."""
    one, other = "struct<id:int,s:string>", "struct<id:int,s:string,late:int>"
    options = Options(bloom="s,late")
    java_files.write_orc(java, location / "000000_0", one, [(r[0], r[7]) for r in filtered_rows(0, 1500)], options)
    rows = [(r[0], r[7]) for r in filtered_rows(1500, 1100)]
    java_files.write_dir(java, location, delta_name(1, 1), one, inserts(1, rows), options)
    late = [(r[0], r[7], r[0]) for r in filtered_rows(2600, 1200)]
    java_files.write_dir(java, location, delta_name(2, 2), other, inserts(2, late), options)
    if deleted:
        java_files.write_dir(java, location, delta_name(3, 3, delete=True), other, deletes(3, GONE), options)


def test_copies_with_added_columns_have_filters_of_these(java: JavaOrc, tmp_path: Path) -> None:
    grown_table(java, tmp_path / "t")
    result, path = compacted(tmp_path / "t", 3, COPY)
    assert [(action.action, action.reason) for action in result.results[0].actions] == [
        ("copy", "unchanged but for row ids and columns that are added"),
        ("copy", "unchanged but for columns that are added"),
        ("rewrite", "row to leave out: 1 deleted"),
    ]
    assert filtered_columns(path) == [[8, 9]] * 3
    orc = o.read_orc(path)
    for stripe in orc.stripes:
        assert len(bloom.filters(orc, stripe, 9)) == 2
        assert stripe.encodings[9].get(3) == [1]
    assert {bits.strip(b"\0") for stripe in orc.stripes[:2] for _, bits in bloom.filters(orc, stripe, 9)} == {b""}
    assert java_problems(java, path, max_groups=2) == []
    assert java.rows_left(path, "s", "word 7x") == 0
    assert java.look_up(path, "late", "2700") == (1000, 1)


def test_added_columns_have_filters_though_nothing_is_rewritten(java: JavaOrc, tmp_path: Path) -> None:
    grown_table(java, tmp_path / "t", deleted=False)
    result, path = compacted(tmp_path / "t", 3, COPY)
    assert [action.action for action in result.results[0].actions] == ["copy"] * 3
    assert filtered_columns(path) == [[8, 9]] * 3
    assert java_problems(java, path, max_groups=1) == []


def test_files_of_insert_only_tables(java: JavaOrc, tmp_path: Path) -> None:
    files = []
    for number, filtered in enumerate(("id,s", "s", "id,s")):
        rows = [(r[0], r[7]) for r in filtered_rows(1200 * number, 1200)]
        files.append(java_files.write_orc(java, tmp_path / f"{number}", SMALL, rows, Options(bloom=filtered)))
    made = tmp_path / "made"
    result = join_plain_files(files, made, settings=COPY, generation=Generation.HIVE3)
    reasons = [(action.action, action.reason) for action in result.actions]
    assert reasons[1] == ("rewrite", "no bloom filter of column id (1 of 1 stripe)")
    assert [action for action, _ in reasons] == ["copy", "rewrite", "copy"]
    assert filtered_columns(made) == [[1, 2]] * 3
    assert java.differences(made) == []
    assert not [lost for pruning in java.sarg_check(made, max_groups=1) for lost in pruning.lost]
    assert java.rows_left(made, "s", "word 7x") == 0


@pytest.mark.usefixtures("steady_deflate")
def test_several_tasks_make_the_same_file(java: JavaOrc, tmp_path: Path) -> None:
    grown_table(java, tmp_path / "t")
    _, [unit] = plan(tmp_path / "t", MAJOR, "", 3, settings=COPY)
    data, whole, joined = LocalDataFiles(), tmp_path / "whole", tmp_path / "joined"
    run_unit(unit, data, str(whole))
    found = plan_bucket(unit, data)
    made = run_part(found.part([2]), data, str(tmp_path / "part"))
    join_parts(found, (made,), data, str(joined))
    assert joined.read_bytes() == whole.read_bytes()
    assert filtered_columns(joined) == [[8, 9]] * 3
