"""What may be removed: the cases of Hive's TestCleaner, retention, what is read still, and what was rolled back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from located import at

from acidlib.acid.listing import ListedFile, Listing
from acidlib.acid.names import LONG_MAX, Generation
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList, ValidWriteIdList, all_committed
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.tables import TableRef
from acidlib.planning.clean import (
    COMMIT_MS,
    AgeRule,
    CleanPlan,
    NotedWrite,
    OpenReader,
    due_cleanings,
    marks_cover_cleaning,
    notes_to_keep,
    places_below,
    plan_cleaning,
    readers_of,
    remaining_obsolete,
    rolled_back_directories,
    still_reading_reason,
)
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


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
    return plan_cleaning(
        listing(*names),
        mark,
        write_ids or all_committed("t", mark),
        names=generation,
        age=AgeRule(
            now=now, retention_seconds=retention, newest_publication=published, published_at=published_at or {}
        ),
        seen=published_at or {},
        txns=txns,
    )


def removed(*args: object, **options: object) -> list[str]:
    return sorted(plan(*args, **options).remove)


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
    assert remaining_obsolete(listing(*kept), mark, all_committed("t", mark), names=generation) == ()
    before = remaining_obsolete(listing(*names), mark, all_committed("t", mark), names=generation)
    assert sorted(before) == gone


ABORTED = ValidWriteIdList.parse("t:22:9223372036854775807::21,22")
OVERWRITE = ValidWriteIdList.parse("t:9:9223372036854775807::7")
AFTER_OVERWRITE = ["base_5", "delta_6_6", "base_7", "delta_8_8", "delta_9_9", "delta_8_9"]


@pytest.mark.parametrize(
    ("generations", "names", "mark", "write_ids", "expected"),
    [
        ([HIVE4], ["base_25", "base_25_v26", "delta_24_24"], 25, None, ["base_25", "delta_24_24"]),
        (
            [HIVE4],
            ["base_20_v21", "delta_22_22", "delta_23_23", "delta_22_23_v24", "delta_22_23_v25"],
            23,
            None,
            ["delta_22_22", "delta_22_23_v24", "delta_23_23"],
        ),
        # what was aborted goes by Hive 4's rules, by Hive 3's once something covers it
        ([HIVE4], ["delta_20_20", "delta_21_21", "delta_22_22"], 22, ABORTED, ["delta_21_21", "delta_22_22"]),
        ([HIVE3], ["delta_20_20", "delta_21_21", "delta_22_22"], 22, ABORTED, []),
        ([HIVE3], ["delta_21_21", "delta_22_22", "delta_20_22"], 22, ABORTED, ["delta_21_21", "delta_22_22"]),
        # Hive 3.1's cleaner takes base_7 for good and deletes base_5 and delta_6_6, which readers need
        ([HIVE3], AFTER_OVERWRITE, 9, OVERWRITE, ["delta_8_8", "delta_9_9"]),
        ([HIVE3], [*AFTER_OVERWRITE, "base_9"], 9, OVERWRITE, sorted(AFTER_OVERWRITE)),
        # across the mark, and after it
        ([HIVE3, HIVE4], ["delta_5_5", "delta_4_12"], 9, None, []),
        ([HIVE3, HIVE4], ["base_5", "delta_6_6", "base_30"], 6, all_committed("t", LONG_MAX), []),
        # a mark of 0 is that of original files alone
        ([HIVE3, HIVE4], ["000000_0", "base_-9223372036854775808", "delta_1_1", "delta_1_2"], 0, None, ["000000_0"]),
    ],
)
def test_what_a_mark_and_a_list_let_go(
    generations: list[Generation], names: list[str], mark: int, write_ids: ValidWriteIdList | None, expected: list[str]
) -> None:
    for generation in generations:
        assert removed(names, mark, generation, write_ids) == expected


def test_a_result_whose_transaction_has_not_committed_makes_nothing_obsolete() -> None:
    names = ["base_20", "delta_21_22", "base_22_v26"]
    opened = ValidTxnList.parse("30:26:26:")
    assert removed(names, 22, HIVE4, txns=opened) == []
    assert remaining_obsolete(listing(*names), 22, all_committed("t", 22), names=HIVE4) == (
        "base_20",
        "delta_21_22",
    )


@pytest.mark.parametrize("mark", [-1, LONG_MAX])
def test_without_a_recorded_mark_nothing_is_cleaned(mark: int) -> None:
    with pytest.raises(RefusedError, match="recorded no high-water mark"):
        plan(["base_5", "delta_4_4"], mark)


def test_what_is_removed_is_told() -> None:
    branch = "HIVE_UNION_SUBDIR_1"
    names = ["000000_0", f"{branch}/000000_0", f"{branch}/000001_0", "delta_3_3", "base_5"]
    found = plan(names, 5, published_at={"base_5": 3.0})
    assert found.remove == dict.fromkeys(("000000_0", branch, "delta_3_3"), "covered by base_5")
    assert (found.blocked, found.first_seen) == ({}, ())


def test_retention_since_the_newest_publication() -> None:
    names, known = ["delta_3_3", "base_5"], {"base_5": 100.0}
    waiting = plan(names, 5, now=599.9, retention=300, published=300.0, published_at=known)
    assert waiting.remove == {}
    assert list(waiting.blocked) == ["delta_3_3"]
    assert removed(names, 5, now=600.0, retention=300, published=300.0, published_at=known) == ["delta_3_3"]


def test_retention_since_somebody_elses_directory_was_first_seen() -> None:
    names = ["delta_3_3", "delta_4_4", "delta_3_4", "base_2", "base_1"]
    first = plan(names, 5, now=1000.0, retention=300, published=100.0, published_at={"base_2": 100.0})
    assert list(first.remove) == ["base_1"]
    assert first.first_seen == ("delta_3_4",)
    assert set(first.blocked) == {"delta_3_3", "delta_4_4"}
    known = {"base_2": 100.0, "delta_3_4": 1000.0}
    assert removed(names, 5, now=1299.9, retention=300, published=100.0, published_at=known) == ["base_1"]
    assert removed(names, 5, now=1300.0, retention=300, published=100.0, published_at=known) == [
        "base_1",
        "delta_3_3",
        "delta_4_4",
    ]


def test_where_age_proves_nothing_only_what_may_be_read_stays() -> None:
    place, write_ids = listing("base_1", "base_2", "delta_3_3", "delta_4_4", "delta_3_4"), all_committed("t", 5)
    still_read = {"delta_3_4": "lock 7 is held since before it"}
    found = plan_cleaning(place, 5, write_ids, names=HIVE3, age=None, seen={"delta_3_4"}, still_read=still_read)
    assert list(found.remove) == ["base_1"]
    assert found.blocked == dict.fromkeys(("delta_3_3", "delta_4_4"), "lock 7 is held since before it")
    assert found.first_seen == ("base_2",)
    assert not plan_cleaning(place, 5, write_ids, names=HIVE3, age=None, still_read={"": "lock 7"}).remove


def test_nothing_goes_without_a_publication() -> None:
    found = plan(["delta_3_3", "base_5"], 5, published=None)
    assert found.remove == {}
    assert list(found.blocked.values()) == ["no publication on this partition is known"]


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
@pytest.mark.parametrize("directory", ["other_table", "p=2", "sub", "p=1/q=2"])
def test_a_directory_that_may_be_another_tables_stays(generation: Generation, directory: str) -> None:
    """Hive removes it: a table whose location is above another one's empties the other one."""
    names = ["000000_0", f"{directory}/000000_0", "delta_3_3", "base_5"]
    found = plan(names, 5, generation)
    assert list(found.remove) == ["000000_0", "delta_3_3"]
    ((kept, reason),) = found.kept.items()
    assert kept == directory.partition("/")[0]
    assert "another table or partition may lie there" in reason
    assert remaining_obsolete(listing(*names[1:2], "base_5"), 5, all_committed("t", 5), names=generation) == ()


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
    assert marks_cover_cleaning(listing(*names), 3, all_committed("t", 3), marks, names=generation) is reached


