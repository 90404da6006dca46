"""What opens the store of a location, in the driver and in tasks: the one place that knows how each kind is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from acidlib.errors import RefusedError
from acidlib.model.location import HDFS, LOCAL, Location, local_location, parse_location
from acidlib.orc.source import DataFiles
from acidlib.storage.datafiles import LocalDataFiles
from acidlib.storage.filesystem import FileSystem, RenameFileSystem
from acidlib.storage.hdfs.configuration import default_authority
from acidlib.storage.hdfs.files import HdfsDataFiles
from acidlib.storage.hdfs.filesystem import HdfsFileSystem
from acidlib.storage.local import LocalFileSystem
from acidlib.storage.rename_store import RenameStore
from acidlib.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Opens stores. It may be pickled: what is open stays behind.

    configuration  Hadoop's properties, as core-site.xml, hdfs-site.xml and Spark tell them
    """

    configuration: Mapping[str, str] = field(default_factory=dict)

    def locate(self, uri: str) -> Location:
        """The location of a URI or a bare path, which is local; RefusedError for one that cannot be opened.

        Symbolic links in a local path itself are resolved here, once, so that everything below can refuse them.
        """
        return _resolved(self._named(uri))

    def locate_below(self, uri: str, above: str) -> Location:
        """As `locate`, for a location that may be named below another one: then it has to lie there.

        Anybody who may write to the table may make a partition's directory. Raises `RefusedError` where a symbolic link
        between the two leads elsewhere; a location that is named elsewhere is taken by its name.
        """
        found = self.locate(uri)
        try:
            root = _normal(self._named(above))
        except RefusedError:
            return found  # that one lies in a store that we cannot open
        named = _normal(self._named(uri))
        if root.holds(named) and found.path != _resolved(root).path + named.path[len(root.path) :]:
            raise RefusedError(f"Cannot use {named}: because a symbolic link below {root} leads from there to {found}")
        return found

    def fs(self, location: Location) -> FileSystem:
        """What reads and removes there."""
        return self._renaming(location)

    def store(self, location: Location) -> Store:
        """What publishes there."""
        return RenameStore(self._renaming(location))

    def data(self, location: Location) -> DataFiles:
        """What opens and creates data files there, for one task."""
        if location.kind == HDFS:
            return HdfsDataFiles(location.authority, self.configuration)
        self._renaming(location)
        return LocalDataFiles()

    def _named(self, uri: str) -> Location:
        found = parse_location(uri)
        if found.kind == HDFS and not found.authority:
            return replace(found, authority=default_authority(self.configuration))
        if found.kind != LOCAL:
            self._renaming(found)
            return found
        path = found.path if found.path.startswith("/") else str(Path(found.path).expanduser().absolute())
        return local_location(path)

    def _renaming(self, location: Location) -> RenameFileSystem:
        if location.kind == HDFS:
            return HdfsFileSystem(location.authority, self.configuration)
        if location.kind != LOCAL:
            raise RefusedError(f"Cannot open {location}: because a client for {location.scheme}: is not built yet")
        return LocalFileSystem()


def _normal(location: Location) -> Location:
    return local_location(os.path.normpath(location.path)) if location.kind == LOCAL else location


def _resolved(location: Location) -> Location:
    return local_location(os.path.realpath(location.path)) if location.kind == LOCAL else location
