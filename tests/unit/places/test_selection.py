"""Which tables and partitions a run is about, and what listing them finds."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from located import at

from acidlib.errors import CorruptError, MissingError, RefusedError, UsageError
from acidlib.execute.services import Services
from acidlib.model.tables import TableRef
from acidlib.places.listing import Unlisted, list_places
from acidlib.places.place import Interpretation, ListedPlace, Place
from acidlib.places.selection import Selection
from acidlib.planning.stated_write_ids import StatedWriteIds, stated_write_ids
from acidlib.ports.directories import select_places

ALL = Interpretation(write_ids=StatedWriteIds(everything=True))
NOW = 2_000_000_000.0


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Tables default.Logs (two days, three hours), default.other, sales.logs, and a directory that is no table."""
    for day, hour in (("2026-01-01", "0"), ("2026-01-01", "1"), ("2026-02-01", "0")):
        put(tmp_path / f"Logs/ds={day}/h={hour}/delta_0000001_0000001_0000/bucket_00000")
    put(tmp_path / "other/delta_0000001_0000001_0000/bucket_00000")
    put(tmp_path / "sales.db/logs/base_0000001/bucket_00000")
    put(tmp_path / "files/000000_0")
    return tmp_path


def put(path: Path, size: int = 10, age: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (NOW - age, NOW - age))


def names(services: Services, **selection: Any) -> list[str]:
    return [str(place.ref) for place in select_places(services, Selection(**selection), ALL).places]


LOGS = [f"default.logs.ds={day}/h={hour}" for day, hour in (("2026-01-01", 0), ("2026-01-01", 1), ("2026-02-01", 0))]


# --- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, [*LOGS, "default.other", "sales.logs"]),
        ({"tables": ("default.*",)}, [*LOGS, "default.other"]),
        ({"tables": ("*.logs",)}, [*LOGS, "sales.logs"]),
        ({"tables": ("DEFAULT.Other",)}, ["default.other"]),
        ({"tables": ("default.o*", "sales.*")}, ["default.other", "sales.logs"]),
        ({"exclude": ("*.logs",)}, ["default.other"]),
        ({"tables": ("*.logs",), "exclude": ("SALES.*",)}, LOGS),
        ({"tables": ("default.logs",), "partitions": ("ds=2026-01-*",)}, LOGS[:2]),
        ({"tables": ("default.logs",), "partitions": ("ds=2026-01-*,h=1",)}, [LOGS[1]]),
        ({"tables": ("default.logs",), "partitions": ("ds=2026-02-01", "h=1")}, LOGS[1:]),
    ],
)
def test_what_is_named_is_selected_in_path_order(
    services: Services, warehouse: Path, selection: dict[str, Any], expected: list[str]
) -> None:
    assert names(services, warehouse=at(warehouse), **selection) == expected


def test_an_exclusion_wins_over_the_same_name(services: Services, warehouse: Path) -> None:
    with pytest.raises(RefusedError, match=r"Cannot find default\.other: no ACID table there"):
        names(services, warehouse=at(warehouse), tables=("default.other",), exclude=("default.other",))


def test_names_that_match_nothing_are_refused(services: Services, warehouse: Path) -> None:
    with pytest.raises(MissingError, match=r"Cannot find default\.file\*, x\.y: no ACID table"):
        names(services, warehouse=at(warehouse), tables=("default.file*", "x.y"))
    for if_exists in (False, True):  # it does
        with pytest.raises(RefusedError, match=r"Cannot read default\.files: it holds original files only") as caught:
            names(services, warehouse=at(warehouse), tables=("default.files",), if_exists=if_exists)
        assert not isinstance(caught.value, MissingError)
    with pytest.raises(RefusedError, match=r"partitions of default\.logs: none matches ds=2027-\*"):
        names(services, warehouse=at(warehouse), tables=("default.logs",), partitions=("ds=2027-*",))
    with pytest.raises(UsageError, match="'day' is no partition key"):
        names(services, warehouse=at(warehouse), tables=("default.logs",), partitions=("day=1",))


