"""Directory state: the cases of Hive's TestAcidUtils, Hive 4's own, the deliberate differences, and the reason told."""

from __future__ import annotations

import re

import pytest

from acidlib.acid.names import LONG_MIN, Generation
from acidlib.acid.state import AcidState, NotTaken, PlacePart, ReaderRole, acid_state, place_parts
from acidlib.acid.write_ids import ValidTxnList, ValidWriteIdList, all_committed
from acidlib.errors import CorruptError, RefusedError
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
BOTH = pytest.mark.parametrize("generation", [HIVE3, HIVE4])


def short(names: str) -> list[str]:
    """`63_63_0` and the like with their prefix."""
    plain = re.compile(r"[0-9]{6}_[0-9]|[a-z_].*")
    return [name if plain.fullmatch(name) else f"delta_{name}" for name in names.split()]


def path_of_base(state: AcidState) -> str | None:
    return None if state.base is None else state.base.path


def deltas(state: AcidState) -> list[str]:
    return [delta.path for delta in state.deltas]


MARK_100 = "t:100:9223372036854775807:"
OPEN_4 = "t:100:4:4:"
ORIGINALS = "000000_0 000001_1 000002_0 random _done subdir/000000_0"

# directories and files; list; base; current; obsolete; neither
READER_CASES = {
    "testOriginalDeltas": (
        f"{ORIGINALS} 025_025 029_029 025_030 050_100 101_101",
        MARK_100,
        None,
        "025_030 050_100",
        "025_025 029_029",
        "101_101",
    ),
    "testBaseDeltas": (
        "base_5 base_10 base_49 025_025 029_029 025_030 050_105 90_120",
        MARK_100,
        "base_49",
        "050_105",
        "base_5 base_10 025_030 025_025 029_029",
        "90_120",
    ),
    "testObsoleteOriginals": (
        "base_10 base_5 000000_0 000001_1",
        "t:150:9223372036854775807:",
        "base_10",
        "",
        "base_5 000000_0 000001_1",
        "",
    ),
    "testOverlapingDelta": (
        "0000063_63 000062_62 00061_61 40_60 0060_60 052_55 base_50",
        MARK_100,
        "base_50",
        "40_60 00061_61 000062_62 0000063_63",
        "052_55 0060_60",
        "",
    ),
    "testOverlapingDelta2": (
        "0000063_63_0 000062_62_0 000062_62_3 00061_61_0 40_60 0060_60_1 0060_60_4 0060_60_7 052_55 058_58 base_50",
        MARK_100,
        "base_50",
        "40_60 00061_61_0 000062_62_0 000062_62_3 0000063_63_0",
        "052_55 058_58 0060_60_1 0060_60_4 0060_60_7",
        "",
    ),
    "deltasWithOpenTxnInRead": ("1_1 2_5", OPEN_4, None, "1_1 2_5", "", ""),
    "deltasWithOpenTxnInRead2": ("1_1 2_5 4_4_1 4_4_3 101_101_1", OPEN_4, None, "1_1 2_5", "", "4_4_1 4_4_3 101_101_1"),
    "testBaseWithDeleteDeltas": (
        "base_5 base_10 base_49 025_025 029_029 025_030 050_105"
        " delete_delta_029_029 delete_delta_025_030 delete_delta_050_105 delete_delta_110_110",
        MARK_100,
        "base_49",
        "delete_delta_050_105 050_105",
        "base_5 base_10 delete_delta_025_030 025_030 025_025 delete_delta_029_029 029_029",
        "delete_delta_110_110",
    ),
    "testOverlapingDeltaAndDeleteDelta": (
        "0000063_63 000062_62 00061_61 40_60 0060_60 052_55"
        " delete_delta_00064_64 delete_delta_40_60 delete_delta_052_55 base_50",
        MARK_100,
        "base_50",
        "delete_delta_40_60 40_60 00061_61 000062_62 0000063_63 delete_delta_00064_64",
        "delete_delta_052_55 052_55 0060_60",
        "",
    ),
    "testMinorCompactedDeltaMakesInBetweenDelteDeltaObsolete": (
        "40_60 delete_delta_50_50",
        MARK_100,
        None,
        "40_60",
        "delete_delta_50_50",
        "",
    ),
    "deleteDeltasWithOpenTxnInRead": (
        "1_1 2_5 delete_delta_2_5 delete_delta_3_3 4_4_1 4_4_3 101_101_1",
        OPEN_4,
        None,
        "1_1 delete_delta_2_5 2_5",
        "delete_delta_3_3",
        "4_4_1 4_4_3 101_101_1",
    ),
    "statements of one write id": (
        "delete_delta_7_7_0000 7_7_0000 7_7_0001",
        MARK_100,
        None,
        "delete_delta_7_7_0000 7_7_0000 7_7_0001",
        "",
        "",
    ),
    "a compacted delta of one write id": ("5_5 5_5_0000", MARK_100, None, "5_5", "5_5_0000", ""),
    "the base of converted files is always valid": (
        f"base_{LONG_MIN} 000000_0 10000001_10000001_0000",
        "t:10000001:1:1:",
        f"base_{LONG_MIN}",
        "10000001_10000001_0000",
        "000000_0",
        "",
    ),
    "a base above the mark makes nothing obsolete": ("base_25 base_26", "t:25:30:30:7", "base_25", "", "", "base_26"),
    "an overwrite is valid above an open id": ("base_3 base_6", "t:10:4:4:", "base_6", "", "base_3", ""),
}
HIVE_3_CASES = {
    "of bases with one id one is kept": ("base_05 base_5", MARK_100, "base_05", "", "base_5", ""),
    "ids of eight digits come after those of seven": (
        "10000000_10000000_0000 9999999_9999999_0000 base_9999998",
        "t:10000000:9223372036854775807:",
        "base_9999998",
        "9999999_9999999_0000 10000000_10000000_0000",
        "",
        "",
    ),
}
HIVE_4_CASES = {
    "an open overwrite at the lowest open id is not used": ("base_3_v2 base_4", OPEN_4, "base_3_v2", "", "", "base_4"),
    "the lowest open id counts even if no exception is listed": (
        "base_3_v2 base_6_v7",
        "t:10:4:",
        "base_3_v2",
        "",
        "",
        "base_6_v7",
    ),
    "a compactor's base wins over an overwrite of equal id": (
        "base_25 base_25_v26 base_25_v24",
        MARK_100,
        "base_25_v26",
        "",
        "base_25 base_25_v24",
        "",
    ),
    "of two compactors' results the later is read": (
        "base_20_v21 22_22 23_23 22_23_v24 22_23_v25 delete_delta_22_23_v24 delete_delta_22_23_v25",
        MARK_100,
        "base_20_v21",
        "delete_delta_22_23_v25 22_23_v25",
        "delete_delta_22_23_v24 22_23_v24 22_22 23_23",
        "",
    ),
    "halves of one range stay together whatever their suffix": (
        "22_23_v25 delete_delta_22_23",
        MARK_100,
        None,
        "22_23_v25 delete_delta_22_23",
        "",
        "",
    ),
}


