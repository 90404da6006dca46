"""Trino reads what we compacted, also the tables that it misreads or cannot read before; our snapshots have its rows.

Only with ACIDLIB_TRINO=1 and a JDK 24 or newer (JAVA24_HOME, or one in /usr/lib/jvm): its archive has 800 MB.
"""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pytest
from servers.gcs import GcsServer
from servers.gcs_door import GcsDoor
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.sql import Session
from servers.trino import OLDEST_JAVA, Trino, new_java, properties_of_gcs

import acidlib
from integration.conftest import started
from integration.harness import AROUND
from integration.hive4_cases import CASES, CRUD, LOADED, TWIN, TYPES, Case
from integration.hive4_course import Course, live_course
from integration.hive4_jobs import Service
from integration.hive4_making import DATABASE, table_of
from integration.hive4_model import Lake
from integration.hive4_rebalanced import skewed
from integration.hive_in_stores import write

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.environ.get("ACIDLIB_TRINO") != "1", reason="ACIDLIB_TRINO=1 brings and starts Trino"),
    pytest.mark.skipif(find_spec("trino") is None, reason="its client is missing: pip install -e '.[trino]'"),
    pytest.mark.skipif(new_java() is None, reason=f"Trino needs a JDK {OLDEST_JAVA} or newer, see JAVA24_HOME"),
]
# what is asked of Trino for a column; without days before 1582 and odd moments of 1900, which it shows shifted
TYPE_COLUMNS = {
    **{name: name for name in TYPES.columns if name not in ("c_ch", "c_date", "c_ts", "c_nest")},
    "c_f": "cast(c_f as double)",
    **{name: f"json_format(cast({name} as json))" for name in ("c_arr", "c_map", "c_st")},
}


@pytest.fixture(scope="module")
def course(
    hive4_metastore: Metastore, hiveserver: HiveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Course]:
    """All cases."""
    with live_course(hive4_metastore, hiveserver, tmp_path_factory.mktemp("trino_tables"), CASES) as stages:
        yield stages


