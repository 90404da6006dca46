"""Basic statistics: what is counted, and which parameters have to be changed."""

from __future__ import annotations

import pytest

from acidlib.model.names import Generation
from acidlib.model.snapshots import all_committed
from acidlib.planning.results import BasicStatistics, basic_statistics, changes
from acidlib.planning.state import acid_state
from unit.planning.listings import listing

ACCURATE = '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true"}}'
OF_COLUMNS = '{"COLUMN_STATS":{"a":"true"}}'
ONE = BasicStatistics(files=1, bytes=100, rows=7)


def found(*names: str, results: tuple[str, ...] = (), mark: int = 9, rows: int | None = 7) -> BasicStatistics:
    there = listing(*names)
    state = acid_state(there, all_committed("db.t", mark), generation=Generation.HIVE4)
    return basic_statistics(state, there, results=results, rows=rows)


def test_only_what_readers_read_is_counted() -> None:
    names = ("base_0000003_v0000011", "delta_0000001_0000001_0000", "delta_0000004_0000004_0000")
    hidden = ("base_0000003_v0000011/_orc_acid_version", "_tmp_acidlib/bucket_00000", "delta_0000012_0000012_0000")
    assert found(*names, *hidden, results=names[:1]) == BasicStatistics(files=2, bytes=200, rows=None)


def test_rows_are_known_where_nothing_but_the_result_is_read() -> None:
    result = "base_0000003_v0000011"
    assert found(result, "delta_0000001_0000001_0000", results=(result,)).rows == 7
    assert found(result, "delta_0000001_0000001_0000", results=("base_0000002_v0000010",)).rows is None
    assert found(result, results=(result,), rows=None).rows is None
    assert found("000000_0", "delta_0000001_0000001_0000").rows is None


def test_original_files_and_deletes_count_as_in_hive() -> None:
    assert found("000000_0", "000001_0", "delete_delta_0000001_0000001_0000").files == 3


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, {"numFiles": "1", "totalSize": "100", "numRows": "7"}),
        ({"numFiles": "1", "totalSize": "100", "numRows": "7", "other": "x"}, {}),
        ({"numFiles": "3", "totalSize": "100", "numRows": "9"}, {"numFiles": "1", "numRows": "7"}),
        ({"numFiles": "3", "totalSize": "9", "numRows": "9", "COLUMN_STATS_ACCURATE": OF_COLUMNS},
         {"numFiles": "1", "totalSize": "100", "numRows": "7"}),
        ({"numFiles": "3", "totalSize": "9", "numRows": "9", "COLUMN_STATS_ACCURATE": ACCURATE},
         {"numFiles": "1", "totalSize": "100"}),
        ({"numFiles": "3", "totalSize": "9", "numRows": "9", "COLUMN_STATS_ACCURATE": "true"},
         {"numFiles": "1", "totalSize": "100"}),
    ],
)  # fmt: skip
def test_rows_that_are_claimed_to_be_right_are_left_alone(parameters: dict[str, str], expected: dict[str, str]) -> None:
    assert changes(parameters, ONE) == expected
