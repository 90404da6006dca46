"""What is taken back, and every reason why it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from located import at

from acidlib.errors import CorruptError
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.names import Generation
from acidlib.model.snapshots import ValidWriteIdList, all_committed
from acidlib.planning.results import UndoPlan, digest_of_inputs, undo_plan
from acidlib.planning.state import acid_state

HIVE3 = Generation.HIVE3
DELTAS = ("delta_1_1_0", "delete_delta_2_2_0", "delta_3_3_0")
BASE, PAIR = ("base_3",), ("delta_1_3", "delete_delta_1_3")
OLD = ("base_2", "delta_3_4", "delete_delta_5_5", "000000_0", "HIVE_UNION_SUBDIR_1/000000_0")


def listing(*names: str, modified: float = 1.0, length: int = 100) -> Listing:
    """A bucket file in each directory, and files."""
    files = [f"{name}/bucket_00000" if "_delta_" in f"_{name}" or name.startswith("base_") else name for name in names]
    listed = tuple(ListedFile(path=path, length=length, modified=modified) for path in files)
    compacted = frozenset(name for name in names if name.startswith("base_"))
    return Listing(location=at("/t"), files=listed, compacted_bases=compacted)


def joined(one: Listing, other: Listing) -> Listing:
    both = one.compacted_bases | other.compacted_bases
    return replace(one, files=(*one.files, *other.files), compacted_bases=both)


def noted(inputs: Listing, outputs: tuple[str, ...], mark: int, write_ids: ValidWriteIdList | None = None) -> str:
    """The digest that a compaction notes."""
    ids = write_ids or all_committed("t", mark)
    state = acid_state(inputs, ids.for_compactor(), generation=HIVE3, ignore_empty_files=True)
    return digest_of_inputs(inputs, state, ids, outputs)


def plan(
    now: Listing,
    outputs: tuple[str, ...],
    digest: str,
    write_ids: ValidWriteIdList | None = None,
    generation: Generation = HIVE3,
) -> UndoPlan | str:
    ids = write_ids or all_committed("t", 100)
    return undo_plan(now, outputs, ids, digest=digest, generation=generation)


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
    digest = noted(listing(*inputs), outputs, mark)
    later = listing("delta_8_8_0", "delete_delta_9_9_0", modified=5.0)
    expected = UndoPlan(result=tuple(sorted(outputs, key=len, reverse=True)), read=tuple(read), originals=originals)
    now = joined(joined(listing(*inputs), listing(*outputs)), later)
    assert plan(now, outputs, digest) == expected
    if inputs is OLD:  # what base_2 covers may come and go
        assert plan(joined(now, listing("base_1", "delta_1_2")), outputs, digest) == expected
        assert plan(now.without(["HIVE_UNION_SUBDIR_1"]), outputs, digest) == expected


NOW = joined(listing(*DELTAS), listing(*BASE))
REFUSALS: dict[str, tuple[Callable[[], Listing], str]] = {
    "the result is gone": (lambda: listing(*DELTAS), "base_3 is not there any more"),
    "an input is gone": (lambda: NOW.without(["delta_1_1_0"]), "not all there as it was read"),
    "all inputs are gone": (lambda: listing(*BASE), "nothing of what it was made of is there any more"),
    "an input was written again": (
        lambda: joined(listing(*DELTAS[:2], *BASE), listing(DELTAS[2], modified=2.0)), "not all there as it was read"
    ),
    "an input has another length": (
        lambda: joined(listing(*DELTAS[:2], *BASE), listing(DELTAS[2], length=2)), "not all there as it was read"
    ),
    "an input has another file": (
        lambda: replace(NOW, files=(*NOW.files, ListedFile(path="delta_1_1_0/bucket_00001", length=1, modified=1.0))),
        "not all there as it was read",
    ),
    "original files have come": (lambda: joined(NOW, listing("000000_0")), "not all there as it was read"),
    "an older base has come": (lambda: joined(NOW, listing("base_2")), "not all there as it was read"),
    "a later major": (lambda: joined(NOW, listing("base_5")), "base_5 stands for rows of it"),
    "a later minor across it": (lambda: joined(NOW, listing("delta_2_5")), "delta_2_5 stands for rows of it"),
    "a base that is as wide": (lambda: joined(NOW, listing("base_0000003")), "base_0000003 stands for rows of it"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_base_stays(case: str) -> None:
    now, reason = REFUSALS[case]
    found = plan(now(), BASE, noted(listing(*DELTAS), BASE, 3))
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize("newer", ["base_5", "base_2", "delta_1_7", "delete_delta_0_3", "delta_0_2"])
def test_a_pair_stays_under_something_newer(newer: str) -> None:
    digest = noted(listing(*DELTAS), PAIR, 3)
    now = joined(listing(*DELTAS), listing(*PAIR))
    assert isinstance(plan(now, PAIR, digest), UndoPlan)
    found = plan(joined(now, listing(newer)), PAIR, digest)
    assert isinstance(found, str)
    assert f"{newer} stands for rows of it" in found


def test_half_of_a_pair_stays() -> None:
    now = joined(listing(*DELTAS), listing(PAIR[0]))
    assert plan(now, PAIR, noted(listing(*DELTAS), PAIR, 3)) == "delete_delta_1_3 is not there any more"


def test_what_was_rolled_back_must_still_be_known_to_be() -> None:
    """In Hive 3.1 it is among the inputs, and its rows would be valid once the metastore has forgotten."""
    known = replace(all_committed("t", 3), aborted_ids=(2,))
    digest = noted(listing(*DELTAS), BASE, 3, known)
    later = replace(known, high_water_mark=50, aborted_ids=(2, 40))
    assert isinstance(plan(NOW, BASE, digest, write_ids=later), UndoPlan)
    forgotten = plan(NOW, BASE, digest, write_ids=replace(later, aborted_ids=(40,)))
    assert isinstance(forgotten, str)
    assert "rolled back" in forgotten


def test_what_is_open_now_does_not_matter() -> None:
    digest = noted(listing(*DELTAS), BASE, 3)
    ids = replace(all_committed("t", 50), open_ids=(8,), min_open=8)
    assert isinstance(plan(joined(NOW, listing("delta_8_8_0")), BASE, digest, write_ids=ids), UndoPlan)


def test_what_published_nothing_is_not_taken_back() -> None:
    found = plan(NOW, (), "x")
    assert isinstance(found, str)
    assert "published nothing" in found


def test_without_it_a_reader_could_read_nothing() -> None:
    """The only other base is one that was rolled back."""
    ids = replace(all_committed("t", 50), aborted_ids=(2,))
    overwrite = replace(listing("base_2"), compacted_bases=frozenset())
    found = plan(joined(NOW, overwrite), BASE, noted(listing(*DELTAS), BASE, 3, ids.capped(3)), write_ids=ids)
    assert isinstance(found, str)
    assert "without it nothing could be read" in found


def test_a_name_that_does_not_parse_is_damage() -> None:
    with pytest.raises(CorruptError):
        plan(joined(NOW, listing("base_x")), BASE, "0.0")
