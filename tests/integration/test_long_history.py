"""A history of 100,000 requests makes no job slower: each place is found by an index, all of it is looked at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from located import at
from sqlalchemy import Engine, event

from acidlib.model.requests import RequestFacts, format_map
from acidlib.queue.sql import SqlQueue
from acidlib.queue.tables import RequestTable
from integration.harness import Jobs
from integration.test_backfill import OVER, Places

ROWS, OTHERS, HERE = 100_000, 50, 6
KEPT = tuple(
    word
    for state in ("succeeded", "failed", "refused")
    for word in ("--set", f"metastore.compactor.history.retention.{state}={ROWS}")
)


class Watched:
    """What a job asks of SQLite, and how many rows it makes requests of."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = file
        self._asked: dict[str, object] = {}
        self._times: list[str] = []
        self.read = 0
        made = RequestTable.request

        def request(table: RequestTable, row: object) -> object:
            self.read += 1
            return made(table, row)

        monkeypatch.setattr(RequestTable, "request", request)

    def note(self, _: object, __: object, statement: str, parameters: object, *___: object) -> None:
        """A statement that is about to be carried out."""
        if "COMPACTIONS" in statement and not statement.startswith(("CREATE", "INSERT", "PRAGMA")):
            self._asked[statement] = parameters
            self._times.append(statement)

    def scans(self) -> int:
        """How many statements since the last time went through the whole history."""
        with sqlite3.connect(self._file) as connection:
            scanning = {
                statement
                for statement, parameters in self._asked.items()
                for row in connection.execute(f"explain query plan {statement}", parameters)
                if row[-1].startswith("SCAN COMPLETED_COMPACTIONS")
            }
        connection.close()
        found = sum(statement in scanning for statement in self._times)
        self._asked, self._times = {}, []
        return found


@pytest.fixture
def watched(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """A queue whose history is long, of other places than those that the test has."""
    with SqlQueue(jobs.queue_url):
        pass
    file = Path(jobs.queue_url.removeprefix("sqlite:///"))
    facts = RequestFacts(location=at(tmp_path / "elsewhere"), published_ms=1, outputs=("base_0000001",), files="x")
    stored = format_map(dict(facts.properties().items()))
    with sqlite3.connect(file) as connection:
        connection.execute(
            "with recursive number(n) as (select 1 union all select n + 1 from number where n < :rows) "
            "insert into COMPLETED_COMPACTIONS (CC_ID, CC_DATABASE, CC_TABLE, CC_PARTITION, CC_STATE, CC_TYPE, "
            "CC_TBLPROPERTIES, CC_ENQUEUE_TIME, CC_END, CC_PLACE, CC_ENTITY) "
            "select n + 1000, 'db', 't', 'p=x' || (n % :others), substr('sfc', n % 3 + 1, 1), 'a', "
            ":stored, 1, strftime('%s') * 1000, printf('%032x', n % :others), printf('%032x', n % :others) from number",
            {"rows": ROWS, "others": OTHERS, "stored": stored},
        )
    connection.close()
    watched = Watched(file, monkeypatch)
    event.listen(Engine, "before_cursor_execute", watched.note)
    yield watched
    event.remove(Engine, "before_cursor_execute", watched.note)


def test_no_job_goes_through_a_long_history_for_each_place(jobs: Jobs, tmp_path: Path, watched: Watched) -> None:
    places = Places(tmp_path / "db.db" / "t", HERE)
    decided = jobs.good("initiator", *places.asked, *OVER).document["totals"]
    assert (decided["queued"], watched.scans()) == (HERE, 1)  # was the location ever cleaned
    assert jobs.good("major_compact", *KEPT).states == ["ready for cleaning"] * HERE
    assert watched.scans() == 1  # who has more than is kept
    assert jobs.good("minor_compact", *places.asked, *KEPT, "--dry-run").states == ["already compact"] * HERE
    assert watched.scans() == 1
    cleaned = jobs.good("cleaner", "--retention", "0s").document["cleanings"]
    assert [entry["state"] for entry in cleaned] == ["succeeded"] * HERE
    assert watched.scans() == 1  # every place once
    assert watched.read < 100 * HERE, "rows of other places are not even read"
