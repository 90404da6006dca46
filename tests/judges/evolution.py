"""Which column of a file is which column of the table: the rules of ORC's ``SchemaEvolution``, in plain Python.

The same in ORC 1.5.8 (inside Hive 3.1.3) and 1.8.5 (inside Hive 4.0.1); proved against both in
``tests/conformance/test_columns_of_files.py``.

- Each file is decided for itself, from the fields of its row: those of ``row`` in an ACID file, those of the root in an
  original file. What is inside them does not matter.
- By position: where ``orc.force.positional.evolution`` is true (Hive 4 sets it unless told otherwise, Hive 3.1 does
  not), or where every field of the row is called ``_col`` and a number, in lower case. One other name among them, and
  the file is read by name.
- By position only the columns of the row are taken. The fields of a struct inside a column are always found by name.
- By name: the field of the file that has the same name, with the same case
  (``orc.schema.evolution.case.sensitive`` is true unless somebody sets it). Without one the value is null; what the
  table does not have is not read.
- Lists, maps and unions are matched child by child, with as many variants of a union.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyorc
from pyorc import TypeKind

_NO_NAME = re.compile(r"_col\d+")
_WHOLE = {TypeKind.BYTE: 8, TypeKind.SHORT: 16, TypeKind.INT: 32, TypeKind.LONG: 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table, and whether its readers take those of a file by position."""

    types: Mapping[str, str]
    by_position: bool = False

    def read(self, row: Any, file_kind: Any) -> Any:
        """A row in canonical form as the table has it; ``file_kind`` is the row's struct in the file, of pyorc."""
        table_kind = kind_of(self.types)
        by_position = self.by_position or all(_NO_NAME.fullmatch(name) for name in file_kind.fields)
        return _struct(row, file_kind, table_kind, by_position=by_position)


def kind_of(types: Mapping[str, str]) -> Any:
    """The struct of some columns, as pyorc has it."""
    return pyorc.TypeDescription.from_string(struct_text(types))


def struct_text(types: Mapping[str, str]) -> str:
    """``struct<a:int,b:string>``."""
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in types.items())}>"


def _struct(value: Any, file_kind: Any, table_kind: Any, *, by_position: bool) -> Any:
    file_kinds, names = list(file_kind.fields.values()), list(file_kind.fields)
    found = []
    for place, (name, kind) in enumerate(table_kind.fields.items()):
        if by_position:
            source = place if place < len(names) else None
        else:
            source = names.index(name) if name in names else None
        found.append(None if source is None else _value(value[source], file_kinds[source], kind))
    return tuple(found)


def _value(value: Any, file_kind: Any, kind: Any) -> Any:
    if value is None:
        return None
    if file_kind.kind != kind.kind:
        return _converted(value, file_kind.kind, kind.kind)
    if kind.kind is TypeKind.STRUCT:
        return _struct(value, file_kind, kind, by_position=False)
    if kind.kind is TypeKind.LIST:
        return tuple(_value(item, file_kind.type, kind.type) for item in value)
    if kind.kind is TypeKind.MAP:
        return tuple((_value(a, file_kind.key, kind.key), _value(b, file_kind.value, kind.value)) for a, b in value)
    if kind.kind is TypeKind.UNION:
        _, tag, inner = value
        return ("u", tag, _value(inner, file_kind.cont_types[tag], kind.cont_types[tag]))
    return value


def _converted(value: Any, old: Any, new: Any) -> Any:
    """Only what tests of columns need; ``tests/conformance/test_conversions.py`` is about the others."""
    if old in _WHOLE and new in _WHOLE:
        bits = _WHOLE[new]
        return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None
    if old in _WHOLE and new is TypeKind.STRING:
        return f"s:{value}"
    if old in _WHOLE and new is TypeKind.DOUBLE:
        return "f:" + struct.pack(">d", float(value)).hex()
    if old is TypeKind.FLOAT and new is TypeKind.DOUBLE:
        return value
    if old is TypeKind.STRING and new in _WHOLE:
        try:
            return _converted(int(value[2:]), TypeKind.LONG, new) if new is not TypeKind.LONG else int(value[2:])
        except ValueError:
            return None
    raise ValueError(f"this reader knows no way from {old} to {new}")
