"""Reading the documents that lie in a place beside its data: records, claims and markers.

Each user who may write to a table can write one of any contents. Whatever is wrong with it is the error of its place,
and ends nothing else.
"""

from __future__ import annotations

import json
from typing import Any

from acidlib.errors import AcidError, CorruptError
from acidlib.stores.filesystem import FileSystem, require_small

_MAX_NUMBER_DIGITS = 19
"""Digits of the largest write id, length or time, which have 64 bits."""


def read_document(fs: FileSystem, path: str, *, missing: type[AcidError] = CorruptError) -> Any:
    """Return the JSON document in a control file; CorruptError where it holds none, or is no regular, small file."""
    return parse_document(fs.read(path, missing=missing), path)


def parse_document(data: bytes, path: str) -> Any:
    """Return the JSON document that was read at a path; CorruptError where there is none.

    A number has at most the digits of 64 bits, and no value is nested deeper than the parser's own limit.
    """
    require_small(path, len(data))
    try:
        return json.loads(data, parse_int=_number, parse_float=_fraction, parse_constant=_constant)
    except (ValueError, RecursionError, OverflowError, MemoryError) as error:
        why = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise CorruptError(f"Cannot read {path}: it is not a JSON document ({why})") from error


def _number(text: str) -> int:
    if len(text.lstrip("-")) > _MAX_NUMBER_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _fraction(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number beyond all others")
    return value


def _constant(text: str) -> float:
    raise ValueError(f"the number {text}")
