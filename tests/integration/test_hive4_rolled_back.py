"""Cleaning after transactions that were rolled back, at a real metastore of Hive 4 whose own cleaner is off."""

# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judges.tables import delta_name, inserts, write_dir
from long_runs import in_a_long_run
from servers.derby import Derby
from servers.elsewhere import MetastoreElsewhere
from servers.fleet import Servers
from servers.jars import hive_release
from servers.mariadb import MariaDb
from servers.metastore import Metastore
from servers.postgres import Postgres
from sqlalchemy import column, create_engine, select, table

from acidlib.acid.names import Generation
from acidlib.metastore.connection import interface
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from acidlib.points import Point
from integration.children import killed_at
from integration.harness import Jobs
from integration.hive4_jobs import Service, clean_up, only_line, wait_for
from integration.hive4_model import ABORTED, COLUMNS, CRUD, ROW, Lake, Made, rows
from integration.hive4_proxy import Proxy
from integration.metastore_client import drop_partition
from integration.metastore_writes import FULL_ACID, NewTable

pytestmark = pytest.mark.live
AT_ONCE = ("--set", "hive.compactor.abortedtxn.threshold=0")
OLD = ("--set", "hive.compactor.aborted.txn.time.threshold=1ms")
PARTED = NewTable(columns=ROW, partition_keys=(("p", "string"),), properties=FULL_ACID)
READ = ("TXNS", "TXN_COMPONENTS", "TXN_TO_WRITE_ID", "NEXT_WRITE_ID", "DBS", "TBLS", "PARTITIONS")
"""What the user of the metastore's database may read, and no more; docs/hive4.md says so."""


def granted(metastore: Metastore, postgres: Postgres) -> str:
    """The URL of the metastore's database for a user who may do what is documented."""
    database = metastore.database_url.rpartition("/")[2]
    with postgres.connect(database) as connection:
        if not connection.execute("select 1 from pg_roles where rolname = 'forgetter'").fetchall():
            connection.execute("create role forgetter login")
        for name in (*READ, "MIN_HISTORY_WRITE_ID"):
            connection.execute(f'grant select on "{name}" to forgetter')
        connection.execute('grant delete on "TXN_COMPONENTS" to forgetter')
    return metastore.database_url.replace("hive:hive@", "forgetter@")


@pytest.fixture
def forgetful(service: Service, hive4_metastore: Metastore, postgres: Postgres) -> Service:
    """The jobs with the URL of the metastore's database."""
    return replace(service, jobs=Jobs(queue_url=granted(hive4_metastore, postgres)))


def noted(lake: Lake, made: Made) -> list[tuple[Any, ...]]:
    """Transaction, partition, letter and write id of what is noted of a table."""
    columns = [column(f"TC_{name}") for name in ("TXNID", "PARTITION", "OPERATION_TYPE", "WRITEID")]
    there = table("TXN_COMPONENTS", *columns, column("TC_DATABASE"), column("TC_TABLE"))
    wanted = (there.c["TC_DATABASE"] == made.database, there.c["TC_TABLE"] == made.name)
    engine = create_engine(lake.metastore.database_url)
    try:
        with engine.connect() as connection:
            return sorted(map(tuple, connection.execute(select(*columns).where(*wanted)).all()), key=str)
    finally:
        engine.dispose()


def forgotten(lake: Lake) -> None:
    """Waits until the metastore remembers no transaction that was rolled back: what is wrong is seen then."""
    wait_for(lambda: all(txn.state == "open" for txn in lake.hms.open_txns_info()))


