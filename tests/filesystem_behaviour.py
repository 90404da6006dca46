"""What every file system does that tables are published to by renames: one suite for local disks and for HDFS.

A module that runs it inherits the class and has the fixtures `fs`, a file system, and `place`, the path of an empty
directory in it that the test may do everything to.
"""

from __future__ import annotations

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from long_runs import amount

from acidlib.datafiles import DataFiles
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.stores.filesystem import FileSystem

ODD_NAMES = ["p=%3A", "a b", "a#b?c", "é", "x'\"&<", "~", "a%2Fb", "-rf", "*", "[a]", "{b}", "\\", "$HOME"]


def put(fs: FileSystem, place: str, *paths: str) -> None:
    """Makes files, whose contents are their paths, and directories (with a slash at their end)."""
    for path in paths:
        directories = path.split("/")[:-1]
        for depth in range(1, len(directories) + 1):
            directory = f"{place}/{'/'.join(directories[:depth])}"
            if not fs.exists(directory):
                fs.make_directory(directory)
        if not path.endswith("/"):
            fs.create(f"{place}/{path}", path.encode())


def names(fs: FileSystem, path: str) -> list[str]:
    return [entry.name for entry in fs.list_directory(path)]


class FileSystemBehaviour:
    """The operations of a `FileSystem`; ``odd`` are names that it takes, and ``impossible`` is one that it does not."""

    odd: ClassVar[list[str]] = ODD_NAMES
    impossible = "n" * 300

    def test_what_is_there(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "directory/", "file")
        assert fs.exists(place)
        assert fs.is_directory(f"{place}/directory")
        assert fs.exists(f"{place}/file")
        assert not fs.is_directory(f"{place}/file")
        for absent in ("absent", "file/below", "absent/below"):
            assert not fs.exists(f"{place}/{absent}")
            assert not fs.is_directory(f"{place}/{absent}")
        file, directory = fs.entry(f"{place}/file"), fs.entry(f"{place}/directory")
        assert (file.name, file.is_directory, file.is_symlink, file.length) == ("file", False, False, 4)
        assert (directory.name, directory.is_directory, directory.length) == ("directory", True, 0)
        assert 1e9 < file.modified < 1e11  # seconds
        with pytest.raises(ConflictError, match="absent: there is no such file"):
            fs.entry(f"{place}/absent", missing=ConflictError)
        with pytest.raises(CorruptError):
            fs.entry(f"{place}/file/below")
        assert fs.owner(place)

    def test_reading(self, fs: FileSystem, place: str) -> None:
        for number, data in enumerate((b"", b"0123456789", bytes(range(256)) * 20_000)):
            fs.create(f"{place}/{number}", data)
            assert fs.read(f"{place}/{number}") == data
        with pytest.raises(CorruptError, match=r"Cannot read .*/absent: there is no such file"):
            fs.read(f"{place}/absent")
        with pytest.raises(ConflictError):
            fs.read(f"{place}/absent", missing=ConflictError)
        with pytest.raises(CorruptError, match="it is a directory"):
            fs.read(place)
        with pytest.raises(CorruptError):
            fs.read(f"{place}/1/below")

    def test_create_is_exclusive_and_leaves_nothing_beside(self, fs: FileSystem, place: str) -> None:
        fs.create(f"{place}/f", b"first")
        with pytest.raises(ConflictError, match=r"Cannot write .*/f: it already exists"):
            fs.create(f"{place}/f", b"second")
        fs.make_directory(f"{place}/d")
        with pytest.raises(ConflictError):
            fs.create(f"{place}/d", b"data")
        assert fs.read(f"{place}/f") == b"first"
        assert names(fs, place) == ["d", "f"]
        with pytest.raises(CorruptError):
            fs.create(f"{place}/absent/f", b"data")
        with pytest.raises(CorruptError, match=r"not (in, )?a directory"):
            fs.create(f"{place}/f/below", b"data")
        assert not fs.exists(f"{place}/absent")

    def test_one_of_several_creators_succeeds(self, fs: FileSystem, place: str) -> None:
        def attempt(number: int) -> bool:
            try:
                fs.create(f"{place}/f", b"%d" % number)
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(attempt, range(6)))
        assert won.count(True) == 1
        assert fs.read(f"{place}/f") == b"%d" % won.index(True)
        assert names(fs, place) == ["f"]

    def test_making_directories(self, fs: FileSystem, place: str) -> None:
        fs.make_directory(f"{place}/d")
        fs.create(f"{place}/f", b"")
        for taken in ("d", "f"):
            with pytest.raises(ConflictError, match=r"Cannot create .*: it already exists"):
                fs.make_directory(f"{place}/{taken}")
        for parent in ("absent", "f"):
            with pytest.raises(CorruptError):
                fs.make_directory(f"{place}/{parent}/d")
        assert names(fs, place) == ["d", "f"]

    def test_one_of_several_makes_a_directory(self, fs: FileSystem, place: str) -> None:
        def attempt(number: int) -> bool:
            try:
                fs.make_directory(f"{place}/d")
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(attempt, range(6))).count(True) == 1
        assert names(fs, place) == ["d"]
        assert names(fs, f"{place}/d") == []

    def test_renames_move_and_keep_what_is_below(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "a/b/c", "f", "other/")
        before = fs.entry(f"{place}/a/b/c").modified, fs.entry(f"{place}/f").modified
        fs.rename_noreplace(f"{place}/a", f"{place}/other/moved")
        fs.rename_noreplace(f"{place}/f", f"{place}/g")
        assert fs.read(f"{place}/other/moved/b/c") == b"a/b/c"
        assert (fs.entry(f"{place}/other/moved/b/c").modified, fs.entry(f"{place}/g").modified) == before
        assert names(fs, place) == ["g", "other"]

    @pytest.mark.parametrize("source", ["file", "directory"])
    @pytest.mark.parametrize("target", ["file2", "empty", "full"])
    def test_a_rename_never_replaces(self, fs: FileSystem, place: str, source: str, target: str) -> None:
        put(fs, place, "file", "directory/x", "file2", "empty/", "full/y")
        before = fs.list_tree(place, enter_hidden=True)
        with pytest.raises(ConflictError, match=rf"Cannot rename .*/{source} to .*: .*/{target} already"):
            fs.rename_noreplace(f"{place}/{source}", f"{place}/{target}")
        assert fs.list_tree(place, enter_hidden=True) == before

    def test_a_rename_of_or_to_what_is_missing(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "file")
        with pytest.raises(CorruptError, match=r"Cannot rename .*absent to .*/x: there is no such file"):
            fs.rename_noreplace(f"{place}/absent", f"{place}/x")
        with pytest.raises(ConflictError, match="there is no such file"):
            fs.rename_noreplace(f"{place}/absent", f"{place}/x", missing=ConflictError)
        with pytest.raises(CorruptError):
            fs.rename_noreplace(f"{place}/file", f"{place}/absent/x")
        assert names(fs, place) == ["file"]

    @pytest.mark.parametrize("kind", ["file", "directory"])
    def test_one_of_several_renames_of_one_source_succeeds(self, fs: FileSystem, place: str, kind: str) -> None:
        put(fs, place, "source/x" if kind == "directory" else "source")

        def attempt(number: int) -> bool:
            try:
                fs.rename_noreplace(f"{place}/source", f"{place}/{number}", missing=ConflictError)
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(attempt, range(6)))
        assert won.count(True) == 1
        assert names(fs, place) == [str(won.index(True))]

    def test_one_of_several_renames_to_one_target_succeeds(self, fs: FileSystem, place: str) -> None:
        put(fs, place, *(f"{number}/x{number}" for number in range(6)))

        def attempt(number: int) -> bool:
            try:
                fs.rename_noreplace(f"{place}/{number}", f"{place}/target")
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(attempt, range(6)))
        assert won.count(True) == 1
        assert names(fs, f"{place}/target") == [f"x{won.index(True)}"]

    def test_listing_one_directory(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "b/x", "a", "C", ".hidden", "_tmp/")
        found = fs.list_directory(place)
        assert [entry.name for entry in found] == [".hidden", "C", "_tmp", "a", "b"]
        assert [entry.is_directory for entry in found] == [False, False, True, False, True]
        assert [entry.length for entry in found] == [7, 1, 0, 1, 0]
        assert found == tuple(fs.entry(f"{place}/{entry.name}") for entry in found)
        assert fs.list_directory(f"{place}/_tmp") == ()
        with pytest.raises(CorruptError, match=r"Cannot list .*/absent: there is no such"):
            fs.list_directory(f"{place}/absent")
        for path in ("a", "a/below"):
            with pytest.raises(RefusedError):
                fs.list_directory(f"{place}/{path}", missing=RefusedError)
        with pytest.raises(CorruptError, match="not a directory"):
            fs.list_directory(f"{place}/a")

    def test_listing_a_tree(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "b/x/1", "a", "_hidden/y", "b/.z/2", "empty/")
        shown = [item.path for item in fs.list_tree(place, enter_hidden=False)]
        assert shown == ["_hidden", "a", "b", "b/.z", "b/x", "b/x/1", "empty"]
        found = fs.list_tree(place, enter_hidden=True)
        assert [item.path for item in found] == sorted([*shown, "_hidden/y", "b/.z/2"])
        lengths = {item.path: item.length for item in found if not item.is_directory}
        assert lengths == {path: len(path) for path in ("b/x/1", "a", "_hidden/y", "b/.z/2")}
        with pytest.raises(RefusedError):
            fs.list_tree(f"{place}/absent", enter_hidden=True, missing=RefusedError)

    def test_a_directory_that_vanishes_while_a_tree_is_listed(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "a/b/x", "c/")
        real = type(fs).list_directory
        gone = []

        class Racing(type(fs)):  # type: ignore[misc]
            __slots__ = ()

            def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> object:
                found = real(self, path, missing=missing)
                if path == place and not gone:
                    fs.remove_tree(place, "a")
                    gone.append(path)
                return found

        racing = Racing.__new__(Racing)
        for slot in itertools.chain.from_iterable(getattr(kind, "__slots__", ()) for kind in type(fs).__mro__):
            setattr(racing, slot, getattr(fs, slot))
        with pytest.raises(ConflictError, match="there is no such"):
            racing.list_tree(place, enter_hidden=True)

    def test_odd_names(self, fs: FileSystem, place: str) -> None:
        for name in self.odd:
            fs.make_directory(f"{place}/{name}")
            fs.create(f"{place}/{name}/{name}", name.encode())
        assert names(fs, place) == sorted(self.odd)
        for name in self.odd:
            assert names(fs, f"{place}/{name}") == [name]
            assert fs.read(f"{place}/{name}/{name}") == name.encode()
            fs.rename_noreplace(f"{place}/{name}", f"{place}/{name}2")
            fs.remove_tree(place, f"{name}2")
        assert names(fs, place) == []

    def test_a_name_that_cannot_be(self, fs: FileSystem, place: str) -> None:
        with pytest.raises(RefusedError, match="name"):
            fs.make_directory(f"{place}/{self.impossible}")
        assert names(fs, place) == []

    def test_removing_a_tree(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "a/b/c", "a/d", "file", "kept/x")
        fs.remove_tree(place, "a/b")
        assert names(fs, f"{place}/a") == ["d"]
        fs.remove_tree(place, "a")
        fs.remove_tree(place, "file")
        assert [item.path for item in fs.list_tree(place, enter_hidden=True)] == ["kept", "kept/x"]
        for absent in ("a", "kept/y", "absent/y"):
            with pytest.raises(ConflictError, match=rf"Cannot remove .*/{absent}: there is no such"):
                fs.remove_tree(place, absent)

    @pytest.mark.parametrize("relative", ["", ".", "..", "a/../..", "/a", "a//b", "a/", "a\0b", "../place"])
    def test_nothing_outside_the_root_is_removed(self, fs: FileSystem, place: str, relative: str) -> None:
        put(fs, place, "a/b")
        with pytest.raises(RefusedError, match="below"):
            fs.remove_tree(place, relative)
        assert fs.exists(f"{place}/a/b")

    def test_syncing(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "a/b")
        fs.sync(f"{place}/a/b")
        fs.sync(place)
        fs.sync_tree(place)

    def test_inheriting(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "like/", "new/d/f")
        fs.inherit(f"{place}/new", f"{place}/like")
        assert fs.owner(f"{place}/new/d/f") == fs.owner(f"{place}/like")

    def test_a_pickled_one_is_the_same(self, fs: FileSystem, place: str) -> None:
        put(fs, place, "f")
        assert pickle.loads(pickle.dumps(fs)).read(f"{place}/f") == b"f"


