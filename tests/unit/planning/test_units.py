"""Units of work: one for each bucket file to be made, each delete event where its key belongs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from located import at

from acidlib.model.listing import ListedFile, Listing
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionType
from acidlib.model.snapshots import all_committed
from acidlib.model.units import ColumnMatching, DataFile, FileForm, RewriteSettings, Unit
from acidlib.planning.inputs import CompactionInputs, compaction_inputs
from acidlib.planning.state import acid_state
from acidlib.planning.units import compaction_units, delete_files, schema_file

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
IDS = all_committed("default.t", 100).for_compactor()
SETTINGS = RewriteSettings(stride=77)

D1, D2, GONE = "delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delete_delta_0000003_0000003_0000"
TABLE = (f"{D1}/bucket_00000", f"{D1}/bucket_00001", f"{D2}/bucket_00001", f"{GONE}/bucket_00000")


def planned(paths: tuple[str, ...], kind: CompactionType, generation: Generation) -> CompactionInputs:
    files = tuple(ListedFile(path=path, length=100, modified=0.0) for path in paths)
    listing = Listing(location=at("/t"), files=files)
    state = acid_state(listing, IDS, generation=generation, ignore_empty_files=True)
    found = compaction_inputs(state, listing, kind, generation=generation, minor_as_major_bytes=0)
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
    found = compaction_units(
        inputs,
        schema=schema_file(inputs.directories, lambda file: file.path not in without_rows),
        delete_buckets={path: frozenset(b) for path, b in routed.items()},
        location=at("/t"),
        generation=generation,
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
        assert (unit.write_ids, unit.settings, unit.generation) == (IDS, SETTINGS, HIVE3)
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


def test_original_and_loaded_files_get_their_synthetic_ids() -> None:
    loaded = "delta_0000004_0000004_0002"
    paths = ("000000_0", "000000_0_copy_1", "000001_0", f"{loaded}/000000_0")
    found = units(paths, deletes={})
    zero = found["base_0000004/bucket_00000"]
    assert paths_of(zero.inputs) == ["000000_0", "000000_0_copy_1", f"{loaded}/000000_0"]
    assert [(f.form, f.directory, f.write_id, f.statement_id) for f in zero.inputs] == [
        (FileForm.ORIGINAL, "", 0, 0),
        (FileForm.ORIGINAL, "", 0, 0),
        (FileForm.ORIGINAL, loaded, 4, 2),
    ]
    assert zero.schema.path == f"{loaded}/000000_0"


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
    asked: list[DataFile] = []
    last = schema_file(shortened(inputs, {TABLE[2]: 0}).directories, lambda file: bool(asked.append(file)))
    assert paths_of(tuple(asked)) == [TABLE[1], TABLE[0]]
    assert last == asked[0]
    for empty, decides in (([], 2), ([2], 1), ([2, 1], 0), ([2, 1, 0], 2)):
        found = units(without_rows={TABLE[number] for number in empty})
        assert {unit.schema.path for unit in found.values()} == {TABLE[decides]}


def test_without_any_bytes_there_is_no_unit() -> None:
    sides = tuple(f"{path}_flush_length" for path in TABLE[:3])
    assert units((*TABLE[:3], *sides), deletes={}, lengths=dict.fromkeys(TABLE[:3], 0)) == {}


def test_delete_files_are_those_of_delete_deltas() -> None:
    found = delete_files(planned(TABLE, MAJOR, HIVE3))
    assert [(file.path, file.length, file.directory) for file in found] == [(TABLE[3], 100, GONE)]
