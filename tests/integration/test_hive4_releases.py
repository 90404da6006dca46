"""Our jobs on Hive 4.1.0 and 4.2.0: from the request to the cleaning, judged by that Hive; all else has 4.0.1."""

# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from judges.tables import Transaction
from long_runs import amount
from servers.fleet import Servers
from servers.hive_sessions import DriverSession, HiveSessions
from servers.jars import LATER, java_for, newest_of_later
from servers.metastore import Metastore
from servers.postgres import Postgres
from servers.sql import Row

from acidlib.acid.names import Generation
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import CompactionRequest
from acidlib.ports.hive4_cleaning import Hive4Cleaning
from integration.conftest import started
from integration.harness import Jobs
from integration.hive4_jobs import Service, only_line, wait_for
from integration.hive4_model import ABORTED, Lake, Made, rows
from integration.hive4_proxy import Proxy
from integration.hive4_statistics import GATHERING, gathered
from integration.test_hive4_rolled_back import AT_ONCE, forgotten, granted, noted

pytestmark = pytest.mark.live
LOW = ("--set", "hive.compactor.delta.num.threshold=1")
REGISTERING = pytest.mark.parametrize("hive", amount(["4.2.0"], long=["4.2.0", "4.1.0 registering"]), indirect=True)
RENAMED = (
    ("TBLS", "TBL_NAME"),
    ("COMPACTION_QUEUE", "CQ_TABLE"),
    ("TXN_TO_WRITE_ID", "T2W_TABLE"),
    ("NEXT_WRITE_ID", "NWI_TABLE"),
    ("COMPLETED_TXN_COMPONENTS", "CTC_TABLE"),
    ("MIN_HISTORY_WRITE_ID", "MH_TABLE"),
)
"""Where a metastore has the name of a table that it renames."""
STATEMENTS = {
    "select count(*) from lake.w where {go_on}": "t",
    "select count(*) from lake.u where {go_on} and exists (select 1 from lake.t where t.id = u.id)": "tu",
    "update lake.t set v = 'x' where {go_on}": "t",
    "delete from lake.t where {go_on}": "t",
    "insert into lake.u select * from lake.t where {go_on}": "t",
    "insert overwrite table lake.u select * from lake.t where {go_on}": "t",
    "create table lake.c as select * from lake.t where {go_on}": "t",
    "merge into lake.t using (select id from lake.u where {go_on}) s on t.id = s.id when matched then delete": "tu",
    "merge into lake.t using (select id from lake.u where {go_on}) s on t.id = s.id "
    "when matched then update set v = 'y' when not matched then insert values (s.id, 'n')": "tu",
}
"""Statements, and the tables that they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive:
    """A metastore of one of these releases, and sessions on it."""

    metastore: Metastore
    sessions: HiveSessions


@pytest.fixture(scope="module", params=amount([newest_of_later()], long=list(LATER)))
def hive(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Hive]:
    """The servers of a release; skipped where no Java is new enough for it."""
    version, _, registering = request.param.partition(" ")
    if java_for(version) is None:
        pytest.skip(f"Hive {version} needs a JDK {LATER[version].java} or newer: none in JAVA_HOME or /usr/lib/jvm")
    properties = {"metastore.txn.use.minhistorywriteid": "true"} if registering else {}
    metastore = started(lambda: servers.metastore(Generation.HIVE4, version=version, properties=properties))
    with metastore, started(lambda: servers.hive_sessions(metastore)) as sessions:
        yield Hive(metastore=metastore, sessions=sessions)


@pytest.fixture
def sql(hive: Hive) -> Iterator[DriverSession]:
    """A session of this Hive."""
    with hive.sessions.session() as session:
        yield session


@pytest.fixture
def lake(hive: Hive, sql: DriverSession) -> Iterator[Lake]:
    """A database that this Hive looks at, too."""
    with Lake(hive.metastore, sql) as made:
        yield made


@pytest.fixture
def proxied(hive: Hive) -> Iterator[Proxy]:
    """What stands between the jobs and this metastore."""
    with Proxy(hive.metastore) as made:
        yield made


@pytest.fixture
def service(jobs: Jobs, hive: Hive) -> Service:
    """The jobs on this metastore."""
    return Service(jobs=jobs, uri=hive.metastore.uri)


@pytest.fixture
def looker(hive: Hive, postgres: Postgres) -> str:
    """The URL of the metastore's database for somebody who may only read what readers register there."""
    database = hive.metastore.database_url.rpartition("/")[2]
    with postgres.connect(database) as connection:
        if not connection.execute("select 1 from pg_roles where rolname = 'looker'").fetchall():
            connection.execute("create role looker login")
        connection.execute('grant select on "MIN_HISTORY_WRITE_ID" to looker')
    return hive.metastore.database_url.replace("hive:hive@", "looker@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query of Hive that goes on until it is let go."""

    result: Future[list[Row]]
    barrier: Path

    def end(self) -> list[Row]:
        """Its rows."""
        self.barrier.touch()
        return self.result.result(120)


@pytest.fixture
def begin_statement(hive: Hive, tmp_path: Path) -> Iterator[Callable[[str], Query]]:
    """Begins a statement, which has {go_on} among its conditions; all that were begun end with the test.

    It has registered then, and others before it have not ended.
    """
    begun: list[Query] = []

    def run(statement: str, barrier: Path) -> list[Row]:
        there = f"reflect('HiveSessions', 'waitFor', '{barrier}') = 'there'"
        with hive.sessions.session() as session:
            return session.run(statement.format(go_on=there))

    with ThreadPoolExecutor() as pool:

        def begin(statement: str) -> Query:
            barrier = tmp_path / f"go on {len(begun)}"
            before = set(registered(hive).values())
            query = Query(result=pool.submit(run, statement, barrier), barrier=barrier)
            begun.append(query)
            wait_for(lambda: query.result.done() or bool(set(registered(hive).values()) - before))
            assert not query.result.done(), query.result.result()
            return query

        yield begin
        for query in begun:
            query.barrier.touch()


@pytest.fixture
def begin(begin_statement: Callable[[str], Query]) -> Callable[[Made], Query]:
    """Begins a query that reads a table."""
    return lambda made: begin_statement(f"select count(*), sum(id) from {made.full} where {{go_on}}")


def registered(hive: Hive) -> dict[tuple[str, str], int]:
    """The transactions that registered for tables."""
    with psycopg.connect(hive.metastore.database_url.replace("+psycopg", "")) as connection:
        rows = connection.execute('select "MH_DATABASE", "MH_TABLE", "MH_TXNID" from "MIN_HISTORY_WRITE_ID"').fetchall()
    return {(database, table): txn for database, table, txn in rows}


def counted(made: Made) -> list[Row]:
    """What `begin` has to find."""
    return [(len(made.expected), sum(row[3][0] for row in made.expected))]


def test_from_the_request_to_the_cleaning(lake: Lake, service: Service, looker: str, sql: DriverSession) -> None:
    made = lake.table("t")
    sql.run(f"alter table {made.full} compact 'minor'")
    assert service.good("minor_compact").states == ["ready for cleaning"]
    lake.check(made)
    made = lake.add(made, [Transaction(inserts=rows(700, 4))], 4)
    service.good("initiator", "--table", made.full, *LOW)
    assert lake.states(made) == ["ready for cleaning", "initiated"]
    assert service.good("major_compact").states == ["ready for cleaning"]
    lake.check(made)
    assert [one["state"] for one in looking(service, looker).clean("--table", made.full)] == ["succeeded"] * 2
    (left,) = made.place.directories()
    assert left.startswith("base_0000004_v")
    assert lake.states(made) == ["succeeded"] * 2
    lake.check(made)


def test_rolled_back_transactions_are_cleaned_after(
    lake: Lake, service: Service, hive: Hive, postgres: Postgres, begin: Callable[[Made], Query]
) -> None:
    """While a query reads the table, for none looks at what was rolled back."""
    made = lake.table("t", ABORTED)
    query = begin(made)
    forgetful = looking(service, granted(hive.metastore, postgres))
    (result,) = forgetful.clean("--table", made.full, *AT_ONCE)
    assert (result["state"], len(result["removed"])) == ("succeeded", 2)
    assert noted(lake, made) == []
    lake.check(made)
    assert query.end() == counted(made)
    forgotten(lake)
    lake.check(made)


def looking(service: Service, url: str) -> Service:
    """The jobs with a URL of the metastore's database."""
    return replace(service, jobs=Jobs(queue_url=url))


def test_statistics_are_those_of_the_result(lake: Lake, service: Service, hive: Hive, proxied: Proxy) -> None:
    """What another changes meanwhile stays; of a partition it is done in the metastore's database."""
    with hive.sessions.session(GATHERING) as session:
        made = gathered(lake, session, "told")
        changes = f"alter table {made.full} set tblproperties ('theirs'='y')"
        proxied.before("alter_table_req", lambda: session.run(changes))
        (done,) = service.good("major_compact", "--table", made.full, uri=proxied.uri).compactions
        assert (done["statistics"]["reason"], proxied.calls["alter_table_req"]) == (None, 2)
        assert (made.parameters()["mine"], made.parameters()["theirs"], made.told()) == ("x", "y", made.base())
        assert made.count() == (4, True)
        parts = gathered(lake, session, "parts", partitioned=True)
        before = parts.parameters()
        told = looking(service, hive.metastore.database_url)
        assert told.good("major_compact", "--table", parts.full).compactions[0]["statistics"]["reason"] is None
        files, size = parts.base()
        assert parts.parameters() == {**before, "numFiles": files, "totalSize": size}
        assert parts.count() == (4, True)


@REGISTERING
def test_where_readers_register_what_nobody_reads_goes(
    lake: Lake, service: Service, looker: str, hive: Hive, begin: Callable[[Made], Query]
) -> None:
    """Queries of Hive itself are under way; what they do not read is cleaned while they are."""
    made, other = lake.table("t"), lake.table("other")
    reads, reads_other = begin(made), begin(other)
    txns = registered(hive)
    service.compact(made)
    service.compact(other)
    before = made.place.directories(), other.place.directories()
    cleaner = looking(service, looker)
    of_t, of_other = cleaner.clean()
    assert (of_t["state"], of_other["state"]) == ("ready for cleaning",) * 2
    assert f"transaction {txns['lake', 't']} is open since before its commit and reads the table" in of_t["reason"]
    assert f"transaction {txns['lake', 'other']} is open" in of_other["reason"]
    assert (made.place.directories(), other.place.directories()) == before
    assert reads.end() == counted(made)

    unregistered = lake.open("ann")  # it has a snapshot, and what it will read is not known
    later = lake.add(made, [Transaction(inserts=rows(700, 4))], 4)
    planned = cleaner.clean("--table", made.full, "--dry-run")
    assert [one["state"] for one in planned] == ["planned"]
    assert f"transaction {unregistered} may be older than its commit" in planned[0]["reason"]
    lake.hms.commit_txn(unregistered, TxnType.DEFAULT)

    of_t, of_other = cleaner.clean()
    assert (of_t["state"], of_other["state"]) == ("succeeded", "ready for cleaning")
    assert len(made.place.directories()) == 2
    lake.check(later)
    assert other.place.directories() == before[1]
    assert reads_other.end() == counted(other)
    assert [one["state"] for one in cleaner.clean()] == ["succeeded"]
    assert len(other.place.directories()) == 1
    lake.check(other)


@pytest.mark.parametrize("hive", amount(["4.2.0"], long=list(LATER)), indirect=True)
def test_a_request_of_iceberg_is_refused_by_its_name(lake: Lake, service: Service) -> None:
    """What stands behind it is done."""
    made = lake.table("t")
    lake.request(made)
    lake.sql('update "COMPACTION_QUEUE" set "CQ_ID" = 901')
    columns = '"CQ_ID", "CQ_DATABASE", "CQ_TABLE", "CQ_STATE", "CQ_TYPE"'
    lake.sql(f'insert into "COMPACTION_QUEUE" ({columns}) values (%s, %s, %s, %s, %s)', 900, "lake", "ice", "i", "*")
    service.good("major_compact")
    assert lake.states(made) == ["ready for cleaning"]
    (other,) = lake.hms.show_all_compactions()[1]
    assert (other.id, other.kind, other.state) == (900, "SMART_OPTIMIZE", "refused")


@REGISTERING
def test_a_table_that_is_renamed_meanwhile_waits_for_the_next_run(
    lake: Lake, service: Service, looker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers were looked for under its old name."""
    made = lake.table("before")
    service.compact(made)
    before = made.place.directories()
    real = Hive4Cleaning.ready

    def late(self: Hive4Cleaning) -> list[CompactionRequest]:
        found = real(self)
        for table, column in RENAMED:
            lake.sql(f'update "{table}" set "{column}" = %s where "{column}" = %s', "after", "before")
        return found

    monkeypatch.setattr(Hive4Cleaning, "ready", late)
    cleaner = looking(service, looker)
    ran = cleaner("cleaner", "--retention", "0s")
    (entry,) = ran.document["cleanings"]
    assert (entry["state"], entry["removed"]) == ("conflict", [])
    assert "renamed" in entry["reason"]
    assert made.place.directories() == before
    monkeypatch.setattr(Hive4Cleaning, "ready", real)
    assert [one["state"] for one in cleaner.clean()] == ["succeeded"]


@pytest.mark.parametrize("statement", amount([], long=list(STATEMENTS)))
@pytest.mark.parametrize("hive", ["4.2.0"], indirect=True)
def test_every_statement_registers_all_that_it_reads(
    lake: Lake, sql: DriverSession, begin_statement: Callable[[str], Query], hive: Hive, statement: str
) -> None:
    """What a cleaning relies on: a transaction that registered something reads nothing else."""
    for name in "tu":
        sql.run(f"create table lake.{name} (id int, v string) stored as orc tblproperties('transactional'='true')")
        sql.run(f"insert into lake.{name} values (1, 'a'), (2, 'b')")
    sql.run("create view lake.w as select * from lake.t")
    query = begin_statement(statement)
    assert {table for _, table in registered(hive)} == set(STATEMENTS[statement])
    query.end()


@REGISTERING
def test_without_the_database_cleaning_is_left_to_hives_cleaner(
    lake: Lake, service: Service, hive: Hive, postgres: Postgres
) -> None:
    made = lake.table("t")
    service.compact(made)
    before = made.place.directories()
    for dry in ((), ("--dry-run",)):
        (waits,) = service.clean(*dry)
        assert (waits["state"], waits["removed"]) == ("planned" if dry else "ready for cleaning", [])
        assert re.match(
            r"left to Hive's own cleaner, which is off: readers register .* is none of a metastore", waits["reason"]
        )
    another = postgres.new_database()
    with postgres.connect(another) as connection:
        connection.execute('create table "MIN_HISTORY_WRITE_ID"'
                           '("MH_TXNID" bigint, "MH_DATABASE" text, "MH_TABLE" text, "MH_WRITEID" bigint)')  # fmt: skip
    ran = looking(service, postgres.database_url(another))("cleaner", "--retention", "0s")
    assert ran.status == 1
    assert "it is not the database of this metastore" in only_line(ran)
    assert made.place.directories() == before
    assert lake.states(made) == ["ready for cleaning"]
