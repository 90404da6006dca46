"""Writers, readers and our four jobs at work on one table of a real Hive 4, all at once.

Each writer owns a range of ids, so that what it must see after each of its statements is known exactly. Now and then
somebody aborts a writer's transaction. The environment variable ACIDLIB_DAY_SECONDS makes the day longer.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from judges import merge
from judges.acid_dirs import directory_state
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.sql import Session, SqlError

from acidlib.errors import ConflictError
from acidlib.metastore.hms import Hms, connect
from acidlib.metastore.options import ConnectionOptions
from acidlib.metastore.values import TxnType
from acidlib.model.requests import State
from acidlib.model.txnids import ValidTxnList
from integration.children import Child
from integration.harness import Jobs
from integration.hive4_jobs import Service, wait_for
from integration.hive4_model import local

SECONDS = float(os.environ.get("ACIDLIB_DAY_SECONDS", "40"))
WRITERS, PARTITIONS, RANGE = 3, 3, 1_000_000
TABLE = "day.life"
JOBS = (
    ("initiator", "--set", "hive.compactor.delta.num.threshold=2", "--set", "hive.compactor.delta.pct.threshold=3"),
    ("minor_compact",),
    ("major_compact",),
    ("cleaner", "--retention", "0s"),
)
PAUSE_SECONDS = 1.0
BEAT_SECONDS = 60.0
CHANGES_PER_ABORT = 5
# When Hive measures a table to compile a query it lists all its files, and fails if any directory goes meanwhile, be it
# by its own cleaner or ours. These keep it from measuring, and from 1009 reducers for a table of unknown size.
SETTINGS = {
    "hive.stats.estimate": "false",
    "hive.fetch.task.conversion.threshold": "-1",
    "hive.exec.reducers.max": "1",
    # Without tasks Hive 4.0.1 shows nothing of a partition in which an obsolete directory goes while it lists, whoever
    # removes it; with tasks the statement fails.
    "hive.fetch.task.conversion": "none",
    "hive.lock.sleep.between.retries": "500ms",  # a writer waits for another one, at most so long at a time
}
GONE = ("Error while running command to get file permissions", "java.io.FileNotFoundException")
"""How a statement fails for which a directory went while Hive was listing; it is made again. That nothing goes which a
snapshot needs is looked at by the transaction that is open for long."""
ANSWERS = 3
KINDS = ("insert", "update", "delete", "merge")
SELECT = "select id, v, n, p from day.life"
ITS_OWN = "select id, v, n, p from day.life where id >= {} and id < {}"
INSERT = "insert into day.life values {}"
UPDATE = "update day.life set v = concat(v, 'u'), n = n + 1 where id in ({})"
DELETE = "delete from day.life where id in ({})"
MERGE = (
    "merge into day.life t using (select inline(array({})) as (id, v, n, p)) s on t.id = s.id {} "
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
        """As the writer has to see it."""
        return self.versions[-1]


@dataclass(slots=True)
class Day:
    """What happens, and everything that went wrong."""

    ranges: list[Range] = field(default_factory=lambda: [Range() for _ in range(WRITERS)])
    ended: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[BaseException] = field(default_factory=list)

    def thread(self, work: Callable[[], object]) -> threading.Thread:
        """Runs something beside the test; what it raises ends the day."""

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.errors.append(error)
                self.ended.set()

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread


# --- writers ----------------------------------------------------------------------------------------------------------


class Writer:
    """One session that changes the ids of its range, and looks at them after each statement."""

    def __init__(self, day: Day, number: int, session: Session) -> None:
        self._day = day
        self._range = day.ranges[number]
        self._first = number * RANGE
        self._next = self._first
        self._session = session
        self._rng = random.Random(number)

    def work(self) -> None:
        """Until the day ends."""
        for step in (self._insert, self._update, self._merge, self._delete):  # each at least once
            self._change(step)
        while not self._day.ended.is_set():
            self._change(self._rng.choice((self._insert, self._insert, self._update, self._merge, self._delete)))

    def _change(self, step: Callable[[Rows], str]) -> None:
        rows = dict(self._range.rows)
        statement = step(rows)
        self._range.versions.append(rows)
        self._range.started += 1
        counts, name = self._day.counts, step.__name__.strip("_")
        aborts = counts["aborts"]
        try:
            again(self._day, self._session, statement)
            counts[name] += 1
        except SqlError as error:
            # nothing of it may ever be seen: the version goes, so that a reader who sees it is wrong
            self._range.versions[-1] = self._range.versions[-2]
            counts["aborted"] += 1
            until(lambda: counts["aborts"] > aborts, 5, f"nobody aborted it: {error}")
        self._range.done += 1
        assert self._seen() == self._range.rows, statement

    def _seen(self) -> Rows:
        """The rows of its range. Hive at times answers with those of another's question, which nobody else can do."""
        for _ in range(ANSWERS):
            seen = as_rows(again(self._day, self._session, ITS_OWN.format(self._first, self._first + RANGE)))
            if all(self._first <= number < self._first + RANGE for number in seen):
                break
            self._day.counts["answers to another's question"] += 1
        return seen

    def _new(self) -> tuple[int, str, int, int]:
        self._next += 1
        return self._next, f"v{self._rng.randrange(10**6)}", 0, self._next % PARTITIONS

    def _some(self, rows: Rows) -> list[int]:
        return sorted(self._rng.sample(sorted(rows), min(len(rows), self._rng.randint(1, 5))))

    def _insert(self, rows: Rows) -> str:
        new = [self._new() for _ in range(self._rng.randint(1, 12))]
        rows |= {row[0]: row[1:] for row in new}
        return INSERT.format(", ".join(map(repr, new)))

    def _update(self, rows: Rows) -> str:
        chosen = self._some(rows) or [self._first]
        for number in chosen:
            if number in rows:
                v, n, p = rows[number]
                rows[number] = (v + "u", n + 1, p)
        return UPDATE.format(", ".join(map(str, chosen)))

    def _delete(self, rows: Rows) -> str:
        chosen = self._some(rows)[:2] or [self._first]
        for number in chosen:
            rows.pop(number, None)
        return DELETE.format(", ".join(map(str, chosen)))

    def _merge(self, rows: Rows) -> str:
        changed = self._some(rows)
        new = [self._new() for _ in range(self._rng.randint(1, 4))]
        source = [(number, "merged", 100, number % PARTITIONS) for number in changed] + new
        gone = changed[:1]
        for number in changed:
            rows[number] = ("merged", rows[number][1] + 100, rows[number][2])
        rows |= {row[0]: row[1:] for row in new}
        for number in gone:
            del rows[number]
        structs = ", ".join(f"struct({row[0]}, '{row[1]}', {row[2]}, {row[3]})" for row in source)
        delete = f"when matched and s.id = {gone[0]} then delete" if gone else ""
        return MERGE.format(structs, delete)


