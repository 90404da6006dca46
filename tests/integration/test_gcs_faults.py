"""Whole jobs on a bucket of Google Cloud Storage that something is wrong with, and jobs that are killed.

One clear line, nothing lost or published by half, and the next run ends the work.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from gcs_tables import downloaded, uploaded
from judges import merge
from long_runs import amount
from servers.door import Answer, Fault, Request, when
from servers.gcs import GcsServer
from servers.gcs_door import GcsDoor, refusal

from acidlib.location import Location
from acidlib.points import KILL_AT, Point
from integration.children import Child
from integration.harness import AROUND, Jobs, Ran, fixture
from integration.store_jobs import NOW, awaiting_cleaning, clear, end_in_one_line

pytestmark = pytest.mark.live

ALL = ("--all-committed",)
DAYS = 86_400
ONCE = {"fs.gs.http.max.retry": "0"}
BUSY = refusal(429, "rateLimitExceeded", "The object exceeded the rate limit.")
BROKEN = refusal(500, "internalError", "We encountered an internal error.")
DENIED = refusal(403, "forbidden", "no access")
ABSENT = refusal(404, "notFound", "The specified bucket does not exist.")
GONE = Answer(status=0)
RESET = Answer(status=0, reset=True)
HTML = Answer(status=200, body=b"<html><body>It works!</body></html>", headers=(("Content-Type", "text/html"),))
NO_PAGE = replace(HTML, status=404)


@pytest.fixture
def door(gcs_server: GcsServer) -> Iterator[GcsDoor]:
    with GcsDoor(gcs_server) as made:
        yield made


@pytest.fixture(autouse=True)
def configured(door: GcsDoor, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", gcs_server.properties(door.endpoint) | ONCE)
    monkeypatch.setattr("acidlib.stores.repeating._FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("acidlib.stores.repeating._PATIENCE_SECONDS", 0.0)


@pytest.fixture
def table(gcs_server: GcsServer, tmp_path: Path) -> Location:
    """A table whose result has four files."""
    return uploaded(gcs_server, fixture("hive3/c_bucket", tmp_path / "t"))


RESULT = "base_0000005"


def objects(server: GcsServer, place: Location) -> dict[str, str]:
    """All objects of a place with their generations, hidden ones included, but for that of the claim."""
    prefix = f"{place.path[1:]}/"
    found = {key.removeprefix(prefix): str(item["generation"]) for key, item in server.objects(place.authority).items()}
    return {name: generation for name, generation in found.items() if not name.startswith("_acidlib_claim")}


def visible(server: GcsServer, place: Location) -> dict[str, str]:
    return {name: generation for name, generation in objects(server, place).items() if name[0] not in "_."}


def rows(server: GcsServer, place: Location, tmp_path: Path) -> list[merge.Row]:
    """What a reader that is not ours sees."""
    return merge.read(downloaded(server, place, tmp_path / "seen/t"), "", generation=3)


def settle(server: GcsServer, jobs: Jobs, place: Location, before: list[merge.Row], tmp_path: Path) -> None:
    """The next run and the next cleaning: the rows are as before, one result is left, and nothing of the dead run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acidlib.stores.buckets.store.has_ended", bool)  # whose process is this one
        jobs.good("major_compact", "--location", str(place), *ALL)
        assert rows(server, place, tmp_path) == before
        # what failed waits before it comes again, and litter for a day
        patch.setattr(AROUND, "clock", lambda: time.time() + 2 * DAYS)
        jobs.good("cleaner", *NOW)
        jobs.good("cleaner", "--location", str(place), *NOW)
    assert rows(server, place, tmp_path) == before
    assert {name.partition("/")[0] for name in objects(server, place)} == {RESULT}
    assert {row["state"] for row in jobs.shown().values()} <= {"succeeded", "failed", "refused"}


# --- what cannot be done at all ---------------------------------------------------------------------------------------


def always(answer: Answer) -> Fault:
    return lambda _: answer


