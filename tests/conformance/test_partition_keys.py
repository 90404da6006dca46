"""The texts of partition keys of every type have the values that Hive 3.1.3 and Hive 4.0.1 read, or are refused."""
# ruff: noqa: RUF001

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from judges.arrow_rows import alike, column_values
from judges.hive_conditions import hive_conditions
from long_runs import amount

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError
from acidlib.orc.schema import parse_row_type
from acidlib.scan.arrays import arrow_type
from acidlib.scan.partitions import partition_value

NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "+1",
        "-0",
        "007",
        "127",
        "128",
        "-129",
        "300",
        "32768",
        "2147483647",
        "2147483648",
        "-2147483649",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "9" * 38,
        "1" * 39,
        "1" * 45 + "e-38",
        "16777217",
        "9007199254740993",
    ),
    *(
        "",
        " ",
        "1 ",
        " 1",
        "\t1",
        "1\n",
        "1\v",
        "1\f",
        "1\x00",
        "\x1f1",
        "1\xa0",
        "\u20031",
        "\ufeff1",
        "1_000",
        "1,000",
    ),
    *("1.", ".5", "-.5", ".5 ", ".5e1", "5.e1", ".", "-", "+", "--1", "+-1", "1..2", "abc", "null", "true", "½", "1%"),
    *("1d", "1D", "1f", "1F", "1L", "1e5f", " 1d ", "1d\x01", "1e0", "1E+2", "1e3", "1e-3", "1e", "1e ", "1e+ ", "e1"),
    *("1e38", "1e39", "3.4028235e38", "3.4028236e38", "1e-46", "1e99", "1e100", "1e400", "-1e400", "1e-99", "0e500"),
    *("0x10", "0X1p3", "0x1.8p1", "0x1p-1074", "0x1p3f", "0x1p5000", "-0x1p5000", "NaN", "-NaN", "nan", "Infinity"),
    *(
        "-Infinity",
        "inf",
        "INF",
        "infinity",
        "١٢٣",
        "１２",
        "1١",
        "\U0001d7ce",
        "0.1",
        "1.245",
        "1.255",
        "-1.255",
        "0.005",
    ),
    *("999.994", "999.995", "12345678901234567890.0123456789", "0." + "9" * 45, "1e-400", "0" * 46 + "1", "123e-76"),
    *("yes", "No", "OFF", "f", " false", "false ", "\uff46alse"),
)
TIMES = (
    *("2024-01-02", "2024-1-1", "24-01-02", "02024-01-02", "2024-13-01", "2024-02-30", "2023-02-29", "2024-00-01"),
    *("2024-01-00", "2024-01-32", "0001-01-01", "9999-12-31", "1582-10-10", "1500-02-29", "1-1-1", "2024-2-31"),
    *("2024--1-01", "2024-01--0", "20240101", "2024/01/01", "2024-001", "2024-W01-1", "2024", "2024-01", "+2024-01-01"),
    *("0000-01-01", "-0001-01-01", "-2024-01-01", "10000-01-01", "99999-01-01", "10000-01-01 00:00:00", "12345-1-1"),
    *("2024-01-01x", "2024-01-01T", "2024-01-01T10", "2024-01-01T10:11", "2024-01-01t10:11:12", "2024-01-01T10:11:12Z"),
    *("2024-01-01 10", "2024-01-01 10:11", "2024-01-01 1:2:3", "2024-01-01 10:11:12.", "2024-01-01 10:11:12.5"),
    *("2024-01-01 10:11:12.123456789", "2024-01-01 10:11:12.1234567891", "2024-01-01 10:11:12.1234567891 UTC"),
    *("2024-01-01 10:11:12.1234567891+01:00", "2024-1-1 1:1:1.1234567891+01:00", "2024-01-01 10:11:12.123456789Z"),
    *("2024-01-01 10:11:12Z", "2024-01-01 10:11:12 UTC", "2024-01-01 10:11:12.5+01:00", "2024-01-01 10:11:12 -08:00"),
    *("2024-01-01 10:11:12 Europe/Berlin", "2024-03-31 02:30:00 Europe/Berlin", "2024-10-27 02:30:00 Europe/Berlin"),
    *(
        "2024-01-01 10:11:12 PM",
        "2024-01-01 10:11:12 CET",
        "2024-01-01 10:11:12 +1:00",
        "2024-01-01Z",
        "2024-02-30 UTC",
    ),
    *("2024-01-01+01:00", "2024-01-01-08:00", "2024-01-01-10:11:12", "2024-01-01 24:00:00Z", "2024-01-01 24:00:00"),
    *(
        "2024-01-01 23:59:60",
        "2024-01-01 25:00:00",
        "2024-01-01 10:60:00",
        "2024-01-01 02:-0:00",
        "2024-01-01 -1:00:00",
    ),
    *(
        "10:11:12",
        "10:11",
        " 2024-01-01",
        "2024-01-01\n",
        "2024-01-01\xa0",
        "２０２４-０１-０１",
        "",
        "x",
        "0",
        "1704067200",
    ),
    *("1969-12-31 23:59:59.9", "1969-12-31 23:59:59.999999999", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
)
TEXTS = (
    "",
    "a",
    "a ",
    " a",
    "abcd",
    "ab  ",
    "éééé",
    "\U0001f600" * 4,
    "a\U0001f600b\U0001f600",
    "a\x00",
    "abc\u3000",
    "   ",
)
KEYS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "boolean"), NUMBERS),
    **dict.fromkeys(("decimal(38,10)", "decimal(5,2)", "decimal(38,38)", "decimal(10,0)"), NUMBERS),
    **dict.fromkeys(("date", "timestamp", "timestamp with local time zone"), TIMES),
    **dict.fromkeys(("string", "char(3)", "varchar(3)", "binary"), TEXTS),
}
REFUSED = {"date": 11, "timestamp": 11, "timestamp with local time zone": 27}
"""The most texts of a type that are refused: more would be a value that is not read any more."""


