"""One listing of a location as a value, with the contents of its few small marker files, and a table's identity file.

The identity file shows whether a place is still the same table, and not another of that name that was created since.
Without a metastore nothing else shows that a request was made for the earlier table: its list of committed write ids,
and its published directories, would be applied to rows that it was not made for.
"""

from __future__ import annotations

import json
import struct
import time
from collections import Counter
from dataclasses import replace

from acidlib.acid.listing import ListedFile, Listing, has_hidden_part
from acidlib.acid.names import (
    BASE_PREFIX,
    METADATA_ACID_FILE,
    ORC_ACID_VERSION_FILE,
    SIDE_FILE_SUFFIX,
    BaseDir,
    Names,
    parse_directory,
)
from acidlib.errors import AcidError, ConflictError, CorruptError
from acidlib.location import Location
from acidlib.stores.control_files import parse_document
from acidlib.stores.filesystem import Entry, FileSystem
from acidlib.stores.renaming.claims import TRIES_TO_CLAIM
from acidlib.stores.store import STAGING_PREFIX

_LONG = struct.Struct(">q")
_VANISHINGS = 2 * TRIES_TO_CLAIM
_MAX_VANISHINGS = 10 * _VANISHINGS
"""Of any names: without an end each writer of a table could keep a run at it, by making and removing files."""
_MAX_SECONDS = 600.0
"""After which a place is not listed again: a hundred listings of a million files take hours."""
_FORMATS = frozenset({"compacted", "truncated", "dropped"})

UNFINISHED_FORMAT = "publishing"
"""The `dataFormat` of a base that is being published where its files cannot become visible at once."""


def list_location(
    fs: FileSystem, location: Location, *, without_unfinished: bool = False, missing: type[AcidError] = CorruptError
) -> Listing:
    """List a table's or partition's location recursively, once.

    The location of the result has the identity of the directory, where the store knows it: what is done by this listing
    is done there. Hidden directories are named but not entered: a run at work in its staging directory does not disturb
    the listing. The `_metadata_acid` of bases is read. When one is replaced meanwhile, or a directory removed by a
    cleaner, everything is listed again, since this listing would mix two states. Raises `missing` when the location is
    not there, `ConflictError` for a directory that is named and never there, or where names vanish without end,
    `RefusedError` for a symbolic link below it, `CorruptError` for a damaged `_metadata_acid`.

    `CorruptError`, too, for a base from which a dead run keeps readers until all of it is there, or else, with
    `without_unfinished`, that base is left out: for a first look, by a run that finishes it before it lists again.
    """
    modified = fs.names_changed(str(location), missing=missing)
    location = replace(location, identity=fs.identity(str(location), missing=missing))
    entries, formats = _listed(fs, location, missing, without_unfinished=without_unfinished)
    entries = tuple(entry for entry in entries if formats.get(entry.path.partition("/")[0]) != UNFINISHED_FORMAT)
    return Listing(
        location=location,
        modified=modified,
        files=tuple(
            ListedFile(path=entry.path, length=entry.length, modified=entry.modified)
            for entry in entries
            if not entry.is_directory
        ),
        directories=tuple(entry.path for entry in entries if entry.is_directory),
        compacted_bases=frozenset(base for base, data_format in formats.items() if data_format == "compacted"),
    )


def _listed(
    fs: FileSystem, location: Location, missing: type[AcidError], *, without_unfinished: bool
) -> tuple[tuple[Entry, ...], dict[str, str]]:
    """Return the entries below a location, and the `_base_formats` among them."""
    vanished: Counter[str] = Counter()
    begun = time.monotonic()
    while True:
        try:
            entries = fs.list_tree(str(location), enter_hidden=False, missing=missing)
            # with its staging gone no run finishes it, and people have to know
            leave_out = without_unfinished and any(entry.path.startswith(STAGING_PREFIX) for entry in entries)
            return entries, _base_formats(fs, location, entries, may_be_unfinished=leave_out)
        except ConflictError as error:
            # a directory that was removed is not named again, but a run that tries to claim the place makes and removes
            # the same one a few times
            vanished[str(error)] += 1
            too_often = vanished[str(error)] == _VANISHINGS or vanished.total() == _MAX_VANISHINGS
            if too_often or time.monotonic() - begun >= _MAX_SECONDS:
                raise


def _base_formats(
    fs: FileSystem, location: Location, entries: tuple[Entry, ...], *, may_be_unfinished: bool
) -> dict[str, str]:
    """Return the `dataFormat` of each base with a `_metadata_acid`."""
    lengths = {entry.path: entry.length for entry in entries if not entry.is_directory}
    formats = {}
    for entry in entries:
        if not entry.is_directory or "/" in entry.path or not entry.path.startswith(BASE_PREFIX):
            continue
        path = f"{entry.path}/{METADATA_ACID_FILE}"
        if path in lengths:
            formats[entry.path] = _data_format(
                fs, f"{location}/{path}", length=lengths[path], may_be_unfinished=may_be_unfinished
            )
    return formats