@pytest.mark.parametrize(
    ("generation", "case"),
    [
        pytest.param(generation, case, id=f"{generation.name}, {name}")
        for generation, cases in ((HIVE3, READER_CASES | HIVE_3_CASES), (HIVE4, READER_CASES | HIVE_4_CASES))
        for name, case in cases.items()
    ],
)
def test_reader(generation: Generation, case: tuple[str, str, str | None, str, str, str]) -> None:
    names, text, base, current, obsolete, neither = case
    state = acid_state(listing(*short(names)), ValidWriteIdList.parse(text), names=generation)
    assert (path_of_base(state), deltas(state)) == (base, short(current))
    assert list(state.obsolete) == short(obsolete)
    assert sorted(state.ignored) == sorted(short(neither))


COMPACTOR_CASES = {
    "deltasWithOpenTxnsNotInCompact": ("1_1 2_5", 4, "1_1"),
    "deltasWithOpenTxnsNotInCompact2": ("1_1 2_5 2_5/bucket_0_flush_length 6_10", 3, "1_1"),
    "deltasAndDeleteDeltasWithOpenTxnsNotInCompact": (
        "1_1 delete_delta_2_2 2_5 2_5/bucket_0_flush_length delete_delta_2_5 delete_delta_7_7 6_10",
        4,
        "1_1 delete_delta_2_2",
    ),
}


