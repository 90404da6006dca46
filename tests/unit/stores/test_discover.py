"""Tables and partitions by the directories of a warehouse."""

import os
from pathlib import Path
from typing import Any

import pytest
from located import at

from acidlib.errors import RefusedError, RetryError
from acidlib.stores import filesystem
from acidlib.stores.discover import discover_location, discover_warehouse
from acidlib.stores.filesystem import Entry
from acidlib.stores.renaming.local import LocalFileSystem
from unit.stores.places import FS, put

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_discovery_of_a_warehouse(tmp_path: Path) -> None:
    put(
        tmp_path,
        "Plain/delta_1_1/bucket_00000",
        "sales.db/orders.v37/base_0000001/bucket_00000",
        "sales.db/by_day/ds=2024-01-01/h=1%3A2/delta_1_1/bucket_00000",
        "sales.db/by_day/ds=2024-01-01/h=2/000000_0",
        "sales.db/by_day/ds=2024-01-02/h=__HIVE_DEFAULT_PARTITION__/delta_2_2/bucket_00000",
        "sales.db/by_day/ds=2024-01-03/",
        "sales.db/by_day/_tmp_x/delta_1_1/bucket_00000",
        "sales.db/by_day/stray/file",
        "sales.db/legacy/000000_0",
        "sales.db/files_beside/ds=1/delta_1_1/bucket_00000",
        "sales.db/files_beside/readme",
        "sales.db/mixed/a=1/delta_1_1/bucket_00000",
        "sales.db/mixed/b=1/delta_1_1/bucket_00000",
        "empty/",
        "_hidden/delta_1_1/bucket_00000",
    )
    (tmp_path / "sales.db/link").symlink_to(tmp_path / "Plain")
    tables, skipped = discover_warehouse(FS, at(tmp_path))
    assert [(table.ref.database, table.ref.table, str(table.location)) for table in tables] == [
        ("default", "plain", f"{tmp_path}/Plain"),
        ("sales", "by_day", f"{tmp_path}/sales.db/by_day"),
        ("sales", "orders", f"{tmp_path}/sales.db/orders.v37"),
    ]
    by_day = tables[1]
    assert [
        (name and name.pairs, str(location).removeprefix(str(by_day.location))) for name, location in by_day.partitions
    ] == [
        ((("ds", "2024-01-01"), ("h", "1:2")), "/ds=2024-01-01/h=1%3A2"),
        ((("ds", "2024-01-01"), ("h", "2")), "/ds=2024-01-01/h=2"),
        ((("ds", "2024-01-02"), ("h", "__HIVE_DEFAULT_PARTITION__")), "/ds=2024-01-02/h=__HIVE_DEFAULT_PARTITION__"),
    ]
    reasons = {str(location).removeprefix(f"{tmp_path}/"): reason for location, reason in skipped.items()}
    assert reasons.keys() == {
        "empty",
        "sales.db/legacy",
        "sales.db/files_beside",
        "sales.db/mixed",
        "sales.db/link",
        "sales.db/by_day/ds=2024-01-03",
        "sales.db/by_day/stray",
    }
    assert "original files only" in reasons["sales.db/legacy"]
    assert "original files only" in reasons["sales.db/files_beside"]
    assert "different keys: a and b" in reasons["sales.db/mixed"]
    assert "symbolic link" in reasons["sales.db/link"]


def test_a_named_location_is_a_table_or_a_partition(tmp_path: Path) -> None:
    put(tmp_path, "w.db/T/ds=1/h=2/delta_1_1/bucket_00000", "w.db/u/base_0000002/bucket_00000", "w.db/u/000000_0")
    whole = discover_location(FS, at(f"{tmp_path}/w.db/T"))
    assert [str(location) for _, location in whole.partitions] == [f"{tmp_path}/w.db/T/ds=1/h=2"]
    assert whole == discover_location(FS, at(f"{tmp_path}/w.db/T/ds=1/h=2"))
    assert (whole.ref.database, whole.ref.table) == ("w", "t")
    unpartitioned = discover_location(FS, at(f"{tmp_path}/w.db/u"))
    assert [name for name, _ in unpartitioned.partitions] == [None]


def test_a_table_may_be_called_like_a_partition(tmp_path: Path) -> None:
    put(tmp_path, "x=1/delta_1_1/bucket_00000", "file")
    found = discover_location(FS, at(f"{tmp_path}/x=1"))
    assert (found.ref.table, found.partitions[0][0]) == ("x=1", None)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("t/000000_0", "original files only"),
        ("t/", "it is empty"),
        ("t/x/y/", "neither it nor"),
        ("t/a/delta_1_1/bucket_00000", "it is a directory of tables, such as a; name one"),
        ("t/a/ds=1/delta_1_1/bucket_00000", "it is a directory of tables, such as a; name one"),
        ("t/a.db/b/delta_1_1/bucket_00000", "it is a directory of databases, such as a.db; name a table"),
        ("t/ds=1/000000_0", "neither it nor"),
        ("x", "no such"),
    ],
)
def test_a_named_location_that_is_no_acid_table(tmp_path: Path, made: str, reason: str) -> None:
    put(tmp_path, made)
    with pytest.raises(RefusedError, match=reason):
        discover_location(FS, at(f"{tmp_path}/t"))


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (["t/000000_0"], [""]),
        (["t/any name"], [""]),
        (["t/ds=1/000000_0", "t/ds=2/000000_0"], ["/ds=1", "/ds=2"]),
        (["t/x/000000_0"], None),
        (["t/_hidden"], None),
    ],
)
def test_original_files_alone_are_a_table_where_that_is_stated(
    tmp_path: Path, made: list[str], found: list[str] | None
) -> None:
    put(tmp_path, *made)
    if found is None:
        with pytest.raises(RefusedError):
            discover_location(FS, at(f"{tmp_path}/t"), is_stated=True)
    else:
        table = discover_location(FS, at(f"{tmp_path}/t"), is_stated=True)
        assert [str(location) for _, location in table.partitions] == [f"{tmp_path}/t{below}" for below in found]


