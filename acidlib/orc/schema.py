"""The type tree of an ORC file, and the tree of Hive's text of a row's type (`struct<a:int,b:array<decimal(10,2)>>`).

Source of the texts: Hive `TypeInfoUtils.TypeInfoParser`, and `OrcInputFormat.convertTypeInfo` for the types that ORC
can hold. More texts are accepted than there: blanks around a word are ignored (as in Hive 4), and so is the case of a
type's name; a field's name may be in backquotes, as ORC writes it (a backquote in it is doubled), or hold anything but
backquotes, blanks at its ends and `<>(),:;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.proto import Kind, Type
from acidlib.wording import brief

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
_LOWER_FIELDS = tuple(name.lower() for name in ACID_FIELDS)
_ACID_KINDS = (Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.STRUCT)
ROW_COLUMN = 6
"""Column id of the `row` struct: the root is 0, the five id columns are 1 to 5."""

_SIMPLE = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.BYTE,
    "smallint": Kind.SHORT,
    "int": Kind.INT,
    "bigint": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "timestamp": Kind.TIMESTAMP,
    "timestamp with local time zone": Kind.TIMESTAMP_INSTANT,
    "date": Kind.DATE,
}
_MAX_CHARACTERS = {"char": (Kind.CHAR, 255), "varchar": (Kind.VARCHAR, 65_535)}
_NESTED = {
    "array": (Kind.LIST, 1),
    "map": (Kind.MAP, 2),
    "uniontype": (Kind.UNION, None),
    "struct": (Kind.STRUCT, None),
}
_SIMPLE_NAMES = {kind: name for name, kind in _SIMPLE.items()}
_NESTED_NAMES = {kind: name for name, (kind, _) in _NESTED.items()}
_NOT_IN_ORC = frozenset({"void", "interval_year_month", "interval_day_time", "unknown"})
_MAX_DIGITS, _DIGITS, _SCALE = 38, 10, 0
_DEEPEST = 200

MAX_SHOWN_CHARACTERS = 1000
"""Bytes of the columns of a file in a message."""

MAX_COLUMNS = 100_000
"""Columns of a file, those of nested types too, that are read. A tree of so many takes 60 MB and two seconds."""

_TYPE_NAME = re.compile(r"\s*([a-z_0-9 ]*[a-z_0-9])\s*", re.IGNORECASE | re.ASCII)
_PARAMETERS = re.compile(r"\(([^()]*)\)\s*")
_COLUMN_NAME = re.compile(r"\s*(`(?:[^`]|``)+`|[^<>(),:;`\s]+)\s")
_COMMENT = re.compile(r"\s+comment\s+'(?:[^'\\]|\\.)*'", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
_FIELD_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^<>(),:;`]*[^<>(),:;`\s]))\s*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeNode:
    """A node of a type tree. `column` is its pre-order id, to which streams and statistics refer."""

    column: int
    kind: Kind
    children: tuple[TypeNode, ...] = ()
    field_names: tuple[str, ...] = ()
    maximum_length: int = 0
    precision: int = 0
    scale: int = 0
    attributes: tuple[tuple[str, str], ...] = ()

    def walk(self) -> Iterator[TypeNode]:
        """Yield this node and all below it, in column order."""
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
_MAX_KNOWN_TYPES = 16
_MAX_KNOWN_CHARACTERS = 10_000
"""Schemas that are kept, and columns of the largest of them, whose tree takes 6 MB."""


def parse_types(types: Any, *, where: str) -> TypeNode:
    """Return the tree of a footer's flat list of types; for an equal list, as the files of a table have, the same tree.

    Raises CorruptError for ids that are not a pre-order tree, RefusedError for an unknown kind.
    """
    if not types:
        raise CorruptError(f"Cannot read the schema of {where}: its footer has no types")
    if len(types) > MAX_COLUMNS:
        raise RefusedError(f"Cannot read {where}: it has {len(types):,} columns, more than {MAX_COLUMNS:,}")
    as_stored = tuple(message.SerializeToString() for message in types)
    known = _KNOWN.get(as_stored)
    if known is None:
        known = _tree(types, where)
        if len(_KNOWN) >= _MAX_KNOWN_TYPES:
            _KNOWN.clear()
        if len(types) <= _MAX_KNOWN_CHARACTERS:
            _KNOWN[as_stored] = known
    return known


def _tree(types: Any, where: str) -> TypeNode:
    seen = 0

    def build(column: int, depth: int) -> TypeNode:
        nonlocal seen
        if depth > _DEEPEST:
            raise RefusedError(f"Cannot read the schema of {where}: its types are nested deeper than {_DEEPEST}")
        if column != seen or column >= len(types):
            raise CorruptError(f"Cannot read the schema of {where}: type {column} is not in pre-order")
        seen += 1
        message = types[column]
        try:
            kind = Kind(message.kind)
        except ValueError:
            raise RefusedError(
                f"Cannot read column {column} of {where}: type kind {message.kind} is not known"
            ) from None
        children = tuple(build(child, depth + 1) for child in message.subtypes)
        if (
            (kind is Kind.LIST and len(children) != 1)
            or (kind is Kind.MAP and len(children) != 2)
            or (kind is Kind.STRUCT and len(children) != len(message.field_names))
            or max(len(message.field_names), len(message.attributes)) > MAX_COLUMNS
            or (children and kind not in (Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION))
        ):
            raise CorruptError(f"Cannot read the schema of {where}: type {column} has the wrong children")
        # protobuf gives bytes that are not UTF-8
        texts = [*message.field_names, *(text for pair in message.attributes for text in (pair.key, pair.value))]
        if not all(isinstance(text, str) for text in texts):
            raise CorruptError(f"Cannot read the schema of {where}: a name in type {column} is not UTF-8")
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
        raise CorruptError(f"Cannot read the schema of {where}: {len(types) - seen} types belong to no other type")
    return root


def shown(node: TypeNode) -> str:
    """Return the text of a type for a message: of one of many columns the beginning, the rest counted."""
    return brief(str(node), MAX_SHOWN_CHARACTERS)


def format_types(root: TypeNode) -> list[Any]:
    """Return a tree as the flat list of a footer, with its attributes."""
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
    """Return whether the tree is that of an ACID event file (Hive OrcRawRecordMerger / AcidUtils raw-format test).

    Names are compared without case: Hive 4's query-based compaction writes `originaltransaction`.
    """
    kinds = tuple(child.kind for child in root.children)
    return kinds == _ACID_KINDS and tuple(name.lower() for name in root.field_names) == _LOWER_FIELDS


def renumber(node: TypeNode, first: int) -> TypeNode:
    """Return the same subtree with pre-order ids that start at `first`."""
    children = []
    column = first + 1
    for child in node.children:
        moved = renumber(child, column)
        children.append(moved)
        column += moved.columns
    return replace(node, column=first, children=tuple(children))


def acid_tree(row: TypeNode) -> TypeNode:
    """Return the ACID event tree around a row struct, in Hive's standard spelling."""
    ids = tuple(TypeNode(column=i + 1, kind=kind) for i, kind in enumerate(_ACID_KINDS[:5]))
    return TypeNode(column=0, kind=Kind.STRUCT, children=(*ids, renumber(row, ROW_COLUMN)), field_names=ACID_FIELDS)


