"""What a queue on a metastore's own tables does: what Hive 3.1 reads of ours, and what we make of Hive's."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from claiming import claim_next
from sqlalchemy import create_engine, inspect, text

from acidlib.config.settings import default_settings
from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State, format_map, split_properties
from acidlib.model.tables import TableRef
from acidlib.ports.sql import history_retention
from acidlib.queue.sql import SqlQueue
from acidlib.queue.tables import ERROR

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
DAY_MS = 86_400_000
KEPT = history_retention(default_settings())

_REQUEST = (
    "{0}_id bigint primary key, {0}_database varchar(128) not null, {0}_table varchar(128) not null, "
    "{0}_partition varchar(767), {0}_state char(1) not null, {0}_type char(1) not null, "
    "{0}_tblproperties varchar(2048), {0}_worker_id varchar(128), {0}_start bigint, {0}_run_as varchar(128), "
    "{0}_highest_write_id bigint, {0}_meta_info varbinary(2048), {0}_hadoop_job_id varchar(32)"
)
IMITATION = (
    f"create table compaction_queue ({_REQUEST.format('cq')})",
    f"create table completed_compactions ({_REQUEST.format('cc')}, cc_end bigint)",
    "create table next_compaction_queue_id (ncq_next bigint not null)",
    "insert into next_compaction_queue_id values (1)",
    "create table aux_table (mt_key1 varchar(128), mt_key2 bigint, mt_comment varchar(255), primary key "
    "(mt_key1, mt_key2))",
    "create table next_txn_id (ntxn_next bigint not null)",
    "create table txns (txn_id bigint primary key, txn_state char(1), txn_started bigint, txn_last_heartbeat bigint, "
    "txn_user varchar(128), txn_host varchar(128))",
    "create table txn_components (tc_txnid bigint, tc_database varchar(128), tc_table varchar(128), "
    "tc_partition varchar(767), tc_operation_type char(1), tc_writeid bigint)",
    "create table completed_txn_components (ctc_txnid bigint, ctc_database varchar(128), ctc_table varchar(256), "
    "ctc_partition varchar(767), ctc_writeid bigint, ctc_update_delete char(1))",
    'create table "VERSION" ("VER_ID" bigint, "SCHEMA_VERSION" varchar(127), "VERSION_COMMENT" varchar(255))',
    "insert into \"VERSION\" values (1, '3.1.0', 'Hive release version 3.1.0')",
)


@dataclass
class Hive:
    """A metastore's database, spoken to as Hive does: in upper case and without quotes."""

    url: str

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        """The rows of the last statement."""
        rows: list[tuple[object, ...]] = []
        engine = create_engine(self.url)
        with engine.begin() as connection:
            for statement in statements:
                found = connection.execute(text(statement))
                rows = [tuple(row) for row in found] if found.returns_rows else []
        engine.dispose()
        return rows

    def write(self, table: str, **values: object) -> None:
        """Adds a row."""
        engine = create_engine(self.url)
        names = ", ".join(values)
        marks = ", ".join(f":v{number}" for number in range(len(values)))
        given = {f"v{number}": value for number, value in enumerate(values.values())}
        with engine.begin() as connection:
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), given)  # noqa: S608 # names of this file
        engine.dispose()

    def queued(self, number: int, *, table: str = "COMPACTION_QUEUE", **values: object) -> None:
        """Adds a row of the queue or the history, as Hive or another tool writes it."""
        prefix = "CQ" if table == "COMPACTION_QUEUE" else "CC"
        given = {"DATABASE": "db", "TABLE": "t", "STATE": "i", "TYPE": "a"} | values
        self.write(table, **{f"{prefix}_ID": number}, **{f"{prefix}_{end}": value for end, value in given.items()})

    def done(self, number: int, **values: object) -> None:
        """Adds a row of the history."""
        self.queued(number, table="COMPLETED_COMPACTIONS", **values)

    def shape(self) -> dict[str, list[tuple[str, str]]]:
        """All tables and columns."""
        engine = create_engine(self.url)
        inspector = inspect(engine)
        found = {
            name: [(column["name"], str(column["type"])) for column in inspector.get_columns(name)]
            for name in inspector.get_table_names()
        }
        engine.dispose()
        return found


