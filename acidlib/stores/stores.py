"""Opening the store of a location, in the driver and in tasks: the only module that knows each kind of store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from acidlib.config.files import absolute_path
from acidlib.errors import RefusedError
from acidlib.location import (
    ABFS,
    GCS,
    HDFS,
    LOCAL,
    OZONE,
    S3,
    VIEWFS,
    Location,
    StoreKind,
    local_location,
    parse_location,
)
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.tables import is_partition_directory
from acidlib.stores.filesystem import FileSystem, UnreachableServers
from acidlib.stores.hadoop import Hadoop, HandedTokens, JavaSecrets, resolve_viewfs
from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem, HdfsStore
from acidlib.stores.renaming.hdfs_client import IMPLEMENTATION, about_hdfs, default_authority, whole_authority
from acidlib.stores.renaming.local import LocalDataFiles, LocalFileSystem
from acidlib.stores.renaming.ozone import OzoneDataFiles, OzoneFileSystem, OzoneStore
from acidlib.stores.renaming.ozone_client import PARTS_OF_PATHS, httpfs_of, whole_location
from acidlib.stores.renaming.ozone_client import PROPERTIES as OZONE_PROPERTIES
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.renaming.tree import OpenTrees
from acidlib.stores.store import Store, TaskFiles

PROPERTIES = (
    *(
        "fs.defaultFS",
        "fs.hdfs.impl",
        "fs.permissions.umask-mode",
        "fs.azure.",
        "fs.gs.",
        "fs.s3a.",
        "fs.viewfs.mounttable.",
        "dfs.",
        "google.cloud.",
    ),
    "hadoop.security.",
    *OZONE_PROPERTIES,
)
"""How the names of Hadoop's properties begin that stores read."""


