"""Units of work, the stripes that they copy or rewrite, and which tasks share a place or a job."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from located import at

from acidlib.acid.names import HIVE_OF, Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import all_committed
from acidlib.model.requests import CompactionType
from acidlib.model.units import MEBIBYTE, ColumnMatching, DataFile, RewriteSettings, StripeAction, StripeFacts, Unit
from acidlib.planning.inputs import CompactionInputs, compaction_inputs
from acidlib.planning.units import (
    BATCH_BYTES,
    BATCH_TASKS,
    MAX_JOINED_ROWS,
    SMALL_BYTES,
    actions_of_tasks,
    compaction_units,
    groups_of_like_length,
    must_rewrite,
    plan_stripes,
    schema_candidates,
    spark_needed_reason,
    task_batches,
)
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
IDS = all_committed("default.t", 100).for_compactor()
SETTINGS = RewriteSettings(stride=77)

D1, D2, GONE = "delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delete_delta_0000003_0000003_0000"
TABLE = (f"{D1}/bucket_00000", f"{D1}/bucket_00001", f"{D2}/bucket_00001", f"{GONE}/bucket_00000")


def planned(paths: tuple[str, ...], kind: CompactionType, generation: Generation) -> CompactionInputs:
    there = listing(*paths)
    state = acid_state(there, IDS, names=generation, ignore_empty_files=True)
    found = compaction_inputs(state, there, kind, names=generation, minor_as_major_bytes=0)
    assert isinstance(found, CompactionInputs), found
    return found


def shortened(inputs: CompactionInputs, lengths: dict[str, int]) -> CompactionInputs:
    """The inputs with some files of another logical length."""

    def file(one: DataFile) -> DataFile:
        return replace(one, length=lengths.get(one.path, one.length))

    directories = (replace(one, files=tuple(map(file, one.files))) for one in inputs.directories)
    return replace(inputs, directories=tuple(directories))


def units(
    paths: tuple[str, ...] = TABLE,
    kind: CompactionType = MAJOR,
    generation: Generation = HIVE3,
    deletes: dict[str, set[int]] | None = None,
    lengths: dict[str, int] | None = None,
    without_rows: set[str] | frozenset[str] = frozenset(),
) -> dict[str, Unit]:
    """Units by `directory/file`."""
    inputs = shortened(planned(paths, kind, generation), lengths or {})
    routed = {f"{GONE}/bucket_00000": {0}} if deletes is None else deletes
    candidates, otherwise = schema_candidates(inputs.directories)
    schema = next((file for file in candidates if file.path not in without_rows), otherwise)
    found = compaction_units(
        replace(inputs, schema=schema),
        delete_buckets={path: frozenset(b) for path, b in routed.items()},
        location=at("/t"),
        hive=HIVE_OF[generation],
        write_ids=IDS,
        settings=SETTINGS,
        matching=ColumnMatching.of(generation),
    )
    names = [f"{unit.directory}/{unit.file_name}" for unit in found]
    assert len(set(names)) == len(names)
    return dict(zip(names, found, strict=True))


def paths_of(files: tuple[DataFile, ...]) -> list[str]:
    return [file.path for file in files]


def test_a_major_has_a_unit_for_each_bucket_with_its_rows_in_order() -> None:
    found = units()
    assert list(found) == ["base_0000003/bucket_00000", "base_0000003/bucket_00001"]
    zero, one = found.values()
    assert paths_of(zero.inputs) == [TABLE[0]]
    assert paths_of(one.inputs) == [TABLE[1], TABLE[2]]
    assert (paths_of(zero.deletes), paths_of(one.deletes)) == ([TABLE[3]], [])
    for unit in (zero, one):
        assert (unit.collapse, unit.is_delete, unit.keep_empty) == (True, False, True)
        assert (unit.write_ids, unit.settings, unit.reader) == (IDS, SETTINGS, HIVE3)
        assert unit.schema.path == TABLE[2]


def test_events_go_to_every_bucket_their_keys_decode_to() -> None:
    found = units(deletes={TABLE[3]: {0, 1}})
    assert [paths_of(unit.deletes) for unit in found.values()] == [[TABLE[3]], [TABLE[3]]]


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
def test_a_minor_has_rows_and_events_apart_and_applies_none(generation: Generation) -> None:
    found = units(kind=MINOR, generation=generation)
    rows, events = "delta_0000001_0000003", "delete_delta_0000001_0000003"
    expected = [f"{rows}/bucket_00000", f"{rows}/bucket_00001", f"{events}/bucket_00000"]
    # by Hive 3's names every bucket number of the inputs gives a file in both
    assert list(found) == expected + ([f"{events}/bucket_00001"] if generation is HIVE3 else [])
    assert not any(unit.collapse for unit in found.values())
    assert paths_of(found[f"{events}/bucket_00000"].inputs) == [TABLE[3]]
    assert found[f"{events}/bucket_00000"].deletes == ()
    assert found[f"{events}/bucket_00000"].is_delete
    assert {unit.keep_empty for unit in found.values()} == {generation is HIVE3}
    if generation is HIVE3:
        assert found[f"{events}/bucket_00001"].inputs == ()


def test_by_hive_4_a_bucket_of_which_only_events_are_left_makes_no_file_of_rows() -> None:
    paths = (f"{D1}/bucket_00000", f"{D2}/bucket_00000", f"{GONE}/bucket_00000")
    where = {f"{GONE}/bucket_00000": {0, 5}}
    assert list(units(paths, MAJOR, HIVE4, where)) == ["base_0000003/bucket_00000"]
    third = units(paths, MAJOR, HIVE3, where)
    assert list(third) == ["base_0000003/bucket_00000", "base_0000003/bucket_00005"]
    assert third["base_0000003/bucket_00005"].inputs == ()
    minor = units(paths, MINOR, HIVE4, where)
    assert [name for name, unit in minor.items() if unit.is_delete] == [
        "delete_delta_0000001_0000003/bucket_00000",
        "delete_delta_0000001_0000003/bucket_00005",
    ]


def test_attempts_and_side_files_end_with_the_inputs() -> None:
    paths = (f"{D1}/bucket_00000_3", f"{D1}/bucket_00000_3_flush_length", f"{D2}/bucket_00000_0")
    found = units(paths, MAJOR, HIVE4, {}, {f"{D1}/bucket_00000_3": 40})
    (unit,) = found.values()
    assert unit.file_name == "bucket_00000"
    assert [file.length for file in unit.inputs] == [40, 100]


def test_the_columns_are_those_of_the_last_file_that_has_bytes() -> None:
    side = f"{D2}/bucket_00001_flush_length"
    found = units((*TABLE, side), lengths={f"{D2}/bucket_00001": 0})
    assert {unit.schema.path for unit in found.values()} == {f"{D1}/bucket_00001"}
    only_events = (f"{GONE}/bucket_00000", "delete_delta_0000004_0000004_0000/bucket_00000")
    routed = {path: {0} for path in only_events}
    (unit,) = units(only_events, MINOR, HIVE4, routed).values()
    assert unit.schema.path == only_events[1]


def test_the_columns_are_those_of_the_last_file_that_has_rows() -> None:
    inputs = planned(TABLE, MAJOR, HIVE3)
    candidates, otherwise = schema_candidates(shortened(inputs, {TABLE[2]: 0}).directories)
    assert paths_of(tuple(candidates)) == [TABLE[1], TABLE[0]]
    assert otherwise == candidates[0]
    for empty, decides in (([], 2), ([2], 1), ([2, 1], 0), ([2, 1, 0], 2)):
        found = units(without_rows={TABLE[number] for number in empty})
        assert {unit.schema.path for unit in found.values()} == {TABLE[decides]}


def test_without_any_bytes_there_is_no_unit() -> None:
    sides = tuple(f"{path}_flush_length" for path in TABLE[:3])
    assert units((*TABLE[:3], *sides), deletes={}, lengths=dict.fromkeys(TABLE[:3], 0)) == {}


JOINING = RewriteSettings(stripe_bytes=1000, copy_bytes=100)
SMALL = 50


def stripe(number: int, length: int = 500, **changes: Any) -> StripeFacts:
    values: dict[str, Any] = {
        "file": 0,
        "number": number,
        "rows": 10,
        "length": length,
        "deleted": 0,
        "aborted": 0,
        "timezone": "UTC",
        "no_copy": None,
    }
    return StripeFacts(**{**values, **changes})


def shape(actions: tuple[StripeAction, ...]) -> list[tuple[str, list[int]]]:
    return [("copy" if a.copy else "rewrite", [s.number for s in a.stripes]) for a in actions]


def in_short(*stripes: StripeFacts) -> list[tuple[str, list[int]]]:
    return shape(plan_stripes(stripes, JOINING))


def test_large_unchanged_stripes_are_copied_one_by_one() -> None:
    actions = plan_stripes([stripe(0), stripe(1, 100)], JOINING)
    assert shape(actions) == [("copy", [0]), ("copy", [1])]
    assert {action.reason for action in actions} == {"unchanged"}
    assert plan_stripes([], JOINING) == ()


def test_each_reason_to_rewrite_is_told() -> None:
    def why(**changes: Any) -> str:
        (action,) = plan_stripes([stripe(0, **changes)], JOINING)
        assert not action.copy
        return action.reason

    assert why(deleted=3) == "rows to leave out: 3 deleted"
    assert why(aborted=1) == "row to leave out: 1 aborted"
    assert why(deleted=2, aborted=1) == "rows to leave out: 2 deleted, 1 aborted"
    assert why(no_copy="no row index") == "no row index (1 of 1 stripe)"
    assert why(no_copy="no row index", deleted=1) == "row to leave out: 1 deleted"
    assert why(deleted=10) == "no row of it is left"
    assert why(deleted=9, aborted=1) == "no row of it is left"


def test_small_neighbours_are_joined_and_a_lone_small_one_is_copied() -> None:
    assert in_short(stripe(0, SMALL), stripe(1, SMALL)) == [("rewrite", [0, 1])]
    (action,) = plan_stripes([stripe(0, SMALL)], JOINING)
    assert (action.copy, action.reason) == (True, "unchanged, and no small neighbour to join with")
    assert in_short(stripe(0, SMALL), stripe(1), stripe(2, SMALL)) == [("copy", [0]), ("copy", [1]), ("copy", [2])]


def test_a_small_stripe_joins_one_that_has_to_be_rewritten() -> None:
    actions = plan_stripes([stripe(0, deleted=1), stripe(1, SMALL), stripe(2, no_copy="no row index")], JOINING)
    assert shape(actions) == [("rewrite", [0, 1]), ("rewrite", [2])]
    assert actions[0].reason == "row to leave out: 1 deleted; small (1 of 2 stripes)"


def test_stripes_of_two_time_zones_are_not_joined() -> None:
    zones = [stripe(n, SMALL, timezone=zone) for n, zone in enumerate(["UTC", "UTC", "Asia/Tokyo", "UTC"])]
    assert in_short(*zones) == [("rewrite", [0, 1]), ("copy", [2]), ("copy", [3])]


def test_an_emptied_stripe_keeps_its_place_and_parts_no_group() -> None:
    gone = {"deleted": 10}
    assert in_short(stripe(0, deleted=1), stripe(1, **gone), stripe(2)) == [
        ("rewrite", [0]),
        ("rewrite", [1]),
        ("copy", [2]),
    ]
    assert in_short(stripe(0, SMALL), stripe(1, **gone), stripe(2, SMALL)) == [("rewrite", [0, 2]), ("rewrite", [1])]


def test_any_plan_has_every_stripe_once_and_kept_rows_in_order() -> None:
    generator = random.Random(5)
    for _ in range(500):
        stripes = [
            stripe(
                number % 3,
                generator.choice([10, 99, 100, 600, 2000]),
                file=number // 3,
                deleted=generator.choice([0, 0, 1, 10]),
                timezone=generator.choice(["UTC", "UTC", "Asia/Tokyo"]),
                no_copy=generator.choice([None, None, "no row index"]),
            )
            for number in range(generator.randrange(12))
        ]
        actions = plan_stripes(stripes, JOINING)
        members = [member for action in actions for member in action.stripes]
        assert sorted(members, key=stripes.index) == stripes
        assert [member for member in members if member.kept] == [member for member in stripes if member.kept]
        firsts = [stripes.index(action.stripes[0]) for action in actions]
        assert firsts == sorted(firsts)
        for action in actions:
            assert not action.copy or (len(action.stripes) == 1 and must_rewrite(action.stripes[0]) is None)
            assert len({member.timezone for member in action.stripes}) == 1
            assert len(action.stripes) == 1 or action.length <= JOINING.stripe_bytes
            assert action.reason


def test_a_joined_stripe_has_not_too_many_rows() -> None:
    """Rows of few values are next to no bytes, and each still takes memory."""
    most = MAX_JOINED_ROWS
    half = stripe(0, SMALL, rows=most // 2), stripe(1, SMALL, rows=most // 2)
    assert in_short(*half) == [("rewrite", [0, 1])]
    assert in_short(*half, stripe(2, SMALL, rows=1), stripe(3, SMALL)) == [("rewrite", [0, 1]), ("rewrite", [2, 3])]
    assert in_short(stripe(0, SMALL, rows=most + 1, deleted=1), stripe(1, SMALL, deleted=1)) == [
        ("rewrite", [0]),
        ("rewrite", [1]),
    ]


def test_a_joined_stripe_takes_not_too_much_memory() -> None:
    """Texts that repeat are next to no bytes, and each still takes memory."""

    def joined(*decoded: int) -> list[tuple[str, list[int]]]:
        stripes = [stripe(number, SMALL, decoded=size) for number, size in enumerate(decoded)]
        return shape(plan_stripes(stripes, JOINING, most_decoded=100))

    assert joined(40, 60) == [("rewrite", [0, 1])]
    assert joined(40, 61, 39) == [("copy", [0]), ("rewrite", [1, 2])]
    assert joined(101, 1, 99, 1) == [("copy", [0]), ("rewrite", [1, 2]), ("copy", [3])]


def test_sizes_are_counted_from_where_a_group_begins() -> None:
    parts = [stripe(n, 400, no_copy="other") for n in range(5)]
    assert in_short(*parts) == [("rewrite", [0, 1]), ("rewrite", [2, 3]), ("rewrite", [4])]
    between = [parts[0], stripe(1), *parts[2:]]
    assert in_short(*between) == [("rewrite", [0]), ("copy", [1]), ("rewrite", [2, 3]), ("rewrite", [4])]


def action(length: int, *, copy: bool = False) -> StripeAction:
    return StripeAction(copy=copy, stripes=(stripe(0, length),), reason="")


def dealt(actions: Sequence[StripeAction], part_bytes: int) -> tuple[tuple[int, ...], ...]:
    return actions_of_tasks(dict(enumerate(actions)), part_bytes)


def test_little_is_left_to_one_task() -> None:
    assert dealt([action(100), action(99)], 100) == ()
    assert dealt([action(10_000)], 100) == ()
    assert dealt([action(10_000, copy=True), action(150)], 100) == ()
    assert dealt([action(1000), action(1000)], 0) == ()


def test_the_largest_are_dealt_first() -> None:
    lengths = [10, 90, 20, 80, 50, 50]
    found = dealt([action(length) for length in lengths], 100)
    assert sorted(sum(lengths[number] for number in part) for part in found) == [100, 100, 100]


@given(st.lists(st.tuples(st.integers(1, 1000), st.booleans())), st.integers(1, 2000))
def test_every_rewriting_action_is_in_one_part(made: list[tuple[int, bool]], part_bytes: int) -> None:
    actions = [action(length, copy=copy) for length, copy in made]
    found = dealt(actions, part_bytes)
    numbers = [number for part in found for number in part]
    wanted = [number for number, (_, copy) in enumerate(made) if not copy]
    assert not found or sorted(numbers) == wanted
    assert all(part == tuple(sorted(part)) and part for part in found)
    if found:
        loads = [sum(made[number][0] for number in part) for part in found]
        assert max(loads) - min(loads) <= max(made[number][0] for number in wanted)


LARGE = SMALL_BYTES


@pytest.mark.parametrize(
    ("lengths", "free", "wanted"),
    [
        ([], 4, []),
        ([1, 1, 1], 0, []),
        ([1], 4, [[0]]),
        ([1, 1, 1], 4, [[0], [1], [2]]),
        # dealt out from the largest on, so that no place gets all that are large
        ([1, 5, 2, 4, 3, 6], 2, [[5, 3, 2], [1, 4, 0]]),
        # a large one has a place of its own, and takes none from those that wait longer
        ([LARGE, 1, LARGE, 1], 2, [[0], [1, 3]]),
        ([1, LARGE, LARGE], 1, [[0]]),
        ([LARGE, LARGE, LARGE], 2, [[0], [1]]),
        ([LARGE, LARGE, 1], 2, [[0], [1]]),
    ],
)
def test_batches(lengths: list[int], free: int, wanted: list[list[int]]) -> None:
    assert task_batches(lengths, free) == wanted


@given(st.lists(st.integers(0, 20 * MEBIBYTE), max_size=300), st.integers(1, 9))
def test_whatever_waits(lengths: list[int], free: int) -> None:
    found = task_batches(lengths, free)
    numbers = [number for batch in found for number in batch]
    assert len(numbers) == len(set(numbers))
    assert len(found) <= free
    assert not lengths or found, "something is always begun"
    for batch in found:
        assert len(batch) <= BATCH_TASKS
        assert len(batch) == 1 or sum(lengths[number] for number in batch) <= BATCH_BYTES
    assert not numbers or 0 in numbers, "what waits longest is begun first"


@pytest.mark.parametrize(
    ("lengths", "most", "wanted"),
    [
        ([], 10, []),
        ([1, 7, 3], 10, [[1, 2, 0]]),
        ([1, 7, 3, 9, 5], 2, [[3, 1], [4, 2], [0]]),
        ([LARGE, 4 * LARGE, 3 * LARGE], 10, [[1, 2, 0]]),
        ([5 * LARGE, LARGE, 1], 10, [[0], [1], [2]]),
        ([LARGE, 1, 1], 10, [[0], [1, 2]]),
    ],
)
def test_those_of_a_job_take_about_as_long_as_each_other(
    lengths: list[int], most: int, wanted: list[list[int]]
) -> None:
    assert list(groups_of_like_length(lengths, most)) == wanted


@pytest.mark.parametrize(
    ("begun", "more", "most", "reason"),
    [
        (0, 100, 100, None),
        (60, 40, 100, None),
        (60, 41, 100, "its tasks have 101 bytes of input so far, more than 100 bytes"),
        (0, 2 << 30, 256 << 20, "its tasks have 2.0 GiB of input so far, more than 256.0 MiB"),
        (0, 0, 0, "no task is to run in this process"),
    ],
)
def test_a_run_starts_spark_for_large_work(begun: int, more: int, most: int, reason: str | None) -> None:
    assert spark_needed_reason(begun, more, most=most) == reason