def test_a_rolled_back_transaction_is_cleaned_after(lake_of_hive: Lake, forgetful: Service) -> None:
    lake = lake_of_hive
    made = lake.table("aborted_once", ABORTED)  # no other test of this metastore has a table of this name
    lake.check(made)
    before = made.place.directories()
    assert len(noted(lake, made)) == 1
    assert forgetful.clean("--table", made.full) == []  # neither many nor old
    assert (len(noted(lake, made)), made.place.directories()) == (1, before)
    (planned,) = forgetful.clean("--table", made.full, "--dry-run", *AT_ONCE)
    assert (planned["state"], {one["path"] for one in planned["removed"]}) == (
        "planned",
        {delta_name(4, 4), delta_name(4, 4, delete=True)},
    )
    assert (len(noted(lake, made)), made.place.directories()) == (1, before)
    (cleaned,) = forgetful.clean("--table", made.full, *AT_ONCE)
    assert (cleaned["state"], cleaned["id"]) == ("succeeded", None)
    assert cleaned["removed"] == planned["removed"]
    assert set(before) - set(made.place.directories()) == {one["path"] for one in cleaned["removed"]}
    assert noted(lake, made) == []
    lake.check(made)
    forgotten(lake)
    lake.check(made)
    assert forgetful.clean("--table", made.full, *AT_ONCE) == []


def write_to(lake: Lake, made: Made, *locations: Path, partitions: Sequence[str | None] = (None,)) -> tuple[int, int]:
    """A transaction that is still open and has written two rows to some locations, with locks; its id and write id.

    The partition None stands for the table: so does Hive as long as it is not known which partitions are written to.
    """
    types, txn = interface(), lake.open("writer")
    write_id = lake.hms.allocate_write_id(txn, TableRef(made.database, made.name))
    component = [
        types.LockComponent(
            type=2,
            level=2 if name is None else 3,
            dbname=made.database,
            tablename=made.name,
            partitionname=name,
            operationType=2,
            isTransactional=True,
        )
        for name in partitions
    ]
    request = types.LockRequest(component=component, txnid=txn, user="u", hostname="h", agentInfo="tests")
    assert lake.raw.lock(request).state == 1
    for location in locations:
        write_dir(location, delta_name(write_id, write_id), COLUMNS, inserts(write_id, rows(900, 2)))
    return txn, write_id


def with_rows(made: Made, more: list[tuple[int, int, int, Any]]) -> Made:
    """The table with further rows expected in its only place."""
    place = replace(made.place, expected=tuple(sorted((*made.place.expected, *more))))
    return replace(made, places=(place,))


def roll_back(lake: Lake, *txns: int) -> None:
    for txn in txns:
        lake.hms.abort_txn(txn, TxnType.DEFAULT)


def cleaned(forgetful: Service, *made: Made) -> dict[str, dict[str, Any]]:
    """What came of the places of these tables, by name."""
    tables = [word for one in made for word in ("--table", one.full)]
    return {one["name"]: one for one in map(named, forgetful.clean(*tables, *AT_ONCE)) if one["id"] is None}


def named(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"name": ".".join(filter(None, (entry["table"], entry["partition"])))}


