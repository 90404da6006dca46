"""Splits: ranges of files, the delete files of each, what a directory's name proves, and groups for tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from located import at

from acidlib.acid.names import BaseDir, DeltaDir, Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.model.units import ColumnMatching, DataFile, FileForm
from acidlib.planning.inputs import InputDirectory, Role
from acidlib.scan.splits import OPENING_BYTES, Scan, Split, packed, place_splits

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
PLACE = at("/lake/t")
MAX = 9_223_372_036_854_775_807
EVERYTHING = f"t:9:{MAX}::"


def file(directory: str, name: str = "bucket_00000", length: int = 100, bucket: int = 0) -> DataFile:
    form = FileForm.EVENTS if name.startswith("bucket") else FileForm.ORIGINAL
    path = f"{directory}/{name}" if directory else name
    return DataFile(path=path, directory=directory, length=length, bucket=bucket, form=form)


def delta(low: int, high: int | None = None, statement: int = -1, *, delete: bool = False) -> InputDirectory:
    name = DeltaDir(min_write_id=low, max_write_id=high or low, statement_id=statement, is_delete=delete)
    role = Role.DELETE_DELTA if delete else Role.DELTA
    return InputDirectory(role=role, path=name.name, name=name, files=(file(name.name),))


def base(write_id: int) -> InputDirectory:
    name = BaseDir(write_id=write_id)
    return InputDirectory(role=Role.BASE, path=name.name, name=name, files=(file(name.name),))


def originals(*files: DataFile) -> InputDirectory:
    return InputDirectory(role=Role.ORIGINALS, path="", name=None, files=files)


def splits(
    *directories: InputDirectory,
    write_ids: str = EVERYTHING,
    generation: Generation = HIVE4,
    split_bytes: int = 1000,
    row_ids: bool = False,
    insert_only: bool = False,
) -> tuple[Split, ...]:
    scan = Scan(
        table="t", row_type="struct<>", columns=(), schema=pa.schema([]), row_ids=row_ids, insert_only=insert_only
    )
    return place_splits(
        scan,
        directories,
        location=PLACE,
        partition="ds=1",
        write_ids=ValidWriteIdList.parse(write_ids),
        reader=generation,
        matching=ColumnMatching.of(generation),
        split_bytes=split_bytes,
    )


def test_a_split_carries_what_its_place_says() -> None:
    (split,) = splits(delta(3))
    assert (split.location, split.partition, split.reader) == (PLACE, "ds=1", HIVE4)
    assert split.matching == ColumnMatching.of(HIVE4)
    assert split.write_ids == ValidWriteIdList.parse(EVERYTHING)
    assert (split.file.path, split.start, split.end, split.bytes) == ("delta_0000003_0000003/bucket_00000", 0, 100, 100)


@pytest.mark.parametrize(
    ("length", "ranges"),
    [
        (1, [(0, 1)]),
        (1000, [(0, 1000)]),
        (1400, [(0, 1400)]),
        (1501, [(0, 750), (750, 1501)]),
        (3000, [(0, 1000), (1000, 2000), (2000, 3000)]),
    ],
)
def test_a_large_file_has_several_splits_that_cover_it(length: int, ranges: list[tuple[int, int]]) -> None:
    found = splits(originals(file("", "000000_0", length)))
    assert [(split.start, split.end) for split in found] == ranges


def test_delete_deltas_have_no_splits_and_go_with_those_of_rows() -> None:
    found = splits(base(5), delta(6), delta(7, delete=True))
    assert [split.file.directory for split in found] == ["base_0000005", "delta_0000006_0000006"]
    assert {tuple(deleted.directory for deleted in split.deletes) for split in found} == {
        ("delete_delta_0000007_0000007",)
    }


@pytest.mark.parametrize(
    ("rows", "events", "applied"),
    [
        (delta(3), delta(2, delete=True), False),
        (delta(3), delta(4, delete=True), True),
        (delta(3, statement=0), delta(3, statement=1, delete=True), True),
        (delta(3, statement=1), delta(3, statement=1, delete=True), False),
        (delta(3, statement=1), delta(3, statement=0, delete=True), False),
        (delta(3), delta(3, delete=True), False),
        (delta(2, 3), delta(2, 3, delete=True), True),
        (base(5), delta(6, delete=True), True),
        (base(5), delta(4, delete=True), True),
        (originals(file("", "000000_0")), delta(1, delete=True), True),
    ],
)
def test_hive_4_applies_deletes_of_later_write_ids_and_statements(
    rows: InputDirectory, events: InputDirectory, applied: bool
) -> None:
    (split,) = splits(rows, events)
    assert [deleted.directory for deleted in split.deletes] == ([events.path] if applied else [])
    (split,) = splits(rows, events, generation=HIVE3)
    assert [deleted.directory for deleted in split.deletes] == [events.path]


@pytest.mark.parametrize(
    ("directory", "write_ids", "proven"),
    [
        (delta(3), EVERYTHING, True),
        (delta(3, 5), f"t:9:{MAX}::2,6", True),
        (delta(3, 5), f"t:9:{MAX}::4", False),
        (delta(3, 5), "t:9:4:4:", False),
        (delta(3, 5), f"t:4:{MAX}::", False),
        (base(5), f"t:9:{MAX}::4", True),
        (originals(file("", "000000_0")), f"t:9:{MAX}::1", True),
    ],
)
def test_a_directory_proves_that_its_rows_are_valid(directory: InputDirectory, write_ids: str, proven: bool) -> None:
    (split,) = splits(directory, write_ids=write_ids)
    assert split.all_valid is proven


def test_rows_without_ids_are_numbered_on_over_the_files_of_one_bucket() -> None:
    names = [("000000_0", 0), ("000000_0_copy_1", 0), ("000001_0", 1), ("000000_0_copy_2", 0)]
    directory = originals(*(file("", name, bucket=bucket) for name, bucket in names))
    for found in (splits(directory, row_ids=True), splits(directory, delta(1, delete=True))):
        assert [[earlier.path for earlier in split.before] for split in found] == [
            [],
            ["000000_0"],
            ["000000_0", "000000_0_copy_1"],
            [],
        ]
    for found in (splits(directory), splits(directory, row_ids=True, insert_only=True)):
        assert {split.before for split in found} == {()}


def test_splits_of_one_bucket_are_neighbours() -> None:
    names = ("000000_0", "000001_0", "000000_0_copy_1")
    directory = originals(*(file("", name, bucket=int(name[5])) for name in names))
    assert [split.file.path for split in splits(directory)] == ["000000_0", "000000_0_copy_1", "000001_0"]
    assert [split.file.path for split in splits(directory, insert_only=True)] == list(names)


def test_each_directory_numbers_its_own_files() -> None:
    name = DeltaDir(min_write_id=4, max_write_id=4, statement_id=0)
    loaded = InputDirectory(role=Role.DELTA, path=name.name, name=name, files=(file(name.name, "000000_0"),))
    first, second = splits(originals(file("", "000000_0")), loaded, row_ids=True)
    assert first.before == second.before == ()


def test_small_splits_share_a_task_and_large_ones_do_not() -> None:
    small = splits(*(delta(number) for number in range(1, 5)))
    assert [len(group) for group in packed(small, bytes_per_task=2 * (OPENING_BYTES + 100))] == [2, 2]
    assert [len(group) for group in packed(small, bytes_per_task=1)] == [1, 1, 1, 1]
    assert packed(small, bytes_per_task=100 * OPENING_BYTES) == (small,)
    assert packed(()) == ()
