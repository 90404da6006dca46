"""Local disks do what every file system does, with and without renames that never replace; servers that are away."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from filesystem_behaviour import DataFilesBehaviour, FileSystemBehaviour

from acidlib.stores.filesystem import UNREACHABLE_SECONDS, UnreachableServers
from acidlib.stores.renaming.local import LocalDataFiles, LocalFileSystem


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
