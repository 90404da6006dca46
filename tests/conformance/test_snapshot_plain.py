"""Insert-only tables in ORC, Parquet and text: a snapshot has the rows of Hive, and of its own readers in process."""

from __future__ import annotations

import bz2
import gzip
import random
import re
import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
import pytest
from judges import merge
from judges.fixtures import Fixture, fixtures
from judges.hive_plain import PARQUET, TEXT, hive_plain
from judges.hive_text import HIVE3, HIVE4, render
from located import at
from snapshots import arrow_type, canonical, schema_of, splits_of

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.tables import ORC_INPUT_FORMAT
from acidlib.model.units import DataFile, JoinWay
from acidlib.planning.units import PARQUET_INPUT_FORMAT, TEXT_INPUT_FORMAT
from acidlib.rewrite.join import join_facts
from acidlib.rows.files import InputFiles
from acidlib.scan.predicate import parse_predicate
from acidlib.scan.read import read_table
from acidlib.scan.splits import Scan
from acidlib.stores.renaming.local import LocalDataFiles
from acidlib.stores.stores import Stores

FORMATS = {"parquet": PARQUET_INPUT_FORMAT, "textfile": TEXT_INPUT_FORMAT}
LAYERS = [
    pytest.param(table, layer, id=f"{table.name}-{layer or 'before'}")
    for table in fixtures(insert_only=True)
    for layer in ("", *table.layers)
]


def scan_of(types: Mapping[str, str], input_format: str | None, **options: Any) -> Scan:
    kinds = {name: pyorc.TypeDescription.from_string(text) for name, text in types.items()}
    return Scan(
        table="t",
        row_type=f"struct<{','.join(f'{name}:{text}' for name, text in types.items())}>",
        columns=tuple(types),
        schema=schema_of([(name, arrow_type(kind)) for name, kind in kinds.items()]),
        insert_only=True,
        input_format=input_format,
        **options,
    )


def columns_of(table: Fixture) -> dict[str, str]:
    """The columns in the statement that made a table."""
    match = re.search(r"\((.*?)\)\s+(?:partitioned|stored)", (table.folder / "ddl.sql").read_text(), re.I | re.S)
    assert match is not None
    pairs = re.findall(r"(\w+) (\w+(?:\([\d,]+\))?)", match[1])
    return {name: kind.lower() for name, kind in pairs}


@pytest.mark.parametrize(("table", "layer"), LAYERS)
@pytest.mark.parametrize("split_bytes", [pytest.param(128 << 20, id="whole"), pytest.param(200, id="split")])
def test_the_snapshot_has_the_rows_of_hive(table: Fixture, layer: str, split_bytes: int, tmp_path: Path) -> None:
    types = columns_of(table)
    style = HIVE3 if table.generation == 3 else HIVE4
    input_format = next((FORMATS[word] for word in FORMATS if word in table.name), ORC_INPUT_FORMAT)
    scan = scan_of(types, input_format)
    texts: Counter[str] = Counter()
    location = table.lay(tmp_path / "table", layer)
    for place in merge.partitions(location):
        parts = [part.partition("=")[2] for part in place.relative_to(location).parts]
        splits = splits_of(scan, place, table.write_ids, generation=table.generation, split_bytes=split_bytes)
        for row in read_table(scan, splits, Stores()).to_pylist():
            kinds = {name: pyorc.TypeDescription.from_string(text) for name, text in types.items()}
            cells = [render(canonical(row[name], kind), kind, style) for name, kind in kinds.items()]
            texts["\t".join(cells + parts)] += 1
    assert texts == table.hive_rows()


# --- text, against LazySimpleSerDe ------------------------------------------------------------------------------------

