"""Locations of tables and partitions: the store, and the path in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from acidlib.errors import RefusedError
from acidlib.masking import masked_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """A kind of store, with what tells its locations from others.

    schemes          of its URIs; the first is the one that is stored
    authority        what the part of the URI before its path names
    has_default      the configuration names one where the authority is empty
    not_in_it        characters that no authority has, as a user, password or key would stand there
    form             that an authority has which may have an @; None = any other
    keys_are         where the user and the keys are stated instead
    has_directories  a directory is there although nothing lies below it
    may_be_absent    what is missing may lie on a disk that is not mounted
    """

    name: str
    schemes: tuple[str, ...]
    authority: str = "a host or name service"
    has_default: bool = True
    not_in_it: str = "@"
    form: re.Pattern[str] | None = None
    keys_are: str = "it takes a host or name service"
    has_directories: bool = True
    may_be_absent: bool = False

    def __str__(self) -> str:
        return self.name


LOCAL = StoreKind(name="local", schemes=("file",), may_be_absent=True)
HDFS = StoreKind(name="hdfs", schemes=("hdfs",))
VIEWFS = StoreKind(name="viewfs", schemes=("viewfs",))
S3 = StoreKind(
    name="s3",
    schemes=("s3a", "s3", "s3n"),
    authority="bucket",
    has_default=False,
    not_in_it="@:",
    keys_are="keys of S3 stand in Hadoop's configuration",
    has_directories=False,
)
ABFS = StoreKind(
    name="abfs",
    schemes=("abfss", "abfs"),
    authority="container and account, as in abfss://container@account.dfs.core.windows.net/path",
    has_default=False,
    not_in_it="",
    form=re.compile(r"(?!.*--)(?:\$root|[a-z0-9][a-z0-9-]{1,61}[a-z0-9])@[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?"),
    keys_are="it takes container@account.dfs.core.windows.net; keys stand in Hadoop's configuration",
)
GCS = StoreKind(
    name="gcs",
    schemes=("gs",),
    authority="bucket",
    has_default=False,
    not_in_it="@:",
    keys_are="credentials of Google Cloud Storage stand in Hadoop's configuration",
    has_directories=False,
)
OZONE = StoreKind(name="ozone", schemes=("ofs", "o3fs"))
KINDS = {scheme: kind for kind in (LOCAL, HDFS, VIEWFS, S3, GCS, ABFS, OZONE) for scheme in kind.schemes}
"""Kinds of stores by the schemes of URIs."""

_OTHERS = {
    "webhdfs": "HDFS over HTTP",
    "wasb": "Azure Blob Storage, which renames no directories,",
    "wasbs": "Azure Blob Storage, which renames no directories,",
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


@dataclass(frozen=True, slots=True)
class Location:
    """A directory of one store; `str` gives its text: a bare path for local disks, else a URI.

    kind       of the store
    authority  host and port or name service of HDFS, the bucket of S3, container@host of Azure; empty for local disks
    path       absolute, with forward slashes, none at the end: the root of a store is "/" locally, else ""
    scheme     as it was given; schemes of one kind name the same store
    root       on local disks, the part of the path that is trusted, links in it included: the table, or the warehouse
               in which the table was found. Any user who may write to the table makes the rest. Empty: the whole path
    identity   tells its directory from another one of that name, see `stores.renaming.tree`; empty where not known
    """

    kind: StoreKind
    authority: str
    path: str
    scheme: str = field(compare=False)
    root: str = field(default="", compare=False)
    identity: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Raise `RefusedError` for an authority with a user, a password or a key: locations are shown and stored."""
        form = self.kind.form
        is_wrong = form is not None and not form.fullmatch(self.authority)
        if is_wrong or any(sign in self.authority for sign in self.kind.not_in_it):
            raise RefusedError(
                f"Cannot open {masked_uri(str(self))}: a user or key before the host is not taken; {self.kind.keys_are}"
            )

    def __str__(self) -> str:
        return self.path if self.kind == LOCAL else f"{self.scheme}://{self.authority}{self.path}"

    @property
    def name(self) -> str:
        """The last component of the path; empty for a root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory above; that of a root is the root itself."""
        above = self.path.rpartition("/")[0] or ("/" if self.kind == LOCAL else "")
        return Location(self.kind, self.authority, above, self.scheme, self.root if above.startswith(self.root) else "")

    @property
    def is_root(self) -> bool:
        """Whether the location is the root of its store."""
        return self.path in ("", "/")

    def child(self, relative: str) -> Location:
        """Return the location of a relative path below this one."""
        path = f"{self.path.rstrip('/')}/{relative}"
        return Location(self.kind, self.authority, path, self.scheme, self.root or self.path)

    def holds(self, other: Location) -> bool:
        """Return whether another location is this one, or lies below it."""
        same_store = (self.kind, self.authority) == (other.kind, other.authority)
        return same_store and f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")

    @property
    def stored_text(self) -> str:
        """The text to store and compare: the same for all schemes of one kind of store."""
        return str(self if self.kind == LOCAL else replace(self, scheme=self.kind.schemes[0]))


NOWHERE = Location(LOCAL, "", "", "file")
"""The location of a table that has none, or an unknown one."""


def local_location(path: str, *, root: str = "", identity: str = "") -> Location:
    """Return the location of an absolute path on local disks."""
    return Location(LOCAL, "", path, "file", root, identity)


def parse_location(uri: str) -> Location:
    """Return the location of a URI, or of a bare path of local disks; RefusedError for a text that names none.

    As in Hadoop's Path, nothing is percent-decoded: the `%3A` of an escaped partition directory stays as it is, and a
    `?` or `#` is part of the name. `file:/a`, `file:///a` and `file://localhost/a` mean the same. The authority of HDFS
    and of mount tables may be empty, for the default. A local path is returned as given; `Stores` makes it absolute.
    """
    shown = masked_uri(uri)
    match = _SCHEME.match(uri)
    scheme = "file" if match is None else match[1].lower()
    kind = KINDS.get(scheme)
    if kind is None:
        known = _OTHERS.get(scheme)
        why = f"the scheme {scheme!r} is unknown" if known is None else f"{known} is not supported"
        raise RefusedError(
            f"Cannot open {shown}: {why}; give a local path or a file:, hdfs:, viewfs:, ofs:, s3a: or abfss: URI"
        )
    rest = uri if match is None else uri[match.end() :]
    authority = ""
    if match is not None and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    if not uri or "\0" in uri or (kind == LOCAL and not rest):
        raise RefusedError(f"Cannot open {shown!r}: it names no path")
    if kind == LOCAL:
        if authority not in ("", "localhost"):
            raise RefusedError(f"Cannot open {shown}: a file: URI names this machine only, not {authority!r}")
        if match is not None and not rest.startswith("/"):
            raise RefusedError(f"Cannot open {shown}: a file: URI needs an absolute path")
        return Location(kind, "", rest, scheme)
    if rest and not rest.startswith("/"):
        raise RefusedError(f"Cannot open {shown}: a {scheme}: URI needs an absolute path")
    if not authority and not kind.has_default:
        raise RefusedError(f"Cannot open {shown}: it names no {kind.authority}")
    parts = [part for part in rest.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise RefusedError(f"Cannot open {shown}: a path with . or .. is not taken")
    return Location(kind, authority, "".join(f"/{part}" for part in parts), scheme)
