"""Where paths lie on HDFS: as `hdfs:` URIs say, or the mount table of a `viewfs:` one, which is read here.

A mount table is a part of Hadoop's configuration and nothing else, so no Java is asked: the longest link that a path
lies below wins, then `linkFallback` (Hadoop's InodeTree). What tables lie below is one directory of one name node or
name service, so that a rename there is one rename.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acidlib.errors import RefusedError
from acidlib.model.location import HDFS, Location, parse_location
from acidlib.storage.hdfs.configuration import DEFAULT_FS, IMPLEMENTATION, default_authority

_TABLES = "fs.viewfs.mounttable."
_SHOWN = 3
_LINK, _FALLBACK, _WHOLE = "link.", "linkFallback", "linkMergeSlash"
_NO_LINKS = ("homedir", "name.key")
"""What a mount table has besides links; the second is a setting whose name looks like one of the table `default`."""


@dataclass(frozen=True, slots=True)
class Mount:
    """What paths of one kind begin with, and where that is.

    name       `hdfs://authority` or `viewfs://table/link`, without a slash at its end
    authority  of the name node or name service
    path       there; empty for its root
    """

    name: str
    authority: str
    path: str

    def inside(self, path: str) -> str:
        """A path as the name node has it. Raises `RefusedError` for one that does not begin so."""
        rest = path.removeprefix(self.name)
        if rest == path or rest[:1] not in ("", "/") or "\0" in rest:
            raise RefusedError(f"Cannot open {path!r}: because it does not name something on {self.name}")
        return (self.path + rest).rstrip("/") or "/"

    def outside(self, path: str) -> str:
        """The reverse of `inside`."""
        return self.name + path.removeprefix(self.path)


def plain_mount(authority: str) -> Mount:
    """The whole of a name node or name service, by its own name."""
    return Mount(f"hdfs://{authority}", authority, "")


def mount_of(location: Location, configuration: Mapping[str, str]) -> Mount:
    """The mount that a location of HDFS or of a mount table lies below.

    Raises `RefusedError` where there is none, and for what has links below it: it is not one directory.
    """
    if location.kind == HDFS:
        _require_no_view(location, configuration)
        return plain_mount(location.authority)
    links = _links(location, configuration)
    below = sorted(path for path in links if path and f"{path}/".startswith(f"{location.path}/"))
    if below and below != [location.path]:
        shown = ", ".join(below[:_SHOWN]) + (", …" if len(below) > _SHOWN else "")
        raise RefusedError(
            f"Cannot open {location}: because its mount table has links below it ({shown}): name what is below one"
        )
    found = [path for path in links if f"{location.path}/".startswith(f"{path}/")]
    if not found:
        raise RefusedError(f"Cannot open {location}: because its mount table has no link for it")
    link = max(found, key=len)
    target = _target(location, links[link], configuration)
    return Mount(f"{location.scheme}://{location.authority}{link}", target.authority, target.path)


def default_table(configuration: Mapping[str, str]) -> str:
    """The mount table that `viewfs:///path` means."""
    scheme, _, rest = configuration.get(DEFAULT_FS, "").partition("://")
    authority = rest.partition("/")[0]
    if scheme.lower() == "viewfs" and authority:
        return authority
    return configuration.get(f"{_TABLES}default.name.key", "default")


def _require_no_view(location: Location, configuration: Mapping[str, str]) -> None:
    """`RefusedError` where Hadoop has a mount table for hdfs: URIs, too (ViewFileSystemOverloadScheme)."""
    name = configuration.get(IMPLEMENTATION, "").rpartition(".")[2]
    if name.startswith("View"):
        raise RefusedError(f"Cannot open {location}: because {IMPLEMENTATION} is {name}: hdfs: is a mount table there")


def _links(location: Location, configuration: Mapping[str, str]) -> dict[str, str]:
    """Paths without a slash at their end, so the root is empty, and what they are linked to."""
    table = f"{_TABLES}{location.authority}."
    links: dict[str, str] = {}
    for key, target in configuration.items():
        entry = key.removeprefix(table)
        if entry == key or entry in _NO_LINKS:
            continue
        if entry in (_FALLBACK, _WHOLE):
            links[""] = target
        elif entry.startswith(f"{_LINK}/"):
            links[entry.removeprefix(_LINK).rstrip("/")] = target
        else:
            raise RefusedError(f"Cannot open {location}: because {key} is not supported in its mount table")
    if not links:
        raise RefusedError(f"Cannot open {location}: because Hadoop's configuration has no mount table of that name")
    return links


def _target(location: Location, uri: str, configuration: Mapping[str, str]) -> Location:
    try:
        target = parse_location(uri)
    except RefusedError as error:
        raise RefusedError(f"Cannot open {location}: because it is linked to {uri}: {error}") from error
    if target.kind != HDFS:
        raise RefusedError(
            f"Cannot open {location}: because its mount table links it to {uri}, and only links to hdfs: are supported"
        )
    authority = target.authority or default_authority(configuration)
    return Location(target.kind, authority, target.path, target.scheme)