class KeyFiles:
    """Contents of files with keys, by their paths; never printed. Pickled it has those that were read: for tasks."""

    def __init__(self, contents: Mapping[str, str] | None = None) -> None:
        """`contents` are those that are known."""
        self._contents = dict(contents or {})

    def __reduce__(self) -> tuple[type[KeyFiles], tuple[dict[str, str]]]:
        return KeyFiles, (self._contents,)

    def read(self, path: str) -> str:
        """Return the contents of a file of this machine, or as the driver has read it; RefusedError where it fails."""
        if path not in self._contents:
            try:
                self._contents[path] = absolute_path(path.removeprefix("file://")).read_text()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no text"
                raise RefusedError(f"Cannot read the key in {path}: {reason}") from error
        return self._contents[path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Opens stores. It may be pickled: open connections stay behind.

    configuration  Hadoop's properties, out of core-site.xml, hdfs-site.xml and Spark's configuration; never printed,
                   as keys of buckets may be among them
    unreachable    the servers that were waited for in vain
    hadoop         Hadoop itself, for mount tables that nothing else can follow; the driver's alone
    secrets        Hadoop's credential providers, where keys of buckets may be
    tokens         delegation tokens, by which tasks log in to name nodes that ask for Kerberos
    key_files      the files of keys that the configuration names, which the driver hands to tasks
    memory         that a task may take for what it decodes of a file
    trees          the places on local disks that are in use
    """

    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)
    unreachable: UnreachableServers = field(default_factory=UnreachableServers, compare=False, repr=False)
    hadoop: Hadoop = field(default_factory=Hadoop, compare=False, repr=False)
    secrets: JavaSecrets = field(default_factory=JavaSecrets, compare=False, repr=False)
    tokens: HandedTokens = field(default_factory=HandedTokens, compare=False, repr=False)
    key_files: KeyFiles = field(default_factory=KeyFiles, compare=False, repr=False)
    memory: Memory = DEFAULT_MEMORY
    trees: OpenTrees = field(default_factory=OpenTrees, compare=False, repr=False)

    def locate(self, uri: str) -> Location:
        """Return the location of a URI or a bare path, which is local; RefusedError for one that cannot be opened.

        Symbolic links in a local path are resolved here, once, so that everything below can refuse them; but not those
        in `key=value` directories at its end, which are partitions: a user who writes to the table makes them. Names
        of mount tables are resolved, too: a place with several names has one here, in the queue and in results.
        """
        location = self._opened_by(uri)
        if location.kind != LOCAL:
            return location
        above = location = local_location(location.path.rstrip("/") or "/")
        while is_partition_directory(above.name):
            above = above.parent
        return _resolved(location, above)

    def named(self, uri: str) -> Location:
        """Return the location by its name alone: no mount table is asked, no store opened.

        RefusedError for a URI that names no location, or one of a kind that has no store here.
        """
        return self._whole(parse_location(uri))

    def locate_below(self, uri: str, above: str) -> Location:
        """Locate a URI that may be named below another one: then it has to lie there.

        Every user who may write to the table may make a partition's directory: a symbolic link between the two is not
        followed. A location that is named elsewhere is taken by its name.
        """
        try:
            root = _normal(self._opened_by(above))
        except RefusedError:
            return self.locate(uri)  # the other one lies in a store that cannot be opened here
        named = _normal(self._opened_by(uri))
        return _resolved(named, root) if root.holds(named) else self.locate(uri)

    def _opened_by(self, uri: str) -> Location:
        """Return the location by its name, or its target in a mount table, in a store that can be opened."""
        location = parse_location(uri)
        if location.kind == VIEWFS:
            location = resolve_viewfs(
                location, self.configuration, lambda uri: self.hadoop.resolve(uri, self.unreachable)
            )
        location = self._whole(location)
        if location.kind != LOCAL:
            self.store(location)  # raises now, not only when the place is used
        return location

    def _whole(self, location: Location) -> Location:
        """Return a location with the authority that is left out, and as an absolute path."""
        if location.kind == HDFS:
            authority = location.authority or default_authority(self.configuration)
            return replace(location, authority=whole_authority(authority, self.configuration))
        if location.kind == OZONE:
            return whole_location(location, self.configuration)
        if location.kind != LOCAL:
            return location
        path = location.path
        return local_location(path if path.startswith("/") else str(absolute_path(path)))

    def fs(self, location: Location) -> FileSystem:
        """Return the file system that reads and removes there."""
        return self.store(location).fs

    def store(self, location: Location) -> Store:
        """Return the store that publishes there."""
        return self._open(location).store

    def data(self, location: Location) -> TaskFiles:
        """Return the data files there, which one task opens and creates."""
        return self._open(location).data

    def is_top(self, location: Location) -> bool:
        """Tell whether no place of its store lies above: at a root, a mounted disk, the first in a bucket of Ozone."""
        if location.kind == OZONE:
            return location.path.count("/") <= PARTS_OF_PATHS
        return location.is_root or (location.kind == LOCAL and os.path.ismount(location.path))

    def _open(self, location: Location) -> OpenStore:
        opened_by = _OPENED_BY.get(location.kind)
        if opened_by is None:
            raise RefusedError(f"Cannot open {location}: it is a name in a mount table, not the location behind it")
        return opened_by(self, location)


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store as it is opened for a location: where it publishes, and the data files of one task."""

    store: Store
    data: TaskFiles


def _on_disks(stores: Stores, location: Location) -> OpenStore:
    tree = stores.trees.of(location)
    return OpenStore(RenameStore(LocalFileSystem(tree)), LocalDataFiles(tree, stores.memory))


def _in_hdfs(stores: Stores, location: Location) -> OpenStore:
    overloaded = stores.configuration.get(IMPLEMENTATION, "").rpartition(".")[2]
    if overloaded.startswith("View"):  # ViewFileSystemOverloadScheme
        raise RefusedError(f"Cannot open {location}: {IMPLEMENTATION} is {overloaded}: hdfs: is a mount table there")
    stores.tokens.use(location.authority)
    about = about_hdfs(stores.configuration)
    fs = HdfsFileSystem(location.authority, about, stores.unreachable, place=location.path)
    return OpenStore(HdfsStore(fs), HdfsDataFiles(location.authority, about, stores.memory))


def _in_ozone(stores: Stores, location: Location) -> OpenStore:
    server = httpfs_of(location, stores.configuration)
    fs = OzoneFileSystem(server, stores.unreachable)
    return OpenStore(OzoneStore(fs), OzoneDataFiles(server, stores.memory))


@contextmanager
def _packages_of(extra: str, location: Location) -> Iterator[None]:
    """Guard imports that an extra brings; RefusedError names it where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise RefusedError(
            f"Cannot open {location}: {error.name} is not installed; pip install 'acidlib[{extra}]' brings it"
        ) from error


def _in_bucket(stores: Stores, location: Location) -> OpenStore:
    """Open a bucket; RefusedError where its client is not installed, or does not understand its settings."""
    with _packages_of("s3", location):
        from acidlib.stores.buckets.files import BucketDataFiles
        from acidlib.stores.buckets.store import BucketStore
        from acidlib.stores.s3.bucket import S3Bucket
        from acidlib.stores.s3.client import s3_options, with_stored_keys
    properties = with_stored_keys(location.authority, stores.configuration, stores.secrets.passwords)
    bucket = S3Bucket(s3_options(location.authority, properties), stores.unreachable)
    return OpenStore(BucketStore(bucket), BucketDataFiles(bucket, stores.memory))


def _in_gcs_bucket(stores: Stores, location: Location) -> OpenStore:
    """Open a bucket; RefusedError where its client is not installed, or does not understand its settings."""
    with _packages_of("gcs", location):
        from acidlib.stores.buckets.files import BucketDataFiles
        from acidlib.stores.buckets.store import BucketStore
        from acidlib.stores.gcs.bucket import GcsBucket
        from acidlib.stores.gcs.options import gcs_options, with_stored_credentials
    properties = with_stored_credentials(stores.configuration, stores.secrets.passwords)
    options = gcs_options(location.authority, properties, stores.key_files.read)
    bucket = GcsBucket(options, stores.unreachable)
    return OpenStore(BucketStore(bucket), BucketDataFiles(bucket, stores.memory))


def _in_container(stores: Stores, location: Location) -> OpenStore:
    """Open a container; RefusedError where its client is not installed, or does not understand its settings."""
    with _packages_of("azure", location):
        from acidlib.stores.renaming.abfs import AbfsDataFiles, AbfsStore
        from acidlib.stores.renaming.abfs_client import Container, container_options, with_stored_secrets
    properties = with_stored_secrets(location.authority, stores.configuration, stores.secrets.passwords)
    container = Container(container_options(location.authority, properties), stores.unreachable)
    data = AbfsDataFiles(container, stores.memory, place=location.path)
    return OpenStore(AbfsStore(container, place=location.path), data)


_OPENED_BY: Mapping[StoreKind, Callable[[Stores, Location], OpenStore]] = {
    LOCAL: _on_disks,
    HDFS: _in_hdfs,
    S3: _in_bucket,
    GCS: _in_gcs_bucket,
    ABFS: _in_container,
    OZONE: _in_ozone,
}
"""Opens a location of each kind of store."""


def _normal(location: Location) -> Location:
    """Return a local location with one slash between components, and without `.` and `..`."""
    return location if location.kind != LOCAL else local_location("/" + os.path.normpath(location.path).lstrip("/"))


def _resolved(location: Location, root: Location) -> Location:
    """Return a location whose trusted part, the path of `root`, has its symbolic links resolved."""
    if location.kind != LOCAL:
        return location
    trusted = os.path.realpath(root.path)
    return local_location(trusted.rstrip("/") + location.path[len(root.path.rstrip("/")) :] or "/", root=trusted)