@BOTH
@pytest.mark.parametrize("case", COMPACTOR_CASES.values(), ids=COMPACTOR_CASES)
def test_compactor(case: tuple[str, int, str], generation: Generation) -> None:
    names, mark, current = case
    write_ids = ValidWriteIdList.parse(f"t:{mark}:9223372036854775807:").for_compactor()
    assert deltas(acid_state(listing(*short(names)), write_ids, names=generation)) == short(current)


@BOTH
def test_originals_in_path_order(generation: Generation) -> None:
    names = f"{ORIGINALS} 000000_0_copy_2 000000_0_copy_1"
    state = acid_state(listing(*reversed(names.split())), ValidWriteIdList.parse(MARK_100), names=generation)
    assert (state.base, state.obsolete) == (None, {})
    assert state.originals == (
        "000000_0",
        "000000_0_copy_1",
        "000000_0_copy_2",
        "000001_1",
        "000002_0",
        "random",
        "subdir/000000_0",
    )


def test_empty_originals_can_be_left_out() -> None:
    what = listing("000000_0", "000001_0", sizes={"000000_0": 0})
    lists = all_committed("t", 5)
    assert acid_state(what, lists, names=HIVE3, ignore_empty_files=True).originals == ("000001_0",)
    assert acid_state(what, lists, names=HIVE3).originals == ("000000_0", "000001_0")


def test_originals_below_hidden_names_do_not_exist() -> None:
    state = acid_state(listing("_tmp_x/000000_0", "sub/.x/000000_0", "sub/_y"), all_committed("t"), names=HIVE3)
    assert state.originals == ()


def test_compacted_base_needs_everything_below_it_resolved() -> None:
    write_ids = ValidWriteIdList.parse("t:10:4:4:")
    compacted = acid_state(listing("base_3", "base_6", compacted=("base_3", "base_6")), write_ids, names=HIVE3)
    assert (path_of_base(compacted), compacted.obsolete) == ("base_3", {})
    assert list(compacted.ignored.values()) == [NotTaken.NOT_VALID_BASE]


def test_not_enough_history() -> None:
    write_ids = ValidWriteIdList.parse("t:10:4:4:")
    for generation, name in ((HIVE3, "base_4"), (HIVE4, "base_6_v7")):
        with pytest.raises(RefusedError, match=name):
            acid_state(listing(name), write_ids, names=generation)
        state = acid_state(listing(name), write_ids, names=generation, require_history=False)
        assert (state.base, state.obsolete) == (None, {})
    # an insert overwrite that has not committed is ignored by Hive 4, and only there
    assert acid_state(listing("base_4", "000000_0"), write_ids, names=HIVE4).originals == ("000000_0",)


def test_visibility() -> None:
    txns = ValidTxnList.parse("20:18:18:15")
    names = ["base_5_v15", "base_6_v18", "base_4_v21", "base_3_v10", "delta_4_5_v15", "delta_4_6_v18", "delta_4_4_0"]
    state = acid_state(listing(*names), all_committed("t", 9), names=HIVE4, txns=txns)
    assert (path_of_base(state), deltas(state)) == ("base_3_v10", ["delta_4_4_0"])
    assert sorted(state.aborted) == ["base_5_v15", "delta_4_5_v15"]
    assert state.ignored == dict.fromkeys(("base_6_v18", "base_4_v21", "delta_4_6_v18"), NotTaken.INVISIBLE)


