"""Columns whose type was changed: what Java reads of the old files as of the new type is what the result holds.

Java's ORC converts while it reads (schema evolution), as Hive does; it judges the files before by the new types, and
the result without any. The files before are of pyorc or of Java's writer. Hive's own readers of both generations, row
by row and in batches, judge the texts of dates and numbers as well, and what becomes of a FLOAT, on which they differ.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyorc
import pytest
from compaction import MAJOR, MINOR, Compacted, bucket_files, compact_directory
from judges import java_files, orc_tail, tables
from judges.hive_reader import hive_reader
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.values import canonical_form
from long_runs import amount

import acidlib
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.orc.proto import Kind
from acidlib.orc.schema import parse_row_type
from conformance.checks import java_problems, statistics_problems

pytestmark = pytest.mark.java

COPY, RECODE = RewriteSettings(copy_bytes=0), RewriteSettings(copy_bytes=1 << 40)
# what a value becomes does not depend on these four; every two values of two of them meet
EVERY_PAIR = [
    pytest.param(3, MAJOR, COPY, "pyorc", id="3-major-copy-pyorc"),
    pytest.param(3, MINOR, RECODE, "java", id="3-minor-recode-java"),
    pytest.param(4, MAJOR, RECODE, "java", id="4-major-recode-java"),
    pytest.param(4, MINOR, COPY, "java", id="4-minor-copy-java"),
    pytest.param(4, MINOR, RECODE, "pyorc", id="4-minor-recode-pyorc"),
]


def single(bits: int) -> float:
    (value,) = struct.unpack(">f", bits.to_bytes(4))
    return float(value)


VALUES: dict[str, Sequence[Any]] = {
    "boolean": (True, False, None),
    "tinyint": (-128, 127, None, 0, -1, 10, 99, -100),
    "smallint": (-32768, 32767, 0, None, 9, -10, 1000),
    "int": (-(2**31), 2**31 - 1, None, 0, 2**24 + 1, -7, 1_000_000_000),
    "bigint": (-(2**63), 2**63 - 1, 0, None, 2**53 + 1, -(10**18), 10**18 - 1),
    "float": (
        # zeros of both signs apart: Java's reader takes a batch of nothing else for one repeated value
        *(single(0x80000000), float("nan"), float("inf"), float("-inf"), None, 0.0),
        *(single(1), single(0x807FFFFF), single(0x7F7FFFFF), 74.72, -1.5),
    ),
    "double": (
        *(-0.0, float("inf"), float("-inf"), None, 0.0, 0.1, 74.72, -1.5e-300, 2.0**53),
        *(1 / 3, 0.001, 9999999.0, 1e7, -12345678.25, 9.99e-4),
    ),
    "date": (-719_164, None, -141_428, -141_427, -1, 0, 18_000, 2_932_896),
    "decimal(10,2)": ("0", "99999999.99", "-99999999.99", None, "0.01", "-0.1", "100", "1.5"),
    "decimal(18,18)": ("0." + "9" * 18, "-0." + "9" * 18, None, "0", "0." + "0" * 17 + "1"),
    "decimal(30,10)": ("9" * 20 + "." + "9" * 10, "-" + "9" * 20 + "." + "9" * 10, "0", None, "1.5", "12345678901"),
    "char(5)": ("", "a", None, "abcde", "é é", " b", "ééééé"),
    "varchar(4)": ("", "a ", None, "abcd", "é", " "),
    "array<int>": ([], [1, None, -(2**31)], None, [7] * 9, [None]),
    "map<tinyint,struct<x:char(3),y:boolean>>": ({}, {-128: ("a", True), 127: None}, None, {0: (None, False)}),
    "uniontype<boolean,smallint>": (True, -32768, False, 32767),
    "struct<x:int,y:struct<z:decimal(5,1)>>": ((5, ("1.5",)), (None, None), None, (-6, (None,))),
}
CHANGES = {
    "boolean": "tinyint smallint int bigint float double decimal(1,0) decimal(20,3) string varchar(5) char(9)",
    "tinyint": "float double decimal(3,0) decimal(38,35) string varchar(4) char(4)",
    "smallint": "float double decimal(5,0) decimal(19,2) string varchar(6) char(200)",
    "int": "double decimal(10,0) decimal(18,8) decimal(38,28) string varchar(11) char(12)",
    "bigint": "decimal(19,0) decimal(38,19) string varchar(20) char(20)",
    "double": "string varchar(24) char(30)",
    "date": "string varchar(10) char(12)",
    "decimal(10,2)": "decimal(11,3) decimal(18,10) decimal(38,30) string varchar(12) char(20)",
    "decimal(18,18)": "decimal(19,19) decimal(38,38) string",
    "decimal(30,10)": "decimal(31,11) decimal(38,18) string",
    "char(5)": "string varchar(5) varchar(20) char(6) char(255)",
    "varchar(4)": "string varchar(4)",
    "array<int>": "array<string> array<decimal(12,2)>",
    "map<tinyint,struct<x:char(3),y:boolean>>": "map<string,struct<x:string,y:decimal(3,1)>>",
    "uniontype<boolean,smallint>": "uniontype<int,double>",
    "struct<x:int,y:struct<z:decimal(5,1)>>": "struct<x:char(11),y:struct<z:decimal(8,2)>>",
}
HIVE4_CHANGES = {**CHANGES, "float": "double"}


def columns(generation: int) -> list[tuple[str, str]]:
    """Old and new type of each column."""
    changes = CHANGES if generation == 3 else HIVE4_CHANGES
    return [(old, new) for old, types in changes.items() for new in types.split()]


def schema(types: Sequence[str]) -> str:
    return f"struct<{','.join(f'c{i}:{text}' for i, text in enumerate(types))}>"


def rows(old: Sequence[str], count: int, shift: int = 0) -> list[tuple[Any, ...]]:
    """Every value of every type, again and again, each column in a rhythm of its own."""
    return [tuple(VALUES[t][(i + shift) % len(VALUES[t])] for t in old) for i in range(count)]


NEW_NESTED: dict[str, Any] = {
    "array<string>": ["z"],
    "array<double>": [0.5],
    "array<decimal(12,2)>": ["0.01"],
    "map<string,struct<x:string,y:decimal(3,1)>>": {"k": ("new", "-99.9")},
    "uniontype<int,double>": 0.5,
    "struct<x:char(11),y:struct<z:decimal(8,2)>>": ("n", ("999999.99",)),
}


def new_value(text: str) -> Any:
    if text in NEW_NESTED:
        return NEW_NESTED[text]
    if text.startswith("decimal"):
        return "0"
    return 2.5 if text in ("float", "double") else 7 if text.endswith("int") else "new"


def new_rows(new: Sequence[str], count: int) -> list[tuple[Any, ...]]:
    """Rows of the new types, in a few of which all is null but unions: pyorc cannot write null ones."""
    row = tuple(map(new_value, new))
    null = tuple(value if text.startswith("union") else None for value, text in zip(row, new, strict=True))
    return [null if i % 9 == 4 else row for i in range(count)]


def write(java: JavaOrc | None, location: Path, number: int, text: str, found: Any, *, delete: bool = False) -> None:
    name = tables.delta_name(number, number, delete=delete)
    events = tables.deletes(number, found) if delete else tables.inserts(number, found)
    if java is None:
        layout = tables.Layout(stripe_size=1, stride=7, batch=40, block=1024, dictionary=number % 2 * 0.8)
        tables.write_dir(location, name, text, events, layout)
        return
    form = canonical_form(pyorc.TypeDescription.from_string(text))
    spelt = [(*event[:5], form(event[5])) for event in events]
    options = java_files.Options(stripe_rows=1024, dictionary=number % 2 * 0.8, decimal64=number % 2 == 0)
    java_files.write_dir(java, location, name, text, spelt, options)


def make(java: JavaOrc | None, location: Path, types: Sequence[tuple[str, str]], count: int) -> str:
    """Four transactions of the old types, rows of the second deleted, and one of the new types; the new row's type."""
    old, new = ([pair[side] for pair in types] for side in (0, 1))
    for number in range(1, 5):
        write(java, location, number, schema(old), rows(old, count, number))
    write(java, location, 5, schema(new), new_rows(new, count))
    gone = [(2, bucket_property(0, 0), i) for i in range(0, count, 3)]
    write(java, location, 6, schema(new), gone, delete=True)
    return schema(new)


