"""Compaction of files that Java's own ORC writer made: what neither pyorc nor the tables of Hive contain."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, Compacted, bucket_files, compact_directory
from judges import java_files
from judges import orc_tail as o
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.tables import deletes, delta_name
from judges.values import from_json

from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.checks import java_problems, statistics_problems
from conformance.java_tables import (
    BASE_ROWS,
    BLOOM,
    COLUMNS,
    FOURTH_ROWS,
    STRIPE_ROWS,
    VISIBLE_ROWS,
    Visible,
    Written,
    one_delta_each,
    rows,
    visible,
    write_table,
)

pytestmark = pytest.mark.java

COPY = RewriteSettings(copy_bytes=0)
RECODE = RewriteSettings(copy_bytes=1 << 40)

UNSORTED = Options(
    compression="lz4", dictionary_impl="hash", dictionary=1.0, timezone="Asia/Kolkata", stripe_rows=STRIPE_ROWS
)
LAYOUTS: dict[str, tuple[Options, ...]] = {
    "zlib": (Options(stripe_rows=STRIPE_ROWS),),
    "bloom": (Options(stripe_rows=STRIPE_ROWS, bloom=BLOOM), Options(bloom=BLOOM, bloom_version="original")),
    "no-index-below-zlib": (Options(stride=0, compression="none"), Options()),
    "0.11": (Options(version="0.11", compression="snappy", block=4096),),
    "unsorted-dictionaries": (UNSORTED,),
    "originals": (Options(compression="zstd", stride=10_000, decimal64=True), Options(compression="zstd", block=1024)),
    "proleptic": (Options(compression="none", proleptic=True, dictionary=0.0, stripe_rows=STRIPE_ROWS),),
}

MakeTable = Callable[[str], tuple[Written, Visible]]


@pytest.fixture(scope="module")
def made(java: JavaOrc, tmp_path_factory: pytest.TempPathFactory) -> MakeTable:
    """The table of a layout, not to be changed, and what Java sees in it; made once."""
    found: dict[str, tuple[Written, Visible]] = {}

    def make(layout: str) -> tuple[Written, Visible]:
        if layout not in found:
            location = tmp_path_factory.mktemp(layout) / "table"
            table = write_table(java, location, *LAYOUTS[layout], original=layout == "originals")
            found[layout] = table, visible(java, table.before, table.aborted, location=location)
        return found[layout]

    return make


@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_reads_what_java_wrote(layout: str, made: MakeTable, java: JavaOrc) -> None:
    """The premise of all below: the tables hold the rows they should."""
    table, seen = made(layout)
    if layout == "originals":
        assert java.rows(table.location / "000000_0") == rows(0, BASE_ROWS)[:STRIPE_ROWS]
    else:
        found = java.rows(table.location / "base_0000001" / "bucket_00000")
        assert [event[5] for event in found] == rows(0, BASE_ROWS)
    assert len(seen) == VISIBLE_ROWS


def test_the_tables_are_what_they_are_called(made: MakeTable) -> None:
    def base(layout: str) -> o.OrcFile:
        return o.read_orc(made(layout)[0].location / "base_0000001" / "bucket_00000")

    text = 7 + COLUMNS.split("uniontype")[0].split(",").index("s:string")
    unsorted = base("unsorted-dictionaries")
    stream = unsorted.stripes[0].stream(text, o.DICTIONARY_DATA)
    assert stream is not None
    words = re.findall(rb"word \d+", unsorted.stream_bytes(stream))
    assert len(words) == 40
    assert words != sorted(words)
    assert unsorted.stripes[0].timezone == "Asia/Kolkata"
    assert o.packed(base("0.11").postscript[4]) == [0, 11]
    assert [stripe.rows for stripe in base("zlib").stripes] == [STRIPE_ROWS, BASE_ROWS - STRIPE_ROWS]
    assert base("no-index-below-zlib").stride == 0
    assert base("bloom").stripes[0].stream(text, o.BLOOM_UTF8)
    assert base("proleptic").footer[11] == [2]


@pytest.mark.pairs
@pytest.mark.parametrize("settings", [pytest.param(COPY, id="copy"), pytest.param(RECODE, id="recode")])
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", [MAJOR, MINOR], ids=["major", "minor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_sees_the_same_rows(
    layout: str,
    kind: CompactionType,
    generation: int,
    settings: RewriteSettings,
    made: MakeTable,
    java: JavaOrc,
    tmp_path: Path,
) -> None:
    table, before = made(layout)
    location = tmp_path / "table"
    shutil.copytree(table.location, location)
    compacted = compact_directory(
        location, kind, table.write_ids, generation, 77 if generation == 4 else None, settings=settings
    )
    outputs = [location / name for name in compacted.directories]
    if kind is MAJOR:
        assert visible(java, outputs) == before
    else:
        below = [location / "base_0000001"] if layout != "originals" else []
        assert visible(java, [*below, *outputs], location=location) == before
    # judging takes long: once for what is copied, once for what is rewritten
    copied = any(result.stripes_copied for result in compacted.results)
    if (
        generation == (4 if settings is COPY else 3)
        and copied == (settings is COPY)
        and (kind is MAJOR or layout == "zlib")
    ):
        judge(compacted, location, generation, java)


def judge(compacted: Compacted, location: Path, generation: int, java: JavaOrc) -> None:
    """Exact statistics, seeks and search arguments of every file."""
    for result in compacted.results:
        [path] = [p for p in bucket_files(location, [result.directory]) if p.name == f"bucket_{result.bucket:05d}"]
        assert statistics_problems(path, generation, copied=result.stripes_copied > 0) == []
        assert java_problems(java, path, max_groups=1) == []  # the first row group and the last


@pytest.mark.parametrize("layout", ["zlib", "unsorted-dictionaries", "proleptic"])
def test_whole_stripes_are_copied(layout: str, made: MakeTable, tmp_path: Path) -> None:
    location = tmp_path / "table"
    table, _ = made(layout)
    shutil.copytree(table.location, location)
    compacted = compact_directory(location, MAJOR, table.write_ids, 4, settings=COPY)
    assert [action.rows for action in compacted.results[0].actions if action.action == "copy"] == [
        STRIPE_ROWS,
        FOURTH_ROWS,
    ]


# --- run lengths of version 1 -----------------------------------------------------------------------------------------

RUN_COLUMNS = "struct<i:int,s:smallint,b:bigint,d:date,t:string,l:array<tinyint>,n:decimal(20,6),ts:timestamp>"


def run_lengths_1() -> list[int]:
    """Runs of 3 to 130 values with steps of -128 to 127, and between them 1 to 128 values that are no run."""
    rng = random.Random(1)
    found: list[int] = []
    for number in range(128):
        step = number * 2 - 128 + number % 2
        start = rng.randrange(-(2**20), 2**20)
        found += [start + step * k for k in range(3 + number)]
        found += [rng.randrange(-(2**31), 2**31) for _ in range(1 + (number * 37) % 128)]
    return found


def run_row(value: int) -> tuple[Any, ...]:
    small = value % 2**16 - 2**15
    return (
        value,
        small,
        value * 2**32 + value % 2**32,
        f"d:{value % 100_000}",
        "s:" + "x" * (value % 50),
        tuple([value % 100] * (value % 4)),
        f"n:{value}.{value % 7 + 1}" if value % 3 and value > 0 else f"n:{value}",
        f"t:{value}:{value % 1000 * 10 ** (value % 7)}",
    )


@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_run_lengths_of_version_1(compression: str, java: JavaOrc, tmp_path: Path) -> None:
    options = Options(version="0.11", compression=compression, stride=10_000)
    batch = [run_row(value) for value in run_lengths_1()]
    location = tmp_path / "table"
    deltas = one_delta_each(java, location, RUN_COLUMNS, [(batch, options), (batch[::-1][:3000], options)])
    if compression == "none":
        orc = o.read_orc(deltas[0] / "bucket_00000")
        stream = orc.stripes[0].stream(7, o.DATA)
        assert stream is not None
        assert len(controls_1(orc.stream_bytes(stream))) >= 250  # of 256: some literals melt into the run behind them
    before = visible(java, deltas)
    assert len(before) == len(batch) + 3000 - 2
    compacted = compact_directory(location, MAJOR, generation=4, settings=COPY)
    assert compacted.results[0].stripes_copied == 0
    assert visible(java, [location / name for name in compacted.directories]) == before


def controls_1(data: bytes) -> set[int]:
    """The control bytes of an integer stream of version 1."""
    found, at = set(), 0
    while at < len(data):
        control = data[at]
        found.add(control)
        at += 1 if control >= 128 else 2
        for _ in range(256 - control if control >= 128 else 1):
            _, at = o.varint(data, at)
    return found


# --- bloom filters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "generation"), [("utf8", 3), ("original", 4)])
def test_copied_stripes_keep_their_bloom_filters(version: str, generation: int, java: JavaOrc, tmp_path: Path) -> None:
    options = Options(bloom=BLOOM, bloom_version=version)
    location = tmp_path / "table"
    one_delta_each(java, location, COLUMNS, [(rows(0, 1100), options), (rows(1100, 60), options)], delete=False)
    gone = [(2, bucket_property(0, 0), 5)]
    java_files.write_dir(java, location, delta_name(3, 3, delete=True), COLUMNS, deletes(3, gone), options)
    compacted = compact_directory(location, MAJOR, "", generation, settings=COPY)
    [path] = bucket_files(location, compacted.directories)
    copied, rewritten = o.read_orc(path).stripes
    blooms = [s.column for s in copied.streams if s.kind in (o.BLOOM, o.BLOOM_UTF8) and s.length]
    assert len(blooms) >= 9
    assert {s.column for s in rewritten.streams if s.kind == o.BLOOM_UTF8} == set(blooms)
    assert not [s for s in rewritten.streams if s.kind == o.BLOOM]
    assert java_problems(java, path, max_groups=1) == []
    # a text between the bounds that is not there: only the filters can tell
    assert java.rows_left(path, "s", "word 7x") == 0
    assert java.rows_left(path, "s", "word 7") > 59


# --- time zones -------------------------------------------------------------------------------------------------------

ZONES = ("America/Los_Angeles", "Asia/Kolkata", "UTC", "GMT")


def zone_rows(first: int, kind: str) -> list[Any]:
    """Wall clocks through all seasons of 1890 to 2100, also before 1970 with parts of a second."""
    stamps = [f"t:{-2_524_000_000 + k * 16_070_401}:{k % 2 * 250_000_000}" for k in range(first, first + 400)]
    if kind.startswith("array"):
        return [((stamp, None),) if k % 3 else (None,) for k, stamp in enumerate(stamps)]
    return [(stamp,) for stamp in stamps]


@pytest.mark.parametrize("settings", [pytest.param(COPY, id="copy"), pytest.param(RECODE, id="recode")])
@pytest.mark.parametrize(
    ("kind", "zones"),
    [
        ("timestamp", ["America/Los_Angeles", "Asia/Kolkata", "UTC"]),
        ("array<timestamp>", ["America/Los_Angeles", "Asia/Kolkata", "UTC"]),
        ("timestamp with local time zone", ["UTC"]),
    ],
)
def test_timestamps_of_different_zones_are_never_joined(
    kind: str, zones: list[str], settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    columns = f"struct<x:{kind}>"
    location = tmp_path / "table"
    batches = [(zone_rows(n * 30, kind), Options(timezone=zone)) for n, zone in enumerate(ZONES)]
    deltas = one_delta_each(java, location, columns, batches)
    readers = ("", *ZONES)
    before = [visible(java, deltas, zone=zone) for zone in readers]
    assert (before[1] != before[2]) == (len(zones) > 1)
    compacted = compact_directory(location, MAJOR, generation=4, settings=settings)
    [path] = bucket_files(location, compacted.directories)
    assert [stripe.timezone for stripe in o.read_orc(path).stripes] == zones
    for zone, seen in zip(readers, before, strict=True):
        assert visible(java, [path.parent], zone=zone) == seen
    assert statistics_problems(path, 4) == []
    assert java_problems(java, path) == []


# --- calendars --------------------------------------------------------------------------------------------------------

SWITCH = -141_427  # 1582-10-15


@pytest.mark.parametrize("proleptic", [False, True], ids=["mostly-hybrid", "mostly-proleptic"])
@pytest.mark.parametrize("ancient", ["no", "in most files", "in the other file"])
@pytest.mark.parametrize(
    ("kind", "form", "column"),
    [
        ("date", "d:{}", 7),
        ("timestamp", "t:{}:0", 7),
        ("array<date>", "d:{}", 8),
        ("struct<y:timestamp with local time zone>", "t:{}:0", 8),
    ],
)
def test_calendars_meet_only_in_modern_times(
    kind: str, form: str, column: int, ancient: str, proleptic: bool, java: JavaOrc, tmp_path: Path
) -> None:
    """The result keeps the calendar of most files; the dates of another one may join where both agree."""
    location = tmp_path / "table"
    most, other = Options(proleptic=proleptic), Options(proleptic=not proleptic)
    batches = [
        (calendar_rows(kind, form, ancient == "in most files"), most),
        (calendar_rows(kind, form, ancient == "in the other file"), other),
        (calendar_rows(kind, form, False), most),
    ]
    deltas = one_delta_each(java, location, f"struct<x:{kind}>", batches)
    before = visible(java, deltas)
    if ancient != "in the other file":
        compacted = compact_directory(location, MAJOR, generation=4, settings=RECODE)
        [path] = bucket_files(location, compacted.directories)
        assert visible(java, [path.parent]) == before
        assert (o.read_orc(path).footer[11] == [2], len(o.read_orc(path).stripes)) == (proleptic, 1)
        return
    with pytest.raises(RefusedError, match=rf"column {column} may hold dates before 1582-10-15 in another") as caught:
        compact_directory(location, MAJOR, generation=4, settings=RECODE)
    assert str(deltas[1] / "bucket_00000") in str(caught.value)
    assert sorted(p.name for p in location.iterdir()) == sorted(d.name for d in deltas)


def calendar_rows(kind: str, form: str, ancient: bool) -> list[Any]:
    scale = 86_400 if form[0] == "t" else 1
    values: list[Any] = [form.format(day * scale) for day in (SWITCH, 0, 19_000, -50_000, SWITCH - ancient)]
    if kind not in ("date", "timestamp"):
        values = [(value,) for value in values]
    return [(value,) for value in [*values, None]]


@pytest.mark.parametrize("settings", [pytest.param(COPY, id="copy"), pytest.param(RECODE, id="recode")])
def test_ancient_dates_of_one_calendar_stay(settings: RewriteSettings, java: JavaOrc, tmp_path: Path) -> None:
    location = tmp_path / "table"
    batch = [(f"d:{SWITCH - k}", f"t:{(SWITCH - k) * 86_400}:7") for k in range(20)]
    columns = "struct<day:date,ts:timestamp>"
    deltas = one_delta_each(java, location, columns, [(batch, Options(proleptic=True))] * 2, delete=False)
    before = visible(java, deltas)
    compacted = compact_directory(location, MAJOR, generation=4, settings=settings)
    [path] = bucket_files(location, compacted.directories)
    assert o.read_orc(path).footer[11] == [2]
    assert visible(java, [path.parent]) == before


# --- unions, odd text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delete", [False, True], ids=["joined", "filtered"])
def test_nulls_inside_unions_and_text_that_is_none(delete: bool, java: JavaOrc, tmp_path: Path) -> None:
    """A union of null is not a null union. Bytes that are no UTF-8 pass as they are."""
    columns = "struct<u:uniontype<int,string,array<uniontype<int,string>>>,bad:string,c:char(3)>"
    unions = [("u", 0, None), ("u", 0, 5), None, ("u", 1, None), ("u", 1, "x:ff00"), ("u", 2, None), ("u", 2, ())]
    unions.append(("u", 2, (("u", 0, None), None, ("u", 1, "s:y"))))
    bad = ["x:fffe", "x:80", "s:", "s:ok", None]
    batch = [(unions[i % 8], bad[i % 5], "s:é") for i in range(1200)]
    location = tmp_path / "table"
    deltas = one_delta_each(java, location, columns, [(batch, Options()), (batch[3:], Options())], delete=delete)
    before = visible(java, deltas)
    assert [event[5] for event in java.rows(deltas[0] / "bucket_00000")] == batch
    compacted = compact_directory(location, MAJOR, generation=3, settings=RECODE)
    [path] = bucket_files(location, compacted.directories)
    assert visible(java, [path.parent]) == before
    assert java.seek_check(path).problems == ()
    assert [p.lost for p in java.sarg_check_ids(path)] == [()] * 5
    orc = o.read_orc(path)
    counts = [(o.one(s, 1), bool(o.one(s, 10))) for s in map(o.parse, orc.footer[7])]
    kept = [from_json(text)[0] for *_, text in before]
    assert counts[7] == (sum(union is not None for union in kept), True)
    for tag in range(3):
        mine = [union[2] for union in kept if union is not None and union[1] == tag]
        assert counts[(8, 9, 10)[tag]] == (sum(value is not None for value in mine), True)
