"""What goes wrong while we compact on a real Hive 4 metastore: nothing is lost, nothing half done is ever visible.

The moment of a fault is a call: `TAKEN` (the request is ours), `PLANNED` (inputs listed, nothing written), `PUBLISHED`
(results in place, invisible), `MARKED` (ready for cleaning, not committed), `COMMITTED` (done, but we do not know it).
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from long_runs import LONG, amount
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.process import free_port
from servers.settings import write_site

from acidlib.acid.names import Generation
from acidlib.metastore.transactions import LockState, TxnType
from acidlib.points import Point
from integration.children import Child, killed_at
from integration.harness import Jobs, Ran
from integration.hive4_jobs import Service, check_told, clean_up, only_line, settle, wait_for
from integration.hive4_model import Lake, Made
from integration.hive4_proxy import Proxy
from integration.hive4_rebalanced import rebalanced, skewed
from integration.metastore_client import drop_partition, rename_table

pytestmark = pytest.mark.live
Moment = tuple[str, str]
TAKEN: Moment = ("after", "find_next_compact2")
PLANNED: Moment = ("after", "update_compactor_state")
PUBLISHED: Moment = ("before", "mark_compacted")
MARKED: Moment = ("after", "mark_compacted")
COMMITTED: Moment = ("after", "commit_txn")
# the points at which the metastore, or what lies there, is changed; the others are tried without a metastore
POINTS = (
    Point.TAKEN,
    Point.CLAIMED,
    Point.STARTED,
    Point.STAGED,
    Point.WRITTEN,
    Point.VERIFIED,
    Point.CHECKED,
    Point.FIRST_RENAMED,
    Point.SECOND_RENAMED,
    Point.PUBLISHED,
    Point.MARKED,
    Point.COMMITTED,
    Point.ENDED,
)
CLEANING_POINTS = (Point.CLEANING_PLANNED, f"{Point.REMOVED_ONE}:2", Point.REMOVED_ALL, Point.CLEANED)
NAMES = {TAKEN: "taken", PLANNED: "planned", PUBLISHED: "published", MARKED: "marked", COMMITTED: "committed"}


if LONG:  # else the independent reader judges alone: what Hive reads of our results has files of its own

    @pytest.fixture
    def lake(lake_of_hive: Lake) -> Lake:
        return lake_of_hive


@pytest.fixture
def direct(jobs: Jobs, hive4_metastore: Metastore) -> Service:
    """Our jobs without a fault."""
    return Service(jobs=jobs, uri=hive4_metastore.uri)


@pytest.fixture
def service(jobs: Jobs, proxy: Proxy) -> Service:
    """Our jobs, whose calls a test can interfere with."""
    return Service(jobs=jobs, uri=proxy.uri)


def moments(*chosen: Moment) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("moment", chosen, ids=[NAMES[moment] for moment in chosen])


def at(proxy: Proxy, moment: Moment, action: Callable[[], object]) -> None:
    """Lets something happen at a moment."""
    when, call = moment
    (proxy.before if when == "before" else proxy.after)(call, action)


def told(ran: Ran, state: str, *words: str) -> str:
    """The reason of the only compaction of a run, which ended in this state and said so on standard error too."""
    assert ran.states == [state], ran
    reason: str = ran.compactions[0]["reason"]
    assert "Traceback" not in ran.err
    assert "unexpected" not in reason
    assert reason in ran.err
    for word in words:
        assert word in reason
    return reason


# --- the metastore ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["major_compact", "show_compactions"])
def test_nobody_listens(jobs: Jobs, job: str) -> None:
    uri = f"thrift://127.0.0.1:{free_port()}"
    ran = jobs(job, "--metastore-uri", uri)
    assert ran.status == 1
    assert uri in only_line(ran)


def test_what_listens_is_no_metastore(jobs: Jobs, hiveserver: HiveServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.settimeout(30)
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        ran = jobs("initiator", "--metastore-uri", uri)
        assert ran.status == 1
        assert uri in only_line(ran)
        server.shutdown(socket.SHUT_RDWR)
    uri = f"thrift://127.0.0.1:{hiveserver.port}"
    ran = jobs("cleaner", "--metastore-uri", uri)
    assert ran.status == 1
    assert uri in only_line(ran)


def test_a_metastore_that_is_killed_and_started_again_in_the_middle(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens when an answer is lost for good is another test's matter."""
    made = lake.table("restarted")
    lake.request(made)

    def restart() -> None:
        lake.metastore.kill()
        lake.metastore.start()

    at(proxy, PLANNED, restart)
    ran = service("major_compact")
    assert len(proxy.happened) == 1
    lake.reconnect()
    assert (ran.status, ran.states) == (0, ["ready for cleaning"])
    assert lake.states(made) == ["ready for cleaning"]
    settle(lake, direct, made, monkeypatch)


