"""Local data files: exact reads, files that change under the reader, durable writes, and no litter after a failure."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.stores.renaming.local import AT_ONCE, LocalDataFiles, LocalSink, LocalSource

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


def descriptors() -> set[str]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue
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
    assert str(file) not in descriptors()


def test_short_reads_are_continued(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: pread(descriptor, min(size, 7), offset))
    source = DATA.open(str(file), len(CONTENT))
    assert source.read(11, 1000) == CONTENT[11:1011]
    source.close()


def test_a_file_that_shrinks_under_the_reader_is_corrupt_and_ends_no_loop(file: Path) -> None:
    source = DATA.open(str(file), len(CONTENT))
    os.truncate(file, 100)
    with pytest.raises(CorruptError, match=f"Cannot read {file}: because it became shorter"):
        source.read(50, 100)
    source.close()


def test_an_error_of_the_device_may_pass(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = DATA.open(str(file), len(CONTENT))
    monkeypatch.setattr(os, "pread", failing(errno.EIO))
    with pytest.raises(RetryError, match=f"Cannot read {file}: because"):
        source.read(0, 1)
    source.close()


def test_missing_and_shorter_files_are_errors_and_never_empty(tmp_path: Path, file: Path) -> None:
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/none: because there is no such file"):
        DATA.open(f"{tmp_path}/none", 1)
    with pytest.raises(CorruptError, match=f"because it has {len(CONTENT)} bytes and was listed with 99999"):
        DATA.open(str(file), 99_999)
    assert str(file) not in descriptors()


def test_only_regular_files_are_opened_and_a_pipe_blocks_nobody(tmp_path: Path, file: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/socket")
        for name in ("link", "pipe", "directory", "socket"):
            with pytest.raises(AcidError, match=f"Cannot read {tmp_path}/{name}: because"):
                DATA.open(f"{tmp_path}/{name}", 0)
    with pytest.raises(RefusedError, match="not a regular file"):
        DATA.open(f"{tmp_path}/pipe", 0)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_buffers_of_any_kind_are_appended_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    sink = DATA.create(str(path))
    parts: list[Any] = [b"ORC", memoryview(b"xyz")[1:], np.arange(3, dtype=np.int64), np.zeros(0, np.uint8).data, b""]
    for part in parts:
        sink.write(part)
    assert sink.position == 3 + 2 + 24
    sink.close()
    assert path.read_bytes() == b"ORCyz" + np.arange(3, dtype=np.int64).tobytes()


def test_a_file_is_never_written_over(file: Path) -> None:
    with pytest.raises(ConflictError, match=f"Cannot write {file}: because it already exists"):
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
        with pytest.raises(RetryError, match=rf"Cannot write {tmp_path}/f: because no space is left"):
            finished()
    sink.abort()
    assert list(tmp_path.iterdir()) == []
    assert f"{tmp_path}/f" not in descriptors()


@pytest.mark.parametrize("call", ["fsync", "close"])
def test_what_does_not_become_durable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    sink = DATA.create(str(tmp_path / "f"))
    true_close = os.close
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.EIO))
        with pytest.raises(RetryError, match=f"Cannot write {tmp_path}/f: because"):
            sink.close()
    sink.abort()
    assert not (tmp_path / "f").exists()
    if call == "close":
        # the descriptor counts as closed: closing the number again might close a file of somebody else
        (number,) = [n for n in os.listdir("/proc/self/fd") if _target(n).startswith(f"{tmp_path}/f")]  # noqa: PTH208
        true_close(int(number))
    assert not any(name.startswith(f"{tmp_path}/f") for name in descriptors())


def _target(number: str) -> str:
    try:
        return str(Path(f"/proc/self/fd/{number}").readlink())
    except OSError:
        return ""


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


def test_an_abort_never_raises_and_takes_a_closed_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = DATA.create(str(tmp_path / "closed"))
    closed.close()
    closed.abort()
    closed.abort()
    assert list(tmp_path.iterdir()) == []
    sink = DATA.create(str(tmp_path / "f"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EACCES))
        patch.setattr(Path, "unlink", failing(errno.EACCES))
        sink.abort()
    assert f"{tmp_path}/f" not in descriptors()
    sink.abort()
    assert list(tmp_path.iterdir()) == []


# --- copying ----------------------------------------------------------------------------------------------------------


def copied(file: Path, offset: int, size: int) -> bytes:
    source, sink = LocalSource(str(file), len(CONTENT)), LocalSink(str(file.parent / "copy"))
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
    source, sink = LocalSource(str(file), len(CONTENT)), LocalSink(str(file.parent / "copy"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", failing(errno.ENOSPC))
        patch.setattr(os, "write", failing(errno.ENOSPC))
        with pytest.raises(RetryError, match=f"Cannot write {file.parent}/copy: because no space"):
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
    source, sink = LocalSource(str(file), len(CONTENT)), LocalSink(str(file.parent / "copy"))
    os.truncate(file, 100)
    with pytest.raises(CorruptError, match=f"Cannot copy from {file}: because it became shorter"):
        sink.copy(source, 50, 100)
    sink.abort()
    source.close()


@pytest.mark.parametrize(("offset", "size"), [(0, len(CONTENT) + 1), (len(CONTENT), 1), (-1, 1), (5, -1)])
def test_nothing_outside_the_source_is_copied(file: Path, offset: int, size: int) -> None:
    with pytest.raises(CorruptError, match=f"Cannot copy from {file}: because bytes {offset} to {offset + size} are"):
        copied(file, offset, size)


def test_a_source_of_another_kind_is_read(tmp_path: Path) -> None:
    class Other:
        name, length = "elsewhere", 4

        def read(self, offset: int, size: int) -> bytes:
            return b"abcd"[offset : offset + size]

    sink = DATA.create(str(tmp_path / "f"))
    sink.copy(Other(), 1, 2)
    sink.close()
    assert (tmp_path / "f").read_bytes() == b"bc"
