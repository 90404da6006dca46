"""Reading the documents that lie in a place beside its data: records, claims and markers.

Each user who may write to a table can write one of any contents. Whatever is wrong with it is the error of its place,
and ends nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec

from acidlib.errors import AcidError, CorruptError
from acidlib.stores.filesystem import FileSystem, require_small


def read_document(fs: FileSystem, path: str, *, missing: type[AcidError] = CorruptError) -> Any:
    """Return the JSON document in a control file; CorruptError where it holds none, or is no regular, small file."""
    return parse_document(fs.read(path, missing=missing), path)


def parse_document(data: bytes, path: str) -> Any:
    """Return the JSON document that was read at a path; CorruptError where there is none.

    The parser bounds the depth of values and the digits of numbers, and takes no number that is not finite.
    """
    require_small(path, len(data))
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise CorruptError(f"Cannot read {path}: it is not a JSON document ({why})") from error