def test_own_transaction_counts_as_open() -> None:
    txns = ValidTxnList(high_water_mark=30)
    names = listing("delta_1_1_0", "base_1_v30")
    assert acid_state(names, all_committed("t", 1), names=HIVE4, txns=txns).base is not None
    assert acid_state(names, all_committed("t", 1), names=HIVE4, txns=txns.without(30)).base is None


def test_aborted_directories() -> None:
    names = ["base_2", "delta_1_1_0", "base_4", "delta_5_5_0", "delta_6_9", "delete_delta_7_7_0"]
    write_ids = ValidWriteIdList.parse("t:9:9223372036854775807::4,5,7,8")
    four = acid_state(listing(*names), write_ids.for_compactor(), names=HIVE4)
    assert sorted(four.aborted) == ["base_4", "delete_delta_7_7_0", "delta_5_5_0"]
    assert deltas(four) == ["delta_6_9"]
    # Hive 3.1's compactor reads them all, and drops their rows one by one
    three = acid_state(listing(*names), write_ids.for_compactor(), names=HIVE3)
    assert (three.aborted, path_of_base(three), deltas(three)) == ((), "base_2", ["delta_5_5_0", "delta_6_9"])
    # and its readers leave out what is aborted as a whole
    assert deltas(acid_state(listing(*names), write_ids, names=HIVE3)) == ["delta_6_9"]


def test_base_of_an_aborted_overwrite_goes_once_a_larger_one_is_there() -> None:
    write_ids = ValidWriteIdList.parse("t:10:9223372036854775807::7").for_compactor()
    state = acid_state(listing("base_5", "base_7", "base_10", compacted=("base_10",)), write_ids, names=HIVE3)
    assert sorted(state.obsolete) == ["base_5", "base_7"]
    assert acid_state(listing("base_5", "base_7"), write_ids, names=HIVE3).obsolete == {}


def test_directories_without_files() -> None:
    what = listing("delta_1_1_0", directories=("base_5", "delta_6_6_0"))
    three = acid_state(what, all_committed("t", 9), names=HIVE3)
    assert (path_of_base(three), tuple(three.obsolete)) == ("base_5", ("delta_1_1_0",))
    four = acid_state(what, all_committed("t", 9), names=HIVE4)
    assert (four.base, deltas(four)) == (None, ["delta_1_1_0"])
    assert set(four.ignored.values()) == {NotTaken.NO_FILE}
    assert acid_state(what, all_committed("t", 9), names=HIVE4, sees_empty_directories=True).base is not None


def test_a_marker_makes_a_directory_exist() -> None:
    marked = listing("delta_1_1_0", "delta_1_1_0/_x", "base_5_v6/_orc_acid_version", directories=("base_5_v6",))
    state = acid_state(marked, all_committed("t", 9), names=HIVE4)
    assert (path_of_base(state), tuple(state.obsolete)) == ("base_5_v6", ("delta_1_1_0",))


def test_what_covers_is_named() -> None:
    state = acid_state(listing("base_3", "delta_2_2", "delta_4_8", "delta_5_5_0"), all_committed("t"), names=HIVE3)
    assert state.obsolete == {"delta_2_2": ("base_3",), "delta_5_5_0": ("delta_4_8",)}


def test_partitions_of_a_table_are_never_taken_for_originals() -> None:
    with pytest.raises(RefusedError, match="p=1/delta_1_1_0000 is an ACID directory"):
        acid_state(listing("base_5", "p=1/delta_1_1_0000/bucket_00000"), all_committed("t"), names=HIVE3)


def test_names_that_do_not_parse() -> None:
    with pytest.raises(CorruptError, match="delta_abc"):
        acid_state(listing("delta_abc"), all_committed("t"), names=HIVE3)
    with pytest.raises(RefusedError, match="visibility"):
        acid_state(listing("base_5_v6"), all_committed("t"), names=HIVE3)


