"""The promises of a bucket, and their trials: publication and claims by conditional requests need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from acidlib.errors import AcidError, ConflictError
from acidlib.model.uploads import StagedUpload
from acidlib.stores.buckets.bucket import Bucket, SmallObject, create_object, read_object, replace_object
from acidlib.stores.buckets.files import BucketFileSystem, upload_small
from acidlib.stores.promises import (
    FEW_ROUNDS,
    RACERS,
    ROUNDS,
    BrokenPromiseError,
    Promise,
    race,
    races,
    require,
    require_conflict,
    winner,
)
from acidlib.stores.store import STAGING_PREFIX, attempt_path

_MAX_APART_SECONDS = 60.0
"""Difference of the time of an object that was just written and the time in the answer that has it."""


def bucket_promises(bucket: Bucket) -> tuple[Promise, ...]:
    """Return what publication and claims in a bucket rely on."""

    def tried(trial: Callable[[_Ground], str]) -> Callable[[str], str]:
        def at(place: str) -> str:
            with _Ground.at(bucket, place) as ground:
                return trial(ground)

        return at

    return (
        Promise(
            name="creations replace nothing",
            sentence=f"An object that exists is not created again ({bucket.absent}).",
            trial=tried(_create_refuses),
            is_quick=True,
        ),
        Promise(
            name="stale replacements are refused",
            sentence=f"An object that has changed is not replaced ({bucket.unchanged}).",
            trial=tried(_replace_refuses),
            is_quick=True,
        ),
        Promise(
            name="completions replace nothing",
            sentence=f"An upload is not completed over an object ({bucket.absent}).",
            trial=tried(_completion_refuses),
            is_quick=True,
        ),
        Promise(
            name="aborted uploads stay aborted",
            sentence="An upload that was aborted is never completed.",
            trial=tried(_aborted),
            is_quick=True,
        ),
        Promise(
            name="one creator of a name",
            sentence="Of several who create an object one succeeds.",
            trial=tried(_one_creator),
        ),
        Promise(
            name="one successor of a version",
            sentence="Of several who replace one version of an object one succeeds.",
            trial=tried(_one_successor),
        ),
        Promise(
            name="one completion of a name",
            sentence="Of several uploads to one name one is completed.",
            trial=tried(_one_completion),
        ),
        Promise(
            name="aborts are final",
            sentence="An upload that nobody sees after its abort is never seen.",
            trial=tried(_completed_or_aborted),
        ),
        Promise(
            name="open uploads are hidden",
            sentence="Nobody sees an upload before it is completed.",
            trial=tried(_hidden),
        ),
        Promise(
            name="completed uploads stay",
            sentence="Neither an abort nor a second completion changes a completed upload.",
            trial=tried(_completed),
        ),
        Promise(
            name="changes are listed at once",
            sentence="A listing shows each change at once.",
            trial=tried(_listing),
        ),
        Promise(
            name="all times are of one clock",
            sentence="Times of objects and of answers are by one clock.",
            trial=tried(_clock),
        ),
    )


class _Ground:
    """The objects of one trial, whose uploads end with it."""

    def __init__(self, bucket: Bucket, place: str) -> None:
        self.bucket = bucket
        self.place = place
        self.fs = BucketFileSystem(bucket)
        self._uploads: list[StagedUpload] = []

    @classmethod
    @contextmanager
    def at(cls, bucket: Bucket, place: str) -> Iterator[_Ground]:
        """Begin a trial; at its end uploads are aborted, as no upload list names them. Objects go with the folder."""
        ground = cls(bucket, place)
        try:
            yield ground
        finally:
            for upload in ground._uploads:
                with suppress(AcidError):
                    bucket.abort(upload)

    def path(self, name: object) -> str:
        return f"{self.place}/{name}"

    def upload(self, name: object, origin: str = "probe") -> StagedUpload:
        """Return an upload of the name, which can be completed."""
        planned = StagedUpload(key=self.bucket.key(self.path(name)), origin=origin)
        self._uploads.append(upload_small(self.bucket, planned, origin.encode(), self._apart(name, origin)))
        return self._uploads[-1]

    def _apart(self, name: object, origin: str) -> str:
        return attempt_path(f"{self.place}/{STAGING_PREFIX}probe", "uploads", str(name), origin)

    def create(self, name: object, data: bytes) -> str:
        return create_object(self.bucket, self.path(name), data)

    def replace(self, name: object, version: str, data: bytes) -> str:
        return replace_object(self.bucket, self.path(name), version, data)

    def read(self, name: object) -> SmallObject:
        """Return an object that is there."""
        read = read_object(self.bucket, self.path(name))
        if read is None:
            raise BrokenPromiseError("an object that was just made is not there")
        return read

    def data(self, name: object) -> bytes | None:
        read = read_object(self.bucket, self.path(name))
        return None if read is None else read.data

    def names(self) -> list[str]:
        """Return what readers see."""
        names = [entry.name for entry in self.fs.list_directory(self.place)]
        return [name for name in names if not name.startswith(STAGING_PREFIX)]


def _create_refuses(ground: _Ground) -> str:
    ground.create("a", b"first")
    require_conflict(partial(ground.create, "a", b"another"), "it makes an object that is there already")
    require(ground.data("a") == b"first", "it changes an object by a creation that it refuses")
    return "the object stayed as it was"


def _replace_refuses(ground: _Ground) -> str:
    first = ground.create("a", b"first")
    ground.replace("a", first, b"second")
    require_conflict(partial(ground.replace, "a", first, b"third"), "it replaces an object that has changed")
    require(ground.data("a") == b"second", "it changes an object by a replacement that it refuses")
    require_conflict(partial(ground.replace, "none", first, b"first"), "it replaces an object that is gone")
    return "the object stayed as it was"


def _completion_refuses(ground: _Ground) -> str:
    ground.create("a", b"first")
    upload = ground.upload("a")
    require_conflict(partial(ground.bucket.complete, upload), "it completes an upload over an object that is there")
    require(ground.data("a") == b"first", "it changes an object by a completion that it refuses")
    ground.bucket.abort(upload)
    return "the object stayed as it was"


def _aborted(ground: _Ground) -> str:
    upload = ground.upload("a")
    ground.bucket.abort(upload)
    require(not ground.bucket.complete(upload), "it completes an upload that was aborted")
    require(ground.data("a") is None, "it makes an object of an upload that was aborted")
    return "the completion was refused"


def _one_creator(ground: _Ground) -> str:
    for number in range(ROUNDS):
        calls = [partial(ground.create, number, b"%d" % racer) for racer in range(RACERS)]
        won = winner(calls, "created one object")
        require(ground.data(number) == b"%d" % won, "the object is not the winner's")
    return races()


def _one_successor(ground: _Ground) -> str:
    version = ground.create("a", b"first")
    for number in range(ROUNDS):
        contents = [b"%d.%d" % (number, racer) for racer in range(RACERS)]
        won = winner([partial(ground.replace, "a", version, data) for data in contents], "replaced one version")
        now = ground.read("a")
        require(now.data == contents[won], "the object is not the winner's")
        version = now.version
    return races()


def _one_completion(ground: _Ground) -> str:
    for number in range(FEW_ROUNDS):
        uploads = [ground.upload(number, f"of{racer}") for racer in range(RACERS)]
        won = winner([partial(ground.bucket.complete, upload) for upload in uploads], "completed one name")
        visible = [racer for racer, upload in enumerate(uploads) if ground.bucket.is_visible(upload)]
        require(visible == [won], "the object is not the winner's")
    return races(FEW_ROUNDS)


def _completed_or_aborted(ground: _Ground) -> str:
    completed = 0
    for number in range(ROUNDS):
        upload = ground.upload(number)

        def aborted_and_seen(upload: StagedUpload = upload) -> bool:
            ground.bucket.abort(upload)
            return ground.bucket.is_visible(upload)

        calls: tuple[Callable[[], bool], ...] = (partial(ground.bucket.complete, upload), aborted_and_seen)
        is_said, was_seen = race(calls)
        ground.bucket.abort(upload)
        is_there = ground.bucket.is_visible(upload)
        require(
            isinstance(was_seen, Exception) or is_there is was_seen,
            "what was seen after an abort is not what became of the upload",
        )
        # an error says nothing of it
        is_true = isinstance(is_said, Exception) or is_there is is_said
        require(is_true, "its answer to a completion is not what became of the upload")
        require(not ground.bucket.is_open(upload), "an upload can be completed after it was completed or aborted")
        completed += is_there
    return f"{ROUNDS} races: {completed} completed, {ROUNDS - completed} aborted"


def _hidden(ground: _Ground) -> str:
    ground.create("a", b"first")
    upload = ground.upload("b")
    require(ground.names() == ["a"], "it lists an upload that is not completed")
    require(ground.data("b") is None, "it shows the object of an upload that is not completed")
    require(ground.bucket.is_open(upload), "an upload is not there after its parts were sent")
    return "neither listed nor read"


def _completed(ground: _Ground) -> str:
    upload = ground.upload("a")
    require(ground.bucket.complete(upload), "an upload could not be completed")
    ground.bucket.abort(upload)
    require(ground.data("a") == b"probe" and ground.bucket.is_visible(upload), "an abort has changed a visible object")
    require(ground.bucket.complete(upload), "a second completion does not count as done")
    ground.bucket.remove(ground.place, {upload.key: ""})
    with suppress(ConflictError):
        require(not ground.bucket.complete(upload), "an upload was completed again, after its object was removed")
    require(ground.data("a") is None, "a second completion has brought a removed object back")
    return "the object stayed as it was"


def _listing(ground: _Ground) -> str:
    ground.create("0", b"")
    for number in range(1, ROUNDS + 1):
        upload = ground.upload(number)
        ground.bucket.complete(upload)
        require(ground.names() == ["0", str(number)], "an upload that was completed is not listed")
        ground.bucket.remove(ground.place, {upload.key: ""})
        require(ground.names() == ["0"], "an object that was removed is listed")
    return f"{2 * ROUNDS} changes, each listed at once"


def _clock(ground: _Ground) -> str:
    ground.create("a", b"first")
    now = ground.read("a")
    apart = abs(now.now - now.modified)
    require(apart < _MAX_APART_SECONDS, f"an object that was just made is {apart:.0f} s old by its clock")
    return f"within {apart + 1:.0f} s"
