"""HDFS as a file system and its data files, on a real one."""

from __future__ import annotations

import pytest
from filesystem_behaviour import DataFilesBehaviour, FileSystemBehaviour
from servers.hdfs import Hdfs

from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem

pytestmark = pytest.mark.live


@pytest.fixture
def fs(hdfs: Hdfs) -> HdfsFileSystem:
    return HdfsFileSystem(hdfs.authority, hdfs.configuration)


@pytest.fixture
def data(hdfs: Hdfs) -> HdfsDataFiles:
    return HdfsDataFiles(hdfs.authority, hdfs.configuration)


@pytest.fixture
def place(hdfs: Hdfs) -> str:
    return hdfs.new_directory()


class TestFileSystem(FileSystemBehaviour):
    """The same as on local disks."""


class TestDataFiles(DataFilesBehaviour):
    """The same as on local disks."""