def request(
    table: str = "t", *, partition: str | None = None, kind: CompactionType = MAJOR, **properties: str
) -> CompactionRequest:
    facts, others = split_properties(properties)
    return CompactionRequest(
        id=0, ref=TableRef("db", table, partition), type=kind, properties=tuple(others.items()), facts=facts
    )


def ready(queue: SqlQueue, number: int, mark: int | None = None) -> None:
    """Takes a waiting request to where the cleaner finds it."""
    assert queue.claim_id(number, "w", 1) is not None
    queue.mark_compacted(number, "w", 1, highest_write_id=mark)


def near_now(milliseconds: object) -> bool:
    """MySQL's clock is in whole seconds."""
    return isinstance(milliseconds, int) and abs(milliseconds - time.time() * 1000) < 60_000


def write_rows(hive: Hive, partition: str | None, *, table: str = "t", offset: int = 0) -> None:
    """Writes 1 to 7 at a place, of committed, aborted and open transactions, and one without a write id.

    `offset` is added to the transactions' ids.
    """
    place = {"TABLE": table, "PARTITION": partition}
    for write_id in (1, 5, 7, None):
        hive.write(
            "COMPLETED_TXN_COMPONENTS",
            CTC_TXNID=1,
            CTC_DATABASE="db",
            CTC_WRITEID=write_id,
            CTC_UPDATE_DELETE="N",
            **{f"CTC_{end}": value for end, value in place.items()},
        )
    for txn, write_id in ((102, 2), (105, 5), (107, 7), (203, 3)):
        hive.write(
            "TXN_COMPONENTS",
            TC_TXNID=txn + offset,
            TC_DATABASE="db",
            TC_OPERATION_TYPE="i",
            TC_WRITEID=write_id,
            **{f"TC_{end}": value for end, value in place.items()},
        )


def write_txns(hive: Hive, *, offset: int = 0, heartbeat: int = 1) -> None:
    """The transactions of `write_rows`: the last is open."""
    for txn in (102, 105, 107, 203):
        hive.write(
            "TXNS",
            TXN_ID=txn + offset,
            TXN_STATE="o" if txn == 203 else "a",
            TXN_STARTED=heartbeat,
            TXN_LAST_HEARTBEAT=heartbeat,
            TXN_USER="u",
            TXN_HOST="h",
        )


def left(hive: Hive) -> dict[tuple[object, object], tuple[list[object], list[object]]]:
    """What is left at each place: the committed write ids and the transactions."""
    found: dict[tuple[object, object], tuple[list[object], list[object]]] = {}
    statements = (
        "SELECT CTC_TABLE, CTC_PARTITION, CTC_WRITEID FROM COMPLETED_TXN_COMPONENTS",
        "SELECT TC_TABLE, TC_PARTITION, TC_TXNID FROM TXN_COMPONENTS",
    )
    for index, statement in enumerate(statements):
        for table, partition, value in hive.run(statement):
            found.setdefault((table, partition), ([], []))[index].append(value)
    for committed, txns in found.values():
        committed.sort(key=lambda value: -1 if value is None else value)
        txns.sort(key=str)
    return found


ALL = ([None, 1, 5, 7], [102, 105, 107, 203])
LATER = ([None, 7], [107, 203])
OPEN = ([], [203])


def _all_versions(hive: Hive) -> str:
    return f"DELETE FROM {_version(hive)}"  # noqa: S608 # one of two names


def _set_version(hive: Hive, number: int, version: str) -> None:
    quote = '"' if '"' in _version(hive) else ""
    values = {"VER_ID": number, "SCHEMA_VERSION": version, "VERSION_COMMENT": "of a test"}
    hive.write(_version(hive), **{f"{quote}{name}{quote}": value for name, value in values.items()})


def _version(hive: Hive) -> str:
    """The one table of these that the script for PostgreSQL quotes."""
    return "VERSION" if hive.url.startswith("mysql") else '"VERSION"'


