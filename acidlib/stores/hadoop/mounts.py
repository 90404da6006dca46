"""What lies behind the names of mount tables, `viewfs://table/path`.

A mount table is a part of Hadoop's configuration and nothing else, so no Java is asked: the longest link that a path
lies below wins, then `linkFallback` (Hadoop's InodeTree). Only links by regular expressions, which are Java's, are
Hadoop's to follow. What tables lie below is one directory of one store, so that a rename there is one rename.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from acidlib.errors import RefusedError
from acidlib.model.location import LOCAL, VIEWFS, Location, parse_location

_DEFAULT_FS = "fs.defaultFS"
_TABLES = "fs.viewfs.mounttable."
_SHOWN = 3
_LINK, _FALLBACK, _WHOLE, _COPIES, _REGEX = "link.", "linkFallback", "linkMergeSlash", "linkNfly.", "linkRegex."
_NO_LINKS = ("homedir", "name.key")
"""What a mount table has besides links; the second is a setting whose name looks like one of the table `default`."""


def behind_mounts(
    location: Location, configuration: Mapping[str, str], resolve_in_hadoop: Callable[[str], str]
) -> Location:
    """Where a location of a mount table lies.

    resolve_in_hadoop  gives the URI behind a URI, as Hadoop finds it; asked where the table has links by expressions

    Raises `RefusedError` where there is no link, and for what has links below it: it is not one directory.
    """
    if not location.authority:
        location = replace(location, authority=_default_table(configuration))
    links, has_expressions = _links(location, configuration)
    below = sorted(path for path in links if path and f"{path}/".startswith(f"{location.path}/"))
    if below and below != [location.path]:
        shown = ", ".join(below[:_SHOWN]) + (", …" if len(below) > _SHOWN else "")
        raise RefusedError(
            f"Cannot open {location}: because its mount table has links below it ({shown}): name what is below one"
        )
    found = [path for path in links if f"{location.path}/".startswith(f"{path}/")]
    link = max(found, key=len) if found else None
    if link is not None and links[link] is None:
        raise RefusedError(
            f"Cannot open {location}: because its mount table has it in several places at once ({_COPIES}…)"
        )
    if has_expressions:
        return _target(location, resolve_in_hadoop(str(location)))
    if link is None:
        raise _no_link(location)
    target = _target(location, links[link] or "")
    path = target.path.rstrip("/") + location.path.removeprefix(link)
    return replace(target, path=path or ("/" if target.kind == LOCAL else ""))


def _no_link(location: Location) -> RefusedError:
    return RefusedError(f"Cannot open {location}: because its mount table has no link for it")


def _default_table(configuration: Mapping[str, str]) -> str:
    """The mount table that `viewfs:///path` means."""
    scheme, _, rest = configuration.get(_DEFAULT_FS, "").partition("://")
    authority = rest.partition("/")[0]
    if scheme.lower() == VIEWFS and authority:
        return authority
    return configuration.get(f"{_TABLES}default.name.key", "default")


def _links(location: Location, configuration: Mapping[str, str]) -> tuple[dict[str, str | None], bool]:
    """Paths without a slash at their end, so the root is empty, and what they are linked to; None: several places.

    And whether there are links by regular expressions, which come first.
    """
    table = f"{_TABLES}{location.authority}."
    links: dict[str, str | None] = {}
    has_expressions = False
    for key, target in configuration.items():
        entry = key.removeprefix(table)
        if entry == key or entry in _NO_LINKS:
            continue
        if entry in (_FALLBACK, _WHOLE):
            links[""] = target
        elif entry.startswith(f"{_LINK}/"):
            links[entry.removeprefix(_LINK).rstrip("/")] = target
        elif entry.startswith(_COPIES) and "/" in entry:
            links[entry[entry.index("/") :].rstrip("/")] = None
        elif entry.startswith(_REGEX):
            has_expressions = True
        else:
            raise RefusedError(f"Cannot open {location}: because {key} is not supported in its mount table")
    if not links and not has_expressions:
        raise RefusedError(f"Cannot open {location}: because Hadoop's configuration has no mount table of that name")
    return links, has_expressions


def _target(location: Location, uri: str) -> Location:
    try:
        target = parse_location(uri)
    except RefusedError as error:
        raise RefusedError(f"Cannot open {location}: because it is linked to {uri}: {error}") from error
    if target == location:  # as Hadoop has directories that are in a mount table alone
        raise _no_link(location)
    if target.kind == VIEWFS:
        raise RefusedError(f"Cannot open {location}: because it is linked to {uri}, another mount table")
    return target
