"""Azure Data Lake Storage as a file system and its data files, on a stub of ours."""

from __future__ import annotations

import pytest
from filesystem_behaviour import ODD_NAMES, DataFilesBehaviour, FileSystemBehaviour
from servers.abfs import AbfsStub

from acidlib.stores.renaming.abfs import AbfsDataFiles, AbfsFileSystem
from acidlib.stores.renaming.abfs_client import Container, container_options


@pytest.fixture
def stub(abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch) -> AbfsStub:
    """With small pages, and renames and removals that take several requests."""
    monkeypatch.setattr(abfs, "page", 3)
    monkeypatch.setattr(abfs, "limit", 2)
    return abfs


@pytest.fixture
def uri(stub: AbfsStub) -> str:
    return stub.new_container()


@pytest.fixture
def container(stub: AbfsStub, uri: str) -> Container:
    return Container(container_options(uri.removeprefix("abfss://"), stub.properties()))


@pytest.fixture
def fs(container: Container) -> AbfsFileSystem:
    return AbfsFileSystem(container)


@pytest.fixture
def data(container: Container) -> AbfsDataFiles:
    return AbfsDataFiles(container)


@pytest.fixture
def place(fs: AbfsFileSystem, uri: str) -> str:
    fs.make_directory(f"{uri}/place")
    return f"{uri}/place"


class TestFileSystem(FileSystemBehaviour):
    """The same as on local disks, but for a backslash, which the service takes for a slash, and longer names."""

    odd = [name for name in ODD_NAMES if name != "\\"]  # noqa: RUF012 - as in the class above
    impossible = "n" * 1100


class TestDataFiles(DataFilesBehaviour):
    """The same as on local disks."""
