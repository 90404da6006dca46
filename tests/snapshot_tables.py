"""Random ACID tables whose columns changed while they were written, and random snapshots of them, each from a seed.

Names: renamed, moved, added, dropped and written in capitals as far as a reader by name or by position follows. Types:
changed as Hive converts without loss. Directories: originals with copies, bases, statements, updates, loaded files,
streaming batches with and without a side file, results of minor compactions. What is right, Hive's own reader says.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyorc
from conformance.test_conversions import CHANGES, VALUES
from judges import random_orc, tables
from judges.evolution import struct_text
from judges.merge import bucket_property
from judges.tables import Event, Layout

Key = tuple[int, int, int]
NAMES = ("id", "name", "amount", "day", "city", "n1", "tags", "extra", "note", "total")
# besides the types whose values test_conversions has, so that they may change
OTHERS = ("timestamp", "binary", "varchar(9)", "decimal(5,2)", "map<string,int>")
WIDER = {
    "tinyint": "smallint int bigint",
    "smallint": "int bigint",
    "int": "bigint",
    "decimal(10,2)": "decimal(12,2) decimal(38,2)",
    "varchar(4)": "varchar(5)",
    "float": "double",
}
FLOATS = (74.72, -1.5, 0.5, None, float("inf"), 3.0)
UNREADABLE = ("uniontype<boolean,smallint>",)
SNAPSHOT_LIMITS = random_orc.Limits(modern=True)


def changes_of(kind: str) -> set[str]:
    """The types that a column of this one may become."""
    return {*CHANGES.get(kind, "").split(), *WIDER.get(kind, "").split()}


FIRST_TYPES = tuple(kind for kind in (*VALUES, *OTHERS) if kind not in UNREADABLE)


@dataclass(slots=True, kw_only=True)
class Column:
    """A column: its name and type now, and the types that files have it in."""

    name: str
    kind: str
    written: set[str] = field(default_factory=set)

    def next_types(self) -> list[str]:
        """What it may be changed to: what every type in its files can be read as."""
        found = [changes_of(kind) | {kind} for kind in {*self.written, self.kind}]
        return sorted(set.intersection(*found) - {self.kind})


class SnapshotTable:
    """A table of a seed on disk. ``columns`` are those of the metastore, ``struct`` their text."""

    def __init__(self, seed: int, location: Path) -> None:
        self.rng = rng = random.Random(seed)
        self.location = location
        self.generation = rng.choice((3, 4))
        self.by_position = self.generation == 4
        self.scattered = self.generation == 3 and rng.random() < 0.2
        self.writers = rng.choice((1, 1, 2, 3))
        self.size = rng.choice((3, 10, 40, 40, 150))
        self.attempt = "_0" if self.generation == 4 and rng.random() < 0.5 else ""
        one = rng.choice(FIRST_TYPES) if self.by_position and rng.random() < 0.3 else ""
        self.one_type = one
        names = rng.sample(NAMES, rng.randint(1, 5))
        self.columns = [Column(name=name, kind=one or rng.choice(FIRST_TYPES)) for name in names]
        self.retired: dict[str, Column] = {}
        self.write_id = 0
        self.base = 0
        self.rows: dict[Key, bool] = {}
        self.fate: dict[int, str] = {0: "committed"}
        location.mkdir(parents=True)
        self._first()
        for _ in range(rng.randint(2, 6)):
            self._transaction()
            for _ in range(rng.choice((0, 0, 1, 2))):
                self._evolve()

    @property
    def types(self) -> dict[str, str]:
        return {column.name: column.kind for column in self.columns}

    @property
    def struct(self) -> str:
        return struct_text(self.types)

    # --- snapshots ------------------------------------------------------------------------------------------------

    def now(self) -> str:
        """The list of a reader that comes now."""
        return self._text(self.write_id)

    def snapshot(self) -> str:
        """A reader's list from any time since the last base, in which more may have been open or aborted."""
        rng = self.rng
        later = range(self.base + 1, self.write_id + 1)
        mark = rng.randint(self.base, self.write_id)
        more = {number: rng.choice(("open", "aborted")) for number in later if rng.random() < 0.2}
        return self._text(mark, more)

    def _text(self, mark: int, more: dict[int, str] | None = None) -> str:
        fate = {**self.fate, **(more or {})}
        opened, aborted = (
            sorted(number for number, what in fate.items() if what == kind and self.base < number <= mark)
            for kind in ("open", "aborted")
        )
        least = min(opened, default=2**63 - 1)
        return f"default.t:{mark}:{least}:{','.join(map(str, opened))}:{','.join(map(str, aborted))}"

    # --- columns --------------------------------------------------------------------------------------------------

    def _evolve(self) -> None:
        rng, columns = self.rng, self.columns
        column = rng.choice(columns)
        free = [name for name in NAMES if name not in {one.name for one in columns}]
        what = rng.choice(("rename", "type", "type", "add", "drop", "move"))
        if what == "rename" and free:
            self._rename(column, rng.choice(free))
        elif what == "type" and not self.one_type:
            following = column.next_types()
            column.kind = rng.choice(following) if following else column.kind
        elif what == "add" and free:
            self._add(rng.choice(free))
        elif what == "drop" and len(columns) > 1:
            if not self.by_position or self.one_type:
                self.retired[column.name] = column
                columns.remove(column)
        elif what == "move" and (not self.by_position or self.one_type):
            rng.shuffle(columns)

    def _rename(self, column: Column, name: str) -> None:
        if self.by_position:
            column.name = name
            return
        # by name the old files have nothing under the new one, or what a column of that name once was
        self.retired[column.name] = column
        kept = self.retired.pop(name, None)
        new = kept or Column(name=name, kind=column.kind)
        self.columns[self.columns.index(column)] = new

    def _add(self, name: str) -> None:
        kept = None if self.by_position else self.retired.pop(name, None)
        new = kept or Column(name=name, kind=self.one_type or self.rng.choice(FIRST_TYPES))
        at = len(self.columns) if self.by_position and not self.one_type else self.rng.randint(0, len(self.columns))
        self.columns.insert(at, new)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _values(self, count: int) -> list[tuple[Any, ...]]:
        """Rows of the columns as they are now, as pyorc writes them."""
        for column in self.columns:
            column.written.add(column.kind)
        found = [self._column(column.kind, count) for column in self.columns]
        return list(zip(*found, strict=True))

    def _column(self, kind: str, count: int) -> list[Any]:
        rng = self.rng
        values = FLOATS if kind == "float" else VALUES.get(kind)
        if values is not None:
            # Java's reader takes a batch of zeros of both signs for one repeated value
            values = [value for value in values if repr(value) != "-0.0"]
            values = rng.sample(values, rng.randint(1, len(values)))  # so that statistics differ
            return [rng.choice(values) for _ in range(count)]
        text = f"struct<x:{kind}>"
        node = pyorc.TypeDescription.from_string(text)
        return [random_orc.raw(row, node)[0] for row in random_orc.rows(rng, text, count, SNAPSHOT_LIMITS)]

    def _inserts(self, write_id: int, statement: int, count: int) -> list[Event]:
        found: list[Event] = []
        for writer in range(self.writers):
            rows = self._values(count // self.writers + (writer == 0))
            found += tables.inserts(write_id, rows, writer=writer, statement=statement)
        return found

    def _layout(self) -> Layout:
        rng = self.rng
        return Layout(
            compression=rng.choice([kind for kind in tables.KINDS if self.generation == 4 or kind != "zstd"]),
            stripe_size=rng.choice((1, 1, 64 << 20)),
            stride=rng.choice((0, 2, 7, 10_000)),
            block=rng.choice((1024, 64 << 10)),
            batch=rng.choice((3, 10, 1024)),
            dictionary=rng.choice((0.0, 0.8)),
            metadata=self.generation == 3 or rng.random() < 0.8,
            attempt=self.attempt,
        )

    # --- directories ----------------------------------------------------------------------------------------------

    def _first(self) -> None:
        what = self.rng.choice(("originals", "base", "overwrite", "nothing", "nothing"))
        if what == "originals":
            self._originals()
        elif what in ("base", "overwrite"):
            self.write_id = self.base = self.rng.randint(1, 3)
            self.fate |= dict.fromkeys(range(1, self.base + 1), "committed")
            events = self._inserts(self.base, 0, self.size)
            self.rows |= {event[1:4]: True for event in events}
            layout = self._layout()
            tables.write_base(self.location, self.base, self.struct, events, layout, compacted=what == "base")

    def _originals(self) -> None:
        """Files from before the table was transactional; some have no rows, some lie in the branch of a union."""
        branches = ["", "HIVE_UNION_SUBDIR_1/"] if self.rng.random() < 0.2 else [""]
        counts: dict[int, int] = {}
        for branch in branches:
            for writer in range(self.writers):
                for copy in range(self.rng.randint(1, 2)):
                    rows = self._values(self.rng.randint(1, self.size))
                    path = self.location / f"{branch}{writer:06d}_0{f'_copy_{copy}' if copy else ''}"
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(tables.orc_bytes(self._loaded(), rows, self._layout()))
                    counts[writer] = counts.get(writer, 0) + len(rows)
        for writer, count in counts.items():
            self.rows |= {(0, bucket_property(writer, 0), number): True for number in range(count)}

    def _transaction(self) -> None:
        rng = self.rng
        what = rng.choice(("insert", "insert", "update", "update", "delete", "load", "batch", "minor", "overwrite"))
        if what in ("batch", "minor"):
            self._range(minor=what == "minor")
            return
        self.write_id += 1
        write_id = self.write_id
        fate = self.fate[write_id] = rng.choice(("committed", "committed", "committed", "aborted", "open"))
        if what == "overwrite":
            self._overwrite(write_id)
        elif what == "load":
            self._load(write_id)
        elif what == "delete" and self._free():
            self._delete(write_id, 0, fate)
        else:
            for statement in range(rng.choice((1, 1, 2))):
                if what == "update" and self._free():
                    self._delete(write_id, statement, fate)
                self._insert(write_id, statement)

    def _free(self) -> list[Key]:
        return [key for key, there in self.rows.items() if there]

    def _insert(self, write_id: int, statement: int) -> None:
        events = self._inserts(write_id, statement, self.rng.randint(1, self.size))
        name = tables.delta_name(write_id, write_id, statement)
        tables.write_dir(self.location, name, self.struct, events, self._layout())
        self.rows |= {event[1:4]: True for event in events}

    def _chosen(self, fate: str) -> list[Key]:
        """Rows to delete; what did not commit left them for others."""
        free = self._free()
        share = self.rng.choice((0.0, 0.1, 0.5, 1.0))
        gone = [key for key in free if self.rng.random() < share] or [self.rng.choice(free)]
        if fate == "committed":
            self.rows |= dict.fromkeys(gone, False)
        return gone

    def _delete(self, write_id: int, statement: int, fate: str) -> None:
        name = tables.delta_name(write_id, write_id, statement, delete=True)
        self._write_deletes(name, tables.deletes(write_id, self._chosen(fate)))

    def _write_deletes(self, name: str, events: Sequence[Event]) -> None:
        layout = self._layout()
        if not self.scattered:
            tables.write_dir(self.location, name, self.struct, events, layout)
            return
        directory = self.location / name
        directory.mkdir()
        (directory / "_orc_acid_version").write_bytes(b"2")
        ordered = sorted(events, key=tables.event_key)
        (directory / "bucket_00000").write_bytes(tables.acid_bytes(self.struct, ordered, layout))

    def _load(self, write_id: int) -> None:
        """LOAD DATA: files without row ids."""
        directory = self.location / tables.delta_name(write_id, write_id, 0)
        directory.mkdir()
        for writer in range(self.writers):
            rows = self._values(self.rng.randint(1, self.size))
            (directory / f"{writer:06d}_0").write_bytes(tables.orc_bytes(self._loaded(), rows, self._layout()))
            keys = [(write_id, bucket_property(writer, 0), number) for number in range(len(rows))]
            self.rows |= dict.fromkeys(keys, True)

    def _loaded(self) -> str:
        """The columns of a file from elsewhere, which may spell their names otherwise, or have none."""
        rng = self.rng
        shape = rng.random()
        if shape < 0.1 and self.one_type:
            return struct_text({f"_col{i}": column.kind for i, column in enumerate(self.columns)})
        return struct_text(
            {c.name.upper() if shape < 0.4 and rng.random() < 0.3 else c.name: c.kind for c in self.columns}
        )

    def _overwrite(self, write_id: int) -> None:
        """INSERT OVERWRITE, committed: later readers need no history before it."""
        self.fate[write_id] = "committed"
        self.base = write_id
        events = self._inserts(write_id, 0, self.rng.randint(1, self.size))
        tables.write_base(self.location, write_id, self.struct, events, self._layout(), compacted=False)
        self.rows = {event[1:4]: True for event in events}

    def _range(self, *, minor: bool) -> None:
        """One directory for several write ids: a streaming batch of any fates, or what a minor compaction made."""
        rng = self.rng
        low, high = self.write_id + 1, self.write_id + rng.randint(2, 4)
        self.write_id = high
        events: list[Event] = []
        gone: list[Event] = []
        for write_id in range(low, high + 1):
            fate = rng.choice(("committed", "committed", "aborted", "open"))
            self.fate[write_id] = "aborted" if minor and fate == "open" else fate
            if minor and fate != "committed":
                continue
            if minor and self._free() and rng.random() < 0.5:
                gone += tables.deletes(write_id, self._chosen(fate))
            if rng.random() < 0.8:
                events += self._inserts(write_id, 0, rng.randint(1, self.size))
        if gone:
            self._write_deletes(tables.delta_name(low, high, None, delete=True), gone)
        if not events:
            return
        self.rows |= {event[1:4]: True for event in events}
        directory = tables.write_dir(
            self.location, tables.delta_name(low, high, None), self.struct, events,
            Layout(**{f: getattr(self._layout(), f) for f in Layout.__dataclass_fields__} | {"attempt": ""}),
        )  # fmt: skip
        if not minor and rng.random() < 0.5:
            # nothing is behind the length: of such files Hive reads no row (those of tests/histories have something)
            for path in list(directory.glob("bucket_*")):
                lengths = struct.pack(">qq", 0, path.stat().st_size)
                path.with_name(f"{path.name}_flush_length").write_bytes(lengths)
