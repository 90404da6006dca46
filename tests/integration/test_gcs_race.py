"""Runs on one place in a bucket of Google Cloud Storage, killed or asleep at every step: as in one of S3.

The emulator composes without a lock on the sources (`servers.gcs`): nobody aborts an upload here while it is composed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from long_runs import amount
from servers.gcs import GcsServer
from servers.s3_proxy import Relay

from acidlib.errors import CorruptError
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores.buckets.record import staging_records
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.gcs.options import gcs_options
from acidlib.stores.removing import LITTER_SECONDS, find_litter
from integration import test_s3_race as of_s3
from integration.s3_runs import (
    CHILDREN,
    ONE_FILE,
    TWO_FILES,
    Child,
    Point,
    Shape,
    Steps,
    made_place,
    publishing_run,
    readers_see,
    uploads_in_flight,
)
from integration.test_s3_race import (  # noqa: F401 - pytest finds them here, for the bucket below
    KILLED,
    SLEEPS,
    lose_each_answer,
    take_over,
    test_a_claim_is_held_by_one,
    test_a_claim_of_a_process_that_has_ended_is_stale,
    test_a_hidden_publication_that_fails_half_way_leaves_nothing,
    test_a_mutant_that_completes_before_it_records,
    test_a_mutant_whose_marker_moves_without_a_condition,
    test_a_name_that_is_taken,
    test_a_place_that_is_none,
    test_a_publication_that_fails_half_way_is_finished_by_the_next_run,
    test_a_run_that_nobody_disturbs,
    test_a_taker_that_is_killed_while_it_finishes,
    test_an_upload_that_was_aborted_before_is_found_out_in_time,
    test_half_of_a_base_keeps_readers_away,
    test_of_many_takers_one_wins,
    test_staging_is_removed_by_its_store_alone,
    test_the_store_keeps_what_publication_rests_on,
    test_uploads_that_somebody_else_aborts,
    test_what_is_recorded_and_lacks_an_input,
    test_what_readers_would_see_half_of_is_refused,
)

pytestmark = pytest.mark.live
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket(gcs_server: GcsServer) -> GcsBucket:
    """A bucket of this file's own."""
    return opened(gcs_server, gcs_server.new_bucket())


@pytest.fixture(name="place")
def place_with_inputs(bucket: GcsBucket) -> Iterator[str]:
    location = bucket.path(f"w/t/p={next(_numbers)}")
    made_place(bucket, location)
    yield location
    while CHILDREN:
        CHILDREN.pop().end()


def opened(server: GcsServer, name: str, endpoint: str | None = None, **more: str) -> GcsBucket:
    properties = server.properties(endpoint) | {f"fs.gs.{key.replace('_', '.')}": text for key, text in more.items()}
    return GcsBucket(gcs_options(name, properties, str))


# in a usual run some steps: who decides is in the room of buckets, which those of S3 try at each
@pytest.mark.parametrize(("step", "shape"), amount(KILLED[::6], long=KILLED))
def test_a_run_that_is_killed(bucket: GcsBucket, place: str, step: str, shape: Shape) -> None:
    of_s3.test_a_run_that_is_killed(bucket, place, step, shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(("step", "shape", "cleaned"), amount(SLEEPS[::6], long=SLEEPS))
def test_a_run_that_slept(bucket: GcsBucket, place: str, step: str, shape: Shape, cleaned: bool) -> None:
    of_s3.test_a_run_that_slept(bucket, place, step, shape, cleaned)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("retries", "shape"), amount([("0", TWO_FILES)], long=[("0", ONE_FILE), ("0", TWO_FILES), ("2", TWO_FILES)])
)
def test_an_answer_that_is_lost_at_any_request(
    gcs_server: GcsServer, bucket: GcsBucket, retries: str, shape: Shape
) -> None:
    with Relay(gcs_server.port) as relay:
        far = opened(gcs_server, bucket.name, relay.endpoint, http_max_retry=retries)
        numbers = itertools.count(step=amount(4, long=1))
        places = ((number, bucket.path(f"w/t/p=lost{next(_numbers)}")) for number in numbers)
        lose_each_answer(relay, bucket, far, shape, places, tried_again=retries != "0", most_left=0)
    assert relay.lost >= amount(4, long=15)


def test_a_task_that_outlives_its_run(bucket: GcsBucket, place: str) -> None:
    """What it leaves is hidden, is known as litter, and goes with it."""
    store = Steps(bucket)
    stage = store.stage(place, unique="u", owner="o", now=0.0)
    store.revoke_others(place)
    store.remove_staging(stage.path)
    before = readers_see(bucket, place)
    data = store.data()
    sink = data.create(data.output_path(stage.path, "base_0000005", "bucket_00000", "1-a"))
    sink.write(b"late")
    sink.close()
    assert readers_see(bucket, place) == before
    assert len(uploads_in_flight(bucket, place)) == 1
    (litter,) = find_litter(store.files, place, now=time.time() + 2 * LITTER_SECONDS)
    store.remove_staging(f"{place}/{litter.name}")
    assert uploads_in_flight(bucket, place) == []


@pytest.mark.parametrize("elsewhere", ["w/secret", "w/t/_tmp_x/f", "_tmp_x/f"])
def test_a_forged_record_composes_and_removes_nothing_elsewhere(
    bucket: GcsBucket,
    place: str,
    elsewhere: str,
) -> None:
    """Whoever may write to the table names objects that only we may read, or remove."""
    Child(lambda: publishing_run(bucket, place, ONE_FILE), kill=Point.RECORDED).wait()
    (record,) = staging_records(bucket, place)
    assert record.publication is not None
    secret = bucket.path(f"{elsewhere}.1")
    bucket.put(secret, b"secret")
    stored = bucket.look(secret)
    assert stored is not None

    def forged(upload: StagedUpload) -> Any:
        from msgspec.structs import replace

        return replace(upload, upload_id=elsewhere, parts=(Part(number=1, version=stored.version, size=6),))

    import dataclasses

    uploads = tuple(forged(upload) for upload in record.publication.uploads)
    own = dataclasses.replace(record, publication=dataclasses.replace(record.publication, uploads=uploads))
    bucket.put(record.path, own.encode())
    before = readers_see(bucket, place)
    with pytest.raises(CorruptError, match="in no staging directory beside it"):
        Steps(bucket).roll_forward(place)
    for upload in uploads:
        with pytest.raises(CorruptError, match="in no staging directory beside it"):
            bucket.abort(upload)
    assert readers_see(bucket, place) == before
    assert bucket.read(secret) == b"secret"
