"""The tail of a file and its stripes: what another parser finds, and an error for every kind of damage."""

from __future__ import annotations

import dataclasses
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import one_column
import pyorc
import pytest
from judges import fixtures, mutants, surplus, tables
from judges import orc_tail as o
from orc_memory import MemorySource, file_options, longs, octets, root_column, stripe_reader, tail_of, tree, written

from acidlib.acid.names import Generation
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import align
from acidlib.orc.columns import Column
from acidlib.orc.proto import Kind, StreamKind
from acidlib.orc.reader import ORC_14, null_column, read_tail, under_target

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


DAMAGED_TAILS = {
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
REFUSED_TAILS = {
    "encrypted": (with_footer({10: [b"\x0a\x00"]}), "it is encrypted"),
    "an encrypted stripe": (with_stripe(2, {6: [1]}), "stripe 2 of /t/file: it is encrypted"),
    "a stripe with keys": (with_stripe(2, {7: [b"key"]}), "stripe 2 of /t/file: it is encrypted"),
    "a codec from the future": (with_postscript({2: [7]}), "compression kind 7 is not known"),
    "version 2.0": (with_postscript({4: [b"\x02\x00"]}), r"file version 2\.0 is newer"),
    "version 0.13": (with_postscript({4: [b"\x00\x0d"]}), r"file version 0\.13 is newer"),
}


@pytest.mark.parametrize("name", [*DAMAGED_TAILS, *REFUSED_TAILS])
def test_damage_is_corrupt_what_is_not_understood_refused_and_the_file_named(name: str) -> None:
    data, reason = (DAMAGED_TAILS | REFUSED_TAILS)[name]
    with pytest.raises(CorruptError if name in DAMAGED_TAILS else RefusedError, match=reason) as caught:
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
    assert len(tail_of(o.with_tail(orc, footer)).file_statistics) == 0


DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)


def only(schema: str, values: list[Any], **layout: Any) -> Column:
    """The column a of struct<a:schema> with these values."""
    layout = {"dictionary": 0.0, **layout}
    data = tables.orc_bytes(f"struct<a:{schema}>", [(value,) for value in values], tables.Layout(**layout))
    return root_column(data).children[0]


def items(array: Any) -> list[int]:
    assert array is not None
    return list(array.tolist())


# --- what the arrays hold ---------------------------------------------------------------------------------------------


def test_floats_keep_their_bits() -> None:
    data = one_column.orc_bytes(
        one_column.Column(
            kind=o.DOUBLE, encoding=DIRECT, streams=[(o.DATA, bytes.fromhex("010000000000f07f0000000000000080"))]
        ),
        2,
    )
    assert items(root_column(data).children[0].values) == [0x7FF0000000000001, 0x8000000000000000]


@pytest.mark.parametrize("name", ["GMT", "UTC", "Etc/UTC", "Europe/Berlin"])
def test_all_spellings_of_utc_are_one_zone_and_another_stays_as_it_is(name: str) -> None:
    data = tables.orc_bytes("struct<a:timestamp>", [((0, 0),)], tables.Layout(timezone=name))
    assert stripe_reader(data).timezone == (name if name == "Europe/Berlin" else "UTC")


def test_bloom_filters_are_found() -> None:
    rows = [(i,) for i in range(12)]
    plain = stripe_reader(tables.orc_bytes("struct<a:int>", rows, tables.Layout(stride=5)))
    assert plain.bloom_filters() == {}
    assert plain.bloom_filter_index(1) is None
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<a:int>", bloom_filter_columns=[1], row_index_stride=5) as writer:
        writer.writerows(rows)
    filtered = stripe_reader(out.getvalue())
    assert filtered.bloom_filters() == {1: StreamKind.BLOOM_FILTER_UTF8}
    assert len(filtered.bloom_filter_index(1).bloom_filter) == 3  # type: ignore[union-attr]
    assert filtered.bloom_filter_index(0) is None


# --- columns that are not in the file ---------------------------------------------------------------------------------

ANY = "struct<a:int,b:boolean,c:float,d:double,e:string,f:binary,g:decimal(5,2),h:timestamp,i:array<int>,j:map<int,int>,k:uniontype<int,string>,l:struct<x:char(2)>>"  # noqa: E501 - one type