def test_each_place_is_cleaned_by_itself(lake: Lake, forgetful: Service) -> None:
    """Two partitions, a table that was dropped and made anew, a writer that is still at work, results of compactors."""
    parts = lake.table("parts", partitions=["1", "2", "3"])
    one, two, three = parts.places
    both, _ = write_to(lake, parts, one.location, two.location, partitions=["p=1", "p=2"])
    only, _ = write_to(lake, parts, three.location, partitions=["p=3"])
    roll_back(lake, both, only)
    held = lake.table("held")
    before, _ = write_to(lake, held, held.location)
    writer, at_work = write_to(lake, held, held.location)
    after, later = write_to(lake, held, held.location)
    roll_back(lake, before, after)
    compactor = lake.table("compactor")
    lake.request(compactor)
    taken = lake.hms.find_next_compaction("hive-1", "4.0.1", None)
    assert taken is not None
    dead = lake.open("dead", TxnType.COMPACTION)
    lake.hms.update_compactor_state(replace(taken, highest_write_id=3), dead)
    write_dir(compactor.location, f"base_0000003_v{dead:07d}", COLUMNS, inserts(3, rows(950, 1)))
    lake.hms.abort_txn(dead, TxnType.COMPACTION)
    unaware = cleaned(forgetful, compactor)["compactor"]
    assert [one["path"] for one in unaware["removed"]] == [f"base_0000003_v{dead:07d}"]
    assert unaware["blocked"] == [f"request {taken.id}: it is worked on, and its transaction {dead} was rolled back"]
    write_dir(compactor.location, f"base_0000003_v{dead:07d}", COLUMNS, inserts(3, rows(950, 1)))
    lake.hms.mark_failed(replace(taken, error_message="it died"))
    nothing = lake.table("nothing", ())
    roll_back(lake, write_to(lake, nothing)[0])
    everything = (parts, held, compactor, nothing)

    assert set(cleaned(forgetful, parts)) == {"parts.p=1", "parts.p=2", "parts.p=3"}
    found = cleaned(forgetful, held, compactor, nothing)
    assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(
        ("held", "compactor", "nothing"), "succeeded"
    )
    assert [one["path"] for one in found["compactor"]["removed"]] == [f"base_0000003_v{dead:07d}"]
    assert {delta_name(number, number) for number in (at_work, later)} <= set(held.place.directories())
    assert [txn for txn, *_ in noted(lake, held)] == [writer, after]
    assert [noted(lake, made) for made in (parts, compactor, nothing)] == [[], [], []]
    for made in everything:
        lake.check(made)
    lake.hms.commit_txn(writer, TxnType.DEFAULT)
    assert cleaned(forgetful, held)["held"]["state"] == "succeeded"
    assert noted(lake, held) == []
    forgotten(lake)
    for made in (parts, compactor, nothing):
        lake.check(made)
    lake.check(with_rows(held, [(at_work, event[2], event[3], event[5]) for event in inserts(at_work, rows(900, 2))]))


def test_partitions_that_are_known_only_at_the_end(lake: Lake, forgetful: Service, tmp_path: Path) -> None:
    """What an insert that was rolled back wrote, wherever: in partitions elsewhere, and where none was made."""
    made = lake.table("dynamic", partitions=["1", "2"])
    one, two = made.places
    unknown = made.location / "p=3"
    lake.writes.partitions(made.database, made.name, [["4"]], location=tmp_path.as_uri(), new=PARTED)
    elsewhere = tmp_path / "0"
    txn, write_id = write_to(lake, made, one.location, unknown, elsewhere)
    assert [row[1:3] for row in noted(lake, made)] == [(None, "i")]
    # the letter that some releases have for it
    lake.sql("""update "TXN_COMPONENTS" set "TC_OPERATION_TYPE" = 'p' where "TC_TXNID" = %s""", txn)
    roll_back(lake, txn)
    before = two.directories()
    name = delta_name(write_id, write_id)
    held = forgetful.clean("--table", made.full, *AT_ONCE, "--partition", "p=1")
    assert (held, len(noted(lake, made))) == ([], 1)
    (result,) = cleaned(forgetful, made).values()
    assert (result["state"], result["partition"]) == ("succeeded", None)
    assert [one["path"] for one in result["removed"]] == [name] * 3
    assert not any((place / name).exists() for place in (one.location, unknown, elsewhere))
    assert (noted(lake, made), two.directories()) == ([], before)
    forgotten(lake)
    lake.check(made)


def test_what_is_dropped_meanwhile(lake: Lake, forgetful: Service) -> None:
    """A writer that lives longer than its table or partition leaves notes of what is not there any more."""
    parts, gone, anew = lake.table("drops", partitions=["1", "2"]), lake.table("gone"), lake.table("anew", CRUD[:1])
    late = []
    for made, names in ((parts, ["p=1"]), (gone, [None]), (anew, [None])):
        late.append(write_to(lake, made, partitions=names)[0])
    kept = {made.name: noted(lake, made) for made in (parts, gone, anew)}
    drop_partition(lake.metastore.uri, lake.database, "drops", "1")
    for made in (gone, anew):
        lake.writes.drop_table(lake.database, made.name)
    again = lake.table("anew", CRUD)  # its write ids begin with 1 again
    for name, ((txn, partition, letter, write_id),) in kept.items():
        lake.sql(
            'insert into "TXN_COMPONENTS" ("TC_TXNID", "TC_DATABASE", "TC_TABLE", "TC_PARTITION", "TC_OPERATION_TYPE", '
            '"TC_WRITEID") values (%s, %s, %s, %s, %s, %s)',
            txn, lake.database, name, partition, letter, write_id,
        )  # fmt: skip
    roll_back(lake, *late)
    # a table that does not exist cannot be named
    found = {one["name"]: one for one in map(named, forgetful.clean("--table", f"{lake.database}.*", *AT_ONCE))}
    assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(
        ("drops.p=1", "gone", "anew"), "succeeded"
    )
    assert [one["removed"] for one in found.values()] == [[], [], []]
    assert "does not exist any more" in found["gone"]["reason"]
    assert [noted(lake, made) for made in (parts, gone, again)] == [[], [], []]
    parts = replace(parts, places=parts.places[1:])
    forgotten(lake)
    for made in (parts, again):
        lake.check(made)