def visible(java: JavaOrc, paths: Sequence[Path], text: str | None) -> dict[tuple[int, ...], str]:
    """The rows of some files by their keys, as Java reads them under these columns, or as they are."""
    found: dict[tuple[int, ...], str] = {}
    gone = set()
    for path in paths:
        lines = java.dump(path) if text is None else java.dump_as(path, tables.acid_schema(text))
        for line in lines:
            *numbers, values = line[1:-1].split(",", 5)
            operation, *key = map(int, numbers[:4])
            if operation == 2:
                gone.add(tuple(key))
            else:
                found[tuple(key)] = values
    return {key: values for key, values in found.items() if key not in gone}


def data_files(location: Path) -> list[Path]:
    return sorted(location.glob("*/bucket_*"))


def reasons(made: Compacted) -> dict[bool, set[str]]:
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for result in made.results:
        for action in result.actions:
            found[action.action == "copy"].add(action.reason)
    return found


def compacted(
    java: JavaOrc, location: Path, writer: str, kind: CompactionType, generation: int, settings: RewriteSettings
) -> tuple[dict[tuple[int, ...], str], Compacted, list[Path]]:
    """The rows as Java read them before under the new types, what was done, and the result's files of rows."""
    text = make(java if writer == "java" else None, location, columns(generation), 1100 if writer == "java" else 130)
    before = visible(java, data_files(location), text)
    made = compact_directory(location, kind, "", generation, settings=settings, row_type=text)
    files = bucket_files(location, made.directories)
    assert visible(java, files, None) == before
    return before, made, [path for path in files if not path.parent.name.startswith("delete_")]


