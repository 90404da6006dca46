"""A directory and all below it, reached by descriptors: links, other places, other directories of one name."""

from __future__ import annotations

import ast
import errno
import os
import pickle
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import acidlib
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, ReplacedError
from acidlib.location import Location, local_location
from acidlib.stores import filesystem
from acidlib.stores.filesystem import MAX_CONTROL_FILE_BYTES, MAX_DEPTH
from acidlib.stores.listing import list_location
from acidlib.stores.renaming import tree
from acidlib.stores.renaming.local import LocalDataFiles, LocalFileSystem
from acidlib.stores.renaming.tree import LocalTree, OpenTrees, identity_of, is_same
from unit.stores.places import put


@pytest.fixture(params=["openat2", "step by step"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "step by step":
        monkeypatch.setattr(tree, "_knows_openat2", lambda: False)
    elif not tree._knows_openat2():
        pytest.skip("this kernel has no openat2")


@pytest.fixture
def place(tmp_path: Path) -> Location:
    """A partition below its table, and a table outside of it that nobody gave to the engine."""
    put(
        tmp_path,
        "t/y=1/m=1/delta_1_1/bucket_00000",
        "t/y=1/m=1/file",
        "outside/m=1/delta_1_1/bucket_00000",
        "outside/m=1/file",
    )
    return local_location(f"{tmp_path}/t/y=1/m=1", root=f"{tmp_path}/t")


def swap(place: Location, part: str) -> None:
    """Exchange a directory of the path of a place, or one in the place, with a link to the table outside."""
    outside = Path(place.root).parent / "outside"
    if part == "above":
        (Path(place.root) / "y=1").rename(Path(place.root) / "_mine")
        (Path(place.root) / "y=1").symlink_to(outside)
    else:
        Path(place.path, "delta_1_1").rename(Path(place.path, "_mine"))
        Path(place.path, "delta_1_1").symlink_to(outside / "m=1/delta_1_1")


WORK: dict[str, Callable[[LocalFileSystem, str], object]] = {
    "entry": lambda fs, place: fs.entry(f"{place}/delta_1_1/bucket_00000"),
    "list": lambda fs, place: fs.list_directory(f"{place}/delta_1_1"),
    "tree": lambda fs, place: fs.list_tree(f"{place}/delta_1_1", enter_hidden=True),
    "read": lambda fs, place: fs.read(f"{place}/delta_1_1/bucket_00000"),
    "create": lambda fs, place: fs.create(f"{place}/delta_1_1/new", b""),
    "make": lambda fs, place: fs.make_directory(f"{place}/delta_1_1/new"),
    "inherit": lambda fs, place: fs.inherit(f"{place}/delta_1_1", place),
    "sync": lambda fs, place: fs.sync(f"{place}/delta_1_1"),
    "rename": lambda fs, place: fs.rename_noreplace(f"{place}/delta_1_1/bucket_00000", f"{place}/taken"),
    "rename into": lambda fs, place: fs.rename_noreplace(f"{place}/file", f"{place}/delta_1_1/given"),
    "remove file": lambda fs, place: fs.remove_file(f"{place}/delta_1_1/bucket_00000"),
    "remove tree": lambda fs, place: fs.remove_tree(place, "delta_1_1"),
    "remove in tree": lambda fs, place: fs.remove_tree(place, "delta_1_1/bucket_00000"),
}


def outside(place: Location) -> list[tuple[str, int, int]]:
    below = Path(place.root).parent / "outside"
    return sorted((str(path), path.lstat().st_mode, path.lstat().st_uid) for path in below.rglob("*"))


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("part", ["above", "inside"])
def test_nothing_below_a_table_follows_a_link(place: Location, part: str, work: str) -> None:
    before = outside(place)
    swap(place, part)
    with pytest.raises(RefusedError, match="symbolic link"):
        WORK[work](LocalFileSystem(LocalTree(place)), place.path)
    data = LocalDataFiles(LocalTree(place))
    with pytest.raises(RefusedError, match="symbolic link"):
        data.open(f"{place}/delta_1_1/bucket_00000", 3)
    with pytest.raises(RefusedError, match="symbolic link"):
        data.create(f"{place}/delta_1_1/new")
    assert outside(place) == before


@pytest.mark.parametrize("work", WORK)
def test_a_place_that_is_in_use_is_the_directory_that_was_opened(place: Location, work: str) -> None:
    before = outside(place)
    held = LocalTree(place)
    assert held.handle >= 0
    swap(place, "above")
    WORK[work](LocalFileSystem(held), place.path)
    assert outside(place) == before
    with pytest.raises(RefusedError, match="symbolic link"):
        LocalFileSystem(held).list_directory(place.path)


def test_the_trusted_part_may_be_a_link(place: Location, tmp_path: Path) -> None:
    (tmp_path / "warehouse").symlink_to(tmp_path / "t")
    named = local_location(f"{tmp_path}/warehouse/y=1/m=1", root=f"{tmp_path}/warehouse")
    assert LocalFileSystem(LocalTree(named)).read(f"{named}/file") == b"t/y=1/m=1/file"


@pytest.mark.parametrize(
    "path", ["{place}/../m=2/file", "{place}/./file", "{place}/delta_1_1/../../../x", "/etc/passwd"]
)
def test_no_path_leads_out(place: Location, path: str) -> None:
    with pytest.raises(RefusedError, match="Cannot touch"):
        LocalFileSystem(LocalTree(place)).exists(path.format(place=place))


def test_directories_of_the_table_and_above_it_are_looked_at(place: Location, tmp_path: Path) -> None:
    fs = LocalFileSystem(LocalTree(place))
    assert [entry.path for entry in fs.list_directory(f"{tmp_path}/t/y=1")] == ["m=1"]
    assert fs.is_directory(place.root)
    assert fs.exists(str(tmp_path))


# --- which directory it is --------------------------------------------------------------------------------------------


def test_another_directory_of_the_name_is_a_conflict(place: Location) -> None:
    noted = identity_of(Path(place.path).stat())
    Path(place.path).rename(Path(place.path).parent / "gone")
    put(Path(place.path), "file")
    known = local_location(place.path, root=place.root, identity=noted)
    for work in (
        lambda fs: fs.read(f"{place}/file"),
        lambda fs: fs.entry(place.path),
        lambda fs: fs.exists(place.path),
    ):
        with pytest.raises(ReplacedError, match="another directory has that name now"):
            work(LocalFileSystem(LocalTree(known)))
    with pytest.raises(ReplacedError):
        pickle.loads(pickle.dumps(LocalDataFiles(LocalTree(known)))).open(f"{place}/file", 1)


def test_between_two_machines_the_inode_counts() -> None:
    assert is_same("a:1:2", "a:1:2")
    assert is_same("a:1:2", "b:9:2")
    assert not is_same("a:1:2", "a:9:2")
    assert not is_same("a:1:2", "b:1:3")


def test_while_a_place_is_held_all_work_goes_through_one_descriptor(place: Location) -> None:
    trees = OpenTrees()
    held = trees.of(place)
    assert trees.of(place) is held
    known = local_location(place.path, root=place.root, identity=identity_of(Path(place.path).stat()))
    assert held.handle >= 0
    assert trees.of(known) is held
    handle = held.handle
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
    assert trees.of(place) is not None
    assert isinstance(pickle.loads(pickle.dumps(trees)), OpenTrees)


def test_a_place_that_is_just_given_up_is_opened_anew(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    trees, close, found = OpenTrees(), os.close, []

    def another_thread_asks(number: int) -> None:
        close(number)
        if not found:
            found.append(trees.of(place))

    held = trees.of(place)
    before = held.handle
    monkeypatch.setattr(os, "close", another_thread_asks)
    del held
    assert os.fstat(found[0].handle).st_ino == Path(place.path).stat().st_ino, before


def test_many_places_in_use_are_more_files_than_a_program_may_open(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    trees, held = OpenTrees(), []
    few = 256 + 2 * len([*Path("/proc/self/fd").iterdir()])  # other tests of this process hold some
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
        for number in range(few + 50):
            (tmp_path / str(number)).mkdir()
            held.append(trees.of(local_location(f"{tmp_path}/{number}")))
            assert held[-1].handle >= 0
    finally:
        del held
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_listing_opens_each_directory_once(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the trusted part twice: to open the place, and to look whether it is still there."""
    put(Path(place.path), "base_1/bucket_00000", "base_2/_metadata_acid")
    Path(place.path, "base_2/_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    opened: list[str] = []
    below, trusted = tree._open_below, tree._open_trusted

    def note_below(above: int, relative: str, *more: int) -> int:
        opened.append(relative)
        return below(above, relative, *more)

    def note_trusted(path: str) -> int:
        opened.append("trusted")
        return trusted(path)

    monkeypatch.setattr(tree, "_open_below", note_below)
    monkeypatch.setattr(tree, "_open_trusted", note_trusted)
    list_location(LocalFileSystem(OpenTrees().of(place)), place)
    directories = ["y=1/m=1", "y=1", ".", "base_1", "base_2", "delta_1_1"]
    assert sorted(opened) == sorted([*directories, "base_2/_metadata_acid", "trusted", "trusted"])


def test_threads_open_a_place_once(place: Location) -> None:
    shared, handles = LocalTree(place), set()
    threads = [threading.Thread(target=lambda: handles.add(shared.handle)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handles == {shared.handle}


def test_what_is_removed_is_what_was_measured(place: Location) -> None:
    fs = LocalFileSystem(LocalTree(place))
    measured = fs.identity(f"{place}/delta_1_1")
    Path(place.path, "delta_1_1").rename(Path(place.path, "elsewhere"))
    put(Path(place.path), "delta_1_1/newer")
    with pytest.raises(ConflictError, match="another file or directory has taken its name"):
        fs.remove_tree(place.path, "delta_1_1", identity=measured)
    assert Path(place.path, "delta_1_1/newer").exists()
    fs.remove_tree(place.path, "elsewhere", identity=measured)
    assert not Path(place.path, "elsewhere").exists()


# --- files that stop a reader -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "directory", "large"])
def test_a_control_file_is_a_small_regular_file(place: Location, kind: str) -> None:
    path = Path(place.path, "record")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(MAX_CONTROL_FILE_BYTES + 1)
    fs = LocalFileSystem(LocalTree(place))
    with pytest.raises(CorruptError, match=r"regular file|a directory|more than"):
        fs.read(str(path))
    if kind == "pipe":
        for work in (lambda: LocalDataFiles().open(str(path), 0), lambda: fs.inherit(str(path.parent), place.path)):
            with pytest.raises(RefusedError, match=r"regular file|neither a file"):
                work()


def test_trees_are_walked_to_a_depth(place: Location) -> None:
    fs, deep = LocalFileSystem(LocalTree(place)), Path(place.path, "delta_1_1")
    for _ in range(MAX_DEPTH - 1):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    assert len(fs.list_tree(place.path, enter_hidden=True)) == MAX_DEPTH + 3
    (deep / "d").mkdir()
    with pytest.raises(RefusedError, match="more than 64 directories"):
        fs.list_tree(place.path, enter_hidden=True)
    fs.remove_tree(place.path, "delta_1_1")
    assert [entry.path for entry in fs.list_directory(place.path)] == ["file"]


def test_so_many_names_are_listed_and_no_more(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = LocalFileSystem(LocalTree(place))
    put(Path(place.path), *(f"delta_1_1/{number}" for number in range(3)), *(f"d/{number}" for number in range(3)))
    monkeypatch.setattr(filesystem, "MAX_ENTRIES", 4)
    assert len(fs.list_directory(f"{place}/delta_1_1")) == 4
    with pytest.raises(RefusedError, match="more than 4 files and directories lie there"):
        fs.list_tree(place.path, enter_hidden=True)
    put(Path(place.path), "delta_1_1/one more")
    with pytest.raises(RefusedError, match=f"Cannot list {place}/delta_1_1: more than 4"):
        fs.list_directory(f"{place}/delta_1_1")


def test_a_removal_that_fails_below_leaves_nothing_open(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    put(Path(place.path), "old/a/b/file")
    fs, scan = LocalFileSystem(LocalTree(place)), os.scandir
    fs.list_directory(place.path)  # the place stays open
    before = len([*Path("/proc/self/fd").iterdir()])

    def fails_at_the_last(handle: int) -> object:
        if os.listdir(handle) == ["file"]:
            raise OSError(errno.EIO, "no")
        return scan(handle)

    monkeypatch.setattr(os, "scandir", fails_at_the_last)
    with pytest.raises(AcidError):
        fs.remove_tree(place.path, "old")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.parametrize("name", ["_acidlib_claim", ".hidden", "delta_9_9"])
def test_what_vanishes_while_it_is_listed_matters_where_readers_see_it(
    place: Location, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another run's claim comes and goes; a directory of rows that went may stand elsewhere by now."""
    gone, scan = Path(place.path, name), os.scandir

    class Scanned:
        def __init__(self, handle: int) -> None:
            gone.mkdir()
            with scan(handle) as entries:
                self.entries = list(entries)
            gone.rmdir()

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            """Nothing is open."""

    monkeypatch.setattr(os, "scandir", Scanned)
    fs = LocalFileSystem(LocalTree(place))
    if name.startswith("delta"):
        with pytest.raises(ConflictError, match=f"{name} vanished while it was listed"):
            fs.list_directory(place.path)
    else:
        assert [entry.path for entry in fs.list_directory(place.path)] == ["delta_1_1", "file"]


def test_a_tree_that_is_too_deep_is_not_removed(place: Location) -> None:
    here = os.open(place.path, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(RefusedError, match="more than 64 directories"):
        LocalFileSystem(LocalTree(place)).remove_tree(place.path, "d")


# --- nothing else -----------------------------------------------------------------------------------------------------

_CALLS = {
    "os": {
        "open",
        "stat",
        "lstat",
        "listdir",
        "scandir",
        "rename",
        "replace",
        "unlink",
        "remove",
        "rmdir",
        "mkdir",
        "makedirs",
        "chmod",
        "chown",
        "link",
        "symlink",
        "walk",
        "truncate",
        "readlink",
    },
    "shutil": {"rmtree", "copy", "copy2", "copyfile", "copytree", "move"},
}
_METHODS = {
    "open",
    "stat",
    "lstat",
    "iterdir",
    "rename",
    "replace",
    "unlink",
    "rmdir",
    "mkdir",
    "chmod",
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "touch",
    "is_dir",
    "is_file",
    "exists",
    "glob",
    "rglob",
}


def _paths_opened(source: Path) -> Iterator[str]:
    """The calls in a file that look at, open or change a file by a path alone."""
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.Call) or any(word.arg in ("dir_fd", "src_dir_fd") for word in node.keywords):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            yield f"{source.name}: open()"
        if not isinstance(function, ast.Attribute):
            continue
        owner = function.value
        if isinstance(owner, ast.Name) and function.attr in _CALLS.get(owner.id, ()):
            yield f"{source.name}: {owner.id}.{function.attr}()"
        is_path = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "Path"
        if is_path and function.attr in _METHODS:
            yield f"{source.name}: Path().{function.attr}()"


def test_nothing_opens_a_path_of_a_table_beside_it() -> None:
    """In the rooms that work on tables; what is opened by a path there belongs to the machine, not to a table."""
    package = Path(acidlib.__file__).parent
    named = ("model", "planning", "orc", "parquet", "scan", "rewrite", "verify", "stores")
    rooms = (*named, "runs", "ports", "places", "execute", "spark")
    found = {
        f"{path.parent.relative_to(package)}/{call}"
        for room in rooms
        for path in (package / room).rglob("*.py")
        for call in _paths_opened(path)
    }
    assert found == OPENED_BY_PATH


OPENED_BY_PATH = {
    "orc/kernels/jit.py: os.open()",  # compiled kernels
    "execute/spark_options.py: Path().glob()",  # an installation of Spark
    "execute/task_process.py: Path().write_text()",  # a process of its own
    "stores/filesystem.py: os.lstat()",  # for the message about a right that is missing
    "stores/renaming/local.py: Path().read_text()",  # the mounts of this machine
    "stores/renaming/local.py: os.scandir()",  # of a descriptor
    "stores/renaming/tree.py: os.lstat()",  # a name in the trusted part of a path
    "stores/renaming/tree.py: os.open()",  # the trusted part of a path
}


def test_errors_of_a_path_name_it(place: Location) -> None:
    fs = LocalFileSystem(LocalTree(place))
    for work in (fs.read, fs.list_directory, fs.entry):
        with pytest.raises(AcidError, match=f"{place}/missing"):
            work(f"{place}/missing")
