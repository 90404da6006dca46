"""What must not have changed at a place before a compaction publishes there."""

from __future__ import annotations

import pytest

from acidlib.acid.listing import Listing
from acidlib.acid.names import Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList, all_committed
from acidlib.model.requests import CompactionType
from acidlib.planning.inputs import CompactionInputs, compaction_inputs
from acidlib.planning.last_check import publication_conflict_reason
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
LIMIT = 256 << 20


def conflict(
    before: Listing,
    now: Listing,
    kind: CompactionType = MAJOR,
    generation: Generation = HIVE3,
    then: ValidTxnList = ALL_COMMITTED,
    txns: ValidTxnList = ALL_COMMITTED,
) -> str | None:
    write_ids = all_committed("t", 10).for_compactor()
    state = acid_state(before, write_ids, names=generation, txns=then)
    result = compaction_inputs(state, before, kind, names=generation, minor_as_major_bytes=LIMIT)
    assert isinstance(result, CompactionInputs)
    return publication_conflict_reason(now, result, state, names=generation, txns=txns)


NAMES = ("base_2", "delta_1_1_0", "delta_3_3_0", "delta_5_5_0", "delta_12_12_0")


@pytest.mark.parametrize(
    ("appeared", "major", "minor"),
    [
        ((), False, False),
        (("delta_6_6_0", "delta_13_13_0"), False, False),
        (("_tmp_x/y", "delta_3_3_0/_late"), False, False),
        (("delta_4_4_0",), True, True),
        (("delta_3_5",), True, True),
        (("delta_5_9",), True, True),
        (("delete_delta_2_3",), True, True),
        (("delta_1_2",), True, False),
        (("base_5",), True, True),
        (("base_20",), True, True),
    ],
)
def test_new_directories(appeared: tuple[str, ...], major: bool, minor: bool) -> None:
    before, now = listing(*NAMES), listing(*NAMES, *appeared)
    assert (conflict(before, now) is not None) is major
    assert (conflict(before, now, MINOR) is not None) is minor


def test_the_conflict_is_named() -> None:
    now: list[tuple[Listing, str | None]] = [
        (
            listing(*NAMES, "delta_4_4_0"),
            "delta_4_4_0 has appeared since the inputs were listed, and overlaps base_0000005",
        ),
        (listing(*NAMES, "base_0000005"), "base_0000005, the name of the result, exists already"),
        (listing(*NAMES[:-2]), "the input delta_5_5_0/bucket_00000 is gone"),
        (listing(*NAMES[:-1]), None),
        (listing(*NAMES, sizes={"delta_3_3_0": 90}), "the input delta_3_3_0/bucket_00000 had 100 bytes and has 90 now"),
        (
            listing(*NAMES, times={"delta_3_3_0": 1.0}),
            "the input delta_3_3_0/bucket_00000 was written again after it was listed",
        ),
        (listing(*NAMES, times={"delta_12_12_0": 1.0}), None),
    ]
    for there, told in now:
        assert conflict(listing(*NAMES), there) == told


def test_a_streaming_file_may_grow_behind_its_noted_length() -> None:
    names = ("base_2", "delta_3_5/bucket_00000", "delta_3_5/bucket_00000_flush_length")
    grown = listing(*names, sizes={"delta_3_5/bucket_00000": 170}, times={"delta_3_5/bucket_00000": 1.0})
    assert conflict(listing(*names), grown) is None


def test_a_streaming_writer_that_goes_on_is_a_conflict() -> None:
    """Only where open write ids are stated as committed; its rows would be covered without having been read."""
    names = ("base_2", "delta_3_5/bucket_00000", "delta_3_5/bucket_00000_flush_length")
    told = "the streaming writer of delta_3_5/bucket_00000 has gone on since the inputs were listed"
    assert conflict(listing(*names), listing(*names, sizes={names[2]: 108})) == told
    assert conflict(listing(*names), listing(*names[:2])) is None  # closed as it was
    assert conflict(listing(*names), listing(*names[:2], sizes={names[1]: 170})) == told


def test_other_compactors_transactions() -> None:
    before = listing("delta_3_3_0", "delta_4_4_0", "delta_3_4_v30")
    opened, aborted = ValidTxnList.parse("40:30:30:"), ValidTxnList.parse("40:40::30")
    # it was open when the inputs were listed, and may have committed since
    assert conflict(before, before, MAJOR, HIVE4, then=opened) is not None
    assert conflict(before, before, MAJOR, HIVE4, then=opened, txns=aborted) is None
    assert conflict(before, before, MAJOR, HIVE4, then=aborted, txns=aborted) is None


def test_new_original_files() -> None:
    before = listing("000000_0", "delta_3_3_0")
    assert conflict(before, before) is None
    late = listing("000000_0", "000000_0_copy_1", "delta_3_3_0")
    assert conflict(before, late) == "the original file 000000_0_copy_1 has appeared since the inputs were listed"
    empty = listing("000000_0", "000001_0", "delta_3_3_0", sizes={"000001_0": 0})
    filled = listing("000000_0", "000001_0", "delta_3_3_0")
    assert conflict(empty, empty) is None
    assert conflict(empty, filled) == "the original file 000001_0 has appeared since the inputs were listed"
    alone = listing("000000_0")
    assert conflict(alone, listing("000000_0", "delta_1_1_0")) is None
    assert conflict(alone, listing("000000_0", "base_1")) is not None