REALS = """1.5| 1.5 |1e5|1.5f|1.5D|NaN|-NaN|+NaN|nan|Infinity|-Infinity|inf|0x1p3|0x1.8p1d|0x1p3f|1_0||.5|5.|
.|+1|1e400|-1e400|
1e-400|-0.0|NULL|1,5|1.5 2|4.9e-324|null|N|0.1|16777217|1e39|1.00000017881393432617187499|
1.00000017881393432617187501|--1|+-1|
1e5f|1ef|e5|1.e2|.e2|1e+2|0x|3.4028236e38|9007199254740993|\t7|0.1d5|1d|d"""
TEXTS: Mapping[str, str] = {
    "int": """7|+7|-7| 7 |7.|.7|-.7|+.7|7.9|7.x|7.9.1|1e3|0x10|007|2147483648|-2147483648|-2147483649|
2147483647.5||-|+|.|-.| |
NULL|7\t|1_0|7 8|- 7|12345678901234567890|-0|N|nul7|7L|--7|+-7|99999999999999999999.5""",
    "tinyint": "128|-128|127.9| 5|-129|0127",
    "smallint": "32768|-32768|x|1",
    "bigint": """9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|
9223372036854775807.99|
999999999999999999|1000000000000000000|-1""",
    "double": REALS,
    "float": REALS,
    "boolean": "true|TRUE|True|false|1|0|t|T|yes|| true|f|fALSE",
    "decimal(5,2)": """1.5| 1.5 |1.005|1.004999|999.995|999.994|-1.555|1e2|1E-2|+1|.5|5.||NaN|0x1|1,5|1000|
00001.50|1.5x|1.5f|NULL|
-0|1e-50|1e50|-.5|.|1.50000|0.0049999999999999999999999999999999999999999|
99999999999999999999999999999999999999999|1e+1|- 1""",
    "decimal(38,0)": """12345678901234567890123456789012345678|123456789012345678901234567890123456789|0.5|-0.5|
1e37|1e38|0.4""",
    "decimal(38,38)": """0.12345678901234567890123456789012345678|0.123456789012345678901234567890123456785|1|0|
-0.5""",
    "date": """2024-02-29|2024-2-9| 2024-02-29 |2024-02-29 12:00:00|2024-02-30|2023-02-29|2024-13-01|20240229|
0001-01-01|
9999-12-31|2024-02-29x||NULL|24-02-29|1582-10-10|2024-00-01|2024-02-29 x|+2024-01-01|2024-02-32|2024-12-00|2024-1-1|
2024-02-291|02024-01-01|2024-02-29T00:00:00|2024/02/29|2024-02|2024-02-|0999-1-1|999-1-1|999-11-1|  1-1-1  |
1-1-1xxxxx|1-1-1 xxxx|2024--2-1|2024-02--1|2024-02-029|2024-99-99|2024-2-29 """,
    "timestamp": """2024-02-29 12:34:56|2024-02-29 12:34:56.5|2024-02-29 12:34:56.123456789|
2024-02-29 12:34:56.1234567891|
2024-02-29|2024-02-29T12:34:56| 2024-02-29 12:34:56 |2024-2-9 1:2:3|2024-02-29 12:34|2024-02-30 00:00:00|
2024-02-29 24:00:00|
2024-02-29 23:59:60|2024-02-29 12:34:56.|2024-02-29 12:34:56Z|2024-02-29 12:34:56 UTC|
2024-02-29 12:34:56+01:00|1709210096||NULL|
0001-01-01 00:00:00|9999-12-31 23:59:59.999999999|1582-10-10 00:00:00|2024-02-29  12:34:56|2024-02-29 12|
2024-02-29 12:34:56,5|
2024-02-32 00:00:00|24-02-29 12:34:56|2024-13-01 00:00:00|2024-02-29T12:34:56.5|2024-02-29 12:34:56.5x|
2023-02-29 00:00:00|
1969-12-31 23:59:59.9999999|2024-02-29 12:61:00|2024-00-10 00:00:00|0500-02-29 01:02:03|2024--2-1 00:00:00|
2024-02-01 -1:00:00|2024-02-029 1:1:1|02024-01-01 0:0:0""",
    "varchar(3)": "abcdef|ab |éééé||NULL|\U0001f600\U0001f600\U0001f600\U0001f600",
    "char(3)": "abcdef|ab || a|éééé",
    "string": r"a\nb|\n|a\tb|ü| x ",
    "binary": "YWJj|YWI=|YWI|abc!||Y|====|é|!!!!|_",
}


def written(tmp_path: Path, name: str, content: bytes) -> Path:
    """The location of an insert-only table with one file."""
    path = tmp_path / "t" / "delta_0000001_0000001_0000" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return tmp_path / "t"


