"""The local file system, the listing with its marker files, and discovery by directories."""

import errno
import grp
import os
import pwd
import shutil
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from located import at
from mounts import refuse_flag

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.stores.discover import discover_location, discover_warehouse
from acidlib.stores.filesystem import Entry, RenameFileSystem, as_acid_error
from acidlib.stores.listing import data_format, flush_length, list_location
from acidlib.stores.renaming import claims, local
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.stores import Stores

FIXTURES = Path(__file__).parents[2] / "fixtures"
FS: RenameFileSystem = LocalFileSystem()


def put(root: Path, *paths: str) -> None:
    for path in paths:
        target = root / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.encode())


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a//b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("FILE://localhost/a", "/a"),
        ("file:///t/ts=2024-01-01 10%3A00", "/t/ts=2024-01-01 10%3A00"),
        ("/t/p=%2Fa#b?c", "/t/p=%2Fa#b?c"),
        ("/t/x=1:2", "/t/x=1:2"),
    ],
)
def test_local_paths_are_taken_literally(uri: str, path: str) -> None:
    assert str(Stores().locate(uri)) == path


def test_a_bare_path_is_local_and_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(Stores().locate("warehouse/t")) == f"{tmp_path}/warehouse/t"


def test_a_link_in_the_location_itself_is_resolved(tmp_path: Path) -> None:
    put(tmp_path, "real/t/")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert str(Stores().locate(f"file://{tmp_path}/link/t")) == f"{tmp_path}/real/t"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3a:///t", "no bucket"),
        ("hdfs:///t", "fs.defaultFS is not set"),
        ("hdfs://nn/a/../t", "is not taken"),
        ("gs://b/t", "Google Cloud Storage is not supported"),
        ("wasbs://c@a.blob.core.windows.net/t", "Azure"),
        ("abfss://c@a.dfs.core.windows.net/t", "Azure Data Lake Storage is not supported"),
        ("ofs://om/vol/t", "Apache Ozone is not supported"),
        ("ftp://x/t", "'ftp'"),
        ("file://server/t", "'server'"),
        ("file:t", "absolute"),
        ("file://", "no path"),
        ("", "no path"),
        ("/a\0b", "no path"),
    ],
)
def test_other_uris_are_refused_by_name(uri: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        Stores().locate(uri)


def test_an_empty_directory_is_removed_and_no_other(tmp_path: Path) -> None:
    put(tmp_path, "empty/", "full/file", "file")
    assert FS.remove_empty_directory(f"{tmp_path}/empty")
    assert not FS.remove_empty_directory(f"{tmp_path}/empty")
    assert not FS.remove_empty_directory(f"{tmp_path}/full")
    with pytest.raises(AcidError, match="not a directory"):
        FS.remove_empty_directory(f"{tmp_path}/file")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["file", "full", "full/file"]


def test_a_file_is_removed_and_no_directory(tmp_path: Path) -> None:
    put(tmp_path, "empty/", "file")
    FS.remove_file(f"{tmp_path}/file")
    with pytest.raises(CorruptError, match="no such file"):
        FS.remove_file(f"{tmp_path}/file")
    with pytest.raises(ConflictError, match="it is a directory"):
        FS.remove_file(f"{tmp_path}/empty", missing=ConflictError)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def take(path: Path, how: str) -> None:
    """Let something have a name."""
    if how == "file":
        path.write_bytes(b"theirs")
    elif how.endswith("link"):
        path.symlink_to("_outside" if how == "link" else "_nowhere")
    else:
        path.mkdir()
        if how == "full directory":
            (path / "theirs").touch()


TAKEN = ["empty directory", "full directory", "file", "link", "dangling link"]


@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("source", ["directory", "file"])
def test_rename_never_replaces_anything(tmp_path: Path, way: str, source: str, how: str) -> None:
    put(tmp_path, "_outside/", "staged/bucket_00000")
    staged = tmp_path / ("staged" if source == "directory" else "staged/bucket_00000")
    take(tmp_path / "target", how)
    before = sorted((str(path), path.lstat().st_ino) for path in tmp_path.rglob("*"))
    with pytest.raises(ConflictError, match="target already exists"):
        FS.rename_noreplace(str(staged), f"{tmp_path}/target")
    assert sorted((str(path), path.lstat().st_ino) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("how", [name for name in TAKEN if name != "empty directory"])
def test_what_takes_the_name_at_the_last_moment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, how: str
) -> None:
    """Without the flag there is a moment between the look at a directory's new name and the rename."""
    put(tmp_path, "_outside/", "staged/bucket_00000")
    real = os.rename

    def late(source: str, target: str) -> None:
        take(Path(target), how)
        real(source, target)

    refuse_flag(monkeypatch, code)
    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(ConflictError, match="already exists"):
        FS.rename_noreplace(f"{tmp_path}/staged", f"{tmp_path}/target")
    assert (tmp_path / "staged/bucket_00000").is_file()
    assert os.path.lexists(tmp_path / "target/theirs") is (how == "full directory")


def test_of_many_renames_of_files_to_one_name_one_wins(tmp_path: Path, way: str) -> None:
    for number in range(20):
        put(tmp_path, *(f"{number}/{index}" for index in range(4)))

        def rename(index: int, place: str = f"{tmp_path}/{number}") -> bool:
            try:
                FS.rename_noreplace(f"{place}/{index}", f"{place}/target")
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(rename, range(4)))
        assert won.count(True) == 1
        assert (tmp_path / f"{number}/target").read_text() == f"{number}/{won.index(True)}"
        assert len(list((tmp_path / str(number)).iterdir())) == 4


