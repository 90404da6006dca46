"""Insert-only tables of every format: written by Hive 4, compacted and cleaned by us, and used by Hive again."""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from judges.hive_client import hive_rows, snapshot_rows
from long_runs import amount
from servers.hiveserver import HiveServer
from servers.sql import Row, Session

import acidlib
from integration.conftest import HIVE_POOL
from integration.harness import visible
from integration.hive4_jobs import Service

pytestmark = pytest.mark.live
DATABASE = "inserted"
COLUMNS = "id int, v string, d decimal(10,2), ts timestamp, a array<int>"
BOTH = ("minor", "major")
CODEC = "mapreduce.output.fileoutputformat.compress.codec"
GZIP = {"hive.exec.compress.output": "true", CODEC: "org.apache.hadoop.io.compress.GzipCodec"}
DEFLATE = {"hive.exec.compress.output": "true", CODEC: "org.apache.hadoop.io.compress.DefaultCodec"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A way to store a table; `joined`: its files become one.

    What is written where has nothing to do with the format: one of the two compactions does for it.
    """

    name: str
    stored: str
    joined: bool = False
    compactions: tuple[str, ...] = BOTH
    properties: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


KINDS = [
    Kind(name="orc", stored="orc", joined=True),
    Kind(name="parquet", stored="parquet", joined=True, compactions=amount(("minor",), long=BOTH)),
    Kind(name="text", stored="textfile", joined=True, compactions=amount(("major",), long=BOTH)),
    Kind(name="gzipped", stored="textfile", joined=True, settings=GZIP, compactions=amount(("minor",), long=BOTH)),
    Kind(name="deflated", stored="textfile", settings=DEFLATE, compactions=amount(("major",), long=BOTH)),
    Kind(
        name="headers",
        stored="textfile",
        properties={"skip.header.line.count": "1"},
        compactions=amount(("minor",), long=BOTH),
    ),
    Kind(name="avro", stored="avro", compactions=amount(("minor",), long=BOTH)),
    Kind(name="rcfile", stored="rcfile", compactions=amount(("major",), long=BOTH)),
    Kind(name="sequencefile", stored="sequencefile", compactions=amount(("minor",), long=BOTH)),
]


@pytest.fixture(scope="module")
def sql(hiveserver: HiveServer) -> Iterator[Session]:
    with hiveserver.hive.session() as session:
        session.run(f"create database {DATABASE}")
        session.run(f"use {DATABASE}")
        yield session


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a kind, and what it is expected to hold."""

    sql: Session
    kind: Kind
    location: Path
    rows: list[Row]

    @property
    def full(self) -> str:
        return f"{DATABASE}.{self.kind.name}"

    def insert(self, *ids: int, aborted: bool = False) -> None:
        """One transaction."""
        for key, value in {**self.kind.settings, "hive.test.rollbacktxn": str(aborted).lower()}.items():
            self.sql.run(f"set {key}={value}")
        selects = " union all ".join(
            f"select {n}, {'null' if n % 5 == 0 else repr(f'text {n}')}, cast({n}.25 as decimal(10,2)),"
            f" cast('2024-02-{n % 27 + 1:02d} 10:11:12.123' as timestamp), array({n}, null)"
            for n in ids
        )
        self.sql.run(f"insert into {self.kind.name} select * from ({selects}) x")
        self.sql.run("set hive.test.rollbacktxn=false")
        self.sql.run("set hive.exec.compress.output=false")
        if not aborted:
            self.rows.extend((n,) for n in ids)

    def read(self, *, vectorised: bool = True) -> list[Row]:
        self.sql.run(f"set hive.vectorized.execution.enabled={str(vectorised).lower()}")
        self.sql.run("set hive.fetch.task.conversion=more")
        return sorted(self.sql.run(f"select * from {self.kind.name}"), key=lambda row: row[0])

    def check_snapshot(self, service: Service) -> None:
        """Our reader finds what Hive does; it reads ORC, Parquet and text."""
        table = acidlib.connect(service.uri).table(self.full)
        if self.kind.stored not in ("orc", "parquet", "textfile"):
            with pytest.raises(acidlib.RefusedError, match=f"^Cannot read .*{self.kind.name}"):
                table.to_arrow()
            return
        types = dict(column.split(" ") for column in COLUMNS.split(", "))
        if self.kind.stored == "textfile":
            with pytest.raises(acidlib.RefusedError, match=r"column a of .*: values of type list<int> are not read"):
                table.to_arrow()
            del types["a"]
        hives = [row[: len(types)] for row in self.read()]
        assert snapshot_rows(table.to_arrow(columns=types), types) == hive_rows(hives, [*types.values()], row_ids=False)

    def data_files(self, directory: str = ".") -> set[Path]:
        """The files that hold rows, below a directory of the table."""
        found = (self.location / directory).rglob("*")
        return {path for path in found if path.is_file() and path.name[0] not in "_." and path.stat().st_size}


def make(sql: Session, kind: Kind) -> Table:
    properties = {"transactional": "true", "transactional_properties": "insert_only", **kind.properties}
    told = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    sql.run(f"create table {kind.name} ({COLUMNS}) stored as {kind.stored} tblproperties ({told})")
    (location,) = [
        row[1] for row in sql.run(f"describe formatted {kind.name}") if (row[0] or "").strip() == "Location:"
    ]
    return Table(sql=sql, kind=kind, location=Path(unquote(urlsplit(location).path)), rows=[])


def only(entries: list[dict[str, Any]]) -> dict[str, Any]:
    (entry,) = entries
    return entry


# the last three are copied as they are, whatever is in them
@pytest.mark.parametrize("kind", amount(KINDS[:-2], long=KINDS), ids=str)
def test_compacted_and_cleaned_by_us_read_and_written_by_hive(sql: Session, service: Service, kind: Kind) -> None:
    table = make(sql, kind)
    table.insert(1, 2)
    table.insert(3)
    table.insert(100, 200, aborted=True)
    table.insert(4, 5)
    before = table.read()
    # the first line of each file is no row where Hive takes it for a header
    assert [row[:1] for row in before] == sorted(table.rows) or (kind.name == "headers" and before)
    table.check_snapshot(service)
    if "minor" in kind.compactions:
        compacted_to_a_delta(table, service)
    if "major" in kind.compactions:
        compacted_to_a_base(table, service)
    if kind.joined:  # the others are copied: what is written beside a base has nothing to do with the format
        before = table.read()
        table.insert(9, 10)
        assert len(table.read()) == len(before) + 2


def compacted_to_a_delta(table: Table, service: Service) -> None:
    before = table.read()
    files = table.data_files() - table.data_files("delta_0000003_0000003_0000")

    entry = only(service.good("minor_compact", "--table", table.full).compactions)
    assert entry["state"] == "ready for cleaning", entry["reason"]
    (delta,) = entry["output_directories"]
    assert delta.startswith("delta_0000001_0000004_v")
    assert len(table.data_files(delta)) == (1 if table.kind.joined else len(files))
    assert table.read() == table.read(vectorised=False) == before
    table.check_snapshot(service)
    assert only(service.clean("--table", table.full))["state"] == "succeeded"
    # the aborted one is Hive's own cleaner's business, unless something covers it
    assert delta in visible(table.location)
    assert not [name for name in visible(table.location) if name.startswith("delta_") and name.count("_") == 3 and
                name != delta and not name.startswith("delta_0000003")]  # fmt: skip
    assert table.read() == before
    table.check_snapshot(service)


def compacted_to_a_base(table: Table, service: Service) -> None:
    table.insert(6, 7, 8)
    before = table.read()
    files = table.data_files() - table.data_files("delta_0000003_0000003_0000")
    table.sql.run(f"alter table {table.kind.name} compact 'major'")
    entry = only(service.good("major_compact").compactions)
    assert (entry["table"], entry["state"]) == (table.kind.name, "ready for cleaning"), entry["reason"]
    (base,) = entry["output_directories"]
    assert len(table.data_files(base)) == (1 if table.kind.joined else len(files))
    assert table.read() == table.read(vectorised=False) == before
    table.check_snapshot(service)
    assert only(service.clean("--table", table.full))["state"] == "succeeded"
    assert visible(table.location) == [base]
    assert table.read() == before
    table.check_snapshot(service)


# of ORC the full ACID tables are compacted by Hive once more, as well
@pytest.mark.parametrize("kind", amount(KINDS[1:2], long=KINDS[:3]), ids=str)
def test_hive_compacts_what_we_compacted(sql: Session, service: Service, kind: Kind) -> None:
    table = make(sql, Kind(name=f"{kind.name}_again", stored=kind.stored, joined=True))
    table.insert(1)
    table.insert(2)
    service.good("major_compact", "--table", table.full)
    table.insert(3)
    table.insert(4)
    before = table.read()
    sql.run(f"alter table {table.kind.name} compact 'major' pool '{HIVE_POOL}'")
    number = max(int(row[0]) for row in _shown(sql, table))
    end = time.monotonic() + 90
    while (state := next(row[5] for row in _shown(sql, table) if int(row[0]) == number)) in ("initiated", "working"):
        assert time.monotonic() < end, state
        time.sleep(0.5)
    assert state == "ready for cleaning", _shown(sql, table)
    (newest,) = [name for name in visible(table.location) if name.startswith("base_0000004")]
    assert [row[:-1] for row in table.read()] == [row[:-1] for row in before]
    if kind.name != "parquet":  # where Hive 4.0.1's own compaction writes null elements of an array as 0
        assert table.read() == before
    service.clean("--table", table.full)
    assert visible(table.location) == [newest]
    assert [row[:-1] for row in table.read()] == [row[:-1] for row in before]


def _shown(sql: Session, table: Table) -> list[Row]:
    return [row for row in sql.run("show compactions") if row[2] == table.kind.name]
