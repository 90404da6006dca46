"""Two facts that follow from names alone: the order of original files, and the highest write id there is."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

from acidlib.model.generation import Generation
from acidlib.model.listing import Listing
from acidlib.model.names import LONG_MIN, BaseDir, parse_directory


def highest_write_id(listing: Listing, generation: Generation) -> int:
    """The highest write id in the name of a listed directory, 0 without one.

    The mark for "everything is committed" has to be fixed at this when the inputs are listed: with an open end it would
    take in whatever is written later.
    """
    names = [parse_directory(path, generation) for path in listing.top_directories()]
    ids = [name.write_id if isinstance(name, BaseDir) else name.max_write_id for name in names if name is not None]
    return max((write_id for write_id in ids if write_id != LONG_MIN), default=0)


def uri_order(path: str) -> bytes:
    """A sort key that orders relative paths as Hive does (`Path.compareTo`: Java's order of quoted URI paths).

    Row ids of original files follow from this order, so it is as much a contract as the files' contents.
    """
    quoted = "".join(_quoted(char) for char in path)
    return quoted.encode("utf-16-be", "surrogatepass")


def _quoted(char: str) -> str:
    if ord(char) < 0x80:
        return quote(char, safe="_-!.~'()*;:@&=+$,/")
    return quote(char) if unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc") else char
