"""Tables in any store, looked at and copied by clients that are not the engine's."""

from __future__ import annotations

import shutil
from pathlib import Path

import hdfs_tables
import s3_tables
from servers.hdfs import Hdfs
from servers.s3 import S3Server

from acidlib.location import HDFS, S3, Location


class StoreTables:
    """What lies on this machine's disks, in one HDFS and on one server of S3."""

    def __init__(self, hdfs: Hdfs, s3: S3Server) -> None:
        """Connects when it is used."""
        self._hdfs = hdfs
        self._s3 = s3

    def new_directory(self, kind: str) -> str:
        """Makes an empty one of HDFS, or a bucket; its URI."""
        return self._hdfs.new_directory() if kind == HDFS else f"s3a://{self._s3.new_bucket()}"

    def uploaded(self, source: Path, kind: str, name: str) -> Location:
        """A copy of a directory, below a new one of HDFS or in a new bucket."""
        if kind == HDFS:
            return hdfs_tables.uploaded(self._hdfs, source, name)
        return s3_tables.uploaded(self._s3, source, name)

    def names(self, place: Location) -> list[str]:
        """The entries of a directory, hidden ones included."""
        if place.kind == HDFS:
            return hdfs_tables.names(self._hdfs, place)
        if place.kind == S3:
            return s3_tables.names(self._s3, place)
        return sorted(path.name for path in Path(place.path).iterdir())

    def downloaded(self, place: Location, target: Path) -> Path:
        """A copy on this machine's disks of what lies at a location; what was there before goes."""
        if place.kind == HDFS:
            return hdfs_tables.downloaded(self._hdfs, place, target)
        if place.kind == S3:
            return s3_tables.downloaded(self._s3, place, target)
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(place.path, target))