@pytest.mark.parametrize("step", ["link", "rename"])
@pytest.mark.parametrize("source", ["directory", "file"])
def test_an_answer_that_was_lost_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, source: str
) -> None:
    """A client of NFS asks again when no answer comes, and may get an error for what it has done."""
    put(tmp_path, "directory/file")
    real = getattr(os, step)

    def twice(*arguments: Any, **more: Any) -> None:
        real(*arguments, **more)
        real(*arguments, **more)

    refuse_flag(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, twice)
        FS.create(f"{tmp_path}/created", b"whole")
        where = "directory" if source == "directory" else "directory/file"
        FS.rename_noreplace(f"{tmp_path}/{where}", f"{tmp_path}/target")
    assert (tmp_path / "created").read_bytes() == b"whole"
    assert (tmp_path / ("target/file" if source == "directory" else "target")).read_text() == "directory/file"
    assert not (tmp_path / where).exists()


def test_a_mount_with_neither_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*arguments: object, **more: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    refuse_flag(monkeypatch)
    monkeypatch.setattr(os, "link", no_links)
    point = next(path for path in [tmp_path, *tmp_path.parents] if path.is_mount())
    with pytest.raises(RetryError, match=rf"because the file system of {point} \([a-z0-9.]+\) can neither rename"):
        FS.create(f"{tmp_path}/_acidlib_claim", b"{}")
    assert list(tmp_path.iterdir()) == []


def test_the_mount_is_named_that_a_path_lies_on(mount: Path) -> None:
    (mount / "a b").mkdir()
    assert local._mount(f"{mount}/a b/x") == f"{mount} (fuse)"
    assert local._mount(f"{mount}2/x") != f"{mount} (fuse)"


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (errno.ENOSPC, RetryError, "Cannot write /t: because no space is left"),
        (errno.EDQUOT, RetryError, "quota"),
        (errno.EACCES, RetryError, "permission"),
        (errno.EROFS, RetryError, "read-only"),
        (errno.EIO, RetryError, "Input/output error"),
        (errno.ENOENT, CorruptError, "no such file"),
        (errno.EEXIST, ConflictError, "already exists"),
        (errno.ELOOP, RefusedError, "symbolic link"),
        (errno.ENAMETOOLONG, RefusedError, "name"),
    ],
)
def test_operating_system_errors_are_told_by_what_helps(code: int, kind: type[Exception], text: str) -> None:
    error = as_acid_error(OSError(code, os.strerror(code)), "write", "/t")
    assert type(error) is kind
    assert text in str(error)


