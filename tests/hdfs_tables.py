"""Tables copied to HDFS and back, by its client alone."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servers.hdfs import Hdfs

from acidlib.location import Location, parse_location

_VIEW = "viewfs://view/some/where"
"""Where the directory of all tests is in a mount table."""


def uploaded(hdfs: Hdfs, source: Path, name: str = "t", *, below: str | None = None) -> Location:
    """A copy of a directory, below a new one, or below one that is given."""
    client, root = hdfs.client(), parse_location(f"{below or hdfs.new_directory()}/{name}")
    client.mkdirs(root.path, create_parent=True)
    targets = {path: root.child(path.relative_to(source).as_posix()).path for path in sorted(source.rglob("*"))}

    def copy(path: Path) -> None:
        with client.create(targets[path]) as file:
            file.write(path.read_bytes())

    for path in filter(Path.is_dir, targets):
        client.mkdirs(targets[path])
    with ThreadPoolExecutor(8) as pool:  # to close a file takes half a second of waiting
        list(pool.map(copy, filter(Path.is_file, targets)))
    return root


def downloaded(hdfs: Hdfs, source: Location, target: Path) -> Path:
    """A copy on this machine's disks of what lies at a location; what was there before goes."""
    client = hdfs.client()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for status in sorted(client.list_status(source.path, recursive=True), key=lambda found: str(found.path)):
        path = target / status.path.removeprefix(f"{source.path}/")
        if status.isdir:
            path.mkdir()
            continue
        file = client.read(status.path)
        path.write_bytes(file.read_range(0, len(file)))
    return target


def mount_table(hdfs: Hdfs) -> dict[str, str]:
    """The configuration in which `viewed` names lead to HDFS."""
    return {"fs.viewfs.mounttable.view.link./some/where": f"{hdfs.uri}/tests"}


def viewed(place: Location) -> str:
    """The name that a location on HDFS has by the mount table."""
    return _VIEW + place.path.removeprefix("/tests")


def names(hdfs: Hdfs, place: Location) -> list[str]:
    """The entries of a directory."""
    return sorted(status.path.rpartition("/")[2] for status in hdfs.client().list_status(place.path))
