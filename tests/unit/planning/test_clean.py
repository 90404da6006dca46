"""What may be removed: the cases of Hive's TestCleaner, retention, and the faults of Hive that are not copied."""

import pytest
from located import at

from acidlib.errors import RefusedError
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.names import LONG_MAX, Generation
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList, ValidWriteIdList, all_committed
from acidlib.planning.clean import CleanPlan, cleanable, is_reached, left_over

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


def listing(*names: str) -> Listing:
    """Directories (one bucket file each) and files of 100 bytes, by name."""
    files = []
    for name in names:
        is_directory = name.startswith(("base_", "delta_", "delete_delta_")) and "/" not in name
        files.append(ListedFile(path=f"{name}/bucket_00000" if is_directory else name, length=100, modified=0.0))
    return Listing(location=at("/t"), files=tuple(files))


def plan(
    names: list[str],
    mark: int,
    generation: Generation = HIVE3,
    write_ids: ValidWriteIdList | None = None,
    *,
    now: float = 1000.0,
    retention: float = 0.0,
    published: float | None = 0.0,
    published_at: dict[str, float] | None = None,
    txns: ValidTxnList = ALL_COMMITTED,
) -> CleanPlan:
    return cleanable(
        listing(*names),
        mark,
        write_ids or all_committed("t", mark),
        generation=generation,
        now=now,
        retention_seconds=retention,
        newest_publication=published,
        published_at=published_at or {},
        txns=txns,
    )


def removed(*args: object, **options: object) -> list[str]:
    return sorted(removal.path for removal in plan(*args, **options).remove)


CASES = {
    "cleanupAfterMajorTableCompaction": (["base_20", "delta_21_22", "delta_23_24", "base_25"], 25, ["base_25"]),
    "cleanupAfterMinorTableCompaction": (
        ["base_20", "delta_21_22", "delta_23_24", "delta_21_24"],
        24,
        ["base_20", "delta_21_24"],
    ),
    "cleanupAfterMajorPartitionCompactionNoBase": (["delta_1_22", "delta_23_24", "base_25"], 25, ["base_25"]),
    "withSingleBaseCleanerSucceeds": (["base_25"], 25, ["base_25"]),
    "withNewerBaseCleanerSucceeds": (["base_25", "base_26"], 25, ["base_25", "base_26"]),
    "onlyNewerBase": (["base_26", "delta_24_24"], 25, ["base_26", "delta_24_24"]),
    "testCompactionHighWatermarkIsHonored": (
        [
            "base_19",
            "delta_20_20",
            "delta_21_21",
            "delta_22_22",
            "delta_20_22",
            "delta_23_23",
            "delta_24_24",
            "delta_20_24",
        ],
        22,
        ["base_19", "delta_20_22", "delta_20_24", "delta_23_23", "delta_24_24"],
    ),
    "oneMajorAfterTheOther": (
        ["delta_1_1", "delta_2_2", "delta_3_3", "base_3", "delta_4_4", "delta_5_5", "base_5"],
        3,
        ["base_3", "base_5", "delta_4_4", "delta_5_5"],
    ),
    "originals": (["000000_0", "000000_0_copy_1", "HIVE_UNION_SUBDIR_1/000000_0", "base_25"], 25, ["base_25"]),
}


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases_of_hive(case: tuple[list[str], int, list[str]], generation: Generation) -> None:
    names, mark, kept = case
    gone = removed(names, mark, generation)
    assert sorted({name.partition("/")[0] for name in names} - set(gone)) == kept
    # what is left is clean, and what was there was not
    assert left_over(listing(*kept), mark, all_committed("t", mark), generation=generation) == ()
    before = left_over(listing(*names), mark, all_committed("t", mark), generation=generation)
    assert sorted(before) == gone


def test_hive_4_suffixes() -> None:
    assert removed(["base_25", "base_25_v26", "delta_24_24"], 25, HIVE4) == ["base_25", "delta_24_24"]
    concurrent = ["base_20_v21", "delta_22_22", "delta_23_23", "delta_22_23_v24", "delta_22_23_v25"]
    assert removed(concurrent, 23, HIVE4) == ["delta_22_22", "delta_22_23_v24", "delta_23_23"]


def test_a_result_whose_transaction_has_not_committed_makes_nothing_obsolete() -> None:
    names = ["base_20", "delta_21_22", "base_22_v26"]
    opened = ValidTxnList.parse("30:26:26:")
    assert removed(names, 22, HIVE4, txns=opened) == []
    assert left_over(listing(*names), 22, all_committed("t", 22), generation=HIVE4) == ("base_20", "delta_21_22")


def test_aborted_directories_go_by_hive_4s_rules_and_stay_by_hive_3s_until_covered() -> None:
    write_ids = ValidWriteIdList.parse("t:22:9223372036854775807::21,22")
    names = ["delta_20_20", "delta_21_21", "delta_22_22"]
    assert removed(names, 22, HIVE4, write_ids) == ["delta_21_21", "delta_22_22"]
    assert removed(names, 22, HIVE3, write_ids) == []


def test_hive_3_covers_aborted_directories() -> None:
    write_ids = ValidWriteIdList.parse("t:22:9223372036854775807::21")
    names = ["delta_20_20", "delta_21_21", "delta_22_22", "delta_20_22"]
    assert removed(names, 22, HIVE3, write_ids) == ["delta_20_20", "delta_21_21", "delta_22_22"]


