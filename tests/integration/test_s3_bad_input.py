"""Whole jobs on a bucket that something is wrong with: one clear line, nothing lost, and the next run ends the work."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from botocore.retries.standard import ExponentialBackoff
from judges import merge
from s3_tables import downloaded, uploaded
from servers.door import Answer, Fault, Request, when
from servers.s3 import S3Server
from servers.s3_door import S3Door, refusal

from acidlib.location import Location
from integration.harness import AROUND, Jobs, fixture
from integration.store_jobs import NOW, awaiting_cleaning, clear, end_in_one_line

pytestmark = pytest.mark.live

CRUD = "hive3/a_crud"
ALL = ("--all-committed",)
RESULT = ["base_0000004"]
SLOW_DOWN = refusal(503, "SlowDown", "Please reduce your request rate.")
DENIED = refusal(403, "AccessDenied", "Access Denied")
BROKEN = refusal(500, "InternalError", "We encountered an internal error.")
GONE = Answer(status=0)


@pytest.fixture(scope="module")
def door(s3_server: S3Server) -> Iterator[S3Door]:
    """What stands between the jobs and the server."""
    with S3Door(s3_server) as made:
        yield made


@pytest.fixture(autouse=True)
def configured(door: S3Door, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    once = {"fs.s3a.attempts.maximum": "1"}
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties(door.endpoint) | once)
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0.0)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def table(s3_server: S3Server, tmp_path: Path) -> Location:
    return uploaded(s3_server, fixture(CRUD, tmp_path / "t"))


def objects(server: S3Server, place: Location) -> dict[str, str]:
    """All objects of a place with their ETags, hidden ones included, but for that of the claim."""
    found = server.client().list_objects_v2(Bucket=place.authority, Prefix=f"{place.path[1:]}/")["Contents"]
    named = {item["Key"].removeprefix(f"{place.path[1:]}/"): item["ETag"] for item in found}
    return {name: tag for name, tag in named.items() if not name.startswith("_acidlib_claim")}


def visible(server: S3Server, place: Location) -> dict[str, str]:
    return {name: tag for name, tag in objects(server, place).items() if name[0] not in "_."}


def in_flight(server: S3Server, place: Location) -> list[tuple[str, str]]:
    """The keys and ids of uploads that were neither completed nor aborted."""
    found = server.client().list_multipart_uploads(Bucket=place.authority).get("Uploads", ())
    return [(item["Key"], item["UploadId"]) for item in found]


def rows(server: S3Server, place: Location, tmp_path: Path) -> list[merge.Row]:
    """What a reader that is not ours sees."""
    return merge.read(downloaded(server, place, tmp_path / "seen/t"), "", generation=3)


def settle(server: S3Server, jobs: Jobs, place: Location, before: list[merge.Row], tmp_path: Path) -> None:
    """The next run and the next cleaning: the rows are as before, one result is left, and nothing of the dead run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acidlib.stores.buckets.store.has_ended", bool)  # whose process is this one
        jobs.good("major_compact", "--location", str(place), *ALL)
        assert rows(server, place, tmp_path) == before
        # what failed waits before it comes again, and litter for a day
        patch.setattr(AROUND, "clock", lambda: time.time() + 2 * 86_400)
        jobs.good("cleaner", *NOW)
    assert rows(server, place, tmp_path) == before
    assert sorted({name.partition("/")[0] for name in objects(server, place)}) == RESULT
    assert in_flight(server, place) == []
    assert {row["state"] for row in jobs.shown().values()} <= {"succeeded", "failed", "refused"}


# --- what cannot be done at all ---------------------------------------------------------------------------------------


def always(answer: Answer) -> Fault:
    return lambda _: answer


NO_KEYS = {"fs.s3a.access.key": "", "fs.s3a.secret.key": ""}
HTML = Answer(status=200, body=b"<html><body>It works!</body></html>", headers=(("Content-Type", "text/html"),))
FROM_THE_START = {
    "no keys": (NO_KEYS, None, "no keys for B at DOOR are found: neither fs.s3a.access.key nor"),
    "another's key": ({"fs.s3a.access.key": "x"}, None, "the keys for B at DOOR are wrong"),
    "a wrong secret": ({"fs.s3a.secret.key": "x"}, None, "the keys for B at DOOR are wrong (SignatureDoesNotMatch)"),
    "an old token": ({}, always(refusal(400, "ExpiredToken", "x")), "the session token for B at DOOR has expired"),
    "nobody there": ({"fs.s3a.endpoint": "http://127.0.0.1:1"}, None, "B at http://127.0.0.1:1 cannot be reached"),
    "no such host": ({"fs.s3a.endpoint": "http://x.invalid"}, None, "B at http://x.invalid cannot be reached"),
    "no URL": ({"fs.s3a.endpoint": "http://[::1"}, None, "Invalid IPv6 URL"),
    "a web server": ({}, always(HTML), "B at DOOR is no server of S3, or a proxy before one"),
    "a proxy": ({}, always(Answer(status=502, body=b"<html/>")), "B at DOOR answered 502 without a reason"),
    "no bucket": ({}, always(refusal(404, "NoSuchBucket", "")), "there is no bucket B at DOOR"),
    "no rights": ({}, always(DENIED), "; B at DOOR answered AccessDenied (Access Denied)"),
    "clocks": ({}, always(refusal(403, "RequestTimeTooSkewed", "x")), "the clock of this machine differs too much"),
    "a redirection": ({}, always(refusal(301, "PermanentRedirect", "")), "B at DOOR sends every request elsewhere"),
    "another region": ({}, always(refusal(400, "AuthorizationHeaderMalformed", "x")), "set fs.s3a.endpoint.region"),
    "busy for ever": ({}, always(SLOW_DOWN), "B at DOOR is busy (SlowDown (Please reduce your request rate.))"),
    "hung up": ({}, always(GONE), "B at DOOR cannot be reached, or went away"),
}  # fmt: skip


