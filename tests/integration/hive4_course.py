"""All cases on real servers of Hive 4, taken through their stages together.

They are made, compacted, read, cleaned, read, written, compacted by Hive and read. What happens to one case at a stage
is kept as a future: a test gets the result, or the error of this case alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from judges.hive_client import snapshot_rows
from long_runs import LONG
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.sql import Row, Session

import acidlib
from acidlib.metastore.hms import connect_hms
from acidlib.metastore.options import ConnectionOptions
from acidlib.model.tables import TableRef
from integration.conftest import HIVE_POOL
from integration.harness import Jobs, Ran
from integration.hive4_cases import OPEN, TWIN, Case
from integration.hive4_compare import (
    ROWS,
    VECTORS,
    Lanes,
    Picture,
    Rows,
    count,
    count_without_indexes,
    fetch,
    probe,
    read,
    shown,
)
from integration.hive4_making import (
    DATABASE,
    Copier,
    PlaceCopy,
    make,
    prepare,
    table_of,
)
from integration.metastore_writes import Writes

Result = TypeVar("Result")
SESSIONS = 3
SESSION_SETTINGS = {
    "use:database": DATABASE,
    "hive.optimize.index.filter": "true",
    "hive.compute.query.using.stats": "false",
    "hive.optimize.shared.work": "false",  # one scan for each condition
}
Key = tuple[str, str | None]
Described = Mapping[str, Sequence[tuple[Any, ...]]]
"""Rows of the metastore's own tables, by what was asked."""
OF_STORAGE = ("SDS", "SD_PARAMS", "BUCKETING_COLS", "SORT_COLS")
DESCRIBED = {
    "TBLS": (
        'select "TBL_ID", "CREATE_TIME", "DB_ID", "LAST_ACCESS_TIME", "OWNER", "OWNER_TYPE", "RETENTION", "SD_ID", '
        '"TBL_NAME", "TBL_TYPE", "VIEW_EXPANDED_TEXT", "VIEW_ORIGINAL_TEXT", "IS_REWRITE_ENABLED" '
        'from "TBLS" order by 1'
    ),
    "TABLE_PARAMS": (
        "select * from \"TABLE_PARAMS\" where \"PARAM_KEY\" not in ('numFiles', 'totalSize', 'numRows', "
        "'transient_lastDdlTime') order by 1, 2"
    ),
    "PARTITION_KEYS": 'select * from "PARTITION_KEYS" order by 1, 2, 3',
    "COLUMNS_V2": 'select * from "COLUMNS_V2" order by 1, 2, 3',
    "SERDES": 'select * from "SERDES" order by 1',
    "SERDE_PARAMS": 'select * from "SERDE_PARAMS" order by 1, 2',
    **{name: f'select * from "{name}" order by 1, 2, 3' for name in OF_STORAGE},  # noqa: S608 - names of this file
}
LONG_AGO = 'update "TABLE_PARAMS" set "PARAM_VALUE" = \'1700000000\' where "PARAM_KEY" = \'transient_lastDdlTime\''
"""As if every table had been changed last then: none has to be waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What our jobs did, by table and partition."""

    before: Mapping[Key, Picture]
    runs: Mapping[str, Ran]
    entries: Mapping[Key, dict[str, Any]]
    shown: Mapping[tuple[str, str], dict[str, Any]]
    """Rows of SHOW COMPACTIONS, by what is printed of the place."""
    described: tuple[Described, Described]
    """What the metastore has of all tables before and after, but for what statistics change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What Hive read of all copies of a case."""

    row_by_row: Mapping[str, Rows]
    """Without tasks, with the files."""
    by_batches: Mapping[str, Rows]
    """In a long run only: how Hive reads has nothing to do with what else lies there."""
    counted: Mapping[str, int]
    """COUNT(*) by copy."""
    probed: Mapping[tuple[str, str], int]
    """Rows that conditions found, by copy and name of the condition."""
    expected: Mapping[str, int]
    """How many rows of the twin the conditions hold for, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooEarly:
    """A run of the cleaner that may not clean."""

    before: Mapping[Key, Picture]
    ran: Ran
    after: Mapping[Key, Picture]
    txn: int | None
    """The transaction that is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a run of the cleaner left, and what SHOW COMPACTIONS tells."""

    ran: Ran
    pictures: Mapping[Key, Picture]
    shown: Mapping[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHive:
    """What Hive's own compactor did."""

    asked: Mapping[Key, Future[None]]
    shown: Mapping[tuple[str, str], dict[str, Any]]
    read: Mapping[str, Future[Mapping[str, Rows]]]
    left: Left
    read_cleaned: Mapping[str, Future[Mapping[str, Rows]]]