def read(text: str, hive_type: str, generation: Generation) -> Any:
    """The value in the form of the judges, or the sentence of a refusal."""
    (node,) = parse_row_type(f"struct<k:{hive_type}>", where="k").children
    try:
        value = partition_value(text, hive_type, generation)
    except RefusedError as error:
        return error
    return column_values(pa.chunked_array([pa.array([value], arrow_type(node))]))[0]


def changed(rng: random.Random, text: str, signs: str) -> str:
    """A text with some characters put in, taken out or exchanged."""
    found = list(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randint(0, len(found))
        found[place : place + rng.randint(0, 1)] = rng.choice((signs[rng.randrange(len(signs))], ""))
    return "".join(found)


def disagreements(hive_type: str, texts: list[str], generation: Generation) -> Iterator[str]:
    """Texts whose value is not Hive's; both ways in which Hive reads a key have to have the same."""
    struct = f"struct<k:{hive_type}>"
    for text, hives in zip(texts, hive_conditions(generation.value).keys(hive_type, texts), strict=True):
        (in_batches,), (in_rows,) = (alike([(0, 0, 0, (value,))], struct)[0][3] for value in hives)
        assert in_batches == in_rows, (hive_type, text)
        found = read(text, hive_type, generation)
        if not isinstance(found, RefusedError) and alike([(0, 0, 0, (found,))], struct)[0][3] != (in_rows,):
            yield f"{text!r}: Hive {in_rows}, here {found}"


@pytest.mark.parametrize("generation", [Generation.HIVE3, Generation.HIVE4])
@pytest.mark.parametrize("hive_type", KEYS)
def test_keys_are_read_as_hive_does(hive_type: str, generation: Generation) -> None:
    rng = random.Random(f"{hive_type} {generation}")
    usual = list(KEYS[hive_type])
    signs = "0123456789-:. TZ+" if KEYS[hive_type] is TIMES else "0123456789.-+eEdfxp_ \t\v"
    others = [changed(rng, rng.choice(usual), signs) for _ in range(amount(100, long=5000))]
    assert list(disagreements(hive_type, usual + others, generation)) == []
    refused = [text for text in usual if isinstance(read(text, hive_type, generation), RefusedError)]
    assert len(refused) <= REFUSED.get(hive_type, 0), refused
