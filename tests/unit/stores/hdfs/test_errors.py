"""What hdfs-native says, told by what helps."""

from __future__ import annotations

import pytest

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.stores.renaming.hdfs_client import as_acid_error, is_of_data, java_class, refuse_unfinished, was_not_sent

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
        (
            rpc(f"{HADOOP}.hdfs.protocol.NSQuotaExceededException"),
            RetryError,
            "the quota is used up (it did not work)",
        ),
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
    found = as_acid_error(error, "write", "hdfs://ns/t")
    assert type(found) is kind
    assert str(found).removeprefix("Cannot write hdfs://ns/t: ").startswith(("because ", "the permission is missing: "))
    assert text in str(found)
    assert "\n" not in str(found)
    assert " at org." not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("/t"),
        IsADirectoryError("/t"),
        rpc(f"{HADOOP}.fs.ParentNotDirectoryException", "is not a directory"),
    ],
)
def test_what_is_missing_is_what_the_caller_says(error: Exception) -> None:
    assert type(as_acid_error(error, "read", "/t", missing=ConflictError)) is ConflictError


def test_the_java_class() -> None:
    assert java_class(rpc("a.b.C$D")) == "C$D"
    assert java_class(RuntimeError('DataTransferError("x")')) == ""
    assert java_class(OSError("x")) == ""


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
    with pytest.raises(RetryError, match="Cannot read /t: because it is still being written: 9 of its 10 bytes"):
        refuse_unfinished("/t", 10, 9)
