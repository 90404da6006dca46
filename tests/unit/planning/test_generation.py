"""Which generation of Hive wrote a directory, told by names that Hive 3 cannot read."""

from __future__ import annotations

import pytest

from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing
from acidlib.planning.generation import detect_generation

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


@pytest.mark.parametrize(
    ("paths", "expected", "told"),
    [
        ([], HIVE3, "nothing there is of Hive 4"),
        (["base_0000005/bucket_00000", "delta_0000006_0000006_0000/bucket_00000"], HIVE3, "nothing there"),
        (["000000_0", "000000_0_copy_1"], HIVE3, "nothing there"),
        (["base_0000005_v0000009/bucket_00000"], HIVE4, "base_0000005_v0000009 has a visibility suffix"),
        (["delta_1_5_v0000009/bucket_00000"], HIVE4, "delta_1_5_v0000009 has"),
        (["delete_delta_1_5_v9/bucket_00000"], HIVE4, "delete_delta_1_5_v9 has"),
        (["delta_0000006_0000006_0000/bucket_00000_0"], HIVE4, "bucket_00000_0 has an attempt suffix"),
        (["delta_0000006_0000006_0000/bucket_00000_flush_length"], HIVE3, "nothing there"),
        (["_tmp_x/base_0000005_v0000009/bucket_00000_0"], HIVE3, "nothing there"),
        (["delta_0000006_0000006_0000/_tmp/bucket_00000_0"], HIVE3, "nothing there"),
        (["x_v0000009/000000_0"], HIVE3, "nothing there"),
    ],
)
def test_a_generation_is_told_by_a_name(paths: list[str], expected: Generation, told: str) -> None:
    files = tuple(ListedFile(path=path, length=1, modified=0.0) for path in paths)
    found, why = detect_generation(Listing(location="/t", files=files))
    assert found is expected
    assert told in why


def test_an_empty_directory_with_a_suffix_counts() -> None:
    assert detect_generation(Listing(location="/t", files=(), directories=("base_0000005_v9",)))[0] is HIVE4
