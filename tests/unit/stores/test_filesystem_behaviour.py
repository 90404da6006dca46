"""Local disks do what every file system does, with and without renames that never replace."""

from __future__ import annotations

from pathlib import Path

import pytest
from filesystem_behaviour import DataFilesBehaviour, FileSystemBehaviour

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