ROOT = "fs.gs.storage.root.url"
FROM_THE_START: dict[str, tuple[dict[str, str], Fault | None, str]] = {
    "nobody there": ({ROOT: "http://127.0.0.1:1"}, None, "B at http://127.0.0.1:1 cannot be reached"),
    "no such host": ({ROOT: "http://x.invalid"}, None, "B at http://x.invalid cannot be reached"),
    "a web server": ({}, always(HTML), "it answered as no Google Cloud Storage does"),
    "a page that is not there": ({}, always(NO_PAGE), "B at DOOR answered 404"),
    "a proxy": ({}, always(Answer(status=502, body=b"<html/>")), "B at DOOR cannot be reached, or went away"),
    "no bucket": ({}, always(ABSENT), "there is no bucket B at DOOR"),
    "no rights": ({}, always(DENIED), "the permission is missing: a request without credentials needs"),
    "no log-in": ({}, always(refusal(401, "authError", "x")), "B at DOOR did not take a request without credentials"),
    "a redirection": ({}, always(Answer(status=307)), "B at DOOR sends every request elsewhere"),
    "busy for ever": ({}, always(BUSY), "B at DOOR is busy (429 The object exceeded the rate limit.)"),
    "hung up": ({}, always(GONE), "B at DOOR cannot be reached, or went away"),
    "reset": ({}, always(RESET), "B at DOOR cannot be reached, or went away"),
}


@pytest.fixture(scope="module")
def compacted(gcs_server: GcsServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Location, Path]:
    """A table that awaits its cleaning, and the queue that says so."""
    return awaiting_cleaning(
        tmp_path_factory.mktemp("compacted"), partial(uploaded, gcs_server), gcs_server.properties()
    )


@pytest.mark.parametrize("what", amount(list(FROM_THE_START)[2::4], long=list(FROM_THE_START)))
def test_a_bucket_that_cannot_be_used(
    gcs_server: GcsServer,
    door: GcsDoor,
    jobs: Jobs,
    tmp_path: Path,
    compacted: tuple[Location, Path],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    place, queue = compacted
    properties, fault, because = FROM_THE_START[what]
    because = because.replace("DOOR", door.endpoint).replace("B at", f"{place.authority} at")
    because = because.replace("bucket B", f"bucket {place.authority}")
    shutil.copy(queue, tmp_path / "queue.db")
    before = objects(gcs_server, place)
    monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, **properties})
    with door.at_fault(fault):
        end_in_one_line(jobs, place, because)
    assert objects(gcs_server, place) == before


# --- faults on the way ------------------------------------------------------------------------------------------------

DATA = "^GET .*bucket_0000.*alt=media"
LIST = "^GET .*/o[?].*prefix=w%2Ft%2F"
PIECE = "^POST /upload/.* .*/_acidlib_staging.upload"
STATE = "^POST /upload/.* .*/_acidlib_staging$"
COMPOSE = f"^POST .*%2F{RESULT}%2F"
FIRST, FILE, LAST = (f"{COMPOSE}{name}/compose" for name in ("_metadata_acid", "bucket_00001", "_orc_acid_version"))
OPENED = "^POST /upload/.* .*/_metadata_acid$"
AWAY, ODD = "cannot be reached, or went away", "answered as no Google Cloud Storage does"
NAME = re.compile(rb'"name": "([^"]*)"')
Change = Answer | Callable[[Answer], Answer]
cut, reset = partial(replace, cut=True), partial(replace, cut=True, reset=True)
stalled = partial(replace, stalled=True)


def shorter(answer: Answer) -> Answer:
    """Without its last bytes, as if there were none."""
    headers = tuple(item for item in answer.headers if item[0].lower() != "content-length")
    return replace(answer, body=answer.body[:-5], headers=headers)


def at(door: GcsDoor, pattern: str, change: Change, skip: int) -> Fault:
    """Answers to requests with a matching line, and the name of what is written, are others, after some that are not.

    An answer that is changed has been given.
    """
    seen = 0

    def fault(request: Request) -> Answer | None:
        nonlocal seen
        name = NAME.search(request.body[:1000])
        if not re.search(pattern, f"{request.line} {name[1].decode() if name else ''}".strip()):
            return None
        seen += 1
        if seen <= skip:
            return None
        return change if isinstance(change, Answer) else change(door.passed_on(request))

    return fault


