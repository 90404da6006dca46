"""What Hive says about several copies of a table, side by side, and what must be left of a compacted directory."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from servers.sql import Hive, Row, Session

Result = TypeVar("Result")
# how Hive reads: with tasks by batches or row by row, or without tasks in HiveServer2 itself
VECTORS = {"hive.fetch.task.conversion": "none", "hive.vectorized.execution.enabled": "true"}
ROWS = {"hive.fetch.task.conversion": "none", "hive.vectorized.execution.enabled": "false"}
# Hive (IOContextMap) keeps the row id and the file of the fetches of all sessions in one place: one at a time
_FETCHING = threading.Lock()
FETCH = {"hive.fetch.task.conversion": "more", "hive.vectorized.execution.enabled": "false"}


class Lanes:
    """Sessions of one HiveServer2 that work side by side; what one of them does can fail without the others."""

    def __init__(self, hive: Hive, count: int, settings: Mapping[str, str]) -> None:
        self._hive = hive
        self._settings = settings
        self._free: queue.SimpleQueue[Session] = queue.SimpleQueue()
        self._stack = ExitStack()
        self._executor = ThreadPoolExecutor(count)

    def submit(self, work: Callable[[Session], Result]) -> Future[Result]:
        """Does it in the next session that is free."""
        return self._executor.submit(self._in_session, work)

    def close(self) -> None:
        """Ends the sessions, after what they are doing."""
        self._executor.shutdown(cancel_futures=True)
        self._stack.close()

    def _in_session(self, work: Callable[[Session], Result]) -> Result:
        try:
            session = self._free.get_nowait()
        except queue.Empty:  # the threads are as many as the sessions
            session = self._stack.enter_context(self._hive.session(self._settings))
        try:
            return work(session)
        finally:
            self._free.put(session)


@contextmanager
def settings(session: Session, values: Mapping[str, str]) -> Iterator[None]:
    """Settings for some statements; the next user of the session sets its own."""
    for name, value in values.items():
        session.run(f"set {name}={value}")
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of one copy in an order of their own, with their row ids, and the files they came from if known."""

    rows: tuple[tuple[str, ...], ...]
    files: frozenset[str] = frozenset()

    @property
    def values(self) -> list[tuple[str, ...]]:
        """The rows without their ids."""
        return sorted(row[1:] for row in self.rows)

    @property
    def newest(self) -> int:
        """The highest write id of a row."""
        return max((_write_id(row) for row in self.rows), default=0)

    def up_to(self, write_id: int) -> list[tuple[str, ...]]:
        """The rows that were written until then."""
        return [row for row in self.rows if _write_id(row) <= write_id]


def _write_id(row: tuple[str, ...]) -> int:
    return int(json.loads(row[0])["writeid"])


def read(
    session: Session, tables: Mapping[str, str], columns: Sequence[str], mode: Mapping[str, str]
) -> dict[str, Rows]:
    """All rows of the copies, by copy, read by tasks of one query."""
    found: dict[str, list[Row]] = {copy: [] for copy in tables}
    names = ["ROW__ID", "''", *columns]
    with settings(session, mode):
        for rows in _asked(session, {copy: f"select {{}}, {', '.join(names)} from {tables[copy]}" for copy in tables}):
            found[rows[0]].append(rows[1:])
    return {copy: _canonical(rows) for copy, rows in found.items()}


def fetch(session: Session, tables: Mapping[str, str], columns: Sequence[str]) -> dict[str, Rows]:
    """All rows of the copies with their files, by copy, row by row without tasks."""
    names = ["ROW__ID", "INPUT__FILE__NAME", *columns]
    found = {}
    for copy, table in tables.items():
        with _FETCHING, settings(session, FETCH):
            found[copy] = _canonical(session.run(f"select {', '.join(names)} from {table}"))
    return found


def count(session: Session, tables: Mapping[str, str]) -> dict[str, int]:
    """COUNT(*) of every copy."""
    with settings(session, VECTORS):
        return dict(_asked(session, {copy: f"select {{}}, count(*) from {tables[copy]}" for copy in tables}))