class HiveQueueBehaviour:
    """To be inherited by tests that have fixtures `hive`, a metastore's database, and `queue` on it."""

    @pytest.fixture
    def written(self, hive: Hive) -> Hive:
        write_txns(hive)
        for partition in ("ds=A", "ds=a", None):
            write_rows(hive, partition)
        write_rows(hive, None, table="u")
        return hive

    def test_a_request_goes_the_way_that_hive_knows(self, hive: Hive, queue: SqlQueue) -> None:
        before = hive.shape()
        assert queue.schema_version == "3.1.0"
        assert queue.enqueue(request(partition="ds=a/h=1", kind=MINOR, **{"compactor.k": "v"}), now_ms=5).id == 1
        columns = (
            "CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_PARTITION, CQ_STATE, CQ_TYPE, CQ_TBLPROPERTIES, CQ_WORKER_ID, CQ_RUN_AS, "
            "CQ_HIGHEST_WRITE_ID"
        )
        of_hive = f"SELECT {columns} FROM COMPACTION_QUEUE"  # noqa: S608 # columns of this file
        text_of_properties = "1:11:compactor.k1:v"
        assert hive.run(of_hive) == [(1, "db", "t", "ds=a/h=1", "i", "i", text_of_properties, None, None, None)]
        assert hive.run("SELECT NCQ_NEXT FROM NEXT_COMPACTION_QUEUE_ID") == [(2,)]
        assert hive.run("SELECT MT_KEY1, MT_KEY2 FROM AUX_TABLE") == [("CompactionScheduler", 0)]

        claimed = claim_next(queue, MINOR, "w-1", 5)
        assert claimed is not None
        assert near_now(claimed.start_ms)
        queue.change(1, "w-1", run_as="etl")
        queue.change(1, "w-1", run_as="etl")  # nothing changes, yet it is still ours
        assert hive.run(of_hive) == [(1, "db", "t", "ds=a/h=1", "w", "i", text_of_properties, "w-1", "etl", None)]
        queue.mark_compacted(1, "w-1", 5, highest_write_id=7, facts=RequestFacts(reason="y"))
        text_of_properties = "2:11:compactor.k1:v14:acidlib.reason1:y"
        assert hive.run(of_hive) == [(1, "db", "t", "ds=a/h=1", "r", "i", text_of_properties, None, "etl", 7)]
        (found,) = queue.ready_for_cleaning()
        assert (found.commit_ms, found.enqueue_ms, found.retry_retention_ms) == (None, None, 0)  # no such columns
        queue.change(1, None, error_message="a reader is open", retry_retention_ms=300)
        assert queue.ready_for_cleaning()[0].error_message == "a reader is open"
        queue.end(1, State.SUCCEEDED, 5)

        assert hive.run("SELECT CQ_ID FROM COMPACTION_QUEUE") == []
        ((state, start, end, run_as, mark, properties),) = hive.run(
            "SELECT CC_STATE, CC_START, CC_END, CC_RUN_AS, CC_HIGHEST_WRITE_ID, CC_TBLPROPERTIES "
            "FROM COMPLETED_COMPACTIONS"
        )
        assert (state, start, run_as, mark, properties) == ("s", claimed.start_ms, "etl", 7, text_of_properties)
        assert near_now(end)
        done = queue.find(1)
        assert done is not None
        assert (done.state, done.end_ms, done.error_message) == (State.SUCCEEDED, end, None)
        assert hive.shape() == before

    def test_the_databases_clock_counts(self, hive: Hive, queue: SqlQueue) -> None:
        assert near_now(queue.now_ms(5))
        hour = 3_600_000
        now = queue.now_ms(5)
        hive.queued(1, STATE="w", WORKER_ID="host-1", START=now - 3 * hour)
        hive.queued(2, TABLE="u", STATE="w", WORKER_ID="host-2", START=now - hour)
        assert queue.revoke_timed_out(2**60, 2 * hour) == 1
        assert hive.run("SELECT CQ_ID, CQ_STATE, CQ_WORKER_ID, CQ_START FROM COMPACTION_QUEUE ORDER BY CQ_ID") == [
            (1, "i", None, None),
            (2, "w", "host-2", now - hour),
        ]
        number = queue.record_not_initiated(request(), "too many failures", 5)
        ((state, start, end),) = hive.run("SELECT CC_STATE, CC_START, CC_END FROM COMPLETED_COMPACTIONS")
        assert (number, state, start) == (1, "a", end)
        assert near_now(end)

    def test_a_request_of_hives_is_carried_out(self, hive: Hive, queue: SqlQueue) -> None:
        hive.queued(41, TYPE="i", META_INFO=b"\x00of hive")
        hive.run("UPDATE NEXT_COMPACTION_QUEUE_ID SET NCQ_NEXT = 42")
        answer = queue.enqueue(request(location="/w/t"), now_ms=1)
        assert (answer.accepted, answer.id) == (False, 41)
        claimed = claim_next(queue, MINOR, "w", 1)
        assert claimed is not None
        assert (claimed.properties, claimed.facts) == ((), RequestFacts())
        queue.mark_compacted(41, "w", 1)
        queue.end(41, State.SUCCEEDED, 1)
        ((state, note),) = hive.run("SELECT CC_STATE, CC_META_INFO FROM COMPLETED_COMPACTIONS")
        assert (state, bytes(note)) == ("s", b"\x00of hive")  # type: ignore[call-overload] # whatever kind of bytes
        assert queue.enqueue(request(), now_ms=1).id == 42

    def test_zeros_of_hives_mean_that_nothing_is_known(self, hive: Hive, queue: SqlQueue) -> None:
        hive.done(1, STATE="f", START=0, HIGHEST_WRITE_ID=0)
        (row,) = queue.show()
        assert (row.start_ms, row.highest_write_id) == (None, None)

    def test_names_are_stored_as_hive_stores_them(self, hive: Hive, queue: SqlQueue) -> None:
        upper = CompactionRequest(id=0, ref=TableRef("Db", "T", "DS=A"), type=MAJOR)
        assert queue.enqueue(upper, now_ms=1).accepted
        assert hive.run("SELECT CQ_DATABASE, CQ_TABLE, CQ_PARTITION FROM COMPACTION_QUEUE") == [("db", "t", "DS=A")]
        assert not queue.enqueue(request(partition="DS=A"), now_ms=1).accepted
        assert queue.enqueue(request(partition="ds=a"), now_ms=1).accepted  # partitions differ by case
        assert queue.enqueue(request(partition="DS=A "), now_ms=1).accepted  # and by blanks

    @pytest.mark.parametrize(
        ("partition", "mark", "expected"),
        [
            ("ds=a", 5, {("t", "ds=A"): ALL, ("t", "ds=a"): LATER, ("t", None): ALL}),
            ("ds=A", 5, {("t", "ds=A"): LATER, ("t", "ds=a"): ALL, ("t", None): ALL}),
            ("ds=a", None, {("t", "ds=A"): ALL, ("t", "ds=a"): OPEN, ("t", None): ALL}),
            (None, 5, {("t", "ds=A"): LATER, ("t", "ds=a"): LATER, ("t", None): LATER}),
            (None, 0, {("t", "ds=A"): OPEN, ("t", "ds=a"): OPEN, ("t", None): OPEN}),
        ],
    )
    def test_cleaning_forgets_what_is_merged(
        self,
        written: Hive,
        queue: SqlQueue,
        partition: str | None,
        mark: int | None,
        expected: dict[tuple[object, object], tuple[list[object], list[object]]],
    ) -> None:
        written.queued(1, PARTITION=partition)
        ready(queue, 1, mark)
        queue.end(1, State.SUCCEEDED, 1)
        assert left(written) == {**expected, ("u", None): ALL}
        assert len(written.run("SELECT TXN_ID FROM TXNS")) == 4  # Hive removes transactions without rows itself

    def test_a_compaction_of_original_files_alone_forgets_nothing(self, written: Hive, queue: SqlQueue) -> None:
        """Its mark is 0, for which the row has no word; what was aborted since then is not merged."""
        before = left(written)
        written.queued(1)
        ready(queue, 1, 0)
        queue.end(1, State.SUCCEEDED, 1, up_to=0)
        assert left(written) == before

    @pytest.mark.parametrize("partition", ["x' OR '1'='1", "ds=%", "ds=_", "ds=a' --", 'ds=a"', "ds=a\\"])
    def test_cleaning_a_place_of_a_hostile_name_forgets_nothing_else(
        self, written: Hive, queue: SqlQueue, partition: str
    ) -> None:
        before = left(written)
        written.queued(1, PARTITION=partition)
        ready(queue, 1, 5)
        queue.end(1, State.SUCCEEDED, 1)
        assert left(written) == before
        assert [(row.state, row.ref.partition) for row in queue.show()] == [(State.SUCCEEDED, partition)]

    def test_many_aborted_transactions(self, hive: Hive, queue: SqlQueue) -> None:
        engine = create_engine(hive.url)
        with engine.begin() as connection:
            rows = [{"n": number} for number in range(1, 1202)]
            connection.execute(
                text(
                    "INSERT INTO TXNS (TXN_ID, TXN_STATE, TXN_STARTED, TXN_LAST_HEARTBEAT, TXN_USER, TXN_HOST) "
                    "VALUES (:n, 'a', 1, 1, 'u', 'h')"
                ),
                rows,
            )
            connection.execute(
                text(
                    "INSERT INTO TXN_COMPONENTS (TC_TXNID, TC_DATABASE, TC_TABLE, TC_OPERATION_TYPE, TC_WRITEID) "
                    "VALUES (:n, 'db', 't', 'i', :n)"
                ),
                rows,
            )
        engine.dispose()
        hive.queued(1)
        ready(queue, 1, 1200)
        queue.end(1, State.SUCCEEDED, 1)
        assert hive.run("SELECT TC_TXNID FROM TXN_COMPONENTS") == [(1201,)]

    def test_an_end_that_fails_leaves_everything(self, written: Hive, queue: SqlQueue) -> None:
        written.queued(1)
        ready(queue, 1, 5)
        before = left(written)
        written.done(1, STATE="s")  # the id is taken
        with pytest.raises(RetryError):
            queue.end(1, State.SUCCEEDED, 1)
        assert left(written) == before
        assert [row.id for row in queue.ready_for_cleaning()] == [1]

    @pytest.mark.parametrize("end", ["failed", "refused"])
    def test_other_ends_forget_nothing(self, written: Hive, queue: SqlQueue, end: str) -> None:
        written.queued(1)
        ready(queue, 1, 5)
        before = left(written)
        queue.end(1, State.parse(end), 1, reason="Cannot clean x: é")
        assert left(written) == before
        (row,) = queue.show()
        assert (row.state.label, row.error_message, row.properties) == (end, "Cannot clean x: \\xe9", ())

    def test_what_was_needless_has_succeeded_and_no_write_is_forgotten(
        self, hive: Hive, queue: SqlQueue, written: Hive
    ) -> None:
        """As where Hive's own worker has nothing to do; whoever waits for its request by its number finds it."""
        hive.queued(1, HIGHEST_WRITE_ID=5)
        assert queue.claim_id(1, "w", 1) is not None
        before = left(written)
        queue.mark_needless(1, 1, worker_id="w")
        assert left(written) == before
        (row,) = queue.show()
        assert (row.id, row.state, row.error_message) == (1, State.SUCCEEDED, None)

    def test_what_is_too_long_is_refused(self, hive: Hive, queue: SqlQueue) -> None:
        with pytest.raises(RefusedError, match=r"db\.t: its properties \(2049 characters\).* than the 2048 that"):
            queue.enqueue(request(p="x" * 2039), now_ms=1)
        assert hive.run("SELECT CQ_ID FROM COMPACTION_QUEUE") == []
        assert queue.enqueue(request(p="x" * 2038), now_ms=1).id == 1
        ((stored,),) = hive.run("SELECT CQ_TBLPROPERTIES FROM COMPACTION_QUEUE")
        assert len(str(stored)) == 2048
        assert queue.claim_id(1, "w", 1) is not None
        with pytest.raises(RefusedError, match="2048"):
            queue.mark_compacted(1, "w", 1, facts=RequestFacts(reason="y"))
        with pytest.raises(RefusedError, match="run as"):
            queue.change(1, "w", run_as="u" * 129)
        (row,) = queue.show()
        assert (row.state, row.run_as) == (State.WORKING, None)

    @pytest.mark.parametrize(("used", "kept"), [(0, 2024), (1000, 1014), (2005, None)])
    def test_the_reason_of_a_failure_is_cut_to_the_space_there_is(
        self, hive: Hive, queue: SqlQueue, used: int, kept: int | None
    ) -> None:
        reason = "Cannot read x: " + "y" * 3000
        hive.queued(1, TBLPROPERTIES=format_map({"p": "x" * used}) if used else None)
        assert queue.claim_id(1, "w", 1) is not None
        queue.end(1, State.FAILED, 1, worker_id="w", reason=reason)
        (row,) = queue.show()
        ((stored,),) = hive.run("SELECT CC_TBLPROPERTIES FROM COMPLETED_COMPACTIONS")
        assert len(str(stored)) <= 2048
        assert ERROR not in dict(row.properties)
        if kept is None:
            assert row.error_message is None
        else:
            assert row.error_message is not None
            assert row.error_message.endswith("y...")
            assert reason.startswith(row.error_message[:-3])
            assert abs(len(row.error_message) - kept) <= 8
            assert len(str(stored)) >= 2040

    @pytest.mark.parametrize(
        "odd", [{"TYPE": "q"}, {"STATE": "z"}, {"TBLPROPERTIES": "9:oops"}], ids=["type", "state", "properties"]
    )
    def test_rows_of_other_tools_break_nothing(self, hive: Hive, queue: SqlQueue, odd: dict[str, str]) -> None:
        hive.queued(1, TABLE="odd", **odd)
        hive.done(2, TABLE="odd", **odd)
        hive.queued(3)
        assert [row.id for row in queue.show()] == [3]
        assert [row.id for row in queue.waiting()] == [3]
        assert [(row.id, row.table.upper()) for row in queue.unreadable()] == [
            (2, "COMPLETED_COMPACTIONS"),
            (1, "COMPACTION_QUEUE"),
        ]
        assert all("its row is not understood" in row.reason for row in queue.unreadable())
        if odd.get("STATE") is None:
            with pytest.raises(CorruptError, match="request 1 of"):
                queue.claim_id(1, "w", 1)
        else:
            assert queue.claim_id(1, "w", 1) is None
        assert hive.run("SELECT CQ_WORKER_ID FROM COMPACTION_QUEUE WHERE CQ_ID = 1") == [(None,)]
        hive.run("UPDATE NEXT_COMPACTION_QUEUE_ID SET NCQ_NEXT = 4")
        answer = queue.enqueue(request("odd"), now_ms=1)
        # Hive looks at the state alone
        assert answer.accepted is (odd.get("STATE") is not None)
        assert answer.id == (4 if answer.accepted else 1)
        assert queue.purge_history(replace(KEPT, succeeded=0, failed=0), 1) == 0

    def test_failed_attempts_as_hive_31_counts_them(self, hive: Hive, queue: SqlQueue) -> None:
        def blocked(one: CompactionRequest) -> bool:
            # Hive 3.1 does not try again, and its history does not know when a request was queued
            found = queue.failed_attempts(one, threshold=2, retry_ms=1, now_ms=2**60)
            return found is not None

        hive.done(1, PARTITION="p=1", STATE="f")
        hive.done(2, PARTITION="p=1", STATE="f", TBLPROPERTIES=format_map({"location": "/x"}))
        hive.done(3, PARTITION="p=1", STATE="a")
        hive.done(4, PARTITION="p=2", STATE="f")
        assert blocked(request(partition="p=1", location="/y"))
        assert not blocked(request(partition="p=2"))
        assert not blocked(request(partition="P=1"))
        assert blocked(request())  # of a whole table Hive counts the partitions too
        hive.done(5, PARTITION="p=2", STATE="s")
        assert not blocked(request())
        assert not blocked(request("u"))

    def test_history_goes_by_hive_31s_numbers(self, hive: Hive, queue: SqlQueue) -> None:
        located = format_map({"location": "/x"})
        for number, letter in enumerate("ssssffffaaac", start=1):
            hive.done(number, STATE=letter, END=1, TBLPROPERTIES=located if number % 2 else None)
        hive.done(13, STATE="s", PARTITION="p=1", END=1)
        assert queue.purge_history(KEPT, 100 * DAY_MS) == 3
        assert [number for (number,) in hive.run("SELECT CC_ID FROM COMPLETED_COMPACTIONS ORDER BY CC_ID")] == [
            *(2, 3, 4),
            *(6, 7, 8),
            *(10, 11, 12, 13),
        ]

    def test_kinds_that_hive_31_does_not_have_are_refused(self, hive: Hive, queue: SqlQueue) -> None:
        rebalance = request(kind=CompactionType.REBALANCE)
        for call in (
            lambda: queue.enqueue(rebalance, now_ms=1),
            lambda: queue.record_not_initiated(rebalance, "too many failures", 1),
        ):
            with pytest.raises(RefusedError, match=r"compaction of db\.t: Hive 3\.1 has no REBALANCE"):
                call()
        assert queue.show() == ()

    def test_a_worker_ends_only_what_is_its_own(self, hive: Hive, queue: SqlQueue) -> None:
        hive.queued(1)
        queue.claim_id(1, "w", 1)
        calls: tuple[Callable[[], object], ...] = (
            lambda: queue.change(1, "v", run_as="u"),
            lambda: queue.mark_compacted(1, "v", 1),
            lambda: queue.end(1, State.FAILED, 1, worker_id="v", reason="x"),
            lambda: queue.end(1, State.SUCCEEDED, 1),
            lambda: queue.change(1, None, error_message=None, retry_retention_ms=1),
        )
        for call in calls:
            with pytest.raises(ConflictError, match="Cannot change compaction request 1: it is gone"):
                call()
        assert hive.run("SELECT CQ_STATE, CQ_WORKER_ID FROM COMPACTION_QUEUE") == [("w", "w")]
        assert queue.show()[0].error_message is None

    @pytest.mark.parametrize(
        ("versions", "reason"),
        [
            (["4.0.0"], r"schema version is 4\.0\.0; use the metastore over thrift"),
            (["4.1.0"], r"use the metastore over thrift"),
            (["3.1.3000.7.1.7"], r"3\.1\.3000\.7\.1\.7, and only that of Apache Hive 3\.1 is supported"),
            (["2.3.0"], r"2\.3\.0, and only that of Apache Hive 3\.1"),
            (["3.2.0"], r"only that of Apache Hive 3\.1"),
            (["3.0.0"], r"only that of Apache Hive 3\.1"),
            (["3.1.0", "3.1.1"], r"is 3\.1\.0, 3\.1\.1, and only"),
            ([], r"is none, and only that of Apache Hive 3\.1"),
        ],
    )
    def test_other_metastores_are_refused(self, hive: Hive, versions: list[str], reason: str) -> None:
        hive.run(_all_versions(hive))
        for number, version in enumerate(versions, start=1):
            _set_version(hive, number, version)
        before = hive.shape()
        with pytest.raises(RefusedError, match=reason):
            SqlQueue(hive.url)
        assert hive.shape() == before

    @pytest.mark.parametrize("version", ["3.1.0", "3.1.3"])
    def test_any_hive_31_is_taken(self, hive: Hive, version: str) -> None:
        hive.run(_all_versions(hive))
        _set_version(hive, 1, version)
        with SqlQueue(hive.url) as queue:
            assert queue.schema_version == version

    @pytest.mark.parametrize(
        ("statement", "reason"),
        [
            ("ALTER TABLE COMPACTION_QUEUE ADD CQ_NEXT_TXN_ID bigint", r"not those of Hive 3\.1; use .* over thrift"),
            ("DROP TABLE NEXT_TXN_ID", r"not those of Hive 3\.1"),
            ("DROP TABLE COMPLETED_COMPACTIONS", "has no table COMPLETED_COMPACTIONS"),
            ("ALTER TABLE TXN_COMPONENTS DROP COLUMN TC_WRITEID", "table TXN_COMPONENTS has no column TC_WRITEID"),
        ],
    )
    def test_a_metastore_that_only_says_it_is_of_31(self, hive: Hive, statement: str, reason: str) -> None:
        hive.run(statement)
        with pytest.raises(RefusedError, match=reason):
            SqlQueue(hive.url)

    def test_columns_that_a_vendor_added_are_used(self, hive: Hive) -> None:
        hive.run(
            "ALTER TABLE COMPACTION_QUEUE ADD CQ_ERROR_MESSAGE text",
            "ALTER TABLE COMPLETED_COMPACTIONS ADD CC_ERROR_MESSAGE text",
        )
        hive.queued(1)
        with SqlQueue(hive.url) as queue:
            queue.claim_id(1, "w", 1)
            queue.end(1, State.FAILED, 1, worker_id="w", reason="Cannot read x")
            assert queue.show()[0].error_message == "Cannot read x"
        assert hive.run("SELECT CC_ERROR_MESSAGE, CC_TBLPROPERTIES FROM COMPLETED_COMPACTIONS") == [
            ("Cannot read x", None)
        ]

    def test_an_id_that_cannot_be_allocated(self, hive: Hive, queue: SqlQueue) -> None:
        hive.run("DELETE FROM NEXT_COMPACTION_QUEUE_ID")
        with pytest.raises(CorruptError, match=r"(?i)next_compaction_queue_id is empty"):
            queue.enqueue(request(), now_ms=1)
