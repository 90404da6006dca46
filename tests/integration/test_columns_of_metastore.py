"""Tables whose columns a metastore tells: what Hive reads by name, or by position, is the same after a compaction."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from judges import merge, tables
from judges.evolution import Columns, struct_text
from judges.hive_reader import POSITIONAL, hive_reader
from long_runs import amount
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.settings import write_settings
from servers.sql import Row

from integration.harness import Jobs
from integration.hive3_site import Site
from integration.hive4_jobs import Service

pytestmark = pytest.mark.live

OFF = {POSITIONAL: "false"}
SAME_NAMES = {"id": "int", "value": "string"}


def by_hive_3(location: Path, columns: Mapping[str, str], write_ids: str) -> list[merge.Row]:
    """The rows of Hive 3.1.3, row by row and by batches, and of the naive reader."""
    hive = hive_reader(3)
    rows = hive.rows(location, columns, write_ids=write_ids)
    assert rows == hive.rows(location, columns, write_ids=write_ids, vectorized=True)
    assert rows == merge.read(location, write_ids, generation=3, columns=Columns(types=columns), strict=True)
    return rows


def change_columns(site: Site, name: str, columns: Mapping[str, str]) -> None:
    """ALTER TABLE ... REPLACE COLUMNS."""
    table = site.client.table(site.database, name)
    field = type(table.sd.cols[0])
    table.sd.cols = [field(name=column, type=kind) for column, kind in columns.items()]
    site.client.call.alter_table(site.database, name, table)


@pytest.mark.parametrize("kind", ["major", "minor"])
@pytest.mark.parametrize(
    "columns",
    [{"id": "int", "note": "string"}, {"id": "int", "new": "string", "value": "string"}],
    ids=["renamed", "added"],
)
def test_hive_3_reads_by_name(own: Site, columns: Mapping[str, str], kind: str) -> None:
    laid = own.lay("a_crud")
    change_columns(own, laid.name, columns)
    before = by_hive_3(laid.location, columns, laid.write_ids())
    by_place = merge.read(
        laid.location, laid.write_ids(), generation=3, columns=Columns(types=columns, by_position=True)
    )
    assert before != by_place
    ran = own.good(f"{kind}_compact", "--table", laid.full_name)
    assert ran.states == ["ready for cleaning"], ran
    assert by_hive_3(laid.location, columns, laid.write_ids()) == before


def test_hive_3_reads_a_loaded_file_by_name(own: Site) -> None:
    laid = own.lay("a_crud")
    write_id = laid.insert((9, "loaded"))
    directory = laid.location / tables.delta_name(write_id, write_id)
    for file in directory.iterdir():
        file.unlink()
    (directory / "000000_0").write_bytes(tables.orc_bytes(struct_text({"value": "string", "id": "int"}), [("new", 9)]))
    before = by_hive_3(laid.location, SAME_NAMES, laid.write_ids())
    assert before[-1] == (write_id, merge.bucket_property(0, 0), 0, (9, "s:new"))
    own.good("major_compact", "--table", laid.full_name)
    assert by_hive_3(laid.location, SAME_NAMES, laid.write_ids()) == before


# --- Hive 4 -----------------------------------------------------------------------------------------------------------

QUESTIONS = (
    "select *, row__id from {} order by a",
    "select a from {} where c = 'old'",
    "select a from {} where c is null order by a",
)


def answers(
    hiveserver: HiveServer, name: str, settings: Mapping[str, str], questions: Sequence[str] = QUESTIONS
) -> list[list[str]]:
    """What Hive says to each question, by batches and row by row: the same."""
    found = []
    for vectorized in ("true", "false"):
        with hiveserver.hive.session({**settings, "hive.vectorized.execution.enabled": vectorized}) as session:
            found.append([[repr(row) for row in session.run(question.format(name))] for question in questions])
    assert found[0] == found[1]
    return found[0]


# "option" is what the columns of other cases are read by, below
@pytest.mark.parametrize(
    "how", amount(["by position", "hive-site.xml"], long=["by position", "option", "hive-site.xml"])
)
def test_hive_4_reads_as_its_setting_says(
    how: str,
    jobs: Jobs,
    hive4_metastore: Metastore,
    hiveserver: HiveServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hive = hiveserver.hive
    name = f"named_{len(how)}"
    loaded = tmp_path / "loaded"
    loaded.mkdir()
    (loaded / "000000_0").write_bytes(tables.orc_bytes("struct<c:string,a:string>", [("3", "4")]))
    hive.run(
        f"create table {name} (a string, b string) stored as orc tblproperties ('transactional' = 'true')",
        f"insert into {name} values ('1', 'old')",
        f"alter table {name} change column b c string",
        f"insert into {name} values ('2', 'new')",
        f"load data local inpath '{loaded / '000000_0'}' into table {name}",
    )
    settings, more = (OFF, ("--set", f"{POSITIONAL}=false")) if how != "by position" else ({}, ())
    if how == "hive-site.xml":
        write_settings(tmp_path / "conf", {"hive.metastore.uris": hive4_metastore.uri, **OFF})
        monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path / "conf"))
        more = ()
    before = answers(hiveserver, name, settings)
    assert before[1:2] != answers(hiveserver, name, {} if settings else OFF, QUESTIONS[1:2])
    assert bool(before[1]) == (how == "by position")  # the renamed column's old value
    service = Service(jobs=jobs, uri=hive4_metastore.uri)
    ran = service.good("major_compact", "--table", f"default.{name}", *more)
    assert ran.states == ["ready for cleaning"], ran
    assert answers(hiveserver, name, settings) == before
    hive.run(f"drop table {name}")


CASE = "orc.schema.evolution.case.sensitive"
WAYS = amount(
    [("more", "false"), ("none", "true")],
    long=[(conversion, vectorized) for conversion in ("more", "none") for vectorized in ("true", "false")],
)


def everywhere(hiveserver: HiveServer, question: str, settings: Mapping[str, str] | None = None) -> list[list[Row]]:
    """The answers of fetch tasks, by batches and row by row, then those of tasks."""
    found = []
    for conversion, vectorized in WAYS:
        with hiveserver.hive.session(
            {
                **(settings or {}),
                "hive.fetch.task.conversion": conversion,
                "hive.vectorized.execution.enabled": vectorized,
                "hive.explain.user": "false",
            }
        ) as session:
            plan = [line.strip() for (line,) in session.run(f"explain {question}")]
            assert ("Tez" in plan) == (conversion == "none"), plan
            found.append(sorted(session.run(question)))
    return found


def load(hiveserver: HiveServer, name: str, columns: str, directory: Path) -> None:
    """A table (a int, b int) with the row (1, 2) and a file of other columns that was brought by LOAD DATA."""
    (directory / "000000_0").write_bytes(tables.orc_bytes(columns, [(3, 4)]))
    hiveserver.hive.run(
        f"create table {name} (a int, b int) stored as orc tblproperties ('transactional' = 'true')",
        f"insert into {name} values (1, 2)",
        f"load data local inpath '{directory / '000000_0'}' into table {name}",
    )


def test_hive_4_does_not_read_by_name_for_a_table_property(
    jobs: Jobs, hive4_metastore: Metastore, hiveserver: HiveServer, tmp_path: Path
) -> None:
    """HiveConf has the setting of its own, so Utilities.copyTableJobPropertiesToConf does not take the table's."""
    load(hiveserver, "asked", "struct<b:int,a:int>", tmp_path)
    plain, filtered = "select a, b, row__id from asked", "select a, b from asked where b = 4"
    before = everywhere(hiveserver, plain)
    assert [[row[:2] for row in rows] for rows in before] == [[(1, 2), (3, 4)]] * len(WAYS)
    assert everywhere(hiveserver, filtered) == [[(3, 4)]] * len(WAYS)
    hiveserver.hive.run(f"alter table asked set tblproperties ('{POSITIONAL}' = 'false')")
    assert everywhere(hiveserver, plain) == before
    by_name = everywhere(hiveserver, plain, OFF)
    assert [[row[:2] for row in rows] for rows in by_name] == [[(1, 2), (4, 3)]] * len(WAYS)
    # splits do obey it (Utilities.copyTablePropertiesToConf): tasks lose the row for its stripe's statistics
    assert everywhere(hiveserver, filtered) == [[(3, 4)] if way == "more" else [] for way, _ in WAYS]
    ran = Service(jobs=jobs, uri=hive4_metastore.uri).good("major_compact", "--table", "default.asked")
    assert ran.states == ["ready for cleaning"], ran
    assert everywhere(hiveserver, plain) == before
    assert everywhere(hiveserver, filtered) == [[(3, 4)]] * len(WAYS)
    hiveserver.hive.run("drop table asked")


def test_hive_4_reads_names_of_any_case_for_a_table_property(
    jobs: Jobs, hive4_metastore: Metastore, hiveserver: HiveServer, tmp_path: Path
) -> None:
    """HiveConf has no such setting: the table's gets into the job, unless the site has one."""
    load(hiveserver, "capitals", "struct<B:int,A:int>", tmp_path)
    question = "select coalesce(a, -1), coalesce(b, -1) from capitals"
    assert everywhere(hiveserver, question, OFF) == [[(-1, -1), (1, 2)]] * len(WAYS)
    hiveserver.hive.run(f"alter table capitals set tblproperties ('{CASE}' = 'false')")
    before = everywhere(hiveserver, question, OFF)
    assert before == [[(1, 2), (4, 3)]] * len(WAYS)
    assert everywhere(hiveserver, question, {**OFF, CASE: "true"}) == [[(-1, -1), (1, 2)]] * len(WAYS)
    ran = Service(jobs=jobs, uri=hive4_metastore.uri).good(
        "major_compact", "--table", "default.capitals", "--set", f"{POSITIONAL}=false"
    )
    assert ran.states == ["ready for cleaning"], ran
    assert everywhere(hiveserver, question, OFF) == before
    hiveserver.hive.run("drop table capitals")
