"""What follows from a result: its statistics, how much of it is verified, and whether it can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from acidlib.acid.listing import ListedFile, Listing
from acidlib.acid.names import Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ValidWriteIdList, all_committed
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.planning.results import (
    UndoPlan,
    basic_statistics,
    chosen_buckets,
    digest_of_inputs,
    parse_verify_share,
    quarantining_request,
    statistics_changes,
    undo_plan,
)
from unit.planning.listings import listing

ACCURATE = '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true"}}'
OF_COLUMNS = '{"COLUMN_STATS":{"a":"true"}}'
ONE = {"numFiles": 1, "totalSize": 100, "numRows": 7}


def found(*names: str, results: tuple[str, ...] = (), mark: int = 9, rows: int | None = 7) -> dict[str, int]:
    there = listing(*names)
    state = acid_state(there, all_committed("db.t", mark), names=Generation.HIVE4)
    return basic_statistics(state, there, results=results, rows=rows)


def test_only_what_readers_read_is_counted() -> None:
    names = ("base_0000003_v0000011", "delta_0000001_0000001_0000", "delta_0000004_0000004_0000")
    hidden = ("base_0000003_v0000011/_orc_acid_version", "_tmp_acidlib/bucket_00000", "delta_0000012_0000012_0000")
    assert found(*names, *hidden, results=names[:1]) == {"numFiles": 2, "totalSize": 200}


def test_rows_are_known_where_nothing_but_the_result_is_read() -> None:
    result = "base_0000003_v0000011"
    assert found(result, "delta_0000001_0000001_0000", results=(result,))["numRows"] == 7
    assert "numRows" not in found(result, "delta_0000001_0000001_0000", results=("base_0000002_v0000010",))
    assert "numRows" not in found(result, results=(result,), rows=None)
    assert "numRows" not in found("000000_0", "delta_0000001_0000001_0000")


def test_original_files_and_deletes_count_as_in_hive() -> None:
    assert found("000000_0", "000001_0", "delete_delta_0000001_0000001_0000")["numFiles"] == 3


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
    assert statistics_changes(parameters, ONE) == expected


def row(
    number: int, state: State, *, made: tuple[str, ...] | None = None, differs: bool = False, **more: Any
) -> CompactionRequest:
    facts = RequestFacts(unverified=made, differs=differs)
    kind = CompactionType.MAJOR
    return CompactionRequest(id=number, ref=TableRef("db", "t"), type=kind, state=state, facts=facts, **more)


@pytest.mark.parametrize(
    ("text", "share"), [("", None), ("none", None), ("all", 1.0), ("sample=0.1", 0.1), ("0.5", 0.5), ("sample=1", 1.0)]
)
def test_shares(text: str, share: float | None) -> None:
    assert parse_verify_share(text) == share


@pytest.mark.parametrize("text", ["sample=0", "sample=1.1", "sample=nan", "-1", "some"])
def test_no_shares(text: str) -> None:
    with pytest.raises(RefusedError):
        parse_verify_share(text)


def test_a_request_looks_at_the_same_buckets_and_another_at_others() -> None:
    buckets = range(1000)
    first = chosen_buckets(buckets, 0.1, place="/w/t", request=1)
    assert first == chosen_buckets(reversed(buckets), 0.1, place="/w/t", request=1)
    assert 60 < len(first) < 140
    assert first != chosen_buckets(buckets, 0.1, place="/w/t", request=2)
    assert first != chosen_buckets(buckets, 0.1, place="/w/u", request=1)
    assert chosen_buckets(buckets, 1.0, place="/w/t", request=1) == tuple(buckets)
    assert len(chosen_buckets(buckets, 1e-9, place="/w/t", request=1)) == 1
    assert chosen_buckets((), 1.0, place="/w/t", request=1) == ()


@pytest.mark.parametrize(
    ("rows", "held"),
    [
        ((), None),
        ((row(1, State.FAILED, error_message="no space"),), None),
        ((row(1, State.FAILED, differs=True),), 1),
        ((row(1, State.FAILED, made=("base_1",)),), 1),
        ((row(1, State.INITIATED, made=("base_1",)),), 1),
        ((row(1, State.REFUSED, made=("base_1",)),), 1),
        ((row(1, State.FAILED, made=("base_0",), differs=True),), None),  # taken away
        ((row(1, State.FAILED, made=()),), None),
        ((row(2, State.FAILED, made=("base_1",)), row(1, State.READY_FOR_CLEANING)), 2),
        ((row(2, State.FAILED, made=("base_1",)), row(3, State.READY_FOR_CLEANING)), None),  # released
        ((row(2, State.FAILED, made=("base_1",)), row(3, State.SUCCEEDED)), None),
        ((row(2, State.FAILED, made=("base_1",)), row(3, State.REFUSED), row(4, State.WORKING)), 2),
    ],
)
def test_for_whom_a_place_is_held(rows: tuple[CompactionRequest, ...], held: int | None) -> None:
    found = quarantining_request(rows, {"base_1", "delta_1_1"})
    assert (None if found is None else found.id) == held


def test_what_is_not_understood_holds() -> None:
    facts = RequestFacts(problems={"unverified": "its acidlib.unverified is odd"})
    one = CompactionRequest(id=1, ref=TableRef("db", "t"), type=CompactionType.MAJOR, state=State.FAILED, facts=facts)
    assert quarantining_request([one], {"base_1"}) is one


HIVE3 = Generation.HIVE3
DELTAS = ("delta_1_1_0", "delete_delta_2_2_0", "delta_3_3_0")
BASE, PAIR = ("base_3",), ("delta_1_3", "delete_delta_1_3")
OLD = ("base_2", "delta_3_4", "delete_delta_5_5", "000000_0", "HIVE_UNION_SUBDIR_1/000000_0")


def compacted(*names: str, modified: float = 1.0, length: int = 100) -> Listing:
    """Directories and files, where every base is one of a compaction."""
    bases = tuple(name for name in names if name.startswith("base_"))
    return listing(*names, modified=modified, length=length, compacted=bases)


def joined(one: Listing, other: Listing) -> Listing:
    both = one.compacted_bases | other.compacted_bases
    return replace(one, files=(*one.files, *other.files), compacted_bases=both)


def noted(inputs: Listing, outputs: tuple[str, ...], mark: int, write_ids: ValidWriteIdList | None = None) -> str:
    """The digest that a compaction notes."""
    ids = write_ids or all_committed("t", mark)
    state = acid_state(inputs, ids.for_compactor(), names=HIVE3, ignore_empty_files=True)
    return digest_of_inputs(inputs, state, ids, outputs)


def plan(
    now: Listing,
    outputs: tuple[str, ...],
    digest: str,
    write_ids: ValidWriteIdList | None = None,
    generation: Generation = HIVE3,
) -> UndoPlan | str:
    ids = write_ids or all_committed("t", 100)
    return undo_plan(now, outputs, ids, digest=digest, names=generation)


@pytest.mark.parametrize(
    ("inputs", "outputs", "mark", "read", "originals"),
    [
        (DELTAS, BASE, 3, sorted(DELTAS), ()),
        (DELTAS, PAIR, 3, sorted(DELTAS), ()),
        (("base_1", "delta_2_2_0", "delta_3_3_0"), ("delta_2_3",), 3, ["delta_2_2_0", "delta_3_3_0"], ()),
        (OLD, ("base_5",), 7, ["base_2", "delete_delta_5_5", "delta_3_4"], ()),
        (OLD[1:], ("base_5",), 5, ["delete_delta_5_5", "delta_3_4"], tuple(sorted(OLD[3:]))),
        (("000000_0", "000000_0_copy_1"), ("base_-9223372036854775808",), 0, [], ("000000_0", "000000_0_copy_1")),
    ],
)
def test_readers_read_the_inputs_again(
    inputs: tuple[str, ...], outputs: tuple[str, ...], mark: int, read: list[str], originals: tuple[str, ...]
) -> None:
    """Whatever was written later, and whatever was obsolete before and has gone or not."""
    digest = noted(compacted(*inputs), outputs, mark)
    later = compacted("delta_8_8_0", "delete_delta_9_9_0", modified=5.0)
    expected = UndoPlan(result=tuple(sorted(outputs, key=len, reverse=True)), read=tuple(read), originals=originals)
    now = joined(joined(compacted(*inputs), compacted(*outputs)), later)
    assert plan(now, outputs, digest) == expected
    if inputs is OLD:  # what base_2 covers may come and go
        assert plan(joined(now, compacted("base_1", "delta_1_2")), outputs, digest) == expected
        assert plan(now.without(["HIVE_UNION_SUBDIR_1"]), outputs, digest) == expected


def stays(found: UndoPlan | str) -> str:
    """The reason why nothing is taken back."""
    assert isinstance(found, str)
    return found


NOW = joined(compacted(*DELTAS), compacted(*BASE))
REFUSALS: dict[str, tuple[Callable[[], Listing], str]] = {
    "the result is gone": (lambda: compacted(*DELTAS), "base_3 is not there any more"),
    "an input is gone": (lambda: NOW.without(["delta_1_1_0"]), "not all there as they were read"),
    "all inputs are gone": (lambda: compacted(*BASE), "nothing of what it was made of is there any more"),
    "an input was written again": (
        lambda: joined(compacted(*DELTAS[:2], *BASE), compacted(DELTAS[2], modified=2.0)),
        "not all there as they were read",
    ),
    "an input has another length": (
        lambda: joined(compacted(*DELTAS[:2], *BASE), compacted(DELTAS[2], length=2)), "not all there as they were read"
    ),
    "an input has another file": (
        lambda: replace(NOW, files=(*NOW.files, ListedFile(path="delta_1_1_0/bucket_00001", length=1, modified=1.0))),
        "not all there as they were read",
    ),
    "original files have come": (lambda: joined(NOW, compacted("000000_0")), "not all there as they were read"),
    "an older base has come": (lambda: joined(NOW, compacted("base_2")), "not all there as they were read"),
    "a later major": (lambda: joined(NOW, compacted("base_5")), "base_5 stands for rows of it"),
    "a later minor across it": (lambda: joined(NOW, compacted("delta_2_5")), "delta_2_5 stands for rows of it"),
    "a base that is as wide": (lambda: joined(NOW, compacted("base_0000003")), "base_0000003 stands for rows of it"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_base_stays(case: str) -> None:
    now, reason = REFUSALS[case]
    assert reason in stays(plan(now(), BASE, noted(compacted(*DELTAS), BASE, 3)))


@pytest.mark.parametrize("newer", ["base_5", "base_2", "delta_1_7", "delete_delta_0_3", "delta_0_2"])
def test_a_pair_stays_under_something_newer(newer: str) -> None:
    digest = noted(compacted(*DELTAS), PAIR, 3)
    now = joined(compacted(*DELTAS), compacted(*PAIR))
    assert isinstance(plan(now, PAIR, digest), UndoPlan)
    assert f"{newer} stands for rows of it" in stays(plan(joined(now, compacted(newer)), PAIR, digest))


def test_half_of_a_pair_stays() -> None:
    now = joined(compacted(*DELTAS), compacted(PAIR[0]))
    assert plan(now, PAIR, noted(compacted(*DELTAS), PAIR, 3)) == "delete_delta_1_3 is not there any more"


def test_what_was_rolled_back_must_still_be_known_to_be() -> None:
    """In Hive 3.1 it is among the inputs, and its rows would be valid once the metastore has forgotten."""
    known = replace(all_committed("t", 3), aborted_ids=(2,))
    digest = noted(compacted(*DELTAS), BASE, 3, known)
    later = replace(known, high_water_mark=50, aborted_ids=(2, 40))
    assert isinstance(plan(NOW, BASE, digest, write_ids=later), UndoPlan)
    assert "rolled back" in stays(plan(NOW, BASE, digest, write_ids=replace(later, aborted_ids=(40,))))


def test_what_is_open_now_does_not_matter() -> None:
    digest = noted(compacted(*DELTAS), BASE, 3)
    ids = replace(all_committed("t", 50), open_ids=(8,), min_open=8)
    assert isinstance(plan(joined(NOW, compacted("delta_8_8_0")), BASE, digest, write_ids=ids), UndoPlan)


def test_without_it_a_reader_could_read_nothing() -> None:
    """The only other base is one that was rolled back."""
    ids = replace(all_committed("t", 50), aborted_ids=(2,))
    overwrite = replace(compacted("base_2"), compacted_bases=frozenset())
    assert "without it nothing could be read" in stays(
        plan(joined(NOW, overwrite), BASE, noted(compacted(*DELTAS), BASE, 3, ids.capped(3)), write_ids=ids)
    )


def test_a_name_that_does_not_parse_is_damage() -> None:
    with pytest.raises(CorruptError):
        plan(joined(NOW, compacted("base_x")), BASE, "0.0")
