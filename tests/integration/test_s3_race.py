"""Runs on one place in a bucket, killed or asleep at every step while others take over: nothing is half published."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from long_runs import amount
from servers.s3 import S3Server
from servers.s3_proxy import Relay

from acidlib.errors import (
    AcidError,
    ConflictError,
    CorruptError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.location import parse_location
from acidlib.points import Point
from acidlib.stores.buckets import stage as publishing
from acidlib.stores.buckets import trials
from acidlib.stores.buckets.bucket import Bucket
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.listing import list_location
from acidlib.stores.probe import require_promises
from acidlib.stores.removing import LITTER_SECONDS, find_litter
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.s3.client import s3_options
from integration import s3_runs
from integration.s3_runs import (
    BY_ANY_CLAIM,
    CHILDREN,
    DELTA,
    EACH_COMPLETED,
    INPUTS,
    ONE_FILE,
    PAIR,
    TWO_FILES,
    Child,
    Shape,
    Steps,
    abort_recorded,
    accepted,
    left_staged,
    made_place,
    published,
    publishing_run,
    readers_see,
    remove,
    uploads_in_flight,
)

pytestmark = pytest.mark.live

STEPS = (
    Point.CLAIMED,
    Point.STAGED,
    Point.CREATED,
    Point.CLOSED,
    Point.ACCEPTED,
    Point.SEALED,
    Point.CHECKED,
    Point.RECORDED,
    Point.FIRST_RENAMED,
    f"{EACH_COMPLETED}:2",
    f"{EACH_COMPLETED}:3",
    Point.SECOND_RENAMED,
    Point.UNRECORDED,
    Point.PUBLISHED,
)
SHAPES = {"one file": ONE_FILE, "two files": TWO_FILES, "a delta": DELTA, "a hidden pair": PAIR}
MOMENTS = [
    pytest.param(step, shape, id=f"{step}, {name}")
    for step, (name, shape) in itertools.product(STEPS, SHAPES.items())
    if int(step.removeprefix(f"{EACH_COMPLETED}:") if step.startswith(EACH_COMPLETED) else 0) < shape.uploads
]
EARLY = STEPS[: STEPS.index(Point.RECORDED)]


def halved(parity: int) -> list[Any]:
    """Of the steps before anything is recorded, half of the shapes: those asleep where the killed have the others.

    Until then nothing can be visible, whatever the shape is, and whoever comes next sees only what is staged.
    """
    return [
        moment
        for moment in MOMENTS
        for step, shape in [moment.values]
        if step not in EARLY or (STEPS.index(step) + list(SHAPES.values()).index(shape)) % 2 == parity
    ]


KILLED = halved(0)


def is_cleaned(step: str, shape: Shape) -> bool:
    """Whether a cleaner comes before the sleeper wakes: at every step for some shapes, and not for the others."""
    number = list(SHAPES.values()).index(shape)
    return number < len(SHAPES) // 2 if step in EARLY else (STEPS.index(step) + number) % 2 == 0


SLEEPS = [
    pytest.param(*moment.values, cleaned, id=f"{moment.id}{', cleaned' if cleaned else ''}")
    for moment in halved(1)
    for cleaned in [is_cleaned(*moment.values)]
]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> S3Bucket:
    """A bucket of this file's own."""
    return S3Bucket(s3_options(s3_server.new_bucket(), s3_server.properties()))


@pytest.fixture
def place(bucket: S3Bucket) -> Iterator[str]:
    """A place with inputs."""
    location = bucket.path(f"w/t/p={next(_numbers)}")
    made_place(bucket, location)
    yield location
    while CHILDREN:
        CHILDREN.pop().end()


def take_over(bucket: S3Bucket, location: str) -> None:
    """What whoever claims a place does before anything else."""
    store = Steps(bucket)
    with store.claim(location, owner="taker", token="taker", now=0.0, stale_seconds=BY_ANY_CLAIM):
        store.roll_forward(location, visible_only=True)
        store.roll_forward(location)
        store.revoke_others(location)


def clean(bucket: S3Bucket, location: str) -> None:
    """A newer base, and the end of all that it makes obsolete, with what dead runs have staged."""
    publishing_run(bucket, location, Shape(directories=("base_0000007",), files=1), unique="newer")
    remove(bucket, location, *INPUTS, *(name for shape in SHAPES.values() for name in shape.directories))
    for name in left_staged(bucket, location):
        Steps(bucket).remove_staging(f"{location}/{name}")