@pytest.mark.parametrize(
    ("named", "told", "taken"),
    [
        ({"tables": ("sales.logs", "x.*", "x.y")}, "Cannot find x.*, x.y: no ACID table there", ["sales.logs"]),
        (
            {"tables": ("*.*",), "exclude": ("default.other",), "partitions": ("ds=2027-*",)},
            "Cannot find partitions of 2 tables: none matches ds=2027-*",
            [],
        ),
    ],
)
def test_what_is_named_and_does_not_exist_is_an_error_unless_that_may_be(
    services: Services, warehouse: Path, named: dict[str, Any], told: str, taken: list[str]
) -> None:
    with pytest.raises(MissingError) as caught:
        names(services, warehouse=at(warehouse), **named)
    assert str(caught.value).startswith(told)
    selection = Selection(warehouse=at(warehouse), if_exists=True, **named)
    selected = select_places(services, selection, ALL)
    assert [str(place.ref) for place in selected.places] == taken
    assert [note for note in selected.notes if note.startswith(told)]


@pytest.mark.parametrize(("path", "told"), [("gone", "no such file"), ("empty", "it is empty")])
def test_a_location_that_does_not_exist(services: Services, tmp_path: Path, path: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingError, match=told):
        names(services, location=at(tmp_path / path))
    selected = select_places(services, Selection(location=at(tmp_path / path), if_exists=True), ALL)
    assert selected.places == ()
    assert [told in note for note in selected.notes] == [True]


def test_what_exists_and_is_no_table_is_an_error_all_the_same(services: Services, warehouse: Path) -> None:
    for path in ("files", "files/000000_0", "sales.db"):
        with pytest.raises(RefusedError) as caught:
            names(services, location=at(warehouse / path), if_exists=True)
        assert not isinstance(caught.value, MissingError)


def test_a_list_of_another_table_is_wrong_usage(services: Services, warehouse: Path) -> None:
    stated = Interpretation(write_ids=stated_write_ids(text="sales.logs:4:5::", file_text=None, everything=False))
    for path in ("Logs", "Logs/ds=2026-01-01/h=0"):
        with pytest.raises(UsageError, match=r"list of sales\.logs: the table is default\.logs"):
            select_places(services, Selection(location=at(warehouse / path)), stated)
    assert select_places(services, Selection(location=at(warehouse / "sales.db/logs")), stated).places


def test_without_a_directory_there_is_nowhere_to_look(services: Services) -> None:
    with pytest.raises(UsageError, match="no directory is named"):
        select_places(services, Selection(tables=("sales.logs",)), ALL)


def test_a_table_without_partitions_matches_no_pattern_of_any(services: Services, warehouse: Path) -> None:
    with pytest.raises(RefusedError, match=r"Cannot find partitions of default\.other"):
        names(services, warehouse=at(warehouse), tables=("default.other",), partitions=("ds=1",))


def test_a_partition_as_it_is_printed_is_told_how_to_be_named(services: Services, warehouse: Path) -> None:
    with pytest.raises(MissingError, match=r"; did you mean default\.logs/ds=2026-01-01/h=0\?$"):
        names(services, warehouse=at(warehouse), tables=("default.logs.ds=2026-01-01/h=0",))


def test_what_is_passed_over_is_told(services: Services, warehouse: Path) -> None:
    notes = select_places(services, Selection(warehouse=at(warehouse)), ALL).notes
    assert [note for note in notes if note.startswith(f"{warehouse}/files is skipped: ")]


def test_what_lies_in_a_table_hides_no_other_one_and_is_told_in_short(services: Services, warehouse: Path) -> None:
    for number in range(30):
        (warehouse / f"Logs/ds=2026-01-01/{number}").symlink_to("nowhere")
    (warehouse / "Logs/other").symlink_to("nowhere")
    assert names(services, warehouse=at(warehouse), tables=("default.other",)) == ["default.other"]
    notes = select_places(services, Selection(warehouse=at(warehouse)), ALL).notes
    assert len([note for note in notes if f"{warehouse}/Logs/" in note]) == 10
    assert f"21 more paths are skipped in {warehouse}/Logs" in notes
    (warehouse / "third").symlink_to("nowhere")
    with pytest.raises(RefusedError, match=r"Cannot read default\.third: it is a symbolic link"):
        names(services, warehouse=at(warehouse), tables=("default.third",))


