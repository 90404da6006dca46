"""Which stripes may be copied, each reason by itself; calendars; deleted and aborted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acid_inputs import B0, COLUMNS, aligned, events, ids, opened, original, rows, without_stride, write
from judges import tables
from orc_memory import file_options

from acidlib.errors import RefusedError
from acidlib.model.units import DataFile
from acidlib.orc.proto import Calendar, Compression
from acidlib.orc.reader import JAVA_WRITER, ORC_135
from acidlib.orc.schema import acid_tree, row_struct
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.bucket import check_calendar, count_set, no_copy_reason, row_stripes
from acidlib.rewrite.output import InputStripe
from acidlib.rows.files import OpenInput, OpenInputs
from acidlib.rows.row_ids import Keys, StripeKeys, row_masks

UNKNOWN, HYBRID, PROLEPTIC = map(int, Calendar)
SWITCH = (date(1582, 10, 15) - date(1970, 1, 1)).days


@pytest.fixture
def stripe(tmp_path: Path) -> Iterator[OpenInput]:
    """A zlib file whose one stripe may be copied."""
    layout = tables.Layout(stride=5)
    file = events(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", tables.inserts(7, rows(20)), layout)
    with opened(file) as inputs:
        yield inputs[0]


def options_for(file: OpenInput, **changes: Any) -> FileOptions:
    tail = file.tail
    values = {"compression": tail.compression, "block_size": tail.block_size, "stride": tail.stride}
    return file_options(acid_tree(row_struct(tail.root)), **{**values, **changes})


def reason(file: OpenInput, target: OpenInput | None = None, **changes: Any) -> str | None:
    """Why the first stripe is not copied under the options of the untouched file."""
    base = target or file
    keys = StripeKeys(aligned(row_struct(base.tail.root), file), 0)
    return no_copy_reason(keys, options_for(base, **changes))


def with_tail(file: OpenInput, **changes: Any) -> OpenInput:
    return replace(file, tail=replace(file.tail, **changes))


def stripes_of(*files: OpenInput, deleted: Keys | None = None) -> tuple[InputStripe, ...]:
    """The stripes of open files, of which the first has the table's columns."""
    target = row_struct(files[0].tail.root)
    inputs = OpenInputs(files=tuple(aligned(target, file) for file in files), empty=())
    return row_stripes(inputs, deleted or Keys.empty(), ids(), options_for(files[0]))


def test_rows_without_acid_columns_need_them(tmp_path: Path) -> None:
    with opened(original(tmp_path / "000000_0", rows(3))) as inputs:
        assert reason(inputs[0]) == "rows without ACID columns"


def test_other_columns_need_new_streams(stripe: OpenInput, tmp_path: Path) -> None:
    data = tables.acid_bytes("struct<a:int>", tables.inserts(6, [(1,)]), tables.Layout(stride=5))
    with opened(write(tmp_path / "delta_0000006_0000006_0000" / "bucket_00000", data)) as inputs:
        assert reason(inputs[0], stripe) == "other columns than the table has now"


@pytest.mark.parametrize(
    ("changes", "options", "told"),
    [
        ({}, {}, None),
        ({}, {"block_size": 2 * 65_536}, None),
        ({"writer": JAVA_WRITER, "writer_version": ORC_135}, {}, None),
        ({"writer": 1, "writer_version": 0}, {}, None),
        ({}, {"compression": Compression.ZSTD}, "compressed with ZLIB, not ZSTD"),
        ({}, {"compression": Compression.NONE}, "compressed with ZLIB, not NONE"),
        ({}, {"block_size": 1024}, "compression blocks of 65,536 bytes, above 1,024"),
        ({}, {"stride": 10_000}, "row index stride 5, not 10000"),
        ({"stride": 0}, {}, "no row index"),
        ({"version": (0, 11)}, {}, "file version 0.11"),
        ({"stripe_statistics": ()}, {}, "no true statistics"),
        (
            {"writer": JAVA_WRITER, "writer_version": ORC_135 - 1},
            {},
            "writer version 5, whose timestamp statistics are in local time",
        ),
    ],
)
def test_a_stripe_is_copied_unless_its_file_or_the_result_is_a_reason_against_it(
    stripe: OpenInput, changes: dict[str, Any], options: dict[str, Any], told: str | None
) -> None:
    assert reason(with_tail(stripe, **changes), stripe, **options) == told


