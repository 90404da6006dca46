"""Snapshots in Spark: DataFrames and the data source, with one session for all tests."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from located import at
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import acidlib
from acidlib.errors import ConflictError, MissingError, RefusedError, UsageError
from acidlib.places.place import Interpretation
from acidlib.planning.stated_write_ids import stated_write_ids
from acidlib.runs.environment import Environment, read_environment
from acidlib.runs.snapshot import Snapshot, open_snapshot
from acidlib.scan.wanted import Wanted
from acidlib.spark import holds
from acidlib.spark import source as spark_source
from acidlib.spark.read import held_dataframe
from acidlib.spark.source import SourceServer, register_format
from acidlib.spark.source_options import FORMAT, SourceOptions
from acidlib.stores.stores import Stores
from integration.harness import fixture, session_of_a_program

pytestmark = pytest.mark.spark
HAS_DATA_SOURCES = hasattr(SparkSession, "dataSource")


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A session as programs have it."""
    with session_of_a_program({"spark.sql.shuffle.partitions": "2"}) as made:
        if HAS_DATA_SOURCES:
            acidlib.register(made)
        yield made


class Opener:
    """Opens snapshots of a place, and knows which of them are open."""

    def __init__(self, environment: Environment, path: Path) -> None:
        self._environment = environment
        self.path = path
        self.opened: list[Snapshot] = []
        self.open: set[int] = set()

    def __call__(self, wanted: Wanted) -> Snapshot:
        everything = Interpretation(write_ids=stated_write_ids(text=None, file_text=None, everything=True))
        snapshot = open_snapshot(self._environment, Stores(), at(self.path), wanted, interpretation=everything)
        number = len(self.opened)
        self.opened.append(snapshot)
        self.open.add(number)
        snapshot.when_closed(partial(self.open.discard, number))
        return snapshot

    def dataframe(self, session: SparkSession, wanted: Wanted | None = None) -> DataFrame:
        wanted = wanted or Wanted(exact=False)
        return held_dataframe(session, lambda: self(wanted), columns=wanted.columns, where=wanted.where)

    def of_source(self, options: SourceOptions) -> Snapshot:
        return self(
            Wanted(columns=options.columns, where=options.where, row_ids=options.row_ids, partitions=options.partitions)
        )

    def all_released(self, session: SparkSession) -> bool:
        """Whether all are closed, once garbage has been collected in both languages; waits a little for that."""
        deadline = time.monotonic() + 60
        while self.open and time.monotonic() < deadline:
            self.collect(session)
        return not self.open

    def collect(self, session: SparkSession) -> None:
        gc.collect()
        session.sparkContext._jvm.System.gc()
        time.sleep(0.2)
        holds.OF_THIS_PROCESS.look()


@pytest.fixture
def crud(tmp_path: Path) -> Iterator[Opener]:
    """Rows (1, a), (2, b-updated), (4, d), (5, e)."""
    environment = read_environment(metastore=(), queue_url=None, assignments=())
    yield Opener(environment, fixture("hive3/a_crud", tmp_path / "db.db" / "crud"))
    holds.OF_THIS_PROCESS.release_all()


ROWS = [(1, "a"), (2, "b-updated"), (4, "d"), (5, "e")]


def rows(dataframe: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in dataframe.collect())


def test_the_rows_of_a_snapshot(session: SparkSession, crud: Opener) -> None:
    everything = crud.dataframe(session)
    assert rows(everything) == ROWS
    assert everything.dtypes == [("id", "int"), ("value", "string")]
    chosen = Wanted(columns=("VALUE",), where="id % 2 = 0 and id < 100", row_ids=True, exact=False)
    found = crud.dataframe(session, chosen)
    assert found.dtypes == [("row__id", "struct<writeid:bigint,bucketid:int,rowid:bigint>"), ("value", "string")]
    assert rows(found) == [((2, 536870912, 0), "d"), ((3, 536870912, 0), "b-updated")]
    shutil.rmtree(crud.path / "delta_0000001_0000001_0000")
    assert rows(crud.dataframe(session)) == [(2, "b-updated"), (4, "d"), (5, "e")]


