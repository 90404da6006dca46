"""Snapshots of tables on HDFS and in a bucket: rows as on a local disk, few requests, errors that name the file."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hdfs_native
import pyarrow as pa
import pytest
from judges import tables
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from servers.hdfs import Hdfs
from servers.s3 import S3Server
from servers.s3_proxy import Relay
from store_tables import StoreTables

import acidlib
from acidlib.api.caller import Caller
from acidlib.errors import CorruptError
from acidlib.location import HDFS, S3, Location
from integration.harness import AROUND, IN_PROCESS, session_of_a_program

pytestmark = [pytest.mark.live, pytest.mark.spark]

in_each_store = pytest.mark.parametrize("kind", [HDFS, S3])
COLUMNS = "struct<id:int,text:string>"
ROWS = (30 + 20 - 4) + 5 + (40 - 6) + 10 + 20
BUCKET = tables.bucket_property(0, 0)
STREAMED = "p=2/delta_0000005_0000006/bucket_00000"
DELETES = "p=2/delete_delta_0000004_0000004_0000/bucket_00000"
LAKE = "lake"
"""A name service that only the session of Spark knows."""


def rows(first: int, count: int) -> list[tuple[int, str]]:
    return [(number, f"text {number}") for number in range(first, first + count)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Originals with deleted rows; and a base, deltas, deletes, and a file of a stream with a side file."""
    place = tmp_path_factory.mktemp("local") / "orders"
    originals, based = place / "p=1", place / "p=2"
    originals.mkdir(parents=True)
    (originals / "000000_0").write_bytes(tables.orc_bytes(COLUMNS, rows(0, 30)))
    (originals / "000000_0_copy_1").write_bytes(tables.orc_bytes(COLUMNS, rows(100, 20)))
    gone = tables.deletes(1, [(0, BUCKET, row_id) for row_id in (3, 29, 30, 49)])
    tables.write_dir(originals, tables.delta_name(1, 1, delete=True), COLUMNS, gone)
    tables.write_dir(originals, tables.delta_name(1, 1), COLUMNS, tables.inserts(1, rows(200, 5)))
    tables.write_base(based, 3, COLUMNS, tables.inserts(3, rows(300, 40)))
    gone = tables.deletes(4, [(3, BUCKET, row_id) for row_id in range(0, 40, 7)])
    tables.write_dir(based, tables.delta_name(4, 4, delete=True), COLUMNS, gone)
    tables.write_dir(based, tables.delta_name(4, 4), COLUMNS, tables.inserts(4, rows(400, 10)))
    events = [*tables.inserts(5, rows(500, 10)), *tables.inserts(6, rows(600, 10))]
    tables.write_dir(based, tables.delta_name(5, 6, None), COLUMNS, events)
    streamed = place / STREAMED
    streamed.with_name("bucket_00000_flush_length").write_bytes(struct.pack(">qq", 0, streamed.stat().st_size))
    with streamed.open("ab") as file:
        file.write(b"of a transaction that is open")
    return place


def directory(place: Path | Location | str, caller: Caller | None = None) -> acidlib.Table:
    return acidlib.directory(str(place), all_committed=True, hive_version=3, caller=caller)


def in_store(place: Location) -> acidlib.Table:
    """A table of a program that is told of the stores as jobs are."""
    return directory(place, Caller(IN_PROCESS))