@contextmanager
def live_course(metastore: Metastore, hiveserver: HiveServer, home: Path, cases: tuple[Case, ...]) -> Iterator[Course]:
    """Cases on servers that nobody else uses meanwhile: the queue is theirs and no other transaction is open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACIDLIB_HOME", str(home))
        for name in ("HIVE_CONF_DIR", "ACIDLIB_QUEUE_URL"):
            patch.delenv(name, raising=False)
        course = Course(metastore, hiveserver, Jobs(queue_url=f"sqlite:///{home / 'queue.db'}"), cases)
        try:
            yield course
        finally:
            course.close()


class Course:
    """The stages; each is entered once, by the first test that asks for it."""

    def __init__(self, metastore: Metastore, hiveserver: HiveServer, jobs: Jobs, cases: tuple[Case, ...]) -> None:
        self.metastore = metastore
        self._hiveserver = hiveserver
        self._jobs = jobs
        self._cases = cases
        self._hms = connect_hms([metastore.uri], ConnectionOptions(), user="tests", host="localhost")
        self._writes = Writes(metastore.uri, metastore.generation.value)
        self._copier = Copier(self._hms, self._writes)
        self._lanes = Lanes(hiveserver.hive, SESSIONS, SESSION_SETTINGS)

    def close(self) -> None:
        """Ends what it opened."""
        self._lanes.close()
        self._writes.close()
        self._hms.close()

    def run(self, job: str, *arguments: str) -> Ran:
        """One of our jobs on this metastore."""
        return self._jobs(job, "--metastore-uri", self.metastore.uri, *arguments)

    def ask(self, statement: str) -> list[Row]:
        """The rows of one query of Hive."""
        return self._lanes.submit(lambda session: session.run(statement)).result()

    def places(self, case: Case, copies: Iterable[str] | None = None) -> list[PlaceCopy]:
        """Where the copies of a case lie."""
        return self._copier.places(case, copies)

    @cached_property
    def made(self) -> dict[str, Future[None]]:
        """All copies of every case, alike."""
        self._hiveserver.hive.run(f"create database {DATABASE}")
        self._lanes.submit(prepare).result()
        files = self._copier.plain_files()
        made = self._each(self._cases, lambda session, case: make(session, case, files))
        self._copier.copy(self._good(made))
        return made

    @cached_property
    def compacted(self) -> Compacted:
        """Every copy but the twin, by our jobs."""
        cases = self._good(self.made)
        before, described = self.pictures(cases), self.described()
        runs = {"minor by hand": self.run("minor_compact", "--table", f"{DATABASE}.*_minor")}
        asked = [place for case in cases for place in self.places(case, ["major"])]
        wait([self._lanes.submit(lambda session, it=place: _ask(session, it, "major")) for place in asked])
        lowered = "hive.compactor.delta.num.threshold=1"
        runs["initiator"] = self.run("initiator", "--table", f"{DATABASE}.*_auto", "--set", lowered)
        runs["major"] = self.run("major_compact")
        runs["minor"] = self.run("minor_compact")
        entries = {
            (entry["table"], entry["partition"]): entry
            for name in ("minor by hand", "major", "minor")
            for entry in runs[name].compactions
        }
        return Compacted(
            before=before,
            runs=runs,
            entries=entries,
            shown=self.show(),
            described=(described, self.described()),
        )

    def described(self) -> Described:
        """What the metastore has of all tables."""
        url = self.metastore.database_url.replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(LONG_AGO)
            return {name: connection.execute(query.encode()).fetchall() for name, query in DESCRIBED.items()}

    def pictures(self, cases: Iterable[Case]) -> dict[Key, Picture]:
        """What lies at every place now."""
        found = {}
        for case in cases:
            ids = self._copier.write_ids([table_of(case, copy) for copy in case.every_copy])
            for place in self.places(case):
                valid = ids[place.table]
                mark = min(valid.min_open - 1, valid.high_water_mark)
                found[place.key] = Picture.take(place.path, mark=mark, aborted=frozenset(valid.aborted_ids))
        return found

    def show(self) -> dict[tuple[str, str], dict[str, Any]]:
        """SHOW COMPACTIONS: the newest row of every place, by what is printed of it."""
        rows = self._lanes.submit(lambda session: shown(session, DATABASE)).result()
        rows.sort(key=lambda row: int(row["compactionid"]))
        return {(row["tabname"], row["partname"]): row for row in rows}

    @cached_property
    def read_compacted(self) -> dict[str, Future[Reading]]:
        """After our compaction, the replaced directories still there."""
        self.compacted  # noqa: B018 - enters the stage
        return self._each(self._good(self.made), _read)

    def snapshot(self, table: str) -> list[tuple[str, ...]]:
        """What our reader finds in a table now, in the form of `Rows`."""
        found = acidlib.connect(self.metastore.uri).table(f"{DATABASE}.{table}").to_arrow(row_ids=True)
        return snapshot_rows(found, self.types(table))

    def types(self, table: str) -> dict[str, str]:
        """The types of a table's columns, partition keys last."""
        described = self._hms.table(TableRef(DATABASE, table))
        assert described is not None, table
        return {column.name: column.type for column in (*described.storage.columns, *described.partition_keys)}

    @cached_property
    def snapshots_compacted(self) -> dict[str, Future[Mapping[str, Sequence[tuple[str, ...]]]]]:
        """What our reader finds after our compaction, and in the twin without one."""
        wait(self.read_compacted.values())
        return self._each(self._good(self.made), lambda _, case: self._snapshots(case, case.every_copy))

    @cached_property
    def snapshots_cleaned(self) -> dict[str, Future[Mapping[str, Sequence[tuple[str, ...]]]]]:
        """After our cleaner."""
        wait(self.read_cleaned.values())
        return self._each(self._good(self.made), lambda _, case: self._snapshots(case, case.copies))

    def _snapshots(self, case: Case, copies: Iterable[str]) -> dict[str, Sequence[tuple[str, ...]]]:
        return {copy: self.snapshot(table_of(case, copy)) for copy in copies}

    @cached_property
    def cleaned_too_early(self) -> TooEarly:
        """The cleaner while a transaction from before the compactions is open."""
        wait(self.snapshots_compacted.values())
        cases = self._good(self.made)
        before = self.pictures(cases)
        return TooEarly(before=before, ran=self._clean(), after=self.pictures(cases), txn=self._copier.open_txn)

    @cached_property
    def cleaned(self) -> Left:
        """The cleaner, after that transaction has committed."""
        self.cleaned_too_early  # noqa: B018 - enters the stage
        self._copier.commit_open()
        return Left(ran=self._clean(), pictures=self.pictures(self._good(self.made)), shown=self.show())

    @cached_property
    def read_cleaned(self) -> dict[str, Future[Mapping[str, Rows]]]:
        """After our cleaner, by batches; the twin, too, where the transaction that was open is."""
        self.cleaned  # noqa: B018 - enters the stage
        return self._each(self._good(self.made), _read_cleaned)

    @cached_property
    def fetched_cleaned(self) -> dict[str, Future[Mapping[str, Rows]]]:
        """After our cleaner, row by row without tasks; in a long run."""
        wait(self.read_cleaned.values())
        return self._each(self._good(self.made), lambda s, case: fetch(s, _tables(case), case.columns))

    def twin(self, case: Case) -> Rows:
        """The twin after our cleaner: as before, where no transaction was open."""
        later = self.read_cleaned[case.name].result()
        return later[TWIN] if TWIN in later else self.read_compacted[case.name].result().row_by_row[TWIN]

    @cached_property
    def read_cleaned_by_tasks(self) -> dict[str, Future[Mapping[str, Rows]]]:
        """After our cleaner, row by row by tasks."""
        wait(self.read_cleaned.values())
        return self._each(self._written_cases, lambda s, case: read(s, _tables(case, case.by_hive), case.columns, ROWS))

    @cached_property
    def written(self) -> dict[str, Future[Mapping[str, Rows]]]:
        """What Hive wrote afterwards into copies and twin, by batches."""
        wait(self.read_cleaned_by_tasks.values())
        wait(self.snapshots_cleaned.values())
        return self._each(self._written_cases, _write)

    @cached_property
    def compacted_by_hive(self) -> ByHive:
        """Hive's compactor on what we had compacted; then our cleaner."""
        wait(self.written.values())
        before = self.pictures(self._written_cases)
        places = [
            (place, case.by_hive[place.copy])
            for case in self._written_cases
            for place in self.places(case, case.by_hive)
            if before[place.key].enough(case.by_hive[place.copy])
        ]
        asked = [self._lanes.submit(lambda s, it=it, kind=kind: _ask(s, it, kind, HIVE_POOL)) for it, kind in places]
        wait(asked)
        return ByHive(
            asked={place.key: future for (place, _), future in zip(places, asked, strict=True)},
            shown=self._wait_for_hive(),
            read=self._each(self._written_cases, _read_written),
            left=Left(ran=self._clean(), pictures=self.pictures(self._written_cases), shown=self.show()),
            read_cleaned=self._each(
                self._written_cases, lambda s, case: fetch(s, _tables(case, case.written), case.columns)
            ),
        )

    @property
    def _written_cases(self) -> list[Case]:
        return [case for case in self._good(self.made) if case.afterwards]

    def _clean(self) -> Ran:
        return self.run("cleaner", "--table", f"{DATABASE}.*", "--retention", "0s")

    def _wait_for_hive(self) -> dict[tuple[str, str], dict[str, Any]]:
        deadline = time.monotonic() + 120
        while True:
            rows = self.show()
            if not any(row["state"] in ("initiated", "working") for row in rows.values()):
                return rows
            assert time.monotonic() < deadline, rows
            time.sleep(0.3)

    def _each(self, cases: Iterable[Case], work: Callable[[Session, Case], Result]) -> dict[str, Future[Result]]:
        futures = {case.name: self._lanes.submit(lambda session, it=case: work(session, it)) for case in cases}
        wait(futures.values())
        return futures

    def _good(self, made: Mapping[str, Future[Any]]) -> list[Case]:
        return [case for case in self._cases if made[case.name].exception() is None]