@pytest.mark.parametrize(("generation", "kind", "settings", "writer"), EVERY_PAIR)
def test_the_result_holds_what_java_read_of_the_old_files(
    generation: int, kind: CompactionType, settings: RewriteSettings, writer: str, java: JavaOrc, tmp_path: Path
) -> None:
    before, made, [path] = compacted(java, tmp_path / "t", writer, kind, generation, settings)
    assert len(set(before.values())) > 100
    assert java.differences(path) == []
    assert statistics_problems(path, generation, copied=settings is COPY) == []
    # stripes that have the new types already are copied, of the others none is
    copied, rewritten = reasons(made)[True], reasons(made)[False]
    assert copied == ({"unchanged"} if settings is COPY else set())
    said = "values to convert: c0 from boolean to byte, c1 from boolean to short, c2 from boolean to int, "
    assert any(said in text for text in rewritten)
    dropped = any("rows to leave out" in text for text in rewritten)
    assert dropped == (kind is MAJOR)


@pytest.mark.slow
@pytest.mark.parametrize(("generation", "writer", "settings"), [(3, "java", RECODE), (4, "pyorc", COPY)])
def test_java_finds_rows_by_index_and_statistics(
    generation: int, writer: str, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    _, _, [path] = compacted(java, tmp_path / "t", writer, MAJOR, generation, settings)
    assert java_problems(java, path, max_groups=1) == []


@pytest.mark.parametrize("kind", [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")])
def test_without_a_metastore_the_newest_file_tells_the_types(
    kind: CompactionType, java: JavaOrc, tmp_path: Path
) -> None:
    text = make(None, tmp_path, columns(4), 130)
    before = visible(java, data_files(tmp_path), text)
    made = compact_directory(tmp_path, kind, "", 4, settings=COPY)
    assert visible(java, bucket_files(tmp_path, made.directories), None) == before


def test_original_files_are_converted_too(java: JavaOrc, tmp_path: Path) -> None:
    old, new = ([pair[side] for pair in columns(4)] for side in (0, 1))
    (tmp_path / "000000_0").write_bytes(tables.orc_bytes(schema(old), rows(old, 90)))
    write(None, tmp_path, 10_000_001, schema(new), new_rows(new, 9))
    converted = java.dump_as(tmp_path / "000000_0", schema(new))
    made = compact_directory(tmp_path, MAJOR, "", 4, settings=COPY)
    [path] = bucket_files(tmp_path, made.directories)
    found = visible(java, [path], None)
    assert [found[0, bucket_property(0, 0), i] for i in range(90)] == converted
    assert statistics_problems(path, 4, copied=True) == []


def test_bloom_filters_are_of_the_new_values(java: JavaOrc, tmp_path: Path) -> None:
    options = java_files.Options(bloom="a,n", stride=1000)
    for number, text, of in ((1, "struct<a:int,n:int>", int), (2, "struct<a:string,n:decimal(12,2)>", str)):
        found = [(i, i) if of is int else (f"s:{i}", f"n:{i}") for i in range(number * 10_000, number * 10_000 + 3000)]
        name = tables.delta_name(number, number)
        java_files.write_dir(java, tmp_path, name, text, tables.inserts(number, found), options)
    made = compact_directory(tmp_path, MINOR, "", 3, settings=RECODE)
    [path] = bucket_files(tmp_path, made.directories)
    for column in ("a", "n"):
        assert java.look_up(path, column, "12345")[1] == 1
        # between the bounds of its row group, and in no filter
        assert java.look_up(path, column, "12345.5" if column == "n" else "123456")[0] < 3000
        assert java.look_up(path, column, "20001")[1] == 1
    assert statistics_problems(path, 3) == []


# --- what Hive's own readers read -------------------------------------------------------------------------------------

HIVE_CHANGES = {
    "boolean": "string decimal(1,0)",
    "bigint": "string decimal(38,19)",
    "float": "double string varchar(24) char(30)",
    "double": "string varchar(24) char(30)",
    "date": "string varchar(10) char(12)",
    "decimal(10,2)": "decimal(14,4) string varchar(12) char(20)",
    "decimal(38,10)": "string",
    "char(5)": "string char(7)",
    "array<float>": "array<string> array<double>",
}


def drawn(text: str, rng: random.Random, generation: int) -> Any:
    """Return a value of a type, such as tables hold and where texts change their form; now and then none."""
    if rng.random() < 0.05:
        return None
    if text == "array<float>":
        return [drawn("float", rng, generation) for _ in range(rng.randrange(3))]
    if text in ("float", "double"):
        real = rng.choice(
            [
                rng.randrange(-(10**7), 10**7) / 100,
                rng.random() * 10 ** rng.randrange(-6, 10),
                float(rng.randrange(1 << 24)),
                rng.choice([0.0, -0.0, float("inf"), float("-inf"), 1e-3, 1e7, 9999999.0, 2.0**-10]),
                # whole numbers of more bits than the type: by Java 8 for Hive 3, by any Java for Hive 4
                float(rng.randrange(1 << 60)) if generation == 3 else 2.0**53,
            ]
        )
        return single(struct.unpack(">I", struct.pack(">f", real))[0]) if text == "float" else real
    if text == "date":
        return rng.choice([rng.randrange(-719_164, 2_932_897), rng.randrange(-20_000, 30_000)])
    if text.startswith("decimal"):
        precision, scale = map(int, text[8:-1].split(","))
        number = f"{rng.randrange(10 ** rng.randrange(1, precision + 1)):0{scale + 1}d}"
        return f"{rng.choice(('', '-'))}{number[:-scale]}.{number[-scale:]}"
    return rng.choice(VALUES[text])


@pytest.mark.live
@pytest.mark.parametrize("zone", amount(["UTC"], long=["UTC", "America/Los_Angeles"]))
@pytest.mark.parametrize("generation", [3, 4])
def test_hive_reads_the_same_before_and_after(generation: int, zone: str, tmp_path: Path) -> None:
    rng = random.Random(generation)
    changes = [(old, new) for old, types in HIVE_CHANGES.items() for new in types.split()]
    old, new = ([pair[side] for pair in changes] for side in (0, 1))
    for number in (1, 2):
        found = [tuple(drawn(text, rng, generation) for text in old) for _ in range(1500)]
        layout = tables.Layout(stripe_size=1, batch=500, dictionary=0.8)
        tables.write_dir(
            tmp_path, tables.delta_name(number, number), schema(old), tables.inserts(number, found), layout
        )
    tables.write_dir(tmp_path, tables.delta_name(3, 3), schema(new), tables.inserts(3, new_rows(new, 1)))
    gone = [(1, bucket_property(0, 0), i) for i in range(0, 1500, 7)]
    tables.write_dir(tmp_path, tables.delta_name(4, 4, delete=True), schema(new), tables.deletes(4, gone))
    types = {f"c{i}": text for i, text in enumerate(new)}
    hive = hive_reader(generation, zone)
    before = [hive.rows(tmp_path, types, vectorized=vectorized) for vectorized in (False, True)]
    assert before[0] == before[1]
    assert len(before[0]) == 3001 - len(gone)
    made = compact_directory(tmp_path, MAJOR, generation=generation, settings=COPY, row_type=schema(new))
    for path in tmp_path.glob("del*"):
        shutil.rmtree(path)
    assert [hive.rows(tmp_path, types, vectorized=vectorized) for vectorized in (False, True)] == before
    [path] = bucket_files(tmp_path, made.directories)
    assert statistics_problems(path, generation, copied=True) == []


def without_precision(data: bytes) -> bytes:
    """A file as Hive 0.11 and 0.12 wrote it: nothing says how many digits its decimals have."""
    orc = orc_tail.read_orc(data)
    types = [orc_tail.parse(raw) for raw in orc.footer[4]]
    decimals = [orc_tail.one(node, 1, 0) == Kind.DECIMAL for node in types]
    bare = [
        {key: value for key, value in node.items() if key not in (5, 6)} if is_decimal else node
        for node, is_decimal in zip(types, decimals, strict=True)
    ]
    return orc_tail.with_tail(orc, {**orc.footer, 4: [orc_tail.encode(node) for node in bare]})


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
def test_decimals_without_a_precision_are_those_that_hive_reads(generation: int, tmp_path: Path) -> None:
    kept = {
        "decimal(12,2)": ["1.50", "-2.25", None, "9999999999.99", "-0.10"],
        "decimal(38,18)": ["1.500000000000000000", "-20.250000000000000000", "0.010000000000000000"],
        "decimal(38,0)": ["12345678901234567890", "-1", None],
    }
    for number, (stored, values) in enumerate(kept.items()):
        location, text = tmp_path / str(number), "struct<id:int,d:decimal(38,2)>"
        location.mkdir()
        file = tables.orc_bytes(f"struct<id:int,d:{stored}>", list(enumerate(values)))
        (location / "000000_0").write_bytes(without_precision(file))
        tables.write_dir(location, tables.delta_name(1, 1), text, tables.inserts(1, [(99, "7.00")]))
        types = {"id": "int", "d": "decimal(38,2)"}
        hive = hive_reader(generation)
        before = [hive.rows(location, types, vectorized=vectorized) for vectorized in (False, True)]
        assert before[0] == before[1]
        assert len({row[3] for row in before[0]}) == len(values) + 1
        read = acidlib.directory(location, all_committed=True, columns="id int, d decimal(38,2)").to_arrow()
        assert {(row["id"], row["d"]) for row in read.to_pylist()} == {
            (99, Decimal(7)),
            *((i, None if value is None else Decimal(value)) for i, value in enumerate(values)),
        }
        compact_directory(location, MAJOR, generation=generation, settings=COPY, row_type=text)
        (location / "000000_0").unlink()
        shutil.rmtree(location / tables.delta_name(1, 1))
        assert [hive.rows(location, types, vectorized=vectorized) for vectorized in (False, True)] == before


@pytest.mark.parametrize("value", ["0.005000000000000000", "12345678901.000000000000000000"])
def test_a_decimal_without_a_precision_that_readers_round_is_refused(value: str, tmp_path: Path) -> None:
    file = tables.orc_bytes("struct<d:decimal(38,18)>", [("1.500000000000000000",), (value,)])
    (tmp_path / "000000_0").write_bytes(without_precision(file))
    tables.write_dir(tmp_path, tables.delta_name(1, 1), "struct<d:decimal(12,2)>", tables.inserts(1, [("7.00",)]))
    with pytest.raises(RefusedError, match=r"stripe 0 of .*/000000_0: its column row.d is .*is rounded as .*, or null"):
        compact_directory(tmp_path, MAJOR)


# --- what stays refused -----------------------------------------------------------------------------------------------

REFUSED = {
    "narrower": ("int", "smallint"),
    "not every digit": ("int", "decimal(11,2)"),
    "not exact": ("bigint", "double"),
    "by another text": ("binary", "string"),
    "at another time": ("date", "timestamp"),
    "by zone": ("timestamp", "string"),
    "digits cut": ("decimal(10,2)", "decimal(12,1)"),
    "blanks lost": ("varchar(4)", "char(4)"),
    "text cut": ("string", "varchar(9)"),
    "text parsed": ("string", "int"),
}


@pytest.mark.parametrize("kind", [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")])
@pytest.mark.parametrize("case", REFUSED)
def test_other_changes_are_refused_and_nothing_is_left(case: str, kind: CompactionType, tmp_path: Path) -> None:
    old, new = REFUSED[case]
    for number, text in ((1, old), (2, new)):
        events = tables.inserts(number, [(5, None)])
        tables.write_dir(tmp_path, tables.delta_name(number, number), f"struct<id:int,x:{text}>", events)
    before = sorted(path.name for path in tmp_path.iterdir())
    names = [str(parse_row_type(f"struct<x:{text}>", where="t").children[0]) for text in (old, new)]
    said = (
        f"Cannot compact {tmp_path}/delta_0000001_0000001_0000/bucket_00000: its column row.x is {names[0]} "
        f"and the table's is {names[1]}, and no lossless conversion is known"
    )
    for row_type in (None, f"struct<id:int,x:{new}>"):
        with pytest.raises(RefusedError) as caught:
            compact_directory(tmp_path, kind, row_type=row_type)
        assert str(caught.value) == said
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")])
def test_a_value_that_readers_convert_each_in_their_own_way_is_refused_and_nothing_is_left(
    kind: CompactionType, tmp_path: Path
) -> None:
    for number, text, value in ((1, "double", float("nan")), (2, "string", "NaN")):
        events = tables.inserts(number, [(value,)])
        tables.write_dir(tmp_path, tables.delta_name(number, number), f"struct<x:{text}>", events)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(RefusedError) as caught:
        compact_directory(tmp_path, kind)
    assert str(caught.value) == (
        f"Cannot convert stripe 0 of {tmp_path}/delta_0000001_0000001_0000/bucket_00000: its column row.x is double "
        "and the table's is string: its value NaN is read as null, which would be lost; change the type back, or have "
        "Hive write anew what it reads (INSERT OVERWRITE)"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_value_that_is_none_of_its_type_is_an_error(java: JavaOrc, tmp_path: Path) -> None:
    """Java's writer does not look: the file says SMALLINT and holds more. Readers differ on what that is."""
    spelt = tables.inserts(1, [(5,), (40_000,)])
    java_files.write_dir(java, tmp_path, tables.delta_name(1, 1), "struct<x:smallint>", spelt)
    tables.write_dir(tmp_path, tables.delta_name(2, 2), "struct<x:varchar(6)>", tables.inserts(2, [("a",)]))
    said = (
        r"Cannot convert stripe 0 of .*/delta_0000001_0000001_0000/bucket_00000: its column row.x is short and the "
        r"table's is varchar\(6\): its value 40000 is no short"
    )
    with pytest.raises(CorruptError, match=said):
        compact_directory(tmp_path, MINOR)
