"""What follows from the names in a listing: the generation of Hive, the highest write id, the order of originals."""

from __future__ import annotations

import pytest

from acidlib.acid.listing import detect_generation, highest_write_id, uri_order
from acidlib.acid.names import Generation
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


@pytest.mark.parametrize(
    ("paths", "expected", "reason"),
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
def test_a_generation_is_recognised_by_a_name(paths: list[str], expected: Generation, reason: str) -> None:
    found, why = detect_generation(listing(*paths))
    assert found is expected
    assert reason in why


def test_an_empty_directory_with_a_suffix_counts() -> None:
    assert detect_generation(listing(directories=("base_0000005_v9",)))[0] is HIVE4


def test_the_highest_write_id_is_the_highest_number() -> None:
    names = ("delta_10000000_10000000_0000", "delta_9999999_9999999_0000", "base_9999998")
    assert highest_write_id(listing(directories=names), HIVE3) == 10_000_000
    converted = listing(directories=("base_-9223372036854775808",))
    assert highest_write_id(converted, HIVE3) == 0


def test_original_files_order_is_that_of_quoted_java_strings() -> None:
    # a space is quoted as %20, below a digit and a letter; a letter outside the basic plane sorts by its surrogates
    names = ["d\ufb01/0", "d\U0001f600/0", "d-/0", "d a/0", "d/0", "dA/0", "d_/0"]
    assert sorted(names, key=uri_order) == ["d a/0", "d-/0", "d/0", "dA/0", "d_/0", "d\U0001f600/0", "d\ufb01/0"]
    copies = ["000000_0_copy_2", "000000_0_copy_10", "000000_0", "000000_0_copy_1"]
    assert sorted(copies, key=uri_order) == ["000000_0", "000000_0_copy_1", "000000_0_copy_10", "000000_0_copy_2"]