@pytest.fixture
def nobody() -> Iterator[str]:
    """The name of a user who is not root, as whom the test acts."""
    if os.geteuid() == 0:
        os.seteuid(65_534)
    yield pwd.getpwuid(os.geteuid()).pw_name
    os.seteuid(os.getuid())


@pytest.mark.parametrize(
    ("closed", "mode", "act", "told", "right", "shown"),
    [
        ("t", 0o600, lambda t: FS.read(f"{t}/d/f"), "read T/d/f", "enter (x)", "drw-------"),
        ("t/d", 0o300, lambda t: FS.list_directory(f"{t}/d"), "list T/d", "read (r)", "d-wx------"),
        ("t/d/f", 0o200, lambda t: FS.read(f"{t}/d/f"), "read T/d/f", "read (r)", "--w-------"),
        ("t/d", 0o500, lambda t: FS.create(f"{t}/d/g", b""), "write T/d/", "write (w)", "dr-x------"),
        ("t/d", 0o500, lambda t: FS.make_directory(f"{t}/d/e"), "create T/d/e", "write (w)", "dr-x------"),
        ("t/d", 0o500, lambda t: FS.remove_file(f"{t}/d/f"), "remove T/d/f", "write (w)", "dr-x------"),
        ("t/d", 0o500, lambda t: FS.remove_tree(t, "d"), "remove T/d", "write (w)", "dr-x------"),
        ("t/d", 0o400, lambda t: FS.remove_tree(t, "d"), "remove T/d", "write and enter (wx)", "dr--------"),
        ("t/d", 0o500, lambda t: FS.rename_noreplace(f"{t}/d/f", f"{t}/g"), "d/f to T/g", "write (w)", "dr-x------"),
        ("t", 0o500, lambda t: FS.rename_noreplace(f"{t}/d/f", f"{t}/g"), "d/f to T/g", "write (w)", "dr-x------"),
    ],
)  # fmt: skip
def test_a_missing_permission_says_which_user_which_right_and_which_path(
    nobody: str, closed: str, mode: int, act: Callable[[str], object], told: str, right: str, shown: str
) -> None:
    with tempfile.TemporaryDirectory() as root:  # that of pytest is closed to others
        put(Path(root), "t/d/f")
        path = Path(root, closed)
        before = path.stat()
        path.chmod(mode)
        try:
            with pytest.raises(RetryError) as caught:
                act(f"{root}/t")
        finally:
            path.chmod(before.st_mode)
    what, _, why = str(caught.value).replace(root, "").replace("/t", "T").partition(": the permission is missing: ")
    group = grp.getgrgid(before.st_gid).gr_name
    where = closed.replace("t", "T", 1)
    assert why == f"user {nobody} needs the right to {right} on {where}, which is {shown} of {nobody}:{group}"
    assert told in what


def test_no_space_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RetryError, match="no space is left"):
        FS.create(f"{tmp_path}/f", b"data")
    assert list(tmp_path.iterdir()) == []


def test_listing_names_hidden_directories_but_does_not_enter_them(tmp_path: Path) -> None:
    put(tmp_path, "delta_1_1/bucket_00000", "_tmp_x/base_1/bucket_00000", ".hive-staging/", "delta_2_2/", "000000_0")
    (tmp_path / "_link").symlink_to("/etc")
    listing = list_location(FS, at(tmp_path))
    assert [file.path for file in listing.files] == ["000000_0", "delta_1_1/bucket_00000"]
    assert listing.directories == (".hive-staging", "_tmp_x", "delta_1_1", "delta_2_2")
    assert listing.files[1].length == len("delta_1_1/bucket_00000")
    assert listing.files[1].modified == (tmp_path / "delta_1_1/bucket_00000").stat().st_mtime


@pytest.mark.parametrize("link", ["delta_2_2", "delta_1_1/bucket_00001"])
def test_a_symbolic_link_below_the_location_is_refused(tmp_path: Path, link: str) -> None:
    put(tmp_path, "t/delta_1_1/bucket_00000", "outside/bucket_00000")
    (tmp_path / "t" / link).symlink_to(tmp_path / "outside")
    with pytest.raises(RefusedError, match=f"{link} is a symbolic link"):
        list_location(FS, at(f"{tmp_path}/t"))


