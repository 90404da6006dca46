"""Whole jobs on an HDFS that something is wrong with: one clear line, nothing lost, and the next run ends the work."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hdfs_tables import downloaded, uploaded
from judges import merge
from long_runs import amount
from servers.hdfs import Hdfs

from acidlib.location import Location
from acidlib.points import Point
from integration.children import stopped_at
from integration.harness import AROUND, Jobs, Ran, fixture, once_before

pytestmark = pytest.mark.live

CRUD = "hive3/a_crud"
ALL = ("--all-committed",)
RUNS = {
    "major": ("major_compact", ()),
    "minor of two renames": ("minor_compact", ("--minor-as-major-bytes", "0")),
}
RESULTS = {"major": ["base_0000004"], "minor of two renames": ["delete_delta_0000001_0000004", "delta_0000001_0000004"]}
UNCLEAR = re.compile(r"Traceback|org\.apache|\bjava\.|RPCError|\bat org|unexpected|Exception")


@pytest.fixture(autouse=True)
def configured(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", {"dfs.client.failover.max.attempts": "1"})


@pytest.fixture
def whole(hdfs: Hdfs) -> Iterator[Hdfs]:
    """The cluster, for a test that breaks it."""
    yield hdfs
    hdfs.start()


@pytest.fixture
def table(hdfs: Hdfs, tmp_path: Path) -> Location:
    return uploaded(hdfs, fixture(CRUD, tmp_path / "t"), "crud")


def entries(hdfs: Hdfs, place: Location) -> list[str]:
    """All entries of a directory, hidden ones included."""
    return sorted(status.path.rpartition("/")[2] for status in hdfs.client().list_status(place.path))


def visible(hdfs: Hdfs, place: Location) -> list[str]:
    return [name for name in entries(hdfs, place) if name[0] not in "_."]


def rows(hdfs: Hdfs, place: Location, tmp_path: Path) -> list[merge.Row]:
    """What a reader that is not ours sees."""
    return merge.read(downloaded(hdfs, place, tmp_path / "seen/t"), "", generation=3)


def told(ran: Ran) -> str:
    """Why a job failed: one line that people understand."""
    text = ran.told
    assert "\n" not in text
    assert not UNCLEAR.search(ran.out + ran.err), ran
    assert re.match(r"Cannot .*: [^ ]", text), text
    return text


def settle(hdfs: Hdfs, jobs: Jobs, place: Location, run: str, before: list[merge.Row], tmp_path: Path) -> None:
    """The next run and the next cleaning: the rows are as before, and one result is left."""
    kind, options = RUNS[run]
    jobs(kind, "--location", str(place), *ALL, *options)  # it may find all done
    assert rows(hdfs, place, tmp_path) == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AROUND, "clock", lambda: time.time() + 3600)  # one that failed waits before it comes again
        jobs.good("cleaner", "--retention", "0s")
    assert rows(hdfs, place, tmp_path) == before
    assert visible(hdfs, place) == RESULTS[run]
    assert {row["state"] for row in jobs.shown().values()} <= {"succeeded", "failed", "refused"}


# --- what cannot be done at all ---------------------------------------------------------------------------------------

MISSING, FILE, BELOW_A_FILE, STRANGER = "{table}_x", "{file}", "{file}/x", "hdfs://nobody.invalid:8020/t"


@pytest.mark.pairs
@pytest.mark.parametrize(
    ("place", "because"),
    [
        (MISSING, "there is no such file or directory"),
        (FILE, "it is not a directory"),
        (BELOW_A_FILE, "it is not, or lies not in, a directory"),
        (STRANGER, "nobody.invalid is neither a known host nor"),
    ],
)
@pytest.mark.parametrize(
    ("job", "option"),
    [("major_compact", "--location"), ("initiator", "--location"), ("initiator", "--warehouse")],
)
def test_a_place_that_is_none(
    hdfs: Hdfs, jobs: Jobs, table: Location, job: str, option: str, place: str, because: str
) -> None:
    file = f"{table}/delta_0000001_0000001_0000/_orc_acid_version"
    ran = jobs(job, option, place.format(table=table, file=file), *ALL)
    assert ran.status == 1
    assert because in told(ran)
    assert ran.err.splitlines() == [f"error: {told(ran)}"]


@pytest.mark.parametrize("job", ["major_compact", "initiator", "cleaner"])
def test_the_default_file_system_is_not_set(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    ran = jobs(job, "--location", "hdfs:///t", *(() if job == "cleaner" else ALL))
    assert ran.status in (1, 2)
    assert told(ran) == "Cannot open hdfs:///: fs.defaultFS is not set, which names no name node"


def test_a_port_of_something_else(hdfs: Hdfs, jobs: Jobs) -> None:
    ran = jobs("major_compact", "--location", f"hdfs://127.0.0.1:{hdfs.web_port}/t", *ALL)
    assert ran.status == 1
    assert f"cannot be reached (127.0.0.1:{hdfs.web_port} does not answer as a name node does" in told(ran)


def test_nodes_that_are_away_and_come_back(whole: Hdfs, jobs: Jobs, table: Location, tmp_path: Path) -> None:
    """First those with the data. Meanwhile a run goes on with what lies elsewhere, and a cleaner comes again."""
    before, compacted = rows(whole, table, tmp_path), uploaded(whole, fixture(CRUD, tmp_path / "compacted/t"), "done")
    jobs.good("major_compact", "--location", str(compacted), *ALL)
    with pytest.MonkeyPatch.context() as patch:
        once_before(patch, "file_task", lambda: [node.kill() for node in whole.data_nodes])
        ran = jobs("major_compact", "--location", str(table), *ALL)
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "no data node has, or takes, its bytes" in told(ran)
    for place in (str(table), str(fixture(CRUD, tmp_path / "here/t"))):
        asked = ("--location", place, *ALL, "--set", "hive.compactor.delta.num.threshold=1")
        jobs.good("initiator", "--force", *asked)
    whole.kill_name_node()
    for words in (("initiator", "--location", str(table), *ALL), ("major_compact", "--location", str(table), *ALL)):
        ran = jobs(*words)
        assert ran.status == 1
        assert "the name node, or a data node, cannot be reached" in told(ran)
    cleaned = jobs("cleaner", "--retention", "0s")
    (entry,) = [entry for entry in cleaned.document["cleanings"] if entry["location"] == str(compacted)]
    assert (cleaned.status, entry["state"], entry["removed"]) == (3, "failed", []), cleaned
    assert "cannot be reached" in entry["reason"]
    assert not UNCLEAR.search(cleaned.out + cleaned.err)
    from_queue = jobs("major_compact")
    assert (from_queue.status, sorted(from_queue.states)) == (3, ["failed", "ready for cleaning"])
    (failed,) = [entry for entry in from_queue.compactions if entry["state"] == "failed"]
    assert "cannot be reached" in failed["reason"]
    whole.start()
    settle(whole, jobs, table, "major", before, tmp_path)
    assert rows(whole, compacted, tmp_path) == before
    assert visible(whole, compacted) == RESULTS["major"]


# --- faults on the way ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def broken(hdfs: Hdfs, how: str, table: Location) -> Iterator[tuple[Callable[[], object], str]]:
    """What breaks it, and what is told then; it is mended in the end."""
    client = hdfs.client()

    def staging() -> list[str]:
        roots = [status.path for status in client.list_status(table.path) if "/_tmp_" in status.path]
        return [table.path, *roots, *(status.path for root in roots for status in client.list_status(root))]

    def no_name_left() -> None:
        used = client.get_content_summary(table.path)
        hdfs.set_quota(table.path, names=used.file_count + used.directory_count)

    def no_right() -> None:
        for path in staging():
            client.set_permission(path, 0o555)

    def mend() -> None:
        for path in staging():
            client.set_permission(path, 0o755)

    breaks = {
        "safe mode": (lambda: hdfs.safe_mode(on=True), "the name node is in safe mode"),
        "quota of names": (no_name_left, "the quota is used up (The NameSpace quota"),
        "quota of bytes": (
            lambda: hdfs.set_quota(table.path, space=100_000),
            "the quota is used up (The DiskSpace quota",
        ),
        "rights": (no_right, "the permission is missing: user etl needs the right to write (w) on"),
    }
    try:
        yield breaks[how]
    finally:
        if how == "safe mode":
            hdfs.safe_mode(on=False)
        elif how == "rights":
            mend()
        else:
            hdfs.set_quota(table.path)


@contextlib.contextmanager
def as_user(hdfs: Hdfs, user: str, table: Location) -> Iterator[None]:
    """Jobs are this user's, who owns the table."""
    client = hdfs.client()
    for status in (client.get_file_info(table.path), *client.list_status(table.path, recursive=True)):
        client.set_owner(status.path, user, "hive")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_USER_NAME", user)
        # another configuration has a connection of its own, which is made now
        patch.setattr(AROUND, "hadoop", {**AROUND.hadoop, "dfs.tests.user": user})
        yield


