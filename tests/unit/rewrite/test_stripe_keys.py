"""Keys of stripes: what statistics and key index are believed for, and rows that do not belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acid_inputs import (
    B0,
    B1,
    B3,
    COLUMNS,
    STRIPES,
    all_keys,
    at,
    delta,
    ids,
    opened,
    rows,
    with_key_index,
    without_key_index,
    without_stride,
    write,
)
from judges import fixtures, mutants, tables
from judges import orc_tail as o

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import DataFile
from acidlib.rows.files import key_index
from acidlib.rows.row_ids import StripeKeys, invalid_rows


def test_true_statistics_bound_the_keys_without_decoding(tmp_path: Path) -> None:
    file = delta(tmp_path)
    with opened(file) as inputs:
        stripe = StripeKeys(inputs[0], 1)
        assert stripe.statistics_true
        assert stripe.key_range() == ((7, B0, 10), (7, B0, 19))
        assert (stripe.buckets(), stripe.current_range()) == (frozenset({0}), (7, 7))
        assert stripe.last_key() == (7, B0, 19)
        stripe.check()
        assert stripe._ids is None
        assert stripe.first_key() == (7, B0, 10)


@pytest.mark.parametrize("change", [without_stride, without_key_index])
def test_without_true_statistics_or_key_index_the_keys_are_decoded(tmp_path: Path, change: Any) -> None:
    data = change(tables.acid_bytes(COLUMNS, tables.inserts(7, rows(30)), STRIPES))
    file = write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)
    with opened(file) as inputs:
        stripe = StripeKeys(inputs[0], 1)
        assert stripe.statistics_true is (change is without_key_index)
        assert stripe.key_range() == ((7, B0, 10), (7, B0, 19))
        assert (stripe.last_key(), stripe.first_key()) == ((7, B0, 19), (7, B0, 10))
        assert (stripe.buckets(), stripe.current_range()) == (frozenset({0}), (7, 7))
        stripe.check()


def test_the_false_statistics_of_hives_own_minor_are_not_believed() -> None:
    paths = fixtures.orc_files("hive3/a_crud/after_minor/**/*")
    assert paths
    for path in paths:
        with opened(at(path)) as inputs:
            stripe = StripeKeys(inputs[0], 0)
            assert not stripe.statistics_true
            assert stripe.key_range()[0] == all_keys(stripe)[0]
            assert stripe.last_key() == all_keys(stripe)[-1]


ENTRIES = {
    "one for each stripe": (f"7,{B0},9;7,{B0},19;7,{B0},29;", 3),
    "too few": (f"7,{B0},9;", None),
    "too many": (f"7,{B0},9;" * 4, None),
    "no numbers": ("a,b,c;" * 3, None),
    "two parts": ("7,1;" * 3, None),
    "four parts": ("7,1,2,3;" * 3, None),
    "not even text": ("7,ß,3;" * 3, None),
    "empty": ("", None),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_key_index_counts_only_when_it_has_an_entry_for_each_stripe(tmp_path: Path, name: str) -> None:
    text, count = ENTRIES[name]
    data = with_key_index(tables.acid_bytes(COLUMNS, tables.inserts(7, rows(30)), STRIPES), text)
    file = write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)
    with opened(file) as inputs:
        found = key_index(inputs[0].tail)
        assert (None if found is None else len(found)) == count
        assert [StripeKeys(inputs[0], number).last_key()[2] for number in range(3)] == [9, 19, 29]


def test_a_key_index_is_parsed_once_however_many_stripes_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    monkeypatch.setattr("acidlib.rows.files.key_index", lambda tail: parsed.append(tail) or key_index(tail))
    data = tables.acid_bytes(COLUMNS, tables.inserts(7, rows(300)), STRIPES)
    with opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)) as inputs:
        found = [StripeKeys(inputs[0], number).last_key() for number in range(30)]
        assert (found[0], found[-1]) == ((7, B0, 9), (7, B0, 299))
        assert parsed == [inputs[0].tail]


@pytest.mark.parametrize("wrong", [f"7,{B0},900", f"7,{B1},15", f"6,{B0},19", f"7,{B0},-1", f"8,{B0},0"])
def test_an_entry_that_contradicts_the_statistics_is_not_believed(tmp_path: Path, wrong: str) -> None:
    text = f"7,{B0},9;{wrong};7,{B0},29;"
    data = with_key_index(tables.acid_bytes(COLUMNS, tables.inserts(7, rows(30)), STRIPES), text)
    with opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)) as inputs:
        assert StripeKeys(inputs[0], 1).last_key() == (7, B0, 19)


def test_keys_that_are_decoded_win_over_the_key_index(tmp_path: Path) -> None:
    text = f"7,{B0},9;7,{B0},15;7,{B0},29;"
    data = without_stride(with_key_index(tables.acid_bytes(COLUMNS, tables.inserts(7, rows(30)), STRIPES), text))
    with opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)) as inputs:
        assert StripeKeys(inputs[0], 1).last_key() == (7, B0, 19)


def stripe_of(path: Path, found: list[tables.Event], change: Any = None, bucket: int = 0) -> DataFile:
    data = tables.acid_bytes(COLUMNS, sorted(found, key=tables.event_key), STRIPES)
    return write(path, data if change is None else change(data), bucket=bucket)


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
@pytest.mark.parametrize("other", [B1, 1, B3])
def test_rows_of_another_bucket_are_corrupt_and_named(tmp_path: Path, change: Any, other: int) -> None:
    found = tables.inserts(7, rows(4))
    found.append((0, 7, other, 0, 7, (1, "x")))
    with opened(stripe_of(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", found, change)) as inputs:
        number = 3 if other == B3 else 1
        with pytest.raises(
            CorruptError,
            match=rf"stripe 0 of \S*bucket_00000: it holds rows of bucket {number}, .*; INSERT OVERWRITE of ",
        ):
            StripeKeys(inputs[0], 0).check()


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_buckets_between_properties_of_two_codecs_are_seen(tmp_path: Path, change: Any) -> None:
    """3 as Hive 2 wrote it and as Hive 3 does are bucket 3; the properties of others lie between them."""
    found: list[tables.Event] = [(0, 7, prop, 0, 7, (1, "x")) for prop in (3, B0, B1, B3)]
    with opened(stripe_of(tmp_path / "delta_0000007_0000007_0000" / "bucket_00003", found, change, 3)) as inputs:
        stripe = StripeKeys(inputs[0], 0)
        assert stripe.buckets() == {0, 1, 3}
        with pytest.raises(CorruptError, match="rows of bucket 0, not only of 3"):
            stripe.check()


def test_statements_of_one_bucket_are_one_bucket(tmp_path: Path) -> None:
    found = [(0, 7, tables.bucket_property(3, statement), 0, 7, (1, "x")) for statement in (0, 1, 4095)]
    with opened(stripe_of(tmp_path / "delta_0000007_0000007" / "bucket_00003", found, bucket=3)) as inputs:
        StripeKeys(inputs[0], 0).check()
        assert StripeKeys(inputs[0], 0).buckets() == {3}


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
@pytest.mark.parametrize(
    "directory", ["delta_0000007_0000007_0000", "delete_delta_0000007_0000007_0000", "base_0000007"]
)
def test_only_inserts_belong_into_deltas_and_only_deletes_into_delete_deltas(
    tmp_path: Path, change: Any, directory: str
) -> None:
    right = tables.DELETE if directory.startswith("delete") else tables.INSERT
    for operation in (tables.INSERT, tables.UPDATE, tables.DELETE):
        file = stripe_of(tmp_path / directory / f"bucket_{operation:05d}", [(operation, 7, B0, 0, 7, None)], change)
        with opened(file) as inputs:
            if operation == right:
                StripeKeys(inputs[0], 0).check()
            else:
                with pytest.raises(RefusedError, match=rf"events of operation {operation} to {operation} where only"):
                    StripeKeys(inputs[0], 0).check()


def test_an_id_column_with_nulls_is_corrupt(tmp_path: Path) -> None:
    bad = tables.orc_bytes(tables.acid_schema(COLUMNS), [(0, 7, B0, 0, 7, None), (0, 7, B0, None, 7, None)], STRIPES)
    file = write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", bad)
    with opened(file) as inputs, pytest.raises(CorruptError, match=r"column 4 in stripe 0 of .*nulls"):
        StripeKeys(inputs[0], 0).ids()


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_rows_count_as_aborted_by_their_current_transaction(tmp_path: Path, change: Any) -> None:
    found: list[tables.Event] = [(0, original_id, B0, row, 5 + row, None) for original_id in (5, 6) for row in range(3)]
    with opened(stripe_of(tmp_path / "delta_0000005_0000007" / "bucket_00000", found, change)) as inputs:
        stripe = StripeKeys(inputs[0], 0)
        mask = invalid_rows(stripe, ids(7, "3,6,900"))
        assert mask is not None
        assert mask.tolist() == [False, True, False] * 2
        assert invalid_rows(stripe, ids(7, "3,900")) is None
        assert invalid_rows(stripe, ids(7)) is None


def test_a_row_above_the_mark_is_corrupt_and_named(tmp_path: Path) -> None:
    with (
        opened(delta(tmp_path)) as inputs,
        pytest.raises(CorruptError, match=r"stripe 2 of .*: it holds write id 7, above the high-water mark 6"),
    ):
        invalid_rows(StripeKeys(inputs[0], 2), ids(6))


@pytest.mark.parametrize("column", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("field", [1, 2])
@pytest.mark.parametrize("place", ["stripe", "file"])
def test_ranges_of_which_stripes_and_file_tell_different_things_are_not_believed(
    tmp_path: Path, place: str, field: int, column: int
) -> None:
    """So a range that is too narrow does not keep a deleted row."""
    orc = o.read_orc(tables.acid_bytes(COLUMNS, tables.inserts(7, rows(10)), STRIPES))
    by = 1 if field == 1 else -1
    if place == "stripe":
        data = mutants.shift_stripe_statistic(orc, 0, column, field=field, by=by)
    else:
        data = mutants.shift_file_statistic(orc, column, field=field, by=by)
    with opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)) as inputs:
        stripe = StripeKeys(inputs[0], 0)
        assert not stripe.statistics_true
        assert stripe.key_range() == ((7, B0, 0), (7, B0, 9))


@pytest.mark.parametrize("whole", [True, False])
def test_stripe_statistics_without_columns_tell_nothing(tmp_path: Path, whole: bool) -> None:
    orc = o.read_orc(tables.acid_bytes(COLUMNS, tables.inserts(7, rows(30)), STRIPES))
    left = [] if whole else [orc.metadata[1][0], b"", orc.metadata[1][2]]
    data = o.with_tail(orc, orc.footer, {1: left})
    with opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", data)) as inputs:
        for number in range(3):
            stripe = StripeKeys(inputs[0], number)
            assert not stripe.statistics_true
            assert stripe.key_range() == ((7, B0, number * 10), (7, B0, number * 10 + 9))
