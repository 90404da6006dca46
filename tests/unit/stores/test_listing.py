"""The listing of a location with its marker files and lengths."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from located import at

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.stores import listing as listings
from acidlib.stores.filesystem import Entry
from acidlib.stores.listing import flush_length, list_location
from acidlib.stores.renaming import claims
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.store import METADATA_ACID
from unit.stores.places import FS, put

FIXTURES = Path(__file__).parents[2] / "fixtures"


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
    with pytest.raises(RefusedError, match="symbolic link"):
        FS.list_directory(f"{tmp_path}/link")

    class Swapped(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            found = super().list_directory(path, missing=missing)
            if path == f"{tmp_path}/t" and not (tmp_path / "t/delta_1_1").is_symlink():
                shutil.rmtree(tmp_path / "t/delta_1_1")
                (tmp_path / "t/delta_1_1").symlink_to(tmp_path / "outside")
            return found

    with pytest.raises(RefusedError, match="symbolic link"):
        list_location(Swapped(), at(f"{tmp_path}/t"))


def test_what_is_neither_file_nor_directory_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match="neither a file nor a directory"):
        list_location(FS, at(tmp_path))


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).touch()
    with pytest.raises(RefusedError, match="not UTF-8"):
        list_location(FS, at(tmp_path))


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

    assert list_location(Racing(), at(tmp_path)).top_directories() == ("base_2", "delta_1_1")


def test_when_a_base_vanishes_before_its_mark_is_read_all_is_listed_again(tmp_path: Path) -> None:
    """A newer base covers it, and a cleaner removes it."""
    put(tmp_path, "base_1/_metadata_acid", "base_2/bucket_00000")

    class Racing(LocalFileSystem):
        def list_tree(
            self, path: str, *, enter_hidden: bool = True, missing: type[AcidError] = CorruptError
        ) -> tuple[Entry, ...]:
            found = super().list_tree(path, enter_hidden=enter_hidden, missing=missing)
            shutil.rmtree(tmp_path / "base_1", ignore_errors=True)
            return found

    assert list_location(Racing(), at(tmp_path)).top_directories() == ("base_2",)


def test_a_base_that_is_opened_after_it_was_listed_is_listed_again(tmp_path: Path) -> None:
    """Else a reader would take the files of it that were there for all."""
    put(tmp_path, "base_2/bucket_00000", "base_1/bucket_00000")
    (tmp_path / "base_2" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"publishing","run":"u"}')

    class Racing(LocalFileSystem):
        def list_tree(
            self, path: str, *, enter_hidden: bool = True, missing: type[AcidError] = CorruptError
        ) -> tuple[Entry, ...]:
            found = super().list_tree(path, enter_hidden=enter_hidden, missing=missing)
            put(tmp_path, "base_2/bucket_00001")
            (tmp_path / "base_2" / "_metadata_acid").write_bytes(METADATA_ACID)
            return found

    listing = list_location(Racing(), at(tmp_path))
    assert listing.compacted_bases == {"base_2"}
    assert {file.path for file in listing.files} >= {"base_2/bucket_00000", "base_2/bucket_00001"}


def test_a_directory_that_comes_and_goes_does_not_end_the_listing(tmp_path: Path) -> None:
    """A run that tries again to claim the place uses the same name."""
    put(tmp_path, "delta_1_1/bucket_00000")
    seen = 0

    class Trying(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            nonlocal seen
            seen += 1
            if seen <= claims.TRIES_TO_CLAIM:
                raise ConflictError(f"Cannot list {path}: _acidlib_claim.x vanished while it was listed")
            return super().list_directory(path, missing=missing)

    assert list_location(Trying(), at(tmp_path)).top_directories() == ("delta_1_1",)


def test_names_that_come_and_go_without_end_are_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "delta_1_1/bucket_00000")

    class Busy(LocalFileSystem):
        seen = 0

        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            self.seen += 1
            raise ConflictError(f"Cannot list {path}: file_{self.seen} vanished while it was listed")

    fs = Busy()
    with pytest.raises(ConflictError, match="file_100 vanished"):
        list_location(fs, at(tmp_path))
    monkeypatch.setattr(listings, "_MAX_SECONDS", 0.0)  # and so they are where a listing takes long
    with pytest.raises(ConflictError, match="file_1 vanished"):
        list_location(Busy(), at(tmp_path))


def test_a_directory_that_is_named_and_never_there_is_a_conflict(tmp_path: Path) -> None:
    put(tmp_path, "delta_1_1/bucket_00000", "delta_2_2/bucket_00000")

    class Stale(LocalFileSystem):
        def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
            return super().list_directory(path + "_" if path.endswith("delta_2_2") else path, missing=missing)

    with pytest.raises(ConflictError, match="delta_2_2"):
        list_location(Stale(), at(tmp_path))


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


def test_a_pipe_that_marks_a_base_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "base_0000005/bucket_00000", "base_0000006/bucket_00000")
    os.mkfifo(tmp_path / "base_0000005/_metadata_acid")
    with pytest.raises(RefusedError, match="it is neither a file nor a directory"):
        list_location(FS, at(tmp_path))


def test_a_truncated_base_is_no_compacted_one(tmp_path: Path) -> None:
    put(tmp_path, "base_0000005/_metadata_acid", "base_0000006/")
    marker = tmp_path / "base_0000005/_metadata_acid"
    marker.write_text('{"thisFileVersion":"0","dataFormat":"TRUNCATED"}')
    assert list_location(FS, at(tmp_path)).compacted_bases == frozenset()


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