def again(day: Day, session: Session, statement: str) -> list[tuple[Any, ...]]:
    """Runs a statement, again if it failed for want of a file that had gone."""
    while True:
        try:
            return session.run(statement)
        except SqlError as error:
            if not any(text in str(error) for text in GONE):
                raise
            day.counts["again"] += 1


def until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Waits for something; fails with these words when it does not come."""
    try:
        wait_for(condition, seconds)
    except AssertionError:
        raise AssertionError(otherwise) from None


def as_rows(found: list[tuple[Any, ...]]) -> Rows:
    """What a SELECT returned, by id; an id that comes twice is an error."""
    rows = {row[0]: (row[1], row[2], row[3]) for row in found}
    assert len(rows) == len(found), "an id came twice"
    return rows


# --- others -----------------------------------------------------------------------------------------------------------


def read(day: Day, session: Session) -> None:
    """Reads the whole table again and again: of each range a state that it had in between."""
    while not day.ended.is_set():
        before = [one.done for one in day.ranges]
        rows = as_rows(again(day, session, SELECT))
        after = [one.started for one in day.ranges]
        for number, one in enumerate(day.ranges):
            mine = {key: row for key, row in rows.items() if key // RANGE == number}
            wanted = one.versions[before[number] : after[number] + 1]
            assert mine in wanted, f"writer {number}: {differences(mine, wanted)}"
        day.counts["reads"] += 1


def differences(seen: Rows, wanted: list[Rows]) -> list[str]:
    """What a reader has not seen, and what it should not have seen, of each version that was possible."""
    return [f"not seen {rows.items() - seen.items()}, only seen {seen.items() - rows.items()}" for rows in wanted]


def abort(day: Day, metastore: Metastore) -> None:
    """Aborts a writer's transaction now and then, one that has a write id already."""
    url = metastore.database_url.replace("postgresql+psycopg://", "postgresql://")
    find = """select "TXN_ID" from "TXNS" join "TXN_TO_WRITE_ID" on "T2W_TXNID" = "TXN_ID"
              where "TXN_STATE" = 'o' and "TXN_TYPE" = 0 and "T2W_TABLE" = 'life' order by 1 desc limit 1"""
    done = 0
    with psycopg.connect(url, autocommit=True) as database, connection(metastore) as hms:
        while not day.ended.wait(0.1):
            if changes(day) < done + CHANGES_PER_ABORT:
                continue
            for (txn,) in database.execute(find):
                day.ended.wait(random.Random(txn).random())
                try:
                    hms.abort_txn(txn, TxnType.DEFAULT)
                except ConflictError:
                    continue  # it has ended meanwhile
                day.counts["aborts"] += 1
                done = changes(day)


