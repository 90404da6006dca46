"""The tail of a file: what another parser finds in it, and an error for every kind of damage."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from judges import fixtures, tables
from judges import orc_tail as o
from orc_memory import MemorySource, tail_of

from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.orc.reader import ORC_14, read_tail

SCHEMA = "struct<a:int,s:string>"
ROWS = [(i, f"row {i}") for i in range(50)]
ZLIB = tables.orc_bytes(SCHEMA, ROWS)
SMALL = tables.orc_bytes(SCHEMA, ROWS, tables.Layout(compression="none", stripe_size=1, stride=5, batch=10))
FILES = fixtures.orc_files("hive3/*/before/**/*")[::6] + fixtures.orc_files("hive4/*/before/**/*")[::12]


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(fixtures.ROOT)) for path in FILES])
def test_a_tail_of_hive_says_what_another_parser_finds(path: Path) -> None:
    orc, tail = o.read_orc(path), tail_of(path.read_bytes())
    assert (tail.rows, tail.stride, int(tail.compression)) == (orc.rows, orc.stride, orc.compression)
    assert tail.block_size == (orc.block if orc.compression else 0)
    assert tail.user_metadata == orc.user
    assert tail.columns == len(orc.types)
    assert [
        (s.offset, s.index_length, s.data_length, s.footer_length, s.rows) for s in tail.stripes
    ] == [(s.offset, s.index_length, s.data_length, s.footer_length, s.rows) for s in orc.stripes]  # fmt: skip
    assert [m.number_of_values for m in tail.file_statistics] == [o.one(m, 1) for m in orc.file_statistics()]
    for number, found in enumerate(tail.stripe_statistics):
        assert [m.number_of_values for m in found] == [o.one(m, 1) for m in orc.stripe_statistics(number)]
    assert tail.version == (0, 12)
    assert tail.writer_version == o.one(orc.postscript, 6)


def test_a_tail_beyond_the_first_read_is_read_whole() -> None:
    schema = f"struct<{','.join(f'column_number_{i}:int' for i in range(2000))}>"
    data = tables.orc_bytes(schema, [], tables.Layout(compression="none"))
    source = MemorySource(data)
    tail = read_tail(source)
    assert tail.columns == 2001
    # the end, the first bytes, and the tail: never the whole of a large file
    assert [size for _, size in source.reads][:2] == [16 * 1024, 3]
    assert len(source.reads) == 3


def test_only_the_logical_length_counts() -> None:
    tail = read_tail(MemorySource(SMALL + b"half written", length=len(SMALL)))
    assert (tail.rows, tail.length) == (50, len(SMALL))


def test_a_stripe_is_index_data_and_footer() -> None:
    stripe = tail_of(SMALL).stripes[1]
    assert stripe.length == stripe.index_length + stripe.data_length + stripe.footer_length
    assert stripe.offset == 3 + tail_of(SMALL).stripes[0].length


@pytest.mark.parametrize("data", [ZLIB, SMALL], ids=["zlib", "none"])
def test_a_file_that_is_cut_anywhere_is_corrupt(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(CorruptError, match="/t/cut"):
            tail_of(data[:length], "/t/cut")


def test_a_flipped_bit_in_the_tail_is_an_error_of_ours_or_a_tail() -> None:
    orc = o.read_orc(SMALL)
    start = len(SMALL) - 1 - sum(orc.tail_lengths)
    generator = random.Random(7)
    refused = []
    for _ in range(1500):
        data = bytearray(SMALL)
        data[generator.randrange(start, len(data))] ^= 1 << generator.randrange(8)
        try:
            tail = tail_of(bytes(data))
        except AcidError as error:
            refused.append(str(error))
        else:
            assert sum(stripe.rows for stripe in tail.stripes) == tail.rows
    assert len(refused) > 300
    assert all("/t/file" in text for text in refused)


def with_footer(changes: dict[int, list[Any]]) -> bytes:
    orc = o.read_orc(SMALL)
    return o.with_tail(orc, {**orc.footer, **changes})


def with_postscript(changes: dict[int, list[Any]]) -> bytes:
    orc = o.read_orc(ZLIB)
    return o.with_tail(dataclasses.replace(orc, postscript={**orc.postscript, **changes}), orc.footer)


def with_stripe(number: int, changes: dict[int, list[Any]], footer: dict[int, list[Any]] | None = None) -> bytes:
    stripes = list(o.read_orc(SMALL).footer[3])
    stripes[number] = o.encode({**o.parse(stripes[number]), **changes})
    return with_footer({3: stripes, **(footer or {})})


def with_stripe_statistics(keep: int, columns: int) -> bytes:
    orc = o.read_orc(SMALL)
    found = [o.encode({1: o.parse(raw)[1][:columns]}) for raw in orc.metadata[1][:keep]]
    return o.with_tail(orc, orc.footer, {1: found} if found else {})


DAMAGED = {
    "no file": (b"", "0 bytes are too few"),
    "another format": (b"PAR1" * 10, "no postscript length|name ORC|not a valid message"),
    "no header": (b"XRC" + SMALL[3:], "does not start with ORC"),
    "no magic": (with_postscript({8000: [b"XRC"]}), "does not carry the name ORC"),
    "a block size of 0": (with_postscript({3: [0]}), "compression block size is 0"),
    "a block size of 8 MiB": (with_postscript({3: [1 << 23]}), "compression block size is 8388608"),
    "fewer rows than the stripes": (with_footer({6: [49]}), "its stripes have 50 rows and its footer says 49"),
    "statistics of another tree": (with_footer({7: [b""]}), "statistics of 1 columns and 3 columns"),
    "a stripe behind the end": (with_stripe(1, {3: [1 << 40]}), "stripe 1 of /t/file"),
    "a stripe inside another": (with_stripe(1, {1: [3]}), "stripe 1 of /t/file"),
    "a stripe before the header's end": (with_stripe(0, {1: [0]}), "stripe 0 of /t/file"),
    "more rows than Java can count": (with_stripe(0, {5: [1 << 31]}, {6: [(1 << 31) + 40]}), "2147483648 rows"),
    "too few stripe statistics": (with_stripe_statistics(2, 3), "5 stripes and statistics of 2 stripes"),
    "a name of no letters": (with_footer({5: [o.encode({1: [b"\xff"]})]}), "a name in its metadata is not UTF-8"),
    "stripe statistics of another tree": (with_stripe_statistics(5, 2), "statistics of 2 columns and 3 columns"),
}
REFUSED = {
    "encrypted": (with_footer({10: [b"\x0a\x00"]}), "because it is encrypted"),
    "an encrypted stripe": (with_stripe(2, {6: [1]}), "stripe 2 of /t/file: because it is encrypted"),
    "a stripe with keys": (with_stripe(2, {7: [b"key"]}), "stripe 2 of /t/file: because it is encrypted"),
    "a codec from the future": (with_postscript({2: [7]}), "compression kind 7 is not known"),
    "version 2.0": (with_postscript({4: [b"\x02\x00"]}), r"file version 2\.0 is newer"),
    "version 0.13": (with_postscript({4: [b"\x00\x0d"]}), r"file version 0\.13 is newer"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_corrupt_and_names_the_file(name: str) -> None:
    data, reason = DAMAGED[name]
    with pytest.raises(CorruptError, match=reason) as caught:
        tail_of(data)
    assert "/t/file" in str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_and_names_the_file(name: str) -> None:
    data, reason = REFUSED[name]
    with pytest.raises(RefusedError, match=reason) as caught:
        tail_of(data)
    assert "/t/file" in str(caught.value)


def test_only_javas_writer_versions_are_counted() -> None:
    orc = o.read_orc(SMALL)

    def written_by(writer: int, version: int) -> bytes:
        changed = dataclasses.replace(orc, postscript={**orc.postscript, 6: [version]})
        return o.with_tail(changed, {**orc.footer, 9: [writer]})

    assert tail_of(written_by(0, ORC_14)).writer_version == ORC_14
    assert tail_of(written_by(1, ORC_14 + 1)).writer == 1
    with pytest.raises(RefusedError, match=rf"writer version {ORC_14 + 1} is newer than {ORC_14}"):
        tail_of(written_by(0, ORC_14 + 1))


def test_a_file_without_a_version_is_of_version_0_11() -> None:
    orc = o.read_orc(SMALL)
    postscript = {number: values for number, values in orc.postscript.items() if number != 4}
    assert tail_of(o.with_tail(dataclasses.replace(orc, postscript=postscript), orc.footer)).version == (0, 11)


def test_missing_statistics_are_none_and_not_zeros() -> None:
    assert tail_of(with_stripe_statistics(0, 3)).stripe_statistics == ()
    orc = o.read_orc(SMALL)
    footer = {number: values for number, values in orc.footer.items() if number != 7}
    assert tail_of(o.with_tail(orc, footer)).file_statistics == ()