IDS = ValidWriteIdList(table="db.t", high_water_mark=20, open_ids=(15,), aborted_ids=(7, 12))
TXNS = ValidTxnList.parse("100:90:90:80")


def seen(*files: str, hidden: tuple[str, ...] = (), generation: Generation = Generation.HIVE4) -> dict[str, PlacePart]:
    directories = {path.partition("/")[0] for path in files if "/" in path}
    there = listing(*files, length=10, directories=(*sorted(directories), *hidden))
    state = acid_state(there, IDS, names=generation, txns=TXNS)
    return {part.path: part for part in place_parts(there, state, generation)}


def test_every_role() -> None:
    parts = seen(
        "base_0000005_v0000070/bucket_00000",
        "base_0000003/bucket_00000",
        "base_0000006_v0000080/bucket_00000",
        "delta_0000004_0000004_0000/bucket_00000",
        "delta_0000012_0000012_0000/bucket_00000",
        "delta_0000006_0000009_v0000090/bucket_00000",
        "delta_0000006_0000006_0000/bucket_00000",
        "delta_0000006_0000006_0000/bucket_00000_flush_length",
        "delta_0000015_0000015_0000/bucket_00000",
        "delete_delta_0000020_0000020_0000/bucket_00000",
        "000000_0",
        "_SUCCESS",
        hidden=("_tmp_1", ".hive-staging_1"),
    )
    assert {path: part.role for path, part in parts.items()} == {
        "base_0000005_v0000070": ReaderRole.READ,
        "delete_delta_0000020_0000020_0000": ReaderRole.READ,
        "delta_0000006_0000006_0000": ReaderRole.READ,
        "000000_0": ReaderRole.OBSOLETE,
        "base_0000003": ReaderRole.OBSOLETE,
        "delta_0000004_0000004_0000": ReaderRole.OBSOLETE,
        "base_0000006_v0000080": ReaderRole.ABORTED,
        "delta_0000012_0000012_0000": ReaderRole.ABORTED,
        "delta_0000006_0000009_v0000090": ReaderRole.NOT_READ,
        "delta_0000015_0000015_0000": ReaderRole.NOT_READ,
        ".hive-staging_1": ReaderRole.HIDDEN,
        "_SUCCESS": ReaderRole.HIDDEN,
        "_tmp_1": ReaderRole.HIDDEN,
    }
    by_role = sorted((part.role for part in parts.values()), key=list(ReaderRole).index)
    assert [part.role for part in parts.values()] == by_role, "what is read comes first"
    assert parts["delta_0000004_0000004_0000"].why == "replaced by base_0000005_v0000070"
    assert "not committed" in parts["delta_0000006_0000009_v0000090"].why
    open_delta = parts["delta_0000015_0000015_0000"]
    assert (open_delta.write_ids, open_delta.kind) == ((15, 15), "delta")
    assert open_delta.why == "its write ids are rolled back, open, or above the high-water mark"
    assert parts["base_0000005_v0000070"].write_ids == (0, 5)
    assert parts["delta_0000006_0000006_0000"].files == ("delta_0000006_0000006_0000/bucket_00000",)
    assert parts["delta_0000006_0000006_0000"].bytes == 20
    kinds = {part.kind for part in parts.values()}
    assert kinds == {"base", "delta", "delete delta", "original file", "hidden file", "hidden directory"}


def test_original_files_in_directories_and_a_base_of_nothing_else() -> None:
    parts = seen("HIVE_UNION_SUBDIR_1/000000_0", "empty/_marker", "000000_0", generation=Generation.HIVE3)
    assert {path: (part.kind, part.role) for path, part in parts.items()} == {
        "000000_0": ("original file", ReaderRole.READ),
        "HIVE_UNION_SUBDIR_1": ("other directory", ReaderRole.READ),
        "empty": ("other directory", ReaderRole.NOT_READ),
    }
    converted = seen(f"base_{LONG_MIN}/bucket_00000")
    assert converted[f"base_{LONG_MIN}"].write_ids == (0, 0)