@pytest.mark.parametrize(("step", "shape"), KILLED)
def test_a_run_that_is_killed(bucket: S3Bucket, place: str, step: str, shape: Shape) -> None:
    child = Child(lambda: publishing_run(bucket, place, shape), kill=step)
    assert child.wait() == -signal.SIGKILL
    take_over(bucket, place)
    is_there = shape.hidden or published(readers_see(bucket, place), shape)
    assert is_there or STEPS.index(step) < STEPS.index(Point.RECORDED)
    assert not Steps(bucket).unfinished(place)
    publishing_run(bucket, place, Shape(directories=("base_0000007",), files=2), unique="next")
    for name in left_staged(bucket, place):
        Steps(bucket).remove_staging(f"{place}/{name}")
    assert uploads_in_flight(bucket, place) == []


def test_a_table_that_is_a_whole_bucket(s3_server: S3Server) -> None:
    """What a dead run has recorded there is finished as everywhere."""
    bucket = S3Bucket(s3_options(s3_server.new_bucket(), s3_server.properties()))
    root = bucket.path("").rstrip("/")
    made_place(bucket, root)
    assert Child(lambda: publishing_run(bucket, root, TWO_FILES), kill=Point.RECORDED).wait() == -signal.SIGKILL
    take_over(bucket, root)
    assert published(readers_see(bucket, root), TWO_FILES)


@pytest.mark.parametrize(("step", "shape", "cleaned"), SLEEPS)
def test_a_run_that_slept(bucket: S3Bucket, place: str, step: str, shape: Shape, cleaned: bool) -> None:
    """Whatever the others have made of the place meanwhile, it changes nothing when it wakes."""
    child = Child(lambda: publishing_run(bucket, place, shape), stop=step)
    assert child.wait() == -signal.SIGSTOP
    take_over(bucket, place)
    if cleaned:
        clean(bucket, place)
    before = readers_see(bucket, place)
    if not shape.hidden:
        published(before, shape)
    child.wake()
    after = readers_see(bucket, place)
    if shape.hidden:  # what never commits may be given up; nothing of it comes back
        assert after.keys() <= before.keys()
    else:
        assert after == before
    assert not Steps(bucket).unfinished(place)
    assert uploads_in_flight(bucket, place) == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_run_that_nobody_disturbs(bucket: S3Bucket, place: str, shape: Shape) -> None:
    publishing_run(bucket, place, shape)
    if shape.hidden:
        assert len(readers_see(bucket, place)) == len(INPUTS) + 2 * (2 + 1)
    else:
        assert published(readers_see(bucket, place), shape)
    assert left_staged(bucket, place) == []
    assert uploads_in_flight(bucket, place) == []
    assert Steps(bucket).holder(place) is None


@pytest.mark.parametrize("step", [Point.FIRST_RENAMED, f"{EACH_COMPLETED}:2", f"{EACH_COMPLETED}:3"])
def test_a_taker_that_is_killed_while_it_finishes(bucket: S3Bucket, place: str, step: str) -> None:
    first = Child(lambda: publishing_run(bucket, place, TWO_FILES), stop=Point.RECORDED)
    first.wait()
    assert Child(lambda: take_over(bucket, place), kill=step).wait() == -signal.SIGKILL
    assert Steps(bucket).unfinished(place)
    assert first.wake() == 0
    assert published(readers_see(bucket, place), TWO_FILES)
    take_over(bucket, place)
    assert published(readers_see(bucket, place), TWO_FILES)


@pytest.mark.parametrize("step", [Point.RECORDED, Point.FIRST_RENAMED])
@pytest.mark.parametrize("shape", [ONE_FILE, TWO_FILES, DELTA])
def test_what_is_recorded_and_lacks_an_input(bucket: S3Bucket, place: str, step: str, shape: Shape) -> None:
    """As long as nothing of it is visible it is discarded; then it is finished all the same."""
    child = Child(lambda: publishing_run(bucket, place, shape), stop=step)
    child.wait()
    remove(bucket, place, INPUTS[0])
    (line,) = Steps(bucket).roll_forward(place)
    reason = f"discarded: its input {INPUTS[0]} is gone, so other directories hold those rows"
    outcome = reason if step is Point.RECORDED else "finished"
    assert line == f"publication of {shape.directories[0]} {outcome}"
    assert published(readers_see(bucket, place), shape) == (outcome == "finished")
    before = readers_see(bucket, place)
    child.wake()
    assert readers_see(bucket, place) == before
    assert uploads_in_flight(bucket, place) == []