def test_a_link_that_has_taken_the_place_of_a_directory_is_not_listed(tmp_path: Path) -> None:
    put(tmp_path, "t/delta_1_1/bucket_00000", "outside/precious")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(CorruptError, match="not a directory"):
        FS.list_directory(f"{tmp_path}/link")

    class Swapped(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            found = super().list_directory(path, missing=missing)
            if path == f"{tmp_path}/t" and not (tmp_path / "t/delta_1_1").is_symlink():
                shutil.rmtree(tmp_path / "t/delta_1_1")
                (tmp_path / "t/delta_1_1").symlink_to(tmp_path / "outside")
            return found

    with pytest.raises(RefusedError, match="symbolic link"):
        list_location(Swapped(), f"{tmp_path}/t")


def test_what_is_neither_file_nor_directory_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match="neither a file nor a directory"):
        list_location(FS, at(tmp_path))


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).touch()
    with pytest.raises(RefusedError, match="not UTF-8"):
        list_location(FS, at(tmp_path))


def test_listing_a_missing_location(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such"):
        list_location(FS, at(f"{tmp_path}/absent"), missing=RefusedError)
    put(tmp_path, "file")
    with pytest.raises(CorruptError, match="not a directory"):
        list_location(FS, at(f"{tmp_path}/file"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_an_unreadable_directory_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "delta_1_1/bucket_00000")
    (tmp_path / "delta_1_1").chmod(0)
    try:
        with pytest.raises(RetryError, match="permission"):
            list_location(FS, at(tmp_path))
    finally:
        (tmp_path / "delta_1_1").chmod(stat.S_IRWXU)


def test_when_a_directory_vanishes_meanwhile_all_is_listed_again(tmp_path: Path) -> None:
    """What covers it may have been published since the first look."""
    put(tmp_path, "delta_1_1/bucket_00000", "delta_2_2/bucket_00000")

    class Racing(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            found = super().list_directory(path, missing=missing)
            if (tmp_path / "delta_2_2").exists():
                put(tmp_path, "base_2/bucket_00000")
                shutil.rmtree(tmp_path / "delta_2_2")
            return found

    assert list_location(Racing(), str(tmp_path)).top_directories() == ("base_2", "delta_1_1")


def test_a_directory_that_comes_and_goes_does_not_end_the_listing(tmp_path: Path) -> None:
    """A run that tries again to claim the place uses the same name."""
    put(tmp_path, "delta_1_1/bucket_00000")
    seen = 0

    class Trying(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            nonlocal seen
            seen += 1
            if seen <= claims.TRIES_TO_CLAIM:
                raise ConflictError(f"Cannot list {path}: because _acidlib_claim.x vanished while it was listed")
            return super().list_directory(path, missing=missing)

    assert list_location(Trying(), at(tmp_path)).top_directories() == ("delta_1_1",)


def test_a_directory_that_is_named_and_never_there_is_a_conflict(tmp_path: Path) -> None:
    put(tmp_path, "delta_1_1/bucket_00000", "delta_2_2/bucket_00000")

    class Stale(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            return super().list_directory(path + "_" if path.endswith("delta_2_2") else path, missing=missing)

    with pytest.raises(ConflictError, match="delta_2_2"):
        list_location(Stale(), str(tmp_path))


def test_bases_that_hive_marked_as_compacted() -> None:
    location = FIXTURES / "hive3/a_crud/after_major"
    expected = {path.parent.name for path in location.glob("base_*/_metadata_acid")}
    assert expected
    assert list_location(FS, at(location)).compacted_bases == expected


@pytest.mark.parametrize("target", ["outside", "nowhere"])
def test_a_link_that_marks_a_base_as_compacted_is_refused(tmp_path: Path, target: str) -> None:
    """Left out, as other hidden links are, it would make the base that of an INSERT OVERWRITE."""
    put(tmp_path, "t/base_0000005/bucket_00000", "t/base_0000006/bucket_00000")
    (tmp_path / "outside").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    (tmp_path / "t/base_0000005/_metadata_acid").symlink_to(tmp_path / target)
    with pytest.raises(RefusedError, match="base_0000005/_metadata_acid is a symbolic link"):
        list_location(FS, at(f"{tmp_path}/t"))


def test_a_truncated_base_is_no_compacted_one(tmp_path: Path) -> None:
    put(tmp_path, "base_0000005/_metadata_acid", "base_0000006/")
    marker = tmp_path / "base_0000005/_metadata_acid"
    marker.write_text('{"thisFileVersion":"0","dataFormat":"TRUNCATED"}')
    assert list_location(FS, at(tmp_path)).compacted_bases == frozenset()
    assert data_format(FS, str(marker)) == "truncated"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"thisFileVersion":"0","dataFormat":"zipped"}',
        '{"thisFileVersion":"1","dataFormat":"compacted"}',
    ],
)
def test_a_damaged_metadata_file_is_an_error(tmp_path: Path, text: str) -> None:
    put(tmp_path, "base_0000005/_metadata_acid")
    (tmp_path / "base_0000005/_metadata_acid").write_text(text)
    with pytest.raises(CorruptError, match="_metadata_acid"):
        list_location(FS, at(tmp_path))


def test_the_last_complete_long_is_the_logical_length(tmp_path: Path) -> None:
    side = tmp_path / "bucket_00000_flush_length"
    side.write_bytes(struct.pack(">qqq", 0, 700, 900) + b"\0\0\0")
    assert flush_length(FS, str(side), 1000) == 900
    with pytest.raises(CorruptError, match="length 900 to a data file of 899"):
        flush_length(FS, str(side), 899)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\0\0\1", struct.pack(">q", -1)])
def test_a_side_file_without_a_length_is_an_error(tmp_path: Path, data: bytes) -> None:
    side = tmp_path / "bucket_00000_flush_length"
    side.write_bytes(data)
    with pytest.raises(CorruptError, match="flush_length"):
        flush_length(FS, str(side), 1000)


def test_the_side_files_that_hive_wrote() -> None:
    found = sorted((FIXTURES / "hive3/j_stream").rglob("*_flush_length"))
    assert found
    for side in found:
        data = side.with_name(side.name.removesuffix("_flush_length"))
        length = flush_length(FS, str(side), data.stat().st_size)
        assert data.read_bytes()[length - 4 : length - 1] == b"ORC"  # a postscript ends there


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
        (part.name and part.name.pairs, str(part.location).removeprefix(str(by_day.location)))
        for part in by_day.partitions
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


def test_discovery_of_a_missing_warehouse(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such"):
        discover_warehouse(FS, at(f"{tmp_path}/absent"))


def test_a_named_location_is_a_table_or_a_partition(tmp_path: Path) -> None:
    put(tmp_path, "w.db/T/ds=1/h=2/delta_1_1/bucket_00000", "w.db/u/base_0000002/bucket_00000", "w.db/u/000000_0")
    whole = discover_location(FS, at(f"{tmp_path}/w.db/T"))
    assert [str(part.location) for part in whole.partitions] == [f"{tmp_path}/w.db/T/ds=1/h=2"]
    assert whole == discover_location(FS, at(f"{tmp_path}/w.db/T/ds=1/h=2"))
    assert (whole.ref.database, whole.ref.table) == ("w", "t")
    unpartitioned = discover_location(FS, at(f"{tmp_path}/w.db/u"))
    assert [part.name for part in unpartitioned.partitions] == [None]


def test_a_table_may_be_called_like_a_partition(tmp_path: Path) -> None:
    put(tmp_path, "x=1/delta_1_1/bucket_00000", "file")
    found = discover_location(FS, at(f"{tmp_path}/x=1"))
    assert (found.ref.table, found.partitions[0].name) == ("x=1", None)


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
        assert [part.name and part.name.path for part in table.partitions] == found
    else:
        with pytest.raises(RetryError, match=f"{closed.split()[0]}: the permission is missing"):
            discover_location(FS, at(f"{tmp_path}/t"))


def test_the_partitioned_fixture() -> None:
    found = discover_location(FS, at(FIXTURES / "hive3/b_part/before"))
    assert [part.name and part.name.path for part in found.partitions] == [
        "dt=2024-01-01",
        "dt=2024-01-02",
        "dt=2024-01-03",
    ]
