"""Values of every type of ORC in a snapshot: what Hive's own readers of both generations read, cut to microseconds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyorc
import pytest
from acid_inputs import without_stride
from judges import java_files, random_orc, tables
from judges.hive_reader import JudgeError, hive_reader
from judges.java_orc import JavaOrc
from long_runs import amount
from snapshots import arrow_type, canonical, schema_of, splits_of

from acidlib.errors import RefusedError
from acidlib.scan.read import read_table
from acidlib.scan.splits import Scan
from acidlib.stores.stores import Stores
from conformance.test_conversions import HIVE_CHANGES, REFUSED, drawn, schema
from conformance.test_snapshot_plain import in_microseconds

pytestmark = [pytest.mark.java, pytest.mark.live]

GENERATIONS = pytest.mark.parametrize("generation", [3, 4])


def sorted_maps(value: Any) -> Any:
    """Entries of a map have no order: Hive's batches have one of their own."""
    return (
        tuple(sorted(map(sorted_maps, value), key=repr))
        if isinstance(value, tuple) and all(isinstance(item, tuple) and len(item) == 2 for item in value)
        else tuple(map(sorted_maps, value))
        if isinstance(value, tuple)
        else value
    )


def ours(location: Path, text: str, generation: int) -> list[tuple[Any, ...]]:
    kind = pyorc.TypeDescription.from_string(text)
    scan = Scan(
        table="t",
        row_type=text,
        columns=tuple(kind.fields),
        schema=schema_of([(name, arrow_type(field)) for name, field in kind.fields.items()]),
    )
    read = read_table(scan, splits_of(scan, location, generation=generation), Stores()).to_pylist(maps_as_pydicts=None)
    return [tuple(canonical(row[name], field) for name, field in kind.fields.items()) for row in read]


def differences(location: Path, text: str, generation: int) -> list[Any]:
    """The rows in which a snapshot differs from either of Hive's readers."""
    types = {name: str(kind) for name, kind in pyorc.TypeDescription.from_string(text).fields.items()}
    own = [sorted_maps(row) for row in ours(location, text, generation)]
    wrong = []
    for vectorized in (False, True):
        hive = [row[3] for row in hive_reader(generation).rows(location, types, vectorized=vectorized)]
        pairs = zip(hive, own, strict=True)
        wrong += [pair for pair in pairs if sorted_maps(in_microseconds(pair[0])) != pair[1]]
    return wrong


def of_java(java: JavaOrc, location: Path, text: str, rows: Sequence[Any], **options: Any) -> None:
    name, events = tables.delta_name(1, 1), tables.inserts(1, rows)
    java_files.write_dir(java, location, name, text, events, java_files.Options(**options))


@GENERATIONS
@pytest.mark.parametrize("proleptic", [pytest.param(True, id="proleptic"), pytest.param(False, id="hybrid")])
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Shanghai", "Australia/Sydney", "GMT+05:30"])
def test_times_of_writers_in_any_zone(
    zone: str, proleptic: bool, generation: int, java: JavaOrc, tmp_path: Path
) -> None:
    rng = random.Random(zone)
    seconds = [
        *(-62_135_300_000, -14_830_974_000, -12_219_292_801, -12_219_292_800, -9_223_372_037, -2_208_988_801),
        *(-2_208_900_000, -1, 0, 1, 1_420_070_400, 9_223_372_037, 253_402_200_000),
        *(rng.randint(-62_135_300_000, 253_402_200_000) for _ in range(60)),
        *(rng.randint(-3_000_000_000, 2_000_000_000) for _ in range(60)),
    ]
    rows = [
        (f"t:{second}:{nanos}", f"d:{min(max(second // 86_400, -719_162), 2_932_896)}")
        for second in seconds
        for nanos in (0, 1, 999_999, 1_000_000, 999_999_999)
    ]
    of_java(java, tmp_path, "struct<t:timestamp,d:date>", rows, timezone=zone, proleptic=proleptic)
    assert differences(tmp_path, "struct<t:timestamp,d:date>", generation) == []


@GENERATIONS
def test_random_types(generation: int, java: JavaOrc, tmp_path: Path) -> None:
    compared = 0
    for seed in range(amount(15, long=200)):
        rng = random.Random(seed * 10 + generation)
        text = random_orc.columns(rng, unions=False)
        rows = random_orc.rows(rng, text, rng.choice((1, 50, 1500)))
        zone = rng.choice(("UTC", "UTC", "Asia/Kolkata"))
        stripe_rows, dictionary = rng.choice((1 << 40, 400)), rng.choice((0.0, 0.8))
        of_java(java, tmp_path / str(seed), text, rows, timezone=zone, stripe_rows=stripe_rows, dictionary=dictionary)
        try:
            assert differences(tmp_path / str(seed), text, generation) == [], (seed, text)
            compared += 1
        except JudgeError:
            assert "local time zone" in text  # Hive's ACID readers have no such type
    assert compared > 5


