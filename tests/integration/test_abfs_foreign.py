"""Azure Data Lake Storage by clients that are not ours, on the stub that is: Microsoft's, and Hadoop's drivers.

What the stub gets wrong in the same way as our client, these do not do; and each sees what the other has made.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from judges.abfs_clients import RELEASES, Client, Hadoops, Microsofts
from long_runs import amount, in_a_long_run
from servers.abfs import AbfsStub, Answer, Request

from acidlib.errors import ConflictError, CorruptError
from acidlib.stores.renaming.abfs import AbfsDataFiles, AbfsFileSystem
from acidlib.stores.renaming.abfs_client import Container, container_options

pytestmark = pytest.mark.live

MICROSOFT = "Microsoft"
CLIENTS = amount([MICROSOFT], long=[MICROSOFT, *RELEASES])


@pytest.fixture(scope="module")
def container(abfs: AbfsStub) -> Container:
    return Container(container_options(abfs.new_container().removeprefix("abfss://"), abfs.properties()))


@pytest.fixture(scope="module", params=CLIENTS)
def client(abfs: AbfsStub, container: Container, request: pytest.FixtureRequest) -> Iterator[Client]:
    name = container.options.container
    made = Microsofts(abfs, name) if request.param == MICROSOFT else Hadoops(abfs, name, request.param)
    yield made
    made.close()


@pytest.fixture
def fs(container: Container) -> AbfsFileSystem:
    return AbfsFileSystem(container, place="place")


@pytest.fixture
def place(fs: AbfsFileSystem, container: Container) -> Iterator[str]:
    """A new directory of this name, by URI."""
    uri = f"abfss://{container.shown}/place"
    AbfsFileSystem(container).make_directory(uri)
    yield uri
    fs.remove_tree(f"abfss://{container.shown}", "place")


def test_each_reads_what_the_other_has_written(
    client: Client, container: Container, fs: AbfsFileSystem, place: str
) -> None:
    pieces = [b"first", bytes(range(256)) * 3000, b"third"]
    seen: list[int] = []
    client.write("place/f", pieces, flushed=lambda _: seen.append(fs.entry(f"{place}/f").length))
    assert seen == [5, 768_005, 768_010]
    assert fs.read(f"{place}/f") == b"".join(pieces)
    client.append("place/f", b"more")
    assert fs.read(f"{place}/f") == b"".join([*pieces, b"more"])
    client.write("place/f", [b"anew"], flushed=lambda _: None)
    assert fs.read(f"{place}/f") == b"anew"

    data = bytes(range(251)) * 80_000
    sink = AbfsDataFiles(container, place="place").create(f"{place}/ours")
    sink.write(data)
    sink.close()
    for offset, length in ((0, len(data)), (0, 1), (len(data) - 1, 1), (4_000_000, 5_000_000)):
        assert client.read("place/ours", offset, length) == data[offset : offset + length]
    fs.create(f"{place}/empty", b"")
    found = client.look("place/empty")
    assert found is not None
    assert (found.length, found.is_directory) == (0, False)


def test_each_sees_the_same_entries_page_by_page(
    client: Client,
    container: Container,
    fs: AbfsFileSystem,
    place: str,
    abfs: AbfsStub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(abfs, "page", 3)
    for number in range(10):
        client.write(f"place/{number} é%", [b"x" * number] if number else [], flushed=lambda _: None)
    client.make_directory("place/directory")
    fs.create(f"{place}/ours", b"data")
    ours = {(entry.name, entry.is_directory, entry.length) for entry in fs.list_directory(place)}
    listed = client.list("place")
    assert len(listed) == 12
    assert {(seen.name, seen.is_directory, seen.length) for seen in listed} == ours
    for seen in listed:
        status = container.status(f"place/{seen.name}")
        assert status is not None
        assert seen.version == status.version.strip('"')
        assert client.look(f"place/{seen.name}") == seen
    assert client.look("place/absent") is None


@pytest.mark.parametrize("limit", [2, 1000])
def test_renames_and_removals(
    client: Client, fs: AbfsFileSystem, place: str, abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Of directories by several requests, too; a rename keeps the version of a file, and replaces nothing here."""
    for number in range(5):
        client.write(f"place/large/d/{number}", [b"data"], flushed=lambda _: None)
    fs.create(f"{place}/file", b"data")
    before = client.look("place/file")
    assert before is not None
    monkeypatch.setattr(abfs, "limit", limit if client.renames_by_pages else 1000)
    assert client.rename("place/large", "place/moved")
    monkeypatch.setattr(abfs, "limit", limit if client.removes_by_pages else 1000)
    assert client.rename("place/file", "place/file2")
    after = client.look("place/file2")
    assert after is not None
    assert after.version == before.version
    assert [entry.path for entry in fs.list_tree(f"{place}/moved", enter_hidden=True)] == [
        "d", *(f"d/{number}" for number in range(5))
    ]  # fmt: skip
    with pytest.raises(CorruptError, match="no such file"):
        fs.list_directory(f"{place}/large")
    odd = "p=a% b é+&#;"
    assert client.rename("place/file2", f"place/{odd}")
    assert fs.exists(f"{place}/{odd}")
    assert client.rename(f"place/{odd}", "place/file2")
    fs.rename_noreplace(f"{place}/file2", f"{place}/{odd}")
    assert client.look(f"place/{odd}") is not None
    fs.rename_noreplace(f"{place}/{odd}", f"{place}/file2")
    assert not client.rename("place/absent", "place/elsewhere")
    fs.create(f"{place}/taken", b"others")
    assert not client.rename("place/file2", "place/taken")
    assert fs.read(f"{place}/taken") == b"others"
    assert not client.rename("place/file2", "place/absent/file2")
    client.make_directory("place/full/below")
    with pytest.raises(ConflictError, match="already exists"):
        fs.rename_noreplace(f"{place}/moved", f"{place}/full")
    assert not client.remove("place/full", recursive=False)
    assert client.remove("place/full", recursive=True)
    assert client.remove("place/moved", recursive=True)
    assert client.remove("place/taken", recursive=False)
    assert [entry.name for entry in fs.list_directory(place)] == ["file2"]


@in_a_long_run
@pytest.mark.parametrize("client", RELEASES, indirect=True)
@pytest.mark.parametrize("lost", ["before", "after"])
def test_hadoops_driver_makes_up_for_a_lost_answer(
    client: Client, fs: AbfsFileSystem, place: str, abfs: AbfsStub, lost: str
) -> None:
    """By the version of a file in the older release, and by transactions in the newer ones."""
    fs.create(f"{place}/file", b"data")
    fs.make_directory(f"{place}/directory")
    met: list[str] = []

    def fault(request: Request) -> str | Answer | None:
        if request.name == "rename" and not met:
            met.append(request.name)
            return lost
        return None

    for name in ("file", "directory") if client.names_transactions else ("file",):
        met.clear()
        with abfs.at_fault(fault):
            assert client.rename(f"place/{name}", f"place/{name}2")
        assert met
    assert fs.read(f"{place}/file2") == b"data"
