"""Writers and a reader of a real Hive 4, on one table in each store, and what each of them has to see.

Each writer owns a range of ids, so that what must be seen after each of its statements is known exactly. Every insert
is one transaction on the tables of all stores.
"""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from servers.sql import Hive, Session, SqlError

from acidlib.location import HDFS, LOCAL, S3

PATIENCE_SECONDS = 120.0
DATABASES = {LOCAL: "day", HDFS: "day_on_hdfs", S3: "day_in_a_bucket"}
TABLES = tuple(f"{database}.life" for database in DATABASES.values())
WRITERS, PARTITIONS = 3, 2
RANGE = 1_000_000 // len(TABLES) * len(TABLES)
# When Hive measures a table to compile a query it lists all its files, and fails if any directory goes meanwhile, be it
# by its own cleaner or ours. These keep it from measuring, and from 1009 reducers for a table of unknown size.
SETTINGS = {
    "hive.stats.estimate": "false",
    "hive.fetch.task.conversion.threshold": "-1",
    "hive.exec.reducers.max": "1",
    # Without tasks Hive 4.0.1 shows nothing of a partition in which an obsolete directory goes while it lists, whoever
    # removes it; with tasks the statement fails.
    "hive.fetch.task.conversion": "none",
    "hive.optimize.sort.dynamic.partition.threshold": "-1",  # an insert has one stage then, at half of the cost
    "hive.lock.sleep.between.retries": "500ms",  # a writer waits for another one, at most so long at a time
}
GONE = ("Error while running command to get file permissions", "java.io.FileNotFoundException")
"""How a statement fails for which a directory went while Hive was listing; it is made again. That nothing goes which a
snapshot needs is looked at by the transaction that is open for long."""
ANSWERS = 3
KINDS = ("insert", "update", "merge", "delete")
# of all tables, each row with the number of its table and that of the question
SELECT = " union all ".join(
    f"select id, v, n, p, {number} t, {{question}} q from {table}" for number, table in enumerate(TABLES)
)
INSERT = "from (select inline(array({rows})) as (id, v, n, p, t)) s " + " ".join(
    f"insert into {table} select s.id, s.v, s.n, s.p where s.t = {number}" for number, table in enumerate(TABLES)
)
UPDATE = "update {table} set v = concat(v, 'u'), n = n + 1 where id in ({ids})"
DELETE = "delete from {table} where id in ({ids})"
MERGE = (
    "merge into {table} t using (select inline(array({rows})) as (id, v, n, p)) s on t.id = s.id {delete} "
    "when matched then update set v = s.v, n = t.n + s.n "
    "when not matched then insert values (s.id, s.v, s.n, s.p)"
)
Rows = dict[int, tuple[str, int, int]]


@dataclass(slots=True)
class Range:
    """All that one writer's ids have ever been; a statement that runs may or may not be visible."""

    versions: list[Rows] = field(default_factory=lambda: [{}])
    started: int = 0
    done: int = 0

    @property
    def rows(self) -> Rows:
        """As they have to be when no statement runs."""
        return self.versions[-1]


@dataclass(slots=True)
class Day:
    """What happens."""

    ranges: list[Range] = field(default_factory=lambda: [Range() for _ in range(WRITERS)])
    ended: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)
    questions: Iterator[int] = field(default_factory=itertools.count)

    @property
    def changes(self) -> int:
        """How many statements have changed something."""
        return sum(self.counts[kind] for kind in KINDS)

    @property
    def rows(self) -> Rows:
        """What has to be there when no statement runs."""
        return {key: row for one in self.ranges for key, row in one.rows.items()}


def table_of(number: int) -> int:
    """The number of the table that an id belongs to."""
    return number % len(TABLES)


class Writer:
    """One session that changes the ids of its range."""

    def __init__(self, day: Day, number: int, session: Session) -> None:
        self._day = day
        self._range = day.ranges[number]
        self._new_ids = [itertools.count(number * RANGE + table, len(TABLES)) for table in range(len(TABLES))]
        self._turns = itertools.count(number)
        self._session = session
        self._rng = random.Random(number)

    def change(self, kind: str) -> None:
        """Makes one statement of a kind; what is not an insert is about one table, each in its turn."""
        rows = dict(self._range.rows)
        table = table_of(next(self._turns))
        statement = getattr(self, f"_{kind}")(rows, table)
        self._range.versions.append(rows)
        self._range.started += 1
        counts = self._day.counts
        aborts = counts["aborts"]
        try:
            again(self._day, self._session, statement)
            counts[kind] += 1
        except SqlError:
            # nothing of it may ever be seen: the version goes, so that a reader who sees it is wrong
            self._range.versions[-1] = self._range.versions[-2]
            counts["aborted"] += 1
            if not soon(lambda: counts["aborts"] > aborts, 60):
                raise  # nobody aborted it
        self._range.done += 1

    def _new(self, table: int) -> tuple[int, str, int, int]:
        number = next(self._new_ids[table])
        return number, f"v{self._rng.randrange(10**6)}", 0, number // len(TABLES) % PARTITIONS

    def _some(self, rows: Rows, table: int) -> list[int]:
        found = [number for number in sorted(rows) if table_of(number) == table]
        return sorted(self._rng.sample(found, min(len(found), self._rng.randint(1, 5))))

    def _insert(self, rows: Rows, _table: int) -> str:
        new = [self._new(table) for table in range(len(TABLES)) for _ in range(self._rng.randint(1, 4))]
        rows |= {row[0]: row[1:] for row in new}
        return INSERT.format(rows=structs(*((*row, table_of(row[0])) for row in new)))

    def _update(self, rows: Rows, table: int) -> str:
        chosen = self._some(rows, table)
        for number in chosen:
            v, n, p = rows[number]
            rows[number] = (v + "u", n + 1, p)
        return UPDATE.format(table=TABLES[table], ids=", ".join(map(str, chosen or [-1])))

    def _delete(self, rows: Rows, table: int) -> str:
        chosen = self._some(rows, table)[:2]
        for number in chosen:
            del rows[number]
        return DELETE.format(table=TABLES[table], ids=", ".join(map(str, chosen or [-1])))

    def _merge(self, rows: Rows, table: int) -> str:
        changed = self._some(rows, table)
        new = [self._new(table) for _ in range(self._rng.randint(1, 4))]
        source = [(number, "merged", 100, rows[number][2]) for number in changed] + new
        gone = changed[:1]
        for number in changed:
            rows[number] = ("merged", rows[number][1] + 100, rows[number][2])
        rows |= {row[0]: row[1:] for row in new}
        for number in gone:
            del rows[number]
        delete = f"when matched and s.id = {gone[0]} then delete" if gone else ""
        return MERGE.format(table=TABLES[table], rows=structs(*source), delete=delete)