def in_microseconds(value: Any) -> Any:
    """A value of Hive's as Spark has it."""
    if isinstance(value, tuple):
        return tuple(map(in_microseconds, value))
    if isinstance(value, str) and value.startswith("t:"):
        _, seconds, nanos = value.split(":")
        return f"t:{seconds}:{int(nanos) // 1000 * 1000}"
    return value


def rows_read(
    location: Path,
    types: Mapping[str, str],
    input_format: str,
    generation: int,
    *,
    split_bytes: int = 128 << 20,
    **options: Any,
) -> list[tuple[Any, ...]]:
    """The rows of a snapshot in the form of `judges.values`."""
    scan = scan_of(types, input_format, **options)
    splits = splits_of(scan, location, generation=generation, split_bytes=split_bytes)
    kinds = {name: pyorc.TypeDescription.from_string(text) for name, text in types.items()}
    read = read_table(scan, splits, Stores()).to_pylist(maps_as_pydicts=None)
    return [tuple(canonical(row[name], kind) for name, kind in kinds.items()) for row in read]


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", TEXTS)
def test_texts_have_the_values_of_hive(kind: str, generation: int, tmp_path: Path) -> None:
    texts = TEXTS[kind].replace("\n", "").split("|")
    location = written(tmp_path, "000000_0", "".join(f"{text}\n" for text in texts).encode())
    hive = hive_plain(generation).rows(location / "delta_0000001_0000001_0000", {"x": kind}, TEXT)
    ours = rows_read(location, {"x": kind}, TEXT_INPUT_FORMAT, generation)
    pairs = zip(texts, hive, ours, strict=True)
    assert [(text, theirs[0], own[0]) for text, theirs, own in pairs if in_microseconds(theirs) != own] == []


PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "comma": {"field.delim": ",", "serialization.format": ","},
    "number": {"serialization.format": "9"},
    "escape": {"field.delim": ",", "escape.delim": "\\"},
    "other escape": {"field.delim": "|", "escape.delim": "#"},
    "null": {"field.delim": ",", "serialization.null.format": "x"},
    "empty is null": {"field.delim": ",", "serialization.null.format": ""},
    "rest": {"field.delim": ",", "serialization.last.column.takes.rest": "true"},
}


def drawn_text(rng: random.Random, delimiter: str, escape: str) -> bytes:
    pieces = (
        [delimiter] * 4
        + [escape] * 3
        + ["\n"] * 4
        + ["x", "1", "2.5", "\\N", "ab", " ", "\r", "\r\n", "é", "\t", "N", "n"]
    )
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 400))).encode()


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("case", PROPERTIES)
def test_random_lines_are_split_as_hive_splits_them(case: str, generation: int, tmp_path: Path) -> None:
    rng, properties = random.Random(case), PROPERTIES[case]
    types = {"a": "string", "b": "int", "c": "varchar(2)", "d": "string"}
    delimiter = properties.get("field.delim", "\t" if case == "number" else "\x01")
    for number in range(12):
        content = drawn_text(rng, delimiter, properties.get("escape.delim", "\\"))
        name, packing = rng.choice(
            [("000000_0", bytes), ("000000_0.gz", gzip.compress), ("000000_0.bz2", bz2.compress)]
        )
        location = written(tmp_path / str(number), name, packing(content))
        hive = hive_plain(generation).rows(location / "delta_0000001_0000001_0000", types, TEXT, properties)
        for split_bytes in (1 << 20, 37, 5):
            ours = rows_read(
                location, types, TEXT_INPUT_FORMAT, generation, split_bytes=split_bytes, properties=properties
            )
            assert ours == hive, content


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
def test_the_codec_of_text_is_that_of_its_name(generation: int, tmp_path: Path) -> None:
    """Letter case included: what no codec of Hadoop ends with is plain text, and joined as such."""
    names = [
        "0.gz",
        "0.csv.gz",
        "0.GZ",
        "0.gz.bak",
        "0gz",
        "0.bz2",
        "0.Bz2",
        "0.deflate",
        "0.dat",
        "0.json",
        "0.parquet",
    ]
    for number, name in enumerate(names):
        packing = {"gz": gzip.compress, "bz2": bz2.compress, "deflate": zlib.compress}.get(
            name.rpartition(".")[2], bytes
        )
        location = written(tmp_path / str(number), name, packing(b"1\n22\n"))
        directory = location / "delta_0000001_0000001_0000"
        hive = hive_plain(generation).rows(directory, {"x": "string"}, TEXT)
        assert rows_read(location, {"x": "string"}, TEXT_INPUT_FORMAT, generation) == hive == [("s:1",), ("s:22",)]
        place = InputFiles(at(directory), LocalDataFiles())
        file = DataFile(path=name, directory="", length=(directory / name).stat().st_size, bucket=0)
        facts = join_facts(file, frozenset({JoinWay.LINES}), place)
        ending = name[name.rindex(".") :] if packing is not bytes else ""
        assert (facts.way, facts.group_key) == (JoinWay.LINES, ending) or ending == ".deflate"
        with_codec = join_facts(
            file, frozenset({JoinWay.LINES}), place, "org.apache.hadoop.io.compress.GzipCodec, a.XCodec"
        )
        assert with_codec == facts if ending or "." not in name else with_codec.way is JoinWay.WHOLE


