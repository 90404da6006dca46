"""Opening the inputs of a unit: their order, synthetic keys, and files that are empty, damaged or of other columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from acid_inputs import (
    B0,
    COLUMNS,
    CountedFiles,
    all_keys,
    at,
    at_root,
    delta,
    events,
    full,
    open_all,
    opened,
    original,
    rows,
    write,
)
from judges import tables

from acidlib.errors import CorruptError
from acidlib.rows import files as rows_files
from acidlib.rows.files import open_inputs
from acidlib.rows.row_ids import StripeKeys


def test_originals_are_numbered_on_in_path_order_and_raw_deltas_each_by_themselves(tmp_path: Path) -> None:
    loaded = {"write_id": 4, "statement_id": 2, "directory": "delta_0000004_0000004_0002"}
    files = (
        original(tmp_path / "000000_0", rows(12)),
        original(tmp_path / "000000_0_copy_1", rows(3)),
        original(tmp_path / "d" / "000000_0", rows(2), **loaded),
        original(tmp_path / "d" / "000000_0_copy_1", rows(2), **loaded),
    )
    with opened(*files) as inputs:
        assert [opened.file.first_row for opened in inputs] == [0, 12, 0, 2]
        stripes = [StripeKeys(file, number) for file in inputs for number in range(len(file.tail.stripes))]
        assert [key for stripe in stripes[:3] for key in all_keys(stripe)] == [(0, B0, row) for row in range(15)]
        raw = tables.bucket_property(0, 2)
        assert [key for stripe in stripes[3:] for key in all_keys(stripe)] == [(4, raw, row) for row in range(4)]
        assert stripes[3].current_range() == (4, 4)
        for stripe in stripes:
            stripe.check()
            assert not stripe.statistics_true


def test_files_without_bytes_are_reported_and_those_without_rows_left_out(tmp_path: Path) -> None:
    files = (
        write(tmp_path / "delta_1_1" / "bucket_00000", b""),
        events(tmp_path / "delta_2_2" / "bucket_00000", []),
        delta(tmp_path),
    )
    with open_all(files) as inputs:
        assert [file.file for file in inputs.files] == [files[2]]
        assert inputs.empty == (full(files[0]),)


def test_every_file_is_closed_whatever_happens(tmp_path: Path) -> None:
    data = CountedFiles()
    good, bad = delta(tmp_path), write(tmp_path / "delta_8_8" / "bucket_00000", b"no ORC at all, but long enough")
    with open_all((good,), data):
        assert data.opened == [full(good)]
    assert data.opened == []
    with pytest.raises(CorruptError, match="bucket_00000"), open_all((good, bad), data):
        pass
    assert data.opened == []
    with pytest.raises(CorruptError):
        at_root(data).tail(bad)
    assert data.opened == []


def test_a_bucket_file_without_the_acid_columns_is_corrupt(tmp_path: Path) -> None:
    file = write(tmp_path / "delta_1_1" / "bucket_00000", tables.orc_bytes(COLUMNS, rows(3)))
    with pytest.raises(CorruptError, match=r"bucket_00000: its name promises ACID events"), opened(file):
        pass


def test_of_many_files_only_the_last_tails_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = CountedFiles()
    found = [delta(tmp_path)]
    monkeypatch.setattr(rows_files, "MAX_TAIL_BYTES", 64 * at_root().tail(found[0]).memory_size)
    place = at_root(data)
    for number in range(64):
        path = tmp_path / f"{number:03d}"
        path.write_bytes(Path(full(found[0])).read_bytes())
        found.append(at(path))
    for file in (*found, found[-1], found[1]):
        assert place.tail(file).name == full(file)
    assert set(data.tails.values()) == {1}
    place.tail(found[0])
    assert data.tails[full(found[0])] == 2


def test_what_takes_more_than_all_that_may_be_kept_is_kept_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_files, "MAX_TAIL_BYTES", 1)
    monkeypatch.setattr(rows_files, "MAX_STRIPE_BYTES", 1)
    data = CountedFiles()
    file, place = delta(tmp_path), at_root(data)
    place.tail(file)
    with open_inputs((file,), place) as inputs:
        assert inputs.files[0].stripe(0) is inputs.files[0].stripe(0)
    assert set(data.tails.values()) == {1}
