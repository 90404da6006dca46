"""The text form in which the metastore's database keeps maps of strings.

Source: Hive `StringableMap`: the number of entries and a colon, then for each string
its length, a colon and the string, with nothing between. Lengths count UTF-16 units, as Java's do; -1 is a null.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping

from acidlib.errors import RefusedError

_NATIVE = f"utf-16-{sys.byteorder[0]}e"


def format_map(entries: Mapping[str | None, str | None]) -> str:
    """The text of a map, in the map's own order; an empty map is `0:`."""
    return f"{len(entries)}:" + "".join(_string(part) for entry in entries.items() for part in entry)


def parse_map(text: str) -> dict[str | None, str | None]:
    """The map of a text; raises RefusedError, naming the text and the place, when it does not parse."""
    count, reader = _start(text)
    result = {reader.string(): reader.string() for _ in range(count)}
    reader.finish()
    return result


def _string(value: str | None) -> str:
    if value is None:
        return "-1:"
    return f"{len(value) if value.isascii() else len(_units(value)) // 2}:{value}"


def _units(value: str) -> bytes:
    return value.encode("utf-16-le", "surrogatepass")


def _start(text: str) -> tuple[int, _Reader]:
    reader = _Reader(text)
    count = reader.number()
    if count < 0 or count > len(text):
        raise RefusedError(f"Cannot read {text!r}: because its number of entries, {count}, is impossible")
    return count, reader


class _Reader:
    """Reads numbers and strings off a text in which each character is one UTF-16 unit."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._units = text if text.isascii() else "".join(map(chr, array("H", text.encode(_NATIVE, "surrogatepass"))))
        self._at = 0

    def number(self) -> int:
        end = self._units.find(":", self._at)
        digits = self._units[self._at : end] if end >= 0 else ""
        if digits != "-1" and not (digits.isascii() and digits.isdigit()):
            raise self._error("there is no length")
        self._at = end + 1
        return int(digits)

    def string(self) -> str | None:
        length = self.number()
        if length < 0:
            return None
        end = self._at + length
        if end > len(self._units):
            raise self._error("a string is cut off")
        value = self._units[self._at : end]
        self._at = end
        return value if value.isascii() else _units(value).decode("utf-16-le", "surrogatepass")

    def finish(self) -> None:
        if self._at != len(self._units):
            raise self._error("something follows the last entry")

    def _error(self, what: str) -> RefusedError:
        return RefusedError(f"Cannot read {self._text!r}: because {what} at character {self._at}")
