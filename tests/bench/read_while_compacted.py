"""Readers of snapshots while transactions, compactions and cleanings run beside them: wrong rows and failed reads.

    PYTHONPATH=tests .venv/bin/python -m bench.read_while_compacted DIRECTORY [--generation 4] [--seconds 600]

Starts a metastore in DIRECTORY, with Hive's own cleaner off. A table of two partitions gets small transactions all the
time: inserts, deletes, some of them rolled back. One thread compacts it, a minor and a major in turn, another cleans
without any retention, and readers open a snapshot, wait for up to a second, and read it. The rows have to be those of
exactly the transactions that the snapshot shows. With --unlocked the first partition is read by its directory and the
committed write ids of that moment, without any lock: then reads fail, which shows what the lock is for.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from integration.hive4_model import COLUMNS, Lake, Made, rows
from judges.tables import Transaction, deletes, delta_name, inserts, write_dir
from servers.fleet import Servers

import acidlib
from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.metastore.transactions import TxnType

PARTITIONS = ("a", "b")
BUCKET = 536870912
"""The bucket property of the rows of the first writer."""
Key = tuple[int, int, int]


@dataclass
class Written:
    """The rows that each write id inserted, by their keys, and the keys that it deleted."""

    inserted: dict[int, dict[Key, tuple[int, str]]] = field(default_factory=dict)
    deleted: dict[int, set[Key]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, write_id: int, rows: list[tuple[int, str]], keys: set[Key]) -> None:
        with self.guard:
            self.inserted[write_id] = {(write_id, BUCKET, place): row for place, row in enumerate(rows)}
            self.deleted[write_id] = keys

    def visible(self, write_ids: ValidWriteIdList) -> dict[Key, tuple[int, str]]:
        """The rows that a list of write ids shows."""
        with self.guard:
            valid = [write_id for write_id in self.inserted if write_ids.is_write_id_valid(write_id)]
            gone = set().union(*(self.deleted[write_id] for write_id in valid))
            return {key: row for write_id in valid for key, row in self.inserted[write_id].items() if key not in gone}


@dataclass(frozen=True)
class Course:
    """A table, what is done to it, and what came of that."""

    lake: Lake
    made: Made
    queue: str
    unlocked: bool = False
    written: Written = field(default_factory=Written)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def table(self) -> acidlib.Table:
        return acidlib.connect(self.lake.metastore.uri, queue=self.queue).table(self.made.full)

    def repeat(self, step: Callable[[random.Random], str], seed: int) -> None:
        """Do a step until the end; an error ends nothing, but is counted."""
        choice = random.Random(seed)
        while not self.end.is_set():
            try:
                outcome = step(choice)
            except Exception as error:
                outcome = f"failed {step.__name__}"
                self.problems.append(f"{step.__name__}: {type(error).__name__}: {error}")
            self.counts[outcome] += 1

    def write(self, choice: random.Random) -> str:
        """One transaction of a few rows; a tenth of them is rolled back."""
        txn, write_id = self.lake.write(self.made)
        is_aborted = choice.random() < 0.1
        newest = ValidWriteIdList.parse(self.lake.write_ids(self.made))
        known = sorted(self.written.visible(newest))
        keys = set(choice.sample(known, min(len(known), choice.randrange(6))))
        new = list(rows(write_id * 100, choice.randrange(1, 6)))
        if (
            not is_aborted
        ):  # else no snapshot may ever show them, also not once the metastore has forgotten the write id
            self.written.add(write_id, new, keys)
        for place in self.made.places:
            write_dir(place.location, delta_name(write_id, write_id), COLUMNS, inserts(write_id, new))
            if keys:
                write_dir(place.location, delta_name(write_id, write_id, delete=True), COLUMNS, deletes(write_id, keys))
        (self.lake.hms.abort_txn if is_aborted else self.lake.hms.commit_txn)(txn, TxnType.DEFAULT)
        self.end.wait(0.2 * choice.random())
        return "aborted" if is_aborted else "committed"

    def compact(self, choice: random.Random) -> str:
        """A minor or a major; one that conflicts with readers is done by a later one."""
        kind: Any = "minor" if self.counts["compactions"] % 2 else "major"
        result = self.table().compact(kind, progress=False, lock_timeout="3s", minor_as_major_bytes=0)
        states = Counter(entry["state"] for entry in result.entries)
        self.counts["published results"] += states["ready for cleaning"]
        if bad := [entry for entry in result.entries if entry["state"] == "failed"]:
            self.problems.append(f"compact: {bad[0]['reason']}")
        self.end.wait(0.2 * choice.random())
        return "compactions"

    def clean(self, choice: random.Random) -> str:
        """A cleaning that keeps nothing for the sake of time."""
        result = self.table().clean(retention=0, progress=False)
        self.counts["removed directories"] += sum(len(entry["removed"]) for entry in result.entries)
        self.end.wait(0.2 * choice.random())
        return "cleanings"

    def read(self, choice: random.Random) -> str:
        """A snapshot that is read a while after it was opened."""
        with self.snapshot() as snapshot:
            time.sleep(choice.random())
            read = snapshot.to_arrow().to_pylist()
            (write_ids,) = {split.write_ids for split in snapshot.splits}
        expected = self.written.visible(write_ids)
        partitions = PARTITIONS[:1] if self.unlocked else PARTITIONS
        for partition in partitions:
            seen = {
                (*row["row__id"].values(),): (row["id"], row["v"])
                for row in read
                if row.get("p", partition) == partition
            }
            if seen != expected:
                different = sorted(set(seen.items()) ^ set(expected.items()))
                self.problems.append(f"read: {len(different)} rows of p={partition} differ by {write_ids.format()}")
                return "wrong reads"
        if len(read) != len(partitions) * len(expected):
            self.problems.append("read: rows are there twice")
            return "wrong reads"
        self.counts["rows"] += len(read)
        return "right reads"

    def snapshot(self) -> acidlib.Snapshot:
        if not self.unlocked:
            return self.table().snapshot(row_ids=True)
        write_ids = self.lake.write_ids(self.made).replace(self.made.full, "null", 1)
        return acidlib.directory(self.made.places[0].location, write_ids=write_ids, hive_version=4).snapshot(
            row_ids=True
        )

    def run(self, seconds: float, readers: int, *, enough: Callable[[], bool] = lambda: True) -> None:
        """Do everything at the same time, for so long; where that was not enough, for ten times as long at most."""
        steps = [self.write, self.compact, self.clean, *[self.read] * readers]
        threads = [
            threading.Thread(target=self.repeat, args=(step, number), name=step.__name__)
            for number, step in enumerate(steps)
        ]
        for thread in threads:
            thread.start()
        self.end.wait(seconds)
        last = time.monotonic() + 9 * seconds
        while not enough() and time.monotonic() < last:
            time.sleep(0.1)
        self.end.set()
        for thread in threads:
            thread.join()


def course(lake: Lake, queue: str, *, unlocked: bool = False) -> Course:
    """A new table of two partitions with three rows each."""
    first = rows(1, 3)
    begun = Course(lake, lake.table("t", [Transaction(inserts=first)], partitions=PARTITIONS), queue, unlocked)
    begun.written.add(1, list(first), set())
    return begun


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--generation", type=click.Choice(["3", "4"]), default="4", show_default=True)
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--readers", default=2, show_default=True)
@click.option("--unlocked", is_flag=True)
def main(directory: Path, generation: str, seconds: float, readers: int, unlocked: bool) -> None:
    """Read in DIRECTORY."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as name:
        place = Path(name)
        fleet = Servers(lambda kind: Path(tempfile.mkdtemp(prefix=kind, dir=place)))
        try:
            metastore = fleet.metastore(Generation(int(generation)))
            with Lake(metastore, database="reading") as lake:
                table = course(lake, f"sqlite:///{place}/queue.db", unlocked=unlocked)
                began = time.monotonic()
                table.run(seconds, readers)
                print(f"Hive {generation}, {time.monotonic() - began:.0f} s: {dict(sorted(table.counts.items()))}")
                for problem, times in Counter(table.problems).most_common(10):
                    print(f"{times} x {problem}")
        finally:
            fleet.close()


if __name__ == "__main__":
    main()