def test_rows_of_a_delta_that_is_needed_stay_remembered(lake: Lake, forgetful: Service) -> None:
    """As those of a streaming writer of whose transactions one was rolled back, until a compaction leaves them out."""
    made = lake.table("streamed", CRUD[:2])
    seen = inserts(4, rows(402, 2), first=2)
    write_dir(made.location, delta_name(3, 4, None), COLUMNS, [*inserts(3, rows(300, 2)), *seen])
    first, second = (lake.write(made)[0] for _ in range(2))
    roll_back(lake, first)
    lake.hms.commit_txn(second, TxnType.DEFAULT)
    third, write_id = write_to(lake, made, made.location)
    roll_back(lake, third)
    made = with_rows(made, [(4, event[2], event[3], event[5]) for event in seen])
    (result,) = cleaned(forgetful, made).values()
    assert result["state"] == "ready for cleaning"
    assert "1 rolled back transaction forgotten" in result["reason"]
    assert result["blocked"] == [f"{delta_name(3, 4, None)}: it may hold rows of transaction {first} (write id 3)"]
    assert [txn for txn, *_ in noted(lake, made)] == [first]
    assert delta_name(write_id, write_id) not in made.place.directories()
    lake.check(made)
    forgetful.compact(made)
    clean_up(lake, forgetful, made)
    assert noted(lake, made) == []
    forgotten(lake)
    lake.check(made)


def test_aborts_during_a_compaction_and_before_its_cleaning(lake: Lake, forgetful: Service, proxy: Proxy) -> None:
    made = lake.table("busy")
    during = write_to(lake, made, made.location)[0]
    proxy.before("mark_compacted", lambda: roll_back(lake, during))
    forgetful.good("major_compact", "--table", made.full, uri=proxy.uri)
    between = write_to(lake, made, made.location)[0]
    roll_back(lake, between)
    assert len(noted(lake, made)) == 2
    results = forgetful.clean("--table", made.full, *AT_ONCE)
    assert [one["state"] for one in results] == ["succeeded"] * 2
    (left,) = made.place.directories()
    assert (left.partition("_v")[0], noted(lake, made)) == ("base_0000003", [])
    forgotten(lake)
    lake.check(made)


def test_another_metastores_database_is_noticed(lake: Lake, service: Service, postgres: Postgres) -> None:
    """By its notes the directories of committed transactions would go."""
    made = lake.table("elsewhere")
    before = made.place.directories()
    other = postgres.new_database(hive_release("hive4").schema)
    with postgres.connect(other) as connection:
        for txn in range(1, 100):
            connection.execute(
                'insert into "TXNS" ("TXN_ID", "TXN_STATE", "TXN_STARTED", "TXN_LAST_HEARTBEAT", "TXN_USER", '
                """"TXN_HOST") values (%s, 'a', 1, 1, 'u', 'h')""",
                (txn,),
            )
        connection.execute(
            'insert into "TXN_COMPONENTS" ("TC_TXNID", "TC_DATABASE", "TC_TABLE", "TC_OPERATION_TYPE", "TC_WRITEID") '
            "values (1, %s, %s, 'i', 1)",
            (made.database, made.name),
        )
        connection.execute(
            'insert into "TXN_TO_WRITE_ID" ("T2W_TXNID", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID") '
            "values (1, %s, %s, 1)",
            (made.database, made.name),
        )
    there = replace(service, jobs=Jobs(queue_url=postgres.database_url(other)))
    try:
        ran = there("cleaner", "--table", made.full, *AT_ONCE)
    finally:
        postgres.drop_database(other)
    assert ran.status == 1
    assert "not the database of this metastore, or a copy that is behind" in only_line(ran)
    assert made.place.directories() == before


