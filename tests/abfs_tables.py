"""Tables copied to the stub of Azure Data Lake Storage and back, by Microsoft's own client."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.filedatalake import FileSystemClient
from servers.abfs import ACCOUNT, KEY, AbfsProcess, AbfsStub

from acidlib.location import Location, parse_location


def client(stub: AbfsStub | AbfsProcess, place: Location) -> FileSystemClient:
    """Microsoft's client for the container of a location."""
    credential = AzureNamedKeyCredential(ACCOUNT, KEY)
    container = place.authority.partition("@")[0]
    return FileSystemClient(f"http://{stub.authority}", container, credential, retry_total=0)


def uploaded(stub: AbfsStub | AbfsProcess, source: Path, name: str = "t", *, container: str = "") -> Location:
    """A copy of a directory in a container, by default a new one."""
    if isinstance(stub, AbfsProcess):
        container = stub.container
    place = parse_location(f"{container or stub.new_container()}/{uuid.uuid4().hex[:8]}/{name}")
    files = client(stub, place)
    files.create_directory(place.path[1:])
    for path in sorted(source.rglob("*")):
        target = place.child(path.relative_to(source).as_posix()).path[1:]
        if path.is_dir():
            files.create_directory(target)
            continue
        file, data = files.create_file(target), path.read_bytes()
        if data:
            file.append_data(data, 0)
        file.flush_data(len(data))
    return place


def downloaded(stub: AbfsStub | AbfsProcess, source: Location, target: Path) -> Path:
    """A copy on this machine's disks of what lies at a location; what was there before goes."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    files = client(stub, source)
    for found in sorted(files.get_paths(source.path[1:]), key=lambda item: str(item.name)):
        path = target / found.name.removeprefix(f"{source.path[1:]}/")
        if found.is_directory:
            path.mkdir(exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.get_file_client(found.name).download_file().readall())
    return target


def names(stub: AbfsStub, place: Location) -> list[str]:
    """The entries of a directory."""
    found = client(stub, place).get_paths(place.path[1:], recursive=False)
    return sorted(item.name.rpartition("/")[2] for item in found)
