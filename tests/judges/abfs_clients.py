"""Clients of Azure Data Lake Storage that are not ours: Microsoft's, and Hadoop's driver in several releases."""

from __future__ import annotations

import abc
import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.filedatalake import FileSystemClient
from servers.abfs import ACCOUNT, KEY, AbfsProcess, AbfsStub
from servers.jars import brought

from judges.java_process import JavaProcess, JudgeError

_SPARKS = Path(pyspark.__file__).parent / "jars"
_QUICK = {
    "fs.azure.io.retry.max.retries": "2",
    **{f"fs.azure.io.retry.{name}backoff.interval": "20" for name in ("", "min.", "max.")},
    "fs.azure.account.hns.enabled": "true",
    # that of Apache takes no requests without TLS
    "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    "fs.azure.enable.paginated.delete": "true",
}


def driver_settings(stub: AbfsStub | AbfsProcess) -> dict[str, str]:
    """What Hadoop's driver has to be told so that it reaches a stub."""
    return stub.properties() | _QUICK


@dataclass(frozen=True, slots=True)
class Seen:
    """An entry as a client sees it."""

    name: str
    is_directory: bool
    length: int
    version: str
    """Without quotes."""


class Client(abc.ABC):
    """A client of one container; paths are without a slash before them."""

    renames_by_pages = removes_by_pages = names_transactions = False
    """Whether a rename or a removal of a directory goes on where the service asks for it; what makes up for answers."""

    @abc.abstractmethod
    def write(self, path: str, pieces: Sequence[bytes], *, flushed: Callable[[int], None]) -> None:
        """Makes a file, or writes one anew; calls back with its length after each flush."""

    @abc.abstractmethod
    def append(self, path: str, data: bytes) -> None:
        """Makes a file longer."""

    @abc.abstractmethod
    def read(self, path: str, offset: int, length: int) -> bytes:
        """So many bytes."""

    @abc.abstractmethod
    def make_directory(self, path: str) -> None:
        """Makes it, and those above it."""

    @abc.abstractmethod
    def rename(self, source: str, target: str) -> bool:
        """Renames a file or directory to a name that is free; whether it was there, and the name free."""

    @abc.abstractmethod
    def remove(self, path: str, *, recursive: bool) -> bool:
        """Whether it was there, and could be removed."""

    @abc.abstractmethod
    def look(self, path: str) -> Seen | None:
        """One entry."""

    @abc.abstractmethod
    def list(self, path: str) -> list[Seen]:
        """The entries of a directory."""

    @abc.abstractmethod
    def close(self) -> None:
        """It is not used any more."""


class Microsofts(Client):
    """That of `azure-storage-file-datalake`."""

    def __init__(self, stub: AbfsStub, container: str) -> None:
        """``container`` is its name."""
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        self._files = FileSystemClient(f"http://{stub.authority}", container, credential, retry_total=0)

    def write(self, path: str, pieces: Sequence[bytes], *, flushed: Callable[[int], None]) -> None:
        file, length = self._files.create_file(path), 0
        for piece in pieces:
            file.append_data(piece, length)
            length += len(piece)
            file.flush_data(length)
            flushed(length)

    def append(self, path: str, data: bytes) -> None:
        file = self._files.get_file_client(path)
        length = file.get_file_properties().size
        file.append_data(data, length, flush=True)

    def read(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self._files.get_file_client(path).download_file(offset, length).readall())

    def make_directory(self, path: str) -> None:
        self._files.create_directory(path)

    def rename(self, source: str, target: str) -> bool:
        seen = self.look(source)
        free = {"match_condition": MatchConditions.IfMissing}
        try:
            if seen is None or seen.is_directory:
                self._files.get_directory_client(source).rename_directory(f"{self._name}/{target}", **free)
            else:
                self._files.get_file_client(source).rename_file(f"{self._name}/{target}", **free)
        except (ResourceExistsError, ResourceNotFoundError):
            return False
        return True

    def remove(self, path: str, *, recursive: bool) -> bool:
        seen = self.look(path)
        try:
            if seen is not None and seen.is_directory and recursive:
                self._files.delete_directory(path)
            else:
                self._files.delete_file(path)
        except HttpResponseError:
            return False
        return True

    def look(self, path: str) -> Seen | None:
        try:
            found = self._files.get_file_client(path).get_file_properties()
        except ResourceNotFoundError:
            return None
        is_directory = found.metadata.get("hdi_isfolder") == "true"
        return Seen(path.rpartition("/")[2], is_directory, 0 if is_directory else found.size, found.etag.strip('"'))

    def list(self, path: str) -> list[Seen]:
        return [
            Seen(
                item.name.rpartition("/")[2],
                item.is_directory,
                0 if item.is_directory else item.content_length,
                item.etag.strip('"'),
            )
            for item in self._files.get_paths(path, recursive=False, max_results=4)
        ]

    def close(self) -> None:
        self._files.close()

    @property
    def _name(self) -> str:
        return str(self._files.file_system_name)