@pytest.fixture(scope="module")
def trino(hive4_metastore: Metastore, gcs_door: GcsDoor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    """Trino on the metastore of the tests."""
    java = new_java()
    assert java is not None
    directory = tmp_path_factory.mktemp("trino")
    server = Trino(hive4_metastore, java=java, directory=directory, catalog=properties_of_gcs(gcs_door, directory))
    started(server.__enter__)
    try:
        yield server
    finally:
        server.__exit__(None, None, None)


def columns_of(case: Case) -> Mapping[str, str]:
    """The columns that are compared, and how Trino is asked for each."""
    return TYPE_COLUMNS if case is TYPES else {name: name for name in case.columns}


def said(trino: Trino, case: Case, copy: str) -> list[tuple[str, ...]]:
    """What Trino reads."""
    asked = ", ".join(columns_of(case).values())
    return plain(trino.run(f"select {asked} from {DATABASE}.{table_of(case, copy)}"))


def by_hive(course: Course, case: Case) -> list[tuple[str, ...]]:
    """What Hive reads of the twin."""
    # the client prints a float with fewer digits than that of Trino
    asked = ["cast(c_f as double)" if name == "c_f" else name for name in columns_of(case)]
    return plain(course.ask(f"select {', '.join(asked)} from {table_of(case, TWIN)}"))


def by_snapshot(course: Course, case: Case, copy: str) -> list[tuple[str, ...]]:
    """What a snapshot has."""
    table = acidlib.connect(course.metastore.uri).table(f"{DATABASE}.{table_of(case, copy)}")
    found = table.to_arrow(columns=[*columns_of(case)])
    values = [
        [value if value is None else dict(value) for value in column.to_pylist()]
        if pa.types.is_map(column.type)
        else column.to_pylist()
        for column in found.columns
    ]
    return plain([*zip(*values, strict=True)])


def plain(rows: Sequence[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows in an order of their own, with values that both clients give alike."""
    return sorted(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> str:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        value = json.loads(value)
    if isinstance(value, Decimal):
        value = value.normalize()
    return repr(value)


def test_rows_stay_right_after_a_rebalance(lake_of_hive: Lake, service: Service, sql: Session, trino: Trino) -> None:
    """Those, too, that Hive then deletes and updates by their new ids, and of a column that older files do not have.

    Trino takes columns of files with row ids by position, and the deletes of a bucket from files of that number alone.
    """
    made = skewed(lake_of_hive, "spread")
    rows: list[tuple[Any, ...]] = [(*row[3], None) for row in made.expected]

    def check() -> None:
        """Trino reads the rows that have to be there."""
        # asked for two fields of a struct by themselves, it fails ("Multiple entries with same key")
        assert plain(trino.run(f"select id, v, json_format(cast(extra as json)) from {made.full}")) == plain(rows)

    def compact(kind: str) -> None:
        assert service.compact(made, kind).states == ["ready for cleaning"]
        check()
        assert [one["state"] for one in service.clean("--table", made.full)] == ["succeeded"]
        check()

    sql.run(f"alter table {made.full} add columns (extra struct<a:bigint,l:array<string>>)")
    sql.run(f"insert into {made.full} select 301, 'new', named_struct('a', 5L, 'l', array('x', 'y'))")
    sql.run(f"insert into {made.full} (id, v) values (302, 'null')")
    rows += [(301, "new", '{"a":5,"l":["x","y"]}'), (302, "null", None)]
    compact("rebalance")
    sql.run(f"update {made.full} set v = 'hit' where id in (5, 21, 107, 202, 301)")
    rows = [(row[0], "hit" if row[0] in (5, 21, 107, 202, 301) else row[1], row[2]) for row in rows]
    sql.run(f"delete from {made.full} where id in (6, 30, 110, 302)")
    rows = [row for row in rows if row[0] not in (6, 30, 110, 302)]
    compact("minor")  # before that it does not see deletes, as of other tables that Hive 4 wrote
    compact("rebalance")
    sql.run(f"delete from {made.full} where id in (7, 21, 301)")
    rows = [row for row in rows if row[0] not in (7, 21, 301)]
    compact("major")
    assert plain(sql.run(f"select id, v, extra from {made.full}")) == plain(rows)


def test_what_trino_misreads_before(course: Course, trino: Trino) -> None:
    assert course.made[CRUD.name].result() is None
    assert said(trino, CRUD, TWIN) != by_hive(course, CRUD)
    assert by_snapshot(course, CRUD, TWIN) == by_hive(course, CRUD)
    with pytest.raises(Exception, match=r"(?i)acid|orc"):
        said(trino, LOADED, TWIN)


# beside the result there is what Hive wrote and Trino misreads: deletes above an open transaction, a base of TRUNCATE,
# a base of LOAD DATA
LEFT_BY_HIVE = {
    ("open", "minor"),
    ("open", "major"),
    ("open", "auto"),
    ("truncated", "minor"),
    ("loaded_over", "minor"),
}


@pytest.mark.parametrize(("case", "copy"), [(case, copy) for case in CASES for copy in case.copies], ids=str)
def test_trino_reads_what_was_compacted(course: Course, trino: Trino, case: Case, copy: str) -> None:
    if (case.name, copy) in LEFT_BY_HIVE:
        pytest.skip("what Hive wrote, and Trino misreads, is still a part of the table")
    course.made[case.name].result()
    assert course.compacted.runs
    trinos, hives, snapshots = (dict(zip(columns_of(case), zip(*rows, strict=True), strict=False)) for rows in (
        said(trino, case, copy), by_hive(course, case), by_snapshot(course, case, copy),
    ))  # fmt: skip
    assert trinos == hives
    assert snapshots == trinos


def test_a_table_in_google_cloud_storage(
    sql: Session, trino: Trino, service: Service, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an emulator, by Trino's own client; Hive writes it by Google's connector."""
    monkeypatch.setattr(AROUND, "hadoop", gcs_server.properties())
    sql.run(f"create database lake managedlocation 'gs://{gcs_server.new_bucket()}/lake.db'")
    table = "lake.written"
    try:
        sql.run(f"create table {table} (id int, v string) stored as orc tblproperties ('transactional'='true')")
        for kind in ("major", "minor"):
            write(sql, table)

            def by_trino() -> list[tuple[Any, ...]]:
                return sorted(trino.run(f"select id, v from {table}"))

            expected = sorted((int(number), text) for number, text in sql.run(f"select id, v from {table}"))
            assert by_trino() != expected  # it finds no deletes in files with an attempt in their names
            sql.run(f"alter table {table} compact '{kind}'")
            assert service.good(f"{kind}_compact").states == ["ready for cleaning"]
            assert by_trino() == expected
            assert [one["state"] for one in service.clean("--table", table)] == ["succeeded"]
            assert by_trino() == expected
    finally:
        sql.run("drop database lake cascade")
