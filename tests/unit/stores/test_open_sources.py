"""Many input files of one task: few are open at a time, and one that is opened again is the same file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acidlib.errors import CorruptError
from acidlib.stores.renaming.local import MOST_OPEN, LocalDataFiles, LocalSource

COUNT = 3 * MOST_OPEN


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
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = link.readlink()
        except OSError:
            continue
        if target.parent == folder:
            found.add(target.name)
    return found


def test_those_used_last_are_open(sources: list[LocalSource], tmp_path: Path) -> None:
    assert held(tmp_path) == {f"{number:04d}" for number in range(COUNT - MOST_OPEN, COUNT)}
    sources[-MOST_OPEN].read(0, 1)
    sources[0].read(0, 1)
    left = set(range(COUNT - MOST_OPEN, COUNT)) - {COUNT - MOST_OPEN + 1}  # by then that was unused for longest
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
    assert len(held(tmp_path)) == MOST_OPEN


def test_closed_ones_are_not_opened_again(sources: list[LocalSource], tmp_path: Path) -> None:
    for source in sources:
        source.close()
    assert held(tmp_path) == set()
    for source in (sources[0], sources[-1]):
        with pytest.raises(ValueError, match="is closed"):
            source.read(0, 1)
    assert held(tmp_path) == set()


def test_another_file_in_its_place_is_not_read(sources: list[LocalSource], tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(content(9999))
    (tmp_path / "new").rename(tmp_path / "0000")
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/0000: because another file took its place"):
        sources[0].read(0, 1)
    assert "0000" not in held(tmp_path)


def test_one_that_has_gone_or_become_shorter_is_told(sources: list[LocalSource], tmp_path: Path) -> None:
    (tmp_path / "0000").unlink()
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/0000: because there is no such file"):
        sources[0].read(0, 1)
    (tmp_path / "0001").write_bytes(b"x")
    with pytest.raises(CorruptError, match=f"Cannot read {tmp_path}/0001: because it has 1 bytes and was listed with"):
        sources[1].read(0, 1)
    assert len(held(tmp_path)) <= MOST_OPEN