def test_what_was_aborted_above_a_mark_is_not_reached_by_it() -> None:
    write_ids = ValidWriteIdList.parse("t:3:9223372036854775807::3")
    names = ["delta_1_1", "base_2", "delta_3_3"]
    assert not marks_cover_cleaning(listing(*names), 3, write_ids, [2], names=HIVE4)
    assert marks_cover_cleaning(
        listing(*names), 3, write_ids, [2], names=HIVE3
    )  # there it waits for what will cover it


TABLE, OTHER = TableRef("lake", "t"), TableRef("lake", "other")
MARK, NEXT, COMMIT = 5, 20, 1_000_000_000
LATER = COMMIT + COMMIT_MS + 1


def waits(*opened: OpenReader) -> str | None:
    return still_reading_reason(TABLE, readers_of(TABLE, opened), mark=MARK, next_txn_id=NEXT, commit_ms=COMMIT)


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        # of this table, opened before the commit: by any write id, for a snapshot without the result may be complete
        (OpenReader(txn_id=10, started_ms=1, tables={TABLE: 3}), "transaction 10 is open since before its commit"),
        (OpenReader(txn_id=10, started_ms=1, tables={TABLE: 6}), "reads the table from write id 6"),
        (OpenReader(txn_id=NEXT, started_ms=1, tables={TABLE: 99}), "transaction 20 is open since before its commit"),
        # a snapshot, and nothing registered yet: it may be of any table
        (OpenReader(txn_id=10, started_ms=1), "registered nothing"),
        # opened about when it committed: the commit may not have been seen yet
        (OpenReader(txn_id=21, started_ms=COMMIT + COMMIT_MS, tables={TABLE: 6}), "transaction 21 may be older"),
        (OpenReader(txn_id=21, started_ms=COMMIT + 1), "transaction 21 may be older than its commit"),
        (OpenReader(txn_id=21, started_ms=None, tables={TABLE: 6}), "transaction 21 may be older"),
        # clocks say after, ids say before
        (OpenReader(txn_id=NEXT, started_ms=LATER, tables={TABLE: 6}), "transaction 20 is open since before"),
        # by Hive's own rule
        (OpenReader(txn_id=21, started_ms=LATER, tables={TABLE: MARK}), "from write id 5"),
        # another table, or a newer snapshot
        (OpenReader(txn_id=10, started_ms=1, tables={OTHER: 1}), None),
        (OpenReader(txn_id=10, started_ms=1, tables={TableRef("other", "t"): 1}), None),
        (OpenReader(txn_id=21, started_ms=COMMIT + 1, tables={OTHER: 1}), None),
        (OpenReader(txn_id=21, started_ms=LATER, tables={TABLE: MARK + 1}), None),
        (OpenReader(txn_id=21, started_ms=LATER), None),
    ],
)
def test_which_readers_are_waited_for(reader: OpenReader, words: str | None) -> None:
    assert (waits(reader) is None) if words is None else (words in (waits(reader) or ""))