@GENERATIONS
def test_odd_values(generation: int, java: JavaOrc, tmp_path: Path) -> None:
    maps = [
        ((("s:a", 1), ("s:z", 2)),),
        ((("s:a", 1), ("s:a", 2)),),
        (None,),
        ((("s:b", 1), ("s:a", 2), ("s:b", None)),),
    ]
    of_java(java, tmp_path / "maps", "struct<m:map<string,int>>", maps)
    assert differences(tmp_path / "maps", "struct<m:map<string,int>>", generation) == []
    of_java(java, tmp_path / "null", "struct<m:map<string,int>>", [((("s:a", 1), (None, 2)),)])
    with pytest.raises(RefusedError, match="a map has a null as key, which Arrow and Spark cannot hold"):
        ours(tmp_path / "null", "struct<m:map<string,int>>", generation)
    of_java(java, tmp_path / "empty", "struct<i:int,s:struct<>>", [(1, ()), (2, None)])
    assert differences(tmp_path / "empty", "struct<i:int,s:struct<>>", generation) == []


@GENERATIONS
def test_changed_types(generation: int, tmp_path: Path) -> None:
    rng = random.Random(generation)
    changes = [(old, new) for old, types in HIVE_CHANGES.items() for new in types.split()]
    old, new = ([pair[side] for pair in changes] for side in (0, 1))
    rows = [tuple(drawn(text, rng, generation) for text in old) for _ in range(1000)]
    tables.write_dir(tmp_path, tables.delta_name(1, 1), schema(old), tables.inserts(1, rows))
    assert differences(tmp_path, schema(new), generation) == []


@pytest.mark.parametrize("case", REFUSED)
def test_other_changes_are_refused_only_where_the_column_is_read(case: str, tmp_path: Path) -> None:
    old, new = REFUSED[case]
    tables.write_dir(tmp_path, tables.delta_name(1, 1), f"struct<id:int,x:{old}>", tables.inserts(1, [(5, None)]))
    with pytest.raises(RefusedError, match=r"Cannot read .*/bucket_00000: its column row\.x is .* and the table's is"):
        ours(tmp_path, f"struct<id:int,x:{new}>", 3)
    kinds: Mapping[str, Any] = pyorc.TypeDescription.from_string("struct<id:int>").fields
    scan = Scan(
        table="t",
        row_type=f"struct<id:int,x:{new}>",
        columns=("id",),
        schema=schema_of([("id", arrow_type(kinds["id"]))]),
    )
    assert read_table(scan, splits_of(scan, tmp_path), Stores()).to_pylist() == [{"id": 5}]


@pytest.mark.parametrize("has_statistics", [True, False], ids=["statistics", "decoded"])
@pytest.mark.parametrize("generation", [3, 4])
def test_a_deleted_row_is_not_seen_in_a_file_whose_keys_do_not_ascend(
    generation: int, has_statistics: bool, tmp_path: Path
) -> None:
    text, bucket = "struct<a:int>", tables.bucket_property(0, 0)
    unordered = [(0, 1, bucket, row, 1, (row,)) for row in (5, 1, 9, 3)]
    data = tables.orc_bytes(tables.acid_schema(text), unordered, tables.Layout(stride=1000))
    file = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    file.parent.mkdir()
    file.write_bytes(data if has_statistics else without_stride(data))
    # beyond all keys; then one that lies outside of those of the first and the last row
    for write_id, deleted, seen in ((2, 20, [1, 3, 5, 9]), (3, 1, [3, 5, 9])):
        events = tables.deletes(write_id, [(1, bucket, deleted)])
        tables.write_dir(tmp_path, tables.delta_name(write_id, write_id, delete=True), text, events)
        hive = hive_reader(generation).rows(tmp_path, {"a": "int"}, vectorized=True)
        assert sorted(row[3][0] for row in hive) == seen
        if seen == [1, 3, 5, 9]:
            assert sorted(row[0] for row in ours(tmp_path, text, generation)) == seen
        else:
            with pytest.raises(RefusedError, match=r"stripe 0 of \S*/bucket_00000: its keys do not ascend"):
                ours(tmp_path, text, generation)
