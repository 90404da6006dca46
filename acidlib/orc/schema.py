"""The type tree of an ORC file, and that of a row within it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.proto import Kind, Type

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
_LOWER_FIELDS = tuple(name.lower() for name in ACID_FIELDS)
_ACID_KINDS = (Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.STRUCT)
ROW_COLUMN = 6
"""Column id of the `row` struct: the root is 0, the five id columns are 1 to 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeNode:
    """One node of a type tree. `column` is its pre-order id, which is what streams and statistics refer to."""

    column: int
    kind: Kind
    children: tuple[TypeNode, ...] = ()
    field_names: tuple[str, ...] = ()
    maximum_length: int = 0
    precision: int = 0
    scale: int = 0
    attributes: tuple[tuple[str, str], ...] = ()

    def walk(self) -> Iterator[TypeNode]:
        """This node and all below it, in column order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def columns(self) -> int:
        """Number of columns of this subtree."""
        return 1 + sum(child.columns for child in self.children)

    def __str__(self) -> str:
        name = self.kind.name.lower()
        if self.kind is Kind.STRUCT:
            inner = ",".join(f"{n}:{c}" for n, c in zip(self.field_names, self.children, strict=True))
            return f"struct<{inner}>"
        if self.kind in (Kind.CHAR, Kind.VARCHAR):
            return f"{name}({self.maximum_length})"
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.children:
            return f"{name}<{','.join(str(c) for c in self.children)}>"
        return name


_KNOWN: dict[tuple[bytes, ...], TypeNode] = {}
_MOST_KNOWN = 16
"""Schemas that are kept; that of thousands of columns is some megabytes."""


def parse_types(types: Any, *, where: str) -> TypeNode:
    """The tree behind a footer's flat list of types; the files of a table mostly have the same one.

    Raises CorruptError for ids that are not a pre-order tree, RefusedError for a kind this version does not know.
    """
    if not types:
        raise CorruptError(f"Cannot read the schema of {where}: because its footer has no types")
    as_stored = tuple(message.SerializeToString() for message in types)
    known = _KNOWN.get(as_stored)
    if known is None:
        known = _tree(types, where)
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[as_stored] = known
    return known


def _tree(types: Any, where: str) -> TypeNode:
    seen = 0

    def build(column: int, depth: int) -> TypeNode:
        nonlocal seen
        if column != seen or column >= len(types) or depth > 200:
            raise CorruptError(f"Cannot read the schema of {where}: because type {column} is not in pre-order")
        seen += 1
        message = types[column]
        try:
            kind = Kind(message.kind)
        except ValueError:
            raise RefusedError(
                f"Cannot read column {column} of {where}: because type kind {message.kind} is not known"
            ) from None
        children = tuple(build(child, depth + 1) for child in message.subtypes)
        if (
            (kind is Kind.LIST and len(children) != 1)
            or (kind is Kind.MAP and len(children) != 2)
            or (kind is Kind.STRUCT and len(children) != len(message.field_names))
            or (children and kind not in (Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION))
        ):
            raise CorruptError(f"Cannot read the schema of {where}: because type {column} has the wrong children")
        # what is no UTF-8 comes as bytes
        texts = [*message.field_names, *(text for pair in message.attributes for text in (pair.key, pair.value))]
        if not all(isinstance(text, str) for text in texts):
            raise CorruptError(f"Cannot read the schema of {where}: because a name in type {column} is not UTF-8")
        return TypeNode(
            column=column,
            kind=kind,
            children=children,
            field_names=tuple(message.field_names),
            maximum_length=message.maximum_length,
            precision=message.precision,
            scale=message.scale,
            attributes=tuple((pair.key, pair.value) for pair in message.attributes),
        )

    root = build(0, 0)
    if seen != len(types):
        raise CorruptError(
            f"Cannot read the schema of {where}: because {len(types) - seen} types belong to no other type"
        )
    return root


def format_types(root: TypeNode) -> list[Any]:
    """The footer's flat list for a tree, attributes kept."""
    messages = []
    for node in root.walk():
        message = Type(kind=int(node.kind))
        message.subtypes.extend(child.column for child in node.children)
        message.field_names.extend(node.field_names)
        if node.kind in (Kind.CHAR, Kind.VARCHAR):
            message.maximum_length = node.maximum_length
        if node.kind is Kind.DECIMAL:
            message.precision = node.precision
            message.scale = node.scale
        for key, value in node.attributes:
            message.attributes.add(key=key, value=value)
        messages.append(message)
    return messages


def is_acid(root: TypeNode) -> bool:
    """Whether the tree is that of an ACID event file (Hive OrcRawRecordMerger / AcidUtils raw-format test).

    Names are compared without case: Hive 4's query-based compaction writes `originaltransaction`.
    """
    if len(root.children) != len(_ACID_KINDS) or tuple(child.kind for child in root.children) != _ACID_KINDS:
        return False
    return root.field_names == ACID_FIELDS or tuple(name.lower() for name in root.field_names) == _LOWER_FIELDS


def renumber(node: TypeNode, first: int) -> TypeNode:
    """The same subtree with pre-order ids that start at `first`."""
    children = []
    column = first + 1
    for child in node.children:
        moved = renumber(child, column)
        children.append(moved)
        column += moved.columns
    return TypeNode(
        column=first,
        kind=node.kind,
        children=tuple(children),
        field_names=node.field_names,
        maximum_length=node.maximum_length,
        precision=node.precision,
        scale=node.scale,
        attributes=node.attributes,
    )


def acid_tree(row: TypeNode) -> TypeNode:
    """The ACID event tree around a row struct, in Hive's standard spelling."""
    ids = tuple(TypeNode(column=i + 1, kind=kind) for i, kind in enumerate(_ACID_KINDS[:5]))
    return TypeNode(column=0, kind=Kind.STRUCT, children=(*ids, renumber(row, ROW_COLUMN)), field_names=ACID_FIELDS)


def row_struct(root: TypeNode) -> TypeNode:
    """The user's columns: the `row` field of an ACID tree, or the root itself of an original file."""
    return root.children[5] if is_acid(root) else root
