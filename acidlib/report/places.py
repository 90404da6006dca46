"""The directories of places as their readers see them, as values, text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from acidlib.model.tables import TableRef
from acidlib.report.text import fitted, one_line, wrapped
from acidlib.wording import human_bytes, plural

_MOST_IDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A directory or file at the top of a place; see `SeenPart`.

    files   those that readers take for data
    rows    of these files, before anything is deleted or rolled back; in a delete delta, how many were deleted; None
            where that is not known
    damage  why a file could not be read; None where all could
    """

    path: str
    kind: str
    first_write_id: int | None
    last_write_id: int | None
    reader: str
    why: str
    files: int
    bytes: int
    rows: int | None
    damage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlace:
    """A table or partition, and what is in it.

    hive_version       whose rules hold, 3 or 4
    high_water_mark    the last write id that a reader knows of
    open_write_ids     below it, of transactions that still run
    aborted_write_ids  below it, of those that were rolled back
    error              why a reader can not read the place, or why it cannot be shown
    """

    ref: TableRef
    location: str
    hive_version: int | None = None
    high_water_mark: int | None = None
    open_write_ids: tuple[int, ...] = ()
    aborted_write_ids: tuple[int, ...] = ()
    error: str | None = None
    parts: tuple[ShownPart, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all of it can be read."""
        return self.error is None and not any(part.damage for part in self.parts)

    def lines(self) -> list[str]:
        """For people."""
        found = [one_line(str(self.ref)), *wrapped(self.location, "  ")]
        if self.high_water_mark is not None:
            ids = (
                f"rules of Hive {self.hive_version}; write ids up to {self.high_water_mark:,}"
                f"{_but('open', self.open_write_ids)}{_but('rolled back', self.aborted_write_ids)}"
            )
            found += wrapped(ids, "  ")
        if self.error is not None:
            found += wrapped(self.error, "  ")
        if self.parts:
            rows = [("", "reader", "write ids", "files", "bytes", "rows"), *map(_row, self.parts)]
            lines = fitted(rows, right=(3, 4, 5), indent="  ")
            each = len(lines) // len(rows)
            for number, part in enumerate((None, *self.parts)):
                found += lines[number * each : (number + 1) * each]
                if part is not None:
                    found += wrapped("" if part.reader == "read" else part.why, "      ")
                    found += wrapped(part.damage or "", "      ")
            found.append(f"  {_sum(self.parts)}")
        return found


def places_document(places: Sequence[ShownPlace]) -> dict[str, Any]:
    """What JSON tells of all."""
    return {
        "places": [_document(place) for place in places],
        "totals": {"places": len(places), "damaged": sum(not place.is_whole for place in places)},
    }


def _document(place: ShownPlace) -> dict[str, Any]:
    fields = asdict(place)
    del fields["ref"]
    return place.ref._asdict() | fields


def places_text(places: Sequence[ShownPlace]) -> str:
    """One block for each place."""
    return "\n\n".join("\n".join(place.lines()) for place in places)


def _row(part: ShownPart) -> tuple[str, ...]:
    ids = "" if part.first_write_id is None else f"{part.first_write_id}-{part.last_write_id}"
    rows = "?" if part.rows is None else f"{part.rows:,}"
    if part.reader == "hidden":
        rows = ""
    return one_line(part.path), part.reader, ids, f"{part.files:,}", human_bytes(part.bytes), rows


def _sum(parts: Sequence[ShownPart]) -> str:
    """What a reader reads, and what else lies there."""
    read = [part for part in parts if part.reader == "read"]
    rest = [part for part in parts if part.reader in ("obsolete", "aborted")]
    words = f"a reader opens {plural(sum(part.files for part in read), 'file')}, {human_bytes(_bytes(read))}"
    return f"{words}; a cleaner may free {human_bytes(_bytes(rest))}" if rest else words


def _bytes(parts: Sequence[ShownPart]) -> int:
    return sum(part.bytes for part in parts)


def _but(what: str, write_ids: Sequence[int]) -> str:
    if not write_ids:
        return ""
    more = len(write_ids) - _MOST_IDS
    text = ", ".join(str(write_id) for write_id in write_ids[:_MOST_IDS])
    return f"; {what}: {text}{f' and {more:,} more' if more > 0 else ''}"