def test_null_columns_have_slots_and_no_value_at_any_level() -> None:
    for node in tree(ANY).children:
        column = null_column(node, 3)
        assert (column.slots, column.count, items(column.present)) == (3, 0, [False] * 3)
        assert all(child.slots == 0 for child in column.children)
        assert null_column(node, 0).present is None


def test_widening_a_tinyint_does_not_touch_one_that_stays() -> None:
    source = tree("struct<a:tinyint>")
    column = Column(kind=Kind.STRUCT, slots=1, children=(Column(kind=Kind.BYTE, slots=1, values=octets(b"\xff")),))
    same = align(source, source, where="f", reader=Generation.HIVE3, matching=ColumnMatching(by_position=False))
    assert items(under_target(column, same, source, calendar=0).children[0].values) == [255]


# --- damage -----------------------------------------------------------------------------------------------------------


def column_of(kind: int, encoding: int, *streams: tuple[int, bytes], attributes: Any = None) -> bytes:
    return one_column.orc_bytes(
        one_column.Column(kind=kind, encoding=encoding, streams=streams, attributes=attributes), 3
    )


def repeated(value: int, count: int = 3) -> bytes:
    """RLE version 1, unsigned."""
    return bytes([count - 3, 0, value])


DAMAGED_STREAMS = {
    "too few integers": column_of(o.INT, DIRECT, (o.DATA, repeated(2, 4))),
    "no data at all": column_of(o.INT, DIRECT_V2),
    "half a double": column_of(o.DOUBLE, DIRECT, (o.DATA, bytes(20))),
    "lengths that do not add up": column_of(o.STRING, DIRECT, (o.DATA, b"abc"), (o.LENGTH, repeated(2))),
    "an entry that is not there": column_of(
        o.STRING, DICTIONARY, (o.DATA, repeated(1)), (o.LENGTH, b""), (o.DICTIONARY_DATA, b"")
    ),
    "a dictionary of bytes": column_of(o.BINARY, DICTIONARY, (o.DATA, repeated(1))),
    "a length beyond all bounds": column_of(
        o.BINARY, DIRECT, (o.DATA, b"abc"), (o.LENGTH, b"\xfd" + b"\xff" * 8 + b"\x7f" + b"\x01\x01")
    ),
    "present bits for other slots": column_of(o.INT, DIRECT, (o.PRESENT, b"\xfe\xff\xff"), (o.DATA, repeated(2))),
    "a decimal without scales": column_of(o.DECIMAL, DIRECT, (o.DATA, b"\x02\x04\x06"), attributes={5: [5], 6: [2]}),
}


@pytest.mark.parametrize("name", DAMAGED_STREAMS)
def test_a_damaged_stream_is_corrupt_and_names_its_place(name: str) -> None:
    with pytest.raises(CorruptError, match=r"column 1 in stripe 0 of /t/file: "):
        root_column(DAMAGED_STREAMS[name])


def test_a_union_tag_without_a_type_is_corrupt() -> None:
    data = tables.orc_bytes("struct<a:uniontype<int,string>>", [(1,), ("x",)], tables.Layout(compression="none"))
    changed = mutants.replace_stream(o.read_orc(data), 0, 1, o.DATA, b"\xfe\x00\x02")
    with pytest.raises(CorruptError, match=r"column 1 in stripe 0 of /t/file: a union tag has no type"):
        root_column(changed)


def test_an_unknown_encoding_is_refused_with_its_place() -> None:
    with pytest.raises(RefusedError, match=r"column 1 in stripe 0 of /t/file: column encoding 4 is not known"):
        root_column(column_of(o.INT, 4, (o.DATA, repeated(2))))


def test_an_unknown_stream_is_refused_and_an_encrypted_one_too() -> None:
    for kind in (9, 10, 11):
        with pytest.raises(RefusedError, match=rf"column 1 in stripe 0 of /t/file: stream kind {kind}"):
            stripe_reader(column_of(o.INT, DIRECT, (o.DATA, repeated(2)), (kind, b"x")))