def _ask(session: Session, place: PlaceCopy, kind: str, pool: str | None = None) -> None:
    session.run(f"alter table {place.spec} compact '{kind}'" + (f" pool '{pool}'" if pool else ""))


def _tables(case: Case, copies: Iterable[str] | None = None) -> dict[str, str]:
    return {copy: table_of(case, copy) for copy in (case.every_copy if copies is None else copies)}


def _read(session: Session, case: Case) -> Reading:
    tables = _tables(case)
    indexed = _tables(case, ("minor", "major"))
    return Reading(
        row_by_row=fetch(session, tables, case.columns),
        by_batches=read(session, tables, case.columns, VECTORS) if LONG else {},
        counted=count(session, tables) if case.counted else {},
        probed=probe(session, indexed, case.probes) if case.probes else {},
        expected=count_without_indexes(session, tables[TWIN], case.probes) if case.probes else {},
    )


def _read_cleaned(session: Session, case: Case) -> dict[str, Rows]:
    copies = case.every_copy if case is OPEN else case.copies
    return read(session, _tables(case, copies), case.columns, VECTORS)


def _write(session: Session, case: Case) -> dict[str, Rows]:
    for table in _tables(case, case.written).values():
        for statement in case.afterwards:
            session.run(statement.replace("{t}", table))
    return _read_written(session, case)


def _read_written(session: Session, case: Case) -> dict[str, Rows]:
    return read(session, _tables(case, case.written), case.columns, VECTORS)
