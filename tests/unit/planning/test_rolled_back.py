"""Which places are due after rolled back transactions, what may go there, and which notes have to stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from located import at

from acidlib.errors import CorruptError
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.tables import TableRef
from acidlib.planning.clean import (
    NotedWrite,
    due_cleanings,
    held_notes,
    places_below,
    rolled_back_directories,
)

HOUR = 3_600_000
NOW = 100 * HOUR


def note(txn: int, write_id: int | None = None, partition: str | None = None, **more) -> NotedWrite:
    """A note of a transaction that was rolled back an hour ago; its write id is its own number."""
    known = {"compacts": False, "is_open": False, "started_ms": NOW - HOUR} | more
    ref = TableRef("d", "t", partition)
    return NotedWrite(txn_id=txn, ref=ref, write_id=txn if write_id is None else write_id, **known)


def due(*notes: NotedWrite, most: int = 1000, longest_ms: int = 12 * HOUR) -> dict[str | None, tuple[str, int | None]]:
    """Why each partition is due, and below which transaction."""
    found = due_cleanings(notes, most=most, longest_ms=longest_ms, now_ms=NOW)
    return {one.ref[2]: (one.reason, one.below) for one in found}


def listing(*names: str, compacted: tuple[str, ...] = ()) -> Listing:
    files = tuple(ListedFile(path=f"{name}/bucket_00000", length=1, modified=0) for name in names)
    return Listing(location=at("/t"), files=files, directories=names, compacted_bases=frozenset(compacted))


# --- what is due ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "is_due"), [(2, False), (3, True)])
def test_more_than_the_number_of_one_place_is_due(count: int, is_due: bool) -> None:
    notes = [note(number, partition=part) for number in range(1, count + 1) for part in ("p=1", None)]
    found = due(*notes, note(9, partition="p=2"), most=2)
    reason = (f"{count} rolled back transactions are more than 2", None)
    assert found == ({"p=1": reason, None: reason} if is_due else {})


@pytest.mark.parametrize(("longest_ms", "is_due"), [(HOUR, False), (HOUR - 1, True), (0, True), (-1, False)])
def test_an_old_one_is_due_unless_the_limit_is_negative(longest_ms: int, is_due: bool) -> None:
    found = due(note(1), note(2, started_ms=NOW), longest_ms=longest_ms)
    assert bool(found) == is_due
    if is_due:
        assert found[None][0].startswith("a rolled back transaction was begun 1 h ago, more than ")


def test_an_open_writer_bounds_its_own_place_alone() -> None:
    notes = [note(3, partition="p=1"), note(3, partition="p=2"), note(5, partition="p=1")]
    opened = [note(4, partition="p=1", is_open=True), note(2, partition="p=3", is_open=True)]
    found = due_cleanings([*opened, *notes], most=0, longest_ms=-1, now_ms=NOW)
    assert [(one.ref[2], one.below) for one in found] == [("p=1", 4), ("p=2", None)]
    assert [[note.txn_id for note in notes if one.concerns(note)] for one in found] == [[3], [3]]


def test_nothing_is_due_where_all_came_after_an_open_writer() -> None:
    assert due(note(5), note(4, is_open=True), most=0) == {}


# --- what may go ------------------------------------------------------------------------------------------------------


def test_what_holds_nothing_else_goes() -> None:
    there = listing(
        "delta_0000004_0000004_0000", "delete_delta_0000004_0000004_0000", "delta_0000004_0000006", "base_0000006",
        "delta_0000004_0000007", "delta_0000003_0000004", "base_0000003", "base_0000006_v0000008",
        "delta_0000001_0000004_v0000009", "base_0000005", "original", "_tmp_delta_0000004_0000004",
        compacted=("base_0000005",),
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
        held_notes(["delta_x"], [note(1)])


# --- what may be forgotten --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("delta_0000005_0000005_0000", True),
        ("delete_delta_0000005_0000005", True),
        ("delta_0000001_0000009", True),
        ("base_0000005", True),
        ("base_0000006", False),
        ("delta_0000006_0000009", False),
        ("delta_0000001_0000009_v0000077", False),
        ("base_0000005_v0000077", False),
        ("base_0000003_v0000050", True),
        ("original", False),
    ],
)
def test_a_note_stays_while_a_directory_may_hold_its_rows(name: str, holds: bool) -> None:
    kept = note(50, 5)
    assert held_notes(["delta_0000002_0000002", name], [kept, note(51, 20)]) == ({kept: name} if holds else {})


def test_a_compacted_base_of_hive_3_holds_no_rolled_back_rows() -> None:
    assert held_notes(["base_0000005"], [note(50, 5)], {"base_0000005"}) == {}


def test_of_a_compaction_the_transaction_counts_and_not_its_mark() -> None:
    rolled_back = note(50, 5, compacts=True)
    assert held_notes(["delta_0000005_0000005_0000", "base_0000005"], [rolled_back]) == {}
    assert held_notes(["base_0000005_v0000050"], [rolled_back]) == {rolled_back: "base_0000005_v0000050"}


def test_without_a_write_id_the_transaction_counts() -> None:
    rebalanced = replace(note(50), write_id=None)
    assert held_notes(["delta_0000050_0000050"], [rebalanced]) == {}
    assert held_notes(["base_0000005_v0000050"], [rebalanced]) == {rebalanced: "base_0000005_v0000050"}


# --- partitions that are known only at the end ------------------------------------------------------------------------


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