@pytest.mark.pairs
@pytest.mark.parametrize("row_ids", [False, True])
@pytest.mark.parametrize("name", ["hive3/d_types", "hive4/all_types", "hive3/b_part", "hive3/i_evol"])
def test_every_type_in_both_ways(session: SparkSession, tmp_path: Path, name: str, row_ids: bool) -> None:
    path = fixture(name, tmp_path / "db.db" / "types")
    table = acidlib.directory(path, all_committed=True)
    expected = table.to_arrow(row_ids=row_ids)
    assert expected.num_rows > 1
    ways = [table.read(session, row_ids=row_ids)]
    if HAS_DATA_SOURCES:
        ways.append(session.read.format(FORMAT).options(allCommitted="true", rowIds=str(row_ids)).load(str(path)))
    for dataframe in ways:
        assert sorted_rows(arrow_of(dataframe).cast(expected.schema)) == sorted_rows(expected)


def arrow_of(dataframe: DataFrame) -> pa.Table:
    """What `toArrow` of PySpark 4 returns, also in PySpark 3."""
    return dataframe.toArrow() if HAS_DATA_SOURCES else pa.Table.from_batches(dataframe._collect_as_arrow())


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_no_rows_no_splits(session: SparkSession, crud: Opener) -> None:
    assert rows(crud.dataframe(session, Wanted(where="id > 100 and value > 'x'", exact=False))) == []
    for directory in crud.path.iterdir():
        shutil.rmtree(directory)
    with pytest.raises(MissingError, match="it is empty"):
        crud.dataframe(session)
    assert crud.all_released(session)


def test_the_configuration_stays(session: SparkSession, crud: Opener) -> None:
    def seen() -> tuple[set[tuple[str, str]], str]:
        return {tuple(row) for row in session.sql("SET").collect()}, context._jsc.sc().getLocalProperties().toString()

    context = session.sparkContext
    before = seen()
    assert rows(crud.dataframe(session)) == ROWS
    if HAS_DATA_SOURCES:
        register_format(session, crud.of_source)
        session.read.format(FORMAT).load(str(crud.path)).collect()
    assert seen() == before


def test_derived_dataframes_keep_a_snapshot(session: SparkSession, crud: Opener) -> None:
    dataframe = crud.dataframe(session)
    joined = dataframe.join(dataframe.selectExpr("id as other"), expr("id = other"))
    derived = joined.groupBy("id").count().where("count > 0")
    del dataframe, joined
    crud.collect(session)
    assert len(crud.open) == 1
    derived.collect()
    cached = derived.cache()
    cached.count()
    del derived
    crud.collect(session)
    assert len(crud.open) == 1
    cached.unpersist()
    del cached
    assert crud.all_released(session)


@pytest.mark.parametrize("use", ["collect", "cache", "view", "rdd", "nothing"])
def test_a_snapshot_is_released_after_its_last_user(session: SparkSession, crud: Opener, use: str) -> None:
    dataframe = crud.dataframe(session)
    kept: Any = None
    if use == "collect":
        dataframe.orderBy("id").collect()
    elif use == "cache":
        dataframe.cache().count()
    elif use == "view":
        dataframe.createOrReplaceTempView("kept")
    elif use == "rdd":
        kept = dataframe.rdd.map(lambda row: row.id)
        kept.count()
    del dataframe
    crud.collect(session)
    if use in ("cache", "view", "rdd"):
        assert crud.open
        session.catalog.clearCache()
        session.catalog.dropTempView("kept")
        del kept
    assert crud.all_released(session)


def test_a_closed_snapshot_cannot_be_read(session: SparkSession, crud: Opener) -> None:
    with crud(Wanted()) as snapshot:
        dataframe = snapshot.read(session)
        derived = dataframe.where("id > 2")
        assert rows(derived) == ROWS[2:]
    for closed in (dataframe, derived, dataframe.select("id")):
        with pytest.raises(PySparkException, match=r"Cannot read .*crud: its snapshot is closed; open another one"):
            closed.collect()
    with pytest.raises(ConflictError, match="its snapshot is closed"):
        snapshot.read(session)
    assert len(holds.OF_THIS_PROCESS) == 0