def test_blocks_do_not_matter_without_a_codec(tmp_path: Path) -> None:
    file = events(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", tables.inserts(7, rows(20)))
    with opened(file) as inputs:
        assert reason(inputs[0], block_size=0) is None


def test_statistics_that_lie_keep_a_stripe_from_being_copied(stripe: OpenInput) -> None:
    statistics = stripe.tail.stripe_statistics[0]
    root = type(statistics[0])()
    root.CopyFrom(statistics[0])
    root.number_of_values = 0
    liar = with_tail(stripe, stripe_statistics=((root, *statistics[1:]),))
    assert reason(liar, stripe) == "no true statistics"


DATED = "struct<d:date,n:array<timestamp>>"
OLD_SECONDS, NEW_SECONDS = SWITCH * 86_400 - 1, SWITCH * 86_400


def dated(tmp_path: Path, day: int | None, second: int | None, change: Any = None) -> DataFile:
    row = (day, None if second is None else [(second, 0)])
    found = tables.inserts(7, [row, (None, None), (20_000, [(1_700_000_000, 0)])])
    data = tables.acid_bytes(DATED, found, tables.Layout(stride=5))
    path = tmp_path / "delta_0000007_0000007_0000" / "bucket_00000"
    return write(path, data if change is None else change(data))


def check(file: OpenInput, calendar: int) -> None:
    keys = StripeKeys(aligned(row_struct(file.tail.root), file), 0)
    check_calendar(keys, options_for(file, calendar=calendar))


@pytest.mark.parametrize(
    ("day", "second", "column"),
    [(SWITCH - 1, None, 7), (None, OLD_SECONDS, 9), (SWITCH - 300_000, NEW_SECONDS, 7), (SWITCH, OLD_SECONDS, 9)],
)
def test_dates_before_the_switch_are_refused_in_another_calendar(
    tmp_path: Path, day: int | None, second: int | None, column: int
) -> None:
    with opened(dated(tmp_path, day, second)) as inputs:
        for mine, result in ((UNKNOWN, UNKNOWN), (HYBRID, UNKNOWN), (UNKNOWN, HYBRID), (PROLEPTIC, PROLEPTIC)):
            check(with_tail(inputs[0], calendar=mine), result)
        for mine, result in ((UNKNOWN, PROLEPTIC), (HYBRID, PROLEPTIC), (PROLEPTIC, HYBRID), (PROLEPTIC, UNKNOWN)):
            with pytest.raises(RefusedError, match=rf"stripe 0 of \S*bucket_00000: its column {column} may"):
                check(with_tail(inputs[0], calendar=mine), result)


@pytest.mark.parametrize(("day", "second"), [(SWITCH, NEW_SECONDS), (None, None), (0, 0)])
def test_from_the_switch_on_both_calendars_agree(tmp_path: Path, day: int | None, second: int | None) -> None:
    with opened(dated(tmp_path, day, second)) as inputs:
        check(with_tail(inputs[0], calendar=HYBRID), PROLEPTIC)
        check(with_tail(inputs[0], calendar=PROLEPTIC), HYBRID)


def test_without_true_statistics_a_column_may_hold_any_date(tmp_path: Path) -> None:
    with (
        opened(dated(tmp_path, 0, 0, without_stride)) as inputs,
        pytest.raises(RefusedError, match="column 7 may hold dates before 1582-10-15"),
    ):
        check(with_tail(inputs[0], calendar=HYBRID), PROLEPTIC)


def test_a_table_without_dates_has_no_calendar(stripe: OpenInput) -> None:
    check(with_tail(stripe, calendar=PROLEPTIC, stride=0), HYBRID)


def key_set(*row_ids: int, write_id: int = 7, bucket: int = B0) -> Keys:
    return Keys(
        *(np.array(part, dtype=np.int64) for part in zip(*((write_id, bucket, r) for r in row_ids), strict=True))
    )


def test_rows_in_the_delete_set_are_found_and_ids_read_only_where_some_may_be(stripe: OpenInput) -> None:
    keys = StripeKeys(stripe, 0)
    assert row_masks(keys, Keys.empty(), ids()) == (None, None)
    assert row_masks(keys, key_set(3, write_id=8), ids()) == (None, None)
    assert row_masks(keys, key_set(20, 99), ids()) == (None, None)
    assert keys._ids is None
    gone, aborted = row_masks(keys, key_set(0, 19, 20), ids())
    assert gone is not None
    assert (np.flatnonzero(gone).tolist(), aborted) == ([0, 19], None)


def test_a_row_both_deleted_and_aborted_counts_as_aborted(tmp_path: Path) -> None:
    found: list[tables.Event] = [(0, 5, B0, row, 5 + row % 2, (row, "x")) for row in range(6)]
    with opened(events(tmp_path / "delta_0000005_0000006" / "bucket_00000", found)) as inputs:
        keys = StripeKeys(inputs[0], 0)
        for deleted, aborted, counts in (((0, 1, 2), "6", [2, 3]), ((0, 1, 2), "", [3, 0]), ((), "6", [0, 3])):
            found = key_set(*deleted, write_id=5) if deleted else Keys.empty()
            assert [count_set(mask) for mask in row_masks(keys, found, ids(aborted=aborted))] == counts


def test_keys_that_do_not_ascend_are_refused_rather_than_searched(tmp_path: Path) -> None:
    found = [(0, 7, B0, row, 7, (row, "x")) for row in (3, 1, 2)]
    bad = tables.orc_bytes(tables.acid_schema(COLUMNS), found, tables.Layout(stride=5))
    with (
        opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", bad)) as inputs,
        pytest.raises(RefusedError, match=r"stripe 0 of \S*bucket_00000: its keys do not ascend; INSERT OVERWRITE"),
    ):
        row_masks(StripeKeys(inputs[0], 0), key_set(2), ids())


@pytest.mark.parametrize("change", [bytes, without_stride], ids=["true statistics", "none"])
def test_more_rows_than_ids_are_refused_when_they_are_planned(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """The ids of a file start anew: without any delete event, too, and by statistics where they are true."""
    found = [(0, 7, B0, row % 12, 7, (row, "x")) for row in range(20)]
    bad = change(tables.orc_bytes(tables.acid_schema(COLUMNS), found, tables.Layout(stride=5)))
    with (
        opened(write(tmp_path / "delta_0000007_0000007_0000" / "bucket_00000", bad)) as inputs,
        pytest.raises(RefusedError, match=r"stripe 0 of \S*bucket_00000: its keys do not ascend; INSERT OVERWRITE"),
    ):
        stripes_of(*inputs)


def test_facts_of_every_stripe_in_order(tmp_path: Path) -> None:
    path = tmp_path / "delta_0000007_0000007_0000"
    files = (
        events(path / "bucket_00000", tables.inserts(7, rows(30))),
        original(tmp_path / "000000_0", rows(4), write_id=8),
    )
    with opened(*files) as inputs:
        found = stripes_of(*inputs, deleted=key_set(12, 13))
        facts = [(s.facts.file, s.facts.number, s.facts.rows, s.facts.deleted, s.facts.no_copy) for s in found]
        assert facts == [(0, 0, 10, 0, None), (0, 1, 10, 2, None), (0, 2, 10, 0, None), (1, 0, 4, 0, None)]
        assert [s.facts.column_changes for s in found] == [None, None, None, "row ids that are added"]
        assert [s.facts.length for s in found[:3]] == [stripe.length for stripe in inputs[0].tail.stripes]
        assert {s.facts.timezone for s in found} == {"UTC"}