def footer_changed(changes: dict[int, list[Any]]) -> bytes:
    """A file of one column with another stripe footer."""
    data = tables.orc_bytes("struct<a:int>", [(1,)], tables.Layout(compression="none"))
    orc = o.read_orc(data)
    stripe = orc.stripes[0]
    start = stripe.offset + stripe.index_length + stripe.data_length
    footer = {**o.parse(data[start : start + stripe.footer_length]), **changes}
    body, tail = data[:start] + o.encode(footer), data[start + stripe.footer_length :]
    info = {**o.parse(orc.footer[3][0]), 4: [len(body) - start]}
    return o.with_tail(dataclasses.replace(orc, data=body + tail), {**orc.footer, 3: [o.encode(info)]})


def stream(kind: int, column: int, length: int) -> bytes:
    return o.encode({1: [kind], 2: [column], 3: [length]})


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({2: [b""]}, CorruptError, "encodings of 1 columns and the file has 2"),
        ({3: [b"\xff\xfe"]}, CorruptError, "time zone is not UTF-8"),
        ({4: [b"x"]}, RefusedError, "encrypted"),
        ({1: [stream(o.DATA, 1, 1 << 40)]}, CorruptError, "column 1 .* stream directory is damaged"),
        ({1: [stream(o.DATA, 2, 1)]}, CorruptError, "column 2 .* stream directory is damaged"),
        ({1: [stream(o.DATA, 1, 1)] * 2}, CorruptError, "column 1 .* stream directory is damaged"),
        ({1: [stream(o.DATA, 1, 1)]}, CorruptError, r"streams end \d+ bytes early"),
    ],
)
def test_a_damaged_stripe_footer_names_its_place(
    changes: dict[int, list[Any]], error: type[AcidError], reason: str
) -> None:
    with pytest.raises(error, match=reason) as caught:
        stripe_reader(footer_changed(changes))
    assert "stripe 0 of /t/file" in str(caught.value)


def test_more_slots_than_a_stripe_can_have_are_corrupt_before_memory_is_asked_for() -> None:
    reader = stripe_reader(tables.orc_bytes("struct<a:int>", [(1,)]))
    with pytest.raises(CorruptError, match=r"stripe 0 of /t/file: 2199023255552 values"):
        reader.column(reader.tail.root, 1 << 41)
    assert np.array_equal(longs(1), root_column(tables.orc_bytes("struct<a:int>", [(1,)])).children[0].values)


def test_a_stream_without_a_kind_is_corrupt() -> None:
    orc = o.read_orc(tables.orc_bytes("struct<a:int>", [(1,), (None,)], tables.Layout(compression="none")))

    def change(footer: o.Message) -> o.Message:
        streams = [o.parse(raw) for raw in footer[1]]
        return {**footer, 1: [o.encode({n: v for n, v in s.items() if n != 1 or v != [o.PRESENT]}) for s in streams]}

    with pytest.raises(CorruptError, match=r"column 1 in stripe 0 of /t/file: its stream directory is damaged"):
        stripe_reader(mutants.change_stripe_footer(orc, 0, change))


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("claimed", [2, 12, 2**31 - 1])
def test_rows_are_proved_by_the_smallest_column(claimed: int, nulls: bool) -> None:
    """So nobody makes room for rows that are not there."""
    schema = "struct<n:struct<s:array<string>>,a:int,b:double>"
    rows = [((["x"],), None if nulls and row == 1 else 7, row / 3) for row in range(3)]
    orc = o.read_orc(tables.orc_bytes(schema, rows, tables.Layout(compression="none")))
    stripe_reader(orc.data).prove_rows()
    info = o.encode({**o.parse(orc.footer[3][0]), 5: [claimed]})
    reader = stripe_reader(o.with_tail(orc, {**orc.footer, 3: [info], 6: [claimed]}))
    with pytest.raises(CorruptError, match="column 4 in stripe 0 of /t/file"):
        reader.prove_rows()


TEXTS = "struct<a:int,s:string,z:binary,l:array<double>>"
TEXT_ROWS = [(i if i % 3 else None, f"row {i % 5}" if i % 4 else None, b"x" * i, [i / 3] * (i % 3)) for i in range(50)]


def stated(orc: o.OrcFile, column: int, change: Any) -> bytes:
    """The file with other statistics of a column in its first stripe."""
    columns = orc.stripe_statistics(0)
    content = {1: [o.encode(change(message) if n == column else message) for n, message in enumerate(columns)]}
    return o.with_tail(orc, orc.footer, {**orc.metadata, 1: [o.encode(content)]})