class DataFilesBehaviour:
    """The data files of a store; the fixture `data` is `DataFiles`, `fs` and `place` are as above."""

    def test_written_in_pieces_and_read_at_any_place(self, data: DataFiles, fs: FileSystem, place: str) -> None:
        sink = data.create(f"{place}/f")
        assert (sink.name, sink.position) == (f"{place}/f", 0)
        sink.write(b"0123")
        sink.write(memoryview(b"xx456789xx")[2:-2])
        sink.write(memoryview(bytes(range(4))).cast("H"))
        sink.write(b"")
        assert sink.position == 14
        sink.close()
        assert fs.entry(f"{place}/f").length == 14
        source = data.open(f"{place}/f", 14)
        assert (source.name, source.length) == (f"{place}/f", 14)
        assert source.read(0, 14) == b"0123456789\0\1\2\3"
        assert source.read(3, 4) == b"3456"
        assert source.read(14, 0) == b""
        source.close()
        source.close()
        with pytest.raises(ValueError, match="closed"):
            source.read(0, 1)

    @pytest.mark.parametrize(("offset", "size"), [(0, 6), (5, 1), (-1, 2), (6, 0), (2, -1)])
    def test_nothing_is_read_outside_the_logical_length(
        self, data: DataFiles, fs: FileSystem, place: str, offset: int, size: int
    ) -> None:
        fs.create(f"{place}/f", b"0123456789")
        source = data.open(f"{place}/f", 5)
        assert source.read(0, 5) == b"01234"
        with pytest.raises(CorruptError, match=f"bytes {offset} to {offset + size} are outside it"):
            source.read(offset, size)
        source.close()

    def test_opening_what_is_missing_shorter_or_a_directory(self, data: DataFiles, fs: FileSystem, place: str) -> None:
        fs.create(f"{place}/f", b"0123456789")
        with pytest.raises(CorruptError, match="has 10 bytes and was listed with 11"):
            data.open(f"{place}/f", 11)
        with pytest.raises(CorruptError, match="no such file"):
            data.open(f"{place}/absent", 1)
        with pytest.raises((CorruptError, RefusedError)):
            data.open(place, 0)

    def test_an_empty_file(self, data: DataFiles, fs: FileSystem, place: str) -> None:
        data.create(f"{place}/f").close()
        assert fs.read(f"{place}/f") == b""
        source = data.open(f"{place}/f", 0)
        assert source.read(0, 0) == b""
        source.close()

    @pytest.mark.parametrize("size", [0, 1, 1 << 22, (1 << 22) + 1, *amount([], long=[3 * (1 << 22)]), 20_000_000])
    def test_ranges_are_copied(self, data: DataFiles, fs: FileSystem, place: str, size: int) -> None:
        contents = bytes(range(251)) * 80_000
        fs.create(f"{place}/from", contents)
        source = data.open(f"{place}/from", len(contents))
        sink = data.create(f"{place}/to")
        sink.write(b"start")
        sink.copy(source, 7, size)
        sink.write(b"end")
        assert sink.position == size + 8
        sink.close(durable=False)
        source.close()
        copy = data.open(f"{place}/to", size + 8)
        assert copy.read(0, size + 8) == b"start" + contents[7 : 7 + size] + b"end"
        copy.close()

    @pytest.mark.parametrize("size", [1, 10_000_000])
    def test_a_copy_from_outside_a_file_is_refused(
        self, data: DataFiles, fs: FileSystem, place: str, size: int
    ) -> None:
        fs.create(f"{place}/from", b"0123456789")
        source, sink = data.open(f"{place}/from", 10), data.create(f"{place}/to")
        with pytest.raises(CorruptError, match="outside it"):
            sink.copy(source, 10, size)
        source.close()
        sink.abort()

    def test_a_new_file_must_be_new_and_its_directory_there(self, data: DataFiles, fs: FileSystem, place: str) -> None:
        fs.create(f"{place}/f", b"first")
        with pytest.raises(ConflictError, match="already exists"):
            data.create(f"{place}/f")
        with pytest.raises(ConflictError, match="no such"):
            data.create(f"{place}/absent/f")
        assert fs.read(f"{place}/f") == b"first"
        assert names(fs, place) == ["f"]

    @pytest.mark.parametrize("closed", [False, True])
    def test_what_is_aborted_is_gone(self, data: DataFiles, fs: FileSystem, place: str, closed: bool) -> None:
        sink = data.create(f"{place}/f")
        sink.write(b"data")
        if closed:
            sink.close()
        sink.abort()
        sink.abort()
        del sink
        assert names(fs, place) == []

    def test_pickled_ones_open_the_same_files(self, data: DataFiles, fs: FileSystem, place: str) -> None:
        fs.create(f"{place}/f", b"data")
        source = pickle.loads(pickle.dumps(data)).open(f"{place}/f", 4)
        assert source.read(0, 4) == b"data"
        source.close()