def test_header_and_footer_lines_are_no_rows(tmp_path: Path) -> None:
    location = written(tmp_path, "000000_0", b"\xef\xbb\xbfa\nb\n1\n2\n3\nend\n")
    for header, footer, rows in ((2, 1, [1, 2, 3]), (3, 2, [2]), (9, 0, []), (0, 9, []), (2, 0, [1, 2, 3, None])):
        properties = {"skip.header.line.count": str(header), "skip.footer.line.count": str(footer)}
        for split_bytes in (1 << 20, 4):
            read = rows_read(
                location, {"x": "int"}, TEXT_INPUT_FORMAT, 3, split_bytes=split_bytes, properties=properties
            )
            assert [value for (value,) in read] == rows


# --- Parquet, against ParquetHiveSerDe --------------------------------------------------------------------------------

ZONES: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "zone": {"writer.time.zone": "America/Los_Angeles"},
    "new": {
        "writer.time.zone": "Asia/Shanghai",
        "writer.zone.conversion.legacy": "false",
        "writer.date.proleptic": "true",
    },
    "legacy": {"writer.time.zone": "America/Los_Angeles", "writer.zone.conversion.legacy": "true"},
}
MOMENTS = [
    datetime(*fields)
    for fields in [
        *(
            (2024, 7, 1, 12),
            (2024, 3, 10, 10, 30),
            (2024, 1, 1, 12, 0, 0, 123457),
            (1950, 7, 1),
            (1901, 1, 1),
            (1890, 1, 1),
        ),
        *((1700, 1, 1), (1582, 10, 16), (1582, 10, 4), (1000, 1, 1), (300, 3, 5), (9999, 12, 30), (2300, 7, 1)),
        (1969, 12, 31, 23, 59, 59, 999999),
    ]
]


def as_of_java(path: Path) -> Path:
    """A file of Arrow that says it is of Java's library, of which alone Hive 4 asks for the zone of the writer."""
    data = path.read_bytes()
    before, after = data[: data.rindex(b"parquet-cpp-arrow")], data[data.rindex(b"parquet-cpp-arrow") + 17 :]
    path.write_bytes(before + b"parquet-mr arrow " + after)
    return path


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("is_java", [pytest.param(True, id="java"), pytest.param(False, id="other")])
@pytest.mark.parametrize("case", ZONES)
def test_times_of_parquet_are_those_of_hive(case: str, is_java: bool, generation: int, tmp_path: Path) -> None:
    path = written(tmp_path, "000000_0", b"") / "delta_0000001_0000001_0000" / "000000_0"
    table = pa.table({"t": pa.array([*MOMENTS, None]), "d": pa.array([*(moment.date() for moment in MOMENTS), None])})
    pq.write_table(table.replace_schema_metadata(ZONES[case]), path, use_deprecated_int96_timestamps=True)
    if is_java:
        as_of_java(path)
    types = {"t": "timestamp", "d": "date"}
    hive = hive_plain(generation).rows(path, types, PARQUET)
    assert rows_read(tmp_path / "t", types, PARQUET_INPUT_FORMAT, generation) == list(map(in_microseconds, hive))


