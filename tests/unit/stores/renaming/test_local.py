"""Local disks do what every file system does; renames that never replace; data files that are exact and durable."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pickle
import pwd
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filesystem_behaviour import DataFilesBehaviour, FileSystemBehaviour
from mounts import refuse_flag

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.memory import DEFAULT_MEMORY
from acidlib.stores.filesystem import UNREACHABLE_SECONDS, UnreachableServers, as_acid_error
from acidlib.stores.renaming import local
from acidlib.stores.renaming.local import AT_ONCE, MAX_OPEN_FILES, LocalDataFiles, LocalFileSystem, LocalSource
from unit.stores.places import FS, TAKEN, put, take


@pytest.fixture
def fs() -> LocalFileSystem:
    return LocalFileSystem()


@pytest.fixture
def data() -> LocalDataFiles:
    return LocalDataFiles()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.mark.usefixtures("way")
class TestFileSystem(FileSystemBehaviour):
    """The same as on HDFS."""


class TestDataFiles(DataFilesBehaviour):
    """The same as on HDFS."""


def test_for_a_minute_the_reason_is_known() -> None:
    now = [0.0]
    known = UnreachableServers(lambda: now[0])
    assert known.reason("a") is None
    known.note("a", "gone")
    assert (known.reason("a"), known.reason("b")) == ("gone", None)
    assert pickle.loads(pickle.dumps(known)).reason("a") is None
    now[0] = UNREACHABLE_SECONDS
    assert known.reason("a") is None


DATA = LocalDataFiles()
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bucket_00000"
    path.write_bytes(CONTENT)
    return path


def failing(code: int) -> Callable[..., Any]:
    def fail(*arguments: object, **named: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


def descriptors() -> dict[int, str]:
    """What this process has open."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[int(link.name)] = str(link.readlink())
    return found


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "reads"), [(CONTENT, 1), (CONTENT * (1 + AT_ONCE // len(CONTENT)), 5)])
def test_a_range_is_read_exactly(file: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reads: int) -> None:
    file.write_bytes(content)
    source = DATA.open(str(file), len(content))
    assert (source.name, source.length) == (str(file), len(content))
    calls = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *about: (calls.append(about), pread(*about))[1])
    for offset, size in ((0, 0), (0, 3), (5, 1000), (len(content), 0), (0, len(content))):
        assert source.read(offset, size) == content[offset : offset + size]
    assert len(calls) == reads
    source.close()
    source.close()
    assert str(file) not in descriptors().values()


def test_short_reads_are_continued(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: pread(descriptor, min(size, 7), offset))
    source = DATA.open(str(file), len(CONTENT))
    assert source.read(11, 1000) == CONTENT[11:1011]
    source.close()


def test_a_file_that_shrinks_under_the_reader_is_corrupt_and_ends_no_loop(file: Path) -> None:
    source = DATA.open(str(file), len(CONTENT))
    os.truncate(file, 100)
    with pytest.raises(CorruptError, match=f"Cannot read {file}: it became shorter"):
        source.read(50, 100)
    source.close()


def test_an_error_of_the_device_may_pass(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = DATA.open(str(file), len(CONTENT))
    monkeypatch.setattr(os, "pread", failing(errno.EIO))
    with pytest.raises(RetryError, match=f"Cannot read {file}:"):
        source.read(0, 1)
    source.close()


def test_only_regular_files_are_opened_and_a_pipe_blocks_nobody(tmp_path: Path, file: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/socket")
        for name in ("link", "pipe", "directory", "socket"):
            with pytest.raises(AcidError, match=f"Cannot read {tmp_path}/{name}:"):
                DATA.open(f"{tmp_path}/{name}", 0)
    with pytest.raises(RefusedError, match="not a regular file"):
        DATA.open(f"{tmp_path}/pipe", 0)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_file_is_never_written_over(file: Path) -> None:
    with pytest.raises(ConflictError, match=f"Cannot write {file}: it already exists"):
        DATA.create(str(file))
    assert file.read_bytes() == CONTENT
    (file.parent / "link").symlink_to(file.parent / "elsewhere")
    with pytest.raises(AcidError):
        DATA.create(str(file.parent / "link"))
    assert not (file.parent / "elsewhere").exists()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    sink = DATA.create(str(tmp_path / "f"))
    sink.write(CONTENT)
    assert sink.position == len(CONTENT)
    sink.close()
    assert (tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize(("code", "size"), [(errno.ENOSPC, 4), (errno.EDQUOT, 2 * AT_ONCE)])
def test_no_space_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, size: int
) -> None:
    sink = DATA.create(str(tmp_path / "f"))
    sink.write(b"ORC")

    def finished() -> None:
        sink.write(bytes(size))
        sink.close()

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing(code))
        with pytest.raises(RetryError, match=rf"Cannot write {tmp_path}/f: no space is left"):
            finished()
    sink.abort()
    assert list(tmp_path.iterdir()) == []
    assert f"{tmp_path}/f" not in descriptors().values()


@pytest.mark.parametrize("call", ["fsync", "close"])
def test_what_does_not_become_durable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    sink = DATA.create(str(tmp_path / "f"))
    true_close = os.close
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.EIO))
        with pytest.raises(RetryError, match=f"Cannot write {tmp_path}/f:"):
            sink.close()
    sink.abort()
    assert not (tmp_path / "f").exists()
    if call == "close":
        # the descriptor counts as closed: closing the number again might close a file of somebody else
        (number,) = [number for number, path in descriptors().items() if path.startswith(f"{tmp_path}/f")]
        true_close(number)
    assert not any(name.startswith(f"{tmp_path}/f") for name in descriptors().values())


def test_closing_syncs_before_it_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    write, fsync, close = os.write, os.fsync, os.close
    monkeypatch.setattr(os, "write", lambda descriptor, data: (calls.append("write"), write(descriptor, data))[1])
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(os, "close", lambda descriptor: (calls.append("close"), close(descriptor))[1])
    sink = DATA.create(str(tmp_path / "f"))
    for _ in range(3):
        sink.write(b"ORC")
    sink.close()
    assert calls == ["write", "fsync", "close"]
    assert (tmp_path / "f").read_bytes() == b"ORCORCORC"


def test_an_abort_never_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = DATA.create(str(tmp_path / "f"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EACCES))
        patch.setattr(Path, "unlink", failing(errno.EACCES))
        sink.abort()
    assert f"{tmp_path}/f" not in descriptors().values()
    sink.abort()
    assert list(tmp_path.iterdir()) == []


# --- copying ----------------------------------------------------------------------------------------------------------


def copied(file: Path, offset: int, size: int) -> bytes:
    source, sink = DATA.open(str(file), len(CONTENT)), DATA.create(str(file.parent / "copy"))
    try:
        sink.write(b"ORC")
        sink.copy(source, offset, size)
        sink.write(b"end")
        assert sink.position == 3 + size + 3
        sink.close()
        return (file.parent / "copy").read_bytes()
    finally:
        source.close()
        sink.abort()


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_where_the_kernel_cannot_copy_bytes_are_read_and_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "copy_file_range", failing(code))
    assert copied(file, 17, 5000) == b"ORC" + CONTENT[17:5017] + b"end"