def test_the_status_counts_what_waits_where_no_cleaner_sees_it(
    lake: Lake, service: Service, forgetful: Service
) -> None:
    made = lake.table("waits", ABORTED)

    def findings(jobs: Service, *more: str) -> list[dict[str, Any]]:
        found = jobs("status", "--table", made.full, *OLD, *more).document["findings"]
        return [one for one in found if one["trouble"] == "rolled back and not cleaned"]

    (found,) = findings(service)
    assert "1 write id in 1 table" in found["reason"]
    assert "Hive's own cleaner is off" in found["reason"]
    assert "is no metastore's database" in found["reason"]
    assert found["setting"] == "hive.compactor.aborted.txn.time.threshold"
    assert findings(forgetful) == []
    assert findings(service, "--set", "metastore.compactor.clean.aborts.using.cleaner=false") == []
    assert [one["state"] for one in forgetful.clean("--table", made.full, *OLD)] == ["succeeded"]
    assert noted(lake, made) == []


def test_a_user_who_may_not_read_it_is_told_what_is_missing(
    lake: Lake, service: Service, hive4_metastore: Metastore, postgres: Postgres
) -> None:
    made = lake.table("unseen", ABORTED)
    with postgres.connect(hive4_metastore.database_url.rpartition("/")[2]) as connection:
        if not connection.execute("select 1 from pg_roles where rolname = 'stranger'").fetchall():
            connection.execute("create role stranger login")
    url = hive4_metastore.database_url.replace("hive:hive@", "stranger@")
    ran = replace(service, jobs=Jobs(queue_url=url))("cleaner", "--table", made.full, *AT_ONCE)
    assert (ran.status, ran.document["cleanings"]) == (0, [])
    assert "may not read where they wrote; grant what docs/hive4.md lists" in ran.err
    assert len(noted(lake, made)) == 1