def probe(session: Session, tables: Mapping[str, str], conditions: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """How many rows of each copy Hive finds by a condition, which it may look for by statistics and indexes."""
    found = {(copy, name): 0 for copy in tables for name in conditions}
    queries = [
        f"select '{copy}', '{name}' from {table} where {condition}"
        for copy, table in tables.items()
        for name, condition in conditions.items()
    ]
    with settings(session, VECTORS):
        for copy, name in session.run(" union all ".join(queries)):
            found[copy, name] += 1
    return found


def count_without_indexes(session: Session, table: str, conditions: Mapping[str, str]) -> dict[str, int]:
    """How many rows conditions hold for, when they are looked at row by row."""
    with _FETCHING, settings(session, FETCH):
        rows = session.run(f"select {', '.join(conditions.values())} from {table}")
    return {name: sum(row[place] is True for row in rows) for place, name in enumerate(conditions)}


def _asked(session: Session, queries: Mapping[str, str]) -> list[Row]:
    return session.run(" union all ".join(query.format(f"'{copy}'") for copy, query in queries.items()))


def _canonical(rows: Sequence[Row]) -> Rows:
    # as text, since a NaN is equal to nothing
    texts = sorted((str(row[0]), *map(repr, row[2:])) for row in rows)
    return Rows(rows=tuple(texts), files=frozenset(row[1] for row in rows if row[1]))


def shown(session: Session, database: str) -> list[dict[str, Any]]:
    """SHOW COMPACTIONS of the tables of a database, by the names of its columns."""
    rows = session.run("show compactions")
    names = session.columns
    every = (dict(zip(names, row, strict=True)) for row in rows)
    return [row for row in every if row["dbname"] == database]


# What Hive 4 calls its directories, and what it takes for enough to compact (its Worker)
_NAME = re.compile(r"(base|delta|delete_delta)_(-?\d+)(?:_(\d+))?(?:_(\d{4}))?(?:_v(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """What the name of a directory says."""

    name: str
    kind: str
    low: int
    high: int
    txn: int | None

    @staticmethod
    def parse(name: str) -> Directory | None:
        """None for what is no directory of events."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        kind, first, second, _, txn = found.groups()
        low = 0 if kind == "base" else int(first)
        return Directory(
            name=name, kind=kind, low=low, high=int(second or first), txn=int(txn) if txn is not None else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The directories and files at one place, and which write ids of them a compaction may touch."""

    directories: tuple[Directory, ...]
    originals: frozenset[str]
    mark: int
    """The highest write id below every open one."""
    aborted: frozenset[int] = frozenset()

    @staticmethod
    def take(place: Path, *, mark: int, aborted: frozenset[int] = frozenset()) -> Picture:
        """What readers may see of a place."""
        names = [entry.name for entry in place.iterdir() if entry.name[0] not in "_."]
        parsed = {name: Directory.parse(name) for name in names}
        return Picture(
            directories=tuple(it for it in parsed.values() if it is not None),
            originals=frozenset(name for name, it in parsed.items() if it is None and "=" not in name),
            mark=mark,
            aborted=aborted,
        )

    @property
    def base(self) -> Directory | None:
        """The newest one."""
        bases = [it for it in self.directories if it.kind == "base" and it.high <= self.mark]
        return max(bases, key=lambda it: it.high) if bases else None

    @property
    def deltas(self) -> tuple[Directory, ...]:
        """Those that count: above the base, below the open ones, not aborted."""
        above = self.base.high if self.base is not None else 0
        return tuple(
            it
            for it in self.directories
            if it.kind != "base" and above < it.low and it.high <= self.mark and it.low not in self.aborted
        )

    def enough(self, kind: str) -> bool:
        """Whether Hive's worker would do it."""
        if kind == "major":
            raw = bool(self.originals) and self.base is None
            return raw or len(self.deltas) + (self.base is not None) > 1
        kinds = sorted(it.kind for it in self.deltas)
        return len(kinds) > 1 and kinds != ["delete_delta", "delta"]

    @property
    def obsolete(self) -> set[str]:
        """What no reader needs any more."""
        needed = {it.name for it in (self.base, *self.deltas) if it is not None}
        return {it.name for it in self.directories if it.name not in needed and it.low <= self.mark}

    def untouched(self, kind: str) -> set[str]:
        """What must be left of this after a compaction and the cleaning, but for its results."""
        left = {it.name for it in self.directories if it.low > self.mark}
        if kind == "minor":
            if self.base is not None:
                left.add(self.base.name)
            else:
                left |= self.originals
        return left
