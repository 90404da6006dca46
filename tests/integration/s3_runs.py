"""Runs that publish to a bucket, in processes of their own, and what readers find there meanwhile."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from forking import fork

from acidlib.model.uploads import StagedUpload
from acidlib.points import KILL_AT, STOP_AT, Point, reach
from acidlib.stores.buckets.bucket import Bucket
from acidlib.stores.buckets.claims import BucketClaim
from acidlib.stores.buckets.files import BucketDataFiles, BucketFileSystem
from acidlib.stores.buckets.record import staging_records
from acidlib.stores.buckets.stage import BucketStage, remove_staging
from acidlib.stores.buckets.store import PROBED, BucketStore
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.store import STALE_SECONDS, ClaimOwner, StagedDirectory, StagedFile

INPUTS = ("delta_0000001_0000001_0000", "delta_0000005_0000005_0000")
CLAIM = "_acidlib_claim"
BY_ANY_CLAIM = -60.0
"""After so many seconds a claim counts as stale: one of a run that was just stopped, too."""

EACH_COMPLETED = Point.WRITTEN
"""Passed whenever one of the uploads behind the first was completed."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a run publishes: directories with so many files each, seen by everybody or after a commit."""

    directories: tuple[str, ...]
    files: int
    hidden: bool = False

    @property
    def uploads(self) -> int:
        """How many objects it makes, with the markers of its directories."""
        markers = 1 if self.hidden or self.directories[0].startswith("delta_") else 2
        return len(self.directories) * (self.files + markers)

    def contents(self, directory: str, number: int) -> bytes:
        """What the run writes to a file."""
        return f"{directory} {number}".encode() * 10


ONE_FILE = Shape(directories=("base_0000005",), files=1)
TWO_FILES = Shape(directories=("base_0000005",), files=2)
DELTA = Shape(directories=("delta_0000001_0000005",), files=1)
PAIR = Shape(
    directories=("delete_delta_0000001_0000005_v0000009", "delta_0000001_0000005_v0000009"), files=2, hidden=True
)


def made_place(bucket: Bucket, location: str) -> None:
    """A place with what the runs compact."""
    for name in INPUTS:
        bucket.put(f"{location}/{name}/bucket_00000", b"rows")


def publishing_run(bucket: Bucket, location: str, shape: Shape, unique: str = "first") -> None:
    """A run from its claim to its end, as the driver and its tasks do it."""
    store = Steps(bucket)
    with store.claim(location, owner=unique, token=unique, now=0.0, stale_seconds=BY_ANY_CLAIM) as claim:
        reach(Point.CLAIMED)
        store.roll_forward(location)
        store.revoke_others(location)
        stage = store.stage(location, unique=unique, owner=unique, now=0.0)
        reach(Point.STAGED)
        try:
            directories = []
            for directory in shape.directories:
                attempts = []
                for number in range(shape.files):
                    data = store.data()
                    path = data.output_path(stage.path, directory, f"bucket_{number:05}", f"{number}-a")
                    sink = data.create(path)
                    reach(Point.CREATED)
                    sink.write(shape.contents(directory, number))
                    sink.close()
                    attempts.append(data.upload(path))
                    reach(Point.CLOSED)
                directories.append(accepted(stage, directory, attempts))
            reach(Point.ACCEPTED)
            if shape.hidden:
                stage.publish_hidden(directories, last_check=claim.assert_mine)
            else:
                stage.publish(directories, inputs=INPUTS, last_check=claim.assert_mine)
            reach(Point.PUBLISHED)
        finally:
            stage.discard()


class Steps:
    """What a run does at places of a bucket, by the parts of the package."""

    def __init__(self, bucket: Bucket) -> None:
        """Does nothing yet."""
        self.bucket = bucket
        self.files = BucketFileSystem(bucket)
        self.data = partial(BucketDataFiles, bucket)
        self.store = BucketStore(bucket)
        self.stage = self.store.stage
        self.revoke_others = self.store.revoke_others
        self.roll_forward = self.store.roll_forward
        self.unfinished = self.store.unfinished
        self.remove_staging = partial(remove_staging, bucket)
        PROBED.add(bucket.options)

    def claim(self, location: Any, *, stale_seconds: float = STALE_SECONDS, **more: Any) -> BucketClaim:
        """Claims, where a claim counts as stale after so many seconds."""
        return BucketStore(self.bucket, stale_seconds=stale_seconds).claim(location, **more)

    def holder(self, location: Any) -> ClaimOwner | None:
        """Who holds the claim."""
        return self.store.holder(location, now=0.0)


CHILDREN: list[Child] = []
"""Those of the test that runs."""


def accepted(stage: BucketStage, directory: str, attempts: Sequence[StagedUpload]) -> StagedDirectory:
    """What tasks have made, as the driver takes it."""
    made = [StagedFile(path=one.key, name=one.file, length=one.length, upload=one) for one in attempts]
    return stage.accept(directory, made)