DAY_NANOS, DAY_OF_1970 = 86_400 * 10**9, 2_440_588
PAIRS = [
    *((-3600 * 10**9, DAY_OF_1970), (-1500, DAY_OF_1970), (-999, 2_450_000), (-3 * DAY_NANOS, DAY_OF_1970)),
    *((DAY_NANOS, DAY_OF_1970), (5 * DAY_NANOS + 1, 2_299_158), (2**63 - 1, DAY_OF_1970), (-(2**63), 2_500_000)),
    *((-1, 1_721_427), (0, 1_721_426), (DAY_NANOS - 1, 5_373_484), (1, DAY_OF_1970)),
]
"""Nanoseconds of the day and Julian day numbers, as any writer may have them."""


def write_int96(path: Path, pairs: list[tuple[int, int]], zone: Mapping[str, str]) -> None:
    """Write a file of one column, in the middle of which are these pairs, between nulls."""
    marks = [7 + number for number in range(len(pairs))]
    column = pa.array([None, *(DAY_NANOS * mark + mark for mark in marks), None], pa.timestamp("ns"))
    table = pa.table({"t": column}).replace_schema_metadata(zone)
    pq.write_table(table, path, compression="none", use_dictionary=False, use_deprecated_int96_timestamps=True)
    data = path.read_bytes()
    for mark, pair in zip(marks, pairs, strict=True):
        data = data.replace(struct.pack("<qi", mark, DAY_OF_1970 + mark), struct.pack("<qi", *pair))
    path.write_bytes(data)


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
def test_any_int96_is_the_time_of_hive(generation: int, tmp_path: Path) -> None:
    path = written(tmp_path, "000000_0", b"") / "delta_0000001_0000001_0000" / "000000_0"
    for zone in ({}, ZONES["zone"]):
        pairs = [pair for pair in PAIRS if not zone or pair[1] > 1_721_427]
        write_int96(path, pairs, zone)
        as_of_java(path)
        types = {"t": "timestamp"}
        hive = [in_microseconds(row) for row in hive_plain(generation).rows(path, types, PARQUET)]
        assert rows_read(tmp_path / "t", types, PARQUET_INPUT_FORMAT, generation) == hive
        schema = pa.schema([("t", pa.timestamp("us"))])
        predicate = parse_predicate("t < '1970-01-01 00:00:00'", schema)
        early = rows_read(tmp_path / "t", types, PARQUET_INPUT_FORMAT, generation, predicate=predicate)
        assert early == [(value,) for (value,) in hive if value is not None and int(value.split(":")[1]) < 0]
    for day in (1_721_425, 2**31 - 1):
        write_int96(path, [(0, day)], {})
        with pytest.raises(RefusedError, match=r"column t of .*/000000_0: day .* before 0001-01-01, or of no year"):
            rows_read(tmp_path / "t", types, PARQUET_INPUT_FORMAT, generation)
    for kind in ("binary", "string", "boolean"):
        with pytest.raises(RefusedError, match=f"INT96 in the file, and the table's is {kind}"):
            rows_read(tmp_path / "t", {"t": kind}, PARQUET_INPUT_FORMAT, generation)


