"""Files of tables in a bucket: made and published there, they are what they are on a local disk, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, Compacted, compact_directory, plan
from located import at
from servers.s3 import S3Server
from servers.s3_proxy import Relay

from acidlib.location import parse_location
from acidlib.model.units import Unit, UnitResult
from acidlib.model.uploads import StagedUpload
from acidlib.planning.inputs import CompactionInputs, Publication
from acidlib.planning.units import actions_of_tasks
from acidlib.rewrite.bucket import join_parts, plan_bucket, run_part, run_unit
from acidlib.runs.plan import filled_directories
from acidlib.stores.buckets.stage import BucketStage
from acidlib.stores.listing import list_location
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.s3.bucket import S3Bucket
from acidlib.stores.s3.client import s3_options
from integration.s3_runs import Steps, accepted
from integration.test_parts import make_table

pytestmark = pytest.mark.live
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> S3Bucket:
    """A bucket of this file's own."""
    return S3Bucket(s3_options(s3_server.new_bucket(), s3_server.properties()))


def uploaded(bucket: S3Bucket, place: Path, location: str) -> None:
    for file in sorted(place.rglob("*")):
        if file.is_file():
            key = bucket.key(f"{location}/{file.relative_to(place)}")
            bucket.client.put_object(Bucket=bucket.name, Key=key, Body=file.read_bytes())


def below(place: Path, directories: Sequence[str]) -> dict[str, bytes]:
    return {
        str(file.relative_to(place)): file.read_bytes() for name in directories for file in (place / name).iterdir()
    }


def in_bucket(bucket: S3Bucket, location: str, directories: Sequence[str]) -> dict[str, bytes]:
    files = Steps(bucket).files
    return {
        f"{name}/{entry.name}": files.read(f"{location}/{name}/{entry.name}")
        for name in directories
        for entry in files.list_directory(f"{location}/{name}")
    }


def whole(store: Steps, stage: BucketStage, unit: Unit) -> tuple[UnitResult, StagedUpload | None]:
    data = store.data()
    path = data.output_path(stage.path, unit.directory, unit.file_name, "0-a")
    result = run_unit(unit, data, path)
    return result, None if result.path is None else data.upload(result.path)


def in_parts(store: Steps, stage: BucketStage, unit: Unit) -> tuple[UnitResult, StagedUpload | None]:
    found = plan_bucket(unit, store.data())
    numbers = actions_of_tasks(found.actions, 20_000)
    assert len(numbers) > 1
    parts = []
    for place, some in enumerate(numbers):
        path = f"{stage.path}/_attempts/{unit.directory}.{unit.file_name}.part{place}.a"
        parts.append(run_part(found.part(some), store.data(), path))
    data = store.data()
    path = data.output_path(stage.path, unit.directory, unit.file_name, "0-a")
    result = join_parts(found, parts, data, path)
    return result, data.upload(path)


def compacted(
    bucket: S3Bucket, location: str, inputs: CompactionInputs, units: Sequence[Unit], *, parts: bool = False
) -> tuple[str, ...]:
    store = Steps(bucket)
    stage = store.stage(location, unique="u", owner="o", now=0.0)
    made = [(in_parts if parts else whole)(store, stage, replace(unit, location=location)) for unit in units]
    directories = [
        accepted(stage, name, [attempt for _, attempt in made if attempt is not None and attempt.directory == name])
        for name in filled_directories(inputs, [result for result, _ in made])
    ]
    if inputs.publication is Publication.COMMIT:
        return stage.publish_hidden(directories, last_check=lambda: None).directories
    read = tuple(entry.path for entry in inputs.directories if entry.path)
    return stage.publish(directories, inputs=read, last_check=lambda: None).directories


@pytest.mark.parametrize("parts", [False, True])
def test_a_bucket_whole_and_in_parts(bucket: S3Bucket, tmp_path: Path, parts: bool) -> None:
    place = make_table(tmp_path / "t")
    location = bucket.path(f"w/parts-{parts}")
    uploaded(bucket, place, location)
    inputs, units = plan(place, MAJOR)
    there = compacted(bucket, location, inputs, units, parts=parts)
    here = compact_directory(place, MAJOR)
    assert there == here.directories
    assert in_bucket(bucket, location, there) == below(place, there)


@pytest.mark.parametrize(
    ("fixture", "kind", "generation", "txn"),
    [
        ("hive3/c_bucket", MAJOR, 3, None),
        ("hive3/a_crud", MAJOR, 3, None),
        ("hive3/g2_origbucket", MAJOR, 3, None),
        ("hive4/crud_table", MINOR, 4, 77),
        ("hive4/merge_compactor", MAJOR, 4, 77),
    ],
)
def test_tables_that_hive_wrote(
    bucket: S3Bucket, tmp_path: Path, fixture: str, kind: object, generation: int, txn: int | None
) -> None:
    place = tmp_path / "t"
    shutil.copytree(FIXTURES / fixture / "before", place)
    location = bucket.path(f"w/{fixture}-{txn}")
    uploaded(bucket, place, location)
    local = list_location(LocalFileSystem(), at(place))
    listed = list_location(Steps(bucket).files, parse_location(location))
    assert [(file.path, file.length) for file in listed.files] == [(file.path, file.length) for file in local.files]
    assert listed.directories == local.directories
    assert listed.compacted_bases == local.compacted_bases
    inputs, units = plan(place, kind, generation=generation, visibility_txn=txn)  # type: ignore[arg-type]
    there = compacted(bucket, location, inputs, units)
    here: Compacted = compact_directory(place, kind, generation=generation, visibility_txn=txn)  # type: ignore[arg-type]
    assert there == here.directories
    assert in_bucket(bucket, location, there) == below(place, there)


def test_few_requests_make_a_file(s3_server: S3Server, bucket: S3Bucket, tmp_path: Path) -> None:
    place = make_table(tmp_path / "t")
    location = bucket.path("w/requests")
    uploaded(bucket, place, location)
    _, units = plan(place, MAJOR)
    with Relay(s3_server.port) as relay:
        far = S3Bucket(s3_options(bucket.name, s3_server.properties(relay.endpoint)))
        store = Steps(far)
        stage = store.stage(location, unique="u", owner="o", now=0.0)
        relay.reset()
        (unit,) = units
        _, attempt = whole(store, stage, replace(unit, location=location))
        assert attempt is not None
        assert relay.requests == {"GET": len(unit.inputs) + len(unit.deletes), "PUT": 2, "POST": 1}  # one is a note
        relay.reset()
        directory = accepted(stage, unit.directory, [attempt])
        stage.publish([directory], inputs=(), last_check=lambda: None)
        assert stage.discard() is None
        assert sum(relay.requests.values()) <= 15
