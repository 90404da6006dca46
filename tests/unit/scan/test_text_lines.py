"""Lines of text files: which split has which, and what the properties of a table say of their fields."""

from __future__ import annotations

import bz2
import gzip
import random
import re

import pytest

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError, RefusedError
from acidlib.memory import DEFAULT_MEMORY
from acidlib.orc.schema import parse_row_type
from acidlib.scan.text_lines import TextColumns, TextFormat, split_of_lines


class Bytes:
    """A file in memory."""

    name = "f"
    memory = DEFAULT_MEMORY

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)

    def read(self, offset: int, size: int) -> bytes:
        assert offset + size <= self.length
        return self.data[offset : offset + size]

    def close(self) -> None:
        """Nothing is open."""


def lines_of(data: bytes, name: str = "000000_0", parts: int = 1, **properties: str) -> list[bytes]:
    form, source = TextFormat.of("t", None, properties), Bytes(data)
    lines: list[bytes] = []
    for part in range(parts):
        start, end = source.length * part // parts, source.length * (part + 1) // parts
        for piece in split_of_lines(source, name, form, start, end):
            assert piece.endswith(b"\n")
            lines += piece.split(b"\n")[:-1]
    return lines


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_every_line_is_of_one_split(parts: int) -> None:
    rng = random.Random(parts)
    for _ in range(100):
        data = b"".join(rng.choice((b"a", b"bc", b"\n", b"\r", b"\r\n")) for _ in range(rng.randrange(1, 40)))
        lines = re.split(rb"\r\n|\r|\n", data)
        assert lines_of(data, parts=parts) == (lines if lines[-1] else lines[:-1]), data


@pytest.mark.parametrize(
    ("name", "packed"),
    [("0.gz", gzip.compress), ("0.x.bz2", bz2.compress), ("000000_0.1", bytes), ("0.x-y", bytes), ("0.GZ", bytes)],
)
def test_compressed_files_are_read_by_their_first_split(name: str, packed: type[bytes]) -> None:
    assert lines_of(packed(b"1\n2") + packed(b"\n3\n"), name, parts=3) == [b"1", b"2", b"3"]


def test_damage_and_unknown_codecs() -> None:
    with pytest.raises(CorruptError, match="Cannot read f: its compressed data ends early"):
        lines_of(gzip.compress(b"1\n" * 99)[:-3], "0.gz")
    with pytest.raises(CorruptError, match="Cannot read f: "):
        lines_of(b"no gzip at all", "0.gz")
    with pytest.raises(RefusedError, match=r"Cannot read f: text compressed as \.lzo is not read"):
        lines_of(b"1\n", "0.lzo")


def test_a_byte_order_mark_is_no_text() -> None:
    assert lines_of(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", parts=2) == [b"a", b"\xef\xbb\xbfb"]


@pytest.mark.parametrize(
    ("properties", "delimiter"),
    [
        ({}, 1),
        ({"serialization.format": "1"}, 1),
        ({"field.delim": "9"}, 9),
        ({"field.delim": ",", "serialization.format": "1"}, 44),
    ],
)
def test_separators_are_numbers_or_characters(properties: dict[str, str], delimiter: int) -> None:
    assert TextFormat.of("t", None, properties).delimiter == delimiter


@pytest.mark.parametrize("name", ["skip.header.line.count", "skip.footer.line.count"])
def test_a_number_of_lines_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match=f"Cannot read t: its property {name} is 'x', which is no number of lines"):
        TextFormat.of("t", None, {name: "x"})


def test_lines_with_few_and_many_fields() -> None:
    row = parse_row_type("struct<a:string,b:int,c:string>", where="t")
    form = TextFormat.of("t", None, {"field.delim": ","})
    columns = TextColumns(form, row, ("c", "b"), reader=Generation.HIVE4, where="f")
    count, arrays = columns.of(b"x\nx,1\n\n,2,y,z\n\\N,\\N,\\N\n")
    assert count == 5
    assert arrays["b"].to_pylist() == [None, 1, None, 2, None]
    assert arrays["c"].to_pylist() == [None, None, None, "y", None]
