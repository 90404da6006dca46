"""HDFS as a file system and its data files, on a real one."""

from __future__ import annotations

import pytest
from filesystem_behaviour import DataFilesBehaviour, FileSystemBehaviour
from servers.hdfs import Hdfs

from acidlib.location import parse_location
from acidlib.model.results import PromiseState
from acidlib.stores.probe import try_promises
from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem
from acidlib.stores.stores import Stores

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


def test_a_probe_finds_all_promises_kept(hdfs: Hdfs) -> None:
    stores, notes = Stores(configuration=hdfs.configuration), []
    location = parse_location(hdfs.new_directory())
    tried = list(try_promises(stores.store(location), location, unique="u", note=notes.append))
    assert [promise.name for promise in tried if promise.state is not PromiseState.HOLDS] == ["synced bytes last"]
    assert (stores.fs(location).list_directory(str(location)), notes) == ((), [])
