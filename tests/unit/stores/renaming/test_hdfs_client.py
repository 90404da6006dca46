"""HDFS as Hadoop's configuration names it, what its client says, and name nodes that say nothing."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest
from waits import until

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.stores.filesystem import UnreachableServers
from acidlib.stores.renaming import hdfs_client as client
from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem
from acidlib.stores.renaming.hdfs_client import (
    NameNode,
    NoAnswerError,
    about_hdfs,
    answer_in_time,
    default_authority,
    hdfs_acid_error,
    is_of_data,
    refuse_unfinished,
    size_or_number,
    was_not_sent,
    whole_authority,
)


def test_no_properties_of_other_stores_are_for_hdfs() -> None:
    given = {"fs.s3a.secret.key": "secret", "fs.defaultFS": "hdfs://ns", "dfs.a": "b", "hadoop.security.x": "y"}
    assert about_hdfs(given) == {key: value for key, value in given.items() if not key.startswith("fs.s3a.")}


@pytest.mark.parametrize(
    ("uri", "authority"), [("hdfs://ns", "ns"), ("hdfs://nn:9000/", "nn:9000"), ("HDFS://nn/user", "nn")]
)
def test_the_default_authority(uri: str, authority: str) -> None:
    assert default_authority({"fs.defaultFS": uri}) == authority


@pytest.mark.parametrize("uri", ["", "file:///", "hdfs:///", "s3a://bucket", "ns"])
def test_a_default_that_names_no_name_node(uri: str) -> None:
    with pytest.raises(RefusedError, match=r"Cannot open hdfs:///: fs\.defaultFS is"):
        default_authority({"fs.defaultFS": uri} if uri else {})


def test_a_host_has_a_port_and_a_name_service_none() -> None:
    services = {"dfs.ha.namenodes.ns": "a,b", "dfs.namenode.rpc-address.one": "nn:9000"}
    assert whole_authority("ns", services) == "ns"
    assert whole_authority("one", services) == "one"
    assert whole_authority("nn", services) == "nn:8020"
    assert whole_authority("nn:9000", services) == "nn:9000"


def test_modes_of_what_is_new() -> None:
    assert NameNode.of("ns", {}).mode(is_directory=True) == 0o755
    assert NameNode.of("ns", {}).mode(is_directory=False) == 0o644
    assert NameNode.of("ns", {"fs.permissions.umask-mode": "077"}).mode(is_directory=True) == 0o700
    with pytest.raises(RefusedError, match=r"fs\.permissions\.umask-mode = u=rwx,g=,o=: only octal"):
        NameNode.of("ns", {"fs.permissions.umask-mode": "u=rwx,g=,o="}).mode(is_directory=True)


def test_numbers() -> None:
    assert size_or_number("dfs.replication", {}) is None
    assert size_or_number("dfs.replication", {"dfs.replication": "2"}) == 2
    assert size_or_number("dfs.blocksize", {"dfs.blocksize": "134217728"}) == 1 << 27
    assert size_or_number("dfs.blocksize", {"dfs.blocksize": "64M"}) == 1 << 26
    with pytest.raises(RefusedError, match=r"dfs\.blocksize = big"):
        size_or_number("dfs.blocksize", {"dfs.blocksize": "big"})


HADOOP = "org.apache.hadoop"
TRACE = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.mkdirs(FSNamesystem.java:3531)\\n"


def rpc(name: str, message: str = "it did not work", kind: str = "RPCError") -> RuntimeError:
    return RuntimeError(f'{kind}("{name}", "{message}{TRACE}")')


GSSAPI = (
    'GSSAPIError(GssMajorCodes { raw: "0x00070000", routine_error: "GSS_S_NO_CRED" }, 2529639053, "No credentials were '
    'supplied, or the credentials were unavailable or inaccessible: No Kerberos credentials available (x: y)")'
)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (FileNotFoundError("/t"), CorruptError, "there is no such file or directory"),
        (FileNotFoundError("Path is not a file: /t\n\tat x"), CorruptError, "it is a directory"),
        (IsADirectoryError("/t"), CorruptError, "it is a directory"),
        (FileExistsError("/t already exists\n\tat x"), ConflictError, "it already exists"),
        (NotImplementedError("File encryption"), RefusedError, "the client for HDFS does not support File encryption"),
        (
            OSError("Connection refused (os error 111)"),
            RetryError,
            "the name node, or a data node, cannot be reached (Connection refused (os error 111))",
        ),
        (rpc(f"{HADOOP}.hdfs.server.namenode.SafeModeException"), RetryError, "the name node is in safe mode"),
        (
            rpc(f"{HADOOP}.ipc.RetriableException", "NameNode still not started"),
            RetryError,
            "the name node is not ready (NameNode still not started)",
        ),
        (rpc(f"{HADOOP}.ipc.StandbyException", kind="FatalRPCError"), RetryError, "no name node is active"),
        (rpc(f"{HADOOP}.hdfs.protocol.NSQuotaExceededException"), RetryError, "the quota is used up (it did not work)"),
        (rpc(f"{HADOOP}.hdfs.protocol.DSQuotaExceededException"), RetryError, "the quota is used up (it did not work)"),
        (
            rpc(f"{HADOOP}.security.AccessControlException", 'Permission denied: inode=\\"/t\\"'),
            RetryError,
            'the permission is missing: Permission denied: inode="/t"',
        ),
        (
            rpc(
                f"{HADOOP}.security.AccessControlException",
                'Permission denied: user=bob, access=READ_EXECUTE, inode=\\"/t/a b\\":etl:hive:drwxr-x---',
            ),
            RetryError,
            "user bob needs the right to read and enter (rx) on /t/a b, which is drwxr-x--- of etl:hive",
        ),
        (
            rpc(f"{HADOOP}.security.AccessControlException", "/t (is not a directory)"),
            CorruptError,
            "it is not, or lies not in, a directory",
        ),
        (
            rpc(f"{HADOOP}.fs.ParentNotDirectoryException", "/t (is not a directory)"),
            CorruptError,
            "it is not, or lies not in, a directory",
        ),
        (rpc("java.io.IOException", "Source /a and destination /b must both be directories"), ConflictError, "exists"),
        (rpc(f"{HADOOP}.fs.PathIsNotEmptyDirectoryException"), ConflictError, "it is not empty"),
        (rpc(f"{HADOOP}.fs.InvalidPathException"), RefusedError, "HDFS does not take that name (it did not work)"),
        (rpc("java.io.IOException", "mkdirs: Pathname too long.  Limit 8000"), RefusedError, "HDFS does not take that"),
        (
            rpc(f"{HADOOP}.hdfs.protocol.FSLimitException$PathComponentTooLongException"),
            RefusedError,
            "HDFS does not take that name",
        ),
        (rpc(f"{HADOOP}.hdfs.protocol.UnresolvedPathException"), RefusedError, "a symbolic link"),
        (
            rpc(f"{HADOOP}.hdfs.protocol.SnapshotException"),
            RetryError,
            "the name node said SnapshotException: it did not work",
        ),
        (RuntimeError('DataTransferError("All DataNodes failed: []")'), RetryError, "no data node has, or takes,"),
        (RuntimeError("ChecksumError"), CorruptError, "do not match their checksum"),
        (RuntimeError('SASLError("no ticket")'), RetryError, "did not take the log-in (no ticket)"),
        (
            RuntimeError(GSSAPI),
            RetryError,
            "there was no log-in with Kerberos (No Kerberos credentials available (x: y))",
        ),
        (RuntimeError("NoSASLMechanism"), RetryError, "NoSASLMechanism"),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), RefusedError, "dfs.nameservices"),
        (RuntimeError('UnsupportedErasureCodingPolicy("XOR")'), RefusedError, "UnsupportedErasureCodingPolicy: XOR"),
        (RuntimeError("something new"), RetryError, "the client for HDFS said something new"),
    ],
)
def test_errors_are_told_by_what_helps(error: Exception, kind: type[Exception], text: str) -> None:
    found = hdfs_acid_error(error, "write", "hdfs://ns/t")
    assert type(found) is kind
    assert str(found).startswith("Cannot write hdfs://ns/t: ")
    assert text in str(found)
    assert "\n" not in str(found)
    assert " at org." not in str(found)


def test_what_was_not_sent() -> None:
    assert was_not_sent(OSError("Connection refused (os error 111)"))
    assert was_not_sent(OSError("failed to lookup address information: Name or service not known"))
    assert not was_not_sent(OSError("RPC listener disconnected"))
    assert not was_not_sent(OSError("writing to data nodes failed: Connection refused (os error 111)"))


def test_failures_of_data_nodes() -> None:
    assert is_of_data(OSError("Connection refused (os error 111)"))
    assert is_of_data(RuntimeError('DataTransferError("All nodes failed for write")'))
    assert not is_of_data(FileNotFoundError("/t"))
    assert not is_of_data(rpc(f"{HADOOP}.hdfs.protocol.DSQuotaExceededException"))


def test_a_file_that_is_being_written() -> None:
    refuse_unfinished("/t", 10, 10)
    refuse_unfinished("/t", 10, 11)
    with pytest.raises(RetryError, match="Cannot read /t: it is still being written: 9 of its 10 bytes"):
        refuse_unfinished("/t", 10, 9)


TRIES = {"dfs.client.failover.max.attempts": "0"}


def test_one_that_is_given_up_leaves_its_thread_behind() -> None:
    """What is asked next has another."""
    free, asking = threading.Event(), []
    with pytest.raises(NoAnswerError, match=r"no answer within 0\.05 s"):
        answer_in_time(0.05, lambda: (asking.append(threading.current_thread()), free.wait()))
    assert answer_in_time(60, threading.current_thread) not in asking
    assert answer_in_time(60, threading.current_thread) is answer_in_time(60, threading.current_thread)
    with pytest.raises(ZeroDivisionError):
        answer_in_time(60, lambda: 1 // 0)
    free.set()


def test_it_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever asks later has a new connection."""
    free, asked = threading.Event(), []

    def hang(path: str) -> None:
        asked.append(path)
        free.wait()

    stuck = SimpleNamespace(get_file_info=hang)
    key = os.getpid(), NameNode.of("ns", TRIES)
    monkeypatch.setitem(client._CLIENTS, key, stuck)  # type: ignore[arg-type]
    monkeypatch.setattr(client, "_CONNECTION_SECONDS", 0.01)
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.02)
    told = (
        "the name node, or a data node, cannot be reached (hdfs://ns takes requests and gives no answer within 0.05 s)"
    )
    fs = HdfsFileSystem("ns", TRIES, UnreachableServers())
    for number in range(3):
        with pytest.raises(RetryError) as raised:
            fs.exists(f"hdfs://ns/t{number}")
        assert str(raised.value) == f"Cannot look at hdfs://ns/t{number}: {told}"
    until(lambda: asked)
    assert asked == ["/t0"]
    assert key not in client._CLIENTS
    monkeypatch.setitem(client._CLIENTS, key, stuck)  # type: ignore[arg-type]
    with pytest.raises(RetryError, match=r"Cannot read hdfs://ns/f: .* no answer within"):
        HdfsDataFiles("ns", TRIES).open("hdfs://ns/f", 1)
    free.set()


def test_a_fork_asks_for_itself() -> None:
    answer_in_time(60, threading.current_thread)
    child = os.fork()
    if child == 0:
        os._exit(0 if answer_in_time(20, lambda: True) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
