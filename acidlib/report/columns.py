"""The schemas of results as Arrow tables: a row for each entry of a list, and a column for each of its fields."""

import enum
from dataclasses import fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def schema_of(kind: type) -> pa.Schema:
    """Return the columns of entries of a type."""
    return pa.schema(_columns(kind))


def _columns(kind: Any) -> list[tuple[str, pa.DataType]]:
    """Return the columns of a dataclass, in the order of its fields."""
    hints = get_type_hints(kind)
    return [(field.name, _type(hints[field.name])) for field in fields(kind)]


def _type(hint: Any) -> pa.DataType:
    """Return the type of a column whose values have a type of Python; all columns may be null."""
    if hint in _TYPES:
        return _TYPES[hint]
    inner = [part for part in get_args(hint) if part not in (NoneType, Ellipsis)]
    if get_origin(hint) is tuple:
        return pa.list_(_type(inner[0]))
    if get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return pa.string()
    if inner:  # None, or a value
        return _type(inner[0])
    return pa.struct(_columns(hint))