def plain(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


@in_each_store
def test_rows_are_those_of_a_local_disk(table: Path, stores: StoreTables, kind: str) -> None:
    local, there = directory(table), in_store(stores.uploaded(table, kind, "orders"))
    expected = local.to_arrow(row_ids=True)
    assert expected.num_rows == ROWS
    assert there.to_arrow(row_ids=True).equals(expected)
    some = {"columns": ["text", "p"], "where": "id >= 305 and p = '2'"}
    with there.snapshot(**some) as snapshot:
        assert snapshot.to_arrow().equals(local.to_arrow(**some))


# --- what is fetched --------------------------------------------------------------------------------------------------

STRIPES, WIDE = 6, "struct<id:int,wide:string>"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base of some megabytes, nearly all of them in one column, and a delete in each of its stripes."""
    place, chance = tmp_path_factory.mktemp("wide") / "wide", random.Random(5)
    events = tables.inserts(1, [(number, chance.randbytes(1000).hex()) for number in range(STRIPES * 1000)])
    tables.write_base(place, 1, WIDE, events, tables.Layout(stripe_size=1, batch=1000))
    gone = tables.deletes(2, [(1, BUCKET, 1000 * stripe) for stripe in range(STRIPES)])
    tables.write_dir(place, tables.delta_name(2, 2, delete=True), WIDE, gone)
    return place


def test_one_column_takes_few_requests_of_a_bucket(
    wide: Path, stores: StoreTables, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stores.uploaded(wide, S3, "wide")
    size = sum(path.stat().st_size for path in wide.rglob("bucket_*"))
    with Relay(s3_server.port) as relay:
        monkeypatch.setattr(AROUND, "hadoop", s3_server.properties(relay.endpoint))
        with in_store(place).snapshot(columns=["id"]) as one, in_store(place).snapshot(where="id < 0") as none:
            relay.reset()
            assert one.to_arrow().num_rows == STRIPES * 999
            # of two files the end and the beginning, then something of each stripe
            assert relay.requests == {"GET": relay.requests["GET"]}
            assert relay.requests["GET"] <= 4 + STRIPES
            assert relay.received < size / 5
            relay.reset()
            assert none.to_arrow().num_rows == 0
            assert relay.requests["GET"] <= 2


def test_one_column_takes_few_requests_of_hdfs(
    wide: Path, stores: StoreTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stores.uploaded(wide, HDFS, "wide")
    size = sum(path.stat().st_size for path in wide.rglob("bucket_*"))
    asked: list[int] = []
    read = hdfs_native.FileReader.read_range

    def counted(reader: Any, offset: int, length: int) -> bytes:
        asked.append(length)
        return read(reader, offset, length)

    monkeypatch.setattr(hdfs_native.FileReader, "read_range", counted)
    with in_store(place).snapshot(columns=["id"], row_ids=True) as snapshot:
        asked.clear()
        assert snapshot.to_arrow().num_rows == STRIPES * 999
    # of two files the end and the beginning, of the one the statistics, too
    assert len(asked) <= 5 + STRIPES
    assert sum(asked) < size / 5


# --- files that are gone or cut ---------------------------------------------------------------------------------------


@in_each_store
@pytest.mark.parametrize(
    ("name", "left", "reason"),
    [
        (STREAMED, None, "there is no such (file or directory|object)"),
        (STREAMED, 50, r"it has (less than \d+|50) bytes and was listed with \d+"),
        (DELETES, None, "there is no such (file or directory|object)"),
    ],
)
def test_a_file_that_goes_or_is_cut_is_named(
    table: Path,
    stores: StoreTables,
    hdfs: Hdfs,
    s3_server: S3Server,
    kind: str,
    name: str,
    left: int | None,
    reason: str,
) -> None:
    place = stores.uploaded(table, kind, "orders")
    path = place.child(name)
    with in_store(place).snapshot() as snapshot:
        if kind == HDFS:
            hdfs.client().delete(path.path)
            if left is not None:
                with hdfs.client().create(path.path) as file:
                    file.write((table / name).read_bytes()[:left])
        elif left is None:
            s3_server.client().delete_object(Bucket=place.authority, Key=path.path[1:])
        else:
            cut = (table / name).read_bytes()[:left]
            s3_server.client().put_object(Bucket=place.authority, Key=path.path[1:], Body=cut)
        with pytest.raises(CorruptError, match=rf"^Cannot read {path}: {reason}$"):
            snapshot.to_arrow()


# --- in Spark ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(s3_server: S3Server, hdfs: Hdfs) -> Iterator[SparkSession]:
    """A session that knows how stores are reached."""
    service = {
        "dfs.nameservices": LAKE,
        f"dfs.ha.namenodes.{LAKE}": "one",
        f"dfs.namenode.rpc-address.{LAKE}.one": hdfs.authority,
    }
    conf = {f"spark.hadoop.{name}": text for name, text in (s3_server.properties() | service).items()}
    with session_of_a_program(conf) as made:
        acidlib.register(made)
        yield made


@in_each_store
def test_a_session_says_how_a_store_is_reached(
    table: Path, session: SparkSession, hdfs: Hdfs, s3_server: S3Server, kind: str
) -> None:
    """Of the program itself no file and no variable says so; its executors are told by the driver."""
    place = StoreTables(hdfs, s3_server).uploaded(table, kind, "orders")
    named = str(place).replace(hdfs.authority, LAKE)
    expected = plain(directory(table).to_arrow())
    assert plain(directory(named).read(session).toArrow()) == expected
    loaded = session.read.format("hive_acid").option("allCommitted", "true").load(named)
    assert plain(loaded.toArrow()) == expected
    plan = directory(named).plan("major", spark=session, progress=False)
    assert {entry["state"] for entry in plan.entries} == {"planned"}, str(plan)


@in_each_store
def test_executors_read_an_open_snapshot(table: Path, session: SparkSession, stores: StoreTables, kind: str) -> None:
    """By what the program is told of the stores, which the session need not know."""
    place = stores.uploaded(table, kind, "orders")
    with in_store(place).snapshot() as snapshot:
        assert plain(snapshot.read(session).toArrow()) == plain(directory(table).to_arrow())


def test_a_task_names_the_file_that_is_gone(
    table: Path, session: SparkSession, stores: StoreTables, s3_server: S3Server
) -> None:
    place = stores.uploaded(table, S3, "orders")
    path = place.child(STREAMED)
    with in_store(place).snapshot() as snapshot:
        dataframe = snapshot.read(session)
        s3_server.client().delete_object(Bucket=place.authority, Key=path.path[1:])
        with pytest.raises(PySparkException, match=f"CorruptError: Cannot read {path}: there is no such object"):
            dataframe.count()
