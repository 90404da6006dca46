"""Types of columns, as files of ORC and metastores of Hive write them: `struct<a:int,b:decimal(10,2)>`."""

from __future__ import annotations

from dataclasses import dataclass

from acidlib.errors import CorruptError


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A type: its kind in lower case, the numbers in brackets, the types in it, and for a struct their names."""

    kind: str
    numbers: tuple[int, ...] = ()
    inner: tuple[ColumnType, ...] = ()
    names: tuple[str, ...] = ()


EMPTY_ROW = ColumnType(kind="struct")


def parse_type(text: str) -> ColumnType:
    """The type that a text describes; CorruptError where it is none. Names may stand in backticks."""
    parser = _Parser(text)
    found = parser.type()
    parser.expect_end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> ColumnType:
        start = self._at
        while self._at < len(self._text) and (self._text[self._at].isalnum() or self._text[self._at] in "_ "):
            self._at += 1
        kind = self._text[start : self._at].strip().lower()
        if not kind:
            raise self._wrong()
        numbers: tuple[int, ...] = ()
        if self._take("("):
            end = self._text.find(")", self._at)
            if end < 0:
                raise self._wrong()
            numbers = tuple(int(number) for number in self._text[self._at : end].split(","))
            self._at = end + 1
        if not self._take("<"):
            return ColumnType(kind=kind, numbers=numbers)
        inner: list[ColumnType] = []
        names: list[str] = []
        while not self._take(">"):
            if inner and not self._take(","):
                raise self._wrong()
            if kind == "struct":
                names.append(self._name())
            inner.append(self.type())
        return ColumnType(kind=kind, inner=tuple(inner), names=tuple(names))

    def expect_end(self) -> None:
        if self._text[self._at :].strip():
            raise self._wrong()

    def _name(self) -> str:
        if self._take("`"):
            name = ""
            while True:
                end = self._text.find("`", self._at)
                if end < 0:
                    raise self._wrong()
                name += self._text[self._at : end]
                self._at = end + 1
                if not self._take("`"):  # two of them stand for one
                    break
                name += "`"
        else:
            end = self._text.find(":", self._at)
            if end < 0:
                raise self._wrong()
            name = self._text[self._at : end]
            self._at = end
        if not self._take(":"):
            raise self._wrong()
        return name

    def _take(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += 1
            return True
        return False

    def _wrong(self) -> CorruptError:
        return CorruptError(f"Cannot verify: because the type {self._text!r} is not understood at {self._at}")
