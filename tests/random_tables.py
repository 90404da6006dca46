"""Random ACID tables from an integer seed: columns, history, layouts, writers and how to compact them.

Files are written by pyorc and by Java; what a reader must see is known from the history alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyorc
from compaction import MAJOR, MINOR
from judges import java_files, merge, random_orc, tables
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.random_orc import Limits
from judges.tables import Event, Layout

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings

SHORT_STRIDES = (2, 7, 50)
"""For small tables only: judges look at every row group."""
CODECS = ("none", "zlib", "snappy", "lz4", "zstd")
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")
DENSITIES = (0.0, 0.003, 0.003, 0.05, 0.5, 0.98, 1.0)
Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTable:
    """A table on disk, what a reader must see in it (None where pyorc has to tell), and how to compact it."""

    location: Path
    columns: str
    write_ids: str
    generation: int
    kind: CompactionType
    settings: RewriteSettings
    expected: list[merge.Row] | None
    codecs: frozenset[str]
    java_only: bool


@dataclass(slots=True)
class _History:
    """The events of each write id, and which rows are visible."""

    inserted: dict[int, list[Event]] = field(default_factory=dict)
    deleted: dict[int, list[Event]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    rows: dict[Key, Any] = field(default_factory=dict)


def build(seed: int, location: Path, java: JavaOrc) -> RandomTable:
    """The table of a seed."""
    rng = random.Random(seed)
    writer = rng.choice(("pyorc", "java", "mixed"))
    size = rng.choice((0, 5, 30, 30, 30, 30, 100, 100, 100, 300, 300, 2000))
    columns = random_orc.columns(rng, unions=writer == "java", most=2 if size > 1000 else 5)
    zones = ZONES if rng.random() < 0.15 else ZONES[:1]
    proleptic = writer == "java" and rng.random() < 0.3
    limits = Limits(modern=len(zones) > 1, small_sums=writer != "pyorc")
    strides = (100, 1000, 10_000, 10_000) if size > 100 else (*SHORT_STRIDES, 1000, 10_000, 10_000)
    maker = _Maker(rng, java, columns, writer, zones, strides, proleptic=proleptic)
    history = _history(rng, lambda count: random_orc.rows(rng, columns, count, limits), size)
    location.mkdir()
    if rng.random() < 0.12:
        first = _originals(rng, maker, location, history, limits, size)
    else:
        first = _base(rng, maker, location, history)
    _deltas(rng, maker, location, history, first)
    last = max(history.inserted.keys() | history.deleted.keys())
    kind = pyorc.TypeDescription.from_string(columns)
    return RandomTable(
        location=location,
        columns=columns,
        write_ids=f"default.t:{last}:9223372036854775807::{','.join(map(str, sorted(history.aborted)))}",
        generation=rng.choice((3, 4)),
        kind=rng.choice((MAJOR, MINOR)),
        settings=_settings(rng, tuple(kind.fields), strides),
        expected=None if limits.modern else [(*key, row) for key, row in sorted(history.rows.items())],
        codecs=frozenset(maker.codecs),
        java_only=writer == "java",
    )


def _settings(rng: random.Random, names: Sequence[str], strides: Sequence[int]) -> RewriteSettings:
    stated = ("stride", "block_bytes", "compression")
    return RewriteSettings(
        stripe_bytes=rng.choice((1, 3000, 64 << 20)),
        copy_bytes=rng.choice((0, 0, 0, 600, 256 << 10, 1 << 40)),
        stride=rng.choice(strides),
        block_bytes=rng.choice((1024, 5000, 256 << 10)),
        compression=rng.choice(CODECS).upper(),
        bloom_columns=rng.choice(("", "", "*", rng.choice(names))),
        bloom_fpp=rng.choice((None, None, 0.01, 0.5)),
        stated=frozenset(name for name in stated if rng.random() < 0.1),
    )


# --- history ----------------------------------------------------------------------------------------------------------


def _history(rng: random.Random, rows: Callable[[int], list[Any]], size: int) -> _History:
    """Inserts of up to `size` rows in a few transactions, then deletes of any density among them."""
    found = _History()
    writers = rng.choice((1, 1, 2, 3))
    write_id = 0
    for _ in range(rng.randint(2, 5)):
        write_id += 1
        events = []
        for statement in range(rng.choice((1, 1, 1, 2))):
            for number in range(writers):
                batch = rows(rng.randint(size // 4, size) // writers)
                events += tables.inserts(write_id, batch, writer=number, statement=statement)
        found.inserted[write_id] = events
        if rng.random() < 0.12:
            found.aborted.add(write_id)
        else:
            found.rows |= {event[1:4]: event[5] for event in events}
        if rng.random() < 0.6:
            write_id += 1
            _delete(rng, found, write_id)
    return found


def _delete(rng: random.Random, found: _History, write_id: int) -> None:
    keys = sorted(found.rows)
    share = rng.choice(DENSITIES)
    if rng.random() < 0.4 and keys:  # ranges
        gone = []
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(keys))
            gone += keys[start : start + max(1, int(len(keys) * share / 2))]
    else:
        gone = [key for key in keys if rng.random() < share]
    found.deleted[write_id] = tables.deletes(write_id, sorted(set(gone)))
    if rng.random() < 0.12:
        found.aborted.add(write_id)
        return
    for key in set(gone):
        del found.rows[key]


# --- directories ------------------------------------------------------------------------------------------------------


def _originals(rng: random.Random, maker: _Maker, location: Path, history: _History, limits: Limits, size: int) -> int:
    """Files without ACID columns, whose rows are of write id 0; some are deleted later."""
    number = 0
    for copy in range(rng.randint(1, 3)):
        rows = random_orc.rows(rng, maker.columns, rng.randint(1, size + 1), limits)
        maker.original(location / ("000000_0" + (f"_copy_{copy}" if copy else "")), rows)
        history.rows |= {(0, bucket_property(0, 0), number + i): row for i, row in enumerate(rows)}
        number += len(rows)
    last = max(history.inserted.keys() | history.deleted.keys())
    _delete(rng, history, last + 1)
    return 1


def _base(rng: random.Random, maker: _Maker, location: Path, history: _History) -> int:
    """Sometimes a base of the first write ids; the first one after it."""
    last = max(history.inserted.keys() | history.deleted.keys())
    mark = rng.choice((0, 1, rng.randint(1, max(1, last - 1))))
    covered = range(1, mark + 1)
    if not mark or covered[-1] in history.aborted:
        return 1
    gone = {e[1:4] for w in covered if w not in history.aborted for e in history.deleted.get(w, ())}
    kept = [e for w in covered if w not in history.aborted for e in history.inserted.get(w, ()) if e[1:4] not in gone]
    maker.directory(location, f"base_{mark:07d}", kept)
    return mark + 1


def _deltas(rng: random.Random, maker: _Maker, location: Path, history: _History, first: int) -> None:
    """A directory per statement, or one of several write ids as a minor compaction leaves it."""
    last = max(history.inserted.keys() | history.deleted.keys())
    low = first
    while low <= last:
        high = rng.randint(low, last) if rng.random() < 0.2 else low
        ids = [w for w in range(low, high + 1) if low == high or w not in history.aborted]
        inserted = [event for w in ids for event in history.inserted.get(w, ())]
        deleted = [event for w in ids for event in history.deleted.get(w, ())]
        if low < high:
            for events, delete in ((inserted, False), (deleted, True)):
                if events:
                    maker.directory(location, tables.delta_name(low, high, None, delete=delete), events)
        else:
            for statement in (0, 1):
                part = [event for event in inserted if event[2] & 0xFFF == statement]
                if part:
                    maker.directory(location, tables.delta_name(low, low, statement), part)
            if deleted:
                maker.directory(location, tables.delta_name(low, low, 0, delete=True), deleted)
        low = high + 1


class _Maker:
    """Writes directories, each with a layout of its own, or that of the table."""

    def __init__(
        self,
        rng: random.Random,
        java: JavaOrc,
        columns: str,
        writer: str,
        zones: Sequence[str],
        strides: Sequence[int],
        *,
        proleptic: bool,
    ) -> None:
        self._rng, self._java, self.columns, self._writer = rng, java, columns, writer
        self._zones, self._strides = zones, strides
        self._kind = pyorc.TypeDescription.from_string(columns)
        self._event_kind = pyorc.TypeDescription.from_string(tables.acid_schema(columns))
        self._proleptic = proleptic
        self.codecs: set[str] = set()
        self._usual = self._layout(), self._options()

    def _choice(self) -> tuple[Layout, Options, bool]:
        by_java = self._writer == "java" or (self._writer == "mixed" and self._rng.random() < 0.5)
        layout, options = self._usual if self._rng.random() < 0.8 else (self._layout(), self._options())
        self.codecs.add(options.compression if by_java else layout.compression)
        return layout, options, by_java

    def directory(self, location: Path, name: str, events: Iterable[Event]) -> None:
        layout, options, by_java = self._choice()
        if by_java:
            java_files.write_dir(self._java, location, name, self.columns, events, options)
        else:
            raw = [random_orc.raw(event, self._event_kind) for event in events]
            tables.write_dir(location, name, self.columns, raw, layout)
        if name.startswith("base_"):
            (location / name / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')

    def original(self, path: Path, rows: Sequence[Any]) -> None:
        layout, options, by_java = self._choice()
        if by_java:
            java_files.write_orc(self._java, path, self.columns, rows, options)
        else:
            path.write_bytes(tables.orc_bytes(self.columns, [random_orc.raw(row, self._kind) for row in rows], layout))

    def _layout(self) -> Layout:
        rng = self._rng
        return Layout(
            compression=rng.choice(CODECS),
            stripe_size=rng.choice((1, 1, 64 << 20)),
            stride=rng.choice((0, *self._strides)),
            block=rng.choice((1024, 4096, 64 << 10)),
            batch=rng.choice((3, 20, 100, 1024)),
            dictionary=rng.choice((0.0, 0.5, 1.0)),
            timezone=rng.choice(self._zones),
            bloom=rng.choice(((), (), (4, 7))),
        )

    def _options(self) -> Options:
        rng = self._rng
        return Options(
            version=rng.choice(("0.11", "0.12", "0.12")),
            compression=rng.choice(CODECS),
            stride=rng.choice((0, 1000, 1000, 10_000)),
            stripe_rows=rng.choice((1 << 40, 1024)),
            block=rng.choice((1024, 4096, 64 << 10)),
            bloom=rng.choice(("", "", ",".join(self._kind.fields))),
            bloom_version=rng.choice(("utf8", "original")),
            dictionary=rng.choice((0.0, 0.8, 1.0)),
            dictionary_impl=rng.choice(("rbtree", "hash")),
            timezone=rng.choice(self._zones),
            proleptic=self._proleptic,
            decimal64=rng.random() < 0.3,
        )