INTEGERS = ("tinyint", "smallint", "int", "bigint")
BYTES = ("string", "binary")
ALL_KINDS = ("boolean", *INTEGERS, "double", "decimal(10,2)", *BYTES, "varchar(2)", "char(4)", "date", "timestamp")
PHYSICAL: Mapping[str, tuple[pa.Array, tuple[str, ...]]] = {
    "null": (pa.nulls(3), ALL_KINDS),
    "uint8": (pa.array([1, None, 255], pa.uint8()), INTEGERS),
    "uint16": (pa.array([1, None, 65535], pa.uint16()), INTEGERS),
    "uint32": (pa.array([1, None, 2**32 - 1], pa.uint32()), INTEGERS),
    "uint64": (pa.array([1, None, 2**64 - 1], pa.uint64()), INTEGERS),
    "time of 32 bits": (pa.array([1, None, 86_399_999], pa.time32("ms")), INTEGERS),
    "time of 64 bits": (pa.array([1, None, 86_399_999_999], pa.time64("us")), INTEGERS),
    "nanoseconds": (pa.array([1, None, 86_399_999_999_999], pa.time64("ns")), INTEGERS),
    "duration": (pa.array([1, None, -(2**40)], pa.duration("us")), INTEGERS),
    "half": (pa.array([1.5, None, 2.0], pa.float16()), ()),
    "fixed": (pa.array([b"abc", None, b"\xff\x00z"], pa.binary(3)), BYTES),
    "uuid": (pa.array([bytes(16), None, b"\xff" * 16], pa.binary(16)).cast(pa.uuid()), BYTES),
    "json": (pa.array(['{"a": 1}', None, "é"]).cast(pa.json_()), BYTES),
}
"""Columns whose types Hive does not know, and the types as which a snapshot reads them."""


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("case", PHYSICAL)
def test_types_of_parquet_that_hive_does_not_know_are_read_as_stored(
    case: str, generation: int, tmp_path: Path
) -> None:
    path = written(tmp_path, "000000_0", b"") / "delta_0000001_0000001_0000" / "000000_0"
    array, kinds = PHYSICAL[case]
    pq.write_table(pa.table({"x": array}), path, row_group_size=1)
    for kind in ALL_KINDS:
        if kind in kinds:
            hive = hive_plain(generation).rows(path, {"x": kind}, PARQUET)
            assert rows_read(tmp_path / "t", {"x": kind}, PARQUET_INPUT_FORMAT, generation) == hive, kind
            predicate = parse_predicate("x is null", pa.schema([("x", pa.int32())]))
            nulls = rows_read(tmp_path / "t", {"x": kind}, PARQUET_INPUT_FORMAT, generation, predicate=predicate)
            assert nulls == [row for row in hive if row == (None,)]
        else:
            with pytest.raises(
                RefusedError, match=r"column x of .*/000000_0: it is .* in the file, and the table's is"
            ):
                rows_read(tmp_path / "t", {"x": kind}, PARQUET_INPUT_FORMAT, generation)


@pytest.mark.live
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("by_position", [pytest.param(True, id="position"), pytest.param(False, id="name")])
def test_columns_of_parquet_are_found_as_hive_finds_them(by_position: bool, generation: int, tmp_path: Path) -> None:
    path = written(tmp_path, "000000_0", b"") / "delta_0000001_0000001_0000" / "000000_0"
    structs = [{"X": 1, "z": "a"}, None, {"X": None, "z": None}, {"X": 4, "z": "é"}]
    pq.write_table(
        pa.table(
            {
                "Id": pa.array([1, None, -(2**31), 4], pa.int32()),
                "NAME": pa.array(["a", None, "", "漢字"]),
                "l": pa.array([[1, None], None, [], [3]], pa.list_(pa.int64())),
                "m": pa.array([[("k", 1)], None, [], [("a", None), ("b", 2)]], pa.map_(pa.string(), pa.int32())),
                "s": pa.array(structs, pa.struct([("X", pa.int32()), ("z", pa.string())])),
                "dc": pa.array([Decimal("1.50"), None, Decimal("-99999999.99"), Decimal(0)], pa.decimal128(10, 2)),
                "f": pa.array([1.5, None, float("inf"), -0.0], pa.float32()),
                "o": pa.array([True, None, False, True]),
                "n": pa.array([b"\x00", None, b"", b"\xff"]),
            }
        ),
        path,
        row_group_size=3,
    )
    types = {
        "id": "bigint" if generation == 4 else "int",
        "name": "varchar(1)",
        "l": "array<bigint>",
        "m": "map<string,int>",
        "s": "struct<x:int,z:string>" if by_position else "struct<z:string,x:int,w:int>",
        "dc": "decimal(10,2)",
        "f": "float",
        "o": "boolean",
        "n": "binary",
        "missing": "int",
    }
    if by_position:
        types = {f"c{number}": kind for number, kind in enumerate(types.values())}
    properties = {"parquet.column.index.access": str(by_position).lower()}
    hive = hive_plain(generation).rows(path, types, PARQUET, properties)
    for split_bytes in (1 << 20, 700):
        ours = rows_read(
            tmp_path / "t", types, PARQUET_INPUT_FORMAT, generation, split_bytes=split_bytes, properties=properties
        )
        assert ours == hive