def test_copies_that_fall_short_are_continued(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", lambda a, b, count, offset: true(a, b, min(count, 9), offset))
    assert copied(file, 17, 5000) == b"ORC" + CONTENT[17:5017] + b"end"
    write = os.write
    monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:9]))
    assert copied(file, 17, 5000) == b"ORC" + CONTENT[17:5017] + b"end"


def test_no_space_while_copying_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, sink = DATA.open(str(file), len(CONTENT)), DATA.create(str(file.parent / "copy"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", failing(errno.ENOSPC))
        patch.setattr(os, "write", failing(errno.ENOSPC))
        with pytest.raises(RetryError, match=f"Cannot write {file.parent}/copy: no space"):
            sink.copy(source, 0, 100)
    sink.abort()
    source.close()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("kernel", [True, False])
def test_a_source_that_shrinks_while_it_is_copied_is_corrupt(
    file: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    source, sink = DATA.open(str(file), len(CONTENT)), DATA.create(str(file.parent / "copy"))
    os.truncate(file, 100)
    with pytest.raises(CorruptError, match=f"Cannot copy from {file}: it became shorter"):
        sink.copy(source, 50, 100)
    sink.abort()
    source.close()


def test_a_source_of_another_kind_is_read(tmp_path: Path) -> None:
    class Other:
        name, length, memory = "elsewhere", 4, DEFAULT_MEMORY

        def read(self, offset: int, size: int) -> bytes:
            return b"abcd"[offset : offset + size]

    sink = DATA.create(str(tmp_path / "f"))
    sink.copy(Other(), 1, 2)
    sink.close()
    assert (tmp_path / "f").read_bytes() == b"bc"


COUNT = 3 * MAX_OPEN_FILES


def content(number: int) -> bytes:
    return f"content of {number:04d}".encode()


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[list[LocalSource]]:
    data = LocalDataFiles()
    found = []
    for number in range(COUNT):
        path = tmp_path / f"{number:04d}"
        path.write_bytes(content(number))
        found.append(data.open(str(path), len(content(number))))
    yield found
    for source in found:
        source.close()


def held(folder: Path) -> set[str]:
    """Names of the files of a folder that this process has open."""
    return {Path(path).name for path in descriptors().values() if Path(path).parent == folder}


def test_those_used_last_are_open(sources: list[LocalSource], tmp_path: Path) -> None:
    assert held(tmp_path) == {f"{number:04d}" for number in range(COUNT - MAX_OPEN_FILES, COUNT)}
    sources[-MAX_OPEN_FILES].read(0, 1)
    sources[0].read(0, 1)
    left = set(range(COUNT - MAX_OPEN_FILES, COUNT)) - {COUNT - MAX_OPEN_FILES + 1}  # unused for longest then
    assert held(tmp_path) == {f"{number:04d}" for number in {0, *left}}


def test_each_is_read_and_copied_in_any_order(sources: list[LocalSource], tmp_path: Path) -> None:
    sink = LocalDataFiles().create(str(tmp_path / "out"))
    for turn in (1, -1):
        for number, source in list(enumerate(sources))[::turn]:
            assert source.read(0, source.length) == content(number)
            sink.copy(source, 8, 7)
    sink.close()
    once = [content(number)[8:] for number in range(COUNT)]
    assert (tmp_path / "out").read_bytes() == b"".join(once + once[::-1])
    assert len(held(tmp_path)) == MAX_OPEN_FILES


def test_another_file_in_its_place_is_not_read(sources: list[LocalSource], tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(content(9999))
    (tmp_path / "new").rename(tmp_path / "0000")
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/0000: another file took its place"):
        sources[0].read(0, 1)
    assert "0000" not in held(tmp_path)


def test_one_that_has_gone_or_become_shorter_is_told(sources: list[LocalSource], tmp_path: Path) -> None:
    (tmp_path / "0000").unlink()
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/0000: there is no such file"):
        sources[0].read(0, 1)
    (tmp_path / "0001").write_bytes(b"x")
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/0001: it has 1 bytes and was listed with"):
        sources[1].read(0, 1)
    assert len(held(tmp_path)) <= MAX_OPEN_FILES


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

    def late(source: str, target: str, **directories: int) -> None:
        take(tmp_path / target, how)
        real(source, target, **directories)

    refuse_flag(monkeypatch, code)
    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(ConflictError, match="already exists"):
        FS.rename_noreplace(f"{tmp_path}/staged", f"{tmp_path}/target")
    assert (tmp_path / "staged/bucket_00000").is_file()
    assert os.path.lexists(tmp_path / "target/theirs") is (how == "full directory")


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
    refuse_flag(monkeypatch)
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    point = next(path for path in [tmp_path, *tmp_path.parents] if path.is_mount())
    with pytest.raises(RetryError, match=rf"the file system of {point} \([a-z0-9.]+\) can neither rename"):
        FS.create(f"{tmp_path}/_acidlib_claim", b"{}")
    assert list(tmp_path.iterdir()) == []


def test_the_mount_is_named_that_a_path_lies_on(mount: Path) -> None:
    (mount / "a b").mkdir()
    assert local._mount(f"{mount}/a b/x") == f"{mount} (fuse)"
    assert local._mount(f"{mount}2/x") != f"{mount} (fuse)"


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (errno.ENOSPC, RetryError, "Cannot write /t: no space is left"),
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
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    with pytest.raises(RetryError, match="no space is left"):
        FS.create(f"{tmp_path}/f", b"data")
    assert list(tmp_path.iterdir()) == []