def changes(day: Day) -> int:
    """How many statements have changed something."""
    return sum(day.counts[kind] for kind in KINDS)


@contextmanager
def connection(metastore: Metastore) -> Iterator[Hms]:
    """To the metastore."""
    with connect((metastore.uri,), ConnectionOptions(), user="day", host="testhost") as hms:
        yield hms


class OldReader:
    """A transaction that is open for long: what it may read has to stay, byte for byte."""

    def __init__(self, hms: Hms, places: list[Path]) -> None:
        """Opens it, and remembers what its snapshot consists of."""
        self.txn = hms.open_txn(TxnType.DEFAULT, "old reader")
        self._hms = hms
        self._places = places
        self._txns = hms.open_txns().txns
        self._write_ids = hms.valid_write_ids([("day", "life")], self._txns)["day", "life"].format()
        self.directories = self._state()
        self.rows = self._rows()

    def check(self) -> None:
        """Everything is as it was."""
        assert all(path.is_dir() for path in self.directories)
        assert self._state() == self.directories
        assert self._rows() == self.rows

    def newer(self) -> list[str]:
        """Results of compactions that this reader must not see."""
        return [path.name for place in self._places for path in place.iterdir() if hidden(path, self._txns)]

    def beat(self) -> None:
        """It is alive: the metastore aborts a transaction that it has not heard of for five minutes."""
        self._hms.heartbeat(txn_id=self.txn)

    def end(self) -> None:
        """Nobody keeps anything any more."""
        self._hms.commit_txn(self.txn, TxnType.DEFAULT)

    def _state(self) -> set[Path]:
        found = set()
        for place in self._places:
            state = directory_state(place, self._write_ids, generation=4, hidden_txns=self._hidden(place))
            found |= {one.path for one in (*([state.base] if state.base else []), *state.deltas)}
        return found

    def _rows(self) -> list[list[merge.Row]]:
        return [
            merge.read(place, self._write_ids, generation=4, hidden_txns=self._hidden(place), strict=True)
            for place in self._places
        ]

    def _hidden(self, place: Path) -> frozenset[int]:
        return frozenset(int(path.name.rpartition("_v")[2]) for path in place.iterdir() if hidden(path, self._txns))


def hidden(path: Path, txns: ValidTxnList) -> bool:
    """Whether a directory is a result whose transaction a snapshot does not know as committed."""
    name = path.name
    return name[0] not in "_." and "_v" in name and not txns.is_txn_valid(int(name.rpartition("_v")[2]))


def loop(service: Service, job: tuple[str, ...], stop: Path, record: Path) -> None:
    """One of our jobs as cron runs it, in a process of its own."""
    with record.open("w") as out:
        while not stop.exists():
            ran = service(*job)
            entries = ran.document.get("compactions" if "compact" in job[0] else "cleanings", [])
            states = [entry["state"] for entry in entries]
            out.write(json.dumps({"status": ran.status, "states": states, "err": ran.err, "out": ran.out}) + "\n")
            out.flush()
            time.sleep(PAUSE_SECONDS)


