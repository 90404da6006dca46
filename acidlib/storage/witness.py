"""A file that shows whether a place is still the same table, and not one of that name that was created since.

Without a metastore nothing else shows that a request was made for the table before: its list of committed write ids,
and what it knows to be published, would be applied to rows that it was not made for.
"""

from __future__ import annotations

import json

from acidlib.errors import ConflictError
from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing, has_hidden_part
from acidlib.model.location import Location
from acidlib.model.names import ORC_ACID_VERSION_FILE, SIDE_FILE_SUFFIX, BaseDir, parse_directory
from acidlib.storage.filesystem import FileSystem


def witness_of(listing: Listing, high_water_mark: int, generation: Generation) -> str:
    """The newest data file up to the mark, as text; empty where there is none. No writer changes it any more."""
    files = (file for file in listing.files if _lasts(file, generation, high_water_mark))
    newest = max(files, key=lambda file: (file.modified, file.path), default=None)
    return "" if newest is None else _text(newest.path, newest.length, newest.modified)


def witness_in(fs: FileSystem, location: Location, directory: str) -> str:
    """The version file in a directory that was just published, as text; ConflictError when it was removed."""
    path = f"{directory}/{ORC_ACID_VERSION_FILE}"
    entry = fs.entry(f"{location}/{path}", missing=ConflictError)
    return _text(path, entry.length, entry.modified)


def is_there(fs: FileSystem, location: Location, witness: str) -> bool:
    """Whether the file is still the same one: path, length and time of modification. True of an empty text."""
    if not witness:
        return True
    try:
        path = str(json.loads(witness)[0])
        entry = fs.entry(f"{location}/{path}", missing=ConflictError)
    except ConflictError:
        return False
    return _text(path, entry.length, entry.modified) == witness


def _lasts(file: ListedFile, generation: Generation, mark: int) -> bool:
    if has_hidden_part(file.path) or file.name.endswith(SIDE_FILE_SUFFIX):
        return False
    name = parse_directory(file.path.partition("/")[0], generation)
    return name is None or (name.write_id if isinstance(name, BaseDir) else name.max_write_id) <= mark


def _text(path: str, length: int, modified: float) -> str:
    return json.dumps([path, length, modified])
