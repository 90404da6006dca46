"""The truth about one ACID table: which rows every snapshot sees, whatever its files look like.

Rows are kept for ever, each with the write id that inserted it and those that deleted it; who sees what follows from a
snapshot's valid write ids alone. Nothing here knows of directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX = (1 << 63) - 1
Key = tuple[int, int, int]
"""Write id, bucket property, row id."""
Seen = tuple[int, int, int, tuple[Any, ...]]
"""A key and the values of its row, without nulls at the end: a column that was added is null in older rows."""


def bare(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values of a row without nulls at the end."""
    kept = list(values)
    while kept and kept[-1] is None:
        kept.pop()
    return tuple(kept)


@dataclass(slots=True, kw_only=True)
class Row:
    """A row that was ever inserted: its values, and by which write ids it was deleted."""

    values: tuple[Any, ...]
    deleted_by: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a reader takes for committed. `mine` is a writer's own write id; `txn` the highest transaction id then."""

    high: int
    open: frozenset[int]
    aborted: frozenset[int]
    txn: int
    mine: int | None = None

    def valid(self, write_id: int) -> bool:
        return write_id <= self.high and write_id not in self.open and write_id not in self.aborted

    @property
    def text(self) -> str:
        """A reader's list, as Hive writes it."""
        opened, aborted = (",".join(map(str, sorted(ids))) for ids in (self.open, self.aborted))
        return f"db.t:{self.high}:{min(self.open, default=MAX)}:{opened}:{aborted}"


@dataclass(slots=True, kw_only=True)
class Part:
    """A partition: all rows ever, the write ids of its insert overwrites, and those that left a directory in it."""

    rows: dict[Key, Row] = field(default_factory=dict)
    overwrites: list[int] = field(default_factory=list)
    writers: set[int] = field(default_factory=set)

    def visible(self, snapshot: Snapshot) -> dict[Key, Row]:
        """The rows that a snapshot sees."""
        first = max((number for number in self.overwrites if snapshot.valid(number)), default=0)
        return {
            key: row
            for key, row in self.rows.items()
            if key[0] >= first
            and (key[0] == 0 or snapshot.valid(key[0]))
            and not any(map(snapshot.valid, row.deleted_by))
        }

    def undo(self, write_id: int) -> None:
        """As if it had never been, but for what it left on disk."""
        self.writers.discard(write_id)
        self.rows = {key: row for key, row in self.rows.items() if key[0] != write_id}
        for row in self.rows.values():
            row.deleted_by.discard(write_id)
        self.overwrites = [number for number in self.overwrites if number != write_id]

    def seen(self, snapshot: Snapshot) -> list[Seen]:
        """What a reader returns, sorted."""
        return sorted(((*key, row.values) for key, row in self.visible(snapshot).items()), key=lambda row: row[:3])


@dataclass(slots=True, kw_only=True)
class Table:
    """All write ids of a table and what became of them, and its partitions by the name of their directory."""

    first: int = 1
    highest: int = 0
    txn: int = 100
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    parts: dict[str, Part] = field(default_factory=dict)
    components: dict[int, set[str]] = field(default_factory=dict)
    """Where an aborted write id may have left something: the metastore forgets it when nothing is left of this."""

    def allocate(self, count: int = 1) -> list[int]:
        """The next write ids, all open, each of a transaction of its own."""
        start = max(self.highest + 1, self.first)
        self.highest = start + count - 1
        self.txn += count
        taken = list(range(start, self.highest + 1))
        self.open.update(taken)
        return taken

    def snapshot(self, mine: int | None = None) -> Snapshot:
        return Snapshot(
            high=self.highest,
            open=frozenset(self.open - {mine}),
            aborted=frozenset(self.aborted),
            txn=self.txn,
            mine=mine,
        )

    def commit(self, write_id: int) -> None:
        self.open.remove(write_id)

    def abort(self, write_id: int) -> None:
        """Nobody will ever see what it wrote, whoever remembers that it was aborted."""
        self.open.remove(write_id)
        self.aborted.add(write_id)
        self.components[write_id] = {name for name, part in self.parts.items() if write_id in part.writers}
        for part in self.parts.values():
            part.undo(write_id)
        self._forget_empty()

    def cleaned(self, place: str, write_ids: Iterable[int]) -> None:
        """Nothing of these aborted write ids is left there: the metastore's rows about it go."""
        for write_id in write_ids:
            self.components.get(write_id, set()).discard(place)
        self._forget_empty()

    def drop(self, place: str) -> None:
        """A partition with all that was in it."""
        del self.parts[place]
        self.cleaned(place, list(self.components))

    def _forget_empty(self) -> None:
        for write_id in [number for number, places in self.components.items() if not places]:
            del self.components[write_id]
            self.aborted.discard(write_id)