def test_base_of_an_aborted_overwrite_replaces_nothing() -> None:
    # Hive 3.1's cleaner takes base_7 for good and deletes base_5 and delta_6_6, which readers need
    write_ids = ValidWriteIdList.parse("t:9:9223372036854775807::7")
    names = ["base_5", "delta_6_6", "base_7", "delta_8_8", "delta_9_9", "delta_8_9"]
    assert removed(names, 9, HIVE3, write_ids) == ["delta_8_8", "delta_9_9"]
    assert removed([*names, "base_9"], 9, HIVE3, write_ids) == [*sorted({*names})]


def test_deltas_across_the_mark_make_nothing_obsolete() -> None:
    for generation in (HIVE3, HIVE4):
        assert removed(["delta_5_5", "delta_4_12"], 9, generation) == []


def test_writes_after_the_mark_are_never_looked_at() -> None:
    names = ["base_5", "delta_6_6", "base_30"]
    for generation in (HIVE3, HIVE4):
        assert removed(names, 6, generation, all_committed("t", LONG_MAX)) == []


@pytest.mark.parametrize("mark", [-1, LONG_MAX])
def test_without_a_recorded_mark_nothing_is_cleaned(mark: int) -> None:
    with pytest.raises(RefusedError, match="recorded no high-water mark"):
        plan(["base_5", "delta_4_4"], mark)


def test_a_mark_of_0_is_that_of_original_files_alone() -> None:
    names = ["000000_0", "base_-9223372036854775808", "delta_1_1", "delta_1_2"]
    for generation in (HIVE3, HIVE4):
        assert removed(names, 0, generation) == ["000000_0"]


def test_what_is_removed_is_told() -> None:
    branch = "HIVE_UNION_SUBDIR_1"
    names = ["000000_0", f"{branch}/000000_0", f"{branch}/000001_0", "delta_3_3", "base_5"]
    found = plan(names, 5, published_at={"base_5": 3.0})
    found_removals = {
        entry.path: (entry.is_directory, entry.files, entry.length, entry.reason) for entry in found.remove
    }
    assert found_removals == {
        "000000_0": (False, 1, 100, "covered by base_5"),
        branch: (True, 2, 200, "covered by base_5"),
        "delta_3_3": (True, 1, 100, "covered by base_5"),
    }
    assert (found.blocked, found.first_seen) == ((), ())


def test_retention_since_the_newest_publication() -> None:
    names, known = ["delta_3_3", "base_5"], {"base_5": 100.0}
    waiting = plan(names, 5, now=599.9, retention=300, published=300.0, published_at=known)
    assert waiting.remove == ()
    assert [entry.path for entry in waiting.blocked] == ["delta_3_3"]
    assert removed(names, 5, now=600.0, retention=300, published=300.0, published_at=known) == ["delta_3_3"]


def test_retention_since_somebody_elses_directory_was_first_seen() -> None:
    names = ["delta_3_3", "delta_4_4", "delta_3_4", "base_2", "base_1"]
    first = plan(names, 5, now=1000.0, retention=300, published=100.0, published_at={"base_2": 100.0})
    assert [entry.path for entry in first.remove] == ["base_1"]
    assert first.first_seen == ("delta_3_4",)
    assert {entry.path for entry in first.blocked} == {"delta_3_3", "delta_4_4"}
    known = {"base_2": 100.0, "delta_3_4": 1000.0}
    assert removed(names, 5, now=1299.9, retention=300, published=100.0, published_at=known) == ["base_1"]
    assert removed(names, 5, now=1300.0, retention=300, published=100.0, published_at=known) == [
        "base_1",
        "delta_3_3",
        "delta_4_4",
    ]


def test_nothing_goes_without_a_publication() -> None:
    found = plan(["delta_3_3", "base_5"], 5, published=None)
    assert found.remove == ()
    assert [entry.reason for entry in found.blocked] == ["no publication on this partition is known"]


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize("directory", ["other_table", "p=2", "sub", "p=1/q=2"])
def test_a_directory_that_may_be_another_tables_stays(generation: Generation, directory: str) -> None:
    """Hive removes it: a table whose location is above another one's empties the other one."""
    names = ["000000_0", f"{directory}/000000_0", "delta_3_3", "base_5"]
    found = plan(names, 5, generation)
    assert [entry.path for entry in found.remove] == ["000000_0", "delta_3_3"]
    assert [entry.path for entry in found.kept] == [directory.partition("/")[0]]
    assert "another table or partition may lie there" in found.kept[0].reason
    assert left_over(listing(*names[1:2], "base_5"), 5, all_committed("t", 5), generation=generation) == ()


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize(
    ("names", "marks", "reached"),
    [
        (["base_2", "base_3"], [2], False),  # an INSERT OVERWRITE after a compaction that still waits
        (["base_2", "base_3"], [2, 3], True),
        (["delta_1_1", "delta_2_2", "base_2"], [2], True),
        (["delta_1_1", "delta_2_2", "base_2", "delta_3_3"], [2], True),
        (["delta_1_1", "base_1", "base_3"], [1], False),
        (["delta_1_1", "base_1"], [], False),
        (["000000_0", "base_0"], [0], True),
        (["base_3"], [], True),
    ],
)
def test_what_a_cleaning_that_waits_already_reaches(
    names: list[str], marks: list[int], reached: bool, generation: Generation
) -> None:
    assert is_reached(listing(*names), 3, all_committed("t", 3), marks, generation=generation) is reached


def test_what_was_aborted_above_a_mark_is_not_reached_by_it() -> None:
    write_ids = ValidWriteIdList.parse("t:3:9223372036854775807::3")
    names = ["delta_1_1", "base_2", "delta_3_3"]
    assert not is_reached(listing(*names), 3, write_ids, [2], generation=HIVE4)
    assert is_reached(listing(*names), 3, write_ids, [2], generation=HIVE3)  # there it waits for what will cover it
