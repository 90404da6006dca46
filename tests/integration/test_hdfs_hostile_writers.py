"""A user who writes one table on HDFS works against a service that runs as another user over all tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hdfs_native import Client
from hdfs_tables import names, uploaded
from judges.tables import inserts, write_dir
from rename_stores import renaming_files
from servers.hdfs import Hdfs

from acidlib.errors import AcidError, RefusedError
from acidlib.location import Location
from acidlib.stores import filesystem
from acidlib.stores.store import CLAIM
from acidlib.stores.stores import Stores
from integration.harness import AROUND, Jobs

pytestmark = pytest.mark.live

WRITER, SERVICE = "anna", "etl"
SCHEMA = "struct<id:int>"


@pytest.fixture
def his(hdfs: Hdfs, tmp_path: Path) -> Location:
    """A table of the writer."""
    return laid(hdfs, tmp_path, WRITER)


@pytest.fixture
def other(hdfs: Hdfs, tmp_path: Path) -> Location:
    """A table of somebody else."""
    return laid(hdfs, tmp_path, "bob")


@pytest.fixture
def service(hdfs: Hdfs, his: Location, other: Location, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """The stores of the service's user; jobs are his, too."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setenv("HADOOP_USER_NAME", SERVICE)
    # another configuration has a connection of its own, which is made with this name
    own = {"dfs.tests.user": "the service"}
    monkeypatch.setattr(AROUND, "hadoop", own)
    return Stores(configuration=hdfs.configuration | own)


@pytest.fixture
def writer(hdfs: Hdfs) -> Client:
    """A connection of the writer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_USER_NAME", WRITER)
        client = Client(hdfs.uri, {**hdfs.configuration, "dfs.tests.user": "the writer"})
        client.get_file_info("/")  # connects
    return client


def laid(hdfs: Hdfs, tmp_path: Path, owner: str) -> Location:
    """A table of this user, in which all users write."""
    for write_id in (1, 2, 3):
        write_dir(tmp_path / owner, f"delta_{write_id:07}_{write_id:07}_0000", SCHEMA, inserts(write_id, [(write_id,)]))
    table, client = uploaded(hdfs, tmp_path / owner, owner), hdfs.client()
    for status in (client.get_file_info(table.path), *client.list_status(table.path, recursive=True)):
        client.set_owner(status.path, owner, "hive")
        client.set_permission(status.path, 0o777 if status.isdir else 0o666)
    return table


def exchanged_when_made(monkeypatch: pytest.MonkeyPatch, writer: Client, place: Location) -> list[str]:
    """Have the writer put a directory of his own in the place of each that is made there, at once; their paths."""
    make: Callable[..., Any] = Client.mkdirs
    done: list[str] = []

    def mkdirs(self: Client, path: str, *arguments: Any, **options: Any) -> None:
        make(self, path, *arguments, **options)
        if path.startswith(f"{place.path}/"):
            writer.rename(path, f"{place.path}/_stolen{len(done)}")
            make(writer, path, 0o777, False)
            done.append(path)

    monkeypatch.setattr(Client, "mkdirs", mkdirs)
    return done


def test_who_is_taken_for_our_user_at_one_place_is_not_at_another(
    hdfs: Hdfs, his: Location, other: Location, service: Stores, writer: Client
) -> None:
    """The writer wins the race for whom the name node takes us, in all that is made in his table."""
    with pytest.MonkeyPatch.context() as patch:
        done = exchanged_when_made(patch, writer, his)
        with pytest.raises(AcidError):
            service.store(his).claim(his, owner="run", token="token", now=0).release()
    assert done
    with service.store(other).claim(other, owner="run", token="token", now=0) as claim:
        claim.assert_mine()
        assert CLAIM in names(hdfs, other)
        assert service.fs(other).entry(f"{other}/{CLAIM}").is_ours
        assert service.store(other).not_obeyed_reason(other) is None


@pytest.mark.usefixtures("service")
def test_a_record_of_the_writer_is_not_obeyed(hdfs: Hdfs, his: Location, jobs: Jobs, writer: Client) -> None:
    staging = f"{his.path}/_tmp_forged"
    writer.mkdirs(staging, 0o777, False)
    record = {"version": 1, "directories": [{"name": "base_0000009", "files": {}}], "inputs": ["delta_0000001"]}
    for name, text in (("_acidlib_staging", "{}"), ("publish.json", json.dumps(record))):
        with writer.create(f"{staging}/{name}") as file:
            file.write(text.encode())
    writer.mkdirs(f"{staging}/base_0000009", 0o777, False)
    ran = jobs.good("major_compact", "--location", str(his), "--all-committed")
    assert ran.states == ["ready for cleaning"]
    jobs.good("cleaner", "--retention", "0s")
    assert [name for name in names(hdfs, his) if not name.startswith("_")] == ["base_0000003"]
    assert "_tmp_forged" in names(hdfs, his)


def test_a_tree_that_grows_while_it_is_walked_has_an_end(
    hdfs: Hdfs, his: Location, service: Stores, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a staging directory that the table's group may write in, a directory more for each that is looked at."""
    look: Callable[..., Any] = Client.list_status
    root, most = f"{his.path}/delta_0000001_0000001_0000", 100

    def list_status(self: Client, path: str, *arguments: Any, **options: Any) -> Any:
        if path.count("/") < root.count("/") + most:
            writer.mkdirs(f"{path}/d", 0o777, False)
        return look(self, path, *arguments, **options)

    monkeypatch.setattr(Client, "list_status", list_status)
    monkeypatch.setattr(filesystem, "MAX_ENTRIES", 50)
    files = renaming_files(service, his)
    with pytest.raises(RefusedError, match="more than 50 files and directories"):
        files.inherit(f"{hdfs.uri}{root}", str(his))