HALF = "Cannot tell whether base_0000005 in .* is published as a whole: a request failed"
FAULTS: dict[str, tuple[str, Change, int, str]] = {
    "data: 500": (DATA, BROKEN, 0, AWAY),
    "data: 429": (DATA, BUSY, 0, "is busy .429"),
    "data: 503": (DATA, refusal(503, "backendError"), 0, "is busy .503"),
    "data: denied": (DATA, DENIED, 0, "the right to read .storage.objects.get"),
    "data: a page of a proxy": (DATA, HTML, 0, ODD),
    "data: a proxy knows no such page": (DATA, NO_PAGE, 0, "answered 404"),
    "data: cut": (DATA, cut, 0, f"{AWAY} .its answer has ended too early"),
    "data: reset": (DATA, reset, 0, f"{AWAY} .Connection reset by peer"),
    "data: shorter than it says": (DATA, shorter, 0, "it sent [0-9]+ of [0-9]+ bytes"),
    "data: stalled": (DATA, stalled, 0, "no answer in time"),
    "a piece: 500": (PIECE, BROKEN, 0, AWAY),
    "a piece: 429": (PIECE, BUSY, 2, "is busy .429"),
    "a piece: reset": (PIECE, RESET, 1, f"{AWAY} .Connection reset by peer"),
    "a piece: a page of a proxy": (PIECE, HTML, 0, ODD),
    "a piece: its answer cut": (PIECE, cut, 3, AWAY),
    "a piece: its answer stalled": (PIECE, stalled, 0, "no answer in time"),
    "a piece: denied": (PIECE, DENIED, 0, "the right to write .storage.objects.create"),
    "the decision: 500": (STATE, BROKEN, 1, AWAY),
    "the decision: lost": (STATE, cut, 1, ""),
    "the first: 500": (FIRST, BROKEN, 0, HALF),
    "the first: 429": (FIRST, BUSY, 0, HALF),
    "the first: denied": (FIRST, DENIED, 0, HALF),
    "the first: reset": (FIRST, RESET, 0, HALF),
    "a file: 500": (FILE, BROKEN, 0, HALF),
    "a file: 429": (FILE, BUSY, 0, HALF),
    "a file: a page of a proxy": (FILE, HTML, 0, HALF),
    "a file: a proxy knows no such page": (FILE, NO_PAGE, 0, HALF),
    "a file: hung up": (FILE, GONE, 0, HALF),
    "the last: 500": (LAST, BROKEN, 0, HALF),
    "the first: lost": (FIRST, cut, 0, ""),
    "a file: lost": (FILE, cut, 0, ""),
    "the opening: 500": (OPENED, BROKEN, 0, HALF),
    "the opening: reset": (OPENED, RESET, 0, HALF),
    "the opening: lost": (OPENED, cut, 0, ""),
    "a listing: 500": (LIST, BROKEN, 2, AWAY),
    "a listing: a page of a proxy": (LIST, HTML, 1, ODD),
    "a listing: cut": (LIST, cut, 3, AWAY),
    "a listing: shorter": (LIST, shorter, 3, ODD),
}


@pytest.mark.parametrize("what", amount(list(FAULTS)[8::12], long=list(FAULTS)))
def test_a_fault_on_the_way(
    gcs_server: GcsServer,
    door: GcsDoor,
    jobs: Jobs,
    table: Location,
    tmp_path: Path,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pattern, change, skip, because = FAULTS[what]
    if change is stalled:
        monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, "fs.gs.http.read-timeout": "200"})
    before, seen = rows(gcs_server, table, tmp_path), visible(gcs_server, table)
    with door.at_fault(at(door, pattern, change, skip)):
        ran = jobs("major_compact", "--location", str(table), *ALL)
    if because:
        assert (ran.status, ran.states if ran.begun else ["failed"]) == (1, ["failed"])
        assert re.search(because, clear(ran.told)), ran.told
        assert str(table) in ran.told
        if because is not HALF:
            assert visible(gcs_server, table) == seen
    else:  # what became of it was looked at
        assert (ran.status, ran.states) == (0, ["ready for cleaning"])
        assert rows(gcs_server, table, tmp_path) == before
    settle(gcs_server, jobs, table, before, tmp_path)