def test_an_acid_directory_is_no_table_whatever_is_stated(tmp_path: Path) -> None:
    put(tmp_path, "t/delta_0000001_0000001_0000/bucket_00000")
    with pytest.raises(RefusedError, match="original files only"):
        discover_location(FS, at(f"{tmp_path}/t/delta_0000001_0000001_0000"), is_stated=True)


@pytest.mark.parametrize(
    ("closed", "found"),
    [
        ("d=2/h=1", ["d=1/h=1", "d=2/h=1", "d=2/h=2"]),  # told when it is listed as a place
        ("d=2", None),  # what is below is not known: it may be anything
        ("d=1/h=1 d=2/h=1 d=2/h=2", None),  # nothing shows that it is an ACID table
    ],
)
def test_a_partition_that_cannot_be_listed_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str, found: list[str] | None
) -> None:
    put(tmp_path, *(f"t/{name}/delta_1_1/bucket_00000" for name in ("d=1/h=1", "d=2/h=1", "d=2/h=2")))
    listing = LocalFileSystem.list_directory

    def listed(self: LocalFileSystem, path: str, **more: Any) -> list[Entry]:
        if path.removeprefix(f"{tmp_path}/t/") in closed.split():
            raise RetryError(f"Cannot list {path}: the permission is missing")
        return listing(self, path, **more)

    monkeypatch.setattr(LocalFileSystem, "list_directory", listed)
    if found is not None:
        table = discover_location(FS, at(f"{tmp_path}/t"))
        assert [name and name.path for name, _ in table.partitions] == found
    else:
        with pytest.raises(RetryError, match=f"{closed.split()[0]}: the permission is missing"):
            discover_location(FS, at(f"{tmp_path}/t"))


def test_what_a_mounted_disk_keeps_for_root_is_no_table_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(
        tmp_path,
        *(f"{path}/delta_1_1/bucket_00000" for path in ("t", "lost+found", "db.db/lost+found", "db.db/closed")),
    )
    assert len(discover_warehouse(FS, at(tmp_path))[0]) == 4, "a table may have that name"
    listing = LocalFileSystem.list_directory

    def listed(self: LocalFileSystem, path: str, **more: Any) -> list[Entry]:
        if path.endswith(("/lost+found", "/closed")):
            raise RetryError(f"Cannot list {path}: the permission is missing")
        return listing(self, path, **more)

    monkeypatch.setattr(LocalFileSystem, "list_directory", listed)
    tables, skipped = discover_warehouse(FS, at(tmp_path))
    assert [str(table.ref) for table in tables] == ["default.t"]
    assert {
        str(path)[len(str(tmp_path)) :]: str(why) for path, why in skipped.items() if isinstance(why, str)
    } == dict.fromkeys(("/lost+found", "/db.db/lost+found"), "it is the file system's own: the permission is missing")
    assert [path.name for path, why in skipped.items() if isinstance(why, RetryError)] == ["closed"]


def test_a_pipe_or_an_odd_name_hides_no_table_beside_it(tmp_path: Path) -> None:
    put(tmp_path, "t/delta_1_1/bucket_00000", "db.db/u/delta_1_1/bucket_00000")
    for folder in (tmp_path, tmp_path / "db.db"):
        os.mkfifo(folder / "pipe")
        os.mkdir(os.fsencode(folder) + b"/odd\xff")  # noqa: PTH102 - a name that is not UTF-8
    tables, skipped = discover_warehouse(FS, at(tmp_path))
    assert sorted(str(table.ref) for table in tables) == ["db.u", "default.t"]
    odd = ["it is neither a file nor a directory", "that name is not UTF-8"]
    assert sorted(map(str, skipped.values())) == [reason for reason in odd for _ in range(2)]


def test_partitions_are_looked_for_as_far_as_a_place_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer of one table may make any number at several levels, for which the other tables wait."""
    put(tmp_path, "other/delta_1_1/bucket_00000")
    put(tmp_path, *(f"his/a={a}/b={b}/delta_1_1/bucket_00000" for a in range(3) for b in range(3)))
    assert {table.ref.table for table in discover_warehouse(FS, at(tmp_path))[0]} == {"his", "other"}
    monkeypatch.setattr(filesystem, "MAX_ENTRIES", 8)
    tables, skipped = discover_warehouse(FS, at(tmp_path))
    assert [table.ref.table for table in tables] == ["other"]
    (reason,) = (reason for location, reason in skipped.items() if location.name == "his")
    assert "more than 8 files and directories lie there" in str(reason)
