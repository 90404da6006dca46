"""The jobs against a real metastore of Hive 3.1, with its queue or with one of our own."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from claim_directories import age_claim
from servers.metastore import Metastore

from integration.harness import Jobs, Ran
from integration.hive3_tables import Client, Gate, Laid, full_acid, insert_only, lay

NOW = ("--retention", "0s")
METASTORES, OWN = "the metastore's queue", "a queue of our own"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The jobs against one metastore, with one kind of queue, and a database of the test's own."""

    jobs: Jobs
    metastore: Metastore
    hives_queue: bool
    client: Client
    database: str
    gate: Gate | None = None

    @property
    def uri(self) -> str:
        """Where the jobs look for the metastore."""
        return self.gate.uri if self.gate else self.metastore.uri

    def __call__(self, job: str, *arguments: str | Path, **more: Any) -> Ran:
        return self.jobs(job, "--metastore-uri", self.uri, *arguments, **more)

    def good(self, job: str, *arguments: str | Path) -> Ran:
        ran = self(job, *arguments)
        assert ran.status == 0, ran
        return ran

    def lay(self, fixture: str = "a_crud", **more: Any) -> Laid:
        """A table of a fixture in this database."""
        return lay(self.client, full_acid()[fixture], self.database, **more)

    def lay_insert_only(self, fixture: str) -> Laid:
        """An insert-only table of a fixture in this database."""
        return lay(self.client, insert_only(fixture), self.database)

    def rows(self) -> list[dict[str, Any]]:
        """What our SHOW COMPACTIONS says about this database, oldest first."""
        found = self.good("show_compactions").compactions
        return sorted((row for row in found if row["database"] == self.database), key=lambda row: row["id"])

    def states(self) -> list[str]:
        return [row["state"] for row in self.rows()]

    def hive_shows(self) -> list[str]:
        """The states in Hive's own SHOW COMPACTIONS, oldest first."""
        return [row.state for _, row in sorted(self.client.shown(self.database).items())]

    def clean(self, *arguments: str) -> list[dict[str, Any]]:
        """Runs the cleaner; what it says about this database, in the order of requests."""
        found = self.good("cleaner", *NOW, *arguments).document["cleanings"]
        return sorted((entry for entry in found if entry["database"] == self.database), key=lambda one: one["id"] or 0)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """One statement to the metastore's own database; its rows."""
        url = self.metastore.database_url.replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            done = connection.execute(statement.encode(), values)
            return done.fetchall() if done.description else []

    def components(self) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
        """What the metastore remembers of transactions in this database: those that committed, and the others.

        Table, partition, write id and operation of each row.
        """
        committed = self.sql(
            "SELECT ctc_table, ctc_partition, ctc_writeid, ctc_update_delete FROM completed_txn_components"
            " WHERE ctc_database = %s", self.database,
        )  # fmt: skip
        others = self.sql(
            "SELECT tc_table, tc_partition, tc_writeid, tc_operation_type FROM txn_components WHERE tc_database = %s",
            self.database,
        )
        return Counter(committed), Counter(others)


@contextmanager
def site(jobs: Jobs, metastore: Metastore, *, hives_queue: bool) -> Iterator[Site]:
    metastore.start()  # a test that failed may have left it down
    client = Client(metastore.uri)
    database = f"db{next(_numbers)}"
    client.database(database)
    if hives_queue:
        jobs = replace(jobs, queue_url=metastore.database_url)
    try:
        yield Site(jobs=jobs, metastore=metastore, hives_queue=hives_queue, client=client, database=database)
    finally:
        metastore.start()
        client.reconnect()
        for lock in client.locks():
            if not lock.txnid:
                client.unlock(lock.lockid)
        for txn in client.transactions():
            client.abort(txn)
        client.call.drop_database(database, True, True)  # with its rows in the queue
        client.close()


def forget_claim(laid: Laid) -> None:
    """As if ten minutes had passed since a run that is dead wrote its claim into the directory."""
    if (laid.location / "_acidlib_claim").exists():
        age_claim(laid.location, 700)