@pytest.fixture(scope="module")
def compacted(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Location, Path]:
    """A table that awaits its cleaning, and the queue that says so."""
    return awaiting_cleaning(tmp_path_factory.mktemp("compacted"), partial(uploaded, s3_server), s3_server.properties())


@pytest.mark.parametrize("what", FROM_THE_START)
def test_a_bucket_that_cannot_be_used(
    s3_server: S3Server,
    door: S3Door,
    jobs: Jobs,
    tmp_path: Path,
    compacted: tuple[Location, Path],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    place, queue = compacted
    properties, fault, because = FROM_THE_START[what]
    because = because.replace("DOOR", door.endpoint).replace("B at", f"{place.authority} at")
    shutil.copy(queue, tmp_path / "queue.db")
    before = objects(s3_server, place)
    monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, **properties})
    with door.at_fault(fault):
        end_in_one_line(jobs, place, because, named="" if what == "no URL" else str(place))
    assert objects(s3_server, place) == before


@pytest.mark.parametrize(
    ("place", "because"),
    [
        ("s3a://no-such-bucket/t", "there is no bucket no-such-bucket at"),
        ("s3a://Not_A Bucket/t", 'the store does not take that name (Invalid bucket name "Not_A Bucket")'),
        ("s3a://x/t", "the store does not take that name (InvalidBucketName)"),
        ("{table}x", "there is no object below it"),
        ("{table}/\x01\u20ac\"'<&?#%3A+ /x", "there is no object below it"),
        ("{table}/delta_0000001_0000001_0000/bucket_00000", "there is no object below it"),
    ],
)
def test_a_place_that_is_none(jobs: Jobs, table: Location, place: str, because: str) -> None:
    for job in ("major_compact", "initiator"):
        ran = jobs(job, "--location", place.format(table=table), *ALL)
        assert ran.status == 1
        assert because in clear(ran.error["message"])


def test_several_files_that_nothing_hides_are_refused_before_they_are_made(
    s3_server: S3Server, jobs: Jobs, tmp_path: Path
) -> None:
    place = uploaded(s3_server, fixture("hive3/c_bucket", tmp_path / "t"))
    words = ("major_compact", "--location", str(place), *ALL, "--hive-version", "4", "--visibility-txn", "9")
    for more in (("--dry-run",), ()):
        ran = jobs(*words, *more)
        assert (ran.status, ran.states) == (0, ["refused"])
        assert "in a bucket its 4 files cannot become visible at once" in clear(ran.told)


# --- faults on the way ------------------------------------------------------------------------------------------------


WRITES = "^(PUT|POST|DELETE) "
FILE = "/base_0000004/bucket_00000[?]"
START, PART, COMPLETE = f"^POST .*{FILE}uploads", f"^PUT .*{FILE}.*partNumber", f"^POST .*{FILE}uploadId"
LATER = "^POST .*/base_0000004/_.*[?]uploadId"
MARKER = "^PUT .*/_acidlib_staging$"
DATA = "^GET .*/bucket_00000$"
UNCLEAR_OUTCOME = "Cannot tell whether base_0000004 in"