# --- the day ----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.slow
def test_a_day_in_the_life(jobs: Jobs, hive4_metastore: Metastore, hiveserver: HiveServer, tmp_path: Path) -> None:
    service = Service(jobs=jobs, uri=hive4_metastore.uri)
    hiveserver.hive.run(
        "create database day",
        f"create table {TABLE} (id int, v string, n int) partitioned by (p int) stored as orc "
        "tblproperties ('transactional'='true')",
        *(f"alter table {TABLE} add partition (p={p})" for p in range(PARTITIONS)),
    )
    with connection(hive4_metastore) as hms:
        table = hms.table("day", "life")
        assert table is not None
        names = hms.partition_names("day", "life")
        places = [local(one.storage.location) for one in hms.partitions(table, names).values()]
        day, stop = Day(), tmp_path / "stop"
        records = {job[0]: tmp_path / job[0] for job in JOBS}
        # before there are threads, as these are forked
        children = [
            Child(lambda job=job: loop(service, job, stop, records[job[0]]), tmp_path / f"{job[0]}.ended")  # type: ignore[misc]
            for job in JOBS
        ]
        try:
            live(day, hive4_metastore, hiveserver, hms, places, service)
        finally:
            stop.touch()
            for child in children:
                child.wait()
        check_jobs({job: [json.loads(line) for line in path.read_text().splitlines()] for job, path in records.items()})
        finish(service, hiveserver, hms, places, day)
    hiveserver.hive.run("drop database day cascade")


def live(
    day: Day, metastore: Metastore, hiveserver: HiveServer, hms: Hms, places: list[Path], service: Service
) -> None:
    """Everybody at work."""
    begin = time.monotonic()

    def writing(number: int) -> None:
        with hiveserver.hive.session(SETTINGS) as session:
            Writer(day, number, session).work()

    def reading() -> None:
        with hiveserver.hive.session(SETTINGS) as session:
            read(day, session)

    threads = [day.thread(lambda number=number: writing(number)) for number in range(WRITERS)]  # type: ignore[misc]
    threads += [day.thread(reading), day.thread(lambda: abort(day, metastore))]
    try:
        day.ended.wait(SECONDS * 0.3)
        reader = OldReader(hms, places)
        try:
            end = time.monotonic() + SECONDS * 0.4
            while not day.ended.wait(max(0.0, min(BEAT_SECONDS, end - time.monotonic()))) and time.monotonic() < end:
                reader.beat()
            # at least one compaction has to have replaced what it reads
            until(lambda: bool(reader.newer()) or day.ended.is_set(), 60, "nothing was compacted")
            reader.check()
            if not day.errors:
                shown = service.good("show_compactions", "--blockers").document["blockers"]
                assert reader.txn in {entry["id"] for entry in shown if entry["name"].startswith(TABLE)}
        finally:
            reader.end()
        day.ended.wait(max(0.0, SECONDS - (time.monotonic() - begin)))
        until(lambda: day.counts["aborted"] > 0 or day.ended.is_set(), 60, "nothing was aborted")
    finally:
        day.ended.set()
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    print(dict(day.counts))  # shown with the failure, or by -s
    if day.errors:
        raise day.errors[0]
    assert all(day.counts[name] for name in (*KINDS, "reads")), day.counts


def met_another(states: list[str]) -> bool:
    return "conflict" in states and "failed" not in states


def check_jobs(records: dict[str, list[dict[str, Any]]]) -> None:
    """No run of our jobs went wrong, and together they got something done."""
    for job, runs in records.items():
        assert runs, job
        # of two jobs that meet at one place the second leaves it for later
        wrong = [run for run in runs if "Traceback" in run["err"] or (run["status"] and not met_another(run["states"]))]
        assert not wrong, (job, wrong[0])
    done = Counter(state for runs in records.values() for run in runs for state in run["states"])
    assert done["ready for cleaning"], done
    assert done["succeeded"], done


def finish(service: Service, hiveserver: HiveServer, hms: Hms, places: list[Path], day: Day) -> None:
    """When all is quiet, everything can be compacted and cleaned, and every row is what its writer left."""
    for _ in range(5):
        service.good("minor_compact")
        service.good("major_compact")
        service.clean()
    service.good("major_compact", "--table", TABLE)
    for _ in range(5):
        service.clean()
    assert {row.state for row in hms.show_compactions() if row.database == "day"} <= {State.SUCCEEDED, State.REFUSED}
    for place in places:
        (left,) = [path.name for path in place.iterdir() if path.name[0] not in "_."]
        assert left.startswith("base_")
        assert [path.name for path in place.iterdir() if path.name[0] == "_"] == []
    expected = {key: row for one in day.ranges for key, row in one.rows.items()}
    assert as_rows(hiveserver.hive.run(SELECT)) == expected
