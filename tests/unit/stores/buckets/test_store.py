"""What the marker of a staging directory says, and what is no marker; requests that fail between others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from io import BytesIO
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import parse_location
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores.buckets import record, stage
from acidlib.stores.buckets.record import StagingRecord, StagingState, UploadPublication
from acidlib.stores.buckets.stage import BucketStage
from acidlib.stores.buckets.store import BucketStore
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.s3.client import s3_options
from acidlib.stores.store import StagedDirectory

RECORD = StagingRecord(
    staging="s3a://b/t/_tmp_u",
    unique="u",
    owner="o",
    start=1.5,
    state=StagingState.RECORDED,
    publication=UploadPublication(
        directories=(StagedDirectory(name="base_5", files={"f": 3}),),
        inputs=("delta_1_1",),
        uploads=(
            StagedUpload(
                key="t/base_5/f",
                upload_id="id",
                length=3,
                origin="u/a",
                parts=(Part(number=1, version="e", size=3, checksums={"ChecksumCRC32": "x"}),),
            ),
        ),
        hidden=False,
        opened_last=True,
    ),
    version="e",
)
PUBLICATION = RECORD.publication
assert PUBLICATION is not None


def test_a_marker_is_read_as_it_was_written() -> None:
    assert StagingRecord.decode(RECORD.staging, RECORD.encode(), "e") == RECORD
    assert RECORD.path == "s3a://b/t/_tmp_u/_acidlib_staging"


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"state": "published"}, {"state": "staging"}, {"publication": {}}, {"start": None}]
)
def test_what_this_version_does_not_understand_is_corrupt(change: dict[str, Any]) -> None:
    document = json.loads(RECORD.encode()) | change
    with pytest.raises(CorruptError, match="Cannot read s3a://b/t/_tmp_u"):
        StagingRecord.decode(RECORD.staging, json.dumps(document).encode(), "e")
    with pytest.raises(CorruptError, match="not a staging record"):
        StagingRecord.decode(RECORD.staging, b"{", "e")


class Served(S3Bucket):
    """A bucket whose requests another object answers."""

    __slots__ = ("_served",)

    def __init__(self, client: Any) -> None:
        super().__init__(s3_options("b", {}))
        self._served = client

    @property
    def client(self) -> Any:
        return self._served


def answered(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")


STAGED = replace(RECORD, state=StagingState.STAGING, publication=None)
REVOKED = replace(STAGED, state=StagingState.REVOKED)


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("error", [answered("SlowDown", 503), KeyboardInterrupt()])
@pytest.mark.parametrize("is_away", [False, True])
def test_uploads_that_are_noted_nowhere_are_aborted(part: int, error: BaseException, is_away: bool) -> None:
    """Of the small files of a base the first or the second fails; what aborts them may fail, too."""
    begun: list[str] = []
    aborted: set[str] = set()

    class Client:
        def create_multipart_upload(self, *, Key: str, **_: Any) -> dict[str, str]:  # noqa: N803 the store's name
            begun.append(Key)
            return {"UploadId": f"of {Key}"}

        def upload_part(self, **_: Any) -> dict[str, str]:
            if len(begun) == part:
                raise error
            return {"ETag": "e"}

        def abort_multipart_upload(self, *, UploadId: str, **_: Any) -> None:  # noqa: N803 the store's name
            aborted.add(UploadId)
            if is_away:
                raise EndpointConnectionError(endpoint_url="http://x")

    staged = BucketStage(Served(Client()), parse_location("s3a://b/t"), RECORD)
    kind = RetryError if isinstance(error, ClientError) else KeyboardInterrupt
    with pytest.raises(kind):
        staged._sealed([StagedDirectory(name="base_5", files={})], (), hidden=False)
    assert len(begun) == part
    assert aborted == {f"of {key}" for key in begun}


@pytest.mark.parametrize(
    ("there", "answer", "looks", "is_conflict"),
    [
        (RECORD, answered("PreconditionFailed", 412), 1, True),
        (None, answered("PreconditionFailed", 412), 1, False),
        (REVOKED, answered("PreconditionFailed", 412), 1, False),
        # all requests but the last look meet another request that is under way
        (REVOKED, answered("ConditionalRequestConflict", 409), 5, False),
    ],
)
def test_only_a_run_that_has_recorded_something_is_in_the_way(
    there: StagingRecord | None, answer: ClientError, looks: int, is_conflict: bool
) -> None:
    """After so many looks at the marker it is another one."""
    seen: list[StagingRecord | None] = []

    class Client:
        def list_objects_v2(self, **_: Any) -> dict[str, Any]:
            return {"CommonPrefixes": [{"Prefix": "t/_tmp_u/"}]}

        def get_object(self, **_: Any) -> dict[str, Any]:
            seen.append(there if len(seen) >= looks else STAGED)
            if seen[-1] is None:
                raise answered("NoSuchKey", 404)
            now = datetime.now(UTC)
            return {
                "Body": BytesIO(seen[-1].encode()),
                "ETag": str(seen[-1].state),
                "LastModified": now,
                "ContentLength": len(seen[-1].encode()),
                "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(now)}},
            }

        def put_object(self, **_: Any) -> None:
            raise answer

    opened = BucketStore(Served(Client()))
    with pytest.raises(ConflictError, match="has just recorded") if is_conflict else nullcontext():
        opened.revoke_others(parse_location("s3a://b/t"))
    assert seen[-1] is there


@pytest.mark.parametrize(("conflicts", "is_completed"), [(0, True), (3, True), (4, False)])
def test_a_completion_that_meets_another_request_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, conflicts: int, is_completed: bool
) -> None:
    requests: list[str] = []

    class Client:
        def complete_multipart_upload(self, *, Key: str, **_: Any) -> None:  # noqa: N803 the store's name
            requests.append(Key)
            if len(requests) <= conflicts:
                raise answered("ConditionalRequestConflict", 409)

        def head_object(self, **_: Any) -> None:
            raise answered("404", 404)

    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    (upload,) = RECORD.publication.uploads if RECORD.publication else ()
    with nullcontext() if is_completed else pytest.raises(RetryError, match="calls it a conflict"):
        assert Served(Client()).complete(upload)
    assert pauses == [0.1, 0.2, 0.4][:conflicts]


class Forged:
    """A client of a bucket with staging directories of these contents, and what is asked of it besides reading."""

    def __init__(self, *markers: StagingRecord, lists: Mapping[str, bytes] | None = None) -> None:
        self._objects = {f"t/_tmp_{number}/_acidlib_staging": mark.encode() for number, mark in enumerate(markers)}
        self._objects |= lists or {}
        self.asked: list[str] = []

    def list_objects_v2(self, **options: Any) -> dict[str, Any]:
        keys = [key for key in self._objects if key.startswith(options["Prefix"])]
        if options["Prefix"] == "t/":
            return {"CommonPrefixes": [{"Prefix": f"{prefix}/"} for prefix in {key.rpartition("/")[0] for key in keys}]}
        return {"Contents": [{"Key": key, "Size": 1, "LastModified": datetime.now(UTC)} for key in keys]}

    def get_object(self, **options: Any) -> dict[str, Any]:
        now, data = datetime.now(UTC), self._objects[options["Key"]]
        return {
            "Body": BytesIO(data),
            "ETag": "e",
            "LastModified": now,
            "ContentLength": len(data),
            "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(now)}},
        }

    def __getattr__(self, name: str) -> Any:
        def ask(**_: Any) -> dict[str, Any]:
            self.asked.append(name)
            return {}

        return ask


PLACE = parse_location("s3a://b/t")


def test_more_than_dead_runs_leave_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each upload that is named costs requests, and each record is read several times in a run."""
    limits = {"MAX_STAGES": 3, "MAX_RECORD_BYTES": 3 * len(RECORD.encode()), "MAX_UPLOADS": 2}
    for name, most in limits.items():
        monkeypatch.setattr(record, name, most)
    assert len(BucketStore(Served(Forged(RECORD, RECORD, STAGED))).unfinished(PLACE)) == 2
    assert BucketStore(Served(Forged(STAGED, STAGED, STAGED))).unfinished(PLACE) == ()
    two = replace(RECORD, publication=replace(PUBLICATION, uploads=PUBLICATION.uploads * 2))
    long = replace(STAGED, owner="o" * 4 * len(RECORD.encode()))
    for marks in ((STAGED,) * 4, (RECORD, two), (long,)):
        client = Forged(*marks)
        with pytest.raises(RefusedError, match="than dead runs leave"):
            BucketStore(Served(client)).unfinished(PLACE)
        assert not client.asked


def test_a_record_without_uploads_is_corrupt() -> None:
    mark = replace(RECORD, publication=replace(PUBLICATION, uploads=()))
    with pytest.raises(CorruptError, match="it completes no upload"):
        BucketStore(Served(Forged(mark))).unfinished(PLACE)


def test_a_record_counts_only_if_its_inputs_explain_its_results() -> None:
    client = Forged(RECORD)
    with pytest.raises(CorruptError, match="no input of base_5 has so high a write id"):
        BucketStore(Served(client)).roll_forward(PLACE)
    assert not client.asked


@pytest.mark.parametrize(("uploads", "aborted"), [(16, 16), (17, 0)])
def test_an_upload_list_names_a_few(uploads: int, aborted: int) -> None:
    listed = json.dumps([["t/base_5/f", "id"]] * uploads).encode()
    client = Forged(STAGED, lists={"t/_tmp_0/_acidlib_staging.upload.x": listed})
    stage.remove_staging(Served(client), "s3a://b/t/_tmp_0")
    assert client.asked.count("abort_multipart_upload") == aborted
    assert client.asked.count("delete_objects") == 2
