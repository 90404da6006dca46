"""Trino on a metastore of Hive 3.1: tables whose columns changed, and tables that lie on HDFS and in buckets.

Of files with ACID columns Trino 476 takes columns by position, of original files by name; ``hive.orc.use-column-names``
changes neither. After a compaction it reads what Hive 3.1 reads by name. Only with ACIDLIB_TRINO=1, see ``test_trino``.
"""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from judges.fixtures import Fixture
from judges.hive_reader import hive_reader
from judges.tables import build
from servers.hdfs import Hdfs
from servers.metastore import Metastore
from servers.s3 import S3Server
from servers.s3_proxy import Relay
from servers.trino import OLDEST_JAVA, Trino, new_java, properties_of_stores

import acidlib
from acidlib.api.caller import Caller
from acidlib.location import HDFS, S3
from acidlib.stores.listing import UNFINISHED_FORMAT
from integration.conftest import started
from integration.harness import AROUND, IN_PROCESS
from integration.hive3_site import Site
from integration.hive3_tables import Laid, lay
from integration.hive4_model import COLUMNS, plain
from integration.moved_places import MovedPlaces
from integration.spliced import LAYOUT, transactions, was_spliced
from integration.test_columns_of_metastore import change_columns

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.environ.get("ACIDLIB_TRINO") != "1", reason="ACIDLIB_TRINO=1 brings and starts Trino"),
    pytest.mark.skipif(find_spec("trino") is None, reason="its client is missing: pip install 'acidlib[trino]'"),
    pytest.mark.skipif(new_java() is None, reason=f"Trino needs a JDK {OLDEST_JAVA} or newer, see JAVA24_HOME"),
]
RENAMED = {"id": "int", "note": "string"}
ADDED = {"id": "int", "new": "string", "value": "string"}


@pytest.fixture(scope="module")
def trino(
    hive3_metastore: Metastore, hdfs: Hdfs, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trino]:
    java = new_java()
    assert java is not None
    stores = properties_of_stores(hdfs, s3_server)
    server = Trino(hive3_metastore, java=java, directory=tmp_path_factory.mktemp("trino"), catalog=stores)
    started(server.__enter__)
    try:
        yield server
    finally:
        server.__exit__(None, None, None)


def by_hive(location: Path, columns: dict[str, str], write_ids: str) -> list[str]:
    rows = hive_reader(3).rows(location, columns, write_ids=write_ids)
    texts = [[value[2:] if isinstance(value, str) else value for value in row[3]] for row in rows]
    return sorted(map(repr, texts))


@pytest.mark.parametrize("fixture", ["a_crud", "g_orig"])
@pytest.mark.parametrize("columns", [RENAMED, ADDED], ids=["renamed", "added"])
def test_after_a_major_trino_reads_what_hive_3_reads(
    own: Site, trino: Trino, fixture: str, columns: dict[str, str]
) -> None:
    laid: Laid = own.lay(fixture)
    change_columns(own, laid.name, columns)

    def by_trino() -> list[str]:
        return sorted(repr(list(row)) for row in trino.run(f"select * from {laid.full_name}"))

    def by_snapshot() -> list[str]:
        return sorted(map(repr, snapshot_of(own, laid)))

    before = by_hive(laid.location, columns, laid.write_ids())
    assert by_trino() != before  # by position: what was in the column of that place
    assert by_snapshot() == before
    own.good("major_compact", "--table", laid.full_name)
    assert by_hive(laid.location, columns, laid.write_ids()) == before
    assert by_trino() == before
    assert by_snapshot() == before


def snapshot_of(site: Site, laid: Laid) -> list[list[Any]]:
    """The rows of a snapshot, by what the jobs are told of stores."""
    found = acidlib.connect(site.uri, caller=Caller(IN_PROCESS)).table(laid.full_name).to_arrow()
    return [list(row.values()) for row in found.to_pylist()]


# --- stores -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def places(
    hive3_metastore: Metastore,
    hdfs: Hdfs,
    s3_server: S3Server,
    own: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MovedPlaces]:
    """After `own`, which drops the database in the end."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties())
    made = MovedPlaces(hive3_metastore, hdfs, s3_server, tmp_path / "copies")
    try:
        yield made
    finally:
        made.again()


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_partitions_in_all_stores(own: Site, trino: Trino, places: MovedPlaces, kind: str) -> None:
    laid = own.lay("b_part")
    _, second, third = laid.places()
    places.move(second, HDFS)
    places.move(third, S3)

    def by_trino() -> Counter[str]:
        return Counter("\t".join(map(str, row)) for row in trino.run(f"select * from {laid.full_name}"))

    def by_snapshot() -> Counter[str]:
        return Counter("\t".join(map(str, row)) for row in snapshot_of(own, laid))

    by_hive, _ = laid.as_hive_read_it()
    assert by_trino() == by_snapshot() == by_hive
    no_major = ("--set", "acidlib.minor.as.major.bytes=0")
    assert set(own.good(f"{kind}_compact", "--table", laid.full_name, *no_major).states) == {"ready for cleaning"}
    assert by_trino() == by_snapshot() == by_hive
    assert {entry["state"] for entry in own.clean()} == {"succeeded"}
    assert by_trino() == by_snapshot() == by_hive


def test_a_spliced_file(
    own: Site,
    trino: Trino,
    places: MovedPlaces,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "spliced"
    built = build(folder / "before", COLUMNS, transactions(), layouts=(LAYOUT,))
    (folder / "ddl.sql").write_text("create table spliced (id int, v string)\n")
    source = Fixture(folder=folder, generation=3, write_ids="", insert_only=False, layers=())
    laid = lay(own.client, source, own.database)
    places.move(laid.location, S3)
    with Relay(s3_server.port) as relay:
        monkeypatch.setattr(AROUND, "hadoop", s3_server.properties(relay.endpoint))
        (entry,) = own.good("major_compact", "--table", laid.full_name).compactions
    assert was_spliced(entry, relay.sent)
    rows = sorted(trino.run(f"select id, v from {laid.full_name}"))
    assert rows == sorted(plain(row)[3] for row in built.expected)


def test_a_base_that_is_being_published(own: Site, trino: Trino) -> None:
    """As a bucket shows several files: all rows as long as none of them is there, and then an error."""
    laid = own.lay("m_multiwriter")

    def by_trino() -> Counter[str]:
        return Counter("\t".join(map(str, row)) for row in trino.run(f"select * from {laid.full_name}"))

    before = by_trino()
    (entry,) = own.good("major_compact", "--table", laid.full_name).compactions
    (name,) = entry["output_directories"]
    begun = f'{{"thisFileVersion": "0", "dataFormat": "{UNFINISHED_FORMAT}", "run": "r"}}'
    (laid.location / name / "_metadata_acid").write_text(begun)
    first, *others = sorted((laid.location / name).glob("bucket_*"))
    for file in others:
        file.unlink()
    with pytest.raises(Exception, match=UNFINISHED_FORMAT):
        by_trino()
    first.unlink()
    assert by_trino() == before


def test_a_base_whose_markers_are_to_come(own: Site, trino: Trino) -> None:
    """As a bucket shows one file: with its rows."""
    laid = own.lay("a_crud")
    before = sorted(trino.run(f"select * from {laid.full_name}"))
    (entry,) = own.good("major_compact", "--table", laid.full_name).compactions
    (name,) = entry["output_directories"]
    for marker in ("_metadata_acid", "_orc_acid_version"):
        (laid.location / name / marker).unlink()
    assert sorted(trino.run(f"select * from {laid.full_name}")) == before