class Child:
    """A run in a process of its own, killed or stopped at a point."""

    def __init__(self, work: Callable[[], object], *, kill: str = "", stop: str = "") -> None:
        """Forks. What the child raises is its end, with status 3."""
        self._ended = False
        self.pid = fork()
        CHILDREN.append(self)
        if self.pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(120)
            os.environ |= {KILL_AT: kill} if kill else {STOP_AT: stop} if stop else {}
            _passing_each_completion()
            try:
                work()
            except BaseException:
                os._exit(3)
            os._exit(0)

    def wait(self) -> int:
        """Its status: negative for the signal that ended it. SIGSTOP counts as an end."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        self._ended = not os.WIFSTOPPED(status)
        return -signal.SIGSTOP if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """It is not there any more, whatever it was at."""
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
            while self.wait() == -signal.SIGSTOP:
                pass

    def wake(self) -> int:
        """Goes on, to its end; its status."""
        os.kill(self.pid, signal.SIGCONT)
        return self.wait()


def _passing_each_completion() -> None:
    one_at_a_time = threading.Lock()

    def passing(completed: Callable[[Any, StagedUpload], bool]) -> Callable[[Any, StagedUpload], bool]:
        def complete(bucket: Bucket, attempt: StagedUpload) -> bool:
            with one_at_a_time:
                found = completed(bucket, attempt)
                reach(EACH_COMPLETED)
            return found

        return complete

    for kind in (S3Bucket, GcsBucket):
        kind.complete = passing(kind.complete)  # type: ignore[method-assign]


def readers_see(bucket: Bucket, location: str) -> dict[str, bytes]:
    """Every object that is not hidden, by a plain listing."""
    prefix = f"{bucket.key(location)}/".lstrip("/")  # of a bucket it is empty
    if isinstance(bucket, S3Bucket):
        found = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=prefix).get("Contents", [])
        keys = [item["Key"] for item in found]
    else:
        keys = [item.key for page in bucket.pages(location, prefix) for item in page.objects]
    return {
        name: bucket.read(f"{location}/{name}")
        for name in (key.removeprefix(prefix) for key in keys)
        if not name.startswith(("_", "."))
    }


def published(seen: dict[str, bytes], shape: Shape) -> bool:
    """Whether readers see all of what a run publishes, or nothing; anything between is an AssertionError.

    At a base whose `_metadata_acid` they do not know they fail: they see neither.
    """
    expected = {
        f"{directory}/bucket_{number:05}": shape.contents(directory, number)
        for directory in shape.directories
        for number in range(shape.files)
    }
    ours = {name: data for name, data in seen.items() if name.startswith(tuple(f"{d}/" for d in shape.directories))}
    data = {name: found for name, found in ours.items() if not name.rpartition("/")[2].startswith("_")}
    assert data == expected or not data, ours.keys()
    if not data:
        assert not ours, ours.keys()
        return False
    for directory in shape.directories:
        assert ours.get(f"{directory}/_orc_acid_version") == b"2", ours.keys()
        if directory.startswith("base_"):
            assert json.loads(ours[f"{directory}/_metadata_acid"]) == {
                "thisFileVersion": "0",
                "dataFormat": "compacted",
            }
    return True


def uploads_in_flight(bucket: Bucket, location: str) -> list[str]:
    """The keys of uploads that are neither completed nor aborted; MinIO lists none of them by a prefix.

    In Google Cloud Storage those of pieces.
    """
    if not isinstance(bucket, S3Bucket):
        keys = [item.key for page in bucket.pages(location, f"{bucket.key(location)}/_tmp_") for item in page.objects]
        return [key for key in keys if "/_acidlib_staging.upload." in key]
    found = bucket.client.list_multipart_uploads(Bucket=bucket.name, Prefix=bucket.key(location) + "/")
    return [item["Key"] for item in found.get("Uploads", [])]


def abort_recorded(bucket: Bucket, location: str) -> None:
    """As a rule of the bucket, or a committer of another engine, aborts what it finds, in the order of keys."""
    (record,) = staging_records(bucket, location)
    assert record.publication is not None
    for attempt in sorted(record.publication.uploads, key=lambda attempt: attempt.key):
        bucket.abort(attempt)


def remove(bucket: Bucket, location: str, *names: str) -> None:
    """As a cleaner removes directories."""
    store = Steps(bucket)
    for name in names:
        if store.files.exists(f"{location}/{name}"):
            store.files.remove_tree(location, name)


def left_staged(bucket: Bucket, location: str) -> list[str]:
    """Staging directories."""
    return [entry.name for entry in Steps(bucket).files.list_directory(location) if entry.name.startswith("_tmp_")]
