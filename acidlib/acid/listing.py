"""Recursive listings of places, and the facts that follow from the names in them, as values: nothing here does I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import quote

from acidlib.acid.names import (
    LONG_MIN,
    BaseDir,
    BucketFile,
    Generation,
    Names,
    has_visibility_suffix,
    is_hidden,
    parse_directory,
    parse_file,
)
from acidlib.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """One file: `path` relative to the location (POSIX separators), `length` in bytes, `modified` in epoch seconds."""

    path: str
    length: int
    modified: float

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        """The directory of the file relative to the location; empty for the location itself."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All files and directories under `location`, hidden ones (markers, side files) included.

    directories      relative paths, empty directories included
    compacted_bases  relative paths of base directories whose `_metadata_acid` names the data format `compacted`; the
                     few files are read together with the listing. (Hive 3.1 throws on any other format; Hive 4 also
                     knows `truncated` and `dropped`, and neither of these is a compacted base.)
    modified         epoch seconds at which the location itself was modified, read before the listing; None if unknown
    """

    location: Location
    files: tuple[ListedFile, ...]
    directories: tuple[str, ...] = ()
    compacted_bases: frozenset[str] = frozenset()
    modified: float | None = None

    def by_directory(self) -> Mapping[str, tuple[ListedFile, ...]]:
        """Return the files directly in each directory that has any, in the order of the listing; "" is the location."""
        grouped: dict[str, list[ListedFile]] = {}
        for file in self.files:
            grouped.setdefault(file.directory, []).append(file)
        return {directory: tuple(files) for directory, files in grouped.items()}

    def files_in(self, directory: str) -> tuple[ListedFile, ...]:
        """Return the files directly in one directory; "" is the location."""
        return tuple(file for file in self.files if file.directory == directory)

    def files_under(self, directory: str) -> tuple[ListedFile, ...]:
        """Return the files in a directory and below it."""
        prefix = directory + "/" if directory else ""
        return tuple(file for file in self.files if file.path.startswith(prefix))

    def top_directories(self) -> tuple[str, ...]:
        """Return the names of the directories directly under the location, sorted, hidden ones left out.

        A directory that is known only by a file in it counts (object stores list no empty directories).
        """
        names = {path.partition("/")[0] for path in self.directories}
        names.update(file.path.partition("/")[0] for file in self.files if "/" in file.path)
        return tuple(sorted(name for name in names if name and not is_hidden(name)))

    def without(self, names: Collection[str]) -> Listing:
        """Return the listing without some directories right under the location and everything in them."""
        gone = frozenset(names)
        return replace(
            self,
            files=tuple(file for file in self.files if file.path.partition("/")[0] not in gone),
            directories=tuple(path for path in self.directories if path.partition("/")[0] not in gone),
            compacted_bases=self.compacted_bases - gone,
        )

    def newest_file(self) -> ListedFile | None:
        """Return the visible file that was modified last; None without a visible file."""
        visible = (file for file in self.files if not has_hidden_part(file.path))
        return max(visible, key=lambda file: (file.modified, file.path), default=None)


_HIDDEN_PART = re.compile(r"(?:\A|/)[_.]")  # `is_hidden` of any part
_PATHS_KEPT = 4096
"""Paths in the cache: the function is called often for every file, and the places of a table have the same paths."""


@lru_cache(_PATHS_KEPT)
def has_hidden_part(path: str) -> bool:
    """Return whether a component of a relative path is hidden from readers."""
    return _HIDDEN_PART.search(path) is not None


def detect_generation(listing: Listing) -> tuple[Generation, str]:
    """Return the generation of Hive that wrote a place, where it is not stated, and the reason.

    It is Hive 4 if there is a visibility suffix or a bucket file with an attempt, which Hive 3 cannot read.
    """
    for name in listing.top_directories():
        if has_visibility_suffix(name):
            return Generation.HIVE4, f"{name} has a visibility suffix"
    for file in listing.files:
        parsed = parse_file(file.name)
        if isinstance(parsed, BucketFile) and parsed.attempt is not None and not has_hidden_part(file.path):
            return Generation.HIVE4, f"{file.path} has an attempt suffix"
    return Generation.HIVE3, "nothing there is of Hive 4"


def highest_write_id(listing: Listing, names: Names) -> int:
    """Return the highest write id in the name of a listed directory, 0 without one.

    Where everything is committed, it is the high-water mark at the time of the listing: without a mark, the compaction
    would take in later writes.
    """
    parsed = [parse_directory(path, names) for path in listing.top_directories()]
    ids = [name.write_id if isinstance(name, BaseDir) else name.max_write_id for name in parsed if name is not None]
    return max((write_id for write_id in ids if write_id != LONG_MIN), default=0)


def uri_order(path: str) -> bytes:
    """Return a sort key that orders relative paths as Hive does (`Path.compareTo`: Java's order of quoted URI paths).

    Row ids of original files follow from this order.
    """
    if _AS_IT_IS.fullmatch(path):
        return path.encode("utf-16-be")
    quoted = "".join(_quoted(char) for char in path)
    return quoted.encode("utf-16-be", "surrogatepass")


_UNRESERVED = "_-!.~'()*;:@&=+$,/"
_AS_IT_IS = re.compile(f"[A-Za-z0-9{re.escape(_UNRESERVED)}]*")


def _quoted(char: str) -> str:
    if ord(char) < 0x80:
        return quote(char, safe=_UNRESERVED)
    return quote(char) if unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc") else char
