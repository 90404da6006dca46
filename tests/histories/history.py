"""One random history of a table: its transactions, each step told in words."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges import merge, tables
from judges.acid_dirs import Dir, directory_state

from histories import files
from histories.model import Key, Part, Row, Snapshot, Table

LONGEST = 24 * 3600.0
"""No reader or writer lasts longer: what the retention of the cleaner says."""
CONVERTED = 10_000_001


@dataclass(eq=False, slots=True, kw_only=True)
class Reader:
    """An open snapshot. What it listed when it was opened is linked to below `pins`, a directory for each place."""

    snapshot: Snapshot
    since: float
    pins: Path | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Writer(Reader):
    """An open transaction with a write id."""

    write_id: int
    statement: int = 0


@dataclass(eq=False, slots=True, kw_only=True)
class Stream:
    """A batch of write ids that share a directory; `rows` are all that lie in it, aborted ones too."""

    place: str
    low: int
    high: int
    width: int
    waiting: list[int]
    rows: dict[Key, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return tables.delta_name(self.low, self.high, None)


class History:
    """The table, whoever is at work on it, and the steps of writers."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(seed)
        self.folder = folder
        self.root = folder / "db.db" / "t"
        self.generation = rng.choice([3, 4])
        self.suffixes = self.generation == 4 and rng.random() < 0.5
        self.names = files.Names(
            attempt="_0" if self.generation == 4 and rng.random() < 0.7 else "",
            scattered=self.generation == 3 and rng.random() < 0.3,
        )
        self.buckets = rng.randint(1, 3)
        self.width = 2
        self.clock = 0.0
        self.table = Table()
        self.readers: list[Reader] = []
        self.writers: list[Writer] = []
        self.streams: list[Stream] = []
        self.words: list[str] = []
        self._value = 0
        self.places = ["p=1", "p=2"] if rng.random() < 0.6 else [""]
        kind = f"Hive {self.generation}{' with suffixes' if self.suffixes else ''}, {len(self.places)} places"
        self.say(f"a table of {kind}, {self.buckets} buckets, {self.names}")
        if rng.random() < 0.25:
            self._converted()

    # --- what is there --------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.words.append(f"[{self.clock / 3600:.0f} h] {text}")

    def path(self, place: str) -> Path:
        return self.root / place if place else self.root

    def part(self, place: str) -> Part:
        return self.table.parts.setdefault(place, Part())

    @property
    def now(self) -> Snapshot:
        return self.table.snapshot()

    @property
    def nobody_looks(self) -> bool:
        return not self.readers and not self.writers

    # --- writers --------------------------------------------------------------------------------------------------

    def begin(self) -> Writer:
        (write_id,) = self.table.allocate()
        writer = Writer(write_id=write_id, snapshot=self.table.snapshot(write_id), since=self.clock)
        self.writers.append(writer)
        self.say(f"write id {write_id} is opened")
        return writer

    def end(self, writer: Writer, *, abort: bool) -> None:
        self.writers.remove(writer)
        (self.table.abort if abort else self.table.commit)(writer.write_id)
        self.say(f"write id {writer.write_id} is {'aborted' if abort else 'committed'}")

    def statement(self, writer: Writer) -> None:
        """An insert, update, delete or merge of an open transaction, in the next statement id."""
        place = self.rng.choice(self.places)
        part = self.part(place)
        if any(number > writer.write_id for number in part.overwrites):
            return  # it would have waited for the lock of the overwrite, and failed then
        free = sorted(key for key, row in part.visible(writer.snapshot).items() if not row.deleted_by)
        self.rng.shuffle(free)
        count = self.rng.choice([0, 0, 1, 1, 2, 3])
        gone = free[:count]
        updated = self.rng.randint(0, len(gone))
        inserted = self.rng.randint(0 if gone else 1, 4)
        self._write(writer, place, gone, updated + inserted)
        self.say(
            f"write id {writer.write_id}, statement {writer.statement}, in {place or 'the table'}: {inserted} inserts,"
            f" {updated} updates, deletes {gone}"
        )
        writer.statement += 1

    def load(self, writer: Writer) -> None:
        """LOAD DATA: files without row ids."""
        place = self.rng.choice(self.places)
        if any(number > writer.write_id for number in self.part(place).overwrites):
            return
        rows = self._rows(writer.write_id, writer.statement, self.rng.randint(1, 4))
        name = tables.delta_name(writer.write_id, writer.write_id, writer.statement)
        files.write_rows(self.path(place), name, rows, self.width, self.names, raw=True)
        self._inserted(place, writer.write_id, rows)
        self.say(f"write id {writer.write_id} loads {len(rows)} rows into {place or 'the table'}, {name}")
        writer.statement += 1

    def _write(self, writer: Writer, place: str, gone: list[Key], count: int) -> None:
        write_id, path = writer.write_id, self.path(place)
        part = self.part(place)
        if gone:
            name = tables.delta_name(write_id, write_id, writer.statement, delete=True)
            files.write_deletes(path, name, write_id, gone, self.width, self.names)
            for key in gone:
                part.rows[key].deleted_by.add(write_id)
        rows = self._rows(write_id, writer.statement, count)
        if rows:
            name = tables.delta_name(write_id, write_id, writer.statement)
            files.write_rows(path, name, rows, self.width, self.names)
        self._inserted(place, write_id, rows)

    def _inserted(self, place: str, write_id: int, rows: files.Rows) -> None:
        part = self.part(place)
        part.writers.add(write_id)
        part.rows.update((key, Row(values=values)) for key, values in rows.items())

    def _rows(self, write_id: int, statement: int, count: int) -> files.Rows:
        """New rows, spread over the buckets."""
        rows: files.Rows = {}
        counts: dict[int, int] = {}
        for _ in range(count):
            bucket = merge.bucket_property(self.rng.randrange(self.buckets), statement)
            number = counts.setdefault(bucket, 0)
            counts[bucket] += 1
            rows[write_id, bucket, number] = self._values()
        return rows

    def _values(self) -> tuple[Any, ...]:
        self._value += 1
        text = self.rng.choice([f"row {self._value}", "same", "x" * self.rng.randint(1, 40)])
        return (self._value, text, *(self._value * 10 + number for number in range(2, self.width)))

    # --- whole directories ----------------------------------------------------------------------------------------

    def overwrite(self, place: str) -> None:
        """INSERT OVERWRITE or LOAD OVERWRITE: a base, under a lock that keeps other writers (Hive 3: all) away."""
        part = self.part(place)
        if part.writers & self.table.open or any(stream.place == place for stream in self.streams):
            return
        if self.generation == 3 and not self.nobody_looks:
            return
        # Hive 3 cannot read a place any more whose only base is an aborted one
        may_abort = self.generation == 4 or self._base(place) is not None
        (write_id,) = self.table.allocate()
        raw = self.rng.random() < 0.2
        rows = self._rows(write_id, 0, self.rng.randint(1 if raw else 0, 4))
        files.write_rows(self.path(place), f"base_{write_id:07d}", rows, self.width, self.names, raw=raw)
        self._inserted(place, write_id, rows)
        part.overwrites.append(write_id)
        abort = may_abort and self.rng.random() < 0.3
        (self.table.abort if abort else self.table.commit)(write_id)
        self.say(f"write id {write_id} overwrites {place or 'the table'} with {len(rows)} rows{', aborted' * abort}")

    def _base(self, place: str) -> Dir | None:
        path = self.path(place)
        return directory_state(path, self.now.text, generation=self.generation).base if path.is_dir() else None

    def add_column(self) -> None:
        """Under a lock that keeps transactions away: no file of a later write id has fewer columns."""
        if self.width < 5 and not self.writers:
            self.width += 1
            self.say(f"a column is added: {self.width}")

    def drop(self, place: str) -> None:
        part = self.part(place)
        taken = part.writers & self.table.open or any(stream.place == place for stream in self.streams)
        if not place or taken or not self.nobody_looks or not self.path(place).exists():
            return
        shutil.rmtree(self.path(place))
        self.table.drop(place)
        self.say(f"{place} is dropped")

    # --- streaming ------------------------------------------------------------------------------------------------

    def open_stream(self) -> None:
        place = self.rng.choice(self.places)
        self.part(place)
        ids = self.table.allocate(self.rng.randint(2, 4))
        stream = Stream(place=place, low=ids[0], high=ids[-1], width=self.width, waiting=ids)
        self.streams.append(stream)
        self.say(f"a streaming batch of {ids[0]} to {ids[-1]} is opened in {place or 'the table'}")

    def stream_on(self, stream: Stream) -> None:
        """The next transaction of a batch: it writes, and commits or aborts or only flushes."""
        write_id = stream.waiting[0]
        had = sum(1 for key in stream.rows if key[0] == write_id)
        if had == 0:
            rows = self._rows(write_id, 0, self.rng.randint(1, 3))
            stream.rows.update({key: values[: stream.width] for key, values in rows.items()})
            self._inserted(stream.place, write_id, {key: stream.rows[key] for key in rows})
            self._flush(stream, appending=True)
        fate = self.rng.choice(["committed", "committed", "aborted", "flushed"])
        if fate != "flushed":
            stream.waiting.pop(0)
            (self.table.abort if fate == "aborted" else self.table.commit)(write_id)
        self.say(f"{write_id} of the batch in {stream.name} is {fate}")
        if not stream.waiting:
            self.close_stream(stream)

    def close_stream(self, stream: Stream) -> None:
        """The rest is aborted. A writer that died leaves side files, and what it had not flushed."""
        self.streams.remove(stream)
        died = self.rng.random() < 0.3
        for write_id in stream.waiting:
            self.table.abort(write_id)
        if stream.rows:
            self._flush(stream, appending=died)
        self.say(f"the batch in {stream.name} {'dies' if died else 'is closed'}, {stream.waiting} aborted")

    def _flush(self, stream: Stream, *, appending: bool) -> None:
        files.write_stream(self.path(stream.place) / stream.name, stream.rows, stream.width, appending=appending)

    # --- time -----------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Whoever would last longer than anybody does ends first."""
        until = self.clock + seconds
        self.end_all(lambda one: until - one.since > LONGEST - 600)
        self.clock = until

    def end_all(self, which: Callable[[Reader], bool]) -> None:
        for reader in [one for one in self.readers if which(one)]:
            self.close(reader)
        for writer in [one for one in self.writers if which(one)]:
            self.end(writer, abort=self.rng.random() < 0.3)

    def close(self, reader: Reader) -> None:
        self.readers.remove(reader)
        if reader.pins is not None:
            shutil.rmtree(reader.pins)
        self.say(f"the reader of {reader.snapshot.text} ends")

    def open_reader(self) -> Reader:
        reader = Reader(snapshot=self.now, since=self.clock)
        self.readers.append(reader)
        self.say(f"a reader of {reader.snapshot.text} begins")
        return reader

    def _converted(self) -> None:
        """Files from before the table became transactional."""
        self.table.first, self.table.highest = CONVERTED, CONVERTED - 1
        for place in self.places:
            numbers: Iterable[str] = sorted(
                self.rng.sample(["000000_0", "000000_0_copy_1", "000001_0"], self.rng.choice([2, 3]))
            )
            found = [(name, [self._values() for _ in range(self.rng.randint(1, 3))]) for name in numbers]
            rows = files.write_originals(self.path(place), found, self.width)
            self.part(place).rows.update((key, Row(values=values)) for key, values in rows.items())
            self.say(f"{place or 'the table'} has original files of {len(rows)} rows")
