"""HDFS when something is wrong with it: lost answers, a name node that dies, full quotas, missing rights."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from filesystem_behaviour import names, put
from hdfs_native import Client, FileReader
from long_runs import amount, in_a_long_run
from servers.hdfs import SUPERUSER, Hdfs
from servers.process import free_port

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.stores import repeating
from acidlib.stores.renaming import hdfs as filesystem
from acidlib.stores.renaming import hdfs_client as client
from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem

pytestmark = pytest.mark.live

LOST = "RPC listener disconnected"


@pytest.fixture
def fs(hdfs: Hdfs) -> HdfsFileSystem:
    return HdfsFileSystem(hdfs.authority, hdfs.configuration)


@pytest.fixture
def data(hdfs: Hdfs) -> HdfsDataFiles:
    return HdfsDataFiles(hdfs.authority, hdfs.configuration)


@pytest.fixture
def place(hdfs: Hdfs) -> str:
    return hdfs.new_directory()


@pytest.fixture
def whole(hdfs: Hdfs) -> Iterator[Hdfs]:
    """The cluster, for a test that breaks it."""
    yield hdfs
    hdfs.start()


def as_user(hdfs: Hdfs, user: str, monkeypatch: pytest.MonkeyPatch) -> HdfsFileSystem:
    """The file system as this user sees it, over a connection that nobody else has."""
    monkeypatch.setenv("HADOOP_USER_NAME", user)
    return HdfsFileSystem(hdfs.authority, hdfs.configuration | {"tests.user": user})


def lose(monkeypatch: pytest.MonkeyPatch, name: str, *, times: int = 1, done: bool = True) -> list[str]:
    """The next calls of this method of the client get no answer, whether they are done or not; what was called."""
    real: Callable[..., Any] = getattr(Client, name)
    calls: list[str] = []

    def called(self: Client, *arguments: object, **options: object) -> object:
        calls.append(name)
        if len(calls) > times:
            return real(self, *arguments, **options)
        if done:
            real(self, *arguments, **options)
        raise OSError(LOST)

    monkeypatch.setattr(Client, name, called)
    return calls


class TestLostAnswers:
    """Each call that changes something, when its answer is lost."""

    @pytest.mark.parametrize("done", [True, False])
    @pytest.mark.parametrize("source", ["file", "empty", "full"])
    def test_a_rename_is_done_once(
        self, fs: HdfsFileSystem, place: str, source: str, done: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(fs, place, "file", "empty/", "full/x")
        calls = lose(monkeypatch, "rename", done=done)
        fs.rename_noreplace(f"{place}/{source}", f"{place}/target")
        assert len(calls) == 2
        assert fs.exists(f"{place}/target")
        assert not fs.exists(f"{place}/{source}")

    def test_a_rename_by_another_to_another_name_is_no_success(
        self, fs: HdfsFileSystem, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(fs, place, "staging/base_1/")
        time.sleep(0.01)  # the two directories are not of the same millisecond
        put(fs, place, "base_1/")
        real = Client.rename

        def revoked(self: Client, source: str, target: str) -> None:
            monkeypatch.setattr(Client, "rename", real)
            fs.rename_noreplace(f"{place}/staging", f"{place}/revoked")
            raise OSError(LOST)

        monkeypatch.setattr(Client, "rename", revoked)
        with pytest.raises(ConflictError, match="no such file"):
            fs.rename_noreplace(f"{place}/staging/base_1", f"{place}/base_1", missing=ConflictError)
        with pytest.raises(ConflictError, match="already exists"):
            fs.rename_noreplace(f"{place}/revoked/base_1", f"{place}/base_1")

    def test_what_another_made_in_the_targets_place_is_no_success(
        self, fs: HdfsFileSystem, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(fs, place, "source/")
        real = Client.rename

        def swapped(self: Client, source: str, target: str) -> None:
            monkeypatch.setattr(Client, "rename", real)
            fs.rename_noreplace(f"{place}/source", f"{place}/elsewhere")
            fs.make_directory(f"{place}/target")
            raise OSError(LOST)

        time.sleep(0.01)  # the two directories are not of the same millisecond
        monkeypatch.setattr(Client, "rename", swapped)
        with pytest.raises(CorruptError, match="no such file"):
            fs.rename_noreplace(f"{place}/source", f"{place}/target")

    def test_a_target_that_was_there_stays_a_conflict(
        self, hdfs: Hdfs, fs: HdfsFileSystem, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even one of the same millisecond, as the source is there still."""
        put(fs, place, "source/", "target/")
        for name in ("source", "target"):
            hdfs.client().set_times(f"{place.removeprefix(hdfs.uri)}/{name}", 1_700_000_000_000, 1_700_000_000_000)
        assert fs.entry(f"{place}/source").modified == fs.entry(f"{place}/target").modified == 1_700_000_000.0
        lose(monkeypatch, "rename", done=False)
        with pytest.raises(ConflictError, match="target already exists"):
            fs.rename_noreplace(f"{place}/source", f"{place}/target")

    def test_answers_that_never_come_leave_the_outcome_unknown(
        self, fs: HdfsFileSystem, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(fs, place, "source/")
        monkeypatch.setattr(repeating, "_FIRST_PAUSE_SECONDS", 0)
        calls = lose(monkeypatch, "rename", times=1000, done=False)
        with pytest.raises(UnknownOutcomeError, match=rf"the outcome of a change of .*/source: .* \({LOST}\)"):
            fs.rename_noreplace(f"{place}/source", f"{place}/target")
        assert len(calls) == filesystem._TRIES

    @pytest.mark.parametrize("done", [True, False])
    @pytest.mark.parametrize("lost", ["rename", "mkdirs", "get_file_info"])
    def test_making_a_directory_or_a_file(
        self, fs: HdfsFileSystem, place: str, lost: str, done: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            lose(patch, lost, done=done)
            fs.make_directory(f"{place}/d")
        with monkeypatch.context() as patch:
            lose(patch, lost, done=done)
            fs.create(f"{place}/f", b"data")
        assert names(fs, place) == ["d", "f"]
        assert fs.read(f"{place}/f") == b"data"

    @pytest.mark.parametrize("done", [True, False])
    def test_removing(self, fs: HdfsFileSystem, place: str, done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        put(fs, place, "tree/x", "file", "empty/", "full/x")
        with monkeypatch.context() as patch:
            lose(patch, "delete", done=done)
            fs.remove_tree(place, "tree")
        with monkeypatch.context() as patch:
            lose(patch, "delete", done=done)
            fs.remove_file(f"{place}/file")
        with monkeypatch.context() as patch:
            lose(patch, "delete", done=done)
            assert fs.remove_empty_directory(f"{place}/empty")
        with monkeypatch.context() as patch:
            lose(patch, "delete", done=False)
            assert not fs.remove_empty_directory(f"{place}/full")
        assert names(fs, place) == ["full"]

    @pytest.mark.parametrize("name", ["get_file_info", "list_status", "read"])
    def test_questions_are_asked_again(
        self, fs: HdfsFileSystem, place: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(fs, place, "f")
        lose(monkeypatch, name)
        assert fs.read(f"{place}/f") == b"f"
        assert names(fs, place) == ["f"]


class TestNameNode:
    """The name node is killed, and comes back."""

    def test_killed_while_it_renames(self, whole: Hdfs, fs: HdfsFileSystem, place: str) -> None:
        """No rename is lost or done twice: the callers wait, or are told that theirs was not done (in safe mode)."""
        patient = HdfsFileSystem(whole.authority, whole.configuration | {"dfs.client.failover.max.attempts": "15"})
        count = 4
        for number in range(count):
            put(fs, place, f"{number}/0/x")
        done = [0] * count
        failures: list[BaseException] = []
        stop = threading.Event()

        def rename(number: int) -> None:
            while not stop.is_set():
                at = done[number]
                try:
                    patient.rename_noreplace(f"{place}/{number}/{at}", f"{place}/{number}/{at + 1}")
                except RetryError as error:
                    if "safe mode" not in str(error):
                        raise
                    time.sleep(0.1)
                else:
                    done[number] += 1

        def worker(number: int) -> None:
            try:
                rename(number)
            except BaseException as error:
                failures.append(error)

        def wait_for_more() -> None:
            before = sum(done)
            while sum(done) < before + 50 and not failures:
                time.sleep(0.01)

        workers = [threading.Thread(target=worker, args=[number]) for number in range(count)]
        for thread in workers:
            thread.start()
        for _ in range(amount(1, long=3)):
            wait_for_more()
            whole.kill_name_node()
            whole.start()
        wait_for_more()
        stop.set()
        for thread in workers:
            thread.join()
        assert failures == []
        for number in range(count):
            assert names(fs, f"{place}/{number}") == [str(done[number])]
            assert names(fs, f"{place}/{number}/{done[number]}") == ["x"]

    @in_a_long_run  # whole jobs meet it in test_hdfs_bad_input
    def test_one_that_is_away(self, whole: Hdfs, fs: HdfsFileSystem, place: str) -> None:
        put(fs, place, "f")
        hasty = HdfsFileSystem(whole.authority, whole.configuration | {"dfs.client.failover.max.attempts": "2"})
        whole.kill_name_node()
        with pytest.raises(RetryError, match=r"Cannot look at .*/f: the name node, or .*, cannot be reached"):
            hasty.exists(f"{place}/f")
        with pytest.raises(RetryError, match="Connection refused"):
            hasty.rename_noreplace(f"{place}/f", f"{place}/g")
        whole.start()
        assert names(hasty, place) == ["f"]

    def test_a_file_that_was_being_written_is_not_finished_by_accident(
        self, whole: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str
    ) -> None:
        sink = data.create(f"{place}/f")
        sink.write(bytes(3_000_000))
        whole.kill_name_node()
        whole.start()
        sink.abort()
        assert names(fs, place) == []

    def test_safe_mode(self, hdfs: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str) -> None:
        put(fs, place, "f", "d/")
        hdfs.safe_mode(on=True)
        try:
            for change in (
                lambda: fs.create(f"{place}/g", b""),
                lambda: fs.make_directory(f"{place}/e"),
                lambda: fs.rename_noreplace(f"{place}/f", f"{place}/g"),
                lambda: fs.remove_tree(place, "d"),
                lambda: fs.remove_file(f"{place}/f"),
                lambda: fs.remove_empty_directory(f"{place}/d"),
                lambda: data.create(f"{place}/g"),
            ):
                with pytest.raises(RetryError, match=r"the name node is in safe mode$"):
                    change()
            assert fs.read(f"{place}/f") == b"f"
        finally:
            hdfs.safe_mode(on=False)
        assert names(fs, place) == ["d", "f"]

    def test_a_host_that_nobody_knows(self) -> None:
        lost = HdfsFileSystem("no-such-host.invalid", {})
        with pytest.raises(RetryError, match=r"no-such-host\.invalid is neither a known host nor"):
            lost.exists("hdfs://no-such-host.invalid/t")

    def test_a_name_service_without_name_nodes(self) -> None:
        with pytest.raises(RefusedError, match=r"dfs\.nameservices"):
            HdfsFileSystem("ns", {"dfs.ha.namenodes.ns": ""}).exists("hdfs://ns/t")

    def test_a_name_service_whose_first_name_node_is_away(self, hdfs: Hdfs, fs: HdfsFileSystem, place: str) -> None:
        put(fs, place, "f")
        service = HdfsFileSystem(
            "ns",
            hdfs.configuration
            | {
                "dfs.ha.namenodes.ns": "a,b",
                "dfs.namenode.rpc-address.ns.a": f"127.0.0.1:{free_port()}",
                "dfs.namenode.rpc-address.ns.b": hdfs.authority,
            },
        )
        inside = place.removeprefix(hdfs.uri)
        assert names(service, f"hdfs://ns{inside}") == ["f"]
        service.rename_noreplace(f"hdfs://ns{inside}/f", f"hdfs://ns{inside}/g")
        assert names(fs, place) == ["g"]

    @pytest.mark.parametrize("path", ["/t", "hdfs://other/t", "hdfs:///t", "file:///t", ""])
    def test_paths_of_others_are_refused(self, hdfs: Hdfs, fs: HdfsFileSystem, path: str) -> None:
        for wrong in (path, f"{hdfs.uri}0/t"):
            with pytest.raises(RefusedError, match="does not name a file on hdfs://127"):
                fs.exists(wrong)

    def test_a_path_with_a_colon_is_refused(self, fs: HdfsFileSystem, place: str) -> None:
        with pytest.raises(RefusedError, match="HDFS does not take that name"):
            fs.make_directory(f"{place}/a:b")


class TestQuotas:
    """Limits of names and of bytes."""

    def test_no_name_is_left(self, hdfs: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str) -> None:
        put(fs, place, "d/x")
        hdfs.set_quota(place, names=3)
        for change in (
            lambda: fs.create(f"{place}/f", b""),
            lambda: fs.make_directory(f"{place}/e"),
            lambda: data.create(f"{place}/f"),
        ):
            with pytest.raises(RetryError, match=r"the quota is used up \(The NameSpace quota"):
                change()
        fs.rename_noreplace(f"{place}/d", f"{place}/moved")
        assert names(fs, place) == ["moved"]

    def test_no_byte_is_left(self, hdfs: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str) -> None:
        """A file that lacks bytes is never finished, though hdfs-native would do it."""
        hdfs.set_quota(place, space=1_000_000)
        with pytest.raises(RetryError, match=r"the quota is used up \(The DiskSpace quota"):
            fs.create(f"{place}/f", bytes(5000))
        assert names(fs, place) == []
        sink = data.create(f"{place}/f")
        with pytest.raises(RetryError, match="the quota is used up"):
            sink.write(bytes(10_000_000))
        with pytest.raises(ValueError, match="could not be written"):
            sink.close()
        sink.abort()
        assert names(fs, place) == []


class TestRights:
    """Users that may not do everything."""

    def test_what_others_may_not(self, hdfs: Hdfs, fs: HdfsFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
        place = hdfs.new_directory(owner="etl", group="hive", mode=0o750)
        put(fs, place, "f", "d/")
        bob = as_user(hdfs, "bob", monkeypatch)
        for denied in (
            lambda: bob.list_directory(place),
            lambda: bob.exists(f"{place}/f"),
            lambda: bob.read(f"{place}/f"),
            lambda: bob.create(f"{place}/g", b""),
            lambda: bob.remove_tree(place, "d"),
            lambda: HdfsDataFiles(hdfs.authority, hdfs.configuration | {"tests.user": "bob"}).open(f"{place}/f", 1),
        ):
            with pytest.raises(RetryError, match="the permission is missing: user bob needs the right to"):
                denied()

    def test_the_superuser_gives_files_away(self, hdfs: Hdfs, fs: HdfsFileSystem) -> None:
        place = hdfs.new_directory(owner="etl", group="hive", mode=0o1770)
        put(fs, place, "new/d/f")
        fs.inherit(f"{place}/new", place)
        client = hdfs.client()
        found = {
            name: client.get_file_info(f"{place.removeprefix(hdfs.uri)}/{name}") for name in ("new", "new/d", "new/d/f")
        }
        assert {(status.owner, status.group) for status in found.values()} == {("etl", "hive")}
        assert [found[name].permission for name in ("new", "new/d", "new/d/f")] == [0o1770, 0o1770, 0o660]
        assert fs.owner(f"{place}/new/d/f") == "etl"

    def test_others_give_the_group_and_the_mode(self, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
        """What anna makes in a table of etl belongs to her, but to the group that both are of."""
        place = hdfs.new_directory(owner="etl", group="hive", mode=0o770)
        inside = place.removeprefix(hdfs.uri)
        hdfs.client().mkdirs(f"{inside}/other", 0o777)
        hdfs.client().set_owner(f"{inside}/other", "bob", "bob")
        hdfs.client().set_permission(f"{inside}/other", 0o777)
        anna = as_user(hdfs, "anna", monkeypatch)
        put(anna, place, "new/f")
        anna.inherit(f"{place}/new", place)
        for name, mode in (("new", 0o770), ("new/f", 0o660)):
            status = hdfs.client().get_file_info(f"{inside}/{name}")
            assert (status.owner, status.group, status.permission) == ("anna", "hive", mode)
        anna.inherit(f"{place}/new", f"{place}/other")  # a group that she is not of
        status = hdfs.client().get_file_info(f"{inside}/new")
        assert (status.owner, status.group, status.permission) == ("anna", "hive", 0o777)

    def test_what_is_new_has_the_mode_of_the_configuration(self, hdfs: Hdfs, place: str) -> None:
        fs = HdfsFileSystem(hdfs.authority, hdfs.configuration | {"fs.permissions.umask-mode": "027"})
        put(fs, place, "d/f")
        inside = place.removeprefix(hdfs.uri)
        modes = [hdfs.client().get_file_info(f"{inside}/{name}").permission for name in ("d", "d/f")]
        assert modes == [0o750, 0o640]
        assert fs.owner(f"{place}/d/f") == SUPERUSER


class TestRemoving:
    """Calls that claims need."""

    def test_a_file(self, fs: HdfsFileSystem, place: str) -> None:
        put(fs, place, "f", "d/x")
        fs.remove_file(f"{place}/f")
        with pytest.raises(ConflictError, match=r"Cannot remove .*/f: there is no such file"):
            fs.remove_file(f"{place}/f", missing=ConflictError)
        with pytest.raises(ConflictError, match="not empty"):
            fs.remove_file(f"{place}/d")
        assert names(fs, place) == ["d"]

    def test_a_directory_only_if_it_is_empty(self, fs: HdfsFileSystem, place: str) -> None:
        put(fs, place, "d/x")
        assert not fs.remove_empty_directory(f"{place}/d")
        fs.remove_file(f"{place}/d/x")
        assert fs.remove_empty_directory(f"{place}/d")
        assert not fs.remove_empty_directory(f"{place}/d")
        assert names(fs, place) == []


class TestData:
    """The bytes of files."""

    def test_a_data_node_that_is_lost(self, whole: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str) -> None:
        contents = os.urandom(3_000_000)
        fs.create(f"{place}/f", contents)
        source, sink = data.open(f"{place}/f", len(contents)), data.create(f"{place}/g")
        sink.write(contents)
        whole.data_nodes[0].kill()
        assert source.read(0, len(contents)) == contents
        sink.write(contents)
        sink.close()
        assert fs.read(f"{place}/g") == contents * 2
        # hdfs-native asks for no other data nodes in the place of a dead one: it must be known to be dead
        wait_until_written(fs, f"{place}/h", contents)
        assert fs.read(f"{place}/h") == contents
        assert names(fs, place) == ["f", "g", "h"]

    def test_all_data_nodes_lost(self, whole: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str) -> None:
        fs.create(f"{place}/f", b"data")
        source, sink = data.open(f"{place}/f", 4), data.create(f"{place}/g")
        for node in whole.data_nodes:
            node.kill()
        with pytest.raises(RetryError, match=r"Cannot read .*/f: no data node has, or takes, its bytes"):
            source.read(0, 4)
        with pytest.raises(RetryError, match=r"Cannot write .*/g:"):
            sink.write(bytes(100_000_000))
        with pytest.raises(ValueError, match="could not be written"):
            sink.close()
        sink.abort()
        whole.start()
        assert source.read(0, 4) == b"data"
        assert names(fs, place) == ["f"]

    def test_a_file_that_is_still_being_written(
        self, hdfs: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str
    ) -> None:
        writer = hdfs.client().create(f"{place.removeprefix(hdfs.uri)}/f")
        writer.write(b"0123456789")
        writer.hsync()
        reason = "it is still being written: 0 of its 10 bytes can be read"
        with pytest.raises(RetryError, match=reason):
            fs.read(f"{place}/f")
        with pytest.raises(RetryError, match="it is still being written"):
            data.open(f"{place}/f", 5)
        writer.close()
        assert fs.read(f"{place}/f") == b"0123456789"

    def test_another_file_in_the_place_of_an_open_one(
        self, data: HdfsDataFiles, fs: HdfsFileSystem, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fs.create(f"{place}/f", b"first")
        source = data.open(f"{place}/f", 5)
        fs.remove_file(f"{place}/f")
        fs.create(f"{place}/f", b"other")

        def fail(self: FileReader, offset: int, size: int) -> bytes:
            raise OSError(LOST)

        monkeypatch.setattr(FileReader, "read_range", fail)  # its block is readable for a while
        with pytest.raises(CorruptError, match="another file took its place"):
            source.read(0, 5)

    def test_what_was_removed_under_its_writer_is_not_brought_back(
        self, data: HdfsDataFiles, fs: HdfsFileSystem, place: str
    ) -> None:
        put(fs, place, "staging/")
        sink = data.create(f"{place}/staging/f")
        sink.write(b"data")
        fs.remove_tree(place, "staging")
        with pytest.raises(ConflictError, match=r"Cannot write .*/staging/f: there is no such file"):
            sink.close()
        assert names(fs, place) == []

    def test_a_sink_that_is_forgotten_finishes_nothing(
        self, hdfs: Hdfs, data: HdfsDataFiles, fs: HdfsFileSystem, place: str
    ) -> None:
        sink = data.create(f"{place}/f")
        sink.write(b"half")
        del sink
        with pytest.raises(FileExistsError, match="lease is currently owned"):
            hdfs.client().append(f"{place.removeprefix(hdfs.uri)}/f")


def wait_until_written(fs: HdfsFileSystem, path: str, contents: bytes) -> None:
    while True:
        try:
            fs.create(path, contents)
        except RetryError:
            time.sleep(0.5)
        else:
            return


def read_in_child(fs: HdfsFileSystem, path: str) -> bytes:
    return fs.read(path)


def test_a_fork_shares_no_connection(fs: HdfsFileSystem, data: HdfsDataFiles, place: str) -> None:
    """hdfs-native keeps connections to data nodes; over one that two processes have, each gets the other's bytes."""
    contents = {name: name.encode() * 1_000_000 for name in "abcd"}

    def check() -> None:
        for name, expected in contents.items():
            assert fs.read(f"{place}/{name}") == expected

    for name, expected in contents.items():
        fs.create(f"{place}/{name}", expected)
        assert fs.read(f"{place}/{name}") == expected
    with multiprocessing.get_context("fork").Pool(2) as pool:
        coming = {name: pool.apply_async(read_in_child, (fs, f"{place}/{name}")) for name in contents}
        # not for longer: where a child drops a connection in use here, this waits a minute for its answer
        until = time.monotonic() + client._KEPT_SECONDS
        while time.monotonic() < until:
            check()
        for name, expected in contents.items():
            assert coming[name].get() == expected
    check()
    assert time.monotonic() < until + 50, "somebody waited for an answer that another got"