def test_half_of_a_base_keeps_readers_away(bucket: S3Bucket, place: str) -> None:
    child = Child(lambda: publishing_run(bucket, place, TWO_FILES), kill=f"{EACH_COMPLETED}:2")
    child.wait()
    seen = readers_see(bucket, place)
    assert b'"dataFormat": "publishing"' in seen["base_0000005/_metadata_acid"]
    assert any(name.startswith("base_0000005/bucket") for name in seen)
    with pytest.raises(CorruptError, match="the base is still being published"):
        list_location(Steps(bucket).files, parse_location(place))


def test_a_base_stays_closed_while_readers_may_have_an_older_listing(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that listed one of its files finds it closed, as long as that is not longer ago than it waits."""
    waited: list[tuple[float, dict[str, bytes]]] = []
    clock = SimpleNamespace(sleep=lambda seconds: waited.append((seconds, readers_see(bucket, place))))
    monkeypatch.setattr(publishing, "time", clock)
    monkeypatch.setattr(publishing, "READERS_SECONDS", 5.0)
    publishing_run(bucket, place, TWO_FILES)
    ((seconds, seen),) = waited
    assert seconds == 5.0
    assert b'"dataFormat": "publishing"' in seen["base_0000005/_metadata_acid"]
    assert {f"base_0000005/bucket_{number:05}" for number in range(2)} < set(seen)
    assert b'"dataFormat":"compacted"' in readers_see(bucket, place)["base_0000005/_metadata_acid"]
    publishing_run(bucket, place, Shape(directories=("base_0000007",), files=1), unique="one file")
    assert len(waited) == 1


@pytest.mark.parametrize("inputs", ["there", "gone"])
def test_uploads_that_somebody_else_aborts(bucket: S3Bucket, place: str, inputs: str) -> None:
    """A half that can never be completed is taken back while the inputs are there; else a person has to decide."""
    child = Child(lambda: publishing_run(bucket, place, TWO_FILES), kill=f"{EACH_COMPLETED}:2")
    child.wait()
    abort_recorded(bucket, place)
    if inputs == "gone":
        remove(bucket, place, INPUTS[1])
        before = readers_see(bucket, place)
        with pytest.raises(CorruptError, match=r"some of its files are gone and so is delta_0000005"):
            Steps(bucket).roll_forward(place)
        assert readers_see(bucket, place) == before
        return
    (line,) = Steps(bucket).roll_forward(place)
    assert line.startswith("publication of base_0000005 discarded: ")
    assert not published(readers_see(bucket, place), TWO_FILES)
    assert left_staged(bucket, place) == []


def test_an_upload_that_was_aborted_before_is_found_out_in_time(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def aborting(stage: Any, directory: str, attempts: Any) -> Any:
        bucket.abort(attempts[1])
        return accepted(stage, directory, attempts)

    monkeypatch.setattr(s3_runs, "accepted", aborting)
    with pytest.raises(RetryError, match="another program has aborted its upload"):
        publishing_run(bucket, place, TWO_FILES)
    assert readers_see(bucket, place).keys() == {f"{name}/bucket_00000" for name in INPUTS}
    assert left_staged(bucket, place) == []
    assert uploads_in_flight(bucket, place) == []


def _failing_completion(monkeypatch: pytest.MonkeyPatch, number: int, error: AcidError) -> None:
    """Fails the completion of this number, once."""
    tried, one_at_a_time = itertools.count(1), threading.Lock()

    def once_failing(completed: Any) -> Any:
        def failing(own: Bucket, upload: Any) -> bool:
            with one_at_a_time:
                if next(tried) == number:
                    raise error
                return bool(completed(own, upload))

        return failing

    for kind in (S3Bucket, GcsBucket):
        monkeypatch.setattr(kind, "complete", once_failing(kind.complete))


FAILURES = (
    RetryError("Cannot publish: the store is busy"),
    CorruptError("Cannot publish: other parts"),
    MissingError("Cannot publish: no bucket"),
)


@pytest.mark.pairs
@pytest.mark.parametrize("number", range(1, TWO_FILES.uploads + 1))
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: error.kind)
def test_a_publication_that_fails_half_way_is_finished_by_the_next_run(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch, number: int, error: AcidError
) -> None:
    """Nobody can say whether it is visible: the request that failed may have been done."""
    _failing_completion(monkeypatch, number, error)
    with pytest.raises(UnknownOutcomeError, match=re.escape(str(error))):
        publishing_run(bucket, place, TWO_FILES)
    (line,) = Steps(bucket).roll_forward(place)
    assert line.startswith("publication of base_0000005 finished")
    assert published(readers_see(bucket, place), TWO_FILES)
    assert left_staged(bucket, place) == []


@pytest.mark.pairs
@pytest.mark.parametrize("number", range(1, PAIR.uploads + 1))
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: error.kind)
def test_a_hidden_publication_that_fails_half_way_leaves_nothing(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch, number: int, error: AcidError
) -> None:
    """No later run finishes it: its transaction never commits."""
    _failing_completion(monkeypatch, number, error)
    with pytest.raises(type(error), match=re.escape(str(error))):
        publishing_run(bucket, place, PAIR)
    assert readers_see(bucket, place).keys() == {f"{name}/bucket_00000" for name in INPUTS}
    assert left_staged(bucket, place) == []
    assert uploads_in_flight(bucket, place) == []


def test_what_readers_would_see_half_of_is_refused(bucket: S3Bucket, place: str) -> None:
    for shape in (
        Shape(directories=("delta_0000001_0000005", "delete_delta_0000001_0000005"), files=1),
        Shape(directories=("delta_0000001_0000005",), files=2),
    ):
        with pytest.raises(RefusedError, match="major"):
            publishing_run(bucket, place, shape)
    assert left_staged(bucket, place) == []
    assert uploads_in_flight(bucket, place) == []


def test_a_name_that_is_taken(bucket: S3Bucket, place: str) -> None:
    bucket.put(f"{place}/base_0000005/bucket_00007", b"x")
    with pytest.raises(ConflictError, match="already exists"):
        publishing_run(bucket, place, TWO_FILES)
    assert uploads_in_flight(bucket, place) == []


def test_staging_is_removed_by_its_store_alone(bucket: S3Bucket, place: str) -> None:
    store = Steps(bucket)
    store.stage(place, unique="u", owner="o", now=0.0)
    with pytest.raises(RefusedError, match="staged"):
        store.files.remove_tree(place, "_tmp_u")
    Child(lambda: publishing_run(bucket, place, TWO_FILES, "r"), kill=Point.RECORDED).wait()
    with pytest.raises(RefusedError, match="to be finished"):
        store.remove_staging(f"{place}/_tmp_r")


def test_a_task_that_outlives_its_run(s3_server: S3Server, bucket: S3Bucket, place: str) -> None:
    """What it leaves is hidden, is known as litter, and its upload ends with it."""
    store = Steps(bucket)
    stage = store.stage(place, unique="u", owner="o", now=0.0)
    store.revoke_others(place)
    store.remove_staging(stage.path)
    before = readers_see(bucket, place)
    data = store.data()
    for path in (data.output_path(stage.path, "base_0000005", "bucket_00000", "1-a"), f"{stage.path}/_attempts/part"):
        sink = data.create(path)
        sink.write(b"late")
        if path.endswith("part"):
            continue  # and it is killed here
        sink.close()
    assert readers_see(bucket, place) == before
    assert len(uploads_in_flight(bucket, place)) == (0 if s3_server.judge == "minio" else 2)
    (litter,) = find_litter(store.files, place, now=time.time() + 2 * LITTER_SECONDS)
    store.remove_staging(f"{place}/{litter.name}")
    assert uploads_in_flight(bucket, place) == []
    assert left_staged(bucket, place) == []


# --- answers that are lost ------------------------------------------------------------------------------------------


def lose_each_answer(
    relay: Relay,
    near: Bucket,
    far: Bucket,
    shape: Shape,
    places: Iterable[tuple[int, str]],
    *,
    tried_again: bool,
    most_left: int,
) -> None:
    """Tried again, nothing comes of it; else the run may fail, and the next one finds what it can finish or drop.

    far        the bucket behind the relay, in whose requests the run is made
    places     the next place, and how many requests are passed over there before an answer is lost
    most_left  uploads that may stay: one whose number was in the answer that was lost
    """
    outcomes = set()
    for number, place in places:
        made_place(near, place)
        relay.lose, relay.skip = re.compile("^(PUT|POST|DELETE) "), number
        try:
            publishing_run(far, place, shape)
            outcomes.add("fine")
        except AcidError:
            assert not tried_again
            outcomes.add("failed")
            take_over(near, place)
        if relay.lose is not None:
            break  # the run has made fewer requests
        is_there = published(readers_see(near, place), shape)
        assert is_there or not tried_again
        take_over(near, place)
        assert published(readers_see(near, place), shape) == is_there
        for name in left_staged(near, place):
            Steps(near).remove_staging(f"{place}/{name}")
        assert len(uploads_in_flight(near, place)) <= most_left
    assert outcomes == ({"fine"} if tried_again else {"fine", "failed"})


@pytest.mark.parametrize(
    ("tries", "shape"),
    amount([("1", TWO_FILES)], long=[("1", ONE_FILE), ("1", TWO_FILES), ("3", TWO_FILES)]),
)
def test_an_answer_that_is_lost_at_any_request(s3_server: S3Server, bucket: S3Bucket, tries: str, shape: Shape) -> None:
    with Relay(s3_server.port) as relay:
        properties = s3_server.properties(relay.endpoint) | {"fs.s3a.attempts.maximum": tries}
        far = S3Bucket(s3_options(bucket.name, properties))
        places = ((number, bucket.path(f"w/t/p={next(_numbers)}")) for number in itertools.count())
        lose_each_answer(relay, bucket, far, shape, places, tried_again=tries != "1", most_left=1)
    assert relay.lost >= 15


# --- claims ---------------------------------------------------------------------------------------------------------


def test_a_claim_is_held_by_one(bucket: S3Bucket, place: str) -> None:
    store = Steps(bucket)
    with store.claim(place, owner="one", token="1", now=1.0) as held:
        with pytest.raises(ConflictError, match="one has worked on it since 1970-01-01T00:00:01"):
            store.claim(place, owner="two", token="2", now=2.0)
        found = store.holder(place)
        assert found is not None
        assert (found.owner, found.token, found.start, found.is_stale) == ("one", "1", 1.0, False)
        held.assert_mine()
        with store.claim(place, owner="two", token="2", now=2.0, stale_seconds=BY_ANY_CLAIM) as taken:
            with pytest.raises(ConflictError, match="taken it over"):
                held.assert_mine()
            held.release()
            taken.assert_mine()
    assert store.holder(place) is None
    store.claim(place, owner="three", token="3", now=3.0).release()


def test_a_claim_of_a_process_that_has_ended_is_stale(bucket: S3Bucket, place: str) -> None:
    store = Steps(bucket)
    Child(lambda: publishing_run(bucket, place, ONE_FILE), kill=Point.CLAIMED).wait()
    store.claim(place, owner="two", token="2", now=2.0).release()


def test_of_many_takers_one_wins(bucket: S3Bucket, place: str) -> None:
    for _ in range(3):
        ended, running = os.pipe()
        takers = [Child(lambda n=n: _take_and_stay(bucket, place, n, ended, running)) for n in range(6)]  # noqa: B023
        os.close(running)
        assert sorted(taker.wait() for taker in takers) == [0, 3, 3, 3, 3, 3]
        os.close(ended)


def _take_and_stay(bucket: S3Bucket, place: str, number: int, ended: int, running: int) -> None:
    """Claims without a release, and stays until the others have ended: then the next round can claim."""
    Steps(bucket).claim(place, owner=str(number), token=str(number), now=0.0)
    os.close(running)
    assert os.read(ended, 1) == b"", "the end comes once nobody else has it open"


def test_a_place_that_is_none(bucket: S3Bucket, place: str) -> None:
    store = Steps(bucket)
    with pytest.raises(CorruptError, match="no object below"):
        store.claim(f"{place}/none", owner="o", token="t", now=0.0)
    with pytest.raises(RefusedError, match="is an object"):
        store.claim(f"{place}/{INPUTS[0]}/bucket_00000", owner="o", token="t", now=0.0)


# --- what the store has to keep -------------------------------------------------------------------------------------


def test_the_store_keeps_what_publication_rests_on(bucket: S3Bucket, place: str) -> None:
    before = readers_see(bucket, place)
    require_promises(Steps(bucket).store, parse_location(place), unique="u")
    assert readers_see(bucket, place) == before
    assert [entry.name for entry in Steps(bucket).files.list_directory(place)] == sorted(INPUTS)
    assert uploads_in_flight(bucket, place) == []


@pytest.mark.parametrize(
    ("call", "condition", "says"),
    [
        ("put_object", "IfNoneMatch", "makes an object that is there already"),
        ("put_object", "IfMatch", "replaces an object that has changed"),
        ("complete_multipart_upload", "IfNoneMatch", "completes an upload over an object"),
    ],
)
def test_a_store_that_ignores_a_condition_is_refused(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch, call: str, condition: str, says: str
) -> None:
    asked = getattr(bucket.client, call)
    monkeypatch.setattr(
        bucket.client, call, lambda **given: asked(**{name: item for name, item in given.items() if name != condition})
    )
    with pytest.raises(RefusedError, match=says):
        require_promises(Steps(bucket).store, parse_location(place), unique="u")
    assert [entry.name for entry in Steps(bucket).files.list_directory(place)] == sorted(INPUTS)


@pytest.mark.parametrize("call", ["complete_multipart_upload", "abort_multipart_upload"])
def test_a_probe_that_fails_leaves_no_upload(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    uploads, upload_small, request = [], trials.upload_small, getattr(bucket.client, call)

    def recording(*arguments: Any) -> Any:
        uploads.append(upload_small(*arguments))
        return uploads[-1]

    def failing_once(**arguments: Any) -> Any:
        monkeypatch.setattr(bucket.client, call, request)
        raise ClientError({"Error": {"Code": "NotImplemented"}}, "CompleteMultipartUpload")

    monkeypatch.setattr(trials, "upload_small", recording)
    monkeypatch.setattr(bucket.client, call, failing_once)
    with pytest.raises(RetryError, match="NotImplemented"):
        require_promises(Steps(bucket).store, parse_location(place), unique="u")
    assert uploads
    assert not any(bucket.is_open(upload) for upload in uploads)


# --- mutants: without a rule of the protocol, a sleeper does harm ---------------------------------------------------


def _mutant(monkeypatch: pytest.MonkeyPatch, name: str, *modules: Any) -> Callable[[Any], None]:
    def use(work: Any) -> None:
        for module in modules:
            monkeypatch.setattr(module, name, work)

    return use


def test_a_mutant_whose_marker_moves_without_a_condition(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moving(own: S3Bucket, record: Any, state: Any, publication: Any = None) -> Any:
        from dataclasses import replace

        moved = replace(record, state=state, publication=publication)
        own.put(record.path, moved.encode())
        return replace(moved, version=own.read_small(record.path).version)

    _mutant(monkeypatch, "change_state", publishing)(moving)
    child = Child(lambda: publishing_run(bucket, place, ONE_FILE), stop=Point.CHECKED)
    child.wait()
    take_over(bucket, place)
    before = readers_see(bucket, place)
    child.wake()
    assert readers_see(bucket, place) != before


def test_a_mutant_that_completes_before_it_records(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the marker nothing tells the taker of a half, and nothing stops the sleeper."""
    monkeypatch.setattr(publishing, "change_state", lambda own, record, state, publication=None: record)
    child = Child(lambda: publishing_run(bucket, place, TWO_FILES), stop=f"{EACH_COMPLETED}:2")
    child.wait()
    take_over(bucket, place)
    with pytest.raises(AssertionError):
        published(readers_see(bucket, place), TWO_FILES)
    child.wake()


def test_a_mutant_that_revokes_by_aborting_in_the_order_of_keys(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child(lambda: publishing_run(bucket, place, TWO_FILES), stop=f"{EACH_COMPLETED}:2")
    child.wait()
    abort_recorded(bucket, place)
    with pytest.raises(AssertionError):
        published(readers_see(bucket, place), TWO_FILES)
    remove(bucket, place, INPUTS[0])
    with pytest.raises(AcidError):
        take_over(bucket, place)
    child.wake()


def test_a_mutant_whose_markers_are_plain_objects(
    bucket: S3Bucket, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleeper that wakes after the cleaner brings a directory back, of which only markers are left."""

    def putting(own: S3Bucket, attempt: Any) -> bool:
        if attempt.file.startswith("_"):
            own.client.put_object(Bucket=own.name, Key=attempt.key, Body=b"2", Metadata={"acidlib": attempt.origin})
            return True
        return bool(completed(own, attempt))

    completed = S3Bucket.complete
    _mutant(monkeypatch, "complete", S3Bucket)(putting)
    child = Child(lambda: publishing_run(bucket, place, ONE_FILE), stop=Point.FIRST_RENAMED)
    child.wait()
    take_over(bucket, place)
    clean(bucket, place)
    before = readers_see(bucket, place)
    child.wake()
    assert readers_see(bucket, place) != before