def test_a_lost_snapshot_cannot_be_read(session: SparkSession, crud: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    dataframe = crud.dataframe(session)
    (snapshot,) = crud.opened
    monkeypatch.setattr(snapshot, "assert_held", _lost)
    holds.OF_THIS_PROCESS.look()
    assert not crud.open
    with pytest.raises(PySparkException, match=r"Cannot read crud: its snapshot is lost"):
        dataframe.count()


def test_nothing_stays_open_after_an_error(session: SparkSession, crud: Opener) -> None:
    wrong = Wanted(where="id in (select 1) or explode(value)", exact=False)
    with pytest.raises(UsageError, match=r"Cannot use the condition"):
        crud.dataframe(session, wrong)
    with pytest.raises(UsageError, match=r"Cannot use the condition 'id': \[DATATYPE_MISMATCH"):
        crud.dataframe(session, Wanted(where="id", exact=False))
    with pytest.raises(UsageError, match="no_such"):
        crud.dataframe(session, Wanted(columns=("no_such",), exact=False))
    assert not crud.open


def test_a_damaged_file_is_named(session: SparkSession, crud: Opener) -> None:
    dataframe = crud.dataframe(session)
    bucket = crud.path / "delta_0000002_0000002_0000" / "bucket_00000"
    bucket.unlink()
    with pytest.raises(PySparkException, match="delta_0000002_0000002_0000/bucket_00000"):
        dataframe.collect()


# The data source


@pytest.fixture
def source(session: SparkSession, crud: Opener) -> Opener:
    if not HAS_DATA_SOURCES:
        pytest.skip("PySpark 3 has no data sources in Python")
    register_format(session, crud.of_source)
    return crud


def load(session: SparkSession, source: Opener, **options: str) -> DataFrame:
    return session.read.format(FORMAT).options(**options).load(str(source.path))


def test_the_source_has_the_rows_of_its_load(session: SparkSession, source: Opener) -> None:
    loaded = load(session, source)
    shutil.copytree(source.path / "delta_0000001_0000001_0000", source.path / "delta_0000005_0000005_0000")
    assert rows(loaded) == ROWS
    assert loaded.dtypes == [("id", "int"), ("value", "string")]
    assert rows(loaded.where("id > 2")) == ROWS[2:]
    assert rows(loaded) == ROWS  # what the condition left out is there again
    assert len(source.opened) == 1
    named = load(session, source, columns="value", where="id = 2", rowIds="true")
    assert rows(named) == [((3, 536870912, 0), "b-updated")]


def test_each_query_of_a_load_has_its_snapshot(
    session: SparkSession, crud: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 4.0 asks for the splits of a relation in each query, also in several at the same time."""
    server, options = SourceServer(crud.of_source, session.sparkContext), {"path": str(crud.path)}
    server.start()  # what has begun to listen removes its directory in the end
    token, _ = server.columns(options)
    first, second = server.plan(options, token), server.plan(options, token)
    assert (first, len(crud.opened)) == (second, 1)
    (snapshot,) = crud.opened
    monkeypatch.setattr(snapshot, "assert_held", _lost)
    with pytest.raises(ConflictError, match="its snapshot is lost"):
        server.plan(options, token)
    monkeypatch.setattr(spark_source, "UNSEEN_SECONDS", 0.0)
    assert crud.all_released(session)
    server.plan(options, token)
    assert len(crud.opened) == 2


def _lost() -> None:
    raise ConflictError("Cannot read crud: its snapshot is lost")


def test_the_source_in_sql(session: SparkSession, source: Opener) -> None:
    session.sql(f"CREATE TEMPORARY VIEW kept USING {FORMAT} OPTIONS (path '{source.path}', where 'id < 3')")
    assert rows(session.sql("select a.id from kept a join kept b using (id)")) == [(1,), (2,)]
    source.collect(session)
    assert source.open
    session.catalog.dropTempView("kept")
    assert source.all_released(session)


@pytest.mark.parametrize("use", ["collect", "again", "write", "cache"])
def test_the_source_holds_a_snapshot_for_its_relation(
    session: SparkSession, source: Opener, tmp_path: Path, use: str
) -> None:
    loaded = load(session, source)
    if use == "collect":
        loaded.collect()
    elif use == "again":
        loaded.count()
        source.collect(session)
        assert source.open
        loaded.count()
    elif use == "write":
        loaded.write.parquet(str(tmp_path / "copy"))
    else:
        loaded.cache().count()
    source.collect(session)
    assert len(source.open) == 1
    del loaded
    if use == "cache":
        source.collect(session)
        assert source.open
        session.catalog.clearCache()
    assert source.all_released(session)


def test_a_plan_outside_of_queries_is_held_while_there_are_jobs(
    session: SparkSession, source: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(session, source)
    assert loaded.rdd.count() == 4
    del loaded
    source.collect(session)
    assert source.open
    monkeypatch.setattr(spark_source, "UNSEEN_SECONDS", 0.1)
    assert source.all_released(session)


def test_a_load_without_a_query_is_released(
    session: SparkSession, source: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_source, "PREPARED_SECONDS", 0.1)
    loaded = load(session, source)
    assert source.all_released(session)
    assert rows(loaded) == ROWS
    assert len(source.opened) == 2


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"colums": "id"}, "db.t", "Cannot read with the option colums: hive_acid knows metastore, columns"),
        ({"where": "id = = 2"}, None, "id = = 2"),
    ],
)
def test_what_refuses_a_load_is_told_by_spark(
    session: SparkSession, source: Opener, options: dict[str, str], path: str | None, message: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        session.read.format(FORMAT).options(**options).load(path or str(source.path))
    (line,) = (line for line in str(raised.value).splitlines() if "acidlib.errors." in line)
    assert message in line
    assert not source.open


def test_the_source_does_not_write(session: SparkSession, source: Opener) -> None:
    with pytest.raises(PySparkException, match=r"Cannot write .*crud: hive_acid reads snapshots alone"):
        session.range(3).write.format(FORMAT).mode("append").save(str(source.path))
    with pytest.raises(PySparkException, match=r"Cannot stream .*crud: hive_acid reads snapshots alone"):
        session.readStream.format(FORMAT).load(str(source.path)).writeStream.format("noop").start().awaitTermination(30)


def test_a_stated_schema_is_refused(session: SparkSession, source: Opener) -> None:
    stated = session.read.format(FORMAT).schema("id bigint").load(str(source.path))
    with pytest.raises(PySparkException, match="with a stated schema: its columns are those of the table"):
        stated.collect()


def test_an_old_pyspark_is_refused(session: SparkSession, crud: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SparkSession, "dataSource", raising=False)
    with pytest.raises(
        RefusedError, match=r"Cannot register hive_acid: a data source in Python needs PySpark 4.*"
    ) as old:
        acidlib.register(session)
    assert "\n" not in str(old.value)


def test_only_holders_of_the_key_are_answered(session: SparkSession, crud: Opener) -> None:
    server = SourceServer(crud.of_source, session.sparkContext)
    server.start()
    assert Path(server.address.path).parent.stat().st_mode & 0o077 == 0
    asked: Callable[[bytes], Any] = partial(_ask, server.address.path)
    with pytest.raises(Exception, match="digest"):
        asked(b"another key")
    assert isinstance(asked(server.address.key), UsageError)
    assert not crud.open


def _ask(path: str, key: bytes) -> Any:
    from multiprocessing.connection import Client

    with Client(path, "AF_UNIX", authkey=key) as connection:
        connection.send(("columns", ({},)))
        return connection.recv()


def test_a_worker_that_reads_parquet_takes_no_more_than_twice_the_memory_of_a_task(
    session: SparkSession, tmp_path: Path
) -> None:
    """Arrow repeats a text of a dictionary at each row, and has a gibibyte in reserve; the next read has it again."""
    location = tmp_path / "t" / "delta_0000001_0000001_0000"
    location.mkdir(parents=True)
    settings = {"acidlib.task.memory": "16m"}
    table = acidlib.directory(
        tmp_path / "t", all_committed=True, table_kind="insert-only", columns="s string", settings=settings
    )
    for size in (2_000_000, 3):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * size])
        pq.write_table(pa.table({"s": column}), location / "000000_0", store_schema=False)
        assert (location / "000000_0").stat().st_size < 100_000
        rows = table.read(session)
        if size > 3:
            with pytest.raises(
                PySparkException, match=r"Cannot read \S+000000_0: .* acidlib\.task\.memory is 16,777,216"
            ):
                rows.count()
        else:
            assert rows.count() == 1000