def typed(message: o.Message, field: int, change: o.Message) -> o.Message:
    return {**message, field: [o.encode({**o.parse(o.one(message, field)), **change})]}


@pytest.mark.parametrize("dictionary", [0.0, 1.0])
@pytest.mark.parametrize("name", ["a zero", "zeros", "ones", "half a run", "a damaged chunk", "a cut header"])
def test_surplus_is_not_looked_at(name: str, dictionary: float) -> None:
    data = tables.orc_bytes(TEXTS, TEXT_ROWS, tables.Layout(dictionary=dictionary))
    found, expected = (
        stripe_reader(file).column(tail_of(data).root, 50) for file in (surplus.with_surplus(data, name), data)
    )
    for column, same in zip(found.children, expected.children, strict=True):
        for part in ("values", "lengths", "data"):
            assert np.array_equal(getattr(column, part), getattr(same, part))
    assert np.array_equal(found.children[3].children[0].values, expected.children[3].children[0].values)
    stripe_reader(surplus.with_surplus(data, name)).prove_rows()


@pytest.mark.parametrize(
    ("column", "place", "change"),
    [
        *((column, 0, lambda m: {**m, 1: [m[1][0] - 1]}) for column in range(1, 6)),
        *((column, 0, lambda m: {n: v for n, v in m.items() if n != 1}) for column in (0, 1)),
        (2, 2, lambda m: typed(m, 4, {3: [2 * (5 * 37) + 2]})),
        (2, 2, lambda m: {n: v for n, v in m.items() if n != 4}),
        (3, 3, lambda m: typed(m, 8, {1: [2]})),
    ],
)
def test_surplus_of_what_statistics_do_not_confirm_is_damage(column: int, place: int, change: Any) -> None:
    clean = tables.orc_bytes(TEXTS, TEXT_ROWS)
    orc = o.read_orc(clean)
    changed = stated(orc, column, change)
    root_column(changed)
    place = place or column or 1
    with pytest.raises(
        CorruptError, match=rf"column {place} in stripe 0 of /t/file: .*do not confirm 50 rows with \d+ "
    ):
        root_column(surplus.with_surplus(changed, "ones", lambda stream: stream.column == place))
    root_column(surplus.with_surplus(clean, "ones", lambda stream: stream.column == place))


def test_statistics_of_hive_confirm_its_values() -> None:
    """But for those that Hive 3.1 writes without a row index, as in minor compactions."""
    read = 0
    for path in fixtures.orc_files("hive3/*/*/**/*") + fixtures.orc_files("hive4/*/*/**/*"):
        data = path.read_bytes()
        more, tail = surplus.with_surplus(data, "ones"), tail_of(data)
        for number, stripe in enumerate(tail.stripes):
            if tail.stride:
                assert root_column(more, number).slots == stripe.rows
                read += 1
            else:
                with pytest.raises(CorruptError, match=f"do not confirm {stripe.rows} rows"):
                    root_column(more, number)
    assert read > 200


def test_without_statistics_surplus_is_damage() -> None:
    orc = o.read_orc(tables.orc_bytes(SCHEMA, ROWS))
    bare = o.with_tail(orc, orc.footer, {})
    root_column(bare)
    with pytest.raises(CorruptError, match=r"bytes follow the last value .*do not confirm 50 rows with 50 values"):
        root_column(surplus.with_surplus(bare, "a zero"))


def test_a_stream_that_is_damaged_before_its_last_value_is_told_by_its_damage() -> None:
    orc = o.read_orc(tables.orc_bytes("struct<d:double>", [(i / 3,) for i in range(50)]))
    cut = mutants.replace_chunks(orc, 0, 1, o.DATA, surplus.chunk(bytes(100), is_original=True) + b"\x05")
    with pytest.raises(CorruptError, match=r"column 1 in stripe 0 .* it ends within the chunk header at byte 103"):
        root_column(cut)


def test_a_missing_zone_is_the_readers_and_not_utc() -> None:
    root = tree("struct<a:int>")
    data = written([null_column(root, 2)], file_options(root), timezone="")
    assert stripe_reader(data).timezone == ""