FAULTS = [
    ("minor of two renames", "safe mode", "_rename_both"),
    ("minor of two renames", "quota of names", "publish"),
    ("major", "quota of bytes", "file_task"),
    ("major", "rights", "stage"),
    ("minor of two renames", "rights", "_rename_both"),
]
MORE_FAULTS = [
    ("major", "safe mode", "_rename_one"),
    ("minor of two renames", "quota of names", "file_task"),
    ("minor of two renames", "quota of bytes", "publish"),
    ("minor of two renames", "rights", "file_task"),
]


@pytest.mark.parametrize(("run", "how", "step"), amount(FAULTS, long=FAULTS + MORE_FAULTS))
def test_a_fault_on_the_way(
    hdfs: Hdfs, jobs: Jobs, table: Location, tmp_path: Path, run: str, how: str, step: str
) -> None:
    kind, options = RUNS[run]
    before = rows(hdfs, table, tmp_path)
    seen = visible(hdfs, table)
    with (
        as_user(hdfs, "etl", table) if how == "rights" else contextlib.nullcontext(),
        broken(hdfs, how, table) as (breaks, because),
    ):
        with pytest.MonkeyPatch.context() as patch:
            once_before(patch, step, breaks)
            ran = jobs(kind, "--location", str(table), *ALL, *options)
        assert (ran.status, ran.states) == (1, ["failed"])
        assert because in told(ran)
        assert visible(hdfs, table) == seen
        assert rows(hdfs, table, tmp_path) == before
    with pytest.MonkeyPatch.context() as patch:
        if how in ("safe mode", "rights"):  # the claim could not be given back: as if its process had ended
            patch.setattr("acidlib.stores.renaming.claims.has_ended", bool)
        # claim and staging count for the user who owns them
        with as_user(hdfs, "etl", table) if how == "rights" else contextlib.nullcontext():
            settle(hdfs, jobs, table, run, before, tmp_path)


@pytest.mark.parametrize("run", amount(["minor of two renames"], long=list(RUNS)))
def test_a_name_node_that_dies_at_the_publication(
    whole: Hdfs, jobs: Jobs, table: Location, tmp_path: Path, run: str
) -> None:
    """What the run cannot know it does not tell; a second rename that is missing is made by the next run."""
    kind, options = RUNS[run]
    before = rows(whole, table, tmp_path)
    point = Point.CHECKED if run == "major" else Point.FIRST_RENAMED
    words = (kind, "--location", str(table), *ALL, *options)
    with stopped_at(point, lambda: jobs(*words), tmp_path / "answer") as child:
        whole.kill_name_node()
        child.wake()
        ran = child.ran()
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "Cannot tell whether" in told(ran)
    assert "the next run on this partition" in told(ran)
    whole.start()
    settle(whole, jobs, table, run, before, tmp_path)