def test_one_of_many_is_enough_and_the_oldest_is_named() -> None:
    free = [OpenReader(txn_id=txn, started_ms=1, tables={OTHER: 1}) for txn in range(1, 9)]
    both = OpenReader(txn_id=12, started_ms=1, tables={OTHER: 1, TABLE: 6})
    assert waits() is None
    assert waits(*free) is None
    assert "transaction 9 " in (waits(both, OpenReader(txn_id=9, started_ms=1), *free) or "")
    assert "transaction 12 " in (waits(*free, both) or "")


HOUR = 3_600_000
NOW = 100 * HOUR


def note(txn: int, write_id: int | None = None, partition: str | None = None, **more) -> NotedWrite:
    """A note of a transaction that was rolled back an hour ago; its write id is its own number."""
    known = {"compacts": False, "is_open": False, "started_ms": NOW - HOUR} | more
    ref = TableRef("d", "t", partition)
    return NotedWrite(txn_id=txn, ref=ref, write_id=txn if write_id is None else write_id, **known)


@pytest.mark.parametrize(
    ("notes", "limits", "expected"),
    [
        ([note(1), note(2), note(9, partition="p=2")], {"most": 2}, {}),
        (
            [note(1), note(2), note(3), note(9, partition="p=2")],
            {"most": 2},
            {None: ("3 rolled back transactions are more than 2", None)},
        ),
        ([note(1), note(2, started_ms=NOW)], {"longest_ms": HOUR}, {}),
        (
            [note(1), note(2, started_ms=NOW)],
            {"longest_ms": HOUR - 1},
            {None: ("a rolled back transaction was begun 1 h ago, more than 60 min", None)},
        ),
        ([note(1), note(2, started_ms=NOW)], {"longest_ms": -1}, {}),
        # all came after an open writer
        ([note(5), note(4, is_open=True)], {"most": 0}, {}),
    ],
)
def test_places_are_due_by_number_and_age(
    notes: list[NotedWrite], limits: dict[str, int], expected: dict[str | None, tuple[str, int | None]]
) -> None:
    found = due_cleanings(notes, **{"most": 1000, "longest_ms": 12 * HOUR} | limits, now_ms=NOW)
    assert {one.ref[2]: (one.reason, one.below) for one in found} == expected