def test_a_location_is_one_table_or_one_partition(services: Services, warehouse: Path) -> None:
    assert names(services, location=at(warehouse / "other")) == ["default.other"]
    assert names(services, location=at(warehouse / "Logs")) == LOGS
    assert names(services, location=at(warehouse / "Logs/ds=2026-01-01/h=1")) == [LOGS[1]]
    (place,) = select_places(services, Selection(location=at(warehouse / "sales.db/logs")), ALL).places
    assert (str(place.ref), str(place.location)) == ("sales.logs", str(warehouse / "sales.db/logs"))
    assert place.interpretation is ALL
    with pytest.raises(RefusedError, match="original files only"):
        names(services, location=at(warehouse / "files"))


# --- looking ----------------------------------------------------------------------------------------------------------


def test_a_look_measures_deltas_and_their_bytes(services: Services, tmp_path: Path) -> None:
    put(tmp_path / "t/base_0000005/bucket_00000", 1000, age=50)
    put(tmp_path / "t/delta_0000003_0000003_0000/bucket_00000", 500)  # below the base: nobody reads it
    put(tmp_path / "t/delta_0000006_0000006_0000/bucket_00000", 30, age=40)
    put(tmp_path / "t/delete_delta_0000007_0000007_0000/bucket_00000", 4, age=60)
    places = select_places(services, Selection(location=at(tmp_path / "t")), ALL).places
    (one,), passed_over = list_places(services, places, None)
    assert isinstance(one, ListedPlace)
    assert (one.deltas, one.delta_bytes, one.bytes) == (2, 34, 1534)
    assert passed_over == []


def test_only_what_is_idle_long_enough_is_taken_by_its_youngest_visible_file(
    services: Services, tmp_path: Path
) -> None:
    for name, age in (("old", 100), ("edge", 60), ("young", 59)):
        put(tmp_path / name / "delta_0000001_0000001_0000/bucket_00000", age=500)
        put(tmp_path / name / "delta_0000002_0000002_0000/bucket_00000", age=age)
        put(tmp_path / name / "_tmp_x/bucket_00000", age=0)
    places = select_places(services, Selection(warehouse=at(tmp_path)), ALL).places
    looked, passed_over = list_places(services, places, 60)
    assert [one.place.ref.table for one in looked] == ["edge", "old"]
    found = {one.place.ref.table: one.reason for one in passed_over}
    when = datetime.fromtimestamp(NOW - 59, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    file = "delta_0000002_0000002_0000/bucket_00000"
    assert found["young"] == f"something in it is younger than 1m: {file}, modified {when}"


def test_what_cannot_be_looked_at_is_kept_with_its_error_and_hides_no_other(services: Services, tmp_path: Path) -> None:
    put(tmp_path / "good/delta_0000001_0000001_0000/bucket_00000")
    put(tmp_path / "bad/delta_0000001_0000001_0000/bucket_00000")
    put(tmp_path / "bad/delta_x/bucket_00000")
    gone = Place(ref=TableRef("default", "gone"), location=at(tmp_path / "gone"), interpretation=ALL)
    unstated = Place(ref=TableRef("default", "good"), location=at(tmp_path / "good"))
    places = select_places(services, Selection(warehouse=at(tmp_path)), ALL).places
    found, passed_over = list_places(services, [*places, gone, unstated], 1e9)
    assert [one.place.ref.table for one in found] == ["bad", "gone", "good"]
    assert [one.place.ref.table for one in passed_over] == ["good"]
    errors = [type(one.error) for one in found if isinstance(one, Unlisted)]
    assert errors[0] is CorruptError
    assert errors[1] in (CorruptError, RefusedError)
    assert errors[2] is UsageError
    assert found[2].place is unstated