@pytest.mark.parametrize(
    "point", [Point.CLEANING_CLAIMED, Point.REMOVED_ONE, Point.REMOVED_HIDDEN, Point.REMOVED_ALL, Point.CLEANED]
)
def test_a_run_that_is_killed_makes_no_row_visible(
    lake: Lake, forgetful: Service, point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("killed", ABORTED)
    was_killed = killed_at(point, lambda: cleaned(forgetful, made))
    if point is not Point.REMOVED_ONE:
        assert was_killed
    lake.check(made)
    if point is not Point.CLEANED:
        assert len(noted(lake, made)) == 1, "nothing is forgotten before all is gone"
    cleaned(forgetful, made)
    assert noted(lake, made) == []
    assert not {delta_name(4, 4), delta_name(4, 4, delete=True)} & set(made.place.directories())
    lake.check(made)


def test_beside_hives_own_cleaner(lake: Lake, forgetful: Service, servers: Servers, hive4_metastore: Metastore) -> None:
    """Both clean the same places; with neither is a row seen that was rolled back, and none is lost."""
    properties = {"hive.compactor.abortedtxn.threshold": "0"}
    made = [lake.table(f"beside{number}", ABORTED) for number in range(6)]
    with servers.metastore(Generation.HIVE4, beside=hive4_metastore, cleaner_on=True, properties=properties) as busy:
        refused = forgetful("cleaner", *AT_ONCE, uri=busy.uri)
        assert (refused.status, "beside Hive's own cleaner" in only_line(refused)) == (1, True)
        assert "metastore.compactor.cleaner.on" in only_line(refused)
        for _ in range(5):
            assert forgetful("cleaner", "--force", *AT_ONCE, uri=busy.uri).status in (0, 3)
            for one in made:
                lake.check(one)
        wait_for(lambda: all(noted(lake, one) == [] for one in made))
    forgotten(lake)
    for one in made:
        assert delta_name(4, 4) not in one.place.directories()
        lake.check(one)


def test_what_hives_cleaner_queued_for_a_second_try_is_ended(lake: Lake, forgetful: Service) -> None:
    made = lake.table("retried", ABORTED)
    lake.sql(
        'insert into "COMPACTION_QUEUE" ("CQ_ID", "CQ_DATABASE", "CQ_TABLE", "CQ_STATE", "CQ_TYPE", '
        """"CQ_RETRY_RETENTION", "CQ_COMMIT_TIME") values (900009, %s, %s, 'r', 'c', 300000, 1)""",
        made.database, made.name,
    )  # fmt: skip
    try:
        assert forgetful.clean("--table", made.full) == []
        assert lake.states(made) == ["ready for cleaning"]
        assert cleaned(forgetful, made)["retried"]["state"] == "succeeded"
        assert (lake.states(made), noted(lake, made)) == ([], [])
    finally:
        lake.sql('delete from "COMPACTION_QUEUE" where "CQ_ID" = 900009')
    lake.check(made)


def test_in_a_database_of_mariadb(
    service: Service, mariadb: MariaDb, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Which takes letters of either case for equal, where nothing is said: partitions are told apart all the same."""
    directory, where = tmp_path_factory.mktemp("mariadb"), mariadb.for_a_metastore()
    with MetastoreElsewhere(where, postgres=postgres, directory=directory) as metastore:
        metastore.start()
        grants = mariadb.granted(metastore.database, "forgetter", select=READ, delete=("TXN_COMPONENTS",))
        forgetful = Service(jobs=Jobs(queue_url=grants), uri=metastore.uri)
        with Lake(metastore) as lake:
            one, parts = lake.table("one", ABORTED), lake.table("parts", partitions=["a", "A"])
            upper, lower = parts.places
            txns = [write_to(lake, parts, place.location, partitions=[place.name])[0] for place in (upper, lower)]
            roll_back(lake, txns[1])
            dynamic = lake.table("dynamic", partitions=["1", "2"])
            roll_back(lake, write_to(lake, dynamic, *(place.location for place in dynamic.places))[0])
            found = cleaned(forgetful, one, parts, dynamic)
            assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(
                ("one", "parts.p=a", "dynamic"), "succeeded"
            )
            assert [noted(lake, made) for made in (one, dynamic)] == [[], []]
            assert [row[:2] for row in noted(lake, parts)] == [(txns[0], "p=A")]
            roll_back(lake, txns[0])
            assert set(cleaned(forgetful, parts)) == {"parts.p=A"}
            assert noted(lake, parts) == []
            forgotten(lake)
            for made in (one, parts, dynamic):
                lake.check(made)


@in_a_long_run
def test_a_metastore_whose_database_cannot_compare(
    jobs: Jobs, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Derby compares no CLOBs, in which it keeps the properties of tables: it is asked once a run."""
    derby, directory = Derby(), tmp_path_factory.mktemp("derby")
    derby.start()
    try:
        with MetastoreElsewhere(derby.for_a_metastore(), postgres=postgres, directory=directory) as metastore:
            metastore.start()
            with Lake(metastore) as lake:
                compared = [lake.table("first"), lake.table("second")]
                ran = Service(jobs=jobs, uri=metastore.uri).good("major_compact", "--table", "lake.*")
        reasons = [str(entry["statistics"]["reason"]) for entry in ran.compactions]
        assert "Cannot update parameter with JDO" in reasons[0]
        assert f"the metastore's database cannot compare, as {compared[0].full} showed" in reasons[1]
        assert ran.err.count("the database of this metastore cannot compare") == 1
    finally:
        derby.stop()


@pytest.mark.parametrize("sees", [True, False], ids=["with the database", "over thrift alone"])
def test_a_request_ends_though_a_delta_holds_rolled_back_rows(
    lake: Lake, service: Service, forgetful: Service, *, sees: bool
) -> None:
    """The lowest of all write ids was rolled back, so nothing may be forgotten by a mark; the highest lies alone."""
    made = lake.table("lowest", ())
    seen = inserts(2, rows(402, 2), first=2)
    write_dir(made.location, delta_name(1, 2, None), COLUMNS, [*inserts(1, rows(300, 2)), *seen])
    first, second = (write_to(lake, made)[0] for _ in range(2))
    third, highest = write_to(lake, made, made.location)
    roll_back(lake, first, third)
    lake.hms.commit_txn(second, TxnType.DEFAULT)
    made = with_rows(made, [(2, event[2], event[3], event[5]) for event in seen])
    lake.check(made)
    assert service.compact(made).states == ["ready for cleaning"]
    (result,) = (forgetful if sees else service).clean("--table", made.full)
    assert (result["state"], [one["path"] for one in result["removed"]]) == (
        "succeeded",
        [delta_name(highest, highest)],
    )
    assert lake.states(made) == ["succeeded"]
    assert [txn for txn, *_ in noted(lake, made)] == ([first] if sees else [first, third])
    assert made.place.directories() == [delta_name(1, 2, None)]
    lake.check(made)
    assert cleaned(forgetful, made)["lowest"]["state"] == "ready for cleaning"
    assert [txn for txn, *_ in noted(lake, made)] == [first]
    lake.check(made)


def test_what_hive_itself_rolled_back(lake_of_hive: Lake, forgetful: Service) -> None:
    """Inserts with dynamic partitions, of which one is new, overwrites, updates, and tables without row ids."""
    hive, name = lake_of_hive.hive, lake_of_hive.database
    assert hive is not None
    hive.run("set hive.exec.dynamic.partition.mode=nonstrict")
    hive.run(
        f"create table {name}.acid (id int) partitioned by (p string) stored as orc "
        "tblproperties('transactional'='true')"
    )
    hive.run(
        f"create table {name}.plain (id int) partitioned by (p string) stored as parquet "
        "tblproperties('transactional'='true', 'transactional_properties'='insert_only')"
    )
    kinds = ("acid", "plain")
    for kind in kinds:
        hive.run(f"insert into {name}.{kind} values (1, 'a'), (2, 'a'), (3, 'b')")
    hive.run("set hive.test.rollbacktxn=true")
    for kind in kinds:
        hive.run(f"insert into {name}.{kind} values (4, 'a'), (5, 'new')")
        hive.run(f"insert overwrite table {name}.{kind} partition (p) values (6, 'b')")
    hive.run(f"update {name}.acid set id = id + 100 where p = 'a'")
    hive.run(f"delete from {name}.acid where p = 'b'")
    hive.run("set hive.test.rollbacktxn=false")

    def read() -> list[list[Any]]:
        return [sorted(map(str, hive.run(f"select id, p from {name}.{kind}"))) for kind in kinds]

    def directories() -> set[str]:
        places = (lake_of_hive.metastore.warehouse / f"{name}.db").rglob("*")
        return {
            place.name.partition("_")[0] for place in places if place.name.startswith(("base_", "delta_", "delete_"))
        }

    before = read()
    assert [len(rows_of) for rows_of in before] == [3, 3]
    assert directories() == {"base", "delta", "delete"}
    found = forgetful.clean("--table", f"{name}.*", *AT_ONCE)
    assert {(one["table"], one["partition"]) for one in found} >= {("acid", "p=a"), ("acid", "p=b"), ("plain", "p=a")}
    assert {one["state"] for one in found} == {"succeeded"}
    assert directories() == {"delta"}
    assert [noted(lake_of_hive, made(name, kind)) for kind in kinds] == [[], []]
    assert read() == before
    forgotten(lake_of_hive)
    assert read() == before


def made(database: str, name: str) -> Made:
    """A table that Hive made."""
    return Made(database=database, name=name, location=Path(), places=())