class Hadoops(Client):
    """The driver of a release of Hadoop."""

    def __init__(self, stub: AbfsStub, container: str, release: str) -> None:
        """``container`` is its name; ``release`` one of RELEASES."""
        self.renames_by_pages = True
        self.removes_by_pages = self.names_transactions = release > "3.4"  # HADOOP-18656, HADOOP-19450
        self._java = JavaProcess("AbfsJudge", sources="java_abfs", jars=jars_of(release))
        self._root = f"abfs://{container}@{stub.authority}"
        for name, value in driver_settings(stub).items():
            self._java.ask("set", name, value)
        self._java.ask("open", f"{self._root}/")

    def write(self, path: str, pieces: Sequence[bytes], *, flushed: Callable[[int], None]) -> None:
        self._java.ask("create", self._uri(path), "true")
        length = 0
        for piece in pieces:
            self._java.ask("write", base64.b64encode(piece).decode())
            self._java.ask("flush")
            length += len(piece)
            flushed(length)
        self._java.ask("close")

    def append(self, path: str, data: bytes) -> None:
        self._java.ask("append", self._uri(path))
        self._java.ask("write", base64.b64encode(data).decode())
        self._java.ask("close")

    def read(self, path: str, offset: int, length: int) -> bytes:
        (found,) = self._java.ask("read", self._uri(path), str(offset), str(length))
        return base64.b64decode(found)

    def make_directory(self, path: str) -> None:
        assert self._java.ask("mkdirs", self._uri(path)) == ["true"]

    def rename(self, source: str, target: str) -> bool:
        return self._java.ask("rename", self._uri(source), self._uri(target)) == ["true"]

    def remove(self, path: str, *, recursive: bool) -> bool:
        try:
            return self._java.ask("delete", self._uri(path), str(recursive).lower()) == ["true"]
        except JudgeError as error:
            if "409" in str(error):
                return False
            raise

    def look(self, path: str) -> Seen | None:
        try:
            (found,) = self._java.ask("status", self._uri(path))
        except JudgeError as error:
            if "FileNotFoundException" in str(error):
                return None
            raise
        return _seen(found)

    def list(self, path: str) -> list[Seen]:
        return [_seen(line) for line in self._java.ask("list", self._uri(path))]

    def close(self) -> None:
        self._java.close()

    def _uri(self, path: str) -> str:
        return f"{self._root}/{path}"


def _seen(line: str) -> Seen:
    path, kind, length, _, _, etag = line.split("\t")
    return Seen(path.rpartition("/")[2], kind == "directory", int(length), etag.strip('"'))


def _of_spark() -> str:
    """The release of Hadoop that PySpark brings."""
    (jar,) = _SPARKS.glob("hadoop-client-api-*.jar")
    return re.sub(r".*-api-(.*)\.jar", r"\1", jar.name)


RELEASES: dict[str, Callable[[], Path]] = {
    "3.3.6": lambda: brought("hive4") / "lib",
    "3.4.2": lambda: brought("hdfs") / "lib",
    _of_spark(): lambda: _SPARKS,
}
"""Releases of Hadoop, and where the rest of their jars is."""
NEWEST = list(RELEASES)[-1]


def jars_of(release: str) -> list[str]:
    """The class path of a driver."""
    return [str(RELEASES[release]() / "*"), str(brought("abfs_driver", release) / "lib" / "*")]