def test_a_bad_day_that_is_survived(
    gcs_server: GcsServer,
    door: GcsDoor,
    jobs: Jobs,
    table: Location,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is asked for the first time is not answered well, in turn; answers that are lost have been given."""
    before = rows(gcs_server, table, tmp_path)
    seen: set[tuple[str, bytes]] = set()

    def fault(request: Request) -> Answer | None:
        asked = (request.line, request.body[-200:])
        if asked in seen:
            return None
        seen.add(asked)
        turned_away = (BUSY, BROKEN, GONE, RESET)
        if (kind := len(seen) % 6) < len(turned_away):
            return turned_away[kind]
        answer = door.passed_on(request)
        return replace(answer, cut=True) if len(answer.body) > 1 and kind == 4 else RESET

    monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, "fs.gs.http.max.retry": "4"})
    with door.at_fault(fault):
        jobs.good("initiator", "--location", str(table), *ALL, "--set", "hive.compactor.delta.num.threshold=1")
        jobs.good("minor_compact")
        jobs.good("major_compact")
        jobs.good("cleaner", *NOW)
    assert len(seen) > 60
    assert rows(gcs_server, table, tmp_path) == before
    assert {name.partition("/")[0] for name in objects(gcs_server, table)} == {RESULT}


@pytest.mark.parametrize(
    ("answer", "because"),
    [
        (DENIED, "needs the right to delete .storage.objects.delete|403: no access"),
        (BUSY, "is busy .429"),
        (GONE, "cannot be reached, or went away"),
    ],
    ids=["denied", "busy", "gone"],
)
def test_nothing_can_be_removed(
    gcs_server: GcsServer,
    door: GcsDoor,
    jobs: Jobs,
    table: Location,
    tmp_path: Path,
    answer: Answer,
    because: str,
) -> None:
    """A compaction is done all the same; a cleaner comes again."""
    before = rows(gcs_server, table, tmp_path)
    with door.at_fault(when("^DELETE .*/o/w%2Ft%2F(_tmp_|delta_|base_)", answer)):
        ran = jobs("major_compact", "--location", str(table), *ALL)
        assert ran.states == ["ready for cleaning"], ran.told
        assert f"warning: default.t: Cannot remove {table}/_tmp_" in ran.err
        assert re.search(because, ran.err)
        assert rows(gcs_server, table, tmp_path) == before
        ran = jobs("cleaner", *NOW)
    (entry,) = ran.document["cleanings"]
    assert (ran.status, entry["state"]) == (3, "failed")
    assert re.search(because, clear(entry["reason"]))
    settle(gcs_server, jobs, table, before, tmp_path)


# --- a server, or a run, that dies ------------------------------------------------------------------------------------

COMPACTING = (
    *(Point.CLAIMED, Point.STARTED, Point.STAGED, Point.CREATED, Point.CLOSED, Point.PROVED, Point.ACCEPTED),
    *(Point.SEALED, Point.CHECKED, Point.RECORDED, Point.FIRST_RENAMED, Point.SECOND_RENAMED, Point.UNRECORDED),
    *(Point.PUBLISHED, Point.MARKED),
)
CLEANING = (
    *(Point.CLEANING_CLAIMED, Point.CLEANING_PLANNED, Point.REMOVED_ONE, Point.REMOVED_ALL, Point.LITTER_REMOVED),
    Point.CLEANED,
)


@pytest.mark.parametrize("point", amount(COMPACTING[10:11], long=COMPACTING[:-2]))
def test_a_server_that_is_killed_in_the_middle(
    jobs: Jobs, tmp_path: Path, point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place fails with a line that names it and the server, as does a run while it is away; a later one does it."""
    (tmp_path / "server").mkdir()
    with GcsServer(tmp_path / "server", on_disk=True) as server:
        monkeypatch.setattr(AROUND, "hadoop", server.properties() | ONCE)
        place = uploaded(server, fixture("hive3/c_bucket", tmp_path / "t"))
        before = rows(server, place, tmp_path)

        def kill(reached: object) -> None:
            if reached == point:
                server.kill()

        def run() -> Ran:
            with pytest.MonkeyPatch.context() as patch:
                for module in ("stores.buckets.stage", "runs.compact", "rewrite.bucket", "rewrite.output"):
                    patch.setattr(f"acidlib.{module}.reach", kill)
                return jobs("major_compact", "--location", str(place), *ALL)

        failed = Child(run, tmp_path / "answer").ran()
        server.kill()
        away = jobs("major_compact", "--location", str(place), *ALL)
        server.start()
        for ran in (failed, away):
            assert ran.status == 1, ran
            told = f"{place.authority} at {server.endpoint} cannot be reached, or went away"
            assert [line for line in ran.err.splitlines() if str(place) in line and told in line], ran.err
        settle(server, jobs, place, before, tmp_path)


@pytest.mark.parametrize("point", amount([*COMPACTING[3::6], CLEANING[2]], long=[*COMPACTING, *CLEANING]))
def test_a_job_that_is_killed(gcs_server: GcsServer, jobs: Jobs, tmp_path: Path, table: Location, point: Point) -> None:
    before = rows(gcs_server, table, tmp_path)
    words: tuple[str, ...] = ("major_compact", "--location", str(table), *ALL)
    if point in CLEANING:
        jobs.good(*words)
        words = ("cleaner", *NOW)

    def run() -> None:
        os.environ[KILL_AT] = point
        jobs(*words)

    assert Child(run, tmp_path / "answer").wait() == -signal.SIGKILL
    if point not in (Point.FIRST_RENAMED, Point.SECOND_RENAMED):  # until it is finished readers may fail at the base
        assert rows(gcs_server, table, tmp_path) == before
    again = jobs(*words)
    if point in CLEANING:
        assert again.status == 0
    else:
        assert set(again.states) <= {"ready for cleaning", "already compact", "refused"}, again
    settle(gcs_server, jobs, table, before, tmp_path)