def test_a_column_of_parquet_of_another_type_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "000000_0", b"") / "delta_0000001_0000001_0000" / "000000_0"
    pq.write_table(pa.table({"x": ["a"], "y": [300]}), path)
    for types, reason in (
        ({"x": "int"}, "column x of .*/000000_0: it is string in the file, and the table's is int"),
        ({"y": "tinyint"}, "column y of .*/000000_0: Integer value 300 not in range"),
        ({"x": "uniontype<int>"}, ""),
    ):
        with pytest.raises(RefusedError, match=reason or "uniontype|union"):
            read_scan_refused(tmp_path / "t", types)


def read_scan_refused(location: Path, types: Mapping[str, str]) -> None:
    """Read columns of types that pyorc need not know."""
    names = tuple(types)
    scan = Scan(
        table="t",
        row_type=f"struct<{','.join(f'{name}:{text}' for name, text in types.items())}>",
        columns=names,
        schema=pa.schema([(name, pa.int32()) for name in names]),
        insert_only=True,
        input_format=PARQUET_INPUT_FORMAT,
    )
    read_table(scan, splits_of(scan, location), Stores())


def test_row_groups_are_left_out_by_statistics(tmp_path: Path) -> None:
    path = written(tmp_path, "000000_0", b"") / "delta_0000001_0000001_0000" / "000000_0"
    pq.write_table(pa.table({"x": list(range(1000)), "y": ["a"] * 1000}), path, row_group_size=100)
    data = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(7).column(0)
    start = group.dictionary_page_offset or group.data_page_offset
    data[start : start + group.total_compressed_size] = bytes(group.total_compressed_size)
    path.write_bytes(data)
    types = {"x": "bigint", "y": "string"}
    schema = pa.schema([("x", pa.int64()), ("y", pa.string())])
    for text, rows in (("x < 5", 5), ("x >= 250 and x < 350", 100), ("x is null", 0), ("x = 5 or x = 999", 2)):
        predicate = parse_predicate(text, schema)
        assert len(rows_read(tmp_path / "t", types, PARQUET_INPUT_FORMAT, 3, predicate=predicate)) == rows
    with pytest.raises(CorruptError, match="000000_0"):
        rows_read(tmp_path / "t", types, PARQUET_INPUT_FORMAT, 3, predicate=parse_predicate("x = 750", schema))


def test_other_formats_are_refused(tmp_path: Path) -> None:
    location = written(tmp_path, "000000_0", b"SEQ6")
    sequence = "org.apache.hadoop.mapred.SequenceFileInputFormat"
    for input_format, options, reason in (
        (sequence, {}, f"Cannot read t: its files are read by {sequence}; ORC, Parquet and text are read"),
        (None, {}, "it is neither ORC nor Parquet, and only a metastore knows of other formats"),
        (TEXT_INPUT_FORMAT, {"serde": "org.X"}, "its lines are read by org.X; those of LazySimpleSerDe are read"),
        (TEXT_INPUT_FORMAT, {"properties": {"line.delim": ";"}}, "its property line.delim is ';'"),
        (TEXT_INPUT_FORMAT, {"properties": {"field.delim": "ü"}}, "its property field.delim is 'ü'"),
    ):
        with pytest.raises(RefusedError, match=re.escape(reason)):
            rows_read(location, {"x": "int"}, input_format, 3, **options)
    with pytest.raises(RefusedError, match=r"text compressed as \.snappy is not read"):
        rows_read(written(tmp_path / "2", "000000_0.snappy", b"x"), {"x": "int"}, TEXT_INPUT_FORMAT, 3)
    with pytest.raises(RefusedError, match=r"column x of .* values of type list<int> are not read from text"):
        rows_read(location, {"x": "array<int>"}, TEXT_INPUT_FORMAT, 3)
    with pytest.raises(CorruptError, match="compressed data ends early"):
        rows_read(
            written(tmp_path / "3", "000000_0.gz", gzip.compress(b"1\n2\n")[:-9]), {"x": "int"}, TEXT_INPUT_FORMAT, 3
        )
