"""Keys of deleted rows: those near a split, of small files and large ones, each file read once in a task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from acid_inputs import B0, B1, COLUMNS, CountedFiles, opened_by
from judges import tables
from snapshots import schema_of, splits_of

from acidlib.errors import CorruptError
from acidlib.model.units import KeyRange
from acidlib.rows.files import InputFiles
from acidlib.rows.row_ids import Keys
from acidlib.scan import deletes
from acidlib.scan.deletes import DeletedKeys, joined_keys
from acidlib.scan.read import read_table
from acidlib.scan.splits import Scan, Split
from acidlib.stores.renaming.local import LocalDataFiles

SCAN = Scan(table="t", row_type=COLUMNS, columns=(), schema=schema_of([], row_ids=True), row_ids=True)
EVERYWHERE: KeyRange = ((0, 0, 0), (100, B1, 1 << 40))
Found = list[tuple[int, int, int]]


def keys_of(*keys: tuple[int, int, int]) -> Keys:
    return Keys(*(np.array(part, dtype=np.int64) for part in (zip(*keys, strict=True) if keys else ((), (), ()))))


def listed(keys: Keys) -> Found:
    return [keys.key(index) for index in range(len(keys))]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two deltas, and deletes of rows of both in three transactions."""
    for write_id in (1, 2):
        for writer in (0, 1):
            rows = [(number, "row") for number in range(20)]
            events = tables.inserts(write_id, rows, writer=writer)
            path = tmp_path / tables.delta_name(write_id, write_id)
            path.mkdir(exist_ok=True)
            (path / f"bucket_{writer:05d}").write_bytes(tables.acid_bytes(COLUMNS, events))
    for write_id, keys in {3: [(2, B0, 3), (1, B0, 5)], 4: [(1, B0, 4), (1, B1, 9)], 5: [(1, B0, 5)]}.items():
        name = tables.delta_name(write_id, write_id, delete=True)
        tables.write_dir(tmp_path, name, COLUMNS, tables.deletes(write_id, keys))
    return tmp_path


def first_split(place: Path, generation: int = 3) -> Split:
    return splits_of(SCAN, place, generation=generation)[0]


@pytest.mark.parametrize("small", [1 << 20, 0], ids=["small", "large"])
@pytest.mark.parametrize("generation", [3, 4])
def test_keys_of_the_splits_bucket_come_in_order_each_once(
    place: Path, generation: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "SMALL_BYTES", small)
    split = first_split(place, generation)
    files = InputFiles(split.location, LocalDataFiles())
    assert split.file.bucket == 0
    assert listed(DeletedKeys().near(split, files, [EVERYWHERE])) == [(1, B0, 4), (1, B0, 5), (2, B0, 3)]


def test_keys_away_from_the_ranges_are_left_out(place: Path) -> None:
    split = first_split(place)
    files = InputFiles(split.location, LocalDataFiles())
    near = [((1, B0, 5), (1, B0, 9)), ((1, B0, 12), (1, B0, 19))]
    assert listed(DeletedKeys().near(split, files, near)) == [(1, B0, 5)]


@pytest.mark.parametrize("small", [1 << 20, 0], ids=["small", "large"])
def test_whether_a_row_may_be_deleted_is_known_before_it_is_numbered(
    place: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "SMALL_BYTES", small)
    split = first_split(place)
    files = InputFiles(split.location, LocalDataFiles())
    assert DeletedKeys().may_hold_keys(split, files, [((1, B0, 5), (1, B0, 9))])
    assert not DeletedKeys().may_hold_keys(split, files, [((0, B0, 0), (0, B0, 1 << 40)), ((2, B1, 50), (2, B1, 60))])


def test_a_small_file_is_read_once_for_all_splits_of_a_task(place: Path) -> None:
    files = CountedFiles()
    splits = splits_of(SCAN, place)
    assert len(splits) == 4
    assert read_table(SCAN, splits, opened_by(files)).num_rows == 80 - 4
    opened = {path: count for path, count in files.opens.items() if "delete_delta" in path and "bucket_00000" in path}
    assert len(opened) == 3
    assert set(opened.values()) == {2}  # once for each bucket


def test_a_file_of_many_events_is_not_read_as_a_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletes, "SMALL_EVENTS", 0)
    split = first_split(place)
    files = InputFiles(split.location, LocalDataFiles())
    assert listed(DeletedKeys().near(split, files, [((1, B0, 5), (1, B0, 9))])) == [(1, B0, 5)]
    assert listed(DeletedKeys().near(split, files, [EVERYWHERE])) == [(1, B0, 4), (1, B0, 5), (2, B0, 3)]


def test_what_is_kept_is_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletes, "MAX_KEPT_BYTES", 2_500)
    files = CountedFiles()
    splits = splits_of(SCAN, place)
    assert read_table(SCAN, splits, opened_by(files)).num_rows == 80 - 4
    opens = [count for path, count in files.opens.items() if "delete_delta" in path]
    assert max(opens) > 2


def test_hive_4_reads_deletes_by_the_number_in_the_files_name(place: Path) -> None:
    by_bucket = {(split.file.bucket, tuple(file.bucket for file in split.deletes)) for split in splits_of(SCAN, place)}
    assert by_bucket == {(0, (0, 0, 1, 0)), (1, (0, 0, 1, 0))}
    by_bucket = {
        (split.file.bucket, tuple(file.bucket for file in split.deletes))
        for split in splits_of(SCAN, place, generation=4)
    }
    assert by_bucket == {(0, (0, 0, 0)), (1, (1,))}


def test_events_of_another_bucket_are_not_lost_in_silence_where_hive_4_reads(place: Path) -> None:
    path = place / tables.delta_name(6, 6, delete=True) / "bucket_00000"
    path.parent.mkdir()
    path.write_bytes(tables.acid_bytes(COLUMNS, tables.deletes(6, [(1, B0, 0), (1, B1, 1)])))
    files = LocalDataFiles()
    split = first_split(place)
    assert listed(DeletedKeys().near(split, InputFiles(split.location, files), [EVERYWHERE]))[0] == (1, B0, 0)
    split = first_split(place, generation=4)
    with pytest.raises(CorruptError, match=rf"Cannot read {path}: it holds delete events of other buckets than 0"):
        DeletedKeys().near(split, InputFiles(split.location, files), [EVERYWHERE])


def test_joined_keys_ascend_strictly() -> None:
    assert len(joined_keys([])) == 0
    assert listed(joined_keys([keys_of((1, 2, 3))])) == [(1, 2, 3)]
    parts = [keys_of((1, 2, 3), (5, 0, 0)), keys_of((1, 2, 3), (1, 2, 4)), keys_of((0, 9, 9))]
    assert listed(joined_keys(parts)) == [(0, 9, 9), (1, 2, 3), (1, 2, 4), (5, 0, 0)]
    assert listed(joined_keys([keys_of((1, 0, 0)), keys_of((2, 0, 0))])) == [(1, 0, 0), (2, 0, 0)]