def structs(*rows: tuple[Any, ...]) -> str:
    """Rows as Hive's structs."""
    return ", ".join(f"struct({', '.join(map(repr, row))})" for row in rows)


def again(day: Day, session: Session, statement: str) -> list[tuple[Any, ...]]:
    """Runs a statement, again if it failed for want of a file that had gone."""
    while True:
        try:
            return session.run(statement)
        except SqlError as error:
            if not any(text in str(error) for text in GONE):
                raise
            day.counts["again"] += 1


def read(day: Day, session: Session) -> None:
    """Reads all tables: of each range a state that it has had since the reading began; the last if nobody writes."""
    before = [one.done for one in day.ranges]
    rows = selected(day, session)
    after = [one.started for one in day.ranges]
    for number, one in enumerate(day.ranges):
        mine = {key: row for key, row in rows.items() if key // RANGE == number}
        wanted = one.versions[before[number] : after[number] + 1]
        assert mine in wanted, f"writer {number}: {differences(mine, wanted)}"
    day.counts["reads"] += 1


def selected(day: Day, session: Session) -> Rows:
    """All rows, by id; an id that comes twice, or in the table of another store, is an error.

    Hive at times answers with the rows of another's question.
    """
    for _ in range(ANSWERS):
        question = next(day.questions)
        found = again(day, session, SELECT.format(question=question))
        if {row[5] for row in found} <= {question}:
            break
        day.counts["answers to another's question"] += 1
    rows = {row[0]: (row[1], row[2], row[3]) for row in found}
    assert len(rows) == len(found), "an id came twice"
    assert all(row[4] == table_of(row[0]) for row in found), "a row is in another's table"
    return rows


def differences(seen: Rows, wanted: list[Rows]) -> list[str]:
    """What a reader has not seen, and what it should not have seen, of each version that was possible."""
    return [f"not seen {rows.items() - seen.items()}, only seen {seen.items() - rows.items()}" for rows in wanted]


def soon(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits for something; whether it came."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.3)
    return True


class Crew:
    """The writers and a reader, each with a session of its own, whose next statements begin together."""

    def __init__(self, day: Day, hive: Hive, stack: ExitStack) -> None:
        """Their sessions end with the stack."""
        self._day = day
        self._pool = stack.enter_context(ThreadPoolExecutor(WRITERS + 1))
        sessions = [stack.enter_context(hive.session(SETTINGS)) for _ in range(WRITERS + 1)]
        self._reader = sessions.pop()
        self._writers = [Writer(day, number, session) for number, session in enumerate(sessions)]
        self._rng = random.Random(WRITERS)

    def begin(self) -> None:
        """Each writer inserts something, one after the other.

        Tez inside HiveServer2 calls a session by the millisecond in which its first query comes (its `LocalClient`).
        Sessions of one name read each other's files.
        """
        for writer in self._writers:
            writer.change("insert")

    def step(self, *kinds: str) -> None:
        """A statement of each writer, of any kind unless kinds are given; the reader sees what the step before left."""
        chosen = kinds or [self._rng.choice(KINDS) for _ in self._writers]
        begun = [
            self._pool.submit(writer.change, kind)
            for writer, kind in zip(self._writers, itertools.cycle(chosen), strict=False)
        ]
        begun.append(self._pool.submit(read, self._day, self._reader))
        for future in begun:
            future.result()

    def go_on(self, seconds: float, enough: Callable[[], bool]) -> None:
        """More of them, for so long at least."""
        begin = time.monotonic()
        while time.monotonic() < begin + seconds or not enough():
            assert time.monotonic() < begin + seconds + PATIENCE_SECONDS, self._day.counts
            self.step()

    def read(self) -> None:
        """While nobody writes: exactly what all of them have left."""
        read(self._day, self._reader)
