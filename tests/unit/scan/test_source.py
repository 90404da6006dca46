"""Ranges of a file that are fetched together, and the file as Arrow reads it."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from acidlib.errors import CorruptError, RefusedError, RetryError
from acidlib.memory import DEFAULT_MEMORY
from acidlib.scan.source import ArrowStream, FetchedFiles, FetchedSource, arrow_file, joined_ranges
from acidlib.stores.renaming.local import LocalDataFiles

DATA = bytes(range(256)) * 4


class Noted:
    """A source of `DATA` that notes what is read of it."""

    name = "noted"
    length = len(DATA)
    memory = DEFAULT_MEMORY

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.closed = False

    def read(self, offset: int, size: int) -> bytes:
        self.reads.append((offset, size))
        return DATA[offset : offset + size]

    def close(self) -> None:
        self.closed = True


class Failing(Noted):
    def read(self, offset: int, size: int) -> bytes:
        raise RetryError("Cannot read noted: the store is away")


@pytest.mark.parametrize(
    ("ranges", "reads"),
    [
        ([], []),
        ([(0, 0)], []),
        ([(0, 10), (10, 10)], [(0, 20)]),
        ([(30, 10), (0, 10)], [(0, 10), (30, 10)]),
        ([(0, 10), (15, 10)], [(0, 25)]),
        ([(0, 30), (10, 5)], [(0, 30)]),
        ([(0, 60), (60, 60)], [(0, 60), (60, 60)]),
        ([(0, 200)], [(0, 200)]),
    ],
)
def test_near_ranges_are_read_together(ranges: list[tuple[int, int]], reads: list[tuple[int, int]]) -> None:
    assert joined_ranges(ranges, gap=5, most=100) == reads


def test_what_was_fetched_is_not_read_again_until_it_is_forgotten() -> None:
    noted = Noted()
    source = FetchedSource(noted)
    source.fetch([(100, 50), (160, 20)])
    assert noted.reads == [(100, 80)]
    assert source.read(110, 30) == DATA[110:140]
    source.fetch([(165, 5)])
    assert noted.reads == [(100, 80)]
    source.forget()
    source.read(110, 30)
    assert noted.reads == [(100, 80), (110, 30)]


def test_the_end_of_a_file_is_kept_for_the_second_reader_of_its_tail() -> None:
    noted = Noted()
    source = FetchedSource(noted)
    end = source.read(source.length - 100, 100)
    source.forget()
    assert source.read(source.length - 50, 50) == end[50:]
    assert len(noted.reads) == 1
    source.close()
    assert noted.closed


def test_a_stream_ends_at_the_logical_length(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    stream = ArrowStream(FetchedFiles(LocalDataFiles()).open(str(path), 300))
    assert stream.readable()
    assert stream.seekable()
    assert stream.seek(-10, io.SEEK_END) == 290
    assert stream.read(100) == DATA[290:300]
    assert stream.read(100) == b""
    assert stream.seek(5) == 5
    assert stream.seek(5, io.SEEK_CUR) == stream.tell() == 10
    assert stream.read() == DATA[10:300]
    assert arrow_file(stream).size() == 300


def test_the_stores_error_reaches_the_caller_and_not_only_its_text() -> None:
    stream = ArrowStream(Failing())
    with pytest.raises(RetryError, match="the store is away"), stream.raising_acid_errors("here"):
        pa.orc.ORCFile(arrow_file(stream))


def test_what_arrow_cannot_decode_is_damage_and_what_it_cannot_hold_is_refused() -> None:
    stream = ArrowStream(Noted())
    with pytest.raises(CorruptError, match="Cannot read here: "), stream.raising_acid_errors("here"):
        pa.orc.ORCFile(arrow_file(stream))
    with pytest.raises(RefusedError, match="Cannot read there: too long"), stream.raising_acid_errors("there"):
        raise pa.ArrowCapacityError("too long")