def _data_format(fs: FileSystem, path: str, *, length: int, may_be_unfinished: bool) -> str:
    """Return the `dataFormat` of a `_metadata_acid` file, in lower case: compacted, truncated, dropped or ours.

    It is read after the listing, which may lack files of a base that was opened to readers meanwhile. What opens it has
    another length than what kept it closed: ConflictError for another length than the listed one.

    Source: Hive AcidUtils.MetaDataFile, which fails on any other value; so does this (`CorruptError`), because a base
    whose kind is not known may not be read as one that readers see.
    """
    data = fs.read(path, missing=ConflictError)
    if len(data) != length:
        raise ConflictError(f"Cannot read {path}: it was replaced after it was listed")
    document = parse_document(data, path)
    value = document.get("dataFormat") if isinstance(document, dict) else None
    if value == UNFINISHED_FORMAT and may_be_unfinished:
        return UNFINISHED_FORMAT
    if value == UNFINISHED_FORMAT:
        raise CorruptError(
            f"Cannot read {path}: the base is still being published, and readers fail at it until a run on "
            "this place finishes it. If no staging directory (_tmp_...) is left there, none can: while all its "
            "inputs are still there, remove the base"
        )
    if not isinstance(value, str) or value.lower() not in _FORMATS:
        raise CorruptError(f"Cannot read {path}: its dataFormat is {value!r}, which is not known")
    version = document.get("thisFileVersion")
    if str(version) != "0":
        raise CorruptError(f"Cannot read {path}: its thisFileVersion is {version!r}, and only 0 is known")
    return value.lower()


def flush_length(fs: FileSystem, path: str, physical_length: int) -> int:
    """Return the logical length in bytes of a data file, from its side file `path` (`bucket_NNNNN_flush_length`).

    Source: Hive OrcAcidUtils.getLastFlushLength: 8-byte big-endian longs, of which the last complete one counts. A
    side file without a complete long, or one that claims more than the file's `physical_length`, is `CorruptError`:
    the physical length would show rows that were never committed.
    """
    data = fs.read(path, missing=ConflictError)
    complete = len(data) // _LONG.size
    if complete == 0:
        raise CorruptError(f"Cannot read {path}: it holds no complete length ({len(data)} bytes)")
    (length,) = _LONG.unpack_from(data, (complete - 1) * _LONG.size)
    if not 0 <= length <= physical_length:
        raise CorruptError(
            f"Cannot read {path}: it gives the length {length} to a data file of {physical_length} bytes"
        )
    return int(length)


def identity_file_of(listing: Listing, high_water_mark: int, names: Names) -> str:
    """Return the newest data file up to the mark, as text; empty without one. No writer changes it any more."""
    files = []
    for file in listing.files:
        if has_hidden_part(file.path) or file.name.endswith(SIDE_FILE_SUFFIX):
            continue
        name = parse_directory(file.path.partition("/")[0], names)
        if name is None or (name.write_id if isinstance(name, BaseDir) else name.max_write_id) <= high_water_mark:
            files.append(file)
    newest = max(files, key=lambda file: (file.modified, file.path), default=None)
    return "" if newest is None else _text(newest.path, newest.length, newest.modified)


def identity_file_in(fs: FileSystem, location: Location, directory: str) -> str:
    """Return the version file in a directory that was just published, as text; ConflictError when it was removed."""
    path = f"{directory}/{ORC_ACID_VERSION_FILE}"
    entry = fs.entry(f"{location}/{path}", missing=ConflictError)
    return _text(path, entry.length, entry.modified)


def is_still_there(fs: FileSystem, location: Location, identity_file: str) -> bool:
    """Tell whether the file is still the same one: path, length and time of modification. True of an empty text."""
    if not identity_file:
        return True
    try:
        path = str(json.loads(identity_file)[0])
        entry = fs.entry(f"{location}/{path}", missing=ConflictError)
    except ConflictError:
        return False
    return _text(path, entry.length, entry.modified) == identity_file


def is_listed(listing: Listing, identity_file: str) -> bool:
    """Tell what `is_still_there` does of a place that has just been listed."""
    if not identity_file:
        return True
    path, length, modified = json.loads(identity_file)
    return ListedFile(path=path, length=length, modified=modified) in listing.files


def _text(path: str, length: int, modified: float) -> str:
    return json.dumps([path, length, modified])