def test_the_next_metastore_is_used_when_one_goes_away(
    lake: Lake,
    jobs: Jobs,
    direct: Service,
    hive4_metastore: Metastore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = lake.table("failover")
    write_site(tmp_path / "hive-site.xml", {"hive.metastore.uri.selection": "SEQUENTIAL"})
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    with Proxy(hive4_metastore) as other:
        first = Proxy(hive4_metastore)
        closing = threading.Thread(target=first.close)
        at(first, PLANNED, closing.start)
        dead = f"thrift://127.0.0.1:{free_port()}"
        ran = Service(jobs=jobs, uri=f"{dead},{first.uri},{other.uri}").good("major_compact", "--table", made.full)
        closing.join()
        assert ran.states == ["ready for cleaning"]
        assert first.calls["update_compactor_state"] == 1
        assert other.calls["commit_txn"] == 1
    assert lake.states(made) == ["ready for cleaning"]
    settle(lake, direct, made, monkeypatch)


CALLS = ("find_next_compact2", "open_txns", "lock", "update_compactor_state", "mark_compacted", "commit_txn")


# in a usual run the one of the two that tells less: whether a write was done
LOST = amount(
    [(call, call in ("find_next_compact2", "lock", "mark_compacted", "commit_txn")) for call in CALLS],
    long=[(call, answer) for call in CALLS for answer in (False, True)],
)


@pytest.mark.parametrize(
    ("call", "answer"), LOST, ids=[f"{call}-{'answer' if answer else 'request'} lost" for call, answer in LOST]
)
def test_a_connection_that_breaks_at_a_call(
    lake: Lake,
    service: Service,
    direct: Service,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    answer: bool,
) -> None:
    """What the run says is what is in the queue, or that it does not know; later runs set all right."""
    made = lake.table("broken")
    lake.request(made)
    proxy.lose(call, answer=answer)
    ran = service("major_compact")
    assert len(proxy.happened) == 1
    states = lake.states(made)
    check_told(ran, states)
    if call in ("update_compactor_state", "commit_txn"):
        assert states == ["ready for cleaning"], "it may be asked twice"
    settle(lake, direct, made, monkeypatch)


def test_an_answer_that_is_lost_queues_nothing_twice(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("asked_once")
    proxy.lose("compact2", answer=True)
    low = ("--set", "hive.compactor.delta.num.threshold=1")
    ran = service("initiator", "--table", made.full, *low)
    assert ran.status == 3
    (entry,) = ran.document["decisions"]
    assert entry["failed"]
    assert lake.states(made) == ["initiated"]
    assert service.good("initiator", "--table", made.full, *low).document["totals"]["queued"] == 0
    assert lake.states(made) == ["initiated"]
    settle(lake, direct, made, monkeypatch)


def test_a_named_run_whose_request_is_lost_on_the_way_back(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("named")
    proxy.lose("compact2", answer=True)
    ran = service("major_compact", "--table", made.full)
    # it may look for the request, or leave it to a later run
    assert (ran.status, ran.states) in ((0, ["ready for cleaning"]), (1, ["failed"]))
    assert len(lake.of(made)) == 1
    settle(lake, direct, made, monkeypatch)


# --- what others do to us ---------------------------------------------------------------------------------------------


@moments(PLANNED, PUBLISHED, MARKED)
def test_our_transaction_is_aborted(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    made = lake.table("aborted")
    before = made.place.directories()
    lake.request(made)

    def abort() -> None:
        (txn,) = [txn.id for txn in lake.hms.open_txns_info() if txn.state == "open"]
        lake.hms.abort_txn(txn, TxnType.COMPACTION)

    at(proxy, moment, abort)
    ran = service("major_compact")
    assert ran.status == 3
    assert ran.states in (["failed"], ["conflict"])
    told(ran, ran.states[0], "abort")
    assert lake.states(made) == ["failed"]
    assert made.place.directories() == before
    settle(lake, direct, made, monkeypatch)


@pytest.mark.parametrize("other", [None, "hive-9"], ids=["given back", "given to another"])
def test_the_request_is_taken_away(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, other: str | None
) -> None:
    """As Hive does after a timeout. Whose request it is now, nobody but he may mark."""
    made = lake.table("revoked")
    before = made.place.directories()
    number = lake.request(made)
    at(proxy, PLANNED, partial(lake.take_away, other))
    ran = service("major_compact")
    assert ran.status == 3
    told(ran, "conflict", "not ours any more")
    (row,) = lake.of(made)
    assert (row.id, row.state.label, row.worker_id) == (number, "initiated" if other is None else "working", other)
    assert not [call for call in proxy.calls if call.startswith("mark_")]
    assert proxy.calls["commit_txn"] == 0
    assert made.place.directories() == before
    assert made.place.litter() == []
    if other is not None:
        lake.hms.mark_failed(replace(row, error_message="given up"))
    settle(lake, direct, made, monkeypatch)


@moments(TAKEN, PLANNED, PUBLISHED)
def test_the_table_is_dropped(lake: Lake, service: Service, proxy: Proxy, moment: Moment) -> None:
    made = lake.table("dropped")
    lake.request(made)
    at(proxy, moment, lambda: lake.writes.drop_table("lake", "dropped"))
    ran = service("major_compact")
    assert ran.status in (0, 3)
    assert ran.states in (["failed"], ["conflict"], ["refused"])
    told(ran, ran.states[0])
    assert lake.of(made) == []
    assert not made.location.exists()
    assert [txn for txn in lake.hms.open_txns_info() if txn.state == "open"] == []


@moments(PLANNED, PUBLISHED)
def test_the_table_is_dropped_and_made_again(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    """The new one has the same name, place and write ids, and other rows."""
    made = lake.table("again")
    lake.request(made)
    new: list[Made] = []

    def make_again() -> None:
        lake.writes.drop_table("lake", "again")
        new.append(lake.table("again", partitions=[]))

    at(proxy, moment, make_again)
    ran = service("major_compact")
    assert ran.status == 3
    told(ran, ran.states[0])
    (made,) = new
    assert lake.of(made) == []
    assert all("_v" not in name for name in made.place.directories())
    settle(lake, direct, made, monkeypatch)


@moments(PLANNED, PUBLISHED)
def test_the_table_is_renamed(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    """By somebody who takes no locks: Hive's own ALTER TABLE would wait for us."""
    made = lake.table("old_name")
    lake.request(made)
    at(proxy, moment, lambda: rename_table(lake.metastore.uri, "lake", "old_name", "new_name"))
    ran = service("major_compact")
    assert "unexpected" not in ran.compactions[0]["reason"]
    location = made.location.with_name("new_name")
    moved = replace(made, name="new_name", location=location, places=(replace(made.place, location=location),))
    assert not made.location.exists(), "nothing of ours stays behind in the old place"
    lake.check(moved)
    if ran.states != ["ready for cleaning"]:
        assert ran.status == 3
        assert "ready for cleaning" not in lake.states(moved)
    settle(lake, direct, moved, monkeypatch)


def test_hives_own_rename_waits_for_us(
    lake: Lake,
    service: Service,
    direct: Service,
    proxy: Proxy,
    hiveserver: HiveServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = lake.table("before")
    errors: list[BaseException] = []

    def rename() -> None:
        try:
            hiveserver.hive.run(f"alter table {made.full} rename to lake.behind")
        except Exception as error:
            errors.append(error)

    renaming = threading.Thread(target=rename)

    def begin() -> None:
        renaming.start()
        wait_for(lambda: any(lock.state is LockState.WAITING for lock in lake.hms.show_locks("lake", "before")))

    at(proxy, PLANNED, begin)
    assert service.good("major_compact", "--table", made.full).states == ["ready for cleaning"]
    renaming.join(60)
    assert errors == []
    location = made.location.with_name("behind")
    moved = replace(made, name="behind", location=location, places=(replace(made.place, location=location),))
    assert lake.states(moved) == ["ready for cleaning"]
    settle(lake, direct, moved, monkeypatch)


@moments(PLANNED, PUBLISHED)
def test_a_partition_is_dropped(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    """It alone is lost: the other partition of the run is compacted."""
    made = lake.table("parts", partitions=["1", "2"])
    for place in made.places:
        lake.request(made, partition=place.name)
    at(proxy, moment, lambda: drop_partition(lake.metastore.uri, "lake", "parts", "1"))
    ran = service("major_compact")
    first, second = ran.compactions
    assert (first["partition"], second["partition"]) == ("p=1", "p=2")
    assert first["state"] in ("failed", "conflict", "refused")
    assert "unexpected" not in first["reason"]
    assert second["state"] == "ready for cleaning"
    assert ran.status == (0 if first["state"] == "refused" else 3)
    assert not made.places[0].location.exists()
    left = replace(made, places=made.places[1:])
    assert lake.states(left) == ["ready for cleaning"]
    settle(lake, direct, left, monkeypatch)


@pytest.mark.parametrize("moment", [("after", "get_valid_write_ids"), ("before", "compact2")], ids=" ".join)
def test_a_partition_is_dropped_while_the_initiator_looks(
    lake: Lake, service: Service, proxy: Proxy, moment: Moment
) -> None:
    """It is left alone without a failure, or its request is refused in its turn."""
    made = lake.table("parts", partitions=["1", "2"])
    at(proxy, moment, lambda: drop_partition(lake.metastore.uri, "lake", "parts", "1"))
    ran = service.good("initiator", "--table", made.full, "--set", "hive.compactor.delta.num.threshold=1")
    first, second = ran.document["decisions"]
    assert (first["partition"], first["failed"], second["partition"], second["failed"]) == ("p=1", False, "p=2", False)
    assert second["queued"]
    if not first["queued"]:
        assert first["reason"] == "it was dropped meanwhile"
    drained = service.good("major_compact")
    assert drained.states == ["refused", "ready for cleaning"][-ran.document["totals"]["queued"] :]


# --- the file system --------------------------------------------------------------------------------------------------


@contextmanager
def immutable(directory: Path) -> Iterator[None]:
    """A directory in which not even root can create or remove anything."""
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", directory], capture_output=True).returncode:
        pytest.skip("needs root and a file system with immutable directories (chattr +i)")
    try:
        yield
    finally:
        subprocess.run([chattr, "-i", directory], check=True)


def test_a_directory_that_may_not_be_written(
    lake: Lake, service: Service, direct: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("locked", partitions=["1", "2"])
    first = made.places[0]
    for place in made.places:
        lake.request(made, partition=place.name)
    before = first.directories()
    with immutable(first.location):
        ran = service("major_compact")
    assert (ran.status, ran.states) == (3, ["failed", "ready for cleaning"])
    reason = ran.compactions[0]["reason"]
    assert str(first.location) in reason
    assert "unexpected" not in reason
    assert reason in ran.err
    assert [(row.state.label, row.error_message) for row in lake.of(made)] == [
        ("failed", reason), ("ready for cleaning", None),
    ]  # fmt: skip
    assert first.directories() == before
    settle(lake, direct, made, monkeypatch)


def test_a_directory_that_may_not_be_removed(
    lake: Lake, service: Service, direct: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("kept")
    direct.compact(made)
    kept = "delta_0000002_0000002_0000"
    with immutable(made.place.location / kept):
        ran = service("cleaner", "--retention", "0s")
        (entry,) = ran.document["cleanings"]
        assert entry["state"] in ("failed", "ready for cleaning")
        assert ran.status == (3 if entry["state"] == "failed" else 0)
        assert kept in entry["reason"]
        assert kept in made.place.directories()
        assert lake.states(made) == ["ready for cleaning"]
        lake.check(made)
    settle(lake, direct, made, monkeypatch)


# --- our own end ------------------------------------------------------------------------------------------------------


INTERRUPTED = amount(
    [(PLANNED, signal.SIGTERM), (PUBLISHED, signal.SIGINT), (MARKED, signal.SIGTERM)],
    long=[
        *((PLANNED, signal.SIGTERM), (PUBLISHED, signal.SIGINT)),
        *((PUBLISHED, signal.SIGTERM), (MARKED, signal.SIGTERM)),
    ],
)


@pytest.mark.parametrize(
    ("moment", "number"),
    INTERRUPTED,
    ids=[f"{NAMES[moment]}, {number.name}" for moment, number in INTERRUPTED],
)
def test_an_interrupted_run_gives_its_requests_back(
    lake: Lake,
    service: Service,
    direct: Service,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
    number: signal.Signals,
) -> None:
    made = lake.table("interrupted", partitions=["1", "2"])
    for place in made.places:
        lake.request(made, partition=place.name)
    before = [place.directories() for place in made.places]
    known = threading.Event()
    child: list[Child] = []

    def interrupt() -> None:
        known.wait(60)
        child[0].kill(number)
        time.sleep(0.2)  # so that it is there before the answer

    at(proxy, moment, interrupt)
    child.append(Child(lambda: service("major_compact"), tmp_path / "answer"))
    known.set()
    ran = child[0].ran()
    assert ran.status == 128 + number
    assert ran.error["kind"] == "interrupted"
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "interrupted" in errors[0]
    waiting = [row for row in lake.of(made) if row.state.label == "initiated"]
    if moment != MARKED:
        assert {row.ref.partition for row in waiting} == {"p=1", "p=2"}
    if moment == PLANNED:
        assert [place.directories() for place in made.places] == before
    assert not lake.working()
    assert [txn for txn in lake.hms.open_txns_info() if txn.state == "open"] == []
    assert [place.litter() for place in made.places] == [[], []]
    lake.check(made)
    done = direct.good("major_compact")
    assert set(done.states) == {"ready for cleaning"}
    settle(lake, direct, made, monkeypatch)


KILLED = [(point, "minor" if point is Point.SECOND_RENAMED else "major") for point in POINTS]
# in a usual run those at which a rebalance leaves something else than a major
KILLED += [
    (point, "rebalance")
    for point in amount((Point.CLAIMED, Point.WRITTEN, Point.PUBLISHED, Point.MARKED, Point.COMMITTED), long=POINTS)
    if point is not Point.SECOND_RENAMED
]


@pytest.mark.parametrize(("point", "kind"), KILLED, ids=[f"{kind}, {point}" for point, kind in KILLED])
def test_a_killed_run_is_ended_by_a_later_one(
    lake: Lake, direct: Service, monkeypatch: pytest.MonkeyPatch, point: Point, kind: str
) -> None:
    made = skewed(lake, "killed")
    job = "minor_compact" if kind == "minor" else "major_compact"
    lake.request(made, kind)
    assert killed_at(point, lambda: direct(job, *(("--verify",) if point is Point.VERIFIED else ())))
    left = "ready for cleaning" if point in (Point.MARKED, Point.COMMITTED, Point.ENDED) else "working"
    assert lake.states(made) == [left]
    if kind == "rebalance" and point in (Point.COMMITTED, Point.ENDED):
        made = rebalanced(made)
    lake.check(made)
    # its process is known to have ended: at once nothing of it is in the way any more
    again = direct.good(job)
    if point in (Point.COMMITTED, Point.ENDED):
        assert (again.compactions, lake.states(made)) == ([], [left])
    else:
        assert [txn for txn in lake.hms.open_txns_info() if txn.state == "open"] == []
        (note,) = [note for note in again.document["notes"] if "its run is dead" in note]
        assert f"warning: {note}" in again.err, "which cron mails"
        ended = next(row for row in lake.of(made) if row.state.label == "refused")
        assert "its run is dead" in (ended.error_message or "")
        if kind == "rebalance" and point is Point.TAKEN:  # its number of buckets is not noted yet
            assert (again.compactions, "has to be requested again" in note) == ([], True)
        else:
            assert (again.states, f"request {ended.id} " in note) == (["ready for cleaning"], True)
            made = rebalanced(made) if kind == "rebalance" else made
    settle(lake, direct, made, monkeypatch)
    if kind == "rebalance":
        rebalance_again(lake, direct, made)


def rebalance_again(lake: Lake, service: Service, made: Made) -> None:
    """Nothing that a dead rebalance left keeps another one from being done, and cleaned."""
    assert service.compact(made, "rebalance").states == ["ready for cleaning"]
    made = rebalanced(made)
    lake.check(made)
    clean_up(lake, service, made)
    (base,) = made.place.directories()
    assert base.startswith("base_")
    lake.check(made)


@pytest.mark.parametrize(
    ("point", "first", "then"),
    [
        *((Point.TAKEN, "minor", "major"), (Point.STAGED, "major", "minor"), (Point.PUBLISHED, "minor", "major")),
        *((Point.WRITTEN, "rebalance", "rebalance"), (Point.PUBLISHED, "rebalance", "rebalance")),
        *((Point.PUBLISHED, "rebalance", "major"), (Point.PUBLISHED, "major", "rebalance")),
    ],
)
def test_a_named_run_that_was_killed_blocks_no_later_one(
    lake: Lake, direct: Service, monkeypatch: pytest.MonkeyPatch, point: Point, first: str, then: str
) -> None:
    """Not even for the ten minutes after which a run of another machine is taken for dead."""
    made = skewed(lake, "killed")
    assert killed_at(point, lambda: direct.compact(made, first))
    assert lake.states(made) == ["working"]
    lake.check(made)
    assert direct.compact(made, then).states == ["ready for cleaning"]
    if then == "rebalance":
        made = rebalanced(made)
    assert [txn for txn in lake.hms.open_txns_info() if txn.state == "open"] == []
    assert sorted(lake.states(made)) == ["ready for cleaning", "refused"]
    settle(lake, direct, made, monkeypatch)


@pytest.mark.parametrize(
    "moment",
    [("after", "lock"), ("after", "allocate_table_write_ids"), ("after", "commit_txn")],
    ids=" ".join,
)
def test_a_rebalance_that_is_killed_while_it_takes_a_write_id(
    lake: Lake,
    service: Service,
    direct: Service,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
) -> None:
    """Which it needs for a table that is nothing but a base; the metastore does not know its transaction by then."""
    made = skewed(lake, "renumbered")
    direct.compact(made)
    clean_up(lake, direct, made)
    before = made.place.directories()
    child: list[Child] = []
    known = threading.Event()

    def kill() -> None:
        known.wait(60)
        child[0].kill()
        child[0].wait()

    at(proxy, moment, kill)
    child.append(Child(lambda: service.compact(made, "rebalance"), tmp_path / "answer"))
    known.set()
    assert child[0].wait() == -signal.SIGKILL
    assert made.place.directories() == before
    assert lake.states(made)[-1] == "working"
    lake.check(made)
    settle(lake, direct, made, monkeypatch)
    assert made.place.directories() == before
    assert lake.of(made)[1].error_message
    rebalance_again(lake, direct, made)


def test_the_result_of_an_aborted_transaction_is_an_orphan(lake: Lake, direct: Service, tmp_path: Path) -> None:
    made = lake.table("orphaned")
    lake.request(made)
    assert killed_at(Point.PUBLISHED, lambda: direct("major_compact"))
    words = ("--orphans", "--table", made.full, "--older-than", "0s")
    assert direct.good("cleaner", *words).document["cleanings"] == []  # its transaction is open
    (txn,) = [one.id for one in lake.hms.open_txns_info() if one.state == "open"]
    lake.hms.abort_txn(txn, TxnType.COMPACTION)
    (entry,) = direct.good("cleaner", *words, "--delete").document["cleanings"]
    (gone,) = entry["removed"]
    assert gone["path"] == f"base_0000003_v{txn:07d}"
    assert f"transaction {txn}" in gone["reason"]
    assert direct.good("cleaner", *words).document["cleanings"] == []
    lake.check(made)


@pytest.mark.parametrize("point", CLEANING_POINTS)
def test_a_cleaner_that_is_killed_is_followed_by_another(
    lake: Lake, direct: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    made = lake.table("half_clean")
    direct.compact(made)
    assert killed_at(point, lambda: direct("cleaner", "--retention", "0s"))
    assert lake.states(made) == ["succeeded" if point == Point.CLEANED else "ready for cleaning"]
    lake.check(made)
    settle(lake, direct, made, monkeypatch)
    assert lake.states(made)[0] == "succeeded"


def test_a_cleaner_that_does_not_hear_that_it_is_done(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("unheard")
    direct.compact(made)
    proxy.lose("mark_cleaned", answer=True)
    ran = service("cleaner", "--retention", "0s")
    assert ran.status in (0, 3)
    assert lake.states(made) == ["succeeded"]
    lake.check(made)
    assert direct.clean() == []
    settle(lake, direct, made, monkeypatch)


# --- time -------------------------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_long_run_alive_and_without_them_it_fails(
    jobs: Jobs, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a metastore that aborts what is silent for eight seconds."""
    with servers.metastore(Generation.HIVE4, txn_timeout_seconds=8) as metastore, Lake(metastore) as lake:
        direct = Service(jobs=jobs, uri=metastore.uri)
        slow = lake.table("slow")
        with Proxy(metastore) as proxy:
            at(proxy, PLANNED, lambda: time.sleep(10))
            ran = direct("major_compact", "--table", slow.full, uri=proxy.uri)
            assert (ran.status, ran.states) == (0, ["ready for cleaning"])
            assert proxy.calls["heartbeat"] >= 2
        settle(lake, direct, slow, monkeypatch)
        silent = lake.table("silent")
        before = silent.place.directories()
        with Proxy(metastore) as proxy:
            proxy.deaf_to.add("heartbeat")
            at(proxy, PLANNED, lambda: wait_for(lambda: lake.hms.open_txns().opened == ()))
            ran = direct("major_compact", "--table", silent.full, uri=proxy.uri)
        assert ran.status == 1
        assert ran.states in (["failed"], ["conflict"])
        assert silent.place.directories() == before
        assert lake.states(silent)[0] in ("failed", "refused")
        settle(lake, direct, silent, monkeypatch)


def test_a_run_ends_itself_before_the_server_gives_its_request_away(
    lake: Lake, service: Service, direct: Service, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.table("late")
    before = made.place.directories()
    lake.request(made)
    at(proxy, PLANNED, lambda: time.sleep(1.2))
    ran = service("major_compact", "--set", "hive.compactor.worker.timeout=1s")
    assert ran.status == 3
    told(ran, "failed", "hive.compactor.worker.timeout")
    assert lake.states(made) == ["failed"]
    assert made.place.directories() == before
    settle(lake, direct, made, monkeypatch)
