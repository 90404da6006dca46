"""What opens the store of a location, in the driver and in tasks: the one place that knows how each kind is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from acidlib.errors import RefusedError
from acidlib.model.location import HDFS, LOCAL, S3, VIEWFS, Location, local_location, parse_location
from acidlib.stores.filesystem import FileSystem, RenameFileSystem
from acidlib.stores.hadoop.jvm import Hadoop
from acidlib.stores.hadoop.mounts import behind_mounts
from acidlib.stores.hadoop.secrets import JavaSecrets
from acidlib.stores.hadoop.tokens import HandedTokens
from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem, HdfsStore
from acidlib.stores.renaming.hdfs_client import about_hdfs, default_authority, require_no_view, whole_authority
from acidlib.stores.renaming.local import LocalDataFiles, LocalFileSystem
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.store import Store, TaskFiles
from acidlib.stores.unanswered import Unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What one kind of store consists of."""

    fs: FileSystem
    store: Store
    data: TaskFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Opens stores. It may be pickled: what is open stays behind.

    configuration  Hadoop's properties, as core-site.xml, hdfs-site.xml and Spark tell them
    unanswered     the servers that were waited for in vain
    hadoop         Hadoop itself, for mount tables that nothing else can follow; the driver's alone
    secrets        Hadoop's credential providers, where keys of buckets may be
    tokens         what tasks show to name nodes that ask for Kerberos
    """

    configuration: Mapping[str, str] = field(default_factory=dict)
    unanswered: Unanswered = field(default_factory=Unanswered, compare=False, repr=False)
    hadoop: Hadoop = field(default_factory=Hadoop, compare=False, repr=False)
    secrets: JavaSecrets = field(default_factory=JavaSecrets, compare=False, repr=False)
    tokens: HandedTokens = field(default_factory=HandedTokens, compare=False, repr=False)

    def locate(self, uri: str) -> Location:
        """The location of a URI or a bare path, which is local; RefusedError for one that cannot be opened.

        Symbolic links in a local path itself are resolved here, once, so that everything below can refuse them. So are
        the names of mount tables: what is known by several names has one here, in the queue and in results.
        """
        return _resolved(self._opened_by(uri))

    def named(self, uri: str) -> Location:
        """The location by its name alone: no mount table is asked, no store opened.

        RefusedError for what names no location, or one of a kind that nothing here opens.
        """
        return self._whole(parse_location(uri))

    def locate_below(self, uri: str, above: str) -> Location:
        """As `locate`, for a location that may be named below another one: then it has to lie there.

        Anybody who may write to the table may make a partition's directory. Raises `RefusedError` where a symbolic link
        between the two leads elsewhere; a location that is named elsewhere is taken by its name.
        """
        found = self.locate(uri)
        try:
            root = _normal(self._opened_by(above))
        except RefusedError:
            return found  # that one lies in a store that we cannot open
        named = _normal(self._opened_by(uri))
        if root.holds(named) and found.path != _resolved(root).path + named.path[len(root.path) :]:
            raise RefusedError(f"Cannot use {named}: because a symbolic link below {root} leads from there to {found}")
        return found

    def fs(self, location: Location) -> FileSystem:
        """What reads and removes there."""
        return self._opened(location).fs

    def store(self, location: Location) -> Store:
        """What publishes there."""
        return self._opened(location).store

    def data(self, location: Location) -> TaskFiles:
        """What opens and creates data files there, for one task."""
        return self._opened(location).data

    def _opened_by(self, uri: str) -> Location:
        """The location by its name, or what a mount table has there, in a store that can be opened."""
        found = parse_location(uri)
        if found.kind == VIEWFS:
            found = behind_mounts(found, self.configuration, lambda uri: self.hadoop.resolve(uri, self.unanswered))
        found = self._whole(found)
        if found.kind != LOCAL:
            self._opened(found)  # or what cannot be opened would be noticed late
        return found

    def _whole(self, found: Location) -> Location:
        """With the authority that is left out, and as an absolute path."""
        if found.kind == HDFS:
            authority = found.authority or default_authority(self.configuration)
            return replace(found, authority=whole_authority(authority, self.configuration))
        if found.kind != LOCAL:
            return found
        path = found.path if found.path.startswith("/") else str(Path(found.path).expanduser().absolute())
        return local_location(path)

    def renaming_files(self, location: Location) -> RenameFileSystem:
        """The file system of a store that publishes by renames: local disks and HDFS."""
        return LocalFileSystem() if location.kind == LOCAL else self._hdfs(location)

    def require_conditions(self, location: Location, *, unique: str) -> None:
        """Tries what publication in a bucket rests on, with a hidden object; RefusedError for what it ignores."""
        opened = self._opened(location)
        from acidlib.stores.s3.store import S3Store

        if isinstance(opened.store, S3Store):
            opened.store.require_conditions(location, unique=unique)

    def _hdfs(self, location: Location) -> HdfsFileSystem:
        require_no_view(location, self.configuration)
        self.tokens.use(location.authority)
        return HdfsFileSystem(location.authority, about_hdfs(self.configuration), self.unanswered)

    def _opened(self, location: Location) -> _Opened:
        if location.kind == LOCAL:
            local = LocalFileSystem()
            return _Opened(fs=local, store=RenameStore(local), data=LocalDataFiles())
        if location.kind == HDFS:
            fs, data = self._hdfs(location), HdfsDataFiles(location.authority, about_hdfs(self.configuration))
            return _Opened(fs=fs, store=HdfsStore(fs), data=data)
        if location.kind == S3:
            return self._bucket(location)
        raise RefusedError(f"Cannot open {location}: because it is the name of a mount table, not of what lies behind")

    def _bucket(self, location: Location) -> _Opened:
        """What opens a bucket; RefusedError where its client is not installed, or does not understand its settings."""
        try:
            from acidlib.stores.s3.client import Bucket, bucket_options, with_stored_keys
            from acidlib.stores.s3.data import S3DataFiles
            from acidlib.stores.s3.files import S3FileSystem
            from acidlib.stores.s3.store import S3Store
        except ModuleNotFoundError as error:
            raise RefusedError(
                f"Cannot open {location}: because {error.name} is not installed; pip install 'acidlib[s3]' brings it"
            ) from error
        properties = with_stored_keys(location.authority, self.configuration, self.secrets.passwords)
        bucket = Bucket(bucket_options(location.authority, properties), self.unanswered)
        return _Opened(fs=S3FileSystem(bucket), store=S3Store(bucket), data=S3DataFiles(bucket))


def _normal(location: Location) -> Location:
    return local_location(os.path.normpath(location.path)) if location.kind == LOCAL else location


def _resolved(location: Location) -> Location:
    return local_location(os.path.realpath(location.path)) if location.kind == LOCAL else location