def row_struct(root: TypeNode) -> TypeNode:
    """Return the user's columns: the `row` field of an ACID tree, or the root itself of an original file."""
    return root.children[5] if is_acid(root) else root


def parse_row_type(text: str, *, where: str) -> TypeNode:
    """Return the tree of a table's row, whose root is a struct with column id 0. `where`: a table or file, for errors.

    Raises RefusedError, naming the column, for a type that ORC cannot hold and for a text that is no type.
    """
    parser = _Parser(text, where)
    root = parser.type("row", 0)
    if not parser.ended() or root.kind is not Kind.STRUCT:
        raise parser.misunderstood("row")
    return root


def hive_type(node: TypeNode) -> str:
    """Return Hive's text of a type, which `parse_row_type` reads; field names with odd characters are in backquotes."""
    if node.kind is Kind.STRUCT:
        fields = zip(node.field_names, node.children, strict=True)
        return f"struct<{','.join(f'{_quoted(name)}:{hive_type(child)}' for name, child in fields)}>"
    if node.kind in _NESTED_NAMES:
        return f"{_NESTED_NAMES[node.kind]}<{','.join(map(hive_type, node.children))}>"
    return _SIMPLE_NAMES.get(node.kind) or str(node)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def row_type_of_columns(text: str, *, where: str) -> str:
    """Return the text of a row's type for columns in DDL, `a int, b struct<x:int> COMMENT '...'`.

    Raises RefusedError for a name that occurs twice, in any case, and as `parse_row_type` does.
    """
    parser = _Parser(_COMMENT.sub("", text), where)
    columns = parser.columns()
    names = [name.strip("`").lower() for name, _ in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RefusedError(f"Cannot read {where}: its column {twice} is stated twice")
    return f"struct<{','.join(f'{name}:{column_type}' for name, column_type in columns)}>"


class _Parser:
    """A parser that reads the text once and numbers columns in the order in which their types begin."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._at = 0
        self._column = 0

    def type(self, path: str, depth: int) -> TypeNode:
        """Return the type that begins here, with all below it."""
        word = _TYPE_NAME.match(self._text, self._at)
        if word is None or depth > _DEEPEST:
            raise self.misunderstood(path)
        name = " ".join(word[1].lower().split())
        column, self._column = self._column, self._column + 1
        if name in _NOT_IN_ORC:
            raise RefusedError(f"Cannot read {self._where}: ORC cannot hold its column {path} of type {name}")
        if name not in _NESTED:
            return self._primitive(name, word.end(), column, path)
        self._at = word.end()
        kind, count = _NESTED[name]
        names: list[str] = []
        children: list[TypeNode] = []
        self._expect("<", path)
        is_empty = kind is Kind.STRUCT and self._take(">")
        while not is_empty and (not children or self._take(",")):
            below = str(len(children))
            if kind is Kind.STRUCT:
                field = _FIELD_NAME.match(self._text, self._at)
                if field is None:
                    raise self.misunderstood(path)
                self._at = field.end()
                below = field[2] if field[1] is None else field[1].replace("``", "`")
                names.append(below)
            children.append(self.type(f"{path}.{below}", depth + 1))
        if not is_empty:
            self._expect(">", path)
        if count not in (None, len(children)):
            raise self.misunderstood(path)
        return TypeNode(column=column, kind=kind, children=tuple(children), field_names=tuple(names))

    def columns(self) -> list[tuple[str, str]]:
        """Return the names and types of a list of columns like `a int, b string`, as they are written."""
        columns: list[tuple[str, str]] = []
        while not columns or self._take(","):
            name = _COLUMN_NAME.match(self._text, self._at)
            if name is None:
                raise self.misunderstood("row")
            self._at = start = name.end()
            self.type(f"row.{name[1]}", 1)
            columns.append((name[1], self._text[start : self._at].strip()))
        if not self.ended():
            raise self.misunderstood(f"row.{columns[-1][0]}")
        return columns

    def _primitive(self, name: str, end: int, column: int, path: str) -> TypeNode:
        """Return the type of this name, whose parameters, if it has any, begin at `end`."""
        brackets = _PARAMETERS.match(self._text, end)
        parameters = [part.strip() for part in brackets[1].split(",")] if brackets else []
        if name in _SIMPLE:
            # parameters such as a zone or a precision are ignored, as in Hive
            node = TypeNode(column=column, kind=_SIMPLE[name])
        elif name in _MAX_CHARACTERS:
            kind, longest = _MAX_CHARACTERS[name]
            (length,) = self._numbers(parameters, 1, path) or (0,)
            if not 1 <= length <= longest:
                raise self.misunderstood(path)
            node = TypeNode(column=column, kind=kind, maximum_length=length)
        elif name == "decimal":
            numbers = self._numbers(parameters, 2, path)
            # without parameters a decimal has ten digits, like columns from before Hive 0.13
            precision, scale = (*numbers, *(_DIGITS, _SCALE)[len(numbers) :])
            if not 1 <= precision <= _MAX_DIGITS or scale > precision:
                raise self.misunderstood(path)
            node = TypeNode(column=column, kind=Kind.DECIMAL, precision=precision, scale=scale)
        else:
            raise self.misunderstood(path)
        self._at = brackets.end() if brackets else end
        return node

    def _numbers(self, parameters: list[str], most: int, path: str) -> tuple[int, ...]:
        if len(parameters) > most or not all(re.fullmatch("[0-9]{1,9}", number) for number in parameters):
            raise self.misunderstood(path)
        return tuple(map(int, parameters))

    def ended(self) -> bool:
        """Return whether only blanks remain."""
        return not self._text[self._at :].strip()

    def _take(self, sign: str) -> bool:
        """Step over a sign and the blanks after it; return False where another sign follows."""
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return True

    def _expect(self, sign: str, path: str) -> None:
        if not self._take(sign):
            raise self.misunderstood(path)

    def misunderstood(self, path: str) -> RefusedError:
        """Return the error for a text that is no type from here on."""
        rest = self._text[self._at :]
        shown = f"{rest[:60]}…" if len(rest) > 60 else rest
        return RefusedError(
            f"Cannot read {self._where}: the type of its column {path} is not understood from {shown!r} on"
        )