def test_an_open_writer_bounds_its_own_place_alone() -> None:
    notes = [note(3, partition="p=1"), note(3, partition="p=2"), note(5, partition="p=1")]
    opened = [note(4, partition="p=1", is_open=True), note(2, partition="p=3", is_open=True)]
    found = due_cleanings([*opened, *notes], most=0, longest_ms=-1, now_ms=NOW)
    assert [(one.ref[2], one.below) for one in found] == [("p=1", 4), ("p=2", None)]
    assert [[note.txn_id for note in notes if one.concerns(note)] for one in found] == [[3], [3]]


def test_what_holds_nothing_else_goes() -> None:
    there = listing(
        "delta_0000004_0000004_0000", "delete_delta_0000004_0000004_0000", "delta_0000004_0000006", "base_0000006",
        "delta_0000004_0000007", "delta_0000003_0000004", "base_0000003", "base_0000006_v0000008",
        "delta_0000001_0000004_v0000009", "base_0000005",
        compacted=("base_0000005",), directories=("original", "_tmp_delta_0000004_0000004"),
    )  # fmt: skip
    found = rolled_back_directories(there, {9}, (4, 5, 6))
    assert set(found) == {
        "delta_0000004_0000004_0000", "delete_delta_0000004_0000004_0000", "delta_0000004_0000006", "base_0000006",
        "delta_0000001_0000004_v0000009",
    }  # fmt: skip
    assert found["delta_0000001_0000004_v0000009"] == "its transaction 9 was rolled back"


def test_a_name_that_does_not_parse_stops_everything() -> None:
    with pytest.raises(CorruptError, match="delta_x"):
        rolled_back_directories(listing("delta_x"), (), ())
    with pytest.raises(CorruptError, match="delta_x"):
        notes_to_keep(["delta_x"], [note(1)])


COMPACTED = note(50, 5, compacts=True)
REBALANCED = replace(note(50), write_id=None)


@pytest.mark.parametrize(
    ("kept", "name", "holds"),
    [
        (note(50, 5), "delta_0000005_0000005_0000", True),
        (note(50, 5), "delete_delta_0000005_0000005", True),
        (note(50, 5), "delta_0000001_0000009", True),
        (note(50, 5), "base_0000005", True),
        (note(50, 5), "base_0000006", False),
        (note(50, 5), "delta_0000006_0000009", False),
        (note(50, 5), "delta_0000001_0000009_v0000077", False),
        (note(50, 5), "base_0000005_v0000077", False),
        (note(50, 5), "base_0000003_v0000050", True),
        (note(50, 5), "original", False),
        # of a compaction the transaction counts, and not its mark; of a rebalance, too
        (COMPACTED, "delta_0000005_0000005_0000", False),
        (COMPACTED, "base_0000005", False),
        (COMPACTED, "base_0000005_v0000050", True),
        (REBALANCED, "delta_0000050_0000050", False),
        (REBALANCED, "base_0000005_v0000050", True),
    ],
)
def test_a_note_stays_while_a_directory_may_hold_its_rows(kept: NotedWrite, name: str, holds: bool) -> None:
    found = notes_to_keep(["delta_0000002_0000002", name], [kept, note(51, 20)])
    assert found == ({kept: name} if holds else {})


def test_a_compacted_base_of_hive_3_holds_no_rolled_back_rows() -> None:
    assert notes_to_keep(["base_0000005"], [note(50, 5)], {"base_0000005"}) == {}


def test_places_below_a_table_are_found_by_the_directories_alone() -> None:
    files = ("p=1/delta_0000004_0000004_0000/bucket_00000", "p=1/base_0000003/bucket_00000", "p=2/q=b/000000_0")
    there = Listing(
        location=at("/t"),
        files=tuple(ListedFile(path=path, length=1, modified=0) for path in files),
        directories=("p=2", "p=2/q=a", "p=2/q=a/delta_0000004_0000004_0000", "_tmp", "_tmp/delta_0000009_0000009"),
    )
    assert places_below(there) == {
        "p=1": {"delta_0000004_0000004_0000", "base_0000003"}, "p=2/q=a": {"delta_0000004_0000004_0000"},
    }  # fmt: skip
    assert places_below(listing("delta_0000001_0000001")) == {"": {"delta_0000001_0000001"}}
