"""The text form in which the metastore's database keeps maps of strings.

Source: Hive `StringableMap`: the number of entries and a colon, then for each string
its length, a colon and the string, with nothing between. Lengths count UTF-16 units, as Java's do; -1 is a null.
"""

from __future__ import annotations

from collections.abc import Mapping

from acidlib.errors import RefusedError


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
    return "-1:" if value is None else f"{len(_units(value)) // 2}:{value}"


def _units(value: str) -> bytes:
    return value.encode("utf-16-le", "surrogatepass")


def _start(text: str) -> tuple[int, _Reader]:
    reader = _Reader(text)
    count = reader.number()
    if count < 0 or count > len(text):
        raise RefusedError(f"Cannot read {text!r}: because its number of entries, {count}, is impossible")
    return count, reader


class _Reader:
    """Reads numbers and strings off the UTF-16 units of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._data = _units(text)
        self._at = 0

    def number(self) -> int:
        # a colon inside the UTF-16 units of two other characters is none
        end = self._data.find(b":\0", self._at)
        while end >= 0 and end % 2:
            end = self._data.find(b":\0", end + 1)
        digits = self._data[self._at : end].decode("utf-16-le", "surrogatepass") if end >= 0 else ""
        if digits != "-1" and not (digits.isascii() and digits.isdigit()):
            raise self._error("there is no length")
        self._at = end + 2
        return int(digits)

    def string(self) -> str | None:
        length = self.number()
        if length < 0:
            return None
        end = self._at + 2 * length
        if end > len(self._data):
            raise self._error("a string is cut off")
        value = self._data[self._at : end].decode("utf-16-le", "surrogatepass")
        self._at = end
        return value

    def finish(self) -> None:
        if self._at != len(self._data):
            raise self._error("something follows the last entry")

    def _error(self, what: str) -> RefusedError:
        return RefusedError(f"Cannot read {self._text!r}: because {what} at character {self._at // 2}")
