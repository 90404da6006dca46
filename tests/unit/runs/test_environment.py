"""What a run is told of its metastore by the words of its command line, its settings and its variables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from servers.settings import write_site

from acidlib.config.settings import default_settings
from acidlib.errors import RefusedError, UsageError
from acidlib.metastore.options import Protection
from acidlib.runs.environment import SHIPPED_BY_YARN, Environment, read_environment, stated_uris
from acidlib.runs.open import metastore_database, open_queue

ZOOKEEPER = "zookeeper://zk1:2181/hive_metastore,zookeeper://zk2:2181/hive_metastore"


def test_a_queue_of_our_own_knows_metastores_and_catalogs_apart() -> None:
    one = Environment(
        settings=default_settings(), queue_url="sqlite://", metastore=("thrift://b:1", "thrift://a:1"), user="joe"
    )
    assert one.metastore_name == "thrift://a:1,thrift://b:1"
    for catalog, ending in (("hive", ""), ("Spark", "#spark")):
        settings = replace(one.settings, site={"metastore.catalog.default": catalog})
        assert replace(one, settings=settings).metastore_name == one.metastore_name + ending


def test_a_zookeeper_on_the_command_line() -> None:
    assert stated_uris(ZOOKEEPER) == tuple(ZOOKEEPER.split(","))
    with pytest.raises(RefusedError, match="it names no node"):
        stated_uris("zookeeper://zk1:2181")


def test_a_token_is_that_of_its_variable_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.setenv("HMS_JWT", "secret.of.mine\n")
    found = read_environment(metastore=("thrift://a:1",), queue_url=None, assignments=())
    assert found.token == "secret.of.mine"
    assert "secret" not in repr(found)
    site = {"metastore.client.thrift.transport.mode": "http", "metastore.client.auth.mode": "JWT"}
    http = replace(found, settings=replace(found.settings, site=site)).connection_options().http
    assert http is not None
    assert http.token == "secret.of.mine"


@pytest.mark.parametrize(
    ("placed", "own", "found"),
    [(True, False, "shipped"), (True, True, "own"), (False, False, None), (False, True, "own")],
)
def test_a_driver_that_yarn_started_reads_what_spark_has_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placed: bool, own: bool, found: str | None
) -> None:
    """Unless its container has a configuration of its own."""
    monkeypatch.chdir(tmp_path)
    for name, place in (("shipped", SHIPPED_BY_YARN), ("own", Path("conf"))):
        place.mkdir(parents=True)
        write_site(place / "core-site.xml", {"fs.defaultFS": f"hdfs://{name}"})
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    if own:
        monkeypatch.setenv("HADOOP_CONF_DIR", "conf")
    given = read_environment(metastore=(), queue_url=None, assignments=(), is_placed=placed)
    assert given.settings.hadoop.get("fs.defaultFS") == (found and f"hdfs://{found}")


def test_the_database_of_the_queue_may_be_the_metastores_where_it_was_chosen() -> None:
    where = Environment(settings=default_settings(), queue_url="postgresql+psycopg://db/metastore")
    with metastore_database(where) as database:
        assert database is not None
    with metastore_database(replace(where, is_queue_named=False)) as none:
        assert none is None


def test_a_database_that_is_stated_to_be_the_metastores_is_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is created in another one, and a variable is for runs with a metastore alone."""
    url, stated = f"sqlite:///{tmp_path}/q.db", ("thrift://a:1",)
    where = read_environment(metastore=stated, metastore_db=url, queue_url="sqlite:///other.db", assignments=())
    assert (where.queue_url, where.is_queue_named) == (url, True)
    with pytest.raises(RefusedError, match=r"as the metastore's database: it has no schema .*; --queue-url names"):
        open_queue(where)
    with closing(sqlite3.connect(tmp_path / "q.db")) as database:
        assert database.execute("select * from sqlite_master").fetchall() == []
    with pytest.raises(UsageError, match=r"^--metastore-db needs a metastore$"):
        read_environment(metastore=(), metastore_db=url, queue_url=None, assignments=())
    monkeypatch.setenv("ACIDLIB_METASTORE_DB", url)
    for metastore, queue_url, is_metastores in (
        (stated, None, True),
        (stated, "sqlite:///q", False),
        ((), None, False),
    ):
        found = read_environment(metastore=metastore, queue_url=queue_url, assignments=())
        assert (found.has_metastore_db, found.queue_url == url) == (is_metastores, is_metastores)


@pytest.mark.parametrize("file", ["hive-site.xml", "core-site.xml"])
def test_what_becomes_of_messages_may_be_stated_in_either_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    write_site(tmp_path / file, {"hadoop.rpc.protection": "privacy"})
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    found = read_environment(metastore=("thrift://a:1",), queue_url=None, assignments=())
    site = {
        **found.settings.site,
        "hive.metastore.sasl.enabled": "true",
        "metastore.kerberos.principal": "hive/_HOST@R",
    }
    sasl = replace(found, settings=replace(found.settings, site=site)).connection_options().sasl
    assert sasl is not None
    assert sasl.protection == (Protection.PRIVACY,)