@pytest.mark.parametrize(
    ("fault", "status", "state", "because"),
    [
        pytest.param(when(WRITES, DENIED), 1, "failed", "Cannot write .*_acidlib_probe.*: the permission", id="denied"),
        pytest.param(
            when("^POST .*[?]uploads", DENIED, skip=2), 1, "failed", "the right to write .s3:PutObject", id="uploads"
        ),
        pytest.param(when(START, SLOW_DOWN), 1, "failed", "is busy .SlowDown", id="busy for ever"),
        pytest.param(when(PART, BROKEN), 1, "failed", "answered 500 InternalError", id="a part"),
        pytest.param(when(PART, GONE), 1, "failed", "cannot be reached, or went away", id="hung up on a part"),
        pytest.param(when(DATA, Answer(status=200)), 1, "failed", "is no server of S3", id="data of nobody"),
        pytest.param(when(COMPLETE, BROKEN), 1, "failed", UNCLEAR_OUTCOME, id="the completion"),
        pytest.param(when(LATER, DENIED), 1, "failed", UNCLEAR_OUTCOME, id="a later completion"),
        pytest.param(when(MARKER, BROKEN, skip=1), 1, "failed", "answered 500 InternalError", id="the decision"),
    ],
)
def test_a_fault_on_the_way(
    s3_server: S3Server,
    door: S3Door,
    jobs: Jobs,
    table: Location,
    tmp_path: Path,
    fault: Fault,
    status: int,
    state: str,
    because: str,
) -> None:
    before, seen = rows(s3_server, table, tmp_path), visible(s3_server, table)
    with door.at_fault(fault):
        ran = jobs("major_compact", "--location", str(table), *ALL)
    (reason,) = [entry["reason"] for entry in ran.compactions]
    assert (ran.status, ran.states) == (status, [state])
    assert re.search(because, clear(reason)), reason
    assert str(table) in reason
    if "Cannot tell" not in reason:
        assert visible(s3_server, table) == seen
    assert rows(s3_server, table, tmp_path) == before
    settle(s3_server, jobs, table, before, tmp_path)


def test_a_bad_day_that_is_survived(
    s3_server: S3Server, door: S3Door, jobs: Jobs, table: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked for the first time is not answered well, in turn; answers that are lost have been given."""
    before = rows(s3_server, table, tmp_path)
    seen: set[str] = set()

    def fault(request: Request) -> Answer | None:
        if request.line in seen:
            return None
        seen.add(request.line)
        kind = len(seen) % 5
        if kind < 3 or request.query == "uploads":  # one whose answer is lost would stay: nobody knows it
            return (SLOW_DOWN, BROKEN, GONE)[kind % 3]
        answer = door.passed_on(request)
        return replace(answer, cut=True) if kind == 3 and len(answer.body) > 1 else GONE

    monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, "fs.s3a.attempts.maximum": "3"})
    with door.at_fault(fault):
        jobs.good("initiator", "--location", str(table), *ALL, "--set", "hive.compactor.delta.num.threshold=1")
        jobs.good("major_compact")
        jobs.good("cleaner", *NOW)
    assert len(seen) > 30
    assert rows(s3_server, table, tmp_path) == before
    assert sorted({name.partition("/")[0] for name in objects(s3_server, table)}) == RESULT
    assert in_flight(s3_server, table) == []


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ("conditions", "it makes an object that is there already"),
        ("aborts", "it completes an upload that was aborted"),
    ],
)
def test_a_bucket_that_does_not_keep_its_word(
    s3_server: S3Server, door: S3Door, jobs: Jobs, table: Location, tmp_path: Path, what: str, because: str
) -> None:
    before, seen = rows(s3_server, table, tmp_path), objects(s3_server, table)
    ignored = when("^DELETE .*uploadId", Answer(status=204))
    with door.at_fault(door.without_conditions if what == "conditions" else ignored):
        for job in ("major_compact", "minor_compact"):
            ran = jobs(job, "--location", str(table), *ALL)
            assert (ran.status, ran.states) == (0, ["refused"])
            assert because in clear(ran.told)
            assert f"Cannot publish to {table}: " in ran.told
    assert objects(s3_server, table) == seen
    for upload in in_flight(s3_server, table):  # by what ignored our aborts
        s3_server.client().abort_multipart_upload(Bucket=table.authority, Key=upload[0], UploadId=upload[1])
    settle(s3_server, jobs, table, before, tmp_path)


KEPT = Answer(
    status=200,
    body=b"<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>",
)


@pytest.mark.parametrize(
    ("answer", "because"),
    [
        (DENIED, "needs the right to delete (s3:DeleteObject)"),
        (KEPT, "the store kept 1 of"),
        (GONE, "cannot be reached, or went away"),
    ],
)
def test_nothing_can_be_removed(
    s3_server: S3Server, door: S3Door, jobs: Jobs, table: Location, tmp_path: Path, answer: Answer, because: str
) -> None:
    """A compaction is done all the same; a cleaner comes again."""
    before = rows(s3_server, table, tmp_path)
    with door.at_fault(when("^POST .*[?]delete", answer)):
        ran = jobs.good("major_compact", "--location", str(table), *ALL)
        assert ran.states == ["ready for cleaning"]
        assert f"warning: default.t: Cannot remove {table}/_tmp_" in ran.err
        assert because in ran.err
        assert rows(s3_server, table, tmp_path) == before
        ran = jobs("cleaner", *NOW)
    (entry,) = ran.document["cleanings"]
    assert (ran.status, entry["state"]) == (3, "failed")
    assert because in clear(entry["reason"])
    settle(s3_server, jobs, table, before, tmp_path)
